//! Which messages did one client get, and when? Written by the load client, sent again by the
//! calibration.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

/// Messages as they were on the wire.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    /// When, from the start of the measurement, and what.
    pub(crate) messages: Vec<(Duration, Vec<u8>)>,
}

impl Record {
    pub(crate) fn write(&self, path: &Path) -> io::Result<()> {
        let mut bytes = Vec::new();
        for (at, message) in &self.messages {
            bytes.extend((at.as_nanos() as u64).to_le_bytes());
            bytes.extend((message.len() as u64).to_le_bytes());
            bytes.extend(message);
        }
        fs::write(path, bytes)
    }

    pub(crate) fn read(path: &Path) -> io::Result<Self> {
        let bytes = fs::read(path)?;
        let cut = || io::Error::new(io::ErrorKind::UnexpectedEof, "the record is cut");
        let mut rest = bytes.as_slice();
        let mut messages = Vec::new();
        while let Some((at, after)) = rest.split_first_chunk::<8>() {
            let (length, after) = after.split_first_chunk::<8>().ok_or_else(cut)?;
            let length = u64::from_le_bytes(*length) as usize;
            let (message, after) = after.split_at_checked(length).ok_or_else(cut)?;
            messages.push((
                Duration::from_nanos(u64::from_le_bytes(*at)),
                message.to_vec(),
            ));
            rest = after;
        }
        Ok(Self { messages })
    }
}
