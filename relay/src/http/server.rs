//! Who may talk to the relay over HTTP, and how does a request become a client of a shard?

use std::convert::Infallible;
use std::fmt::Display;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::service::service_fn;
use hyper::upgrade::Upgraded;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use pvwire_schema::{LZ4_SUBPROTOCOL, SUBPROTOCOL};
use rustls::ServerConnection;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tungstenite::handshake::derive_accept_key;

use crate::access::auth::{self, Peer, Tokens};
use crate::access::rule::Identity;
use crate::config::Pages;
use crate::http::admin::{Admin, STATUS_PAGE};
use crate::http::connection::{Connection, Progress};
use crate::http::tls::Tls;
use crate::limits::connections::{Callers, Stay, TooMany};
use crate::limits::descriptors::Descriptors;
use crate::ops::shutdown::{Readiness, Unready};
use crate::session::shard::{Arrival, ShardHandle};
use crate::session::stream::StreamBody;

/// A client must have sent its request by then, TLS's handshake included.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);

/// What a client that wants TLS sends first; a method of HTTP begins with a letter.
const TLS_HANDSHAKE: u8 = 0x16;

/// A fatal alert of TLS, `handshake_failure`: what such a client understands.
const TLS_REFUSAL: [u8; 7] = [0x15, 3, 1, 0, 2, 2, 40];

/// A client must have taken a short answer by then, after it asked.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// How often a stream of large values is looked at, and how much longer than a shard's its patience is.
const STREAM_CHECK: Duration = Duration::from_secs(5);

/// Shortest time after which the kernel gives up a client whose machine or network is gone.
const GONE_AFTER: Duration = Duration::from_secs(40);

/// How long to wait after the system refused a connection, as when file descriptors run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What `/ready` says.
const READY: &str = "ready\n";

/// The same of a relay whose puts wait for its audit file.
const READY_TO_READ: &str =
    "ready, but takes no puts: the audit file can't be written (audit_fail = closed)\n";

/// Where proxies say who called them.
const FORWARDED_FOR: header::HeaderName = header::HeaderName::from_static("x-forwarded-for");

/// How long threads that seem to hang are given to show that they don't.
const THREADS_MOMENT: Duration = Duration::from_millis(250);

/// Whether clients must name the subprotocol: the cases of the conformance test name none.
const NAMED: bool = cfg!(not(feature = "conformance"));

/// Which pages and host names are trusted.
#[derive(Clone, Debug, Default)]
pub struct Trust {
    /// Origins besides those of this host; `*` stands for all.
    pub origins: Vec<String>,
    /// Host names besides IP addresses and `localhost`.
    pub hosts: Vec<String>,
    /// The relay itself speaks TLS.
    pub encrypted: bool,
}

impl Trust {
    /// Whether `Host` is a name that this relay is meant by. A page of a foreign name that resolves
    /// to this machine is not: that is how DNS rebinding begins.
    fn host(&self, headers: &HeaderMap) -> bool {
        let Some(host) = only(headers, header::HOST) else {
            return false;
        };
        let name = host.rsplit_once(':').map_or(host, |(name, port)| {
            if port.bytes().all(|byte| byte.is_ascii_digit()) {
                name
            } else {
                host
            }
        });
        let literal = name
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'));
        literal.unwrap_or(name).parse::<IpAddr>().is_ok()
            || name.eq_ignore_ascii_case("localhost")
            || self
                .hosts
                .iter()
                .any(|known| known.eq_ignore_ascii_case(name))
            || self
                .origins
                .iter()
                .any(|origin| authority(origin).is_some_and(|of| same(of, host)))
    }

