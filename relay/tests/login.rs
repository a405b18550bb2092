//! Authentication by tokens and proxy headers; no client can take another's identity.
//!
//! Topology: one relay that requires tokens or trusts a proxy, clients with tokens that the test
//! signs; a soft IOC where a put matters.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use pvwire_schema::close::CloseCode;
use pvwire_schema::types::{Outcome, PutRequest, PutValue, Reply, RequestBody};
use serde_json::{Value, json};
use testbed::{
    Client, Network, Relay, SoftIoc, eventually, file, handshake, prefix, relay_command,
};

use crate::tokens::{Issuer, base64, claims, flags, key_set, seconds, with};

fn relay(network: Network, keys: &str, more: &[&str]) -> Relay {
    let flags = flags(keys);
    let flags: Vec<_> = flags
        .iter()
        .map(String::as_str)
        .chain(more.iter().copied())
        .collect();
    Relay::start(network, &flags)
}

#[test]
fn flood_of_bad_tokens_writes_few_lines_of_log() {
    let issuer = Issuer::es256("one");
    let path = file("keys_flood.json", &key_set(&[&issuer]));
    let relay = relay(Network::new(), path.to_str().unwrap(), &["--shards=1"]);
    let begun = Instant::now();
    for _ in 0..400 {
        let mut client = Client::connect(relay.address());
        let token = "x".into();
        client.request(RequestBody::Authenticate { token });
        assert_eq!(client.wait_closed(), CloseCode::NotLoggedIn.number());
    }
    let most = 100 + 5 * (begun.elapsed().as_secs() as usize + 1);
    let lines = relay.output().matches("was refused").count();
    assert!((50..=most).contains(&lines), "{lines} of at most {most}");
}

