//! Who gets the relay's pages and where, what clients cost that ask and don't read, and that probes
//! tell the truth.
//!
//! What the status says of clients, and who may disconnect them.
//!
//! Topology: one relay, and plain connections to it; for its clients an IOC whose record changes, a client that keeps
//! up, and one that acknowledges nothing.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use pvwire_schema::close::CloseCode;
use serde_json::{Value, json as json_of};
use socket2::{Domain, Socket, Type};

use crate::audit::{is_whole, lines};
use crate::tokens::{Issuer, claims, key_set};
use testbed::{
    Answer, Client, How, Network, Relay, SoftIoc, Threads, eventually, file, get, handshake,
    keep_up, prefix, raw, relay_command_with_limit, within,
};

fn relay(flags: &[&str]) -> Relay {
    Relay::start(Network::new(), flags)
}

/// The address at which the relay reports to serve pages and probes.
pub(crate) fn admin_address(relay: &Relay) -> SocketAddr {
    let said = "pages and probes at http://";
    relay.says(said);
    let output = relay.output();
    let (_, rest) = output.split_once(said).unwrap();
    rest.lines().next().unwrap().parse().unwrap()
}

/// The number that a page's scripts and styles must have to run. Its policy allows no others.
pub(crate) fn nonce_of(page: &Answer) -> String {
    let policy = page.head.to_ascii_lowercase();
    let policy = policy.split("content-security-policy: ").nth(1).unwrap();
    let policy = policy.lines().next().unwrap();
    assert!(!policy.contains("unsafe"), "{policy}");
    let nonce = policy.split("'nonce-").nth(1).unwrap();
    let nonce = nonce.split('\'').next().unwrap().to_owned();
    assert_eq!(policy.matches(&nonce).count(), 2, "{policy}");
    assert!(page.body.contains(&format!("nonce=\"{nonce}\"")));
    // Each inline script and style has it.
    for tag in ["<script>", "<style>", " onclick=", " onload="] {
        assert!(!page.body.contains(tag), "{tag}");
    }
    nonce
}

#[test]
fn refused_method_is_told_those_that_its_path_has() {
    let all = relay(&["--coniql", "--pvws", "--admin-listen=127.0.0.1:0"]);
    let pvws = relay(&["--pvws", "--admin-listen=127.0.0.1:0"]);
    let [of_all, of_pvws] = [&all, &pvws].map(admin_address);
    for (address, path, methods) in [
        (all.address(), "/ws", "GET, HEAD, POST, OPTIONS"),
        (all.address(), "/graphql", "GET, HEAD, POST, OPTIONS"),
        (all.address(), "/pv/x", "GET, HEAD, PUT, OPTIONS"),
        (all.address(), "/pv/x/stream", "GET, HEAD, OPTIONS"),
        (all.address(), "/names", "GET, HEAD, OPTIONS"),
        (all.address(), "/status", "GET, HEAD"),
        (all.address(), "/pvws/pv", "GET, HEAD"),
        (all.address(), "/pvws/socket/0.1.2", "GET, HEAD"),
        (of_all, "/pvws/socket/0.1.2", "GET, HEAD, DELETE"),
        (of_all, "/pvws/socket", "GET, HEAD"),
        (of_all, "/ws", "GET, HEAD"),
        (of_all, "/status", "GET, HEAD"),
        (pvws.address(), "/ws", "GET, HEAD"),
        (pvws.address(), "/graphql", "GET, HEAD"),
        (of_pvws, "/pvws/socket/0.1.2", "GET, HEAD, DELETE"),
        (of_pvws, "/pvws/summary", "GET, HEAD"),
    ] {
        for method in ["PUT", "POST", "DELETE", "PATCH", "OPTIONS"] {
            let (head, _) = raw(address, method, path, "");
            let head = head.to_ascii_lowercase();
            let is_refused = head.starts_with("http/1.1 405 ");
            assert_eq!(
                is_refused,
                !methods.contains(method),
                "{method} {path}: {head}"
            );
            let told = format!("\r\nallow: {}\r\n", methods.to_ascii_lowercase());
            assert_eq!(is_refused, head.contains(&told), "{method} {path}: {head}");
        }
    }
    // The handshake, at a path that has other methods, too.
    assert_eq!(handshake(all.address(), &[]).status, 101);
}

