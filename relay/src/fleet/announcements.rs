//! Announcements of members that wait for the thread of the fleet. One that says nothing new doesn't wake the thread,
//! which takes it with the next thing that it does: at the latest when its own announcement is due.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pvwire_fleet::MemberId;
use pvwire_fleet::member::{Presence, PresenceError};
use pvwire_fleet::members::ANNOUNCE_EVERY;

/// A member that was silent for this time is news.
const SILENT_AFTER: Duration = ANNOUNCE_EVERY.saturating_mul(2);

/// Members that are remembered. Others wake the thread each time.
const MOST_MEMBERS: usize = 1024;

/// Announcements that may wait: more than all members send while the thread is busy.
const MOST_WAITING: usize = 4 * MOST_MEMBERS;

/// More announcements wait than members send.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooMany;

/// An announcement, and when it came.
pub(super) type Announcement = (Instant, Result<Presence, PresenceError>);

/// See the module.
#[derive(Default)]
pub(super) struct Announcements(Mutex<PeerState>);

#[derive(Default)]
struct PeerState {
    waiting: Vec<Announcement>,
    /// The last announcement of each member.
    known: HashMap<MemberId, (Instant, Presence)>,
}

impl Announcements {
    fn lock(&self) -> MutexGuard<'_, PeerState> {
        // Each change is complete before anything can panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An announcement came. Returns whether the thread must handle it now.
    pub(super) fn add(&self, bytes: &[u8], now: Instant) -> Result<bool, TooMany> {
        let announced = Presence::parse(bytes);
        let mut state = self.lock();
        if state.waiting.len() >= MOST_WAITING {
            return Err(TooMany);
        }
        let is_news = match &announced {
            Ok(presence) => state.is_news(presence, now),
            Err(_) => true,
        };
        state.waiting.push((now, announced));
        Ok(is_news)
    }

    /// All that came since the last call, in this order.
    pub(super) fn take(&self) -> Vec<Announcement> {
        std::mem::take(&mut self.lock().waiting)
    }

    /// The connection to the bus is there or lost: the next announcement of each member is news.
    pub(super) fn forget(&self) {
        self.lock().known.clear();
    }
}

impl PeerState {
    /// Remembers an announcement. Returns whether it says more than that its member still lives.
    fn is_news(&mut self, presence: &Presence, now: Instant) -> bool {
        if let Some((heard, known)) = self.known.get_mut(&presence.id) {
            let is_steady = now.saturating_duration_since(*heard) < SILENT_AFTER;
            // What changes all the time.
            known.uptime_millis = presence.uptime_millis;
            (known.load, known.clients) = (presence.load, presence.clients);
            *heard = now;
            if known == presence {
                return !is_steady;
            }
            known.clone_from(presence);
            return true;
        }
        if self.known.len() >= MOST_MEMBERS {
            self.known
                .retain(|_, (heard, _)| now.saturating_duration_since(*heard) < SILENT_AFTER);
        }
        if self.known.len() < MOST_MEMBERS {
            self.known.insert(presence.id, (now, presence.clone()));
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pvwire_fleet::Role;
    use pvwire_fleet::member::VERSION;

    fn presence(id: u64) -> Presence {
        Presence {
            version: VERSION,
            newest: None,
            id: MemberId(id),
            name: "host:8080".into(),
            role: Role::Ingest,
            url: None,
            term: 1,
            ready: false,
            draining: false,
            load: 0,
            clients: 0,
            uptime_millis: 0,
            deaths: [].into(),
            program: String::new(),
        }
    }

    #[test]
    fn only_news_wakes_the_thread_and_nothing_is_left_out() {
        let announcements = Announcements::default();
        let begun = Instant::now();
        let add = |millis, presence: &Presence| {
            let now = begun + Duration::from_millis(millis);
            announcements.add(&presence.to_bytes(), now).unwrap()
        };
        let (mut this, other) = (presence(1), presence(2));
        assert!(add(0, &this) && add(0, &other), "new members");
        (this.uptime_millis, this.load, this.clients) = (500, 7, 3);
        assert!(!add(500, &this), "it still lives");
        this.ready = true;
        assert!(add(600, &this), "it is ready");
        this.term = 2;
        assert!(add(700, &this), "it has other owners");
        assert!(!add(800, &this), "it still lives");
        assert!(add(1800, &this), "it was silent");
        assert!(!add(1900, &this), "it still lives");
        announcements.forget();
        assert!(add(2000, &this), "the bus was lost");
        assert_eq!(
            announcements.add(b"nonsense", begun),
            Ok(true),
            "it can't be read"
        );
        let waiting = announcements.take();
        assert_eq!(waiting.len(), 10);
        let heard = waiting[2].1.as_ref().unwrap();
        assert_eq!(
            (heard.uptime_millis, heard.load, heard.clients),
            (500, 7, 3)
        );
        assert!(announcements.take().is_empty());
    }

    #[test]
    fn members_beyond_those_remembered_are_news_each_time() {
        let announcements = Announcements::default();
        let now = Instant::now();
        for round in 0..2 {
            for id in 0..MOST_MEMBERS as u64 + 1 {
                let is_news = announcements.add(&presence(id).to_bytes(), now).unwrap();
                assert_eq!(is_news, round == 0 || id == MOST_MEMBERS as u64, "{id}");
            }
        }
    }

    #[test]
    fn flood_of_announcements_keeps_its_memory_bounded() {
        let announcements = Announcements::default();
        let (now, bytes) = (Instant::now(), presence(1).to_bytes());
        let taken = (0..2 * MOST_WAITING).filter(|_| announcements.add(&bytes, now).is_ok());
        assert_eq!(taken.count(), MOST_WAITING);
        assert_eq!(announcements.take().len(), MOST_WAITING);
        assert!(announcements.add(&bytes, now).is_ok());
    }
}
