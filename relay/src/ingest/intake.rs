//! How do updates get from the libraries' callback threads to the tick thread without a wait?
//!
//! Values go through a bounded ring, so that every update reaches a client that keeps up. When the
//! ring is full the newest value of each PV waits in a table instead, and the gap in its sequence
//! tells how many were left out. Everything else (connection, access rights, metadata) is rare and
//! may not be lost, so it has a queue of its own.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::Thread;

use crossbeam_queue::{ArrayQueue, SegQueue};
use pvwire_schema::types::{Alarm, BlobValue, Detail, Expected, Filter, Metadata, PvId};

use crate::ingest::weight::Weight;
use crate::limits::memory::PvCharge;
use crate::ops::latency::AgeCounter;

/// Bytes of values that may wait in the ring, unless it is told otherwise: more than a tick brings.
const RING_BYTES: usize = 256 << 20;

/// Of the values of a structure or of strings one in so many is weighed.
const WEIGHED_EVERY: u32 = 64;

/// Rows that the ring holds: half a second of 100,000 updates/s, 5 MiB.
const RING_ROWS: usize = 1 << 16;

/// A value on its way through the relay.
#[derive(Clone, Debug, PartialEq)]
pub enum RowValue {
    /// A number, or an enum's index.
    Number(f64),
    /// A string, an array …; shared, never copied again.
    Blob(Arc<BlobValue>),
    /// A structure of which a part changed.
    Structure {
        /// All of it.
        whole: Arc<BlobValue>,
        /// What changed since the row before.
        part: Arc<BlobValue>,
    },
}

impl RowValue {
    /// The same for somebody who doesn't know the row before.
    #[must_use]
    pub fn into_whole(self) -> Self {
        match self {
            Self::Structure { whole, .. } => Self::Blob(whole),
            other => other,
        }
    }
}

/// One update of one PV.
#[derive(Clone, Debug)]
pub struct Row {
    /// The PV.
    pub pv: PvId,
    /// Counts the updates of this PV within `epoch`, from 1.
    pub sequence: u32,
    /// Updates before this one that the sequence counts and the source put into one.
    pub squashed: u32,
    /// The type and element count that the value belongs to; unique in the process.
    pub epoch: u32,
    /// Nanoseconds past the POSIX epoch.
    pub time_ns: i64,
    /// The value.
    pub value: RowValue,
    /// Alarm severity and condition.
    pub alarm: Alarm,
    /// What the source says beside it.
    pub detail: Option<Arc<Detail>>,
}

/// What happens to a PV beside its updates.
#[derive(Clone, Debug)]
pub enum Event {
    /// The relay began to look for it.
    Opened {
        /// Whether the relay takes puts to it.
        puts: bool,
        /// What it takes in memory is charged here.
        charge: Option<Arc<PvCharge>>,
    },
    /// Nobody has it any more: the relay stops looking for it and forgets its value.
    Closed,
    /// Whether the relay takes puts to it has changed.
    Puts(bool),
    /// It waits for its turn to be searched, which `Searched` tells.
    Queued,
    /// From now on it is searched; at once after `Opened` unless it is `Queued`.
    Searched,
    /// Found. `epoch` differs from the one before when type or element count do.
    Connected {
        /// See [`Row::epoch`].
        epoch: u32,
    },
    /// Its server was last heard from then, in nanoseconds past the POSIX epoch. Comes before
    /// `Disconnected` from sources that know.
    Heard(i64),
    /// Connected, but its server has stopped answering.
    Unresponsive {
        /// When it was last heard from, in nanoseconds past the POSIX epoch.
        heard_ns: i64,
    },
    /// Its server answers again.
    Responsive,
    /// The value must not be shown any more, as the PV may no longer be read. What comes when it may
    /// be read again is of this epoch.
    Withdrawn {
        /// See [`Row::epoch`].
        epoch: u32,
    },
    /// Lost.
    Disconnected,
    /// What this relay may do.
    Access {
        /// Read the value.
        read: bool,
        /// Write it.
        write: bool,
    },
    /// Found, but the source can't tell whether it may be written: that shows when a put is tried. It
    /// may be read.
    AccessUntried,
    /// Its server is there and has no such field, for this reason. Nothing that came before is valid.
    Missing {
        /// See [`Row::epoch`].
        epoch: u32,
        /// A sentence that says what there is.
        reason: String,
    },
    /// All that is known of how to draw it.
    Metadata(Box<Metadata>),
    /// Its description, of a source that tells it apart, empty if there is none; later `Metadata` has it
    /// too.
    Description(String),
    /// The number is that of a filtered PV.
    FilteredOpened {
        /// The PV.
        base: PvId,
        /// Which of its updates.
        filter: Filter,
        /// What its value takes in memory is charged here.
        charge: Option<Arc<PvCharge>>,
    },
    /// No client holds that filtered PV any more.
    FilteredClosed,
}

