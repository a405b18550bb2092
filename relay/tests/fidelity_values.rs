//! Texts, arrays, special numbers and metadata of every kind of PV equal those of Channel Access.
//!
//! Topology: one soft IOC, one relay, one client, and an independent Channel Access client for
//! comparison.

use std::time::{Duration, Instant};

use pvwire_schema::types::{ConnectionState, Severity, ValueType};

use testbed::records::{KINDS, record};
use testbed::{Client, Kept, Network, Pv, Relay, SoftIoc, Truth, prefix, within};

struct Stage {
    network: Network,
    ioc: SoftIoc,
    relay: Relay,
    client: Client,
    names: Vec<String>,
}

impl Stage {
    /// An IOC with this database, and a client that subscribes all of these records.
    fn set(database: &str, records: &[&str]) -> Self {
        let network = Network::new();
        let ioc = SoftIoc::start(network, database);
        let relay = Relay::start(network, &[]);
        let mut client = Client::connect(relay.address());
        let names: Vec<_> = records.iter().map(|record| ioc.name(record)).collect();
        client.subscribe_live(&names);
        Self {
            network,
            ioc,
            relay,
            client,
            names,
        }
    }

    /// Waits until every field of the client equals the IOC's.
    fn wait_truth(&mut self) -> Truth {
        self.ioc.settle();
        let truth = Truth::ask(self.network, &self.names);
        truth.wait_equal(&mut self.client);
        truth
    }

    /// Writes a field as bytes, which need not be valid text.
    fn put_bytes(&mut self, field: &str, bytes: &[u8]) {
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        self.ioc.run(&format!(
            "from epicscorelibs.ioc import dbCore
dbCore.dbpf((P + '{field}').encode(), bytes.fromhex('{hex}'))"
        ));
    }

    fn wait(&mut self, record: &str, value: &Kept) {
        let name = self.ioc.name(record);
        self.client
            .wait_pv(&name, &format!("{value:?}"), |pv| pv.is(value));
    }
}

fn doubles(numbers: &[f64]) -> Kept {
    let bytes = numbers.iter().flat_map(|number| number.to_le_bytes());
    Kept::Array(ValueType::Float64, bytes.collect())
}

fn bytes(bytes: &[u8]) -> Kept {
    Kept::Array(ValueType::UInt8, bytes.to_vec())
}

#[test]
fn every_kind_of_pv_is_the_truth_in_every_field() {
    let records: Vec<String> = (0..KINDS.len() * 5).map(|at| format!("r{at}")).collect();
    let database: String = records
        .iter()
        .enumerate()
        .map(|(at, name)| record(KINDS[at % KINDS.len()], &format!("$(P){name}"), at as u32))
        .collect();
    let records: Vec<&str> = records.iter().map(String::as_str).collect();

    let mut stage = Stage::set(&database, &records);

    let truth = stage.wait_truth();
    let (got, errors) = stage.client.get(&stage.names, 0);
    assert_eq!(errors, []);
    let of = |name: &str| stage.names.iter().position(|of| of == name).unwrap();
    let differences = truth.differences(|name| got[of(name)].as_ref());
    assert_eq!(differences, [].into(), "a get differs");
    // All severities were among them.
    let severity = |name: &String| truth.of(name).alarm.severity;
    for wanted in [Severity::NoAlarm, Severity::Minor, Severity::Major] {
        assert!(stage.names.iter().any(|name| severity(name) == wanted));
    }
}

#[test]
fn unknown_name_is_not_found_after_five_seconds_by_default() {
    let network = Network::new();
    let relay = Relay::start(network, &[]);
    let mut client = Client::connect(relay.address());

    within(Duration::from_secs(8), "not found", || {
        let name = format!("{}nobody", prefix());
        let start = Instant::now();
        client.subscribe(&[&name]);
        assert_eq!(client.pv(&name).state(), ConnectionState::Connecting);
        client.wait_state(&name, ConnectionState::NotFound);
        let took = start.elapsed();
        assert!(took >= Duration::from_secs(5), "{took:?}");
        took
    });
}

