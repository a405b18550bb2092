//! The places of requests to archivers, which go to clients in turn.
//!
//! An answer can take as long as the archiver likes, so that a place may not be free for minutes. No client has more
//! than half of the places, and among those that wait the one with the fewest places is next.

use std::cell::RefCell;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use tokio::sync::oneshot;

use crate::limits::cpu::CpuShare;

/// Places of all clients.
#[derive(Debug)]
pub(super) struct Places {
    free: usize,
    most_each: usize,
    clients: HashMap<usize, Client>,
    waiting: VecDeque<Waiting>,
    turn: u64,
}

/// The places of a client, its address or its user.
#[derive(Debug, Default)]
struct Client {
    taken: usize,
    /// Requests that wait or have a place.
    requests: usize,
    /// Number of its last turn.
    turn: u64,
}

#[derive(Debug)]
struct Waiting {
    /// Keeps its number from being another client's.
    share: CpuShare,
    place: oneshot::Sender<()>,
}

/// A request that waits for its place or has it; dropping it ends both.
#[derive(Debug)]
pub(super) struct Place {
    places: Rc<RefCell<Places>>,
    share: CpuShare,
    granted: Option<oneshot::Receiver<()>>,
}

impl Places {
    pub(super) fn new(most: usize) -> Rc<RefCell<Self>> {
        Rc::new(RefCell::new(Self {
            free: most,
            most_each: most.div_ceil(2),
            clients: HashMap::new(),
            waiting: VecDeque::new(),
            turn: 0,
        }))
    }

    /// Gives free places to those that wait.
    fn grant(&mut self) {
        while self.free > 0 {
            let of = |waiting: &Waiting| &self.clients[&waiting.share.payer()];
            let may = |(_, waiting): &(usize, &Waiting)| of(waiting).taken < self.most_each;
            let order = |(index, waiting): &(usize, &Waiting)| {
                let client = of(waiting);
                (client.taken, client.turn, *index)
            };
            let waiting = self.waiting.iter().enumerate().filter(may);
            let Some((next, _)) = waiting.min_by_key(order) else {
                return;
            };
            let Some(next) = self.waiting.remove(next) else {
                return;
            };
            // A request that is gone doesn't wait any more.
            if next.place.send(()).is_ok() {
                self.free -= 1;
                self.turn += 1;
                let client = self.clients.entry(next.share.payer()).or_default();
                client.taken += 1;
                client.turn = self.turn;
            }
        }
    }

    /// A request of a client ends.
    fn end(&mut self, share: &CpuShare, had_place: bool) {
        self.free += usize::from(had_place);
        self.waiting.retain(|waiting| !waiting.place.is_closed());
        if let Entry::Occupied(mut client) = self.clients.entry(share.payer()) {
            client.get_mut().taken -= usize::from(had_place);
            client.get_mut().requests -= 1;
            if client.get().requests == 0 {
                client.remove();
            }
        }
        self.grant();
    }
}

impl Place {
    /// Waits for a place for this client.
    pub(super) fn wait(places: &Rc<RefCell<Places>>, share: &CpuShare) -> Self {
        let (place, granted) = oneshot::channel();
        let mut all = places.borrow_mut();
        all.clients.entry(share.payer()).or_default().requests += 1;
        all.waiting.push_back(Waiting {
            share: share.clone(),
            place,
        });
        all.grant();
        Self {
            places: Rc::clone(places),
            share: share.clone(),
            granted: Some(granted),
        }
    }

    /// Waits until it has it.
    pub(super) async fn granted(&mut self) {
        if let Some(granted) = &mut self.granted {
            // The other end sends before it is dropped.
            let _ = granted.await;
            self.granted = None;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let granted = self.granted.take();
        let had_place = granted.is_none_or(|mut granted| granted.try_recv().is_ok());
        self.places.borrow_mut().end(&self.share, had_place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::cpu::{CpuBudgets, CpuLimits};

    /// Whether it has its place.
    fn has(place: &mut Place) -> bool {
        let granted = place.granted.as_mut();
        if granted.is_none_or(|granted| granted.try_recv().is_ok()) {
            place.granted = None;
        }
        place.granted.is_none()
    }

    fn count(places: &mut [Place]) -> usize {
        places.iter_mut().map(has).filter(|has| *has).count()
    }

    #[test]
    fn client_takes_half_of_the_places_and_others_take_turns() {
        let budgets = CpuBudgets::new(CpuLimits::NONE);
        let share = |address, user| budgets.share(address, address, user);
        let all = Places::new(4);
        let wait = |share: &CpuShare, count: usize| -> Vec<_> {
            (0..count).map(|_| Place::wait(&all, share)).collect()
        };
        // Two connections of a user, and two of an address, count as one client.
        let mut ann = wait(&share("10.0.0.1", Some("ann")), 3);
        ann.extend(wait(&share("10.0.0.2", Some("ann")), 3));
        assert_eq!(count(&mut ann), 2);
        let mut bob = wait(&share("10.0.0.3", None), 1);
        bob.extend(wait(&share("10.0.0.3", None), 2));
        assert_eq!(count(&mut bob), 2);
        let mut cat = wait(&share("127.0.0.1", None), 1);
        assert_eq!(count(&mut cat), 0, "no place is free");
        drop(ann.remove(0));
        assert_eq!(
            (count(&mut cat), count(&mut ann)),
            (1, 1),
            "the fewest places"
        );
        drop((ann, bob, cat));
        assert_eq!(all.borrow().free, 4);
        assert!(all.borrow().clients.is_empty() && all.borrow().waiting.is_empty());
    }

    #[test]
    fn clients_take_turns_at_one_place() {
        let budgets = CpuBudgets::new(CpuLimits::NONE);
        let [many, one] = [1, 2].map(|_| budgets.share("127.0.0.1", "", None));
        let all = Places::new(1);
        let mut of_many: Vec<_> = (0..3).map(|_| Place::wait(&all, &many)).collect();
        let mut of_one = Place::wait(&all, &one);
        assert!(has(&mut of_many[0]) && !has(&mut of_one));
        // One that waits may leave.
        drop(of_many.pop());
        drop(of_many.remove(0));
        assert!(has(&mut of_one) && !has(&mut of_many[0]));
        drop(of_one);
        assert!(has(&mut of_many[0]));
    }
}
