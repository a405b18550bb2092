//! Requests (gets, puts and procedure calls) and their results.

use std::time::Duration;

use super::array::ElementType;

/// A value to put, or an argument of a procedure.
///
/// It need not have the PV's type but must fit it exactly: 300 does not fit an 8-bit integer, and
/// 2.5 does not fit any integer. For an enumeration it is the index or the label of a choice.
#[derive(Clone, Debug, PartialEq)]
pub enum PutValue {
    /// Any number.
    Number(f64),
    /// Integer.
    Int64(i64),
    /// Unsigned integer.
    UInt64(u64),
    /// Boolean.
    Boolean(bool),
    /// String, the label of a choice, or a number in decimal.
    Text(String),
    /// Array of numbers or booleans.
    Array {
        /// Type of an element.
        element: ElementType,
        /// The elements in this machine's byte order.
        bytes: Vec<u8>,
    },
    /// Array of strings.
    TextArray(Vec<String>),
}

impl PutValue {
    /// Checks that C++ can read it.
    pub(super) fn check(&self) -> Result<(), OpError> {
        let Self::Array { element, bytes } = self else {
            return Ok(());
        };
        let size = element.element_bytes();
        let whole = size != 0 && bytes.len() % size == 0;
        let flags = *element != ElementType::Bool || bytes.iter().all(|&byte| byte <= 1);
        if whole && flags {
            Ok(())
        } else {
            Err(OpError::Invalid(format!(
                "{} bytes are not an array of {element:?}",
                bytes.len()
            )))
        }
    }
}

/// How a value is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PutOptions {
    /// Whether the put is done only when the record and all processing that it caused have
    /// finished. Otherwise it is done when the value is written.
    pub wait: bool,
    /// The time limit.
    pub timeout: Duration,
}

/// Why an operation failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpError {
    /// The server was not found in time, or the operation was given up: nothing was sent.
    #[error("not connected; nothing was sent")]
    NotConnected,
    /// The connection broke, or the client was dropped. It is unknown whether the server has
    /// carried it out.
    #[error("disconnected; unknown whether it was done")]
    Disconnected,
    /// No answer arrived in time. The server may have carried it out, or may do so later.
    #[error("timed out; unknown whether it was done")]
    TimedOut,
    /// The server refused, for this reason.
    #[error("the server refused: {0}")]
    Remote(String),
    /// The server reported that a put failed, for this reason, but the PV holds the value or could not be read
    /// afterwards: it is unknown whether the value was written.
    #[error(
        "the server reported a failure: {0}; but the PV holds the value now, or can't be read: it may have been written"
    )]
    Unsure(String),
    /// Nothing was sent, because the value or name is not valid for the PV; the reason.
    #[error("{0}")]
    Invalid(String),
}

/// The request.
pub(super) enum Request {
    Get,
    Put {
        /// Path to the field, names separated by dots.
        field: String,
        value: PutValue,
        wait: bool,
    },
    Call {
        /// Address and port of the server; empty for the one that a search finds.
        server: String,
        arguments: Vec<(String, PutValue)>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn array_that_is_not_whole_is_refused() {
        let array = |element, bytes| PutValue::Array { element, bytes }.check();

        assert_eq!(array(ElementType::Int16, vec![0; 4]), Ok(()));
        assert_eq!(array(ElementType::Int16, vec![]), Ok(()));
        assert!(array(ElementType::Int16, vec![0; 3]).is_err());
        assert!(array(ElementType::Text, vec![0; 3]).is_err());
        assert!(array(ElementType::Bool, vec![0, 1, 2]).is_err());
    }
}
