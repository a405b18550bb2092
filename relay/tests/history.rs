//! The relay keeps past updates in memory: for ten minutes of PVs that clients have, and for longer of those that
//! `history` names. Clients read them by the protocol and by plain HTTP.
//!
//! Topology: a soft IOC with counters at 10 Hz and constants, one relay, no client or one.

use std::fmt::Write;

use pvwire_archiver::{Decoder, Limits, Values};
use pvwire_schema::types::{ConnectionState, Outcome, RequestBody};
use serde_json::{Value, json};

use testbed::{Answer, Client, Kept, Network, Relay, SoftIoc, eventually, file, get};

use crate::archiver::fetch;
use crate::questions::pages;

const DATABASE: &str = r#"
    record(calc, "$(P)n") { field(CALC, "VAL+1") field(SCAN, ".1 second") }
    record(ao, "$(P)a") { field(VAL, "1") field(PINI, "YES") }
"#;

pub(crate) fn samples(relay: &Relay) -> f64 {
    relay.metric("pvwire_history_samples")
}

#[test]
fn named_pv_has_a_past_before_any_client_connects() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, DATABASE);
    let history = format!("--history={}=1h", ioc.name("n"));
    let relay = Relay::start(network, &[&history]);
    eventually("samples without a client", || samples(&relay) >= 10.0);
    assert_eq!(relay.metric("pvwire_monitors_active"), 1.0);
    assert_eq!(relay.metric("pvwire_history_pvs"), 1.0);
    assert!(relay.metric("pvwire_history_bytes") > 0.0);
    assert_eq!(relay.metric("pvwire_history_ticks_lost_total"), 0.0);
}

#[test]
fn pv_of_a_pattern_stays_monitored_after_its_last_client_has_left() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, DATABASE);
    let history = format!("--history={}=1h", ioc.name("*"));
    let relay = Relay::start(network, &["--linger-ms=100", &history]);
    let mut client = Client::connect(relay.address());
    client.subscribe_live(&ioc.names(["n", "a"]));
    drop(client);
    let before = samples(&relay);
    eventually("more samples", || samples(&relay) >= before + 20.0);
    assert_eq!(relay.metric("pvwire_monitors_active"), 2.0);
    assert_eq!(relay.metric("pvwire_history_pvs"), 2.0);
}

#[test]
fn status_page_counts_no_client_of_a_pv_that_only_history_has() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, DATABASE);
    let name = ioc.name("n");
    let history = format!("--history={name}=1h");
    let relay = Relay::start(network, &[&history]);
    let clients = || {
        let status: Value =
            serde_json::from_str(&get(relay.address(), "/status", &[]).body).unwrap();
        let mut list = status["list"].as_array().unwrap().iter();
        let pv = list.find(|pv| pv["name"] == format!("ca://{name}"));
        pv.map(|pv| pv["clients"].clone())
    };
    eventually("the PV is listed", || clients() == Some(json!(0)));
    let mut client = Client::connect(relay.address());
    client.subscribe_live(&[&name]);
    assert_eq!(clients(), Some(json!(1)));
    drop(client);
    eventually("the client has left", || clients() == Some(json!(0)));
}

#[test]
fn watched_pvs_are_kept_without_any_setting_and_none_with_no_history() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, DATABASE);
    let name = ioc.name("n");
    for (flags, is_kept) in [
        (&[][..], true),
        (&["--history=OTHER:*=1h"], true),
        (&["--history=OTHER:*=1h", "--history=*=0"], false),
        (&["--history-memory=0"], false),
        (&["--no-history"], false),
    ] {
        let flags = [flags, &["--linger-ms=100"]].concat();
        let relay = Relay::start(network, &flags);
        let mut client = Client::connect(relay.address());
        client.subscribe_live(&[&name]);
        client.wait("updates", |client| client.pv(&name).rows.len() >= 5);
        let past = by_http(&relay, &name, "points=all");
        assert_eq!(past.status, if is_kept { 200 } else { 404 }, "{flags:?}");
        match is_kept {
            true => eventually("samples", || samples(&relay) >= 4.0),
            false => assert_eq!(samples(&relay), 0.0, "{flags:?}"),
        }
        drop(client);
        eventually("no monitor without clients", || {
            relay.metric("pvwire_monitors_active") == 0.0
        });
    }
}