    /// Whether the page that asks may connect: one of this host, or one that is listed. Programs
    /// that are no browsers send no `Origin`.
    fn origin(&self, headers: &HeaderMap) -> bool {
        if !headers.contains_key(header::ORIGIN) {
            return true;
        }
        let Some(origin) = only(headers, header::ORIGIN) else {
            return false;
        };
        let host = only(headers, header::HOST).unwrap_or_default();
        // Without a port http and https name the same host, and anybody on the way can change a page of http.
        let is_safe = origin.starts_with("https:") || !self.is_reached_encrypted(headers);
        (is_safe && authority(origin).is_some_and(|of| same(of, host)))
            || self
                .origins
                .iter()
                .any(|known| known == "*" || known.eq_ignore_ascii_case(origin))
    }
}

impl Trust {
    /// Whether the browser speaks TLS with this relay, or with a proxy that says so. A page can't set what a
    /// proxy says.
    fn is_reached_encrypted(&self, headers: &HeaderMap) -> bool {
        let first = |value: &HeaderValue| {
            let value = value.to_str().unwrap_or_default();
            let first = value.split(',').next().unwrap_or_default().trim();
            same(first, "https") || same(first, "wss")
        };
        self.encrypted || headers.get("x-forwarded-proto").is_some_and(first)
    }
}

/// The value of a header that is there once: of two, who checks may see one and who uses it the other.
fn only(headers: &HeaderMap, name: header::HeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next().filter(|_| values.next().is_none());
    value.and_then(|value| value.to_str().ok())
}

/// Host and port of an origin.
fn authority(origin: &str) -> Option<&str> {
    origin
        .split_once("://")
        .filter(|(scheme, authority)| ["http", "https"].contains(scheme) && !authority.is_empty())
        .map(|(_, authority)| authority)
}

fn same(a: &str, b: &str) -> bool {
    a.eq_ignore_ascii_case(b)
}

/// The HTTP side of the relay.
pub struct Server {
    /// Answers for operators.
    pub admin: Admin,
    /// Whether new clients are welcome.
    pub readiness: Arc<Readiness>,
    /// Who is trusted.
    pub trust: Trust,
    /// Most clients at a time.
    pub max_clients: usize,
    /// Proxies that are believed.
    pub proxies: Vec<auth::Network>,
    /// What a proxy says of who a client is, where that is asked.
    pub gate: Option<ProxyHeaders>,
    /// What tells who a client is by its token, where that is asked.
    pub tokens: Option<Arc<Tokens>>,
    /// How many connections each address has, and how fast they come.
    pub callers: Arc<Callers>,
    /// Who gets operators' pages where clients connect.
    pub pages: Pages,
    /// Whether they are served elsewhere.
    pub has_admin_listener: bool,
    /// A client that takes nothing for so long is closed.
    pub evict_after: Duration,
    /// The certificate, where connections are encrypted.
    pub tls: Option<Arc<Tls>>,
    /// Whether more connections may be open.
    pub descriptors: Descriptors,
}

/// Where a proxy says who a client is.
pub struct ProxyHeaders {
    /// Name of the user.
    pub user: header::HeaderName,
    /// Names of the groups, with commas between them; `None` when the proxy says none, and what a client
    /// says itself counts for nothing.
    pub groups: Option<header::HeaderName>,
}

impl ProxyHeaders {
    /// Who a client of a trusted proxy is.
    fn identity(&self, headers: &HeaderMap) -> Result<Identity, Refused> {
        let user = only(headers, self.user.clone()).filter(|user| auth::is_name(user));
        let user = user.ok_or((
            StatusCode::UNAUTHORIZED,
            "the proxy doesn't say who you are: log in there\n",
        ))?;
        let named = self.groups.as_ref();
        let groups = match named.filter(|groups| headers.contains_key(*groups)) {
            None => "",
            // Of two the client may have sent one.
            Some(groups) => only(headers, groups.clone()).ok_or((
                StatusCode::UNAUTHORIZED,
                "the header with your groups came twice or isn't text: the proxy's operator sets it, so that \
                 what clients send is replaced\n",
            ))?,
        };
        let groups = groups.split(',').map(str::trim);
        let groups = groups.filter(|name| auth::is_name(name));
        Ok(Identity {
            user: Some(user.to_owned()),
            groups: groups.map(str::to_owned).collect(),
        })
    }
}

