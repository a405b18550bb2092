//! How the relay starts, refuses to start, and stops.
//!
//! Topology: the relay's program with good and bad settings; clients that are connected when it
//! stops.

use std::net::TcpListener;

use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use pvwire_schema::close::CloseCode;

use testbed::{
    Client, DEADLINE, Network, Relay, connect_all, file, get, handshake, keep_up, relay_command,
};

fn run(configure: impl FnOnce(&mut Command)) -> Output {
    let mut command = relay_command(Network::new());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    configure(&mut command);
    command.output().unwrap()
}

/// Checks that the relay refuses to start, with one line that contains all of `parts`.
fn refused(parts: &[&str], configure: impl FnOnce(&mut Command)) {
    let output = run(configure);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(64), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
    for part in parts {
        assert!(error.contains(part), "{error:?} doesn't name {part:?}");
    }
    assert_eq!(output.stdout, b"");
}

#[test]
fn bad_settings_end_the_relay_with_64_and_one_line() {
    refused(
        &["--linger-ms", "linger_ms", "\"soon\"", "milliseconds"],
        |command| {
            command.args(["--linger-ms", "soon"]);
        },
    );
    refused(&["--max-clients", "\"0\"", "from 1"], |command| {
        command.args(["--max-clients", "0"]);
    });
    refused(&["--listen", "\"8080\"", "127.0.0.1:8080"], |command| {
        command.args(["--listen", "8080"]);
    });
    refused(&["--allow-origin", "\"*.org\"", "origin"], |command| {
        command.args(["--allow-origin", "*.org"]);
    });
    refused(&["--flag-of-another-program"], |command| {
        command.arg("--flag-of-another-program");
    });
    refused(&["--linger-ms"], |command| {
        command.arg("--linger-ms");
    });
    refused(&["--listn", "'--listen'"], |command| {
        command.arg("--listn=127.0.0.1:0");
    });
    refused(&["PVWIRE_LISTN", "PVWIRE_LISTEN"], |command| {
        command.env("PVWIRE_LISTN", "127.0.0.1:0");
    });
    refused(&["PVWIRE_LOG", "\"loud\"", "debug"], |command| {
        command.env("PVWIRE_LOG", "loud");
    });
    refused(&["allow_put", "\"X\"", "enable_put"], |command| {
        command.arg("--allow-put=X");
    });
    refused(
        &["--trusted-proxy", "\"10.0.0.0/33\"", "10.1.0.0/16"],
        |command| {
            command.arg("--trusted-proxy=10.0.0.0/33");
        },
    );
    refused(&["--pv <P>"], |command| {
        command.args(["check", "--user", "jane"]);
    });
    refused(
        &["PVWIRE_SHARDS", "shards", "\"many\"", "whole number"],
        |command| {
            command.env("PVWIRE_SHARDS", "many");
        },
    );
    refused(
        &["shortest_tick_ms", "\"200\"", "longest_tick_ms"],
        |command| {
            command.args(["--shortest-tick-ms", "200"]);
        },
    );
}

#[test]
fn bad_file_ends_the_relay_the_same_way() {
    let value = file(
        "bad-value.toml",
        "listen = \"127.0.0.1:0\"\nlinger_ms = -1\n",
    );
    refused(
        &["bad-value.toml:2", "linger_ms", "\"-1\"", "milliseconds"],
        |command| {
            command.arg("--config").arg(&value);
        },
    );
    let key = file("bad-key.toml", "linger = 5\n");
    refused(
        &["bad-key.toml:1", "\"linger\"", "\"linger_ms\"?"],
        |command| {
            command.env("PVWIRE_CONFIG", &key);
        },
    );
    let syntax = file("bad-syntax.toml", "listen = \n");
    refused(&["bad-syntax.toml:1"], |command| {
        command.arg("--config").arg(&syntax);
    });
    refused(&["/no/such/file.toml"], |command| {
        command.args(["--config", "/no/such/file.toml"]);
    });
}

