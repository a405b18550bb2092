//! Local PVs, `loc://name<type>(initial value)`: values that the client holds, without a relay,
//! with the types of Phoebus.
//!
//! ```
//! use pvwire_core::formula::value::Value;
//! use pvwire_core::local::Locals;
//!
//! let mut locals = Locals::default();
//! assert_eq!(locals.open("loc://gain(2.5)")?.value, Value::Number(2.5));
//! // The type and the initial value are not part of the name.
//! assert_eq!(locals.write("loc://gain", &Value::text("3"))?.value, Value::Number(3.0));
//! # Ok::<(), pvwire_core::local::LocalError>(())
//! ```

mod declaration;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use self::declaration::Declaration;
pub use self::declaration::Type;
use crate::formula::value::{Severity, Value, number_in};
use crate::formula::{Alarm, Operand};

/// The scheme of local PVs.
pub const SCHEME: &str = "loc://";

/// Why a local PV can't be opened or written.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LocalError {
    /// The name is not `loc://name<type>(initial value)`.
    Name,
    /// There is no such type.
    Type(String),
    /// The initial value is neither a number nor a text nor a list of either.
    Initial(String),
    /// The initial value doesn't fit the type.
    Fit {
        /// The initial value.
        text: String,
        /// What the type takes.
        expected: &'static str,
    },
    /// A written value doesn't fit the PV's type.
    Write {
        /// The written value.
        value: String,
        /// What the PV holds.
        holds: &'static str,
    },
    /// An enum doesn't have the written label or index.
    Choice {
        /// The written value.
        value: String,
        /// The labels, with commas between them.
        labels: String,
    },
}

impl fmt::Display for LocalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name => f.write_str(
                "a local PV is written loc://name, loc://name(initial value) or \
                 loc://name<type>(initial value)",
            ),
            Self::Type(name) => write!(
                f,
                "unknown type {name}: write VDouble, VInt, VLong, VBoolean, VString, VEnum, \
                 VDoubleArray, VStringArray or VTable"
            ),
            Self::Initial(text) => write!(
                f,
                "invalid initial value {text}: write a number, \"text\", or a list of either"
            ),
            Self::Fit { text, expected } => {
                write!(
                    f,
                    "invalid initial value {text}: this type takes {expected}"
                )
            }
            Self::Write { value, holds } => {
                write!(f, "{value} is not {holds}, but the PV holds one")
            }
            Self::Choice { value, labels } => {
                write!(
                    f,
                    "{value} is not one of the labels {labels}, or the index of one"
                )
            }
        }
    }
}

impl std::error::Error for LocalError {}

/// One local PV.
#[derive(Clone, Debug, PartialEq)]
pub struct Local {
    /// Its value.
    pub value: Value,
    /// [`Severity::Undefined`] before the first write of a PV without an initial value.
    pub severity: Severity,
    /// Its type.
    pub kind: Type,
    /// Whether the first write decides the type, if it is a text or an array.
    is_open: bool,
}

impl Local {
    fn new(declaration: &Declaration) -> Self {
        Self {
            value: declaration.value.clone(),
            severity: if declaration.has_initial {
                Severity::None
            } else {
                Severity::Undefined
            },
            kind: declaration.kind,
            is_open: !declaration.has_initial && declaration.kind == Type::Double,
        }
    }

    /// The value with its alarm, without a time stamp.
    #[must_use]
    pub fn operand(self) -> Operand {
        let mut operand = Operand::new(self.value);
        if self.severity == Severity::Undefined {
            operand.alarm = Alarm::UNDEFINED;
        }
        operand
    }

    fn write(&mut self, value: &Value) -> Result<(), LocalError> {
        if self.is_open && self.severity == Severity::Undefined {
            self.kind = match value {
                Value::Text(text) if number_in(text).is_none() => Type::Text,
                Value::Numbers(_) => Type::Numbers,
                Value::Texts(_) => Type::Texts,
                _ => self.kind,
            };
        }
        self.value = self.fitting(value)?;
        self.severity = Severity::None;
        Ok(())
    }

    /// The written value in the PV's type.
    fn fitting(&self, value: &Value) -> Result<Value, LocalError> {
        let refused = |holds| LocalError::Write {
            value: shown(value),
            holds,
        };
        Ok(match self.kind {
            Type::Double => Value::Number(scalar(value).ok_or_else(|| refused("a number"))?),
            Type::Int => {
                let integer = integer(value).and_then(|integer| i32::try_from(integer).ok());
                let integer = integer.ok_or_else(|| refused("an integer of 32 bits"))?;
                Value::Integer(i64::from(integer))
            }
            Type::Long => {
                Value::Integer(integer(value).ok_or_else(|| refused("an integer of 64 bits"))?)
            }
            Type::Boolean => Value::Boolean(truth(value).ok_or_else(|| refused("a boolean"))?),
            Type::Text => Value::text(&value.to_text()),
            Type::Numbers => {
                Value::Numbers(numbers(value).ok_or_else(|| refused("an array of numbers"))?)
            }
            Type::Texts => Value::Texts(match value {
                Value::Texts(texts) => texts.clone(),
                Value::Numbers(numbers) => numbers
                    .iter()
                    .map(|number| Value::Number(*number).to_text())
                    .collect(),
                other => [other.to_text()].into(),
            }),
            Type::Enum => self.choice(value)?,
            Type::Table => return Err(refused("a table")),
        })
    }

