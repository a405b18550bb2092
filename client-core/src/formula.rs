//! Formulas over PVs, in the language of Phoebus: `` =`A` + `B` * 2 `` or `` eq://`A` + `B` * 2 ``.
//!
//! A formula is parsed once. Its host subscribes to the [inputs](Formula::inputs) and evaluates the
//! formula with their present values when one of them changes. The language, its functions and its
//! limits are described in `docs/reference/formulas.md`.
//!
//! ```
//! use pvwire_core::formula::{Context, Formula, Input, Operand};
//! use pvwire_core::formula::value::Value;
//!
//! let formula = Formula::parse("`A` + `B` * 2")?;
//! assert_eq!(formula.inputs(), ["A", "B"]);
//! let inputs = [1.0, 3.0].map(|number| Input::Connected(Operand::new(Value::Number(number))));
//! let result = formula.evaluate(&inputs, &mut Context::default());
//! assert_eq!(result.map(|result| result.value), Some(Value::Number(7.0)));
//! # Ok::<(), pvwire_core::formula::ParseError>(())
//! ```

mod error;
mod evaluate;
mod follow;
mod functions;
mod lexer;
mod operand;
mod parser;
pub mod reading;
pub mod value;
pub mod wire;

pub use self::error::{Fault, ParseError, Problem};
pub use self::follow::{Link, leader};
pub use self::operand::{Alarm, CALC, Operand, SOFT, UDF};
use self::parser::Program;
use self::value::{Severity, Stamp, Value};

/// Maximum number of characters of a formula.
pub const MAX_CHARACTERS: usize = 10_000;

/// Maximum nesting depth of brackets, functions and conditions.
pub const MAX_DEPTH: usize = 100;

/// Maximum number of PVs that a formula reads.
pub const MAX_INPUTS: usize = 256;

/// Maximum number of array elements that one evaluation works on, including those of its result.
pub const MAX_WORK: usize = 1 << 24;

/// Maximum length of a text that a formula computes, in bytes.
pub const MAX_TEXT_BYTES: usize = 1 << 16;

/// The text of the formula, if the PV name is a formula.
#[must_use]
pub fn expression(name: &str) -> Option<&str> {
    name.strip_prefix('=')
        .or_else(|| name.strip_prefix("eq://"))
}

/// The names of all functions.
pub fn function_names() -> impl Iterator<Item = &'static str> {
    functions::FUNCTIONS.iter().map(|function| function.name)
}

/// An input of a formula at the time of an evaluation.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Input {
    /// Its PV is not connected or has no value yet.
    #[default]
    Disconnected,
    /// The present value of its PV.
    Connected(Operand),
}

/// What an evaluation needs in addition to its inputs.
#[derive(Clone, Debug, PartialEq)]
pub struct Context {
    /// The present time: the time stamp of formulas without inputs.
    pub now: Stamp,
    /// Local time minus UTC in seconds, for `timestamp`.
    pub utc_offset_seconds: i32,
    /// Maximum number of array elements that one evaluation works on, at most [`MAX_WORK`].
    pub max_work: usize,
    /// State of the random number generator of `rnd`; each number changes it.
    pub random: u64,
}

impl Default for Context {
    fn default() -> Self {
        Self {
            now: Stamp::default(),
            utc_offset_seconds: 0,
            max_work: MAX_WORK,
            random: 0x9e37_79b9_7f4a_7c15,
        }
    }
}

/// A parsed formula.
#[derive(Debug)]
pub struct Formula {
    program: Program,
}

impl Formula {
    /// Parses the text of a formula, without `=` or `eq://`.
    ///
    /// # Errors
    /// The text is not a formula, or it exceeds a limit.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        parser::parse(text).map(|program| Self { program })
    }

    /// The names of the PVs that the formula reads, each once.
    #[must_use]
    pub fn inputs(&self) -> &[String] {
        &self.program.inputs
    }

    /// The formula's value, or `None` if an input is not connected. `inputs` are in the order of
    /// [`Formula::inputs`]; missing ones count as not connected.
    ///
    /// If a function can't work with the present values, the result is a text that says why, with
    /// the severity `Invalid`.
    #[must_use]
    pub fn evaluate(&self, inputs: &[Input], context: &mut Context) -> Option<Operand> {
        let mut operands = Vec::new();
        for at in 0..self.program.inputs.len() {
            let Some(Input::Connected(operand)) = inputs.get(at) else {
                return None;
            };
            operands.push(operand.clone());
        }
        let latest = operands.iter().map(|operand| operand.time).max();
        let mut result = evaluate::run(&self.program, &operands, context).unwrap_or_else(|fault| {
            let message = fault.to_string();
            let mut result = Operand::new(Value::text(&message));
            result.alarm = Alarm::new(Severity::Invalid, CALC, &message);
            result
        });
        result.time = latest.unwrap_or(context.now);
        Some(result)
    }
}
