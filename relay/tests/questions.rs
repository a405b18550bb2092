//! Clients look for names of PVs, by the protocol and by plain HTTP.
//!
//! Topology: a soft IOC with Channel Access, or servers of pvAccess; one relay; clients of the protocol, and HTTP.

use std::fmt::Write;
use std::fs;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pvwire_schema::decode;
use pvwire_schema::limits::MAX_PAGE_BYTES;
use pvwire_schema::types::{
    Outcome, Page, PutRequest, PutValue, Reply, RequestBody, RequestProblem,
};
use serde_json::{Value, json};

use testbed::{
    Client, DEADLINE, Network, Relay, SoftIoc, StructureServer, eventually, file, get, prefix,
    within,
};

fn ask(body: &Value) -> RequestBody {
    ask_service("names", body)
}

fn ask_service(service: &str, body: &Value) -> RequestBody {
    RequestBody::Ask {
        service: service.to_owned(),
        body: body.to_string().into_bytes(),
    }
}

/// All pages of the answers to these requests, in the order in which they come.
pub(crate) fn pages(client: &mut Client, requests: &[u32]) -> Vec<(u32, Page, Vec<u8>)> {
    let (mut pages, deadline) = (Vec::new(), Instant::now() + DEADLINE);
    let mut open = requests.to_vec();
    while !open.is_empty() {
        assert!(Instant::now() < deadline, "no further page after {pages:?}");
        if !client.read_for_a_moment() {
            continue;
        }
        let Ok(frame) = decode::frame(client.last_answer()) else {
            continue;
        };
        let Some(Reply::Page(page)) = frame.reply() else {
            continue;
        };
        // What was read may be no answer; the last one is then of an earlier question.
        if !requests.contains(&frame.reply_to()) {
            continue;
        }
        let is_new = |(to, known, _): &(u32, Page, Vec<u8>)| {
            (*to, known.page) != (frame.reply_to(), page.page)
        };
        if !pages.iter().all(is_new) {
            continue;
        }
        open.retain(|request| !(page.last && *request == frame.reply_to()));
        let content = frame.page_content().map_or(&[][..], |(_, content)| content);
        pages.push((frame.reply_to(), page, content.to_vec()));
    }
    pages
}

/// The answer to one question: the names of all its pages, and the `next` of the last one.
fn answer(
    client: &mut Client,
    question: &Value,
) -> Result<(Vec<Value>, Option<String>), (Outcome, String)> {
    let request = client.request(ask(question));
    let (mut names, mut next) = (Vec::new(), None);
    for (number, (_, page, content)) in pages(client, &[request]).into_iter().enumerate() {
        if page.outcome != Outcome::Done {
            return Err((page.outcome, page.message));
        }
        assert_eq!(page.page as usize, number);
        assert!(content.len() <= MAX_PAGE_BYTES);
        let content: Value = serde_json::from_slice(&content).unwrap();
        names.extend(content["names"].as_array().unwrap().clone());
        next = content["next"].as_str().map(str::to_owned);
        assert!(next.is_none() || page.last);
    }
    Ok((names, next))
}

/// `GET /names`.
pub(crate) fn by_http(relay: &Relay, query: &str) -> Value {
    let answer = get(relay.address(), &format!("/names?{query}"), &[]);
    assert_eq!(answer.status, 200, "{}", answer.body);
    serde_json::from_str(&answer.body).unwrap()
}

pub(crate) fn named(answer: &Value) -> Vec<&str> {
    let names = answer["names"].as_array().unwrap();
    names
        .iter()
        .map(|name| name["name"].as_str().unwrap())
        .collect()
}

