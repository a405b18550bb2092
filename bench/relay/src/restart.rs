//! Time until clients have right values again after their relay was killed or stopped.

use std::error::Error;
use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mio::{Events, Poll, Token};
use pvwire_schema::close::CloseCode;
use pvwire_schema::encode;
use pvwire_schema::types::{Filter, Request, RequestBody};
use serde_json::{Value, json};

use crate::check::Counts;
use crate::client::{Client, How, Reading};
use crate::latency::Delays;
use crate::load::durations_json;
use crate::reference::Reference;
use crate::wire::masked;

/// Pause when no socket had anything: some clients wait for the time to try again.
const IDLE: Duration = Duration::from_micros(500);

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// As the browser's client waits: a random part of this after the first failure, of twice as much
/// after the next, and of `LONGEST_WAIT` at most, which is that of visible pages.
const FIRST_WAIT: Duration = Duration::from_millis(250);
const LONGEST_WAIT: Duration = Duration::from_secs(5);

#[derive(clap::Args)]
pub(crate) struct Plan {
    /// Relay, as 127.0.0.1:8080.
    #[arg(long)]
    relay: String,
    /// The next one, if it listens elsewhere.
    #[arg(long)]
    next: Option<String>,
    /// Number of clients.
    #[arg(long)]
    clients: usize,
    /// File with one PV name a line.
    #[arg(long)]
    names: PathBuf,
}

/// One client, connected or about to be.
struct Slot {
    client: Option<(Client, Reference)>,
    retry_at: Instant,
    failures: u32,
    attempts: u32,
    /// When it lost its relay, and by which code.
    lost: Option<(Instant, Option<u16>)>,
    back_after: Option<Duration>,
    counts: Counts,
}

struct Hall {
    plan: Plan,
    subscribe: Vec<u8>,
    pvs: usize,
    slots: Vec<Slot>,
    poll: Poll,
    buffer: Vec<u8>,
    delays: Delays,
    random: u64,
}

/// Connects all clients, prints `ready` and runs until all have lost their relay and found another.
pub(crate) fn run(plan: Plan) -> Result<Value, Box<dyn Error>> {
    let names = fs::read_to_string(&plan.names)?;
    let names: Vec<String> = names.lines().map(str::to_owned).collect();
    let pvs = names.len();
    let filter = Filter::default();
    let body = RequestBody::Subscribe { names, filter };
    let now = Instant::now();
    let slot = || Slot {
        client: None,
        retry_at: now,
        failures: 0,
        attempts: 0,
        lost: None,
        back_after: None,
        counts: Counts::default(),
    };
    let mut hall = Hall {
        subscribe: masked(&encode::request(&Request { id: 1, body })),
        pvs,
        slots: (0..plan.clients).map(|_| slot()).collect(),
        poll: Poll::new()?,
        buffer: vec![0; 1 << 20],
        delays: Delays::default(),
        random: SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos() as u64 | 1,
        plan,
    };
    hall.rounds_until("not everybody had a picture", |hall| {
        hall.slots.iter().all(Slot::is_served)
    })?;
    eprintln!("ready");
    hall.rounds_until("not everybody was back", |hall| {
        hall.slots.iter().all(|slot| slot.back_after.is_some())
    })?;
    let mut back: Vec<Duration> = hall
        .slots
        .iter()
        .filter_map(|slot| slot.back_after)
        .collect();
    back.sort_unstable();
    let mut counts = Counts::default();
    for slot in &hall.slots {
        counts.add(&slot.counts);
        if let Some((client, _)) = &slot.client {
            counts.add(&client.counts);
        }
    }
    let attempts = hall.slots.iter().map(|slot| slot.attempts);
    let notified = hall.slots.iter().filter(|slot| slot.was_told()).count();
    Ok(json!({
        "clients": hall.slots.len(),
        "pvs": hall.pvs,
        "back": durations_json(&back),
        "longestSilenceMs": back.last().map_or(0.0, |last| last.as_secs_f64() * 1e3),
        "attempts": attempts.clone().sum::<u32>(),
        "mostAttempts": attempts.max(),
        "notified": notified,
        "counts": counts.json(),
        "faults": counts.faults_json(),
    }))
}

