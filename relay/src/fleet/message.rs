//! What relays of a fleet ask each other: interest in PVs as JSON, operations as requests of the wire with the
//! identity of the user.

use pvwire_schema::decode::{self, DecodeError};
use pvwire_schema::encode::{self, FrameEncoder};
use pvwire_schema::types::{FrameKind, Outcome, PutRequest, PutValue, Reply, Request, RequestBody};
use serde::{Deserialize, Serialize};

use crate::ingest::{OnBehalf, OpEnd};

/// Why a message of another relay can't be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum MessageError {
    #[error("it has {0} bytes, which is too short")]
    TooShort(usize),
    #[error("its head is invalid: {0}")]
    Head(#[from] serde_json::Error),
    #[error("its content is invalid: {0}")]
    Content(#[from] DecodeError),
    #[error("it has neither a put nor a call")]
    NoOperation,
    #[error("its texts are too long")]
    TooLong,
}

/// Bytes of an operation's head, and of each of its texts: they are logged and recorded.
const MAX_HEAD_BYTES: usize = 64 << 10;
const MAX_TEXT_BYTES: usize = 1024;

/// What one relay wants of another.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Interest {
    /// Forget everything that this relay has wanted before.
    #[serde(skip_serializing_if = "is_false")]
    pub(super) reset: bool,
    /// PVs to hold and publish, with their source.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) add: Vec<String>,
    /// Numbers of PVs that are not wanted any more.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) drop: Vec<u32>,
    /// Numbers of PVs whose description is wanted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) describe: Vec<u32>,
    /// Numbers of PVs to publish whole in the next tick.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) snapshot: Vec<u32>,
    /// Numbers of all PVs that are wanted, besides those of `add`; absent for those before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) keep: Option<Vec<u32>>,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// The answer to an [`Interest`].
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Granted {
    /// For each name of `add`.
    pub(super) pvs: Vec<Grant>,
    /// Number of PVs that are open for the requesting relay.
    pub(super) held: usize,
}

/// The answer for one name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Grant {
    /// The PV is open and has this number.
    Held(u32),
    /// Another relay holds it.
    Elsewhere,
    /// It can't be opened, for this reason.
    Refused(String),
}

/// The head of an operation.
#[derive(Debug, Serialize, Deserialize)]
struct Head {
    user: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    groups: Vec<String>,
    address: String,
    origin: String,
    /// The owner does nothing after this time, in milliseconds since it started.
    #[serde(default)]
    until_millis: Option<u64>,
}

/// A put or a call of a client of another relay.
#[derive(Debug)]
pub(super) struct RemoteOperation {
    pub(super) by: OnBehalf,
    pub(super) until_millis: Option<u64>,
    pub(super) operation: Operation,
}

/// What the client asks for.
#[derive(Debug)]
pub(super) enum Operation {
    Put(PutRequest),
    Call {
        name: String,
        arguments: Vec<(String, PutValue)>,
        timeout_ms: u32,
    },
}

/// The bytes of an operation.
pub(super) fn operation(by: &OnBehalf, until_millis: Option<u64>, operation: Operation) -> Vec<u8> {
    let OnBehalf {
        user,
        groups,
        address,
        origin,
    } = by.clone();
    let head = Head {
        user,
        groups,
        address,
        origin,
        until_millis,
    };
    let head = serde_json::to_vec(&head).expect("texts can be written as JSON");
    let body = match operation {
        Operation::Put(put) => RequestBody::Put(put),
        Operation::Call {
            name,
            arguments,
            timeout_ms,
        } => RequestBody::Rpc {
            name,
            arguments,
            timeout_ms,
        },
    };
    let request = encode::request(&Request { id: 0, body });
    let length = (head.len() as u32).to_le_bytes();
    [&length, head.as_slice(), &request].concat()
}

