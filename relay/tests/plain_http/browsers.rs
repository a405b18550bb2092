//! What browsers, tools and libraries expect of an HTTP server: HEAD, Allow, header names, embedding, the OpenAPI document.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};
use testbed::{DEADLINE, Network, Relay, SoftIoc, StructureServer, get, prefix, raw};

use super::client::{PATIENT, patient, put};

const DATABASE: &str = r#"
record(ao, "$(P)ao") { field(VAL, "1") field(PINI, "YES") }
"#;

const SCREENS: &str = "https://screens.example.org";

/// The lines of a head except those that differ between two answers.
fn lines(head: &str) -> Vec<&str> {
    head.lines()
        .filter(|line| !line.starts_with("Date:"))
        .collect()
}

/// A head without the number in its policy, which differs in each answer.
fn without_nonce(head: &str) -> String {
    let mut parts = head.split("'nonce-");
    let begin = parts.next().unwrap_or_default().to_owned();
    let ends = parts.map(|part| part.split_once('\'').map_or("", |(_, end)| end));
    begin + &ends.collect::<String>()
}

#[test]
fn head_is_answered_as_get_without_the_body() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, DATABASE);
    let structures = prefix();
    let _server = StructureServer::start(Some(network), &structures);
    let relay = Relay::start(network, &["--pvws", "--coniql", PATIENT]);
    let address = relay.address();
    let ao = patient(&ioc.name("ao"));
    let known = raw(address, "GET", &ao, "");
    assert!(known.0.starts_with("HTTP/1.1 200"), "{}", known.0);
    let image = patient(&format!("pva:%2F%2F{structures}small_image.png"));
    for path in [
        &*ao,
        &image,
        "/pv/nosuch:%2F%2Fx",
        "/",
        "/live",
        "/ready",
        "/openapi.json",
        "/nothing",
        "/pvws/",
        "/pvws/js/pvws.js",
        "/pvws/info",
        "/graphql?query=%7B__typename%7D",
        "/ws",
        "/pvws/pv",
    ] {
        let (head, body) = raw(address, "HEAD", path, "");
        let (of_get, content) = raw(address, "GET", path, "");
        assert!(body.is_empty(), "{path}: {} bytes", body.len());
        let heads = [&head, &of_get].map(|head| without_nonce(head));
        assert_eq!(lines(&heads[0]), lines(&heads[1]), "{path}");
        let length = format!("Content-Length: {}\r\n", content.len());
        assert!(head.contains(&length), "{path}: {head}");
    }
    // A stream has no end, but its head.
    let (head, body) = raw(
        address,
        "HEAD",
        &format!("/pv/{}/stream", ioc.name("ao")),
        "",
    );
    assert!(
        head.contains("200") && head.contains("text/event-stream"),
        "{head}"
    );
    assert!(body.is_empty());
    testbed::eventually("no client is left", || {
        relay.metric("pvwire_sessions_active") == 0.0
    });
}

#[test]
fn method_that_a_path_lacks_is_answered_by_those_it_has() {
    let relay = Relay::start(Network::new(), &["--coniql"]);
    for (method, path, allowed) in [
        ("POST", "/pv/x", "GET, HEAD, PUT, OPTIONS"),
        ("DELETE", "/pv/x", "GET, HEAD, PUT, OPTIONS"),
        ("PUT", "/pv/x/stream", "GET, HEAD, OPTIONS"),
        ("POST", "/pv/x.png", "GET, HEAD, OPTIONS"),
        ("POST", "/status", "GET, HEAD"),
        ("DELETE", "/nothing", "GET, HEAD"),
        ("PUT", "/graphql", "GET, HEAD, POST, OPTIONS"),
    ] {
        let (head, _) = raw(relay.address(), method, path, "");
        assert!(head.starts_with("HTTP/1.1 405"), "{method} {path}: {head}");
        let allow = format!("\r\nAllow: {allowed}\r\n");
        assert!(head.contains(&allow), "{method} {path}: {head}");
    }
    // Without a door nothing is posted.
    let plain = Relay::start(Network::new(), &[]);
    let (head, _) = raw(plain.address(), "POST", "/graphql", "");
    assert!(
        head.starts_with("HTTP/1.1 405") && head.contains("\r\nAllow: GET, HEAD\r\n"),
        "{head}"
    );
}

