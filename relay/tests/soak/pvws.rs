//! The protocol of PVWS, as its clients in the fault run speak it, and base64, as the doors' messages have it.

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

/// Base64 of the standard alphabet with padding (RFC 4648, section 4).
pub(super) fn text(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let byte = |at: usize| u32::from(three.get(at).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            let digit = ALPHABET[(bits >> (18 - 6 * at) & 63) as usize];
            text.push(if at <= three.len() { digit.into() } else { '=' });
        }
    }
    text
}
