//! Many clients of a relay: what they receive, and what they cost the relay.

pub(crate) mod resume;

use std::error::Error;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mio::{Events, Poll, Token};
use pvwire_schema::encode;
use pvwire_schema::limits::MAX_NAMES;
use pvwire_schema::types::{Filter, Request, RequestBody};
use serde_json::{Value, json};
use testbed::Trust;

use crate::check::Counts;
use crate::client::{Client, How, Reading};
use crate::cpu::{self, Meter, Times};
use crate::latency::Delays;
use crate::memory::{self, Usage};
use crate::record::Record;
use crate::reference::Reference;
use crate::seconds;
use crate::sets::{self, Pick};
use crate::wire::masked;

/// How often all clients are checked, whether or not they got something.
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

#[derive(clap::Args)]
pub(crate) struct Plan {
    /// Relay, as 127.0.0.1:8080.
    #[arg(long)]
    relay: String,
    /// Process whose CPU time is measured.
    #[arg(long)]
    pid: u32,
    /// Number of clients.
    #[arg(long)]
    clients: usize,
    /// File with one PV name a line; every PV counts up by one.
    #[arg(long)]
    names: PathBuf,
    /// PVs of each client (default: all).
    #[arg(long)]
    each: Option<usize>,
    /// Which PVs these are.
    #[arg(long, value_enum, default_value_t = Pick::Same)]
    pick: Pick,
    /// Certificate of the relay, to which clients connect with TLS.
    #[arg(long)]
    tls_cert: Option<PathBuf>,
    /// Clients ask for packed columns.
    #[arg(long)]
    lz4: bool,
    /// Number of clients that read nothing from the end of connecting to the end of the measurement.
    #[arg(long, default_value_t = 0)]
    stalled: usize,
    /// All clients connect at once, with none before the others.
    #[arg(long)]
    storm: bool,
    /// Seconds before the measurement starts.
    #[arg(long = "warm-up-s", default_value = "3", value_name = "SECONDS", value_parser = seconds)]
    warm_up: Duration,
    /// Seconds of the measurement.
    #[arg(long = "seconds", value_name = "SECONDS", value_parser = seconds)]
    window: Duration,
    /// Seconds from one reading of the memory to the next in the measurement.
    #[arg(long = "sample-every-s", value_name = "SECONDS", value_parser = seconds)]
    sample_every: Option<Duration>,
    /// Where the first client's messages are written, for the calibration.
    #[arg(long)]
    record: Option<PathBuf>,
    /// Further processes whose CPU time is measured.
    #[arg(long = "also", value_name = "PID")]
    also: Vec<u32>,
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
    let connecting = Meter::start(plan.pid)?;
    let before = crowd.connect(plan)?;
    let connecting = connecting.stop()?;
    let complete = crowd.clients.iter().map(|client| client.complete);
    let mut first_values: Vec<Duration> = complete.flatten().collect();
    first_values.sort_unstable();
    eprintln!("{} clients have their PVs", crowd.clients.len());
    crowd.awake = plan.clients - plan.stalled;
    let connected = memory::usage(plan.pid)?;
    crowd.run_for(plan.warm_up)?;
    let before_measurement = crowd.forget_losses();
    eprintln!("the measurement begins");

    crowd.record = (plan.record.as_ref()).map(|_| (Instant::now(), Record::default()));
    let counts_before: Vec<Counts> = crowd.clients.iter().map(|client| client.counts).collect();
    let also: Vec<Times> = plan
        .also
        .iter()
        .map(|pid| cpu::by_thread(*pid))
        .collect::<Result<_, _>>()?;
    let meter = Meter::start(plan.pid)?;
    crowd.begin(meter.started());
    let samples = crowd.measure(plan, meter.started())?;
    let used = meter.stop()?;
    let mut others = Vec::new();
    for (pid, before) in plan.also.iter().zip(&also) {
        others.push(cpu::between(before, &cpu::by_thread(*pid)?));
    }
    let at_end = memory_at_end(plan)?;

