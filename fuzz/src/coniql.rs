//! Target `coniql`: messages of clients of Coniql, one a line, to one socket of each subprotocol, and the body of a
//! request by HTTP.

use std::sync::Arc;
use std::time::Duration;

use pvwire_coniql::{
    Dialect, Documents, Protocol, Reply, Requests, Settings, Socket, may_introspect, put_value,
};
use pvwire_schema::types::PvId;
use serde_json::Value;

pub(crate) const SEEDS: &[&str] = &[
    "{\"type\":\"connection_init\"}\n{\"type\":\"ping\",\"payload\":{\"a\":1}}",
    "{\"type\":\"connection_init\"}\n{\"type\":\"subscribe\",\"id\":\"1\",\"payload\":{\"query\":\"subscription { subscribeChannel(id: \\\"X\\\") { id } }\"}}\n{\"type\":\"complete\",\"id\":\"1\"}",
    "[{\"query\":\"{ getChannel(id: \\\"X\\\") { id } }\",\"variables\":{\"a\":1}},{\"query\":\"{ __schema { types { name } } }\"}]",
    "{\"type\":\"connection_init\"}\n{\"type\":\"start\",\"id\":1,\"payload\":{\"query\":\"{ getChannel(id: \\\"X\\\") { value { float } } }\"}}\n{\"type\":\"stop\",\"id\":1}",
];

pub(crate) const WORDS: &[&str] = &[
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
pub(crate) fn run(bytes: &[u8]) {
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
