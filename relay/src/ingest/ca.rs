//! Channel Access: a source whose PVs are channels of libca.

mod extras;
mod field;
mod field_query;
mod label;
mod put;
mod server;
mod value;
mod wiring;

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::{Duration, Instant};

use pvwire_epics::ca::{self, NameParts, PutError};
use pvwire_schema::types::{Outcome, ValueType};

use self::field_query::FieldQueries;
use self::put::{CaUser, PutOrder, put_end};
use self::value::{acknowledgement, put_value};
use self::wiring::Wiring;
use super::user::UserClients;
use super::{
    Forms, LastPut, Line, Monitor, OpDone, OpEnd, OpTicket, OpenError, Put, Queue, Source,
};
use crate::limits::ContextLimits;

/// The Channel Access client contexts of the relay.
///
/// There are two, because libca searches for all names of a context in rounds that get slower with
/// the number of names: after 10,000 names without a server, finding a name that has one takes ten
/// seconds. Each context starts when it is needed, because libca runs its search timers 60 times a
/// second. Users that write have separate contexts.
pub struct CaSource {
    front: Context,
    crowd: Context,
    users: Arc<UserClients<CaUser>>,
    /// Whether users are authenticated.
    by_name: bool,
    forms: Arc<dyn Forms>,
}

impl CaSource {
    /// No context yet. With `by_name` an IOC's write access is not passed on: it is that of the
    /// relay, and a user may have another. `forms` tells which arrays of characters are texts.
    #[must_use]
    pub fn new(by_name: bool, forms: Arc<dyn Forms>) -> Self {
        Self {
            forms,
            front: Context::new(),
            crowd: Context::new(),
            users: Arc::new(UserClients::new("ca-users", ContextLimits::default())),
            by_name,
        }
    }
}

type Context = OnceLock<Result<Client, ca::StartError>>;

/// A context of libca, and the queries in it for anything but values.
struct Client {
    libca: ca::Client,
    queries: Arc<FieldQueries>,
}

impl Client {
    fn start() -> Result<Self, ca::StartError> {
        let libca = ca::Client::start()?;
        let queries = Arc::new(FieldQueries::start(libca.opener())?);
        Ok(Self { libca, queries })
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.queries.stop();
    }
}

/// Maximum length of a string of Channel Access. One of this length may have been truncated.
const STRING_BYTES: usize = 39;

/// Time limit of the query for the long form of a string. After it the string is shown truncated.
const LONG_WITHIN: Duration = Duration::from_secs(2);

/// Lengths of arrays of characters that may be texts: one element looks like a scalar, and larger
/// arrays are images.
const TEXT_ELEMENTS: RangeInclusive<u32> = 2..=1 << 16;

impl Source for CaSource {
    fn scheme(&self) -> &'static str {
        "ca"
    }

    fn open(&self, name: &str, line: Line, queue: Queue) -> Result<Box<dyn Monitor>, OpenError> {
        let context = match queue {
            Queue::Front => &self.front,
            Queue::Crowd => &self.crowd,
        };
        let client =
            (context.get_or_init(Client::start).as_ref()).map_err(|error| OpenError::NoClient {
                protocol: "Channel Access",
                why: error.to_string(),
            })?;
        let wiring = Arc::new_cyclic(|me| Wiring {
            line,
            shape: Mutex::new((ValueType::Unknown, 0)),
            last_put: LastPut::default(),
            by_name: self.by_name,
            lost: AtomicBool::new(false),
            is_connected: AtomicBool::new(false),
            is_readable: AtomicBool::new(false),
            name: name.into(),
            queries: Arc::clone(&client.queries),
            me: Weak::clone(me),
            channel: OnceLock::new(),
            extras: Mutex::default(),
            labels: Mutex::default(),
            awaits_label: AtomicBool::new(false),
            forms: Arc::clone(&self.forms),
        });
        match client.libca.open(name, Arc::clone(&wiring) as _) {
            Ok(channel) => {
                let channel = Arc::new(channel);
                let _ = wiring.channel.set(Arc::downgrade(&channel));
                Ok(Box::new(CaMonitor {
                    channel,
                    wiring,
                    users: Arc::clone(&self.users),
                }))
            }
            Err(error) => Err(OpenError::name(error)),
        }
    }

    fn renew(&self) {
        for context in [&self.front, &self.crowd] {
            if let Some(Ok(client)) = context.get() {
                client.libca.renew();
            }
        }
        self.users.renew();
    }
}

struct CaMonitor {
    channel: Arc<ca::Channel>,
    wiring: Arc<Wiring>,
    users: Arc<UserClients<CaUser>>,
}

impl Drop for CaMonitor {
    fn drop(&mut self) {
        self.wiring.closed();
    }
}

impl Monitor for CaMonitor {
    fn describe(&self) -> bool {
        self.wiring.describe();
        true
    }

    fn put(&self, put: Put, done: OpDone) -> OpTicket {
        let value = match put_value(put.value) {
            Ok(value) => value,
            Err(why) => {
                done(OpEnd::failed(Outcome::BadValue, why.to_string()));
                return OpTicket::ended();
            }
        };
        let (wiring, expected) = (Arc::clone(&self.wiring), put.expected);
        let condition = move || {
            let newest = wiring.line.newest();
            wiring.last_put.begin(newest, expected, Instant::now())
        };
        let name = NameParts::of(&self.wiring.name);
        let for_alarms = acknowledgement(name.field, &value);
        let record = for_alarms.is_some().then(|| name.record.to_owned());
        let order = PutOrder {
            value: for_alarms.unwrap_or(value),
            wait: put.wait,
            user: put.user,
            wiring: Arc::clone(&self.wiring),
            users: Arc::clone(&self.users),
            done,
        };
        let ticket = OpTicket::default();
        let condition: ca::Condition = Box::new(condition);
        let Some(user) = order.user.clone() else {
            if let Some(record) = record {
                order.put_by(record, ticket.of_library(), Some(condition));
                return ticket;
            }
            let (value, wait) = (order.value.clone(), order.wait);
            let done = Box::new(move |result| order.ended(result));
            (self.channel).put(value, wait, ticket.of_library(), Some(condition), done);
            return ticket;
        };
        if self.wiring.lost.load(Ordering::Acquire) {
            (order.done)(put_end(&PutError::NotConnected));
            return OpTicket::ended();
        }
        let users = Arc::clone(&order.users);
        let name = record.unwrap_or_else(|| self.wiring.name.to_string());
        order.put_as(&users, &user, name, ticket.clone(), condition);
        ticket
    }
}
