//! Sequels against a plain log of what a PV did.

use std::collections::HashMap;
use std::sync::Arc;

use proptest::prelude::*;
use pvwire_schema::types::{BlobValue, Metadata, PvId, Skips};

use super::{all, numbers, opened, row, store, tick};
use crate::ingest::RowValue;
use crate::state::history::store::{Missed, Store, Tick};
use crate::state::history::{AbsentCause, PastValue, Position, SequelPart};
use crate::state::table::{ChangedRow, Changes, Lifecycle};

const NAME: &str = "ca://A";

/// What happens to the PV.
#[derive(Clone, Copy, Debug)]
enum Act {
    /// An update, before which some were skipped.
    Number(u32),
    Array,
    /// The server is connected again and sends its last number.
    Again,
    /// The PV becomes one of another type.
    Epoch,
    /// It is closed and opened.
    Reopen,
    /// Ticks with this number of updates are discarded before the next update.
    Lost(u32),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        60 => Just(Act::Number(0)),
        4 => (1..4_u32).prop_map(Act::Number),
        4 => Just(Act::Array),
        3 => Just(Act::Again),
        1 => (1..9_u32).prop_map(Act::Lost),
    ]
}

fn rare_act() -> impl Strategy<Value = Act> {
    prop_oneof![30 => act(), 1 => Just(Act::Epoch), 1 => Just(Act::Reopen)]
}

/// What became of an update.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    /// By its time.
    Kept(i64),
    Absent(AbsentCause),
    /// No client got it.
    Skipped,
}

/// A PV, and all of its updates.
struct World {
    store: Store,
    log: Vec<(Position, Fate)>,
    position: Position,
    epochs: u32,
    /// Lengths of the log when the PV was opened again.
    opened: Vec<usize>,
    last_number: Option<i64>,
    now_ns: i64,
}

impl World {
    fn new(max_bytes: usize) -> Self {
        let mut world = Self {
            store: store(max_bytes),
            log: Vec::new(),
            position: Position::default(),
            epochs: 0,
            opened: Vec::new(),
            last_number: None,
            now_ns: 0,
        };
        world.begin(vec![opened(0, Some(NAME))]);
        world
    }

    /// Begins an epoch.
    fn begin(&mut self, lifecycles: Vec<Lifecycle>) {
        self.epochs += 1;
        let epoch = self.epochs;
        self.position = Position { epoch, sequence: 0 };
        let metadata = Metadata {
            epoch,
            ..Metadata::default()
        };
        let changes = Changes {
            metadata: vec![(PvId(0), Arc::new(metadata))],
            lifecycles,
            ..Changes::default()
        };
        self.store.take(&tick(changes, self.now_ns));
    }

    fn update(&mut self, fate: Fate) {
        self.position = self.position.following(0);
        self.log.push((self.position, fate));
    }

    fn act(&mut self, act: Act) {
        self.now_ns += 1;
        let now_ns = self.now_ns;
        let number = |time_ns: i64| row(0, time_ns, time_ns as f64);
        match act {
            Act::Number(skipped) => {
                (0..skipped).for_each(|_| self.update(Fate::Skipped));
                self.update(Fate::Kept(now_ns));
                self.last_number = Some(now_ns);
                let skips = Skips {
                    source: skipped,
                    ..Skips::NONE
                };
                self.take(vec![ChangedRow {
                    skips,
                    ..number(now_ns)
                }]);
            }
            Act::Array => {
                self.update(Fate::Absent(AbsentCause::NotKept));
                let value = RowValue::Blob(Arc::new(BlobValue::TextArray(vec!["a".into()])));
                self.take(vec![ChangedRow {
                    value,
                    ..number(now_ns)
                }]);
            }
            Act::Again => {
                let Some(time_ns) = self.last_number else {
                    return;
                };
                let newest = numbers(&all(&self.store, NAME)).last().copied();
                self.update(match newest == Some(time_ns as f64) {
                    true => Fate::Absent(AbsentCause::Repeated),
                    false => Fate::Kept(time_ns),
                });
                let changes = Changes {
                    rows: vec![number(time_ns)],
                    first_values: vec![PvId(0)],
                    ..Changes::default()
                };
                self.store.take(&tick(changes, now_ns));
            }
            Act::Epoch => self.begin(Vec::new()),
            Act::Reopen => {
                self.opened.push(self.log.len());
                self.begin(vec![opened(0, None), opened(0, Some(NAME))]);
            }
            Act::Lost(updates) => {
                (0..updates).for_each(|_| self.update(Fate::Absent(AbsentCause::Lost)));
                self.update(Fate::Kept(now_ns));
                self.last_number = Some(now_ns);
                let missed = Missed {
                    since_ns: now_ns,
                    positions: vec![(PvId(0), self.position)],
                    ..Missed::default()
                };
                let changes = Changes {
                    rows: vec![number(now_ns)],
                    ..Changes::default()
                };
                self.store.take(&Tick {
                    missed: Some(missed),
                    ..tick(changes, now_ns)
                });
            }
        }
    }

