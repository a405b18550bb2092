//! How much memory may each client, user and address make the relay take, and who pays for what?
//!
//! PVs, their values and answers are charged in bytes before they are spent. A charge counts for the
//! client, its user, its address and the relay as a whole; what is beyond one of these budgets is refused
//! with a sentence that names it. A PV is paid by the client that opened it; when that one has no room
//! for a value that grew, another client that holds the PV takes it over.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// What an open PV takes beside its value: its channel, its monitor and its place in the table.
pub const PV_BYTES: usize = 4 << 10;

/// Who else holds a PV is noted when its value takes more than this.
const OTHERS_FROM_BYTES: usize = 16 << 10;

/// Holders of a PV that may take it over from the one that pays for it.
const MAX_OTHERS: usize = 8;

/// The last part of the relay's budget is kept for addresses that use little: one in so many bytes…
const RESERVE_PART: usize = 8;

/// … for those that use no more than one in so many.
const SMALL_PART: usize = 32;

/// Budgets in bytes.
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
    /// Budgets that nothing reaches, for tests.
    pub const NONE: Self = Self {
        all: usize::MAX,
        client: usize::MAX,
        user: usize::MAX,
        address: usize::MAX,
    };
}

/// What everybody together has been charged.
#[derive(Debug)]
pub struct Memory {
    limits: MemoryLimits,
    used: AtomicUsize,
    /// Bytes that were given back so far, wrapping.
    released: AtomicUsize,
    refused: AtomicUsize,
    users: Mutex<HashMap<String, Weak<Account>>>,
    addresses: Mutex<HashMap<String, Weak<Account>>>,
}

/// Bytes of one client, user or address.
#[derive(Debug, Default)]
struct Account {
    used: AtomicUsize,
}

impl Account {
    /// Takes `bytes` unless that makes more than `most`.
    ///
    /// # Errors
    /// What is used already.
    fn take(used: &AtomicUsize, bytes: usize, most: usize) -> Result<(), usize> {
        let more = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= most);
        let taken = used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.map(|_| ())
    }

    fn give_back(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Whose budget is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BudgetOf {
    /// The connection.
    Client,
    /// All connections of the user.
    User,
    /// All connections from the address.
    Address,
    /// The relay.
    All,
}

/// A charge that was refused: what was asked for, and what is used of which budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooMuch {
    /// Whose budget.
    pub of: BudgetOf,
    /// Bytes that were asked for.
    pub bytes: usize,
    /// Bytes in use.
    pub used: usize,
    /// The budget.
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
            "too much at once: {bytes} MiB more, and {whose} {used} MiB of {most} MiB: {act}"
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

/// The part of an address that a machine can't change at will: of IPv6 the first 64 bits.
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
    /// Nothing is used yet.
    #[must_use]
    pub fn new(limits: MemoryLimits) -> Arc<Self> {
        Arc::new(Self {
            limits,
            used: AtomicUsize::new(0),
            released: AtomicUsize::new(0),
            refused: AtomicUsize::new(0),
            users: Mutex::default(),
            addresses: Mutex::default(),
        })
    }

    /// A client that has just connected from an address, with or without its port.
    #[must_use]
    pub fn owner(self: &Arc<Self>, address: &str, user: Option<&str>) -> Arc<Owner> {
        Arc::new(Owner {
            client: Arc::default(),
            address: account(&self.addresses, &network_of(address)),
            user: user.map(|user| account(&self.users, user)),
            memory: Arc::clone(self),
        })
    }

    /// Bytes that are charged.
    #[must_use]
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Charges that were refused so far.
    #[must_use]
    pub fn refused(&self) -> usize {
        self.refused.load(Ordering::Relaxed)
    }

    /// Bytes that were given back so far; wraps.
    #[must_use]
    pub fn released(&self) -> usize {
        self.released.load(Ordering::Relaxed)
    }
}

/// Whom bytes are charged to: a client with its user and its address.
#[derive(Debug)]
pub struct Owner {
    memory: Arc<Memory>,
    client: Arc<Account>,
    user: Option<Arc<Account>>,
    address: Arc<Account>,
}

impl Owner {
    /// One without any limit, for tests.
    #[must_use]
    pub fn unlimited() -> Arc<Self> {
        Memory::new(MemoryLimits::NONE).owner("", None)
    }

    /// The same client, whose user is known now.
    #[must_use]
    pub fn with_user(&self, user: &str) -> Arc<Self> {
        Arc::new(Self {
            memory: Arc::clone(&self.memory),
            client: Arc::clone(&self.client),
            user: Some(account(&self.memory.users, user)),
            address: Arc::clone(&self.address),
        })
    }

    fn is_same_client(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.client, &other.client)
    }

    /// Accounts with their limits; the relay's own isn't among them.
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
    /// When a budget has no room for them.
    pub fn charge(self: &Arc<Self>, bytes: usize) -> Result<Charge, TooMuch> {
        self.take(bytes)?;
        Ok(Charge {
            owner: Arc::clone(self),
            bytes,
        })
    }
}

/// Charged bytes; given back when this is dropped.
#[derive(Debug)]
pub struct Charge {
    owner: Arc<Owner>,
    bytes: usize,
}

