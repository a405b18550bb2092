//! Many clients of one of a relay's doors: what they receive, and what they cost the relay.
//!
//! Each text is read by hand and each value is checked, so that this program isn't the bottleneck.

mod coniql;
mod pvws;

use std::collections::HashMap;
use std::error::Error;
use std::fs;
use std::io::{self, Read, Write};
use std::mem;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use serde_json::{Value, json};

use crate::cpu::Meter;
use crate::latency::Delays;
use crate::memory;
use crate::peer::tally::{Counts, Tally, behind};
use crate::peer::{Dialect, Selection};
use crate::seconds;
use crate::wire::{answer_at, message_at};
use coniql::Said;
pub(crate) use coniql::handshake as handshake_of_coniql;
use pvws::read_update;
pub(crate) use pvws::{handshake, subscribe};

/// How often all clients are checked for silence.
const SWEEP_EVERY: Duration = Duration::from_millis(50);

/// A client that hears nothing for longer is forgotten: each PV has several updates in this time.
const LONGEST_SILENCE: Duration = Duration::from_secs(2);

/// How long the relay may take until every PV of every client has a value.
const PATIENCE: Duration = Duration::from_secs(120);

#[derive(clap::Args)]
pub(crate) struct Plan {
    /// Relay, as 127.0.0.1:8080.
    #[arg(long)]
    relay: String,
    /// Process whose CPU time is measured.
    #[arg(long)]
    pid: u32,
    /// Protocol of the door.
    #[arg(long, default_value = "pvws")]
    dialect: Dialect,
    /// What is requested at a door that lets clients choose.
    #[arg(long, default_value = "values")]
    selection: Selection,
    /// Number of clients. Each subscribes to all PVs.
    #[arg(long)]
    clients: usize,
    /// File with one PV name a line; every PV counts up by one.
    #[arg(long)]
    names: PathBuf,
    /// Seconds before the measurement starts.
    #[arg(long = "warm-up-s", default_value = "3", value_name = "SECONDS", value_parser = seconds)]
    warm_up: Duration,
    /// Seconds of the measurement.
    #[arg(long = "seconds", value_name = "SECONDS", value_parser = seconds)]
    window: Duration,
}

/// What all clients share.
struct Shared {
    places: HashMap<Vec<u8>, usize>,
    names: Vec<Vec<u8>>,
    delays: Delays,
    now_ns: i64,
    now: Instant,
}

/// What each client says, in this order.
struct Words {
    handshake: Vec<u8>,
    /// Where a greeting must be answered first.
    greeting: Option<Vec<u8>>,
    subscribe: Vec<u8>,
}

struct Client {
    tcp: TcpStream,
    dialect: Dialect,
    unsaid: Vec<u8>,
    /// What to say after the greeting was answered.
    after_greeting: Vec<u8>,
    is_open: bool,
    unread: Vec<u8>,
    tally: Tally,
    /// The PV that comes next if they come in the order of their names.
    next: usize,
    messages: u64,
    bytes: u64,
    /// Updates without a number: the PV was lost.
    lost: u64,
    last_heard: Instant,
    longest_silence: Duration,
}

struct Hall {
    clients: Vec<Client>,
    shared: Shared,
    poll: Poll,
    events: Events,
    buffer: Vec<u8>,
    next_sweep: Instant,
    last_round: Instant,
    longest_pause: Duration,
}

pub(crate) fn run(plan: &Plan) -> Result<Value, Box<dyn Error>> {
    let mut hall = Hall::new(&fs::read_to_string(&plan.names)?)?;
    hall.connect(plan)?;
    eprintln!("{} clients have their PVs", hall.clients.len());
    let connected = memory::usage(plan.pid)?;
    hall.run_for(plan.warm_up)?;
    let before: Counts = hall.clients.iter().map(|client| client.tally.counts).sum();
    eprintln!("the measurement begins");

    let meter = Meter::start(plan.pid)?;
    hall.begin(meter.started());
    hall.run_for(plan.window)?;
    let used = meter.stop()?;
    let at_end = memory::usage(plan.pid)?;

    let clients = &hall.clients;
    let tallies = || clients.iter().map(|client| &client.tally);
    let counts: Counts = tallies().map(|tally| tally.counts).sum();
    let sum = |of: fn(&Client) -> u64| clients.iter().map(of).sum::<u64>();
    let silences = clients.iter().map(|client| client.longest_silence);
    let silent = silences
        .clone()
        .filter(|silence| *silence > LONGEST_SILENCE);
    let millis = |duration: Duration| duration.as_secs_f64() * 1e3;
    Ok(json!({
        "clients": plan.clients,
        "pvs": hall.shared.names.len(),
        "seconds": used.seconds,
        "counts": {
            "updates": counts.updates,
            "frames": sum(|client| client.messages),
            "bytes": sum(|client| client.bytes),
        },
        "faults": {
            "gaps": 0,
            "missing": counts.missing + behind(tallies()),
            "repeated": counts.repeated,
            "wrongValues": counts.wrong,
            "skipped": 0,
            "lost": sum(|client| client.lost),
        },
        // Each first value comes twice, and clients wait while others connect.
        "skippedBefore": before.missing,
        "missingBefore": 0,
        "repeatedBefore": 0,
        "silentClients": silent.count(),
        "longestSilenceMs": silences.max().map_or(0.0, millis),
        "latency": hall.shared.delays.json(),
        "relayCpuNs": used.by_thread.values().sum::<u64>(),
        "relayCpuNsByThread": used.by_thread,
        "relayPageFaults": used.page_faults,
        "relayWaitedNs": used.waited_ns,
        "ownCpuNs": used.own.values().sum::<u64>(),
        "ownWaitedNs": used.own_waited_ns,
        "ownLongestPauseMs": millis(hall.longest_pause),
        "memory": {
            "connected": connected.json(),
            "atEnd": at_end.json(),
            "samples": [],
        },
        "resumed": null,
    }))
}

