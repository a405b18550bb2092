//! Encodes frames and requests.

use flatbuffers::{FlatBufferBuilder, WIPOffset};

mod apart;
mod marks;
mod node;
mod reply;
mod request;
use self::apart::Aparts;
pub use self::apart::Cut;
use self::marks::MarkColumns;
pub use self::marks::RowMarks;
use self::node::{elements, node};
pub use self::reply::position_of_reply_to;
pub use self::request::request;
use crate::generated::frame as fb;
use crate::lz4::Packer;
use crate::types::{
    BlobValue, Connection, FrameKind, Limits, Metadata, PvId, SkipCause, ValueType,
};
use crate::varint::DeltaColumn;

/// Minimum size of a frame whose buffer is given away instead of being copied.
const LARGE_BYTES: usize = 256 << 10;

/// Additional capacity of the buffer that replaces a large one.
const MORE_BYTES: usize = 16 << 10;

/// A frame in pieces. Concatenated, they are the message.
#[derive(Debug)]
pub struct Pieces {
    /// The frame, from `start` on.
    pub bytes: Vec<u8>,
    /// Where the frame begins in `bytes`, after the room that the caller requested.
    pub start: usize,
    /// Elements of arrays that are not copied into `bytes`, by ascending position.
    pub cuts: Vec<Cut>,
}

/// Builds one frame after another and reuses its buffers.
///
/// `begin`, any number of rows and parts, `finish`. Rows of one PV stay in the order they came in.
#[derive(Default)]
pub struct FrameEncoder {
    builder: FlatBufferBuilder<'static>,
    kind: FrameKind,
    tick: u64,
    prev_tick: u64,
    ids: DeltaColumn,
    times: DeltaColumn,
    skip_cause: SkipCause,
    base_time_ns: i64,
    values: Vec<f64>,
    /// Pack the columns of numbers with LZ4.
    packing: bool,
    packer: Packer,
    number_marks: MarkColumns,
    blobs: Vec<WIPOffset<fb::Blob<'static>>>,
    blob_marks: MarkColumns,
    metadata: Vec<WIPOffset<fb::Metadata<'static>>>,
    connections: Vec<WIPOffset<fb::Connection<'static>>>,
    reply: Option<(u32, fb::ReplyBody, WIPOffset<flatbuffers::UnionWIPOffset>)>,
    /// Arrays whose elements are not copied into the frame.
    apart: Aparts,
    /// Length of the last frame if it took the buffer with it; 0 otherwise.
    given_away: usize,
}

impl std::fmt::Debug for FrameEncoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FrameEncoder")
            .field("kind", &self.kind)
            .field("tick", &self.tick)
            .field("rows", &self.rows())
            .finish_non_exhaustive()
    }
}

impl FrameEncoder {
    /// An encoder with empty buffers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets whether the columns of numbers are packed, in this frame and the following ones.
    pub fn packing(&mut self, packing: bool) {
        self.packing = packing;
    }

    /// Starts a frame. The content of an unfinished one is discarded.
    pub fn begin(&mut self, kind: FrameKind, tick: u64, prev_tick: u64) {
        match std::mem::take(&mut self.given_away) {
            0 => self.builder.reset(),
            // Growing to this size would copy the buffer each time it doubles.
            bytes => self.builder = FlatBufferBuilder::with_capacity(bytes + MORE_BYTES),
        }
        (self.kind, self.tick, self.prev_tick) = (kind, tick, prev_tick);
        self.ids.begin(0);
        self.skip_cause = SkipCause::Unknown;
        self.values.clear();
        self.number_marks.clear();
        self.blobs.clear();
        self.blob_marks.clear();
        self.metadata.clear();
        self.connections.clear();
        self.reply = None;
        self.apart.clear();
    }

    /// Sets why values before the rows of a `CatchUp` were skipped.
    pub fn skip_cause(&mut self, cause: SkipCause) {
        self.skip_cause = cause;
    }