#[test]
fn first_log_lines_are_short_and_name_only_what_was_set() {
    let relay = Relay::start(Network::new(), &["--linger-ms=7", "--shards=1"]);
    let output = relay.output();
    let mut lines = output.lines();
    let version = concat!("pvwire-relay ", env!("CARGO_PKG_VERSION"));
    let first = lines.next().unwrap();
    assert!(first.ends_with(version), "{first}");
    let settings = lines.find(|line| line.contains("settings: ")).unwrap();
    assert!(settings.contains("linger_ms=7"), "{settings}");
    assert!(!settings.contains("max_pvs"), "{settings}");
    assert!(settings.len() < 200, "{} characters", settings.len());
}

#[test]
fn check_without_pvs_checks_the_configuration_alone() {
    let check = |text: &str| {
        let config = file("check-alone.toml", text);
        let output = run(|command| {
            command.args(["check", "--config"]).arg(&config);
        });
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (
            output.status.code(),
            text(output.stdout),
            text(output.stderr),
        )
    };
    let (code, said, _) = check("linger_ms = 7\n");
    assert_eq!(code, Some(0));
    assert!(said.starts_with("the configuration is valid: "), "{said}");
    assert!(said.contains("linger_ms=7"), "{said}");
    for (wrong, part) in [
        ("linger_ms = -1\n", "check-alone.toml:1: linger_ms"),
        ("listen = 127.0.0.1:8080\n", "listen = \"127.0.0.1:8080\""),
        ("pvlist = '/no/such.pvlist'\n", "/no/such.pvlist"),
        (
            "tls_cert = '/no/such.pem'\ntls_key = '/no/such.pem'\n",
            "/no/such.pem",
        ),
        (
            "bus = 'nats://h:4222'\nbus_ca = '/no/ca.pem'\n",
            "/no/ca.pem",
        ),
        (
            "auth = 'jwt'\njwt_audience = 'a'\njwt_keys = '/no/keys'\n",
            "/no/keys",
        ),
        ("[[rule]]\npv_regex = '('\ndeny = 'read'\n", "rule 1"),
        ("[[rule]]\npv = 'X'\nallow = 'put'\n", "enable_put"),
    ] {
        let (code, said, error) = check(wrong);
        assert_eq!((code, &*said), (Some(64), ""), "{wrong}");
        assert!(error.contains(part), "{wrong}: {error}");
    }
}

#[test]
fn address_that_is_taken_ends_the_relay_the_same_way() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    refused(&["listen", &address, "in use"], |command| {
        command.args(["--listen", &address]);
    });
}

#[test]
fn flags_win_over_the_environment_and_that_over_the_file() {
    let path = file(
        "good.toml",
        "not_found_after_ms = 1001\nmax_subscriptions = 101\nlinger_ms = 7\n",
    );
    let mut command = relay_command(Network::new());
    command
        .env("PVWIRE_NOT_FOUND_AFTER_MS", "1002")
        .env("PVWIRE_MAX_SUBSCRIPTIONS", "102");
    let flags = [
        "--max-subscriptions",
        "103",
        "--config",
        path.to_str().unwrap(),
    ];
    let relay = Relay::spawn(command, &flags);

    let hello = Client::connect(relay.address()).hello.unwrap();

    assert_eq!(hello.not_found_after_ms, 1002);
    assert_eq!(hello.max_subscriptions, 103);
    relay.says("linger_ms=7");
}

#[test]
fn help_and_version_end_well() {
    for (flag, text) in [("--help", "--allow-origin"), ("--version", "0.")] {
        let output = run(|command| {
            command.arg(flag);
        });
        assert_eq!(output.status.code(), Some(0));
        assert!(String::from_utf8(output.stdout).unwrap().contains(text));
    }
}

