//! The HTTP routes for clients of PVWS, below `/pvws/`.

use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use hyper::{Request, StatusCode};

use super::answer::{Answer, Refusal, plain, shared_with, with_type};
use super::{Server, Side, Visit};
use crate::doors::pvws::site::{self, Site};

/// The files run no scripts and load no styles except their own.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'";

const JSON: &str = "application/json";

impl Server {
    /// The answer to a request below `/pvws/`; `None` for other paths and when clients of PVWS aren't served.
    pub(super) fn pvws(
        &self,
        request: &Request<Incoming>,
        visit: &Visit,
    ) -> Option<Result<Answer, Refusal>> {
        let site = self.pvws.as_ref()?;
        let below = request.uri().path().strip_prefix("/pvws")?;
        if visit.side != Side::Clients {
            return None;
        }
        Some(match below.strip_prefix('/') {
            None if below.is_empty() => Ok(to_folder()),
            None => return None,
            Some("info") => self.pvws_info(site, request),
            Some(path) => Ok(file(path)),
        })
    }

    fn pvws_info(&self, site: &Site, request: &Request<Incoming>) -> Result<Answer, Refusal> {
        self.check_origin(request.headers())?;
        let asks_for_settings = argument(request, "env").is_some_and(|value| value == "true");
        let answer = with_type(site.info(asks_for_settings), JSON);
        Ok(shared_with(answer, request.headers()))
    }
}

/// The answer to the folder's name without a slash, below which relative links would be wrong.
fn to_folder() -> Answer {
    let mut answer = plain(StatusCode::FOUND, "see pvws/\n");
    let folder = HeaderValue::from_static("pvws/");
    answer.headers_mut().insert(header::LOCATION, folder);
    answer
}

/// A file. Like PVWS, unknown paths get the index page with status 404.
fn file(path: &str) -> Answer {
    let mut answer = match site::file(path) {
        Some(file) => with_type(file.content, file.content_type),
        None => {
            let page = site::index_below(path);
            let mut answer = with_type(page, "text/html; charset=utf-8");
            *answer.status_mut() = StatusCode::NOT_FOUND;
            answer
        }
    };
    let headers = answer.headers_mut();
    let policy = HeaderValue::from_static(POLICY);
    headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    answer
}

/// The first value of an argument in the query, as it is written there.
fn argument<'a>(request: &'a Request<Incoming>, name: &str) -> Option<&'a str> {
    let arguments = request.uri().query()?.split('&');
    let mut named = arguments.filter_map(|argument| argument.split_once('='));
    named.find(|(key, _)| *key == name).map(|(_, value)| value)
}