/// What a listener is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Clients, and what else `pages` says.
    Clients,
    /// Operators and their programs alone.
    Operators,
}

/// One connection and what is known of it.
struct Visit {
    from: SocketAddr,
    side: Side,
    progress: Arc<Progress>,
    /// Taken by the client that the connection becomes.
    stay: Mutex<Option<Stay>>,
    /// Its answer has no end.
    streams: AtomicBool,
    /// It speaks plain HTTP where TLS is wanted.
    lacks_tls: bool,
}

impl Visit {
    fn stay(&self) -> MutexGuard<'_, Option<Stay>> {
        self.stay.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Status and sentence of a handshake that isn't taken.
type Refused = (StatusCode, &'static str);

type Answer = Response<Either<Full<Bytes>, StreamBody>>;

impl Server {
    /// Accepts connections for ever.
    pub async fn serve(self: Arc<Self>, listener: TcpListener, side: Side) {
        let mut is_short = false;
        loop {
            let (stream, from) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    log::warn!("a connection could not be accepted: {error}");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let now = std::time::Instant::now();
            // Even a refusal would need the descriptor for a while.
            let was_short = is_short;
            is_short = !self.descriptors.accepted(side == Side::Operators, now);
            if is_short {
                self.refused(StatusCode::SERVICE_UNAVAILABLE);
                if !was_short {
                    log::warn!(
                        "connections are closed at once: the file descriptors that are left are kept for \
                         EPICS; raise the limit (LimitNOFILE, ulimit -n)"
                    );
                }
                continue;
            }
            // However many clients there are, operators are let in.
            let stay = if side == Side::Clients {
                let known = Some(from.ip()).filter(|ip| !self.is_proxy(*ip));
                let stay = self.callers.enter(known, now);
                if stay.is_none() {
                    self.refused(StatusCode::TOO_MANY_REQUESTS);
                    continue;
                }
                stay
            } else {
                None
            };
            let gone_after = GONE_AFTER.max(2 * self.evict_after);
            match Connection::new(stream, gone_after) {
                Ok(connection) => {
                    let visit = Visit {
                        from,
                        side,
                        progress: connection.progress(),
                        stay: Mutex::new(stay),
                        streams: AtomicBool::new(false),
                        lacks_tls: false,
                    };
                    tokio::task::spawn_local(Arc::clone(&self).converse(connection, visit));
                }
                Err(error) => log::debug!("a connection ended at once: {error}"),
            }
        }
    }

    fn is_proxy(&self, address: IpAddr) -> bool {
        self.proxies.iter().any(|network| network.holds(address))
    }

    fn refused(&self, status: StatusCode) {
        self.admin.metrics.refused(status.as_u16());
    }

    /// Finds out what a new connection speaks, and answers it if that is what this relay speaks.
    async fn converse(self: Arc<Self>, connection: Connection, mut visit: Visit) {
        let until = Instant::now() + HEADER_TIMEOUT;
        let mut first = [0];
        let Ok(Ok(1..)) = timeout_at(until, connection.tcp().peek(&mut first)).await else {
            return log::debug!("a connection ended before it said anything");
        };
        let from = visit.from;
        let failed = |why: &dyn Display| {
            self.admin.metrics.tls_handshakes_failed.inc();
            log::debug!("no TLS with {from}: {why}");
        };
        let tls = self.tls.as_ref().filter(|_| visit.side == Side::Clients);
        match (tls, first == [TLS_HANDSHAKE]) {
            (None, false) => self.serve_http(connection, visit, until).await,
            (Some(tls), true) => {
                let accepting = TlsAcceptor::from(tls.in_use()).accept(connection);
                match timeout_at(until, accepting).await {
                    Ok(Ok(stream)) => self.serve_http(stream, visit, until).await,
                    Ok(Err(error)) => failed(&error),
                    Err(late) => failed(&late),
                }
            }
            (Some(_), false) => {
                failed(&"it is plain HTTP");
                visit.lacks_tls = true;
                self.serve_http(connection, visit, until).await;
            }
            (None, true) => {
                failed(&"this port has no TLS");
                let _ = timeout_at(until, refuse_tls(connection.tcp())).await;
            }
        }
    }

    /// Answers one request, in bounded time.
    async fn serve_http<S>(self: &Arc<Self>, stream: S, visit: Visit, until: Instant)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let visit = &visit;
        let service =
            service_fn(
                |request| async move { Ok::<_, Infallible>(self.answer(request, visit).await) },
            );
        let connection = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(until.saturating_duration_since(Instant::now()))
            .max_buf_size(16 << 10)
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades();
        let mut connection = pin!(connection);
        let mut deadline = until + ANSWER_TIMEOUT;
        loop {
            match timeout_at(deadline, connection.as_mut()).await {
                Ok(Ok(())) => return,
                Ok(Err(error)) => return log::debug!("an HTTP connection ended: {error}"),
                Err(_) => {}
            }
            let stalled = visit.progress.stalled_for(std::time::Instant::now());
            if !visit.streams.load(Ordering::Relaxed) || stalled >= self.evict_after + STREAM_CHECK
            {
                visit.progress.cut();
                self.admin.metrics.answers_cut.inc();
                return log::debug!("{} doesn't read the answer that it asked for", visit.from);
            }
            deadline = Instant::now() + STREAM_CHECK;
        }
    }

    /// The answer to a connection's one request. Unless it becomes a WebSocket, the connection ends after it:
    /// what a client sends before it has read its answer would make the relay hold the answers.
    async fn answer(self: &Arc<Self>, request: Request<Incoming>, visit: &Visit) -> Answer {
        let answered = if visit.lacks_tls {
            Err((
                StatusCode::BAD_REQUEST,
                "this port speaks TLS: use https:// and wss://\n",
            ))
        } else {
            self.answer_request(request, visit).await
        };
        let mut response = answered.unwrap_or_else(|(status, message)| {
            self.refused(status);
            plain(status, message)
        });
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(header::CONNECTION, close);
            if !visit.streams.load(Ordering::Relaxed) {
                visit.progress.answers_shortly();
            }
        }
        response
    }