impl Event {
    /// Whether it shows that the server of the PV answers.
    #[must_use]
    pub fn is_sign_of_life(&self) -> bool {
        matches!(
            self,
            Self::Connected { .. } | Self::Missing { .. } | Self::Metadata(_) | Self::Responsive
        )
    }
}

/// An event and the opening of the PV that it belongs to.
#[derive(Clone, Debug)]
pub struct Notice {
    /// The PV.
    pub pv: PvId,
    /// Which opening: a late event of a closed PV must not be taken for one of its successor.
    pub opening: u32,
    /// What happened.
    pub event: Event,
}

/// What `drain` hands over.
#[derive(Clone, Debug)]
pub enum Taken {
    /// Something happened to a PV.
    Notice(Notice),
    /// A PV has a new value.
    Row(Row),
}

/// Where all sources leave what they receive.
#[derive(Debug)]
pub struct Intake {
    ring: ArrayQueue<Row>,
    /// Bytes of the values that were put into the ring since it was last drained.
    ring_bytes: AtomicUsize,
    max_ring_bytes: usize,
    overflow: Mutex<HashMap<PvId, Row>>,
    overflowed: AtomicBool,
    notices: SegQueue<Notice>,
    sleeping: AtomicBool,
    sleeper: OnceLock<Thread>,
    numbers: AtomicU32,
    array_bytes: ArrayBytes,
    ages: AgeCounter,
}

/// Bytes of array elements, by the way they came out of a library's hands.
#[derive(Debug, Default)]
pub struct ArrayBytes {
    copied: AtomicU64,
    shared: AtomicU64,
}

impl ArrayBytes {
    /// Copied in the callback, because the library uses its buffer again.
    pub fn copied_total(&self) -> u64 {
        self.copied.load(Ordering::Relaxed)
    }

    /// Left where the library had put them, owned together with it.
    pub fn shared_total(&self) -> u64 {
        self.shared.load(Ordering::Relaxed)
    }
}

impl Intake {
    /// An empty intake.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Self::bounded(RING_BYTES)
    }

    /// The same where values of so many bytes may wait in the ring; beyond that the newest of each PV does.
    #[must_use]
    pub fn bounded(max_ring_bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            max_ring_bytes,
            ..Self::with_ring(RING_ROWS)
        })
    }

    pub(crate) fn with_ring(rows: usize) -> Self {
        Self {
            ring: ArrayQueue::new(rows),
            ring_bytes: AtomicUsize::new(0),
            max_ring_bytes: RING_BYTES,
            overflow: Mutex::default(),
            overflowed: AtomicBool::new(false),
            notices: SegQueue::new(),
            sleeping: AtomicBool::new(false),
            sleeper: OnceLock::new(),
            numbers: AtomicU32::new(1),
            array_bytes: ArrayBytes::default(),
            ages: AgeCounter::default(),
        }
    }

    /// How arrays came in.
    pub fn array_bytes(&self) -> &ArrayBytes {
        &self.array_bytes
    }

    /// How old updates were on receipt.
    pub fn ages(&self) -> &AgeCounter {
        &self.ages
    }

    fn next_number(&self) -> u32 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Puts a row whose value has so many bytes where it waits for the next tick.
    #[inline]
    fn push(&self, row: Row, bytes: usize) {
        let row = if bytes > 0 && !self.takes_bytes(bytes) {
            Err(row)
        } else {
            self.ring.push(row)
        };
        if let Err(mut row) = row {
            let mut waiting = self.overflow.lock().unwrap_or_else(PoisonError::into_inner);
            match waiting.entry(row.pv) {
                Entry::Vacant(place) => {
                    place.insert(row);
                }
                Entry::Occupied(mut place) => {
                    row.squashed = row.squashed.saturating_add(place.get().squashed);
                    place.insert(row);
                }
            }
            self.overflowed.store(true, Ordering::Release);
        }
        self.wake();
    }

    /// Whether values of so many bytes more may wait in the ring.
    #[inline(never)]
    fn takes_bytes(&self, bytes: usize) -> bool {
        let before = self.ring_bytes.fetch_add(bytes, Ordering::Relaxed);
        // One value fits however large it is.
        before == 0 || before.saturating_add(bytes) <= self.max_ring_bytes
    }

    /// Leaves word of something that happened to a PV.
    pub fn notify(&self, notice: Notice) {
        self.notices.push(notice);
        self.wake();
    }

    /// Wakes the tick thread if it sleeps for want of work.
    pub fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.sleeping.load(Ordering::Relaxed)
            && self.sleeping.swap(false, Ordering::AcqRel)
            && let Some(sleeper) = self.sleeper.get()
        {
            sleeper.unpark();
        }
    }

    /// Makes the calling thread the one that `wake` wakes; says that it is about to park unless
    /// there is work. The caller must look at its own work between this and parking.
    pub fn announce_sleep(&self) {
        self.sleeper.get_or_init(std::thread::current);
        self.sleeping.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Takes `announce_sleep` back.
    pub fn awake(&self) {
        self.sleeping.store(false, Ordering::Relaxed);
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.ring.is_empty() && self.notices.is_empty() && !self.overflowed.load(Ordering::Acquire)
    }

    /// Hands over all that waits: each event before every row that came after it.
    pub fn drain(&self, mut take: impl FnMut(Taken)) {
        // A row that is in the ring by now came after its PV's events, which are therefore in
        // their queue by now; a row that comes later waits for the next call.
        self.ring_bytes.store(0, Ordering::Relaxed);
        let rows = self.ring.len();
        while let Some(notice) = self.notices.pop() {
            take(Taken::Notice(notice));
        }
        for _ in 0..rows {
            let Some(row) = self.ring.pop() else { break };
            take(Taken::Row(row));
        }
        if self.overflowed.swap(false, Ordering::AcqRel) {
            let waiting =
                mem::take(&mut *self.overflow.lock().unwrap_or_else(PoisonError::into_inner));
            waiting.into_values().for_each(|row| take(Taken::Row(row)));
        }
    }
}

