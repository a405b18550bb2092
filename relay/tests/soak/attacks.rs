//! Attacks of hostile clients on the relay, of programs on the bus and of a server that lies; each lasts a while, beside everything else.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use pvwire_schema::encode;
use pvwire_schema::types::{Filter, Request, RequestBody};
use serde_json::{Value, json};
use testbed::{Client, How, LyingServer, NatsClient, NatsServer};

use super::watcher::{Address, Watcher};
use super::{World, computing};

/// Connections that one attack holds at a time; more than the relay has file descriptors for.
const CONNECTIONS: usize = 300;

/// Connections that ask and don't read.
const SLOW_READERS: usize = 50;

/// Begins an attack on a relay that lasts for so long.
type Begin = fn(SocketAddr, Duration) -> Attack;

/// All attacks, each with what the run prints. Each storm has each of them.
pub(super) const ALL: &[(&str, Begin)] = &[
    (
        "connections use up the relay's file descriptors",
        use_up_descriptors,
    ),
    (
        "connections ask for pages and read nothing",
        ask_and_read_nothing,
    ),
    (
        "connections flood the relay with the smallest frames",
        flood_with_control_frames,
    ),
    (
        "connections subscribe the same names again and again",
        subscribe_again_and_again,
    ),
    (
        "connections that hold thousands of names subscribe further ones singly",
        subscribe_singly,
    ),
    (
        "connections get large values by plain HTTP",
        get_large_values,
    ),
    (
        "connections name a large value many times by plain HTTP",
        name_a_value_many_times,
    ),
    (
        "connections ask for the status page and read it",
        read_the_status_page,
    ),
    ("connections filter large arrays", filter_large_arrays),
    (
        "connections shake hands at the same time",
        shake_hands_at_once,
    ),
    (
        "clients of Coniql let large documents be compiled",
        computing::compile_documents,
    ),
    (
        "clients of Coniql send documents with thousands of errors",
        computing::send_wrong_documents,
    ),
    (
        "clients of PVWS subscribe thousands of formulas and some with large results",
        computing::compute_formulas,
    ),
    (
        "clients of PVWS send lists of empty lists",
        computing::read_empty_lists,
    ),
];

/// Names that an attack subscribes, and requests that it sends without waiting.
const SUBSCRIBED: usize = 5_000;
const REQUESTS: usize = 30;

/// Connections that an attack makes at the same time.
const AT_ONCE: usize = 40;

/// An attack under way.
pub(super) struct Attack {
    thread: JoinHandle<()>,
}

impl Attack {
    pub(super) fn begin(time: Duration, attack: impl FnOnce(Instant) + Send + 'static) -> Self {
        let until = Instant::now() + time;
        Self {
            thread: thread::spawn(move || attack(until)),
        }
    }

    /// Waits for its end.
    pub(super) fn end(self) {
        self.thread.join().unwrap();
    }
}

/// Opens connections until the relay has no descriptors left, and holds them.
fn use_up_descriptors(relay: SocketAddr, time: Duration) -> Attack {
    Attack::begin(time, move |until| {
        let mut held = Vec::new();
        while Instant::now() < until {
            if held.len() < CONNECTIONS {
                held.extend(TcpStream::connect(relay).ok());
            }
            // The relay closes those that send nothing, and those beyond its limits.
            if held.len() == CONNECTIONS {
                held.retain(is_open);
                thread::sleep(Duration::from_millis(20));
            }
        }
    })
}

fn is_open(stream: &TcpStream) -> bool {
    let _ = stream.set_nonblocking(true);
    let looked = stream.peek(&mut [0]);
    looked.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}

/// Asks for the longest pages, again and again on each connection, and reads nothing.
fn ask_and_read_nothing(relay: SocketAddr, time: Duration) -> Attack {
    Attack::begin(time, move |until| {
        let request = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: {relay}\r\n\r\n");
        let requests = [request("/status"), request("/metrics")].concat();
        let requests = requests.repeat(50);
        let mut held = Vec::new();
        while Instant::now() < until {
            if held.len() == SLOW_READERS {
                held.clear();
            }
            if let Ok(mut stream) = TcpStream::connect(relay) {
                let _ = stream.write_all(requests.as_bytes());
                held.push(stream);
            }
            thread::sleep(Duration::from_millis(5));
        }
    })
}

