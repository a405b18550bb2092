//! A program on the bus that is no relay and speaks for relays and for users.
//!
//! Topology: one NATS server, one ingest relay and one edge, a soft IOC, a client of the edge, a stranger.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{RECORDS, relay, wait_for_truth};
use crate::users::put;
use pvwire_schema::encode;
use pvwire_schema::types::{ConnectionState, Outcome, PutRequest, PutValue, Request, RequestBody};
use testbed::{
    Client, DEADLINE, NatsClient, NatsServer, Network, Relay, SoftIoc, eventually, file, get,
    prefix, relay_command,
};

const KEY: &str = "vJ3m0rYk6cP8hWn2tQ5xZs1bLf4dGa7eUiOoRyTwE9M=\n";
const NEXT_KEY: &str = "Qm9XbHd2R3pKc0Y0aFRnTnB1U2tEeElqVmVBckZ5Q3o=\n";

const MEMBERS: &str = "pvwire.default.members";

const PUTS: [&str; 2] = ["--enable-put", "--allow-put=*"];

/// A file with a key of the relays.
fn key_file() -> PathBuf {
    let name = format!("{}bus.key", prefix().replace(':', "-"));
    file(&name, KEY)
}

/// What a relay announces.
fn presence(stranger: &mut NatsClient, relay: &Relay) -> Value {
    loop {
        let message = stranger.hear();
        if message.subject != MEMBERS {
            continue;
        }
        let presence: Value = serde_json::from_slice(&message.body).unwrap();
        if presence["id"] == id_of(relay) {
            return presence;
        }
    }
}

fn status(relay: &Relay) -> Value {
    serde_json::from_str(&get(relay.address(), "/status", &[]).body).unwrap()
}

/// The relay's id in the fleet.
fn id_of(relay: &Relay) -> String {
    let status = status(relay);
    let fleet = status["fleet"].as_array().unwrap();
    let this = fleet.iter().find(|each| each["thisRelay"] == true);
    this.map_or_else(String::new, |this| this["id"].as_str().unwrap().to_owned())
}

fn refused(relay: &Relay, why: &str) -> f64 {
    relay.metric(&format!("pvwire_bus_refused_total{{reason=\"{why}\"}}"))
}

/// A put as a relay asks another for it, for a user.
fn operation(name: &str, number: f64) -> Vec<u8> {
    operation_from(name, number, "10.0.0.1:5")
}

fn operation_from(name: &str, number: f64, address: &str) -> Vec<u8> {
    let head = json!({"user": "jane", "groups": ["operators"], "address": address, "origin": ""});
    let head = serde_json::to_vec(&head).unwrap();
    let body = RequestBody::Put(PutRequest {
        name: name.to_owned(),
        value: PutValue::Number(number),
        wait: false,
        timeout_ms: 5_000,
        expected: None,
    });
    let length = (head.len() as u32).to_le_bytes();
    let request = encode::request(&Request { id: 0, body });
    [&length[..], &head, &request].concat()
}

fn ask(of: &str, kind: &str, from: &str) -> String {
    format!("pvwire.default.{of}.ask.{kind}.{from}")
}

/// A fleet whose PVs a client shows.
struct Fleet {
    nats: NatsServer,
    ioc: SoftIoc,
    owner: Relay,
    edge: Relay,
    names: [String; 6],
    client: Client,
    stranger: NatsClient,
}

impl Fleet {
    fn start(flags: &[&str]) -> Self {
        let (network, nats) = (Network::new(), NatsServer::start());
        let ioc = SoftIoc::start(network, RECORDS);
        let flags = [&PUTS[..], flags].concat();
        let [owner, edge] = ["ingest", "edge"].map(|role| relay(network, &nats, role, &flags));
        let names = ioc.names(super::NAMES);
        let mut client = Client::connect(edge.address());
        assert_eq!(client.subscribe(&names), []);
        wait_for_truth(&mut client, &names);
        let stranger = NatsClient::at(&nats);
        Self {
            nats,
            ioc,
            owner,
            edge,
            names,
            client,
            stranger,
        }
    }

    fn counts_on(&mut self) {
        let name = &self.names[5];
        let before = self.client.pv(name).numbers().len();
        self.client
            .wait_pv(name, "further values", |pv| pv.numbers().len() > before + 5);
    }
}

