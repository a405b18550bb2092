//! `GET /names`: names of PVs that contain a text, as JSON.

use hyper::body::Incoming;
use hyper::{Request, StatusCode};
use pvwire_schema::types::Outcome;

use super::answer::{Answer, Refusal, shared_with, with_type};
use super::caller::charged_body;
use super::query::argument;
use super::{Server, Visit};
use crate::compute::Size;
use crate::queries::names::{MAX_LIMIT, Part, Then, json};
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
        let mut names = Vec::new();
        let next = loop {
            let step = move || search.step();
            let part = self.pool.compute(caller.cpu(), Size::Short, step).await?;
            let Part { names: more, then } = part?;
            names.extend(more);
            match then {
                Then::Search(rest) => search = rest,
                Then::More(next) => break Some(next),
                Then::End => break None,
            }
        };
        let body = charged_body(&caller, json(&names, next.as_deref()))?;
        Ok(shared_with(with_type(body, "application/json"), headers))
    }
}
