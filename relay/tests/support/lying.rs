//! A server of Channel Access that lies: each PV in its own way, on its own port.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::{free_port, prefix, python};

/// Lies at which libca crashes, loses count of what it holds, or believes one server about the PVs of
/// another.
pub(crate) const LIES: [&str; 17] = [
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

/// A running server, killed when dropped.
pub(crate) struct LyingServer {
    process: Child,
    /// Each PV's name.
    pub(crate) names: Vec<String>,
    ports: Vec<u16>,
}

impl LyingServer {
    /// Starts one with a PV for each of these lies; "good" tells none.
    pub(crate) fn start(lies: &[&str]) -> Self {
        let prefix = prefix();
        let names: Vec<_> = lies.iter().map(|lie| format!("{prefix}{lie}")).collect();
        let ports: Vec<_> = lies.iter().map(|_| free_port()).collect();
        let script = "epics/tests/lying_ca_server.py";
        let mut process = Command::new(python())
            .arg("-u")
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join(script))
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
    pub(crate) fn apply(&self, command: &mut Command) {
        command.env("EPICS_CA_ADDR_LIST", self.addresses("127.0.0.1"));
    }

    /// Where to search: at this address, and at all ports of this server.
    pub(crate) fn addresses(&self, first: &str) -> String {
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
