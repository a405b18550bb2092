//! Messages of the two subprotocols: what clients send is read, and what they get is written. Messages are read without
//! the state of their client, so that this can happen on any thread: the time that a document takes depends on its
//! author.
//!
//! `graphql-transport-ws` is the protocol of the library graphql-ws. `graphql-ws` is the older one of
//! subscriptions-transport-ws, in which results are called `data` and the server sends `ka` to keep connections
//! open.

use std::sync::Arc;

use pvwire_core::format::push_quoted;
use pvwire_core::graphql::Operation;
use serde_json::Value;

use crate::documents::Documents;
use crate::payload::{Payload, PayloadError};

/// A subprotocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// Of the library graphql-ws.
    Transport,
    /// Of the library subscriptions-transport-ws.
    Legacy,
}

impl Protocol {
    /// Its name in the handshake.
    #[must_use]
    pub const fn subprotocol(self) -> &'static str {
        match self {
            Self::Transport => "graphql-transport-ws",
            Self::Legacy => "graphql-ws",
        }
    }
}

/// A client's message. `P` is what the client wants to begin.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Message<P> {
    /// The client begins, perhaps with a token.
    Init(Option<String>),
    /// The client ends the connection.
    Terminate,
    /// Answer with a pong of the same content.
    Ping(Option<Value>),
    /// The answer to a ping, which needs nothing.
    Pong,
    /// Carry out an operation.
    Subscribe { id: String, payload: P },
    /// End an operation.
    Complete { id: String },
    /// A message that the legacy protocol ignores.
    Unknown,
}

impl<P> Message<P> {
    /// The same message with another payload.
    pub(crate) fn map<Q>(self, change: impl FnOnce(P) -> Q) -> Message<Q> {
        match self {
            Self::Init(token) => Message::Init(token),
            Self::Terminate => Message::Terminate,
            Self::Ping(payload) => Message::Ping(payload),
            Self::Pong => Message::Pong,
            Self::Subscribe { id, payload } => Message::Subscribe {
                id,
                payload: change(payload),
            },
            Self::Complete { id } => Message::Complete { id },
            Self::Unknown => Message::Unknown,
        }
    }
}

/// Why a message is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadMessage {
    #[error("WebSocket message must be valid JSON")]
    NotJson,
    #[error("message has no type")]
    NoType,
    #[error("unknown message type: {0}")]
    UnknownType(String),
    #[error("message has no id")]
    NoId,
    #[error("id must be 1 to {MAX_ID_BYTES} bytes")]
    BadId,
    #[error("{0}")]
    Payload(#[from] PayloadError),
}

/// Maximum length of an operation's id.
pub(crate) const MAX_ID_BYTES: usize = 256;

/// Reads a message.
pub(crate) fn read(text: &str, protocol: Protocol) -> Result<Message<Payload>, BadMessage> {
    let Ok(Value::Object(mut fields)) = serde_json::from_str(text) else {
        return Err(BadMessage::NotJson);
    };
    let Some(Value::String(kind)) = fields.remove("type") else {
        return Err(BadMessage::NoType);
    };
    let payload = fields.remove("payload").filter(|value| !value.is_null());
    let id = match fields.remove("id") {
        Some(Value::String(id)) => Ok(id),
        // Clients of the legacy protocol may number their operations.
        Some(Value::Number(id)) => Ok(id.to_string()),
        _ => Err(BadMessage::NoId),
    };
    let checked = |id: Result<String, BadMessage>| {
        id.and_then(|id| match id.len() {
            1..=MAX_ID_BYTES => Ok(id),
            _ => Err(BadMessage::BadId),
        })
    };
    Ok(match (protocol, kind.as_str()) {
        (_, "connection_init") => Message::Init(payload.as_ref().and_then(token)),
        (Protocol::Transport, "ping") => Message::Ping(payload),
        (Protocol::Transport, "pong") => Message::Pong,
        (Protocol::Transport, "subscribe") | (Protocol::Legacy, "start") => Message::Subscribe {
            id: checked(id)?,
            payload: Payload::from_value(payload.unwrap_or_default())?,
        },
        (Protocol::Transport, "complete") | (Protocol::Legacy, "stop") => {
            Message::Complete { id: checked(id)? }
        }
        (Protocol::Legacy, "connection_terminate") => Message::Terminate,
        (Protocol::Legacy, _) => Message::Unknown,
        (Protocol::Transport, _) => {
            return Err(BadMessage::UnknownType(kind.chars().take(40).collect()));
        }
    })
}

