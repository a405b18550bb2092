//! `/status/pvs` and `/status/clients/ID`: pages of all PVs and of those that one client watches, and a client's end by
//! an operator.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hyper::body::Incoming;
use hyper::header;
use hyper::{Method, Request, StatusCode};
use pvwire_schema::close::CloseCode;
use pvwire_schema::types::{ConnectionState, Outcome};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::answer::{Answer, Refusal, not_allowed, plain, with_type};
use super::pvws::may_see;
use super::query::argument;
use super::trust::only;
use super::{Server, Visit};
use crate::access::audit::{self, Attempt, AuditError};
use crate::access::rule::Identity;
use crate::compute::Size;
use crate::fanout::control::ListedPv;
use crate::http::admin::pv_json;
use crate::limits::rate::Bucket;
use crate::session::shard::ClientSeen;

/// Path of a client, whose id follows.
const PATH: &str = "/status/clients/";

/// Path of the PVs.
pub(super) const PVS_PATH: &str = "/status/pvs";

/// Maximum number of PVs that one request compares with its words: the tick thread reads their states.
const COMPARED: usize = 5000;

/// Number of names in an answer, unless the request says another one.
const NAMES: usize = 200;

/// Maximum number of names in an answer.
const MAX_NAMES: usize = 1000;

const BUSY: &str = "the relay has too much work to answer in time: ask again later\n";

/// How long a request waits for a shard.
const PATIENCE: Duration = Duration::from_secs(2);

const NO_CLIENT: &str = "no client has this id: it has left\n";

const NOT_PERMITTED: &str =
    "you may not disconnect clients: the relay's operator names who may (disconnect_access)\n";

/// The id in a path such as `/status/clients/0.1.2`.
pub(super) fn id_in(path: &str) -> Option<&str> {
    path.strip_prefix(PATH).filter(|id| !id.is_empty())
}

/// The maximum number of rows in the answer to a request.
fn limit_of(request: &Request<Incoming>) -> Result<usize, Refusal> {
    match argument(request, "limit").map(|text| text.parse()) {
        None => Ok(NAMES),
        Some(Ok(limit @ 1..=MAX_NAMES)) => Ok(limit),
        Some(_) => {
            let message = format!("limit is not a number from 1 to {MAX_NAMES}\n");
            Err((StatusCode::BAD_REQUEST, message).into())
        }
    }
}

fn busy() -> Refusal {
    (StatusCode::SERVICE_UNAVAILABLE, BUSY).into()
}

/// Whether a PV's name, state and server have all of these words, which are in lower case.
fn has_words(pv: &ListedPv, words: &[&str]) -> bool {
    let state = match pv.state {
        ConnectionState::Connecting => "searched",
        ConnectionState::NotFound => "not found",
        ConnectionState::Connected => "connected",
        ConnectionState::Disconnected => "disconnected",
    };
    let row = format!(
        "{} {state} {}",
        pv.name,
        pv.server.as_deref().unwrap_or_default()
    );
    let row = row.to_lowercase();
    words.iter().all(|word| row.contains(word))
}

fn unrecorded(why: &AuditError) -> Refusal {
    let message = format!(
        "nothing was done: the relay's audit file can't be written ({why}), and without a record no client is \
         disconnected (audit_fail = closed)\n"
    );
    (StatusCode::SERVICE_UNAVAILABLE, message).into()
}

/// Refusals that are recorded a second, and at once: no client fills the disk.
const REFUSALS_PER_S: usize = 10;
const REFUSALS_AT_ONCE: usize = 1000;

/// The requests to disconnect clients.
pub struct Disconnections {
    /// Number of requests.
    begun: AtomicU64,
    /// Refusals that may still be recorded.
    refusals: Mutex<Bucket>,
}

impl Disconnections {
    /// No requests.
    #[must_use]
    pub fn new(now: Instant) -> Self {
        Self {
            begun: AtomicU64::new(0),
            refusals: Mutex::new(Bucket::new(REFUSALS_PER_S, REFUSALS_AT_ONCE, now)),
        }
    }

    fn records_refusal(&self, now: Instant) -> bool {
        let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        refusals.take_one(now)
    }
}

/// A request to disconnect a client.
struct Disconnection<'a> {
    by: &'a Identity,
    address: &'a str,
    origin: &'a str,
    /// The client, for the audit file.
    client: Value,
    number: u64,
    begun: Instant,
}

