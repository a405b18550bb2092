//! The relay passes on what an archiver has, to clients that may read the PV, by the protocol and by plain HTTP.
//!
//! Topology: the HTTP face of an Archiver Appliance, `testbed/python/archiver.py`, and a relay.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

use pvwire_schema::types::{Outcome, RequestBody};
use serde_json::{Value, json};

use testbed::{
    ArchiverServer, Client, DEADLINE, Network, Relay, SoftIoc, eventually, file, free_port,
};

use crate::channelfinder::{offered, status};
use crate::questions::pages;

/// An hour of 2024, in which there are 360 samples.
const RANGE: &str = "from=2024-02-29T12:00:00Z&to=2024-02-29T13:00:00Z";

/// An answer with its chunks joined.
pub(crate) struct Raw {
    status: u16,
    head: String,
    pub(crate) body: Vec<u8>,
    /// The chunked encoding has its end.
    is_whole: bool,
}

impl Raw {
    /// The text of a refusal.
    fn error(&self) -> String {
        let body: Value = serde_json::from_slice(&self.body).unwrap();
        body["error"].as_str().unwrap().to_owned()
    }
}

pub(crate) fn fetch(address: SocketAddr, path: &str) -> Raw {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut bytes = Vec::new();
    // A connection that is reset has no end of its encoding either.
    let _ = stream.read_to_end(&mut bytes);
    let end = bytes
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .unwrap();
    let head = String::from_utf8(bytes[..end].to_vec())
        .unwrap()
        .to_lowercase();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let mut rest = &bytes[end + 4..];
    let (mut body, mut is_whole) = (Vec::new(), true);
    if head.contains("transfer-encoding: chunked") {
        is_whole = false;
        while let Some(line) = rest.windows(2).position(|two| two == b"\r\n") {
            let size = std::str::from_utf8(&rest[..line]).unwrap();
            let size = usize::from_str_radix(size, 16).unwrap();
            rest = &rest[line + 2..];
            is_whole = size == 0;
            if is_whole || rest.len() < size + 2 {
                break;
            }
            body.extend_from_slice(&rest[..size]);
            rest = &rest[size + 2..];
        }
    } else {
        body.extend_from_slice(rest);
    }
    Raw {
        status,
        head,
        body,
        is_whole,
    }
}

fn by_http(relay: &Relay, pv: &str, range: &str) -> Raw {
    fetch(relay.address(), &format!("/archiver/data?pv={pv}&{range}"))
}

fn question(body: &Value) -> RequestBody {
    RequestBody::Ask {
        service: "archiver".to_owned(),
        body: body.to_string().into_bytes(),
    }
}

/// The pages of an answer, joined.
fn ask(client: &mut Client, body: &Value) -> Result<Vec<u8>, (Outcome, String)> {
    let request = client.request(question(body));
    let mut joined = Vec::new();
    for (_, page, content) in pages(client, &[request]) {
        if page.outcome != Outcome::Done {
            return Err((page.outcome, page.message));
        }
        joined.extend(content);
    }
    Ok(joined)
}

#[test]
fn answers_of_an_archiver_pass_untouched_by_http_and_by_the_protocol() {
    let archiver = ArchiverServer::start(10.0, None);
    let network = Network::new();
    let relay = Relay::start(network, &[&archiver.flag("A:*")]);
    let route = "/retrieval/data/getData.raw";
    let mut client = Client::connect(relay.address());
    for (pv, asked, points) in [
        ("A:x", "A:x", ""),
        ("ca://A:x", "A:x", ""),
        ("pva://A:x.HIHI", "A:x.HIHI", ""),
        ("A:x", "optimized_20(A:x)", "&points=20"),
        ("A:text", "A:text", ""),
    ] {
        let expected = fetch(archiver.address(), &format!("{route}?pv={asked}&{RANGE}"));
        assert!(expected.is_whole && expected.body.len() > 500);
        let passed = by_http(&relay, pv, &format!("{RANGE}{points}"));
        assert_eq!((passed.status, passed.is_whole), (200, true), "{pv}");
        assert!(passed.head.contains("content-type: application/x-protobuf"));
        assert_eq!(passed.body, expected.body, "{pv}");
        let mut body =
            json!({"pv": pv, "from": "2024-02-29T12:00:00Z", "to": "2024-02-29T13:00:00Z"});
        if !points.is_empty() {
            body["points"] = json!(20);
        }
        assert_eq!(ask(&mut client, &body), Ok(expected.body), "{pv}");
    }
    let year = "from=2023-01-01T00:00:00Z&to=2023-02-01T00:00:00Z";
    let expected = fetch(archiver.address(), &format!("{route}?pv=A:x&{year}"));
    assert!(expected.body.len() > 4_000_000, "several pages");
    let body = json!({"pv": "A:x", "from": "2023-01-01T00:00:00Z", "to": "2023-02-01T00:00:00Z"});
    assert_eq!(ask(&mut client, &body), Ok(expected.body));
    assert!(relay.metric("pvwire_archiver_bytes_total") > 4_000_000.0);
    for path in [
        "/archiver",
        "/archiver/data/",
        "/archiver/bpl/getAllPVs",
        "/mgmt/bpl/deletePV?pv=A:x",
    ] {
        assert_eq!(fetch(relay.address(), path).status, 404, "{path}");
    }
    assert!(
        archiver
            .requests()
            .iter()
            .all(|path| path.starts_with(&format!("{route}?pv=")))
    );
}

