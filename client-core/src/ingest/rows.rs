//! Applies the rows of a frame to their PVs and counts the updates that were skipped before them.

use std::iter::Peekable;

use pvwire_schema::decode::{AlarmRow, DetailRow, FrameView, SkipRow};
use pvwire_schema::types::{Alarm, FrameKind, PvId, SkipCause};

use super::blob::{ArrayRow, set_blob};
use crate::store::{CAUSES, NO_SLOT, Seconds, Slot, Store, kind};

/// Applies all rows of a frame and records the locations of arrays.
pub(super) fn fill(store: &mut Store, arrays: &mut Vec<ArrayRow>, frame: &FrameView<'_>) {
    store.begin_frame();
    for (id, metadata) in frame.metadata() {
        each_slot(store, id, |store, slot| store.set_metadata(slot, &metadata));
    }
    for (id, connection) in frame.connections() {
        each_slot(store, id, |store, slot| {
            store.set_connection(slot, connection)
        });
    }
    let mut marks = Marks {
        kind: frame.kind(),
        row: 0,
        alarms: frame.alarms().peekable(),
        skips: frame.skips().peekable(),
        details: frame.details().peekable(),
        sequences: frame.sequences(),
        cause: frame.skip_cause(),
    };
    let mut clock = Seconds::default();
    let mut numbers = frame.numbers();
    loop {
        let first = marks.row;
        let plain = first..first + marks.pass_plain(numbers.len());
        store.update(&mut numbers, plain, &mut clock, &mut marks.alarms);
        let Some(row) = numbers.next() else {
            break;
        };
        let time = clock.split(row.time_ns);
        set_row(store, row.id, time, &marks.advance(), &mut |store, slot| {
            store.set_number(slot, row.value);
        });
    }
    for row in frame.blobs() {
        let time = clock.split(row.time_ns);
        set_row(store, row.id, time, &marks.advance(), &mut |store, slot| {
            set_blob(store, arrays, slot, &row);
        });
    }
}

/// Everything that rows carry besides their values, read in step with the values.
struct Marks<A: Iterator, K: Iterator, D: Iterator, S> {
    kind: FrameKind,
    row: u32,
    alarms: Peekable<A>,
    skips: Peekable<K>,
    details: Peekable<D>,
    sequences: Option<S>,
    /// Cause of the updates that a catch-up skipped.
    cause: SkipCause,
}

/// Everything that a row carries besides its value.
struct Mark<'a> {
    kind: FrameKind,
    alarm: Option<Alarm>,
    detail: Option<DetailRow<'a>>,
    sequence: Option<u32>,
    /// Updates skipped before this row, in total and by cause.
    skip: u32,
    by_cause: [u32; CAUSES],
    /// Cause of the updates that a catch-up skipped.
    cause: SkipCause,
}

impl<'a, A, K, D, S> Marks<A, K, D, S>
where
    A: Iterator<Item = AlarmRow>,
    K: Iterator<Item = SkipRow>,
    D: Iterator<Item = DetailRow<'a>>,
    S: Iterator<Item = u32>,
{
    /// Passes over up to `rows` rows that carry at most an alarm beside their value, and returns how
    /// many these are.
    fn pass_plain(&mut self, rows: usize) -> u32 {
        // In frames of the other kinds each row carries its sequence number.
        if self.kind != FrameKind::Update {
            return 0;
        }
        let skip = self.skips.peek().map_or(u32::MAX, |mark| mark.row);
        let detail = self.details.peek().map_or(u32::MAX, |mark| mark.row);
        let plain = (skip.min(detail) - self.row).min(rows as u32);
        self.row += plain;
        plain
    }

    fn advance(&mut self) -> Mark<'a> {
        let row = self.row;
        self.row += 1;
        let mut mark = Mark {
            kind: self.kind,
            alarm: (self.alarms.next_if(|mark| mark.row == row)).map(|mark| mark.alarm),
            detail: self.details.next_if(|mark| mark.row == row),
            sequence: self.sequences.as_mut().and_then(Iterator::next),
            skip: 0,
            by_cause: [0; CAUSES],
            cause: self.cause,
        };
        while let Some(skip) = self.skips.next_if(|skip| skip.row == row) {
            let of_cause = &mut mark.by_cause[usize::from(skip.cause.number())];
            *of_cause = of_cause.wrapping_add(skip.count);
            mark.skip = mark.skip.wrapping_add(skip.count);
        }
        mark
    }
}

/// Applies one row with everything that it carries; `set` applies its value.
fn set_row(
    store: &mut Store,
    id: PvId,
    (seconds, nanoseconds): (f64, u32),
    mark: &Mark<'_>,
    set: &mut dyn FnMut(&mut Store, Slot),
) {
    // Anything not given is as in the previous row; the rows of a snapshot have no previous row.
    let first = matches!(mark.kind, FrameKind::Snapshot | FrameKind::Answer);
    let mut skipped = mark.skip;
    each_slot(store, id, |store, slot| {
        skipped = count(store, slot, mark);
        set(store, slot);
        store.set_time(slot, seconds, nanoseconds);
        if mark.alarm.is_some() || first {
            store.set_alarm(slot, mark.alarm);
        }
        if mark.detail.is_some() || first {
            store.set_detail(slot, mark.detail);
        }
    });
    store.count_total(skipped);
}

