//! What one client, one user, one address and all clients together may use.
//!
//! Every limit with its default and what happens beyond it. Names in lower case are keys of the
//! configuration (docs/reference/config.md), which `Limits` is made from; names in capitals are fixed.
//!
//! | Limit | Default | Beyond it |
//! |---|---|---|
//! | **Connections** ([`connections`]) | | |
//! | `max_clients` | 10,000 clients; 2 × that + 1,000 connections | HTTP 503 |
//! | `max_connections_per_address` | 2,500 | HTTP 429 |
//! | `max_new_connections_per_s` | 100 per address and user, 25 × that at once | HTTP 429, or the log-in is refused |
//! | `max_clients_per_user` | 100 | the log-in is refused, close code 1013 |
//! | **Descriptors** ([`descriptors`]) | | |
//! | `KEPT_FOR_EPICS`, `KEPT_FOR_PROBES`, `KEPT_FOR_OPERATORS` | 64, 32, 16 descriptors | clients get HTTP 503 |
//! | **Requests** ([`requests`]) | | |
//! | `max_requests_per_s` | 1,000 per client, 10 × that at once | close code 4429 |
//! | names in subscriptions, gets and requests for descriptions | `max_requests_per_s` per client, 4 × `max_subscriptions` (at least 40,000) at once; GraphQL by HTTP: for each request, and 5 × both per address and user | the request is refused |
//! | `max_puts_per_s` | 200 per client, 10 × that at once; GraphQL by HTTP: for each request, and 5 × both per address and user | the put or call is refused |
//! | `MAX_OPEN_REQUESTS` | 64 unanswered requests per client | close code 4429 |
//! | `REQUESTS_PER_TURN` | 32 | the rest waits for the client's next turn |
//! | `NAMES_PER_TICK` | 4,000 names and 100 for each waiting client, at most 40,000, in a tick; clients take turns of 1,000 names | the rest waits for the next tick |
//! | `LONGEST_GET`, `LONGEST_PUT` | 60 s, 3,600 s | a longer time-out is shortened |
//! | **Subscriptions** ([`subscriptions`]) | | |
//! | `max_subscriptions` | 20,000 PVs per client | the PV is refused |
//! | `max_unresolved` | 10,000 names per client that were not found | further unknown names are refused |
//! | `max_new_names_per_s` | 1,000 per client, 2 × `max_subscriptions` at once; 5 × both per address and user | the name is refused |
//! | `max_pvs` | 1,000,000 monitored PVs | the name is refused |
//! | `FRESH_NAMES` | 500 names per client | further names are searched after those of other clients |
//! | `MAX_FILTERS` | 32 filters per PV, 8 of one connection, 16 of one address or user | the filter is refused |
//! | `MAX_FORMS` | 256 names of one PV at a door, 64 of one connection, 128 of one address or user | the name is refused |
//! | `MAX_LOAD_PER_CLIENT`, `MAX_LOAD` | 60 and 120 million simulated elements per second | the simulated PV is refused |
//! | **Memory** ([`memory`]) | | |
//! | `max_memory_mib` | 3/4 of the cgroup's limit, at most half of the machine's memory | new PVs, values and answers are refused, `/ready` says 503 |
//! | `max_memory_per_client_mib` | 1/4 of `max_memory_mib`, at most 512 MiB | the PV, value or answer is refused |
//! | `max_memory_per_user_mib`, `max_memory_per_address_mib` | 1/2 of `max_memory_mib`, at most 2,048 MiB | the PV, value or answer is refused |
//! | **CPU time** ([`cpu`], [`crate::compute`]) | | |
//! | `max_cpu_per_client_ms_per_s` | 200 ms per second, 5 × that at once | documents, formulas, messages and values wait for their turn; an HTTP request that waits longer than 8 s gets 429 |
//! | `max_cpu_per_user_ms_per_s`, `max_cpu_per_address_ms_per_s` | 1,000 ms per second, 5 × that at once | the same |
//! | `MOST_WAITING` | 4,096 HTTP requests that wait to be computed | those of the clients that used most get 429 |
//! | **Users' EPICS contexts** ([`ContextLimits`]) | | |
//! | all users | 64 contexts per protocol, closed after 300 s idle; 10,000 waiting operations | the least recently used context is closed; the put fails |
//!
//! Sizes of messages are part of the protocol: `pvwire_schema::limits`.

