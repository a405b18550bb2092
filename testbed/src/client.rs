//! A plain client: it applies frames as the schema says, and fails when one doesn't fit.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use pvwire_schema::limits::MAX_FRAME_BYTES;
use pvwire_schema::types::{
    Alarm, Connection, ConnectionState, Filter, FrameKind, Hello, Metadata, NameError, NameProblem,
    Node, NodeValue, Outcome, PutRequest, PutValue, PvId, Reply, Request, RequestBody, SkipCause,
    ValueType,
};
use pvwire_schema::{LZ4_SUBPROTOCOL, SUBPROTOCOL, decode, encode};
use socket2::{Domain, Socket, Type};
use tungstenite::client::{ClientRequestBuilder, client_with_config};
use tungstenite::protocol::WebSocketConfig;
use tungstenite::{Error, Message as WsMessage, WebSocket};

use super::{DEADLINE, Line, Trust};

/// How long one look for a message waits.
const GLANCE: Duration = Duration::from_millis(5);

/// A value as the client keeps it.
#[derive(Clone, Debug, PartialEq)]
pub enum Kept {
    Number(f64),
    Text(String),
    Texts(Vec<String>),
    /// Type, and the elements' little-endian bytes; also of a scalar 64-bit integer.
    Array(ValueType, Vec<u8>),
    Structure(Node),
    /// Of a structure what changed; never kept.
    Part(Node),
}

