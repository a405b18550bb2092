//! Clients' messages and their answers, and messages that PVWS doesn't answer.

use serde_json::json;
use testbed::{Network, Relay, SoftIoc, handshake, handshake_at};
use tungstenite::Message;

use super::client::{Pvws, flags};

const DATABASE: &str = r#"record(ao, "$(P)ao") { field(VAL, "2.5") field(PINI, "YES") }"#;

#[test]
fn door_is_shut_unless_the_operator_opens_it() {
    let relay = Relay::start(Network::new(), &[]);
    let refused = Pvws::try_connect(relay.address(), &[]);
    assert!(refused.err().unwrap().contains("404"));
}

#[test]
fn echo_comes_back_byte_for_byte_and_ping_is_a_ping_frame() {
    // The relay doesn't ping by itself meanwhile.
    let relay = Relay::start(Network::new(), &flags(&["--ping-after-ms=600000"]));
    let mut client = Pvws::connect(&relay);
    let echo = "{ \"type\":\"echo\" ,\"body\": \"Hello, PVWS! \\u00b5 µ\", \"a\":1 , \"a\":2}";
    client.send_text(echo);
    assert_eq!(client.next_text(), echo);
    client.send_text(r#"{"type":"ping"}"#);
    assert_eq!(client.next_message(), Message::Ping(Vec::new().into()));
}

#[test]
fn what_is_no_message_is_answered_by_silence() {
    let relay = Relay::start(Network::new(), &flags(&[]));
    let mut client = Pvws::connect(&relay);
    for text in [
        "",
        "x",
        "[]",
        "{}",
        "\"x\"",
        r#"{"type":"nosuch"}"#,
        r#"{"type":"subscribe"}"#,
        r#"{"type":"clear","pvs":["never"]}"#,
        r#"{"type":"write","pv":"x"}"#,
    ] {
        client.send_text(text);
    }
    assert!(client.so_far().is_empty());
}

#[test]
fn name_of_an_unknown_type_is_answered_by_silence() {
    let relay = Relay::start(Network::new(), &flags(&[]));
    let mut client = Pvws::connect(&relay);
    client.subscribe(&["nosuch://x", "loc://", "=", " "]);
    assert!(client.so_far().is_empty());
    client.send_text(r#"{"type":"list"}"#);
    let list = r#"{"type":"list","pvs":[" ","=","loc://","nosuch://x"]}"#;
    assert_eq!(client.next_text(), list);
}

#[test]
fn name_that_is_subscribed_already_is_answered_by_silence() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, DATABASE);
    let relay = Relay::start(network, &flags(&[]));
    let mut client = Pvws::connect(&relay);
    let name = ioc.name("ao");
    client.subscribe(&[&name]);
    client.update(&name, "its value", |update| update["vtype"] == "VDouble");
    client.update(&name, "its value again", |update| update["value"] == 2.5);
    for _ in 0..10 {
        client.subscribe(&[&name, &name]);
    }
    // Its messages would come before those of a later name.
    client.subscribe(&["loc://later(1)"]);
    let seen = client.until("the later one", |update| update["pv"] == "loc://later(1)");
    assert_eq!(seen.len(), 1, "{seen:?}");
}

#[test]
fn cleared_name_is_sent_whole_when_it_is_subscribed_again() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, DATABASE);
    let relay = Relay::start(network, &flags(&[]));
    let mut client = Pvws::connect(&relay);
    let name = ioc.name("ao");
    client.subscribe(&[&name]);
    client.update(&name, "its value", |update| update["vtype"] == "VDouble");
    client.update(&name, "its value again", |update| update["value"] == 2.5);
    client.send(&json!({"type": "clear", "pvs": [name]}));
    client.subscribe(&[&name]);
    let again = client.next();
    assert_eq!(
        (&again["pv"], &again["vtype"]),
        (&json!(name), &json!("VDouble"))
    );
}

#[test]
fn each_spelling_is_a_subscription_with_its_own_name() {
    let network = Network::new();
    let mut ioc = SoftIoc::start(network, DATABASE);
    let relay = Relay::start(network, &flags(&[]));
    let bare = ioc.name("ao");
    let names = [bare.clone(), format!("ca://{bare}"), format!(" {bare}")];
    let mut client = Pvws::connect(&relay);
    client.subscribe(&names.each_ref().map(String::as_str));
    for name in &names {
        let mut other = Pvws::connect(&relay);
        other.subscribe(&[name]);
        other.update(name, "its value", |update| update["value"] == 2.5);
    }
    client.so_far();
    ioc.put("ao", "3");
    let mut seen = Vec::new();
    while seen.len() < 3 {
        let update = client.next();
        if update["value"] == 3.0 {
            seen.push(update["pv"].as_str().unwrap().to_owned());
        }
    }
    seen.sort();
    let mut expected = names.to_vec();
    expected.sort();
    assert_eq!(seen, expected);
    // Each of the two subscriptions can be ended without the other.
    client.send(&json!({"type": "clear", "pvs": [names[1]]}));
    client.so_far();
    ioc.put("ao", "4");
    client.update(&names[0], "the next value", |update| update["value"] == 4.0);
    assert_eq!(relay.metric("pvwire_monitors_active"), 1.0);
}

#[test]
fn subscription_of_a_mebibyte_is_taken() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, DATABASE);
    let relay = Relay::start(network, &flags(&[]));
    let mut client = Pvws::connect(&relay);
    let unknown = format!("nosuch://{}", "x".repeat(180));
    let mut names: Vec<_> = (0..5_000).map(|n| format!("{unknown}{n}")).collect();
    names.push(ioc.name("ao"));
    let text = json!({"type": "subscribe", "pvs": names}).to_string();
    assert!(text.len() > 900 << 10, "{}", text.len());
    client.send_text(&text);
    client.update(&names[5_000], "its value", |update| update["value"] == 2.5);
}

#[test]
fn programs_without_origin_may_connect_and_foreign_pages_may_not() {
    let relay = Relay::start(
        Network::new(),
        &flags(&["--allow-origin", "https://screens.example.org"]),
    );
    let with = |origin| Pvws::try_connect(relay.address(), &[("Origin", origin)]);
    assert!(Pvws::try_connect(relay.address(), &[]).is_ok());
    assert!(with("https://screens.example.org").is_ok());
    assert!(
        with("https://other.example.org")
            .err()
            .unwrap()
            .contains("403")
    );
    // Clients of pvwire's protocol are served at the same time.
    assert_eq!(handshake(relay.address(), &[]).status, 101);
}

#[test]
fn client_may_offer_subprotocols_and_gets_none() {
    let relay = Relay::start(Network::new(), &flags(&[]));
    for offered in ["", "pvws", "pvwire.v1", "graphql-transport-ws, graphql-ws"] {
        let headers = [("Sec-WebSocket-Protocol", offered)];
        let answer = handshake_at(relay.address(), "/pvws/pv", &headers);
        assert_eq!(answer.status, 101, "{offered}");
        assert!(!answer.head.contains("sec-websocket-protocol"), "{offered}");
    }
}
