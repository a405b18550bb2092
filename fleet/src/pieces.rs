//! Pieces of messages above the bus's own limit: how they are named, and how they are put together.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::str::FromStr;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};

use crate::member::MemberId;

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

/// A message of which no piece came for this time is given up: its sender is gone.
pub const GIVEN_UP_AFTER: Duration = Duration::from_secs(5);

/// A message that isn't whole after this time is given up, too: pieces without end would keep its memory.
const LONGEST: Duration = Duration::from_secs(30);

/// Messages of which pieces have come, one for each key. A newer message replaces an unfinished one.
pub struct Assemblies<K> {
    open: HashMap<K, Open>,
    /// Bytes of all unfinished messages, and how many there may be.
    bytes: usize,
    limit: usize,
    /// Bytes of the unfinished messages of each sender, and how many there may be.
    of_senders: HashMap<MemberId, usize>,
    limit_each: usize,
}

struct Open {
    sender: MemberId,
    message: u64,
    next: u32,
    /// When its first piece came, and its last one.
    begun: Instant,
    last: Instant,
    parts: BytesMut,
}

impl<K: Hash + Eq + Copy> Assemblies<K> {
    /// Holds at most `limit` bytes, and `limit_each` of one sender.
    pub fn new(limit: usize, limit_each: usize) -> Self {
        Self {
            open: HashMap::new(),
            bytes: 0,
            limit,
            of_senders: HashMap::new(),
            limit_each: limit_each.min(MAX_MESSAGE),
        }
    }

    /// Adds a piece. Pieces of one sender and key come in order.
    pub fn add(
        &mut self,
        (sender, key): (MemberId, K),
        piece: Piece,
        part: &[u8],
        now: Instant,
    ) -> Added {
        if piece.index == 0 {
            self.forget(key);
            let open = Open {
                sender,
                message: piece.message,
                next: 0,
                begun: now,
                last: now,
                parts: BytesMut::new(),
            };
            self.open.insert(key, open);
        }
        let of_sender = self.of_senders.get(&sender).copied().unwrap_or(0);
        let room = (self.limit - self.bytes).min(self.limit_each.saturating_sub(of_sender));
        let Some(open) = self.open.get_mut(&key) else {
            return Added::Lost;
        };
        let is_next = open.message == piece.message && open.next == piece.index;
        if !is_next || open.sender != sender || part.is_empty() || part.len() > room {
            self.forget(key);
            return Added::Lost;
        }
        open.parts.extend_from_slice(part);
        open.next += 1;
        open.last = now;
        self.bytes += part.len();
        *self.of_senders.entry(sender).or_default() += part.len();
        if open.next < piece.count {
            return Added::Waiting;
        }
        let whole = std::mem::take(&mut open.parts).freeze();
        self.open.remove(&key);
        self.give_back(sender, whole.len());
        Added::Whole(whole)
    }

    /// Drops the unfinished message of a key.
    pub fn forget(&mut self, key: K) {
        if let Some(open) = self.open.remove(&key) {
            self.give_back(open.sender, open.parts.len());
        }
    }

    fn give_back(&mut self, sender: MemberId, bytes: usize) {
        self.bytes -= bytes;
        if let Some(of_sender) = self.of_senders.get_mut(&sender) {
            *of_sender -= bytes;
            if *of_sender == 0 {
                self.of_senders.remove(&sender);
            }
        }
    }

    /// Drops unfinished messages whose senders are gone. Returns whether others are unfinished.
    pub fn give_up(&mut self, now: Instant) -> bool {
        let age = |at: Instant| now.saturating_duration_since(at);
        let is_over = |open: &Open| age(open.last) >= GIVEN_UP_AFTER || age(open.begun) >= LONGEST;
        let over = self.open.iter().filter(|(_, open)| is_over(open));
        for key in over.map(|(key, _)| *key).collect::<Vec<_>>() {
            self.forget(key);
        }
        !self.open.is_empty()
    }

    /// Bytes of all unfinished messages.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SENDER: MemberId = MemberId(1);

    fn pieces(text: &'static [u8], message: u64) -> Vec<(Piece, Bytes)> {
        split(&Bytes::from_static(text), 4, message).collect()
    }

    fn add(assemblies: &mut Assemblies<char>, key: char, part: &(Piece, Bytes)) -> Added {
        let piece = part.0.to_string().parse().unwrap();
        assemblies.add((SENDER, key), piece, &part.1, Instant::now())
    }

    fn whole(text: &'static [u8]) -> Added {
        Added::Whole(Bytes::from_static(text))
    }

