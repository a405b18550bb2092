//! Formulas over PVs: `=expression` and `eq://expression`.

use pvwire_schema::types::Severity;
use serde_json::{Value, json};
use testbed::{Network, Relay, SoftIoc, eventually, get, prefix};

use super::client::{Pvws, flags, relay_of_users};

const DATABASE: &str = r#"
record(ao, "$(P)a") { field(VAL, "2") field(HIGH, "5") field(HSV, "MINOR") field(PINI, "YES") }
record(ao, "$(P)b") { field(VAL, "3") field(HIGH, "5") field(HSV, "MAJOR") field(PINI, "YES") }
record(waveform, "$(P)wave") { field(FTVL, "DOUBLE") field(NELM, "3") field(INP, [1, 2, 4]) field(PINI, "YES") }
record(mbbo, "$(P)enum") { field(ZRST, "off") field(ONST, "on") field(VAL, "1") field(PINI, "YES") }
"#;

const PUTS: [&str; 3] = ["--enable-put", "--allow-put", "loc://*"];

/// The first update of a name that has a value.
fn first(client: &mut Pvws, name: &str) -> Value {
    client.subscribe(&[name]);
    client.update(name, "its metadata", |update| update["vtype"].is_string())
}

#[test]
fn formula_follows_pvs_of_every_source_and_their_alarms() {
    let network = Network::new();
    let mut ioc = SoftIoc::with_pv_access(network, &prefix(), DATABASE);
    let relay = Relay::start(network, &flags(&PUTS));
    let mut client = Pvws::connect(&relay);
    let [a, b] = ioc.names(["a", "b"]);
    let formula = format!("=`{a}` + `pva://{b}` * 10 + `loc://c(100)`");
    let update = first(&mut client, &formula);
    assert_eq!(
        (
            &update["vtype"],
            &update["value"],
            &update["severity"],
            &update["readonly"]
        ),
        (
            &json!("VDouble"),
            &json!(132.0),
            &json!("NONE"),
            &json!(true)
        )
    );
    client.subscribe(&["loc://c"]);
    client.write("loc://c", json!(200));
    client.update(&formula, "the local PV", |update| update["value"] == 232.0);
    ioc.put("a", "6");
    let update = client.update(&formula, "the first alarm", |update| {
        update["value"] == 236.0
    });
    assert_eq!(update["severity"], "MINOR");
    ioc.put("b", "7");
    let update = client.update(&formula, "the higher alarm", |update| {
        update["value"] == 276.0
    });
    assert_eq!(update["severity"], "MAJOR");
    // HIGH, which the door's messages don't have.
    let name = formula.replacen('=', "eq://", 1);
    let mut plain = testbed::Client::connect(relay.address());
    plain.subscribe_live(&[&name]);
    let alarm = plain.pv(&name).now.as_ref().unwrap().alarm;
    assert_eq!((alarm.severity, alarm.status), (Severity::Major, 4));
    client.write(&formula, json!(5));
    let told = client.until("the refusal", |message| message["type"] == "error");
    let why = told.last().unwrap()["message"].as_str().unwrap().to_owned();
    assert!(
        why.starts_with(&format!("Cannot write {formula}: ")),
        "{why}"
    );
}

#[test]
fn formula_has_the_class_of_its_value_and_an_error_is_a_text() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, DATABASE);
    let relay = Relay::start(network, &flags(&[]));
    let mut client = Pvws::connect(&relay);
    let [a, wave, mode] = ioc.names(["a", "wave", "enum"]);
    for (formula, expected) in [
        (
            "=1 + 1".to_owned(),
            json!({"vtype": "VDouble", "value": 2.0}),
        ),
        (
            "eq:// 2 ^ 3 ".to_owned(),
            json!({"vtype": "VDouble", "value": 8.0}),
        ),
        (
            format!("=arraySum(`{wave}`, 1)"),
            json!({"vtype": "VDoubleArray", "b64dbl": "AAAAAAAAAEAAAAAAAAAIQAAAAAAAABRA"}),
        ),
        (
            format!("=`{mode}` == \"on\" ? \"yes\" : \"no\""),
            json!({"vtype": "VString", "text": "yes", "severity": "NONE"}),
        ),
        (
            format!("=`= \'{a}\' * 2` + 1"),
            json!({"vtype": "VDouble", "value": 5.0}),
        ),
    ] {
        let update = first(&mut client, &formula);
        for (key, value) in expected.as_object().unwrap() {
            assert_eq!(update[key], *value, "{formula}: {key} in {update}");
        }
    }
    for (formula, why) in [
        ("=1 +".to_owned(), "character"),
        ("=nosuch(1)".to_owned(), "unknown function nosuch"),
        (format!("=elementAt(`{wave}`, 7)"), "elementAt"),
    ] {
        let update = first(&mut client, &formula);
        let text = update["text"].as_str().unwrap();
        assert!(text.contains(why), "{formula}: {update}");
        assert_eq!(
            (&update["vtype"], &update["severity"]),
            (&json!("VString"), &json!("INVALID"))
        );
    }
}

