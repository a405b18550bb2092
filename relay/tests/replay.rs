//! A recording of a relay is served by another one as it was live: values, alarms, time stamps, metadata, a lost IOC.
//!
//! Topology: a soft IOC that is killed and started again, a relay with a client and the command `record`, then a relay
//! that replays the recording on a network without servers.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use pvwire_relay::ingest::recording::Reader;
use pvwire_relay::ops::latency::wall_ns;
use pvwire_schema::types::{
    Alarm, Connection, ConnectionState, Metadata, Outcome, PutValue, Severity, SkipCause,
};

use serde_json::{Value, json};
use testbed::{
    Client, Kept, Network, Relay, SoftIoc, eventually, in_repository, python, relay_program,
    succeeds,
};

const DATABASE: &str = r#"
    record(calc, "$(P)n") { field(CALC, "VAL+1") field(SCAN, ".1 second") }
    record(ao, "$(P)a") {
        field(VAL, "1") field(PINI, "YES") field(EGU, "mA") field(PREC, "2") field(DESC, "Current")
        field(HIHI, "90") field(HHSV, "MAJOR") field(HOPR, "100") field(DRVH, "200")
    }
    record(mbbo, "$(P)e") { field(ZRST, "Closed") field(ONST, "Open") field(ZRVL, "0") field(ONVL, "1") field(PINI, "YES") }
    record(stringout, "$(P)s") { field(VAL, "before") field(PINI, "YES") }
    record(aao, "$(P)w") { field(FTVL, "DOUBLE") field(NELM, "2000") }
"#;

/// Records that change only when the test puts.
const QUIET: [&str; 4] = ["a", "e", "s", "w"];

/// The recording, removed at the end.
struct Recording {
    path: PathBuf,
    process: Child,
}

impl Recording {
    fn start(network: Network, relay: &Relay, names: &[String]) -> Self {
        let file = format!("pvwire-replay-{}-{}", std::process::id(), relay.id());
        let path = std::env::temp_dir().join(file);
        let _ = fs::remove_file(&path);
        let mut command = Command::new(relay_program());
        network.apply(&mut command);
        let url = format!("ws://{}/ws", relay.address());
        command
            .arg("record")
            .arg(&path)
            .args(["--url", &url, "--pv"]);
        let process = command.args(names).stdout(Stdio::piped()).spawn().unwrap();
        let recording = Self { path, process };
        eventually("the first chunk", || Reader::open(&recording.path).is_ok());
        recording
    }

