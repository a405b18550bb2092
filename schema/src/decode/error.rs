//! Why bytes are not a message of this protocol.

use std::error::Error;
use std::fmt::{self, Display, Formatter};

/// Reason why a message is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeError {
    /// Longer than the limit.
    TooLong {
        /// Length of the message.
        bytes: usize,
        /// Maximum length.
        limit: usize,
    },
    /// A message of the other direction, or of another protocol.
    WrongKind {
        /// Expected identifier.
        expected: &'static str,
    },
    /// The flatbuffer itself is broken.
    Damaged(String),
    /// A list is longer than the limit.
    TooMany {
        /// What the list contains.
        what: &'static str,
        /// Its length.
        count: usize,
        /// Maximum length.
        limit: usize,
    },
    /// Columns do not fit each other.
    ColumnMismatch {
        /// The column.
        column: &'static str,
        /// Number of rows in the frame.
        rows: usize,
    },
    /// A required part is absent or of an unknown type.
    Missing(&'static str),
}

impl DecodeError {
    /// The error message. `Display` shows the same, but `std::fmt` takes 2 kB of a compressed module
    /// for browsers.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::TooLong { bytes, limit } => [
                "message of ",
                &bytes.to_string(),
                " bytes is longer than the limit of ",
                &limit.to_string(),
            ]
            .concat(),
            Self::WrongKind { expected } => ["file identifier is not ", expected].concat(),
            Self::Damaged(cause) => ["damaged flatbuffer: ", cause].concat(),
            Self::TooMany { what, count, limit } => [
                &count.to_string(),
                " ",
                what,
                " are more than the limit of ",
                &limit.to_string(),
            ]
            .concat(),
            Self::ColumnMismatch { column, rows } => {
                let rows = rows.to_string();
                ["column ", column, " doesn't fit ", &rows, " rows"].concat()
            }
            Self::Missing(what) => [what, " is missing or unknown"].concat(),
        }
    }
}

impl Display for DecodeError {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text())
    }
}

impl Error for DecodeError {}
