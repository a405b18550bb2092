//! Why the demo can't start.

use std::io;

use thiserror::Error;

/// Why the demo can't start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DemoError {
    /// The IOC's records can't be written.
    #[error("the records of the demo's IOC can't be written to {folder}: {source}")]
    Records {
        /// The folder of temporary files.
        folder: String,
        /// Why.
        source: io::Error,
    },
    /// The system gives no pipe or thread.
    #[error("the demo's IOC can't be watched: {0}")]
    System(#[from] io::Error),
}
