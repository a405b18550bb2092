//! Clients that connect again and again while an IOC is lost.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use pvwire_schema::types::ConnectionState;
use serde_json::json;
use testbed::{Client, Network, Relay, SoftIoc, eventually, keep_up, prefix, relay_command};

use super::client::{Pvws, flags};

const THREADS: usize = 6;
const CLIENTS_OF_A_THREAD: usize = 50;
/// How many connections the clients make at least.
const CONNECTIONS: usize = 4 * THREADS * CLIENTS_OF_A_THREAD;
const PVS: usize = 20;

fn lost_records() -> String {
    let record =
        |n| format!("record(ao, \"$(P)r{n}\") {{ field(VAL, \"{n}\") field(PINI, \"YES\") }}\n");
    (0..PVS).map(record).collect()
}

const HEALTHY: &str = r#"record(longout, "$(P)n") { field(VAL, "0") field(PINI, "YES") }"#;

/// Connects all clients of a thread, subscribes, and ends the connections, until `is_over`. The clients of the
/// field wait 500 ms between two connections; these wait for nothing.
fn reconnect(address: SocketAddr, names: &[&str], made: &AtomicUsize, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        let connect = || {
            // The relay may refuse clients that connect too often.
            let mut client = Pvws::try_connect(address, &[]).ok()?;
            client.subscribe(names);
            made.fetch_add(1, Ordering::Relaxed);
            Some(client)
        };
        let mut clients: Vec<_> = (0..CLIENTS_OF_A_THREAD).filter_map(|_| connect()).collect();
        for client in &mut clients {
            client.so_far();
        }
    }
}

/// Ends the storm when it is dropped, also when the test fails: the scope waits for the storm's threads.
struct EndOfStorm<'a>(&'a AtomicBool);

impl Drop for EndOfStorm<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn clients_that_reconnect_in_storms_do_not_harm_native_ones() {
    let (network, prefix) = (Network::new(), prefix());
    let lost = SoftIoc::with_prefix(network, &prefix, &lost_records(), "");
    let mut healthy = SoftIoc::start(network.at("127.0.0.2"), HEALTHY);
    let mut command = relay_command(network);
    command.env("EPICS_CA_ADDR_LIST", "127.0.0.1 127.0.0.2");
    let relay = Relay::spawn(command, &flags(&[]));
    let names: Vec<_> = (0..PVS).map(|n| lost.name(&format!("r{n}"))).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let counter = healthy.name("n");
    let mut natives = [(); 3].map(|()| Client::connect(relay.address()));
    for native in &mut natives {
        native.subscribe_live(&[counter.as_str(), names[7]]);
        native.wait_number(names[7], 7.0);
    }
    lost.kill();
    for native in &mut natives {
        native.wait_state(names[7], ConnectionState::Disconnected);
    }

    let states = |native: &Client| native.pv(&counter).states.len();
    let before = natives.each_ref().map(states);
    let (made, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let mut last = 0;
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| reconnect(relay.address(), &names, &made, &is_over));
        }
        let _end = EndOfStorm(&is_over);
        while made.load(Ordering::Relaxed) < CONNECTIONS || last < 50 {
            last += 1;
            healthy.put("n", &last.to_string());
            let mut all = natives.each_mut();
            keep_up("the next value", &mut all, |natives| {
                let has_it = |native: &&mut Client| native.pv(&counter).is_number(last.into());
                natives.iter().all(has_it)
            });
        }
    });
    for native in &natives {
        let pv = native.pv(&counter);
        let every: Vec<f64> = (0..=last).map(f64::from).collect();
        assert_eq!((pv.numbers(), pv.skipped), (every, 0));
    }
    assert_eq!(
        natives.each_ref().map(states),
        before,
        "it stayed connected"
    );
    eventually("the relay has only its native clients", || {
        relay.metric("pvwire_sessions_active") == natives.len() as f64
    });

    let _back = SoftIoc::with_prefix(network, &prefix, &lost_records(), "");
    for native in &mut natives {
        native.wait_state(names[7], ConnectionState::Connected);
        native.wait_number(names[7], 7.0);
    }
    let mut client = Pvws::connect(&relay);
    client.subscribe(&names);
    let mut missing: Vec<_> = (0..PVS).collect();
    while !missing.is_empty() {
        let update = client.next();
        missing.retain(|n| update["pv"] != *names[*n] || update["value"] != json!(*n as f64));
    }
}
