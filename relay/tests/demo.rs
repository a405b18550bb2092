//! The command `demo`: from nothing to live values, and nothing is left when it ends.
//!
//! Topology: the relay's program, which starts an IOC as its child.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use serde_json::Value;
use testbed::{DEADLINE, eventually, get};

/// A running demo, killed when it is dropped.
struct Demo {
    process: Child,
    lines: Receiver<String>,
    address: SocketAddr,
    /// What it printed before it was ready.
    greeting: String,
}

impl Demo {
    /// Starts it with these flags; `path` is where it finds programs.
    fn start(flags: &[&str], path: &str, python: Option<&Path>) -> Self {
        Self::start_with_variables(&[], flags, path, python)
    }

    fn start_with_variables(
        variables: &[(&str, &str)],
        flags: &[&str],
        path: &str,
        python: Option<&Path>,
    ) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pvwire-relay"));
        command.envs(variables.iter().copied());
        command.arg("demo").args(flags).env("PATH", path);
        // The demo's relay and IOC use none of these.
        command.env("EPICS_CA_ADDR_LIST", "192.0.2.1");
        command.env("EPICS_CA_NAME_SERVERS", "192.0.2.1");
        command.env("PVWIRE_LISTEN", "0.0.0.0:0");
        command.env_remove("EPICS_BASE");
        if let Some(python) = python {
            command.env("PVWIRE_PYTHON", python);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        let (sender, lines) = channel();
        thread::spawn(move || {
            output
                .lines()
                .map_while(Result::ok)
                .try_for_each(|line| sender.send(line))
        });
        let mut greeting = String::new();
        while !greeting.contains("Ctrl-C") {
            greeting += &lines
                .recv_timeout(DEADLINE)
                .expect("the demo says where its page is");
            greeting.push('\n');
        }
        let (_, rest) = greeting.split_once("http://").unwrap();
        let address = rest.split('/').next().unwrap().parse().unwrap();
        Self {
            process,
            lines,
            address,
            greeting,
        }
    }

    fn with_ioc() -> Self {
        Self::start(&[], "", Some(&testbed::python()))
    }

    fn value(&self, name: &str) -> Value {
        let answer = get(self.address, &path_of(name), &[]);
        assert_eq!(answer.status, 200, "{}", answer.body);
        serde_json::from_str(&answer.body).unwrap()
    }

    /// The process ids of its children.
    fn children(&self) -> Vec<String> {
        let pid = self.process.id();
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        let children = tasks.map(|task| {
            fs::read_to_string(task.unwrap().path().join("children")).unwrap_or_default()
        });
        let text: String = children.collect();
        text.split_whitespace().map(str::to_owned).collect()
    }

    fn signal(&self, name: &str) {
        let pid = self.process.id().to_string();
        let sent = Command::new("kill")
            .args(["-s", name, &pid])
            .status()
            .unwrap();
        assert!(sent.success());
    }

