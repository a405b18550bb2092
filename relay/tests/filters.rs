//! A client with an update filter gets the updates that it asked for; the filtered updates are
//! counted by cause, equally in the client and in the relay.
//!
//! Topology: one soft IOC, one relay, one to five clients with different filters.

use std::time::{Duration, Instant};

use pvwire_schema::types::{
    ConnectionState, Filter, FrameKind, NameProblem, Reply, RequestBody, RequestProblem, SkipCause,
    ValueType,
};
use testbed::{Client, How, Kept, Network, Pv, Relay, SoftIoc, keep_up};

const ALL: Filter = Filter {
    min_interval_ms: 0,
    deadband: 0.0,
    every: 0,
    ..Filter::ALL
};

const COUNTING: &str = r#"
    record(calc, "$(P)n") { field(CALC, "VAL+1") field(SCAN, ".1 second") }
    record(calc, "$(P)m") { field(CALC, "VAL+1") field(SCAN, ".1 second") }
"#;

const SETTABLE: &str = r#"
    record(ao, "$(P)a") { field(VAL, "0") field(PINI, "YES") field(HIGH, "100") field(HSV, "MINOR") }
"#;

fn start(database: &str) -> (SoftIoc, Relay) {
    let network = Network::new();
    let ioc = SoftIoc::start(network, database);
    (ioc, Relay::start(network, &[]))
}

fn client_with_filter(relay: &Relay, names: &[impl AsRef<str>], filter: Filter) -> Client {
    let mut client = Client::connect(relay.address());
    assert_eq!(client.subscribe_with(names, filter), []);
    for name in names {
        client.wait_pv(name.as_ref(), "a value", |pv| pv.now.is_some());
    }
    client
}

/// Checks that the client's state of a counting PV is consistent: each value either arrived or was
/// counted as skipped.
fn assert_complete(pv: &Pv) {
    let (first, last) = (pv.rows.first().unwrap(), pv.rows.last().unwrap());
    let steps = last.sequence.wrapping_sub(first.sequence);
    assert_eq!(pv.rows.len() as u64 + pv.skipped, u64::from(steps) + 1);
    let numbers = pv.numbers();
    let counted = numbers.last().unwrap() - numbers.first().unwrap();
    assert_eq!(counted, f64::from(steps), "the record counts by one");
}

/// Also checks that all skipped values have this cause.
fn assert_accounted(pv: &Pv, cause: SkipCause) {
    assert_complete(pv);
    assert_eq!(pv.skipped, pv.skipped_by(cause), "{:?}", pv.skips);
}

fn skipped(relay: &Relay, cause: &str) -> u64 {
    relay.metric(&format!(
        "pvwire_updates_skipped_total{{cause=\"{cause}\"}}"
    )) as u64
}

#[test]
fn one_update_at_most_in_an_interval_and_always_the_last_one() {
    let (mut ioc, relay) = start(COUNTING);
    let name = ioc.name("n");
    let mut whole = client_with_filter(&relay, &[&name], ALL);
    let filter = Filter {
        min_interval_ms: 500,
        ..ALL
    };
    let started = Instant::now();
    let mut slow = client_with_filter(&relay, &[&name], filter);
    keep_up("forty counts", &mut [&mut whole, &mut slow], |clients| {
        clients[0].pv(&name).rows.len() >= 40
    });
    ioc.put("n.SCAN", "Passive");
    let most = started.elapsed().as_millis() / 500 + 3;
    // The record may count once more while it is stopped.
    ioc.settle();
    let known = whole.get(&[&name], 0).0[0].as_ref().unwrap().sequence;
    keep_up("the last", &mut [&mut whole, &mut slow], |clients| {
        let [whole, slow] = [0, 1].map(|n| clients[n].pv(&name));
        whole.sequence >= known
            && whole.sequence == slow.sequence
            && skipped(&relay, "filter") == slow.skipped
    });

    let seen = slow.pv(&name);
    let rows = seen.rows.len() as u128;
    assert!((4..=most).contains(&rows), "{rows} rows, {most} at most");
    assert_accounted(seen, SkipCause::Filter);
    assert_eq!(whole.pv(&name).skipped, 0);
}

