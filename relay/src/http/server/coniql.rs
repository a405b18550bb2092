//! The HTTP routes for clients of Coniql: `/graphql` and `/ws` without a handshake, and the page for trying
//! documents.

use std::time::Duration;

use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, StatusCode};
use pvwire_coniql::{OperationKind, Payload, PayloadError};

use super::answer::{Answer, Refusal, plain, shared_with, with_type};
use super::query::argument;
use super::trust::only;
use super::{Server, Side, Visit};
use crate::doors::coniql::Coniql;
use crate::doors::coniql::errand::Plan;

const JSON: &str = "application/json";

/// The page for trying documents.
const PAGE: &str = include_str!("coniql/page.html");

/// Maximum length of a request's body.
const MOST_BYTES: usize = 1 << 20;

/// How long a request may wait for its puts and values: the server ends slower answers.
const PATIENCE: Duration = Duration::from_secs(8);

/// How long a browser may remember what a page of another origin may send.
const MAX_AGE_S: &str = "3600";

impl Server {
    /// The answer to a request of a client of Coniql; `None` for other requests, and when these clients aren't
    /// served.
    pub(super) async fn coniql(
        &self,
        request: &mut Request<Incoming>,
        visit: &Visit,
    ) -> Option<Result<Answer, Refusal>> {
        let door = self.coniql.as_ref()?;
        if visit.side != Side::Clients {
            return None;
        }
        let method = request.method().clone();
        Some(match (request.uri().path(), method) {
            ("/graphiql", Method::GET) if door.has_page => {
                Ok(with_type(PAGE, "text/html; charset=utf-8"))
            }
            ("/ws" | "/graphql", Method::POST) => self.coniql_post(door, request, visit).await,
            ("/ws" | "/graphql", Method::OPTIONS) => self.coniql_options(request.headers()),
            ("/ws", Method::GET) if !request.headers().contains_key(header::UPGRADE) => {
                let payload = Payload::from_arguments(
                    argument(request, "query"),
                    argument(request, "operationName"),
                    argument(request, "variables").as_deref(),
                );
                self.coniql_answer(door, request, visit, payload).await
            }
            ("/graphql", _) => {
                let message = "only POST is allowed\n";
                Ok(plain(StatusCode::METHOD_NOT_ALLOWED, message))
            }
            _ => return None,
        })
    }

    async fn coniql_post(
        &self,
        door: &Coniql,
        request: &mut Request<Incoming>,
        visit: &Visit,
    ) -> Result<Answer, Refusal> {
        self.check_origin(request.headers())?;
        let body = Limited::new(request.body_mut(), MOST_BYTES).collect().await;
        let body = body.map_err(|_| {
            let message = "the request is longer than 1 MiB, or ended too soon\n";
            (StatusCode::PAYLOAD_TOO_LARGE, message)
        })?;
        let payload = Payload::from_json(&body.to_bytes());
        self.coniql_answer(door, request, visit, payload).await
    }

    /// Carries out a query or a mutation.
    async fn coniql_answer(
        &self,
        door: &Coniql,
        request: &Request<Incoming>,
        visit: &Visit,
        payload: Result<Payload, PayloadError>,
    ) -> Result<Answer, Refusal> {
        let headers = request.headers();
        let reader = self.reader(headers, visit)?;
        let bad = |why: &str| Refusal::from((StatusCode::BAD_REQUEST, format!("{why}\n")));
        let payload = payload.map_err(|why| bad(&why.to_string()))?;
        let mut response = Vec::new();
        match door.documents().operation(&payload) {
            Err(refusal) => refusal.push_response(&mut response),
            Ok(operation) => {
                match operation.kind() {
                    OperationKind::Subscription => {
                        return Err(bad("subscriptions need a WebSocket: use /ws"));
                    }
                    OperationKind::Mutation if request.method() == Method::GET => {
                        return Err(bad("mutations are not allowed when using GET"));
                    }
                    _ => {}
                }
                let (plan, mut errand) = Plan::new(&operation, door.documents().dialect());
                let patience = if errand.puts.is_empty() {
                    PATIENCE
                } else {
                    PATIENCE / 2
                };
                errand.put_timeout = errand.put_timeout.min(patience);
                for (_, timeout) in &mut errand.reads {
                    *timeout = (*timeout).min(patience);
                }
                let origin = only(headers, header::ORIGIN).unwrap_or_default();
                let asker = reader.asker(self.address_of(headers, visit), origin.to_owned());
                let ran = self.run(&reader, asker, None, errand).await;
                plan.respond(&operation, &ran, &mut response);
            }
        }
        let answer = with_type(reader.body(response)?, JSON);
        Ok(shared_with(answer, headers))
    }

    /// Tells a browser what a page of another origin may send.
    fn coniql_options(&self, headers: &HeaderMap) -> Result<Answer, Refusal> {
        self.check_origin(headers)?;
        let mut answer = shared_with(plain(StatusCode::NO_CONTENT, ""), headers);
        let asked = headers.get(header::ACCESS_CONTROL_REQUEST_HEADERS);
        let asked = asked
            .cloned()
            .unwrap_or(HeaderValue::from_static("content-type"));
        let of = |value| HeaderValue::from_static(value);
        let told: [(HeaderName, HeaderValue); 3] = [
            (
                header::ACCESS_CONTROL_ALLOW_METHODS,
                of("GET, POST, OPTIONS"),
            ),
            (header::ACCESS_CONTROL_ALLOW_HEADERS, asked),
            (header::ACCESS_CONTROL_MAX_AGE, of(MAX_AGE_S)),
        ];
        answer.headers_mut().extend(told);
        Ok(answer)
    }
}
