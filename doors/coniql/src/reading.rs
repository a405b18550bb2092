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
