//! A client of PVWS: a WebSocket with text messages.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testbed::{DEADLINE, Network, Relay, file, prefix};
use tungstenite::client::{ClientRequestBuilder, client_with_config};
use tungstenite::protocol::WebSocketConfig;
use tungstenite::{Error, Message, WebSocket};

/// A connected client.
pub(crate) struct Pvws {
    socket: WebSocket<TcpStream>,
    echoes: u32,
}

impl Pvws {
    pub(crate) fn connect(relay: &Relay) -> Self {
        Self::try_connect(relay.address(), &[]).unwrap()
    }

    /// Connects with these headers.
    pub(crate) fn try_connect(
        address: SocketAddr,
        headers: &[(&str, &str)],
    ) -> Result<Self, String> {
        Self::over(TcpStream::connect(address).unwrap(), address, headers, None)
    }

    /// Connects as a client that fails when a message is larger.
    pub(crate) fn connect_limited(relay: &Relay, bytes: usize) -> Self {
        let limits = WebSocketConfig::default()
            .max_message_size(Some(bytes))
            .max_frame_size(Some(bytes));
        let stream = TcpStream::connect(relay.address()).unwrap();
        Self::over(stream, relay.address(), &[], Some(limits)).unwrap()
    }

    /// Connects with a receive buffer so small that it is soon full when this client doesn't read.
    pub(crate) fn connect_slow(relay: &Relay) -> Self {
        use socket2::{Domain, Socket, Type};
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        socket.connect(&relay.address().into()).unwrap();
        Self::over(socket.into(), relay.address(), &[], None).unwrap()
    }

    fn over(
        stream: TcpStream,
        address: SocketAddr,
        headers: &[(&str, &str)],
        limits: Option<WebSocketConfig>,
    ) -> Result<Self, String> {
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let uri = format!("ws://{address}/pvws/pv").parse().unwrap();
        let mut request = ClientRequestBuilder::new(uri);
        for (name, value) in headers {
            request = request.with_header(*name, *value);
        }
        let connected = client_with_config(request, stream, limits);
        let (socket, response) = connected.map_err(|error| error.to_string())?;
        assert!(!response.headers().contains_key("sec-websocket-protocol"));
        Ok(Self { socket, echoes: 0 })
    }

    pub(crate) fn send(&mut self, message: &Value) {
        self.send_text(&message.to_string());
    }

    pub(crate) fn send_text(&mut self, text: &str) {
        self.socket.send(Message::text(text)).unwrap();
    }

    pub(crate) fn subscribe(&mut self, names: &[&str]) {
        self.send(&json!({"type": "subscribe", "pvs": names}));
    }

    /// Subscribes this number of names of 500 bytes, which have no source.
    pub(crate) fn hold_names(&mut self, count: usize) {
        let padding = "x".repeat(485);
        let names: Vec<_> = (0..count)
            .map(|n| format!("nosuch://{n:06}{padding}"))
            .collect();
        self.subscribe(&names.iter().map(String::as_str).collect::<Vec<_>>());
    }

    pub(crate) fn write(&mut self, pv: &str, value: Value) {
        self.send(&json!({"type": "write", "pv": pv, "value": value}));
    }

    /// The next message of any kind.
    pub(crate) fn next_message(&mut self) -> Message {
        self.socket.read().expect("a message in time")
    }

    /// The text of the next message that isn't a ping.
    pub(crate) fn next_text(&mut self) -> String {
        self.read_text().expect("a text in time")
    }

    fn read_text(&mut self) -> tungstenite::Result<String> {
        let deadline = Instant::now() + DEADLINE;
        loop {
            // The relay's pings arrive also where no text does.
            if Instant::now() > deadline {
                return Err(io::Error::from(io::ErrorKind::TimedOut).into());
            }
            match self.socket.read()? {
                Message::Text(text) => return Ok(text.to_string()),
                Message::Ping(_) | Message::Pong(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    pub(crate) fn next(&mut self) -> Value {
        serde_json::from_str(&self.next_text()).unwrap()
    }

    /// The messages up to the first that fits, which is the last of them.
    pub(crate) fn until(&mut self, what: &str, fits: impl Fn(&Value) -> bool) -> Vec<Value> {
        let deadline = Instant::now() + DEADLINE;
        let mut seen = Vec::new();
        loop {
            let message = match self.read_text() {
                Ok(text) => serde_json::from_str(&text).unwrap(),
                Err(error) => panic!("never: {what}: {error}; {seen:#?}"),
            };
            let is_last = fits(&message);
            seen.push(message);
            if is_last {
                return seen;
            }
            assert!(Instant::now() < deadline, "never: {what}; {seen:#?}");
        }
    }

    /// The first update of this PV that fits. Messages before it are skipped.
    pub(crate) fn update(&mut self, pv: &str, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let of_pv = |message: &Value| message["pv"] == *pv && fits(message);
        self.until(&format!("{pv}: {what}"), of_pv).pop().unwrap()
    }

    /// Sends an echo request and returns all messages that arrive before its answer.
    pub(crate) fn so_far(&mut self) -> Vec<Value> {
        self.echoes += 1;
        let echo = json!({"type": "echo", "number": self.echoes});
        self.send(&echo);
        let mut seen = self.until("the echo", |message| *message == echo);
        seen.pop();
        seen
    }

    /// Reads until a message is larger than this client takes.
    pub(crate) fn wait_too_large(&mut self) {
        loop {
            match self.socket.read() {
                Ok(_) => {}
                Err(Error::Capacity(_)) => return,
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Number of texts that have come, or come within this time one after the other.
    pub(crate) fn texts_within(&mut self, time: Duration) -> usize {
        self.socket.get_ref().set_read_timeout(Some(time)).unwrap();
        let mut texts = 0;
        while let Ok(message) = self.socket.read() {
            texts += usize::from(message.is_text());
        }
        texts
    }

    /// The close code. Messages before it are skipped.
    pub(crate) fn close_code(&mut self) -> u16 {
        loop {
            match self.socket.read() {
                Ok(Message::Close(frame)) => return frame.unwrap().code.into(),
                Ok(_) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
}

/// The flags of a relay with the door, followed by `more`.
pub(crate) fn flags<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&["--pvws", "--pvws-throttle-ms", "0"], more].concat()
}

/// A relay to which a proxy of this machine says who a user is, and the file of its rules.
pub(crate) fn relay_of_users(network: Network, rules: &str, more: &[&str]) -> (Relay, PathBuf) {
    let path = file(&format!("{}rules.toml", prefix().replace(':', "-")), rules);
    let config = path.to_str().unwrap();
    let users = [
        "--config",
        config,
        "--auth",
        "trusted-header",
        "--trusted-proxy",
        "127.0.0.0/8",
    ];
    let relay = Relay::start(network, &flags(&[&users, more].concat()));
    (relay, path)
}
