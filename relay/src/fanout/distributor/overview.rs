//! PVs and groups for the status page.

use pvwire_schema::types::ConnectionState;

use super::Distributor;
use crate::fanout::control::Overview;
use crate::state::table::Table;

impl Distributor {
    /// Counts PVs by connection state, and lists the first `limit` of them by name.
    pub(super) fn overview(&self, table: &Table, limit: usize) -> Overview {
        let mut overview = Overview {
            groups: self.groups.len(),
            ..Overview::default()
        };
        for entry in (self.registry.open_pvs().into_iter()).filter_map(|id| table.get(id)) {
            *match entry.connection.state {
                ConnectionState::Connecting => &mut overview.connecting,
                ConnectionState::NotFound => &mut overview.not_found,
                ConnectionState::Connected => &mut overview.connected,
                ConnectionState::Disconnected => &mut overview.disconnected,
            } += 1;
        }
        if limit == 0 {
            return overview;
        }
        for (name, id, holders) in self.registry.list(limit) {
            let Some(entry) = table.get(id) else { continue };
            let updates = entry.latest.as_ref().map_or(0, |latest| latest.sequence);
            overview
                .pvs
                .push((name, entry.connection.state, holders, updates));
        }
        overview
    }
}
