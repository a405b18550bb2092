//! Values that PVWS sends as the text of their Java object: lists of strings, booleans, tables, images, and
//! structures that are not of a normative type.

use std::fmt::{Display, Write};

use pvwire_core::format::{MAX_DIGITS, fixed, number_text};
use pvwire_schema::types::{
    Alarm, Array, BlobValue, Metadata, Node, NodeValue, Severity, ValueType,
};

use crate::java;
use crate::json::integers;
use crate::name::Dialect;
use crate::vtype::{Sample, VType, Value};

/// Alarm status names of Channel Access, in the order of `alarm.h`.
const CONDITIONS: [&str; 22] = [
    "NO_ALARM",
    "READ_ALARM",
    "WRITE_ALARM",
    "HIHI_ALARM",
    "HIGH_ALARM",
    "LOLO_ALARM",
    "LOW_ALARM",
    "STATE_ALARM",
    "COS_ALARM",
    "COMM_ALARM",
    "TIMEOUT_ALARM",
    "HW_LIMIT_ALARM",
    "CALC_ALARM",
    "SCAN_ALARM",
    "LINK_ALARM",
    "SOFT_ALARM",
    "BAD_SUB_ALARM",
    "UDF_ALARM",
    "DISABLE_ALARM",
    "SIMM_ALARM",
    "READ_ACCESS_ALARM",
    "WRITE_ACCESS_ALARM",
];

/// Alarm status names of pvAccess, in the order of its numbers.
const CLASSES: [&str; 8] = [
    "NONE",
    "DEVICE",
    "DRIVER",
    "RECORD",
    "DB",
    "CONF",
    "UNDEFINED",
    "CLIENT",
];

/// The number of the first pvAccess status in `Alarm::status`.
const FIRST_CLASS: u16 = 100;

/// The name of a severity.
pub(crate) fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::NoAlarm => "NONE",
        Severity::Minor => "MINOR",
        Severity::Major => "MAJOR",
        Severity::Invalid => "INVALID",
    }
}

/// The text of a value whose messages have neither `vtype` nor `severity`.
pub(crate) fn other(sample: &Sample<'_>, metadata: &Metadata, dialect: Dialect) -> String {
    let end = format!(
        "{}, {}]",
        alarm(sample.alarm, sample.message, dialect),
        java::instant(java::or_epics_epoch(sample.time_ns))
    );
    match sample.value {
        Value::Number(truth) => format!("VBoolean[{}, {end}", truth != 0.0),
        Value::Blob(BlobValue::TextArray(texts)) => {
            list("VStringArray", texts.iter().map(String::as_str), &end)
        }
        Value::Blob(BlobValue::Array(array)) => elements(array, metadata, &end),
        Value::Blob(BlobValue::Structure(node) | BlobValue::StructurePart(node)) => {
            if node.type_id.starts_with("epics:nt/NTNDArray:") {
                format!("VImage[{end}")
            } else {
                format!("VTable[{}, {end}", structure(node))
            }
        }
        Value::Blob(blob) => format!("{blob:?}"),
    }
}

/// The text of a number, or of the first elements of an array of numbers, as clients format them with the precision
/// that they have. No element gives a text that isn't a number: cs-web-lib reads an empty text as 0.
pub(crate) fn plain(
    sample: &Sample<'_>,
    vtype: VType,
    metadata: &Metadata,
    dialect: Dialect,
) -> String {
    let digits = vtype
        .digits(metadata, dialect)
        .and_then(|digits| usize::try_from(digits).ok())
        .map(|digits| digits.min(MAX_DIGITS));
    let number = |number: f64| match digits {
        Some(digits) if number.is_finite() => fixed(number, digits),
        _ => number_text(number),
    };
    let integer = |integer: &dyn Display| match digits {
        Some(digits @ 1..) => format!("{integer}.{:0digits$}", 0),
        _ => integer.to_string(),
    };
    match sample.value {
        Value::Number(value) if vtype == VType::Integer("VByte") => {
            number(f64::from(value as i64 as i8))
        }
        Value::Number(value) if value.is_finite() => number(value),
        Value::Number(_) => "NaN".to_owned(),
        Value::Blob(BlobValue::Int64(value)) => integer(value),
        Value::Blob(BlobValue::UInt64(value)) => integer(value),
        Value::Blob(BlobValue::Array(array)) if array.count == 0 => "[]".to_owned(),
        Value::Blob(BlobValue::Array(array)) => {
            let first = first(array);
            let mut elements: Vec<_> = match is_integer(array) {
                true => integers(&first).map(|each| integer(&each)).collect(),
                false => first.numbers().into_iter().map(number).collect(),
            };
            if array.count as usize > FIRST_ELEMENTS {
                elements.push("…".to_owned());
            }
            elements.join(", ")
        }
        Value::Blob(_) => String::new(),
    }
}