/// Sends the smallest WebSocket frames as fast as the relay reads them, one connection after the
/// other.
fn flood_with_control_frames(relay: SocketAddr, time: Duration) -> Attack {
    Attack::begin(time, move |until| {
        // Continuations of a message, pongs, pings.
        for (begins, opcode) in [(true, 0x00), (false, 0x8a), (false, 0x89)]
            .into_iter()
            .cycle()
        {
            if Instant::now() >= until {
                return;
            }
            let Some(mut stream) = handshake(relay) else {
                // The relay is away, or full.
                thread::sleep(Duration::from_millis(20));
                continue;
            };
            if begins {
                let _ = stream.write_all(&[0x02, 0x80, 0, 0, 0, 0]);
            }
            let frames = [opcode, 0x80, 0, 0, 0, 0].repeat(2_000);
            while Instant::now() < until && stream.write_all(&frames).is_ok() {}
        }
    })
}

/// A request in a binary message.
fn message(request: &Request) -> Vec<u8> {
    let request = encode::request(request);
    let mut message = vec![0x82, 0x80 | 127];
    message.extend((request.len() as u64).to_be_bytes());
    message.extend([0; 4]);
    message.extend(request);
    message
}

/// Subscribes thousands of PVs without waiting, and takes what it is sent; one connection after the other, because the
/// budgets of a new one are full.
fn subscribe_again_and_again(relay: SocketAddr, time: Duration) -> Attack {
    Attack::begin(time, move |until| {
        let message = subscription(0..SUBSCRIBED);
        let mut taken = [0; 1 << 16];
        while Instant::now() < until {
            let Some(mut stream) = handshake(relay) else {
                // The relay is away, or full.
                thread::sleep(Duration::from_millis(20));
                continue;
            };
            let tick = Some(Duration::from_millis(20));
            let _ = stream.set_read_timeout(tick);
            for _ in 0..REQUESTS {
                if Instant::now() >= until || stream.write_all(&message).is_err() {
                    break;
                }
                let _ = stream.read(&mut taken);
            }
        }
    })
}

/// A request that subscribes counters.
fn subscription(numbers: std::ops::Range<usize>) -> Vec<u8> {
    let names = numbers.map(|n| format!("sim://counter(rate_hz=0.01,start={n})"));
    message(&Request {
        id: 1,
        body: RequestBody::Subscribe {
            names: names.collect(),
            filter: Filter::default(),
        },
    })
}

/// Subscribes names in one request, and then one more in each.
fn subscribe_singly(relay: SocketAddr, time: Duration) -> Attack {
    Attack::begin(time, move |until| {
        let mut taken = [0; 1 << 16];
        while Instant::now() < until {
            let Some(mut stream) = handshake(relay) else {
                // The relay is away, or full.
                thread::sleep(Duration::from_millis(20));
                continue;
            };
            let tick = Some(Duration::from_millis(1));
            let _ = stream.set_read_timeout(tick);
            let further = (SUBSCRIBED..2 * SUBSCRIBED).map(|n| subscription(n..n + 1));
            for message in std::iter::once(subscription(0..SUBSCRIBED)).chain(further) {
                if Instant::now() >= until || stream.write_all(&message).is_err() {
                    break;
                }
                let _ = stream.read(&mut taken);
            }
        }
    })
}

/// Asks for a large value on many connections at a time, and reads some of it.
fn get_large_values(relay: SocketAddr, time: Duration) -> Attack {
    let request =
        format!("GET /pv/sim%3A%2F%2Fwaveform(200000,rate_hz=1) HTTP/1.1\r\nHost: {relay}\r\n\r\n");
    Attack::begin(time, move |until| {
        while Instant::now() < until {
            let streams = (0..AT_ONCE).filter_map(|_| TcpStream::connect(relay).ok());
            let mut streams: Vec<_> = streams.collect();
            for stream in &mut streams {
                let _ = stream.write_all(request.as_bytes());
            }
            for stream in &mut streams {
                let tick = Some(Duration::from_millis(20));
                let _ = stream.set_read_timeout(tick);
                let _ = stream.read(&mut [0; 1 << 14]);
            }
        }
    })
}

