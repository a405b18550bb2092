//! The audit file has a record of every attempt to write, and `check-audit` finds forged ones.
//!
//! Topology: one relay with an audit file, some clients, a soft IOC.

use pvwire_schema::types::{Outcome, PutRequest, PutValue, Reply, RequestBody};
use serde_json::Value;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Instant;
use testbed::{Client, DEADLINE, Disk, Network, Relay, SoftIoc, eventually, prefix, relay_command};
pub(crate) const PING: RequestBody = RequestBody::Ping { client_time_ns: 1 };

pub(crate) fn fresh(name: &str) -> PathBuf {
    let name = format!("{}{name}", prefix().replace(':', "-"));
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

pub(crate) fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let read = |line: &str| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line:?}"));
    // The last record may be incomplete because it is being written.
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(read).collect()
}

/// The records of attempts.
pub(crate) fn attempts(path: &Path) -> Vec<Value> {
    let is_attempt = |line: &Value| line["kind"] == "put" || line["kind"] == "call";
    lines(path).into_iter().filter(is_attempt).collect()
}

/// The command that checks audit files.
pub(crate) fn check(files: &[&Path]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pvwire-relay"));
    command.arg("check-audit").args(files).output().unwrap()
}

/// The output for files in which every line follows from the previous one.
pub(crate) fn is_whole(files: &[&Path]) -> String {
    let Output { status, stdout, .. } = check(files);
    let text = String::from_utf8(stdout).unwrap();
    assert_eq!(status.code(), Some(0), "{text}");
    text
}

/// Makes an attempt that is recorded and refused, because no rule allows it.
pub(crate) fn refused(client: &mut Client, name: &str) {
    let (outcome, why) = client.put(name, PutValue::Number(1.0));
    assert_eq!(outcome, Outcome::NotAllowed, "{why}");
}

/// A relay with this audit file, where no rule allows puts to `Y`.
pub(crate) fn relay_with(path: &Path, flags: &[&str]) -> Relay {
    let file = format!("--audit-file={}", path.display());
    let all = [&["--enable-put", "--allow-put=X", &file], flags].concat();
    Relay::start(Network::new(), &all)
}

pub(crate) const RECORDS: &str = r#"
    record(ao, "$(P)set") { field(VAL, "1.5") }
    record(stringout, "$(P)text") { field(VAL, "before") }
    record(ao, "$(P)locked") { field(VAL, "1") }
"#;

