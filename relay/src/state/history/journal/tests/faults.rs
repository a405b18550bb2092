//! The past after disks that fail or are full, damaged files, and rings that were removed.

use super::*;
use crate::state::history::History;

fn add(store: &Mutex<Store>, pv: u32, now_ns: i64) {
    rows(
        &mut store.lock().unwrap(),
        vec![row(pv, now_ns, now_ns as f64)],
        now_ns,
    );
}

fn times(store: &Mutex<Store>, pv: usize) -> Vec<i64> {
    let past = pasts(store).swap_remove(pv);
    past.iter().map(|sample| sample.time_ns).collect()
}

fn damage(segment: &PathBuf) {
    let mut bytes = fs::read(segment).unwrap();
    bytes[20] ^= 1;
    fs::write(segment, bytes).unwrap();
}

const fn gap(cause: GapCause, from_ns: i64, to_ns: Option<i64>) -> PastGap {
    PastGap {
        cause,
        from_ns,
        to_ns,
    }
}

#[test]
fn segment_that_begins_while_nothing_changes_is_read_whole() {
    let scratch = Scratch::new();
    let begin = wall_ns();
    let (store, mut journal) = started(&scratch, 1 << 30, begin);
    add(&store, 0, begin);
    journal.write(&store, begin, false);
    journal.folder.end().unwrap();
    journal.write(&store, begin + 20 * SECOND, false);
    let last = begin + 21 * SECOND;
    add(&store, 0, last);
    journal.write(&store, last, true);
    assert_eq!(scratch.segments().len(), 2);
    drop(journal);
    let (store, journal) = started(&scratch, 1 << 30, last);
    assert_eq!(journal.state.damaged.load(Ordering::Relaxed), 0);
    assert_eq!(times(&store, 0), [begin, last]);
}

#[test]
fn gap_of_a_past_that_was_removed_ends_where_the_pv_is_kept_again() {
    let scratch = Scratch::new();
    let begin = wall_ns();
    let (store, mut journal) = started(&scratch, 1 << 30, begin);
    connect(&store, ConnectionState::Connected, begin);
    add(&store, 0, begin);
    connect(&store, ConnectionState::Disconnected, begin + SECOND);
    journal.write(&store, begin + SECOND, false);
    let again = begin + 2 * 3600 * SECOND;
    store.lock().unwrap().expire(again);
    assert!(times(&store, 0).is_empty());
    connect(&store, ConnectionState::Connected, again);
    add(&store, 0, again);
    journal.write(&store, again, true);
    drop(journal);
    let (store, _journal) = started(&scratch, 1 << 30, again + SECOND);
    assert_eq!(times(&store, 0), [begin, again]);
    let expected = [
        gap(GapCause::Disconnected, begin + SECOND, Some(again)),
        gap(GapCause::NotMonitored, again + 1000, None),
    ];
    assert_eq!(gaps(&store, NAMES[0]), expected);
}

#[test]
fn samples_that_a_full_disk_did_not_take_are_in_the_gap_of_the_restart() {
    let scratch = Scratch::new();
    let begin = wall_ns();
    let (store, mut journal) = started(&scratch, 1 << 30, begin);
    for pv in [0, 1] {
        add(&store, pv, begin);
    }
    journal.write(&store, begin, false);
    // There was room for the first PV alone.
    let later = begin + 30 * SECOND;
    add(&store, 0, later);
    let pieces = {
        let mut store = store.lock().unwrap();
        let queue = store.take_queue();
        store.take_new(&queue)
    };
    journal.pending.extend(pieces);
    journal.write_pending(later).unwrap();
    drop(journal);
    let (store, _journal) = started(&scratch, 1 << 30, later + SECOND);
    assert_eq!(times(&store, 0), [begin, later]);
    for (name, from_ns) in [(NAMES[0], later), (NAMES[1], begin)] {
        let expected = [gap(GapCause::NotMonitored, from_ns + 1000, None)];
        assert_eq!(gaps(&store, name), expected, "{name}");
    }
}

