//! The relay's HTTP server: answers requests, and hands WebSocket clients to shards.

mod accept;
mod answer;
mod archiver;
mod built_pages;
mod caller;
mod clients;
mod coniql;
mod gate;
mod handshake;
mod names;
mod pv;
mod pvws;
mod query;
mod saved;
mod screens;
mod trust;

use std::convert::Infallible;
use std::fmt::Display;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http_body_util::Either;
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsAcceptor;

use self::accept::Begin;
pub use self::accept::{Accepted, Listening};
use self::answer::{
    Answer, Refusal, challenged, not_allowed, page, plain, ready, shared_with, with_type,
};
pub use self::built_pages::has_demo_page;
pub use self::clients::Disconnections;
pub use self::gate::{Gate, ProxyHeaders};
pub use self::handshake::HeaderCase;
pub use self::pv::PvRoutes;
pub use self::trust::{RefusedPages, Trust};
use crate::compute::PoolHandle;
use crate::doors::coniql::Coniql;
use crate::doors::pvws::site::Site;
use crate::fanout::encoding::Encodings;
use crate::http::admin::{Admin, STATUS_PAGE, STATUS_POLICY};
use crate::http::connection::{Connection, Progress};
use crate::http::saved::SavedLists;
use crate::http::screens::{PATH as SCREENS_PATH, Screens};
use crate::http::tls::Tls;
use crate::limits::connections::Stay;
use crate::limits::descriptors::Room;
use crate::limits::lines::Lines;
use crate::limits::requests::RequestLimits;
use crate::ops::metrics::TextFormat;
use crate::queries::archiver::Archivers;
use crate::queries::history::Histories;
use crate::queries::names::Names;

/// Describes the routes for single PVs.
const OPENAPI: &str = include_str!("../../../docs/reference/openapi.json");

/// A fatal TLS alert, `handshake_failure`.
const TLS_REFUSAL: [u8; 7] = [0x15, 3, 1, 0, 2, 2, 40];

/// Time limit for reading a short answer after the request.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Part of it that is for sending: an answer that isn't ready by then says that it takes too long.
const SENDING: Duration = Duration::from_secs(2);

/// Interval between checks of a stream of large values. A client may stall for this much longer
/// than `evict_after` here, so that its shard closes it first.
const STREAM_CHECK: Duration = Duration::from_secs(5);

/// Time in which threads that seem to hang may still make progress.
const THREADS_MOMENT: Duration = Duration::from_millis(250);

/// The HTTP side of the relay.
pub struct Server {
    /// Answers for operators.
    pub admin: Admin,
    /// Decides who may connect, and as whom.
    pub gate: Gate,
    /// The forms in which clients get their messages, and the paths of their handshakes.
    pub encodings: Arc<Encodings>,
    /// Warnings of pages that can't connect.
    pub refused_pages: RefusedPages,
    /// Of the log, about threads that hang: each probe finds them.
    pub hangs: Mutex<Lines>,
    /// Rates of one client, which an HTTP request is, too.
    pub requests: RequestLimits,
    /// A client that reads nothing for this long is closed.
    pub evict_after: Duration,
    /// The certificate, where connections are encrypted.
    pub tls: Option<Arc<Tls>>,
    /// The routes for single PVs, if they are served.
    pub pv: Option<PvRoutes>,
    /// Offers names of PVs.
    pub names: Arc<Names>,
    /// Offers past updates of PVs.
    pub histories: Arc<Histories>,
    /// Passes on what archivers have, if the operator names any.
    pub archivers: Option<Arc<Archivers>>,
    /// The HTTP routes for clients of PVWS, if they are served.
    pub pvws: Option<Site>,
    /// The HTTP routes for clients of Coniql, if they are served.
    pub coniql: Option<Coniql>,
    /// How answers spell the names of their headers.
    pub header_case: HeaderCase,
    /// Reads what clients write, and writes large values as text.
    pub pool: PoolHandle,
    /// The facility's displays, if they are served.
    pub screens: Option<Screens>,
    /// Lists of PVs that users save, if the operator gives a folder.
    pub saved: Option<SavedLists>,
    /// Whether clients get the app in place of the status page.
    pub app: bool,
    /// Patterns of the PVs that the app writes only after a confirmation.
    pub confirm_put: Vec<String>,
    /// Requests to disconnect a client.
    pub disconnections: Disconnections,
    /// Whether clients get the demo page in place of both.
    pub demo_page: bool,
}

/// Who connects to a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// Clients, and operators as far as `pages` says.
    Clients,
    /// Only operators and their programs.
    Operators,
}

