//! Filtered PVs: entries of the table that follow a PV's entry through a filter.
//!
//! A filtered PV has fewer updates than its PV, or smaller values. It has its own number and its
//! own entry, so that all clients with an equal filter share its frames.

use std::cmp::Reverse;
use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pvwire_schema::types::{ConnectionState, Filter, Metadata, PvId, Skips};

use super::thinning::Thinning;
use super::{Changes, Entry, Latest, Now, Table};
use crate::ingest::{Form, RowValue};
use crate::limits::memory::PvCharge;
use crate::state::filter::{Candidate, Gate, Mean, Verdict, less_of};

/// The clients of a form are told that its PV isn't connected after this time. Most PVs connect sooner, and then the first
/// message has a value.
pub(super) const OVERDUE_AFTER: Duration = Duration::from_millis(150);

/// What the entry of a filtered PV has in addition to that of a PV.
#[derive(Clone, Debug)]
pub(super) struct Filtered {
    base: PvId,
    gate: Gate,
    filter: Filter,
    /// Set for the clients of a door.
    form: Option<Arc<Form>>,
    /// Of the updates since the last one that passed; `Some` if the filter averages.
    mean: Option<Mean>,
    /// Updates that were lost before the table since the last one that passed.
    lost: Skips,
    /// An update is held, and the time at which it passes is in `Table::held`.
    is_due: bool,
    /// The clients of the form have waited for the connection for long.
    is_overdue: bool,
}

impl Filtered {
    /// An update of the PV, with as much of its value as the filter passes.
    fn less(&self, newest: &Latest) -> Latest {
        match less_of(&self.filter, &newest.value) {
            Some(value) => Latest {
                value,
                ..newest.clone()
            },
            None => newest.clone(),
        }
    }

    /// The newest update with the mean of the updates since the last one that passed; `None` if it isn't averaged.
    fn averaged(&mut self, newest: &Latest, metadata: Option<&Metadata>) -> Option<Latest> {
        let mean = self.mean.as_mut()?;
        let (number, _) = newest.numbers(newest, metadata)?;
        mean.add(newest.sequence, number);
        let mean = mean.of_type(metadata.map(|metadata| metadata.value_type))?;
        Some(Latest {
            value: RowValue::Number(mean),
            ..newest.clone()
        })
    }
}

impl Entry {
    /// The form in which the clients of a door get this PV; `None` for other PVs.
    #[must_use]
    pub fn form(&self) -> Option<&Arc<Form>> {
        self.filtered.as_ref()?.form.as_ref()
    }

    fn is_connected(&self) -> bool {
        self.connection.state == ConnectionState::Connected
    }

    /// Whether the clients of a form have waited for its connection so long that they are told so.
    #[must_use]
    pub fn is_overdue(&self) -> bool {
        (self.filtered.as_ref()).is_some_and(|filtered| filtered.is_overdue)
    }

    /// The PV of a filtered PV; `None` for other PVs.
    #[must_use]
    pub fn base(&self) -> Option<PvId> {
        self.filtered.as_ref().map(|filtered| filtered.base)
    }

    /// Brings a filtered PV up to date with its PV, `base`. `lost` were lost just before its newest
    /// update. Returns the time of the next look, if an update is held from now on.
    fn follow(
        &mut self,
        base: &Self,
        pv: PvId,
        changes: &mut Changes,
        now: Now,
        lost: Skips,
        thinning: &mut Thinning,
    ) -> Option<Instant> {
        self.is_refused = base.refusal().is_some();
        self.is_search_overdue = base.is_search_overdue;
        let filtered = self.filtered.as_mut()?;
        filtered.lost.relay += lost.relay;
        filtered.lost.source += lost.source;
        filtered.lost.bus += lost.bus;
        if base.latest.is_none() {
            // The type or element count has changed. A value of the old type would be wrong, also one
            // that passed in this tick.
            if self.latest.take().is_some() && self.value_tick == changes.tick {
                changes.rows.retain(|row| row.pv != pv);
                changes.large.retain(|row| row.pv != pv);
            }
            filtered.lost = Skips::NONE;
            filtered.mean = filtered.mean.map(|_| Mean::default());
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
            .and_then(|newest| self.follow_value(newest, pv, changes, now, moved, thinning));
        if moved {
            self.connection = base.connection;
            self.connection_tick = changes.tick;
            changes.connections.push((pv, base.connection));
        }
        due
    }

    /// Lets the newest update pass, holds it, or leaves it out. An `urgent` one always passes.
    fn follow_value(
        &mut self,
        newest: &Latest,
        pv: PvId,
        changes: &mut Changes,
        now: Now,
        urgent: bool,
        thinning: &mut Thinning,
    ) -> Option<Instant> {
        let filtered = self.filtered.as_mut()?;
        let averaged = match filtered.mean {
            Some(_) => filtered.averaged(newest, self.metadata.as_deref()),
            None => None,
        };
        let before = self.latest.as_ref();
        let steps = newest
            .sequence
            .wrapping_sub(before.map_or(0, |before| before.sequence));
        if steps == 0 {
            return None;
        }
        let shown = averaged.as_ref().unwrap_or(newest);
        let candidate = Candidate {
            steps,
            numbers: before.and_then(|before| before.numbers(shown, self.metadata.as_deref())),
            urgent: urgent || before.is_none_or(|before| newest.is_news_after(before)),
            is_array: newest.is_array(),
        };
        let waits = thinning.wait(&filtered.filter, &newest.value, now.instant);
        let verdict = match (filtered.gate.verdict(candidate, now.instant), waits) {
            (Verdict::Pass, Some(until)) if !candidate.urgent => Verdict::Hold(until),
            (verdict, _) => verdict,
        };
        match verdict {
            Verdict::Leave => None,
            Verdict::Hold(until) => {
                let is_new = !mem::replace(&mut filtered.is_due, true);
                is_new.then_some(until)
            }
            Verdict::Pass => {
                filtered.gate.passed(candidate, now.instant);
                let mut skips = mem::take(&mut filtered.lost);
                skips.filter = (steps - 1).saturating_sub(skips.total());
                changes.counts.filter += u64::from(skips.filter);
                if let Some(mean) = &mut filtered.mean {
                    *mean = Mean::default();
                }
                // An alarm belongs to the value that raised it, not to a mean.
                let newest = if candidate.urgent { newest } else { shown };
                let large = (&filtered.filter, &newest.value);
                let latest = thinning.count(large, now.instant, || filtered.less(newest));
                let value = latest.value.clone();
                self.record(changes, pv, latest, value, skips);
                None
            }
        }
    }
}

impl Table {
    /// Passes what is new of a PV on to its filtered PVs. `lost` were lost just before its newest
    /// update.
    #[inline]
    pub(super) fn pass_to_filtered(
        &mut self,
        changes: &mut Changes,
        now: Now,
        base: PvId,
        lost: Skips,
    ) {
        if !self.entries[base.index()].filtered_pvs.is_empty() {
            self.pass_to_each(changes, now, base, lost);
        }
    }