#[test]
fn owner_that_hears_itself_say_what_it_did_not_says_so_and_goes_on_under_another_id() {
    let mut fleet = Fleet::start(&[]);
    fleet.stranger.subscribe(MEMBERS);
    let before = id_of(&fleet.owner);
    let mut forged = presence(&mut fleet.stranger, &fleet.owner);
    forged["uptime_millis"] = json!(u64::MAX);
    forged["draining"] = json!(true);
    let forged = serde_json::to_vec(&forged).unwrap();
    fleet.stranger.send(MEMBERS, "", &forged);
    fleet
        .owner
        .says("another program on the bus announces itself as this relay");
    eventually("it has another id", || {
        let now = id_of(&fleet.owner);
        !now.is_empty() && now != before
    });
    assert!(refused(&fleet.edge, "uptime") >= 1.0, "uptimes can't jump");
    wait_for_truth(&mut fleet.client, &fleet.names);
    fleet.counts_on();
    // It goes on: then the relay keeps its id, and counts.
    let now = id_of(&fleet.owner);
    let mut again: Value = serde_json::from_slice(&forged).unwrap();
    again["id"] = json!(now);
    let again = serde_json::to_vec(&again).unwrap();
    for _ in 0..20_000 {
        fleet.stranger.send(MEMBERS, "", &again);
    }
    // The client of NATS drops some of them.
    eventually("they are counted", || {
        refused(&fleet.owner, "own_id") + refused(&fleet.owner, "budget") >= 1_000.0
    });
    assert_eq!(id_of(&fleet.owner), now);
    fleet.counts_on();
    let lines = fleet.owner.output().lines().count();
    assert!(lines < 100, "{lines} lines of log");
    drop(fleet.nats);
}

#[test]
fn stranger_speaks_neither_for_a_relay_nor_for_a_user_where_messages_are_signed() {
    let key = key_file();
    let flag = format!("--bus-key={}", key.display());
    let mut fleet = Fleet::start(&[&flag]);
    fleet.stranger.subscribe("pvwire.default.>");
    let mut forged = presence(&mut fleet.stranger, &fleet.owner);
    let (owner, edge) = (id_of(&fleet.owner), id_of(&fleet.edge));
    // A put of a client, as it passes over the bus.
    let ao = fleet.names[0].clone();
    assert_eq!(
        put(&mut fleet.client, &ao, PutValue::Number(2.0)).0,
        Outcome::Done
    );
    let subject = ask(&owner, "operation", &edge);
    let recorded = loop {
        let message = fleet.stranger.hear();
        if message.subject == subject {
            break message;
        }
    };
    assert!(recorded.headers.contains("Pvwire-Seal: "), "{recorded:?}");
    assert_eq!(
        put(&mut fleet.client, &ao, PutValue::Number(3.0)).0,
        Outcome::Done
    );

    forged["draining"] = json!(true);
    fleet
        .stranger
        .send(MEMBERS, "", &serde_json::to_vec(&forged).unwrap());
    fleet
        .stranger
        .send(&subject, "stranger", &operation(&ao, 9.0));
    fleet.stranger.repeat(&recorded);
    let mut changed = recorded.clone();
    changed.body = operation(&ao, 9.0);
    fleet.stranger.repeat(&changed);
    let interest =
        json!({"add": (0..20_000).map(|at| format!("ca://no:{at}")).collect::<Vec<_>>()});
    let interest = serde_json::to_vec(&interest).unwrap();
    let subject = ask(&owner, "interest", "00000000000000aa");
    fleet.stranger.send(&subject, "stranger", &interest);
    eventually("all are refused", || {
        ["unsigned", "repeated", "signature"].map(|why| refused(&fleet.owner, why))
            == [3.0, 1.0, 1.0]
    });
    assert_eq!(refused(&fleet.owner, "own_id"), 0.0);
    assert_eq!(id_of(&fleet.owner), owner);
    fleet.client.wait_number(&ao, 3.0);
    fleet.counts_on();
    let seen = fleet.client.pv(&ao).numbers();
    assert!(!seen.contains(&9.0) && seen.ends_with(&[3.0]), "{seen:?}");
    assert_eq!(fleet.client.pv(&fleet.names[5]).skipped, 0);
    let pvs = status(&fleet.owner)["pvs"].as_array().map_or(0, Vec::len);
    assert!(pvs < 100, "{pvs} PVs");
    assert!(!fleet.owner.output().contains("bus_key is not set"));
    drop(fleet.ioc);
}