    /// A written label or index as a value of this enum.
    fn choice(&self, value: &Value) -> Result<Value, LocalError> {
        let labels: Arc<[String]> = match &self.value {
            Value::Enum { labels, .. } => labels.clone(),
            _ => [].into(),
        };
        let by_label = match value {
            Value::Text(_) | Value::Enum { .. } => {
                let text = value.to_text();
                labels.iter().position(|label| *label == text)
            }
            _ => None,
        };
        let by_index = || scalar(value).filter(|index| (0.0..labels.len() as f64).contains(index));
        match by_label.or_else(|| by_index().map(|index| index as usize)) {
            Some(index) => Ok(Value::Enum {
                index: index as i32,
                labels,
            }),
            None => Err(LocalError::Choice {
                value: shown(value),
                labels: labels.join(", "),
            }),
        }
    }
}

/// A single value as a number.
fn scalar(value: &Value) -> Option<f64> {
    match value {
        Value::Number(_) | Value::Integer(_) | Value::Boolean(_) | Value::Enum { .. } => {
            Some(value.to_number())
        }
        Value::Text(text) => number_in(text),
        Value::Numbers(_) | Value::Texts(_) | Value::Table(_) => None,
    }
}

/// A single value as an integer, without its fraction; `None` if it has more than 64 bits.
fn integer(value: &Value) -> Option<i64> {
    const END: f64 = 9_223_372_036_854_775_808.0;
    match value {
        Value::Integer(integer) => return Some(*integer),
        Value::Text(text) => {
            if let Ok(exact) = text.trim().parse() {
                return Some(exact);
            }
        }
        _ => {}
    }
    let number = scalar(value)?.trunc();
    (-END..END).contains(&number).then_some(number as i64)
}

fn truth(value: &Value) -> Option<bool> {
    match value {
        Value::Text(text) if text.trim().eq_ignore_ascii_case("true") => Some(true),
        Value::Text(text) if text.trim().eq_ignore_ascii_case("false") => Some(false),
        _ => scalar(value).map(|number| number != 0.0),
    }
}

fn numbers(value: &Value) -> Option<Arc<[f64]>> {
    match value {
        Value::Numbers(numbers) => Some(numbers.clone()),
        Value::Texts(texts) => texts.iter().map(|text| number_in(text)).collect(),
        // As in Phoebus: "1, 2, 3".
        Value::Text(text) => text.split(',').map(number_in).collect(),
        _ => scalar(value).map(|number| [number].into()),
    }
}

/// A value in an error message.
fn shown(value: &Value) -> String {
    match value {
        Value::Text(text) => format!("\"{text}\""),
        Value::Numbers(_) | Value::Texts(_) | Value::Table(_) => value.name_of_type().to_owned(),
        _ => value.to_text(),
    }
}

/// The local PVs of one client.
#[derive(Clone, Debug, Default)]
pub struct Locals {
    by_key: BTreeMap<String, Local>,
}

impl Locals {
    /// The PV of this name, which begins with `loc://`. The first call for a PV decides its type
    /// and initial value.
    ///
    /// # Errors
    /// The name is not that of a local PV.
    pub fn open(&mut self, name: &str) -> Result<&mut Local, LocalError> {
        let declaration = Declaration::parse(name)?;
        let new = || Local::new(&declaration);
        Ok(self
            .by_key
            .entry(declaration.key.to_owned())
            .or_insert_with(new))
    }

    /// Writes a PV and returns it with its new value.
    ///
    /// # Errors
    /// The name is not that of a local PV, or the value doesn't fit its type.
    pub fn write(&mut self, name: &str, value: &Value) -> Result<&Local, LocalError> {
        let local = self.open(name)?;
        local.write(value)?;
        Ok(local)
    }

    /// Removes a PV. The next call that opens it decides its type and initial value again.
    pub fn close(&mut self, name: &str) {
        if let Ok(key) = key(name) {
            self.by_key.remove(key);
        }
    }
}

/// The part of the name that identifies the PV: without scheme, type and initial value.
///
/// # Errors
/// The name is not that of a local PV.
pub fn key(name: &str) -> Result<&str, LocalError> {
    Declaration::parse(name).map(|declaration| declaration.key)
}
