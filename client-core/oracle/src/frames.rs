//! Makes the frames that a relay sends from events.

use pvwire_schema::encode::{FrameEncoder, RowMarks};
use pvwire_schema::types::{
    Alarm, Array, BlobValue, Connection, ConnectionState, Detail, FrameKind, Limits, Metadata,
    Node, NodeValue, PvId, Severity, SkipCause, Skips, ValueType,
};
use serde_json::Value as Json;

use crate::state::number;

/// What the relay last sent for a PV.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    value: Option<Json>,
    time: Json,
    alarm: Json,
    type_and_epoch: Option<(String, u64)>,
    sequence: u32,
}

fn type_of(name: &str) -> ValueType {
    let found = ValueType::ALL
        .iter()
        .find(|known| format!("{known:?}") == name);
    *found.expect("a type")
}

fn text_of(of: &Json) -> String {
    of.as_str().unwrap_or("").to_owned()
}

/// Adds the parts of an event to a frame.
pub(crate) fn add(
    encoder: &mut FrameEncoder,
    id: PvId,
    kind: FrameKind,
    parts: &Json,
    sent: &mut Sent,
) {
    if let Some(of) = parts.get("metadata") {
        let epoch = of["epoch"].as_u64().unwrap_or(0);
        let now = (of["type"].as_str().unwrap_or("Unknown").to_owned(), epoch);
        let before = sent.type_and_epoch.replace(now.clone());
        let is_other = before.is_some_and(|(value_type, epoch)| {
            epoch != now.1 || value_type != "Unknown" && value_type != now.0
        });
        if is_other {
            sent.value = None;
            sent.sequence = 0;
        }
        encoder.metadata(id, &metadata(of));
    }
    if let Some(of) = parts.get("connection") {
        encoder.connection(id, connection(of));
    }
    let is_given = |name: &str| parts.get(name).is_some();
    if is_given("value") {
        sent.value = Some(parts["value"].clone());
    }
    if is_given("time") {
        sent.time = parts["time"].clone();
    }
    if is_given("alarm") {
        sent.alarm = parts["alarm"].clone();
    }
    let is_update = ["value", "time", "alarm", "skips"]
        .iter()
        .any(|name| is_given(name));
    let Some(value) = sent.value.as_ref().filter(|_| is_update) else {
        return;
    };
    let count = |cause: &str| parts["skips"][cause].as_u64().unwrap_or(0) as u32;
    let skips = Skips {
        relay: count("relay"),
        source: count("source"),
        filter: count("filter"),
        bus: count("bus"),
    };
    let apart = count("behind").wrapping_add(count("paced"));
    sent.sequence = (sent.sequence.wrapping_add(1))
        .wrapping_add(skips.total())
        .wrapping_add(apart);
    let detail = Detail {
        user_tag: sent.time["userTag"].as_i64().unwrap_or(0) as i32,
        message: text_of(&sent.alarm["message"]),
    };
    let marks = RowMarks {
        alarm: is_given("alarm").then(|| alarm(&sent.alarm)),
        detail: (is_given("alarm") || is_given("time")).then_some(&detail),
        skips: if kind == FrameKind::Update {
            skips
        } else {
            Skips::NONE
        },
        sequence: sent.sequence,
    };
    let time = &sent.time;
    let time_ns = time["seconds"].as_i64().unwrap_or(0) * 1_000_000_000
        + time["nanoseconds"].as_i64().unwrap_or(0);
    match number_of(value) {
        Some(number) => encoder.number(id, time_ns, number, marks),
        None => encoder.blob(id, time_ns, &blob(value), marks),
    }
}

/// The kind of frame that an event needs, and the cause of what it skipped.
pub(crate) fn kind_of(event: &Json) -> (FrameKind, SkipCause) {
    for parts in event
        .as_object()
        .into_iter()
        .flat_map(|event| event.values())
    {
        for (name, cause) in [("behind", SkipCause::Behind), ("paced", SkipCause::Paced)] {
            if parts["skips"].get(name).is_some() {
                return (FrameKind::CatchUp, cause);
            }
        }
    }
    (FrameKind::Update, SkipCause::Unknown)
}

fn alarm(of: &Json) -> Alarm {
    let severity = match of["severity"].as_str() {
        None => return Alarm::NONE,
        Some("NO_ALARM") => Severity::NoAlarm,
        Some("MINOR") => Severity::Minor,
        Some("MAJOR") => Severity::Major,
        Some(_) => Severity::Invalid,
    };
    let status = of["status"].as_u64().unwrap_or(0) as u16;
    Alarm { severity, status }
}

fn limits(of: &Json) -> Limits {
    let end = |at: usize| match &of[at] {
        Json::Null => f64::NAN,
        of => number(of),
    };
    Limits {
        low: end(0),
        high: end(1),
    }
}

fn metadata(of: &Json) -> Metadata {
    let choices = of["choices"].as_array().into_iter().flatten();
    Metadata {
        value_type: type_of(of["type"].as_str().unwrap_or("Unknown")),
        element_count: of["elementCount"].as_u64().unwrap_or(1) as u32,
        units: text_of(&of["units"]),
        precision: of["precision"].as_i64().map(|digits| digits as i16),
        choices: choices.map(text_of).collect(),
        display: limits(&of["display"]),
        control: limits(&of["control"]),
        warning: limits(&of["warning"]),
        alarm: limits(&of["alarm"]),
        description: text_of(&of["description"]),
        epoch: of["epoch"].as_u64().unwrap_or(0) as u32,
        type_id: text_of(&of["typeId"]),
        form: text_of(&of["form"]),
        missing_field: text_of(&of["missingField"]),
    }
}

