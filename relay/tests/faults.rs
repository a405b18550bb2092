//! What users see when a machine or the network fails, and what one client can do to others.
//!
//! Topology: an IOC, the relay and its clients; between IOC and relay a proxy that can be cut, or
//! a hostile client beside the others.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use pvwire_schema::close::CloseCode;
use pvwire_schema::encode;
use pvwire_schema::types::{ConnectionState, Filter, Request, RequestBody, Severity, SkipCause};

use testbed::{
    Client, DEADLINE, How, Kept, Network, Relay, SoftIoc, Threads, Wire, eventually, get,
    handshake, keep_up, prefix, relay_command, relay_command_with_limit, within,
};

const RECORD: &str = r#"record(ao, "$(P)ao") { field(VAL, "1") }"#;
const PING: RequestBody = RequestBody::Ping { client_time_ns: 1 };

/// Cuts the network between a relay and its IOC, which serves `name` at the port; they find each
/// other only through `variable`.
fn cut_and_mend(network: Network, ioc: &mut SoftIoc, scheme: &str, variable: &str, port: u16) {
    let wire = Wire::lay(port);
    let mut command = relay_command(network);
    command
        .env("EPICS_CA_ADDR_LIST", "")
        .env(variable, format!("127.0.0.2:{port}"));
    let relay = Relay::spawn(command, &[]);
    let mut client = Client::connect(relay.address());
    let name = format!("{scheme}{}", ioc.name("ao"));
    client.subscribe_live(&[&name]);

    let mut number = 1;
    within(Duration::from_secs(12), "shown", || {
        wire.set(true);
        let since = Instant::now();
        client.wait_state(&name, ConnectionState::Disconnected);
        let after = since.elapsed();
        let last = f64::from(number);
        assert!(client.pv(&name).is_number(last), "the last value is kept");
        // The client's own connection still works.
        client.ask(PING);

        number += 1;
        ioc.put("ao", &number.to_string());
        wire.set(false);
        client.wait_state(&name, ConnectionState::Connected);
        client.wait_number(&name, f64::from(number));
        after
    });
}

#[test]
fn network_cut_to_an_ioc_shows_within_ten_seconds_and_heals() {
    let network = Network::new();
    let mut ioc = SoftIoc::start(network, RECORD);
    let port = network.server_port();
    cut_and_mend(network, &mut ioc, "", "EPICS_CA_NAME_SERVERS", port);
}

#[test]
fn network_cut_to_a_pva_server_shows_as_soon() {
    let network = Network::new();
    let mut ioc = SoftIoc::with_pv_access(network, &prefix(), RECORD);
    let port = network.pva_port();
    cut_and_mend(network, &mut ioc, "pva://", "EPICS_PVA_NAME_SERVERS", port);
}

/// An IOC that is found at two addresses stops at one and continues at the other.
fn move_ioc(network: Network, variables: &[(&str, String)], scheme: &str) {
    let start = |network, prefix: &str, value: u32| {
        let record = RECORD.replace("\"1\"", &format!("\"{value}\""));
        SoftIoc::with_pv_access(network, prefix, &record)
    };
    let prefix = prefix();
    let ioc = start(network, &prefix, 1);
    let mut command = relay_command(network);
    command.envs(variables.iter().map(|(name, value)| (name, value)));
    let relay = Relay::spawn(command, &[]);
    let mut client = Client::connect(relay.address());
    let name = format!("{scheme}{}", ioc.name("ao"));
    client.subscribe_live(&[&name]);
    client.wait_number(&name, 1.0);

    drop(ioc);
    client.wait_state(&name, ConnectionState::Disconnected);
    let mut ioc = start(network.at("127.0.0.2"), &prefix, 2);
    client.wait_state(&name, ConnectionState::Connected);
    client.wait_number(&name, 2.0);
    ioc.put("ao", "3");
    client.wait_number(&name, 3.0);
}

#[test]
fn ioc_that_moves_to_another_address_is_found_there() {
    let network = Network::new();
    let list = "127.0.0.1 127.0.0.2".to_owned();
    move_ioc(network, &[("EPICS_CA_ADDR_LIST", list)], "ca://");
}

