//! CPU budgets of clients, users and addresses: the time that the relay computes for them.
//!
//! Reading what clients write (documents, formulas, JSON) and writing large values as text takes CPU time that the
//! size of a request doesn't tell beforehand. It is charged afterwards. A budget that is used up delays the work
//! of its owner until it has refilled; see [`crate::compute`]. The budgets of addresses and users outlive
//! connections, so that reconnecting does not refill them. Loopback addresses have no budget, because a proxy on the same host may stand for
//! any number of clients.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A budget may be used at once for this long.
const BURST: Duration = Duration::from_secs(5);

/// Number of remembered budgets at which unused ones are forgotten.
const SWEPT_FROM: usize = 1_024;

/// The budgets in milliseconds of CPU time per second.
#[derive(Clone, Copy, Debug)]
pub struct CpuLimits {
    /// Of one connection.
    pub client_ms_per_s: usize,
    /// Of all connections of one user.
    pub user_ms_per_s: usize,
    /// Of all connections from one address.
    pub address_ms_per_s: usize,
}

impl CpuLimits {
    /// Unlimited budgets, for tests.
    pub const NONE: Self = Self {
        client_ms_per_s: 0,
        user_ms_per_s: 0,
        address_ms_per_s: 0,
    };
}

/// The start of the clock of budgets.
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The budget of one client, user or address.
#[derive(Debug)]
pub struct CpuBudget {
    /// 0 for no limit.
    ms_per_s: usize,
    /// When it will be full, in nanoseconds after `START`; in the past if it is full.
    full_at: AtomicU64,
}

impl CpuBudget {
    fn new(ms_per_s: usize) -> Arc<Self> {
        Arc::new(Self {
            ms_per_s,
            full_at: AtomicU64::new(0),
        })
    }

    /// Time until it is full.
    fn missing(&self, now: Instant) -> Duration {
        let now = nanoseconds(now.saturating_duration_since(*START));
        let full_at = self.full_at.load(Ordering::Relaxed);
        Duration::from_nanos(full_at.saturating_sub(now))
    }

    fn charge(&self, used: Duration, now: Instant) {
        if self.ms_per_s == 0 {
            return;
        }
        let now = nanoseconds(now.saturating_duration_since(*START));
        let refill = used.as_secs_f64() * 1000.0 / self.ms_per_s as f64;
        let refill = nanoseconds(Duration::try_from_secs_f64(refill).unwrap_or(Duration::MAX));
        let charged = |full_at: u64| Some(full_at.max(now).saturating_add(refill));
        let done = (self.full_at).fetch_update(Ordering::Relaxed, Ordering::Relaxed, charged);
        done.unwrap_or_default();
    }
}

/// The budgets that one client uses.
#[derive(Clone, Debug)]
pub struct CpuShare {
    client: Arc<CpuBudget>,
    user: Option<Arc<CpuBudget>>,
    address: Option<Arc<CpuBudget>>,
}

impl CpuShare {
    /// A share without limits, for work that belongs to no client.
    #[must_use]
    pub fn unlimited() -> Self {
        Self {
            client: CpuBudget::new(0),
            user: None,
            address: None,
        }
    }

    fn budgets(&self) -> impl Iterator<Item = &CpuBudget> {
        let shared = [&self.user, &self.address].into_iter().flatten();
        shared.chain([&self.client]).map(|budget| &**budget)
    }

    /// Time until all its budgets are full: the smaller it is, the sooner is its turn.
    #[must_use]
    pub fn missing(&self, now: Instant) -> Duration {
        let missing = self.budgets().map(|budget| budget.missing(now));
        missing.max().unwrap_or_default()
    }

    /// Time until none of its budgets is used up; zero if it may compute now.
    #[must_use]
    pub fn wait(&self, now: Instant) -> Duration {
        self.missing(now).saturating_sub(BURST)
    }

    /// Whether it has used less than half of its budgets lately.
    #[must_use]
    pub fn is_fresh(&self, now: Instant) -> bool {
        self.missing(now) < BURST / 2
    }

    /// Charges CPU time that was used for it.
    pub fn charge(&self, used: Duration, now: Instant) {
        self.budgets().for_each(|budget| budget.charge(used, now));
    }

    /// Identifies who uses it, as far as that is known: the user, or the address, or the client alone. The number is
    /// valid while the share exists.
    #[must_use]
    pub fn payer(&self) -> usize {
        let shared = self.user.as_ref().or(self.address.as_ref());
        Arc::as_ptr(shared.unwrap_or(&self.client)).addr()
    }

    /// Identifies the client.
    #[must_use]
    pub fn client(&self) -> usize {
        Arc::as_ptr(&self.client).addr()
    }
}

/// The budgets of addresses and users.
#[derive(Debug)]
pub struct CpuBudgets {
    limits: CpuLimits,
    shared: Mutex<HashMap<(Kind, String), Arc<CpuBudget>>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    User,
    Address,
}