impl Kept {
    pub fn text(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// One update as it was received.
#[derive(Clone, Debug, PartialEq)]
pub struct RowSeen {
    /// Kind of the frame that it came in.
    pub kind: FrameKind,
    pub value: Kept,
    pub time_ns: i64,
    pub alarm: Alarm,
    pub sequence: u32,
}

/// What the client knows of one PV.
#[derive(Clone, Debug, Default)]
pub struct Pv {
    pub connection: Option<Connection>,
    pub metadata: Option<Metadata>,
    /// Present value with its time and alarm.
    pub now: Option<RowSeen>,
    /// Alarm of the row before, which the next one inherits.
    alarm: Option<Alarm>,
    pub sequence: u32,
    /// Values that it knows it has missed.
    pub skipped: u64,
    /// The same by cause.
    pub skips: HashMap<SkipCause, u64>,
    /// Every row, also of former epochs.
    pub rows: Vec<RowSeen>,
    /// Every state that it was in.
    pub states: Vec<Connection>,
}

impl Pv {
    pub fn state(&self) -> ConnectionState {
        self.connection
            .expect("the snapshot tells of the channel")
            .state
    }

    pub fn is(&self, value: &Kept) -> bool {
        self.now.as_ref().is_some_and(|now| now.value == *value)
    }

    pub fn is_number(&self, number: f64) -> bool {
        self.is(&Kept::Number(number))
    }

    /// The numbers that came, in order.
    pub fn numbers(&self) -> Vec<f64> {
        let rows = self.rows.iter();
        rows.filter_map(|row| match row.value {
            Kept::Number(number) => Some(number),
            _ => None,
        })
        .collect()
    }

    fn apply_metadata(&mut self, metadata: Metadata) {
        let before = self.metadata.as_ref().map(|metadata| metadata.epoch);
        if before.is_some_and(|before| before != metadata.epoch) {
            self.now = None;
            self.alarm = None;
            self.sequence = 0;
        }
        self.metadata = Some(metadata);
    }

    fn apply_connection(&mut self, connection: Connection) {
        if connection.state == ConnectionState::Disconnected {
            assert!(
                !connection.read && !connection.write,
                "a disconnected PV has access rights"
            );
        }
        self.connection = Some(connection);
        self.states.push(connection);
    }

    /// A whole value: of a part with what is known of the rest.
    fn whole(&self, value: Kept, kind: FrameKind) -> Kept {
        let Kept::Part(part) = value else {
            return value;
        };
        assert_eq!(kind, FrameKind::Update, "only there a part makes sense");
        let Some(Kept::Structure(mut whole)) = self.now.as_ref().map(|now| now.value.clone())
        else {
            panic!("a part of what?")
        };
        let (NodeValue::Structure(fields), NodeValue::Structure(changed)) =
            (&mut whole.value, part.value)
        else {
            panic!("structures have fields")
        };
        for field in changed {
            let place = fields.iter_mut().find(|known| known.name == field.name);
            *place.expect("a part has fields of the whole") = field;
        }
        Kept::Structure(whole)
    }

    fn skip(&mut self, cause: SkipCause, count: u32) {
        self.skipped += u64::from(count);
        *self.skips.entry(cause).or_default() += u64::from(count);
    }

    pub fn skipped_by(&self, cause: SkipCause) -> u64 {
        self.skips.get(&cause).copied().unwrap_or_default()
    }

    fn apply_row(&mut self, mut row: Row, kind: FrameKind) {
        row.value = self.whole(row.value, kind);
        let alarm = row
            .alarm
            .or(self.alarm)
            .expect("a PV's first row has its alarm");
        self.alarm = Some(alarm);
        let sequence = match row.sequence {
            None => {
                let mut sequence = self.sequence.wrapping_add(1);
                for (cause, count) in row.skips {
                    self.skip(cause, count);
                    sequence = sequence.wrapping_add(count);
                }
                sequence
            }
            Some(sequence) => {
                let ahead = sequence.wrapping_sub(self.sequence);
                assert!(ahead < u32::MAX / 2, "the sequence went back");
                // What was before the first snapshot was never missed.
                if kind == FrameKind::CatchUp || self.now.is_some() {
                    // A snapshot or a catch-up may repeat the row that the client has.
                    self.skip(row.skip_cause, ahead.saturating_sub(1));
                }
                sequence
            }
        };
        let now = RowSeen {
            kind,
            value: row.value,
            time_ns: row.time_ns,
            alarm,
            sequence,
        };
        match &self.now {
            Some(held) if sequence == self.sequence => assert_eq!(
                (&now.value, now.time_ns, now.alarm),
                (&held.value, held.time_ns, held.alarm),
                "one update, told twice and differently"
            ),
            _ => self.rows.push(now.clone()),
        }
        self.sequence = sequence;
        self.now = Some(now);
    }
}

/// One row of a frame.
struct Row {
    id: PvId,
    value: Kept,
    time_ns: i64,
    alarm: Option<Alarm>,
    skips: Vec<(SkipCause, u32)>,
    /// Why values that the sequence shows to be missing are.
    skip_cause: SkipCause,
    sequence: Option<u32>,
}

/// A frame that moved the client's tick, as it came.
#[derive(Clone, PartialEq, Eq)]
pub struct Message {
    pub kind: FrameKind,
    pub tick: u64,
    pub rows: usize,
    /// It brings one large value, which the frames around it leave out.
    pub is_large: bool,
    pub bytes: Vec<u8>,
}

/// Its bytes are only counted: a failure is to be read.
impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            kind,
            tick,
            rows,
            is_large,
            bytes,
        } = self;
        let large = if *is_large { " large" } else { "" };
        write!(
            f,
            "{kind:?}{large} of tick {tick}, {rows} rows in {} bytes",
            bytes.len()
        )
    }
}

impl Message {
    /// Whether it came because the client was behind.
    pub fn is_catch_up(&self) -> bool {
        self.kind == FrameKind::CatchUp && !self.is_large
    }
}

/// In which way a client behaves.
#[derive(Clone, Copy, Debug)]
pub struct How {
    /// Of the kernel, if not its default.
    pub receive_buffer: Option<usize>,
    /// Whether it acknowledges by itself.
    pub acks: bool,
    /// Whether it wants columns packed.
    pub lz4: bool,
    /// Whom it trusts, if it speaks TLS.
    pub trust: Option<Trust>,
}

impl Default for How {
    fn default() -> Self {
        Self {
            receive_buffer: None,
            acks: true,
            lz4: false,
            trust: None,
        }
    }
}

/// A connected client. It reads only while a test waits by it: otherwise it is stalled.
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
    /// Where its large values come from, when that isn't the WebSocket.
    stream: Option<Stream>,
    /// What the relay said in words.
    text: Option<String>,
    /// Close code, 1006 where there was none.
    pub closed: Option<u16>,
    next_request: u32,
}

