//! Counts the WebSocket frames in a stream of bytes.
//!
//! tungstenite reads any number of continuation frames of a message at once and doesn't report
//! them. This code reads headers only; tungstenite finds invalid frames.

/// Maximum number of header bytes up to the end of the frame's length.
const MAX_HEADER_BYTES: usize = 10;

/// Bytes of a mask.
const MASK_BYTES: u64 = 4;

/// The position of a stream within its frames, and the number of frames.
#[derive(Debug, Default)]
pub(super) struct FrameCount {
    /// Frames whose header was read since the count was taken.
    pub(super) begun: usize,
    /// Bytes of the present frame that haven't come.
    left: u64,
    header: [u8; MAX_HEADER_BYTES],
    /// Bytes of the next header that have come.
    got: usize,
}

impl FrameCount {
    /// Reads the bytes that follow.
    pub(super) fn scan(&mut self, mut bytes: &[u8]) {
        while let [first, rest @ ..] = bytes {
            if self.left > 0 {
                let skipped = bytes
                    .len()
                    .min(usize::try_from(self.left).unwrap_or(usize::MAX));
                self.left -= skipped as u64;
                bytes = &bytes[skipped..];
                continue;
            }
            self.header[self.got] = *first;
            self.got += 1;
            bytes = rest;
            let [_, second, ..] = self.header;
            let length_bytes = match second & 0x7f {
                126 => 2,
                127 => 8,
                _ => 0,
            };
            if self.got < 2 || self.got < 2 + length_bytes {
                continue;
            }
            let long = self.header[2..2 + length_bytes].iter();
            let long = long.fold(0, |length, byte| length << 8 | u64::from(*byte));
            let length = if length_bytes == 0 {
                u64::from(second & 0x7f)
            } else {
                long
            };
            let mask = if second & 0x80 == 0 { 0 } else { MASK_BYTES };
            self.left = length.saturating_add(mask);
            self.got = 0;
            self.begun += 1;
        }
    }
}

/// Frames that begin in a stream whose bytes come in these pieces. For tests.
#[must_use]
pub fn frames_begun<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> usize {
    let mut count = FrameCount::default();
    pieces.into_iter().for_each(|piece| count.scan(piece));
    count.begun
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_counted_wherever_the_stream_is_cut() {
        let mut stream = Vec::new();
        // Not masked, as no client sends it; all three lengths, masked; and three without content.
        stream.extend([0x82, 3, 1, 2, 3]);
        for (header, length) in [
            (vec![0x82, 0x80 | 125], 125_usize),
            (vec![0x02, 0x80 | 126, 1, 0], 256),
            (vec![0x80, 0x80 | 127, 0, 0, 0, 0, 0, 1, 0, 0], 65_536),
        ] {
            stream.extend(header);
            stream.resize(stream.len() + 4 + length, 0x81);
        }
        for opcode in [0x8a, 0x89, 0x00] {
            stream.extend([opcode, 0x80, 1, 2, 3, 4]);
        }
        for piece in [1, 2, 3, 7, 1024, stream.len()] {
            let mut count = FrameCount::default();
            stream.chunks(piece).for_each(|piece| count.scan(piece));
            assert_eq!((count.begun, count.left, count.got), (7, 0, 0), "{piece}");
        }
    }

    #[test]
    fn frame_of_an_impossible_length_is_one_frame() {
        let mut count = FrameCount::default();
        count.scan(&[0x82, 0xff]);
        count.scan(&[0xff; 9]);
        count.scan(&[0; 100_000]);
        assert_eq!(count.begun, 1);
    }
}
