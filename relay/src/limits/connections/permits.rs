//! Counts of open connections, of all clients and of each user.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use thiserror::Error;

/// Counts clients against `max_clients`. A client counts from its handshake on, before it is answered, so that
/// handshakes at the same time can't exceed the limit.
#[derive(Debug)]
pub struct Clients {
    most: usize,
    taken: AtomicUsize,
}

/// One client; dropping it ends its count.
#[derive(Debug)]
pub struct ClientPermit(Arc<Clients>);

impl Clients {
    /// Allows `most` clients.
    #[must_use]
    pub fn new(most: usize) -> Arc<Self> {
        let taken = AtomicUsize::new(0);
        Arc::new(Self { most, taken })
    }

    /// Whether a client would be refused.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.taken.load(Ordering::Relaxed) >= self.most
    }

    /// Counts one more client; `None` when there are as many as allowed.
    #[must_use]
    pub fn permit(self: &Arc<Self>) -> Option<ClientPermit> {
        let more = |taken: usize| (taken < self.most).then_some(taken + 1);
        let taken = self
            .taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.is_ok().then(|| ClientPermit(Arc::clone(self)))
    }
}

impl Drop for ClientPermit {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Counts the open connections of each user.
#[derive(Debug)]
pub struct Users {
    most: usize,
    permits: Mutex<HashMap<String, usize>>,
}

/// One open connection of a user; dropping it frees it.
#[derive(Debug)]
pub struct Permit {
    users: Arc<Users>,
    user: String,
}

/// A user has as many connections as allowed.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("you have {open} connections already; close some pages first (max_clients_per_user)")]
pub struct TooManyConnections {
    /// Open connections of the user.
    pub open: usize,
}

impl Users {
    /// Allows each user up to `most` connections.
    #[must_use]
    pub fn new(most: usize) -> Arc<Self> {
        let permits = Mutex::default();
        Arc::new(Self { most, permits })
    }

    /// Counts one more connection of a user.
    ///
    /// # Errors
    /// When the user has `max_clients_per_user` connections already.
    pub fn permit(self: &Arc<Self>, user: &str) -> Result<Permit, TooManyConnections> {
        let mut permits = self.permits.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = permits.entry(user.to_owned()).or_default();
        if *taken >= self.most {
            return Err(TooManyConnections { open: *taken });
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

    #[test]
    fn clients_at_the_same_time_never_exceed_the_limit() {
        let clients = Clients::new(10);
        let enter = || {
            let entered = (0..100).map(|_| clients.permit());
            entered.collect::<Vec<_>>()
        };
        let in_all: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(enter)).collect();
            let entered = threads.into_iter().flat_map(|each| each.join().unwrap());
            // All stay until the last has tried.
            let entered: Vec<_> = entered.collect();
            entered.iter().flatten().count()
        });
        assert_eq!(in_all, 10);
        assert!(!clients.is_full(), "all have left");
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
