//! Formulas, `eq://expression`: their inputs by the relay's names, and their values by the engine.

use std::fmt;

use pvwire_core::formula::value::{Severity as FormulaSeverity, Stamp, Value as FormulaValue};
use pvwire_core::formula::{self, CALC, Context, Fault, Input, Operand, ParseError, UDF, wire};
use pvwire_core::local::Type;
use pvwire_schema::types::{Alarm, BlobValue, Metadata, Severity};

use crate::local::{LocalValue, described};
use crate::name::{Dialect, target};
use crate::vtype::{Sample, Value};

/// Maximum number of PVs that a formula of the relay reads.
pub const MOST_INPUTS: usize = 64;

/// Maximum number of array elements that one evaluation works on: those of its inputs, of all steps and of its
/// result.
pub const MOST_WORK: usize = 1 << 20;

/// Why a text is not a formula of the relay.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FormulaError {
    /// It is not a formula.
    #[error(transparent)]
    Parse(#[from] ParseError),
    /// It reads too many PVs.
    #[error("a formula reads at most {MOST_INPUTS} PVs, not {0}")]
    Inputs(usize),
    /// It reads a PV of a type that this door doesn't serve.
    #[error("there is no PV type for {0:?}")]
    Name(String),
}

/// A formula.
#[derive(Debug)]
pub struct Formula {
    parsed: formula::Formula,
    inputs: Vec<FormulaInput>,
    context: Context,
}

#[derive(Debug)]
struct FormulaInput {
    /// The relay's name.
    name: String,
    dialect: Dialect,
}

/// What is known of a connected input.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// Its type and display information.
    pub metadata: &'a Metadata,
    /// Its value.
    pub sample: Sample<'a>,
}

/// The value of a formula.
#[derive(Clone, Debug, PartialEq)]
pub struct Computed {
    /// Its type.
    pub metadata: Metadata,
    /// The value.
    pub value: LocalValue,
    /// The highest alarm of the inputs.
    pub alarm: Alarm,
    /// The alarm's message.
    pub message: String,
    /// Nanoseconds past the POSIX epoch.
    pub time_ns: i64,
}

impl Formula {
    /// Reads a formula without `eq://`. `default` is the source of its PVs without a prefix.
    ///
    /// # Errors
    /// It is not a formula, or this door can't serve its PVs.
    pub fn read(text: &str, default: Dialect) -> Result<Self, FormulaError> {
        let parsed = formula::Formula::parse(text)?;
        let names = parsed.inputs();
        if names.len() > MOST_INPUTS {
            return Err(FormulaError::Inputs(names.len()));
        }
        let input = |asked: &String| {
            let target = target(asked, default).ok_or_else(|| FormulaError::Name(asked.clone()))?;
            Ok(FormulaInput {
                name: target.name,
                dialect: target.dialect,
            })
        };
        let inputs = names
            .iter()
            .map(input)
            .collect::<Result<_, FormulaError>>()?;
        let context = Context {
            max_work: MOST_WORK,
            ..Context::default()
        };
        Ok(Self {
            parsed,
            inputs,
            context,
        })
    }

    /// The relay's names of the PVs that it reads.
    pub fn inputs(&self) -> impl Iterator<Item = &str> {
        self.inputs.iter().map(|input| &*input.name)
    }

