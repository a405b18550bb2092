//! The engine with frames made by hand and times given by the tests.

mod inputs;
mod questions;
mod silence;

use pvwire_schema::decode;
use pvwire_schema::encode::RowMarks;
use pvwire_schema::types::{
    BlobValue, FrameKind, NameProblem, NodeValue, PvId, Reply, RequestBody, RequestProblem,
};

use super::*;
use crate::ingest::fixtures::{connected, frame};
use crate::select;
use crate::store::part;

fn at(seconds: f64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs_f64(1_800_000_000.0 + seconds)
}

fn hello() -> Hello {
    Hello {
        relay_version: "1".into(),
        relay_instance: 7,
        max_request_bytes: 1 << 20,
        max_subscriptions: 100,
        ack_interval_ms: 250,
        not_found_after_ms: 5000,
        authenticate: false,
        user: String::new(),
        expires_in_ms: 0,
        relays: Vec::new(),
        crowded: false,
    }
}

/// Connects and passes the relay's Hello.
fn connect(engine: &mut Engine, seconds: f64) {
    engine.connected(at(seconds));
    answer(engine, seconds, 0, &Reply::Hello(hello()));
}

/// Passes an answer without rows.
fn answer(engine: &mut Engine, seconds: f64, request: u32, reply: &Reply) {
    let bytes = frame(FrameKind::Answer, 0, 0, |e| e.reply(request, reply));
    engine.receive(bytes, at(seconds)).unwrap();
}

/// The requests to send at a time, decoded: their numbers and bodies.
fn sent(engine: &mut Engine, seconds: f64) -> Vec<(u32, RequestBody)> {
    let requests = engine.requests(at(seconds)).unwrap();
    let decoded = requests.iter().map(|bytes| decode::request(bytes).unwrap());
    decoded.map(|request| (request.id, request.body)).collect()
}

/// Answers a Subscribe with ids from 1 and a connected number for each.
fn subscribed(engine: &mut Engine, seconds: f64, request: u32, ids: std::ops::Range<u32>) {
    let all: Vec<_> = ids.clone().map(PvId).collect();
    let bytes = snapshot(request, &all, ids);
    engine.receive(bytes, at(seconds)).unwrap();
}

/// An answer to a Subscribe, and a connected number for each of `rows`.
fn snapshot(request: u32, ids: &[PvId], rows: std::ops::Range<u32>) -> Vec<u8> {
    let reply = Reply::Subscribed {
        ids: ids.to_vec(),
        errors: Vec::new(),
    };
    frame(FrameKind::Snapshot, 10, 0, |e| {
        e.reply(request, &reply);
        for id in rows.clone() {
            e.connection(PvId(id), connected());
        }
        for id in rows.clone() {
            let marks = RowMarks {
                sequence: 1,
                ..RowMarks::default()
            };
            e.number(PvId(id), 1_000_000_000, f64::from(id), marks);
        }
    })
}

fn subscribe_of(names: &[&str]) -> RequestBody {
    RequestBody::Subscribe {
        names: names.iter().map(|&name| name.to_owned()).collect(),
        filter: Filter::ALL,
    }
}

fn value(engine: &Engine, pv: Pv) -> Option<Value<'_>> {
    engine.read(pv).unwrap().value()
}

#[test]
fn open_pvs_are_subscribed_and_read_on_each_connection() {
    let mut engine = Engine::new();
    let pvs = engine.open(["A", "B"], Filter::ALL, at(0.0));
    assert_eq!(sent(&mut engine, 0.0), [], "there is no connection");
    assert_eq!(engine.due(), None);
    for seconds in [0.0, 100.0] {
        connect(&mut engine, seconds);
        let requests = sent(&mut engine, seconds);
        let [(request, body)] = requests.as_slice() else {
            panic!("{requests:?}");
        };
        assert_eq!(*body, subscribe_of(&["A", "B"]));
        subscribed(&mut engine, seconds, *request, 1..3);
        assert_eq!(value(&engine, pvs[1]), Some(Value::Number(2.0)));
        let changed: Vec<_> = engine.changes().iter().map(|change| change.pv).collect();
        assert_eq!(changed.len(), 2, "{changed:?}");
        assert_eq!(engine.changes(), []);

        engine.disconnected(at(seconds + 50.0));
        let view = engine.read(pvs[0]).unwrap();
        assert_eq!(view.value(), Some(Value::Number(1.0)), "the last one");
        assert_eq!(view.state(), State::RelayLost);
        assert_eq!(view.last_heard(), Some(at(seconds)));
        assert!(engine.changes()[0].parts & part::CONNECTION != 0);
    }
}

