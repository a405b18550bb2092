//! Local PVs, `loc://name<type>(initial value)`: their names, types and writes by the engine, and their values as the
//! relay has them.

use pvwire_core::formula::UDF;
use pvwire_core::formula::value::{Severity as LocalSeverity, Value};
use pvwire_core::formula::wire::{self, MAX_SAFE_INTEGER};
use pvwire_core::local::{self, LocalError, Locals, SCHEME, Type};
use pvwire_schema::types::{Alarm, BlobValue, Metadata, PutValue, Severity, ValueType};

/// Most elements of an array.
pub const MOST_ELEMENTS: usize = 1 << 17;

/// Most bytes of all texts of a value together.
const MOST_TEXT_BYTES: usize = 1 << 20;

/// Why a value can't be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// It doesn't fit the type.
    #[error(transparent)]
    Fit(#[from] LocalError),
    /// An array is too long.
    #[error("a local PV has at most {MOST_ELEMENTS} elements, not {0}")]
    Elements(usize),
    /// The texts are too long.
    #[error("the texts of a local PV have at most {MOST_TEXT_BYTES} bytes, not {0}")]
    Text(usize),
}

/// A value as the relay has it.
#[derive(Clone, Debug, PartialEq)]
pub enum LocalValue {
    /// A number, truth, or an enum's index.
    Number(f64),
    /// Any other value.
    Blob(BlobValue),
}

/// One local PV.
#[derive(Debug)]
pub struct LocalPv {
    /// With its scheme, type and initial value.
    name: String,
    locals: Locals,
}

/// The part of a name without scheme that identifies the PV: without type and initial value. `None` if it is not the
/// name of a local PV.
#[must_use]
pub fn key(name: &str) -> Option<&str> {
    let whole = format!("{SCHEME}{name}");
    let length = local::key(&whole).ok()?.len();
    name.get(..length)
}

impl LocalPv {
    /// The PV that a name without scheme declares.
    ///
    /// # Errors
    /// It is not the name of a local PV.
    pub fn open(name: &str) -> Result<Self, LocalError> {
        let name = format!("{SCHEME}{name}");
        let mut locals = Locals::default();
        locals.open(&name)?;
        Ok(Self { name, locals })
    }

    /// Writes the value. The first text or array that is written to a PV without type and initial value decides its
    /// type.
    ///
    /// # Errors
    /// The value doesn't fit; the PV is unchanged.
    pub fn write(&mut self, value: &PutValue) -> Result<(), WriteError> {
        let (elements, bytes) = match value {
            PutValue::Text(text) => (1, text.len()),
            PutValue::TextArray(texts) => (texts.len(), texts.iter().map(String::len).sum()),
            PutValue::Array(array) => (array.count as usize, 0),
            PutValue::Number(_) | PutValue::Int64(_) | PutValue::UInt64(_) => (1, 0),
        };
        if elements > MOST_ELEMENTS {
            return Err(WriteError::Elements(elements));
        }
        if bytes > MOST_TEXT_BYTES {
            return Err(WriteError::Text(bytes));
        }
        self.locals.write(&self.name, &written(value))?;
        Ok(())
    }

    /// Takes type, value and alarm. A value that was not written yet and has no initial value has an alarm.
    ///
    /// A text or a list is moved out, so that only the caller holds it: until the next write the PV has an empty one.
    pub fn take(&mut self) -> (Metadata, LocalValue, Alarm) {
        let Ok(local) = self.locals.open(&self.name) else {
            unreachable!("the name was read before");
        };
        let alarm = match local.severity {
            LocalSeverity::Undefined => Alarm {
                severity: Severity::Invalid,
                status: UDF,
            },
            _ => Alarm {
                severity: Severity::NoAlarm,
                status: 0,
            },
        };
        let (metadata, value) = described(&local.value, local.kind, MOST_ELEMENTS as u32);
        match &mut local.value {
            Value::Text(text) => *text = "".into(),
            Value::Numbers(numbers) => *numbers = [].into(),
            Value::Texts(texts) => *texts = [].into(),
            _ => {}
        }
        (metadata, value, alarm)
    }
}

/// A value with its metadata. Arrays have at most `most` elements.
pub(crate) fn described(value: &Value, kind: Type, most: u32) -> (Metadata, LocalValue) {
    let (value_type, shown) = shown(value, kind);
    let is_list = matches!(value, Value::Numbers(_) | Value::Texts(_));
    let metadata = Metadata {
        value_type,
        element_count: if is_list { most } else { 1 },
        choices: match value {
            Value::Enum { labels, .. } => labels.to_vec(),
            _ => Vec::new(),
        },
        type_id: match &shown {
            LocalValue::Blob(BlobValue::Structure(node)) => node.type_id.clone(),
            _ => String::new(),
        },
        ..Metadata::default()
    };
    (metadata, shown)
}

