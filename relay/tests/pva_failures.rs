//! What clients see of a pvAccess server that sends undecodable values or never answers a call.
//!
//! Topology: one relay, one or two clients, a scripted pvAccess server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use pvwire_schema::types::{ConnectionState, RequestBody};
use testbed::fake_pva::{self, OK, Script, structure};
use testbed::{Client, Network, Relay, eventually, prefix};

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
