//! A client that was cut off gets each update that it has missed from what the relay keeps, and is told of those that
//! are not kept.
//!
//! Topology: a soft IOC with counters at 10 Hz, one relay, a client that is cut off, and one that is not.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pvwire_schema::types::{Outcome, RequestBody};
use serde_json::{Value, json};

use testbed::{Client, Kept, Network, Relay, SoftIoc, eventually, file, watch_cores};

use crate::questions::pages;

/// The last update of a PV that a client had when it was cut off.
#[derive(Clone, Debug)]
struct Last {
    name: String,
    epoch: u32,
    sequence: u32,
    value: f64,
}

impl Last {
    fn of(client: &Client, name: &str) -> Self {
        let pv = client.pv(name);
        let Some(Kept::Number(value)) = pv.now.as_ref().map(|now| now.value.clone()) else {
            panic!("{name} has no number");
        };
        Self {
            name: name.to_owned(),
            epoch: pv.metadata.as_ref().unwrap().epoch,
            sequence: pv.sequence,
            value,
        }
    }
}

/// Epoch, sequence number, time and number.
type Update = (u32, u32, i64, f64);

/// What a relay answers about one PV.
#[derive(Debug, Default)]
struct Missed {
    updates: Vec<Update>,
    /// Updates that are not there by cause; `None` if their number is not known.
    absent: HashMap<String, Option<u64>>,
    /// Epoch and sequence number of the update at which the answer ends.
    end: Option<(u32, u32)>,
    refused: Option<String>,
}

fn instance(client: &Client) -> u64 {
    client.hello.as_ref().unwrap().relay_instance
}

/// Asks the relay, as one whose `relay_instance` this is, what was missed.
fn ask(client: &mut Client, relay: u64, lasts: &[Last]) -> Vec<Missed> {
    let pvs: Vec<_> = (lasts.iter())
        .map(|last| json!([last.name, last.epoch, last.sequence]))
        .collect();
    let question = json!({ "relay": relay.to_string(), "pvs": pvs });
    let request = client.request(RequestBody::Ask {
        service: "missed".to_owned(),
        body: question.to_string().into_bytes(),
    });
    let mut missed: Vec<Missed> = lasts.iter().map(|_| Missed::default()).collect();
    for (_, page, content) in pages(client, &[request]) {
        assert_eq!(page.outcome, Outcome::Done, "{}", page.message);
        read(&content, &mut missed);
    }
    missed
}

/// Takes a page of an answer.
fn read(content: &[u8], missed: &mut [Missed]) {
    let word = |at: usize| u32::from_le_bytes(content[at..at + 4].try_into().unwrap()) as usize;
    let (text, rows) = (word(0), word(4));
    let head: Value = serde_json::from_slice(&content[8..8 + text]).unwrap();
    let lists = |field: &str| head[field].as_array().cloned().unwrap_or_default();
    let (times, numbers) = content[8 + text..].as_chunks::<8>().0.split_at(rows);
    let skips: HashMap<_, _> = (lists("skips").iter())
        .map(|skips| {
            let counts = (1..5).map(|cause| skips[cause].as_u64().unwrap() as u32);
            (skips[0].as_u64().unwrap() as usize, counts.sum::<u32>())
        })
        .collect();
    let number = |value: &Value| value.as_u64().unwrap();
    let mut row = 0;
    for run in lists("runs") {
        let (epoch, mut sequence) = (number(&run[2]) as u32, number(&run[3]) as u32);
        for at in 0..number(&run[1]) {
            if at > 0 {
                sequence += 1 + skips.get(&row).copied().unwrap_or(0);
            }
            let time_ns = i64::from_le_bytes(times[row]);
            let value = f64::from_le_bytes(numbers[row]);
            let updates = &mut missed[number(&run[0]) as usize].updates;
            updates.push((epoch, sequence, time_ns, value));
            row += 1;
        }
    }
    assert_eq!(row, rows, "each row belongs to a PV");
    for absent in lists("absent") {
        let known = &mut missed[number(&absent[0]) as usize].absent;
        let cause = absent[1].as_str().unwrap().to_owned();
        let count = known.entry(cause).or_insert(Some(0));
        *count = count
            .zip(absent[2].as_u64())
            .map(|(one, other)| one + other);
    }
    for end in lists("ends") {
        let at = (number(&end[1]) as u32, number(&end[2]) as u32);
        missed[number(&end[0]) as usize].end = Some(at);
    }
    for refused in lists("refused") {
        let why = refused[1].as_str().unwrap().to_owned();
        missed[number(&refused[0]) as usize].refused = Some(why);
    }
}