/// The past of a PV as the pages of an answer have it.
#[derive(Debug, Default)]
pub(crate) struct Past {
    /// Times in nanoseconds past the POSIX epoch, and numbers.
    pub(crate) rows: Vec<(i64, f64)>,
    /// The JSON text of each page.
    pub(crate) heads: Vec<Value>,
}

impl Past {
    pub(crate) fn number(&self, key: &str) -> Option<u32> {
        self.heads[0][key].as_u64().map(|number| number as u32)
    }
}

fn question(body: &Value) -> RequestBody {
    RequestBody::Ask {
        service: "history".to_owned(),
        body: body.to_string().into_bytes(),
    }
}

/// The answers to some questions, in their order.
pub(crate) fn ask_all(
    client: &mut Client,
    questions: &[Value],
) -> Result<Vec<Past>, (Outcome, String)> {
    let requests = questions.iter().map(|body| client.request(question(body)));
    let requests: Vec<u32> = requests.collect();
    let mut pasts: Vec<Past> = requests.iter().map(|_| Past::default()).collect();
    for (to, page, content) in pages(client, &requests) {
        if page.outcome != Outcome::Done {
            return Err((page.outcome, page.message));
        }
        let past = &mut pasts[requests.iter().position(|request| *request == to).unwrap()];
        let word = |at: usize| u32::from_le_bytes(content[at..at + 4].try_into().unwrap()) as usize;
        let (text, rows) = (word(0), word(4));
        let head: Value = serde_json::from_slice(&content[8..8 + text]).unwrap();
        assert_eq!(head["last"], page.last);
        past.heads.push(head);
        let columns = content[8 + text..].as_chunks::<8>().0;
        assert_eq!((text % 8, columns.len()), (0, 2 * rows));
        let (times, numbers) = columns.split_at(rows);
        let times = times.iter().copied().map(i64::from_le_bytes);
        (past.rows).extend(times.zip(numbers.iter().copied().map(f64::from_le_bytes)));
    }
    Ok(pasts)
}

pub(crate) fn ask(client: &mut Client, body: &Value) -> Result<Past, (Outcome, String)> {
    ask_all(client, std::slice::from_ref(body)).map(|mut pasts| pasts.remove(0))
}

pub(crate) fn by_http(relay: &Relay, name: &str, query: &str) -> Answer {
    get(relay.address(), &format!("/pv/{name}/history?{query}"), &[])
}

pub(crate) fn rows_by_http(relay: &Relay, name: &str, query: &str) -> Vec<Value> {
    let answer = by_http(relay, name, query);
    assert_eq!(answer.status, 200, "{}", answer.body);
    let answer: Value = serde_json::from_str(&answer.body).unwrap();
    answer["rows"].as_array().unwrap().clone()
}

