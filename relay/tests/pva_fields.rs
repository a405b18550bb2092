//! A field of a pvAccess structure is a PV with its own type, alarm, time and reason; the relay
//! adds nothing that the server doesn't send.
//!
//! Topology: one relay that takes puts, one or two clients, a p4p server of structures or a soft
//! IOC with pvAccess.

use pvwire_schema::types::{
    Alarm, ConnectionState, NameProblem, Outcome, PutRequest, PutValue, Reply, RequestBody,
    Severity, ValueType,
};

use testbed::{Client, Kept, Network, Pv, Relay, SoftIoc, StructureServer, prefix};

const PUTS: [&str; 3] = ["--enable-put", "--allow-put=*", "--default-source=pva"];

fn put(client: &mut Client, name: &str, value: PutValue) -> (Outcome, String) {
    put_within(client, name, value, 20_000)
}

fn put_within(
    client: &mut Client,
    name: &str,
    value: PutValue,
    timeout_ms: u32,
) -> (Outcome, String) {
    let body = RequestBody::Put(PutRequest {
        name: name.to_owned(),
        value,
        wait: false,
        timeout_ms,
        expected: None,
    });
    match client.ask(body).0 {
        Reply::PutDone { outcome, message } => (outcome, message),
        other => panic!("{other:?} answers a Put"),
    }
}

fn alarm(severity: Severity, status: u16) -> Alarm {
    Alarm { severity, status }
}

#[test]
fn new_fields_of_a_structure_repeat_no_update_of_the_others() {
    let (network, prefix) = (Network::new(), prefix());
    let _server = StructureServer::start(Some(network), &prefix);
    let relay = Relay::start(network, &["--default-source=pva"]);
    let mut client = Client::connect(relay.address());
    let name = |field: &str| format!("{prefix}site{field}");
    let (gap, whole) = (name("/gap/value"), name(""));
    assert_eq!(client.subscribe(&[&gap, &whole]), []);
    client.wait_number(&gap, 2.5);
    client.wait_pv(&whole, "its structure", |pv| pv.now.is_some());
    let mut other = Client::connect(relay.address());
    for number in 0..10 {
        // Some of these are no fields.
        let fields = ["/gap/offset", "/gap/alarm/severity", "/none"].map(&name);
        let one = format!("{}/{number}", fields[2]);
        let [offset, severity, _] = &fields;
        for field in [offset, severity, &one] {
            assert_eq!(other.subscribe(&[field]), []);
        }
        other.wait_pv(offset, "its value", |pv| pv.now.is_some());
        other.wait_pv(&one, "its reason", |pv| {
            pv.connection
                .is_some_and(|connection| connection.state != ConnectionState::Connected)
        });
        other.unsubscribe(&[offset, severity, &one]);
    }
    assert_eq!(client.get(&[&gap], 20_000).1, []);
    assert_eq!(client.pv(&gap).numbers(), [2.5]);
    assert_eq!(client.pv(&whole).rows.len(), 1, "of the whole structure");
    client.wait_state(&gap, ConnectionState::Connected);
}