#[test]
fn each_filter_and_later_pvs_have_a_subscribe_of_their_own() {
    let mut engine = Engine::new();
    let slow = Filter {
        min_interval_ms: 1000,
        ..Filter::ALL
    };
    engine.open(["A"], Filter::ALL, at(0.0));
    engine.open(["A"], slow, at(0.0));
    engine.open(["B"], Filter::ALL, at(0.0));
    connect(&mut engine, 0.0);
    let requests = sent(&mut engine, 0.0);
    assert_eq!(requests, [(1, subscribe_of(&["A", "B"]))]);
    assert_eq!(sent(&mut engine, 0.0), [], "one at a time");
    subscribed(&mut engine, 0.0, 1, 1..3);
    let requests = sent(&mut engine, 0.0);
    assert!(matches!(
        &requests[0].1,
        RequestBody::Subscribe { filter, .. } if *filter == slow
    ));
}

#[test]
fn closed_pvs_are_released_after_the_open_subscribe() {
    let mut engine = Engine::new();
    let pvs = engine.open(["A", "B"], Filter::ALL, at(0.0));
    connect(&mut engine, 0.0);
    assert_eq!(sent(&mut engine, 0.0).len(), 1);
    engine.close(&pvs[..1]);
    assert!(engine.read(pvs[0]).is_none());
    assert_eq!(sent(&mut engine, 0.0), []);
    subscribed(&mut engine, 0.0, 1, 1..3);
    let changed: Vec<_> = engine.changes().iter().map(|change| change.pv).collect();
    assert_eq!(changed, pvs[1..]);
    let requests = sent(&mut engine, 0.0);
    let ids = vec![PvId(1)];
    assert_eq!(requests[0].1, RequestBody::Unsubscribe { ids });

    let again = engine.open(["C"], Filter::ALL, at(0.0));
    assert_ne!(again[0], pvs[0], "even in the same slot");
    assert!(engine.read(pvs[0]).is_none());
    engine.close(&pvs);
    assert!(engine.read(again[0]).is_some());
}

#[test]
fn frames_are_acknowledged_at_the_relays_interval() {
    let mut engine = Engine::new();
    engine.open(["A"], Filter::ALL, at(0.0));
    connect(&mut engine, 0.0);
    sent(&mut engine, 0.0);
    subscribed(&mut engine, 0.0, 1, 1..2);
    assert_eq!(sent(&mut engine, 0.0)[0].1, RequestBody::Ack { tick: 10 });
    let update = |tick| {
        frame(FrameKind::Update, tick, tick - 1, |e| {
            e.number(PvId(1), 0, tick as f64, RowMarks::default());
        })
    };
    engine.receive(update(11), at(0.1)).unwrap();
    assert_eq!(engine.due(), Some(at(0.25)));
    assert_eq!(sent(&mut engine, 0.2), []);
    engine.receive(update(12), at(0.2)).unwrap();
    assert_eq!(sent(&mut engine, 0.25)[0].1, RequestBody::Ack { tick: 12 });
    assert_eq!(engine.totals(), (3, 0));
    let gap = engine.receive(update(14), at(0.3));
    assert!(matches!(gap, Err(ReceiveError::Gap)));
    let damaged = engine.receive(vec![1, 2, 3], at(0.3));
    assert!(matches!(damaged, Err(ReceiveError::Damaged(_))));
}

