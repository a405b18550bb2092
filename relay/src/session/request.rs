//! Requests of clients: what each asks for, and which stage answers it.

mod repeated;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pvwire_schema::types::{
    Filter, NameError, PutRequest, PutValue, PvId, Reply, Request, RequestBody, RequestProblem,
};

use self::repeated::RepeatedRequests;
use crate::access::caller::Caller;
use crate::config::Access;
use crate::fanout::control::{ClientId, ControlRequest, Get};
use crate::fanout::door_session::WantedPv;
use crate::fanout::encoding::{BadRequest, Format};
use crate::ingest::{Call, Form, Put};
use crate::limits::connections::SharedBudgets;
use crate::limits::requests::{LONGEST_GET, LONGEST_PUT, RequestBudget, timeout};
use crate::limits::subscriptions::{NameBudget, NewNameLimits, NewNames};
use crate::ops::latency::wall_ns;
use crate::session::operation::Action;
use crate::state::filter;
use crate::state::registry::{Refusal, Registry};

/// The result of reading a request.
pub enum Outcome {
    /// The answer, and the request's number.
    Answered(Reply, u32),
    /// The fan-out stage answers.
    Control(ControlRequest),
    /// Write PVs in this order, or call a service.
    Operate {
        /// The number of the first answer; those of further ones follow.
        request: u32,
        /// The puts or the call, each with the name of the PV or service.
        actions: Vec<(String, Action)>,
        /// Do none of them unless all are permitted.
        all_permitted: bool,
        /// Refuse puts outside the control limits of their PVs.
        within_limits: bool,
    },
    /// Ask a service: the request's number, the service and the question.
    Asked(u32, String, Vec<u8>),
    /// End the answer to the question with this number.
    Cancelled(u32),
    /// The client logs in: the request's number and its token.
    LogIn(u32, String),
    /// The client asks for something before it has logged in.
    NotLoggedIn,
    /// Done; the request has no answer.
    Silent,
    /// An acknowledgement of this tick.
    Acknowledged(u64),
    /// Update the client at intervals of this length, or with every tick.
    Paced(Option<Duration>),
}

impl Outcome {
    /// The outcome of a message that is a request which the relay refuses; `None` when it is no request at all.
    #[must_use]
    pub fn of_bad(bad: BadRequest) -> Option<Self> {
        match bad {
            BadRequest::Refused {
                request,
                problem,
                message,
            } => Some(Self::Answered(Reply::Error { problem, message }, request)),
            BadRequest::Malformed => None,
        }
    }

    /// The refusal of a request, with the reason.
    fn refused(message: String, request: u32) -> Self {
        let problem = RequestProblem::Refused;
        Self::Answered(Reply::Error { problem, message }, request)
    }
}

/// How much less than a name that is looked up a PV costs that is acquired again.
const REPEATED_DISCOUNT: usize = 8;

/// Bytes of a formula that take as long to read as another PV's name to look up.
const FORMULA_BYTES_PER_NAME: usize = 64;

/// Number of PVs that a request has the relay look up. The end of a subscription is never refused.
fn names_in(body: &RequestBody) -> usize {
    let looked_up = |name: &String| match name.strip_prefix("eq://") {
        Some(formula) => 1 + formula.len() / FORMULA_BYTES_PER_NAME,
        None => 1,
    };
    match body {
        RequestBody::Subscribe { names, .. } | RequestBody::Get { names, .. } => {
            names.iter().map(looked_up).sum()
        }
        RequestBody::Describe { ids } => ids.len(),
        _ => 0,
    }
}

/// Who makes a request, and its number.
#[derive(Clone, Copy)]
struct Asker<'a> {
    client: ClientId,
    caller: &'a Caller,
    request: u32,
}

/// Turns requests into answers, and into requests to the stages that answer them.
pub struct RequestRouter {
    registry: Arc<Registry>,
    get_timeout: Duration,
    put_timeout: Duration,
    /// New names that clients may still ask for.
    names: HashMap<ClientId, NameBudget>,
    new_names: NewNameLimits,
    /// Names that were looked up in this round of reading.
    looked_up: usize,
    repeated: RepeatedRequests,
}

