//! Pieces of messages above the bus's own limit: how they are named, and how they are put together.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::str::FromStr;

use bytes::{Bytes, BytesMut};

/// The largest message that is sent in pieces.
pub const MAX_MESSAGE: usize = 128 * 1024 * 1024;

/// The name of a piece: its message, its place and how many there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The number of the message; its sender counts all messages that it sends in pieces.
    pub message: u64,
    /// The place of this piece, from 0.
    pub index: u32,
    /// The number of pieces.
    pub count: u32,
}

/// A text that doesn't name a piece.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected MESSAGE/INDEX/COUNT in decimal digits, with INDEX below COUNT")]
pub struct PieceError;

impl fmt::Display for Piece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.message, self.index, self.count)
    }
}

impl FromStr for Piece {
    type Err = PieceError;

    fn from_str(text: &str) -> Result<Self, PieceError> {
        fn number<T: FromStr>(text: Option<&str>) -> Result<T, PieceError> {
            let text = text.filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
            text.and_then(|text| text.parse().ok()).ok_or(PieceError)
        }
        let mut parts = text.split('/');
        let piece = Self {
            message: number(parts.next())?,
            index: number(parts.next())?,
            count: number(parts.next())?,
        };
        if parts.next().is_some() || piece.index >= piece.count {
            return Err(PieceError);
        }
        Ok(piece)
    }
}

/// The pieces of a message, none longer than `limit` bytes.
pub fn split(whole: &Bytes, limit: usize, message: u64) -> impl Iterator<Item = (Piece, Bytes)> {
    let count = whole.len().div_ceil(limit);
    let count = u32::try_from(count).expect("a message has at most MAX_MESSAGE bytes");
    (0..count)
        .zip((0..).step_by(limit))
        .map(move |(index, from)| {
            let to = whole.len().min(from + limit);
            let piece = Piece {
                message,
                index,
                count,
            };
            (piece, whole.slice(from..to))
        })
}

/// What became of a piece.
#[derive(Debug, PartialEq, Eq)]
pub enum Added {
    /// Others are missing.
    Waiting,
    /// It was the last.
    Whole(Bytes),
    /// A piece before it is missing, or there is no memory for it: the message is lost.
    Lost,
}

/// A message is given up if it needs memory that others lack, and none of the last pieces, this many, was one of it:
/// its sender is gone.
const GIVEN_UP_AFTER: u64 = 1_000;

/// Messages of which pieces have come, one for each key. A newer message replaces an unfinished one.
pub struct Assemblies<K> {
    open: HashMap<K, Open>,
    /// Bytes of all unfinished messages, and how many there may be.
    bytes: usize,
    limit: usize,
    /// Pieces so far.
    pieces: u64,
}

struct Open {
    message: u64,
    next: u32,
    /// Number of its last piece among all pieces.
    last: u64,
    parts: BytesMut,
}