#[test]
fn field_of_a_structure_has_its_own_type_units_alarm_and_time() {
    let (network, prefix) = (Network::new(), prefix());
    let _server = StructureServer::start(Some(network), &prefix);
    let relay = Relay::start(network, &["--default-source=pva"]);
    let mut client = Client::connect(relay.address());
    let site = format!("{prefix}site");
    let own = (alarm(Severity::Major, 3), 1_700_000_001_000_000_005);
    let around = (alarm(Severity::NoAlarm, 0), 1_700_000_000_000_000_007);
    let fields = [
        ("gap/value", ValueType::Float64, Kept::Number(2.5), own),
        (
            "gap/offset",
            ValueType::Float32,
            Kept::Number(f64::from(0.1_f32)),
            own,
        ),
        (
            "gap/alarm/message",
            ValueType::String,
            Kept::text("HIHI"),
            own,
        ),
        (
            "gap/alarm/severity",
            ValueType::Int32,
            Kept::Number(2.0),
            own,
        ),
        (
            "gap/timeStamp/userTag",
            ValueType::Int32,
            Kept::Number(9.0),
            own,
        ),
        (
            "current",
            ValueType::Int32,
            Kept::Number(300.0),
            (alarm(Severity::Minor, 102), around.1),
        ),
        ("mode", ValueType::Enum, Kept::Number(1.0), around),
        ("mode/index", ValueType::Int32, Kept::Number(1.0), around),
        (
            "mode/choices",
            ValueType::String,
            Kept::Texts(vec!["off".into(), "on".into()]),
            around,
        ),
        ("either", ValueType::Float64, Kept::Number(2.5), around),
        (
            "either/number",
            ValueType::Float64,
            Kept::Number(2.5),
            around,
        ),
        ("points/1/x", ValueType::Float64, Kept::Number(3.0), around),
        ("flag", ValueType::Boolean, Kept::Number(1.0), around),
        (
            "long",
            ValueType::Int64,
            Kept::Array(
                ValueType::Int64,
                9_007_199_254_740_993_i64.to_le_bytes().to_vec(),
            ),
            around,
        ),
        ("label", ValueType::String, Kept::text("ready"), around),
        (
            "levels",
            ValueType::Float64,
            Kept::Array(
                ValueType::Float64,
                [0.5_f64, 1.5].map(f64::to_le_bytes).concat(),
            ),
            around,
        ),
    ];
    let names = fields.each_ref().map(|field| format!("{site}/{}", field.0));
    client.subscribe_live(&names);
    for ((path, value_type, value, (alarm, time_ns)), name) in fields.iter().zip(&names) {
        let pv = client.pv(name);
        let now = pv.now.as_ref().unwrap();
        assert_eq!(now.value, *value, "{path}");
        assert_eq!((now.alarm, now.time_ns), (*alarm, *time_ns), "{path}");
        let metadata = pv.metadata.as_ref().unwrap();
        assert_eq!(metadata.value_type, *value_type, "{path}");
        let is_array = ["mode/choices", "levels"].contains(path);
        assert_eq!(metadata.element_count, u32::from(!is_array), "{path}");
        let (units, precision) = match *path {
            "gap/value" => ("mm", Some(3)),
            _ => ("", None),
        };
        assert_eq!(metadata.units, units, "{path}");
        assert_eq!(metadata.precision, precision, "{path}");
    }
    let mode = client.pv(&names[6]).metadata.as_ref().unwrap();
    assert_eq!(mode.choices, ["off", "on"]);
    let whole = format!("{site}/points");
    client.subscribe_live(&[&whole]);
    let metadata = client.pv(&whole).metadata.as_ref().unwrap();
    assert_eq!(
        (metadata.value_type, metadata.element_count),
        (ValueType::Structure, 0)
    );
    let connection = client.pv(&whole).connection.unwrap();
    assert!(
        !connection.write && !connection.write_unknown,
        "pvAccess can't"
    );
}

#[test]
fn field_that_is_not_there_says_so_again_after_a_restart_of_its_server() {
    let (network, prefix) = (Network::new(), prefix());
    let mut server = StructureServer::start(Some(network), &prefix);
    let relay = Relay::start(network, &PUTS);
    let mut client = Client::connect(relay.address());
    let [typo, gap] = ["gpa", "gap/value"].map(|path| format!("{prefix}site/{path}"));
    assert_eq!(client.subscribe(&[&typo, &gap]), []);
    for _ in 0..2 {
        client.wait_number(&gap, 2.5);
        client.wait_pv(&typo, "not found, and why", |pv| {
            let metadata = pv.metadata.as_ref();
            pv.state() == ConnectionState::NotFound
                && metadata.is_some_and(|it| it.missing_field.contains("no field \"gpa\""))
        });
        drop(server);
        for name in [&typo, &gap] {
            client.wait_state(name, ConnectionState::Disconnected);
        }
        server = StructureServer::start(Some(network), &prefix);
    }
}