/// Asks for a selection that names an array some hundred times.
fn name_a_value_many_times(relay: SocketAddr, time: Duration) -> Attack {
    let fields: String = (0..500).map(|n| format!("a{n}%3Aarray%20")).collect();
    let request = format!(
        "GET /pv/sim%3A%2F%2Fwaveform(200000,rate_hz=1)?select=%7Bvalue%7B{fields}%7D%7D HTTP/1.1\r\n\
         Host: {relay}\r\n\r\n"
    );
    ask_again_and_again(relay, time, request)
}

/// Asks for the status page, and reads all of it.
fn read_the_status_page(relay: SocketAddr, time: Duration) -> Attack {
    let request = format!("GET /status HTTP/1.1\r\nHost: {relay}\r\n\r\n");
    ask_again_and_again(relay, time, request)
}

/// Makes a request and reads the answer, again and again.
fn ask_again_and_again(relay: SocketAddr, time: Duration, request: String) -> Attack {
    Attack::begin(time, move |until| {
        while Instant::now() < until {
            if let Ok(mut stream) = TcpStream::connect(relay) {
                let _ = stream.set_read_timeout(Some(Duration::from_secs(1)));
                let _ = stream.write_all(request.as_bytes());
                let _ = stream.read_to_end(&mut Vec::new());
            }
            thread::sleep(Duration::from_millis(5));
        }
    })
}

/// Subscribes parts of large arrays, each with other filters.
fn filter_large_arrays(relay: SocketAddr, time: Duration) -> Attack {
    Attack::begin(time, move |until| {
        while Instant::now() < until {
            let Some(mut stream) = handshake(relay) else {
                // The relay is away, or full.
                thread::sleep(Duration::from_millis(20));
                continue;
            };
            for number in 0..8 {
                let names = (0..4).map(|n| format!("sim://waveform(200000,rate_hz=10.{n})"));
                let filter = Filter {
                    points: 100 + 2 * number,
                    ..Filter::default()
                };
                let request = Request {
                    id: number,
                    body: RequestBody::Subscribe {
                        names: names.collect(),
                        filter,
                    },
                };
                let _ = stream.write_all(&message(&request));
            }
            // Reads little of what comes, for a while.
            let _ = stream.set_read_timeout(Some(Duration::from_millis(100)));
            let end = until.min(Instant::now() + Duration::from_secs(2));
            while Instant::now() < end && stream.read(&mut [0; 1 << 12]).is_ok() {
                thread::sleep(Duration::from_millis(5));
            }
        }
    })
}

/// Connects many times at once, and leaves.
fn shake_hands_at_once(relay: SocketAddr, time: Duration) -> Attack {
    Attack::begin(time, move |until| {
        while Instant::now() < until {
            thread::scope(|scope| {
                for _ in 0..AT_ONCE {
                    scope.spawn(|| handshake(relay));
                }
            });
            thread::sleep(Duration::from_millis(20));
        }
    })
}

/// A connection after its handshake, unless the relay refuses it.
fn handshake(relay: SocketAddr) -> Option<TcpStream> {
    let mut stream = TcpStream::connect(relay).ok()?;
    let patience = Some(Duration::from_secs(2));
    stream.set_read_timeout(patience).ok()?;
    stream.set_write_timeout(patience).ok()?;
    let request = format!(
        "GET /ws HTTP/1.1\r\nHost: {relay}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
         Sec-WebSocket-Protocol: pvwire.v1\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).ok()?;
    let mut begin = [0; 12];
    stream.read_exact(&mut begin).ok()?;
    (&begin == b"HTTP/1.1 101").then_some(stream)
}

const MEMBERS: &str = "pvwire.default.members";

/// What the relays announced while it listened.
pub(super) struct BusAttack {
    program: NatsClient,
    members: BTreeMap<String, Value>,
}

/// Listens until the relays have announced themselves.
pub(super) fn begin(nats: &NatsServer) -> BusAttack {
    let mut program = NatsClient::at(nats);
    program.subscribe(MEMBERS);
    let messages = program.hear_for(Duration::from_millis(700));
    let members = messages.iter().filter_map(|message| {
        let presence: Value = serde_json::from_slice(&message.body).ok()?;
        Some((presence["id"].as_str()?.to_owned(), presence))
    });
    let members = members.collect();
    BusAttack { program, members }
}