#[test]
fn pva_server_that_moves_to_another_address_is_found() {
    let network = Network::new();
    let port = network.pva_port();
    let servers = format!("127.0.0.1:{port} 127.0.0.2:{port}");
    move_ioc(network, &[("EPICS_PVA_NAME_SERVERS", servers)], "pva://");
}

/// Time stamps are in EPICS seconds and nanoseconds; each event number has a separate clock,
/// because an IOC never moves one back.
const JUMPS: &str = "
import ctypes, time
from epicscorelibs.path import get_lib
com = ctypes.CDLL(get_lib('Com'))
STAMP = ctypes.c_uint32 * 2
def stamp(into, event):
    into.contents[0], into.contents[1] = at
    return 0
kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(STAMP), ctypes.c_int)
provider = kind(stamp)
assert com.generalTimeRegisterEventProvider(b'jumps', 1, provider) == 0
at = (0, 0)
for i in range(1, 201):
    at = ([1000000000, 500, 1500000000, 999999999][i % 4] + i, i)
    ioc('dbpf %sx.TSE %d' % (P, i))
    ioc('dbpf %sx %d' % (P, i))
    time.sleep(.005)
";

/// The `nth` time stamp that the client must see.
fn jumped_ns(nth: u32) -> i64 {
    let second = [1_000_000_000, 500, 1_500_000_000, 999_999_999][nth as usize % 4];
    (second + i64::from(nth) + 631_152_000) * 1_000_000_000 + i64::from(nth)
}

#[test]
fn ioc_whose_clock_jumps_loses_no_value_and_no_alarm() {
    let network = Network::new();
    let mut ioc = SoftIoc::start(
        network,
        r#"record(longout, "$(P)x") {
            field(VAL, "0") field(PINI, "YES")
            field(HIGH, "100") field(HSV, "MINOR") field(HIHI, "150") field(HHSV, "MAJOR")
        }"#,
    );
    let relay = Relay::start(network, &[]);
    let name = ioc.name("x");
    let mut all = Client::connect(relay.address());
    let mut some = Client::connect(relay.address());
    let mut late = Client::connect(relay.address());
    all.subscribe_live(&[&name]);
    let filter = Filter {
        // A busy machine takes seconds for all values.
        min_interval_ms: 1_000,
        ..Filter::default()
    };
    assert_eq!(some.subscribe_with(&[&name], filter), []);
    ioc.run(JUMPS);
    // The filter uses the relay's clock: the last value arrives, whatever its time stamp is.
    let mut both = [&mut all, &mut some];
    keep_up("the last value", &mut both, |clients| {
        clients
            .iter()
            .all(|client| client.pv(&name).is_number(200.0))
    });
    late.subscribe_live(&[&name]);
    assert_eq!(all.pv(&name).skipped, 0);
    for client in [&all, &some, &late] {
        let rows = client.pv(&name).rows.iter();
        let told = rows.filter_map(|row| match row.value {
            Kept::Number(number) if number >= 1.0 => Some((number as u32, row)),
            _ => None,
        });
        let told: Vec<_> = told.collect();
        assert!(told.is_sorted_by(|(a, _), (b, _)| a < b), "in their order");
        for (nth, row) in told {
            assert_eq!(row.time_ns, jumped_ns(nth), "as the IOC says it: {nth}");
            let severity = match nth {
                ..100 => Severity::NoAlarm,
                100..150 => Severity::Minor,
                _ => Severity::Major,
            };
            assert_eq!(row.alarm.severity, severity, "{nth}");
        }
    }
    let numbers = all.pv(&name).numbers();
    let last: Vec<_> = numbers.iter().rev().take(200).rev().copied().collect();
    assert_eq!(last, (1..=200).map(f64::from).collect::<Vec<_>>());
    assert!(some.pv(&name).skipped_by(SkipCause::Filter) > 50);
}

