//! Reads messages of clients without their state, so that this can happen on any thread: the time that a document
//! takes depends on its author.

use std::sync::Arc;

use pvwire_core::graphql::Operation;

use crate::documents::Documents;
use crate::message::{BadMessage, Message, Protocol, read};
use crate::payload::Payload;

/// Settings of a socket.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The subprotocol.
    pub protocol: Protocol,
    /// The documents of all clients.
    pub documents: Arc<Documents>,
    /// Maximum number of subscribed PVs, and of operations, of one socket.
    pub max_names: usize,
}

/// A client's message.
#[derive(Debug)]
pub struct ReadMessage(pub(crate) Result<Message<Started>, BadMessage>);

/// What a client's document begins.
#[derive(Debug)]
pub(crate) enum Started {
    /// An operation on PVs.
    Valid(Arc<Operation>),
    /// An operation that needs no PV, which has this response.
    Answered(Vec<u8>),
    /// Nothing, for these reasons: a list in JSON.
    Refused(String),
}

impl ReadMessage {
    /// The operation on PVs that it begins.
    #[must_use]
    pub fn operation(&self) -> Option<&Operation> {
        match &self.0 {
            Ok(Message::Subscribe {
                payload: Started::Valid(operation),
                ..
            }) => Some(operation),
            _ => None,
        }
    }
}

/// Whether a document may ask for introspection, whose answer takes far more time than the length of the document
/// tells. It may be part of a message in JSON, where characters may be escaped.
#[must_use]
pub fn may_introspect(text: &[u8]) -> bool {
    let asks = |at: usize| {
        let rest = &text[at..];
        let is_type = rest.starts_with(b"__type") && !rest.starts_with(b"__typename");
        is_type || rest.starts_with(b"__schema") || rest.starts_with(b"\\u")
    };
    (0..text.len()).any(asks)
}

impl Settings {
    /// Reads a client's message.
    #[must_use]
    pub fn read(&self, text: &str) -> ReadMessage {
        let message = read(text, self.protocol);
        ReadMessage(message.map(|message| message.map(|payload| self.started(&payload))))
    }

    fn started(&self, payload: &Payload) -> Started {
        let operation = match self.documents.operation(payload) {
            Ok(operation) => operation,
            Err(refusal) => return Started::Refused(refusal.errors().to_owned()),
        };
        let mut names = operation.roots().iter().map(|root| root.request().names());
        if names.all(<[String]>::is_empty) {
            let mut response = Vec::new();
            operation.respond(|_, _| Ok(()), &mut response);
            return Started::Answered(response);
        }
        Started::Valid(Arc::new(operation))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn document_that_may_introspect_is_told_by_its_text() {
        for (text, expected) in [
            ("{ __schema { types { name } } }", true),
            ("{ __type (name: \"Channel\") { name } }", true),
            ("{ a: __type#\n(name: \"Channel\") { name } }", true),
            (r#"{"query":"{ _\u005fschema { types { name } } }"}"#, true),
            ("{ getChannel(id: \"X\") { __typename id } }", false),
            ("", false),
            ("{ __typ", false),
        ] {
            assert_eq!(may_introspect(text.as_bytes()), expected, "{text}");
        }
    }
}
