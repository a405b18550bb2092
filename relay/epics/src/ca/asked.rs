//! Requests that libca has sent to one circuit's server.
//!
//! They are read from the bytes that libca sends, because no call of libca returns their numbers.
//! The server refers to them in its answers.

use std::collections::{HashMap, HashSet, VecDeque};

use super::messages::Header;
use super::messages::command::{CREATE_CHAN, EVENT_ADD, READ_NOTIFY, SEARCH, WRITE_NOTIFY};

/// How many numbers of ended requests are kept after the server has confirmed the end: a server may
/// have sent another update before it processed the request.
const KEPT: usize = 10_000;

/// The requests by number: subscriptions and channels of the circuit, and requests without an
/// answer.
#[derive(Debug, Default)]
pub(super) struct Asked {
    subscriptions: Numbers,
    channels: Numbers,
    creations: HashSet<u32>,
    reads: HashSet<u32>,
    writes: HashSet<u32>,
    has_searched: bool,
}

impl Asked {
    /// Records a message that libca is about to send, possibly for the second time.
    pub(super) fn note(&mut self, header: &Header) {
        match header.command {
            EVENT_ADD => self.subscriptions.insert(header.two),
            CREATE_CHAN => {
                self.channels.insert(header.one);
                self.creations.insert(header.one);
            }
            // A subscription that is read remains a subscription.
            READ_NOTIFY if !self.is_subscription(header.two) => {
                self.reads.insert(header.two);
            }
            WRITE_NOTIFY => {
                self.writes.insert(header.two);
            }
            SEARCH => self.has_searched = true,
            _ => {}
        }
    }

    /// Whether it is the number of a subscription.
    #[inline]
    pub(super) fn is_subscription(&mut self, id: u32) -> bool {
        self.subscriptions.contains(id)
    }

    /// Whether it is the number of a channel.
    pub(super) fn is_channel(&mut self, id: u32) -> bool {
        self.channels.contains(id)
    }

    /// A channel was created: returns whether libca requested it and has had no answer yet.
    pub(super) fn created(&mut self, id: u32) -> bool {
        self.creations.remove(&id)
    }

    /// Like `created`, for a read.
    pub(super) fn read(&mut self, id: u32) -> bool {
        self.reads.remove(&id)
    }

    /// Like `created`, for a write.
    pub(super) fn written(&mut self, id: u32) -> bool {
        self.writes.remove(&id)
    }

    /// The server confirms that a subscription has ended.
    pub(super) fn cancelled(&mut self, id: u32) {
        self.subscriptions.forget(id);
    }

    /// The server confirms that a channel was closed.
    pub(super) fn cleared(&mut self, id: u32) {
        self.channels.forget(id);
    }

    /// Whether libca has sent searches to the server.
    pub(super) fn has_searched(&self) -> bool {
        self.has_searched
    }
}

/// Bits per page; consecutive numbers are often looked up one after another.
const PAGE: u32 = 512;

/// A set of numbers that libca assigns consecutively: one bit each.
#[derive(Debug, Default)]
struct Numbers {
    /// Index of each page in `bits`.
    pages: HashMap<u32, usize>,
    bits: Vec<[u64; PAGE as usize / 64]>,
    /// Unused indexes of `bits`.
    free: Vec<usize>,
    /// The page that was looked up last, with its index.
    last: Option<(u32, usize)>,
    ended: VecDeque<u32>,
}

impl Numbers {
    #[inline]
    fn contains(&mut self, number: u32) -> bool {
        let page = number / PAGE;
        let place = match self.last {
            Some((last, place)) if last == page => place,
            _ => match self.pages.get(&page) {
                Some(&place) => {
                    self.last = Some((page, place));
                    place
                }
                None => return false,
            },
        };
        let bit = number % PAGE;
        self.bits[place][bit as usize / 64] >> (bit % 64) & 1 != 0
    }

    fn insert(&mut self, number: u32) {
        let place = *self.pages.entry(number / PAGE).or_insert_with(|| {
            self.free.pop().unwrap_or_else(|| {
                self.bits.push(Default::default());
                self.bits.len() - 1
            })
        });
        let bit = number % PAGE;
        self.bits[place][bit as usize / 64] |= 1 << (bit % 64);
    }

    /// Removes a number, but not before `KEPT` others were removed after it.
    fn forget(&mut self, number: u32) {
        if !self.contains(number) {
            return;
        }
        self.ended.push_back(number);
        if self.ended.len() <= KEPT {
            return;
        }
        let Some(oldest) = self.ended.pop_front() else {
            return;
        };
        let page = oldest / PAGE;
        let Some(&place) = self.pages.get(&page) else {
            return;
        };
        let bit = oldest % PAGE;
        self.bits[place][bit as usize / 64] &= !(1 << (bit % 64));
        if self.bits[place] == <[u64; PAGE as usize / 64]>::default() {
            self.pages.remove(&page);
            self.free.push(place);
            self.last = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_known_until_many_others_have_ended_after_them() {
        let mut numbers = Numbers::default();
        let many = 3 * KEPT as u32;
        for number in (0..many).chain([u32::MAX]) {
            assert!(!numbers.contains(number));
            numbers.insert(number);
            assert!(numbers.contains(number));
        }
        for number in 0..many {
            numbers.forget(number);
        }
        let known = (0..many).filter(|number| numbers.contains(*number));
        assert!(known.eq(many - KEPT as u32..many));
        assert!(numbers.contains(u32::MAX));
        // Their memory serves others.
        let before = numbers.bits.len();
        for number in many..many + KEPT as u32 {
            numbers.insert(number);
        }
        assert_eq!(numbers.bits.len(), before);
    }
}
