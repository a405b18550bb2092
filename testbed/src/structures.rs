//! The pvAccess servers of p4p: one of structures, `testbed/python/pva_server.py`, and one whose PVs take two values
//! at once, `testbed/python/form_server.py`.

use std::process::Command;

use crate::process::Process;
use crate::{Network, in_repository, python};

/// A running server; dropping it kills it.
pub struct StructureServer(Process);

impl StructureServer {
    /// Starts one with this prefix, in a network unless the process's own environment is right, and
    /// waits until it runs.
    pub fn start(network: Option<Network>, prefix: &str) -> Self {
        Self(start("pva_server.py", network, prefix))
    }

    /// The number of its process.
    pub fn id(&self) -> u32 {
        self.0.id()
    }
}

/// A running server of PVs that take two values at once; dropping it kills it.
pub struct FormServer {
    prefix: String,
    _process: Process,
}

impl FormServer {
    /// Starts one with this prefix, and waits until it runs.
    pub fn start(network: Network, prefix: &str) -> Self {
        Self {
            prefix: prefix.to_owned(),
            _process: start("form_server.py", Some(network), prefix),
        }
    }

    /// The name of one of its PVs.
    pub fn name(&self, pv: &str) -> String {
        format!("pva://{}{pv}", self.prefix)
    }
}

fn start(script: &str, network: Option<Network>, prefix: &str) -> Process {
    let mut command = Command::new(python());
    if let Some(network) = network {
        network.apply(&mut command);
    }
    let script = in_repository("testbed/python").join(script);
    command.arg("-u").arg(script).arg(prefix);
    Process::start(command, "running")
}
