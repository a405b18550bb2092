//! Starts real servers in the network of this process's environment, and stops them.

use testbed::{SoftIoc, StructureServer};

/// A server; dropping it kills it.
pub(crate) enum Server {
    Ioc(SoftIoc),
    Structures(StructureServer),
}

impl Server {
    /// Starts a soft IOC of Channel Access with a database in which `$(P)` stands for `prefix`, and
    /// waits until it runs.
    pub(crate) fn soft_ioc(prefix: &str, database: &[u8]) -> Self {
        Self::with_access_security(prefix, database, "")
    }

    /// The same with an access security file.
    pub(crate) fn with_access_security(prefix: &str, database: &[u8], rules: &str) -> Self {
        Self::Ioc(SoftIoc::in_environment(prefix, database, rules))
    }

    /// The same of Channel Access and pvAccess.
    pub(crate) fn ioc(prefix: &str, database: &str) -> Self {
        let ioc = SoftIoc::in_environment_with_pv_access(prefix, database.as_bytes());
        Self::Ioc(ioc)
    }

    /// Starts the server of structures and waits until it runs.
    pub(crate) fn structures(prefix: &str) -> Self {
        Self::Structures(StructureServer::start(None, prefix))
    }

    /// Writes a field of the IOC, soon.
    pub(crate) fn put(&mut self, pv: &str, value: &str) {
        let Self::Ioc(ioc) = self else {
            panic!("only an IOC has a shell");
        };
        let command = format!("dbpf \"{pv}\" \"{value}\"");
        ioc.run(&format!("ioc({command:?})"));
    }

    /// The process's number.
    pub(crate) fn id(&self) -> u32 {
        match self {
            Self::Ioc(ioc) => ioc.id(),
            Self::Structures(server) => server.id(),
        }
    }

    /// Ends the process at once, as in a power cut.
    pub(crate) fn kill(self) {
        drop(self);
    }
}
