//! PVs, groups and servers for the status page and the metrics.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pvwire_schema::types::{ConnectionState, PvId};
use tokio::sync::oneshot;

use super::Distributor;
use crate::compute::cpu_time;
use crate::fanout::control::{ListedPv, Overview, ServerTraffic, SourceTraffic};
use crate::state::table::Table;

/// Number of PVs and servers that the metrics list: those with the most bytes.
const LARGEST: usize = 20;

/// Number of servers on the status page.
const LISTED_SERVERS: usize = 200;

/// An overview walks over all PVs, and anyone may ask for the status page. After one was made, the next one is made this
/// many times as long later, so that ticks spend at most a twentieth of their time on them.
const REST: u32 = 20;

/// An overview that takes no longer may be made in each tick.
const CHEAP: Duration = Duration::from_micros(200);

/// The last overview. It answers requests until the next one may be made.
pub(super) struct LastOverview {
    /// Without the PVs.
    overview: Overview,
    /// The first PVs by name, up to `limit`.
    pvs: Vec<ListedPv>,
    limit: usize,
    lasts_until: Instant,
}

impl Distributor {
    /// Answers all requests of one tick with one overview.
    pub(super) fn answer_overviews(
        &mut self,
        table: &Table,
        receivers: Vec<(usize, oneshot::Sender<Overview>)>,
        now: Instant,
    ) {
        let Some(limit) = receivers.iter().map(|(limit, _)| *limit).max() else {
            return;
        };
        let last = self.last_overview.take();
        // The longest list is made again, so that it serves all requests.
        let longest = last.as_ref().map_or(0, |last| last.limit).max(limit);
        let serves = |last: &LastOverview| now < last.lasts_until && limit <= last.limit;
        let last = last
            .filter(serves)
            .unwrap_or_else(|| self.make_overview(table, longest, now));
        for (limit, answer) in receivers {
            let overview = Overview {
                pvs: last.pvs.iter().take(limit).cloned().collect(),
                ..last.overview.clone()
            };
            // The receiver may be gone meanwhile.
            let _ = answer.send(overview);
        }
        self.last_overview = Some(last);
    }

    fn make_overview(&self, table: &Table, limit: usize, now: Instant) -> LastOverview {
        let begun = cpu_time();
        let mut overview = self.overview(table);
        overview.groups = self.groups.len();
        let mut pvs = Vec::new();
        for (name, id, holders) in self.registry.list("", limit) {
            let Some(entry) = table.get(id) else { continue };
            pvs.push(ListedPv::new(name, holders, entry));
        }
        let took = cpu_time().saturating_sub(begun);
        LastOverview {
            overview,
            pvs,
            limit,
            lasts_until: now + took.saturating_sub(CHEAP) * REST,
        }
    }

    /// Counts PVs by connection state and bytes by server.
    fn overview(&self, table: &Table) -> Overview {
        let mut overview = Overview::default();
        let mut servers = HashMap::<&str, ServerTraffic>::new();
        let mut by_bytes = Vec::new();
        let by_source = self.registry.open_pvs();
        let open = by_source.iter().flat_map(|(name, pvs)| {
            let known = pvs.iter().filter_map(|id| Some((*id, table.get(*id)?)));
            known.map(move |(id, entry)| (name, id, entry))
        });
        for (name, id, entry) in open {
            let is_connected = entry.connection.state == ConnectionState::Connected;
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
            let source = of_source(&mut overview.sources, name);
            source.pvs += 1;
            source.connected += usize::from(is_connected);
            source.bytes += bytes;
            source.updates += u64::from(entry.latest.as_ref().map_or(0, |latest| latest.sequence));
            if let Some(name) = &entry.server {
                let server = servers.entry(name).or_insert_with(|| ServerTraffic {
                    name: Arc::clone(name),
                    ..ServerTraffic::default()
                });
                server.pvs += 1;
                server.connected += usize::from(is_connected);
                server.bytes += bytes;
            }
        }
        overview.servers = servers.into_values().collect();
        (overview.servers).sort_by(|a, b| (b.bytes, &a.name).cmp(&(a.bytes, &b.name)));
        overview.servers.truncate(LISTED_SERVERS);
        overview.largest = self.named(largest(by_bytes));
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

/// What came from a source. The PVs of one source follow each other.
fn of_source<'a>(sources: &'a mut Vec<SourceTraffic>, name: &str) -> &'a mut SourceTraffic {
    if sources.last().is_none_or(|last| last.name != name) {
        sources.push(SourceTraffic {
            name: name.to_owned(),
            ..SourceTraffic::default()
        });
    }
    sources.last_mut().expect("one was just added")
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
