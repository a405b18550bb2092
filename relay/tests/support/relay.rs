//! A relay of a test: the real program as a process of its own.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use super::{DEADLINE, Network, Trust, signal};

/// The relay's command with this network, not yet started.
pub(crate) fn relay_command(network: Network) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pvwire-relay"));
    network.apply(&mut command);
    command
        .stdin(Stdio::null())
        .env("PVWIRE_ENABLE_SIM", "true");
    command
}

/// The same where the machine's list of hosts is this file, whose content may change. Needs the right to
/// mount: root's, or that of user namespaces.
pub(crate) fn relay_command_with_hosts(network: Network, hosts: &Path) -> Command {
    const MOUNT: &str = r#"mount --bind "$0" /etc/hosts && exec "$@""#;
    let relay = relay_command(network);
    let may = |flags: &&str| {
        let mut command = Command::new("unshare");
        command.args([flags, "sh", "-c", MOUNT]).arg(hosts);
        let tried = command.arg("true").output();
        tried.is_ok_and(|output| output.status.success())
    };
    // A mount namespace, by itself or with a user who may mount in it.
    let Some(flags) = ["-m", "-rm"].into_iter().find(may) else {
        panic!(
            "this test gives the relay a /etc/hosts of its own by unshare(1) and mount(8), and this machine \
             lets neither root nor a user namespace do that"
        );
    };
    let mut command = Command::new("unshare");
    network.apply(&mut command);
    command.stdin(Stdio::null());
    command.args([flags, "sh", "-c", MOUNT]).arg(hosts);
    command.arg(relay.get_program());
    command
}

/// A running relay, killed when dropped; what it wrote is shown when the test fails.
pub(crate) struct Relay {
    process: Child,
    address: SocketAddr,
    output: Arc<Mutex<String>>,
}

impl Relay {
    /// Starts a relay with these flags and waits until it listens.
    pub(crate) fn start(network: Network, flags: &[&str]) -> Self {
        Self::spawn(relay_command(network), flags)
    }

    /// The same from a command that was prepared already.
    pub(crate) fn spawn(command: Command, flags: &[&str]) -> Self {
        Self::spawn_at(command, "127.0.0.1:0", flags)
    }

    /// The same, listening at another address.
    pub(crate) fn spawn_at(mut command: Command, listen: &str, flags: &[&str]) -> Self {
        let mut process = command
            .args(["--listen", listen])
            .args(flags)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let output = Arc::new(Mutex::new(String::new()));
        let lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let (listening, listens) = mpsc::channel();
        let seen = Arc::clone(&output);
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let listening_on = line.split_once("listening on ");
                if let Some((_, address)) = listening_on.and_then(|(_, on)| on.split_once("://")) {
                    let _ = listening.send(address.parse::<SocketAddr>());
                }
                let mut seen = seen.lock().unwrap();
                seen.push_str(&line);
                seen.push('\n');
            }
        });
        match listens.recv_timeout(DEADLINE) {
            Ok(Ok(address)) => Self {
                process,
                address,
                output,
            },
            other => {
                let _ = process.kill();
                let _ = process.wait();
                panic!(
                    "the relay doesn't listen ({other:?}):\n{}",
                    seen_in(&output)
                );
            }
        }
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it has written so far.
    pub(crate) fn output(&self) -> String {
        seen_in(&self.output)
    }

    /// What the system says of it in this file of its folder in `/proc`.
    pub(crate) fn proc(&self, file: &str) -> String {
        let path = format!("/proc/{}/{file}", self.process.id());
        std::fs::read_to_string(path).unwrap()
    }

    /// Memory that it occupies.
    pub(crate) fn resident_bytes(&self) -> usize {
        let status = self.proc("status");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes = line.unwrap().trim().trim_end_matches(" kB");
        kilobytes.parse::<usize>().unwrap() << 10
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, name: &str) {
        signal(self.process.id(), name);
    }

    /// Whether it still runs.
    pub(crate) fn runs(&mut self) -> bool {
        self.process.try_wait().unwrap().is_none()
    }

    /// Waits for its end, at most so long.
    pub(crate) fn wait_end(&mut self, at_most: Duration) -> ExitStatus {
        let deadline = Instant::now() + at_most;
        loop {
            if let Some(status) = self.process.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "the relay runs on");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// One metric's value, summed over its labels.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        self.metric_by(None, name)
    }

    /// The same of a relay that speaks TLS.
    pub(crate) fn metric_by(&self, trust: Option<Trust>, name: &str) -> f64 {
        let text = super::get_by(trust, self.address, "/metrics", &[]).body;
        text.lines()
            .filter_map(|line| {
                let (key, value) = line.rsplit_once(' ')?;
                let is_it = key == name || key.split('{').next()? == name;
                is_it.then(|| value.parse::<f64>().unwrap())
            })
            .sum()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        if thread::panicking() {
            eprintln!("--- the relay wrote:\n{}", seen_in(&self.output));
        }
    }
}

fn seen_in(output: &Mutex<String>) -> String {
    output.lock().map_or_else(
        |poisoned| poisoned.into_inner().clone(),
        |output| output.clone(),
    )
}
