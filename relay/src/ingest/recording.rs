//! Recordings: files with the frames that a relay has sent to a client, in the order in which they came.
//!
//! `docs/how-to/replay.md#the-format` describes the format. A file is only appended to, one checked chunk at a time, so a
//! program that is killed loses the frames of the last second and never leaves a file that can't be read.

mod by_pv;
mod frames;
pub(crate) mod grid;
mod index;
mod rows;
#[cfg(test)]
mod tests;

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use pvwire_schema::decode::NumberRow;
use pvwire_schema::limits::MAX_FRAME_BYTES;
use pvwire_schema::types::PvId;
use serde::{Deserialize, Serialize};
use thiserror::Error;

pub(crate) use self::by_pv::ByPv;
use self::frames::{Cut, cut};
use self::index::Index;
pub(crate) use self::rows::Content;
use self::rows::{Packer, Unpacker};
use crate::ops::file_reads::open_to_read;
use crate::ops::latency::wall_ns;

/// First bytes of a recording; the digit is the format's version.
const MAGIC: &[u8; 8] = b"PVWREC\r2";

/// First bytes of a chunk.
const CHUNK_MAGIC: u32 = u32::from_le_bytes(*b"CHNK");

/// Bytes of a chunk before its items.
const HEAD_BYTES: usize = 40;

/// Bytes of an item before its frame.
const ITEM_BYTES: usize = 16;

/// Kinds of items: a frame, the loss of the relay, and a frame whose times and values are in the columns of its chunk.
const FRAME: u32 = 1;
const LOST: u32 = 2;
const CUT_FRAME: u32 = 3;

/// Bytes of a row's time and value.
const ROW_BYTES: usize = 16;

/// A chunk is written when it has this many bytes, or when its first item is this old.
const CHUNK_BYTES: usize = 4 << 20;
const CHUNK_AGE: Duration = Duration::from_secs(1);

/// Longest chunk that is read: one frame may be longer than [`CHUNK_BYTES`].
const MAX_CHUNK_BYTES: usize = MAX_FRAME_BYTES + CHUNK_BYTES + ITEM_BYTES;

/// Within this time after its begin a chunk with the state of all PVs has all of it.
const STATE_NS: i64 = 1_000_000_000;

/// Longest text before the chunks.
const MAX_ABOUT_BYTES: usize = 64 << 20;

/// Names whose PV ids one frame has.
pub const NAMES_PER_REQUEST: usize = 10_000;

/// A recording that can't be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RecordingError {
    /// The file can't be read or written.
    #[error(transparent)]
    File(#[from] io::Error),
    /// The file has another format.
    #[error("not a recording of pvwire-relay record")]
    NotARecording,
    /// Another version of the program has written it.
    #[error("the recording has another version of the format")]
    Version,
    /// There is nothing to show.
    #[error("the recording has no frame")]
    Empty,
}

/// What a recording says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// Address of the relay.
    pub relay: String,
    /// Names of the PVs, as they were subscribed.
    pub names: Vec<String>,
}

/// What came at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// A frame of the relay.
    Frame(Bytes),
    /// The connection to the relay was lost.
    Lost,
}

/// What came together, for one who wants only the state that it leaves.
#[derive(Debug)]
pub(crate) struct Past {
    pub(crate) parts: Vec<PastPart>,
    /// PVs of all numbers, and the numbers with their times.
    pub(crate) ids: Vec<PvId>,
    pub(crate) numbers: Vec<Content>,
}

/// A part of what came.
#[derive(Debug)]
pub(crate) enum PastPart {
    Item(Timed),
    /// A frame that has only numbers, each of which is the next update of its PV.
    Numbers(Range<usize>),
}

/// An item with the time at which it came, in nanoseconds past the POSIX epoch.
pub type Timed = (i64, Item);

/// Appends to a recording.
#[derive(Debug)]
pub struct Writer {
    file: File,
    /// Items of the next chunk, and the rows of those that are cut.
    plain: Vec<u8>,
    rows: Vec<NumberRow>,
    packer: Packer,
    index: Index,
    span_ns: Option<(i64, i64)>,
    is_whole: bool,
    begun: Instant,
    /// The clock at the start and since then: times never go backwards.
    clock: (i64, Instant),
    /// Bytes of the file.
    pub bytes: u64,
}

impl Writer {
    /// Begins a recording in a new file.
    ///
    /// # Errors
    /// When the file exists or can't be written.
    pub fn create(path: &Path, about: &About) -> Result<Self, RecordingError> {
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            // It may have values that the relay gives to few users.
            .mode(0o640)
            .open(path)?;
        let text = serde_json::to_vec(about).map_err(io::Error::from)?;
        let mut head = MAGIC.to_vec();
        head.extend((text.len() as u32).to_le_bytes());
        head.extend(crc32fast::hash(&text).to_le_bytes());
        head.extend(text);
        file.write_all(&head)?;
        Ok(Self {
            file,
            plain: Vec::new(),
            rows: Vec::new(),
            packer: Packer::default(),
            index: Index::default(),
            span_ns: None,
            is_whole: false,
            begun: Instant::now(),
            clock: (wall_ns(), Instant::now()),
            bytes: head.len() as u64,
        })
    }

