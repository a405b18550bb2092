//! GraphQL over HTTP: queries and mutations under the relay's rules, for pages of other origins, and the page for
//! trying documents.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::Instant;

use serde_json::{Value, json};
use testbed::{Client, DEADLINE, Network, Relay, SoftIoc, file, get, prefix, raw};

use super::client::Client as SocketClient;
use crate::pages::nonce_of;
use crate::put_values::put_all;

const DATABASE: &str = r#"
record(ao, "$(P)ao") { field(VAL, "2.5") field(EGU, "V") field(PREC, "2") field(PINI, "YES") }
record(stringout, "$(P)text") { field(VAL, "hello") field(PINI, "YES") }
record(waveform, "$(P)wave") { field(FTVL, "DOUBLE") field(NELM, "4") field(PINI, "YES") }
record(ao, "$(P)fixed") { field(VAL, "1") field(DISP, "1") field(PINI, "YES") }
"#;

/// Sends a request with a body; returns the status, the headers and the body.
pub(super) fn ask(
    relay: &Relay,
    method: &str,
    path: &str,
    headers: &str,
    body: &str,
) -> (u16, String, String) {
    let address = relay.address();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\nConnection: close\r\n{headers}\r\n{body}"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_ascii_lowercase(), body.to_owned())
}

fn post(relay: &Relay, payload: &Value) -> Value {
    let (status, _, body) = ask(relay, "POST", "/graphql", "", &payload.to_string());
    assert_eq!(status, 200, "{body}");
    serde_json::from_str(&body).unwrap()
}

const PUT: &str = "mutation ($ids: [ID!]!, $values: [String!]!) {
    putChannels(ids: $ids, values: $values) { value { string stringArray } }
}";

fn put(relay: &Relay, ids: &[&str], values: &[&str]) -> Value {
    post(
        relay,
        &json!({"query": PUT, "variables": {"ids": ids, "values": values}}),
    )
}

#[test]
fn queries_and_mutations_are_answered() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, DATABASE);
    let relay = Relay::start(network, &["--coniql", "--enable-put", "--allow-put=*"]);
    let [ao, text, wave, fixed] = ioc.names(["ao", "text", "wave", "fixed"]);
    let query = "query Read($id: ID!) { getChannel(id: $id) { id value { string(units: true) } } }";
    let read = post(
        &relay,
        &json!({"query": query, "operationName": "Read", "variables": {"id": ao}}),
    );
    let channel = json!({"id": format!("ca://{ao}"), "value": {"string": "2.50 V"}});
    assert_eq!(read, json!({"data": {"getChannel": channel}}));
    let absent = "{ getChannel(id: \"ca://nosuch\", timeout: 0.05) { id } }";
    let absent = post(&relay, &json!({"query": absent}));
    assert_eq!(absent["data"], json!({"getChannel": null}));
    assert_eq!(absent["errors"][0]["path"], json!(["getChannel"]));
    let written = put(
        &relay,
        &[&ao, &text, &wave],
        &["3.25", "[1] is text", "[1, 2.5]"],
    );
    let values = json!([
        {"value": {"string": "3.25", "stringArray": null}},
        {"value": {"string": "[1] is text", "stringArray": null}},
        {"value": {"string": "[1, 2.5]", "stringArray": ["1", "2.5"]}},
    ]);
    let shown = written["data"]["putChannels"].as_array().unwrap();
    assert_eq!(
        json!(shown[..2]),
        json!(values.as_array().unwrap()[..2]),
        "{written}"
    );
    assert_eq!(
        shown[2]["value"]["stringArray"].as_array().unwrap().len(),
        2,
        "{written}"
    );
    let refused = put(&relay, &[&fixed, "ssim://sine"], &["2", "2"]);
    assert_eq!(
        refused["data"],
        json!({"putChannels": [null, null]}),
        "{refused}"
    );
    let paths: Vec<_> = refused["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["path"])
        .collect();
    assert_eq!(
        paths,
        [&json!(["putChannels", 0]), &json!(["putChannels", 1])]
    );
}

