//! Rows of a plot or a list: what an answer says about one PV in a range of time.
//!
//! The value that held at the begin is kept, bins become rows, and times without samples become gaps with two ends.

use crate::columns::{Bins, Columns, Gap, GapCause, Values};
use crate::decoder::Piece;

/// A time without samples, between two rows, after the last or before the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowGap {
    /// Whether the PV was disconnected; otherwise it was not archived.
    pub is_disconnected: bool,
    /// Nanoseconds past the POSIX epoch.
    pub from_ns: i64,
    /// The same; `None`: no sample follows.
    pub to_ns: Option<i64>,
}

/// The rows of one bin, or one row that is a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowBin {
    /// Number of its rows, which follow those of the bin before.
    pub rows: u32,
    /// Number of samples that they stand for.
    pub samples: u32,
}

/// One row.
#[derive(Clone, Copy, Debug)]
struct Row {
    time_ns: i64,
    number: f64,
    severity: u8,
    status: u16,
}

/// Rows in ascending order of their times. Columns have one element per row.
#[derive(Clone, Debug)]
pub struct Rows {
    /// Nanoseconds past the POSIX epoch.
    pub time_ns: Vec<i64>,
    /// Numbers, or indices of enums; not a number for a text.
    pub numbers: Vec<f64>,
    /// Alarm severities, 0 to 3.
    pub severities: Vec<u8>,
    /// Alarm statuses.
    pub statuses: Vec<u16>,
    /// Values that are texts, by row.
    pub texts: Vec<(u32, String)>,
    /// By their begin.
    pub gaps: Vec<RowGap>,
    /// Of all rows.
    pub bins: Vec<RowBin>,
    /// Whether a row stands for several samples.
    pub is_thinned: bool,
    /// Whether the first row is the value that held at the begin, so that its time is earlier.
    pub has_held: bool,
    /// Samples without a row: arrays and structures, and those whose time is not after that of the sample before.
    pub left_out: u64,
    range_ns: (i64, i64),
    wants_bins: bool,
    /// A gap that began with a sample without a value.
    open: Option<(bool, i64)>,
}

impl Rows {
    /// No rows yet. `range_ns` is from when to when they are wanted, in nanoseconds past the POSIX epoch; with
    /// `wants_bins`, the request was for an operator that answers statistics, such as `optimized_N`.
    #[must_use]
    pub fn new(range_ns: (i64, i64), wants_bins: bool) -> Self {
        Self {
            time_ns: Vec::new(),
            numbers: Vec::new(),
            severities: Vec::new(),
            statuses: Vec::new(),
            texts: Vec::new(),
            gaps: Vec::new(),
            bins: Vec::new(),
            is_thinned: false,
            has_held: false,
            left_out: 0,
            range_ns,
            wants_bins,
            open: None,
        }
    }

    /// Adds the next piece of the answer.
    pub fn add(&mut self, piece: &Piece) {
        let columns = &piece.columns;
        let bins = self.wants_bins.then(|| columns.bins()).flatten();
        let bins = bins.filter(|bins| (0..columns.len()).all(|row| is_bin(bins, row)));
        let mut gaps = columns.gaps.iter().peekable();
        for index in 0..columns.len() {
            let gap = gaps.next_if(|gap| gap.row as usize == index);
            self.take(columns, index, bins.as_ref(), gap);
        }
    }

    /// The answer has ended.
    pub fn finish(&mut self) {
        if let Some((is_disconnected, from_ns)) = self.open.take() {
            self.gaps.push(RowGap {
                is_disconnected,
                from_ns,
                to_ns: None,
            });
        }
        let (from_ns, _) = self.range_ns;
        (self.gaps).retain(|gap| gap.to_ns.is_none_or(|to_ns| to_ns > from_ns));
    }

