//! Attacks of hostile clients on the relay; each lasts a while, beside everything else.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Connections that one attack holds at a time; more than the relay has file descriptors for.
const CONNECTIONS: usize = 300;

/// Connections that ask and don't read.
const SLOW_READERS: usize = 50;

/// An attack under way.
pub(super) struct Attack {
    thread: JoinHandle<()>,
}

impl Attack {
    fn begin(time: Duration, attack: impl FnOnce(Instant) + Send + 'static) -> Self {
        let until = Instant::now() + time;
        Self {
            thread: thread::spawn(move || attack(until)),
        }
    }

    /// Waits for its end.
    pub(super) fn end(self) {
        self.thread.join().unwrap();
    }
}

/// Opens connections until the relay has no descriptors left, and holds them.
pub(super) fn use_up_descriptors(relay: SocketAddr, time: Duration) -> Attack {
    Attack::begin(time, move |until| {
        let mut held = Vec::new();
        while Instant::now() < until {
            if held.len() < CONNECTIONS {
                held.extend(TcpStream::connect(relay).ok());
            }
            // The relay closes those that send nothing, and those beyond its limits.
            if held.len() == CONNECTIONS {
                held.retain(is_open);
                thread::sleep(Duration::from_millis(20));
            }
        }
    })
}

fn is_open(stream: &TcpStream) -> bool {
    let _ = stream.set_nonblocking(true);
    let looked = stream.peek(&mut [0]);
    looked.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}

/// Asks for the longest pages, again and again on each connection, and reads nothing.
pub(super) fn ask_and_read_nothing(relay: SocketAddr, time: Duration) -> Attack {
    Attack::begin(time, move |until| {
        let request = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: {relay}\r\n\r\n");
        let requests = [request("/status"), request("/metrics")].concat();
        let requests = requests.repeat(50);
        let mut held = Vec::new();
        while Instant::now() < until {
            if held.len() == SLOW_READERS {
                held.clear();
            }
            if let Ok(mut stream) = TcpStream::connect(relay) {
                let _ = stream.write_all(requests.as_bytes());
                held.push(stream);
            }
            thread::sleep(Duration::from_millis(5));
        }
    })
}

/// Sends the smallest WebSocket frames as fast as the relay reads them, one connection after the
/// other.
pub(super) fn flood_with_control_frames(relay: SocketAddr, time: Duration) -> Attack {
    Attack::begin(time, move |until| {
        // Continuations of a message, pongs, pings.
        for (begins, opcode) in [(true, 0x00), (false, 0x8a), (false, 0x89)]
            .into_iter()
            .cycle()
        {
            if Instant::now() >= until {
                return;
            }
            let Some(mut stream) = handshake(relay) else {
                // The relay is away, or full.
                thread::sleep(Duration::from_millis(20));
                continue;
            };
            if begins {
                let _ = stream.write_all(&[0x02, 0x80, 0, 0, 0, 0]);
            }
            let frames = [opcode, 0x80, 0, 0, 0, 0].repeat(2_000);
            while Instant::now() < until && stream.write_all(&frames).is_ok() {}
        }
    })
}

/// A connection after its handshake, unless the relay refuses it.
fn handshake(relay: SocketAddr) -> Option<TcpStream> {
    let mut stream = TcpStream::connect(relay).ok()?;
    let patience = Some(Duration::from_secs(2));
    stream.set_read_timeout(patience).ok()?;
    stream.set_write_timeout(patience).ok()?;
    let request = format!(
        "GET /ws HTTP/1.1\r\nHost: {relay}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
         Sec-WebSocket-Protocol: pvwire.v1\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).ok()?;
    let mut begin = [0; 12];
    stream.read_exact(&mut begin).ok()?;
    (&begin == b"HTTP/1.1 101").then_some(stream)
}