/// `count` counters at 10 Hz.
fn counters(count: usize) -> String {
    let mut database = String::new();
    for number in 0..count {
        let record = format!(r#"record(calc, "$(P)n{number}") {{ field(CALC, "VAL+1") "#);
        writeln!(database, r#"{record} field(SCAN, ".1 second") }}"#).unwrap();
    }
    database
}

fn now_ns() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    now.as_nanos() as i64
}

/// Latencies of so long a time are compared.
const WINDOW: Duration = Duration::from_secs(2);

/// Number of PVs whose updates are timed.
const TIMED: usize = 20;

/// Reads all updates of these PVs until no test asks how many the first PV had; returns when updates came, and
/// how old they were.
fn watch(mut client: Client, names: &[String], progress: &Sender<usize>) -> Vec<(Instant, i64)> {
    let mut seen = [0; TIMED];
    let mut ages = Vec::new();
    while progress.send(seen[0]).is_ok() {
        if !client.read_for_a_moment() {
            continue;
        }
        let is_catch_up = client
            .messages
            .last()
            .is_some_and(|last| last.is_catch_up());
        assert!(!is_catch_up, "it fell behind");
        let now = (Instant::now(), now_ns());
        for (seen, name) in seen.iter_mut().zip(names) {
            let new = &client.pv(name).rows[*seen..];
            ages.extend(new.iter().map(|row| (now.0, now.1 - row.time_ns)));
            *seen += new.len();
        }
    }
    for name in names {
        let pv = client.pv(name);
        assert_eq!(pv.skipped, 0, "{name}");
        let numbers = pv.numbers();
        let is_next = numbers.windows(2).all(|pair| pair[1] == pair[0] + 1.0);
        assert!(is_next, "{name}: {numbers:?}");
    }
    ages
}

/// The age that 1 % exceed, in milliseconds.
fn p99_ms(ages: &[(Instant, i64)], from: Instant, to: Instant) -> f64 {
    let inside = ages.iter().filter(|(at, _)| (from..to).contains(at));
    let mut ages: Vec<_> = inside.map(|(_, age)| *age).collect();
    ages.sort_unstable();
    ages.get(ages.len() * 99 / 100)
        .map_or(f64::NAN, |age| *age as f64 / 1e6)
}

/// With `CUT_SECONDS=30` each of 300,000 updates is checked.
#[test]
fn client_that_was_cut_off_gets_each_update_that_it_has_missed_while_others_miss_none() {
    let seconds: usize = std::env::var("CUT_SECONDS").map_or(3, |seconds| seconds.parse().unwrap());
    let network = Network::new();
    let ioc = SoftIoc::start(network, &counters(1_000));
    let relay = Relay::start(network, &[]);
    let names: Vec<_> = (0..1_000)
        .map(|number| ioc.name(&format!("n{number}")))
        .collect();
    let mut client = Client::connect(relay.address());
    client.subscribe_live(&names);
    let mut other = Client::connect(relay.address());
    other.subscribe_live(&names);
    client.wait("an update of each", |client| {
        names.iter().all(|name| client.pv(name).rows.len() > 3)
    });
    let (progress, seen) = channel();
    let watched = names.clone();
    let watching = thread::spawn(move || watch(other, &watched, &progress));

    let lasts: Vec<_> = names.iter().map(|name| Last::of(&client, name)).collect();
    let relay_instance = instance(&client);
    drop(client);
    let begun = seen.recv().unwrap();
    seen.iter()
        .find(|rows| *rows >= begun + 10 * seconds)
        .unwrap();

    let connected = Instant::now();
    let mut client = Client::connect(relay.address());
    assert_eq!(instance(&client), relay_instance);
    client.subscribe_live(&names);
    let (asked, busy) = (Instant::now(), watch_cores());
    let missed = ask(&mut client, relay_instance, &lasts);
    let (took, busy) = (asked.elapsed(), busy());
    while connected.elapsed() < WINDOW {
        seen.recv().unwrap();
    }
    drop(seen);
    let ages = watching.join().unwrap();

    let mut checked = 0;
    for (last, missed) in lasts.iter().zip(&missed) {
        let Last {
            name,
            epoch,
            sequence,
            value,
        } = last;
        assert_eq!(
            (&missed.refused, &missed.absent),
            (&None, &HashMap::new()),
            "{name}"
        );
        let first = client.pv(name).rows[0].sequence;
        let (_, end) = missed.end.unwrap();
        assert!(
            end >= first,
            "{name}: the answer ends with {end}, live updates begin with {first}"
        );
        assert_eq!(missed.updates.len(), (end - sequence) as usize, "{name}");
        for (ahead, update) in (1..).zip(&missed.updates) {
            let expected = (*epoch, sequence + ahead, value + f64::from(ahead));
            assert_eq!((update.0, update.1, update.3), expected, "{name}");
            checked += usize::from(update.1 < first);
        }
        let joined = missed
            .updates
            .iter()
            .find(|update| update.1 == first)
            .unwrap();
        let live = &client.pv(name).rows[0];
        assert_eq!(
            (live.time_ns, &live.value),
            (joined.2, &Kept::Number(joined.3)),
            "{name}"
        );
        let times = missed.updates.windows(2).all(|pair| pair[0].2 < pair[1].2);
        assert!(times, "{name}");
    }
    assert!(
        checked >= 1_000 * (10 * seconds - 5),
        "{checked} updates were missed"
    );
    assert!(
        took < Duration::from_secs(2).mul_f64(1.0 + busy),
        "{checked} updates took {took:?}, and a program waited for a core {busy:.2} of the time"
    );
    let before = p99_ms(&ages, connected - WINDOW, connected);
    let since = p99_ms(&ages, connected, connected + WINDOW);
    println!(
        "{checked} missed updates took {took:?}; the other client's p99 was {before:.1} ms before and {since:.1} ms since \
         the reconnect"
    );
}

#[test]
fn updates_beyond_the_reach_of_the_ring_are_counted_and_a_restart_is_told() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, &counters(40));
    let relay = Relay::start(network, &["--history-memory=60KB"]);
    let names: Vec<_> = (0..40)
        .map(|number| ioc.name(&format!("n{number}")))
        .collect();
    let mut client = Client::connect(relay.address());
    client.subscribe_live(&names);
    let lasts: Vec<_> = names.iter().map(|name| Last::of(&client, name)).collect();
    let relay_instance = instance(&client);
    client.wait("enough updates", |client| {
        names.iter().all(|name| client.pv(name).rows.len() > 60)
    });
    let mut evicted = 0;
    for (last, missed) in lasts.iter().zip(ask(&mut client, relay_instance, &lasts)) {
        // Nothing is kept of a PV between the removal of all of its updates and its next one.
        if missed.absent.contains_key("not kept") {
            continue;
        }
        let told = missed.absent.values().map(|count| count.unwrap());
        let told = missed.updates.len() as u64 + told.sum::<u64>();
        assert_eq!(
            told,
            u64::from(missed.end.unwrap().1 - last.sequence),
            "{missed:?}"
        );
        evicted += missed
            .absent
            .get("evicted")
            .map_or(0, |count| count.unwrap());
        let numbers = missed.updates.iter().map(|update| update.3 - last.value);
        let ahead = missed
            .updates
            .iter()
            .map(|update| f64::from(update.1 - last.sequence));
        assert!(numbers.eq(ahead), "{missed:?}");
    }
    assert!(evicted > 40, "{evicted} updates were evicted");
    drop(relay);

    let relay = Relay::start(network, &[]);
    let mut client = Client::connect(relay.address());
    assert_ne!(instance(&client), relay_instance);
    client.subscribe_live(&names);
    for missed in ask(&mut client, relay_instance, &lasts) {
        assert_eq!(
            missed.absent,
            HashMap::from([("restarted".to_owned(), None)])
        );
        assert_eq!((missed.updates.len(), missed.refused), (0, None));
    }
}

