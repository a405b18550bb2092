//! A put writes the given value or says why not, and each client learns the outcome of its own
//! puts.
//!
//! Topology: one relay that takes puts to some PVs, one or two clients, a soft IOC.

use pvwire_schema::types::{
    Array, Expected, Outcome, PutRequest, PutValue, Reply, RequestBody, ValueType,
};

use testbed::{Client, Kept, Network, Relay, SoftIoc, prefix};

/// Flags of a relay that takes puts to every PV.
const ALL: [&str; 2] = ["--enable-put", "--allow-put=*"];

fn request(name: &str, value: PutValue) -> RequestBody {
    RequestBody::Put(order(name, value))
}

fn order(name: &str, value: PutValue) -> PutRequest {
    PutRequest {
        name: name.to_owned(),
        value,
        wait: true,
        timeout_ms: 0,
        expected: None,
    }
}

fn outcome(reply: Reply) -> (Outcome, String) {
    match reply {
        Reply::PutDone { outcome, message } => (outcome, message),
        other => panic!("{other:?} answers a Put"),
    }
}

/// Puts with completion.
fn put(client: &mut Client, name: &str, value: PutValue) -> (Outcome, String) {
    outcome(client.ask(request(name, value)).0)
}

/// Puts without completion too; both must give the same result.
fn put_both(client: &mut Client, name: &str, value: PutValue) -> (Outcome, String) {
    let with = put(client, name, value.clone());
    let without = PutRequest {
        wait: false,
        ..order(name, value)
    };
    let without = outcome(client.ask(RequestBody::Put(without)).0);
    assert_eq!(with, without, "with and without completion");
    with
}

fn done() -> (Outcome, String) {
    (Outcome::Done, String::new())
}

fn text(text: &str) -> PutValue {
    PutValue::Text(text.to_owned())
}

#[test]
fn puts_of_numbers_strings_labels_and_arrays_are_written() {
    let network = Network::new();
    let ioc = SoftIoc::start(
        network,
        r#"
        record(ao, "$(P)ao") { field(PREC, "2") }
        record(mbbo, "$(P)mbbo") { field(ZRST, "zero") field(ONST, "one") field(TWST, "two") }
        record(stringout, "$(P)string") {}
        record(lso, "$(P)lso") { field(SIZV, "4000") }
        record(waveform, "$(P)shorts") { field(FTVL, "SHORT") field(NELM, "4") }
        record(waveform, "$(P)strings") { field(FTVL, "STRING") field(NELM, "3") }
        "#,
    );
    let relay = Relay::start(network, &ALL);
    let mut client = Client::connect(relay.address());
    let names = ioc.names(["ao", "mbbo", "string", "lso.VAL$", "shorts", "strings"]);
    client.subscribe_live(&names);
    let [ao, mbbo, string, lso, shorts, strings] = names.each_ref().map(String::as_str);
    assert!(client.pv(ao).connection.unwrap().puts);

    for value in [PutValue::Number(1.25), text("2.5"), PutValue::Int64(7)] {
        assert_eq!(put_both(&mut client, ao, value), done());
    }
    client.wait_number(ao, 7.0);
    assert_eq!(put_both(&mut client, mbbo, text("two")), done());
    client.wait_number(mbbo, 2.0);
    assert_eq!(put_both(&mut client, mbbo, PutValue::Number(1.0)), done());
    client.wait_number(mbbo, 1.0);
    for odd in ["[x] y", "{x}", ""] {
        assert_eq!(put_both(&mut client, string, text(odd)), done());
        client.wait_pv(string, odd, |pv| pv.is(&Kept::text(odd)));
    }
    let long = "3,000 bytes".repeat(3_000 / 11);
    assert_eq!(put_both(&mut client, lso, text(&long)), done());
    let bytes = [long.as_bytes(), b"\0"].concat();
    let long = Kept::Array(ValueType::UInt8, bytes);
    client.wait_pv(lso, "the long text", |pv| pv.is(&long));
    let three: Vec<u8> = [1.0_f64, -2.0, 3.0]
        .iter()
        .flat_map(|n| n.to_le_bytes())
        .collect();
    let three = PutValue::Array(Array {
        value_type: ValueType::Float64,
        count: 3,
        data: three.into(),
    });
    assert_eq!(put_both(&mut client, shorts, three), done());
    let seen = Kept::Array(ValueType::Int16, vec![1, 0, 254, 255, 3, 0]);
    client.wait_pv(shorts, "three shorts", |pv| pv.is(&seen));
    let texts: Vec<String> = ["[a]", "", "c"].map(str::to_owned).into();
    assert_eq!(
        put_both(&mut client, strings, PutValue::TextArray(texts.clone())),
        done()
    );
    client.wait_pv(strings, "three strings", |pv| {
        pv.is(&Kept::Texts(texts.clone()))
    });
}