#[test]
fn quiet_relay_is_pinged_reported_as_silent_and_given_up() {
    let mut engine = Engine::new();
    connect(&mut engine, 0.0);
    assert_eq!(engine.due(), Some(at(2.0)));
    assert_eq!(sent(&mut engine, 1.9), []);
    let pings = sent(&mut engine, 2.0);
    assert!(matches!(pings[0].1, RequestBody::Ping { .. }));
    assert_eq!(engine.due(), Some(at(3.0)));
    assert_eq!(engine.silent_since(), None);
    assert_eq!(sent(&mut engine, 3.0), []);
    assert_eq!(engine.silent_since(), Some(at(0.0)));
    assert_eq!(engine.due(), Some(at(12.0)));
    assert_eq!(engine.requests(at(12.0)), Err(NoAnswer));

    let pong = Reply::Pong {
        client_time_ns: 1,
        relay_time_ns: 2,
    };
    answer(&mut engine, 12.0, pings[0].0, &pong);
    assert_eq!(sent(&mut engine, 12.0).len(), 1, "the last was long ago");
    assert_eq!(engine.silent_since(), None);
    // The clock is set back by an hour.
    assert_eq!(sent(&mut engine, -3600.0), []);
    assert_eq!(engine.due(), Some(at(-3597.0)));
}

#[test]
fn connection_without_hello_is_given_up() {
    let mut engine = Engine::new();
    engine.connected(at(0.0));
    assert_eq!(engine.due(), Some(at(10.0)));
    assert_eq!(engine.requests(at(10.0)), Err(NoAnswer));
}

#[test]
fn token_is_requested_before_anything_is_subscribed() {
    let mut engine = Engine::new();
    engine.open(["A"], Filter::ALL, at(0.0));
    engine.pace(Duration::from_secs(1));
    engine.connected(at(0.0));
    let asks = Hello {
        authenticate: true,
        ..hello()
    };
    answer(&mut engine, 0.0, 0, &Reply::Hello(asks));
    assert!(matches!(engine.events()[..], [Event::TokenWanted]));
    engine.authenticate("secret");
    let token = "secret".to_owned();
    let requests = sent(&mut engine, 0.0);
    assert_eq!(requests, [(1, RequestBody::Authenticate { token })]);
    answer(&mut engine, 0.0, 1, &Reply::Hello(hello()));
    assert!(matches!(engine.events()[..], [Event::Opened(_)]));
    let pace = RequestBody::Pace { interval_ms: 1000 };
    let expected = [(0, pace), (2, subscribe_of(&["A"]))];
    assert_eq!(sent(&mut engine, 0.0), expected);
}

fn put(name: &str) -> Put {
    Put::new(name, PutValue::Number(1.0))
}

fn done(outcome: Outcome) -> Reply {
    Reply::PutDone {
        outcome,
        message: String::new(),
    }
}

#[test]
fn each_put_has_one_outcome_with_and_without_a_connection() {
    let mut engine = Engine::new();
    let early = engine.put([put("A")], false, at(0.0));
    connect(&mut engine, 0.0);
    engine.events();
    let tickets = engine.put([put("A"), put("B")], false, at(0.0));
    assert_ne!(early[0], tickets[0]);
    let requests = sent(&mut engine, 0.0);
    let [(1, RequestBody::PutMany { puts, .. })] = requests.as_slice() else {
        panic!("{requests:?}");
    };
    assert_eq!(puts[1].name, "B");
    answer(&mut engine, 0.0, 2, &done(Outcome::NoAccess));
    answer(&mut engine, 0.0, 1, &done(Outcome::Done));
    answer(&mut engine, 0.0, 1, &done(Outcome::Done));
    let events = engine.events();
    let [Event::Put(second, Err(error)), Event::Put(first, Ok(_))] = events.as_slice() else {
        panic!("{events:?}");
    };
    assert_eq!([*first, *second], tickets[..]);
    assert!(!error.may_be_written());

    engine.put([put("A")], false, at(0.0));
    assert_eq!(sent(&mut engine, 0.0).len(), 1);
    engine.put([put("B")], false, at(0.0));
    engine.disconnected(at(1.0));
    engine.put([put("C")], false, at(0.0));
    let ends = engine.events().into_iter().map(|event| match event {
        Event::Put(_, Err(error)) => (error.may_be_written(), error),
        other => panic!("{other:?}"),
    });
    let expected = [
        (true, PutError::Lost),
        (false, PutError::NotConnected),
        (false, PutError::NotConnected),
    ];
    assert_eq!(ends.collect::<Vec<_>>(), expected);
}

