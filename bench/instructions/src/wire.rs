//! The work for received bytes: in the browser for each frame, in the relay for each request.

use std::hint::black_box;

use pvwire_core::ingest::Session;
use pvwire_schema::encode::{self, FrameEncoder, RowMarks};
use pvwire_schema::types::{Filter, FrameKind, PvId, Request, RequestBody};
use pvwire_schema::{decode, types};

use crate::repeat;

/// Decodes a frame and applies it to the client's store.
pub(crate) fn apply(rows: usize) {
    let mut session = Session::new();
    for number in 0..rows as u32 {
        let slot = session.live.add(&name(number));
        session.live.bind(slot, PvId(number));
    }
    let mut encoder = FrameEncoder::new();
    encoder.begin(FrameKind::Update, 1, 0);
    for number in 0..rows as u32 {
        let time_ns = 1_700_000_000_000_000_000 + i64::from(number) * 1_500;
        encoder.number(PvId(number), time_ns, number.into(), RowMarks::default());
    }
    let frame = encoder.finish();
    let applied = session.apply(frame).expect("it is a frame");
    assert_eq!((applied.rows, applied.gap), (rows as u32, false));
    assert_eq!(session.live.updates_total(), rows as u64);
    repeat(|| session.apply(black_box(frame)));
}

/// Reads a request for several PVs.
pub(crate) fn subscribe(names: usize) {
    let names = (0..names as u32).map(name).collect();
    read(&RequestBody::Subscribe {
        names,
        filter: Filter::default(),
    });
}

/// Reads the request that every client sends several times a second.
pub(crate) fn acknowledge(_: usize) {
    read(&RequestBody::Ack { tick: 4_711 });
}

fn read(body: &types::RequestBody) {
    let body = body.clone();
    let bytes = encode::request(&Request { id: 1, body });
    repeat(|| decode::request(black_box(&bytes)));
}

fn name(number: u32) -> String {
    format!("SR{:02}C-DI-EBPM-{number:04}:SA:X", number % 24)
}
