//! One connection to NATS, from the search for a server to the loss of the connection.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_nats::connection::State;
use async_nats::{Client, Event, HeaderMap, Message, StatusCode, Subject, Subscriber};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::AbortHandle;

use super::connect::connect;
use super::{Command, Settings, Shared, count};
use crate::bus::{AskError, Kind, Reply};
use crate::member::MemberId;
use crate::pieces::{Added, Assemblies, Piece, split};
use crate::subject;

/// The shards that this member follows.
pub(super) type Follows = HashSet<(MemberId, u16)>;

/// The first pause before the servers are tried again, which doubles up to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LAST_PAUSE: Duration = Duration::from_secs(1);

/// The library's events may be lost; its state is looked at this often. Each look costs a wake-up.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// What waits at the end is sent within this time.
const SEND_WITHIN: Duration = Duration::from_secs(1);

/// Bytes of all unfinished messages in pieces.
const ASSEMBLY_BYTES: usize = 256 * 1024 * 1024;

/// The header that names a piece.
const PIECE: &str = "Pvwire-Piece";

/// Room in a message for that header.
const HEADER_BYTES: usize = 256;

/// What a message in pieces belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Way {
    Shard(MemberId, u16),
    Request(MemberId, Kind),
    Answer(u64),
}

/// The pause before the next connection when this one has lasted so long: a server that accepts connections and ends
/// them at once is not asked again without a pause.
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
        shared: Arc::clone(shared),
        pieces: Arc::new(Mutex::new(Assemblies::new(ASSEMBLY_BYTES))),
        next_message: 0,
        own_shards: Vec::new(),
        shards: HashMap::new(),
    };
    // Tasks, because what waits here beside the commands is polled for each of them. They end with the runtime.
    let lost = tokio::spawn(lost(client, events, Arc::clone(shared)));
    let of_requests = Arc::clone(shared);
    tokio::spawn(async move { of_requests.requests.expire().await });
    tokio::select! {
        biased;
        _ = lost => ControlFlow::Continue(begun.elapsed()),
        () = session.serve(commands, follows) => ControlFlow::Break(()),
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
        match connect(settings, shared.subjects.me(), events.clone()).await {
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
            Ok(Some(Event::ServerError(error))) => log::warn!("bus: {error}"),
            Ok(Some(_)) => {}
            Err(_) if client.connection_state() == State::Connected => {}
            Err(_) => return,
        }
    }
}

struct Session {
    client: Client,
    shared: Arc<Shared>,
    pieces: Arc<Mutex<Assemblies<Way>>>,
    /// The number of the next message in pieces.
    next_message: u64,
    /// The subjects of this member's shards, as far as they were needed.
    own_shards: Vec<Option<Subject>>,
    shards: HashMap<(MemberId, u16), AbortHandle>,
}

/// The library's channel is closed: the connection is lost, which [`lost`] finds.
struct Gone;

impl Session {
    async fn serve(mut self, commands: &mut UnboundedReceiver<Command>, follows: &mut Follows) {
        if self.begin(follows).await.is_err() {
            return std::future::pending().await;
        }
        while let Some(command) = commands.recv().await {
            if matches!(command, Command::Stop) {
                let _ = tokio::time::timeout(SEND_WITHIN, self.client.flush()).await;
                return;
            }
            if self.carry_out(command, follows).await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    async fn begin(&mut self, follows: &Follows) -> Result<(), Gone> {
        let subjects = self.shared.subjects.clone();
        let (members, asked, answers) = (subjects.members(), subjects.asked(), subjects.answers());
        self.listen(members, |session, message| {
            session.shared.receiver.announced(message.payload)
        })
        .await?;
        self.listen(asked, Inbox::asked).await?;
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
                let subject = self.shared.subjects.members().into();
                self.send(subject, None, presence).await
            }
            Command::Ask(request, to, kind, body) => {
                if !self.shared.requests.send(request) {
                    return Ok(());
                }
                let subject = self.shared.subjects.ask(to, kind);
                let answer = self.shared.subjects.answer(request);
                self.send(subject.into(), Some(answer), body).await
            }
            Command::Reply(subject, body) => self.send(subject.into(), None, body).await,
            Command::Publish(shard, message) => {
                unqueue(&self.shared, &message);
                let subject = self.own_shard(shard);
                self.send(subject, None, joined(&message)).await
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
                let mut pieces = self.pieces.lock().expect("no holder of the lock panics");
                pieces.forget(Way::Shard(owner, shard));
                Ok(())
            }
            Command::Stop => Ok(()),
        }
    }

