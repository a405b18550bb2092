//! Requests of clients: what each asks for, and which stage answers it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pvwire_schema::types::{
    Filter, NameError, PutRequest, PutValue, PvId, Reply, Request, RequestBody, RequestProblem,
};

use crate::access::rule::Identity;
use crate::config::Access;
use crate::fanout::control::{ClientId, ControlRequest, Get};
use crate::fanout::dialogue::WantedPv;
use crate::fanout::encoding::BadRequest;
use crate::ingest::{Call, Form, Put};
use crate::limits::connections::Caller;
use crate::limits::memory::Owner;
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
    /// The client logs in: the request's number and its token.
    LogIn(u32, String),
    /// The client asks for something before it has logged in.
    Stranger,
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
}

/// Number of PVs that a request has the relay look up. The end of a subscription is never refused.
fn names_in(body: &RequestBody) -> usize {
    match body {
        RequestBody::Subscribe { names, .. } | RequestBody::Get { names, .. } => names.len(),
        RequestBody::Describe { ids } => ids.len(),
        _ => 0,
    }
}

/// Who makes a request, and its number.
#[derive(Clone, Copy)]
struct Asker<'a> {
    client: ClientId,
    caller: &'a Caller,
    identity: &'a Arc<Identity>,
    owner: &'a Arc<Owner>,
    request: u32,
}

/// Turns requests into answers, and into requests to the stages that answer them.
pub struct Answerer {
    registry: Arc<Registry>,
    get_timeout: Duration,
    put_timeout: Duration,
    /// New names that clients may still ask for.
    names: HashMap<ClientId, NameBudget>,
    new_names: NewNameLimits,
}

impl Answerer {
    /// An answerer; a get or put that names no time-out waits for `get_timeout` or `put_timeout`. A
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
        }
    }

    /// Takes a client's request. A client whose `identity` isn't known yet may only log in. The request's memory
    /// is charged to the `owner`, and its names count in the `budget`.
    pub fn take(
        &mut self,
        (client, caller): (ClientId, &Caller),
        identity: Option<&Arc<Identity>>,
        owner: &Arc<Owner>,
        budget: &mut RequestBudget,
        Request { id, body }: Request,
    ) -> Outcome {
        let Some(identity) = identity else {
            return match body {
                RequestBody::Authenticate { token } => Outcome::LogIn(id, token),
                _ => Outcome::Stranger,
            };
        };
        let names = names_in(&body);
        if names > 0
            && let Err(too_many) = budget.take_names(names, Instant::now())
        {
            let (problem, message) = (RequestProblem::Refused, too_many.to_string());
            return Outcome::Answered(Reply::Error { problem, message }, id);
        }
        let asker = Asker {
            client,
            caller,
            identity,
            owner,
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
                asker.caller,
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
                    owner: Arc::clone(asker.owner),
                })
            }
            Err(why) => {
                let (problem, message) = (RequestProblem::Refused, why.to_string());
                Outcome::Answered(Reply::Error { problem, message }, request)
            }
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
            owner: Arc::clone(asker.owner),
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
            user: asker.identity.user.clone(),
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
                user: asker.identity.user.clone(),
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
        caller: &Caller,
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
        (client, caller, identity, owner): (ClientId, &Caller, &Arc<Identity>, &Arc<Owner>),
        wanted: Vec<WantedPv>,
    ) -> Vec<(Arc<Form>, Result<PvId, Refusal>)> {
        let registry = Arc::clone(&self.registry);
        let described: Vec<_> = wanted.iter().map(|wanted| wanted.describe).collect();
        let judged = wanted.into_iter().map(|wanted| {
            let WantedPv {
                name, filter, form, ..
            } = wanted;
            let permitted = || registry.permit(&name, identity, Access::Put).is_ok();
            let may_write = form.may_write && permitted();
            let form = Arc::new(Form { may_write, ..form });
            (name, filter, form)
        });
        let asked: Vec<_> = judged.collect();
        let acquired = self.acquire_new(client, caller, |left| {
            registry.acquire_forms(&asked, caller, identity, owner, left)
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
        caller: &Caller,
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
        let Asker {
            client,
            caller,
            identity,
            owner,
            ..
        } = asker;
        let mut errors = Vec::new();
        let registry = Arc::clone(&self.registry);
        let filter = filter.map(|filter| (filter, caller));
        let acquired = self.acquire_new(client, caller, |left| {
            registry.acquire_filtered(names, filter, identity, owner, left)
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
