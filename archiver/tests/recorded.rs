//! Recorded answers of a real appliance: compared with its own JSON, and with what another implementation of
//! protobuf reads from them. The last samples were in memory only when the JSON was requested, so a recording can
//! have some more or fewer of them at its end.
//! Rows of a range are checked by themselves: the value that held, the end, gaps with two ends, and bins.
//!
//! Vectors of all types that another implementation of protobuf wrote: `vectors.py`.

use std::collections::BTreeMap;

use pvwire_archiver::{Gap, GapCause, Limits, PayloadType, Piece, RowGap, Rows, Values};

use crate::common::{bytes, decode, decode_one, expected, rows_of};

const ANSWERS: [&str; 10] = [
    "count",
    "count_meta",
    "dbl",
    "enum",
    "enum_meta",
    "op_mean_5",
    "op_nope_5",
    "op_optimized_10",
    "str",
    "wf",
];

fn answer(name: &str) -> Piece {
    let (piece, summary) = decode_one(&bytes(name));
    assert_eq!(
        (summary.damaged_lines, summary.long_lines),
        (0, 0),
        "{name}"
    );
    assert!(!summary.is_cut, "{name}");
    piece
}

#[test]
fn every_answer_decodes_to_what_another_protobuf_reads() {
    for name in ANSWERS {
        let piece = answer(name);
        let expected = expected(name);
        assert_eq!(
            &rows_of(&piece.columns),
            expected["rows"].as_array().unwrap(),
            "{name}"
        );
        assert_eq!(
            piece.payload as u64,
            expected["payload"].as_u64().unwrap(),
            "{name}"
        );
        let metadata: BTreeMap<_, _> = piece.metadata.iter().collect();
        let expected = expected["metadata"].as_object().unwrap().iter();
        let expected: BTreeMap<_, _> = expected
            .map(|(name, text)| (name.as_str(), text.as_str().unwrap()))
            .collect();
        assert_eq!(metadata, expected, "{name}");
    }
}

/// A sample of the appliance's JSON, whose lines have one sample each: time, value, severity, status.
struct JsonSample<'a> {
    time_ns: i64,
    value: &'a str,
    severity: u8,
    status: u16,
}

fn json_samples(text: &str) -> Vec<JsonSample<'_>> {
    let between = |line: &'static str, from: &str, to: &str| -> &'static str {
        let start = line.find(from).unwrap() + from.len();
        let rest = &line[start..];
        rest[..rest.find(to).unwrap_or(rest.len())].trim()
    };
    let text: &'static str = text.to_owned().leak();
    let lines = text.lines().filter(|line| line.contains("\"secs\""));
    let sample = |line: &'static str| {
        let seconds: i64 = between(line, "\"secs\":", ",").parse().unwrap();
        let nanos: i64 = between(line, "\"nanos\":", ",").parse().unwrap();
        JsonSample {
            time_ns: seconds * 1_000_000_000 + nanos,
            value: between(line, "\"val\":", ", \"nanos\""),
            severity: between(line, "\"severity\":", ",").parse().unwrap(),
            status: between(line, "\"status\":", " ").parse().unwrap(),
        }
    };
    lines.map(sample).collect()
}

fn number(text: &str) -> f64 {
    // Java's names for what JSON doesn't have are those of Rust in lower case.
    text.to_lowercase().parse().unwrap()
}

fn same_number(found: f64, text: &str) -> bool {
    found.to_bits() == number(text).to_bits() || (found.is_nan() && number(text).is_nan())
}

#[test]
fn every_answer_says_what_the_appliances_own_json_says() {
    for name in ["count", "count_meta", "dbl", "enum", "str", "wf"] {
        let columns = answer(name).columns;
        let json = expected(name)["appliance_json"].as_str().unwrap();
        let samples = json_samples(json);
        let common = samples.len().min(columns.len());
        assert!(
            common > 30 && samples.len().abs_diff(columns.len()) <= 2,
            "{name}"
        );
        for (row, sample) in samples.iter().take(common).enumerate() {
            assert_eq!(columns.time_ns[row], sample.time_ns, "{name} {row}");
            let alarm = (columns.severities[row], columns.statuses[row]);
            assert_eq!(alarm, (sample.severity, sample.status), "{name} {row}");
            let text = sample.value;
            let is_same = match &columns.values {
                Values::Numbers(numbers) => same_number(numbers[row], text),
                Values::Integers(integers) => integers[row].to_string() == text,
                Values::Texts(lists) => {
                    let expected: String = serde_json::from_str(text).unwrap();
                    lists.get(row) == Some(expected.as_bytes())
                }
                Values::NumberArrays(lists) => {
                    let expected = text.trim_matches(['[', ']']).split(',');
                    let elements = lists.get(row).unwrap();
                    elements.len() == expected.clone().count()
                        && elements
                            .iter()
                            .zip(expected)
                            .all(|(found, text)| same_number(*found, text))
                }
                other => panic!("{name} has {other:?}"),
            };
            assert!(is_same, "{name} {row}: {text}");
        }
    }
}

