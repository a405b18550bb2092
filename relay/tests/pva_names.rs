//! PVs that names lead to in several ways: scalars inside a group, names with a slash, and names with brackets outside of
//! filters, as at NSLS-II.

use pvwire_schema::types::{
    Array, ConnectionState, NameProblem, Outcome, PutValue, Reply, RequestBody, ValueType,
};
use serde_json::Value;
use testbed::{Client, Kept, Network, Relay, SoftIoc, get, prefix};

const GROUP: &str = r#"
    record(ao, "$(P)number") { field(VAL, "1.5") field(PINI, "YES") info(Q:group, {
        "$(P)group": { "number": { "+channel": "VAL", "+type": "scalar", "+putorder": 1, "+trigger": "*" } }
    }) }
    record(mbbo, "$(P)mode") {
        field(ZRST, "off") field(ONST, "on") field(VAL, "0") field(PINI, "YES") info(Q:group, {
        "$(P)group": { "mode": { "+channel": "VAL", "+type": "scalar", "+putorder": 2, "+trigger": "*" } }
    }) }
    record(waveform, "$(P)wave") { field(FTVL, "DOUBLE") field(NELM, "4") field(INP, [1]) field(PINI, "YES")
        info(Q:group, {
        "$(P)group": { "wave": { "+channel": "VAL", "+type": "scalar", "+putorder": 3, "+trigger": "*" } }
    }) }
    record(stringout, "$(P)text") { field(VAL, "one") field(PINI, "YES") info(Q:group, {
        "$(P)group": { "text": { "+channel": "VAL", "+type": "scalar", "+putorder": 4, "+trigger": "*" } }
    }) }
"#;

#[test]
fn scalar_inside_a_group_is_written_by_its_own_name_and_by_that_of_its_value() {
    let start: [fn(Network, &str) -> SoftIoc; 2] = [
        |network, database| SoftIoc::with_pv_access(network, &testbed::prefix(), database),
        SoftIoc::with_pv_access_of_base,
    ];
    for start in start {
        let network = Network::with_searches_by_udp();
        let ioc = start(network, GROUP);
        let relay = Relay::start(network, &["--enable-put", "--allow-put=*"]);
        let mut client = Client::connect(relay.address());
        let group = format!("pva://{}", ioc.name("group"));
        let [number, mode, wave, text] =
            ["number", "mode", "wave", "text"].map(|field| format!("{group}/{field}"));
        client.subscribe_live(&[&number, &mode, &wave, &text]);
        assert!(client.pv(&number).connection.unwrap().write);

        let mut put = |name: &str, value: PutValue| {
            let (outcome, why) = client.put(name, value);
            assert_eq!(outcome, Outcome::Done, "{name}: {why}");
        };
        put(&number, PutValue::Number(2.5));
        put(&mode, PutValue::Text("on".into()));
        let elements: Vec<u8> = [3.0_f64, 4.0]
            .iter()
            .flat_map(|x| x.to_le_bytes())
            .collect();
        let array = Array {
            value_type: ValueType::Float64,
            count: 2,
            data: elements.clone().into(),
        };
        put(&wave, PutValue::Array(array));
        put(&text, PutValue::Text("two".into()));
        client.wait_number(&number, 2.5);
        client.wait_number(&mode, 1.0);
        let elements = Kept::Array(ValueType::Float64, elements);
        client.wait_pv(&wave, "both elements", |pv| pv.is(&elements));
        client.wait_pv(&text, "its text", |pv| pv.is(&Kept::text("two")));

        let value = format!("{number}/value");
        let (outcome, why) = client.put(&value, PutValue::Number(3.5));
        assert_eq!(outcome, Outcome::Done, "{why}");
        client.wait_number(&number, 3.5);
        let (outcome, why) = client.put(&mode, PutValue::Text("neither".into()));
        assert_eq!(outcome, Outcome::BadValue, "{why}");
        let (outcome, why) = client.put(&group, PutValue::Number(1.0));
        assert_ne!(
            outcome,
            Outcome::Done,
            "a group has no value of its own: {why}"
        );
    }
}

/// The JSON at a path.
fn json(relay: &Relay, path: &str) -> Value {
    let answer = get(relay.address(), path, &[]);
    assert_eq!(answer.status, 200, "{path}: {}", answer.body);
    serde_json::from_str(&answer.body).unwrap()
}

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

