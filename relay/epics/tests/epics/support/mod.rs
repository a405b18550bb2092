//! What do the tests share: a process for each of them, real servers, and sinks that remember.

pub(crate) mod ca;
pub(crate) mod calls;
pub(crate) mod fake_pva;
pub(crate) mod pva;
mod recorder;
mod server;

use std::net::{TcpListener, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

pub(crate) use server::Server;

/// More than anything here takes on a busy machine; reached only by a failure.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);
/// After it a test that hangs is ended.
const HANGS_AFTER: Duration = Duration::from_secs(240);

/// Runs the body of the test with this name in a process of its own, with ports of its own in the
/// environment that libca and pvxs read.
macro_rules! in_own_process {
    ($test:expr, $body:expr $(,)?) => {
        crate::support::run_in_own_process(module_path!(), $test, $body)
    };
}
pub(crate) use in_own_process;

/// The process is this test program again, told to run the one test, which comes here again.
///
/// A client of pvAccess finds its server by TCP: a search by UDP reaches only one of all the servers
/// of a machine that share a port.
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
    let [server, broadcast, access, repeater] = std::array::from_fn(|_| free_port());
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
        .env("EPICS_CA_CONN_TMO", "5")
        .env("EPICS_CA_AUTO_ARRAY_BYTES", "YES")
        .env("EPICS_CAS_INTF_ADDR_LIST", "127.0.0.1")
        .env("EPICS_CAS_BEACON_ADDR_LIST", "127.0.0.1")
        .env("EPICS_CAS_AUTO_BEACON_ADDR_LIST", "NO")
        .env("EPICS_CAS_BEACON_PORT", repeater.to_string())
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

/// Waits until `done`, for what has no event.
pub(crate) fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !done() {
        assert!(Instant::now() < deadline, "never: {what}");
        thread::yield_now();
    }
}
