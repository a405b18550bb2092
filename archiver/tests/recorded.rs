//! Recorded answers of a real appliance: compared with its own JSON, and with what another implementation of
//! protobuf reads from them. The last samples were in memory only when the JSON was requested, so a recording can
//! have some more or fewer of them at its end.

use std::collections::BTreeMap;

use crate::common::{bytes, decode_one, expected, rows_of};
use pvwire_archiver::{PayloadType, Piece, Values};

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
