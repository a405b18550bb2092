//! The messages of both subprotocols, and what the relay does with clients that break their rules. Documents take CPU
//! time of their authors alone, and within the budget of these.

use std::time::Duration;

use serde_json::{Value, json};
use testbed::{Client as NativeClient, Network, Relay, SoftIoc, eventually, get};

use super::client::{Client, LEGACY, TRANSPORT};
use super::http::ask;

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

const DATABASE: &str = r#"
record(calc, "$(P)fast") { field(SCAN, ".1 second") field(CALC, "VAL+1") }
record(ao, "$(P)ao") { field(VAL, "2.5") field(PINI, "YES") }
"#;

/// A valid document of about 49 kB whose fragments spread each other.
fn chain(number: usize) -> String {
    const FRAGMENTS: usize = 990;
    let fragments: String = (0..FRAGMENTS)
        .map(|at| match at + 1 {
            FRAGMENTS => format!("fragment A{at} on Channel{{id}} "),
            next => {
                let after = (next + 1).min(FRAGMENTS - 1);
                format!("fragment A{at} on Channel{{...A{next} ...A{next} ...A{after}}} ")
            }
        })
        .collect();
    format!("query{{getChannel(id:\"V{number}\"){{...A0}}}} {fragments}#{number}")
}

fn subscribe(id: usize, query: &str) -> Value {
    json!({"type": "subscribe", "id": id.to_string(), "payload": {"query": query}})
}

/// Number of documents that one client sends at once.
const DOCUMENTS: usize = 40;

#[test]
fn documents_of_one_client_delay_neither_another_client_nor_probes() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, DATABASE);
    let flags = [
        "--coniql",
        "--shards",
        "1",
        "--max-cpu-per-client-ms-per-s",
        "5",
    ];
    let relay = Relay::start(network, &flags);
    let [fast, ao] = ioc.names(["fast", "ao"]);
    let mut native = NativeClient::connect(relay.address());
    native.subscribe(&[&fast]);
    let mut greedy = Client::begin(&relay);
    for number in 0..DOCUMENTS {
        greedy.send(&subscribe(number, &chain(number)));
        greedy.send(&json!({"type": "ping"}));
    }
    // The same shard answers others although these documents wait.
    let mut other = Client::begin(&relay);
    for number in 0..10 {
        let id = format!("q{number}");
        let query = format!("{{ getChannel(id: \"{ao}\") {{ value {{ float }} }} }}");
        other.start(&id, &query);
        assert_eq!(other.data(&id)["getChannel"]["value"]["float"], 2.5);
        assert_eq!(other.next()["type"], "complete");
        assert_eq!(get(relay.address(), "/live", &[]).status, 200);
    }
    let so_far = native.pv(&fast).rows.len();
    native.wait_pv(&fast, "updates go on", |pv| pv.rows.len() > so_far + 3);
    let done = greedy.pongs_within(Duration::from_millis(200));
    assert!(
        done < DOCUMENTS,
        "a client whose budget is used up had {done} documents compiled at once"
    );
}

#[test]
fn short_document_that_introspects_takes_no_time_of_a_shard() {
    let relay = Relay::start(Network::new(), &["--coniql", "--shards", "1"]);
    let fields: String = (0..50).map(|n| format!("a{n}:description ")).collect();
    let query = format!("{{ __schema {{ types {{ fields {{ {fields} }} }} }} }}");
    // Messages of this length that ask for PVs are read where they arrive.
    assert!(subscribe(0, &query).to_string().len() < 1_024);
    let before = relay.thread_cpu("shard");
    for number in 0..10 {
        let mut client = Client::begin(&relay);
        client.send(&subscribe(number, &query));
        assert!(client.data(&number.to_string())["__schema"].is_object());
    }
    let (shard, compute) = (
        relay.thread_cpu("shard") - before,
        relay.thread_cpu("compute"),
    );
    assert!(shard < compute, "{shard:?} {compute:?}");
}

#[test]
fn introspection_beyond_half_a_megabyte_is_refused() {
    let relay = Relay::start(Network::new(), &["--coniql"]);
    let fields: String = (0..3_000).map(|n| format!("a{n}:description ")).collect();
    let query = format!("{{ __schema {{ types {{ fields {{ {fields} }} }} }} }}");
    let mut client = Client::begin(&relay);
    client.send(&subscribe(1, &query));
    let answer = client.next();
    let why = answer["payload"][0]["message"].as_str().unwrap_or_default();
    assert!(why.contains("introspection has more than"), "{answer}");
}

#[test]
fn long_documents_are_answered_in_their_order() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, DATABASE);
    let relay = Relay::start(network, &["--coniql"]);
    let [ao] = ioc.names(["ao"]);
    let mut client = Client::begin(&relay);
    let padding = " ".repeat(20_000);
    for number in 0..20 {
        // Every second one is short enough to be read at once.
        let padding = if number % 2 == 0 { &*padding } else { "" };
        let query = format!("subscription {{ subscribeChannel(id: \"{ao}\") {{ id }} }}{padding}");
        client.send(&subscribe(number, &query));
        client.send(&json!({"type": "complete", "id": number.to_string()}));
        client.send(&json!({"type": "ping", "payload": number}));
    }
    let mut pongs = Vec::new();
    while pongs.len() < 20 {
        let message = client.next();
        if message["type"] == "pong" {
            pongs.push(message["payload"].as_u64().unwrap());
        }
    }
    assert!(pongs.is_sorted(), "{pongs:?}");
}

#[test]
fn request_of_an_address_that_used_its_cpu_time_is_refused_and_says_the_limit() {
    let network = Network::new();
    let flags = [
        "--coniql",
        "--trusted-proxy",
        "127.0.0.1",
        "--max-cpu-per-address-ms-per-s",
        "1",
    ];
    let relay = Relay::start(network, &flags);
    let post = |address: &str, query: &str| {
        let body = json!({"query": query}).to_string();
        let headers = format!("X-Forwarded-For: {address}\r\n");
        ask(&relay, "POST", "/graphql", &headers, &body)
    };
    // The document is wrong, so that it reads no PV.
    let document = |number| chain(number).replace("Channel{id}", "Channel{nosuch}");
    let mut answers = (0..200).map(|number| post("192.0.2.7", &document(number)));
    let (status, _, body) = answers
        .find(|(status, ..)| *status != 200)
        .expect("a refusal");
    assert_eq!(status, 429, "{body}");
    assert!(body.contains("max_cpu_per_address_ms_per_s"), "{body}");
    let (status, _, body) = post("192.0.2.8", "{ __typename }");
    assert_eq!(status, 200, "{body}");
}
