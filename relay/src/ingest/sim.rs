//! How do the relay's own generators become PVs, for demos and load tests without an IOC?

mod coniql;
mod generator;
mod name;
mod timer;

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pvwire_schema::types::Metadata;

use super::{Event, Line, Monitor, Queue, Source};
use generator::{Generator, Moment};
use name::Function;
use timer::{Job, Task, Timer};

use crate::limits::subscriptions::MAX_LOAD;

/// PVs whose names say how they move, as `sim://sine(2,rate_hz=5)`.
///
/// All generators of the relay share one thread, which ends with the last of these.
pub struct SimSource {
    scheme: &'static str,
    functions: &'static [Function],
    /// `None` where simulated PVs are off.
    timer: Option<Arc<Timer<Running>>>,
    load: Arc<AtomicU64>,
}

impl SimSource {
    /// Two sources that refuse every name, for a relay that has no simulated PVs.
    #[must_use]
    pub fn off() -> [Self; 2] {
        Self::both(None)
    }

    /// Starts the thread; two sources: `sim`, and `ssim` with the names of Coniql.
    ///
    /// # Errors
    /// When the thread can't start.
    pub fn start() -> io::Result<[Self; 2]> {
        Ok(Self::both(Some(Arc::new(Timer::start()?))))
    }

    fn both(timer: Option<Arc<Timer<Running>>>) -> [Self; 2] {
        let load = Arc::default();
        let source = |scheme, functions| Self {
            scheme,
            functions,
            timer: timer.clone(),
            load: Arc::clone(&load),
        };
        FUNCTIONS.map(|(scheme, functions)| source(scheme, functions))
    }
}

/// The functions of each scheme.
const FUNCTIONS: [(&str, &[Function]); 2] =
    [("sim", generator::FUNCTIONS), ("ssim", coniql::FUNCTIONS)];

/// Reads a name such as `sine(2)` of `scheme` and makes its value at each of these moments: stamp in
/// nanoseconds and number of the update. Says how many values it made. Arrays of more than `most`
/// elements are made by none. For tests.
///
/// # Errors
/// Why there is no such PV.
pub fn try_name(
    scheme: &str,
    name: &str,
    moments: &[(i64, u64)],
    most: u32,
) -> Result<usize, String> {
    let known = FUNCTIONS.iter().find(|(known, _)| *known == scheme);
    let (scheme, functions) = known.ok_or("there is no such scheme")?;
    let generator = name::read(scheme, functions, name)?;
    if generator.metadata.element_count > most {
        return Ok(0);
    }
    for &(time_ns, update) in moments {
        generator.sample(Moment { time_ns, update });
    }
    Ok(moments.len())
}

/// A share of what all simulated PVs may make, until this is dropped.
struct Share {
    all: Arc<AtomicU64>,
    load: u64,
}

impl Share {
    fn take(all: &Arc<AtomicU64>, load: u64) -> Self {
        all.fetch_add(load, Ordering::Relaxed);
        let all = Arc::clone(all);
        Self { all, load }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.all.fetch_sub(self.load, Ordering::Relaxed);
    }
}