#[test]
fn pages_run_only_scripts_and_styles_with_the_number_of_their_answer() {
    let relay = Relay::start(Network::new(), &["--coniql", "--coniql-graphiql"]);
    for path in ["/", "/graphiql"] {
        let nonces = [(); 2].map(|()| nonce_of(&get(relay.address(), path, &[])));
        assert_ne!(nonces[0], nonces[1], "{path}");
        assert_eq!(nonces[0].len(), 32);
    }
    // Other answers run nothing.
    for path in ["/status", "/metrics", "/ready", "/nowhere"] {
        let head = get(relay.address(), path, &[]).head.to_ascii_lowercase();
        let policy = "content-security-policy: default-src 'none'; frame-ancestors 'none'";
        assert!(head.contains(policy), "{path}: {head}");
    }
}

#[test]
fn status_is_a_page_for_browsers_and_json_for_programs() {
    // Built without the app, a relay serves the status page in its place, too.
    for flags in [&[][..], &["--no-app"], &["--app=false"]] {
        let relay = relay(flags);
        let page = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
        for (path, accept) in [("/", "*/*"), ("/", page), ("/status", page)] {
            let answer = get(relay.address(), path, &[("Accept", accept)]);
            assert!(answer.head.contains("text/html"), "{path}: {}", answer.head);
            // What browsers without scripts show.
            let (_, plain) = answer.body.split_once("<noscript>").unwrap();
            assert!(plain.contains("\"uptimeSeconds\": "), "{plain}");
            assert!(!answer.body.contains("{STATUS}"));
        }
        for accept in ["*/*", "application/json"] {
            let answer = get(relay.address(), "/status", &[("Accept", accept)]);
            assert!(answer.head.contains("application/json"), "{}", answer.head);
        }
    }
}

