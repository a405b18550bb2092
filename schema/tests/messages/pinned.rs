//! Writes files of golden messages, and compares them with what is encoded now.

use std::fs;

use serde_json::{Map, Value};

use super::golden;

const BYTES_IN_A_LINE: usize = 32;

/// The bytes of a message as the file has them.
pub(crate) fn lines(bytes: &[u8]) -> Vec<String> {
    let digits = |line: &[u8]| line.iter().map(|byte| format!("{byte:02x}")).collect();
    bytes.chunks(BYTES_IN_A_LINE).map(digits).collect()
}

/// Fails unless the file has these messages. With `PVWIRE_WRITE_GOLDEN` it is written.
pub(crate) fn compare(file: &str, now: &Map<String, Value>) {
    let text = serde_json::to_string_pretty(now).expect("texts as keys") + "\n";
    if std::env::var_os("PVWIRE_WRITE_GOLDEN").is_some() {
        fs::write(file, &text).expect("the golden file");
    }
    let pinned = fs::read_to_string(file).expect("the golden file");
    let (now, then) = (golden::messages(&text), golden::messages(&pinned));
    for name in now.keys().chain(then.keys()) {
        assert_eq!(now.get(name), then.get(name), "{name}");
    }
    assert!(text == pinned, "{file} is formatted differently");
}
