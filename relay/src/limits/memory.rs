//! Memory budgets of clients, users, addresses and the relay.
//!
//! PVs, their values and answers are charged before their memory is allocated. A charge counts against the
//! budgets of the client, of its user, of its address and of the relay as a whole; a charge that exceeds one
//! of them is refused, and the error names the budget.

mod pv;

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

pub use self::pv::{PV_BYTES, PvCharge};
use crate::limits::cpu::{CpuBudgets, CpuLimits, CpuShare};

/// This part of the relay's budget is reserved for addresses that use little: an eighth…
const RESERVE_PART: usize = 8;

/// … for addresses that use at most a thirty-second part of it.
const SMALL_PART: usize = 32;

/// The budgets in bytes.
#[derive(Clone, Copy, Debug)]
pub struct MemoryLimits {
    /// Of the relay as a whole.
    pub all: usize,
    /// Of one connection.
    pub client: usize,
    /// Of all connections of one user.
    pub user: usize,
    /// Of all connections from one address.
    pub address: usize,
}

impl MemoryLimits {
    /// Unlimited budgets, for tests.
    pub const NONE: Self = Self {
        all: usize::MAX,
        client: usize::MAX,
        user: usize::MAX,
        address: usize::MAX,
    };
}

/// Memory that this process occupies; `None` if the system doesn't tell.
#[must_use]
pub fn resident_bytes() -> Option<usize> {
    // The whole size and the resident size come first, in pages. One short read costs less than all of
    // `/proc/self/status`.
    let mut text = [0; 64];
    let length = File::open("/proc/self/statm").ok()?.read(&mut text).ok()?;
    let text = std::str::from_utf8(&text[..length]).ok()?;
    let pages = text.split(' ').nth(1)?.parse::<usize>().ok()?;
    Some(pages * rustix::param::page_size())
}

/// All charges of the relay.
#[derive(Debug)]
pub struct Memory {
    limits: MemoryLimits,
    used: AtomicUsize,
    /// Bytes released so far, wrapping.
    released: AtomicUsize,
    refused: AtomicUsize,
    users: Mutex<HashMap<String, Weak<Account>>>,
    addresses: Mutex<HashMap<String, Weak<Account>>>,
    cpu: CpuBudgets,
}

/// The charges of one client, user or address.
#[derive(Debug, Default)]
struct Account {
    used: AtomicUsize,
}

impl Account {
    /// Takes `bytes` unless the sum would exceed `most`.
    ///
    /// # Errors
    /// The bytes in use.
    fn take(used: &AtomicUsize, bytes: usize, most: usize) -> Result<(), usize> {
        let more = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= most);
        let taken = used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.map(|_| ())
    }

    fn give_back(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// The owner of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BudgetOf {
    /// One connection.
    Client,
    /// All connections of one user.
    User,
    /// All connections from one address.
    Address,
    /// All clients of the relay.
    All,
}

/// A charge that exceeds a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooMuch {
    /// The budget's owner.
    pub of: BudgetOf,
    /// Requested bytes.
    pub bytes: usize,
    /// Bytes of the budget in use.
    pub used: usize,
    /// The budget in bytes.
    pub most: usize,
}

impl fmt::Display for TooMuch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bytes, used, most) = (Mib(self.bytes), Mib(self.used), Mib(self.most));
        let (whose, act) = match self.of {
            BudgetOf::Client => (
                "your connection uses",
                "unsubscribe some PVs first or ask for fewer at a time (max_memory_per_client_mib)",
            ),
            BudgetOf::User => (
                "your user's connections use",
                "close some pages or ask for fewer PVs at a time (max_memory_per_user_mib)",
            ),
            BudgetOf::Address => (
                "the connections from your address use",
                "close some pages or ask for fewer PVs at a time (max_memory_per_address_mib)",
            ),
            BudgetOf::All => (
                "the relay's clients use",
                "try again later, or the relay's operator raises max_memory_mib",
            ),
        };
        write!(
            f,
            "this takes {bytes} MiB of memory, and {whose} {used} MiB of {most} MiB: {act}"
        )
    }
}

/// Bytes as MiB with one digit behind the point.
struct Mib(usize);

impl fmt::Display for Mib {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1}", self.0 as f64 / f64::from(1 << 20))
    }
}

