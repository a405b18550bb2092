//! Lines of the log that anyone can cause: a few are written, and the next says how many were left out.

use std::fmt::Arguments;
use std::time::Instant;

use crate::limits::rate::Bucket;

/// See the module.
#[derive(Debug)]
pub struct Lines {
    bucket: Bucket,
    /// Lines that were left out since the last one.
    unsaid: u64,
}

impl Lines {
    /// As many lines a second, and at once.
    #[must_use]
    pub fn new(per_second: usize, at_once: usize, now: Instant) -> Self {
        Self {
            bucket: Bucket::new(per_second, at_once, now),
            unsaid: 0,
        }
    }

    /// Logs a line, unless there were too many.
    pub fn say(&mut self, level: log::Level, line: Arguments<'_>, now: Instant) {
        match self.take(now) {
            None => {}
            Some(0) => log::log!(level, "{line}"),
            Some(unsaid) => log::log!(level, "{line} ({unsaid} more lines were left out before)"),
        }
    }

    /// The number of lines that were left out before, if one more is written.
    fn take(&mut self, now: Instant) -> Option<u64> {
        if !self.bucket.take_one(now) {
            self.unsaid += 1;
            return None;
        }
        Some(std::mem::take(&mut self.unsaid))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn flood_of_lines_is_counted_in_the_next_line() {
        let start = Instant::now();
        let mut lines = Lines::new(1, 3, start);
        let written: Vec<_> = (0..100).filter_map(|_| lines.take(start)).collect();
        assert_eq!(written, [0, 0, 0]);
        let later = start + Duration::from_secs(1);
        assert_eq!((lines.take(later), lines.take(later)), (Some(97), None));
    }
}