#[test]
fn app_learns_which_puts_need_a_confirmation() {
    let relay = relay(&[
        "--confirm-put=SR:BEAM*",
        "--confirm-put",
        "pva://BL?:\"SET\"",
    ]);
    let settings = get(relay.address(), "/app.json", &[]);
    assert_eq!(settings.status, 200, "{}", settings.body);
    assert_eq!(
        settings.body,
        r#"{"confirmPut":["SR:BEAM*","pva://BL?:\"SET\""]}"#
    );
    assert!(
        settings.head.contains("application/json"),
        "{}",
        settings.head
    );
    assert!(settings.head.contains("no-store"), "{}", settings.head);
    drop(relay);
    // Without patterns all puts are done at once, and where the app isn't served nothing is.
    let relay = self::relay(&[]);
    let settings = get(relay.address(), "/app.json", &[]);
    assert_eq!(settings.body, r#"{"confirmPut":[]}"#);
    drop(relay);
    let relay = self::relay(&["--no-app", "--confirm-put=X"]);
    assert_eq!(get(relay.address(), "/app.json", &[]).status, 404);
}

#[test]
fn clients_that_pipeline_without_reading_get_one_answer_each() {
    let relay = relay(&[]);
    let address = relay.address();
    let requests = format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\n\r\n").repeat(500);
    let greedy: Vec<_> = (0..200)
        .map(|_| {
            let mut stream = TcpStream::connect(address).unwrap();
            // The relay may have ended it already.
            let _ = stream.write_all(requests.as_bytes());
            stream
        })
        .collect();
    within(Duration::from_secs(5), "an answer", || {
        let since = Instant::now();
        assert_eq!(get(address, "/live", &[]).status, 200);
        since.elapsed()
    });
    eventually("none of them holds a connection", || {
        relay.metric("pvwire_connections_open") == 1.0
    });
    drop(greedy);
}

#[test]
fn second_request_of_a_connection_is_not_answered() {
    let address = relay(&[]);
    let mut stream = TcpStream::connect(address.address()).unwrap();
    let both = "GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(2);
    stream.write_all(both.as_bytes()).unwrap();
    let mut answers = String::new();
    // What it didn't read makes the kernel end the connection.
    let _ = stream.read_to_string(&mut answers);
    assert!(answers.matches("HTTP/1.1 ").count() <= 1, "{answers}");
    let answer = get(address.address(), "/live", &[("Connection", "keep-alive")]);
    assert!(answer.head.contains("connection: close"), "{}", answer.head);
}

#[test]
fn client_that_does_not_read_a_long_answer_is_cut_off() {
    let relay = relay(&[]);
    let address = relay.address();
    let mut client = Client::connect(address);
    let prefix = prefix();
    let names: Vec<_> = (0..500).map(|n| format!("{prefix}{n:0450}")).collect();
    assert_eq!(client.subscribe(&names), []);
    let slow: Vec<_> = (0..20)
        .map(|_| {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            socket.set_recv_buffer_size(4096).unwrap();
            socket.connect(&address.into()).unwrap();
            let mut stream = TcpStream::from(socket);
            let request = format!("GET /status HTTP/1.1\r\nHost: {address}\r\n\r\n");
            stream.write_all(request.as_bytes()).unwrap();
            stream
        })
        .collect();
    eventually("they are cut off", || {
        client.read_for_a_moment();
        relay.metric("pvwire_http_answers_cut_total") == 20.0
    });
    eventually("nothing is held", || {
        relay.metric("pvwire_connections_open") == 2.0
    });
    for mut stream in slow {
        let mut taken = Vec::new();
        let ended = stream.read_to_end(&mut taken);
        assert!(
            ended.is_err(),
            "an end after {} bytes looks whole",
            taken.len()
        );
        assert!(taken.len() < 200_000, "{} bytes", taken.len());
    }
    // A client that reads receives everything.
    assert!(get(address, "/status", &[]).body.len() > 225_000);
}

#[test]
fn pages_are_served_to_operators_and_not_to_clients() {
    let relay = relay(&["--admin-listen=127.0.0.1:0"]);
    let (clients, operators) = (relay.address(), admin_address(&relay));
    for path in ["/", "/status", "/metrics"] {
        assert_eq!(get(operators, path, &[]).status, 200, "{path}");
        let here = get(clients, path, &[]);
        assert_eq!(here.status, 404, "{path}");
        assert!(here.body.contains("admin_listen"), "{}", here.body);
        let foreign = get(operators, path, &[("Host", "evil.test")]);
        assert_eq!(foreign.status, 421, "{path}");
    }
    for path in ["/live", "/ready"] {
        assert_eq!(get(operators, path, &[]).status, 200, "{path}");
        assert_eq!(get(clients, path, &[]).status, 200, "{path}");
    }
    assert_eq!(get(operators, "/ws", &[]).status, 404);
    assert_eq!(get(operators, "/ws/large?0-0", &[]).status, 404);
    assert_eq!(handshake(operators, &[]).status, 404);
    assert_eq!(handshake(clients, &[]).status, 101);
}

#[test]
fn operators_are_answered_while_file_descriptors_run_out() {
    let command = relay_command_with_limit(Network::new(), "-n 256");
    let relay = Relay::spawn(command, &["--admin-listen=127.0.0.1:0"]);
    let (clients, operators) = (relay.address(), admin_address(&relay));
    for _ in 0..5 {
        let held: Vec<_> = (0..200)
            .filter_map(|_| TcpStream::connect(clients).ok())
            .collect();
        for path in ["/live", "/ready", "/metrics"] {
            let answer = get(operators, path, &[]);
            assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        }
        relay.says("kept for EPICS");
        drop(held);
    }
}

#[test]
fn pages_can_be_switched_off_or_need_a_login() {
    let off = relay(&["--pages=off"]);
    let gated = relay(&[
        "--pages=login",
        "--auth=trusted-header",
        "--trusted-proxy=127.0.0.1",
    ]);
    for path in ["/", "/status", "/metrics"] {
        assert_eq!(get(off.address(), path, &[]).status, 404, "{path}");
        assert_eq!(get(gated.address(), path, &[]).status, 401, "{path}");
        let jane = [("X-Forwarded-User", "jane")];
        assert_eq!(get(gated.address(), path, &jane).status, 200, "{path}");
    }
    for relay in [&off, &gated] {
        assert_eq!(get(relay.address(), "/live", &[]).status, 200);
        assert_eq!(get(relay.address(), "/ready", &[]).status, 200);
    }
    drop(gated);
    let foreign = relay(&[
        "--pages=login",
        "--auth=trusted-header",
        "--trusted-proxy=192.0.2.1",
    ]);
    let jane = [("X-Forwarded-User", "jane")];
    assert_eq!(get(foreign.address(), "/status", &jane).status, 403);
}

#[test]
fn relay_whose_thread_hangs_is_not_live_and_names_the_thread() {
    let (command, threads) = Threads::of(Network::new());
    let relay = Relay::spawn(command, &["--shards=2"]);
    let (address, mut orders) = (relay.address(), threads.orders());
    assert_eq!(get(address, "/live", &[]).body, "live\n");
    for (thread, name) in [("shard-1", "shard 1"), ("tick", "the tick thread")] {
        let since = Instant::now();
        writeln!(orders, "stop {thread}").unwrap();
        eventually("it isn't live", || get(address, "/live", &[]).status == 503);
        let after = since.elapsed();
        assert!(
            after > Duration::from_secs(8),
            "{after:?} may be a busy machine"
        );
        let why = get(address, "/live", &[]).body;
        assert!(
            why.starts_with(&format!("{name} has done nothing for 1")),
            "{why}"
        );
        let metric = format!("pvwire_thread_turned_ago_seconds{{thread=\"{thread}\"}}");
        assert!(relay.metric(&metric) > 9.0);
        writeln!(orders, "cont {thread}").unwrap();
        eventually("it is live", || get(address, "/live", &[]).status == 200);
        eventually("it has turns again", || relay.metric(&metric) < 5.0);
    }
}

const SILENT: How = How {
    receive_buffer: None,
    acks: false,
    lz4: false,
    trust: None,
};

fn json(answer: &Answer) -> Value {
    assert_eq!(answer.status, 200, "{}", answer.body);
    serde_json::from_str(&answer.body).unwrap()
}

/// The clients in the status that a request with these headers gets.
fn clients(address: SocketAddr, headers: &[(&str, &str)]) -> Vec<Value> {
    let status = json(&get(address, "/status", headers));
    status["clientList"].as_array().unwrap().clone()
}

/// Disconnects a client; returns the status and the text of the answer.
fn disconnect(address: SocketAddr, id: &Value, headers: &str) -> (u16, String) {
    let path = format!("/status/clients/{}", id.as_str().unwrap());
    let (head, body) = raw(address, "DELETE", &path, headers);
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, String::from_utf8(body).unwrap())
}

