//! The decoder: bytes of an answer in, pieces of columns out.

use std::mem;
use std::sync::Arc;

use crate::columns::Columns;
use crate::header::{Header, Metadata, PayloadType};
use crate::lines::Lines;
use crate::sample;

/// Largest limit: positions in columns have 32 bits, and a piece may exceed its limit by one line.
const MAX_LIMIT: usize = 256 << 20;

/// Bounds of the decoder's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest line in bytes, without its escapes; longer ones are skipped and counted. At most 256 MiB. Default:
    /// 32 MiB, an array of four million doubles.
    pub max_line_bytes: usize,
    /// The decoder takes no more bytes while a piece has this many, until the piece is taken. A piece can exceed it
    /// by one line. At most 256 MiB. Default: 4 MiB, some 200,000 doubles.
    pub max_piece_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_line_bytes: 32 << 20,
            max_piece_bytes: 4 << 20,
        }
    }
}

/// Samples of one PV and type that follow each other.
#[derive(Clone, Debug, PartialEq)]
pub struct Piece {
    /// Name of the PV, as the appliance spells it. With `getDataForPVs` pieces of several PVs follow each other.
    pub pv: String,
    /// Type of the samples. It depends on the data if an operator such as `optimized_N` was requested.
    pub payload: PayloadType,
    /// Elements of an array when its archiving began; later samples can have other lengths.
    pub element_count: Option<u32>,
    /// What the headers up to the end of this piece say about the PV.
    pub metadata: Arc<Metadata>,
    /// The samples.
    pub columns: Columns,
}

/// What an answer contained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Samples that were decoded.
    pub samples: u64,
    /// Lines that could not be read, and samples after a header that could not be read. They were skipped.
    pub damaged_lines: u64,
    /// Lines that exceeded the limit. They were skipped.
    pub long_lines: u64,
    /// The answer ended within a line, which was skipped: the connection was lost, or the appliance failed.
    pub is_cut: bool,
}

/// The header whose samples are read.
#[derive(Debug)]
struct Stream {
    header: Header,
    metadata: Arc<Metadata>,
    columns: Columns,
}

impl Stream {
    fn begin(mut header: Header) -> Self {
        let metadata = Arc::new(mem::take(&mut header.metadata));
        Self {
            columns: Columns::of(header.payload),
            metadata,
            header,
        }
    }

    /// Goes on after a header of the same PV and type.
    fn resume(&mut self, mut header: Header) {
        let newer = mem::take(&mut header.metadata);
        Arc::make_mut(&mut self.metadata).update(newer);
        self.header = header;
    }

    fn take(&mut self) -> Option<Piece> {
        if self.columns.is_empty() {
            return None;
        }
        let empty = Columns::of(self.header.payload);
        Some(Piece {
            pv: self.header.pv.clone(),
            payload: self.header.payload,
            element_count: self.header.element_count,
            metadata: Arc::clone(&self.metadata),
            columns: mem::replace(&mut self.columns, empty),
        })
    }
}

/// Decodes one answer.
#[derive(Debug)]
pub struct Decoder {
    limits: Limits,
    lines: Lines,
    /// The next line is a header: it is the first one, or the one after an empty line.
    expects_header: bool,
    stream: Option<Stream>,
    /// A piece that a header of another PV or type has ended.
    ended: Option<Piece>,
    summary: Summary,
}

impl Decoder {
    /// A decoder for one answer.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        let max_line_bytes = limits.max_line_bytes.min(MAX_LIMIT);
        Self {
            limits: Limits {
                max_line_bytes,
                max_piece_bytes: limits.max_piece_bytes.min(MAX_LIMIT),
            },
            lines: Lines::new(max_line_bytes),
            expects_header: true,
            stream: None,
            ended: None,
            summary: Summary::default(),
        }
    }

    /// Decodes bytes, which may begin and end anywhere. Returns how many were taken: fewer than given if a piece is
    /// full or ended; then [`take`](Self::take) it and push the rest.
    #[must_use]
    pub fn push(&mut self, bytes: &[u8]) -> usize {
        let mut taken = 0;
        while taken < bytes.len() && !self.is_full() {
            let (more, is_ended) = self.lines.take(&bytes[taken..]);
            taken += more;
            if is_ended {
                self.read_line();
                self.lines.next();
            }
        }
        taken
    }

    /// The samples that were decoded since the last piece; `None` if there are none.
    pub fn take(&mut self) -> Option<Piece> {
        let ended = self.ended.take();
        ended.or_else(|| self.stream.as_mut()?.take())
    }

    /// Metadata of the PV of the last header, also if it has no sample; `None` before the first header.
    #[must_use]
    pub fn metadata(&self) -> Option<&Metadata> {
        self.stream.as_ref().map(|stream| &*stream.metadata)
    }

    /// The answer has ended. A line without an end is not decoded. Pieces that were not taken can be taken still.
    pub fn finish(&mut self) -> Summary {
        self.summary.is_cut |= !self.lines.is_empty();
        self.lines.next();
        self.summary
    }

    fn is_full(&self) -> bool {
        let stream = self.stream.as_ref();
        self.ended.is_some()
            || stream.is_some_and(|stream| {
                !stream.columns.is_empty() && stream.columns.bytes() >= self.limits.max_piece_bytes
            })
    }

    fn read_line(&mut self) {
        let Ok(line) = self.lines.line() else {
            let is_long = self.lines.line() == Err(crate::lines::BadLine::TooLong);
            self.summary.long_lines += u64::from(is_long);
            self.summary.damaged_lines += u64::from(!is_long);
            return self.lose_header();
        };
        if line.is_empty() {
            self.expects_header = true;
        } else if mem::take(&mut self.expects_header) {
            match Header::read(line) {
                Ok(header) => self.begin(header),
                Err(_) => {
                    self.summary.damaged_lines += 1;
                    self.end();
                }
            }
        } else {
            let read = (self.stream.as_mut()).is_some_and(|stream| {
                let (payload, year_ns) = (stream.header.payload, stream.header.year_ns);
                sample::read(line, payload, year_ns, &mut stream.columns).is_ok()
            });
            self.summary.samples += u64::from(read);
            self.summary.damaged_lines += u64::from(!read);
        }
    }

    /// If the unreadable line was a header, nothing is known about the samples after it.
    fn lose_header(&mut self) {
        if mem::take(&mut self.expects_header) {
            self.end();
        }
    }

    fn begin(&mut self, header: Header) {
        let is_same = |stream: &&mut Stream| {
            stream.header.pv == header.pv && stream.header.payload == header.payload
        };
        match self.stream.as_mut().filter(is_same) {
            Some(stream) => stream.resume(header),
            None => {
                self.end();
                self.stream = Some(Stream::begin(header));
            }
        }
    }

    fn end(&mut self) {
        if let Some(mut stream) = self.stream.take() {
            // Nothing is pushed while a piece waits, so none is replaced.
            self.ended = stream.take();
        }
    }
}
