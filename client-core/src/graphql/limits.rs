//! Limits of documents.

use crate::select::{MAX_BYTES, MAX_DEPTH, MAX_FIELDS, MAX_TOKENS};

/// Limits of a document. Beyond them it is refused with an error that names the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum length of a text in bytes.
    pub bytes: u32,
    /// Maximum number of tokens in a text.
    pub tokens: u32,
    /// Maximum nesting depth of selections, lists and types.
    pub depth: u32,
    /// Maximum number of fields of a result.
    pub fields: u32,
    /// Maximum number of PVs that one operation names.
    pub names: usize,
    /// Maximum cost of an operation: the sum over its PVs of their selected fields.
    pub cost: usize,
    /// Maximum number of fields that may show all of one PV's value: texts, arrays and structures.
    /// Each takes the time and the memory of the whole value.
    pub whole_values: usize,
    /// Length of a response in bytes beyond which no further channel is written.
    pub response: usize,
    /// Maximum length in bytes of the answers to introspection. A short document may ask for types of fields of types
    /// of fields, and so on.
    pub introspection: usize,
}

impl Default for Limits {
    /// The limits of the browser's client, 10,000 PVs with 200,000 fields in all, and 64 MiB; 1 MiB of introspection,
    /// of which client libraries need a tenth.
    fn default() -> Self {
        Self {
            bytes: MAX_BYTES,
            tokens: MAX_TOKENS,
            depth: MAX_DEPTH,
            fields: MAX_FIELDS,
            names: 10_000,
            cost: 200_000,
            whole_values: 32,
            response: 64 << 20,
            introspection: 1 << 20,
        }
    }
}
