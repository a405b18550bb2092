//! Identities, origins, rules and limits of requests by plain HTTP: bodies that are too long, and a PV whose IOC hangs.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;

use testbed::{Client, DEADLINE, Network, Relay, SoftIoc, eventually, file, prefix};

use super::client::{Events, PATIENT, encoded, get, patient, request};
use crate::tokens::{Issuer, claims, flags, key_set};

const DATABASE: &str = r#"
record(ao, "$(P)ao") { field(VAL, "1") field(PINI, "YES") }
record(ao, "$(P)secret") { field(VAL, "1") field(PINI, "YES") }
"#;

#[test]
fn requests_follow_rules_identities_and_origins() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, DATABASE);
    let [ao, secret] = ioc.names(["ao", "secret"]);
    let rules = file(
        &format!("{}.toml", prefix().trim_end_matches(':')),
        &format!("[[rule]]\nuser = \"john\"\npv = \"{secret}\"\ndeny = \"read\"\n"),
    );
    let relay = Relay::start(
        network,
        &[
            PATIENT,
            "--auth=trusted-header",
            "--trusted-proxy=127.0.0.1",
            "--allow-origin=https://screens.example.org",
            "--config",
            rules.to_str().unwrap(),
        ],
    );
    let ask = |method: &str, name: &str, headers: &[(&str, &str)]| {
        request(relay.address(), method, &patient(name), headers, "")
    };
    let [john, jane] = ["john", "jane"].map(|user| ("X-Forwarded-User", user));
    assert_eq!(ask("GET", &secret, &[]).status, 401);
    for path in [secret.clone(), format!("{secret}/stream")] {
        let refused = ask("GET", &path, &[john]);
        assert_eq!(refused.status, 403, "{}", refused.json);
        let why = refused.json["error"].as_str().unwrap();
        assert!(why.contains("may not read this PV"), "{why}");
    }
    assert_eq!(relay.metric("pvwire_monitors_active"), 0.0, "not searched");
    assert_eq!(ask("GET", &secret, &[jane]).status, 200);
    assert_eq!(ask("GET", &ao, &[john]).status, 200);

    let page = ("Origin", "https://screens.example.org");
    let foreign = ("Origin", "https://elsewhere.example.org");
    let allowed = "access-control-allow-origin: https://screens.example.org";
    for (method, name) in [("GET", &ao), ("OPTIONS", &ao)] {
        let answer = ask(method, name, &[page, jane]);
        assert!((200..300).contains(&answer.status), "{}", answer.head);
        assert!(answer.head.contains(allowed), "{}", answer.head);
        let refused = ask(method, name, &[foreign, jane]);
        assert_eq!(refused.status, 403);
        assert!(!refused.head.contains("access-control"), "{}", refused.head);
    }
    // A page learns why it was refused.
    assert!(ask("GET", &secret, &[page, john]).head.contains(allowed));
}

#[test]
fn bearer_token_is_the_identity_of_a_request() {
    let issuer = Issuer::es256("one");
    let keys = file("keys_plain_http.json", &key_set(&[&issuer]));
    let network = Network::new();
    let ioc = SoftIoc::start(network, DATABASE);
    let all = flags(keys.to_str().unwrap());
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let relay = Relay::start(network, &all);
    let path = patient(&ioc.name("ao"));
    let ask = |token: Option<&str>| {
        let header = token.map(|token| format!("Bearer {token}"));
        let headers: Vec<_> = (header.iter())
            .map(|header| ("Authorization", header.as_str()))
            .collect();
        request(relay.address(), "GET", &path, &headers, "")
    };
    let without = ask(None);
    assert_eq!(without.status, 401, "{}", without.json);
    assert!(
        without.head.contains("www-authenticate: bearer"),
        "{}",
        without.head
    );
    let bad = ask(Some("x"));
    assert_eq!(bad.status, 401, "{}", bad.json);
    assert!(
        bad.json["error"]
            .as_str()
            .unwrap()
            .contains("not a JSON Web Token"),
        "{}",
        bad.json
    );
    let good = ask(Some(&issuer.token(&claims("jane"))));
    assert_eq!(good.status, 200, "{}", good.json);
}

#[test]
fn requests_count_as_clients() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, DATABASE);
    let ao = ioc.name("ao");
    let relay = Relay::start(network, &["--max-clients", "1"]);
    let client = Client::connect(relay.address());
    let refused = get(&relay, &ao);
    assert_eq!(refused.status, 503, "{}", refused.json);
    assert!(
        refused.json["error"].as_str().unwrap().contains("full"),
        "{}",
        refused.json
    );
    drop(client);
    eventually("the other client is gone", || {
        get(&relay, &ao).status == 200
    });
    // One that has its answer is gone as well.
    eventually("the next request is answered", || {
        get(&relay, &ao).status == 200
    });

    let flags = ["--max-memory-per-client-mib=1", "--linger-ms=100"];
    let small = Relay::start(network, &flags);
    let large = get(&small, "sim:%2F%2Fwaveform(size=100000)");
    assert_eq!(large.status, 503, "{}", large.head);
    let why = large.json["error"].as_str().unwrap();
    assert!(why.contains("max_memory_per_client_mib"), "{why}");
    eventually("nothing stays charged", || {
        small.metric("pvwire_memory_charged_bytes") == 0.0
    });
}

/// Longest body that is taken.
const MOST: usize = 1 << 20;

