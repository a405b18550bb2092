//! The content of a page on the wire: a JSON text, then the columns of times and numbers.

use serde::Serialize;

use super::Piece;
use crate::state::history::rows::{RowsText, with_columns};
use crate::state::history::{PastBin, PastGap};

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

#[derive(Debug, Serialize)]
struct PrefaceText {
    held: bool,
    kept_since_ns: Option<String>,
    tick: String,
    epoch: Option<u32>,
    sequence: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    archived: Option<RangeText>,
    #[serde(skip_serializing_if = "Option::is_none")]
    incomplete: Option<String>,
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
        incomplete: preface.incomplete.clone(),
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
