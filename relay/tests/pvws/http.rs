//! The HTTP routes below `/pvws/`.

use std::net::SocketAddr;

use serde_json::{Value, json};
use testbed::{Network, Relay, get, handshake, in_repository, raw, relay_command};

use super::client::flags;

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