#[test]
fn key_of_the_bus_changes_while_the_relays_run() {
    let keys = [key_file(), key_file()];
    let (network, nats) = (Network::new(), NatsServer::start());
    let ioc = SoftIoc::start(network, RECORDS);
    let flags = keys
        .each_ref()
        .map(|key| format!("--bus-key={}", key.display()));
    let owner = relay(network, &nats, "ingest", &[&flags[0]]);
    let edge = relay(network, &nats, "edge", &[&flags[1]]);
    let names = ioc.names(super::NAMES);
    let mut client = Client::connect(edge.address());
    assert_eq!(client.subscribe(&names), []);
    wait_for_truth(&mut client, &names);
    let write = |which: usize, text: &str, relay: &Relay| {
        let before = relay.output().matches("new keys are in effect").count();
        std::fs::write(&keys[which], text).unwrap();
        eventually("they are in effect", || {
            relay.output().matches("new keys are in effect").count() > before
        });
    };
    // Each relay accepts the next key before any signs with it.
    for text in [
        format!("{KEY}{NEXT_KEY}"),
        format!("{NEXT_KEY}{KEY}"),
        NEXT_KEY.to_owned(),
    ] {
        write(0, &text, &owner);
        write(1, &text, &edge);
        let before = client.pv(&names[5]).numbers().len();
        client.wait_pv(&names[5], "further values", |pv| {
            pv.numbers().len() > before + 10
        });
    }
    for name in &names {
        client.wait_state(name, ConnectionState::Connected);
    }
    assert_eq!(client.pv(&names[5]).skipped, 0);
    for relay in [&owner, &edge] {
        for why in ["unsigned", "signature", "clock", "repeated", "stranger"] {
            assert_eq!(refused(relay, why), 0.0, "{why}");
        }
    }
    // A damaged file changes nothing.
    std::fs::write(&keys[0], "short\n").unwrap();
    owner.says("the previous keys stay in effect");
    wait_for_truth(&mut client, &names);
}