#[test]
fn deadband_passes_larger_differences_and_every_alarm_change() {
    let (mut ioc, relay) = start(SETTABLE);
    let name = ioc.name("a");
    let mut whole = client_with_filter(&relay, &[&name], ALL);
    let filter = Filter {
        deadband: 10.0,
        min_interval_ms: 1,
        ..ALL
    };
    let mut coarse = client_with_filter(&relay, &[&name], filter);
    let values = ["4", "10", "11", "95", "99", "101", "102", "99.5", "98"];
    for value in values {
        ioc.put("a", value);
        let mut both = [&mut whole, &mut coarse];
        keep_up(value, &mut both, |clients| {
            clients[0].pv(&name).is_number(value.parse().unwrap())
        });
    }
    coarse.wait_number(&name, 99.5);
    // In alarm from 100 on, and out of it again.
    assert_eq!(coarse.pv(&name).numbers(), [0.0, 11.0, 95.0, 101.0, 99.5]);
    let alarms = coarse.pv(&name).rows.iter();
    let alarms: Vec<_> = alarms.map(|row| row.alarm.severity.number()).collect();
    assert_eq!(alarms, [0, 0, 0, 1, 0]);
    assert_eq!(coarse.pv(&name).skipped_by(SkipCause::Filter), 4);
}

#[test]
fn one_in_n_comes_and_alarm_changes_come_at_once() {
    let (mut ioc, relay) = start(SETTABLE);
    let name = ioc.name("a");
    let mut whole = client_with_filter(&relay, &[&name], ALL);
    let hour = Filter {
        min_interval_ms: 3_600_000,
        ..ALL
    };
    let fourth = Filter { every: 4, ..ALL };
    let mut hourly = client_with_filter(&relay, &[&name], hour);
    let mut fourth = client_with_filter(&relay, &[&name], fourth);
    for value in ["1", "2", "3", "4", "5", "6", "200", "201"] {
        ioc.put("a", value);
        let mut all = [&mut whole, &mut hourly, &mut fourth];
        keep_up(value, &mut all, |clients| {
            clients[0].pv(&name).is_number(value.parse().unwrap())
        });
    }
    hourly.wait_number(&name, 200.0);
    fourth.wait_number(&name, 200.0);
    assert_eq!(hourly.pv(&name).numbers(), [0.0, 200.0]);
    assert_eq!(fourth.pv(&name).numbers(), [0.0, 4.0, 200.0]);
    assert_eq!(whole.pv(&name).numbers().len(), 9);
}

#[test]
fn equal_filters_get_the_same_bytes_and_each_shows_a_lost_ioc() {
    let (ioc, relay) = start(COUNTING);
    let names = ioc.names(["n", "m"]);
    let third = Filter { every: 3, ..ALL };
    let mut one = client_with_filter(&relay, &names, third);
    let mut other = client_with_filter(&relay, &names, third);
    let mut whole = client_with_filter(&relay, &names, ALL);
    let id = one.id(&names[0]);
    assert_eq!(other.id(&names[0]), id);
    assert_ne!(whole.id(&names[0]), id);
    let from = other.tick;
    let mut all = [&mut one, &mut other, &mut whole];
    keep_up("frames for all", &mut all, |clients| {
        clients
            .iter()
            .all(|client| client.tick > from && client.messages.len() > 8)
    });
    let to = one.tick.min(other.tick);
    let of = |client: &Client| {
        let messages = client.messages.iter();
        let among = messages.filter(|message| (from + 1..=to).contains(&message.tick));
        among.cloned().collect::<Vec<_>>()
    };
    assert!(of(&one).len() > 2);
    assert_eq!(of(&one), of(&other));
    assert_eq!(relay.metric("pvwire_monitors_active"), 2.0);

    ioc.kill();
    let mut all = [&mut one, &mut other, &mut whole];
    keep_up("all know that the IOC is gone", &mut all, |clients| {
        let gone = |client: &&mut Client, name: &String| {
            client.pv(name).state() == ConnectionState::Disconnected
        };
        (clients.iter()).all(|client| names.iter().all(|name| gone(client, name)))
    });
    // No client keeps an older value than the others.
    for name in &names {
        assert_eq!(one.pv(name).sequence, whole.pv(name).sequence);
    }
}

