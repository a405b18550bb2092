//! Everything that works by a plain connection works by TLS, and nothing else does.
//!
//! Topology: a relay with a certificate that the test made, clients that trust it or don't; a soft
//! IOC where a PV is needed.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Output;
use std::thread;
use std::time::{Duration, Instant};

use pvwire_schema::types::RequestBody;

use testbed::{
    Client, How, Kept, Line, Message, Network, Pair, Relay, RowSeen, SoftIoc, Trust, eventually,
    get, get_by, handshake, keep_up, relay_command, within,
};

const RECORD: &str = r#"record(ao, "$(P)ao") { field(VAL, "1") field(PINI, "YES") }"#;
const PING: RequestBody = RequestBody::Ping { client_time_ns: 1 };

/// Times that a test of stalled clients doesn't meet, however busy the machine is.
const PATIENT: [&str; 2] = ["--ack-window-ms=60000", "--evict-after-ms=60000"];

fn start(network: Network, pair: &Pair, flags: &[&str]) -> Relay {
    let [cert, key] = pair.flags();
    let flags = [&[cert.as_str(), key.as_str()], flags].concat();
    Relay::start(network, &flags)
}

fn trusting(trust: Trust) -> How {
    How {
        trust: Some(trust),
        ..How::default()
    }
}

#[test]
fn page_status_and_live_values_come_by_one_encrypted_port() {
    let network = Network::new();
    let mut ioc = SoftIoc::start(network, RECORD);
    let (pair, trust) = Pair::new();
    let relay = start(network, &pair, &[]);
    let address = relay.address();
    for path in ["/", "/status", "/metrics", "/live", "/ready"] {
        assert_eq!(
            get_by(Some(trust), address, path, &[]).status,
            200,
            "{path}"
        );
    }
    let name = ioc.name("ao");
    // As a page that this port has served says where it is from.
    let origin = format!("https://{address}");
    let headers = [("Origin", origin.as_str())];
    let mut client = Client::try_connect_with(address, trusting(trust), &headers).unwrap();
    client.subscribe_live(&[&name]);
    for number in 2..20 {
        ioc.put("ao", &number.to_string());
        client.wait_number(&name, f64::from(number));
    }
    client.ask(PING);
    assert!(!relay.output().contains("PRIVATE KEY"));
}

#[test]
fn client_that_stalled_behind_tls_catches_up_and_counts_losses() {
    let (pair, trust) = Pair::new();
    let relay = start(Network::new(), &pair, &PATIENT);
    let (counter, wave) = (
        "sim://counter(rate_hz=50)",
        "sim://waveform(1500,rate_hz=50)",
    );
    let slow = How {
        receive_buffer: Some(4096),
        ..trusting(trust)
    };
    let mut stalled = Client::connect_as(relay.address(), slow);
    let mut other = Client::connect_as(relay.address(), trusting(trust));
    for client in [&mut stalled, &mut other] {
        client.subscribe_live(&[counter, wave]);
    }
    let skipped = |trust| relay.metric_by(Some(trust), "pvwire_frames_skipped_total");
    eventually("frames are left out", || {
        let seen = other.pv(counter).rows.len();
        other.wait_pv(counter, "more", |pv| pv.rows.len() > seen + 10);
        skipped(trust) > 20.0
    });
    let now = other.pv(counter).sequence;
    // The frames from before it was behind come first.
    keep_up(
        "both are there",
        &mut [&mut stalled, &mut other],
        |clients| {
            let is_there = |client: &&mut Client| client.pv(counter).sequence > now + 20;
            clients[0].pv(counter).skipped > 0 && clients.iter().all(is_there)
        },
    );
    assert!(stalled.messages.iter().any(Message::is_catch_up));
    let (slow, truth) = (stalled.pv(counter), other.pv(counter));
    let since = |sequence: u32, first: u32| u64::from(sequence.wrapping_sub(first)) + 1;
    let first = slow.rows[0].sequence;
    assert_eq!(
        slow.rows.len() as u64 + slow.skipped,
        since(slow.sequence, first)
    );
    for row in &slow.rows {
        let same = truth.rows.iter().find(|told| told.sequence == row.sequence);
        if let Some(told) = same {
            assert_eq!((&row.value, row.time_ns), (&told.value, told.time_ns));
        }
    }
}

