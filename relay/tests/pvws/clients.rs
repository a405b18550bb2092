//! Clients as their users have them, unmodified, through the restart of the IOC and of the relay: ORNL's own client,
//! pvws.js; the relay's client with the same interface; and Python scripts as facilities have them, with the library
//! `websockets`.
//!
//! The set-up installs ORNL's from the Python package `nova-epics` (tools/pvws_clients.txt); Node runs both.

use std::cell::RefCell;
use std::collections::HashSet;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use serde_json::{Value, json};
use testbed::{
    DEADLINE, Network, Relay, SoftIoc, free_port, in_repository, prefix, python, relay_command,
};

use super::client::Pvws;

const DATABASE: &str = r#"
record(ao, "$(P)ao") { field(VAL, "2.5") field(EGU, "V") field(PREC, "2") field(PINI, "YES") }
record(mbbo, "$(P)enum") { field(VAL, "1") field(ZRST, "off") field(ONST, "on") field(PINI, "YES") }
record(stringout, "$(P)text") { field(VAL, "hello") field(PINI, "YES") }
record(waveform, "$(P)wave") { field(FTVL, "SHORT") field(NELM, "4") field(INP, [1, -2]) field(PINI, "YES") }
"#;

/// The client in a separate process, which is killed when this value is dropped.
struct Ornl {
    process: Child,
    calls: ChildStdin,
    said: Receiver<Value>,
}

impl Ornl {
    /// The files are in `folder`.
    fn start(folder: &str, url: &str) -> Self {
        let folder = in_repository(folder);
        assert!(
            folder.join("pvws.js").exists(),
            "make setup installs {}",
            folder.display()
        );
        let mut process = Command::new("node")
            .arg("--experimental-websocket")
            .arg("--no-warnings")
            .arg(in_repository("relay/tests/pvws/ornl.mjs"))
            .args([folder.to_str().unwrap(), url])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let calls = process.stdin.take().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        let (say, said) = channel();
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if say.send(serde_json::from_str(&line).unwrap()).is_err() {
                    break;
                }
            }
        });
        Self {
            process,
            calls,
            said,
        }
    }

    fn call(&mut self, call: &Value) {
        writeln!(self.calls, "{call}").unwrap();
    }

    fn wait(&self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let mut seen = Vec::new();
        loop {
            match self.said.recv_timeout(DEADLINE) {
                Ok(said) if fits(&said) => return said,
                Ok(said) => seen.push(said),
                Err(error) => panic!("never: {what}: {error}; {seen:#?}"),
            }
        }
    }
}

