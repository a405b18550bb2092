//! Reads the pvlist and the access security file, and says why rules can't take effect: at the start, after a reload, and in
//! `check`.

use thiserror::Error;

use super::pvlist::PvListError;
use super::security::SecurityError;
use crate::config::Config;
use crate::ops::file_reads::{read_regular, text};

/// Longest pvlist or access security file, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The content of a file, or why it can't be read.
type Content = Result<Vec<u8>, String>;

/// The pvlist and the access security file of a configuration, as they were read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleFiles {
    /// The pvlist; an error without one.
    pub(super) pvlist: Content,
    /// The access security file; an error without one.
    pub(super) security: Content,
}

impl RuleFiles {
    /// Reads the files that a configuration names.
    #[must_use]
    pub fn read(config: &Config) -> Self {
        let read =
            |path: &str| read_regular(path, MAX_FILE_BYTES).map_err(|error| error.to_string());
        Self {
            pvlist: read(&config.pvlist),
            security: read(&config.access_security),
        }
    }

    /// The contents of both, in this order.
    pub fn contents(&self) -> [&Content; 2] {
        [&self.pvlist, &self.security]
    }
}

/// The parsed file that was read at `path`; `None` without a path.
pub(super) fn parsed<T, E: Into<RulesError>>(
    path: &str,
    content: &Content,
    parse: fn(&str, &str) -> Result<T, E>,
) -> Result<Option<T>, RulesError> {
    if path.is_empty() {
        return Ok(None);
    }
    let text = content
        .clone()
        .and_then(|content| text(content).map_err(|error| error.to_string()));
    let text = text.map_err(|cause| RulesError::Read {
        path: path.to_owned(),
        cause,
    })?;
    parse(path, &text).map(Some).map_err(Into::into)
}

/// The operator's rules, pvlist or access security file can't be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RulesError {
    /// A `pv_regex` isn't a regular expression, or takes too much memory.
    #[error("{rule}: pv_regex {expression:?}: {reason}")]
    Regex {
        /// Where the rule stands.
        rule: String,
        /// The expression.
        expression: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A rule allows puts, and the relay takes none.
    #[error(
        "{rule}: it allows puts, which has no effect without enable_put: set enable_put = true above the first \
         [[rule]], or remove put from the rule"
    )]
    PutsOff {
        /// Where the rule stands.
        rule: String,
    },
    /// A file can't be read.
    #[error("{path}: {cause}")]
    Read {
        /// The file.
        path: String,
        /// Why.
        cause: String,
    },
    /// The pvlist can't be used.
    #[error(transparent)]
    PvList(#[from] PvListError),
    /// The access security file can't be used.
    #[error(transparent)]
    Security(#[from] SecurityError),
}
