//! The door for clients of PVWS, at `/pvws/pv`.
//!
//! The tick thread writes each update's text once per form, and joins the texts of a group's PVs once. A form is a
//! PV under one spelling with one right to write: all other parts of a message are the same for every client.

pub mod formulas;
pub mod site;
mod spellings;
mod texts;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pvwire_pvws::{Dialect, Message, Reply, Settings, Socket, Target, read, text_message};
use pvwire_schema::types::{Filter, NameProblem, Outcome, PvId, Request};

use self::texts::Texts;
use crate::config::Config;
use crate::fanout::door_session::{
    DoorAction, DoorSession, HeldName, MessageReader, ReadMessage, WantedPv,
};
use crate::fanout::encoding::{BadRequest, Format, MessageEncoder, MessageKind};
use crate::fanout::frame::Frame;
use crate::ingest::{Form, OpEnd};
use crate::limits::lines::Lines;

/// Path of the handshake.
pub const PATH: &str = "/pvws/pv";

/// Opcode of a WebSocket ping.
const PING: u8 = 0x9;

/// Maximum number of names that are subscribed in one request.
const MOST_AT_A_TIME: usize = 10_000;

/// Lines of the log about names that have no value: a second, and at once.
const NAMES_PER_S: usize = 1;
const NAMES_AT_ONCE: usize = 10;

/// The door.
#[derive(Clone, Debug)]
pub struct Pvws {
    settings: Settings,
    /// Minimum interval between two updates of a PV.
    interval_ms: u32,
    /// The same while the value is an array.
    array_interval_ms: u32,
    /// Of the log, about names that have no value: each client that connects again may ask for one.
    names: Arc<Mutex<Lines>>,
}

impl Pvws {
    /// The door with the operator's settings.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        let millis = |interval: Duration| {
            let most = i32::MAX.cast_unsigned();
            u32::try_from(interval.as_millis()).map_or(most, |millis| millis.min(most))
        };
        Self {
            settings: Settings {
                default: Dialect::of(&config.pvws_default_type).unwrap_or(Dialect::Ca),
                writes: config.pvws_write,
                max_names: config.max_subscriptions,
            },
            interval_ms: millis(config.pvws_throttle),
            array_interval_ms: millis(config.pvws_array_throttle),
            names: lines(),
        }
    }
}

fn lines() -> Arc<Mutex<Lines>> {
    Arc::new(Mutex::new(Lines::new(
        NAMES_PER_S,
        NAMES_AT_ONCE,
        Instant::now(),
    )))
}

impl Format for Pvws {
    fn path(&self) -> &'static str {
        PATH
    }

    fn subprotocol(&self) -> Option<&'static str> {
        None
    }

    fn requests(&self) -> MessageKind {
        MessageKind::Text
    }

    fn request(&self, _message: &[u8]) -> Result<Request, BadRequest> {
        Err(BadRequest::Malformed)
    }

    fn door_session(&self) -> Option<Box<dyn DoorSession>> {
        Some(Box::new(PvwsSession {
            socket: Socket::new(self.settings),
            door: self.clone(),
            has_logged: false,
        }))
    }

    fn encoder(&self) -> Box<dyn MessageEncoder> {
        Box::new(Texts::default())
    }
}

/// The protocol state of one client.
struct PvwsSession {
    socket: Socket,
    door: Pvws,
    /// Whether an invalid name of the client is in the log.
    has_logged: bool,
}

/// Reads messages.
#[derive(Clone, Copy)]
struct Reader;

/// A message that was read, with its text if it is sent back.
struct WithText(Message, Vec<u8>);

impl MessageReader for Reader {
    fn read(&self, message: &[u8]) -> ReadMessage {
        // The connection has checked that it is UTF-8.
        let read = read(&String::from_utf8_lossy(message));
        let text = if read == Message::Echo { message } else { &[] };
        Box::new(WithText(read, text.to_vec()))
    }
}

fn text(text: &[u8]) -> Frame {
    Frame::message(MessageKind::Text as u8, text)
}

impl DoorSession for PvwsSession {
    fn reader(&self) -> Arc<dyn MessageReader> {
        Arc::new(Reader)
    }

