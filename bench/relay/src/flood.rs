//! Attacks whose connections make one request each: gets of a large value by plain HTTP, and handshakes.

use std::error::Error;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};

use crate::wire::handshake;

/// How long an attacker waits for the relay.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long an attacker waits after a connection that failed.
const PAUSE: Duration = Duration::from_millis(20);

/// How long a client of the handshakes stays.
const STAYS: Duration = Duration::from_millis(50);

/// Where attackers are if the relay is at 127.0.0.1.
const ATTACKERS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// A value of 8 MB.
const LARGE: &str = "/pv/sim%3A%2F%2Fwaveform(1000000,rate_hz=0.1)";

/// Threads of an attack need little.
const STACK_BYTES: usize = 128 << 10;

/// What attackers at the same time have got.
#[derive(Default)]
struct Counts {
    served: AtomicU64,
    refused: AtomicU64,
}

impl Counts {
    fn add(&self, is_served: bool) {
        let counter = if is_served {
            &self.served
        } else {
            &self.refused
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    fn get(&self) -> [u64; 2] {
        [&self.served, &self.refused].map(|counter| counter.load(Ordering::Relaxed))
    }
}

/// Calls `once` again and again in each of `count` threads.
fn attack(
    count: usize,
    time: Duration,
    once: impl Fn() -> io::Result<bool> + Sync,
) -> io::Result<String> {
    let (end, counts) = (Instant::now() + time, Counts::default());
    thread::scope(|scope| {
        let attacker = || {
            while Instant::now() < end {
                match once() {
                    Ok(is_served) => counts.add(is_served),
                    Err(_) => {
                        counts.add(false);
                        thread::sleep(PAUSE);
                    }
                }
            }
        };
        for _ in 0..count {
            let thread = thread::Builder::new().stack_size(STACK_BYTES);
            thread.spawn_scoped(scope, attacker)?;
        }
        io::Result::Ok(())
    })?;
    let [served, refused] = counts.get();
    Ok(format!("{{\"served\": {served}, \"refused\": {refused}}}"))
}

/// Gets a large value, `count` at a time; says how often it came.
pub(crate) fn gets(relay: &str, count: usize, time: Duration) -> Result<String, Box<dyn Error>> {
    let address: SocketAddr = relay.parse()?;
    Ok(attack(count, time, || get(address, LARGE))?)
}

/// One request; whether its answer was a good one.
fn get(address: SocketAddr, path: &str) -> io::Result<bool> {
    let mut tcp = connect(address)?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    tcp.write_all(request.as_bytes())?;
    let mut bytes = [0; 32 << 10];
    let length = tcp.read(&mut bytes)?;
    let is_served = bytes[..length].starts_with(b"HTTP/1.1 200 ");
    while tcp.read(&mut bytes)? > 0 {}
    Ok(is_served)
}

/// Attackers come from another address, because the clients of an address share what it may use.
fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    if address.ip() == Ipv4Addr::LOCALHOST {
        socket.bind(&SocketAddr::from((ATTACKERS, 0)).into())?;
    }
    socket.connect(&address.into())?;
    let tcp = TcpStream::from(socket);
    tcp.set_read_timeout(Some(PATIENCE))?;
    tcp.set_write_timeout(Some(PATIENCE))?;
    Ok(tcp)
}

/// Opens WebSockets, `count` at a time; says how many of them were served.
pub(crate) fn handshakes(
    relay: &str,
    count: usize,
    time: Duration,
) -> Result<String, Box<dyn Error>> {
    let address: SocketAddr = relay.parse()?;
    let words = handshake(relay, false);
    let once = || {
        let mut tcp = connect(address)?;
        tcp.write_all(&words)?;
        let mut begin = [0; 1 << 10];
        let count = tcp.read(&mut begin)?;
        let is_served = begin[..count].starts_with(b"HTTP/1.1 101 ");
        if is_served {
            thread::sleep(STAYS);
        }
        Ok(is_served)
    };
    Ok(attack(count, time, once)?)
}
