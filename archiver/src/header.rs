//! Headers (`PayloadInfo`): type, PV and year of the samples after them, and the PV's metadata.

use crate::fields::{Content, Damaged, Fields};

/// Names of metadata that are kept of a PV; further ones are ignored.
const MAX_NAMES: usize = 1024;

/// Bytes of metadata that are kept of a PV; further ones are ignored.
const MAX_METADATA_BYTES: usize = 1 << 20;

/// Header that says since when a PV is disconnected.
const LOST: &str = "cnxlostepsecs";

/// Type of the samples. The numbers are those of the appliance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
#[repr(u8)]
pub enum PayloadType {
    ScalarString = 0,
    ScalarShort = 1,
    ScalarFloat = 2,
    ScalarEnum = 3,
    ScalarByte = 4,
    ScalarInt = 5,
    ScalarDouble = 6,
    WaveformString = 7,
    WaveformShort = 8,
    WaveformFloat = 9,
    WaveformEnum = 10,
    WaveformByte = 11,
    WaveformInt = 12,
    WaveformDouble = 13,
    V4GenericBytes = 14,
}

impl PayloadType {
    /// All types, by number.
    pub const ALL: [Self; 15] = [
        Self::ScalarString,
        Self::ScalarShort,
        Self::ScalarFloat,
        Self::ScalarEnum,
        Self::ScalarByte,
        Self::ScalarInt,
        Self::ScalarDouble,
        Self::WaveformString,
        Self::WaveformShort,
        Self::WaveformFloat,
        Self::WaveformEnum,
        Self::WaveformByte,
        Self::WaveformInt,
        Self::WaveformDouble,
        Self::V4GenericBytes,
    ];
}

/// What headers say about a PV, as text. Later headers of an answer replace what earlier ones said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// By name. A sorted list is a smaller module than a tree.
    texts: Vec<(String, String)>,
    bytes: usize,
}

impl Metadata {
    /// The text of a name, such as `EGU`, `DESC` or an archived field.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        let index = self.find(name).ok()?;
        Some(&self.texts[index].1)
    }

    /// All names and texts, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        (self.texts.iter()).map(|(name, text)| (name.as_str(), text.as_str()))
    }

    /// A number, such as `HOPR` or `HIHI`. `None` also for "NaN", which stands for a limit that is not set.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<f64> {
        let number: f64 = self.text(name)?.trim().parse().ok()?;
        (!number.is_nan()).then_some(number)
    }

    /// Digits after the decimal point. The appliance's stores write "3", its engine writes "3.0".
    #[must_use]
    pub fn precision(&self) -> Option<i32> {
        let text = self.text("PREC")?.trim();
        // Without the parser of floating-point numbers, whose tables are a third of a small module.
        text.split('.').next()?.parse().ok()
    }

    /// Labels of an enum by their index, from the first to the last that is known. They are the labels at the
    /// time of the request, not those at the time of the samples.
    #[must_use]
    pub fn labels(&self) -> Vec<String> {
        let mut labels = Vec::new();
        // The names are sorted as text, 10 before 2.
        for (name, text) in &self.texts {
            let index = name
                .strip_prefix("ENUM_")
                .and_then(|index| index.parse().ok());
            if let Some(index @ 0..MAX_NAMES) = index {
                if labels.len() <= index {
                    labels.resize(index + 1, String::new());
                }
                labels[index].clone_from(text);
            }
        }
        labels
    }

    /// Since when the PV is disconnected, in seconds past the POSIX epoch; `None` if it is connected.
    #[must_use]
    pub fn disconnected_since(&self) -> Option<i64> {
        self.text(LOST)?.trim().parse().ok()
    }

    /// Replaces what `newer` says, too. The connection is always that of `newer`.
    pub(crate) fn update(&mut self, newer: Self) {
        if let Ok(index) = self.find(LOST) {
            let (name, lost) = self.texts.remove(index);
            self.bytes -= name.len() + lost.len();
        }
        for (name, text) in newer.texts {
            self.set(name, text);
        }
    }

    fn find(&self, name: &str) -> Result<usize, usize> {
        (self.texts).binary_search_by(|(known, _)| known.as_str().cmp(name))
    }

    fn set(&mut self, name: String, text: String) {
        let found = self.find(&name);
        let before = found.map_or(0, |index| name.len() + self.texts[index].1.len());
        let bytes = self.bytes - before + name.len() + text.len();
        if bytes > MAX_METADATA_BYTES {
            return;
        }
        match found {
            Ok(index) => self.texts[index].1 = text,
            Err(index) if self.texts.len() < MAX_NAMES => self.texts.insert(index, (name, text)),
            Err(_) => return,
        }
        self.bytes = bytes;
    }
}

