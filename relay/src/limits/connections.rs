//! Limits for all connections of one address or one user together: how many, how fast, and how many new
//! names they may ask for.
//!
//! The accounts outlive connections, so that reconnecting does not reset a limit. IPv6 addresses are
//! counted per /64, because one machine can use all of it. Loopback addresses are not limited, because
//! a proxy on the same host may stand for any number of clients.

mod permits;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use thiserror::Error;

pub use self::permits::{ClientPermit, Clients, Permit, TooManyConnections, Users};

use crate::limits::rate::Bucket;
use crate::limits::requests::{RequestBudget, RequestLimits};
use crate::limits::subscriptions::NewNameLimits;

/// An address or user may use the rate of this many seconds at once.
const ARRIVALS_BURST: usize = 25;

/// Maximum number of remembered accounts without connections; beyond this they are forgotten, and start
/// with full budgets.
const MAX_IDLE: usize = 16_384;

/// Connections beyond the limits that still get an answer; more are closed without one.
const MAX_CROWDED: usize = 64;

/// Limits for all connections of one address or user together.
#[derive(Clone, Copy, Debug)]
pub struct CallerLimits {
    /// Connections of all clients; 0 for no limit.
    pub connections: usize,
    /// Connections of one address; 0 for no limit.
    pub per_address: usize,
    /// New connections of an address or user per second, with bursts of 25 times this number; 0 for no limit.
    pub arrivals_per_s: usize,
    /// New names of an address or user.
    pub new_names: NewNameLimits,
    /// Puts of an address or user by HTTP, and names in GraphQL over HTTP.
    pub requests: RequestLimits,
}

/// Why a connection is refused.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum TooMany {
    /// The relay has as many connections as it accepts.
    #[error("the relay is full: try again later")]
    InAll,
    /// The address has as many connections as it may have.
    #[error(
        "your address has too many connections: close some, or the relay's operator raises \
         max_connections_per_address, or names the proxy that you share in trusted_proxy"
    )]
    FromAddress,
    /// The address or user opens connections too fast.
    #[error(
        "your address or user connects too fast: try again later, or the relay's operator raises \
         max_new_connections_per_s, or names the proxy that you share in trusted_proxy"
    )]
    TooFast,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    V4(u32),
    /// The first 64 bits.
    V6(u64),
    User(String),
}

/// The use of one address or user.
#[derive(Debug)]
pub struct Account {
    connections: AtomicUsize,
    used: Mutex<Used>,
}

#[derive(Debug)]
struct Used {
    arrivals: Bucket,
    names: Bucket,
    /// Of puts by HTTP and of GraphQL over HTTP, where each request is a client of its own.
    requests: RequestBudget,
}

impl Account {
    fn new(limits: CallerLimits, now: Instant) -> Arc<Self> {
        let arrivals = limits.arrivals_per_s;
        Arc::new(Self {
            connections: AtomicUsize::new(0),
            used: Mutex::new(Used {
                arrivals: Bucket::new(arrivals, ARRIVALS_BURST * arrivals, now),
                names: Bucket::new(limits.new_names.per_s, limits.new_names.at_once, now),
                requests: RequestBudget::new(limits.requests, now),
            }),
        })
    }

    fn used(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether its budgets are full, so that it can be forgotten.
    fn is_unused(&self, limits: CallerLimits, now: Instant) -> bool {
        let mut used = self.used();
        used.arrivals.left(now) >= ARRIVALS_BURST * limits.arrivals_per_s
            && used.names.left(now) >= limits.new_names.at_once
            && used.requests.is_unused(now)
    }
}

/// The accounts of addresses and users.
#[derive(Debug)]
pub struct Callers {
    limits: CallerLimits,
    accounts: Mutex<HashMap<Key, Arc<Account>>>,
    open: AtomicUsize,
    crowded: AtomicUsize,
    numbers: AtomicU64,
}

/// One open connection; dropping it ends its count.
#[derive(Debug)]
pub struct Stay {
    callers: Arc<Callers>,
    address: Option<Arc<Account>>,
    /// Set once it has become a client's.
    client: Option<ClientPermit>,
    /// Why it is refused; it then counts among the `MAX_CROWDED`.
    refused: Option<TooMany>,
}

/// One client's connection, with the accounts whose budgets it uses.
#[derive(Clone, Debug, Default)]
pub struct SharedBudgets {
    number: u64,
    address: Option<Arc<Account>>,
    user: Option<Arc<Account>>,
}

impl Callers {
    /// An empty table.
    #[must_use]
    pub fn new(limits: CallerLimits) -> Arc<Self> {
        Arc::new(Self {
            limits,
            accounts: Mutex::default(),
            open: AtomicUsize::new(0),
            crowded: AtomicUsize::new(0),
            numbers: AtomicU64::new(0),
        })
    }