impl RequestRouter {
    /// A router; a get or put that names no time-out waits for `get_timeout` or `put_timeout`. A
    /// client may ask for new names as `new_names` says.
    #[must_use]
    pub fn new(
        registry: Arc<Registry>,
        get_timeout: Duration,
        put_timeout: Duration,
        new_names: NewNameLimits,
    ) -> Self {
        Self {
            registry,
            get_timeout,
            put_timeout,
            names: HashMap::new(),
            new_names,
            looked_up: 0,
            repeated: RepeatedRequests::default(),
        }
    }

    /// A round of reading begins.
    pub fn begin_round(&mut self) {
        self.looked_up = 0;
    }

    /// Names that were looked up in this round.
    #[must_use]
    pub fn looked_up(&self) -> usize {
        self.looked_up
    }

    /// Reads and takes a client's request. A client that hasn't logged in, without a `caller`, may do only that. The
    /// names of the request count in the `budget`.
    ///
    /// # Errors
    /// When the message is not a request that this relay carries out.
    pub fn take_message(
        &mut self,
        client: ClientId,
        caller: Option<&Caller>,
        budget: &mut RequestBudget,
        (format, message): (&dyn Format, &[u8]),
    ) -> Result<Outcome, BadRequest> {
        if let Some(caller) = caller
            && let Some(outcome) = self.repeat(client, caller, budget, message)
        {
            return Ok(outcome);
        }
        let request = format.request(message)?;
        // The rules before its PVs are acquired: if they change meanwhile, the PVs are not acquired again by them.
        let rules = RepeatedRequests::keeps(message).then(|| self.registry.rules_now());
        let outcome = self.take(client, caller, budget, request);
        if let Outcome::Control(ControlRequest::Subscribe { ids, errors, .. }) = &outcome
            && errors.is_empty()
            && let Some((caller, rules)) = caller.zip(rules)
            && let Some(number_at) = format.request_number_at(message)
            && let Some(acquired) = self.registry.acquired(ids, &caller.identity, rules)
        {
            let message = (message, number_at);
            self.repeated.keep(client.encoding, message, acquired);
        }
        Ok(outcome)
    }

    /// Takes a request to subscribe that another client has made before.
    fn repeat(
        &mut self,
        client: ClientId,
        caller: &Caller,
        budget: &mut RequestBudget,
        message: &[u8],
    ) -> Option<Outcome> {
        let (encoding, identity) = (client.encoding, &caller.identity);
        let (request, acquired) = self.repeated.find(encoding, message, identity)?;
        let (names, now) = (acquired.len(), Instant::now());
        self.looked_up += names / REPEATED_DISCOUNT + 1;
        if let Err(too_many) = budget.check_names(names, now) {
            return Some(Outcome::refused(too_many.to_string(), request));
        }
        let owner = Arc::clone(&caller.owner);
        let Some(ids) = self.registry.acquire_again(acquired, identity, &owner) else {
            self.repeated.drop_found();
            return None;
        };
        budget.spend_names(names);
        Some(Outcome::Control(ControlRequest::Subscribe {
            client,
            request,
            ids,
            errors: Vec::new(),
            owner,
        }))
    }

    /// Forgets requests that no client has repeated lately. Called about once a second.
    pub fn sweep(&mut self) {
        self.repeated.sweep();
    }

    /// Takes a client's request. A client that hasn't logged in, without a `caller`, may do only that. The names of
    /// the request count in the `budget`.
    fn take(
        &mut self,
        client: ClientId,
        caller: Option<&Caller>,
        budget: &mut RequestBudget,
        Request { id, body }: Request,
    ) -> Outcome {
        let Some(caller) = caller else {
            return match body {
                RequestBody::Authenticate { token } => Outcome::LogIn(id, token),
                _ => Outcome::NotLoggedIn,
            };
        };
        let names = names_in(&body);
        // A name that is refused has been read, too.
        self.looked_up += names;
        if names > 0
            && let Err(too_many) = budget.take_names(names, Instant::now())
        {
            return Outcome::refused(too_many.to_string(), id);
        }
        let asker = Asker {
            client,
            caller,
            request: id,
        };
        self.outcome(asker, body)
    }

