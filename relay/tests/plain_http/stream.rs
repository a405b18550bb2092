//! `GET /pv/NAME/stream`: each change, losses that are counted, and ends that say why.

use std::process::Command;

use serde_json::{Value, json};
use testbed::{Network, Relay, SoftIoc, eventually, file, in_repository, prefix, python};

use super::client::{Events, encoded};

const DATABASE: &str = r#"
record(ao, "$(P)ao") { field(VAL, "1") field(HIGH, "5") field(HSV, "MINOR") field(PINI, "YES") }
"#;

fn number(event: &Value) -> i64 {
    event["value"]["number"].as_f64().unwrap() as i64
}

#[test]
fn stream_has_each_change_of_value_alarm_and_connection() {
    let network = Network::new();
    let mut ioc = SoftIoc::start(network, DATABASE);
    let relay = Relay::start(network, &["--drain-delay-ms=0", "--drain-spread-ms=100"]);
    let ao = ioc.name("ao");
    let mut all = Events::open(&relay, &format!("{ao}/stream"));
    let asked = encoded("{ value { float } }");
    let mut values = Events::open(&relay, &format!("{ao}/stream?select={asked}"));
    assert_eq!(
        values.next(),
        Some(("message".to_owned(), json!({"value": {"float": 1}})))
    );
    all.wait("the first value", |pv| pv["value"]["float"] == 1);
    for value in ["2", "7"] {
        ioc.put("ao", value);
        let expected = value.parse::<f64>().unwrap();
        let next = values.next().unwrap().1;
        assert_eq!(next["value"]["float"].as_f64(), Some(expected));
    }
    all.wait("the alarm", |pv| pv["status"]["severity"] == "MINOR");
    ioc.kill();
    let last = all.wait("the loss", |pv| pv["connection"]["state"] == "disconnected");
    assert_eq!(last["value"]["float"], 7, "{last}");

    let mut missing = Events::open(&relay, "NOSUCH:PV/stream?timeout_ms=1");
    relay.signal("TERM");
    for stream in [&mut all, &mut values, &mut missing] {
        let end = stream.wait_end();
        assert_eq!(end["code"], 1012, "{end}");
    }
}

#[test]
fn slow_reader_gets_the_newest_value_and_the_count_of_the_others() {
    let relay = Relay::start(Network::new(), &[]);
    // Long events fill the buffers of the connection soon.
    let key = "k".repeat(8_000);
    let asked = encoded(&format!("{{ value {{ number }} {key}: id }}"));
    let path = format!("sim:%2F%2Fcounter(rate_hz=200)/stream?select={asked}");
    let mut slow = Events::open_slow(&relay, &path);
    let mut before = number(&slow.next().unwrap().1);
    let begin = relay.metric("pvwire_updates_received_total");
    eventually("the client is far behind", || {
        relay.metric("pvwire_updates_received_total") > begin + 400.0
    });
    let (mut skipped, mut most) = (0, 0);
    // Each value was sent or counted.
    while most < 50 {
        let (name, data) = slow.next().unwrap();
        if name == "skipped" {
            skipped = data["count"].as_i64().unwrap();
            most = most.max(skipped);
            continue;
        }
        assert_eq!(
            number(&data),
            before + skipped + 1,
            "{skipped} were counted"
        );
        (before, skipped) = (number(&data), 0);
    }
    drop(slow);
    eventually("its client is gone", || {
        relay.metric("pvwire_sessions_active") == 0.0
    });
}

#[test]
fn interval_throttles_a_stream_and_rules_end_it() {
    let network = Network::new();
    let name = prefix();
    let rules = file(&format!("{}.toml", name.trim_end_matches(':')), "");
    let relay = Relay::start(network, &["--config", rules.to_str().unwrap()]);
    let asked = encoded("{ value { number } skips { filter } }");
    let path = format!("sim:%2F%2Fcounter(rate_hz=50)/stream?interval_ms=300&select={asked}");
    let mut events = Events::open(&relay, &path);
    let first = number(&events.next().unwrap().1);
    let (kind, second) = events.next().unwrap();
    assert_eq!(kind, "message", "left out on purpose");
    assert!(number(&second) > first + 1, "{first} {second}");
    assert!(
        second["skips"]["filter"].as_f64().unwrap() >= 1.0,
        "{second}"
    );
    std::fs::write(&rules, "[[rule]]\npv = \"sim://*\"\ndeny = \"read\"\n").unwrap();
    relay.signal("HUP");
    assert_eq!(events.wait_end()["code"], 4403);
}

/// The first events that httpx-sse of Python hands to its user.
fn by_httpx(relay: &Relay, path: &str, count: usize) -> Vec<Value> {
    let folder = in_repository(".local/script-clients");
    assert!(
        folder.join("httpx_sse").exists(),
        "make setup installs {}",
        folder.display()
    );
    let output = Command::new(python())
        .env("PYTHONPATH", folder)
        .arg(in_repository("relay/tests/plain_http/events.py"))
        .arg(format!("http://{}/pv/{path}", relay.address()))
        .arg(count.to_string())
        .output()
        .unwrap();
    let [said, failed] =
        [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert!(output.status.success(), "{said}{failed}");
    said.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn httpx_sse_of_python_finds_data_in_each_event() {
    let relay = Relay::start(Network::new(), &[]);
    let asked = encoded("{ value { number } }");
    let path = format!("sim:%2F%2Fcounter(rate_hz=10)/stream?select={asked}");
    let events = by_httpx(&relay, &path, 3);
    assert_eq!(events[0]["retry"], 2_000, "{events:?}");
    for event in &events {
        assert_eq!(event["event"], "message", "{event}");
        assert!(event["data"]["value"]["number"].is_number(), "{event}");
    }
}