    fn take(&mut self, rows: Vec<ChangedRow>) {
        let changes = Changes {
            rows,
            ..Changes::default()
        };
        self.store.take(&tick(changes, self.now_ns));
    }

    /// Compares what follows an update of the log with the log.
    fn check(&self, at: usize) -> Result<(), TestCaseError> {
        let (after, fate) = self.log[at];
        if matches!(fate, Fate::Skipped | Fate::Absent(AbsentCause::Lost)) {
            return Ok(());
        }
        let Some(mut sequel) = self.store.sequel(NAME, after) else {
            prop_assert!(all(&self.store, NAME).is_empty());
            return Ok(());
        };
        let (mut rows, mut skipped) = (Vec::new(), 0);
        let mut absent: HashMap<&str, Option<u32>> = HashMap::new();
        while let Some(part) = sequel.next_part() {
            match part {
                SequelPart::Updates { first, samples } => {
                    let mut position = first;
                    for (row, sample) in samples.iter().enumerate() {
                        skipped += sample.skips.total();
                        if row > 0 {
                            position = position.following(sample.skips.total());
                        }
                        rows.push((position, Fate::Kept(sample.time_ns)));
                        let number = PastValue::Number(sample.time_ns as f64);
                        prop_assert_eq!(&sample.value, &number);
                    }
                }
                SequelPart::Absent { cause, count } => {
                    let known = absent.entry(cause.token()).or_insert(Some(0));
                    *known = known.zip(count).map(|(known, count)| known + count);
                }
            }
        }
        let kept = self.log.iter().enumerate();
        let kept: Vec<_> = kept
            .filter(|(_, (_, fate))| matches!(fate, Fate::Kept(_)))
            .collect();
        let stored = numbers(&all(&self.store, NAME));
        let stored = stored.iter().filter(|number| !number.is_nan()).count();
        let stored = &kept[kept.len() - stored..];
        let expected: Vec<_> = stored
            .iter()
            .filter(|(index, _)| *index > at)
            .map(|(_, update)| **update)
            .collect();
        prop_assert_eq!(&rows, &expected);

        let later = &self.log[at + 1..];
        let is_reopened = self.opened.iter().any(|length| *length > at);
        prop_assert_eq!(absent.contains_key("not monitored"), is_reopened);
        if self.position.epoch == after.epoch {
            let counts = absent.values().map(|count| count.unwrap());
            let told = rows.len() as u32 + skipped + counts.sum::<u32>();
            prop_assert_eq!(told as usize, later.len(), "{:?}", absent);
        }
        // In a gap within which the client's update is, causes are told together.
        let is_kept = matches!(fate, Fate::Kept(_));
        if is_kept && stored.first().is_some_and(|(index, _)| *index <= at) {
            prop_assert!(!absent.contains_key("evicted"), "{:?}", absent);
            for cause in [
                AbsentCause::NotKept,
                AbsentCause::Repeated,
                AbsentCause::Lost,
            ] {
                let count = later
                    .iter()
                    .filter(|(_, fate)| *fate == Fate::Absent(cause));
                let told = absent.get(cause.token()).copied();
                prop_assert_eq!(told.unwrap_or(Some(0)), Some(count.count() as u32));
            }
        }
        prop_assert_eq!(sequel.end(), self.position);
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn each_update_after_any_is_told_once_or_counted_by_its_cause(
        acts in prop::collection::vec(act(), 1..1_800),
        max_bytes in prop_oneof![Just(usize::MAX), 9_000..40_000_usize],
        places in prop::collection::vec(any::<prop::sample::Index>(), 30),
    ) {
        let mut world = World::new(max_bytes);
        acts.into_iter().for_each(|act| world.act(act));
        for place in places.iter().filter(|_| !world.log.is_empty()) {
            world.check(place.index(world.log.len()))?;
        }
    }

    #[test]
    fn updates_of_other_types_and_after_a_time_without_monitor_are_told_as_such(
        acts in prop::collection::vec(rare_act(), 1..400),
        places in prop::collection::vec(any::<prop::sample::Index>(), 60),
    ) {
        let mut world = World::new(usize::MAX);
        acts.into_iter().for_each(|act| world.act(act));
        for place in places.iter().filter(|_| !world.log.is_empty()) {
            world.check(place.index(world.log.len()))?;
        }
    }
}

#[test]
fn pv_that_was_closed_is_not_monitored_since_its_last_update() {
    let mut world = World::new(usize::MAX);
    (0..3).for_each(|_| world.act(Act::Number(0)));
    let changes = Changes {
        lifecycles: vec![opened(0, None)],
        ..Changes::default()
    };
    world.store.take(&tick(changes, 9));
    let mut sequel = world.store.sequel(NAME, world.log[1].0).unwrap();
    let parts: Vec<_> = std::iter::from_fn(|| sequel.next_part()).collect();
    let [SequelPart::Updates { first, samples }, absent] = &parts[..] else {
        panic!("{parts:?}");
    };
    assert_eq!((*first, numbers(samples)), (world.log[2].0, vec![3.0]));
    let expected = SequelPart::Absent {
        cause: AbsentCause::NotMonitored,
        count: None,
    };
    assert_eq!(absent, &expected);
}
