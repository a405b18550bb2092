//! `/saved`: the lists of PVs that a user has saved on the relay.

use hyper::body::Incoming;
use hyper::{Method, Request, StatusCode};

use super::answer::{Answer, Refusal, not_allowed, shared_with, with_type};
use super::caller::{charged, received};
use super::query::decoded_path;
use super::{Audience, Server, Visit};
use crate::access::caller::Caller;
use crate::http::saved::{MAX_FILE_BYTES, SavedError, SavedLists};
use crate::limits::memory::Charge;

/// Path of all lists; a list's title follows after a slash.
const PATH: &str = "/saved";

/// The answer of a relay that keeps no lists.
const NO_LISTS: &str = r#"{"lists":null}"#;

impl From<SavedError> for Refusal {
    fn from(error: SavedError) -> Self {
        let status = match error {
            SavedError::Refused(_) => StatusCode::UNPROCESSABLE_ENTITY,
            SavedError::Malformed(_) => StatusCode::BAD_REQUEST,
            SavedError::Busy => StatusCode::SERVICE_UNAVAILABLE,
            SavedError::File(_) => StatusCode::INTERNAL_SERVER_ERROR,
            SavedError::NotComputed(why) => return why.into(),
        };
        (status, format!("{error}\n")).into()
    }
}

impl Server {
    /// Whether a request is for one list of this relay.
    pub(super) fn is_for_saved_list(&self, request: &Request<Incoming>, visit: &Visit) -> bool {
        let rest = request.uri().path().strip_prefix(PATH);
        let is_served = self.saved.is_some() && visit.audience == Audience::Clients;
        is_served && rest.is_some_and(|rest| rest.starts_with('/'))
    }

    /// Answers a request for saved lists; `None` for other paths.
    pub(super) async fn saved_lists(
        &self,
        request: &mut Request<Incoming>,
        visit: &Visit,
    ) -> Option<Result<Answer, Refusal>> {
        if visit.audience != Audience::Clients {
            return None;
        }
        let rest = request.uri().path().strip_prefix(PATH)?;
        let Some(saved) = &self.saved else {
            // The app asks for them without knowing, and a browser shows each 404 as an error.
            let is_app = self.app && rest.is_empty() && request.method() == Method::GET;
            return is_app.then(|| Ok(with_type(NO_LISTS, "application/json")));
        };
        let title = match rest.strip_prefix('/') {
            Some(title) => Some(decoded_path(title)),
            None => rest.is_empty().then_some(None)?,
        };
        Some(match title {
            Some(None) => Err((StatusCode::BAD_REQUEST, "the title is not UTF-8\n").into()),
            Some(Some(title)) => self.change_of_list(saved, request, title, visit).await,
            None if request.method() == Method::GET => self.all_lists(saved, request, visit).await,
            None => Ok(not_allowed("GET, HEAD", "only GET is allowed at /saved\n")),
        })
    }

    async fn all_lists(
        &self,
        saved: &SavedLists,
        request: &Request<Incoming>,
        visit: &Visit,
    ) -> Result<Answer, Refusal> {
        let caller = self.gate.authenticated(request.headers(), visit)?;
        let charge = room(&caller)?;
        let lists = saved.read(&caller, &self.pool).await?;
        Ok(shared_with(json(lists, charge)?, request.headers()))
    }

    async fn change_of_list(
        &self,
        saved: &SavedLists,
        request: &mut Request<Incoming>,
        title: String,
        visit: &Visit,
    ) -> Result<Answer, Refusal> {
        let headers = request.headers().clone();
        let is_put = match *request.method() {
            Method::PUT => true,
            Method::DELETE => false,
            _ => {
                return Ok(not_allowed(
                    "PUT, DELETE",
                    "only PUT and DELETE are allowed here\n",
                ));
            }
        };
        let caller = self.gate.authenticated(&headers, visit)?;
        // Lists come from people, as puts do.
        let now = std::time::Instant::now();
        let counted = (caller.rates).count(|budget| budget.take_put(now).then_some(()).ok_or(()));
        if counted.is_err() {
            let message = "too many changes a second (max_puts_per_s)\n";
            return Err((StatusCode::TOO_MANY_REQUESTS, message).into());
        }
        let charge = room(&caller)?;
        let body = if is_put {
            let too_long = "the lists of a user may have at most 1 MiB\n";
            let most = MAX_FILE_BYTES as usize;
            Some(received(&caller, request.body_mut(), most, too_long).await?)
        } else {
            None
        };
        let (body, _of_body) = body.unzip();
        let lists = saved.set(&caller, &self.pool, title, body).await?;
        Ok(shared_with(json(lists, charge)?, &headers))
    }
}

/// Charges the longest answer before it is made.
fn room(caller: &Caller) -> Result<Charge, Refusal> {
    Ok(caller.owner.charge(MAX_FILE_BYTES as usize)?)
}

fn json(text: Vec<u8>, mut charge: Charge) -> Result<Answer, Refusal> {
    charge.resize(text.len())?;
    Ok(with_type(charged(text, charge), "application/json"))
}
