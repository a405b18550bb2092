//! Many clients of a relay: what they receive, and what they cost the relay.

use std::error::Error;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mio::{Events, Interest, Poll, Token};
use pvwire_schema::encode;
use pvwire_schema::limits::MAX_NAMES;
use pvwire_schema::types::{Filter, Request, RequestBody};
use serde_json::{Value, json};

use crate::check::Counts;
use crate::client::{Client, Reading};
use crate::cpu;
use crate::latency::Delays;
use crate::memory::{self, Held};
use crate::record::Record;
use crate::reference::Reference;
use crate::sets::{self, Pick};
use crate::wire::masked;

/// How often all clients are looked at, whether or not they got something.
const SWEEP_EVERY: Duration = Duration::from_millis(50);

/// A client that hears nothing for longer is forgotten: each PV has several updates in this time.
const LONGEST_SILENCE: Duration = Duration::from_secs(2);

/// How long the relay may take until every PV of every client has a value.
const PATIENCE: Duration = Duration::from_secs(120);

/// Clients that connect at the same time, unless all of them do; of very many a twentieth, because
/// each time takes some ticks.
const AT_A_TIME: usize = 50;
const TIMES: usize = 20;

/// Receive buffer of who is going to stall. Their own would take in seconds of updates, which then
/// wait at their end and not at the relay's, as it is with clients of this machine only.
const STALLED_RECEIVE_BYTES: usize = 8 << 10;

/// How often progress is reported.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// Rest before memory is read, so that buffers of the connecting are given back.
const SETTLE: Duration = Duration::from_secs(1);

pub(crate) struct Plan {
    pub(crate) relay: String,
    pub(crate) pid: u32,
    pub(crate) clients: usize,
    pub(crate) names: PathBuf,
    /// PVs of each client; all of them unless it is said.
    pub(crate) each: Option<usize>,
    pub(crate) pick: Pick,
    /// Clients want columns packed.
    pub(crate) lz4: bool,
    /// Clients that read nothing from the end of connecting to the end of the measurement.
    pub(crate) stalled: usize,
    /// All connect at once, with none before the others.
    pub(crate) storm: bool,
    pub(crate) warm_up: Duration,
    pub(crate) window: Duration,
    /// How often memory is read in the measurement.
    pub(crate) sample_every: Option<Duration>,
    pub(crate) record: Option<PathBuf>,
}

/// Clients and what they share.
struct Crowd {
    clients: Vec<Client>,
    /// For each client the place of its reference.
    set_of: Vec<usize>,
    references: Vec<Reference>,
    poll: Poll,
    events: Events,
    buffer: Vec<u8>,
    delays: Delays,
    record: Option<(Instant, Record)>,
    /// Clients from this one on don't read.
    awake: usize,
    next_sweep: Instant,
    last_round: Instant,
    /// The longest that this program itself didn't look.
    longest_pause: Duration,
}

