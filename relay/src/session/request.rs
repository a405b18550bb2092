//! What does a client's request ask for, and who answers it?

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pvwire_schema::decode::{self, DecodeError};
use pvwire_schema::types::{
    Filter, NameError, PutRequest, PvId, Reply, RequestBody, RequestProblem,
};

use crate::access::rule::Identity;
use crate::fanout::control::{ClientId, Demand};
use crate::ingest::{Call, Put};
use crate::limits::connections::Caller;
use crate::limits::memory::Owner;
use crate::limits::requests::{LONGEST_GET, LONGEST_PUT, timeout};
use crate::limits::subscriptions::{NameBudget, NewNameLimits};
use crate::ops::latency::wall_ns;
use crate::session::operation::{OpOrder, Operation};
use crate::state::filter;
use crate::state::registry::Registry;

/// What became of a request.
pub enum Outcome {
    /// Here is the answer, and the request's number.
    Answered(Reply, u32),
    /// The stage before must answer.
    Demanded(Demand),
    /// PVs are to be written, in this order, or a service is to be called.
    Operations {
        /// What is to be done.
        orders: Vec<OpOrder>,
        /// None of it unless all is permitted.
        all_permitted: bool,
    },
    /// The client shows who it is: the request's number and its token.
    LogIn(u32, String),
    /// It asks for something before it has shown who it is.
    Stranger,
    /// It is done, and has no answer.
    Silent,
    /// It was an acknowledgement of this tick.
    Acknowledged(u64),
    /// The client wants to be brought up to date at intervals of this length, or by every tick.
    Paced(Option<Duration>),
}

/// Turns requests into answers and demands.
pub struct Answerer {
    registry: Arc<Registry>,
    get_timeout: Duration,
    put_timeout: Duration,
    /// New names that clients may still ask for.
    names: HashMap<ClientId, NameBudget>,
    new_names: NewNameLimits,
}

impl Answerer {
    /// An answerer; a get or put that names no time-out waits for `get_timeout` or `put_timeout`. A client
    /// may ask for new names as `new_names` says.
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

