//! The relays of this relay's fleet, for clients and operators: where clients reach them, and how many each has.
//!
//! The thread of the fleet writes it. Shards read it for each new client. It stays empty without a bus.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;

/// Maximum number of addresses in the list for a client.
const MAX_ADDRESSES: usize = 64;

/// A relay may have this many clients more than its share before it sends new ones elsewhere.
const SLACK: u64 = 4;

/// The share of a relay beyond which it sends new clients elsewhere, in eighths of the mean.
const EIGHTHS: u64 = 9;

/// Connected clients get another list after it has not changed for this long: a relay that restarts, or all
/// relays after a fault of the bus, cause one message.
const SETTLED: Duration = Duration::from_secs(2);

/// A relay of the fleet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Peer {
    /// The number of its process, as text.
    pub id: String,
    /// Its host and port.
    pub name: String,
    /// What it does in the fleet.
    pub role: &'static str,
    /// Where clients reach it, if they should.
    pub url: Option<String>,
    /// PVs that it owns.
    pub pvs: u64,
    /// Its clients.
    pub clients: u64,
    /// How long it has run, in seconds, as far as this relay knows.
    pub uptime_seconds: u64,
    /// The version of its program, if it says it.
    pub version: Option<String>,
    /// It is about to stop.
    pub draining: bool,
    /// It is the relay that says this.
    pub this_relay: bool,
}

/// The list for a new client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Invitation {
    /// Where clients reach the relays of the fleet.
    pub relays: Vec<String>,
    /// The other relays have fewer clients: the client should go to one of them.
    pub crowded: bool,
}

/// See the module.
#[derive(Default)]
pub struct Peers {
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    all: Vec<Peer>,
    addresses: Vec<String>,
    /// Since when `addresses` are the same and this relay reaches the bus.
    settled: Option<Instant>,
    /// Relays that accept clients from this one, this one included; 0 while this one has no address.
    sharing: u64,
    /// Clients of this relay, and of the others that share.
    here: u64,
    elsewhere: u64,
    /// Clients that were just sent elsewhere and that the others have not announced yet.
    sent: u64,
}

impl Peers {
    /// Replaces what is known. Called several times a second. While this relay doesn't hear the bus it can't know which
    /// relays live.
    pub fn update(&self, mut all: Vec<Peer>, hears_bus: bool, now: Instant) {
        all.sort_by(|one, other| one.id.cmp(&other.id));
        let this = all.iter().position(|relay| relay.this_relay).unwrap_or(0);
        let accepts = |relay: &&Peer| relay.url.is_some() && !relay.draining;
        // Each relay begins with itself, so that the addresses of a large fleet are listed equally often.
        let (before, after) = all.split_at(this);
        let sharing: Vec<&Peer> = after.iter().chain(before).filter(accepts).collect();
        let mut seen = self.seen();
        let others = sharing.iter().filter(|relay| !relay.this_relay);
        seen.elsewhere = others.map(|relay| relay.clients).sum();
        let has_this = sharing.iter().any(|relay| relay.this_relay);
        seen.sharing = if has_this { sharing.len() as u64 } else { 0 };
        seen.here = all.get(this).map_or(0, |relay| relay.clients);
        seen.sent = seen.sent * 3 / 4;
        let addresses = sharing.iter().filter_map(|relay| relay.url.clone());
        let addresses: Vec<String> = addresses.take(MAX_ADDRESSES).collect();
        if !hears_bus {
            seen.settled = None;
        } else if seen.settled.is_none() || addresses != seen.addresses {
            seen.settled = Some(now);
        }
        seen.addresses = addresses;
        seen.all = all;
    }

    /// Addresses of the relays, if the list is stable and differs from the one that connected clients have.
    #[must_use]
    pub fn news(&self, told: &[String], now: Instant) -> Option<Vec<String>> {
        let seen = self.seen();
        let settled = seen.settled?;
        let is_settled = now.saturating_duration_since(settled) >= SETTLED;
        let is_new = !seen.addresses.is_empty() && seen.addresses != told;
        (is_settled && is_new).then(|| seen.addresses.clone())
    }