#[test]
fn put_of_the_value_that_a_pv_has_is_answered_without_a_wait_for_an_update() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, DATABASE);
    let relay = Relay::start(network, &["--coniql", "--enable-put", "--allow-put=*"]);
    let ao = ioc.name("ao");
    put(&relay, &[&ao], &["7"]);
    let begin = std::time::Instant::now();
    let same = put(&relay, &[&ao, &ao], &["7", "7"]);
    assert!(same["errors"].is_null(), "{same}");
    assert!(begin.elapsed().as_secs_f64() < 4.0, "{:?}", begin.elapsed());
}

#[test]
fn puts_need_the_operators_leave() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, DATABASE);
    let relay = Relay::start(network, &["--coniql"]);
    let ao = ioc.name("ao");
    let refused = put(&relay, &[&ao], &["3"]);
    assert_eq!(refused["data"], json!({"putChannels": [null]}));
    assert_eq!(
        refused["errors"][0]["extensions"]["code"], "NOT_ALLOWED",
        "{refused}"
    );
    let read = format!("/ws?query=%7BgetChannel(id:%22{ao}%22)%7Bvalue%7Bstring%7D%7D%7D");
    let read: Value = serde_json::from_str(&get(relay.address(), &read, &[]).body).unwrap();
    assert_eq!(read["data"]["getChannel"]["value"]["string"], "2.50");
}

#[test]
fn put_whose_ioc_dies_before_it_is_done_may_be_written() {
    let network = Network::new();
    let records = r#"record(calcout, "$(P)slow") { field(CALC, "A") field(ODLY, "60") }"#;
    let ioc = SoftIoc::start(network, records);
    let relay = Relay::start(network, &["--coniql", "--enable-put", "--allow-put=*"]);
    let slow = ioc.name("slow.A");
    let mut client = Client::connect(relay.address());
    client.subscribe_live(&[&slow]);
    let mutation = format!(
        r#"mutation {{ putChannels(ids: ["{slow}"], values: ["2"], wait: true, timeout: 60) {{ id }} }}"#
    );
    let answer = thread::scope(|scope| {
        let put = scope.spawn(|| post(&relay, &json!({ "query": mutation })));
        client.wait_number(&slow, 2.0);
        ioc.kill();
        put.join().unwrap()
    });
    let expected = json!({"code": "INTERRUPTED", "mayBeWritten": true});
    assert_eq!(answer["errors"][0]["extensions"], expected, "{answer}");
}

#[test]
fn read_that_fails_has_the_code_of_its_cause() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, DATABASE);
    let [ao, text] = ioc.names(["ao", "text"]);
    let rules = file(
        &format!("{}.toml", prefix().trim_end_matches(':')),
        &format!("[[rule]]\npv = \"{text}\"\ndeny = \"read\"\n"),
    );
    let flags = ["--coniql", "--config", rules.to_str().unwrap()];
    let relay = Relay::start(network, &flags);
    let channel = |name: &str| format!("getChannel(id: \"{name}\") {{ id }}");
    let [denied, refused] = [&text, "nosuch://x"].map(channel);
    let nowhere = ioc.name("nowhere");
    let absent = format!("getChannel(id: \"{nowhere}\", timeout: 0.1) {{ id }}");
    let known = format!("getChannel(id: \"{ao}\") {{ id }}");
    let query =
        format!("{{ denied: {denied} absent: {absent} refused: {refused} known: {known} }}");
    let answer = post(&relay, &json!({ "query": query }));
    let errors = answer["errors"].as_array().unwrap();
    let codes = errors.iter().map(|error| {
        let path = error["path"][0].as_str().unwrap();
        (path, error["extensions"]["code"].as_str().unwrap())
    });
    let expected = [
        ("denied", "NOT_ALLOWED"),
        ("absent", "TIMED_OUT"),
        ("refused", "REFUSED"),
    ];
    assert_eq!(codes.collect::<Vec<_>>(), expected, "{answer}");
}

