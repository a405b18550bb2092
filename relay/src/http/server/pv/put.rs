//! `PUT /pv/NAME`: one put, with its outcome.

use std::time::Duration;

use hyper::body::Incoming;
use hyper::{Request, StatusCode};
use pvwire_http::{PutBody, Route, put_answer, put_body};
use pvwire_schema::types::Outcome;
use tokio::time::Instant;

use super::JSON;
use super::standing::Standing;
use crate::access::caller::Caller;
use crate::compute::Size;
use crate::http::server::answer::{Answer, Refusal, ended_by, shared_with, with_type};
use crate::http::server::caller::received;
use crate::http::server::{Server, Visit};
use crate::ingest::{OpEnd, Put};
use crate::queries::plain_clients::PlainClient;
use crate::queries::write::Write;

/// Maximum length of a body.
const MAX_BODY_BYTES: usize = 1 << 20;

/// Bytes that reading a body takes for each of its bytes, at most: an array of one digit each.
const READ_FACTOR: usize = 24;

/// How long a put waits for its completion, unless the request says otherwise.
const COMPLETION: Duration = Duration::from_secs(10);

impl Server {
    /// `PUT /pv/NAME`.
    pub(super) async fn pv_put(
        &self,
        route: &Route,
        request: Request<Incoming>,
        visit: &Visit,
    ) -> Result<Answer, Refusal> {
        let (head, body) = request.into_parts();
        let headers = &head.headers;
        let mut client = self.plain_client(headers, visit).await?;
        let body = self.put_body(body, client.caller()).await?;
        let caller = client.caller().clone();
        // Each request is a client: only its address and its user have a rate.
        let now = std::time::Instant::now();
        let counted = (caller.rates).count(|budget| budget.take_put(now).then_some(()).ok_or(()));
        let put = Put {
            value: body.value,
            wait: body.wait,
            expected: None,
            user: caller.identity.user.clone(),
            timeout: body.timeout,
            by: None,
        };
        let write = Write {
            puts: vec![(route.name.clone(), put)],
            within_limits: body.check_limits,
            is_too_fast: counted.is_err(),
            client: None,
        };
        let mut ends = tokio::select! {
            ends = self.admin.queries.write(&caller, write) => ends,
            code = client.ended(|_| true) => return Err(ended_by(code)),
        };
        let lost = || OpEnd::failed(Outcome::Unknown, "the relay failed; see its log");
        let end = ends.pop().unwrap_or_else(lost);
        let (status, text) = put_answer(end.outcome, &end.message, end.result.as_ref());
        let mut status = StatusCode::from_u16(status).unwrap_or_default();
        if counted.is_err() {
            status = StatusCode::TOO_MANY_REQUESTS;
        } else if status == StatusCode::SERVICE_UNAVAILABLE
            && self.is_not_found(&client, route).await
        {
            status = StatusCode::NOT_FOUND;
        }
        client.sent(text.len());
        let mut answer = with_type(text, JSON);
        *answer.status_mut() = status;
        Ok(shared_with(answer, headers))
    }

    /// What the body asks for.
    async fn put_body(&self, mut body: Incoming, caller: &Caller) -> Result<PutBody, Refusal> {
        let too_long = "a put may have at most 1 MiB: write fewer elements at a time\n";
        let (bytes, _charge) = received(caller, &mut body, MAX_BODY_BYTES, too_long).await?;
        let owner = &caller.owner;
        let _read = owner.charge(bytes.len() * READ_FACTOR)?;
        let (size, read) = (Size::of(bytes.len()), move || put_body(&bytes, COMPLETION));
        let body = self.pool.compute(owner.cpu(), size, read).await?;
        body.map_err(|error| (StatusCode::BAD_REQUEST, format!("{error}\n")).into())
    }

    /// Whether no server has answered for the PV, as far as the relay knows.
    async fn is_not_found(&self, client: &PlainClient, route: &Route) -> bool {
        let begun = (self.admin.queries).begin_read(client.caller(), &route.name, false);
        let Ok(mut reading) = begun else {
            return false;
        };
        let state = reading.wait(Instant::now(), |_| true).await;
        state.is_some_and(|state| Standing::of(&state).is_unknown())
    }
}