#[test]
fn status_says_what_each_client_watches_and_how_far_it_is_behind() {
    let network = Network::new();
    let records = r#"
        record(calc, "$(P)calc") { field(CALC, "VAL+1") field(SCAN, ".1 second") }
        record(ao, "$(P)ao") { field(VAL, "0") field(PINI, "YES") }
    "#;
    let ioc = SoftIoc::start(network, records);
    let flags = ["--ack-window-ms=200", "--evict-after-ms=60000"];
    let relay = Relay::start(network, &flags);
    let address = relay.address();
    let [calc, ao] = ioc.names(["calc", "ao"]);
    let mut peer = Client::connect(address);
    peer.subscribe_live(&[&calc, &ao]);
    let mut silent = Client::connect_as(address, SILENT);
    silent.subscribe_live(&[&calc]);
    let late = || {
        let seen = clients(address, &[]);
        let mut late = seen.into_iter().filter(|client| client["behind"] == true);
        late.next()
    };
    let mut seen = None;
    keep_up("one is behind", &mut [&mut peer, &mut silent], |_| {
        seen = late().filter(|client| client["unsent"]["updates"].as_u64() > Some(2));
        seen.is_some()
    });
    let seen = seen.unwrap();
    assert_eq!((&seen["pvs"], &seen["inStep"]), (&1.into(), &false.into()));
    assert!(
        seen["unsent"]["ageMilliseconds"].as_u64() > Some(100),
        "{seen}"
    );
    let all = clients(address, &[]);
    assert_eq!(all[0]["id"], seen["id"], "those behind come first");
    assert_eq!(
        (&all[1]["pvs"], &all[1]["behind"]),
        (&2.into(), &false.into())
    );
    silent.ack();
    silent.set_acks(true);
    keep_up("none is behind", &mut [&mut peer, &mut silent], |_| {
        late().is_none()
    });
    let id = &seen["id"];
    let again = clients(address, &[])
        .into_iter()
        .find(|client| client["id"] == *id);
    let again = again.unwrap();
    assert!(again["skipped"].as_u64() > Some(0), "{again}");
    assert_eq!(again["unsent"]["updates"], 0);
    // Of the relay as a whole.
    let status = json(&get(address, "/status", &[]));
    let source = &status["sources"][0];
    assert_eq!(
        (&source["name"], &source["connected"]),
        (&"ca".into(), &2.into())
    );
    assert!(source["updates"].as_u64() > Some(2), "{source}");
    assert_eq!(status["limits"]["clients"], 10_000);
    assert!(status["memoryBytes"].as_u64() > Some(1 << 20));
}

