//! Probes are answered in time, whatever clients request; metrics and alerts as collectors that others wrote read them.
//!
//! Topology: one relay with simulated PVs, with operators' listener and without, hundreds of connections that get a
//! large value, and a probe; a soft IOC; the parsers of Prometheus and of its client for Python.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use pvwire_schema::types::{Array, PutValue, ValueType};
use serde_json::Value;
use testbed::{
    Client, Network, Relay, SoftIoc, Threads, eventually, get, in_repository, promtool, python,
    succeeds, within,
};

use crate::handshakes::at_once;

/// A server that answers each byte with a byte, as a measure of how busy the machine is.
fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut byte = [0];
            if stream.read_exact(&mut byte).is_ok() {
                let _ = stream.write_all(&byte);
            }
        }
    });
    address
}

/// The longest time that a probe took until `stop`, and how much of it was the machine's: the longest that an echo
/// took meanwhile.
fn longest_probe(address: SocketAddr, stop: &Arc<AtomicBool>) -> JoinHandle<[Duration; 2]> {
    let (stop, echo) = (Arc::clone(stop), echo());
    thread::spawn(move || {
        let mut longest = [Duration::ZERO; 2];
        while !stop.load(Ordering::Relaxed) {
            for path in ["/live", "/ready", "/metrics"] {
                let since = Instant::now();
                let answer = testbed::get(address, path, &[]);
                assert_eq!(answer.status, 200, "{path}");
                longest[0] = longest[0].max(since.elapsed());
                let since = Instant::now();
                let mut stream = TcpStream::connect(echo).unwrap();
                stream.write_all(&[1]).unwrap();
                stream.read_exact(&mut [0]).unwrap();
                longest[1] = longest[1].max(since.elapsed());
            }
            thread::sleep(Duration::from_millis(5));
        }
        longest
    })
}

/// Gets a large value; whether the relay has refused it, or is still at it or has sent it.
fn get_large(address: SocketAddr, _: usize) -> bool {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(ATTACK_LASTS)).unwrap();
    let path = "/pv/sim%3A%2F%2Fwaveform(1000000,rate_hz=0.01)?timeout_ms=20000";
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut begin = [0; 1 << 16];
    let length = stream.read(&mut begin).unwrap_or(0);
    let is_refused = begin[..length].starts_with(b"HTTP/1.1 503 ");
    let end = Instant::now() + ATTACK_LASTS;
    while Instant::now() < end && stream.read(&mut begin).unwrap_or(0) > 0 {}
    is_refused
}

/// Threads that a probe wakes one after the other; an echo wakes two.
const HOPS: u32 = 5;

/// How long a get of a large value waits for the relay.
const ATTACK_LASTS: Duration = Duration::from_secs(4);

/// A relay with operators' own listener: its flag and address.
fn operators() -> (String, SocketAddr) {
    let address = format!("127.0.0.1:{}", testbed::free_port());
    (
        format!("--admin-listen={address}"),
        address.parse().unwrap(),
    )
}

#[test]
fn probes_are_answered_in_time_beside_three_hundred_gets_of_a_large_value() {
    let (flag, operators) = operators();
    for flags in [vec![], vec![&*flag]] {
        let probed = (!flags.is_empty()).then_some(operators);
        let flags = [&*flags, &["--max-memory-mib=1500"]].concat();
        let relay = Relay::start(Network::new(), &flags);
        let probed = probed.unwrap_or_else(|| relay.address());
        within(Duration::from_millis(100), "the longest probe", || {
            let stop = Arc::new(AtomicBool::new(false));
            let probes = longest_probe(probed, &stop);
            let got = at_once(300, get_large, relay.address());
            stop.store(true, Ordering::Relaxed);
            let [longest, of_machine] = probes.join().unwrap();
            let refused = got.iter().filter(|is_refused| **is_refused).count();
            eprintln!(
                "{refused} refused; the longest probe took {longest:?}, an echo {of_machine:?}"
            );
            assert!(refused < 300);
            longest.saturating_sub(HOPS * of_machine)
        });
    }
}