/// One PV's way into the intake; belongs to one opening of it.
///
/// A source calls it from one thread at a time, as libca and pvxs do for one PV.
#[derive(Debug)]
pub struct Line {
    intake: Arc<Intake>,
    pv: PvId,
    opening: u32,
    epoch: AtomicU32,
    sequence: AtomicU32,
    /// Sequence of the first update since the last connection.
    first: AtomicU32,
    /// Counted in the sequence; to be told with the next update.
    squashed: AtomicU32,
    /// Bytes of the structure or strings that were weighed last; 0 before that.
    weight: AtomicUsize,
}

impl Line {
    /// Starts a line and tells the tick thread of it. `puts`: whether the relay takes puts to the
    /// PV.
    #[must_use]
    pub fn open(intake: &Arc<Intake>, pv: PvId, puts: bool) -> Self {
        Self::open_charged(intake, pv, puts, None)
    }

    /// Like the former, for a PV whose memory is charged to an owner.
    #[must_use]
    pub fn open_charged(
        intake: &Arc<Intake>,
        pv: PvId,
        puts: bool,
        charge: Option<Arc<PvCharge>>,
    ) -> Self {
        let opening = intake.next_number();
        let line = Self {
            intake: Arc::clone(intake),
            pv,
            opening,
            epoch: AtomicU32::new(opening),
            sequence: AtomicU32::new(0),
            first: AtomicU32::new(1),
            squashed: AtomicU32::new(0),
            weight: AtomicUsize::new(0),
        };
        line.event(Event::Opened { puts, charge });
        line
    }

    /// Which opening of the PV it belongs to.
    #[must_use]
    pub fn opening(&self) -> u32 {
        self.opening
    }

    /// Hands over an update. Allocates nothing and takes no lock while the ring has room.
    pub fn update(&self, time_ns: i64, value: RowValue, alarm: Alarm) {
        self.update_with(time_ns, value, alarm, None);
    }