/// Reads an operation.
pub(super) fn read_operation(bytes: &[u8]) -> Result<RemoteOperation, MessageError> {
    let short = || MessageError::TooShort(bytes.len());
    let (length, rest) = bytes.split_first_chunk().ok_or_else(short)?;
    let length = u32::from_le_bytes(*length) as usize;
    let (head, request) = rest.split_at_checked(length).ok_or_else(short)?;
    if head.len() > MAX_HEAD_BYTES {
        return Err(MessageError::TooLong);
    }
    let head: Head = serde_json::from_slice(head)?;
    let texts = head.user.iter().chain([&head.address, &head.origin]);
    if texts.map(String::len).any(|length| length > MAX_TEXT_BYTES) {
        return Err(MessageError::TooLong);
    }
    let operation = match decode::request(request)?.body {
        RequestBody::Put(put) => Operation::Put(put),
        RequestBody::Rpc {
            name,
            arguments,
            timeout_ms,
        } => Operation::Call {
            name,
            arguments,
            timeout_ms,
        },
        _ => return Err(MessageError::NoOperation),
    };
    Ok(RemoteOperation {
        by: OnBehalf {
            user: head.user,
            groups: head.groups,
            address: head.address,
            origin: head.origin,
        },
        until_millis: head.until_millis,
        operation,
    })
}

/// The bytes of an outcome.
pub(super) fn outcome(end: &OpEnd) -> Vec<u8> {
    let mut encoder = FrameEncoder::new();
    encoder.begin(FrameKind::Answer, 0, 0);
    encoder.rpc_done(0, end.outcome, &end.message, end.result.as_ref());
    encoder.finish().to_vec()
}

/// Reads an outcome.
pub(super) fn read_outcome(bytes: &[u8]) -> OpEnd {
    let unknown = |why: String| {
        let message =
            format!("the relay that holds this PV gave an answer that can't be read ({why})");
        OpEnd::failed(Outcome::Unknown, message)
    };
    let frame = match decode::frame(bytes) {
        Ok(frame) => frame,
        Err(error) => return unknown(error.to_string()),
    };
    match frame.reply() {
        Some(Reply::RpcDone { outcome, message }) => OpEnd {
            outcome,
            message,
            result: frame.rpc_result().map(|result| result.to_node()),
        },
        _ => unknown("it has no outcome".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pvwire_schema::types::{Expected, Node, NodeValue};

    #[test]
    fn operation_arrives_with_its_user() {
        let by = OnBehalf {
            user: Some("ana".into()),
            groups: vec!["ops".into()],
            address: "10.0.0.1:5".into(),
            origin: "https://page".into(),
        };
        let put = PutRequest {
            name: "ca://X".into(),
            value: PutValue::Text("on".into()),
            wait: true,
            timeout_ms: 750,
            expected: Some(Expected {
                sequence: 4,
                epoch: 2,
            }),
        };
        let bytes = operation(&by, Some(9), Operation::Put(put.clone()));
        let read = read_operation(&bytes).unwrap();
        assert_eq!((read.by, read.until_millis), (by, Some(9)));
        assert!(matches!(read.operation, Operation::Put(read) if read == put));
        for end in 0..bytes.len() / 2 {
            assert!(read_operation(&bytes[..end]).is_err());
        }
        let long = "x".repeat(MAX_TEXT_BYTES + 1);
        let by = OnBehalf {
            address: long.clone(),
            ..OnBehalf::default()
        };
        let groups = OnBehalf {
            groups: vec![long; MAX_HEAD_BYTES / MAX_TEXT_BYTES],
            ..OnBehalf::default()
        };
        for by in [by, groups] {
            let bytes = operation(&by, None, Operation::Put(put.clone()));
            assert!(matches!(read_operation(&bytes), Err(MessageError::TooLong)));
        }
    }

    #[test]
    fn outcome_arrives_with_the_value_that_the_pv_holds() {
        let end = OpEnd::holds(Node {
            value: NodeValue::Int64(3),
            ..Node::default()
        });
        assert_eq!(read_outcome(&outcome(&end)), end);
        assert_eq!(read_outcome(b"nonsense").outcome, Outcome::Unknown);
    }
}