#[test]
fn pv_with_a_slash_in_its_name_is_reached_by_an_escape_in_every_protocol() {
    let (network, prefix) = (Network::new(), testbed::prefix());
    let database = r#"
        record(ao, "$(P)SR/BPM") { field(VAL, "1.5") field(PINI, "YES") }
        record(ao, "$(P)SR/LOCKED") { field(VAL, "2.5") field(PINI, "YES") }
        record(ao, "$(P)SR/HIDDEN") { field(VAL, "3.5") field(PINI, "YES") }
        record(ao, "$(P)SR") { field(VAL, "4.5") field(PINI, "YES") }
    "#;
    let _ioc = SoftIoc::with_pv_access(network, &prefix, database);
    let rules = format!(
        "[[rule]]\npv = \"{prefix}SR/HIDDEN\"\ndeny = [\"read\"]\n\
         [[rule]]\npv = \"pva://{prefix}SR%2FLOCKED\"\ndeny = [\"put\"]\n\
         [[rule]]\npv = \"{prefix}SR/*\"\nallow = [\"put\"]\n"
    );
    let file = testbed::file(
        &format!("{}rules.toml", prefix.trim_end_matches(':')),
        &rules,
    );
    let config = format!("--config={}", file.display());
    let relay = Relay::start(network, &["--enable-put", "--pvws", "--coniql", &config]);
    let mut client = Client::connect(relay.address());
    let [bpm, locked, hidden, whole] = ["SR%2FBPM", "SR%2fLOCKED", "SR%2FHIDDEN", "SR"]
        .map(|name| format!("pva://{prefix}{name}"));

    // As a PV, and its fields.
    let severity = format!("{bpm}/alarm/severity");
    client.subscribe_live(&[&bpm, &locked, &severity, &whole]);
    assert!(client.pv(&bpm).is_number(1.5));
    assert!(client.pv(&whole).is_number(4.5), "a name without a slash");
    let (outcome, why) = client.put(&bpm, PutValue::Number(6.5));
    assert_eq!(outcome, Outcome::Done, "{why}");
    client.wait_number(&bpm, 6.5);
    let field = format!("pva://{prefix}SR/BPM");
    assert_eq!(client.subscribe(&[&field]), []);
    client.wait_pv(&field, "that SR has no such field", |pv| {
        pv.state() == ConnectionState::NotFound
    });

    // Rules know it with and without the escape.
    let (outcome, why) = client.put(&locked, PutValue::Number(6.5));
    assert_eq!(outcome, Outcome::NotAllowed, "{why}");
    let names = vec![hidden.clone()];
    let request = RequestBody::Get {
        names,
        timeout_ms: 20_000,
        description: false,
    };
    match client.ask(request).0 {
        Reply::Got { errors, .. } => assert_eq!(errors[0].problem, NameProblem::NotAllowed),
        other => panic!("{other:?}"),
    }

    // Scripts and the doors.
    let path = format!("/pv/pva://{prefix}SR%252FBPM");
    let channel = json(&relay, &path);
    assert_eq!(channel["value"]["number"], 6.5, "{channel}");
    let query = format!("{{getChannel(id:\"{bpm}\"){{id,value{{float}}}}}}");
    let answer = json(&relay, &format!("/ws?query={}", encoded(&query)));
    let channel = &answer["data"]["getChannel"];
    assert_eq!(channel["value"]["float"], 6.5, "{answer}");
    assert_eq!(channel["id"], *bpm);
    for spelled in [&*bpm, &format!("pva://{prefix}SR/BPM?request=field()")] {
        let answer = json(&relay, &format!("/pvws/pvget?name={}", encoded(spelled)));
        assert_eq!(answer["value"], 6.5, "{answer}");
    }
}

const DATABASE: &str = r#"
    record(lso, "$(P){L}lso") { field(SIZV, "200") field(DESC, "what it says") }
    record(lsi, "$(P)[1]lsi") { field(SIZV, "200") }
    record(lso, "$(P)end{L}") { field(SIZV, "200") }
    record(lso, "$(P)end[2]") { field(SIZV, "200") }
    record(waveform, "$(P)MG{PS:1}Text-I") {
        field(FTVL, "CHAR") field(NELM, "100") field(DESC, "a text") info(Q:form, "String")
    }
    record(int64out, "$(P){PS}Count-SP") {}
    record(ai, "$(P)MG{PS:1}I-I") { field(DESC, "the current") field(VAL, "1") field(PINI, "YES") }
"#;

#[test]
fn names_with_brackets_have_long_texts_forms_descriptions_and_puts() {
    let network = Network::new();
    let prefix = prefix();
    let mut ioc = SoftIoc::with_pv_access(network, &prefix, DATABASE);
    let relay = Relay::start(network, &["--enable-put", "--allow-put=*"]);
    let mut client = Client::connect(relay.address());
    let names = ioc.names([
        "{L}lso",
        "[1]lsi",
        "end{L}",
        "end[2]",
        "MG{PS:1}Text-I",
        "MG{PS:1}I-I",
        "{PS}Count-SP",
    ]);
    let [lso, lsi, end, bracket, chars, number, count] = names.each_ref().map(String::as_str);
    client.subscribe_live(&names);
    client.describe(&names);
    let long = "an IOC would cut this text at its thirty-ninth byte, as it is longer";
    for name in [lso, end, bracket] {
        let done = client.put(name, PutValue::Text(long.to_owned()));
        assert_eq!(done, (Outcome::Done, String::new()), "{name}");
        client.wait_pv(name, "the whole text", |pv| pv.is(&Kept::text(long)));
    }
    ioc.put("[1]lsi.VAL$", long);
    client.wait_pv(lsi, "the whole text", |pv| pv.is(&Kept::text(long)));
    for (name, description) in [
        (lso, "what it says"),
        (chars, "a text"),
        (number, "the current"),
    ] {
        client.wait_pv(name, description, |pv| {
            pv.metadata
                .as_ref()
                .is_some_and(|known| known.description == description)
        });
    }
    client.wait_pv(chars, "the form", |pv| {
        pv.metadata
            .as_ref()
            .is_some_and(|known| known.form == "String")
    });
    assert_eq!(
        client.pv(chars).metadata.as_ref().unwrap().value_type,
        ValueType::UInt8
    );
    // What a 64-bit integer can't hold is known from its record.
    let (outcome, why) = client.put(count, PutValue::Number(1.5));
    assert_eq!(outcome, Outcome::BadValue, "{why}");
    // In a path brackets may be percent-encoded or not.
    let encoded = number.replace('{', "%7B").replace('}', "%7D");
    for path in [number, &encoded] {
        let answer = get(relay.address(), &format!("/pv/{path}"), &[]);
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
    }
    // A filter is still one.
    let filtered = format!("{number}.VAL{{\"dec\":{{\"n\":2}}}}");
    client.subscribe_live(&[&filtered]);
    client.wait_number(&filtered, 1.0);
}
