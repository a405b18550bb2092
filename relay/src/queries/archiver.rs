//! The service `archiver`: archived samples of a PV from an Archiver Appliance, in the bytes in which it sends them.
//!
//! Only requests for the samples of one PV are forwarded, for clients that may read the PV now; an archiver's management
//! can't be reached. One thread makes all requests. It reads from an archiver no faster than the client takes.

mod exchange;
mod places;
mod thread;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use pvwire_schema::types::{NameProblem, Outcome};
use serde::Deserialize;
use tokio::sync::mpsc::{Receiver, UnboundedSender, channel};
use wildmatch::WildMatch;

use self::exchange::Exchange;
pub use self::thread::ArchiverThread;
use self::thread::Task;
use crate::access::caller::Caller;
use crate::access::rule::Identity;
use crate::config::{Access, ArchiverRule, Config};
use crate::ops::latency::wall_ns;
use crate::ops::metrics::Metrics;
use crate::queries::moment;
use crate::queries::service::Service;
use crate::session::question::{Pages, Problem, Question, Reply};
use crate::state::registry::Registry;

/// Most points that a request may want.
pub const MAX_POINTS: usize = 100_000;

/// Protocols of PVs that an archiver has. It knows a PV by its name without the protocol.
const PROTOCOLS: [&str; 2] = ["ca", "pva"];

/// Characters by which an archiver tells an operator and its arguments from a PV's name.
const OPERATOR_CHARACTERS: [char; 3] = ['(', ',', ')'];

/// Which samples are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Query {
    /// The PV.
    pub pv: String,
    /// Text of a [moment].
    pub from: Option<String>,
    /// The same; without it, now.
    pub to: Option<String>,
    /// If there are more samples than about this number, the archiver answers statistics of as many bins (`optimized_N`).
    pub points: Option<usize>,
}

/// Bounds of requests to archivers.
#[derive(Clone, Copy, Debug)]
struct Limits {
    max_bytes: usize,
    max_requests: usize,
    patience: Duration,
}

/// The archivers of a relay, and the rules that decide who may read which PV.
pub struct Archivers {
    registry: Arc<Registry>,
    rules: Vec<(WildMatch, ArchiverRule)>,
    tasks: UnboundedSender<Task>,
}

/// A part of an answer; `None` is its end.
type Part = Result<Option<Bytes>, Problem>;

/// An answer as it arrives. Dropping it ends the request to the archiver.
pub struct Fetching {
    parts: Receiver<Part>,
    /// Bytes of a part that did not fit into the last page.
    left: Bytes,
    tasks: UnboundedSender<Task>,
}

/// Who reads which PV.
struct Permission {
    registry: Arc<Registry>,
    identity: Arc<Identity>,
    /// The PV by each protocol, because the archiver doesn't distinguish them.
    names: Vec<String>,
}

impl Permission {
    /// Checked for each part, because rules may change meanwhile.
    fn check(&self) -> Result<(), Problem> {
        self.names.iter().try_for_each(|name| {
            let permitted = self.registry.permit(name, &self.identity, Access::Read);
            permitted.map_err(|refusal| {
                let outcome = match refusal.problem {
                    NameProblem::NotAllowed => Outcome::NotAllowed,
                    _ => Outcome::BadValue,
                };
                Problem::new(outcome, format!("{name}: {refusal}"))
            })
        })
    }
}

fn bad(message: impl Into<String>) -> Problem {
    Problem::new(Outcome::BadValue, message)
}

/// The archivers that the configuration names, with the thread that asks them.
///
/// # Errors
/// When the system gives no thread.
pub fn start(
    config: &Config,
    registry: &Arc<Registry>,
    metrics: &Arc<Metrics>,
) -> io::Result<Option<(Arc<Archivers>, ArchiverThread)>> {
    if config.archiver.is_empty() {
        return Ok(None);
    }
    let limits = Limits {
        max_bytes: config.archiver_max_bytes,
        max_requests: config.archiver_max_requests,
        patience: config.archiver_timeout,
    };
    let (tasks, thread) = ArchiverThread::start(limits, Arc::clone(metrics))?;
    let compiled = |rule: &ArchiverRule| (WildMatch::new(&rule.pattern), rule.clone());
    let archivers = Archivers {
        registry: Arc::clone(registry),
        rules: config.archiver.iter().map(compiled).collect(),
        tasks,
    };
    Ok(Some((Arc::new(archivers), thread)))
}

impl Archivers {
    /// Whether there is an archiver for a PV, named with its protocol.
    #[must_use]
    pub fn have(&self, name: &str) -> bool {
        self.rule(name).is_some()
    }

