//! `GET /pv/NAME`: each type against the truth, selections, and PVs without a value.

use pvwire_schema::types::{NameProblem, Reply, RequestBody};
use serde_json::{Value, json};
use testbed::{
    Client, LyingServer, Network, OtherServer, Relay, SoftIoc, StructureServer, eventually,
    fake_pva, prefix, relay_command,
};

use super::client::{PATIENT, encoded, get, request};
use crate::hangs::{event, open};

const DATABASE: &str = r#"
record(ao, "$(P)ao") {
    field(VAL, "2.5") field(EGU, "V") field(PREC, "2") field(HOPR, "10") field(HIGH, "2") field(HSV, "MINOR")
    field(DESC, "gap") field(PINI, "YES")
}
record(ai, "$(P)nan") {}
record(longin, "$(P)long") { field(VAL, "-7") field(PINI, "YES") }
record(int64in, "$(P)int64") { field(VAL, "9007199254740993") field(PINI, "YES") }
record(mbbo, "$(P)enum") { field(VAL, "1") field(ZRST, "off") field(ONST, "on") field(PINI, "YES") }
record(stringin, "$(P)text") { field(VAL, "a \"b\"") field(PINI, "YES") }
record(lsi, "$(P)lsi") { field(SIZV, "100") }
record(waveform, "$(P)wave") { field(FTVL, "SHORT") field(NELM, "4") field(INP, [1, -2]) field(PINI, "YES") }
"#;

#[test]
fn every_type_has_its_value_in_json() {
    let network = Network::new();
    let mut ioc = SoftIoc::with_pv_access(network, &prefix(), DATABASE);
    let relay = Relay::start(network, &["--linger-ms=100", PATIENT]);
    let [ao, nan, long, int64, label, text, lsi, wave] = ioc.names([
        "ao", "nan", "long", "int64", "enum", "text", "lsi.VAL$", "wave",
    ]);
    ioc.put("nan", "nan");
    ioc.put("lsi.VAL$", "long text");

    let got = get(&relay, &ao);
    assert_eq!(got.status, 200, "{}", got.json);
    assert!(
        got.head.contains("content-type: application/json"),
        "{}",
        got.head
    );
    let pv = got.json;
    for (at, expected) in [
        ("/id", json!(format!("ca://{ao}"))),
        ("/value/float", json!(2.5)),
        ("/value/string", json!("2.50")),
        ("/status/severity", json!("MINOR")),
        ("/status/alarmStatus", json!("HIGH")),
        ("/status/writable", json!(false)),
        ("/display/description", json!("gap")),
        ("/display/units", json!("V")),
        ("/display/precision", json!(2)),
        ("/display/displayRange/max", json!(10)),
        ("/connection/state", json!("connected")),
        ("/connection/connected", json!(true)),
        ("/skipped", json!(0)),
    ] {
        assert_eq!(pv.pointer(at), Some(&expected), "{at}: {pv}");
    }
    assert!(pv["time"]["seconds"].as_f64().unwrap() > 1.7e9, "{pv}");

    eventually("the IOC has taken both values", || {
        let value = |name: &str| get(&relay, name).json["value"].clone();
        value(&nan)["number"] == "NaN" && value(&lsi)["text"] == "long text"
    });
    let pva = |name: &str| format!("pva:%2F%2F{name}");
    for (path, at, expected) in [
        (&nan, "/value/number", json!("NaN")),
        (&nan, "/value/float", Value::Null),
        (&long, "/value/float", json!(-7)),
        (
            &pva(&int64),
            "/value/bigint",
            json!(9_007_199_254_740_993_i64),
        ),
        (&pva(&int64), "/value/exact", json!("9007199254740993")),
        (&label, "/value/string", json!("on")),
        (&label, "/display/choices", json!(["off", "on"])),
        (&text, "/value/text", json!("a \"b\"")),
        (&lsi, "/value/text", json!("long text")),
        (&wave, "/value/array", json!([1, -2])),
        (&pva(&wave), "/value/array", json!([1, -2])),
    ] {
        let got = get(&relay, path);
        assert_eq!(got.status, 200, "{path}: {}", got.json);
        assert_eq!(
            got.json.pointer(at),
            Some(&expected),
            "{path} {at}: {}",
            got.json
        );
    }
    let structures = prefix();
    let network = Network::new();
    let _server = StructureServer::start(Some(network), &structures);
    let of_structures = Relay::start(network, &[PATIENT]);
    let site = pva(&format!("{structures}site"));
    for (path, at, expected) in [
        (&site, "/value/structure/gap/value", json!(2.5)),
        (
            &site,
            "/value/structure/long",
            json!(9_007_199_254_740_993_i64),
        ),
        (&site, "/value/structure/points/1/y", json!(4)),
        (&format!("{site}/gap/value"), "/value/float", json!(2.5)),
        (&format!("{site}%2Fgap%2Fvalue"), "/value/float", json!(2.5)),
    ] {
        let got = get(&of_structures, path);
        assert_eq!(got.status, 200, "{path}: {}", got.json);
        assert_eq!(got.json.pointer(at), Some(&expected), "{path} {at}");
    }

    let big = "sim:%2F%2Fwaveform(size=20000)";
    let elements = get(
        &relay,
        &format!("{big}?select={}", encoded("{ value { array } }")),
    );
    assert_eq!(
        elements.json["value"]["array"].as_array().map(Vec::len),
        Some(20_000)
    );
    let asked = encoded("{ now: value { string(units: true) } connection { state } }");
    let got = get(&relay, &format!("{ao}?select={asked}"));
    let expected = json!({"now": {"string": "2.50 V"}, "connection": {"state": "connected"}});
    assert_eq!(got.json, expected);
    eventually("no PV is held", || {
        relay.metric("pvwire_monitors_active") == 0.0
    });
    assert_eq!(relay.metric("pvwire_memory_charged_bytes"), 0.0);
}

