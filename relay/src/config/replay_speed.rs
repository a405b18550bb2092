//! The value of the key `replay_speed`.

use std::fmt;

/// Times the speed of a recording, in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplaySpeed(u32);

impl Default for ReplaySpeed {
    fn default() -> Self {
        Self(1000)
    }
}

impl ReplaySpeed {
    /// Whether a replay may have this speed.
    #[must_use]
    pub fn fits(times: f64) -> bool {
        (0.1..=100.0).contains(&times)
    }

    pub(super) fn read(text: &str) -> Option<Self> {
        let times = text
            .parse::<f64>()
            .ok()
            .filter(|times| Self::fits(*times))?;
        Some(Self((times * 1000.0).round() as u32))
    }

    /// Times the speed of the recording.
    #[must_use]
    pub fn times(self) -> f64 {
        f64::from(self.0) / 1000.0
    }
}

impl fmt::Display for ReplaySpeed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.times().fmt(formatter)
    }
}
