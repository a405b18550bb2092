//! Operations for a host in JavaScript, which gets what it has to do as JSON and makes the objects.

use pvwire_schema::types::{Array, PutValue};

use super::execution::{Execution, Step, Work};
use super::operation::{OperationKind, Request};
use super::respond::Failure;
use crate::format;

/// The fields that tell whether a PV holds a single string.
const TEXT_FIELDS: &str = "{ display { type elementCount } }";

/// The result of these fields if it does.
const ONE_TEXT: &str = r#"{"display":{"type":"String","elementCount":1}}"#;

/// An operation that is being carried out.
#[derive(Debug)]
pub struct HostOperation {
    execution: Execution<String>,
    /// The arrays of the last steps.
    arrays: Vec<Array>,
}

impl HostOperation {
    /// Reads a plan, see [`Documents::plan`](crate::select::Documents::plan). `number` reads a number in
    /// decimal digits.
    #[must_use]
    pub fn new(plan: &str, number: fn(&str) -> f64) -> Self {
        Self {
            execution: Execution::planned(plan, number),
            arrays: Vec::new(),
        }
    }

    /// Whether it is a subscription.
    #[must_use]
    pub fn subscribes(&self) -> bool {
        self.execution.operation().kind() == OperationKind::Subscription
    }

    /// What to do next, all at once, as a JSON list; empty when the response can be written.
    pub fn steps(&mut self) -> String {
        self.arrays.clear();
        let mut out = vec![b'['];
        if self.subscribes() {
            self.push_subscription(&mut out);
        } else {
            for step in self.execution.steps() {
                self.push_step(step, &mut out);
            }
        }
        end(&mut out, b']');
        text(out)
    }

    /// The elements of the array of this number in the last steps, little-endian.
    #[must_use]
    pub fn array(&self, number: usize) -> Vec<u8> {
        let array = self.arrays.get(number);
        array.map_or_else(Vec::new, |array| array.data.to_vec())
    }

    /// Records why there is no result of this number.
    pub fn fail(&mut self, result: usize, failure: Failure) {
        self.execution.fail(result, failure);
    }

    /// Records the result of this number of a step that asks for what a PV holds, as JSON.
    pub fn told(&mut self, result: usize, json: &str) {
        if json == ONE_TEXT {
            self.execution.holds_text(result);
        }
    }

    /// The response as JSON, with the numbers of the results in their places.
    #[must_use]
    pub fn respond(&self) -> String {
        let mut out = Vec::new();
        self.execution.respond(
            |result, _, out| format::push_unsigned(result as u64, out),
            &mut out,
        );
        text(out)
    }

    fn push_subscription(&self, out: &mut Vec<u8>) {
        let Some(root) = self.execution.operation().roots().first() else {
            return;
        };
        if let Request::Subscribe { names } = root.request() {
            push_head("subscribe", 0, names, out);
            push_key("key", out);
            format::push_quoted(root.key(), out);
            push_key("isList", out);
            push_flag(root.is_list(), out);
            push_key("selection", out);
            format::push_quoted(root.selection().map_or("", String::as_str), out);
            out.extend_from_slice(b"},");
        }
    }

    fn push_step(&mut self, step: Step, out: &mut Vec<u8>) {
        let Some(root) = self.execution.operation().roots().get(step.root) else {
            return;
        };
        let kind = match step.work {
            Work::Get => "get",
            Work::Ask => "ask",
            Work::Put(_) => "put",
            Work::Introspect(_) => "introspect",
            Work::History => "history",
        };
        push_head(kind, step.first, &step.names, out);
        if let Request::Get { timeout, .. } | Request::Put { timeout, .. } = root.request() {
            push_key("timeoutMs", out);
            format::push_shortest(timeout.as_micros() as f64 / 1000.0, false, out);
        }
        if let Request::Put { wait, .. } = root.request() {
            push_key("wait", out);
            push_flag(*wait, out);
        }
        if let Request::History { arguments, .. } = root.request() {
            push_key("range", out);
            out.extend_from_slice(arguments.as_bytes());
        }
        push_key("selection", out);
        let lines = root.selection().map_or("", String::as_str);
        let is_ask = step.work == Work::Ask;
        format::push_quoted(if is_ask { TEXT_FIELDS } else { lines }, out);
        match step.work {
            Work::Put(values) => {
                push_key("values", out);
                out.push(b'[');
                for value in values {
                    self.push_value(value, out);
                }
                end(out, b']');
            }
            Work::Introspect(Some(name)) => {
                push_key("typeName", out);
                format::push_quoted(&name, out);
            }
            _ => {}
        }
        out.extend_from_slice(b"},");
    }

    /// A text, a list of texts, or type, count and number of an array; then a comma.
    fn push_value(&mut self, value: PutValue, out: &mut Vec<u8>) {
        match value {
            PutValue::Text(text) => format::push_quoted(&text, out),
            PutValue::TextArray(texts) => push_texts(&texts, out),
            PutValue::Array(array) => {
                out.push(b'[');
                format::push_unsigned(array.value_type.number().into(), out);
                out.push(b',');
                format::push_unsigned(array.count.into(), out);
                out.push(b',');
                format::push_unsigned(self.arrays.len() as u64, out);
                out.push(b']');
                self.arrays.push(array);
            }
            // No text stands for another value.
            _ => out.extend_from_slice(b"null"),
        }
        out.push(b',');
    }
}

fn push_head(kind: &str, first: usize, names: &[String], out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"work\":");
    format::push_quoted(kind, out);
    push_key("first", out);
    format::push_unsigned(first as u64, out);
    push_key("names", out);
    push_texts(names, out);
}

fn push_key(key: &str, out: &mut Vec<u8>) {
    out.push(b',');
    format::push_quoted(key, out);
    out.push(b':');
}

fn push_flag(is_set: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(if is_set { b"true" } else { b"false" });
}

fn push_texts(texts: &[String], out: &mut Vec<u8>) {
    out.push(b'[');
    for text in texts {
        format::push_quoted(text, out);
        out.push(b',');
    }
    end(out, b']');
}

/// Ends a list, in place of the comma after its last entry.
fn end(out: &mut Vec<u8>, with: u8) {
    out.pop_if(|last| *last == b',');
    out.push(with);
}

fn text(out: Vec<u8>) -> String {
    String::from_utf8(out).unwrap_or_default()
}
