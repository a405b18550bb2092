//! Requests with thousands of names delay no other client, however many come at once.
//!
//! Topology: one relay with simulated PVs, clients that watch counters, and attackers that subscribe and get
//! thousands of names again and again.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use pvwire_schema::types::{
    ConnectionState, Filter, FrameKind, Reply, RequestBody, RequestProblem,
};
use testbed::{Client, Network, Relay, SoftIoc, eventually, get, prefix, within};

use crate::handshakes::upgraded;

const PING: RequestBody = RequestBody::Ping { client_time_ns: 1 };

/// Names of a request.
const NAMES: usize = 10_000;

/// Requests that a client may have open.
const OPEN: usize = 64;

/// Requests of an attacker that must all be answered, while the test waits for the first of them.
const MANY: usize = 12;

/// Longest time between two values of a counter that changes twenty times a second. The machine may be busy.
const LONGEST_GAP: Duration = Duration::from_secs(20);

fn subscribe(names: &[String]) -> RequestBody {
    RequestBody::Subscribe {
        names: names.to_vec(),
        filter: Filter::default(),
    }
}

/// A client that watches a counter, in a separate thread.
struct Watch {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<(Duration, Client)>,
}

impl Watch {
    fn start(address: SocketAddr) -> Self {
        let name = "sim://counter(rate_hz=20)";
        let mut client = Client::connect(address);
        client.subscribe_live(&[name]);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let (mut last, mut longest) = (Instant::now(), Duration::ZERO);
            while !stopped.load(Ordering::Relaxed) {
                let rows = client.pv(name).rows.len();
                client.read_for_a_moment();
                if client.pv(name).rows.len() > rows {
                    longest = longest.max(last.elapsed());
                    last = Instant::now();
                }
            }
            (longest.max(last.elapsed()), client)
        });
        Self { stop, thread }
    }

    /// The longest time without a value.
    fn longest_gap(self) -> Duration {
        self.stop.store(true, Ordering::Relaxed);
        let (longest, client) = self.thread.join().unwrap();
        assert_eq!(client.closed, None);
        longest
    }
}

/// How the requests of a client ended.
#[derive(Debug, Default)]
struct Ended {
    answered: usize,
    /// The messages of the refused ones.
    refused: Vec<String>,
    /// The ticks of the snapshots.
    ticks: Vec<u64>,
}

/// Sends `count` equal requests without waiting, at most `OPEN` at a time, and waits for all answers.
fn flood(address: SocketAddr, body: &RequestBody, count: usize) -> Ended {
    let mut client = Client::connect(address);
    let mut ended = Ended::default();
    let mut open = Vec::new();
    for n in 0..count {
        open.push(client.request(body.clone()));
        let is_last = n + 1 == count;
        while open.len() >= OPEN || (is_last && !open.is_empty()) {
            match client.wait_answer(open.remove(0)).0 {
                Reply::Error { problem, message } => {
                    assert_eq!(problem, RequestProblem::Refused);
                    ended.refused.push(message);
                }
                _ => ended.answered += 1,
            }
        }
    }
    // A refusal costs no connection.
    client.ask(PING);
    let snapshots = client.messages.iter();
    let snapshots = snapshots.filter(|message| message.kind == FrameKind::Snapshot);
    ended.ticks = snapshots.map(|message| message.tick).collect();
    ended
}

/// What `attack` costs a client that watches a counter on a relay with two shards.
fn gap_beside(relay: &Relay, attack: impl FnOnce()) -> Duration {
    let watches = [Watch::start(relay.address()), Watch::start(relay.address())];
    attack();
    let gaps = watches.map(Watch::longest_gap);
    gaps.into_iter().max().unwrap()
}

/// No tick has carried out more than one of the requests, which are of the greatest length.
fn check_ticks(ended: &[Ended]) {
    let mut ticks: Vec<_> = ended.iter().flat_map(|ended| &ended.ticks).collect();
    let all = ticks.len();
    ticks.sort_unstable();
    ticks.dedup();
    assert_eq!(ticks.len(), all, "{ended:?}");
}