    /// Its value now; `None` if an input has none. `inputs` are in the order of [`Formula::inputs`].
    pub fn evaluate(
        &mut self,
        inputs: &[Option<Known<'_>>],
        now_ns: i64,
        utc_offset_seconds: i32,
    ) -> Option<Computed> {
        let known: Vec<_> = inputs.iter().copied().collect::<Option<_>>()?;
        let elements: usize = known.iter().map(|known| elements(known.sample.value)).sum();
        if elements > MOST_WORK {
            let limit = MOST_WORK;
            return Some(failed(&Fault::Work { limit }, now_ns));
        }
        let operands = self.inputs.iter().zip(&known);
        let operands: Vec<_> = operands
            .map(|(input, known)| Input::Connected(input.operand(known)))
            .collect();
        self.context.now = stamp(now_ns);
        self.context.utc_offset_seconds = utc_offset_seconds;
        self.context.random ^= now_ns.cast_unsigned().rotate_left(32);
        let result = self.parsed.evaluate(&operands, &mut self.context)?;
        Some(computed(&result))
    }
}

impl FormulaInput {
    fn operand(&self, known: &Known<'_>) -> Operand {
        let Known { metadata, sample } = known;
        let mut operand = Operand::new(self.value(metadata, sample.value));
        operand.alarm = match sample.alarm {
            Alarm::NONE => formula::Alarm::NOT_SENT,
            Alarm {
                severity: Severity::Invalid,
                status: UDF,
            } if self.dialect == Dialect::Relay => {
                formula::Alarm::new(FormulaSeverity::Undefined, UDF, sample.message)
            }
            Alarm { severity, status } => {
                let severity = FormulaSeverity::from_number(severity.number());
                formula::Alarm::new(severity, status, sample.message)
            }
        };
        operand.time = stamp(sample.time_ns);
        operand.display = (metadata.display.low, metadata.display.high);
        operand
    }

