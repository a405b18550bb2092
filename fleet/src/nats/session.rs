//! One connection to NATS, from the search for a server to the loss of the connection.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use async_nats::connection::State;
use async_nats::{Client, Event, HeaderMap, Message, Subject, Subscriber};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::AbortHandle;

use super::connect::connect;
use super::inbox::{Inbox, PIECE, Pieces, SEAL};
use super::{Command, Settings, Shared, count};
use crate::bus::AskError;
use crate::member::MemberId;
use crate::pieces::split;
use crate::seal::Content;
use crate::subject::Subjects;

/// The shards that this member follows.
pub(super) type Follows = HashSet<(MemberId, u16)>;

/// The first pause before the servers are tried again, which doubles up to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LAST_PAUSE: Duration = Duration::from_secs(1);

/// The library's events may be lost; its state is checked this often. Each check costs a wake-up.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// What waits at the end is sent within this time.
const SEND_WITHIN: Duration = Duration::from_secs(1);

/// Room in a message for the headers that name a piece and sign it.
const HEADER_BYTES: usize = 512;

/// The pause before the next connection when this one has lasted so long: a server that accepts connections and ends
/// them at once is not tried again without a pause.
pub(super) fn pause_after(lasted: Duration, before: Duration) -> Duration {
    if lasted >= LAST_PAUSE {
        return Duration::ZERO;
    }
    (2 * before).clamp(FIRST_PAUSE, LAST_PAUSE)
}

/// Connects after a pause, and serves the connection until it is lost (continue, with the time that it lasted) or the
/// bus ends (break).
pub(super) async fn run(
    settings: &Settings,
    shared: &Arc<Shared>,
    commands: &mut UnboundedReceiver<Command>,
    follows: &mut Follows,
    pause: Duration,
) -> ControlFlow<(), Duration> {
    let (sender, events) = unbounded_channel();
    let client = tokio::select! {
        client = async {
            tokio::time::sleep(pause).await;
            first_client(settings, shared, &sender).await
        } => client,
        () = refuse(shared, commands, follows) => return ControlFlow::Break(()),
        () = shared.requests.expire() => unreachable!("it has no end"),
    };
    let begun = Instant::now();
    let session = Session {
        client: client.clone(),
        subjects: shared.subjects(),
        shared: Arc::clone(shared),
        pieces: Arc::default(),
        next_message: 0,
        own_shards: Vec::new(),
        shards: HashMap::new(),
    };
    // Tasks, because what waits here beside the commands is polled for each of them. They end with the runtime.
    let lost = tokio::spawn(lost(client, events, Arc::clone(shared)));
    let of_requests = Arc::clone(shared);
    tokio::spawn(async move { of_requests.requests.expire().await });
    let (pieces, of_pieces) = (Arc::clone(&session.pieces), Arc::clone(shared));
    tokio::spawn(async move { pieces.give_up(&of_pieces.counters).await });
    tokio::select! {
        biased;
        _ = lost => ControlFlow::Continue(begun.elapsed()),
        ended = session.serve(commands, follows) => ended.map_continue(|()| LAST_PAUSE),
        () = stopped(shared) => ControlFlow::Break(()),
    }
}

/// Returns when the bus ends and NATS has not taken what waits within the time for it.
async fn stopped(shared: &Shared) {
    shared.stop.notified().await;
    tokio::time::sleep(SEND_WITHIN).await;
}

/// Tries the servers until one accepts the connection.
async fn first_client(
    settings: &Settings,
    shared: &Shared,
    events: &tokio::sync::mpsc::UnboundedSender<Event>,
) -> Client {
    let mut pause = FIRST_PAUSE;
    let mut reported = String::new();
    loop {
        match connect(settings, shared.subjects().me(), events.clone()).await {
            Ok(client) => return client,
            Err(error) => {
                let error = error.to_string();
                if error != reported {
                    log::warn!("bus {}: {error}", settings.servers);
                    reported = error;
                }
            }
        }
        tokio::time::sleep(pause).await;
        pause = (2 * pause).min(LAST_PAUSE);
    }
}

/// Takes commands while there is no connection, until the bus ends.
async fn refuse(shared: &Shared, commands: &mut UnboundedReceiver<Command>, follows: &mut Follows) {
    while let Some(command) = commands.recv().await {
        match command {
            Command::Ask(request, ..) => shared.requests.end(request, Err(AskError::NotSent)),
            Command::Publish(_, message) => {
                unqueue(shared, &message);
                count(&shared.counters.messages_refused, 1);
            }
            Command::Follow(owner, shard, on) => follow(follows, (owner, shard), on),
            Command::Rename(me) => shared.rename(me),
            Command::Announce(_) | Command::Reply(..) => {}
            Command::Stop => return,
        }
    }
}