impl Source for SimSource {
    fn scheme(&self) -> &'static str {
        self.scheme
    }

    fn has_room(&self, name: &str) -> Result<(), String> {
        // What is wrong with a name, `open` says.
        let generator = name::read(self.scheme, self.functions, name);
        let load = generator.map_or(0, |generator| generator.load());
        let taken = self.load.load(Ordering::Relaxed);
        if taken.saturating_add(load) <= MAX_LOAD {
            return Ok(());
        }
        Err(format!(
            "this PV makes {load} elements a second and the relay's other simulated PVs make {taken}; \
             all of them may make {MAX_LOAD}"
        ))
    }

    fn value_bytes(&self, name: &str) -> usize {
        let generator = name::read(self.scheme, self.functions, name);
        generator.map_or(0, |generator| {
            let Metadata {
                value_type,
                element_count,
                ..
            } = generator.metadata;
            let element_bytes = value_type.element_bytes().unwrap_or_default();
            (element_count as usize).saturating_mul(element_bytes)
        })
    }

    fn open(&self, name: &str, line: Line, _queue: Queue) -> Result<Box<dyn Monitor>, String> {
        let Some(timer) = &self.timer else {
            return Err(
                "simulated PVs are off: the relay's operator enables them (enable_sim)".into(),
            );
        };
        let generator = name::read(self.scheme, self.functions, name)?;
        let share = Share::take(&self.load, generator.load());
        line.event(Event::Access {
            read: true,
            write: false,
        });
        line.connected(false);
        let mut metadata = generator.metadata.clone();
        metadata.epoch = line.epoch();
        line.event(Event::Metadata(Box::new(metadata)));
        let interval = generator.interval;
        let running = Running {
            name: format!("{}://{name}", self.scheme),
            line,
            generator: Some(generator),
            updates: 0,
        };
        Ok(Box::new(SimMonitor {
            _job: timer.add(interval, running),
            share,
        }))
    }
}

struct SimMonitor {
    _job: Job<Running>,
    share: Share,
}

impl Monitor for SimMonitor {
    fn load(&self) -> u64 {
        self.share.load
    }
}

/// An open generator. Its line is called by the thread that opens it and then by the timer's alone.
struct Running {
    name: String,
    line: Line,
    /// `None` after it failed.
    generator: Option<Generator>,
    updates: u64,
}

