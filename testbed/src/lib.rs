//! IOCs, relays, networks and a client of the relay for the tests of this workspace.
//!
//! Everything listens on loopback with private ports and PV prefixes, is waited for by a line
//! that it prints, and is killed by process id when it is dropped.

#[cfg(feature = "client")]
mod archiver;
#[cfg(feature = "client")]
mod client;
#[cfg(feature = "client")]
mod disk;
pub mod fake_pva;
#[cfg(feature = "client")]
mod http;
mod ioc;
#[cfg(feature = "client")]
mod line;
mod lying;
mod nats;
mod network;
mod other_makers;
mod ports;
mod process;
#[cfg(feature = "client")]
mod pva_gateway;
pub mod random;
pub mod records;
#[cfg(feature = "client")]
mod relay;
#[cfg(feature = "client")]
mod truth;
mod wire;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

#[cfg(feature = "client")]
pub use archiver::ArchiverServer;
#[cfg(feature = "client")]
pub use client::{Client, Fetching, How, Kept, Message, Pv, RowSeen, Stream, connect_all, keep_up};
#[cfg(feature = "client")]
pub use disk::Disk;
#[cfg(feature = "client")]
pub use http::{Answer, get, get_by, handshake, handshake_at, raw, try_get};
pub use ioc::SoftIoc;
#[cfg(feature = "client")]
pub use line::{Line, Pair, Trust};
pub use lying::{LIES, LyingServer};
pub use nats::NatsServer;
pub use nats::{NatsClient, NatsMessage};
pub use network::{Network, prefix};
pub use other_makers::{FormServer, Maker, OtherServer, SHAPES, StructureServer};
pub use ports::free_port;
#[cfg(feature = "client")]
pub use pva_gateway::PvaGateway;
#[cfg(feature = "client")]
pub use relay::{
    Relay, Threads, relay_command, relay_command_with_hosts, relay_command_with_limit,
    relay_command_with_small_disk, relay_program,
};
#[cfg(feature = "client")]
pub use truth::{Told, Truth};
pub use wire::Wire;

/// Longer than anything here takes on a busy machine; only a failure reaches it.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// The path of a file in this process's folder for the tests' files: the same program may run
/// several times at once.
pub fn in_tmp(name: &str) -> PathBuf {
    let folder = build_folder().parent().unwrap().join("tmp");
    let folder = folder.join(std::process::id().to_string());
    std::fs::create_dir_all(&folder).unwrap();
    folder.join(name)
}

/// Writes a file for a test.
pub fn file(name: &str, text: &str) -> PathBuf {
    let path = in_tmp(name);
    std::fs::write(&path, text).unwrap();
    path
}

/// A file of this repository.
pub fn in_repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

/// The folder of the programs built with this one: `target/debug`, say.
pub(crate) fn build_folder() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folder = test.parent().unwrap();
    let is_test = folder.ends_with("deps");
    (if is_test {
        folder.parent().unwrap()
    } else {
        folder
    })
    .to_owned()
}

/// The Python that has the servers' packages, found as the build script finds it.
pub fn python() -> PathBuf {
    if let Some(python) = std::env::var_os("PVWIRE_PYTHON") {
        return PathBuf::from(python);
    }
    let ours = in_repository(".local/venv/bin/python");
    if ours.exists() {
        ours
    } else {
        PathBuf::from("python3")
    }
}

/// Prometheus's tool that checks metrics and alerts; `make setup` installs it.
pub fn promtool() -> PathBuf {
    let ours = in_repository(".local/prometheus/promtool");
    if ours.exists() {
        ours
    } else {
        PathBuf::from("promtool")
    }
}

/// Waits until `done`, where there is no event to wait for. The longer it takes, the less often it
/// looks, so that waiting leaves the processor to what it waits for.
pub fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        let waited = start.elapsed();
        assert!(waited < DEADLINE, "never: {what}");
        thread::sleep((waited / 20).clamp(SHORTEST_PAUSE, LONGEST_PAUSE));
    }
}

/// Checks that a program has succeeded, and shows what it printed otherwise.
pub fn succeeds(output: &Output) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, error) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{out}{error}");
}

/// How long [`eventually`] sleeps between two looks.
const SHORTEST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// Attempts in which a promise about time may be kept.
const ATTEMPTS: usize = 10;

/// Checks a promise about time: repeats the attempt, which returns how long it took, until one took
/// less than the limit. A busy machine delays some attempts; a slow program delays all of them.
/// Where programs wait for a core all the time, the limit is twice as long.
pub fn within(limit: Duration, what: &str, mut attempt: impl FnMut() -> Duration) {
    let mut slow = Vec::new();
    while slow.len() < ATTEMPTS {
        let busy = watch_cores();
        let took = attempt();
        if took < limit.mul_f64(1.0 + busy()) {
            return;
        }
        slow.push(took);
    }
    panic!("{what}: in none of the attempts within {limit:?}: {slow:?}");
}

/// Starts to watch the machine's cores. What is returned says for which share of the time since then, 0 to 1, a program
/// waited for a core.
pub fn watch_cores() -> impl Fn() -> f64 {
    let (begun, before) = (Instant::now(), waited_for_cores());
    move || {
        let waited = waited_for_cores().saturating_sub(before);
        waited.div_duration_f64(begun.elapsed()).min(1.0)
    }
}

/// For how long a program of the machine has waited for a core; zero where the kernel doesn't count that.
fn waited_for_cores() -> Duration {
    let pressure = fs::read_to_string("/proc/pressure/cpu").unwrap_or_default();
    let some = pressure.lines().find(|line| line.starts_with("some"));
    let total = some.and_then(|line| line.split_once("total="));
    let micros = total.and_then(|(_, micros)| micros.parse().ok());
    micros.map_or(Duration::ZERO, Duration::from_micros)
}

/// Sends a signal to a process that the test started. After STOP all its threads have stopped: on a busy
/// machine some run on for a while.
pub fn signal(process: u32, name: &str) {
    let sent = Command::new("kill")
        .args([format!("-{name}"), process.to_string()])
        .status();
    assert!(sent.unwrap().success(), "kill -{name} {process}");
    if name == "STOP" {
        eventually("the process has stopped", || has_stopped(process));
    }
}

fn has_stopped(process: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    threads.flatten().all(|thread| {
        // The state follows the name, which may contain anything, in parentheses.
        let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        let state = stat.rsplit(") ").next().unwrap_or_default();
        // A thread that has just ended has none.
        state.is_empty() || state.starts_with(['T', 'Z', 'X'])
    })
}
