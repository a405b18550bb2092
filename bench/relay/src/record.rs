//! A record of the messages that one client received, with their times. Written by the load client, sent again by the
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
        while !rest.is_empty() {
            let (at, after) = rest.split_first_chunk::<8>().ok_or_else(cut)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn file(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("pvwire-record-{}-{name}", std::process::id()))
    }

    #[test]
    fn is_read_as_it_was_written() {
        let record = Record {
            messages: vec![
                (Duration::ZERO, vec![]),
                (Duration::from_nanos(1_234_567_890_123), vec![0x82, 1, 7]),
            ],
        };
        let file = file("whole");
        record.write(&file).unwrap();
        let read = Record::read(&file);
        fs::remove_file(&file).unwrap();
        assert_eq!(read.unwrap(), record);
    }

    #[test]
    fn cut_record_is_an_error() {
        let file = file("cut");
        let messages = vec![(Duration::ZERO, vec![1, 2, 3])];
        Record { messages }.write(&file).unwrap();
        let whole = fs::read(&file).unwrap();
        for length in [7, 9, 16, whole.len() - 1] {
            fs::write(&file, &whole[..length]).unwrap();
            let error = Record::read(&file).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{length} bytes");
        }
        fs::remove_file(&file).unwrap();
    }
}
