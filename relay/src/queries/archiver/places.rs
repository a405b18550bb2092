//! The places of requests to archivers, which go to clients in turn.
//!
//! An answer can take as long as the archiver likes, so that a place may not be free for minutes. No client has more
//! than half of the places, and among those that wait the one with the fewest places is next.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

use tokio::sync::oneshot;

use crate::limits::cpu::CpuShare;

/// Places of all clients.
#[derive(Debug)]
pub(super) struct Places {
    free: usize,
    most_each: usize,
    clients: HashMap<usize, Client>,
    /// The clients that wait and may have one more place, the next one first.
    order: BTreeSet<Rank>,
    /// Number of the last turn.
    turn: u64,
    /// Number of the last request.
    request: u64,
}

/// Whose turn comes first: places that a client has, the number of its last turn, that of its first request that waits,
/// and the client.
type Rank = (usize, u64, u64, usize);

/// The places of a client, its address or its user.
#[derive(Debug, Default)]
struct Client {
    taken: usize,
    /// Requests that wait, by their numbers.
    waiting: BTreeMap<u64, oneshot::Sender<()>>,
    /// Number of its last turn.
    turn: u64,
}

/// A request that waits for its place or has it; dropping it ends both.
#[derive(Debug)]
pub(super) struct Place {
    places: Rc<RefCell<Places>>,
    /// Keeps its client's number from being another client's.
    share: CpuShare,
    request: u64,
    granted: Option<oneshot::Receiver<()>>,
}

impl Places {
    pub(super) fn new(most: usize) -> Rc<RefCell<Self>> {
        Rc::new(RefCell::new(Self {
            free: most,
            most_each: most.div_ceil(2),
            clients: HashMap::new(),
            order: BTreeSet::new(),
            turn: 0,
            request: 0,
        }))
    }

    /// Changes a client, and its rank with it.
    fn change<T>(&mut self, payer: usize, change: impl FnOnce(&mut Client) -> T) -> T {
        let client = self.clients.entry(payer).or_default();
        if let Some(rank) = client.rank(payer, self.most_each) {
            self.order.remove(&rank);
        }
        let done = change(client);
        if let Some(rank) = client.rank(payer, self.most_each) {
            self.order.insert(rank);
        }
        if client.taken == 0 && client.waiting.is_empty() {
            self.clients.remove(&payer);
        }
        done
    }

    /// Gives free places to those that wait.
    fn grant(&mut self) {
        while self.free > 0
            && let Some((.., payer)) = self.order.first().copied()
        {
            let turn = self.turn + 1;
            let is_granted = self.change(payer, |client| {
                let (_, place) = client.waiting.pop_first()?;
                // A request that is gone doesn't wait any more.
                place.send(()).ok()?;
                client.taken += 1;
                client.turn = turn;
                Some(())
            });
            if is_granted.is_some() {
                self.free -= 1;
                self.turn = turn;
            }
        }
    }

    /// A request of a client ends.
    fn end(&mut self, payer: usize, request: u64, had_place: bool) {
        self.free += usize::from(had_place);
        self.change(payer, |client| {
            client.taken -= usize::from(had_place);
            client.waiting.remove(&request);
        });
        self.grant();
    }
}

impl Client {
    /// Its rank, if it waits and may have one more place.
    fn rank(&self, payer: usize, most: usize) -> Option<Rank> {
        let (first, _) = self.waiting.first_key_value()?;
        (self.taken < most).then_some((self.taken, self.turn, *first, payer))
    }
}

impl Place {
    /// Waits for a place for this client.
    pub(super) fn wait(places: &Rc<RefCell<Places>>, share: &CpuShare) -> Self {
        let (place, granted) = oneshot::channel();
        let mut all = places.borrow_mut();
        all.request += 1;
        let request = all.request;
        all.change(share.payer(), |client| {
            client.waiting.insert(request, place);
        });
        all.grant();
        Self {
            places: Rc::clone(places),
            share: share.clone(),
            request,
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
        let mut places = self.places.borrow_mut();
        places.end(self.share.payer(), self.request, had_place);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::compute::cpu_time;
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
        assert!(all.borrow().clients.is_empty() && all.borrow().order.is_empty());
    }

    #[test]
    fn thousands_of_requests_that_end_while_they_wait_do_not_hold_up_the_others() {
        let budgets = CpuBudgets::new(CpuLimits::NONE);
        let share = |address| budgets.share(address, address, None);
        let all = Places::new(4);
        let (many, few) = (share("10.0.0.1"), share("10.0.0.2"));
        // It has its half of the places: the others are free, and it waits.
        let mut of_many: Vec<_> = (0..20_000).map(|_| Place::wait(&all, &many)).collect();
        assert_eq!(count(&mut of_many), 2);
        let begun = cpu_time();
        drop(of_many.split_off(2));
        let took = cpu_time() - begun;
        // To look at each of those that wait, for each that ends, takes many times as long.
        assert!(took < Duration::from_millis(500), "{took:?}");
        let mut of_few = Place::wait(&all, &few);
        assert!(has(&mut of_few));
        drop((of_many, of_few));
        assert_eq!(all.borrow().free, 4);
        assert!(all.borrow().clients.is_empty() && all.borrow().order.is_empty());
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
