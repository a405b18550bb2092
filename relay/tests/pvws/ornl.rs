//! ORNL's own client, pvws.js, unmodified, through the restart of the IOC and of the relay; and the relay's client
//! with the same interface.
//!
//! The set-up installs ORNL's from the Python package `nova-epics` (tools/pvws_clients.txt); Node runs both.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use serde_json::{Value, json};
use testbed::{DEADLINE, Network, Relay, SoftIoc, free_port, in_repository, prefix, relay_command};

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
