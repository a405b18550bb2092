//! The routes below `/pv/`: one PV by plain HTTP, for scripts and programs without a library.
//!
//! Each request becomes a client of a shard, see [`link`].

mod image;
mod link;
mod put;
mod stream;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Method, Request, StatusCode};
use pvwire_http::{
    EVERYTHING, Form, Program, Route, Standing, Talk, Value, element_count, push_json, push_text,
    selection,
};
use pvwire_schema::types::NameProblem;
use tokio::time::{Instant, timeout_at};

use self::link::Link;
use super::answer::{Answer, Refusal, allow, challenged, plain, shared_with, with_type};
use super::query::argument;
use super::read::charged;
use super::{Server, Side, Visit};
use crate::compute::Size;
use crate::limits::memory::Owner;

const JSON: &str = "application/json";

/// How long a request waits for a PV at least, unless it says otherwise.
const PATIENCE: Duration = Duration::from_secs(5);

/// How much longer a request waits than the relay searches.
const SEARCH_GRACE: Duration = Duration::from_secs(1);

/// The longest time that a request may ask for.
const MAX_PATIENCE: Duration = Duration::from_secs(60);

/// Estimated length of an element in JSON, which is charged before it is written.
const ELEMENT_BYTES: usize = 24;

/// What the routes need besides the server.
pub struct PvRoutes {
    /// How long a request waits for a PV, unless it says otherwise.
    patience: Duration,
}

impl PvRoutes {
    /// A request waits a little longer than the relay searches, so that a PV that isn't found is
    /// reported as such.
    #[must_use]
    pub fn new(not_found_after: Duration) -> Self {
        let search = not_found_after.saturating_add(SEARCH_GRACE);
        Self {
            patience: search.clamp(PATIENCE, MAX_PATIENCE),
        }
    }

    /// How long a request waits for its PV.
    fn patience(&self, request: &Request<Incoming>) -> Result<Duration, Refusal> {
        Ok(millis(request, "timeout_ms", MAX_PATIENCE)?.unwrap_or(self.patience))
    }
}

/// An object that says what is wrong.
fn error_json(message: &str) -> Vec<u8> {
    let mut text = br#"{"error":"#.to_vec();
    push_text(message.trim_end(), &mut text);
    text.extend_from_slice(b"}\n");
    text
}

/// The answer to a refused request below `/pv/`.
fn refusal(refused: &Refusal) -> Answer {
    let mut answer = with_type(error_json(&refused.message), JSON);
    *answer.status_mut() = refused.status;
    challenged(answer)
}

/// A number of milliseconds in the query.
fn millis(
    request: &Request<Incoming>,
    name: &str,
    most: Duration,
) -> Result<Option<Duration>, Refusal> {
    let Some(text) = argument(request, name) else {
        return Ok(None);
    };
    let given = text.parse().ok().map(Duration::from_millis);
    let given = given.filter(|given| *given <= most).ok_or_else(|| {
        let most = most.as_millis();
        let message = format!("{name} is {text:?}: expected milliseconds from 0 to {most}\n");
        Refusal::from((StatusCode::BAD_REQUEST, message))
    })?;
    Ok(Some(given))
}

/// The selection in the query, or that of every field, and whether it may have the description.
fn selected(request: &Request<Incoming>) -> Result<(Program, bool), Refusal> {
    let text = argument(request, "select");
    let text = text.as_deref().unwrap_or(EVERYTHING);
    let program = selection(text).map_err(|error| {
        let message = format!(
            "select: {} (line {}, column {})\n",
            error.message, error.line, error.column
        );
        Refusal::from((StatusCode::BAD_REQUEST, message))
    })?;
    Ok((program, text.contains("description")))
}

/// The refusal of a name.
fn refused_name(problem: NameProblem, message: &str) -> Refusal {
    let status = match problem {
        NameProblem::NotAllowed => StatusCode::FORBIDDEN,
        NameProblem::NoSuchField => StatusCode::NOT_FOUND,
        NameProblem::BadName | NameProblem::NoSuchSource => StatusCode::BAD_REQUEST,
        _ => StatusCode::TOO_MANY_REQUESTS,
    };
    (status, format!("{message}\n")).into()
}

