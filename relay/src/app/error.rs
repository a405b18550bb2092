//! Why the relay can't start.

use std::error::Error;
use std::io;
use std::net::SocketAddr;

use thiserror::Error;

/// Why the relay can't start, in one line for its operator.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StartError {
    /// An address can't be bound.
    #[error("{key} is {address}, which can't be bound: {source}")]
    Bind {
        /// The key that names the address.
        key: &'static str,
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// A file or URL that the configuration names can't be used; the text names it.
    #[error("{0}")]
    File(Box<dyn Error + Send + Sync>),
    /// The audit file can't be opened.
    #[error("audit_file: {path}: {source}")]
    AuditFile {
        /// The file.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// The system gives no thread.
    #[error("{what} can't start: {source}")]
    Thread {
        /// What should have started.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
    /// pvxs gives no context.
    #[error("pvAccess can't start: {0}")]
    PvAccess(#[from] pvwire_epics::pva::StartError),
    /// Signals can't be received, or the address of a bound port can't be read.
    #[error("the relay can't start: {0}")]
    System(#[from] io::Error),
    /// The system gives no random numbers.
    #[error("the system gives no random numbers: {0}")]
    Random(#[from] getrandom::Error),
}

impl StartError {
    /// A file or URL that the configuration names can't be used.
    pub(super) fn file(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::File(error.into())
    }

    /// Something can't start because the system gives no thread.
    pub(super) fn thread(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Thread { what, source }
    }

    /// Whether the operator must change the configuration or a file. Otherwise the system lacks something.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        match self {
            Self::Bind { .. } | Self::File(_) | Self::AuditFile { .. } => true,
            Self::Thread { .. } | Self::PvAccess(_) | Self::System(_) | Self::Random(_) => false,
        }
    }
}
