//! What is wrong with a message of a server, and how libca and the PV are told.

use std::fmt;

use super::super::messages::Header;
use super::super::messages::command::{CREATE_CH_FAIL, CREATE_CHAN, EVENT_ADD, READ_NOTIFY};

/// Statuses that take the place of a message that libca would read wrongly. libca passes them to
/// the callback of the request. No server has statuses with these numbers.
const SHORT: u32 = 8_001 << 3;
const TYPE: u32 = 8_002 << 3;
const STATUS: u32 = 8_003 << 3;

/// A message that libca would read wrongly, or whose end is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Lie {
    /// More elements than bytes.
    Short {
        dbr_type: u16,
        count: u32,
        size: u32,
    },
    /// A type that doesn't exist.
    Type(u16),
    /// A server never sends a message of this kind, or not to this client.
    Command(u16),
    /// Too many bytes, or not a multiple of eight.
    Size { command: u16, size: u32 },
    /// An answer to a request that was not sent, or that was already answered.
    Unasked { command: u16, id: u32 },
    /// A status that only libca itself reports.
    Status(u32),
    /// An error whose text is not terminated, or that refers to no request.
    Error,
}

impl fmt::Display for Lie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short {
                dbr_type,
                count,
                size,
            } => write!(f, "{count} elements of type {dbr_type} in {size} bytes"),
            Self::Type(dbr_type) => write!(f, "values of the unknown type {dbr_type}"),
            Self::Command(command) => write!(f, "messages of the kind {command}"),
            Self::Size { command, size } => {
                write!(f, "a message of the kind {command} with {size} bytes")
            }
            Self::Unasked { command, id } => {
                write!(
                    f,
                    "a message of the kind {command} for the number {id}, which it was not asked for"
                )
            }
            Self::Status(status) => write!(f, "the status {status}"),
            Self::Error => f.write_str("an error without a request or without an end"),
        }
    }
}

impl Lie {
    /// Replaces a message for a PV by one that tells the PV's callback. Returns whether it could;
    /// otherwise libca must not see the message.
    pub(super) fn replace(self, header: &Header, bytes: &mut [u8], has_status: bool) -> bool {
        let status = match self {
            Self::Short { .. } => SHORT,
            Self::Type(_) if header.command == CREATE_CHAN => {
                // libca then searches the name again.
                bytes[..2].copy_from_slice(&CREATE_CH_FAIL.to_be_bytes());
                return true;
            }
            Self::Type(_) => TYPE,
            Self::Status(_) => STATUS,
            _ => return false,
        };
        let is_answer = matches!(header.command, EVENT_ADD | READ_NOTIFY);
        if is_answer && has_status {
            bytes[8..12].copy_from_slice(&status.to_be_bytes());
        }
        is_answer && has_status
    }

    /// What is wrong with a message that was replaced, in words that follow "the server sends";
    /// `None` for a status of the server itself.
    pub(in super::super) fn of_status(status: i32, dbr_type: i64, count: i64) -> Option<String> {
        Some(match u32::try_from(status).ok()? {
            SHORT => format!("{count} elements of type {dbr_type} in too few bytes"),
            TYPE => format!("values of the unknown type {dbr_type}"),
            STATUS => "a status that no server may send".to_owned(),
            _ => return None,
        })
    }
}