impl Server {
    /// Whether a request is for these routes.
    pub(super) fn is_for_pv(&self, request: &Request<Incoming>, visit: &Visit) -> bool {
        let is_served = self.pv.is_some() && visit.side == Side::Clients;
        is_served && request.uri().path().starts_with(pvwire_http::PREFIX)
    }

    /// The answer to a refused request below `/pv/`, which the page that made the request may read.
    pub(super) fn refused_pv(&self, refused: &Refusal, headers: &HeaderMap) -> Answer {
        self.refused(refused.status);
        let answer = refusal(refused);
        if self.trust.origin(headers) {
            shared_with(answer, headers)
        } else {
            answer
        }
    }

    /// Answers a request below `/pv/`.
    pub(super) async fn pv_route(
        self: &Arc<Self>,
        request: Request<Incoming>,
        visit: &Visit,
    ) -> Result<Answer, Refusal> {
        let bad =
            |message: String| Refusal::from((StatusCode::BAD_REQUEST, format!("{message}\n")));
        let route = pvwire_http::route(request.uri().path());
        let route = route.expect("the path begins with the prefix");
        let route = route.map_err(|error| bad(error.to_string()))?;
        // Its answer takes as long as the PV does. A client that doesn't read it is cut off.
        visit.progress.answers_shortly();
        visit.streams.store(true, Ordering::Relaxed);
        let method = request.method().clone();
        match (&method, route.form) {
            (&Method::GET, Form::Json) => self.pv_value(&route, &request, visit).await,
            (&Method::GET, Form::Stream) => self.pv_stream(&route, &request, visit).await,
            (&Method::GET, Form::Png) => self.pv_png(&route, &request, visit).await,
            (&Method::GET, Form::Mjpeg) => self.pv_mjpeg(&route, &request, visit).await,
            (&Method::PUT, Form::Json) => self.pv_put(&route, request, visit).await,
            (&Method::OPTIONS, _) => self.pv_options(request.headers()),
            _ => {
                let message = "only GET is allowed here, and PUT at /pv/NAME\n";
                let refusal = (StatusCode::METHOD_NOT_ALLOWED, message).into();
                let mut answer = self.refused_pv(&refusal, request.headers());
                let allowed = match route.form {
                    Form::Json => "GET, HEAD, PUT, OPTIONS",
                    _ => "GET, HEAD, OPTIONS",
                };
                allow(&mut answer, allowed);
                Ok(answer)
            }
        }
    }

    /// The answer to a browser that asks what a page of another origin may do.
    fn pv_options(&self, headers: &HeaderMap) -> Result<Answer, Refusal> {
        self.check_origin(headers)?;
        let mut answer = plain(StatusCode::NO_CONTENT, "");
        for (name, value) in [
            (header::ACCESS_CONTROL_ALLOW_METHODS, "GET, HEAD, PUT"),
            (
                header::ACCESS_CONTROL_ALLOW_HEADERS,
                "authorization, content-type",
            ),
        ] {
            answer
                .headers_mut()
                .insert(name, HeaderValue::from_static(value));
        }
        Ok(shared_with(answer, headers))
    }

    /// How long a request waits for its PV.
    fn patience(&self, request: &Request<Incoming>) -> Result<Duration, Refusal> {
        let routes = self.pv.as_ref().expect("the routes are served");
        routes.patience(request)
    }

    /// A new client, which has the PV.
    fn opened(
        &self,
        route: &Route,
        interval: Duration,
        request: &Request<Incoming>,
        visit: &Visit,
    ) -> Result<(Link, Talk), Refusal> {
        let link = self.link(request.headers(), visit)?;
        let now = SystemTime::now();
        let mut talk = Talk::new(self.token(request.headers()), now);
        talk.open(&route.name, interval, now);
        Ok((link, talk))
    }