#[test]
fn put_bound_to_an_update_is_sent_only_while_one_is_shown() {
    let mut engine = Engine::new();
    let pvs = engine.open(["A"], Filter::ALL, at(0.0));
    connect(&mut engine, 0.0);
    sent(&mut engine, 0.0);
    let bound = || Put {
        only_if: Some(pvs[0]),
        ..put("A")
    };
    engine.events();
    engine.put([bound(), put("B")], true, at(0.0));
    assert_eq!(sent(&mut engine, 0.0), []);
    let errors = engine.events();
    let [Event::Put(_, Err(first)), Event::Put(_, Err(second))] = errors.as_slice() else {
        panic!("{errors:?}");
    };
    assert_eq!((first, second), (&PutError::NoUpdate, &PutError::Withheld));
    subscribed(&mut engine, 0.0, 1, 1..2);
    engine.put([bound()], false, at(0.0));
    let requests = sent(&mut engine, 0.0);
    let put = requests.iter().find_map(|(_, body)| match body {
        RequestBody::Put(put) => put.expected,
        _ => None,
    });
    assert_eq!(put.map(|expected| expected.sequence), Some(1));
}

#[test]
fn group_with_a_local_pv_is_withheld_as_a_whole() {
    let mut engine = Engine::new();
    let local = engine.open(["loc://x(1)"], Filter::ALL, at(0.0))[0];
    connect(&mut engine, 0.0);
    sent(&mut engine, 0.0);
    engine.events();
    engine.put([put("loc://x"), put("A")], true, at(0.0));
    assert_eq!(sent(&mut engine, 0.0), []);
    let events = engine.events();
    let is_withheld = |event: &Event| matches!(event, Event::Put(_, Err(PutError::Withheld)));
    assert!(
        events.len() == 2 && events.iter().all(is_withheld),
        "{events:?}"
    );
    let view = engine.read(local).unwrap();
    assert_eq!(view.value(), Some(Value::Number(1.0)));
}

#[test]
fn get_longer_than_a_request_is_answered_as_one() {
    let mut engine = Engine::new();
    engine.connected(at(0.0));
    let small = Hello {
        max_request_bytes: 150,
        ..hello()
    };
    answer(&mut engine, 0.0, 0, &Reply::Hello(small));
    engine.events();
    let names = ["A", "B", "C", "D", "E"];
    let ticket = engine.get(names, Duration::from_secs(1), false);
    let requests = sent(&mut engine, 0.0);
    let [(1, RequestBody::Get { names: first, .. }), (2, _)] = requests.as_slice() else {
        panic!("{requests:?}");
    };
    let count = first.len() as u32;
    let refused = Reply::Error {
        problem: RequestProblem::Refused,
        message: "no".into(),
    };
    answer(&mut engine, 0.0, 2, &refused);
    let got = Reply::Got {
        ids: (0..count - 1).map(PvId).collect(),
        errors: vec![NameError {
            index: 0,
            problem: NameProblem::BadName,
            message: "bad".into(),
        }],
    };
    let bytes = frame(FrameKind::Answer, 0, 0, |e| {
        e.reply(1, &got);
        let array = BlobValue::array(ValueType::UInt8, 3, vec![1, 2, 3]);
        e.blob(PvId(1), 0, &array, RowMarks::default());
    });
    engine.receive(bytes, at(0.0)).unwrap();
    let events = engine.events();
    let [Event::Got(answered, got)] = events.as_slice() else {
        panic!("{events:?}");
    };
    assert_eq!(*answered, ticket);
    let results: Vec<_> = (got.iter())
        .map(|result| match result {
            Ok(view) => format!("{} {view}", view.name()),
            Err(error) => error.message.clone(),
        })
        .collect();
    let left_out = "the relay's answer leaves the PV out";
    assert_eq!(
        results,
        ["bad", "B [3 × UInt8]", "C no value", left_out, "no"]
    );
}

