//! Encodes requests.
//!
//! One loop writes all tables, front to back, which keeps the builder of flatbuffers out of the
//! browser's module.

use crate::generated::request as rq;
use crate::types::{Expected, Filter, PutRequest, PutValue, PvId, Request, RequestBody, ValueType};

/// Content of a field. Numbers that are 0 are omitted, as usual in flatbuffers.
enum Field<'a> {
    /// A number and its size in bytes.
    Number(usize, u64),
    Text(&'a str),
    Texts(&'a [String]),
    Ids(&'a [PvId]),
    /// Packed elements; the last word is padded with zeros.
    Words(&'a [u8]),
    Bytes(&'a [u8]),
    /// A vector of one word.
    Word(u64),
    Table(Vec<Self>),
    Tables(Vec<Vec<Self>>),
}

use Field::{Bytes, Ids, Number, Table, Tables, Text, Texts, Word, Words};

const ABSENT: Field<'_> = Number(1, 0);

/// The bytes of one request.
#[must_use]
pub fn request(request: &Request) -> Vec<u8> {
    let (kind, body) = match &request.body {
        RequestBody::Subscribe { names, filter } => {
            let filter = if *filter == Filter::default() {
                ABSENT
            } else {
                let mut fields = vec![
                    number(filter.min_interval_ms),
                    Number(8, filter.deadband.to_bits()),
                    number(filter.every),
                    number(filter.stride),
                    number(filter.max_length),
                    number(filter.points),
                    Number(1, u64::from(filter.float32)),
                ];
                // Without it the bytes are those of releases that don't know it.
                fields.extend(filter.average.then_some(Number(1, 1)));
                Table(fields)
            };
            (rq::RequestBody::Subscribe, vec![Texts(names), filter])
        }
        RequestBody::Unsubscribe { ids } => (rq::RequestBody::Unsubscribe, vec![Ids(ids)]),
        RequestBody::Get {
            names,
            timeout_ms,
            description,
        } => (
            rq::RequestBody::Get,
            vec![
                Texts(names),
                number(*timeout_ms),
                Number(1, u64::from(*description)),
            ],
        ),
        RequestBody::Ack { tick } => (rq::RequestBody::Ack, vec![Number(8, *tick)]),
        RequestBody::Ping { client_time_ns } => (
            rq::RequestBody::Ping,
            vec![Number(8, *client_time_ns as u64)],
        ),
        RequestBody::Put(put) => (rq::RequestBody::Put, fields_of(put)),
        RequestBody::PutMany {
            puts,
            all_permitted,
        } => (
            rq::RequestBody::PutMany,
            vec![
                Tables(puts.iter().map(fields_of).collect()),
                Number(1, u64::from(*all_permitted)),
            ],
        ),
        RequestBody::PutWithin {
            puts,
            all_permitted,
        } => (
            rq::RequestBody::PutWithin,
            vec![
                Tables(puts.iter().map(fields_of).collect()),
                Number(1, u64::from(*all_permitted)),
            ],
        ),
        RequestBody::Rpc {
            name,
            arguments,
            timeout_ms,
        } => {
            let argument = |(name, value)| vec![Text(name), put_value(value)];
            let list = arguments.iter().map(|(name, value)| (name.as_str(), value));
            let list = Tables(list.map(argument).collect());
            (
                rq::RequestBody::Rpc,
                vec![Text(name), list, number(*timeout_ms)],
            )
        }
        RequestBody::Authenticate { token } => (rq::RequestBody::Authenticate, vec![Text(token)]),
        RequestBody::Describe { ids } => (rq::RequestBody::Describe, vec![Ids(ids)]),
        RequestBody::Ask { service, body } => {
            (rq::RequestBody::Ask, vec![Text(service), Bytes(body)])
        }
        RequestBody::Cancel { request } => (rq::RequestBody::Cancel, vec![number(*request)]),
        RequestBody::Pace { interval_ms } => (rq::RequestBody::Pace, vec![number(*interval_ms)]),
    };
    let root = [number(request.id), Number(1, kind.0.into()), Table(body)];
    let mut writer = Writer { bytes: vec![0; 4] };
    writer
        .bytes
        .extend_from_slice(rq::REQUEST_IDENTIFIER.as_bytes());
    let at = writer.table(&root);
    writer.point(0, at);
    writer.bytes
}

fn number<'a>(number: u32) -> Field<'a> {
    Number(4, number.into())
}

fn fields_of(put: &PutRequest) -> Vec<Field<'_>> {
    let expected = put.expected.unwrap_or(Expected {
        sequence: 0,
        epoch: 0,
    });
    vec![
        Text(&put.name),
        put_value(&put.value),
        Number(1, u64::from(put.wait)),
        number(put.timeout_ms),
        number(expected.sequence),
        number(expected.epoch),
    ]
}

fn put_value(value: &PutValue) -> Field<'_> {
    let (value_type, array, count, data, text) = match value {
        PutValue::Number(number) => (ValueType::Float64, false, 1, Word(number.to_bits()), ABSENT),
        PutValue::Int64(integer) => (ValueType::Int64, false, 1, Word(*integer as u64), ABSENT),
        PutValue::UInt64(integer) => (ValueType::UInt64, false, 1, Word(*integer), ABSENT),
        PutValue::Text(text) => {
            let text = Texts(std::slice::from_ref(text));
            (ValueType::String, false, 1, ABSENT, text)
        }
        PutValue::TextArray(texts) => {
            let count = texts.len() as u32;
            (ValueType::String, true, count, ABSENT, Texts(texts))
        }
        PutValue::Array(array) => {
            let data = Words(&array.data);
            (array.value_type, true, array.count, data, ABSENT)
        }
    };
    Table(vec![
        Number(1, value_type.number().into()),
        Number(1, u64::from(array)),
        number(count),
        data,
        text,
    ])
}

struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    fn align(&mut self, align: usize) {
        self.bytes
            .resize(self.bytes.len().next_multiple_of(align), 0);
    }

    fn push(&mut self, number: u64, bytes: usize) {
        self.bytes.extend_from_slice(&number.to_le_bytes()[..bytes]);
    }

    /// Overwrites a number of two or four bytes.
    fn set(&mut self, at: usize, number: usize, bytes: usize) {
        self.bytes[at..at + bytes].copy_from_slice(&number.to_le_bytes()[..bytes]);
    }

    /// Sets the offset at `from` to point to `target`.
    fn point(&mut self, from: usize, target: usize) {
        self.set(from, target - from, 4);
    }

    /// Writes a table with its content and returns its position.
    fn table(&mut self, fields: &[Field<'_>]) -> usize {
        self.align(4);
        let vtable = self.bytes.len();
        let slots = vtable + 4;
        let vtable_bytes = 4 + 2 * fields.len();
        self.push(vtable_bytes as u64, 2);
        self.bytes.resize(vtable + vtable_bytes, 0);
        self.align(4);
        let table = self.bytes.len();
        self.push((table - vtable) as u64, 4);
        for (at, field) in fields.iter().enumerate() {
            let (bytes, number) = match field {
                Number(_, 0) => continue,
                Number(bytes, number) => (*bytes, *number),
                _ => (4, 0),
            };
            self.align(bytes);
            self.set(slots + 2 * at, self.bytes.len() - table, 2);
            self.push(number, bytes);
        }
        self.set(vtable + 2, self.bytes.len() - table, 2);
        for (at, field) in fields.iter().enumerate() {
            let target = match field {
                Number(..) => continue,
                Text(text) => self.text(text),
                Texts(list) => self.list(list.len(), |writer, at| writer.text(&list[at])),
                Ids(ids) => {
                    let bytes: Vec<_> = ids.iter().flat_map(|id| id.0.to_le_bytes()).collect();
                    self.vector(ids.len(), 4, &bytes)
                }
                Word(word) => self.vector(1, 8, &word.to_le_bytes()),
                Bytes(bytes) => self.vector(bytes.len(), 1, bytes),
                Words(bytes) => self.vector(bytes.len().div_ceil(8), 8, bytes),
                Table(fields) => self.table(fields),
                Tables(list) => self.list(list.len(), |writer, at| writer.table(&list[at])),
            };
            let slot = slots + 2 * at;
            let offset = u16::from_le_bytes([self.bytes[slot], self.bytes[slot + 1]]);
            self.point(table + usize::from(offset), target);
        }
        table
    }

    /// A vector of elements of this size in bytes, padded with zeros to a multiple of it.
    fn vector(&mut self, count: usize, bytes: usize, elements: &[u8]) -> usize {
        self.align(4);
        if !(self.bytes.len() + 4).is_multiple_of(bytes) {
            self.push(0, 4);
        }
        let at = self.bytes.len();
        self.push(count as u64, 4);
        self.bytes.extend_from_slice(elements);
        self.align(bytes);
        at
    }

    /// A vector of offsets to what `one` writes.
    fn list(&mut self, count: usize, mut one: impl FnMut(&mut Self, usize) -> usize) -> usize {
        let list = self.vector(count, 4, &vec![0; 4 * count]);
        for at in 0..count {
            let target = one(self, at);
            self.point(list + 4 + 4 * at, target);
        }
        list
    }

    fn text(&mut self, text: &str) -> usize {
        let at = self.vector(text.len(), 1, text.as_bytes());
        self.bytes.push(0);
        at
    }
}