#[test]
fn pv_of_a_soft_ioc_is_offered_once_it_was_used_and_a_mistyped_name_never() {
    let network = Network::new();
    let ioc = SoftIoc::start(
        network,
        r#"record(ai, "$(P)temp") {} record(ai, "$(P)unused") {}"#,
    );
    let relay = Relay::start(network, &["--linger-ms=100"]);
    let query = format!("q={}", ioc.prefix());
    assert_eq!(by_http(&relay, &query), json!({ "names": [] }));
    let mut client = Client::connect(relay.address());
    let name = ioc.name("temp");
    client.subscribe_live(&[&name]);
    client.subscribe(&[ioc.name("tmep")]);
    let expected = json!({ "name": name, "protocol": "ca", "from": ["relay"] });
    eventually("the name is offered", || {
        !named(&by_http(&relay, &query)).is_empty()
    });
    assert_eq!(by_http(&relay, &query), json!({ "names": [&expected] }));
    let question = json!({ "text": ioc.prefix().to_lowercase(), "limit": 5 });
    assert_eq!(answer(&mut client, &question), Ok((vec![expected], None)));
    drop(client);
    relay.wait_metric("pvwire_monitors", 0.0);
    assert_eq!(
        named(&by_http(&relay, &query)),
        [&name],
        "also after its use"
    );
}