    /// Whether the frame has no content.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows() == 0
            && self.metadata.is_empty()
            && self.connections.is_empty()
            && self.reply.is_none()
    }

    /// Number of value rows so far.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.values.len() + self.blobs.len()
    }

    /// Number of values that its rows report as skipped. Update frames only.
    #[must_use]
    pub fn skipped(&self) -> u64 {
        let skips = [&self.number_marks.skips, &self.blob_marks.skips];
        let counts = skips.into_iter().flatten();
        counts.map(|(.., count)| u64::from(*count)).sum()
    }

    /// Adds an update of a numeric PV.
    #[inline]
    pub fn number(&mut self, id: PvId, time_ns: i64, value: f64, marks: RowMarks<'_>) {
        if self.values.is_empty() {
            self.base_time_ns = time_ns;
            self.times.begin(time_ns);
        }
        let row = self.values.len();
        self.number_marks
            .push(&mut self.builder, row, self.kind, marks);
        self.ids.push(i64::from(id.0));
        self.times.push(time_ns);
        self.values.push(value);
    }

    /// Adds an update whose value is not a double.
    pub fn blob(&mut self, id: PvId, time_ns: i64, value: &BlobValue, marks: RowMarks<'_>) {
        self.add_blob(id, time_ns, value, marks);
    }

    /// Sends the largest array of each of these values apart from the frame. Must be called before
    /// anything is added; `finish_pieces` ends the frame.
    pub fn apart<'a>(&mut self, values: impl IntoIterator<Item = &'a BlobValue>) {
        for value in values {
            self.apart.add(&mut self.builder, value);
        }
    }

    /// Adds an update whose largest array is sent apart from the frame. Must be called before anything
    /// else is added; `finish_pieces` ends the frame.
    pub fn blob_apart(&mut self, id: PvId, time_ns: i64, value: &BlobValue, marks: RowMarks<'_>) {
        self.apart([value]);
        self.add_blob(id, time_ns, value, marks);
    }

    fn add_blob(&mut self, id: PvId, time_ns: i64, value: &BlobValue, marks: RowMarks<'_>) {
        let (builder, apart) = (&mut self.builder, &mut self.apart);
        let mut refers_to = None;
        self.blob_marks
            .push(builder, self.blobs.len(), self.kind, marks);
        let mut args = fb::BlobArgs {
            id: id.0,
            time_ns,
            type_: value_type(value.value_type()),
            ..Default::default()
        };
        match value {
            BlobValue::Text(text) => {
                args.count = 1;
                args.text = Some(strings(builder, std::slice::from_ref(text)));
            }
            BlobValue::TextArray(texts) => {
                args.array = true;
                args.count = texts.len() as u32;
                args.text = Some(strings(builder, texts));
            }
            BlobValue::Int64(integer) => {
                args.count = 1;
                args.data = Some(builder.create_vector(&[*integer as u64]));
            }
            BlobValue::UInt64(integer) => {
                args.count = 1;
                args.data = Some(builder.create_vector(&[*integer]));
            }
            BlobValue::Array(array) => {
                args.array = true;
                args.count = array.count;
                args.data = Some(elements(builder, array, apart, &mut refers_to));
            }
            BlobValue::Structure(root) | BlobValue::StructurePart(root) => {
                args.count = 1;
                args.structure = Some(node(builder, root, apart));
                args.partial = matches!(value, BlobValue::StructurePart(_));
            }
        }
        let blob = fb::Blob::create(builder, &args);
        if let Some(place) = refers_to {
            apart.refer(builder, blob.value(), fb::Blob::VT_DATA, place);
        }
        self.blobs.push(blob);
    }

    /// Adds a PV's metadata.
    pub fn metadata(&mut self, id: PvId, metadata: &Metadata) {
        let builder = &mut self.builder;
        let args = fb::MetadataArgs {
            id: id.0,
            type_: value_type(metadata.value_type),
            element_count: metadata.element_count,
            units: Some(builder.create_string(&metadata.units)),
            precision: metadata.precision.unwrap_or(-1),
            choices: (!metadata.choices.is_empty()).then(|| strings(builder, &metadata.choices)),
            display: limits(builder, metadata.display),
            control: limits(builder, metadata.control),
            warning: limits(builder, metadata.warning),
            alarm: limits(builder, metadata.alarm),
            description: text_if_any(builder, &metadata.description),
            epoch: metadata.epoch,
            type_id: text_if_any(builder, &metadata.type_id),
            form: text_if_any(builder, &metadata.form),
            missing_field: text_if_any(builder, &metadata.missing_field),
        };
        self.metadata.push(fb::Metadata::create(builder, &args));
    }

    /// Adds a PV's connection and access rights.
    pub fn connection(&mut self, id: PvId, connection: Connection) {
        let args = fb::ConnectionArgs {
            id: id.0,
            state: fb::ConnectionState(connection.state.number()),
            since_ns: connection.since_ns,
            read: connection.read,
            write: connection.write,
            puts: connection.puts,
            heard_ns: connection.heard_ns,
            write_unknown: connection.write_unknown,
        };
        self.connections
            .push(fb::Connection::create(&mut self.builder, &args));
    }

    fn finish_numbers(&mut self) -> WIPOffset<fb::Numbers<'static>> {
        let builder = &mut self.builder;
        let (ids, times) = (self.ids.bytes(), self.times.bytes());
        let mut args = fb::NumbersArgs {
            count: self.values.len() as u32,
            base_time_ns: self.base_time_ns,
            ..Default::default()
        };
        let packed = (self.packing).then(|| self.packer.pack(ids, times, &self.values));
        if let Some(packed) = packed.flatten() {
            args.packed = Some(builder.create_vector(packed));
            (args.ids_bytes, args.times_bytes) = (ids.len() as u32, times.len() as u32);
        } else {
            args.ids = Some(builder.create_vector(ids));
            args.times = Some(builder.create_vector(times));
            args.values = Some(builder.create_vector(&self.values));
        }
        fb::Numbers::create(builder, &args)
    }

    /// Ends the frame and returns its bytes, which are valid until the next `begin`.
    pub fn finish(&mut self) -> &[u8] {
        let rows = self.values.len();
        let numbers = (rows > 0).then(|| self.finish_numbers());
        let builder = &mut self.builder;
        let (first, second) = (&self.number_marks, &self.blob_marks);
        let alarms = marks::alarms(first, second, rows);
        let skips = marks::skips(first, second, rows);
        let details = marks::details(builder, first, second, rows);
        let mut args = fb::FrameArgs {
            kind: fb::FrameKind(self.kind.number()),
            tick: self.tick,
            prev_tick: self.prev_tick,
            numbers,
            skip_cause: fb::SkipCause(self.skip_cause.number()),
            ..Default::default()
        };
        if !first.sequences.is_empty() || !second.sequences.is_empty() {
            let sequences = [first.sequences.as_slice(), second.sequences.as_slice()].concat();
            args.sequences = Some(builder.create_vector(&sequences));
        }
        args.alarms = (!alarms.is_empty()).then(|| builder.create_vector(&alarms));
        args.details = (!details.is_empty()).then(|| builder.create_vector(&details));
        args.skips = (!skips.is_empty()).then(|| builder.create_vector(&skips));
        args.blobs = (!self.blobs.is_empty()).then(|| builder.create_vector(&self.blobs));
        args.metadata = (!self.metadata.is_empty()).then(|| builder.create_vector(&self.metadata));
        args.connections =
            (!self.connections.is_empty()).then(|| builder.create_vector(&self.connections));
        if let Some((reply_to, kind, body)) = self.reply.take() {
            (args.reply_to, args.reply_type, args.reply) = (reply_to, kind, Some(body));
        }
        let frame = fb::Frame::create(builder, &args);
        fb::finish_frame_buffer(builder, frame);
        builder.finished_data()
    }
}

