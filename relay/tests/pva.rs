//! Values, alarms and metadata of pvAccess are shown exactly and can be written back.
//!
//! Topology: one relay that takes puts, one client, a soft IOC with pvAccess (QSRV) that
//! restarts.

use pvwire_schema::types::{
    Array, ConnectionState, Outcome, PutRequest, PutValue, Reply, RequestBody, Severity, SkipCause,
    ValueType,
};

use testbed::{Client, Kept, Network, Relay, SoftIoc, prefix};

const ALL: [&str; 2] = ["--enable-put", "--allow-put=*"];

const DATABASE: &str = r#"
    record(ai, "$(P)ai") {
        field(VAL, "21.5") field(PREC, "2") field(EGU, "mm") field(DESC, "Gap of the undulator")
        field(HOPR, "100") field(LOPR, "0") field(HIHI, "80") field(HHSV, "MAJOR")
        field(HIGH, "60") field(HSV, "MINOR") field(PINI, "YES") info(Q:form, "Exponential")
    }
    record(int64out, "$(P)large") { field(VAL, "9007199254740993") field(PINI, "YES") }
    record(int64out, "$(P)small") { field(VAL, "-7") field(PINI, "YES") }
    record(mbbo, "$(P)mode") {
        field(ZRST, "off") field(ONST, "on") field(TWST, "stand by") field(VAL, "1")
        field(PINI, "YES")
    }
    record(stringout, "$(P)text") { field(VAL, "[x] y") field(PINI, "YES") }
    record(lso, "$(P)long") { field(SIZV, "4000") }
    record(waveform, "$(P)shorts") { field(FTVL, "SHORT") field(NELM, "4") field(INP, [1, -2, 3]) }
    record(waveform, "$(P)strings") { field(FTVL, "STRING") field(NELM, "3") field(INP, ["a", ""]) }
    record(waveform, "$(P)empty") { field(FTVL, "DOUBLE") field(NELM, "9") }
    record(waveform, "$(P)wide") { field(FTVL, "INT64") field(NELM, "2") field(INP, [9007199254740993]) }
    record(ao, "$(P)disp") { field(VAL, "1") field(DISP, "1") field(PINI, "YES") }
    record(ai, "$(P)x") { field(VAL, "1.5") field(PINI, "YES") info(Q:group, {
        "$(P)group": { "+id": "site:position:1.0",
            "x": { "+channel": "VAL", "+type": "plain", "+trigger": "*" },
            "inner.y": { "+channel": "HOPR", "+type": "plain" } }
    }) field(HOPR, "7") }
"#;

fn put(client: &mut Client, name: &str, value: PutValue) -> (Outcome, String) {
    let body = RequestBody::Put(PutRequest {
        name: name.to_owned(),
        value,
        wait: true,
        timeout_ms: 20_000,
        expected: None,
    });
    match client.ask(body).0 {
        Reply::PutDone { outcome, message } => (outcome, message),
        other => panic!("{other:?} answers a Put"),
    }
}

fn bytes<const N: usize>(elements: &[[u8; N]]) -> Vec<u8> {
    elements.concat()
}