#[test]
fn every_attempt_is_recorded_with_user_value_and_outcome() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, RECORDS);
    let [set, text, locked] = ioc.names(["set", "text", "locked"]);
    let path = fresh("audit.jsonl");
    let flags = [
        "--enable-put",
        "--allow-put=*:set",
        "--allow-put=*:text",
        "--audit-file",
        path.to_str().unwrap(),
        "--auth=trusted-header",
        "--trusted-proxy=127.0.0.1",
    ];
    let relay = Relay::start(network, &flags);
    let origin = format!("http://{}", relay.address());
    let headers = [("X-Forwarded-User", "jane"), ("Origin", origin.as_str())];
    let mut client = Client::connect_with(relay.address(), &headers);
    client.subscribe_live(&[&set, &text]);

    let evil = "x\n{\"time\":\"1970\",\"user\":\"root\"}\u{2028}\u{85}\r\"}";
    let made = [
        (set.clone(), PutValue::Number(2.5), Outcome::Done),
        (set.clone(), PutValue::Number(3.5), Outcome::Done),
        (set.clone(), PutValue::Text("bad".into()), Outcome::BadValue),
        (text.clone(), PutValue::Text("\n{}\n".into()), Outcome::Done),
        (locked, PutValue::Number(7.0), Outcome::NotAllowed),
        (
            evil.to_owned(),
            PutValue::Text(evil.to_owned()),
            Outcome::BadName,
        ),
    ];
    for (name, value, outcome) in &made {
        assert_eq!(client.put(name, value.clone()).0, *outcome, "{name:?}");
    }
    client.ask(RequestBody::Rpc {
        name: set.clone(),
        arguments: vec![("a".into(), PutValue::Number(1.0))],
        timeout_ms: 0,
    });

    eventually("all are on record", || attempts(&path).len() == 7);
    let lines = attempts(&path);
    for (line, (name, _, outcome)) in lines.iter().zip(&made) {
        assert_eq!(line["pv"], name.as_str());
        assert_eq!(line["result"], format!("{outcome:?}"));
        assert_eq!(
            (line["user"].as_str(), line["kind"].as_str()),
            (Some("jane"), Some("put"))
        );
        assert_eq!(line["origin"], origin.as_str());
        assert!(line["peer"].as_str().unwrap().starts_with("127.0.0.1:"));
        assert!(line["latencyMs"].as_f64().unwrap() >= 0.0);
        assert!(line["time"].as_str().unwrap().starts_with("20"));
    }
    let values = |nth: usize| (lines[nth]["old"].clone(), lines[nth]["new"].clone());
    assert_eq!(values(0), (1.5.into(), 2.5.into()));
    assert_eq!(values(1), (2.5.into(), 3.5.into()));
    assert_eq!(values(2), (3.5.into(), "bad".into()));
    assert_eq!(values(3), ("before".into(), "\n{}\n".into()));
    assert_eq!(values(4), (Value::Null, 7.0.into()));
    assert_eq!(values(5).1, evil);
    assert_eq!(
        (&lines[6]["kind"], &lines[6]["new"]["a"]),
        (&"call".into(), &1.0.into())
    );
    assert!(
        !relay.output().contains("\n{\"time\""),
        "nor is the log forged"
    );
}

#[test]
fn unrecorded_put_is_refused_before_it_reaches_the_ioc() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, RECORDS);
    let set = ioc.name("set");
    let full = fresh("full.jsonl");
    let disk = Disk::of(&full);
    disk.fill();
    let file = format!("--audit-file={}", full.display());
    let start = |mode: &str| {
        let mut command = relay_command(network);
        disk.give_to(&mut command);
        Relay::spawn(command, &["--enable-put", "--allow-put=*", &file, mode])
    };
    let relay = start("--audit-fail=closed");
    let mut client = Client::connect(relay.address());
    client.subscribe_live(&[&set]);
    assert_eq!(
        client.put(&set, PutValue::Number(9.0)).0,
        Outcome::NotAllowed
    );
    let call = RequestBody::Rpc {
        name: format!("pva://{set}"),
        arguments: Vec::new(),
        timeout_ms: 0,
    };
    let (reply, _) = client.ask(call);
    let Reply::RpcDone {
        outcome, message, ..
    } = reply
    else {
        panic!("{reply:?}");
    };
    assert_eq!(outcome, Outcome::NotAllowed);
    assert!(message.contains("audit_fail"), "{message}");
    drop((client, relay));

    let relay = start("--audit-fail=open");
    let mut client = Client::connect(relay.address());
    client.subscribe_live(&[&set]);
    assert!(
        client.pv(&set).is_number(1.5),
        "the refused one wrote nothing"
    );
    assert_eq!(client.put(&set, PutValue::Number(2.0)).0, Outcome::Done);
    drop((client, relay));

    // With free space, the attempt is recorded before it is made, and its outcome afterwards.
    let path = fresh("closed.jsonl");
    let file = format!("--audit-file={}", path.display());
    let flags = [
        "--enable-put",
        "--allow-put=*",
        &file,
        "--audit-fail=closed",
    ];
    let relay = Relay::start(network, &flags);
    let mut client = Client::connect(relay.address());
    client.subscribe_live(&[&set]);
    assert_eq!(client.put(&set, PutValue::Number(3.0)).0, Outcome::Done);
    eventually("its end is on record", || attempts(&path).len() == 2);
    let lines = attempts(&path);
    let results: Vec<_> = lines
        .iter()
        .map(|line| line["result"].as_str().unwrap())
        .collect();
    assert_eq!(results, ["Begun", "Done"]);
    assert_eq!(lines[0]["attempt"], lines[1]["attempt"]);
}