#[test]
fn alarm_is_acknowledged_by_a_put_of_its_severity() {
    let network = Network::new();
    let ioc = SoftIoc::start(
        network,
        r#"record(ao, "$(P)ao") { field(HIGH, "1") field(HSV, "MINOR") field(HIHI, "2") field(HHSV, "MAJOR") }"#,
    );
    let relay = Relay::start(network, &ALL);
    let mut client = Client::connect(relay.address());
    let names = ioc.names(["ao", "ao.ACKS", "ao.ACKT"]);
    client.subscribe_live(&names);
    let [ao, severity, transient] = names.each_ref().map(String::as_str);
    for major in [text("MAJOR"), PutValue::Number(2.0)] {
        // The alarm is gone, and waits for its acknowledgement. That of a lower one isn't enough.
        for value in [3.0, 0.0] {
            assert_eq!(put(&mut client, ao, PutValue::Number(value)), done());
        }
        client.wait_number(severity, 2.0);
        assert_eq!(put(&mut client, severity, text("MINOR")), done());
        assert!(client.pv(severity).is_number(2.0));
        assert_eq!(put_both(&mut client, severity, major), done());
        client.wait_number(severity, 0.0);
        // Alarms that are gone need no acknowledgement, and then one again.
        assert_eq!(put_both(&mut client, transient, text("NO")), done());
        client.wait_number(transient, 0.0);
        assert_eq!(
            put_both(&mut client, transient, PutValue::Number(1.0)),
            done()
        );
        client.wait_number(transient, 1.0);
    }
    // No other text is taken, and the record's value stays.
    let (end, _) = put(&mut client, severity, text("SERIOUS"));
    assert_eq!(end, Outcome::BadValue);
    client.wait_number(ao, 0.0);
}

#[test]
fn put_that_cannot_be_done_says_why_and_writes_nothing() {
    let network = Network::new();
    let rules = "ASG(DEFAULT) { RULE(1, READ) RULE(1, WRITE) }\nASG(readonly) { RULE(1, READ) }\n";
    let ioc = SoftIoc::with_prefix(
        network,
        &prefix(),
        r#"
        record(ao, "$(P)ao") { field(VAL, "1") field(PINI, "YES") }
        record(ao, "$(P)disp") { field(VAL, "1") field(DISP, "1") field(PINI, "YES") }
        record(ao, "$(P)readonly") { field(VAL, "1") field(ASG, "readonly") field(PINI, "YES") }
        record(mbbo, "$(P)mbbo") { field(ZRST, "zero") field(ONST, "one") field(TWST, "two") }
        "#,
        rules,
    );
    let relay = Relay::start(network, &ALL);
    let mut client = Client::connect(relay.address());
    let names = ioc.names(["ao", "disp", "readonly", "mbbo"]);
    client.subscribe_live(&names);
    let [ao, disp, readonly, mbbo] = names.each_ref().map(String::as_str);
    let bad = |why: &str| (Outcome::BadValue, why.to_owned());

    assert_eq!(
        put_both(&mut client, ao, text("abc")),
        bad("\"abc\" is not a number")
    );
    let precise = PutValue::Int64(9_007_199_254_740_993);
    assert!(put_both(&mut client, ao, precise).1.contains("exactly"));
    let choices = "the PV has: zero, one, two";
    let unknown = bad(&format!("\"Nope\" is not a choice; {choices}"));
    assert_eq!(put_both(&mut client, mbbo, text("Nope")), unknown);
    let ninth = bad(&format!("9 is not an index; {choices}"));
    assert_eq!(put_both(&mut client, mbbo, PutValue::Number(9.0)), ninth);
    let (outcome, why) = put_both(&mut client, disp, PutValue::Number(5.0));
    assert_eq!(outcome, Outcome::Failed);
    assert!(why.contains("DISP"), "{why}");
    let (outcome, _) = put_both(&mut client, readonly, PutValue::Number(5.0));
    assert_eq!(outcome, Outcome::NoAccess);
    let (outcome, _) = put(&mut client, "tango://x", PutValue::Number(5.0));
    assert_eq!(outcome, Outcome::BadName);
    for name in [ao, disp, readonly] {
        assert_eq!(client.pv(name).numbers(), [1.0], "{name}");
    }
    assert!(relay.metric("pvwire_operations_total") >= 1.0);
}