pub(crate) fn run(plan: &Plan) -> Result<Value, Box<dyn Error>> {
    let mut crowd = Crowd::new(plan.clients)?;
    let before = crowd.connect(plan)?;
    let asked = crowd.clients.iter().map(|client| client.complete);
    let mut first_values: Vec<Duration> = asked.flatten().collect();
    first_values.sort_unstable();
    eprintln!("{} clients have their PVs", crowd.clients.len());
    crowd.awake = plan.clients - plan.stalled;
    let connected = memory::held(plan.pid)?;
    crowd.run_for(plan.warm_up)?;
    let (mut skipped_before, mut missing_before, mut repeated_before) = (0, 0, 0);
    for client in &mut crowd.clients {
        // Those that had to wait while others connected may have fallen behind, and the kernel gives
        // a connection the buffers for large messages only when it has seen some.
        skipped_before += std::mem::take(&mut client.counts.skipped);
        // An IOC that is asked for thousands of monitors may leave values out, and doesn't say so.
        missing_before += std::mem::take(&mut client.counts.missing);
        // One that is behind with an array sends newer elements early, and then once more.
        repeated_before += std::mem::take(&mut client.counts.repeated);
    }
    eprintln!("the measurement begins");

    crowd.delays = Delays::default();
    crowd.record = (plan.record.as_ref()).map(|_| (Instant::now(), Record::default()));
    let counts_before: Vec<Counts> = crowd.clients.iter().map(|client| client.counts).collect();
    let faults_before = cpu::page_faults(plan.pid)?;
    let own_pid = std::process::id();
    let own_before = cpu::by_thread(own_pid)?;
    let waited_before = [cpu::waited_ns(plan.pid)?, cpu::waited_ns(own_pid)?];
    let cpu_before = cpu::by_thread(plan.pid)?;
    let start = Instant::now();
    for client in &mut crowd.clients {
        client.last_heard = start;
        client.longest_silence = Duration::ZERO;
    }
    crowd.longest_pause = Duration::ZERO;
    crowd.last_round = start;
    let samples = crowd.measure(plan, start)?;
    let seconds = start.elapsed().as_secs_f64();
    let used = cpu::between(&cpu_before, &cpu::by_thread(plan.pid)?);
    let page_faults = cpu::page_faults(plan.pid)? - faults_before;
    let own = cpu::between(&own_before, &cpu::by_thread(own_pid)?);
    let waited = [cpu::waited_ns(plan.pid)?, cpu::waited_ns(own_pid)?];
    let [relay_waited, own_waited] =
        [0, 1].map(|whose| waited[whose].saturating_sub(waited_before[whose]));
    let at_end = memory::held(plan.pid)?;
    let mut at_end = at_end.json();
    if plan.stalled > 0 {
        let port = plan
            .relay
            .rsplit(':')
            .next()
            .and_then(|port| port.parse().ok());
        at_end["relayTcpKb"] = memory::relay_end_kb(port.ok_or("the relay has no port")?)?.into();
    }

    let (mut counts, mut of_awake) = (Counts::default(), Counts::default());
    for (place, client) in crowd.clients.iter().enumerate() {
        if place < crowd.awake {
            counts.add(&client.counts.since(&counts_before[place]));
            of_awake.add(&client.counts);
        }
    }
    let silences = (crowd.clients.iter().take(crowd.awake)).map(|client| client.longest_silence);
    let silent = (silences.clone())
        .filter(|silence| *silence > LONGEST_SILENCE)
        .count();
    let longest_silence = silences.max().unwrap_or_default();
    let latency = crowd.delays.json();
    let longest_pause = crowd.longest_pause;
    if let (Some((_, record)), Some(path)) = (crowd.record.take(), &plan.record) {
        record.write(path)?;
    }
    let resumed = if plan.stalled > 0 {
        Some(crowd.resume()?)
    } else {
        None
    };
    Ok(json!({
        "clients": plan.clients - plan.stalled,
        "pvs": crowd.pvs(plan)?,
        "firstValues": durations_json(&first_values),
        "firstValuesMs": first_values.last().map_or(0.0, millis),
        "seconds": seconds,
        "counts": counts.json(),
        "faults": of_awake.faults_json(),
        "skippedBefore": skipped_before,
        "missingBefore": missing_before,
        "repeatedBefore": repeated_before,
        "silentClients": silent,
        "longestSilenceMs": millis(&longest_silence),
        "latency": latency,
        "relayCpuNsByThread": used,
        "relayCpuNs": used.values().sum::<u64>(),
        "relayPageFaults": page_faults,
        "relayWaitedNs": relay_waited,
        "ownCpuNs": own.values().sum::<u64>(),
        "ownWaitedNs": own_waited,
        "ownLongestPauseMs": millis(&longest_pause),
        "memory": {
            "before": before.json(),
            "connected": connected.json(),
            "atEnd": at_end,
            "samples": samples,
        },
        "resumed": resumed,
    }))
}

