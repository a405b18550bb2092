//! States of a PV that the bytes of an input describe, for targets that read PVs.

use pvwire_core::graphql::{Sample, Snapshot};
use pvwire_core::store::{CAUSES, part};
use pvwire_schema::types::{
    Alarm, Array, BlobValue, Connection, ConnectionState, Detail, Limits, Metadata, Node,
    NodeValue, Severity, ValueType,
};

/// Levels of structures in structures, as many as a message may have.
const MAX_DEPTH: usize = 60;

/// Elements of the longest array.
const MANY: usize = 5_000;

const TEXTS: [&str; 8] = [
    "",
    "a",
    "value",
    "labels",
    "codec",
    "\"q\\\n\u{1}",
    "日本語 😀",
    "size",
];

const TYPES: [ValueType; 13] = [
    ValueType::Float64,
    ValueType::Float32,
    ValueType::Int8,
    ValueType::UInt8,
    ValueType::Int16,
    ValueType::UInt16,
    ValueType::Int32,
    ValueType::UInt32,
    ValueType::Int64,
    ValueType::UInt64,
    ValueType::Enum,
    ValueType::Boolean,
    ValueType::String,
];

/// The bytes of an input, one after another; after the last one there are zeros.
pub(crate) struct Bytes<'a>(pub(crate) &'a [u8]);

impl Bytes<'_> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    fn is(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    fn below(&mut self, end: usize) -> usize {
        usize::from(self.byte()) % end
    }

    fn one<T: Copy, const N: usize>(&mut self, of: [T; N]) -> T {
        of[self.below(N)]
    }

    fn word(&mut self) -> u64 {
        let mut word = [0; 8];
        word.fill_with(|| self.byte());
        u64::from_le_bytes(word)
    }

    fn text(&mut self) -> String {
        self.one(TEXTS).to_owned()
    }

    fn number(&mut self) -> f64 {
        match self.byte() {
            small @ 0..240 => f64::from(small) - 16.0,
            240 => f64::NAN,
            241 => f64::INFINITY,
            242 => -0.0,
            243 => 1e300,
            _ => f64::from_bits(self.word()),
        }
    }

    fn limits(&mut self) -> Limits {
        Limits {
            low: self.number(),
            high: self.number(),
        }
    }

    fn count(&mut self) -> usize {
        self.one([0, 1, 2, 3, 9, 10, 11, MANY])
    }

    fn array(&mut self) -> Array {
        let value_type = self.one(TYPES);
        let size = value_type.element_bytes().unwrap_or(1);
        let count = self.count();
        let elements: Vec<u8> = (0..size.min(count) * size).map(|_| self.byte()).collect();
        let data: Vec<u8> = elements
            .iter()
            .copied()
            .cycle()
            .take(count * size)
            .collect();
        Array {
            value_type,
            count: count as u32,
            data: data.into(),
        }
    }

    fn nodes(&mut self, depth: usize) -> Vec<Node> {
        let count = self.below(4);
        (0..count).map(|_| self.node(depth)).collect()
    }

    fn node(&mut self, depth: usize) -> Node {
        let kind = self.below(if depth == 0 { 7 } else { 14 });
        let held = |bytes: &mut Self| bytes.is().then(|| Box::new(bytes.node(depth - 1)));
        let value = match kind {
            0 => NodeValue::Empty,
            1 => NodeValue::Number(self.one(TYPES), self.number()),
            2 => NodeValue::Int64(self.word() as i64),
            3 => NodeValue::UInt64(self.word()),
            4 => NodeValue::Text(self.text()),
            5 => NodeValue::TextArray(vec![self.text(); self.count()]),
            6 => NodeValue::Array(self.array()),
            7 => NodeValue::Structure(self.nodes(depth - 1)),
            8 => NodeValue::StructureArray(self.nodes(depth - 1)),
            9 => NodeValue::Union(held(self)),
            10 => NodeValue::UnionArray(self.nodes(depth - 1)),
            11 => NodeValue::Any(held(self)),
            12 => NodeValue::AnyArray(self.nodes(depth - 1)),
            // As deep as it can be.
            _ => {
                let inner = self.node(0);
                let nested = |inner, _| Node {
                    value: NodeValue::Structure(vec![inner]),
                    ..Node::default()
                };
                return (0..depth).fold(inner, nested);
            }
        };
        Node {
            name: self.text(),
            type_id: String::new(),
            value,
        }
    }

    fn value(&mut self) -> Value {
        Value::Blob(match self.below(8) {
            0 | 1 => return Value::Number(self.number()),
            2 => BlobValue::Text(self.text()),
            3 => BlobValue::TextArray(vec![self.text(); self.count()]),
            4 => BlobValue::Int64(self.word() as i64),
            5 => BlobValue::UInt64(self.word()),
            6 => BlobValue::Array(self.array()),
            _ => BlobValue::Structure(self.node(MAX_DEPTH)),
        })
    }

    fn connection(&mut self) -> Connection {
        let rights = self.byte();
        let right = |bit: u8| rights & 1 << bit == 0;
        Connection {
            state: self.one([
                ConnectionState::Connected,
                ConnectionState::Connected,
                ConnectionState::Disconnected,
                ConnectionState::Connecting,
                ConnectionState::NotFound,
            ]),
            since_ns: self.one([0, 1_753_000_000_000_000_000, i64::MIN, i64::MAX]),
            read: right(0),
            write: right(1),
            puts: right(2),
            heard_ns: self.one([0, 1_753_000_000_000_000_000, i64::MIN, i64::MAX]),
            write_unknown: !right(3),
        }
    }

    fn metadata(&mut self) -> Metadata {
        let precision = self.one([None, Some(0), Some(2), Some(-1), Some(30), Some(i16::MAX)]);
        Metadata {
            value_type: self.one(TYPES),
            element_count: self.word() as u32,
            units: self.text(),
            precision,
            choices: vec![self.text(); self.below(4)],
            display: self.limits(),
            control: self.limits(),
            warning: self.limits(),
            alarm: self.limits(),
            description: self.text(),
            type_id: self
                .one(["", "epics:nt/NTTable:1.0", "epics:nt/NTNDArray:1.0"])
                .into(),
            form: self.one(["", "Hex", "String", "x"]).into(),
            missing_field: self.text(),
            ..Metadata::default()
        }
    }

    fn alarm(&mut self) -> Alarm {
        let severities = [
            Severity::NoAlarm,
            Severity::Minor,
            Severity::Major,
            Severity::Invalid,
        ];
        Alarm {
            severity: self.one(severities),
            status: self.one([0, 3, 17, 21, 22, 103, 999]),
        }
    }
}

