//! An audit disk that hangs or is full holds up no client, and what it loses is counted.
//!
//! Topology: one relay with an audit file on a disk that hangs, on a small disk, or in a place that something else
//! takes, and some clients.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use pvwire_schema::types::{Outcome, PutRequest, PutValue, Reply, RequestBody};
use serde_json::{Value, json};
use testbed::{
    Client, Disk, Network, Relay, SoftIoc, eventually, get, relay_command,
    relay_command_with_small_disk, within,
};

use crate::audit::{PING, RECORDS, attempts, end, fresh, is_whole, put, refused, relay_with};

/// Puts `count` times and returns when all are answered. Sent in batches: the relay drops a client
/// that leaves more than 64 answers unread.
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

/// A relay whose audit file is on a disk that hangs from now on.
fn relay_with_hanging_disk(network: Network, flags: &[&str]) -> (Relay, Disk, PathBuf) {
    let path = fresh("hangs");
    let (disk, mut command) = (Disk::of(&path), relay_command(network));
    disk.give_to(&mut command);
    let file = format!("--audit-file={}", path.display());
    let flags = [&["--shards=1", "--enable-put", &file], flags].concat();
    let relay = Relay::spawn(command, &flags);
    disk.hang();
    (relay, disk, path)
}

#[test]
fn hanging_audit_disk_delays_no_client_and_puts_go_on() {
    let network = Network::new();
    let mut ioc = SoftIoc::start(network, RECORDS);
    let [set, other] = ioc.names(["set", "text"]);
    let flags = [
        "--allow-put=*:set",
        "--max-puts-per-s=100000",
        "--max-requests-per-s=100000",
    ];
    let (relay, disk, path) = relay_with_hanging_disk(network, &flags);
    let mut client = Client::connect(relay.address());
    let mut watcher = Client::connect(relay.address());
    watcher.subscribe_live(&[&set]);
    let failing = || relay.metric("pvwire_audit_failing");

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
    relay.says("puts go on without a record");

    disk.mend();
    eventually("what waited is written", || {
        failing() == 0.0 && relay.metric("pvwire_audit_queue_length") == 0.0
    });
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(r#""new":2.5"#) && text.contains(r#""new":3.5"#));
    let said = format!(r#""count":{lost}"#);
    assert!(text.contains(&said), "the file says how many are lost");
}

#[test]
fn refused_puts_of_some_clients_write_few_records_and_lines_for_long() {
    let path = fresh("refusals.jsonl");
    let flags = [
        "--shards=1",
        "--max-puts-per-s=100000",
        "--max-requests-per-s=100000",
    ];
    let mut relay = relay_with(&path, &flags);
    let start = Instant::now();
    for _ in 0..4 {
        put_often(&mut Client::connect(relay.address()), "Y", 6_000);
    }
    let mut client = Client::connect(relay.address());
    let says = |record: &Value| record["message"].as_str().unwrap().contains("more were");
    eventually("their number is recorded with the next one", || {
        refused(&mut client, "Y");
        attempts(&path).iter().any(says)
    });
    end(&mut relay);
    let seconds = start.elapsed().as_secs() as usize + 1;
    let most = 10_000 + (10 + 1) * seconds;
    let records = attempts(&path).len();
    assert!((10_000..=most).contains(&records), "{records} of {most}");
    let lines = relay.output().lines().count();
    assert!(lines <= most + 50, "{lines} lines of log");
}

/// A put whose record isn't written waits for this time.
const REFUSED_AFTER: Duration = Duration::from_secs(3);

#[test]
fn hanging_audit_disk_has_puts_refused_where_that_is_wanted() {
    let network = Network::new();
    let mut ioc = SoftIoc::start(network, RECORDS);
    let set = ioc.name("set");
    let flags = ["--allow-put=*", "--audit-fail=closed"];
    let (relay, disk, path) = relay_with_hanging_disk(network, &flags);
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
    // It times out before the record does.
    let quick = hasty.request(RequestBody::Put(PutRequest {
        name: set.clone(),
        value: PutValue::Number(8.0),
        wait: false,
        timeout_ms: 200,
        expected: None,
    }));
    let answer = hasty.wait_answer(quick).0;
    let Reply::PutDone { message, .. } = answer else {
        panic!("{answer:?}");
    };
    assert!(message.contains("within 200 ms"), "{message}");
    // Both wait, and their shard continues to work.
    ioc.put("set", "3");
    client.wait_number(&set, 3.0);
    hasty.ask(PING);
    let waits = asked.iter().all(|id| !client.has_answer(*id));
    assert!(waits || since.elapsed() >= REFUSED_AFTER);
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
    within(Duration::from_secs(2), "refused", || {
        let since = Instant::now();
        refused(&mut client, &set);
        since.elapsed()
    });
    let ready = get(relay.address(), "/ready", &[]);
    assert_eq!(ready.status, 200, "screens are served");
    assert!(ready.body.contains("takes no puts"), "{}", ready.body);

    disk.mend();
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
    is_whole(&[&path]);
}

#[test]
fn relay_whose_audit_disk_hangs_at_the_start_serves_screens() {
    let path = fresh("unopened");
    let (disk, mut command) = (Disk::of(&path), relay_command(Network::new()));
    disk.give_to(&mut command);
    disk.hang();
    let file = format!("--audit-file={}", path.display());
    let flags = [
        "--enable-put",
        "--allow-put=X",
        "--audit-fail=closed",
        &file,
    ];
    let relay = Relay::spawn(command, &flags);
    let mut client = Client::connect(relay.address());
    client.subscribe_live(&["sim://sine"]);
    let (outcome, why) = client.put("X", PutValue::Number(1.0));
    assert_eq!(outcome, Outcome::NotAllowed, "{why}");
    assert!(why.contains("no answer from its disk"), "{why}");
    disk.mend();
    eventually("it is opened", || {
        relay.metric("pvwire_audit_failing") == 0.0
    });
}

/// What takes the place of an audit file.
#[derive(Clone, Copy, Debug)]
enum Other {
    Pipe,
    Folder,
    Link,
    LinkToNothing,
    Socket,
    Nothing,
}

impl Other {
    /// Takes the place of a file, unless the relay makes the file again meanwhile.
    fn make(self, path: &Path, victim: &Path) -> bool {
        match self {
            Self::Pipe => {
                let made = Command::new("mkfifo").arg(path).output();
                made.unwrap().status.success()
            }
            Self::Folder => fs::create_dir(path).is_ok(),
            Self::Link => symlink(victim, path).is_ok(),
            Self::LinkToNothing => symlink(victim.with_extension("none"), path).is_ok(),
            Self::Socket => UnixListener::bind(path).is_ok(),
            // Its folder is deleted.
            Self::Nothing => fs::remove_dir(path.parent().unwrap()).is_ok(),
        }
    }

    fn take_place(self, path: &Path, victim: &Path) {
        eventually("it is in place of the file", || {
            let _ = fs::remove_file(path);
            self.make(path, victim)
        });
    }

    fn remove(self, path: &Path) {
        match self {
            Self::Folder => fs::remove_dir(path).unwrap(),
            Self::Nothing => fs::create_dir(path.parent().unwrap()).unwrap(),
            _ => fs::remove_file(path).unwrap(),
        }
    }

    /// The relay's reason.
    fn reason(self) -> &'static str {
        match self {
            Self::Pipe => "it is a pipe, expected a regular file",
            Self::Folder => "it is a folder, expected a regular file",
            Self::Link | Self::LinkToNothing => "it is a symbolic link, expected a regular file",
            Self::Socket => "it is a socket, expected a regular file",
            Self::Nothing => "No such file or directory",
        }
    }
}

#[test]
fn audit_file_whose_place_something_else_takes_for_a_while_goes_on_after_it() {
    let folder = fresh("replaced");
    fs::create_dir(&folder).unwrap();
    let path = folder.join("puts");
    // A file that the relay's user may write, to which a link leads.
    let victim = fresh("victim");
    fs::write(&victim, "as it was\n").unwrap();
    let mut relay = relay_with(&path, &["--audit-sync=each"]);
    let failing = |relay: &Relay| relay.metric("pvwire_audit_failing");
    let mut client = Client::connect(relay.address());
    let others = [
        Other::Pipe,
        Other::Folder,
        Other::Link,
        Other::LinkToNothing,
        Other::Socket,
        Other::Nothing,
        Other::Pipe,
    ];
    for (number, other) in others.into_iter().enumerate() {
        refused(&mut client, &format!("before{number}"));
        eventually("it is on record", || !attempts(&path).is_empty());
        other.take_place(&path, &victim);
        eventually("it is told", || failing(&relay) == 1.0);
        let lost = relay.metric("pvwire_audit_records_lost_total");
        // No client waits for it.
        within(Duration::from_secs(2), "answered", || {
            let since = Instant::now();
            refused(&mut client, "lost");
            since.elapsed()
        });
        eventually("it is counted", || {
            relay.metric("pvwire_audit_records_lost_total") > lost
        });
        let status = get(relay.address(), "/status", &[]).body;
        let status: Value = serde_json::from_str(&status).unwrap();
        let failure = status["audit"]["failure"].as_str().unwrap();
        assert!(failure.contains(other.reason()), "{other:?}: {failure}");
        other.remove(&path);
        eventually("it can be written", || failing(&relay) == 0.0);
        refused(&mut client, &format!("after{number}"));
        eventually("auditing goes on", || {
            let after = json!(format!("after{number}"));
            attempts(&path).iter().any(|line| line["pv"] == after)
        });
        let metadata = fs::symlink_metadata(&path).unwrap();
        assert!(metadata.is_file() && metadata.permissions().mode() & 0o137 == 0);
    }
    assert_eq!(fs::read_to_string(&victim).unwrap(), "as it was\n");
    assert!(!victim.with_extension("none").exists());
    end(&mut relay);
}

#[test]
fn puts_are_refused_while_a_pipe_is_in_place_of_the_audit_file_where_that_is_wanted() {
    let path = fresh("closed");
    let relay = relay_with(&path, &["--audit-fail=closed"]);
    let mut client = Client::connect(relay.address());
    refused(&mut client, "Y");
    Other::Pipe.take_place(&path, &path);
    eventually("it is told", || relay.metric("pvwire_audit_failing") == 1.0);
    let (outcome, why) = client.put("X", PutValue::Number(1.0));
    assert_eq!(outcome, Outcome::NotAllowed, "{why}");
    assert!(why.contains("it is a pipe"), "{why}");
    fs::remove_file(&path).unwrap();
    eventually("it can be written", || {
        relay.metric("pvwire_audit_failing") == 0.0
    });
    let (_, why) = client.put("X", PutValue::Number(1.0));
    assert!(!why.contains("audit file"), "{why}");
}

#[test]
fn relay_whose_audit_file_is_no_regular_file_does_not_start() {
    for other in [Other::Pipe, Other::Folder, Other::Link] {
        let path = fresh(&format!("{other:?}"));
        assert!(other.make(&path, &path.with_extension("file")));
        let mut command = relay_command(Network::new());
        let file = format!("--audit-file={}", path.display());
        let ended = command.args(["--listen=127.0.0.1:0", &file]).output();
        let ended = ended.unwrap();
        let said = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(64), "{said}");
        assert!(said.contains(other.reason()), "{said}");
        assert!(!path.with_extension("file").exists());
    }
}