pub mod connections;
pub mod cpu;
pub mod descriptors;
pub mod lines;
pub mod memory;
pub mod rate;
pub mod requests;
pub mod subscriptions;

use std::time::Duration;

use connections::CallerLimits;
use cpu::CpuLimits;
use memory::MemoryLimits;
use requests::RequestLimits;
use subscriptions::{MAX_LOAD_PER_CLIENT, NewNameLimits, SubscriptionLimits};

use crate::config::Config;

/// All connections of one address or user together may ask for as many new names, and by GraphQL over HTTP for as
/// many PVs and puts, as this many clients: screens of one control room that come back together share most names.
const CLIENTS_PER_CALLER: usize = 5;

/// The limits that the configuration sets.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections, new names and GraphQL over HTTP of one address or user.
    pub callers: CallerLimits,
    /// Connections of one user.
    pub clients_per_user: usize,
    /// Requests and puts of one client.
    pub requests: RequestLimits,
    /// New names of one client.
    pub new_names: NewNameLimits,
    /// Subscriptions of one client.
    pub subscriptions: SubscriptionLimits,
    /// Memory.
    pub memory: MemoryLimits,
    /// CPU time.
    pub cpu: CpuLimits,
}

impl Limits {
    /// The limits of this configuration.
    #[must_use]
    pub fn of(config: &Config) -> Self {
        let new_names = NewNameLimits {
            per_s: config.max_new_names_per_s,
            at_once: 2 * config.max_subscriptions,
        };
        let requests = RequestLimits {
            requests_per_s: config.max_requests_per_s,
            puts_per_s: config.max_puts_per_s,
            names_at_once: RequestLimits::names_at_once(config.max_subscriptions),
        };
        let bytes = |mib: usize| mib << 20;
        Self {
            callers: CallerLimits {
                connections: 2 * config.max_clients + 1000,
                per_address: config.max_connections_per_address,
                arrivals_per_s: config.max_new_connections_per_s,
                new_names: NewNameLimits {
                    per_s: CLIENTS_PER_CALLER * new_names.per_s,
                    at_once: CLIENTS_PER_CALLER * new_names.at_once,
                },
                requests: requests.of_clients(CLIENTS_PER_CALLER),
            },
            clients_per_user: config.max_clients_per_user,
            requests,
            new_names,
            subscriptions: SubscriptionLimits {
                subscriptions: config.max_subscriptions,
                unresolved: config.max_unresolved,
                load: MAX_LOAD_PER_CLIENT,
            },
            memory: MemoryLimits {
                // The last quarter is for what is not charged: connections, and values on their way.
                all: bytes(config.max_memory_mib) / 4 * 3,
                client: bytes(config.memory_per_client_mib()),
                user: bytes(config.memory_per_user_mib()),
                address: bytes(config.memory_per_address_mib()),
            },
            cpu: CpuLimits {
                client_ms_per_s: config.max_cpu_per_client_ms_per_s,
                user_ms_per_s: config.max_cpu_per_user_ms_per_s,
                address_ms_per_s: config.max_cpu_per_address_ms_per_s,
            },
        }
    }
}

/// Limits of the contexts of one protocol.
#[derive(Clone, Copy, Debug)]
pub struct ContextLimits {
    /// Users with a context; for one more, the least recently used context is closed.
    pub users: usize,
    /// A context that was not used for this time is closed.
    pub idle: Duration,
    /// How often idle contexts are looked for.
    pub check: Duration,
    /// Operations that may wait for the thread of the contexts; more are refused.
    pub waiting: usize,
}

impl Default for ContextLimits {
    fn default() -> Self {
        Self {
            users: 64,
            idle: Duration::from_secs(300),
            check: Duration::from_secs(10),
            waiting: 10_000,
        }
    }
}