#[test]
fn header_names_are_spelled_as_in_their_standards() {
    let relay = Relay::start(Network::new(), &["--coniql"]);
    let handshake = |offered: &str| {
        let mut stream = TcpStream::connect(relay.address()).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let request = format!(
            "GET /ws HTTP/1.1\r\nhost: {}\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
             sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
             sec-websocket-protocol: {offered}\r\n\r\n",
            relay.address()
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        String::from_utf8(head).unwrap()
    };
    for offered in ["graphql-transport-ws", "graphql-ws"] {
        let head = handshake(offered);
        assert!(head.starts_with("HTTP/1.1 101"), "{head}");
        for line in [
            &format!("Sec-WebSocket-Protocol: {offered}"),
            "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=",
            "Connection: Upgrade",
            "Upgrade: websocket",
        ] {
            assert!(head.contains(&format!("\r\n{line}\r\n")), "{line}: {head}");
        }
    }
    let (head, _) = raw(relay.address(), "GET", "/live", "");
    assert!(
        head.contains("\r\nContent-Type: ") && head.contains("\r\nCache-Control: "),
        "{head}"
    );
}

#[test]
fn listed_pages_may_embed_images_and_others_not() {
    let network = Network::new();
    let structures = prefix();
    let _server = StructureServer::start(Some(network), &structures);
    let relay = Relay::start(network, &["--allow-origin", SCREENS, PATIENT]);
    let image = patient(&format!("pva:%2F%2F{structures}small_image.png"));
    for (headers, policy) in [
        (String::new(), "same-origin"),
        (
            format!("Referer: {SCREENS}/\r\nSec-Fetch-Site: cross-site\r\n"),
            "cross-origin",
        ),
        (
            format!("Referer: {SCREENS}/a/page.html\r\n"),
            "cross-origin",
        ),
        (
            "Referer: https://evil.example.org/\r\n".to_owned(),
            "same-origin",
        ),
        (
            format!("Referer: {SCREENS}.evil.example.org/\r\n"),
            "same-origin",
        ),
        (
            format!("Referer: {}/\r\n", SCREENS.replace("https", "http")),
            "same-origin",
        ),
    ] {
        let (head, body) = raw(relay.address(), "GET", &image, &headers);
        assert!(
            head.starts_with("HTTP/1.1 200") && body.starts_with(b"\x89PNG"),
            "{head}"
        );
        let expected = format!("\r\nCross-Origin-Resource-Policy: {policy}\r\n");
        assert!(head.contains(&expected), "{headers}: {head}");
    }
    let all = Relay::start(network, &["--allow-origin=*", PATIENT]);
    let (head, _) = raw(all.address(), "GET", &image, "");
    assert!(
        head.contains("\r\nCross-Origin-Resource-Policy: cross-origin\r\n"),
        "{head}"
    );
}

/// Whether a value has the parts of a schema that this project's document uses.
fn fits(document: &Value, schema: &Value, value: &Value) -> bool {
    if let Some(name) = schema["$ref"].as_str() {
        return fits(document, document.pointer(&name[1..]).unwrap(), value);
    }
    if let Some(any) = schema["oneOf"].as_array() {
        return any
            .iter()
            .filter(|each| fits(document, each, value))
            .count()
            == 1;
    }
    let is_type = match schema["type"].as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("number") => value.is_number(),
        _ => true,
    };
    let is_const = schema.get("const").is_none_or(|expected| expected == value);
    let is_known = (schema["enum"].as_array()).is_none_or(|known| known.contains(value));
    let required = schema["required"].as_array().into_iter().flatten();
    let has_required = (required.clone()).all(|key| value.get(key.as_str().unwrap()).is_some());
    let properties = schema["properties"].as_object();
    let fields = value.as_object().into_iter().flatten();
    let has_properties = fields.clone().all(|(key, field)| {
        let known = properties.and_then(|properties| properties.get(key));
        known.map_or(schema["additionalProperties"] != false, |known| {
            fits(document, known, field)
        })
    });
    let elements = value.as_array().map_or(&[][..], Vec::as_slice);
    let has_items = (schema.get("items")).is_none_or(|items| {
        elements
            .iter()
            .all(|element| fits(document, items, element))
    });
    let least = schema["minItems"].as_u64().unwrap_or(0) as usize;
    is_type
        && is_const
        && is_known
        && has_required
        && has_properties
        && has_items
        && (!value.is_array() || elements.len() >= least)
}

#[test]
fn openapi_document_is_served_and_each_answer_fits_it_once() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, DATABASE);
    let relay = Relay::start(
        network,
        &[
            "--enable-put",
            "--allow-put",
            &ioc.name("ao"),
            "--allow-origin",
            SCREENS,
            PATIENT,
        ],
    );
    let answer = get(relay.address(), "/openapi.json", &[("Origin", SCREENS)]);
    assert_eq!(answer.status, 200);
    assert!(
        answer.head.contains("content-type: application/json"),
        "{}",
        answer.head
    );
    assert!(
        answer
            .head
            .contains("access-control-allow-origin: https://screens"),
        "{}",
        answer.head
    );
    let document: Value = serde_json::from_str(&answer.body).unwrap();
    assert!(document["paths"]["/openapi.json"]["get"].is_object());
    let responses = &document["paths"]["/pv/{name}"]["put"]["responses"];
    let ao = ioc.name("ao");
    for (path, body) in [
        (ao.clone(), r#"{"value": 2}"#),
        (ao.clone(), r#"{"value": "two"}"#),
        (ao.clone(), r#"{"value": {}}"#),
        (ao, "nothing"),
        (ioc.name("other"), r#"{"value": 2}"#),
        ("nosuch:%2F%2Fx".to_owned(), r#"{"value": 2}"#),
    ] {
        let got = put(&relay, &path, body);
        let schema = &responses[got.status.to_string()]["content"]["application/json"]["schema"];
        assert!(!schema.is_null(), "{}", got.status);
        assert!(
            fits(&document, schema, &got.json),
            "{}: {}",
            got.status,
            got.json
        );
    }
    let of_put = &document["components"]["schemas"]["Put"];
    for (value, is_good) in [
        (json!(2), true),
        (json!("a"), true),
        (json!(true), true),
        (json!([]), true),
        (json!([1, 2.5]), true),
        (json!(["a"]), true),
        (json!([1, "a"]), false),
        (json!(null), false),
        (json!({}), false),
    ] {
        assert_eq!(
            fits(&document, of_put, &json!({ "value": value })),
            is_good,
            "{value}"
        );
    }
}
