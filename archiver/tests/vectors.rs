//! Vectors of all types that another implementation of protobuf wrote: `vectors.py`.

use crate::common::{bytes, decode, decode_one, expected, rows_of};
use pvwire_archiver::{Gap, GapCause, Limits, PayloadType};

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