#[test]
fn records_lost_on_a_full_disk_are_counted_in_the_file() {
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
    eventually("none waits", || {
        relay.metric("pvwire_audit_queue_length") == 0.0
    });
    let before = lost(&relay);
    refused(&mut client, "lost");
    refused(&mut client, "lost");
    // As long as they wait they aren't lost: the disk may have room in time.
    eventually("both are lost", || lost(&relay) == before + 2.0);
    relay.says("No space left on device");
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
fn unread_log_delays_no_client_and_counts_its_losses() {
    let flags = ["--shards=1", "--enable-put", "--allow-put=X"];
    let quick = ["--max-puts-per-s=100000", "--max-requests-per-s=100000"];
    let relay = Relay::start(Network::new(), &[&flags[..], &quick].concat());
    let mut client = Client::connect(relay.address());
    let mut other = Client::connect(relay.address());
    let held = relay.hold_log();
    let name = format!("pva://{}", "n".repeat(400));
    put_often(&mut client, &name, 5_000);
    other.ask(PING);
    let lost = || relay.metric("pvwire_log_lines_lost_total");
    assert!(lost() > 100.0, "{} lines are lost", lost());
    drop(held);
    let said = " lines of the log were dropped";
    eventually("the log says how many", || {
        let output = relay.output();
        let before = output.split(said).map(|part| part.rsplit(' ').next());
        let counts = before.filter_map(|word| word?.parse::<f64>().ok());
        output.contains(said) && counts.sum::<f64>() == lost()
    });
}
