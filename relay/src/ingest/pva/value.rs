//! Values of pvxs as values of the relay, and back.

use std::sync::Arc;

use bytes::Bytes;
use pvwire_epics::pva::{self, ElementType, OpError};
use pvwire_schema::types::{
    Array, BlobValue, Limits, Node, NodeValue, Outcome, PutValue, ValueType,
};

use crate::ingest::{OpEnd, RowValue};

/// Not every integer beyond this is a double.
const EXACT: u64 = 1 << 53;

/// Messages of servers whose access security refuses a put: QSRV and the gateway of p4p.
const REFUSALS: [&str; 3] = ["not permitted", "permission denied", "access denied"];

/// A structure, and separately its top-level fields that changed, unless all did.
pub(super) fn structure(root: &pva::Node, changed: &[String]) -> RowValue {
    let whole = node(root);
    let NodeValue::Structure(fields) = &whole.value else {
        return RowValue::Blob(Arc::new(BlobValue::Structure(whole)));
    };
    let part: Vec<_> = (fields.iter())
        .filter(|field| changed.contains(&field.name))
        .cloned()
        .collect();
    if part.is_empty() || part.len() == fields.len() {
        return RowValue::Blob(Arc::new(BlobValue::Structure(whole)));
    }
    let part = Node {
        value: NodeValue::Structure(part),
        ..Node {
            name: String::new(),
            type_id: whole.type_id.clone(),
            value: NodeValue::Empty,
        }
    };
    RowValue::Structure {
        part: Arc::new(BlobValue::StructurePart(part)),
        whole: Arc::new(BlobValue::Structure(whole)),
    }
}

pub(super) fn whole(value: &pva::Value<'_>) -> RowValue {
    let blob = match value {
        pva::Value::Number(number) => return RowValue::Number(*number),
        pva::Value::Boolean(flag) => return RowValue::Number(u8::from(*flag).into()),
        pva::Value::Int64(integer) => return int64(*integer),
        pva::Value::UInt64(integer) => return uint64(*integer),
        pva::Value::Text(bytes) => BlobValue::Text(pvwire_epics::ca::text(bytes)),
        pva::Value::TextArray(texts) => BlobValue::TextArray(texts.clone()),
        pva::Value::Array {
            element,
            count,
            data,
        } => BlobValue::Array(array(*element, *count, data)),
        pva::Value::Structure(root) => BlobValue::Structure(node(root)),
    };
    RowValue::Blob(Arc::new(blob))
}

/// The value of a PV that is a field.
pub(super) fn field(found: &pva::Node) -> RowValue {
    let blob = match &found.value {
        pva::NodeValue::Number(_, number) => return RowValue::Number(*number),
        pva::NodeValue::Boolean(flag) => return RowValue::Number(u8::from(*flag).into()),
        pva::NodeValue::Int64(integer) => return int64(*integer),
        pva::NodeValue::UInt64(integer) => return uint64(*integer),
        pva::NodeValue::Text(text) => BlobValue::Text(text.clone()),
        pva::NodeValue::TextArray(texts) => BlobValue::TextArray(texts.clone()),
        pva::NodeValue::Array {
            element,
            count,
            data,
        } => BlobValue::Array(array(*element, *count, data)),
        // A union is shown as the field that it holds.
        pva::NodeValue::Union(Some(held)) => return field(held),
        _ => BlobValue::Structure(Node {
            name: String::new(),
            ..node(found)
        }),
    };
    RowValue::Blob(Arc::new(blob))
}

fn int64(integer: i64) -> RowValue {
    if integer.unsigned_abs() <= EXACT {
        RowValue::Number(integer as f64)
    } else {
        RowValue::Blob(Arc::new(BlobValue::Int64(integer)))
    }
}

fn uint64(integer: u64) -> RowValue {
    if integer <= EXACT {
        RowValue::Number(integer as f64)
    } else {
        RowValue::Blob(Arc::new(BlobValue::UInt64(integer)))
    }
}

/// Shares the elements that pvxs received, without a copy.
fn array(element: ElementType, count: usize, data: &pva::SharedArray) -> Array {
    Array {
        value_type: value_type(element),
        count: count as u32,
        data: Bytes::from_owner(data.clone()),
    }
}

