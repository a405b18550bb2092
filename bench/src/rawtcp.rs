//! What does the kernel ask for the same bytes, sent the plainest way?

use std::error::Error;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use mio::{Events, Interest, Poll, Token};
use serde_json::{Value, json};
use socket2::SockRef;

use crate::cpu;
use crate::load::IDLE;
use crate::record::Record;

/// As the relay's sockets have it (`relay/src/socket.rs`): the kernel asks more or less for the same
/// bytes when these differ.
const NOTSENT_LOWAT_BYTES: u32 = 64 << 10;
const SEND_BUFFER_BYTES: usize = 64 << 10;

/// Messages that are sent before the measurement, so that caches and TCP windows are as they are
/// later.
const WARM_UP_MESSAGES: usize = 5;

/// Sends a record at the times it was received, to every connection, from one thread.
pub(crate) fn send(clients: usize, record: &Path) -> Result<Value, Box<dyn Error>> {
    let record = Record::read(record)?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    eprintln!("listening on {}", listener.local_addr()?);
    let mut sockets = Vec::new();
    for _ in 0..clients {
        let (socket, _) = listener.accept()?;
        socket.set_nonblocking(true)?;
        let options = SockRef::from(&socket);
        options.set_tcp_nodelay(true)?;
        options.set_send_buffer_size(SEND_BUFFER_BYTES)?;
        options.set_tcp_notsent_lowat(NOTSENT_LOWAT_BYTES)?;
        sockets.push(socket);
    }
    let first = &record.messages[..WARM_UP_MESSAGES.min(record.messages.len())];
    let (_, warm_up_bytes) = replay(&mut sockets, first)?;
    let before = cpu::own()?;
    let start = Instant::now();
    let (sends, bytes) = replay(&mut sockets, &record.messages)?;
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
fn replay(sockets: &mut [TcpStream], messages: &[(Duration, Vec<u8>)]) -> io::Result<(u64, u64)> {
    let start = Instant::now();
    let (mut sends, mut bytes) = (0, 0);
    for (turn, (at, message)) in messages.iter().enumerate() {
        thread::sleep(at.saturating_sub(start.elapsed()));
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

fn send_whole(socket: &mut TcpStream, message: &[u8]) -> io::Result<()> {
    let mut at = 0;
    while at < message.len() {
        match socket.write(&message[at..]) {
            Ok(count) => at += count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => thread::sleep(IDLE),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads and forgets until the sender is done, in the way of the load client: the receiver must not
/// cost the sender a wake-up a message.
pub(crate) fn receive(sender: &str, clients: usize) -> Result<Value, Box<dyn Error>> {
    let mut poll = Poll::new()?;
    let mut sockets = Vec::new();
    for place in 0..clients {
        let socket = TcpStream::connect(sender)?;
        socket.set_nonblocking(true)?;
        let mut socket = mio::net::TcpStream::from_std(socket);
        poll.registry()
            .register(&mut socket, Token(place), Interest::READABLE)?;
        sockets.push(Some(socket));
    }
    let mut events = Events::with_capacity(1024);
    let mut buffer = vec![0; 1 << 20];
    let (mut bytes, mut open) = (0_u64, clients);
    while open > 0 {
        poll.poll(&mut events, Some(Duration::ZERO))?;
        for event in &events {
            let place = &mut sockets[event.token().0];
            while let Some(socket) = place {
                match socket.read(&mut buffer) {
                    Ok(0) => {
                        open -= 1;
                        *place = None;
                    }
                    Ok(count) => bytes += count as u64,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error.into()),
                }
            }
        }
        if events.is_empty() {
            thread::sleep(IDLE);
        }
    }
    Ok(json!({ "bytes": bytes }))
}

#[cfg(test)]
mod tests {

    #[test]
    fn sockets_have_the_options_of_the_relays() {
        let relay = include_str!("../../relay/src/socket.rs");
        for line in [
            "const NOTSENT_LOWAT_BYTES: u32 = 64 << 10;",
            "const SEND_BUFFER_BYTES: usize = 64 << 10;",
        ] {
            let constant = format!("\n{line}\n");
            assert!(relay.contains(&constant), "the relay has no {line}");
            assert!(include_str!("rawtcp.rs").contains(&constant), "no {line}");
        }
        for option in [
            "set_tcp_nodelay(true)",
            "set_send_buffer_size",
            "set_tcp_notsent_lowat",
        ] {
            assert!(relay.contains(option), "{option}");
        }
        let options = relay.matches("options.set_").count();
        assert_eq!(options, 3, "the relay sets one that isn't set here");
    }
}