    /// Ends it as Ctrl-C does; returns what it prints.
    fn end(mut self) -> (PathBuf, String) {
        let id = self.process.id().to_string();
        let killed = Command::new("kill").args(["-INT", &id]).status().unwrap();
        assert!(killed.success());
        let stdout = self.process.stdout.take().unwrap();
        let text = std::io::read_to_string(stdout).unwrap();
        assert!(self.process.wait().unwrap().success(), "{text}");
        (self.path.clone(), text)
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// All of a PV that clients see, except what numbers the relay gives to it.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    value: Option<(Kept, i64, Alarm)>,
    connection: Connection,
    metadata: Metadata,
}

fn seen(client: &Client, name: &str) -> Option<Seen> {
    let pv = client.pv(name);
    let value = pv.now.as_ref();
    Some(Seen {
        value: value.map(|now| (now.value.clone(), now.time_ns, now.alarm)),
        // The rules of a relay say who may put.
        connection: Connection {
            puts: false,
            ..pv.connection?
        },
        metadata: Metadata {
            epoch: 0,
            ..pv.metadata.clone()?
        },
    })
}

fn all_seen(client: &Client, names: &[String]) -> Vec<Option<Seen>> {
    names.iter().map(|name| seen(client, name)).collect()
}

/// A moment, and what a client saw then.
type Moment = (i64, Vec<Option<Seen>>);

/// What a live client sees now; the recording has it by then.
fn moment(
    client: &mut Client,
    (recording, names, counter): (&Recording, &[String], &str),
) -> Moment {
    let since = |name: &String| client.pv(name).connection.map_or(0, |now| now.since_ns);
    let is_lost = client.pv(counter).state() == ConnectionState::Disconnected;
    let from_ns = match is_lost {
        true => names.iter().map(since).max().unwrap(),
        false => wall_ns(),
    };
    eventually("the recorded moment", || {
        Reader::open(&recording.path).unwrap().span_ns().1 >= from_ns
    });
    if !is_lost {
        let rows = client.pv(counter).rows.len();
        client.wait("time", |client| client.pv(counter).rows.len() >= rows + 3);
    }
    let moment = (wall_ns(), all_seen(client, names));
    if !is_lost {
        eventually("the moment is recorded", || {
            Reader::open(&recording.path).unwrap().span_ns().1 >= moment.0
        });
    }
    moment
}

/// Value, time and alarm.
type Row = (Kept, i64, Alarm);

/// The rows of a PV after a time.
fn rows(client: &Client, name: &str, after_ns: i64) -> Vec<Row> {
    let rows = client.pv(name).rows.iter();
    let rows = rows.map(|row| (row.value.clone(), row.time_ns, row.alarm));
    let mut rows: Vec<_> = rows.filter(|(_, time_ns, _)| *time_ns > after_ns).collect();
    // A snapshot repeats the present value.
    rows.dedup();
    rows
}

fn puts(ioc: &mut SoftIoc, current: &str, text: &str) {
    ioc.put("a", current);
    ioc.put("e", "1");
    ioc.put("s", text);
    ioc.settle();
}

fn described(client: &mut Client, name: &str) {
    client.wait_pv(name, "its description", |pv| {
        (pv.metadata.as_ref()).is_some_and(|metadata| metadata.description == "Current")
    });
}

/// Records a run in which the IOC dies; returns the recording, the moments, and the client that saw it live.
fn recorded_run() -> (PathBuf, Vec<Moment>, Client, [String; 5]) {
    let network = Network::new();
    let mut ioc = SoftIoc::start(network, DATABASE);
    let names = ioc.names(["n", "a", "e", "s", "w"]);
    let [counter, current, ..] = names.clone();
    let quiet = QUIET.map(|record| ioc.name(record));
    let relay = Relay::start(network, &["--enable-put", "--allow-put=*"]);
    let mut client = Client::connect(relay.address());
    client.subscribe_live(&names[..4]);
    client.subscribe(&names[4..]);
    client.describe(&names);
    described(&mut client, &current);
    let recording = Recording::start(network, &relay, &names);
    let of = (&recording, &quiet[..], &*counter);
    let mut moments = vec![moment(&mut client, of)];

    let elements: Vec<String> = (0..2000).map(|element| element.to_string()).collect();
    puts(&mut ioc, "95", "after");
    client.put(&names[4], PutValue::TextArray(elements));
    client.wait_pv(&names[4], "2000 elements", |pv| {
        matches!(&pv.now, Some(now) if matches!(&now.value, Kept::Array(_, data) if data.len() == 16_000))
    });
    client.wait_number(&current, 95.0);
    moments.push(moment(&mut client, of));

    let prefix = ioc.prefix().to_owned();
    ioc.kill();
    for name in &names {
        client.wait_state(name, ConnectionState::Disconnected);
    }
    moments.push(moment(&mut client, of));
    let mut ioc = SoftIoc::with_prefix(network, &prefix, DATABASE, "");
    for name in &names {
        client.wait_state(name, ConnectionState::Connected);
    }
    puts(&mut ioc, "50", "again");
    client.wait_number(&current, 50.0);
    client.wait_pv(&names[3], "again", |pv| pv.is(&Kept::text("again")));
    described(&mut client, &current);
    moments.push(moment(&mut client, of));
    let (path, text) = recording.end();
    assert!(text.contains(" frames in "), "{text}");
    (path, moments, client, names)
}

fn replay(path: &Path, flags: &[&str]) -> (Relay, Client) {
    let file = format!("--replay={}", path.display());
    let own = [&file, "--enable-put", "--allow-put=*", "--replay-speed=10"];
    let relay = Relay::start(Network::new(), &[&own, flags].concat());
    let client = Client::connect(relay.address());
    (relay, client)
}

#[test]
fn replayed_run_shows_what_was_seen_live() {
    let (path, moments, live, names) = recorded_run();
    let (counter, quiet) = (&names[0], &names[1..]);
    let (first_ns, last_ns) = Reader::open(&path).unwrap().span_ns();
    let (_relay, mut client) = replay(&path, &[]);
    client.subscribe(&names);
    client.describe(&names);

    // Every update from the first moment on, in order, by another run from the begin.
    let done = |client: &mut Client, name, number| {
        let (outcome, message) = client.put_number(name, number);
        assert_eq!(outcome, Outcome::Done, "{message}");
    };
    client.subscribe_live(&["replay://position", "replay://speed"]);
    done(&mut client, "replay://position", 0.0);
    client.wait("the begin", |client| {
        let positions = client.pv("replay://position").numbers();
        positions.windows(2).any(|pair| pair[1] < pair[0])
    });
    client.wait_pv(&names[3], "the last text", |pv| pv.is(&Kept::text("again")));
    let length = (last_ns - first_ns) as f64 / 1e9;
    client.wait("the end", |client| {
        let position = client.pv("replay://position").now.as_ref();
        position.is_some_and(|now| matches!(now.value, Kept::Number(at) if at >= length - 0.002))
    });
    let begin_ns = moments[0].0;
    for name in &names {
        let (live, again) = (rows(&live, name, begin_ns), rows(&client, name, begin_ns));
        // The recorder ended a moment before or after the last updates that the live client has read.
        let last = |rows: &[Row]| rows.last().map_or(0, |(_, time_ns, _)| *time_ns);
        let end_ns = last(&live).min(last(&again));
        let until = |rows: Vec<Row>| -> Vec<_> {
            let rows = rows.into_iter();
            rows.filter(|(_, time_ns, _)| *time_ns <= end_ns).collect()
        };
        let (live, again) = (until(live), until(again));
        // The client has also seen a part of the run before the seek.
        assert!(
            again.ends_with(&live),
            "{name}: {again:?} has not the end {live:?}"
        );
        assert!(live.len() >= if name == counter { 10 } else { 1 }, "{name}");
        let states = client.pv(name).states.iter();
        assert!(
            states
                .clone()
                .any(|connection| connection.state == ConnectionState::Disconnected)
        );
    }

    // Each moment again, in another order, paused.
    done(&mut client, "replay://speed", 0.0);
    for index in [2, 0, 3, 2, 1] {
        let (at_ns, expected) = &moments[index];
        let before = client.pv(counter).rows.len();
        done(
            &mut client,
            "replay://position",
            (at_ns - first_ns) as f64 / 1e9,
        );
        client.wait(&format!("moment {index}"), |client| {
            all_seen(client, quiet) == *expected
        });
        // What was between the recorded state and this moment is not shown, and is no loss.
        let rows = client.pv(counter).rows.len() - before;
        assert!(rows <= 2, "moment {index}: {rows} updates of the counter");
    }
    assert_eq!(client.pv(counter).skipped_by(SkipCause::Relay), 0);
    let severity = |moment: &Moment| {
        moment.1[0]
            .as_ref()
            .unwrap()
            .value
            .as_ref()
            .unwrap()
            .2
            .severity
    };
    assert_eq!(
        [severity(&moments[0]), severity(&moments[1])],
        [Severity::NoAlarm, Severity::Major]
    );

    let (outcome, message) = client.put_number("replay://position", 1e9);
    assert_eq!(outcome, Outcome::BadValue, "{message}");
    let (outcome, message) = client.put_number("replay://speed", 101.0);
    assert_eq!(outcome, Outcome::BadValue, "{message}");
    let (outcome, message) = client.put_number(&names[1], 1.0);
    assert_eq!(
        (outcome, message.contains("recording")),
        (Outcome::NotSupported, true)
    );
    client.subscribe(&["OTHER"]);
    client.wait_state("OTHER", ConnectionState::NotFound);
    let reason = &client.pv("OTHER").metadata.as_ref().unwrap().missing_field;
    assert!(reason.contains("is not in the recording"), "{reason}");
    for name in &names {
        assert_exported(&path, &live, name, begin_ns);
    }
    fs::remove_file(path).unwrap();
}

/// Runs the command `export`; returns the new file, and whether it ended well with what it printed.
fn export(path: &Path, pv: &str) -> (PathBuf, Output) {
    let file = path.with_extension("mcap");
    let mut command = Command::new(relay_program());
    Network::new().apply(&mut command);
    command.arg("export").arg(path).arg(&file);
    let output = command.args(["--pv", pv]).output().unwrap();
    (file, output)
}

/// The exported messages of a PV have the updates that a live client has seen after a time, and that it was
/// disconnected.
fn assert_exported(path: &Path, live: &Client, name: &str, after_ns: i64) {
    let (file, output) = export(path, name);
    succeeds(&output);
    let read = Command::new(python())
        .arg(in_repository("testbed/python/read_mcap.py"))
        .arg(&file)
        .output()
        .unwrap();
    succeeds(&read);
    let (again, output) = export(path, name);
    assert!(!output.status.success(), "the file exists");
    fs::remove_file(again).unwrap();
    let lines = String::from_utf8(read.stdout).unwrap();
    let mut lines: Vec<Value> = (lines.lines())
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let statistics = lines.pop().unwrap();
    assert_eq!(statistics, json!({"messages": lines.len(), "channels": 1}));
    let states: Vec<_> = (lines.iter())
        .map(|line| line["message"]["connection"]["state"].as_str().unwrap())
        .collect();
    assert!(states.contains(&"disconnected"), "{name}: {states:?}");
    assert_eq!(states.last(), Some(&"connected"), "{name}: {states:?}");
    for (nth, pair) in lines.windows(2).enumerate() {
        assert!(pair[0]["log_ns"].as_u64() <= pair[1]["log_ns"].as_u64());
        assert_eq!(pair[1]["sequence"], nth + 1);
    }

    let updates = lines.iter().filter(|line| {
        line["topic"] == name && line["message"]["connection"]["state"] == "connected"
    });
    let shown = |line: &Value| {
        let message = &line["message"];
        let value = &message["value"];
        let shown = match (value["float"].as_f64(), value["array"].as_array()) {
            (Some(number), _) => json!(number),
            (None, Some(array)) => array
                .iter()
                .map(|element| json!(element.as_f64()))
                .collect(),
            (None, None) => value["text"].clone(),
        };
        let severity = message["status"]["severity"].clone();
        (line["publish_ns"].as_i64().unwrap(), shown, severity)
    };
    let mut exported: Vec<_> = updates
        .map(shown)
        .filter(|(time_ns, ..)| *time_ns > after_ns)
        .collect();
    exported.dedup();
    let seen = |(value, time_ns, alarm): &Row| {
        let value = match value {
            Kept::Number(number) => json!(number),
            Kept::Text(text) => json!(text),
            Kept::Array(_, data) => {
                let numbers = data.as_chunks().0.iter();
                numbers.map(|word| f64::from_le_bytes(*word)).collect()
            }
            other => panic!("{name}: {other:?}"),
        };
        let severity = match alarm.severity {
            Severity::NoAlarm => "NO_ALARM",
            Severity::Minor => "MINOR",
            Severity::Major => "MAJOR",
            Severity::Invalid => "INVALID",
        };
        (*time_ns, value, json!(severity))
    };
    let live: Vec<_> = rows(live, name, after_ns).iter().map(seen).collect();
    // The recorder ended a moment before or after the last updates that the live client has read.
    let common = live.len().min(exported.len());
    assert!(common >= 1, "{name}");
    assert_eq!(exported[..common], live[..common], "{name}");
}

#[test]
fn export_of_a_name_that_was_not_recorded_writes_no_file() {
    let network = Network::new();
    let relay = Relay::start(network, &["--enable-sim"]);
    let name = "sim://counter(rate_hz=50)".to_owned();
    let recording = Recording::start(network, &relay, std::slice::from_ref(&name));
    let (path, _) = recording.end();
    let (file, output) = export(&path, "OTHER");
    assert!(!output.status.success() && !file.exists());
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("OTHER is not in the recording"), "{text}");
    fs::write(&path, "no recording").unwrap();
    let (file, output) = export(&path, &name);
    assert!(!output.status.success() && !file.exists());
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("not a recording"), "{text}");
    fs::remove_file(path).unwrap();
}

