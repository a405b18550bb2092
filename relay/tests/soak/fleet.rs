//! The fleet of a run with `PVWIRE_SOAK_FLEET`: the bus, two relays that hold the PVs, and their faults.

use std::thread;
use std::time::Duration;

use super::{World, waits};
use testbed::{NatsServer, Relay, Wire, relay_command};

/// While every 16 KiB wait so long, NATS cuts the edge off at times.
const SLOW: Duration = Duration::from_millis(100);

/// The bus and the relays behind it.
pub(super) struct Fleet {
    nats: NatsServer,
    /// Between the bus and the edge, which clients use.
    wire: Wire,
    owners: [Option<Relay>; 2],
}

impl Fleet {
    pub(super) fn start() -> Self {
        let nats = NatsServer::with_config("max_pending: 1048576\nwrite_deadline: \"1s\"");
        Self {
            wire: Wire::lay(nats.port()),
            nats,
            owners: [None, None],
        }
    }

    /// Where the edge finds the bus.
    pub(super) fn url(&self) -> String {
        format!("nats://127.0.0.2:{}", self.nats.port())
    }
}

impl World {
    /// Starts the relays that hold the PVs of the fleet, unless they run.
    pub(super) fn start_owners(&mut self) {
        let addresses = self.liar.addresses(&format!("127.0.0.2 {}", waits::HOST));
        let rules = self.rules.path.to_str().unwrap();
        let Some(fleet) = &mut self.fleet else {
            return;
        };
        let (bus, allowed) = (fleet.nats.url(), format!("--allow-put={}*", self.prefix));
        for owner in fleet.owners.iter_mut().filter(|owner| owner.is_none()) {
            let mut command = relay_command(self.network);
            command.env("EPICS_CA_ADDR_LIST", &addresses);
            let flags = [
                "--bus",
                &bus,
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
    }

    /// An owner, the bus or the way to it ends, hangs or is cut, and comes back.
    pub(super) fn break_fleet(&mut self) {
        let (pause, kind) = (self.random.millis(1, 4_000), self.random.below(8));
        let which = self.random.below(2);
        let what = [
            "an owner dies and comes back",
            "an owner hangs for a while",
            "the bus dies and comes back",
            "the bus hangs for a while",
            "the edge is cut off from the bus for a while",
            "the connection of the edge to the bus is cut",
            "the bus is slow for the edge",
            "an owner is stopped as planned, and another comes",
        ];
        self.say(what[kind]);
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
            _ => {
                let mut stopped = owner.take().unwrap();
                stopped.signal("TERM");
                let ended = stopped.wait_end(Duration::from_secs(20));
                assert!(ended.success(), "{ended:?}");
            }
        }
        if kind == 6 {
            self.burst();
        }
        thread::sleep(pause);
        let Some(fleet) = &mut self.fleet else {
            return;
        };
        match kind {
            0 | 7 => self.start_owners(),
            1 => (fleet.owners[which].as_ref().unwrap()).signal("CONT"),
            2 => fleet.nats.restart(),
            3 => fleet.nats.go_on(),
            4 => fleet.wire.set(false),
            6 => fleet.wire.slow(Duration::ZERO),
            _ => {}
        }
    }
}
