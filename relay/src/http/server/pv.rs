//! The routes below `/pv/`: one PV by plain HTTP, for scripts and programs without a library; and `/names`.
//!
//! Each request for a PV is a client, see [`client`], and asks `queries` for its PV.

mod client;
mod history;
mod image;
mod put;
mod standing;
mod stream;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Method, Request, StatusCode};
use pvwire_http::{EVERYTHING, Form, Program, Route, push_json, push_text, select, selection};
use tokio::time::Instant;

use self::standing::{Standing, refused_name, snapshot};
use super::answer::{Answer, Refusal, allow, challenged, ended_by, plain, shared_with, with_type};
use super::caller::charged;
use super::query::argument;
use super::{Audience, Server, Visit, archiver, names};
use crate::compute::Size;
use crate::limits::memory::Owner;
use crate::queries::plain_clients::PlainClient;
use crate::queries::watch::PvState;

const JSON: &str = "application/json";

/// How long a request waits for a PV at least, unless it says otherwise.
const PATIENCE: Duration = Duration::from_secs(5);

/// How much longer a request waits than the relay searches.
const SEARCH_GRACE: Duration = Duration::from_secs(1);

/// The longest time that a request may ask for.
const MAX_PATIENCE: Duration = Duration::from_secs(60);

/// Bytes that writing an element of an array takes in JSON.
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

/// What a request selects of a PV.
struct Selected {
    program: Arc<Program>,
    /// Whether it may have the description.
    describes: bool,
}

impl Selected {
    /// Compiles a selection.
    fn read(text: &str) -> Result<Self, Refusal> {
        let program = selection(text).map_err(|error| {
            let message = format!(
                "select: {} (line {}, column {})\n",
                error.message, error.line, error.column
            );
            Refusal::from((StatusCode::BAD_REQUEST, message))
        })?;
        Ok(Self {
            program: Arc::new(program),
            describes: text.contains("description"),
        })
    }
}

impl Server {
    /// Whether a request is for these routes.
    pub(super) fn is_for_pv(&self, request: &Request<Incoming>, visit: &Visit) -> bool {
        let is_served = self.pv.is_some() && visit.audience == Audience::Clients;
        let path = request.uri().path();
        is_served
            && (path.starts_with(pvwire_http::PREFIX)
                || [names::PATH, archiver::PATH].contains(&path))
    }

    /// The answer to a refused request below `/pv/`, which the page that made the request may read.
    pub(super) fn refused_pv(&self, refused: &Refusal, headers: &HeaderMap) -> Answer {
        self.refused(refused.status);
        let answer = refusal(refused);
        if self.gate.trust.origin(headers) {
            shared_with(answer, headers)
        } else {
            answer
        }
    }