#[test]
fn impossible_filter_is_refused_and_so_is_one_too_many() {
    let (ioc, relay) = start(SETTABLE);
    let name = ioc.name("a");
    let mut client = Client::connect(relay.address());
    let names = vec![name.clone()];
    let filter = Filter {
        deadband: f64::NAN,
        ..ALL
    };
    let (reply, _) = client.ask(RequestBody::Subscribe { names, filter });
    let Reply::Error { problem, message } = reply else {
        panic!("{reply:?}");
    };
    assert_eq!(problem, RequestProblem::Refused);
    assert_eq!(message, "a deadband is a number from 0 up, not NaN");
    // The values that -3 and a rate of 0 become when a client casts them: they would suppress every
    // update.
    for (filter, why) in [
        (
            Filter {
                every: (-3_i32).cast_unsigned(),
                ..ALL
            },
            "one in how many updates is at most 2147483647, not 4294967293",
        ),
        (
            Filter {
                min_interval_ms: u32::MAX,
                ..ALL
            },
            "a minimum interval in milliseconds is at most 2147483647, not 4294967295",
        ),
    ] {
        let names = vec![name.clone()];
        let (reply, _) = client.ask(RequestBody::Subscribe { names, filter });
        let Reply::Error { problem, message } = reply else {
            panic!("{reply:?}");
        };
        assert_eq!(problem, RequestProblem::Refused);
        assert_eq!(message, why);
    }

    // A quarter of them for each connection.
    let mut others: Vec<_> = (0..3).map(|_| Client::connect(relay.address())).collect();
    let add = |client: &mut Client, every| {
        let errors = client.subscribe_with(&[&name], Filter { every, ..ALL });
        let refused = errors.first();
        refused.map(|error| (error.problem, error.message.clone()))
    };
    for (every, nth) in (2..34).zip(0..) {
        match nth / 8 {
            0 => assert_eq!(add(&mut client, every), None),
            other => assert_eq!(add(&mut others[other - 1], every), None),
        }
        if nth == 7 {
            let (problem, message) = add(&mut client, 100).unwrap();
            assert_eq!(problem, NameProblem::TooManyFilters);
            assert!(message.contains("unsubscribe one of them"), "{message}");
        }
    }
    let mut last = Client::connect(relay.address());
    let (problem, message) = add(&mut last, 34).unwrap();
    assert_eq!(problem, NameProblem::TooManyFilters);
    assert!(message.contains("32 different filters"), "{message}");
    // A filter that already exists is shared.
    assert_eq!(add(&mut last, 2), None);
    // The PV without a filter can always be subscribed.
    client.subscribe_live(&[&name]);
    assert_eq!(relay.metric("pvwire_monitors_active"), 1.0);
}

#[test]
fn filter_that_is_replaced_in_one_go_is_no_filter_too_many() {
    let (ioc, relay) = start(COUNTING);
    let name = ioc.name("n");
    let mut client = Client::connect(relay.address());
    for every in 2..10 {
        let filter = Filter { every, ..ALL };
        assert_eq!(client.subscribe_with(&[&name], filter), []);
    }
    for every in 10..60 {
        // The answer isn't awaited, as by a page that shows another filter.
        let ids = vec![client.id(&name)];
        client.request(RequestBody::Unsubscribe { ids });
        let filter = Filter { every, ..ALL };
        assert_eq!(client.subscribe_with(&[&name], filter), [], "{every}");
    }
}

#[test]
fn paced_client_is_updated_once_an_interval_and_at_its_end() {
    let (ioc, relay) = start(COUNTING);
    let names = ioc.names(["n", "m"]);
    let mut client = client_with_filter(&relay, &names, ALL);
    client.request(RequestBody::Pace { interval_ms: 700 });
    client.wait("a catch-up", |client| {
        client.messages.last().unwrap().kind == FrameKind::CatchUp
    });
    let (from, started) = (client.messages.len(), Instant::now());
    client.wait("four more", |client| client.messages.len() >= from + 4);
    // The first of them may have arrived late.
    assert!(started.elapsed() >= Duration::from_millis(2 * 700));
    let all = &client.messages[from..];
    assert!(all.iter().all(|message| message.kind == FrameKind::CatchUp));

    client.request(RequestBody::Pace { interval_ms: 0 });
    client.wait("updates again", |client| {
        let last = client.messages.iter().rev().take(5);
        last.map(|message| message.kind).eq([FrameKind::Update; 5])
    });
    for name in &names {
        assert_accounted(client.pv(name), SkipCause::Paced);
    }
    assert_eq!(skipped(&relay, "behind"), 0);
}

