//! Turns updates and requests into the bytes of one message.

use flatbuffers::{FlatBufferBuilder, WIPOffset};

mod apart;
mod request;

use self::apart::Aparts;
pub use self::apart::Cut;
pub use self::request::request;
use crate::generated::frame as fb;
use crate::lz4::Packer;
use crate::types::{
    Alarm, Array, BlobValue, Connection, Detail, FrameKind, Limits, Metadata, NameError, Node,
    NodeValue, Outcome, PvId, Reply, SkipCause, Skips, ValueType,
};
use crate::varint::DeltaColumn;

/// From this size on a frame's buffer is given away instead of being copied.
const LARGE_BYTES: usize = 256 << 10;

/// Room for what a frame that follows on a large one has more.
const MORE_BYTES: usize = 16 << 10;

/// A frame in pieces, which together are its message.
#[derive(Debug)]
pub struct Pieces {
    /// The frame, from `start` on.
    pub bytes: Vec<u8>,
    /// Where it begins; before it there is the room that was asked for.
    pub start: usize,
    /// Elements of arrays that stand apart, in the order of their places.
    pub cuts: Vec<Cut>,
}

/// What a row says beside its value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowMarks<'a> {
    /// The alarm, when it differs from the one of the PV's row before.
    pub alarm: Option<Alarm>,
    /// User tag and alarm message, when they differ from those of the PV's row before.
    pub detail: Option<&'a Detail>,
    /// Values that were left out just before this row. Update frames only.
    pub skips: Skips,
    /// The row's number in its PV's stream. Every kind but Update.
    pub sequence: u32,
}

/// Marks of the rows of one kind (numbers or blobs), whose row numbers are known only at the end.
#[derive(Debug, Default)]
struct MarkColumns {
    alarms: Vec<(u32, Alarm)>,
    details: Vec<(u32, WIPOffset<&'static str>, i32)>,
    skips: Vec<(u32, SkipCause, u32)>,
    sequences: Vec<u32>,
}

impl MarkColumns {
    /// Most rows of an Update have no mark at all.
    #[inline]
    fn push(
        &mut self,
        builder: &mut FlatBufferBuilder<'static>,
        row: usize,
        kind: FrameKind,
        marks: RowMarks<'_>,
    ) {
        let none = marks.alarm.is_none() && marks.detail.is_none() && marks.skips == Skips::NONE;
        if kind != FrameKind::Update || !none {
            self.push_some(builder, row, kind, marks);
        }
    }

    #[inline(never)]
    fn push_some(
        &mut self,
        builder: &mut FlatBufferBuilder<'static>,
        row: usize,
        kind: FrameKind,
        marks: RowMarks<'_>,
    ) {
        let row = row as u32;
        if let Some(alarm) = marks.alarm {
            self.alarms.push((row, alarm));
        }
        if let Some(detail) = marks.detail {
            let message = builder.create_string(&detail.message);
            self.details.push((row, message, detail.user_tag));
        }
        if kind != FrameKind::Update {
            self.sequences.push(marks.sequence);
        } else if marks.skips != Skips::NONE {
            let skips = marks.skips.by_cause();
            self.skips
                .extend(skips.map(|(cause, count)| (row, cause, count)));
        }
    }

    fn clear(&mut self) {
        self.alarms.clear();
        self.details.clear();
        self.skips.clear();
        self.sequences.clear();
    }
}

/// Builds frames one after the other and keeps its buffers in between.
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
    /// For a connection with LZ4.
    packing: bool,
    packer: Packer,
    number_marks: MarkColumns,
    blobs: Vec<WIPOffset<fb::Blob<'static>>>,
    blob_marks: MarkColumns,
    metadata: Vec<WIPOffset<fb::Metadata<'static>>>,
    connections: Vec<WIPOffset<fb::Connection<'static>>>,
    reply: Option<(u32, fb::ReplyBody, WIPOffset<flatbuffers::UnionWIPOffset>)>,
    /// Arrays whose elements aren't copied into the frame.
    apart: Aparts,
    /// Bytes of the frame that took the buffer with it; 0 when the buffer is still here.
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

    /// Whether the columns of numbers are to be packed, in this frame and those that follow.
    pub fn packing(&mut self, packing: bool) {
        self.packing = packing;
    }