/// The status of the answer to a body of spaces.
fn status(relay: &Relay, method: &str, path: &str, length: usize) -> u16 {
    let address = relay.address();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(&vec![b' '; length]).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

#[test]
fn bodies_above_a_mebibyte_are_refused() {
    let flags = ["--coniql", "--enable-put", "--allow-put=*"];
    let relay = Relay::start(Network::new(), &flags);
    for (method, path) in [
        ("PUT", "/pv/NOSUCH:PV"),
        ("POST", "/graphql"),
        ("POST", "/ws"),
    ] {
        assert_eq!(status(&relay, method, path, MOST), 400, "{method} {path}");
        let refused = status(&relay, method, path, MOST + 1);
        assert_eq!(refused, 413, "{method} {path}");
    }
    // The route documents it.
    let body = " ".repeat(MOST + 1);
    let refused = request(relay.address(), "PUT", "/pv/NOSUCH:PV", &[], &body);
    assert_eq!(refused.status, 413, "{}", refused.json);
    eventually("nothing stays charged", || {
        relay.metric("pvwire_memory_charged_bytes") == 0.0
    });
}

#[test]
fn pv_of_a_hung_ioc_answers_503_with_its_last_value() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, DATABASE);
    let relay = Relay::start(network, &[PATIENT]);
    let ao = ioc.name("ao");
    let mut held = Events::open(&relay, &format!("{ao}/stream"));
    held.wait("the first value", |pv| pv["value"]["float"] == 1);
    ioc.hang();
    held.wait("its silence", |pv| pv["connection"]["connected"] == false);
    let got = get(&relay, &ao);
    assert_eq!(got.status, 503, "{}", got.json);
    let why = got.json["error"].as_str().unwrap();
    assert!(why.contains("doesn't respond"), "{why}");
    assert_eq!(got.json["pv"]["value"]["float"], 1, "{}", got.json);
    ioc.resume();
    eventually("the value is current again", || {
        get(&relay, &ao).status == 200
    });
}

#[test]
fn selection_that_names_an_array_many_times_is_refused_before_it_is_copied() {
    let relay = Relay::start(Network::new(), &["--max-memory-per-client-mib=64"]);
    let fields = (0..800).map(|n| format!("a{n}:array,"));
    let select = format!("{{value{{{}}}}}", fields.collect::<String>());
    let path = "sim:%2F%2Fwaveform(size=100000,rate_hz=1)";
    let get_fields = |fields: &str| get(&relay, &format!("{path}?select={}", encoded(fields)));
    let one = get_fields("{value{array}}");
    assert_eq!(one.status, 200, "{}", one.head);
    let before = relay.resident_bytes();
    let many = get_fields(&select);
    assert_eq!(many.status, 503, "{}", many.head);
    let why = many.json["error"].as_str().unwrap();
    assert!(why.contains("max_memory_per_client_mib"), "{why}");
    let status = relay.proc("status");
    let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let most = most.unwrap().trim().trim_end_matches(" kB");
    // 800 copies take 640 MB.
    let most = most.parse::<usize>().unwrap() << 10;
    assert!(most < before + (200 << 20), "{most} bytes, {before} before");
    let stream = format!("{path}/stream?select={}", encoded(&select));
    let mut events = Events::open(&relay, &stream);
    assert_eq!(events.next().unwrap().0, "end");
}

#[test]
fn selections_are_compiled_within_their_clients_cpu_time() {
    let flags = [
        "--trusted-proxy=127.0.0.1",
        "--max-cpu-per-address-ms-per-s=1",
    ];
    let relay = Relay::start(Network::new(), &flags);
    let fields = (0..900).map(|n| format!("a{n}:float,"));
    let select = encoded(&format!("{{value{{{}}}}}", fields.collect::<String>()));
    let ask = |from: &str, select: &str| {
        let path = format!("/pv/sim:%2F%2Fcounter(rate_hz=1)?select={select}");
        let headers = [("X-Forwarded-For", from)];
        request(relay.address(), "GET", &path, &headers, "")
    };
    // What an address may compute in the time in which requests wait is far less than these need.
    let all: Vec<_> = thread::scope(|scope| {
        let large = || ask("192.0.2.7", &select);
        let all: Vec<_> = (0..200).map(|_| scope.spawn(large)).collect();
        // A short one: on a slow machine its own time is too short for a large one.
        assert_eq!(ask("192.0.2.8", &encoded("{value{float}}")).status, 200);
        all.into_iter().map(|got| got.join().unwrap()).collect()
    });
    let refused = all.iter().find(|got| got.status != 200);
    let refused = refused.expect("a refusal");
    assert_eq!(refused.status, 429, "{}", refused.json);
    let why = refused.json["error"].as_str().unwrap();
    assert!(why.contains("max_cpu_per_address_ms_per_s"), "{why}");
}

#[test]
fn stream_takes_one_descriptor() {
    let relay = Relay::start(Network::new(), &[]);
    let open = || relay.metric("process_open_fds");
    let path = "sim:%2F%2Fcounter(rate_hz=1)/stream";
    let first = Events::open(&relay, path);
    let before = open();
    let mut streams: Vec<_> = (0..20).map(|_| Events::open(&relay, path)).collect();
    for stream in &mut streams {
        stream.wait("a value", |pv| pv["value"]["number"].is_number());
    }
    let taken = open() - before;
    assert!((18.0..=22.0).contains(&taken), "{taken} descriptors");
    drop((first, streams));
    eventually("all clients are gone", || {
        relay.metric("pvwire_sessions_active") == 0.0
    });
}
