//! Writes MCAP, the container that Foxglove and Lichtblick open (<https://mcap.dev/spec>): one schema, channels, and
//! chunks of messages.
//!
//! Each chunk is followed by the index of its messages; the summary at the end has the channels and where the chunks
//! are. The crate `mcap` does the same, but needs `paste`, which is unmaintained (RUSTSEC-2024-0436).

use std::collections::BTreeMap;
use std::io::{self, Write};

use lz4_flex::frame::FrameEncoder;

const MAGIC: &[u8; 8] = b"\x89MCAP0\r\n";

/// A chunk is written when its messages have this many bytes.
const CHUNK_BYTES: usize = 1 << 20;

/// Most channels of a file: their numbers have 16 bits.
pub(super) const MAX_CHANNELS: usize = u16::MAX as usize;

/// Number of the only schema; 0 would mean none.
const SCHEMA: u16 = 1;

const COMPRESSION: &str = "lz4";

/// Kinds of records.
mod kind {
    pub(super) const HEADER: u8 = 0x01;
    pub(super) const FOOTER: u8 = 0x02;
    pub(super) const SCHEMA: u8 = 0x03;
    pub(super) const CHANNEL: u8 = 0x04;
    pub(super) const MESSAGE: u8 = 0x05;
    pub(super) const CHUNK: u8 = 0x06;
    pub(super) const MESSAGE_INDEX: u8 = 0x07;
    pub(super) const CHUNK_INDEX: u8 = 0x08;
    pub(super) const STATISTICS: u8 = 0x0b;
    pub(super) const DATA_END: u8 = 0x0f;
}

/// Fields of a record, one after the other.
#[derive(Default)]
struct Fields(Vec<u8>);

impl Fields {
    fn u16(mut self, number: u16) -> Self {
        self.0.extend(number.to_le_bytes());
        self
    }

    fn u32(mut self, number: u32) -> Self {
        self.0.extend(number.to_le_bytes());
        self
    }

    fn u64(mut self, number: u64) -> Self {
        self.0.extend(number.to_le_bytes());
        self
    }

    /// Bytes after their length.
    fn bytes(mut self, bytes: &[u8]) -> Self {
        self = self.u32(bytes.len() as u32);
        self.0.extend(bytes);
        self
    }

    fn text(self, text: &str) -> Self {
        self.bytes(text.as_bytes())
    }
}

fn push_record(kind: u8, parts: &[&[u8]], to: &mut Vec<u8>) {
    to.push(kind);
    let length: usize = parts.iter().map(|part| part.len()).sum();
    to.extend((length as u64).to_le_bytes());
    parts.iter().for_each(|part| to.extend(*part));
}

/// First and last of some times.
#[derive(Clone, Copy)]
struct Span(u64, u64);

impl Span {
    fn with(span: Option<Self>, first: u64, last: u64) -> Self {
        let Self(from, to) = span.unwrap_or(Self(first, last));
        Self(from.min(first), to.max(last))
    }
}

/// Writes one file.
pub(super) struct Writer<W> {
    to: W,
    /// Bytes written.
    at: u64,
    /// Records of schema and channels, for the summary.
    described: Vec<u8>,
    /// Messages of each channel.
    counts: Vec<u64>,
    /// Records of the next chunk.
    plain: Vec<u8>,
    /// Times and positions of its messages, by channel.
    index: BTreeMap<u16, Vec<(u64, u64)>>,
    chunk_span: Option<Span>,
    span: Option<Span>,
    /// Records of the chunks' indices, for the summary.
    chunks: Vec<u8>,
    chunk_count: u32,
}

