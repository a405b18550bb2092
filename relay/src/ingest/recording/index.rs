//! The index at the end of a recording: the heads of all chunks with their positions, so that a long one opens at once.
//!
//! A recorder that was killed leaves none; then the heads are read one by one.

use std::io::{self, Read, Seek, SeekFrom};

use super::{HEAD_BYTES, Head};

const MAGIC: &[u8; 8] = b"PVWINDEX";

/// Bytes of a chunk's position and head.
const ENTRY_BYTES: usize = 8 + HEAD_BYTES;

/// Bytes after the entries: the magic, the number of entries, their checksum, and that of all these.
const END_BYTES: usize = 20;

/// The index of what has been written.
#[derive(Debug, Default)]
pub(super) struct Index {
    entries: Vec<u8>,
}

impl Index {
    /// Adds a chunk, which begins at this position of the file.
    pub(super) fn add(&mut self, at: u64, head: Head) {
        self.entries.extend(at.to_le_bytes());
        self.entries.extend(head.to_bytes());
    }

    /// The bytes that end the file.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut end = MAGIC.to_vec();
        end.extend(((self.entries.len() / ENTRY_BYTES) as u32).to_le_bytes());
        end.extend(crc32fast::hash(&self.entries).to_le_bytes());
        end.extend(crc32fast::hash(&end).to_le_bytes());
        [&self.entries[..], &end].concat()
    }
}

/// The heads of the chunks from `from` on, each with the position behind it, as the index at the end of a file of this
/// length has them. `None` if it has none, or a damaged one.
///
/// # Errors
/// When the file can't be read.
pub(super) fn read(
    file: &mut (impl Read + Seek),
    from: u64,
    length: u64,
) -> io::Result<Option<Vec<(Head, u64)>>> {
    let Some(end_at) = length
        .checked_sub(END_BYTES as u64)
        .filter(|at| *at >= from)
    else {
        return Ok(None);
    };
    let mut end = [0; END_BYTES];
    file.seek(SeekFrom::Start(end_at))?;
    file.read_exact(&mut end)?;
    let word = |at: usize| u32::from_le_bytes(end[at..at + 4].try_into().unwrap_or_default());
    let bytes = word(8) as usize * ENTRY_BYTES;
    let entries_at = end_at.checked_sub(bytes as u64).filter(|at| *at >= from);
    let is_end = end[..8] == *MAGIC && word(16) == crc32fast::hash(&end[..16]);
    let Some(entries_at) = entries_at.filter(|_| is_end) else {
        return Ok(None);
    };
    let mut entries = vec![0; bytes];
    file.seek(SeekFrom::Start(entries_at))?;
    file.read_exact(&mut entries)?;
    if crc32fast::hash(&entries) != word(12) {
        return Ok(None);
    }
    let (entries, _) = entries.as_chunks::<ENTRY_BYTES>();
    let mut at = from;
    let chunk = |entry: &[u8; ENTRY_BYTES]| {
        let (position, head) = entry.split_first_chunk()?;
        let head = Head::read(head.try_into().ok()?)?;
        let items = at + HEAD_BYTES as u64;
        let is_next = u64::from_le_bytes(*position) == at;
        at = items + head.packed as u64;
        (is_next && at <= entries_at).then_some((head, items))
    };
    Ok(entries.iter().map(chunk).collect())
}
