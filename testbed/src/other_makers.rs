//! Servers of other makers than EPICS base: caproto, PCAS, pvAccessCPP, CAJ and core-pva.

use std::process::Command;

use crate::process::Process;
use crate::{Network, in_repository, prefix};

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
