//! Checks the bytes of a message once at the door; after that reading is plain and can't fail.

use flatbuffers::VerifierOptions;
use thiserror::Error;

mod node;
mod request;

pub use self::node::NodeView;
pub use self::request::{request, request_id};
use crate::generated::frame as fb;
use crate::limits::{MAX_DEPTH, MAX_FRAME_BYTES, MAX_FRAME_TABLES, MAX_ROWS};
use crate::types::{
    Alarm, Channel, ConnectionState, FrameKind, Hello, Limits, Metadata, NameError, NameProblem,
    Outcome, PvId, Reply, RequestProblem, Severity, ValueType,
};
use crate::varint::{Deltas, holds};

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

fn verified<'a, T>(
    bytes: &'a [u8],
    limit: usize,
    max_tables: usize,
    expected: &'static str,
    root: impl Fn(&VerifierOptions, &'a [u8]) -> Result<T, flatbuffers::InvalidFlatbuffer>,
) -> Result<T, DecodeError> {
    let length = bytes.len();
    if length > limit {
        return Err(DecodeError::TooLong {
            bytes: length,
            limit,
        });
    }
    if length < 8 || !flatbuffers::buffer_has_identifier(bytes, expected, false) {
        return Err(DecodeError::WrongKind { expected });
    }
    let options = VerifierOptions {
        max_depth: MAX_DEPTH,
        max_tables,
        // A vector may be named more than once in damaged bytes; twice the length bounds the work.
        max_apparent_size: length.saturating_mul(2).saturating_add(1024),
        ignore_missing_null_terminator: true,
    };
    root(&options, bytes).map_err(|error| DecodeError::Damaged(error.to_string()))
}

/// Checks a frame from the relay.
///
/// # Errors
/// When the bytes are not a whole, consistent frame.
pub fn frame(bytes: &[u8]) -> Result<FrameView<'_>, DecodeError> {
    let frame = verified(
        bytes,
        MAX_FRAME_BYTES,
        MAX_FRAME_TABLES,
        fb::FRAME_IDENTIFIER,
        fb::root_as_frame_with_opts,
    )?;
    let view = FrameView { bytes, frame };
    view.check()?;
    Ok(view)
}

/// A frame that was checked.
#[derive(Clone, Copy, Debug)]
pub struct FrameView<'a> {
    bytes: &'a [u8],
    frame: fb::Frame<'a>,
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
    text: Option<flatbuffers::Vector<'a, flatbuffers::ForwardsUOffset<&'a str>>>,
}

impl<'a> BlobView<'a> {
    /// A scalar 64-bit integer as it is, for Int64 and UInt64.
    #[must_use]
    pub fn word(&self) -> Option<u64> {
        let word: [u8; 8] = self.data.try_into().ok()?;
        Some(u64::from_le_bytes(word)).filter(|_| !self.array)
    }

    /// The strings of a string PV.
    pub fn text(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.text.into_iter().flat_map(|text| text.iter())
    }
}

impl<'a> FrameView<'a> {
    /// What the frame does.
    #[must_use]
    pub fn kind(&self) -> FrameKind {
        FrameKind::from_number(self.frame.kind().0)
    }

    /// The tick that the frame brings the client to.
    #[must_use]
    pub fn tick(&self) -> u64 {
        self.frame.tick()
    }

    /// The tick that the frame follows on.
    #[must_use]
    pub fn prev_tick(&self) -> u64 {
        self.frame.prev_tick()
    }