/// A value that is not borrowed.
enum Value {
    Number(f64),
    Blob(BlobValue),
}

/// All that a host knows of one PV.
pub(crate) struct State {
    connection: Connection,
    metadata: Option<Metadata>,
    value: Option<Value>,
    time_ns: i64,
    alarm: Alarm,
    detail: Option<Detail>,
    skipped: f64,
}

impl State {
    pub(crate) fn new(bytes: &mut Bytes<'_>) -> Self {
        let mut state = Self {
            connection: bytes.connection(),
            metadata: None,
            value: None,
            time_ns: 0,
            alarm: Alarm::NONE,
            detail: None,
            skipped: 0.0,
        };
        for _ in 0..3 {
            state.change(bytes);
        }
        state
    }

    /// Changes some parts; returns which.
    pub(crate) fn change(&mut self, bytes: &mut Bytes<'_>) -> u32 {
        let mut parts = 0;
        let which = bytes.byte();
        if which & 1 == 0 {
            // The first value comes with its alarm.
            if self.value.is_none() {
                parts |= part::ALARM;
            }
            self.value = Some(bytes.value());
            self.time_ns = bytes.one([0, -1, 1_753_000_000_123_456_789, i64::MIN, i64::MAX]);
            parts |= part::VALUE | part::TIME;
        }
        if which & 2 == 0 {
            self.metadata = Some(bytes.metadata());
            parts |= part::METADATA;
        }
        if which & 4 != 0 {
            self.alarm = bytes.alarm();
            self.detail = bytes.is().then(|| Detail {
                user_tag: bytes.word() as i32,
                message: bytes.text(),
            });
            parts |= part::ALARM | part::TIME;
        }
        if which & 8 != 0 {
            self.connection = bytes.connection();
            parts |= part::CONNECTION | part::ACCESS;
        }
        if which & 16 != 0 {
            self.skipped += 1.0;
            parts |= part::SKIPPED;
        }
        parts
    }

    pub(crate) fn pv<'a>(&'a self, name: &'a str) -> Snapshot<'a> {
        let pv = Snapshot::new(name, &self.connection, self.metadata.as_ref());
        let pv = pv.with_skips([self.skipped; CAUSES]);
        let sample = match &self.value {
            None => return pv,
            Some(Value::Number(number)) => Sample::Number(*number),
            Some(Value::Blob(blob)) => Sample::Blob(blob),
        };
        pv.with_value(sample, self.time_ns, self.alarm, self.detail.as_ref())
    }
}
