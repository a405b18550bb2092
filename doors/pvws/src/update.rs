//! The text of one update: `type`, `pv`, metadata, value, `readonly`, `seconds` and `nanos`, in this order; and the keys
//! that clients have from values of earlier classes.
//!
//! Clients merge updates key by key, and decide by the keys that they have what they show. A value of another class
//! therefore replaces or empties the keys of the earlier ones.

use std::borrow::Cow;

use pvwire_core::formula::UDF;
use pvwire_schema::types::{Alarm, BlobValue, Limits, Metadata, Severity};

use crate::json::Width;
use crate::name::Dialect;
use crate::vtype::{Sample, VType, Value};
use crate::{java, json, text};

/// The alarm of the relay's own PVs without a value so far.
const NO_VALUE_SO_FAR: Alarm = Alarm {
    severity: Severity::Invalid,
    status: UDF,
};

/// The beginning of each update of a PV under the name that a client asked for.
pub(crate) fn head(spelling: &str) -> Vec<u8> {
    let mut head = br#"{"type":"update","pv":"#.to_vec();
    json::string(&mut head, spelling);
    head
}

/// Metadata that clients may have of earlier values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Keys {
    /// `vtype` and `severity`.
    pub(crate) class: bool,
    /// Units and limits.
    pub(crate) display: bool,
    /// Labels of an enum.
    pub(crate) labels: bool,
}

/// Appends the metadata of a PV, without its severity. Values without a class have no metadata. Keys that clients
/// have and this value doesn't become empty.
pub(crate) fn block(
    out: &mut Vec<u8>,
    vtype: VType,
    metadata: &Metadata,
    dialect: Dialect,
    keys: Keys,
) {
    if keys.class || vtype.name().is_some() {
        key(out, "vtype");
        json::string(out, vtype.class());
    }
    if vtype.has_display() {
        display(out, vtype, metadata, dialect);
    } else if keys.display {
        display(out, vtype, &Metadata::default(), dialect);
    }
    // Clients that merge updates keep the precision, which can't be emptied: cs-web-lib would format a text that looks
    // like a number with it, and shows any text as it is beside labels.
    let is_text_after_number = keys.display && vtype.has_text();
    if (keys.labels || is_text_after_number) && vtype != VType::Enum {
        no_labels(out);
    } else if vtype == VType::Enum {
        key(out, "labels");
        for (index, label) in metadata.choices.iter().enumerate() {
            out.push(if index == 0 { b'[' } else { b',' });
            json::string(out, label);
        }
        out.push(b']');
    }
}

fn display(out: &mut Vec<u8>, vtype: VType, metadata: &Metadata, dialect: Dialect) {
    key(out, "units");
    json::string(out, &metadata.units);
    key(out, "description");
    match dialect {
        Dialect::Ca | Dialect::Relay => out.extend_from_slice(b"null"),
        Dialect::Pva => json::string(out, &metadata.description),
    }
    if let Some(digits) = vtype.digits(metadata, dialect) {
        key(out, "precision");
        java::integer(out, digits);
    }
    for (low, high, limits) in [
        ("min", "max", metadata.display),
        ("warn_low", "warn_high", metadata.warning),
        ("alarm_low", "alarm_high", metadata.alarm),
    ] {
        let (least, most) = range(limits);
        key(out, low);
        java::limit(out, least);
        key(out, high);
        java::limit(out, most);
    }
}

/// The range between two limits. A missing limit is infinite, and limits in the wrong order are swapped.
fn range(limits: Limits) -> (f64, f64) {
    match (limits.low, limits.high) {
        (low, high) if low.is_nan() && high.is_nan() => (f64::NAN, f64::NAN),
        (low, high) if low.is_nan() => (f64::NEG_INFINITY, high),
        (low, high) if high.is_nan() => (low, f64::INFINITY),
        (low, high) if low > high => (high, low),
        (low, high) => (low, high),
    }
}

