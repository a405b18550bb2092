//! Accepts connections and answers probes, on a separate thread: orchestrators stop a relay whose probes are late, so
//! these wait for no client's request.
//!
//! Everything that operators' listener gets is answered here, and `/live`, `/ready` and `/metrics` of the clients'
//! listener. Other connections go on to the thread of the HTTP server. Which of the two a connection is for shows
//! in its first bytes; behind TLS it doesn't.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::task::LocalSet;
use tokio::time::{Instant, timeout_at};

use hyper::StatusCode;

use super::{ANSWER_TIMEOUT, Audience, SENDING, Server, Visit};
use crate::http::connection::{Connection, Progress};
use crate::limits::connections::Stay;
use crate::limits::descriptors::Room;
use crate::limits::lines::Lines;
use crate::ops::shutdown::Indispensable;
use crate::ops::thread_cache::give_back_when_asked;

/// Time limit for a request, including the TLS handshake.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);

/// Shortest time after which the kernel gives up a client whose machine or network is gone.
const GONE_AFTER: Duration = Duration::from_secs(40);

/// How long to wait after the system refused a connection, as when file descriptors run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Warnings of connections that can't be accepted: a second, and at once.
const WARNINGS_PER_S: usize = 1;
const WARNINGS_AT_ONCE: usize = 10;

/// First byte of a TLS handshake; a method of HTTP begins with a letter.
const TLS_HANDSHAKE: u8 = 0x16;

/// Requests that are answered by this thread; a blank or a query follows.
const PROBES: [&str; 6] = [
    "GET /live",
    "GET /ready",
    "GET /metrics",
    "HEAD /live",
    "HEAD /ready",
    "HEAD /metrics",
];

/// The bytes of a request that are peeked.
const LOOKED_AT: usize = 16;

/// A connection of a client on its way to the thread of the HTTP server.
pub struct Accepted {
    tcp: std::net::TcpStream,
    progress: Arc<Progress>,
    visit: Visit,
    begin: Begin,
}

/// What the first byte of a connection has shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begin {
    /// It begins with TLS.
    pub(super) has_tls: bool,
    /// When its request must be complete.
    pub(super) until: Instant,
}

impl Accepted {
    /// The connection, for use in this thread's runtime.
    pub(super) fn resumed(self) -> io::Result<(Connection, Visit, Begin)> {
        let tcp = TcpStream::from_std(self.tcp)?;
        let connection = Connection::moved(tcp, self.progress);
        Ok((connection, self.visit, self.begin))
    }
}

/// The thread of the listeners. It ends when this is dropped.
pub struct Listening {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Listening {
    /// Starts the thread. Returns it, and the clients' connections for [`Server::serve`]: their number is bounded by
    /// the limits on connections.
    ///
    /// # Errors
    /// When the system gives no thread or runtime.
    pub fn start(
        server: &Arc<Server>,
        listeners: Vec<(std::net::TcpListener, Audience)>,
    ) -> io::Result<(Self, UnboundedReceiver<Accepted>)> {
        let (clients, accepted) = unbounded_channel();
        let (stop, stopped) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let server = Arc::clone(server);
        let run = move || {
            let _alive = Indispensable("listeners");
            let set = LocalSet::new();
            set.block_on(&runtime, async move {
                tokio::task::spawn_local(give_back_when_asked());
                for (listener, audience) in listeners {
                    match TcpListener::from_std(listener) {
                        Ok(listener) => {
                            let accepting =
                                Arc::clone(&server).accept(listener, audience, clients.clone());
                            tokio::task::spawn_local(accepting);
                        }
                        Err(error) => panic!("a listener can't be used: {error}"),
                    }
                }
                // The sender is never used: it is gone when the relay stops.
                let _ = stopped.await;
            });
        };
        let thread = thread::Builder::new().name("listeners".into()).spawn(run)?;
        let listening = Self {
            stop: Some(stop),
            thread: Some(thread),
        };
        Ok((listening, accepted))
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // The panic hook has already reported a panic of the thread.
            let _ = thread.join();
        }
    }
}

