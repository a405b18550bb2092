//! How much of the ticks' time goes into parts of large arrays, which clients ask for by filters.

use std::time::{Duration, Instant};

use pvwire_schema::types::{BlobValue, Filter};

use crate::ingest::RowValue;

/// An array of fewer bytes is reduced at once: that takes some ten microseconds.
const LARGE_BYTES: usize = 64 << 10;

/// After a large array was reduced, the next one waits this many times as long, so that ticks spend a fifth of their
/// time on them, however many filters of however many PVs clients ask for.
const REST: u32 = 4;

/// Waiting that is saved for arrays that come at the same time.
const SAVED: Duration = Duration::from_millis(100);

/// The time that was spent.
#[derive(Debug, Default)]
pub(super) struct Thinning {
    rests_until: Option<Instant>,
}

impl Thinning {
    /// Until when a value has to wait before the filter reduces it; `None` if it needn't.
    pub(super) fn wait(&self, filter: &Filter, value: &RowValue, now: Instant) -> Option<Instant> {
        (self.rests_until).filter(|until| *until > now && is_costly(filter, value))
    }

    /// Reduces a value and counts the time if it is large.
    pub(super) fn count<T>(
        &mut self,
        (filter, value): (&Filter, &RowValue),
        now: Instant,
        reduce: impl FnOnce() -> T,
    ) -> T {
        if !is_costly(filter, value) {
            return reduce();
        }
        let begun = Instant::now();
        let reduced = reduce();
        let earliest = now.checked_sub(SAVED).unwrap_or(now);
        let from = self
            .rests_until
            .map_or(earliest, |until| until.max(earliest));
        self.rests_until = Some(from + begun.elapsed() * REST);
        reduced
    }
}

/// Whether the filter reads all elements of a large array. To cut it copies nothing.
fn is_costly(filter: &Filter, value: &RowValue) -> bool {
    let RowValue::Blob(blob) = value else {
        return false;
    };
    let BlobValue::Array(array) = &**blob else {
        return false;
    };
    let reads = filter.stride > 1 || filter.points > 1 || filter.float32;
    reads && array.data.len() >= LARGE_BYTES
}