    /// Metadata that changed.
    pub fn metadata(&self) -> impl Iterator<Item = (PvId, Metadata)> + use<'a> {
        self.frame
            .metadata()
            .into_iter()
            .flat_map(|list| list.iter())
            .map(|meta| {
                (
                    PvId(meta.id()),
                    Metadata {
                        value_type: ValueType::from_number(meta.type_().0),
                        element_count: meta.element_count(),
                        units: meta.units().unwrap_or_default().to_owned(),
                        precision: Some(meta.precision()).filter(|digits| *digits >= 0),
                        choices: meta.choices().map(to_strings).unwrap_or_default(),
                        display: limits(meta.display()),
                        control: limits(meta.control()),
                        warning: limits(meta.warning()),
                        alarm: limits(meta.alarm()),
                        description: meta.description().unwrap_or_default().to_owned(),
                        epoch: meta.epoch(),
                        type_id: meta.type_id().unwrap_or_default().to_owned(),
                        form: meta.form().unwrap_or_default().to_owned(),
                    },
                )
            })
    }

    /// Connection and access changes, in order.
    pub fn channels(&self) -> impl Iterator<Item = (PvId, Channel)> + use<'a> {
        self.frame
            .channels()
            .into_iter()
            .flat_map(|list| list.iter())
            .map(|channel| {
                (
                    PvId(channel.id()),
                    Channel {
                        state: ConnectionState::from_number(channel.state().0),
                        since_ns: channel.since_ns(),
                        read: channel.read(),
                        write: channel.write(),
                        puts: channel.puts(),
                    },
                )
            })
    }

    /// How many numeric rows there are.
    #[must_use]
    pub fn numbers_len(&self) -> usize {
        self.frame
            .numbers()
            .map_or(0, |numbers| numbers.count() as usize)
    }

    /// How many blob rows there are.
    #[must_use]
    pub fn blobs_len(&self) -> usize {
        self.frame.blobs().map_or(0, |blobs| blobs.len())
    }

    /// Numeric updates, in order.
    pub fn numbers(&self) -> impl Iterator<Item = NumberRow> + use<'a> {
        self.frame.numbers().into_iter().flat_map(|numbers| {
            let mut ids = Deltas::new(column(numbers.ids()), 0);
            let mut times = Deltas::new(column(numbers.times()), numbers.base_time_ns());
            let values = numbers.values().map_or(&[][..], |values| values.bytes());
            values.chunks_exact(8).map(move |value| NumberRow {
                id: PvId(ids.advance() as u32),
                time_ns: times.advance(),
                value: f64::from_le_bytes(value.try_into().expect("chunks of eight")),
            })
        })
    }

    /// Strings and arrays, in order.
    pub fn blobs(&self) -> impl Iterator<Item = BlobView<'a>> + use<'a> {
        let start = self.bytes.as_ptr() as usize;
        self.frame
            .blobs()
            .into_iter()
            .flat_map(|list| list.iter())
            .map(move |blob| {
                let value_type = ValueType::from_number(blob.type_().0);
                let words = blob.data().map_or(&[][..], |words| words.bytes());
                let length = value_type.element_bytes().unwrap_or(0) * blob.count() as usize;
                let data = &words[..length.min(words.len())];
                BlobView {
                    id: PvId(blob.id()),
                    time_ns: blob.time_ns(),
                    value_type,
                    array: blob.array(),
                    count: blob.count(),
                    data,
                    data_offset: if data.is_empty() {
                        0
                    } else {
                        data.as_ptr() as usize - start
                    },
                    structure: blob.structure().map(|node| NodeView { node, start }),
                    partial: blob.partial(),
                    text: blob.text(),
                }
            })
    }

    /// Rows whose alarm changed, by ascending row.
    pub fn alarms(&self) -> impl Iterator<Item = AlarmRow> + use<'a> {
        self.frame
            .alarms()
            .into_iter()
            .flat_map(|list| list.iter())
            .map(|row| AlarmRow {
                row: row.row(),
                alarm: Alarm {
                    severity: Severity::from_number(row.severity()),
                    status: row.status(),
                },
            })
    }

    /// Rows whose user tag or alarm message changed, by ascending row.
    pub fn details(&self) -> impl Iterator<Item = DetailRow<'a>> + use<'a> {
        self.frame
            .details()
            .into_iter()
            .flat_map(|list| list.iter())
            .map(|row| DetailRow {
                row: row.row(),
                user_tag: row.user_tag(),
                message: row.message().unwrap_or_default(),
            })
    }

    /// Rows that values are missing before, by ascending row.
    pub fn skips(&self) -> impl Iterator<Item = SkipRow> + use<'a> {
        self.frame
            .skips()
            .into_iter()
            .flat_map(|list| list.iter())
            .map(|row| SkipRow {
                row: row.row(),
                count: row.count(),
            })
    }

    /// Each row's number in its PV's stream; in every kind of frame but Update.
    #[must_use]
    pub fn sequences(&self) -> Option<impl Iterator<Item = u32> + use<'a>> {
        self.frame.sequences().map(|list| list.iter())
    }

    /// The request that `reply` answers.
    #[must_use]
    pub fn reply_to(&self) -> u32 {
        self.frame.reply_to()
    }

    /// The answer, if the frame carries one that this program knows.
    #[must_use]
    pub fn reply(&self) -> Option<Reply> {
        let frame = &self.frame;
        if let Some(hello) = frame.reply_as_hello() {
            return Some(Reply::Hello(Hello {
                relay_version: hello.relay_version().unwrap_or_default().to_owned(),
                relay_instance: hello.relay_instance(),
                max_request_bytes: hello.max_request_bytes(),
                max_subscriptions: hello.max_subscriptions(),
                ack_interval_ms: hello.ack_interval_ms(),
                not_found_after_ms: hello.not_found_after_ms(),
            }));
        }
        if let Some(answer) = frame.reply_as_subscribed() {
            let (ids, errors) = (ids(answer.ids()), name_errors(answer.errors()));
            return Some(Reply::Subscribed { ids, errors });
        }
        if let Some(answer) = frame.reply_as_unsubscribed() {
            return Some(Reply::Unsubscribed {
                ids: ids(answer.ids()),
            });
        }
        if let Some(answer) = frame.reply_as_got() {
            let (ids, errors) = (ids(answer.ids()), name_errors(answer.errors()));
            return Some(Reply::Got { ids, errors });
        }
        if let Some(pong) = frame.reply_as_pong() {
            return Some(Reply::Pong {
                client_time_ns: pong.client_time_ns(),
                relay_time_ns: pong.relay_time_ns(),
            });
        }
        if let Some(done) = frame.reply_as_put_done() {
            return Some(Reply::PutDone {
                outcome: Outcome::from_number(done.outcome().0),
                message: done.message().unwrap_or_default().to_owned(),
            });
        }
        if let Some(done) = frame.reply_as_rpc_done() {
            return Some(Reply::RpcDone {
                outcome: Outcome::from_number(done.outcome().0),
                message: done.message().unwrap_or_default().to_owned(),
            });
        }
        frame.reply_as_request_error().map(|error| Reply::Error {
            problem: RequestProblem::from_number(error.problem().0),
            message: error.message().unwrap_or_default().to_owned(),
        })
    }

    /// What a server answered to an Rpc.
    #[must_use]
    pub fn rpc_result(&self) -> Option<NodeView<'a>> {
        let start = self.bytes.as_ptr() as usize;
        let done = self.frame.reply_as_rpc_done()?;
        done.result().map(|node| NodeView { node, start })
    }

    /// What the flatbuffer's own verifier can't know: that columns fit each other.
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
        if let Some(columns) = self.frame.numbers() {
            fits(holds(column(columns.ids()), numbers), "ids", numbers)?;
            fits(holds(column(columns.times()), numbers), "times", numbers)?;
            let values = columns.values().map_or(0, |values| values.len());
            fits(values == numbers, "values", numbers)?;
        }
        for blob in self.frame.blobs().into_iter().flat_map(|list| list.iter()) {
            let count = blob.count() as usize;
            let element = ValueType::from_number(blob.type_().0).element_bytes();
            let whole = match element {
                Some(bytes) => {
                    let words = blob.data().map_or(0, |words| words.len());
                    count
                        .checked_mul(bytes)
                        .is_some_and(|length| length.div_ceil(8) == words)
                }
                None if blob.type_().0 == ValueType::Structure.number() => {
                    let start = self.bytes.as_ptr() as usize;
                    (blob.structure()).is_some_and(|node| NodeView { node, start }.fits())
                }
                None => blob.text().map_or(0, |text| text.len()) == count,
            };
            // A type that this program doesn't know has a layout that it can't check: it is shown
            // as a value of unknown type, never read.
            let known =
                blob.type_().0 == 0 || ValueType::from_number(blob.type_().0) != ValueType::Unknown;
            fits(whole || !known, "blob", count)?;
        }
        let ascending = |previous: &mut Option<u32>, row: u32| {
            let ok = (row as usize) < rows && previous.is_none_or(|before| before < row);
            *previous = Some(row);
            ok
        };
        let mut previous = None;
        let alarms_fit = self
            .alarms()
            .all(|alarm| ascending(&mut previous, alarm.row));
        fits(alarms_fit, "alarms", rows)?;
        let mut previous = None;
        let details_fit = self
            .details()
            .all(|detail| ascending(&mut previous, detail.row));
        fits(details_fit, "details", rows)?;
        let mut previous = None;
        let skips_fit = self.skips().all(|skip| ascending(&mut previous, skip.row));
        fits(skips_fit, "skips", rows)?;
        let answer_fits = self.rpc_result().is_none_or(|node| node.fits());
        fits(answer_fits, "result", rows)?;
        let sequences = self.frame.sequences().map_or(0, |list| list.len());
        let wanted = if self.kind() == FrameKind::Update {
            0
        } else {
            rows
        };
        fits(sequences == wanted, "sequences", rows)
    }
}

