//! One cap of the key `max_rate`.

use std::fmt;

/// A cap of the rate of updates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaxRate {
    /// The PVs that it applies to, with `*` for any characters and `?` for one.
    pub pattern: String,
    /// Minimum interval between two updates of one PV in milliseconds; 0: no limit.
    pub min_interval_ms: u32,
}

impl fmt::Display for MaxRate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate_hz = match self.min_interval_ms {
            0 => 0.0,
            interval => 1000.0 / f64::from(interval),
        };
        write!(formatter, "{}={rate_hz}", self.pattern)
    }
}