#[test]
fn type_of_an_operator_depends_on_the_data() {
    let bins = answer("op_optimized_10");
    assert_eq!(bins.payload, PayloadType::WaveformDouble);
    let statistics = bins.columns.bins().unwrap();
    // The first and the last bin have samples beyond the range, too.
    assert_eq!(statistics.counts.iter().sum::<f64>(), 83.0);
    let between = |row: usize| {
        statistics.least[row] <= statistics.means[row]
            && statistics.means[row] <= statistics.greatest[row]
    };
    assert!((0..bins.columns.len()).all(between));
    // An operator that does not exist is ignored by the appliance.
    let raw = answer("op_nope_5");
    assert_eq!(
        (raw.payload, raw.columns.bins()),
        (PayloadType::ScalarDouble, None)
    );
}

#[test]
fn labels_come_in_order_and_no_recording_invents_a_gap() {
    assert_eq!(
        answer("enum_meta").metadata.labels(),
        ["zero", "one", "two"]
    );
    let count = answer("count_meta");
    assert_eq!(count.metadata.number("HIHI"), Some(60.0));
    assert_eq!(count.metadata.number("LOLO"), None);
    assert_eq!(count.metadata.precision(), Some(3));
    for name in ANSWERS {
        assert_eq!(answer(name).columns.gaps, [], "{name}");
    }
}

fn rows(name: &str, range_ns: (i64, i64), wants_bins: bool) -> Rows {
    rows_between(&bytes(name), range_ns, wants_bins)
}

fn rows_between(answer: &[u8], range_ns: (i64, i64), wants_bins: bool) -> Rows {
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
    let (one, two) = (
        rows_between(&answer, ALL, false),
        rows_between(&twice, ALL, false),
    );
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

const NAMES: [&str; 15] = [
    "ScalarString",
    "ScalarShort",
    "ScalarFloat",
    "ScalarEnum",
    "ScalarByte",
    "ScalarInt",
    "ScalarDouble",
    "VectorString",
    "VectorShort",
    "VectorFloat",
    "VectorEnum",
    "VectorChar",
    "VectorInt",
    "VectorDouble",
    "V4GenericBytes",
];

#[test]
fn every_type_decodes_to_what_another_protobuf_reads() {
    for (number, name) in NAMES.iter().enumerate() {
        let (piece, summary) = decode_one(&bytes(name));
        let expected = expected(name);
        assert_eq!(piece.payload as usize, number);
        assert_eq!(piece.payload, PayloadType::ALL[number]);
        assert_eq!(piece.pv, expected["pv"].as_str().unwrap());
        let expected_rows = expected["rows"].as_array().unwrap();
        assert_eq!(&rows_of(&piece.columns), expected_rows, "{name}");
        assert_eq!(summary.samples as usize, expected_rows.len(), "{name}");
        assert_eq!(
            (summary.damaged_lines, summary.long_lines, summary.is_cut),
            (0, 0, false)
        );
        for (key, text) in expected["metadata"].as_object().unwrap() {
            assert_eq!(piece.metadata.text(key), text.as_str(), "{name} {key}");
        }
    }
}

#[test]
fn any_split_of_the_bytes_gives_the_same_samples() {
    for name in NAMES {
        let answer = bytes(name);
        let whole = decode(&answer, answer.len(), Limits::default());
        for size in [1, 2, 3, 7, 64] {
            assert_eq!(decode(&answer, size, Limits::default()).1, whole.1);
            let (pieces, _) = decode(&answer, size, Limits::default());
            let rows: Vec<_> = pieces
                .iter()
                .flat_map(|piece| rows_of(&piece.columns))
                .collect();
            assert_eq!(rows, rows_of(&whole.0[0].columns), "{name} by {size}");
        }
    }
}

#[test]
fn lost_connection_is_a_gap_with_both_ends() {
    let (piece, _) = decode_one(&bytes("ScalarInt"));
    let row = 6;
    assert_eq!(
        piece.columns.time_ns[row], 1_735_689_600_000_000_000,
        "2025 begins"
    );
    assert_eq!(
        piece.columns.time_ns[row - 1],
        1_735_689_599_999_999_999,
        "2024 ends"
    );
    let gap = Gap {
        row: row as u32,
        cause: GapCause::Disconnected,
        from_ns: Some(1_735_689_590_000_000_000),
        to_ns: Some(1_735_689_599_000_000_000),
    };
    assert_eq!(piece.columns.gaps, [gap]);
}

#[test]
fn metadata_of_stores_and_engine_are_joined() {
    let (piece, _) = decode_one(&bytes("ScalarEnum"));
    assert_eq!(piece.metadata.text("EGU"), Some("mm\n"));
    assert_eq!(piece.metadata.precision(), Some(3));
    assert_eq!(piece.metadata.labels(), ["zero", "one"]);
    assert_eq!(
        piece.metadata.number("LOLO"),
        None,
        "NaN is a limit that is not set"
    );
}