#[test]
fn arrays_share_the_message_and_structures_merge_their_parts() {
    let mut engine = Engine::new();
    let pvs = engine.open(["WAVE", "TABLE"], Filter::ALL, at(0.0));
    connect(&mut engine, 0.0);
    sent(&mut engine, 0.0);
    subscribed(&mut engine, 0.0, 1, 1..3);
    let field = |name: &str, number| Node {
        name: name.into(),
        value: NodeValue::Number(ValueType::Float64, number),
        ..Node::default()
    };
    let structure = |fields| Node {
        value: NodeValue::Structure(fields),
        ..Node::default()
    };
    let whole = structure(vec![field("a", 1.0), field("b", 2.0)]);
    let bytes = frame(FrameKind::Update, 11, 10, |e| {
        let array = BlobValue::array(ValueType::Float64, 1, 1.5_f64.to_le_bytes().to_vec());
        e.blob(PvId(1), 0, &array, RowMarks::default());
        let table = BlobValue::Structure(whole.clone());
        e.blob(PvId(2), 0, &table, RowMarks::default());
    });
    let message = bytes::Bytes::from(bytes);
    engine.receive(message.clone(), at(0.0)).unwrap();
    let Some(Value::Array(array)) = value(&engine, pvs[0]) else {
        panic!("no array");
    };
    assert_eq!(array.numbers(), [1.5]);
    let (start, inside) = (message.as_ptr() as usize, array.data.as_ptr() as usize);
    assert!((start..start + message.len()).contains(&inside), "copied");

    let bytes = frame(FrameKind::Update, 12, 11, |e| {
        let part = BlobValue::StructurePart(structure(vec![field("b", 3.0)]));
        e.blob(PvId(2), 0, &part, RowMarks::default());
    });
    engine.receive(bytes, at(0.0)).unwrap();
    let merged = structure(vec![field("a", 1.0), field("b", 3.0)]);
    assert_eq!(value(&engine, pvs[1]), Some(Value::Structure(&merged)));
}

#[test]
fn compiled_selection_reads_a_view() {
    let mut engine = Engine::new();
    let pvs = engine.open(["A"], Filter::ALL, at(0.0));
    connect(&mut engine, 0.0);
    sent(&mut engine, 0.0);
    subscribed(&mut engine, 0.0, 1, 5..6);
    let selection = select::program("{ value { float } connection { connected } }").unwrap();
    let json = engine.read(pvs[0]).unwrap().select(&selection).to_json();
    assert_eq!(
        json,
        r#"{"value":{"float":5},"connection":{"connected":true}}"#
    );
    let error = select::program("{ value { flaot } }").unwrap_err();
    assert_eq!((error.line, error.column), (1, 11), "{error}");
}

#[test]
fn formula_is_evaluated_once_for_all_changes_of_its_inputs() {
    let mut engine = Engine::new();
    let names = ["=`A` + `loc://gain` * 2", "loc://gain(5)", "=`A"];
    let pvs = engine.open(names, Filter::ALL, at(0.0));
    assert!(matches!(
        engine.read(pvs[2]).unwrap().state(),
        State::Refused(reason) if !reason.is_empty()
    ));
    connect(&mut engine, 0.0);
    assert_eq!(sent(&mut engine, 0.0), [(1, subscribe_of(&["A"]))]);
    engine.changes();
    let state = |engine: &Engine| format!("{:?}", engine.read(pvs[0]).unwrap().state());
    assert_eq!(state(&engine), "Connecting");
    subscribed(&mut engine, 0.0, 1, 3..4);
    let changed: Vec<_> = engine.changes().iter().map(|change| change.pv).collect();
    assert!(changed.contains(&pvs[0]), "{changed:?}");
    assert_eq!(
        value(&engine, pvs[0]),
        Some(Value::Number(3.0)),
        "gain is 0"
    );

    let tickets = engine.put(
        [Put::new("loc://gain", PutValue::Number(4.0))],
        false,
        at(1.0),
    );
    let events = engine.events();
    assert!(matches!(events.last(), Some(Event::Put(put, Ok(_))) if *put == tickets[0]));
    engine.changes();
    assert_eq!(value(&engine, pvs[0]), Some(Value::Number(11.0)));
    assert_eq!(value(&engine, pvs[1]), Some(Value::Number(4.0)));
    assert!(engine.read(pvs[1]).unwrap().is_writable());

    engine.put([put("=`A`"), put("loc://")], false, at(1.0));
    let failed = |event: &Event| matches!(event, Event::Put(_, Err(PutError::Failed { .. })));
    assert!(engine.events().iter().all(failed));
    engine.disconnected(at(2.0));
    engine.changes();
    assert_eq!(state(&engine), "RelayLost");
    assert_eq!(engine.read(pvs[1]).unwrap().state(), State::Connected);
    engine.close(&pvs);
    engine.requests(at(2.0)).unwrap();
    connect(&mut engine, 3.0);
    assert_eq!(sent(&mut engine, 3.0), [], "inputs are closed too");
}
