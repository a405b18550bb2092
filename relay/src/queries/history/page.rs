//! The content of a page on the wire: a JSON text, then the columns of times and numbers.

use pvwire_schema::types::{Alarm, Skips};
use serde::Serialize;

use super::Piece;
use crate::state::history::{PastBin, PastGap, PastSample, PastValue};

/// The JSON text of a page. Rows are numbered within their page.
#[derive(Debug, Serialize)]
struct Head<'a> {
    #[serde(flatten)]
    preface: Option<PrefaceText>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    gaps: Vec<GapText>,
    #[serde(flatten)]
    rows: RowsText<'a>,
    /// Rows, updates, worst severity and status, and updates left out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    bins: Vec<(u32, u32, u8, u16, u32)>,
    last: bool,
}

/// What the text of a page says of its rows.
#[derive(Debug, Default, Serialize)]
pub(super) struct RowsText<'a> {
    /// Row, severity and status, where the alarm differs from that of the row before, and of the first row.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    alarms: Vec<(usize, u8, u16)>,
    /// Row and updates that were left out before it: by relay, source, filter, bus.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    skips: Vec<(usize, u32, u32, u32, u32)>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    texts: Vec<(usize, &'a str)>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    integers: Vec<(usize, String)>,
}

#[derive(Debug, Serialize)]
struct PrefaceText {
    held: bool,
    kept_since_ns: Option<String>,
    tick: String,
    epoch: Option<u32>,
    sequence: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    archived: Option<RangeText>,
}

#[derive(Debug, Serialize)]
struct RangeText {
    from_ns: String,
    to_ns: String,
}

#[derive(Debug, Serialize)]
struct GapText {
    cause: &'static str,
    from_ns: String,
    to_ns: Option<String>,
}

impl From<&PastGap> for GapText {
    fn from(gap: &PastGap) -> Self {
        Self {
            cause: gap.cause.token(),
            from_ns: gap.from_ns.to_string(),
            to_ns: gap.to_ns.map(|ns| ns.to_string()),
        }
    }
}

/// Bytes of a word: the columns of a page are aligned to it.
const WORD: usize = 8;

/// The content of a page. Its length is a multiple of eight.
pub(super) fn content(piece: &Piece, is_last: bool) -> Vec<u8> {
    let preface = piece.preface.as_ref().map(|preface| PrefaceText {
        held: preface.has_held,
        kept_since_ns: preface.kept_since_ns.map(|ns| ns.to_string()),
        tick: preface.tick.to_string(),
        epoch: preface.position.map(|position| position.epoch),
        sequence: preface.position.map(|position| position.sequence),
        archived: preface.archived_ns.map(|(from_ns, to_ns)| RangeText {
            from_ns: from_ns.to_string(),
            to_ns: to_ns.to_string(),
        }),
    });
    let bin = |bin: &PastBin| {
        let severity = bin.worst.severity.number();
        let (status, left_out) = (bin.worst.status, bin.skips.total());
        (bin.samples, bin.updates, severity, status, left_out)
    };
    let head = Head {
        preface,
        gaps: piece.gaps.iter().map(GapText::from).collect(),
        rows: RowsText::of(&piece.samples),
        bins: piece.bins.iter().map(bin).collect(),
        last: is_last,
    };
    with_columns(&head, &piece.samples)
}

impl<'a> RowsText<'a> {
    pub(super) fn of(samples: &'a [PastSample]) -> Self {
        let mut rows = Self::default();
        let mut alarm: Option<Alarm> = None;
        for (row, sample) in samples.iter().enumerate() {
            let now = sample.alarm;
            if alarm.replace(now) != Some(now) {
                rows.alarms.push((row, now.severity.number(), now.status));
            }
            let skips = sample.skips;
            if skips != Skips::NONE {
                (rows.skips).push((row, skips.relay, skips.source, skips.filter, skips.bus));
            }
            match &sample.value {
                PastValue::Number(_) => {}
                PastValue::Int64(number) => rows.integers.push((row, number.to_string())),
                PastValue::UInt64(number) => rows.integers.push((row, number.to_string())),
                PastValue::Text(text) => rows.texts.push((row, text)),
            }
        }
        rows
    }
}

/// A page with this text: the text, then the columns of the rows.
pub(super) fn with_columns(text: &impl Serialize, samples: &[PastSample]) -> Vec<u8> {
    let mut text = serde_json::to_vec(text).expect("numbers and texts can be written as JSON");
    text.resize(text.len().next_multiple_of(WORD), b' ');
    let mut content = Vec::with_capacity(WORD + text.len() + 2 * WORD * samples.len());
    content.extend((text.len() as u32).to_le_bytes());
    content.extend((samples.len() as u32).to_le_bytes());
    content.extend(text);
    content.extend(
        samples
            .iter()
            .flat_map(|sample| sample.time_ns.to_le_bytes()),
    );
    let number = |value: &PastValue| match value {
        PastValue::Number(number) => *number,
        PastValue::Int64(number) => *number as f64,
        PastValue::UInt64(number) => *number as f64,
        PastValue::Text(_) => f64::NAN,
    };
    let numbers = samples.iter().map(|sample| number(&sample.value));
    content.extend(numbers.flat_map(f64::to_le_bytes));
    content
}
