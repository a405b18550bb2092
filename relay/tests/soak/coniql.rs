//! The two protocols of Coniql, as its clients in the fault run speak them: an operation for each PV.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::coniql_truth;
use super::door::{Door, Heard, Speech};

/// Coniql's door with the subprotocol of graphql-ws.
pub(super) static CONIQL: Door = Door {
    server: "Coniql",
    path: "/ws",
    subprotocol: Some("graphql-transport-ws"),
    speech: || Box::new(Coniql::new(&NEW)),
    differences: coniql_truth::differences,
};

/// The same door with the subprotocol of subscriptions-transport-ws.
pub(super) static LEGACY: Door = Door {
    server: "Coniql (legacy)",
    path: "/ws",
    subprotocol: Some("graphql-ws"),
    speech: || Box::new(Coniql::new(&OLD)),
    differences: coniql_truth::differences,
};

/// The types of messages.
struct Words {
    start: &'static str,
    stop: &'static str,
    result: &'static str,
}

static NEW: Words = Words {
    start: "subscribe",
    stop: "complete",
    result: "next",
};

static OLD: Words = Words {
    start: "start",
    stop: "stop",
    result: "data",
};

/// Every field that Channel Access has something for.
const DOCUMENT: &str = "subscription ($id: ID!) { subscribeChannel(id: $id) {
    id
    value { float string exact stringArray base64Array { numberType base64 } }
    time { seconds nanoseconds }
    status { quality severity mutable }
    display {
        description role units precision choices
        controlRange { min max } displayRange { min max } alarmRange { min max } warningRange { min max }
    }
    connection { connected readable unresponsive }
} }";

struct Coniql {
    words: &'static Words,
    /// The name of each operation's PV, by the operation's id.
    names: HashMap<String, String>,
    last: u64,
}

impl Coniql {
    fn new(words: &'static Words) -> Self {
        Self {
            words,
            names: HashMap::new(),
            last: 0,
        }
    }
}

impl Speech for Coniql {
    fn begin(&mut self) -> Vec<String> {
        vec![json!({"type": "connection_init"}).to_string()]
    }

    fn subscribe(&mut self, names: &[String]) -> Vec<String> {
        let mut messages = Vec::new();
        for name in names {
            if self.names.values().any(|subscribed| subscribed == name) {
                continue;
            }
            self.last += 1;
            let id = self.last.to_string();
            let payload = json!({"query": DOCUMENT, "variables": {"id": name}});
            let message = json!({"type": self.words.start, "id": id, "payload": payload});
            messages.push(message.to_string());
            self.names.insert(id, name.clone());
        }
        messages
    }

    fn end(&mut self, names: &[String]) -> Vec<String> {
        let ended = self.names.extract_if(|_, name| names.contains(name));
        let stop = self.words.stop;
        let message = |(id, _)| json!({"type": stop, "id": id}).to_string();
        ended.map(message).collect()
    }

    fn take(&mut self, text: &str) -> Heard {
        let mut message: Value = serde_json::from_str(text).expect("each message is JSON");
        let kind = message["type"].as_str().unwrap();
        if ["connection_ack", "ka"].contains(&kind) {
            return Heard::Nothing;
        }
        let (is_result, is_error) = (kind == self.words.result, kind == "error");
        assert!(is_result || is_error, "not asked for: {text}");
        let id = message["id"].as_str().unwrap().to_owned();
        if is_error {
            self.names.remove(&id);
            return Heard::Refused;
        }
        // A result may have been under way when its operation was ended.
        let Some(name) = self.names.get(&id) else {
            return Heard::Nothing;
        };
        let channel = message["payload"]["data"]["subscribeChannel"].take();
        let Value::Object(parts) = channel else {
            panic!("no channel: {text}");
        };
        let full = format!("ca://{}", name.trim_start_matches("ca://"));
        assert_eq!(parts["id"], full, "{text}");
        // Null says that a part did not change.
        let changed = parts.into_iter().filter(|(_, part)| !part.is_null());
        Heard::Update(name.clone(), changed.collect())
    }
}
