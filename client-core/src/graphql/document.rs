//! Documents: texts that were read and validated once.

use super::Dialect;
use super::limits::Limits;
use super::native::Operation;
use crate::select;
use crate::select::error::{self, DocumentError};
use crate::select::parser::{Bounds, Form};
use crate::select::schema::Schema;
use crate::select::tree;

/// A valid document. It has no state: all clients that send the same text can share it.
#[derive(Debug)]
pub struct Document {
    tree: tree::Document,
    dialect: Dialect,
    limits: Limits,
}

impl Document {
    /// Reads and validates a text.
    ///
    /// # Errors
    /// When it violates the grammar, the schema of the dialect, or a limit.
    pub fn compile(text: &str, dialect: Dialect, limits: Limits) -> Result<Self, Refusal> {
        let bounds = Bounds {
            bytes: limits.bytes,
            tokens: limits.tokens,
            depth: limits.depth,
            fields: limits.fields,
            schema: match dialect {
                Dialect::Pvwire => Schema::Pvwire,
                Dialect::Coniql => Schema::Coniql,
            },
        };
        let tree = select::compile(text, Form::Document, bounds);
        if tree.errors.is_empty() {
            Ok(Self {
                tree,
                dialect,
                limits,
            })
        } else {
            Err(Refusal::new(&tree.errors, text, true, dialect))
        }
    }

    /// The text that was compiled.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.tree.text
    }

    /// Plans an operation: the one of this name, or the only one. `variables` is a JSON object, or
    /// empty.
    ///
    /// # Errors
    /// When there is no such operation, when its variables are not valid, or when it exceeds a limit.
    pub fn operation(&self, name: Option<&str>, variables: &str) -> Result<Operation, Refusal> {
        let refuse = |errors: &[DocumentError], of_document| {
            Refusal::new(errors, &self.tree.text, of_document, self.dialect)
        };
        let found = select::find(&self.tree, name).map_err(|error| refuse(&[error], true))?;
        let plan = select::planned(&self.tree, found, variables)
            .map_err(|errors| refuse(&errors, false))?;
        Operation::new(&plan, self.dialect, self.limits).map_err(|error| refuse(&[error], false))
    }
}

/// Why a document or an operation is refused, as the client is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    errors: String,
    of_document: bool,
    dialect: Dialect,
}

impl Refusal {
    fn new(errors: &[DocumentError], text: &str, of_document: bool, dialect: Dialect) -> Self {
        let mut json = String::new();
        error::push_all(errors, text, &mut json);
        Self {
            errors: json,
            of_document,
            dialect,
        }
    }

    /// The errors: a list in JSON, each with `message` and `locations`.
    #[must_use]
    pub fn errors(&self) -> &str {
        &self.errors
    }

    /// Whether the document itself is invalid, or has no such operation; otherwise the variables
    /// are, or a limit is exceeded.
    #[must_use]
    pub fn is_of_document(&self) -> bool {
        self.of_document
    }

    /// Appends the response to the request.
    pub fn push_response(&self, out: &mut Vec<u8>) {
        let head = match self.dialect {
            Dialect::Pvwire => "{\"errors\":",
            Dialect::Coniql => "{\"data\":null,\"errors\":",
        };
        out.extend_from_slice(head.as_bytes());
        out.extend_from_slice(self.errors.as_bytes());
        out.push(b'}');
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "invalid request: {}", self.errors)
    }
}

impl std::error::Error for Refusal {}