fn follow(follows: &mut Follows, shard: (MemberId, u16), on: bool) {
    if on {
        follows.insert(shard);
    } else {
        follows.remove(&shard);
    }
}

fn unqueue(shared: &Shared, message: &[Bytes]) {
    let bytes = message.iter().map(Bytes::len).sum();
    shared.queued.fetch_sub(bytes, Ordering::Relaxed);
}

/// Returns when the connection is lost.
async fn lost(client: Client, mut events: UnboundedReceiver<Event>, shared: Arc<Shared>) {
    loop {
        let event = tokio::time::timeout(LOOK_EVERY, events.recv()).await;
        match event {
            Ok(Some(Event::SlowConsumer(_))) => shared.receiver.lost(),
            Ok(Some(Event::Disconnected | Event::Closed) | None) => return,
            Ok(Some(Event::ServerError(error))) => shared.errors.warn(error),
            Ok(Some(_)) => {}
            Err(_) if client.connection_state() == State::Connected => {}
            Err(_) => return,
        }
    }
}

struct Session {
    client: Client,
    subjects: Subjects,
    shared: Arc<Shared>,
    pieces: Arc<Pieces>,
    /// The number of the next message in pieces.
    next_message: u64,
    /// The subjects of this member's shards, as far as they were needed.
    own_shards: Vec<Option<Subject>>,
    shards: HashMap<(MemberId, u16), AbortHandle>,
}

/// The library's channel is closed: the connection is lost, which [`lost`] finds.
struct Gone;

impl Session {
    /// Carries out commands until the bus ends (break), or this member continues under another id (continue).
    async fn serve(
        mut self,
        commands: &mut UnboundedReceiver<Command>,
        follows: &mut Follows,
    ) -> ControlFlow<()> {
        if self.begin(follows).await.is_err() {
            return std::future::pending().await;
        }
        while let Some(command) = commands.recv().await {
            match command {
                Command::Stop => break,
                Command::Rename(me) => {
                    self.shared.rename(me);
                    self.flush().await;
                    return ControlFlow::Continue(());
                }
                command => {
                    if self.carry_out(command, follows).await.is_err() {
                        return std::future::pending().await;
                    }
                }
            }
        }
        self.flush().await;
        ControlFlow::Break(())
    }

    /// Sends what waits.
    async fn flush(&self) {
        let _ = tokio::time::timeout(SEND_WITHIN, self.client.flush()).await;
    }

    async fn begin(&mut self, follows: &Follows) -> Result<(), Gone> {
        let subjects = &self.subjects;
        let (members, requests, answers) =
            (subjects.members(), subjects.requests(), subjects.answers());
        self.listen(members, Inbox::announced).await?;
        self.listen(requests, Inbox::requested).await?;
        self.listen(answers, Inbox::answered).await?;
        for (owner, shard) in follows {
            self.follow(*owner, *shard).await?;
        }
        self.client.flush().await.map_err(|_| Gone)?;
        count(&self.shared.counters.connections, 1);
        self.shared.connected.store(true, Ordering::Relaxed);
        self.shared.receiver.connected(true);
        Ok(())
    }

    async fn carry_out(&mut self, command: Command, follows: &mut Follows) -> Result<(), Gone> {
        match command {
            Command::Announce(presence) => {
                let subject = self.subjects.members().into();
                self.send(subject, None, presence).await
            }
            Command::Ask(request, to, kind, body) => {
                if !self.shared.requests.send(request) {
                    return Ok(());
                }
                let subject = self.subjects.ask(to, kind);
                let answer = self.subjects.answer(request);
                self.send(subject.into(), Some(answer), body).await
            }
            Command::Reply(subject, body) => self.send(subject.into(), None, body).await,
            Command::Publish(shard, message) => {
                unqueue(&self.shared, &message);
                let subject = self.own_shard(shard);
                self.send_unsigned(subject, joined(&message)).await
            }
            Command::Follow(owner, shard, true) => {
                let new = follows.insert((owner, shard));
                if new {
                    self.follow(owner, shard).await
                } else {
                    Ok(())
                }
            }
            Command::Follow(owner, shard, false) => {
                follows.remove(&(owner, shard));
                if let Some(task) = self.shards.remove(&(owner, shard)) {
                    task.abort();
                }
                self.pieces.lock().shards.forget((owner, shard));
                Ok(())
            }
            Command::Rename(_) | Command::Stop => Ok(()),
        }
    }