/// The severity of a value.
pub(crate) fn severity(sample: &Sample<'_>, dialect: Dialect) -> &'static str {
    match sample.value {
        _ if dialect == Dialect::Relay && sample.alarm == NO_VALUE_SO_FAR => "UNDEFINED",
        Value::Blob(BlobValue::Structure(_) | BlobValue::StructurePart(_)) => "UNDEFINED",
        _ => text::severity(sample.alarm.severity),
    }
}

/// Appends a value under its key.
pub(crate) fn value(
    out: &mut Vec<u8>,
    vtype: VType,
    sample: &Sample<'_>,
    metadata: &Metadata,
    dialect: Dialect,
) {
    match (vtype, sample.value) {
        (VType::Array(_, width), Value::Blob(BlobValue::Array(of))) => {
            key(out, width.key());
            json::base64(out, of, width);
        }
        (VType::Double | VType::Float, Value::Number(number)) => {
            key(out, "value");
            if number.is_finite() {
                java::double(out, number);
            } else {
                out.extend_from_slice(b"\"NaN\"");
            }
        }
        (VType::Integer(class), Value::Number(number)) => {
            key(out, "value");
            // Channel Access bytes arrive unsigned; PVWS sends them signed.
            let is_byte = class == "VByte";
            let number = number as i64;
            java::integer(
                out,
                if is_byte {
                    i64::from(number as i8)
                } else {
                    number
                },
            );
        }
        (_, Value::Blob(BlobValue::Int64(integer))) => {
            key(out, "value");
            java::integer(out, *integer);
        }
        (_, Value::Blob(BlobValue::UInt64(integer))) => {
            key(out, "value");
            // PVWS would send those above 2^63 as negative numbers.
            java::integer(out, *integer);
        }
        (VType::Enum, Value::Number(index)) => {
            key(out, "value");
            java::integer(out, index as i64);
            key(out, "text");
            json::string(out, &label(index, &metadata.choices));
        }
        (VType::String, Value::Blob(BlobValue::Text(string))) => {
            key(out, "text");
            json::string(out, string);
        }
        (VType::String, Value::Blob(BlobValue::Structure(node))) => {
            key(out, "text");
            json::string(out, &text::structure(node));
        }
        _ => {
            key(out, "text");
            json::string(out, &text::other(sample, metadata, dialect));
        }
    }
}

/// The label of an index, or the text that PVWS has instead of it. Clients that merge updates show the last label
/// for ever if a message has no text.
fn label(index: f64, labels: &[String]) -> Cow<'_, str> {
    let known = (index >= 0.0).then(|| labels.get(index as usize)).flatten();
    known.map_or_else(
        || {
            let labels = labels.join(", ");
            format!("Invalid index : {index} must be within the label range [{labels}]").into()
        },
        |label| label.as_str().into(),
    )
}

/// Appends the substitute for the value of a PV that is no longer connected.
pub(crate) fn no_value(out: &mut Vec<u8>, vtype: VType) {
    if let VType::Array(_, width) = vtype {
        // Clients that merge updates would keep the text NaN beside the elements.
        key(out, width.key());
        out.extend_from_slice(b"\"\"");
    } else {
        no_number(out);
    }
}

/// Appends the substitute for a number.
pub(crate) fn no_number(out: &mut Vec<u8>) {
    key(out, "value");
    out.extend_from_slice(b"\"NaN\"");
}

/// Appends labels, of which there are none. cs-web-lib then shows the text as it is.
pub(crate) fn no_labels(out: &mut Vec<u8>) {
    key(out, "labels");
    out.extend_from_slice(b"[]");
}

/// Appends a text.
pub(crate) fn push_text(out: &mut Vec<u8>, text: &str) {
    key(out, "text");
    json::string(out, text);
}