/// Gets the metrics again and again; how often.
fn get_metrics(address: SocketAddr, _: usize) -> usize {
    let end = Instant::now() + ATTACK_LASTS / 2;
    let mut count = 0;
    while Instant::now() < end {
        assert_eq!(testbed::get(address, "/metrics", &[]).status, 200);
        count += 1;
    }
    count
}

#[test]
fn probes_are_answered_in_time_beside_a_hundred_clients_that_get_metrics() {
    let relay = Relay::start(Network::new(), &[]);
    within(Duration::from_millis(100), "the longest probe", || {
        let stop = Arc::new(AtomicBool::new(false));
        let probes = longest_probe(relay.address(), &stop);
        let got: usize = at_once(100, get_metrics, relay.address()).iter().sum();
        stop.store(true, Ordering::Relaxed);
        let [longest, of_machine] = probes.join().unwrap();
        eprintln!("{got} texts; the longest probe took {longest:?}, an echo {of_machine:?}");
        longest.saturating_sub(HOPS * of_machine)
    });
}

#[test]
fn probes_are_answered_while_the_http_thread_hangs_and_say_so() {
    let (flag, operators) = operators();
    let (command, threads) = Threads::of(Network::new());
    let relay = Relay::spawn(command, &[&flag]);
    let mut client = Client::connect(relay.address());
    client.subscribe_live(&["sim://counter(rate_hz=20)"]);
    let mut threads = threads.orders();
    writeln!(threads, "stop pvwire-relay").unwrap();
    relay.says("pvwire-relay stops");
    for (address, path) in [
        (relay.address(), "/live"),
        (relay.address(), "/ready"),
        (operators, "/live"),
        (operators, "/ready"),
        (operators, "/metrics"),
        (operators, "/status"),
    ] {
        assert_eq!(testbed::get(address, path, &[]).status, 200, "{path}");
    }
    // Neither do ticks and shards wait for it.
    let rows = client.pv("sim://counter(rate_hz=20)").rows.len();
    client.wait_pv("sim://counter(rate_hz=20)", "further values", |pv| {
        pv.rows.len() > rows + 5
    });
    for address in [relay.address(), operators] {
        eventually("the probe says that it hangs", || {
            let answer = testbed::get(address, "/live", &[]);
            answer.status == 503 && answer.body.contains("the HTTP thread")
        });
    }
    writeln!(threads, "cont pvwire-relay").unwrap();
    eventually("it is live again", || {
        testbed::get(operators, "/live", &[]).status == 200
    });
}

#[test]
fn idle_relay_wakes_its_threads_seldom() {
    let relay = Relay::start(Network::new(), &["--shards=2"]);
    // Checks that each have a timer wake it 33 times.
    let most_per_s = 15.0;
    eventually("the relay sleeps", || {
        let (begun, before) = (Instant::now(), relay.sleeps());
        thread::sleep(Duration::from_secs(2));
        let took = begun.elapsed().as_secs_f64();
        (relay.sleeps() - before) as f64 / took < most_per_s
    });
    assert_eq!(testbed::get(relay.address(), "/live", &[]).status, 200);
}

#[test]
fn quantiles_of_ages_are_numbers_to_real_parsers_of_both_formats() {
    let relay = Relay::start(Network::new(), &["--enable-sim"]);
    let mut client = Client::connect(relay.address());
    client.subscribe_live(&["sim://sine(1,rate_hz=50)"]);
    for age in ["received", "sent"] {
        let count = format!("pvwire_update_age_{age}_seconds_count");
        eventually(&count, || relay.metric(&count) > 0.0);
    }
    let output = Command::new(python())
        .arg(in_repository("testbed/python/metrics_parsers.py"))
        .arg(relay.address().to_string())
        .arg(promtool())
        .output();
    succeeds(&output.unwrap());
}

