//! One of many clients is cut off, and gets each update that it has missed when it is back; what that costs the others.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use pvwire_schema::decode;
use pvwire_schema::types::{Outcome, Reply, RequestBody};
use serde_json::{Value, json};
use testbed::{Client, DEADLINE, Kept};

use super::{Counts, Crowd, Delays, millis, names};
use crate::cpu::Meter;
use crate::seconds;

#[derive(clap::Args)]
pub(crate) struct Plan {
    /// The clients that stay. The window of their latencies is that of the measurement.
    #[command(flatten)]
    others: super::Plan,
    /// Seconds for which the other client is cut off.
    #[arg(long = "cut-s", value_name = "SECONDS", value_parser = seconds)]
    cut: Duration,
}

/// How often is looked whether the other client is as far.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What the client that was cut off reports.
struct Resumed {
    /// From the begin of the new connection until all pages have come, and until each update was checked.
    received: Duration,
    checked: Duration,
    updates: u64,
    bytes: usize,
}

pub(crate) fn run(plan: &Plan) -> Result<Value, Box<dyn Error>> {
    let others = &plan.others;
    let mut crowd = Crowd::new(others.clients)?;
    crowd.connect(others)?;
    crowd.run_for(others.warm_up)?;
    let before_measurement = crowd.forget_losses();
    let (relay, pvs) = (others.relay.parse::<SocketAddr>()?, names(others)?);
    let (cut, is_cut) = channel();
    let (again, may_return) = channel();
    let client = thread::spawn(move || cut_off(relay, &pvs, &cut, &may_return));
    while is_cut.try_recv().is_err() {
        if client.is_finished() {
            return Err("the client that is to be cut off has failed".into());
        }
        crowd.run_for(LOOK_EVERY)?;
    }
    eprintln!("cut off for {} s", plan.cut.as_secs());
    let counts_before: Vec<Counts> = crowd.clients.iter().map(|client| client.counts).collect();
    let start = Instant::now();
    crowd.begin(start);
    // The ages of each of the windows before.
    let mut p99_before = Vec::new();
    while start.elapsed() + others.window <= plan.cut {
        crowd.delays = Delays::default();
        crowd.run_for(others.window)?;
        p99_before.push(p99_ms(&crowd.delays));
    }
    p99_before.sort_by(f64::total_cmp);
    let used_until = Meter::start(others.pid)?;
    crowd.run_for(plan.cut.saturating_sub(start.elapsed()))?;
    crowd.delays = Delays::default();
    let meter = Meter::start(others.pid)?;
    again.send(())?;
    crowd.run_for(others.window)?;
    let used = meter.stop()?;
    let after = crowd.delays.json();
    while !client.is_finished() {
        crowd.run_for(LOOK_EVERY)?;
    }
    let seconds = start.elapsed().as_secs_f64();
    let whole = used_until.stop()?;
    let resumed = client
        .join()
        .map_err(|_| "the client that was cut off has failed")?;
    let (counts, all) = crowd.counts_since(&counts_before);
    let silences: Vec<_> = crowd
        .clients
        .iter()
        .map(|client| client.longest_silence)
        .collect();
    Ok(json!({
        "clients": others.clients,
        "pvs": crowd.pvs(others)?,
        "seconds": seconds,
        "counts": counts.json(),
        "faults": all.faults_json(),
        "skippedBefore": before_measurement.skipped,
        "missingBefore": before_measurement.missing,
        "repeatedBefore": before_measurement.repeated,
        "silentClients": silences.iter().filter(|silence| **silence > super::LONGEST_SILENCE).count(),
        "longestSilenceMs": silences.iter().max().map_or(0.0, millis),
        "ownWaitedNs": whole.own_waited_ns,
        "ownLongestPauseMs": millis(&crowd.longest_pause),
        "resumed": null,
        "p99BeforeMs": p99_before,
        "latency": after,
        "relayCpuNs": used.by_thread.values().sum::<u64>(),
        "relayCpuNsByThread": used.by_thread,
        "windowSeconds": used.seconds,
        "missed": resumed.updates,
        "missedBytes": resumed.bytes,
        "receivedMs": millis(&resumed.received),
        "checkedMs": millis(&resumed.checked),
    }))
}

fn p99_ms(delays: &Delays) -> f64 {
    delays.json()["p99Ms"].as_f64().unwrap_or(f64::NAN)
}

/// The last update of a PV before the cut.
struct Last {
    epoch: u32,
    sequence: u32,
    time_ns: i64,
    value: f64,
}

impl Last {
    fn of(client: &Client, name: &str) -> Self {
        let pv = client.pv(name);
        let now = pv.now.as_ref().expect("a value");
        let Kept::Number(value) = now.value else {
            panic!("{name} has no number");
        };
        Self {
            epoch: pv.metadata.as_ref().expect("its description").epoch,
            sequence: pv.sequence,
            time_ns: now.time_ns,
            value,
        }
    }
}