/// Maximum number of elements in the text of an array of numbers.
const FIRST_ELEMENTS: usize = 100;

fn first(array: &Array) -> Array {
    let size = array.value_type.element_bytes().unwrap_or_default();
    let length = array.data.len().min(size * FIRST_ELEMENTS);
    let data = array.data.slice(..length);
    Array {
        data,
        ..array.clone()
    }
}

/// Whether the elements are integers, of which a double may not have all digits.
fn is_integer(array: &Array) -> bool {
    use ValueType::{Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64};
    matches!(
        array.value_type,
        Int8 | Int16 | Int32 | Int64 | UInt8 | UInt16 | UInt32 | UInt64
    )
}

fn elements(array: &Array, metadata: &Metadata, end: &str) -> String {
    let numbers = array.numbers();
    if array.value_type == ValueType::Boolean {
        let truths = numbers.iter().map(|number| match *number {
            0.0 => "false",
            _ => "true",
        });
        return list("VBooleanArray", truths, end);
    }
    let label = |number: &f64| match metadata.choices.get(*number as usize) {
        Some(label) => label.clone(),
        None => number.to_string(),
    };
    let labels: Vec<_> = numbers.iter().map(label).collect();
    list("VEnumArray", labels.iter().map(String::as_str), end)
}

fn list<'a>(class: &str, elements: impl Iterator<Item = &'a str>, end: &str) -> String {
    let elements: Vec<_> = elements.collect();
    let (count, elements) = (elements.len(), elements.join(", "));
    format!("{class}[[{elements}], size [{count}], {end}")
}

/// Severity, status class and name of an alarm.
fn alarm(alarm: Alarm, message: &str, dialect: Dialect) -> String {
    let class = alarm.status.checked_sub(FIRST_CLASS);
    let class = class.and_then(|class| CLASSES.get(usize::from(class)));
    let condition = CONDITIONS.get(usize::from(alarm.status));
    let name = match dialect {
        Dialect::Pva if !message.is_empty() => message,
        _ => condition.copied().unwrap_or(CONDITIONS[0]),
    };
    let (severity, class) = (severity(alarm.severity), class.copied().unwrap_or("NONE"));
    format!("{severity}({class}) - {name}")
}

/// The fields of a structure, one per line: type, name and value.
pub(crate) fn structure(node: &Node) -> String {
    let mut text = String::new();
    write_node(&mut text, node, 0);
    text.truncate(text.trim_end().len());
    text
}

fn write_node(text: &mut String, node: &Node, depth: usize) {
    let indent = "    ".repeat(depth);
    let name = &node.name;
    let mut line = |kind: &str, value: &dyn std::fmt::Display| {
        // Writing to a String can't fail.
        let _ = writeln!(text, "{indent}{kind} {name} {value}");
    };
    match &node.value {
        NodeValue::Empty => line("null", &""),
        NodeValue::Number(value_type, number) => line(kind(*value_type), number),
        NodeValue::Int64(integer) => line("long", integer),
        NodeValue::UInt64(integer) => line("ulong", integer),
        NodeValue::Text(string) => line("string", string),
        NodeValue::TextArray(strings) => line("string[]", &format!("{strings:?}")),
        NodeValue::Array(array) => {
            let kind = format!("{}[]", kind(array.value_type));
            let elements = match is_integer(array) {
                true => format!("{:?}", integers(array).collect::<Vec<_>>()),
                false => format!("{:?}", array.numbers()),
            };
            line(&kind, &elements);
        }
        NodeValue::Structure(fields)
        | NodeValue::StructureArray(fields)
        | NodeValue::UnionArray(fields)
        | NodeValue::AnyArray(fields) => {
            line("structure", &node.type_id);
            for field in fields {
                write_node(text, field, depth + 1);
            }
        }
        NodeValue::Union(field) | NodeValue::Any(field) => {
            line("union", &"");
            if let Some(field) = field {
                write_node(text, field, depth + 1);
            }
        }
    }
}

/// The pvAccess name of an element type.
fn kind(value_type: ValueType) -> &'static str {
    match value_type {
        ValueType::Float64 => "double",
        ValueType::Float32 => "float",
        ValueType::Int8 => "byte",
        ValueType::UInt8 => "ubyte",
        ValueType::Int16 => "short",
        ValueType::UInt16 => "ushort",
        ValueType::Int32 => "int",
        ValueType::UInt32 => "uint",
        ValueType::Int64 => "long",
        ValueType::UInt64 => "ulong",
        ValueType::Boolean => "boolean",
        ValueType::Enum => "enum_t",
        ValueType::String => "string",
        ValueType::Unknown | ValueType::Structure | ValueType::Union | ValueType::Any => "any",
    }
}
