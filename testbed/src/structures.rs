//! The pvAccess server of structures, `testbed/python/pva_server.py`.

use std::process::Command;

use crate::process::Process;
use crate::{Network, in_repository, python};

/// A running server; dropping it kills it.
pub struct StructureServer(Process);

impl StructureServer {
    /// Starts one with this prefix, in a network unless the process's own environment is right, and
    /// waits until it runs.
    pub fn start(network: Option<Network>, prefix: &str) -> Self {
        let mut command = Command::new(python());
        if let Some(network) = network {
            network.apply(&mut command);
        }
        let script = in_repository("testbed/python/pva_server.py");
        command.arg("-u").arg(script).arg(prefix);
        Self(Process::start(command, "running"))
    }

    /// The number of its process.
    pub fn id(&self) -> u32 {
        self.0.id()
    }
}