impl Slot {
    fn is_served(&self) -> bool {
        let client = self.client.as_ref();
        client.is_some_and(|(client, _)| client.complete.is_some())
    }

    /// Whether its relay said that it restarts.
    fn was_told(&self) -> bool {
        let restart = CloseCode::ServiceRestart.number();
        self.lost.is_some_and(|(_, code)| code == Some(restart))
    }
}

impl Hall {
    fn rounds_until(
        &mut self,
        otherwise: &str,
        done: impl Fn(&Self) -> bool,
    ) -> Result<(), Box<dyn Error>> {
        let deadline = Instant::now() + PATIENCE;
        while !done(self) {
            if Instant::now() > deadline {
                return Err(otherwise.into());
            }
            self.round()?;
        }
        Ok(())
    }

    fn round(&mut self) -> Result<(), Box<dyn Error>> {
        let mut events = Events::with_capacity(1024);
        self.poll.poll(&mut events, Some(Duration::ZERO))?;
        for event in &events {
            let Token(index) = event.token();
            if self.serve(index, event.is_writable()).is_err() {
                self.lost(index);
            }
        }
        for index in 0..self.slots.len() {
            if self.slots[index].client.is_none() && Instant::now() >= self.slots[index].retry_at {
                self.connect(index)?;
            }
        }
        if events.is_empty() {
            thread::sleep(IDLE);
        }
        Ok(())
    }

    fn serve(&mut self, index: usize, writable: bool) -> Result<(), Box<dyn Error>> {
        let slot = &mut self.slots[index];
        let Some((client, reference)) = &mut slot.client else {
            return Ok(());
        };
        if writable {
            client.send_on()?;
        }
        let mut reading = Reading {
            now: Instant::now(),
            now_ns: SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos() as i64,
            buffer: &mut self.buffer,
            delays: &mut self.delays,
            record: None,
        };
        client.read(reference, &mut reading)?;
        if client.complete.is_some() {
            slot.failures = 0;
            if let Some((lost_at, _)) = slot.lost {
                slot.back_after.get_or_insert_with(|| lost_at.elapsed());
            }
        }
        Ok(())
    }

    /// Its relay is gone: it tries again after a random time.
    fn lost(&mut self, index: usize) {
        let now = Instant::now();
        let slot = &mut self.slots[index];
        if let Some((client, _)) = slot.client.take() {
            slot.lost.get_or_insert((now, client.closed_by));
            slot.counts.add(&client.counts);
            // It is dropped at once, and the poll with it.
            let _ = client.deregister(self.poll.registry());
        }
        self.wait(index, now);
    }

    fn wait(&mut self, index: usize, now: Instant) {
        // Random enough for spreading (xorshift64).
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let slot = &mut self.slots[index];
        let most = LONGEST_WAIT.min(FIRST_WAIT * 2_u32.saturating_pow(slot.failures.min(10)));
        let share = (self.random >> 11) as f64 / (1_u64 << 53) as f64;
        slot.retry_at = now + most.mul_f64(share);
        slot.failures += 1;
    }

    fn connect(&mut self, index: usize) -> Result<(), Box<dyn Error>> {
        let was_lost = self.slots[index].lost.is_some();
        self.slots[index].attempts += u32::from(was_lost);
        let (subscribe, now) = (self.subscribe.clone(), Instant::now());
        let next = self.plan.next.as_ref().filter(|_| was_lost);
        let relay = next.unwrap_or(&self.plan.relay);
        match Client::connect(relay, subscribe, self.pvs, now, How::default()) {
            Ok(client) => {
                client.register(self.poll.registry(), Token(index))?;
                self.slots[index].client = Some((client, Reference::new(1)));
            }
            Err(error) if !was_lost => return Err(error),
            Err(_) => self.wait(index, now),
        }
        Ok(())
    }
}