#[test]
fn answer_of_several_pages_has_every_name_once_and_goes_on_after_its_last_name() {
    let network = Network::new();
    let mut database = String::new();
    for number in 0..700 {
        writeln!(database, r#"record(ai, "$(P)many:{number:03}") {{}}"#).unwrap();
    }
    let ioc = SoftIoc::start(network, &database);
    let relay = Relay::start(network, &[]);
    let mut client = Client::connect(relay.address());
    let mut names: Vec<_> = (0..700)
        .map(|number| ioc.name(&format!("many:{number:03}")))
        .collect();
    client.subscribe_live(&names);
    names.sort();
    let text = format!("{}*", ioc.prefix());
    let of = |found: &[Value]| -> Vec<String> {
        found
            .iter()
            .map(|name| name["name"].as_str().unwrap().to_owned())
            .collect()
    };
    let (found, next) = answer(&mut client, &json!({ "text": text, "limit": 1_000 })).unwrap();
    assert_eq!((of(&found), next), (names.clone(), None));

    let (first, next) = answer(&mut client, &json!({ "text": text, "limit": 600 })).unwrap();
    assert_eq!(of(&first), names[..600]);
    let (second, next) = answer(
        &mut client,
        &json!({ "text": text, "limit": 600, "after": next }),
    )
    .unwrap();
    assert_eq!((of(&second), next), (names[600..].to_vec(), None));

    let (found, next) = answer(&mut client, &json!({ "text": text })).unwrap();
    assert_eq!((found.len(), next.is_some()), (20, true));
    let found = by_http(&relay, &format!("q={text}&limit=650"));
    assert_eq!(named(&found), names[..650]);
    let next = found["next"].as_str().unwrap();
    let rest = by_http(&relay, &format!("q={text}&limit=50&after={next}"));
    assert_eq!(
        (named(&rest), &rest["next"]),
        (
            names[650..].iter().map(|name| &**name).collect(),
            &Value::Null
        )
    );

    // Two questions take turns.
    let question = json!({ "text": text, "limit": 1_000 });
    let requests = [
        client.request(ask(&question)),
        client.request(ask(&question)),
    ];
    let order: Vec<_> = pages(&mut client, &requests)
        .iter()
        .map(|(request, ..)| *request)
        .collect();
    assert_eq!(order, [requests, requests, requests].concat());
}

#[test]
fn question_that_is_not_answered_says_why() {
    let network = Network::new();
    let relay = Relay::start(network, &[]);
    let mut client = Client::connect(relay.address());
    let unknown = RequestBody::Ask {
        service: "name".to_owned(),
        body: Vec::new(),
    };
    let request = client.request(unknown);
    let [(_, page, _)] = &pages(&mut client, &[request])[..] else {
        panic!("one page says why");
    };
    assert_eq!((page.outcome, page.last), (Outcome::BadName, true));
    assert_eq!(
        page.message,
        r#"this relay has no service "name"; it has: about, names, history, missed"#
    );
    let (outcome, message) = answer(&mut client, &json!({ "limit": 0 })).unwrap_err();
    assert_eq!(outcome, Outcome::BadValue);
    assert_eq!(message, "limit is 0: expected 1 to 1000");

    let long = RequestBody::Ask {
        service: "names".to_owned(),
        body: vec![b' '; (64 << 10) + 1],
    };
    let (reply, _) = client.ask(long);
    let Reply::Error { problem, message } = reply else {
        panic!("{reply:?}");
    };
    assert_eq!(problem, RequestProblem::Refused);
    assert!(message.contains("65537 bytes of a question"), "{message}");

    // Nothing is left open: more questions than may wait at the same time, one after the other.
    client.request(RequestBody::Cancel { request: 77 });
    for _ in 0..100 {
        let done = answer(&mut client, &json!({ "text": "x" }));
        assert_eq!(done, Ok((Vec::new(), None)));
    }

    for (query, why) in [
        ("limit=x", r#"limit is "x": expected 1 to 1000"#),
        ("limit=1001", "limit is 1001: expected 1 to 1000"),
        ("after=x", r#"after is not the "next" of an earlier answer"#),
    ] {
        let answer = get(relay.address(), &format!("/names?{query}"), &[]);
        assert_eq!(answer.status, 400);
        let error: Value = serde_json::from_str(&answer.body).unwrap();
        assert_eq!(error, json!({ "error": why }));
    }
    let foreign = [("Origin", "http://evil.example")];
    assert_eq!(get(relay.address(), "/names", &foreign).status, 403);
}

#[test]
fn client_is_offered_no_name_that_the_rules_hide() {
    let network = Network::new();
    let ioc = SoftIoc::start(
        network,
        r#"record(ai, "$(P)open") {} record(ai, "$(P)secret") {}"#,
    );
    let names = ioc.names(["open", "secret"]);
    let rules = file(
        "names.toml",
        &format!(
            r#"
            auth = "trusted-header"
            trusted_proxy = ["127.0.0.1"]
            [[rule]]
            user = "jane"
            pv = "*"
            allow = "read"
            [[rule]]
            pv = "{}"
            deny = "read"
            "#,
            names[1]
        ),
    );
    let relay = Relay::start(network, &["--config", rules.to_str().unwrap()]);
    let jane = [("X-Forwarded-User", "jane")];
    let mut client = Client::connect_with(relay.address(), &jane);
    client.subscribe_live(&names);
    let query = format!("/names?q={}", ioc.prefix());
    let offered = |headers: &[(&str, &str)]| -> Vec<String> {
        let answer = get(relay.address(), &query, headers);
        assert_eq!(answer.status, 200, "{}", answer.body);
        let answer = serde_json::from_str(&answer.body).unwrap();
        named(&answer).into_iter().map(str::to_owned).collect()
    };
    eventually("jane is offered both", || offered(&jane) == names);
    assert_eq!(offered(&[("X-Forwarded-User", "joe")]), names[..1]);
    let mut joe = Client::connect_with(relay.address(), &[("X-Forwarded-User", "joe")]);
    let question = json!({ "text": ioc.prefix(), "limit": 1 });
    let (found, next) = answer(&mut joe, &question).unwrap();
    assert_eq!(
        (found.len(), next),
        (1, None),
        "and is not told that there are more"
    );
}

#[test]
fn names_that_pvaccess_servers_list_are_offered_at_once_and_follow_a_restart() {
    let records = r#"record(ai, "$(P)a") {} record(ai, "$(P)b") { alias("$(P)c") }"#;
    // Beacons by loopback reach one socket only, so the restart is seen by a name server's connection.
    for (network, restarts) in [
        (Network::with_searches_by_udp(), false),
        (Network::new(), true),
    ] {
        let prefix = prefix();
        let ioc = SoftIoc::with_pv_access(network, &prefix, records);
        let query = format!("q={prefix}&limit=1000");
        let whole = |names: &[&str]| -> Vec<String> {
            let whole = |name| format!("pva://{prefix}{name}");
            names.iter().map(whole).collect()
        };
        within(Duration::from_secs(2), "the names of an IOC", || {
            let relay = Relay::start(network, &[]);
            let begun = Instant::now();
            eventually("the server's names are offered", || {
                named(&by_http(&relay, &query)) == whole(&["a", "b", "c"])
            });
            begun.elapsed()
        });
        let relay = Relay::start(network, &[]);
        let one = || by_http(&relay, &format!("q={prefix}a"))["names"].clone();
        let name = format!("pva://{prefix}a");
        let expected = json!([{ "name": name, "protocol": "pva", "from": ["server"] }]);
        eventually("a name says where it is from", || one() == expected);
        if !restarts {
            continue;
        }
        ioc.kill();
        let _ioc = SoftIoc::with_pv_access(network, &prefix, r#"record(ai, "$(P)d") {}"#);
        eventually("the names of the new IOC are offered", || {
            named(&by_http(&relay, &query)) == whole(&["d"])
        });
    }
}

#[test]
fn names_of_a_server_made_with_python_are_offered() {
    let network = Network::new();
    let prefix = prefix();
    let _server = StructureServer::start(Some(network), &prefix);
    let relay = Relay::start(network, &[]);
    eventually("the server's names are offered", || {
        let found = by_http(&relay, &format!("q={prefix}&limit=1000"));
        named(&found).len() > 3
    });
}

#[test]
fn answer_with_many_names_is_written_by_the_computing_threads() {
    let names = (0..3_000).map(|number| format!("OP:{number:04}:{}\n", "X".repeat(400)));
    let list = file("many.txt", &names.collect::<String>());
    let folder = list.with_extension("screens");
    fs::create_dir_all(&folder).unwrap();
    let flags = [
        format!("--names-file={}", list.display()),
        format!("--screens={}", folder.display()),
    ];
    let relay = Relay::start(Network::new(), &flags.each_ref().map(String::as_str));
    let answer = |path: &str| get(relay.address(), path, &[]);
    let path = "/names?q=op:&limit=1000";
    let body = answer(path).body;
    assert!(body.len() > 400_000, "{body}");
    // As many bytes of a file, which are sent as they are.
    fs::write(folder.join("same.txt"), body).unwrap();
    let cpu_of = |path: &str| {
        let before = relay.thread_cpu("pvwire-relay");
        for _ in 0..20 {
            assert_eq!(answer(path).status, 200);
        }
        relay.thread_cpu("pvwire-relay") - before
    };
    let (sent, written) = (cpu_of("/screens/same.txt"), cpu_of(path));
    // To write them takes twenty times as long as to send them, and to wait for their parts seven times.
    assert!(written < 12 * sent, "{written:?} beside {sent:?}");
}

#[test]
fn names_in_files_of_the_operator_are_offered() {
    let network = Network::new();
    let list = file("list.txt", "OP:ONE\npva://OP:TWO\n");
    let database = file(
        "records.db",
        "record(ai, \"OP:THREE\") { alias(\"OP:FOUR\") }",
    );
    let [list, database] =
        [&list, &database].map(|path| format!("--names-file={}", path.to_str().unwrap()));
    let relay = Relay::start(network, &[&list, &database]);
    let found = by_http(&relay, "q=op:");
    assert_eq!(
        named(&found),
        ["OP:ONE", "pva://OP:TWO", "OP:FOUR", "OP:THREE"]
    );
    assert_eq!(found["names"][0]["from"], json!(["file"]));
}

/// What the relay says about a PV.
fn about(client: &mut Client, name: &str) -> Result<Value, Outcome> {
    let request = client.request(ask_service("about", &json!({ "pv": name })));
    let (_, page, content) = pages(client, &[request]).remove(0);
    assert!(page.last);
    match page.outcome {
        Outcome::Done => Ok(serde_json::from_slice(&content).unwrap()),
        outcome => Err(outcome),
    }
}

#[test]
fn who_may_write_to_a_pv_is_told_its_server_and_who_wrote_last() {
    let network = Network::new();
    let mut ioc = SoftIoc::start(
        network,
        r#"record(ao, "$(P)set") {} record(stringout, "$(P)text") {} record(ai, "$(P)secret") {}"#,
    );
    let [set, text, secret] = ioc.names(["set", "text", "secret"]);
    let rules = format!(
        "enable_put = true\n[[rule]]\npv = '{secret}'\ndeny = 'read'\n\
         [[rule]]\nuser = ['anna', 'ben']\npv = '*'\nallow = 'put'\n"
    );
    let config = file("about.toml", &rules);
    let flags = [
        format!("--config={}", config.display()),
        "--auth=trusted-header".to_owned(),
        "--trusted-proxy=127.0.0.1".to_owned(),
    ];
    let relay = Relay::start(network, &flags.each_ref().map(String::as_str));
    let user = |name: &str| {
        let mut client = Client::connect_with(relay.address(), &[("X-Forwarded-User", name)]);
        client.subscribe_live(&[&set, &text]);
        client
    };
    let [mut anna, mut ben, mut guest] = ["anna", "ben", "guest"].map(user);

    let unwritten = about(&mut anna, &set).unwrap();
    assert_eq!(unwritten["lastWrite"], Value::Null);
    let server = unwritten["server"].as_str().unwrap();
    assert!(server.starts_with("localhost:"), "{server}");

    assert_eq!(anna.put_number(&set, 2.5).0, Outcome::Done);
    let long = "x".repeat(39);
    assert_eq!(
        ben.put(&text, PutValue::Text(long.clone())).0,
        Outcome::Done
    );
    assert_eq!(guest.put_number(&set, 3.5).0, Outcome::NotAllowed);
    ioc.put("set", "7");
    anna.wait_number(&set, 7.0);
    let written = |answer: &Value| {
        let write = &answer["lastWrite"];
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let age = now.as_millis() as u64 - write["timeMs"].as_u64().unwrap();
        assert!(u128::from(age) < DEADLINE.as_millis(), "{age} ms");
        json!([
            write["user"],
            write["address"],
            write["value"],
            write["confirmed"]
        ])
    };
    for name in [&set, &format!("ca://{set}")] {
        let answer = about(&mut ben, name).unwrap();
        assert_eq!(written(&answer), json!(["anna", "127.0.0.1", 2.5, true]));
    }
    let answer = about(&mut anna, &text).unwrap();
    assert_eq!(written(&answer), json!(["ben", "127.0.0.1", long, true]));
    // A user who may not write isn't told, and of a PV that the user may not read nothing at all.
    let answer = about(&mut guest, &set).unwrap();
    assert_eq!(answer, json!({ "server": server, "lastWrite": null }));
    assert_eq!(about(&mut guest, &secret), Err(Outcome::NotAllowed));
    assert_eq!(about(&mut guest, "x://y"), Err(Outcome::BadName));
    let request = anna.request(ask_service("about", &json!({ "name": set })));
    let (_, page, _) = pages(&mut anna, &[request]).remove(0);
    assert_eq!(page.outcome, Outcome::BadValue);
    assert!(page.message.contains("pv"), "{}", page.message);

    // What a server that hangs has not confirmed may have been done.
    ioc.hang();
    let late = RequestBody::Put(PutRequest {
        name: set.clone(),
        value: PutValue::Number(4.5),
        wait: true,
        timeout_ms: 300,
        expected: None,
    });
    let Reply::PutDone { outcome, .. } = anna.ask(late).0 else {
        panic!("a put has the outcome of one");
    };
    assert_eq!(outcome, Outcome::TimedOut);
    let answer = about(&mut ben, &set).unwrap();
    assert_eq!(written(&answer), json!(["anna", "127.0.0.1", 4.5, false]));
    ioc.resume();
}
