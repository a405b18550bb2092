//! Did this client get every update, in order, and with the right value?
//!
//! Every PV counts up by one, so that the value itself says which update it is: what the relay
//! calls the next update must be the next value, too. An array's elements are one more than the one
//! before, and the first of them counts.

use std::sync::atomic::{AtomicU32, Ordering};

use pvwire_schema::decode::{BlobView, DecodeError, FrameView, NumberRow, frame};
use pvwire_schema::types::{ConnectionState, FrameKind, PvId, Reply, ValueType};
use serde_json::{Value, json};
use thiserror::Error;

/// Why a stream is wrong beyond counting.
#[derive(Debug, Error)]
pub(crate) enum BadStream {
    #[error("a frame can't be decoded: {0}")]
    Frame(#[from] DecodeError),
    #[error("the relay took only {taken} of {requested} PVs")]
    Refused { taken: usize, requested: usize },
    #[error("a row of {0:?}, which isn't subscribed")]
    Stranger(PvId),
}

/// What was counted in one stream, or in all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Data frames.
    pub(crate) frames: u64,
    /// Their bytes, WebSocket headers included.
    pub(crate) bytes: u64,
    /// Rows.
    pub(crate) updates: u64,
    /// Frames that don't follow on the frame before.
    pub(crate) gaps: u64,
    /// Values that the relay left out and doesn't say so.
    pub(crate) missing: u64,
    /// Rows whose value came before.
    pub(crate) repeated: u64,
    /// Rows whose value the IOC never had.
    pub(crate) wrong_values: u64,
    /// Values that the relay says it left out.
    pub(crate) skipped: u64,
    /// Times that a PV was said to be disconnected or not found.
    pub(crate) lost: u64,
    /// Frames that brought the client up to date after it was behind.
    pub(crate) catch_ups: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, other: &Self) {
        self.frames += other.frames;
        self.bytes += other.bytes;
        self.updates += other.updates;
        self.gaps += other.gaps;
        self.missing += other.missing;
        self.repeated += other.repeated;
        self.wrong_values += other.wrong_values;
        self.skipped += other.skipped;
        self.lost += other.lost;
        self.catch_ups += other.catch_ups;
    }

    pub(crate) fn since(&self, start: &Self) -> Self {
        Self {
            frames: self.frames - start.frames,
            bytes: self.bytes - start.bytes,
            updates: self.updates - start.updates,
            gaps: self.gaps - start.gaps,
            missing: self.missing - start.missing,
            repeated: self.repeated - start.repeated,
            wrong_values: self.wrong_values - start.wrong_values,
            skipped: self.skipped - start.skipped,
            lost: self.lost - start.lost,
            catch_ups: self.catch_ups - start.catch_ups,
        }
    }

    pub(crate) fn json(&self) -> Value {
        json!({
            "frames": self.frames,
            "bytes": self.bytes,
            "updates": self.updates,
            "catchUps": self.catch_ups,
        })
    }

    /// What mustn't be.
    pub(crate) fn faults_json(&self) -> Value {
        json!({
            "gaps": self.gaps,
            "missing": self.missing,
            "repeated": self.repeated,
            "wrongValues": self.wrong_values,
            "skipped": self.skipped,
            "lost": self.lost,
        })
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Last {
    subscribed: bool,
    value: Option<f64>,
    sequence: u32,
}

/// One client's stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stream {
    tick: u64,
    requested: usize,
    taken: usize,
    /// PVs with a value.
    known: usize,
    last: Vec<Last>,
    sequences: Vec<u32>,
    skips: Vec<u32>,
    pub(crate) counts: Counts,
}

/// What a message was.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// The relay's greeting; how often to acknowledge, in milliseconds.
    Hello(u32),
    /// Updates, up to this tick.
    Data(u64),
    /// Something else.
    Other,
}

impl Stream {
    pub(crate) fn new(requested: usize) -> Self {
        Self {
            requested,
            ..Self::default()
        }
    }

    /// Whether every PV has a value.
    pub(crate) fn is_complete(&self) -> bool {
        self.taken == self.requested && self.known == self.requested
    }

    /// The last tick that it was brought to.
    pub(crate) fn tick(&self) -> u64 {
        self.tick
    }

