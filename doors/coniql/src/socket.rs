//! The protocol state of one client's socket: its operations, and the subscriptions that the relay has still to
//! begin or end.

use std::collections::{HashMap, VecDeque};
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use pvwire_core::graphql::{Operation, OperationKind, Root};
use pvwire_schema::limits::MAX_NAME_BYTES;
use pvwire_schema::types::PvId;

use crate::message::{
    ACK, KEEP_ALIVE, Message, Protocol, ReadMessage, Settings, Started, complete, pong, quoted,
};
use crate::selections::Equals;
use crate::selections::Known;

/// Close code of graphql-ws for a client whose token is refused.
const FORBIDDEN: u16 = 4403;

/// Time in which a client must send `connection_init`.
const INIT_WITHIN: Duration = Duration::from_secs(60);

/// Interval between two `ka` of the legacy protocol.
const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(1);

/// Maximum bytes of all names and ids of one socket together.
const MAX_TEXT_BYTES: usize = 4 << 20;

/// Maximum number of fields of a subscription. Its results are written with every update, for all clients that select the
/// same; a client that selects each field of a channel once needs fewer than a hundred.
const MAX_FIELDS: usize = 256;

/// Fields of all subscriptions of one socket together, for each PV that a client may subscribe.
const FIELDS_PER_NAME: usize = 40;

/// Maximum length of the reason in a close frame.
const MAX_REASON_BYTES: usize = 123;

/// An action that a message asks for at once.
#[derive(Debug)]
pub enum Reply {
    /// Send these texts, each as one message.
    Texts(Vec<Vec<u8>>),
    /// Carry out an operation; `Socket::finish` takes the number and the response.
    Run(u32, Arc<Operation>),
    /// Log the client in by this token. If it is valid, send these texts; otherwise close the connection with the code
    /// `refused`.
    LogIn {
        /// The token.
        token: String,
        /// The code.
        refused: u16,
        /// The texts.
        texts: Vec<Vec<u8>>,
    },
    /// Close the connection with this code and reason.
    Close(u16, String),
}

/// A PV to be subscribed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The PV, as the client named it.
    pub name: String,
    /// Number of the selection among `Documents::selections`.
    pub selection: u32,
    /// Distinguishes it from equal subscriptions of the same socket.
    pub ordinal: u32,
}

/// The limit that keeps an operation from beginning.
#[derive(Debug, thiserror::Error)]
enum NoRoom {
    #[error("the name {start}… is longer than {MAX_NAME_BYTES} bytes")]
    Name { start: String },
    #[error("a client may subscribe {most} PVs (max_subscriptions)")]
    Pvs { most: usize },
    #[error("the names of a client's operations may have {MAX_TEXT_BYTES} bytes")]
    Text,
    #[error("a subscription may select {MAX_FIELDS} fields, not {0}")]
    Fields(usize),
    #[error(
        "the subscriptions of a client may select {most} fields together, {FIELDS_PER_NAME} for each PV that it may \
         subscribe (max_subscriptions)"
    )]
    AllFields { most: usize },
}

/// An operation that has not ended.
#[derive(Debug)]
struct Open {
    id: String,
    /// The id in JSON.
    quoted: Vec<u8>,
    operation: Arc<Operation>,
    /// The selection, if it is a subscription.
    known: Option<Arc<Known>>,
    members: Vec<Member>,
    /// What precedes and follows the result of a PV in the messages of a subscription.
    around: Option<(Vec<u8>, Vec<u8>)>,
    /// Bytes that count against `MAX_TEXT_BYTES`.
    bytes: usize,
    /// Fields that it selects with every update.
    fields: usize,
}

/// A PV of a subscription.
#[derive(Debug)]
struct Member {
    wanted: Wanted,
    pv: Option<PvId>,
    is_waiting: bool,
}

/// The state of one socket.
#[derive(Debug)]
pub struct Socket {
    settings: Settings,
    is_acknowledged: bool,
    kept_alive: Duration,
    numbers: HashMap<String, u32>,
    open: HashMap<u32, Open>,
    /// The operation that gets the results of a PV.
    by_pv: HashMap<PvId, u32>,
    /// The operation of a subscribed name.
    by_wanted: HashMap<(String, u32), Equals>,
    waiting: VecDeque<(u32, usize)>,
    ended: Vec<PvId>,
    names: usize,
    bytes: usize,
    /// Fields of all subscriptions.
    fields: usize,
    last: u32,
}