#[test]
fn client_without_a_good_token_is_told_why_and_gets_nothing() {
    let (issuer, other) = (Issuer::es256("one"), Issuer::es256("one"));
    let edwards = Issuer::eddsa("two");
    let path = file("keys_bad.json", &key_set(&[&issuer, &edwards]));
    let relay = relay(Network::new(), path.to_str().unwrap(), &[]);
    let good = claims("jane");
    let header = issuer.header();
    let whole = issuer.token(&good);
    let parts: Vec<&str> = whole.split('.').collect();
    let none = base64(br#"{"alg":"none"}"#);
    let hmac = base64(br#"{"alg":"HS256","kid":"one"}"#);
    let other_claims = base64(
        with(good.clone(), "sub", json!("root"))
            .to_string()
            .as_bytes(),
    );
    for (token, why) in [
        (String::new(), "a token is needed"),
        ("x".into(), "not a JSON Web Token"),
        ("..".into(), "not a JSON Web Token"),
        ("x".repeat(20_000), "longer than 16384 bytes"),
        (format!("{none}.{}.", parts[1]), "not a JSON Web Token"),
        (
            format!("{hmac}.{}.{}", parts[1], parts[2]),
            "not a JSON Web Token",
        ),
        (format!("{}.{}.", parts[0], parts[1]), "signature"),
        (
            format!("{}.{other_claims}.{}", parts[0], parts[2]),
            "signature",
        ),
        (other.token(&good), "signature"),
        (edwards.sign(&header, &good), "signature"),
        (
            issuer.token(&with(good.clone(), "exp", json!(seconds() - 60))),
            "expired",
        ),
        (issuer.token(&with(good.clone(), "exp", Value::Null)), "exp"),
        (
            issuer.token(&with(good.clone(), "exp", json!("tomorrow"))),
            "",
        ),
        (
            issuer.token(&with(good.clone(), "nbf", json!(seconds() + 60))),
            "not valid yet",
        ),
        (
            issuer.token(&with(good.clone(), "nbf", json!("tomorrow"))),
            "",
        ),
        (
            issuer.token(&with(good.clone(), "aud", json!("other"))),
            "aud",
        ),
        (issuer.token(&with(good.clone(), "aud", Value::Null)), "aud"),
        (
            issuer.token(&with(good.clone(), "iss", json!("https://evil.test"))),
            "iss",
        ),
        (issuer.token(&with(good.clone(), "iss", Value::Null)), "iss"),
        (
            issuer.token(&with(good.clone(), "sub", Value::Null)),
            "no user",
        ),
        (
            issuer.token(&with(good.clone(), "sub", json!(""))),
            "no user",
        ),
        (
            issuer.token(&with(good.clone(), "sub", json!("a\nb"))),
            "no user",
        ),
        (
            issuer.token(&with(good.clone(), "sub", json!(["jane"]))),
            "",
        ),
        (
            issuer.sign(&with(header.clone(), "crit", json!(["exp"])), &good),
            "extension",
        ),
    ] {
        let mut client = Client::connect(relay.address());
        assert!(client.hello.as_ref().unwrap().authenticate);
        let id = client.request(RequestBody::Authenticate {
            token: token.clone(),
        });
        let (reply, _) = client.wait_answer(id);
        let Reply::Error { message, .. } = reply else {
            panic!("{token} was answered by {reply:?}");
        };
        assert!(message.contains(why), "{token}: {message}");
        assert_eq!(
            client.wait_closed(),
            CloseCode::NotLoggedIn.number(),
            "{message}"
        );
    }
    for body in [
        RequestBody::Ping { client_time_ns: 1 },
        RequestBody::Get {
            names: vec![format!("{}nobody", prefix())],
            timeout_ms: 1,
            description: false,
        },
        RequestBody::Put(PutRequest {
            name: format!("{}nobody", prefix()),
            value: PutValue::Number(1.0),
            wait: false,
            timeout_ms: 1,
            expected: None,
        }),
    ] {
        let mut client = Client::connect(relay.address());
        client.request(body);
        assert_eq!(client.wait_closed(), CloseCode::NotLoggedIn.number());
    }
    assert_eq!(relay.metric("pvwire_monitors_active"), 0.0);

    for good in [issuer.token(&good), edwards.token(&good)] {
        let mut client = Client::connect(relay.address());
        assert!(client.log_in(&good));
        let hello = client.hello.clone().unwrap();
        assert_eq!((hello.authenticate, hello.user.as_str()), (false, "jane"));
        client.ask(RequestBody::Ping { client_time_ns: 1 });
    }
    assert!(!relay.output().contains(&whole), "tokens are not for logs");
}

#[test]
fn client_that_shows_nothing_is_closed_in_time() {
    let issuer = Issuer::es256("one");
    let path = file("keys_silent.json", &key_set(&[&issuer]));
    let relay = relay(Network::new(), path.to_str().unwrap(), &[]);
    let start = Instant::now();
    let mut client = Client::connect(relay.address());
    assert_eq!(client.wait_closed(), CloseCode::NotLoggedIn.number());
    assert!(
        start.elapsed() >= Duration::from_secs(4),
        "{:?}",
        start.elapsed()
    );
}

#[test]
fn end_of_a_token_is_announced_and_ends_the_connection() {
    let issuer = Issuer::es256("one");
    let path = file("keys_end.json", &key_set(&[&issuer]));
    let relay = relay(Network::new(), path.to_str().unwrap(), &[]);
    // The relay grants a leeway of five seconds.
    let short = |user| issuer.token(&with(claims(user), "exp", json!(seconds() - 1)));
    let mut client = Client::connect(relay.address());
    let mut renewed = Client::connect(relay.address());
    let mut taken_over = Client::connect(relay.address());
    for client in [&mut client, &mut renewed, &mut taken_over] {
        assert!(client.log_in(&short("jane")));
        let left = client.hello.as_ref().unwrap().expires_in_ms;
        assert!((1..=4_000).contains(&left), "{left}");
    }
    assert!(renewed.log_in(&issuer.token(&claims("jane"))));
    assert!(
        !taken_over.log_in(&issuer.token(&claims("root"))),
        "of another user"
    );

    assert_eq!(taken_over.wait_closed(), CloseCode::NotLoggedIn.number());
    assert_eq!(client.wait_closed(), CloseCode::NotLoggedIn.number());
    renewed.ask(RequestBody::Ping { client_time_ns: 1 });
}

#[test]
fn renewals_that_change_nothing_are_not_logged_again_and_again() {
    let issuer = Issuer::es256("one");
    let path = file("keys_renewals.json", &key_set(&[&issuer]));
    let relay = relay(Network::new(), path.to_str().unwrap(), &[]);
    let token = |groups: &str| issuer.token(&with(claims("otto"), "groups", json!(groups)));
    let mut client = Client::connect(relay.address());
    for _ in 0..5 {
        assert!(client.log_in(&token("staff")));
    }
    assert!(client.log_in(&token("staff operators")));
    assert!(!Client::connect(relay.address()).log_in("no token"));
    relay.says(" was refused: ");
    let output = relay.output();
    let lines = output.lines().filter(|line| line.contains(" logged in: "));
    assert_eq!(lines.count(), 2, "{output}");
}

#[test]
fn user_and_groups_of_a_token_decide_about_puts() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, r#"record(ao, "$(P)set") { field(VAL, "1") }"#);
    let set = ioc.name("set");
    let issuer = Issuer::eddsa("one");
    let path = file("keys_rules.json", &key_set(&[&issuer]));
    let rules = file(
        "users.toml",
        &format!(
            "enable_put = true\n[[rule]]\nuser = 'jane'\npv = '{set}'\nallow = 'put'\n\
             [[rule]]\ngroup = 'operators'\npv = '*'\nallow = 'put'\n"
        ),
    );
    let more = ["--config", rules.to_str().unwrap()];
    let relay = relay(network, path.to_str().unwrap(), &more);
    let log_in = |claims: Value| {
        let mut client = Client::connect(relay.address());
        assert!(client.log_in(&issuer.token(&claims)));
        client
    };
    let mut jane = log_in(claims("jane"));
    let mut mallory = log_in(claims("mallory"));
    let operator = with(claims("otto"), "groups", json!("staff operators"));
    let mut operator = log_in(operator);
    jane.subscribe_live(&[&set]);

    let (outcome, message) = mallory.put_number(&set, 666.0);
    assert_eq!(outcome, Outcome::NotAllowed);
    assert!(
        message.contains("user \"mallory\" may not put"),
        "{message}"
    );
    assert_eq!(jane.put_number(&set, 2.0).0, Outcome::Done);
    jane.wait_number(&set, 2.0);
    assert_eq!(operator.put_number(&set, 3.0).0, Outcome::Done);
    jane.wait_number(&set, 3.0);
    let values = jane.pv(&set).rows.len();
    assert_eq!(values, 3, "1, 2 and 3");
}

#[test]
fn renewal_without_the_group_ends_what_the_group_was_allowed() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, r#"record(ao, "$(P)set") { field(VAL, "1") }"#);
    let (set, later) = (ioc.name("set"), ioc.name("later"));
    let issuer = Issuer::eddsa("one");
    let path = file("keys_groups.json", &key_set(&[&issuer]));
    let rules = file(
        "groups.toml",
        &format!(
            "enable_put = true\n[[rule]]\ngroup = 'operators'\npv = '*'\nallow = ['read', 'put']\n\
             [[rule]]\npv = '{set}'\ndeny = 'read'\n"
        ),
    );
    let more = ["--config", rules.to_str().unwrap()];
    let relay = relay(network, path.to_str().unwrap(), &more);
    let operator = issuer.token(&with(claims("otto"), "groups", json!("operators")));
    let mut waiting = Client::connect(relay.address());
    let mut holding = Client::connect(relay.address());
    for client in [&mut waiting, &mut holding] {
        assert!(client.log_in(&operator));
    }
    holding.subscribe_live(&[&set]);
    // No PV has this name, so the put waits.
    let put = waiting.request(RequestBody::Put(PutRequest {
        name: later,
        value: PutValue::Number(7.0),
        wait: false,
        timeout_ms: 3_600_000,
        expected: None,
    }));
    for client in [&mut waiting, &mut holding] {
        assert!(client.log_in(&issuer.token(&claims("otto"))));
    }
    assert_eq!(holding.wait_closed(), CloseCode::RightsChanged.number());
    match waiting.wait_answer(put).0 {
        Reply::PutDone { outcome, message } => {
            assert_eq!(outcome, Outcome::NotAllowed, "{message}");
            assert!(message.starts_with("nothing was written"), "{message}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn new_key_is_good_soon_and_the_old_one_no_more() {
    let (old, new) = (Issuer::es256("old"), Issuer::es256("new"));
    let path = file("keys_changing.json", &key_set(&[&old]));
    let relay = relay(Network::new(), path.to_str().unwrap(), &[]);
    let log_in = |issuer: &Issuer| {
        let mut client = Client::connect(relay.address());
        client.log_in(&issuer.token(&claims("jane")))
    };
    assert!(log_in(&old));

    // An incomplete file changes nothing.
    std::fs::write(&path, r#"{"keys": ["#).unwrap();
    assert!(log_in(&old));
    std::fs::write(&path, key_set(&[&new])).unwrap();
    eventually("the new key is good", || log_in(&new));
    assert!(!log_in(&old));
}

#[test]
fn key_that_leaves_the_set_ends_only_its_own_sessions() {
    let (removed, kept) = (Issuer::es256("removed"), Issuer::eddsa("kept"));
    let path = file("keys_removed.json", &key_set(&[&removed, &kept]));
    let relay = relay(Network::new(), path.to_str().unwrap(), &[]);
    let log_in = |issuer: &Issuer| {
        let mut client = Client::connect(relay.address());
        assert!(client.log_in(&issuer.token(&claims("jane"))));
        client
    };
    let (mut by_removed, mut by_kept) = (log_in(&removed), log_in(&kept));
    let mut renewed = log_in(&removed);
    assert!(renewed.log_in(&kept.token(&claims("jane"))));

    // The same key with another id is the same key.
    let renamed = kept.renamed("renamed");
    std::fs::write(&path, key_set(&[&renamed])).unwrap();
    assert_eq!(by_removed.wait_closed(), CloseCode::NotLoggedIn.number());
    for client in [&mut by_kept, &mut renewed] {
        client.ask(RequestBody::Ping { client_time_ns: 1 });
        assert!(client.closed.is_none());
    }
    relay.wait_metric("pvwire_keys_stale", 0.0);
}

#[test]
fn set_without_keys_is_refused_and_old_keys_last_a_bounded_time() {
    let issuer = Issuer::es256("one");
    let path = file("keys_lost.json", &key_set(&[&issuer]));
    let keep = ["--jwt-keys-keep-ms=10000"];
    let relay = relay(Network::new(), path.to_str().unwrap(), &keep);
    let log_in = || {
        let mut client = Client::connect(relay.address());
        let is_in = client.log_in(&issuer.token(&claims("jane")));
        (client, is_in)
    };
    let is_stale = || relay.metric("pvwire_keys_stale") == 1.0;
    eventually("the keys are read", || {
        !is_stale() && relay.metric("pvwire_keys_read_timestamp_seconds") > 1e9
    });
    let (mut before, _) = log_in();

    std::fs::write(&path, key_set(&[])).unwrap();
    eventually("it is complained of", is_stale);
    assert!(log_in().1, "the last keys are good");
    eventually("the last keys have expired", || !log_in().1);
    before.ask(RequestBody::Ping { client_time_ns: 1 });
    assert!(
        before.closed.is_none(),
        "who was in stays until its token ends"
    );
    assert!(is_stale());

    std::fs::write(&path, key_set(&[&issuer])).unwrap();
    eventually("it is mended", || !is_stale());
    assert!(log_in().1);
    before.ask(RequestBody::Ping { client_time_ns: 1 });
    for what in ["the previous keys stay valid", "all log-ins are refused"] {
        relay.says(what);
        assert_eq!(relay.output().matches(what).count(), 1, "{what}");
    }
}

#[test]
fn url_without_keys_is_reported_and_used_again_later() {
    let (old, new) = (Issuer::es256("old"), Issuer::es256("new"));
    let body = Arc::new(Mutex::new(key_set(&[&old])));
    let relay = relay(Network::new(), &serve(Arc::clone(&body)), &[]);
    let log_in = |issuer: &Issuer| {
        let mut client = Client::connect(relay.address());
        client.log_in(&issuer.token(&claims("jane")))
    };
    *body.lock().unwrap() = String::new();
    assert!(!log_in(&new), "which has the keys read again");
    relay.wait_metric("pvwire_keys_stale", 1.0);
    assert!(log_in(&old));
    *body.lock().unwrap() = key_set(&[&old, &new]);
    assert!(log_in(&new));
    eventually("it is mended", || relay.metric("pvwire_keys_stale") == 0.0);
}

/// Serves `body` by HTTP.
fn serve(body: Arc<Mutex<String>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 4096];
            let _ = stream.read(&mut request);
            let body = body.lock().unwrap().clone();
            let length = body.len();
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n");
            let _ = stream.write_all((head + &body).as_bytes());
        }
    });
    format!("http://{address}/keys")
}