#[test]
fn large_value_comes_whole_through_tls_on_socket_and_stream() {
    let (pair, trust) = Pair::new();
    let relay = start(Network::new(), &pair, &PATIENT);
    let huge = "sim://waveform(400000,rate_hz=4)";
    let slow = How {
        receive_buffer: Some(4096),
        ..trusting(trust)
    };
    let mut by_socket = Client::connect_as(relay.address(), slow);
    let mut by_stream = Client::connect_as(relay.address(), trusting(trust));
    by_stream.fetch_large();
    for client in [&mut by_socket, &mut by_stream] {
        client.subscribe_live(&[huge]);
    }
    let mut both = [&mut by_socket, &mut by_stream];
    keep_up(
        "several values, one of them in common",
        &mut both,
        |clients| {
            let [socket, stream] = [0, 1].map(|n| &clients[n].pv(huge).rows);
            let is_in_common = |row: &RowSeen| stream.iter().any(|it| it.sequence == row.sequence);
            socket.len() > 4 && stream.len() > 4 && socket.iter().any(is_in_common)
        },
    );
    let of = |client: &Client| -> Vec<_> {
        let rows = client.pv(huge).rows.iter();
        rows.map(|row| (row.sequence, row.value.clone())).collect()
    };
    let told = of(&by_stream);
    let mut compared = 0;
    for (sequence, value) in of(&by_socket) {
        assert!(matches!(&value, Kept::Array(_, bytes) if bytes.len() == 3_200_000));
        if let Some((_, other)) = told.iter().find(|(known, _)| *known == sequence) {
            assert!(value == *other, "{sequence} came differently");
            compared += 1;
        }
    }
    assert!(compared > 0, "no value in common");
    let streamed = relay.metric_by(Some(trust), "pvwire_large_frames_streamed_total");
    assert!(streamed > 4.0);
}

#[test]
fn new_certificate_is_for_new_clients_and_old_ones_live_on() {
    let network = Network::new();
    let mut ioc = SoftIoc::start(network, RECORD);
    let (pair, first) = Pair::new();
    let relay = start(network, &pair, &[]);
    let address = relay.address();
    let name = ioc.name("ao");
    let mut early = Client::connect_as(address, trusting(first));
    early.subscribe_live(&[&name]);
    assert!(Client::try_connect(address, How::default()).is_none());

    let second = pair.replace();
    let mut late = None;
    eventually("the new certificate is shown", || {
        late = Client::try_connect(address, trusting(second));
        late.is_some()
    });
    let mut late = late.unwrap();
    assert!(Client::try_connect(address, trusting(first)).is_none());
    late.subscribe_live(&[&name]);
    assert!(
        !relay.output().contains("ERROR"),
        "two files are never replaced at once: {}",
        relay.output()
    );

    // What is no key, and what belongs to another certificate, changes nothing.
    let (other, _) = Pair::new();
    let complaints = || relay.output().matches("stays in effect").count();
    for (wrong, key) in [
        (1, "nonsense".into()),
        (2, std::fs::read(other.key()).unwrap()),
    ] {
        std::fs::write(pair.key(), key).unwrap();
        eventually("a complaint", || complaints() == wrong);
        Client::connect_as(address, trusting(second)).ask(PING);
    }
    std::fs::remove_file(pair.cert()).unwrap();
    eventually("a complaint", || complaints() == 3);
    let third = pair.replace();
    eventually("the newest certificate is shown", || {
        Client::try_connect(address, trusting(third)).is_some()
    });

    ioc.put("ao", "7");
    early.wait_number(&name, 7.0);
    late.wait_number(&name, 7.0);
}

#[test]
fn plain_client_of_an_encrypted_port_is_told_so() {
    let (pair, trust) = Pair::new();
    let relay = start(Network::new(), &pair, &[]);
    for path in ["/", "/ws", "/status", "/metrics", "/ready"] {
        let answer = get(relay.address(), path, &[]);
        assert_eq!(answer.status, 400, "{path}");
        assert!(answer.body.contains("https://"), "{}", answer.body);
    }
    assert_eq!(handshake(relay.address(), &[]).status, 400);
    let failed = relay.metric_by(Some(trust), "pvwire_tls_handshakes_failed_total");
    assert_eq!(failed, 6.0);
}

#[test]
fn tls_client_of_a_plain_port_is_refused_by_a_tls_alert() {
    let (_pair, trust) = Pair::new();
    let relay = Relay::start(Network::new(), &[]);
    let mut attempts = 0.0;
    within(Duration::from_secs(4), "refused", || {
        attempts += 1.0;
        let mut line = Line::connect(relay.address(), Some(trust));
        let since = Instant::now();
        let error = line.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap_err();
        assert!(error.to_string().contains("HandshakeFailure"), "{error}");
        since.elapsed()
    });
    eventually("it is counted", || {
        relay.metric("pvwire_tls_handshakes_failed_total") == attempts
    });
}