    /// Whether what may come next is the same for both.
    pub(crate) fn is_where(&self, other: &Self) -> bool {
        self.tick == other.tick && self.last == other.last
    }

    /// Takes a message in. `length` is its length on the wire; `on_row` gets each row's time stamp
    /// in nanoseconds.
    pub(crate) fn take(
        &mut self,
        payload: &[u8],
        length: usize,
        mut on_row: impl FnMut(i64),
    ) -> Result<Seen, BadStream> {
        let view = frame(payload)?;
        match view.reply() {
            Some(Reply::Hello(hello)) => return Ok(Seen::Hello(hello.ack_interval_ms)),
            Some(Reply::Subscribed { ids, errors }) => {
                self.taken += ids.len() - errors.len();
                if !errors.is_empty() {
                    return Err(BadStream::Refused {
                        taken: self.taken,
                        requested: self.requested,
                    });
                }
                for id in ids {
                    self.subscribed(id);
                }
            }
            _ => {}
        }
        if view.kind() == FrameKind::Answer {
            return Ok(Seen::Other);
        }
        let kind = view.kind();
        if kind != FrameKind::Snapshot {
            self.counts.frames += 1;
            self.counts.bytes += length as u64;
            // A large value alone, which says nothing of a tick's other PVs and may be older.
            let is_large = kind == FrameKind::CatchUp && view.prev_tick() == view.tick();
            self.counts.catch_ups += u64::from(kind == FrameKind::CatchUp && !is_large);
            let goes_back = view.tick() < self.tick && !is_large;
            self.counts.gaps += u64::from(view.prev_tick() > self.tick || goes_back);
        }
        self.tick = self.tick.max(view.tick());
        let lost = [ConnectionState::Disconnected, ConnectionState::NotFound];
        let connections = view.connections();
        self.counts.lost += connections
            .filter(|(_, connection)| lost.contains(&connection.state))
            .count() as u64;
        self.rows(&view, &mut on_row)?;
        Ok(Seen::Data(self.tick))
    }

    fn subscribed(&mut self, id: PvId) {
        if id.index() >= self.last.len() {
            self.last.resize(id.index() + 1, Last::default());
        }
        self.last[id.index()].subscribed = true;
    }

    fn rows(
        &mut self,
        view: &FrameView<'_>,
        on_row: &mut impl FnMut(i64),
    ) -> Result<(), BadStream> {
        let kind = view.kind();
        let count = view.numbers_len() + view.blobs_len();
        self.sequences.clear();
        self.sequences
            .extend(view.sequences().into_iter().flatten());
        self.skips.clear();
        self.skips.resize(count, 0);
        for skip in view.skips() {
            if let Some(place) = self.skips.get_mut(skip.row as usize) {
                *place = place.wrapping_add(skip.count);
            }
        }
        let arrays = view.blobs().map(|blob| first_element(&blob));
        for (row, number) in view.numbers().chain(arrays).enumerate() {
            let last = (self.last.get_mut(number.id.index()))
                .filter(|last| last.subscribed)
                .ok_or(BadStream::Stranger(number.id))?;
            let sequence = match kind {
                FrameKind::Update => last.sequence.wrapping_add(1 + self.skips[row]),
                _ => self.sequences[row],
            };
            if number.value.fract() != 0.0 {
                self.counts.wrong_values += 1;
            } else if let Some(before) = last.value {
                let steps = sequence.wrapping_sub(last.sequence);
                let ahead = number.value - (before + f64::from(steps));
                match ahead {
                    0.0 => {}
                    1.0.. => self.counts.missing += ahead as u64,
                    _ => self.counts.repeated += 1,
                }
                if ahead != 0.0 {
                    tell_jump(view, &number, before, steps);
                }
                if kind != FrameKind::Snapshot {
                    self.counts.skipped += u64::from(steps.saturating_sub(1));
                }
            }
            self.known += usize::from(last.value.is_none());
            last.value = Some(number.value);
            last.sequence = sequence;
            if kind != FrameKind::Snapshot {
                self.counts.updates += 1;
                on_row(number.time_ns);
            }
        }
        Ok(())
    }
}

