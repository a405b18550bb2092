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
use crate::ingest::RowValue;
use crate::ingest::weight::Weight;
use crate::limits::memory::PvCharge;

/// A value of more bytes is large. Below it, copying a value into a client's frame costs less than a
/// message of its own does.
pub const LARGE_BYTES: usize = 16 << 10;

/// Bytes that a field of a structure takes in a frame beside its name and contents, at least.
const NODE_BYTES: usize = 24;

/// Most bytes of small values that travel together in one frame; what is beyond travels like large ones. Far
/// below the protocol's limit, because a frame holds more of a structure's field than its bytes.
const TOGETHER_BYTES: usize = 16 << 20;

/// Most bytes of values in one frame: the protocol's limit, less what else a frame holds.
pub const MAX_VALUE_BYTES: usize = MAX_FRAME_BYTES - (2 << 20);

/// A mebibyte.
pub const MIB: usize = 1 << 20;

/// Most bytes that a value may take in memory beside its elements and characters: those of a table with a
/// million strings.
const MAX_BESIDE_BYTES: usize = 64 * MIB;

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

/// The same of a service's answer.
#[must_use]
pub fn bytes_of_node(node: &Node) -> usize {
    let mut room = usize::MAX;
    node_fits(node, &mut room);
    usize::MAX - room
}

/// Whether a service's answer is more than a frame may hold.
#[must_use]
pub fn is_beyond_a_frame(node: &Node) -> bool {
    !node_fits(node, &mut { MAX_VALUE_BYTES })
}

/// Why a value can't be kept: no frame holds it, it takes far more memory than it says, or nobody who has
/// the PV has room for it in their budget. Charges what it takes.
pub(super) fn surplus(value: &RowValue, charge: Option<&PvCharge>) -> Option<String> {
    let (RowValue::Blob(blob) | RowValue::Structure { whole: blob, .. }) = value else {
        return None;
    };
    if !blob_fits(blob, &mut { MAX_VALUE_BYTES }) {
        return Some(format!("it has more than {MAX_VALUE_BYTES} bytes"));
    }
    let Weight { contents, beside } = Weight::of(blob);
    if beside > MAX_BESIDE_BYTES {
        return Some(format!(
            "its {} MiB of contents take {} MiB more in memory, and {} MiB are allowed: its server sends too \
             many strings or fields",
            contents / MIB,
            beside / MIB,
            MAX_BESIDE_BYTES / MIB
        ));
    }
    let (charge, bytes) = (charge?, contents + beside);
    let charged = charge.value_bytes();
    if bytes <= charged && bytes >= charged / 2 {
        return None;
    }
    let too_much = charge.set(bytes).err()?;
    // The value before is let go, and to give some back never fails.
    let _ = charge.set(0);
    Some(too_much.to_string())
}

/// What is shown in place of a value that can't be kept: nothing of its type, invalid, and why.
pub(super) fn left_out(latest: &Latest, why: String) -> Latest {
    let (RowValue::Blob(blob) | RowValue::Structure { whole: blob, .. }) = &latest.value else {
        return latest.clone();
    };
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
        message: format!("the value is left out: {why}"),
    };
    Latest {
        value: RowValue::Blob(Arc::new(empty)),
        alarm: Alarm {
            severity: Severity::Invalid,
            status: READ,
        },
        detail: Some(Arc::new(detail)),
        ..latest.clone()
    }
}

/// Whether what would travel of a value is large.
#[must_use]
pub fn is_large(value: &RowValue) -> bool {
    small_bytes(value).is_none()
}

/// Which values of several PVs travel together in one frame, asked in the order of the PVs.
#[derive(Clone, Copy, Debug)]
pub struct Together {
    room: usize,
}

impl Default for Together {
    fn default() -> Self {
        Self {
            room: TOGETHER_BYTES,
        }
    }
}

impl Together {
    /// Whether the next value goes with the others; if not, it goes in a separate frame.
    #[inline]
    #[must_use]
    pub fn takes(&mut self, value: &RowValue) -> bool {
        matches!(value, RowValue::Number(_)) || self.takes_blob(value)
    }

    /// The same of a value that isn't large and has so many bytes.
    pub(super) fn takes_bytes(&mut self, bytes: usize) -> bool {
        takes(&mut self.room, bytes)
    }

    #[inline(never)]
    fn takes_blob(&mut self, value: &RowValue) -> bool {
        small_bytes(value).is_some_and(|bytes| self.takes_bytes(bytes))
    }
}