impl CpuBudgets {
    /// Full budgets.
    #[must_use]
    pub fn new(limits: CpuLimits) -> Self {
        LazyLock::force(&START);
        Self {
            limits,
            shared: Mutex::default(),
        }
    }

    /// The share of a new client. `network` is the part of `address` that one machine can't change.
    #[must_use]
    pub fn share(&self, address: &str, network: &str, user: Option<&str>) -> CpuShare {
        let limits = self.limits;
        CpuShare {
            client: CpuBudget::new(limits.client_ms_per_s),
            user: user.map(|user| self.shared(Kind::User, user, limits.user_ms_per_s)),
            address: (!is_loopback(address))
                .then(|| self.shared(Kind::Address, network, limits.address_ms_per_s)),
        }
    }

    /// The share of a client after it logged in.
    #[must_use]
    pub fn with_user(&self, share: &CpuShare, user: &str) -> CpuShare {
        CpuShare {
            user: Some(self.shared(Kind::User, user, self.limits.user_ms_per_s)),
            ..share.clone()
        }
    }

    fn shared(&self, kind: Kind, name: &str, ms_per_s: usize) -> Arc<CpuBudget> {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (kind, name.to_owned());
        if let Some(budget) = shared.get(&key) {
            return Arc::clone(budget);
        }
        if shared.len() >= SWEPT_FROM && shared.len() == shared.capacity() {
            // A budget without clients is needed until it is full again.
            let now = Instant::now();
            shared.retain(|_, budget| {
                Arc::strong_count(budget) > 1 || !budget.missing(now).is_zero()
            });
        }
        let budget = CpuBudget::new(ms_per_s);
        shared.insert(key, Arc::clone(&budget));
        budget
    }
}

fn is_loopback(address: &str) -> bool {
    let ip = address.parse::<SocketAddr>().map(|address| address.ip());
    let ip: Result<IpAddr, _> = ip.or_else(|_| address.parse());
    ip.is_ok_and(|ip| ip.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: CpuLimits = CpuLimits {
        client_ms_per_s: 100,
        user_ms_per_s: 200,
        address_ms_per_s: 400,
    };

    const TENTH: Duration = Duration::from_millis(100);

    #[test]
    fn budget_that_is_used_up_delays_until_it_has_refilled() {
        let budgets = CpuBudgets::new(LIMITS);
        let share = budgets.share("10.0.0.1:5", "10.0.0.1", None);
        let now = Instant::now();
        for _ in 0..5 {
            assert_eq!(share.wait(now), Duration::ZERO);
            share.charge(TENTH, now);
        }
        assert_eq!(share.wait(now), Duration::ZERO);
        share.charge(TENTH, now);
        assert_eq!(share.wait(now), Duration::from_secs(1));
        assert_eq!(share.wait(now + Duration::from_secs(1)), Duration::ZERO);
        assert!(!share.is_fresh(now + Duration::from_secs(1)));
        assert!(share.is_fresh(now + Duration::from_secs(4)));
    }

    #[test]
    fn reconnecting_does_not_refill_the_budget_of_an_address_or_user() {
        let budgets = CpuBudgets::new(LIMITS);
        let now = Instant::now();
        let of = |address, user| budgets.share(address, address, user);
        of("10.0.0.1", Some("jane")).charge(12 * TENTH, now);
        assert_eq!(of("10.0.0.1", None).missing(now), Duration::from_secs(3));
        assert_eq!(
            of("10.0.0.2", Some("jane")).missing(now),
            Duration::from_secs(6)
        );
        assert_eq!(of("10.0.0.2", None).missing(now), Duration::ZERO);
        let later = budgets.with_user(&of("10.0.0.2", None), "jane");
        assert_eq!(later.wait(now), Duration::from_secs(1));
    }

    #[test]
    fn clients_behind_a_proxy_on_the_same_host_are_limited_each_for_itself() {
        let budgets = CpuBudgets::new(LIMITS);
        let now = Instant::now();
        for address in ["127.0.0.1:5", "[::1]:5", "[::ffff:127.0.0.2]:5"] {
            let share = budgets.share(address, "127.0.0.1", None);
            share.charge(6 * TENTH, now);
            assert_eq!(share.wait(now), Duration::from_secs(1));
            let other = budgets.share(address, "127.0.0.1", None);
            assert_eq!(other.missing(now), Duration::ZERO);
        }
    }

    #[test]
    fn budgets_that_are_full_and_not_in_use_are_forgotten() {
        let budgets = CpuBudgets::new(LIMITS);
        for n in 0..100_000 {
            let address = format!("10.{}.{}.{}", n / 65_536, n / 256 % 256, n % 256);
            let _ = budgets.share(&address, &address, None);
        }
        assert!(budgets.shared.lock().unwrap().len() <= 4 * SWEPT_FROM);
    }
}