/// The past of a counter goes on with its live updates: the counter has no number twice and leaves none out.
#[test]
fn past_of_any_range_joins_live_updates_without_gap_or_repeat() {
    let network = Network::new();
    let mut database = String::new();
    for number in 0..40 {
        let record = format!(r#"record(calc, "$(P)n{number}") {{ field(CALC, "VAL+1") "#);
        writeln!(database, r#"{record} field(SCAN, ".1 second") }}"#).unwrap();
    }
    let ioc = SoftIoc::start(network, &database);
    let relay = Relay::start(network, &["--history=*=1h"]);
    let names: Vec<_> = (0..40)
        .map(|number| ioc.name(&format!("n{number}")))
        .collect();
    let mut client = Client::connect(relay.address());
    client.subscribe_live(&names);
    eventually("a past", || samples(&relay) >= 400.0);
    let (mut random, mut joins) = (88_172_645_463_325_252_u64, 0);
    let mut below = |most: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % most
    };
    for _ in 0..25 {
        let asked: Vec<&String> = (0..8).map(|_| &names[below(40) as usize]).collect();
        let questions: Vec<_> = (asked.iter())
            .map(|name| match below(3) {
                0 => json!({ "pv": name }),
                1 => json!({ "pv": name, "from": format!("-{}s", below(3)) }),
                _ => json!({ "pv": name, "points": 4 + below(30) }),
            })
            .collect();
        let pasts = ask_all(&mut client, &questions).unwrap();
        for ((name, past), question) in asked.iter().zip(&pasts).zip(&questions) {
            let sequence = past.number("sequence").unwrap();
            client.wait_pv(name, "a later update", |pv| pv.sequence > sequence);
            let later = client
                .pv(name)
                .rows
                .iter()
                .find(|row| row.sequence > sequence);
            let later = later.unwrap();
            let last = past.rows.last().unwrap().1;
            let ahead = f64::from(later.sequence - sequence);
            assert_eq!(
                later.value,
                Kept::Number(last + ahead),
                "{question}: {past:?}"
            );
            let same = client
                .pv(name)
                .rows
                .iter()
                .find(|row| row.sequence == sequence);
            if let Some(same) = same {
                assert_eq!(
                    same.time_ns,
                    past.rows.last().unwrap().0,
                    "to the nanosecond"
                );
            }
            let is_whole = past.heads.iter().all(|head| head["bins"].is_null());
            let steps = past.rows.windows(2).map(|pair| pair[1].1 - pair[0].1);
            assert!(
                !is_whole || steps.clone().all(|step| step == 1.0),
                "{past:?}"
            );
            assert!(steps.clone().all(|step| step >= 1.0), "{past:?}");
            joins += 1;
        }
    }
    assert_eq!(joins, 200);
    let points = json!({ "pv": names[0], "points": 8 });
    let past = ask(&mut client, &points).unwrap();
    assert!(past.rows.len() <= 8, "{past:?}");
    let bins = past.heads[0]["bins"].as_array().unwrap();
    let updates: u64 = bins.iter().map(|bin| bin[1].as_u64().unwrap()).sum();
    assert_eq!(
        updates as f64,
        past.rows.last().unwrap().1 - past.rows[0].1 + 1.0
    );
}

const VALUES: &str = r#"
    record(calc, "$(P)n") { field(CALC, "VAL+1") field(SCAN, ".1 second") field(HIGH, "3") field(HSV, "MINOR") }
    record(stringout, "$(P)text") { field(VAL, "a, \"b\"") field(PINI, "YES") }
    record(ao, "$(P)secret") { field(VAL, "1") field(PINI, "YES") }
"#;

#[test]
fn past_is_read_by_http_as_json_csv_and_pb_with_gaps_as_rows() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, VALUES);
    let prefix = ioc.prefix().to_owned();
    let relay = Relay::start(network, &["--history=*=1h"]);
    let names = ioc.names(["n", "text"]);
    let [n, text] = names.each_ref().map(String::as_str);
    let mut client = Client::connect(relay.address());
    client.subscribe_live(&names);
    client.wait("updates", |client| client.pv(n).rows.len() >= 5);
    ioc.kill();
    client.wait_state(n, ConnectionState::Disconnected);
    let rows = rows_by_http(&relay, n, "points=all");
    let (gap, updates) = rows.split_last().unwrap();
    assert_eq!(
        (&gap["gap"], &gap["until"]),
        (&json!("disconnected"), &Value::Null)
    );
    let seen = client.pv(n).rows.iter().map(|row| {
        let severity = ["NO_ALARM", "MINOR"][usize::from(row.alarm.severity as u8)];
        (row.time_ns.to_string(), severity.to_owned())
    });
    let seen: Vec<_> = seen.collect();
    let kept = updates.iter().map(|row| {
        let text = |key: &str| row[key].as_str().unwrap().to_owned();
        assert!(
            text("time").ends_with('Z') && text("time").len() == 30,
            "{row}"
        );
        (text("timeNs"), text("severity"))
    });
    let kept: Vec<_> = kept.collect();
    assert_eq!(&kept[kept.len() - seen.len()..], seen);
    assert!(kept.iter().any(|(_, severity)| severity == "MINOR"));

    let pb = format!("/pv/{n}/history?points=all&format=pb");
    let pb = fetch(relay.address(), &pb).body;
    let mut decoder = Decoder::new(Limits::default());
    assert_eq!(decoder.push(&pb), pb.len());
    let summary = decoder.finish();
    assert_eq!((summary.damaged_lines, summary.is_cut), (0, false));
    let columns = decoder.take().unwrap().columns;
    let times: Vec<_> = columns.time_ns.iter().map(i64::to_string).collect();
    assert!(times.iter().eq(kept.iter().map(|(time, _)| time)));
    let values: Vec<_> = (updates.iter())
        .map(|row| row["value"].as_f64().unwrap())
        .collect();
    assert_eq!(columns.values, Values::Numbers(values));
    assert!(decoder.metadata().unwrap().disconnected_since().is_some());

    let csv = by_http(&relay, text, "format=csv");
    assert!(csv.head.contains("content-type: text/csv"), "{}", csv.head);
    let mut lines = csv.body.lines();
    let head = "time,time_ns,value,severity,status,skipped,gap,until";
    assert_eq!(lines.next(), Some(head));
    assert!(
        lines
            .next()
            .unwrap()
            .contains(r#","a, ""b""",NO_ALARM,0,0,,"#),
        "{}",
        csv.body
    );
    assert!(
        lines.next().unwrap().ends_with(",,,,,disconnected,"),
        "{}",
        csv.body
    );
    let accepts = get(
        relay.address(),
        &format!("/pv/{n}/history"),
        &[("Accept", "text/csv")],
    );
    assert!(accepts.body.starts_with(head), "{}", accepts.body);

    let _ioc = SoftIoc::with_prefix(network, &prefix, VALUES, "");
    client.wait_state(n, ConnectionState::Connected);
    eventually("the end of the gap", || {
        let rows = rows_by_http(&relay, n, "points=all");
        let gap = rows.iter().position(|row| row["until"].is_string());
        gap.is_some_and(|gap| gap > 0 && rows[gap + 1..].iter().any(|row| row["value"].is_number()))
    });
    let last = kept.last().unwrap().0.as_str();
    let rows = rows_by_http(&relay, n, &format!("from={last}&to={last}"));
    let values = rows.iter().filter(|row| row["gap"].is_null());
    assert_eq!(values.count(), 1, "the value that held: {rows:?}");
}