#[test]
fn metadata_that_changes_while_connected_is_right_within_ticks() {
    let analog = |record: &str| {
        format!(
            r#"record({record}, "$(P){record}") {{
                field(MDEL, "-1") field(HHSV, "MAJOR") field(HSV, "MINOR") field(LSV, "MINOR") field(LLSV, "MAJOR")
            }}"#
        )
    };
    let mut database: String = ["ai", "ao", "calc", "longin", "longout"]
        .map(analog)
        .concat();
    database += r#"
        record(waveform, "$(P)wave") { field(FTVL, "FLOAT") field(NELM, "3") field(INP, [1]) }
        record(bo, "$(P)bo") { field(ZNAM, "off") field(ONAM, "on") }
        record(mbbi, "$(P)mbbi") { field(ZRST, "zero") }
        record(mbbo, "$(P)mbbo") { field(ZRST, "zero") field(ONST, "one") field(TWST, "two") }
    "#;
    let records = [
        "ai", "ao", "calc", "longin", "longout", "wave", "bo", "mbbi", "mbbo",
    ];
    let mut stage = Stage::set(&database, &records);
    stage.wait_truth();

    let (analog, limits) = (&records[..5], ["HIHI", "HIGH", "LOW", "LOLO"]);
    let mut changes = Vec::new();
    for (at, record) in analog.iter().enumerate() {
        changes.push((record, "EGU", format!("unit{at}")));
        changes.push((record, "HOPR", format!("{}", 100 + at)));
        changes.push((record, "LOPR", format!("-{}", 100 + at)));
        let limit =
            |(n, field): (usize, &'static str)| (record, field, format!("{}", 45 - 20 * n as i32));
        changes.extend(limits.into_iter().enumerate().map(limit));
        if at < 3 {
            changes.push((record, "PREC", format!("{}", at + 2)));
        }
    }
    for record in ["ao", "longout"].iter() {
        changes.push((record, "DRVH", "77".into()));
        changes.push((record, "DRVL", "-77".into()));
    }
    changes.push((&"wave", "EGU", "mbar".into()));
    changes.push((&"wave", "PREC", "7".into()));
    changes.push((&"bo", "ONAM", "ajar".into()));
    changes.push((&"mbbi", "ONST", "a second label".into()));
    changes.push((&"mbbo", "ONST", String::new()));
    changes.push((&"mbbo", "ZRST", "°zero".into()));
    for (record, field, value) in changes {
        let name = stage.ioc.name(record);
        let field = format!("{record}.{field}");
        let mut values = [value.clone(), format!("{value}2")].into_iter().cycle();
        within(Duration::from_millis(500), &field, || {
            let value = values.next().unwrap();
            let before = stage.client.pv(&name).metadata.clone();
            let start = Instant::now();
            stage.ioc.put(&field, &value);
            stage
                .client
                .wait_pv(&name, &format!("{field} {value}"), |pv| {
                    pv.metadata != before
                });
            start.elapsed()
        });
    }
    // A change of this field has processed the record too, which moves its time stamp without an
    // event when the value stays the same.
    stage.ioc.put("bo", "1");
    stage.wait("bo", &Kept::Number(1.0));
    stage.wait_truth();
}

#[test]
fn alarm_limits_that_a_record_lacks_are_absent() {
    let analog = |record: &str| {
        format!(
            r#"record({record}, "$(P){record}") {{
                field(HIHI, "9") field(HHSV, "MAJOR") field(LOW, "-2") field(LSV, "MINOR")
            }}"#
        )
    };
    let records = ["ai", "ao", "calc", "longin", "longout"];
    let mut stage = Stage::set(&records.map(analog).concat(), &records);
    let truth = stage.wait_truth();

    for name in &stage.names {
        let metadata = stage.client.pv(name).metadata.as_ref().unwrap();
        assert_eq!((metadata.alarm.high, metadata.warning.low), (9.0, -2.0));
        assert!(metadata.alarm.low.is_nan() && metadata.warning.high.is_nan());
        assert_eq!(truth.of(name).metadata.alarm.high, 9.0);
    }
}

#[test]
fn each_string_of_an_array_of_strings_is_whole() {
    let mut stage = Stage::set(
        r#"record(waveform, "$(P)texts") { field(FTVL, "STRING") field(NELM, "5") }"#,
        &["texts"],
    );
    let long = "x".repeat(39);
    for texts in [
        &[r"comma, quote\' and {brace}", "", "[x] y", "°C µm", &long][..],
        &["two", "  blanks around  "],
        &["alone"],
        &[""],
        &["NaN", "1.5", "null"],
    ] {
        let json = serde_json::to_string(texts).unwrap();
        stage.put_bytes("texts", json.as_bytes());
        let kept = Kept::Texts(texts.iter().map(|&text| text.into()).collect());
        stage.wait("texts", &kept);
        stage.wait_truth();
    }
    stage.put_bytes("texts", b"[]");
    stage.wait("texts", &Kept::Texts(Vec::new()));
    stage.wait_truth();
}

