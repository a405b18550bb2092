//! `GET /pv/NAME`: each type against the truth, selections, and PVs without a value.

use serde_json::{Value, json};
use testbed::{Network, Relay, SoftIoc, StructureServer, eventually, prefix};

use super::client::{PATIENT, encoded, get, request};

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
