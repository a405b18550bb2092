//! Recordings whose values are known, and a client that goes to times of a replay and checks what it sees there.

use std::error::Error;
use std::fs::File;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Instant;

use bytes::Bytes;
use pvwire_relay::ingest::recording::{About, Item, Writer};
use pvwire_schema::encode::{FrameEncoder, RowMarks};
use pvwire_schema::types::{
    Alarm, Connection, ConnectionState, FrameKind, Metadata, Outcome, PvId, Reply, ValueType,
};
use rustix::fs::{Advice, fadvise};
use serde_json::{Value, json};
use testbed::{Client, Kept};

use crate::load::durations_json;

/// Updates of a PV in a second, and the time from one to the next.
const RATE_HZ: u64 = 10;
const STEP_NS: i64 = 100_000_000;
const SECOND_NS: i64 = 1_000_000_000;

/// The first time stamp: 2026-11-01 00:00 UTC.
const BEGIN_NS: i64 = 1_793_491_200 * SECOND_NS;

/// How often the recorder asks for the state of 10,000 PVs.
const STATE_EVERY_S: u64 = 20;

/// Before each time that is sought all PVs are recorded for so long, and at other times only the first ones.
const BUSY_S: u64 = 60;
const FEW_PVS: usize = 10;

/// The updates of a curve come one after the other after this time.
const CURVE_EVERY_NS: i64 = 20_000;

#[derive(clap::Args)]
pub(crate) struct Recording {
    /// The recording, a new file.
    #[arg(long)]
    file: PathBuf,
    /// Number of PVs. A single one is a curve, whose updates come much faster than their time stamps say.
    #[arg(long)]
    pvs: usize,
    /// Seconds that the time stamps cover.
    #[arg(long)]
    seconds: u64,
    /// Seconds before which all PVs are recorded.
    #[arg(long = "busy")]
    busy: Vec<u64>,
}

#[derive(clap::Args)]
pub(crate) struct Seek {
    /// Relay that replays, as 127.0.0.1:8080; its PVs may be written.
    #[arg(long)]
    relay: SocketAddr,
    /// The recording, whose pages are dropped from the system's cache before each seek.
    #[arg(long)]
    file: PathBuf,
    /// Number of PVs.
    #[arg(long)]
    pvs: usize,
    /// Seconds to go to, one after the other.
    #[arg(long = "to")]
    to: Vec<u64>,
}

fn name(pv: usize) -> String {
    format!("BENCH:N{pv:05}")
}

/// Numbers that look like chance.
fn scattered(number: u64) -> u32 {
    (number.wrapping_mul(2_654_435_761) & 0xffff_ffff) as u32
}

/// A reading of a converter of 16 bits, of which 8 are noise.
fn reading(pv: usize, step: u64) -> f64 {
    let noise = scattered(step.wrapping_mul(31) + pv as u64 * 7919) >> 24;
    f64::from(noise + 20_000 + pv as u32) * 0.000_305_175_781_25 - 10.0
}

/// A curve of triangles with noise, and peaks that are one update long. The page that draws it has the same formula.
fn curve(step: u64) -> f64 {
    let noise = f64::from(scattered(step) >> 24) / 256.0;
    let place = (step % 86_400) as f64 / 43_200.0;
    let triangle = 10.0 * (1.0 - (place - 1.0).abs());
    let peak = match scattered(step ^ 0x5eed) % 2503 {
        0 => 10.0 + f64::from(step as u32 % 7),
        1 => -10.0 - f64::from(step as u32 % 5),
        _ => 0.0,
    };
    triangle + noise + peak
}

/// Writes a recording; its result is the size.
pub(crate) fn write(plan: &Recording) -> Result<Value, Box<dyn Error>> {
    let begun = Instant::now();
    let about = About {
        relay: "ws://127.0.0.1/ws".to_owned(),
        names: (0..plan.pvs).map(name).collect(),
    };
    let mut recorder = Recorder {
        writer: Writer::create(&plan.file, &about)?,
        encoder: FrameEncoder::new(),
        tick: 0,
    };
    let chunks = match plan.pvs {
        1 => recorder.curve(plan.seconds)?,
        _ => recorder.day(plan)?,
    };
    recorder.writer.finish()?;
    Ok(json!({
        "bytes": recorder.writer.bytes,
        "chunks": chunks,
        "seconds": begun.elapsed().as_secs_f64(),
    }))
}

struct Recorder {
    writer: Writer,
    encoder: FrameEncoder,
    tick: u64,
}

impl Recorder {
    fn begin(&mut self, kind: FrameKind) {
        self.tick += 1;
        self.encoder.begin(kind, self.tick, self.tick - 1);
    }

    fn add(&mut self, time_ns: i64, is_whole: bool) -> Result<(), Box<dyn Error>> {
        let frame = Bytes::copy_from_slice(self.encoder.finish());
        Ok(self.writer.add_at(time_ns, &Item::Frame(frame), is_whole)?)
    }

    /// The state of the first PVs, as a relay answers a `Subscribe`.
    fn state(
        &mut self,
        time_ns: i64,
        pvs: usize,
        value: impl Fn(usize) -> f64,
        step: u64,
    ) -> Result<(), Box<dyn Error>> {
        self.begin(FrameKind::Snapshot);
        let ids = (0..pvs as u32).map(PvId).collect();
        let errors = Vec::new();
        self.encoder.reply(1, &Reply::Subscribed { ids, errors });
        let metadata = Metadata {
            value_type: ValueType::Float64,
            element_count: 1,
            epoch: 1,
            ..Metadata::default()
        };
        for pv in 0..pvs {
            let id = PvId(pv as u32);
            let alarm = Some(Alarm::NONE);
            let sequence = step as u32 + 1;
            let marks = RowMarks {
                alarm,
                sequence,
                ..RowMarks::default()
            };
            self.encoder.metadata(id, &metadata);
            self.encoder.connection(
                id,
                Connection {
                    state: ConnectionState::Connected,
                    since_ns: BEGIN_NS,
                    read: true,
                    write: false,
                    puts: false,
                    heard_ns: 0,
                    write_unknown: false,
                },
            );
            self.encoder.number(id, stamp_ns(step), value(pv), marks);
        }
        self.add(time_ns, true)
    }