fn shown(value: &Value, kind: Type) -> (ValueType, LocalValue) {
    let number = LocalValue::Number;
    match value {
        Value::Number(double) => (ValueType::Float64, number(*double)),
        Value::Integer(integer) if kind == Type::Int => (ValueType::Int32, number(*integer as f64)),
        Value::Integer(integer) if integer.unsigned_abs() <= MAX_SAFE_INTEGER => {
            (ValueType::Int64, number(*integer as f64))
        }
        Value::Integer(integer) => {
            let blob = BlobValue::Int64(*integer);
            (ValueType::Int64, LocalValue::Blob(blob))
        }
        Value::Boolean(is) => (ValueType::Boolean, number(f64::from(u8::from(*is)))),
        Value::Enum { index, .. } => (ValueType::Enum, number(f64::from(*index))),
        Value::Text(text) => {
            let blob = BlobValue::Text(text.to_string());
            (ValueType::String, LocalValue::Blob(blob))
        }
        Value::Numbers(numbers) => {
            let blob = BlobValue::Array(wire::doubles(numbers));
            (ValueType::Float64, LocalValue::Blob(blob))
        }
        Value::Texts(texts) => {
            let blob = BlobValue::TextArray(texts.to_vec());
            (ValueType::String, LocalValue::Blob(blob))
        }
        Value::Table(labels) => {
            let blob = BlobValue::Structure(wire::table(labels));
            (ValueType::Structure, LocalValue::Blob(blob))
        }
    }
}

/// A written value. As in PVWS, every number is a double: its text is "3.0".
fn written(value: &PutValue) -> Value {
    match value {
        PutValue::Number(number) => Value::Number(*number),
        other => wire::of_put(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(name: &str) -> (ValueType, LocalValue, Severity) {
        let (metadata, value, alarm) = LocalPv::open(name).unwrap().take();
        (metadata.value_type, value, alarm.severity)
    }

    fn text(text: &str) -> LocalValue {
        LocalValue::Blob(BlobValue::Text(text.to_owned()))
    }

    #[test]
    fn key_is_the_name_without_type_and_initial_value() {
        for (name, expected) in [
            ("x", Some("x")),
            ("x(3)", Some("x")),
            ("a:b.c<VLong>(1)", Some("a:b.c")),
            ("", None),
            ("x(3", None),
            ("x<VNothing>(3)", None),
        ] {
            assert_eq!(key(name), expected, "{name}");
        }
    }

    #[test]
    fn declared_values_have_the_types_of_the_relay() {
        let calm = Severity::NoAlarm;
        let number = LocalValue::Number;
        for (name, value_type, value) in [
            ("x(2.5)", ValueType::Float64, number(2.5)),
            ("x<VInt>(3)", ValueType::Int32, number(3.0)),
            ("x<VLong>(3)", ValueType::Int64, number(3.0)),
            ("x<VBoolean>(true)", ValueType::Boolean, number(1.0)),
            ("x<VEnum>(1,\"A\",\"B\")", ValueType::Enum, number(1.0)),
            ("x(\"a\")", ValueType::String, text("a")),
        ] {
            assert_eq!(state(name), (value_type, value, calm), "{name}");
        }
        let exact = LocalValue::Blob(BlobValue::Int64(9_007_199_254_740_993));
        assert_eq!(
            state("x<VLong>(9007199254740993)"),
            (ValueType::Int64, exact, calm)
        );
        let (metadata, ..) = LocalPv::open("x<VEnum>(1,\"A\",\"B\")").unwrap().take();
        assert_eq!(metadata.choices, ["A", "B"]);
        let (table, ..) = LocalPv::open("x<VTable>(\"A\")").unwrap().take();
        assert_eq!(table.type_id, "epics:nt/NTTable:1.0");
    }

    #[test]
    fn undeclared_value_is_undefined_until_it_is_written() {
        let mut local = LocalPv::open("x").unwrap();
        assert_eq!(local.take().2.severity, Severity::Invalid);
        local.write(&PutValue::Text("a".to_owned())).unwrap();
        let (metadata, value, alarm) = local.take();
        assert_eq!(local.take().1, text(""), "it is moved out");
        assert_eq!((metadata.value_type, value), (ValueType::String, text("a")));
        assert_eq!(alarm.severity, Severity::NoAlarm);
    }

    #[test]
    fn value_that_is_too_large_is_refused_and_changes_nothing() {
        let mut local = LocalPv::open("x<VStringArray>(\"a\")").unwrap();
        let (before, ..) = local.take();
        let many = PutValue::TextArray(vec![String::new(); MOST_ELEMENTS + 1]);
        let long = PutValue::TextArray(vec!["a".repeat(MOST_TEXT_BYTES + 1)]);
        for (value, why) in [(many, "elements"), (long, "bytes")] {
            let refused = local.write(&value).unwrap_err().to_string();
            assert!(refused.contains(why), "{refused}");
        }
        assert_eq!(local.take().0, before);
    }
}