impl Shared {
    fn place(&self, name: &[u8], guess: usize) -> Option<usize> {
        if self.names.get(guess).is_some_and(|guessed| guessed == name) {
            return Some(guess);
        }
        self.places.get(name).copied()
    }
}

impl Words {
    fn new(plan: &Plan, names: &[&str]) -> Self {
        match plan.dialect {
            Dialect::Pvws => Self {
                handshake: handshake(&plan.relay),
                greeting: None,
                subscribe: subscribe(names),
            },
            Dialect::Coniql => Self {
                handshake: coniql::handshake(&plan.relay),
                greeting: Some(coniql::greeting()),
                subscribe: coniql::subscribe(names, plan.selection),
            },
        }
    }
}

impl Client {
    fn connect(plan: &Plan, words: &Words, pvs: usize) -> Result<Self, Box<dyn Error>> {
        let mut tcp = std::net::TcpStream::connect(&plan.relay)?;
        tcp.set_nodelay(true)?;
        tcp.write_all(&words.handshake)?;
        tcp.set_nonblocking(true)?;
        let subscribe = words.subscribe.clone();
        let (unsaid, after_greeting) = match words.greeting.clone() {
            Some(greeting) => (greeting, subscribe),
            None => (subscribe, Vec::new()),
        };
        Ok(Self {
            tcp: TcpStream::from_std(tcp),
            dialect: plan.dialect,
            unsaid,
            after_greeting,
            is_open: false,
            unread: Vec::new(),
            tally: Tally::new(pvs),
            next: 0,
            messages: 0,
            bytes: 0,
            lost: 0,
            last_heard: Instant::now(),
            longest_silence: Duration::ZERO,
        })
    }

