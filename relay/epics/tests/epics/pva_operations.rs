//! Gets and puts of pvAccess on a real IOC: each ends once, with the true result.

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use pvwire_epics::pva::ElementType::{Float64, Int32, UInt8};
use pvwire_epics::pva::{Client, ElementType, Node, NodeValue, OpError, PutOptions, PutValue};

use crate::support::{DEADLINE, Server, in_own_process, prefix};

/// Waits for the one result of an operation, and that its completion is gone after it.
fn result<T>(results: &Receiver<T>) -> T {
    let result = results.recv_timeout(DEADLINE).unwrap();
    let more = results.recv_timeout(DEADLINE).err();
    assert_eq!(more, Some(RecvTimeoutError::Disconnected));
    result
}

fn start_put(
    client: &Client,
    name: &str,
    value: PutValue,
    wait: bool,
    timeout: Duration,
) -> Receiver<Result<Option<Node>, OpError>> {
    let (sender, results) = channel();
    let options = PutOptions { wait, timeout };
    client.put(name, value, options, move |result| {
        sender.send(result).unwrap();
    });
    results
}

fn put(client: &Client, name: &str, value: PutValue) -> Result<Option<Node>, OpError> {
    result(&start_put(client, name, value, false, DEADLINE))
}

fn get(client: &Client, name: &str, timeout: Duration) -> Result<Node, OpError> {
    let (sender, results) = channel();
    client.get(name, timeout, move |result| sender.send(result).unwrap());
    result(&results)
}

/// What the field `value` holds now.
fn value(client: &Client, name: &str) -> NodeValue {
    let node = get(client, name, DEADLINE).unwrap();
    node.get("value").unwrap().value.clone()
}

fn text(text: &str) -> PutValue {
    PutValue::Text(text.to_owned())
}

#[test]
fn value_that_fits_is_put_and_another_refused_with_the_reason() {
    in_own_process!(
        "value_that_fits_is_put_and_another_refused_with_the_reason",
        || {
            let database = r#"
                record(ao, "$(P)double") { field(DRVL, "-10") field(DRVH, "10") }
                record(longout, "$(P)long") {}
                record(int64out, "$(P)int64") {}
                record(stringout, "$(P)string") {}
                record(ao, "$(P)byte") {}
            "#;
            let prefix = prefix();
            let _ioc = Server::ioc(&prefix, database);
            let client = Client::start().unwrap();
            let good = [
                (
                    "double",
                    PutValue::Number(0.1),
                    NodeValue::Number(Float64, 0.1),
                ),
                (
                    "double",
                    PutValue::Int64(-3),
                    NodeValue::Number(Float64, -3.0),
                ),
                ("double", text("2.5"), NodeValue::Number(Float64, 2.5)),
                (
                    "long",
                    PutValue::Number(-7.0),
                    NodeValue::Number(Int32, -7.0),
                ),
                ("long", PutValue::UInt64(8), NodeValue::Number(Int32, 8.0)),
                (
                    "long",
                    PutValue::Boolean(true),
                    NodeValue::Number(Int32, 1.0),
                ),
                ("long", text("-12"), NodeValue::Number(Int32, -12.0)),
                (
                    "int64",
                    PutValue::Int64(9_007_199_254_740_993),
                    NodeValue::Int64(9_007_199_254_740_993),
                ),
                (
                    "int64",
                    text("-9223372036854775808"),
                    NodeValue::Int64(i64::MIN),
                ),
                // A leading zero doesn't make a number octal.
                ("int64", text(" 010 "), NodeValue::Int64(10)),
                ("long", text("-0010"), NodeValue::Number(Int32, -10.0)),
                ("long", text("0x1F"), NodeValue::Number(Int32, 31.0)),
                ("long", text("2.0"), NodeValue::Number(Int32, 2.0)),
                ("int64", text("1e3"), NodeValue::Int64(1000)),
                ("string", text("µm"), NodeValue::Text("µm".to_owned())),
                (
                    "string",
                    PutValue::Number(0.1),
                    NodeValue::Text("0.1".to_owned()),
                ),
                (
                    "string",
                    PutValue::Int64(-5),
                    NodeValue::Text("-5".to_owned()),
                ),
                (
                    "byte.TPRO",
                    PutValue::Number(255.0),
                    NodeValue::Number(UInt8, 255.0),
                ),
            ];
            for (record, sent, shown) in good {
                let name = format!("{prefix}{record}");
                assert_eq!(
                    put(&client, &name, sent.clone()),
                    Ok(None),
                    "{record} {sent:?}"
                );
                assert_eq!(value(&client, &name), shown, "{record} {sent:?}");
            }

            let limited = put(&client, &format!("{prefix}double"), PutValue::Number(99.0));
            let held = limited.unwrap().expect("the record limits it").value;
            assert_eq!(held, NodeValue::Number(Float64, 10.0));

            let bytes = 1_f64.to_ne_bytes().to_vec();
            let element = ElementType::Float64;
            let bad = [
                ("double", text("abc"), "\"abc\" is not a number"),
                (
                    "double",
                    PutValue::Array { element, bytes },
                    "one double is needed",
                ),
                ("long", text("abc"), "\"abc\" is not an integer"),
                ("long", text("2.5"), "\"2.5\" is not an integer"),
                ("long", text(""), "\"\" is not an integer"),
                ("long", text("0x"), "\"0x\" is not an integer"),
                ("long", text("--5"), "\"--5\" is not an integer"),
                ("long", text("1_000"), "\"1_000\" is not an integer"),
                ("int64", text("9223372036854775808"), "does not fit int64_t"),
                ("int64", text("-9223372036854775809"), "is not an integer"),
                (
                    "long",
                    PutValue::Number(2.5),
                    "\"2.5\" does not fit int32_t",
                ),
                (
                    "long",
                    PutValue::Number(f64::NAN),
                    "\"nan\" does not fit int32_t",
                ),
                (
                    "long",
                    PutValue::Number(2_147_483_648.0),
                    "does not fit int32_t",
                ),
                ("long", PutValue::UInt64(u64::MAX), "does not fit int32_t"),
                ("int64", PutValue::Number(9.3e18), "does not fit int64_t"),
                ("byte.TPRO", PutValue::Int64(-1), "does not fit uint8_t"),
                ("byte.TPRO", PutValue::Int64(256), "does not fit uint8_t"),
            ];
            for (record, sent, reason) in bad {
                let name = format!("{prefix}{record}");
                let before = value(&client, &name);
                match put(&client, &name, sent.clone()) {
                    Err(OpError::Invalid(why)) => assert!(why.contains(reason), "{why}"),
                    other => panic!("{record} {sent:?}: {other:?}"),
                }
                assert_eq!(value(&client, &name), before, "{record} {sent:?}");
            }
        },
    );
}