impl Charge {
    /// What was charged.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Changes the charge to `bytes`; lowering it never fails.
    ///
    /// # Errors
    /// When a budget has no room for more; then nothing has changed.
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

/// What an open PV is charged, and who pays: its slot in the registry and its entry in the table share it.
#[derive(Debug)]
pub struct PvCharge {
    paid: Mutex<Paid>,
    /// The charge in bytes, for those who only look.
    bytes: AtomicUsize,
    /// The last value had no room.
    is_refused: AtomicBool,
}

#[derive(Debug)]
struct Paid {
    charge: Charge,
    /// Holders beside the one who pays.
    others: Vec<Weak<Owner>>,
}

impl PvCharge {
    /// Charges the client that opens a PV for the PV and for its value's bytes, which are 0 when that
    /// isn't known.
    ///
    /// # Errors
    /// When a budget has no room for them.
    pub fn open(owner: &Arc<Owner>, value_bytes: usize) -> Result<Arc<Self>, TooMuch> {
        let bytes = PV_BYTES.saturating_add(value_bytes);
        let paid = Paid {
            charge: owner.charge(bytes)?,
            others: Vec::new(),
        };
        Ok(Arc::new(Self {
            paid: Mutex::new(paid),
            bytes: AtomicUsize::new(bytes),
            is_refused: AtomicBool::new(false),
        }))
    }

    /// Bytes of the value that are charged.
    #[must_use]
    pub fn value_bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed) - PV_BYTES
    }

    /// Whether the value is so large, or so unknown, that others may have to pay for it.
    #[must_use]
    pub fn may_need_others(&self) -> bool {
        self.is_refused.load(Ordering::Relaxed) || self.value_bytes() > OTHERS_FROM_BYTES
    }

    /// One more client holds the PV.
    pub fn join(&self, owner: &Arc<Owner>) {
        let mut paid = lock(&self.paid);
        let others = &mut paid.others;
        others.retain(|other| other.strong_count() > 0);
        let is_known = |other: &Weak<Owner>| {
            let other = other.upgrade();
            other.is_some_and(|other| other.is_same_client(owner))
        };
        if others.len() < MAX_OTHERS && !others.iter().any(is_known) {
            others.push(Arc::downgrade(owner));
        }
    }

    /// The PV's value takes `bytes` from now on.
    ///
    /// # Errors
    /// When neither the one who pays nor another holder has room for it; then nothing has changed.
    pub fn set(&self, value_bytes: usize) -> Result<(), TooMuch> {
        let bytes = PV_BYTES.saturating_add(value_bytes);
        let mut paid = lock(&self.paid);
        if let Err(too_much) = paid.charge.resize(bytes) {
            let others = paid.others.iter().filter_map(Weak::upgrade);
            let charge = { others }.find_map(|other| other.charge(bytes).ok());
            self.is_refused.store(charge.is_none(), Ordering::Relaxed);
            paid.charge = charge.ok_or(too_much)?;
        }
        self.bytes.store(bytes, Ordering::Relaxed);
        Ok(())
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
    fn charge_counts_for_client_user_address_and_relay_until_it_is_dropped() {
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
        // What was refused costs nothing.
        let second = three.charge(240_000).unwrap();
        assert_eq!((memory.used(), memory.refused()), (490_000, 3));
        let of_another = of("10.0.0.3:1", None).charge(290_000).unwrap();
        assert_eq!(refused(&of("10.0.0.4:1", None), 290_000), BudgetOf::All);
        // A part is kept for those who use little.
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
    fn message_says_how_much_is_used_of_what_and_who_can_change_it() {
        let owner = Memory::new(LIMITS).owner("::1", None);
        let message = owner.charge(1 << 20).unwrap_err().to_string();
        assert_eq!(
            message,
            "too much at once: 1.0 MiB more, and your connection uses 0.0 MiB of 0.3 MiB: unsubscribe some \
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
    fn holder_with_room_takes_over_a_pv_whose_payer_has_none() {
        let memory = Memory::new(LIMITS);
        let (one, two) = (
            memory.owner("10.0.0.1:1", None),
            memory.owner("10.0.0.2:1", None),
        );
        let used = |owner: &Owner| owner.client.used.load(Ordering::Relaxed);
        let pv = PvCharge::open(&one, 0).unwrap();
        let rest = one.charge(280_000).unwrap();
        assert_eq!(pv.set(100_000).unwrap_err().of, BudgetOf::Client);
        assert_eq!(pv.value_bytes(), 0);
        pv.join(&two);
        pv.join(&two);
        pv.set(100_000).unwrap();
        assert_eq!((used(&one), used(&two)), (280_000, PV_BYTES + 100_000));
        pv.set(10).unwrap();
        assert_eq!(used(&two), PV_BYTES + 10);
        drop((pv, rest));
        assert_eq!(memory.used(), 0);
    }

    #[test]
    fn client_that_shows_its_user_is_charged_as_that_user() {
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
    fn accounts_of_those_who_left_are_forgotten() {
        let memory = Memory::new(LIMITS);
        for n in 0..1000 {
            let _ = memory.owner(&format!("10.0.{}.{}", n / 250, n % 250), None);
        }
        assert!(lock(&memory.addresses).len() <= 128);
    }
}
