//! Samples in columns: what a caller takes from the decoder.

use crate::header::PayloadType;

/// Lists of elements, one list after the other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lists<T> {
    /// The elements of all lists.
    pub elements: Vec<T>,
    /// Where each list ends.
    pub ends: Vec<u32>,
}

impl<T> Lists<T> {
    /// The list at `index`.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&[T]> {
        let end = *self.ends.get(index)? as usize;
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]) as usize;
        self.elements.get(start..end)
    }

    /// Ends the list of the elements since the last end.
    pub(crate) fn end(&mut self) {
        self.ends.push(self.elements.len() as u32);
    }

    fn truncate(&mut self, lists: usize) {
        self.ends.truncate(lists);
        let end = self.ends.last().copied().unwrap_or_default();
        self.elements.truncate(end as usize);
    }

    fn bytes(&self) -> usize {
        self.elements.len() * size_of::<T>() + self.ends.len() * size_of::<u32>()
    }
}

/// The values of a column. All of a piece have one type.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// `ScalarFloat`, `ScalarDouble`.
    Numbers(Vec<f64>),
    /// `ScalarShort`, `ScalarInt`, `ScalarEnum` (the index) and `ScalarByte` (0 to 255, as Channel Access shows it).
    /// The appliance has no integers of 64 bits: it archives them as doubles.
    Integers(Vec<i32>),
    /// `ScalarString`, as UTF-8.
    Texts(Lists<u8>),
    /// `WaveformByte`, whose signedness is unknown, and `V4GenericBytes`.
    Bytes(Lists<u8>),
    /// `WaveformFloat`, `WaveformDouble`.
    NumberArrays(Lists<f64>),
    /// `WaveformShort`, `WaveformInt`, `WaveformEnum`.
    IntegerArrays(Lists<i32>),
    /// `WaveformString`.
    TextArrays {
        /// The texts of all rows, as UTF-8.
        texts: Lists<u8>,
        /// Where the texts of each row end.
        ends: Vec<u32>,
    },
}

impl Values {
    pub(crate) fn of(payload: PayloadType) -> Self {
        match payload {
            PayloadType::ScalarFloat | PayloadType::ScalarDouble => Self::Numbers(Vec::new()),
            PayloadType::ScalarShort
            | PayloadType::ScalarInt
            | PayloadType::ScalarEnum
            | PayloadType::ScalarByte => Self::Integers(Vec::new()),
            PayloadType::ScalarString => Self::Texts(Lists::default()),
            PayloadType::WaveformByte | PayloadType::V4GenericBytes => {
                Self::Bytes(Lists::default())
            }
            PayloadType::WaveformFloat | PayloadType::WaveformDouble => {
                Self::NumberArrays(Lists::default())
            }
            PayloadType::WaveformShort | PayloadType::WaveformInt | PayloadType::WaveformEnum => {
                Self::IntegerArrays(Lists::default())
            }
            PayloadType::WaveformString => Self::TextArrays {
                texts: Lists::default(),
                ends: Vec::new(),
            },
        }
    }

    /// Number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Numbers(values) => values.len(),
            Self::Integers(values) => values.len(),
            Self::Texts(lists) | Self::Bytes(lists) => lists.ends.len(),
            Self::NumberArrays(lists) => lists.ends.len(),
            Self::IntegerArrays(lists) => lists.ends.len(),
            Self::TextArrays { ends, .. } => ends.len(),
        }
    }

    /// Whether there is no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes the rows from `rows` on, and the elements of a row that is not complete.
    pub(crate) fn truncate(&mut self, rows: usize) {
        match self {
            Self::Numbers(values) => values.truncate(rows),
            Self::Integers(values) => values.truncate(rows),
            Self::Texts(lists) | Self::Bytes(lists) => lists.truncate(rows),
            Self::NumberArrays(lists) => lists.truncate(rows),
            Self::IntegerArrays(lists) => lists.truncate(rows),
            Self::TextArrays { texts, ends } => {
                ends.truncate(rows);
                texts.truncate(ends.last().copied().unwrap_or_default() as usize);
            }
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Numbers(values) => values.len() * 8,
            Self::Integers(values) => values.len() * 4,
            Self::Texts(lists) | Self::Bytes(lists) => lists.bytes(),
            Self::NumberArrays(lists) => lists.bytes(),
            Self::IntegerArrays(lists) => lists.bytes(),
            Self::TextArrays { texts, ends } => texts.bytes() + ends.len() * 4,
        }
    }
}

