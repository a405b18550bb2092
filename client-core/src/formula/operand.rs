//! The operands of formulas: values with alarm, time and limits; and the work of one evaluation.

use std::sync::Arc;

use super::error::Fault;
use super::value::{Severity, Stamp, Value};
use super::{MAX_TEXT_BYTES, MAX_WORK};

/// Alarm status CALC of `alarm.h`: a value can't be computed.
pub const CALC: u16 = 12;

/// Alarm status UDF of `alarm.h`: the severity is undefined.
pub const UDF: u16 = 17;

/// Alarm status SOFT of `alarm.h`: a formula raises the alarm.
pub const SOFT: u16 = 15;

/// Severity, and the condition and message that explain it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Alarm {
    /// The severity.
    pub severity: Severity,
    /// Alarm condition of `alarm.h`, or 100 plus the status class of pvAccess; 0 without an alarm.
    pub status: u16,
    /// Message; `None` if the severity has none.
    pub message: Option<Arc<str>>,
}

impl Alarm {
    /// The alarm of a PV whose server sends none.
    pub const NOT_SENT: Self = Self {
        severity: Severity::Undefined,
        status: 0,
        message: None,
    };

    /// That of a value that was never set.
    pub const UNDEFINED: Self = Self {
        severity: Severity::Undefined,
        status: UDF,
        message: None,
    };

    /// An alarm; without a severity it has neither status nor message.
    #[must_use]
    pub fn new(severity: Severity, status: u16, message: &str) -> Self {
        if severity == Severity::None {
            return Self::default();
        }
        Self {
            severity,
            status,
            message: (!message.is_empty()).then(|| message.into()),
        }
    }

    /// The more severe one; `self` if both are equal.
    #[must_use]
    pub(super) fn or(self, other: &Self) -> Self {
        if other.rank() > self.rank() {
            other.clone()
        } else {
            self
        }
    }

    /// Grows with the severity. An alarm that isn't sent hides none that is.
    fn rank(&self) -> u8 {
        let is_sent = *self != Self::NOT_SENT;
        if is_sent { 2 * self.severity as u8 } else { 1 }
    }
}

/// An input or an intermediate result: a value with its alarm, time stamp and display limits.
#[derive(Clone, Debug, PartialEq)]
pub struct Operand {
    /// The value.
    pub value: Value,
    /// Its alarm.
    pub alarm: Alarm,
    /// Its time stamp; 0 for constants.
    pub time: Stamp,
    /// Its display limits; NaN if it has none.
    pub display: (f64, f64),
}

impl Operand {
    /// A value without alarm, time and limits.
    #[must_use]
    pub fn new(value: Value) -> Self {
        Self {
            value,
            alarm: Alarm::default(),
            time: Stamp::default(),
            display: (f64::NAN, f64::NAN),
        }
    }
}

/// Counts the elements that an evaluation works on.
#[derive(Debug)]
pub(super) struct Work {
    done: usize,
    limit: usize,
}

impl Work {
    /// No elements so far; at most `limit`, and never more than [`MAX_WORK`].
    pub(super) fn new(limit: usize) -> Self {
        Self {
            done: 0,
            limit: limit.min(MAX_WORK),
        }
    }

    /// Adds to the number of elements.
    ///
    /// # Errors
    /// The number exceeds the limit.
    pub(super) fn add(&mut self, elements: usize) -> Result<(), Fault> {
        self.done = self.done.saturating_add(elements);
        if self.done > self.limit {
            return Err(Fault::Work { limit: self.limit });
        }
        Ok(())
    }
}

pub(super) fn truth(is: bool) -> f64 {
    f64::from(u8::from(is))
}

/// Applies a function to each element of an array, or to a number.
pub(super) fn elements(
    value: &Value,
    work: &mut Work,
    function: impl Fn(f64) -> f64,
) -> Result<Value, Fault> {
    let Value::Numbers(numbers) = value else {
        return Ok(Value::Number(function(value.to_number())));
    };
    work.add(numbers.len())?;
    Ok(Value::Numbers(
        numbers.iter().map(|number| function(*number)).collect(),
    ))
}

/// A value as text of limited length.
pub(super) fn limited_text(value: &Value, work: &mut Work) -> Result<String, Fault> {
    work.add(value.elements())?;
    let limit = MAX_TEXT_BYTES;
    // Each element has at least a comma and a space.
    let text = if value.elements() > limit / 2 {
        return Err(Fault::Text { limit });
    } else {
        value.to_text()
    };
    if text.len() > limit {
        return Err(Fault::Text { limit });
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worst_alarm_has_its_status_and_message_and_one_not_sent_hides_none() {
        let calm = Alarm::default();
        let minor = Alarm::new(Severity::Minor, 6, "low");
        let major = Alarm::new(Severity::Major, 3, "");
        let other = Alarm::new(Severity::Major, 105, "worn");
        let undefined = Alarm::UNDEFINED;
        for (worse, alarms) in [
            (&minor, [&calm, &minor]),
            (&major, [&minor, &major]),
            (&major, [&major, &other]),
            (&Alarm::NOT_SENT, [&calm, &Alarm::NOT_SENT]),
            (&minor, [&Alarm::NOT_SENT, &minor]),
            (&undefined, [&undefined, &major]),
        ] {
            let [first, second] = alarms;
            assert_eq!(&first.clone().or(second), worse);
            if first.rank() != second.rank() {
                assert_eq!(&second.clone().or(first), worse);
            }
        }
        assert_eq!(Alarm::new(Severity::None, 17, "old"), calm);
    }
}
