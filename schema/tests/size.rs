//! How many bytes does one numeric update take on the wire?

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
