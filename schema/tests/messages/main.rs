//! Pins the bytes of messages: every kind of frame and request, and those of released versions of the schema; and how
//! many bytes a numeric update takes.
//!
//! `PVWIRE_WRITE_GOLDEN=1 cargo test -p pvwire-schema` writes `tests/golden.json`. Changed `bytes` are a
//! changed protocol.

mod description;
mod frames;
mod golden;
mod pinned;
mod released;
mod requests;

use pvwire_schema::encode::{FrameEncoder, RowMarks};
use pvwire_schema::types::{FrameKind, PvId};
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

/// 1,000 PVs that one scan thread processed 3 to 9 µs apart, in the order they were subscribed in.
#[test]
fn numeric_update_takes_at_most_thirteen_bytes() {
    let mut encoder = FrameEncoder::new();
    encoder.begin(FrameKind::Update, 1, 0);
    let mut time_ns = 1_753_000_000_000_000_000;
    for n in 0..1000_u32 {
        time_ns += 3_000 + i64::from(n * 7919 % 6_000);
        encoder.number(PvId(n), time_ns, f64::from(n) * 0.1, RowMarks::default());
    }
    let bytes = encoder.finish().len() as f64 / 1000.0;
    assert!(bytes <= 13.0, "{bytes} bytes per update");
}

fn packed_bytes_per_update(value: impl Fn(u32) -> f64) -> f64 {
    let mut encoder = FrameEncoder::new();
    encoder.packing(true);
    encoder.begin(FrameKind::Update, 1, 0);
    let mut time_ns = 1_753_000_000_000_000_000;
    for n in 0..1000_u32 {
        time_ns += 3_000 + i64::from(n * 7919 % 6_000);
        encoder.number(PvId(n), time_ns, value(n), RowMarks::default());
    }
    encoder.finish().len() as f64 / 1000.0
}

/// What a converter of 16 bits reads, in millivolts, each signal at a different level.
#[test]
fn packed_reading_of_a_converter_takes_at_most_nine_bytes() {
    let noise = |n: u32| n.wrapping_mul(2_654_435_761) >> 16;
    let reading = |n: u32| f64::from(noise(n)) * 10_000.0 / 65_536.0;
    let bytes = packed_bytes_per_update(reading);
    assert!(bytes <= 9.0, "{bytes} bytes per update");
}
