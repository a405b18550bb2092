//! How many names without a server one relay may want of another: as many as one client (`max_unresolved`). A name
//! counts until the tick thread has found that a server has it, and after it was given up until its search has ended.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Interval between counts of the names of one relay. Each count visits all of them.
const COUNT_EVERY: Duration = Duration::from_millis(100);

/// Where the tick thread puts the number of names without a server.
pub(super) type Unresolved = Arc<OnceLock<usize>>;

/// Names that were given up.
#[derive(Debug)]
struct Left {
    /// Searches for them have ended.
    until: Instant,
    names: usize,
    /// How many of them have no server.
    unresolved: Unresolved,
}

impl Left {
    fn searches(&self) -> usize {
        self.unresolved.get().copied().unwrap_or(self.names)
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct NameBudget {
    most: usize,
    /// Names that may have no server: those counted last, and those added since.
    unresolved: usize,
    /// Names added since `counting` began.
    added: usize,
    left: VecDeque<Left>,
    counting: Option<Unresolved>,
    began: Option<Instant>,
}

impl NameBudget {
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            unresolved: 0,
            added: 0,
            left: VecDeque::new(),
            counting: None,
            began: None,
        }
    }

    /// Whether one more name may be wanted. `Err(true)` if it may be in a moment, when names have been counted.
    pub(super) fn check(&mut self, now: Instant) -> Result<(), bool> {
        if let Some(unresolved) = self.counting.as_ref().and_then(|count| count.get()) {
            self.unresolved = unresolved + self.added;
            self.counting = None;
        }
        while self.left.pop_front_if(|left| left.until <= now).is_some() {}
        let left: usize = self.left.iter().map(Left::searches).sum();
        if self.unresolved + left < self.most {
            return Ok(());
        }
        Err(self.counting.is_some() || self.added > 0 || left > 0)
    }

    /// Names are given up, for which searches last until then. Returns where to count those without a server.
    pub(super) fn leave(&mut self, names: usize, until: Instant) -> Option<Unresolved> {
        let names = names.min(self.unresolved);
        if names == 0 {
            return None;
        }
        self.unresolved -= names;
        self.added = self.added.min(self.unresolved);
        let unresolved = Unresolved::default();
        self.left.push_back(Left {
            until,
            names,
            unresolved: Arc::clone(&unresolved),
        });
        Some(unresolved)
    }

    /// A name was added.
    pub(super) fn add(&mut self) {
        self.unresolved += 1;
        self.added += 1;
    }

    /// Where to count the names, if that is due.
    pub(super) fn count(&mut self, now: Instant) -> Option<Unresolved> {
        let is_new = |at: Instant| now.saturating_duration_since(at) < COUNT_EVERY;
        let is_due = self.counting.is_none() && !self.began.is_some_and(is_new);
        if !is_due || self.unresolved < self.most / 2 {
            return None;
        }
        (self.added, self.began) = (0, Some(now));
        let counting = self.counting.insert(Arc::default());
        Some(Arc::clone(counting))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_servers_have_give_room_for_others() {
        let (mut budget, start) = (NameBudget::new(100), Instant::now());
        let add = |budget: &mut NameBudget, count: usize| {
            (0..count)
                .take_while(|_| budget.check(start).map(|()| budget.add()).is_ok())
                .count()
        };
        assert_eq!(add(&mut budget, 49), 49);
        assert!(budget.count(start).is_none(), "half are unused");
        assert_eq!(add(&mut budget, 200), 51);
        assert_eq!(budget.check(start), Err(true));
        let count = budget.count(start).unwrap();
        assert!(budget.count(start + COUNT_EVERY).is_none(), "one at a time");
        assert_eq!(budget.check(start), Err(true));
        count.set(70).unwrap();
        assert_eq!(add(&mut budget, 200), 30);
        let later = start + COUNT_EVERY;
        assert!(budget.count(later - Duration::from_millis(1)).is_none());
        budget.count(later).unwrap().set(100).unwrap();
        assert_eq!(budget.check(later), Err(false), "no server has them");
    }

    #[test]
    fn names_that_are_given_up_give_room_when_their_searches_have_ended() {
        let (mut budget, start) = (NameBudget::new(100), Instant::now());
        let until = start + Duration::from_secs(2);
        let fill = |budget: &mut NameBudget| {
            (0..200)
                .take_while(|_| budget.check(start).map(|()| budget.add()).is_ok())
                .count()
        };
        assert_eq!(fill(&mut budget), 100);
        let left = budget.leave(100, until).unwrap();
        assert_eq!(fill(&mut budget), 0);
        left.set(70).unwrap();
        assert_eq!(fill(&mut budget), 30, "servers have these");
        assert_eq!(budget.check(until - Duration::from_millis(1)), Err(true));
        assert_eq!(budget.check(until), Ok(()));
        assert!(budget.leave(30, until).is_some());
        assert!(budget.leave(30, until).is_none(), "none is wanted");
    }
}
