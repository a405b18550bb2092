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
