//! What clients see of a pvAccess server that sends undecodable values or never answers a call.
//!
//! Topology: one relay, one or two clients, a scripted pvAccess server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use pvwire_schema::types::{ConnectionState, RequestBody};
use testbed::fake_pva::{self, ERROR, FINISH, OK, Script, structure, text};
use testbed::{Client, Network, Pv, Relay, eventually, get, prefix};

const FLOAT64: u8 = 0x43;
const STRING: u8 = 0x60;

/// The PV `text` has a string that is longer than its message; all others are numbers.
struct Undecodable;

impl Script for Undecodable {
    fn init(&self, name: &str) -> Vec<u8> {
        let is_text = name.ends_with("text");
        structure("fake:1.0", if is_text { STRING } else { FLOAT64 })
    }

    fn value(&self, name: &str) -> Vec<u8> {
        if name.ends_with("text") {
            return vec![1, 1, 200, b'x'];
        }
        [&[1, 1], &1_f64.to_le_bytes()[..], &[0]].concat()
    }

    fn run(&self, name: &str, send: &dyn Fn(u8, &[u8]) -> bool) {
        while send(0, &self.value(name)) {
            // A server sends at its own rate.
            thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn undecodable_pv_says_why_and_the_servers_other_pvs_go_on() {
    let network = Network::new();
    fake_pva::start(network.pva_port(), Arc::new(Undecodable));
    let relay = Relay::start(network, &[]);
    let prefix = prefix();
    let [text, good] = ["text", "good"].map(|name| format!("pva://{prefix}{name}"));
    let mut client = Client::connect(relay.address());
    client.subscribe_live(&[&good]);
    assert_eq!(client.subscribe(&[&text]), []);

    client.wait_pv(&text, "the reason", |pv| {
        let metadata = pv.metadata.as_ref();
        metadata.is_some_and(|metadata| !metadata.missing_field.is_empty())
    });
    let pv = client.pv(&text);
    let reason = &pv.metadata.as_ref().unwrap().missing_field;
    assert!(reason.contains("can't be decoded"), "{reason}");
    assert!(
        reason.contains("the pvAccess server 127.0.0.1:"),
        "{reason}"
    );
    assert!(
        reason.contains("its administrator must repair that"),
        "{reason}"
    );
    assert_eq!(pv.now, None);

    client.wait_state(&good, ConnectionState::Connected);
    let updates = client.pv(&good).rows.len();
    client.wait_pv(&good, "more updates", |pv| pv.rows.len() > updates + 10);
}

/// Refuses monitors of PVs whose name ends with `refused`, until it is told to accept them; ends the monitors of those
/// whose name ends with `ended` after their first value.
#[derive(Default)]
struct Refuses {
    accepts: AtomicBool,
    tried: AtomicU32,
}

impl Script for Refuses {
    fn init(&self, name: &str) -> Vec<u8> {
        if name.ends_with("refused") {
            self.tried.fetch_add(1, Ordering::AcqRel);
            if !self.accepts.load(Ordering::Acquire) {
                return [&[ERROR][..], &text("no monitor here"), &text("")].concat();
            }
        }
        structure("epics:nt/NTScalar:1.0", FLOAT64)
    }

    fn value(&self, _: &str) -> Vec<u8> {
        [&[1, 1], &1_f64.to_le_bytes()[..], &[0]].concat()
    }

    fn run(&self, name: &str, send: &dyn Fn(u8, &[u8]) -> bool) {
        send(0, &self.value(name));
        if name.ends_with("ended") {
            send(FINISH, &[OK]);
        }
    }
}

fn reason(pv: &Pv) -> &str {
    let metadata = pv.metadata.as_ref();
    metadata.map_or("", |metadata| &metadata.missing_field)
}

#[test]
fn pv_whose_monitor_is_refused_is_connected_and_says_the_servers_reason() {
    let network = Network::new();
    let server = Arc::new(Refuses::default());
    fake_pva::start(network.pva_port(), Arc::clone(&server) as _);
    let relay = Relay::start(network, &["--enable-put", "--allow-put=*"]);
    let prefix = prefix();
    let [refused, field, good] =
        ["refused", "refused/value", "good"].map(|name| format!("pva://{prefix}{name}"));
    let mut client = Client::connect(relay.address());
    assert_eq!(client.subscribe(&[&refused, &field, &good]), []);
    for name in [&refused, &field] {
        client.wait_state(name, ConnectionState::Connected);
        client.wait_pv(name, "the reason", |pv| {
            reason(pv) == "the server refuses to send it: no monitor here"
        });
        let pv = client.pv(name);
        assert_eq!(pv.now, None);
        let rights = pv.connection.unwrap();
        assert!(rights.read && rights.write_unknown, "{rights:?}");
    }
    client.wait_number(&good, 1.0);
    let answer = get(
        relay.address(),
        &format!("/pv/{}", refused.replace('/', "%2F")),
        &[],
    );
    assert_eq!(answer.status, 503, "{}", answer.body);
    assert!(answer.body.contains("no monitor here"), "{}", answer.body);

    // The PV stays as it is while the monitor is tried again.
    let (tried, states) = (
        server.tried.load(Ordering::Acquire),
        client.pv(&refused).states.len(),
    );
    client.wait("two more attempts", |_| {
        server.tried.load(Ordering::Acquire) > tried + 2
    });
    assert_eq!(client.pv(&refused).states.len(), states);
    server.accepts.store(true, Ordering::Release);
    for name in [&refused, &field] {
        client.wait_number(name, 1.0);
        assert_eq!(reason(client.pv(name)), "");
    }
}

#[test]
fn pv_whose_monitor_is_ended_says_so() {
    let network = Network::new();
    fake_pva::start(network.pva_port(), Arc::new(Refuses::default()));
    let relay = Relay::start(network, &[]);
    let name = format!("pva://{}ended", prefix());
    let mut client = Client::connect(relay.address());
    assert_eq!(client.subscribe(&[&name]), []);
    client.wait_pv(&name, "the reason", |pv| {
        pv.state() == ConnectionState::Disconnected
            && reason(pv).contains("the server ended the monitor")
    });
    client.wait_state(&name, ConnectionState::Connected);
    assert_eq!(reason(client.pv(&name)), "");
}

/// A service that never finishes a call.
#[derive(Default)]
struct Service {
    called: AtomicU32,
    ended: AtomicU32,
}

impl Script for Service {
    fn init(&self, _: &str) -> Vec<u8> {
        vec![OK]
    }

    fn value(&self, _: &str) -> Vec<u8> {
        Vec::new()
    }

    fn called(&self) {
        self.called.fetch_add(1, Ordering::Release);
    }

    fn ended(&self) {
        self.ended.fetch_add(1, Ordering::Release);
    }
}

#[test]
fn call_ends_at_its_service_when_its_client_leaves() {
    let network = Network::new();
    let service = Arc::new(Service::default());
    fake_pva::start(network.pva_port(), Arc::clone(&service) as _);
    let relay = Relay::start(network, &["--enable-put", "--allow-put=*"]);
    let name = format!("pva://{}service", prefix());
    let call = |client: &mut Client| {
        client.request(RequestBody::Rpc {
            name: name.clone(),
            arguments: Vec::new(),
            timeout_ms: 60_000,
        })
    };
    let [mut leaves, mut stays] = [(), ()].map(|()| Client::connect(relay.address()));
    call(&mut leaves);
    let answer = call(&mut stays);
    eventually("both calls are at the service", || {
        service.called.load(Ordering::Acquire) == 2
    });

    drop(leaves);
    eventually("one call has ended", || {
        service.ended.load(Ordering::Acquire) == 1
    });
    // The other client's call continues.
    stays.ask(RequestBody::Ping { client_time_ns: 1 });
    assert!(!stays.has_answer(answer));
    assert_eq!(service.ended.load(Ordering::Acquire), 1);
}
