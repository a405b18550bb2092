//! Servers of other makers than EPICS base: caproto, PCAS, pvAccessCPP, and p4p's gateway.

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
}

impl Maker {
    fn script(self) -> &'static str {
        match self {
            Self::Caproto => "testbed/python/caproto_ioc.py",
            Self::Pcas => "testbed/python/pcas_server.py",
            Self::PvAccessCpp => "testbed/python/pva_cpp_server.py",
        }
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
        let mut command = Command::new(python());
        network.apply(&mut command);
        let script = in_repository(maker.script());
        command.arg("-u").arg(script).arg(prefix);
        Self {
            process: Process::start(command, "running"),
            prefix: prefix.to_owned(),
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
        self.process.go_on();
    }
}