    /// Adds an item that came now. `is_whole`: the state of all PVs follows, so that a replay can begin here.
    ///
    /// # Errors
    /// When the file can't be written.
    pub fn add(&mut self, item: &Item, is_whole: bool) -> Result<(), RecordingError> {
        let (began_ns, began) = self.clock;
        let now_ns = began_ns.saturating_add(began.elapsed().as_nanos() as i64);
        self.add_at(now_ns, item, is_whole)
    }

    /// The same with a time of the caller's clock, which must not go backwards.
    ///
    /// # Errors
    /// When the file can't be written.
    pub fn add_at(
        &mut self,
        now_ns: i64,
        item: &Item,
        is_whole: bool,
    ) -> Result<(), RecordingError> {
        if is_whole {
            self.flush()?;
        }
        if self.span_ns.is_none() {
            (self.is_whole, self.begun) = (is_whole, Instant::now());
        }
        self.span_ns = Some((self.span_ns.map_or(now_ns, |(first, _)| first), now_ns));
        let begin = self.plain.len();
        self.plain.extend(now_ns.to_le_bytes());
        // Kind and length.
        self.plain.extend([0; ITEM_BYTES - 8]);
        let kind = match item {
            Item::Frame(frame) if cut(frame, &mut self.plain, &mut self.rows) => CUT_FRAME,
            Item::Frame(frame) => {
                self.plain.extend(frame);
                FRAME
            }
            Item::Lost => LOST,
        };
        let length = (self.plain.len() - begin - ITEM_BYTES) as u32;
        self.plain[begin + 8..begin + 12].copy_from_slice(&kind.to_le_bytes());
        self.plain[begin + 12..begin + 16].copy_from_slice(&length.to_le_bytes());
        self.flush_in_time()
    }

    /// Writes the chunk if it is large or old enough. Called at least once a second.
    ///
    /// # Errors
    /// When the file can't be written.
    pub fn flush_in_time(&mut self) -> Result<(), RecordingError> {
        let bytes = self.plain.len() + self.rows.len() * ROW_BYTES;
        if bytes >= CHUNK_BYTES || self.begun.elapsed() >= CHUNK_AGE {
            self.flush()?;
        }
        Ok(())
    }

    /// Writes what waits.
    ///
    /// # Errors
    /// When the file can't be written.
    pub fn flush(&mut self) -> Result<(), RecordingError> {
        let Some((first_ns, last_ns)) = self.span_ns.take() else {
            return Ok(());
        };
        if self.is_whole {
            self.packer.restart();
        }
        let items = lz4_flex::block::compress(&self.plain);
        let mut packed = (items.len() as u32).to_le_bytes().to_vec();
        packed.extend(items);
        packed.extend(self.packer.pack(&self.rows));
        let head = Head {
            packed: packed.len(),
            plain: self.plain.len(),
            is_whole: self.is_whole,
            first_ns,
            last_ns,
            checksum: crc32fast::hash(&packed),
        };
        let mut chunk = head.to_bytes().to_vec();
        chunk.extend(packed);
        self.file.write_all(&chunk)?;
        self.index.add(self.bytes, head);
        self.bytes += chunk.len() as u64;
        self.plain.clear();
        self.plain.shrink_to(CHUNK_BYTES);
        self.rows.clear();
        Ok(())
    }

    /// Writes what waits, and the index, with which the recording opens at once.
    ///
    /// # Errors
    /// When the file can't be written.
    pub fn finish(&mut self) -> Result<(), RecordingError> {
        self.flush()?;
        let index = self.index.to_bytes();
        self.file.write_all(&index)?;
        self.bytes += index.len() as u64;
        Ok(())
    }
}

/// What stands before a chunk's items.
#[derive(Clone, Copy, Debug)]
struct Head {
    packed: usize,
    plain: usize,
    is_whole: bool,
    first_ns: i64,
    last_ns: i64,
    checksum: u32,
}