impl BusAttack {
    pub(super) fn run(mut self, time: Duration) {
        let until = Instant::now() + time;
        let draining = self.members.values().map(|presence| {
            let mut forged = presence.clone();
            forged["draining"] = json!(true);
            forged["ready"] = json!(false);
            forged["uptime_millis"] = json!(u64::MAX);
            serde_json::to_vec(&forged).unwrap()
        });
        let draining: Vec<_> = draining.collect();
        let names: Vec<_> = (0..1_000).map(|at| format!("ca://no:{at}")).collect();
        let interest = serde_json::to_vec(&json!({"add": names, "reset": true})).unwrap();
        let ids: Vec<String> = self.members.keys().cloned().collect();
        while Instant::now() < until {
            for forged in &draining {
                self.program.send(MEMBERS, "", forged);
            }
            for to in &ids {
                for from in ids.iter().map(String::as_str).chain(["00000000000000aa"]) {
                    let ask = |kind| format!("pvwire.default.{to}.ask.{kind}.{from}");
                    self.program.send(&ask("interest"), "nowhere", &interest);
                    self.program.send(&ask("operation"), "nowhere", b"put");
                }
                let answer = format!("pvwire.default.{to}.answer.1");
                self.program.send(&answer, "", b"{}");
            }
            // At the pace of the bus.
            self.program.settle();
        }
    }
}

/// Lies that crash libca, damage its tables, or concern the IOC's PVs. Not all of them: each needs
/// a circuit, and the relay has few file descriptors.
const TOLD: [&str; 8] = [
    "count",
    "destroyed",
    "written",
    "created",
    "jump",
    "others",
    "rights",
    "read",
];

pub(super) struct Liar {
    server: LyingServer,
    /// Subscribes its PVs, so that the relay reconnects to it whenever it was cut.
    believer: Option<Watcher>,
}

impl Liar {
    pub(super) fn start() -> Self {
        Self {
            server: LyingServer::start(&TOLD),
            believer: None,
        }
    }

    /// From the first call on a client wants the server's PVs.
    pub(super) fn be_believed(&mut self, address: &Address) {
        let names = &self.server.names;
        self.believer.get_or_insert_with(|| {
            Watcher::start(
                "client of the lying server",
                How::default(),
                names.clone(),
                address,
            )
        });
    }

    /// Fails when its client has failed.
    pub(super) fn fail_if_ended(&mut self) {
        self.believer.iter_mut().for_each(Watcher::fail_if_ended);
    }

    /// The addresses that the relay searches: these and the server's.
    pub(super) fn addresses(&self, ioc: &str) -> String {
        self.server.addresses(ioc)
    }
}

impl World {
    /// A client subscribes and gets large simulated values, reads some or none of them, and
    /// disconnects.
    pub(super) fn press_memory(&mut self) {
        let name = "a client asks for more memory than it may have";
        self.say(name);
        let begin = SystemTime::now();
        let address = self.relay.as_ref().unwrap().address();
        let reads = self.random.one_in(2);
        let how = How {
            receive_buffer: Some(4096),
            acks: reads,
            ..How::default()
        };
        // An attack may still hold the relay's last descriptors.
        let Some(mut client) = Client::try_connect(address, how) else {
            return;
        };
        let first = self.random.below(1000);
        let names: Vec<_> = (first..first + 100)
            .map(|n| format!("sim://image(500000,1,rate_hz=0.{:04})", n + 1000))
            .collect();
        client.request(RequestBody::Subscribe {
            names: names.clone(),
            filter: Filter::default(),
        });
        for names in names.chunks(20) {
            client.request(RequestBody::Get {
                names: names.to_vec(),
                timeout_ms: 1_000,
                description: false,
            });
        }
        let end = Instant::now() + self.random.millis(200, 3_000);
        while Instant::now() < end {
            if reads {
                client.read_for_a_moment();
            } else {
                thread::sleep(Duration::from_millis(20));
            }
        }
        drop(client);
        self.waits.add_window(name, begin, SystemTime::now());
    }
}