#[inline]
fn each_slot(store: &mut Store, id: PvId, mut apply: impl FnMut(&mut Store, Slot)) {
    let mut slot = store.first(id);
    while slot != NO_SLOT {
        apply(store, slot);
        slot = store.after(slot);
    }
}

/// Sets the update's sequence number and counts the updates skipped before it. Returns that count.
fn count(store: &mut Store, slot: Slot, mark: &Mark<'_>) -> u32 {
    store.mark_filled(slot);
    let last = store.pvs[slot as usize].sequence;
    let known = store.pvs[slot as usize].kind != kind::NONE;
    let Some(sequence) = mark.sequence else {
        store.count(slot, last.wrapping_add(1).wrapping_add(mark.skip));
        if mark.skip > 0 {
            for (cause, count) in SkipCause::ALL.iter().zip(mark.by_cause) {
                store.skip(slot, *cause, count);
            }
        }
        return mark.skip;
    };
    // The row repeats the update that is already shown.
    if known && sequence == last {
        return 0;
    }
    store.count(slot, sequence);
    let ahead = sequence.wrapping_sub(last);
    // If the sequence appears to go backwards, numbering started again: no loss can be inferred.
    if mark.kind != FrameKind::CatchUp || ahead >= 1 << 31 {
        return 0;
    }
    let skipped = ahead.saturating_sub(1);
    store.skip(slot, mark.cause, skipped);
    skipped
}

#[cfg(test)]
mod tests {
    use super::super::Session;
    use super::super::fixtures::{ALL, at_the_snapshot, frame, golden};
    use super::*;
    use crate::store::{Text, part};
    use pvwire_schema::encode::{FrameEncoder, RowMarks};
    use pvwire_schema::types::{ConnectionState, Reply, Severity};

    /// The updates that a slot has skipped, by cause.
    fn skips(session: &Session, slot: Slot) -> [f64; CAUSES] {
        session.live.skips.as_chunks().0[slot as usize]
    }

    #[test]
    fn packed_columns_fill_the_store_as_plain_ones_do() {
        let of = |packing: bool| {
            let (mut session, slots) = at_the_snapshot();
            let mut encoder = FrameEncoder::new();
            encoder.packing(packing);
            encoder.begin(FrameKind::Update, 11, 10);
            for row in 0..40_u32 {
                let time = 1_800_000_000_000_000_000 + i64::from(row * row) * 317_000_000;
                let value = f64::from(row) / 8.0;
                encoder.number(PvId(3 + row % 2), time, value, RowMarks::default());
            }
            let bytes = encoder.finish().to_vec();
            assert_eq!(session.apply(&bytes).unwrap().rows, 40);
            let pvs = &session.live.pvs;
            let slots = slots[..2].iter().map(|slot| *slot as usize);
            let seen = slots.map(|at| {
                let time = (pvs[at].seconds, pvs[at].nanoseconds);
                (pvs[at].value, time, pvs[at].sequence)
            });
            (bytes.len(), seen.collect::<Vec<_>>())
        };
        let (plain, packed) = (of(false), of(true));
        assert_eq!(plain.1, packed.1);
        assert!(packed.0 < plain.0);
        assert_eq!(plain.1[1], (4.875, (1_800_000_482.0, 157_000_000), 21));
    }

    #[test]
    fn updates_are_numbered_on_and_their_skips_are_counted() {
        let (mut session, slots) = at_the_snapshot();
        let applied = session.apply(&golden("update")).unwrap();
        let pvs = &session.live.pvs;

        assert_eq!((applied.rows, applied.gap), (4, false));
        assert_eq!(pvs[slots[0] as usize].value, 81.0);
        assert_eq!(pvs[slots[0] as usize].severity, 2);
        assert_eq!(pvs[slots[0] as usize].sequence, 104);
        assert_eq!(
            skips(&session, slots[0]),
            [0.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0]
        );
        assert_eq!(pvs[slots[1] as usize].sequence, 2);
        assert_eq!(
            pvs[slots[1] as usize].severity, 1,
            "an alarm that isn't said stays"
        );
        assert_eq!(session.live.text(slots[2]), &Text::One(String::new()));
        assert_eq!(session.live.skipped_total(), 2);
        assert_eq!(session.last_tick(), 11);
    }

    #[test]
    fn each_cause_is_counted_for_each_name_of_the_pv() {
        let (mut session, slots) = at_the_snapshot();
        session.apply(&golden("update")).unwrap();
        session.apply(&golden("skips")).unwrap();
        let sequence = |slot: Slot| session.live.pvs[slot as usize].sequence;
        assert_eq!(
            skips(&session, slots[0]),
            [0.0, 2.0 + 1.0, 20.0, 300.0, 0.0, 0.0, 0.0]
        );
        assert_eq!(sequence(slots[0]), 104 + 322);
        assert_eq!(skips(&session, slots[1]), [0.0; CAUSES]);
        assert_eq!(
            skips(&session, slots[2]),
            [0.0, 0.0, 20.0, 300.0, 0.0, 0.0, 0.0]
        );
        assert_eq!(session.live.skipped_total(), 2 + 321 + 320);
        session.apply(&golden("paced")).unwrap();
        // 150 is before the last sequence number: no loss can be inferred.
        assert_eq!(session.live.skipped_total(), 2 + 321 + 320);
    }