/// The part of an address that one machine can't change at will: all of IPv4, the first 64 bits of IPv6.
fn network_of(address: &str) -> String {
    let ip = address.parse::<SocketAddr>().map(|address| address.ip());
    match ip.or_else(|_| address.parse()) {
        Ok(IpAddr::V6(ip)) if ip.to_ipv4_mapped().is_none() => {
            let prefix = Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64);
            format!("{prefix}/64")
        }
        Ok(ip) => ip.to_canonical().to_string(),
        Err(_) => address.to_owned(),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn account(of: &Mutex<HashMap<String, Weak<Account>>>, name: &str) -> Arc<Account> {
    let mut accounts = lock(of);
    if let Some(account) = accounts.get(name).and_then(Weak::upgrade) {
        return account;
    }
    if accounts.len() >= 64 && accounts.len().is_multiple_of(64) {
        accounts.retain(|_, account| account.strong_count() > 0);
    }
    let account = Arc::default();
    accounts.insert(name.to_owned(), Arc::downgrade(&account));
    account
}

impl Memory {
    /// No charges yet.
    #[must_use]
    pub fn new(limits: MemoryLimits) -> Arc<Self> {
        Self::with_cpu(limits, CpuLimits::NONE)
    }

    /// No charges yet; owners have these CPU budgets, too.
    #[must_use]
    pub fn with_cpu(limits: MemoryLimits, cpu: CpuLimits) -> Arc<Self> {
        Arc::new(Self {
            limits,
            used: AtomicUsize::new(0),
            released: AtomicUsize::new(0),
            refused: AtomicUsize::new(0),
            users: Mutex::default(),
            addresses: Mutex::default(),
            cpu: CpuBudgets::new(cpu),
        })
    }

    /// A client that connects from this address, given with or without its port.
    #[must_use]
    pub fn owner(self: &Arc<Self>, address: &str, user: Option<&str>) -> Arc<Owner> {
        let network = network_of(address);
        Arc::new(Owner {
            client: Arc::default(),
            cpu: self.cpu.share(address, &network, user),
            address: account(&self.addresses, &network),
            user: user.map(|user| account(&self.users, user)),
            memory: Arc::clone(self),
        })
    }

    /// Bytes charged now.
    #[must_use]
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Charges refused so far.
    #[must_use]
    pub fn refused(&self) -> usize {
        self.refused.load(Ordering::Relaxed)
    }

    /// Bytes released so far; wraps.
    #[must_use]
    pub fn released(&self) -> usize {
        self.released.load(Ordering::Relaxed)
    }
}

/// A client that charges count for, with its user and its address.
#[derive(Debug)]
pub struct Owner {
    memory: Arc<Memory>,
    client: Arc<Account>,
    user: Option<Arc<Account>>,
    address: Arc<Account>,
    cpu: CpuShare,
}

impl Owner {
    /// A client without limits, for tests.
    #[must_use]
    pub fn unlimited() -> Arc<Self> {
        Memory::new(MemoryLimits::NONE).owner("", None)
    }

    /// The same client after it logged in.
    #[must_use]
    pub fn with_user(&self, user: &str) -> Arc<Self> {
        Arc::new(Self {
            memory: Arc::clone(&self.memory),
            client: Arc::clone(&self.client),
            user: Some(account(&self.memory.users, user)),
            address: Arc::clone(&self.address),
            cpu: self.memory.cpu.with_user(&self.cpu, user),
        })
    }

    /// The CPU budgets of the client.
    #[must_use]
    pub fn cpu(&self) -> &CpuShare {
        &self.cpu
    }

    fn is_same_client(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.client, &other.client)
    }

    /// The accounts with their limits, without that of the relay as a whole.
    fn accounts(&self) -> impl Iterator<Item = (&Account, usize, BudgetOf)> {
        let MemoryLimits {
            client,
            user,
            address,
            ..
        } = self.memory.limits;
        let of_user = self.user.as_deref();
        let of_user = of_user.map(|account| (account, user, BudgetOf::User));
        [(&*self.client, client, BudgetOf::Client)]
            .into_iter()
            .chain(of_user)
            .chain([(&*self.address, address, BudgetOf::Address)])
    }

    fn take(&self, bytes: usize) -> Result<(), TooMuch> {
        if bytes == 0 {
            return Ok(());
        }
        let taken = self.try_take(bytes);
        if taken.is_err() {
            self.memory.refused.fetch_add(1, Ordering::Relaxed);
        }
        taken
    }

    fn try_take(&self, bytes: usize) -> Result<(), TooMuch> {
        let give_back = |count: usize| {
            let taken = self.accounts().take(count);
            taken.for_each(|(account, ..)| account.give_back(bytes));
        };
        for (taken, (account, most, of)) in self.accounts().enumerate() {
            if let Err(used) = Account::take(&account.used, bytes, most) {
                give_back(taken);
                return Err(TooMuch {
                    of,
                    bytes,
                    used,
                    most,
                });
            }
        }
        let all = self.memory.limits.all;
        let is_small = self.address.used.load(Ordering::Relaxed) <= all / SMALL_PART;
        let reserve = if is_small { 0 } else { all / RESERVE_PART };
        Account::take(&self.memory.used, bytes, all - reserve).map_err(|used| {
            give_back(usize::MAX);
            TooMuch {
                of: BudgetOf::All,
                bytes,
                used,
                most: all,
            }
        })
    }

    fn give_back(&self, bytes: usize) {
        self.accounts()
            .for_each(|(account, ..)| account.give_back(bytes));
        self.memory.used.fetch_sub(bytes, Ordering::Relaxed);
        self.memory.released.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Charges bytes until the charge is dropped.
    ///
    /// # Errors
    /// When they exceed a budget.
    pub fn charge(self: &Arc<Self>, bytes: usize) -> Result<Charge, TooMuch> {
        self.take(bytes)?;
        Ok(Charge {
            owner: Arc::clone(self),
            bytes,
        })
    }
}

/// Charged bytes; dropping it releases them.
#[derive(Debug)]
pub struct Charge {
    owner: Arc<Owner>,
    bytes: usize,
}

impl Charge {
    /// The charged bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Changes the charge to `bytes`; lowering it never fails.
    ///
    /// # Errors
    /// When the increase exceeds a budget; the charge is unchanged then.
    pub fn resize(&mut self, bytes: usize) -> Result<(), TooMuch> {
        match bytes.checked_sub(self.bytes) {
            Some(more) => self.owner.take(more)?,
            None => self.owner.give_back(self.bytes - bytes),
        }
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.owner.give_back(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: MemoryLimits = MemoryLimits {
        all: 1_000_000,
        client: 300_000,
        user: 400_000,
        address: 500_000,
    };

    #[test]
    fn charge_counts_against_all_budgets_until_it_is_dropped() {
        let memory = Memory::new(LIMITS);
        let of = |address, user| memory.owner(address, user);
        let one = of("10.0.0.1:1", Some("jane"));
        let charge = one.charge(250_000).unwrap();
        let refused = |owner: &Arc<Owner>, bytes| owner.charge(bytes).unwrap_err().of;
        assert_eq!(refused(&one, 60_000), BudgetOf::Client);
        let two = of("10.0.0.2:1", Some("jane"));
        assert_eq!(refused(&two, 160_000), BudgetOf::User);
        let three = of("10.0.0.1:2", None);
        assert_eq!(refused(&three, 260_000), BudgetOf::Address);
        // A refused charge uses nothing.
        let second = three.charge(240_000).unwrap();
        assert_eq!((memory.used(), memory.refused()), (490_000, 3));
        let of_another = of("10.0.0.3:1", None).charge(290_000).unwrap();
        assert_eq!(refused(&of("10.0.0.4:1", None), 290_000), BudgetOf::All);
        // A part is reserved for addresses that use little.
        let small = of("10.0.0.5:1", None).charge(30_000).unwrap();
        let another_small = of("10.0.0.6:1", None).charge(120_000);
        assert_eq!(another_small.unwrap_err().of, BudgetOf::All);
        let last = of("10.0.0.7:1", None).charge(31_000).unwrap();
        drop((charge, second, of_another, small, last));
        assert_eq!(memory.used(), 0);
        assert_eq!(one.client.used.load(Ordering::Relaxed), 0);
        one.charge(300_000).unwrap();
    }

    #[test]
    fn message_names_use_and_budget_and_who_can_change_it() {
        let owner = Memory::new(LIMITS).owner("::1", None);
        let message = owner.charge(1 << 20).unwrap_err().to_string();
        assert_eq!(
            message,
            "this takes 1.0 MiB of memory, and your connection uses 0.0 MiB of 0.3 MiB: unsubscribe some \
             PVs first or ask for fewer at a time (max_memory_per_client_mib)"
        );
    }

    #[test]
    fn addresses_of_one_ipv6_network_share_a_budget() {
        for (address, network) in [
            ("10.1.2.3:80", "10.1.2.3"),
            ("10.1.2.3", "10.1.2.3"),
            ("[::ffff:10.1.2.3]:80", "10.1.2.3"),
            ("[2001:db8:1:2:3:4:5:6]:80", "2001:db8:1:2::/64"),
            ("[2001:db8:1:2:ffff::1]:99", "2001:db8:1:2::/64"),
            ("a name", "a name"),
        ] {
            assert_eq!(network_of(address), network);
        }
    }

    #[test]
    fn client_that_logs_in_is_charged_as_its_user() {
        let memory = Memory::new(LIMITS);
        let one = memory.owner("10.0.0.1:1", None);
        let _before = one.charge(100_000).unwrap();
        let jane = one.with_user("jane");
        let _after = jane.charge(190_000).unwrap();
        assert_eq!(jane.charge(20_000).unwrap_err().of, BudgetOf::Client);
        let other = memory.owner("10.0.0.2:1", Some("jane"));
        assert_eq!(other.charge(220_000).unwrap_err().of, BudgetOf::User);
    }

    #[test]
    fn accounts_of_clients_that_left_are_forgotten() {
        let memory = Memory::new(LIMITS);
        for n in 0..1000 {
            let _ = memory.owner(&format!("10.0.{}.{}", n / 250, n % 250), None);
        }
        assert!(lock(&memory.addresses).len() <= 128);
    }
}
