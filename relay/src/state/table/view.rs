//! What does a view show of its PV, and when?
//!
//! A filtered PV carries fewer updates of a PV, or less of its values. It has its own number
//! and its own entry, so that all clients with an equal filter share its frames.

use std::cmp::Reverse;
use std::mem;
use std::sync::Arc;
use std::time::Instant;

use pvwire_schema::types::{ConnectionState, Filter, PvId, Skips};

use super::{Changes, Entry, Latest, Now, Table};
use crate::limits::memory::PvCharge;
use crate::state::filter::{Candidate, Gate, Verdict, less_of};

/// What makes an entry the view of another's PV.
#[derive(Clone, Debug)]
pub(super) struct View {
    base: PvId,
    gate: Gate,
    filter: Filter,
    /// Lost on the way in since the last update that passed.
    lost: Skips,
    /// An update is held, and its time is in `Table::held`.
    is_due: bool,
}

impl View {
    /// A PV's update with as much of its value as the filter passes.
    fn less(&self, newest: &Latest) -> Latest {
        match less_of(&self.filter, &newest.value) {
            Some(value) => Latest {
                value,
                ..newest.clone()
            },
            None => newest.clone(),
        }
    }
}

impl Entry {
    /// Brings a view to what is known of its PV, of which `lost` were lost just now. Says when it is to
    /// be looked at again.
    fn follow(
        &mut self,
        base: &Self,
        pv: PvId,
        changes: &mut Changes,
        now: Now,
        lost: Skips,
    ) -> Option<Instant> {
        let view = self.view.as_mut()?;
        view.lost.relay += lost.relay;
        view.lost.source += lost.source;
        if base.latest.is_none() {
            // Another type or count: a value of the old kind would be a lie, also one that passed in
            // this tick.
            if self.latest.take().is_some() && self.value_tick == changes.tick {
                changes.rows.retain(|row| row.pv != pv);
                changes.large.retain(|row| row.pv != pv);
            }
            view.lost = Skips::NONE;
        }
        if let Some(metadata) = &base.metadata
            && !(self.metadata.as_ref()).is_some_and(|own| Arc::ptr_eq(own, metadata))
        {
            self.share_metadata(changes, pv, Arc::clone(metadata));
        }
        let moved = self.connection != base.connection;
        let comes = moved && self.connection.state != ConnectionState::Connected;
        if comes || base.returning.is_some() {
            changes.first_values.push(pv);
        }
        let due = (base.latest.as_ref())
            .and_then(|newest| self.follow_value(newest, pv, changes, now, moved));
        if moved {
            self.connection = base.connection;
            self.channel_tick = changes.tick;
            changes.connections.push((pv, base.connection));
        }
        due
    }

    /// `urgent`: the newest update passes in any case.
    fn follow_value(
        &mut self,
        newest: &Latest,
        pv: PvId,
        changes: &mut Changes,
        now: Now,
        urgent: bool,
    ) -> Option<Instant> {
        let view = self.view.as_mut()?;
        let before = self.latest.as_ref();
        let steps = newest
            .sequence
            .wrapping_sub(before.map_or(0, |before| before.sequence));
        if steps == 0 {
            return None;
        }
        let candidate = Candidate {
            steps,
            numbers: before.and_then(|before| before.numbers(newest, self.metadata.as_deref())),
            urgent: urgent || before.is_none_or(|before| newest.is_news_after(before)),
        };
        match view.gate.verdict(candidate, now.instant) {
            Verdict::Leave => None,
            Verdict::Hold(until) => {
                let is_new = !mem::replace(&mut view.is_due, true);
                is_new.then_some(until)
            }
            Verdict::Pass => {
                view.gate.passed(now.instant);
                let mut skips = mem::take(&mut view.lost);
                skips.filter = (steps - 1).saturating_sub(skips.total());
                changes.counts.filter += u64::from(skips.filter);
                let latest = view.less(newest);
                let value = latest.value.clone();
                self.record(changes, pv, latest, value, skips);
                None
            }
        }
    }
}

impl Table {
    /// Passes on what is new of a PV to its views. `lost`: just before its newest update.
    #[inline]
    pub(super) fn show_views(&mut self, changes: &mut Changes, now: Now, base: PvId, lost: Skips) {
        if !self.entries[base.index()].views.is_empty() {
            self.show_each_view(changes, now, base, lost);
        }
    }

