//! Target `archiver`: answers of an Archiver Appliance, whose PVs' texts are anyone's, in any pieces.

use pvwire_archiver::{Decoder, Limits, PayloadType, Piece, Summary, Values};

/// Limits that small inputs reach.
const SMALL: Limits = Limits {
    max_line_bytes: 200,
    max_piece_bytes: 1000,
};

/// One answer of each type: two headers, samples with all fields, and another year.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    PayloadType::ALL.into_iter().map(answer).collect()
}

fn answer(payload: PayloadType) -> Vec<u8> {
    let number = payload as u8;
    let header = |year: u8| {
        let label = b"\x7a\x0d\x0a\x06ENUM_1\x12\x03one\x7a\x12\x0a\x0dcnxlostepsecs\x12\x019";
        let start = [8, number, 0x12, 1, b'X', 0x18, year, 0x0f, 0x20, 2];
        line(&[&start, &label[..]].concat())
    };
    let value: &[u8] = match number {
        0 | 4 | 11 | 14 => b"\x1a\x03a\x0a\x1b",
        1 | 3 => b"\x18\x7f",
        2 => b"\x1d\0\0\x80\x3f",
        5 => b"\x1d\x0a\0\0\0",
        6 => b"\x19\0\0\0\0\0\0\xf8\x3f",
        7 => b"\x1a\x01a\x1a\x00\x1a\x02\xc3\xa4",
        8 | 10 => b"\x1a\x03\x01\x80\x01",
        9 | 12 => b"\x1a\x08\0\0\x80\x3f\0\0\0\0",
        _ => b"\x1a\x10\0\0\0\0\0\0\xf8\x3f\0\0\0\0\0\0\0\0",
    };
    let fields = b"\x3a\x13\x0a\x0dcnxlostepsecs\x12\x0217\x3a\x09\x0a\x03EGU\x12\x02mm";
    let alarm = b"\x20\x02\x28\x0d";
    let sample = [
        b"\x08\x05\x10\x06",
        value,
        alarm,
        fields,
        b"\x40\x01\x48\x07",
    ]
    .concat();
    let plain = line(&[b"\x08\x07\x10\x08", value].concat());
    let (first, last) = (header(0xea), header(0xeb));
    let mut answer = [&first, &b"\n"[..], &first, &plain, &line(&sample)].concat();
    answer.extend([b"\n", &last[..], &plain].concat());
    answer
}

/// A message as a line.
fn line(message: &[u8]) -> Vec<u8> {
    let mut line = Vec::new();
    for byte in message {
        match byte {
            0x1b => line.extend([0x1b, 1]),
            0x0a => line.extend([0x1b, 2]),
            0x0d => line.extend([0x1b, 3]),
            other => line.push(*other),
        }
    }
    line.push(b'\n');
    line
}

/// Reads an answer whole, in pieces, and with limits that it may exceed.
pub(crate) fn run(bytes: &[u8]) {
    let whole = read(bytes, bytes.len(), Limits::default());
    for size in [1, 16, 1000] {
        assert_eq!(
            read(bytes, size, Limits::default()),
            whole,
            "in pieces of {size}"
        );
    }
    let (rows, summary) = read(bytes, 100, SMALL);
    assert!(rows.len() as u64 == summary.samples && summary.samples <= whole.1.samples);
}

/// The rows as text, and the summary. Values that are not numbers are equal as text.
fn read(bytes: &[u8], size: usize, limits: Limits) -> (Vec<(i64, u8, u16)>, Summary) {
    let mut decoder = Decoder::new(limits);
    let mut rows = Vec::new();
    for piece in bytes.chunks(size.max(1)) {
        let mut rest = piece;
        while !rest.is_empty() {
            rest = &rest[decoder.push(rest)..];
            while !rest.is_empty()
                && let Some(piece) = decoder.take()
            {
                check(&piece, &mut rows);
            }
        }
    }
    let summary = decoder.finish();
    while let Some(piece) = decoder.take() {
        check(&piece, &mut rows);
    }
    (rows, summary)
}

/// All columns have one length, and every row can be read.
fn check(piece: &Piece, rows: &mut Vec<(i64, u8, u16)>) {
    let columns = &piece.columns;
    assert!(!columns.is_empty());
    let lengths = [
        columns.values.len(),
        columns.severities.len(),
        columns.statuses.len(),
    ];
    assert_eq!(lengths, [columns.len(); 3]);
    for row in 0..columns.len() {
        let is_whole = match &columns.values {
            Values::Numbers(_) | Values::Integers(_) => true,
            Values::Texts(lists) => std::str::from_utf8(lists.get(row).unwrap_or(b"\xff")).is_ok(),
            Values::Bytes(lists) => lists.get(row).is_some(),
            Values::NumberArrays(lists) => lists.get(row).is_some(),
            Values::IntegerArrays(lists) => lists.get(row).is_some(),
            Values::TextArrays { texts, ends } => ends[row] as usize <= texts.ends.len(),
        };
        assert!(is_whole, "row {row} of {piece:?}");
        rows.push((
            columns.time_ns[row],
            columns.severities[row],
            columns.statuses[row],
        ));
    }
    assert!(
        columns
            .gaps
            .iter()
            .all(|gap| (gap.row as usize) < columns.len())
    );
    assert!((columns.field_values.iter()).all(|field| (field.row as usize) < columns.len()));
    let _ = (
        piece.metadata.labels(),
        piece.metadata.precision(),
        columns.bins(),
    );
    assert!(piece.metadata.disconnected_since() != Some(i64::MIN));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_read_without_damage() {
        for (seed, payload) in seeds().into_iter().zip(PayloadType::ALL) {
            let (rows, summary) = read(&seed, seed.len(), Limits::default());
            assert_eq!(
                (summary.damaged_lines, summary.samples),
                (0, 3),
                "{payload:?}"
            );
            assert!(!summary.is_cut && rows.iter().any(|row| (row.1, row.2) == (2, 13)));
        }
    }
}