#[test]
fn requests_that_are_none_and_foreign_pages_are_refused() {
    let allowed = "https://screens.example.org";
    let flags = ["--coniql", "--coniql-graphiql", "--allow-origin", allowed];
    let relay = Relay::start(Network::new(), &flags);
    let query = r#"{"query":"{ __typename }"}"#;
    for (method, path, body, status) in [
        ("POST", "/graphql", query, 200),
        ("POST", "/ws", query, 200),
        ("POST", "/graphql", "", 400),
        ("POST", "/graphql", "[]", 400),
        ("POST", "/graphql", "{}", 400),
        ("POST", "/status", query, 405),
        ("PUT", "/graphql", query, 405),
        ("GET", "/graphql", "", 400),
        ("GET", "/graphql?query=%7B__typename%7D", "", 200),
        ("GET", "/graphql?query=mutation%7B__typename%7D", "", 405),
        (
            "GET",
            "/graphql?query=subscription%7BsubscribeChannel(id:%22x%22)%7Bid%7D%7D",
            "",
            400,
        ),
        ("GET", "/ws", "", 400),
        ("GET", "/ws?query=mutation%7B__typename%7D", "", 400),
        (
            "GET",
            "/ws?query=subscription%7BsubscribeChannel(id:%22x%22)%7Bid%7D%7D",
            "",
            400,
        ),
    ] {
        let answer = ask(&relay, method, path, "", body);
        assert_eq!(answer.0, status, "{method} {path} {body}: {}", answer.2);
    }
    let foreign = "Origin: https://evil.example.org\r\n";
    assert_eq!(ask(&relay, "POST", "/graphql", foreign, query).0, 403);
    let origin = format!("Origin: {allowed}\r\n");
    let shared = format!("access-control-allow-origin: {allowed}");
    let (status, head, _) = ask(&relay, "POST", "/graphql", &origin, query);
    assert!(status == 200 && head.contains(&shared), "{head}");
    let asked = format!("{origin}Access-Control-Request-Headers: content-type,x-mine\r\n");
    let (status, head, _) = ask(&relay, "OPTIONS", "/graphql", &asked, "");
    let headers = "access-control-allow-headers: content-type,x-mine";
    assert!(
        status == 204 && head.contains(&shared) && head.contains(headers),
        "{head}"
    );
    let off = Relay::start(Network::new(), &[]);
    assert_eq!(get(off.address(), "/graphiql", &[]).status, 404);
    assert_eq!(ask(&off, "POST", "/graphql", "", query).0, 405);
}

#[test]
fn batch_is_answered_by_a_list_in_its_order() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, DATABASE);
    let relay = Relay::start(network, &["--coniql", "--enable-put", "--allow-put=*"]);
    let [ao, text, nowhere] = ioc.names(["ao", "text", "nowhere"]);
    let read = |name: &str, seconds: f64| {
        let query = format!(
            "{{ getChannel(id: \"{name}\", timeout: {seconds}) {{ value {{ string }} }} }}"
        );
        json!({ "query": query })
    };
    let absent = read(&nowhere, 3.0);
    let begin = std::time::Instant::now();
    let batch = json!([
        absent,
        read(&ao, 20.0),
        {"query": "{ nothing }"},
        {},
        {"query": PUT, "variables": {"ids": [text], "values": ["new"]}},
        absent,
        absent,
        absent,
    ]);
    let answers = post(&relay, &batch);
    // Those that wait for a PV wait side by side.
    assert!(
        begin.elapsed().as_secs_f64() < 11.0,
        "{:?}",
        begin.elapsed()
    );
    let answers = answers.as_array().unwrap();
    assert_eq!(answers.len(), 8);
    assert_eq!(answers[1]["data"]["getChannel"]["value"]["string"], "2.50");
    for (index, has_data) in [(0, true), (2, false), (3, false), (5, true)] {
        let answer = &answers[index];
        assert!(answer["errors"][0]["message"].is_string(), "{answer}");
        assert_eq!(answer.get("data").is_some(), has_data, "{answer}");
    }
    assert_eq!(
        answers[4]["data"]["putChannels"][0]["value"]["string"],
        "new"
    );
    for (body, why) in [
        ("[]", "one or more"),
        (&*format!("[{}1]", "1,".repeat(50)), "at most 50"),
    ] {
        let (status, _, answer) = ask(&relay, "POST", "/graphql", "", body);
        assert!(status == 400 && answer.contains(why), "{answer}");
    }
}

