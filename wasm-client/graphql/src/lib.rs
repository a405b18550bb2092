//! What does a GraphQL document ask for? From its text to a plan that JavaScript carries out: the
//! language, the schema, and what is wrong with a document, without browser or network.

#![forbid(unsafe_code)]

mod error;
mod lexer;
mod overlap;
mod parser;
mod plan;
mod schema;
mod string_value;
mod suggest;
mod tree;
mod validate;
mod values;

use error::DocumentError;
pub use parser::{MAX_BYTES, MAX_DEPTH, MAX_FRAGMENTS, MAX_TOKENS};
pub use plan::MAX_FIELDS;

use parser::Form;
use tree::{Document, kind};

/// Parts of a PV's state. A plan has a mask of those that it reads; an update that touches none of
/// them wakes nobody.
pub mod part {
    /// The value differs.
    pub const VALUE: u32 = 1;
    /// The time stamp differs.
    pub const TIME: u32 = 1 << 1;
    /// Severity or alarm status differs.
    pub const ALARM: u32 = 1 << 2;
    /// Units, precision, limits, labels … differ.
    pub const METADATA: u32 = 1 << 3;
    /// Connection state, since when, or whether the server answers, differs.
    pub const CONNECTION: u32 = 1 << 4;
    /// Access rights differ.
    pub const ACCESS: u32 = 1 << 5;
    /// More values were left out.
    pub const SKIPPED: u32 = 1 << 6;
}

/// The selection that `pv(name)` has without one: every field that is shown without arguments.
pub const EVERYTHING: &str = "{ id \
    value { float string number text array exact bigint structure structures } \
    time { datetime seconds nanoseconds userTag } \
    status { quality severity alarmStatus message mutable writable } \
    display { type elementCount description typeId form units precision choices \
    controlRange { min max } displayRange { min max } alarmRange { min max } warningRange { min max } } \
    connection { state connected since lastHeard unresponsive readable reason } \
    skipped skips { behind paced filter relay source } }";

/// Documents that are kept compiled. An application has few; those that it makes up as it goes must
/// not pile up.
const MAX_KEPT: usize = 64;

/// Reads and checks a document; `bare` when it is to be a selection set alone.
fn compile(text: &str, bare: bool) -> Document {
    let form = if bare {
        Form::Selection
    } else {
        Form::Document
    };
    let mut document = parser::parse(text, form);
    if document.errors.is_empty() {
        document.errors = validate::validate(&document);
    }
    document
}

/// Reads a selection set: what is asked of one PV. Gives its plan, one line a field. What is wrong
/// with it is a list of errors in JSON.
#[must_use]
pub fn selection(text: &str) -> String {
    let document = compile(text, true);
    finish(&document, FIRST, "")
}

/// Place of a document's first definition.
const FIRST: u32 = 1;

fn failure(sign: &str, errors: &[DocumentError], text: &str) -> String {
    let mut answer = String::from(sign);
    error::push_all(errors, text, &mut answer);
    answer
}

/// The plan of an operation, or what is wrong.
fn finish(document: &Document, operation: u32, variables: &str) -> String {
    if !document.errors.is_empty() {
        return failure("", &document.errors, &document.text);
    }
    let (given, mut errors) = values::coerce(document, operation, variables);
    if errors.is_empty() {
        let (plan, error) = plan::plan(document, operation, &given);
        if error.is_none() {
            return plan;
        }
        errors.extend(error);
    }
    failure("?", &errors, &document.text)
}

/// Documents that were compiled before.
#[derive(Debug, Default)]
pub struct Documents {
    kept: Vec<Document>,
}

impl Documents {
    /// None yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { kept: Vec::new() }
    }

    /// The plan of one operation of a document with its variables, a JSON object or nothing. What is
    /// wrong with the document is a list of errors in JSON, what is wrong with the variables `?` and
    /// such a list.
    pub fn plan(&mut self, text: &str, operation: Option<&str>, variables: &str) -> String {
        let mut at = 0;
        while self
            .kept
            .get(at)
            .is_some_and(|document| document.text != text)
        {
            at += 1;
        }
        if at == self.kept.len() {
            if at == MAX_KEPT {
                self.kept.clear();
                at = 0;
            }
            self.kept.push(compile(text, false));
        }
        let Some(document) = self.kept.get(at) else {
            return String::new();
        };
        match find(document, operation) {
            Err(error) if document.errors.is_empty() => failure("", &[error], text),
            Err(_) => finish(document, 0, variables),
            Ok(operation) => finish(document, operation, variables),
        }
    }
}

/// The operation to carry out.
fn find(document: &Document, wanted: Option<&str>) -> Result<u32, DocumentError> {
    let mut found = 0;
    for (at, node) in document.children(0) {
        if !node.is_operation() || node.kind == kind::CHANNEL {
            continue;
        }
        match wanted {
            Some(name) if document.name(node) == name && !name.is_empty() => return Ok(at),
            None if found != 0 => {
                let message = "Must provide operation name if query contains multiple operations.";
                return Err(DocumentError::new(&[], message, &[]));
            }
            None => found = at,
            _ => {}
        }
    }
    match wanted {
        Some(name) => Err(DocumentError::new(
            &[],
            "Unknown operation named \"%\".",
            &[name],
        )),
        None if found == 0 => Err(DocumentError::new(&[], "Must provide an operation.", &[])),
        None => Ok(found),
    }
}
