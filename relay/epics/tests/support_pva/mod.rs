//! What do the tests of pvAccess share: real servers, a sink that remembers, and a process for each
//! test.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use pvwire_epics::pva::{
    ElementType, Metadata, Node, PvaEvents, SharedArray, TypeInfo, Update, Value,
};

/// More than anything here takes on a busy machine; reached only by a failure.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);
/// After it a test that hangs is ended.
const HANGS_AFTER: Duration = Duration::from_secs(240);

/// Runs `body` in a process of its own, with ports of its own in the environment that pvxs reads.
///
/// The process is this test program again, told to run the one test, which comes here again. The
/// client finds its server by TCP: a search by UDP reaches only one of all the servers of a machine
/// that share a port.
pub(crate) fn in_own_process(test: &str, body: impl FnOnce()) {
    if std::env::var("PVWIRE_TEST_PROCESS").as_deref() == Ok(test) {
        let (_finished, watched) = mpsc::channel::<()>();
        thread::spawn(move || {
            if watched.recv_timeout(HANGS_AFTER) == Err(RecvTimeoutError::Timeout) {
                eprintln!("the test hangs");
                std::process::exit(1);
            }
        });
        body();
        return;
    }
    let (server, broadcast, access, repeater) =
        (free_port(), free_port(), free_port(), free_port());
    let output = Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .env("PVWIRE_TEST_PROCESS", test)
        .env("EPICS_PVA_ADDR_LIST", "")
        .env("EPICS_PVA_AUTO_ADDR_LIST", "NO")
        .env("EPICS_PVA_NAME_SERVERS", format!("127.0.0.1:{server}"))
        .env("EPICS_PVA_BROADCAST_PORT", broadcast.to_string())
        .env("EPICS_PVA_SERVER_PORT", server.to_string())
        .env("EPICS_PVA_CONN_TMO", "5")
        .env("EPICS_PVAS_INTF_ADDR_LIST", "127.0.0.1")
        .env("EPICS_PVAS_BEACON_ADDR_LIST", "127.0.0.1")
        .env("EPICS_PVAS_AUTO_BEACON_ADDR_LIST", "NO")
        .env("EPICS_PVAS_SERVER_PORT", server.to_string())
        .env("EPICS_PVAS_BROADCAST_PORT", broadcast.to_string())
        .env("EPICS_CA_ADDR_LIST", "127.0.0.1")
        .env("EPICS_CA_AUTO_ADDR_LIST", "NO")
        .env("EPICS_CA_SERVER_PORT", access.to_string())
        .env("EPICS_CA_REPEATER_PORT", repeater.to_string())
        .env("EPICS_CAS_INTF_ADDR_LIST", "127.0.0.1")
        .env("EPICS_CAS_BEACON_ADDR_LIST", "127.0.0.1")
        .env("EPICS_CAS_AUTO_BEACON_ADDR_LIST", "NO")
        .env("EPICS_CAS_BEACON_PORT", repeater.to_string())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{test} failed:\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// A port of this machine that nobody has now, neither by TCP nor by UDP.
fn free_port() -> u16 {
    loop {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = tcp.local_addr().unwrap().port();
        if UdpSocket::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// A prefix for PV names that no other server has.
pub(crate) fn prefix() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    let clock = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .subsec_nanos();
    format!("T{:x}{clock:x}{next}:", std::process::id())
}

/// A server in Python, killed when dropped.
pub(crate) struct Server {
    process: Child,
    shell: ChildStdin,
}

impl Server {
    /// Starts an IOC with a database in which `$(P)` stands for `prefix`, and waits until it runs.
    pub(crate) fn ioc(prefix: &str, database: &str) -> Self {
        let file = format!("{}.db", prefix.trim_end_matches(':'));
        let db = Path::new(env!("CARGO_TARGET_TMPDIR")).join(file);
        std::fs::write(&db, database).unwrap();
        let mut command = Command::new(python());
        command
            .args([
                "-u",
                "-m",
                "pvxslibs.ioc",
                "-m",
                &format!("P={prefix}"),
                "-d",
            ])
            .arg(&db);
        Self::start(command, "IOC Running")
    }

    /// Starts the server of structures, `pva_server.py`, and waits until it runs.
    pub(crate) fn structures(prefix: &str) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pva_server.py");
        let mut command = Command::new(python());
        command.arg("-u").arg(script).arg(prefix);
        Self::start(command, "running")
    }

    fn start(mut command: Command, running: &str) -> Self {
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let mut seen = String::new();
        loop {
            let Some(Ok(line)) = lines.next() else {
                let _ = process.kill();
                panic!("the server did not start:\n{seen}");
            };
            if line.contains(running) {
                break;
            }
            seen.push_str(&line);
            seen.push('\n');
        }
        // Reads on, so that the pipe never fills, until the server ends.
        thread::spawn(move || lines.for_each(drop));
        Self {
            shell: process.stdin.take().unwrap(),
            process,
        }
    }

    /// Writes a field of the IOC, soon.
    pub(crate) fn put(&mut self, pv: &str, value: &str) {
        let command = format!("dbpf \"{pv}\" \"{value}\"");
        writeln!(self.shell, "ioc({command:?})").unwrap();
    }

    /// Ends the process at once, as in a power cut.
    pub(crate) fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The python that has the package pvxslibs, searched as the build script does.
fn python() -> PathBuf {
    if let Some(python) = std::env::var_os("PVWIRE_PYTHON") {
        return PathBuf::from(python);
    }
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.local/venv/bin/python");
    if ours.exists() {
        ours
    } else {
        PathBuf::from("python3")
    }
}

/// An event as the sink saw it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Event {
    Connected(TypeInfo),
    Disconnected,
    Metadata(Box<Metadata>),
    Update(OwnUpdate),
    Failed(String),
}

/// An update that owns its value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OwnUpdate {
    pub value: OwnValue,
    pub time_ns: i64,
    pub user_tag: i32,
    pub severity: u16,
    pub status: u16,
    pub message: String,
    pub changed: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum OwnValue {
    Number(f64),
    Int64(i64),
    UInt64(u64),
    Boolean(bool),
    Text(String),
    Array(ElementType, usize, SharedArray),
    TextArray(Vec<String>),
    Structure(Box<Node>),
}

/// A sink that remembers all events, in order.
#[derive(Default)]
pub(crate) struct Recorder {
    events: Mutex<Vec<Event>>,
    more: Condvar,
}

impl Recorder {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    fn push(&self, event: Event) {
        self.events.lock().unwrap().push(event);
        self.more.notify_all();
    }

    /// How many events there are so far.
    pub(crate) fn len(&self) -> usize {
        self.events.lock().unwrap().len()
    }

    /// All events so far.
    pub(crate) fn events(&self) -> Vec<Event> {
        self.events.lock().unwrap().clone()
    }

    /// Waits for the first event from the one numbered `from` on that `found` accepts; returns its
    /// number and what `found` made of it.
    pub(crate) fn wait<T>(
        &self,
        from: usize,
        what: &str,
        mut found: impl FnMut(&Event) -> Option<T>,
    ) -> (usize, T) {
        let deadline = Instant::now() + DEADLINE;
        let mut events = self.events.lock().unwrap();
        let mut next = from;
        loop {
            while next < events.len() {
                if let Some(result) = found(&events[next]) {
                    return (next, result);
                }
                next += 1;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "no {what} in {events:#?}");
            events = self.more.wait_timeout(events, left).unwrap().0;
        }
    }

    pub(crate) fn wait_connected(&self, from: usize) -> (usize, TypeInfo) {
        self.wait(from, "connect", |event| match event {
            Event::Connected(info) => Some(info.clone()),
            _ => None,
        })
    }

    pub(crate) fn wait_disconnected(&self, from: usize) -> usize {
        self.wait(from, "disconnect", |event| {
            matches!(event, Event::Disconnected).then_some(())
        })
        .0
    }

    pub(crate) fn wait_metadata(
        &self,
        from: usize,
        wanted: impl Fn(&Metadata) -> bool,
    ) -> (usize, Metadata) {
        self.wait(from, "such metadata", |event| match event {
            Event::Metadata(metadata) if wanted(metadata) => Some((**metadata).clone()),
            _ => None,
        })
    }

    pub(crate) fn wait_update(
        &self,
        from: usize,
        wanted: impl Fn(&OwnUpdate) -> bool,
    ) -> (usize, OwnUpdate) {
        self.wait(from, "such update", |event| match event {
            Event::Update(update) if wanted(update) => Some(update.clone()),
            _ => None,
        })
    }

    pub(crate) fn wait_value(&self, from: usize, value: &OwnValue) -> (usize, OwnUpdate) {
        self.wait_update(from, |update| update.value == *value)
    }
}

impl PvaEvents for Recorder {
    fn connected(&self, info: TypeInfo) {
        self.push(Event::Connected(info));
    }

    fn disconnected(&self) {
        self.push(Event::Disconnected);
    }

    fn metadata(&self, metadata: Metadata) {
        self.push(Event::Metadata(Box::new(metadata)));
    }

    fn update(&self, update: Update<'_>) {
        let value = match update.value {
            Value::Number(number) => OwnValue::Number(number),
            Value::Int64(number) => OwnValue::Int64(number),
            Value::UInt64(number) => OwnValue::UInt64(number),
            Value::Boolean(flag) => OwnValue::Boolean(flag),
            Value::Text(text) => OwnValue::Text(String::from_utf8_lossy(text).into_owned()),
            Value::Array {
                element,
                count,
                data,
            } => OwnValue::Array(element, count, data),
            Value::TextArray(strings) => OwnValue::TextArray(strings),
            Value::Structure(node) => OwnValue::Structure(node),
        };
        self.push(Event::Update(OwnUpdate {
            value,
            time_ns: update.time_ns,
            user_tag: update.user_tag,
            severity: update.severity,
            status: update.status,
            message: update.message.to_owned(),
            changed: update.changed,
        }));
    }

    fn failed(&self, reason: &str) {
        self.push(Event::Failed(reason.to_owned()));
    }
}

/// Waits until `done`, for what has no event.
pub(crate) fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !done() {
        assert!(Instant::now() < deadline, "never: {what}");
        thread::yield_now();
    }
}