    fn value(&self, metadata: &Metadata, value: Value<'_>) -> FormulaValue {
        match value {
            Value::Number(number) => {
                wire::of_number(number, metadata.value_type, &metadata.choices)
            }
            Value::Blob(BlobValue::Int64(integer)) => wire::of_integer((*integer).into()),
            Value::Blob(BlobValue::UInt64(integer)) => wire::of_integer((*integer).into()),
            Value::Blob(BlobValue::Text(text)) => FormulaValue::text(text),
            Value::Blob(BlobValue::TextArray(texts)) => FormulaValue::Texts(texts[..].into()),
            Value::Blob(BlobValue::Array(array)) => {
                // NAME.FIELD$ is EPICS's way to request a long string.
                let is_text = metadata.form == "String" || self.name.ends_with('$');
                wire::of_array(array, is_text)
            }
            // A structure is not a number.
            Value::Blob(BlobValue::Structure(_) | BlobValue::StructurePart(_)) => {
                FormulaValue::Number(f64::NAN)
            }
        }
    }
}

fn elements(value: Value<'_>) -> usize {
    match value {
        Value::Blob(BlobValue::Array(array)) => array.count as usize,
        Value::Blob(BlobValue::TextArray(texts)) => texts.len(),
        _ => 1,
    }
}

/// The value of a formula that can't be computed: a text that says why.
#[must_use]
pub fn failed(why: &impl fmt::Display, now_ns: i64) -> Computed {
    let why = why.to_string();
    let (metadata, value) = described(&FormulaValue::text(&why), Type::Text, 1);
    Computed {
        metadata,
        value,
        alarm: Alarm {
            severity: Severity::Invalid,
            status: CALC,
        },
        message: why,
        time_ns: now_ns,
    }
}

fn computed(result: &Operand) -> Computed {
    let (metadata, value) = described(&result.value, Type::Long, MOST_WORK as u32);
    let formula::Alarm {
        severity, status, ..
    } = result.alarm;
    Computed {
        metadata,
        value,
        alarm: match severity {
            _ if result.alarm == formula::Alarm::NOT_SENT => Alarm::NONE,
            FormulaSeverity::Undefined => Alarm {
                severity: Severity::Invalid,
                status: UDF,
            },
            _ => Alarm {
                severity: Severity::from_number(severity as u8),
                status,
            },
        },
        message: result
            .alarm
            .message
            .as_deref()
            .unwrap_or_default()
            .to_owned(),
        time_ns: nanoseconds(result.time),
    }
}

fn stamp(time_ns: i64) -> Stamp {
    Stamp {
        seconds: time_ns.div_euclid(1_000_000_000),
        nanoseconds: time_ns.rem_euclid(1_000_000_000) as u32,
    }
}

fn nanoseconds(stamp: Stamp) -> i64 {
    stamp.seconds.saturating_mul(1_000_000_000) + i64::from(stamp.nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALM: Alarm = Alarm {
        severity: Severity::NoAlarm,
        status: 0,
    };

    fn sample(number: f64, alarm: Alarm, time_ns: i64) -> Sample<'static> {
        Sample {
            value: Value::Number(number),
            alarm,
            message: "",
            time_ns,
        }
    }

    fn number(computed: Option<&Computed>) -> f64 {
        match computed.map(|computed| &computed.value) {
            Some(LocalValue::Number(number)) => *number,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn inputs_have_the_relays_names() {
        let text = "`X` + `pva://Y` + 'sim://sine' + `loc://z(3)` + `=1 + 1`";
        let formula = Formula::read(text, Dialect::Ca).unwrap();
        let inputs: Vec<_> = formula.inputs().collect();
        let expected = [
            "ca://X",
            "pva://Y",
            "psim://sine",
            "loc://z(3)",
            "eq://1 + 1",
        ];
        assert_eq!(inputs, expected);
        let formula = Formula::read("X", Dialect::Pva).unwrap();
        assert_eq!(formula.inputs().next(), Some("pva://X"));
    }

    #[test]
    fn value_has_the_alarm_of_the_worst_input_and_the_latest_time() {
        let metadata = Metadata::default();
        let known = |number, severity: Severity, time_ns| {
            let status = 2 + u16::from(severity.number());
            let sample = Sample {
                message: "worn",
                ..sample(number, Alarm { severity, status }, time_ns)
            };
            let metadata = &metadata;
            Some(Known { metadata, sample })
        };
        let mut formula = Formula::read("a + b", Dialect::Ca).unwrap();
        let inputs = [
            known(1.0, Severity::Minor, 5_000_000_007),
            known(2.0, Severity::Major, 3),
        ];
        let computed = formula.evaluate(&inputs, 9, 0).unwrap();
        assert_eq!(number(Some(&computed)), 3.0);
        let major = Alarm {
            severity: Severity::Major,
            status: 4,
        };
        assert_eq!((computed.alarm, &*computed.message), (major, "worn"));
        assert_eq!(computed.time_ns, 5_000_000_007);
        let sent = |alarm| {
            let sample = sample(1.0, alarm, 0);
            let metadata = &metadata;
            Some(Known { metadata, sample })
        };
        for (inputs, alarm) in [
            ([sent(CALM), sent(Alarm::NONE)], Alarm::NONE),
            ([sent(Alarm::NONE), sent(major)], major),
        ] {
            assert_eq!(formula.evaluate(&inputs, 9, 0).unwrap().alarm, alarm);
        }
        assert_eq!(formula.evaluate(&[inputs[0], None], 9, 0), None);
    }

    #[test]
    fn formula_that_fails_is_a_text_that_says_why() {
        for (text, expected) in [
            ("a +", "character"),
            ("nosuch(a)", "unknown function"),
            ("`mqtt://a`", "no PV type"),
        ] {
            let error = Formula::read(text, Dialect::Ca).unwrap_err();
            let computed = failed(&error, 7);
            assert!(computed.message.contains(expected), "{}", computed.message);
            let text = LocalValue::Blob(BlobValue::Text(computed.message.clone()));
            assert_eq!(computed.value, text);
            assert_eq!(computed.alarm.severity, Severity::Invalid);
        }
        let names: Vec<_> = (0..=MOST_INPUTS).map(|n| format!("`p{n}`")).collect();
        let error = Formula::read(&names.join("+"), Dialect::Ca).unwrap_err();
        assert!(error.to_string().contains("at most 64 PVs"), "{error}");
    }

    #[test]
    fn inputs_with_too_many_elements_are_not_worked_on() {
        let count = MOST_WORK as u32 + 1;
        let array = BlobValue::array(
            pvwire_schema::types::ValueType::UInt8,
            count,
            vec![0; count as usize],
        );
        let metadata = Metadata::default();
        let sample = Sample {
            value: Value::Blob(&array),
            ..sample(0.0, CALM, 0)
        };
        let metadata = &metadata;
        let mut formula = Formula::read("arraySum(a, 1)", Dialect::Ca).unwrap();
        let computed = formula.evaluate(&[Some(Known { metadata, sample })], 9, 0);
        let computed = computed.unwrap();
        assert!(computed.message.contains("1048576"), "{}", computed.message);
    }
}