impl Disconnection<'_> {
    fn attempt<'a>(&'a self, thread: usize, result: &'a str, message: &'a str) -> Attempt<'a> {
        Attempt {
            kind: "disconnect",
            number: (thread, self.number),
            identity: self.by,
            peer: self.address,
            origin: self.origin,
            pv: "",
            old: &self.client,
            new: &Value::Null,
            result,
            message,
            latency: self.begun.elapsed(),
        }
    }
}

impl Server {
    /// Answers a request for one client.
    pub(super) async fn client(
        &self,
        id: &str,
        request: &Request<Incoming>,
        visit: &Visit,
    ) -> Result<Answer, Refusal> {
        match *request.method() {
            Method::GET => self.pvs_of_client(id, request, visit).await,
            Method::DELETE => self.disconnect(id, request, visit).await,
            _ => Ok(not_allowed(
                "GET, HEAD, DELETE",
                "only GET and DELETE are allowed here\n",
            )),
        }
    }

    async fn found(&self, id: &str) -> Result<ClientSeen, Refusal> {
        let seen = self.admin.client_seen(id).await;
        seen.ok_or_else(|| (StatusCode::NOT_FOUND, NO_CLIENT).into())
    }

    /// `GET /status/pvs?q=WORDS&after=NAME&limit=N`: PVs by name that have each of the words in their names, states or
    /// servers, and that the reader of the page may read. `next` is the name after which the next page begins.
    pub(super) async fn pvs(
        &self,
        request: &Request<Incoming>,
        visit: &Visit,
    ) -> Result<Answer, Refusal> {
        let reader = self.reader_of_pages(request, visit)?;
        let limit = limit_of(request)?;
        let after = argument(request, "after").unwrap_or_default();
        let text = argument(request, "q").unwrap_or_default().to_lowercase();
        let cpu = self.cpu_of_reader(request, visit, reader.as_ref());
        let registry = Arc::clone(&self.admin.registry);
        let choose = move || {
            let mut after: Arc<str> = (*after).into();
            loop {
                let mut pvs = registry.list(&after, COMPARED);
                let end = pvs.last().map(|(name, ..)| Arc::clone(name));
                let end = end.filter(|_| pvs.len() == COMPARED);
                pvs.retain(|(name, ..)| may_see(&registry, reader.as_ref(), name));
                // A reader isn't told the name of a PV that it may not read, neither as the place to go on from.
                match (pvs.last(), end) {
                    (None, Some(end)) => after = end,
                    (last, end) => {
                        let last = last.filter(|_| end.is_some());
                        let last = last.map(|(name, ..)| Arc::clone(name));
                        return (pvs, last);
                    }
                }
            }
        };
        let (pvs, last) = self.pool.compute(&cpu, Size::Short, choose).await?;
        let pvs = self.admin.pvs_seen(pvs).await.ok_or_else(busy)?;
        let write = move || {
            let words: Vec<_> = text.split_whitespace().collect();
            let mut page: Vec<_> = pvs
                .iter()
                .filter(|pv| has_words(pv, &words))
                .take(limit + 1)
                .collect();
            let has_more = page.len() > limit;
            page.truncate(limit);
            let next = if has_more {
                page.last().map(|pv| &pv.name)
            } else {
                last.as_ref()
            };
            let pvs: Vec<_> = page.iter().map(|pv| pv_json(pv)).collect();
            json!({ "pvs": pvs, "next": next.map(|name| &**name) }).to_string()
        };
        let text = self.pool.compute(&cpu, Size::Short, write).await?;
        Ok(with_type(text, "application/json"))
    }

    /// `GET /status/clients/ID?after=NAME&limit=N`: the names of its PVs that the reader of the page may read, in order.
    async fn pvs_of_client(
        &self,
        id: &str,
        request: &Request<Incoming>,
        visit: &Visit,
    ) -> Result<Answer, Refusal> {
        let reader = self.reader_of_pages(request, visit)?;
        let limit = limit_of(request)?;
        let after = argument(request, "after").unwrap_or_default();
        let seen = self.found(id).await?;
        let sets = match seen.client {
            None => Vec::new(),
            Some(client) => self.admin.sets_of(vec![client]).await.ok_or_else(busy)?,
        };
        let cpu = self.cpu_of_reader(request, visit, reader.as_ref());
        let registry = Arc::clone(&self.admin.registry);
        let id = id.to_owned();
        let write = move || {
            let ids = sets.first().map_or(&[][..], |set| set.ids());
            let mut names: Vec<_> = registry.names(ids).into_iter().flatten().collect();
            names.extend(seen.pv.map(Arc::from));
            let all = names.len();
            names.retain(|name| **name > *after);
            names.sort_unstable();
            let readable = names
                .iter()
                .filter(|name| may_see(&registry, reader.as_ref(), name));
            let mut page: Vec<&str> = readable.take(limit + 1).map(|name| &**name).collect();
            let has_more = page.len() > limit;
            page.truncate(limit);
            let next = page.last().filter(|_| has_more);
            json!({ "id": id, "pvs": all, "names": page, "next": next }).to_string()
        };
        let text = self.pool.compute(&cpu, Size::Short, write).await?;
        Ok(with_type(text, "application/json"))
    }

