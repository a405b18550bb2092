//! Decodes frames and requests: the bytes of a message are checked once, after which reading is plain
//! and can't fail.

mod check;
mod columns;
mod error;
#[rustfmt::skip]
#[path = "generated/layout.rs"]
mod layout;
mod node;
mod reply;
mod request;
mod rows;
mod table;
#[cfg(test)]
mod tests;

pub use self::error::DecodeError;
pub use self::node::NodeView;
pub use self::request::{position_of_request_id, request, request_id};
pub use self::rows::{AlarmRow, BlobView, DetailRow, NumberRow, NumberRows, SkipRow};
use self::rows::{elements, offset_in, words_hold};
use self::table::{Budget, Table};
use crate::generated::frame as fb;
use crate::limits::{MAX_DEPTH, MAX_FRAME_BYTES, MAX_FRAME_TABLES};
use crate::types::{Connection, ConnectionState, FrameKind, Limits, Metadata, PvId, ValueType};

/// Checks length and file identifier.
fn check_header(bytes: &[u8], limit: usize, expected: &'static str) -> Result<(), DecodeError> {
    let length = bytes.len();
    if length > limit {
        return Err(DecodeError::TooLong {
            bytes: length,
            limit,
        });
    }
    if bytes.get(4..8) != Some(expected.as_bytes()) {
        return Err(DecodeError::WrongKind { expected });
    }
    Ok(())
}

/// Maximum number of bytes to check. Damaged bytes may refer to a vector more than once; four times the
/// length limits the work. The description of a kind of tables is there once, may be as long as each of them, and is
/// checked with each.
fn apparent_bytes(bytes: &[u8]) -> usize {
    4 * bytes.len() + 1024
}

/// Checks a frame from the relay.
///
/// # Errors
/// When the bytes are not a complete, consistent frame.
pub fn frame(bytes: &[u8]) -> Result<FrameView<'_>, DecodeError> {
    check_header(bytes, MAX_FRAME_BYTES, fb::FRAME_IDENTIFIER)?;
    let budget = Budget {
        tables: MAX_FRAME_TABLES,
        bytes: apparent_bytes(bytes),
        depth: MAX_DEPTH,
    };
    let frame = table::checked(bytes, &layout::FRAME, budget)
        .map_err(|at| DecodeError::Damaged(["byte ", &at.to_string()].concat()))?;
    let mut view = FrameView {
        bytes,
        frame,
        columns: Vec::new(),
    };
    view.unpack()?;
    view.check()?;
    Ok(view)
}

/// A checked frame.
#[derive(Clone, Debug)]
pub struct FrameView<'a> {
    bytes: &'a [u8],
    frame: Table<'a>,
    /// Unpacked columns (ids, times, values) of a frame with packed ones.
    columns: Vec<u8>,
}

impl<'a> FrameView<'a> {
    /// How a client applies the frame.
    #[must_use]
    pub fn kind(&self) -> FrameKind {
        FrameKind::from_number(self.frame.u8(fb::Frame::VT_KIND))
    }

    /// The tick up to which the frame updates the client.
    #[must_use]
    pub fn tick(&self) -> u64 {
        self.frame.u64(fb::Frame::VT_TICK)
    }

    /// The tick of the frame that this one continues.
    #[must_use]
    pub fn prev_tick(&self) -> u64 {
        self.frame.u64(fb::Frame::VT_PREV_TICK)
    }

    /// Metadata that changed.
    pub fn metadata(&self) -> impl Iterator<Item = (PvId, Metadata)> + use<'a> {
        self.frame
            .tables(fb::Frame::VT_METADATA)
            .map(|meta| (PvId(meta.u32(fb::Metadata::VT_ID)), metadata(meta)))
    }

    /// Changes of connection state and access rights, in order.
    pub fn connections(&self) -> impl Iterator<Item = (PvId, Connection)> + use<'a> {
        self.frame
            .tables(fb::Frame::VT_CONNECTIONS)
            .map(|connection| {
                (
                    PvId(connection.u32(fb::Connection::VT_ID)),
                    Connection {
                        state: ConnectionState::from_number(
                            connection.u8(fb::Connection::VT_STATE),
                        ),
                        since_ns: connection.u64(fb::Connection::VT_SINCE_NS) as i64,
                        read: connection.bool(fb::Connection::VT_READ),
                        write: connection.bool(fb::Connection::VT_WRITE),
                        puts: connection.bool(fb::Connection::VT_PUTS),
                        heard_ns: connection.u64(fb::Connection::VT_HEARD_NS) as i64,
                        write_unknown: connection.bool(fb::Connection::VT_WRITE_UNKNOWN),
                    },
                )
            })
    }

    /// Id of the request that `reply` answers.
    #[must_use]
    pub fn reply_to(&self) -> u32 {
        self.frame.u32(fb::Frame::VT_REPLY_TO)
    }
}

fn metadata(meta: Table<'_>) -> Metadata {
    let text = |field| meta.text(field).to_owned();
    let limits = |field| {
        meta.table(field).map_or(Limits::NONE, |limits| Limits {
            low: limits.f64(fb::Limits::VT_LOW, f64::NAN),
            high: limits.f64(fb::Limits::VT_HIGH, f64::NAN),
        })
    };
    Metadata {
        value_type: ValueType::from_number(meta.u8(fb::Metadata::VT_TYPE_)),
        element_count: meta.u32(fb::Metadata::VT_ELEMENT_COUNT),
        units: text(fb::Metadata::VT_UNITS),
        precision: Some(meta.i16(fb::Metadata::VT_PRECISION, -1)).filter(|digits| *digits >= 0),
        choices: (meta.texts(fb::Metadata::VT_CHOICES).map(str::to_owned)).collect(),
        display: limits(fb::Metadata::VT_DISPLAY),
        control: limits(fb::Metadata::VT_CONTROL),
        warning: limits(fb::Metadata::VT_WARNING),
        alarm: limits(fb::Metadata::VT_ALARM),
        description: text(fb::Metadata::VT_DESCRIPTION),
        epoch: meta.u32(fb::Metadata::VT_EPOCH),
        type_id: text(fb::Metadata::VT_TYPE_ID),
        form: text(fb::Metadata::VT_FORM),
        missing_field: text(fb::Metadata::VT_MISSING_FIELD),
    }
}
