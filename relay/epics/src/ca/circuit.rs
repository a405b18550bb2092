//! Spreads channels over circuits, and limits how many are searched at a time.
//!
//! A server of EPICS base iterates over all subscriptions of a circuit for each new one, so its
//! work grows with the square of their number: 100,000 channels on one circuit kept an IOC busy for
//! 25 s. libca makes one circuit per server and priority, so channels beyond the first
//! [`CHANNELS_OF_A_CIRCUIT`] of a server get the next priority. The server of a PV is known only
//! when it is found; until then all searched PVs are counted as if they were on one server, and at
//! most [`SEARCHED_AT_A_TIME`] are searched at once.

use std::collections::{HashMap, VecDeque};
use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Beyond this number the quadratic cost is noticeable: connecting costs the server twice as much.
const CHANNELS_OF_A_CIRCUIT: usize = 5_000;

/// Enough to keep libca and a server busy; a search takes some ten milliseconds.
const SEARCHED_AT_A_TIME: usize = 2_500;

/// A name that isn't found within this time may have no server: other names no longer wait for it.
const WAIT_FOR_A_SEARCH: Duration = Duration::from_millis(250);

/// Number of libca's priorities; the lowest is 0.
const PRIORITIES: usize = 100;

/// The channels of one context of libca, by circuit.
#[derive(Default)]
pub(super) struct Circuits {
    by_priority: Vec<Circle>,
    /// Priority of each channel whose search others wait for.
    searched: HashMap<u64, u32>,
    /// The same channels in order of time, including some that were found meanwhile.
    since: VecDeque<(Instant, u64)>,
}

/// The circuits of one priority, one per server.
#[derive(Default)]
struct Circle {
    searched: usize,
    of_server: HashMap<Arc<str>, usize>,
    fullest: usize,
}

/// The circuit on which a channel is counted.
#[derive(Debug, Default)]
pub(super) struct Place {
    priority: u32,
    server: Option<Arc<str>>,
}

impl Place {
    /// The priority to create the channel with.
    pub(super) fn priority(&self) -> u32 {
        self.priority
    }
}

impl Circuits {
    /// Whether another channel may be searched; if not, the latest time to wait until.
    pub(super) fn may_search(&mut self, now: Instant) -> Result<(), Instant> {
        while let Some((since, id)) = self.since.front().copied() {
            let until = since + WAIT_FOR_A_SEARCH;
            if self.searched.contains_key(&id) && until > now {
                return if self.searched.len() < SEARCHED_AT_A_TIME {
                    Ok(())
                } else {
                    Err(until)
                };
            }
            self.since.pop_front();
            self.search_ended(id);
        }
        Ok(())
    }

    /// A channel is being searched from now on.
    pub(super) fn search(&mut self, id: u64, now: Instant) -> Place {
        let has_room = |circle: &Circle| circle.fullest + circle.searched < CHANNELS_OF_A_CIRCUIT;
        let circles = self.by_priority.iter();
        let priority = circles.clone().position(has_room).unwrap_or_else(|| {
            if circles.len() < PRIORITIES {
                return circles.len();
            }
            let emptiest = circles.enumerate().min_by_key(|(_, circle)| circle.fullest);
            emptiest.map_or(0, |(priority, _)| priority)
        });
        if priority == self.by_priority.len() {
            self.by_priority.push(Circle::default());
        }
        self.by_priority[priority].searched += 1;
        let priority = priority as u32;
        self.searched.insert(id, priority);
        self.since.push_back((now, id));
        Place {
            priority,
            server: None,
        }
    }

    /// A channel is connected to this server, possibly not the same as before.
    pub(super) fn connected(&mut self, id: u64, place: &mut Place, server: &str) {
        self.search_ended(id);
        if place.server.as_deref() == Some(server) {
            return;
        }
        self.leave(place);
        let circle = &mut self.by_priority[place.priority as usize];
        let (server, count) = match circle.of_server.get_key_value(server) {
            Some((server, count)) => (Arc::clone(server), count + 1),
            None => (Arc::from(server), 1),
        };
        circle.fullest = circle.fullest.max(count);
        circle.of_server.insert(Arc::clone(&server), count);
        place.server = Some(server);
    }

    /// A channel is closed.
    pub(super) fn closed(&mut self, id: u64, place: &mut Place) {
        self.search_ended(id);
        self.leave(place);
    }

    fn search_ended(&mut self, id: u64) {
        if let Some(priority) = self.searched.remove(&id) {
            self.by_priority[priority as usize].searched -= 1;
        }
        if self.searched.is_empty() {
            // Frees the memory of a large burst; only its circuits are kept.
            self.searched = HashMap::new();
            self.since = VecDeque::new();
        }
    }

