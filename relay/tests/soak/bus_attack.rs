//! A program on the bus without the key: it announces what relays don't, and puts as a user.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testbed::{NatsClient, NatsServer};

const MEMBERS: &str = "pvwire.default.members";

/// What the relays announced while it listened.
pub(super) struct BusAttack {
    program: NatsClient,
    members: BTreeMap<String, Value>,
}

/// Listens until the relays have announced themselves.
pub(super) fn begin(nats: &NatsServer) -> BusAttack {
    let mut program = NatsClient::at(nats);
    program.subscribe(MEMBERS);
    let messages = program.hear_for(Duration::from_millis(700));
    let members = messages.iter().filter_map(|message| {
        let presence: Value = serde_json::from_slice(&message.body).ok()?;
        Some((presence["id"].as_str()?.to_owned(), presence))
    });
    let members = members.collect();
    BusAttack { program, members }
}

impl BusAttack {
    pub(super) fn run(mut self, time: Duration) {
        let until = Instant::now() + time;
        let draining = self.members.values().map(|presence| {
            let mut forged = presence.clone();
            forged["draining"] = json!(true);
            forged["ready"] = json!(false);
            forged["uptime_millis"] = json!(u64::MAX);
            serde_json::to_vec(&forged).unwrap()
        });
        let draining: Vec<_> = draining.collect();
        let names: Vec<_> = (0..1_000).map(|at| format!("ca://no:{at}")).collect();
        let interest = serde_json::to_vec(&json!({"add": names, "reset": true})).unwrap();
        let ids: Vec<String> = self.members.keys().cloned().collect();
        while Instant::now() < until {
            for forged in &draining {
                self.program.send(MEMBERS, "", forged);
            }
            for to in &ids {
                for from in ids.iter().map(String::as_str).chain(["00000000000000aa"]) {
                    let ask = |kind| format!("pvwire.default.{to}.ask.{kind}.{from}");
                    self.program.send(&ask("interest"), "nowhere", &interest);
                    self.program.send(&ask("operation"), "nowhere", b"put");
                }
                let answer = format!("pvwire.default.{to}.answer.1");
                self.program.send(&answer, "", b"{}");
            }
            // At the pace of the bus.
            self.program.settle();
        }
    }
}