#[test]
fn recording_is_looped_or_its_last_state_stays_and_a_torn_one_opens() {
    let network = Network::new();
    let relay = Relay::start(network, &["--enable-sim"]);
    let name = "sim://counter(rate_hz=50)".to_owned();
    let recording = Recording::start(network, &relay, std::slice::from_ref(&name));
    eventually("two seconds", || {
        let span = Reader::open(&recording.path).unwrap().span_ns();
        span.1 - span.0 > 2_000_000_000
    });
    let path = recording.path.clone();
    drop(recording);
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() - 7]).unwrap();
    let mut recorded = Reader::open(&path).unwrap();
    assert!(recorded.torn_bytes > 0);
    let mut chunks = 0;
    while let Some(items) = recorded.next_items().unwrap() {
        assert!(!items.is_empty());
        chunks += 1;
    }
    assert!(chunks >= 1, "{chunks}");

    let (relay, mut client) = replay(&path, &[]);
    relay.says("bytes are not whole");
    client.subscribe_live(std::slice::from_ref(&name));
    client.subscribe_live(&["replay://position"]);
    let (first_ns, last_ns) = recorded.span_ns();
    let length = (last_ns - first_ns) as f64 / 1e9;
    client.wait("the end", |client| {
        let position = client.pv("replay://position").now.as_ref();
        position.is_some_and(|now| matches!(now.value, Kept::Number(at) if at >= length - 0.002))
    });
    let last = client.pv(&name).now.clone().unwrap();
    assert_eq!(client.pv(&name).state(), ConnectionState::Connected);
    let (_relay, mut client) = replay(&path, &["--replay-loop"]);
    client.subscribe_live(std::slice::from_ref(&name));
    client.wait("the last value twice", |client| {
        let rows = client.pv(&name).rows.iter();
        rows.filter(|row| row.value == last.value && row.time_ns == last.time_ns)
            .count()
            >= 2
    });
    fs::remove_file(path).unwrap();
}