    /// Open connections.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    fn account(&self, key: Key, now: Instant) -> Arc<Account> {
        let mut accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        let is_held = |account: &Arc<Account>| Arc::strong_count(account) > 1;
        if accounts.len() >= accounts.capacity() && !accounts.contains_key(&key) {
            // The table would grow: accounts with full budgets are forgotten first, then all idle ones.
            accounts.retain(|_, account| is_held(account) || !account.is_unused(self.limits, now));
            if accounts
                .values()
                .filter(|account| !is_held(account))
                .count()
                >= MAX_IDLE
            {
                accounts.retain(|_, account| is_held(account));
            }
        }
        match accounts.entry(key) {
            Entry::Occupied(known) => Arc::clone(known.get()),
            Entry::Vacant(place) => Arc::clone(place.insert(Account::new(self.limits, now))),
        }
    }

    /// Counts an accepted connection; `from` is the client's address if it is known already. A connection
    /// beyond the limits is kept only for its answer; `None` when there are too many of these, too.
    pub fn enter(self: &Arc<Self>, from: Option<IpAddr>, now: Instant) -> Option<Stay> {
        let open = self.open.fetch_add(1, Ordering::Relaxed) + 1;
        let mut stay = Stay {
            callers: Arc::clone(self),
            address: None,
            client: None,
            refused: None,
        };
        let most = self.limits.connections;
        let refused = if most > 0 && open > most {
            Some(TooMany::InAll)
        } else {
            from.and_then(|from| stay.comes_from(from, now).err())
        };
        if refused.is_some() {
            if self.crowded.fetch_add(1, Ordering::Relaxed) >= MAX_CROWDED {
                self.crowded.fetch_sub(1, Ordering::Relaxed);
                return None;
            }
            stay.refused = refused;
        }
        Some(stay)
    }

    fn arrive(&self, account: Option<&Arc<Account>>, now: Instant) -> Result<(), TooMany> {
        let may = self.limits.arrivals_per_s == 0
            || account.is_none_or(|account| account.used().arrivals.take_one(now));
        may.then_some(()).ok_or(TooMany::TooFast)
    }

    /// The client logged in as this user for the first time.
    ///
    /// # Errors
    /// When the user opens connections too fast.
    pub fn logged_in(
        &self,
        caller: &mut SharedBudgets,
        user: &str,
        now: Instant,
    ) -> Result<(), TooMany> {
        let account = self.account(Key::User(user.to_owned()), now);
        self.arrive(Some(&account), now)?;
        caller.user = Some(account);
        Ok(())
    }
}

impl Stay {
    /// Sets the client's address.
    ///
    /// # Errors
    /// When the address has too many connections.
    pub fn comes_from(&mut self, from: IpAddr, now: Instant) -> Result<(), TooMany> {
        let from = from.to_canonical();
        if from.is_loopback() || self.address.is_some() {
            return Ok(());
        }
        let key = match from {
            IpAddr::V4(address) => Key::V4(address.to_bits()),
            IpAddr::V6(address) => Key::V6((address.to_bits() >> 64) as u64),
        };
        let account = self.callers.account(key, now);
        let open = account.connections.fetch_add(1, Ordering::Relaxed) + 1;
        self.address = Some(account);
        let most = self.callers.limits.per_address;
        if most > 0 && open > most {
            return Err(TooMany::FromAddress);
        }
        Ok(())
    }

    /// The connection becomes a client's.
    pub fn becomes(&mut self, client: ClientPermit) {
        self.client = Some(client);
    }

    /// Why it is refused.
    #[must_use]
    pub fn refused(&self) -> Option<TooMany> {
        self.refused
    }

    /// Counts a request that costs more than a short answer.
    ///
    /// # Errors
    /// When the address makes such requests too often.
    pub fn arrive(&self, now: Instant) -> Result<(), TooMany> {
        self.callers.arrive(self.address.as_ref(), now)
    }

