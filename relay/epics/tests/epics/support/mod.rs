//! What the tests share: a process for each of them, real servers, and sinks that record.

pub(crate) mod ca;
pub(crate) mod calls;
pub(crate) mod pva;
mod recorder;
mod server;

use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

pub(crate) use server::Server;
use testbed::Network;
pub(crate) use testbed::prefix;

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