/// A header.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Header {
    pub(crate) payload: PayloadType,
    pub(crate) pv: String,
    /// Start of the year of its samples, in nanoseconds past the POSIX epoch.
    pub(crate) year_ns: i64,
    pub(crate) element_count: Option<u32>,
    pub(crate) metadata: Metadata,
}

impl Header {
    pub(crate) fn read(line: &[u8]) -> Result<Self, Damaged> {
        let (mut payload, mut pv, mut year, mut element_count) = (None, None, None, None);
        let mut metadata = Metadata::default();
        let mut fields = Fields::new(line);
        while let Some((number, content)) = fields.next()? {
            match (number, content) {
                (1, Content::Varint(number)) => {
                    let known = usize::try_from(number).ok();
                    payload = known.and_then(|number| PayloadType::ALL.get(number).copied());
                }
                (2, Content::Bytes(name)) => pv = Some(text(name)),
                (3, Content::Varint(number)) => year = Some(number as i32),
                (4, content) => element_count = content.number().or(element_count),
                (15, Content::Bytes(pair)) => {
                    let (name, text) = name_and_text(pair)?;
                    metadata.set(name, text);
                }
                _ => {}
            }
        }
        Ok(Self {
            payload: payload.ok_or(Damaged)?,
            pv: pv.ok_or(Damaged)?,
            year_ns: year.and_then(start_of_year).ok_or(Damaged)?,
            element_count,
            metadata,
        })
    }
}

/// A `FieldValue`: a name and its text.
pub(crate) fn name_and_text(message: &[u8]) -> Result<(String, String), Damaged> {
    let (mut name, mut value) = (None, None);
    let mut fields = Fields::new(message);
    while let Some((number, content)) = fields.next()? {
        match (number, content) {
            (1, Content::Bytes(bytes)) => name = Some(text(bytes)),
            (2, Content::Bytes(bytes)) => value = Some(text(bytes)),
            _ => {}
        }
    }
    Ok((name.ok_or(Damaged)?, value.ok_or(Damaged)?))
}

/// A text, which is UTF-8 unless it is damaged.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Start of a year in UTC in nanoseconds past the POSIX epoch, if 64 bits hold the year.
fn start_of_year(year: i32) -> Option<i64> {
    // Leap days of the years before this one, from the year 1 on.
    let before = i64::from(year) - 1;
    let leap_days = before.div_euclid(4) - before.div_euclid(100) + before.div_euclid(400);
    let days = 365 * before + leap_days - DAYS_BEFORE_1970;
    let start = days.checked_mul(86_400_000_000_000)?;
    // The end has to be within the range, too.
    start.checked_add(367 * 86_400_000_000_000).map(|_| start)
}

/// Days from the first day of the year 1 to the POSIX epoch.
const DAYS_BEFORE_1970: i64 = 719_162;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn years_begin_at_the_same_second_as_in_other_calendars() {
        let seconds = |year| start_of_year(year).map(|ns| ns / 1_000_000_000);
        for (year, expected) in [
            (1970, Some(0)),
            (1972, Some(63_072_000)),
            (1973, Some(94_694_400)),
            (2000, Some(946_684_800)),
            (2001, Some(978_307_200)),
            (2026, Some(1_767_225_600)),
            (2100, Some(4_102_444_800)),
            (2101, Some(4_133_980_800)),
            (1900, Some(-2_208_988_800)),
            (2262, None),
            (i32::MAX, None),
            (i32::MIN, None),
        ] {
            assert_eq!(seconds(year), expected, "{year}");
        }
    }

    #[test]
    fn metadata_of_one_pv_is_bounded_however_many_headers_there_are() {
        let mut metadata = Metadata::default();
        for round in 0..4 {
            let mut newer = Metadata::default();
            (0..MAX_NAMES).for_each(|n| newer.set(format!("{round}:{n}"), "x".repeat(2000)));
            metadata.update(newer);
        }
        let bytes: usize = metadata
            .iter()
            .map(|(name, text)| name.len() + text.len())
            .sum();
        assert_eq!(bytes, metadata.bytes);
        assert!(bytes <= MAX_METADATA_BYTES && metadata.texts.len() <= MAX_NAMES);
    }

    #[test]
    fn both_forms_of_precision_and_unordered_labels_are_understood() {
        let mut metadata = Metadata::default();
        for (name, text) in [
            ("ENUM_10", "k"),
            ("ENUM_1", "b"),
            ("ENUM_x", "?"),
            ("PREC", "3.0"),
        ] {
            metadata.set(name.into(), text.into());
        }
        assert_eq!(metadata.precision(), Some(3));
        let labels = metadata.labels();
        assert_eq!((labels.len(), &*labels[1], &*labels[10]), (11, "b", "k"));
        metadata.set("PREC".into(), "4".into());
        metadata.set("LOLO".into(), "NaN".into());
        assert_eq!(
            (metadata.precision(), metadata.number("LOLO")),
            (Some(4), None)
        );
    }
}
