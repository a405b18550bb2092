//! The past at an edge: of PVs that another relay holds, the edge's clients get what that one has kept.
//!
//! Topology: one NATS server, relays that hold PVs and edges, a soft IOC with counters at 10 Hz, clients of the edges.

use std::fmt::Write;
use std::time::Duration;

use pvwire_schema::types::{ConnectionState, Outcome};
use serde_json::{Value, json};

use super::relay;
use crate::history::{Past, ask, ask_all, by_http, rows_by_http, samples};
use testbed::{Client, Kept, NatsServer, Network, Relay, SoftIoc, eventually, file, keep_up};

const COUNTS: usize = 8;

fn counters(network: Network) -> (SoftIoc, Vec<String>) {
    let mut database = String::new();
    for number in 0..COUNTS {
        let record = format!(r#"record(calc, "$(P)n{number}") {{ field(CALC, "VAL+1") "#);
        writeln!(database, r#"{record} field(SCAN, ".1 second") }}"#).unwrap();
    }
    let ioc = SoftIoc::start(network, &database);
    let names = (0..COUNTS).map(|number| ioc.name(&format!("n{number}")));
    let names = names.collect();
    (ioc, names)
}

/// A relay that holds the PVs, with a past of some seconds.
fn owner(network: Network, nats: &NatsServer, names: &[String]) -> Relay {
    let history = names.iter().map(|name| format!("--history={name}=1h"));
    let history: Vec<_> = history.collect();
    let flags: Vec<_> = history.iter().map(String::as_str).collect();
    let owner = relay(network, nats, "ingest", &flags);
    eventually("a past", || samples(&owner) >= 30.0 * names.len() as f64);
    owner
}

/// The past of a PV, once the edge's updates have numbers.
fn past(client: &mut Client, question: &Value) -> Past {
    loop {
        let past = ask(client, question).unwrap();
        if past.number("sequence").is_some() && !past.rows.is_empty() {
            return past;
        }
    }
}

fn kept_since(past: &Past) -> i64 {
    let since = past.heads[0]["kept_since_ns"].as_str();
    since.unwrap().parse().unwrap()
}

/// Live updates go on where a past of a counter ends.
fn joins(client: &mut Client, name: &str, past: &Past) {
    let sequence = past.number("sequence").unwrap();
    client.wait_pv(name, "a later update", |pv| pv.sequence > sequence);
    let rows = &client.pv(name).rows;
    let later = rows.iter().find(|row| row.sequence > sequence).unwrap();
    let last = past.rows.last().unwrap();
    let ahead = f64::from(later.sequence - sequence);
    assert_eq!(later.value, Kept::Number(last.1 + ahead), "{past:?}");
    if let Some(same) = rows.iter().find(|row| row.sequence == sequence) {
        assert_eq!(same.time_ns, last.0, "to the nanosecond");
    }
}

fn has_each_number(past: &Past) -> bool {
    let mut steps = past.rows.windows(2).map(|pair| pair[1].1 - pair[0].1);
    steps.all(|step| step == 1.0)
}

#[test]
fn edge_gives_what_the_owner_has_kept_and_it_joins_live_updates_without_gap_or_repeat() {
    let (network, nats) = (Network::new(), NatsServer::start());
    let (_ioc, names) = counters(network);
    let owner = owner(network, &nats, &names);
    let mut of_owner = Client::connect(owner.address());
    let edge = relay(network, &nats, "edge", &[]);
    // Without a client of the PV the edge knows nothing of it.
    eventually("the past of a PV that no client has", || {
        by_http(&edge, &names[0], "points=all").status == 200
    });
    let mut client = Client::connect(edge.address());
    client.subscribe_live(&names);
    for _ in 0..12 {
        for whole in [json!({}), json!({ "from": "-2s" })] {
            let questions: Vec<_> = (names.iter())
                .map(|name| {
                    let mut question = whole.clone();
                    question["pv"] = json!(name);
                    question
                })
                .collect();
            past(&mut client, &questions[0]);
            let pasts = ask_all(&mut client, &questions).unwrap();
            for (name, past) in names.iter().zip(&pasts) {
                assert!(has_each_number(past), "{past:?}");
                assert!(past.heads[0]["incomplete"].is_null(), "{past:?}");
                joins(&mut client, name, past);
            }
        }
    }
    let all = past(&mut client, &json!({ "pv": names[1] }));
    let there = ask(&mut of_owner, &json!({ "pv": names[1] })).unwrap();
    assert_eq!(kept_since(&all), kept_since(&there));
    assert_eq!(all.rows[..30], there.rows[..30]);
    let thinned = past(&mut client, &json!({ "pv": names[1], "points": 8 }));
    assert!(thinned.rows.len() <= 8, "{thinned:?}");
    assert_eq!(thinned.rows[0], there.rows[0]);
    joins(&mut client, &names[1], &thinned);
    let bins = thinned
        .heads
        .iter()
        .filter_map(|head| head["bins"].as_array());
    let updates = bins.flatten().map(|bin| bin[1].as_u64().unwrap());
    let last = thinned.rows.last().unwrap().1;
    assert_eq!(updates.sum::<u64>() as f64, last - there.rows[0].1 + 1.0);
    // What the edge itself has missed is there.
    nats.hang();
    client.wait_pv(&names[0], "unresponsive", |pv| {
        (pv.connection).is_some_and(|connection| connection.heard_ns != 0)
    });
    nats.resume();
    for name in &names {
        client.wait_state(name, ConnectionState::Connected);
        let whole = past(&mut client, &json!({ "pv": name }));
        assert!(has_each_number(&whole), "{whole:?}");
        joins(&mut client, name, &whole);
    }
}

#[test]
fn new_owner_gives_what_it_has_and_says_since_when() {
    let (network, nats) = (Network::new(), NatsServer::start());
    let (_ioc, names) = counters(network);
    let owner = owner(network, &nats, &names);
    let name = names[0].as_str();
    let old = relay(network, &nats, "edge", &[]);
    let mut client = Client::connect(old.address());
    client.subscribe_live(&[name]);
    let before = past(&mut client, &json!({ "pv": name }));
    client.wait_pv(name, "a past of the edge's own", |pv| pv.rows.len() >= 10);
    let own_begin = client.pv(name).rows[0].time_ns;
    owner.signal("KILL");
    client.wait_state(name, ConnectionState::Disconnected);
    let lost_ns = client.pv(name).rows.last().unwrap().time_ns;

    let alone = past(&mut client, &json!({ "pv": name }));
    let why = alone.heads[0]["incomplete"].as_str().expect("a reason");
    assert!(why.contains("holds the PV"), "{why}");
    assert!(kept_since(&alone) <= own_begin, "{alone:?}");

    let _next = relay(network, &nats, "ingest", &[]);
    client.wait_state(name, ConnectionState::Connected);
    let edge = relay(network, &nats, "edge", &[]);
    let mut other = Client::connect(edge.address());
    other.subscribe_live(&[name]);
    // This edge has seen less than the new owner, which has seen less than the old edge.
    let of_next = past(&mut other, &json!({ "pv": name }));
    assert!(kept_since(&of_next) > lost_ns, "{of_next:?}");
    joins(&mut other, name, &of_next);
    let of_old = past(&mut client, &json!({ "pv": name }));
    assert!(kept_since(&before) <= kept_since(&of_old));
    assert!(kept_since(&of_old) <= own_begin, "{of_old:?}");
    let gaps = of_old.heads[0]["gaps"].as_array().unwrap();
    let is_lost = |gap: &Value| gap["cause"] == "disconnected" && gap["to_ns"].is_string();
    assert!(gaps.iter().any(is_lost), "{gaps:?}");
    joins(&mut client, name, &of_old);
}

#[test]
fn past_joins_live_updates_after_pvs_have_moved_to_a_relay_that_showed_them_before() {
    let (network, nats) = (Network::new(), NatsServer::start());
    let (_ioc, names) = counters(network);
    let mut first = relay(network, &nats, "both", &[]);
    let second = relay(network, &nats, "both", &[]);
    let edge = relay(network, &nats, "edge", &[]);
    let mut clients = [&second, &edge].map(|relay| {
        let mut client = Client::connect(relay.address());
        client.subscribe_live(&names);
        client
    });
    let owned = |relay: &Relay| relay.metric("pvwire_fleet_pvs_owned");
    eventually("all PVs are held", || {
        owned(&first) + owned(&second) == COUNTS as f64
    });
    let check = |clients: &mut [Client; 2]| {
        for client in clients {
            for name in &names {
                let past = past(client, &json!({ "pv": name }));
                assert!(has_each_number(&past), "{past:?}");
                joins(client, name, &past);
            }
        }
    };
    check(&mut clients);
    first.signal("TERM");
    let [a, b] = &mut clients;
    keep_up("it ends", &mut [a, b], |_| !first.runs());
    assert!(first.wait_end(Duration::ZERO).success());
    eventually("the other one holds all", || {
        owned(&second) == COUNTS as f64
    });
    check(&mut clients);
    check(&mut clients);
}

#[test]
fn past_of_another_relays_pv_is_read_only_by_clients_that_may_read_it_here() {
    let (network, nats) = (Network::new(), NatsServer::start());
    let (_ioc, names) = counters(network);
    let [open, secret] = [&names[0], &names[1]];
    let _owner = owner(network, &nats, &names);
    let rules = format!("[[rule]]\npv = \"{secret}\"\ndeny = \"read\"\n");
    let rules = file("past-at-an-edge.toml", &rules);
    let edge = relay(
        network,
        &nats,
        "edge",
        &["--config", rules.to_str().unwrap()],
    );
    let mut client = Client::connect(edge.address());
    eventually("the past of the other one", || {
        let past = ask(&mut client, &json!({ "pv": open })).unwrap();
        past.rows.len() >= 30
    });
    let (outcome, why) = ask(&mut client, &json!({ "pv": secret })).unwrap_err();
    assert_eq!(outcome, Outcome::NotAllowed);
    assert!(why.contains("rule 1"), "{why}");
    assert_eq!(by_http(&edge, secret, "points=all").status, 403);
}

#[test]
fn edge_whose_owner_does_not_answer_gives_what_it_has_and_says_so() {
    let (network, nats) = (Network::new(), NatsServer::start());
    let (_ioc, names) = counters(network);
    let owner = owner(network, &nats, &names);
    let name = names[0].as_str();
    let edge = relay(network, &nats, "edge", &[]);
    let mut client = Client::connect(edge.address());
    client.subscribe_live(&[name]);
    past(&mut client, &json!({ "pv": name }));
    client.wait_pv(name, "updates", |pv| pv.rows.len() >= 10);
    let own = client.pv(name).rows[0].time_ns;
    for question in [json!({ "pv": name }), json!({ "pv": name, "points": 100 })] {
        owner.signal("STOP");
        let past = ask(&mut client, &question).unwrap();
        owner.signal("CONT");
        let why = past.heads[0]["incomplete"].as_str();
        let why = why.expect("the reason");
        assert!(why.contains("did not answer in time"), "{why}");
        assert_eq!((past.rows[0].0, kept_since(&past)), (own, own), "{past:?}");
        assert!(past.number("sequence").is_some(), "{past:?}");
        client.wait_state(name, ConnectionState::Connected);
        eventually("the owner's past again", || {
            let whole = ask(&mut client, &json!({ "pv": name })).unwrap();
            whole.heads[0]["incomplete"].is_null() && kept_since(&whole) < own
        });
    }
    assert!(rows_by_http(&edge, name, "points=all").len() > 30);
    owner.signal("KILL");
    let text = by_http(&edge, name, "points=all").body;
    assert!(
        text.contains(r#","incomplete":"the relay that holds the PV "#),
        "{text}"
    );
}

#[test]
fn long_past_of_another_relays_pv_comes_whole_in_pages() {
    let (network, nats) = (Network::new(), NatsServer::start());
    let name = "sim://counter(1000)";
    let history = format!("--history={name}=1h");
    let owner = relay(network, &nats, "ingest", &["--enable-sim", &history]);
    eventually("a long past", || samples(&owner) >= 12_000.0);
    let edge = relay(network, &nats, "edge", &["--enable-sim"]);
    let mut client = Client::connect(edge.address());
    client.subscribe_live(&[name]);
    let whole = past(&mut client, &json!({ "pv": name }));
    assert!(whole.rows.len() >= 12_000 && whole.heads.len() > 3);
    assert!(has_each_number(&whole));
    joins(&mut client, name, &whole);
    let thinned = past(&mut client, &json!({ "pv": name, "points": 1_000 }));
    assert!(thinned.rows.len() <= 1_000 && thinned.rows[0] == whole.rows[0]);
    joins(&mut client, name, &thinned);
}
