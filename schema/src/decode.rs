//! Checks the bytes of a message once at the door; after that reading is plain and can't fail.

use thiserror::Error;

#[rustfmt::skip]
#[path = "generated/layout.rs"]
mod layout;
mod node;
mod request;
mod table;

pub use self::node::NodeView;
pub use self::request::{request, request_id};
use self::table::{Budget, Table};
use crate::generated::frame as fb;
use crate::limits::{MAX_DEPTH, MAX_FRAME_BYTES, MAX_FRAME_TABLES, MAX_ROWS};
use crate::lz4;
use crate::types::{
    Alarm, Connection, ConnectionState, FrameKind, Hello, Limits, Metadata, NameError, NameProblem,
    Outcome, PvId, Reply, RequestProblem, Severity, SkipCause, ValueType,
};
use crate::varint::{Deltas, holds};

/// Bytes that a row's id and time take at most, as differences in LEB128.
const MAX_OTHER_BYTES: usize = 20;

/// Why bytes are no message of this protocol.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeError {
    /// Longer than the limit.
    #[error("message of {bytes} bytes is longer than the limit of {limit}")]
    TooLong {
        /// Length of the message.
        bytes: usize,
        /// Most that is read.
        limit: usize,
    },
    /// The other direction's message, or none of ours.
    #[error("file identifier is not {expected}")]
    WrongKind {
        /// Identifier that was looked for.
        expected: &'static str,
    },
    /// The flatbuffer itself is broken.
    #[error("damaged flatbuffer: {0}")]
    Damaged(String),
    /// A list is longer than the limit.
    #[error("{count} {what} are more than the limit of {limit}")]
    TooMany {
        /// What there is too much of.
        what: &'static str,
        /// How many.
        count: usize,
        /// Most that is read.
        limit: usize,
    },
    /// Columns that should belong together don't.
    #[error("column {column} doesn't fit {rows} rows")]
    ColumnMismatch {
        /// The column.
        column: &'static str,
        /// How many rows the frame has.
        rows: usize,
    },
    /// A part that must be there is not, or of a type that this program doesn't know.
    #[error("{0} is missing or unknown")]
    Missing(&'static str),
}

/// Whether the bytes may be a message of this kind.
fn at_the_door(bytes: &[u8], limit: usize, expected: &'static str) -> Result<(), DecodeError> {
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

/// Most bytes that are looked at. A vector may be named more than once in damaged bytes; twice the
/// length bounds the work.
fn apparent_bytes(bytes: &[u8]) -> usize {
    bytes.len().saturating_mul(2).saturating_add(1024)
}

/// Checks a frame from the relay.
///
/// # Errors
/// When the bytes are not a whole, consistent frame.
pub fn frame(bytes: &[u8]) -> Result<FrameView<'_>, DecodeError> {
    at_the_door(bytes, MAX_FRAME_BYTES, fb::FRAME_IDENTIFIER)?;
    let budget = Budget {
        tables: MAX_FRAME_TABLES,
        bytes: apparent_bytes(bytes),
        depth: MAX_DEPTH,
    };
    let frame = table::checked(bytes, &layout::FRAME, budget)
        .map_err(|at| DecodeError::Damaged(format!("byte {at}")))?;
    let mut view = FrameView {
        bytes,
        frame,
        columns: Vec::new(),
    };
    view.unpack()?;
    view.check()?;
    Ok(view)
}

/// A frame that was checked.
#[derive(Clone, Debug)]
pub struct FrameView<'a> {
    bytes: &'a [u8],
    frame: Table<'a>,
    /// Of a frame with packed columns: ids, times and values.
    columns: Vec<u8>,
}

/// One numeric update.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NumberRow {
    /// The PV.
    pub id: PvId,
    /// Nanoseconds past the POSIX epoch.
    pub time_ns: i64,
    /// The value.
    pub value: f64,
}