    /// Takes a request's bytes. A client whose `identity` isn't known yet may only show who it is. What the
    /// request takes in memory is charged to the `owner`.
    ///
    /// # Errors
    /// When they are no request at all. One that is whole but of a kind that this relay doesn't
    /// know is answered with an error.
    pub fn take(
        &mut self,
        client: ClientId,
        caller: &Caller,
        identity: Option<&Arc<Identity>>,
        owner: &Arc<Owner>,
        bytes: &[u8],
    ) -> Result<Outcome, DecodeError> {
        let request = match decode::request(bytes) {
            Ok(request) => request,
            Err(error @ (DecodeError::Missing(_) | DecodeError::TooMany { .. })) => {
                let problem = match error {
                    DecodeError::Missing(_) => RequestProblem::NotSupported,
                    _ => RequestProblem::Refused,
                };
                let reply = Reply::Error {
                    problem,
                    message: error.to_string(),
                };
                return Ok(Outcome::Answered(reply, decode::request_id(bytes)?));
            }
            Err(error) => return Err(error),
        };
        let id = request.id;
        let body = request.body;
        let Some(identity) = identity else {
            return Ok(match body {
                RequestBody::Authenticate { token } => Outcome::LogIn(id, token),
                _ => Outcome::Stranger,
            });
        };
        Ok(match body {
            RequestBody::Authenticate { token } => Outcome::LogIn(id, token),
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
                Outcome::Answered(
                    Reply::Pong {
                        client_time_ns,
                        relay_time_ns,
                    },
                    id,
                )
            }
            RequestBody::Subscribe { names, filter } => match filter::checked(filter) {
                Ok(filter) => {
                    let (ids, errors) =
                        self.acquire((client, caller), (identity, owner), &names, filter);
                    Outcome::Demanded(Demand::Subscribe {
                        client,
                        request: id,
                        ids,
                        errors,
                    })
                }
                Err(message) => {
                    let problem = RequestProblem::Refused;
                    Outcome::Answered(Reply::Error { problem, message }, id)
                }
            },
            RequestBody::Unsubscribe { ids } => Outcome::Demanded(Demand::Unsubscribe {
                client,
                request: id,
                ids,
            }),
            RequestBody::Get {
                names,
                timeout_ms,
                description,
            } => {
                let (ids, errors) = self.acquire((client, caller), (identity, owner), &names, None);
                let described = description.then(|| self.registry.describe(&ids));
                let timeout = timeout(timeout_ms, self.get_timeout, LONGEST_GET);
                let deadline = Instant::now() + timeout;
                Outcome::Demanded(Demand::Get {
                    client,
                    request: id,
                    ids,
                    described: described.unwrap_or_default(),
                    errors,
                    deadline,
                    timeout,
                    owner: Arc::clone(owner),
                })
            }
            RequestBody::Put(put) => self.puts(client, (identity, owner), id, vec![put], false),
            RequestBody::PutMany {
                puts,
                all_permitted,
            } => self.puts(client, (identity, owner), id, puts, all_permitted),
            RequestBody::Rpc {
                name,
                arguments,
                timeout_ms,
            } => {
                let timeout = timeout(timeout_ms, self.put_timeout, LONGEST_PUT);
                let order = OpOrder {
                    client,
                    identity: Arc::clone(identity),
                    owner: Arc::clone(owner),
                    request: id,
                    name,
                    operation: Operation::Call(Call {
                        arguments,
                        timeout,
                        user: identity.user.clone(),
                    }),
                    timeout,
                    held_back: None,
                };
                Outcome::Operations {
                    orders: vec![order],
                    all_permitted: false,
                }
            }
        })
    }

    /// The orders for puts; the answers have the numbers from `first` on.
    fn puts(
        &self,
        client: ClientId,
        (identity, owner): (&Arc<Identity>, &Arc<Owner>),
        first: u32,
        puts: Vec<PutRequest>,
        all_permitted: bool,
    ) -> Outcome {
        let order = |(at, put): (usize, PutRequest)| {
            let timeout = timeout(put.timeout_ms, self.put_timeout, LONGEST_PUT);
            OpOrder {
                client,
                identity: Arc::clone(identity),
                owner: Arc::clone(owner),
                request: first.wrapping_add(at as u32),
                name: put.name,
                operation: Operation::Put(Put {
                    value: put.value,
                    wait: put.wait,
                    expected: put.expected,
                    user: identity.user.clone(),
                    timeout,
                }),
                timeout,
                held_back: None,
            }
        };
        Outcome::Operations {
            orders: puts.into_iter().enumerate().map(order).collect(),
            all_permitted,
        }
    }

    fn acquire(
        &mut self,
        (client, caller): (ClientId, &Caller),
        (identity, owner): (&Identity, &Arc<Owner>),
        names: &[String],
        filter: Option<Filter>,
    ) -> (Vec<PvId>, Vec<NameError>) {
        let mut errors = Vec::new();
        let now = Instant::now();
        let budget =
            (self.names.entry(client)).or_insert_with(|| NameBudget::new(self.new_names, now));
        let mut left = budget.left(now);
        left.new = left.new.min(caller.names_left(now));
        let new = left.new;
        let filter = filter.map(|filter| (filter, caller));
        let acquired = (self.registry).acquire_filtered(names, filter, identity, owner, &mut left);
        let acquired = acquired.into_iter().enumerate();
        budget.spend(new - left.new, left.fresh, now);
        caller.take_names(new - left.new);
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

    /// Gives back what a demand holds that won't be made.
    pub fn withdraw(&self, demand: Demand) {
        if let Demand::Subscribe { ids, .. } | Demand::Get { ids, .. } = demand {
            let held = ids.into_iter().filter(|id| *id != PvId::NONE);
            self.registry.release(held, Instant::now());
        }
    }
}