    /// `DELETE /status/clients/ID`. The audit file has it, also when it is refused.
    async fn disconnect(
        &self,
        id: &str,
        request: &Request<Incoming>,
        visit: &Visit,
    ) -> Result<Answer, Refusal> {
        let headers = request.headers();
        let by = self.gate.operator(headers, visit)?;
        let client = self.admin.client_seen(id).await;
        let (address, user) = client.as_ref().map_or((None, None), |seen| {
            (Some(&seen.address), seen.user.as_ref())
        });
        let disconnection = Disconnection {
            by: &by,
            address: &self.gate.address_of(headers, visit),
            origin: only(headers, header::ORIGIN).unwrap_or_default(),
            client: json!({ "client": id, "address": address, "user": user }),
            number: self.disconnections.begun.fetch_add(1, Ordering::Relaxed),
            begun: Instant::now(),
        };
        if !self.gate.may_disconnect(&by, visit) {
            if self.disconnections.records_refusal(disconnection.begun) {
                let why = NOT_PERMITTED.trim_end();
                self.record(&disconnection, Outcome::NotAllowed, why);
            }
            return Err((StatusCode::FORBIDDEN, NOT_PERMITTED).into());
        }
        let gone = || Refusal::from((StatusCode::NOT_FOUND, NO_CLIENT));
        let seen = client.as_ref().ok_or_else(gone)?;
        self.begin_record(&disconnection).await?;
        if !self.end_client(seen).await {
            self.record(&disconnection, Outcome::NotConnected, NO_CLIENT.trim_end());
            return Err(gone());
        }
        self.record(&disconnection, Outcome::Done, "");
        let whom = seen.user.as_deref().unwrap_or_default();
        let (of, from) = (&seen.address, disconnection.address);
        log::info!("client {id} of user {whom:?} at {of} was disconnected by {by} at {from}");
        Ok(plain(StatusCode::OK, "disconnected\n"))
    }

    /// Ends a client; returns whether it was there.
    async fn end_client(&self, seen: &ClientSeen) -> bool {
        let Some(client) = seen.client else {
            return self.gate.plain_clients.end(&seen.id);
        };
        let Some(shard) = self.admin.shards.get(client.shard) else {
            return false;
        };
        let closed = shard.close(client, CloseCode::EndedByOperator);
        matches!(timeout(PATIENCE, closed).await, Ok(Ok(true)))
    }

    /// Puts on record that a client will be disconnected, if that is required.
    async fn begin_record(&self, disconnection: &Disconnection<'_>) -> Result<(), Refusal> {
        let Some(audit) = &self.admin.audit else {
            return Ok(());
        };
        let (written, result) = oneshot::channel();
        let recorded = Box::new(move |result| {
            // The request may have ended meanwhile.
            let _ = written.send(result);
        });
        let attempt = disconnection.attempt(self.admin.shards.len() + 1, "Begun", "");
        let waits = audit
            .begin(&attempt, recorded)
            .map_err(|why| unrecorded(&why))?;
        if waits {
            let result = timeout(audit::PATIENCE, result).await;
            let result = result.ok().and_then(Result::ok);
            let recorded = result.unwrap_or(Err(AuditError::Hangs));
            recorded.map_err(|why| unrecorded(&why))?;
        }
        Ok(())
    }

    /// Records the outcome.
    fn record(&self, disconnection: &Disconnection<'_>, outcome: Outcome, message: &str) {
        if let Some(audit) = &self.admin.audit {
            let result = format!("{outcome:?}");
            audit.end(&disconnection.attempt(self.admin.shards.len() + 1, &result, message));
        }
    }
}
