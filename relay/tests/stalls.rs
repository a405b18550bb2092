//! Every field of every PV is right after an IOC, or the network to it, stalled for longer than the
//! time-out of its connection.
//!
//! Topology: a soft IOC with each kind of record that can be stopped, a proxy to it that can be
//! cut, a relay, clients, and an independent Channel Access client for comparison.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pvwire_schema::types::{Connection, ConnectionState, Outcome};

use testbed::records::{KINDS, record};
use testbed::{Client, Network, Pv, Relay, SoftIoc, Truth, Wire, prefix, relay_command, within};

/// Within this a PV says that its server doesn't answer.
const SHOWN_WITHIN: Duration = Duration::from_secs(3);

/// Longer than libca waits: 5 s without a sign of life and 5 s for the answer to an echo.
const STALL: Duration = Duration::from_secs(11);

const PUTS: [&str; 2] = ["--enable-put", "--allow-put=*"];

struct World {
    network: Network,
    ioc: SoftIoc,
    names: Vec<String>,
}

impl World {
    fn new() -> Self {
        let (network, prefix) = (Network::new(), prefix());
        let names: Vec<String> = KINDS
            .iter()
            .enumerate()
            .map(|(number, _)| format!("{prefix}{number}"))
            .collect();
        let database: String = (KINDS.iter().zip(&names))
            .map(|(kind, name)| record(kind, name, 3))
            .collect();
        let ioc = SoftIoc::with_pv_access(network, &prefix, &database);
        Self {
            network,
            ioc,
            names,
        }
    }

    /// Stalls for longer than the time-outs, then compares every field of every PV, in a client
    /// that was there and in a new one.
    fn stall(&mut self, relay: &Relay, mut stall: impl FnMut(&mut SoftIoc, bool)) {
        let mut client = Client::connect(relay.address());
        let pva: Vec<String> = (self.names.iter())
            .map(|name| format!("pva://{name}"))
            .collect();
        client.subscribe_live(&self.names);
        client.subscribe_live(&pva);
        let seen = |client: &Client| -> Vec<_> {
            pva.iter().map(|name| picture(client.pv(name))).collect()
        };
        let before = seen(&client);

        let (mut begin_ns, mut start) = (0, Instant::now());
        within(SHOWN_WITHIN, "no PV has news", || {
            stall(&mut self.ioc, false);
            client.wait("every PV has news", |client| {
                client.pvs.values().all(is_responsive)
            });
            begin_ns = wall_ns();
            stall(&mut self.ioc, true);
            start = Instant::now();
            client.wait("no PV has news", |client| {
                client.pvs.values().all(is_unresponsive)
            });
            start.elapsed()
        });
        for pv in client.pvs.values() {
            let heard_ns = pv.connection.unwrap().heard_ns;
            assert!(
                (begin_ns - 10_000_000_000..wall_ns() - 1_000_000_000).contains(&heard_ns),
                "{heard_ns}, {begin_ns}"
            );
        }
        client.wait("every PV is disconnected", |client| {
            let mut pvs = client.pvs.values();
            start.elapsed() >= STALL && pvs.all(|pv| pv.state() == ConnectionState::Disconnected)
        });
        for pv in client.pvs.values() {
            let connection = pv.connection.unwrap();
            assert!(!connection.read && !connection.write);
            let silent_ns = connection.since_ns - connection.heard_ns;
            assert!(
                silent_ns > 2_000_000_000,
                "old since the last news: {connection:?}"
            );
        }
        stall(&mut self.ioc, false);

        client.wait("every PV is connected", |client| {
            let mut pvs = client.pvs.values();
            pvs.all(|pv| pv.state() == ConnectionState::Connected)
        });
        let truth = Truth::ask(self.network, &self.names);
        truth.wait_equal(&mut client);
        for (name, before) in pva.iter().zip(&before) {
            client.wait_pv(name, before, |pv| picture(pv) == *before);
        }
        let mut late = Client::connect(relay.address());
        late.subscribe_live(&self.names);
        truth.wait_equal(&mut late);
        for name in [&self.names[1], &pva[1]] {
            assert_eq!(late.put_number(name, 7.5).0, Outcome::Done);
            client.wait_number(name, 7.5);
        }
    }
}

fn wall_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap().as_nanos() as i64
}

/// Connected, but its server doesn't answer.
fn is_unresponsive(pv: &Pv) -> bool {
    let connection = pv.connection.unwrap();
    connection.state == ConnectionState::Connected && connection.heard_ns != 0
}

/// Connected, and its server answers.
fn is_responsive(pv: &Pv) -> bool {
    let connection = pv.connection.unwrap();
    connection.state == ConnectionState::Connected && connection.heard_ns == 0
}

/// What a client knows of a PV but for the moment when it was connected.
fn picture(pv: &Pv) -> String {
    let connection = pv.connection.unwrap();
    let now = pv.now.as_ref();
    let now = now.map(|now| (&now.value, now.alarm, now.time_ns));
    format!(
        "{:?} {} {} {now:?} {:?}",
        connection.state, connection.read, connection.write, pv.metadata
    )
}

#[test]
fn every_field_is_right_after_an_ioc_hung_beyond_the_time_out() {
    let mut world = World::new();
    let relay = Relay::start(world.network, &PUTS);
    world.stall(&relay, |ioc, stalls| match stalls {
        true => ioc.hang(),
        false => ioc.resume(),
    });
}

#[test]
fn every_field_is_right_after_a_network_cut_beyond_the_time_out() {
    let mut world = World::new();
    let ports = [world.network.server_port(), world.network.pva_port()];
    let wires = ports.map(Wire::lay);
    let mut command = relay_command(world.network);
    let [ca, pva] = ports.map(|port| format!("127.0.0.2:{port}"));
    command
        .env("EPICS_CA_ADDR_LIST", "")
        .env("EPICS_CA_NAME_SERVERS", ca)
        .env("EPICS_PVA_NAME_SERVERS", pva);
    let relay = Relay::spawn(command, &PUTS);
    world.stall(&relay, |_, stalls| {
        wires.iter().for_each(|wire| wire.set(stalls));
    });
}

#[test]
fn ioc_that_hangs_for_a_moment_is_unresponsive_an_idle_one_not() {
    let mut world = World::new();
    let relay = Relay::start(world.network, &PUTS);
    let mut client = Client::connect(relay.address());
    client.subscribe_live(&world.names);
    let name = world.names[0].clone();

    for _ in 0..2 {
        let start = Instant::now();
        client.wait("nothing happens", |client| {
            for pv in client.pvs.values() {
                assert!(!is_unresponsive(pv), "an idle IOC is healthy");
            }
            start.elapsed() > SHOWN_WITHIN
        });
        world.ioc.hang();
        client.wait_pv(&name, "no news", is_unresponsive);
        let mut late = Client::connect(relay.address());
        late.subscribe_live(&[&name]);
        assert!(is_unresponsive(late.pv(&name)), "a new client is told too");
        world.ioc.resume();
        client.wait("there is news", |client| {
            !client.pvs.values().any(is_unresponsive)
        });
        let states = &client.pv(&name).states;
        let connected = |connection: &Connection| connection.state == ConnectionState::Connected;
        assert!(
            states
                .iter()
                .skip_while(|connection| !connected(connection))
                .all(connected)
        );
    }
    world.ioc.put("0", "1.5");
    client.wait_number(&name, 1.5);
}
