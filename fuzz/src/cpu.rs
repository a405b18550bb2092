//! The CPU time of readers: no input of at most 64 KiB that a client, a server or another relay may send takes one more
//! than 20 ms.
//!
//! The limit is that of a release build on the machine where `REFERENCE` was measured. Other builds and machines are
//! slower. Therefore each process first does a fixed piece of work, which is made of the same readers' code as what it
//! measures, and multiplies the limit by how much slower that was. A debug build slows down readers differently, so
//! it has twice the time: a reader that is worse than linear exceeds that, too.

use std::hint::black_box;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::targets::Target;

/// Longest time for one reading of an input of at most [`MOST_BYTES`].
const LIMIT: Duration = Duration::from_millis(20);

/// Longest input that has to be read in this time.
pub const MOST_BYTES: usize = 64 << 10;

/// The time of the fixed work in a release build.
const REFERENCE: Duration = Duration::from_micros(7_800);

/// Build modes differ in how much slower a reader is than the fixed work.
const SLACK: f64 = if cfg!(debug_assertions) { 2.0 } else { 1.0 };

/// How often a slow input is read again: an interrupt, or a cache that other programs use, makes one reading slow.
const AGAIN: usize = 4;

/// CPU time of the calling thread so far.
fn now() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        time.tv_sec.unsigned_abs(),
        time.tv_nsec.unsigned_abs() as u32,
    )
}

/// CPU time that `work` takes.
pub fn time(work: impl FnOnce()) -> Duration {
    let begun = now();
    work();
    now() - begun
}

/// How much slower this process is than the reference.
#[derive(Clone, Copy, Debug)]
pub struct Speed {
    factor: f64,
}

impl Speed {
    /// Does the fixed work.
    #[must_use]
    pub fn measure() -> Self {
        let fields = "value { string float stringArray } time { datetime } status { quality } ";
        let document = format!("{{ getChannel(id: \"X\") {{ {} }} }}", fields.repeat(40));
        let formula = vec!["sin(`A`) * (2 + `B`)"; 100].join(" + ");
        let json = format!(
            "{{\"type\":\"subscribe\",\"pvs\":[{}\"X\"]}}",
            "\"SR:A\",".repeat(2_000)
        );
        let work = || {
            for _ in 0..4 {
                let _ = black_box(pvwire_core::select::Documents::new().plan(&document, None, ""));
                let _ = black_box(pvwire_core::formula::Formula::parse(&formula));
                let _ = black_box(pvwire_pvws::read(&json));
            }
        };
        let took = (0..5).map(|_| time(work)).min().unwrap_or_default();
        Self {
            factor: (took.as_secs_f64() / REFERENCE.as_secs_f64()).max(1.0) * SLACK,
        }
    }

    /// Longest time in which a target may read an input of this length.
    #[must_use]
    pub fn limit(self, target: &Target, bytes: usize) -> Duration {
        let parts = bytes.div_ceil(MOST_BYTES).max(1) as f64;
        let times = target.readings * target.author.patience();
        LIMIT.mul_f64(self.factor * f64::from(times) * parts)
    }

    /// Reads an input; returns the time if it is too long, also when the input is read again.
    pub fn exceeded(self, target: &Target, input: &[u8], first: Duration) -> Option<Duration> {
        let limit = self.limit(target, input.len());
        if first <= limit {
            return None;
        }
        let again = (0..AGAIN).map(|_| time(|| (target.run)(input)));
        let least = again.fold(first, Duration::min);
        (least > limit).then_some(least)
    }
}
