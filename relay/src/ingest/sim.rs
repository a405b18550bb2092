//! Simulated PVs: generators of the relay as a source, for demos and load tests without an IOC.

mod coniql;
mod functions;
mod generator;
mod name;
mod phoebus;
mod system;
mod timer;

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pvwire_schema::types::Metadata;

use super::{Event, Line, Monitor, OpenError, Overload, Queue, Source};
use generator::{Generator, Moment, Pace};
use timer::{Job, Task, Timer};

use crate::limits::subscriptions::MAX_LOAD;
use crate::ops::latency::wall_ns;

/// PVs whose names say how their values are made, such as `sim://sine(2,rate_hz=5)`.
///
/// All generators of the relay share one thread, which ends with the last of these.
pub struct SimSource {
    scheme: &'static str,
    read: Read,
    /// `None` if simulated PVs are disabled.
    timer: Option<Arc<Timer<Running>>>,
    load: Arc<AtomicU64>,
}

impl SimSource {
    /// Sources that refuse every name, for a relay that has no simulated PVs.
    #[must_use]
    pub fn off() -> [Self; 3] {
        Self::all(None)
    }

    /// Starts a thread and returns the source `sys`, for clients of PVWS and displays.
    ///
    /// # Errors
    /// When the thread can't start.
    pub fn system() -> io::Result<Self> {
        Ok(Self {
            scheme: SYSTEM.0,
            read: SYSTEM.1,
            timer: Some(Arc::new(Timer::start()?)),
            load: Arc::default(),
        })
    }

    /// Starts the thread and returns the sources: `sim`, `ssim` with the names of Coniql, and `psim` with those of
    /// Phoebus.
    ///
    /// # Errors
    /// When the thread can't start.
    pub fn start() -> io::Result<[Self; 3]> {
        Ok(Self::all(Some(Arc::new(Timer::start()?))))
    }

    fn all(timer: Option<Arc<Timer<Running>>>) -> [Self; 3] {
        let load = Arc::default();
        SCHEMES.map(|(scheme, read)| Self {
            scheme,
            read,
            timer: timer.clone(),
            load: Arc::clone(&load),
        })
    }
}

/// Makes what a name asks for.
type Read = fn(&str) -> Result<Generator, OpenError>;

/// The schemes, and the reader of each one's names.
const SCHEMES: [(&str, Read); 3] = [
    ("sim", functions::read),
    ("ssim", coniql::read),
    ("psim", phoebus::read),
];

/// The scheme of the relay's machine.
const SYSTEM: (&str, Read) = ("sys", system::read);

/// Reads a name such as `sine(2)` of `scheme`, makes its value at each of these moments (time stamp
/// in nanoseconds, number of the update) and returns the number of values. Makes none if an array
/// has more than `most` elements. For fuzzing.
///
/// # Errors
/// Why there is no such PV.
pub fn try_name(
    scheme: &str,
    name: &str,
    moments: &[(i64, u64)],
    most: u32,
) -> Result<usize, OpenError> {
    let known = SCHEMES
        .iter()
        .chain([&SYSTEM])
        .find(|(known, _)| *known == scheme);
    let (_, read) = known.ok_or_else(|| OpenError::name("there is no such scheme"))?;
    let generator = read(name)?;
    if generator.metadata.element_count > most {
        return Ok(0);
    }
    for &(time_ns, update) in moments {
        generator.sample(Moment { time_ns, update });
    }
    Ok(moments.len())
}

