//! Metrics of a relay in a fleet; all zero in a relay without a bus.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use pvwire_fleet::{Refusal, Role};
use pvwire_schema::types::Outcome;

use super::labels::register;
use super::labels::{FleetOperationLabel, ReasonLabel, ResultLabel, RoleLabel};
use super::raise;

/// Numbers that the fleet counts, read when `/metrics` is requested.
#[derive(Clone, Debug, Default)]
pub struct FleetReadings {
    /// Live members by the name of their role, this relay included.
    pub members: Vec<(&'static str, u64)>,
    /// PVs that this relay owns.
    pub pvs_owned: u64,
    /// PVs that other relays feed.
    pub pvs_fed: u64,
    /// PVs that no relay owns.
    pub pvs_without_owner: u64,
    /// Changes of the owner of a PV.
    pub moves: u64,
    /// PVs that this relay and another monitor.
    pub pvs_with_two_owners: u64,
    /// Hand-overs by their result.
    pub handovers: Vec<(&'static str, u64)>,
    /// Time that finished ones took.
    pub handover_time: Duration,
    /// Operations that other relays were asked for: kind, outcome and number.
    pub operations: Vec<(&'static str, Outcome, u64)>,
    /// Gaps in the messages of a shard.
    pub gaps: u64,
    /// Messages that could not be read.
    pub damaged: u64,
    /// Messages discarded because too many waited.
    pub discarded: u64,
    /// Snapshots published.
    pub snapshots: u64,
    /// The connection to NATS is there.
    pub connected: bool,
    /// Times that it was made.
    pub connections: u64,
    /// Messages and their bytes sent.
    pub sent: (u64, u64),
    /// Messages and their bytes received.
    pub received: (u64, u64),
    /// Messages not sent.
    pub refused: u64,
    /// What was refused of what came over the bus, by reason.
    pub refusals: Vec<(&'static str, u64)>,
}

/// Where the numbers come from.
type Source = Box<dyn Fn() -> Option<FleetReadings> + Send + Sync>;

/// Declares the metrics: each field with its type, its name and its help.
macro_rules! fleet_metrics {
    ($($field:ident: $type:ty = $name:literal, $help:literal;)*) => {
        /// The metrics of the fleet.
        #[derive(Default)]
        pub(super) struct FleetMetrics {
            source: OnceLock<Source>,
            $($field: $type,)*
        }

        impl FleetMetrics {
            pub(super) fn register(registry: &mut Registry) -> Self {
                let metrics = Self::default();
                $(register(registry, $name, $help, metrics.$field.clone());)*
                for role in Role::ALL {
                    let role = role.token();
                    metrics.members.get_or_create(&RoleLabel { role }).set(0);
                }
                for result in ["done", "failed"] {
                    drop(metrics.handovers.get_or_create(&ResultLabel { result }));
                }
                for reason in Refusal::ALL.map(Refusal::token) {
                    drop(metrics.refusals.get_or_create(&ReasonLabel { reason }));
                }
                for kind in ["put", "call"] {
                    let outcome = format!("{:?}", Outcome::Done);
                    let label = FleetOperationLabel { kind, outcome };
                    drop(metrics.operations.get_or_create(&label));
                }
                metrics
            }
        }
    };
}

fleet_metrics! {
    members: Family<RoleLabel, Gauge> = "fleet_members",
        "Live relays of the fleet by role, this one included";
    pvs_owned: Gauge = "fleet_pvs_owned",
        "PVs for which this relay holds the fleet's only monitor";
    pvs_fed: Gauge = "fleet_pvs_fed",
        "PVs whose updates come from other relays";
    pvs_without_owner: Gauge = "fleet_pvs_without_owner",
        "PVs that no relay owns: they are disconnected";
    moves: Counter = "fleet_pvs_moved",
        "Times that a PV left its owner for another relay or for none";
    pvs_with_two_owners: Gauge = "fleet_pvs_with_two_owners",
        "PVs that this relay and another both monitor, because they move between the two; a move ends within 10 s";
    handovers: Family<ResultLabel, Counter> = "fleet_handovers",
        "Moves of PVs of this relay's clients from a live owner to another, by result: done, or failed, which is not done within 10 s and shows the PV as disconnected";
    handover_time: Counter<f64, AtomicU64> = "fleet_handover_seconds",
        "Time that the moves with the result done took, added up";
    operations: Family<FleetOperationLabel, Counter> = "fleet_operations",
        "Puts and calls that this relay asked other relays for, by kind and outcome";
    gaps: Counter = "fleet_gaps",
        "Gaps in the messages of another relay; each costs a snapshot";
    damaged: Counter = "fleet_messages_damaged",
        "Messages of other relays that could not be read";
    discarded: Counter = "fleet_messages_discarded",
        "Messages of other relays discarded because too many waited";
    snapshots: Counter = "fleet_snapshots",
        "Snapshots published for other relays";
    connected: Gauge = "bus_connected",
        "1 while the relay is connected to NATS; otherwise 0";
    connections: Counter = "bus_connections",
        "Times that the relay connected to NATS";
    messages_sent: Counter = "bus_messages_sent",
        "Messages sent to NATS, requests and announcements included; a large message counts once per piece";
    bytes_sent: Counter = "bus_bytes_sent",
        "Bytes of the messages sent to NATS, without subjects and headers";
    messages_received: Counter = "bus_messages_received",
        "Messages received from NATS, requests and the relay's own announcements included; a large message counts once per piece";
    bytes_received: Counter = "bus_bytes_received",
        "Bytes of the messages received from NATS, without subjects and headers";
    refused: Counter = "bus_messages_refused",
        "Messages with updates that were not sent because the connection was lost or too many waited";
    refusals: Family<ReasonLabel, Counter> = "bus_refused",
        "What this relay refused of what came over the bus, by reason: unsigned, signature, clock (signed more than 30 s ago), repeated, own_id (another program speaks for this relay), uptime (a relay can't have run for so long), host (an address for clients that member_hosts doesn't allow), stranger (its sender has not announced itself) or budget (its sender asks for too much)";
}

impl fmt::Debug for FleetMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FleetMetrics").finish_non_exhaustive()
    }
}

impl FleetMetrics {
    /// Sets where the numbers come from, once.
    pub(super) fn watch(&self, source: Source) {
        // A relay joins one fleet.
        let _ = self.source.set(source);
    }

    /// Takes the numbers as they are now.
    pub(super) fn take(&self) {
        let Some(source) = self.source.get() else {
            return;
        };
        let Some(readings) = source() else {
            return;
        };
        for (role, count) in readings.members {
            let gauge = self.members.get_or_create(&RoleLabel { role });
            gauge.set(count as i64);
        }
        self.pvs_owned.set(readings.pvs_owned as i64);
        self.pvs_fed.set(readings.pvs_fed as i64);
        self.pvs_without_owner
            .set(readings.pvs_without_owner as i64);
        self.pvs_with_two_owners
            .set(readings.pvs_with_two_owners as i64);
        for (result, total) in readings.handovers {
            raise(
                &self.handovers.get_or_create(&ResultLabel { result }),
                total,
            );
        }
        for (reason, total) in readings.refusals {
            raise(&self.refusals.get_or_create(&ReasonLabel { reason }), total);
        }
        for (kind, outcome, total) in readings.operations {
            let outcome = format!("{outcome:?}");
            let label = FleetOperationLabel { kind, outcome };
            raise(&self.operations.get_or_create(&label), total);
        }
        let handover_time = readings.handover_time.as_secs_f64() - self.handover_time.get();
        self.handover_time.inc_by(handover_time.max(0.0));
        self.connected.set(readings.connected.into());
        let (messages_sent, bytes_sent) = readings.sent;
        let (messages_received, bytes_received) = readings.received;
        for (counter, total) in [
            (&self.moves, readings.moves),
            (&self.gaps, readings.gaps),
            (&self.damaged, readings.damaged),
            (&self.discarded, readings.discarded),
            (&self.snapshots, readings.snapshots),
            (&self.connections, readings.connections),
            (&self.messages_sent, messages_sent),
            (&self.bytes_sent, bytes_sent),
            (&self.messages_received, messages_received),
            (&self.bytes_received, bytes_received),
            (&self.refused, readings.refused),
        ] {
            raise(counter, total);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_the_fleet_are_read_when_they_are_asked_for() {
        let mut registry = Registry::default();
        let metrics = FleetMetrics::register(&mut registry);
        metrics.take();
        metrics.watch(Box::new(|| {
            Some(FleetReadings {
                members: vec![("edge", 3)],
                moves: 7,
                handovers: vec![("failed", 2)],
                operations: vec![("put", Outcome::TimedOut, 4)],
                received: (5, 500),
                connected: true,
                refusals: vec![("unsigned", 6)],
                ..FleetReadings::default()
            })
        }));
        metrics.take();
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for line in [
            "fleet_members{role=\"edge\"} 3\n",
            "fleet_pvs_moved_total 7\n",
            "fleet_handovers_total{result=\"failed\"} 2\n",
            "fleet_operations_total{kind=\"put\",outcome=\"TimedOut\"} 4\n",
            "fleet_operations_total{kind=\"call\",outcome=\"Done\"} 0\n",
            "bus_bytes_received_total 500\n",
            "bus_connected 1\n",
            "fleet_gaps_total 0\n",
            "bus_refused_total{reason=\"unsigned\"} 6\n",
            "bus_refused_total{reason=\"own_id\"} 0\n",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
    }
}