impl Client {
    /// Connects and waits for the relay's greeting.
    pub fn connect(address: SocketAddr) -> Self {
        Self::connect_as(address, How::default())
    }

    pub fn connect_as(address: SocketAddr, how: How) -> Self {
        let mut client = Self::try_connect(address, how).expect("the relay takes the connection");
        client.wait("the relay's greeting", |client| client.hello.is_some());
        client
    }

    /// Connects with headers as a browser's page or a proxy adds them.
    pub fn connect_with(address: SocketAddr, headers: &[(&str, &str)]) -> Self {
        let client = Self::try_connect_with(address, How::default(), headers);
        let mut client = client.expect("the relay takes the connection");
        client.wait("the relay's greeting", |client| client.hello.is_some());
        client
    }

    /// Shows who it is; says whether the relay believes it.
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

    /// Connects, without waiting for the greeting, unless there is no relay or it ends meanwhile.
    pub fn try_connect(address: SocketAddr, how: How) -> Option<Self> {
        Self::try_connect_with(address, how, &[])
    }

    pub fn try_connect_with(
        address: SocketAddr,
        how: How,
        headers: &[(&str, &str)],
    ) -> Option<Self> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        if let Some(bytes) = how.receive_buffer {
            socket.set_recv_buffer_size(bytes).unwrap();
        }
        socket.connect(&address.into()).ok()?;
        let stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.set_nodelay(true).unwrap();
        let uri = format!("ws://{address}/ws").parse().unwrap();
        let subprotocol = if how.lz4 {
            LZ4_SUBPROTOCOL
        } else {
            SUBPROTOCOL
        };
        let mut request = ClientRequestBuilder::new(uri).with_sub_protocol(subprotocol);
        for (name, value) in headers {
            request = request.with_header(*name, *value);
        }
        let config = WebSocketConfig::default()
            .max_message_size(Some(MAX_FRAME_BYTES))
            .max_frame_size(Some(MAX_FRAME_BYTES));
        let (socket, response) =
            client_with_config(request, Line::over(stream, how.trust), Some(config)).ok()?;
        assert_eq!(
            response.headers()["sec-websocket-protocol"],
            subprotocol,
            "the relay agrees on the subprotocol"
        );
        let tcp = socket.get_ref().tcp();
        tcp.set_read_timeout(Some(GLANCE)).unwrap();
        Some(Self {
            socket,
            how,
            hello: None,
            pvs: HashMap::new(),
            ids: HashMap::new(),
            tick: 0,
            last_ack: Instant::now(),
            replies: HashMap::new(),
            messages: Vec::new(),
            last_answer: Vec::new(),
            address,
            stream: None,
            text: None,
            closed: None,
            next_request: 1,
        })
    }

    /// Takes large values from a stream from now on.
    pub fn fetch_large(&mut self) {
        let path = self.ask_for_stream();
        let mut stream = Stream::open_by(self.how.trust, self.address, &path);
        assert_eq!(stream.record(), (Vec::new(), 0), "it begins at once");
        self.stream = Some(stream);
        self.send(&[]);
    }

    /// Where its large values could be fetched.
    pub fn ask_for_stream(&mut self) -> String {
        self.send(&[]);
        self.wait("where the stream is", |client| client.text.is_some());
        format!("/{}", self.text.take().unwrap())
    }

    /// Gives its stream up.
    pub fn drop_stream(&mut self) {
        self.stream = None;
    }

    /// Reads until `done`.
    pub fn wait(&mut self, what: &str, mut done: impl FnMut(&Self) -> bool) {
        keep_up(what, &mut [self], |clients| done(clients[0]));
    }

    /// Reads what is there, one message, or waits a little for it.
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

    /// Reads until the relay closes the connection; says by which code.
    pub fn wait_closed(&mut self) -> u16 {
        self.wait("the relay closes the connection", |client| {
            client.closed.is_some()
        });
        self.closed.unwrap()
    }

    /// Whether it acknowledges by itself from now on.
    pub fn set_acks(&mut self, acks: bool) {
        self.how.acks = acks;
    }

    /// Keeps what it knows now and forgets how it came to know it, for a client that lives long.
    pub fn forget_history(&mut self) {
        self.messages.clear();
        for pv in self.pvs.values_mut() {
            pv.rows.clear();
            pv.states.clear();
        }
    }

    /// What it knows of a PV if it holds it.
    pub fn held(&self, name: &str) -> Option<&Pv> {
        self.pvs.get(self.ids.get(name)?)
    }

    /// What it knows of a PV that it subscribed by this name.
    pub fn pv(&self, name: &str) -> &Pv {
        let id = self.id(name);
        self.pvs
            .get(&id)
            .unwrap_or_else(|| panic!("{name} is not held"))
    }

    /// The last frame that was an answer and no more, as it came.
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

    /// Those of the names that it has subscribed.
    pub fn known<'a>(&self, names: &'a [String]) -> Vec<&'a String> {
        let names = names.iter();
        names.filter(|name| self.ids.contains_key(*name)).collect()
    }

    /// Subscribes and waits for the snapshot; says which names were refused.
    pub fn subscribe(&mut self, names: &[impl AsRef<str>]) -> Vec<NameError> {
        self.subscribe_with(names, Filter::default())
    }

    /// Subscribes with a filter, which is what the names then stand for.
    pub fn subscribe_with(&mut self, names: &[impl AsRef<str>], filter: Filter) -> Vec<NameError> {
        let owned: Vec<String> = names.iter().map(|name| name.as_ref().to_owned()).collect();
        let body = RequestBody::Subscribe {
            names: owned.clone(),
            filter,
        };
        let (reply, _) = self.ask(body);
        self.subscribed(owned, reply)
    }

    /// Subscribes and waits for the snapshot unless the connection ends; says whether it came. Rules may
    /// refuse some of the names.
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

    /// Gets PVs: each name's parts or none, and the errors.
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

    /// Asks and waits for the answer, and for the PVs that came with it if it is a Got.
    pub fn ask(&mut self, body: RequestBody) -> (Reply, HashMap<PvId, Pv>) {
        let id = self.request(body);
        self.wait_answer(id)
    }

    /// Writes with completion; what came of it, and why.
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

    /// Asks without waiting; says the request's number.
    pub fn request(&mut self, body: RequestBody) -> u32 {
        let id = self.next_request;
        self.next_request += match &body {
            RequestBody::PutMany { puts, .. } => puts.len() as u32,
            _ => 1,
        };
        self.send(&encode::request(&Request { id, body }));
        id
    }

    /// Acknowledges all that was received.
    pub fn ack(&mut self) {
        self.last_ack = Instant::now();
        let tick = self.tick;
        self.request(RequestBody::Ack { tick });
    }

    /// Sends bytes, whatever they are, if the relay still takes them.
    pub fn send(&mut self, bytes: &[u8]) {
        self.send_message(WsMessage::binary(bytes.to_vec()));
    }

    pub fn send_text(&mut self, text: &str) {
        self.send_message(WsMessage::text(text));
    }

    fn send_message(&mut self, message: WsMessage) {
        match self.socket.send(message) {
            Ok(()) => {}
            // What the relay said last may still be there to read.
            Err(Error::Io(_) | Error::ConnectionClosed | Error::AlreadyClosed) => {}
            Err(error) => panic!("can't send: {error}"),
        }
    }

    /// Looks for one message; says whether there was one.
    fn turn(&mut self) -> bool {
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
            WsMessage::Binary(bytes) if bytes.is_empty() => {
                if let Some(stream) = &mut self.stream {
                    let (bytes, _) = stream.record();
                    self.apply(&bytes);
                }
            }
            WsMessage::Binary(bytes) => self.apply(&bytes),
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
        // An answer speaks of nothing but what it names.
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

/// The body of an HTTP answer that has no end.
pub struct Stream {
    tcp: BufReader<Line>,
    /// What is left of a chunk.
    chunk: usize,
}

impl Stream {
    pub fn open(address: SocketAddr, path: &str) -> Self {
        Self::open_by(None, address, path)
    }

    fn open_by(trust: Option<Trust>, address: SocketAddr, path: &str) -> Self {
        let mut tcp = BufReader::new(super::http::ask(trust, address, path, &[]));
        let mut line = String::new();
        tcp.read_line(&mut line).unwrap();
        assert!(line.starts_with("HTTP/1.1 200"), "{line}");
        while line != "\r\n" {
            line.clear();
            tcp.read_line(&mut line).unwrap();
        }
        Self { tcp, chunk: 0 }
    }

    /// The next message, and how much of it stands before its array.
    fn record(&mut self) -> (Vec<u8>, usize) {
        let lengths = self.take(8);
        let number =
            |at: usize| u32::from_le_bytes(lengths[at..at + 4].try_into().unwrap()) as usize;
        (self.take(number(0)), number(4))
    }

    fn take(&mut self, bytes: usize) -> Vec<u8> {
        let mut taken = Vec::new();
        while taken.len() < bytes {
            if self.chunk == 0 {
                let mut line = String::new();
                self.tcp.read_line(&mut line).unwrap();
                self.chunk = usize::from_str_radix(line.trim(), 16).unwrap();
                assert_ne!(self.chunk, 0, "the stream ended");
            }
            let at = taken.len();
            taken.resize(at + self.chunk.min(bytes - at), 0);
            self.tcp.read_exact(&mut taken[at..]).unwrap();
            self.chunk -= taken.len() - at;
            if self.chunk == 0 {
                self.tcp.read_exact(&mut [0; 2]).unwrap();
            }
        }
        taken
    }
}

/// The books of a PV that a frame may speak of.
fn place<'a>(
    known: &'a mut HashMap<PvId, Pv>,
    named: Option<&HashSet<PvId>>,
    id: PvId,
) -> &'a mut Pv {
    assert!(
        named.is_none_or(|named| named.contains(&id)),
        "{id:?} is not what the answer names"
    );
    known
        .get_mut(&id)
        .unwrap_or_else(|| panic!("{id:?} is not held"))
}

