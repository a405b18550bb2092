//! Where is the one frame that brings a large value to all who want it?
//!
//! It is made by the first shard that needs it and names nobody, so the same bytes serve the clients
//! that keep up, those that were behind and those that are new. Only the newest of each PV is kept,
//! and only for as long as somebody uses it; making it again copies no array.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use prometheus_client::metrics::counter::Counter;
use pvwire_schema::types::{Channel, ConnectionState, FrameKind, PvId};

use crate::frame::{Frame, FrameMaker};
use crate::set::PvSet;
use crate::table::{Changes, Entry, LargeRow, Latest, Table};

/// One update of one PV that travels in a frame of its own.
#[derive(Debug)]
pub struct LargeValue {
    pv: PvId,
    epoch: u32,
    /// Tick that the update came in.
    tick: u64,
    latest: Latest,
    channel: Channel,
    channel_tick: u64,
    /// For those who know the PV's update before, or that they missed it.
    next: OnceLock<Arc<Frame>>,
    /// For those to whom it is the first.
    first: OnceLock<Arc<Frame>>,
}

impl LargeValue {
    fn new(pv: PvId, epoch: u32, tick: u64, latest: &Latest, entry: &Entry) -> Self {
        Self {
            pv,
            epoch,
            tick,
            latest: latest.clone(),
            channel: entry.channel,
            channel_tick: entry.channel_tick,
            next: OnceLock::new(),
            first: OnceLock::new(),
        }
    }

    fn is_of(&self, entry: &Entry, latest: &Latest) -> bool {
        (self.epoch, self.latest.sequence, self.channel_tick)
            == (entry.epoch(), latest.sequence, entry.channel_tick)
    }

    /// Whose value it is.
    #[must_use]
    pub fn pv(&self) -> PvId {
        self.pv
    }

    /// Its frame, for a client that it `is_first` of the PV for or for one that counts what it missed
    /// since the one before. `made` counts those that weren't there yet.
    pub fn frame(&self, is_first: bool, maker: &mut FrameMaker, made: &Counter) -> Arc<Frame> {
        let (place, kind) = if is_first {
            (&self.first, FrameKind::Snapshot)
        } else {
            (&self.next, FrameKind::CatchUp)
        };
        let frame = place.get_or_init(|| {
            made.inc();
            Arc::new(maker.large(kind, self.tick, self.pv, &self.latest, self.channel))
        });
        Arc::clone(frame)
    }
}

/// The newest large values that somebody was given.
#[derive(Debug, Default)]
pub struct LargeValues {
    newest: HashMap<PvId, Arc<LargeValue>>,
}

impl LargeValues {
    /// The large values of a tick, in order. They will say themselves which of their PVs are back.
    pub fn of_tick(&mut self, table: &Table, changes: &mut Changes) -> Vec<Arc<LargeValue>> {
        let tick = changes.tick;
        let make = |row: &LargeRow| {
            let entry = table.entry(row.pv);
            let value = LargeValue::new(row.pv, row.epoch, tick, &row.latest, entry);
            let value = Arc::new(value);
            self.newest.insert(row.pv, Arc::clone(&value));
            value
        };
        let values: Vec<_> = changes.large.iter().map(make).collect();
        if !values.is_empty() {
            let large = PvSet::new(values.iter().map(|value| value.pv).collect());
            changes.channels.retain(|(pv, channel)| {
                channel.state != ConnectionState::Connected || !large.contains(*pv)
            });
        }
        values
    }

    /// Those of `ids` that are large now and came after tick `since`.
    pub fn changed(&mut self, table: &Table, ids: &[PvId], since: u64) -> Arc<[Arc<LargeValue>]> {
        let mut values = Vec::new();
        for &pv in ids {
            let entry = table.entry(pv);
            if entry.value_tick > since
                && let Some(latest) = entry.large()
            {
                values.push(self.newest(pv, entry, latest));
            }
        }
        values.into()
    }

    fn newest(&mut self, pv: PvId, entry: &Entry, latest: &Latest) -> Arc<LargeValue> {
        if let Some(value) = self.newest.get(&pv)
            && value.is_of(entry, latest)
        {
            return Arc::clone(value);
        }
        let value = LargeValue::new(pv, entry.epoch(), entry.value_tick, latest, entry);
        let value = Arc::new(value);
        self.newest.insert(pv, Arc::clone(&value));
        value
    }

    /// Forgets those that nobody is being given.
    pub fn sweep(&mut self) {
        self.newest.retain(|_, value| Arc::strong_count(value) > 1);
    }
}