#[test]
fn ioc_restart_does_not_end_a_relay_without_file_descriptors() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, RECORD);
    let prefix = ioc.prefix().to_owned();
    let mut relay = Relay::spawn(relay_command_with_limit(network, "-n 256"), &[]);
    let address = relay.address();
    let mut client = Client::connect(address);
    let name = ioc.name("ao");
    client.subscribe_live(&[&name]);

    // Clients until one is refused, and then whatever else can be opened.
    let connect = || Client::try_connect(address, How::default());
    let crowd: Vec<_> = std::iter::from_fn(connect).take(256).collect();
    assert!((50..200).contains(&crowd.len()), "{} clients", crowd.len());
    assert_eq!(handshake(address, &[]).status, 503);
    assert_eq!(get(address, "/live", &[]).status, 200, "probes have room");
    let idle: Vec<_> = (0..200)
        .filter_map(|_| TcpStream::connect(address).ok())
        .collect();
    relay.says("kept for EPICS");

    ioc.kill();
    client.wait_state(&name, ConnectionState::Disconnected);
    let mut ioc = SoftIoc::with_prefix(network, &prefix, RECORD, "");
    client.wait_state(&name, ConnectionState::Connected);
    ioc.put("ao", "2");
    client.wait_number(&name, 2.0);
    assert!(relay.runs());

    drop((crowd, idle));
    let mut late = None;
    eventually("there is room again", || {
        late = connect();
        late.is_some()
    });
    let mut late = late.unwrap();
    late.subscribe_live(&[&name]);
    late.wait_number(&name, 2.0);
    assert!(relay.runs());
}

#[test]
fn soft_limit_of_file_descriptors_is_raised_at_the_start() {
    let relay = Relay::spawn(relay_command_with_limit(Network::new(), "-Sn 128"), &[]);
    let limits = relay.proc("limits");
    let line = limits
        .lines()
        .find(|line| line.starts_with("Max open files"));
    let numbers: Vec<u64> = (line.unwrap().split_whitespace())
        .filter_map(|word| word.parse().ok())
        .collect();
    let [soft, hard] = numbers[..] else {
        panic!("{line:?}");
    };
    assert_eq!(soft, hard.min(1 << 20), "{line:?}");
    assert!(
        soft > 128,
        "this machine's hard limit is too low for this test"
    );
}

#[test]
fn hundred_slow_handshakes_delay_no_client_and_end_soon() {
    let relay = Relay::start(Network::new(), &[]);
    let address = relay.address();
    let gone = Arc::new(Mutex::new(0));
    let slow: Vec<_> = (0..100)
        .map(|_| {
            let gone = Arc::clone(&gone);
            thread::spawn(move || {
                let mut stream = TcpStream::connect(address).unwrap();
                let tick = Some(Duration::from_millis(250));
                stream.set_read_timeout(tick).unwrap();
                let request = b"GET /ws HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ".iter();
                for byte in request.chain(std::iter::repeat(&b'a')) {
                    let said = stream.write_all(&[*byte]);
                    let heard = stream.read(&mut [0; 1024]);
                    let waits = heard.as_ref().is_err_and(|error| {
                        matches!(
                            error.kind(),
                            std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
                        )
                    });
                    if said.is_err() || !waits {
                        break;
                    }
                }
                *gone.lock().unwrap_or_else(PoisonError::into_inner) += 1;
            })
        })
        .collect();
    within(Duration::from_secs(4), "not held up", || {
        let quick = Instant::now();
        Client::connect(address).ask(PING);
        quick.elapsed()
    });
    eventually("all of them are gone", || *gone.lock().unwrap() == 100);
    slow.into_iter().for_each(|each| each.join().unwrap());
}

