//! How fast may one client go, and how many may one user be?

mod memory;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

pub use memory::{BudgetOf, Charge, Memory, MemoryLimits, Owner, PV_BYTES, PvCharge, TooMuch};

/// So much at a time, and so much a second after that.
#[derive(Clone, Copy, Debug)]
pub struct Bucket {
    per_second: f64,
    most: f64,
    left: f64,
    at: Instant,
}

impl Bucket {
    /// A full one, which fills again by so much a second.
    #[must_use]
    pub fn new(per_second: usize, most: usize, now: Instant) -> Self {
        let most = most as f64;
        Self {
            per_second: per_second as f64,
            most,
            left: most,
            at: now,
        }
    }

    /// How much is left.
    pub fn left(&mut self, now: Instant) -> usize {
        let seconds = now.saturating_duration_since(self.at).as_secs_f64();
        self.at = now;
        self.left = (self.left + seconds * self.per_second).min(self.most);
        self.left as usize
    }

    /// Takes so much, of which no more than what is left.
    pub fn take(&mut self, count: usize) {
        self.left = (self.left - count as f64).max(0.0);
    }

    /// Takes one, if there is one.
    pub fn take_one(&mut self, now: Instant) -> bool {
        let is_there = self.left(now) > 0;
        self.take(usize::from(is_there));
        is_there
    }
}

/// Connections of each user.
#[derive(Debug)]
pub struct Users {
    most: usize,
    permits: Mutex<HashMap<String, usize>>,
}

/// One connection of a user, as long as it lasts.
#[derive(Debug)]
pub struct Permit {
    users: Arc<Users>,
    user: String,
}

impl Users {
    /// So many connections for each.
    #[must_use]
    pub fn new(most: usize) -> Arc<Self> {
        let permits = Mutex::default();
        Arc::new(Self { most, permits })
    }

    /// One more connection of a user, unless there are too many.
    ///
    /// # Errors
    /// With a sentence for the user.
    pub fn permit(self: &Arc<Self>, user: &str) -> Result<Permit, String> {
        let mut permits = self.permits.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = permits.entry(user.to_owned()).or_default();
        if *taken >= self.most {
            return Err(format!("you have {taken} connections already"));
        }
        *taken += 1;
        Ok(Permit {
            users: Arc::clone(self),
            user: user.to_owned(),
        })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let permits = self.users.permits.lock();
        let mut permits = permits.unwrap_or_else(PoisonError::into_inner);
        if let Some(taken) = permits.get_mut(&self.user) {
            *taken -= 1;
            if *taken == 0 {
                permits.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn burst_passes_and_then_so_many_a_second() {
        let start = Instant::now();
        let mut bucket = Bucket::new(2, 3, start);
        let mut taken = |after: u64| bucket.take_one(start + Duration::from_millis(after));
        assert_eq!(
            [taken(0), taken(0), taken(0), taken(0)],
            [true, true, true, false]
        );
        assert_eq!([taken(400), taken(600), taken(600)], [false, true, false]);
        assert_eq!(
            [taken(9000), taken(9000), taken(9000), taken(9000)],
            [true, true, true, false]
        );
    }

    #[test]
    fn permit_is_free_again_when_its_connection_ends() {
        let users = Users::new(1);
        let permit = users.permit("jane").unwrap();
        assert!(users.permit("jane").is_err());
        assert!(users.permit("joe").is_ok());
        drop(permit);
        assert!(users.permit("jane").is_ok());
        assert!(users.permits.lock().unwrap().is_empty());
    }
}