fn flood_by(address: SocketAddr, attackers: usize, count: usize, body: &RequestBody) -> Vec<Ended> {
    let one = || {
        let body = body.clone();
        thread::spawn(move || flood(address, &body, count))
    };
    let started: Vec<_> = (0..attackers).map(|_| one()).collect();
    let ended = started.into_iter().map(|each| each.join().unwrap());
    ended.collect()
}

#[test]
fn repeated_subscriptions_of_ten_thousand_pvs_delay_no_other_client() {
    let relay = Relay::start(Network::new(), &["--shards=2"]);
    let names: Vec<_> = (0..NAMES)
        .map(|n| format!("sim://counter(rate_hz=0.001,start={n})"))
        .collect();
    let mut ended = Vec::new();
    let gap = gap_beside(&relay, || {
        ended = flood_by(relay.address(), 2, OPEN, &subscribe(&names));
    });
    eprintln!("longest gap {gap:?}");
    check_ticks(&ended);
    for Ended {
        answered, refused, ..
    } in ended
    {
        // Four times what a client may subscribe at once, and some more while it waits.
        assert!((8..=40).contains(&answered), "{answered}");
        for message in refused {
            assert!(message.contains("max_requests_per_s"), "{message}");
            assert!(message.contains("this one names 10000"), "{message}");
        }
    }
    assert!(gap < LONGEST_GAP, "{gap:?}");
}

#[test]
fn repeated_subscriptions_of_names_that_no_server_has_delay_no_other_client() {
    let relay = Relay::start(Network::new(), &["--shards=2", "--not-found-after-ms=100"]);
    let prefix = prefix();
    let names: Vec<_> = (0..NAMES).map(|n| format!("{prefix}{n}")).collect();
    let mut ended = Vec::new();
    let gap = gap_beside(&relay, || {
        ended = flood_by(relay.address(), 2, OPEN, &subscribe(&names));
    });
    eprintln!("longest gap {gap:?}");
    check_ticks(&ended);
    assert!(gap < LONGEST_GAP, "{gap:?}");
}

#[test]
fn gets_of_many_names_that_wait_for_one_delay_no_other_client() {
    let relay = Relay::start(
        Network::new(),
        &["--shards=2", "--max-requests-per-s=1000000"],
    );
    let mut holder = Client::connect(relay.address());
    let mut names: Vec<_> = (1..NAMES)
        .map(|n| format!("sim://counter(rate_hz=0.001,start={n})"))
        .collect();
    assert_eq!(holder.subscribe(&names), []);
    names.push(format!("{}nowhere", prefix()));
    let get = RequestBody::Get {
        names,
        timeout_ms: 4_000,
        description: false,
    };
    let gap = gap_beside(&relay, || {
        let ended = flood_by(relay.address(), 2, MANY, &get);
        assert!(
            ended.iter().all(|ended| ended.answered == MANY),
            "{ended:?}"
        );
    });
    assert!(gap < LONGEST_GAP, "{gap:?}");
}

#[test]
fn client_with_few_names_is_answered_beside_floods_of_many() {
    let relay = Relay::start(
        Network::new(),
        &["--shards=2", "--max-requests-per-s=1000000"],
    );
    let address = relay.address();
    let names: Vec<_> = (0..NAMES)
        .map(|n| format!("sim://counter(rate_hz=0.001,start={n})"))
        .collect();
    let body = subscribe(&names);
    let floods: Vec<_> = (0..2)
        .map(|_| {
            let body = body.clone();
            thread::spawn(move || flood(address, &body, MANY))
        })
        .collect();
    // They come while the floods wait, and each is answered.
    for number in 0..5 {
        let mut client = Client::connect(address);
        client.subscribe_live(&[&format!("sim://counter(rate_hz=1,start={number})")]);
        let (got, errors) = client.get(&["sim://counter(rate_hz=20)"], 5_000);
        assert!(got[0].is_some() && errors.is_empty(), "{errors:?}");
    }
    let ended: Vec<_> = floods
        .into_iter()
        .map(|flood| flood.join().unwrap())
        .collect();
    assert!(ended.iter().all(|ended| ended.answered == MANY));
    check_ticks(&ended);
}