#[test]
fn relay_takes_no_puts_unless_it_is_told_to_and_a_rule_fits() {
    let network = Network::new();
    let ioc = SoftIoc::start(
        network,
        r#"record(ao, "$(P)ao") {} record(ao, "$(P)set") {}"#,
    );
    let [ao, set] = ioc.names(["ao", "set"]);
    let pattern = format!("--allow-put={}s*", ioc.prefix());
    for (flags, allowed) in [
        (vec![], [false, false]),
        (vec!["--enable-put"], [false, false]),
        (vec!["--enable-put", pattern.as_str()], [false, true]),
    ] {
        let relay = Relay::start(network, &flags);
        let mut client = Client::connect(relay.address());
        client.subscribe_live(&[&ao, &set]);
        for (name, allowed) in [&ao, &set].into_iter().zip(allowed) {
            let connection = client.pv(name).connection.unwrap();
            assert!(connection.write, "as far as the IOC is concerned");
            assert_eq!(connection.puts, allowed, "{flags:?}");
            let (outcome, why) = put(&mut client, name, PutValue::Number(3.0));
            if allowed {
                assert_eq!(outcome, Outcome::Done);
            } else {
                assert_eq!(outcome, Outcome::NotAllowed);
                assert!(
                    why.contains("allow_put") || why.contains("enable_put"),
                    "{why}"
                );
                assert!(!client.pv(name).is_number(3.0));
            }
        }
    }
}

#[test]
fn racing_puts_have_an_outcome_each_and_all_clients_agree() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, r#"record(ao, "$(P)ao") {}"#);
    let relay = Relay::start(network, &ALL);
    let (mut one, mut two) = (
        Client::connect(relay.address()),
        Client::connect(relay.address()),
    );
    let ao = ioc.name("ao");
    one.subscribe_live(&[&ao]);
    two.subscribe_live(&[&ao]);
    let mut asked = Vec::new();
    for n in 0..20 {
        let good = one.request(request(&ao, PutValue::Number(f64::from(n))));
        let wrong = two.request(request(&ao, text(&format!("bad {n}"))));
        asked.push((n, good, wrong));
    }
    for (n, good, wrong) in asked {
        assert_eq!(outcome(one.wait_answer(good).0), done());
        let (outcome, why) = outcome(two.wait_answer(wrong).0);
        assert_eq!(outcome, Outcome::BadValue);
        assert_eq!(why, format!("\"bad {n}\" is not a number"));
    }
    one.wait_number(&ao, 19.0);
    two.wait_number(&ao, 19.0);
}

#[test]
fn of_two_puts_that_saw_the_same_update_one_is_too_late() {
    let network = Network::new();
    let ioc = SoftIoc::start(
        network,
        r#"record(ao, "$(P)ao") { field(VAL, "1") field(PINI, "YES") }"#,
    );
    let relay = Relay::start(network, &ALL);
    let (mut one, mut two) = (
        Client::connect(relay.address()),
        Client::connect(relay.address()),
    );
    let ao = ioc.name("ao");
    one.subscribe_live(&[&ao]);
    two.subscribe_live(&[&ao]);
    let seen = |client: &Client| Expected {
        sequence: client.pv(&ao).sequence,
        epoch: client.pv(&ao).metadata.as_ref().unwrap().epoch,
    };
    assert_eq!(seen(&one), seen(&two));
    let guarded = |value: f64, expected| {
        RequestBody::Put(PutRequest {
            expected: Some(expected),
            ..order(&ao, PutValue::Number(value))
        })
    };
    let old = seen(&one);
    let (first, second) = (
        one.request(guarded(2.0, old)),
        two.request(guarded(3.0, old)),
    );
    let outcomes = [
        outcome(one.wait_answer(first).0).0,
        outcome(two.wait_answer(second).0).0,
    ];
    let won = outcomes
        .iter()
        .position(|outcome| *outcome == Outcome::Done);
    let won = won.unwrap_or_else(|| panic!("{outcomes:?}"));
    assert_eq!(outcomes[1 - won], Outcome::Changed);
    let value = [2.0, 3.0][won];
    one.wait_number(&ao, value);
    two.wait_number(&ao, value);
    assert_eq!(outcome(one.ask(guarded(4.0, old)).0).0, Outcome::Changed);
    let now = seen(&one);
    assert_eq!(outcome(one.ask(guarded(4.0, now)).0), done());
    two.wait_number(&ao, 4.0);
}

