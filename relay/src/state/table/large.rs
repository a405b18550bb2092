//! Large values: updates that travel in a separate frame, and values that can't be kept at all.
//!
//! An array or structure of many bytes goes to clients in a frame that all of them share and that is
//! written piece by piece, after the small updates of its tick.

use std::sync::Arc;

use pvwire_schema::limits::MAX_FRAME_BYTES;
use pvwire_schema::types::{
    Alarm, Array, BlobValue, Detail, Node, NodeValue, PvId, Severity, Skips,
};

use super::Latest;
use crate::ingest::RowValue;
use crate::ingest::weight::{Measure, Weight, measure, measure_node};
use crate::limits::memory::PvCharge;

/// A value of more bytes is large. Below it, copying a value into a client's frame costs less than a
/// separate message.
pub const LARGE_BYTES: usize = 16 << 10;

/// Minimum bytes of a structure's field in a frame, without its name and contents.
const NODE_BYTES: usize = 24;

/// Maximum bytes of small values in one frame; values beyond it travel like large ones. Far below
/// the protocol's limit, because a field of a structure takes more bytes in a frame than are
/// counted here.
const TOGETHER_BYTES: usize = 16 << 20;

/// Maximum bytes of values in one frame: the protocol's limit, less the rest of a frame.
pub const MAX_VALUE_BYTES: usize = MAX_FRAME_BYTES - (2 << 20);

/// A mebibyte.
pub const MIB: usize = 1 << 20;

/// Maximum bytes of memory that a value may take in addition to its elements and characters: those
/// of a table with a million strings.
const MAX_OVERHEAD_BYTES: usize = 64 * MIB;

/// Alarm status `READ` of `alarm.h`: the value can't be read.
const READ: u16 = 1;

/// Approximate bytes of a value in a frame.
#[must_use]
pub fn bytes_of(value: &RowValue) -> usize {
    let mut space = Space(usize::MAX);
    match value {
        RowValue::Number(_) => {}
        RowValue::Blob(blob) | RowValue::Structure { whole: blob, .. } => {
            measure(blob, &mut space);
        }
    }
    usize::MAX - space.0
}

/// Approximate bytes of a service's answer in a frame.
#[must_use]
pub fn bytes_of_node(node: &Node) -> usize {
    let mut space = Space(usize::MAX);
    measure_node(node, &mut space);
    usize::MAX - space.0
}

/// Whether a service's answer exceeds a frame.
#[must_use]
pub fn is_beyond_a_frame(node: &Node) -> bool {
    !measure_node(node, &mut Space(MAX_VALUE_BYTES))
}

/// Why a value can't be kept: it exceeds a frame, it takes far more memory than its contents, or it
/// exceeds the memory budget of every client that has the PV. Charges its memory otherwise.
pub(super) fn surplus(value: &RowValue, charge: Option<&PvCharge>) -> Option<String> {
    let (RowValue::Blob(blob) | RowValue::Structure { whole: blob, .. }) = value else {
        return None;
    };
    if !measure(blob, &mut Space(MAX_VALUE_BYTES)) {
        return Some(format!("it has more than {MAX_VALUE_BYTES} bytes"));
    }
    let Weight { contents, overhead } = Weight::of(blob);
    if overhead > MAX_OVERHEAD_BYTES {
        return Some(format!(
            "its {} MiB of contents take {} MiB more in memory, and {} MiB are allowed: its server sends too \
             many strings or fields",
            contents / MIB,
            overhead / MIB,
            MAX_OVERHEAD_BYTES / MIB
        ));
    }
    let (charge, bytes) = (charge?, contents + overhead);
    let charged = charge.value_bytes();
    if bytes <= charged && bytes >= charged / 2 {
        return None;
    }
    let too_much = charge.set(bytes).err()?;
    // The value before is released too, and a charge of nothing can't fail.
    let _ = charge.set(0);
    Some(too_much.to_string())
}

/// Stands for a value that can't be kept: an empty value of its type, INVALID, with the reason as the
/// alarm message.
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

/// Whether the part of a value that would travel is large.
#[must_use]
pub fn is_large(value: &RowValue) -> bool {
    small_bytes(value).is_none()
}

/// Decides which values of several PVs travel together in one frame, asked in the order of the PVs.
#[derive(Clone, Copy, Debug)]
pub struct Together {
    bytes_left: usize,
}