    /// The client that this connection becomes.
    #[must_use]
    pub fn caller(&self) -> SharedBudgets {
        SharedBudgets {
            number: self.callers.numbers.fetch_add(1, Ordering::Relaxed) + 1,
            address: self.address.clone(),
            user: None,
        }
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        self.callers.open.fetch_sub(1, Ordering::Relaxed);
        if let Some(address) = &self.address {
            address.connections.fetch_sub(1, Ordering::Relaxed);
        }
        if self.refused.is_some() {
            self.callers.crowded.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl SharedBudgets {
    fn accounts(&self) -> impl Iterator<Item = &Arc<Account>> {
        [&self.address, &self.user].into_iter().flatten()
    }

    /// Whether the client has logged in.
    #[must_use]
    pub fn has_user(&self) -> bool {
        self.user.is_some()
    }

    /// New names that the address and the user may still ask for.
    #[must_use]
    pub fn names_left(&self, now: Instant) -> usize {
        let left = self
            .accounts()
            .map(|account| account.used().names.left(now));
        left.min().unwrap_or(usize::MAX)
    }

    /// Counts new names.
    pub fn take_names(&self, count: usize) {
        if count > 0 {
            self.accounts()
                .for_each(|account| account.used().names.take(count));
        }
    }

    /// Counts what an HTTP request asks for with what the address and the user asked for before it.
    ///
    /// # Errors
    /// That of `count`, when it is more than one of them may ask for.
    pub fn count<E>(
        &self,
        mut count: impl FnMut(&mut RequestBudget) -> Result<(), E>,
    ) -> Result<(), E> {
        self.accounts()
            .try_for_each(|account| count(&mut account.used().requests))
    }

    /// Whether both are the same connection.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        self.number == other.number
    }

    /// Whether both have the same address or the same user.
    #[must_use]
    pub fn shares_account_with(&self, other: &Self) -> bool {
        let same = |own: &Option<Arc<Account>>, other: &Option<Arc<Account>>| match (own, other) {
            (Some(own), Some(other)) => Arc::ptr_eq(own, other),
            _ => false,
        };
        same(&self.address, &other.address) || same(&self.user, &other.user)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const LIMITS: CallerLimits = CallerLimits {
        connections: 10,
        per_address: 3,
        arrivals_per_s: 2,
        new_names: NewNameLimits {
            per_s: 5,
            at_once: 20,
        },
        requests: RequestLimits {
            requests_per_s: 10,
            puts_per_s: 3,
            names_at_once: 20,
        },
    };

    fn address(text: &str) -> Option<IpAddr> {
        Some(text.parse().unwrap())
    }

    #[test]
    fn connections_count_per_address_ipv6_per_64_loopback_never() {
        let (callers, now) = (Callers::new(LIMITS), Instant::now());
        let refused = |from: &str| callers.enter(address(from), now).unwrap().refused();
        let mut held = Vec::new();
        for from in ["192.0.2.1", "::ffff:192.0.2.1", "192.0.2.1"] {
            held.push(callers.enter(address(from), now).unwrap());
            assert_eq!(held.last().unwrap().refused(), None, "{from}");
        }
        assert_eq!(refused("192.0.2.1"), Some(TooMany::FromAddress));
        assert_eq!(refused("192.0.2.2"), None);
        for n in 0..3 {
            held.push(
                callers
                    .enter(address(&format!("2001:db8::{n}:1")), now)
                    .unwrap(),
            );
        }
        assert_eq!(refused("2001:db8::ffff:1"), Some(TooMany::FromAddress));
        assert_eq!(refused("2001:db8:0:1::1"), None);
        for _ in 0..4 {
            held.push(callers.enter(address("127.0.0.1"), now).unwrap());
            assert_eq!(held.last().unwrap().refused(), None);
        }
        assert_eq!(refused("127.0.0.1"), Some(TooMany::InAll));
        held.remove(0);
        assert_eq!(refused("192.0.2.1"), None, "one has left");
        drop(held);
        assert_eq!(callers.connections(), 0);
    }

    #[test]
    fn few_connections_beyond_the_limit_get_an_answer() {
        let (callers, now) = (Callers::new(LIMITS), Instant::now());
        let from = address("192.0.2.1");
        let mut held: Vec<_> = (0..3 + MAX_CROWDED)
            .map(|_| callers.enter(None, now).unwrap())
            .collect();
        drop(held.split_off(3));
        held = (0..10).map_while(|_| callers.enter(from, now)).collect();
        assert_eq!(
            held.iter().filter(|stay| stay.refused().is_none()).count(),
            3
        );
        let crowd: Vec<_> = (0..MAX_CROWDED - 7)
            .map(|_| callers.enter(from, now).unwrap())
            .collect();
        assert!(crowd.iter().all(|stay| stay.refused().is_some()));
        assert!(callers.enter(from, now).is_none());
        drop(crowd);
        assert!(callers.enter(from, now).is_some());
    }

    #[test]
    fn reconnecting_resets_neither_names_nor_rate() {
        let (callers, start) = (Callers::new(LIMITS), Instant::now());
        let from = address("192.0.2.1");
        let arrive = |at: Instant| {
            let stay = callers.enter(from, at).unwrap();
            stay.arrive(at).map(|()| stay.caller())
        };
        for n in 0..ARRIVALS_BURST * 2 {
            let caller = arrive(start).unwrap();
            caller.take_names(usize::from(n < 20));
            assert_eq!(caller.names_left(start), 19_usize.saturating_sub(n));
        }
        assert_eq!(arrive(start).unwrap_err(), TooMany::TooFast);
        let later = start + Duration::from_secs(1);
        assert_eq!(arrive(later).unwrap().names_left(later), 5);
        // Other addresses have separate budgets, and loopback none.
        let other = callers.enter(address("192.0.2.2"), start).unwrap();
        assert_eq!(other.caller().names_left(start), 20);
        let near = callers.enter(address("::1"), start).unwrap();
        assert_eq!(near.caller().names_left(start), usize::MAX);
    }

    #[test]
    fn reconnecting_resets_no_rate_of_http_requests() {
        let (callers, start) = (Callers::new(LIMITS), Instant::now());
        let put = |from: &str, now: Instant| {
            let caller = callers.enter(address(from), now).unwrap().caller();
            caller.count(|budget| budget.take_put(now).then_some(()).ok_or(()))
        };
        let puts = |from: &str, now| (0..100).filter(|_| put(from, now).is_ok()).count();
        assert_eq!(puts("192.0.2.1", start), 30, "a burst of ten seconds");
        assert_eq!(puts("192.0.2.1", start + Duration::from_secs(1)), 3);
        assert_eq!(puts("192.0.2.2", start), 30, "another address");
        assert_eq!(puts("127.0.0.1", start), 100);
        let idle = callers.account(Key::V4(0xc000_0202), start);
        assert!(!idle.is_unused(LIMITS, start));
        assert!(idle.is_unused(LIMITS, start + Duration::from_secs(10)));
    }

    #[test]
    fn user_has_one_budget_from_all_addresses() {
        let (callers, now) = (Callers::new(LIMITS), Instant::now());
        let log_in = |from: &str, user: &str| {
            let stay = callers.enter(address(from), now).unwrap();
            let mut caller = stay.caller();
            callers.logged_in(&mut caller, user, now).map(|()| caller)
        };
        let one = log_in("192.0.2.1", "jane").unwrap();
        let two = log_in("192.0.2.2", "jane").unwrap();
        let three = log_in("192.0.2.1", "joe").unwrap();
        let four = log_in("192.0.2.3", "jack").unwrap();
        one.take_names(8);
        let left = [&one, &two, &three, &four].map(|caller| caller.names_left(now));
        assert_eq!(left, [12, 12, 12, 20]);
        assert!(one.shares_account_with(&two) && one.shares_account_with(&three));
        assert!(!two.shares_account_with(&three) && !two.is(&one) && one.is(&one));
        assert!(!SharedBudgets::default().shares_account_with(&SharedBudgets::default()));
        for _ in 2..ARRIVALS_BURST * 2 {
            log_in("192.0.2.9", "jane").unwrap();
        }
        assert_eq!(log_in("192.0.2.8", "jane").unwrap_err(), TooMany::TooFast);
    }

    #[test]
    fn table_of_addresses_is_bounded_and_keeps_connected_ones() {
        let (callers, now) = (Callers::new(LIMITS), Instant::now());
        let held = callers.enter(address("192.0.2.1"), now).unwrap();
        held.arrive(now).unwrap();
        let most = 4 * MAX_IDLE as u32;
        for n in 0..most {
            let from = IpAddr::from((0x0a00_0000 + n).to_be_bytes());
            let stay = callers.enter(Some(from), now).unwrap();
            stay.arrive(now).unwrap();
        }
        let accounts = callers.accounts.lock().unwrap();
        assert!(accounts.len() < 3 * MAX_IDLE, "{}", accounts.len());
        assert!(accounts.contains_key(&Key::V4(0xc000_0201)));
    }
}
