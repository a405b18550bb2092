//! Clients of doors in separate threads. They merge updates as the doors' own clients do, and stall, renew and
//! reconnect on command.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::{Map, Value};
use socket2::{Domain, Socket, Type};
use testbed::Told;
use tungstenite::client::{ClientRequestBuilder, client};
use tungstenite::{Error, Message, WebSocket};

use super::watcher::Address;

/// The keys under which values come.
const VALUE_KEYS: [&str; 7] = [
    "value", "text", "b64byt", "b64srt", "b64int", "b64flt", "b64dbl",
];

/// How long a read waits for a message.
const MOMENT: Duration = Duration::from_millis(10);

/// How long connecting may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// Refused names are subscribed again after this time.
const TRY_AGAIN: Duration = Duration::from_millis(500);

/// A door, as its clients know it.
pub(super) struct Door {
    /// The server in whose place the relay is.
    pub(super) server: &'static str,
    pub(super) path: &'static str,
    pub(super) subprotocol: Option<&'static str>,
    /// The protocol, at the beginning of a connection.
    pub(super) speech: fn() -> Box<dyn Speech>,
    /// Every field in which a client differs from the truth.
    pub(super) differences: fn(Option<&Told>, Option<&Merged>) -> Vec<String>,
}

/// A protocol.
pub(super) trait Speech {
    /// The messages after the handshake.
    fn begin(&mut self) -> Vec<String> {
        Vec::new()
    }

    /// The messages that subscribe these names, unless they are subscribed.
    fn subscribe(&mut self, names: &[String]) -> Vec<String>;

    /// The messages that end the subscriptions of these names.
    fn end(&mut self, names: &[String]) -> Vec<String>;

    /// Reads a message.
    fn take(&mut self, text: &str) -> Heard;
}

/// What a message says.
pub(super) enum Heard {
    Nothing,
    /// The new fields of the PV of this name.
    Update(String, Map<String, Value>),
    /// A name is refused.
    Refused,
}

/// An order to a client.
pub(super) enum Order {
    /// Reads and writes nothing for a while.
    Stall(Duration),
    /// Drops its connection without a close frame and makes another.
    Cut,
    /// Clears these names and subscribes them again.
    Renew(Vec<String>),
    /// Reports what it knows.
    Tell(Sender<Report>),
}

/// The merged updates of one PV.
#[derive(Clone, Debug, Default)]
pub(super) struct Merged {
    pub(super) fields: Map<String, Value>,
    /// The keys of the last value.
    pub(super) value_keys: Vec<String>,
}

impl Merged {
    fn take(&mut self, update: Map<String, Value>) {
        let keys = update
            .keys()
            .filter(|key| VALUE_KEYS.contains(&key.as_str()));
        let keys: Vec<String> = keys.cloned().collect();
        if !keys.is_empty() {
            self.value_keys = keys;
        }
        self.fields.extend(update);
    }

    /// The last value under its key; `None` if the last one came under other keys.
    pub(super) fn value(&self, key: &str) -> Option<&Value> {
        let is_last = self.value_keys.iter().any(|last| last == key);
        self.fields.get(key).filter(|_| is_last)
    }
}

/// What a client knows of the PVs that it subscribed, by the name that it uses.
#[derive(Clone, Default)]
pub(super) struct Report {
    pub(super) pvs: HashMap<String, Merged>,
    pub(super) connections: usize,
    pub(super) updates: usize,
}

/// A client in its own thread, which reconnects whenever it has lost the relay.
pub(super) struct DoorClient {
    pub(super) door: &'static Door,
    pub(super) title: &'static str,
    /// The names that it subscribes.
    pub(super) wanted: Vec<String>,
    orders: Sender<Order>,
    thread: Option<JoinHandle<()>>,
}

impl DoorClient {
    pub(super) fn start(
        door: &'static Door,
        title: &'static str,
        wanted: Vec<String>,
        receive_buffer: Option<usize>,
        address: &Address,
    ) -> Self {
        let (orders, taken) = channel();
        let (names, address) = (wanted.clone(), Arc::clone(address));
        let thread = thread::spawn(move || {
            let side = Side {
                door,
                speech: (door.speech)(),
                wanted: names,
                receive_buffer,
                address,
                socket: None,
                report: Report::default(),
                again: None,
            };
            side.run(&taken);
        });
        Self {
            door,
            title,
            wanted,
            orders,
            thread: Some(thread),
        }
    }

    /// Gives an order. Panics if the client's thread has failed.
    pub(super) fn order(&mut self, order: Order) {
        if self.orders.send(order).is_err() {
            self.fail();
        }
    }