    /// `GET /pv/NAME`.
    async fn pv_value(
        &self,
        route: &Route,
        request: &Request<Incoming>,
        visit: &Visit,
    ) -> Result<Answer, Refusal> {
        let (selection, has_description) = selected(request)?;
        let patience = self.patience(request)?;
        let (mut link, mut talk) = self.opened(route, Duration::ZERO, request, visit)?;
        if has_description {
            talk.read_description(&route.name, patience);
        }
        let standing = settled(&mut link, &mut talk, patience).await?;
        if standing == Standing::Current {
            let text = self.json(link.owner(), talk.select(&selection)).await?;
            return Ok(shared_with(with_type(text, JSON), request.headers()));
        }
        let (status, message) = not_current(standing, patience)?;
        let known = self.json(link.owner(), talk.select(&selection)).await?;
        let mut text = error_json(&message);
        text.truncate(text.len() - b"}\n".len());
        text.extend_from_slice(br#","pv":"#);
        text.extend_from_slice(&known);
        text.extend_from_slice(b"}\n");
        let charge = link.owner().charge(text.len())?;
        let mut answer = with_type(charged(text, charge), JSON);
        *answer.status_mut() = status;
        Ok(shared_with(answer, request.headers()))
    }

    /// A value as JSON, charged to its owner.
    async fn json(&self, owner: &Arc<Owner>, value: Value) -> Result<Bytes, Refusal> {
        let count = element_count(&value);
        let mut charge = owner.charge(count * ELEMENT_BYTES)?;
        let write = move || {
            let mut text = Vec::new();
            push_json(&value, &mut text);
            text
        };
        let text = self
            .pool
            .compute(owner.cpu(), Size::of(count), write)
            .await?;
        charge.resize(text.len())?;
        Ok(charged(text, charge))
    }
}

/// Refuses a client that has no token although the relay asks for one.
fn lacks_token(talk: &Talk) -> Result<(), Refusal> {
    if !talk.lacks_token() {
        return Ok(());
    }
    let message = "the relay asks for a token: Authorization: Bearer …\n";
    Err((StatusCode::UNAUTHORIZED, message).into())
}

/// Why a PV has no current value, with the status that says so.
fn not_current(standing: Standing, patience: Duration) -> Result<(StatusCode, String), Refusal> {
    let (status, message) = match standing {
        Standing::Refused(problem, message) => return Err(refused_name(problem, &message)),
        Standing::NotFound(reason) if !reason.is_empty() => {
            return Ok((StatusCode::NOT_FOUND, reason));
        }
        Standing::Unsent(reason) => return Ok((StatusCode::SERVICE_UNAVAILABLE, reason)),
        Standing::Unreadable => (
            StatusCode::FORBIDDEN,
            "the IOC doesn't let the relay read this PV",
        ),
        Standing::NotFound(_) => (
            StatusCode::NOT_FOUND,
            "no server has this PV: check the name and the addresses that the relay searches",
        ),
        Standing::Outdated => (
            StatusCode::SERVICE_UNAVAILABLE,
            "the PV's server can't be reached or doesn't respond; its last value is outdated",
        ),
        Standing::Searched(reason) if reason.is_empty() => {
            let message = format!(
                "no server has answered for this PV within {} ms: check the name and the addresses that the relay \
                 searches, or give it more time with timeout_ms",
                patience.as_millis()
            );
            return Ok((StatusCode::NOT_FOUND, message));
        }
        Standing::Searched(reason) => return Ok((StatusCode::GATEWAY_TIMEOUT, reason)),
        Standing::Awaited | Standing::Current => {
            let message = format!("the PV has no value within {} ms", patience.as_millis());
            return Ok((StatusCode::GATEWAY_TIMEOUT, message));
        }
    };
    Ok((status, message.to_owned()))
}

/// Waits until it is known what the PV is, at most for `patience`, and for what the relay knows already.
async fn settled(
    link: &mut Link,
    talk: &mut Talk,
    patience: Duration,
) -> Result<Standing, Refusal> {
    let until = Instant::now() + patience;
    loop {
        lacks_token(talk)?;
        let standing = talk.standing();
        let is_undescribed = standing == Standing::Current && talk.waits_for_description();
        let is_open = matches!(standing, Standing::Awaited | Standing::Searched(_));
        if !is_open && !is_undescribed {
            return Ok(standing);
        }
        if !talk.is_subscribed() {
            link.turn(talk).await?;
            continue;
        }
        match timeout_at(until, link.turn(talk)).await {
            Ok(done) => done?,
            Err(_) => return Ok(standing),
        }
    }
}
