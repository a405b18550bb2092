//! The IOC that stays healthy. It has counters, and large arrays that it sends all the time.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use testbed::random::Random;
use testbed::{Kept, Network, RowSeen, SoftIoc, prefix};

/// An address of this machine at which nothing else of the run listens.
pub(super) const HOST: &str = "127.0.0.3";
/// PVs that each client watches.
const COUNTERS: usize = 5;
/// Arrays that change, and constant ones from which they take their values.
const ARRAYS: usize = 2;
const SOURCES: usize = 3;
/// Twice the bytes that make a value large.
const ELEMENTS: usize = 4_000;
/// The arrays are sent twice a second.
const RECENT: Duration = Duration::from_secs(5);

pub(super) struct Healthy {
    ioc: SoftIoc,
    pub(super) counters: Vec<String>,
    pub(super) arrays: Vec<String>,
    /// Of each array the number of its source.
    sources: [usize; ARRAYS],
}

impl Healthy {
    pub(super) fn start(network: Network) -> Self {
        let prefix = prefix();
        let named = |word: &str, count: usize| -> Vec<String> {
            (0..count).map(|n| format!("{prefix}{word}{n}")).collect()
        };
        let (counters, arrays) = (named("", COUNTERS), named("array", ARRAYS));
        let mut database = String::new();
        for name in &counters {
            database += &format!(
                r#"record(calc, "{name}") {{
                    field(INPA, "{name}.VAL") field(CALC, "A+1") field(SCAN, ".1 second")
                }}"#
            );
        }
        let array = r#"field(FTVL, "DOUBLE") field(NELM,"#;
        for (number, name) in named("source", SOURCES).iter().enumerate() {
            let elements = vec![element(number).to_string(); ELEMENTS].join(",");
            database += &format!(
                r#"record(waveform, "{name}") {{ {array} "{ELEMENTS}") field(INP, "[{elements}]") }}"#
            );
        }
        for name in &arrays {
            database += &format!(
                r#"record(waveform, "{name}") {{
                    {array} "{ELEMENTS}") field(INP, "{prefix}source0") field(SCAN, ".5 second")
                }}"#
            );
        }
        Self {
            ioc: SoftIoc::with_prefix(network.at(HOST), &prefix, &database, ""),
            counters,
            arrays,
            sources: [0; ARRAYS],
        }
    }

    pub(super) fn change_arrays(&mut self, random: &mut Random) {
        for (number, source) in self.sources.iter_mut().enumerate() {
            *source = random.below(SOURCES);
            let name = format!("{}source{source}", self.ioc.prefix());
            self.ioc.put(&format!("array{number}.INP"), &name);
        }
    }

    /// In what the arrays that a client holds differ from those of the IOC.
    pub(super) fn differences<'a>(
        &self,
        title: &str,
        held: impl Fn(&str) -> Option<&'a RowSeen>,
    ) -> Vec<String> {
        let mut found = Vec::new();
        for (name, source) in self.arrays.iter().zip(self.sources) {
            let Some(row) = held(name) else {
                found.push(format!("{title}: {name} has no value"));
                continue;
            };
            let elements = element(source).to_le_bytes().repeat(ELEMENTS);
            if !matches!(&row.value, Kept::Array(_, bytes) if *bytes == elements) {
                found.push(format!("{title}: {name} isn't source {source}"));
            }
            let made = UNIX_EPOCH + Duration::from_nanos(row.time_ns.unsigned_abs());
            let age = SystemTime::now().duration_since(made).unwrap_or_default();
            if age > RECENT {
                let age = age.as_secs_f64();
                found.push(format!("{title}: {name} is {age:.1} s old"));
            }
        }
        found
    }
}

/// The elements of a source.
fn element(source: usize) -> f64 {
    source as f64 + 0.5
}