#[test]
fn skipped_values_are_counted_by_cause_in_client_and_relay() {
    let network = Network::new();
    let mut ioc = SoftIoc::start(network, COUNTING);
    let flags = ["--ack-window-ms", "400", "--evict-after-ms", "60000"];
    let relay = Relay::start(network, &flags);
    let names = ioc.names(["n", "m"]);
    let mut whole = client_with_filter(&relay, &names, ALL);
    let mut filtering = client_with_filter(&relay, &names, Filter { every: 7, ..ALL });
    let mut paced = client_with_filter(&relay, &names, ALL);
    paced.request(RequestBody::Pace { interval_ms: 300 });
    // A set that no other client has: the shard makes its frames.
    let mut alone = client_with_filter(&relay, &names[..1], ALL);
    alone.request(RequestBody::Pace { interval_ms: 500 });
    let silent = How {
        receive_buffer: None,
        acks: false,
        lz4: false,
        trust: None,
    };
    let mut silent = Client::connect_as(relay.address(), silent);
    silent.subscribe_live(&names);

    let mut all = [
        &mut whole,
        &mut filtering,
        &mut paced,
        &mut alone,
        &mut silent,
    ];
    keep_up("sixty counts", &mut all, |clients| {
        clients[0].pv(&names[1]).rows.len() >= 60
    });
    for record in ["n.SCAN", "m.SCAN"] {
        ioc.put(record, "Passive");
    }
    ioc.settle();
    silent.set_acks(true);
    silent.ack();

    let by = |client: &Client, cause| -> u64 {
        let held = names.iter().filter_map(|name| client.held(name));
        held.map(|pv| pv.skipped_by(cause)).sum()
    };
    let causes = [
        ("filter", SkipCause::Filter),
        ("behind", SkipCause::Behind),
        ("paced", SkipCause::Paced),
    ];
    let mut all = [
        &mut whole,
        &mut paced,
        &mut alone,
        &mut silent,
        &mut filtering,
    ];
    // The last value of the filtering client need not be the last of all. On a busy machine the
    // acknowledging clients may fall behind too, which is then reported as such.
    keep_up("client and relay count the same", &mut all, |clients| {
        let is_last = |client: &&mut Client, name: &String| {
            let held = client.held(name);
            held.is_none_or(|pv| pv.sequence == clients[0].pv(name).sequence)
        };
        let mut whole = clients[..4].iter();
        whole.all(|client| names.iter().all(|name| is_last(client, name)))
            && causes.iter().all(|(name, cause)| {
                let told: u64 = clients.iter().map(|client| by(client, *cause)).sum();
                skipped(&relay, name) == told
            })
    });

    let clients = [&whole, &filtering, &paced, &alone, &silent];
    for client in clients {
        let held = names.iter().filter_map(|name| client.held(name));
        held.for_each(assert_complete);
    }
    assert!(by(&filtering, SkipCause::Filter) > 80);
    assert!(by(&silent, SkipCause::Behind) > 60);
    assert!(by(&paced, SkipCause::Paced) + by(&alone, SkipCause::Paced) > 20);
    assert_eq!(skipped(&relay, "relay") + skipped(&relay, "source"), 0);
}

#[test]
fn filtered_array_is_encoded_once_for_all_with_the_same_filter() {
    let relay = Relay::start(Network::new(), &[]);
    let name = "sim://waveform(size=100000,rate_hz=5)";
    let filter = Filter {
        points: 1_000,
        float32: true,
        ..ALL
    };
    let mut clients = [0, 1].map(|_| Client::connect(relay.address()));
    for client in &mut clients {
        assert_eq!(client.subscribe_with(&[name], filter), []);
    }
    let [one, other] = &mut clients;
    keep_up("two values at once", &mut [one, other], |clients| {
        let [one, other] = [0, 1].map(|n| &clients[n].messages);
        let shared = one.iter().filter(|message| other.contains(message));
        shared.count() >= 2
    });
    for client in &clients {
        let pv = client.pv(name);
        assert_eq!(pv.metadata.as_ref().unwrap().element_count, 100_000);
        assert_eq!(pv.skipped, 0);
        for row in &pv.rows {
            let Kept::Array(ValueType::Float32, bytes) = &row.value else {
                panic!("{row:?}")
            };
            assert_eq!(bytes.len(), 4 * 1_000);
        }
    }
}

#[test]
fn average_of_four_updates_comes_and_an_alarm_has_its_own_value() {
    let (mut ioc, relay) = start(SETTABLE);
    let name = ioc.name("a");
    let mut whole = client_with_filter(&relay, &[&name], ALL);
    let of_four = Filter {
        every: 4,
        average: true,
        ..ALL
    };
    let mut mean = client_with_filter(&relay, &[&name], of_four);
    for value in ["1", "2", "6", "7", "8", "200", "204", "208", "212", "216"] {
        ioc.put("a", value);
        keep_up(value, &mut [&mut whole, &mut mean], |clients| {
            clients[0].pv(&name).is_number(value.parse().unwrap())
        });
    }
    mean.wait_number(&name, 210.0);
    // 4 of 1, 2, 6 and 7; the alarm's own 200; 210 of the four after it.
    assert_eq!(mean.pv(&name).numbers(), [0.0, 4.0, 200.0, 210.0]);
    assert_eq!(mean.pv(&name).skipped_by(SkipCause::Filter), 7);
    assert_eq!(mean.pv(&name).skipped, 7);
}

#[test]
fn average_of_single_updates_is_refused_with_the_reason() {
    let (ioc, relay) = start(SETTABLE);
    let mut client = Client::connect(relay.address());
    let filter = Filter {
        average: true,
        ..ALL
    };
    let (reply, _) = client.ask(RequestBody::Subscribe {
        names: vec![ioc.name("a")],
        filter,
    });
    let Reply::Error { problem, message } = reply else {
        panic!("{reply:?}")
    };
    assert_eq!(problem, RequestProblem::Refused);
    assert!(
        message.starts_with("an average needs a maximum rate"),
        "{message}"
    );
}