#[test]
fn infinite_numbers_and_nan_are_told_apart_everywhere() {
    let mut stage = Stage::set(
        r#"
        record(ao, "$(P)ao") { field(HIHI, "Inf") field(HHSV, "MAJOR") field(HOPR, "Inf") }
        record(waveform, "$(P)double") { field(FTVL, "DOUBLE") field(NELM, "9") }
        record(waveform, "$(P)float") { field(FTVL, "FLOAT") field(NELM, "9") }
        record(waveform, "$(P)one") { field(FTVL, "FLOAT") field(NELM, "1") }
        "#,
        &["ao", "double", "float", "one"],
    );
    for number in [
        "Inf",
        "-Inf",
        "NaN",
        "-0.0",
        "2.2250738585072014e-308",
        "1.7976931348623157e308",
        "0.1",
    ] {
        stage.ioc.put("ao", number);
        let wanted: f64 = number.parse().unwrap();
        let name = stage.ioc.name("ao");
        stage.client.wait_pv(&name, number, |pv| {
            let now = pv.now.as_ref().unwrap();
            matches!(now.value, Kept::Number(value)
                if value.to_bits() == wanted.to_bits() || value.is_nan() && wanted.is_nan())
        });
        stage.wait_truth();
    }

    stage.put_bytes(
        "double",
        b"[NaN, Infinity, -Infinity, -0.0, 2.2250738585072014e-308, 1e308]",
    );
    let (infinite, least) = (f64::INFINITY, f64::MIN_POSITIVE);
    let several = [f64::NAN, infinite, -infinite, -0.0, least, 1e308];
    stage.wait("double", &doubles(&several));
    stage.put_bytes("float", b"[NaN, Infinity, -Infinity, 0.1]");
    stage.put_bytes("one", b"NaN");
    stage.wait_truth();

    let name = stage.ioc.name("ao");
    let metadata = stage.client.pv(&name).metadata.as_ref().unwrap();
    assert_eq!(metadata.alarm.high, infinite);
    assert_eq!(metadata.display.high, infinite);
}

#[test]
fn string_of_any_length_is_whole_as_a_long_string() {
    let database = ["lsi", "lso"].map(|record| {
        format!(
            r#"record({record}, "$(P){record}") {{ field(SIZV, "3001") field(MPST, "Always") }}"#
        )
    });
    let mut stage = Stage::set(&database.concat(), &["lsi.VAL$", "lso.VAL$"]);

    for length in [0, 1, 38, 39, 40, 41, 3_000] {
        let text = alphabet(length);
        let mut whole = text.clone().into_bytes();
        whole.push(0);
        for record in ["lsi", "lso"] {
            stage.put_bytes(record, text.as_bytes());
            stage.wait(&format!("{record}.VAL$"), &bytes(&whole));
        }
        stage.wait_truth();
    }
}

#[test]
fn long_string_is_whole_by_its_plain_name() {
    let database = r#"
        record(lsi, "$(P)lsi") { field(SIZV, "3001") field(MPST, "Always") }
        record(lso, "$(P)lso") { field(SIZV, "3001") field(MPST, "Always") }
        record(lso, "$(P)full") { field(SIZV, "41") field(MPST, "Always") }
        record(stringout, "$(P)short") { field(MPST, "Always") }
        record(calc, "$(P)calc") {
            field(DESC, "exactly 40 bytes of text are what it has")
            field(INPA, "$(P)record:whose:name:takes:more:than:39:bytes.VAL CA MS")
        }
    "#;
    let records = ["lsi", "lso", "full", "short", "calc.DESC", "calc.INPA"];
    let mut stage = Stage::set(database, &records);
    let description = "exactly 40 bytes of text are what it has";
    stage.wait("calc.DESC", &Kept::text(description));
    // A link, which Channel Access shows as a string too.
    let target = (stage.ioc).name("record:whose:name:takes:more:than:39:bytes.VAL CA MS");
    stage.wait("calc.INPA", &Kept::text(&target));

    for length in [0, 1, 38, 39, 40, 41, 3_000, 7, 100] {
        let text = alphabet(length);
        for record in ["lsi", "lso"] {
            stage.put_bytes(record, text.as_bytes());
            stage.wait(record, &Kept::text(&text));
        }
        let cut = &text[..text.len().min(39)];
        stage.put_bytes("short", cut.as_bytes());
        stage.wait("short", &Kept::text(cut));
        stage.put_bytes("full", &text.as_bytes()[..text.len().min(40)]);
        stage.wait("full", &Kept::text(&text[..text.len().min(40)]));
        stage.wait_truth();
    }
    // No value was shown truncated, and none twice.
    for record in ["lsi", "lso"] {
        let pv = stage.client.pv(&stage.ioc.name(record));
        let shown: Vec<_> = pv.rows.iter().map(|row| row.value.clone()).collect();
        let cut = |kept: &Kept| *kept == Kept::text(&alphabet(3_000)[..39]);
        // One of 39 bytes was written, once.
        assert!(
            shown.iter().filter(|kept| cut(kept)).count() <= 1,
            "{shown:?}"
        );
    }

    // The IOC comes back with another kind of record of that name.
    let Stage { network, ioc, .. } = stage;
    let prefix = ioc.prefix().to_owned();
    let mut client = stage.client;
    ioc.kill();
    let lso = format!("{prefix}lso");
    client.wait_state(&lso, ConnectionState::Disconnected);
    let database = r#"
        record(ao, "$(P)lso") { field(VAL, "4.5") field(PINI, "YES") }
        record(lsi, "$(P)lsi") { field(SIZV, "3001") }
    "#;
    let mut ioc = SoftIoc::with_prefix(network, &prefix, database, "");
    client.wait_number(&lso, 4.5);
    let lsi = ioc.name("lsi");
    client.wait_pv(&lsi, "its empty text", |pv| pv.is(&Kept::text("")));
    ioc.put("lsi", &alphabet(200));
    client.wait_pv(&lsi, "its long text", |pv| {
        pv.is(&Kept::text(&alphabet(200)))
    });
    drop(stage.relay);
}

