//! Stores the rows that carry only value, time and alarm, the majority of all rows, with little work.
//!
//! A browser does this for every update. The rest of the module is compiled for size; this code is
//! one loop over the states of slots, each one line of the cache, and calls other functions only in
//! rare cases.

use std::iter::Peekable;
use std::ops::Range;

use pvwire_schema::decode::{AlarmRow, NumberRows};
use pvwire_schema::types::PvId;

use super::ids::place;
use super::value::shown_alarm;
use super::{DIRECT_IDS, NO_SLOT, PvState, Slot, Store, Text, kind, part};

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

/// The slots that changed since the last flush.
struct Told<'a> {
    dirty: &'a mut [Slot],
    dirty_len: usize,
}

impl Told<'_> {
    #[inline(always)]
    fn touch(&mut self, at: usize, pv: &mut PvState, changed: u32) {
        let changed = changed & pv.interest;
        if pv.parts == 0
            && changed != 0
            && let Some(place) = self.dirty.get_mut(self.dirty_len)
        {
            *place = at as Slot;
            self.dirty_len += 1;
        }
        pv.parts |= changed;
    }
}

impl Store {
    /// Applies the next rows of an Update frame, which have these numbers and carry only value, time
    /// and alarm.
    pub fn update(
        &mut self,
        rows: &mut NumberRows<'_>,
        numbers: Range<u32>,
        clock: &mut Seconds,
        alarms: &mut Peekable<impl Iterator<Item = AlarmRow>>,
    ) {
        let pvs = &mut self.pvs;
        let mut told = Told {
            dirty: &mut self.dirty,
            dirty_len: self.dirty_len,
        };
        let (mut local_rows, mut local_clock) = (rows.clone(), *clock);
        self.updates_total += u64::from(numbers.end - numbers.start);
        let mut number = numbers.start;
        while number < numbers.end {
            // Up to the next row with an alarm.
            let alarmed = alarms.peek().map_or(u32::MAX, |mark| mark.row);
            let end = numbers.end.min(alarmed.saturating_add(1));
            let mut first = NO_SLOT;
            for _ in number..end {
                let Some(row) = local_rows.next() else {
                    break;
                };
                let (second, nanosecond) = local_clock.split(row.time_ns);
                first = first_of(&self.direct, &self.others, row.id);
                let mut at = first as usize;
                // There is no slot `NO_SLOT`.
                while let Some(pv) = pvs.get_mut(at) {
                    let mut changed = 0;
                    if pv.kind != kind::NUMBER {
                        pv.kind = kind::NUMBER;
                        forget(&mut self.texts, at);
                        changed = part::VALUE;
                    }
                    if pv.value.to_bits() != row.value.to_bits() {
                        pv.value = row.value;
                        changed = part::VALUE;
                    }
                    if pv.seconds != second || pv.nanoseconds != nanosecond {
                        pv.seconds = second;
                        pv.nanoseconds = nanosecond;
                        changed |= part::TIME;
                    }
                    told.touch(at, pv, changed);
                    pv.filled_by = self.frame;
                    pv.sequence = pv.sequence.wrapping_add(1);
                    pv.received += 1.0;
                    at = pv.next as usize;
                }
            }
            number = end;
            if let Some(mark) = alarms.next_if(|mark| mark.row < end) {
                let alarm = shown_alarm(Some(mark.alarm));
                let mut at = first as usize;
                while let Some(pv) = pvs.get_mut(at) {
                    if (pv.severity, pv.alarm_status) != alarm {
                        (pv.severity, pv.alarm_status) = alarm;
                        told.touch(at, pv, part::ALARM);
                    }
                    at = pv.next as usize;
                }
            }
        }
        (*rows, *clock) = (local_rows, local_clock);
        self.dirty_len = told.dirty_len;
    }
}

#[inline(always)]
fn first_of(direct: &[Slot], others: &[(PvId, Slot)], id: PvId) -> Slot {
    match direct.get(id.index()) {
        Some(slot) => *slot,
        None if id.0 < DIRECT_IDS => NO_SLOT,
        None => searched(others, id),
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