/// Bytes of what would travel of a value; `None` when that is large.
pub(super) fn small_bytes(value: &RowValue) -> Option<usize> {
    let mut room = LARGE_BYTES;
    let fits = match value {
        RowValue::Number(_) => true,
        RowValue::Blob(blob) | RowValue::Structure { part: blob, .. } => blob_fits(blob, &mut room),
    };
    fits.then_some(LARGE_BYTES - room)
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
    if !takes(room, node.name.len() + NODE_BYTES) {
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
    /// The type and element count that it belongs to; see [`crate::ingest::Row::epoch`].
    pub epoch: u32,
    /// Value, time and alarm, all of it.
    pub latest: Latest,
    /// Updates that were left out just before this one.
    pub skips: Skips,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::{Event, Line, Notice};
    use crate::limits::memory::{Memory, MemoryLimits, Owner};
    use crate::state::table::tests::{Bench, CALM, PV};
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

    fn shown(bench: &Bench) -> (usize, String) {
        let latest = bench.table.entry(PV).latest.as_ref().unwrap();
        let detail = latest.detail.as_deref();
        let message = detail.map_or("", |detail| &detail.message).to_owned();
        let RowValue::Blob(blob) = &latest.value else {
            panic!("{latest:?}");
        };
        (Weight::of(blob).bytes(), message)
    }

    /// A PV that is connected and charged to this client.
    fn charged(bench: &Bench, owner: &Arc<Owner>) -> Line {
        let charge = PvCharge::open(owner, 0).unwrap();
        let line = Line::open_charged(&bench.intake, PV, false, Some(charge));
        line.event(Event::Access {
            read: true,
            write: false,
        });
        line.connected(false);
        line
    }

    #[test]
    fn value_beyond_the_budget_is_left_out_and_says_who_must_act_until_there_is_room() {
        let limits = MemoryLimits {
            client: 3 * MIB,
            ..MemoryLimits::NONE
        };
        let memory = Memory::new(limits);
        let owner = memory.owner("10.0.0.1:1", None);
        let mut bench = Bench::new();
        let line = charged(&bench, &owner);
        let mut shown_of = |bytes: usize| {
            line.update(0, RowValue::Blob(Arc::new(array(bytes))), CALM);
            bench.tick();
            shown(&bench)
        };
        assert_eq!(shown_of(2 * MIB), (2 * MIB, String::new()));
        let (bytes, message) = shown_of(4 * MIB);
        assert_eq!(bytes, 0);
        assert_eq!(
            message,
            "the value is left out: too much at once: 2.0 MiB more, and your connection uses 2.0 MiB of 3.0 \
             MiB: unsubscribe some PVs first or ask for fewer at a time (max_memory_per_client_mib)"
        );
        assert!(memory.used() < MIB, "what isn't kept isn't charged");
        let other = owner.charge(5 * MIB / 2).unwrap();
        assert_eq!(shown_of(MIB).0, 0);
        drop(other);
        assert_eq!(shown_of(MIB), (MIB, String::new()));
        assert_eq!(memory.used() / MIB, 1);
    }

    #[test]
    fn value_of_closed_pv_is_gone_and_so_is_its_charge() {
        let memory = Memory::new(MemoryLimits::NONE);
        let mut bench = Bench::new();
        let line = charged(&bench, &memory.owner("", None));
        let data = Arc::new(array(MIB));
        line.update(0, RowValue::Blob(Arc::clone(&data)), CALM);
        bench.tick();
        assert_eq!(memory.used() / MIB, 1);
        let (pv, opening, event) = (PV, line.opening(), Event::Closed);
        bench.intake.notify(Notice { pv, opening, event });
        line.update(0, RowValue::Blob(Arc::clone(&data)), CALM);
        line.event(Event::Disconnected);
        bench.tick();
        assert!(bench.table.entry(PV).latest.is_none());
        assert_eq!(Arc::strong_count(&data), 1);
        assert_eq!(memory.used(), 0);
    }

    #[test]
    fn few_bytes_that_take_very_much_memory_are_no_value() {
        let mut bench = Bench::new();
        let line = charged(&bench, &Owner::unlimited());
        let absent = vec![Node::default(); 1 << 20];
        let root = Node {
            value: NodeValue::StructureArray(absent),
            ..Node::default()
        };
        let value = BlobValue::Structure(root);
        line.update(0, RowValue::Blob(Arc::new(value)), CALM);
        bench.tick();
        let (bytes, message) = shown(&bench);
        assert!(bytes < 1000, "{bytes}");
        assert!(message.contains("too many strings or fields"), "{message}");
    }

    #[test]
    fn small_values_that_no_frame_can_hold_together_travel_in_frames_of_their_own() {
        const BYTES: usize = 16 << 10;
        let pvs = 2 * TOGETHER_BYTES / BYTES;
        let mut bench = Bench::new();
        let lines: Vec<_> = (0..pvs)
            .map(|pv| Line::open(&bench.intake, PvId(pv as u32), false))
            .collect();
        let value = Arc::new(array(BYTES));
        for line in &lines {
            line.connected(false);
            line.update(0, RowValue::Blob(Arc::clone(&value)), CALM);
        }
        let changes = bench.tick();
        assert_eq!(
            (changes.rows.len(), changes.large.len()),
            (pvs / 2, pvs / 2)
        );
    }

    #[test]
    fn value_that_no_frame_can_hold_is_left_out_and_says_so_until_it_fits() {
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