    fn take(&mut self, message: ReadMessage) -> Option<DoorAction> {
        let WithText(message, echo) = *message.downcast::<WithText>().ok()?;
        Some(match self.socket.take_read(message)? {
            Reply::Text(answer) => DoorAction::Send(text(&answer)),
            Reply::Echo => DoorAction::Send(text(&echo)),
            Reply::Ping => DoorAction::Send(Frame::message(PING, &[])),
            Reply::Put {
                number,
                name,
                value,
            } => DoorAction::Put {
                number,
                name,
                value,
            },
        })
    }

    fn has_changes(&self) -> bool {
        self.socket.has_changes()
    }

    fn cleared(&mut self) -> Vec<PvId> {
        self.socket.cleared()
    }

    fn wanted(&mut self) -> Vec<WantedPv> {
        let Pvws {
            settings,
            interval_ms,
            array_interval_ms,
            ..
        } = self.door;
        let wanted = self.socket.wanted(MOST_AT_A_TIME).into_iter();
        let wanted = wanted.map(|wanted| WantedPv {
            name: wanted.target.name,
            filter: Filter {
                min_interval_ms: interval_ms,
                ..Filter::ALL
            },
            form: Form {
                spelling: wanted.spelling,
                scheme: wanted.target.scheme,
                may_write: settings.writes,
                array_interval_ms,
            },
            describe: false,
        });
        wanted.collect()
    }

    fn held(&self, most: usize) -> Vec<HeldName> {
        let held = self.socket.held().take(most);
        held.map(|(spelling, target, pv)| HeldName {
            spelling: spelling.to_owned(),
            name: target.map(|target| target.name.clone()),
            pv,
        })
        .collect()
    }

    fn accepted(&mut self, form: &Arc<Form>, pv: PvId) {
        self.socket.accepted(&form.spelling, pv, form.may_write);
    }

    fn refused(&mut self, form: &Form, problem: NameProblem, message: &str, out: &mut Vec<u8>) {
        if !matches!(problem, NameProblem::NoSuchSource | NameProblem::BadName) {
            text_message(out, &self.socket.refused(&form.spelling, message));
            return;
        }
        // PVWS doesn't answer invalid names. Only the first of a client is logged.
        if !std::mem::replace(&mut self.has_logged, true) {
            let mut names = (self.door.names.lock()).unwrap_or_else(PoisonError::into_inner);
            let spelling = &form.spelling;
            names.say(
                log::Level::Info,
                format_args!(
                    "a client of PVWS asks for {spelling:?}, which has no value: {message}"
                ),
                Instant::now(),
            );
        }
    }

    fn more_refused(&mut self, count: usize, out: &mut Vec<u8>) {
        text_message(out, &Socket::more_refused(count));
    }

    fn put_ended(&mut self, number: u32, end: &OpEnd) -> Option<Frame> {
        if end.outcome == Outcome::Done {
            self.socket.put_done(number);
            return None;
        }
        Some(text(&self.socket.put_failed(number, &end.message)))
    }

    fn rights_changed(&mut self, may_write: &dyn Fn(&str) -> bool) {
        let writes = self.door.settings.writes;
        let judged = |target: &Target| writes && may_write(&target.name);
        self.socket.rights_changed(judged);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_of_sockets_copies_no_more_names_than_it_shows() {
        let door = Pvws {
            settings: Settings {
                default: Dialect::Ca,
                writes: false,
                max_names: 100,
            },
            interval_ms: 0,
            array_interval_ms: 0,
            names: lines(),
        };
        let mut session = door.door_session().expect("PVWS has sessions");
        let names: Vec<_> = (0..100).map(|n| format!("\"X{n}\"")).collect();
        let names = names.join(",");
        let message = format!("{{\"type\":\"subscribe\",\"pvs\":[{names}]}}");
        let read = session.reader().read(message.as_bytes());
        assert!(session.take(read).is_none());
        let counts = [10, 100, 1_000].map(|most| session.held(most).len());
        assert_eq!(counts, [10, 100, 100]);
    }
}