impl Socket {
    /// A socket without operations.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            is_acknowledged: false,
            kept_alive: Duration::ZERO,
            numbers: HashMap::new(),
            open: HashMap::new(),
            by_pv: HashMap::new(),
            by_wanted: HashMap::new(),
            waiting: VecDeque::new(),
            ended: Vec::new(),
            names: 0,
            bytes: 0,
            fields: 0,
            last: 0,
        }
    }

    /// Reads and takes a client's message.
    pub fn take(&mut self, text: &str) -> Option<Reply> {
        let message = self.settings.read(text);
        self.take_read(message)
    }

    /// Takes a client's message that was read by the same settings.
    pub fn take_read(&mut self, message: ReadMessage) -> Option<Reply> {
        let message = match message.0 {
            Ok(message) => message,
            Err(why) => return Some(close(4400, &why.to_string())),
        };
        match message {
            Message::Init(token) => {
                return Some(match (self.begin(), token) {
                    (Reply::Texts(texts), Some(token)) => Reply::LogIn {
                        token,
                        refused: FORBIDDEN,
                        texts,
                    },
                    (reply, _) => reply,
                });
            }
            Message::Terminate => return Some(close(1000, "")),
            Message::Ping(payload) => return Some(Reply::Texts(vec![pong(payload.as_ref())])),
            Message::Subscribe { id, payload } => return self.start(id, payload),
            Message::Complete { id } => self.end(&id),
            Message::Pong | Message::Unknown => {}
        }
        None
    }

    fn begin(&mut self) -> Reply {
        let is_first = !mem::replace(&mut self.is_acknowledged, true);
        let mut texts = vec![ACK.to_vec()];
        match self.settings.protocol {
            Protocol::Transport if !is_first => {
                return close(4429, "Too many initialisation requests");
            }
            Protocol::Transport => {}
            Protocol::Legacy => texts.push(KEEP_ALIVE.to_vec()),
        }
        Reply::Texts(texts)
    }

    fn start(&mut self, id: String, operation: Started) -> Option<Reply> {
        match self.settings.protocol {
            Protocol::Transport if !self.is_acknowledged => {
                return Some(close(4401, "Unauthorized"));
            }
            Protocol::Transport if self.numbers.contains_key(&id) => {
                let reason = format!("Subscriber for {id} already exists");
                return Some(close(4409, &reason));
            }
            // The legacy protocol replaces an operation with the same id.
            Protocol::Legacy => self.end(&id),
            Protocol::Transport => {}
        }
        let quoted = quoted(&id);
        let operation = match operation {
            Started::Valid(operation) => operation,
            Started::Refused(errors) => return Some(self.refusal(&quoted, errors.as_bytes())),
            Started::Answered(response) => {
                return Some(Reply::Texts(self.last_result(&quoted, &response)));
            }
        };
        if let Err(why) = self.has_room(&operation, &id) {
            return Some(self.refusal(&quoted, &error(&why.to_string())));
        }
        let number = self.add(id, quoted, operation);
        let open = self.open.get(&number)?;
        (open.known.is_none()).then(|| Reply::Run(number, Arc::clone(&open.operation)))
    }

    /// Whether the limits of a socket allow this operation.
    fn has_room(&self, operation: &Operation, id: &str) -> Result<(), NoRoom> {
        let most = self.settings.max_names;
        let roots = operation.roots().iter();
        let names: Vec<_> = roots.flat_map(|root| root.request().names()).collect();
        if let Some(name) = names.iter().find(|name| name.len() > MAX_NAME_BYTES) {
            let start: String = name.chars().take(40).collect();
            return Err(NoRoom::Name { start });
        }
        let bytes = text_bytes(operation, id);
        if self.open.len() >= most || self.names + names.len() > most {
            return Err(NoRoom::Pvs { most });
        }
        if self.bytes + bytes > MAX_TEXT_BYTES {
            return Err(NoRoom::Text);
        }
        let (fields, pvs) = subscribed(operation);
        if fields > MAX_FIELDS {
            return Err(NoRoom::Fields(fields));
        }
        let most = FIELDS_PER_NAME.saturating_mul(most).max(MAX_FIELDS);
        if self.fields + fields * pvs > most {
            return Err(NoRoom::AllFields { most });
        }
        Ok(())
    }

    fn add(&mut self, id: String, quoted: Vec<u8>, operation: Arc<Operation>) -> u32 {
        self.last = self.last.wrapping_add(1);
        let number = self.last;
        let is_subscription = operation.kind() == OperationKind::Subscription;
        let root = operation.roots().first().filter(|_| is_subscription);
        let selections = self.settings.documents.selections();
        let known = (root.and_then(Root::selection)).map(|selection| selections.number(selection));
        let around = root.map(|root| around(self.settings.protocol, &quoted, root));
        let mut members = Vec::new();
        if let (Some(root), Some(known)) = (root, &known) {
            for name in root.request().names() {
                let key = (name.clone(), known.number);
                let equals = self.by_wanted.entry(key).or_default();
                let ordinal = equals.add((number, members.len()));
                self.waiting.push_back((number, members.len()));
                members.push(Member {
                    wanted: Wanted {
                        name: name.clone(),
                        selection: known.number,
                        ordinal,
                    },
                    pv: None,
                    is_waiting: true,
                });
            }
        }
        let bytes = text_bytes(&operation, &id);
        let (fields, pvs) = subscribed(&operation);
        let fields = fields * pvs;
        self.names += members.len();
        self.bytes += bytes;
        self.fields += fields;
        self.numbers.insert(id.clone(), number);
        let open = Open {
            id,
            quoted,
            operation,
            known,
            members,
            around,
            bytes,
            fields,
        };
        self.open.insert(number, open);
        number
    }

    /// Ends an operation, if it is open.
    fn end(&mut self, id: &str) {
        if let Some(number) = self.numbers.get(id).copied() {
            self.forget(number);
        }
    }

    fn forget(&mut self, number: u32) -> Option<Open> {
        let open = self.open.remove(&number)?;
        self.numbers.remove(&open.id);
        self.names -= open.members.len();
        self.bytes -= open.bytes;
        self.fields -= open.fields;
        for member in &open.members {
            let Wanted {
                name,
                selection,
                ordinal,
            } = member.wanted.clone();
            let key = (name, selection);
            if let Some(equals) = self.by_wanted.get_mut(&key) {
                equals.remove(ordinal);
                if equals.is_empty() {
                    self.by_wanted.remove(&key);
                }
            }
            if let Some(pv) = member.pv
                && self.by_pv.get(&pv) == Some(&number)
            {
                self.by_pv.remove(&pv);
                self.ended.push(pv);
            }
        }
        Some(open)
    }

    fn refusal(&self, quoted: &[u8], errors: &[u8]) -> Reply {
        Reply::Texts(vec![self.settings.protocol.error(quoted, errors)])
    }

    fn last_result(&self, quoted: &[u8], response: &[u8]) -> Vec<Vec<u8>> {
        let result = self.settings.protocol.next(quoted, response);
        vec![result, complete(quoted)]
    }

    /// An operation has its response. Returns the messages, unless the client has ended the operation.
    pub fn finish(&mut self, number: u32, response: &[u8]) -> Vec<Vec<u8>> {
        match self.forget(number) {
            Some(open) => self.last_result(&open.quoted, response),
            None => Vec::new(),
        }
    }

    /// The message that brings the client this result of a PV; `None` if the client has ended the operation.
    #[must_use]
    pub fn result(&self, pv: PvId, channel: &[u8]) -> Option<Vec<u8>> {
        let open = self.open.get(self.by_pv.get(&pv)?)?;
        let (before, after) = open.around.as_ref()?;
        Some([before, channel, after].concat())
    }

    /// Called regularly with the time since the client connected.
    pub fn passing(&mut self, connected: Duration) -> Option<Reply> {
        match self.settings.protocol {
            Protocol::Transport if !self.is_acknowledged && connected >= INIT_WITHIN => {
                Some(close(4408, "Connection initialisation timeout"))
            }
            Protocol::Legacy
                if self.is_acknowledged && connected >= self.kept_alive + KEEP_ALIVE_EVERY =>
            {
                self.kept_alive = connected;
                Some(Reply::Texts(vec![KEEP_ALIVE.to_vec()]))
            }
            _ => None,
        }
    }

    /// The subscribed PVs as the client named them, with their numbers once the relay has accepted them.
    pub fn held(&self) -> impl Iterator<Item = (&str, Option<PvId>)> {
        let members = self.open.values().flat_map(|open| &open.members);
        members.map(|member| (member.wanted.name.as_str(), member.pv))
    }

    /// Whether a subscription has to begin or end.
    #[must_use]
    pub fn has_changes(&self) -> bool {
        !self.ended.is_empty() || !self.waiting.is_empty()
    }

    /// Takes the subscriptions that end.
    pub fn ended(&mut self) -> Vec<PvId> {
        mem::take(&mut self.ended)
    }

    /// Takes the next PVs to subscribe, at most `most`.
    pub fn wanted(&mut self, most: usize) -> Vec<Wanted> {
        let mut wanted = Vec::new();
        while wanted.len() < most
            && let Some((number, at)) = self.waiting.pop_front()
        {
            // The client may have ended the operation since.
            if let Some(open) = self.open.get_mut(&number)
                && let Some(member) = open.members.get_mut(at)
                && mem::take(&mut member.is_waiting)
            {
                wanted.push(member.wanted.clone());
            }
        }
        wanted
    }

    fn member(&mut self, wanted: &Wanted) -> Option<(u32, &mut Member)> {
        let key = (wanted.name.clone(), wanted.selection);
        let (number, at) = self.by_wanted.get(&key)?.find(wanted.ordinal)?;
        let member = self.open.get_mut(&number)?.members.get_mut(at)?;
        Some((number, member))
    }

    /// The relay has accepted a subscription.
    pub fn accepted(&mut self, wanted: &Wanted, pv: PvId) {
        if let Some((number, member)) = self.member(wanted) {
            member.pv = Some(pv);
            self.by_pv.insert(pv, number);
        }
    }

    /// The relay refuses a PV, which ends its operation; returns the message that tells the client.
    pub fn refused(&mut self, wanted: &Wanted, why: &str) -> Option<Vec<u8>> {
        let (number, member) = self.member(wanted)?;
        // The client may have ended the operation and begun an equal one, which waits.
        if member.is_waiting {
            return None;
        }
        if let Some(pv) = member.pv.take() {
            self.by_pv.remove(&pv);
        }
        let open = self.forget(number)?;
        let message = format!("{}: {why}", wanted.name);
        Some(self.settings.protocol.error(&open.quoted, &error(&message)))
    }
}