/// Says where a value isn't the one that its sequence number says, a few times in a run.
fn tell_jump(view: &FrameView<'_>, row: &NumberRow, before: f64, steps: u32) {
    static LEFT: AtomicU32 = AtomicU32::new(10);
    if LEFT.fetch_sub(1, Ordering::Relaxed).cast_signed() > 0 {
        let (kind, tick) = (view.kind(), view.tick());
        eprintln!(
            "{:?} is {} after {before} and {steps} updates, in a frame {kind:?} at tick {tick}",
            row.id, row.value
        );
    }
}

/// An array as the number that it counts by; one that doesn't count is not a number.
fn first_element(blob: &BlobView<'_>) -> NumberRow {
    let elements = blob.data.as_chunks::<8>().0;
    let first = (elements.first())
        .filter(|_| blob.array && blob.value_type == ValueType::Float64)
        .map_or(f64::NAN, |first| f64::from_le_bytes(*first));
    let counts = (elements.iter().zip(0_u32..))
        .all(|(element, place)| f64::from_le_bytes(*element) == first + f64::from(place));
    NumberRow {
        id: blob.id,
        time_ns: blob.time_ns,
        value: if counts { first } else { f64::NAN },
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use pvwire_schema::encode::{FrameEncoder, RowMarks};
    use pvwire_schema::types::{BlobValue, Connection, Skips};

    const PV: PvId = PvId(4);

    pub(crate) fn message(
        kind: FrameKind,
        tick: u64,
        prev_tick: u64,
        rows: &[(f64, RowMarks)],
    ) -> Vec<u8> {
        let mut encoder = FrameEncoder::new();
        encoder.begin(kind, tick, prev_tick);
        for (value, marks) in rows {
            encoder.number(PV, 0, *value, *marks);
        }
        encoder.finish().to_vec()
    }

    pub(crate) fn plain(value: f64) -> (f64, RowMarks<'static>) {
        (value, RowMarks::default())
    }

    pub(crate) fn at(value: f64, sequence: u32) -> (f64, RowMarks<'static>) {
        (
            value,
            RowMarks {
                sequence,
                ..RowMarks::default()
            },
        )
    }

    /// Counts after a snapshot at 7 (update 3, tick 1) and these messages.
    fn after(messages: &[Vec<u8>]) -> Counts {
        let mut stream = snapshot();
        for message in messages {
            stream.take(message, 10, |_| {}).unwrap();
        }
        stream.counts
    }

    pub(crate) fn snapshot() -> Stream {
        let mut encoder = FrameEncoder::new();
        encoder.begin(FrameKind::Snapshot, 1, 0);
        let (value, marks) = at(7.0, 3);
        encoder.number(PV, 0, value, marks);
        let reply = Reply::Subscribed {
            ids: vec![PV],
            errors: vec![],
        };
        encoder.reply(1, &reply);
        let mut stream = Stream::new(1);
        stream.take(encoder.finish(), 10, |_| {}).unwrap();
        assert!(stream.is_complete());
        stream
    }

    #[test]
    fn frame_of_a_large_value_follows_the_frame_of_its_tick() {
        let counts = after(&[
            message(FrameKind::Update, 2, 1, &[]),
            message(FrameKind::CatchUp, 2, 2, &[at(8.0, 4)]),
        ]);
        assert_eq!((counts.frames, counts.updates), (2, 1));
        assert_eq!((counts.catch_ups, counts.gaps, counts.skipped), (0, 0, 0));
    }

    #[test]
    fn every_update_in_order_is_right() {
        let counts = after(&[
            message(FrameKind::Update, 2, 1, &[plain(8.0), plain(9.0)]),
            message(FrameKind::Update, 5, 2, &[plain(10.0)]),
        ]);
        assert_eq!(
            counts,
            Counts {
                frames: 2,
                bytes: 20,
                updates: 3,
                ..Counts::default()
            }
        );
    }

    #[test]
    fn dropped_rows_are_missing() {
        let counts = after(&[message(FrameKind::Update, 2, 1, &[plain(10.0)])]);
        assert_eq!((counts.missing, counts.repeated, counts.gaps), (2, 0, 0));
    }

    #[test]
    fn value_that_came_before_is_repeated() {
        let counts = after(&[message(FrameKind::Update, 2, 1, &[plain(8.0), plain(8.0)])]);
        assert_eq!((counts.missing, counts.repeated), (0, 1));
    }

    #[test]
    fn value_that_no_counter_has_is_wrong() {
        for value in [8.5, f64::NAN] {
            let counts = after(&[message(FrameKind::Update, 2, 1, &[plain(value)])]);
            assert_eq!(
                (counts.missing, counts.repeated, counts.wrong_values),
                (0, 0, 1)
            );
        }
    }

    fn array(elements: &[f64]) -> Vec<u8> {
        let bytes: Vec<u8> = elements.iter().flat_map(|e| e.to_le_bytes()).collect();
        let count = elements.len() as u32;
        let value = BlobValue::array(ValueType::Float64, count, bytes);
        let mut encoder = FrameEncoder::new();
        encoder.begin(FrameKind::Update, 2, 1);
        encoder.blob(PV, 0, &value, RowMarks::default());
        encoder.finish().to_vec()
    }

    #[test]
    fn array_counts_by_its_first_element_and_all_must_follow() {
        let faults = |elements: &[f64]| {
            let counts = after(&[array(elements)]);
            (counts.missing, counts.repeated, counts.wrong_values)
        };
        assert_eq!(faults(&[8.0, 9.0, 10.0]), (0, 0, 0));
        assert_eq!(faults(&[9.0, 10.0, 11.0]), (1, 0, 0));
        assert_eq!(faults(&[7.0, 8.0, 9.0]), (0, 1, 0));
        assert_eq!(faults(&[8.0, 9.0, 11.0]), (0, 0, 1));
        assert_eq!(faults(&[]), (0, 0, 1));
    }

    #[test]
    fn row_of_a_pv_that_is_not_subscribed_is_an_error() {
        for stranger in [PvId(2), PvId(9)] {
            let mut encoder = FrameEncoder::new();
            encoder.begin(FrameKind::Update, 2, 1);
            encoder.number(stranger, 0, 1.0, RowMarks::default());
            let error = snapshot().take(encoder.finish(), 10, |_| {}).unwrap_err();
            assert!(matches!(error, BadStream::Stranger(id) if id == stranger));
        }
    }

    #[test]
    fn pv_that_is_lost_is_counted() {
        let mut stream = snapshot();
        for (tick, state) in ConnectionState::ALL.iter().enumerate() {
            let mut encoder = FrameEncoder::new();
            encoder.begin(FrameKind::Update, tick as u64 + 2, tick as u64 + 1);
            let connection = Connection {
                state: *state,
                since_ns: 0,
                read: false,
                write: false,
                puts: false,
                heard_ns: 0,
                write_unknown: false,
            };
            encoder.connection(PV, connection);
            stream.take(encoder.finish(), 10, |_| {}).unwrap();
        }
        assert_eq!(stream.counts.lost, 2, "disconnected and not found");
    }

    #[test]
    fn missing_frame_is_a_gap() {
        let counts = after(&[message(FrameKind::Update, 4, 3, &[plain(8.0)])]);
        assert_eq!((counts.gaps, counts.missing), (1, 0));
    }

    #[test]
    fn frames_that_changed_places_are_a_gap() {
        let first = message(FrameKind::Update, 2, 1, &[plain(8.0)]);
        let second = message(FrameKind::Update, 3, 2, &[plain(9.0)]);
        assert!(after(&[second, first]).gaps >= 2);
    }

    #[test]
    fn values_left_out_of_a_catch_up_are_skipped_and_nothing_worse() {
        let counts = after(&[message(FrameKind::CatchUp, 9, 1, &[at(12.0, 8)])]);
        assert_eq!((counts.skipped, counts.catch_ups), (4, 1));
        assert_eq!((counts.gaps, counts.missing), (0, 0));
    }

    #[test]
    fn values_that_the_relay_could_not_keep_are_skipped() {
        let marks = RowMarks {
            skips: Skips {
                relay: 2,
                ..Skips::NONE
            },
            ..RowMarks::default()
        };
        let counts = after(&[message(FrameKind::Update, 2, 1, &[(10.0, marks)])]);
        assert_eq!((counts.skipped, counts.missing), (2, 0));
    }
}
