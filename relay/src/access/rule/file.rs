//! Reads the pvlist and the access security file.

use super::error::RulesError;
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