impl Head {
    fn to_bytes(self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        let words = [
            CHUNK_MAGIC,
            self.packed as u32,
            self.plain as u32,
            u32::from(self.is_whole),
            self.checksum,
        ];
        for (to, word) in bytes.chunks_exact_mut(4).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        bytes[20..28].copy_from_slice(&self.first_ns.to_le_bytes());
        bytes[28..36].copy_from_slice(&self.last_ns.to_le_bytes());
        let checksum = crc32fast::hash(&bytes[..36]);
        bytes[36..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// `None` if the bytes are not a head.
    fn read(bytes: &[u8; HEAD_BYTES]) -> Option<Self> {
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap_or_default());
        let long = |at: usize| i64::from_le_bytes(bytes[at..at + 8].try_into().unwrap_or_default());
        let head = Self {
            packed: word(4) as usize,
            plain: word(8) as usize,
            is_whole: word(12) & 1 == 1,
            checksum: word(16),
            first_ns: long(20),
            last_ns: long(28),
        };
        let is_head = word(0) == CHUNK_MAGIC && word(36) == crc32fast::hash(&bytes[..36]);
        let fits = head.plain <= MAX_CHUNK_BYTES && head.packed <= 2 * MAX_CHUNK_BYTES;
        (is_head && fits).then_some(head)
    }
}

/// Reads a recording.
#[derive(Debug)]
pub struct Reader {
    file: File,
    /// Heads of the chunks, with the positions of their items in the file.
    chunks: Vec<(Head, u64)>,
    next: usize,
    unpacker: Unpacker,
    /// A chunk was damaged: those after it can't be read until the next state of all PVs.
    is_lost: bool,
    /// What the recording says about itself.
    pub about: About,
    /// Bytes at the end that are not a whole chunk.
    pub torn_bytes: u64,
}

impl Reader {
    /// Opens a recording and reads the heads of its chunks.
    ///
    /// # Errors
    /// When the file isn't a recording, or has no frame.
    pub fn open(path: &Path) -> Result<Self, RecordingError> {
        let mut file = open_to_read(path).map_err(io::Error::from)?;
        let length = file.metadata()?.len();
        let mut head = [0; 16];
        let magic = file.read_exact(&mut head);
        magic.map_err(|_| RecordingError::NotARecording)?;
        let word = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().unwrap_or_default());
        let about_bytes = word(8) as usize;
        let is_whole = 16 + about_bytes as u64 <= length && about_bytes <= MAX_ABOUT_BYTES;
        let (kind, version) = MAGIC.split_at(7);
        if head[..7] == *kind && head[7..8] != *version {
            return Err(RecordingError::Version);
        }
        if head[..8] != *MAGIC || !is_whole {
            return Err(RecordingError::NotARecording);
        }
        let mut text = vec![0; about_bytes];
        file.read_exact(&mut text)?;
        if crc32fast::hash(&text) != word(12) {
            return Err(RecordingError::NotARecording);
        }
        let about = serde_json::from_slice(&text).map_err(|_| RecordingError::NotARecording)?;
        let mut reader = Self {
            file,
            chunks: Vec::new(),
            next: 0,
            unpacker: Unpacker::default(),
            is_lost: false,
            about,
            torn_bytes: 0,
        };
        reader.index(16 + about_bytes as u64, length)?;
        if reader.chunks.is_empty() {
            return Err(RecordingError::Empty);
        }
        Ok(reader)
    }

    /// Reads the index, or the heads of the chunks, up to the first that isn't whole.
    fn index(&mut self, from: u64, length: u64) -> Result<(), RecordingError> {
        if let Some(chunks) = index::read(&mut self.file, from, length)? {
            self.chunks = chunks;
            return Ok(());
        }
        let mut at = from;
        while at + HEAD_BYTES as u64 <= length {
            let mut bytes = [0; HEAD_BYTES];
            self.file.seek(SeekFrom::Start(at))?;
            self.file.read_exact(&mut bytes)?;
            let Some(head) = Head::read(&bytes) else {
                break;
            };
            let items = at + HEAD_BYTES as u64;
            let end = items + head.packed as u64;
            if end > length {
                break;
            }
            self.chunks.push((head, items));
            at = end;
        }
        self.torn_bytes = length - at;
        Ok(())
    }

    /// Time of the first item, and of the last.
    #[must_use]
    pub fn span_ns(&self) -> (i64, i64) {
        let first = self.chunks.first().map_or(0, |(head, _)| head.first_ns);
        let last = self.chunks.last().map_or(0, |(head, _)| head.last_ns);
        (first, last.max(first))
    }

    /// The next items are those from the last chunk on that has the state of all PVs before this time: what answers the
    /// last of many names comes some milliseconds after the first.
    pub fn go_to(&mut self, time_ns: i64) {
        let is_before = |(head, _): &(Head, u64)| {
            head.is_whole && head.first_ns.saturating_add(STATE_NS) <= time_ns
        };
        self.next = self.chunks.iter().rposition(is_before).unwrap_or(0);
        self.unpacker.restart();
        self.is_lost = false;
    }

