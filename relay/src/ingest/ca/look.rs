//! Looks: single requests to IOCs for the text of a field or the type of a name.
//!
//! A thread opens a channel for each look, waits for the answer and closes it. The number
//! of open ones is limited, so that a restarted IOC doesn't get ten thousand requests at once.

use std::collections::{HashMap, VecDeque};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use pvwire_epics::ca::{self, AccessRights, ChannelEvents, ChannelInfo, NameParts, NativeType};

/// Maximum number of open looks.
const AT_A_TIME: usize = 256;

/// What a look asks for.
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
/// looks, unless the relay ends before.
pub(super) type Answer = Box<dyn FnOnce(Option<Found>) + Send>;

/// One request.
pub(super) struct Look {
    pub(super) name: String,
    pub(super) what: What,
    /// Its time limit.
    pub(super) within: Duration,
    /// A client waits for it: it goes before those that aren't urgent.
    pub(super) is_urgent: bool,
    pub(super) answer: Answer,
}

/// The looks of one client context.
#[derive(Debug)]
pub(super) struct Looks {
    messages: Sender<Message>,
    opener: ca::Opener,
}

enum Message {
    Ask(Look),
    Told(u64, Found),
    Stop,
}

impl Looks {
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
            .name("ca-looks".to_owned())
            .spawn(move || thread.run(&received))
            .map_err(|source| ca::StartError::Thread {
                name: "ca-looks",
                source,
            })?;
        Ok(Self { messages, opener })
    }

    /// Adds a look. Doesn't block.
    pub(super) fn ask(&self, look: Look) {
        // The thread is gone only when the relay ends.
        let _ = self.messages.send(Message::Ask(look));
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

struct Open {
    _channel: ca::Channel,
    until: Instant,
    answer: Answer,
}

struct Thread {
    opener: ca::Opener,
    messages: Sender<Message>,
    urgent: VecDeque<Look>,
    others: VecDeque<Look>,
    open: HashMap<u64, Open>,
    next: u64,
}

impl Thread {
    fn run(mut self, received: &Receiver<Message>) {
        loop {
            self.open_some();
            let until = self.open.values().map(|open| open.until).min();
            let message = match until {
                None => received.recv().map_err(RecvTimeoutError::from),
                Some(until) => {
                    received.recv_timeout(until.saturating_duration_since(Instant::now()))
                }
            };
            match message {
                Ok(Message::Ask(look)) if look.is_urgent => self.urgent.push_back(look),
                Ok(Message::Ask(look)) => self.others.push_back(look),
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
                }
            }
        }
    }

    fn open_some(&mut self) {
        while self.open.len() < AT_A_TIME
            && let Some(look) = self.urgent.pop_front().or_else(|| self.others.pop_front())
        {
            let id = self.next;
            self.next += 1;
            let sink = Sink {
                id,
                what: look.what,
                messages: self.messages.clone(),
                seen: Mutex::default(),
            };
            let sink = Arc::new(sink);
            let opened = match look.what {
                What::Shape => self.opener.open_for_shape(&look.name, sink),
                What::Text if NameParts::of(&look.name).is_long_string => {
                    self.opener.open_for_value(&look.name, sink)
                }
                What::Text => self.opener.open_as_text(&look.name, sink),
            };
            match opened {
                Ok(channel) => {
                    let open = Open {
                        _channel: channel,
                        until: Instant::now() + look.within,
                        answer: look.answer,
                    };
                    self.open.insert(id, open);
                }
                Err(_) => (look.answer)(None),
            }
        }
    }
}

/// The callbacks of the channel of a look.
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
            // The thread is gone only when the relay ends.
            let _ = self.messages.send(Message::Told(self.id, found));
        }
    }
}

impl ChannelEvents for Sink {
    fn connected(&self, info: ChannelInfo) {
        self.note(|seen| seen.shape = Some((info.native_type, info.element_count)));
    }

    fn disconnected(&self) {}

    fn access_rights(&self, _: AccessRights) {}

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