/// Numeric updates, one after the other.
#[derive(Clone, Debug, Default)]
pub struct NumberRows<'a> {
    ids: Deltas<'a>,
    times: Deltas<'a>,
    values: &'a [[u8; 8]],
}

impl Iterator for NumberRows<'_> {
    type Item = NumberRow;

    #[inline(always)]
    fn next(&mut self) -> Option<NumberRow> {
        let (value, rest) = self.values.split_first()?;
        self.values = rest;
        Some(NumberRow {
            id: PvId(self.ids.advance() as u32),
            time_ns: self.times.advance(),
            value: f64::from_le_bytes(*value),
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.values.len(), Some(self.values.len()))
    }
}

impl ExactSizeIterator for NumberRows<'_> {
    fn len(&self) -> usize {
        self.values.len()
    }
}

/// Alarm of one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlarmRow {
    /// Numbers first, blobs after.
    pub row: u32,
    /// The alarm.
    pub alarm: Alarm,
}

/// User tag and alarm message of one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DetailRow<'a> {
    /// Numbers first, blobs after.
    pub row: u32,
    /// User tag of the time stamp.
    pub user_tag: i32,
    /// The alarm's message.
    pub message: &'a str,
}

/// Values left out just before a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SkipRow {
    /// Numbers first, blobs after.
    pub row: u32,
    /// How many.
    pub count: u32,
    /// Why.
    pub cause: SkipCause,
}

/// One update that is no double.
#[derive(Clone, Copy, Debug)]
pub struct BlobView<'a> {
    /// The PV.
    pub id: PvId,
    /// Nanoseconds past the POSIX epoch.
    pub time_ns: i64,
    /// Element type.
    pub value_type: ValueType,
    /// Whether it is an array, however short.
    pub array: bool,
    /// Number of elements.
    pub count: u32,
    /// Little-endian elements; empty for strings.
    pub data: &'a [u8],
    /// Where `data` starts in the message: a multiple of eight.
    pub data_offset: usize,
    /// The fields of a structure.
    pub structure: Option<NodeView<'a>>,
    /// `structure` holds the fields that changed alone.
    pub partial: bool,
    blob: Table<'a>,
}

impl<'a> BlobView<'a> {
    fn new(bytes: &'a [u8], blob: Table<'a>) -> Self {
        let value_type = ValueType::from_number(blob.u8(fb::Blob::VT_TYPE_));
        let count = blob.u32(fb::Blob::VT_COUNT);
        let data = elements(value_type, count, blob.vector(fb::Blob::VT_DATA, 8));
        Self {
            id: PvId(blob.u32(fb::Blob::VT_ID)),
            time_ns: blob.u64(fb::Blob::VT_TIME_NS) as i64,
            value_type,
            array: blob.bool(fb::Blob::VT_ARRAY),
            count,
            data,
            data_offset: offset_in(bytes, data),
            structure: (blob.table(fb::Blob::VT_STRUCTURE)).map(|node| NodeView { node, bytes }),
            partial: blob.bool(fb::Blob::VT_PARTIAL),
            blob,
        }
    }

    /// Whether what it says of itself fits what it holds.
    fn fits(&self) -> bool {
        let words = self.blob.vector(fb::Blob::VT_DATA, 8).len() / 8;
        let number = self.blob.u8(fb::Blob::VT_TYPE_);
        match self.value_type {
            ValueType::Structure => self.structure.is_some_and(|node| node.fits()),
            // A type that this program doesn't know has a layout that it can't check: it is shown
            // as a value of unknown type, never read.
            ValueType::Unknown if number != 0 => true,
            value_type => match value_type.element_bytes() {
                Some(bytes) => words_hold(words, self.count, bytes),
                None => self.blob.count(fb::Blob::VT_TEXT) == self.count as usize,
            },
        }
    }

    /// A scalar 64-bit integer as it is, for Int64 and UInt64.
    #[must_use]
    pub fn word(&self) -> Option<u64> {
        let word: [u8; 8] = self.data.try_into().ok()?;
        Some(u64::from_le_bytes(word)).filter(|_| !self.array)
    }