    fn leave(&mut self, place: &mut Place) {
        let Some(server) = place.server.take() else {
            return;
        };
        let circle = &mut self.by_priority[place.priority as usize];
        let Some(count) = circle.of_server.get_mut(&server) else {
            return;
        };
        let before = mem::replace(count, *count - 1);
        if before == 1 {
            circle.of_server.remove(&server);
        }
        if before == circle.fullest {
            circle.fullest = circle.of_server.values().copied().max().unwrap_or(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of channels of each priority.
    fn priorities(places: &[Place]) -> Vec<usize> {
        let mut counts = Vec::new();
        for place in places {
            let priority = place.priority as usize;
            counts.resize(counts.len().max(priority + 1), 0);
            counts[priority] += 1;
        }
        counts
    }

    /// Opens `count` channels, each as soon as it may be searched; the server given by `has`
    /// answers for it when no more may be searched.
    fn open(circuits: &mut Circuits, count: u64, has: impl Fn(u64) -> String) -> Vec<Place> {
        let now = Instant::now();
        let mut places: Vec<Place> = Vec::new();
        let mut answered = 0;
        for id in 0..count {
            while circuits.may_search(now).is_err() {
                circuits.connected(answered, &mut places[answered as usize], &has(answered));
                answered += 1;
            }
            places.push(circuits.search(id, now));
        }
        for id in answered..count {
            circuits.connected(id, &mut places[id as usize], &has(id));
        }
        places
    }

    #[test]
    fn small_server_has_one_circuit_and_a_large_one_several() {
        let few = open(&mut Circuits::default(), 5_000, |_| "ioc:5064".to_owned());
        assert_eq!(priorities(&few), [5_000]);
        let many = open(&mut Circuits::default(), 52_000, |_| "ioc:5064".to_owned());
        let counts = priorities(&many);
        assert!(counts.len() <= 12, "{counts:?}");
        assert!(counts.iter().all(|count| *count <= 5_000), "{counts:?}");
    }

    #[test]
    fn hundred_servers_of_200_channels_have_one_circuit_each() {
        let has = |id: u64| format!("ioc{}:5064", id % 100);
        let places = open(&mut Circuits::default(), 20_000, has);
        assert_eq!(priorities(&places), [20_000]);
    }

    #[test]
    fn names_that_no_server_has_are_awaited_only_for_a_moment() {
        let mut circuits = Circuits::default();
        let start = Instant::now();
        for id in 0..SEARCHED_AT_A_TIME as u64 {
            assert_eq!(circuits.may_search(start), Ok(()));
            circuits.search(id, start);
        }
        let until = start + WAIT_FOR_A_SEARCH;
        assert_eq!(circuits.may_search(start), Err(until));
        assert_eq!(circuits.may_search(until), Ok(()));
        assert_eq!(circuits.by_priority[0].searched, 0);
        assert!(circuits.since.is_empty());
    }

    #[test]
    fn circuit_that_was_left_is_filled_again() {
        let mut circuits = Circuits::default();
        let mut places = open(&mut circuits, 12_000, |_| "ioc:5064".to_owned());
        assert!(priorities(&places).len() > 2);
        for (id, place) in places.iter_mut().enumerate() {
            circuits.closed(id as u64, place);
        }
        assert!(circuits.by_priority.iter().all(|circle| {
            circle.of_server.is_empty() && circle.fullest == 0 && circle.searched == 0
        }));
        assert_eq!(circuits.search(12_000, Instant::now()).priority, 0);
    }

    #[test]
    fn channel_that_comes_back_at_another_server_is_counted_there() {
        let mut circuits = Circuits::default();
        let mut place = circuits.search(7, Instant::now());
        circuits.connected(7, &mut place, "old:5064");
        circuits.connected(7, &mut place, "old:5064");
        circuits.connected(7, &mut place, "new:5064");
        let circle = &circuits.by_priority[0];
        let counts: Vec<_> = circle.of_server.iter().collect();
        assert_eq!(
            (counts, circle.fullest),
            (vec![(&"new:5064".into(), &1)], 1)
        );
    }

    #[test]
    fn more_channels_than_all_priorities_hold_go_to_the_emptiest() {
        let circle = |more| Circle {
            fullest: CHANNELS_OF_A_CIRCUIT + more,
            ..Circle::default()
        };
        let mut circuits = Circuits {
            by_priority: (0..PRIORITIES).rev().map(circle).collect(),
            ..Circuits::default()
        };
        let place = circuits.search(7, Instant::now());
        assert_eq!(place.priority as usize, PRIORITIES - 1);
    }
}
