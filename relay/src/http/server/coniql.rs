//! The HTTP routes for clients of Coniql: `/graphql` and `/ws` without a handshake, and the page for trying
//! documents.

mod graphiql;

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, StatusCode};
use pvwire_coniql::{OperationKind, Payload, PayloadError, Requests, may_introspect};

use super::answer::{Answer, Refusal, allow, not_allowed, plain, shared_with, with_type};
use super::caller::{Guest, charged, charged_body, received};
use super::query::argument;
use super::{Audience, Server, Visit};
use crate::compute::Size;
use crate::doors::coniql::Coniql;
use crate::doors::coniql::batch::Plan;
use crate::limits::memory::{Charge, Owner, TooMuch};
use crate::limits::requests::RequestBudget;
use crate::session::batch;
use crate::state::batch::{Batch, BatchResult};

const JSON: &str = "application/json";

/// The content type of responses for clients that know it. Its responses to requests that can't be carried out have a
/// separate status.
const RESPONSE_JSON: &str = "application/graphql-response+json";

/// Methods of the paths for documents.
const METHODS: &str = "GET, HEAD, POST, OPTIONS";

/// Maximum length of a request's body.
const MOST_BYTES: usize = 1 << 20;

/// Bytes that reading a body takes for each of its bytes, at most: empty lists.
const READ_FACTOR: usize = 24;

/// How long a request may wait for its puts and values: the server ends slower answers.
const PATIENCE: Duration = Duration::from_secs(8);

/// How long a browser may remember what a page of another origin may send.
const MAX_AGE_S: &str = "3600";

/// Who makes a request, and what its operations may still ask for together.
struct Asker {
    caller: Guest,
    budget: RefCell<RequestBudget>,
}

impl Asker {
    /// Counts the puts and names of an operation.
    fn count(&self, batch: &Batch) -> Result<(), BatchResult> {
        let now = Instant::now();
        batch::count(batch, &mut self.budget.borrow_mut(), now)?;
        let rates = &self.caller.rates;
        rates.count(|budget| batch::count(batch, budget, now))
    }
}

/// Responses to one request, with the status of the answer.
struct Responses {
    status: StatusCode,
    body: Vec<u8>,
    /// `None` of a short one.
    charge: Option<Charge>,
}

/// A JSON response of this status.
fn responses(status: StatusCode, body: Vec<u8>) -> Responses {
    let charge = None;
    Responses {
        status,
        body,
        charge,
    }
}

/// A list of responses, charged before it is written.
fn list(all: Vec<Responses>, owner: &Arc<Owner>) -> Result<Responses, TooMuch> {
    let length = all.iter().map(|one| one.body.len() + 1).sum::<usize>() + 2;
    let charge = owner.charge(length)?;
    let mut body = Vec::with_capacity(length);
    for one in all {
        body.push(if body.is_empty() { b'[' } else { b',' });
        body.extend(one.body);
    }
    body.push(b']');
    Ok(Responses {
        charge: Some(charge),
        ..responses(StatusCode::OK, body)
    })
}

impl Server {
    /// Whether a request has a path for documents, which pages of other origins may use.
    pub(super) fn is_for_documents(&self, request: &Request<Incoming>, visit: &Visit) -> bool {
        let is_served = self.coniql.is_some() && visit.audience == Audience::Clients;
        is_served && ["/ws", "/graphql"].contains(&request.uri().path())
    }

    /// The answer to a request of a client of Coniql; `None` for other requests, and when these clients aren't
    /// served.
    pub(super) async fn coniql(
        &self,
        request: &mut Request<Incoming>,
        visit: &Visit,
    ) -> Option<Result<Answer, Refusal>> {
        let door = self.coniql.as_ref()?;
        if visit.audience != Audience::Clients {
            return None;
        }
        let method = request.method().clone();
        let path = request.uri().path();
        if method == Method::GET
            && door.has_page
            && let Some(answer) = graphiql::answer(path, request.headers())
        {
            return Some(Ok(answer));
        }
        Some(match (path, method) {
            ("/ws" | "/graphql", Method::POST) => self.coniql_post(door, request, visit).await,
            ("/ws" | "/graphql", Method::OPTIONS) => self.coniql_options(request.headers()),
            ("/graphql", Method::GET) if door.has_page && asks_for_page(request) => {
                Ok(graphiql::page())
            }
            ("/graphql", Method::GET) => self.coniql_get(door, request, visit).await,
            ("/ws", Method::GET) if !request.headers().contains_key(header::UPGRADE) => {
                self.coniql_get(door, request, visit).await
            }
            // A handshake.
            ("/ws", Method::GET) => return None,
            ("/ws" | "/graphql", _) => Ok(not_allowed(METHODS, "only GET and POST are allowed\n")),
            _ => return None,
        })
    }