impl FrameEncoder {
    /// Ends the frame and returns its buffer and where the frame begins in it, with at least `room`
    /// bytes before it for the caller's header. Large frames are not copied.
    pub fn finish_owned(&mut self, room: usize) -> (Vec<u8>, usize) {
        self.finish();
        self.give_away(room)
    }

    /// Ends a frame with arrays that are sent apart.
    pub fn finish_pieces(&mut self, room: usize) -> Pieces {
        let (mut bytes, start) = self.finish_owned(room);
        let cuts = self.apart.finish(&mut bytes);
        Pieces { bytes, start, cuts }
    }

    fn give_away(&mut self, room: usize) -> (Vec<u8>, usize) {
        let length = self.builder.finished_data().len();
        if length < LARGE_BYTES {
            return (with_room(room, self.builder.finished_data()), room);
        }
        let (buffer, start) = std::mem::take(&mut self.builder).collapse();
        self.given_away = length;
        if (room..=length).contains(&start) {
            return (buffer, start);
        }
        // Too little room before the frame, or a buffer much larger than the frame.
        (with_room(room, &buffer[start..]), room)
    }
}

fn with_room(room: usize, data: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(room + data.len());
    bytes.resize(room, 0);
    bytes.extend_from_slice(data);
    bytes
}

fn text_if_any<'b>(builder: &mut FlatBufferBuilder<'b>, text: &str) -> Option<WIPOffset<&'b str>> {
    (!text.is_empty()).then(|| builder.create_string(text))
}

fn value_type(value_type: ValueType) -> fb::ValueType {
    fb::ValueType(value_type.number())
}

fn strings<'b>(
    builder: &mut FlatBufferBuilder<'b>,
    texts: &[String],
) -> WIPOffset<flatbuffers::Vector<'b, flatbuffers::ForwardsUOffset<&'b str>>> {
    let offsets: Vec<_> = texts
        .iter()
        .map(|text| builder.create_string(text))
        .collect();
    builder.create_vector(&offsets)
}

