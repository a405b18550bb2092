//! Damaged, cut and hostile answers: what can be read is read, the rest is counted, and memory is bounded.

use crate::common::{bytes, decode, decode_one, rows_of};
use proptest::prelude::*;
use pvwire_archiver::{GapCause, Limits, Values};

const NAMES: [&str; 3] = ["ScalarDouble", "VectorString", "ScalarString"];

#[test]
fn damaged_line_costs_one_sample_and_is_counted() {
    for name in NAMES {
        let whole = decode_one(&bytes(name)).0;
        let answer = bytes(name);
        let mut lines: Vec<_> = answer.split_inclusive(|byte| *byte == b'\n').collect();
        // The fourth line is the first sample: headers, an empty line, a header again.
        lines[3] = b"\x08\x01\x10\n";
        let (piece, summary) = decode_one(&lines.concat());
        assert_eq!(
            rows_of(&piece.columns),
            rows_of(&whole.columns)[1..],
            "{name}"
        );
        assert_eq!(summary.damaged_lines, 1, "{name}");
    }
}

#[test]
fn line_beyond_the_limit_costs_one_sample_and_no_memory() {
    let long = [&b"\x08\x01\x10\x01"[..], &[0x1a; 5000], b"\n"].concat();
    let answer = bytes("ScalarDouble");
    let end = answer.len();
    let limits = Limits {
        max_line_bytes: 1000,
        ..Limits::default()
    };
    let (pieces, summary) = decode(
        &[&answer[..end], &long, &answer[end - 21..]].concat(),
        17,
        limits,
    );
    assert_eq!((summary.long_lines, pieces.is_empty()), (1, false));
    let (_, before) = decode_one(&answer);
    assert_eq!(
        summary.samples,
        before.samples + 1,
        "the line after it is read"
    );
}

#[test]
fn samples_after_a_damaged_header_are_not_taken_for_those_of_another_year() {
    let answer = bytes("ScalarInt");
    let text = answer.clone();
    let mut lines: Vec<_> = text.split_inclusive(|byte| *byte == b'\n').collect();
    let second_year = lines.iter().rposition(|line| *line == b"\n").unwrap() + 1;
    lines[second_year] = b"\x08\x05\n";
    let (piece, summary) = decode_one(&lines.concat());
    assert_eq!(piece.columns.len(), 6);
    assert_eq!(summary.damaged_lines, 1 + 6);
}

#[test]
fn answer_cut_within_a_line_says_so() {
    let answer = bytes("ScalarDouble");
    assert!(!decode_one(&answer).1.is_cut);
    let (piece, summary) = decode_one(&answer[..answer.len() - 3]);
    assert!(summary.is_cut);
    assert_eq!(piece.columns.len(), 19, "the cut sample may lack its alarm");
    // Cut by the end of a line: chunked encoding alone shows it.
    assert!(!decode(b"", 1, Limits::default()).1.is_cut);
}

#[test]
fn full_piece_waits_until_it_is_taken() {
    let answer = bytes("ScalarDouble");
    let limits = Limits {
        max_piece_bytes: 60,
        ..Limits::default()
    };
    let (pieces, summary) = decode(&answer, answer.len(), limits);
    let rows: Vec<_> = pieces.iter().map(|piece| piece.columns.len()).collect();
    assert!(rows.iter().all(|rows| *rows <= 4), "{rows:?}");
    assert_eq!(rows.iter().sum::<usize>() as u64, summary.samples);
}

#[test]
fn several_pvs_in_one_answer_are_separate_pieces() {
    let answer = [bytes("ScalarDouble"), bytes("ScalarEnum")].join(&b'\n');
    let (pieces, _) = decode(&answer, 1000, Limits::default());
    let mut pvs: Vec<_> = pieces.iter().map(|piece| piece.pv.as_str()).collect();
    pvs.dedup();
    assert_eq!(pvs, ["V:ScalarDouble", "V:ScalarEnum"]);
}

#[test]
fn severities_of_an_old_archiver_are_gaps_and_repeats() {
    let header = b"\x08\x06\x12\x01X\x18\xea\x0f\n".to_vec();
    let sample = |severity: u16| {
        let varint = [(severity & 0x7f) as u8 | 0x80, (severity >> 7) as u8];
        let mut line = b"\x08\x01\x10\x02\x19\0\0\0\0\0\0\0\0\x20".to_vec();
        line.extend(varint);
        line.extend(b"\x28\x05\n");
        line
    };
    let lines: Vec<u8> = [3904, 3872, 3856, 3848, 7]
        .into_iter()
        .flat_map(sample)
        .collect();
    let (piece, _) = decode_one(&[header, lines].concat());
    assert_eq!(piece.columns.severities, [3, 3, 0, 0, 3]);
    let causes: Vec<_> = piece.columns.gaps.iter().map(|gap| gap.cause).collect();
    assert_eq!(causes, [GapCause::Disconnected, GapCause::ArchiveOff]);
}

#[test]
fn elements_that_are_not_packed_are_read_too() {
    let header = b"\x08\x0d\x12\x01X\x18\xea\x0f\n";
    let one = b"\x19\0\0\0\0\0\0\xf0\x3f";
    let answer = [&header[..], b"\x08\x01\x10\x02", one, one, b"\n"].concat();
    let Values::NumberArrays(lists) = decode_one(&answer).0.columns.values else {
        panic!("no arrays");
    };
    assert_eq!(lists.get(0), Some(&[1.0, 1.0][..]));
}

fn check_invariants(answer: &[u8], size: usize) {
    let limits = Limits {
        max_line_bytes: 300,
        max_piece_bytes: 500,
    };
    let (pieces, summary) = decode(answer, size, limits);
    for piece in &pieces {
        let rows = piece.columns.len();
        assert!(rows > 0 && piece.columns.values.len() == rows);
        assert_eq!(
            (piece.columns.severities.len(), piece.columns.statuses.len()),
            (rows, rows)
        );
        assert_eq!(rows_of(&piece.columns).len(), rows);
    }
    let rows: usize = pieces.iter().map(|piece| piece.columns.len()).sum();
    assert_eq!(rows as u64, summary.samples);
}

proptest! {
    #[test]
    fn damage_anywhere_never_panics_and_columns_stay_even(
        name in prop::sample::select(&NAMES[..]),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        size in 1..200_usize,
    ) {
        let mut answer = bytes(name);
        for (at, byte) in changes {
            let at = at.index(answer.len());
            answer[at] = byte;
        }
        check_invariants(&answer, size);
    }
}
