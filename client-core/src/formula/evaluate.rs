//! Runs a compiled formula on the present values of its inputs.

use super::error::Fault;
use super::functions::{Call, Run};
use super::operand::{Operand, Work, elements, limited_text, truth};
use super::parser::{Binary, Program, Step};
use super::value::{Value, number_in};
use super::{Context, MAX_TEXT_BYTES};

/// Runs the program. Each input must have a value.
pub(super) fn run(
    program: &Program,
    inputs: &[Operand],
    context: &mut Context,
) -> Result<Operand, Fault> {
    let mut stack: Vec<Operand> = Vec::new();
    let mut work = Work::new(context.max_work);
    let mut at = 0;
    while let Some(step) = program.steps.get(at) {
        at += 1;
        work.add(1)?;
        match step {
            Step::Constant(value) => stack.push(Operand::new(value.clone())),
            Step::Input(index) => stack.push(inputs[*index].clone()),
            Step::Not => {
                let mut operand = pop(&mut stack);
                operand.value = elements(&operand.value, &mut work, |number| truth(number == 0.0))?;
                stack.push(operand);
            }
            Step::Binary(operator) => {
                let (right, left) = (pop(&mut stack), pop(&mut stack));
                stack.push(binary(*operator, left, &right, &mut work)?);
            }
            Step::Call(function, count) => {
                let arguments = stack.split_off(stack.len() - count);
                stack.push(call(
                    function.name,
                    function.run,
                    &arguments,
                    &mut work,
                    context,
                )?);
            }
            Step::Branch { no, end } => {
                let condition = stack.last().map_or(f64::NAN, |top| top.value.to_number());
                if !condition.is_finite() {
                    at = *end;
                } else if condition == 0.0 {
                    at = *no;
                }
            }
            Step::Jump(to) => at = *to,
            Step::Join => {
                let (mut value, condition) = (pop(&mut stack), pop(&mut stack));
                value.alarm = condition.alarm.or(&value.alarm);
                value.time = value.time.max(condition.time);
                stack.push(value);
            }
        }
    }
    Ok(pop(&mut stack))
}

/// Takes the top of the stack. The parser emits every step after its operands.
fn pop(stack: &mut Vec<Operand>) -> Operand {
    stack
        .pop()
        .unwrap_or_else(|| Operand::new(Value::Number(f64::NAN)))
}

fn call(
    name: &'static str,
    run: Run,
    arguments: &[Operand],
    work: &mut Work,
    context: &mut Context,
) -> Result<Operand, Fault> {
    let mut result = Operand::new(Value::Number(f64::NAN));
    for argument in arguments {
        result.alarm = result.alarm.or(&argument.alarm);
        result.time = result.time.max(argument.time);
    }
    let number = |at: usize| {
        arguments
            .get(at)
            .map_or(f64::NAN, |one| one.value.to_number())
    };
    result.value = match run {
        Run::One(function) => Value::Number(function(number(0))),
        Run::Two(function) => Value::Number(function(number(0), number(1))),
        Run::Any(function) => function(&mut Call {
            name,
            arguments,
            alarm: &mut result.alarm,
            work,
            context,
        })?,
    };
    Ok(result)
}

fn binary(
    operator: Binary,
    left: Operand,
    right: &Operand,
    work: &mut Work,
) -> Result<Operand, Fault> {
    let value = match (operator, &left.value, &right.value) {
        (Binary::Add, Value::Text(_), _) | (Binary::Add, _, Value::Text(_)) => {
            let mut text = limited_text(&left.value, work)?;
            text.push_str(&limited_text(&right.value, work)?);
            if text.len() > MAX_TEXT_BYTES {
                return Err(Fault::Text {
                    limit: MAX_TEXT_BYTES,
                });
            }
            Value::Text(text.into())
        }
        (Binary::Equal | Binary::Unequal, a, b) if are_words(a, b) => {
            let equal = a.to_text() == b.to_text();
            Value::Number(truth(equal == (operator == Binary::Equal)))
        }
        (_, Value::Numbers(a), Value::Numbers(b)) => {
            work.add(a.len().min(b.len()))?;
            let pairs = a.iter().zip(b.iter());
            Value::Numbers(pairs.map(|(a, b)| calculate(operator, *a, *b)).collect())
        }
        // As in Phoebus, an array beside a single value counts as its first element.
        (_, a, b) => Value::Number(calculate(operator, a.to_number(), b.to_number())),
    };
    Ok(Operand {
        value,
        alarm: left.alarm.or(&right.alarm),
        time: left.time.max(right.time),
        display: left.display,
    })
}

/// Whether two values are compared as text: both are texts or enums, and one of them is a text that
/// is not a number.
fn are_words(a: &Value, b: &Value) -> bool {
    let is_text = |value: &Value| matches!(value, Value::Text(_) | Value::Enum { .. });
    let is_word = |value: &Value| matches!(value, Value::Text(text) if number_in(text).is_none());
    is_text(a) && is_text(b) && (is_word(a) || is_word(b))
}

fn calculate(operator: Binary, a: f64, b: f64) -> f64 {
    match operator {
        Binary::And => truth(a != 0.0 && b != 0.0),
        Binary::Or => truth(a != 0.0 || b != 0.0),
        Binary::Equal => truth(a == b),
        Binary::Unequal => truth(a != b),
        Binary::Greater => truth(a > b),
        Binary::GreaterOrEqual => truth(a >= b),
        Binary::Less => truth(a < b),
        Binary::LessOrEqual => truth(a <= b),
        Binary::Add => a + b,
        Binary::Subtract => a - b,
        Binary::Multiply => a * b,
        Binary::Divide => a / b,
        Binary::Power => a.powf(b),
        Binary::Remainder => a % b,
    }
}
