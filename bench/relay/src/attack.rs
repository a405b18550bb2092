//! Clients that try to exhaust the relay while others are measured.
//!
//! An attack says what one connection does until the time is over. A connection that the relay closes is
//! opened again.

mod bus;
mod computing;

use std::error::Error;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use pvwire_schema::encode;
use pvwire_schema::types::{Filter, PutRequest, PutValue, Request, RequestBody};

use crate::door;
use crate::flood;
use crate::wire::{handshake, masked};

/// An unsolicited pong.
const PONG: [u8; 6] = [0x8a, 0x80, 0, 0, 0, 0];

/// How long the attacker waits for what it can't do at once.
const PATIENCE: Duration = Duration::from_millis(20);

/// How long a client of PVWS waits before it connects again, for ever: that of cs-web-lib.
const RECONNECT_AFTER: Duration = Duration::from_millis(500);

/// Names of a request to subscribe, and how many requests are sent without waiting.
const SUBSCRIBED: usize = 10_000;
const REQUESTS: usize = 60;

/// Half of the clients that subscribe again and again reconnect after this time, with new budgets.
const NEW_BUDGETS_AFTER: Duration = Duration::from_secs(2);

/// PVs of each client that reconnects.
const RECONNECTING_PVS: usize = 10;

/// What the attackers do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Attack {
    /// 200 large simulated PVs, and gets of large values that are not read.
    Bytes,
    /// Unsolicited pongs without end.
    Pongs,
    /// `GET /metrics` again and again, without reading the answers.
    Pipeline,
    /// Simulated PVs whose arguments no generator expects.
    Rampwave,
    /// Puts that are refused, with long names.
    Audit,
    /// Messages of the fleet, repeated and changed; the address is that of its NATS server.
    Bus,
    /// Documents of Coniql's door that are compiled again and again.
    Documents,
    /// Documents of Coniql's door with thousands of errors.
    WrongDocuments,
    /// Thousands of formulas over a fast PV, and some with large results.
    Formulas,
    /// Messages of PVWS with hundreds of thousands of empty lists.
    PvwsJson,
    /// Clients of PVWS that lose each connection as soon as they have values, and connect again.
    Reconnects,
    /// The same 10,000 PVs subscribed again and again, without waiting.
    Subscribe,
    /// 10,000 PVs, and then one more by each request.
    SubscribeSingly,
    /// The same 10,000 with names that no server has.
    SubscribeUnknown,
    /// 300 gets of a value of 8 MB by plain HTTP at a time, again and again.
    Gets,
    /// 300 handshakes at a time, again and again.
    Handshakes,
}

impl Attack {
    fn connections(self) -> usize {
        match self {
            Self::Reconnects => 1_000,
            Self::Gets | Self::Handshakes => 300,
            Self::Pipeline => 200,
            Self::Subscribe | Self::SubscribeSingly | Self::SubscribeUnknown => 24,
            Self::Bytes | Self::Documents | Self::WrongDocuments => 8,
            Self::Bus => 1,
            Self::Pongs | Self::Rampwave | Self::Audit | Self::Formulas | Self::PvwsJson => 4,
        }
    }

