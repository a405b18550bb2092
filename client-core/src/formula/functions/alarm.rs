//! Functions that read or set the alarm.

use super::Call;
use crate::formula::error::Fault;
use crate::formula::operand::{Alarm, SOFT, limited_text};
use crate::formula::value::{Severity, Value};

/// The highest severity of the arguments, as an enum.
pub(super) fn highest(call: &mut Call<'_>) -> Result<Value, Fault> {
    Ok(Value::Enum {
        index: call.alarm.severity as i32,
        labels: Severity::LABELS.map(str::to_owned).into(),
    })
}

pub(super) fn major(call: &mut Call<'_>) -> Result<Value, Fault> {
    raise(call, Severity::Major)
}

pub(super) fn minor(call: &mut Call<'_>) -> Result<Value, Fault> {
    raise(call, Severity::Minor)
}

/// Sets the alarm if the condition is true, and removes it otherwise.
fn raise(call: &mut Call<'_>, severity: Severity) -> Result<Value, Fault> {
    if !matches!(call.value(1), Value::Text(_)) {
        return Err(call.wrong(1, "a text"));
    }
    let message = limited_text(call.value(1), call.work)?;
    // A condition that is not a number is false, like a comparison with NaN.
    let condition = call.number(0);
    let is_raised = condition != 0.0 && !condition.is_nan();
    *call.alarm = if is_raised {
        Alarm::new(severity, SOFT, &message)
    } else {
        Alarm::default()
    };
    let prefix = if is_raised { "True: " } else { "False: " };
    Ok(Value::text(&format!("{prefix}{message}")))
}
