//! A plain client of the relay: it applies frames as the schema says, and fails when one doesn't
//! fit.

mod connect;
mod large;
mod pv;
mod stream;

use std::collections::{HashMap, HashSet};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use pvwire_schema::types::{
    ConnectionState, Filter, FrameKind, Hello, NameError, NameProblem, Outcome, PutRequest,
    PutValue, PvId, Reply, Request, RequestBody,
};
use pvwire_schema::{decode, encode};
use tungstenite::error::ProtocolError;
use tungstenite::{Error, Message as WsMessage, WebSocket};

pub use connect::{How, connect_all};
pub use large::Fetching;
pub use pv::{Kept, Message, Pv, RowSeen};
pub use stream::Stream;

use super::{DEADLINE, Line};
use large::Large;
use pv::{place, rows_of};

/// Read time-out of one poll for a message.
const POLL: Duration = Duration::from_millis(5);

/// A connected client. It reads only while a test waits for something; otherwise it is stalled.
pub struct Client {
    socket: WebSocket<Line>,
    how: How,
    pub hello: Option<Hello>,
    /// PVs that it holds, by id.
    pub pvs: HashMap<PvId, Pv>,
    ids: HashMap<String, PvId>,
    /// Largest tick of the frames that move it.
    pub tick: u64,
    last_ack: Instant,
    replies: HashMap<u32, (Reply, HashMap<PvId, Pv>)>,
    /// Frames that moved the tick.
    pub messages: Vec<Message>,
    /// The last frame that didn't.
    last_answer: Vec<u8>,
    address: SocketAddr,
    /// Its large values, if it has requested a stream of them.
    large: Option<Large>,
    has_lost_stream: bool,
    /// The last text message.
    text: Option<String>,
    /// Close code, 1006 where there was none.
    pub closed: Option<u16>,
    next_request: u32,
}

impl Client {
    /// Authenticates with a token; returns whether the relay accepts it.
    pub fn log_in(&mut self, token: &str) -> bool {
        let token = token.to_owned();
        self.hello = None;
        let id = self.request(RequestBody::Authenticate { token });
        let deadline = Instant::now() + DEADLINE;
        while self.hello.is_none() && !self.replies.contains_key(&id) && self.closed.is_none() {
            assert!(Instant::now() < deadline, "no answer to the token");
            self.turn();
        }
        self.hello.is_some()
    }

    /// Reads until `done`.
    pub fn wait(&mut self, what: &str, mut done: impl FnMut(&Self) -> bool) {
        keep_up(what, &mut [self], |clients| done(clients[0]));
    }

    /// Reads one message, or waits a few milliseconds for it.
    pub fn read_for_a_moment(&mut self) -> bool {
        self.turn()
    }

    /// Reads until one PV is as wanted.
    pub fn wait_pv(&mut self, name: &str, what: &str, wanted: impl Fn(&Pv) -> bool) {
        self.wait(&format!("{name}: {what}"), |client| wanted(client.pv(name)));
    }

    pub fn wait_state(&mut self, name: &str, state: ConnectionState) {
        self.wait_pv(name, &format!("{state:?}"), |pv| pv.state() == state);
    }

    pub fn wait_number(&mut self, name: &str, number: f64) {
        self.wait_pv(name, &format!("{number}"), |pv| pv.is_number(number));
    }

    /// Reads until the relay closes the connection; returns the close code.
    pub fn wait_closed(&mut self) -> u16 {
        self.wait("the relay closes the connection", |client| {
            client.closed.is_some()
        });
        self.closed.unwrap()
    }

    /// Sets whether it acknowledges by itself.
    pub fn set_acks(&mut self, acks: bool) {
        self.how.acks = acks;
    }

    /// Drops the history of frames, rows and states and keeps the present, for a client that lives
    /// long.
    pub fn forget_history(&mut self) {
        self.messages.clear();
        for pv in self.pvs.values_mut() {
            pv.rows.clear();
            pv.states.clear();
        }
    }

    /// The state of a PV if the client holds it.
    pub fn held(&self, name: &str) -> Option<&Pv> {
        self.pvs.get(self.ids.get(name)?)
    }

    /// The state of a PV that it subscribed by this name.
    pub fn pv(&self, name: &str) -> &Pv {
        let id = self.id(name);
        self.pvs
            .get(&id)
            .unwrap_or_else(|| panic!("{name} is not held"))
    }

