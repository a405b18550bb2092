//! The memory of one open PV, and the client that pays for it.
//!
//! The client that opened a PV pays for it. When its budget has no room for a value that grew, another
//! client that has subscribed the PV takes over the charge.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Instant;

use super::{Charge, Owner, TooMuch, lock};
use crate::limits::cpu::CpuShare;

/// Memory of an open PV without its value: its channel, its monitor and its entry in the table.
pub const PV_BYTES: usize = 4 << 10;

/// Other clients are noted as possible payers when the value takes more than this.
const OTHERS_FROM_BYTES: usize = 16 << 10;

/// Maximum number of other clients that are noted for one PV.
const MAX_OTHERS: usize = 8;

/// The charge of an open PV, shared by its slot in the registry and its entry in the table.
#[derive(Debug)]
pub struct PvCharge {
    paid: Mutex<Paid>,
    /// The charge in bytes, readable without the lock.
    bytes: AtomicUsize,
    /// The last value exceeded every holder's budget.
    is_refused: AtomicBool,
    /// The relay computes its values.
    is_computed: AtomicBool,
}

#[derive(Debug)]
struct Paid {
    charge: Charge,
    /// Other clients that have subscribed the PV.
    others: Vec<Weak<Owner>>,
}

impl PvCharge {
    /// Charges the client that opens a PV for the PV and for its value, whose size is 0 until it is known.
    ///
    /// # Errors
    /// When this exceeds a budget.
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
            is_computed: AtomicBool::new(false),
        }))
    }

    /// Charged bytes of the value.
    #[must_use]
    pub fn value_bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed) - PV_BYTES
    }

    /// Whether the value is large, computed or was refused, so that other clients may have to pay for it.
    #[must_use]
    pub fn may_need_others(&self) -> bool {
        self.is_refused.load(Ordering::Relaxed)
            || self.is_computed.load(Ordering::Relaxed)
            || self.value_bytes() > OTHERS_FROM_BYTES
    }

    /// The relay computes the PV's values: their CPU time is charged, too.
    pub fn computes(&self) {
        self.is_computed.store(true, Ordering::Relaxed);
    }

    /// The CPU budgets of the client that has used least of them, of those that have the PV.
    #[must_use]
    pub fn cpu(&self, now: Instant) -> CpuShare {
        let paid = lock(&self.paid);
        let others = paid.others.iter().filter_map(Weak::upgrade);
        let shares = others.map(|other| other.cpu().clone());
        let payer = paid.charge.owner.cpu().clone();
        let by_use = |share: &CpuShare| share.missing(now);
        let least = shares.min_by_key(by_use);
        least.into_iter().fold(payer, |payer, other| {
            if other.missing(now) < payer.missing(now) {
                other
            } else {
                payer
            }
        })
    }

    /// One more client subscribes the PV.
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

    /// Changes the charge for the PV's value.
    ///
    /// # Errors
    /// When it exceeds the budgets of the paying client and of all others; the charge is unchanged then.
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
    use crate::limits::memory::{BudgetOf, Memory, MemoryLimits};

    const LIMITS: MemoryLimits = MemoryLimits {
        all: 1_000_000,
        client: 300_000,
        user: 400_000,
        address: 500_000,
    };

    #[test]
    fn client_with_room_takes_over_a_pv_whose_payer_has_none() {
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
}
