//! A client that asks for too many bytes is refused beyond its budget and delays no other client.
//!
//! Topology: one relay with a small memory budget, twenty clients with counters that must not wait,
//! and attackers that ask for large simulated values or those of a soft IOC.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use pvwire_schema::types::{
    Filter, NameError, NameProblem, Outcome, PutRequest, PutValue, Reply, RequestBody, Severity,
};

use crate::handshakes::upgraded;
use crate::large::fill;
use testbed::{Client, How, Kept, Network, Relay, SoftIoc, eventually, get, handshake};

const MIB: usize = 1 << 20;

/// Longest that a good client may wait for the next value of a PV that changes ten times a second.
/// The machine may be busy with other tests, and a round of reading takes a while.
const LONGEST_WAIT: Duration = Duration::from_secs(20);

/// Memory must be freed within this time after the attacker has disconnected. A busy machine delays
/// that.
const RECOVERY: Duration = Duration::from_secs(50);

/// Attackers that read nothing.
const DEAF: How = How {
    receive_buffer: Some(4096),
    acks: false,
    lz4: false,
    trust: None,
};

/// Twenty clients that subscribe values ten times a second, in a separate thread.
struct Others {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<(Duration, Client, String)>>,
}

impl Others {
    fn start(address: SocketAddr) -> Self {
        let subscribed = |n: u32| {
            let name = format!("sim://counter(rate_hz=10,start={n})");
            let mut client = Client::connect(address);
            client.subscribe_live(&[&name]);
            (client, name)
        };
        let clients: Vec<_> = (0..20).map(subscribed).collect();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let clients = clients.into_iter();
            let mut clients: Vec<_> = clients
                .map(|(client, name)| (Instant::now(), Duration::ZERO, client, name))
                .collect();
            while !stopped.load(Ordering::Relaxed) {
                for (last, longest, client, name) in &mut clients {
                    let rows = client.pv(name).rows.len();
                    client.read_for_a_moment();
                    if client.pv(name).rows.len() > rows {
                        *longest = (*longest).max(last.elapsed());
                        *last = Instant::now();
                    }
                }
            }
            let done = clients.into_iter();
            done.map(|(last, longest, client, name)| (longest.max(last.elapsed()), client, name))
                .collect()
        });
        Self { stop, thread }
    }

    /// None of them waited too long or received a wrong value.
    fn check(self) {
        self.stop.store(true, Ordering::Relaxed);
        let clients = self.thread.join().unwrap();
        let longest = clients.iter().map(|(longest, ..)| *longest).max().unwrap();
        assert!(longest < LONGEST_WAIT, "one waited {longest:?}");
        for (_, client, name) in clients {
            assert_eq!(client.closed, None);
            let pv = client.pv(&name);
            let numbers = pv.numbers();
            let (first, last) = (numbers[0], numbers[numbers.len() - 1]);
            let steps = numbers.len() as u64 - 1 + pv.skipped;
            assert_eq!((last - first) as u64, steps, "{name}");
        }
    }
}

/// Waits until the relay has freed all but a fifth of the memory that it used.
fn wait_recovered(relay: &Relay, before: usize) -> usize {
    let left = Instant::now();
    loop {
        let now = relay.resident_bytes();
        if now * 10 <= before * 12 {
            return now;
        }
        assert!(
            left.elapsed() < RECOVERY,
            "{} MiB before, {} MiB so long after",
            before / MIB,
            now / MIB
        );
        thread::sleep(Duration::from_millis(20));
    }
}

fn refused<'a>(errors: &'a [NameError], key: &str) -> Vec<&'a NameError> {
    let by_budget = |error: &&NameError| error.message.contains(key);
    let refused: Vec<_> = errors.iter().filter(by_budget).collect();
    for error in &refused {
        assert_eq!(error.problem, NameProblem::TooManyPvs);
        assert!(error.message.contains("this takes "), "{error:?}");
    }
    refused
}

