//! PVs, groups and servers for the status page and the metrics.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use pvwire_schema::types::{ConnectionState, PvId};
use tokio::sync::oneshot;

use super::Distributor;
use crate::fanout::control::{ListedPv, Overview, ServerTraffic};
use crate::state::table::{Entry, Table};

/// Number of PVs and servers that the metrics list: those with the most bytes.
const LARGEST: usize = 20;

/// Number of servers on the status page.
const LISTED_SERVERS: usize = 200;

impl Distributor {
    /// Answers all requests of one tick with one overview.
    pub(super) fn answer_overviews(
        &self,
        table: &Table,
        receivers: Vec<(usize, oneshot::Sender<Overview>)>,
    ) {
        let Some(limit) = receivers.iter().map(|(limit, _)| *limit).max() else {
            return;
        };
        let all = self.overview(table, limit);
        for (limit, answer) in receivers {
            let pvs = all.pvs.iter().take(limit).cloned().collect();
            let overview = Overview { pvs, ..all.clone() };
            // The receiver may be gone meanwhile.
            let _ = answer.send(overview);
        }
    }

    /// Counts PVs by connection state and bytes by server, and lists the first `limit` PVs by name.
    fn overview(&self, table: &Table, limit: usize) -> Overview {
        let mut overview = Overview {
            groups: self.groups.len(),
            ..Overview::default()
        };
        let mut servers = HashMap::<&str, ServerTraffic>::new();
        let mut by_bytes = Vec::new();
        let open = self.registry.open_pvs().into_iter();
        for (id, entry) in open.filter_map(|id| Some((id, table.get(id)?))) {
            *match entry.connection.state {
                ConnectionState::Connecting => &mut overview.connecting,
                ConnectionState::NotFound => &mut overview.not_found,
                ConnectionState::Connected => &mut overview.connected,
                ConnectionState::Disconnected => &mut overview.disconnected,
            } += 1;
            let bytes = entry.bytes_received();
            if bytes > 0 {
                by_bytes.push((Reverse(bytes), id));
            }
            if let Some(name) = &entry.server {
                let server = servers.entry(name).or_insert_with(|| ServerTraffic {
                    name: Arc::clone(name),
                    ..ServerTraffic::default()
                });
                server.pvs += 1;
                server.bytes += bytes;
            }
        }
        overview.servers = servers.into_values().collect();
        (overview.servers).sort_by(|a, b| (b.bytes, &a.name).cmp(&(a.bytes, &b.name)));
        overview.servers.truncate(LISTED_SERVERS);
        overview.largest = self.named(largest(by_bytes));
        for (name, id, holders) in self.registry.list(limit) {
            let Some(entry) = table.get(id) else { continue };
            overview.pvs.push(listed(name, holders, entry));
        }
        overview
    }

    /// The names of these PVs.
    fn named(&self, pvs: Vec<(u64, PvId)>) -> Vec<(Arc<str>, u64)> {
        let ids: Vec<_> = pvs.iter().map(|(_, id)| *id).collect();
        let names = self.registry.names(&ids).into_iter();
        let named = names
            .zip(pvs)
            .map(|(name, (bytes, _))| Some((name?, bytes)));
        named.flatten().collect()
    }
}

/// The PVs with the most bytes, in descending order.
fn largest(mut pvs: Vec<(Reverse<u64>, PvId)>) -> Vec<(u64, PvId)> {
    if pvs.len() > LARGEST {
        pvs.select_nth_unstable(LARGEST);
        pvs.truncate(LARGEST);
    }
    pvs.sort_unstable();
    pvs.into_iter()
        .map(|(Reverse(bytes), id)| (bytes, id))
        .collect()
}

fn listed(name: Arc<str>, holders: usize, entry: &Entry) -> ListedPv {
    ListedPv {
        name,
        state: entry.connection.state,
        holders,
        updates: entry.latest.as_ref().map_or(0, |latest| latest.sequence),
        bytes: entry.bytes_received(),
        server: entry.server.clone(),
    }
}
