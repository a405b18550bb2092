//! The HTTP routes for clients of PVWS, below `/pvws/`.

mod sockets;

use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use hyper::{Request, StatusCode};

pub(super) use self::sockets::may_see;
use super::answer::{Answer, Refusal, plain, shared_with, with_type};
use super::caller::charged_body;
use super::query::argument;
use super::{Audience, Server, Visit};
use crate::compute::Size;
use crate::doors::pvws::site::{self, Site};

/// The files run no scripts and load no styles except their own.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'";

const JSON: &str = "application/json";

/// Maximum number of PVs that `pool` lists.
const LISTED_PVS: usize = 10_000;

/// How long `pvget` waits for a value.
const PATIENCE: Duration = Duration::from_secs(5);

impl Server {
    /// The answer to a request below `/pvws/`; `None` for other paths and when clients of PVWS aren't served.
    pub(super) async fn pvws(
        &self,
        request: &Request<Incoming>,
        visit: &Visit,
    ) -> Option<Result<Answer, Refusal>> {
        let site = self.pvws.as_ref()?;
        let below = request.uri().path().strip_prefix("/pvws")?;
        if below == "/pool" {
            return Some(self.pvws_pool(request, visit).await);
        }
        if let Some(answer) = self.pvws_sockets(request, visit).await {
            return Some(answer);
        }
        if visit.audience != Audience::Clients {
            return None;
        }
        Some(match below.strip_prefix('/') {
            None if below.is_empty() => Ok(to_folder()),
            None => return None,
            Some("info") => self.pvws_info(site, request),
            Some("pvget") => self.pvws_get(site, request, visit).await,
            Some(path) => Ok(file(path)),
        })
    }

    fn pvws_info(&self, site: &Site, request: &Request<Incoming>) -> Result<Answer, Refusal> {
        self.gate.check_origin(request.headers())?;
        let asks_for_settings = argument(request, "env").is_some_and(|value| value == "true");
        let answer = with_type(site.info(asks_for_settings), JSON);
        Ok(shared_with(answer, request.headers()))
    }

    /// The open PVs, for those who may see the relay's pages. Clients see only the names that they may read.
    async fn pvws_pool(
        &self,
        request: &Request<Incoming>,
        visit: &Visit,
    ) -> Result<Answer, Refusal> {
        let reader = self.reader_of_pages(request, visit)?;
        let cpu = self.cpu_of_reader(request, visit, reader.as_ref());
        let registry = Arc::clone(&self.admin.registry);
        let write = move || {
            let mut pvs = registry.list("", LISTED_PVS);
            pvs.retain(|(name, ..)| may_see(&registry, reader.as_ref(), name));
            let pvs: Vec<_> = (pvs.iter())
                .map(|(name, _, clients)| (*clients, &**name))
                .collect();
            site::pool(&pvs)
        };
        let list = self.pool.compute(&cpu, Size::Short, write).await?;
        Ok(with_type(list, JSON))
    }

    /// One update of the PV in the argument `name` or `pv`; an empty object when it has no value in time.
    async fn pvws_get(
        &self,
        site: &Site,
        request: &Request<Incoming>,
        visit: &Visit,
    ) -> Result<Answer, Refusal> {
        let headers = request.headers();
        let caller = self.gate.caller(headers, visit)?;
        let refused = |message: &'static str| Refusal::from((StatusCode::BAD_REQUEST, message));
        let asked = argument(request, "name").or_else(|| argument(request, "pv"));
        let asked = asked.ok_or_else(|| refused("say which PV: /pvws/pvget?name=NAME\n"))?;
        let target = site.target(&asked);
        let target = target.ok_or_else(|| refused("the relay has no PV of this type\n"))?;
        let text = match self
            .admin
            .queries
            .read(&caller, &target.name, PATIENCE)
            .await?
        {
            Ok(seen) => {
                let size = Size::of(seen.elements());
                let write = move || site::got(&asked, target.dialect, &seen);
                self.pool.compute(caller.cpu(), size, write).await?
            }
            Err(_) => b"{}".to_vec(),
        };
        Ok(shared_with(
            with_type(charged_body(&caller, text)?, JSON),
            headers,
        ))
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