#[test]
fn pvs_of_a_client_are_listed_in_pages_for_those_who_may_read_them() {
    let own = prefix();
    let rules = "[[rule]]\nuser = \"joe\"\npv = \"*:n3\"\ndeny = \"read\"\n";
    let config = format!("--config={}", file("rules.toml", rules).display());
    let by_proxy = ["--auth=trusted-header", "--trusted-proxy=127.0.0.1"];
    let relay = relay(&[&by_proxy[..], &[config.as_str()]].concat());
    let address = relay.address();
    let [jane, joe] = ["jane", "joe"].map(|user| [("X-Forwarded-User", user)]);
    let origin = format!("http://{address}");
    let headers = [jane[0], ("Origin", origin.as_str())];
    let mut client = Client::connect_with(address, &headers);
    let names: Vec<_> = (1..=5).map(|n| format!("{own}:n{n}")).collect();
    client.subscribe(&names);
    let seen = clients(address, &jane);
    assert_eq!(
        (&seen[0]["pvs"], &seen[0]["user"]),
        (&5.into(), &"jane".into())
    );
    let path = format!("/status/clients/{}", seen[0]["id"].as_str().unwrap());
    let listed = |query: &str, reader: &[(&str, &str)]| {
        let page = json(&get(address, &format!("{path}?{query}"), reader));
        let names = page["names"].as_array().unwrap().iter();
        let names: Vec<_> = names
            .map(|name| name.as_str().unwrap().to_owned())
            .collect();
        (names, page["next"].clone())
    };
    let whole: Vec<_> = names.iter().map(|name| format!("ca://{name}")).collect();
    assert_eq!(listed("", &jane), (whole.clone(), Value::Null));
    let (first, next) = listed("limit=2", &jane);
    assert_eq!(
        (first, &next),
        (whole[..2].to_vec(), &whole[1].clone().into())
    );
    let (rest, next) = listed(&format!("limit=3&after={}", whole[1]), &jane);
    assert_eq!((rest, next), (whole[2..].to_vec(), Value::Null));
    let (of_joe, _) = listed("", &joe);
    assert!(
        of_joe.len() == 4 && !of_joe.contains(&whole[2]),
        "{of_joe:?}"
    );
    for query in ["limit=0", "limit=1001", "limit=x"] {
        let answer = get(address, &format!("{path}?{query}"), &jane);
        assert_eq!(answer.status, 400, "{}", answer.body);
    }
    for id in ["0.0.99", "9.0.1", "http-9", "nosuch"] {
        let answer = get(address, &format!("/status/clients/{id}"), &jane);
        assert_eq!(answer.status, 404, "{id}: {}", answer.body);
    }
    let off = self::relay(&["--pages=off"]);
    assert_eq!(get(off.address(), &path, &[]).status, 404);
    let (head, _) = raw(address, "POST", &path, "X-Forwarded-User: jane\r\n");
    assert!(
        head.contains(" 405 ") && head.contains("GET, HEAD, DELETE"),
        "{head}"
    );
}

