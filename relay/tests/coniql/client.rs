//! A client of Coniql: a WebSocket of one of the two subprotocols.

use std::io;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testbed::{DEADLINE, Relay};
use tungstenite::client::{ClientRequestBuilder, client};
use tungstenite::{Message, WebSocket};

/// The newer subprotocol.
pub(crate) const TRANSPORT: &str = "graphql-transport-ws";

/// The older one.
pub(crate) const LEGACY: &str = "graphql-ws";

/// A connected client.
pub(crate) struct Client {
    socket: WebSocket<TcpStream>,
}

impl Client {
    /// Connects; `None` offers no subprotocol.
    pub(crate) fn connect(relay: &Relay, subprotocol: Option<&str>) -> Self {
        let stream = TcpStream::connect(relay.address()).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let uri = format!("ws://{}/ws", relay.address()).parse().unwrap();
        let mut request = ClientRequestBuilder::new(uri);
        if let Some(subprotocol) = subprotocol {
            request = request.with_sub_protocol(subprotocol);
        }
        let (socket, response) = client(request, stream).unwrap();
        let chosen = response.headers().get("sec-websocket-protocol");
        let chosen = chosen.map(|value| value.to_str().unwrap());
        assert_eq!(chosen, subprotocol);
        Self { socket }
    }

    /// Connects and begins.
    pub(crate) fn begin(relay: &Relay) -> Self {
        let mut client = Self::connect(relay, Some(TRANSPORT));
        client.send(&json!({"type": "connection_init"}));
        assert_eq!(client.next(), json!({"type": "connection_ack"}));
        client
    }

    pub(crate) fn send(&mut self, message: &Value) {
        self.send_text(&message.to_string());
    }

    pub(crate) fn send_text(&mut self, text: &str) {
        self.socket.send(Message::text(text)).unwrap();
    }

    /// Begins an operation.
    pub(crate) fn start(&mut self, id: &str, query: &str) {
        let payload = json!({"query": query});
        self.send(&json!({"type": "subscribe", "id": id, "payload": payload}));
    }

    pub(crate) fn complete(&mut self, id: &str) {
        self.send(&json!({"type": "complete", "id": id}));
    }

    fn read(&mut self) -> tungstenite::Result<Message> {
        let deadline = Instant::now() + DEADLINE;
        loop {
            if Instant::now() > deadline {
                return Err(io::Error::from(io::ErrorKind::TimedOut).into());
            }
            match self.socket.read()? {
                Message::Ping(_) | Message::Pong(_) => {}
                other => return Ok(other),
            }
        }
    }

    /// The next message.
    pub(crate) fn next(&mut self) -> Value {
        match self.read().expect("a message in time") {
            Message::Text(text) => serde_json::from_str(&text).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    /// The data of the next message, which must be a result of this operation.
    pub(crate) fn data(&mut self, id: &str) -> Value {
        let mut message = self.next();
        assert_eq!(message["id"], id, "{message}");
        assert_eq!(message["type"], "next", "{message}");
        assert!(message["payload"]["errors"].is_null(), "{message}");
        message["payload"]["data"].take()
    }

    /// The data of the messages that were sent before the answer to a ping.
    pub(crate) fn so_far(&mut self, id: &str) -> Vec<Value> {
        self.send(&json!({"type": "ping"}));
        let mut all = Vec::new();
        loop {
            let mut message = self.next();
            if message["type"] == "pong" {
                return all;
            }
            assert_eq!(message["id"], id, "{message}");
            all.push(message["payload"]["data"].take());
        }
    }

    /// The first data of an operation that fit.
    pub(crate) fn until(&mut self, id: &str, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let data = self.data(id);
            if fits(&data) {
                return data;
            }
            assert!(Instant::now() < deadline, "never: {what}; {data}");
        }
    }

    /// Number of answers to pings that have come, or come within this time one after the other.
    pub(crate) fn pongs_within(&mut self, time: Duration) -> usize {
        self.socket.get_ref().set_read_timeout(Some(time)).unwrap();
        let mut pongs = 0;
        while let Ok(message) = self.socket.read() {
            pongs += usize::from(
                message
                    .to_text()
                    .is_ok_and(|text| text.contains("\"pong\"")),
            );
        }
        pongs
    }

    /// Code and reason with which the relay closes the connection.
    pub(crate) fn closed(&mut self) -> (u16, String) {
        loop {
            if let Message::Close(Some(frame)) = self.read().expect("a close frame in time") {
                return (frame.code.into(), frame.reason.to_string());
            }
        }
    }
}
