//! A WebSocket message as bytes that all its receivers share.

use std::io::IoSlice;
use std::sync::Arc;

use bytes::Bytes;
use pvwire_schema::encode::{Cut, Pieces};

use crate::limits::memory::Charge;

/// Zeros for the end of an array's last word.
const PADDING: [u8; 8] = [0; 8];

/// A whole WebSocket message with its header, the same for every receiver.
///
/// Shared as `Arc<Frame>`, so its bytes are not copied again. The elements of a large array are not even
/// copied into it: they stay where the source put them.
#[derive(Debug)]
pub struct Frame {
    bytes: Vec<u8>,
    /// Index in `bytes` at which the message begins.
    start: usize,
    /// Index in `bytes` at which the payload begins.
    payload: usize,
    /// What follows `bytes`.
    tail: Bytes,
    /// Number of zeros after the tail.
    padding: usize,
    rows: u32,
    /// Sum of the steps that it advances the sequences of its PVs.
    steps: u64,
    /// Fields that few frames have.
    rare: Option<Box<Rare>>,
}

#[derive(Debug, Default)]
struct Rare {
    /// If there are several arrays, or bytes of another frame: all of them with their positions in `bytes`, in order.
    cuts: Vec<Cut>,
    /// The charge for its memory, if it was made for one client.
    _charge: Option<Charge>,
}

impl Frame {
    /// Bytes of the message.
    #[must_use]
    pub fn length(&self) -> usize {
        let length = self.bytes.len() - self.start + self.tail.len() + self.padding;
        match &self.rare {
            None => length,
            Some(rare) => length + rare.cuts.iter().map(Cut::length).sum::<usize>(),
        }
    }

    /// Bytes that were copied into it: everything except the elements of large arrays.
    #[must_use]
    pub fn copied(&self) -> usize {
        self.bytes.len()
    }

    /// The same frame, charged to its owner while it exists.
    #[must_use]
    pub fn charged(mut self, charge: Charge) -> Self {
        self.charge(charge);
        self
    }

    /// Charges it to its owner while it exists.
    pub(super) fn charge(&mut self, charge: Charge) {
        self.rare.get_or_insert_default()._charge = Some(charge);
    }

    /// The same message with another number of 4 bytes in its payload, where `position` finds it: it shares all other
    /// bytes. `None` if there is no such number, or if the frame has arrays, which are shared already.
    #[must_use]
    pub(super) fn renumbered(
        self: &Arc<Self>,
        position: impl FnOnce(&[u8]) -> Option<usize>,
        number: u32,
    ) -> Option<Self> {
        let has_cuts = (self.rare.as_ref()).is_some_and(|rare| !rare.cuts.is_empty());
        if has_cuts || !self.tail.is_empty() {
            return None;
        }
        let at = self.payload - self.start + position(&self.bytes[self.payload..])?;
        let number = number.to_le_bytes();
        let whole = Bytes::from_owner(Whole(Arc::clone(self)));
        let shared = |at, data| Cut {
            at,
            data,
            padding: 0,
        };
        let cuts = vec![
            shared(0, whole.slice(..at)),
            shared(number.len(), whole.slice(at + number.len()..)),
        ];
        Some(Self {
            bytes: number.to_vec(),
            start: 0,
            payload: 0,
            tail: Bytes::new(),
            padding: self.padding,
            rows: self.rows,
            steps: self.steps,
            rare: Some(Box::new(Rare {
                cuts,
                _charge: None,
            })),
        })
    }

    /// The bytes from `at` on, up to `most`; fewer where a frame has several arrays.
    #[must_use]
    pub fn slices(&self, mut at: usize, mut most: usize) -> [IoSlice<'_>; 3] {
        if let Some(rare) = &self.rare
            && !rare.cuts.is_empty()
        {
            return self.slices_between_cuts(&rare.cuts, at, most);
        }
        let pieces = [
            &self.bytes[self.start..],
            &self.tail,
            &PADDING[..self.padding],
        ];
        pieces.map(|piece| {
            let begin = at.min(piece.len());
            at -= begin;
            let end = piece.len().min(begin.saturating_add(most));
            most -= end - begin;
            IoSlice::new(&piece[begin..end])
        })
    }

