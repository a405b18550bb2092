//! `PUT /pv/NAME`: values that are written, and refusals that say who must act.

use std::io::Write;
use std::net::TcpStream;

use serde_json::{Value, json};
use testbed::{Network, Relay, SoftIoc, eventually, file, prefix};

use super::client::{PATIENT, get, put, request};
use crate::put_values::put_all;

const DATABASE: &str = r#"
record(ao, "$(P)ao") { field(VAL, "1") field(DRVL, "0") field(DRVH, "10") field(PINI, "YES") }
record(mbbo, "$(P)enum") { field(ZRST, "off") field(ONST, "on") field(PINI, "YES") }
record(int64out, "$(P)int64") { field(PINI, "YES") }
record(waveform, "$(P)wave") { field(FTVL, "DOUBLE") field(NELM, "4") }
record(ao, "$(P)guarded") { field(ASG, "readonly") field(PINI, "YES") }
record(ao, "$(P)unruled") { field(PINI, "YES") }
"#;

#[test]
fn put_writes_each_form_and_tells_its_outcome() {
    let network = Network::new();
    let rules = "ASG(DEFAULT) { RULE(1, READ) RULE(1, WRITE) }\nASG(readonly) { RULE(1, READ) }\n";
    let ioc = SoftIoc::with_prefix(network, &prefix(), DATABASE, rules);
    let [ao, label, wave, guarded, unruled] =
        ioc.names(["ao", "enum", "wave", "guarded", "unruled"]);
    let audit = testbed::in_tmp(&format!("{}.jsonl", prefix().trim_end_matches(':')));
    let deny = file(
        &format!("{}.toml", prefix().trim_end_matches(':')),
        &format!("[[rule]]\npv = \"{unruled}\"\ndeny = \"put\"\n"),
    );
    let flags = [
        "--enable-put",
        "--allow-put=*",
        "--auth=trusted-header",
        "--trusted-proxy=127.0.0.1",
        "--audit-file",
        audit.to_str().unwrap(),
        "--config",
        deny.to_str().unwrap(),
    ];
    let relay = Relay::start(network, &flags);
    let jane = [("X-Forwarded-User", "jane")];
    let write = |name: &str, body: &str| {
        request(relay.address(), "PUT", &format!("/pv/{name}"), &jane, body)
    };
    let read = |name: &str, at: &str| {
        let got = request(relay.address(), "GET", &format!("/pv/{name}"), &jane, "");
        got.json.pointer(at).cloned().unwrap_or_default()
    };
    for (name, value, at) in [
        (&ao, json!(2.5), "/value/float"),
        (&label, json!("on"), "/value/string"),
        (&wave, json!([1, 2.5]), "/value/array"),
    ] {
        let got = write(name, &json!({ "value": value }).to_string());
        assert_eq!(
            (got.status, &got.json),
            (200, &json!({"ok": true})),
            "{name}"
        );
        eventually("the value is written", || read(name, at) == value);
    }
    let clamped = write(&ao, r#"{"value": 50}"#);
    assert_eq!(clamped.status, 200);
    assert_eq!(clamped.json["readback"], 10.0, "{}", clamped.json);

    for (name, body, status, code) in [
        (&ao, r#"{"value": "warm"}"#, 422, "BAD_VALUE"),
        (
            &ao,
            r#"{"value": 10.5, "check_limits": true}"#,
            422,
            "BAD_VALUE",
        ),
        (&guarded, r#"{"value": 1}"#, 403, "NO_ACCESS"),
        (&unruled, r#"{"value": 1}"#, 403, "NOT_ALLOWED"),
    ] {
        let got = write(name, body);
        assert_eq!(got.status, status, "{name}: {}", got.json);
        assert_eq!(got.json["code"], code, "{name}");
        assert_eq!(got.json["mayBeWritten"], false);
        assert!(
            got.json["error"].as_str().is_some_and(|why| why.len() > 10),
            "{}",
            got.json
        );
    }
    for body in ["", "5", "{}", r#"{"value": 1, "now": true}"#] {
        let got = write(&ao, body);
        assert_eq!(got.status, 400, "{body}: {}", got.json);
    }
    assert_eq!(put(&relay, &ao, r#"{"value": 1}"#).status, 401);
    assert_eq!(
        request(relay.address(), "POST", &format!("/pv/{ao}"), &jane, "").status,
        405
    );
    assert_eq!(
        request(
            relay.address(),
            "PUT",
            &format!("/pv/{ao}/stream"),
            &jane,
            ""
        )
        .status,
        405
    );

    let recorded = || -> Vec<Value> {
        let text = std::fs::read_to_string(&audit).unwrap_or_default();
        text.lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()
    };
    eventually("puts are in the audit file with their user", || {
        recorded()
            .iter()
            .any(|record| record["user"] == "jane" && record.to_string().contains(&ao))
    });
}

#[test]
fn new_connections_put_no_more_than_their_address_or_user_may() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, DATABASE);
    let flags = [
        "--enable-put",
        "--allow-put=*",
        "--auth=trusted-header",
        "--trusted-proxy=127.0.0.1",
        "--max-puts-per-s=1",
    ];
    let relay = Relay::start(network, &flags);
    let path = format!("/pv/{}", ioc.name("ao"));
    let write = |from: &str, user: &str| {
        let headers = [("X-Forwarded-For", from), ("X-Forwarded-User", user)];
        request(relay.address(), "PUT", &path, &headers, r#"{"value": 7}"#)
    };
    // Five times ten at once, and five a second.
    let mut all = (0..500).map(|_| write("192.0.2.1", "jane"));
    let refused = all.find(|got| got.status != 200).expect("a refusal");
    assert_eq!(refused.status, 429, "{}", refused.json);
    assert_eq!(refused.json["code"], "NOT_ALLOWED");
    assert_eq!(refused.json["mayBeWritten"], false);
    let why = refused.json["error"].as_str().unwrap();
    assert!(why.contains("max_puts_per_s"), "{why}");
    let mut elsewhere =
        (0..500).map(|n| write(&format!("192.0.2.{}", n % 100 + 10), "jane").status);
    assert!(elsewhere.any(|status| status == 429));
    let mut others = (0..500).map(|n| write("192.0.2.1", &format!("user{n}")).status);
    assert!(others.any(|status| status == 429));
    assert_eq!(write("192.0.2.2", "john").status, 200);
}

#[test]
fn put_to_a_relay_that_takes_none_is_refused() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, DATABASE);
    let relay = Relay::start(network, &[]);
    let ao = ioc.name("ao");
    let refused = put(&relay, &ao, r#"{"value": 2}"#);
    assert_eq!(refused.status, 403, "{}", refused.json);
    assert_eq!(refused.json["code"], "NOT_ALLOWED");
    assert_eq!(get(&relay, &ao).json["value"]["float"], 1);
}

#[test]
fn stop_of_a_busy_record_is_written_at_once_only_without_wait() {
    let network = Network::new();
    let busy = r#"record(calcout, "$(P)busy") { field(CALC, "A") field(ODLY, "5") }"#;
    let ioc = SoftIoc::start(network, busy);
    let [record] = ioc.names(["busy"]);
    let relay = Relay::start(network, &["--enable-put", "--allow-put=*"]);
    let number = |field: &str| {
        let got = get(&relay, &format!("{record}.{field}"));
        got.json["value"]["float"].as_f64().unwrap_or_default()
    };
    let write = |field: &str, body: &str| put(&relay, &format!("{record}.{field}"), body);
    std::thread::scope(|scope| {
        let moves = scope.spawn(|| write("A", r#"{"value": 1, "timeout_ms": 60000}"#));
        eventually("the record is busy", || number("DLYA") == 1.0);
        assert_eq!(write("B", r#"{"value": 7, "wait": false}"#).status, 200);
        assert_eq!((number("B"), number("DLYA")), (7.0, 1.0), "at once");
        let waits = scope.spawn(|| write("C", r#"{"value": 8, "timeout_ms": 60000}"#));
        assert_eq!(moves.join().unwrap().status, 200);
        assert_eq!(waits.join().unwrap().status, 200);
        assert_eq!(number("C"), 8.0);
    });
}

#[test]
fn put_of_a_client_that_left_is_not_written_later() {
    let network = Network::new();
    let prefix = prefix();
    let name = format!("{prefix}ao");
    let relay = Relay::start(network, &["--enable-put", "--allow-put=*", PATIENT]);
    let mut stream = TcpStream::connect(relay.address()).unwrap();
    let body = r#"{"value": 7, "timeout_ms": 60000}"#;
    let request = format!(
        "PUT /pv/{name} HTTP/1.1\r\nHost: {}\r\nContent-Length: {}\r\n\r\n{body}",
        relay.address(),
        body.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    eventually("the put waits for its PV", || {
        relay.metric("pvwire_monitors_active") == 1.0
    });
    drop(stream);
    eventually("its client is gone", || {
        relay.metric("pvwire_sessions_active") == 0.0
    });
    let _ioc = SoftIoc::with_prefix(network, &prefix, DATABASE, "");
    let got = get(&relay, &name);
    assert_eq!(got.status, 200, "{}", got.json);
    assert_eq!(got.json["value"]["float"], 1, "{}", got.json);
}

#[test]
fn put_by_http_is_what_the_pv_holds_or_changes_nothing() {
    put_all(&[], |relay, name, json, is_refused| {
        let path = name.replace(':', "%3A").replace('/', "%2F");
        let got = put(relay, &path, &format!("{{\"value\": {json}}}"));
        assert_eq!(
            (got.status >= 400, got.json["message"].as_str()),
            (is_refused, None),
            "{name} {json}: {}",
            got.json
        );
    });
}