#[test]
fn past_is_read_only_by_clients_that_may_read_the_pv_and_errors_say_what_was_expected() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, VALUES);
    let [n, secret] = ioc.names(["n", "secret"]);
    let rules = file(
        "past.toml",
        &format!(
            r#"
            history = ["{n}=1h", "{secret}=1h"]
            [[rule]]
            pv = "{secret}"
            deny = "read"
            "#
        ),
    );
    let relay = Relay::start(network, &["--config", rules.to_str().unwrap()]);
    eventually("two rings", || relay.metric("pvwire_history_pvs") == 2.0);
    let mut client = Client::connect(relay.address());
    let (outcome, why) = ask(&mut client, &json!({ "pv": secret })).unwrap_err();
    assert_eq!(outcome, Outcome::NotAllowed);
    assert!(why.contains("rule 1"), "{why}");
    assert_eq!(by_http(&relay, &secret, "").status, 403);
    assert!(
        !ask(&mut client, &json!({ "pv": n }))
            .unwrap()
            .rows
            .is_empty()
    );
    for (query, status, expected) in [
        (
            "from=yesterday",
            400,
            "from is \\\"yesterday\\\": expected ISO 8601",
        ),
        ("to=1795000000", 400, "19 digits"),
        ("from=-1m&to=-2m", 400, "from is later than to"),
        ("points=3", 400, "points is 3: expected 4 to 20000"),
        ("points=many", 400, "or all for every update"),
        ("format=xml", 400, "expected json, csv or pb"),
    ] {
        let answer = by_http(&relay, &n, query);
        assert_eq!(answer.status, status, "{query}");
        assert!(answer.body.contains(expected), "{query}: {}", answer.body);
    }
    let unknown = by_http(&relay, &ioc.name("unknown"), "");
    assert_eq!(unknown.status, 404);
    assert!(
        unknown.body.contains("the option history"),
        "{}",
        unknown.body
    );
    let none = ask(&mut client, &json!({ "pv": ioc.name("unknown") })).unwrap();
    assert!(none.rows.is_empty() && none.heads[0]["kept_since_ns"].is_null());
    let (outcome, why) = ask(&mut client, &json!({ "name": n })).unwrap_err();
    assert_eq!(outcome, Outcome::BadValue);
    assert!(why.contains("pv, from, to and points"), "{why}");
}
