//! The JavaScript interface of formulas and local PVs. It is a separate WebAssembly module, so that
//! pages without formulas don't load it. It exchanges values with the client's module through
//! JavaScript.

#![deny(unsafe_code)]

use pvwire_core::formula::value::{Severity, Stamp, Value};
use pvwire_core::formula::{Alarm, Context, Formula, Input, Operand};
use pvwire_core::local::{Local, LocalError, Locals, key};
use wasm_bindgen::prelude::wasm_bindgen;

/// A small allocator: the standard library's is three times as large.
#[cfg(target_arch = "wasm32")]
#[global_allocator]
static MEMORY: talc::wasm::WasmDynamicTalc = talc::wasm::new_wasm_dynamic_allocator();

/// Kinds of results; `ts/store/page.ts` has the same numbers.
const NUMBER: u8 = 0;
const INTEGER: u8 = 1;
const BOOLEAN: u8 = 2;
const TEXT: u8 = 3;
const ENUM: u8 = 4;
const NUMBERS: u8 = 5;
const TEXTS: u8 = 6;
const TABLE: u8 = 7;

/// A formula and the indexes of its inputs in the list of all inputs.
#[derive(Debug)]
struct Linked {
    formula: Formula,
    inputs: Vec<usize>,
}

/// The formulas and local PVs of one client.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Page {
    formulas: Vec<Option<Linked>>,
    inputs: Vec<Input>,
    locals: Locals,
    context: Context,
    /// The value that JavaScript passes next.
    value: Option<Value>,
    result: Operand,
    error: String,
}

#[wasm_bindgen]
impl Page {
    /// A page without formulas and local PVs. `random` is the seed of the random numbers of
    /// formulas.
    #[wasm_bindgen(constructor)]
    #[must_use]
    pub fn new(random: f64) -> Self {
        Self {
            formulas: Vec::new(),
            inputs: Vec::new(),
            locals: Locals::default(),
            context: Context {
                random: random.to_bits(),
                ..Context::default()
            },
            value: None,
            result: Operand::new(Value::Number(f64::NAN)),
            error: String::new(),
        }
    }

    /// Adds a formula and returns its number; if the text is not a formula, `error` says why.
    pub fn add_formula(&mut self, text: &str) -> Option<u32> {
        let formula = match Formula::parse(text) {
            Ok(formula) => formula,
            Err(error) => {
                self.error = error.to_string();
                return None;
            }
        };
        let free = self.formulas.iter().position(Option::is_none);
        let at = free.unwrap_or(self.formulas.len());
        if at == self.formulas.len() {
            self.formulas.push(None);
        }
        self.formulas[at] = Some(Linked {
            formula,
            inputs: Vec::new(),
        });
        Some(at as u32)
    }

    /// The names of the PVs that a formula reads.
    #[must_use]
    pub fn names(&self, formula: u32) -> Vec<String> {
        let linked = self.formulas.get(formula as usize).and_then(Option::as_ref);
        linked.map_or_else(Vec::new, |linked| linked.formula.inputs().to_vec())
    }

    /// Sets the inputs of a formula, in the order of its names.
    pub fn link(&mut self, formula: u32, inputs: &[u32]) {
        if let Some(Some(linked)) = self.formulas.get_mut(formula as usize) {
            linked.inputs = inputs.iter().map(|input| *input as usize).collect();
        }
    }

    /// Removes a formula.
    pub fn remove_formula(&mut self, formula: u32) {
        if let Some(place) = self.formulas.get_mut(formula as usize) {
            *place = None;
        }
    }

    /// Sets the next value to a number.
    pub fn value_number(&mut self, value: f64) {
        self.value = Some(Value::Number(value));
    }

    /// Sets the next value to an integer.
    pub fn value_integer(&mut self, value: i64) {
        self.value = Some(Value::Integer(value));
    }

    /// Sets the next value to true or false.
    pub fn value_boolean(&mut self, value: bool) {
        self.value = Some(Value::Boolean(value));
    }

    /// Sets the next value to a string.
    pub fn value_text(&mut self, value: &str) {
        self.value = Some(Value::text(value));
    }

    /// Sets the next value to an enum.
    pub fn value_enum(&mut self, index: i32, labels: Vec<String>) {
        self.value = Some(Value::Enum {
            index,
            labels: labels.into(),
        });
    }

    /// Sets the next value to an array of numbers.
    pub fn value_numbers(&mut self, value: Vec<f64>) {
        self.value = Some(Value::Numbers(value.into()));
    }

    /// Sets the next value to an array of strings.
    pub fn value_texts(&mut self, value: Vec<String>) {
        self.value = Some(Value::Texts(value.into()));
    }

    /// Gives an input the next value, with its severity, time stamp, alarm message and display
    /// limits.
    // Each parameter is a number or text in JavaScript; the fields of an object would be read one
    // by one.
    #[allow(clippy::too_many_arguments)]
    pub fn set_input(
        &mut self,
        input: u32,
        severity: u8,
        message: &str,
        seconds: f64,
        nanoseconds: u32,
        low: f64,
        high: f64,
    ) {
        let Some(value) = self.value.take() else {
            return;
        };
        *self.input(input) = Input::Connected(Operand {
            value,
            alarm: Alarm {
                severity: Severity::from_number(severity),
                message: (!message.is_empty()).then(|| message.into()),
            },
            time: Stamp {
                seconds: seconds as i64,
                nanoseconds,
            },
            display: (low, high),
        });
    }

