//! Transports: how the bytes of a session get to its client and back, over TCP with or without TLS.
//!
//! Without TLS a call is one system call. With TLS a frame is encrypted one record at a time, and
//! only while the kernel takes what was encrypted before, so a client that stalls holds one record
//! and not a frame.

use std::io::{self, IoSlice, Read, Write};
use std::net::Shutdown;

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use rustls::ServerConnection;
use socket2::SockRef;

/// Unsent bytes that the kernel keeps for a client. A frame of 1,000 updates fits; more bytes would
/// only be older when they arrive. It also bounds what a thousand stalled clients cost the machine.
/// The size of the send buffer is left to the kernel: it also holds what is sent and not yet
/// acknowledged, so a fixed size would bound what a client gets in one round trip.
const NOTSENT_LOWAT_BYTES: u32 = 64 << 10;

/// Maximum number of encrypted bytes that the kernel hasn't taken: one TLS record.
const RECORD_BYTES: usize = 16 << 10;

/// A connection to one client. No call waits.
pub trait Transport {
    /// Registers for events of reading and writing.
    ///
    /// # Errors
    /// When the system refuses.
    fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()>;

    /// Ends the registration.
    ///
    /// # Errors
    /// When the system refuses.
    fn deregister(&mut self, registry: &Registry) -> io::Result<()>;

    /// Called when the poll reports that there is something to read; `ends`: the client sends no
    /// more after it.
    fn readable(&mut self, ends: bool);

    /// Reads some bytes; 0 at the end.
    ///
    /// # Errors
    /// `WouldBlock` when there are no bytes, other errors when the client is gone.
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize>;

    /// Writes some bytes. While `holds` is true after it, the kernel hasn't taken all of them.
    ///
    /// # Errors
    /// `WouldBlock` when nothing can be written, other errors when the client is gone.
    fn write(&mut self, slices: &[IoSlice<'_>; 3]) -> io::Result<usize>;

    /// Gives the kernel written bytes that it hasn't taken yet; returns how many it took.
    ///
    /// # Errors
    /// When the client is gone.
    fn flush(&mut self) -> io::Result<usize>;

    /// Whether bytes that were written wait for the kernel.
    fn holds(&self) -> bool;

    /// Tells the client that nothing more follows. Best effort: a dead or stalled peer doesn't
    /// receive it.
    fn finish(&mut self);
}

/// A TCP connection that carries the frames as they are.
#[derive(Debug)]
pub struct Tcp {
    stream: TcpStream,
    /// The last read did not fill the buffer, so another one would find nothing.
    drained: bool,
    /// The client sends no more. The end follows its last bytes, and the poll doesn't report it
    /// again.
    ends: bool,
}

/// A TCP connection with TLS.
#[derive(Debug)]
pub struct Tls {
    tcp: Tcp,
    connection: Box<ServerConnection>,
}

/// The transport of a client: chosen once, then one branch per call.
#[derive(Debug)]
pub enum AnyTransport {
    /// Without TLS.
    Tcp(Tcp),
    /// With TLS.
    Tls(Tls),
}

impl AnyTransport {
    /// A connection whose TLS handshake, if there was one, is done.
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn new(
        stream: std::net::TcpStream,
        tls: Option<Box<ServerConnection>>,
    ) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        let options = SockRef::from(&stream);
        options.set_tcp_nodelay(true)?;
        options.set_tcp_notsent_lowat(NOTSENT_LOWAT_BYTES)?;
        let tcp = Tcp::new(TcpStream::from_std(stream));
        Ok(match tls {
            None => Self::Tcp(tcp),
            Some(mut connection) => {
                connection.set_buffer_limit(Some(RECORD_BYTES));
                Self::Tls(Tls { tcp, connection })
            }
        })
    }
}

impl Tcp {
    fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            drained: false,
            ends: false,
        }
    }
}

impl Transport for Tcp {
    fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        let interest = Interest::READABLE | Interest::WRITABLE;
        registry.register(&mut self.stream, token, interest)
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        registry.deregister(&mut self.stream)
    }

    fn readable(&mut self, ends: bool) {
        self.drained = false;
        self.ends |= ends;
    }

    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if std::mem::take(&mut self.drained) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let count = self.stream.read(into)?;
        // The poll reports what comes after this, but reports the end only once.
        self.drained = count > 0 && count < into.len() && !self.ends;
        Ok(count)
    }

    fn write(&mut self, slices: &[IoSlice<'_>; 3]) -> io::Result<usize> {
        match slices {
            // Most frames have one piece, for which the plain call is cheaper.
            [first, second, third] if second.is_empty() && third.is_empty() => {
                self.stream.write(first)
            }
            _ => self.stream.write_vectored(slices),
        }
    }

    fn flush(&mut self) -> io::Result<usize> {
        Ok(0)
    }

    fn holds(&self) -> bool {
        false
    }

    fn finish(&mut self) {
        // It fails when the client is gone already.
        let _ = SockRef::from(&self.stream).shutdown(Shutdown::Write);
    }
}

impl Transport for Tls {
    fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        self.tcp.register(registry, token)
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        self.tcp.deregister(registry)
    }

    fn readable(&mut self, ends: bool) {
        self.tcp.readable(ends);
    }

    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.connection.reader().read(into) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // Without close_notify the client is gone, too.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                other => return other,
            }
            self.connection.read_tls(&mut Encrypted(&mut self.tcp))?;
            if let Err(error) = self.connection.process_new_packets() {
                // Sends the client the TLS alert if the kernel takes it.
                let _ = self.connection.write_tls(&mut self.tcp.stream);
                return Err(io::Error::new(io::ErrorKind::InvalidData, error));
            }
        }
    }

    fn write(&mut self, slices: &[IoSlice<'_>; 3]) -> io::Result<usize> {
        self.flush()?;
        if self.holds() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let taken = self.connection.writer().write_vectored(slices)?;
        self.flush()?;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<usize> {
        let mut written = 0;
        while self.connection.wants_write() {
            match self.connection.write_tls(&mut self.tcp.stream) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(written)
    }

    fn holds(&self) -> bool {
        self.connection.wants_write()
    }

    fn finish(&mut self) {
        self.connection.send_close_notify();
        // A client that is gone or stalled doesn't receive it.
        let _ = self.flush();
        self.tcp.finish();
    }
}

/// The bytes of a connection before they are decrypted.
struct Encrypted<'a>(&'a mut Tcp);

impl Read for Encrypted<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into)
    }
}

/// Calls a method of the transport.
macro_rules! either {
    ($transport:expr, $inner:ident => $call:expr) => {
        match $transport {
            Self::Tcp($inner) => $call,
            Self::Tls($inner) => $call,
        }
    };
}

impl Transport for AnyTransport {
    fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        either!(self, inner => inner.register(registry, token))
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        either!(self, inner => inner.deregister(registry))
    }

    #[inline]
    fn readable(&mut self, ends: bool) {
        either!(self, inner => inner.readable(ends));
    }

    #[inline]
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        either!(self, inner => inner.read(into))
    }

    #[inline]
    fn write(&mut self, slices: &[IoSlice<'_>; 3]) -> io::Result<usize> {
        either!(self, inner => inner.write(slices))
    }

    #[inline]
    fn flush(&mut self) -> io::Result<usize> {
        either!(self, inner => inner.flush())
    }

    #[inline]
    fn holds(&self) -> bool {
        either!(self, inner => inner.holds())
    }

    fn finish(&mut self) {
        either!(self, inner => inner.finish());
    }
}