#[test]
fn formula_is_disconnected_with_its_inputs_and_comes_back() {
    let (network, prefix) = (Network::new(), prefix());
    let ioc = SoftIoc::with_prefix(network, &prefix, DATABASE, "");
    let relay = Relay::start(network, &flags(&["--not-found-after-ms", "300"]));
    let mut client = Pvws::connect(&relay);
    let [a, never] = ioc.names(["a", "never"]);
    let never = format!("=`{never}` + 1");
    client.subscribe(&[&never]);
    let update = client.update(&never, "its right", |_| true);
    assert_eq!(
        (&update["readonly"], update.get("value")),
        (&json!(true), None)
    );
    let formula = format!("=`{a}` * 2");
    assert_eq!(first(&mut client, &formula)["value"], 4.0);
    ioc.kill();
    let gone = client.update(&formula, "its loss", |update| update["value"] == "NaN");
    assert_eq!(gone["severity"], "INVALID");
    let _back = SoftIoc::with_prefix(network, &prefix, &DATABASE.replace("\"2\"", "\"4\""), "");
    let back = client.update(&formula, "its return", |update| update["value"] == 8.0);
    assert_eq!(
        (&back["vtype"], &back["severity"]),
        (&json!("VDouble"), &json!("NONE"))
    );
}

#[test]
fn formula_is_one_pv_for_all_clients_and_pvget_reads_it() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, DATABASE);
    let relay = Relay::start(network, &flags(&[]));
    let (mut one, mut other) = (Pvws::connect(&relay), Pvws::connect(&relay));
    let formula = format!("`{}` * 3", ioc.name("a"));
    for (client, name) in [
        (&mut one, format!("={formula}")),
        (&mut other, format!("eq://{formula}")),
    ] {
        assert_eq!(first(client, &name)["value"], 6.0);
    }
    let pool: Value = serde_json::from_str(&get(relay.address(), "/pvws/pool", &[]).body).unwrap();
    let expected = [
        json!({"refs": 1, "pv": format!("ca://{}", ioc.name("a"))}),
        json!({"refs": 2, "pv": format!("eq://{formula}")}),
    ];
    assert_eq!(pool, json!(expected));
    let text = formula
        .replace('`', "%60")
        .replace(' ', "%20")
        .replace('*', "%2A");
    let got = get(relay.address(), &format!("/pvws/pvget?name=%3D{text}"), &[]);
    let got: Value = serde_json::from_str(&got.body).unwrap();
    assert_eq!(
        (&got["vtype"], &got["value"]),
        (&json!("VDouble"), &json!(6.0))
    );
    drop((one, other));
    eventually("the formula is closed", || {
        let pool = get(relay.address(), "/pvws/pool", &[]).body;
        !pool.contains(&format!("{{\"refs\":2,\"pv\":\"eq://{formula}\"}}"))
    });
}

#[test]
fn clients_read_through_formulas_only_what_they_may_read() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, DATABASE);
    let [a, b] = ioc.names(["a", "b"]);
    let rules = |user: &str| {
        format!(
            "[[rule]]\npv = \"{a}\"\nallow = \"read\"\n[[rule]]\nuser = \"{user}\"\npv = \"*\"\nallow = \"read\"\n[[rule]]\npv = \"*\"\ndeny = \"read\"\n"
        )
    };
    let (relay, path) = relay_of_users(network, &rules("ann"), &[]);
    let connect =
        |user: &str| Pvws::try_connect(relay.address(), &[("X-Forwarded-User", user)]).unwrap();
    let (mut ann, mut bob) = (connect("ann"), connect("bob"));
    let both = format!("=`{a}` + `{b}`");
    let nested = format!("=`= '{b}'`");
    assert_eq!(first(&mut ann, &both)["value"], 5.0);
    assert_eq!(first(&mut ann, &nested)["value"], 3.0);
    assert_eq!(first(&mut bob, &format!("=`{a}` * 2"))["value"], 4.0);
    for formula in [&both, &nested] {
        bob.subscribe(&[formula]);
        let told = bob.until("the refusal", |message| message["type"] == "error");
        let why = told.last().unwrap()["message"].as_str().unwrap().to_owned();
        assert!(
            why.contains(formula.as_str()) && why.contains("may not read"),
            "{why}"
        );
        let query = formula
            .replace('`', "%60")
            .replace(' ', "%20")
            .replace('+', "%2B")
            .replace('=', "%3D");
        let path = format!("/pvws/pvget?name={query}");
        assert_eq!(
            get(relay.address(), &path, &[("X-Forwarded-User", "bob")]).status,
            403
        );
        assert_eq!(
            get(relay.address(), &path, &[("X-Forwarded-User", "ann")]).status,
            200
        );
    }
    // From now on ann may not read the second record any more.
    std::fs::write(&path, rules("bob")).unwrap();
    relay.signal("HUP");
    let closed = ann.close_code();
    assert!(closed >= 1000, "{closed}");
    assert_eq!(first(&mut bob, &both)["value"], 5.0);
}
