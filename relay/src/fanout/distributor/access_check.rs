//! Checks on a separate thread which clients may no longer read their PVs after the rules changed.
//!
//! Users times PVs are millions of checks, so no tick waits for them. Users to whom the same rules apply are
//! checked once.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use crate::access::rule::Identity;
use crate::fanout::control::{ClientId, ControlQueue, ControlRequest};
use crate::fanout::set::PvSet;
use crate::ops::shutdown::Indispensable;
use crate::state::registry::Registry;

/// Name of the thread.
const THREAD: &str = "access-check";

/// A client to check, and its identity.
type Question = (ClientId, Arc<Identity>);

/// The handle to the thread, which ends when this is dropped.
pub(super) struct AccessCheck {
    questions: Sender<Question>,
}

impl AccessCheck {
    /// Starts the thread. Its results go to `control`.
    ///
    /// # Errors
    /// When the system can't start a thread.
    pub(super) fn start(registry: Arc<Registry>, control: Arc<ControlQueue>) -> io::Result<Self> {
        let (questions, asked) = channel();
        thread::Builder::new()
            .name(THREAD.into())
            .spawn(move || run(&registry, &control, &asked))?;
        Ok(Self { questions })
    }

    /// Checks a client. A `Denied` request follows when it holds PVs that it may not read.
    pub(super) fn ask(&self, client: ClientId, identity: Arc<Identity>) {
        let asked = self.questions.send((client, identity));
        asked.expect("the thread lives as long as this handle, or the process ends with it");
    }
}