    async fn answer_request(
        self: &Arc<Self>,
        request: Request<Incoming>,
        visit: &Visit,
    ) -> Result<Answer, Refused> {
        let path = request.uri().path().to_owned();
        if request.method() != Method::GET {
            let message = "only GET is known here\n";
            return Ok(plain(StatusCode::METHOD_NOT_ALLOWED, message));
        }
        // Probes may call the relay by whatever name the cluster has for it, however many others call.
        match path.as_str() {
            "/live" => return Ok(self.live().await),
            "/ready" => return Ok(self.ready()),
            _ => {}
        }
        if !self.trust.host(request.headers()) {
            return Err((
                StatusCode::MISDIRECTED_REQUEST,
                "this host name is not one of the relay's: the operator adds it by --allow-host\n",
            ));
        }
        self.admit(request.headers(), visit)?;
        let is_page = ["/", "/status", "/metrics"].contains(&path.as_str());
        if visit.side == Side::Clients && is_page {
            self.check_pages(request.headers(), visit)?;
        }
        Ok(match path.as_str() {
            "/" => with_type(STATUS_PAGE, "text/html; charset=utf-8"),
            "/status" => with_type(self.admin.status().await.to_string(), "application/json"),
            "/metrics" => with_type(
                self.admin.metrics_text(self.callers.connections()).await,
                metrics_type(request.headers()),
            ),
            "/ws" if visit.side == Side::Clients => self.upgrade(request, visit)?,
            "/ws/large" if visit.side == Side::Clients => self.large(&request, visit).await,
            _ => plain(
                StatusCode::NOT_FOUND,
                match visit.side {
                    Side::Clients => {
                        "nothing here; try / /status /metrics /live /ready /ws /ws/large\n"
                    }
                    Side::Operators => "nothing here; try / /status /metrics /live /ready\n",
                },
            ),
        })
    }

