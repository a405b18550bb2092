//! Is every attempt to write on record, is a forged record found, is nothing written without it where
//! that is wanted, and do clients notice nothing of a disk that is full or hangs?
//!
//! Topology: one relay with an audit file, some clients, a soft IOC.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use pvwire_schema::types::{Outcome, PutRequest, PutValue, Reply, RequestBody};
use serde_json::Value;

use testbed::{
    Client, Network, Relay, SoftIoc, eventually, get, prefix, relay_command,
    relay_command_with_small_disk,
};

const PING: RequestBody = RequestBody::Ping { client_time_ns: 1 };

fn fresh(name: &str) -> PathBuf {
    let name = format!("{}{name}", prefix().replace(':', "-"));
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let read = |line: &str| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line:?}"));
    // Of what is just being written the beginning may be seen.
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(read).collect()
}

/// The records of attempts.
fn attempts(path: &Path) -> Vec<Value> {
    let is_attempt = |line: &Value| line["kind"] == "put" || line["kind"] == "call";
    lines(path).into_iter().filter(is_attempt).collect()
}

/// The command that checks audit files.
fn check(files: &[&Path]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pvwire-relay"));
    command.arg("check-audit").args(files).output().unwrap()
}

/// What it says of files in which every line follows from the one before.
fn is_whole(files: &[&Path]) -> String {
    let Output { status, stdout, .. } = check(files);
    let text = String::from_utf8(stdout).unwrap();
    assert_eq!(status.code(), Some(0), "{text}");
    text
}

/// Has an attempt put on record: it is refused, because no rule allows it.
fn refused(client: &mut Client, name: &str) {
    let (outcome, why) = client.put(name, PutValue::Number(1.0));
    assert_eq!(outcome, Outcome::NotAllowed, "{why}");
}

/// A relay with this audit file, whose puts of `Y` no rule allows.
fn relay_with(path: &Path, flags: &[&str]) -> Relay {
    let file = format!("--audit-file={}", path.display());
    let all = [&["--enable-put", "--allow-put=X", &file], flags].concat();
    Relay::start(Network::new(), &all)
}

/// A pipe with a name that takes not a byte more, until it is read.
fn full_pipe(path: &Path) -> File {
    let made = Command::new("mkfifo").arg(path).status();
    assert!(made.unwrap().success());
    const O_NONBLOCK: i32 = 0o4000;
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(O_NONBLOCK);
    let mut pipe = options.open(path).unwrap();
    for piece in [4096, 1] {
        while pipe.write(&[b'\n'; 4096][..piece]).is_ok() {}
    }
    pipe
}

const RECORDS: &str = r#"
    record(ao, "$(P)set") { field(VAL, "1.5") }
    record(stringout, "$(P)text") { field(VAL, "before") }
    record(ao, "$(P)locked") { field(VAL, "1") }
"#;

