//! Plain HTTP requests with any headers.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use super::{Line, Trust};

/// An HTTP answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    /// Status line and headers as they came.
    pub head: String,
    pub body: String,
}

/// `GET`s a path. The headers `Host` and `Connection` are the relay's address and `close` unless
/// given.
pub fn get(address: SocketAddr, path: &str, headers: &[(&str, &str)]) -> Answer {
    get_by(None, address, path, headers)
}

/// The same by TLS, if certificates are trusted.
pub fn get_by(
    trust: Option<Trust>,
    address: SocketAddr,
    path: &str,
    headers: &[(&str, &str)],
) -> Answer {
    let mut stream = ask(trust, address, path, headers);
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    answer(head, body)
}

/// The same; none if the relay accepts no connection or ends it without an answer.
pub fn try_get(address: SocketAddr, path: &str) -> Option<Answer> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(super::DEADLINE)).ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    Some(answer(head, body))
}

/// The head and the body of what is answered to a request with these further headers, as bytes come.
pub fn raw(address: SocketAddr, method: &str, path: &str, headers: &str) -> (String, Vec<u8>) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(super::DEADLINE)).unwrap();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{headers}\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
    let body = bytes.split_off(end.unwrap() + 4);
    (String::from_utf8(bytes).unwrap(), body)
}

/// Sends a WebSocket handshake as browsers do, with `headers` added or in place of the usual ones;
/// one with an empty value is left out. Returns the relay's answer.
pub fn handshake(address: SocketAddr, headers: &[(&str, &str)]) -> Answer {
    handshake_at(address, "/ws", headers)
}

/// The same at another path.
pub fn handshake_at(address: SocketAddr, path: &str, headers: &[(&str, &str)]) -> Answer {
    let usual = [
        ("Connection", "Upgrade"),
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ("Sec-WebSocket-Protocol", "pvwire.v1"),
    ];
    let is_given = |name: &str| headers.iter().any(|(given, _)| *given == name);
    let all: Vec<_> = usual
        .into_iter()
        .filter(|(name, _)| !is_given(name))
        .chain(headers.iter().copied())
        .collect();
    let mut stream = ask(None, address, path, &all);
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    answer(std::str::from_utf8(&head).unwrap(), "")
}

pub fn ask(
    trust: Option<Trust>,
    address: SocketAddr,
    path: &str,
    headers: &[(&str, &str)],
) -> Line {
    let mut stream = Line::connect(address, trust);
    let host = address.to_string();
    let mut request = format!("GET {path} HTTP/1.1\r\n");
    for (name, usual) in [("Host", host.as_str()), ("Connection", "close")] {
        if !headers.iter().any(|(given, _)| *given == name) {
            request.push_str(&format!("{name}: {usual}\r\n"));
        }
    }
    for (name, value) in headers.iter().filter(|(_, value)| !value.is_empty()) {
        request.push_str(&format!("{name}: {value}\r\n"));
    }
    request.push_str("\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    stream
}

fn answer(head: &str, body: &str) -> Answer {
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer {
        status,
        head: head.to_ascii_lowercase(),
        body: body.to_owned(),
    }
}
