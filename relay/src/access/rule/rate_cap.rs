//! Caps of update rates: the patterns of `max_rate`, which limit the updates of PVs for all clients.

use wildmatch::WildMatch;

use super::name::Names;
use crate::config::MaxRate;

/// The caps of a configuration.
#[derive(Clone, Debug, Default)]
pub struct RateCaps(Vec<RateCap>);

#[derive(Clone, Debug)]
struct RateCap {
    pattern: WildMatch,
    min_interval_ms: u32,
}

impl RateCaps {
    /// These caps; the first one whose pattern fits a PV applies.
    #[must_use]
    pub fn new(caps: &[MaxRate]) -> Self {
        let caps = caps.iter().map(|cap| RateCap {
            pattern: WildMatch::new(&cap.pattern),
            min_interval_ms: cap.min_interval_ms,
        });
        Self(caps.collect())
    }

    /// Whether no pattern has a cap.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Minimum interval between two updates of a PV in milliseconds; 0: no cap. The cap of a record applies to its
    /// fields too, so that another spelling of a name isn't faster.
    #[must_use]
    pub fn min_interval_ms(&self, scheme: &str, name: &str) -> u32 {
        let pv = Names::new(scheme, name);
        let fits = |cap: &&RateCap| {
            pv.with_owners().any(|name| {
                cap.pattern.matches(&name) || cap.pattern.matches(&format!("{scheme}://{name}"))
            })
        };
        let cap = self.0.iter().find(fits);
        cap.map_or(0, |cap| cap.min_interval_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_pattern_that_fits_a_pv_or_its_record_decides() {
        let cap = |pattern: &str, min_interval_ms| MaxRate {
            pattern: pattern.to_owned(),
            min_interval_ms,
        };
        let caps = RateCaps::new(&[
            cap("SR:FAST", 0),
            cap("pva://CAM:*", 500),
            cap("SR:*", 100),
            cap("X", 1000),
        ]);
        for (scheme, name, interval) in [
            ("ca", "SR:FAST", 0),
            ("ca", "SR:FAST.VAL", 0),
            ("ca", "SR:A", 100),
            ("pva", "SR:A", 100),
            ("ca", "CAM:1", 0),
            ("pva", "CAM:1", 500),
            ("pva", "CAM:1/value", 500),
            ("ca", "X", 1000),
            ("ca", "X.VAL", 1000),
            ("ca", "X.DESC$", 1000),
            ("ca", "X.VAL{\"dbnd\":{}}", 1000),
            ("ca", "XY", 0),
        ] {
            assert_eq!(
                caps.min_interval_ms(scheme, name),
                interval,
                "{scheme}://{name}"
            );
        }
    }
}
