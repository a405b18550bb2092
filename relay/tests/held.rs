//! Does a put that a server limits or cuts say what the PV holds, and is nothing said of one that is written?
//!
//! Topology: one relay that takes puts, one client, a soft IOC with Channel Access and pvAccess.

use pvwire_schema::decode;
use pvwire_schema::types::{Array, NodeValue, Outcome, PutValue, Reply, RequestBody, ValueType};

use crate::support::{Client, Network, Relay, SoftIoc, prefix};

const ALL: [&str; 2] = ["--enable-put", "--allow-put=*"];

const DATABASE: &str = r#"
    record(ao, "$(P)limited") { field(DRVH, "3") field(DRVL, "-3") field(PREC, "2") }
    record(ao, "$(P)ao") { field(VAL, "1") field(PINI, "YES") }
    record(longout, "$(P)long") { field(DRVH, "10") field(DRVL, "-10") }
    record(stringout, "$(P)string") {}
    record(lso, "$(P)lso") { field(SIZV, "60") }
    record(waveform, "$(P)doubles") { field(FTVL, "DOUBLE") field(NELM, "12") }
    record(calcout, "$(P)pulse") {}
"#;

/// What became of a put: its outcome, its message and what the PV holds if it isn't what was put.
type Put = (Outcome, String, Option<NodeValue>);

fn put(client: &mut Client, name: &str, value: &PutValue, wait: bool) -> Put {
    let (reply, _) = client.ask(RequestBody::Put {
        name: name.to_owned(),
        value: value.clone(),
        wait,
        timeout_ms: 0,
        expected: None,
    });
    let Reply::PutDone { outcome, message } = reply else {
        panic!("{reply:?} answers a Put")
    };
    let frame = decode::frame(client.last_answer()).unwrap();
    let holds = frame.put_holds().map(|node| node.to_node().value);
    (outcome, message, holds)
}

/// The same with and without completion, which must come to the same.
fn put_both(client: &mut Client, name: &str, value: &PutValue) -> Put {
    let [with, without] = [true, false].map(|wait| put(client, name, value, wait));
    assert_eq!(with, without, "{name} with and without completion");
    with
}

fn done() -> Put {
    (Outcome::Done, String::new(), None)
}

fn text(text: &str) -> PutValue {
    PutValue::Text(text.to_owned())
}

fn doubles(numbers: &[f64]) -> PutValue {
    PutValue::Array(array(numbers))
}

fn array(numbers: &[f64]) -> Array {
    let bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
    Array {
        value_type: ValueType::Float64,
        count: numbers.len() as u32,
        data: bytes.into(),
    }
}

fn stage() -> (SoftIoc, Relay, Client) {
    let network = Network::new();
    let ioc = SoftIoc::with_pv_access(network, &prefix(), DATABASE);
    let relay = Relay::start(network, &ALL);
    let client = Client::connect(relay.address());
    (ioc, relay, client)
}

#[test]
fn put_beyond_the_drive_limit_says_what_the_pv_holds() {
    let (ioc, _relay, mut client) = stage();
    for scheme in ["ca", "pva"] {
        let [limited, long] = ["limited", "long"].map(|it| format!("{scheme}://{}", ioc.name(it)));
        client.subscribe_live(&[&limited, &long]);
        let number = |value_type, number| Some(NodeValue::Number(value_type, number));
        for (put_number, held) in [(9.0, 3.0), (-9.0, -3.0)] {
            let (outcome, message, holds) =
                put_both(&mut client, &limited, &PutValue::Number(put_number));
            assert_eq!(outcome, Outcome::Done, "{scheme}: {message}");
            assert_eq!(holds, number(ValueType::Float64, held), "{scheme}");
            assert_eq!(message, format!("the PV now holds {held}"));
            client.wait_number(&limited, held);
        }
        let (outcome, _, holds) = put_both(&mut client, &long, &text("77"));
        assert_eq!(outcome, Outcome::Done);
        assert!(
            matches!(holds, Some(NodeValue::Number(_, 10.0))),
            "{holds:?}"
        );
        // What is written as it is needs no words.
        assert_eq!(
            put_both(&mut client, &limited, &PutValue::Number(2.5)),
            done()
        );
        assert_eq!(
            put_both(&mut client, &long, &PutValue::Number(-2.0)),
            done()
        );
    }
}