#[test]
fn page_of_an_allowed_origin_reads_why_its_request_is_refused() {
    let allowed = "https://screens.example.org";
    let flags = [
        "--coniql",
        "--allow-origin",
        allowed,
        "--max-clients=1",
        "--max-new-connections-per-s=1",
        "--trusted-proxy=127.0.0.1",
    ];
    let relay = Relay::start(Network::new(), &flags);
    let query = r#"{"query":"{ __typename }"}"#;
    let refused = |method: &str, origin: &str, more: &str, body: &str| {
        let headers = format!("Origin: {origin}\r\n{more}");
        ["/graphql", "/ws"].map(|path| {
            let (status, head, _) = ask(&relay, method, path, &headers, body);
            let shared = format!("access-control-allow-origin: {allowed}\r\n");
            let is_shared = format!("{head}\r\n").contains(&shared);
            (status, is_shared)
        })
    };
    let long = " ".repeat((1 << 20) + 1);
    assert_eq!(refused("POST", allowed, "", &long), [(413, true); 2]);
    assert_eq!(refused("PUT", allowed, "", query), [(405, true); 2]);
    let foreign = "https://evil.example.org";
    assert_eq!(refused("POST", foreign, "", query), [(403, false); 2]);
    let only_client = Client::connect(relay.address());
    assert_eq!(refused("POST", allowed, "", query), [(503, true); 2]);
    drop(only_client);
    let from = "X-Forwarded-For: 192.0.2.1\r\n";
    let too_fast = (0..60).map(|_| refused("POST", allowed, from, query));
    let too_fast = too_fast.flatten().find(|(status, _)| *status == 429);
    assert_eq!(too_fast, Some((429, true)));
}

#[test]
fn body_that_is_broken_is_not_called_too_long() {
    let relay = Relay::start(Network::new(), &["--coniql"]);
    let address = relay.address();
    for (path, length, body) in [
        ("/graphql", "Transfer-Encoding: chunked", "no chunk\r\n"),
        ("/ws", "Transfer-Encoding: chunked", "no chunk\r\n"),
        ("/graphql", "Content-Length: 30", "{"),
    ] {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let head = format!("POST {path} HTTP/1.1\r\nHost: {address}\r\n{length}\r\n\r\n");
        stream.write_all((head + body).as_bytes()).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let is_told = answer.starts_with("HTTP/1.1 400 ") && answer.contains("can't be read");
        assert!(is_told, "{path} {length}: {answer}");
    }
}

#[test]
fn list_of_large_responses_stays_within_the_memory_of_its_client() {
    let flags = ["--coniql", "--enable-sim", "--max-memory-mib=64"];
    let mut relay = Relay::start(Network::new(), &flags);
    let channel = |n: usize| {
        let id = "sim://waveform(125000,rate_hz=1)";
        format!("a{n}: getChannel(id: \"{id}\") {{ value {{ base64Array {{ base64 }} }} }} ")
    };
    let query = format!("{{ {} }}", (0..8).map(channel).collect::<String>());
    let list = vec![json!({ "query": query }); 16];
    let before = peak_bytes(&mut relay);
    let (status, _, body) = ask(&relay, "POST", "/graphql", "", &json!(list).to_string());
    let grown = peak_bytes(&mut relay) - before;
    let start: String = body.chars().take(200).collect();
    assert!(grown < 75 << 20, "{grown} bytes; {status}: {start}");
    // The client is told, and the next one is served.
    assert!(status == 503 || body.contains("REFUSED"), "{start}");
    let one = json!({ "query": format!("{{ {} }}", channel(0)) }).to_string();
    let end = Instant::now() + DEADLINE;
    let answer = loop {
        let (status, _, body) = ask(&relay, "POST", "/graphql", "", &one);
        // On a busy machine the rest of the list takes longer than a request waits.
        if status == 200 {
            break body;
        }
        assert!(status == 503 && Instant::now() < end, "{status}: {body}");
    };
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert!(answer["errors"].is_null(), "{}", answer["errors"]);
}