#[test]
fn every_attempt_is_on_record_with_who_and_what_and_what_became_of_it() {
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
fn put_that_cannot_be_put_on_record_is_refused_before_it_reaches_the_ioc_if_that_is_wanted() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, RECORDS);
    let set = ioc.name("set");
    // A disk without room.
    let flags = |mode: &'static str| {
        [
            "--enable-put",
            "--allow-put=*",
            "--audit-file=/dev/full",
            mode,
        ]
    };
    let relay = Relay::start(network, &flags("--audit-fail=closed"));
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

    let relay = Relay::start(network, &flags("--audit-fail=open"));
    let mut client = Client::connect(relay.address());
    client.subscribe_live(&[&set]);
    assert!(
        client.pv(&set).is_number(1.5),
        "the refused one wrote nothing"
    );
    assert_eq!(client.put(&set, PutValue::Number(2.0)).0, Outcome::Done);
    drop((client, relay));

    // With room, the attempt is on record before it is made, and its end after it.
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
fn refused_puts_and_calls_fill_neither_the_audit_file_nor_the_log() {
    let path = fresh("flood.jsonl");
    let file = format!("--audit-file={}", path.display());
    let flags = ["--enable-put", "--allow-put=X", "--max-puts-per-s=5", &file];
    let mut relay = Relay::start(Network::new(), &flags);
    let mut client = Client::connect(relay.address());
    let long = "n".repeat(500_000);
    let text = PutValue::Text("v".repeat(5_000));
    let asked: Vec<u32> = (0..400)
        .map(|n| {
            client.request(match n % 4 {
                0 => RequestBody::Rpc {
                    name: "pva://X:service".into(),
                    arguments: (0..100).map(|n| (format!("a{n}"), text.clone())).collect(),
                    timeout_ms: 0,
                },
                // A name that is none, and a source that is none.
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
    let records = attempts(&path);
    assert!((50..100).contains(&records.len()), "{}", records.len());
    let size = std::fs::metadata(&path).unwrap().len();
    assert!(size < 100 * 4096, "{size} bytes of audit");
    let log = relay.output().len();
    assert!(log < 200_000, "{log} bytes of log");
}

fn put(name: &str) -> RequestBody {
    RequestBody::Put(PutRequest {
        name: name.to_owned(),
        value: PutValue::Number(1.0),
        wait: false,
        timeout_ms: 0,
        expected: None,
    })
}

/// Puts `count` times and returns when all are answered. Sent in batches: the relay drops a client that leaves
/// more than 64 answers unread.
fn put_often(client: &mut Client, name: &str, count: usize) {
    const BATCH: usize = 32;
    for done in (0..count).step_by(BATCH) {
        let batch = BATCH.min(count - done);
        let asked: Vec<_> = (0..batch).map(|_| client.request(put(name))).collect();
        for id in asked {
            client.wait_answer(id);
        }
    }
}

/// A relay whose audit file is a pipe that takes not a byte more, as a disk that hangs.
fn relay_with_hanging_disk(network: Network, flags: &[&str]) -> (Relay, File, PathBuf) {
    let path = fresh("hangs");
    let pipe = full_pipe(&path);
    let file = format!("--audit-file={}", path.display());
    let flags = [&["--shards=1", "--enable-put", &file], flags].concat();
    (Relay::start(network, &flags), pipe, path)
}

/// Ends a relay as an operator does, with all that it has to write written.
fn end(relay: &mut Relay) {
    relay.signal("INT");
    assert!(relay.wait_end(Duration::from_secs(10)).success());
}

#[test]
fn audit_disk_that_hangs_holds_up_no_client_and_puts_go_on_where_that_is_wanted() {
    let network = Network::new();
    let mut ioc = SoftIoc::start(network, RECORDS);
    let [set, other] = ioc.names(["set", "text"]);
    let flags = [
        "--allow-put=*:set",
        "--max-puts-per-s=100000",
        "--max-requests-per-s=100000",
    ];
    let (relay, mut pipe, _) = relay_with_hanging_disk(network, &flags);
    let mut client = Client::connect(relay.address());
    let mut watcher = Client::connect(relay.address());
    watcher.subscribe_live(&[&set]);
    let failing = || relay.metric("pvwire_audit_failing");
    assert_eq!(failing(), 0.0);

    assert_eq!(client.put_number(&set, 2.5).0, Outcome::Done);
    watcher.wait_number(&set, 2.5);
    eventually("it is told", || failing() == 1.0);
    ioc.put("set", "3");
    watcher.wait_number(&set, 3.0);
    assert_eq!(client.put_number(&set, 3.5).0, Outcome::Done);
    // More than the queue holds.
    put_often(&mut client, &other, 5_000);
    let lost = relay.metric("pvwire_audit_records_lost_total");
    assert!((500.0..1_500.0).contains(&lost), "{lost} are lost");
    assert!(relay.metric("pvwire_audit_queue_length") > 3_000.0);
    let status: Value = serde_json::from_str(&get(relay.address(), "/status", &[]).body).unwrap();
    let failure = status["audit"]["failure"].as_str().unwrap();
    assert!(failure.contains("no answer from its disk"), "{failure}");
    assert_eq!(get(relay.address(), "/ready", &[]).body, "ready\n");
    eventually("the log says so", || {
        relay.output().contains("puts go on without a record")
    });

    let mut text = Vec::new();
    let mut piece = [0; 65_536];
    eventually("what waited is written", || {
        while let Ok(count) = pipe.read(&mut piece) {
            text.extend_from_slice(&piece[..count]);
        }
        failing() == 0.0 && relay.metric("pvwire_audit_queue_length") == 0.0
    });
    while let Ok(count) = pipe.read(&mut piece) {
        text.extend_from_slice(&piece[..count]);
    }
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains(r#""new":2.5"#) && text.contains(r#""new":3.5"#));
    let said = format!(r#""count":{lost}"#);
    assert!(text.contains(&said), "the file says how many are lost");
}

#[test]
fn audit_disk_that_hangs_has_puts_refused_where_that_is_wanted_and_holds_up_no_client() {
    let network = Network::new();
    let mut ioc = SoftIoc::start(network, RECORDS);
    let set = ioc.name("set");
    let flags = ["--allow-put=*", "--audit-fail=closed"];
    let (relay, mut pipe, path) = relay_with_hanging_disk(network, &flags);
    let written = path.clone();
    let mut client = Client::connect(relay.address());
    client.subscribe_live(&[&set]);
    let mut hasty = Client::connect(relay.address());

    let since = Instant::now();
    let call = RequestBody::Rpc {
        name: format!("pva://{set}"),
        arguments: Vec::new(),
        timeout_ms: 0,
    };
    let asked = [client.request(put(&set)), client.request(call)];
    // Its time is up before that of the record.
    let quick = hasty.request(RequestBody::Put(PutRequest {
        name: set.clone(),
        value: PutValue::Number(8.0),
        wait: false,
        timeout_ms: 200,
        expected: None,
    }));
    let answer = hasty.wait_answer(quick).0;
    assert!(since.elapsed() < Duration::from_secs(2), "{answer:?}");
    // Both wait, and the shard that they wait in goes on.
    ioc.put("set", "3");
    client.wait_number(&set, 3.0);
    hasty.ask(PING);
    assert!(asked.iter().all(|id| !client.has_answer(*id)));
    for id in asked {
        let answer = client.wait_answer(id).0;
        let (Reply::PutDone {
            outcome, message, ..
        }
        | Reply::RpcDone {
            outcome, message, ..
        }) = answer
        else {
            panic!("{answer:?}");
        };
        assert_eq!(outcome, Outcome::NotAllowed);
        assert!(message.contains("tell the relay's operator"), "{message}");
    }
    let since = Instant::now();
    refused(&mut client, &set);
    assert!(since.elapsed() < Duration::from_secs(2), "refused at once");
    let ready = get(relay.address(), "/ready", &[]);
    assert_eq!(ready.status, 200, "screens are served");
    assert!(ready.body.contains("takes no puts"), "{}", ready.body);

    let reader = thread::spawn(move || {
        let until = Instant::now() + Duration::from_secs(20);
        while Instant::now() < until {
            if pipe.read(&mut [0; 65_536]).is_err() {
                thread::sleep(Duration::from_millis(5));
            }
            if !written.exists() {
                return;
            }
        }
    });
    eventually("it can be written", || {
        relay.metric("pvwire_audit_failing") == 0.0
    });
    assert_eq!(get(relay.address(), "/ready", &[]).body, "ready\n");
    assert!(
        client.pv(&set).is_number(3.0),
        "what was refused is not written"
    );
    assert_eq!(client.put_number(&set, 4.0).0, Outcome::Done);
    client.wait_number(&set, 4.0);
    fs::remove_file(path).unwrap();
    reader.join().unwrap();
}

#[test]
fn relay_whose_audit_disk_hangs_at_the_start_serves_screens_all_the_same() {
    // A pipe that has no reader: not even opening it comes back.
    let path = fresh("unopened");
    let made = Command::new("mkfifo").arg(&path).status();
    assert!(made.unwrap().success());
    let relay = relay_with(&path, &["--audit-fail=closed"]);
    let mut client = Client::connect(relay.address());
    client.subscribe_live(&["sim://sine"]);
    let (outcome, why) = client.put("X", PutValue::Number(1.0));
    assert_eq!(outcome, Outcome::NotAllowed, "{why}");
    assert!(why.contains("no answer from its disk"), "{why}");
    let _reader = File::open(&path).unwrap();
    eventually("it is opened", || {
        relay.metric("pvwire_audit_failing") == 0.0
    });
}

#[test]
fn records_that_a_full_disk_has_no_room_for_are_counted_and_the_file_says_so() {
    let folder = fresh("small");
    fs::create_dir(&folder).unwrap();
    let path = folder.join("puts.jsonl");
    let file = format!("--audit-file={}", path.display());
    let network = Network::new();
    let command = relay_command_with_small_disk(network, &folder);
    let flags = ["--enable-put", "--allow-put=X", "--audit-sync=each", &file];
    let mut relay = Relay::spawn(command, &flags);
    let mut client = Client::connect(relay.address());
    refused(&mut client, "Y");
    let seen = relay.sees(&path);
    eventually("it is on record", || attempts(&seen).len() == 1);

    let filler = relay.sees(&folder.join("filler"));
    let mut big = File::create(&filler).unwrap();
    for piece in [4096, 1] {
        while big.write(&[0; 4096][..piece]).is_ok() {}
    }
    // The file's own last page has room for some.
    let mut number = 0;
    eventually("the disk is full", || {
        number += 1;
        refused(&mut client, &format!("Y{number}"));
        relay.metric("pvwire_audit_failing") == 1.0
    });
    let lost = |relay: &Relay| relay.metric("pvwire_audit_records_lost_total");
    eventually("it is counted", || lost(&relay) >= 1.0);
    refused(&mut client, "lost");
    refused(&mut client, "lost");
    eventually("the log says so", || {
        relay.output().contains("No space left on device")
    });
    is_whole(&[&seen]);

    drop(big);
    fs::remove_file(&filler).unwrap();
    eventually("there is room", || {
        relay.metric("pvwire_audit_failing") == 0.0
    });
    refused(&mut client, "last");
    let last = |line: &Value| line["pv"] == "last";
    eventually("it goes on", || attempts(&seen).iter().any(last));
    let text = is_whole(&[&seen]);
    let said = format!("{} are lost", lost(&relay));
    assert!(text.contains(&said), "{text}");
    let is_lost = |line: &Value| line["pv"] == "lost";
    assert!(!attempts(&seen).iter().any(is_lost));
    let complaints = relay.output().matches("can't be written").count();
    assert!(complaints <= 3, "{complaints} lines of log");
    end(&mut relay);
}

#[test]
fn audit_file_that_is_moved_deleted_or_truncated_goes_on_in_a_new_one_and_all_make_one_chain() {
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
    // logrotate's way: moved, and a signal.
    fs::rename(&path, old(1)).unwrap();
    relay.signal("HUP");
    eventually("there is a new one", || path.exists());
    some(2, 2, &path);
    assert_eq!(lines(&path)[0]["kind"], "begin");
    // Its other way, and without a signal: copied and truncated.
    fs::copy(&path, old(2)).unwrap();
    OpenOptions::new()
        .write(true)
        .truncate(true)
        .open(&path)
        .unwrap();
    some(2, 2, &path);
    // Moved, and another one made beforehand, without a signal.
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
    // A record that is left out, and one that is changed.
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
    // What was deleted is missed.
    assert_eq!(check(&[all[2], &path]).status.code(), Some(1));
}

#[test]
fn chain_goes_on_after_a_restart_and_says_where_a_crash_cut_it_off() {
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
    // One relay writes to a file, and a second one says so.
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
fn log_that_is_not_read_holds_up_no_client_and_what_is_lost_is_counted() {
    let flags = ["--shards=1", "--enable-put", "--allow-put=X"];
    let quick = ["--max-puts-per-s=100000", "--max-requests-per-s=100000"];
    let relay = Relay::start(Network::new(), &[&flags[..], &quick].concat());
    let mut client = Client::connect(relay.address());
    let mut other = Client::connect(relay.address());
    let held = relay.hold_log();
    let name = format!("pva://{}", "n".repeat(400));
    put_often(&mut client, &name, 5_000);
    other.ask(PING);
    let lost = relay.metric("pvwire_log_lines_lost_total");
    assert!(lost > 100.0, "{lost} lines are lost");
    drop(held);
    eventually("the log says so", || {
        let said = format!("{lost} lines of the log were dropped");
        relay.output().contains(&said)
    });
}
