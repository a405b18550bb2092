//! A fleet of several versions: relays of the released version, of this one, and of a later one that says more.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use bytes::Bytes;
use pvwire_fleet::in_process::{Hub, InProcess};
use pvwire_fleet::ownership::Owners;
use pvwire_fleet::{Answer, Bus, Kind, MemberId, Receiver, Reply, Role};
use pvwire_schema::types::Outcome;
use serde_json::{Map, Value, json};
use testbed::eventually;

use super::moves::Counting;
use super::pinned_messages::{RELEASED, golden};
use super::{Clock, Relay};
use crate::fleet::{NoPage, PastQuestion};

/// Another version than this one.
#[derive(Clone, Copy)]
pub(super) enum Version {
    /// It writes and reads only the fields that `fleet/released/1.json` has.
    Released,
    /// It adds a field to every message, and understands one version more.
    Later,
}

impl Version {
    /// Connects a relay that speaks this version.
    pub(super) fn join(
        self,
        hub: &Arc<Hub>,
        id: MemberId,
        receiver: Arc<dyn Receiver>,
    ) -> Box<dyn Bus> {
        let dialect = Arc::new(Dialect {
            version: self,
            released: golden::messages(RELEASED),
            announced: Mutex::default(),
        });
        let translated = Arc::new(Translated {
            dialect: Arc::clone(&dialect),
            receiver,
        });
        let bus = hub.join(id, translated);
        Box::new(Speaking { dialect, bus })
    }
}

struct Dialect {
    version: Version,
    released: Map<String, Value>,
    /// This relay's announcements by what was sent in their place. They come back.
    announced: Mutex<HashMap<Bytes, Bytes>>,
}

impl Dialect {
    /// A message of this program as the version writes it.
    fn write(&self, name: &str, json: &[u8]) -> Bytes {
        let mut message: Map<String, Value> = serde_json::from_slice(json).unwrap();
        match self.version {
            Version::Released => {
                let known = &self.released[name]["decoded"];
                message.retain(|field, _| known.get(field).is_some());
            }
            Version::Later => {
                message.insert("later".into(), json!({ "a": [1, null] }));
                if name == "presence" {
                    message.insert("newest".into(), json!(3));
                }
            }
        }
        serde_json::to_vec(&message).unwrap().into()
    }

    /// The fields of another member's message that the version reads. A later version reads all that this one does.
    fn read(&self, name: &str, json: &[u8]) -> Bytes {
        match self.version {
            Version::Released => self.write(name, json),
            Version::Later => Bytes::copy_from_slice(json),
        }
    }

    fn request(&self, kind: Kind, body: &[u8], change: fn(&Self, &str, &[u8]) -> Bytes) -> Bytes {
        match kind {
            Kind::Interest => return change(self, "interest", body),
            Kind::History => return Bytes::copy_from_slice(body),
            Kind::Operation => {}
        }
        let (length, rest) = body.split_first_chunk().unwrap();
        let (head, request) = rest.split_at(u32::from_le_bytes(*length) as usize);
        let head = change(self, "operation_put", head);
        let length = (head.len() as u32).to_le_bytes();
        [&length, &head[..], request].concat().into()
    }
}

/// The bus as a relay of another version uses it.
struct Speaking {
    dialect: Arc<Dialect>,
    bus: InProcess,
}

impl Bus for Speaking {
    fn announce(&self, presence: Bytes) {
        let written = self.dialect.write("presence", &presence);
        let mut announced = self.dialect.announced.lock().unwrap();
        announced.insert(written.clone(), presence);
        drop(announced);
        self.bus.announce(written);
    }

    fn ask(&self, to: MemberId, kind: Kind, body: Bytes, timeout: Duration, answer: Answer) {
        let body = self.dialect.request(kind, &body, Dialect::write);
        let dialect = Arc::clone(&self.dialect);
        let answer: Answer = match kind {
            Kind::Interest => Box::new(move |granted| {
                answer(granted.map(|granted| dialect.read("granted", &granted)));
            }),
            Kind::Operation | Kind::History => answer,
        };
        self.bus.ask(to, kind, body, timeout, answer);
    }

    fn publish(&self, shard: u16, message: &[Bytes]) -> bool {
        self.bus.publish(shard, message)
    }

    fn follow(&self, owner: MemberId, shard: u16, on: bool) {
        self.bus.follow(owner, shard, on);
    }

    fn rename(&self, me: MemberId) {
        self.bus.rename(me);
    }
}

/// Passes on what a relay of another version reads.
struct Translated {
    dialect: Arc<Dialect>,
    receiver: Arc<dyn Receiver>,
}

impl Receiver for Translated {
    fn announced(&self, presence: Bytes) {
        let own = self.dialect.announced.lock().unwrap();
        let own = own.get(&presence).cloned();
        let read = own.unwrap_or_else(|| self.dialect.read("presence", &presence));
        self.receiver.announced(read);
    }