/// The most memory that the relay has occupied.
fn peak_bytes(relay: &mut Relay) -> usize {
    let status = relay.proc("status");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = peak.unwrap().trim().trim_end_matches(" kB");
    1024 * kib.parse::<usize>().unwrap()
}

#[test]
fn body_that_is_much_too_long_is_told_so() {
    let relay = Relay::start(Network::new(), &["--coniql"]);
    let body = "x".repeat(20 << 20);
    let (status, _, told) = ask(&relay, "POST", "/graphql", "", &body);
    assert_eq!(
        (status, told.as_str()),
        (413, "a request may have at most 1 MiB\n")
    );
}

/// Elements of a batch whose puts are done; the others are refused for `max_puts_per_s`.
fn done(answers: &[Value]) -> Vec<usize> {
    let is_done = |answer: &Value| {
        let errors = answer["errors"].as_array();
        for error in errors.into_iter().flatten() {
            let why = error["message"].as_str().unwrap();
            assert!(why.contains("max_puts_per_s"), "{answer}");
            assert_eq!(error["extensions"]["code"], "NOT_ALLOWED", "{answer}");
        }
        let count = answer["data"]["putChannels"].as_array().unwrap().len();
        let errors = errors.map_or(0, Vec::len);
        assert!(errors == 0 || errors == count, "all or none: {answer}");
        errors == 0
    };
    let done = answers.iter().enumerate().filter(|(_, it)| is_done(it));
    done.map(|(at, _)| at).collect()
}

/// A mutation that writes this PV so often.
fn puts(name: &str, count: usize) -> Value {
    let variables = json!({"ids": vec![name; count], "values": vec!["7"; count]});
    json!({"query": PUT, "variables": variables})
}

#[test]
fn batch_writes_no_more_than_max_puts_per_s() {
    let network = Network::new();
    let records = (0..4).map(|n| {
        format!("record(ao, \"$(P)set{n}\") {{ field(VAL, \"1\") field(PINI, \"YES\") }}\n")
    });
    let ioc = SoftIoc::start(network, &records.collect::<String>());
    let flags = [
        "--coniql",
        "--enable-put",
        "--allow-put=*",
        "--max-puts-per-s=1",
    ];
    let relay = Relay::start(network, &flags);
    let names = ioc.names(["set0", "set1", "set2", "set3"]);
    let batch: Value = names.iter().map(|name| puts(name, 8)).collect();
    let answers = post(&relay, &batch);
    // Ten at once. The order in which the elements of a batch are carried out isn't theirs.
    let done = done(answers.as_array().unwrap());
    assert_eq!(done.len(), 1, "{answers}");
    for (at, name) in names.iter().enumerate() {
        let query = format!("{{ getChannel(id: \"{name}\") {{ value {{ float }} }} }}");
        let value = post(&relay, &json!({ "query": query }));
        let expected = if done.contains(&at) { 7.0 } else { 1.0 };
        let found = &value["data"]["getChannel"]["value"]["float"];
        assert_eq!(found.as_f64(), Some(expected), "{name}: {value}");
    }
    let ordinary = json!([puts(&names[0], 2), puts(&names[1], 2)]);
    let answers = post(&relay, &ordinary);
    assert!(
        answers[0]["errors"].is_null() && answers[1]["errors"].is_null(),
        "{answers}"
    );
}

