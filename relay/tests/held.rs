//! A put that the server limits or cuts reports the value that the PV holds; a value that the PV
//! can't hold is refused.
//!
//! Topology: one relay that takes puts, one client, a soft IOC with Channel Access and pvAccess.

use pvwire_schema::decode;
use pvwire_schema::types::{
    Array, NodeValue, Outcome, PutRequest, PutValue, Reply, RequestBody, ValueType,
};

use testbed::{Client, Kept, Network, Relay, SoftIoc, prefix};

const ALL: [&str; 2] = ["--enable-put", "--allow-put=*"];

const DATABASE: &str = r#"
    record(ao, "$(P)limited") { field(DRVH, "3") field(DRVL, "-3") field(PREC, "2") }
    record(ao, "$(P)ao") { field(VAL, "1") field(PINI, "YES") }
    record(int64out, "$(P)int64") { field(VAL, "7") field(PINI, "YES") }
    record(longout, "$(P)long") { field(DRVH, "10") field(DRVL, "-10") }
    record(stringout, "$(P)string") {}
    record(lso, "$(P)lso") { field(SIZV, "60") }
    record(waveform, "$(P)doubles") { field(FTVL, "DOUBLE") field(NELM, "12") }
    record(waveform, "$(P)INT64") { field(FTVL, "INT64") field(NELM, "3") }
    record(waveform, "$(P)UINT64") { field(FTVL, "UINT64") field(NELM, "3") }
    record(waveform, "$(P)ULONG") { field(FTVL, "ULONG") field(NELM, "3") }
    record(waveform, "$(P)USHORT") { field(FTVL, "USHORT") field(NELM, "3") }
    record(waveform, "$(P)UCHAR") { field(FTVL, "UCHAR") field(NELM, "3") }
    record(waveform, "$(P)CHAR") { field(FTVL, "CHAR") field(NELM, "3") }
    record(waveform, "$(P)letters") { field(FTVL, "CHAR") field(NELM, "80") }
    record(calcout, "$(P)pulse") {}
"#;

/// The result of a put: its outcome, its message and the PV's value if it differs from the one put.
type Put = (Outcome, String, Option<NodeValue>);

fn put(client: &mut Client, name: &str, value: &PutValue, wait: bool) -> Put {
    let (reply, _) = client.ask(RequestBody::Put(PutRequest {
        name: name.to_owned(),
        value: value.clone(),
        wait,
        timeout_ms: 0,
        expected: None,
    }));
    let Reply::PutDone { outcome, message } = reply else {
        panic!("{reply:?} answers a Put")
    };
    let frame = decode::frame(client.last_answer()).unwrap();
    let holds = frame.put_readback().map(|node| node.to_node().value);
    (outcome, message, holds)
}

