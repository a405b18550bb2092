//! Functions of texts and enums.

use super::Call;
use crate::formula::MAX_TEXT_BYTES;
use crate::formula::error::Fault;
use crate::formula::operand::limited_text;
use crate::formula::value::{Value, java_number};

type Result<T = Value> = std::result::Result<T, Fault>;

/// Texts, labels and the elements of arrays, one after another.
pub(super) fn concatenate(call: &mut Call<'_>) -> Result {
    let mut text = String::new();
    for at in 0..call.arguments.len() {
        match call.value(at) {
            Value::Numbers(numbers) => {
                for number in numbers.iter() {
                    append(call, &mut text, &java_number(*number))?;
                }
            }
            Value::Texts(texts) => {
                for each in texts.iter() {
                    append(call, &mut text, each)?;
                }
            }
            value => {
                let each = limited_text(value, call.work)?;
                append(call, &mut text, &each)?;
            }
        }
    }
    Ok(Value::Text(text.into()))
}

fn append(call: &mut Call<'_>, text: &mut String, more: &str) -> Result<()> {
    call.work.add(1)?;
    text.push_str(more);
    if text.len() > MAX_TEXT_BYTES {
        return Err(Fault::Text {
            limit: MAX_TEXT_BYTES,
        });
    }
    Ok(())
}

/// Whether two texts or labels are equal; false for everything else.
pub(super) fn equal(call: &mut Call<'_>) -> Result {
    let is_text = |at| matches!(call.value(at), Value::Text(_) | Value::Enum { .. });
    let equal = is_text(0) && is_text(1) && call.value(0).to_text() == call.value(1).to_text();
    Ok(Value::Boolean(equal))
}

/// An enum whose index is the number of intervals that begin at or below the value.
pub(super) fn enumeration(call: &mut Call<'_>) -> Result {
    let value = call.number(0);
    let Value::Texts(labels) = call.value(2) else {
        return Err(call.wrong(2, "an array of texts"));
    };
    let begins = call.numbers(1)?;
    let index = begins.iter().take_while(|begin| value >= **begin).count();
    if index >= labels.len() {
        return Err(Fault::Index {
            function: call.name,
            index: index as f64,
            length: labels.len(),
        });
    }
    Ok(Value::Enum {
        index: index as i32,
        labels: labels.clone(),
    })
}

/// The index of an enum.
pub(super) fn index(call: &mut Call<'_>) -> Result {
    match call.value(0) {
        Value::Enum { index, .. } => Ok(Value::Integer(i64::from(*index))),
        _ => Err(call.wrong(0, "an enum")),
    }
}