#[test]
fn refused_operations_fill_neither_the_audit_file_nor_the_log() {
    let path = fresh("flood.jsonl");
    let file = format!("--audit-file={}", path.display());
    let flags = ["--enable-put", "--allow-put=X", "--max-puts-per-s=5", &file];
    let mut relay = Relay::start(Network::new(), &flags);
    let mut client = Client::connect(relay.address());
    let long = "n".repeat(500_000);
    let text = PutValue::Text("v".repeat(5_000));
    let start = Instant::now();
    let asked: Vec<u32> = (0..400)
        .map(|n| {
            client.request(match n % 4 {
                0 => RequestBody::Rpc {
                    name: "pva://X:service".into(),
                    arguments: (0..100).map(|n| (format!("a{n}"), text.clone())).collect(),
                    timeout_ms: 0,
                },
                // An invalid name, and an unknown source.
                1 if n < 40 => put(&long),
                2 if n < 40 => put(&format!("{long}://X")),
                _ => put("Y"),
            })
        })
        .collect();
    for id in asked {
        client.wait_answer(id);
    }
    end(&mut relay);
    let records = attempts(&path).len();
    // Fifty at once, and for each second that this took five operations and one refusal.
    let most = 50 + 6 * (start.elapsed().as_secs() as usize + 1);
    assert!((50..=most).contains(&records), "{records}, {most} at most");
    let size = std::fs::metadata(&path).unwrap().len();
    assert!(size < (records as u64 + 50) * 4096, "{size} bytes of audit");
    let log = relay.output().len();
    assert!(log < 200_000, "{log} bytes of log");
}

pub(crate) fn put(name: &str) -> RequestBody {
    RequestBody::Put(PutRequest {
        name: name.to_owned(),
        value: PutValue::Number(1.0),
        wait: false,
        timeout_ms: 0,
        expected: None,
    })
}

/// Stops a relay as an operator does, after everything was written.
pub(crate) fn end(relay: &mut Relay) {
    relay.signal("INT");
    assert!(relay.wait_end(DEADLINE).success());
}

#[test]
fn audit_file_that_is_moved_deleted_or_truncated_goes_on() {
    let path = fresh("rotated.jsonl");
    let old = |number: usize| path.with_extension(format!("jsonl.{number}"));
    let relay = relay_with(&path, &[]);
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o137, 0, "{mode:o}: not for others");
    let mut client = Client::connect(relay.address());
    let mut number = 0;
    let mut some = |count: usize, in_all: usize, path: &Path| {
        for _ in 0..count {
            number += 1;
            refused(&mut client, &format!("Y{number}"));
        }
        eventually("all are on record", || attempts(path).len() == in_all);
    };
    some(3, 3, &path);
    // logrotate's default: the file is moved, and a signal is sent.
    fs::rename(&path, old(1)).unwrap();
    relay.signal("HUP");
    eventually("there is a new one", || path.exists());
    some(2, 2, &path);
    assert_eq!(lines(&path)[0]["kind"], "begin");
    // logrotate's copytruncate, without a signal.
    fs::copy(&path, old(2)).unwrap();
    OpenOptions::new()
        .write(true)
        .truncate(true)
        .open(&path)
        .unwrap();
    some(2, 2, &path);
    // Moved and replaced by another file, without a signal.
    fs::rename(&path, old(3)).unwrap();
    File::create(&path).unwrap();
    some(4, 4, &path);
    let [first, second, third] = [1, 2, 3].map(old);
    let all = [&first, &second, &third, &path].map(PathBuf::as_path);
    let text = is_whole(&all);
    assert!(text.starts_with("11 records in 4 files"), "{text}");
    let text = is_whole(&all[1..]);
    assert!(text.contains("continues an earlier file"), "{text}");

    let out_of_order = check(&[all[1], all[0]]);
    assert_eq!(out_of_order.status.code(), Some(1));
    // A removed record, and a changed one.
    for (changed, at) in [("", 4), ("changed", 3)] {
        let text = fs::read_to_string(all[0]).unwrap();
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        let line = lines.remove(2);
        if !changed.is_empty() {
            lines.insert(2, line.replace("NotAllowed", changed));
        }
        let copy = path.with_extension("changed");
        fs::write(&copy, lines.join("\n") + "\n").unwrap();
        let found = String::from_utf8(check(&[&copy]).stdout).unwrap();
        let line = if changed.is_empty() { at - 1 } else { at + 1 };
        let expected = format!("{}:{line}: doesn't follow", copy.display());
        assert!(found.starts_with(&expected), "{found}");
    }
    assert_eq!(check(&[Path::new("/nowhere")]).status.code(), Some(64));

    fs::remove_file(&path).unwrap();
    eventually("it is made again", || path.exists());
    some(1, 1, &path);
    // The deletion is detected.
    assert_eq!(check(&[all[2], &path]).status.code(), Some(1));
}

