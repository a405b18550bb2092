//! Objects of GraphQL that are made from arrays and structures: tables, images, and numbers as
//! base64.

use pvwire_schema::types::{Array, Node, NodeValue, ValueType};

use super::elements::Elements;
use super::fields::Read;
use super::lines::{Line, Lines};
use super::lists::{self, Element};
use super::value::{Value, text};
use crate::format;

/// A field of such an object, with its fields.
struct Asked<'a> {
    key: &'a [u8],
    name: &'a [u8],
    length: u32,
    inner: Vec<Self>,
}

/// The fields up to the end of their object.
fn asked<'a>(lines: &mut Lines<'a>) -> Vec<Asked<'a>> {
    let mut fields = Vec::new();
    while let Some(line) = lines.next().filter(Line::is_field) {
        fields.push(Asked {
            key: line.key,
            name: line.name,
            length: Line::length(line.arguments),
            inner: if line.is_object() {
                asked(lines)
            } else {
                Vec::new()
            },
        });
    }
    fields
}

/// Appends an array as base64 in JSON, without copying its elements; `plan` has the lines of the
/// object's fields.
#[cfg(feature = "graphql")]
pub(super) fn push_base64(
    length: u32,
    plan: &[u8],
    value_type: ValueType,
    bytes: &[u8],
    to: &mut Vec<u8>,
) {
    let size = value_type.element_bytes().unwrap_or(1);
    let bytes = limited_bytes(bytes, bytes.len() / size, size, length);
    let mut lines = Lines::new(plan);
    let mut between = b'{';
    while let Some(line) = lines.next().filter(Line::is_field) {
        to.extend_from_slice(&[between, b'"']);
        between = b',';
        to.extend_from_slice(line.key);
        to.extend_from_slice(b"\":\"");
        match (line.type_name(), line.name) {
            (Some(name), _) => to.extend_from_slice(name),
            (_, b"numberType") => to.extend_from_slice(number_type(value_type).as_bytes()),
            _ => push_digits(bytes, to),
        }
        to.push(b'"');
    }
    if between == b'{' {
        to.push(b'{');
    }
    to.push(b'}');
}

/// The object that `read` makes of the slot's array or structure; `plan` has the lines of its
/// fields.
pub(super) fn object(read: Read, plan: &[u8], elements: Option<Elements<'_>>) -> Value {
    let fields = asked(&mut Lines::new(plan));
    let Some(elements) = elements else {
        return Value::Null;
    };
    if let Read::Base64(length) = read {
        let bytes = elements.node.is_none().then_some(elements.bytes);
        return base64(elements.value_type, bytes, length, &fields);
    }
    let Some(nodes) = elements.node.and_then(contents) else {
        return Value::Null;
    };
    match read {
        Read::Table => table(nodes, &fields),
        _ => nd_array(nodes, &fields),
    }
}

/// The content of a field; an `Any` is what it holds.
fn content(node: &Node) -> &NodeValue {
    match &node.value {
        NodeValue::Any(Some(held)) => content(held),
        value => value,
    }
}

fn contents(node: &Node) -> Option<&[Node]> {
    match content(node) {
        NodeValue::Structure(nodes) => Some(nodes),
        _ => None,
    }
}

// Not generic, and with loops: every other form is compiled several times.
fn select(fields: &[Asked<'_>], type_name: &str, get: &dyn Fn(&Asked<'_>) -> Value) -> Value {
    let mut object = Vec::new();
    for field in fields {
        let value = match field.name.starts_with(b"__typename") {
            true => Value::Text(type_name.to_owned()),
            false => get(field),
        };
        object.push((text(field.key), value));
    }
    Value::Object(object)
}

fn find<'a>(nodes: &'a [Node], name: &str) -> Option<&'a Node> {
    nodes.iter().find(|node| node.name == name)
}

fn array_of(node: Option<&Node>) -> Option<&Array> {
    match content(node?) {
        NodeValue::Array(array) => Some(array),
        _ => None,
    }
}

