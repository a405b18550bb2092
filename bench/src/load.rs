//! What do many clients get from a relay, and what does it cost the relay?

use std::error::Error;
use std::fs;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pvwire_schema::limits::MAX_NAMES;
use pvwire_schema::types::{Request, RequestBody, Wish};
use pvwire_schema::{SUBPROTOCOL, encode};
use serde_json::{Value, json};

use crate::check::{Counts, Seen, Stream};
use crate::cpu;
use crate::latency::Delays;
use crate::record::Record;

/// Pause when no socket had anything. A client that blocks in epoll would make the relay pay for a
/// wake-up with every frame; a real client's wake-up is paid by another machine.
const IDLE: Duration = Duration::from_micros(500);

/// The same in the midst of a message: the rest of a large one must not wait in the relay.
const IDLE_IN_MESSAGE: Duration = Duration::from_micros(50);

/// A client that hears nothing for longer is forgotten: each PV has several updates in this time.
const LONGEST_SILENCE: Duration = Duration::from_secs(2);

/// How long the relay may take until every PV of every client has a value.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Plan {
    pub(crate) relay: String,
    pub(crate) pid: u32,
    pub(crate) clients: usize,
    pub(crate) names: PathBuf,
    pub(crate) warm_up: Duration,
    pub(crate) window: Duration,
    pub(crate) warm_up_may_skip: bool,
    pub(crate) record: Option<PathBuf>,
}

struct Client {
    tcp: TcpStream,
    unread: Vec<u8>,
    stream: Stream,
    ack_interval: Duration,
    last_ack: Instant,
    /// Tick that isn't acknowledged yet.
    owed: Option<u64>,
    /// When the last updates came.
    last_heard: Instant,
    longest_silence: Duration,
}

