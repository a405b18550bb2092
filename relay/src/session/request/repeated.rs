//! Large requests to subscribe, kept for a moment: the clients of one screen send the same, often at the same time, and
//! only the first one's names are read and looked up.

use std::collections::VecDeque;

use crate::access::rule::Identity;
use crate::fanout::encoding::Encoding;
use crate::state::registry::AcquiredPvs;

/// Shorter requests are read again: they have few names.
const MIN_BYTES: usize = 1 << 10;

/// Maximum number of requests that a shard keeps; the one that was used least recently is dropped for a new one. Each
/// has at most [`pvwire_schema::limits::MAX_REQUEST_BYTES`].
const MAX_KEPT: usize = 4;

/// Bytes of a request's number.
const NUMBER_BYTES: usize = 4;

/// A request, and the PVs that it has acquired.
struct KeptRequest {
    encoding: Encoding,
    message: Box<[u8]>,
    /// Where its number is in the message.
    number_at: usize,
    acquired: AcquiredPvs,
    /// It was used since the last sweep.
    is_used: bool,
}

impl KeptRequest {
    /// Whether a message differs from it in its number alone.
    fn equals(&self, encoding: Encoding, message: &[u8]) -> bool {
        let behind = self.number_at + NUMBER_BYTES;
        self.encoding == encoding
            && self.message.len() == message.len()
            && self.message[..self.number_at] == message[..self.number_at]
            && self.message[behind..] == message[behind..]
    }
}

/// The requests that a shard keeps, the last used first.
#[derive(Default)]
pub(super) struct RepeatedRequests(VecDeque<KeptRequest>);

impl RepeatedRequests {
    /// Whether a request of this length may be kept.
    pub(super) fn keeps(message: &[u8]) -> bool {
        message.len() >= MIN_BYTES
    }

    /// The number of a request that is kept for clients with this identity, and its PVs.
    pub(super) fn find(
        &mut self,
        encoding: Encoding,
        message: &[u8],
        identity: &Identity,
    ) -> Option<(u32, &AcquiredPvs)> {
        if !Self::keeps(message) {
            return None;
        }
        let mut kept = self.0.iter();
        let index =
            kept.position(|kept| kept.acquired.is_for(identity) && kept.equals(encoding, message))?;
        let mut found = self.0.remove(index)?;
        found.is_used = true;
        let number = *message[found.number_at..].first_chunk()?;
        self.0.push_front(found);
        Some((u32::from_le_bytes(number), &self.0[0].acquired))
    }

    /// Keeps a request, whose number is at this place in its message.
    pub(super) fn keep(
        &mut self,
        encoding: Encoding,
        (message, number_at): (&[u8], usize),
        acquired: AcquiredPvs,
    ) {
        self.0.truncate(MAX_KEPT - 1);
        self.0.push_front(KeptRequest {
            encoding,
            message: message.into(),
            number_at,
            acquired,
            is_used: true,
        });
    }

    /// Drops the request that was found last: its PVs are no longer the same.
    pub(super) fn drop_found(&mut self) {
        self.0.pop_front();
    }

    /// Drops the requests that were not used since the last sweep.
    pub(super) fn sweep(&mut self) {
        self.0.retain_mut(|kept| std::mem::take(&mut kept.is_used));
        if self.0.is_empty() {
            self.0 = VecDeque::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::{Duration, Instant};

    use pvwire_schema::encode;
    use pvwire_schema::types::{Filter, PvId, Request, RequestBody};

    use crate::access::auth::Peer;
    use crate::access::caller::Caller;
    use crate::access::rule::{Identity, Rules};
    use crate::config::RuleText;
    use crate::fanout::control::{ClientId, ControlRequest};
    use crate::fanout::encoding::{
        BadRequest, Encoding, Encodings, Format, MessageEncoder, MessageKind,
    };
    use crate::fanout::flat;
    use crate::ingest::{Intake, Line, Monitor, OpenError, Queue, Source};
    use crate::limits::connections::SharedBudgets;
    use crate::limits::memory::Owner;
    use crate::limits::requests::{RequestBudget, RequestLimits};
    use crate::limits::subscriptions::NewNameLimits;
    use crate::session::request::{Outcome, RequestRouter};
    use crate::state::registry::Registry;

    const PVS: usize = 200;

    struct Quiet;
    struct QuietMonitor(#[expect(dead_code, reason = "dropping it closes the PV")] Line);
    impl Monitor for QuietMonitor {}
    impl Source for Quiet {
        fn scheme(&self) -> &'static str {
            "ca"
        }
        fn open(&self, _: &str, line: Line, _: Queue) -> Result<Box<dyn Monitor>, OpenError> {
            Ok(Box::new(QuietMonitor(line)))
        }
    }

    /// pvwire's own messages; counts those that are read.
    struct Counted(Encodings, AtomicUsize);
    impl Counted {
        fn own(&self) -> &dyn Format {
            self.0.format(Encoding::default())
        }
    }
    impl Format for Counted {
        fn path(&self) -> &'static str {
            self.own().path()
        }
        fn subprotocol(&self) -> Option<&'static str> {
            self.own().subprotocol()
        }
        fn requests(&self) -> MessageKind {
            self.own().requests()
        }
        fn request(&self, message: &[u8]) -> Result<Request, BadRequest> {
            self.1.fetch_add(1, Ordering::Relaxed);
            self.own().request(message)
        }
        fn request_number_at(&self, message: &[u8]) -> Option<usize> {
            self.own().request_number_at(message)
        }
        fn encoder(&self) -> Box<dyn MessageEncoder> {
            self.own().encoder()
        }
    }