/// What precedes and follows the result of a PV in the messages of a subscription.
fn around(protocol: Protocol, quoted: &[u8], root: &Root) -> (Vec<u8>, Vec<u8>) {
    // JSON doesn't contain this byte.
    const RESULT: u8 = 0;
    let mut response = Vec::new();
    root.push_result(&[&[RESULT]], &mut response);
    let message = protocol.next(quoted, &response);
    let mut sides = message
        .splitn(2, |byte| *byte == RESULT)
        .map(<[u8]>::to_vec);
    let mut side = || sides.next().unwrap_or_default();
    (side(), side())
}

fn text_bytes(operation: &Operation, id: &str) -> usize {
    let roots = operation.roots().iter();
    let names = roots.flat_map(|root| root.request().names());
    names.map(String::len).sum::<usize>() + 2 * id.len()
}

/// Fields that an operation selects of a PV with every update, and its number of PVs; nothing if it has one response.
fn subscribed(operation: &Operation) -> (usize, usize) {
    let is_subscription = operation.kind() == OperationKind::Subscription;
    let root = operation.roots().first().filter(|_| is_subscription);
    let fields = root.and_then(Root::selection);
    (
        fields.map_or(0, |selection| selection.fields()),
        root.map_or(0, |root| root.request().names().len()),
    )
}

fn close(code: u16, reason: &str) -> Reply {
    let mut reason = reason.to_owned();
    reason.truncate(reason.floor_char_boundary(MAX_REASON_BYTES));
    Reply::Close(code, reason)
}

/// A list with one error.
fn error(message: &str) -> Vec<u8> {
    let mut text = b"[{\"message\":".to_vec();
    pvwire_core::format::push_quoted(message, &mut text);
    text.extend_from_slice(b"}]");
    text
}

#[cfg(test)]
mod tests;