#[test]
fn token_of_a_key_that_is_new_at_the_url_is_good_at_once() {
    let (old, new) = (Issuer::es256("old"), Issuer::es256("new"));
    let body = Arc::new(Mutex::new(key_set(&[&old])));
    let url = serve(Arc::clone(&body));
    let relay = relay(Network::new(), &url, &[]);
    let mut client = Client::connect(relay.address());
    assert!(client.log_in(&old.token(&claims("jane"))));

    *body.lock().unwrap() = key_set(&[&old, &new]);
    let mut client = Client::connect(relay.address());
    assert!(client.log_in(&new.token(&claims("jane"))));
    assert_eq!(client.hello.unwrap().user, "jane");
}

#[test]
fn header_is_believed_from_the_proxy_only_and_said_once() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, r#"record(ao, "$(P)set") { field(VAL, "1") }"#);
    let set = ioc.name("set");
    let rules = file(
        "header.toml",
        "enable_put = true\n[[rule]]\ngroup = 'operators'\npv = '*'\nallow = 'put'\n",
    );
    let config = rules.to_str().unwrap();
    let start = |proxy: &str, more: &[&str]| {
        let flags = ["--config", config, "--auth=trusted-header", proxy];
        Relay::start(network, &[&flags, more].concat())
    };
    let foreign = start("--trusted-proxy=192.0.2.0/24", &[]);
    let jane = ("X-Forwarded-User", "jane");
    assert_eq!(handshake(foreign.address(), &[jane]).status, 403);
    drop(foreign);

    let named = ["--groups-header=X-Forwarded-Groups"];
    let relay = start("--trusted-proxy=127.0.0.0/8", &named);
    let address = relay.address();
    for headers in [
        &[][..],
        &[("X-Forwarded-User", "")],
        &[jane, ("X-Forwarded-User", "root")],
        &[("X-Forwarded-Users", "jane")],
    ] {
        assert_eq!(handshake(address, headers).status, 401, "{headers:?}");
    }
    let mut one = Client::connect_with(address, &[jane]);
    assert_eq!(one.hello.as_ref().unwrap().user, "jane");
    assert_eq!(one.put_number(&set, 2.0).0, Outcome::NotAllowed);
    let groups = ("X-Forwarded-Groups", "staff, operators");
    let mut two = Client::connect_with(address, &[("x-forwarded-user", "otto"), groups]);
    assert_eq!(two.put_number(&set, 3.0).0, Outcome::Done);
    // One of two is the client's.
    assert_eq!(handshake(address, &[jane, groups, groups]).status, 401);
    drop(relay);

    // The proxy sets only the user, and passes the client's own groups header on.
    let relay = start("--trusted-proxy=127.0.0.0/8", &[]);
    let mut client = Client::connect_with(relay.address(), &[jane, groups]);
    assert_eq!(client.hello.as_ref().unwrap().user, "jane");
    assert_eq!(client.put_number(&set, 4.0).0, Outcome::NotAllowed);
    drop(relay);

    // A relay without authentication ignores the header.
    let relay = Relay::start(network, &["--config", config]);
    let mut client = Client::connect_with(relay.address(), &[jane, groups]);
    assert_eq!(client.hello.as_ref().unwrap().user, "");
    assert_eq!(client.put_number(&set, 4.0).0, Outcome::NotAllowed);
    assert!(!client.log_in("x"), "and takes no tokens");
}

