//! Messages of the relay's own protocol: requests, frames as a client reads and applies them, and the count of a
//! socket's frames.

use std::time::{Duration, SystemTime};

use pvwire_core::engine::{Engine, Event, Filter, Put, PutValue};
use pvwire_core::ingest::Session;
use pvwire_core::select;
use pvwire_core::select::EVERYTHING;
use pvwire_relay::session::socket::frames_begun;
use pvwire_schema::{decode, encode};

#[path = "../../schema/tests/messages/golden.rs"]
mod golden_file;

/// Golden messages with this file identifier.
pub(crate) fn golden(identifier: &str) -> Vec<Vec<u8>> {
    let messages = golden_file::messages(include_str!("../../schema/tests/golden.json"));
    (messages.values().map(golden_file::bytes_of))
        .filter(|bytes| bytes.get(4..8) == Some(identifier.as_bytes()))
        .collect()
}

/// Several frames after each other: each golden one alone, and some of them in a row.
pub(crate) fn sequences() -> Vec<Vec<u8>> {
    let frames = golden("PVWF");
    let pairs = frames
        .iter()
        .zip(frames.iter().skip(1))
        .map(|(a, b)| [framed(a), framed(b)].concat());
    let alone = frames.iter().map(|frame| framed(frame));
    alone.chain(pairs).collect()
}

/// A frame behind its length, so that the next one can follow.
fn framed(frame: &[u8]) -> Vec<u8> {
    [&(frame.len() as u32).to_le_bytes(), frame].concat()
}

/// What a client sends to the relay.
pub(crate) fn requests(bytes: &[u8]) {
    let _ = decode::request_id(bytes);
    let Ok(request) = decode::request(bytes) else {
        return;
    };
    let again = encode::request(&request);
    let read = decode::request(&again).map(|again| format!("{again:?}"));
    assert_eq!(
        read,
        Ok(format!("{request:?}")),
        "a request that was understood doesn't come through a second time as it was"
    );
}

/// What the relay sends, read as a client would: every column to its end.
pub(crate) fn frames(bytes: &[u8]) {
    let Ok(view) = decode::frame(bytes) else {
        return;
    };
    let rows = view.numbers_len() + view.blobs_len();
    assert_eq!(view.numbers().count(), view.numbers_len());
    for blob in view.blobs() {
        assert!(blob.data_offset + blob.data.len() <= bytes.len());
        let _ = blob.text().map(str::len).sum::<usize>();
    }
    assert!(view.alarms().all(|alarm| (alarm.row as usize) < rows));
    assert!(view.details().all(|detail| (detail.row as usize) < rows));
    assert!(view.skips().all(|skip| (skip.row as usize) < rows));
    let _ = view.metadata().count() + view.connections().count();
    if let Some(sequences) = view.sequences() {
        assert_eq!(sequences.count(), rows);
    }
    let _ = (view.reply(), view.reply_to(), view.tick(), view.prev_tick());
    let mut open: Vec<_> = (view.rpc_result().into_iter())
        .chain(view.put_readback())
        .collect();
    while let Some(node) = open.pop() {
        assert!(node.data_offset() + node.data().len() <= bytes.len());
        let _ = node.text().map(str::len).sum::<usize>() + node.name().len();
        open.extend(node.fields());
    }
}

pub(crate) fn ingest(bytes: &[u8]) {
    session(bytes);
    engine(bytes);
}

/// The frames of an input.
fn each_of(mut bytes: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    std::iter::from_fn(move || {
        let (length, rest) = bytes.split_first_chunk::<4>()?;
        let length = (u32::from_le_bytes(*length) as usize).min(rest.len());
        let (frame, rest) = rest.split_at(length);
        bytes = rest;
        Some(frame.to_vec())
    })
}

/// What the browser's store makes of them.
fn session(bytes: &[u8]) {
    let mut session = Session::new();
    let names = ["a", "b", "c", "d"].map(|name| session.live.add(name));
    session.subscribe(&names, Filter::default());
    session.get(&["e".to_owned(), "f".to_owned()], 0, true);
    for frame in each_of(bytes) {
        let before = session.last_tick();
        if session.apply(&frame).is_err() {
            assert_eq!(
                session.last_tick(),
                before,
                "what is no frame changed something"
            );
        }
    }
    let _ = session.ack();
    session.live.clear_dirty();
}

/// What a native program reads of them: everything of every PV and every answer.
fn engine(bytes: &[u8]) {
    let mut engine = Engine::new();
    let mut now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    let pvs = engine.open(
        ["a", "b", "c", "d", "=`a` + `b`", "loc://e(1)"],
        Filter::ALL,
        now,
    );
    engine.connected(now);
    engine.get(["e", "f"], Duration::ZERO, true);
    let tickets = engine.put(["g", "h"].map(put), false, now);
    engine.call("i", Vec::new(), Duration::ZERO);
    let everything = select::program(EVERYTHING).ok();
    let mut ended = Vec::new();
    for frame in each_of(bytes) {
        now += Duration::from_millis(100);
        let sent = engine.requests(now);
        if sent.is_err() || engine.receive(frame, now).is_err() {
            engine.disconnected(now);
            engine.connected(now);
        }
        for change in engine.changes() {
            let view = engine.read(change.pv);
            let text = view.map(|view| format!("{view} {:?} {:?}", view.time(), view.alarm()));
            assert!(text.is_some(), "a closed PV changed");
            if let (Some(view), Some(everything)) = (view, &everything) {
                assert!(!view.select(everything).to_json().is_empty());
            }
        }
        for event in engine.events() {
            match event {
                Event::Got(_, got) => assert!(got.iter().count() == 2),
                Event::Put(ticket, _) => ended.push(ticket),
                _ => {}
            }
        }
        engine.close(&pvs[..1]);
    }
    engine.disconnected(now);
    for event in engine.events() {
        if let Event::Put(ticket, _) = event {
            ended.push(ticket);
        }
    }
    ended.sort();
    assert_eq!(ended, tickets, "each put ends once");
}

fn put(name: &str) -> Put {
    Put::new(name, PutValue::Number(1.0))
}

/// Frames of all lengths, in two pieces.
pub(crate) fn socket_seeds() -> Vec<Vec<u8>> {
    let masked = |opcode: u8, length: &[u8], bytes: usize| {
        let mut frame = vec![3, opcode];
        frame.extend(length);
        frame.resize(frame.len() + 4 + bytes, 0x5a);
        frame
    };
    vec![
        masked(0x82, &[0x80 | 5], 5),
        masked(0x02, &[0x80 | 126, 1, 0], 256),
        masked(0x80, &[0x80 | 127, 0, 0, 0, 0, 0, 0, 1, 1], 257),
        [masked(0x89, &[0x80], 0), masked(0x8a, &[0x80], 0)].concat(),
        vec![
            1, 0x82, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
        ],
    ]
}

/// The first byte says in pieces of which length the others come.
pub(crate) fn sockets(bytes: &[u8]) {
    let Some((length, stream)) = bytes.split_first() else {
        return;
    };
    let whole = frames_begun([stream]);
    let cut = frames_begun(stream.chunks(usize::from(*length) + 1));
    assert_eq!(whole, cut, "frames are counted by how they come");
    assert!(whole <= stream.len() / 2, "a frame has two bytes at least");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_messages_are_read() {
        let (requests, frames) = (golden("PVWR"), golden("PVWF"));
        assert!(requests.iter().all(|seed| decode::request(seed).is_ok()));
        assert!(frames.iter().all(|seed| decode::frame(seed).is_ok()));
    }
}
