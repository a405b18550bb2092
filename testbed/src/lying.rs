//! A Channel Access server that sends false messages: a different lie for each PV, each on its own
//! port.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use super::{free_port, in_repository, prefix, python};

/// Lies that make libca crash, damage its tables, or accept one server's word about another
/// server's PVs.
pub const LIES: [&str; 18] = [
    "plain",
    "count",
    "extended",
    "small",
    "type",
    "misaligned",
    "command",
    "destroyed",
    "written",
    "created",
    "jump",
    "endless",
    "refused",
    "others",
    "rights",
    "huge",
    "get",
    "read",
];

/// A running server; dropping it kills it.
pub struct LyingServer {
    process: Child,
    /// Each PV's name.
    pub names: Vec<String>,
    ports: Vec<u16>,
}

impl LyingServer {
    /// Starts one with a PV for each of these lies; "good" tells none.
    pub fn start(lies: &[&str]) -> Self {
        let prefix = prefix();
        let names: Vec<_> = lies.iter().map(|lie| format!("{prefix}{lie}")).collect();
        let ports: Vec<_> = lies.iter().map(|_| free_port()).collect();
        let script = in_repository("testbed/python/lying_ca_server.py");
        let mut process = Command::new(python())
            .arg("-u")
            .arg(script)
            .args(
                ports
                    .iter()
                    .zip(&names)
                    .map(|(port, name)| format!("{port}={name}")),
            )
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        assert_eq!(line, "listening\n");
        Self {
            process,
            names,
            ports,
        }
    }

    /// Has a process search in this server too, beside those on the default port.
    pub fn apply(&self, command: &mut Command) {
        command.env("EPICS_CA_ADDR_LIST", self.addresses("127.0.0.1"));
    }

    /// The port of a PV.
    pub fn port(&self, index: usize) -> u16 {
        self.ports[index]
    }

    /// Where to search: at this address, and at all ports of this server.
    pub fn addresses(&self, first: &str) -> String {
        let ports = self.ports.iter();
        let ports = ports.map(|port| format!(" 127.0.0.1:{port}"));
        ports.fold(first.to_owned(), |list, port| list + &port)
    }
}

impl Drop for LyingServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
