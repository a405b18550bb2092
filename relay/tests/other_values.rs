//! Values and puts of servers that answer unlike EPICS base, or can't answer.
//!
//! Topology: one relay that takes puts, a client, a server of caproto, PCAS or EPICS base.

use std::time::{Duration, Instant};

use pvwire_schema::types::{
    Alarm, ConnectionState, Outcome, PutRequest, PutValue, Reply, RequestBody, Severity,
};

use serde_json::{Value, json};
use testbed::{
    Client, Kept, LyingServer, Maker, Network, OtherServer, Pv, Relay, SoftIoc, StructureServer,
    eventually, get, prefix, relay_command,
};

/// Flags of a relay that takes puts to every PV.
const ALL: [&str; 3] = [
    "--enable-put",
    "--allow-put=*",
    "--not-found-after-ms=60000",
];

fn text(text: &str) -> PutValue {
    PutValue::Text(text.to_owned())
}

/// The outcomes of a put with completion and of one without.
fn put_both(client: &mut Client, name: &str, value: &PutValue) -> [(Outcome, String); 2] {
    [true, false].map(|wait| {
        let put = PutRequest {
            name: name.to_owned(),
            value: value.clone(),
            wait,
            timeout_ms: 0,
            expected: None,
        };
        match client.ask(RequestBody::Put(put)).0 {
            Reply::PutDone { outcome, message } => (outcome, message),
            other => panic!("{other:?} answers a put"),
        }
    })
}

/// What `GET /pv/…` answers.
fn answer(relay: &Relay, name: &str) -> Value {
    let name = name
        .replace('/', "%2F")
        .replace('{', "%7B")
        .replace('}', "%7D");
    let answer = get(
        relay.address(),
        &format!("/pv/{name}?timeout_ms=20000"),
        &[],
    );
    serde_json::from_str(&answer.body).unwrap()
}

#[test]
fn puts_to_a_string_of_caproto_that_is_watched_are_done() {
    puts_to_a_watched_string_are_done(Maker::Caproto, "string");
}

#[test]
fn puts_to_a_string_of_caj_that_is_watched_are_done() {
    puts_to_a_watched_string_are_done(Maker::Caj, "text");
}

fn puts_to_a_watched_string_are_done(maker: Maker, name: &str) {
    let network = Network::new();
    let server = OtherServer::start(network, maker);
    let relay = Relay::start(network, &ALL);
    let mut client = Client::connect(relay.address());
    let name = server.pv(name);
    client.subscribe_live(&[&name]);
    // A string of 39 bytes may be a longer one, so the relay looks for it and monitors it.
    let full = "x".repeat(39);
    for value in [full.as_str(), "abc", "", "two words"] {
        for outcome in put_both(&mut client, &name, &text(value)) {
            assert_eq!(outcome, (Outcome::Done, String::new()), "{value:?}");
        }
        client.wait_pv(&name, value, |pv| pv.is(&Kept::text(value)));
    }
}

#[test]
fn put_that_a_server_reports_as_failed_is_read_back() {
    let network = Network::new();
    let server = OtherServer::start(network, Maker::Caproto);
    let relay = Relay::start(network, &ALL);
    let mut client = Client::connect(relay.address());
    let [refused, written] = ["refused", "written_and_refused"].map(|name| server.pv(name));
    for (outcome, why) in put_both(&mut client, &refused, &PutValue::Number(7.0)) {
        assert_eq!(outcome, Outcome::Failed, "{why}");
    }
    for (outcome, why) in put_both(&mut client, &written, &PutValue::Number(7.0)) {
        assert_eq!(outcome, Outcome::Unknown, "{why}");
        assert!(why.contains("may have been written"), "{why}");
    }
    client.subscribe_live(&[&refused, &written]);
    client.wait_number(&written, 7.0);
    client.wait_number(&refused, 6.0);
}