/// The rows of a frame, each with what belongs to it.
fn rows_of(frame: &decode::FrameView<'_>) -> Vec<Row> {
    let skip_cause = frame.skip_cause();
    let is_catch_up = frame.kind() == FrameKind::CatchUp;
    assert_eq!(is_catch_up, skip_cause != SkipCause::Unknown);
    let number = |row: decode::NumberRow| Row {
        id: row.id,
        value: Kept::Number(row.value),
        time_ns: row.time_ns,
        alarm: None,
        skips: Vec::new(),
        skip_cause,
        sequence: None,
    };
    let blob = |blob: decode::BlobView<'_>| {
        let mut texts: Vec<String> = blob.text().map(str::to_owned).collect();
        let value = match (blob.value_type, blob.array) {
            (ValueType::String, true) => Kept::Texts(texts),
            (ValueType::String, false) => {
                assert_eq!(texts.len(), 1);
                Kept::Text(texts.remove(0))
            }
            (ValueType::Structure, _) => {
                let node = blob.structure.unwrap().to_node();
                if blob.partial {
                    Kept::Part(node)
                } else {
                    Kept::Structure(node)
                }
            }
            (value_type, _) => {
                assert_eq!(blob.data_offset % 8, 0, "elements can be viewed in place");
                Kept::Array(value_type, blob.data.to_vec())
            }
        };
        Row {
            id: blob.id,
            value,
            time_ns: blob.time_ns,
            alarm: None,
            skips: Vec::new(),
            skip_cause,
            sequence: None,
        }
    };
    let mut rows: Vec<Row> = frame.numbers().map(number).collect();
    rows.extend(frame.blobs().map(blob));
    for alarm in frame.alarms() {
        rows[alarm.row as usize].alarm = Some(alarm.alarm);
    }
    for skip in frame.skips() {
        assert_ne!(skip.count, 0);
        rows[skip.row as usize].skips.push((skip.cause, skip.count));
    }
    for (row, sequence) in rows.iter_mut().zip(frame.sequences().into_iter().flatten()) {
        row.sequence = Some(sequence);
    }
    rows
}

/// Connects several clients.
pub fn connect_all(address: SocketAddr, count: usize) -> Vec<Client> {
    (0..count).map(|_| Client::connect(address)).collect()
}

/// Several clients read, in turns, until `done`.
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
