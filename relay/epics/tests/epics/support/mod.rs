//! What the tests share: a process for each of them, real servers, and sinks that record.

pub(crate) mod ca;
pub(crate) mod pva;

use std::fmt::Debug;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

pub(crate) use testbed::prefix;
use testbed::{Network, SoftIoc, StructureServer};

/// The port at which this test's process searches pvAccess servers.
pub(crate) fn pva_search_port() -> u16 {
    std::env::var("EPICS_PVA_SERVER_PORT")
        .unwrap()
        .parse()
        .unwrap()
}

/// More than anything here takes on a busy machine; reached only by a failure.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);
/// After it a test that hangs is ended.
const HANGS_AFTER: Duration = Duration::from_secs(240);

/// Runs the body of the test with this name in its own process, with its own ports in the
/// environment that libca and pvxs read.
macro_rules! in_own_process {
    ($test:expr, $body:expr $(,)?) => {
        crate::support::run_in_own_process(module_path!(), $test, $body)
    };
}
pub(crate) use in_own_process;

/// The process is this test program again, told to run the one test, which comes here again.
///
/// A client of pvAccess finds its server by TCP: a search by UDP reaches only one of all the
/// servers of a machine that share a port.
pub(crate) fn run_in_own_process(module: &str, test: &str, body: impl FnOnce()) {
    // The program's own name isn't part of the name that the harness knows.
    let module = module.split_once("::").map_or("", |(_, module)| module);
    let test = &format!("{module}::{test}");
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
    let mut command = Command::new(std::env::current_exe().unwrap());
    Network::new().apply(&mut command);
    let output = command
        .args([test, "--exact", "--nocapture"])
        .env("PVWIRE_TEST_PROCESS", test)
        .env("EPICS_PVA_CONN_TMO", "5")
        .env("EPICS_CA_CONN_TMO", "5")
        .env("EPICS_CA_AUTO_ARRAY_BYTES", "YES")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{test} failed:\n{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Waits until `done`, for what has no event.
pub(crate) fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !done() {
        assert!(Instant::now() < deadline, "never: {what}");
        thread::yield_now();
    }
}

/// A sink that remembers all events.
pub(crate) struct Recorder<E> {
    events: Mutex<Vec<E>>,
    more: Condvar,
}

impl<E: Clone + Debug> Recorder<E> {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            events: Mutex::default(),
            more: Condvar::default(),
        })
    }

    pub(super) fn push(&self, event: E) {
        self.events.lock().unwrap().push(event);
        self.more.notify_all();
    }

    /// How many events there are so far.
    pub(crate) fn len(&self) -> usize {
        self.events.lock().unwrap().len()
    }

    /// All events so far.
    pub(crate) fn events(&self) -> Vec<E> {
        self.events.lock().unwrap().clone()
    }

    /// Waits for the first event from the one numbered `from` on that `found` accepts; returns its
    /// number and what `found` made of it.
    pub(crate) fn wait<T>(
        &self,
        from: usize,
        what: &str,
        mut found: impl FnMut(&E) -> Option<T>,
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
}

/// A server; dropping it kills it.
pub(crate) enum Server {
    Ioc(SoftIoc),
    Structures(StructureServer),
}

impl Server {
    /// Starts a soft IOC of Channel Access with a database in which `$(P)` stands for `prefix`, and
    /// waits until it runs.
    pub(crate) fn soft_ioc(prefix: &str, database: &[u8]) -> Self {
        Self::with_access_security(prefix, database, "")
    }

    /// The same with an access security file.
    pub(crate) fn with_access_security(prefix: &str, database: &[u8], rules: &str) -> Self {
        Self::Ioc(SoftIoc::in_environment(prefix, database, rules))
    }

    /// The same of Channel Access and pvAccess.
    pub(crate) fn ioc(prefix: &str, database: &str) -> Self {
        let ioc = SoftIoc::in_environment_with_pv_access(prefix, database.as_bytes());
        Self::Ioc(ioc)
    }

    /// Starts the server of structures and waits until it runs.
    pub(crate) fn structures(prefix: &str) -> Self {
        Self::Structures(StructureServer::start(None, prefix))
    }

    /// Writes a field of the IOC, soon.
    pub(crate) fn put(&mut self, pv: &str, value: &str) {
        let Self::Ioc(ioc) = self else {
            panic!("only an IOC has a shell");
        };
        let command = format!("dbpf \"{pv}\" \"{value}\"");
        ioc.run(&format!("ioc({command:?})"));
    }

    /// The process's number.
    pub(crate) fn id(&self) -> u32 {
        match self {
            Self::Ioc(ioc) => ioc.id(),
            Self::Structures(server) => server.id(),
        }
    }

    /// Ends the process at once, as in a power cut.
    pub(crate) fn kill(self) {
        drop(self);
    }
}
