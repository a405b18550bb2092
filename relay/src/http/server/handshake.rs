//! The WebSocket handshake: checks the request, and hands the socket to a shard.
//!
//! Some clients look for `Sec-WebSocket-Protocol` in this spelling only, although the case of names has no meaning. hyper
//! spells names as they were in a request that it has read, if the answer has that request's extensions. It has no other
//! way to give it names with a capital letter inside a word, so it reads such a request here once.

use std::convert::Infallible;
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{Either, Empty, Full};
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::http::Extensions;
use hyper::service::service_fn;
use hyper::upgrade::Upgraded;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tokio_rustls::server::TlsStream;
use tungstenite::handshake::derive_accept_key;

use super::answer::{Answer, Refusal};
use super::trust::same;
use super::{Server, Visit};
use crate::access::auth::{Login, Peer};
use crate::fanout::encoding::Encoding;
use crate::http::connection::Connection;
use crate::limits::connections::{ClientPermit, SharedBudgets, Stay};
use crate::session::shard::{Arrival, ShardHandle};
use crate::session::transport::AnyTransport;

/// A shard that took no turn for so long gets no new clients while others do. Idle ones take one every two seconds.
const HANGS_AFTER: Duration = Duration::from_secs(4);

/// A client that a shard is about to get.
pub(super) struct Newcomer {
    pub(super) peer: Peer,
    /// The login that its handshake has proved.
    login: Option<Login>,
    rates: SharedBudgets,
    /// Counts as a connection and a client; absent where the connection isn't the client's.
    stay: Option<Stay>,
}

impl Server {
    /// Answers a WebSocket handshake and hands the socket to the shard with the fewest clients.
    pub(super) fn upgrade(
        self: &Arc<Self>,
        mut request: Request<Incoming>,
        visit: &Visit,
    ) -> Result<Answer, Refusal> {
        let headers = request.headers();
        self.check_client(headers, visit)?;
        let (key, encoding, subprotocol) = self.check(request.uri().path(), headers)?;
        let is_of_door = self.encodings.doors().contains(&encoding);
        let (mut newcomer, permit) = self.newcomer(headers, visit, is_of_door)?;
        newcomer.stay = visit.stay().take();
        if let Some(stay) = &mut newcomer.stay {
            stay.becomes(permit);
        }
        let upgrade = hyper::upgrade::on(&mut request);
        let server = Arc::clone(self);
        tokio::task::spawn_local(async move {
            match upgrade.await.map_err(io::Error::other).and_then(taken_out) {
                Ok((transport, read_ahead)) => {
                    server.hand_over(newcomer, encoding, transport, read_ahead);
                }
                Err(error) => log::debug!("a client left in the handshake: {error}"),
            }
        });
        let mut response = Response::new(Either::Left(Full::default()));
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        if let Some(subprotocol) = subprotocol {
            headers.insert(
                header::SEC_WEBSOCKET_PROTOCOL,
                HeaderValue::from_static(subprotocol),
            );
        }
        if let Ok(accept) = HeaderValue::from_str(&derive_accept_key(&key)) {
            headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
        }
        Ok(response)
    }

    /// The client that makes a request and becomes a shard's, and its permit. Clients of doors log in by their
    /// handshake, others by their first message.
    pub(super) fn newcomer(
        &self,
        headers: &HeaderMap,
        visit: &Visit,
        is_of_door: bool,
    ) -> Result<(Newcomer, ClientPermit), Refusal> {
        let (identity, login) = if is_of_door {
            self.gate.visitor(headers, visit)?
        } else {
            (self.gate.identity(headers, visit)?, None)
        };
        let permit = self.gate.take_permit()?;
        let (peer, rates) = self.gate.peer(identity, headers, visit)?;
        let newcomer = Newcomer {
            peer,
            login,
            rates,
            stay: None,
        };
        Ok((newcomer, permit))
    }

    /// Gives a client to the shard with the fewest clients of those that take their turns.
    pub(super) fn hand_over(
        &self,
        newcomer: Newcomer,
        encoding: Encoding,
        transport: AnyTransport,
        read_ahead: Vec<u8>,
    ) {
        let (shards, now) = (self.admin.shards.iter(), Instant::now());
        let place = |shard: &&ShardHandle| (shard.turned_ago(now) > HANGS_AFTER, shard.clients());
        if let Some(shard) = shards.min_by_key(place) {
            let Newcomer {
                peer,
                login,
                rates,
                stay,
            } = newcomer;
            let arrival = Arrival {
                transport,
                read_ahead,
                encoding,
                peer,
                rates,
                stay,
            };
            shard.adopt_logged_in(arrival, login);
        }
    }

