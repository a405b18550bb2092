//! The fleet of a run with `PVWIRE_SOAK_FLEET`: the bus, two relays that hold the PVs, a second edge, and their faults.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use super::watcher::Address;
use super::{World, attacks, streams};
use testbed::{NatsServer, Relay, Wire, file, relay_command};

/// While every 16 KiB wait so long, NATS cuts the edge off at times.
const SLOW: Duration = Duration::from_millis(100);

/// At this address the first owner finds the bus.
const OWNER_FINDS: &str = "127.0.0.4";

/// The faults. Each comes once before any comes again.
const FAULTS: [&str; 13] = [
    "an owner dies and comes back",
    "an owner hangs for a while",
    "the bus dies and comes back",
    "the bus hangs for a while",
    "the edge is cut off from the bus for a while",
    "the connection of the edge to the bus is cut",
    "the bus is slow for the edge",
    "an owner is stopped as planned, and another comes",
    "an owner is cut off from the bus for a while",
    "the connection of an owner to the bus is cut",
    "the second edge dies and comes back",
    "the second edge hangs for a while",
    "a program on the bus speaks for relays and users",
];

/// What the relays sign with, and the program on the bus doesn't have.
const KEY: &str = "vJ3m0rYk6cP8hWn2tQ5xZs1bLf4dGa7eUiOoRyTwE9M=\n";

/// The bus and the relays behind it.
pub(super) struct Fleet {
    nats: NatsServer,
    /// The flag that names the file with the key.
    pub(super) key: String,
    /// Between the bus and the edge, which clients use.
    wire: Wire,
    /// Between the bus and the first owner.
    owner_wire: Wire,
    owners: [Option<Relay>; 2],
    second_edge: Option<Relay>,
    /// Where clients find the second edge.
    pub(super) second: Address,
    /// Numbers of the faults that come next.
    next: Vec<usize>,
}

impl Fleet {
    pub(super) fn start() -> Self {
        let nats = NatsServer::with_config("max_pending: 1048576\nwrite_deadline: \"1s\"");
        let key = file("soak-bus.key", KEY);
        Self {
            key: format!("--bus-key={}", key.display()),
            wire: Wire::lay(nats.port()),
            owner_wire: Wire::lay_from(OWNER_FINDS, nats.port()),
            nats,
            owners: [None, None],
            second_edge: None,
            second: Address::default(),
            next: Vec::new(),
        }
    }

    /// The address of the second edge, while it runs.
    pub(super) fn second_address(&self) -> Option<SocketAddr> {
        *self.second.lock().unwrap()
    }

    /// Where the edge finds the bus.
    pub(super) fn url(&self) -> String {
        format!("nats://127.0.0.2:{}", self.nats.port())
    }
}

impl World {
    /// Starts the relays that hold the PVs of the fleet, and its second edge, unless they run.
    pub(super) fn start_owners(&mut self) {
        let addresses = self.liar.addresses(&format!("127.0.0.2 {}", streams::HOST));
        let rules = self.rules.path.to_str().unwrap();
        let Some(fleet) = &mut self.fleet else {
            return;
        };
        let first = format!("nats://{OWNER_FINDS}:{}", fleet.nats.port());
        let buses = [first, fleet.nats.url()];
        let allowed = format!("--allow-put={}*", self.prefix);
        for (owner, bus) in fleet.owners.iter_mut().zip(&buses) {
            if owner.is_some() {
                continue;
            }
            let mut command = relay_command(self.network);
            command.env("EPICS_CA_ADDR_LIST", &addresses);
            let flags = [
                &fleet.key,
                "--bus",
                bus,
                "--role",
                "ingest",
                "--config",
                rules,
                "--pvws",
                "--enable-put",
                &allowed,
            ];
            *owner = Some(Relay::spawn(command, &flags));
        }
        if fleet.second_edge.is_none() {
            let bus = fleet.nats.url();
            let fixed = ["--bus", &bus, "--role", "edge", "--config", rules, "--pvws"];
            let puts = ["--enable-put", &allowed, &fleet.key];
            let edge = Relay::spawn(relay_command(self.network), &[&fixed[..], &puts].concat());
            *fleet.second.lock().unwrap() = Some(edge.address());
            fleet.second_edge = Some(edge);
        }
    }

    /// An owner, the bus or the way to it ends, hangs or is cut, and comes back.
    pub(super) fn break_fleet(&mut self) {
        let pause = self.random.millis(1, 4_000);
        let which = self.random.below(2);
        let Some(fleet) = &mut self.fleet else {
            return;
        };
        if fleet.next.is_empty() {
            fleet.next.extend(0..FAULTS.len());
        }
        let kind = self.random.below(fleet.next.len());
        let kind = fleet.next.swap_remove(kind);
        self.say(FAULTS[kind]);
        let Some(fleet) = &mut self.fleet else {
            return;
        };
        let owner = &mut fleet.owners[which];
        match kind {
            0 => *owner = None,
            1 => owner.as_ref().unwrap().signal("STOP"),
            2 => fleet.nats.kill(),
            3 => fleet.nats.hang(),
            4 => fleet.wire.set(true),
            5 => fleet.wire.sever(),
            6 => fleet.wire.slow(SLOW),
            7 => {
                let mut stopped = owner.take().unwrap();
                stopped.signal("TERM");
                let ended = stopped.wait_end(Duration::from_secs(20));
                assert!(ended.success(), "{ended:?}");
            }
            8 => fleet.owner_wire.set(true),
            9 => fleet.owner_wire.sever(),
            10 => {
                *fleet.second.lock().unwrap() = None;
                fleet.second_edge = None;
            }
            11 => fleet.second_edge.as_ref().unwrap().signal("STOP"),
            _ => return attacks::begin(&fleet.nats).run(pause),
        }
        if kind == 6 {
            self.burst();
        }
        thread::sleep(pause);
        let Some(fleet) = &mut self.fleet else {
            return;
        };
        match kind {
            0 | 7 | 10 => self.start_owners(),
            1 => (fleet.owners[which].as_ref().unwrap()).signal("CONT"),
            2 => fleet.nats.restart(),
            3 => fleet.nats.resume(),
            4 => fleet.wire.set(false),
            6 => fleet.wire.slow(Duration::ZERO),
            8 => fleet.owner_wire.set(false),
            11 => fleet.second_edge.as_ref().unwrap().signal("CONT"),
            _ => {}
        }
    }

    /// Fails when a relay has ended by itself, or one of its threads has panicked.
    pub(super) fn check_relays(&mut self) {
        let of_fleet = self.fleet.iter_mut();
        let others =
            of_fleet.flat_map(|fleet| fleet.owners.iter_mut().chain([&mut fleet.second_edge]));
        for relay in others.chain([&mut self.relay]).flatten() {
            assert!(relay.runs(), "a relay has ended by itself");
            let output = relay.output();
            assert!(!output.contains("panicked"), "{output}");
        }
    }
}
