//! Makes the frames and the session that several tests share.

use pvwire_schema::encode::FrameEncoder;
use pvwire_schema::types::{Connection, ConnectionState, Filter, FrameKind};

use super::Session;
use crate::store::Slot;

#[path = "../../../schema/tests/messages/golden.rs"]
mod golden_file;

pub(crate) const ALL: Filter = Filter {
    min_interval_ms: 0,
    deadband: 0.0,
    every: 0,
    ..Filter::ALL
};

/// A message of the schema's golden file.
pub(crate) fn golden(name: &str) -> Vec<u8> {
    let file = include_str!("../../../schema/tests/golden.json");
    golden_file::bytes_of(&golden_file::messages(file)[name])
}

/// A session that requested the PVs of the golden snapshot and received the snapshot.
pub(crate) fn at_the_snapshot() -> (Session, Vec<Slot>) {
    let mut session = Session::new();
    session.apply(&golden("hello")).unwrap();
    let slots: Vec<Slot> = ["TEMP", "MODE", "TEXT", "NONE", ""]
        .iter()
        .map(|name| session.live.add(name))
        .collect();
    assert_eq!(session.subscribe(&slots, ALL).0, 5);
    session.apply(&golden("snapshot")).unwrap();
    (session, slots)
}

pub(crate) fn frame(
    kind: FrameKind,
    tick: u64,
    prev: u64,
    fill: impl Fn(&mut FrameEncoder),
) -> Vec<u8> {
    let mut encoder = FrameEncoder::new();
    encoder.begin(kind, tick, prev);
    fill(&mut encoder);
    encoder.finish().to_vec()
}

pub(crate) fn connected() -> Connection {
    Connection {
        puts: false,
        heard_ns: 0,
        write_unknown: false,
        state: ConnectionState::Connected,
        since_ns: 5_000_000,
        read: true,
        write: true,
    }
}