#[test]
fn pv_without_a_current_value_is_an_error_that_says_why() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, DATABASE);
    let relay = Relay::start(network, &["--not-found-after-ms", "300"]);
    let [ao, gone] = ioc.names(["ao", "nosuch"]);
    let error = |path: &str, status: u16, expected: &str| {
        let got = get(&relay, path);
        let message = got.json["error"].as_str().unwrap_or_default().to_owned();
        assert_eq!(got.status, status, "{path}: {}", got.json);
        assert!(message.contains(expected), "{path}: {message}");
        got.json
    };
    let json = error(&gone, 404, "no server has this PV");
    assert_eq!(json["pv"]["connection"]["state"], "notFound");
    error("", 400, "no PV name");
    error("a%20b", 400, "");
    error("%zz", 400, "percent-encoded");
    error("nosuch:%2F%2Fx", 400, "nosuch");
    error("=1+1", 400, "formulas");
    error("loc:%2F%2Fx", 400, "local PVs");
    error(
        &format!("{ao}?select={}", encoded("{ nosuch }")),
        400,
        "line 1",
    );
    error(&format!("{ao}?timeout_ms=soon"), 400, "timeout_ms");
    eventually("it is found", || get(&relay, &ao).status == 200);

    // A client that stays keeps the PV known.
    let _held = super::client::Events::open(&relay, &format!("{ao}/stream"));
    ioc.kill();
    eventually("it is disconnected", || get(&relay, &ao).status == 503);
    let json = error(&ao, 503, "can't be reached");
    assert_eq!(json["pv"]["value"]["float"], 2.5);
    assert_eq!(json["pv"]["connection"]["state"], "disconnected");
    let off = Relay::start(network, &["--http-api=false"]);
    let answer = testbed::get(off.address(), &format!("/pv/{ao}"), &[]);
    assert_eq!(answer.status, 404, "{}", answer.body);
}

#[test]
fn first_request_for_a_pv_that_is_not_found_is_404() {
    let relay = Relay::start(Network::new(), &[]);
    let name = format!("{}NOPE", prefix());
    for path in [name.clone(), format!("{name}.png"), name] {
        let got = get(&relay, &path);
        assert_eq!(got.status, 404, "{path}: {}", got.json);
    }
}