    pub(super) fn tell(&mut self) -> Report {
        let (report, told) = channel();
        self.order(Order::Tell(report));
        match told.recv() {
            Ok(report) => report,
            Err(_) => self.fail(),
        }
    }

    fn fail(&mut self) -> ! {
        let ended = self.thread.take().map(JoinHandle::join);
        let Door { server, .. } = self.door;
        panic!(
            "the client of {server} \"{}\" failed: {ended:?}",
            self.title
        );
    }
}

/// The client's thread.
struct Side {
    door: &'static Door,
    speech: Box<dyn Speech>,
    wanted: Vec<String>,
    receive_buffer: Option<usize>,
    address: Address,
    socket: Option<WebSocket<TcpStream>>,
    report: Report,
    /// When names that were refused are subscribed again.
    again: Option<Instant>,
}

impl Side {
    fn run(mut self, orders: &Receiver<Order>) {
        loop {
            match orders.try_recv() {
                Err(TryRecvError::Disconnected) => return,
                Err(TryRecvError::Empty) => {}
                Ok(Order::Stall(time)) => thread::sleep(time),
                Ok(Order::Cut) => self.socket = None,
                Ok(Order::Renew(names)) => self.renew(&names),
                Ok(Order::Tell(to)) => {
                    let _ = to.send(self.report.clone());
                }
            }
            if self.socket.is_none() && !self.connect() {
                // The relay is down, starting or full.
                thread::sleep(Duration::from_millis(50));
                continue;
            }
            if self.again.is_some_and(|at| at <= Instant::now()) {
                self.again = None;
                self.subscribe();
            }
            self.read_for_a_moment();
        }
    }

    fn connect(&mut self) -> bool {
        let known = *self.address.lock().unwrap();
        self.socket = known.and_then(|address| connected(self.door, address, self.receive_buffer));
        if self.socket.is_none() {
            return false;
        }
        self.report.connections += 1;
        // Clients show that they have lost the server, and begin again.
        self.report.pvs.clear();
        self.again = None;
        self.speech = (self.door.speech)();
        let messages = self.speech.begin();
        self.send(messages);
        self.subscribe();
        true
    }

    fn subscribe(&mut self) {
        let messages = self.speech.subscribe(&self.wanted);
        self.send(messages);
    }

    fn renew(&mut self, names: &[String]) {
        let messages = self.speech.end(names);
        self.send(messages);
        for name in names {
            self.report.pvs.remove(name);
        }
        let messages = self.speech.subscribe(names);
        self.send(messages);
    }

    fn send(&mut self, messages: Vec<String>) {
        for message in messages {
            let socket = self.socket.as_mut();
            if socket.is_some_and(|socket| socket.send(Message::text(message)).is_err()) {
                self.socket = None;
            }
        }
    }

    /// Reads the messages that are there, or waits for one.
    fn read_for_a_moment(&mut self) {
        let end = Instant::now() + MOMENT;
        while let Some(socket) = &mut self.socket {
            match socket.read() {
                Ok(Message::Text(text)) => self.take(&text),
                Ok(Message::Close(_)) => self.socket = None,
                Ok(_) => {}
                Err(Error::Io(error))
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
                {
                    return;
                }
                Err(_) => self.socket = None,
            }
            if Instant::now() > end {
                return;
            }
        }
    }

    fn take(&mut self, text: &str) {
        match self.speech.take(text) {
            Heard::Nothing => {}
            Heard::Update(name, fields) => {
                self.report.updates += 1;
                self.report.pvs.entry(name).or_default().take(fields);
            }
            Heard::Refused => {
                self.again.get_or_insert_with(|| Instant::now() + TRY_AGAIN);
            }
        }
    }
}

/// A connection after its handshake, unless the relay refuses it.
fn connected(
    door: &Door,
    address: SocketAddr,
    receive_buffer: Option<usize>,
) -> Option<WebSocket<TcpStream>> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).ok()?;
    if let Some(bytes) = receive_buffer {
        socket.set_recv_buffer_size(bytes).ok()?;
    }
    socket.connect_timeout(&address.into(), PATIENCE).ok()?;
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.set_write_timeout(Some(PATIENCE)).ok()?;
    let uri = format!("ws://{address}{}", door.path).parse().unwrap();
    let mut request = ClientRequestBuilder::new(uri);
    if let Some(subprotocol) = door.subprotocol {
        request = request.with_sub_protocol(subprotocol);
    }
    let (socket, _) = client(request, stream).ok()?;
    socket.get_ref().set_read_timeout(Some(MOMENT)).ok()?;
    Some(socket)
}