/// Puts with and without completion, which must give the same result.
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
        // A value that is written unchanged causes no message.
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
    // The last of 20 two-byte letters is truncated in its middle.
    for long in ["x".repeat(40), "ä".repeat(20)] {
        let (outcome, message, holds) = put_both(&mut client, &string, &text(&long));
        assert_eq!(outcome, Outcome::Done, "{message}");
        let Some(NodeValue::Text(held)) = holds else {
            panic!("{holds:?} is not a text")
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
fn array_of_any_size_is_compared_and_only_short_ones_returned() {
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
        // A field that resets itself.
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

#[test]
fn number_that_ca_or_the_record_cannot_hold_is_refused() {
    let (ioc, _relay, mut client) = stage();
    let name = ioc.name("int64");
    client.subscribe_live(&[&name]);
    for (value, why) in [
        (text("9007199254740993"), "pva://"),
        (PutValue::Int64(9_007_199_254_740_993), "pva://"),
        (text("1.5"), "not an integer"),
        (PutValue::Number(1.5), "not an integer"),
        (
            PutValue::Number(1e19),
            "-9223372036854775808 to 9223372036854775807",
        ),
        (text("1e19"), "-9223372036854775808 to 9223372036854775807"),
        (PutValue::Number(f64::NAN), "not an integer"),
        (PutValue::Number(f64::INFINITY), "not an integer"),
        (
            text("9223372036854775808"),
            "-9223372036854775808 to 9223372036854775807",
        ),
    ] {
        let (outcome, message, _) = put_both(&mut client, &name, &value);
        assert_eq!(outcome, Outcome::BadValue, "{value:?}: {message}");
        assert!(message.contains(why), "{value:?}: {message}");
    }
    assert_eq!(client.pv(&name).numbers(), [7.0], "nothing was written");
    for value in [
        PutValue::Number(-5.0),
        text("9007199254740992"),
        text("1e3"),
    ] {
        assert_eq!(put_both(&mut client, &name, &value), done());
    }
    // A double takes what an integer can't.
    let ao = ioc.name("ao");
    for value in [PutValue::Number(1.5), PutValue::Number(1e19), text("nan")] {
        assert_eq!(put_both(&mut client, &ao, &value), done());
    }
}

#[test]
fn element_that_the_array_cannot_hold_is_refused_with_a_reason() {
    let (ioc, _relay, mut client) = stage();
    for (record, bad, fits) in [
        ("INT64", 2.7, "integer"),
        ("INT64", 1e19, "-9223372036854775808 to 9223372036854775807"),
        ("UINT64", -1.0, "0 to 18446744073709551615"),
        ("ULONG", -1.0, "0 to 4294967295"),
        ("ULONG", 5e9, "0 to 4294967295"),
        ("ULONG", 0.5, "integer"),
        ("USHORT", 70_000.0, "0 to 65535"),
        ("USHORT", -1.0, "0 to 65535"),
        ("UCHAR", -1.0, "0 to 255"),
        ("CHAR", 200.0, "-128 to 127"),
    ] {
        let name = ioc.name(record);
        client.subscribe_live(&[&name]);
        let (outcome, message, _) = put_both(&mut client, &name, &doubles(&[1.0, bad]));
        assert_eq!(outcome, Outcome::BadValue, "{record} {bad}: {message}");
        assert!(message.contains(fits), "{record} {bad}: {message}");
        let is_empty = |kept: &Kept| matches!(kept, Kept::Array(_, bytes) if bytes.is_empty());
        assert!(
            is_empty(&client.pv(&name).now.as_ref().unwrap().value),
            "{record}"
        );
    }
    for (record, good) in [
        ("INT64", -9_007_199_254_740_992.0),
        ("UINT64", 18_446_744_073_709_549_568.0),
        ("ULONG", 4_294_967_295.0),
        ("USHORT", 65_535.0),
        ("UCHAR", 255.0),
        ("CHAR", -128.0),
    ] {
        let put = put_both(&mut client, &ioc.name(record), &doubles(&[good, 0.0, 1.0]));
        assert_eq!(put, done(), "{record} {good}");
    }
}

#[test]
fn text_longer_than_a_ca_string_is_put_whole_or_refused() {
    let (ioc, _relay, mut client) = stage();
    let [lso, string, text_array] = ioc.names(["lso", "string", "letters"]);
    client.subscribe_live(&[&lso]);
    let long = "y".repeat(59);
    assert_eq!(put_both(&mut client, &lso, &text(&long)), done());
    client.wait_pv(&lso, "the whole text", |pv| pv.is(&Kept::text(&long)));
    assert_eq!(put_both(&mut client, &lso, &text("short")), done());
    client.wait_pv(&lso, "the short text", |pv| pv.is(&Kept::text("short")));
    for (name, room) in [(&lso, 59), (&string, 39)] {
        let (outcome, message, _) = put_both(&mut client, name, &text(&"z".repeat(room + 1)));
        assert_eq!(outcome, Outcome::BadValue, "{message}");
        let fits = format!("too long: {} bytes, at most {room}", room + 1);
        assert_eq!(message, fits);
    }
    client.wait_pv(&lso, "the text before", |pv| pv.is(&Kept::text("short")));
    assert_eq!(
        put_both(&mut client, &text_array, &text(&"w".repeat(70))),
        done()
    );
}

fn put_within(
    client: &mut Client,
    name: &str,
    value: PutValue,
    timeout_ms: u32,
) -> (Outcome, String) {
    let put = PutRequest {
        name: name.to_owned(),
        value,
        wait: true,
        timeout_ms,
        expected: None,
    };
    let (reply, _) = client.ask(RequestBody::PutWithin {
        puts: vec![put],
        all_permitted: false,
    });
    let Reply::PutDone { outcome, message } = reply else {
        panic!("{reply:?} answers a put")
    };
    (outcome, message)
}

#[test]
fn put_with_a_check_of_limits_is_refused_before_the_record_cuts_it() {
    let network = Network::new();
    let ioc = SoftIoc::with_pv_access(network, &prefix(), DATABASE);
    let [limited, ao, long, string] = ioc.names(["limited", "ao", "long", "string"]);
    let audit = testbed::in_tmp(&format!("{}.limits.jsonl", prefix().trim_end_matches(':')));
    let audit = format!("--audit-file={}", audit.display());
    let relay = Relay::start(network, &[ALL[0], ALL[1], &audit]);
    let mut client = Client::connect(relay.address());
    // No client has the PVs open: their limits are read first.
    for name in [limited.clone(), format!("pva://{limited}")] {
        let (outcome, message) = put_within(&mut client, &name, PutValue::Number(3.5), 0);
        assert_eq!(outcome, Outcome::BadValue, "{name}: {message}");
        assert_eq!(
            message,
            "3.5 is outside the control limits of the PV, -3 to 3; nothing was written"
        );
        let text = PutValue::Text("-4".into());
        assert_eq!(put_within(&mut client, &name, text, 0).0, Outcome::BadValue);
    }
    client.subscribe_live(&[&limited]);
    assert!(client.pv(&limited).is_number(0.0), "nothing was written");
    for (name, value) in [
        (&limited, PutValue::Number(3.0)),
        (&ao, PutValue::Number(1e300)),
        (&long, PutValue::Int64(-10)),
        (&string, PutValue::Text("99".into())),
    ] {
        let (outcome, message) = put_within(&mut client, name, value, 0);
        assert_eq!(outcome, Outcome::Done, "{name}: {message}");
    }
    client.wait_number(&limited, 3.0);

    let (outcome, message) = put_within(&mut client, "NO:SUCH:PV", PutValue::Number(1.0), 300);
    assert_eq!(outcome, Outcome::NotConnected, "{message}");
    assert!(message.contains("nothing was written"), "{message}");
    assert_eq!(
        put_within(&mut client, "", PutValue::Number(1.0), 0).0,
        Outcome::BadName
    );
}

#[test]
fn puts_of_one_client_stay_in_order_when_some_check_limits() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, DATABASE);
    let [ao] = ioc.names(["ao"]);
    let relay = Relay::start(network, &ALL);
    let mut client = Client::connect(relay.address());
    let put = |number: f64| PutRequest {
        name: ao.clone(),
        value: PutValue::Number(number),
        wait: false,
        timeout_ms: 0,
        expected: None,
    };
    let mut requests = Vec::new();
    for round in 0..8_u8 {
        let number = f64::from(round) * 10.0;
        let puts = vec![put(number)];
        let all_permitted = false;
        requests.push(client.request(RequestBody::PutWithin {
            puts,
            all_permitted,
        }));
        requests.push(client.request(RequestBody::Put(put(number + 1.0))));
    }
    for request in requests {
        let (reply, _) = client.wait_answer(request);
        assert!(
            matches!(
                reply,
                Reply::PutDone {
                    outcome: Outcome::Done,
                    ..
                }
            ),
            "{reply:?}"
        );
    }
    client.subscribe_live(&[&ao]);
    client.wait_number(&ao, 71.0);
}