#[test]
fn users_whom_the_operator_names_disconnect_clients_and_the_audit_file_says_so() {
    let audit = file("disconnect.jsonl", "");
    let audit_flag = format!("--audit-file={}", audit.display());
    let relay = relay(&[
        "--auth=trusted-header",
        "--trusted-proxy=127.0.0.1",
        "--groups-header=x-groups",
        "--disconnect-access=jane",
        "--disconnect-access=@ops",
        "--audit-fail=closed",
        &audit_flag,
    ]);
    let address = relay.address();
    let origin = format!("http://{address}");
    let of = |user| [("X-Forwarded-User", user), ("Origin", origin.as_str())];
    let connect = || Client::connect_with(address, &of("bob"));
    let id_of = |n: usize| clients(address, &of("jane"))[n]["id"].clone();
    let mut client = connect();
    let id = id_of(0);
    for (headers, expected) in [
        ("", 401),
        ("X-Forwarded-User: joe\r\n", 403),
        ("X-Forwarded-User: joe\r\nX-Groups: opsx, *\r\n", 403),
        (
            "X-Forwarded-User: jane\r\nOrigin: http://evil.test\r\n",
            403,
        ),
    ] {
        let (status, why) = disconnect(address, &id, headers);
        assert_eq!(status, expected, "{headers}: {why}");
        assert!(expected != 403 || why.contains("operator"), "{why}");
    }
    assert!(client.closed.is_none() && clients(address, &of("jane")).len() == 1);
    let unknown = "0.77.1".into();
    let (status, why) = disconnect(address, &unknown, "X-Forwarded-User: jane\r\n");
    assert_eq!((status, why.contains("it has left")), (404, true), "{why}");
    // Whether there is such a client is not for everyone.
    assert_eq!(
        disconnect(address, &unknown, "X-Forwarded-User: joe\r\n").0,
        403
    );
    let may = |user| json(&get(address, "/status", &of(user)))["mayDisconnect"].clone();
    assert_eq!((may("jane"), may("joe")), (true.into(), false.into()));

    let jane = "X-Forwarded-User: jane\r\n";
    assert_eq!(
        disconnect(address, &id, jane),
        (200, "disconnected\n".into())
    );
    assert_eq!(client.wait_closed(), CloseCode::EndedByOperator.number());
    let mut client = connect();
    let ops = "X-Forwarded-User: joe\r\nX-Groups: ops\r\n";
    assert_eq!(disconnect(address, &id_of(0), ops).0, 200);
    assert_eq!(client.wait_closed(), CloseCode::EndedByOperator.number());

    let attempts = || {
        let lines = lines(&audit).into_iter();
        lines
            .filter(|line| line["kind"] == "disconnect")
            .collect::<Vec<_>>()
    };
    eventually("all is recorded", || attempts().len() == 7);
    let results: Vec<_> = (attempts().iter())
        .map(|line| (line["user"].clone(), line["result"].clone()))
        .collect();
    let expected = [
        ("joe", "NotAllowed"),
        ("joe", "NotAllowed"),
        ("joe", "NotAllowed"),
        ("jane", "Begun"),
        ("jane", "Done"),
        ("joe", "Begun"),
        ("joe", "Done"),
    ];
    assert_eq!(
        results,
        expected.map(|(user, result)| (user.into(), result.into()))
    );
    let done = &attempts()[4];
    assert_eq!(
        (&done["old"]["client"], &done["old"]["user"]),
        (&id, &"bob".into())
    );
    assert!(done["peer"].as_str().unwrap().starts_with("127.0.0.1"));
    is_whole(&[&audit]);

    // Without a record no client is disconnected.
    let mut client = connect();
    fs::remove_file(&audit).unwrap();
    fs::create_dir(&audit).unwrap();
    eventually("the audit file fails", || {
        relay.metric("pvwire_audit_failing") == 1.0
    });
    let (status, why) = disconnect(address, &id_of(0), jane);
    assert_eq!(status, 503, "{why}");
    assert!(why.starts_with("nothing was done: "), "{why}");
    client.read_for_a_moment();
    assert!(client.closed.is_none());
}