fn connection(of: &Json) -> Connection {
    let flag = |name: &str, default: bool| of[name].as_bool().unwrap_or(default);
    let ns = |name: &str| of[name].as_i64().unwrap_or(0) * 1_000_000;
    Connection {
        state: match of["state"].as_str() {
            Some("connecting") => ConnectionState::Connecting,
            Some("notFound") => ConnectionState::NotFound,
            Some("connected") => ConnectionState::Connected,
            _ => ConnectionState::Disconnected,
        },
        since_ns: ns("sinceMs"),
        heard_ns: ns("heardMs"),
        read: flag("read", true),
        write: flag("write", true),
        puts: flag("puts", true),
        write_unknown: flag("writeUnknown", false),
    }
}

/// A value that is sent as a double.
fn number_of(value: &Json) -> Option<f64> {
    if value.get("array").is_some() {
        return None;
    }
    match value["type"].as_str()? {
        "Int64" | "UInt64" => {
            let integer: i128 = digits(&value["value"]).parse().ok()?;
            (integer.abs() < 1 << 53).then_some(integer as f64)
        }
        "String" | "Structure" | "Union" | "Any" | "Unknown" => None,
        _ => Some(number(&value["value"])),
    }
}

fn digits(of: &Json) -> String {
    of.as_str().map_or_else(|| of.to_string(), str::to_owned)
}

fn array(value_type: ValueType, elements: &[Json]) -> Array {
    let mut data = Vec::new();
    for one in elements {
        match value_type {
            ValueType::Float64 => data.extend(number(one).to_le_bytes()),
            ValueType::Float32 => data.extend((number(one) as f32).to_le_bytes()),
            ValueType::Int64 | ValueType::UInt64 => {
                let integer: i128 = digits(one).parse().expect("an integer");
                data.extend((integer as u64).to_le_bytes());
            }
            other => {
                let bytes = (number(one) as i64).to_le_bytes();
                data.extend(&bytes[..other.element_bytes().unwrap_or(0)]);
            }
        }
    }
    Array {
        value_type,
        count: elements.len() as u32,
        data: data.into(),
    }
}

fn texts(of: &[Json]) -> Vec<String> {
    of.iter().map(text_of).collect()
}

fn blob(value: &Json) -> BlobValue {
    let value_type = type_of(value["type"].as_str().unwrap_or("Unknown"));
    let elements = value["array"].as_array();
    match (value_type, elements) {
        (ValueType::Structure | ValueType::Union | ValueType::Any, _) => {
            let root = node(value);
            if value["partial"] == true {
                BlobValue::StructurePart(root)
            } else {
                BlobValue::Structure(root)
            }
        }
        (ValueType::String, Some(elements)) => BlobValue::TextArray(texts(elements)),
        (ValueType::String, None) => BlobValue::Text(text_of(&value["value"])),
        (ValueType::Unknown, _) => BlobValue::array(value_type, 0, Vec::new()),
        (value_type, Some(elements)) => BlobValue::Array(array(value_type, elements)),
        (ValueType::Int64, None) => {
            BlobValue::Int64(digits(&value["value"]).parse().expect("an integer"))
        }
        (_, None) => BlobValue::UInt64(digits(&value["value"]).parse().expect("an integer")),
    }
}

fn node(of: &Json) -> Node {
    let value_type = type_of(of["type"].as_str().unwrap_or("Unknown"));
    let elements = of["array"].as_array();
    let nodes = |list: Option<&Vec<Json>>| list.into_iter().flatten().map(node).collect();
    let held = || {
        of.get("holds")
            .filter(|held| !held.is_null())
            .map(|held| Box::new(node(held)))
    };
    let value = match (value_type, elements) {
        (ValueType::Unknown, _) => NodeValue::Empty,
        (ValueType::Structure, None) => NodeValue::Structure(nodes(of["fields"].as_array())),
        (ValueType::Structure, list) => NodeValue::StructureArray(nodes(list)),
        (ValueType::Union, None) => NodeValue::Union(held()),
        (ValueType::Union, list) => NodeValue::UnionArray(nodes(list)),
        (ValueType::Any, None) => NodeValue::Any(held()),
        (ValueType::Any, list) => NodeValue::AnyArray(nodes(list)),
        (ValueType::String, Some(list)) => NodeValue::TextArray(texts(list)),
        (ValueType::String, None) => NodeValue::Text(text_of(&of["value"])),
        (value_type, Some(list)) => NodeValue::Array(array(value_type, list)),
        (ValueType::Int64, None) => {
            NodeValue::Int64(digits(&of["value"]).parse().expect("an integer"))
        }
        (ValueType::UInt64, None) => {
            NodeValue::UInt64(digits(&of["value"]).parse().expect("an integer"))
        }
        (value_type, None) => NodeValue::Number(value_type, number(&of["value"])),
    };
    Node {
        name: text_of(&of["name"]),
        type_id: String::new(),
        value,
    }
}
