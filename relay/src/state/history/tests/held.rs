//! A value that still holds is known, however long ago it came.

use pvwire_schema::types::{Alarm, ConnectionState, PvId, Severity, Skips};

use super::{SECOND, alarm, all, close, connection, numbers, open, options, read, row, rows, tick};
use crate::state::history::store::Store;
use crate::state::history::{AbsentCause, Position, SequelPart};
use crate::state::table::{ChangedRow, Changes};

const NAME: &str = "ca://SR:SETPOINT";

/// A PV that is kept for a minute.
fn opened() -> Store {
    let mut store = Store::new(options(&[("*", 60)], usize::MAX));
    open(&mut store, &[(0, NAME)]);
    connect(&mut store, ConnectionState::Connected, 0);
    store
}

fn connect(store: &mut Store, state: ConnectionState, now_ns: i64) {
    let changes = Changes {
        connections: vec![(PvId(0), connection(state, now_ns))],
        ..Changes::default()
    };
    store.take(&tick(changes, now_ns));
}

/// What is kept of the minute before this second.
fn minute(store: &Store, until_s: i64) -> Vec<f64> {
    numbers(&read(store, NAME, (until_s - 60) * SECOND, until_s * SECOND).samples)
}

#[test]
fn set_point_that_changes_after_an_hour_has_its_value_before_the_change() {
    let mut store = opened();
    for second in 1..=3 {
        let time_ns = second * SECOND;
        rows(&mut store, vec![row(0, time_ns, second as f64)], time_ns);
    }
    store.expire(3_600 * SECOND);
    assert_eq!(minute(&store, 3_600), [3.0], "it still holds");
    assert_eq!(all(&store, NAME).len(), 1, "what was before is too old");
    let changed_ns = 3_610 * SECOND;
    rows(&mut store, vec![row(0, changed_ns, 4.0)], changed_ns);
    store.expire(3_620 * SECOND);
    assert_eq!(minute(&store, 3_620), [3.0, 4.0]);
    store.expire(3_671 * SECOND);
    assert_eq!(minute(&store, 3_671), [4.0]);
    close(&mut store, 1, 3_672 * SECOND);
    store.expire(3_733 * SECOND);
    assert_eq!((store.rings(), store.bytes(), store.samples()), (0, 0, 0));
}

#[test]
fn value_at_the_end_of_a_full_chunk_holds_until_the_next_one() {
    let mut store = opened();
    let mut full = 0;
    // The open chunk has been sealed when it has no memory any more.
    for n in 1.. {
        let before = store.bytes();
        rows(&mut store, vec![row(0, n, n as f64)], SECOND);
        if store.bytes() < before {
            full = n;
            break;
        }
    }
    let changed_ns = 3_600 * SECOND;
    store.expire(changed_ns);
    assert_eq!(minute(&store, 3_600), [full as f64]);
    rows(&mut store, vec![row(0, changed_ns, -1.0)], changed_ns);
    store.expire(3_610 * SECOND);
    assert_eq!(minute(&store, 3_610), [full as f64, -1.0]);
    store.expire(3_661 * SECOND);
    assert_eq!(numbers(&all(&store, NAME)), [-1.0]);
}

#[test]
fn value_of_a_lost_server_is_forgotten_after_its_time() {
    let mut store = opened();
    rows(&mut store, vec![row(0, SECOND, 1.0)], SECOND);
    connect(&mut store, ConnectionState::Disconnected, 3_600 * SECOND);
    store.expire(3_659 * SECOND);
    assert_eq!(minute(&store, 3_659), [1.0], "it held until then");
    store.expire(3_661 * SECOND);
    assert_eq!(store.rings(), 0);
}

#[test]
fn client_that_was_cut_off_learns_how_many_updates_are_too_old() {
    let mut store = opened();
    let last = ChangedRow {
        alarm: Some(alarm(Severity::Major)),
        skips: Skips {
            source: 2,
            ..Skips::NONE
        },
        ..row(0, 4, 4.0)
    };
    let changed = (1..=3).map(|n| row(0, n, n as f64)).chain([last]);
    rows(&mut store, changed.collect(), SECOND);
    store.expire(3_600 * SECOND);
    let at = |sequence| Position { epoch: 0, sequence };
    let parts = |sequence| {
        let mut sequel = store.sequel(NAME, at(sequence)).unwrap();
        std::iter::from_fn(|| sequel.next_part()).collect::<Vec<_>>()
    };
    let [evicted, SequelPart::Updates { first, samples }] = &parts(1)[..] else {
        panic!("{:?}", parts(1));
    };
    let (cause, count) = (AbsentCause::Evicted, Some(2));
    assert_eq!(*evicted, SequelPart::Absent { cause, count });
    assert_eq!((*first, numbers(samples)), (at(6), vec![4.0]));
    assert_ne!(samples[0].alarm, Alarm::NONE);
    assert_eq!(samples[0].skips.source, 2);
    assert_eq!(parts(6), []);
}