#[test]
fn put_that_a_pv_access_server_reports_as_failed_is_read_back() {
    let (network, prefix) = (Network::new(), prefix());
    let _server = StructureServer::start(Some(network), &prefix);
    let relay = Relay::start(network, &ALL);
    let mut client = Client::connect(relay.address());
    let names = ["refused", "written_and_refused", "forbidden"];
    let [refused, written, forbidden] = names.map(|name| format!("pva://{prefix}{name}"));
    for (outcome, why) in put_both(&mut client, &refused, &PutValue::Number(7.0)) {
        assert_eq!(outcome, Outcome::Failed, "{why}");
        assert_eq!(why, "the server refused: the interlock is open");
    }
    for (outcome, why) in put_both(&mut client, &written, &PutValue::Number(7.0)) {
        assert_eq!(outcome, Outcome::Unknown, "{why}");
        assert!(why.contains("no answer from the device"), "{why}");
        assert!(why.contains("may have been written"), "{why}");
    }
    // A server that checks rights writes nothing, also if the PV holds the value.
    for (outcome, why) in put_both(&mut client, &forbidden, &PutValue::Number(0.0)) {
        assert_eq!(outcome, Outcome::NoAccess, "{why}");
        assert_eq!(why, "the server refused: Permission denied");
    }
    client.subscribe_live(&[&refused, &written]);
    client.wait_number(&written, 7.0);
    client.wait_number(&refused, 0.0);
}

#[test]
fn put_that_a_pcas_server_ignores_says_what_the_pv_holds() {
    let network = Network::new();
    let server = OtherServer::start(network, Maker::Pcas);
    let relay = Relay::start(network, &ALL);
    let mut client = Client::connect(relay.address());
    let refused = server.pv("refused");
    for outcome in put_both(&mut client, &refused, &PutValue::Number(7.0)) {
        assert_eq!(outcome, (Outcome::Done, "the PV now holds 6".to_owned()));
    }
}

#[test]
fn text_put_to_characters_is_what_the_pv_holds() {
    for maker in [Maker::Caproto, Maker::Pcas] {
        let network = Network::new();
        let server = OtherServer::start(network, maker);
        let relay = Relay::start(network, &ALL);
        let mut client = Client::connect(relay.address());
        let name = server.pv("char_text");
        for value in ["v".repeat(200), "abc".to_owned(), "v".repeat(255)] {
            for outcome in put_both(&mut client, &name, &text(&value)) {
                assert_eq!(
                    outcome,
                    (Outcome::Done, String::new()),
                    "{maker:?} {value:?}"
                );
            }
        }
    }
}

#[test]
fn first_answer_of_a_caproto_choice_has_its_label() {
    let network = Network::new();
    let server = OtherServer::start(network, Maker::Caproto);
    let relay = Relay::start(network, &["--linger-ms=0", ALL[2]]);
    for _ in 0..5 {
        for (name, label) in [("choice", "Open"), ("mode", "Off")] {
            let pv = answer(&relay, &server.pv(name));
            assert_eq!(pv["value"]["string"], label, "{pv}");
            assert!(
                pv["display"]["choices"].as_array().unwrap().len() >= 2,
                "{pv}"
            );
        }
        let pv = answer(&relay, &server.pv("number"));
        assert_eq!(pv["display"]["units"], "mA", "{pv}");
    }
}

#[test]
fn value_that_the_server_cannot_send_has_the_servers_reason() {
    let network = Network::new();
    let server = OtherServer::start(network, Maker::Caproto);
    let relay = Relay::start(network, &ALL);
    let pv = answer(&relay, &server.pv("no_labels"));
    assert_eq!(pv["pv"]["connection"]["state"], "connected", "{pv}");
    let reason = pv["pv"]["connection"]["reason"].as_str().unwrap();
    assert!(reason.starts_with("the server can't send it: "), "{pv}");
    assert_eq!(pv["error"], reason, "{pv}");
}

