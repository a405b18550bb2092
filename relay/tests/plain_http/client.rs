//! Requests as `curl` makes them, and streams of events.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::Value;
use testbed::{DEADLINE, Relay};

/// An answer whose body is JSON.
pub(super) struct Got {
    pub(super) status: u16,
    /// Status line and headers in lower case.
    pub(super) head: String,
    pub(super) json: Value,
}

/// Percent-encodes a text for a query.
pub(super) fn encoded(text: &str) -> String {
    let bytes = text.bytes().map(|byte| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    });
    bytes.collect()
}

fn send(stream: &mut TcpStream, method: &str, path: &str, headers: &[(&str, &str)], body: &str) {
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let host = stream.peer_addr().unwrap();
    let mut request = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n");
    for (name, value) in headers {
        request.push_str(&format!("{name}: {value}\r\n"));
    }
    request.push_str(&format!("Content-Length: {}\r\n\r\n{body}", body.len()));
    stream.write_all(request.as_bytes()).unwrap();
}

/// Makes a request; the answer's body is JSON or empty.
pub(super) fn request(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Got {
    let mut stream = TcpStream::connect(address).unwrap();
    send(&mut stream, method, path, headers, body);
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let json = if body.is_empty() {
        Value::Null
    } else {
        serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {text}"))
    };
    let got = Got {
        status: head.split(' ').nth(1).unwrap().parse().unwrap(),
        head: head.to_ascii_lowercase(),
        json,
    };
    assert!(
        got.head
            .contains("cross-origin-resource-policy: same-origin"),
        "{head}"
    );
    check_documented(method, path, got.status);
    got
}

/// The status of an answer is in the OpenAPI document.
fn check_documented(method: &str, path: &str, status: u16) {
    let document = include_str!("../../../docs/reference/openapi.json");
    let document: Value = serde_json::from_str(document).unwrap();
    let path = path.split('?').next().unwrap();
    let ends = ["/stream", ".png", ".mjpeg"].into_iter();
    let end = ends.clone().find(|end| path.ends_with(end));
    let of = format!("/pv/{{name}}{}", end.unwrap_or_default());
    let operation = &document["paths"][of][method.to_lowercase()];
    let is_known = operation["responses"].get(status.to_string()).is_some();
    let is_other_method = operation.is_null() && status == 405;
    assert!(
        is_known || is_other_method,
        "{method} {path}: {status} is not in openapi.json"
    );
}

/// A relay with this flag gives a busy machine time to find a PV.
pub(super) const PATIENT: &str = "--not-found-after-ms=60000";

/// `GET /pv/…`, with time to find the PV.
pub(super) fn get(relay: &Relay, path: &str) -> Got {
    request(relay.address(), "GET", &patient(path), &[], "")
}

/// The path of a PV, with time to find it.
pub(super) fn patient(path: &str) -> String {
    let timeout = match path {
        path if path.contains("timeout_ms") => "",
        path if path.contains('?') => "&timeout_ms=20000",
        _ => "?timeout_ms=20000",
    };
    format!("/pv/{path}{timeout}")
}

/// `PUT /pv/…`.
pub(super) fn put(relay: &Relay, path: &str, body: &str) -> Got {
    request(relay.address(), "PUT", &format!("/pv/{path}"), &[], body)
}

/// A stream of events.
pub(super) struct Events(BufReader<TcpStream>);

/// An event: its name, and its data.
pub(super) type Event = (String, Value);

impl Events {
    pub(super) fn open(relay: &Relay, path: &str) -> Self {
        Self::over(TcpStream::connect(relay.address()).unwrap(), path, &[])
    }

    /// A stream over a connection whose receive buffer is soon full.
    pub(super) fn open_slow(relay: &Relay, path: &str) -> Self {
        use socket2::{Domain, Socket, Type};
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        socket.connect(&relay.address().into()).unwrap();
        Self::over(socket.into(), path, &[])
    }

    pub(super) fn over(mut stream: TcpStream, path: &str, headers: &[(&str, &str)]) -> Self {
        send(&mut stream, "GET", &format!("/pv/{path}"), headers, "");
        let mut reader = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert_ne!(reader.read_line(&mut head).unwrap(), 0, "{head}");
        }
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        let head = head.to_ascii_lowercase();
        assert!(
            head.contains("text/event-stream") && head.contains("chunked"),
            "{head}"
        );
        Self(reader)
    }

    /// The next line without the sizes of chunks; `None` at the end.
    fn line(&mut self) -> Option<String> {
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            // The events' lines end with a line feed alone, those of chunks with both characters.
            if !line.ends_with("\r\n") {
                return Some(line.trim_end_matches('\n').to_owned());
            }
        }
    }

    /// The next event; `None` at the end of the stream.
    pub(super) fn next(&mut self) -> Option<Event> {
        let mut name = "message".to_owned();
        loop {
            let line = self.line()?;
            if let Some(given) = line.strip_prefix("event: ") {
                given.clone_into(&mut name);
            } else if let Some(data) = line.strip_prefix("data: ") {
                return Some((name, serde_json::from_str(data).unwrap()));
            }
        }
    }

    /// Reads until a change of the PV fits.
    pub(super) fn wait(&mut self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        loop {
            match self.next() {
                None => panic!("the stream ended before {what}"),
                Some((name, data)) if name == "message" && fits(&data) => return data,
                Some(_) => {}
            }
        }
    }

    /// The data of the last event.
    pub(super) fn wait_end(&mut self) -> Value {
        let mut last = None;
        while let Some(event) = self.next() {
            last = Some(event);
        }
        let (name, data) = last.expect("the stream has an event");
        assert_eq!(name, "end");
        data
    }
}
