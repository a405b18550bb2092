//! `max_rate` caps the updates of PVs for all clients, by pattern, in every protocol.
//!
//! Topology: a soft IOC, a relay with caps, clients of the relay and of doors, and HTTP streams.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Instant;

use pvwire_schema::types::{Filter, PutValue, Severity, SkipCause};
use serde_json::Value;
use testbed::{Client, Network, Relay, SoftIoc, keep_up, prefix};

use crate::coniql::client::Client as Coniql;
use crate::pvws::client::{Pvws, flags};

const DATABASE: &str = r#"
    record(calc, "$(P)n") { field(CALC, "VAL+1") field(SCAN, ".1 second") field(PINI, "YES") }
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

const PVWS_RECORDS: &str = r#"
    record(calc, "$(P)n") { field(CALC, "VAL+1") field(SCAN, ".1 second") field(PINI, "YES") }
    record(ao, "$(P)a") { field(VAL, "0") field(PINI, "YES") field(HIGH, "1000") field(HSV, "MINOR") }
"#;

fn is_value(message: &Value) -> bool {
    message["type"] == "update" && message["value"].is_number()
}

#[test]
fn capped_pvs_have_no_more_updates_than_their_cap_and_their_last_value() {
    let network = Network::new();
    let mut ioc = SoftIoc::with_pv_access(network, &prefix(), PVWS_RECORDS);
    let cap = format!("--max-rate={}*=2", ioc.prefix());
    let relay = Relay::start(network, &flags(&[&cap]));
    let [n, a] = ioc.names(["n", "a"]);
    let spellings = [n.clone(), format!("ca://{n}"), format!("pva://{n}")];
    let mut client = Pvws::connect(&relay);
    let started = Instant::now();
    let mut names: Vec<&str> = spellings.iter().map(String::as_str).collect();
    names.push(&a);
    client.subscribe(&names);
    let mut seen = Vec::new();
    for name in &spellings {
        let count = |seen: &[Value]| {
            let of_name = |message: &&Value| message["pv"] == **name && is_value(message);
            seen.iter().filter(of_name).count()
        };
        while count(&seen) < 5 {
            seen.extend(client.until("an update", is_value));
        }
    }
    let most = started.elapsed().as_millis() / 500 + 2;
    for name in &spellings {
        let of_name = |message: &&Value| message["pv"] == **name && is_value(message);
        let count = seen.iter().filter(of_name).count();
        assert!(count as u128 <= most, "{name}: {count}, {most} at most");
    }

    // A burst of which the cap leaves out nearly all: the last one arrives, with its alarm at once.
    let started = Instant::now();
    for value in 1..=200 {
        ioc.put("a", &value.to_string());
    }
    let is = |number: f64| move |message: &Value| message["value"] == number;
    let all = client.until("the last value", |message| {
        message["pv"] == *a && is(200.0)(message)
    });
    let of_a = all
        .iter()
        .filter(|message| message["pv"] == *a && is_value(message));
    let most = started.elapsed().as_millis() / 500 + 2;
    assert!(of_a.count() as u128 <= most);
    ioc.put("a", "1500");
    let minor = client.update(&a, "its alarm", is(1500.0));
    assert_eq!(minor["severity"], "MINOR");
}

const CONIQL_RECORDS: &str = r#"
    record(calc, "$(P)n") { field(CALC, "VAL+1") field(SCAN, ".1 second") field(PINI, "YES") }
    record(ao, "$(P)a") { field(VAL, "0") field(PINI, "YES") }
"#;

/// Counters: a number, and the first element of a small and of a large array.
const CAPPED: &str = r#"
    record(calc, "$(P)n") { field(CALC, "VAL+1") field(SCAN, ".1 second") field(PINI, "YES") }
    record(ao, "$(P)signal") { field(VAL, "0.5") field(PINI, "YES") }
    record(histogram, "$(P)small") {
        field(NELM, "3") field(ULIM, "3") field(SVL, "$(P)signal") field(SCAN, ".1 second")
    }
    record(histogram, "$(P)large") {
        field(NELM, "9000") field(ULIM, "9000") field(SVL, "$(P)signal") field(SCAN, ".1 second")
    }
"#;