/// Appends `readonly` if it is given, then the time, and ends the update.
pub(crate) fn end(out: &mut Vec<u8>, readonly: Option<bool>, time_ns: i64) {
    let time_ns = java::or_epics_epoch(time_ns);
    if let Some(readonly) = readonly {
        key(out, "readonly");
        out.extend_from_slice(if readonly { b"true" } else { b"false" });
    }
    key(out, "seconds");
    java::integer(out, time_ns.div_euclid(1_000_000_000));
    key(out, "nanos");
    java::integer(out, time_ns.rem_euclid(1_000_000_000));
    out.push(b'}');
}

/// Appends a comma and a key.
pub(crate) fn key(out: &mut Vec<u8>, name: &str) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
}

/// Keys that clients may have. None is forgotten: a client that was behind may have a key of any earlier value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Merged {
    /// A `text`, which clients show rather than a value.
    pub(crate) text: bool,
    /// Whether the text is one of a value, not of one that was taken away.
    pub(crate) of_value: bool,
    /// Whether the text is the empty one of a large array.
    pub(crate) is_of_large: bool,
    /// A number or index under `value`.
    number: bool,
    /// Values had different classes.
    pub(crate) is_mixed: bool,
    pub(crate) keys: Keys,
    /// Arrays by their width. Clients keep the elements until another message has the same key.
    arrays: [bool; Width::ALL.len()],
}

impl Merged {
    pub(crate) fn is_text_shown(self) -> bool {
        self.text && self.of_value
    }

    /// Some clients may have these keys, too.
    pub(crate) fn add(&mut self, others: Self) {
        self.text |= others.text;
        self.of_value |= others.of_value;
        self.is_of_large &= others.is_of_large;
        self.number |= others.number;
        self.is_mixed |= others.is_mixed;
        self.keys.class |= others.keys.class;
        self.keys.display |= others.keys.display;
        self.keys.labels |= others.keys.labels;
        for (mine, other) in self.arrays.iter_mut().zip(others.arrays) {
            *mine |= other;
        }
    }

    /// Clients have a value of this class.
    pub(crate) fn note(&mut self, vtype: VType) {
        self.text |= self.needs_text(vtype) || vtype.has_text();
        self.of_value = true;
        self.number |= vtype.has_value();
        self.keys.class |= vtype.name().is_some();
        self.keys.labels |= vtype == VType::Enum;
        self.keys.display |= vtype.has_display();
        if let Some(width) = vtype.width() {
            self.arrays[width as usize] = true;
        }
    }

    /// Whether a value of a class that has no text is sent with one. cs-web-lib shows a number as text too.
    pub(crate) fn needs_text(self, vtype: VType) -> bool {
        !vtype.has_text() && (self.text || self.number && vtype.width().is_some())
    }

    /// Whether clients may have a number that a value of this class doesn't replace.
    pub(crate) fn has_number_beside(self, vtype: VType) -> bool {
        self.number && !vtype.has_value()
    }

    /// Whether clients may have an empty array beside a value of this class. cs-web-lib shows it instead of NaN.
    pub(crate) fn has_array_beside(self, vtype: VType) -> bool {
        vtype.width().is_none() && self.arrays.contains(&true)
    }

    /// Keys of arrays that a value of this class doesn't replace.
    fn arrays_beside(self, vtype: VType) -> impl Iterator<Item = &'static str> {
        let widths = Width::ALL.into_iter().zip(self.arrays);
        let others = widths.filter(move |(width, known)| *known && vtype.width() != Some(*width));
        others.map(|(width, _)| width.key())
    }

    /// Appends empty arrays in place of those that a value of this class doesn't replace; returns whether there are
    /// any. No message has them beside a value, because clients take one of both.
    pub(crate) fn empty_arrays(self, out: &mut Vec<u8>, vtype: VType) -> bool {
        let begin = out.len();
        for key in self.arrays_beside(vtype) {
            self::key(out, key);
            out.extend_from_slice(b"\"\"");
        }
        out.len() > begin
    }
}
