//! The stream of large values: the body of an HTTP answer that doesn't end.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

use super::POLL;
use crate::{DEADLINE, Line, Trust};

/// A running stream.
pub struct Stream {
    line: Line,
    /// Bytes as they came, which aren't decoded yet.
    raw: Vec<u8>,
    part: Part,
    /// The bytes of the next records.
    body: Vec<u8>,
}

/// What the next bytes are.
#[derive(Clone, Copy)]
enum Part {
    Head,
    Size,
    Chunk(usize),
}

impl Stream {
    /// Requests it, and waits until it begins.
    pub fn open(address: SocketAddr, path: &str) -> Self {
        let mut stream = Self::request(None, address, address, path).unwrap();
        let deadline = Instant::now() + DEADLINE;
        while matches!(stream.part, Part::Head) {
            assert!(Instant::now() < deadline, "no stream begins");
            stream.read().unwrap();
        }
        stream
    }

    /// Requests it of the relay, at `address` or through a proxy there.
    pub(super) fn request(
        trust: Option<Trust>,
        address: SocketAddr,
        relay: SocketAddr,
        path: &str,
    ) -> io::Result<Self> {
        let tcp = TcpStream::connect(address)?;
        tcp.set_read_timeout(Some(DEADLINE))?;
        let mut line = Line::over(tcp, trust);
        write!(line, "GET {path} HTTP/1.1\r\nHost: {relay}\r\n\r\n")?;
        line.tcp().set_read_timeout(Some(POLL))?;
        Ok(Self {
            line,
            raw: Vec::new(),
            part: Part::Head,
            body: Vec::new(),
        })
    }

    /// The next record's message if it arrives within a few milliseconds.
    pub(super) fn poll(&mut self) -> Result<Option<Vec<u8>>, String> {
        loop {
            let next = self.next_record();
            if next.is_some() || !self.read()? {
                return Ok(next);
            }
        }
    }

    fn next_record(&mut self) -> Option<Vec<u8>> {
        let length = self.body.first_chunk().map(|it| u32::from_le_bytes(*it))?;
        let end = 8 + length as usize;
        let message = self.body.get(8..end)?.to_vec();
        self.body.drain(..end);
        Some(message)
    }

    /// Reads and decodes what has arrived; returns whether there was anything.
    fn read(&mut self) -> Result<bool, String> {
        let mut bytes = [0; 64 << 10];
        match self.line.read(&mut bytes) {
            Ok(0) => Err("it ended".to_owned()),
            Ok(count) => {
                self.raw.extend(&bytes[..count]);
                while self.decode()? {}
                Ok(true)
            }
            Err(error) if [ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&error.kind()) => {
                Ok(false)
            }
            Err(error) => Err(error.to_string()),
        }
    }

    /// Decodes one part; returns whether there may be another.
    fn decode(&mut self) -> Result<bool, String> {
        let end_of = |raw: &[u8], end: &[u8]| raw.windows(end.len()).position(|it| it == end);
        match self.part {
            Part::Head => {
                let Some(end) = end_of(&self.raw, b"\r\n\r\n") else {
                    return Ok(false);
                };
                let head: Vec<u8> = self.raw.drain(..end + 4).collect();
                if !head.starts_with(b"HTTP/1.1 200") {
                    return Err(String::from_utf8_lossy(&head).into_owned());
                }
                self.part = Part::Size;
            }
            Part::Size => {
                let Some(end) = end_of(&self.raw, b"\r\n") else {
                    return Ok(false);
                };
                let line: Vec<u8> = self.raw.drain(..end + 2).collect();
                let digits = String::from_utf8_lossy(&line);
                let size = usize::from_str_radix(digits.trim(), 16).unwrap();
                if size == 0 {
                    return Err("it ended".to_owned());
                }
                self.part = Part::Chunk(size);
            }
            Part::Chunk(size) => {
                let taken = size.min(self.raw.len());
                self.body.extend(self.raw.drain(..taken));
                self.part = Part::Chunk(size - taken);
                // A line end follows the chunk.
                if taken < size || self.raw.len() < 2 {
                    return Ok(false);
                }
                self.raw.drain(..2);
                self.part = Part::Size;
            }
        }
        Ok(true)
    }
}