    /// The relays of the fleet, this one included, by their ids.
    #[must_use]
    pub fn all(&self) -> Vec<Peer> {
        self.seen().all.clone()
    }

    /// The list for a client that has just connected.
    #[must_use]
    pub fn invite(&self) -> Invitation {
        let mut seen = self.seen();
        seen.here += 1;
        let all = seen.here + seen.elsewhere + seen.sent;
        let share = all * EIGHTHS / (8 * seen.sharing.max(1)) + SLACK;
        let crowded = seen.sharing > 1 && seen.here > share;
        if crowded {
            seen.here -= 1;
            seen.sent += 1;
        }
        Invitation {
            relays: seen.addresses.clone(),
            crowded,
        }
    }

    /// Whether there is nothing to tell clients.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.seen().addresses.is_empty()
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relay(id: u8, clients: u64) -> Peer {
        Peer {
            id: format!("{id:016x}"),
            name: format!("host:{id}"),
            role: "edge",
            url: Some(format!("wss://relay{id}/ws")),
            pvs: 0,
            clients,
            uptime_seconds: 0,
            version: None,
            draining: false,
            this_relay: id == 2,
        }
    }

    #[test]
    fn clients_are_told_of_live_relays_with_an_address() {
        let peers = Peers::default();
        assert_eq!(peers.invite(), Invitation::default());
        let leaving = Peer {
            draining: true,
            ..relay(1, 0)
        };
        let hidden = Peer {
            url: None,
            ..relay(4, 0)
        };
        let now = Instant::now();
        peers.update(vec![leaving, relay(3, 0), hidden, relay(2, 0)], true, now);
        let told = peers.invite();
        assert_eq!(told.relays, ["wss://relay2/ws", "wss://relay3/ws"]);
        assert_eq!(peers.all().len(), 4);
        peers.update((1..=200).map(|id| relay(id, 0)).collect(), true, now);
        let told = peers.invite().relays;
        assert_eq!(told.len(), MAX_ADDRESSES);
        assert_eq!(told[0], "wss://relay2/ws");
    }

    #[test]
    fn relay_keeps_its_share_of_the_clients_that_come_at_once() {
        let peers = Peers::default();
        let all = vec![relay(1, 0), relay(2, 0), relay(3, 0)];
        peers.update(all, true, Instant::now());
        let kept = (0..1000).filter(|_| !peers.invite().crowded).count();
        assert!((333..400).contains(&kept), "{kept}");
    }

    #[test]
    fn list_is_told_again_once_it_has_changed_and_settled() {
        let peers = Peers::default();
        let begin = Instant::now();
        let news = |told: &[String], at| peers.news(told, begin + Duration::from_millis(at));
        let update = |others: &[u8], hears_bus, at| {
            let ids = others.iter().copied().chain([2]);
            let all = ids.map(|id| relay(id, 0)).collect();
            peers.update(all, hears_bus, begin + Duration::from_millis(at));
        };
        assert_eq!(news(&[], 5_000), None, "without a fleet");
        update(&[1], true, 0);
        assert_eq!(news(&[], 1_999), None, "it may change again");
        let both = news(&[], 2_000).unwrap();
        assert_eq!(both, ["wss://relay2/ws", "wss://relay1/ws"]);
        assert_eq!(news(&both, 60_000), None, "they know it");
        update(&[1, 3], true, 60_000);
        update(&[1, 3], true, 61_000);
        assert_eq!(news(&both, 62_000).map(|relays| relays.len()), Some(3));
        // The bus hangs: the others seem to be lost, and are back before the list is stable.
        update(&[], true, 70_000);
        update(&[], false, 71_000);
        assert_eq!(news(&both, 90_000), None, "the others may live");
        update(&[], true, 90_000);
        update(&[1], true, 90_500);
        assert_eq!(news(&both, 99_000), None, "it is the list that they know");
    }

    #[test]
    fn relay_without_an_address_or_alone_sends_no_client_away() {
        let peers = Peers::default();
        let alone = Peer {
            url: None,
            ..relay(2, 500)
        };
        for all in [vec![relay(2, 500)], vec![alone, relay(1, 0), relay(3, 0)]] {
            peers.update(all, true, Instant::now());
            assert!(!peers.invite().crowded);
        }
    }
}