    /// Starts a frame; what an unfinished one held is forgotten.
    pub fn begin(&mut self, kind: FrameKind, tick: u64, prev_tick: u64) {
        match std::mem::take(&mut self.given_away) {
            0 => self.builder.reset(),
            // A buffer that grows to its size is copied each time that it doubles.
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

    /// Says why the values before a `CatchUp`'s rows were left out.
    pub fn skip_cause(&mut self, cause: SkipCause) {
        self.skip_cause = cause;
    }

    /// Whether the frame would say nothing.
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

    /// Values that its rows say were left out before them. Update frames only.
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

    /// Adds an update whose value is no double.
    pub fn blob(&mut self, id: PvId, time_ns: i64, value: &BlobValue, marks: RowMarks<'_>) {
        self.add_blob(id, time_ns, value, marks);
    }

    /// The largest array of each of these values won't be copied into the frame. Nothing may be added before
    /// this, and `finish_pieces` ends the frame.
    pub fn apart<'a>(&mut self, values: impl IntoIterator<Item = &'a BlobValue>) {
        for value in values {
            self.apart.add(&mut self.builder, value);
        }
    }

    /// Adds an update whose largest array is not copied into the frame but follows it. Nothing may
    /// be added before it, and `finish_pieces` ends the frame.
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

    /// Sets the answer that the frame carries.
    pub fn reply(&mut self, reply_to: u32, reply: &Reply) {
        let builder = &mut self.builder;
        let (kind, body) = match reply {
            Reply::Hello(hello) => {
                let args = fb::HelloArgs {
                    relay_version: Some(builder.create_string(&hello.relay_version)),
                    relay_instance: hello.relay_instance,
                    max_request_bytes: hello.max_request_bytes,
                    max_subscriptions: hello.max_subscriptions,
                    ack_interval_ms: hello.ack_interval_ms,
                    not_found_after_ms: hello.not_found_after_ms,
                    authenticate: hello.authenticate,
                    user: (!hello.user.is_empty()).then(|| builder.create_string(&hello.user)),
                    expires_in_ms: hello.expires_in_ms,
                };
                (
                    fb::ReplyBody::Hello,
                    fb::Hello::create(builder, &args).as_union_value(),
                )
            }
            Reply::Subscribed { ids, errors } => {
                let args = fb::SubscribedArgs {
                    ids: Some(id_vector(builder, ids)),
                    errors: name_errors(builder, errors),
                };
                (
                    fb::ReplyBody::Subscribed,
                    fb::Subscribed::create(builder, &args).as_union_value(),
                )
            }
            Reply::Unsubscribed { ids } => {
                let args = fb::UnsubscribedArgs {
                    ids: Some(id_vector(builder, ids)),
                };
                (
                    fb::ReplyBody::Unsubscribed,
                    fb::Unsubscribed::create(builder, &args).as_union_value(),
                )
            }
            Reply::Got { ids, errors } => {
                let args = fb::GotArgs {
                    ids: Some(id_vector(builder, ids)),
                    errors: name_errors(builder, errors),
                };
                (
                    fb::ReplyBody::Got,
                    fb::Got::create(builder, &args).as_union_value(),
                )
            }
            Reply::Pong {
                client_time_ns,
                relay_time_ns,
            } => {
                let args = fb::PongArgs {
                    client_time_ns: *client_time_ns,
                    relay_time_ns: *relay_time_ns,
                };
                (
                    fb::ReplyBody::Pong,
                    fb::Pong::create(builder, &args).as_union_value(),
                )
            }
            Reply::PutDone { outcome, message } => {
                return self.put_done(reply_to, *outcome, message, None);
            }
            Reply::RpcDone { outcome, message } => {
                return self.rpc_done(reply_to, *outcome, message, None);
            }
            Reply::Error { problem, message } => {
                let args = fb::RequestErrorArgs {
                    problem: fb::RequestProblem(problem.number()),
                    message: Some(builder.create_string(message)),
                };
                (
                    fb::ReplyBody::RequestError,
                    fb::RequestError::create(builder, &args).as_union_value(),
                )
            }
        };
        self.reply = Some((reply_to, kind, body));
    }

    /// Sets the answer to a Put, with what the PV holds if that isn't what was put.
    pub fn put_done(
        &mut self,
        reply_to: u32,
        outcome: Outcome,
        message: &str,
        readback: Option<&Node>,
    ) {
        let builder = &mut self.builder;
        let args = fb::PutDoneArgs {
            outcome: fb::Outcome(outcome.number()),
            message: text_if_any(builder, message),
            readback: readback.map(|held| node(builder, held, &mut self.apart)),
        };
        let done = fb::PutDone::create(builder, &args).as_union_value();
        self.reply = Some((reply_to, fb::ReplyBody::PutDone, done));
    }

    /// Sets the answer to an Rpc, with what the server said.
    pub fn rpc_done(
        &mut self,
        reply_to: u32,
        outcome: Outcome,
        message: &str,
        result: Option<&Node>,
    ) {
        let builder = &mut self.builder;
        let args = fb::RpcDoneArgs {
            outcome: fb::Outcome(outcome.number()),
            message: text_if_any(builder, message),
            result: result.map(|result| node(builder, result, &mut self.apart)),
        };
        let done = fb::RpcDone::create(builder, &args).as_union_value();
        self.reply = Some((reply_to, fb::ReplyBody::RpcDone, done));
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

    /// Ends the frame and gives its bytes, which stay until the next `begin`.
    pub fn finish(&mut self) -> &[u8] {
        let rows = self.values.len();
        let numbers = (rows > 0).then(|| self.finish_numbers());
        let builder = &mut self.builder;
        let (first, second) = (&self.number_marks, &self.blob_marks);
        let blob_row = |row: u32| row + rows as u32;
        let alarms: Vec<_> = (first.alarms.iter().copied())
            .chain(
                second
                    .alarms
                    .iter()
                    .map(|&(row, alarm)| (blob_row(row), alarm)),
            )
            .map(|(row, alarm)| fb::AlarmRow::new(row, alarm.status, alarm.severity.number()))
            .collect();
        let skips: Vec<_> = (first.skips.iter().copied())
            .chain(
                second
                    .skips
                    .iter()
                    .map(|&(row, cause, count)| (blob_row(row), cause, count)),
            )
            .map(|(row, cause, count)| fb::SkipRow::new(row, count, cause.number()))
            .collect();
        let details: Vec<_> = (first.details.iter().copied())
            .chain((second.details.iter()).map(|&(row, text, tag)| (blob_row(row), text, tag)))
            .map(|(row, message, user_tag)| fb::DetailArgs {
                row,
                user_tag,
                message: Some(message),
            })
            .map(|args| fb::Detail::create(builder, &args))
            .collect();
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
    /// Ends the frame and gives its bytes away: those from the returned place on, with at least
    /// `room` before them for a header of the caller's. Large arrays are not copied once more for
    /// it.
    pub fn finish_owned(&mut self, room: usize) -> (Vec<u8>, usize) {
        self.finish();
        self.give_away(room)
    }

    /// The same in pieces, of a frame with arrays that stand apart.
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
        // Without the room, or with so much that it isn't worth keeping.
        (with_room(room, &buffer[start..]), room)
    }
}

fn with_room(room: usize, data: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(room + data.len());
    bytes.resize(room, 0);
    bytes.extend_from_slice(data);
    bytes
}

/// A number of at most 32 bits, a double or a truth value as the one word that it travels in.
fn word_of(value_type: ValueType, number: f64) -> u64 {
    let mut word = [0; 8];
    let mut put = |bytes: &[u8]| word[..bytes.len()].copy_from_slice(bytes);
    match value_type {
        ValueType::Float32 => put(&(number as f32).to_le_bytes()),
        ValueType::Int8 => put(&(number as i8).to_le_bytes()),
        ValueType::UInt8 | ValueType::Boolean => put(&[number as u8]),
        ValueType::Int16 => put(&(number as i16).to_le_bytes()),
        ValueType::UInt16 | ValueType::Enum => put(&(number as u16).to_le_bytes()),
        ValueType::Int32 => put(&(number as i32).to_le_bytes()),
        ValueType::UInt32 => put(&(number as u32).to_le_bytes()),
        _ => put(&number.to_le_bytes()),
    }
    u64::from_le_bytes(word)
}

/// The vector of an array's elements, and to which of those that stand apart it refers.
fn elements(
    builder: &mut FlatBufferBuilder<'static>,
    array: &Array,
    apart: &Aparts,
    refers_to: &mut Option<usize>,
) -> WIPOffset<flatbuffers::Vector<'static, u64>> {
    match apart.vector(array) {
        Some((place, vector)) => {
            *refers_to = Some(place);
            vector
        }
        None => words(builder, &array.data),
    }
}

fn node(
    builder: &mut FlatBufferBuilder<'static>,
    root: &Node,
    apart: &mut Aparts,
) -> WIPOffset<fb::Node<'static>> {
    let mut refers_to = None;
    let mut args = fb::NodeArgs {
        name: text_if_any(builder, &root.name),
        type_id: text_if_any(builder, &root.type_id),
        count: 1,
        ..Default::default()
    };
    let mut fields = |builder: &mut FlatBufferBuilder<'static>, list: &[Node]| {
        let offsets: Vec<_> = list
            .iter()
            .map(|field| node(builder, field, apart))
            .collect();
        Some(builder.create_vector(&offsets))
    };
    let kind = match &root.value {
        NodeValue::Empty => {
            args.count = 0;
            ValueType::Unknown
        }
        NodeValue::Number(value_type, number) => {
            args.data = Some(builder.create_vector(&[word_of(*value_type, *number)]));
            *value_type
        }
        NodeValue::Int64(integer) => {
            args.data = Some(builder.create_vector(&[*integer as u64]));
            ValueType::Int64
        }
        NodeValue::UInt64(integer) => {
            args.data = Some(builder.create_vector(&[*integer]));
            ValueType::UInt64
        }
        NodeValue::Text(text) => {
            args.text = Some(strings(builder, std::slice::from_ref(text)));
            ValueType::String
        }
        NodeValue::TextArray(texts) => {
            args.array = true;
            args.count = texts.len() as u32;
            args.text = Some(strings(builder, texts));
            ValueType::String
        }
        NodeValue::Array(array) => {
            args.array = true;
            args.count = array.count;
            args.data = Some(elements(builder, array, apart, &mut refers_to));
            array.value_type
        }
        NodeValue::Structure(list) => {
            args.fields = fields(builder, list);
            ValueType::Structure
        }
        NodeValue::Union(held) => {
            args.fields = fields(builder, held.as_deref().map_or(&[], std::slice::from_ref));
            ValueType::Union
        }
        NodeValue::Any(held) => {
            args.fields = fields(builder, held.as_deref().map_or(&[], std::slice::from_ref));
            ValueType::Any
        }
        NodeValue::StructureArray(list)
        | NodeValue::UnionArray(list)
        | NodeValue::AnyArray(list) => {
            args.array = true;
            args.count = list.len() as u32;
            args.fields = fields(builder, list);
            match &root.value {
                NodeValue::StructureArray(_) => ValueType::Structure,
                NodeValue::UnionArray(_) => ValueType::Union,
                _ => ValueType::Any,
            }
        }
    };
    args.type_ = value_type(kind);
    let node = fb::Node::create(builder, &args);
    if let Some(place) = refers_to {
        apart.refer(builder, node.value(), fb::Node::VT_DATA, place);
    }
    node
}