/// The share of one PV in the elements that all simulated PVs may make, until it is dropped.
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

    fn has_room(&self, name: &str) -> Result<(), Overload> {
        // `open` reports errors of the name.
        let generator = (self.read)(name);
        let load = generator.map_or(0, |generator| generator.load());
        let taken = self.load.load(Ordering::Relaxed);
        if taken.saturating_add(load) <= MAX_LOAD {
            return Ok(());
        }
        Err(Overload {
            load,
            taken,
            most: MAX_LOAD,
        })
    }

    fn value_bytes(&self, name: &str) -> usize {
        let generator = (self.read)(name);
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

    fn open(&self, name: &str, line: Line, _queue: Queue) -> Result<Box<dyn Monitor>, OpenError> {
        let Some(timer) = &self.timer else {
            return Err(OpenError::Disabled {
                what: "simulated PVs",
                setting: "enable_sim",
            });
        };
        let generator = (self.read)(name)?;
        let share = Share::take(&self.load, generator.load());
        connect(&line, &generator.metadata);
        let (interval, pace) = (generator.interval, generator.pace);
        let mut running = Running {
            name: format!("{}://{name}", self.scheme),
            line,
            generator: Some(generator),
            updates: 0,
        };
        let job = match pace {
            Pace::AtOnce => Some(timer.add(interval, running)),
            Pace::FromStart => {
                running.run(wall_ns());
                Some(timer.add_later(interval, running))
            }
            Pace::AfterInterval => Some(timer.add_later(interval, running)),
            Pace::Once => {
                running.run(wall_ns());
                None
            }
        };
        Ok(Box::new(SimMonitor { _job: job, share }))
    }
}

/// Reports a connection with its rights and metadata.
fn connect(line: &Line, metadata: &Metadata) {
    line.event(Event::Access {
        read: true,
        write: false,
    });
    line.connected(false);
    let epoch = line.epoch();
    line.event(Event::Metadata(Box::new(Metadata {
        epoch,
        ..metadata.clone()
    })));
}

struct SimMonitor {
    /// `None` if there are no more values.
    _job: Option<Job<Running>>,
    share: Share,
}

impl Monitor for SimMonitor {
    fn load(&self) -> u64 {
        self.share.load
    }
}

/// An open generator. The thread that opens it calls its line first, then only the timer's.
struct Running {
    name: String,
    line: Line,
    /// `None` after it has panicked.
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
        if generator.is_intermittent && moment.update % 2 == 1 {
            return self.line.event(Event::Disconnected);
        }
        if generator.is_intermittent && moment.update > 0 {
            connect(&self.line, &generator.metadata);
        }
        // A panic of one generator must not end the others, which share this thread.
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
    use super::generator::Function;
    use super::name::{Parameter, Takes};
    use super::*;
    use crate::ingest::intake::Taken;
    use crate::ingest::{Intake, RowValue};
    use pvwire_schema::types::{BlobValue, Metadata, PvId, ValueType};
    use std::time::{Duration, Instant};

    /// The functions of the schemes whose arguments have names.
    const FUNCTIONS: [(&str, &[Function]); 2] =
        [("sim", functions::FUNCTIONS), ("ssim", coniql::FUNCTIONS)];

    const DEADLINE: Duration = Duration::from_secs(20);

