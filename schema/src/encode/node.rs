//! Encodes structures, and the elements of arrays.

use flatbuffers::{FlatBufferBuilder, WIPOffset};

use super::apart::Aparts;
use super::{strings, text_if_any, value_type};
use crate::generated::frame as fb;
use crate::types::{Array, Node, NodeValue, ValueType};

pub(super) fn node(
    builder: &mut FlatBufferBuilder<'static>,
    root: &Node,
    apart: &mut Aparts,
) -> WIPOffset<fb::Node<'static>> {
    let mut refers_to = None;
    let mut args = fb::NodeArgs {
        name: text_if_any(builder, &root.name),
        type_id: text_if_any(builder, &root.type_id),
        count: 1,
        ..Default::default()
    };
    let mut fields = |builder: &mut FlatBufferBuilder<'static>, list: &[Node]| {
        let offsets: Vec<_> = list
            .iter()
            .map(|field| node(builder, field, apart))
            .collect();
        Some(builder.create_vector(&offsets))
    };
    let kind = match &root.value {
        NodeValue::Empty => {
            args.count = 0;
            ValueType::Unknown
        }
        NodeValue::Number(value_type, number) => {
            args.data = Some(builder.create_vector(&[word_of(*value_type, *number)]));
            *value_type
        }
        NodeValue::Int64(integer) => {
            args.data = Some(builder.create_vector(&[*integer as u64]));
            ValueType::Int64
        }
        NodeValue::UInt64(integer) => {
            args.data = Some(builder.create_vector(&[*integer]));
            ValueType::UInt64
        }
        NodeValue::Text(text) => {
            args.text = Some(strings(builder, std::slice::from_ref(text)));
            ValueType::String
        }
        NodeValue::TextArray(texts) => {
            args.array = true;
            args.count = texts.len() as u32;
            args.text = Some(strings(builder, texts));
            ValueType::String
        }
        NodeValue::Array(array) => {
            args.array = true;
            args.count = array.count;
            args.data = Some(elements(builder, array, apart, &mut refers_to));
            array.value_type
        }
        NodeValue::Structure(list) => {
            args.fields = fields(builder, list);
            ValueType::Structure
        }
        NodeValue::Union(held) | NodeValue::Any(held) => {
            args.fields = fields(builder, held.as_deref().map_or(&[], std::slice::from_ref));
            compound_type(&root.value)
        }
        NodeValue::StructureArray(list)
        | NodeValue::UnionArray(list)
        | NodeValue::AnyArray(list) => {
            args.array = true;
            args.count = list.len() as u32;
            args.fields = fields(builder, list);
            compound_type(&root.value)
        }
    };
    args.type_ = value_type(kind);
    let node = fb::Node::create(builder, &args);
    if let Some(place) = refers_to {
        apart.refer(builder, node.value(), fb::Node::VT_DATA, place);
    }
    node
}

/// The vector of an array's elements. Sets `refers_to` if the array is sent apart from the frame.
pub(super) fn elements(
    builder: &mut FlatBufferBuilder<'static>,
    array: &Array,
    apart: &Aparts,
    refers_to: &mut Option<usize>,
) -> WIPOffset<flatbuffers::Vector<'static, u64>> {
    match apart.vector(array) {
        Some((place, vector)) => {
            *refers_to = Some(place);
            vector
        }
        None => words(builder, &array.data),
    }
}

/// The type of a node that has other nodes in it.
fn compound_type(value: &NodeValue) -> ValueType {
    match value {
        NodeValue::Union(_) | NodeValue::UnionArray(_) => ValueType::Union,
        NodeValue::Any(_) | NodeValue::AnyArray(_) => ValueType::Any,
        _ => ValueType::Structure,
    }
}

/// A number of at most 32 bits, a double or a boolean as a 64-bit word.
fn word_of(value_type: ValueType, number: f64) -> u64 {
    let mut word = [0; 8];
    let mut put = |bytes: &[u8]| word[..bytes.len()].copy_from_slice(bytes);
    match value_type {
        ValueType::Float32 => put(&(number as f32).to_le_bytes()),
        ValueType::Int8 => put(&(number as i8).to_le_bytes()),
        ValueType::UInt8 | ValueType::Boolean => put(&[number as u8]),
        ValueType::Int16 => put(&(number as i16).to_le_bytes()),
        ValueType::UInt16 | ValueType::Enum => put(&(number as u16).to_le_bytes()),
        ValueType::Int32 => put(&(number as i32).to_le_bytes()),
        ValueType::UInt32 => put(&(number as u32).to_le_bytes()),
        _ => put(&number.to_le_bytes()),
    }
    u64::from_le_bytes(word)
}

/// Packed elements as 64-bit words.
pub(super) fn words<'b>(
    builder: &mut FlatBufferBuilder<'b>,
    bytes: &[u8],
) -> WIPOffset<flatbuffers::Vector<'b, u64>> {
    const { assert!(cfg!(target_endian = "little"), "elements are little-endian") };
    if let Ok(words) = bytemuck::try_cast_slice(bytes) {
        return builder.create_vector::<u64>(words);
    }
    let padded = |chunk: &[u8]| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    };
    builder.create_vector_from_iter(bytes.chunks(8).map(padded))
}
