//! A client's values, alarms, time stamps and metadata equal the IOC's, and character arrays that are texts are marked as such.
//!
//! Topology: one soft IOC, one relay, one or two clients that read all the time.

use std::time::{Duration, Instant};

use pvwire_schema::decode;
use pvwire_schema::types::{
    Alarm, ConnectionState, FrameKind, Limits, Metadata, Severity, ValueType,
};
use testbed::{
    Client, How, Kept, LyingServer, Message, Network, Pv, Relay, RowSeen, SoftIoc, StructureServer,
    keep_up, prefix, relay_command, within,
};

pub(crate) const CALM: Alarm = Alarm {
    severity: Severity::NoAlarm,
    status: 0,
};

/// Condition UDF of a record that was never processed.
const UNDEFINED: Alarm = Alarm {
    severity: Severity::Invalid,
    status: 17,
};

pub(crate) fn start(database: &str) -> (SoftIoc, Relay, Client) {
    let network = Network::new();
    let ioc = SoftIoc::start(network, database);
    let relay = Relay::start(network, &[]);
    let client = Client::connect(relay.address());
    (ioc, relay, client)
}

fn elements<const N: usize>(value_type: ValueType, elements: &[[u8; N]]) -> Kept {
    Kept::Array(value_type, elements.concat())
}

fn limits(low: f64, high: f64) -> Limits {
    Limits { low, high }
}

pub(crate) fn sequences(rows: &[RowSeen]) -> Vec<u32> {
    rows.iter().map(|row| row.sequence).collect()
}

