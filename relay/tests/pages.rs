//! Who gets the relay's pages and where, what clients cost that ask and don't read, and that probes
//! tell the truth.
//!
//! Topology: one relay, and plain connections to it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};

use testbed::{
    Answer, Client, Network, Relay, Threads, eventually, get, handshake, prefix, raw,
    relay_command_with_limit, within,
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