    fn requested(&self, from: MemberId, kind: Kind, body: Bytes, reply: Reply) {
        let body = self.dialect.request(kind, &body, Dialect::read);
        let dialect = Arc::clone(&self.dialect);
        let reply = match kind {
            Kind::Interest => {
                Reply::new(move |granted| reply.send(dialect.write("granted", &granted)))
            }
            Kind::Operation | Kind::History => reply,
        };
        self.receiver.requested(from, kind, body, reply);
    }

    fn message(&self, owner: MemberId, shard: u16, message: Bytes) {
        self.receiver.message(owner, shard, message);
    }

    fn connected(&self, up: bool) {
        self.receiver.connected(up);
    }

    fn lost(&self) {
        self.receiver.lost();
    }
}

/// The next id of which a member with `owner` beside it would own these PVs, and not those.
fn next_id(owner: MemberId, owned: &[&str], not_owned: &[&str]) -> u64 {
    let owns = |id: u64, name: &&str| {
        let owners = Owners::new([owner, MemberId(id)], 1);
        owners.owner(name) == Some(MemberId(id))
    };
    let fits = |id: &u64| {
        owned.iter().all(|name| owns(*id, name)) && !not_owned.iter().any(|name| owns(*id, name))
    };
    (owner.0 + 1..).find(fits).unwrap()
}

/// An edge of a version that shows X, from this number on.
fn edge(hub: &Arc<Hub>, ioc: &mut Counting, owner: &Relay, version: Option<Version>) -> Edge {
    let relay = Relay::start_as(hub, owner.id.0 + 1_000_000, Role::Edge, version);
    let pv = relay.open("X");
    eventually("a number", || {
        ioc.send_next(&[owner]);
        relay.watched.lock().unwrap().rows.contains_key(&pv)
    });
    let since = ioc.count;
    Edge { relay, pv, since }
}

struct Edge {
    relay: Relay,
    pv: pvwire_schema::types::PvId,
    since: i64,
}

#[test]
fn fleet_is_upgraded_relay_by_relay_and_no_edge_of_any_version_sees_a_gap() {
    let clock = Clock::start();
    let hub = &clock.hub;
    let released = Some(Version::Released);
    let mut owner = Relay::start_as(hub, 1, Role::Ingest, released);
    let mut ioc = Counting::default();
    let mut edges = vec![edge(hub, &mut ioc, &owner, released)];
    // Opened where it is owned, in the second step.
    edges[0].relay.open("Y");
    for (version, owned, not_owned) in [
        (None, ["ca://X"].as_slice(), [].as_slice()),
        (Some(Version::Later), &["ca://Y"], &["ca://X"]),
    ] {
        // X moves when the new relay joins, or when the old one drains.
        let id = next_id(owner.id, owned, not_owned);
        let next = Relay::start_as(hub, id, Role::Ingest, version);
        eventually("the new relay owns its PVs", || {
            ioc.send_next(&[&owner, &next]);
            next.line(&owned[0]["ca://".len()..]).is_some()
        });
        owner.fleet.drain();
        ioc.until_at(&[&owner, &next], &next);
        eventually("the old relay is handed over", || {
            owner.fleet.is_handed_over()
        });
        hub.kill(owner.id);
        owner = next;
        edges.push(edge(hub, &mut ioc, &owner, version));
        ioc.until_at(&[&owner], &owner);
        for Edge { relay, pv, since } in &edges {
            ioc.is_shown_by(relay, *pv, *since);
            // The owner understands the operation: its rules decide.
            let end = relay.put(*pv, None);
            eventually("an outcome", || end.lock().unwrap().is_some());
            let end = end.lock().unwrap().take().unwrap();
            assert_eq!(end.outcome, Outcome::NotAllowed, "{end:?}");
        }
    }
}

#[test]
fn owner_of_a_version_without_history_is_not_asked_for_the_past() {
    let clock = Clock::start();
    for (id, version) in [
        (1, Some(Version::Released)),
        (2, None),
        (3, Some(Version::Later)),
    ] {
        let owner = Relay::start_as(&clock.hub, id, Role::Ingest, version);
        let mut ioc = Counting::default();
        let edge = edge(&clock.hub, &mut ioc, &owner, None);
        let question = PastQuestion {
            key: "ca://X".into(),
            from_ns: None,
            to_ns: None,
            until: None,
            next: None,
        };
        let (sent, answered) = mpsc::channel();
        let done = move |answer| sent.send(answer).unwrap();
        edge.relay.past.ask(question, Box::new(done));
        let answer = answered.recv_timeout(Duration::from_secs(10)).unwrap();
        match (version, answer) {
            (Some(Version::Released), Err(NoPage::Because(why))) => {
                assert!(why.contains("a version that can't be asked"), "{why}");
            }
            (_, answer) => {
                let page = answer.unwrap();
                assert_eq!((page.of, page.part), (owner.id, None));
            }
        }
        clock.hub.kill(edge.relay.id);
        clock.hub.kill(owner.id);
    }
}