    #[inline(never)]
    fn slices_between_cuts<'a>(
        &'a self,
        cuts: &'a [Cut],
        mut at: usize,
        mut most: usize,
    ) -> [IoSlice<'a>; 3] {
        let mut slices = [&[][..]; 3];
        let mut places = slices.iter_mut();
        let ends = cuts.iter().map(|cut| cut.at).chain([self.bytes.len()]);
        let begins = [self.start]
            .into_iter()
            .chain(cuts.iter().map(|cut| cut.at));
        let between = begins.zip(ends).map(|(begin, end)| &self.bytes[begin..end]);
        let arrays = cuts
            .iter()
            .map(|cut| (&cut.data[..], &PADDING[..cut.padding]));
        let arrays = arrays.chain([(&[][..], &[][..])]);
        let pieces = between.zip(arrays);
        for piece in pieces.flat_map(|(bytes, (data, padding))| [bytes, data, padding]) {
            if at >= piece.len() {
                at -= piece.len();
                continue;
            }
            let Some(place) = places.next().filter(|_| most > 0) else {
                break;
            };
            let end = piece.len().min(at.saturating_add(most));
            *place = &piece[at..end];
            most -= end - at;
            at = 0;
        }
        slices.map(IoSlice::new)
    }

    /// The payload without a WebSocket header: the bytes before an array's elements, the elements, and the zeros
    /// after them.
    #[must_use]
    pub fn pieces(self: &Arc<Self>) -> [Bytes; 3] {
        let head = Bytes::from_owner(Head(Arc::clone(self)));
        let padding = Bytes::from_static(&PADDING).slice(..self.padding);
        [head, self.tail.clone(), padding]
    }

    /// The bytes of a frame that is made from one piece.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// Number of updates in it.
    #[must_use]
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// Number of updates that it stands for: those in it and those left out before them.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// A binary message whose payload begins at `start`, behind `HEADER_ROOM` for the header.
    pub(super) fn binary(pieces: Pieces, rows: usize) -> Self {
        let Pieces {
            mut bytes,
            start,
            mut cuts,
        } = pieces;
        let apart: usize = cuts.iter().map(Cut::length).sum();
        let (header, length) = header(0x2, bytes.len() - start + apart);
        let (mut tail, mut padding, mut rare) = (Bytes::new(), 0, None);
        if !cuts.is_empty() {
            let is_at_end = cuts.len() == 1 && cuts[0].at == bytes.len();
            match cuts.pop_if(|_| is_at_end) {
                Some(cut) => (tail, padding) = (cut.data, cut.padding),
                None => {
                    rare = Some(Box::new(Rare {
                        cuts,
                        _charge: None,
                    }))
                }
            }
        }
        let begin = start - length;
        bytes[begin..start].copy_from_slice(&header[..length]);
        Self {
            bytes,
            start: begin,
            payload: start,
            tail,
            padding,
            rows: rows as u32,
            steps: 0,
            rare,
        }
    }

    /// The same frame, for this number of updates: those in it and those left out before them.
    #[must_use]
    pub(super) fn standing_for(mut self, steps: u64) -> Self {
        self.steps = steps;
        self
    }

    /// A text message.
    #[must_use]
    pub fn text(text: &str) -> Self {
        Self::message(0x1, text.as_bytes())
    }

    /// The same frame with this number of updates in it.
    #[must_use]
    pub fn with_rows(mut self, rows: u32) -> Self {
        (self.rows, self.steps) = (rows, rows.into());
        self
    }

    /// A binary message without content.
    #[must_use]
    pub fn empty() -> Self {
        let (header, length) = header(0x2, 0);
        Self::raw(header[..length].to_vec())
    }

    /// A close message.
    #[must_use]
    pub fn close(code: u16, reason: &str) -> Self {
        Self::message(0x8, &[&code.to_be_bytes(), reason.as_bytes()].concat())
    }

    /// A message of any kind, by the opcode of RFC 6455.
    #[must_use]
    pub fn message(opcode: u8, payload: &[u8]) -> Self {
        let (header, length) = header(opcode, payload.len());
        Self::raw([&header[..length], payload].concat())
    }

    /// Bytes that are a message already, such as tungstenite's answer to a ping.
    #[must_use]
    pub fn raw(bytes: Vec<u8>) -> Self {
        Self {
            bytes,
            start: 0,
            payload: 0,
            tail: Bytes::new(),
            padding: 0,
            rows: 0,
            steps: 0,
            rare: None,
        }
    }
}

/// Keeps a frame while other frames share its bytes.
struct Whole(Arc<Frame>);

impl AsRef<[u8]> for Whole {
    fn as_ref(&self) -> &[u8] {
        self.0.bytes()
    }
}

/// Keeps a frame while the first piece of its payload is in use.
struct Head(Arc<Frame>);

impl AsRef<[u8]> for Head {
    fn as_ref(&self) -> &[u8] {
        &self.0.bytes[self.0.payload..]
    }
}

/// The longest header.
pub(super) const HEADER_ROOM: usize = 10;

