//! Pins the bytes of messages: every kind of frame and request, and those of released versions of the
//! schema.
//!
//! `PVWIRE_WRITE_GOLDEN=1 cargo test -p pvwire-schema` writes `tests/golden.json`. Changed `bytes` are a
//! changed protocol.

mod description;
mod frames;
mod golden;
mod pinned;
mod released;
mod requests;

use pvwire_schema::{decode, encode};
use serde_json::json;

use self::description::described;
use self::frames::{every_kind_of_field, frames};
use self::pinned::lines;
use self::requests::requests;

#[test]
fn messages_are_pinned_byte_for_byte() {
    let frames = frames().into_iter().map(|(name, bytes)| {
        let message = json!({ "bytes": lines(&bytes), "decoded": described(&bytes) });
        (name.to_owned(), message)
    });
    let requests = requests().into_iter().map(|(name, request)| {
        let message = json!({ "bytes": lines(&encode::request(&request)) });
        (name.to_owned(), message)
    });
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden.json");
    pinned::compare(file, &frames.chain(requests).collect());
}

#[test]
fn requests_come_back_as_they_were() {
    for (_, request) in requests() {
        assert_eq!(decode::request(&encode::request(&request)), Ok(request));
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
