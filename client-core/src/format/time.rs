//! Formats times as ISO 8601 in UTC.

/// Milliseconds of a day.
const DAY_MS: i64 = 86_400_000;

/// The range of JavaScript's dates: a hundred million days before and after 1970.
const MAX_MS: f64 = 8.64e15;

/// Formats time stamps; keeps the text of the last second, because many PVs change in the same one.
#[derive(Debug, Default)]
pub struct TimeFormat {
    seconds: f64,
    /// Up to and including the point before the fraction; empty before the first time.
    text: Vec<u8>,
    /// The same if the year has four digits.
    short: Option<[u8; SHORT]>,
}

/// Length of a time up to the point, if the year has four digits. In WebAssembly, copying a text whose
/// length the compiler knows takes a fraction of the time.
const SHORT: usize = 20;

impl TimeFormat {
    /// A format that has not yet written a time.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            seconds: 0.0,
            text: Vec::new(),
            short: None,
        }
    }

    /// Whole seconds past the POSIX epoch and the remaining nanoseconds, with microseconds.
    #[inline]
    pub fn push(&mut self, seconds: f64, nanoseconds: u32, to: &mut Vec<u8>) {
        if self.seconds != seconds || self.text.is_empty() {
            self.begin(seconds);
        }
        match &self.short {
            Some(text) => to.extend_from_slice(text),
            None => to.extend_from_slice(&self.text),
        }
        let microseconds = (nanoseconds / 1000).min(999_999);
        let [a, b, c] = three_digits(microseconds / 1000);
        let [d, e, f] = three_digits(microseconds % 1000);
        to.extend_from_slice(&[a, b, c, d, e, f, b'Z']);
    }

    fn begin(&mut self, seconds: f64) {
        self.seconds = seconds;
        self.text.clear();
        push_seconds(limited(seconds * 1000.0), &mut self.text);
        self.short = self.text.as_slice().try_into().ok();
    }
}

#[inline]
fn three_digits(number: u32) -> [u8; 3] {
    [number / 100, number / 10 % 10, number % 10].map(|digit| b'0' + digit as u8)
}

/// Milliseconds past the POSIX epoch, with milliseconds.
pub fn push_iso(ms: f64, to: &mut Vec<u8>) {
    let ms = limited(ms);
    push_seconds(ms, to);
    push_padded(ms.rem_euclid(1000) as u32, 3, to);
    to.push(b'Z');
}

fn limited(ms: f64) -> i64 {
    ms.clamp(-MAX_MS, MAX_MS) as i64
}

/// Date and time up to the point after the seconds.
fn push_seconds(ms: i64, to: &mut Vec<u8>) {
    let (year, month, day) = date(ms.div_euclid(DAY_MS));
    let second = (ms.rem_euclid(DAY_MS) / 1000) as u32;
    if (0..=9999).contains(&year) {
        push_padded(year as u32, 4, to);
    } else {
        to.push(if year < 0 { b'-' } else { b'+' });
        push_padded(year.unsigned_abs(), 6, to);
    }
    for (sign, part) in [
        (b'-', month),
        (b'-', day),
        (b'T', second / 3600),
        (b':', second / 60 % 60),
        (b':', second % 60),
    ] {
        to.push(sign);
        push_padded(part, 2, to);
    }
    to.push(b'.');
}

/// Year, month and day of the Gregorian calendar, days after 1970-01-01. Years begin in March here,
/// so that a leap day is the last day of its year.
fn date(days: i64) -> (i32, u32, u32) {
    const ERA_DAYS: i64 = 146_097;
    let days = days + 719_468;
    let era = days.div_euclid(ERA_DAYS);
    let day = days.rem_euclid(ERA_DAYS) as u32;
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let is_next = month >= 10;
    let year = era as i32 * 400 + year as i32 + i32::from(is_next);
    (year, if is_next { month - 9 } else { month + 3 }, day)
}

/// A number with leading zeros.
#[inline]
fn push_padded(number: u32, digits: usize, to: &mut Vec<u8>) {
    let start = to.len();
    to.resize(start + digits, b'0');
    let mut rest = number;
    for place in to.iter_mut().skip(start).rev() {
        *place = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
}