    /// The strings of a string PV.
    pub fn text(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.blob.texts(fb::Blob::VT_TEXT)
    }
}

/// The elements in a vector of words; the last word may have more bytes than they need.
fn elements(value_type: ValueType, count: u32, words: &[u8]) -> &[u8] {
    let bytes = value_type.element_bytes().unwrap_or(0);
    &words[..bytes.saturating_mul(count as usize).min(words.len())]
}

/// Whether so many words are what so many elements need.
fn words_hold(words: usize, count: u32, element_bytes: usize) -> bool {
    let bytes = (count as usize).checked_mul(element_bytes);
    bytes.is_some_and(|bytes| bytes.div_ceil(8) == words)
}

/// Where a part of a message starts in it; 0 when it is empty.
fn offset_in(bytes: &[u8], part: &[u8]) -> usize {
    if part.is_empty() {
        return 0;
    }
    part.as_ptr() as usize - bytes.as_ptr() as usize
}

impl<'a> FrameView<'a> {
    /// What the frame does.
    #[must_use]
    pub fn kind(&self) -> FrameKind {
        FrameKind::from_number(self.frame.u8(fb::Frame::VT_KIND))
    }

    /// The tick that the frame brings the client to.
    #[must_use]
    pub fn tick(&self) -> u64 {
        self.frame.u64(fb::Frame::VT_TICK)
    }

    /// The tick that the frame follows on.
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

    /// Connection and access changes, in order.
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

    /// How many numeric rows there are.
    #[must_use]
    pub fn numbers_len(&self) -> usize {
        let numbers = self.frame.table(fb::Frame::VT_NUMBERS);
        numbers.map_or(0, |numbers| numbers.u32(fb::Numbers::VT_COUNT) as usize)
    }

    /// How many blob rows there are.
    #[must_use]
    pub fn blobs_len(&self) -> usize {
        self.frame.count(fb::Frame::VT_BLOBS)
    }