    async fn coniql_get(
        &self,
        door: &Coniql,
        request: &Request<Incoming>,
        visit: &Visit,
    ) -> Result<Answer, Refusal> {
        let query = request.uri().query().unwrap_or_default().len();
        let of = |name| argument(request, name);
        let [document, operation] = [of("query"), of("operationName")];
        let [variables, extensions] = [of("variables"), of("extensions")];
        let read = move || {
            let [variables, extensions] = [variables.as_deref(), extensions.as_deref()];
            let payload = Payload::from_arguments(document, operation, variables, extensions);
            payload.map(Requests::One)
        };
        let caller = self.gate.caller(request.headers(), visit)?;
        self.coniql_answer(door, request, caller, (query, read))
            .await
    }

    async fn coniql_post(
        &self,
        door: &Coniql,
        request: &mut Request<Incoming>,
        visit: &Visit,
    ) -> Result<Answer, Refusal> {
        let caller = self.gate.caller(request.headers(), visit)?;
        let too_long = "a request may have at most 1 MiB\n";
        let (body, mut charge) =
            received(&caller, request.body_mut(), MOST_BYTES, too_long).await?;
        charge.resize(body.len() * READ_FACTOR)?;
        let (length, read) = (body.len(), move || Requests::from_json(&body));
        self.coniql_answer(door, request, caller, (length, read))
            .await
    }

    /// Carries out queries and mutations, which `read` reads from this many bytes.
    async fn coniql_answer(
        &self,
        door: &Coniql,
        request: &Request<Incoming>,
        caller: Guest,
        (bytes, read): (
            usize,
            impl FnOnce() -> Result<Requests, PayloadError> + Send + 'static,
        ),
    ) -> Result<Answer, Refusal> {
        let headers = request.headers();
        let asker = Asker {
            caller,
            budget: RefCell::new(RequestBudget::new(self.requests, Instant::now())),
        };
        let caller = &asker.caller;
        let requests = self
            .pool
            .compute(caller.cpu(), Size::of(bytes), read)
            .await?;
        let knows_type = knows_response_type(headers);
        let one = |payload| self.coniql_response(door, request, &asker, payload);
        let Responses {
            mut status,
            body,
            charge,
        } = match requests {
            Ok(Requests::One(payload)) => one(Ok(payload)).await?,
            Ok(Requests::Batch(batch)) => {
                let mut all =
                    Vec::<Pin<Box<dyn Future<Output = Result<Responses, Refusal>>>>>::new();
                for payload in batch {
                    all.push(Box::pin(one(payload)));
                }
                let all = all_of(all).await.into_iter();
                let all = all.collect::<Result<Vec<_>, _>>()?;
                let bytes = all.iter().map(|one| one.body.len()).sum();
                let owner = Arc::clone(&caller.owner);
                let write = move || list(all, &owner);
                let written = self.pool.compute(caller.cpu(), Size::of(bytes), write);
                written.await??
            }
            Err(why) => one(Err(why)).await?,
        };
        if status == StatusCode::UNPROCESSABLE_ENTITY {
            // The document is wrong. Clients of this type see so by the status, others read the errors.
            status = if knows_type {
                StatusCode::BAD_REQUEST
            } else {
                StatusCode::OK
            };
        }
        let content_type = if knows_type { RESPONSE_JSON } else { JSON };
        let body = match charge {
            Some(charge) => charged(body, charge),
            None => charged_body(caller, body)?,
        };
        let mut answer = with_type(body, content_type);
        *answer.status_mut() = status;
        if status == StatusCode::METHOD_NOT_ALLOWED {
            allow(&mut answer, "POST");
        }
        Ok(shared_with(answer, headers))
    }