#[test]
fn pv_that_is_not_found_is_404_whatever_the_timeout() {
    let network = Network::new();
    let relay = Relay::start(network, &["--enable-put", "--allow-put=*"]);
    let name = format!("{}NOPE", prefix());
    for (timeout_ms, form) in [
        (0, ""),
        (1, ""),
        (20, ""),
        (500, ""),
        (1, ".png"),
        (1, ".mjpeg"),
    ] {
        let path = format!("/pv/{name}{timeout_ms}{form}?timeout_ms={timeout_ms}");
        for method in ["GET", "HEAD"] {
            let got = request(relay.address(), method, &path, &[], "");
            assert_eq!(got.status, 404, "{method} {path}: {}", got.json);
            if method == "GET" {
                let error = got.json["error"].as_str().unwrap();
                let expected = format!("within {timeout_ms} ms");
                assert!(error.contains(&expected), "{path}: {error}");
            }
        }
    }
    let pva = format!("pva:%2F%2F{name}?timeout_ms=1");
    assert_eq!(get(&relay, &pva).status, 404);
    for timeout_ms in [1, 500] {
        let path = format!("/pv/{name}PUT{timeout_ms}");
        let body = format!(r#"{{"value": 1, "timeout_ms": {timeout_ms}}}"#);
        let put = request(relay.address(), "PUT", &path, &[], &body);
        assert_eq!(put.status, 404, "{}", put.json);
        assert_eq!(put.json["code"], "NOT_CONNECTED", "{}", put.json);
        assert_eq!(put.json["mayBeWritten"], false, "{}", put.json);
    }
}

#[test]
fn pv_whose_server_answers_searches_and_then_hangs_is_504_and_names_it() {
    let network = Network::new();
    let server = LyingServer::start(&["silent", "good"]);
    let mut command = relay_command(network);
    server.apply(&mut command);
    let flags = [
        "--coniql",
        "--not-found-after-ms=1000",
        "--enable-put",
        "--allow-put=*",
    ];
    let relay = Relay::spawn(command, &flags);
    let [silent, good] = &server.names[..] else {
        panic!("two names")
    };
    let named = format!(":{} answers searches", server.port(0));
    eventually("the relay knows who answers searches", || {
        get(&relay, &format!("{silent}?timeout_ms=700")).status == 504
    });
    for timeout_ms in [700, 2_000] {
        for (method, form) in [("GET", ""), ("HEAD", ""), ("GET", ".png")] {
            let path = format!("/pv/{silent}{form}?timeout_ms={timeout_ms}");
            let got = request(relay.address(), method, &path, &[], "");
            assert_eq!(got.status, 504, "{method} {path}: {}", got.json);
            if method == "GET" {
                let error = got.json["error"].as_str().unwrap();
                assert!(error.contains(&named), "{path}: {error}");
            }
        }
    }
    let body = r#"{"value": 1, "timeout_ms": 100}"#;
    let put = request(relay.address(), "PUT", &format!("/pv/{silent}"), &[], body);
    assert_eq!(put.status, 503, "{}", put.json);
    let query = encoded(&format!(
        "{{ getChannel(id: \"{silent}\", timeout: 0.7) {{ id }} }}"
    ));
    let read = testbed::get(relay.address(), &format!("/ws?query={query}"), &[]);
    let expected = "has no value within 0.7 s: the server ";
    assert!(read.body.contains(expected), "{}", read.body);
    assert!(read.body.contains(&named), "{}", read.body);
    // Before and after the time of searches.
    for timeout_ms in [700, 2_000] {
        let (problem, message) = got_by_socket(&relay, silent, timeout_ms);
        assert_eq!(problem, NameProblem::TimedOut);
        assert!(message.contains(&named), "{message}");
    }
    let missing = get(&relay, &format!("{good}X?timeout_ms=700"));
    assert_eq!(missing.status, 404, "{}", missing.json);
    let (_, message) = got_by_socket(&relay, &format!("{good}X"), 700);
    assert_eq!(message, "not found within 700 ms");
    assert_eq!(get(&relay, good).status, 200);
}

/// Why a PV has no value, by the relay's own protocol.
fn got_by_socket(relay: &Relay, name: &str, timeout_ms: u32) -> (NameProblem, String) {
    let mut client = Client::connect(relay.address());
    let request = RequestBody::Get {
        names: vec![name.to_owned()],
        timeout_ms,
        description: false,
    };
    match client.ask(request).0 {
        Reply::Got { mut errors, .. } => {
            let error = errors.remove(0);
            (error.problem, error.message)
        }
        other => panic!("{other:?} answers a Get"),
    }
}

#[test]
fn pv_whose_pv_access_server_answers_searches_and_then_hangs_is_504_and_names_it() {
    let network = Network::new();
    let port = fake_pva::start_silent(network.pva_port());
    let relay = Relay::start(network, &["--not-found-after-ms=1000"]);
    let prefix = prefix();
    let named = format!(
        "the server 127.0.0.1:{port} answers searches for this PV and has not connected it yet"
    );
    eventually("the relay knows who answers searches", || {
        get(&relay, &format!("pva:%2F%2F{prefix}silent?timeout_ms=700")).status == 504
    });
    for timeout_ms in [700, 2_000] {
        let path = format!("pva:%2F%2F{prefix}silent?timeout_ms={timeout_ms}");
        let got = get(&relay, &path);
        assert_eq!(got.status, 504, "{}", got.json);
        let error = got.json["error"].as_str().unwrap();
        assert!(error.starts_with(&named), "{error}");
        let missing = get(
            &relay,
            &format!("pva:%2F%2F{prefix}X?timeout_ms={timeout_ms}"),
        );
        assert_eq!(missing.status, 404, "{}", missing.json);
    }
    let other = format!("pva:%2F%2F{prefix}other_silent");
    let mut events = super::client::Events::open(&relay, &format!("{other}/stream"));
    let event = events.wait("its first event", |_| true);
    assert_eq!(event["connection"]["state"], "connecting", "{event}");
    let reason = event["connection"]["reason"].as_str().unwrap_or_default();
    assert!(reason.starts_with(&named), "{event}");
    let name = format!("pva://{prefix}silent");
    let mut client = Client::connect(relay.address());
    assert_eq!(client.subscribe(&[&name]), []);
    client.wait_pv(&name, "that its server doesn't connect it", |pv| {
        let metadata = pv.metadata.as_ref();
        let reason = metadata.map_or("", |metadata| &metadata.missing_field);
        reason.contains(&format!(
            ":{port} answers searches for this PV and then doesn't connect it"
        ))
    });
}

#[test]
fn field_that_a_structure_does_not_have_is_404_and_says_why() {
    let network = Network::new();
    let prefix = prefix();
    let _ioc = SoftIoc::with_pv_access(network, &prefix, DATABASE);
    let relay = Relay::start(network, &[]);
    let path = format!("pva:%2F%2F{prefix}ao%2Ftypo");
    for _ in 0..2 {
        let got = get(&relay, &format!("{path}?timeout_ms=20000"));
        assert_eq!(got.status, 404, "{}", got.json);
        let error = got.json["error"].as_str().unwrap();
        assert!(error.contains("has no field \"typo\""), "{error}");
    }
}

#[test]
fn pv_that_is_connected_and_sends_no_value_in_time_is_504() {
    let network = Network::new();
    let server = LyingServer::start(&["mute", "good"]);
    let mut command = relay_command(network);
    server.apply(&mut command);
    let relay = Relay::spawn(command, &["--coniql"]);
    let mute = &server.names[0];
    let path = format!("/pv/{mute}?timeout_ms=700");
    for method in ["GET", "HEAD"] {
        let got = request(relay.address(), method, &path, &[], "");
        assert_eq!(got.status, 504, "{}", got.json);
        if method == "GET" {
            assert_eq!(got.json["error"], "the PV has no value within 700 ms");
        }
    }
    let query = encoded(&format!(
        "{{ getChannel(id: \"{mute}\", timeout: 0.7) {{ id }} }}"
    ));
    let read = testbed::get(relay.address(), &format!("/ws?query={query}"), &[]);
    let expected = format!("{mute} has no value within 0.7 s");
    assert!(read.body.contains(&expected), "{}", read.body);
}

#[test]
fn pv_that_sends_neither_metadata_nor_value_says_so_wherever_it_is_read() {
    let network = Network::new();
    let server = LyingServer::start(&["mute", "good"]);
    let mut command = relay_command(network);
    server.apply(&mut command);
    let relay = Relay::spawn(command, &[]);
    let mute = &server.names[0];
    let expected = "the PV's server is connected and has not sent labels, units and limits yet";
    let got = get(&relay, &format!("{mute}?timeout_ms=3000"));
    assert_eq!(got.status, 504, "{}", got.json);
    assert_eq!(got.json["error"], expected);
    let (problem, message) = got_by_socket(&relay, mute, 100);
    assert_eq!(
        (problem, message.as_str()),
        (NameProblem::TimedOut, expected)
    );
    let mut events = open(&relay, &format!("/pv/{mute}/stream"));
    let told = event(&mut events, |_| true);
    assert_eq!(told["connection"]["reason"], expected, "{told}");
    assert_eq!(told["connection"]["state"], "connected", "{told}");
    assert!(told["value"].is_null(), "{told}");
}

#[test]
fn pv_of_a_stopped_ioc_that_was_connected_before_is_503_with_its_last_value() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, DATABASE);
    let relay = Relay::start(network, &["--coniql", PATIENT]);
    let ao = ioc.name("ao");
    let _held = super::client::Events::open(&relay, &format!("{ao}/stream"));
    eventually("it is found", || get(&relay, &ao).status == 200);
    ioc.hang();
    eventually("it doesn't respond", || get(&relay, &ao).status == 503);
    for method in ["GET", "HEAD"] {
        let path = format!("/pv/{ao}?timeout_ms=100");
        let got = request(relay.address(), method, &path, &[], "");
        assert_eq!(got.status, 503, "{}", got.json);
        if method == "GET" {
            let error = got.json["error"].as_str().unwrap();
            assert!(error.contains("doesn't respond"), "{error}");
            assert_eq!(got.json["pv"]["value"]["float"], 2.5);
            assert_eq!(got.json["pv"]["connection"]["unresponsive"], true);
        }
    }
    ioc.resume();
    eventually("it responds", || get(&relay, &ao).status == 200);
}

