//! The messages of both subprotocols, and what the relay does with clients that break their rules.

use serde_json::json;
use testbed::{Network, Relay, eventually};

use super::client::{Client, LEGACY, TRANSPORT};

const SINE: &str = "subscription { subscribeChannel(id: \"ssim://sine\") { id value { string } } }";

fn relay() -> Relay {
    Relay::start(Network::new(), &["--coniql"])
}

#[test]
fn client_that_breaks_the_protocol_gets_its_close_code() {
    let relay = relay();
    assert_eq!(Client::connect(&relay, None).closed().0, 4406);
    let cases = [
        ("x", 4400),
        (r#"{"type":"nosuch"}"#, 4400),
        (
            r#"{"type":"subscribe","id":"1","payload":{"query":"{ a }"}}"#,
            4401,
        ),
    ];
    for (text, code) in cases {
        let mut client = Client::connect(&relay, Some(TRANSPORT));
        client.send_text(text);
        assert_eq!(client.closed().0, code, "{text}");
    }
    let mut client = Client::begin(&relay);
    client.send(&json!({"type": "connection_init"}));
    assert_eq!(client.closed().0, 4429);
    let mut client = Client::begin(&relay);
    client.start("1", SINE);
    client.start("1", SINE);
    let reason = "Subscriber for 1 already exists".to_owned();
    assert_eq!(client.closed(), (4409, reason));
    eventually("all of them are gone", || {
        relay.metric("pvwire_sessions_active") == 0.0
    });
}

#[test]
fn queries_and_subscriptions_share_a_socket() {
    let relay = relay();
    let mut client = Client::begin(&relay);
    client.send(&json!({"type": "ping", "payload": {"a": 1}}));
    assert_eq!(client.next(), json!({"type": "pong", "payload": {"a": 1}}));
    client.start(
        "q",
        "{ getChannel(id: \"ssim://rampwave(3,1000)\") { value { stringArray } } }",
    );
    let values = json!(["0.00000", "1.00000", "2.00000"]);
    assert_eq!(
        client.data("q"),
        json!({"getChannel": {"value": {"stringArray": values}}})
    );
    assert_eq!(client.next(), json!({"id": "q", "type": "complete"}));
    // Two operations on the same PV, each with its own first result.
    let steady =
        "subscription { subscribeChannel(id: \"ssim://sine(-5,5,10,1000)\") { value { float } } }";
    for id in ["a", "b"] {
        client.start(id, steady);
        assert_eq!(
            client.data(id),
            json!({"subscribeChannel": {"value": {"float": 0}}})
        );
    }
    client.complete("a");
    client.start("a", steady);
    client.data("a");
    client.start("wrong", "{ nosuch }");
    let refused = client.next();
    assert_eq!(
        (&refused["id"], &refused["type"]),
        (&json!("wrong"), &json!("error"))
    );
    let why = refused["payload"][0]["message"].as_str().unwrap();
    assert!(why.contains("nosuch"), "{why}");
    client.start(
        "gone",
        "subscription { subscribeChannel(id: \"nosuch://X\") { id } }",
    );
    let refused = client.next();
    assert_eq!(
        (&refused["id"], &refused["type"]),
        (&json!("gone"), &json!("error"))
    );
}

#[test]
fn legacy_client_gets_data_and_is_kept_alive() {
    let relay = relay();
    let mut client = Client::connect(&relay, Some(LEGACY));
    client.send(&json!({"type": "connection_init", "payload": {}}));
    assert_eq!(client.next(), json!({"type": "connection_ack"}));
    assert_eq!(client.next(), json!({"type": "ka"}));
    let steady =
        "subscription { subscribeChannel(id: \"ssim://sine(-5,5,10,1000)\") { value { float } } }";
    client.send(&json!({"type": "start", "id": "1", "payload": {"query": steady}}));
    let mut seen = Vec::new();
    while seen.len() < 2 {
        let message = client.next();
        if !seen.contains(&message) {
            seen.push(message);
        }
    }
    let data = json!({"subscribeChannel": {"value": {"float": 0}}});
    let result = json!({"id": "1", "type": "data", "payload": {"data": data}});
    assert!(seen.contains(&result), "{seen:?}");
    assert!(seen.contains(&json!({"type": "ka"})), "{seen:?}");
    client.send(&json!({"type": "stop", "id": "1"}));
    client.send(&json!({"type": "connection_terminate"}));
    assert_eq!(client.closed().0, 1000);
}
