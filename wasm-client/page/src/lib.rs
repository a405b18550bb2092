//! The JavaScript interface of formulas and local PVs. It is a separate WebAssembly module, so that
//! pages without formulas don't load it. It exchanges values with the client's module through
//! JavaScript.

#![deny(unsafe_code)]

use pvwire_core::formula::reading::{self, Reading, Readings};
use pvwire_core::formula::value::{Stamp, Value};
use pvwire_core::formula::wire::{self, MAX_SAFE_INTEGER};
use pvwire_core::formula::{Context, Formula, Input, Operand, leader};
use pvwire_core::local::{Local, LocalError, Locals, key};
use pvwire_schema::types::{Array, PutValue, ValueType};
use wasm_bindgen::prelude::wasm_bindgen;

/// A small allocator: the standard library's is three times as large.
#[cfg(target_arch = "wasm32")]
#[global_allocator]
static MEMORY: talc::wasm::WasmDynamicTalc = talc::wasm::new_wasm_dynamic_allocator();

/// How JavaScript passes a result on; `ts/store/page.ts` has the same numbers.
const NUMBER: u8 = 0;
const INTEGER: u8 = 1;
const TEXT: u8 = 2;
const NUMBERS: u8 = 3;
const TEXTS: u8 = 4;
const TABLE: u8 = 5;

/// Length of the summary of a result; `ts/store/page.ts` names its elements.
const SUMMARY_LEN: usize = 11;

/// Numbers per input that is read: the input, and type, count and bytes of its array.
const RECORD: usize = 4;

/// A formula and the indexes of its inputs in the list of all inputs.
#[derive(Debug)]
struct Linked {
    formula: Formula,
    inputs: Vec<usize>,
    /// Why it is refused.
    refusal: Option<String>,
}

/// An input of formulas.
#[derive(Debug, Default)]
struct Given {
    is_long_string: bool,
    reading: Option<Reading>,
}

/// The formulas and local PVs of one client.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Page {
    formulas: Vec<Option<Linked>>,
    inputs: Vec<Given>,
    locals: Locals,
    context: Context,
    /// The value that JavaScript passes next, and its elements if it is an array.
    value: Option<Value>,
    array: Option<Array>,
    result: Operand,
    /// Of the result.
    summary: [f64; SUMMARY_LEN],
    error: String,
    /// Records and cells of inputs, and their text and the elements of their arrays.
    cells: Vec<u64>,
    bytes: Vec<u8>,
}