/// One connection and what is known of it.
struct Visit {
    from: SocketAddr,
    audience: Audience,
    room: Room,
    progress: Arc<Progress>,
    /// Taken by the client that the connection becomes.
    stay: Mutex<Option<Stay>>,
    /// Its answer takes longer than the request: it is a stream, or waits for a PV.
    streams: AtomicBool,
    /// It uses plain HTTP on a listener with TLS.
    lacks_tls: bool,
    /// When its answer has to be ready, unless it takes longer on purpose.
    answer_by: Instant,
}

/// An answer, or that the relay is too slow. Without it the connection would end with nothing said.
async fn in_time(
    answer_by: Instant,
    takes_longer: &AtomicBool,
    answering: impl Future<Output = Result<Answer, Refusal>>,
) -> Result<Answer, Refusal> {
    let mut answering = pin!(answering);
    match timeout_at(answer_by, answering.as_mut()).await {
        Ok(answered) => answered,
        Err(_) if takes_longer.load(Ordering::Relaxed) => answering.await,
        Err(_) => {
            let message =
                "the relay has too much work to answer in time: ask again later, or for less\n";
            Err((StatusCode::SERVICE_UNAVAILABLE, message).into())
        }
    }
}

impl Visit {
    fn stay(&self) -> MutexGuard<'_, Option<Stay>> {
        self.stay.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a client, such as a browser that opens a link, takes a page rather than JSON.
fn prefers_page(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).into_iter();
    let mut accepted = accepted.filter_map(|value| value.to_str().ok());
    accepted.any(|value| value.contains("text/html"))
}

impl Server {
    fn refused(&self, status: StatusCode) {
        self.admin.metrics.refused(status.as_u16());
    }

    /// Serves the connections of clients that the thread of the listeners has accepted, for ever.
    pub async fn serve(self: Arc<Self>, mut accepted: UnboundedReceiver<Accepted>) {
        while let Some(accepted) = accepted.recv().await {
            match accepted.resumed() {
                Ok((connection, visit, begin)) => {
                    let served = Arc::clone(&self).converse(connection, visit, begin);
                    tokio::task::spawn_local(served);
                }
                Err(error) => log::debug!("a connection ended at once: {error}"),
            }
        }
    }

