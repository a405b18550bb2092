//! Is a monitor that the server refuses or ends tried again, ever later?
//!
//! A busy IOC refuses now and then, no server does so when it is told to. So this one speaks just
//! enough of the protocol to refuse.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use pvwire_epics::pva::{Client, ElementType, NodeValue};

use crate::support::in_own_process;
use crate::support::pva::{Event, OwnValue, Recorder};

const CONNECTION_VALIDATION: u8 = 1;
const ECHO: u8 = 2;
const SEARCH: u8 = 3;
const SEARCH_RESPONSE: u8 = 4;
const CREATE_CHANNEL: u8 = 7;
const CONNECTION_VALIDATED: u8 = 9;
const MONITOR: u8 = 13;

const OK: u8 = 0xff;
const ERROR: u8 = 2;
const INIT: u8 = 0x08;
const START: u8 = 0x44;
const FINISH: u8 = 0x10;

/// A little-endian message of a server.
fn message(stream: &mut TcpStream, command: u8, payload: &[u8]) {
    let mut bytes = vec![0xca, 2, 0x40, command];
    bytes.extend((payload.len() as u32).to_le_bytes());
    bytes.extend(payload);
    stream.write_all(&bytes).unwrap();
}

fn text(text: &str) -> Vec<u8> {
    [&[text.len() as u8], text.as_bytes()].concat()
}

/// Serves one connection. The first `refusals` monitors are refused, the next is ended after its
/// first value, and all others get a value and stay.
fn serve(mut stream: TcpStream, port: u16, monitors: &AtomicU32, refusals: u32) {
    const LITTLE_ENDIAN: [u8; 8] = [0xca, 2, 0x41, 2, 0, 0, 0, 0];
    stream.write_all(&LITTLE_ENDIAN).unwrap();
    let offer = [&[0, 0, 1, 0, 0xff, 0x7f, 1][..], &text("anonymous")].concat();
    message(&mut stream, CONNECTION_VALIDATION, &offer);
    let mut number = 0;
    let mut header = [0; 8];
    while stream.read_exact(&mut header).is_ok() {
        let is_big_endian = header[2] & 0x80 != 0;
        if is_big_endian {
            header[4..].reverse();
        }
        let size = u32::from_le_bytes(header[4..].try_into().unwrap());
        let is_control = header[2] & 1 != 0;
        let mut payload = vec![0; if is_control { 0 } else { size as usize }];
        stream.read_exact(&mut payload).unwrap();
        if is_control {
            continue;
        }
        match header[3] {
            CONNECTION_VALIDATION => message(&mut stream, CONNECTION_VALIDATED, &[OK]),
            ECHO => message(&mut stream, ECHO, &payload),
            SEARCH => {
                // Sequence, flags, address and port, then one protocol, and the names.
                let names = &mut payload[26 + 1 + 1 + 3..];
                if names[..2] == [0, 0] {
                    continue;
                }
                let id = &mut names[2..6];
                if is_big_endian {
                    id.reverse();
                }
                let id = <[u8; 4]>::try_from(id).unwrap();
                let mut found = vec![7; 12];
                found.extend([0; 4]);
                found.extend([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1]);
                found.extend(port.to_le_bytes());
                found.extend(text("tcp"));
                found.extend([1, 1, 0]);
                found.extend(id);
                message(&mut stream, SEARCH_RESPONSE, &found);
            }
            CREATE_CHANNEL => {
                let created = [&payload[2..6], &1_u32.to_le_bytes(), &[OK]].concat();
                message(&mut stream, CREATE_CHANNEL, &created);
            }
            MONITOR if payload[8] == INIT => {
                number = monitors.fetch_add(1, Ordering::Relaxed);
                let mut answer = [&payload[4..8], &[INIT]].concat();
                if number < refusals {
                    answer.push(ERROR);
                    answer.extend(text("too busy"));
                    answer.extend(text(""));
                } else {
                    answer.extend([OK, 0x80]);
                    answer.extend(text("fake:1.0"));
                    answer.push(1);
                    answer.extend(text("value"));
                    answer.push(0x43);
                }
                message(&mut stream, MONITOR, &answer);
            }
            MONITOR if payload[8] == START => {
                let value = [
                    &payload[4..8],
                    &[0, 1, 1],
                    &f64::from(number).to_le_bytes(),
                    &[0],
                ];
                message(&mut stream, MONITOR, &value.concat());
                if number == refusals {
                    let end = [&payload[4..8], &[FINISH, OK]].concat();
                    message(&mut stream, MONITOR, &end);
                }
            }
            _ => {}
        }
    }
}

#[test]
fn refused_or_ended_monitor_is_tried_again() {
    in_own_process!("refused_or_ended_monitor_is_tried_again", || {
        let port = std::env::var("EPICS_PVA_SERVER_PORT")
            .unwrap()
            .parse()
            .unwrap();
        let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
        let monitors = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&monitors);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let counted = Arc::clone(&counted);
                thread::spawn(move || serve(stream.unwrap(), port, &counted, 2));
            }
        });
        let client = Client::start().unwrap();
        let recorder = Recorder::new();
        let start = Instant::now();
        let _monitor = client.open("any", recorder.clone()).unwrap();

        let value = |wanted: f64| {
            recorder.wait_update(0, |update| match &update.value {
                OwnValue::Structure(node) => {
                    node.get("value").unwrap().value
                        == NodeValue::Number(ElementType::Float64, wanted)
                }
                _ => false,
            })
        };
        value(2.0);
        // 1 s and then 2 s between the tries.
        assert!(start.elapsed() > Duration::from_millis(2_900));
        let (last, _) = value(3.0);
        assert!(start.elapsed() > Duration::from_millis(3_900));
        let events = recorder.events();
        let told: Vec<_> = events[..=last]
            .iter()
            .map(|event| match event {
                Event::Failed(reason) => &**reason,
                Event::Connected(info) if info.changed => "changed",
                Event::Connected(_) => "connected",
                Event::Disconnected => "disconnected",
                Event::Metadata(_) => "metadata",
                Event::Update(_) => "update",
            })
            .collect();
        let expected = [
            "too busy",
            "too busy",
            "connected",
            "metadata",
            "update",
            "disconnected",
            "the server ended the monitor",
            "connected",
            "metadata",
            "update",
        ];
        assert_eq!(told, expected);
        assert_eq!(monitors.load(Ordering::Relaxed), 4);
    });
}