#[test]
fn alerts_are_valid_rules_of_prometheus() {
    let output = Command::new(promtool())
        .args(["check", "rules"])
        .arg(in_repository("deploy/prometheus/alerts.yaml"))
        .output();
    succeeds(&output.unwrap());
}

#[test]
fn bytes_are_shown_by_pv_and_by_server_and_in_the_metrics_for_the_largest() {
    let network = Network::new();
    let records = r#"
        record(ao, "$(P)ao") { field(VAL, "1") field(PINI, "YES") }
        record(waveform, "$(P)wave") { field(FTVL, "DOUBLE") field(NELM, "100") }
    "#;
    let mut ioc = SoftIoc::start(network, records);
    let names = ioc.names(["ao", "wave"]);
    let relay = Relay::start(network, &["--enable-sim"]);
    let mut client = Client::connect(relay.address());
    client.subscribe_live(&names);
    for value in ["2", "3", "4"] {
        ioc.put("ao", value);
        client.wait_number(&names[0], value.parse().unwrap());
    }
    let simulated: Vec<_> = (1..=30)
        .map(|number| format!("sim://sine({number},rate_hz=50)"))
        .collect();
    client.subscribe_live(&simulated);

    let status =
        || -> Value { serde_json::from_str(&get(relay.address(), "/status", &[]).body).unwrap() };
    let now = status();
    let pv = |name: &str| {
        let list = now["list"].as_array().unwrap().iter();
        let whole = format!("ca://{name}");
        let mut found = list.filter(|pv| pv["name"] == whole.as_str());
        found.next().unwrap().clone()
    };
    let [ao, wave] = names.each_ref().map(|name| pv(name));
    assert_eq!(ao["bytes"], 8 * ao["updates"].as_u64().unwrap());
    assert!(ao["bytes"].as_u64().unwrap() >= 32, "{ao}");
    let server = ao["server"].as_str().unwrap();
    assert!(server.contains(':'), "{server}");
    assert_eq!(wave["server"], server);
    let servers = now["servers"].as_array().unwrap();
    assert_eq!(servers.len(), 1, "simulated PVs have none: {servers:?}");
    assert_eq!(servers[0]["name"], server);
    assert_eq!(servers[0]["pvs"], 2);
    let both = [&ao, &wave].map(|pv| pv["bytes"].as_u64().unwrap());
    assert_eq!(servers[0]["bytes"], both.iter().sum::<u64>());

    let text = get(relay.address(), "/metrics", &[]).body;
    let series = text
        .lines()
        .filter(|line| line.starts_with("pvwire_pv_received_bytes_total{"));
    assert_eq!(series.count(), 20);
    let of_server = format!("pvwire_server_received_bytes_total{{server=\"{server}\"}}");
    assert!(relay.metric(&of_server) >= servers[0]["bytes"].as_f64().unwrap());
}

#[test]
fn bytes_of_arrays_and_texts_are_those_of_their_contents() {
    let network = Network::new();
    let records = r#"
        record(waveform, "$(P)wave") { field(FTVL, "DOUBLE") field(NELM, "100") }
    "#;
    let ioc = SoftIoc::start(network, records);
    let [wave] = ioc.names(["wave"]);
    let relay = Relay::start(network, &["--enable-put", "--allow-put=*"]);
    let mut client = Client::connect(relay.address());
    client.subscribe_live(&[&wave]);
    let metric = format!("pvwire_pv_received_bytes_total{{pv=\"ca://{wave}\"}}");
    let before = relay.metric(&metric);
    let bytes: Vec<u8> = (0..100_u8)
        .flat_map(|n| f64::from(n).to_le_bytes())
        .collect();
    let array = Array {
        value_type: ValueType::Float64,
        count: 100,
        data: bytes.into(),
    };
    client.put(&wave, PutValue::Array(array));
    relay.wait_metric(&metric, before + 800.0);
}