    /// Serves a connection of which the first byte is known, if it has TLS where the listener expects that.
    async fn converse(self: Arc<Self>, connection: Connection, mut visit: Visit, begin: Begin) {
        let Begin { has_tls, until } = begin;
        let from = visit.from;
        let failed = |why: &dyn Display| {
            self.admin.metrics.tls_handshakes_failed.inc();
            log::debug!("no TLS with {from}: {why}");
        };
        let tls = self
            .tls
            .as_ref()
            .filter(|_| visit.audience == Audience::Clients);
        match (tls, has_tls) {
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
                failed(&"the client uses plain HTTP");
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
            .title_case_headers(true)
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

    /// The answer to a connection's one request. Unless it becomes a WebSocket, the connection ends
    /// after it: the relay would have to hold the answers to a client that sends requests and reads
    /// nothing.
    async fn answer(self: &Arc<Self>, mut request: Request<Incoming>, visit: &Visit) -> Answer {
        if request.method() == Method::HEAD {
            // The connection leaves out the body.
            *request.method_mut() = Method::GET;
        }
        let of_pv = self.is_for_pv(&request, visit);
        let of_documents = self.is_for_documents(&request, visit);
        let is_get = request.method() == Method::GET;
        let may_embed = self.gate.trust.embedder(request.headers());
        let headers = request.headers().clone();
        let answered = if visit.lacks_tls {
            let message = "this port accepts TLS only: use https:// and wss://\n";
            Err((StatusCode::BAD_REQUEST, message).into())
        } else {
            let answering = self.answer_request(request, visit);
            in_time(visit.answer_by, &visit.streams, answering).await
        };
        let mut response = answered.unwrap_or_else(|refused| {
            let now = std::time::Instant::now();
            self.refused_pages.warn(&headers, &refused.message, now);
            if of_pv {
                self.refused_pv(&refused, &headers)
            } else {
                self.refused(refused.status);
                challenged(plain(refused.status, refused.message))
            }
        });
        let is_refused = response.status().is_client_error() || response.status().is_server_error();
        if of_documents && is_refused && self.gate.trust.origin(&headers) {
            response = shared_with(response, &headers);
        }
        if is_get && is_refused && !of_pv && visit.audience == Audience::Clients {
            // A page whose WebSocket was refused reads here why; browsers don't tell it.
            let any = HeaderValue::from_static("*");
            let headers = response.headers_mut();
            headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, any);
        }
        if of_pv {
            // Pages of other sites may not show the answer, for example as an image, unless they are listed.
            let policy = if may_embed {
                "cross-origin"
            } else {
                "same-origin"
            };
            let headers = response.headers_mut();
            let policy = HeaderValue::from_static(policy);
            headers.insert("cross-origin-resource-policy", policy);
        }
        self.header_case.apply(&mut response);
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
        mut request: Request<Incoming>,
        visit: &Visit,
    ) -> Result<Answer, Refusal> {
        let path = request.uri().path().to_owned();
        let of_pv = self.is_for_pv(&request, visit);
        let is_get = request.method() == Method::GET;
        let is_known = of_pv
            || self.coniql.is_some()
            || self.is_for_saved_list(&request, visit)
            || clients::id_in(&path).is_some();
        if !is_get && !is_known && !self.is_close_of_socket(&request, visit) {
            return Ok(self.get_only(&request, visit));
        }
        // Probes may use any host name, and no limit on connections applies to them.
        match path.as_str() {
            _ if !is_get => {}
            "/live" => return Ok(self.live().await),
            "/ready" => return Ok(self.ready()),
            _ => {}
        }
        self.gate.check_host(request.headers())?;
        self.gate.admit(request.headers(), visit)?;
        if of_pv {
            return self.pv_route(request, visit).await;
        }
        if let Some(answer) = self.coniql(&mut request, visit).await {
            return answer;
        }
        if let Some(answer) = self.saved_lists(&mut request, visit).await {
            return answer;
        }
        if let Some(id) = clients::id_in(&path) {
            return self.client(id, &request, visit).await;
        }
        if is_get && path == clients::PVS_PATH {
            return self.pvs(&request, visit).await;
        }
        if !is_get && !self.is_close_of_socket(&request, visit) {
            return Ok(self.get_only(&request, visit));
        }
        if visit.audience == Audience::Clients {
            // As the demo page's other servers offer it.
            if self.demo_page && path == "/relay/status" {
                return Ok(self.status(request.headers(), visit).await);
            }
            if let Some(answer) = self.built_page(&path, request.headers()) {
                return Ok(answer);
            }
        }
        let is_page = ["/", "/status", "/metrics"].contains(&path.as_str());
        if visit.audience == Audience::Clients && is_page {
            self.gate.check_pages(request.headers(), visit)?;
        }
        Ok(match path.as_str() {
            "/openapi.json" if visit.audience == Audience::Clients && self.pv.is_some() => {
                self.gate.check_origin(request.headers())?;
                shared_with(with_type(OPENAPI, "application/json"), request.headers())
            }
            built_pages::SETTINGS_PATH if self.has_app_settings(visit) => {
                self.app_settings(request.headers(), visit)?
            }
            "/" => self.status_page().await,
            "/status" if prefers_page(request.headers()) => self.status_page().await,
            "/status" => self.status(request.headers(), visit).await,
            "/metrics" => self.metrics(request.headers()).await,
            path if visit.audience == Audience::Clients && self.encodings.has_path(path) => {
                self.upgrade(request, visit)?
            }
            path if visit.audience == Audience::Clients && self.encodings.has_stream(path) => {
                self.large(&request, visit).await
            }
            _ => match self.pvws(&request, visit).await {
                Some(answer) => answer?,
                None => match self.screen(&request, visit).await {
                    Some(answer) => answer?,
                    None => self.not_found(&request, visit.audience),
                },
            },
        })
    }

    /// The answer to a method that a path doesn't have.
    fn get_only(&self, request: &Request<Incoming>, visit: &Visit) -> Answer {
        if self.is_socket_of_operators(request, visit) {
            return not_allowed("GET, HEAD, DELETE", "only GET and DELETE are allowed\n");
        }
        not_allowed("GET, HEAD", "only GET is allowed\n")
    }

    /// The answer to a request for the page that clients get, or for one of its files.
    fn built_page(&self, path: &str, request: &HeaderMap) -> Option<Answer> {
        if self.demo_page {
            built_pages::DEMO.answer(path, request)
        } else if self.app {
            built_pages::APP.answer(path, request)
        } else {
            None
        }
    }

    /// The status as a page. Browsers that run no scripts show it as it is now.
    async fn status_page(&self) -> Answer {
        let now = format!("{:#}", self.admin.status().await);
        let now = now.replace('&', "&amp;").replace('<', "&lt;");
        let mut answer = page(&STATUS_PAGE.replace("{STATUS}", &now), STATUS_POLICY);
        let headers = answer.headers_mut();
        headers.insert(header::VARY, HeaderValue::from_static("Accept"));
        answer
    }

    async fn status(&self, headers: &HeaderMap, visit: &Visit) -> Answer {
        let mut status = self.admin.status().await;
        let by = self.gate.operator(headers, visit);
        let may = by.is_ok_and(|by| self.gate.may_disconnect(&by, visit));
        status["mayDisconnect"] = may.into();
        with_type(status.to_string(), "application/json")
    }

    /// The metrics, in the text format that the client prefers.
    async fn metrics(&self, headers: &HeaderMap) -> Answer {
        let accepted = headers.get_all(header::ACCEPT).iter();
        let format = TextFormat::preferred(accepted.filter_map(|value| value.to_str().ok()));
        let text = self
            .admin
            .metrics_text(self.gate.callers.connections(), format);
        with_type(text.await, format.content_type())
    }

    /// The answer to an unknown path.
    fn not_found(&self, request: &Request<Incoming>, audience: Audience) -> Answer {
        let mut message = "nothing here; try / /status /metrics /live /ready".to_owned();
        if audience == Audience::Clients {
            for path in self.encodings.paths() {
                message.extend([" ", path]);
            }
            if self.pv.is_some() {
                message.push_str(" /pv/NAME /names");
                if self.archivers.is_some() {
                    message.push_str(" /archiver/data");
                }
            }
            if self.screens.is_some() {
                message.extend([" ", SCREENS_PATH]);
            }
        }
        message.push('\n');
        let now = std::time::Instant::now();
        self.refused_pages.warn(request.headers(), &message, now);
        plain(StatusCode::NOT_FOUND, message)
    }

    /// Whether the relay's threads make progress.
    async fn live(&self) -> Answer {
        if self.admin.stuck().is_some() {
            // They need a moment after the whole process was stopped for a while.
            tokio::time::sleep(THREADS_MOMENT).await;
        }
        match self.admin.stuck() {
            None => plain(StatusCode::OK, "live\n"),
            Some(why) => {
                let mut lines = self.hangs.lock().unwrap_or_else(PoisonError::into_inner);
                let now = std::time::Instant::now();
                lines.say(log::Level::Error, format_args!("not live: {why}"), now);
                drop(lines);
                plain(StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n"))
            }
        }
    }

    fn ready(&self) -> Answer {
        let audit = self.admin.audit_health();
        let takes_puts = !audit.is_some_and(|health| health.stops_puts());
        ready(self.gate.readiness.unready(), takes_puts)
    }

    /// The large values of the client that got the token in the request, as a body without end.
    async fn large(&self, request: &Request<Incoming>, visit: &Visit) -> Answer {
        if let Err(refusal) = self.gate.check_origin(request.headers()) {
            return plain(refusal.status, refusal.message);
        }
        if !self.gate.has_descriptors(visit) {
            return plain(StatusCode::SERVICE_UNAVAILABLE, gate::NO_DESCRIPTORS);
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
            return plain(StatusCode::NOT_FOUND, "no client has this token\n");
        };
        visit.streams.store(true, Ordering::Relaxed);
        let mut response = with_type("", "application/octet-stream");
        *response.body_mut() = Either::Right(Either::Left(body));
        // Makes nginx forward each piece at once instead of buffering the body.
        let buffering = HeaderValue::from_static("no");
        response
            .headers_mut()
            .insert("x-accel-buffering", buffering);
        shared_with(response, request.headers())
    }
}

/// Refuses a TLS handshake, and waits until the client has closed: unread bytes from the client
/// would make the system discard the answer.
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

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    #[tokio::test]
    async fn answer_that_takes_too_long_says_so() {
        let late = Instant::now();
        let ok = || Ok(plain(StatusCode::OK, "ok\n"));
        let refused = in_time(late, &AtomicBool::new(false), pending()).await;
        let refused = refused.map(|answer| answer.status()).unwrap_err();
        assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(
            refused.message.contains("ask again later"),
            "{}",
            refused.message
        );
        assert!(
            in_time(late, &AtomicBool::new(false), ready(ok()))
                .await
                .is_ok()
        );
        let slow = async {
            tokio::task::yield_now().await;
            ok()
        };
        let answered = in_time(late, &AtomicBool::new(true), slow).await;
        assert!(answered.is_ok(), "a stream takes as long as it does");
    }
}
