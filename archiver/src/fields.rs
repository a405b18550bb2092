//! Reads the fields of a protobuf message: as much of the format as the appliance's messages need.

/// The message can't be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("damaged protobuf message")]
pub(crate) struct Damaged;

/// The content of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Content<'a> {
    Varint(u64),
    Fixed64([u8; 8]),
    Bytes(&'a [u8]),
    Fixed32([u8; 4]),
}

/// The fields of a message in their order. Fields with unknown numbers are the caller's to ignore.
#[derive(Clone, Debug)]
pub(crate) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn new(message: &'a [u8]) -> Self {
        Self(message)
    }

    /// The next field's number and content; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<(u32, Content<'a>)>, Damaged> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tag = u32::try_from(self.varint()?).map_err(|_| Damaged)?;
        let content = match tag & 7 {
            0 => Content::Varint(self.varint()?),
            1 => Content::Fixed64(self.fixed()?),
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| Damaged)?;
                Content::Bytes(self.bytes(length)?)
            }
            5 => Content::Fixed32(self.fixed()?),
            // Groups, which no message of the appliance has, and what isn't defined.
            _ => return Err(Damaged),
        };
        match tag >> 3 {
            0 => Err(Damaged),
            number => Ok(Some((number, content))),
        }
    }

    /// The next element of a packed list; `None` at the end.
    pub(crate) fn next_varint(&mut self) -> Result<Option<u64>, Damaged> {
        if self.0.is_empty() {
            return Ok(None);
        }
        self.varint().map(Some)
    }

    fn varint(&mut self) -> Result<u64, Damaged> {
        let mut value = 0;
        for (at, &byte) in self.0.iter().enumerate().take(10) {
            let bits = u64::from(byte & 0x7f);
            // The tenth byte has room for one bit.
            if at == 9 && bits > 1 {
                return Err(Damaged);
            }
            value |= bits << (7 * at);
            if byte & 0x80 == 0 {
                self.0 = &self.0[at + 1..];
                return Ok(value);
            }
        }
        Err(Damaged)
    }

    fn bytes(&mut self, length: usize) -> Result<&'a [u8], Damaged> {
        let (bytes, rest) = self.0.split_at_checked(length).ok_or(Damaged)?;
        self.0 = rest;
        Ok(bytes)
    }

    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], Damaged> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or(Damaged)?;
        self.0 = rest;
        Ok(*bytes)
    }
}

impl Content<'_> {
    /// The number of an `int32` or `uint32`, of which the lower 32 bits count.
    pub(crate) fn number(self) -> Option<u32> {
        match self {
            Self::Varint(number) => Some(number as u32),
            _ => None,
        }
    }
}

/// The number of a `sint32`, of which the lower 32 bits count.
pub(crate) fn zigzag(number: u64) -> i32 {
    let number = number as u32;
    (number >> 1) as i32 ^ -((number & 1) as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_wire_types_are_read_and_groups_are_damage() {
        let mut fields =
            Fields::new(b"\x08\x96\x01\x11\x01\0\0\0\0\0\0\x80\x1a\x02hi\x25\x01\0\0\0");
        let read = std::iter::from_fn(|| fields.next().unwrap());
        let expected = [
            (1, Content::Varint(150)),
            (2, Content::Fixed64([1, 0, 0, 0, 0, 0, 0, 0x80])),
            (3, Content::Bytes(b"hi")),
            (4, Content::Fixed32([1, 0, 0, 0])),
        ];
        assert_eq!(read.collect::<Vec<_>>(), expected);
        for damaged in [
            &b"\x0b\x0c"[..],
            b"\x08",
            b"\x00\x01",
            b"\x1a\x03hi",
            b"\x11\0",
            b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02",
            b"\x1a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        ] {
            assert_eq!(Fields::new(damaged).next(), Err(Damaged), "{damaged:?}");
        }
    }

    #[test]
    fn zigzag_numbers_reach_both_ends() {
        let read = [0, 1, 2, 3, 0xffff_fffe, 0xffff_ffff].map(zigzag);
        assert_eq!(read, [0, -1, 1, -2, i32::MAX, i32::MIN]);
    }
}
