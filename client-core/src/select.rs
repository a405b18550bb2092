//! Compiles selections and GraphQL documents to plans. Selections of one PV have a small compiler;
//! documents have that of the complete language, with the schema and the validation.

pub(crate) mod error;
pub mod execute;
mod lexer;
mod overlap;
pub(crate) mod parser;
mod plain;
mod plan;
pub(crate) mod schema;
pub(crate) mod string_value;
mod suggest;
pub(crate) mod tree;
mod validate;
mod values;

use error::DocumentError;
pub use error::SelectionError;
use execute::Program;
pub use parser::{MAX_BYTES, MAX_DEPTH, MAX_FIELDS, MAX_FRAGMENTS, MAX_TOKENS};
pub use plain::{MAX_SELECTION_BYTES, MAX_SELECTION_DEPTH};

use parser::{Bounds, Form};
use tree::{Document, kind};

/// The default selection of `pv(name)`: every field that needs no arguments.
pub const EVERYTHING: &str = "{ id \
    value { float string number text array exact bigint structure structures } \
    time { datetime seconds nanoseconds userTag } \
    status { quality severity alarmStatus message mutable writable } \
    display { type elementCount description typeId form units precision choices \
    controlRange { min max } displayRange { min max } alarmRange { min max } warningRange { min max } } \
    connection { state connected since lastHeard unresponsive readable reason } \
    skipped skips { behind paced filter relay source bus } }";

/// Number of compiled documents that are kept. An application has few; documents that it generates
/// at run time must not accumulate.
const MAX_KEPT: usize = 64;

/// Parses and validates a document.
pub(crate) fn compile(text: &str, form: Form, bounds: Bounds) -> Document {
    let mut document = parser::parse(text, form, bounds);
    if document.errors.is_empty() {
        document.errors = validate::validate(&document);
    }
    document
}

/// Compiles a selection set for one PV. Returns its plan, with one line per field, or a JSON list
/// of errors.
#[must_use]
pub fn selection(text: &str) -> String {
    plain::planned(text).unwrap_or_else(|error| failure("", &[error], text))
}

/// Compiles a selection set for one PV to a program, which [`execute`] runs.
///
/// # Errors
/// When the text is not a selection of a PV's fields.
pub fn program(text: &str) -> Result<Program, SelectionError> {
    match plain::planned(text) {
        Ok(plan) => Ok(Program::new(&plan, false).unwrap_or_default()),
        Err(error) => Err(SelectionError::of(&error, text)),
    }
}

/// Like [`program`], with the plan that was compiled, as [`selection`] returns it. Without a program
/// the text is a JSON list of errors.
#[must_use]
pub fn planned_program(text: &str) -> (Option<Program>, String) {
    match plain::planned(text) {
        Ok(plan) => (Program::new(&plan, false).ok(), plan),
        Err(error) => (None, failure("", &[error], text)),
    }
}

fn failure(sign: &str, errors: &[DocumentError], text: &str) -> String {
    let mut answer = String::from(sign);
    error::push_all(errors, text, &mut answer);
    answer
}

/// The plan of an operation, or its errors.
fn finish(document: &Document, operation: u32, variables: &str) -> String {
    if !document.errors.is_empty() {
        return failure("", &document.errors, &document.text);
    }
    match planned(document, operation, variables) {
        Ok(plan) => plan,
        Err(errors) => failure("?", &errors, &document.text),
    }
}

/// The plan of an operation of a valid document, or the errors of its variables.
pub(crate) fn planned(
    document: &Document,
    operation: u32,
    variables: &str,
) -> Result<String, Vec<DocumentError>> {
    let (given, mut errors) = values::coerce(document, operation, variables);
    if errors.is_empty() {
        let (plan, error) = plan::plan(document, operation, &given);
        if error.is_none() {
            return Ok(plan);
        }
        errors.extend(error);
    }
    Err(errors)
}

/// Documents that were compiled before.
#[derive(Debug, Default)]
pub struct Documents {
    kept: Vec<Document>,
}

impl Documents {
    /// An empty set of documents.
    #[must_use]
    pub const fn new() -> Self {
        Self { kept: Vec::new() }
    }

    /// The plan of one operation of a document with its variables, which are a JSON object or
    /// empty. Errors in the document are returned as a JSON list, errors in the variables as `?`
    /// and such a list.
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
            self.kept
                .push(compile(text, Form::Document, Bounds::default()));
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

/// Finds the operation to carry out.
pub(crate) fn find(document: &Document, wanted: Option<&str>) -> Result<u32, DocumentError> {
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