pub(crate) fn run(plan: &Plan) -> Result<Value, Box<dyn Error>> {
    let names: Vec<String> = fs::read_to_string(&plan.names)?
        .lines()
        .map(str::to_owned)
        .collect();
    let subscribe: Vec<u8> = (names.chunks(MAX_NAMES).zip(1..))
        .flat_map(|(names, id)| {
            let names = names.to_vec();
            let body = RequestBody::Subscribe {
                names,
                wish: Wish::default(),
            };
            masked(&encode::request(&Request { id, body }))
        })
        .collect();
    let asked = Instant::now();
    let mut clients = (0..plan.clients)
        .map(|_| Client::connect(&plan.relay, &subscribe, names.len()))
        .collect::<Result<Vec<_>, _>>()?;

    let mut buffer = vec![0; 1 << 20];
    let mut ignored = Delays::default();
    let start = Instant::now();
    while !clients.iter().all(|client| client.stream.is_complete()) {
        if start.elapsed() > PATIENCE {
            return Err("not every PV of every client had a value in time".into());
        }
        round(&mut clients, &mut buffer, &mut ignored, &mut None)?;
    }
    let first_values = asked.elapsed();
    eprintln!("{} clients have {} PVs each", clients.len(), names.len());
    for client in &mut clients {
        // While they connected one by one, those that had to wait may have fallen behind.
        client.stream.counts.skipped = 0;
    }
    let until = Instant::now() + plan.warm_up;
    while Instant::now() < until {
        round(&mut clients, &mut buffer, &mut ignored, &mut None)?;
    }

    if plan.warm_up_may_skip {
        for client in &mut clients {
            client.stream.counts.skipped = 0;
        }
    }

    let mut delays = Delays::default();
    let mut record = (plan.record.as_ref()).map(|_| (Instant::now(), Record::default()));
    let before: Vec<Counts> = clients.iter().map(|client| client.stream.counts).collect();
    let faults_before = cpu::page_faults(plan.pid)?;
    let cpu_before = cpu::by_thread(plan.pid)?;
    let start = Instant::now();
    for client in &mut clients {
        client.last_heard = start;
        client.longest_silence = Duration::ZERO;
    }
    let mut told = start;
    while start.elapsed() < plan.window {
        round(&mut clients, &mut buffer, &mut delays, &mut record)?;
        if told.elapsed() > Duration::from_secs(5) {
            told = Instant::now();
            eprintln!(
                "measured {:.0} of {} s",
                start.elapsed().as_secs_f64(),
                plan.window.as_secs()
            );
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    let used = cpu::between(&cpu_before, &cpu::by_thread(plan.pid)?);
    let page_faults = cpu::page_faults(plan.pid)? - faults_before;

    let (mut counts, mut whole_run) = (Counts::default(), Counts::default());
    for (client, before) in clients.iter().zip(&before) {
        counts.add(&client.stream.counts.since(before));
        whole_run.add(&client.stream.counts);
    }
    let silences = clients.iter().map(|client| client.longest_silence);
    let silent = (silences.clone())
        .filter(|silence| *silence > LONGEST_SILENCE)
        .count();
    if let (Some((_, record)), Some(path)) = (record, &plan.record) {
        record.write(path)?;
    }
    Ok(json!({
        "clients": plan.clients,
        "pvs": names.len(),
        "firstValuesMs": first_values.as_secs_f64() * 1e3,
        "seconds": seconds,
        "counts": counts.json(),
        "faults": whole_run.faults_json(),
        "silentClients": silent,
        "longestSilenceMs": silences.max().unwrap_or_default().as_secs_f64() * 1e3,
        "latency": delays.json(),
        "relayCpuNsByThread": used,
        "relayCpuNs": used.values().sum::<u64>(),
        "relayPageFaults": page_faults,
    }))
}

/// Reads once from every socket.
fn round(
    clients: &mut [Client],
    buffer: &mut [u8],
    delays: &mut Delays,
    record: &mut Option<(Instant, Record)>,
) -> Result<(), Box<dyn Error>> {
    let mut idle = true;
    let now = Instant::now();
    for (number, client) in clients.iter_mut().enumerate() {
        let record = if number == 0 { &mut *record } else { &mut None };
        idle &= !client.read(now, buffer, delays, record)?;
        client.acknowledge()?;
    }
    if idle {
        let in_message = clients.iter().any(|client| !client.unread.is_empty());
        thread::sleep(if in_message { IDLE_IN_MESSAGE } else { IDLE });
    }
    Ok(())
}

impl Client {
    fn connect(relay: &str, subscribe: &[u8], pvs: usize) -> Result<Self, Box<dyn Error>> {
        let mut tcp = TcpStream::connect(relay)?;
        tcp.set_nodelay(true)?;
        let request = format!(
            "GET /ws HTTP/1.1\r\nHost: {relay}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\
             Sec-WebSocket-Protocol: {SUBPROTOCOL}\r\n\r\n"
        );
        tcp.write_all(request.as_bytes())?;
        // One byte at a time, so that nothing is read of the frames behind the answer.
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            tcp.read_exact(&mut byte)?;
            answer.extend(byte);
        }
        if !answer.starts_with(b"HTTP/1.1 101 ") {
            let answer = String::from_utf8_lossy(&answer);
            return Err(format!("the relay refused the handshake: {answer}").into());
        }
        tcp.write_all(subscribe)?;
        tcp.set_nonblocking(true)?;
        Ok(Self {
            tcp,
            unread: Vec::new(),
            stream: Stream::new(pvs),
            ack_interval: Duration::from_millis(250),
            last_ack: Instant::now(),
            owed: None,
            last_heard: Instant::now(),
            longest_silence: Duration::ZERO,
        })
    }

    /// Reads what is there; says whether there was anything.
    fn read(
        &mut self,
        now: Instant,
        buffer: &mut [u8],
        delays: &mut Delays,
        record: &mut Option<(Instant, Record)>,
    ) -> Result<bool, Box<dyn Error>> {
        match self.tcp.read(buffer) {
            Ok(0) => return Err("the relay closed a connection".into()),
            Ok(count) => self.unread.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                // Told here and not when something comes: a pause of this program is no silence.
                let silence = now.saturating_duration_since(self.last_heard);
                self.longest_silence = self.longest_silence.max(silence);
                return Ok(false);
            }
            Err(error) => return Err(error.into()),
        }
        let updates = self.stream.counts.updates;
        let now_ns = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos() as i64;
        let mut at = 0;
        while let Some((header, length)) = message_at(&self.unread[at..]) {
            let end = at + header + length;
            if end > self.unread.len() {
                break;
            }
            if self.unread[at] != 0x82 {
                return Err(format!("a message begins with {:#x}", self.unread[at]).into());
            }
            let (wire, payload) = (&self.unread[at..end], &self.unread[at + header..end]);
            match self
                .stream
                .take(payload, wire.len(), |time_ns| delays.add(now_ns - time_ns))?
            {
                Seen::Hello(interval_ms) => {
                    self.ack_interval = Duration::from_millis(interval_ms.into());
                }
                Seen::Data(tick) => {
                    self.owed = Some(tick);
                    if let Some((start, record)) = record {
                        record.messages.push((start.elapsed(), wire.to_vec()));
                    }
                }
                Seen::Other => {}
            }
            at = end;
        }
        self.unread.drain(..at);
        if self.stream.counts.updates > updates {
            self.last_heard = Instant::now();
        }
        Ok(true)
    }

    fn acknowledge(&mut self) -> io::Result<()> {
        if let Some(tick) = self.owed
            && self.last_ack.elapsed() >= self.ack_interval
        {
            let request = Request {
                id: 0,
                body: RequestBody::Ack { tick },
            };
            self.tcp.write_all(&masked(&encode::request(&request)))?;
            self.last_ack = Instant::now();
            self.owed = None;
        }
        Ok(())
    }
}

/// Lengths of header and payload of the message that begins here, if the header is whole.
fn message_at(bytes: &[u8]) -> Option<(usize, usize)> {
    match bytes.get(1)? & 0x7f {
        126 => Some((
            4,
            u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?) as usize,
        )),
        127 => Some((
            10,
            u64::from_be_bytes(bytes.get(2..10)?.try_into().ok()?) as usize,
        )),
        short => Some((2, short.into())),
    }
}

/// A client's binary message. The mask is zero: it only has to be there.
fn masked(payload: &[u8]) -> Vec<u8> {
    let mut message = vec![0x82];
    match payload.len() {
        length @ 0..=125 => message.push(0x80 | length as u8),
        length @ 126..=0xffff => {
            message.push(0x80 | 126);
            message.extend((length as u16).to_be_bytes());
        }
        length => {
            message.push(0x80 | 127);
            message.extend((length as u64).to_be_bytes());
        }
    }
    message.extend([0; 4]);
    message.extend(payload);
    message
}