/// Why there may be no samples for a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GapCause {
    /// The PV was disconnected.
    Disconnected,
    /// The archiver was started, or archiving of the PV began.
    ArchiverStarted,
    /// Archiving was off (in data of an old Channel Archiver).
    ArchiveOff,
    /// The PV was disconnected at some time within the bin of an operator.
    WithinBin,
}

/// A time for which the archiver has no samples because it could not get them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Index of the row that shows the gap.
    pub row: u32,
    /// Its cause.
    pub cause: GapCause,
    /// Nanoseconds past the POSIX epoch; `None`: unknown, at the earliest after the row before `row`.
    pub from_ns: Option<i64>,
    /// Nanoseconds past the POSIX epoch; `None`: unknown. If `from_ns` is the time of `row`, the row's value is no
    /// value and the gap lasts until the row after it.
    pub to_ns: Option<i64>,
}

/// An archived field of the PV that came with a sample, such as `HIHI`, or a result of an operator beside its
/// value, such as `stdz`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldValue {
    /// Index of the row.
    pub row: u32,
    /// Whether the appliance says that a field has changed with this sample. Otherwise this is the daily full set.
    pub is_change: bool,
    /// Name of the field.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// Samples in the order of the answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Columns {
    /// Nanoseconds past the POSIX epoch.
    pub time_ns: Vec<i64>,
    /// Values.
    pub values: Values,
    /// Alarm severities: 0 (none) to 3 (invalid). Others, which the appliance does not document, are 3.
    pub severities: Vec<u8>,
    /// Alarm statuses as in `alarm.h`, 0 to 21; 65535 for a negative one.
    pub statuses: Vec<u16>,
    /// Gaps, by row.
    pub gaps: Vec<Gap>,
    /// Archived fields, by row.
    pub field_values: Vec<FieldValue>,
    /// User tags of rows that have one.
    pub user_tags: Vec<(u32, u32)>,
    /// Bytes of the texts in `field_values`.
    pub(crate) text_bytes: usize,
}

impl Columns {
    pub(crate) fn of(payload: PayloadType) -> Self {
        Self {
            time_ns: Vec::new(),
            values: Values::of(payload),
            severities: Vec::new(),
            statuses: Vec::new(),
            gaps: Vec::new(),
            field_values: Vec::new(),
            user_tags: Vec::new(),
            text_bytes: 0,
        }
    }

    /// Number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.time_ns.len()
    }

    /// Whether there is no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.time_ns.is_empty()
    }

    /// Bytes that the columns use.
    pub(crate) fn bytes(&self) -> usize {
        self.len() * (8 + 1 + 2)
            + self.values.bytes()
            + self.gaps.len() * size_of::<Gap>()
            + self.field_values.len() * size_of::<FieldValue>()
            + self.text_bytes
            + self.user_tags.len() * size_of::<(u32, u32)>()
    }

    /// The columns as the bins of an operator that answers five statistics per bin (`stats_N`, `optimized_N`,
    /// `optimLastSample_N`); `None` if these are other values. Only the caller knows that it requested such an
    /// operator for a scalar PV: an array of five doubles looks the same.
    #[must_use]
    pub fn bins(&self) -> Option<Bins> {
        let Values::NumberArrays(lists) = &self.values else {
            return None;
        };
        let mut bins = Bins::default();
        for row in 0..lists.ends.len() {
            let [mean, deviation, least, greatest, count] = *lists.get(row)? else {
                return None;
            };
            bins.means.push(mean);
            bins.deviations.push(deviation);
            bins.least.push(least);
            bins.greatest.push(greatest);
            bins.counts.push(count);
        }
        Some(bins)
    }
}

/// Statistics of bins, one element a row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bins {
    /// Means.
    pub means: Vec<f64>,
    /// Standard deviations.
    pub deviations: Vec<f64>,
    /// Smallest values.
    pub least: Vec<f64>,
    /// Largest values.
    pub greatest: Vec<f64>,
    /// Numbers of samples.
    pub counts: Vec<f64>,
}