/// Header of an unmasked, unfragmented WebSocket message (RFC 6455, section 5.2), and its length.
fn header(opcode: u8, payload: usize) -> ([u8; HEADER_ROOM], usize) {
    let mut header = [0; HEADER_ROOM];
    header[0] = 0x80 | opcode;
    let length = match payload {
        length @ 0..=125 => {
            header[1] = length as u8;
            2
        }
        length @ 126..=0xffff => {
            header[1] = 126;
            header[2..4].copy_from_slice(&(length as u16).to_be_bytes());
            4
        }
        length => {
            header[1] = 127;
            header[2..10].copy_from_slice(&(length as u64).to_be_bytes());
            10
        }
    };
    (header, length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_has_the_form_that_the_length_asks_for() {
        for (length, header) in [
            (0, vec![0x82, 0]),
            (125, vec![0x82, 125]),
            (126, vec![0x82, 126, 0, 126]),
            (65_535, vec![0x82, 126, 0xff, 0xff]),
            (65_536, vec![0x82, 127, 0, 0, 0, 0, 0, 1, 0, 0]),
        ] {
            let pieces = Pieces {
                bytes: vec![7; HEADER_ROOM + length],
                start: HEADER_ROOM,
                cuts: Vec::new(),
            };
            let frame = Frame::binary(pieces, 0);
            assert_eq!(frame.slices(0, usize::MAX)[0][..header.len()], header);
            assert_eq!(frame.length(), header.len() + length);
        }
    }

    #[test]
    fn renumbered_frame_shares_all_bytes_except_its_number() {
        let mut bytes = vec![0; HEADER_ROOM];
        bytes.extend((0..200).collect::<Vec<u8>>());
        let pieces = Pieces {
            bytes,
            start: HEADER_ROOM,
            cuts: Vec::new(),
        };
        let frame = Arc::new(Frame::binary(pieces, 3).standing_for(4));
        let other = frame.renumbered(|_| Some(20), 0x0102_0304).unwrap();
        let mut expected = frame.bytes().to_vec();
        expected[24..28].copy_from_slice(&[4, 3, 2, 1]);
        let joined: Vec<u8> = other
            .slices(0, usize::MAX)
            .map(|slice| slice.to_vec())
            .concat();
        assert_eq!(joined, expected);
        assert_eq!((other.length(), other.copied()), (frame.length(), 4));
        assert_eq!((other.rows(), other.steps()), (3, 4));
        assert_eq!(
            other.slices(0, usize::MAX)[0].as_ptr(),
            frame.bytes().as_ptr()
        );
        assert!(frame.renumbered(|_| None, 1).is_none());
    }

    #[test]
    fn slices_are_the_bytes_from_anywhere_to_anywhere() {
        let elements = |count| Bytes::from((0..count).collect::<Vec<u8>>());
        let cut = |at, count, padding| Cut {
            at: HEADER_ROOM + at,
            data: elements(count),
            padding,
        };
        let pieces = |cuts| Pieces {
            bytes: vec![7; HEADER_ROOM + 20],
            start: HEADER_ROOM,
            cuts,
        };
        let several = Frame::binary(pieces(vec![cut(9, 16, 0), cut(12, 3, 5), cut(20, 7, 1)]), 1);
        let all = [
            &several.bytes[several.start..HEADER_ROOM + 9],
            &elements(16),
            &[7; 3],
            &elements(3),
            &[0; 5],
            &[7; 8],
            &elements(7),
            &[0],
        ];
        let all = all.concat();
        assert_eq!((several.length(), all[1]), (all.len(), 52));
        for start in 0..all.len() {
            for most in 0..all.len() {
                let (mut at, end) = (start, all.len().min(start + most));
                while at < end {
                    let slices = several.slices(at, end - at);
                    let some = slices.map(|slice| slice.to_vec()).concat();
                    assert!(!some.is_empty());
                    assert_eq!(some, all[at..at + some.len()]);
                    at += some.len();
                }
                assert_eq!(at, end.max(start));
            }
        }

        let frame = Frame::binary(pieces(vec![cut(20, 50, 6)]), 1);
        let joined = |at, most| {
            let slices = frame.slices(at, most);
            slices.map(|slice| slice.to_vec()).concat()
        };
        let all = joined(0, usize::MAX);
        assert_eq!((all.len(), &all[..2]), (frame.length(), &[0x82, 76][..]));
        assert_eq!(all[22..72], elements(50));
        for at in 0..all.len() {
            for most in 0..all.len() {
                let end = all.len().min(at + most);
                assert_eq!(joined(at, most), all[at..end]);
            }
        }
    }
}
