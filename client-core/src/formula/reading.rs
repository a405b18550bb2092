//! Reads the inputs of formulas from the cells of a selection: a page computes formulas in another
//! module than the one that stores PVs.

use pvwire_schema::types::{Array, ConnectionState, ValueType};

use super::follow::Link;
use super::value::{Severity, Stamp, Value};
use super::{Alarm, Input, Operand, wire};
use crate::select::execute::{
    Cell, Cells, Content, severity_of, state_of, status_of, value_type_of,
};
use crate::store::state;

/// The selection to execute for each input. `exact` has the digits of integers that a double can't
/// hold.
pub const SELECTION: &str = "{ connection { state since lastHeard reason } \
    value { number exact text array } \
    time { seconds nanoseconds } \
    status { severity alarmStatus message } \
    display { type form choices displayRange { min max } } }";

/// The state of an input's PV.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// Its value.
    pub input: Input,
    /// Its connection; times are texts that sort like the times.
    pub link: Link<String>,
}

/// Type and choices of a value, and what else the metadata say.
struct Known {
    value_type: ValueType,
    is_text: bool,
    choices: Vec<String>,
    display: (f64, f64),
}

/// A value as its cells give it.
enum Given<'a> {
    Number(f64),
    /// All digits of an integer, and the nearest double.
    Integer(&'a str, f64),
    Text(&'a str),
    Texts(Vec<String>),
    /// Its elements are not in cells.
    Array,
    /// A structure, or a value of an unknown type.
    Other,
}

/// The cells of any number of inputs.
pub struct Readings<'a> {
    cells: Cells<'a>,
}

impl<'a> Readings<'a> {
    /// Reads cells and text of executions of [`SELECTION`], with
    /// [`Units::Utf16`](crate::select::execute::Units::Utf16), that read all parts.
    #[must_use]
    pub fn new(cells: &'a [u64], text: &'a [u8]) -> Self {
        Self {
            cells: Cells::in_order(cells, text),
        }
    }

    /// The next input. `array` are its elements if its value is an array of numbers. `is_long_string`: its name
    /// requests a text, NAME.FIELD$.
    pub fn next(&mut self, array: Option<Array>, is_long_string: bool) -> Reading {
        let state = self.constant().map_or(u8::MAX, state_of);
        let since = self.text().map(str::to_owned);
        let is_silent = self.text().is_some();
        let reason = self.text().unwrap_or_default();
        let is_connected = state == ConnectionState::Connected.number();
        let link = match state {
            state::REFUSED => Link::Refused(reason.to_owned()),
            _ if is_connected => Link::Connected { is_silent, since },
            _ => Link::Gone,
        };
        let given = self.is_present().then(|| self.value());
        let time = self.time();
        let alarm = self.alarm();
        let known = self.known();
        let input = match given.filter(|_| is_connected) {
            None => Input::Disconnected,
            Some(given) => Input::Connected(Operand {
                alarm,
                time,
                display: known.display,
                value: value_of(given, known, array, is_long_string),
            }),
        };
        Reading { input, link }
    }

    fn value(&mut self) -> Given<'a> {
        let number = self.number();
        let digits = self.text();
        let text = self.text();
        match (number, digits, text, self.cells.next()) {
            (Some(number), Some(digits), ..) => Given::Integer(digits, number),
            (Some(number), ..) => Given::Number(number),
            (.., Some(text), _) => Given::Text(text),
            (.., Content::Other(Cell::Texts, count)) => Given::Texts(self.texts(count)),
            (.., Content::Other(Cell::Array, _)) => Given::Array,
            _ => Given::Other,
        }
    }

    fn time(&mut self) -> Stamp {
        if !self.is_present() {
            return Stamp::default();
        }
        // The fraction is contained in the seconds, rounded.
        let seconds = self.number().unwrap_or_default();
        let nanoseconds = self.number().unwrap_or_default();
        Stamp {
            seconds: (seconds - nanoseconds / 1e9).round() as i64,
            nanoseconds: nanoseconds as u32,
        }
    }

    /// Without a message of the server the cell has the name or number of the alarm status.
    fn alarm(&mut self) -> Alarm {
        let severity = self.constant().map(severity_of);
        let (status, name) = match self.cells.next() {
            Content::Other(Cell::Constant, index) => (status_of(index), None),
            Content::Text(number) => (number.parse().unwrap_or_default(), Some(number)),
            _ => (0, None),
        };
        let message = self.text().filter(|message| Some(*message) != name);
        match severity {
            Some(severity) => {
                let severity = Severity::from_number(severity);
                Alarm::new(severity, status, message.unwrap_or_default())
            }
            // Its status says whether it is undefined or not sent.
            None => Alarm::new(Severity::Undefined, status, ""),
        }
    }

    fn known(&mut self) -> Known {
        let mut known = Known {
            value_type: ValueType::Unknown,
            is_text: false,
            choices: Vec::new(),
            display: (f64::NAN, f64::NAN),
        };
        if self.is_present() {
            known.value_type = self.constant().map_or(ValueType::Unknown, value_type_of);
            known.is_text = self.text() == Some("String");
            if let Content::Other(Cell::Texts, count) = self.cells.next() {
                known.choices = self.texts(count);
            }
            if self.is_present() {
                let mut limit = || self.number().unwrap_or(f64::NAN);
                known.display = (limit(), limit());
            }
        }
        known
    }

    fn is_present(&mut self) -> bool {
        matches!(self.cells.next(), Content::Other(Cell::Present, _))
    }

    fn constant(&mut self) -> Option<u32> {
        match self.cells.next() {
            Content::Other(Cell::Constant, index) => Some(index),
            _ => None,
        }
    }

    fn number(&mut self) -> Option<f64> {
        match self.cells.next() {
            Content::Number(number) => Some(number),
            _ => None,
        }
    }

    /// A text that is not one of the constants.
    fn text(&mut self) -> Option<&'a str> {
        match self.cells.next() {
            Content::Text(text) => Some(text),
            _ => None,
        }
    }

    fn texts(&mut self, count: u32) -> Vec<String> {
        let text = |_| self.text().unwrap_or_default().to_owned();
        (0..count).map(text).collect()
    }
}

fn value_of(given: Given<'_>, known: Known, array: Option<Array>, is_long_string: bool) -> Value {
    match given {
        Given::Number(number) => wire::of_number(number, known.value_type, &known.choices),
        Given::Integer(digits, number) => {
            let integer = digits.parse().map(Value::Integer);
            integer.unwrap_or(Value::Number(number))
        }
        Given::Text(text) => Value::text(text),
        Given::Texts(texts) => Value::Texts(texts.into()),
        Given::Array => array.map_or(Value::Number(f64::NAN), |array| {
            wire::of_array(&array, is_long_string || known.is_text)
        }),
        // A structure is not a number.
        Given::Other => Value::Number(f64::NAN),
    }
}
