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

/// Interval between two probes.
const PROBE_EVERY: Duration = Duration::from_millis(20);

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

/// Calls `once` again and again in each of `count` threads, and `beside` in one.
fn attack(
    count: usize,
    time: Duration,
    once: impl Fn() -> io::Result<bool> + Sync,
    mut beside: impl FnMut() + Send,
) -> io::Result<[u64; 2]> {
    let (end, counts) = (Instant::now() + time, Counts::default());
    thread::scope(|scope| {
        let attacker = || {
            // What attackers compute delays no client where they have separate machines. The probes may not wait.
            rustix::process::setpriority_process(None, 19)?;
            while Instant::now() < end {
                match once() {
                    Ok(is_served) => counts.add(is_served),
                    Err(_) => {
                        counts.add(false);
                        thread::sleep(PROBE_EVERY);
                    }
                }
            }
            io::Result::Ok(())
        };
        for _ in 0..count {
            let thread = thread::Builder::new().stack_size(STACK_BYTES);
            thread.spawn_scoped(scope, attacker)?;
        }
        scope.spawn(move || {
            while Instant::now() < end {
                beside();
                thread::sleep(PROBE_EVERY);
            }
        });
        io::Result::Ok(())
    })?;
    Ok(counts.get())
}

/// Gets a large value, `count` at a time; says how long probes took beside them.
pub(crate) fn gets(relay: &str, count: usize, time: Duration) -> Result<String, Box<dyn Error>> {
    let address: SocketAddr = relay.parse()?;
    let longest = ["/live", "/metrics"].map(|path| (path, Duration::ZERO));
    let mut longest = longest;
    let once = || Ok(get(address, LARGE)?.0);
    let probe = || {
        for (path, longest) in &mut longest {
            let since = Instant::now();
            // A probe that fails counts as one that takes as long as it may.
            let took = match get(address, path) {
                Ok((true, _)) => since.elapsed(),
                _ => PATIENCE,
            };
            *longest = (*longest).max(took);
        }
    };
    let [served, refused] = attack(count, time, once, probe)?;
    let [live, metrics] = longest.map(|(_, longest)| longest.as_secs_f64() * 1e3);
    Ok(format!(
        "{{\"served\": {served}, \"refused\": {refused}, \"live_max_ms\": {live:.1}, \
         \"metrics_max_ms\": {metrics:.1}}}"
    ))
}

/// One request; whether it had an answer with a body, and the body's length.
fn get(address: SocketAddr, path: &str) -> io::Result<(bool, usize)> {
    let mut tcp = connect(address)?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    tcp.write_all(request.as_bytes())?;
    let mut bytes = [0; 32 << 10];
    let mut length = tcp.read(&mut bytes)?;
    let is_served = bytes[..length].starts_with(b"HTTP/1.1 200 ");
    loop {
        match tcp.read(&mut bytes)? {
            0 => return Ok((is_served, length)),
            count => length += count,
        }
    }
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
    let [served, refused] = attack(count, time, once, || {})?;
    Ok(format!("{{\"served\": {served}, \"refused\": {refused}}}"))
}
