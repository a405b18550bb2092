//! Finds out which clients may no longer read what they have, after the rules changed.
//!
//! Users times PVs are millions of judgements, so a separate thread makes them: no tick waits for it.
//! Users to whom the same rules apply are judged once.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use crate::access::rule::Identity;
use crate::fanout::control::{ClientId, ControlQueue, Demand};
use crate::fanout::set::PvSet;
use crate::ops::shutdown::Indispensable;
use crate::state::registry::Registry;

/// A client, and who it is.
type Question = (ClientId, Arc<Identity>);

/// The thread; it ends with this.
pub(super) struct Judge {
    questions: Sender<Question>,
}

impl Judge {
    /// Starts the thread, whose answers go to the control.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub(super) fn start(registry: Arc<Registry>, control: Arc<ControlQueue>) -> io::Result<Self> {
        let (questions, asked) = channel();
        thread::Builder::new()
            .name("judge".into())
            .spawn(move || run(&registry, &control, &asked))?;
        Ok(Self { questions })
    }

    /// Has the control told what the client may not read, if there is anything.
    pub(super) fn ask(&self, client: ClientId, identity: Arc<Identity>) {
        let asked = self.questions.send((client, identity));
        asked.expect("the thread is there as long as this is, or the process ends with it");
    }
}

fn run(registry: &Registry, control: &ControlQueue, asked: &Receiver<Question>) {
    let _alive = Indispensable("judge");
    while let Ok(first) = asked.recv() {
        // All of these were asked after the rules changed that hold now.
        let batch: Vec<_> = std::iter::once(first).chain(asked.try_iter()).collect();
        let (rules, pvs) = registry.to_judge();
        let mut known: HashMap<_, Arc<PvSet>> = HashMap::new();
        for (client, identity) in batch {
            let judge = || Arc::new(PvSet::new(Registry::unreadable(&rules, &pvs, &identity)));
            let denied = (known.entry(rules.standing(&identity))).or_insert_with(judge);
            if !denied.is_empty() {
                let denied = Arc::clone(denied);
                control.leave(Demand::Judged { client, denied });
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
    use crate::fanout::output::{FrameSink, Order, TickFrames};
    use crate::ingest::{Intake, Line, Monitor, Queue, Source};
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
        fn open(&self, _name: &str, line: Line, _queue: Queue) -> Result<Box<dyn Monitor>, String> {
            Ok(Box::new(QuietMonitor(line)))
        }
    }

    /// Keeps who is refused.
    #[derive(Clone, Default)]
    struct Refused(Arc<Mutex<Vec<usize>>>);
    impl FrameSink for Refused {
        fn deliver(&self, _frames: &Arc<TickFrames>, orders: Vec<Order>) {
            let refused = orders.iter().filter_map(|order| match order {
                Order::Refuse { client } => Some(client.place),
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

    /// Time that this thread has had the processor, which other programs don't change.
    fn own_time() -> Duration {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
        Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
    }

    #[test]
    fn change_of_rules_for_a_hundred_users_with_20000_pvs_makes_no_tick_late() {
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
        let mut distributor =
            Distributor::new(Arc::clone(&control), Arc::clone(&registry), shards, limits).unwrap();
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
        let client = |place| ClientId {
            shard: 0,
            place,
            generation: 1,
            lz4: false,
        };
        let mut room = NewNames {
            fresh: PVS,
            new: PVS,
        };
        let ids = registry.acquire(&names, &identity(0), &Owner::unlimited(), &mut room);
        let ids: Vec<_> = ids.into_iter().map(Result::unwrap).collect();
        for n in 0..USERS {
            // Four of them hold the last PV, which will be denied to two groups. None leaves, so that one
            // hold of each PV is enough.
            let wanted = if n < 4 { PVS } else { PVS - 1 };
            control.leave(Demand::Subscribe {
                client: client(n),
                request: 1,
                ids: ids[..wanted].to_vec(),
                errors: Vec::new(),
            });
        }
        one_tick(&mut distributor);
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
            control.leave(Demand::Recheck {
                client: client(n),
                identity: Arc::new(identity(n)),
            });
        }
        let deadline = Instant::now() + Duration::from_secs(60);
        let mut longest = Duration::ZERO;
        // Of the four who hold it one is in neither group.
        while refused.0.lock().unwrap().len() < 3 {
            assert!(Instant::now() < deadline, "nobody is refused");
            longest = longest.max(one_tick(&mut distributor));
            thread::yield_now();
        }
        assert!(longest < Duration::from_millis(100), "{longest:?}");
        let mut places = refused.0.lock().unwrap().clone();
        places.sort_unstable();
        assert_eq!(places, [0, 1, 3]);
    }
}