    /// The same of a source that says more than value, time and alarm.
    pub fn update_with(
        &self,
        time_ns: i64,
        value: RowValue,
        alarm: Alarm,
        detail: Option<Arc<Detail>>,
    ) {
        // One writer at a time, so that load and store need not be one step.
        let sequence = self.sequence.load(Ordering::Relaxed).wrapping_add(1);
        self.sequence.store(sequence, Ordering::Relaxed);
        let epoch = self.epoch.load(Ordering::Relaxed);
        let squashed = self.squashed.load(Ordering::Relaxed);
        if squashed != 0 {
            self.squashed.store(0, Ordering::Relaxed);
        }
        if AgeCounter::is_sampled(sequence) && sequence != self.first.load(Ordering::Relaxed) {
            self.intake.ages.add_now(time_ns);
        }
        let bytes = match &value {
            RowValue::Number(_) => 0,
            RowValue::Blob(blob) | RowValue::Structure { whole: blob, .. } => {
                self.bytes_of(sequence, blob)
            }
        };
        let row = Row {
            pv: self.pv,
            sequence,
            squashed,
            epoch,
            time_ns,
            value,
            alarm,
            detail,
        };
        self.intake.push(row, bytes);
    }

    /// Bytes that a value takes in memory, about: of structures the figure is that of one of the last.
    #[inline(never)]
    fn bytes_of(&self, sequence: u32, blob: &BlobValue) -> usize {
        match blob {
            BlobValue::Int64(_) | BlobValue::UInt64(_) => 0,
            BlobValue::Text(text) => text.len(),
            BlobValue::Array(array) => array.data.len(),
            BlobValue::TextArray(_) | BlobValue::Structure(_) | BlobValue::StructurePart(_) => {
                let known = self.weight.load(Ordering::Relaxed);
                if known > 0 && !sequence.is_multiple_of(WEIGHED_EVERY) {
                    return known;
                }
                let weight = Weight::of(blob).bytes().max(1);
                self.weight.store(weight, Ordering::Relaxed);
                weight
            }
        }
    }

    /// The source put so many updates that would have come by now into the next one.
    pub fn squashed(&self, count: u32) {
        self.sequence.fetch_add(count, Ordering::Relaxed);
        self.squashed.fetch_add(count, Ordering::Relaxed);
    }

