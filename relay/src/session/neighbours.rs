//! The relays of this relay's fleet, for clients and operators: where clients reach them, and how many each has.
//!
//! The thread of the fleet writes it. Shards read it for each new client. It stays empty without a bus.

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;

/// Maximum number of addresses that a client is told.
const MAX_ADDRESSES: usize = 64;

/// A relay may have this many clients more than its share before it sends new ones elsewhere.
const SLACK: u64 = 4;

/// The share of a relay beyond which it sends new clients elsewhere, in eighths of the mean.
const EIGHTHS: u64 = 9;

/// A relay of the fleet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Neighbour {
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
    /// It is about to stop.
    pub draining: bool,
    /// It is the relay that says this.
    pub this_relay: bool,
}

/// What a new client is told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Invitation {
    /// Where clients reach the relays of the fleet.
    pub relays: Vec<String>,
    /// The other relays have fewer clients: the client should go to one of them.
    pub crowded: bool,
}

/// See the module.
#[derive(Default)]
pub struct Neighbours {
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    all: Vec<Neighbour>,
    addresses: Vec<String>,
    /// Relays that accept clients from this one, this one included; 0 while this one has no address.
    sharing: u64,
    /// Clients of this relay, and of the others that share.
    here: u64,
    elsewhere: u64,
    /// Clients that were just sent elsewhere and that the others have not announced yet.
    sent: u64,
}

impl Neighbours {
    /// Replaces what is known. Called several times a second.
    pub fn update(&self, mut all: Vec<Neighbour>) {
        all.sort_by(|one, other| one.id.cmp(&other.id));
        let this = all.iter().position(|relay| relay.this_relay).unwrap_or(0);
        let accepts = |relay: &&Neighbour| relay.url.is_some() && !relay.draining;
        // Each relay begins with itself, so that the addresses of a large fleet are told equally often.
        let (before, after) = all.split_at(this);
        let sharing: Vec<&Neighbour> = after.iter().chain(before).filter(accepts).collect();
        let mut seen = self.seen();
        let others = sharing.iter().filter(|relay| !relay.this_relay);
        seen.elsewhere = others.map(|relay| relay.clients).sum();
        let has_this = sharing.iter().any(|relay| relay.this_relay);
        seen.sharing = if has_this { sharing.len() as u64 } else { 0 };
        seen.here = all.get(this).map_or(0, |relay| relay.clients);
        seen.sent = seen.sent * 3 / 4;
        let addresses = sharing.iter().filter_map(|relay| relay.url.clone());
        seen.addresses = addresses.take(MAX_ADDRESSES).collect();
        seen.all = all;
    }

    /// The relays of the fleet, this one included, by their ids.
    #[must_use]
    pub fn all(&self) -> Vec<Neighbour> {
        self.seen().all.clone()
    }

    /// What a client is told that has just connected.
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

    fn relay(id: u8, clients: u64) -> Neighbour {
        Neighbour {
            id: format!("{id:016x}"),
            name: format!("host:{id}"),
            role: "edge",
            url: Some(format!("wss://relay{id}/ws")),
            pvs: 0,
            clients,
            draining: false,
            this_relay: id == 2,
        }
    }

    #[test]
    fn clients_are_told_of_live_relays_with_an_address() {
        let neighbours = Neighbours::default();
        assert_eq!(neighbours.invite(), Invitation::default());
        let leaving = Neighbour {
            draining: true,
            ..relay(1, 0)
        };
        let hidden = Neighbour {
            url: None,
            ..relay(4, 0)
        };
        neighbours.update(vec![leaving, relay(3, 0), hidden, relay(2, 0)]);
        let told = neighbours.invite();
        assert_eq!(told.relays, ["wss://relay2/ws", "wss://relay3/ws"]);
        assert_eq!(neighbours.all().len(), 4);
        neighbours.update((1..=200).map(|id| relay(id, 0)).collect());
        let told = neighbours.invite().relays;
        assert_eq!(told.len(), MAX_ADDRESSES);
        assert_eq!(told[0], "wss://relay2/ws");
    }

    #[test]
    fn relay_keeps_its_share_of_the_clients_that_come_at_once() {
        let neighbours = Neighbours::default();
        neighbours.update(vec![relay(1, 0), relay(2, 0), relay(3, 0)]);
        let kept = (0..1000).filter(|_| !neighbours.invite().crowded).count();
        assert!((333..400).contains(&kept), "{kept}");
    }

    #[test]
    fn relay_without_an_address_or_alone_sends_no_client_away() {
        let neighbours = Neighbours::default();
        let alone = Neighbour {
            url: None,
            ..relay(2, 500)
        };
        for all in [vec![relay(2, 500)], vec![alone, relay(1, 0), relay(3, 0)]] {
            neighbours.update(all);
            assert!(!neighbours.invite().crowded);
        }
    }
}
