//! Clients' messages and their answers, and messages that PVWS doesn't answer. They and formulas take CPU time of their
//! authors alone, and within the budget of these.

use std::fmt::Write as _;

use serde_json::json;
use testbed::{Network, Relay, SoftIoc, get, handshake, handshake_at};
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

const PUTS: [&str; 3] = ["--enable-put", "--allow-put", "loc://*"];

/// Number of messages that one client sends at once.
const MESSAGES: usize = 12;

/// A message that takes long to read: a list of empty lists.
fn empty_lists(bytes: usize) -> String {
    let lists = "[],".repeat(bytes / 3);
    format!("{{\"type\":\"subscribe\",\"pvs\":[{lists}[]]}}")
}

#[test]
fn long_messages_of_one_client_delay_neither_another_client_nor_probes() {
    let network = Network::new();
    let budget = ["--shards", "1", "--max-cpu-per-client-ms-per-s", "5"];
    let relay = Relay::start(network, &flags(&[&budget[..], &PUTS].concat()));
    let mut greedy = Pvws::connect(&relay);
    let lists = empty_lists(100_000);
    for number in 0..MESSAGES {
        greedy.send_text(&lists);
        greedy.send(&json!({"type": "echo", "number": number}));
    }
    let mut other = Pvws::connect(&relay);
    other.subscribe(&["loc://x(1)"]);
    for number in 2..12 {
        other.write("loc://x(1)", json!(number));
        other.update("loc://x(1)", "its value", |update| {
            update["value"] == f64::from(number)
        });
        assert_eq!(get(relay.address(), "/live", &[]).status, 200);
    }
    let done = greedy.texts_within(std::time::Duration::from_millis(200));
    assert!(
        done < MESSAGES,
        "a client whose budget is used up had {done} messages read at once"
    );
}

#[test]
fn lists_of_names_are_made_within_the_budget_of_their_client() {
    const LISTS: usize = 60;
    let relay = Relay::start(
        Network::new(),
        &flags(&["--max-cpu-per-client-ms-per-s", "2"]),
    );
    let mut greedy = Pvws::connect(&relay);
    greedy.hold_names(2_000);
    // Another thread reads a message of this length.
    let list = json!({"type": "list", "padding": "x".repeat(2_000)});
    greedy.send(&list);
    greedy.until("a list", |message| message["type"] == "list");
    for _ in 0..LISTS {
        greedy.send(&list);
    }
    let done = greedy.texts_within(std::time::Duration::from_millis(100));
    assert!(done < LISTS, "a client has all lists made at once");
}

#[test]
fn messages_of_any_length_are_answered_in_their_order() {
    let network = Network::new();
    let relay = Relay::start(network, &flags(&[]));
    let mut client = Pvws::connect(&relay);
    for number in 0..20 {
        let padding = if number % 2 == 0 {
            "x".repeat(20_000)
        } else {
            String::new()
        };
        client.send(&json!({"type": "echo", "number": number, "padding": padding}));
    }
    for number in 0..20 {
        assert_eq!(client.next()["number"], number);
    }
}

#[test]
fn formulas_of_one_client_do_not_delay_those_of_another() {
    let network = Network::new();
    let budget = ["--max-cpu-per-client-ms-per-s", "50", "--enable-sim"];
    let relay = Relay::start(network, &flags(&[&budget[..], &PUTS].concat()));
    let mut greedy = Pvws::connect(&relay);
    // Each takes long, and its input changes twenty times a second.
    let formula =
        |number: usize| format!("=arrayPow(`sim://noisewave(0,5,400000,0.05)`, {number}.5)");
    let large: Vec<String> = (0..8).map(formula).collect();
    let mut cheap = String::from("{\"type\":\"subscribe\",\"pvs\":[");
    for number in 0..2_000 {
        write!(cheap, "\"=`sim://ramp(0,10,-1,0.01)` + {number}\",").unwrap();
    }
    greedy.send_text(&(cheap + "\"loc://y(0)\"]}"));
    greedy.subscribe(&large.iter().map(String::as_str).collect::<Vec<_>>());
    greedy.update("loc://y(0)", "its value", |update| update["value"] == 0.0);
    let mut other = Pvws::connect(&relay);
    let (input, formula) = ("loc://x(1)", "=`loc://x(1)` * 2");
    other.subscribe(&[input, formula]);
    other.update(formula, "its first value", |update| update["value"] == 2.0);
    let begun = std::time::Instant::now();
    for number in 2..22 {
        other.write(input, json!(number));
        other.update(formula, "its value", |update| {
            update["value"] == f64::from(2 * number)
        });
    }
    // All evaluations of the others together take many seconds in a debug build.
    let took = begun.elapsed() / 20;
    assert!(
        took < std::time::Duration::from_secs(2),
        "{took:?} for each value"
    );
}
