//! Lines: one PV's way into the intake, with its sequence and epochs.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use pvwire_schema::types::{Alarm, BlobValue, Detail, Expected, Filter, PvId};

use super::handover::Handover;
use super::intake::Intake;
use super::row::{Event, Form, Notice, Row, RowValue};
use crate::ingest::weight::Weight;
use crate::limits::memory::PvCharge;
use crate::ops::latency::AgeCounter;

/// Of the updates of a structure or of strings, one in this many is weighed.
const WEIGHED_EVERY: u32 = 64;

/// The way of one PV into the intake, for one opening of the PV.
///
/// A source calls it from one thread at a time, as libca and pvxs do for one PV.
#[derive(Debug)]
pub struct Line {
    intake: Arc<Intake>,
    pv: PvId,
    opening: u32,
    epoch: AtomicU32,
    sequence: AtomicU32,
    /// Sequence of the first update of this connection.
    first: AtomicU32,
    /// Squashed updates, which the sequence counts; sent with the next update.
    squashed: AtomicU32,
    /// Bytes of the structure or strings that were last weighed; 0 before.
    weight: AtomicUsize,
    /// Set if it takes the PV over from another line.
    handover: Option<Arc<Handover>>,
    /// Who pays for the PV; gone when it is closed.
    charge: Weak<PvCharge>,
}

impl Line {
    /// Opens a line and tells the tick thread so. `puts`: whether the relay takes puts to the PV.
    #[must_use]
    pub fn open(intake: &Arc<Intake>, pv: PvId, puts: bool) -> Self {
        Self::open_charged(intake, pv, None, puts, None)
    }

