//! Reads the pvlist and the access security file.

use super::error::RulesError;
use crate::ops::file_reads::read_text;

/// Longest pvlist or access security file, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The parsed file at `path`; `None` without a path.
pub(super) fn parsed<T, E: Into<RulesError>>(
    path: &str,
    parse: fn(&str, &str) -> Result<T, E>,
) -> Result<Option<T>, RulesError> {
    if path.is_empty() {
        return Ok(None);
    }
    let text = read_text(path, MAX_FILE_BYTES).map_err(|cause| RulesError::Read {
        path: path.to_owned(),
        cause,
    })?;
    parse(path, &text).map(Some).map_err(Into::into)
}