#[test]
fn page_with_every_pv_that_it_may_subscribe_is_served_at_once_and_after_reconnecting() {
    // The strictest rate: what a page needs when it starts is no matter of the rate.
    let relay = Relay::start(Network::new(), &["--max-requests-per-s=5"]);
    let names: Vec<_> = (0..2 * NAMES)
        .map(|n| format!("sim://counter(rate_hz=0.001,start={n})"))
        .collect();
    for _ in 0..2 {
        let mut page = Client::connect(relay.address());
        for part in names.chunks(NAMES) {
            assert_eq!(page.subscribe(part), []);
        }
        page.wait("all values", |page| {
            names.iter().all(|name| page.pv(name).now.is_some())
        });
        // Another page of the same browser shares the connection, and the first one leaves.
        for part in names.chunks(NAMES) {
            assert_eq!(page.subscribe(part), []);
        }
        for part in names.chunks(NAMES) {
            let part: Vec<_> = part.iter().map(String::as_str).collect();
            page.unsubscribe(&part);
        }
    }
}

#[test]
fn equal_subscriptions_at_the_same_time_have_equal_snapshots() {
    let relay = Relay::start(Network::new(), &["--shards=2"]);
    let names: Vec<_> = (0..2_000)
        .map(|n| format!("sim://counter(rate_hz=0.001,start={n})"))
        .collect();
    let mut first = Client::connect(relay.address());
    assert_eq!(first.subscribe(&names), []);
    let mut clients: Vec<_> = (0..12).map(|_| Client::connect(relay.address())).collect();
    let requests: Vec<Vec<u32>> = (clients.iter_mut())
        .map(|client| (0..3).map(|_| client.request(subscribe(&names))).collect())
        .collect();
    for (client, requests) in clients.iter_mut().zip(requests) {
        for request in requests {
            let Reply::Subscribed { ids, errors } = client.wait_answer(request).0 else {
                panic!("not subscribed");
            };
            assert_eq!((ids.len(), errors), (names.len(), Vec::new()));
        }
        // The client of tests learns the names by its own method.
        assert_eq!(client.subscribe(&names), []);
        for (n, name) in names.iter().enumerate() {
            let (pv, other) = (client.pv(name), first.pv(name));
            assert!(pv.is_number(n as f64), "{name}");
            assert_eq!(pv.metadata, other.metadata, "{name}");
            assert_eq!(pv.connection.unwrap().state, ConnectionState::Connected);
        }
    }
}

#[test]
fn requests_for_the_status_page_leave_the_tick_thread_its_time() {
    let relay = Relay::start(Network::new(), &[]);
    let names: Vec<_> = (0..2 * NAMES)
        .map(|n| format!("sim://counter(rate_hz=0.001,start={})", n * 7_919))
        .collect();
    let mut holder = Client::connect(relay.address());
    for part in names.chunks(NAMES) {
        assert_eq!(holder.subscribe(part), []);
    }
    let (begun, before) = (Instant::now(), relay.thread_cpu("tick"));
    for path in ["/status", "/metrics"].repeat(100) {
        assert_eq!(get(relay.address(), path, &[]).status, 200);
    }
    let share = (relay.thread_cpu("tick") - before).as_secs_f64() / begun.elapsed().as_secs_f64();
    assert!(share < 0.3, "{share:.2} of the time went into overviews");
    // A PV that comes later is counted.
    let mut other = Client::connect(relay.address());
    other.subscribe_live(&["sim://counter(rate_hz=1,start=-5)"]);
    eventually("the new PV is counted", || {
        relay.metric("pvwire_pvs{state=\"connected\"}") == (names.len() + 1) as f64
    });
}