impl Task for Running {
    fn run(&mut self, time_ns: i64) {
        let moment = Moment {
            time_ns,
            update: self.updates,
        };
        self.updates += 1;
        let Some(generator) = &self.generator else {
            return;
        };
        // A fault of one generator must not end the others, which share this thread.
        match catch_unwind(AssertUnwindSafe(|| generator.sample(moment))) {
            Ok((value, alarm)) => self.line.update(time_ns, value, alarm),
            Err(_) => {
                log::error!(
                    "the generator of {:?} panicked at update {}; the PV is disconnected, please \
                     report it",
                    self.name,
                    moment.update
                );
                self.generator = None;
                self.line.event(Event::Disconnected);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::intake::Taken;
    use crate::ingest::{Intake, RowValue};
    use pvwire_schema::types::{Metadata, PvId, ValueType};
    use std::time::{Duration, Instant};

    const DEADLINE: Duration = Duration::from_secs(20);

    /// What came until there are so many rows.
    fn taken(intake: &Intake, rows: usize) -> Vec<Taken> {
        let deadline = Instant::now() + DEADLINE;
        let mut taken = Vec::new();
        while taken
            .iter()
            .filter(|one| matches!(one, Taken::Row(_)))
            .count()
            < rows
        {
            assert!(Instant::now() < deadline, "only {taken:?}");
            intake.drain(|one| taken.push(one));
            std::thread::yield_now();
        }
        taken
    }

    #[test]
    fn pv_is_connected_readable_and_described_before_its_first_value() {
        let intake = Intake::new();
        let [sim, _] = SimSource::start().unwrap();
        let line = Line::open(&intake, PvId(0), true);
        let _monitor = sim
            .open("counter(rate_hz=1000)", line, Queue::Front)
            .unwrap();
        let taken = taken(&intake, 3);
        let events: Vec<_> = (taken.iter())
            .filter_map(|one| match one {
                Taken::Notice(notice) => Some(&notice.event),
                Taken::Row(_) => None,
            })
            .collect();
        let [
            Event::Opened { .. },
            Event::Access {
                read: true,
                write: false,
            },
            Event::Connected { epoch },
            Event::Metadata(metadata),
        ] = events[..]
        else {
            panic!("{events:?}");
        };
        assert_eq!(
            (metadata.epoch, metadata.value_type),
            (*epoch, ValueType::Float64)
        );
        let values: Vec<_> = (taken.iter())
            .filter_map(|one| match one {
                Taken::Row(row) => Some(row.value.clone()),
                Taken::Notice(_) => None,
            })
            .collect();
        assert_eq!(values[..3], [0.0, 1.0, 2.0].map(RowValue::Number));
    }

    #[test]
    fn closed_monitor_makes_no_more_values() {
        let intake = Intake::new();
        let [sim, _] = SimSource::start().unwrap();
        let open = |pv| {
            let line = Line::open(&intake, PvId(pv), false);
            sim.open("counter(rate_hz=1000)", line, Queue::Front)
                .unwrap()
        };
        let closed = open(1);
        taken(&intake, 1);
        drop(closed);
        // One may be under way.
        let _other = open(2);
        taken(&intake, 5);
        for one in taken(&intake, 5) {
            assert!(!matches!(one, Taken::Row(row) if row.pv == PvId(1)));
        }
    }

    const FAULTY: Function = Function {
        name: "faulty",
        parameters: &[],
        make: |_| {
            let interval = Duration::from_millis(1);
            let value = |at: Moment| f64::from(10 / (3 - at.update as u32));
            Ok(Generator::number(interval, Metadata::default(), value))
        },
    };

    #[test]
    fn panic_in_a_generator_disconnects_its_pv_and_no_other() {
        let intake = Intake::new();
        let [mut sim, ssim] = SimSource::start().unwrap();
        sim.functions = &[FAULTY];
        let line = |pv| Line::open(&intake, PvId(pv), false);
        let _faulty = sim.open("faulty", line(1), Queue::Front).unwrap();
        let ramp = "rampwave(size=5,update_seconds=0.001,max_value=1e-320,step=1e15)";
        let _other = ssim.open(ramp, line(2), Queue::Front).unwrap();
        let deadline = Instant::now() + DEADLINE;
        let (mut before, mut lost, mut after) = (0, false, 0);
        while !lost || after < 20 {
            assert!(Instant::now() < deadline, "{before} {lost} {after}");
            intake.drain(|one| match one {
                Taken::Row(row) if row.pv == PvId(1) => {
                    assert!(!lost, "a value of a PV that is lost");
                    before += 1;
                }
                Taken::Row(_) => after += u32::from(lost),
                Taken::Notice(notice) => {
                    if matches!(notice.event, Event::Disconnected) {
                        assert_eq!(notice.pv, PvId(1));
                        lost = true;
                    }
                }
            });
            std::thread::yield_now();
        }
        assert_eq!(before, 3);
    }

    #[test]
    fn all_simulated_pvs_together_make_a_limited_number_of_elements() {
        let intake = Intake::new();
        let [sim, ssim] = SimSource::start().unwrap();
        let open = |pv, source: &SimSource, name| {
            source.has_room(name)?;
            let line = Line::open(&intake, PvId(pv), false);
            source.open(name, line, Queue::Front)
        };
        let large = "waveform(2000000,rate_hz=25)";
        let first = open(1, &sim, large).unwrap();
        let _second = open(2, &ssim, "sinewave(size=2000000,update_seconds=0.04)").unwrap();
        let refused = |pv| open(pv, &sim, large).map(|_| ()).unwrap_err();
        let why = refused(3);
        assert!(why.contains("all of them may make 120000000"), "{why}");
        refused(3);
        drop(first);
        open(3, &sim, large).unwrap();
    }

    #[test]
    fn source_that_is_off_says_who_can_turn_it_on() {
        let intake = Intake::new();
        for source in SimSource::off() {
            let line = Line::open(&intake, PvId(1), false);
            let why = source.open("sine", line, Queue::Front).map(|_| ());
            assert!(why.unwrap_err().contains("(enable_sim)"));
        }
    }

    #[test]
    fn monitor_may_outlive_its_source() {
        let intake = Intake::new();
        let sources = SimSource::start().unwrap();
        let line = Line::open(&intake, PvId(0), false);
        let monitor = sources[0].open("sine", line, Queue::Front).unwrap();
        drop(sources);
        drop(monitor);
    }
}
