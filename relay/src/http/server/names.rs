//! `GET /names`: names of PVs that contain a text, as JSON.

use hyper::body::Incoming;
use hyper::{Request, StatusCode};
use pvwire_schema::types::Outcome;

use super::answer::{Answer, Refusal, shared_with, with_type};
use super::caller::charged;
use super::query::argument;
use super::{Server, Visit};
use crate::compute::Size;
use crate::limits::memory::TooMuch;
use crate::queries::names::{MAX_LIMIT, Part, Text, Then};
use crate::session::question::Problem;

/// Path of the route.
pub(super) const PATH: &str = "/names";

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Self {
        let status = match problem.outcome {
            Outcome::BadValue => StatusCode::BAD_REQUEST,
            Outcome::NotAllowed => StatusCode::FORBIDDEN,
            Outcome::Interrupted => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        (status, format!("{problem}\n")).into()
    }
}

impl Server {
    /// Answers `GET /names?q=TEXT&limit=N&after=NEXT`.
    pub(super) async fn find_names(
        &self,
        request: &Request<Incoming>,
        visit: &Visit,
    ) -> Result<Answer, Refusal> {
        let headers = request.headers();
        let caller = self.gate.authenticated(headers, visit)?;
        let limit = argument(request, "limit").map(|text| {
            text.parse().map_err(|_| {
                let message = format!("limit is {text:?}: expected 1 to {MAX_LIMIT}\n");
                Refusal::from((StatusCode::BAD_REQUEST, message))
            })
        });
        let text = argument(request, "q").unwrap_or_default();
        let after = argument(request, "after");
        let limit = limit.transpose()?;
        let mut search = (self.names).search(&caller, &text, limit, after)?;
        let mut charge = caller.owner.charge(0)?;
        let mut text = Text::default();
        let next = loop {
            let step = move || {
                let Part { names, then } = search.step()?;
                text.push(&names);
                Ok::<_, TooMuch>((text, then))
            };
            let written = self.pool.compute(caller.cpu(), Size::Short, step).await?;
            let (so_far, then) = written?;
            text = so_far;
            charge.resize(text.bytes())?;
            match then {
                Then::Search(rest) => search = rest,
                Then::More(next) => break Some(next),
                Then::End => break None,
            }
        };
        let body = text.end(next.as_deref());
        charge.resize(body.len())?;
        let answer = with_type(charged(body, charge), "application/json");
        Ok(shared_with(answer, headers))
    }
}
