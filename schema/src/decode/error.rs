//! Why bytes are not a message of this protocol.

use thiserror::Error;

/// Reason why a message is refused.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeError {
    /// Longer than the limit.
    #[error("message of {bytes} bytes is longer than the limit of {limit}")]
    TooLong {
        /// Length of the message.
        bytes: usize,
        /// Maximum length.
        limit: usize,
    },
    /// A message of the other direction, or of another protocol.
    #[error("file identifier is not {expected}")]
    WrongKind {
        /// Expected identifier.
        expected: &'static str,
    },
    /// The flatbuffer itself is broken.
    #[error("damaged flatbuffer: {0}")]
    Damaged(String),
    /// A list is longer than the limit.
    #[error("{count} {what} are more than the limit of {limit}")]
    TooMany {
        /// What the list contains.
        what: &'static str,
        /// Its length.
        count: usize,
        /// Maximum length.
        limit: usize,
    },
    /// Columns do not fit each other.
    #[error("column {column} doesn't fit {rows} rows")]
    ColumnMismatch {
        /// The column.
        column: &'static str,
        /// Number of rows in the frame.
        rows: usize,
    },
    /// A required part is absent or of an unknown type.
    #[error("{0} is missing or unknown")]
    Missing(&'static str),
}