fn limits<'b>(
    builder: &mut FlatBufferBuilder<'b>,
    limits: Limits,
) -> Option<WIPOffset<fb::Limits<'b>>> {
    let Limits { low, high } = limits;
    (limits != Limits::NONE).then(|| fb::Limits::create(builder, &fb::LimitsArgs { low, high }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode;
    use crate::types::{Alarm, Array, Detail, Node, NodeValue, Reply, Severity, Skips};

    fn of_elements(encoder: &mut FrameEncoder, count: u32) {
        let data: Vec<u8> = (0..count)
            .flat_map(|n| f64::from(n).to_le_bytes())
            .collect();
        let value = BlobValue::array(ValueType::Float64, count, data);
        encoder.begin(FrameKind::Update, 2, 1);
        encoder.blob(PvId(4), 7, &value, RowMarks::default());
    }

    #[test]
    fn frame_given_away_is_the_same_and_has_room_before_it() {
        let (mut giving, mut keeping) = (FrameEncoder::new(), FrameEncoder::new());
        // Larger and smaller in turn; the third fills the buffer that the first one left behind.
        for count in [100_000, 3, 100_000, 40_000, 102_000, 300_000, 0] {
            of_elements(&mut giving, count);
            of_elements(&mut keeping, count);
            let (bytes, start) = giving.finish_owned(10);
            assert!(start >= 10);
            assert_eq!(&bytes[start..], keeping.finish(), "{count} elements");
            assert!(bytes.capacity() <= 2 * (bytes.len() - start) + 2 * MORE_BYTES);
        }
    }

    #[test]
    fn large_frames_of_one_size_are_not_copied() {
        let mut encoder = FrameEncoder::new();
        for _ in 0..3 {
            of_elements(&mut encoder, 100_000);
            let buffer = encoder.finish().as_ptr();
            let (bytes, start) = encoder.give_away(10);
            assert_eq!(bytes[start..].as_ptr(), buffer);
        }
    }

    fn joined(pieces: &Pieces) -> Vec<u8> {
        let (mut joined, mut at) = (Vec::new(), pieces.start);
        for cut in &pieces.cuts {
            joined.extend(&pieces.bytes[at..cut.at]);
            joined.extend(&cut.data);
            joined.resize(joined.len() + cut.padding, 0);
            at = cut.at;
        }
        joined.extend(&pieces.bytes[at..]);
        joined
    }

    #[test]
    fn answer_with_many_large_arrays_holds_all_and_copies_none() {
        let array = |value_type, bytes: Vec<u8>| Array {
            value_type,
            count: bytes.len() as u32,
            data: bytes.into(),
        };
        let bytes = |n: usize| (0..n).map(|byte| (byte * n) as u8).collect::<Vec<_>>();
        let image = |n| {
            let field = |name: &str, value| Node {
                name: name.into(),
                type_id: String::new(),
                value,
            };
            let held = field(
                "ubyteValue",
                NodeValue::Array(array(ValueType::UInt8, bytes(n))),
            );
            let fields = vec![
                field(
                    "codec",
                    NodeValue::Array(array(ValueType::UInt8, bytes(10))),
                ),
                field("value", NodeValue::Union(Some(Box::new(held)))),
                field("dimension", NodeValue::Int64(n as i64)),
            ];
            BlobValue::Structure(field("", NodeValue::Structure(fields)))
        };
        let mut values = Vec::new();
        for n in [4_096, 5_001, 70_003, 8_190] {
            values.push(BlobValue::Array(array(ValueType::UInt8, bytes(n))));
            values.push(image(n + 1));
            values.push(BlobValue::Array(array(ValueType::UInt8, bytes(n / 100))));
        }
        // The elements of two PVs may be the same.
        values.push(values[0].clone());
        let mut encoder = FrameEncoder::new();
        for shown in [values.len(), 2, 1] {
            encoder.begin(FrameKind::Answer, 3, 0);
            encoder.apart(&values[..shown]);
            let ids = (0..shown).map(|n| PvId(n as u32)).collect::<Vec<_>>();
            let reply = Reply::Got {
                ids: ids.clone(),
                errors: Vec::new(),
            };
            encoder.reply(7, &reply);
            encoder.number(PvId(99), 5, 1.5, RowMarks::default());
            for (id, value) in ids.iter().zip(&values) {
                encoder.metadata(*id, &Metadata::default());
                encoder.blob(*id, 7, value, RowMarks::default());
            }
            let pieces = encoder.finish_pieces(10);
            assert_eq!(pieces.cuts.len(), if shown > 2 { 8 } else { shown });
            assert!(pieces.bytes.len() < 10_000, "{}", pieces.bytes.len());
            let joined = joined(&pieces);
            let frame = decode::frame(&joined).unwrap();
            assert_eq!(frame.blobs().count(), shown);
            for (blob, value) in frame.blobs().zip(&values) {
                match value {
                    BlobValue::Array(array) => {
                        assert_eq!((blob.data, blob.data_offset % 8), (&array.data[..], 0));
                    }
                    BlobValue::Structure(root) => {
                        assert_eq!(&blob.structure.unwrap().to_node(), root);
                    }
                    _ => unreachable!("there is no other"),
                }
            }
        }
    }

    #[test]
    fn pieces_make_up_the_message_that_holds_the_same() {
        let alarm = Some(Alarm {
            severity: Severity::Major,
            status: 3,
        });
        let detail = Detail {
            user_tag: 5,
            message: "hot".into(),
        };
        let marks = RowMarks {
            alarm,
            detail: Some(&detail),
            sequence: 9,
            skips: Skips::NONE,
        };
        let field = |name: &str, value| Node {
            name: name.into(),
            type_id: String::new(),
            value,
        };
        let array = |count: u32| {
            let data: Vec<u8> = (0..count).map(|n| n as u8).collect();
            let value_type = ValueType::UInt8;
            let data = data.into();
            Array {
                value_type,
                count,
                data,
            }
        };
        let mut encoder = FrameEncoder::new();
        // What is refused after this one takes nothing of it.
        encoder.begin(FrameKind::Answer, 1, 0);
        encoder.apart([&BlobValue::Array(array(9_000))]);
        for count in [3, 5_000, 5_001, 5_007, 300_001] {
            let image = field("ubyteValue", NodeValue::Array(array(count)));
            let fields = vec![
                field("small", NodeValue::Array(array(9))),
                field("value", NodeValue::Union(Some(Box::new(image)))),
                field("name", NodeValue::Text("camera".into())),
            ];
            for value in [
                BlobValue::Array(array(count)),
                BlobValue::Structure(field("", NodeValue::Structure(fields))),
                BlobValue::TextArray(vec!["long".repeat(3_000); 3]),
            ] {
                encoder.begin(FrameKind::CatchUp, 8, 8);
                encoder.blob_apart(PvId(4), 7, &value, marks);
                encoder.metadata(PvId(4), &Metadata::default());
                let pieces = encoder.finish_pieces(10);
                let is_apart = count >= 5_000 && value.value_type() != ValueType::String;
                assert_eq!(pieces.cuts.is_empty(), !is_apart, "{count}");
                let joined = joined(&pieces);

                let frame = decode::frame(&joined).unwrap();
                let blob = frame.blobs().next().unwrap();
                assert_eq!((blob.id, blob.time_ns), (PvId(4), 7));
                assert_eq!(frame.alarms().next().map(|row| row.alarm), alarm);
                assert_eq!(frame.details().next().unwrap().message, "hot");
                assert_eq!(frame.metadata().count(), 1);
                match &value {
                    BlobValue::Array(array) => {
                        assert_eq!(blob.data, array.data);
                        assert_eq!(blob.data_offset % 8, 0);
                    }
                    BlobValue::Structure(root) => {
                        assert_eq!(&blob.structure.unwrap().to_node(), root);
                    }
                    _ => assert_eq!(blob.text().count(), 3),
                }
            }
        }
    }

    #[test]
    fn answer_to_another_request_differs_in_its_number_alone() {
        let answer = |to: u32| {
            let mut encoder = FrameEncoder::new();
            encoder.begin(FrameKind::Snapshot, 7, 0);
            let (ids, errors) = (vec![PvId(4), PvId(5)], Vec::new());
            encoder.reply(to, &Reply::Subscribed { ids, errors });
            encoder.number(PvId(4), 5, 1.5, RowMarks::default());
            encoder.finish().to_vec()
        };
        let mut frame = answer(3);
        let at = position_of_reply_to(&frame).unwrap();
        frame[at..at + 4].copy_from_slice(&900_000_u32.to_le_bytes());
        assert_eq!(frame, answer(900_000));
        assert_eq!(decode::frame(&frame).unwrap().reply_to(), 900_000);
        // A frame that is no answer has no number.
        let mut encoder = FrameEncoder::new();
        encoder.begin(FrameKind::Update, 7, 6);
        encoder.number(PvId(4), 5, 1.5, RowMarks::default());
        assert_eq!(position_of_reply_to(encoder.finish()), None);
        for cut in 0..frame.len() {
            // Never panics, whatever the bytes are.
            let found = position_of_reply_to(&frame[..cut]);
            assert!(found.is_none_or(|at| at + 4 <= cut));
        }
    }
}