    /// Like `open`, for a PV with a name, whose memory is charged to an owner.
    #[must_use]
    pub fn open_charged(
        intake: &Arc<Intake>,
        pv: PvId,
        name: Option<Arc<str>>,
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
            handover: None,
            charge: charge.as_ref().map(Arc::downgrade).unwrap_or_default(),
        };
        line.event(Event::Opened { name, puts, charge });
        line
    }

    /// A line of the same PV for another monitor. The PV is disconnected until the new line reports otherwise; from
    /// then on nothing of the lines that were made before counts.
    #[must_use]
    pub fn succeed(&self) -> Self {
        let line = self.numbered(None);
        self.event(Event::Succeeded { line: line.opening });
        line
    }

    /// A line of the same PV for another monitor, while the present line goes on. When the new line is connected and
    /// has reached the newest update of the present one, it feeds the PV, and clients see neither a gap nor an
    /// update twice. From then on nothing of the lines that were made before counts.
    #[must_use]
    pub fn hand_over(&self) -> (Self, Arc<Handover>) {
        let to = Arc::<Handover>::default();
        let line = self.numbered(Some(Arc::clone(&to)));
        self.event(Event::HandingOver {
            line: line.opening,
            to: Arc::clone(&to),
        });
        (line, to)
    }

    /// Ends a handover that isn't finished. The present line feeds the PV.
    pub fn keep(&self) {
        self.event(Event::Kept);
    }

    fn numbered(&self, handover: Option<Arc<Handover>>) -> Self {
        let number = self.intake.next_number();
        Self {
            intake: Arc::clone(&self.intake),
            pv: self.pv,
            opening: number,
            epoch: AtomicU32::new(number),
            sequence: AtomicU32::new(0),
            first: AtomicU32::new(1),
            squashed: AtomicU32::new(0),
            weight: AtomicUsize::new(0),
            handover,
            charge: Weak::clone(&self.charge),
        }
    }

    /// Who pays for the PV; `None` when it is closed, or has no owner.
    #[must_use]
    pub fn charge(&self) -> Option<Arc<PvCharge>> {
        self.charge.upgrade()
    }

    /// Wakes the tick thread, for work that doesn't come through the intake.
    pub fn wake(&self) {
        self.intake.wake();
    }

    /// The opening of the PV that it belongs to.
    #[must_use]
    pub fn opening(&self) -> u32 {
        self.opening
    }

    /// Sends an update. Allocates nothing and takes no lock while the ring has room.
    pub fn update(&self, time_ns: i64, value: RowValue, alarm: Alarm) {
        self.update_with(time_ns, value, alarm, None);
    }

    /// Like `update`, with user tag and alarm message.
    pub fn update_with(
        &self,
        time_ns: i64,
        value: RowValue,
        alarm: Alarm,
        detail: Option<Arc<Detail>>,
    ) {
        // There is one writer at a time, so load and store need not be one atomic step.
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

    /// Like `update_with`, for an update that its sender has numbered. `squashed` of the updates before it were
    /// squashed.
    pub fn update_at(
        &self,
        (sequence, squashed): (u32, u32),
        time_ns: i64,
        value: RowValue,
        alarm: Alarm,
        detail: Option<Arc<Detail>>,
    ) {
        (self.sequence).store(sequence.wrapping_sub(1), Ordering::Relaxed);
        self.squashed.store(squashed, Ordering::Relaxed);
        self.update_with(time_ns, value, alarm, detail);
    }

    /// Approximate bytes of memory of a value. Structures and strings are weighed now and then
    /// only.
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

    /// The source has squashed this many updates into the next one.
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

    /// The channel is connected. `changed`: type or element count differ from those of the
    /// connection before, so that values of the old type that are still on their way are discarded.
    pub fn connected(&self, changed: bool) {
        if changed {
            self.begin_epoch();
        }
        self.expect_first();
        let epoch = self.epoch();
        self.event(Event::Connected { epoch });
    }

    /// The PV may not be read any more: its value is withdrawn from every client.
    pub fn withdraw(&self) {
        self.begin_epoch();
        self.expect_first();
        let epoch = self.epoch();
        self.event(Event::Withdrawn { epoch });
    }

    /// The PV is connected, and its server can't send the value, for this reason.
    pub fn refused(&self, reason: String) {
        self.begin_epoch();
        self.expect_first();
        let epoch = self.epoch();
        self.event(Event::Refused { epoch, reason });
    }

    /// The next value may be as old as the PV's last change.
    fn expect_first(&self) {
        let next = self.sequence.load(Ordering::Relaxed).wrapping_add(1);
        self.first.store(next, Ordering::Relaxed);
    }

    /// The server is connected and has no such field.
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

    /// The epoch of the next row.
    pub fn epoch(&self) -> u32 {
        self.epoch.load(Ordering::Relaxed)
    }

    /// Sequence and epoch of the newest update, as clients see it.
    pub fn newest(&self) -> Expected {
        let newest = Expected {
            sequence: self.sequence.load(Ordering::Relaxed),
            epoch: self.epoch.load(Ordering::Relaxed),
        };
        let shift = self.handover.as_ref().and_then(|handover| handover.shift());
        shift.map_or(newest, |shift| shift.shown(newest))
    }

    /// An update that clients see, in the numbers of this line.
    #[must_use]
    pub fn of_line(&self, update: Expected) -> Expected {
        let shift = self.handover.as_ref().and_then(|handover| handover.shift());
        shift.map_or(update, |shift| shift.of_line(update))
    }

    /// Sends anything but an update.
    pub fn event(&self, event: Event) {
        self.intake.notify(Notice {
            pv: self.pv,
            opening: self.opening,
            event,
        });
    }
}

/// Keeps a filtered PV open until it is dropped.
#[derive(Debug)]
pub struct FilteredLine {
    intake: Arc<Intake>,
    pv: PvId,
    opening: u32,
}

impl FilteredLine {
    /// Tells the tick thread that `pv` is a filtered PV of `base`, which is open.
    #[must_use]
    pub fn open(
        intake: &Arc<Intake>,
        pv: PvId,
        base: PvId,
        (filter, form): (Filter, Option<Arc<Form>>),
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
            form,
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
    use crate::ingest::intake::Taken;
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
    fn every_update_arrives_in_order() {
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
    fn full_ring_keeps_the_newest_of_each_pv_and_counts_the_gap() {
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
    fn row_that_replaces_another_keeps_its_squashed_count() {
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
        // A server that sends its current value again after each connection.
        for connections in 1..=40 {
            let looked_at = counted();
            line.connected(false);
            line.update(1, RowValue::Number(0.0), CALM);
            assert_eq!(counted(), looked_at, "connection {connections}");
        }
        for _ in 0..32 {
            line.update(1, RowValue::Number(0.0), CALM);
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