#[test]
fn new_connections_write_no_more_than_their_address_may() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, DATABASE);
    let flags = [
        "--coniql",
        "--enable-put",
        "--allow-put=*",
        "--max-puts-per-s=1",
        "--trusted-proxy=127.0.0.1",
    ];
    let relay = Relay::start(network, &flags);
    let ao = ioc.name("ao");
    let write = |from: &str| {
        let headers = format!("X-Forwarded-For: {from}\r\n");
        let (status, _, body) = ask(
            &relay,
            "POST",
            "/graphql",
            &headers,
            &puts(&ao, 8).to_string(),
        );
        assert_eq!(status, 200, "{body}");
        let answer: Value = serde_json::from_str(&body).unwrap();
        !done(&[answer]).is_empty()
    };
    // Five times ten at once, and five a second.
    let first = (0..40).position(|_| !write("192.0.2.1"));
    assert!(first.is_some_and(|first| first >= 6), "{first:?}");
    assert!(write("192.0.2.2"), "another address");
}

#[test]
fn body_of_a_client_that_is_refused_is_not_read() {
    let relay = Relay::start(Network::new(), &["--coniql", "--max-clients=1"]);
    let address = relay.address();
    let begin = |path: &str| {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let head =
            format!("POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Length: 1000000\r\n\r\n{{");
        stream.write_all(head.as_bytes()).unwrap();
        stream
    };
    // It counts as a client, and its body is charged, while the rest of it is awaited.
    let _first = begin("/graphql");
    relay.wait_metric("pvwire_memory_charged_bytes", 1_000_000.0);
    let mut second = begin("/ws");
    let mut answer = String::new();
    second.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
}

#[test]
fn value_that_is_named_many_times_is_charged_before_it_is_written() {
    let flags = ["--coniql", "--max-memory-per-client-mib=8"];
    let relay = Relay::start(Network::new(), &flags);
    let query = |times: usize| {
        let fields: String = (0..times).map(|n| format!("a{n}: float64Array ")).collect();
        let name = "sim://waveform(size=25000,rate_hz=1)";
        json!({"query": format!("{{ getChannel(id: \"{name}\") {{ value {{ {fields} }} }} }}")})
    };
    let one = post(&relay, &query(1));
    let array = one["data"]["getChannel"]["value"]["a0"].as_array();
    assert_eq!(array.map(Vec::len), Some(25_000), "{}", one["errors"]);
    let many = post(&relay, &query(31));
    assert!(many["data"]["getChannel"].is_null());
    let why = many["errors"][0]["message"].as_str().unwrap();
    assert!(why.contains("max_memory_per_client_mib"), "{why}");
    let mut client = SocketClient::begin(&relay);
    client.send(&json!({"type": "subscribe", "id": "1", "payload": query(31)}));
    let answer = client.next()["payload"].take();
    assert!(answer["data"]["getChannel"].is_null());
    let why = answer["errors"][0]["message"].as_str().unwrap();
    assert!(why.contains("max_memory_per_client_mib"), "{why}");
}

