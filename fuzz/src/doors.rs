//! What clients of doors send: messages of Coniql's and PVWS's, one a line, and a path below `/pv/` with the body of a put.

use std::sync::Arc;
use std::time::Duration;

use pvwire_coniql::{
    Dialect, Documents, Protocol, Reply, Requests, Settings, Socket, may_introspect, put_value,
};
use pvwire_http::{Form, PREFIX, put_body, route};
use pvwire_schema::types::PvId;
use serde_json::Value;

pub(crate) const CONIQL: &[&str] = &[
    "{\"type\":\"connection_init\"}\n{\"type\":\"ping\",\"payload\":{\"a\":1}}",
    "{\"type\":\"connection_init\"}\n{\"type\":\"subscribe\",\"id\":\"1\",\"payload\":{\"query\":\"subscription { subscribeChannel(id: \\\"X\\\") { id } }\"}}\n{\"type\":\"complete\",\"id\":\"1\"}",
    "[{\"query\":\"{ getChannel(id: \\\"X\\\") { id } }\",\"variables\":{\"a\":1}},{\"query\":\"{ __schema { types { name } } }\"}]",
    "{\"type\":\"connection_init\"}\n{\"type\":\"start\",\"id\":1,\"payload\":{\"query\":\"{ getChannel(id: \\\"X\\\") { value { float } } }\"}}\n{\"type\":\"stop\",\"id\":1}",
];

pub(crate) const CONIQL_WORDS: &[&str] = &[
    "{\"type\":",
    "\"connection_init\"",
    "\"subscribe\"",
    "\"start\"",
    "\"complete\"",
    "\"stop\"",
    "\"ping\"",
    ",\"id\":",
    "\"1\"",
    ",\"payload\":{\"query\":",
    ",\"variables\":{",
    "subscription",
    "mutation",
    "subscribeChannel",
    "subscribeChannels(ids: [",
    "putChannels",
    "{",
    "}",
    "null",
    "\\u0000",
    "\n",
];

/// Maximum number of PVs.
const MAX_NAMES: usize = 8;

/// No message may make the socket send what isn't JSON, or hold more PVs than it may.
pub(crate) fn coniql(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let _ = put_value(&text, false);
    let _ = may_introspect(bytes);
    if let Err(why) = Requests::from_json(bytes) {
        assert!(is_json(&why.response()));
    }
    for protocol in [Protocol::Transport, Protocol::Legacy] {
        let mut socket = Socket::new(Settings {
            protocol,
            documents: Arc::new(Documents::new(Dialect::Coniql)),
            max_names: MAX_NAMES,
        });
        let (mut open, mut next) = (Vec::new(), 0);
        for line in text.split('\n') {
            let reply = socket.take(line);
            next += 1;
            check(reply, &mut socket);
            check(
                socket.passing(Duration::from_secs(next.into())),
                &mut socket,
            );
            let ended = socket.ended();
            open.retain(|pv| !ended.contains(pv));
            for wanted in socket.wanted(MAX_NAMES) {
                next += 1;
                socket.accepted(&wanted, PvId(next));
                open.push(PvId(next));
            }
            for pv in &open {
                let text = socket.result(*pv, b"{}").expect("an open operation");
                assert!(is_json(&text));
            }
            assert!(open.len() <= MAX_NAMES, "{open:?}");
            assert!(!socket.has_changes());
        }
    }
}

fn is_json(text: &[u8]) -> bool {
    serde_json::from_slice::<Value>(text).is_ok()
}

fn check(reply: Option<Reply>, socket: &mut Socket) {
    let texts = match reply {
        None | Some(Reply::Close(..)) => return,
        Some(Reply::Texts(texts) | Reply::LogIn { texts, .. }) => texts,
        Some(Reply::Run(number, _)) => socket.finish(number, b"{\"data\":null}"),
    };
    for text in texts {
        assert!(is_json(&text), "{}", String::from_utf8_lossy(&text));
    }
}

pub(crate) const HTTP: &[&str] = &[
    "/pv/SR:CURRENT\0{\"value\":1.5,\"wait\":false,\"timeout_ms\":100}",
    "/pv/pva:%2F%2FX%2Fa/stream\0{\"value\":[1,-2,9007199254740993]}",
    "/pv/ca://X.VAL\0{\"value\":[\"a\",\"\\u00b5\"]}",
];

pub(crate) const HTTP_WORDS: &[&str] = &[
    "/pv/",
    "/stream",
    "%2F",
    "%",
    "=",
    "loc://",
    "\0",
    "{\"value\":",
    ",\"wait\":true",
    ",\"timeout_ms\":",
    "18446744073709551615",
    "-9223372036854775808",
    "1e999",
    "\"NaN\"",
    "[",
    "]",
    "}",
    "null",
];

/// A name that was understood comes through a second time as it was, whatever it contains.
pub(crate) fn http(bytes: &[u8]) {
    let mut parts = bytes.splitn(2, |byte| *byte == 0);
    let path = String::from_utf8_lossy(parts.next().unwrap_or_default());
    if let Some(Ok(first)) = route(&path) {
        let encoded: String = (first.name.bytes())
            .map(|byte| format!("%{byte:02X}"))
            .collect();
        let again = route(&format!("{PREFIX}{encoded}"));
        let again = again.and_then(Result::ok).expect("the same name");
        assert_eq!((again.name, again.form), (first.name, Form::Json));
    }
    let _ = put_body(parts.next().unwrap_or_default(), Duration::from_secs(1));
}

pub(crate) const PVWS: &[&str] = &[
    r#"{"type":"subscribe","pvs":["X","ca://X","pva:///X/a?request=field(b.c)","=1+1"]}"#,
    "{\"type\":\"monitor\",\"pvs\":[\"X\"]}\n{\"type\":\"clear\",\"pvs\":[\"X\"]}\n{\"type\":\"list\"}",
    "{\"type\":\"subscribe\",\"pvs\":[\"X\"]}\n{\"type\":\"write\",\"pv\":\"X\",\"value\":[1,2.5]}",
];

pub(crate) const PVWS_WORDS: &[&str] = &[
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

/// No message may make the socket send what isn't JSON, ask twice for a name, or hold more names than it may.
pub(crate) fn pvws(bytes: &[u8]) {
    let mut socket = pvwire_pvws::Socket::new(pvwire_pvws::Settings {
        default: pvwire_pvws::Dialect::Ca,
        writes: true,
        max_names: MAX_NAMES,
    });
    let (mut open, mut next) = (Vec::new(), 0);
    for line in String::from_utf8_lossy(bytes).split('\n') {
        match socket.take(line) {
            Some(pvwire_pvws::Reply::Text(text)) => {
                let read: Value = serde_json::from_slice(&text).expect("an answer is JSON");
                assert!(read.is_object());
            }
            Some(pvwire_pvws::Reply::Put { number, .. }) => {
                let failed = socket.put_failed(number, "why \"not\"");
                let read: Result<Value, _> = serde_json::from_slice(&failed);
                assert!(read.is_ok());
            }
            Some(pvwire_pvws::Reply::Echo | pvwire_pvws::Reply::Ping) | None => {}
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
