//! Python scripts as facilities have them, with the library `websockets`, through the restart of the IOC and of
//! the relay.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use testbed::{
    DEADLINE, Network, Relay, SoftIoc, eventually, free_port, in_repository, prefix, python,
    relay_command,
};

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

#[test]
fn first_update_of_each_pv_is_its_value_for_python_scripts() {
    let (network, prefix) = (Network::new(), prefix());
    let ioc = SoftIoc::with_pv_access(network, &prefix, DATABASE);
    let listen = format!("127.0.0.1:{}", free_port());
    // A PV that is not found has a message without a value: the scripts are to wait for the IOC instead.
    let more = ["--pvws", "--not-found-after-ms", "600000"];
    let start = || Relay::spawn_at(relay_command(network), &listen, &more);
    let expected = expected(&prefix);
    let ask_all = || -> Vec<_> {
        let script = |(name, _): &(String, _)| Script::start("first", &listen, name);
        expected.iter().map(script).collect()
    };
    let are_right = |scripts: &[Script]| {
        for (script, (name, value)) in scripts.iter().zip(&expected) {
            assert_eq!(script.next_line(), *value, "{name}");
        }
    };
    let relay = start();
    are_right(&ask_all());

    ioc.kill();
    let asked = ask_all();
    eventually("all scripts wait", || {
        relay.metric("pvwire_sessions_active") == asked.len() as f64
    });
    let _ioc = SoftIoc::with_pv_access(network, &prefix, DATABASE);
    are_right(&asked);

    drop(relay);
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
    assert_eq!(script.next_line(), "2.5");
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
