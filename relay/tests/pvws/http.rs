//! The HTTP routes below `/pvws/`, among them those that read a PV, list the open PVs, and show and close clients' sockets.

use std::net::SocketAddr;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use testbed::{
    Answer, Network, Relay, SoftIoc, eventually, file, get, handshake, in_repository, raw,
    relay_command,
};

use super::client::{Pvws, flags, relay_of_users};
use crate::pages::admin_address;

/// What the relay answers to a request with this method: the head in lower case, and the body.
pub(super) fn asked(address: SocketAddr, method: &str, path: &str) -> (String, Vec<u8>) {
    let (head, body) = raw(address, method, path, "");
    (head.to_lowercase(), body)
}

#[test]
fn files_have_their_type_and_run_only_scripts_of_the_relay() {
    let relay = Relay::start(Network::new(), &flags(&[]));
    let site = in_repository("relay/src/doors/pvws/site");
    for (path, file, content_type) in [
        ("", "index.html", "text/html"),
        ("index.html", "index.html", "text/html"),
        ("css/page.css", "page.css", "text/css"),
        ("js/page.js", "page.js", "text/javascript"),
        ("js/pvws.js", "pvws.js", "text/javascript"),
        ("js/base64.js", "base64.js", "text/javascript"),
        ("img/connected.png", "connected.png", "image/png"),
        ("img/disconnected.png", "disconnected.png", "image/png"),
    ] {
        let (head, body) = asked(relay.address(), "GET", &format!("/pvws/{path}"));
        assert!(head.starts_with("http/1.1 200"), "{head}");
        assert!(
            head.contains(&format!("content-type: {content_type}")),
            "{head}"
        );
        assert!(head.contains("x-content-type-options: nosniff"), "{head}");
        let policy = head.split("content-security-policy: ").nth(1).unwrap();
        let policy = policy.lines().next().unwrap();
        assert!(policy.contains("script-src 'self';"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(body, std::fs::read(site.join(file)).unwrap(), "{path}");
    }
    let index = get(relay.address(), "/pvws/", &[]).body;
    assert!(
        index.contains("img/connected.png"),
        "health checks search it"
    );
}

#[test]
fn unknown_paths_get_the_index_page_with_status_404() {
    let relay = Relay::start(Network::new(), &flags(&[]));
    for (path, base) in [("/pvws/nosuch", "./"), ("/pvws/a/b/c", "./../../")] {
        let answer = get(relay.address(), path, &[]);
        assert_eq!(answer.status, 404, "{path}");
        assert!(answer.body.contains("img/connected.png"), "{path}");
        assert!(answer.body.contains(&format!("<base href=\"{base}\">")));
    }
    let folder = get(relay.address(), "/pvws", &[]);
    assert_eq!(folder.status, 302);
    assert!(folder.head.to_lowercase().contains("location: pvws/"));
    assert_eq!(get(relay.address(), "/pvwsx", &[]).status, 404);
    assert_eq!(get(relay.address(), "/pvws/pv", &[]).status, 426);
}

#[test]
fn info_lists_settings_and_nothing_of_the_environment() {
    let mut command = relay_command(Network::new());
    command.envs([("PV_THROTTLE_MS", "250"), ("MY_PASSWORD", "secret")]);
    let relay = Relay::spawn(command, &["--pvws"]);
    let info = |query: &str| -> Value {
        let answer = get(relay.address(), &format!("/pvws/info{query}"), &[]);
        assert_eq!(answer.status, 200);
        serde_json::from_str(&answer.body).unwrap()
    };
    let short = info("");
    assert!(short["jre"].as_str().unwrap().starts_with("pvwire-relay "));
    let start = short["start_time"].as_str().unwrap();
    assert_eq!((start.len(), &start[4..5], &start[10..11]), (19, "-", " "));
    for query in ["", "?env=false", "?env", "?x=true"] {
        assert_eq!(info(query), short, "{query}");
    }
    let long = info("?env=true");
    assert_eq!(
        long["env"],
        json!([
            {"PV_DEFAULT_TYPE": "ca"},
            {"PV_THROTTLE_MS": "250"},
            {"PV_ARRAY_THROTTLE_MS": "500"},
            {"PV_WRITE_SUPPORT": "true"},
        ])
    );
}

#[test]
fn pages_of_foreign_hosts_need_allow_origin() {
    let allowed = "https://screens.example.org";
    let relay = Relay::start(Network::new(), &flags(&["--allow-origin", allowed]));
    let from = |origin| get(relay.address(), "/pvws/info", &[("Origin", origin)]);
    let answer = from(allowed);
    assert_eq!(answer.status, 200);
    let head = answer.head.to_lowercase();
    let header = format!("access-control-allow-origin: {allowed}");
    assert!(
        head.contains(&header) && head.contains("vary: origin"),
        "{head}"
    );
    let foreign = from("https://elsewhere.example.org");
    assert_eq!(foreign.status, 403);
    assert!(foreign.body.contains("--allow-origin"), "{}", foreign.body);
    // The page may read why it is refused.
    let head = foreign.head.to_lowercase();
    assert!(head.contains("access-control-allow-origin: *"), "{head}");
    // Programs send no Origin.
    assert_eq!(get(relay.address(), "/pvws/info", &[]).status, 200);
    let strange_host = [("Host", "elsewhere.example.org")];
    for path in ["/pvws/", "/pvws/info", "/pvws/js/pvws.js"] {
        assert_eq!(
            get(relay.address(), path, &strange_host).status,
            421,
            "{path}"
        );
    }
}

#[test]
fn routes_are_served_only_with_the_door_and_only_by_get() {
    let without = Relay::start(Network::new(), &[]);
    for path in [
        "/pvws",
        "/pvws/",
        "/pvws/info",
        "/pvws/js/pvws.js",
        "/pvws/pv",
    ] {
        let answer = get(without.address(), path, &[]);
        assert_eq!(answer.status, 404, "{path}");
        assert!(answer.body.contains("nothing here"), "{}", answer.body);
    }
    let relay = Relay::start(Network::new(), &flags(&[]));
    for (method, path) in [("DELETE", "/pvws/socket/1"), ("OPTIONS", "/pvws/info")] {
        let (head, _) = asked(relay.address(), method, path);
        assert!(head.starts_with("http/1.1 405"), "{method}: {head}");
    }
    assert_eq!(handshake(relay.address(), &[]).status, 101);
}

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
fn sockets_with_many_names_are_written_by_the_computing_threads() {
    let relay = Relay::start(Network::new(), &flags(&[]));
    let mut client = Pvws::connect(&relay);
    let names: Vec<_> = (0..3_000).map(|n| format!("loc://many{n}(1)")).collect();
    client.subscribe(&names.iter().map(String::as_str).collect::<Vec<_>>());
    client.update("loc://many2999(1)", "its value", |update| {
        update["value"] == 1.0
    });
    let cpu = || ["pvwire-relay", "compute"].map(|thread| relay.thread_cpu(thread));
    let before = cpu();
    for _ in 0..20 {
        let all = sockets(relay.address(), "/pvws/socket", &[]);
        assert_eq!(all[0]["pvs"].as_array().unwrap().len(), 3_000);
    }
    let after = cpu();
    let [http, computed] = [0, 1].map(|thread| after[thread] - before[thread]);
    assert!(http < computed, "{http:?} beside {computed:?}");
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