    /// The archiver of a PV, and the PV's name there.
    fn rule<'a>(&self, name: &'a str) -> Option<(&ArchiverRule, &'a str)> {
        let (protocol, plain) = name.split_once("://")?;
        let fits = |(pattern, _): &&(WildMatch, ArchiverRule)| {
            pattern.matches(name) || pattern.matches(plain)
        };
        let (_, rule) = self.rules.iter().find(fits)?;
        // A name with another protocol in it would be another PV's to the archiver.
        let is_name = PROTOCOLS.contains(&protocol) && !plain.contains("://");
        is_name.then_some((rule, plain))
    }

    /// Begins to request samples.
    ///
    /// # Errors
    /// What is wrong with the query, or why the client may not read the PV.
    pub fn fetch(&self, caller: &Caller, query: Query) -> Result<Fetching, Problem> {
        let identity = &caller.identity;
        let Query {
            pv,
            from,
            to,
            points,
        } = query;
        let shared = (self.registry.shared_key(&pv)).map_err(|why| bad(why.to_string()))?;
        self.registry
            .permit(&pv, identity, Access::Read)
            .map_err(|refusal| Problem::new(Outcome::NotAllowed, refusal.to_string()))?;
        let (rule, plain) = self.rule(&shared).ok_or_else(|| {
            let why = "this relay has no archiver for the PV: its operator names one by the option archiver";
            Problem::new(Outcome::BadName, why)
        })?;
        if plain.contains(OPERATOR_CHARACTERS) {
            let why = "an archiver has no PVs with a comma or parentheses in their names";
            return Err(Problem::new(Outcome::BadName, why));
        }
        let permission = Permission {
            registry: Arc::clone(&self.registry),
            identity: Arc::clone(identity),
            names: PROTOCOLS
                .map(|protocol| format!("{protocol}://{plain}"))
                .into(),
        };
        permission.check()?;
        if points.is_some_and(|points| !(1..=MAX_POINTS).contains(&points)) {
            return Err(bad(format!("points: expected 1 to {MAX_POINTS}")));
        }
        let now_ns = wall_ns();
        let read = |key: &str, text: &str| {
            moment::read(text, now_ns).map_err(|why| bad(format!("{key} is {text:?}: {why}")))
        };
        let from =
            from.ok_or_else(|| bad("from is missing: the time at which the samples begin"))?;
        let from_ns = read("from", &from)?;
        let to_ns = to.map_or(Ok(now_ns), |to| read("to", &to))?;
        if from_ns > to_ns {
            return Err(bad("from is later than to"));
        }
        let uri = exchange::address(&rule.url, plain, (from_ns, to_ns), points)
            .ok_or_else(|| bad("the archiver can't be asked for this name"))?;
        let (sender, parts) = channel(1);
        let exchange = Exchange::new(
            uri,
            rule.url.clone(),
            permission,
            caller.cpu().clone(),
            sender,
        );
        // Without the thread the relay is stopping, and the answer ends at once.
        let _ = self.tasks.send(Task::Exchange(exchange));
        Ok(Fetching {
            parts,
            left: Bytes::new(),
            tasks: self.tasks.clone(),
        })
    }
}

impl Fetching {
    /// The next part of the answer; `None` at its end. Parts are as long as they arrive.
    ///
    /// # Errors
    /// Why the answer is not whole.
    pub async fn next(&mut self) -> Part {
        self.parts.recv().await.unwrap_or_else(|| Err(stopped()))
    }

    /// The same for a caller that polls.
    pub fn poll_next(&mut self, context: &mut std::task::Context<'_>) -> std::task::Poll<Part> {
        let part = self.parts.poll_recv(context);
        part.map(|part| part.unwrap_or_else(|| Err(stopped())))
    }
}

fn stopped() -> Problem {
    Problem::new(
        Outcome::Interrupted,
        "the relay stopped asking the archiver",
    )
}

impl Pages for Fetching {
    fn next(self: Box<Self>, reply: Reply) {
        let tasks = self.tasks.clone();
        // A reply that can't be sent is dropped, which reports a failure.
        let _ = tasks.send(Task::Page(*self, reply));
    }
}

/// The service of these archivers.
pub struct ArchiverService(pub Arc<Archivers>);

impl Service for ArchiverService {
    fn name(&self) -> &'static str {
        "archiver"
    }

    fn answer(&self, question: &Question, reply: Reply) {
        let wanted = serde_json::from_slice(&question.body).map_err(|error| {
            bad(format!(
                "the question is not a JSON object with pv, from, to and points: {error}"
            ))
        });
        match wanted.and_then(|query| self.0.fetch(&question.caller, query)) {
            Ok(fetching) => Pages::next(Box::new(fetching), reply),
            Err(problem) => reply.give(Err(problem)),
        }
    }
}
