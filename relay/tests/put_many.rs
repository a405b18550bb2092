//! Each put of a message with several puts has its own outcome, in order, under the rules and
//! limits of single puts.
//!
//! Topology: one relay that takes puts, with an audit file in one test, one client, a soft IOC.

use std::path::Path;

use pvwire_schema::limits::{MAX_PUTS, TOO_FAST};
use pvwire_schema::types::{Outcome, PutRequest, PutValue, Reply, RequestBody, RequestProblem};
use serde_json::Value;

use crate::audit::attempts;
use testbed::{Client, Network, Relay, SoftIoc, eventually, prefix};

const RECORDS: &str = r#"
    record(ao, "$(P)set1") { field(VAL, "0") field(PINI, "YES") }
    record(ao, "$(P)set2") { field(VAL, "0") field(PINI, "YES") }
    record(ao, "$(P)locked") { field(VAL, "1") field(PINI, "YES") }
"#;

fn put(name: &str, value: PutValue) -> PutRequest {
    PutRequest {
        name: name.to_owned(),
        value,
        wait: true,
        timeout_ms: 20_000,
        expected: None,
    }
}

fn number(name: &str, number: f64) -> PutRequest {
    put(name, PutValue::Number(number))
}

/// Sends all puts in one message and returns their outcomes.
fn put_many(
    client: &mut Client,
    puts: Vec<PutRequest>,
    all_permitted: bool,
) -> Vec<(Outcome, String)> {
    let count = puts.len() as u32;
    let first = client.request(RequestBody::PutMany {
        puts,
        all_permitted,
    });
    let outcome = |id| match client.wait_answer(id).0 {
        Reply::PutDone { outcome, message } => (outcome, message),
        other => panic!("{other:?} answers a put"),
    };
    (first..first + count).map(outcome).collect()
}

#[test]
fn puts_of_one_message_are_sent_in_order_with_an_outcome_each() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, RECORDS);
    let names = ioc.names(["set1", "set2", "locked"]);
    let [a, b, locked] = names.each_ref().map(String::as_str);
    let unknown = ioc.name("set:nobody");
    let audit = format!("{}many.jsonl", prefix().replace(':', "-"));
    let audit = Path::new(env!("CARGO_TARGET_TMPDIR")).join(audit);
    let pattern = format!("--allow-put={}set*", ioc.prefix());
    let flags = [
        "--enable-put",
        &pattern,
        "--audit-file",
        audit.to_str().unwrap(),
    ];
    let relay = Relay::start(network, &flags);
    let mut client = Client::connect(relay.address());
    client.subscribe_live(&names);

    let asked = vec![
        number(a, 1.0),
        number(locked, 7.0),
        number(a, 2.0),
        put(a, PutValue::Text("abc".to_owned())),
        PutRequest {
            timeout_ms: 300,
            ..number(&unknown, 3.0)
        },
        number(b, 5.0),
        number(a, 4.0),
    ];
    let pvs: Vec<String> = asked.iter().map(|put| put.name.clone()).collect();
    let outcomes = put_many(&mut client, asked, false);
    let codes: Vec<_> = outcomes.iter().map(|(outcome, _)| *outcome).collect();
    assert_eq!(
        codes,
        [
            Outcome::Done,
            Outcome::NotAllowed,
            Outcome::Done,
            Outcome::BadValue,
            Outcome::NotConnected,
            Outcome::Done,
            Outcome::Done,
        ],
        "{outcomes:?}"
    );
    assert!(outcomes[1].1.contains("no rule of this relay allows it"));
    assert!(outcomes[4].1.contains("nothing was written"));
    client.wait_number(a, 4.0);
    client.wait_number(b, 5.0);
    assert_eq!(client.pv(a).numbers(), [0.0, 1.0, 2.0, 4.0]);
    assert_eq!(client.pv(locked).numbers(), [1.0]);

    let ends = || {
        let is_end = |line: &Value| line["kind"] == "put" && line["result"] != "Begun";
        let ends = attempts(&audit).into_iter().filter(is_end);
        ends.map(|line| line["pv"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    eventually("each is on record", || ends().len() == pvs.len());
    let (mut ends, mut pvs) = (ends(), pvs);
    ends.sort();
    pvs.sort();
    assert_eq!(ends, pvs);
}

#[test]
fn none_is_sent_when_one_is_not_permitted_and_all_are_required() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, RECORDS);
    let names = ioc.names(["set1", "set2", "locked"]);
    let [a, b, locked] = names.each_ref().map(String::as_str);
    let pattern = format!("--allow-put={}set*", ioc.prefix());
    let relay = Relay::start(network, &["--enable-put", &pattern]);
    let mut client = Client::connect(relay.address());
    client.subscribe_live(&names);

    let asked = vec![number(a, 1.0), number(locked, 7.0), number(b, 2.0)];
    let outcomes = put_many(&mut client, asked, true);
    assert_eq!(outcomes[1].0, Outcome::NotAllowed, "{outcomes:?}");
    for (outcome, why) in [&outcomes[0], &outcomes[2]] {
        assert_eq!(*outcome, Outcome::Withheld);
        assert!(
            why.contains("nothing was written") && why.contains(locked),
            "{why}"
        );
    }
    let outcomes = put_many(&mut client, vec![number(a, 3.0), number(b, 4.0)], true);
    assert!(
        outcomes
            .iter()
            .all(|(outcome, _)| *outcome == Outcome::Done)
    );
    client.wait_number(a, 3.0);
    client.wait_number(b, 4.0);
    assert_eq!(client.pv(a).numbers(), [0.0, 3.0]);
    assert_eq!(client.pv(b).numbers(), [0.0, 4.0]);
}

#[test]
fn each_put_of_a_message_counts_against_max_puts_per_s() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, RECORDS);
    let a = ioc.name("set1");
    let flags = ["--enable-put", "--allow-put=*", "--max-puts-per-s=1"];
    let relay = Relay::start(network, &flags);
    let mut client = Client::connect(relay.address());
    client.subscribe_live(&[&a]);

    let asked = (0..20).map(|n| number(&a, f64::from(n))).collect();
    let outcomes = put_many(&mut client, asked, false);
    let (taken, refused) = outcomes.split_at(10);
    assert!(
        taken.iter().all(|(outcome, _)| *outcome == Outcome::Done),
        "{taken:?}"
    );
    // While the first were done the limit may have let in one or two more.
    let (last, why) = &refused[9];
    assert_eq!(*last, Outcome::NotAllowed);
    assert!(why.starts_with(TOO_FAST), "{why}");
}

#[test]
fn message_with_too_many_puts_is_refused_as_a_whole() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, RECORDS);
    let a = ioc.name("set1");
    let relay = Relay::start(network, &["--enable-put", "--allow-put=*"]);
    let mut client = Client::connect(relay.address());
    client.subscribe_live(&[&a]);

    let puts = (0..=MAX_PUTS).map(|_| number(&a, 7.0)).collect();
    let (reply, _) = client.ask(RequestBody::PutMany {
        puts,
        all_permitted: false,
    });
    let Reply::Error { problem, message } = reply else {
        panic!("{reply:?} answers too many puts")
    };
    assert_eq!(problem, RequestProblem::Refused);
    assert!(message.contains("puts"), "{message}");
    assert_eq!(client.put_number(&a, 8.0).0, Outcome::Done);
    client.wait_number(&a, 8.0);
    assert_eq!(client.pv(&a).numbers(), [0.0, 8.0]);
}
