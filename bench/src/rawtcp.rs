//! What does the kernel ask for the same bytes, sent the plainest way?

use std::error::Error;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cpu;
use crate::record::Record;

/// As the load client's: the receiver must not cost the sender a wake-up a message.
const IDLE: Duration = Duration::from_micros(500);

/// Sends a record at the times it was received, to every connection, from one thread.
pub(crate) fn send(clients: usize, record: &Path) -> Result<Value, Box<dyn Error>> {
    let record = Record::read(record)?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    eprintln!("listening on {}", listener.local_addr()?);
    let mut sockets = Vec::new();
    for _ in 0..clients {
        let (socket, _) = listener.accept()?;
        socket.set_nodelay(true)?;
        socket.set_nonblocking(true)?;
        sockets.push(socket);
    }
    let before = cpu::by_thread("self")?;
    let start = Instant::now();
    let (mut sends, mut bytes) = (0_u64, 0_u64);
    for (turn, (at, message)) in record.messages.iter().enumerate() {
        thread::sleep(at.saturating_sub(start.elapsed()));
        for place in 0..clients {
            // Beginning with another each time, as the relay does.
            let socket = &mut sockets[(place + turn) % clients];
            send_whole(socket, message)?;
            sends += 1;
            bytes += message.len() as u64;
        }
    }
    let used = cpu::between(&before, &cpu::by_thread("self")?);
    Ok(json!({
        "sends": sends,
        "bytes": bytes,
        "seconds": start.elapsed().as_secs_f64(),
        "cpuNs": used.values().sum::<u64>(),
    }))
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

/// Reads and forgets until the sender is done.
pub(crate) fn receive(sender: &str, clients: usize) -> Result<Value, Box<dyn Error>> {
    let mut sockets = Vec::new();
    for _ in 0..clients {
        let socket = TcpStream::connect(sender)?;
        socket.set_nonblocking(true)?;
        sockets.push(socket);
    }
    let mut buffer = vec![0; 1 << 20];
    let mut bytes = 0_u64;
    while !sockets.is_empty() {
        let mut idle = true;
        sockets.retain_mut(|socket| match socket.read(&mut buffer) {
            Ok(0) => false,
            Ok(count) => {
                bytes += count as u64;
                idle = false;
                true
            }
            Err(error) => error.kind() == io::ErrorKind::WouldBlock,
        });
        if idle {
            thread::sleep(IDLE);
        }
    }
    Ok(json!({ "bytes": bytes }))
}