#[test]
fn all_pvs_are_listed_in_pages_and_found_by_words() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, r#"record(ao, "$(P)ao") { field(PINI, "YES") }"#);
    let own = prefix();
    let rules = ["*7", ":n49*"]
        .map(|end| format!("[[rule]]\nuser = \"joe\"\npv = \"{own}{end}\"\ndeny = \"read\"\n"));
    let rules = rules.concat();
    let config = format!("--config={}", file("pages_of_pvs.toml", &rules).display());
    let by_proxy = ["--auth=trusted-header", "--trusted-proxy=127.0.0.1"];
    let relay = Relay::start(network, &[&by_proxy[..], &[config.as_str()]].concat());
    let address = relay.address();
    let origin = format!("http://{address}");
    let [jane, joe] = ["jane", "joe"].map(|user| [("X-Forwarded-User", user)]);
    let mut client = Client::connect_with(address, &[jane[0], ("Origin", origin.as_str())]);
    let [ao] = ioc.names(["ao"]);
    client.subscribe_live(&[&ao]);
    // One request compares 5,000 of them.
    let names: Vec<_> = (0..6000).map(|n| format!("{own}:n{n:04}")).collect();
    client.subscribe(&names);
    let listed = |query: &str, reader: &[(&str, &str)]| {
        let page = json(&get(address, &format!("/status/pvs?{query}"), reader));
        let pvs = page["pvs"].as_array().unwrap().clone();
        (pvs, page["next"].clone())
    };
    let every = |query: &str, reader: &[(&str, &str)]| {
        let (mut all, mut after) = (Vec::new(), String::new());
        loop {
            let (pvs, next) = listed(&format!("{query}&after={after}"), reader);
            all.extend(pvs.into_iter().map(|pv| pv["name"].clone()));
            match next.as_str() {
                Some(next) => after = next.to_owned(),
                None => return all,
            }
        }
    };
    let (first, next) = listed(&format!("q={own}&limit=2"), &jane);
    assert_eq!((first.len(), &next), (2, &first[1]["name"]));
    assert_eq!(every("limit=1000", &jane).len(), 6001);
    let found = every(&format!("q={}+Connected", ao.to_uppercase()), &jane);
    assert_eq!(found, [json_of!(format!("ca://{ao}"))]);
    let (pvs, _) = listed(&format!("q={ao}"), &jane);
    assert!(pvs.is_empty() || pvs[0]["state"] == "Connected", "{pvs:?}");
    let last = json_of!(format!("ca://{}", names[5997]));
    assert_eq!(every(&format!("q={own}+5997"), &jane), [last]);
    assert_eq!(every(&format!("q={own}+5997"), &joe), [Value::Null; 0]);
    assert_eq!(every("limit=1000", &joe).len(), 6001 - 600 - 90);
    // The last name that was compared is one of those that joe may not read.
    let (_, next) = listed(&format!("q={own}+5998"), &joe);
    let next = next.as_str().unwrap();
    assert!(next.ends_with(":n4899"), "{next}");
    assert_eq!(get(address, "/status/pvs?limit=0", &jane).status, 400);
    let off = self::relay(&["--pages=off"]);
    assert_eq!(get(off.address(), "/status/pvs", &[]).status, 404);
}

#[test]
fn clients_are_disconnected_with_a_token_or_at_the_operators_address() {
    let issuer = Issuer::es256("one");
    let keys = file("pages_keys.json", &key_set(&[&issuer]));
    let mut flags = crate::tokens::flags(&keys.display().to_string());
    flags.extend(["--pages=login", "--disconnect-access=jane"].map(String::from));
    let with_tokens = relay(&flags.iter().map(String::as_str).collect::<Vec<_>>());
    let address = with_tokens.address();
    let token = |user| issuer.token(&claims(user));
    let mut client = Client::connect(address);
    assert!(client.log_in(&token("bob")));
    let cookie = format!("pvwire_token={}", token("jane"));
    let id = clients(address, &[("Cookie", &cookie)])[0]["id"].clone();
    assert_eq!(disconnect(address, &id, "").0, 401);
    let joe = format!("Authorization: Bearer {}\r\n", token("joe"));
    assert_eq!(disconnect(address, &id, &joe).0, 403);
    let jane = format!("Cookie: {cookie}\r\n");
    assert_eq!(disconnect(address, &id, &jane).0, 200);
    assert_eq!(client.wait_closed(), CloseCode::EndedByOperator.number());

    let anonymous = relay(&["--disconnect-access=*"]);
    let _client = Client::connect(anonymous.address());
    let id = clients(anonymous.address(), &[])[0]["id"].clone();
    assert_eq!(
        disconnect(anonymous.address(), &id, "").0,
        403,
        "it needs a login"
    );

    let two = relay(&["--admin-listen=127.0.0.1:0", "--enable-sim"]);
    let operators = admin_address(&two);
    let mut stream = TcpStream::connect(two.address()).unwrap();
    let host = two.address();
    write!(
        stream,
        "GET /pv/sim%3A%2F%2Framp/stream HTTP/1.1\r\nHost: {host}\r\n\r\n"
    )
    .unwrap();
    let mut event = [0; 1];
    stream.read_exact(&mut event).unwrap();
    let mut seen = Vec::new();
    eventually("the stream is listed", || {
        seen = clients(operators, &[]);
        seen.first().is_some_and(|client| client["pvs"] == 1)
    });
    let id = &seen[0]["id"];
    let path = format!("/status/clients/{}", id.as_str().unwrap());
    assert_eq!(json(&get(operators, &path, &[]))["names"][0], "sim://ramp");
    assert_eq!(
        disconnect(two.address(), id, "").0,
        404,
        "not among clients"
    );
    assert_eq!(disconnect(operators, id, "").0, 200);
    // It ends without the end of a whole answer.
    let _ = stream.read_to_end(&mut Vec::new());
    eventually("it has left", || clients(operators, &[]).is_empty());
}