/// A WebSocket whose bytes the test writes itself.
fn raw_client(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!(
        "GET /ws HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
         Sec-WebSocket-Protocol: pvwire.v1\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    assert!(head.starts_with(b"HTTP/1.1 101 "));
    stream
}

/// The close code that arrives after any other frames.
fn close_code(stream: &mut TcpStream) -> u16 {
    loop {
        let mut head = [0; 2];
        stream.read_exact(&mut head).unwrap();
        let length = match head[1] {
            126 => {
                let mut length = [0; 2];
                stream.read_exact(&mut length).unwrap();
                usize::from(u16::from_be_bytes(length))
            }
            length => usize::from(length),
        };
        let mut payload = vec![0; length];
        stream.read_exact(&mut payload).unwrap();
        if head[0] == 0x88 {
            return u16::from_be_bytes([payload[0], payload[1]]);
        }
    }
}

#[test]
fn message_damaged_on_its_way_ends_only_that_connection() {
    let relay = Relay::start(Network::new(), &[]);
    let mut other = Client::connect(relay.address());
    let damaged: [&[u8]; 4] = [
        // A reserved bit; a frame without mask; an empty fragment; an unknown opcode.
        &[0xc2, 0x81, 0, 0, 0, 0, 1],
        &[0x82, 0x01, 1],
        &[0x80, 0x81, 0, 0, 0, 0, 1],
        &[0x83, 0x81, 0, 0, 0, 0, 1],
    ];
    for bytes in damaged {
        let mut stream = raw_client(relay.address());
        stream.write_all(bytes).unwrap();
        let code = close_code(&mut stream);
        assert_eq!(code, CloseCode::BadFrame.number(), "{bytes:?}");
        other.ask(PING);
    }
    // Longer than any request: refused because of its header alone.
    let mut stream = raw_client(relay.address());
    let header = [0x82, 0xff, 0, 0, 0, 0xff, 0, 0, 0, 0, 0, 0, 0, 0];
    stream.write_all(&header).unwrap();
    assert_eq!(close_code(&mut stream), CloseCode::RequestTooLarge.number());
    other.ask(PING);
    eventually("they are counted", || {
        relay.metric("pvwire_sessions_closed_total") == 5.0
    });
}

#[test]
fn client_that_floods_requests_delays_others_by_less_than_1_s() {
    let network = Network::new();
    let mut ioc = SoftIoc::start(network, RECORD);
    // One thread writes to all clients, so that the flood affects every client.
    let relay = Relay::start(network, &["--shards", "1"]);
    let address = relay.address();
    let name = ioc.name("ao");
    let mut client = Client::connect(address);
    client.subscribe_live(&[&name]);
    let end = Arc::new(AtomicBool::new(false));
    let flood = {
        let (end, mut flooder) = (Arc::clone(&end), Client::connect(address));
        thread::spawn(move || {
            let mut asked = 0_u64;
            while !end.load(Ordering::Relaxed) && flooder.closed.is_none() {
                for _ in 0..50 {
                    flooder.request(PING);
                }
                asked += 50;
                flooder.read_for_a_moment();
            }
            asked
        })
    };
    let mut number = 1;
    for _ in 0..10 {
        within(Duration::from_secs(1), "a value and a reply", || {
            number += 1;
            let since = Instant::now();
            ioc.put("ao", &number.to_string());
            client.wait_number(&name, f64::from(number));
            client.ask(PING);
            since.elapsed()
        });
    }
    end.store(true, Ordering::Relaxed);
    assert!(flood.join().unwrap() > 0);
}

#[test]
fn floods_of_the_smallest_frames_end_only_their_connections() {
    let network = Network::new();
    let mut ioc = SoftIoc::start(network, RECORD);
    let relay = Relay::start(network, &["--shards", "2"]);
    let address = relay.address();
    let name = ioc.name("ao");
    // Some at each of the shards.
    let mut clients: Vec<_> = (0..4).map(|_| Client::connect(address)).collect();
    for client in &mut clients {
        client.subscribe_live(&[&name]);
    }
    // Endless continuation frames, unsolicited pongs, and pings.
    let kinds = [(true, 0x00), (false, 0x8a), (false, 0x89)];
    let floods: Vec<_> = kinds
        .into_iter()
        .cycle()
        .take(6)
        .map(|(begins, opcode)| {
            let mut stream = raw_client(address);
            thread::spawn(move || {
                let mut reader = stream.try_clone().unwrap();
                let code = thread::spawn(move || close_code(&mut reader));
                if begins {
                    stream.write_all(&[0x02, 0x80, 0, 0, 0, 0]).unwrap();
                }
                let frames = [opcode, 0x80, 0, 0, 0, 0].repeat(10_000);
                let until = Instant::now() + DEADLINE;
                while stream.write_all(&frames).is_ok() {
                    assert!(Instant::now() < until, "the flood goes on");
                }
                code.join().ok()
            })
        })
        .collect();
    let mut number = 1;
    for _ in 0..10 {
        within(Duration::from_secs(1), "values and replies", || {
            number += 1;
            let since = Instant::now();
            ioc.put("ao", &number.to_string());
            for client in &mut clients {
                client.wait_number(&name, f64::from(number));
                client.ask(PING);
            }
            since.elapsed()
        });
    }
    for flood in floods {
        // Unread data may make the system discard the relay's last frame.
        if let Some(code) = flood.join().unwrap() {
            assert_eq!(code, CloseCode::TooManyRequests.number());
        }
    }
    eventually("they are counted", || {
        relay.metric("pvwire_sessions_closed_total") == 6.0
    });
}

#[test]
fn large_request_in_many_pieces_is_still_answered() {
    let relay = Relay::start(Network::new(), &[]);
    let mut stream = raw_client(relay.address());
    let names = (0..9_000)
        .map(|n| format!("sim://counter(rate_hz=0.001,start={n})"))
        .collect();
    let request = Request {
        id: 7,
        body: RequestBody::Subscribe {
            names,
            filter: Filter::default(),
        },
    };
    let bytes = encode::request(&request);
    assert!(bytes.len() > 300_000);
    let pieces: Vec<_> = bytes.chunks(4_000).collect();
    for (nth, piece) in pieces.iter().enumerate() {
        let is_last = u8::from(nth + 1 == pieces.len()) << 7;
        let opcode = if nth == 0 { 2 } else { 0 };
        let length = (piece.len() as u16).to_be_bytes();
        stream
            .write_all(&[
                is_last | opcode,
                0x80 | 126,
                length[0],
                length[1],
                0,
                0,
                0,
                0,
            ])
            .unwrap();
        stream.write_all(piece).unwrap();
    }
    eventually("it is carried out", || {
        relay.metric("pvwire_monitors_active") == 9_000.0
    });
}

#[test]
fn hanging_shard_delays_only_its_clients_and_catches_up() {
    let network = Network::new();
    let mut ioc = SoftIoc::start(network, RECORD);
    let name = ioc.name("ao");
    let (command, threads) = Threads::of(network);
    let relay = Relay::spawn(command, &["--shards=2", "--evict-after-ms=60000"]);
    let mut hung = Client::connect(relay.address());
    hung.subscribe_live(&[&name]);
    let mut other = Client::connect(relay.address());
    other.subscribe_live(&[&name]);

    let mut threads = threads.orders();
    writeln!(threads, "stop shard-0").unwrap();
    relay.says("shard-0 stops");
    let ping = hung.request(PING);
    let mut number = 1;
    within(Duration::from_secs(5), "29 values", || {
        let since = Instant::now();
        for _ in 0..29 {
            number += 1;
            ioc.put("ao", &number.to_string());
            other.wait_number(&name, f64::from(number));
        }
        since.elapsed()
    });
    hung.read_for_a_moment();
    assert!(!hung.has_answer(ping), "its shard hangs");
    let hangs = "pvwire_thread_turned_ago_seconds{thread=\"shard-0\"}";
    eventually("it is seen", || relay.metric(hangs) > 4.5);
    let mut late: Vec<_> = (0..3).map(|_| Client::connect(relay.address())).collect();
    for client in &mut late {
        client.subscribe_live(&[&name]);
    }

    writeln!(threads, "cont shard-0").unwrap();
    hung.wait_answer(ping);
    hung.wait_number(&name, f64::from(number));
    ioc.put("ao", "1");
    for client in [&mut hung, &mut other] {
        client.wait_number(&name, 1.0);
    }
    let skipped = hung.pv(&name).skipped_by(SkipCause::Behind);
    assert!(skipped > 5, "{skipped} were left out");
    assert_eq!(other.pv(&name).skipped_by(SkipCause::Behind), 0);
    let counter = "pvwire_updates_skipped_total{cause=\"behind\"}";
    eventually("the relay counts the same", || {
        relay.metric(counter) == skipped as f64
    });
}