fn alphabet(length: usize) -> String {
    (0..length)
        .map(|at| char::from(b'a' + (at % 26) as u8))
        .collect()
}

#[test]
fn text_that_is_no_utf8_is_read_as_latin_1() {
    let mut stage = Stage::set(
        r#"
        record(ai, "$(P)ai") { field(VAL, "1") }
        record(stringout, "$(P)text") { field(VAL, "") }
        record(mbbo, "$(P)mbbo") { field(ZRST, "zero") }
        record(waveform, "$(P)texts") { field(FTVL, "STRING") field(NELM, "2") }
        "#,
        &["ai", "text", "mbbo", "texts"],
    );

    stage.put_bytes("ai.EGU", b"\xb0C");
    stage.put_bytes("text", b"5 \xb5m");
    stage.put_bytes("mbbo.ZRST", b"ge\xf6ffnet");
    stage.put_bytes("texts", b"[\"\xc2\xb0\", \"plain\"]");

    stage.wait("text", &Kept::text("5 µm"));
    stage.wait("texts", &Kept::Texts(vec!["°".into(), "plain".into()]));
    let [ai, mbbo] = stage.ioc.names(["ai", "mbbo"]);
    let client = &mut stage.client;
    client.wait_pv(&ai, "its unit", |pv| {
        pv.metadata.as_ref().unwrap().units == "°C"
    });
    client.wait_pv(&mbbo, "its label", |pv| {
        pv.metadata.as_ref().unwrap().choices == ["geöffnet"]
    });
    // The same in UTF-8.
    stage.put_bytes("ai.EGU", "°C".as_bytes());
    stage.put_bytes("text", "5 µm".as_bytes());
    stage.wait_truth();
    // Channel Access has seven bytes for units, and its server cuts them within the last character.
    stage.put_bytes("ai.EGU", "µmol/m²".as_bytes());
    let metadata = |pv: &Pv| pv.metadata.clone().unwrap();
    (stage.client).wait_pv(&ai, "its units in UTF-8", |pv| {
        metadata(pv).units == "µmol/m"
    });
}

#[test]
fn arrays_of_no_and_one_element_are_what_channel_access_says() {
    let mut stage = Stage::set(
        r#"
        record(waveform, "$(P)many") { field(FTVL, "DOUBLE") field(NELM, "5") }
        record(waveform, "$(P)one") { field(FTVL, "DOUBLE") field(NELM, "1") field(INP, [4]) }
        record(waveform, "$(P)byte") { field(FTVL, "CHAR") field(NELM, "1") field(INP, [65]) }
        record(waveform, "$(P)text") { field(FTVL, "STRING") field(NELM, "1") field(INP, ["a"]) }
        "#,
        &["many", "one", "byte", "text"],
    );
    // The array never had any element.
    stage.wait("many", &doubles(&[]));
    stage.wait_truth();
    // Channel Access can't distinguish an array of at most one element from a scalar.
    stage.wait("one", &Kept::Number(4.0));
    stage.wait("byte", &Kept::Number(65.0));
    stage.wait("text", &Kept::text("a"));

    for (json, elements) in [
        ("[1.5]", &[1.5][..]),
        ("[1, 2, 3, 4, 5]", &[1.0, 2.0, 3.0, 4.0, 5.0]),
        ("[7]", &[7.0]),
        ("[]", &[]),
        ("[8]", &[8.0]),
    ] {
        stage.put_bytes("many", json.as_bytes());
        stage.wait("many", &doubles(elements));
        stage.wait_truth();
        let mut late = Client::connect(stage.relay.address());
        late.subscribe_live(&stage.names);
        assert!(late.pv(&stage.names[0]).is(&doubles(elements)), "{json}");
    }
}