#[test]
fn time_without_a_monitor_is_told_with_what_came_before_and_after_it() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, &counters(1));
    let name = ioc.name("n0");
    let relay = Relay::start(network, &["--linger-ms=300"]);
    let mut client = Client::connect(relay.address());
    client.subscribe_live(&[&name]);
    client.wait("updates", |client| client.pv(&name).rows.len() > 3);
    let last = Last::of(&client, &name);
    let relay_instance = instance(&client);
    drop(client);
    eventually("no monitor", || {
        relay.metric("pvwire_monitors_active") == 0.0
    });
    let mut client = Client::connect(relay.address());
    client.subscribe_live(&[&name]);
    client.wait("updates", |client| client.pv(&name).rows.len() > 3);
    let mut missed = ask(&mut client, relay_instance, std::slice::from_ref(&last)).remove(0);
    // The first value of a monitor may be the last one of the monitor before.
    missed.absent.remove("repeated");
    assert_eq!(
        missed.absent,
        HashMap::from([("not monitored".to_owned(), None)])
    );
    let epoch = client.pv(&name).metadata.as_ref().unwrap().epoch;
    let (before, after): (Vec<&Update>, Vec<&Update>) = missed
        .updates
        .iter()
        .partition(|update| update.0 == last.epoch);
    assert!(!before.is_empty(), "{missed:?}");
    for (ahead, update) in (1..).zip(&before) {
        assert_eq!(
            (update.1, update.3),
            (last.sequence + ahead, last.value + f64::from(ahead))
        );
    }
    assert!(after.iter().all(|update| update.0 == epoch), "{missed:?}");
    let seen = client.pv(&name).rows.iter();
    let seen = seen.map(|row| (row.sequence, row.time_ns));
    let after: Vec<_> = after.iter().map(|update| (update.1, update.2)).collect();
    let (first, last) = (after[0].0, after.last().unwrap().0);
    let common = seen.filter(|row| (first..=last).contains(&row.0));
    assert_eq!(common.collect::<Vec<_>>(), after);
}