#[test]
fn relay_with_a_weak_or_missing_key_does_not_start() {
    let folder = std::env::temp_dir();
    let weak = file("weak.key", "secret\n");
    for (path, says) in [
        (weak.display().to_string(), "at least 32 random bytes"),
        (folder.display().to_string(), "not a regular file"),
        ("/nowhere".to_owned(), "No such file"),
    ] {
        let mut command = relay_command(Network::new());
        let key = format!("--bus-key={path}");
        let ended = command.args(["--listen=127.0.0.1:0", "--bus=nats://127.0.0.1:1", &key]);
        let ended = ended.output().unwrap();
        let said = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(64), "{said}");
        assert!(said.contains(says) && said.contains("bus_key"), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

#[test]
fn credentials_replaced_by_a_pipe_hold_up_neither_the_bus_nor_the_end_of_the_relay() {
    let users = r#"authorization { users: [ { user: relay, password: "s3cret" } ] }"#;
    let mut nats = NatsServer::with_config(users);
    let name = format!("{}relay.nats", prefix().replace(':', "-"));
    let credentials = file(&name, "relay:s3cret");
    let flag = format!("--bus-credentials={}", credentials.display());
    let mut relay = relay(Network::new(), &nats, "both", &[&flag]);
    relay.wait_metric("pvwire_bus_connected", 1.0);
    let [pipe, whole] = ["fifo", "whole"].map(|end| credentials.with_extension(end));
    let replaces = |by: &Path, before: &Path| {
        std::fs::rename(&credentials, before).unwrap();
        std::fs::rename(by, &credentials).unwrap();
    };
    let made = Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let said = |relay: &Relay| relay.output().matches("not a regular file").count();
    // It reads them for each connection.
    replaces(&pipe, &whole);
    nats.restart();
    eventually("it says so", || said(&relay) == 1);
    replaces(&whole, &pipe);
    relay.wait_metric("pvwire_bus_connected", 1.0);
    replaces(&pipe, &whole);
    nats.kill();
    eventually("it says so again", || said(&relay) == 2);
    relay.signal("INT");
    assert!(relay.wait_end(DEADLINE).success());
}

#[test]
fn fleet_without_a_key_says_so_at_its_start_and_to_check() {
    let nats = NatsServer::start();
    let relay = relay(Network::new(), &nats, "both", &[]);
    relay.says("bus_key is not set");
    let mut command = relay_command(Network::new());
    let checked = command.args(["check", "--bus=nats://127.0.0.1:1"]).output();
    let checked = checked.unwrap();
    let said = String::from_utf8(checked.stdout).unwrap();
    assert_eq!(checked.status.code(), Some(0), "{said}");
    assert!(said.contains("warning: bus_key is not set"), "{said}");
}

#[test]
fn forged_operations_and_interest_of_strangers_write_little_log_and_open_no_pvs() {
    let mut fleet = Fleet::start(&["--max-unresolved=100"]);
    let owner = id_of(&fleet.owner);
    let before = fleet.owner.output().len();
    let (ao, stranger) = (fleet.names[0].clone(), "00000000000000aa");
    // It has not announced itself.
    let names = |from: usize| {
        let names = (from..from + 20_000).map(|at| format!("ca://no:{at}"));
        serde_json::to_vec(&json!({"add": names.collect::<Vec<_>>()})).unwrap()
    };
    let interest = ask(&owner, "interest", stranger);
    let operations = ask(&owner, "operation", stranger);
    fleet.stranger.send(&interest, "stranger", &names(0));
    fleet
        .stranger
        .send(&operations, "stranger", &operation(&ao, 9.0));
    eventually("both are refused", || {
        refused(&fleet.owner, "stranger") == 2.0
    });

    // As members they have budgets.
    fleet.stranger.subscribe(MEMBERS);
    let mut member = presence(&mut fleet.stranger, &fleet.edge);
    member["ready"] = json!(false);
    let members = [
        stranger,
        "00000000000000ab",
        "00000000000000ac",
        "00000000000000ad",
    ];
    let begun = Instant::now();
    let mut sent = 0;
    while begun.elapsed() < Duration::from_secs(5) {
        member["uptime_millis"] = json!(begun.elapsed().as_millis() as u64);
        for id in members {
            member["id"] = json!(id);
            let announcement = serde_json::to_vec(&member).unwrap();
            fleet.stranger.send(MEMBERS, "", &announcement);
        }
        fleet.stranger.send(&interest, "stranger", &names(0));
        let long = operation_from(&ao, 9.0, &"x".repeat(100_000));
        for _ in 0..20 {
            fleet.stranger.send(&operations, "stranger", &long);
        }
        for _ in 0..2_000 {
            let body = operation(&format!("ca://none:{sent}"), 9.0);
            let of_one = ask(&owner, "operation", members[sent % members.len()]);
            fleet.stranger.send(&of_one, "stranger", &body);
            sent += 1;
        }
        fleet.stranger.settle();
    }
    let log = fleet.owner.output().len() - before;
    println!("{sent} operations wrote {log} bytes of log");
    assert!(log < 1_000_000, "{log} bytes of log");
    assert!(refused(&fleet.owner, "budget") > 0.0);
    // Puts open 4,000 PVs, and 200 more a second; the interest has opened 100.
    let states = ["connecting", "notFound"].map(|state| format!("pvwire_pvs{{state=\"{state}\"}}"));
    let open: f64 = states.iter().map(|state| fleet.owner.metric(state)).sum();
    let most = 4_200.0 + 200.0 * begun.elapsed().as_secs_f64();
    println!("they opened {open} PVs");
    assert!(open <= most, "{open} PVs for {sent} operations");
    fleet.counts_on();
    wait_for_truth(&mut fleet.client, &fleet.names);
    // Names of the interest: no more than one client may search for.
    let searched = status(&fleet.owner).to_string().matches("no:").count();
    assert!(searched <= 200, "{searched} names");
}

#[test]
fn damaged_updates_of_a_stranger_have_each_pv_asked_for_once() {
    let mut fleet = Fleet::start(&[]);
    let shard = format!("pvwire.default.{}.shard.0", id_of(&fleet.owner));
    let mut listener = NatsClient::at(&fleet.nats);
    listener.subscribe("pvwire.default.*.ask.interest.*");
    for _ in 0..20_000 {
        fleet.stranger.send(&shard, "", b"x");
    }
    fleet.stranger.settle();
    eventually("they are counted", || {
        fleet.edge.metric("pvwire_fleet_messages_damaged_total") > 1_000.0
    });
    let asked = listener.hear_for(Duration::from_secs(1));
    let snapshots = asked.iter().map(|message| {
        let interest: Value = serde_json::from_slice(&message.body).unwrap();
        interest["snapshot"].as_array().map_or(0, Vec::len)
    });
    let most = snapshots.max().unwrap();
    assert!((1..=fleet.names.len()).contains(&most), "{most} at once");
    wait_for_truth(&mut fleet.client, &fleet.names);
    fleet.counts_on();
}

#[test]
fn clients_are_sent_to_the_operators_hosts_alone() {
    let nats = NatsServer::start();
    let network = Network::new();
    let flags = [
        "--member-hosts=127.0.0.1",
        "--member-url=ws://127.0.0.1:1/ws",
    ];
    let relay = relay(network, &nats, "both", &flags);
    let mut stranger = NatsClient::at(&nats);
    stranger.subscribe(MEMBERS);
    let mut member: Value = serde_json::from_slice(&stranger.hear().body).unwrap();
    for (number, url) in ["wss://evil.example/ws", "ws://127.0.0.1:2/ws"]
        .iter()
        .enumerate()
    {
        member["id"] = json!(format!("{:016x}", number + 1));
        member["url"] = json!(url);
        stranger.send(MEMBERS, "", &serde_json::to_vec(&member).unwrap());
    }
    eventually("the fleet has them", || {
        status(&relay)["fleet"]
            .as_array()
            .is_some_and(|fleet| fleet.len() == 3)
    });
    let shown = status(&relay)["fleet"].to_string();
    assert!(
        shown.contains("127.0.0.1:2") && !shown.contains("evil"),
        "{shown}"
    );
    assert_eq!(refused(&relay, "host"), 1.0);
    relay.says("member_hosts");
}

/// The configuration of NATS in the how-to.
fn configuration() -> String {
    let text = std::fs::read_to_string(testbed::in_repository("docs/how-to/fleet.md")).unwrap();
    let block = text.split("```nats\n").nth(1).unwrap();
    block.split("```").next().unwrap().to_owned()
}

#[test]
fn nats_refuses_what_a_stranger_publishes_with_the_how_tos_configuration() {
    let nats = NatsServer::with_config(&configuration());
    let (network, key) = (Network::new(), key_file());
    let ioc = SoftIoc::start(network, RECORDS);
    let key = format!("--bus-key={}", key.display());
    let relay_as = |role: &str, credentials: &str| {
        let name = format!("{}{role}", prefix().replace(':', "-"));
        let credentials = file(&name, credentials);
        let credentials = format!("--bus-credentials={}", credentials.display());
        relay(
            network,
            &nats,
            role,
            &[&PUTS[..], &[&key, &credentials]].concat(),
        )
    };
    let _owner = relay_as("ingest", "ingest:first secret");
    let edge = relay_as("edge", "edge:second secret");
    let names = ioc.names(super::NAMES);
    let mut client = Client::connect(edge.address());
    assert_eq!(client.subscribe(&names), []);
    wait_for_truth(&mut client, &names);
    assert_eq!(
        put(&mut client, &names[0], PutValue::Number(2.0)).0,
        Outcome::Done
    );

    let refuses = |client: &mut NatsClient, subject: &str| {
        client.send(subject, "", b"{}");
        let refused = client.settle();
        assert!(
            refused
                .iter()
                .any(|line| line.contains("Permissions Violation")),
            "{subject}: {refused:?}"
        );
    };
    let mut stranger = NatsClient::as_user(&nats, "program", "third secret");
    let shard = "pvwire.default.0000000000000001.shard.0";
    for subject in [
        MEMBERS,
        shard,
        "pvwire.default.0000000000000001.ask.operation.0000000000000002",
        "pvwire.default.0000000000000001.answer.1",
    ] {
        refuses(&mut stranger, subject);
    }
    stranger.send("other.program", "", b"its own subjects");
    assert!(stranger.settle().is_empty());
    // An edge can't publish updates in an owner's place.
    refuses(
        &mut NatsClient::as_user(&nats, "edge", "second secret"),
        shard,
    );
    client.wait_number(&names[0], 2.0);
}

#[test]
fn answers_that_nats_forbids_write_few_lines_of_log() {
    let nats = NatsServer::with_config(&configuration());
    let name = format!("{}ingest", prefix().replace(':', "-"));
    let credentials = file(&name, "ingest:first secret");
    let flag = format!("--bus-credentials={}", credentials.display());
    let owner = relay(Network::new(), &nats, "ingest", &[&flag]);
    eventually("it has an id", || !id_of(&owner).is_empty());
    owner.wait_metric("pvwire_bus_connected", 1.0);
    let mut stranger = NatsClient::as_user(&nats, "edge", "second secret");
    // Where it may not publish.
    let subject = ask(&id_of(&owner), "interest", &id_of(&owner));
    let before = owner.metric("pvwire_bus_messages_sent_total");
    for _ in 0..500 {
        stranger.send(&subject, "elsewhere", b"{}");
    }
    eventually("it has answered all", || {
        owner.metric("pvwire_bus_messages_sent_total") >= before + 500.0
    });
    owner.says("elsewhere");
    let lines = owner.output().matches("elsewhere").count();
    assert!(lines < 5, "{lines} lines of log");
}