    fn ended(&mut self) -> ExitStatus {
        let mut status = None;
        eventually("the demo ends", || {
            status = self.process.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The IOC may take seconds to answer its first search.
fn path_of(name: &str) -> String {
    format!("/pv/{name}?timeout_ms=20000")
}

fn is_gone(pid: &str) -> bool {
    // A process that has ended stays as a zombie until its parent reads its status.
    let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    state.is_empty() || state.contains(") Z ")
}

#[test]
fn demo_shows_live_values_of_an_ioc_of_its_own() {
    let mut demo = Demo::with_ioc();
    assert!(
        demo.greeting.contains("/pv/DEMO:RING:CURRENT"),
        "{}",
        demo.greeting
    );
    assert!(demo.address.ip().is_loopback(), "{}", demo.address);
    assert_eq!(demo.value("DEMO:RING:CURRENT")["display"]["units"], "mA");
    let seconds = || {
        demo.value("DEMO:SIM:SECONDS")["value"]["number"]
            .as_f64()
            .unwrap()
    };
    let first = seconds();
    eventually("the IOC counts", || seconds() > first);
    // Of pvAccess too.
    assert_eq!(
        demo.value("pva:%2F%2FDEMO:RING:CURRENT")["display"]["units"],
        "mA"
    );

    let children = demo.children();
    assert_eq!(children.len(), 1, "{children:?}");
    demo.signal("TERM");

    assert!(demo.ended().success());
    assert!(is_gone(&children[0]), "the IOC outlives the demo");
}

#[test]
fn demo_that_is_killed_leaves_no_ioc() {
    let mut demo = Demo::with_ioc();
    let children = demo.children();
    assert_eq!(children.len(), 1, "{children:?}");

    demo.signal("KILL");

    assert_eq!(demo.ended().signal(), Some(9));
    eventually("the IOC ends", || is_gone(&children[0]));
}

#[test]
fn closed_terminal_ends_the_demo() {
    let mut demo = Demo::with_ioc();
    let children = demo.children();

    demo.signal("HUP");

    assert!(demo.ended().success());
    assert!(is_gone(&children[0]), "the IOC outlives the demo");
}

#[test]
fn ioc_of_the_demo_comes_back_after_it_was_killed() {
    let demo = Demo::with_ioc();
    let ioc = demo.children().remove(0);

    assert!(
        Command::new("kill")
            .args(["-9", &ioc])
            .status()
            .unwrap()
            .success()
    );

    let gone = demo.lines.recv_timeout(DEADLINE).unwrap();
    assert!(gone.is_empty() || gone.contains("gone"), "{gone}");
    eventually("the IOC starts again", || {
        let children = demo.children();
        children.len() == 1 && children[0] != ioc
    });
    eventually("the PV is back", || {
        get(demo.address, &path_of("DEMO:RING:CURRENT"), &[]).status == 200
    });
}

#[test]
fn demo_without_an_ioc_simulates_pvs_and_says_how_to_get_one() {
    // No program on the path is an IOC.
    let mut demo = Demo::start(&[], "/nowhere", None);

    assert!(
        demo.greeting.contains("pvwire-relay[demo]"),
        "{}",
        demo.greeting
    );
    assert!(demo.value("sim:%2F%2Fsine")["value"]["number"].is_number());
    assert!(demo.children().is_empty());
    demo.signal("INT");
    assert!(demo.ended().success());

    let unwanted = Demo::start(&["--simulated"], "", Some(&testbed::python()));
    assert!(unwanted.children().is_empty());
}

#[test]
fn demo_simulates_pvs_where_no_folder_can_be_written() {
    let read_only = [("TMPDIR", "/proc")];
    let python = testbed::python();
    let demo = Demo::start_with_variables(&read_only, &[], "", Some(&python));

    assert!(demo.greeting.contains("Simulated PVs"), "{}", demo.greeting);
    assert!(demo.value("sim:%2F%2Fsine")["value"]["number"].is_number());
    assert!(demo.children().is_empty());
}

#[test]
fn demo_serves_your_own_page_by_its_origin_and_no_other_page() {
    let mine = "http://127.0.0.1:8000";
    let demo = Demo::start(&["--simulated", "--allow-origin", mine], "", None);
    let status = |origin: &str| {
        let headers = [("Origin", origin)];
        get(demo.address, "/pv/sim:%2F%2Fsine", &headers).status
    };

    assert_eq!(status(mine), 200);
    assert_eq!(status("http://127.0.0.1:8001"), 403);

    let any = Command::new(env!("CARGO_BIN_EXE_pvwire-relay"))
        .args(["demo", "--simulated", "--allow-origin", "*"])
        .output()
        .unwrap();
    assert_eq!(any.status.code(), Some(64));
    let why = String::from_utf8(any.stderr).unwrap();
    assert!(why.contains("an origin without a path"), "{why}");
}
