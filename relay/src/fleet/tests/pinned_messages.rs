//! Pins the bytes of the messages between relays, and reads those of released versions.
//!
//! `PVWIRE_WRITE_GOLDEN=1 cargo test -p pvwire-relay --lib pinned_messages` writes `fleet/golden.json`. Changed `bytes`
//! are a changed protocol: see `fleet/PROTOCOL.md`.

use pvwire_fleet::member::{NEWEST, Presence, VERSION};
use pvwire_fleet::{MemberId, Role};
use pvwire_schema::types::{
    Alarm, Expected, Node, NodeValue, Outcome, PutRequest, PutValue, Severity, Skips, ValueType,
};
use serde_json::{Map, Value, json};

use crate::fleet::message::{self, Grant, Granted, Interest, Operation};
use crate::fleet::past::{self, PastQuestion, QuestionText};
use crate::ingest::{OnBehalf, OpEnd};
use crate::state::history::{GapCause, PastGap, PastPart, PastSample, PastValue};

#[path = "../../../../schema/tests/messages/golden.rs"]
pub(super) mod golden;
#[path = "../../../../schema/tests/messages/pinned.rs"]
mod pinned;

/// The messages of version 1 as they were released.
pub(super) const RELEASED: &str = include_str!("../../../../fleet/released/1.json");

const UNTIL_MILLIS: u64 = 90_000;

fn presence() -> Presence {
    Presence {
        version: VERSION,
        newest: Some(NEWEST),
        id: MemberId(0xfe),
        name: "relay1:8080".into(),
        role: Role::Ingest,
        url: Some("wss://relay1.example.org/ws".into()),
        term: 7,
        ready: true,
        draining: false,
        load: 1000,
        clients: 20,
        uptime_millis: 123_456,
        deaths: [("relay2:8080".into(), 2)].into(),
        program: "0.2.0".into(),
    }
}

fn interest() -> Interest {
    Interest {
        reset: true,
        add: vec!["ca://TEMP".into(), "pva://IMAGE".into(), "ca://NONE".into()],
        drop: vec![3],
        describe: vec![4],
        snapshot: vec![5, 6],
        keep: Some(vec![4, 5, 6]),
    }
}

fn granted() -> Granted {
    Granted {
        pvs: vec![
            Grant::Held(7),
            Grant::Elsewhere,
            Grant::Refused("too many names without a server".into()),
        ],
        held: 4,
    }
}

fn by() -> OnBehalf {
    OnBehalf {
        user: Some("ana".into()),
        groups: vec!["ops".into()],
        address: "10.0.0.1:5000".into(),
        origin: "https://screens.example.org".into(),
    }
}

fn put() -> PutRequest {
    PutRequest {
        name: "ca://TEMP".into(),
        value: PutValue::Number(21.5),
        wait: true,
        timeout_ms: 5000,
        expected: Some(Expected {
            sequence: 4,
            epoch: 2,
        }),
    }
}

fn call() -> Operation {
    Operation::Call {
        name: "pva://add".into(),
        arguments: vec![("a".into(), PutValue::Text("1".into()))],
        timeout_ms: 3000,
    }
}

fn end() -> OpEnd {
    OpEnd::holds(Node {
        value: NodeValue::Number(ValueType::Float64, 21.5),
        ..Node::default()
    })
}

fn question() -> Vec<u8> {
    let question = PastQuestion {
        key: "ca://TEMP".into(),
        from_ns: Some(1_795_000_000_000_000_000),
        to_ns: Some(1_795_000_060_000_000_000),
        until: None,
        next: Some((MemberId(0xfe), (40, 90))),
    };
    question.to_bytes(Some(Expected {
        sequence: 4,
        epoch: 2,
    }))
}

/// A page with a sample of each kind of values.
fn part() -> PastPart {
    let major = Alarm {
        severity: Severity::Major,
        status: 3,
    };
    let sample = |second: i64, value, alarm| PastSample {
        time_ns: 1_795_000_000_000_000_000 + second * 1_000_000_000,
        value,
        alarm,
        skips: Skips::NONE,
    };
    let lost = Skips {
        relay: 1,
        source: 2,
        filter: 3,
        bus: 4,
    };
    PastPart {
        kept_since_ns: Some(1_794_999_000_000_000_000),
        newest_ns: Some(1_795_000_050_000_000_000),
        has_held: true,
        gaps: vec![PastGap {
            cause: GapCause::NotMonitored,
            from_ns: 1_795_000_020_000_000_000,
            to_ns: None,
        }],
        samples: vec![
            sample(-1, PastValue::Number(21.5), Alarm::NONE),
            sample(5, PastValue::Int64(i64::MIN), major),
            PastSample {
                skips: lost,
                ..sample(6, PastValue::UInt64(u64::MAX), major)
            },
            sample(7, PastValue::Text("warm \"up\"".into()), Alarm::NONE),
        ],
        rest: Some((44, 90)),
    }
}

