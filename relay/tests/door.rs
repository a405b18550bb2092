//! Origins, host names, handshakes and pages: which requests the relay accepts, and how it refuses
//! others.
//!
//! Topology: one relay, plain HTTP requests or one or two clients; an IOC where a PV is needed.

use pvwire_schema::types::{Filter, RequestBody};
use testbed::{
    Client, Network, Relay, SoftIoc, eventually, get, handshake, handshake_at, relay_command,
};
pub(crate) fn relay(flags: &[&str]) -> Relay {
    Relay::start(Network::new(), flags)
}

pub(crate) fn subscribe(names: Vec<String>) -> RequestBody {
    let filter = Filter::default();
    RequestBody::Subscribe { names, filter }
}

#[test]
fn page_of_the_own_host_or_a_listed_one_may_connect_others_not() {
    let relay = relay(&["--allow-origin", "https://screens.example.org"]);
    let address = relay.address();
    let own = format!("http://{address}");
    let other_port = "http://127.0.0.1:1";
    for (origin, status) in [
        ("", 101),
        (own.as_str(), 101),
        ("https://screens.example.org", 101),
        ("http://screens.example.org", 403),
        ("https://evil.test", 403),
        (other_port, 403),
        ("null", 403),
    ] {
        let answer = handshake(address, &[("Origin", origin)]);
        assert_eq!(answer.status, status, "{origin}: {}", answer.head);
    }
    assert_eq!(relay.metric("pvwire_handshakes_refused_total"), 4.0);
}

#[test]
fn http_page_may_not_connect_where_a_proxy_says_https() {
    let relay = relay(&[]);
    let address = relay.address();
    for (scheme, forwarded, status) in [
        ("http", "https", 403),
        ("https", "https", 101),
        ("http", "http", 101),
        ("https", "http", 101),
    ] {
        let own = format!("{scheme}://{address}");
        let headers = [("Origin", own.as_str()), ("X-Forwarded-Proto", forwarded)];
        let answer = handshake(address, &headers);
        assert_eq!(
            answer.status, status,
            "{own} by {forwarded}: {}",
            answer.head
        );
    }
}

#[test]
fn page_of_a_foreign_origin_is_refused_however_it_is_spelled() {
    let relay = relay(&[
        "--allow-origin=https://screens.example.org",
        "--allow-host=pvwire.example.org",
        "--enable-put",
        "--allow-put=*",
    ]);
    let address = relay.address();
    let (port, host) = (address.port(), address.to_string());
    let own = format!("http://{host}");
    let foreign = [
        "https://screens.example.org.evil.test".to_owned(),
        "https://screens.example.org:8443".to_owned(),
        "https://screens.example.org/".to_owned(),
        "https://screens.example.org@evil.test".to_owned(),
        "https://evil.test#https://screens.example.org".to_owned(),
        "https://evilscreens.example.org".to_owned(),
        "https://sub.screens.example.org".to_owned(),
        "https://screens.example.org.".to_owned(),
        "https://screens.example.org https://evil.test".to_owned(),
        "https://evil.test, https://screens.example.org".to_owned(),
        "screens.example.org".to_owned(),
        "ftp://screens.example.org".to_owned(),
        "file://".to_owned(),
        "null".to_owned(),
        "*".to_owned(),
        "http://".to_owned(),
        "chrome-extension://abcdefgh".to_owned(),
        format!("{own}.evil.test"),
        format!("{own}/"),
        format!("http://evil.test@{host}"),
        format!("http://localhost:{port}"),
        format!("http://0.0.0.0:{port}"),
        format!("http://[::1]:{port}"),
        format!("file://{host}"),
        "http://127.0.0.1".to_owned(),
        "http://pvwire.example.org".to_owned(),
    ];
    for origin in &foreign {
        let answer = handshake(address, &[("Origin", origin)]);
        assert_eq!(answer.status, 403, "{origin}: {}", answer.head);
    }
    let two = [("Origin", own.as_str()), ("Origin", "https://evil.test")];
    assert_eq!(handshake(address, &two).status, 403, "two origins");
    let two = [("Host", host.as_str()), ("Host", "evil.test")];
    assert!(
        [400, 421].contains(&handshake(address, &two).status),
        "two hosts"
    );
    // The page of a name that also resolves to this host, as after DNS rebinding: same origin,
    // wrong host.
    let rebound = [("Host", "evil.test"), ("Origin", "http://evil.test")];
    assert_eq!(handshake(address, &rebound).status, 421);
    assert_eq!(relay.metric("pvwire_sessions_active"), 0.0);
}