impl<K: Hash + Eq + Copy> Assemblies<K> {
    /// Holds at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            open: HashMap::new(),
            bytes: 0,
            limit,
            pieces: 0,
        }
    }

    /// Adds a piece. Pieces of one sender and key come in order.
    pub fn add(&mut self, key: K, piece: Piece, part: &[u8]) -> Added {
        self.pieces += 1;
        if piece.index == 0 {
            self.forget(key);
            let open = Open {
                message: piece.message,
                next: 0,
                last: self.pieces,
                parts: BytesMut::new(),
            };
            self.open.insert(key, open);
        }
        if part.len() > self.limit - self.bytes {
            self.give_up();
        }
        let room = self.limit - self.bytes;
        let Some(open) = self.open.get_mut(&key) else {
            return Added::Lost;
        };
        let in_order = open.message == piece.message && open.next == piece.index;
        let length = open.parts.len() + part.len();
        if !in_order || part.len() > room || length > MAX_MESSAGE {
            self.forget(key);
            return Added::Lost;
        }
        open.parts.extend_from_slice(part);
        open.next += 1;
        open.last = self.pieces;
        self.bytes += part.len();
        if open.next < piece.count {
            return Added::Waiting;
        }
        let whole = std::mem::take(&mut open.parts).freeze();
        self.bytes -= whole.len();
        self.open.remove(&key);
        Added::Whole(whole)
    }

    /// Drops the unfinished message of a key.
    pub fn forget(&mut self, key: K) {
        if let Some(open) = self.open.remove(&key) {
            self.bytes -= open.parts.len();
        }
    }

    /// Drops unfinished messages whose senders are gone.
    fn give_up(&mut self) {
        let pieces = self.pieces;
        let given_up = (self.open).extract_if(|_, open| pieces - open.last > GIVEN_UP_AFTER);
        let bytes: usize = given_up.map(|(_, open)| open.parts.len()).sum();
        self.bytes -= bytes;
    }

    /// Bytes of all unfinished messages.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(text: &'static [u8], message: u64) -> Vec<(Piece, Bytes)> {
        split(&Bytes::from_static(text), 4, message).collect()
    }

    #[test]
    fn message_in_pieces_is_put_together() {
        let mut assemblies = Assemblies::new(100);
        let pieces = pieces(b"0123456789", 7);
        assert_eq!(pieces.len(), 3);
        let mut added = pieces
            .iter()
            .map(|(piece, part)| assemblies.add('a', piece.to_string().parse().unwrap(), part));
        assert_eq!(added.next(), Some(Added::Waiting));
        assert_eq!(added.next(), Some(Added::Waiting));
        assert_eq!(
            added.next(),
            Some(Added::Whole(Bytes::from_static(b"0123456789")))
        );
        assert_eq!(assemblies.bytes(), 0);
    }

    #[test]
    fn newer_message_replaces_an_unfinished_one() {
        let mut assemblies = Assemblies::new(100);
        let (old, new) = (pieces(b"01234567", 1), pieces(b"abcdefgh", 2));
        assert_eq!(assemblies.add('a', old[0].0, &old[0].1), Added::Waiting);
        assert_eq!(assemblies.add('a', new[0].0, &new[0].1), Added::Waiting);
        assert_eq!(assemblies.bytes(), 4);
        assert_eq!(
            assemblies.add('a', new[1].0, &new[1].1),
            Added::Whole(Bytes::from_static(b"abcdefgh"))
        );
    }

    #[test]
    fn missing_piece_loses_its_message_alone() {
        let mut assemblies = Assemblies::new(100);
        let (old, new) = (pieces(b"0123456789", 1), pieces(b"abcd", 2));
        assert_eq!(assemblies.add('a', old[0].0, &old[0].1), Added::Waiting);
        assert_eq!(assemblies.add('a', old[2].0, &old[2].1), Added::Lost);
        assert_eq!(assemblies.bytes(), 0);
        assert_eq!(
            assemblies.add('a', new[0].0, &new[0].1),
            Added::Whole(Bytes::from_static(b"abcd"))
        );
    }

    #[test]
    fn unfinished_messages_never_exceed_their_limit() {
        let mut assemblies = Assemblies::new(10);
        for key in 0..20 {
            let begun = pieces(b"01234567", 1);
            let added = assemblies.add(key, begun[0].0, &begun[0].1);
            assert_eq!(added, if key < 2 { Added::Waiting } else { Added::Lost });
            assert!(assemblies.bytes() <= 10);
        }
        assemblies.forget(0);
        assert_eq!(assemblies.bytes(), 4);
    }

    #[test]
    fn message_of_a_sender_that_is_gone_is_given_up_when_memory_is_short() {
        let mut assemblies = Assemblies::new(10);
        let (gone, whole) = (pieces(b"01234567", 1), pieces(b"abcdefgh", 2));
        let add = |assemblies: &mut Assemblies<char>, key, part: &(Piece, Bytes)| {
            assemblies.add(key, part.0, &part.1)
        };
        assert_eq!(add(&mut assemblies, 'a', &gone[0]), Added::Waiting);
        assert_eq!(add(&mut assemblies, 'b', &whole[0]), Added::Waiting);
        assert_eq!(add(&mut assemblies, 'b', &whole[1]), Added::Lost);
        for _ in 0..GIVEN_UP_AFTER {
            add(&mut assemblies, 'b', &whole[0]);
        }
        let added = add(&mut assemblies, 'b', &whole[1]);
        assert_eq!(added, Added::Whole(Bytes::from_static(b"abcdefgh")));
        assert_eq!(assemblies.bytes(), 0);
    }

    #[test]
    fn damaged_name_of_a_piece_is_refused() {
        for wrong in [
            "",
            "1",
            "1/0",
            "1/0/1/2",
            "1/1/1",
            "+1/0/1",
            "1/-1/1",
            "1/0/4294967296",
        ] {
            assert_eq!(wrong.parse::<Piece>(), Err(PieceError), "{wrong}");
        }
    }
}
