//! `GET /archiver/data`: archived samples of a PV, in the bytes of its archiver.
//!
//! An answer that is not whole has no end of its chunked encoding, by which clients tell it from a whole one.

use http_body_util::Either;
use hyper::body::Incoming;
use hyper::{Request, StatusCode};
use pvwire_schema::types::Outcome;

use super::answer::{Answer, Forwarded, Refusal, ended_by, shared_with, with_type};
use super::query::argument;
use super::{Server, Visit};
use crate::queries::archiver::{MAX_POINTS, Query};
use crate::session::question::Problem;

/// Path of the route.
pub(super) const PATH: &str = "/archiver/data";

/// The refusal of a request that an archiver can't answer.
fn refusal(problem: Problem) -> Refusal {
    let status = match problem.outcome {
        Outcome::BadName => StatusCode::NOT_FOUND,
        Outcome::TimedOut => StatusCode::GATEWAY_TIMEOUT,
        Outcome::Failed => StatusCode::BAD_GATEWAY,
        Outcome::Interrupted => StatusCode::SERVICE_UNAVAILABLE,
        _ => return problem.into(),
    };
    (status, format!("{problem}\n")).into()
}

impl Server {
    /// Answers `GET /archiver/data?pv=&from=&to=&points=`.
    pub(super) async fn archived(
        &self,
        request: &Request<Incoming>,
        visit: &Visit,
    ) -> Result<Answer, Refusal> {
        let headers = request.headers();
        let mut client = self.plain_client(headers, visit).await?;
        let Some(archivers) = &self.archivers else {
            let message =
                "this relay has no archiver: its operator names one by the option archiver\n";
            return Err((StatusCode::NOT_FOUND, message).into());
        };
        let points = argument(request, "points").map(|text| {
            text.parse().map_err(|_| {
                let message = format!("points is {text:?}: expected 1 to {MAX_POINTS}\n");
                Refusal::from((StatusCode::BAD_REQUEST, message))
            })
        });
        let pv = argument(request, "pv");
        let query = Query {
            pv: pv.ok_or((StatusCode::BAD_REQUEST, "pv is missing: the name of a PV\n"))?,
            from: argument(request, "from"),
            to: argument(request, "to"),
            points: points.transpose()?,
        };
        let fetching = archivers.fetch(client.caller(), query);
        let mut fetching = fetching.map_err(refusal)?;
        let first = tokio::select! {
            first = fetching.next() => first.map_err(refusal)?,
            code = client.ended(|_| true) => return Err(ended_by(code)),
        };
        let body = Forwarded::new(first, fetching, client);
        let mut answer = with_type("", "application/x-protobuf");
        *answer.body_mut() = Either::Right(Either::Right(Either::Right(body)));
        Ok(shared_with(answer, headers))
    }
}