    /// Numeric updates, in order.
    #[must_use]
    pub fn numbers(&self) -> NumberRows<'_> {
        let Some(numbers) = self.frame.table(fb::Frame::VT_NUMBERS) else {
            return NumberRows::default();
        };
        let (ids, times, values) = if self.columns.is_empty() {
            (
                numbers.vector(fb::Numbers::VT_IDS, 1),
                numbers.vector(fb::Numbers::VT_TIMES, 1),
                numbers.vector(fb::Numbers::VT_VALUES, 8),
            )
        } else {
            let (ids_bytes, times_bytes) = packed_bytes(numbers);
            let (ids, rest) = (self.columns.split_at_checked(ids_bytes)).unwrap_or_default();
            let (times, values) = rest.split_at_checked(times_bytes).unwrap_or_default();
            (ids, times, values)
        };
        let base = numbers.u64(fb::Numbers::VT_BASE_TIME_NS) as i64;
        NumberRows {
            ids: Deltas::new(ids, 0),
            times: Deltas::new(times, base),
            values: values.as_chunks().0,
        }
    }

    /// Unpacks the columns of numbers, if they are packed.
    fn unpack(&mut self) -> Result<(), DecodeError> {
        let Some(numbers) = self.frame.table(fb::Frame::VT_NUMBERS) else {
            return Ok(());
        };
        let packed = numbers.vector(fb::Numbers::VT_PACKED, 1);
        if packed.is_empty() {
            return Ok(());
        }
        let rows = self.numbers_len();
        let (ids_bytes, times_bytes) = packed_bytes(numbers);
        let columns = (ids_bytes.checked_add(times_bytes))
            .filter(|others| rows <= MAX_ROWS && *others <= rows * MAX_OTHER_BYTES)
            .and_then(|others| lz4::unpacked(packed, others, rows));
        self.columns = columns.ok_or(DecodeError::ColumnMismatch {
            column: "packed",
            rows,
        })?;
        Ok(())
    }

    /// Strings and arrays, in order.
    pub fn blobs(&self) -> impl Iterator<Item = BlobView<'a>> + use<'a> {
        let bytes = self.bytes;
        (self.frame.tables(fb::Frame::VT_BLOBS)).map(move |blob| BlobView::new(bytes, blob))
    }

    /// Rows whose alarm changed, by ascending row.
    pub fn alarms(&self) -> impl Iterator<Item = AlarmRow> + use<'a> {
        let rows = self.frame.vector(fb::Frame::VT_ALARMS, 8).as_chunks().0;
        rows.iter()
            .map(|&[a, b, c, d, low, high, severity, _]| AlarmRow {
                row: u32::from_le_bytes([a, b, c, d]),
                alarm: Alarm {
                    severity: Severity::from_number(severity),
                    status: u16::from_le_bytes([low, high]),
                },
            })
    }

    /// Rows whose user tag or alarm message changed, by ascending row.
    pub fn details(&self) -> impl Iterator<Item = DetailRow<'a>> + use<'a> {
        let rows = self.frame.tables(fb::Frame::VT_DETAILS);
        rows.map(|row| DetailRow {
            row: row.u32(fb::Detail::VT_ROW),
            user_tag: row.u32(fb::Detail::VT_USER_TAG) as i32,
            message: row.text(fb::Detail::VT_MESSAGE),
        })
    }

    /// Rows that values are missing before, by ascending row; a row may come once for each cause.
    pub fn skips(&self) -> impl Iterator<Item = SkipRow> + use<'a> {
        let rows = self.frame.vector(fb::Frame::VT_SKIPS, 12).as_chunks().0;
        rows.iter()
            .map(|&[a, b, c, d, e, f, g, h, cause, ..]: &[u8; 12]| SkipRow {
                row: u32::from_le_bytes([a, b, c, d]),
                count: u32::from_le_bytes([e, f, g, h]),
                cause: SkipCause::from_number(cause),
            })
    }

    /// Why the values before a `CatchUp`'s rows were left out.
    #[must_use]
    pub fn skip_cause(&self) -> SkipCause {
        SkipCause::from_number(self.frame.u8(fb::Frame::VT_SKIP_CAUSE))
    }

    /// Each row's number in its PV's stream; in every kind of frame but Update.
    #[must_use]
    pub fn sequences(&self) -> Option<impl Iterator<Item = u32> + use<'a>> {
        let sequences = self.frame.vector(fb::Frame::VT_SEQUENCES, 4).as_chunks().0;
        (!sequences.is_empty()).then(|| sequences.iter().map(|number| u32::from_le_bytes(*number)))
    }

    /// The request that `reply` answers.
    #[must_use]
    pub fn reply_to(&self) -> u32 {
        self.frame.u32(fb::Frame::VT_REPLY_TO)
    }

    fn reply_table(&self) -> Option<(fb::ReplyBody, Table<'a>)> {
        let kind = fb::ReplyBody(self.frame.u8(fb::Frame::VT_REPLY_TYPE));
        Some((kind, self.frame.table(fb::Frame::VT_REPLY)?))
    }

    /// The answer, if the frame carries one that this program knows.
    #[must_use]
    pub fn reply(&self) -> Option<Reply> {
        let (kind, body) = self.reply_table()?;
        Some(match kind {
            fb::ReplyBody::Hello => Reply::Hello(Hello {
                relay_version: body.text(fb::Hello::VT_RELAY_VERSION).to_owned(),
                relay_instance: body.u64(fb::Hello::VT_RELAY_INSTANCE),
                max_request_bytes: body.u32(fb::Hello::VT_MAX_REQUEST_BYTES),
                max_subscriptions: body.u32(fb::Hello::VT_MAX_SUBSCRIPTIONS),
                ack_interval_ms: body.u32(fb::Hello::VT_ACK_INTERVAL_MS),
                not_found_after_ms: body.u32(fb::Hello::VT_NOT_FOUND_AFTER_MS),
                authenticate: body.u8(fb::Hello::VT_AUTHENTICATE) != 0,
                user: body.text(fb::Hello::VT_USER).to_owned(),
                expires_in_ms: body.u64(fb::Hello::VT_EXPIRES_IN_MS),
            }),
            fb::ReplyBody::Subscribed => Reply::Subscribed {
                ids: ids(body.vector(fb::Subscribed::VT_IDS, 4)),
                errors: name_errors(body, fb::Subscribed::VT_ERRORS),
            },
            fb::ReplyBody::Unsubscribed => Reply::Unsubscribed {
                ids: ids(body.vector(fb::Unsubscribed::VT_IDS, 4)),
            },
            fb::ReplyBody::Got => Reply::Got {
                ids: ids(body.vector(fb::Got::VT_IDS, 4)),
                errors: name_errors(body, fb::Got::VT_ERRORS),
            },
            fb::ReplyBody::Pong => Reply::Pong {
                client_time_ns: body.u64(fb::Pong::VT_CLIENT_TIME_NS) as i64,
                relay_time_ns: body.u64(fb::Pong::VT_RELAY_TIME_NS) as i64,
            },
            fb::ReplyBody::PutDone => Reply::PutDone {
                outcome: Outcome::from_number(body.u8(fb::PutDone::VT_OUTCOME)),
                message: body.text(fb::PutDone::VT_MESSAGE).to_owned(),
            },
            fb::ReplyBody::RpcDone => Reply::RpcDone {
                outcome: Outcome::from_number(body.u8(fb::RpcDone::VT_OUTCOME)),
                message: body.text(fb::RpcDone::VT_MESSAGE).to_owned(),
            },
            fb::ReplyBody::RequestError => Reply::Error {
                problem: RequestProblem::from_number(body.u8(fb::RequestError::VT_PROBLEM)),
                message: body.text(fb::RequestError::VT_MESSAGE).to_owned(),
            },
            _ => return None,
        })
    }

    /// What a server answered to an Rpc.
    #[must_use]
    pub fn rpc_result(&self) -> Option<NodeView<'a>> {
        let (kind, done) = self.reply_table()?;
        let result = done.table(fb::RpcDone::VT_RESULT);
        let node = result.filter(|_| kind == fb::ReplyBody::RpcDone)?;
        let bytes = self.bytes;
        Some(NodeView { node, bytes })
    }

    /// The value read back after a Put, if that isn't what was put.
    #[must_use]
    pub fn put_readback(&self) -> Option<NodeView<'a>> {
        let (kind, done) = self.reply_table()?;
        let readback = done.table(fb::PutDone::VT_READBACK);
        let node = readback.filter(|_| kind == fb::ReplyBody::PutDone)?;
        let bytes = self.bytes;
        Some(NodeView { node, bytes })
    }

    /// What no description of a table can say: that columns fit each other.
    fn check(&self) -> Result<(), DecodeError> {
        let numbers = self.numbers_len();
        let rows = numbers + self.blobs_len();
        if rows > MAX_ROWS {
            return Err(DecodeError::TooMany {
                what: "rows",
                count: rows,
                limit: MAX_ROWS,
            });
        }
        let fits = |fits: bool, column: &'static str, rows: usize| {
            if fits {
                Ok(())
            } else {
                Err(DecodeError::ColumnMismatch { column, rows })
            }
        };
        let columns = self.numbers();
        fits(holds(columns.ids.column(), numbers), "ids", numbers)?;
        fits(holds(columns.times.column(), numbers), "times", numbers)?;
        fits(columns.values.len() == numbers, "values", numbers)?;
        for blob in self.blobs() {
            fits(blob.fits(), "blob", blob.count as usize)?;
        }
        fits(
            ascend(self.alarms().map(|row| row.row), rows),
            "alarms",
            rows,
        )?;
        fits(
            ascend(self.details().map(|row| row.row), rows),
            "details",
            rows,
        )?;
        // Several causes may have left out values before one row.
        let mut least = 0;
        let skips_fit = self.skips().all(|skip| {
            let ok = (skip.row as usize) < rows && least <= skip.row;
            least = skip.row;
            ok
        });
        fits(skips_fit, "skips", rows)?;
        let answer = self.rpc_result().or_else(|| self.put_readback());
        let answer_fits = answer.is_none_or(|node| node.fits());
        fits(answer_fits, "result", rows)?;
        let sequences = self.frame.count(fb::Frame::VT_SEQUENCES);
        let wanted = if self.kind() == FrameKind::Update {
            0
        } else {
            rows
        };
        fits(sequences == wanted, "sequences", rows)
    }
}

