//! Target `ingest`: frames one after the other, each behind its length, as a client applies them.

use std::time::{Duration, SystemTime};

use pvwire_core::engine::{Engine, Event, Filter, Put, PutValue};
use pvwire_core::ingest::Session;
use pvwire_core::select;
use pvwire_core::select::EVERYTHING;

pub(crate) fn run(bytes: &[u8]) {
    session(bytes);
    engine(bytes);
}

/// The frames of an input.
fn frames(mut bytes: &[u8]) -> impl Iterator<Item = Vec<u8>> {
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
    for frame in frames(bytes) {
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
    for frame in frames(bytes) {
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