#[test]
fn damage_is_a_gap_of_a_pv_that_has_nothing_after_it() {
    let scratch = Scratch::new();
    let begin = wall_ns();
    let (store, mut journal) = started(&scratch, 1 << 30, begin);
    for (round, pvs) in (0_i64..).zip([&[0, 1][..], &[1], &[0]]) {
        let now_ns = begin + round * SECOND;
        for pv in pvs {
            add(&store, *pv, now_ns);
        }
        journal.write(&store, now_ns, false);
        journal.folder.end().unwrap();
    }
    drop(journal);
    damage(&scratch.segments()[1]);
    let end = begin + 2 * SECOND;
    let (store, _journal) = started(&scratch, 1 << 30, end);
    assert_eq!(times(&store, 1), [begin]);
    let expected = [
        gap(GapCause::Lost, begin, Some(end)),
        gap(GapCause::NotMonitored, end, None),
    ];
    assert_eq!(gaps(&store, NAMES[1]), expected);
}

#[test]
fn segments_that_are_too_old_go_while_nothing_can_be_written() {
    let scratch = Scratch::new();
    let begin = wall_ns();
    let (store, mut journal) = started(&scratch, 1 << 30, begin);
    add(&store, 0, begin);
    journal.write(&store, begin, false);
    journal.folder.end().unwrap();
    let old = scratch.segments().remove(0);
    let next = format!("{:010}.past", journal.folder.next_number());
    fs::create_dir(scratch.0.join(next)).unwrap();
    let later = begin + 2 * 3600 * SECOND;
    add(&store, 0, later);
    journal.write(&store, later, false);
    assert!(journal.state.fails());
    assert!(!old.exists());
}

#[test]
fn rewrite_that_was_cut_off_after_a_hole_repeats_no_sample() {
    let scratch = Scratch::new();
    let begin = wall_ns();
    let (store, mut journal) = started(&scratch, 1 << 30, begin);
    let mut expected = Vec::new();
    for round in 0..3 {
        for n in 0..10 {
            let now_ns = begin + round * SECOND + n;
            add(&store, 0, now_ns);
            expected.extend((round != 1).then_some(now_ns));
        }
        journal.write(&store, begin + round * SECOND, false);
        journal.folder.end().unwrap();
    }
    drop(journal);
    damage(&scratch.segments()[1]);
    let old: Vec<_> = (scratch.segments().into_iter())
        .map(|path| (fs::read(&path).unwrap(), path))
        .collect();
    let now_ns = begin + 4 * SECOND;
    let (store, mut journal) = started(&scratch, 1 << 30, now_ns);
    assert_eq!(times(&store, 0), expected);
    journal.write(&store, now_ns, false);
    drop(journal);
    // As if the relay had been killed before it removed them.
    for (bytes, path) in old {
        assert!(!path.exists());
        fs::write(path, bytes).unwrap();
    }
    let (store, _journal) = started(&scratch, 1 << 30, now_ns);
    assert_eq!(times(&store, 0), expected);
}

#[test]
fn folder_whose_disk_fails_at_the_start_costs_the_past_on_it_alone() {
    let scratch = Scratch::new();
    let folder = scratch.0.join("not mounted/history");
    let history = History::open(kept(), &folder, 1 << 30).unwrap();
    assert!(history.readings().disk_failing);

    fs::create_dir_all(scratch.0.join("lock")).unwrap();
    assert!(History::open(kept(), &scratch.0, 1 << 30).is_err());
    fs::write(scratch.0.join("file"), "no folder").unwrap();
    assert!(History::open(kept(), &scratch.0.join("file"), 1 << 30).is_err());
}

#[test]
fn slots_that_wait_for_the_disk_are_as_many_as_rings_and_each_is_written() {
    let scratch = Scratch::new();
    let begin = wall_ns();
    let (store, mut journal) = started(&scratch, 1 << 30, begin);
    let mut last_ns = begin;
    for round in 0..50 {
        let now_ns = begin + round * 2 * 3600 * SECOND;
        connect(&store, ConnectionState::Disconnected, last_ns);
        store.lock().unwrap().expire(now_ns);
        add(&store, 0, now_ns);
        last_ns = now_ns;
    }
    let queue = store.lock().unwrap().take_queue();
    assert_eq!(queue.len(), 1);
    connect(&store, ConnectionState::Disconnected, last_ns);
    store.lock().unwrap().expire(i64::MAX);
    assert!(store.lock().unwrap().take_new(&queue).is_empty());
    let now_ns = begin + 200 * 3600 * SECOND;
    add(&store, 0, now_ns);
    journal.write(&store, now_ns, true);
    drop(journal);
    let (store, _journal) = started(&scratch, 1 << 30, now_ns);
    assert_eq!(times(&store, 0), [now_ns]);
}