    /// A chunk each second.
    fn day(&mut self, plan: &Recording) -> Result<u64, Box<dyn Error>> {
        for second in 0..plan.seconds {
            let is_busy =
                (plan.busy.iter()).any(|to| (to.saturating_sub(BUSY_S)..=to + 2).contains(&second));
            let pvs = if is_busy {
                plan.pvs
            } else {
                FEW_PVS.min(plan.pvs)
            };
            let came_ns = BEGIN_NS + second as i64 * SECOND_NS;
            let first = second * RATE_HZ;
            if second % STATE_EVERY_S == 0 {
                let before = first.saturating_sub(1);
                self.state(came_ns, pvs, |pv| reading(pv, before), before)?;
            }
            for step in first..first + RATE_HZ {
                self.begin(FrameKind::Update);
                for pv in 0..pvs {
                    let marks = RowMarks::default();
                    let id = PvId(pv as u32);
                    self.encoder
                        .number(id, stamp_ns(step), reading(pv, step), marks);
                }
                self.add(stamp_ns(step), false)?;
            }
            self.writer.flush()?;
        }
        Ok(plan.seconds)
    }

    /// One PV whose updates come quickly: the relay keeps them as they come, with their time stamps.
    fn curve(&mut self, seconds: u64) -> Result<u64, Box<dyn Error>> {
        self.state(BEGIN_NS, 1, |_| curve(0), 0)?;
        for step in 1..seconds * RATE_HZ {
            self.begin(FrameKind::Update);
            let marks = RowMarks::default();
            self.encoder
                .number(PvId(0), stamp_ns(step), curve(step), marks);
            // The page has a moment to open the PV.
            self.add(
                BEGIN_NS + 5 * SECOND_NS + step as i64 * CURVE_EVERY_NS,
                false,
            )?;
        }
        Ok(0)
    }
}

const fn stamp_ns(step: u64) -> i64 {
    BEGIN_NS + step as i64 * STEP_NS
}

/// Goes to each time, and waits until each PV has the value of that time.
pub(crate) fn seek(plan: &Seek) -> Result<Value, Box<dyn Error>> {
    let names: Vec<_> = (0..plan.pvs).map(name).collect();
    let mut client = Client::connect(plan.relay);
    client.subscribe(&names);
    client.subscribe(&["replay://position", "replay://speed"]);
    // A pause: what is seen is the state of that time.
    assert_eq!(client.put_number("replay://speed", 0.0).0, Outcome::Done);
    let file = File::open(&plan.file)?;
    file.sync_all()?;
    let mut took = Vec::new();
    for to in &plan.to {
        fadvise(&file, 0, None, Advice::DontNeed)?;
        client.forget_history();
        // The update of the time itself is shown.
        let step = to * RATE_HZ;
        let is_there = |client: &Client, pv: usize| {
            let now = client.pv(&names[pv]).now.as_ref();
            now.is_some_and(|now| now.time_ns == stamp_ns(step))
        };
        let begun = Instant::now();
        let (outcome, why) = client.put_number("replay://position", *to as f64);
        assert_eq!(outcome, Outcome::Done, "{why}");
        // Looks from where the last time ended: each PV is there only once.
        let mut known = 0;
        client.wait(&format!("the state at {to} s"), |client| {
            while known < names.len() && is_there(client, known) {
                known += 1;
            }
            known == names.len()
        });
        took.push(begun.elapsed());
        for (pv, name) in names.iter().enumerate() {
            let expected = Kept::Number(reading(pv, step));
            assert!(client.pv(name).is(&expected), "{name} at {to} s");
        }
    }
    took.sort_unstable();
    Ok(json!({ "seeks": took.len(), "pvs": plan.pvs, "took": durations_json(&took) }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pvwire_relay::ingest::recording::Reader;

    #[test]
    fn recording_has_a_chunk_a_second_and_all_pvs_before_a_time_that_is_sought() {
        let file = std::env::temp_dir().join(format!("pvwire-day-{}", std::process::id()));
        let _ = std::fs::remove_file(&file);
        let plan = Recording {
            file,
            pvs: 20,
            seconds: 100,
            busy: vec![90],
        };
        write(&plan).unwrap();
        let mut reader = Reader::open(&plan.file).unwrap();
        let (first_ns, last_ns) = reader.span_ns();
        assert_eq!((first_ns, last_ns), (BEGIN_NS, stamp_ns(999)));
        let mut rows = Vec::new();
        while let Some(items) = reader.next_items().unwrap() {
            let frames = items.iter().filter_map(|(_, item)| match item {
                Item::Frame(frame) => {
                    Some(pvwire_schema::decode::frame(frame).unwrap().numbers_len())
                }
                Item::Lost => None,
            });
            rows.push(frames.sum::<usize>());
        }
        std::fs::remove_file(&plan.file).unwrap();
        assert_eq!(
            (rows.len(), rows[0], rows[25], rows[35], rows[40]),
            (100, 110, 100, 200, 220)
        );
    }

    #[test]
    fn curve_has_peaks_that_are_one_update_long() {
        let is_peak = |step: &u64| !(0.0..=11.0).contains(&curve(*step));
        assert!((1..864_000_u64).filter(is_peak).count() > 200);
    }
}
