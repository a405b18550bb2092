//! Makes trees from the results of programs.

use pvwire_schema::types::{Array, ValueType};

use super::apart;
use super::elements::Elements;
use super::results::{Cell, Cells, Content, Results, Units};
use super::value::{Value, source, text};
use super::{ALL_PARTS, Action, CONSTANTS, Presence, Program, Pv, execute};
use crate::store::kind;

/// Everything that a program selects of one PV.
#[must_use]
pub fn value(program: &Program, pv: &impl Pv) -> Value {
    let mut results = Results::new(Units::Utf8);
    execute(program, pv, ALL_PARTS, &mut results);
    // A host may still hold an array or a structure that another kind of value has replaced.
    let is_current = matches!(pv.kind(), kind::ARRAY | kind::STRUCTURE);
    let mut tree = Tree {
        program,
        name: pv.name(),
        elements: pv.elements().filter(|_| is_current),
        cells: Cells::new(&results, 0),
    };
    tree.object(0, program.steps.len())
}

struct Tree<'a> {
    program: &'a Program,
    name: &'a str,
    elements: Option<Elements<'a>>,
    cells: Cells<'a>,
}

impl Tree<'_> {
    fn object(&mut self, from: usize, to: usize) -> Value {
        let mut fields = Vec::new();
        let mut at = from;
        while let Some(step) = self.program.steps.get(at).filter(|_| at < to) {
            at += 1;
            let value = match &step.action {
                Action::Read(_) => self.cell(),
                Action::Name(name) => Value::Text(text(name)),
                Action::Apart(read, plan) => match self.cells.next() {
                    Content::Other(Cell::Apart, _) => apart::object(*read, plan, self.elements),
                    _ => Value::Null,
                },
                Action::Object(presence, end) => {
                    let inner = at;
                    at = *end;
                    let is_present = *presence == Presence::Always
                        || matches!(self.cells.next(), Content::Other(Cell::Present, _));
                    if is_present {
                        self.object(inner, *end)
                    } else {
                        Value::Null
                    }
                }
            };
            fields.push((text(self.program.key(step)), value));
        }
        Value::Object(fields)
    }

    fn cell(&mut self) -> Value {
        let (cell, word) = match self.cells.next() {
            Content::Number(number) => return Value::Number(number),
            Content::Text(text) => return Value::Text(text.to_owned()),
            Content::Integer(digits) => {
                return digits.parse().map_or(Value::Null, Value::Integer);
            }
            Content::Other(cell, word) => (cell, word),
        };
        match cell {
            Cell::False => Value::Boolean(false),
            Cell::True => Value::Boolean(true),
            Cell::Constant => {
                let text = CONSTANTS.get(word as usize);
                Value::Text((*text.unwrap_or(&"")).to_owned())
            }
            Cell::Texts => Value::List((0..word).map(|_| self.cell()).collect()),
            Cell::Array => self.array().map_or(Value::Null, Value::Array),
            Cell::Doubles => self
                .array()
                .map_or(Value::Null, |array| doubles(&array, word)),
            Cell::Structure => match self.structure() {
                fields @ Value::Object(_) => fields,
                _ => Value::Null,
            },
            Cell::Structures => match self.structure() {
                list @ Value::List(_) => list,
                _ => Value::Null,
            },
            Cell::Id => Value::Text([source(self.name), self.name].concat()),
            _ => Value::Null,
        }
    }

    fn array(&self) -> Option<Array> {
        self.elements.map(|elements| Array {
            value_type: elements.value_type,
            count: elements.count,
            data: elements.bytes.to_vec().into(),
        })
    }

    fn structure(&self) -> Value {
        let node = self.elements.and_then(|elements| elements.node);
        node.map_or(Value::Null, Value::of)
    }
}

fn doubles(array: &Array, length: u32) -> Value {
    let mut numbers = array.numbers();
    if length > 0 {
        numbers.truncate(length as usize);
    }
    let data: Vec<u8> = numbers
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .collect();
    Value::Array(Array {
        value_type: ValueType::Float64,
        count: numbers.len() as u32,
        data: data.into(),
    })
}