#[test]
fn chain_continues_after_a_restart_and_shows_where_a_crash_was() {
    let path = fresh("crashed.jsonl");
    let put = |count: usize, in_all: usize| {
        let relay = relay_with(&path, &["--audit-sync=never"]);
        let mut client = Client::connect(relay.address());
        for _ in 0..count {
            refused(&mut client, "Y");
        }
        eventually("all are on record", || attempts(&path).len() == in_all);
        relay
    };
    // Killed.
    drop(put(3, 3));
    end(&mut put(2, 5));
    assert!(is_whole(&[&path]).starts_with("5 records in 1 files"));
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, &text[..text.len() - 20]).unwrap();
    let cut = check(&[&path]);
    assert_eq!(cut.status.code(), Some(0));
    let said = String::from_utf8(cut.stdout).unwrap();
    assert!(said.contains(":6: cut off"), "{said}");

    let relay = relay_with(&path, &[]);
    let mut client = Client::connect(relay.address());
    refused(&mut client, "last");
    eventually("it goes on", || {
        let text = fs::read_to_string(&path).unwrap();
        text.contains(r#""kind":"cut""#) && text.contains(r#""pv":"last""#)
    });
    let text = is_whole(&[&path]);
    assert!(text.contains(":6: cut off while it was written"), "{text}");
    // When a second relay writes to the same file, it reports that.
    let mut second = relay_command(Network::new());
    let file = format!("--audit-file={}", path.display());
    let output = second
        .args(["--listen=127.0.0.1:0", &file])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(64));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("another process writes to it"), "{said}");
}

#[test]
fn pv_has_one_spelling_on_record_and_the_log_names_the_user() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, RECORDS);
    let [set] = ioc.names(["set"]);
    let path = fresh("spellings.jsonl");
    let file = format!("--audit-file={}", path.display());
    let puts = ["--enable-put", "--allow-put=*", &file];
    let users = ["--auth=trusted-header", "--trusted-proxy=127.0.0.1"];
    let relay = Relay::start(network, &[&puts[..], &users].concat());
    let mut client = Client::connect_with(relay.address(), &[("X-Forwarded-User", "jane")]);
    let spellings = [set.clone(), format!("ca://{set}"), format!("pva://{set}")];
    for name in &spellings {
        client.put(name, PutValue::Number(2.5));
    }
    eventually("all are on record", || attempts(&path).len() == 3);
    let recorded: Vec<_> = attempts(&path)
        .iter()
        .map(|line| line["pv"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(recorded, [set.clone(), set.clone(), format!("pva://{set}")]);
    relay.says(&format!("put of {set:?} by user \"jane\" at 127.0.0.1:"));
}
