//! A client whose machine or network is gone is detected; a client that is merely quiet stays
//! connected.
//!
//! Topology: one relay with a short ping interval, clients without PVs, a proxy between relay and
//! client that can be cut.

use std::time::{Duration, Instant};

use pvwire_schema::close::CloseCode;
use pvwire_schema::types::RequestBody;

use testbed::{Client, How, Network, Relay, Wire, eventually};

const PING: RequestBody = RequestBody::Ping { client_time_ns: 1 };

#[test]
fn client_whose_network_is_gone_is_detected_without_traffic() {
    // A busy machine may delay the clients that are well by seconds.
    let flags = [
        "--ping-after-ms=500",
        "--evict-after-ms=6000",
        "--ack-window-ms=1000",
    ];
    let relay = Relay::start(Network::new(), &flags);
    let near = relay.address();
    let wire = Wire::lay(near.port());
    let mut quiet = Client::connect(near);
    let far = (0..5).map(|_| Client::connect(([127, 0, 0, 2], near.port()).into()));
    let mut far: Vec<_> = far.collect();
    far[0].ask(PING);
    assert_eq!(relay.metric("pvwire_sessions_active"), 6.0);

    wire.set(true);
    eventually("they are gone", || {
        // It sends nothing except answers to pings.
        quiet.read_for_a_moment();
        relay.metric("pvwire_sessions_active") == 1.0
    });
    let no_progress = CloseCode::NoProgress.number();
    let closed = format!("pvwire_sessions_closed_total{{code=\"{no_progress}\"}}");
    relay.wait_metric(&closed, 5.0);
    quiet.ask(PING);
    assert_eq!(quiet.closed, None);
}

#[test]
fn stalled_client_gets_as_long_for_its_pong_as_for_its_data() {
    let flags = [
        "--ping-after-ms=500",
        "--evict-after-ms=3000",
        "--ack-window-ms=1000",
    ];
    let relay = Relay::start(Network::new(), &flags);
    // Its program no longer reads; its machine still works.
    let since = Instant::now();
    let stalled = Client::connect(relay.address());
    eventually("it is closed", || {
        relay.metric("pvwire_sessions_active") == 0.0
    });
    assert!(
        since.elapsed() >= Duration::from_secs(4),
        "{:?}",
        since.elapsed()
    );
    drop(stalled);
}

#[test]
fn client_that_is_never_asked_may_be_silent_for_ever() {
    let flags = [
        "--ping-after-ms=0",
        "--evict-after-ms=100",
        "--ack-window-ms=100",
    ];
    let relay = Relay::start(Network::new(), &flags);
    let mut silent = Client::connect_as(relay.address(), How::default());
    let asked = Client::connect(relay.address());
    let since = Instant::now();
    eventually("a while has passed", || {
        assert_eq!(relay.metric("pvwire_sessions_active"), 2.0);
        since.elapsed() > Duration::from_secs(3)
    });
    silent.ask(PING);
    drop(asked);
}
