//! Python scripts as facilities have them, with the library `websockets`, through the restart of the IOC and of
//! the relay.

use std::cell::RefCell;
use std::collections::HashSet;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use serde_json::Value;
use testbed::{
    DEADLINE, Network, Relay, SoftIoc, free_port, in_repository, prefix, python, relay_command,
};

use super::client::Pvws;

const DATABASE: &str = r#"
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
    let ioc = SoftIoc::with_pv_access(network, &prefix, DATABASE);
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
    let _ioc = SoftIoc::with_pv_access(network, &prefix, DATABASE);
    wait_all(&mut holder, &expected, |update| update["vtype"].is_string());
    are_right(&ask_all());

    drop((relay, holder));
    let _relay = start();
    are_right(&ask_all());
}

#[test]
fn python_script_follows_a_pv_over_restarts() {
    let (network, prefix) = (Network::new(), prefix());
    let ioc = SoftIoc::with_prefix(network, &prefix, DATABASE, "");
    let listen = format!("127.0.0.1:{}", free_port());
    let start = || Relay::spawn_at(relay_command(network), &listen, &["--pvws"]);
    let relay = start();
    let script = Script::start("follow", &listen, &format!("{prefix}ao"));
    script.wait("2.5");
    ioc.kill();
    script.wait("NaN");
    let mut ioc = SoftIoc::with_prefix(network, &prefix, DATABASE, "");
    script.wait("2.5");
    ioc.put("ao", "3");
    script.wait("3.0");
    drop(relay);
    ioc.put("ao", "4");
    let _relay = start();
    script.wait("4.0");
}
