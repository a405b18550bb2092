//! Is every attempt to write on record, can nobody forge the record, and is nothing written without it
//! where that is wanted?
//!
//! Topology: one relay with an audit file, one client, a soft IOC.

use std::path::{Path, PathBuf};

use pvwire_schema::types::{Outcome, PutRequest, PutValue, Reply, RequestBody};
use serde_json::Value;

use crate::support::{Client, Network, Relay, SoftIoc, eventually, prefix};

fn fresh(name: &str) -> PathBuf {
    let name = format!("{}{name}", prefix().replace(':', "-"));
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    let read = |line: &str| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line:?}"));
    text.lines().map(read).collect()
}

const RECORDS: &str = r#"
    record(ao, "$(P)set") { field(VAL, "1.5") }
    record(stringout, "$(P)text") { field(VAL, "before") }
    record(ao, "$(P)locked") { field(VAL, "1") }
"#;

#[test]
fn every_attempt_is_on_record_with_who_and_what_and_what_became_of_it() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, RECORDS);
    let [set, text, locked] = ioc.names(["set", "text", "locked"]);
    let path = fresh("audit.jsonl");
    let flags = [
        "--enable-put",
        "--allow-put=*:set",
        "--allow-put=*:text",
        "--audit-file",
        path.to_str().unwrap(),
        "--auth=trusted-header",
        "--trusted-proxy=127.0.0.1",
    ];
    let relay = Relay::start(network, &flags);
    let origin = format!("http://{}", relay.address());
    let headers = [("X-Forwarded-User", "jane"), ("Origin", origin.as_str())];
    let mut client = Client::connect_with(relay.address(), &headers);
    client.subscribe_live(&[&set, &text]);

    let evil = "x\n{\"time\":\"1970\",\"user\":\"root\"}\u{2028}\u{85}\r\"}";
    let attempts = [
        (set.clone(), PutValue::Number(2.5), Outcome::Done),
        (set.clone(), PutValue::Number(3.5), Outcome::Done),
        (set.clone(), PutValue::Text("bad".into()), Outcome::BadValue),
        (text.clone(), PutValue::Text("\n{}\n".into()), Outcome::Done),
        (locked, PutValue::Number(7.0), Outcome::NotAllowed),
        (
            evil.to_owned(),
            PutValue::Text(evil.to_owned()),
            Outcome::BadName,
        ),
    ];
    for (name, value, outcome) in &attempts {
        assert_eq!(client.put(name, value.clone()).0, *outcome, "{name:?}");
    }
    client.ask(RequestBody::Rpc {
        name: set.clone(),
        arguments: vec![("a".into(), PutValue::Number(1.0))],
        timeout_ms: 0,
    });

    eventually("all are on record", || lines(&path).len() == 7);
    let lines = lines(&path);
    for (line, (name, _, outcome)) in lines.iter().zip(&attempts) {
        assert_eq!(line["pv"], name.as_str());
        assert_eq!(line["result"], format!("{outcome:?}"));
        assert_eq!(
            (line["user"].as_str(), line["kind"].as_str()),
            (Some("jane"), Some("put"))
        );
        assert_eq!(line["origin"], origin.as_str());
        assert!(line["peer"].as_str().unwrap().starts_with("127.0.0.1:"));
        assert!(line["latencyMs"].as_f64().unwrap() >= 0.0);
        assert!(line["time"].as_str().unwrap().starts_with("20"));
    }
    let values = |nth: usize| (lines[nth]["old"].clone(), lines[nth]["new"].clone());
    assert_eq!(values(0), (1.5.into(), 2.5.into()));
    assert_eq!(values(1), (2.5.into(), 3.5.into()));
    assert_eq!(values(2), (3.5.into(), "bad".into()));
    assert_eq!(values(3), ("before".into(), "\n{}\n".into()));
    assert_eq!(values(4), (Value::Null, 7.0.into()));
    assert_eq!(values(5).1, evil);
    assert_eq!(
        (&lines[6]["kind"], &lines[6]["new"]["a"]),
        (&"call".into(), &1.0.into())
    );
    assert!(
        !relay.output().contains("\n{\"time\""),
        "nor is the log forged"
    );
}

