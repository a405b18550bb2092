//! With `history_dir` the past survives a stop, a kill and a full disk.
//!
//! Topology: a soft IOC with counters at 10 Hz and constants, one relay after the other on one folder, and a client.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use testbed::{Client, DEADLINE, Disk, Network, Relay, SoftIoc, eventually, relay_command};

use crate::audit::fresh;
use crate::history::{by_http, rows_by_http};

const DATABASE: &str = r#"
    record(calc, "$(P)n") { field(CALC, "VAL+1") field(SCAN, ".1 second") field(HIGH, "7") field(HSV, "MINOR") }
    record(stringout, "$(P)text") { field(VAL, "one") field(PINI, "YES") field(TSE, "0") }
"#;

fn flags(folder: &Path) -> String {
    format!("--history-dir={}", folder.display())
}

fn updates(rows: &[Value]) -> Vec<&Value> {
    rows.iter().filter(|row| row["gap"].is_null()).collect()
}

/// The updates that the relay has of a PV, which begin with all of these.
fn begins_with(relay: &Relay, name: &str, before: &[Value]) -> Vec<Value> {
    let rows = rows_by_http(relay, name, "points=all");
    let (after, before) = (updates(&rows), updates(before));
    assert!(
        !before.is_empty() && after.starts_with(&before),
        "{name}: {before:?}, then {after:?}"
    );
    rows
}

/// A client after it has seen some updates of the counter, and a value of the text.
fn watch(relay: &Relay, ioc: &SoftIoc) -> Client {
    let mut client = Client::connect(relay.address());
    let names = ioc.names(["n", "text"]);
    client.subscribe_live(&names);
    client.wait("updates", |client| client.pv(&names[0]).rows.len() >= 8);
    client
}

/// Waits until the counter's past has an update that came so long after the last of these.
fn wait_later(relay: &Relay, name: &str, rows: &[Value], nanos: i64) {
    let time = |rows: &[Value]| -> i64 {
        let rows = updates(rows);
        rows.last().unwrap()["timeNs"]
            .as_str()
            .unwrap()
            .parse()
            .unwrap()
    };
    let until = time(rows) + nanos;
    eventually("later updates", || {
        time(&rows_by_http(relay, name, "points=all")) >= until
    });
}

/// `PVWIRE_HISTORY_RESTARTS` is the number of restarts.
#[test]
fn past_survives_kills_and_planned_stops_with_a_gap_until_the_pv_is_monitored_again() {
    let restarts =
        std::env::var("PVWIRE_HISTORY_RESTARTS").map_or(2, |count| count.parse().unwrap());
    let network = Network::new();
    let ioc = SoftIoc::start(network, DATABASE);
    let [n, text] = ioc.names(["n", "text"]);
    let folder = fresh("past");
    let flag = flags(&folder);
    let (mut before, mut text_before) = (Vec::new(), Vec::new());
    for restart in 0..=restarts {
        let mut relay = Relay::start(network, &[&flag]);
        if restart > 0 {
            let rows = begins_with(&relay, &n, &before);
            let gap = rows.last().unwrap();
            assert_eq!(
                (&gap["gap"], &gap["until"]),
                (&json!("not monitored"), &Value::Null)
            );
            let last = updates(&rows).last().unwrap()["timeNs"]
                .as_str()
                .unwrap()
                .to_owned();
            assert!(
                gap["timeNs"].as_str().unwrap() >= last.as_str(),
                "{gap}, {last}"
            );
            begins_with(&relay, &text, &text_before);
            assert_eq!(relay.metric("pvwire_monitors_active"), 0.0);
        }
        let client = watch(&relay, &ioc);
        let rows = rows_by_http(&relay, &n, "points=all");
        let gaps: Vec<_> = rows
            .iter()
            .filter(|row| row["gap"] == "not monitored")
            .collect();
        assert_eq!(gaps.len(), restart, "{rows:?}");
        assert!(gaps.iter().all(|gap| gap["until"].is_string()), "{gaps:?}");
        let texts = rows_by_http(&relay, &text, "points=all");
        assert_eq!(updates(&texts).len(), 1, "it is the same value: {texts:?}");
        assert!(relay.metric("pvwire_history_disk_bytes") > 0.0);
        (before, text_before) = (rows_by_http(&relay, &n, "points=all"), texts);
        if restart % 2 == 0 {
            wait_later(&relay, &n, &before, 1_000_000_000);
            drop(client);
            relay.signal("KILL");
        } else {
            relay.signal("TERM");
        }
        relay.wait_end(DEADLINE);
    }
}