/// Keys of a payload of `connection_init` that may have a token, in lower case.
const TOKEN_KEYS: [&str; 4] = ["authorization", "authtoken", "accesstoken", "token"];

/// The token in the payload of `connection_init`: under one of `TOKEN_KEYS`, perhaps within `headers`, with or without
/// `Bearer`.
fn token(payload: &Value) -> Option<String> {
    let fields = payload.as_object()?;
    let key = |key: &str| key.to_ascii_lowercase().replace(['_', '-'], "");
    let of = |wanted: &&str| {
        let mut fields = fields.iter();
        let found = fields.find(|(name, _)| key(name) == **wanted)?.1.as_str()?;
        let (scheme, rest) = found.split_once(' ').unwrap_or(("", found));
        let token = match scheme {
            "" => found,
            scheme if scheme.eq_ignore_ascii_case("bearer") => rest,
            _ => return None,
        };
        Some(token.trim().to_owned()).filter(|token| !token.is_empty())
    };
    let within = || token(fields.get("headers").filter(|value| value.is_object())?);
    TOKEN_KEYS.iter().find_map(of).or_else(within)
}

/// The acknowledgement of `connection_init`.
pub(crate) const ACK: &[u8] = br#"{"type":"connection_ack"}"#;

/// What the legacy protocol sends to keep the connection open.
pub(crate) const KEEP_ALIVE: &[u8] = br#"{"type":"ka"}"#;

/// The answer to a ping.
pub(crate) fn pong(payload: Option<&Value>) -> Vec<u8> {
    let mut text = br#"{"type":"pong""#.to_vec();
    if let Some(payload) = payload {
        text.extend_from_slice(b",\"payload\":");
        text.extend_from_slice(payload.to_string().as_bytes());
    }
    text.push(b'}');
    text
}

/// The beginning of an operation's messages up to their type: the id as JSON.
pub(crate) fn quoted(id: &str) -> Vec<u8> {
    let mut text = Vec::new();
    push_quoted(id, &mut text);
    text
}

/// A message about an operation. `id` is in JSON; an empty payload is left out.
fn of_operation(kind: &str, id: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(40 + kind.len() + id.len() + payload.len());
    for piece in [br#"{"id":"#, id, br#","type":""#, kind.as_bytes(), b"\""] {
        text.extend_from_slice(piece);
    }
    if !payload.is_empty() {
        text.extend_from_slice(b",\"payload\":");
        text.extend_from_slice(payload);
    }
    text.push(b'}');
    text
}

/// The end of an operation.
pub(crate) fn complete(id: &[u8]) -> Vec<u8> {
    of_operation("complete", id, b"")
}

impl Protocol {
    /// A result, which is a response of GraphQL.
    pub(crate) fn next(self, id: &[u8], response: &[u8]) -> Vec<u8> {
        let kind = match self {
            Self::Transport => "next",
            Self::Legacy => "data",
        };
        of_operation(kind, id, response)
    }