#[test]
fn field_that_is_not_there_says_which_fields_there_are() {
    let (network, prefix) = (Network::new(), prefix());
    let _server = StructureServer::start(Some(network), &prefix);
    let relay = Relay::start(network, &PUTS);
    let mut client = Client::connect(relay.address());
    let site = format!("{prefix}site");
    let [typo, deep, text] = ["gpa", "gap/x", "either/text"].map(|path| format!("{site}/{path}"));
    assert_eq!(client.subscribe(&[&typo, &deep, &text]), []);
    let reason = |pv: &Pv| {
        let metadata = pv.metadata.as_ref();
        metadata.map_or_else(String::new, |metadata| metadata.missing_field.clone())
    };
    let is_missing = |pv: &Pv| pv.state() == ConnectionState::NotFound && !reason(pv).is_empty();
    let why = |client: &Client, name: &str| reason(client.pv(name));
    for name in [&typo, &deep, &text] {
        client.wait_pv(name, "not found", is_missing);
    }
    assert_eq!(
        why(&client, &typo),
        "the structure has no field \"gpa\"; it has: gap, current, mode, either, points, flag, long, \
         label, levels, alarm, timeStamp"
    );
    assert_eq!(
        why(&client, &deep),
        "\"gap\" has no field \"x\"; it has: value, offset, alarm, timeStamp, display"
    );
    let get = RequestBody::Get {
        names: vec![typo.clone()],
        timeout_ms: 20_000,
        description: false,
    };
    match client.ask(get).0 {
        Reply::Got { errors, .. } => {
            assert_eq!(errors[0].problem, NameProblem::NoSuchField);
            assert_eq!(errors[0].message, why(&client, &typo));
        }
        other => panic!("{other:?} answers a Get"),
    }
    let (outcome, refused) = put(&mut client, &typo, PutValue::Number(1.0));
    assert_eq!((outcome, refused), (Outcome::BadName, why(&client, &typo)));

    // One of a union comes when it is selected, and goes with it.
    let number = format!("{site}/either/number");
    client.subscribe_live(&[&number]);
    put(&mut client, &format!("{prefix}step"), PutValue::Number(1.0));
    client.wait_pv(&text, "the text", |pv| pv.is(&Kept::text("now")));
    client.wait_state(&text, ConnectionState::Connected);
    client.wait_pv(&number, "not found", is_missing);
    assert_eq!(
        why(&client, &number),
        "\"either\" is a union that holds \"text\", not \"number\""
    );
}

#[test]
fn parts_of_a_plain_record_are_pvs_beside_it() {
    let network = Network::new();
    let database = r#"
        record(ai, "$(P)ai") {
            field(VAL, "90") field(HIHI, "80") field(HHSV, "MAJOR") field(PINI, "YES")
            field(EGU, "mm") field(PREC, "2")
        }
        record(mbbo, "$(P)mode") { field(ZRST, "off") field(ONST, "on") field(VAL, "1") field(PINI, "YES") }
    "#;
    let mut ioc = SoftIoc::with_pv_access(network, &prefix(), database);
    let relay = Relay::start(network, &[]);
    let mut client = Client::connect(relay.address());
    let [ai, mode] = ["ai", "mode"].map(|record| format!("pva://{}", ioc.name(record)));
    let of = |record: &str, path: &str| format!("{record}/{path}");
    let message = of(&ai, "alarm/message");
    let tag = of(&ai, "timeStamp/userTag");
    let (value, index) = (of(&ai, "value"), of(&mode, "value/index"));
    client.subscribe_live(&[&ai, &mode]);
    client.subscribe_live(&[&message, &tag, &value, &index]);
    client.wait_pv(&message, "its alarm", |pv| pv.is(&Kept::text("HIHI")));
    client.wait_number(&tag, 0.0);
    client.wait_number(&index, 1.0);
    client.wait_number(&value, 90.0);
    for name in [&ai, &value, &message, &tag] {
        client.wait_state(name, ConnectionState::Connected);
        client.wait_pv(name, "its severity", |pv| {
            let now = pv.now.as_ref();
            now.is_some_and(|now| now.alarm.severity == Severity::Major)
        });
    }
    ioc.put("ai", "3.25");
    ioc.put("mode", "0");
    client.wait_number(&ai, 3.25);
    client.wait_number(&value, 3.25);
    client.wait_number(&mode, 0.0);
    client.wait_number(&index, 0.0);
    client.wait_pv(&message, "no alarm", |pv| {
        let calm = alarm(Severity::NoAlarm, 0);
        let now = pv.now.as_ref();
        !pv.is(&Kept::text("HIHI")) && now.is_some_and(|now| now.alarm == calm)
    });
    let metadata = client.pv(&ai).metadata.as_ref().unwrap();
    assert_eq!(
        (metadata.value_type, metadata.units.as_str()),
        (ValueType::Float64, "mm")
    );
    let mode = client.pv(&mode).metadata.as_ref().unwrap();
    assert_eq!((mode.value_type, mode.choices.len()), (ValueType::Enum, 2));
}