    /// Whether the relay's threads move.
    async fn live(&self) -> Answer {
        if self.admin.stuck().is_some() {
            // After the whole process was stopped for a while they need a moment.
            tokio::time::sleep(THREADS_MOMENT).await;
        }
        match self.admin.stuck() {
            None => plain(StatusCode::OK, "live\n"),
            Some(why) => {
                log::error!("not live: {why}");
                let mut response = with_type(format!("{why}\n"), "text/plain; charset=utf-8");
                *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
                response
            }
        }
    }

    fn ready(&self) -> Answer {
        let audit = self.admin.audit_health();
        let takes_puts = !audit.is_some_and(|health| health.stops_puts());
        ready(self.readiness.unready(), takes_puts)
    }

    /// Whether a connection's address may ask for more than whether the relay is live.
    fn admit(&self, headers: &HeaderMap, visit: &Visit) -> Result<(), Refused> {
        if visit.side == Side::Operators {
            return Ok(());
        }
        let now = std::time::Instant::now();
        let mut stay = visit.stay();
        let Some(stay) = stay.as_mut() else {
            return Ok(());
        };
        if let Some(why) = stay.refused() {
            return Err(too_many(why));
        }
        if let Some(client) = self.forwarded(headers, visit) {
            stay.comes_from(client, now).map_err(too_many)?;
        }
        stay.arrive(now).map_err(too_many)
    }

    /// The address of a trusted proxy's client, if the proxy says it.
    fn forwarded(&self, headers: &HeaderMap, visit: &Visit) -> Option<IpAddr> {
        if !self.is_proxy(visit.from.ip()) {
            return None;
        }
        let lists = headers.get_all(&FORWARDED_FOR).iter();
        let lists = lists.map(|value| value.to_str().unwrap_or("not text"));
        let entries: Vec<_> = lists.flat_map(|list| list.split(',')).collect();
        auth::forwarded(entries.into_iter(), &self.proxies)
    }

    /// Whether this request gets operators' pages where clients connect.
    fn check_pages(&self, headers: &HeaderMap, visit: &Visit) -> Result<(), Refused> {
        if self.has_admin_listener {
            return Err((
                StatusCode::NOT_FOUND,
                "the relay's pages are served elsewhere (admin_listen)\n",
            ));
        }
        match self.pages {
            Pages::Open => Ok(()),
            Pages::Off => Err((
                StatusCode::NOT_FOUND,
                "the relay's pages are switched off (pages)\n",
            )),
            Pages::Login => self.logged_in(headers, visit),
        }
    }

    /// Whether a request for a page shows who asks.
    fn logged_in(&self, headers: &HeaderMap, visit: &Visit) -> Result<(), Refused> {
        let Some(tokens) = &self.tokens else {
            return self.identity(headers, visit).map(drop);
        };
        let header = only(headers, header::AUTHORIZATION).unwrap_or_default();
        let token = header
            .split_once(' ')
            .filter(|(scheme, _)| same(scheme, "bearer"))
            .map(|(_, token)| token.trim());
        let is_good = token.is_some_and(|token| tokens.check(token).is_ok());
        is_good.then_some(()).ok_or((
            StatusCode::UNAUTHORIZED,
            "the relay's pages need a valid token: Authorization: Bearer … (pages)\n",
        ))
    }

    /// Who a client is, as far as its handshake says.
    fn identity(&self, headers: &HeaderMap, visit: &Visit) -> Result<Identity, Refused> {
        let Some(gate) = &self.gate else {
            return Ok(Identity::default());
        };
        if !self.is_proxy(visit.from.ip()) {
            return Err((
                StatusCode::FORBIDDEN,
                "only the relay's proxies may connect: the operator adds one by --trusted-proxy\n",
            ));
        }
        gate.identity(headers)
    }

