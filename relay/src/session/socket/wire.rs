//! How do bytes get into a client's TCP connection and out of it, encrypted or not?
//!
//! Without TLS a call here is a call of the system and no more. With TLS a frame's bytes are encrypted
//! one record at a time and only while the kernel takes what was encrypted before, so that a client
//! that stalls holds one record and not a frame.

use std::io::{self, IoSlice, Read, Write};
use std::net::Shutdown;

use mio::net::TcpStream;
use rustls::ServerConnection;

/// Most bytes that are encrypted before the kernel has taken those before: one record of TLS.
const RECORD_BYTES: usize = 16 << 10;

/// One client's connection.
pub(super) struct Wire {
    tcp: TcpStream,
    tls: Option<Box<ServerConnection>>,
    incoming: Incoming,
}

/// What is known of bytes that wait to be read.
#[derive(Default)]
struct Incoming {
    /// The last read gave less than there was room for, so the next one would find nothing.
    drained: bool,
    /// The client sends no more: behind its last bytes is the end, which no poll tells again.
    ends: bool,
}

impl Wire {
    pub(super) fn new(tcp: TcpStream, mut tls: Option<Box<ServerConnection>>) -> Self {
        if let Some(tls) = &mut tls {
            tls.set_buffer_limit(Some(RECORD_BYTES));
        }
        Self {
            tcp,
            tls,
            incoming: Incoming::default(),
        }
    }

    /// The poll says that there is something to read, and whether the end is behind it.
    pub(super) fn comes(&mut self, ends: bool) {
        self.incoming.drained = false;
        self.incoming.ends |= ends;
    }

    /// For the poll.
    pub(super) fn tcp(&mut self) -> &mut TcpStream {
        &mut self.tcp
    }

    /// Whether encrypted bytes wait for the kernel.
    pub(super) fn holds(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// Takes some of a frame's bytes; where `holds` is true after it, the kernel hasn't all of them.
    pub(super) fn write(&mut self, slices: &[IoSlice<'_>; 3]) -> io::Result<usize> {
        if self.tls.is_none() {
            // Most frames are of one piece, for which the plain call costs the kernel less.
            return match slices {
                [first, second, third] if second.is_empty() && third.is_empty() => {
                    self.tcp.write(first)
                }
                _ => self.tcp.write_vectored(slices),
            };
        }
        self.flush()?;
        if self.holds() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let taken = match &mut self.tls {
            Some(tls) => tls.writer().write_vectored(slices)?,
            None => 0,
        };
        self.flush()?;
        Ok(taken)
    }

    /// Gives the kernel what waits, as far as it takes it; says how many bytes that were.
    pub(super) fn flush(&mut self) -> io::Result<usize> {
        let mut written = 0;
        let Some(tls) = &mut self.tls else {
            return Ok(0);
        };
        while tls.wants_write() {
            match tls.write_tls(&mut self.tcp) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(written)
    }

    /// Says that nothing more follows.
    pub(super) fn end(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            // Who is gone isn't told, and who takes nothing learns it from TCP.
            let _ = self.flush();
        }
        let _ = self.tcp.shutdown(Shutdown::Write);
    }

    fn read_tcp(
        tcp: &mut TcpStream,
        incoming: &mut Incoming,
        into: &mut [u8],
    ) -> io::Result<usize> {
        if std::mem::take(&mut incoming.drained) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let count = tcp.read(into)?;
        // The poll tells of what comes after this, but of the end only once.
        incoming.drained = count > 0 && count < into.len() && !incoming.ends;
        Ok(count)
    }
}

impl Read for Wire {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let Self { tcp, tls, incoming } = self;
        let Some(tls) = tls else {
            return Self::read_tcp(tcp, incoming, into);
        };
        loop {
            match tls.reader().read(into) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // Without a farewell, too, the client is gone.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                other => return other,
            }
            tls.read_tls(&mut Encrypted { tcp, incoming })?;
            if let Err(error) = tls.process_new_packets() {
                // What is wrong is told as far as the socket takes it.
                let _ = tls.write_tls(tcp);
                return Err(io::Error::new(io::ErrorKind::InvalidData, error));
            }
        }
    }
}

/// What comes in before it is decrypted.
struct Encrypted<'a> {
    tcp: &'a mut TcpStream,
    incoming: &'a mut Incoming,
}

impl Read for Encrypted<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        Wire::read_tcp(self.tcp, self.incoming, into)
    }
}