/// Subscribes, is cut off, returns when it may, and checks each update that it has missed.
fn cut_off(
    relay: SocketAddr,
    names: &[String],
    cut: &Sender<()>,
    may_return: &Receiver<()>,
) -> Resumed {
    let mut client = Client::connect(relay);
    client.subscribe_live(names);
    let lasts: Vec<_> = names.iter().map(|name| Last::of(&client, name)).collect();
    let instance = client
        .hello
        .as_ref()
        .map_or(0, |hello| hello.relay_instance);
    drop(client);
    cut.send(()).expect("the others wait");
    may_return.recv().expect("the others say when");

    let begun = Instant::now();
    let mut client = Client::connect(relay);
    client.subscribe_live(names);
    let pvs: Vec<_> = (names.iter().zip(&lasts))
        .map(|(name, last)| json!([name, last.epoch, last.sequence]))
        .collect();
    let question = json!({ "relay": instance.to_string(), "pvs": pvs });
    let pages = ask(&mut client, "missed", &question);
    let received = begun.elapsed();
    let mut missed = Missed::new(lasts);
    pages.iter().for_each(|page| missed.take(page));
    let updates = missed.check(&client, names);
    Resumed {
        received,
        checked: begun.elapsed(),
        updates,
        bytes: pages.iter().map(Vec::len).sum(),
    }
}

/// The contents of all pages of an answer.
fn ask(client: &mut Client, service: &str, question: &Value) -> Vec<Vec<u8>> {
    let request = client.request(RequestBody::Ask {
        service: service.to_owned(),
        body: question.to_string().into_bytes(),
    });
    let (mut contents, mut next) = (Vec::new(), 0);
    let deadline = Instant::now() + DEADLINE;
    loop {
        assert!(Instant::now() < deadline, "no page {next}");
        if !client.read_for_a_moment() {
            continue;
        }
        // What was read may be no answer; the last one is then that of before.
        let Ok(frame) = decode::frame(client.last_answer()) else {
            continue;
        };
        let Some(Reply::Page(page)) = frame.reply().filter(|_| frame.reply_to() == request) else {
            continue;
        };
        if page.page < next {
            continue;
        }
        assert_eq!(
            (page.page, page.outcome),
            (next, Outcome::Done),
            "{}",
            page.message
        );
        next += 1;
        contents.push(
            frame
                .page_content()
                .map_or(&[][..], |(_, content)| content)
                .to_vec(),
        );
        if page.last {
            return contents;
        }
    }
}

/// What is known of the missed updates of each PV while pages are taken.
struct Missed {
    lasts: Vec<Last>,
    /// The updates of each PV, by the sequence number that the first has.
    times: Vec<Vec<i64>>,
    ends: Vec<Option<u32>>,
    firsts: Vec<u32>,
}

impl Missed {
    fn new(lasts: Vec<Last>) -> Self {
        Self {
            times: lasts.iter().map(|_| Vec::new()).collect(),
            ends: vec![None; lasts.len()],
            firsts: lasts.iter().map(|last| last.sequence + 1).collect(),
            lasts,
        }
    }

    /// Checks each update of a page: it must be the next one of its PV, with the next value and a later time.
    fn take(&mut self, content: &[u8]) {
        let word =
            |at: usize| content[at..at + 4].try_into().map_or(0, u32::from_le_bytes) as usize;
        let (text, rows) = (word(0), word(4));
        let head: Value = serde_json::from_slice(&content[8..8 + text]).expect("JSON");
        let number = |value: &Value| value.as_u64().expect("a number");
        let lists = |field: &str| head[field].as_array().cloned().unwrap_or_default();
        for field in ["absent", "refused", "skips", "texts"] {
            assert_eq!(lists(field), Vec::<Value>::new(), "{field}");
        }
        let (times, numbers) = content[8 + text..].as_chunks::<8>().0.split_at(rows);
        let mut row = 0;
        for run in lists("runs") {
            let pv = number(&run[0]) as usize;
            let last = &self.lasts[pv];
            let known = &mut self.times[pv];
            let expected = (
                u64::from(last.epoch),
                u64::from(self.firsts[pv]) + known.len() as u64,
            );
            assert_eq!((number(&run[2]), number(&run[3])), expected, "PV {pv}");
            for _ in 0..number(&run[1]) {
                let time_ns = i64::from_le_bytes(times[row]);
                let before_ns = known.last().copied().unwrap_or(last.time_ns);
                assert!(time_ns > before_ns, "PV {pv}: {time_ns} after {before_ns}");
                known.push(time_ns);
                let value = last.value + known.len() as f64;
                assert_eq!(f64::from_le_bytes(numbers[row]), value, "PV {pv}");
                row += 1;
            }
        }
        assert_eq!(row, rows, "each row belongs to a PV");
        for end in lists("ends") {
            self.ends[number(&end[0]) as usize] = Some(number(&end[2]) as u32);
        }
    }

    /// Checks that missed and live updates join; returns the number of those before the live ones.
    fn check(&self, client: &Client, names: &[String]) -> u64 {
        let mut updates = 0;
        for (pv, name) in names.iter().enumerate() {
            let live = &client.pv(name).rows[0];
            let end = self.ends[pv].expect("the end of each PV");
            let (times, first) = (&self.times[pv], self.firsts[pv]);
            assert_eq!(first + times.len() as u32 - 1, end, "{name}");
            let joined = (live.sequence - first) as usize;
            assert_eq!(times.get(joined), Some(&live.time_ns), "{name}");
            let value = self.lasts[pv].value + joined as f64 + 1.0;
            assert_eq!(live.value, Kept::Number(value), "{name}");
            updates += joined as u64;
        }
        updates
    }
}