    /// What connection number `number` sends first, and then without end.
    fn says(self, relay: &str, number: usize) -> (Vec<u8>, Vec<u8>) {
        let image = |n: usize| format!("sim://image(10000000,1,rate_hz=1.{n:03})");
        match self {
            // Some take what comes, the others read nothing.
            Self::Bytes if number.is_multiple_of(2) => {
                let names = (0..200).map(|n| image(200 * number + n)).collect();
                let filter = Filter::default();
                (
                    request(1, RequestBody::Subscribe { names, filter }),
                    PONG.into(),
                )
            }
            Self::Bytes => {
                let get = |id| {
                    let body = RequestBody::Get {
                        names: vec![image(number)],
                        timeout_ms: 5_000,
                        description: false,
                    };
                    request(id, body)
                };
                ((1..=62).flat_map(get).collect(), Vec::new())
            }
            Self::Pongs => (Vec::new(), PONG.repeat(10_000)),
            Self::Pipeline => {
                let get = format!("GET /metrics HTTP/1.1\r\nHost: {relay}\r\n\r\n");
                (Vec::new(), get.repeat(50).into_bytes())
            }
            Self::Rampwave => {
                let names = vec!["ssim://rampwave(5,1,0,1e-320,1e15)".to_owned()];
                let filter = Filter::default();
                (
                    request(1, RequestBody::Subscribe { names, filter }),
                    PONG.into(),
                )
            }
            Self::Documents => (computing::greeting(), computing::documents(number)),
            Self::WrongDocuments => (computing::greeting(), computing::wrong_documents(number)),
            Self::Formulas => (computing::formulas(number), PONG.into()),
            Self::PvwsJson => (Vec::new(), computing::empty_lists()),
            Self::Subscribe | Self::SubscribeUnknown => {
                let name = |n: usize| match self {
                    Self::Subscribe => format!("sim://counter(rate_hz=0.001,start={n})"),
                    _ => format!("NO:SERVER:HAS:THIS:{n}"),
                };
                let subscribe = |id| {
                    let names = (0..SUBSCRIBED).map(name).collect();
                    let filter = Filter::default();
                    request(id, RequestBody::Subscribe { names, filter })
                };
                let first = subscribe(1);
                (first.repeat(REQUESTS), first)
            }
            Self::SubscribeSingly => {
                let subscribe = |id: u32, from: usize, count: usize| {
                    let name = |n| format!("sim://counter(rate_hz=0.001,start={n})");
                    let names = (from..from + count).map(name).collect();
                    let filter = Filter::default();
                    request(id, RequestBody::Subscribe { names, filter })
                };
                let singly = (2..).zip(SUBSCRIBED..2 * SUBSCRIBED);
                let more = singly.flat_map(|(id, n)| subscribe(id, n, 1)).collect();
                (subscribe(1, 0, SUBSCRIBED), more)
            }
            // See `run`.
            Self::Bus | Self::Reconnects | Self::Gets | Self::Handshakes => Default::default(),
            Self::Audit => {
                let put = |id| {
                    let put = PutRequest {
                        name: "x".repeat(1_000),
                        value: PutValue::Number(1.0),
                        wait: false,
                        timeout_ms: 0,
                        expected: None,
                    };
                    request(id, RequestBody::Put(put))
                };
                (Vec::new(), (1..=20).flat_map(put).collect())
            }
        }
    }

    /// When this connection is closed by itself, at the latest at the `end`.
    fn ends(self, number: usize, end: Instant) -> Instant {
        let takes_new = matches!(
            self,
            Self::Subscribe | Self::SubscribeSingly | Self::SubscribeUnknown
        );
        if takes_new && number.is_multiple_of(2) {
            end.min(Instant::now() + NEW_BUDGETS_AFTER)
        } else {
            end
        }
    }

    /// Whether this connection reads what it is sent.
    fn reads(self, number: usize) -> bool {
        match self {
            Self::Bytes => number.is_multiple_of(2),
            Self::Pipeline | Self::Reconnects | Self::Gets | Self::Handshakes => false,
            _ => true,
        }
    }
}

fn request(id: u32, body: RequestBody) -> Vec<u8> {
    masked(&encode::request(&Request { id, body }))
}

/// Attacks until the time is over; says how often connections were made.
pub(crate) fn run(
    relay: &str,
    attack: Attack,
    names: &[String],
    time: Duration,
) -> Result<String, Box<dyn Error>> {
    match attack {
        Attack::Reconnects => return reconnect(relay, attack.connections(), names, time),
        Attack::Bus => return bus::repeat(relay, time),
        Attack::Gets => return flood::gets(relay, attack.connections(), time),
        Attack::Handshakes => return flood::handshakes(relay, attack.connections(), time),
        _ => {}
    }
    let address: SocketAddr = relay.parse()?;
    let end = Instant::now() + time;
    let attackers = (0..attack.connections()).map(|number| {
        let relay = relay.to_owned();
        thread::spawn(move || {
            let mut made = 0_u64;
            while Instant::now() < end {
                made += 1;
                // The relay closes it, or has no place for it.
                let _ = attack_once(address, &relay, attack, number, attack.ends(number, end));
                thread::sleep(PATIENCE);
            }
            made
        })
    });
    let attackers: Vec<_> = attackers.collect();
    let made = attackers.into_iter().filter_map(|one| one.join().ok());
    Ok(format!("{{\"connections\": {}}}", made.sum::<u64>()))
}