    fn pass_to_each(&mut self, changes: &mut Changes, now: Now, base: PvId, lost: Skips) {
        let filtered = mem::take(&mut self.entries[base.index()].filtered_pvs);
        for pv in &filtered {
            self.pass_to_one(changes, now, base, *pv, lost);
        }
        self.entries[base.index()].filtered_pvs = filtered;
    }

    fn pass_to_one(&mut self, changes: &mut Changes, now: Now, base: PvId, pv: PvId, lost: Skips) {
        let [base, entry] = self
            .entries
            .get_disjoint_mut([base.index(), pv.index()])
            .expect("a filtered PV and its PV have two numbers, and are open");
        let thinning = &mut self.thinning;
        if let Some(until) = entry.follow(base, pv, changes, now, lost, thinning) {
            self.held.push(Reverse((until, pv, entry.opening)));
        }
    }

    /// Opens a filtered PV with all that is known of its PV, so that its first snapshot is complete.
    pub(super) fn open_filtered(
        &mut self,
        tick: u64,
        now: Now,
        (pv, opening): (PvId, u32),
        base: PvId,
        (filter, form): (Filter, Option<Arc<Form>>),
        charge: Option<Arc<PvCharge>>,
    ) {
        let of = &mut self.entries[base.index()];
        of.filtered_pvs.push(pv);
        let mut gate = Gate::new(filter, now.instant);
        if let Some(form) = &form {
            gate = gate.with_array_interval(form.array_interval_ms);
        }
        let filtered = Filtered {
            base,
            gate,
            filter,
            form,
            mean: filter.average.then(Mean::default),
            lost: Skips::NONE,
            is_due: false,
            is_overdue: false,
        };
        let has_form = filtered.form.is_some();
        let latest = of.latest.as_ref().map(|latest| {
            let large = (&filtered.filter, &latest.value);
            (self.thinning).count(large, now.instant, || filtered.less(latest))
        });
        self.entries[pv.index()] = Entry {
            filtered: Some(Box::new(filtered)),
            opening,
            charge,
            connection: of.connection,
            is_refused: of.refusal().is_some(),
            is_search_overdue: of.is_search_overdue,
            metadata: of.metadata.clone(),
            latest,
            connection_tick: tick,
            metadata_tick: tick,
            value_tick: tick,
            alarm_tick: tick,
            detail_tick: tick,
            ..Entry::default()
        };
        let is_connected = self.entries[pv.index()].is_connected();
        if has_form && !is_connected {
            self.awaited.push_back((now.instant, pv, opening));
        }
    }

    /// Tells the clients of forms that a PV isn't connected, if it isn't within some time.
    pub(super) fn give_up_awaiting(&mut self, changes: &mut Changes, now: Now) {
        while let Some(&(since, pv, opening)) = self.awaited.front() {
            if now.instant.duration_since(since) < OVERDUE_AFTER {
                break;
            }
            self.awaited.pop_front();
            let entry = &mut self.entries[pv.index()];
            let is_awaited = entry.opening == opening && !entry.is_connected();
            if is_awaited && let Some(filtered) = &mut entry.filtered {
                filtered.is_overdue = true;
                entry.connection_tick = changes.tick;
                changes.connections.push((pv, entry.connection));
            }
        }
    }

    pub(super) fn close_filtered(&mut self, pv: PvId) {
        let closed = mem::take(&mut self.entries[pv.index()]);
        if let Some(filtered) = closed.filtered {
            self.entries[filtered.base.index()]
                .filtered_pvs
                .retain(|open| *open != pv);
        }
    }

    /// Passes the held updates whose time has come.
    pub(super) fn pass_held(&mut self, changes: &mut Changes, now: Now) {
        while let Some(&Reverse((due, pv, opening))) = self.held.peek() {
            if now.instant < due {
                break;
            }
            self.held.pop();
            let entry = &mut self.entries[pv.index()];
            if entry.opening == opening
                && let Some(filtered) = &mut entry.filtered
            {
                filtered.is_due = false;
                let base = filtered.base;
                self.pass_to_one(changes, now, base, pv, Skips::NONE);
            }
        }
    }
}

#[cfg(test)]
mod tests;