    #[test]
    fn alarms_of_rows_are_those_of_their_pvs_under_each_name() {
        let (mut session, mut slots) = at_the_snapshot();
        let second_name = session.live.add("ca://TEMP");
        let id = session.live.id(slots[0]);
        session.live.bind(second_name, id);
        slots.truncate(2);
        slots.push(second_name);
        let mut tick = 10;
        let mut shown_after = |alarms: [Option<Severity>; 3]| {
            tick += 1;
            let ids = [slots[0], slots[1], slots[0]].map(|slot| session.live.id(slot));
            let bytes = frame(FrameKind::Update, tick, tick - 1, |e| {
                for (id, severity) in ids.iter().zip(alarms) {
                    let alarm = severity.map(|severity| Alarm {
                        severity,
                        status: 3,
                    });
                    let marks = RowMarks {
                        alarm,
                        ..Default::default()
                    };
                    e.number(*id, 0, 1.0, marks);
                }
            });
            session.live.clear_dirty();
            session.apply(&bytes).unwrap();
            let pvs = &session.live.pvs;
            let of = |slot: &Slot| {
                let at = *slot as usize;
                let is_told = pvs[at].parts & part::ALARM != 0;
                (pvs[at].severity, is_told)
            };
            (slots.iter().map(of)).collect::<Vec<_>>()
        };
        let (minor, major) = (Some(Severity::Minor), Some(Severity::Major));
        assert_eq!(
            shown_after([minor, major, None]),
            [(1, true), (2, true), (1, true)]
        );
        assert_eq!(
            shown_after([None, None, major]),
            [(2, true), (2, false), (2, true)]
        );
        assert_eq!(
            shown_after([major, major, major]),
            [(2, false), (2, false), (2, false)]
        );
        assert_eq!(
            shown_after([minor, None, Some(Severity::NoAlarm)]),
            [(0, true), (2, false), (0, true)]
        );
    }

    #[test]
    fn a_catch_up_counts_what_it_left_out() {
        let (mut session, slots) = at_the_snapshot();
        session.apply(&golden("update")).unwrap();
        session.apply(&golden("catch_up")).unwrap();
        let pvs = &session.live.pvs;

        assert_eq!(pvs[slots[0] as usize].sequence, 150);
        assert_eq!(
            skips(&session, slots[0]),
            [0.0, 2.0, 0.0, 0.0, 45.0, 0.0, 0.0]
        );
        assert_eq!(
            skips(&session, slots[1]),
            [0.0; CAUSES],
            "the same update again is no skip"
        );
        assert_eq!(session.live.skipped_total(), 47);
    }

    #[test]
    fn a_paced_catch_up_says_so() {
        let (mut session, slots) = at_the_snapshot();
        session.apply(&golden("update")).unwrap();
        session.apply(&golden("paced")).unwrap();
        assert_eq!(
            skips(&session, slots[0]),
            [0.0, 2.0, 0.0, 0.0, 0.0, 45.0, 0.0]
        );
    }

    #[test]
    fn values_that_came_before_the_first_one_seen_are_counted_as_skipped() {
        let (mut session, slots) = at_the_snapshot();
        let mut reply = FrameEncoder::new();
        reply.begin(FrameKind::Snapshot, 11, 0);
        let subscribed = Reply::Subscribed {
            ids: vec![PvId(40)],
            errors: Vec::new(),
        };
        reply.reply(2, &subscribed);
        session.subscribe(&slots[3..4], ALL);
        session.apply(reply.finish()).unwrap();
        let bytes = frame(FrameKind::CatchUp, 12, 11, |e| {
            let marks = RowMarks {
                sequence: 5,
                ..Default::default()
            };
            e.number(PvId(40), 0, 1.0, marks);
        });
        session.apply(&bytes).unwrap();
        assert_eq!(skips(&session, slots[3]).iter().sum::<f64>(), 4.0);
    }

    #[test]
    fn connection_and_metadata_changes_touch_only_their_parts() {
        let (mut session, slots) = at_the_snapshot();
        for name in ["update", "special_numbers"] {
            session.apply(&golden(name)).unwrap();
        }
        session.live.clear_dirty();
        session.apply(&golden("disconnected")).unwrap();
        assert_eq!(
            session.live.pvs[slots[0] as usize].parts,
            part::CONNECTION | part::ACCESS
        );
        assert_eq!(
            session.live.pvs[slots[3] as usize].state,
            ConnectionState::NotFound.number()
        );
        session.live.clear_dirty();
        session.apply(&golden("metadata_change")).unwrap();
        assert_eq!(session.live.metadata(slots[0]).units, "K");
    }
}