/// The elements of a list if all are texts, whatever the list could hold.
fn texts_of(node: Option<&Node>) -> Option<Vec<&str>> {
    let mut found = Vec::new();
    match content(node?) {
        NodeValue::TextArray(texts) => {
            for text in texts {
                found.push(text.as_str());
            }
        }
        NodeValue::StructureArray(list)
        | NodeValue::UnionArray(list)
        | NodeValue::AnyArray(list) => {
            for node in list {
                found.push(one_text(node)?);
            }
        }
        _ => return None,
    }
    Some(found)
}

fn one_text(node: &Node) -> Option<&str> {
    match content(node) {
        NodeValue::Text(text) => Some(text),
        _ => None,
    }
}

fn text_of(node: Option<&Node>) -> String {
    node.and_then(one_text).unwrap_or_default().to_owned()
}

fn limited(count: usize, length: u32) -> usize {
    match length {
        0 => count,
        length => count.min(length as usize),
    }
}

fn table(nodes: &[Node], fields: &[Asked<'_>]) -> Value {
    let labels = texts_of(find(nodes, "labels")).unwrap_or_default();
    let columns = find(nodes, "value").and_then(contents).unwrap_or_default();
    select(fields, "Table", &|field| match field.name {
        b"labels" => shown(&labels, 0),
        _ => {
            let mut list = Vec::new();
            for (at, column) in columns.iter().enumerate() {
                let label = labels.get(at).copied().unwrap_or(&column.name);
                list.push(table_column(column, label, &field.inner));
            }
            Value::List(list)
        }
    })
}

fn table_column(column: &Node, label: &str, fields: &[Asked<'_>]) -> Value {
    let array = array_of(Some(column));
    let texts = texts_of(Some(column));
    let texts = texts.as_deref();
    select(fields, "TableColumn", &|field| match field.name {
        b"name" => Value::Text(column.name.clone()),
        b"label" => Value::Text(label.to_owned()),
        b"array" => match (array, texts) {
            (Some(array), _) => Value::Array(array.clone()),
            (_, Some(texts)) => shown(texts, 0),
            _ => Value::Null,
        },
        b"stringArray" => match (array, texts) {
            (Some(array), _) => plain_texts(array, field.length),
            (_, Some(texts)) => shown(texts, field.length),
            _ => Value::Null,
        },
        _ => base64_array(array, field),
    })
}

/// The first `length` texts; 0 for all.
fn shown(texts: &[&str], length: u32) -> Value {
    let mut list = Vec::new();
    for text in texts.iter().take(limited(texts.len(), length)) {
        list.push(Value::Text((*text).to_owned()));
    }
    Value::List(list)
}

/// The first `length` elements as the shortest texts that read back; 0 for all.
fn plain_texts(array: &Array, length: u32) -> Value {
    let count = limited(array.count as usize, length);
    let mut list = Vec::new();
    for element in lists::elements(array.value_type, &array.data).take(count) {
        list.push(element_text(element));
    }
    Value::List(list)
}

fn element_text(element: Element) -> Value {
    let mut written = Vec::new();
    match element {
        Element::Number(number) => return Value::Text(format::number_text(number)),
        Element::Signed(integer) => format::push_signed(integer, &mut written),
        Element::Unsigned(integer) => format::push_unsigned(integer, &mut written),
    }
    Value::Text(text(&written))
}

fn nd_array(nodes: &[Node], fields: &[Asked<'_>]) -> Value {
    let samples = find(nodes, "value").and_then(|node| match content(node) {
        NodeValue::Union(held) => array_of(held.as_deref()),
        _ => None,
    });
    select(fields, "NDArray", &|field| match field.name {
        b"uniqueId" => match find(nodes, "uniqueId").map(content) {
            Some(NodeValue::Number(value_type, number)) if *value_type != ValueType::Boolean => {
                Value::Number(*number)
            }
            _ => Value::Null,
        },
        b"dimensions" => each(nodes, "dimension", &|dimension| {
            Value::Number(match find(dimension, "size").map(content) {
                Some(NodeValue::Number(_, number)) => *number,
                Some(NodeValue::Int64(number)) => *number as f64,
                Some(NodeValue::UInt64(number)) => *number as f64,
                _ => f64::NAN,
            })
        }),
        b"codec" => {
            let codec = find(nodes, "codec").and_then(contents).unwrap_or_default();
            Value::Text(text_of(find(codec, "name")))
        }
        b"numberType" => samples.map_or(Value::Null, |array| {
            Value::Text(number_type(array.value_type).into())
        }),
        b"array" => samples.map_or(Value::Null, |array| Value::Array(array.clone())),
        b"base64Array" => base64_array(samples, field),
        _ => each(nodes, "attribute", &|attribute| {
            select(&field.inner, "NDAttribute", &|field| match field.name {
                b"value" => scalar_text(find(attribute, "value")),
                b"description" => Value::Text(text_of(find(attribute, "descriptor"))),
                _ => Value::Text(text_of(find(attribute, "name"))),
            })
        }),
    })
}

/// Makes a value from each structure in a list.
fn each(nodes: &[Node], name: &str, make: &dyn Fn(&[Node]) -> Value) -> Value {
    let mut made = Vec::new();
    if let Some(NodeValue::StructureArray(list)) = find(nodes, name).map(content) {
        for node in list {
            made.extend(contents(node).map(make));
        }
    }
    Value::List(made)
}

fn scalar_text(node: Option<&Node>) -> Value {
    match node.map(content) {
        Some(NodeValue::Number(ValueType::Boolean, value)) => {
            Value::Text(if *value == 0.0 { "false" } else { "true" }.to_owned())
        }
        Some(NodeValue::Number(_, number)) => element_text(Element::Number(*number)),
        Some(NodeValue::Int64(integer)) => element_text(Element::Signed(*integer)),
        Some(NodeValue::UInt64(integer)) => element_text(Element::Unsigned(*integer)),
        Some(NodeValue::Text(text)) => Value::Text(text.clone()),
        _ => Value::Null,
    }
}

fn number_type(value_type: ValueType) -> &'static str {
    match value_type {
        ValueType::Float64 => "FLOAT64",
        ValueType::Float32 => "FLOAT32",
        ValueType::Int8 => "INT8",
        ValueType::Int16 => "INT16",
        ValueType::UInt16 | ValueType::Enum => "UINT16",
        ValueType::Int32 => "INT32",
        ValueType::UInt32 => "UINT32",
        ValueType::Int64 => "INT64",
        ValueType::UInt64 => "UINT64",
        _ => "UINT8",
    }
}

fn base64_array(array: Option<&Array>, field: &Asked<'_>) -> Value {
    let value_type = array.map_or(ValueType::UInt8, |array| array.value_type);
    let bytes = array.map(|array| &array.data[..]);
    base64(value_type, bytes, field.length, &field.inner)
}

fn base64(value_type: ValueType, bytes: Option<&[u8]>, length: u32, fields: &[Asked<'_>]) -> Value {
    let Some(bytes) = bytes else {
        return Value::Null;
    };
    let size = value_type.element_bytes().unwrap_or(1);
    let bytes = limited_bytes(bytes, bytes.len() / size, size, length);
    select(fields, "Base64Array", &|field| {
        Value::Text(match field.name {
            b"numberType" => number_type(value_type).to_owned(),
            _ => base64_of(bytes),
        })
    })
}

/// The bytes of the first `length` of `count` elements; 0 for all.
fn limited_bytes(bytes: &[u8], count: usize, size: usize, length: u32) -> &[u8] {
    let end = limited(count, length) * size;
    bytes.get(..end).unwrap_or(bytes)
}

fn base64_of(bytes: &[u8]) -> String {
    let mut digits = Vec::new();
    push_digits(bytes, &mut digits);
    text(&digits)
}

fn push_digits(bytes: &[u8], to: &mut Vec<u8>) {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    to.reserve(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let mut word = 0_u32;
        for at in 0..3 {
            word = word << 8 | u32::from(chunk.get(at).copied().unwrap_or(0));
        }
        for digit in 0..4 {
            let value = word >> (18 - 6 * digit) & 63;
            to.push(if digit <= chunk.len() {
                DIGITS[value as usize]
            } else {
                b'='
            });
        }
    }
}