    /// Handles a request of a client whose identity is known.
    fn outcome(&mut self, asker: Asker<'_>, body: RequestBody) -> Outcome {
        match body {
            RequestBody::Authenticate { token } => Outcome::LogIn(asker.request, token),
            RequestBody::Pace { interval_ms } => {
                let interval = Duration::from_millis(interval_ms.into());
                Outcome::Paced((!interval.is_zero()).then_some(interval))
            }
            RequestBody::Ack { tick } => Outcome::Acknowledged(tick),
            RequestBody::Describe { ids } => {
                self.registry.describe(&ids);
                Outcome::Silent
            }
            RequestBody::Ask { service, body } => Outcome::Asked(asker.request, service, body),
            RequestBody::Cancel { request } => Outcome::Cancelled(request),
            RequestBody::Ping { client_time_ns } => {
                let relay_time_ns = wall_ns();
                let pong = Reply::Pong {
                    client_time_ns,
                    relay_time_ns,
                };
                Outcome::Answered(pong, asker.request)
            }
            RequestBody::Subscribe { names, filter } => self.subscribe(asker, &names, filter),
            RequestBody::Unsubscribe { ids } => Outcome::Control(self.unsubscription(
                (asker.client, asker.request),
                &asker.caller.rates,
                ids,
            )),
            RequestBody::Get {
                names,
                timeout_ms,
                description,
            } => self.get(asker, &names, timeout_ms, description),
            RequestBody::Put(put) => self.puts(asker, vec![put], false, false),
            RequestBody::PutMany {
                puts,
                all_permitted,
            } => self.puts(asker, puts, all_permitted, false),
            RequestBody::PutWithin {
                puts,
                all_permitted,
            } => self.puts(asker, puts, all_permitted, true),
            RequestBody::Rpc {
                name,
                arguments,
                timeout_ms,
            } => self.call(asker, name, arguments, timeout_ms),
        }
    }

    fn subscribe(&mut self, asker: Asker<'_>, names: &[String], filter: Filter) -> Outcome {
        let (client, request) = (asker.client, asker.request);
        match filter::checked(filter) {
            Ok(filter) => {
                let filter = filter.unwrap_or(Filter::ALL);
                let (ids, errors) = self.acquire(asker, names, Some(filter));
                Outcome::Control(ControlRequest::Subscribe {
                    client,
                    request,
                    ids,
                    errors,
                    owner: Arc::clone(&asker.caller.owner),
                })
            }
            Err(why) => Outcome::refused(why.to_string(), request),
        }
    }

    fn get(
        &mut self,
        asker: Asker<'_>,
        names: &[String],
        timeout_ms: u32,
        description: bool,
    ) -> Outcome {
        let (ids, errors) = self.acquire(asker, names, None);
        let described = description.then(|| self.registry.describe(&ids));
        let timeout = timeout(timeout_ms, self.get_timeout, LONGEST_GET);
        Outcome::Control(ControlRequest::Get(Box::new(Get {
            client: asker.client,
            request: asker.request,
            ids,
            described: described.unwrap_or_default(),
            errors,
            deadline: Instant::now() + timeout,
            timeout,
            owner: Arc::clone(&asker.caller.owner),
        })))
    }

    fn call(
        &self,
        asker: Asker<'_>,
        name: String,
        arguments: Vec<(String, PutValue)>,
        timeout_ms: u32,
    ) -> Outcome {
        let call = Action::Call(Call {
            arguments,
            timeout: timeout(timeout_ms, self.put_timeout, LONGEST_PUT),
            user: asker.caller.identity.user.clone(),
            by: None,
        });
        Outcome::Operate {
            request: asker.request,
            actions: vec![(name, call)],
            all_permitted: false,
            within_limits: false,
        }
    }

    fn puts(
        &self,
        asker: Asker<'_>,
        puts: Vec<PutRequest>,
        all_permitted: bool,
        within_limits: bool,
    ) -> Outcome {
        let action = |put: PutRequest| {
            let action = Action::Put(Put {
                value: put.value,
                wait: put.wait,
                expected: put.expected,
                user: asker.caller.identity.user.clone(),
                timeout: timeout(put.timeout_ms, self.put_timeout, LONGEST_PUT),
                by: None,
            });
            (put.name, action)
        };
        Outcome::Operate {
            request: asker.request,
            actions: puts.into_iter().map(action).collect(),
            all_permitted,
            within_limits,
        }
    }

    /// A client's request to be sent no more of these PVs.
    pub fn unsubscription(
        &self,
        (client, request): (ClientId, u32),
        caller: &SharedBudgets,
        ids: Vec<PvId>,
    ) -> ControlRequest {
        self.registry.leave(&ids, caller);
        ControlRequest::Unsubscribe {
            client,
            request,
            ids,
        }
    }