impl Server {
    /// Accepts connections for ever.
    async fn accept(
        self: Arc<Self>,
        listener: TcpListener,
        audience: Audience,
        clients: UnboundedSender<Accepted>,
    ) {
        let mut is_short = false;
        let mut lines = Lines::new(WARNINGS_PER_S, WARNINGS_AT_ONCE, std::time::Instant::now());
        loop {
            let (stream, from) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    let line = format_args!("a connection could not be accepted: {error}");
                    lines.say(log::Level::Warn, line, std::time::Instant::now());
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let now = std::time::Instant::now();
            // A refusal would occupy the descriptor for a while, too.
            let was_short = is_short;
            let room = self.gate.room(audience, now);
            is_short = room.is_none();
            let Some(room) = room else {
                self.refused(StatusCode::SERVICE_UNAVAILABLE);
                if !was_short {
                    let line = format_args!(
                        "new connections are closed at once, because the remaining file descriptors are kept \
                         for EPICS: raise the limit (LimitNOFILE, ulimit -n)"
                    );
                    lines.say(log::Level::Warn, line, now);
                }
                continue;
            };
            // The limits on clients don't apply to operators.
            let stay = if audience == Audience::Clients {
                let stay = self.gate.enter(from.ip(), now);
                if stay.is_none() {
                    self.refused(StatusCode::TOO_MANY_REQUESTS);
                    continue;
                }
                stay
            } else {
                None
            };
            let server = Arc::clone(&self);
            let whose = (from, audience, room);
            tokio::task::spawn_local(server.begin(stream, whose, stay, clients.clone()));
        }
    }

    /// Reads the first bytes of a connection, and serves it or passes it on.
    async fn begin(
        self: Arc<Self>,
        stream: TcpStream,
        (from, audience, room): (SocketAddr, Audience, Room),
        stay: Option<Stay>,
        clients: UnboundedSender<Accepted>,
    ) {
        let until = Instant::now() + HEADER_TIMEOUT;
        let mut first = [0; LOOKED_AT];
        let Ok(Ok(count @ 1..)) = timeout_at(until, stream.peek(&mut first)).await else {
            return log::debug!("a connection ended before its first byte");
        };
        let gone_after = GONE_AFTER.max(2 * self.evict_after);
        let connection = match Connection::new(stream, gone_after) {
            Ok(connection) => connection,
            Err(error) => return log::debug!("a connection ended at once: {error}"),
        };
        let progress = connection.progress();
        let visit = Visit {
            from,
            audience,
            room,
            progress: Arc::clone(&progress),
            stay: Mutex::new(stay),
            streams: AtomicBool::new(false),
            lacks_tls: false,
            answer_by: until + ANSWER_TIMEOUT - SENDING,
        };
        let begin = Begin {
            has_tls: first[0] == TLS_HANDSHAKE,
            until,
        };
        if audience == Audience::Operators || (self.tls.is_none() && is_probe(&first[..count])) {
            return self.converse(connection, visit, begin).await;
        }
        match connection.into_std() {
            Ok(tcp) => {
                // The receiver is gone only when the relay ends.
                let _ = clients.send(Accepted {
                    tcp,
                    progress,
                    visit,
                    begin,
                });
            }
            Err(error) => log::debug!("a connection ended at once: {error}"),
        }
    }
}

/// Whether a request that begins with these bytes is answered here.
fn is_probe(first: &[u8]) -> bool {
    PROBES.iter().any(|probe| {
        let rest = first.strip_prefix(probe.as_bytes());
        rest.is_some_and(|rest| matches!(rest.first(), Some(b' ' | b'?')))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_show_in_their_first_bytes() {
        for probe in [
            "GET /live HTTP/1.1\r\n",
            "GET /ready?x HTTP/1.1",
            "GET /metrics HTTP/1.1",
            "HEAD /metrics HTTP/1.1",
        ] {
            assert!(is_probe(&probe.as_bytes()[..LOOKED_AT]), "{probe}");
        }
        for other in [
            "GET /lively HTTP/",
            "GET /pv/live HTT",
            "G",
            "GET /live",
            "POST /live HTTP/",
        ] {
            assert!(!is_probe(other.as_bytes()), "{other}");
        }
    }
}
