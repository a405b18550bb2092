//! The number of bytes that one numeric update takes on the wire.

use pvwire_schema::encode::{FrameEncoder, RowMarks};
use pvwire_schema::types::{FrameKind, PvId};

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
