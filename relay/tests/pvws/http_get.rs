//! `GET /pvws/pvget` reads one PV under the rules and limits of clients; `GET /pvws/pool` lists the open PVs.

use std::thread;

use serde_json::{Value, json};
use testbed::{Answer, Network, Relay, SoftIoc, eventually, file, get};

use super::client::{Pvws, flags};

const DATABASE: &str = r#"
record(ao, "$(P)ao") {
    field(VAL, "2.5") field(EGU, "V") field(PREC, "2") field(HOPR, "10") field(HIGH, "2") field(HSV, "MINOR")
    field(PINI, "YES")
}
record(mbbo, "$(P)enum") { field(VAL, "1") field(ZRST, "off") field(ONST, "on") field(PINI, "YES") }
record(waveform, "$(P)wave") { field(FTVL, "SHORT") field(NELM, "4") field(INP, [1, -2]) field(PINI, "YES") }
record(ao, "$(P)secret") { field(VAL, "1") field(PINI, "YES") }
"#;

fn ask_for(relay: &Relay, query: &str, headers: &[(&str, &str)]) -> Answer {
    get(relay.address(), &format!("/pvws/pvget?{query}"), headers)
}

/// The names in the pool and the numbers of their clients, as this user sees them.
fn pool(relay: &Relay, headers: &[(&str, &str)]) -> Value {
    let answer = get(relay.address(), "/pvws/pool", headers);
    assert_eq!(answer.status, 200, "{}", answer.body);
    serde_json::from_str(&answer.body).unwrap()
}

fn got(relay: &Relay, query: &str) -> Value {
    let answer = ask_for(relay, query, &[]);
    assert_eq!(answer.status, 200, "{query}: {}", answer.body);
    assert!(answer.head.to_lowercase().contains("application/json"));
    serde_json::from_str(&answer.body).unwrap()
}

#[test]
fn pvget_answers_one_update_with_metadata_and_without_readonly() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, DATABASE);
    let relay = Relay::start(network, &flags(&["--linger-ms", "100"]));
    let [ao, enumeration, wave] = ioc.names(["ao", "enum", "wave"]);
    let mut update = got(&relay, &format!("name={ao}"));
    for time in ["seconds", "nanos"] {
        let fields = update.as_object_mut().unwrap();
        assert!(
            fields.remove(time).is_some_and(|time| time.is_i64()),
            "{time}"
        );
    }
    assert_eq!(
        update,
        json!({
            "type": "update", "pv": ao, "vtype": "VDouble", "units": "V", "description": null, "precision": 2,
            "min": 0.0, "max": 10.0, "warn_low": "-Infinity", "warn_high": 2.0, "alarm_low": "NaN",
            "alarm_high": "NaN", "severity": "MINOR", "value": 2.5,
        })
    );
    let full = format!("ca://{ao}");
    let update = got(&relay, &format!("pv={}", full.replace("://", "%3A%2F%2F")));
    assert_eq!(
        (&update["pv"], &update["value"]),
        (&json!(full), &json!(2.5))
    );
    let update = got(&relay, &format!("name={enumeration}"));
    assert_eq!(
        (&update["vtype"], &update["text"]),
        (&json!("VEnum"), &json!("on"))
    );
    let update = got(&relay, &format!("name={wave}"));
    assert_eq!(update["b64srt"], "AQD+/w==");
    eventually("no PV is held", || {
        relay.metric("pvwire_monitors_active") == 0.0
    });
    relay.wait_metric("pvwire_memory_charged_bytes", 0.0);
}

#[test]
fn pvget_of_a_pv_without_a_value_is_an_empty_object() {
    let relay = Relay::start(Network::new(), &flags(&["--linger-ms", "100"]));
    assert_eq!(got(&relay, "name=NOSUCH:PV"), json!({}));
    eventually("it isn't held", || {
        relay.metric("pvwire_monitors_active") == 0.0
    });
    for query in [
        "",
        "names=x",
        "name=%zz",
        "name=",
        "name=nosuch://x",
        "name=a%20b",
    ] {
        let answer = ask_for(&relay, query, &[]);
        assert_eq!(answer.status, 400, "{query}: {}", answer.body);
    }
}