#[test]
fn second_relay_on_a_folder_says_so_and_ends() {
    let network = Network::new();
    let folder = fresh("one");
    let flag = flags(&folder);
    let relay = Relay::start(network, &[&flag]);
    let mut second = relay_command(network);
    second
        .args(["--listen=127.0.0.1:0", &flag])
        .stdout(Stdio::null());
    let second = second.output().unwrap();
    let text = String::from_utf8(second.stderr).unwrap();
    assert_eq!(second.status.code(), Some(64), "{text}");
    let why = format!("history_dir: {}: another relay", folder.display());
    assert!(text.contains(&why), "{text}");
    drop(relay);
    Relay::start(network, &[&flag]);
}

#[test]
fn full_disk_costs_no_update_and_what_memory_has_is_written_when_there_is_room() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, DATABASE);
    let n = ioc.name("n");
    let folder = fresh("full");
    let flag = flags(&folder);
    let (disk, mut command) = (Disk::of(&folder), relay_command(network));
    disk.give_to(&mut command);
    let mut relay = Relay::spawn(command, &[&flag]);
    let mut client = watch(&relay, &ioc);
    relay.wait_metric("pvwire_history_disk_failing", 0.0);
    eventually("a write", || {
        relay.metric("pvwire_history_disk_bytes") > 0.0
    });
    disk.fill();
    relay.wait_metric("pvwire_history_disk_failing", 1.0);
    relay.says("can't be written: No space left on device (os error 28); make room on its disk");
    let seen = client.pv(&n).rows.len();
    client.wait("updates", |client| client.pv(&n).rows.len() >= seen + 20);
    let before = rows_by_http(&relay, &n, "points=all");
    assert_eq!(
        relay.output().matches("can't be written").count(),
        1,
        "{}",
        relay.output()
    );
    disk.mend();
    relay.says("can be written again");
    relay.wait_metric("pvwire_history_disk_failing", 0.0);
    relay.signal("KILL");
    relay.wait_end(DEADLINE);
    drop(client);

    let relay = Relay::start(network, &[&flag]);
    let rows = begins_with(&relay, &n, &before);
    let gaps: Vec<_> = rows.iter().filter(|row| !row["gap"].is_null()).collect();
    assert_eq!(gaps.len(), 1, "{gaps:?}");
    assert_eq!(relay.metric("pvwire_history_disk_damaged_files"), 0.0);
}

#[test]
fn disk_that_hangs_delays_no_client_and_no_stop_for_long() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, DATABASE);
    let n = ioc.name("n");
    let folder = fresh("hanging");
    let flag = flags(&folder);
    let (disk, mut command) = (Disk::of(&folder), relay_command(network));
    disk.give_to(&mut command);
    let mut relay = Relay::spawn(
        command,
        &[&flag, "--drain-delay-ms=0", "--drain-spread-ms=0"],
    );
    let mut client = watch(&relay, &ioc);
    disk.hang();
    let seen = client.pv(&n).rows.len();
    client.wait("updates", |client| client.pv(&n).rows.len() >= seen + 20);
    assert_eq!(by_http(&relay, &n, "points=all").status, 200);
    relay.wait_metric("pvwire_history_disk_failing", 1.0);
    drop(client);
    relay.signal("TERM");
    relay.says("no answer from its disk for 3 s");
    relay.wait_end(Duration::from_secs(20));
}