pub(super) fn node(from: &pva::Node) -> Node {
    let held = |held: &pva::Node| Some(Box::new(node(held)));
    let nothing = Node::default;
    let value = match &from.value {
        pva::NodeValue::Number(element, number) => NodeValue::Number(value_type(*element), *number),
        pva::NodeValue::Boolean(flag) => {
            NodeValue::Number(ValueType::Boolean, u8::from(*flag).into())
        }
        pva::NodeValue::Int64(integer) => NodeValue::Int64(*integer),
        pva::NodeValue::UInt64(integer) => NodeValue::UInt64(*integer),
        pva::NodeValue::Text(text) => NodeValue::Text(text.clone()),
        pva::NodeValue::TextArray(texts) => NodeValue::TextArray(texts.clone()),
        pva::NodeValue::Array {
            element,
            count,
            data,
        } => NodeValue::Array(array(*element, *count, data)),
        pva::NodeValue::Structure(fields) => {
            NodeValue::Structure(fields.iter().map(node).collect())
        }
        pva::NodeValue::Union(None) => NodeValue::Union(None),
        // In a union of any type (`any`), the selected field has no name.
        pva::NodeValue::Union(Some(any)) if any.name.is_empty() => NodeValue::Any(held(any)),
        pva::NodeValue::Union(Some(selected)) => NodeValue::Union(held(selected)),
        pva::NodeValue::StructureArray(elements) => NodeValue::StructureArray(
            elements
                .iter()
                .map(|element| element.as_ref().map_or_else(nothing, node))
                .collect(),
        ),
        pva::NodeValue::UnionArray(elements) => NodeValue::UnionArray(
            elements
                .iter()
                .map(|element| Node {
                    value: NodeValue::Union(element.as_ref().and_then(held)),
                    ..Node::default()
                })
                .collect(),
        ),
        pva::NodeValue::Null => NodeValue::Empty,
    };
    Node {
        name: from.name.clone(),
        type_id: from.type_id.clone(),
        value,
    }
}

pub(super) fn put_value(value: PutValue) -> pva::PutValue {
    match value {
        PutValue::Number(number) => pva::PutValue::Number(number),
        PutValue::Int64(integer) => pva::PutValue::Int64(integer),
        PutValue::UInt64(integer) => pva::PutValue::UInt64(integer),
        PutValue::Text(text) => pva::PutValue::Text(text),
        PutValue::TextArray(texts) => pva::PutValue::TextArray(texts),
        PutValue::Array(array) => pva::PutValue::Array {
            element: element_type(array.value_type),
            bytes: array.data.to_vec(),
        },
    }
}

pub(super) fn op_end(error: &OpError) -> OpEnd {
    let outcome = match error {
        OpError::Disconnected => Outcome::Interrupted,
        OpError::TimedOut => Outcome::TimedOut,
        OpError::NotConnected => Outcome::NotConnected,
        OpError::Invalid(_) => Outcome::BadValue,
        OpError::Remote(why) if is_refusal(why) => Outcome::NoAccess,
        OpError::Remote(_) => Outcome::Failed,
        // A server that checks rights has written nothing, whatever the PV holds.
        OpError::Unsure(why) if is_refusal(why) => {
            return OpEnd::failed(Outcome::NoAccess, OpError::Remote(why.clone()).to_string());
        }
        _ => Outcome::Unknown,
    };
    OpEnd::failed(outcome, error.to_string())
}

/// Whether the message of a server says that access security refused the put.
fn is_refusal(why: &str) -> bool {
    let why = why.to_ascii_lowercase();
    REFUSALS.iter().any(|refusal| why.contains(refusal))
}

pub(super) fn value_type(element: ElementType) -> ValueType {
    match element {
        ElementType::Bool => ValueType::Boolean,
        ElementType::Int8 => ValueType::Int8,
        ElementType::Int16 => ValueType::Int16,
        ElementType::Int32 => ValueType::Int32,
        ElementType::Int64 => ValueType::Int64,
        ElementType::UInt8 => ValueType::UInt8,
        ElementType::UInt16 => ValueType::UInt16,
        ElementType::UInt32 => ValueType::UInt32,
        ElementType::UInt64 => ValueType::UInt64,
        ElementType::Float32 => ValueType::Float32,
        ElementType::Float64 => ValueType::Float64,
        ElementType::Text => ValueType::String,
    }
}

fn element_type(value_type: ValueType) -> ElementType {
    match value_type {
        ValueType::Boolean => ElementType::Bool,
        ValueType::Int8 => ElementType::Int8,
        ValueType::Int16 => ElementType::Int16,
        ValueType::Int32 => ElementType::Int32,
        ValueType::Int64 => ElementType::Int64,
        ValueType::UInt8 => ElementType::UInt8,
        ValueType::UInt16 | ValueType::Enum => ElementType::UInt16,
        ValueType::UInt32 => ElementType::UInt32,
        ValueType::UInt64 => ElementType::UInt64,
        ValueType::Float32 => ElementType::Float32,
        // Other types have no packed elements and are never put as arrays.
        _ => ElementType::Float64,
    }
}

pub(super) fn limits(limits: pva::Limits) -> Limits {
    Limits {
        low: limits.low,
        high: limits.high,
    }
}