#[test]
fn names_beyond_the_memory_budget_are_refused_with_it() {
    let relay = Relay::start(Network::new(), &["--max-memory-per-client-mib=1"]);
    let mut holder = Vec::new();
    let names: Vec<_> = (0..NAMES)
        .map(|n| format!("sim://counter(rate_hz=0.001,start={n})"))
        .collect();
    // Each of them has room for some hundred PVs.
    for part in names.chunks(200) {
        let mut client = Client::connect(relay.address());
        assert_eq!(client.subscribe(part), []);
        holder.push(client);
    }
    let mut greedy = Client::connect(relay.address());
    let (reply, _) = greedy.ask(subscribe(&names));
    let Reply::Error { problem, message } = reply else {
        panic!("{reply:?}");
    };
    assert_eq!(problem, RequestProblem::Refused);
    assert!(message.contains("max_memory_per_client_mib"), "{message}");
    // None of them is subscribed, and fewer of them are answered.
    assert_eq!(greedy.subscribe(&names[..1_000]), []);
    eventually("the PVs of the others are open, and no more", || {
        relay.metric("pvwire_monitors_active") == NAMES as f64
    });
}

#[test]
fn client_of_pvws_that_subscribes_again_and_again_delays_no_other_client() {
    let relay = Relay::start(Network::new(), &["--shards=2", "--pvws"]);
    let list: Vec<_> = (0..1_000)
        .map(|n| format!("\"sim://counter(rate_hz=0.001,start={n})\""))
        .collect();
    let message = |what: &str| format!("{{\"type\":\"{what}\",\"pvs\":[{}]}}", list.join(","));
    let both = [text(&message("subscribe")), text(&message("clear"))].concat();
    let address = relay.address();
    let gap = gap_beside(&relay, || {
        let mut streams: Vec<_> = (0..2)
            .filter_map(|_| upgraded(address, "/pvws/pv", None).ok())
            .collect();
        assert_eq!(streams.len(), 2);
        let end = Instant::now() + Duration::from_secs(3);
        while Instant::now() < end {
            for stream in &mut streams {
                let tick = Some(Duration::from_millis(10));
                stream.set_write_timeout(tick).unwrap();
                let _ = stream.write(&both);
                stream.set_read_timeout(tick).unwrap();
                let _ = stream.read(&mut [0; 1 << 16]);
            }
        }
    });
    assert!(gap < LONGEST_GAP, "{gap:?}");
}

/// A text message of a client.
fn text(payload: &str) -> Vec<u8> {
    let mut message = vec![0x81, 0x80 | 127];
    message.extend((payload.len() as u64).to_be_bytes());
    message.extend([0; 4]);
    message.extend(payload.as_bytes());
    message
}

#[test]
fn ten_thousand_unknown_names_delay_others_by_less_than_1_s() {
    let network = Network::new();
    let ioc = SoftIoc::start(
        network,
        &(0..10)
            .map(|n| {
                format!(
                    "record(ao, \"$(P)good{n}\") {{ field(VAL, \"7\") field(PINI, \"YES\") }}\n"
                )
            })
            .collect::<String>(),
    );
    let relay = Relay::start(network, &["--not-found-after-ms", "1000"]);
    let mut crowd = Client::connect(relay.address());
    let mut other = Client::connect(relay.address());
    let names: Vec<_> = (0..10_000).map(|n| ioc.name(&format!("none{n}"))).collect();
    assert_eq!(crowd.subscribe(&names), []);
    // All of them have been searched for by the time they are reported as not found.
    let last = names.last().unwrap();
    crowd.wait_state(last, pvwire_schema::types::ConnectionState::NotFound);

    let mut good = (0..10).map(|n| ioc.name(&format!("good{n}")));
    within(Duration::from_secs(1), "a good name", || {
        let name = good.next().unwrap();
        let start = Instant::now();
        other.subscribe_live(&[&name]);
        let took = start.elapsed();
        other.wait_number(&name, 7.0);
        took
    });
}
