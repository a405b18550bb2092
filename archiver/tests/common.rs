//! Reads answers whole, and rows in the form in which another implementation of protobuf wrote them.

use std::sync::LazyLock;

use pvwire_archiver::{Columns, Decoder, GapCause, Limits, Piece, Summary, Values};
use serde_json::{Value, json};

/// Answers by name, with what another implementation of protobuf read from each; `vectors.py` writes them.
static ANSWERS: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("answers.json")).unwrap());

/// What another implementation read from an answer.
pub(crate) fn expected(name: &str) -> &'static Value {
    let answer = &ANSWERS[name];
    assert!(answer.is_object(), "answers.json has no {name}");
    answer
}

/// The bytes of an answer.
pub(crate) fn bytes(name: &str) -> Vec<u8> {
    let hex = expected(name)["answer"].as_str().unwrap();
    let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(byte).collect()
}

/// Decodes an answer that comes in pieces of `size` bytes.
pub(crate) fn decode(answer: &[u8], size: usize, limits: Limits) -> (Vec<Piece>, Summary) {
    let mut decoder = Decoder::new(limits);
    let mut pieces = Vec::new();
    for piece in answer.chunks(size.max(1)) {
        let mut rest = piece;
        while !rest.is_empty() {
            let taken = decoder.push(rest);
            rest = &rest[taken..];
            while !rest.is_empty()
                && let Some(piece) = decoder.take()
            {
                pieces.push(piece);
            }
        }
    }
    let summary = decoder.finish();
    pieces.extend(std::iter::from_fn(|| decoder.take()));
    (pieces, summary)
}

/// Decodes an answer whose samples are one piece.
pub(crate) fn decode_one(answer: &[u8]) -> (Piece, Summary) {
    let (mut pieces, summary) = decode(answer, answer.len(), Limits::default());
    assert_eq!(pieces.len(), 1);
    (pieces.remove(0), summary)
}

fn text(bytes: &[u8]) -> Value {
    std::str::from_utf8(bytes).unwrap().into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn number(number: f64) -> Value {
    hex(&number.to_be_bytes()).into()
}

/// The value of a row.
pub(crate) fn value(values: &Values, row: usize) -> Value {
    match values {
        Values::Numbers(numbers) => number(numbers[row]),
        Values::Integers(integers) => integers[row].into(),
        Values::Texts(lists) => text(lists.get(row).unwrap()),
        Values::Bytes(lists) => hex(lists.get(row).unwrap()).into(),
        Values::NumberArrays(lists) => {
            let elements = lists.get(row).unwrap().iter();
            elements.map(|element| number(*element)).collect()
        }
        Values::IntegerArrays(lists) => lists.get(row).unwrap().iter().copied().collect(),
        Values::TextArrays { texts, ends } => {
            let start = row.checked_sub(1).map_or(0, |before| ends[before]) as usize;
            let texts = (start..ends[row] as usize).map(|at| text(texts.get(at).unwrap()));
            texts.collect()
        }
    }
}

/// All rows, in the form of the other implementation. Gaps become field values again.
pub(crate) fn rows_of(columns: &Columns) -> Vec<Value> {
    (0..columns.len())
        .map(|row| {
            let mut written = json!({
                "time_ns": columns.time_ns[row].to_string(),
                "value": value(&columns.values, row),
                "severity": columns.severities[row],
                "status": columns.statuses[row],
            });
            let mut fields = Vec::new();
            for gap in columns.gaps.iter().filter(|gap| gap.row as usize == row) {
                let seconds = |ns: Option<i64>| (ns.unwrap_or(0) / 1_000_000_000).to_string();
                fields.push(json!(["cnxlostepsecs", seconds(gap.from_ns)]));
                if gap.cause == GapCause::ArchiverStarted {
                    fields.push(json!(["startup", "true"]));
                }
                fields.push(json!(["cnxregainedepsecs", seconds(gap.to_ns)]));
                written["is_change"] = json!(false);
            }
            let own = columns.field_values.iter();
            for field in own.filter(|field| field.row as usize == row) {
                fields.push(json!([field.name, field.text]));
                written["is_change"] = field.is_change.into();
            }
            if !fields.is_empty() {
                written["fields"] = fields.into();
            }
            if let Some((_, tag)) = columns.user_tags.iter().find(|(at, _)| *at as usize == row) {
                written["user_tag"] = json!(tag);
            }
            written
        })
        .collect()
}