#[test]
fn scalar_field_is_put_and_no_other_one_is_said_to_be() {
    let (network, prefix) = (Network::new(), prefix());
    let _server = StructureServer::start(Some(network), &prefix);
    let relay = Relay::start(network, &PUTS);
    let mut client = Client::connect(relay.address());
    let site = format!("{prefix}site");
    let of = |path: &str| format!("{site}/{path}");
    let paths = [
        "gap/offset",
        "gap",
        "label",
        "mode",
        "flag",
        "levels",
        "points/0/x",
    ]
    .map(of);
    client.subscribe_live(&paths);
    let [offset, gap, label, mode, flag, levels, x] = paths.each_ref().map(String::as_str);
    let done = (Outcome::Done, String::new());
    let words = |text: &str| PutValue::Text(text.to_owned());

    assert_eq!(put(&mut client, offset, PutValue::Number(0.25)), done);
    client.wait_number(offset, 0.25);
    assert_eq!(put(&mut client, label, words("gone")), done);
    client.wait_pv(label, "the new text", |pv| pv.is(&Kept::text("gone")));
    assert_eq!(put(&mut client, mode, words("off")), done);
    client.wait_number(mode, 0.0);
    assert_eq!(put(&mut client, flag, words("false")), done);
    client.wait_number(flag, 0.0);
    assert_eq!(put(&mut client, levels, PutValue::Number(7.5)), done);
    let seen = Kept::Array(ValueType::Float64, 7.5_f64.to_le_bytes().to_vec());
    client.wait_pv(levels, "its one element", |pv| pv.is(&seen));
    let (outcome, why) = put(&mut client, label, PutValue::Number(1.0));
    assert_eq!((outcome, why.as_str()), (Outcome::Done, ""), "its text");
    let (outcome, why) = put(&mut client, offset, words("abc"));
    assert_eq!(outcome, Outcome::BadValue, "{why}");
    for whole in [gap, x] {
        let (outcome, why) = put(&mut client, whole, PutValue::Number(1.0));
        assert_eq!(outcome, Outcome::NotSupported, "{why}");
    }

    // This server says that a put is done, and does nothing.
    let deaf = format!("{prefix}deaf/gap/offset");
    let (outcome, why) = put(&mut client, &deaf, PutValue::Number(9.0));
    assert_eq!(outcome, Outcome::Done, "{why}");
    assert!(why.starts_with("the PV now holds 0.1"), "{why}");
}

#[test]
fn server_without_time_stamp_alarm_or_precision_claims_none() {
    let (network, prefix) = (Network::new(), prefix());
    let _server = StructureServer::start(Some(network), &prefix);
    let relay = Relay::start(network, &["--default-source=pva"]);
    let mut client = Client::connect(relay.address());
    let names = [
        "bare",
        "scalars",
        "no_precision",
        "precision_0",
        "float64:scalar",
    ];
    let names = names.map(|name| format!("{prefix}{name}"));
    client.subscribe_live(&names);
    let [bare, scalars, unset, zero, plain] = names.each_ref().map(String::as_str);
    for name in [bare, scalars] {
        let now = client.pv(name).now.as_ref().unwrap();
        assert_eq!((now.alarm, now.time_ns), (Alarm::NONE, 0), "{name}");
    }
    let now = client.pv(plain).now.as_ref().unwrap();
    assert_eq!(now.alarm.severity, Severity::Major);
    assert_eq!(now.time_ns, 1_700_000_000_000_000_000);
    let precision = |name: &str| client.pv(name).metadata.as_ref().unwrap().precision;
    assert_eq!([bare, unset, plain].map(precision), [None; 3]);
    assert_eq!(precision(zero), Some(0));
    assert!(client.pv(unset).is_number(0.1));
}

