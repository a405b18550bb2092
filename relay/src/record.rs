//! The command `record`: a client that writes the frames of a relay to a file, for `--replay`.

pub mod export;

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use pvwire_schema::limits::MAX_FRAME_BYTES;
use pvwire_schema::types::{Filter, FrameKind, PvId, Reply, Request, RequestBody};
use pvwire_schema::{SUBPROTOCOL, decode, encode};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use thiserror::Error;
use tokio::signal::unix::{SignalKind, signal};
use tungstenite::client::client_with_config;
use tungstenite::http::Uri;
use tungstenite::protocol::WebSocketConfig;
use tungstenite::{ClientRequestBuilder, Message, WebSocket};

use crate::config::RecordOptions;
use crate::ingest::recording::{About, Item, NAMES_PER_REQUEST, RecordingError, Writer};
use crate::ops::file_reads::read_text;

/// How often the state of all PVs is recorded, from which a replay can begin.
const WHOLE_EVERY: Duration = Duration::from_secs(10);

/// The same for each PV of many, because a relay takes 1,000 names a second from a client.
const WHOLE_EVERY_OF_EACH: Duration = Duration::from_millis(2);

/// Time for a connection, and for the relay's first message.
const PATIENCE: Duration = Duration::from_secs(10);

/// Longest time without a check of the clock and of the stop signal.
const POLL: Duration = Duration::from_millis(100);

/// A relay without a message for this time is lost: it would have answered a ping.
const SILENCE: Duration = Duration::from_secs(10);
const PING_AFTER: Duration = Duration::from_secs(2);

/// Time before a lost relay is tried again.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Maximum length of the file with a token, in bytes.
const MAX_TOKEN_FILE: u64 = 64 << 10;

/// Number of the first request that isn't one for PVs.
const OTHER_REQUESTS: u32 = 1 << 20;

/// Why nothing is recorded, or no more.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The address can't be used.
    #[error("--url is {0:?}: expected ws://HOST:PORT/ws or wss://HOST/ws")]
    Url(String),
    /// The file can't be written.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: String,
        /// Why.
        source: RecordingError,
    },
    /// There was no connection.
    #[error("{url}: {why}")]
    Connect {
        /// The relay's address.
        url: String,
        /// Why.
        why: String,
    },
    /// The system lacks something.
    #[error(transparent)]
    System(#[from] io::Error),
}

trait Transport: Read + Write {}
impl<T: Read + Write> Transport for T {}

type Socket = WebSocket<Box<dyn Transport>>;

/// Records until a signal or the time of the options ends it. Returns a line about the recording.
///
/// # Errors
/// When the relay can't be reached at the start, or the file can't be written.
pub async fn record(options: RecordOptions) -> Result<String, RecordError> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let (sender, ended) = tokio::sync::oneshot::channel();
    thread::Builder::new()
        .name("record".into())
        .spawn(move || {
            // The other end waits for it.
            let _ = sender.send(Recorder::run(&options, &stopped));
        })?;
    tokio::pin!(ended);
    let result = tokio::select! {
        result = &mut ended => result,
        _ = interrupt.recv() => { stop.store(true, Ordering::Release); ended.await }
        _ = terminate.recv() => { stop.store(true, Ordering::Release); ended.await }
    };
    result.unwrap_or_else(|_| Err(io::Error::other("the thread has panicked").into()))
}

/// One recording.
struct Recorder<'a> {
    options: &'a RecordOptions,
    stop: &'a AtomicBool,
    ends: Option<Instant>,
    writer: Writer,
    frames: u64,
    losses: u64,
}

/// What a connection needs beside its socket.
struct Session {
    acked: Instant,
    ack_every: Duration,
    tick: u64,
    heard: Instant,
    whole: Instant,
    whole_every: Duration,
    is_subscribed: bool,
    /// Requests for all PVs, and how many of the first ones are not answered.
    requests: u32,
    unanswered: u32,
    next_request: u32,
}

fn connect(url: &str) -> Result<Socket, String> {
    let uri: Uri = url.parse().map_err(|_| "not an address".to_owned())?;
    let is_tls = uri.scheme_str() == Some("wss");
    let host = uri.host().unwrap_or_default();
    let host = host
        .trim_start_matches('[')
        .trim_end_matches(']')
        .to_owned();
    let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
    let say = |error: io::Error| error.to_string();
    let tcp = connect_tcp(&host, port).map_err(say)?;
    tcp.set_nodelay(true).map_err(say)?;
    tcp.set_read_timeout(Some(PATIENCE)).map_err(say)?;
    tcp.set_write_timeout(Some(PATIENCE)).map_err(say)?;
    let polled = tcp.try_clone().map_err(say)?;
    let stream: Box<dyn Transport> = match is_tls {
        true => Box::new(with_tls(host, tcp)?),
        false => Box::new(tcp),
    };
    // Not the one with packed columns: the file packs them better.
    let request = ClientRequestBuilder::new(uri).with_sub_protocol(SUBPROTOCOL);
    let config = WebSocketConfig::default()
        .max_message_size(Some(MAX_FRAME_BYTES))
        .max_frame_size(Some(MAX_FRAME_BYTES));
    let connected = client_with_config(request, stream, Some(config));
    let (socket, _) = connected.map_err(|error| error.to_string())?;
    polled.set_read_timeout(Some(POLL)).map_err(say)?;
    Ok(socket)
}