#[test]
fn faults_of_an_archiver_are_told_from_whole_answers_and_say_who_must_act() {
    let archiver = ArchiverServer::start(10.0, None);
    let nowhere = format!("--archiver=GONE:*=http://127.0.0.1:{}", free_port());
    let flags = [
        &*archiver.flag("A:*"),
        &nowhere,
        "--archiver-timeout-ms=2500",
        "--archiver-max-bytes=100KB",
    ];
    let relay = Relay::start(Network::new(), &flags);
    let mut client = Client::connect(relay.address());
    let mut failures = 0.0;
    for (pv, status, outcome, words) in [
        (
            "A:unknown",
            404,
            Outcome::BadName,
            "operator adds it to those that are archived",
        ),
        ("A:starting", 502, Outcome::Failed, "try again later"),
        (
            "A:failing",
            502,
            Outcome::Failed,
            "the archiver's operator reads its log",
        ),
        ("A:broken", 502, Outcome::Failed, "gave no answer of HTTP"),
        (
            "A:silent",
            504,
            Outcome::TimedOut,
            "within 2500 ms (archiver_timeout_ms)",
        ),
        (
            "GONE:x",
            502,
            Outcome::Failed,
            "the relay's operator checks the option archiver",
        ),
        (
            "B:x",
            404,
            Outcome::BadName,
            "its operator names one by the option archiver",
        ),
        ("A:f(x)", 404, Outcome::BadName, "comma or parentheses"),
    ] {
        let refused = by_http(&relay, pv, RANGE);
        assert_eq!(refused.status, status, "{pv}");
        let error = refused.error();
        assert!(error.contains(words), "{pv}: {error}");
        let body = json!({"pv": pv, "from": "2024-02-29T12:00:00Z", "to": "2024-02-29T13:00:00Z"});
        assert_eq!(
            ask(&mut client, &body).unwrap_err(),
            (outcome, error),
            "{pv}"
        );
        failures += if outcome == Outcome::BadName {
            0.0
        } else {
            2.0
        };
        assert_eq!(
            relay.metric("pvwire_archiver_failures_total"),
            failures,
            "{pv}"
        );
    }
    for (pv, outcome, words) in [
        (
            "A:slow",
            Outcome::TimedOut,
            "sent no further part of its answer for 2500 ms",
        ),
        ("A:cut", Outcome::Failed, "was cut after"),
        ("A:huge", Outcome::Failed, "longer than 100000 bytes"),
    ] {
        let cut = by_http(&relay, pv, RANGE);
        assert_eq!((cut.status, cut.is_whole), (200, false), "{pv}");
        assert!(
            (100..=100_000).contains(&cut.body.len()),
            "{pv}: {}",
            cut.body.len()
        );
        let body = json!({"pv": pv, "from": "2024-02-29T12:00:00Z", "to": "2024-02-29T13:00:00Z"});
        let (ended, message) = ask(&mut client, &body).unwrap_err();
        assert_eq!(ended, outcome, "{pv}: {message}");
        assert!(message.contains(words), "{pv}: {message}");
    }
    for round in 0..30 {
        let cut = by_http(&relay, "A:cut", RANGE);
        let seen = (cut.status, cut.is_whole, cut.body.is_empty());
        assert_eq!(
            seen,
            (200, false, false),
            "what came first is passed on: {round}"
        );
    }
    let moved = by_http(&relay, "A:moved", RANGE);
    assert_eq!(
        (moved.status, moved.is_whole),
        (200, true),
        "another node of the cluster answers"
    );
    assert!(by_http(&relay, "A:damaged", RANGE).is_whole);
    for (query, words) in [
        ("pv=A:x", "from is missing"),
        ("from=-1h", "pv is missing"),
        ("pv=A:x&from=yesterday", "from is \"yesterday\""),
        ("pv=A:x&from=-1h&to=-2h", "from is later than to"),
        ("pv=A:x&from=-1h&points=0", "points"),
    ] {
        let refused = fetch(relay.address(), &format!("/archiver/data?{query}"));
        assert_eq!(refused.status, 400, "{query}");
        assert!(refused.error().contains(words), "{}", refused.error());
    }
    let posted = archiver
        .requests()
        .iter()
        .filter(|path| path.contains("f("))
        .count();
    assert_eq!(posted, 0, "no operator of the client's");
}