#[test]
fn one_snapshot_answers_a_subscribe_with_all_that_is_known() {
    let (ioc, _relay, mut first) = start(
        r#"
        record(ai, "$(P)ai") {
            field(VAL, "8.5") field(EGU, "mA") field(PREC, "3") field(PINI, "YES")
            field(HOPR, "10") field(LOPR, "-10")
            field(HIHI, "9") field(HIGH, "8") field(LOW, "-8") field(LOLO, "-9")
            field(HHSV, "MAJOR") field(HSV, "MINOR") field(LSV, "MINOR") field(LLSV, "MAJOR")
        }
        record(longout, "$(P)longout") {
            field(VAL, "-2147483648") field(DRVH, "70000") field(DRVL, "-2147483648")
            field(PINI, "YES")
        }
        record(calc, "$(P)calc") { field(CALC, "6*7") field(PINI, "YES") }
        record(bi, "$(P)bi") {
            field(VAL, "1") field(ZNAM, "off") field(ONAM, "on") field(PINI, "YES")
            field(OSV, "MAJOR")
        }
        record(mbbo, "$(P)mbbo") {
            field(VAL, "2") field(ZRST, "zero") field(ONST, "one") field(TWST, "two")
            field(PINI, "YES")
        }
        record(stringin, "$(P)stringin") { field(VAL, "text") field(PINI, "YES") }
        record(waveform, "$(P)double") {
            field(FTVL, "DOUBLE") field(NELM, "5") field(INP, [0.1, 1e300]) field(EGU, "V")
            field(PINI, "YES")
        }
        record(waveform, "$(P)char") {
            field(FTVL, "CHAR") field(NELM, "16") field(INP, [72, 105, 0])
            field(PINI, "YES")
        }
        record(waveform, "$(P)short") {
            field(FTVL, "SHORT") field(NELM, "4") field(INP, [-1, 2])
            field(PINI, "YES")
        }
        record(waveform, "$(P)float") {
            field(FTVL, "FLOAT") field(NELM, "3") field(INP, [0.5, 0.1, -2])
            field(PINI, "YES")
        }
        record(waveform, "$(P)string") {
            field(FTVL, "STRING") field(NELM, "3") field(INP, ["a", "", "bc"])
            field(PINI, "YES")
        }
        record(waveform, "$(P)empty") { field(FTVL, "DOUBLE") field(NELM, "9") field(PINI, "YES") }
        "#,
    );
    let records = [
        "ai", "longout", "calc", "bi", "mbbo", "stringin", "double", "char", "short", "float",
        "string", "empty",
    ];
    let names = ioc.names(records);
    first.subscribe_live(&names);
    // The relay knows the PVs now: a later client gets everything from the answer itself.
    let mut client = Client::connect(_relay.address());
    assert_eq!(client.subscribe(&names), []);
    assert_eq!(client.messages[0].kind, FrameKind::Snapshot);
    assert_eq!(client.messages[0].rows, names.len());

    let (short, char) = (ValueType::Int16, ValueType::UInt8);
    let doubles = [0.1_f64, 1e300].map(f64::to_le_bytes);
    let floats = [0.5_f32, 0.1, -2.0].map(f32::to_le_bytes);
    let texts = ["a", "", "bc"].map(str::to_owned).to_vec();
    let high = Alarm {
        severity: Severity::Minor,
        status: 4,
    };
    let state = Alarm {
        severity: Severity::Major,
        status: 7,
    };
    for (record, value_type, element_count, value, alarm) in [
        ("ai", ValueType::Float64, 1, Kept::Number(8.5), high),
        (
            "longout",
            ValueType::Int32,
            1,
            Kept::Number(-2_147_483_648.0),
            CALM,
        ),
        ("calc", ValueType::Float64, 1, Kept::Number(42.0), CALM),
        ("bi", ValueType::Enum, 1, Kept::Number(1.0), state),
        ("mbbo", ValueType::Enum, 1, Kept::Number(2.0), CALM),
        ("stringin", ValueType::String, 1, Kept::text("text"), CALM),
        (
            "double",
            ValueType::Float64,
            5,
            elements(ValueType::Float64, &doubles),
            CALM,
        ),
        ("char", char, 16, elements(char, &[[72], [105], [0]]), CALM),
        (
            "short",
            short,
            4,
            elements(short, &[(-1_i16).to_le_bytes(), 2_i16.to_le_bytes()]),
            CALM,
        ),
        (
            "float",
            ValueType::Float32,
            3,
            elements(ValueType::Float32, &floats),
            CALM,
        ),
        ("string", ValueType::String, 3, Kept::Texts(texts), CALM),
        (
            "empty",
            ValueType::Float64,
            9,
            Kept::Array(ValueType::Float64, Vec::new()),
            CALM,
        ),
    ] {
        let pv = client.pv(&ioc.name(record));
        let now = pv.now.as_ref().unwrap();
        let metadata = pv.metadata.as_ref().unwrap();
        assert_eq!(
            (metadata.value_type, metadata.element_count),
            (value_type, element_count),
            "{record}"
        );
        assert_eq!(now.value, value, "{record}");
        assert_eq!(now.alarm, alarm, "{record}");
        let connection = pv.connection.unwrap();
        assert_eq!(connection.state, ConnectionState::Connected, "{record}");
        assert!(connection.read && connection.write, "{record}");
    }

    let metadata = |record: &str| client.pv(&ioc.name(record)).metadata.clone().unwrap();
    let ai = metadata("ai");
    let expected = Metadata {
        value_type: ValueType::Float64,
        element_count: 1,
        units: "mA".into(),
        precision: Some(3),
        display: limits(-10.0, 10.0),
        warning: limits(-8.0, 8.0),
        alarm: limits(-9.0, 9.0),
        control: ai.control,
        epoch: ai.epoch,
        ..Metadata::default()
    };
    assert_eq!(ai, expected);
    let longout = metadata("longout");
    assert_eq!(longout.control, limits(-2_147_483_648.0, 70_000.0));
    assert_eq!(longout.precision, None);
    assert_eq!(metadata("bi").choices, ["off", "on"]);
    assert_eq!(metadata("mbbo").choices, ["zero", "one", "two"]);
    assert_eq!(metadata("double").units, "V");
    let text = metadata("stringin");
    assert_eq!((text.units.as_str(), text.precision), ("", None));
    assert_eq!(text.display, Limits::NONE);
}

