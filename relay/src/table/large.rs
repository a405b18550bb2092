//! Which updates are too large to travel beside others in one frame?
//!
//! An array or structure of many bytes goes to the clients in a frame of its own, which all of
//! them share and which is written piece by piece, while the small updates of the same tick are
//! on their way already.

use std::sync::Arc;

use pvwire_schema::limits::MAX_FRAME_BYTES;
use pvwire_schema::types::{
    Alarm, Array, BlobValue, Detail, Node, NodeValue, PvId, Severity, Skips,
};

use super::Latest;
use crate::source::RowValue;

/// A value of more bytes is large. Below it, copying a value into a client's frame costs less than a
/// message of its own does.
pub const LARGE_BYTES: usize = 16 << 10;

/// Most bytes of values in one frame: the protocol's limit, less what else a frame holds.
pub const MAX_VALUE_BYTES: usize = MAX_FRAME_BYTES - (2 << 20);

/// Alarm condition of a value that can't be read, as in `alarm.h`.
const READ: u16 = 1;

/// Bytes that a value takes in a frame, about.
#[must_use]
pub fn bytes_of(value: &RowValue) -> usize {
    let mut room = usize::MAX;
    match value {
        RowValue::Number(_) => {}
        RowValue::Blob(blob) | RowValue::Structure { whole: blob, .. } => {
            blob_fits(blob, &mut room);
        }
    }
    usize::MAX - room
}

/// Whether a service's answer is more than a frame may hold.
#[must_use]
pub fn is_beyond_a_frame(node: &Node) -> bool {
    !node_fits(node, &mut { MAX_VALUE_BYTES })
}

/// What is shown in place of a value that is more than a frame may hold: nothing of its type, invalid, and
/// why. `None` when the value may be sent.
pub(super) fn without_surplus(latest: &Latest) -> Option<Latest> {
    let (RowValue::Blob(blob) | RowValue::Structure { whole: blob, .. }) = &latest.value else {
        return None;
    };
    if blob_fits(blob, &mut { MAX_VALUE_BYTES }) {
        return None;
    }
    let empty = match &**blob {
        BlobValue::Array(array) => BlobValue::Array(Array {
            count: 0,
            data: Vec::new().into(),
            ..array.clone()
        }),
        BlobValue::TextArray(_) => BlobValue::TextArray(Vec::new()),
        BlobValue::Structure(root) | BlobValue::StructurePart(root) => BlobValue::Structure(Node {
            name: root.name.clone(),
            type_id: root.type_id.clone(),
            value: NodeValue::Structure(Vec::new()),
        }),
        BlobValue::Text(_) | BlobValue::Int64(_) | BlobValue::UInt64(_) => {
            BlobValue::Text(String::new())
        }
    };
    let detail = Detail {
        user_tag: latest.detail.as_ref().map_or(0, |detail| detail.user_tag),
        message: format!("the value is left out: it has more than {MAX_VALUE_BYTES} bytes"),
    };
    Some(Latest {
        value: RowValue::Blob(Arc::new(empty)),
        alarm: Alarm {
            severity: Severity::Invalid,
            status: READ,
        },
        detail: Some(Arc::new(detail)),
        ..latest.clone()
    })
}

/// Whether what would travel of a value is large.
#[must_use]
pub fn is_large(value: &RowValue) -> bool {
    let mut room = LARGE_BYTES;
    match value {
        RowValue::Number(_) => false,
        RowValue::Blob(blob) | RowValue::Structure { part: blob, .. } => {
            !blob_fits(blob, &mut room)
        }
    }
}

/// Whether so many bytes more fit; what is left of the room.
fn takes(room: &mut usize, bytes: usize) -> bool {
    match room.checked_sub(bytes) {
        Some(rest) => {
            *room = rest;
            true
        }
        None => false,
    }
}

fn texts_fit(texts: &[String], room: &mut usize) -> bool {
    // Each has an offset, a length and a zero at its end.
    texts.iter().all(|text| takes(room, text.len() + 9))
}

fn blob_fits(blob: &BlobValue, room: &mut usize) -> bool {
    match blob {
        BlobValue::Text(text) => takes(room, text.len()),
        BlobValue::TextArray(texts) => texts_fit(texts, room),
        BlobValue::Int64(_) | BlobValue::UInt64(_) => true,
        BlobValue::Array(array) => takes(room, array.data.len()),
        BlobValue::Structure(root) | BlobValue::StructurePart(root) => node_fits(root, room),
    }
}

fn node_fits(node: &Node, room: &mut usize) -> bool {
    if !takes(room, node.name.len() + size_of::<u64>()) {
        return false;
    }
    match &node.value {
        NodeValue::Empty
        | NodeValue::Number(..)
        | NodeValue::Int64(_)
        | NodeValue::UInt64(_)
        | NodeValue::Union(None)
        | NodeValue::Any(None) => true,
        NodeValue::Text(text) => takes(room, text.len()),
        NodeValue::TextArray(texts) => texts_fit(texts, room),
        NodeValue::Array(array) => takes(room, array.data.len()),
        NodeValue::Union(Some(held)) | NodeValue::Any(Some(held)) => node_fits(held, room),
        NodeValue::Structure(list)
        | NodeValue::StructureArray(list)
        | NodeValue::UnionArray(list)
        | NodeValue::AnyArray(list) => list.iter().all(|node| node_fits(node, room)),
    }
}