impl Default for Together {
    fn default() -> Self {
        Self {
            bytes_left: TOGETHER_BYTES,
        }
    }
}

impl Together {
    /// Whether the next value travels with the others; if not, it travels in a separate frame.
    #[inline]
    #[must_use]
    pub fn takes(&mut self, value: &RowValue) -> bool {
        matches!(value, RowValue::Number(_)) || self.takes_blob(value)
    }

    /// Like `takes`, for a value of this many bytes that isn't large.
    pub(super) fn takes_bytes(&mut self, bytes: usize) -> bool {
        match self.bytes_left.checked_sub(bytes) {
            Some(rest) => {
                self.bytes_left = rest;
                true
            }
            None => false,
        }
    }

    #[inline(never)]
    fn takes_blob(&mut self, value: &RowValue) -> bool {
        small_bytes(value).is_some_and(|bytes| self.takes_bytes(bytes))
    }
}

/// Bytes of the part of a value that would travel; `None` if it is large.
pub(super) fn small_bytes(value: &RowValue) -> Option<usize> {
    let mut space = Space(LARGE_BYTES);
    let fits = match value {
        RowValue::Number(_) => true,
        RowValue::Blob(blob) | RowValue::Structure { part: blob, .. } => measure(blob, &mut space),
    };
    fits.then_some(LARGE_BYTES - space.0)
}

/// Bytes that are left in a frame.
struct Space(usize);

impl Space {
    /// Takes bytes if that many are left.
    fn takes(&mut self, bytes: usize) -> bool {
        match self.0.checked_sub(bytes) {
            Some(rest) => {
                self.0 = rest;
                true
            }
            None => false,
        }
    }
}

impl Measure for Space {
    fn field(&mut self, field: &Node) -> bool {
        self.takes(field.name.len() + NODE_BYTES)
    }

    fn text(&mut self, text: &str) -> bool {
        self.takes(text.len())
    }

    fn texts(&mut self, texts: &[String]) -> bool {
        // Each has an offset, a length and a zero at its end.
        texts.iter().all(|text| self.takes(text.len() + 9))
    }

    fn elements(&mut self, bytes: usize) -> bool {
        self.takes(bytes)
    }
}

/// An update that travels in a separate frame: a large one, a number that came after another form of value of its PV
/// in the same tick (a frame has its numbers first), or one that came after such an update in the same tick.
#[derive(Clone, Debug)]
pub struct LargeRow {
    /// The PV.
    pub pv: PvId,
    /// The type and element count that it belongs to; see [`crate::ingest::Row::epoch`].
    pub epoch: u32,
    /// Value, time, alarm and detail.
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
    fn size_of_the_part_that_travels_decides() {
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

    /// A connected PV whose memory is charged to this client.
    fn charged(bench: &Bench, owner: &Arc<Owner>) -> Line {
        let charge = PvCharge::open(owner, 0).unwrap();
        let line = Line::open_charged(&bench.intake, PV, None, false, Some(charge));
        line.event(Event::Access {
            read: true,
            write: false,
        });
        line.connected(false);
        line.event(Event::Metadata(Box::default()));
        line
    }

    #[test]
    fn value_beyond_the_budget_is_left_out_and_says_who_must_act() {
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
            "the value is left out: this takes 2.0 MiB of memory, and your connection uses 2.0 MiB of 3.0 \
             MiB: unsubscribe some PVs first or ask for fewer at a time (max_memory_per_client_mib)"
        );
        assert!(memory.used() < MIB, "a value that isn't kept isn't charged");
        let other = owner.charge(5 * MIB / 2).unwrap();
        assert_eq!(shown_of(MIB).0, 0);
        drop(other);
        assert_eq!(shown_of(MIB), (MIB, String::new()));
        assert_eq!(memory.used() / MIB, 1);
    }

    #[test]
    fn value_of_a_closed_pv_is_released_with_its_charge() {
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
    fn value_with_too_much_overhead_is_left_out() {
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
    fn small_values_beyond_one_frame_travel_in_separate_frames() {
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
    fn value_larger_than_a_frame_is_left_out_until_it_fits() {
        let mut bench = Bench::new();
        let line = Line::open(&bench.intake, PV, false);
        line.event(Event::Access {
            read: true,
            write: false,
        });
        line.connected(false);
        line.event(Event::Metadata(Box::default()));
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
        // The update, what is shown of it, and whether the alarm message says that it is left out.
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
            // Small parts of a structure that was left out.
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