impl<W: Write> Writer<W> {
    /// Begins a file whose messages are JSON of this schema (JSON Schema).
    pub(super) fn new(to: W, schema_name: &str, schema: &str) -> io::Result<Self> {
        let mut writer = Self {
            to,
            at: 0,
            described: Vec::new(),
            counts: Vec::new(),
            plain: Vec::new(),
            index: BTreeMap::new(),
            chunk_span: None,
            span: None,
            chunks: Vec::new(),
            chunk_count: 0,
        };
        let mut head = MAGIC.to_vec();
        let library = concat!("pvwire-relay ", env!("CARGO_PKG_VERSION"));
        let fields = Fields::default().text("").text(library);
        push_record(kind::HEADER, &[&fields.0], &mut head);
        writer.write(&head)?;
        let schema = Fields::default()
            .u16(SCHEMA)
            .text(schema_name)
            .text("jsonschema")
            .text(schema);
        writer.describe(kind::SCHEMA, &schema);
        Ok(writer)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.to.write_all(bytes)?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    fn describe(&mut self, kind: u8, fields: &Fields) {
        push_record(kind, &[&fields.0], &mut self.plain);
        push_record(kind, &[&fields.0], &mut self.described);
    }

    pub(super) fn channels(&self) -> usize {
        self.counts.len()
    }

    pub(super) fn messages(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Adds a channel; returns its number. There are at most [`MAX_CHANNELS`].
    pub(super) fn channel(&mut self, topic: &str, metadata: &[(&str, &str)]) -> u16 {
        let channel = self.counts.len() as u16;
        let pairs = metadata
            .iter()
            .fold(Fields::default(), |pairs, (key, value)| {
                pairs.text(key).text(value)
            });
        let fields = Fields::default()
            .u16(channel)
            .u16(SCHEMA)
            .text(topic)
            .text("json")
            .bytes(&pairs.0);
        self.describe(kind::CHANNEL, &fields);
        self.counts.push(0);
        channel
    }

    /// Adds a message. `log_ns` never goes back.
    pub(super) fn message(
        &mut self,
        channel: u16,
        (log_ns, publish_ns): (u64, u64),
        data: &[u8],
    ) -> io::Result<()> {
        let position = self.plain.len() as u64;
        let Some(count) = self.counts.get_mut(usize::from(channel)) else {
            return Err(io::Error::other("a message of an unknown channel"));
        };
        let fields = Fields::default()
            .u16(channel)
            .u32(*count as u32)
            .u64(log_ns)
            .u64(publish_ns);
        *count += 1;
        push_record(kind::MESSAGE, &[&fields.0, data], &mut self.plain);
        let index = self.index.entry(channel).or_default();
        index.push((log_ns, position));
        self.chunk_span = Some(Span::with(self.chunk_span, log_ns, log_ns));
        if self.plain.len() >= CHUNK_BYTES {
            self.write_chunk()?;
        }
        Ok(())
    }

    fn write_chunk(&mut self) -> io::Result<()> {
        // A chunk without messages, in an empty file, has no time.
        let Span(first, last) = self.chunk_span.take().unwrap_or(Span(0, 0));
        let mut encoder = FrameEncoder::new(Vec::new());
        encoder.write_all(&self.plain)?;
        let packed = encoder.finish().map_err(io::Error::other)?;
        let plain_bytes = self.plain.len() as u64;
        let chunk = Fields::default()
            .u64(first)
            .u64(last)
            .u64(plain_bytes)
            .u32(crc32fast::hash(&self.plain))
            .text(COMPRESSION)
            .u64(packed.len() as u64);
        let mut record = Vec::with_capacity(packed.len() + 64);
        push_record(kind::CHUNK, &[&chunk.0, &packed], &mut record);
        let (begin, length) = (self.at, record.len() as u64);
        self.write(&record)?;

        let (mut positions, index_begin) = (Fields::default(), self.at);
        for (channel, messages) in std::mem::take(&mut self.index) {
            positions = positions.u16(channel).u64(self.at);
            let entries = messages.iter();
            let entries = entries.fold(Fields::default(), |entries, (log_ns, position)| {
                entries.u64(*log_ns).u64(*position)
            });
            let index = Fields::default().u16(channel).bytes(&entries.0);
            let mut record = Vec::new();
            push_record(kind::MESSAGE_INDEX, &[&index.0], &mut record);
            self.write(&record)?;
        }
        let index = Fields::default()
            .u64(first)
            .u64(last)
            .u64(begin)
            .u64(length)
            .bytes(&positions.0)
            .u64(self.at - index_begin)
            .text(COMPRESSION)
            .u64(packed.len() as u64)
            .u64(plain_bytes);
        push_record(kind::CHUNK_INDEX, &[&index.0], &mut self.chunks);
        self.chunk_count += 1;
        self.span = Some(Span::with(self.span, first, last));
        self.plain.clear();
        Ok(())
    }

    /// Writes what waits, and the summary. Returns the bytes of the file.
    pub(super) fn finish(mut self) -> io::Result<u64> {
        if !self.plain.is_empty() {
            self.write_chunk()?;
        }
        let mut end = Vec::new();
        push_record(kind::DATA_END, &[&[0; 4]], &mut end);
        self.write(&end)?;

        let summary_begin = self.at;
        let counts = self.counts.iter().zip(0_u16..);
        let counts = counts.fold(Fields::default(), |counts, (count, channel)| {
            counts.u16(channel).u64(*count)
        });
        let Span(first, last) = self.span.unwrap_or(Span(0, 0));
        let statistics = Fields::default()
            .u64(self.messages())
            .u16(1)
            .u32(self.counts.len() as u32)
            // Attachments and metadata records.
            .u32(0)
            .u32(0)
            .u32(self.chunk_count)
            .u64(first)
            .u64(last)
            .bytes(&counts.0);
        let mut summary = std::mem::take(&mut self.described);
        push_record(kind::STATISTICS, &[&statistics.0], &mut summary);
        summary.append(&mut self.chunks);
        // No positions of the summary's parts, and no checksum.
        let footer = Fields::default().u64(summary_begin).u64(0).u32(0);
        push_record(kind::FOOTER, &[&footer.0], &mut summary);
        summary.extend(MAGIC);
        self.write(&summary)?;
        self.to.flush()?;
        Ok(self.at)
    }
}