#[test]
fn put_to_a_name_that_no_server_has_was_certainly_not_written() {
    let network = Network::new();
    let relay = Relay::start(network, &PUTS);
    let mut client = Client::connect(relay.address());
    let name = format!("{}absent", prefix());
    for path in ["", "/value", "/a/b"] {
        let name = format!("{name}{path}");
        let (outcome, why) = put_within(&mut client, &name, PutValue::Number(1.0), 300);
        assert_eq!(outcome, Outcome::NotConnected, "{why}");
        assert!(why.contains("nothing was"), "{why}");
    }
    let call = RequestBody::Rpc {
        name: name.clone(),
        arguments: Vec::new(),
        timeout_ms: 300,
    };
    match client.ask(call).0 {
        Reply::RpcDone { outcome, message } => {
            assert_eq!(outcome, Outcome::NotConnected, "{message}");
            assert!(message.contains("nothing was"), "{message}");
        }
        other => panic!("{other:?} answers an Rpc"),
    }
}

#[test]
fn refused_put_locks_the_set_point_for_no_client() {
    let (network, prefix) = (Network::new(), prefix());
    let database = r#"
        record(ao, "$(P)open") { field(VAL, "1") field(PINI, "YES") }
        record(ao, "$(P)gated") { field(VAL, "1") field(PINI, "YES") field(ASG, "GATED") }
        record(ao, "$(P)gate") { field(VAL, "0") field(PINI, "YES") }
    "#;
    let rules = format!(
        "ASG(DEFAULT) {{ RULE(1, WRITE) }}
         ASG(GATED) {{
            INPA(\"{prefix}gate\")
            RULE(1, READ)
            RULE(1, WRITE) {{ CALC(\"A>=1\") }}
         }}"
    );
    let mut ioc = SoftIoc::with_prefix_and_pv_access(network, &prefix, database, &rules);
    let relay = Relay::start(network, &PUTS);
    let [mut client, mut other] = [(); 2].map(|()| Client::connect(relay.address()));
    let names = ioc.names(["open", "gated"]);
    let rights = |pv: &Pv| {
        let connection = pv.connection.unwrap();
        (connection.write, connection.write_unknown)
    };
    let unknown = (true, true);
    for client in [&mut client, &mut other] {
        client.subscribe_live(&names);
        assert!(names.iter().all(|name| rights(client.pv(name)) == unknown));
    }
    let [open, gated] = names.each_ref().map(String::as_str);
    assert_eq!(
        put(&mut client, open, PutValue::Number(2.0)).0,
        Outcome::Done
    );
    client.wait_pv(open, "that it may be written", |pv| {
        rights(pv) == (true, false)
    });

    for round in 0..2 {
        let (outcome, why) = put(&mut client, gated, PutValue::Number(2.0));
        assert_eq!(outcome, Outcome::NoAccess, "{why}");
        // The next update comes after whatever the refusal has changed.
        ioc.put("open", &format!("{}", 10 + round));
        let newest = f64::from(10 + round);
        for client in [&mut client, &mut other] {
            client.wait_pv(open, "its next value", |pv| pv.is_number(newest));
            assert_eq!(rights(client.pv(gated)), unknown, "no client is locked out");
        }
        let mut late = Client::connect(relay.address());
        late.subscribe_live(&[gated]);
        assert_eq!(rights(late.pv(gated)), unknown, "nor is a new one");

        ioc.put("gate", "1");
        ioc.settle();
        testbed::eventually("the put is accepted", || {
            put(&mut other, gated, PutValue::Number(2.0)).0 == Outcome::Done
        });
        client.wait_pv(gated, "that it may be written", |pv| {
            rights(pv) == (true, false)
        });
        ioc.put("gate", "0");
        testbed::eventually("the rule has changed", || {
            put(&mut other, gated, PutValue::Number(3.0)).0 == Outcome::NoAccess
        });
        client.wait_pv(gated, "that it isn't known any more", |pv| {
            rights(pv) == unknown
        });
    }
}