    /// Answers a request below `/pv/`, or for names.
    pub(super) async fn pv_route(
        self: &Arc<Self>,
        request: Request<Incoming>,
        visit: &Visit,
    ) -> Result<Answer, Refusal> {
        let bad =
            |message: String| Refusal::from((StatusCode::BAD_REQUEST, format!("{message}\n")));
        if request.uri().path() == names::PATH {
            return self.query_route(&request, visit).await;
        }
        if request.uri().path() == archiver::PATH {
            // Its answer takes as long as the archiver does.
            visit.progress.answers_shortly();
            visit.streams.store(true, Ordering::Relaxed);
            return self.query_route(&request, visit).await;
        }
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
            (&Method::GET, Form::History) => self.pv_history(&route, &request, visit).await,
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

    /// Answers a request for names, or for archived samples.
    async fn query_route(
        &self,
        request: &Request<Incoming>,
        visit: &Visit,
    ) -> Result<Answer, Refusal> {
        match *request.method() {
            Method::GET if request.uri().path() == archiver::PATH => {
                self.archived(request, visit).await
            }
            Method::GET => self.find_names(request, visit).await,
            Method::OPTIONS => self.pv_options(request.headers()),
            _ => {
                let message = "only GET is allowed here\n";
                let refusal = (StatusCode::METHOD_NOT_ALLOWED, message).into();
                let mut answer = self.refused_pv(&refusal, request.headers());
                allow(&mut answer, "GET, HEAD, OPTIONS");
                Ok(answer)
            }
        }
    }

    /// The answer to a browser that asks what a page of another origin may do.
    fn pv_options(&self, headers: &HeaderMap) -> Result<Answer, Refusal> {
        self.gate.check_origin(headers)?;
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

    /// `GET /pv/NAME`.
    async fn pv_value(
        &self,
        route: &Route,
        request: &Request<Incoming>,
        visit: &Visit,
    ) -> Result<Answer, Refusal> {
        let patience = self.patience(request)?;
        let mut client = self.plain_client(request.headers(), visit).await?;
        let selected = self.selected(request, &client).await?;
        let name = &route.name;
        let state = self
            .settled(&mut client, name, (patience, selected.describes))
            .await?;
        let owner = &client.caller().owner;
        let known = self.json(owner, name, (&selected.program, &state)).await?;
        let standing = Standing::of(&state);
        let (status, text) = if standing == Standing::Current {
            (StatusCode::OK, known)
        } else {
            let (status, message) = standing.error(patience);
            let mut text = error_json(&message);
            text.truncate(text.len() - b"}\n".len());
            text.extend_from_slice(br#","pv":"#);
            text.extend_from_slice(&known);
            text.extend_from_slice(b"}\n");
            let charge = owner.charge(text.len())?;
            (status, charged(text, charge))
        };
        client.sent(text.len());
        let mut answer = with_type(text, JSON);
        *answer.status_mut() = status;
        Ok(shared_with(answer, request.headers()))
    }

    /// Waits until it is known what a PV is, at most for `patience`, and for its description if that is requested.
    async fn settled(
        &self,
        client: &mut PlainClient,
        name: &str,
        (patience, describe): (Duration, bool),
    ) -> Result<PvState, Refusal> {
        let until = Instant::now() + patience;
        let begun = self
            .admin
            .queries
            .begin_read(client.caller(), name, describe);
        let mut reading = begun.map_err(refused_name)?;
        let state = tokio::select! {
            state = reading.wait(until, |state| !Standing::of(state).is_open()) => state,
            code = self.ended(client, name) => return Err(ended_by(code)),
        };
        state.ok_or_else(|| {
            let message = "the relay doesn't answer\n";
            (StatusCode::INTERNAL_SERVER_ERROR, message).into()
        })
    }

    /// The selection in the query, or that of every field.
    async fn selected(
        &self,
        request: &Request<Incoming>,
        client: &PlainClient,
    ) -> Result<Selected, Refusal> {
        let Some(text) = argument(request, "select") else {
            return Selected::read(EVERYTHING);
        };
        let size = Size::of(text.len());
        let read = move || Selected::read(&text);
        self.pool.compute(client.caller().cpu(), size, read).await?
    }

    /// The selected fields of a PV as JSON, charged to its owner. A selection may name a large value any number of times.
    async fn json(
        &self,
        owner: &Arc<Owner>,
        name: &str,
        (selection, state): (&Arc<Program>, &PvState),
    ) -> Result<Bytes, Refusal> {
        let length = selection.length(&snapshot(name, state));
        let mut charge = owner.charge(length)?;
        let (selection, name, state) = (Arc::clone(selection), name.to_owned(), state.clone());
        let write = move || {
            let mut text = Vec::new();
            push_json(&select(&selection, &snapshot(&name, &state)), &mut text);
            text
        };
        let size = Size::of(length / ELEMENT_BYTES);
        let text = self.pool.compute(owner.cpu(), size, write).await?;
        charge.resize(text.len())?;
        Ok(charged(text, charge))
    }
}
