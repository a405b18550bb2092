//! Stores the rows that carry only value and time, the majority of all rows, with little work.
//!
//! A browser does this for every update. The rest of the module is compiled for size; this code is
//! one loop over columns of the same known length, which calls other functions only in rare cases.

use pvwire_schema::decode::NumberRows;
use pvwire_schema::types::PvId;

use super::ids::place;
use super::{DIRECT_IDS, NO_SLOT, Slot, Store, Text, kind, part};

/// Splits times into seconds and nanoseconds. The rows of a frame mostly share their second, and
/// dividing 64-bit numbers is the slowest step in a browser.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seconds {
    start_ns: i64,
    seconds: f64,
}

impl Seconds {
    /// Whole seconds past the POSIX epoch and the remaining nanoseconds.
    #[inline(always)]
    pub fn split(&mut self, time_ns: i64) -> (f64, u32) {
        let mut nanoseconds = time_ns.wrapping_sub(self.start_ns);
        if time_ns < self.start_ns || nanoseconds as u64 >= SECOND_NS as u64 {
            // By value: an argument passed by reference lives in memory, and the loop would wait
            // for it.
            *self = Self::of(time_ns);
            nanoseconds = time_ns.wrapping_sub(self.start_ns);
        }
        (self.seconds, nanoseconds as u32)
    }

    #[cold]
    #[inline(never)]
    fn of(time_ns: i64) -> Self {
        let seconds = time_ns.div_euclid(SECOND_NS);
        Self {
            // Wraps only before the first whole second that can be represented; the difference is
            // still right.
            start_ns: seconds.wrapping_mul(SECOND_NS),
            seconds: seconds as f64,
        }
    }
}

const SECOND_NS: i64 = 1_000_000_000;

impl Store {
    /// Applies the next `count` rows of an Update frame, which carry only value and time.
    pub fn update(&mut self, rows: &mut NumberRows<'_>, count: usize, clock: &mut Seconds) {
        let slots = self.names.len();
        let value = self.columns.value.as_mut_slice();
        let seconds = self.columns.seconds.as_mut_slice();
        let nanoseconds = self.columns.nanoseconds.as_mut_slice();
        let received = self.columns.received.as_mut_slice();
        let sequence = self.columns.sequence.as_mut_slice();
        let value_version = self.columns.value_version.as_mut_slice();
        let parts = self.columns.parts.as_mut_slice();
        let kinds = self.columns.kind.as_mut_slice();
        let filled_by = self.filled_by.as_mut_slice();
        let dirty = self.dirty.as_mut_slice();
        let mut dirty_len = self.dirty_len;
        let next = self.next.as_slice();
        let direct = self.direct.as_slice();
        // This is always true; it tells the compiler so, and each index is then checked only once.
        let of_one_length = value.len() == slots
            && seconds.len() == slots
            && nanoseconds.len() == slots
            && received.len() == slots
            && sequence.len() == slots
            && value_version.len() == slots
            && parts.len() == slots
            && kinds.len() == slots
            && filled_by.len() == slots
            && dirty.len() == slots
            && next.len() == slots;
        debug_assert!(of_one_length);
        if !of_one_length {
            return;
        }
        let (mut local_rows, mut local_clock) = (rows.clone(), *clock);
        for _ in 0..count {
            let Some(row) = local_rows.next() else {
                break;
            };
            let (second, nanosecond) = local_clock.split(row.time_ns);
            let first = match direct.get(row.id.index()) {
                Some(slot) => *slot,
                None if row.id.0 < DIRECT_IDS => NO_SLOT,
                None => searched(&self.others, row.id),
            };
            let mut at = first as usize;
            // `NO_SLOT` is larger than every slot.
            while at < slots {
                let before = parts[at];
                let mut now = before;
                if kinds[at] != kind::NUMBER || value[at].to_bits() != row.value.to_bits() {
                    if kinds[at] != kind::NUMBER {
                        kinds[at] = kind::NUMBER;
                        forget(&mut self.texts, at);
                    }
                    value[at] = row.value;
                    value_version[at] = value_version[at].wrapping_add(1);
                    now |= part::VALUE;
                }
                if seconds[at] != second || nanoseconds[at] != nanosecond {
                    seconds[at] = second;
                    nanoseconds[at] = nanosecond;
                    now |= part::TIME;
                }
                parts[at] = now;
                if before == 0 && now != 0 {
                    dirty[dirty_len] = at as Slot;
                    dirty_len += 1;
                }
                filled_by[at] = self.frame;
                sequence[at] = sequence[at].wrapping_add(1);
                received[at] += 1.0;
                at = next[at] as usize;
            }
        }
        (*rows, *clock) = (local_rows, local_clock);
        self.dirty_len = dirty_len;
        self.updates_total += count as u64;
    }
}

#[cold]
#[inline(never)]
fn searched(others: &[(PvId, Slot)], id: PvId) -> Slot {
    place(others, id).map_or(NO_SLOT, |at| others[at].1)
}

#[cold]
#[inline(never)]
fn forget(texts: &mut [Text], at: usize) {
    texts[at] = Text::None;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_split_as_division_does_it() {
        let mut seconds = Seconds::default();
        for time_ns in [
            0,
            1,
            -1,
            999_999_999,
            1_000_000_000,
            i64::MAX,
            i64::MIN,
            -5,
            1_753_000_000_123_456_789,
        ] {
            let (second, nanoseconds) = seconds.split(time_ns);
            assert_eq!(second, time_ns.div_euclid(1_000_000_000) as f64);
            assert_eq!(i64::from(nanoseconds), time_ns.rem_euclid(1_000_000_000));
        }
    }
}