    /// The refusal of an operation, which ends it. `errors` is a list in JSON; the legacy protocol has room for
    /// the first one only.
    pub(crate) fn error(self, id: &[u8], errors: &[u8]) -> Vec<u8> {
        match self {
            Self::Transport => of_operation("error", id, errors),
            Self::Legacy => {
                let list: Result<Vec<Value>, _> = serde_json::from_slice(errors);
                let first = list.ok().and_then(|list| list.into_iter().next());
                let first = first.unwrap_or_default().to_string();
                of_operation("error", id, first.as_bytes())
            }
        }
    }
}

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

    fn text(bytes: Vec<u8>) -> String {
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn messages_of_both_protocols_are_read() {
        let payload = Payload {
            query: "q".to_owned(),
            ..Payload::default()
        };
        let subscribe = |id: &str| Message::Subscribe {
            id: id.to_owned(),
            payload: payload.clone(),
        };
        let complete = |id: &str| Message::Complete { id: id.to_owned() };
        let (transport, legacy) = (Protocol::Transport, Protocol::Legacy);
        for (protocol, text, expected) in [
            (
                transport,
                r#"{"type":"connection_init"}"#,
                Message::Init(None),
            ),
            (
                legacy,
                r#"{"type":"connection_init","payload":{}}"#,
                Message::Init(None),
            ),
            (transport, r#"{"type":"ping"}"#, Message::Ping(None)),
            (
                transport,
                r#"{"type":"pong","payload":{"a":1}}"#,
                Message::Pong,
            ),
            (
                transport,
                r#"{"type":"subscribe","id":"1","payload":{"query":"q"}}"#,
                subscribe("1"),
            ),
            (
                legacy,
                r#"{"type":"start","id":7,"payload":{"query":"q"}}"#,
                subscribe("7"),
            ),
            (transport, r#"{"type":"complete","id":"1"}"#, complete("1")),
            (legacy, r#"{"type":"stop","id":"1"}"#, complete("1")),
            (
                legacy,
                r#"{"type":"connection_terminate"}"#,
                Message::Terminate,
            ),
            (legacy, r#"{"type":"nosuch"}"#, Message::Unknown),
        ] {
            assert_eq!(read(text, protocol), Ok(expected), "{text}");
        }
    }

    #[test]
    fn messages_that_are_not_valid_have_a_reason() {
        let unknown = |kind: &str| BadMessage::UnknownType(kind.to_owned());
        for (text, expected) in [
            ("", BadMessage::NotJson),
            ("[]", BadMessage::NotJson),
            ("{}", BadMessage::NoType),
            (r#"{"type":5}"#, BadMessage::NoType),
            (r#"{"type":"start"}"#, unknown("start")),
            (r#"{"type":"complete"}"#, BadMessage::NoId),
            (r#"{"type":"complete","id":""}"#, BadMessage::BadId),
            (
                r#"{"type":"subscribe","id":"1"}"#,
                BadMessage::Payload(PayloadError::NoQuery),
            ),
        ] {
            assert_eq!(read(text, Protocol::Transport), Err(expected), "{text}");
        }
    }

    #[test]
    fn texts_name_the_operation_and_the_kind_of_message() {
        let id = quoted("a\"b");
        let (transport, legacy) = (Protocol::Transport, Protocol::Legacy);
        let response = br#"{"data":{}}"#;
        assert_eq!(
            text(transport.next(&id, response)),
            r#"{"id":"a\"b","type":"next","payload":{"data":{}}}"#
        );
        assert_eq!(
            text(legacy.next(&id, response)),
            r#"{"id":"a\"b","type":"data","payload":{"data":{}}}"#
        );
        let errors = br#"[{"message":"m"},{"message":"n"}]"#;
        assert_eq!(
            text(transport.error(&id, errors)),
            r#"{"id":"a\"b","type":"error","payload":[{"message":"m"},{"message":"n"}]}"#
        );
        assert_eq!(
            text(legacy.error(&id, errors)),
            r#"{"id":"a\"b","type":"error","payload":{"message":"m"}}"#
        );
        assert_eq!(text(complete(&id)), r#"{"id":"a\"b","type":"complete"}"#);
        assert_eq!(text(pong(None)), r#"{"type":"pong"}"#);
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_reading_panic(text: String) {
            let _ = read(&text, Protocol::Transport);
            let _ = read(&text, Protocol::Legacy);
        }
    }

    #[test]
    fn token_of_a_client_that_begins_is_found_where_clients_put_it() {
        for (payload, expected) in [
            (r#"{"Authorization":"Bearer a.b.c"}"#, Some("a.b.c")),
            (r#"{"authorization":"bearer a"}"#, Some("a")),
            (r#"{"headers":{"Authorization":"Bearer a"}}"#, Some("a")),
            (r#"{"authToken":"a"}"#, Some("a")),
            (r#"{"access_token":"a","x":1}"#, Some("a")),
            (r#"{"token":"a"}"#, Some("a")),
            (r#"{"Authorization":"Basic a"}"#, None),
            (r#"{"Authorization":"Bearer "}"#, None),
            (r#"{"token":5}"#, None),
            (r#"{"headers":{"headers":5}}"#, None),
            ("{}", None),
            ("5", None),
        ] {
            let text = format!(r#"{{"type":"connection_init","payload":{payload}}}"#);
            let message = read(&text, Protocol::Transport).unwrap();
            let expected = expected.map(str::to_owned);
            assert_eq!(message, Message::Init(expected), "{payload}");
        }
    }

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