    /// Marks an input as not connected or without a value.
    pub fn clear_input(&mut self, input: u32) {
        *self.input(input) = Input::Disconnected;
    }

    fn input(&mut self, input: u32) -> &mut Input {
        let at = input as usize;
        if at >= self.inputs.len() {
            self.inputs.resize(at + 1, Input::Disconnected);
        }
        &mut self.inputs[at]
    }

    /// Evaluates a formula. Returns `false` if an input is not connected. `now_ms` is milliseconds
    /// past the POSIX epoch.
    pub fn evaluate(&mut self, formula: u32, now_ms: f64, utc_offset_seconds: i32) -> bool {
        let Some(Some(linked)) = self.formulas.get(formula as usize) else {
            return false;
        };
        self.context.now = stamp(now_ms);
        self.context.utc_offset_seconds = utc_offset_seconds;
        let given = linked.inputs.iter().map(|at| self.inputs.get(*at).cloned());
        let given: Vec<Input> = given.map(Option::unwrap_or_default).collect();
        match linked.formula.evaluate(&given, &mut self.context) {
            Some(result) => {
                self.result = result;
                true
            }
            None => false,
        }
    }

    /// Opens a local PV: its value is the result. Returns the name that identifies it; if the PV
    /// can't be opened, `error` says why.
    pub fn open_local(&mut self, name: &str, now_ms: f64) -> Option<String> {
        let opened = self.locals.open(name).map(|local| local.clone());
        self.took(opened, now_ms)?;
        key(name).ok().map(str::to_owned)
    }

    /// Writes the next value to a local PV, whose new value is the result. Returns the name that
    /// identifies the PV; if nothing was written, `error` says why.
    pub fn write_local(&mut self, name: &str, now_ms: f64) -> Option<String> {
        let value = self.value.take().unwrap_or(Value::Number(f64::NAN));
        let written = self.locals.write(name, &value).cloned();
        self.took(written, now_ms)?;
        key(name).ok().map(str::to_owned)
    }

    fn took(&mut self, local: Result<Local, LocalError>, now_ms: f64) -> Option<()> {
        match local {
            Ok(local) => {
                self.result = Operand::new(local.value);
                self.result.alarm.severity = local.severity;
                self.result.time = stamp(now_ms);
                Some(())
            }
            Err(error) => {
                self.error = error.to_string();
                None
            }
        }
    }

    /// Why the last call failed.
    #[must_use]
    pub fn error(&self) -> String {
        self.error.clone()
    }

    /// Kind of the result.
    #[must_use]
    pub fn kind(&self) -> u8 {
        match &self.result.value {
            Value::Number(_) => NUMBER,
            Value::Integer(_) => INTEGER,
            Value::Boolean(_) => BOOLEAN,
            Value::Text(_) => TEXT,
            Value::Enum { .. } => ENUM,
            Value::Numbers(_) => NUMBERS,
            Value::Texts(_) => TEXTS,
            Value::Table(_) => TABLE,
        }
    }

    /// The result as a number.
    #[must_use]
    pub fn number(&self) -> f64 {
        self.result.value.to_number()
    }

    /// The result, if it is an integer.
    #[must_use]
    pub fn integer(&self) -> i64 {
        match &self.result.value {
            Value::Integer(integer) => *integer,
            _ => 0,
        }
    }

    /// The result, if it is a string.
    #[must_use]
    pub fn text(&self) -> String {
        match &self.result.value {
            Value::Text(text) => text.to_string(),
            _ => String::new(),
        }
    }

    /// The result, if it is an array of numbers.
    #[must_use]
    pub fn numbers(&self) -> Vec<f64> {
        match &self.result.value {
            Value::Numbers(numbers) => numbers.to_vec(),
            _ => Vec::new(),
        }
    }

    /// The result, if it is an array of strings; the labels of an enum, the columns of a table.
    #[must_use]
    pub fn texts(&self) -> Vec<String> {
        match &self.result.value {
            Value::Texts(texts) | Value::Table(texts) | Value::Enum { labels: texts, .. } => {
                texts.to_vec()
            }
            _ => Vec::new(),
        }
    }

    /// Severity of the result: 0 to 3, 4 if it is undefined.
    #[must_use]
    pub fn severity(&self) -> u8 {
        self.result.alarm.severity as u8
    }

    /// Alarm message of the result; empty if it has none.
    #[must_use]
    pub fn message(&self) -> String {
        let message = self.result.alarm.message.as_deref();
        message.unwrap_or_default().to_owned()
    }

    /// Time stamp of the result: whole seconds past the POSIX epoch.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.result.time.seconds as f64
    }

    /// Time stamp of the result: the remaining nanoseconds.
    #[must_use]
    pub fn nanoseconds(&self) -> u32 {
        self.result.time.nanoseconds
    }
}

fn stamp(now_ms: f64) -> Stamp {
    let seconds = (now_ms / 1000.0).floor();
    Stamp {
        seconds: seconds as i64,
        nanoseconds: ((now_ms - seconds * 1000.0) * 1e6) as u32,
    }
}