#[test]
fn absent_alarm_limits_are_no_limits() {
    let (ioc, _relay, mut client) = start(r#"record(ai, "$(P)ai") { field(VAL, "1") }"#);
    let name = ioc.name("ai");
    client.subscribe_live(&[&name]);

    let metadata = client.pv(&name).metadata.clone().unwrap();

    assert_eq!(metadata.alarm, Limits::NONE);
    assert_eq!(metadata.warning, Limits::NONE);
}

#[test]
fn infinities_and_nan_are_told_apart() {
    let (mut ioc, _relay, mut client) = start(r#"record(ao, "$(P)ao") { field(VAL, "1") }"#);
    let name = ioc.name("ao");
    client.subscribe_live(&[&name]);

    ioc.put("ao", "Inf");
    client.wait_number(&name, f64::INFINITY);
    ioc.put("ao", "-Inf");
    client.wait_number(&name, f64::NEG_INFINITY);
    ioc.put("ao", "NaN");
    client.wait_pv(
        &name,
        "NaN",
        |pv| matches!(pv.now.as_ref().unwrap().value, Kept::Number(number) if number.is_nan()),
    );
}

#[test]
fn every_update_comes_in_order_while_the_client_keeps_up() {
    let (mut ioc, relay, mut client) = start(
        r#"
        record(longout, "$(P)fast") {
            field(VAL, "0") field(PINI, "YES") field(HIGH, "100") field(HSV, "MINOR")
        }
        record(longout, "$(P)other") { field(VAL, "0") field(PINI, "YES") }
        record(stringout, "$(P)text") { field(VAL, "0") field(PINI, "YES") }
        record(calc, "$(P)scanned") { field(CALC, "VAL+1") field(SCAN, ".1 second") }
        "#,
    );
    let names = ioc.names(["fast", "other", "text", "scanned"]);
    client.subscribe_live(&names);
    let mut peer = Client::connect(relay.address());
    peer.subscribe_live(&names);

    // About 100 Hz; "text" follows at a third of it.
    ioc.run(
        "import time
for i in range(1, 201):
    ioc('dbpf %sfast %d' % (P, i))
    ioc('dbpf %sother %d' % (P, -i))
    if i % 3 == 0: ioc('dbpf %stext %d' % (P, i))
    time.sleep(.008)
",
    );
    keep_up(
        "both clients have it all",
        &mut [&mut client, &mut peer],
        |clients| {
            clients.iter().all(|client| {
                client.pv(&names[0]).is_number(200.0) && client.pv(&names[1]).is_number(-200.0)
            })
        },
    );

    let fast: Vec<f64> = (0..=200).map(f64::from).collect();
    for client in [&client, &peer] {
        assert_eq!(client.pv(&names[0]).numbers(), fast);
        let other: Vec<f64> = fast.iter().map(|value| -value).collect();
        assert_eq!(client.pv(&names[1]).numbers(), other);
        for row in &client.pv(&names[0]).rows {
            let is_high = matches!(row.value, Kept::Number(value) if value >= 100.0);
            assert_eq!(row.alarm.severity == Severity::Minor, is_high, "{row:?}");
        }
        let text = client
            .pv(&names[2])
            .rows
            .iter()
            .map(|row| row.value.clone());
        let expected = (0..=66).map(|i| Kept::text(&(3 * i).to_string()));
        assert_eq!(text.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
        let scanned = client.pv(&names[3]).numbers();
        assert!(scanned.len() > 10, "{scanned:?}");
        assert!(scanned.windows(2).all(|pair| pair[1] == pair[0] + 1.0));
        for name in &names {
            let pv = client.pv(name);
            assert_eq!(pv.skipped, 0);
            let rows = sequences(&pv.rows);
            assert!(rows.windows(2).all(|pair| pair[1] == pair[0] + 1));
        }
    }
}

#[test]
fn stamps_are_the_iocs_to_the_nanosecond() {
    let (ioc, _relay, mut client) = start(
        r#"
        record(calc, "$(P)calc") { field(CALC, "VAL+1") field(SCAN, ".1 second") }
        record(ai, "$(P)never") {}
        "#,
    );
    // A filter of the IOC that puts a part of the stamp in the place of the value.
    let part = |number: &str| {
        let calc = ioc.name("calc");
        format!(r#"{calc}.VAL{{"ts":{{"num":"{number}","epoch":"unix"}}}}"#)
    };
    let (seconds, nanoseconds, plain) = (part("sec"), part("nsec"), ioc.name("calc"));
    let never = ioc.name("never");
    client.subscribe_live(&[&seconds, &nanoseconds, &plain, &never]);
    client.wait("ten updates, one of both", |client| {
        let [filtered, plain] = [&nanoseconds, &plain].map(|name| &client.pv(name).rows);
        let is_of_both = |row: &RowSeen| plain.iter().any(|it| it.time_ns == row.time_ns);
        filtered.len() >= 10 && filtered.iter().any(is_of_both)
    });

    for row in &client.pv(&seconds).rows {
        assert_eq!(
            row.value,
            Kept::Number((row.time_ns / 1_000_000_000) as f64)
        );
    }
    for row in &client.pv(&nanoseconds).rows {
        assert_eq!(
            row.value,
            Kept::Number((row.time_ns % 1_000_000_000) as f64)
        );
    }
    // A record that was never processed says the start of the EPICS epoch, which is no time, and that it is undefined.
    let now = client.pv(&never).now.as_ref().unwrap();
    assert_eq!(now.time_ns, 0);
    assert_eq!(now.alarm, UNDEFINED);
}

#[test]
fn changed_metadata_comes_by_itself_at_once() {
    let (mut ioc, _relay, mut client) = start(
        r#"
        record(ai, "$(P)ai") {
            field(EGU, "V") field(PREC, "1") field(HIHI, "9") field(HHSV, "MAJOR")
            field(VAL, "1") field(PINI, "YES")
        }
        record(mbbo, "$(P)mbbo") { field(ZRST, "zero") field(ONST, "one") }
        "#,
    );
    let [ai, mbbo] = ioc.names(["ai", "mbbo"]);
    client.subscribe_live(&[&ai, &mbbo]);
    let rows = client.pv(&ai).rows.len();
    type Seen = fn(&Metadata) -> bool;
    let changes: [(&str, &str, [&str; 2], Seen); 4] = [
        (&ai, "ai.EGU", ["V", "kelvin"], |metadata| {
            metadata.units == "kelvin"
        }),
        (&ai, "ai.PREC", ["1", "5"], |metadata| {
            metadata.precision == Some(5)
        }),
        (&ai, "ai.HIHI", ["9", "9.5"], |metadata| {
            metadata.alarm.high == 9.5
        }),
        (&mbbo, "mbbo.ZRST", ["zero", "null"], |metadata| {
            metadata.choices == ["null", "one"]
        }),
    ];
    for (name, field, [before, after], seen) in changes {
        let is_seen = |pv: &Pv| seen(pv.metadata.as_ref().unwrap());
        within(Duration::from_millis(500), field, || {
            ioc.put(field, before);
            client.wait_pv(name, before, |pv| !is_seen(pv));
            let start = Instant::now();
            ioc.put(field, after);
            client.wait_pv(name, after, is_seen);
            start.elapsed()
        });
    }
    assert_eq!(client.pv(&ai).rows.len(), rows, "the value did not change");
    let epoch = client.pv(&ai).metadata.as_ref().unwrap().epoch;
    assert_ne!(epoch, 0);
}

#[test]
fn clients_of_one_set_get_the_same_bytes() {
    let (ioc, relay, mut one) = start(
        r#"
        record(calc, "$(P)a") { field(CALC, "VAL+1") field(SCAN, ".1 second") }
        record(calc, "$(P)b") {
            field(CALC, "VAL?0:1") field(SCAN, ".1 second") field(HIGH, "1") field(HSV, "MINOR")
        }
        "#,
    );
    let mut other = Client::connect(relay.address());
    let [a, b] = ioc.names(["a", "b"]);
    one.subscribe_live(&[&a, &b]);
    // In another order: it is the same set.
    other.subscribe_live(&[&b, &a]);
    let shared = other.tick;
    keep_up(
        "some frames for both",
        &mut [&mut one, &mut other],
        |clients| {
            let far =
                |client: &&mut Client| client.messages.len() >= 12 && client.tick > shared + 5;
            clients.iter().all(far)
        },
    );

    let last = one.tick.min(other.tick);
    let of = |client: &Client| {
        let both = client.messages.iter();
        let both = both.filter(|message| (shared + 1..=last).contains(&message.tick));
        both.cloned().collect::<Vec<_>>()
    };
    let frames = of(&one);
    assert!(frames.len() >= 5, "{} frames", frames.len());
    assert!(frames.iter().all(|frame| frame.kind == FrameKind::Update));
    assert_eq!(frames, of(&other));
    assert_eq!(relay.metric("pvwire_monitors_active"), 2.0);
}

#[test]
fn packed_columns_have_the_same_values_in_fewer_bytes() {
    let records = (0..40).map(|n| {
        format!(r#"record(calc, "$(P)c{n}") {{ field(CALC, "VAL+1") field(SCAN, ".1 second") }}"#)
    });
    let (ioc, relay, mut plain) = start(&records.collect::<Vec<_>>().join("\n"));
    let how = How {
        lz4: true,
        ..How::default()
    };
    let mut packed = [(); 2].map(|()| Client::connect_as(relay.address(), how));
    let names: Vec<String> = (0..40).map(|n| ioc.name(&format!("c{n}"))).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    plain.subscribe_live(&names);
    let [one, other] = &mut packed;
    one.subscribe_live(&names);
    other.subscribe_live(&names);
    let shared = other.tick;
    keep_up(
        "some frames for all",
        &mut [&mut plain, one, other],
        |clients| {
            let ticks = clients.iter().map(|client| client.tick);
            let last = ticks.min().unwrap();
            // On a busy machine a scan of the IOC may take several ticks.
            let mut whole = clients[0].messages.iter();
            let is_whole =
                |frame: &Message| frame.rows == 40 && (shared + 1..=last).contains(&frame.tick);
            last > shared + 10 && whole.any(is_whole)
        },
    );

    let last = plain.tick.min(one.tick).min(other.tick);
    let of = |client: &Client| {
        let all = client.messages.iter();
        let all = all.filter(|message| (shared + 1..=last).contains(&message.tick));
        all.cloned().collect::<Vec<_>>()
    };
    let (frames, packed) = (of(&plain), of(one));
    assert_eq!(packed, of(other), "the same bytes for both");
    let rows = |bytes: &[u8]| {
        let view = decode::frame(bytes).unwrap();
        let rows = view.numbers().collect::<Vec<_>>();
        (view.tick(), view.prev_tick(), rows)
    };
    assert!(frames.iter().any(|frame| rows(&frame.bytes).2.len() == 40));
    for (frame, packed) in frames.iter().zip(&packed) {
        assert_eq!(rows(&frame.bytes), rows(&packed.bytes));
        if rows(&frame.bytes).2.len() == 40 {
            assert!(packed.bytes.len() < frame.bytes.len() * 3 / 4);
        }
    }
    assert_eq!(frames.len(), packed.len());
    for client in [&plain, one, other] {
        for name in &names {
            assert_eq!(client.pv(name).skipped, 0);
        }
    }
}

const RECORDS: &str = r#"
    record(waveform, "$(P)text") {
        field(FTVL, "CHAR") field(NELM, "100") field(DESC, "what it says") info(Q:form, "String")
    }
    record(waveform, "$(P)bytes") { field(FTVL, "CHAR") field(NELM, "100") }
    record(waveform, "$(P)one") { field(FTVL, "CHAR") field(NELM, "1") info(Q:form, "String") }
"#;

/// The form of a PV that a client receives.
fn form(client: &Client, name: &str) -> String {
    let metadata = client.pv(name).metadata.as_ref();
    metadata.map_or_else(String::new, |metadata| metadata.form.clone())
}

#[test]
fn character_array_with_form_string_is_shown_as_a_text() {
    let network = Network::new();
    let prefix = prefix();
    let mut ioc = SoftIoc::with_pv_access(network, &prefix, RECORDS);
    let relay = Relay::start(network, &["--enable-put", "--allow-put=*"]);
    let mut client = Client::connect(relay.address());
    let names = ioc.names(["text", "bytes", "one"]);
    let [text, bytes, one] = names.each_ref().map(String::as_str);
    client.subscribe_live(&names);
    client.describe(&[text]);
    for _ in 0..2 {
        client.wait("the form", |client| form(client, text) == "String");
        client.wait_pv(text, "its description beside the form", |pv| {
            let metadata = pv.metadata.as_ref();
            metadata.is_some_and(|it| it.description == "what it says" && it.form == "String")
        });
        client.put(
            text,
            pvwire_schema::types::PutValue::Text("whole".to_owned()),
        );
        client.wait_pv(text, "all of it", |pv| {
            pv.now.as_ref().is_some_and(|now| matches!(&now.value,
                Kept::Array(ValueType::UInt8 | ValueType::Int8, bytes) if bytes.starts_with(b"whole")))
        });
        assert_eq!(form(&client, bytes), "");
        assert_eq!(form(&client, one), "");
        ioc.kill();
        client.wait_state(text, pvwire_schema::types::ConnectionState::Disconnected);
        ioc = SoftIoc::with_pv_access(network, &prefix, RECORDS);
        client.wait_state(text, pvwire_schema::types::ConnectionState::Connected);
    }
}

#[test]
fn form_that_is_found_late_leaves_the_value_that_came_after_one_that_could_not_be_sent() {
    let network = Network::new();
    let server = LyingServer::start(&["text"]);
    let name = &server.names[0];
    let prefix = name.strip_suffix("text").unwrap();
    let structures = StructureServer::start(Some(network), prefix);
    structures.hang();
    let mut command = relay_command(network);
    server.apply(&mut command);
    let relay = Relay::spawn(command, &[]);
    let mut client = Client::connect(relay.address());
    client.subscribe(&[name]);
    let shown = Kept::Array(ValueType::UInt8, b"b".to_vec());
    client.wait_pv(name, "the second value", |pv| pv.is(&shown));
    structures.resume();
    client.wait("the form", |client| form(client, name) == "String");
    assert!(client.pv(name).is(&shown), "the value is still shown");
}

#[test]
fn character_array_of_an_ioc_without_pva_stays_bytes() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, RECORDS);
    let relay = Relay::start(network, &[]);
    let mut client = Client::connect(relay.address());
    let text = ioc.name("text");
    client.subscribe_live(&[&text]);
    assert_eq!(form(&client, &text), "");
    assert!(matches!(
        client.pv(&text).now.as_ref().unwrap().value,
        Kept::Array(..)
    ));
}