#[test]
fn page_of_any_origin_may_connect_to_a_read_only_relay_if_told() {
    let relay = relay(&["--allow-origin=*"]);
    for origin in ["https://evil.test", "null"] {
        let answer = handshake(relay.address(), &[("Origin", origin)]);
        assert_eq!(answer.status, 101, "{origin}");
    }
    let rebound = [("Host", "evil.test"), ("Origin", "http://evil.test")];
    assert_eq!(handshake(relay.address(), &rebound).status, 421);

    let mut command = relay_command(Network::new());
    let started = command
        .args(["--allow-origin=*", "--enable-put"])
        .output()
        .unwrap();
    assert_eq!(started.status.code(), Some(64));
    let said = String::from_utf8(started.stderr).unwrap();
    assert!(said.contains("allow_origin is \"*\""), "{said}");
}

#[test]
fn status_shows_which_client_takes_how_much_and_who_that_is() {
    let flags = ["--auth=trusted-header", "--trusted-proxy=127.0.0.1"];
    let relay = relay(&flags);
    let connect = |user| Client::connect_with(relay.address(), &[("X-Forwarded-User", user)]);
    let (mut busy, mut quiet, mut streaming) = (connect("jane"), connect("joe"), connect("jack"));
    let fast = "sim://counter(rate_hz=100)";
    busy.subscribe_live(&[fast]);
    quiet.ask(RequestBody::Ping { client_time_ns: 1 });
    streaming.fetch_large();
    streaming.subscribe_live(&["sim://waveform(100000,rate_hz=10)"]);
    let mut bytes_of = |user: &str| {
        busy.read_for_a_moment();
        let status = get(relay.address(), "/status", &[]).body;
        let status: serde_json::Value = serde_json::from_str(&status).unwrap();
        let clients = status["clientList"].as_array().unwrap();
        assert_eq!(clients.len(), 3, "{clients:?}");
        let all: Vec<_> = clients
            .iter()
            .map(|client| client["bytes"].as_u64())
            .collect();
        assert!(all.is_sorted_by(|a, b| a >= b), "most first: {all:?}");
        let client = clients.iter().find(|client| client["user"] == user);
        let address = client.unwrap()["address"].as_str().unwrap();
        assert!(address.starts_with("127.0.0.1:"), "{address}");
        client.unwrap()["bytes"].as_u64().unwrap()
    };
    let (first, still) = (bytes_of("jane"), bytes_of("joe"));
    eventually("it gets more", || bytes_of("jane") > first + 1000);
    assert_eq!(bytes_of("joe"), still);
    eventually("of the stream, too", || bytes_of("jack") > 800_000);
}

#[test]
fn relay_that_is_called_by_a_foreign_name_answers_only_probes() {
    let relay = relay(&["--allow-host", "pvwire.example.org"]);
    let address = relay.address();
    for (host, status) in [
        ("evil.test", 421),
        ("localhost.evil.test:80", 421),
        ("pvwire.example.org", 200),
        ("localhost", 200),
        ("127.0.0.1:1", 200),
        ("[::1]", 200),
    ] {
        for path in ["/", "/status", "/metrics"] {
            let answer = get(address, path, &[("Host", host)]);
            assert_eq!(answer.status, status, "{host}{path}");
        }
        let shake = handshake(address, &[("Host", host)]);
        assert_eq!(
            shake.status,
            if status == 200 { 101 } else { 421 },
            "{host}"
        );
    }
    assert_eq!(get(address, "/live", &[("Host", "evil.test")]).status, 200);
    assert_eq!(get(address, "/ready", &[("Host", "evil.test")]).status, 200);
}