/// Packed elements as the words that they travel in.
fn words<'b>(
    builder: &mut FlatBufferBuilder<'b>,
    bytes: &[u8],
) -> WIPOffset<flatbuffers::Vector<'b, u64>> {
    const { assert!(cfg!(target_endian = "little"), "elements are little-endian") };
    if let Ok(words) = bytemuck::try_cast_slice(bytes) {
        return builder.create_vector::<u64>(words);
    }
    let padded = |chunk: &[u8]| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    };
    builder.create_vector_from_iter(bytes.chunks(8).map(padded))
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

fn id_vector<'b>(
    builder: &mut FlatBufferBuilder<'b>,
    ids: &[PvId],
) -> WIPOffset<flatbuffers::Vector<'b, u32>> {
    let numbers: Vec<u32> = ids.iter().map(|id| id.0).collect();
    builder.create_vector(&numbers)
}

type NameErrors<'b> = flatbuffers::Vector<'b, flatbuffers::ForwardsUOffset<fb::NameError<'b>>>;

fn name_errors<'b>(
    builder: &mut FlatBufferBuilder<'b>,
    errors: &[NameError],
) -> Option<WIPOffset<NameErrors<'b>>> {
    if errors.is_empty() {
        return None;
    }
    let mut offsets = Vec::with_capacity(errors.len());
    for error in errors {
        let message = Some(builder.create_string(&error.message));
        let problem = fb::NameProblem(error.problem.number());
        let args = fb::NameErrorArgs {
            index: error.index,
            problem,
            message,
        };
        offsets.push(fb::NameError::create(builder, &args));
    }
    Some(builder.create_vector(&offsets))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode;
    use crate::types::Severity;

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
    fn answer_with_many_large_arrays_holds_all_of_them_and_copies_none() {
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
}
