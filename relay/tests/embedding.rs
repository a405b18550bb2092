//! The example program that embeds the client's engine reads a real IOC's PVs by a real relay.
//!
//! Topology: one soft IOC, one relay, the example as a process.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Instant;

use testbed::{DEADLINE, Network, Relay, SoftIoc, in_repository};

/// A running example and the lines that it prints.
struct Example {
    process: Child,
    lines: Receiver<String>,
}

impl Example {
    fn start(relay: &Relay, names: &[String]) -> Self {
        let url = format!("ws://{}/ws", relay.address());
        let mut process = Command::new(program())
            .arg(url)
            .args(names)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let printed = BufReader::new(process.stdout.take().unwrap());
        let (line, lines) = channel();
        thread::spawn(move || {
            printed
                .lines()
                .map_while(Result::ok)
                .try_for_each(|each| line.send(each))
        });
        Self { process, lines }
    }

    /// Waits for a line.
    fn prints(&self, expected: &str) {
        let deadline = Instant::now() + DEADLINE;
        let mut seen = Vec::new();
        while seen.last().is_none_or(|line| line != expected) {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => seen.push(line),
                Err(_) => panic!("never printed {expected:?}, but {seen:#?}"),
            }
        }
    }
}

impl Drop for Example {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The example, built if it isn't.
fn program() -> PathBuf {
    let built = Command::new(env!("CARGO"))
        // The same packages as the test run, so that the example has the same features and is built already.
        .args(["build", "--quiet", "--locked", "--workspace"])
        .args(["--bin", "read-pvs", "--message-format", "json"])
        .current_dir(in_repository("."))
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    assert!(built.status.success(), "the example can't be built");
    let said = String::from_utf8(built.stdout).unwrap();
    let executable = said.lines().find_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        let is_example = message["target"]["name"] == "read-pvs";
        let path = message["executable"].as_str().filter(|_| is_example)?;
        Some(PathBuf::from(path))
    });
    executable.unwrap()
}

#[test]
fn example_prints_a_selection_of_pvs_as_they_change() {
    let network = Network::new();
    let mut ioc = SoftIoc::start(
        network,
        r#"
        record(ao, "$(P)ao") {
            field(VAL, "21.5") field(EGU, "mA") field(PREC, "2") field(PINI, "YES")
            field(HIGH, "30") field(HSV, "MINOR")
        }
        record(bo, "$(P)bo") { field(ZNAM, "off") field(ONAM, "on") field(PINI, "YES") }
        "#,
    );
    let relay = Relay::start(network, &[]);
    let [ao, bo] = ioc.names(["ao", "bo"]);
    let formula = format!("=`{ao}` * 2");
    let names = [ao, bo, formula];
    let example = Example::start(&relay, &names);
    let line = |pv: usize, text: &str, severity: &str, state: &str| {
        format!(
            "{} {{\"value\":{{\"string\":\"{text}\"}},\"status\":{{\"severity\":\"{severity}\"}},\
             \"connection\":{{\"state\":\"{state}\"}}}}",
            names[pv]
        )
    };
    example.prints(&line(0, "21.50 mA", "NO_ALARM", "connected"));
    example.prints(&line(2, "43", "NO_ALARM", "connected"));
    ioc.put("bo", "1");
    example.prints(&line(1, "on", "NO_ALARM", "connected"));
    ioc.put("ao", "30.25");
    example.prints(&line(0, "30.25 mA", "MINOR", "connected"));
    example.prints(&line(2, "60.5", "MINOR", "connected"));
    ioc.kill();
    example.prints(&line(0, "30.25 mA", "MINOR", "disconnected"));
    example.prints(&line(2, "60.5", "MINOR", "disconnected"));
}