#[test]
fn pv_that_a_client_may_not_read_and_one_that_is_not_kept_are_told_apart() {
    let network = Network::new();
    let ioc = SoftIoc::start(
        network,
        r#"
        record(calc, "$(P)n") { field(CALC, "VAL+1") field(SCAN, ".1 second") }
        record(ao, "$(P)secret") { field(VAL, "1") field(PINI, "YES") }
        record(waveform, "$(P)w") { field(FTVL, "DOUBLE") field(NELM, "3") field(PINI, "YES") }
        "#,
    );
    let [n, secret, w] = ioc.names(["n", "secret", "w"]);
    let rules = file(
        "missed.toml",
        &format!(
            r#"
            history = ["{secret}=1h"]
            [[rule]]
            pv = "{secret}"
            deny = "read"
            "#
        ),
    );
    let relay = Relay::start(network, &["--config", rules.to_str().unwrap()]);
    let mut client = Client::connect(relay.address());
    client.subscribe_live(&[&n, &w]);
    client.wait("updates", |client| client.pv(&n).rows.len() > 3);
    eventually("a past of the secret", || {
        relay.metric("pvwire_history_pvs") == 2.0
    });
    let number = Last::of(&client, &n);
    let other = |name: &str| Last {
        name: name.to_owned(),
        epoch: 1,
        ..number.clone()
    };
    client.wait("updates", |client| {
        client.pv(&n).sequence > number.sequence + 3
    });
    let lasts = [other(&secret), other(&w), number.clone()];
    let relay_instance = instance(&client);
    let missed = ask(&mut client, relay_instance, &lasts);
    let [secret, w, n] = &missed[..] else {
        panic!("{missed:?}")
    };
    assert!(
        secret.refused.as_ref().unwrap().contains("rule 1"),
        "{secret:?}"
    );
    assert_eq!((secret.updates.len(), secret.end), (0, None));
    assert_eq!(w.absent, HashMap::from([("not kept".to_owned(), None)]));
    assert!(n.updates.len() >= 3 && n.absent.is_empty(), "{n:?}");
}