/// An update that goes in a frame of its own: one that is large, or one that came after a large one
/// of its PV in the same tick, so that their order stays.
#[derive(Clone, Debug)]
pub struct LargeRow {
    /// The PV.
    pub pv: PvId,
    /// The type and element count that it belongs to; see [`crate::source::Row::epoch`].
    pub epoch: u32,
    /// Value, time and alarm, all of it.
    pub latest: Latest,
    /// Updates that were left out just before this one.
    pub skips: Skips,
}

#[cfg(test)]
mod tests {
    use super::*;
    use pvwire_schema::types::ValueType;
    use std::sync::Arc;

    fn array(bytes: usize) -> BlobValue {
        BlobValue::array(ValueType::UInt8, bytes as u32, vec![0; bytes])
    }

    fn structure(fields: Vec<NodeValue>) -> Node {
        let field = |value| Node {
            value,
            ..Node::default()
        };
        field(NodeValue::Structure(
            fields.into_iter().map(field).collect(),
        ))
    }

    #[test]
    fn size_of_what_travels_decides() {
        let blob = |blob| RowValue::Blob(Arc::new(blob));
        assert!(!is_large(&RowValue::Number(1.0)));
        assert!(!is_large(&blob(array(LARGE_BYTES))));
        assert!(is_large(&blob(array(LARGE_BYTES + 1))));
        assert!(is_large(&blob(BlobValue::Text(
            "x".repeat(LARGE_BYTES + 1)
        ))));
        assert!(is_large(&blob(BlobValue::TextArray(vec![
            String::new();
            LARGE_BYTES / 8
        ]))));
        let BlobValue::Array(image) = array(LARGE_BYTES) else {
            panic!("an array")
        };
        let image = Node {
            value: NodeValue::Array(image),
            ..Node::default()
        };
        let held = NodeValue::Union(Some(Box::new(image)));
        let whole = Arc::new(BlobValue::Structure(structure(vec![
            NodeValue::Int64(1),
            held,
        ])));
        let part = structure(vec![NodeValue::Int64(1)]);
        assert!(is_large(&RowValue::Blob(Arc::clone(&whole))));
        assert!(!is_large(&RowValue::Structure {
            whole,
            part: Arc::new(BlobValue::StructurePart(part)),
        }));
    }

    #[test]
    fn value_that_no_frame_can_hold_is_left_out_and_says_so_until_it_fits() {
        use crate::source::{Event, Line};
        use crate::table::tests::{Bench, CALM, PV};
        let mut bench = Bench::new();
        let line = Line::open(&bench.intake, PV, false);
        line.event(Event::Access {
            read: true,
            write: false,
        });
        line.connected(false);
        let blob = |blob| RowValue::Blob(Arc::new(blob));
        let held = |bytes: usize| {
            let BlobValue::Array(array) = array(bytes) else {
                panic!("an array")
            };
            structure(vec![NodeValue::Int64(1), NodeValue::Array(array)])
        };
        let whole = |bytes| Arc::new(BlobValue::Structure(held(bytes)));
        let empty = structure(Vec::new());
        let part = |bytes| RowValue::Structure {
            whole: whole(bytes),
            part: Arc::new(BlobValue::StructurePart(structure(vec![NodeValue::Int64(
                1,
            )]))),
        };
        let surplus = MAX_VALUE_BYTES + 1;
        // What comes, what is shown of it, and whether it is said to be left out.
        for (value, shown, is_left_out) in [
            (blob(array(100)), blob(array(100)), false),
            (
                blob(array(MAX_VALUE_BYTES)),
                blob(array(MAX_VALUE_BYTES)),
                false,
            ),
            (blob(array(surplus)), blob(array(0)), true),
            (blob(array(surplus)), blob(array(0)), true),
            (blob(array(7)), blob(array(7)), false),
            (
                RowValue::Blob(whole(surplus)),
                blob(BlobValue::Structure(empty.clone())),
                true,
            ),
            // Small parts of what was left out.
            (part(surplus), blob(BlobValue::Structure(empty)), true),
            (part(10), RowValue::Blob(whole(10)), false),
            (part(10), part(10), false),
        ] {
            line.update(0, value, CALM);
            let changes = bench.tick();
            let sent = match (&changes.rows[..], &changes.large[..]) {
                ([row], []) => &row.value,
                ([], [row]) => &row.latest.value,
                other => panic!("{} rows", other.0.len() + other.1.len()),
            };
            assert!(*sent == shown, "something else is shown");
            let latest = bench.table.entry(PV).latest.as_ref().unwrap();
            assert!(latest.value == shown.into_whole());
            let message = latest.detail.as_ref().map_or("", |detail| &detail.message);
            assert_eq!(message.contains("is left out"), is_left_out, "{message}");
            assert_eq!(latest.alarm.severity == Severity::Invalid, is_left_out);
        }
    }
}