    /// Writes the rest of what it has to say.
    fn say(&mut self) -> io::Result<()> {
        while self.is_open && !self.unsaid.is_empty() {
            match self.tcp.write(&self.unsaid) {
                Ok(count) => drop(self.unsaid.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads all that is there.
    fn read(&mut self, shared: &mut Shared, buffer: &mut [u8]) -> Result<(), Box<dyn Error>> {
        loop {
            let count = match self.tcp.read(buffer) {
                Ok(0) => return Err("the relay closed a connection".into()),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error.into()),
            };
            self.bytes += count as u64;
            self.last_heard = shared.now;
            if self.unread.is_empty() {
                let taken = self.take(&buffer[..count], shared)?;
                self.unread.extend_from_slice(&buffer[taken..count]);
            } else {
                let mut unread = mem::take(&mut self.unread);
                unread.extend_from_slice(&buffer[..count]);
                let taken = self.take(&unread, shared)?;
                unread.drain(..taken);
                self.unread = unread;
            }
            if count < buffer.len() {
                return Ok(());
            }
        }
    }

    /// Takes the whole messages at the beginning; returns their length.
    fn take(&mut self, bytes: &[u8], shared: &mut Shared) -> Result<usize, Box<dyn Error>> {
        let mut at = 0;
        if !self.is_open {
            let Some(end) = answer_at(bytes) else {
                return Ok(0);
            };
            if !bytes.starts_with(b"HTTP/1.1 101 ") {
                let answer = String::from_utf8_lossy(bytes);
                return Err(format!("the relay refused the handshake: {answer}").into());
            }
            (at, self.is_open) = (end, true);
            self.say()?;
        }
        while let Some((header, length)) = message_at(&bytes[at..]) {
            let (begin, end) = (at + header, at + header + length);
            if end > bytes.len() {
                break;
            }
            match bytes[at] {
                0x81 => self.take_text(&bytes[begin..end], shared)?,
                // A ping of a connection that is never idle needs no answer at once.
                0x89 => {}
                other => return Err(format!("a message begins with {other:#x}").into()),
            }
            at = end;
        }
        Ok(at)
    }

    fn take_text(&mut self, text: &[u8], shared: &mut Shared) -> Result<(), Box<dyn Error>> {
        let wrong = || format!("the relay says {}", String::from_utf8_lossy(text));
        let (place, value, time_ns) = match self.dialect {
            Dialect::Pvws => {
                let update = read_update(text).ok_or_else(wrong)?;
                let place = shared.place(update.name, self.next).ok_or_else(wrong)?;
                (place, update.value, update.time_ns)
            }
            Dialect::Coniql => match coniql::read(text).ok_or_else(wrong)? {
                Said::Welcome => {
                    self.unsaid = mem::take(&mut self.after_greeting);
                    return Ok(self.say()?);
                }
                Said::Update {
                    place,
                    value,
                    time_ns,
                } => (place, value, time_ns),
            },
        };
        if place >= shared.names.len() {
            return Err(wrong().into());
        }
        self.next = place + 1;
        self.messages += 1;
        let Some(value) = value else {
            self.lost += 1;
            return Ok(());
        };
        self.tally.take(place, value);
        shared.delays.add(shared.now_ns - time_ns, 1);
        Ok(())
    }
}

impl Hall {
    fn new(names: &str) -> Result<Self, Box<dyn Error>> {
        let names: Vec<Vec<u8>> = names.lines().map(|name| name.as_bytes().to_vec()).collect();
        let places = names.iter().cloned().enumerate();
        Ok(Self {
            clients: Vec::new(),
            shared: Shared {
                places: places.map(|(place, name)| (name, place)).collect(),
                names,
                delays: Delays::default(),
                now_ns: 0,
                now: Instant::now(),
            },
            poll: Poll::new()?,
            events: Events::with_capacity(1024),
            buffer: vec![0; 1 << 20],
            next_sweep: Instant::now(),
            last_round: Instant::now(),
            longest_pause: Duration::ZERO,
        })
    }

    /// Connects all clients and waits until each has a value of each PV.
    fn connect(&mut self, plan: &Plan) -> Result<(), Box<dyn Error>> {
        let names: Vec<String> = (self.shared.names.iter())
            .map(|name| String::from_utf8_lossy(name).into_owned())
            .collect();
        let each: Vec<&str> = names.iter().map(String::as_str).collect();
        let words = Words::new(plan, &each);
        let deadline = Instant::now() + PATIENCE;
        for number in 0..plan.clients {
            let mut client = Client::connect(plan, &words, names.len())?;
            let interest = Interest::READABLE | Interest::WRITABLE;
            (self.poll.registry()).register(&mut client.tcp, Token(number), interest)?;
            self.clients.push(client);
            while !self.clients[number].tally.is_complete() {
                if Instant::now() > deadline {
                    return Err("not every PV of every client had a value in time".into());
                }
                self.round()?;
            }
        }
        Ok(())
    }

    /// The measurement begins.
    fn begin(&mut self, start: Instant) {
        self.shared.delays = Delays::default();
        for client in &mut self.clients {
            client.tally.begin();
            (client.messages, client.bytes, client.lost) = (0, 0, 0);
            (client.last_heard, client.longest_silence) = (start, Duration::ZERO);
        }
        (self.longest_pause, self.last_round) = (Duration::ZERO, start);
    }

    fn run_for(&mut self, time: Duration) -> Result<(), Box<dyn Error>> {
        let until = Instant::now() + time;
        while Instant::now() < until {
            self.round()?;
        }
        Ok(())
    }

    /// Sleeps until something comes, and reads from every socket that has something.
    fn round(&mut self) -> Result<(), Box<dyn Error>> {
        let asleep = Instant::now();
        let rest = self.next_sweep.saturating_duration_since(asleep);
        if let Err(error) = self.poll.poll(&mut self.events, Some(rest))
            && error.kind() != io::ErrorKind::Interrupted
        {
            return Err(error.into());
        }
        let now = Instant::now();
        let late = now.saturating_duration_since(asleep + rest);
        let pause = late.max(asleep.saturating_duration_since(self.last_round));
        self.longest_pause = self.longest_pause.max(pause);
        self.last_round = now;
        self.shared.now = now;
        self.shared.now_ns = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos() as i64;
        for event in &self.events {
            let client = &mut self.clients[event.token().0];
            if event.is_writable() {
                client.say()?;
            }
            if event.is_readable() {
                client.read(&mut self.shared, &mut self.buffer)?;
            }
        }
        if now >= self.next_sweep {
            self.next_sweep = now + SWEEP_EVERY;
            for client in &mut self.clients {
                let silence = now.saturating_duration_since(client.last_heard);
                client.longest_silence = client.longest_silence.max(silence);
            }
        }
        Ok(())
    }
}
