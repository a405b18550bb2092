//! The HTTP face of an Archiver Appliance: `testbed/python/archiver.py`.

use std::net::SocketAddr;
use std::process::Command;

use crate::process::Process;
use crate::{free_port, get, in_repository, python};

/// A running server; dropping it kills it.
pub struct ArchiverServer {
    address: SocketAddr,
    _process: Process,
}

impl ArchiverServer {
    /// Starts one whose PVs have a sample every `step` seconds, until now or until `end` in seconds past 1970, and
    /// waits until it runs.
    pub fn start(step: f64, end: Option<f64>) -> Self {
        let port = free_port();
        let mut command = Command::new(python());
        command.arg(in_repository("testbed/python/archiver.py"));
        command.args([port.to_string(), step.to_string()]);
        command.args(end.map(|end| end.to_string()));
        Self {
            address: SocketAddr::from(([127, 0, 0, 1], port)),
            _process: Process::start(command, "running"),
        }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The relay's flag that names it for these PVs.
    pub fn flag(&self, pattern: &str) -> String {
        format!("--archiver={pattern}=http://{}/retrieval", self.address)
    }

    /// How it lists its names from now on: `whole`, `cut`, `page` (a web page) or `starting`.
    pub fn lists_names(&self, manner: &str) {
        get(self.address, &format!("/names?{manner}"), &[]);
    }

    /// Paths and queries of the requests so far.
    pub fn requests(&self) -> Vec<String> {
        let list = get(self.address, "/requests", &[]).body;
        list.lines().map(str::to_owned).collect()
    }
}