    /// Clients of one shard, each of which makes one request.
    struct Shard {
        registry: Arc<Registry>,
        router: RequestRouter,
        format: Counted,
        clients: usize,
    }

    impl Shard {
        fn new() -> Self {
            let linger = Duration::ZERO;
            let sources: Vec<Box<dyn Source>> = vec![Box::new(Quiet)];
            let rules = Rules::default();
            let registry = Arc::new(Registry::new(Intake::new(), sources, "ca", linger, rules));
            let new_names = NewNameLimits {
                per_s: 10 * PVS,
                at_once: 10 * PVS,
            };
            let timeout = Duration::from_secs(1);
            let router = RequestRouter::new(Arc::clone(&registry), timeout, timeout, new_names);
            Self {
                registry,
                router,
                format: Counted(flat::encodings(), AtomicUsize::new(0)),
                clients: 0,
            }
        }

        /// A new client's request with this number: the number of its answer, its PVs, and how many names were refused.
        fn subscribe(&mut self, number: u32, user: &str, named: usize) -> (u32, Vec<PvId>, usize) {
            let names = (0..PVS).map(|n| format!("SR:{}", n + named)).collect();
            let filter = Filter::default();
            let message = encode::request(&Request {
                id: number,
                body: RequestBody::Subscribe { names, filter },
            });
            let identity = Identity {
                user: Some(user.to_owned()),
                groups: Vec::new(),
            };
            let peer = Peer {
                identity,
                ..Peer::default()
            };
            let caller = Caller::new(peer, Owner::unlimited(), SharedBudgets::default());
            let limits = RequestLimits {
                requests_per_s: 1,
                puts_per_s: 1,
                names_at_once: PVS,
            };
            let mut budget = RequestBudget::new(limits, Instant::now());
            self.clients += 1;
            let client = ClientId {
                shard: 0,
                index: self.clients,
                generation: 1,
                encoding: Encoding::default(),
            };
            let message = (&self.format as &dyn Format, &*message);
            let taken = (self.router).take_message(client, Some(&caller), &mut budget, message);
            assert!(!budget.may_name(Instant::now()), "its names count");
            match taken.unwrap() {
                Outcome::Control(ControlRequest::Subscribe {
                    request,
                    ids,
                    errors,
                    ..
                }) => (request, ids, errors.len()),
                _ => panic!("not a subscription"),
            }
        }

        fn read(&self) -> usize {
            self.format.1.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn names_of_equal_requests_are_read_once() {
        let mut shard = Shard::new();
        let first = shard.subscribe(7, "jane", 0);
        assert_eq!((first.0, first.1.len(), first.2), (7, PVS, 0));
        for number in 8..20 {
            assert_eq!(
                shard.subscribe(number, "jane", 0),
                (number, first.1.clone(), 0)
            );
        }
        assert_eq!(shard.read(), 1);
        // Each of them holds the PVs.
        for _ in 0..13 {
            assert_eq!(shard.registry.monitors(), PVS);
            shard.registry.release(first.1.clone(), Instant::now());
            shard.registry.sweep(Instant::now());
        }
        assert_eq!(shard.registry.monitors(), 0);
        // PVs that were closed are opened again.
        let again = shard.subscribe(20, "jane", 0);
        assert_eq!((again.0, again.1.len(), again.2), (20, PVS, 0));
        assert_eq!((shard.registry.monitors(), shard.read()), (PVS, 2));
    }

    #[test]
    fn other_requests_users_and_rules_are_looked_up() {
        let mut shard = Shard::new();
        let first = shard.subscribe(1, "jane", 0);
        let other = shard.subscribe(1, "jane", 1);
        assert_eq!(other.1[..PVS - 1], first.1[1..]);
        shard.subscribe(1, "john", 0);
        assert_eq!(shard.read(), 3);
        shard.subscribe(2, "john", 0);
        assert_eq!(shard.read(), 3);
        let deny = RuleText {
            origin: "test".into(),
            users: vec!["john".into()],
            pvs: vec!["SR:5".into()],
            deny: vec![crate::config::Access::Read],
            ..RuleText::default()
        };
        shard
            .registry
            .set_rules(Rules::new(false, &[deny]).unwrap());
        let denied = shard.subscribe(3, "john", 0);
        assert_eq!((denied.1[5], denied.2, shard.read()), (PvId::NONE, 1, 4));
        // A request that no client has repeated is forgotten.
        assert_eq!(shard.subscribe(4, "jane", 0).2, 0);
        assert_eq!(shard.read(), 5);
        shard.router.sweep();
        shard.router.sweep();
        shard.subscribe(5, "jane", 0);
        assert_eq!(shard.read(), 6);
    }
}
