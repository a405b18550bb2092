//! Pins the bytes of messages: golden files of every kind of frame and request, and those of
//! released versions of the schema.
//!
//! `PVWIRE_WRITE_GOLDEN=1 cargo test -p pvwire-schema` writes the golden files. A changed `.bin` is a
//! changed protocol.

mod description;
mod frames;
mod released;
mod requests;

use std::fs;
use std::path::PathBuf;

use pvwire_schema::{decode, encode};

use self::description::described;
use self::frames::{every_kind_of_field, frames};
use self::requests::requests;

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name)
}

fn same_as_file(name: &str, bytes: &[u8]) {
    let path = golden(name);
    if std::env::var_os("PVWIRE_WRITE_GOLDEN").is_some() {
        fs::write(&path, bytes).expect("golden folder");
    }
    let expected = fs::read(&path).unwrap_or_default();
    assert!(
        expected == bytes,
        "{} differs from what is encoded now",
        path.display()
    );
}

#[test]
fn frames_are_pinned_byte_for_byte() {
    for (name, bytes) in frames() {
        same_as_file(&format!("{name}.bin"), &bytes);
    }
}

#[test]
fn frames_say_what_their_description_says() {
    for (name, bytes) in frames() {
        let text = serde_json::to_string_pretty(&described(&bytes)).unwrap() + "\n";
        same_as_file(&format!("{name}.json"), text.as_bytes());
    }
}

#[test]
fn requests_are_pinned_and_come_back_as_they_were() {
    for (name, request) in requests() {
        let bytes = encode::request(&request);
        same_as_file(&format!("{name}.bin"), &bytes);
        assert_eq!(decode::request(&bytes), Ok(request));
    }
}

#[test]
fn arrays_can_be_viewed_in_place() {
    let (_, bytes) = frames()
        .into_iter()
        .find(|(name, _)| *name == "arrays")
        .unwrap();
    for blob in decode::frame(&bytes).unwrap().blobs() {
        assert_eq!(blob.data_offset % 8, 0, "array of {:?}", blob.value_type);
    }
}

#[test]
fn structure_comes_back_as_it_was() {
    let (_, bytes) = (frames().into_iter())
        .find(|(name, _)| *name == "structure")
        .unwrap();
    let view = decode::frame(&bytes).unwrap();
    let blob = view.blobs().next().unwrap();
    assert_eq!(blob.structure.unwrap().to_node(), every_kind_of_field());
}