    fn own_shard(&mut self, shard: u16) -> Subject {
        let place = usize::from(shard);
        if place >= self.own_shards.len() {
            self.own_shards.resize(place + 1, None);
        }
        let subject = || Subject::from(self.subjects.own_shard(shard));
        self.own_shards[place].get_or_insert_with(subject).clone()
    }

    async fn follow(&mut self, owner: MemberId, shard: u16) -> Result<(), Gone> {
        let subject = self.subjects.shard(owner, shard);
        let task = self.listen(subject, move |inbox, message| {
            inbox.update(owner, shard, &message)
        });
        let task = task.await?;
        self.shards.insert((owner, shard), task);
        Ok(())
    }

    /// Subscribes a subject, and takes its messages in a task.
    async fn listen(
        &self,
        subject: String,
        take: impl Fn(&Inbox, Message) + Send + 'static,
    ) -> Result<AbortHandle, Gone> {
        let mut subscriber: Subscriber = self.client.subscribe(subject).await.map_err(|_| Gone)?;
        let inbox = Inbox::new(&self.shared, &self.pieces);
        let task = tokio::spawn(async move {
            while let Some(message) = subscriber.next().await {
                let counters = &inbox.shared.counters;
                count(&counters.messages_received, 1);
                count(&counters.bytes_received, message.payload.len());
                take(&inbox, message);
            }
        });
        Ok(task.abort_handle())
    }

    /// Sends a message, in pieces when it is too large for NATS. Each piece is signed.
    async fn send(
        &mut self,
        subject: Subject,
        reply: Option<String>,
        body: Bytes,
    ) -> Result<(), Gone> {
        if body.len() <= self.most() {
            return self.sign_and_send(subject, reply, None, body).await;
        }
        self.next_message += 1;
        for (piece, part) in split(&body, self.most(), self.next_message) {
            let piece = Some(piece.to_string());
            self.sign_and_send(subject.clone(), reply.clone(), piece, part)
                .await?;
        }
        Ok(())
    }

    /// The same of a message with updates, which has no signature.
    async fn send_unsigned(&mut self, subject: Subject, body: Bytes) -> Result<(), Gone> {
        if body.len() <= self.most() {
            return self.send_one(subject, None, None, body).await;
        }
        self.next_message += 1;
        for (piece, part) in split(&body, self.most(), self.next_message) {
            let mut headers = HeaderMap::new();
            headers.insert(PIECE, piece.to_string());
            self.send_one(subject.clone(), None, Some(headers), part)
                .await?;
        }
        Ok(())
    }

    /// Bytes that fit into one message of NATS.
    fn most(&self) -> usize {
        let most = self.client.max_payload().saturating_sub(HEADER_BYTES);
        most.max(HEADER_BYTES)
    }

    async fn sign_and_send(
        &self,
        subject: Subject,
        reply: Option<String>,
        piece: Option<String>,
        body: Bytes,
    ) -> Result<(), Gone> {
        let content = Content {
            subject: &subject,
            reply: reply.as_deref().unwrap_or(""),
            piece: piece.as_deref().unwrap_or(""),
            body: &body,
        };
        let seal = self.shared.seals.sign(self.subjects.me(), &content);
        let mut headers = HeaderMap::new();
        for (name, value) in [(SEAL, seal), (PIECE, piece)] {
            if let Some(value) = value {
                headers.insert(name, value);
            }
        }
        let headers = (!headers.is_empty()).then_some(headers);
        self.send_one(subject, reply, headers, body).await
    }

    async fn send_one(
        &self,
        subject: Subject,
        reply: Option<String>,
        headers: Option<HeaderMap>,
        body: Bytes,
    ) -> Result<(), Gone> {
        count(&self.shared.counters.messages_sent, 1);
        count(&self.shared.counters.bytes_sent, body.len());
        let client = &self.client;
        let sent = match (reply, headers) {
            (None, None) => client.publish(subject, body).await,
            (None, Some(headers)) => client.publish_with_headers(subject, headers, body).await,
            (Some(reply), None) => client.publish_with_reply(subject, reply, body).await,
            (Some(reply), Some(headers)) => {
                client
                    .publish_with_reply_and_headers(subject, reply, headers, body)
                    .await
            }
        };
        sent.map_err(|_| Gone)
    }
}

fn joined(message: &[Bytes]) -> Bytes {
    if let [one] = message {
        return one.clone();
    }
    let mut whole = BytesMut::with_capacity(message.iter().map(Bytes::len).sum());
    for segment in message {
        whole.extend_from_slice(segment);
    }
    whole.freeze()
}