#[test]
fn client_that_may_not_read_a_pv_may_not_read_its_past_by_any_of_its_names() {
    let archiver = ArchiverServer::start(10.0, None);
    let rules = file(
        "archiver.toml",
        "[[rule]]\npv = 'ca://A:secret*'\ndeny = 'read'\n[[rule]]\npv = '*'\nallow = 'read'\n",
    );
    let flags = [&*archiver.flag("*"), "--config", rules.to_str().unwrap()];
    let relay = Relay::start(Network::new(), &flags);
    let mut client = Client::connect(relay.address());
    for pv in [
        "A:secret",
        "ca://A:secret",
        "pva://A:secret",
        "A:secret.VAL",
        "pva://A:secret.HIHI",
        "A:secret.VAL.VAL",
    ] {
        assert_eq!(by_http(&relay, pv, RANGE).status, 403, "{pv}");
        let body = json!({"pv": pv, "from": "-1h"});
        assert_eq!(
            ask(&mut client, &body).unwrap_err().0,
            Outcome::NotAllowed,
            "{pv}"
        );
    }
    for pv in [
        "pva://ca://A:secret",
        "ca://pva://A:secret",
        "optimized_1(A:secret)",
        "sim://A:secret",
    ] {
        assert!(by_http(&relay, pv, RANGE).status >= 400, "{pv}");
    }
    assert_eq!(by_http(&relay, "A:open", RANGE).status, 200);
    let forwarded = archiver.requests();
    assert!(
        forwarded.iter().all(|path| !path.contains("secret")),
        "{forwarded:?}"
    );
}

#[test]
fn slow_archiver_delays_neither_other_questions_nor_other_clients() {
    let archiver = ArchiverServer::start(10.0, None);
    let network = Network::new();
    let ioc = SoftIoc::start(
        network,
        r#"record(ao, "$(P)a") { field(VAL, "1") field(PINI, "YES") }"#,
    );
    let flags = [
        &*archiver.flag("*"),
        "--archiver-timeout-ms=60000",
        "--archiver-max-requests=2",
    ];
    let relay = Relay::start(network, &flags);
    let mut client = Client::connect(relay.address());
    for _ in 0..4 {
        client.request(question(&json!({"pv": "A:slow", "from": "-1h"})));
    }
    let begin = Instant::now();
    let names = RequestBody::Ask {
        service: "names".to_owned(),
        body: b"{}".to_vec(),
    };
    let request = client.request(names);
    assert_eq!(pages(&mut client, &[request])[0].1.outcome, Outcome::Done);
    assert!(begin.elapsed().as_secs() < 10);
    client.subscribe_live(&[&ioc.name("a")]);
    // A client has half of the places, so that the other half is free for another client.
    eventually("a request", || archiver.requests().len() == 1);
    let mut other = Client::connect(relay.address());
    assert!(ask(&mut other, &json!({"pv": "A:x", "from": "-1h"})).is_ok());
    assert_eq!(archiver.requests().len(), 2);
    // The places of clients that leave are free.
    other.request(question(&json!({"pv": "A:slow", "from": "-1h"})));
    eventually("both places are taken", || archiver.requests().len() == 3);
    let mut third = Client::connect(relay.address());
    let waiting = third.request(question(&json!({"pv": "A:x", "from": "-1h"})));
    drop(client);
    let answer = pages(&mut third, &[waiting]);
    assert!(
        answer
            .iter()
            .all(|(_, page, _)| page.outcome == Outcome::Done)
    );
}

#[test]
fn names_of_an_archiver_are_offered_as_its_pattern_and_the_rules_permit() {
    let archiver = ArchiverServer::start(10.0, None);
    let rules = "[[rule]]\npv = \"A:secret\"\ndeny = \"read\"\n";
    let rules = file("archiver-names.toml", rules);
    let flags = [
        "--config",
        rules.to_str().unwrap(),
        &archiver.flag("A:*"),
        "--archiver-names-interval-ms=500",
    ];
    let relay = Relay::start(Network::new(), &flags);
    relay.wait_metric("pvwire_archiver_names", 4.0);
    assert_eq!(offered(&relay, "a"), ["A:x", "pva://A:y", "A:text"]);
    let now = status(&relay);
    assert_eq!(
        (&now["kind"], &now["names"]),
        (&json!("archiver"), &json!(4))
    );
    for (manner, words) in [
        (
            "starting",
            "answered 503 Service Unavailable: it may be starting",
        ),
        ("cut", "has cut its answer"),
        ("page", "is no list of names: the relay's operator checks"),
    ] {
        archiver.lists_names(manner);
        eventually(&format!("{manner} is a failure"), || {
            let status = status(&relay);
            status["failure"]
                .as_str()
                .is_some_and(|why| why.contains(words))
        });
        assert_eq!(relay.metric("pvwire_archiver_names_failing"), 1.0);
        assert_eq!(
            offered(&relay, "a"),
            ["A:x", "pva://A:y", "A:text"],
            "{manner}"
        );
    }
    archiver.lists_names("whole");
    relay.wait_metric("pvwire_archiver_names_failing", 0.0);
    assert_eq!(status(&relay)["failure"], Value::Null);
    let requests = archiver.requests();
    assert!(
        requests
            .iter()
            .all(|path| path == "/retrieval/bpl/searchForPVsRegex?regex=.*")
    );
}