/// Sends bytes of `said`, one after another, until the relay hangs up; says after how long.
fn trickle(mut line: impl Read + Write, tcp: &TcpStream, said: &[u8]) -> Duration {
    let since = Instant::now();
    tcp.set_read_timeout(Some(Duration::from_millis(200)))
        .unwrap();
    for byte in said {
        let sent = line.write_all(&[*byte]).and_then(|()| line.flush());
        let heard = line.read(&mut [0; 1024]);
        let waits = heard.is_err_and(|error| {
            matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
        });
        if sent.is_err() || !waits {
            break;
        }
    }
    since.elapsed()
}

/// Twenty of each kind that take their time; one is in the handshake, one silent, one behind it.
fn dawdle(address: SocketAddr, trust: Trust) -> Vec<thread::JoinHandle<Duration>> {
    let hello = [&[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3][..], &[7; 500]].concat();
    let request = [
        &b"GET /ws HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "[..],
        &[b'a'; 500],
    ]
    .concat();
    (0..60)
        .map(|n| {
            let (hello, request) = (hello.clone(), request.clone());
            thread::spawn(move || match n % 3 {
                0 => {
                    let line = TcpStream::connect(address).unwrap();
                    trickle(&line, &line, &hello)
                }
                1 => {
                    let mut line = TcpStream::connect(address).unwrap();
                    let since = Instant::now();
                    let _ = line.read(&mut [0]);
                    since.elapsed()
                }
                _ => {
                    let line = Line::connect(address, Some(trust));
                    let tcp = line.tcp().try_clone().unwrap();
                    trickle(line, &tcp, &request)
                }
            })
        })
        .collect()
}

#[test]
fn slow_handshake_is_ended_soon_and_delays_no_other_client() {
    let (pair, trust) = Pair::new();
    let relay = start(Network::new(), &pair, &[]);
    let slow = dawdle(relay.address(), trust);
    within(Duration::from_secs(4), "not held up", || {
        let quick = Instant::now();
        Client::connect_as(relay.address(), trusting(trust)).ask(PING);
        quick.elapsed()
    });
    for each in slow {
        let after = each.join().unwrap();
        assert!(after < Duration::from_secs(30), "gone after {after:?} only");
    }
}

#[test]
fn record_damaged_on_its_way_ends_only_that_connection() {
    let (pair, trust) = Pair::new();
    let relay = start(Network::new(), &pair, &[]);
    let mut other = Client::connect_as(relay.address(), trusting(trust));
    let mut line = Line::connect(relay.address(), Some(trust));
    let request = "GET /ws HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\n\
                   Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                   Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
                   Sec-WebSocket-Protocol: pvwire.v1\r\n\r\n";
    line.write_all(request.as_bytes()).unwrap();
    let mut head = [0; 12];
    line.read_exact(&mut head).unwrap();
    assert_eq!(&head, b"HTTP/1.1 101");
    line.tcp()
        .write_all(&[
            0x17, 3, 3, 0, 20, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19,
            20,
        ])
        .unwrap();
    let ended = line.read_to_end(&mut Vec::new()).unwrap_err();
    assert!(ended.to_string().contains("BadRecordMac"), "{ended}");
    other.ask(PING);
    let active = || relay.metric_by(Some(trust), "pvwire_sessions_active");
    eventually("it is gone", || active() == 1.0);
}

#[test]
fn relay_whose_key_fits_no_certificate_does_not_start() {
    let ((pair, _), (other, _)) = (Pair::new(), Pair::new());
    let run = |cert: String, key: String| -> Output {
        let mut command = relay_command(Network::new());
        let command = command.args(["--listen=127.0.0.1:0", &cert, &key]);
        command.output().unwrap()
    };
    let [cert, key] = pair.flags();
    for (cert, key, named) in [
        (cert.clone(), other.flags()[1].clone(), "tls_key"),
        (cert.clone(), "--tls-key=/nowhere".into(), "/nowhere"),
        (key.replace("tls-key", "tls-cert"), key, "no certificate"),
        (cert.clone(), cert.replace("tls-cert", "tls-key"), "tls_key"),
        (cert, "--tls-key=".into(), "tls_key"),
    ] {
        let ended = run(cert, key);
        let said = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(64), "{said}");
        assert!(said.contains(named), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}
