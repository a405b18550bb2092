//! The kernel's cost of sending the same bytes over plain TCP.

use std::error::Error;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use mio::{Events, Interest, Poll, Token};
use pvwire_schema::encode;
use pvwire_schema::types::{Request, RequestBody};
use serde_json::{Value, json};
use socket2::SockRef;

use crate::cpu;
use crate::record::Record;
use crate::wire::masked;

/// As the relay's sockets have it (`relay/src/session/socket.rs`): the kernel asks more or less for the same
/// bytes when these differ.
const NOTSENT_LOWAT_BYTES: u32 = 64 << 10;

/// As the relay asks its clients to (`ACK_INTERVAL` of `relay/src/main.rs`).
const ACK_INTERVAL: Duration = Duration::from_millis(500);

/// Until a socket that was full is tried again.
const FULL: Duration = Duration::from_micros(500);

/// Messages that are sent before the measurement, so that caches and TCP windows are as they are
/// later.
const WARM_UP_MESSAGES: usize = 5;

/// Sends a record at the times it was received, to every connection, from one thread.
pub(crate) fn send(clients: usize, record: &Path) -> Result<Value, Box<dyn Error>> {
    let record = Record::read(record)?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    eprintln!("listening on {}", listener.local_addr()?);
    let mut sockets = Vec::new();
    let mut acks = Acks::new()?;
    for _ in 0..clients {
        let (socket, _) = listener.accept()?;
        socket.set_nonblocking(true)?;
        let options = SockRef::from(&socket);
        options.set_tcp_nodelay(true)?;
        options.set_tcp_notsent_lowat(NOTSENT_LOWAT_BYTES)?;
        let mut socket = mio::net::TcpStream::from_std(socket);
        let token = Token(sockets.len());
        (acks.poll.registry()).register(&mut socket, token, Interest::READABLE)?;
        sockets.push(socket);
    }
    let first = &record.messages[..WARM_UP_MESSAGES.min(record.messages.len())];
    let (_, warm_up_bytes) = replay(&mut sockets, &mut acks, first)?;
    let before = cpu::own()?;
    let start = Instant::now();
    let (sends, bytes) = replay(&mut sockets, &mut acks, &record.messages)?;
    let seconds = start.elapsed().as_secs_f64();
    let used = cpu::between(&before, &cpu::own()?);
    Ok(json!({
        "sends": sends,
        "bytes": bytes,
        "warmUpBytes": warm_up_bytes,
        "seconds": seconds,
        "cpuNs": used.values().sum::<u64>(),
    }))
}

/// Sends messages in their time; says how many sends and bytes that were.
fn replay(
    sockets: &mut [mio::net::TcpStream],
    acks: &mut Acks,
    messages: &[(Duration, Vec<u8>)],
) -> io::Result<(u64, u64)> {
    let start = Instant::now();
    let (mut sends, mut bytes) = (0, 0);
    for (turn, (at, message)) in messages.iter().enumerate() {
        thread::sleep(at.saturating_sub(start.elapsed()));
        acks.read(sockets)?;
        // Beginning with another each time, as the relay does.
        let (last, first) = sockets.split_at_mut(turn % sockets.len());
        for socket in first.iter_mut().chain(last) {
            send_whole(socket, message)?;
            sends += 1;
            bytes += message.len() as u64;
        }
    }
    Ok((sends, bytes))
}

/// What receivers acknowledge, read once for each message that is sent.
struct Acks {
    poll: Poll,
    events: Events,
    read: u64,
}

impl Acks {
    fn new() -> io::Result<Self> {
        Ok(Self {
            poll: Poll::new()?,
            events: Events::with_capacity(1024),
            read: 0,
        })
    }

    fn read(&mut self, sockets: &mut [mio::net::TcpStream]) -> io::Result<()> {
        self.poll.poll(&mut self.events, Some(Duration::ZERO))?;
        let mut buffer = [0; 1 << 10];
        for event in &self.events {
            // Less than there was room for: there is no more.
            match sockets[event.token().0].read(&mut buffer) {
                Ok(count) => self.read += count as u64,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn send_whole(socket: &mut mio::net::TcpStream, message: &[u8]) -> io::Result<()> {
    let mut at = 0;
    while at < message.len() {
        match socket.write(&message[at..]) {
            Ok(count) => at += count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => thread::sleep(FULL),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads and acknowledges until the sender is done, in the way of the load client: asleep until something
/// comes.
pub(crate) fn receive(sender: &str, clients: usize) -> Result<Value, Box<dyn Error>> {
    let mut poll = Poll::new()?;
    let mut sockets = Vec::new();
    for place in 0..clients {
        let socket = TcpStream::connect(sender)?;
        socket.set_nonblocking(true)?;
        let mut socket = mio::net::TcpStream::from_std(socket);
        poll.registry()
            .register(&mut socket, Token(place), Interest::READABLE)?;
        sockets.push(Some((socket, Instant::now())));
    }
    let mut events = Events::with_capacity(1024);
    let mut buffer = vec![0; 1 << 20];
    let (mut bytes, mut open) = (0_u64, clients);
    let body = RequestBody::Ack { tick: 1 << 20 };
    let ack = masked(&encode::request(&Request { id: 0, body }));
    while open > 0 {
        poll.poll(&mut events, None)?;
        let now = Instant::now();
        for event in &events {
            let place = &mut sockets[event.token().0];
            while let Some((socket, last_ack)) = place {
                match socket.read(&mut buffer) {
                    Ok(0) => {
                        open -= 1;
                        *place = None;
                    }
                    Ok(count) => bytes += count as u64,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        if now.duration_since(*last_ack) >= ACK_INTERVAL {
                            *last_ack = now;
                            // The sender may be done and gone.
                            let _ = socket.write(&ack);
                        }
                        break;
                    }
                    // What it hadn't read yet when it ended.
                    Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                        open -= 1;
                        *place = None;
                    }
                    Err(error) => return Err(error.into()),
                }
            }
        }
    }
    Ok(json!({ "bytes": bytes }))
}

#[cfg(test)]
mod tests {

    #[test]
    fn sockets_have_the_options_of_the_relays() {
        let relay = include_str!("../../../relay/src/session/transport.rs");
        let http = include_str!("../../../relay/src/app/http.rs");
        for (file, line) in [
            (relay, "const NOTSENT_LOWAT_BYTES: u32 = 64 << 10;"),
            (
                http,
                "const ACK_INTERVAL: Duration = Duration::from_millis(500);",
            ),
        ] {
            let constant = format!("\n{line}\n");
            assert!(file.contains(&constant), "the relay has no {line}");
            assert!(include_str!("rawtcp.rs").contains(&constant), "no {line}");
        }
        for option in ["set_tcp_nodelay(true)", "set_tcp_notsent_lowat"] {
            assert!(relay.contains(option), "{option}");
        }
        let options = relay.matches("options.set_").count();
        assert_eq!(options, 2, "the relay sets one that isn't set here");
    }
}
