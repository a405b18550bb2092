//! What did one tick bring, row by row?

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

/// How many updates a tick brought, and how many it would have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Taken in from sources.
    pub taken: u64,
    /// Lost because more came than could be taken in.
    pub relay: u64,
    /// Lost in the source.
    pub source: u64,
    /// Withheld from views, once for each.
    pub filter: u64,
}

/// What one tick brought.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// Number of the tick.
    pub tick: u64,
    /// Every update that travels beside others, in order.
    pub rows: Vec<ChangedRow>,
    /// Every update that travels alone, in order; of one PV they come after those in `rows`.
    pub large: Vec<LargeRow>,
    /// PVs whose first value of a connection is among the updates: it may be as old as the PV's last
    /// change.
    pub first_values: Vec<PvId>,
    /// Every connection or access change, in order.
    pub connections: Vec<(PvId, Connection)>,
    /// PVs whose metadata changed, with the newest; once each.
    pub metadata: Vec<(PvId, Arc<Metadata>)>,
    /// Which of the values may be in `rows`.
    pub together: Together,
    /// For the counters.
    pub counts: Counts,
}

impl Changes {
    /// Whether nothing happened.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.updates() == 0 && self.connections.is_empty() && self.metadata.is_empty()
    }

    /// How many updates there were.
    #[must_use]
    pub fn updates(&self) -> usize {
        self.rows.len() + self.large.len()
    }
}
