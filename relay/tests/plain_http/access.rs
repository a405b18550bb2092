//! Identities, origins, rules and limits of requests by plain HTTP.

use testbed::{Client, Network, Relay, SoftIoc, eventually, file, prefix};

use super::client::{PATIENT, get, patient, request};
use crate::issuer::{Issuer, claims, flags, key_set};

const DATABASE: &str = r#"
record(ao, "$(P)ao") { field(VAL, "1") field(PINI, "YES") }
record(ao, "$(P)secret") { field(VAL, "1") field(PINI, "YES") }
"#;

#[test]
fn requests_follow_rules_identities_and_origins() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, DATABASE);
    let [ao, secret] = ioc.names(["ao", "secret"]);
    let rules = file(
        &format!("{}.toml", prefix().trim_end_matches(':')),
        &format!("[[rule]]\nuser = \"john\"\npv = \"{secret}\"\ndeny = \"read\"\n"),
    );
    let relay = Relay::start(
        network,
        &[
            PATIENT,
            "--auth=trusted-header",
            "--trusted-proxy=127.0.0.1",
            "--allow-origin=https://screens.example.org",
            "--config",
            rules.to_str().unwrap(),
        ],
    );
    let ask = |method: &str, name: &str, headers: &[(&str, &str)]| {
        request(relay.address(), method, &patient(name), headers, "")
    };
    let [john, jane] = ["john", "jane"].map(|user| ("X-Forwarded-User", user));
    assert_eq!(ask("GET", &secret, &[]).status, 401);
    for path in [secret.clone(), format!("{secret}/stream")] {
        let refused = ask("GET", &path, &[john]);
        assert_eq!(refused.status, 403, "{}", refused.json);
        let why = refused.json["error"].as_str().unwrap();
        assert!(why.contains("may not read this PV"), "{why}");
    }
    assert_eq!(relay.metric("pvwire_monitors_active"), 0.0, "not searched");
    assert_eq!(ask("GET", &secret, &[jane]).status, 200);
    assert_eq!(ask("GET", &ao, &[john]).status, 200);

    let page = ("Origin", "https://screens.example.org");
    let foreign = ("Origin", "https://elsewhere.example.org");
    let allowed = "access-control-allow-origin: https://screens.example.org";
    for (method, name) in [("GET", &ao), ("OPTIONS", &ao)] {
        let answer = ask(method, name, &[page, jane]);
        assert!((200..300).contains(&answer.status), "{}", answer.head);
        assert!(answer.head.contains(allowed), "{}", answer.head);
        let refused = ask(method, name, &[foreign, jane]);
        assert_eq!(refused.status, 403);
        assert!(!refused.head.contains("access-control"), "{}", refused.head);
    }
    // A page learns why it was refused.
    assert!(ask("GET", &secret, &[page, john]).head.contains(allowed));
}

#[test]
fn bearer_token_is_the_identity_of_a_request() {
    let issuer = Issuer::es256("one");
    let keys = file("keys_plain_http.json", &key_set(&[&issuer]));
    let network = Network::new();
    let ioc = SoftIoc::start(network, DATABASE);
    let all = flags(keys.to_str().unwrap());
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let relay = Relay::start(network, &all);
    let path = patient(&ioc.name("ao"));
    let ask = |token: Option<&str>| {
        let header = token.map(|token| format!("Bearer {token}"));
        let headers: Vec<_> = (header.iter())
            .map(|header| ("Authorization", header.as_str()))
            .collect();
        request(relay.address(), "GET", &path, &headers, "")
    };
    let without = ask(None);
    assert_eq!(without.status, 401, "{}", without.json);
    assert!(
        without.head.contains("www-authenticate: bearer"),
        "{}",
        without.head
    );
    let bad = ask(Some("x"));
    assert_eq!(bad.status, 401, "{}", bad.json);
    assert!(
        bad.json["error"]
            .as_str()
            .unwrap()
            .contains("not a JSON Web Token"),
        "{}",
        bad.json
    );
    let good = ask(Some(&issuer.token(&claims("jane"))));
    assert_eq!(good.status, 200, "{}", good.json);
}

#[test]
fn requests_count_as_clients() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, DATABASE);
    let ao = ioc.name("ao");
    let relay = Relay::start(network, &["--max-clients", "1"]);
    let client = Client::connect(relay.address());
    let refused = get(&relay, &ao);
    assert_eq!(refused.status, 503, "{}", refused.json);
    assert!(
        refused.json["error"].as_str().unwrap().contains("full"),
        "{}",
        refused.json
    );
    drop(client);
    eventually("the other client is gone", || {
        get(&relay, &ao).status == 200
    });
    // One that has its answer is gone as well.
    eventually("the next request is answered", || {
        get(&relay, &ao).status == 200
    });

    let flags = ["--max-memory-per-client-mib=1", "--linger-ms=100"];
    let small = Relay::start(network, &flags);
    let large = get(&small, "sim:%2F%2Fwaveform(size=100000)");
    assert_eq!(large.status, 503, "{}", large.head);
    let why = large.json["error"].as_str().unwrap();
    assert!(why.contains("max_memory_per_client_mib"), "{why}");
    eventually("nothing stays charged", || {
        small.metric("pvwire_memory_charged_bytes") == 0.0
    });
}
