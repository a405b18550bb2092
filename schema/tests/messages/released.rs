//! Compatibility with released versions of the schema: this version's decoders read the messages of
//! each release in `schema/fbs/released`. `make regen-check` compares the schemas, and `make stranger`
//! reads this version's frames as a client of each release.

use std::fs;
use std::path::Path;

use pvwire_schema::decode;
use serde_json::Value;

use crate::description::described;
use crate::golden;
use crate::requests::requests;

/// The messages of all releases by name, as their golden files have them.
fn released() -> Vec<(String, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fbs/released");
    let entries = fs::read_dir(folder).expect("the folder of releases");
    let releases = (entries.map(|entry| entry.expect("an entry of the folder").path()))
        .filter(|path| path.is_dir());
    let mut found = Vec::new();
    for release in releases {
        let file = release.join("golden.json");
        let text = fs::read_to_string(&file).expect("the golden file of a release");
        found.extend(golden::messages(&text));
    }
    assert!(!found.is_empty(), "there is no release");
    found
}

/// Whether `now` says all that `then` says. Later versions may add keys to an object.
fn says_as_much(now: &Value, then: &Value) -> bool {
    match (now, then) {
        (Value::Object(now), Value::Object(then)) => then
            .iter()
            .all(|(key, then)| now.get(key).is_some_and(|now| says_as_much(now, then))),
        (Value::Array(now), Value::Array(then)) => {
            now.len() == then.len()
                && now
                    .iter()
                    .zip(then)
                    .all(|(now, then)| says_as_much(now, then))
        }
        _ => now == then,
    }
}

#[test]
fn frames_of_a_released_relay_are_decoded_as_before() {
    for (name, message) in released() {
        if let Some(then) = message.get("decoded") {
            let now = described(&golden::bytes_of(&message));
            assert!(says_as_much(&now, then), "{name}: {now:#}");
        }
    }
}

#[test]
fn requests_of_a_released_client_are_decoded_as_before() {
    let requests = requests();
    for (name, message) in released() {
        if message.get("decoded").is_none() {
            let then = requests.iter().find(|(known, _)| *known == name);
            let (_, then) = then.expect("a request of a release stays in requests.rs");
            let now = decode::request(&golden::bytes_of(&message));
            assert_eq!(now.as_ref(), Ok(then), "{name}");
        }
    }
}

#[test]
fn a_description_may_gain_keys_but_not_lose_or_change_them() {
    let value = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    let then = value(r#"{"rows":[{"id":1}]}"#);
    assert!(says_as_much(
        &value(r#"{"rows":[{"id":1,"more":2}],"new":0}"#),
        &then
    ));
    for lost in [
        r#"{}"#,
        r#"{"rows":[]}"#,
        r#"{"rows":[{"id":2}]}"#,
        r#"{"rows":[{}]}"#,
    ] {
        assert!(!says_as_much(&value(lost), &then), "{lost}");
    }
}