    /// Answers a WebSocket handshake and hands the socket to the shard with the fewest clients.
    fn upgrade(
        self: &Arc<Self>,
        mut request: Request<Incoming>,
        visit: &Visit,
    ) -> Result<Answer, Refused> {
        let headers = request.headers();
        let (key, subprotocol) = self.check(headers)?;
        let identity = self.identity(headers, visit)?;
        let stay = visit.stay().take();
        let mut caller = stay.as_ref().map(Stay::caller).unwrap_or_default();
        if let Some(user) = &identity.user {
            let now = std::time::Instant::now();
            let arrived = self.callers.logged_in(&mut caller, user, now);
            arrived.map_err(too_many)?;
        }
        let origin = only(headers, header::ORIGIN).unwrap_or_default();
        let client = self.forwarded(headers, visit);
        let peer = Peer {
            address: client.map_or_else(|| visit.from.to_string(), |client| client.to_string()),
            origin: origin.to_owned(),
            identity,
        };
        let upgrade = hyper::upgrade::on(&mut request);
        let server = Arc::clone(self);
        tokio::task::spawn_local(async move {
            match upgrade.await.map_err(io::Error::other).and_then(taken_out) {
                Ok((tcp, tls, read_ahead)) => {
                    let shards = &server.admin.shards;
                    if let Some(shard) = shards
                        .iter()
                        .min_by_key(|shard| ShardHandle::clients(shard))
                    {
                        shard.adopt(Arrival {
                            tcp,
                            tls,
                            read_ahead,
                            lz4: subprotocol == Some(LZ4_SUBPROTOCOL),
                            peer,
                            caller,
                            stay,
                        });
                    }
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

    /// The large values of the client that was told a token, as a body without end.
    async fn large(&self, request: &Request<Incoming>, visit: &Visit) -> Answer {
        if !self.trust.origin(request.headers()) {
            return plain(
                StatusCode::FORBIDDEN,
                "pages of this origin may not fetch: the operator adds it by --allow-origin\n",
            );
        }
        let token = request.uri().query().and_then(|query| {
            let (shard, token) = query.split_once('-')?;
            let shard = usize::from_str_radix(shard, 16).ok()?;
            let token = u128::from_str_radix(token, 16).ok()?;
            Some(self.admin.shards.get(shard)?.attach(token))
        });
        let Some(Ok(body)) = (match token {
            Some(body) => Some(body.await),
            None => None,
        }) else {
            return plain(StatusCode::NOT_FOUND, "no client was told this token\n");
        };
        visit.streams.store(true, Ordering::Relaxed);
        let mut response = with_type("", "application/octet-stream");
        *response.body_mut() = Either::Right(body);
        let headers = response.headers_mut();
        // What nginx must be told, so that it doesn't gather what is to come at once.
        headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
        if let Some(origin) = request.headers().get(header::ORIGIN) {
            headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
            headers.insert(header::VARY, HeaderValue::from_static("Origin"));
        }
        response
    }

    /// Whether a handshake is one that this relay takes; if so, the client's key and the subprotocol.
    fn check(&self, headers: &HeaderMap) -> Result<(Vec<u8>, Option<&'static str>), Refused> {
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
            return Err((StatusCode::UPGRADE_REQUIRED, "/ws speaks WebSocket only\n"));
        }
        if !lists(header::SEC_WEBSOCKET_VERSION, "13") {
            return Err((
                StatusCode::UPGRADE_REQUIRED,
                "/ws speaks WebSocket version 13 only\n",
            ));
        }
        let Some(key) = headers.get(header::SEC_WEBSOCKET_KEY) else {
            return Err((StatusCode::BAD_REQUEST, "Sec-WebSocket-Key is missing\n"));
        };
        if !self.trust.origin(headers) {
            return Err((
                StatusCode::FORBIDDEN,
                "pages of this origin may not connect: the operator adds it by --allow-origin\n",
            ));
        }
        let subprotocol = [LZ4_SUBPROTOCOL, SUBPROTOCOL]
            .into_iter()
            .find(|known| lists(header::SEC_WEBSOCKET_PROTOCOL, known));
        if NAMED && subprotocol.is_none() {
            return Err((
                StatusCode::BAD_REQUEST,
                "this relay speaks the subprotocol pvwire.v1\n",
            ));
        }
        if self.readiness.is_draining() {
            return Err((StatusCode::SERVICE_UNAVAILABLE, "the relay is stopping\n"));
        }
        if self.admin.registry.is_short() {
            return Err((
                StatusCode::SERVICE_UNAVAILABLE,
                "the relay is short of memory (max_memory_mib): try again later\n",
            ));
        }
        if !self.descriptors.has_room(std::time::Instant::now()) {
            return Err((
                StatusCode::SERVICE_UNAVAILABLE,
                "the relay has no file descriptors left for clients: try again later (its operator raises \
                 LimitNOFILE or ulimit -n)\n",
            ));
        }
        if self.admin.sessions() >= self.max_clients {
            return Err((
                StatusCode::SERVICE_UNAVAILABLE,
                "the relay is full: try again later\n",
            ));
        }
        Ok((key.as_bytes().to_vec(), subprotocol))
    }
}

/// Whether traffic should be sent here, and if not, why. Screens are worth more than puts: a relay that
/// can't put on record still shows them.
fn ready(unready: Option<Unready>, takes_puts: bool) -> Answer {
    let why = match unready {
        None if takes_puts => return plain(StatusCode::OK, READY),
        None => return plain(StatusCode::OK, READY_TO_READ),
        Some(Unready::Starting) => "not ready: the relay is starting\n",
        Some(Unready::Draining) => "not ready: the relay is stopping\n",
        Some(Unready::ShortOfMemory) => {
            "not ready: the relay uses more memory than max_memory_mib and takes no new clients until it uses \
             less\n"
        }
    };
    plain(StatusCode::SERVICE_UNAVAILABLE, why)
}

/// Tells a client that wants TLS that there is none, and waits until it has understood: what it has
/// sent and nobody read would make the system take the answer back.
async fn refuse_tls(tcp: &TcpStream) -> io::Result<()> {
    tcp.writable().await?;
    tcp.try_write(&TLS_REFUSAL)?;
    loop {
        tcp.readable().await?;
        match tcp.try_read(&mut [0; 1024]) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

/// The answer to one connection too many.
fn too_many(why: TooMany) -> Refused {
    match why {
        TooMany::InAll => (
            StatusCode::SERVICE_UNAVAILABLE,
            "the relay is full: try again later\n",
        ),
        TooMany::FromAddress => (
            StatusCode::TOO_MANY_REQUESTS,
            "your address has too many connections: close some, or the relay's operator raises \
             max_connections_per_address, or names the proxy that you share in trusted_proxy\n",
        ),
        TooMany::TooFast => (
            StatusCode::TOO_MANY_REQUESTS,
            "your address or user connects too fast: try again later, or the relay's operator raises \
             max_new_connections_per_s, or names the proxy that you share in trusted_proxy\n",
        ),
    }
}

/// What a shard needs of a connection: the socket, what encrypts it, and what was read ahead.
type TakenOut = (std::net::TcpStream, Option<Box<ServerConnection>>, Vec<u8>);

fn taken_out(upgraded: Upgraded) -> io::Result<TakenOut> {
    let upgraded = match upgraded.downcast::<TokioIo<Connection>>() {
        Ok(parts) => {
            let tcp = parts.io.into_inner().into_std()?;
            return Ok((tcp, None, parts.read_buf.to_vec()));
        }
        Err(upgraded) => upgraded,
    };
    let parts = upgraded
        .downcast::<TokioIo<TlsStream<Connection>>>()
        .map_err(|_| io::Error::other("not a connection of this server"))?;
    let (tcp, tls) = parts.io.into_inner().into_inner();
    Ok((
        tcp.into_std()?,
        Some(Box::new(tls)),
        parts.read_buf.to_vec(),
    ))
}

/// What `/metrics` calls its text: Prometheus asks for OpenMetrics, and a browser, which would download
/// that, gets plain text.
fn metrics_type(headers: &HeaderMap) -> &'static str {
    let accepted = headers.get_all(header::ACCEPT).iter();
    let accepted: Vec<_> = accepted.filter_map(|value| value.to_str().ok()).collect();
    let accepts = |name: &str| accepted.iter().any(|list| list.contains(name));
    if accepts("text/") && !accepts("application/openmetrics-text") {
        "text/plain; version=0.0.4; charset=utf-8"
    } else {
        "application/openmetrics-text; version=1.0.0; charset=utf-8"
    }
}

fn plain(status: StatusCode, message: &'static str) -> Answer {
    let mut response = with_type(message, "text/plain; charset=utf-8");
    *response.status_mut() = status;
    response
}

fn with_type(body: impl Into<Bytes>, content_type: &'static str) -> Answer {
    let mut response = Response::new(Either::Left(Full::new(body.into())));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    let policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
                  connect-src 'self'; frame-ancestors 'none'";
    headers.insert(
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(policy),
    );
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(host: &str, origin: Option<&str>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().unwrap());
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, origin.parse().unwrap());
        }
        headers
    }

    fn trust() -> Trust {
        Trust {
            origins: vec!["https://screens.example.org".into()],
            hosts: vec!["pvwire.example.org".into()],
            encrypted: false,
        }
    }

    #[test]
    fn page_of_http_on_the_own_host_may_not_connect_where_that_is_reached_by_https() {
        let encrypted = Trust {
            encrypted: true,
            ..trust()
        };
        let (http, https) = (
            Some("http://pvwire.example.org"),
            Some("https://pvwire.example.org"),
        );
        let headers = |origin| headers("pvwire.example.org", origin);
        assert!(!encrypted.origin(&headers(http)));
        assert!(encrypted.origin(&headers(https)));
        // Behind a proxy that encrypts the relay may not know it.
        assert!(trust().origin(&headers(http)) && trust().origin(&headers(https)));
        for (said, may) in [("https", false), ("wss, http", false), ("http", true)] {
            let mut headers = headers(http);
            headers.insert("x-forwarded-proto", said.parse().unwrap());
            assert_eq!(trust().origin(&headers), may, "{said}");
            headers.insert(header::ORIGIN, https.unwrap().parse().unwrap());
            assert!(trust().origin(&headers), "{said}");
        }
    }

    #[test]
    fn pages_of_the_same_host_and_listed_ones_may_connect_and_no_others() {
        for (host, origin, may) in [
            ("127.0.0.1:8080", Some("http://127.0.0.1:8080"), true),
            ("127.0.0.1:8080", None, true),
            ("127.0.0.1:8080", Some("http://127.0.0.1:8081"), false),
            ("127.0.0.1:8080", Some("https://screens.example.org"), true),
            (
                "127.0.0.1:8080",
                Some("https://screens.example.org.evil.test"),
                false,
            ),
            ("127.0.0.1:8080", Some("http://evil.test"), false),
            ("127.0.0.1:8080", Some("null"), false),
        ] {
            assert_eq!(
                trust().origin(&headers(host, origin)),
                may,
                "{host} {origin:?}"
            );
        }
    }

    #[test]
    fn relay_answers_to_addresses_localhost_and_its_own_names_only() {
        for (host, is_ours) in [
            ("127.0.0.1:8080", true),
            ("127.0.0.1", true),
            ("[::1]:8080", true),
            ("[::1]", true),
            ("localhost:8080", true),
            ("pvwire.example.org", true),
            ("PVWIRE.example.org:443", true),
            ("screens.example.org", true),
            ("evil.test:8080", false),
            ("localhost.evil.test", false),
            ("", false),
        ] {
            assert_eq!(trust().host(&headers(host, None)), is_ours, "{host}");
        }
        assert!(!trust().host(&HeaderMap::new()));
    }
}
