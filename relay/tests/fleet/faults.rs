//! Every fault of a fleet has a bound: PVs of what is lost are disconnected at every edge within 3 s, and equal the
//! truth in every field within 5 s of the repair.
//!
//! Topology: one NATS server, two ingest relays, two edges with a client each; one edge reaches NATS by a wire that
//! the test cuts. A soft IOC whose values, metadata and rights change during each fault.

use std::time::{Duration, Instant};

use pvwire_schema::types::ConnectionState;

use super::relay;
use crate::subscriptions::served;
use testbed::{
    Client, DEADLINE, NatsServer, Network, Relay, SoftIoc, Truth, Wire, eventually, keep_up,
    prefix, within,
};

/// After this long without a sign of life of the owner, its PVs are disconnected.
const LOST_WITHIN: Duration = Duration::from_secs(3);

/// After this long everything is right again.
const RIGHT_WITHIN: Duration = Duration::from_secs(5);

/// Longer than any time-out.
const STALL: Duration = Duration::from_secs(15);

const RECORDS: &str = r#"
    record(ao, "$(P)ao") {
        field(VAL, "1") field(EGU, "mA") field(PREC, "2") field(DESC, "a current") field(PINI, "YES")
        field(HIHI, "50") field(HHSV, "MAJOR") field(HIGH, "20") field(HSV, "MINOR")
        field(HOPR, "90") field(DRVH, "1000")
    }
    record(mbbo, "$(P)mode") {
        field(ZRST, "off") field(ONST, "on") field(VAL, "1") field(PINI, "YES")
    }
    record(stringout, "$(P)text") { field(VAL, "hello") field(PINI, "YES") field(ASG, "SWITCHED") }
    record(waveform, "$(P)wave") { field(FTVL, "LONG") field(NELM, "9") field(INP, [4, 5]) field(PINI, "YES") }
    record(int64out, "$(P)int") { field(VAL, "5") field(PINI, "YES") field(DESC, "whole") }
    record(longout, "$(P)long") { field(VAL, "5") field(PINI, "YES") }
    record(bo, "$(P)bo") { field(ZNAM, "shut") field(ONAM, "open") field(VAL, "1") field(PINI, "YES") }
    record(waveform, "$(P)large") { field(FTVL, "DOUBLE") field(NELM, "200000") }
    record(ao, "$(P)switch") { field(VAL, "1") field(PINI, "YES") }
    record(calc, "$(P)count") { field(SCAN, ".1 second") field(INPA, "$(P)count") field(CALC, "A+1") }
"#;

const RULES: &str = r#"
    ASG(DEFAULT) { RULE(1, READ) RULE(1, WRITE) }
    ASG(SWITCHED) { INPA("$(P)switch") RULE(1, READ) RULE(1, WRITE) { CALC("A>=1") } }
"#;

const NAMES: [&str; 7] = ["ao", "mode", "text", "wave", "int", "long", "bo"];

/// Further PVs, so that each of two relays owns some.
const FURTHER: usize = 12;

/// How long it took until the loss showed, and until everything was right again.
struct Took(Duration, Duration);

impl Took {
    /// Less than [`LOST_WITHIN`] if both bounds are kept.
    fn bounded(self) -> Duration {
        self.0
            .max(self.1.saturating_sub(RIGHT_WITHIN - LOST_WITHIN))
    }
}

struct Fleet {
    network: Network,
    nats: NatsServer,
    /// Between NATS and the second edge.
    wire: Wire,
    ioc: SoftIoc,
    ingests: Vec<Relay>,
    edges: [Relay; 2],
    clients: [Client; 2],
    names: Vec<String>,
    count: String,
    changes: u32,
}