#[test]
fn string_or_array_that_a_pv_access_server_cuts_is_told() {
    let (ioc, _relay, mut client) = stage();
    let [string, lso, waveform] =
        ["string", "lso", "doubles"].map(|it| format!("pva://{}", ioc.name(it)));
    // The last of 20 letters of two bytes is cut in its middle.
    for long in ["x".repeat(40), "ä".repeat(20)] {
        let (outcome, message, holds) = put_both(&mut client, &string, &text(&long));
        assert_eq!(outcome, Outcome::Done, "{message}");
        let Some(NodeValue::Text(held)) = holds else {
            panic!("{holds:?} is no text")
        };
        assert_ne!(held, long);
        assert!(message.starts_with("the PV now holds \""), "{message}");
    }
    assert_eq!(
        put_both(&mut client, &string, &text(&"x".repeat(39))),
        done()
    );
    let (_, _, holds) = put_both(&mut client, &lso, &text(&"y".repeat(80)));
    assert_eq!(holds, Some(NodeValue::Text("y".repeat(59))));
    let (_, message, holds) = put_both(&mut client, &waveform, &doubles(&[1.5; 13]));
    assert_eq!(
        holds,
        Some(NodeValue::Array(array(&[1.5; 12]))),
        "{message}"
    );
    assert_eq!(
        put_both(&mut client, &waveform, &doubles(&[1.5; 12])),
        done()
    );
}

#[test]
fn array_of_whatever_size_is_compared_and_only_short_ones_are_told() {
    let network = Network::new();
    let database = r#"record(waveform, "$(P)big") { field(FTVL, "DOUBLE") field(NELM, "9000") }"#;
    let ioc = SoftIoc::with_pv_access(network, &prefix(), database);
    let relay = Relay::start(network, &ALL);
    let mut client = Client::connect(relay.address());
    let numbers: Vec<f64> = (0..9_001).map(f64::from).collect();
    let big = format!("pva://{}", ioc.name("big"));
    assert_eq!(put_both(&mut client, &big, &doubles(&numbers[1..])), done());
    let (outcome, message, holds) = put_both(&mut client, &big, &doubles(&numbers));
    assert_eq!((outcome, holds), (Outcome::Done, None));
    assert_eq!(message, "the PV now holds other elements: 9000");
    let big = format!("ca://{}", ioc.name("big"));
    assert_eq!(put_both(&mut client, &big, &doubles(&numbers[1..])), done());
    assert_eq!(put_both(&mut client, &big, &doubles(&[])), done());
}

#[test]
fn what_a_record_makes_of_a_put_is_told_by_either_protocol() {
    let (ioc, _relay, mut client) = stage();
    for scheme in ["ca", "pva"] {
        // A field that goes back by itself.
        let process = format!("{scheme}://{}", ioc.name("ao.PROC"));
        let (outcome, _, holds) = put_both(&mut client, &process, &PutValue::Number(7.0));
        assert_eq!(outcome, Outcome::Done);
        assert!(holds.is_none() || matches!(holds, Some(NodeValue::Number(..))));
        // A link is written in full.
        let link = format!("{scheme}://{}", ioc.name("pulse.INPA"));
        let (outcome, _, holds) = put_both(&mut client, &link, &text(&ioc.name("ao")));
        assert_eq!(outcome, Outcome::Done);
        let written = format!("{} NPP NMS", ioc.name("ao"));
        assert_eq!(holds, Some(NodeValue::Text(written)), "{scheme}");
    }
}