#[test]
fn array_above_the_servers_limit_has_the_servers_reason() {
    let network = Network::new();
    let database = r#"
        record(waveform, "$(P)array") { field(FTVL, "DOUBLE") field(NELM, "10000") }
        record(ai, "$(P)ai") { field(EGU, "V") field(VAL, "1") field(PINI, "YES") }
    "#;
    let ioc = SoftIoc::with_array_limit(network, database, 20_000);
    let relay = Relay::start(network, &ALL);
    let mut client = Client::connect(relay.address());
    let name = ioc.name("array");
    client.subscribe(&[&name]);
    client.wait_pv(&name, "no value, and why", |pv| {
        let reason = pv
            .metadata
            .as_ref()
            .map_or("", |known| &known.missing_field);
        pv.now.is_none() && reason.starts_with("the server can't send it: ")
    });
    let pv = answer(&relay, &name);
    let reason = pv["pv"]["connection"]["reason"].as_str().unwrap();
    assert!(reason.starts_with("the server can't send it: "), "{pv}");
    assert_eq!(
        answer(&relay, &ioc.name("ai"))["value"]["float"],
        1,
        "the others are well"
    );
}

#[test]
fn number_beyond_a_double_is_refused_and_not_written_as_infinity() {
    let network = Network::new();
    let server = OtherServer::start(network, Maker::Caproto);
    let relay = Relay::start(network, &ALL);
    let mut client = Client::connect(relay.address());
    for (name, value) in [
        ("number", text("1e400")),
        ("number", text("-1e400")),
        ("number", text("1e-400")),
        (
            "array",
            PutValue::TextArray(vec!["1".to_owned(), "1e400".to_owned()]),
        ),
    ] {
        for (outcome, why) in put_both(&mut client, &server.pv(name), &value) {
            assert_eq!(outcome, Outcome::BadValue, "{value:?}: {why}");
        }
    }
    let infinite = put_both(&mut client, &server.pv("number"), &text("inf"));
    assert_eq!(infinite[0].0, Outcome::Done, "it was meant");
}