    /// The response to one request. The status is `UNPROCESSABLE_ENTITY` if its document can't be carried out.
    async fn coniql_response(
        &self,
        door: &Coniql,
        request: &Request<Incoming>,
        asker: &Asker,
        payload: Result<Payload, PayloadError>,
    ) -> Result<Responses, Refusal> {
        let payload = match payload {
            Ok(payload) => payload,
            Err(why) => {
                let status = match why {
                    PayloadError::Persisted => StatusCode::OK,
                    _ => StatusCode::BAD_REQUEST,
                };
                return Ok(responses(status, why.response()));
            }
        };
        let caller = &asker.caller;
        let size = match Size::of(payload.query.len() + payload.variables.len()) {
            Size::Tiny if may_introspect(payload.query.as_bytes()) => Size::Short,
            size => size,
        };
        let documents = door.documents();
        let dialect = documents.dialect();
        let plan = move || match documents.operation(&payload) {
            Ok(operation) => {
                let (plan, batch) = Plan::new(&operation, dialect);
                Ok((operation, plan, batch))
            }
            Err(refusal) => {
                let mut body = Vec::new();
                refusal.push_response(&mut body);
                Err(responses(StatusCode::UNPROCESSABLE_ENTITY, body))
            }
        };
        let (operation, plan, mut batch) = match self.pool.compute(caller.cpu(), size, plan).await?
        {
            Ok(planned) => planned,
            Err(refused) => return Ok(refused),
        };
        let is_get = request.method() == Method::GET;
        match operation.kind() {
            OperationKind::Subscription => {
                let why = "subscriptions need a WebSocket: use /ws";
                return Ok(responses(StatusCode::BAD_REQUEST, error(why)));
            }
            OperationKind::Mutation if is_get => {
                let status = match request.uri().path() {
                    // As Coniql answers.
                    "/ws" => StatusCode::BAD_REQUEST,
                    _ => StatusCode::METHOD_NOT_ALLOWED,
                };
                let why = "mutations are not allowed when using GET";
                return Ok(responses(status, error(why)));
            }
            _ => {}
        }
        let patience = if batch.puts.is_empty() {
            PATIENCE
        } else {
            PATIENCE / 2
        };
        batch.put_timeout = batch.put_timeout.min(patience);
        for (_, timeout) in &mut batch.reads {
            *timeout = (*timeout).min(patience);
        }
        let result = match asker.count(&batch) {
            Ok(()) => self.admin.queries.run(caller, None, batch).await,
            Err(refused) => refused,
        };
        let (size, owner) = (Size::of(result.elements()), Arc::clone(&caller.owner));
        let write = move || plan.respond(&operation, (&result, &owner));
        let (body, charge) = self.pool.compute(caller.cpu(), size, write).await?;
        Ok(Responses {
            charge: Some(charge?),
            ..responses(StatusCode::OK, body)
        })
    }

    /// Tells a browser what a page of another origin may send.
    fn coniql_options(&self, headers: &HeaderMap) -> Result<Answer, Refusal> {
        self.gate.check_origin(headers)?;
        let mut answer = shared_with(plain(StatusCode::NO_CONTENT, ""), headers);
        let asked = headers.get(header::ACCESS_CONTROL_REQUEST_HEADERS);
        let asked = asked
            .cloned()
            .unwrap_or(HeaderValue::from_static("content-type"));
        let of = |value| HeaderValue::from_static(value);
        let told: [(HeaderName, HeaderValue); 3] = [
            (header::ACCESS_CONTROL_ALLOW_METHODS, of(METHODS)),
            (header::ACCESS_CONTROL_ALLOW_HEADERS, asked),
            (header::ACCESS_CONTROL_MAX_AGE, of(MAX_AGE_S)),
        ];
        answer.headers_mut().extend(told);
        Ok(answer)
    }
}

/// A response with one error.
fn error(message: &str) -> Vec<u8> {
    serde_json::json!({ "errors": [{ "message": message }] })
        .to_string()
        .into_bytes()
}

/// Whether a browser asks for a page and not for a document's response.
fn asks_for_page(request: &Request<Incoming>) -> bool {
    argument(request, "query").is_none() && accepts(request.headers(), "text/html")
}

fn knows_response_type(headers: &HeaderMap) -> bool {
    accepts(headers, RESPONSE_JSON)
}

fn accepts(headers: &HeaderMap, content_type: &str) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter();
    let mut lists = accepted.filter_map(|list| list.to_str().ok());
    lists.any(|list| list.contains(content_type))
}

/// The results of futures that run side by side, in their order.
async fn all_of<'a, T>(mut futures: Vec<Pin<Box<dyn Future<Output = T> + 'a>>>) -> Vec<T> {
    let mut results: Vec<Option<T>> = futures.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        for (future, result) in futures.iter_mut().zip(&mut results) {
            if result.is_none()
                && let Poll::Ready(done) = future.as_mut().poll(context)
            {
                *result = Some(done);
            }
        }
        if results.iter().all(Option::is_some) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
    results.into_iter().flatten().collect()
}