type Strings<'a> = flatbuffers::Vector<'a, flatbuffers::ForwardsUOffset<&'a str>>;
type NameErrors<'a> = flatbuffers::Vector<'a, flatbuffers::ForwardsUOffset<fb::NameError<'a>>>;

fn column(bytes: Option<flatbuffers::Vector<'_, u8>>) -> &[u8] {
    bytes.map_or(&[], |bytes| bytes.bytes())
}

fn to_strings(list: Strings<'_>) -> Vec<String> {
    list.iter().map(str::to_owned).collect()
}

fn ids(list: Option<flatbuffers::Vector<'_, u32>>) -> Vec<PvId> {
    list.into_iter()
        .flat_map(|ids| ids.iter())
        .map(PvId)
        .collect()
}

fn limits(limits: Option<fb::Limits<'_>>) -> Limits {
    limits.map_or(Limits::NONE, |limits| Limits {
        low: limits.low(),
        high: limits.high(),
    })
}

fn name_errors(list: Option<NameErrors<'_>>) -> Vec<NameError> {
    list.into_iter()
        .flat_map(|errors| errors.iter())
        .map(|error| NameError {
            index: error.index(),
            problem: NameProblem::from_number(error.problem().0),
            message: error.message().unwrap_or_default().to_owned(),
        })
        .collect()
}
