//! Writes the results of programs as JSON, without a tree in between.

use super::apart;
use super::elements::Elements;
use super::fields::Read;
use super::readers::Reader;
use super::results::{Cell, Cells, Content, Results};
use super::value::{Value, push_json_elements, push_json_number, push_list, source};
use super::{Action, CONSTANTS, Presence, Program, Pv, lists, run};
use crate::format;
use crate::store::kind;

/// One field of the channel itself, with the fields inside it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group {
    from: usize,
    to: usize,
    /// Its operations: the first, and the end.
    operations: (usize, usize),
    /// Parts that it reads.
    pub(crate) mask: u32,
    /// Whether its value is an object or null.
    pub(crate) is_object: bool,
}

/// The fields of the channel itself.
pub(crate) type Groups = Vec<Group>;

impl Program {
    /// The fields of the channel itself, in the order of the selection.
    pub(crate) fn groups(&self) -> Groups {
        let mut groups = Groups::new();
        let mut at = 0;
        let mut operation = 0;
        while let Some(step) = self.steps.get(at) {
            let (end, is_object) = match &step.action {
                Action::Object(_, end) => (*end, true),
                Action::Read(_) | Action::Name(_) | Action::Apart(..) => (at + 1, false),
            };
            let steps = self.steps.get(at..end).unwrap_or_default();
            let first = operation;
            operation += steps.iter().filter(|step| step.has_operation()).count();
            groups.push(Group {
                from: at,
                to: end,
                operations: (first, operation),
                mask: step.mask,
                is_object,
            });
            at = end;
        }
        groups
    }

    /// The key of a group, as JSON writes it.
    pub(crate) fn push_key(&self, group: Group, to: &mut Vec<u8>) {
        if let Some(step) = self.steps.get(group.from) {
            push_key(self.key(step), to);
        }
    }

    /// Appends an object in which the fields of a group are null, for clients that take null for "unchanged".
    pub(crate) fn push_gone(&self, group: Group, to: &mut Vec<u8>) {
        to.push(b'{');
        let mut at = group.from + 1;
        while let Some(step) = self.steps.get(at).filter(|_| at < group.to) {
            if at > group.from + 1 {
                to.push(b',');
            }
            push_key(self.key(step), to);
            at += 1;
            match &step.action {
                Action::Name(name) => {
                    to.push(b'"');
                    to.extend_from_slice(name);
                    to.push(b'"');
                    continue;
                }
                Action::Object(_, end) => at = *end,
                Action::Read(_) | Action::Apart(..) => {}
            }
            push_null(to);
        }
        to.push(b'}');
    }

    /// Appends the key and the value of a group. `results` is memory that is used again.
    pub(crate) fn push_group(
        &self,
        group: Group,
        pv: &impl Pv,
        results: &mut Results,
        to: &mut Vec<u8>,
    ) {
        results.clear();
        let (from, to_operation) = group.operations;
        let operations = self.all.get(..to_operation).unwrap_or_default();
        run(self, operations, from, &Reader { pv }, results);
        // A host may still hold an array or a structure that another kind of value has replaced.
        let is_current = matches!(pv.kind(), kind::ARRAY | kind::STRUCTURE);
        let mut json = Json {
            program: self,
            pv,
            elements: pv.elements().filter(|_| is_current),
            cells: Cells::new(results, 0),
        };
        json.fields(group.from, group.to, to);
    }
}

/// Keys are names of GraphQL, which need no escapes.
fn push_key(key: &[u8], to: &mut Vec<u8>) {
    to.push(b'"');
    to.extend_from_slice(key);
    to.extend_from_slice(b"\":");
}

struct Json<'a, P> {
    program: &'a Program,
    pv: &'a P,
    elements: Option<Elements<'a>>,
    cells: Cells<'a>,
}

impl<P: Pv> Json<'_, P> {
    fn fields(&mut self, from: usize, end: usize, to: &mut Vec<u8>) {
        let mut at = from;
        while let Some(step) = self.program.steps.get(at).filter(|_| at < end) {
            if at > from {
                to.push(b',');
            }
            at += 1;
            push_key(self.program.key(step), to);
            match &step.action {
                Action::Read(_) => self.cell(to),
                Action::Name(name) => {
                    to.push(b'"');
                    to.extend_from_slice(name);
                    to.push(b'"');
                }
                Action::Apart(read, plan) => match self.cells.next() {
                    Content::Other(Cell::Apart, _) => self.apart(*read, plan, to),
                    _ => push_null(to),
                },
                Action::Object(presence, end) => {
                    let inner = at;
                    at = *end;
                    let is_present = *presence == Presence::Always
                        || matches!(self.cells.next(), Content::Other(Cell::Present, _));
                    if is_present {
                        to.push(b'{');
                        self.fields(inner, *end, to);
                        to.push(b'}');
                    } else {
                        push_null(to);
                    }
                }
            }
        }
    }

    fn apart(&self, read: Read, plan: &[u8], to: &mut Vec<u8>) {
        match (read, self.elements) {
            (Read::Base64(length), Some(elements)) if elements.node.is_none() => {
                apart::push_base64(length, plan, elements.value_type, elements.bytes, to);
            }
            (_, elements) => apart::object(read, plan, elements).push_json(to),
        }
    }

    fn cell(&mut self, to: &mut Vec<u8>) {
        let (cell, word) = match self.cells.next() {
            Content::Number(number) => return push_json_number(number, to),
            Content::Text(text) => return format::push_quoted(text, to),
            Content::Integer(digits) => return to.extend_from_slice(digits.as_bytes()),
            Content::Other(cell, word) => (cell, word),
        };
        match cell {
            Cell::False => to.extend_from_slice(b"false"),
            Cell::True => to.extend_from_slice(b"true"),
            Cell::Constant => {
                let text = CONSTANTS.get(word as usize);
                format::push_quoted(text.unwrap_or(&""), to);
            }
            Cell::Texts => push_list(0..word, (b'[', b']'), to, |_, to| self.cell(to)),
            Cell::Array => match self.elements {
                Some(elements) => push_json_elements(elements.value_type, elements.bytes, to),
                None => push_null(to),
            },
            Cell::Doubles => match self.elements {
                Some(elements) => push_doubles(&elements, word, to),
                None => push_null(to),
            },
            Cell::Structure => match self.structure() {
                fields @ Value::Object(_) => fields.push_json(to),
                _ => push_null(to),
            },
            Cell::Structures => match self.structure() {
                list @ Value::List(_) => list.push_json(to),
                _ => push_null(to),
            },
            Cell::Id => {
                let name = self.pv.name();
                let source = source(name);
                if source.is_empty() {
                    format::push_quoted(name, to);
                } else {
                    format::push_quoted(&[source, name].concat(), to);
                }
            }
            _ => push_null(to),
        }
    }

    fn structure(&self) -> Value {
        let node = self.elements.and_then(|elements| elements.node);
        node.map_or(Value::Null, Value::of)
    }
}

fn push_null(to: &mut Vec<u8>) {
    to.extend_from_slice(b"null");
}

/// The first elements as doubles; 0 for all.
fn push_doubles(elements: &Elements<'_>, length: u32, to: &mut Vec<u8>) {
    let count = lists::limited(lists::count(elements), length);
    let doubles = lists::elements(elements.value_type, elements.bytes).take(count);
    push_list(doubles, (b'[', b']'), to, |element, to| {
        push_json_number(element.as_number(), to);
    });
}
