//! Reads the pvlist and the access security file, up to a bounded length.

use std::fs::File;
use std::io::Read;

/// Longest list of PVs or access security file, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// What a file says, if there is to be one.
pub(super) fn parsed<T>(
    path: &str,
    parse: fn(&str, &str) -> Result<T, String>,
) -> Result<Option<T>, String> {
    if path.is_empty() {
        return Ok(None);
    }
    parse(path, &read_bounded(path)?).map(Some)
}

/// The text of a file of the operator's, unless it is longer than any that makes sense.
fn read_bounded(path: &str) -> Result<String, String> {
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| format!("{path}: {error}"))?;
    file.take(MAX_FILE_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| format!("{path}: {error}"))?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(format!("{path}: longer than {MAX_FILE_BYTES} bytes"));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let lines = error.as_bytes()[..at].iter();
        let line = 1 + lines.filter(|byte| **byte == b'\n').count();
        format!("{path}:{line}: not UTF-8")
    })
}
