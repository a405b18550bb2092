//! Queries: single requests to IOCs for the text of a field or the type of a name.
//!
//! A thread opens a channel for each query, waits for the answer and closes it. The number
//! of open ones is limited, so that a restarted IOC doesn't get ten thousand requests at once.

use std::collections::{HashMap, VecDeque};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use pvwire_epics::ca::{self, AccessRights, ChannelEvents, ChannelInfo, NameParts, NativeType};

use super::server::Servers;

/// Maximum number of open queries.
const AT_A_TIME: usize = 256;

/// What a query asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// Type and element count.
    Shape,
    /// Its value as a string, such as the label of a choice; the complete text if the name ends with `$`.
    Text,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) native: NativeType,
    pub(super) count: u32,
    /// Empty if only the shape was requested.
    pub(super) text: String,
    /// The text has the maximum length of a string of Channel Access, so it may have been
    /// truncated.
    pub(super) is_full: bool,
}

/// Takes what was found, or `None` if no IOC answered in time. Called once, on the thread of the
/// queries, unless the relay ends before.
pub(super) type Answer = Box<dyn FnOnce(Option<Found>) + Send>;

/// Called once, on the thread of the queries, when a query has no quick answer. The query goes on.
pub(super) type Late = Box<dyn FnOnce() + Send>;

/// Time after which a name that no server has answered is most likely no server's: libca has searched for it
/// several times.
const SEARCH_WITHIN: Duration = Duration::from_millis(250);

/// One request.
pub(super) struct FieldQuery {
    pub(super) name: String,
    pub(super) what: What,
    /// Its time limit.
    pub(super) within: Duration,
    /// For a caller that doesn't wait until the time limit: called when no server has the name after a quarter of a
    /// second, or when the server refuses to read it.
    pub(super) late: Option<Late>,
    /// A client waits for it: it goes before those that aren't urgent.
    pub(super) is_urgent: bool,
    pub(super) answer: Answer,
}

/// The queries of one client context.
#[derive(Debug)]
pub(super) struct FieldQueries {
    messages: Sender<Message>,
    opener: ca::Opener,
    servers: Servers,
}

enum Message {
    Ask(FieldQuery),
    /// A server has the name.
    Connected(u64),
    /// The server doesn't let the relay read it.
    Refused(u64),
    Told(u64, Found),
    Stop,
}

impl FieldQueries {
    /// Starts the thread. It ends by `stop`.
    pub(super) fn start(opener: ca::Opener) -> Result<Self, ca::StartError> {
        let (messages, received) = channel();
        let thread = Thread {
            opener: opener.clone(),
            messages: messages.clone(),
            urgent: VecDeque::new(),
            others: VecDeque::new(),
            open: HashMap::new(),
            next: 0,
        };
        thread::Builder::new()
            .name("ca-queries".to_owned())
            .spawn(move || thread.run(&received))
            .map_err(|source| ca::StartError::Thread {
                name: "ca-queries",
                source,
            })?;
        Ok(Self {
            messages,
            opener,
            servers: Servers::default(),
        })
    }

    /// Adds a query. Doesn't block.
    pub(super) fn ask(&self, query: FieldQuery) {
        // The thread is gone only when the relay ends.
        let _ = self.messages.send(Message::Ask(query));
    }

    /// The servers of the context.
    pub(super) fn servers(&self) -> &Servers {
        &self.servers
    }

    /// Opens further channels of the same context.
    pub(super) fn opener(&self) -> &ca::Opener {
        &self.opener
    }

    /// Ends the thread.
    pub(super) fn stop(&self) {
        let _ = self.messages.send(Message::Stop);
    }
}

struct OpenQuery {
    _channel: ca::Channel,
    until: Instant,
    /// When to call it, unless a server has the name by then.
    late: Option<(Option<Instant>, Late)>,
    answer: Answer,
}

impl OpenQuery {
    /// When something is due.
    fn next(&self) -> Instant {
        let late = self.late.as_ref().and_then(|(at, _)| *at);
        late.map_or(self.until, |at| at.min(self.until))
    }
}

struct Thread {
    opener: ca::Opener,
    messages: Sender<Message>,
    urgent: VecDeque<FieldQuery>,
    others: VecDeque<FieldQuery>,
    open: HashMap<u64, OpenQuery>,
    next: u64,
}

