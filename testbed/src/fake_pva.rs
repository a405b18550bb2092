//! A pvAccess server that knows just enough of the protocol to do what no real server does on
//! request.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

const CONNECTION_VALIDATION: u8 = 1;
const ECHO: u8 = 2;
const SEARCH: u8 = 3;
const SEARCH_RESPONSE: u8 = 4;
const CREATE_CHANNEL: u8 = 7;
const CONNECTION_VALIDATED: u8 = 9;
const GET: u8 = 10;
const MONITOR: u8 = 13;
const RPC: u8 = 20;
const DESTROY_REQUEST: u8 = 15;

pub const OK: u8 = 0xff;
pub const ERROR: u8 = 2;
const INIT: u8 = 0x08;
const START: u8 = 0x44;
pub const FINISH: u8 = 0x10;

/// What it answers.
pub trait Script: Send + Sync + 'static {
    /// A monitor or get of this PV begins: status and type.
    fn init(&self, name: &str) -> Vec<u8>;
    /// The value behind its bits that changed, and the bits of what was squashed.
    fn value(&self, name: &str) -> Vec<u8>;
    /// A monitor runs; `send` sends a kind and what belongs to it, and is false when the connection
    /// is gone.
    fn run(&self, name: &str, send: &dyn Fn(u8, &[u8]) -> bool) {
        send(0, &self.value(name));
    }
    /// Whether a search for this PV is answered.
    fn has(&self, _name: &[u8]) -> bool {
        true
    }
    /// A procedure is called. The call is never answered.
    fn called(&self) {}
    /// A request was ended by the client.
    fn ended(&self) {}
}

pub fn text(text: &str) -> Vec<u8> {
    [&[text.len() as u8], text.as_bytes()].concat()
}

/// A structure of this type id with one field `value` of this type.
pub fn structure(id: &str, field: u8) -> Vec<u8> {
    [&[OK, 0x80][..], &text(id), &[1], &text("value"), &[field]].concat()
}

/// Serves all PVs. Clients search it at this port and are told another one: pvxs doesn't reconnect
/// to the port at which it searches after it has broken that connection.
pub fn start(search_port: u16, script: Arc<dyn Script>) {
    let searched = TcpListener::bind(("127.0.0.1", search_port)).unwrap();
    let served = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = served.local_addr().unwrap().port();
    for listener in [searched, served] {
        let script = Arc::clone(&script);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let script = Arc::clone(&script);
                thread::spawn(move || serve(stream.unwrap(), port, &script));
            }
        });
    }
}

/// A name server that says of each PV whose name ends in `silent` that a server has it which accepts
/// connections and then says nothing. Returns that server's port.
pub fn start_silent(search_port: u16) -> u16 {
    struct Nothing;
    impl Script for Nothing {
        fn init(&self, _: &str) -> Vec<u8> {
            Vec::new()
        }
        fn value(&self, _: &str) -> Vec<u8> {
            Vec::new()
        }
        fn has(&self, name: &[u8]) -> bool {
            name.ends_with(b"silent")
        }
    }
    let searched = TcpListener::bind(("127.0.0.1", search_port)).unwrap();
    // The system accepts its connections.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    thread::spawn(move || {
        let _silent = silent;
        for stream in searched.incoming() {
            thread::spawn(move || {
                let script: Arc<dyn Script> = Arc::new(Nothing);
                serve(stream.unwrap(), port, &script);
            });
        }
    });
    port
}

/// A little-endian message of a server; false when the connection is gone.
fn message(stream: &Mutex<TcpStream>, command: u8, payload: &[u8]) -> bool {
    let mut bytes = vec![0xca, 2, 0x40, command];
    bytes.extend((payload.len() as u32).to_le_bytes());
    bytes.extend(payload);
    stream.lock().unwrap().write_all(&bytes).is_ok()
}