/// A host that is down is given up soon.
fn connect_tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut connected = Err(io::Error::other("it has no address"));
    for address in (host, port).to_socket_addrs()? {
        connected = TcpStream::connect_timeout(&address, PATIENCE);
        if connected.is_ok() {
            break;
        }
    }
    connected
}

fn with_tls(
    host: String,
    tcp: TcpStream,
) -> Result<StreamOwned<ClientConnection, TcpStream>, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(host).map_err(|error| error.to_string())?;
    let tls = ClientConnection::new(Arc::new(config), name).map_err(|error| error.to_string())?;
    Ok(StreamOwned::new(tls, tcp))
}

impl<'a> Recorder<'a> {
    fn run(options: &'a RecordOptions, stop: &'a AtomicBool) -> Result<String, RecordError> {
        let url = &options.url;
        if !url.starts_with("ws://") && !url.starts_with("wss://") {
            return Err(RecordError::Url(url.clone()));
        }
        let first = connect(url).map_err(|why| RecordError::Connect {
            url: url.clone(),
            why,
        })?;
        let about = About {
            relay: url.clone(),
            names: options.pvs.clone(),
        };
        let of_file = |source| RecordError::File {
            path: options.file.clone(),
            source,
        };
        let mut recorder = Self {
            options,
            stop,
            ends: options
                .seconds
                .map(|seconds| Instant::now() + Duration::from_secs(seconds)),
            writer: Writer::create(Path::new(&options.file), &about).map_err(of_file)?,
            frames: 0,
            losses: 0,
        };
        log::info!(
            "recording {} PVs of {url} to {}; Ctrl-C ends it",
            options.pvs.len(),
            options.file
        );
        let refused = recorder.record(first).map_err(of_file)?;
        if let Some(why) = refused {
            // The file was made for this recording, and nothing is in it.
            std::fs::remove_file(&options.file)?;
            let url = url.clone();
            return Err(RecordError::Connect { url, why });
        }
        let bytes = recorder.writer.bytes;
        let (frames, losses) = (recorder.frames, recorder.losses);
        let text = format!("{}: {frames} frames in {bytes} bytes", options.file);
        Ok(match losses {
            0 => format!("{text}\n"),
            _ => format!("{text}; the relay was lost {losses} times\n"),
        })
    }

    fn is_ended(&self) -> bool {
        let is_over = self.ends.is_some_and(|ends| Instant::now() >= ends);
        is_over || self.stop.load(Ordering::Acquire)
    }

    /// Records until the recording ends. Returns why the relay refuses it, if the first connection gave nothing.
    fn record(&mut self, first: Socket) -> Result<Option<String>, RecordingError> {
        let mut socket = Some(first);
        while !self.is_ended() {
            if let Some(mut connected) = socket.take() {
                let why = self.follow(&mut connected)?;
                if self.is_ended() {
                    let _ = connected.close(None);
                    let _ = connected.flush();
                    break;
                }
                if self.frames == 0 && self.losses == 0 {
                    return Ok(Some(why));
                }
                log::warn!("the relay is lost ({why}); trying again");
                self.losses += 1;
                self.writer.add(&Item::Lost, false)?;
            }
            // A connection may take a while.
            self.writer.flush()?;
            thread::sleep(AGAIN_AFTER);
            socket = connect(&self.options.url).ok();
        }
        self.writer.finish()?;
        Ok(None)
    }

    /// Records until the connection or the recording ends; returns why the connection is lost.
    fn follow(&mut self, socket: &mut Socket) -> Result<String, RecordingError> {
        let now = Instant::now();
        let requests = self.options.pvs.len().div_ceil(NAMES_PER_REQUEST) as u32;
        let mut session = Session {
            acked: now,
            ack_every: Duration::from_millis(250),
            tick: 0,
            heard: now,
            whole: now,
            whole_every: WHOLE_EVERY.max(WHOLE_EVERY_OF_EACH * self.options.pvs.len() as u32),
            is_subscribed: false,
            requests,
            unanswered: requests,
            next_request: OTHER_REQUESTS,
        };
        while !self.is_ended() {
            match socket.read() {
                Ok(Message::Binary(bytes)) => {
                    session.heard = Instant::now();
                    if let Err(why) = self.take(socket, &mut session, bytes)? {
                        return Ok(why);
                    }
                }
                Ok(Message::Close(frame)) => {
                    let why = frame.map_or_else(String::new, |frame| frame.reason.to_string());
                    return Ok(why);
                }
                Ok(_) => session.heard = Instant::now(),
                Err(tungstenite::Error::Io(error))
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(error) => return Ok(error.to_string()),
            }
            self.writer.flush_in_time()?;
            if let Err(why) = self.keep_up(socket, &mut session) {
                return Ok(why);
            }
        }
        Ok(String::new())
    }