impl Thread {
    fn run(mut self, received: &Receiver<Message>) {
        loop {
            self.open_some();
            let until = self.open.values().map(OpenQuery::next).min();
            let message = match until {
                None => received.recv().map_err(RecvTimeoutError::from),
                Some(until) => {
                    received.recv_timeout(until.saturating_duration_since(Instant::now()))
                }
            };
            match message {
                Ok(Message::Ask(query)) if query.is_urgent => self.urgent.push_back(query),
                Ok(Message::Ask(query)) => self.others.push_back(query),
                Ok(Message::Connected(id)) => {
                    let open = self.open.get_mut(&id);
                    if let Some((at, _)) = open.and_then(|open| open.late.as_mut()) {
                        *at = None;
                    }
                }
                Ok(Message::Refused(id)) => {
                    let open = self.open.get_mut(&id);
                    if let Some((_, late)) = open.and_then(|open| open.late.take()) {
                        late();
                    }
                }
                Ok(Message::Told(id, found)) => {
                    if let Some(open) = self.open.remove(&id) {
                        (open.answer)(Some(found));
                    }
                }
                Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {
                    let now = Instant::now();
                    for (_, late) in self.open.extract_if(|_, open| open.until <= now) {
                        (late.answer)(None);
                    }
                    for open in self.open.values_mut() {
                        if let Some((_, late)) =
                            open.late.take_if(|(at, _)| at.is_some_and(|at| at <= now))
                        {
                            late();
                        }
                    }
                }
            }
        }
    }

    fn open_some(&mut self) {
        while self.open.len() < AT_A_TIME
            && let Some(query) = self.urgent.pop_front().or_else(|| self.others.pop_front())
        {
            let id = self.next;
            self.next += 1;
            let sink = Sink {
                id,
                what: query.what,
                messages: self.messages.clone(),
                seen: Mutex::default(),
            };
            let sink = Arc::new(sink);
            let opened = match query.what {
                What::Shape => self.opener.open_for_shape(&query.name, sink),
                What::Text if NameParts::of(&query.name).is_long_string => {
                    self.opener.open_for_value(&query.name, sink)
                }
                What::Text => self.opener.open_as_text(&query.name, sink),
            };
            match opened {
                Ok(channel) => {
                    let now = Instant::now();
                    let open = OpenQuery {
                        _channel: channel,
                        until: now + query.within,
                        late: query.late.map(|late| (Some(now + SEARCH_WITHIN), late)),
                        answer: query.answer,
                    };
                    self.open.insert(id, open);
                }
                Err(_) => (query.answer)(None),
            }
        }
    }
}

/// The callbacks of the channel of a query.
struct Sink {
    id: u64,
    what: What,
    messages: Sender<Message>,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    shape: Option<(NativeType, u32)>,
    text: Option<(String, bool)>,
}

impl Sink {
    fn note(&self, note: impl FnOnce(&mut Seen)) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        note(&mut seen);
        let Some((native, count)) = seen.shape else {
            return;
        };
        let text = match self.what {
            What::Shape => Some((String::new(), false)),
            What::Text => seen.text.clone(),
        };
        if let Some((text, is_full)) = text {
            let found = Found {
                native,
                count,
                text,
                is_full,
            };
            self.tell(Message::Told(self.id, found));
        }
    }

    fn tell(&self, message: Message) {
        // The thread is gone only when the relay ends.
        let _ = self.messages.send(message);
    }
}

impl ChannelEvents for Sink {
    fn connected(&self, info: ChannelInfo) {
        self.tell(Message::Connected(self.id));
        self.note(|seen| seen.shape = Some((info.native_type, info.element_count)));
    }

    fn disconnected(&self) {}

    fn access_rights(&self, rights: AccessRights) {
        if self.what == What::Text && !rights.read {
            self.tell(Message::Refused(self.id));
        }
    }

    fn refused(&self, _: &str) {
        self.tell(Message::Refused(self.id));
    }

    fn metadata(&self, _: ca::Metadata) {}

    fn update(&self, update: ca::Update<'_>) {
        self.note(|seen| match update.value {
            ca::Value::Text(bytes) => {
                seen.text = Some((ca::text(bytes), bytes.len() >= super::STRING_BYTES));
            }
            ca::Value::Array(array) if array.element == NativeType::Char => {
                seen.text = Some((super::value::text_of(array.bytes), false));
            }
            ca::Value::Array(_) | ca::Value::Number(_) => {}
        });
    }
}
