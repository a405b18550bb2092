//! The past in parts, as another relay reads it: updates arrive and chunks go between two of them.

use proptest::prelude::*;
use pvwire_schema::types::PvId;

use super::super::{PastPart, PastWanted, PlaceLost, Position};
use super::{Update, all, expected, is_same, open, options, row, row_value, rows, store, update};
use crate::state::history::store::Store;
use crate::state::table::ChangedRow;

fn part(store: &Store, wanted: PastWanted) -> Result<PastPart, PlaceLost> {
    PastPart::read(store.view("ca://A").unwrap().0, wanted)
}

/// All parts. `between` is called before each but the first.
fn parts(
    store: &mut Store,
    mut wanted: PastWanted,
    mut between: impl FnMut(&mut Store),
) -> Result<Vec<PastPart>, PlaceLost> {
    let mut parts = vec![part(store, wanted)?];
    while let Some(rest) = parts.last().and_then(|last| last.rest) {
        between(store);
        wanted.at = Some(rest);
        parts.push(part(store, wanted)?);
    }
    Ok(parts)
}

const EVERYTHING: PastWanted = PastWanted {
    from_ns: i64::MIN,
    to_ns: i64::MAX,
    until: None,
    at: None,
};

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn parts_are_the_range_up_to_any_update_whatever_arrives_between_them(
        updates in prop::collection::vec(update(), 1..9_000),
        until in prop::option::of(0.0..1.0_f64),
        from in prop::option::of(0.0..1.0_f64),
        to in prop::option::of(0.0..1.0_f64),
    ) {
        let mut store = store(usize::MAX);
        open(&mut store, &[(0, "ca://A")]);
        let mut time_ns = 0;
        let mut positions = Vec::new();
        let mut sequence = 0;
        let changed = updates.iter().map(|Update { step_ns, value, alarm, skips, .. }| {
            time_ns += step_ns;
            sequence += 1 + skips.total();
            positions.push(sequence);
            ChangedRow {
                pv: PvId(0),
                time_ns,
                value: row_value(value),
                alarm: alarm.map(super::alarm),
                detail: None,
                skips: *skips,
            }
        });
        let changed: Vec<_> = changed.collect();
        for changed in changed.chunks(100) {
            rows(&mut store, changed.to_vec(), 0);
        }
        let last = *positions.last().unwrap();
        let until = until.map(|at| (at * f64::from(last + 1)) as u32);
        let place = |at: f64| changed[(at * changed.len() as f64) as usize].time_ns;
        let (from_ns, to_ns) = (from.map_or(i64::MIN, place), to.map_or(i64::MAX, place));
        let kept = positions.iter().filter(|position| **position <= until.unwrap_or(last));
        let mut samples = all(&store, "ca://A");
        samples.truncate(kept.count());
        let expected = expected(&samples, from_ns, to_ns);
        let until = until.map(|sequence| Position { epoch: 0, sequence });
        let wanted = PastWanted { from_ns, to_ns, until, at: None };
        let later = |store: &mut Store| {
            rows(store, (0..300).map(|n| row(0, from_ns.max(0) + n, 1.0)).collect(), 0);
        };
        let parts = parts(&mut store, wanted, later).unwrap();
        let found = parts.iter().flat_map(|part| part.samples.clone());
        let found: Vec<_> = found.collect();
        prop_assert!(is_same(&found, &expected), "{} of {}", found.len(), expected.len());
        let oldest = samples.iter().map(|sample| sample.time_ns).min();
        prop_assert_eq!(parts[0].kept_since_ns, oldest);
        let has_held = expected.first().is_some_and(|first| first.time_ns <= from_ns);
        prop_assert_eq!(parts[0].has_held, has_held);
        prop_assert!(parts.iter().all(|part| part.samples.len() <= 60_000 / 16));
    }
}

#[test]
fn part_whose_samples_have_gone_meanwhile_is_refused_rather_than_left_out() {
    let mut store = Store::new(options(&[("*", 3600)], usize::MAX));
    open(&mut store, &[(0, "ca://A")]);
    let counted = |from: i64, count: i64| (from..from + count).map(|n| row(0, n, n as f64));
    rows(&mut store, counted(0, 9_000).collect(), 0);
    let first = part(&store, EVERYTHING).unwrap();
    let rest = first.rest.unwrap();
    let next = PastWanted {
        at: Some(rest),
        ..EVERYTHING
    };
    rows(&mut store, counted(9_000, 100).collect(), 7_200_000_000_000);
    store.expire(7_200_000_000_000);
    assert!(!all(&store, "ca://A").is_empty());
    assert_eq!(part(&store, next), Err(PlaceLost));
}