#[test]
fn put_without_an_answer_in_time_says_whether_anything_was_sent() {
    let network = Network::new();
    let ioc = SoftIoc::start(
        network,
        r#"
        record(calcout, "$(P)slow") { field(CALC, "A") field(ODLY, "60") }
        record(calcout, "$(P)other") { field(CALC, "A") field(ODLY, "60") }
        "#,
    );
    let relay = Relay::start(network, &ALL);
    let mut client = Client::connect(relay.address());
    let short = |name: &str| {
        RequestBody::Put(PutRequest {
            timeout_ms: 300,
            ..order(name, PutValue::Number(1.0))
        })
    };
    let (nobody, why) = outcome(client.ask(short(&ioc.name("nobody"))).0);
    assert_eq!(nobody, Outcome::NotConnected);
    assert!(
        why.contains("300 ms") && why.contains("nothing was written"),
        "{why}"
    );
    let slow = ioc.name("slow.A");
    client.subscribe_live(&[&slow]);
    let (late, why) = outcome(client.ask(short(&slow)).0);
    assert_eq!(late, Outcome::TimedOut);
    assert!(why.contains("may have been done"), "{why}");
    client.wait_number(&slow, 1.0);
    // The record is still busy with it; a second put must not block all other requests to the IOC.
    let (late, why) = outcome(client.ask(short(&slow)).0);
    assert_eq!(late, Outcome::NotConnected);
    assert!(
        why.contains("earlier put") && why.contains("nothing was written"),
        "{why}"
    );

    let other = ioc.name("other.A");
    client.subscribe_live(&[&other]);
    let under_way = client.request(RequestBody::Put(PutRequest {
        timeout_ms: 60_000,
        ..order(&other, PutValue::Number(2.0))
    }));
    client.wait_number(&other, 2.0);
    let quick = client.request(RequestBody::Put(PutRequest {
        wait: false,
        ..order(&ioc.name("slow.DESC"), text("x"))
    }));
    assert_eq!(outcome(client.wait_answer(quick).0), done());
    ioc.kill();
    let (broken, _) = outcome(client.wait_answer(under_way).0);
    assert_eq!(broken, Outcome::Interrupted);
}

#[test]
fn put_of_a_client_that_left_is_not_sent_later() {
    let (network, prefix) = (Network::new(), prefix());
    let relay = Relay::start(network, &ALL);
    let mut watcher = Client::connect(relay.address());
    let name = format!("{prefix}ao");
    assert_eq!(watcher.subscribe(&[&name]), []);
    let mut leaver = Client::connect(relay.address());
    leaver.request(request(&name, PutValue::Number(666.0)));
    assert!(matches!(
        leaver.ask(RequestBody::Ping { client_time_ns: 1 }).0,
        Reply::Pong { .. }
    ));
    drop(leaver);
    testbed::eventually("the client is gone", || {
        relay.metric("pvwire_sessions_active") == 1.0
    });
    let database = r#"record(ao, "$(P)ao") { field(VAL, "7") field(PINI, "YES") }"#;
    let _ioc = SoftIoc::with_prefix(network, &prefix, database, "");
    watcher.wait_number(&name, 7.0);
    assert_eq!(put(&mut watcher, &name, PutValue::Number(8.0)), done());
    watcher.wait_number(&name, 8.0);
    assert!(!watcher.pv(&name).numbers().contains(&666.0));
}

#[test]
fn call_of_a_source_without_services_says_so() {
    let network = Network::new();
    let relay = Relay::start(network, &ALL);
    let mut client = Client::connect(relay.address());
    let (reply, _) = client.ask(RequestBody::Rpc {
        name: "ca://service".into(),
        arguments: vec![("a".into(), PutValue::Number(1.0))],
        timeout_ms: 0,
    });
    let Reply::RpcDone { outcome, message } = reply else {
        panic!("{reply:?} answers an Rpc")
    };
    assert_eq!(outcome, Outcome::NotSupported);
    assert!(message.contains("no services"), "{message}");
}