/// Clients of PVWS that connect, subscribe each PV by a separate message as cs-web-lib does, lose the connection
/// after the first values, and connect again.
fn reconnect(
    relay: &str,
    clients: usize,
    names: &[String],
    time: Duration,
) -> Result<String, Box<dyn Error>> {
    let address: SocketAddr = relay.parse()?;
    let end = Instant::now() + time;
    let names = names.iter().take(RECONNECTING_PVS);
    let subscribe = names.flat_map(|name| door::subscribe(&[name]));
    let words = Arc::new((door::handshake(relay), subscribe.collect::<Vec<u8>>()));
    let start = |number: usize| {
        let words = Arc::clone(&words);
        let first = RECONNECT_AFTER.mul_f64(number as f64 / clients as f64);
        thread::Builder::new().stack_size(64 << 10).spawn(move || {
            // They lost their server at the same time, but not in the same millisecond.
            thread::sleep(first);
            let mut counts = [0_u64; 2];
            while Instant::now() < end {
                let is_served = reconnect_once(address, &words).unwrap_or(false);
                counts[usize::from(is_served)] += 1;
                thread::sleep(RECONNECT_AFTER);
            }
            counts
        })
    };
    let started = (0..clients).map(start).collect::<io::Result<Vec<_>>>()?;
    let (mut refused, mut served) = (0, 0);
    for [no, yes] in started.into_iter().filter_map(|one| one.join().ok()) {
        (refused, served) = (refused + no, served + yes);
    }
    Ok(format!("{{\"served\": {served}, \"refused\": {refused}}}"))
}

/// One connection; returns whether the relay took it.
fn reconnect_once(
    address: SocketAddr,
    (handshake, subscribe): &(Vec<u8>, Vec<u8>),
) -> io::Result<bool> {
    let mut tcp = TcpStream::connect(address)?;
    tcp.set_read_timeout(Some(RECONNECT_AFTER))?;
    tcp.write_all(handshake)?;
    let mut taken = [0; 4 << 10];
    let count = tcp.read(&mut taken)?;
    if !taken[..count].starts_with(b"HTTP/1.1 101 ") {
        return Ok(false);
    }
    tcp.write_all(subscribe)?;
    Ok(tcp.read(&mut taken)? > 0)
}

fn attack_once(
    address: SocketAddr,
    relay: &str,
    attack: Attack,
    number: usize,
    end: Instant,
) -> io::Result<()> {
    let mut tcp = TcpStream::connect(address)?;
    tcp.set_read_timeout(Some(PATIENCE))?;
    tcp.set_write_timeout(Some(PATIENCE))?;
    let (first, more) = attack.says(relay, number);
    match attack {
        Attack::Pipeline => {}
        Attack::Documents | Attack::WrongDocuments => {
            tcp.write_all(&door::handshake_of_coniql(relay))?;
        }
        Attack::Formulas | Attack::PvwsJson => tcp.write_all(&door::handshake(relay))?,
        _ => tcp.write_all(&handshake(relay, false))?,
    }
    let mut taken = vec![0; 1 << 16];
    let mut unsent = first;
    while Instant::now() < end {
        match tcp.write(&unsent) {
            Ok(count) => drop(unsent.drain(..count)),
            Err(error) if is_patient(&error) => {}
            Err(error) => return Err(error),
        }
        if unsent.is_empty() {
            unsent.clone_from(&more);
        }
        if attack.reads(number) {
            match tcp.read(&mut taken) {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(error) if is_patient(&error) => {}
                Err(error) => return Err(error),
            }
        } else {
            thread::sleep(PATIENCE);
        }
    }
    Ok(())
}

fn is_patient(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}
