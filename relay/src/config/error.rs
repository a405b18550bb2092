//! Why a configuration is refused.

use thiserror::Error;

/// Why the relay can't start with this configuration; one line that names the place, the value and what
/// was expected.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigError {
    /// A value doesn't fit its key.
    #[error("{origin}: {key} is {value:?}, expected {expected}")]
    Value {
        /// Where the value was set.
        origin: String,
        /// The key.
        key: String,
        /// The value.
        value: String,
        /// What would fit.
        expected: String,
    },
    /// An unknown key.
    #[error("{origin}: unknown key {key:?}{hint}")]
    Key {
        /// Where it was set.
        origin: String,
        /// The key.
        key: String,
        /// A similar key, or the list of all.
        hint: String,
    },
    /// An unknown environment variable.
    #[error("environment variable {name}: no such setting{hint}")]
    Variable {
        /// The variable.
        name: String,
        /// A similar variable, or where all are listed.
        hint: String,
    },
    /// The file can't be read.
    #[error("{path}: {reason}")]
    File {
        /// The file.
        path: String,
        /// Why.
        reason: String,
    },
    /// The command line can't be parsed.
    #[error("{0}")]
    Flags(String),
}