    /// The bytes of the last frame of the kind Answer.
    pub fn last_answer(&self) -> &[u8] {
        &self.last_answer
    }

    /// The number of a PV that it subscribed by this name.
    pub fn id(&self, name: &str) -> PvId {
        *self
            .ids
            .get(name)
            .unwrap_or_else(|| panic!("{name} was not subscribed"))
    }

    /// The names among these that it has subscribed.
    pub fn known<'a>(&self, names: &'a [String]) -> Vec<&'a String> {
        let names = names.iter();
        names.filter(|name| self.ids.contains_key(*name)).collect()
    }

    /// Subscribes and waits for the snapshot; returns the names that were refused.
    pub fn subscribe(&mut self, names: &[impl AsRef<str>]) -> Vec<NameError> {
        self.subscribe_with(names, Filter::default())
    }

    /// Subscribes with a filter; from then on the names stand for the filtered PVs.
    pub fn subscribe_with(&mut self, names: &[impl AsRef<str>], filter: Filter) -> Vec<NameError> {
        let owned: Vec<String> = names.iter().map(|name| name.as_ref().to_owned()).collect();
        let body = RequestBody::Subscribe {
            names: owned.clone(),
            filter,
        };
        let (reply, _) = self.ask(body);
        self.subscribed(owned, reply)
    }

    /// Subscribes and waits for the snapshot unless the connection ends; returns whether it came.
    /// Rules may refuse some of the names.
    pub fn try_subscribe(&mut self, names: Vec<String>) -> bool {
        let id = self.request(RequestBody::Subscribe {
            names: names.clone(),
            filter: Filter::default(),
        });
        let deadline = Instant::now() + DEADLINE;
        while self.closed.is_none() {
            if let Some((reply, _)) = self.replies.remove(&id) {
                let refused = self.subscribed(names, reply);
                let by_rules = |error: &NameError| error.problem == NameProblem::NotAllowed;
                assert!(refused.iter().all(by_rules), "{refused:?}");
                return true;
            }
            assert!(Instant::now() < deadline, "no snapshot came");
            self.turn();
        }
        false
    }

    fn subscribed(&mut self, names: Vec<String>, reply: Reply) -> Vec<NameError> {
        match reply {
            Reply::Subscribed { ids, errors } => {
                assert_eq!(ids.len(), names.len());
                let taken = names.into_iter().zip(ids);
                self.ids.extend(taken.filter(|(_, id)| *id != PvId::NONE));
                errors
            }
            other => panic!("{other:?} answers a Subscribe"),
        }
    }

    /// Asks for the descriptions of PVs that it holds.
    pub fn describe(&mut self, names: &[impl AsRef<str>]) {
        let ids = names.iter().map(|name| self.id(name.as_ref())).collect();
        self.request(RequestBody::Describe { ids });
    }

    /// Subscribes and waits until each PV has a value and its metadata.
    pub fn subscribe_live(&mut self, names: &[impl AsRef<str>]) {
        assert_eq!(self.subscribe(names), []);
        for name in names {
            self.wait_pv(name.as_ref(), "a value", |pv| {
                pv.now.is_some() && pv.metadata.is_some()
            });
        }
    }

    pub fn unsubscribe(&mut self, names: &[&str]) -> Vec<PvId> {
        let ids = names.iter().map(|name| self.id(name)).collect();
        match self.ask(RequestBody::Unsubscribe { ids }).0 {
            Reply::Unsubscribed { ids } => ids,
            other => panic!("{other:?} answers an Unsubscribe"),
        }
    }

    /// Gets PVs; returns the parts of each name, if any, and the errors.
    pub fn get(
        &mut self,
        names: &[impl AsRef<str>],
        timeout_ms: u32,
    ) -> (Vec<Option<Pv>>, Vec<NameError>) {
        self.get_with(names, timeout_ms, false)
    }

    /// The same, with the descriptions that a source gives only when asked.
    pub fn get_with(
        &mut self,
        names: &[impl AsRef<str>],
        timeout_ms: u32,
        description: bool,
    ) -> (Vec<Option<Pv>>, Vec<NameError>) {
        let names = names.iter().map(|name| name.as_ref().to_owned()).collect();
        let get = RequestBody::Get {
            names,
            timeout_ms,
            description,
        };
        match self.ask(get) {
            (Reply::Got { ids, errors }, pvs) => {
                let parts = ids.iter().map(|id| pvs.get(id).cloned());
                (parts.collect(), errors)
            }
            (other, _) => panic!("{other:?} answers a Get"),
        }
    }

    /// Gets a PV again and again until the relay knows it as wanted.
    pub fn wait_until_known(&mut self, name: &str, wanted: impl Fn(&Pv) -> bool) {
        super::eventually(&format!("{name} as wanted"), || {
            let (pvs, _) = self.get(&[name], 0);
            pvs[0].as_ref().is_some_and(&wanted)
        });
    }

    /// Sends a request and waits for the reply; with the PVs of a Got.
    pub fn ask(&mut self, body: RequestBody) -> (Reply, HashMap<PvId, Pv>) {
        let id = self.request(body);
        self.wait_answer(id)
    }

    /// Writes with completion; returns the outcome and its reason.
    pub fn put(&mut self, name: &str, value: PutValue) -> (Outcome, String) {
        let (reply, _) = self.ask(RequestBody::Put(PutRequest {
            name: name.to_owned(),
            value,
            wait: true,
            timeout_ms: 0,
            expected: None,
        }));
        match reply {
            Reply::PutDone { outcome, message } => (outcome, message),
            other => panic!("{other:?} answers a put"),
        }
    }

    /// The same of a number.
    pub fn put_number(&mut self, name: &str, number: f64) -> (Outcome, String) {
        self.put(name, PutValue::Number(number))
    }

    /// Whether the answer to a request has come.
    pub fn has_answer(&self, id: u32) -> bool {
        self.replies.contains_key(&id)
    }

    /// Waits for the answer to a request.
    pub fn wait_answer(&mut self, id: u32) -> (Reply, HashMap<PvId, Pv>) {
        self.wait("an answer", |client| client.replies.contains_key(&id));
        self.replies.remove(&id).unwrap()
    }

    /// Sends a request; returns its number.
    pub fn request(&mut self, body: RequestBody) -> u32 {
        let id = self.next_request;
        self.next_request += match &body {
            RequestBody::PutMany { puts, .. } | RequestBody::PutWithin { puts, .. } => {
                puts.len() as u32
            }
            _ => 1,
        };
        self.send(&encode::request(&Request { id, body }));
        id
    }

    /// Acknowledges everything received.
    pub fn ack(&mut self) {
        self.last_ack = Instant::now();
        let tick = self.tick;
        self.request(RequestBody::Ack { tick });
    }

    /// The number of bytes that the kernel holds for it, up to 2000.
    pub fn unread_bytes(&self) -> usize {
        let tcp = self.socket.get_ref().tcp();
        tcp.peek(&mut [0; 2000]).unwrap_or(0)
    }

    /// Sends any bytes, if the relay still accepts them.
    pub fn send(&mut self, bytes: &[u8]) {
        self.send_message(WsMessage::binary(bytes.to_vec()));
    }

    pub fn send_text(&mut self, text: &str) {
        self.send_message(WsMessage::text(text));
    }

    fn send_message(&mut self, message: WsMessage) {
        match self.socket.send(message) {
            Ok(()) => {}
            // The relay's last messages may still be readable.
            Err(
                Error::Io(_)
                | Error::ConnectionClosed
                | Error::AlreadyClosed
                | Error::Protocol(ProtocolError::SendAfterClosing),
            ) => {}
            Err(error) => panic!("can't send: {error}"),
        }
    }

    /// Polls for one message; returns whether there was one.
    fn turn(&mut self) -> bool {
        if self.follow_stream() {
            return true;
        }
        let message = match self.socket.read() {
            Ok(message) => message,
            Err(Error::Io(error))
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
            {
                self.ack_in_time();
                return false;
            }
            Err(_) => {
                self.closed.get_or_insert(1006);
                return false;
            }
        };
        match message {
            WsMessage::Binary(bytes) => {
                let waits = self.large.as_mut().is_some_and(|large| large.takes(&bytes));
                if !waits && !bytes.is_empty() {
                    self.apply(&bytes);
                }
            }
            WsMessage::Text(text) if self.large.is_some() => self.open_stream(&text),
            WsMessage::Text(text) => self.text = Some(text.as_str().to_owned()),
            WsMessage::Close(frame) => {
                let code = frame.map_or(1005, |frame| frame.code.into());
                self.closed.get_or_insert(code);
            }
            WsMessage::Ping(_) | WsMessage::Pong(_) => {}
            other => panic!("the relay sent {other:?}"),
        }
        self.ack_in_time();
        true
    }

    fn ack_in_time(&mut self) {
        let every = self
            .hello
            .as_ref()
            .map_or(250, |hello| hello.ack_interval_ms);
        let is_due = self.last_ack.elapsed() >= Duration::from_millis(every.into());
        if self.how.acks && is_due && self.tick > 0 && self.closed.is_none() {
            self.ack();
        }
    }

    fn apply(&mut self, bytes: &[u8]) {
        let frame = decode::frame(bytes).unwrap_or_else(|error| panic!("a bad frame: {error}"));
        let kind = frame.kind();
        let reply = frame.reply();
        let moves = kind != FrameKind::Answer;
        if matches!(kind, FrameKind::Update | FrameKind::CatchUp) {
            assert!(
                frame.prev_tick() <= self.tick,
                "a gap: the frame follows on tick {}, the client is at {}",
                frame.prev_tick(),
                self.tick
            );
            assert!(reply.is_none(), "a {kind:?} frame holds {reply:?}");
        }
        if self.hello.is_none() && self.next_request == 1 {
            assert_eq!((kind, frame.reply_to()), (FrameKind::Answer, 0));
            assert!(matches!(reply, Some(Reply::Hello(_))), "{reply:?} is first");
        }
        let rows = rows_of(&frame);
        if !moves {
            self.last_answer = bytes.to_vec();
        }
        if moves {
            let is_large = match kind {
                FrameKind::Snapshot => reply.is_none(),
                FrameKind::CatchUp => frame.prev_tick() == frame.tick(),
                _ => false,
            };
            assert!(!is_large || rows.len() == 1, "one large value a frame");
            // An empty frame, which asks for an acknowledgement, may be older than a snapshot, and
            // a large value is as old as it is.
            assert!(
                frame.tick() >= self.tick || rows.is_empty() || is_large,
                "time goes back"
            );
            self.tick = self.tick.max(frame.tick());
            self.messages.push(Message {
                kind,
                tick: frame.tick(),
                rows: rows.len(),
                is_large,
                bytes: bytes.to_vec(),
            });
        }
        let mut got = HashMap::new();
        let mut named = HashSet::new();
        match &reply {
            Some(Reply::Subscribed { ids, .. }) => {
                assert_eq!(kind, FrameKind::Snapshot);
                named.extend(ids.iter().copied().filter(|id| *id != PvId::NONE));
                for id in &named {
                    self.pvs.entry(*id).or_default();
                }
            }
            Some(Reply::Got { ids, .. }) => {
                assert_eq!(kind, FrameKind::Answer);
                let taken = ids.iter().copied().filter(|id| *id != PvId::NONE);
                got.extend(taken.map(|id| (id, Pv::default())));
                named.extend(got.keys().copied());
            }
            Some(Reply::Unsubscribed { ids }) => {
                for id in ids {
                    self.pvs.remove(id);
                }
            }
            _ => {}
        }
        let known = match reply {
            Some(Reply::Got { .. }) => &mut got,
            _ => &mut self.pvs,
        };
        // An answer contains only the PVs that it names.
        let named = reply.is_some().then_some(&named);
        for (id, metadata) in frame.metadata() {
            place(known, named, id).apply_metadata(metadata);
        }
        for (id, connection) in frame.connections() {
            place(known, named, id).apply_connection(connection);
        }
        for row in rows {
            place(known, named, row.id).apply_row(row, kind);
        }
        match reply {
            Some(Reply::Hello(hello)) => self.hello = Some(hello),
            Some(reply) => {
                self.replies.insert(frame.reply_to(), (reply, got));
            }
            None => {}
        }
    }
}

/// Several clients read alternately until `done`.
pub fn keep_up(
    what: &str,
    clients: &mut [&mut Client],
    mut done: impl FnMut(&[&mut Client]) -> bool,
) {
    let deadline = Instant::now() + DEADLINE;
    while !done(clients) {
        let closed: Vec<_> = clients.iter().map(|client| client.closed).collect();
        assert!(
            Instant::now() < deadline && closed.contains(&None),
            "never: {what}; closed: {closed:?}; known:\n{:#?}",
            clients.iter().map(|client| &client.pvs).collect::<Vec<_>>()
        );
        for client in clients.iter_mut().filter(|client| client.closed.is_none()) {
            // A large value belongs to the frame before it.
            while client.turn() && client.messages.last().is_some_and(|last| last.is_large) {}
        }
    }
}
