//! The protocol of PVWS, as its clients in the fault run speak it.

use serde_json::{Value, json};

use super::door::{Door, Heard, Speech};
use super::pvws_truth;

/// PVWS's door.
pub(super) static PVWS: Door = Door {
    server: "PVWS",
    path: "/pvws/pv",
    subprotocol: None,
    speech: || Box::new(Pvws),
    differences: pvws_truth::differences,
};

struct Pvws;

fn message(kind: &str, names: &[String]) -> Vec<String> {
    vec![json!({"type": kind, "pvs": names}).to_string()]
}

impl Speech for Pvws {
    fn subscribe(&mut self, names: &[String]) -> Vec<String> {
        message("subscribe", names)
    }

    fn end(&mut self, names: &[String]) -> Vec<String> {
        message("clear", names)
    }

    fn take(&mut self, text: &str) -> Heard {
        let message: Value = serde_json::from_str(text).expect("each message is JSON");
        let Value::Object(fields) = message else {
            panic!("not an object: {text}");
        };
        match fields["type"].as_str() {
            Some("update") => Heard::Update(fields["pv"].as_str().unwrap().to_owned(), fields),
            Some("error") => Heard::Refused,
            _ => panic!("not asked for: {text}"),
        }
    }
}
