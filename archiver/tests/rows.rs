//! Rows of a range: the value that held, the end, gaps with two ends, and bins.

use crate::common::{bytes, decode};
use pvwire_archiver::{Limits, RowGap, Rows};

fn rows(name: &str, range_ns: (i64, i64), wants_bins: bool) -> Rows {
    rows_of(&bytes(name), range_ns, wants_bins)
}

fn rows_of(answer: &[u8], range_ns: (i64, i64), wants_bins: bool) -> Rows {
    let (pieces, _) = decode(answer, 50, Limits::default());
    let mut rows = Rows::new(range_ns, wants_bins);
    pieces.iter().for_each(|piece| rows.add(piece));
    rows.finish();
    rows
}

const ALL: (i64, i64) = (i64::MIN, i64::MAX);

#[test]
fn value_that_held_is_the_first_row_and_samples_after_the_end_are_left_out() {
    let all = rows("count", ALL, false);
    assert!(!all.has_held);
    for first in [0, 1, 5] {
        let range = (all.time_ns[first] + 1, all.time_ns[20] + 1);
        let some = rows("count", range, false);
        assert!(some.has_held);
        assert_eq!(some.time_ns, all.time_ns[first..=20]);
        assert_eq!(some.numbers, all.numbers[first..=20]);
        assert_eq!(some.severities, all.severities[first..=20]);
        assert_eq!(some.bins.len(), some.time_ns.len());
    }
    let exact = rows("count", (all.time_ns[3], all.time_ns[3]), false);
    assert_eq!(
        (exact.time_ns, exact.has_held),
        (vec![all.time_ns[3]], true)
    );
    let later = i64::MAX - 1;
    let last = rows("count", (later, later), false);
    assert_eq!(last.time_ns, all.time_ns[all.time_ns.len() - 1..]);
}

#[test]
fn answer_that_comes_twice_has_no_row_twice() {
    let answer = bytes("count");
    let twice = [&answer[..], b"\n", &answer].concat();
    let (one, two) = (rows_of(&answer, ALL, false), rows_of(&twice, ALL, false));
    assert_eq!(one.time_ns, two.time_ns);
    assert_eq!(two.left_out as usize, one.time_ns.len());
}

#[test]
fn bins_become_their_smallest_greatest_and_mean_at_one_time() {
    let thinned = rows("op_optimized_10", ALL, true);
    assert!(thinned.is_thinned);
    let mut at = 0;
    for bin in &thinned.bins {
        let rows = at..at + bin.rows as usize;
        at = rows.end;
        let numbers = &thinned.numbers[rows.clone()];
        match numbers {
            [_] => {}
            [least, greatest, mean] => assert!(least <= mean && mean <= greatest, "{numbers:?}"),
            _ => panic!("a bin of {numbers:?}"),
        }
        assert!(
            thinned.time_ns[rows.clone()]
                .iter()
                .all(|time| *time == thinned.time_ns[rows.start])
        );
    }
    assert_eq!(at, thinned.time_ns.len());
    let samples: u32 = thinned.bins.iter().map(|bin| bin.samples).sum();
    assert!(samples > 70, "{samples}");
    // The same numbers as values of an array have no rows.
    let array = rows("op_optimized_10", ALL, false);
    assert_eq!((array.time_ns.len(), array.left_out > 10), (0, true));
    let raw = rows("op_nope_5", ALL, true);
    assert!(
        !raw.is_thinned && raw.time_ns.len() > 50,
        "few samples come as they are"
    );
}

#[test]
fn lost_connection_is_a_gap_from_after_the_last_sample_to_the_first_one_after_it() {
    let (mut pieces, _) = decode(&bytes("ScalarInt"), 50, Limits::default());
    let later = &mut pieces[0].columns.time_ns[6..];
    later
        .iter_mut()
        .for_each(|time_ns| *time_ns += 5_000_000_000);
    let mut all = Rows::new(ALL, false);
    all.add(&pieces[0]);
    all.finish();
    let (before, after) = (all.time_ns[5], all.time_ns[6]);
    assert_eq!(
        all.gaps,
        [RowGap {
            is_disconnected: true,
            from_ns: before + 1,
            to_ns: Some(after),
        }],
        "its begin is known to the second only and the sample before it is later"
    );
    let mut late = Rows::new((after, i64::MAX), false);
    late.add(&pieces[0]);
    late.finish();
    assert!(late.gaps.is_empty() && late.has_held);
}

#[test]
fn texts_are_rows_without_a_number_and_arrays_are_none() {
    let texts = rows("str", ALL, false);
    assert_eq!(texts.texts.len(), texts.time_ns.len());
    assert!(texts.numbers.iter().all(|number| number.is_nan()));
    assert!(texts.texts.iter().any(|(_, text)| text.contains('\n')));
    let arrays = rows("wf", ALL, true);
    assert_eq!((arrays.time_ns.len(), arrays.left_out > 5), (0, true));
}
