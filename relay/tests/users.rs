//! A user has the same name in the IOC as in the relay, so that the IOC's access security decides,
//! by Channel Access and by pvAccess.
//!
//! Topology: one relay behind a proxy that sets the user, clients of two users, a soft IOC
//! whose access security lets one of them write.

use std::path::Path;

use pvwire_schema::types::{ConnectionState, Outcome, PutRequest, PutValue, Reply, RequestBody};

use crate::audit::attempts;
use testbed::{Client, Network, Relay, SoftIoc, eventually, prefix};

const RECORDS: &str = r#"
    record(ao, "$(P)gap") { field(VAL, "1") field(PINI, "YES") }
    record(ao, "$(P)current") { field(VAL, "1") field(PINI, "YES") }
    record(mbbo, "$(P)mode") {
        field(ZRST, "off") field(ONST, "on") field(VAL, "0") field(PINI, "YES")
    }
"#;

/// Everybody reads, and jane writes.
pub(crate) const ONLY_JANE: &str = "UAG(writers) { jane }\n\
    ASG(DEFAULT) { RULE(1, READ) RULE(1, WRITE) { UAG(writers) } }\n";

pub(crate) const BY_NAME: [&str; 4] = [
    "--enable-put",
    "--allow-put=*",
    "--auth=trusted-header",
    "--trusted-proxy=127.0.0.1",
];

pub(crate) fn client(relay: &Relay, user: &str) -> Client {
    let origin = format!("http://{}", relay.address());
    let headers = [("X-Forwarded-User", user), ("Origin", origin.as_str())];
    Client::connect_with(relay.address(), &headers)
}

pub(crate) fn put(client: &mut Client, name: &str, value: PutValue) -> (Outcome, String) {
    put_within(client, name, value, 20_000)
}

pub(crate) fn put_within(
    client: &mut Client,
    name: &str,
    value: PutValue,
    timeout_ms: u32,
) -> (Outcome, String) {
    let put = RequestBody::Put(PutRequest {
        name: name.to_owned(),
        value,
        wait: true,
        timeout_ms,
        expected: None,
    });
    match client.ask(put).0 {
        Reply::PutDone { outcome, message } => (outcome, message),
        other => panic!("{other:?}"),
    }
}

fn number(number: f64) -> PutValue {
    PutValue::Number(number)
}

#[test]
fn ioc_lets_its_user_write_by_ca_and_refuses_another_by_name() {
    let network = Network::new();
    let ioc = SoftIoc::with_prefix(network, &prefix(), RECORDS, ONLY_JANE);
    let names = ioc.names(["gap", "current", "mode"]);
    let [gap, current, mode] = names.each_ref().map(String::as_str);
    let audit = format!("{}users.jsonl", prefix().replace(':', "-"));
    let audit = Path::new(env!("CARGO_TARGET_TMPDIR")).join(audit);
    let audit_flag = format!("--audit-file={}", audit.display());
    let relay = Relay::start(network, &[&BY_NAME[..], &[&audit_flag]].concat());
    let (mut jane, mut joe) = (client(&relay, "jane"), client(&relay, "joe"));
    jane.subscribe_live(&names);
    joe.subscribe_live(&names);
    // What the IOC grants the relay itself says nothing of jane.
    assert!(jane.pv(gap).connection.unwrap().write);

    let refused = (
        Outcome::NoAccess,
        "as user \"joe\": the IOC gives no write access".to_owned(),
    );
    assert_eq!(put(&mut joe, gap, number(9.0)), refused);
    assert_eq!(put(&mut jane, gap, number(2.0)).0, Outcome::Done);
    joe.wait_number(gap, 2.0);
    // Again, now that the contexts are there.
    assert_eq!(put(&mut joe, gap, number(9.0)), refused);
    assert_eq!(put(&mut joe, current, number(9.0)), refused);
    assert_eq!(put(&mut jane, current, number(3.0)).0, Outcome::Done);
    joe.wait_number(current, 3.0);
    let on = || PutValue::Text("on".into());
    assert_eq!(put(&mut joe, mode, on()), refused);
    assert_eq!(put(&mut jane, mode, on()).0, Outcome::Done);
    joe.wait_number(mode, 1.0);
    let (outcome, why) = put(&mut jane, mode, PutValue::Text("nope".into()));
    assert_eq!(outcome, Outcome::BadValue);
    assert!(why.contains("the PV has: off, on"), "{why}");
    let seen: Vec<_> = joe.pv(gap).numbers();
    assert_eq!(seen, [1.0, 2.0], "joe's never arrived");

    eventually("all are on record", || attempts(&audit).len() == 8);
    let lines = attempts(&audit);
    let first: Vec<_> = (lines.iter().take(2))
        .map(|line| (line["user"].clone(), line["result"].clone()))
        .collect();
    let expected = [("joe", "NoAccess"), ("jane", "Done")];
    assert_eq!(first, expected.map(|(user, end)| (user.into(), end.into())));
    assert_eq!(lines[0]["message"], refused.1);
}