impl Drop for Ornl {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn pvws_js_of_ornl_shows_and_writes_through_restarts() {
    shows_and_writes_through_restarts(".local/pvws-clients/nova/epics/assets/epics");
}

#[test]
fn pvws_js_of_the_relay_shows_and_writes_through_restarts() {
    shows_and_writes_through_restarts("relay/src/doors/pvws/site");
}

fn shows_and_writes_through_restarts(folder: &str) {
    let (network, prefix) = (Network::new(), prefix());
    let mut ioc = SoftIoc::with_pv_access(network, &prefix, DATABASE);
    let listen = format!("127.0.0.1:{}", free_port());
    let more = ["--pvws", "--enable-put", "--allow-put", "*"];
    let start = || Relay::spawn_at(relay_command(network), &listen, &more);
    let relay = start();
    let mut client = Ornl::start(folder, &format!("ws://{listen}/pvws/pv"));
    client.wait("the connection", |said| *said == true);
    let ca = ["ao", "enum", "text", "wave"].map(|record| format!("{prefix}{record}"));
    let pva = format!("pva://{prefix}ao");
    client.call(&json!(["subscribe", ca]));
    client.call(&json!(["subscribe", [pva]]));
    let is_right = |update: &Value, name: &str, key: &str, value: &Value| {
        update["pv"] == *name && update[key] == *value && update["readonly"] == false
    };
    let all = [
        (&ca[0], "value", json!(2.5), json!("VDouble")),
        (&ca[1], "text", json!("on"), json!("VEnum")),
        (&ca[2], "text", json!("hello"), json!("VString")),
        (&ca[3], "value", json!([1, -2]), json!("VShortArray")),
        (&pva, "value", json!(2.5), json!("VDouble")),
    ];
    let shows_all = |client: &Ornl| {
        let mut missing: Vec<_> = all.iter().collect();
        while !missing.is_empty() {
            let update = client.wait(&format!("{missing:?}"), |said| said["pv"].is_string());
            missing.retain(|(name, key, value, vtype)| {
                !(is_right(&update, name, key, value) && update["vtype"] == *vtype)
            });
        }
    };
    shows_all(&client);

    client.call(&json!(["write", ca[0], 7]));
    client.wait("the value", |update| {
        is_right(update, &ca[0], "value", &json!(7))
    });
    client.call(&json!(["write", ca[1], "nosuch"]));
    client.wait("an error", |said| said["type"] == "error");
    ioc.put("ao", "2.5");
    client.wait("the value", |update| {
        is_right(update, &ca[0], "value", &json!(2.5))
    });

    ioc.kill();
    client.wait("the loss", |update| {
        update["pv"] == *ca[0] && update["value"] == "NaN" && update["severity"] == "INVALID"
    });
    let _ioc = SoftIoc::with_pv_access(network, &prefix, DATABASE);
    shows_all(&client);

    drop(relay);
    client.wait("the end of the connection", |said| *said == false);
    let _relay = start();
    client.wait("the connection", |said| *said == true);
    shows_all(&client);
    client.call(&json!(["list"]));
    let list = client.wait("the list", |said| said["type"] == "list");
    assert_eq!(list["pvs"].as_array().unwrap().len(), 5);
}

#[test]
fn pvws_js_of_ornl_shows_the_class_in_which_a_pv_comes_back() {
    shows_the_class_in_which_a_pv_comes_back(".local/pvws-clients/nova/epics/assets/epics");
}

#[test]
fn pvws_js_of_the_relay_shows_the_class_in_which_a_pv_comes_back() {
    shows_the_class_in_which_a_pv_comes_back("relay/src/doors/pvws/site");
}

/// An IOC restarts with records of another class under the same name. Displays show the text if there is one, otherwise
/// the value; the value of a text stays `NaN`.
fn shows_the_class_in_which_a_pv_comes_back(folder: &str) {
    let (network, prefix) = (Network::new(), prefix());
    let relay = Relay::start(network, &["--pvws", "--pvws-throttle-ms=0"]);
    let url = format!("ws://{}/pvws/pv", relay.address());
    let mut client = Ornl::start(folder, &url);
    client.wait("the connection", |said| *said == true);
    let pv = format!("{prefix}x");
    client.call(&json!(["subscribe", [pv]]));
    let number = r#"ao, "$(P)x") { field(VAL, "2.5") field(PREC, "1")"#;
    let array = r#"waveform, "$(P)x") { field(FTVL, "SHORT") field(NELM, "4") field(INP, [1, -2])"#;
    let text = r#"stringout, "$(P)x") { field(VAL, "hello")"#;
    let label = r#"bo, "$(P)x") { field(VAL, "1") field(ZNAM, "off") field(ONAM, "on")"#;
    let is_number = |update: &Value, shown: &str| {
        update["value"] == 2.5 && update["text"].as_str().is_none_or(|text| text == shown)
    };
    let is_array = |update: &Value, shown: &str| {
        update["value"] == json!([1, -2])
            && update["text"].as_str().is_none_or(|text| text == shown)
    };
    let is_text = |update: &Value, shown: &str| {
        update["text"] == shown && matches!(update["value"].as_str(), None | Some("NaN"))
    };
    let is_label = |update: &Value, shown: &str| update["text"] == shown && update["value"] == 1;
    type Fits<'a> = &'a dyn Fn(&Value, &str) -> bool;
    let classes: [(&str, &str, &str, Fits<'_>); 4] = [
        (number, "2.5", "VDouble", &is_number),
        (array, "1, -2", "VShortArray", &is_array),
        (text, "hello", "VString", &is_text),
        (label, "on", "VEnum", &is_label),
    ];
    // Each class follows each other one.
    for at in [0, 1, 0, 2, 1, 2, 0, 3, 1, 3, 2, 3, 0] {
        let (record, shown, vtype, fits) = classes[at];
        let database = format!("record({record} field(PINI, \"YES\") }}");
        let ioc = SoftIoc::with_prefix(network, &prefix, &database, "");
        client.wait(record, |update| {
            let is_of_class = update["vtype"] == vtype && update["severity"] == "NONE";
            is_of_class && fits(update, shown)
        });
        ioc.kill();
        client.wait("the loss", |update| update["severity"] == "INVALID");
    }
}

const FOR_SCRIPTS: &str = r#"
record(ao, "$(P)ao") { field(VAL, "2.5") field(EGU, "V") field(PREC, "2") field(PINI, "YES") }
record(longout, "$(P)long") { field(VAL, "-7") field(PINI, "YES") }
record(mbbo, "$(P)enum") { field(VAL, "1") field(ZRST, "off") field(ONST, "on") field(PINI, "YES") }
record(stringout, "$(P)text") { field(VAL, "hello") field(PINI, "YES") }
"#;

/// What a script takes for the value of each record.
const VALUES: [(&str, &str); 4] = [
    ("ao", "2.5"),
    ("long", "-7"),
    ("enum", "on"),
    ("text", "hello"),
];

/// A running script, which is killed when this value is dropped.
struct Script {
    process: Child,
    lines: Receiver<String>,
}

impl Script {
    fn start(how: &str, listen: &str, name: &str) -> Self {
        let installed = in_repository(".local/pvws-clients");
        assert!(
            installed.join("websockets").exists(),
            "make setup installs {}",
            installed.display()
        );
        let mut process = Command::new(python())
            .arg(in_repository("relay/tests/pvws/script.py"))
            .args([how, &format!("ws://{listen}/pvws/pv"), name])
            .env("PYTHONPATH", installed)
            .env("WEBSOCKETS_BACKOFF_INITIAL_DELAY", "0.1")
            .env("WEBSOCKETS_BACKOFF_MIN_DELAY", "0.1")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        let (say, lines) = channel();
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if say.send(line).is_err() {
                    break;
                }
            }
        });
        Self { process, lines }
    }

    fn next_line(&self) -> String {
        self.lines.recv_timeout(DEADLINE).expect("a line in time")
    }

    fn wait(&self, line: &str) {
        while self.next_line() != line {}
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Both spellings of each record, with the value that a script takes.
fn expected(prefix: &str) -> Vec<(String, &'static str)> {
    let spelled =
        |scheme| VALUES.map(|(record, value)| (format!("{scheme}{prefix}{record}"), value));
    [spelled(""), spelled("pva://")].concat()
}

/// Waits for an update of each PV that fits.
fn wait_all(holder: &mut Pvws, pvs: &[(String, &str)], fits: impl Fn(&Value) -> bool) {
    let left: HashSet<_> = pvs.iter().map(|(name, _)| name.clone()).collect();
    let left = RefCell::new(left);
    holder.until("an update of each PV", |update| {
        if fits(update) {
            left.borrow_mut().remove(update["pv"].as_str().unwrap());
        }
        left.borrow().is_empty()
    });
}

#[test]
fn first_update_of_each_pv_is_its_value_for_python_scripts() {
    let (network, prefix) = (Network::new(), prefix());
    let ioc = SoftIoc::with_pv_access(network, &prefix, FOR_SCRIPTS);
    let listen = format!("127.0.0.1:{}", free_port());
    let expected = expected(&prefix);
    // A PV that isn't connected within a quarter of a second has a message without a value, and a busy machine may need
    // longer at first: another client holds the PVs.
    let start = || {
        let relay = Relay::spawn_at(relay_command(network), &listen, &["--pvws"]);
        let mut holder = Pvws::connect(&relay);
        for (name, _) in &expected {
            holder.subscribe(&[name]);
            holder.update(name, "its value", |update| update["vtype"].is_string());
        }
        (relay, holder)
    };
    let ask_all = || -> Vec<_> {
        let script = |(name, _): &(String, _)| Script::start("first", &listen, name);
        expected.iter().map(script).collect()
    };
    let are_right = |scripts: &[Script]| {
        for (script, (name, value)) in scripts.iter().zip(&expected) {
            assert_eq!(script.next_line(), *value, "{name}");
        }
    };
    let (relay, mut holder) = start();
    are_right(&ask_all());

    ioc.kill();
    wait_all(&mut holder, &expected, |update| {
        update["severity"] == "INVALID"
    });
    // As with PVWS itself, a script sees that there is no value.
    for script in ask_all() {
        assert_eq!(script.next_line(), "None");
    }
    let _ioc = SoftIoc::with_pv_access(network, &prefix, FOR_SCRIPTS);
    wait_all(&mut holder, &expected, |update| update["vtype"].is_string());
    are_right(&ask_all());

    drop((relay, holder));
    let _relay = start();
    are_right(&ask_all());
}

#[test]
fn python_script_follows_a_pv_over_restarts() {
    let (network, prefix) = (Network::new(), prefix());
    let ioc = SoftIoc::with_prefix(network, &prefix, FOR_SCRIPTS, "");
    let listen = format!("127.0.0.1:{}", free_port());
    let start = || Relay::spawn_at(relay_command(network), &listen, &["--pvws"]);
    let relay = start();
    let script = Script::start("follow", &listen, &format!("{prefix}ao"));
    script.wait("2.5");
    ioc.kill();
    script.wait("NaN");
    let mut ioc = SoftIoc::with_prefix(network, &prefix, FOR_SCRIPTS, "");
    script.wait("2.5");
    ioc.put("ao", "3");
    script.wait("3.0");
    drop(relay);
    ioc.put("ao", "4");
    let _relay = start();
    script.wait("4.0");
}