#[test]
fn pvget_follows_rules_identities_and_limits() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, DATABASE);
    let [ao, wave, secret] = ioc.names(["ao", "wave", "secret"]);
    let rules = file(
        "pvget.toml",
        &format!(
            r#"
            auth = "trusted-header"
            trusted_proxy = ["127.0.0.1"]
            max_new_names_per_s = 1
            max_subscriptions = 1
            [[rule]]
            user = "jane"
            pv = "*"
            allow = "read"
            [[rule]]
            pv = "{secret}"
            deny = "read"
            "#
        ),
    );
    let relay = Relay::start(network, &flags(&["--config", rules.to_str().unwrap()]));
    let [john, jane] = ["john", "jane"].map(|user| [("X-Forwarded-User", user)]);
    let query = format!("name={secret}");
    assert_eq!(ask_for(&relay, &query, &[]).status, 401);
    let refused = ask_for(&relay, &query, &john);
    assert_eq!(refused.status, 403);
    assert!(
        refused.body.contains("may not read this PV"),
        "{}",
        refused.body
    );
    assert_eq!(relay.metric("pvwire_monitors_active"), 0.0, "not searched");
    assert_eq!(ask_for(&relay, &query, &jane).status, 200);
    assert_eq!(ask_for(&relay, &format!("name={ao}"), &john).status, 200);

    let foreign = [("Origin", "https://elsewhere.example.org"), john[0]];
    assert_eq!(
        ask_for(&relay, &format!("name={wave}"), &foreign).status,
        403
    );
    // A user has a budget of new names: ten at once here, and ten more per second.
    let statuses: Vec<_> = thread::scope(|scope| {
        let ask = |n: usize| ask_for(&relay, &format!("name={ao}:NOSUCH{n}"), &john);
        let asking: Vec<_> = (0..80).map(|n| scope.spawn(move || ask(n))).collect();
        let answers = asking.into_iter().map(|asked| asked.join().unwrap());
        let status = |answer: Answer| {
            let is_about_names = answer.body.contains("max_new_names_per_s");
            assert_eq!(answer.status == 429, is_about_names, "{}", answer.body);
            answer.status
        };
        answers.map(status).collect()
    });
    assert!(
        statuses.contains(&200) && statuses.contains(&429),
        "{statuses:?}"
    );
}

#[test]
fn pool_lists_the_pvs_that_a_user_may_read() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, DATABASE);
    let [ao, secret] = ioc.names(["ao", "secret"]);
    let rules = file(
        "pool.toml",
        &format!("[[rule]]\nuser = \"john\"\npv = \"{secret}\"\ndeny = \"read\"\n"),
    );
    let login = [
        "--pages=login",
        "--auth=trusted-header",
        "--trusted-proxy=127.0.0.1",
    ];
    let more = [&["--config", rules.to_str().unwrap()][..], &login[..]].concat();
    let relay = Relay::start(network, &flags(&more));
    let [john, jane] = ["john", "jane"].map(|user| [("X-Forwarded-User", user)]);
    assert_eq!(pool(&relay, &jane), json!([]));
    let mut clients = [(); 2].map(|()| Pvws::try_connect(relay.address(), &jane).unwrap());
    for client in &mut clients {
        client.subscribe(&[&ao, &secret]);
        client.update(&secret, "its value", |update| update["value"] == 1.0);
    }
    let of = |name: &str| json!({"refs": 2, "pv": format!("ca://{name}")});
    assert_eq!(pool(&relay, &jane), json!([of(&ao), of(&secret)]));
    assert_eq!(pool(&relay, &john), json!([of(&ao)]));
    assert_eq!(get(relay.address(), "/pvws/pool", &[]).status, 401);
    let off = Relay::start(network, &flags(&["--pages=off"]));
    assert_eq!(get(off.address(), "/pvws/pool", &[]).status, 404);
}