    fn show_each_view(&mut self, changes: &mut Changes, now: Now, base: PvId, lost: Skips) {
        let views = mem::take(&mut self.entries[base.index()].views);
        for view in &views {
            self.show_view(changes, now, base, *view, lost);
        }
        self.entries[base.index()].views = views;
    }

    fn show_view(&mut self, changes: &mut Changes, now: Now, base: PvId, view: PvId, lost: Skips) {
        let [base, entry] = self
            .entries
            .get_disjoint_mut([base.index(), view.index()])
            .expect("a view and its PV are two, and are open");
        if let Some(until) = entry.follow(base, view, changes, now, lost) {
            self.held.push(Reverse((until, view, entry.opening)));
        }
    }

    /// The view begins with all that is known of the PV: its first snapshot is whole.
    pub(super) fn open_view(
        &mut self,
        tick: u64,
        now: Now,
        (pv, opening): (PvId, u32),
        base: PvId,
        filter: Filter,
        charge: Option<Arc<PvCharge>>,
    ) {
        let of = &mut self.entries[base.index()];
        of.views.push(pv);
        let view = View {
            base,
            gate: Gate::new(filter, now.instant),
            filter,
            lost: Skips::NONE,
            is_due: false,
        };
        let latest = of.latest.as_ref().map(|latest| view.less(latest));
        self.entries[pv.index()] = Entry {
            view: Some(Box::new(view)),
            opening,
            charge,
            connection: of.connection,
            metadata: of.metadata.clone(),
            latest,
            channel_tick: tick,
            metadata_tick: tick,
            value_tick: tick,
            alarm_tick: tick,
            detail_tick: tick,
            ..Entry::default()
        };
    }

    pub(super) fn close_view(&mut self, pv: PvId) {
        let closed = mem::take(&mut self.entries[pv.index()]);
        if let Some(view) = closed.view {
            self.entries[view.base.index()]
                .views
                .retain(|shown| *shown != pv);
        }
    }