    let (counts, of_awake) = crowd.counts_since(&counts_before);
    let awake = crowd.clients.iter().take(crowd.awake);
    let silences: Vec<_> = awake.map(|client| client.longest_silence).collect();
    let silent = |silence: &&Duration| **silence > LONGEST_SILENCE;
    let latency = crowd.delays.json();
    let longest_pause = crowd.longest_pause;
    if let (Some((_, record)), Some(path)) = (crowd.record.take(), &plan.record) {
        record.write(path)?;
    }
    let resumed = (plan.stalled > 0).then(|| crowd.resume()).transpose()?;
    Ok(json!({
        "clients": plan.clients - plan.stalled,
        "pvs": crowd.pvs(plan)?,
        "firstValues": durations_json(&first_values),
        "firstValuesMs": first_values.last().map_or(0.0, millis),
        "connectingCpuNs": connecting.by_thread.values().sum::<u64>(),
        "seconds": used.seconds,
        "counts": counts.json(),
        "faults": of_awake.faults_json(),
        "skippedBefore": before_measurement.skipped,
        "missingBefore": before_measurement.missing,
        "repeatedBefore": before_measurement.repeated,
        "silentClients": silences.iter().filter(silent).count(),
        "longestSilenceMs": silences.iter().max().map_or(0.0, millis),
        "latency": latency,
        "relayCpuNs": used.by_thread.values().sum::<u64>(),
        "relayCpuNsByThread": used.by_thread,
        "alsoCpuNsByThread": others,
        "relayPageFaults": used.page_faults,
        "relayWaitedNs": used.waited_ns,
        "ownCpuNs": used.own.values().sum::<u64>(),
        "ownWaitedNs": used.own_waited_ns,
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

/// What the relay holds at the end of the measurement; for stalled clients, also its ends of TCP.
fn memory_at_end(plan: &Plan) -> Result<Value, Box<dyn Error>> {
    let mut at_end = memory::usage(plan.pid)?.json();
    if plan.stalled > 0 {
        let (_, port) = plan.relay.rsplit_once(':').ok_or("the relay has no port")?;
        at_end["relayTcpKb"] = memory::relay_end_kb(port.parse()?)?.into();
    }
    Ok(at_end)
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

    /// Forgets the losses before the measurement and returns them.
    ///
    /// Clients that had to wait while others connected may have fallen behind, and the kernel gives
    /// a connection the buffers for large messages only when it has seen some. An IOC that is asked
    /// for thousands of monitors may leave values out, and doesn't say so. One that is behind with
    /// an array sends newer elements early, and then once more.
    fn forget_losses(&mut self) -> Counts {
        let mut lost = Counts::default();
        for client in &mut self.clients {
            lost.skipped += std::mem::take(&mut client.counts.skipped);
            lost.missing += std::mem::take(&mut client.counts.missing);
            lost.repeated += std::mem::take(&mut client.counts.repeated);
        }
        lost
    }

    /// The measurement begins.
    fn begin(&mut self, start: Instant) {
        self.delays = Delays::default();
        for client in &mut self.clients {
            client.last_heard = start;
            client.longest_silence = Duration::ZERO;
        }
        self.longest_pause = Duration::ZERO;
        self.last_round = start;
    }

    /// Counts of the clients that read: since `before`, and all.
    fn counts_since(&self, before: &[Counts]) -> (Counts, Counts) {
        let (mut since, mut all) = (Counts::default(), Counts::default());
        for (client, before) in self.clients.iter().zip(before).take(self.awake) {
            since.add(&client.counts.since(before));
            all.add(&client.counts);
        }
        (since, all)
    }

    /// PVs of each client.
    fn pvs(&self, plan: &Plan) -> Result<usize, Box<dyn Error>> {
        Ok(plan.each.unwrap_or(names(plan)?.len()))
    }

    /// Connects all clients and waits until each has a value of each of its PVs. Returns the memory in use
    /// when all monitors were open but only the first client was there.
    fn connect(&mut self, plan: &Plan) -> Result<Usage, Box<dyn Error>> {
        let names = names(plan)?;
        let each = self.pvs(plan)?;
        let trust = plan.tls_cert.as_deref().map(Trust::in_file);
        let picked = sets::pick(plan.pick, plan.clients, each, names.len());
        self.sort_sets(&picked);
        let mut before = memory::usage(plan.pid)?;
        let deadline = Instant::now() + PATIENCE;
        let started = Instant::now();
        let mut reported = started;
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
                let how = How {
                    lz4: plan.lz4,
                    receive_bytes,
                    trust,
                };
                let client = Client::connect(&plan.relay, subscribe, each, started, how)?;
                client.register(self.poll.registry(), Token(self.clients.len()))?;
                self.clients.push(client);
                if plan.storm {
                    // The relay's answers are read before all have requested theirs.
                    self.round(false)?;
                }
            }
            while !(self.clients[connecting..].iter()).all(|client| client.complete.is_some()) {
                if Instant::now() > deadline {
                    return Err("not every PV of every client had a value in time".into());
                }
                if reported.elapsed() > TELL_EVERY {
                    reported = Instant::now();
                    eprintln!("{connecting} of {} clients have their PVs", plan.clients);
                }
                self.round(true)?;
            }
            if connecting == 0 && !plan.storm && plan.clients > 1 {
                self.run_for(SETTLE)?;
                before = memory::usage(plan.pid)?;
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
        let (mut reported, mut sampled) = (start, start);
        while start.elapsed() < plan.window {
            self.round(true)?;
            if reported.elapsed() > TELL_EVERY {
                reported = Instant::now();
                let (done, all) = (start.elapsed().as_secs(), plan.window.as_secs());
                eprintln!("measured {done} of {all} s");
            }
            if let Some(every) = plan.sample_every
                && sampled.elapsed() > every
            {
                sampled = Instant::now();
                let mut sample = memory::usage(plan.pid)?.json();
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
                self.clients[place].send_on()?;
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
