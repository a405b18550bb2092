//! `max_rate` caps the updates of PVs for all clients, by pattern, in every protocol.
//!
//! Topology: a soft IOC, a relay with caps, clients of the relay and HTTP streams.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Instant;

use pvwire_schema::types::{Filter, PutValue, Severity, SkipCause};
use serde_json::Value;

use testbed::{Client, Network, Relay, SoftIoc, keep_up, prefix};

const DATABASE: &str = r#"
    record(calc, "$(P)n") { field(CALC, "VAL+1") field(SCAN, ".1 second") }
    record(ao, "$(P)a") { field(VAL, "0") field(PINI, "YES") field(HIGH, "100") field(HSV, "MINOR") }
    record(ao, "$(P)free") { field(VAL, "0") field(PINI, "YES") }
"#;

/// A relay with a cap of `hz` on `n`, of one update in a thousand seconds on all others and of none on `free`.
fn start(hz: u32) -> (SoftIoc, Relay) {
    let network = Network::new();
    let ioc = SoftIoc::with_pv_access(network, &prefix(), DATABASE);
    let [n, free, all] = [
        format!("--max-rate={}={hz}", ioc.name("n")),
        "--max-rate=*:free=0".to_owned(),
        "--max-rate=*=0.001".to_owned(),
    ];
    let relay = Relay::start(network, &["--enable-put", "--allow-put=*", &n, &free, &all]);
    (ioc, relay)
}

#[test]
fn client_without_a_filter_gets_no_more_than_the_cap_and_counts_the_rest() {
    let (ioc, relay) = start(2);
    let name = ioc.name("n");
    let spellings = [
        name.clone(),
        format!("ca://{name}"),
        format!("{name}.VAL"),
        format!("pva://{name}"),
    ];
    let mut client = Client::connect(relay.address());
    let started = Instant::now();
    client.subscribe_live(&spellings);
    let faster = Filter {
        min_interval_ms: 10,
        ..Filter::ALL
    };
    let mut fast = Client::connect(relay.address());
    assert_eq!(fast.subscribe_with(&[&name], faster), []);
    keep_up(
        "five updates of each",
        &mut [&mut client, &mut fast],
        |clients| {
            let all = spellings.iter().map(|name| clients[0].pv(name));
            let mut all = all.chain([clients[1].pv(&name)]);
            all.all(|pv| pv.rows.len() >= 5)
        },
    );
    let most = started.elapsed().as_millis() / 500 + 2;
    for spelling in &spellings {
        let pv = client.pv(spelling);
        let rows = pv.rows.len();
        assert!(
            rows as u128 <= most,
            "{spelling}: {rows} rows, {most} at most"
        );
        assert!(
            pv.skipped_by(SkipCause::Filter) >= 4,
            "{spelling}: {:?}",
            pv.skips
        );
        let (first, last) = (pv.rows.first().unwrap(), pv.rows.last().unwrap());
        let steps = last.sequence.wrapping_sub(first.sequence);
        assert_eq!(rows as u64 + pv.skipped, u64::from(steps) + 1, "{spelling}");
    }
    assert!(fast.pv(&name).rows.len() as u128 <= most);
    // The record, its field and pvAccess, however many clients and caps.
    assert_eq!(relay.metric("pvwire_monitors_active"), 3.0);
}

#[test]
fn alarms_and_losses_pass_a_cap_at_once_and_a_get_reads_the_newest() {
    let (ioc, relay) = start(2);
    let [a, free] = ioc.names(["a", "free"]);
    let mut client = Client::connect(relay.address());
    client.subscribe_live(&[&a, &free]);
    for (value, severity) in [(150.0, Severity::Minor), (20.0, Severity::NoAlarm)] {
        client.put(&a, PutValue::Number(value - 1.0));
        client.put(&a, PutValue::Number(value));
        client.wait_pv(&a, "its alarm", |pv| {
            pv.now
                .as_ref()
                .is_some_and(|now| now.alarm.severity == severity)
        });
    }
    client.put(&a, PutValue::Number(21.0));
    let (got, _) = client.get(&[&a], 0);
    assert!(got[0].as_ref().unwrap().is_number(21.0));
    assert!(!client.pv(&a).is_number(21.0), "its interval is not over");
    for value in [1.0, 2.0, 3.0] {
        client.put(&free, PutValue::Number(value));
        client.wait_number(&free, value);
    }
    ioc.kill();
    client.wait_pv(&a, "the last value and the loss", |pv| {
        pv.is_number(21.0) && !pv.connection.unwrap().read
    });
}

#[test]
fn event_stream_and_clients_of_doors_are_capped_too() {
    let (ioc, relay) = start(1);
    let name = ioc.name("n");
    let mut stream = TcpStream::connect(relay.address()).unwrap();
    let host = relay.address();
    write!(
        stream,
        "GET /pv/{name}/stream HTTP/1.1\r\nHost: {host}\r\n\r\n"
    )
    .unwrap();
    let mut events = BufReader::new(stream).lines();
    let mut next = || loop {
        let line = events.next().unwrap().unwrap();
        if let Some(data) = line.strip_prefix("data: ") {
            let data: Value = serde_json::from_str(data).unwrap();
            if let Some(number) = data["value"]["float"].as_f64() {
                return number;
            }
        }
    };
    let first = next();
    let counts: Vec<f64> = (0..3).map(|_| next()).collect();
    let steps = counts.windows(2).map(|pair| pair[1] - pair[0]);
    // Ten counts a second.
    assert!(steps.clone().all(|step| step >= 5.0), "{first} {counts:?}");
}