/// The JSON of a page.
fn text_of(page: &[u8]) -> Value {
    let (length, rest) = page.split_first_chunk().unwrap();
    serde_json::from_slice(&rest[4..4 + u32::from_le_bytes(*length) as usize]).unwrap()
}

fn operation(operation: Operation) -> Vec<u8> {
    message::operation(&by(), Some(UNTIL_MILLIS), operation)
}

/// The JSON at the beginning of an operation.
fn head_of(operation: &[u8]) -> Value {
    let (length, rest) = operation.split_first_chunk().unwrap();
    serde_json::from_slice(&rest[..u32::from_le_bytes(*length) as usize]).unwrap()
}

#[test]
fn messages_between_relays_are_pinned_byte_for_byte() {
    let bytes = |bytes: &[u8]| json!({ "bytes": pinned::lines(bytes) });
    let with =
        |decoded: Value, of: &[u8]| json!({ "bytes": pinned::lines(of), "decoded": decoded });
    let json = |of: &[u8]| with(serde_json::from_slice(of).unwrap(), of);
    let operations = [operation(Operation::Put(put())), operation(call())];
    let page = past::page(Ok(Some(part())));
    let [put, call] = operations.map(|operation| with(head_of(&operation), &operation));
    let messages = [
        ("presence", json(&presence().to_bytes())),
        ("interest", json(&serde_json::to_vec(&interest()).unwrap())),
        ("granted", json(&serde_json::to_vec(&granted()).unwrap())),
        ("operation_put", put),
        ("operation_call", call),
        ("outcome", bytes(&message::outcome(&end()))),
        ("history_question", json(&question())),
        ("history_page", with(text_of(&page), &page)),
    ];
    let messages: Map<_, _> = (messages.into_iter())
        .map(|(name, message)| (name.to_owned(), message))
        .collect();
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../fleet/golden.json");
    pinned::compare(file, &messages);
    // A released relay finds all fields that it reads.
    for (name, released) in golden::messages(RELEASED) {
        let fields = released.get("decoded").and_then(Value::as_object);
        for field in fields.into_iter().flat_map(Map::keys) {
            let has = messages[&name]["decoded"].get(field);
            assert!(has.is_some(), "{name} has no {field}");
        }
    }
}

#[test]
fn messages_of_a_released_relay_are_read_as_before() {
    let released = golden::messages(RELEASED);
    let bytes = |name: &str| golden::bytes_of(&released[name]);
    let then = Presence {
        newest: None,
        program: String::new(),
        ..presence()
    };
    assert_eq!(Presence::parse(&bytes("presence")).unwrap(), then);
    let read: Interest = serde_json::from_slice(&bytes("interest")).unwrap();
    assert_eq!(json!(read), json!(interest()));
    let read: Granted = serde_json::from_slice(&bytes("granted")).unwrap();
    assert_eq!(json!(read), json!(granted()));
    for (name, sent) in [
        ("operation_put", Operation::Put(put())),
        ("operation_call", call()),
    ] {
        let read = message::read_operation(&bytes(name)).unwrap();
        assert_eq!((read.by, read.until_millis), (by(), Some(UNTIL_MILLIS)));
        assert_eq!(format!("{:?}", read.operation), format!("{sent:?}"));
    }
    assert_eq!(message::read_outcome(&bytes("outcome")), end());
    assert_eq!(end().outcome, Outcome::Done);
}

#[test]
fn page_of_the_past_is_read_as_it_was_written_and_none_that_is_damaged() {
    let read: QuestionText = serde_json::from_slice(&question()).unwrap();
    assert_eq!((read.until, read.at), (Some((2, 4)), Some((40, 90))));
    let page = past::page(Ok(Some(part())));
    assert_eq!(past::read_page(&page), Ok(Some(part())));
    assert_eq!(past::read_page(&past::page(Ok(None))), Ok(None));
    let refused = past::page(Err("too often".into()));
    assert_eq!(past::read_page(&refused), Err("too often".into()));
    for length in 0..page.len() {
        assert!(past::read_page(&page[..length]).is_err(), "{length}");
    }
    // A row that the page doesn't have.
    let text = br#"{"kept_since_ns":1,"texts":[[1,"a"]]}   "#;
    let head = [text.len() as u32, 0].map(u32::to_le_bytes).concat();
    assert!(past::read_page(&[&head[..], text].concat()).is_err());
}
