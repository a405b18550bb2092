//! The stream of large values: the body of an HTTP answer that doesn't end.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;

use crate::{Line, Trust};

/// A running stream.
pub struct Stream {
    tcp: BufReader<Line>,
    /// Unread bytes of the current chunk.
    chunk: usize,
}

impl Stream {
    pub fn open(address: SocketAddr, path: &str) -> Self {
        Self::open_by(None, address, path)
    }

    pub(super) fn open_by(trust: Option<Trust>, address: SocketAddr, path: &str) -> Self {
        let mut tcp = BufReader::new(crate::http::ask(trust, address, path, &[]));
        let mut line = String::new();
        tcp.read_line(&mut line).unwrap();
        assert!(line.starts_with("HTTP/1.1 200"), "{line}");
        while line != "\r\n" {
            line.clear();
            tcp.read_line(&mut line).unwrap();
        }
        Self { tcp, chunk: 0 }
    }

    /// The next message, and its size before the array.
    pub(super) fn record(&mut self) -> (Vec<u8>, usize) {
        let lengths = self.take(8);
        let number =
            |at: usize| u32::from_le_bytes(lengths[at..at + 4].try_into().unwrap()) as usize;
        (self.take(number(0)), number(4))
    }

    fn take(&mut self, bytes: usize) -> Vec<u8> {
        let mut taken = Vec::new();
        while taken.len() < bytes {
            if self.chunk == 0 {
                let mut line = String::new();
                self.tcp.read_line(&mut line).unwrap();
                self.chunk = usize::from_str_radix(line.trim(), 16).unwrap();
                assert_ne!(self.chunk, 0, "the stream ended");
            }
            let at = taken.len();
            taken.resize(at + self.chunk.min(bytes - at), 0);
            self.tcp.read_exact(&mut taken[at..]).unwrap();
            self.chunk -= taken.len() - at;
            if self.chunk == 0 {
                self.tcp.read_exact(&mut [0; 2]).unwrap();
            }
        }
        taken
    }
}