#[test]
fn records_of_every_kind_show_value_alarm_time_and_metadata() {
    let (network, prefix) = (Network::new(), prefix());
    let ioc = SoftIoc::with_pv_access(network, &prefix, DATABASE);
    let relay = Relay::start(network, &["--default-source", "pva"]);
    let mut client = Client::connect(relay.address());
    let integer = |integer: i64| Kept::Array(ValueType::Int64, integer.to_le_bytes().to_vec());
    let shorts = bytes(&[1_i16, -2, 3].map(i16::to_le_bytes));
    let cases = [
        ("ai", ValueType::Float64, Kept::Number(21.5)),
        ("large", ValueType::Int64, integer(9_007_199_254_740_993)),
        ("small", ValueType::Int64, Kept::Number(-7.0)),
        ("mode", ValueType::Enum, Kept::Number(1.0)),
        ("text", ValueType::String, Kept::text("[x] y")),
        ("long", ValueType::String, Kept::text("")),
        (
            "shorts",
            ValueType::Int16,
            Kept::Array(ValueType::Int16, shorts),
        ),
        (
            "strings",
            ValueType::String,
            Kept::Texts(vec!["a".into(), String::new()]),
        ),
        (
            "empty",
            ValueType::Float64,
            Kept::Array(ValueType::Float64, Vec::new()),
        ),
        ("wide", ValueType::Int64, integer(9_007_199_254_740_993)),
    ];
    let names: Vec<_> = cases.iter().map(|(record, ..)| ioc.name(record)).collect();
    client.subscribe_live(&names);
    for ((record, value_type, value), name) in cases.iter().zip(&names) {
        client.wait_pv(name, record, |pv| pv.is(value));
        let pv = client.pv(name);
        assert_eq!(
            pv.metadata.as_ref().unwrap().value_type,
            *value_type,
            "{record}"
        );
        assert_eq!(pv.state(), ConnectionState::Connected);
    }
    let ai = client.pv(&names[0]);
    let metadata = ai.metadata.as_ref().unwrap();
    assert_eq!(metadata.units, "mm");
    assert_eq!(metadata.precision, Some(2));
    assert_eq!(metadata.description, "Gap of the undulator");
    assert_eq!(metadata.form, "Exponential");
    assert_eq!(metadata.type_id, "epics:nt/NTScalar:1.0");
    assert_eq!((metadata.display.low, metadata.display.high), (0.0, 100.0));
    assert_eq!(metadata.alarm.high, 80.0);
    let mode = client.pv(&names[3]);
    let choices = &mode.metadata.as_ref().unwrap().choices;
    assert_eq!(choices[..], ["off", "on", "stand by"]);
}

#[test]
fn changes_arrive_and_an_ioc_that_comes_back_is_right() {
    let (network, prefix) = (Network::new(), prefix());
    let mut ioc = SoftIoc::with_pv_access(network, &prefix, DATABASE);
    let relay = Relay::start(network, &[]);
    let mut client = Client::connect(relay.address());
    let [ai, mode] = ["ai", "mode"].map(|record| format!("pva://{}", ioc.name(record)));
    client.subscribe_live(&[&ai, &mode]);
    ioc.put("ai", "90");
    client.wait_number(&ai, 90.0);
    let alarm = client.pv(&ai).now.as_ref().unwrap().alarm;
    // The number that Channel Access has for HIHI.
    assert_eq!((alarm.severity, alarm.status), (Severity::Major, 3));
    ioc.put("ai.EGU", "um");
    client.wait_pv(&ai, "its new unit", |pv| {
        pv.metadata.as_ref().unwrap().units == "um"
    });
    ioc.put("mode.ONST", "ready");
    client.wait_pv(&mode, "its new label", |pv| {
        pv.metadata.as_ref().unwrap().choices[1] == "ready"
    });

    ioc.kill();
    client.wait_state(&ai, ConnectionState::Disconnected);
    assert!(client.pv(&ai).is_number(90.0), "the last value is kept");
    let retyped = r#"
        record(waveform, "$(P)ai") { field(FTVL, "DOUBLE") field(NELM, "3") field(INP, [1.5]) }
        record(mbbo, "$(P)mode") { field(ZRST, "none") field(VAL, "0") field(PINI, "YES") }
    "#;
    let _ioc = SoftIoc::with_pv_access(network, &prefix, retyped);
    let array = Kept::Array(ValueType::Float64, 1.5_f64.to_le_bytes().to_vec());
    client.wait_pv(&ai, "the array that it is now", |pv| pv.is(&array));
    client.wait_pv(&mode, "its labels of now", |pv| {
        pv.is_number(0.0) && pv.metadata.as_ref().unwrap().choices == ["none"]
    });
}

