//! Headers of Channel Access messages, and the position in a stream that is sent in arbitrary pieces.

/// Commands of Channel Access in libca's messages that are evaluated.
pub(super) mod command {
    pub(in super::super) const VERSION: u16 = 0;
    pub(in super::super) const EVENT_ADD: u16 = 1;
    pub(in super::super) const READ: u16 = 3;
    pub(in super::super) const WRITE: u16 = 4;
    pub(in super::super) const SEARCH: u16 = 6;
    pub(in super::super) const READ_SYNC: u16 = 10;
    pub(in super::super) const ERROR: u16 = 11;
    pub(in super::super) const CLEAR_CHANNEL: u16 = 12;
    pub(in super::super) const READ_NOTIFY: u16 = 15;
    pub(in super::super) const CREATE_CHAN: u16 = 18;
    pub(in super::super) const WRITE_NOTIFY: u16 = 19;
    pub(in super::super) const ACCESS_RIGHTS: u16 = 22;
    pub(in super::super) const ECHO: u16 = 23;
    pub(in super::super) const CREATE_CH_FAIL: u16 = 26;
    pub(in super::super) const SERVER_DISCONN: u16 = 27;
}

/// Bytes of a header, and of a header whose size and count have 32 bits.
const SHORT: usize = 16;
pub(super) const LONG: usize = 24;

/// The header of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) command: u16,
    /// Bytes of the payload.
    pub(super) size: u32,
    pub(super) data_type: u16,
    pub(super) count: u32,
    /// A channel, or a status.
    pub(super) one: u32,
    /// Usually the number of the request.
    pub(super) two: u32,
}

impl Header {
    /// Decodes a header of 16 bytes, or of 24 if the first bytes say so.
    #[inline]
    pub(super) fn read(bytes: &[u8; LONG]) -> Self {
        let mut header = Self::read_short(first(bytes, 0));
        if header.size == 0xffff {
            header.size = u32::from_be_bytes(first(bytes, SHORT));
            header.count = u32::from_be_bytes(first(bytes, SHORT + 4));
        }
        header
    }

    /// The header at the beginning of these bytes and its length, if it is complete.
    pub(super) fn first(bytes: &[u8]) -> Option<(Self, usize)> {
        let header = Self::read_short(*bytes.first_chunk()?);
        if header.size != 0xffff {
            return Some((header, SHORT));
        }
        Some((Self::read(bytes.first_chunk()?), LONG))
    }

    /// Removes and returns the next message's header if the message is complete, has a short header and is of this
    /// kind: the common case.
    #[inline]
    pub(super) fn next_whole(command: u16, bytes: &mut &[u8]) -> Option<Self> {
        let (header, payload) = bytes.split_first_chunk()?;
        let header = Self::read_short(*header);
        let size = header.size as usize;
        if header.command != command || size == 0xffff || payload.len() < size {
            return None;
        }
        *bytes = &payload[size..];
        Some(header)
    }

    #[inline]
    fn read_short(bytes: [u8; SHORT]) -> Self {
        let [begin, end] = [0, 8].map(|at| u64::from_be_bytes(first(&bytes, at)));
        Self {
            command: (begin >> 48) as u16,
            size: (begin >> 32) as u32 & 0xffff,
            data_type: (begin >> 16) as u16,
            count: begin as u32 & 0xffff,
            one: (end >> 32) as u32,
            two: end as u32,
        }
    }
}

/// The `N` bytes that start at `at`; always used inside an array.
#[inline]
fn first<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().unwrap_or([0; N])
}

/// A message of Channel Access with a short header, for tests and `make fuzz`.
#[doc(hidden)]
pub fn message(
    command: u16,
    data_type: u16,
    count: u16,
    one: u32,
    two: u32,
    payload: &[u8],
) -> Vec<u8> {
    let shorts = [command, payload.len() as u16, data_type, count];
    let mut bytes = shorts.map(u16::to_be_bytes).concat();
    bytes.extend([one, two].map(u32::to_be_bytes).concat());
    bytes.extend(payload);
    bytes
}

/// The stream of requests that libca sends.
#[derive(Clone, Debug, Default)]
pub(super) struct Messages {
    /// The beginning of an incomplete header.
    begun: [u8; LONG],
    filled: usize,
    /// Bytes of a payload that have not been sent yet.
    rest: u32,
}

impl Messages {
    /// Whether the next byte begins a message.
    pub(super) fn is_between(&self) -> bool {
        self.rest == 0 && self.filled == 0
    }

    /// Calls a function for each header.
    pub(super) fn each(&mut self, mut bytes: &[u8], mut call: impl FnMut(&Header)) {
        loop {
            let count = bytes.len().min(self.rest as usize);
            bytes = &bytes[count..];
            self.rest -= count as u32;
            let Some(header) = self.fill(&mut bytes) else {
                return;
            };
            call(&header);
        }
    }

    /// The next header, once it is complete.
    fn fill(&mut self, bytes: &mut &[u8]) -> Option<Header> {
        if self.rest > 0 {
            return None;
        }
        loop {
            let is_long = self.filled >= 4 && self.begun[2..4] == [0xff, 0xff];
            let needed = if is_long { LONG } else { SHORT };
            if self.filled == needed {
                break;
            }
            // The first four bytes determine the length.
            let until = if self.filled < 4 { 4 } else { needed };
            let count = bytes.len().min(until - self.filled);
            if count == 0 {
                return None;
            }
            let (some, after) = bytes.split_at(count);
            self.begun[self.filled..][..count].copy_from_slice(some);
            *bytes = after;
            self.filled += count;
        }
        let header = Header::read(&self.begun);
        self.filled = 0;
        self.rest = header.size;
        Some(header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The headers of a stream that is sent in pieces of this size, and where its last message ends.
    fn split(stream: &[u8], size: usize) -> (Vec<Header>, bool) {
        let (mut messages, mut headers) = (Messages::default(), Vec::new());
        for bytes in stream.chunks(size) {
            messages.each(bytes, |header| headers.push(*header));
        }
        (headers, messages.is_between())
    }

    #[test]
    fn messages_are_the_same_in_whatever_pieces_they_come() {
        let mut stream = vec![0, 1, 0, 8, 0, 20, 0, 1, 0, 0, 0, 1, 0, 0, 0, 9];
        stream.extend([5; 8]);
        stream.extend([0, 23, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        stream.extend([0, 1, 0xff, 0xff, 0, 20, 0, 0, 0, 0, 0, 1, 0, 0, 0, 3]);
        stream.extend([0, 0, 0, 16, 0, 1, 0, 2]);
        stream.extend([6; 16]);
        let whole = split(&stream, stream.len());

        for size in 1..stream.len() {
            assert_eq!(split(&stream, size), whole, "{size}");
            assert!(!split(&stream[..stream.len() - 1], size).1);
        }

        assert!(whole.1);
        let sizes: Vec<_> = whole.0.iter().map(|header| header.size).collect();
        assert_eq!(sizes, [8, 0, 16]);
        let long = Header {
            command: 1,
            size: 16,
            data_type: 20,
            count: 0x1_0002,
            one: 1,
            two: 3,
        };
        assert_eq!(whole.0[2], long);
        let first = Header::first(&stream[40..]).map(|(header, _)| header.size);
        assert_eq!((first, Header::first(&stream[40..63])), (Some(16), None));
        assert_eq!(Header::first(&stream[40..64]), Some((long, 24)));
    }
}
