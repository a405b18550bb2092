//! Documents that clients have sent: each is compiled once, however many clients send it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use pvwire_core::graphql::{Dialect, Document, Limits, Operation, Refusal};

use crate::payload::Payload;
use crate::selections::Selections;

/// Limits of a document. The depth leaves room for the introspection of client libraries.
const LIMITS: Limits = Limits {
    bytes: 64 << 10,
    tokens: 20_000,
    depth: 30,
    fields: 5_000,
    names: 1_000,
    cost: 50_000,
    whole_values: 32,
    response: 64 << 20,
    introspection: 512 << 10,
};

/// Maximum number of documents that are kept.
const MOST: usize = 256;

/// Maximum bytes of all kept documents together.
const MOST_BYTES: usize = 2 << 20;

/// The documents of all clients.
#[derive(Debug)]
pub struct Documents {
    dialect: Dialect,
    kept: Mutex<Kept>,
    selections: Selections,
}

#[derive(Debug, Default)]
struct Kept {
    documents: HashMap<String, Arc<Document>>,
    bytes: usize,
}

impl Documents {
    /// Without documents.
    #[must_use]
    pub fn new(dialect: Dialect) -> Self {
        Self {
            dialect,
            kept: Mutex::default(),
            selections: Selections::default(),
        }
    }

    /// Which server's behaviour clients see.
    #[must_use]
    pub const fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// The selections of subscriptions.
    #[must_use]
    pub const fn selections(&self) -> &Selections {
        &self.selections
    }

    /// The operation that a request asks for.
    ///
    /// # Errors
    /// When the document or the variables are not valid, or a limit is exceeded.
    pub fn operation(&self, payload: &Payload) -> Result<Operation, Refusal> {
        let document = self.document(&payload.query)?;
        document.operation(payload.operation_name.as_deref(), &payload.variables)
    }

    fn document(&self, text: &str) -> Result<Arc<Document>, Refusal> {
        let lock = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(document) = lock().documents.get(text) {
            return Ok(Arc::clone(document));
        }
        // Without the lock: other clients' documents are compiled at the same time.
        let document = Arc::new(Document::compile(text, self.dialect, LIMITS)?);
        let mut kept = lock();
        if kept.documents.len() >= MOST || kept.bytes + text.len() > MOST_BYTES {
            *kept = Kept::default();
        }
        let before = (kept.documents).insert(text.to_owned(), Arc::clone(&document));
        if before.is_none() {
            kept.bytes += text.len();
        }
        Ok(document)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn document_is_compiled_once_and_few_are_kept() {
        let documents = Documents::new(Dialect::Coniql);
        let text = "{ getChannel(id: \"X\") { id } }";
        let first = documents.document(text).unwrap();
        assert!(Arc::ptr_eq(&first, &documents.document(text).unwrap()));
        for n in 0..MOST {
            documents.document(&format!("{text} #{n}")).unwrap();
        }
        assert!(documents.kept.lock().unwrap().documents.len() <= MOST);
        assert!(!Arc::ptr_eq(&first, &documents.document(text).unwrap()));
    }

    #[test]
    fn document_beyond_a_limit_is_refused() {
        let documents = Documents::new(Dialect::Pvwire);
        let of = |query: String| {
            let payload = Payload {
                query,
                ..Payload::default()
            };
            documents.operation(&payload)
        };
        let long = format!("{{ getChannel(id: \"{}\") {{ id }} }}", "x".repeat(70_000));
        assert!(of(long).is_err());
        let names = vec!["\"X\""; 1_001].join(",");
        let many = of(format!("{{ getChannels(ids: [{names}]) {{ id }} }}"));
        let why = many.unwrap_err().errors().to_owned();
        assert!(why.contains("1000"), "{why}");
        let deep = format!("{{ a {}{} }}", "{ a ".repeat(40), "}".repeat(40));
        assert!(of(deep).is_err());
    }
}
