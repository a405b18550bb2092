//! How do the relay's own generators become PVs, for demos and load tests without an IOC?

mod coniql;
mod generator;
mod name;
mod timer;

use std::io;
use std::sync::Arc;

use super::{Event, Line, Monitor, Queue, Source};
use generator::{Generator, Moment};
use name::Function;
use timer::{Job, Task, Timer};

/// PVs whose names say how they move, as `sim://sine(2,rate_hz=5)`.
///
/// All generators of the relay share one thread, which ends with the last of these.
pub struct SimSource {
    scheme: &'static str,
    functions: &'static [Function],
    timer: Arc<Timer<Running>>,
}

impl SimSource {
    /// Starts the thread; two sources: `sim`, and `ssim` with the names of Coniql.
    ///
    /// # Errors
    /// When the thread can't start.
    pub fn start() -> io::Result<[Self; 2]> {
        let timer = Arc::new(Timer::start()?);
        let source = |scheme, functions| Self {
            scheme,
            functions,
            timer: Arc::clone(&timer),
        };
        Ok([
            source("sim", generator::FUNCTIONS),
            source("ssim", coniql::FUNCTIONS),
        ])
    }
}

impl Source for SimSource {
    fn scheme(&self) -> &'static str {
        self.scheme
    }

    fn open(&self, name: &str, line: Line, _queue: Queue) -> Result<Box<dyn Monitor>, String> {
        let generator = name::read(self.scheme, self.functions, name)?;
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
            line,
            generator,
            updates: 0,
        };
        Ok(Box::new(SimMonitor {
            _job: self.timer.add(interval, running),
        }))
    }
}

struct SimMonitor {
    _job: Job<Running>,
}

impl Monitor for SimMonitor {}

/// An open generator. Its line is called by the thread that opens it and then by the timer's alone.
struct Running {
    line: Line,
    generator: Generator,
    updates: u64,
}

impl Task for Running {
    fn run(&mut self, time_ns: i64) {
        let moment = Moment {
            time_ns,
            update: self.updates,
        };
        self.updates += 1;
        let (value, alarm) = self.generator.sample(moment);
        self.line.update(time_ns, value, alarm);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::intake::Taken;
    use crate::source::{Intake, RowValue};
    use pvwire_schema::types::{PvId, ValueType};
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
