//! Servers of other makers than EPICS base: caproto, PCAS, pvAccessCPP, CAJ, core-pva and p4p, of which one has
//! structures (`testbed/python/pva_server.py`), and one PVs that take two values at once (`form_server.py`).

use std::process::Command;

use crate::process::Process;
use crate::{Network, in_repository, prefix, python};

/// Which server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maker {
    /// An IOC of caproto, a Channel Access server in Python.
    Caproto,
    /// The Portable Channel Access Server, by pcaspy: the server inside every Channel Access gateway.
    Pcas,
    /// A server of pvAccessCPP, by pvapy. It answers searches by UDP alone:
    /// [`Network::with_searches_by_udp`].
    PvAccessCpp,
    /// A server of pvAccessCPP, by pvapy, with the procedure `service` alone, which can't be monitored.
    PvAccessCppRpc,
    /// A Channel Access server of CAJ, in Java.
    Caj,
    /// A pvAccess server of Phoebus's core-pva, in Java. It answers searches by UDP alone.
    CorePva,
}

impl Maker {
    /// Whether it serves Channel Access, not pvAccess.
    pub fn is_by_ca(self) -> bool {
        matches!(self, Self::Caproto | Self::Pcas | Self::Caj)
    }

    /// A network in which its server can be found.
    pub fn network(self) -> Network {
        if self.is_by_ca() {
            Network::new()
        } else {
            Network::with_searches_by_udp()
        }
    }

    /// The command that runs its server, but for the prefix.
    fn command(self) -> Command {
        let (python, java) = match self {
            Self::Caproto => ("caproto_ioc.py", ""),
            Self::Pcas => ("pcas_server.py", ""),
            Self::PvAccessCpp => ("pva_cpp_server.py", ""),
            Self::PvAccessCppRpc => ("pva_rpc_server.py", ""),
            Self::Caj => ("", "CaServer"),
            Self::CorePva => ("", "PvaServer"),
        };
        if java.is_empty() {
            let mut command = Command::new(crate::python());
            let script = in_repository("testbed/python").join(python);
            command.arg("-u").arg(script);
            return command;
        }
        let folder = in_repository(".local/java");
        let folder = folder.display();
        let mut command = Command::new("java");
        command
            .args(["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp"])
            .arg(format!("{folder}/classes:{folder}/lib/*"))
            .arg(java);
        command
    }
}

/// A running server; dropping it kills it.
pub struct OtherServer {
    process: Process,
    prefix: String,
}

impl OtherServer {
    /// Starts one with the PVs of its script, and waits until it runs.
    pub fn start(network: Network, maker: Maker) -> Self {
        Self::with_prefix(network, maker, &prefix())
    }

    /// The same with a given prefix, as for the restart of a server that was killed.
    pub fn with_prefix(network: Network, maker: Maker, prefix: &str) -> Self {
        Self::run(network, maker, &[prefix])
    }

    /// An IOC of caproto that sends metadata so much later than values.
    pub fn with_late_metadata(network: Network, seconds: f64) -> Self {
        Self::run(network, Maker::Caproto, &[&prefix(), &seconds.to_string()])
    }

    /// The first argument is the prefix.
    fn run(network: Network, maker: Maker, arguments: &[&str]) -> Self {
        let mut command = maker.command();
        network.apply(&mut command);
        command.args(arguments);
        Self {
            process: Process::start(command, "running"),
            prefix: arguments[0].to_owned(),
        }
    }

    /// The name of one of its PVs.
    pub fn pv(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// Posts a value, written as JSON, to one of its PVs.
    pub fn post(&mut self, name: &str, value: &str) {
        self.process.say(&format!("{name} {value}"));
    }

    /// The number of its process.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Stops the process until [`Self::resume`].
    pub fn hang(&self) {
        self.process.hang();
    }

    pub fn resume(&self) {
        self.process.resume();
    }
}

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