#[test]
fn handshake_without_what_it_needs_is_refused() {
    let relay = relay(&[]);
    let address = relay.address();
    let status = |headers: &[(&str, &str)]| handshake(address, headers).status;
    assert_eq!(status(&[("Sec-WebSocket-Protocol", "")]), 400);
    assert_eq!(status(&[("Sec-WebSocket-Protocol", "pvwire.v2")]), 400);
    assert_eq!(status(&[("Sec-WebSocket-Key", "")]), 400);
    assert_eq!(status(&[("Sec-WebSocket-Version", "8")]), 426);
    assert_eq!(status(&[("Upgrade", "")]), 426);

    let several = [("Sec-WebSocket-Protocol", "pvwire.v2, pvwire.v1")];
    let answer = handshake(address, &several);
    assert_eq!(answer.status, 101);
    assert!(
        answer
            .head
            .contains("sec-websocket-protocol: pvwire.v1\r\n"),
        "{}",
        answer.head
    );
    let packed = [("Sec-WebSocket-Protocol", "pvwire.v1.lz4, pvwire.v1")];
    let answer = handshake(address, &packed);
    let taken = "sec-websocket-protocol: pvwire.v1.lz4\r\n";
    assert!(answer.head.contains(taken), "{}", answer.head);
    // For this key, by RFC 6455.
    let accept = "sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo=";
    assert!(answer.head.contains(accept), "{}", answer.head);
    assert!(!answer.head.contains("sec-websocket-extensions"));
}

#[test]
fn own_clients_connect_where_the_doors_are_open() {
    let relay = relay(&["--pvws", "--coniql"]);
    for (offered, chosen) in [
        ("pvwire.v1", "pvwire.v1"),
        ("pvwire.v1.lz4, pvwire.v1", "pvwire.v1.lz4"),
        ("graphql-ws, graphql-transport-ws", "graphql-transport-ws"),
        ("graphql-ws", "graphql-ws"),
    ] {
        let answer = handshake(relay.address(), &[("Sec-WebSocket-Protocol", offered)]);
        let chosen = format!("sec-websocket-protocol: {chosen}\r\n");
        assert!(answer.head.contains(&chosen), "{offered}: {}", answer.head);
    }
    let mut client = Client::connect(relay.address());
    client.subscribe(&["ca://NOSUCH"]);
}

#[test]
fn pages_for_operators_say_what_goes_on() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, r#"record(ao, "$(P)ao") { field(VAL, "1") }"#);
    let relay = Relay::start(network, &["--not-found-after-ms=600000"]);
    let mut client = Client::connect(relay.address());
    let (known, unknown) = (ioc.name("ao"), ioc.name("nobody"));
    client.subscribe_live(&[&known]);
    assert_eq!(client.subscribe(&[&unknown]), []);

    let answer = |path: &str| get(relay.address(), path, &[]);
    assert_eq!(
        (answer("/live").status, answer("/live").body.as_str()),
        (200, "live\n")
    );
    assert_eq!(
        (answer("/ready").status, answer("/ready").body.as_str()),
        (200, "ready\n")
    );
    let page = answer("/");
    assert_eq!(page.status, 200);
    assert!(
        page.head.contains("content-type: text/html"),
        "{}",
        page.head
    );
    assert!(page.body.contains("/status") || page.body.contains("\"status\""));

    let mut status = serde_json::Value::Null;
    eventually("the threads' numbers are on the page", || {
        status = serde_json::from_str(&answer("/status").body).unwrap();
        let bytes = status["clientList"][0]["bytes"].as_u64();
        status["groups"] == 1 && bytes.is_some_and(|bytes| bytes > 100)
    });
    assert_eq!(status["clients"], 1);
    assert_eq!(status["monitors"], 2);
    assert_eq!(status["pvs"]["connected"], 1);
    assert_eq!(status["pvs"]["connecting"], 1);
    assert_eq!(
        status["puts"],
        serde_json::json!({ "enabled": false, "rules": 0, "accessSecurity": false })
    );
    let searched = &status["searched"][0];
    assert_eq!(searched["protocol"], "Channel Access");
    assert_eq!(searched["addresses"], serde_json::json!(["127.0.0.1"]));
    assert_eq!(searched["broadcast"], false);
    let list = status["list"].as_array().unwrap();
    assert_eq!(list.len(), 2);
    let ao = list.iter().find(|pv| pv["name"] == format!("ca://{known}"));
    assert_eq!(ao.unwrap()["state"], "Connected");
    assert_eq!(ao.unwrap()["clients"], 1);
    let clients = status["clientList"].as_array().unwrap();
    assert_eq!(clients.len(), 1);
    assert_eq!(clients[0]["inStep"], true);
    assert!(clients[0]["user"].is_null());

    let metrics = answer("/metrics");
    assert!(
        metrics
            .head
            .contains("content-type: application/openmetrics-text")
    );
    assert!(metrics.body.ends_with("# EOF\n"), "{}", metrics.body);
    let browser = (
        "Accept",
        "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
    );
    let prometheus = (
        "Accept",
        "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
    );
    for (accept, content_type) in [
        (browser, "content-type: text/plain; version=0.0.4"),
        (prometheus, "content-type: application/openmetrics-text"),
        (
            ("Accept", "*/*"),
            "content-type: application/openmetrics-text",
        ),
    ] {
        let answer = get(relay.address(), "/metrics", &[accept]);
        assert!(
            answer.head.contains(content_type),
            "{accept:?}: {}",
            answer.head
        );
    }
    assert_eq!(relay.metric("pvwire_sessions_active"), 1.0);
    assert_eq!(relay.metric("pvwire_monitors_active"), 2.0);
    assert!(relay.metric("pvwire_updates_received_total") >= 1.0);
    assert_eq!(relay.metric("pvwire_callback_panics_total"), 0.0);

    assert_eq!(answer("/nothing").status, 404);
    assert_eq!(answer("/ws").status, 426);
}

