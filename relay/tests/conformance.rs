//! The relay's WebSocket code against Autobahn's cases for RFC 6455, as the package kosoku runs
//! them.
//!
//! Topology: a small server here that echoes with the relay's socket, and kosoku. Left out are the
//! cases 9.*, which measure messages of up to 16 MiB, more than a relay reads, and 12.* and 13.*,
//! which are about compression, which the relay refuses.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use mio::{Events, Poll, Token};
use pvwire_relay::fanout::frame::Frame;
use pvwire_relay::session::socket::{Disconnect, Socket};
use pvwire_relay::session::transport::AnyTransport;
use tungstenite::handshake::derive_accept_key;

use testbed::python;

/// Number of cases of the suite that apply to the relay.
const CASES: usize = 247;

/// How long a connection may be silent, and how long the relay waits after its close frame.
const SILENCE: Duration = Duration::from_secs(20);

/// Answers a handshake; returns the bytes that came after it.
fn shake_hands(tcp: &mut TcpStream) -> Option<Vec<u8>> {
    let (mut request, mut some) = (Vec::new(), [0; 1024]);
    let end = loop {
        let count = tcp.read(&mut some).ok().filter(|count| *count > 0)?;
        request.extend_from_slice(&some[..count]);
        let ends = request.windows(4).position(|bytes| bytes == b"\r\n\r\n");
        if let Some(at) = ends {
            break at + 4;
        }
    };
    let text = String::from_utf8_lossy(&request[..end]).into_owned();
    let headers = text.lines().filter_map(|line| line.split_once(':'));
    let mut keys = headers.filter(|(name, _)| name.eq_ignore_ascii_case("sec-websocket-key"));
    let (_, key) = keys.next()?;
    let accept = derive_accept_key(key.trim().as_bytes());
    let answer = format!(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Accept: {accept}\r\n\r\n"
    );
    tcp.write_all(answer.as_bytes()).ok()?;
    Some(request.split_off(end))
}

/// Sends back the messages that have arrived.
fn echo_some(socket: &mut Socket) -> Result<(), Disconnect> {
    socket.begin_turn();
    while let Some((kind, bytes)) = socket.receive()? {
        socket.answer(&Arc::new(Frame::message(kind as u8, &bytes)))?;
        while socket.is_ready() {
            socket.resume()?;
        }
    }
    Ok(())
}

/// Serves one connection until it ends.
fn echo(mut tcp: TcpStream) -> Option<()> {
    let read_ahead = shake_hands(&mut tcp)?;
    let mut socket = Socket::new(AnyTransport::new(tcp, None).ok()?, read_ahead);
    let mut poll = Poll::new().ok()?;
    socket.register(poll.registry(), Token(0)).ok()?;
    let mut events = Events::with_capacity(8);
    loop {
        let more = if socket.is_closing() {
            socket.discard().ok()?
        } else {
            if let Err(why) = echo_some(&mut socket) {
                let code = why.close_code()?;
                socket.close(code.number(), code.reason());
            }
            socket.has_more()
        };
        if more {
            continue;
        }
        poll.poll(&mut events, Some(SILENCE)).ok()?;
        if events.is_empty() {
            return None;
        }
        for event in &events {
            if event.is_readable() {
                socket.readable(event.is_read_closed());
            }
            if event.is_writable() {
                socket.resume().ok()?;
            }
        }
    }
}

#[test]
fn every_case_of_the_protocol_is_passed() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for tcp in listener.incoming() {
            thread::spawn(|| echo(tcp.unwrap()));
        }
    });
    let reports = std::env::temp_dir().join(format!("pvwire-conformance-{}", std::process::id()));
    let run = Command::new(python().with_file_name("kosoku"))
        .args(["--parallelism", "8"])
        .args(["--exclude", "9.*", "--exclude", "12.*", "--exclude", "13.*"])
        .arg("--outdir")
        .arg(&reports)
        .arg(format!("ws://{address}/ws"))
        .output()
        .unwrap();
    let index = std::fs::read_to_string(reports.join("index.json")).unwrap_or_default();
    let _ = std::fs::remove_dir_all(&reports);
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{said}");
    let agents: serde_json::Value = serde_json::from_str(&index).unwrap();
    let cases = agents.as_object().unwrap().values().next().unwrap();
    let cases = cases.as_object().unwrap();
    assert_eq!(cases.len(), CASES, "the suite has changed");
    for (case, result) in cases {
        for verdict in ["behavior", "behaviorClose"] {
            let verdict = result[verdict].as_str().unwrap();
            let good = ["OK", "NON-STRICT", "INFORMATIONAL"].contains(&verdict);
            assert!(good, "case {case}: {verdict}");
        }
    }
}