/// The selection to execute for the PVs that formulas read.
#[wasm_bindgen]
#[must_use]
pub fn input_selection() -> String {
    reading::SELECTION.to_owned()
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
            array: None,
            result: Operand::new(Value::Number(f64::NAN)),
            summary: [0.0; SUMMARY_LEN],
            error: String::new(),
            cells: Vec::new(),
            bytes: Vec::new(),
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
            refusal: None,
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
        let Some(Some(linked)) = self.formulas.get_mut(formula as usize) else {
            return;
        };
        linked.inputs = inputs.iter().map(|input| *input as usize).collect();
        for (name, at) in linked.formula.inputs().iter().zip(&linked.inputs) {
            if *at >= self.inputs.len() {
                self.inputs.resize_with(at + 1, Given::default);
            }
            self.inputs[*at].is_long_string = name.ends_with('$');
        }
    }

    /// Called when another slot shows the formula: it knows nothing of the formula yet.
    pub fn restart(&mut self, formula: u32) {
        if let Some(Some(linked)) = self.formulas.get_mut(formula as usize) {
            linked.refusal = None;
        }
    }

    /// Removes a formula.
    pub fn remove_formula(&mut self, formula: u32) {
        if let Some(place) = self.formulas.get_mut(formula as usize) {
            *place = None;
        }
    }

    /// Removes an input.
    pub fn remove_input(&mut self, input: u32) {
        if let Some(given) = self.inputs.get_mut(input as usize) {
            *given = Given::default();
        }
    }

    /// Makes room for records and cells of inputs, as many numbers, and returns their address.
    pub fn reserve_cells(&mut self, numbers: usize) -> usize {
        if self.cells.len() < numbers {
            self.cells.resize(numbers, 0);
        }
        self.cells.as_ptr() as usize
    }

    /// Makes room for the text of inputs and the elements of their arrays, and returns the address.
    pub fn reserve_bytes(&mut self, bytes: usize) -> usize {
        if self.bytes.len() < bytes {
            self.bytes.resize(bytes, 0);
        }
        self.bytes.as_ptr() as usize
    }

    /// Reads as many inputs from the reserved memory: a record for each, then the cells of
    /// [`input_selection`]; `text_bytes` bytes of text, then the elements.
    pub fn read_inputs(&mut self, inputs: usize, text_bytes: usize) {
        let (records, cells) = self
            .cells
            .split_at_checked(inputs * RECORD)
            .unwrap_or_default();
        let (text, mut elements) = self.bytes.split_at_checked(text_bytes).unwrap_or_default();
        let mut readings = Readings::new(cells, text);
        for record in records.as_chunks::<RECORD>().0 {
            let [input, value_type, count, bytes] =
                record.map(|bits| f64::from_bits(bits) as usize);
            let (own, rest) = elements.split_at_checked(bytes).unwrap_or_default();
            elements = rest;
            let array = (value_type > 0).then(|| Array {
                value_type: ValueType::from_number(value_type as u8),
                count: count as u32,
                data: own.to_vec().into(),
            });
            let given = self.inputs.get_mut(input);
            let is_long_string = given.as_ref().is_some_and(|given| given.is_long_string);
            let reading = readings.next(array, is_long_string);
            if let Some(given) = given {
                given.reading = Some(reading);
            }
        }
    }

    /// Evaluates a formula. `now_ms` is milliseconds past the POSIX epoch. Returns a combination of
    /// three numbers: 1 if the formula is refused, for the reason in `error`; 2 if it has a result;
    /// and 4 times the position of the input whose connection state it has, plus 4, if there is one.
    pub fn evaluate(&mut self, formula: u32, now_ms: f64, utc_offset_seconds: i32) -> u32 {
        let Some(Some(linked)) = self.formulas.get_mut(formula as usize) else {
            return 0;
        };
        let inputs = linked
            .inputs
            .iter()
            .map(|at| self.inputs.get(*at)?.reading.as_ref());
        let mut outcome = 0;
        if let Some(at) = leader(inputs.clone().map(|reading| Some(&reading?.link))) {
            let name = linked.formula.inputs().get(at);
            let link = inputs
                .clone()
                .nth(at)
                .flatten()
                .map(|reading| &reading.link);
            let refusal = link.zip(name).and_then(|(link, name)| link.refusal(name));
            match &refusal {
                None => outcome |= 4 * (at as u32 + 1),
                Some(_) if refusal == linked.refusal => {}
                Some(reason) => {
                    outcome |= 1;
                    self.error.clone_from(reason);
                }
            }
            linked.refusal = refusal;
        }
        self.context.now = stamp(now_ms);
        self.context.utc_offset_seconds = utc_offset_seconds;
        let given = inputs.map(|reading| reading.map(|reading| reading.input.clone()));
        let given: Vec<Input> = given.map(Option::unwrap_or_default).collect();
        if let Some(result) = linked.formula.evaluate(&given, &mut self.context) {
            self.set_result(result, false);
            outcome |= 2;
        }
        outcome
    }

    /// Sets the next value to a number.
    pub fn value_number(&mut self, value: f64) {
        self.put(&PutValue::Number(value));
    }

    /// Sets the next value to an integer.
    pub fn value_int64(&mut self, value: i64) {
        self.put(&PutValue::Int64(value));
    }

    /// Sets the next value to an integer beyond the range of `value_int64`.
    pub fn value_uint64(&mut self, value: u64) {
        self.put(&PutValue::UInt64(value));
    }

    /// Sets the next value to true or false.
    pub fn value_boolean(&mut self, value: bool) {
        self.value = Some(Value::Boolean(value));
        self.array = None;
    }

    /// Sets the next value to a string.
    pub fn value_text(&mut self, value: String) {
        self.put(&PutValue::Text(value));
    }

    /// Sets the next value to an array of strings.
    pub fn value_texts(&mut self, value: Vec<String>) {
        self.put(&PutValue::TextArray(value));
    }

    /// Sets the next value to an array of numbers of a type, little-endian.
    pub fn value_array(&mut self, value_type: u8, count: u32, bytes: Vec<u8>) {
        self.put(&PutValue::Array(Array {
            value_type: ValueType::from_number(value_type),
            count,
            data: bytes.into(),
        }));
    }

    fn put(&mut self, value: &PutValue) {
        self.value = Some(wire::of_put(value));
        self.array = match value {
            PutValue::Array(array) => Some(array.clone()),
            _ => None,
        };
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
                let mut result = local.operand();
                result.time = stamp(now_ms);
                self.set_result(result, true);
                Some(())
            }
            Err(error) => {
                self.error = error.to_string();
                None
            }
        }
    }

    fn set_result(&mut self, result: Operand, writable: bool) {
        let kind = match &result.value {
            Value::Integer(integer) if integer.unsigned_abs() > MAX_SAFE_INTEGER => INTEGER,
            Value::Number(_) | Value::Integer(_) | Value::Boolean(_) | Value::Enum { .. } => NUMBER,
            Value::Text(_) => TEXT,
            Value::Numbers(_) => NUMBERS,
            Value::Texts(_) => TEXTS,
            Value::Table(_) => TABLE,
        };
        let shown = wire::shown(&result, writable);
        self.summary = [
            kind.into(),
            result.value.to_number(),
            shown.value_type.number().into(),
            shown.precision.map_or(-1.0, f64::from),
            f64::from(result.alarm.severity as u8),
            result.alarm.status.into(),
            shown.seconds,
            shown.nanoseconds.into(),
            f64::from(u8::from(writable)),
            f64::from(u8::from(result.alarm.message.is_some())),
            f64::from(u8::from(matches!(result.value, Value::Enum { .. }))),
        ];
        self.result = result;
    }

    /// The address of the result's summary: its kind, the number, its type as the wire's number, its
    /// precision or -1, severity, alarm status, whole seconds and nanoseconds of its time, whether it is
    /// writable, whether it has an alarm message, and whether it has labels.
    #[must_use]
    pub fn summary(&self) -> usize {
        self.summary.as_ptr() as usize
    }

    /// Why the last call failed, or the last formula is refused.
    #[must_use]
    pub fn error(&self) -> String {
        self.error.clone()
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

    /// Alarm message of the result; empty if it has none.
    #[must_use]
    pub fn message(&self) -> String {
        let message = self.result.alarm.message.as_deref();
        message.unwrap_or_default().to_owned()
    }

    /// Type of the last value's elements, as the wire's number; 0 if it is not an array of numbers.
    #[must_use]
    pub fn staged_type(&self) -> u8 {
        (self.array.as_ref()).map_or(0, |array| array.value_type.number())
    }

    /// The elements of the last value, if it is an array of numbers.
    #[must_use]
    pub fn staged_array(&self) -> Vec<u8> {
        (self.array.as_ref()).map_or_else(Vec::new, |array| array.data.to_vec())
    }
}

fn stamp(now_ms: f64) -> Stamp {
    let seconds = (now_ms / 1000.0).floor();
    Stamp {
        seconds: seconds as i64,
        nanoseconds: ((now_ms - seconds * 1000.0) * 1e6) as u32,
    }
}