fn run(registry: &Registry, control: &ControlQueue, asked: &Receiver<Question>) {
    let _alive = Indispensable(THREAD);
    while let Ok(first) = asked.recv() {
        // All of these were requested after the present rules took effect.
        let batch: Vec<_> = std::iter::once(first).chain(asked.try_iter()).collect();
        let (rules, pvs) = registry.to_judge();
        let mut known: HashMap<_, Arc<PvSet>> = HashMap::new();
        for (client, identity) in batch {
            let check = || Arc::new(PvSet::new(Registry::unreadable(&rules, &pvs, &identity)));
            let denied = (known.entry(rules.standing(&identity))).or_insert_with(check);
            if !denied.is_empty() {
                let denied = Arc::clone(denied);
                control.push(ControlRequest::Denied { client, denied });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::rule::Rules;
    use crate::config::{Access, RuleText};
    use crate::fanout::distributor::Distributor;
    use crate::fanout::encoding::Encoding;
    use crate::fanout::flat;
    use crate::fanout::output::{FrameSink, Order, TickFrames};
    use crate::ingest::{Intake, Line, Monitor, OpenError, Queue, Source};
    use crate::limits::memory::Owner;
    use crate::limits::subscriptions::{NewNames, SubscriptionLimits};
    use crate::state::table::{Changes, Now, Table};
    use crate::state::tick::TickSink;
    use std::sync::Mutex;
    use std::time::{Duration, Instant};

    const USERS: usize = 100;
    const PVS: usize = 20_000;

    struct Quiet;
    struct QuietMonitor(#[expect(dead_code, reason = "it lives as long")] Line);
    impl Monitor for QuietMonitor {}
    impl Source for Quiet {
        fn scheme(&self) -> &'static str {
            "ca"
        }
        fn open(
            &self,
            _name: &str,
            line: Line,
            _queue: Queue,
        ) -> Result<Box<dyn Monitor>, OpenError> {
            Ok(Box::new(QuietMonitor(line)))
        }
    }

    /// Keeps the indices of refused clients.
    #[derive(Clone, Default)]
    struct Refused(Arc<Mutex<Vec<usize>>>);
    impl FrameSink for Refused {
        fn deliver(&self, frames: &Arc<TickFrames>, orders: Vec<Order>) {
            self.follow(frames.tick, orders);
        }
        fn follow(&self, _tick: u64, orders: Vec<Order>) {
            let refused = orders.iter().filter_map(|order| match order {
                Order::Refuse { client } => Some(client.index),
                _ => None,
            });
            self.0.lock().unwrap().extend(refused);
        }
        fn is_ready(&self) -> bool {
            true
        }
        fn round(&self) -> Duration {
            Duration::ZERO
        }
    }

    /// CPU time of this thread, which other programs don't change.
    fn own_time() -> Duration {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
        Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
    }

    #[test]
    fn change_of_rules_for_100_users_with_20000_pvs_delays_no_tick() {
        let intake = Intake::new();
        let registry = Registry::new(
            Arc::clone(&intake),
            vec![Box::new(Quiet)],
            "ca",
            Duration::from_secs(10),
            Rules::default(),
        );
        let registry = Arc::new(registry);
        let control = ControlQueue::new(Arc::clone(&intake));
        let refused = Refused::default();
        let limits = SubscriptionLimits {
            subscriptions: PVS,
            unresolved: PVS,
            load: 1,
        };
        let shards: Vec<Box<dyn FrameSink>> = vec![Box::new(refused.clone())];
        let mut distributor = Distributor::new(
            Arc::clone(&control),
            Arc::clone(&registry),
            shards,
            limits,
            &flat::encodings(),
        )
        .unwrap();
        let names: Vec<_> = (0..PVS).map(|n| format!("SR:{n}")).collect();
        let identity = |n: usize| Identity {
            user: Some(format!("user{n}")),
            groups: vec![format!("group{}", n % 3)],
        };
        let mut table = Table::new(Duration::from_secs(5));
        let mut tick = 0;
        let mut one_tick = |distributor: &mut Distributor| {
            tick += 1;
            let now = Now {
                instant: Instant::now(),
                wall_ns: 0,
            };
            distributor.collect();
            let mut changes = Changes {
                tick,
                ..Changes::default()
            };
            intake.drain(|taken| table.apply(&mut changes, now, taken));
            let begun = own_time();
            distributor.tick(&table, &Arc::new(changes), now);
            own_time() - begun
        };
        let client = |index| ClientId {
            shard: 0,
            index,
            generation: 1,
            encoding: Encoding::default(),
        };
        let mut room = NewNames {
            fresh: PVS,
            new: PVS,
        };
        let ids = registry.acquire(&names, &identity(0), &Owner::unlimited(), &mut room);
        let ids: Vec<_> = ids.into_iter().map(Result::unwrap).collect();
        for n in 0..USERS {
            // Four clients hold the last PV, which will be denied to two groups. No client leaves, so acquiring
            // each PV once is enough.
            let wanted = if n < 4 { PVS } else { PVS - 1 };
            control.push(ControlRequest::Subscribe {
                client: client(n),
                request: 1,
                ids: ids[..wanted].to_vec(),
                errors: Vec::new(),
                owner: Owner::unlimited(),
            });
        }
        one_tick(&mut distributor);
        while distributor.has_work() {
            one_tick(&mut distributor);
        }
        let deny = |group: &str| RuleText {
            origin: "test".into(),
            groups: vec![group.to_owned()],
            pvs: vec![names[PVS - 1].clone()],
            deny: vec![Access::Read],
            ..RuleText::default()
        };
        let rules = Rules::new(false, &[deny("group0"), deny("group1")]).unwrap();
        registry.set_rules(rules);
        for n in 0..USERS {
            control.push(ControlRequest::CheckAccess {
                client: client(n),
                identity: Arc::new(identity(n)),
            });
        }
        let deadline = Instant::now() + Duration::from_secs(60);
        let mut longest = Duration::ZERO;
        // One of the four clients that hold it is in neither group.
        while refused.0.lock().unwrap().len() < 3 {
            assert!(Instant::now() < deadline, "no client is refused");
            longest = longest.max(one_tick(&mut distributor));
            thread::yield_now();
        }
        assert!(longest < Duration::from_millis(100), "{longest:?}");
        let mut indices = refused.0.lock().unwrap().clone();
        indices.sort_unstable();
        assert_eq!(indices, [0, 1, 3]);
    }
}