fn serve(mut from: TcpStream, port: u16, script: &Arc<dyn Script>) {
    const LITTLE_ENDIAN: [u8; 8] = [0xca, 2, 0x41, 2, 0, 0, 0, 0];
    from.write_all(&LITTLE_ENDIAN).unwrap();
    let to = Arc::new(Mutex::new(from.try_clone().unwrap()));
    let offer = [&[0, 0, 1, 0, 0xff, 0x7f, 1][..], &text("anonymous")].concat();
    message(&to, CONNECTION_VALIDATION, &offer);
    // The channel's number is what the client calls it.
    let mut names = HashMap::new();
    let mut header = [0; 8];
    while from.read_exact(&mut header).is_ok() {
        let is_big_endian = header[2] & 0x80 != 0;
        if is_big_endian {
            header[4..].reverse();
        }
        let size = u32::from_le_bytes(header[4..].try_into().unwrap());
        let is_control = header[2] & 1 != 0;
        let mut payload = vec![0; if is_control { 0 } else { size as usize }];
        if from.read_exact(&mut payload).is_err() {
            return;
        }
        if is_control {
            continue;
        }
        match header[3] {
            CONNECTION_VALIDATION => {
                message(&to, CONNECTION_VALIDATED, &[OK]);
            }
            ECHO => {
                message(&to, ECHO, &payload);
            }
            SEARCH => {
                // Sequence, flags, address and port, then one protocol, and the names.
                let Some(mut names) = payload.get(26 + 1 + 1 + 3..) else {
                    // A search for servers names no PV.
                    continue;
                };
                // In whichever order of bytes, less than 256.
                let count = names.iter().take(2).fold(0, |count, byte| count | byte);
                names = names.get(2..).unwrap_or_default();
                for _ in 0..count {
                    let mut id = <[u8; 4]>::try_from(&names[..4]).unwrap();
                    let (name, rest) = names[5..].split_at(usize::from(names[4]));
                    names = rest;
                    if !script.has(name) {
                        continue;
                    }
                    if is_big_endian {
                        id.reverse();
                    }
                    let mut found = vec![7; 12];
                    found.extend([0; 4]);
                    found.extend([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1]);
                    found.extend(port.to_le_bytes());
                    found.extend(text("tcp"));
                    found.extend([1, 1, 0]);
                    found.extend(id);
                    message(&to, SEARCH_RESPONSE, &found);
                }
            }
            CREATE_CHANNEL => {
                let id = <[u8; 4]>::try_from(&payload[2..6]).unwrap();
                let name = String::from_utf8(payload[7..].to_vec()).unwrap();
                names.insert(id, name);
                let created = [&id[..], &id, &[OK]].concat();
                message(&to, CREATE_CHANNEL, &created);
            }
            command @ (MONITOR | GET | RPC) => {
                let id = <[u8; 4]>::try_from(&payload[..4]).unwrap();
                let (Some(name), kind) = (names.get(&id).cloned(), payload[8]) else {
                    continue;
                };
                let request = payload[4..8].to_vec();
                let (to, script) = (Arc::clone(&to), Arc::clone(script));
                let send = move |kind: u8, what: &[u8]| {
                    message(&to, command, &[&request[..], &[kind], what].concat())
                };
                match (command, kind) {
                    (RPC, INIT) if name == "server" => {
                        // What it lists is not its script's matter.
                        let error = [&[ERROR][..], &text("lists no names"), &text("")];
                        send(INIT, &error.concat());
                    }
                    (RPC, INIT) => {
                        send(INIT, &[OK]);
                    }
                    (RPC, _) => script.called(),
                    (_, INIT) => {
                        send(INIT, &script.init(&name));
                    }
                    (MONITOR, START) => {
                        thread::spawn(move || script.run(&name, &send));
                    }
                    (GET, _) => {
                        send(kind, &[&[OK], &script.value(&name)[..]].concat());
                    }
                    _ => {}
                }
            }
            DESTROY_REQUEST => {
                let id = <[u8; 4]>::try_from(&payload[..4]).unwrap();
                if names.get(&id).is_none_or(|name| name != "server") {
                    script.ended();
                }
            }
            _ => {}
        }
    }
}
