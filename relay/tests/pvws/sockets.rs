//! The routes that show and close clients' sockets: `/pvws/summary` and `/pvws/socket`.

use std::net::SocketAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use testbed::{Network, Relay, eventually, get};

use super::client::{Pvws, flags, relay_of_users};
use super::http::asked;
use crate::pages::admin_address;

fn sockets(address: SocketAddr, path: &str, headers: &[(&str, &str)]) -> Vec<Value> {
    let answer = get(address, path, headers);
    assert_eq!(answer.status, 200, "{}", answer.body);
    let body: Value = serde_json::from_str(&answer.body).unwrap();
    body["sockets"].as_array().unwrap().clone()
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    since.as_millis() as i64
}

#[test]
fn sockets_are_listed_with_times_names_and_values() {
    let begun = now_ms();
    let relay = Relay::start(Network::new(), &flags(&[]));
    let mut client = Pvws::connect(&relay);
    for name in ["loc://a(2.5)", "loc://b(1,2,3)", "nosuch://c"] {
        client.subscribe(&[name]);
    }
    client.update("loc://b(1,2,3)", "its value", |update| {
        update["b64dbl"].is_string()
    });
    let _other = Pvws::connect(&relay);
    let address = relay.address();
    let mut summary = Vec::new();
    eventually("both sockets are listed with their PVs", || {
        summary = sockets(address, "/pvws/summary", &[]);
        summary.len() == 2 && summary.iter().any(|socket| socket["arrays"] == 1)
    });
    let first = summary.iter().find(|socket| socket["arrays"] == 1).unwrap();
    assert_eq!(
        (&first["pvs"], &first["max_size"], &first["queued"]),
        (&json!(2), &json!(3), &json!(0))
    );
    let keys: Vec<_> = first.as_object().unwrap().keys().collect();
    let mut expected = [
        "id",
        "created",
        "last_client_message",
        "last_message_sent",
        "queued",
        "pvs",
        "arrays",
        "max_size",
    ];
    expected.sort_unstable();
    assert_eq!(keys, expected);
    let time = |key: &str| first[key].as_i64().unwrap();
    // The clock of the whole machine and that of the process differ by milliseconds.
    let range = begun - 1_000..=now_ms() + 1_000;
    for key in ["created", "last_client_message", "last_message_sent"] {
        assert!(range.contains(&time(key)), "{key}: {first}");
    }
    assert!(
        time("last_client_message") >= time("created") - 10,
        "{first}"
    );
    let id = first["id"].as_str().unwrap();
    let all = sockets(address, "/pvws/socket", &[]);
    let one = sockets(address, &format!("/pvws/socket/{id}"), &[]);
    assert_eq!((all.len(), one.len()), (2, 1));
    assert_eq!(
        one[0]["pvs"],
        json!([{"name": "loc://a(2.5)", "value": "2.5"}, {"name": "loc://b(1,2,3)", "value": "3 elements"}])
    );
    assert_eq!(get(address, "/pvws/socket/nosuch", &[]).status, 404);
}

#[test]
fn only_operators_close_sockets() {
    let relay = Relay::start(Network::new(), &flags(&["--admin-listen=127.0.0.1:0"]));
    let operators = admin_address(&relay);
    let (mut one, mut other) = (Pvws::connect(&relay), Pvws::connect(&relay));
    one.subscribe(&["loc://mine(1)"]);
    one.update("loc://mine(1)", "its value", |update| {
        update["value"] == 1.0
    });
    other.so_far();
    let all = sockets(operators, "/pvws/socket", &[]);
    let mine = all.iter().find(|socket| socket["pvs"] != json!([]));
    let path = format!("/pvws/socket/{}", mine.unwrap()["id"].as_str().unwrap());
    assert_eq!(get(relay.address(), "/pvws/summary", &[]).status, 404);
    let (refused, _) = asked(relay.address(), "DELETE", &path);
    assert!(refused.starts_with("http/1.1 405"), "{refused}");
    let (closed, _) = asked(operators, "DELETE", &path);
    assert!(closed.starts_with("http/1.1 200"), "{closed}");
    assert_eq!(one.close_code(), 1000);
    let (gone, _) = asked(operators, "DELETE", &path);
    assert!(gone.starts_with("http/1.1 404"), "{gone}");
    for path in ["/pvws/summary", "/pvws/info", "/status"] {
        let (refused, _) = asked(operators, "DELETE", path);
        assert!(refused.starts_with("http/1.1 405"), "{path}: {refused}");
    }
    other.so_far();
    assert_eq!(sockets(operators, "/pvws/summary", &[]).len(), 1);
}

#[test]
fn sockets_are_shown_to_those_who_may_see_the_status_page() {
    let rules = "[[rule]]\nuser = \"ann\"\npv = \"*\"\nallow = \"read\"\n[[rule]]\npv = \"loc://open*\"\nallow = \"read\"\n[[rule]]\npv = \"*\"\ndeny = \"read\"\n";
    let (relay, _) = relay_of_users(Network::new(), rules, &["--pages", "login"]);
    let mut ann = Pvws::try_connect(relay.address(), &[("X-Forwarded-User", "ann")]).unwrap();
    ann.subscribe(&["loc://open(1)", "loc://secret(2)"]);
    ann.update("loc://secret(2)", "its value", |update| {
        update["value"] == 2.0
    });
    let seen_by = |user| {
        let all = sockets(
            relay.address(),
            "/pvws/socket",
            &[("X-Forwarded-User", user)],
        );
        all[0]["pvs"].clone()
    };
    assert_eq!(
        seen_by("bob"),
        json!([{"name": "loc://open(1)", "value": "1"}])
    );
    assert_eq!(seen_by("ann").as_array().unwrap().len(), 2);
    for path in ["/pvws/socket", "/pvws/summary"] {
        let without = get(relay.address(), path, &[]);
        assert!([401, 403].contains(&without.status), "{}", without.status);
    }
}
