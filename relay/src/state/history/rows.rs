//! Samples on the wire: what a JSON text says of rows, then the columns of their times and numbers.

use pvwire_schema::types::{Alarm, Severity, Skips};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{PastSample, PastValue};

/// What the samples of a page weigh at most, with what else it has: on the wire each takes no more than it weighs.
pub const PAGE_BYTES: usize = 60_000;

/// Bytes of a sample: time and number, a change of the alarm, and an integer or the marks of a text.
pub const SAMPLE_BYTES: usize = 16;
const ALARM_BYTES: usize = 24;
const SKIPS_BYTES: usize = 64;
const OTHER_BYTES: usize = 40;

/// Bytes of a gap.
pub const GAP_BYTES: usize = 120;

/// A control character takes six bytes of JSON.
const CHARACTER_BYTES: usize = 6;

/// What the text of a page says of its rows.
#[derive(Debug, Default, Serialize)]
pub struct RowsText<'a> {
    /// Row, severity and status, where the alarm differs from that of the row before, and of the first row.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    alarms: Vec<(usize, u8, u16)>,
    /// Row and updates that were left out before it: by relay, source, filter, bus.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    skips: Vec<(usize, u32, u32, u32, u32)>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    texts: Vec<(usize, &'a str)>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    integers: Vec<(usize, String)>,
}

/// The same, as another relay has written it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RowsRead {
    alarms: Vec<(usize, u8, u16)>,
    skips: Vec<(usize, u32, u32, u32, u32)>,
    texts: Vec<(usize, String)>,
    integers: Vec<(usize, String)>,
}

/// Bytes of a word: the columns of a page are aligned to it.
const WORD: usize = 8;

impl<'a> RowsText<'a> {
    /// That of these rows.
    #[must_use]
    pub fn of(samples: &'a [PastSample]) -> Self {
        let mut rows = Self::default();
        let mut alarm: Option<Alarm> = None;
        for (row, sample) in samples.iter().enumerate() {
            let now = sample.alarm;
            if alarm.replace(now) != Some(now) {
                rows.alarms.push((row, now.severity.number(), now.status));
            }
            let skips = sample.skips;
            if skips != Skips::NONE {
                (rows.skips).push((row, skips.relay, skips.source, skips.filter, skips.bus));
            }
            match &sample.value {
                PastValue::Number(_) => {}
                PastValue::Int64(number) => rows.integers.push((row, number.to_string())),
                PastValue::UInt64(number) => rows.integers.push((row, number.to_string())),
                PastValue::Text(text) => rows.texts.push((row, text)),
            }
        }
        rows
    }
}

/// A page with this text: the text, then the columns of the rows.
#[must_use]
pub fn with_columns(text: &impl Serialize, samples: &[PastSample]) -> Vec<u8> {
    let mut text = serde_json::to_vec(text).expect("numbers and texts can be written as JSON");
    text.resize(text.len().next_multiple_of(WORD), b' ');
    let mut content = Vec::with_capacity(WORD + text.len() + 2 * WORD * samples.len());
    content.extend((text.len() as u32).to_le_bytes());
    content.extend((samples.len() as u32).to_le_bytes());
    content.extend(text);
    content.extend(
        samples
            .iter()
            .flat_map(|sample| sample.time_ns.to_le_bytes()),
    );
    let number = |value: &PastValue| match value {
        PastValue::Number(number) => *number,
        PastValue::Int64(number) => *number as f64,
        PastValue::UInt64(number) => *number as f64,
        PastValue::Text(_) => f64::NAN,
    };
    let numbers = samples.iter().map(|sample| number(&sample.value));
    content.extend(numbers.flat_map(f64::to_le_bytes));
    content
}

/// What a page says besides its rows, and the rows; `None` if it can't be read.
#[must_use]
pub fn read<T: DeserializeOwned>(content: &[u8]) -> Option<(T, Vec<PastSample>)> {
    let (text_bytes, rest) = content.split_first_chunk()?;
    let (count, rest) = rest.split_first_chunk()?;
    let (text_bytes, count) = (u32::from_le_bytes(*text_bytes), u32::from_le_bytes(*count));
    let (text, columns) = rest.split_at_checked(text_bytes as usize)?;
    let (words, others) = columns.as_chunks::<WORD>();
    let (times, numbers) = words.split_at_checked(count as usize)?;
    if numbers.len() != times.len() || !others.is_empty() {
        return None;
    }
    let said = serde_json::from_slice(text).ok()?;
    let rows: RowsRead = serde_json::from_slice(text).ok()?;
    let times = times.iter().copied().map(i64::from_le_bytes);
    let numbers = numbers.iter().copied().map(f64::from_le_bytes);
    let mut alarms = rows.alarms.into_iter().peekable();
    let mut alarm = Alarm::NONE;
    let samples = times.zip(numbers).enumerate();
    let samples = samples.map(|(row, (time_ns, number))| {
        if let Some((_, severity, status)) = alarms.next_if(|(at, ..)| *at == row) {
            let severity = Severity::from_number(severity);
            alarm = Alarm { severity, status };
        }
        PastSample {
            time_ns,
            value: PastValue::Number(number),
            alarm,
            skips: Skips::NONE,
        }
    });
    let mut samples: Vec<_> = samples.collect();
    for (row, relay, source, filter, bus) in rows.skips {
        samples.get_mut(row)?.skips = Skips {
            relay,
            source,
            filter,
            bus,
        };
    }
    for (row, text) in rows.texts {
        samples.get_mut(row)?.value = PastValue::Text(text.into());
    }
    for (row, digits) in rows.integers {
        let signed = digits.parse().map(PastValue::Int64);
        let value = signed.or_else(|_| digits.parse().map(PastValue::UInt64));
        samples.get_mut(row)?.value = value.ok()?;
    }
    Some((said, samples))
}

/// Most bytes that a sample takes on the wire, after the one whose alarm is `before`.
#[must_use]
pub fn weight(sample: &PastSample, before: &mut Option<Alarm>) -> usize {
    let mut bytes = SAMPLE_BYTES;
    if before.replace(sample.alarm) != Some(sample.alarm) {
        bytes += ALARM_BYTES;
    }
    if sample.skips != Skips::NONE {
        bytes += SKIPS_BYTES;
    }
    bytes
        + match &sample.value {
            PastValue::Number(_) => 0,
            PastValue::Int64(_) | PastValue::UInt64(_) => OTHER_BYTES,
            PastValue::Text(text) => OTHER_BYTES + CHARACTER_BYTES * text.len(),
        }
}