fn waveform(name: &str, bytes: usize) -> String {
    format!(r#"record(waveform, "$(P){name}") {{ field(FTVL, "UCHAR") field(NELM, "{bytes}") }}"#)
        + "\n"
}

#[test]
fn large_pvs_of_one_client_are_refused_beyond_its_budget() {
    let flags = ["--max-memory-mib=400", "--max-memory-per-client-mib=10"];
    let relay = Relay::start(Network::new(), &flags);
    let others = Others::start(relay.address());
    let before = relay.resident_bytes();

    // 10 kB of names.
    let names: Vec<_> = (0..200)
        .map(|n| format!("sim://image(2000000,1,rate_hz=1.{n:03})"))
        .collect();
    let mut attacker = Client::connect(relay.address());
    let errors = attacker.subscribe(&names);
    let by_budget = refused(&errors, "max_memory_per_client_mib");
    assert!(by_budget.len() > 150, "{} by the budget", by_budget.len());
    attacker.wait("the values within the budget", |client| {
        let live = names.iter().filter_map(|name| client.held(name));
        live.filter(|pv| pv.now.is_some()).count() > 3
    });
    let during = relay.resident_bytes();
    let grown = during.saturating_sub(before);
    assert!(grown < 40 * MIB, "{} MiB", grown / MIB);
    assert_eq!(get(relay.address(), "/ready", &[]).status, 200);
    drop(attacker);

    let after = wait_recovered(&relay, before);
    eprintln!("resident: {before} before, {during} during, {after} after");
    eventually("nothing is charged for it", || {
        relay.metric("pvwire_memory_charged_bytes") < 1e6
    });
    assert!(relay.metric("pvwire_memory_refused_total") > 150.0);
    others.check();
}

/// Arenas that glibc made for threads: each reserves 64 MiB at a multiple of this size, of which a first
/// part is used. The memory at the end of such an arena isn't returned to the system.
fn thread_arenas(maps: &str) -> usize {
    const RESERVED: usize = 64 * MIB;
    let range = |line: &str| {
        let (range, rest) = line.split_once(' ').unwrap();
        let (from, to) = range.split_once('-').unwrap();
        let address = |text| usize::from_str_radix(text, 16).unwrap();
        (
            address(from),
            address(to),
            rest.starts_with("rw-p"),
            rest.starts_with("---p"),
        )
    };
    let ranges: Vec<_> = maps.lines().map(range).collect();
    let is_arena = |pair: &&[(usize, usize, bool, bool)]| {
        let [(from, used_to, is_used, _), (unused, to, _, is_reserved)] = pair else {
            return false;
        };
        let is_whole = from % RESERVED == 0 && used_to == unused && to - from == RESERVED;
        is_whole && *is_used && *is_reserved
    };
    ranges.windows(2).filter(is_arena).count()
}

#[test]
fn free_memory_of_every_thread_can_be_returned() {
    let relay = Relay::start(Network::new(), &[]);
    let mut client = Client::connect(relay.address());
    client.subscribe_live(&[
        "sim://image(10000000,1,rate_hz=1)",
        "sim://counter(rate_hz=10)",
    ]);
    // Tick, shards, simulation and EPICS's threads have allocated memory by now.
    assert_eq!(thread_arenas(&relay.proc("maps")), 0);
}

#[test]
fn connections_of_one_address_share_a_budget() {
    let flags = [
        "--max-memory-mib=400",
        "--max-memory-per-client-mib=300",
        "--max-memory-per-address-mib=25",
    ];
    let relay = Relay::start(Network::new(), &flags);
    let mut clients = [0, 1].map(|n| {
        let mut client = Client::connect(relay.address());
        let names = [1, 2].map(|m| format!("sim://image(10000000,1,rate_hz=0.{n}{m})"));
        (client.subscribe(&names), client)
    });
    assert_eq!(clients[0].0, []);
    let by_budget = refused(&clients[1].0, "max_memory_per_address_mib");
    assert_eq!(by_budget.len(), 2, "{:?}", clients[1].0);
    // A PV that another connection has opened costs nothing more.
    let shared = "sim://image(10000000,1,rate_hz=0.01)";
    assert_eq!(clients[1].1.subscribe(&[shared]), []);
}

#[test]
fn gets_of_a_large_value_share_it_and_keep_none_afterwards() {
    const GETS: usize = 62;
    const BYTES: usize = 10_000_000;
    let flags = ["--max-memory-mib=2000", "--max-memory-per-client-mib=300"];
    let network = Network::new();
    let mut ioc = SoftIoc::start(network, &waveform("image", BYTES));
    fill(&mut ioc, "image", BYTES);
    ioc.ask("echo filled");
    let image = ioc.name("image");
    let relay = Relay::start(network, &flags);
    let others = Others::start(relay.address());
    let before = relay.resident_bytes();
    let mut attackers: Vec<_> = (0..4)
        .map(|_| Client::connect_as(relay.address(), DEAF))
        .collect();
    for attacker in &mut attackers {
        for _ in 0..GETS {
            attacker.request(RequestBody::Get {
                names: vec![image.clone()],
                timeout_ms: 10_000,
                description: false,
            });
        }
    }
    eventually("more was asked for than may wait", || {
        relay.metric("pvwire_memory_refused_total") >= 4.0
    });
    let during = relay.resident_bytes();
    let grown = during.saturating_sub(before);
    assert!(grown < 5 * BYTES, "{} MiB", grown / MIB);

    // Each client receives everything that it requested, or the reason why not.
    let mut patient = attackers.pop().unwrap();
    patient.set_acks(true);
    patient.wait("the first answer", |client| client.has_answer(1));
    let (_, pvs) = patient.wait_answer(1);
    let value = &pvs.values().next().unwrap().now.as_ref().unwrap().value;
    assert!(matches!(value, Kept::Array(_, bytes) if bytes.len() == BYTES));
    drop((attackers, patient));
    let after = wait_recovered(&relay, before);
    eprintln!("resident: {before} before, {during} during, {after} after");
    others.check();
}

#[test]
fn get_of_many_large_pvs_copies_none_and_names_those_left_out() {
    const BYTES: usize = 4_000_000;
    let network = Network::new();
    let records: Vec<_> = (0..24).map(|n| format!("w{n}")).collect();
    let database: String = (records.iter()).map(|name| waveform(name, BYTES)).collect();
    let mut ioc = SoftIoc::start(network, &database);
    records.iter().for_each(|name| fill(&mut ioc, name, BYTES));
    ioc.ask("echo filled");
    let names: Vec<_> = records.iter().map(|name| ioc.name(name)).collect();
    let relay = Relay::start(network, &["--max-memory-mib=1000"]);
    let mut holder = Client::connect(relay.address());
    assert_eq!(holder.subscribe(&names), []);
    holder.wait("all values", |client| {
        let mut pvs = names.iter().map(|name| client.pv(name));
        pvs.all(|pv| pv.now.is_some())
    });
    holder.forget_history();
    eventually("what was sent is free", || {
        relay.resident_bytes() < 24 * BYTES + 100 * MIB
    });
    let before = relay.resident_bytes();

    let mut deaf = Client::connect_as(relay.address(), DEAF);
    let deaf_request = deaf.request(RequestBody::Get {
        names: names.clone(),
        timeout_ms: 10_000,
        description: false,
    });
    let mut reader = Client::connect(relay.address());
    let (got, errors) = reader.get(&names, 10_000);
    assert_eq!(errors, []);
    for pv in got {
        let value = &pv.unwrap().now.as_ref().unwrap().value.clone();
        assert!(matches!(value, Kept::Array(_, bytes) if bytes.len() == BYTES));
    }
    let during = relay.resident_bytes();
    assert!(
        during < before + 2 * BYTES,
        "{} MiB more",
        (during - before) / MIB
    );
    deaf.set_acks(true);
    let (_, pvs) = deaf.wait_answer(deaf_request);
    assert_eq!(pvs.len(), 24);

    // A client with a lower limit is told which PVs it can't have.
    drop((relay, holder, reader, deaf));
    let flags = ["--max-memory-mib=1000", "--max-memory-per-client-mib=20"];
    let relay = Relay::start(network, &flags);
    let mut holder = Client::connect(relay.address());
    holder.subscribe(&names);
    holder.wait("each has a value or says why it has none", |client| {
        let mut pvs = names.iter().map(|name| client.pv(name));
        pvs.all(|pv| pv.now.is_some())
    });
    let mut left_out = Vec::new();
    for name in &names {
        let now = holder.pv(name).now.as_ref().unwrap();
        if now.alarm.severity == Severity::Invalid {
            left_out.push(name.clone());
        }
    }
    assert_eq!(left_out.len(), 24 - 5, "five of 4 MB are within 20 MiB");
    // Another client has room for one of them, as soon as that has its next value.
    let mut other = Client::connect(relay.address());
    assert_eq!(other.subscribe(&left_out[..1]), []);
    let record = left_out[0].rsplit_once(':').unwrap().1;
    fill(&mut ioc, record, BYTES);
    for client in [&mut holder, &mut other] {
        client.wait_pv(&left_out[0], "its value", |pv| {
            let now = pv.now.as_ref();
            now.is_some_and(
                |now| matches!(&now.value, Kept::Array(_, bytes) if bytes.len() == BYTES),
            )
        });
    }
}

#[test]
fn values_are_gone_when_their_pvs_are_closed() {
    let flags = ["--max-memory-mib=1000", "--linger-ms=10000"];
    let relay = Relay::start(Network::new(), &flags);
    let mut client = Client::connect(relay.address());
    client.subscribe_live(&["sim://counter(rate_hz=10)"]);
    let before = relay.resident_bytes();
    let images = [1, 2, 3].map(|n| format!("sim://image(10000000,1,rate_hz=0.{n})"));
    assert_eq!(client.subscribe(&images), []);
    client.wait("all values", |client| {
        let mut pvs = images.iter().map(|name| client.pv(name));
        pvs.all(|pv| pv.now.is_some())
    });
    assert!(relay.resident_bytes() > before + 25 * MIB);
    client.unsubscribe(&images.each_ref().map(String::as_str));
    wait_recovered(&relay, before);
}

#[test]
fn relay_short_of_memory_says_so_and_serves_again_later() {
    // The budget of values is as large as that of the process, so that it can be exceeded.
    let flags = [
        "--max-memory-mib=60",
        "--max-memory-per-client-mib=1000",
        "--max-memory-per-address-mib=1000",
    ];
    let relay = Relay::start(Network::new(), &flags);
    let address = relay.address();
    let ready = || get(address, "/ready", &[]);
    assert_eq!(ready().status, 200);
    let mut deaf = Vec::new();
    let mut short = String::new();
    eventually("it is short of memory", || {
        // Unread answers are not values of PVs: each holds another image.
        if deaf.len() < 40 {
            let mut client = Client::try_connect(address, DEAF);
            if let Some(client) = &mut client {
                client.request(RequestBody::Subscribe {
                    names: vec!["sim://image(10000000,1,rate_hz=2)".to_owned()],
                    filter: Filter::default(),
                });
            }
            deaf.extend(client);
        }
        thread::sleep(Duration::from_millis(200));
        // It may recover between two requests.
        let (before, refused, after) = (ready(), handshake(address, &[]), ready());
        short = after.body;
        [before.status, refused.status, after.status] == [503; 3]
    });
    assert!(short.contains("max_memory_mib"), "{short}");
    // Clients that read nothing are closed early, so the relay recovers although they stay.
    let begun = Instant::now();
    eventually("it is ready again", || ready().status == 200);
    assert!(begun.elapsed() < RECOVERY, "{:?}", begun.elapsed());
    Client::connect(address).subscribe_live(&["sim://counter(rate_hz=10)"]);
    relay.says("within max_memory_mib");
}

/// A client that has sent most of a message or a body, and waits.
fn unfinished(address: SocketAddr, n: usize) -> TcpStream {
    let head = match n % 3 {
        0 => "POST /graphql",
        1 => "PUT /pv/X",
        _ => {
            let path = ["/ws", "/pvws/pv"][n % 2];
            let subprotocol = n.is_multiple_of(2).then_some("pvwire.v1");
            let mut stream = upgraded(address, path, subprotocol).unwrap();
            // A masked binary or text frame; the mask is zero.
            let mut frame = vec![[0x82, 0x81][n % 2], 0x80 | 127];
            frame.extend(1_000_000_u64.to_be_bytes());
            frame.resize(14 + UNFINISHED, 0);
            stream.write_all(&frame).unwrap();
            return stream;
        }
    };
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!("{head} HTTP/1.1\r\nHost: {address}\r\nContent-Length: 1000000\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(&[0; UNFINISHED]).unwrap();
    stream
}

/// Bytes of a request that come, of a million.
const UNFINISHED: usize = 900_000;

#[test]
fn requests_that_never_end_are_charged_to_their_clients() {
    let relay = Relay::start(
        Network::new(),
        &["--coniql", "--pvws", "--max-memory-mib=500"],
    );
    let charged = || relay.metric("pvwire_memory_charged_bytes");
    let open: Vec<_> = (0..30).map(|n| unfinished(relay.address(), n)).collect();
    eventually("all are charged", || charged() >= (30 * UNFINISHED) as f64);
    drop(open);
    eventually("it is given back", || charged() < 100_000.0);
    assert_eq!(get(relay.address(), "/ready", &[]).status, 200);
}

#[test]
fn puts_that_wait_are_charged_to_their_client() {
    let flags = [
        "--enable-put",
        "--allow-put=*",
        "--max-memory-per-client-mib=8",
    ];
    let relay = Relay::start(Network::new(), &flags);
    let mut client = Client::connect(relay.address());
    // No server has the PV: they wait for it.
    let puts: Vec<u32> = (0..20)
        .map(|_| {
            client.request(RequestBody::Put(PutRequest {
                name: "nowhere".into(),
                value: PutValue::Text("v".repeat(UNFINISHED)),
                wait: false,
                timeout_ms: 60_000,
                expected: None,
            }))
        })
        .collect();
    let (reply, _) = client.wait_answer(puts[19]);
    let Reply::PutDone {
        outcome, message, ..
    } = reply
    else {
        panic!("{reply:?}");
    };
    assert_eq!(outcome, Outcome::NotAllowed);
    assert!(message.contains("max_memory_per_client_mib"), "{message}");
    assert!(message.starts_with("nothing was written"), "{message}");
    let waiting = puts.iter().filter(|put| !client.has_answer(**put)).count();
    let charged = || relay.metric("pvwire_memory_charged_bytes");
    assert!(charged() >= (7 * UNFINISHED) as f64, "{}", charged());
    assert!((7..=9).contains(&waiting), "{waiting} wait");
    drop(client);
    eventually("it is given back", || charged() < 100_000.0);
}
