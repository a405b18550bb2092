//! The pvAccess servers of p4p: one of structures, `testbed/python/pva_server.py`, and one whose PVs take two values
//! at once, `testbed/python/form_server.py`.

use std::process::Command;

use crate::process::Process;
use crate::{Network, in_repository, python};

/// Shapes of the server's PV `shaped`, in an order in which each kind of part and of value goes and comes,
/// and what the text of its value contains.
pub const SHAPES: [(&str, &str); 24] = [
    ("bare", "5.25"),
    ("full", "1.25"),
    ("timeless", "2.25"),
    ("full", "1.25"),
    ("calm", "3.25"),
    ("full", "1.25"),
    ("plain", "4.25"),
    ("full", "1.25"),
    ("text", "seven"),
    ("full", "1.25"),
    ("enum", "on"),
    ("integer", "6"),
    ("text", "seven"),
    ("integer", "6"),
    ("array", "8"),
    ("text", "seven"),
    ("array", "8"),
    ("texts", "b"),
    ("bare", "5.25"),
    ("large", "10"),
    ("large_bare", "11"),
    ("enum", "on"),
    ("large", "10"),
    ("bare", "5.25"),
];

/// A running server; dropping it kills it.
pub struct StructureServer(Process);

impl StructureServer {
    /// Starts one with this prefix, in a network unless the process's own environment is right, and
    /// waits until it runs.
    pub fn start(network: Option<Network>, prefix: &str) -> Self {
        Self(start("pva_server.py", network, prefix))
    }

    /// Serves `shaped` again with another shape, soon.
    pub fn reshape(&mut self, shape: &str) {
        self.0.say(shape);
    }

    /// The number of its process.
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Stops the process until [`Self::resume`].
    pub fn hang(&self) {
        self.0.hang();
    }

    pub fn resume(&self) {
        self.0.resume();
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
