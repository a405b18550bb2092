//! Splits an answer into lines and removes the escapes, whatever the pieces in which the bytes come.

/// Ends a line.
const LF: u8 = 0x0a;

/// Begins an escape of two bytes.
const ESC: u8 = 0x1b;

/// Why a line can't be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadLine {
    /// It has more bytes than the limit.
    TooLong,
    /// It ends within an escape.
    CutEscape,
}

/// The line that is being read.
#[derive(Debug)]
pub(crate) struct Lines {
    line: Vec<u8>,
    /// The last byte began an escape.
    is_escape: bool,
    is_too_long: bool,
    max_bytes: usize,
}

impl Lines {
    /// `max_bytes` bounds a line without its escapes.
    pub(crate) fn new(max_bytes: usize) -> Self {
        Self {
            line: Vec::new(),
            is_escape: false,
            is_too_long: false,
            max_bytes,
        }
    }

    /// Takes bytes up to the end of the line. Returns how many, and whether the line has ended.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> (usize, bool) {
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            if byte == LF {
                return (at + 1, true);
            }
            if self.is_escape {
                self.is_escape = false;
                self.add(&[unescaped(byte)]);
                at += 1;
            } else if byte == ESC {
                self.is_escape = true;
                at += 1;
            } else {
                let rest = &bytes[at..];
                let plain = rest.iter().position(|byte| matches!(*byte, LF | ESC));
                let plain = &rest[..plain.unwrap_or(rest.len())];
                self.add(plain);
                at += plain.len();
            }
        }
        (at, false)
    }

    fn add(&mut self, bytes: &[u8]) {
        if self.is_too_long || self.line.len() + bytes.len() > self.max_bytes {
            self.is_too_long = true;
            self.line = Vec::new();
        } else {
            self.line.extend_from_slice(bytes);
        }
    }

    /// The line that has ended.
    pub(crate) fn line(&self) -> Result<&[u8], BadLine> {
        if self.is_too_long {
            Err(BadLine::TooLong)
        } else if self.is_escape {
            Err(BadLine::CutEscape)
        } else {
            Ok(&self.line)
        }
    }

    /// Whether the line has no byte yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.line.is_empty() && !self.is_escape && !self.is_too_long
    }

    /// Begins the next line.
    pub(crate) fn next(&mut self) {
        self.line.clear();
        self.is_escape = false;
        self.is_too_long = false;
    }
}

/// The byte that an escape stands for. The appliance's own reader passes unknown ones through, too.
fn unescaped(byte: u8) -> u8 {
    match byte {
        0x01 => ESC,
        0x02 => LF,
        0x03 => 0x0d,
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(pieces: &[&[u8]], max_bytes: usize) -> Vec<Result<Vec<u8>, BadLine>> {
        let mut lines = Lines::new(max_bytes);
        let mut read = Vec::new();
        for piece in pieces {
            let mut rest = *piece;
            while !rest.is_empty() {
                let (taken, is_ended) = lines.take(rest);
                rest = &rest[taken..];
                if is_ended {
                    read.push(lines.line().map(<[u8]>::to_vec));
                    lines.next();
                }
            }
        }
        read
    }

    #[test]
    fn escapes_are_removed_also_between_two_pieces() {
        let expected = [Ok(b"a\x1bb\nc\rd".to_vec()), Ok(vec![])];
        let whole = b"a\x1b\x01b\x1b\x02c\x1b\x03d\n\n";
        assert_eq!(lines(&[whole], 9), expected);
        let bytes: Vec<&[u8]> = whole.chunks(1).collect();
        assert_eq!(lines(&bytes, 9), expected);
    }

    #[test]
    fn white_space_at_the_end_of_a_line_is_kept_and_an_unknown_escape_passes() {
        let read = lines(&[b"\x28\x09\n\x0b\x0c \r\n\x1bx\n"], 9);
        let expected = [b"\x28\x09".to_vec(), b"\x0b\x0c \r".to_vec(), b"x".to_vec()];
        assert_eq!(read, expected.map(Ok));
    }

    #[test]
    fn long_lines_and_cut_escapes_are_bad_and_the_next_line_is_read() {
        let read = lines(&[b"12345\n", b"1234\n1\x1b\n", b"12\n"], 4);
        let expected = [
            Err(BadLine::TooLong),
            Ok(b"1234".to_vec()),
            Err(BadLine::CutEscape),
            Ok(b"12".to_vec()),
        ];
        assert_eq!(read, expected);
    }
}