    /// Acquires PVs for the client of a door. The PVs that it may not write have forms that say so.
    pub fn acquire_forms(
        &mut self,
        client: ClientId,
        caller: &Caller,
        wanted: Vec<WantedPv>,
    ) -> Vec<(Arc<Form>, Result<PvId, Refusal>)> {
        let registry = Arc::clone(&self.registry);
        self.looked_up += wanted.len();
        let described: Vec<_> = wanted.iter().map(|wanted| wanted.describe).collect();
        let judged = wanted.into_iter().map(|wanted| {
            let WantedPv {
                name, filter, form, ..
            } = wanted;
            let permitted = || {
                registry
                    .permit(&name, &caller.identity, Access::Put)
                    .is_ok()
            };
            let may_write = form.may_write && permitted();
            let form = Arc::new(Form { may_write, ..form });
            (name, filter, form)
        });
        let asked: Vec<_> = judged.collect();
        let acquired = self.acquire_new(client, &caller.rates, |left| {
            registry.acquire_forms(&asked, caller, left)
        });
        let to_describe = acquired
            .iter()
            .zip(described)
            .filter(|(_, describe)| *describe);
        let to_describe: Vec<_> = to_describe
            .filter_map(|(acquired, _)| acquired.as_ref().ok().copied())
            .collect();
        if !to_describe.is_empty() {
            registry.describe(&to_describe);
        }
        let forms = asked.into_iter().map(|(_, _, form)| form);
        forms.zip(acquired).collect()
    }

    /// Acquires PVs within the client's budget of new names.
    fn acquire_new(
        &mut self,
        client: ClientId,
        caller: &SharedBudgets,
        acquire: impl FnOnce(&mut NewNames) -> Vec<Result<PvId, Refusal>>,
    ) -> Vec<Result<PvId, Refusal>> {
        let now = Instant::now();
        let budget =
            (self.names.entry(client)).or_insert_with(|| NameBudget::new(self.new_names, now));
        let mut left = budget.left(now);
        left.new = left.new.min(caller.names_left(now));
        let new = left.new;
        let acquired = acquire(&mut left);
        budget.spend(new - left.new, left.fresh, now);
        caller.take_names(new - left.new);
        acquired
    }

    /// Acquires PVs, for a subscription with its filter.
    fn acquire(
        &mut self,
        asker: Asker<'_>,
        names: &[String],
        filter: Option<Filter>,
    ) -> (Vec<PvId>, Vec<NameError>) {
        let Asker { client, caller, .. } = asker;
        let mut errors = Vec::new();
        let registry = Arc::clone(&self.registry);
        let acquired = self.acquire_new(client, &caller.rates, |left| {
            registry.acquire_filtered(names, filter, caller, left)
        });
        let acquired = acquired.into_iter().enumerate();
        let ids = acquired.map(|(index, outcome)| {
            outcome.unwrap_or_else(|refusal| {
                let (problem, message) = (refusal.problem, refusal.message);
                errors.push(NameError {
                    index: index as u32,
                    problem,
                    message,
                });
                PvId::NONE
            })
        });
        (ids.collect(), errors)
    }

    /// The client is gone.
    pub fn forget(&mut self, client: ClientId) {
        self.names.remove(&client);
    }

    /// Releases the PVs of a request that won't be made.
    pub fn withdraw(&self, request: ControlRequest) {
        let ids = match request {
            ControlRequest::Subscribe { ids, .. } => Some(ids),
            ControlRequest::Get(get) => Some(get.ids),
            _ => None,
        };
        if let Some(ids) = ids {
            let held = ids.into_iter().filter(|id| *id != PvId::NONE);
            self.registry.release(held, Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use pvwire_schema::limits::{MAX_NAMES, MAX_REQUEST_BYTES};

    use super::*;
    use crate::limits::requests::RequestLimits;

    #[test]
    fn long_formula_counts_as_several_names_and_no_request_is_too_large() {
        let subscribe = |names| RequestBody::Subscribe {
            names,
            filter: Filter::default(),
        };
        let long = format!("eq://{}", "1+".repeat(256));
        assert_eq!(names_in(&subscribe(vec![long, "ca://A".into()])), 10);
        let length = MAX_REQUEST_BYTES / MAX_NAMES;
        let longest = format!("eq://{}", "1".repeat(length - 5));
        let names = names_in(&subscribe(vec![longest; MAX_NAMES]));
        assert!(names <= RequestLimits::names_at_once(1), "{names}");
    }
}
