//! What a connection to NATS receives: signatures are checked, and pieces put together, before the relay sees it.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_nats::{Message, StatusCode};
use serde::Deserialize;
use tokio::sync::Notify;

use super::{Command, Counters, Shared};
use crate::bus::{AskError, Kind, Reply};
use crate::member::MemberId;
use crate::pieces::{Added, Assemblies, GIVEN_UP_AFTER, MAX_MESSAGE};
use crate::refusals::Refusal;
use crate::seal::{Content, Way};
use crate::subject;

/// The header that names a piece.
pub(super) const PIECE: &str = "Pvwire-Piece";

/// The header with the signature.
pub(super) const SEAL: &str = "Pvwire-Seal";

/// Bytes of all unfinished messages in pieces, by what they are for.
const UPDATE_BYTES: usize = MAX_MESSAGE;
const REQUEST_BYTES: usize = 64 << 20;
const ANSWER_BYTES: usize = 256 << 20;

/// Bytes of the unfinished requests of one member. The longest is its interest in all PVs of an owner.
const REQUEST_BYTES_EACH: usize = 16 << 20;

/// Characters of a subject in the log.
const SHOWN_CHARACTERS: usize = 120;

/// Unfinished messages in pieces.
pub(super) struct Assembling {
    pub(super) shards: Assemblies<(MemberId, u16)>,
    requests: Assemblies<(MemberId, Kind)>,
    answers: Assemblies<u64>,
}

impl Assembling {
    fn show(&self, counters: &Counters) {
        let bytes = self.shards.bytes() + self.requests.bytes() + self.answers.bytes();
        (counters.unfinished_bytes).store(bytes as u64, Ordering::Relaxed);
    }
}

/// The unfinished messages of one connection.
pub(super) struct Pieces {
    all: Mutex<Assembling>,
    /// A message is unfinished.
    begun: Notify,
}

impl Default for Pieces {
    fn default() -> Self {
        Self {
            all: Mutex::new(Assembling {
                shards: Assemblies::new(UPDATE_BYTES, MAX_MESSAGE),
                requests: Assemblies::new(REQUEST_BYTES, REQUEST_BYTES_EACH),
                answers: Assemblies::new(ANSWER_BYTES, MAX_MESSAGE),
            }),
            begun: Notify::new(),
        }
    }
}

impl Pieces {
    pub(super) fn lock(&self) -> MutexGuard<'_, Assembling> {
        // Each change is complete before anything can panic.
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Frees the memory of messages whose senders are gone, for as long as it is polled.
    pub(super) async fn give_up(&self, counters: &Counters) {
        loop {
            self.begun.notified().await;
            let mut waits = true;
            while waits {
                tokio::time::sleep(GIVEN_UP_AFTER / 2 + Duration::from_millis(1)).await;
                let (mut all, now) = (self.lock(), Instant::now());
                let left = [
                    all.shards.give_up(now),
                    all.requests.give_up(now),
                    all.answers.give_up(now),
                ];
                all.show(counters);
                waits = left.contains(&true);
            }
        }
    }
}

/// What the tasks that take messages need.
pub(super) struct Inbox {
    pub(super) shared: Arc<Shared>,
    pieces: Arc<Pieces>,
}

impl Inbox {
    pub(super) fn new(shared: &Arc<Shared>, pieces: &Arc<Pieces>) -> Self {
        Self {
            shared: Arc::clone(shared),
            pieces: Arc::clone(pieces),
        }
    }

    pub(super) fn announced(&self, message: Message) {
        /// The sender, which must be the one that has signed.
        #[derive(Deserialize)]
        struct Named {
            id: MemberId,
        }
        let named = serde_json::from_slice(&message.payload).ok();
        let from = named.map(|named: Named| named.id);
        if self.is_genuine(Way::Announcement, from, &message) {
            self.shared.receiver.announced(message.payload);
        }
    }

    pub(super) fn requested(&self, message: Message) {
        let Some((kind, from)) = subject::request(&message.subject) else {
            return;
        };
        if !self.is_genuine(Way::Request, Some(from), &message) {
            return;
        }
        let key = (from, (from, kind));
        let Added::Whole(body) = self.add(|all| &mut all.requests, key, &message) else {
            return;
        };
        let Some(subject) = message.reply else {
            return;
        };
        let commands = self.shared.commands.clone();
        let reply = Reply::new(move |body| {
            // The bus has ended: the request times out.
            let _ = commands.send(Command::Reply(subject.into_string(), body));
        });
        self.shared.receiver.requested(from, kind, body, reply);
    }

    pub(super) fn answered(&self, message: Message) {
        let Some(request) = subject::answered(&message.subject) else {
            return;
        };
        // The server says so itself, without a signature: a program that says it in its place can interrupt requests.
        if message.status == Some(StatusCode::NO_RESPONDERS) {
            let is_signing = self.shared.seals.has_keys();
            let error = if is_signing {
                AskError::Unproved
            } else {
                AskError::NoMember
            };
            return self.shared.requests.end(request, Err(error));
        }
        let is_genuine = self.is_genuine(Way::Answer, None, &message);
        if !is_genuine || !self.shared.requests.is_sent(request) {
            return;
        }
        // Requests have one answer, so each has a separate sender.
        let key = (MemberId(request), request);
        if let Added::Whole(body) = self.add(|all| &mut all.answers, key, &message) {
            self.shared.requests.end(request, Ok(body));
        }
    }

    pub(super) fn update(&self, owner: MemberId, shard: u16, message: &Message) {
        let key = (owner, (owner, shard));
        match self.add(|all| &mut all.shards, key, message) {
            Added::Whole(whole) => self.shared.receiver.message(owner, shard, whole),
            Added::Waiting => {}
            Added::Lost => {
                self.refuse(Refusal::Budget, &message.subject);
                self.shared.receiver.lost();
            }
        }
    }

    /// Whether the message is of the member that it names. Others are counted.
    fn is_genuine(&self, way: Way, from: Option<MemberId>, message: &Message) -> bool {
        let header = |name| {
            let headers = message.headers.as_ref();
            headers.and_then(|headers| headers.get(name))
        };
        let content = Content {
            subject: &message.subject,
            reply: message.reply.as_deref().unwrap_or(""),
            piece: header(PIECE).map_or("", |piece| piece.as_str()),
            body: &message.payload,
        };
        let seals = &self.shared.seals;
        let signature = header(SEAL).map(|seal| seal.as_str());
        match seals.check(way, from, signature, &content) {
            Ok(()) => true,
            Err(why) => {
                self.refuse(why, &message.subject);
                false
            }
        }
    }

    fn refuse(&self, why: Refusal, subject: &str) {
        let shown: String = subject.chars().take(SHOWN_CHARACTERS).collect();
        let refusals = self.shared.seals.refusals();
        refusals.note(why, format_args!("a message on {shown:?}"));
    }

    /// Adds a message, which may be a piece.
    fn add<K: std::hash::Hash + Eq + Copy>(
        &self,
        of: impl Fn(&mut Assembling) -> &mut Assemblies<K>,
        place: (MemberId, K),
        message: &Message,
    ) -> Added {
        let headers = message.headers.as_ref();
        let Some(name) = headers.and_then(|headers| headers.get(PIECE)) else {
            return Added::Whole(message.payload.clone());
        };
        let Ok(piece) = name.as_str().parse() else {
            return Added::Lost;
        };
        let mut all = self.pieces.lock();
        let added = of(&mut all).add(place, piece, &message.payload, Instant::now());
        all.show(&self.shared.counters);
        if added == Added::Waiting {
            self.pieces.begun.notify_one();
        }
        added
    }
}
