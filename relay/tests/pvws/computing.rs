//! Messages and formulas take CPU time of their authors alone, and within the budget of these.

use std::fmt::Write as _;

use serde_json::json;
use testbed::{Network, Relay, get};

use super::client::{Pvws, flags};

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