#[test]
fn stopping_relay_is_not_ready_and_closes_clients_one_by_one() {
    let flags = [
        "--drain-delay-ms",
        "4000",
        "--drain-spread-ms",
        "3000",
        "--shards",
        "1",
    ];
    let mut relay = Relay::start(Network::new(), &flags);
    let address = relay.address();
    let mut clients = connect_all(address, 6);
    assert_eq!(get(address, "/ready", &[]).status, 200);

    let start = Instant::now();
    relay.signal("TERM");
    testbed::eventually("it isn't ready", || {
        get(address, "/ready", &[]).status == 503
    });
    // It keeps running, serves its clients and accepts no new ones.
    assert_eq!(get(address, "/live", &[]).status, 200);
    assert_eq!(handshake(address, &[]).status, 503);
    assert!(clients.iter().all(|client| client.closed.is_none()));

    let mut closed: Vec<Option<Duration>> = vec![None; clients.len()];
    let mut all: Vec<&mut Client> = clients.iter_mut().collect();
    keep_up("all are told to go", &mut all, |clients| {
        for (client, closed) in clients.iter().zip(&mut closed) {
            if client.closed.is_some() {
                closed.get_or_insert_with(|| start.elapsed());
            }
        }
        clients.iter().all(|client| client.closed.is_some())
    });
    let status = relay.wait_end(DEADLINE);

    assert_eq!(status.code(), Some(0));
    let restart = Some(CloseCode::ServiceRestart.number());
    assert!(clients.iter().all(|client| client.closed == restart));
    let mut closed: Vec<Duration> = closed.into_iter().flatten().collect();
    closed.sort();
    assert!(closed[0] >= Duration::from_millis(3950), "{closed:?}");
    // The client notices a close late on a busy machine.
    let spread = closed[5] - closed[0];
    assert!(spread >= Duration::from_millis(1000), "{closed:?}");
}

#[test]
fn second_signal_ends_the_relay_at_once() {
    let flags = ["--drain-delay-ms", "60000"];
    let mut relay = Relay::start(Network::new(), &flags);
    let address = relay.address();
    let mut client = Client::connect(address);
    relay.signal("TERM");
    testbed::eventually("it isn't ready", || {
        get(address, "/ready", &[]).status == 503
    });
    assert!(relay.runs());

    let start = Instant::now();
    relay.signal("TERM");
    let status = relay.wait_end(DEADLINE);

    assert_eq!(status.code(), Some(0));
    // The other way would take a minute.
    assert!(
        start.elapsed() < Duration::from_secs(30),
        "{:?}",
        start.elapsed()
    );
    client.wait_closed();
}

#[test]
fn relay_without_clients_waits_as_promised_before_it_ends() {
    let mut relay = Relay::start(Network::new(), &["--drain-delay-ms", "6000"]);
    let address = relay.address();
    let start = Instant::now();
    relay.signal("TERM");
    testbed::eventually("it isn't ready", || {
        get(address, "/ready", &[]).status == 503
    });
    // A cluster that hasn't noticed yet still sends clients: they are answered, not cut off.
    while start.elapsed() < Duration::from_secs(2) {
        assert_eq!(handshake(address, &[]).status, 503);
        assert_eq!(get(address, "/live", &[]).status, 200);
    }
    assert!(relay.runs());
    assert_eq!(relay.wait_end(DEADLINE).code(), Some(0));
    assert!(start.elapsed() >= Duration::from_secs(6));
}

#[test]
fn relay_without_clients_ends_at_once_by_ctrl_c() {
    let mut relay = Relay::start(Network::new(), &["--drain-delay-ms", "60000"]);
    relay.signal("INT");
    assert_eq!(relay.wait_end(DEADLINE).code(), Some(0));
}

#[test]
fn relay_whose_last_client_leaves_ends_before_its_time() {
    let flags = ["--drain-delay-ms", "300", "--drain-spread-ms", "60000"];
    let mut relay = Relay::start(Network::new(), &flags);
    let client = Client::connect(relay.address());
    relay.signal("TERM");
    drop(client);
    assert_eq!(relay.wait_end(DEADLINE).code(), Some(0));
}

#[test]
fn two_runs_of_the_relay_have_different_numbers() {
    let instance = || {
        let relay = Relay::start(Network::new(), &[]);
        let hello = Client::connect(relay.address()).hello.unwrap();
        assert_eq!(hello.relay_version, env!("CARGO_PKG_VERSION"));
        hello.relay_instance
    };
    assert_ne!(instance(), instance());
}