    /// Everything that arrived until there are this many rows.
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
    fn pv_is_connected_and_described_before_its_first_value() {
        let intake = Intake::new();
        let [sim, ..] = SimSource::start().unwrap();
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
        let [sim, ..] = SimSource::start().unwrap();
        let open = |pv| {
            let line = Line::open(&intake, PvId(pv), false);
            sim.open("counter(rate_hz=1000)", line, Queue::Front)
                .unwrap()
        };
        let closed = open(1);
        taken(&intake, 1);
        drop(closed);
        // One value may be under way.
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
        let [mut sim, ssim, _] = SimSource::start().unwrap();
        sim.read = |name| name::read("sim", &[FAULTY], name).map_err(OpenError::name);
        let line = |pv| Line::open(&intake, PvId(pv), false);
        let _faulty = sim.open("faulty", line(1), Queue::Front).unwrap();
        let ramp = "rampwave(size=5,update_seconds=0.001,max_value=1e-320,step=1e15)";
        let _other = ssim.open(ramp, line(2), Queue::Front).unwrap();
        let deadline = Instant::now() + DEADLINE;
        let (mut values, mut lost, mut after) = (0, false, 0);
        while !lost || after < 20 {
            assert!(Instant::now() < deadline, "{values} {lost} {after}");
            intake.drain(|one| match one {
                // Values that wait when it is lost come after that event.
                Taken::Row(row) if row.pv == PvId(1) => values += 1,
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
        assert_eq!(values, 3);
    }

    #[test]
    fn elements_of_all_simulated_pvs_together_are_limited() {
        let intake = Intake::new();
        let [sim, ssim, _] = SimSource::start().unwrap();
        let open = |pv, source: &SimSource, name| {
            source
                .has_room(name)
                .map_err(|overload| overload.to_string())?;
            let line = Line::open(&intake, PvId(pv), false);
            (source.open(name, line, Queue::Front)).map_err(|error| error.to_string())
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
            assert!(why.unwrap_err().to_string().contains("(enable_sim)"));
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

    #[test]
    fn every_generator_can_be_made_as_its_reference_says() {
        // Tables of Markdown escape the bar.
        let reference = include_str!("../../../docs/reference/sim.md").replace("\\|", "|");
        for (scheme, functions) in FUNCTIONS {
            for function in functions {
                let name = function.to_string();
                let generator = name::read(scheme, functions, &name).unwrap();
                let default = name::read(scheme, functions, function.name).unwrap();
                let metadata = &generator.metadata;
                assert_eq!(*metadata, default.metadata, "{name}");
                assert!(!metadata.description.is_empty(), "{name}");
                assert!(
                    reference.contains(&format!("`{scheme}://{name}`")),
                    "{name}"
                );
                for parameter in function.parameters {
                    let row = format!("| `{}` |", parameter.name);
                    assert!(reference.contains(&row), "{row}");
                }
            }
        }
    }

    /// Texts at and near the limits of an argument.
    fn extremes(parameter: &Parameter) -> Vec<String> {
        // A few elements show as much as millions, which take an hour.
        let few = |high: f64| high == f64::from(generator::MAX_ELEMENTS);
        match parameter.takes {
            Takes::Number { high, .. } if few(high) => ["1", "1.9", "7"].map(String::from).to_vec(),
            Takes::Whole { high, .. } if few(high.into()) => ["1", "7"].map(String::from).to_vec(),
            Takes::Number { default, low, high } => [low, default, high, 1e-320, -1e-320]
                .into_iter()
                .filter(|number| (low..=high).contains(number))
                .map(|number| format!("{number:e}"))
                .collect(),
            Takes::Whole { default, low, high } => [low, default, high]
                .map(|number| number.to_string())
                .to_vec(),
            Takes::Words { default } => [default, "a", "a|a"].map(String::from).to_vec(),
        }
    }

    #[test]
    fn every_generator_makes_a_value_for_all_extremes_of_arguments() {
        let times = [0, -1, 1_700_000_000_123_456_789, i64::MIN, i64::MAX];
        let updates = [0, 1, 1 << 53, u64::MAX];
        let mut made = 0;
        for (scheme, functions) in FUNCTIONS {
            for function in functions {
                let mut names = vec![String::new()];
                for parameter in function.parameters {
                    let extremes = extremes(parameter);
                    let longer = |name: &String| {
                        let comma = if name.is_empty() { "" } else { "," };
                        let longer = extremes.iter().map(|text| format!("{name}{comma}{text}"));
                        longer.collect::<Vec<_>>()
                    };
                    names = names.iter().flat_map(longer).collect();
                }
                for name in names {
                    let name = format!("{}({name})", function.name);
                    // Some arguments don't go together, which is reported.
                    let Ok(generator) = name::read(scheme, functions, &name) else {
                        continue;
                    };
                    for (time_ns, update) in times
                        .into_iter()
                        .flat_map(|time_ns| updates.map(|update| (time_ns, update)))
                    {
                        let (value, _) = generator.sample(Moment { time_ns, update });
                        let numbers = match &value {
                            RowValue::Number(number) => vec![*number],
                            RowValue::Blob(blob) => match &**blob {
                                BlobValue::Array(array) => array.numbers(),
                                _ => vec![0.0],
                            },
                            RowValue::Structure { .. } => panic!("{name} makes a structure"),
                        };
                        assert_eq!(
                            numbers.len() as u32,
                            generator.metadata.element_count,
                            "{name}"
                        );
                        assert!(numbers.iter().all(|number| number.is_finite()), "{name}");
                        made += 1;
                    }
                }
            }
        }
        assert!(made > 10_000, "{made}");
    }
}