    /// Counts elements that the source had to copy.
    pub fn copied(&self, bytes: usize) {
        let counter = &self.intake.array_bytes.copied;
        counter.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Counts elements that the source shares with its library.
    pub fn shared(&self, bytes: usize) {
        let counter = &self.intake.array_bytes.shared;
        counter.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// The channel is up. `changed` when type or element count are not those of the connection
    /// before: values of the old kind that are still on their way are then left out.
    pub fn connected(&self, changed: bool) {
        if changed {
            self.begin_epoch();
        }
        self.expect_first();
        let epoch = self.epoch();
        self.event(Event::Connected { epoch });
    }

    /// The PV may not be read any more: what was told of its value is withdrawn from every client.
    pub fn withdraw(&self) {
        self.begin_epoch();
        self.expect_first();
        let epoch = self.epoch();
        self.event(Event::Withdrawn { epoch });
    }

    /// The next value is as old as the PV's last change.
    fn expect_first(&self) {
        let next = self.sequence.load(Ordering::Relaxed).wrapping_add(1);
        self.first.store(next, Ordering::Relaxed);
    }

    /// The server is there and has no such field, for this reason.
    pub fn missing(&self, reason: String) {
        self.begin_epoch();
        let epoch = self.epoch();
        self.event(Event::Missing { epoch, reason });
    }

    fn begin_epoch(&self) {
        let epoch = self.intake.next_number();
        self.epoch.store(epoch, Ordering::Relaxed);
        self.sequence.store(0, Ordering::Relaxed);
        self.squashed.store(0, Ordering::Relaxed);
    }

    /// The epoch that rows are marked with now.
    pub fn epoch(&self) -> u32 {
        self.epoch.load(Ordering::Relaxed)
    }

    /// The newest update that was handed over.
    pub fn newest(&self) -> Expected {
        Expected {
            sequence: self.sequence.load(Ordering::Relaxed),
            epoch: self.epoch.load(Ordering::Relaxed),
        }
    }

    /// Hands over anything but a value.
    pub fn event(&self, event: Event) {
        self.intake.notify(Notice {
            pv: self.pv,
            opening: self.opening,
            event,
        });
    }
}

/// The number of a filtered PV, until this is dropped.
#[derive(Debug)]
pub struct FilteredLine {
    intake: Arc<Intake>,
    pv: PvId,
    opening: u32,
}

impl FilteredLine {
    /// Tells the tick thread that `pv` stands for those updates of `base`, which is open, that are
    /// filtered.
    #[must_use]
    pub fn open(
        intake: &Arc<Intake>,
        pv: PvId,
        base: PvId,
        filter: Filter,
        charge: Option<Arc<PvCharge>>,
    ) -> Self {
        let line = Self {
            intake: Arc::clone(intake),
            pv,
            opening: intake.next_number(),
        };
        line.event(Event::FilteredOpened {
            base,
            filter,
            charge,
        });
        line
    }

    fn event(&self, event: Event) {
        let (pv, opening) = (self.pv, self.opening);
        self.intake.notify(Notice { pv, opening, event });
    }
}

impl Drop for FilteredLine {
    fn drop(&mut self) {
        self.event(Event::FilteredClosed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pvwire_schema::types::Severity;

    const CALM: Alarm = Alarm {
        severity: Severity::NoAlarm,
        status: 0,
    };

    fn drained(intake: &Intake) -> (Vec<Notice>, Vec<Row>) {
        let (mut notices, mut rows) = (Vec::new(), Vec::new());
        intake.drain(|taken| match taken {
            Taken::Notice(notice) => notices.push(notice),
            Taken::Row(row) => rows.push(row),
        });
        (notices, rows)
    }

    #[test]
    fn every_update_comes_through_in_order() {
        let intake = Arc::new(Intake::with_ring(16));
        let line = Line::open(&intake, PvId(3), false);
        for n in 0..10 {
            line.update(n, RowValue::Number(n as f64), CALM);
        }
        let (_, rows) = drained(&intake);
        let sequences: Vec<u32> = rows.iter().map(|row| row.sequence).collect();
        assert_eq!(sequences, (1..=10).collect::<Vec<_>>());
        assert!(intake.is_empty());
    }

    #[test]
    fn full_ring_keeps_the_newest_of_each_pv_and_its_sequence_tells_the_gap() {
        let intake = Arc::new(Intake::with_ring(2));
        let (a, b) = (
            Line::open(&intake, PvId(1), false),
            Line::open(&intake, PvId(2), false),
        );
        for n in 1..=5 {
            a.update(n, RowValue::Number(n as f64), CALM);
            b.update(n, RowValue::Number(n as f64), CALM);
        }
        let (_, rows) = drained(&intake);
        let of = |pv| {
            let mut of: Vec<_> = rows
                .iter()
                .filter(|r| r.pv == pv)
                .map(|r| r.sequence)
                .collect();
            of.sort_unstable();
            of
        };
        assert_eq!((of(PvId(1)), of(PvId(2))), (vec![1, 5], vec![1, 5]));
    }

    #[test]
    fn what_the_source_squashed_is_told_also_by_rows_that_replace_others() {
        let intake = Arc::new(Intake::with_ring(1));
        let line = Line::open(&intake, PvId(1), false);
        for squashed in [0, 2, 0, 3] {
            line.squashed(squashed);
            line.update(0, RowValue::Number(0.0), CALM);
        }
        let (_, rows) = drained(&intake);
        let told: Vec<_> = (rows.iter())
            .map(|row| (row.sequence, row.squashed))
            .collect();
        assert_eq!(told, [(1, 0), (9, 5)]);
    }

    #[test]
    fn age_of_the_first_value_since_a_connection_is_not_counted() {
        let intake = Arc::new(Intake::new());
        let line = Line::open(&intake, PvId(1), false);
        line.connected(true);
        let counted = || intake.ages().read().counts.iter().sum::<u64>();
        // As a server that sends the value that it has once more after each of these connections.
        for connections in 1..=40 {
            let looked_at = counted();
            line.connected(false);
            line.update(0, RowValue::Number(0.0), CALM);
            assert_eq!(counted(), looked_at, "connection {connections}");
        }
        for _ in 0..32 {
            line.update(0, RowValue::Number(0.0), CALM);
        }
        assert_eq!(counted(), 2);
    }

    #[test]
    fn copied_and_shared_elements_are_counted_apart() {
        let intake = Intake::new();
        let line = Line::open(&intake, PvId(1), false);
        line.copied(24);
        line.copied(8);
        line.shared(16);
        let bytes = intake.array_bytes();
        assert_eq!((bytes.copied_total(), bytes.shared_total()), (32, 16));
    }

    #[test]
    fn changed_type_starts_a_new_epoch_and_sequence() {
        let intake = Intake::new();
        let line = Line::open(&intake, PvId(1), false);
        line.connected(false);
        line.update(1, RowValue::Number(1.0), CALM);
        line.connected(true);
        line.update(2, RowValue::Number(2.0), CALM);
        let (_, rows) = drained(&intake);
        assert_ne!(rows[0].epoch, rows[1].epoch);
        assert_eq!(rows[1].sequence, 1);
    }
}