#[test]
fn alarm_with_numbers_that_no_alarm_has_is_invalid_and_undefined() {
    let network = Network::new();
    let mut server = OtherServer::start(network, Maker::Pcas);
    let relay = Relay::start(network, &ALL);
    let mut client = Client::connect(relay.address());
    let name = server.pv("number");
    client.subscribe_live(&[&name]);
    server.post("number", r#"{"status": 99, "severity": 7}"#);
    let undefined = Alarm {
        severity: Severity::Invalid,
        status: 17,
    };
    client.wait_pv(&name, "INVALID, UDF", |pv| {
        pv.now.as_ref().is_some_and(|now| now.alarm == undefined)
    });
}

#[test]
fn alarm_by_pv_access_with_numbers_that_no_alarm_has_is_invalid_and_undefined() {
    let network = Network::new();
    let prefix = prefix();
    let _server = StructureServer::start(Some(network), &prefix);
    let relay = Relay::start(network, &[]);
    let mut client = Client::connect(relay.address());
    let undefined = Alarm {
        severity: Severity::Invalid,
        status: 106,
    };
    for pv in ["alarm_negative", "alarm_large"] {
        let whole = format!("pva://{prefix}{pv}");
        for name in [format!("{whole}/part"), whole] {
            client.subscribe_live(&[&name]);
            client.wait_pv(&name, "a value", |pv| pv.now.is_some());
            let now = client.pv(&name).now.as_ref().unwrap();
            assert_eq!(now.alarm, undefined, "{name}");
            assert_eq!(answer(&relay, &name)["status"]["message"], "odd", "{name}");
        }
    }
}

#[test]
fn choice_beyond_the_sixteenth_has_the_label_that_the_ioc_gives_it() {
    let network = Network::new();
    let mut ioc = SoftIoc::start(network, r#"record(ai, "$(P)ai") { field(VAL, "1") }"#);
    let relay = Relay::start(network, &ALL);
    let mut client = Client::connect(relay.address());
    let status = ioc.name("ai.STAT");
    client.subscribe_live(&[&status]);
    for (before, expected) in [("", "UDF"), ("UDFS", "NO_ALARM"), ("again", "UDF")] {
        match before {
            "UDFS" => ioc.put("ai", "2"),
            "again" => ioc.put("ai", "nan"),
            _ => {}
        }
        eventually(expected, || {
            let pv = answer(&relay, &status);
            pv["value"]["string"] == expected
        });
    }
    let pv = answer(&relay, &status);
    assert_eq!(pv["value"]["float"], 17, "{pv}");
    let known = client.pv(&status).metadata.clone().unwrap();
    assert_eq!(known.choices[..2], ["NO_ALARM", "READ"]);
    assert_eq!(known.choices.get(17).map(String::as_str), Some("UDF"));
}

/// Subscribes a choice of a lying server, and waits until the PV is in a state. No value may come then.
fn no_value_comes_by_its_label(lie: &str, what: &str, test: impl Fn(&Pv) -> bool) {
    let network = Network::new();
    let server = LyingServer::start(&[lie]);
    let mut command = relay_command(network);
    server.apply(&mut command);
    let relay = Relay::spawn(command, &ALL);
    let mut client = Client::connect(relay.address());
    let name = &server.names[0];
    client.subscribe(&[name]);
    client.wait_pv(name, what, &test);
    let end = Instant::now() + Duration::from_secs(1);
    client.wait("it has no value", |client| {
        let pv = client.pv(name);
        assert_eq!(pv.now, None);
        assert!(test(pv), "still {what}");
        Instant::now() > end
    });
}

#[test]
fn no_value_comes_by_its_label_after_the_right_to_read_was_revoked() {
    no_value_comes_by_its_label("label_withdrawn", "unreadable", |pv| {
        let metadata = pv.metadata.as_ref();
        pv.connection.is_some_and(|connection| {
            connection.state == ConnectionState::Connected && !connection.read
        }) && metadata.is_some_and(|metadata| metadata.choices.is_empty())
    });
}

#[test]
fn no_value_comes_by_its_label_after_the_server_could_not_send_it() {
    no_value_comes_by_its_label("label_unsent", "refused", |pv| {
        let metadata = pv.metadata.as_ref();
        metadata.is_some_and(|metadata| metadata.missing_field.contains("can't send it"))
    });
}

#[test]
fn label_of_another_choice_is_not_taken_for_one_beyond_the_sixteenth() {
    let network = Network::new();
    let server = LyingServer::start(&["label_of_another"]);
    let mut command = relay_command(network);
    server.apply(&mut command);
    let relay = Relay::spawn(command, &ALL);
    let mut client = Client::connect(relay.address());
    let name = &server.names[0];
    client.subscribe(&[name]);
    client.wait_pv(name, "its label", |pv| {
        let metadata = pv.metadata.as_ref();
        metadata.is_some_and(|metadata| metadata.choices.len() > 17)
    });
    let known = client.pv(name).metadata.clone().unwrap();
    assert_eq!(known.choices[17], "seventeen");
    client.wait_number(name, 17.0);
}

#[test]
fn time_that_is_none_is_null() {
    let network = Network::new();
    let prefix = prefix();
    let ioc = SoftIoc::with_pv_access(network, &prefix, r#"record(ai, "$(P)ai") {}"#);
    let relay = Relay::start(network, &ALL);
    let name = ioc.name("ai");
    for name in [
        name.clone(),
        format!("pva://{name}"),
        format!("pva://{name}/value"),
    ] {
        let pv = answer(&relay, &name);
        assert_eq!(pv["value"]["float"], 0, "{name}: {pv}");
        assert_eq!(pv["time"], Value::Null, "{name}: {pv}");
    }
}

#[test]
fn time_beyond_64_bits_of_nanoseconds_is_null() {
    let network = Network::new();
    let prefix = prefix();
    let _server = StructureServer::start(Some(network), &prefix);
    let relay = Relay::start(network, &ALL);
    for name in ["never", "far", "old"] {
        for path in ["", "/value"] {
            let pv = answer(&relay, &format!("pva://{prefix}{name}{path}"));
            assert_eq!(pv["value"]["float"], json!(1), "{name}{path}: {pv}");
            assert_eq!(pv["time"], Value::Null, "{name}{path}: {pv}");
        }
    }
}