#[test]
fn put_that_cannot_be_put_on_record_is_refused_before_it_reaches_the_ioc_if_that_is_wanted() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, RECORDS);
    let set = ioc.name("set");
    // A disk without room.
    let flags = |mode: &'static str| {
        [
            "--enable-put",
            "--allow-put=*",
            "--audit-file=/dev/full",
            mode,
        ]
    };
    let relay = Relay::start(network, &flags("--audit-fail=closed"));
    let mut client = Client::connect(relay.address());
    client.subscribe_live(&[&set]);
    assert_eq!(
        client.put(&set, PutValue::Number(9.0)).0,
        Outcome::NotAllowed
    );
    let call = RequestBody::Rpc {
        name: format!("pva://{set}"),
        arguments: Vec::new(),
        timeout_ms: 0,
    };
    let (reply, _) = client.ask(call);
    let Reply::RpcDone {
        outcome, message, ..
    } = reply
    else {
        panic!("{reply:?}");
    };
    assert_eq!(outcome, Outcome::NotAllowed);
    assert!(message.contains("audit_fail"), "{message}");
    drop((client, relay));

    let relay = Relay::start(network, &flags("--audit-fail=open"));
    let mut client = Client::connect(relay.address());
    client.subscribe_live(&[&set]);
    assert!(
        client.pv(&set).is_number(1.5),
        "the refused one wrote nothing"
    );
    assert_eq!(client.put(&set, PutValue::Number(2.0)).0, Outcome::Done);
    drop((client, relay));

    // With room, the attempt is on record before it is made, and its end after it.
    let path = fresh("closed.jsonl");
    let file = format!("--audit-file={}", path.display());
    let flags = [
        "--enable-put",
        "--allow-put=*",
        &file,
        "--audit-fail=closed",
    ];
    let relay = Relay::start(network, &flags);
    let mut client = Client::connect(relay.address());
    client.subscribe_live(&[&set]);
    assert_eq!(client.put(&set, PutValue::Number(3.0)).0, Outcome::Done);
    let lines = lines(&path);
    let results: Vec<_> = lines
        .iter()
        .map(|line| line["result"].as_str().unwrap())
        .collect();
    assert_eq!(results, ["Begun", "Done"]);
    assert_eq!(lines[0]["attempt"], lines[1]["attempt"]);
}

#[test]
fn refused_puts_and_calls_fill_neither_the_audit_file_nor_the_log() {
    let path = fresh("flood.jsonl");
    let file = format!("--audit-file={}", path.display());
    let flags = ["--enable-put", "--allow-put=X", "--max-puts-per-s=5", &file];
    let relay = Relay::start(Network::new(), &flags);
    let mut client = Client::connect(relay.address());
    let long = "n".repeat(500_000);
    let text = PutValue::Text("v".repeat(5_000));
    let asked: Vec<u32> = (0..400)
        .map(|n| {
            client.request(match n % 4 {
                0 => RequestBody::Rpc {
                    name: "pva://X:service".into(),
                    arguments: (0..100).map(|n| (format!("a{n}"), text.clone())).collect(),
                    timeout_ms: 0,
                },
                // A name that is none, and a source that is none.
                1 if n < 40 => put(&long),
                2 if n < 40 => put(&format!("{long}://X")),
                _ => put("Y"),
            })
        })
        .collect();
    for id in asked {
        client.wait_answer(id);
    }
    let records = lines(&path);
    assert!((50..100).contains(&records.len()), "{}", records.len());
    let size = std::fs::metadata(&path).unwrap().len();
    assert!(size < 100 * 4096, "{size} bytes of audit");
    let log = relay.output().len();
    assert!(log < 200_000, "{log} bytes of log");
}

fn put(name: &str) -> RequestBody {
    RequestBody::Put(PutRequest {
        name: name.to_owned(),
        value: PutValue::Number(1.0),
        wait: false,
        timeout_ms: 0,
        expected: None,
    })
}
