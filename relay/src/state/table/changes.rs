//! Everything that one tick brought, row by row.

use std::sync::Arc;

use pvwire_schema::types::{Alarm, Connection, Detail, Metadata, PvId, Skips};

use super::{LargeRow, Together};
use crate::ingest::RowValue;

/// One update in the order of arrival.
#[derive(Clone, Debug)]
pub struct ChangedRow {
    /// The PV.
    pub pv: PvId,
    /// Nanoseconds past the POSIX epoch.
    pub time_ns: i64,
    /// The value.
    pub value: RowValue,
    /// The alarm, when it changed with this row.
    pub alarm: Option<Alarm>,
    /// User tag and alarm message, when they changed with this row.
    pub detail: Option<Arc<Detail>>,
    /// Updates that were left out just before this one.
    pub skips: Skips,
}

/// Numbers of updates of a tick: those taken, and those left out by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Taken in from sources.
    pub taken: u64,
    /// Lost because the ring of the intake was full.
    pub relay: u64,
    /// Squashed in the source.
    pub source: u64,
    /// Lost between relays.
    pub bus: u64,
    /// Withheld by filters, once for each filtered PV.
    pub filter: u64,
}

/// A PV was opened, or closed.
#[derive(Clone, Debug)]
pub struct Lifecycle {
    /// Its number.
    pub pv: PvId,
    /// Its name with its source, if it was opened and has one.
    pub opened: Option<Arc<str>>,
    /// What the tick brought for the PV that had the number before.
    pub before: Before,
}

/// Numbers of changes that came before one of the same tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Before {
    /// Of `rows`.
    pub row: usize,
    /// Of `large`.
    pub large: usize,
    /// Of `connections`.
    pub connection: usize,
}

/// What one tick brought.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// Number of the tick.
    pub tick: u64,
    /// Updates that travel together in one frame, in order.
    pub rows: Vec<ChangedRow>,
    /// Updates that travel in separate frames, in order. Those of one PV come after its updates in `rows`.
    pub large: Vec<LargeRow>,
    /// PVs whose first value of a connection is among the updates: it may be as old as the PV's last
    /// change.
    pub first_values: Vec<PvId>,
    /// Changes of connection or access rights, in order.
    pub connections: Vec<(PvId, Connection)>,
    /// PVs that were opened or closed, in order. They are no changes for clients.
    pub lifecycles: Vec<Lifecycle>,
    /// PVs whose metadata changed, once each, with the newest.
    pub metadata: Vec<(PvId, Arc<Metadata>)>,
    /// Bounds the values in `rows`.
    pub together: Together,
    /// For the counters.
    pub counts: Counts,
}

impl Changes {
    /// Whether the tick brought nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.updates() == 0 && self.connections.is_empty() && self.metadata.is_empty()
    }

    /// A PV is opened, or closed if it has no name.
    pub(super) fn live(&mut self, pv: PvId, opened: Option<Arc<str>>) {
        let before = Before {
            row: self.rows.len(),
            large: self.large.len(),
            connection: self.connections.len(),
        };
        self.lifecycles.push(Lifecycle { pv, opened, before });
    }

    /// Number of updates.
    #[must_use]
    pub fn updates(&self) -> usize {
        self.rows.len() + self.large.len()
    }
}