fn subscription(name: &str) -> String {
    format!(r#"subscription {{ subscribeChannel(id: "{name}") {{ value {{ float }} }} }}"#)
}

fn value_of(data: &Value) -> Option<f64> {
    data["subscribeChannel"]["value"]["float"].as_f64()
}

#[test]
fn capped_pvs_have_no_more_results_than_their_cap_and_their_last_value() {
    let network = Network::new();
    let mut ioc = SoftIoc::with_pv_access(network, &prefix(), CONIQL_RECORDS);
    let cap = format!("--max-rate={}*=2", ioc.prefix());
    let relay = Relay::start(network, &["--coniql", &cap]);
    let [n, a] = ioc.names(["n", "a"]);
    for name in [n.clone(), format!("ca://{n}"), format!("pva://{n}")] {
        let mut client = Coniql::begin(&relay);
        let started = Instant::now();
        client.start("n", &subscription(&name));
        let mut values = Vec::new();
        while values.len() < 5 {
            values.extend(value_of(&client.data("n")));
        }
        let most = started.elapsed().as_millis() / 500 + 2;
        assert!(values.len() as u128 <= most, "{name}: {values:?}");
        // Ten counts a second.
        let left_out = values[4] - values[0] - 4.0;
        assert!(left_out >= 4.0, "{name}: {values:?}");
    }

    let mut client = Coniql::begin(&relay);
    client.start("a", &subscription(&a));
    client.until("a", "its first value", |data| value_of(data) == Some(0.0));
    let started = Instant::now();
    for value in 1..=200 {
        ioc.put("a", &value.to_string());
    }
    let mut count = 0;
    while value_of(&client.data("a")).inspect(|_| count += 1) != Some(200.0) {}
    let most = started.elapsed().as_millis() / 500 + 2;
    assert!(count <= most, "{count}, {most} at most");
}

#[test]
fn values_that_a_cap_leaves_out_are_counted_in_each_result() {
    let network = Network::new();
    let ioc = SoftIoc::with_pv_access(network, &prefix(), CAPPED);
    let cap = format!("--max-rate={}*=2", ioc.prefix());
    let relay = Relay::start(network, &["--coniql", &cap]);
    for (source, record) in [("", "n"), ("pva://", "n"), ("", "large"), ("", "small")] {
        let name = format!("{source}{}", ioc.name(record));
        let is_array = record != "n";
        let value = if is_array {
            "stringArray(length: 1)"
        } else {
            "float"
        };
        let query = format!(
            r#"subscription {{ subscribeChannel(id: "{name}") {{
                value {{ {value} }} skipped skips {{ filter behind relay source bus paced }} }} }}"#
        );
        let mut client = Coniql::begin(&relay);
        client.start("n", &query);
        let mut first = None;
        let mut skips = Value::Null;
        for result in 0..5 {
            let data = client.until("n", "a value", |data| {
                data["subscribeChannel"]["value"].is_object()
            });
            let channel = &data["subscribeChannel"];
            let number = match &channel["value"] {
                array if is_array => array["stringArray"][0].as_str().unwrap().parse().unwrap(),
                number => number["float"].as_f64().unwrap(),
            };
            let first = *first.get_or_insert(number);
            let skipped = channel["skipped"].as_f64().unwrap();
            assert_eq!(
                number - first,
                f64::from(result) + skipped,
                "{name}: {channel}"
            );
            if !channel["skips"].is_null() {
                skips = channel["skips"].clone();
            }
            // A busy machine leaves out some before the cap does.
            let causes = skips.as_object().into_iter().flat_map(|all| all.values());
            let counted: f64 = causes.filter_map(Value::as_f64).sum();
            assert_eq!(counted, skipped, "{name}: {channel}");
        }
        assert!(skips["filter"].as_f64().unwrap() >= 4.0, "{name}: {skips}");
    }
}

#[test]
fn skipped_values_are_as_many_as_a_client_of_the_relay_and_the_metrics_count() {
    let network = Network::new();
    let mut ioc = SoftIoc::with_prefix(network, &prefix(), CONIQL_RECORDS, "");
    let cap = format!("--max-rate={}*=2", ioc.prefix());
    let relay = Relay::start(network, &["--coniql", &cap]);
    let a = ioc.name("a");
    let mut client = Coniql::begin(&relay);
    let query = format!(
        r#"subscription {{ subscribeChannel(id: "{a}") {{ value {{ float }} skipped }} }}"#
    );
    client.start("a", &query);
    client.until("a", "its first value", |data| value_of(data) == Some(0.0));
    let mut plain = Client::connect(relay.address());
    plain.subscribe_live(&[&a]);
    for value in 1..=50 {
        ioc.put("a", &value.to_string());
    }
    keep_up("the last value", &mut [&mut plain], |clients| {
        clients[0].pv(&a).is_number(50.0)
    });
    let last = client.until("a", "the last value", |data| value_of(data) == Some(50.0));
    let skipped = last["subscribeChannel"]["skipped"].as_f64().unwrap();
    let results = plain.pv(&a).rows.len();
    assert_eq!(skipped, plain.pv(&a).skipped as f64);
    assert_eq!(results as f64 + skipped, 51.0);
    // The filter of each client's form leaves out as many.
    let metric = relay.metric("pvwire_updates_skipped_total{cause=\"filter\"}");
    assert_eq!(metric, 2.0 * skipped);
}
