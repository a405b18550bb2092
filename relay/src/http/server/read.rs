//! Reads one PV for an HTTP request, under the rules and limits of clients.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::HeaderMap;
use pvwire_schema::types::{NameProblem, PvId};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::answer::{Refusal, too_many};
use super::{Server, Visit};
use crate::access::auth::Peer;
use crate::access::rule::Identity;
use crate::config::Access;
use crate::fanout::control::{ControlRequest, Read};
use crate::fanout::dialogue::Seen;
use crate::limits::connections::{Caller, Stay};
use crate::limits::cpu::CpuShare;
use crate::limits::memory::{Charge, Owner, TooMuch};
use crate::limits::subscriptions::{MAX_LOAD_PER_CLIENT, NewNames};
use crate::session::errand::Asker;
use crate::state::registry::{self, Registry};

/// The client that makes a request.
pub(super) struct Reader {
    identity: Arc<Identity>,
    caller: Caller,
    owner: Arc<Owner>,
}

/// A read that has begun.
pub(super) struct Reading<'a> {
    held: Held<'a>,
    asked: oneshot::Receiver<Option<Seen>>,
}

/// Holds a PV until it is dropped.
pub(super) struct Held<'a> {
    pv: PvId,
    registry: &'a Registry,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.registry.release([self.pv], Instant::now());
    }
}

/// Bytes of a client with their charge.
struct Charged {
    text: Vec<u8>,
    _charge: Charge,
}

impl AsRef<[u8]> for Charged {
    fn as_ref(&self) -> &[u8] {
        &self.text
    }
}

impl From<registry::Refusal> for Refusal {
    fn from(refusal: registry::Refusal) -> Self {
        let status = match refusal.problem {
            NameProblem::NotAllowed => StatusCode::FORBIDDEN,
            NameProblem::TooManyPvs => StatusCode::TOO_MANY_REQUESTS,
            _ => StatusCode::BAD_REQUEST,
        };
        (status, format!("{refusal}\n")).into()
    }
}

impl From<TooMuch> for Refusal {
    fn from(why: TooMuch) -> Self {
        (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")).into()
    }
}

/// Bytes that are charged to a client as long as they are held.
pub(super) fn charged(text: Vec<u8>, charge: Charge) -> Bytes {
    Bytes::from_owner(Charged {
        text,
        _charge: charge,
    })
}

impl Reader {
    /// The client of an errand.
    pub(super) fn of(asker: &Asker, caller: Caller) -> Self {
        Self {
            identity: Arc::clone(&asker.identity),
            caller,
            owner: Arc::clone(&asker.owner),
        }
    }

    /// Who asks, with the address and origin of the request.
    pub(super) fn asker(&self, address: String, origin: String) -> Asker {
        let identity = Identity::clone(&self.identity);
        Asker {
            peer: Arc::new(Peer {
                address,
                origin,
                identity,
            }),
            identity: Arc::clone(&self.identity),
            owner: Arc::clone(&self.owner),
        }
    }

    /// The client's CPU budgets.
    pub(super) fn cpu(&self) -> &CpuShare {
        self.owner.cpu()
    }

    /// The body of an answer, charged to the client.
    pub(super) fn body(&self, text: Vec<u8>) -> Result<Bytes, Refusal> {
        let charge = self.owner.charge(text.len())?;
        Ok(charged(text, charge))
    }
}

impl Server {
    /// The client of a door that makes a request, unless it is refused like a WebSocket client.
    pub(super) fn reader(&self, headers: &HeaderMap, visit: &Visit) -> Result<Reader, Refusal> {
        self.check_origin(headers)?;
        let (identity, _) = self.visitor(headers, visit)?;
        if let Some(message) = self.full() {
            return Err((StatusCode::SERVICE_UNAVAILABLE, message).into());
        }
        let mut caller = visit.stay().as_ref().map(Stay::caller).unwrap_or_default();
        if let Some(user) = &identity.user {
            let arrived = self.callers.logged_in(&mut caller, user, Instant::now());
            arrived.map_err(too_many)?;
        }
        let address = self.address_of(headers, visit);
        let owner = (self.admin.memory).owner(&address, identity.user.as_deref());
        Ok(Reader {
            identity: Arc::new(identity),
            caller,
            owner,
        })
    }

    /// Reads a PV; `None` when it has no value within `patience`.
    pub(super) async fn read(
        &self,
        reader: &Reader,
        name: &str,
        patience: Duration,
    ) -> Result<Option<Seen>, Refusal> {
        let reading = self.begin_read(reader, name, false)?;
        self.end_read(reader, name, reading, patience).await
    }

    /// Begins to read a PV. `describe`: with its description, if there is one.
    pub(super) fn begin_read(
        &self,
        reader: &Reader,
        name: &str,
        describe: bool,
    ) -> Result<Reading<'_>, Refusal> {
        let held = self.acquire(reader, name)?;
        let (answer, asked) = oneshot::channel();
        let pv = held.pv;
        let describe = describe && !self.admin.registry.describe(&[pv]).is_empty();
        (self.admin.control).push(ControlRequest::Read(Read {
            pv,
            describe,
            describe_until: None,
            answer,
        }));
        Ok(Reading { held, asked })
    }

    /// Waits for the value; `None` when it does not come within `patience`.
    pub(super) async fn end_read(
        &self,
        reader: &Reader,
        name: &str,
        reading: Reading<'_>,
        patience: Duration,
    ) -> Result<Option<Seen>, Refusal> {
        let Reading { held, asked } = reading;
        let seen = timeout(patience, asked).await;
        drop(held);
        // The rules may have changed meanwhile.
        (self.admin.registry).permit(name, &reader.identity, Access::Read)?;
        Ok(seen.ok().and_then(Result::ok).flatten())
    }

    fn acquire(&self, reader: &Reader, name: &str) -> Result<Held<'_>, Refusal> {
        let registry = &*self.admin.registry;
        let now = Instant::now();
        let mut room = NewNames {
            new: reader.caller.names_left(now).min(1),
            ..NewNames::ONE
        };
        let new = room.new;
        let names = [name.to_owned()];
        let acquired = registry.acquire(&names, &reader.identity, &reader.owner, &mut room);
        reader.caller.take_names(new - room.new);
        let mut held = Vec::new();
        for pv in acquired {
            held.push(Held { pv: pv?, registry });
        }
        let held = held.pop().expect("one name was asked for");
        let load: u64 = registry.loads(&[held.pv]).into_iter().sum();
        if load > MAX_LOAD_PER_CLIENT {
            let message = "this simulated PV computes too many elements per second\n";
            return Err((StatusCode::TOO_MANY_REQUESTS, message).into());
        }
        Ok(held)
    }
}