#[test]
fn first_answers_of_a_server_whose_metadata_come_late_have_labels_and_units() {
    let network = Network::new();
    let server = OtherServer::with_late_metadata(network, 1.5);
    let relay = Relay::start(network, &[PATIENT]);
    let described = |pv: &Value| match pv["id"].as_str().unwrap() {
        id if id.ends_with("choice") => {
            assert_eq!(pv["value"]["string"], "Open", "{pv}");
            assert_eq!(pv["display"]["choices"], json!(["Closed", "Open"]), "{pv}");
        }
        _ => {
            assert_eq!(pv["value"]["string"], "1.50", "{pv}");
            assert_eq!(pv["display"]["units"], "mA", "{pv}");
        }
    };
    let names = ["choice", "number"].map(|name| server.pv(name));
    std::thread::scope(|scope| {
        for at in 0..20 {
            let (relay, name, described) = (&relay, &names[at % 2], &described);
            scope.spawn(move || {
                let got = get(relay, name);
                assert_eq!(got.status, 200, "{}", got.json);
                described(&got.json);
            });
        }
    });
    for name in names {
        let relay = Relay::start(network, &[PATIENT]);
        let mut events = super::client::Events::open(&relay, &format!("{name}/stream"));
        described(&events.wait("the first value", |pv| pv["value"].is_object()));
    }
}