#[test]
fn puts_are_written_exactly_or_refused_with_the_reason() {
    let (network, prefix) = (Network::new(), prefix());
    let ioc = SoftIoc::with_pv_access(network, &prefix, DATABASE);
    let relay = Relay::start(network, &ALL);
    let mut client = Client::connect(relay.address());
    let records = ["ai", "large", "mode", "text", "shorts", "disp"];
    let names = records.map(|record| format!("pva://{}", ioc.name(record)));
    client.subscribe_live(&names);
    let [ai, large, mode, text, shorts, disp] = names.each_ref().map(String::as_str);
    let done = (Outcome::Done, String::new());
    let words = |text: &str| PutValue::Text(text.to_owned());

    assert_eq!(put(&mut client, ai, PutValue::Number(1.25)), done);
    client.wait_number(ai, 1.25);
    let exact = PutValue::Int64(9_007_199_254_740_995);
    assert_eq!(put(&mut client, large, exact), done);
    let seen = Kept::Array(
        ValueType::Int64,
        9_007_199_254_740_995_i64.to_le_bytes().to_vec(),
    );
    client.wait_pv(large, "the exact integer", |pv| pv.is(&seen));
    assert_eq!(put(&mut client, mode, words("stand by")), done);
    client.wait_number(mode, 2.0);
    for odd in ["", "{x}", "[x] y"] {
        assert_eq!(put(&mut client, text, words(odd)), done);
        client.wait_pv(text, odd, |pv| pv.is(&Kept::text(odd)));
    }
    let array = PutValue::Array(Array {
        value_type: ValueType::Float64,
        count: 2,
        data: bytes(&[4.0_f64, 5.0].map(f64::to_le_bytes)).into(),
    });
    assert_eq!(put(&mut client, shorts, array), done);
    let seen = Kept::Array(ValueType::Int16, bytes(&[4_i16, 5].map(i16::to_le_bytes)));
    client.wait_pv(shorts, "the new array", |pv| pv.is(&seen));

    let (outcome, why) = put(&mut client, ai, words("abc"));
    assert_eq!(outcome, Outcome::BadValue, "{why}");
    let (outcome, why) = put(&mut client, mode, words("Nope"));
    assert_eq!(outcome, Outcome::BadValue, "{why}");
    assert!(why.contains("stand by"), "{why}");
    let (outcome, why) = put(&mut client, mode, PutValue::Number(9.0));
    assert_eq!(outcome, Outcome::BadValue, "{why}");
    let (outcome, why) = put(&mut client, disp, PutValue::Number(5.0));
    assert_eq!(outcome, Outcome::Failed, "{why}");
    assert_eq!(client.pv(disp).numbers(), [1.0]);
}

#[test]
fn fields_of_a_structure_are_pvs_and_share_its_one_monitor() {
    let (network, prefix) = (Network::new(), prefix());
    let mut ioc = SoftIoc::with_pv_access(network, &prefix, DATABASE);
    let relay = Relay::start(network, &[]);
    let mut client = Client::connect(relay.address());
    let group = format!("pva://{}", ioc.name("group"));
    let [x, y] = ["x", "inner/y"].map(|path| format!("{group}/{path}"));
    client.subscribe_live(&[&group]);
    let kept = client.pv(&group).now.clone().unwrap().value;
    let Kept::Structure(root) = kept else {
        panic!("{kept:?} is no structure")
    };
    assert_eq!(root.type_id, "site:position:1.0");
    client.subscribe_live(&[&x, &y]);
    client.wait_number(&y, 7.0);
    client.wait_number(&x, 1.5);
    ioc.put("x", "2.5");
    client.wait_number(&x, 2.5);
    client.wait_pv(&group, "the new field", |pv| {
        pv.now.as_ref().is_some_and(|now| {
            matches!(&now.value, Kept::Structure(root) if format!("{root:?}").contains("2.5"))
        })
    });
}

#[test]
fn updates_squashed_by_the_server_are_counted_as_far_as_known() {
    let network = Network::with_searches_by_udp();
    let database = r#"record(ao, "$(P)n") { field(VAL, "0") field(PINI, "YES") }"#;
    let mut ioc = SoftIoc::with_pv_access_of_base(network, database);
    let relay = Relay::start(network, &["--default-source", "pva"]);
    let name = ioc.name("n");
    let mut client = Client::connect(relay.address());
    client.subscribe_live(&[&name]);
    // The server may keep up with a burst.
    let mut bursts = 0_u32;
    while client.pv(&name).skipped == 0 {
        bursts += 1;
        assert!(bursts < 100, "the server puts nothing into anything");
        ioc.run(&format!(
            "for i in range(2000): ioc('dbpf %sn %d' % (P, {bursts} * 2000 + i))"
        ));
        client.wait_number(&name, f64::from(bursts * 2000 + 1999));
    }
    let pv = client.pv(&name);
    let source = pv.skipped_by(SkipCause::Source);
    let came = pv.rows.len() as u64 - 1;
    // One for each update that others were put into, however many: the wire has a bit and no
    // number.
    assert!(
        came + source <= 2000 * u64::from(bursts),
        "{came} came, {source} skipped"
    );
    assert_eq!(pv.skipped, source);
    let counter = "pvwire_updates_skipped_total{cause=\"source\"}";
    relay.wait_metric(counter, source as f64);
}