#[test]
fn ioc_lets_its_user_write_by_pva_and_refuses_another_by_name() {
    let network = Network::new();
    let ioc = SoftIoc::with_pv_access_and_rules(network, RECORDS, ONLY_JANE);
    let gap = format!("pva://{}", ioc.name("gap"));
    let relay = Relay::start(network, &BY_NAME);
    let (mut jane, mut joe) = (client(&relay, "jane"), client(&relay, "joe"));
    joe.subscribe_live(&[&gap]);

    for value in [2.0, 3.0] {
        let (outcome, why) = put(&mut joe, &gap, number(9.0));
        assert_eq!(outcome, Outcome::NoAccess, "{why}");
        assert!(
            why.starts_with("as user \"joe\": the server refused: "),
            "{why}"
        );
        assert_eq!(put(&mut jane, &gap, number(value)).0, Outcome::Done);
        joe.wait_number(&gap, value);
    }
    let seen = joe.pv(&gap).numbers();
    assert_eq!(seen, [1.0, 2.0, 3.0], "joe's never arrived");
}

#[test]
fn anonymous_client_is_the_relay_to_the_ioc() {
    let network = Network::new();
    let ioc = SoftIoc::with_pv_access_and_rules(network, RECORDS, ONLY_JANE);
    let gap = ioc.name("gap");
    let relay = Relay::start(network, &BY_NAME[..2]);
    let mut client = Client::connect(relay.address());
    client.subscribe_live(&[&gap]);
    assert!(!client.pv(&gap).connection.unwrap().write);
    let (outcome, why) = put(&mut client, &gap, number(9.0));
    assert_eq!(outcome, Outcome::NoAccess);
    assert_eq!(why, "the IOC gives no write access");
    let (outcome, why) = put(&mut client, &format!("pva://{gap}"), number(9.0));
    assert_eq!(outcome, Outcome::NoAccess, "{why}");
    assert!(why.starts_with("the server refused: "), "{why}");
}

#[test]
fn user_writes_again_after_the_ioc_restarted_and_not_before() {
    let network = Network::new();
    let prefix = prefix();
    let ioc = SoftIoc::with_prefix(network, &prefix, RECORDS, ONLY_JANE);
    let gap = ioc.name("gap");
    let relay = Relay::start(network, &BY_NAME);
    let (mut jane, mut joe) = (client(&relay, "jane"), client(&relay, "joe"));
    jane.subscribe_live(&[&gap]);
    assert_eq!(put(&mut jane, &gap, number(2.0)).0, Outcome::Done);
    ioc.kill();
    jane.wait_state(&gap, ConnectionState::Disconnected);
    let (outcome, _) = put(&mut jane, &gap, number(3.0));
    assert_eq!(outcome, Outcome::NotConnected);

    let ioc = SoftIoc::with_prefix(network, &prefix, RECORDS, ONLY_JANE);
    jane.wait_state(&gap, ConnectionState::Connected);
    jane.wait_number(&gap, 1.0);
    assert_eq!(put(&mut jane, &gap, number(4.0)).0, Outcome::Done);
    jane.wait_number(&gap, 4.0);
    assert_eq!(put(&mut joe, &gap, number(5.0)).0, Outcome::NoAccess);
    drop(ioc);
}

#[test]
fn put_of_a_user_to_an_unknown_pv_is_given_up() {
    let network = Network::new();
    let _ioc = SoftIoc::with_prefix(network, &prefix(), RECORDS, ONLY_JANE);
    let relay = Relay::start(network, &BY_NAME);
    let nowhere = format!("{}nowhere", prefix());
    let (outcome, why) = put_within(&mut client(&relay, "jane"), &nowhere, number(1.0), 200);
    assert_eq!(outcome, Outcome::NotConnected);
    assert!(why.contains("nothing was written"), "{why}");

    let long = "j".repeat(64);
    for name in ["role/writers", &long] {
        let (outcome, why) = put(&mut client(&relay, name), &nowhere, number(1.0));
        assert_eq!(outcome, Outcome::NotConnected, "{why}");
        assert!(
            why.contains("nothing was sent: the name of the user"),
            "{why}"
        );
    }
}