    pub(super) fn let_pass(&mut self, changes: &mut Changes, now: Now) {
        while let Some(&Reverse((due, pv, opening))) = self.held.peek() {
            if now.instant < due {
                break;
            }
            self.held.pop();
            let entry = &mut self.entries[pv.index()];
            if entry.opening == opening
                && let Some(view) = &mut entry.view
            {
                view.is_due = false;
                let base = view.base;
                self.show_view(changes, now, base, pv, Skips::NONE);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pvwire_schema::types::{ConnectionState, Detail, Metadata, ValueType};

    use super::super::Counts;
    use super::super::tests::{Bench, CALM, HIHI, PV, update};
    use super::*;
    use crate::ingest::{Event, Intake, Line, RowValue, ViewLine};

    const VIEW: PvId = PvId(1);

    const TENTH: Filter = Filter {
        min_interval_ms: 100,
        deadband: 0.0,
        every: 0,
        ..Filter::ALL
    };

    const INTERVAL: Duration = Duration::from_millis(100);

    fn view(bench: &Bench, filter: Filter) -> ViewLine {
        ViewLine::open(&bench.intake, VIEW, PV, filter, None)
    }

    /// The view's rows of a tick: value and what was withheld before it.
    fn seen(changes: &Changes) -> Vec<(f64, u32)> {
        let rows = changes.rows.iter().filter(|row| row.pv == VIEW);
        rows.map(|row| match row.value {
            RowValue::Number(number) => (number, row.skips.filter),
            _ => panic!("{row:?}"),
        })
        .collect()
    }

    /// A connected PV that shows 0.0.
    fn connected(bench: &mut Bench) -> Line {
        let line = Line::open(&bench.intake, PV, false);
        line.event(Event::Access {
            read: true,
            write: true,
        });
        line.connected(false);
        line.event(Event::Metadata(Box::default()));
        update(&line, 0.0, CALM);
        bench.tick();
        line
    }

    #[test]
    fn each_value_that_there_was_came_or_is_counted_with_the_cause_of_its_loss() {
        let mut bench = Bench::new();
        // A source that counts up by one, faster than the ring can be emptied.
        bench.intake = Arc::new(Intake::with_ring(3));
        let line = Line::open(&bench.intake, PV, false);
        line.connected(false);
        let _view = view(
            &bench,
            Filter {
                every: 4,
                ..Filter::default()
            },
        );
        let (mut count, mut squashed) = (0_u32, 0);
        let mut rows = Vec::new();
        let mut counts = Counts::default();
        for burst in [1, 2, 9, 1, 14, 3, 5, 1, 1, 1] {
            for _ in 0..burst {
                count += 1;
                if count % 5 == 0 {
                    line.squashed(2);
                    (count, squashed) = (count + 2, squashed + 2);
                }
                update(&line, count.into(), CALM);
            }
            let changes = bench.tick();
            counts.taken += changes.counts.taken;
            counts.relay += changes.counts.relay;
            counts.source += changes.counts.source;
            counts.filter += changes.counts.filter;
            rows.extend(changes.rows);
        }
        let of = |pv| rows.iter().filter(move |row| row.pv == pv);
        let lost = |pv, cause: fn(Skips) -> u32| -> u64 {
            of(pv).map(|row| u64::from(cause(row.skips))).sum()
        };
        assert_eq!(counts.taken, of(PV).count() as u64);
        assert_eq!(counts.source, squashed);
        assert!(counts.relay > 10 && counts.filter > 3, "{counts:?}");
        let truth = u64::from(count);
        assert_eq!(counts.taken + counts.relay + counts.source, truth);
        for pv in [PV, VIEW] {
            let mut last = 0;
            for row in of(pv) {
                let RowValue::Number(value) = row.value else {
                    panic!("{row:?}")
                };
                last += 1 + row.skips.total();
                assert_eq!(f64::from(last), value);
            }
        }
        assert_eq!(lost(PV, |skips| skips.relay), counts.relay);
        assert_eq!(lost(PV, |skips| skips.filter), 0);
        assert_eq!(lost(VIEW, |skips| skips.filter), counts.filter);
    }

    #[test]
    fn view_begins_with_all_that_is_known_and_follows_all_but_the_values() {
        let mut bench = Bench::new();
        let line = connected(&mut bench);
        let _view = view(&bench, TENTH);
        let changes = bench.tick();
        assert!(changes.is_empty(), "nobody can have been told before");
        let entry = bench.table.entry(VIEW).clone();
        assert!(entry.latest.is_some() && entry.metadata.is_some());
        assert_eq!(entry.connection, bench.table.entry(PV).connection);
        assert_eq!(entry.value_tick, changes.tick, "a catch-up has it, too");
        line.event(Event::Metadata(Box::new(Metadata {
            units: "mA".into(),
            ..Metadata::default()
        })));
        line.event(Event::Disconnected);
        let changes = bench.tick();
        let told: Vec<_> = changes.connections.iter().map(|(pv, _)| *pv).collect();
        assert_eq!(told, [PV, VIEW]);
        let told: Vec<_> = changes.metadata.iter().map(|(pv, _)| *pv).collect();
        assert_eq!(told, [PV, VIEW]);
    }

    #[test]
    fn last_value_of_a_burst_passes_when_the_interval_is_over() {
        let mut bench = Bench::new();
        let line = connected(&mut bench);
        let _view = view(&bench, TENTH);
        bench.tick();
        for value in [1.0, 2.0, 3.0] {
            update(&line, value, CALM);
        }
        let changes = bench.tick_at(INTERVAL / 2);
        assert_eq!(changes.rows.len(), 3, "those of the PV itself");
        assert_eq!(seen(&changes), []);
        let due = bench.table.next_deadline().unwrap();
        assert_eq!(due, bench.start + INTERVAL);
        let changes = bench.tick_at(INTERVAL);
        assert_eq!(seen(&changes), [(3.0, 2)]);
        assert_eq!((changes.counts.taken, changes.counts.filter), (0, 2));
        assert!(bench.table.next_deadline() > Some(bench.start + INTERVAL));
        update(&line, 4.0, CALM);
        assert_eq!(seen(&bench.tick_at(INTERVAL * 3)), [(4.0, 0)]);
    }

    #[test]
    fn change_of_the_alarm_passes_at_once_and_begins_the_interval_anew() {
        let mut bench = Bench::new();
        let line = connected(&mut bench);
        let _view = view(&bench, TENTH);
        bench.tick();
        update(&line, 1.0, CALM);
        update(&line, 2.0, HIHI);
        assert_eq!(seen(&bench.tick_at(INTERVAL / 2)), [(2.0, 1)]);
        update(&line, 3.0, HIHI);
        assert_eq!(seen(&bench.tick_at(INTERVAL)), []);
        assert_eq!(seen(&bench.tick_at(INTERVAL * 3 / 2)), [(3.0, 0)]);
    }

    #[test]
    fn message_passes_at_once_and_a_user_tag_does_not() {
        let mut bench = Bench::new();
        let line = connected(&mut bench);
        let _view = view(&bench, TENTH);
        bench.tick();
        let tell = |value, user_tag, message: &str| {
            let message = message.into();
            let detail = Some(Arc::new(Detail { user_tag, message }));
            line.update_with(0, RowValue::Number(value), CALM, detail);
        };
        tell(1.0, 5, "");
        assert_eq!(seen(&bench.tick()), []);
        tell(2.0, 6, "hot");
        let changes = bench.tick();
        assert_eq!(seen(&changes), [(2.0, 1)]);
        let detail = changes.rows.last().unwrap().detail.as_ref().unwrap();
        assert_eq!((detail.user_tag, &*detail.message), (6, "hot"));
    }

    #[test]
    fn deadband_is_for_numbers_and_no_enums() {
        let filter = Filter {
            min_interval_ms: 0,
            deadband: 1.0,
            every: 0,
            ..Filter::ALL
        };
        let mut bench = Bench::new();
        let line = connected(&mut bench);
        let _view = view(&bench, filter);
        for value in [0.5, 1.0, 1.5, 2.0, 0.0] {
            update(&line, value, CALM);
        }
        assert_eq!(seen(&bench.tick()), [(1.5, 2), (0.0, 1)]);
        line.event(Event::Metadata(Box::new(Metadata {
            value_type: ValueType::Enum,
            ..Metadata::default()
        })));
        update(&line, 1.0, CALM);
        assert_eq!(seen(&bench.tick()), [(1.0, 0)]);
    }

    #[test]
    fn one_in_so_many_counts_those_that_were_lost_too() {
        let filter = Filter {
            min_interval_ms: 0,
            deadband: 0.0,
            every: 5,
            ..Filter::ALL
        };
        let mut bench = Bench::new();
        let line = connected(&mut bench);
        let _view = view(&bench, filter);
        for value in 1..=7_u8 {
            if value == 3 {
                line.squashed(2);
            }
            update(&line, value.into(), CALM);
        }
        let changes = bench.tick();
        assert_eq!(seen(&changes), [(3.0, 2)]);
        let row = changes.rows.iter().find(|row| row.pv == VIEW).unwrap();
        assert_eq!((row.skips.source, row.skips.total()), (2, 4));
        assert_eq!((changes.counts.source, changes.counts.filter), (2, 2));
    }

    #[test]
    fn what_is_held_passes_before_the_pv_is_said_to_be_lost_and_the_first_of_a_new_connection() {
        let mut bench = Bench::new();
        let line = connected(&mut bench);
        let _view = view(&bench, TENTH);
        update(&line, 1.0, CALM);
        assert_eq!(seen(&bench.tick()), []);
        line.event(Event::Disconnected);
        assert_eq!(seen(&bench.tick()), [(1.0, 0)]);
        line.event(Event::Access {
            read: true,
            write: true,
        });
        line.connected(false);
        line.event(Event::Metadata(Box::default()));
        update(&line, 2.0, CALM);
        let changes = bench.tick();
        assert_eq!(seen(&changes), [(2.0, 0)]);
        assert_eq!(changes.connections.len(), 2);
    }

    #[test]
    fn value_of_the_old_type_that_was_held_is_forgotten_with_the_type() {
        let mut bench = Bench::new();
        let line = connected(&mut bench);
        let _view = view(&bench, TENTH);
        update(&line, 1.0, CALM);
        bench.tick();
        line.event(Event::Disconnected);
        line.connected(true);
        let changes = bench.tick();
        assert_eq!(seen(&changes), [], "1.0 is of the old type");
        assert!(bench.table.entry(VIEW).latest.is_none());
        update(&line, 5.0, CALM);
        assert_eq!(seen(&bench.tick()), [(5.0, 0)], "the first of its kind");
        assert_eq!(bench.tick_at(INTERVAL).rows.len(), 0);
    }

    #[test]
    fn closed_view_gets_nothing_and_its_number_may_be_another_pvs() {
        let mut bench = Bench::new();
        let line = connected(&mut bench);
        let view = view(&bench, TENTH);
        bench.tick();
        update(&line, 1.0, CALM);
        bench.tick();
        drop(view);
        let other = Line::open(&bench.intake, VIEW, false);
        other.connected(false);
        update(&other, 7.0, CALM);
        update(&line, 2.0, CALM);
        line.event(Event::Disconnected);
        assert_eq!(seen(&bench.tick()), [(7.0, 0)]);
        assert_eq!(seen(&bench.tick_at(INTERVAL * 2)), []);
        let state = bench.table.entry(VIEW).connection.state;
        assert_eq!(state, ConnectionState::Connected);
    }
}