fn millis(duration: &Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// Of sorted durations.
pub(crate) fn durations_json(sorted: &[Duration]) -> Value {
    let quantile = |share: f64| {
        let place = (sorted.len() as f64 * share).ceil() as usize;
        sorted.get(place.max(1) - 1).map_or(0.0, millis)
    };
    json!({
        "p50Ms": quantile(0.5),
        "p90Ms": quantile(0.9),
        "p99Ms": quantile(0.99),
        "maxMs": quantile(1.0),
    })
}

fn names(plan: &Plan) -> Result<Vec<String>, Box<dyn Error>> {
    let names: Vec<String> = fs::read_to_string(&plan.names)?
        .lines()
        .map(str::to_owned)
        .collect();
    if plan.each.is_some_and(|each| each > names.len()) {
        return Err("a client wants more PVs than there are".into());
    }
    Ok(names)
}

fn subscribe(names: &[String], wanted: &[usize]) -> Vec<u8> {
    (wanted.chunks(MAX_NAMES).zip(1..))
        .flat_map(|(places, id)| {
            let names = places.iter().map(|place| names[*place].clone()).collect();
            let body = RequestBody::Subscribe {
                names,
                filter: Filter::default(),
            };
            masked(&encode::request(&Request { id, body }))
        })
        .collect()
}

impl Crowd {
    fn new(clients: usize) -> Result<Self, Box<dyn Error>> {
        Ok(Self {
            clients: Vec::new(),
            set_of: Vec::new(),
            references: Vec::new(),
            poll: Poll::new()?,
            events: Events::with_capacity(1024),
            buffer: vec![0; 1 << 20],
            delays: Delays::default(),
            record: None,
            awake: clients,
            next_sweep: Instant::now(),
            last_round: Instant::now(),
            longest_pause: Duration::ZERO,
        })
    }

    /// PVs of each client.
    fn pvs(&self, plan: &Plan) -> Result<usize, Box<dyn Error>> {
        Ok(plan.each.unwrap_or(names(plan)?.len()))
    }

    /// Connects everybody and waits until each has a value of each of its PVs. Says what was held
    /// when all monitors were open but only the first client was there.
    fn connect(&mut self, plan: &Plan) -> Result<Held, Box<dyn Error>> {
        let names = names(plan)?;
        let each = self.pvs(plan)?;
        let picked = sets::pick(plan.pick, plan.clients, each, names.len());
        self.sort_sets(&picked);
        let mut before = memory::held(plan.pid)?;
        let deadline = Instant::now() + PATIENCE;
        let started = Instant::now();
        let mut told = started;
        while self.clients.len() < plan.clients {
            let connecting = self.clients.len();
            let at_a_time = match (plan.storm, connecting) {
                (true, _) => plan.clients,
                (false, 0) => 1,
                (false, _) => AT_A_TIME.max(plan.clients / TIMES),
            };
            let end = plan.clients.min(connecting + at_a_time);
            for wanted in &picked[connecting..end] {
                let subscribe = subscribe(&names, wanted);
                let started = if plan.storm { started } else { Instant::now() };
                let stalls = self.clients.len() >= plan.clients - plan.stalled;
                let receive_bytes = stalls.then_some(STALLED_RECEIVE_BYTES);
                let mut client = Client::connect(
                    &plan.relay,
                    subscribe,
                    each,
                    plan.lz4,
                    started,
                    receive_bytes,
                )?;
                let token = Token(self.clients.len());
                let interest = Interest::READABLE | Interest::WRITABLE;
                let registry = self.poll.registry();
                registry.register(client.source(), token, interest)?;
                self.clients.push(client);
                if plan.storm {
                    // The relay's answers are not left lying about until all have asked.
                    self.round(false)?;
                }
            }
            while !(self.clients[connecting..].iter()).all(|client| client.complete.is_some()) {
                if Instant::now() > deadline {
                    return Err("not every PV of every client had a value in time".into());
                }
                if told.elapsed() > TELL_EVERY {
                    told = Instant::now();
                    eprintln!("{connecting} of {} clients have their PVs", plan.clients);
                }
                self.round(true)?;
            }
            if connecting == 0 && !plan.storm && plan.clients > 1 {
                self.run_for(SETTLE)?;
                before = memory::held(plan.pid)?;
            }
        }
        Ok(before)
    }

    /// Clients of one set share a reference.
    fn sort_sets(&mut self, picked: &[Vec<usize>]) {
        let mut members: Vec<(&Vec<usize>, usize)> = Vec::new();
        for wanted in picked {
            // Those of one set stand together or all sets are different.
            let place = match members.last_mut() {
                Some((set, count)) if *set == wanted => {
                    *count += 1;
                    members.len() - 1
                }
                _ => {
                    members.push((wanted, 1));
                    members.len() - 1
                }
            };
            self.set_of.push(place);
        }
        let reference = |(_, count): &(_, usize)| Reference::new(*count);
        self.references = members.iter().map(reference).collect();
    }

    fn run_for(&mut self, time: Duration) -> Result<(), Box<dyn Error>> {
        let until = Instant::now() + time;
        while Instant::now() < until {
            self.round(true)?;
        }
        Ok(())
    }

    fn measure(&mut self, plan: &Plan, start: Instant) -> Result<Vec<Value>, Box<dyn Error>> {
        let mut samples = Vec::new();
        let (mut told, mut sampled) = (start, start);
        while start.elapsed() < plan.window {
            self.round(true)?;
            if told.elapsed() > TELL_EVERY {
                told = Instant::now();
                let (done, all) = (start.elapsed().as_secs(), plan.window.as_secs());
                eprintln!("measured {done} of {all} s");
            }
            if let Some(every) = plan.sample_every
                && sampled.elapsed() > every
            {
                sampled = Instant::now();
                let mut sample = memory::held(plan.pid)?.json();
                sample["seconds"] = start.elapsed().as_secs_f64().into();
                samples.push(sample);
            }
        }
        Ok(samples)
    }

    /// Lets those who stalled read again, until each is up to date and gets updates as the others.
    fn resume(&mut self) -> Result<Value, Box<dyn Error>> {
        let (first, clients) = (self.awake, self.clients.len());
        let before: Vec<Counts> = self.clients.iter().map(|client| client.counts).collect();
        self.awake = clients;
        let start = Instant::now();
        // The poll reported what came meanwhile before anything waited for it.
        for place in first..clients {
            self.read(place, start)?;
        }
        let is_back = |crowd: &Self, place: usize| {
            let since = crowd.clients[place].counts.since(&before[place]);
            since.catch_ups > 0 && crowd.clients[place].last_heard > start + LONGEST_SILENCE
        };
        while !(first..clients).all(|place| is_back(self, place)) {
            if start.elapsed() > PATIENCE {
                return Err("a client that had stalled was not brought up to date".into());
            }
            self.round(true)?;
        }
        let mut counts = Counts::default();
        for place in first..clients {
            counts.add(&self.clients[place].counts);
        }
        Ok(json!({
            "clients": clients - first,
            "catchUps": counts.catch_ups,
            "faults": counts.faults_json(),
        }))
    }

    /// Reads from every socket that has something.
    fn round(&mut self, may_rest: bool) -> Result<(), Box<dyn Error>> {
        let now = Instant::now();
        let mut events = std::mem::replace(&mut self.events, Events::with_capacity(0));
        // Sleeps until something comes, as a browser does: one that looked every now and then would let
        // large messages wait in the relay.
        let rest = if may_rest {
            self.next_sweep.saturating_duration_since(now)
        } else {
            Duration::ZERO
        };
        if let Err(error) = self.poll.poll(&mut events, Some(rest))
            && error.kind() != io::ErrorKind::Interrupted
        {
            return Err(error.into());
        }
        // One sleep and what was done before it: asleep for longer it was kept from running.
        let asleep = now;
        let now = Instant::now();
        let late = now.saturating_duration_since(asleep + rest);
        let pause = late.max(asleep.saturating_duration_since(self.last_round));
        self.longest_pause = self.longest_pause.max(pause);
        self.last_round = now;
        for event in &events {
            let Token(place) = event.token();
            if event.is_writable() {
                self.clients[place].go_on_saying()?;
            }
            if place < self.awake && event.is_readable() {
                self.read(place, now)?;
            }
            if event.is_read_closed() {
                return Err("the relay closed a connection".into());
            }
        }
        self.events = events;
        if now >= self.next_sweep {
            self.next_sweep = now + SWEEP_EVERY;
            self.sweep(now)?;
        }
        Ok(())
    }

    fn read(&mut self, place: usize, now: Instant) -> Result<(), Box<dyn Error>> {
        let mut reading = Reading {
            now,
            now_ns: SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos() as i64,
            buffer: &mut self.buffer,
            delays: &mut self.delays,
            record: self.record.as_mut().filter(|_| place == 0),
        };
        let reference = &mut self.references[self.set_of[place]];
        self.clients[place].read(reference, &mut reading)
    }

    /// Acknowledges what waits, notes silences and drops frames that are no longer needed.
    fn sweep(&mut self, now: Instant) -> Result<(), Box<dyn Error>> {
        for client in self.clients.iter_mut().take(self.awake) {
            // `now` is before the last reading, so that a pause of this program is no silence.
            let silence = now.saturating_duration_since(client.last_heard);
            client.longest_silence = client.longest_silence.max(silence);
            client.acknowledge(now)?;
        }
        if self.references.len() == self.clients.len() {
            return Ok(());
        }
        for (number, reference) in self.references.iter_mut().enumerate() {
            let clients = self.clients.iter_mut().zip(&self.set_of);
            let members = clients.filter(|(_, set)| **set == number);
            reference.tidy(members.map(|(client, _)| client.follower()))?;
        }
        Ok(())
    }
}
