//! The real relay as a process of a test.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use super::{DEADLINE, Network, Trust, build_folder, signal};

/// The relay that was built with the tests, or `PVWIRE_RELAY`.
pub fn relay_program() -> PathBuf {
    let given = std::env::var_os("PVWIRE_RELAY").map(PathBuf::from);
    given.unwrap_or_else(|| build_folder().join("pvwire-relay"))
}

/// The relay's command with this network, not yet started.
///
/// A client of a test reads and acknowledges only while the test waits for it, and the test may be
/// doing something else for longer than the usual times. Flags set other times.
pub fn relay_command(network: Network) -> Command {
    let mut command = Command::new(relay_program());
    network.apply(&mut command);
    command
        .stdin(Stdio::null())
        .env("PVWIRE_ACK_WINDOW_MS", "60000")
        .env("PVWIRE_EVICT_AFTER_MS", "60000")
        .env("PVWIRE_ENABLE_SIM", "true");
    command
}

/// The same, begun with `ulimit` and these flags of it.
pub fn relay_command_with_limit(network: Network, limit: &str) -> Command {
    let relay = relay_command(network);
    let mut command = Command::new("sh");
    command.args(["-c", &format!(r#"ulimit {limit}; exec "$0" "$@""#)]);
    command.arg(relay.get_program());
    network.apply(&mut command);
    command
        .stdin(Stdio::null())
        .env("PVWIRE_ENABLE_SIM", "true");
    command
}

/// The same with this file as `/etc/hosts`; its content may change. Needs the right to mount:
/// root's, or that of user namespaces.
pub fn relay_command_with_hosts(network: Network, hosts: &Path) -> Command {
    relay_command_with_mount(network, "mount --bind \"$0\" /etc/hosts", hosts)
}

/// The same with this folder on a disk of 128 KiB. Other processes see it in the relay's
/// `/proc/…/root`.
pub fn relay_command_with_small_disk(network: Network, folder: &Path) -> Command {
    relay_command_with_mount(
        network,
        "mount -t tmpfs -o size=128k,mode=755 small \"$0\"",
        folder,
    )
}

/// The same after a mount, in which `$0` is this path, that no other process sees.
fn relay_command_with_mount(network: Network, mount: &str, path: &Path) -> Command {
    let mount = format!(r#"{mount} && exec "$@""#);
    let relay = relay_command(network);
    let may = |flags: &&str| {
        let mut command = Command::new("unshare");
        command.args([flags, "sh", "-c", &mount]).arg(path);
        let tried = command.arg("true").output();
        tried.is_ok_and(|output| output.status.success())
    };
    // A mount namespace, by itself or with a user who may mount in it.
    let Some(flags) = ["-m", "-rm"].into_iter().find(may) else {
        panic!(
            "this test gives the relay private files by unshare(1) and mount(8), and this machine lets \
             neither root nor a user namespace do that"
        );
    };
    let mut command = Command::new("unshare");
    network.apply(&mut command);
    command.stdin(Stdio::null());
    command.args([flags, "sh", "-c", &mount]).arg(path);
    command.arg(relay.get_program());
    command
}

/// Starts a relay and stops or continues its threads by orders from a FIFO; ends with it.
const STOPS_THREADS: &str = r#"
import ctypes, os, subprocess, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long] * 4
SEIZE, INTERRUPT, DETACH, ALL = 0x4206, 0x4207, 17, 0x40000000
relay = subprocess.Popen(sys.argv[2:], preexec_fn=lambda: libc.prctl(1, 9))
def of(thread):
    tasks = f'/proc/{relay.pid}/task'
    return next(int(t) for t in os.listdir(tasks) if open(f'{tasks}/{t}/comm').read().strip() == thread)
with open(sys.argv[1]) as orders:
    for order in orders:
        verb, thread = order.split()
        id = of(thread)
        if verb == 'stop':
            assert libc.ptrace(SEIZE, id, 0, 0) == 0, os.strerror(ctypes.get_errno())
            assert libc.ptrace(INTERRUPT, id, 0, 0) == 0
            os.waitpid(id, ALL)
        else:
            assert libc.ptrace(DETACH, id, 0, 0) == 0
        print(f'{thread} {verb}s', file=sys.stderr, flush=True)
relay.wait()
"#;

/// Stops and continues threads of a relay.
pub struct Threads(PathBuf);

impl Threads {
    /// A relay's command, and the means to stop its threads.
    pub fn of(network: Network) -> (Command, Self) {
        let name = format!("{}threads", super::prefix().trim_end_matches(':'));
        let orders = super::in_tmp(&name);
        let made = Command::new("mkfifo").arg(&orders).status();
        assert!(made.unwrap().success());
        let relay = relay_command(network);
        let mut command = Command::new(super::python());
        network.apply(&mut command);
        command
            .stdin(Stdio::null())
            .env("PVWIRE_ENABLE_SIM", "true")
            .args(["-c", STOPS_THREADS])
            .arg(&orders)
            .arg(relay.get_program());
        (command, Self(orders))
    }

    /// The file by which the relay's threads are stopped (`stop NAME`) and continued (`cont NAME`).
    pub fn orders(&self) -> File {
        OpenOptions::new().write(true).open(&self.0).unwrap()
    }
}

/// A running relay; dropping it kills it, and shows its output when the test has failed.
pub struct Relay {
    process: Child,
    address: SocketAddr,
    output: Arc<Mutex<String>>,
    reading: Arc<Mutex<()>>,
}

impl Relay {
    /// Starts a relay with these flags and waits until it listens.
    pub fn start(network: Network, flags: &[&str]) -> Self {
        Self::spawn(relay_command(network), flags)
    }

    /// The same from a command that was prepared already.
    pub fn spawn(command: Command, flags: &[&str]) -> Self {
        Self::spawn_at(command, "127.0.0.1:0", flags)
    }

    /// The same, listening at another address.
    pub fn spawn_at(mut command: Command, listen: &str, flags: &[&str]) -> Self {
        let mut process = command
            .args(["--listen", listen])
            .args(flags)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let output = Arc::new(Mutex::new(String::new()));
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let reading = Arc::<Mutex<()>>::default();
        let reads = Arc::clone(&reading);
        let (listening, listens) = mpsc::channel();
        let seen = Arc::clone(&output);
        thread::spawn(move || {
            loop {
                drop(reads.lock());
                let Some(Ok(line)) = lines.next() else {
                    return;
                };
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
                reading,
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
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its output so far.
    pub fn output(&self) -> String {
        seen_in(&self.output)
    }

    /// Waits until its output contains this text. Another thread reads the output, so a line may
    /// arrive after the event that it reports has other effects.
    pub fn says(&self, text: &str) {
        super::eventually(&format!("the relay says {text:?}"), || {
            self.output().contains(text)
        });
    }

    /// Its log isn't read while this is held.
    pub fn hold_log(&self) -> MutexGuard<'_, ()> {
        self.reading.lock().unwrap()
    }

    /// The number of its process.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// A file as the relay sees it: it may have private mounts.
    pub fn sees(&self, path: &Path) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.process.id()));
        root.join(path.strip_prefix("/").unwrap())
    }

    /// The content of a file in its folder of `/proc`.
    pub fn proc(&self, file: &str) -> String {
        let path = format!("/proc/{}/{file}", self.process.id());
        std::fs::read_to_string(path).unwrap()
    }

    /// Its resident memory.
    pub fn resident_bytes(&self) -> usize {
        let status = self.proc("status");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes = line.unwrap().trim().trim_end_matches(" kB");
        kilobytes.parse::<usize>().unwrap() << 10
    }

    /// CPU time so far of its threads whose names begin like this.
    pub fn thread_cpu(&self, name: &str) -> Duration {
        let threads = fs::read_dir(format!("/proc/{}/task", self.process.id())).unwrap();
        let cpu = |folder: PathBuf| {
            let comm = fs::read_to_string(folder.join("comm")).ok()?;
            let times = fs::read_to_string(folder.join("schedstat")).ok()?;
            let nanoseconds = times.split(' ').next()?.parse().ok()?;
            (comm.starts_with(name)).then(|| Duration::from_nanos(nanoseconds))
        };
        // A thread may end meanwhile.
        threads
            .filter_map(|thread| cpu(thread.unwrap().path()))
            .sum()
    }

    /// How often its threads have gone to sleep so far, in all.
    pub fn sleeps(&self) -> u64 {
        let threads = fs::read_dir(format!("/proc/{}/task", self.process.id())).unwrap();
        let sleeps = |status: String| {
            let mut lines = status.lines();
            let count = lines.find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            count.map_or(0, |count| count.trim().parse::<u64>().unwrap())
        };
        // A thread may end meanwhile.
        threads
            .filter_map(|thread| fs::read_to_string(thread.unwrap().path().join("status")).ok())
            .map(sleeps)
            .sum()
    }

    /// Sends a signal.
    pub fn signal(&self, name: &str) {
        signal(self.process.id(), name);
    }

    /// Whether it still runs.
    pub fn runs(&mut self) -> bool {
        self.process.try_wait().unwrap().is_none()
    }

    /// Waits for its end, at most so long.
    pub fn wait_end(&mut self, at_most: Duration) -> ExitStatus {
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
    pub fn metric(&self, name: &str) -> f64 {
        self.metric_by(None, name)
    }

    /// Waits until a metric has this value. A counter may follow the event that it counts.
    pub fn wait_metric(&self, name: &str, value: f64) {
        let start = Instant::now();
        loop {
            let seen = self.metric(name);
            if seen == value {
                return;
            }
            let waited = start.elapsed();
            assert!(waited < DEADLINE, "{name} is {seen}, expected {value}");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// The same of a relay that speaks TLS.
    pub fn metric_by(&self, trust: Option<Trust>, name: &str) -> f64 {
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