#[test]
fn refused_requests_have_errors_as_clients_of_graphql_read_them() {
    let relay = Relay::start(Network::new(), &["--coniql"]);
    let modern = "Accept: application/graphql-response+json, application/json;q=0.9\r\n";
    for (accept, content_type, of_document) in [
        ("", "application/json", 200),
        (modern, "application/graphql-response+json", 400),
    ] {
        for (method, path, body, status) in [
            ("POST", "/graphql", "nothing", 400),
            ("POST", "/graphql", "{}", 400),
            (
                "POST",
                "/graphql",
                r#"{"query":"{ nothing }"}"#,
                of_document,
            ),
            ("POST", "/graphql", r#"{"query":"{"}"#, of_document),
            ("GET", "/graphql", "", 400),
            ("GET", "/graphql?query=%7Bnothing%7D", "", of_document),
            ("GET", "/graphql?query=mutation%7B__typename%7D", "", 405),
            (
                "POST",
                "/graphql",
                r#"{"query":"subscription { subscribeChannel(id: \"x\") { id } }"}"#,
                400,
            ),
        ] {
            let (found, head, answer) = ask(&relay, method, path, accept, body);
            assert_eq!(found, status, "{method} {path} {body}: {answer}");
            assert!(
                head.contains(&format!("content-type: {content_type}")),
                "{head}"
            );
            assert_eq!(head.contains("\r\nallow: post"), status == 405, "{head}");
            let answer: Value = serde_json::from_str(&answer).unwrap();
            assert!(answer["errors"][0]["message"].is_string(), "{answer}");
        }
        let (status, head, _) = ask(
            &relay,
            "POST",
            "/graphql",
            accept,
            r#"{"query":"{ __typename }"}"#,
        );
        assert!(status == 200 && head.contains(content_type), "{head}");
    }
    // Apollo asks for documents by their hash first.
    let hash = r#"{"extensions":{"persistedQuery":{"version":1,"sha256Hash":"a"}}}"#;
    let (status, _, answer) = ask(&relay, "POST", "/graphql", "", hash);
    assert!(
        status == 200 && answer.contains("PERSISTED_QUERY_NOT_SUPPORTED"),
        "{answer}"
    );
}

#[test]
fn graphiql_is_whole_in_the_relay() {
    let relay = Relay::start(Network::new(), &["--coniql", "--coniql-graphiql"]);
    let page = get(relay.address(), "/graphiql", &[]);
    assert_eq!(page.status, 200);
    assert!(page.body.contains("graphql-transport-ws") && !page.body.contains("http:"));
    // Browsers get it where documents go, too.
    let html = [("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")];
    let second = get(relay.address(), "/graphql", &html);
    let nonces = [&page, &second].map(nonce_of);
    assert_ne!(nonces[0], nonces[1]);
    let renamed = second.body.replace(&nonces[1], &nonces[0]);
    assert_eq!(renamed, page.body);
    let mut files = 0;
    for part in page.body.split('"') {
        assert!(
            !part.starts_with("http") && !part.starts_with("//"),
            "{part}"
        );
        if part.starts_with("graphiql/") {
            files += 1;
            let path = format!("/{part}");
            let (status, head, body) = compressed(&relay, &path);
            assert_eq!(status, 200, "{path}");
            assert!(head.contains("content-encoding: gzip"), "{head}");
            assert!(
                body.starts_with(b"\x1f\x8b") && body.len() < 600_000,
                "{} bytes",
                body.len()
            );
            let plain = get(relay.address(), &path, &[]);
            assert_eq!(plain.status, 406, "{path}");
        }
    }
    assert_eq!(files, 2, "a script and a style sheet");
    let off = Relay::start(Network::new(), &["--coniql"]);
    assert_eq!(get(off.address(), "/graphiql", &[]).status, 404);
    assert_eq!(get(off.address(), "/graphql", &html).status, 400);
}

/// Status, headers and body of an answer that may be compressed.
fn compressed(relay: &Relay, path: &str) -> (u16, String, Vec<u8>) {
    let (head, body) = raw(
        relay.address(),
        "GET",
        path,
        "Accept-Encoding: gzip, br\r\n",
    );
    let head = head.to_ascii_lowercase();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), head, body)
}

#[test]
fn put_by_coniql_is_what_the_pv_holds_or_changes_nothing() {
    put_all(&["--coniql"], |relay, name, json, is_refused| {
        // Coniql writes texts.
        let text = serde_json::from_str(json).unwrap_or_else(|_| json.to_owned());
        let written = put(relay, &[name], &[&text]);
        let errors = &written["errors"];
        assert_eq!(!errors.is_null(), is_refused, "{name} {json}: {written}");
    });
}