#[test]
fn relay_beyond_loopback_does_not_start_without_authentication() {
    for (flags, part) in [
        (&["--listen=0.0.0.0:0"][..], "allow_anonymous"),
        (&["--listen=[::]:0"], "allow_anonymous"),
        (&["--listen=127.0.0.1:0", "--auth=jwt"], "jwt_keys"),
        (
            &["--listen=127.0.0.1:0", "--auth=jwt", "--jwt-keys=/nowhere"],
            "jwt_audience",
        ),
        (
            &["--auth=jwt", "--jwt-keys=/nowhere", "--jwt-audience=a"],
            "/nowhere",
        ),
        (
            &[
                "--auth=jwt",
                "--jwt-keys=http://login.test/keys",
                "--jwt-audience=a",
            ],
            "https://",
        ),
        (&["--auth=trusted-header"], "trusted_proxy"),
        (
            &["--auth=trusted-header", "--trusted-proxy=proxy"],
            "a network",
        ),
        (&["--auth=basic"], "trusted-header"),
    ] {
        let mut command = relay_command(Network::new());
        let output = command.args(flags).output().unwrap();
        assert_eq!(output.status.code(), Some(64), "{flags:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains(part), "{flags:?}: {said}");
    }
    Relay::start(Network::new(), &["--allow-anonymous"]);
}

#[test]
fn user_whose_connections_come_too_fast_learns_it_at_login() {
    let issuer = Issuer::es256("one");
    let path = file("keys_fast.json", &key_set(&[&issuer]));
    let more = ["--max-new-connections-per-s=1"];
    let relay = relay(Network::new(), path.to_str().unwrap(), &more);
    let token = issuer.token(&claims("jane"));
    let log_in = |token: &str| {
        let mut client = Client::connect(relay.address());
        let is_in = client.log_in(token);
        // The token is valid: the page must reconnect with it later.
        let later = CloseCode::TryAgainLater.number();
        assert!(
            is_in || client.wait_closed() == later,
            "{:?}",
            client.closed
        );
        is_in
    };
    // Twenty-five at once, and one for each second that this takes.
    let start = Instant::now();
    let taken = (0..1_000).take_while(|_| log_in(&token)).count();
    let most = 26 + start.elapsed().as_secs() as usize;
    assert!((25..=most).contains(&taken), "{taken}, {most} at most");
    assert!(log_in(&issuer.token(&claims("joe"))), "another user");
    relay.says("max_new_connections_per_s");
}