#[test]
fn full_relay_says_so_and_has_room_again_when_a_client_leaves() {
    let relay = relay(&["--max-clients", "1"]);
    let address = relay.address();
    let client = Client::connect(address);
    let answer = handshake(address, &[]);
    assert_eq!(answer.status, 503);
    drop(client);
    eventually("there is room", || handshake(address, &[]).status == 101);
}

#[test]
fn page_whose_websocket_is_refused_reads_why_by_a_plain_request() {
    let relay = relay(&[]);
    let address = relay.address();
    let evil = ("Origin", "http://evil.test");
    for (path, headers, status, why) in [
        ("/ws", vec![evil], 403, "--allow-origin"),
        ("/nowhere", vec![evil], 404, "nothing here"),
        (
            "/ws",
            vec![("Host", "evil.test"), evil],
            421,
            "--allow-host",
        ),
        ("/ws", vec![], 426, "pvwire.v1"),
    ] {
        let answer = get(address, path, &headers);
        assert_eq!(answer.status, status, "{path} {headers:?}");
        assert!(answer.body.contains(why), "{}", answer.body);
        let shared = "access-control-allow-origin: *";
        assert!(
            answer.head.to_lowercase().contains(shared),
            "{}",
            answer.head
        );
    }
    let shown = get(address, "/status", &[evil]);
    assert_eq!(shown.status, 200);
    assert!(
        !shown.head.to_lowercase().contains("allow-origin"),
        "{}",
        shown.head
    );
}

#[test]
fn refused_pages_are_logged_once_a_minute_and_origin() {
    let relay = relay(&[]);
    for _ in 0..3 {
        for origin in ["http://evil.test", "https://other.test"] {
            assert_eq!(
                handshake(relay.address(), &[("Origin", origin)]).status,
                403
            );
        }
        handshake_at(
            relay.address(),
            "/nowhere",
            &[("Origin", "http://lost.test")],
        );
    }
    // Programs have no origin.
    let wrong = [("Sec-WebSocket-Protocol", "nothing")];
    assert_eq!(handshake(relay.address(), &wrong).status, 400);
    for origin in ["http://evil.test", "https://other.test", "http://lost.test"] {
        let warning = format!("a page of {origin} can't connect");
        relay.says(&warning);
        assert_eq!(relay.output().matches(&warning).count(), 1, "{origin}");
    }
}
