//! Compatibility with released versions of the schema: this version's decoders read the messages of
//! each release in `schema/fbs/released`. `make regen-check` compares the schemas, and `make stranger`
//! reads this version's frames as a client of each release.

use std::fs;
use std::path::{Path, PathBuf};

use pvwire_schema::decode;
use serde_json::Value;

use crate::description::described;
use crate::requests::requests;

/// The files of all releases with this extension whose names `is_wanted` selects.
fn released(extension: &str, is_wanted: fn(&str) -> bool) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fbs/released");
    let list = |folder: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).expect("a folder of a release");
        entries
            .map(|entry| entry.expect("an entry of the folder").path())
            .collect()
    };
    let releases = list(&folder).into_iter().filter(|path| path.is_dir());
    let golden = releases.flat_map(|release| list(&release.join("golden")));
    let files: Vec<_> = golden
        .filter(|path| path.extension().is_some_and(|ending| ending == extension))
        .filter(|path| {
            is_wanted(
                path.file_stem()
                    .and_then(|name| name.to_str())
                    .expect("a plain name"),
            )
        })
        .collect();
    assert!(!files.is_empty(), "no release has files {extension}");
    files
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
    for path in released("json", |_| true) {
        let then: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        let now = described(&fs::read(path.with_extension("bin")).unwrap());
        assert!(says_as_much(&now, &then), "{}: {now:#}", path.display());
    }
}

#[test]
fn requests_of_a_released_client_are_decoded_as_before() {
    let requests = requests();
    for path in released("bin", |name| name.starts_with("request_")) {
        let name = path
            .file_stem()
            .and_then(|name| name.to_str())
            .expect("a plain name");
        let then = requests.iter().find(|(known, _)| *known == name);
        let (_, then) = then.expect("a request of a release stays in requests.rs");
        let now = decode::request(&fs::read(&path).unwrap());
        assert_eq!(now.as_ref(), Ok(then), "{}", path.display());
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