/// Whether the numbers of marked rows ascend and are of rows that are there.
fn ascend(mut marked: impl Iterator<Item = u32>, rows: usize) -> bool {
    let mut least = 0;
    marked.all(|row| {
        let ok = row >= least && (row as usize) < rows;
        least = row.saturating_add(1);
        ok
    })
}

/// How long ids and times are in packed columns.
fn packed_bytes(numbers: Table<'_>) -> (usize, usize) {
    (
        numbers.u32(fb::Numbers::VT_IDS_BYTES) as usize,
        numbers.u32(fb::Numbers::VT_TIMES_BYTES) as usize,
    )
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

fn ids(list: &[u8]) -> Vec<PvId> {
    let ids = list.as_chunks().0.iter();
    ids.map(|id| PvId(u32::from_le_bytes(*id))).collect()
}

fn name_errors(answer: Table<'_>, field: u16) -> Vec<NameError> {
    let errors = answer.tables(field);
    errors
        .map(|error| NameError {
            index: error.u32(fb::NameError::VT_INDEX),
            problem: NameProblem::from_number(error.u8(fb::NameError::VT_PROBLEM)),
            message: error.text(fb::NameError::VT_MESSAGE).to_owned(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use flatbuffers::{InvalidFlatbuffer, VerifierOptions};
    use proptest::prelude::*;

    use super::*;

    /// Every frame of the golden files.
    static GOLDEN: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden");
        let mut paths: Vec<_> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.with_extension("json").exists())
            .filter(|path| path.extension().is_some_and(|ending| ending == "bin"))
            .collect();
        paths.sort();
        paths
            .iter()
            .map(|path| std::fs::read(path).unwrap())
            .collect()
    });

    fn generated_verifier_takes(bytes: &[u8]) -> bool {
        let options = VerifierOptions {
            max_depth: MAX_DEPTH,
            max_tables: MAX_FRAME_TABLES,
            max_apparent_size: apparent_bytes(bytes),
            ignore_missing_null_terminator: true,
        };
        match fb::root_as_frame_with_opts(&options, bytes) {
            Ok(_) => true,
            // An answer that isn't there is none, whatever kind it is said to be.
            Err(error) => matches!(error, InvalidFlatbuffer::InconsistentUnion { .. }),
        }
    }

    fn taken(bytes: &[u8]) -> bool {
        let budget = Budget {
            tables: MAX_FRAME_TABLES,
            bytes: apparent_bytes(bytes),
            depth: MAX_DEPTH,
        };
        table::checked(bytes, &layout::FRAME, budget).is_ok()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        #[test]
        fn the_check_takes_nothing_that_the_generated_verifier_refuses(
            file in any::<prop::sample::Index>(),
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
            keep in any::<prop::sample::Index>(),
            cut: bool,
        ) {
            let mut bytes = file.get(&GOLDEN).clone();
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            if cut {
                bytes.truncate(keep.index(bytes.len()).max(8));
            }
            // It refuses more: fields outside of the size that a table says it has.
            prop_assert!(!taken(&bytes) || generated_verifier_takes(&bytes));
        }
    }
}
