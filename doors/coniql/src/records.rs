//! Results that clients share: the JSON of a channel after the number of its PV.
//!
//! Clients give their operations different ids, so each client's messages are made from these records: the head
//! names the operation, and the channel's bytes are copied.

use pvwire_schema::types::PvId;

/// Bytes before a channel: number and length, little-endian.
const HEAD: usize = 8;

/// Appends the JSON of a channel.
pub fn push_record(out: &mut Vec<u8>, pv: PvId, channel: &[u8]) {
    out.extend_from_slice(&pv.0.to_le_bytes());
    out.extend_from_slice(&(channel.len() as u32).to_le_bytes());
    out.extend_from_slice(channel);
}

/// The records in some bytes, in order.
#[derive(Clone, Debug)]
pub struct Records<'a>(&'a [u8]);

impl<'a> Records<'a> {
    /// Reads what `push_record` wrote.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = (PvId, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (head, rest) = self.0.split_at_checked(HEAD)?;
        let word = |at: usize| {
            head[at..]
                .first_chunk()
                .map(|word| u32::from_le_bytes(*word))
        };
        let (channel, rest) = rest.split_at_checked(word(4)? as usize)?;
        self.0 = rest;
        Some((PvId(word(0)?), channel))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_in_the_order_in_which_they_were_written() {
        let mut bytes = Vec::new();
        let all = [
            (PvId(7), &b"{}"[..]),
            (PvId(0), b""),
            (PvId(7), b"{\"a\":1}"),
        ];
        for (pv, channel) in all {
            push_record(&mut bytes, pv, channel);
        }
        assert_eq!(Records::new(&bytes).collect::<Vec<_>>(), all);
        let cut = &bytes[..bytes.len() - 1];
        assert_eq!(Records::new(cut).collect::<Vec<_>>(), all[..2]);
    }
}