    /// Checks who connects, before how: a page whose WebSocket fails asks again by a plain request,
    /// and is told the same.
    fn check_client(&self, headers: &HeaderMap, visit: &Visit) -> Result<(), Refusal> {
        if !self.gate.trust.origin(headers) {
            let message =
                "pages of this origin may not connect: the operator adds it by --allow-origin\n";
            return Err((StatusCode::FORBIDDEN, message).into());
        }
        self.gate.check_room(visit)?;
        self.gate.identity(headers, visit).map(drop)
    }

    /// Checks a handshake; returns the client's key, its encoding and the subprotocol to answer
    /// with.
    fn check(
        &self,
        path: &str,
        headers: &HeaderMap,
    ) -> Result<(Vec<u8>, Encoding, Option<&'static str>), Refusal> {
        let lists = |name, wanted: &str| {
            let values = headers
                .get_all(name)
                .iter()
                .filter_map(|value| value.to_str().ok());
            values
                .flat_map(|list| list.split(','))
                .any(|word| same(word.trim(), wanted))
        };
        if !lists(header::CONNECTION, "upgrade") || !lists(header::UPGRADE, "websocket") {
            let known = match self.encodings.subprotocols(path).join(" or ") {
                known if known.is_empty() => "without a subprotocol".to_owned(),
                known => format!("with the subprotocol {known}"),
            };
            let message = format!("{path} accepts WebSocket handshakes only, {known}\n");
            return Err((StatusCode::UPGRADE_REQUIRED, message).into());
        }
        if !lists(header::SEC_WEBSOCKET_VERSION, "13") {
            let message = format!("{path} accepts WebSocket version 13 only\n");
            return Err((StatusCode::UPGRADE_REQUIRED, message).into());
        }
        let key = (headers.get(header::SEC_WEBSOCKET_KEY))
            .ok_or((StatusCode::BAD_REQUEST, "Sec-WebSocket-Key is missing\n"))?;
        let offers = |known: &str| lists(header::SEC_WEBSOCKET_PROTOCOL, known);
        let (encoding, subprotocol) = self.encodings.select(path, offers).ok_or_else(|| {
            let known = self.encodings.subprotocols(path).join(" or ");
            let message = format!("{path} needs the WebSocket subprotocol {known}\n");
            (StatusCode::BAD_REQUEST, message)
        })?;
        Ok((key.as_bytes().to_vec(), encoding, subprotocol))
    }
}

/// The connection of an upgraded request, and the bytes that were read ahead.
fn taken_out(upgraded: Upgraded) -> io::Result<(AnyTransport, Vec<u8>)> {
    let upgraded = match upgraded.downcast::<TokioIo<Connection>>() {
        Ok(parts) => {
            let tcp = parts.io.into_inner().into_std()?;
            return Ok((AnyTransport::new(tcp, None)?, parts.read_buf.to_vec()));
        }
        Err(upgraded) => upgraded,
    };
    let parts = upgraded
        .downcast::<TokioIo<TlsStream<Connection>>>()
        .map_err(|_| io::Error::other("not a connection of this server"))?;
    let (tcp, tls) = parts.io.into_inner().into_inner();
    let transport = AnyTransport::new(tcp.into_std()?, Some(Box::new(tls)))?;
    Ok((transport, parts.read_buf.to_vec()))
}

/// A request whose headers have the names that are not in title case.
const NAMES: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\nSec-WebSocket-Accept: a\r\n\
    Sec-WebSocket-Protocol: a\r\nWWW-Authenticate: a\r\nConnection: close\r\n\r\n";

/// How answers spell the names of their headers.
#[derive(Clone, Debug, Default)]
pub struct HeaderCase(Extensions);

impl HeaderCase {
    /// Lets hyper read the names.
    ///
    /// # Errors
    /// When the system gives no socket pair.
    pub async fn read() -> io::Result<Self> {
        let (near, far) = UnixStream::pair()?;
        far.writable().await?;
        far.try_write(NAMES)?;
        let names = OnceLock::new();
        let service = service_fn(|request: Request<Incoming>| {
            // There is one request.
            let _ = names.set(request.extensions().clone());
            async { Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new())) }
        });
        let mut http = hyper::server::conn::http1::Builder::new();
        let served = http
            .preserve_header_case(true)
            .serve_connection(TokioIo::new(near), service)
            .await;
        served.map_err(io::Error::other)?;
        Ok(Self(names.into_inner().unwrap_or_default()))
    }

    /// Lets an answer spell its names so.
    pub(super) fn apply<B>(&self, answer: &mut Response<B>) {
        answer.extensions_mut().extend(self.0.clone());
    }
}