impl Fleet {
    fn start(nats: NatsServer) -> Self {
        let (network, prefix) = (Network::new(), prefix());
        let wire = Wire::lay(nats.port());
        let rules = RULES.replace("$(P)", &prefix);
        let further =
            (0..FURTHER).map(|n| format!(r#"record(ao, "$(P){n}") {{ field(PINI, "YES") }}"#));
        let records = RECORDS.to_owned() + &further.collect::<String>();
        let ioc = SoftIoc::with_prefix(network, &prefix, &records, &rules);
        let ingests = (0..2).map(|_| relay(network, &nats, "ingest", &[]));
        let ingests = ingests.collect();
        let behind_wire = format!("--bus=nats://127.0.0.2:{}", nats.port());
        let behind_wire = [behind_wire.as_str(), "--role=edge"];
        let edges = [
            relay(network, &nats, "edge", &[]),
            Relay::start(network, &behind_wire),
        ];
        let further = (0..FURTHER).map(|n| ioc.name(&n.to_string()));
        let names: Vec<String> = ioc.names(NAMES).into_iter().chain(further).collect();
        let count = ioc.name("count");
        let clients = edges.each_ref().map(|edge| client(edge, &names, &count));
        let mut fleet = Self {
            network,
            nats,
            wire,
            ioc,
            ingests,
            edges,
            clients,
            names,
            count,
            changes: 0,
        };
        let truth = fleet.truth();
        fleet.wait_right(&truth);
        fleet
    }

    /// Changes values, alarms, metadata and rights in the IOC.
    fn change(&mut self) {
        self.changes += 1;
        let (n, ioc) = (self.changes, &mut self.ioc);
        ioc.put("ao.EGU", &format!("u{n}"));
        ioc.put("ao.HOPR", &format!("{}", 100 + n));
        ioc.put("ao.HIHI", &format!("{}", 60 + n));
        ioc.put("ao", &format!("{}", (n * 19) % 90));
        ioc.put("mode.ONST", &format!("on {n}"));
        // Another value each time: the same would move the time stamp and post nothing.
        ioc.put("mode", &format!("{}", (n + 1) % 2));
        ioc.put("bo", &format!("{}", (n + 1) % 2));
        ioc.put("text", &format!("text {n}"));
        ioc.put("wave", &format!("[{n}, {}]", n * 2));
        ioc.put("int", &format!("{}", 9_007_199_254_740_993 + u64::from(n)));
        ioc.put("long", &format!("{}", 100 + n));
        ioc.put("switch", &format!("{}", n % 2));
        ioc.settle();
    }

    fn truth(&self) -> Truth {
        Truth::ask_described(self.network, &self.names)
    }

    /// Reads until both clients differ from the truth in nothing, and get further updates.
    fn wait_right(&mut self, truth: &Truth) {
        let count = &self.count;
        let seen = self.clients.each_ref().map(|c| c.pv(count).rows.len());
        let [a, b] = &mut self.clients;
        let latest = Instant::now() + DEADLINE / 2;
        keep_up("the truth at both edges", &mut [a, b], |clients| {
            let mut each = clients.iter().zip(seen);
            each.all(|(client, seen)| {
                let different = truth.differences(|name| Some(client.pv(name)));
                assert!(Instant::now() < latest, "for good: {different:#?}");
                let pv = client.pv(count);
                pv.state() == ConnectionState::Connected
                    && pv.rows.len() > seen
                    && different.is_empty()
            })
        });
        for client in &self.clients {
            let counted = client.pv(count).numbers();
            assert!(counted.is_sorted(), "it goes back: {counted:?}");
        }
    }

    /// Reads for some time.
    fn read_for(&mut self, time: Duration) {
        let end = Instant::now() + time;
        let [a, b] = &mut self.clients;
        keep_up("time passes", &mut [a, b], |_| Instant::now() >= end);
    }

    fn forget(&mut self) {
        self.clients.iter_mut().for_each(Client::forget_history);
    }

    /// Reads until `pvs` PVs of these clients have been disconnected.
    fn wait_lost(&mut self, clients: &[usize], pvs: usize) {
        let lost = |client: &Client| {
            let states = client.pvs.values().map(|pv| &pv.states);
            let lost = states.filter(|states| {
                (states.iter()).any(|state| state.state == ConnectionState::Disconnected)
            });
            lost.count() >= pvs
        };
        let [a, b] = &mut self.clients;
        keep_up("they are disconnected", &mut [a, b], |all| {
            clients.iter().all(|at| lost(all[*at]))
        });
    }

    /// Makes a fault, waits until it shows in these clients, repairs it, and waits until all is right again.
    fn survive(
        &mut self,
        clients: &[usize],
        pvs: usize,
        begin: impl FnOnce(&mut Self),
        repair: impl FnOnce(&mut Self),
    ) -> Took {
        self.forget();
        let start = Instant::now();
        begin(self);
        self.wait_lost(clients, pvs);
        let lost = start.elapsed();
        self.change();
        let truth = self.truth();
        let start = Instant::now();
        repair(self);
        self.wait_right(&truth);
        Took(lost, start.elapsed())
    }

    /// The position of the ingest relay that holds the most PVs, and how many.
    fn owner(&mut self) -> (usize, usize) {
        let all = self.names.len() + 1;
        let mut owned = vec![];
        eventually("each PV has one owner", || {
            let held = self
                .ingests
                .iter()
                .map(|it| it.metric("pvwire_fleet_pvs_owned"));
            owned = held.map(|held| held as usize).collect();
            owned.iter().sum::<usize>() == all && !owned.contains(&0)
        });
        let most = owned.iter().enumerate().max_by_key(|(_, held)| **held);
        let (at, held) = most.unwrap();
        (at, *held)
    }
}

fn client(edge: &Relay, names: &[String], count: &String) -> Client {
    let mut client = Client::connect(edge.address());
    client.subscribe_live(names);
    client.describe(names);
    client.subscribe_live(&[count]);
    client
}

#[test]
fn owner_that_is_killed_or_hangs_is_replaced_within_its_bound() {
    let mut fleet = Fleet::start(NatsServer::start());
    within(LOST_WITHIN, "a killed owner", || {
        let (at, held) = fleet.owner();
        fleet
            .survive(
                &[0, 1],
                held,
                |fleet| fleet.ingests[at].signal("KILL"),
                |fleet| fleet.ingests[at] = relay(fleet.network, &fleet.nats, "ingest", &[]),
            )
            .bounded()
    });
    within(LOST_WITHIN, "an owner that hangs", || {
        let (at, held) = fleet.owner();
        let took = fleet.survive(
            &[0, 1],
            held,
            |fleet| fleet.ingests[at].signal("STOP"),
            |_| (),
        );
        fleet.read_for(STALL);
        fleet.change();
        let truth = fleet.truth();
        fleet.forget();
        let start = Instant::now();
        fleet.ingests[at].signal("CONT");
        // It must not think that it owns them still.
        eventually("it has released its PVs", || {
            fleet.ingests[at].metric("pvwire_fleet_pvs_owned") == 0.0
        });
        let released = start.elapsed();
        fleet.wait_right(&truth);
        took.bounded()
            .max(released + LOST_WITHIN - Duration::from_secs(1))
    });
    let names = fleet.names.clone();
    let ioc = &mut fleet.ioc;
    eventually("one monitor each", || {
        let served = served(ioc);
        let channels = |name| {
            (served.iter())
                .filter(|(channel, _)| channel == name)
                .count()
        };
        names.iter().all(|name| channels(name) == 1)
    });
}

#[test]
fn lost_slow_or_partitioned_bus_shows_and_is_right_again_within_its_bound() {
    // A relay that reads too slowly is cut off early.
    let mut fleet = Fleet::start(NatsServer::with_config(
        "max_pending: 1048576\nwrite_deadline: \"500ms\"",
    ));
    let all = fleet.names.len() + 1;
    within(LOST_WITHIN, "a killed bus", || {
        let (kill, restart) = (
            |fleet: &mut Fleet| fleet.nats.kill(),
            |fleet: &mut Fleet| fleet.nats.restart(),
        );
        fleet.survive(&[0, 1], all, kill, restart).bounded()
    });
    within(LOST_WITHIN, "a bus that hangs", || {
        let hang = |fleet: &mut Fleet| fleet.nats.hang();
        let resume = |fleet: &mut Fleet| fleet.nats.resume();
        let repair = |fleet: &mut Fleet| {
            fleet.read_for(STALL);
            resume(fleet);
        };
        let Took(lost, right) = fleet.survive(&[0, 1], all, hang, repair);
        Took(lost, right.saturating_sub(STALL)).bounded()
    });
    within(LOST_WITHIN, "an edge that is cut off", || {
        let cut = |fleet: &mut Fleet| fleet.wire.set(true);
        let took = fleet.survive(&[1], all, cut, |fleet| fleet.wire.set(false));
        // The other edge notices nothing but the changed right, unless the machine itself hangs for seconds.
        let untouched = fleet.clients[0].pvs.values();
        match untouched.map(|pv| pv.states.len()).sum::<usize>() {
            0..=1 => took.bounded(),
            _ => DEADLINE,
        }
    });
    within(LOST_WITHIN, "a cut connection", || {
        let sever = |fleet: &mut Fleet| fleet.wire.sever();
        fleet.survive(&[1], all, sever, |_| ()).bounded()
    });
    slow_edge_is_cut_off_and_comes_back(&mut fleet);
    killed_edge_leaves_its_clients_another(&mut fleet);
}

/// NATS cuts a slow consumer off; a snapshot makes it right, and what it missed is counted.
fn slow_edge_is_cut_off_and_comes_back(fleet: &mut Fleet) {
    let connections = |fleet: &Fleet| fleet.edges[1].metric("pvwire_bus_connections_total");
    let before = connections(fleet);
    fleet.wire.slow(Duration::from_millis(200));
    assert_eq!(fleet.clients[1].subscribe(&[fleet.ioc.name("large")]), []);
    let mut written = 0;
    eventually("NATS cuts the slow edge off", || {
        written += 1;
        fleet.ioc.run(&format!(
            "from epicscorelibs.ioc import dbCore\n\
             dbCore.dbpf((P + 'large').encode(), b'[' + b'{written},' * 199_999 + b'0]')"
        ));
        fleet.ioc.settle();
        fleet.read_for(Duration::from_millis(20));
        connections(fleet) > before
    });
    fleet.change();
    let truth = fleet.truth();
    fleet.wire.slow(Duration::ZERO);
    fleet.wait_right(&truth);
}

/// The clients of a killed edge find the same at another.
fn killed_edge_leaves_its_clients_another(fleet: &mut Fleet) {
    fleet.edges[1].signal("KILL");
    assert_eq!(fleet.clients[1].wait_closed(), 1006);
    fleet.change();
    let truth = fleet.truth();
    within(RIGHT_WITHIN, "a killed edge", || {
        let start = Instant::now();
        fleet.clients[1] = client(&fleet.edges[0], &fleet.names, &fleet.count);
        fleet.wait_right(&truth);
        start.elapsed()
    });
}
