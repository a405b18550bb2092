//! What clients get over a network with a round trip: two network namespaces and a line with a
//! delay.
//!
//! Topology: this program at one end, run again by tools/delayed_network.py; a relay with its own
//! generators at the other.

use std::collections::VecDeque;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use testbed::{Client, DEADLINE, Network, Relay, python, relay_command};

/// The far end of the line, where the relay runs.
const FAR_END: &str = "10.203.0.2:0";

/// Exit status of tools/delayed_network.py if network namespaces can't be created.
const IMPOSSIBLE: i32 = 77;

/// Runs the body of this test with a round trip between it and what it starts by `DELAYED_FAR_END`,
/// or says that this machine can't.
fn over_a_delay(test: &str, round_trip_ms: u32, body: impl FnOnce(Command)) {
    if let Ok(words) = std::env::var("DELAYED_FAR_END") {
        let mut words = words.split_whitespace();
        let mut command = Command::new(words.next().unwrap());
        command.args(words);
        return body(command);
    }
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tools/delayed_network.py");
    let output = Command::new(python())
        .arg(program)
        .arg(round_trip_ms.to_string())
        .arg(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let why = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(IMPOSSIBLE) {
        // Not by eprintln, whose output the test harness captures.
        let line = format!("\nNOT RUN: {test}: {}\n", why.trim());
        std::io::stderr().write_all(line.as_bytes()).unwrap();
        return;
    }
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{test} failed:\n{said}{why}"
    );
}

/// `command`, which runs a program at the far end, with a relay as that program.
fn far_relay(mut command: Command) -> Relay {
    let relay = relay_command(Network::new());
    command.arg(relay.get_program());
    for (name, value) in relay.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    Relay::spawn_at(command, FAR_END, &["--allow-anonymous"])
}

#[test]
fn large_values_come_at_10_hz_over_a_round_trip_of_30_ms() {
    over_a_delay(
        "delay::large_values_come_at_10_hz_over_a_round_trip_of_30_ms",
        30,
        |command| {
            const NAME: &str = "sim://waveform(size=100000,rate_hz=10)";
            let relay = far_relay(command);
            let mut client = Client::connect(relay.address());
            client.subscribe_live(&[NAME]);
            // 8 MB/s. With 64 KiB for each round trip there were 4 MB/s, on the fastest machine,
            // so that ten values took 2 s. A busy machine reaches the rate only at times.
            const VALUES: usize = 10;
            let deadline = Instant::now() + DEADLINE;
            let (mut came, mut shortest) = (VecDeque::new(), Duration::MAX);
            while shortest > Duration::from_millis(1_500) {
                assert!(
                    Instant::now() < deadline,
                    "{VALUES} values took {shortest:?} at least"
                );
                client.forget_history();
                client.read_for_a_moment();
                if client.pv(NAME).rows.is_empty() {
                    continue;
                }
                came.push_back(Instant::now());
                if came.len() > VALUES {
                    let first = came.pop_front().unwrap();
                    shortest = shortest.min(first.elapsed());
                }
            }
        },
    );
}
