//! Target `pvws`: messages of clients of PVWS, one a line, to one socket.

use pvwire_pvws::{Dialect, Reply, Settings, Socket};
use pvwire_schema::types::PvId;
use serde_json::Value;

pub(crate) const SEEDS: &[&str] = &[
    r#"{"type":"subscribe","pvs":["X","ca://X","pva:///X/a?request=field(b.c)","=1+1"]}"#,
    "{\"type\":\"monitor\",\"pvs\":[\"X\"]}\n{\"type\":\"clear\",\"pvs\":[\"X\"]}\n{\"type\":\"list\"}",
    "{\"type\":\"subscribe\",\"pvs\":[\"X\"]}\n{\"type\":\"write\",\"pv\":\"X\",\"value\":[1,2.5]}",
];

pub(crate) const WORDS: &[&str] = &[
    "{\"type\":",
    "\"subscribe\"",
    "\"clear\"",
    "\"list\"",
    "\"write\"",
    "\"echo\"",
    "\"ping\"",
    ",\"pvs\":",
    ",\"pv\":",
    ",\"value\":",
    "[",
    "]",
    "}",
    "\"X\"",
    "\"pva://X?request=field(",
    "null",
    "true",
    "1e999",
    "\\u0000",
    "\\ud800",
    "\n",
];

/// Maximum number of names.
const MAX_NAMES: usize = 8;

/// No message may make the socket send what isn't JSON, ask twice for a name, or hold more names than it may.
pub(crate) fn run(bytes: &[u8]) {
    let mut socket = Socket::new(Settings {
        default: Dialect::Ca,
        writes: true,
        max_names: MAX_NAMES,
    });
    let (mut open, mut next) = (Vec::new(), 0);
    for line in String::from_utf8_lossy(bytes).split('\n') {
        match socket.take(line) {
            Some(Reply::Text(text)) => {
                let read: Value = serde_json::from_slice(&text).expect("an answer is JSON");
                assert!(read.is_object());
            }
            Some(Reply::Put { number, .. }) => {
                let failed = socket.put_failed(number, "why \"not\"");
                let read: Result<Value, _> = serde_json::from_slice(&failed);
                assert!(read.is_ok());
            }
            Some(Reply::Echo | Reply::Ping) | None => {}
        }
        let cleared = socket.cleared();
        open.retain(|pv| !cleared.contains(pv));
        for wanted in socket.wanted(MAX_NAMES) {
            next += 1;
            socket.accepted(&wanted.spelling, PvId(next), false);
            open.push(PvId(next));
        }
        assert!(open.len() <= MAX_NAMES, "{open:?}");
        assert!(!socket.has_changes());
    }
}