    /// Takes one message. The inner error is that of the connection.
    fn take(
        &mut self,
        socket: &mut Socket,
        session: &mut Session,
        bytes: Bytes,
    ) -> Result<Result<(), String>, RecordingError> {
        let frame = match decode::frame(&bytes) {
            Ok(frame) => frame,
            Err(error) => return Ok(Err(format!("it sent a damaged frame: {error}"))),
        };
        let (kind, tick, reply_to) = (frame.kind(), frame.tick(), frame.reply_to());
        match frame.reply() {
            Some(Reply::Hello(hello)) => {
                session.ack_every = Duration::from_millis(hello.ack_interval_ms.into());
                return Ok(self.greet(socket, session, hello.authenticate));
            }
            Some(Reply::Subscribed { ids, errors }) => {
                session.tick = session.tick.max(tick);
                self.frames += 1;
                self.writer.add(&Item::Frame(bytes), reply_to == 1)?;
                if session.is_known(reply_to) {
                    return Ok(Ok(()));
                }
                session.unanswered = session.unanswered.saturating_sub(1);
                let first = (reply_to as usize).saturating_sub(1) * NAMES_PER_REQUEST;
                for error in errors {
                    let name = self.options.pvs.get(first + error.index as usize);
                    log::warn!("{}: {}", name.map_or("", String::as_str), error.message);
                }
                let ids = ids.into_iter().filter(|id| *id != PvId::NONE).collect();
                return Ok(session.send(socket, RequestBody::Describe { ids }));
            }
            Some(Reply::Error { message, .. }) if session.is_known(reply_to) => {
                log::warn!("the state of all PVs is recorded less often: {message}");
                session.whole_every *= 2;
                return Ok(Ok(()));
            }
            Some(Reply::Error { message, .. }) => return Ok(Err(message)),
            _ if kind == FrameKind::Answer => return Ok(Ok(())),
            _ => {}
        }
        session.tick = session.tick.max(tick);
        self.frames += 1;
        self.writer.add(&Item::Frame(bytes), false)?;
        Ok(Ok(()))
    }

    /// Answers the relay's first message.
    fn greet(
        &self,
        socket: &mut Socket,
        session: &mut Session,
        is_unknown: bool,
    ) -> Result<(), String> {
        if !is_unknown {
            return self.subscribe(socket, session);
        }
        let path = &self.options.token_file;
        if path.is_empty() {
            return Err("the relay wants a token: --token-file names a file with it".to_owned());
        }
        let token = read_text(path, MAX_TOKEN_FILE).map_err(|error| format!("{path}: {error}"))?;
        let token = token.trim().to_owned();
        session.send(socket, RequestBody::Authenticate { token })
    }

    /// Subscribes the PVs. Those that are subscribed already are sent again as they are now.
    fn subscribe(&self, socket: &mut Socket, session: &mut Session) -> Result<(), String> {
        (session.whole, session.is_subscribed) = (Instant::now(), true);
        for (names, id) in self.options.pvs.chunks(NAMES_PER_REQUEST).zip(1..) {
            let body = RequestBody::Subscribe {
                names: names.to_vec(),
                filter: Filter::default(),
            };
            send(socket, id, body)?;
        }
        Ok(())
    }

    /// Sends what is due.
    fn keep_up(&self, socket: &mut Socket, session: &mut Session) -> Result<(), String> {
        if session.tick > 0 && session.acked.elapsed() >= session.ack_every {
            session.acked = Instant::now();
            let tick = session.tick;
            session.send(socket, RequestBody::Ack { tick })?;
        }
        if session.is_subscribed && session.whole.elapsed() >= session.whole_every {
            self.subscribe(socket, session)?;
        }
        let silence = session.heard.elapsed();
        if silence >= SILENCE {
            return Err("it doesn't answer".to_owned());
        }
        if silence >= PING_AFTER {
            let ping = Message::Ping(Bytes::new());
            socket.send(ping).map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}

impl Session {
    /// Whether a request asks for PVs that are all subscribed.
    fn is_known(&self, request: u32) -> bool {
        self.unanswered == 0 && (1..=self.requests).contains(&request)
    }

    fn send(&mut self, socket: &mut Socket, body: RequestBody) -> Result<(), String> {
        self.next_request = self.next_request.wrapping_add(1).max(OTHER_REQUESTS);
        send(socket, self.next_request, body)
    }
}

fn send(socket: &mut Socket, id: u32, body: RequestBody) -> Result<(), String> {
    let message = encode::request(&Request { id, body });
    let sent = socket.send(Message::binary(message));
    sent.map_err(|error| error.to_string())
}