#[test]
fn choice_is_put_by_index_or_label_and_an_unknown_one_refused() {
    in_own_process!(
        "choice_is_put_by_index_or_label_and_an_unknown_one_refused",
        || {
            let database = r#"
                record(mbbo, "$(P)mbbo") {
                    field(ZRST, "off") field(ONST, "slow") field(TWST, "fast")
                }
            "#;
            let prefix = prefix();
            let _ioc = Server::ioc(&prefix, database);
            let client = Client::start().unwrap();
            let name = format!("{prefix}mbbo");
            let index = || {
                let node = get(&client, &name, DEADLINE).unwrap();
                node.get("value/index").unwrap().value.clone()
            };

            assert_eq!(put(&client, &name, PutValue::Number(2.0)), Ok(None));
            assert_eq!(index(), NodeValue::Number(Int32, 2.0));
            assert_eq!(put(&client, &name, text("slow")), Ok(None));
            assert_eq!(index(), NodeValue::Number(Int32, 1.0));
            // As by Channel Access, where texts have always been labels or indices.
            assert_eq!(put(&client, &name, text("2")), Ok(None));
            assert_eq!(index(), NodeValue::Number(Int32, 2.0));
            assert_eq!(put(&client, &name, text("slow")), Ok(None));
            for unknown in [
                text("Fast"),
                text("3"),
                text("-1"),
                PutValue::Number(3.0),
                PutValue::Int64(-1),
                PutValue::Number(0.5),
            ] {
                match put(&client, &name, unknown.clone()) {
                    Err(OpError::Invalid(why)) if unknown == PutValue::Number(0.5) => {
                        assert!(why.contains("does not fit a choice"), "{why}");
                    }
                    Err(OpError::Invalid(why)) => {
                        assert!(why.contains(r#""off", "slow", "fast""#), "{why}");
                    }
                    other => panic!("{unknown:?}: {other:?}"),
                }
                assert_eq!(index(), NodeValue::Number(Int32, 1.0));
            }
        },
    );
}

#[test]
fn array_is_put_whole_in_the_type_of_the_record() {
    in_own_process!("array_is_put_whole_in_the_type_of_the_record", || {
        let database = r#"
            record(waveform, "$(P)double") { field(FTVL, "DOUBLE") field(NELM, "8") }
            record(waveform, "$(P)short") { field(FTVL, "SHORT") field(NELM, "8") }
            record(waveform, "$(P)string") { field(FTVL, "STRING") field(NELM, "8") }
            record(waveform, "$(P)ulong64") { field(FTVL, "UINT64") field(NELM, "8") }
        "#;
        let prefix = prefix();
        let _ioc = Server::ioc(&prefix, database);
        let client = Client::start().unwrap();
        let doubles = |numbers: &[f64]| PutValue::Array {
            element: ElementType::Float64,
            bytes: numbers
                .iter()
                .flat_map(|number| number.to_ne_bytes())
                .collect(),
        };
        let elements = |record: &str| match value(&client, &format!("{prefix}{record}")) {
            NodeValue::Array { element, data, .. } => (element, data.as_ref().to_vec()),
            other => panic!("{other:?} is not an array"),
        };
        let put = |record: &str, value| put(&client, &format!("{prefix}{record}"), value);

        assert_eq!(put("double", doubles(&[0.5, -0.0, f64::NAN])), Ok(None));
        let sent = [0.5, -0.0, f64::NAN].map(f64::to_ne_bytes).concat();
        assert_eq!(elements("double"), (ElementType::Float64, sent));
        assert_eq!(put("short", doubles(&[1.0, -2.0, -0.0])), Ok(None));
        let shorts = [1_i16, -2, 0].map(i16::to_ne_bytes).concat();
        assert_eq!(elements("short"), (ElementType::Int16, shorts.clone()));
        for unfit in [&[1.5][..], &[40_000.0], &[f64::NAN]] {
            match put("short", doubles(unfit)) {
                Err(OpError::Invalid(why)) => {
                    assert!(why.contains("does not fit int16_t"), "{why}")
                }
                other => panic!("{unfit:?}: {other:?}"),
            }
        }
        // As negative numbers these would have the same bytes.
        for (record, element, bytes) in [
            (
                "short",
                ElementType::UInt64,
                u64::MAX.to_ne_bytes().to_vec(),
            ),
            (
                "ulong64",
                ElementType::Int64,
                (-1_i64).to_ne_bytes().to_vec(),
            ),
        ] {
            match put(record, PutValue::Array { element, bytes }) {
                Err(OpError::Invalid(why)) => assert!(why.contains("does not fit"), "{why}"),
                other => panic!("{record}: {other:?}"),
            }
        }
        assert_eq!(elements("short").1, shorts);
        assert_eq!(put("short", doubles(&[])), Ok(None));
        assert!(elements("short").1.is_empty());

        let strings = ["a", "µm", ""].map(str::to_owned).to_vec();
        assert_eq!(
            put("string", PutValue::TextArray(strings.clone())),
            Ok(None)
        );
        assert_eq!(
            value(&client, &format!("{prefix}string")),
            NodeValue::TextArray(strings)
        );
    });
}

#[test]
fn waveform_takes_a_scalar_as_one_element_as_by_ca() {
    in_own_process!("waveform_takes_a_scalar_as_one_element_as_by_ca", || {
        let database = r#"
                record(waveform, "$(P)double") { field(FTVL, "DOUBLE") field(NELM, "8") }
                record(waveform, "$(P)float") { field(FTVL, "FLOAT") field(NELM, "8") }
                record(waveform, "$(P)short") { field(FTVL, "SHORT") field(NELM, "8") }
                record(waveform, "$(P)ulong64") { field(FTVL, "UINT64") field(NELM, "8") }
                record(waveform, "$(P)string") { field(FTVL, "STRING") field(NELM, "8") }
                record(waveform, "$(P)char") { field(FTVL, "CHAR") field(NELM, "8") }
            "#;
        let prefix = prefix();
        let _ioc = Server::ioc(&prefix, database);
        let client = Client::start().unwrap();
        let bytes = |record: &str| match value(&client, &format!("{prefix}{record}")) {
            NodeValue::Array { data, .. } => data.as_ref().to_vec(),
            other => panic!("{other:?} is not an array"),
        };
        let put = |record: &str, value| put(&client, &format!("{prefix}{record}"), value);
        let good = [
            (
                "double",
                PutValue::Number(0.1),
                0.1_f64.to_ne_bytes().to_vec(),
            ),
            ("double", text("-2.5"), (-2.5_f64).to_ne_bytes().to_vec()),
            (
                "float",
                PutValue::Number(0.5),
                0.5_f32.to_ne_bytes().to_vec(),
            ),
            (
                "short",
                PutValue::Number(-2.0),
                (-2_i16).to_ne_bytes().to_vec(),
            ),
            ("short", PutValue::Int64(7), 7_i16.to_ne_bytes().to_vec()),
            (
                "ulong64",
                PutValue::UInt64(u64::MAX),
                u64::MAX.to_ne_bytes().to_vec(),
            ),
            ("char", text("ready"), b"ready".to_vec()),
            ("char", PutValue::Number(-1.0), vec![255]),
        ];
        for (record, sent, shown) in good {
            assert_eq!(put(record, sent.clone()), Ok(None), "{record} {sent:?}");
            assert_eq!(bytes(record), shown, "{record} {sent:?}");
        }
        assert_eq!(put("string", text("µm")), Ok(None));
        assert_eq!(
            value(&client, &format!("{prefix}string")),
            NodeValue::TextArray(vec!["µm".to_owned()])
        );
        for (record, unfit) in [
            ("short", PutValue::Number(1.5)),
            ("short", PutValue::Number(40_000.0)),
            ("short", text("abc")),
            ("double", text("abc")),
            ("char", PutValue::Number(300.0)),
        ] {
            let before = bytes(record);
            let result = put(record, unfit.clone());
            assert!(
                matches!(result, Err(OpError::Invalid(_))),
                "{record} {unfit:?}: {result:?}"
            );
            assert_eq!(bytes(record), before);
        }
    });
}

#[test]
fn put_that_waits_is_done_when_the_record_is() {
    in_own_process!("put_that_waits_is_done_when_the_record_is", || {
        let database = r#"
            record(calcout, "$(P)slow") { field(CALC, "A") field(ODLY, "1") field(OUT, "$(P)end PP") }
            record(ao, "$(P)end") {}
        "#;
        let prefix = prefix();
        let _ioc = Server::ioc(&prefix, database);
        let client = Client::start().unwrap();
        let name = format!("{prefix}slow.A");

        let start = Instant::now();
        let quick = start_put(&client, &name, PutValue::Number(1.0), false, DEADLINE);
        assert_eq!(result(&quick), Ok(None));
        let written = start.elapsed();
        let waited = start_put(&client, &name, PutValue::Number(2.0), true, DEADLINE);
        assert_eq!(result(&waited), Ok(None));
        assert!(start.elapsed() > written + Duration::from_millis(500));
        assert_eq!(
            value(&client, &format!("{prefix}end")),
            NodeValue::Number(Float64, 2.0)
        );
    });
}

#[test]
fn operation_without_an_answer_ends_all_the_same() {
    in_own_process!("operation_without_an_answer_ends_all_the_same", || {
        let database = r#"
            record(calcout, "$(P)slow") { field(CALC, "A") field(ODLY, "60") field(OUT, "$(P)end PP") }
            record(calcout, "$(P)slower") { field(CALC, "A") field(ODLY, "60") }
            record(ao, "$(P)end") {}
        "#;
        let prefix = prefix();
        let ioc = Server::ioc(&prefix, database);
        let client = Client::start().unwrap();
        let short = Duration::from_millis(300);

        let absent = format!("{prefix}absent");
        assert_eq!(get(&client, &absent, short), Err(OpError::TimedOut));
        let put = start_put(&client, &absent, PutValue::Number(1.0), true, short);
        assert_eq!(result(&put), Err(OpError::NotConnected));
        assert!(matches!(get(&client, "", short), Err(OpError::Invalid(_))));

        // One that the IOC works on: late, cut off by a crash, dropped with the client.
        let slow = format!("{prefix}slow.A");
        // It is connected, however busy the machine is.
        value(&client, &slow);
        let late = start_put(&client, &slow, PutValue::Number(1.0), true, 5 * short);
        assert_eq!(result(&late), Err(OpError::TimedOut));
        let slower = format!("{prefix}slower.A");
        let cut = start_put(&client, &slower, PutValue::Number(2.0), true, DEADLINE);
        while value(&client, &slower) != NodeValue::Number(Float64, 2.0) {}
        ioc.kill();
        assert_eq!(result(&cut), Err(OpError::Disconnected));
        let never = start_put(&client, &absent, PutValue::Number(1.0), true, Duration::MAX);
        drop(client);
        assert_eq!(result(&never), Err(OpError::Disconnected));
    });
}

#[test]
fn put_that_a_crash_cut_off_is_not_put_again() {
    in_own_process!("put_that_a_crash_cut_off_is_not_put_again", || {
        let database = r#"
            record(calcout, "$(P)slow") { field(CALC, "A") field(ODLY, "60") field(OUT, "$(P)end PP") }
            record(ao, "$(P)end") {}
        "#;
        let prefix = prefix();
        let ioc = Server::ioc(&prefix, database);
        let client = Client::start().unwrap();
        let slow = format!("{prefix}slow.A");
        let cut = start_put(&client, &slow, PutValue::Number(2.0), true, DEADLINE);
        while value(&client, &slow) != NodeValue::Number(Float64, 2.0) {}
        ioc.kill();
        assert_eq!(result(&cut), Err(OpError::Disconnected));

        let _ioc = Server::ioc(&prefix, database);
        assert_eq!(value(&client, &slow), NodeValue::Number(Float64, 0.0));
        // A round trip later than anything that pvxs had kept to send.
        assert_eq!(
            put(&client, &format!("{prefix}end"), PutValue::Number(1.0)),
            Ok(None)
        );
        assert_eq!(value(&client, &slow), NodeValue::Number(Float64, 0.0));
    });
}