    fn take(&mut self, columns: &Columns, index: usize, bins: Option<&Bins>, gap: Option<&Gap>) {
        let (from_ns, to_ns) = self.range_ns;
        let mut time_ns = columns.time_ns[index];
        if bins.is_some() {
            // A bin is stamped at its middle, which may be after the end of its samples.
            time_ns = time_ns.min(to_ns);
        }
        let last_ns = self.time_ns.last().copied();
        if time_ns > to_ns || last_ns.is_some_and(|last| time_ns <= last) {
            self.left_out += u64::from(time_ns <= to_ns);
            return;
        }
        let is_held = time_ns <= from_ns;
        if let Some((is_disconnected, from_ns)) = self.open.take() {
            self.gap(is_disconnected, from_ns, time_ns);
        }
        if let Some(gap) = gap.filter(|gap| gap.cause != GapCause::WithinBin) {
            let is_disconnected = gap.cause == GapCause::Disconnected;
            if gap.from_ns == Some(time_ns) {
                // The sample only marks when the gap began.
                self.open = Some((is_disconnected, time_ns));
                return;
            }
            // A gap's begin is known to the second, and no value before it is doubtful.
            let after = last_ns.map(|last| last + 1);
            if let Some(begin) = gap.from_ns.max(after) {
                self.gap(is_disconnected, begin, time_ns);
            }
        }
        if is_held {
            self.clear();
        }
        let before = self.time_ns.len();
        let row = |number| Row {
            time_ns,
            number,
            severity: columns.severities[index],
            status: columns.statuses[index],
        };
        let mut samples = 1;
        match (bins, &columns.values) {
            (Some(bins), _) => {
                let (mean, count) = (bins.means[index], bins.counts[index]);
                samples = count as u32;
                let (least, greatest) = (bins.least[index], bins.greatest[index]);
                // What a bin's values were between: the mean last, because the last row holds until the next bin.
                if least < greatest {
                    self.push(row(least));
                    self.push(row(greatest));
                }
                self.push(row(mean));
                self.is_thinned |= samples > 1;
            }
            (None, Values::Numbers(numbers)) => self.push(row(numbers[index])),
            (None, Values::Integers(integers)) => self.push(row(integers[index].into())),
            (None, Values::Texts(texts)) => {
                let text = texts.get(index).unwrap_or_default();
                let text = String::from_utf8_lossy(text).into_owned();
                self.texts.push((before as u32, text));
                self.push(row(f64::NAN));
            }
            _ => {
                self.left_out += 1;
                return;
            }
        }
        self.has_held |= is_held;
        self.bins.push(RowBin {
            rows: (self.time_ns.len() - before) as u32,
            samples,
        });
    }

    fn push(&mut self, row: Row) {
        self.time_ns.push(row.time_ns);
        self.numbers.push(row.number);
        self.severities.push(row.severity);
        self.statuses.push(row.status);
    }

    fn gap(&mut self, is_disconnected: bool, from_ns: i64, to_ns: i64) {
        if from_ns < to_ns {
            self.gaps.push(RowGap {
                is_disconnected,
                from_ns,
                to_ns: Some(to_ns),
            });
        }
    }

    /// Removes what a later value has replaced at the begin.
    fn clear(&mut self) {
        self.time_ns.clear();
        self.numbers.clear();
        self.severities.clear();
        self.statuses.clear();
        self.texts.clear();
        self.bins.clear();
        self.is_thinned = false;
        self.has_held = false;
    }
}

/// Whether five numbers are statistics. An array of five doubles comes in the same form.
fn is_bin(bins: &Bins, row: usize) -> bool {
    let (mean, count) = (bins.means[row], bins.counts[row]);
    let is_count = count >= 0.0 && count.fract() == 0.0 && count <= f64::from(u32::MAX);
    // Rounding may put the mean of equal values a little outside.
    let slack = mean.abs() * 1e-9;
    let is_between = bins.least[row] <= mean + slack && mean - slack <= bins.greatest[row];
    is_count && (is_between || mean.is_nan())
}