    #[test]
    fn pieces_without_end_keep_no_memory() {
        let mut assemblies = Assemblies::new(100, 100);
        let piece = |index| Piece {
            message: 7,
            index,
            count: 1_000,
        };
        let (start, step) = (Instant::now(), GIVEN_UP_AFTER / 2);
        let mut add = |index: u32, part: &[u8]| {
            let now = start + step * index;
            let added = assemblies.add((SENDER, 'a'), piece(index), part, now);
            assemblies.give_up(now);
            added
        };
        let ended = (0..100).position(|index| add(index, b"x") == Added::Lost);
        assert_eq!(ended, Some(13), "after half a minute");
        assert_eq!(add(0, b"x"), Added::Waiting);
        assert_eq!(add(1, b""), Added::Lost, "an empty one");
        assert_eq!(assemblies.bytes(), 0);
    }

    #[test]
    fn message_in_pieces_is_put_together() {
        let mut assemblies = Assemblies::new(100, 100);
        let pieces = pieces(b"0123456789", 7);
        assert_eq!(pieces.len(), 3);
        let mut added = pieces.iter().map(|part| add(&mut assemblies, 'a', part));
        assert_eq!(added.next(), Some(Added::Waiting));
        assert_eq!(added.next(), Some(Added::Waiting));
        assert_eq!(added.next(), Some(whole(b"0123456789")));
        assert_eq!(assemblies.bytes(), 0);
        assert!(assemblies.of_senders.is_empty());
    }

    #[test]
    fn newer_message_replaces_an_unfinished_one() {
        let mut assemblies = Assemblies::new(100, 100);
        let (old, new) = (pieces(b"01234567", 1), pieces(b"abcdefgh", 2));
        assert_eq!(add(&mut assemblies, 'a', &old[0]), Added::Waiting);
        assert_eq!(add(&mut assemblies, 'a', &new[0]), Added::Waiting);
        assert_eq!(assemblies.bytes(), 4);
        assert_eq!(add(&mut assemblies, 'a', &new[1]), whole(b"abcdefgh"));
    }

    #[test]
    fn missing_piece_loses_its_message_alone() {
        let mut assemblies = Assemblies::new(100, 100);
        let (old, new) = (pieces(b"0123456789", 1), pieces(b"abcd", 2));
        assert_eq!(add(&mut assemblies, 'a', &old[0]), Added::Waiting);
        assert_eq!(add(&mut assemblies, 'a', &old[2]), Added::Lost);
        assert_eq!(assemblies.bytes(), 0);
        assert_eq!(add(&mut assemblies, 'a', &new[0]), whole(b"abcd"));
    }

    #[test]
    fn unfinished_messages_never_exceed_their_limit() {
        let mut assemblies = Assemblies::new(10, 10);
        let begun = &pieces(b"01234567", 1)[0];
        for sender in 0..20 {
            let place = (MemberId(sender), sender);
            let added = assemblies.add(place, begun.0, &begun.1, Instant::now());
            let fits = sender < 2;
            assert_eq!(added, if fits { Added::Waiting } else { Added::Lost });
            assert!(assemblies.bytes() <= 10);
        }
        assemblies.forget(0);
        assert_eq!(assemblies.bytes(), 4);
    }

    #[test]
    fn sender_with_unfinished_messages_leaves_room_for_the_others() {
        let mut assemblies = Assemblies::new(100, 10);
        let parts = pieces(b"01234567", 1);
        for (key, added) in [
            ('a', Added::Waiting),
            ('b', Added::Waiting),
            ('c', Added::Lost),
        ] {
            assert_eq!(add(&mut assemblies, key, &parts[0]), added);
        }
        let other = MemberId(2);
        let mut of_other =
            |part: &(Piece, Bytes)| assemblies.add((other, 'd'), part.0, &part.1, Instant::now());
        assert_eq!(of_other(&parts[0]), Added::Waiting);
        assert_eq!(of_other(&parts[1]), whole(b"01234567"));
        assert_eq!(assemblies.bytes(), 8);
    }

    #[test]
    fn message_whose_sender_is_gone_frees_its_memory_after_five_seconds() {
        let mut assemblies = Assemblies::new(100, 100);
        let (begun, now) = (&pieces(b"01234567", 1)[0], Instant::now());
        let place = |key| (SENDER, key);
        assemblies.add(place('a'), begun.0, &begun.1, now);
        let later = now + GIVEN_UP_AFTER;
        assemblies.add(place('b'), begun.0, &begun.1, later);
        assert!(assemblies.give_up(later));
        assert_eq!(assemblies.bytes(), 4);
        assert!(!assemblies.give_up(later + GIVEN_UP_AFTER));
        assert_eq!(assemblies.bytes(), 0);
        assert!(assemblies.of_senders.is_empty());
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