    /// The items of the next chunk; `None` at the end. A damaged one counts as a lost relay, because what follows it is
    /// known only from the next state of all PVs on. Chunks before that have no items.
    ///
    /// # Errors
    /// When the file can't be read.
    pub fn next_items(&mut self) -> Result<Option<Vec<Timed>>, RecordingError> {
        let Some(past) = self.next_chunk(|_| false)? else {
            return Ok(None);
        };
        let item = |part| match part {
            PastPart::Item(item) => Some(item),
            PastPart::Numbers(_) => None,
        };
        Ok(Some(past.parts.into_iter().filter_map(item).collect()))
    }

    /// What came in the next chunk, if all of it came until this time; `None` otherwise, and at the end. Frames with
    /// numbers alone, which are most, are not made again.
    ///
    /// # Errors
    /// When the file can't be read.
    pub(crate) fn next_past(&mut self, until_ns: i64) -> Result<Option<Past>, RecordingError> {
        let head = self.chunks.get(self.next).map(|(head, _)| head);
        if head.is_none_or(|head| head.last_ns > until_ns) {
            return Ok(None);
        }
        self.next_chunk(Cut::is_plain)
    }

    /// What came in the next chunk. Of those frames that `is_plain` finds to be, only the numbers are given.
    fn next_chunk(
        &mut self,
        is_plain: fn(&mut Cut) -> bool,
    ) -> Result<Option<Past>, RecordingError> {
        let Some((head, at)) = self.chunks.get(self.next).copied() else {
            return Ok(None);
        };
        self.next += 1;
        if head.is_whole {
            self.unpacker.restart();
            self.is_lost = false;
        }
        let of_parts = |parts| Past {
            parts,
            ids: Vec::new(),
            numbers: Vec::new(),
        };
        if self.is_lost {
            return Ok(Some(of_parts(Vec::new())));
        }
        let mut packed = vec![0; head.packed];
        self.file.seek(SeekFrom::Start(at))?;
        self.file.read_exact(&mut packed)?;
        let is_whole = crc32fast::hash(&packed) == head.checksum;
        let past = is_whole
            .then(|| self.unpacked(&packed, head.plain, is_plain))
            .flatten();
        self.is_lost = past.is_none();
        let lost = || of_parts(vec![PastPart::Item((head.first_ns, Item::Lost))]);
        Ok(Some(past.unwrap_or_else(lost)))
    }

    /// What a chunk has. `None` if the bytes are not those of a chunk.
    fn unpacked(
        &mut self,
        packed: &[u8],
        plain_bytes: usize,
        is_plain: fn(&mut Cut) -> bool,
    ) -> Option<Past> {
        let (length, rest) = packed.split_first_chunk()?;
        let (items, columns) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        let plain = lz4_flex::block::decompress(items, plain_bytes).ok()?;
        let items = parts(&plain)?;
        let ids: Vec<_> = (items.iter())
            .flat_map(|(_, part)| match part {
                Part::Cut(cut) => cut.ids.as_slice(),
                Part::Item(_) => &[],
            })
            .copied()
            .collect();
        let numbers = self.unpacker.unpack(columns, &ids)?;
        let mut at = 0;
        let whole = |(time_ns, part)| {
            let item = match part {
                Part::Item(item) => item,
                Part::Cut(mut cut) => {
                    let of_frame = at..at + cut.ids.len();
                    at = of_frame.end;
                    if is_plain(&mut cut) {
                        return Some(PastPart::Numbers(of_frame));
                    }
                    Item::Frame(Bytes::from(cut.join(numbers.get(of_frame)?)?))
                }
            };
            Some(PastPart::Item((time_ns, item)))
        };
        let parts = items.into_iter().map(whole).collect::<Option<_>>()?;
        Some(Past {
            parts,
            ids,
            numbers,
        })
    }
}

/// An item as a chunk has it.
enum Part {
    Item(Item),
    Cut(Cut),
}

/// The items of a chunk without its columns.
fn parts(plain: &[u8]) -> Option<Vec<(i64, Part)>> {
    let (mut parts, mut at) = (Vec::new(), 0);
    while let Some(head) = plain.get(at..at + ITEM_BYTES) {
        let (time, rest) = head.split_at(8);
        let (kind, length) = rest.split_at(4);
        let word = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().unwrap_or_default());
        let begin = at + ITEM_BYTES;
        at = begin + word(length) as usize;
        let content = plain.get(begin..at)?;
        let part = match word(kind) {
            // A copy: an array that stays would otherwise keep its whole chunk.
            FRAME => Part::Item(Item::Frame(Bytes::copy_from_slice(content))),
            LOST => Part::Item(Item::Lost),
            CUT_FRAME => Part::Cut(Cut::read(content)?),
            // Of a later version.
            _ => continue,
        };
        let time_ns = i64::from_le_bytes(time.try_into().unwrap_or_default());
        parts.push((time_ns, part));
    }
    Some(parts)
}