    fn own_shard(&mut self, shard: u16) -> Subject {
        let place = usize::from(shard);
        if place >= self.own_shards.len() {
            self.own_shards.resize(place + 1, None);
        }
        let subject = || Subject::from(self.shared.subjects.own_shard(shard));
        self.own_shards[place].get_or_insert_with(subject).clone()
    }

    async fn follow(&mut self, owner: MemberId, shard: u16) -> Result<(), Gone> {
        let subject = self.shared.subjects.shard(owner, shard);
        let way = Way::Shard(owner, shard);
        let task = self.listen(subject, move |inbox, message| {
            if let Some(message) = inbox.whole(way, &message) {
                inbox.shared.receiver.message(owner, shard, message);
            }
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
        let inbox = Inbox {
            shared: Arc::clone(&self.shared),
            pieces: Arc::clone(&self.pieces),
        };
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

    /// Sends a message, in pieces when it is too large for NATS.
    async fn send(
        &mut self,
        subject: Subject,
        reply: Option<String>,
        body: Bytes,
    ) -> Result<(), Gone> {
        let limit = self
            .client
            .max_payload()
            .saturating_sub(HEADER_BYTES)
            .max(HEADER_BYTES);
        if body.len() <= limit {
            return self.send_one(subject, reply, None, body).await;
        }
        self.next_message += 1;
        for (piece, part) in split(&body, limit, self.next_message) {
            let piece = Some(piece);
            self.send_one(subject.clone(), reply.clone(), piece, part)
                .await?;
        }
        Ok(())
    }

    async fn send_one(
        &self,
        subject: Subject,
        reply: Option<String>,
        piece: Option<Piece>,
        body: Bytes,
    ) -> Result<(), Gone> {
        count(&self.shared.counters.messages_sent, 1);
        count(&self.shared.counters.bytes_sent, body.len());
        let headers = piece.map(|piece| {
            let mut headers = HeaderMap::new();
            headers.insert(PIECE, piece.to_string());
            headers
        });
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

/// What the tasks that take messages need.
struct Inbox {
    shared: Arc<Shared>,
    pieces: Arc<Mutex<Assemblies<Way>>>,
}

impl Inbox {
    fn asked(&self, message: Message) {
        let Some((kind, from)) = subject::request(&message.subject) else {
            return;
        };
        let Some(body) = self.whole(Way::Request(from, kind), &message) else {
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
        self.shared.receiver.asked(from, kind, body, reply);
    }

    fn answered(&self, message: Message) {
        let Some(request) = subject::answered(&message.subject) else {
            return;
        };
        if message.status == Some(StatusCode::NO_RESPONDERS) {
            return self.shared.requests.end(request, Err(AskError::NoMember));
        }
        if let Some(body) = self.whole(Way::Answer(request), &message) {
            self.shared.requests.end(request, Ok(body));
        }
    }

    /// The message, or none while pieces are missing.
    fn whole(&self, way: Way, message: &Message) -> Option<Bytes> {
        let headers = message.headers.as_ref();
        let Some(name) = headers.and_then(|headers| headers.get(PIECE)) else {
            return Some(message.payload.clone());
        };
        let piece: Option<Piece> = name.as_str().parse().ok();
        let mut pieces = self.pieces.lock().expect("no holder of the lock panics");
        let added = piece.map(|piece| pieces.add(way, piece, &message.payload));
        drop(pieces);
        match added {
            Some(Added::Waiting) => None,
            Some(Added::Whole(whole)) => Some(whole),
            None | Some(Added::Lost) => {
                if matches!(way, Way::Shard(..)) {
                    self.shared.receiver.lost();
                }
                None
            }
        }
    }
}
