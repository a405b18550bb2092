//! A field of a pvAccess structure as a PV: its value, alarm, time stamp and metadata.
//!
//! Alarm and time stamp are those of the innermost structure around the field that has them. Units,
//! limits and the like belong to a field only where it is the `value` beside them, or the structure
//! that holds them.

use pvwire_epics::pva::{ElementType, Node, NodeValue};
use pvwire_schema::types::{Limits, Metadata, ValueType};

use super::value::{self, value_type};
use crate::ingest::RowValue;

/// Start of the EPICS epoch, 1990-01-01 UTC, in nanoseconds past the POSIX epoch.
const EPICS_EPOCH_NS: i64 = 631_152_000_000_000_000;

/// A field that was found in an update.
pub(super) struct Field<'a> {
    shown: &'a Node,
    choices: Option<&'a [String]>,
    type_id: &'a str,
    alarm: Option<&'a Node>,
    stamp: Option<&'a Node>,
    /// The structure that holds `display`, `control` and `valueAlarm`.
    described: Option<&'a Node>,
    /// Only structures contain it, no unions and arrays.
    is_reachable: bool,
}

impl<'a> Field<'a> {
    /// Finds a field by its path, names separated by `/`.
    ///
    /// # Errors
    /// Which fields exist instead.
    pub(super) fn find(root: &'a Node, path: &str) -> Result<Self, NoSuchField> {
        let mut field = Self {
            shown: root,
            choices: None,
            type_id: "",
            alarm: None,
            stamp: None,
            described: None,
            is_reachable: true,
        };
        field.pass(root);
        let (mut parent, mut at, mut name) = (root, root, "");
        let mut walked = 0;
        for step in path.split('/') {
            let Some(next) = at.step(step) else {
                let before = path[..walked].trim_end_matches('/');
                return Err(NoSuchField::new(before, step, at));
            };
            field.is_reachable &= matches!(at.value, NodeValue::Structure(_));
            walked += step.len() + 1;
            (parent, at, name) = (at, next, step);
            field.pass(at);
        }
        field.described = Some(if name == "value" { parent } else { at });
        field.show(at);
        Ok(field)
    }

    /// Takes alarm and time stamp of a structure, which apply to everything in it.
    fn pass(&mut self, node: &'a Node) {
        let part = |name, field| part(node, name).filter(|part| part.step(field).is_some());
        self.alarm = part("alarm", "severity").or(self.alarm);
        self.stamp = part("timeStamp", "secondsPastEpoch").or(self.stamp);
    }

    /// Shows the field that a union holds, and the value of a normative scalar, array or
    /// enumeration.
    fn show(&mut self, node: &'a Node) {
        if let NodeValue::Union(Some(held)) = &node.value {
            self.pass(held);
            self.described = Some(held);
            return self.show(held);
        }
        self.shown = node;
        self.type_id = &node.type_id;
        let is_plain = [
            "epics:nt/NTScalar:",
            "epics:nt/NTScalarArray:",
            "epics:nt/NTEnum:",
        ]
        .iter()
        .any(|id| node.type_id.starts_with(id));
        if is_plain && let Some(value) = node.step("value") {
            self.shown = value;
        }
        if let Some((index, choices)) = enumeration(self.shown) {
            (self.shown, self.choices) = (index, Some(choices));
        }
    }

    /// Whether pvAccess can write it.
    pub(super) fn is_writable(&self) -> bool {
        self.is_reachable
            && !matches!(
                self.shown.value,
                NodeValue::Structure(_)
                    | NodeValue::StructureArray(_)
                    | NodeValue::Union(_)
                    | NodeValue::UnionArray(_)
                    | NodeValue::Null
            )
    }

    /// The value.
    pub(super) fn value(&self) -> RowValue {
        value::field(self.shown)
    }

    /// Severity, status and message of the alarm; `None` without an alarm.
    pub(super) fn alarm(&self) -> (Option<u16>, u16, &'a str) {
        let Some(alarm) = self.alarm else {
            return (None, 0, "");
        };
        let number = |name| {
            let number = alarm.step(name).and_then(integer).unwrap_or(0);
            // A number that no alarm has, negative or too large, stays one.
            u16::try_from(number).unwrap_or(u16::MAX)
        };
        (
            Some(number("severity")),
            number("status"),
            text(alarm, "message"),
        )
    }

    /// Nanoseconds past the POSIX epoch, 0 without a time stamp, and the user tag.
    pub(super) fn stamp(&self) -> (i64, i32) {
        let number = |name| {
            let found = self.stamp.and_then(|stamp| stamp.step(name));
            found.and_then(integer).unwrap_or(0)
        };
        let seconds = number("secondsPastEpoch").checked_mul(1_000_000_000);
        let time_ns = seconds.and_then(|seconds| seconds.checked_add(number("nanoseconds")));
        // No time: one that 64 bits can't hold, and that of a record which was never processed.
        let time_ns = time_ns.filter(|time_ns| *time_ns != EPICS_EPOCH_NS);
        (time_ns.unwrap_or(0), number("userTag") as i32)
    }

    /// Its metadata, without the epoch.
    pub(super) fn metadata(&self) -> Metadata {
        let (value_type, element_count) = match &self.shown.value {
            _ if self.choices.is_some() => (ValueType::Enum, 1),
            NodeValue::Number(element, _) => (value_type(*element), 1),
            NodeValue::Boolean(_) => (ValueType::Boolean, 1),
            NodeValue::Int64(_) => (ValueType::Int64, 1),
            NodeValue::UInt64(_) => (ValueType::UInt64, 1),
            NodeValue::Text(_) => (ValueType::String, 1),
            NodeValue::TextArray(_) => (ValueType::String, 0),
            NodeValue::Array { element, .. } => (value_type(*element), 0),
            NodeValue::StructureArray(_) | NodeValue::UnionArray(_) => (ValueType::Structure, 0),
            NodeValue::Structure(_) | NodeValue::Union(_) | NodeValue::Null => {
                (ValueType::Structure, 1)
            }
        };
        let of = |name| self.described.and_then(|described| part(described, name));
        let (display, control, limit) = (of("display"), of("control"), of("valueAlarm"));
        let is_float = matches!(value_type, ValueType::Float32 | ValueType::Float64);
        let precision = display.and_then(|display| display.step("precision"));
        let precision = precision.and_then(integer).filter(|_| is_float);
        let form = display.and_then(|display| enumeration(display.step("form")?));
        let form =
            form.and_then(|(index, forms)| forms.get(usize::try_from(integer(index)?).ok()?));
        let mut description = display.map_or("", |display| text(display, "description"));
        if description.is_empty() {
            description = self.described.map_or("", |from| text(from, "descriptor"));
        }
        Metadata {
            value_type,
            element_count,
            units: display
                .map_or("", |display| text(display, "units"))
                .to_owned(),
            precision: precision.map(|digits| digits.clamp(-1, i16::MAX.into()) as i16),
            choices: self.choices.unwrap_or_default().to_vec(),
            display: limits(display, "limitLow", "limitHigh"),
            control: limits(control, "limitLow", "limitHigh"),
            warning: limits(limit, "lowWarningLimit", "highWarningLimit"),
            alarm: limits(limit, "lowAlarmLimit", "highAlarmLimit"),
            description: description.to_owned(),
            type_id: self.type_id.to_owned(),
            form: form.cloned().unwrap_or_default(),
            ..Metadata::default()
        }
    }
}

/// A structure within a structure.
fn part<'a>(node: &'a Node, name: &str) -> Option<&'a Node> {
    let NodeValue::Structure(fields) = &node.value else {
        return None;
    };
    let found = fields.iter().find(|field| field.name == name)?;
    matches!(found.value, NodeValue::Structure(_)).then_some(found)
}

/// Index and choices of an enumeration.
fn enumeration(node: &Node) -> Option<(&Node, &[String])> {
    match &node.value {
        NodeValue::Structure(fields) if fields.len() == 2 => {
            let index = node.step("index")?;
            integer(index)?;
            match &node.step("choices")?.value {
                NodeValue::TextArray(choices) => Some((index, choices)),
                _ => None,
            }
        }
        _ => None,
    }
}

fn integer(node: &Node) -> Option<i64> {
    match node.value {
        NodeValue::Number(ElementType::Float32 | ElementType::Float64, _) => None,
        NodeValue::Number(_, number) => Some(number as i64),
        NodeValue::Int64(number) => Some(number),
        NodeValue::UInt64(number) => i64::try_from(number).ok(),
        _ => None,
    }
}

fn real(node: &Node) -> Option<f64> {
    match node.value {
        NodeValue::Number(_, number) => Some(number),
        NodeValue::Int64(number) => Some(number as f64),
        NodeValue::UInt64(number) => Some(number as f64),
        _ => None,
    }
}

fn text<'a>(node: &'a Node, name: &str) -> &'a str {
    match node.step(name).map(|found| &found.value) {
        Some(NodeValue::Text(text)) => text,
        _ => "",
    }
}

fn limits(from: Option<&Node>, low: &str, high: &str) -> Limits {
    let end = |name| from.and_then(|from| real(from.step(name)?));
    Limits {
        low: end(low).unwrap_or(f64::NAN),
        high: end(high).unwrap_or(f64::NAN),
    }
}

/// Why a structure has no field at a path, and what it has instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoSuchField {
    /// The structure has other fields.
    #[error("{whose} has no field {step:?}; it has: {fields}")]
    OtherFields {
        whose: String,
        step: String,
        fields: String,
    },
    /// The union holds another field.
    #[error("{whose} is a union that holds {held:?}, not {step:?}")]
    OtherInUnion {
        whose: String,
        step: String,
        held: String,
    },
    /// The union is empty.
    #[error("{whose} is a union that holds nothing now")]
    EmptyUnion { whose: String },
    /// The array is shorter, or the step isn't an index.
    #[error("{whose} is an array of {count} elements, counted from 0, without {step:?}")]
    NoSuchElement {
        whose: String,
        step: String,
        count: usize,
    },
    /// It is a value without fields.
    #[error("{whose} has no fields, so no {step:?}")]
    NoFields { whose: String, step: String },
}

impl NoSuchField {
    /// `step` was looked for in `at`, which is found at the path `before`.
    fn new(before: &str, step: &str, at: &Node) -> Self {
        let whose = if before.is_empty() {
            "the structure".to_owned()
        } else {
            format!("{before:?}")
        };
        let name = step;
        let step = step.to_owned();
        match &at.value {
            NodeValue::Structure(fields) => {
                let names: Vec<_> = fields.iter().map(|field| field.name.as_str()).collect();
                let fields = names.join(", ");
                Self::OtherFields {
                    whose,
                    step,
                    fields,
                }
            }
            NodeValue::Union(Some(held)) if held.name.is_empty() => Self::new(before, name, held),
            NodeValue::Union(Some(held)) => {
                let held = held.name.clone();
                Self::OtherInUnion { whose, step, held }
            }
            NodeValue::Union(None) => Self::EmptyUnion { whose },
            NodeValue::StructureArray(elements) | NodeValue::UnionArray(elements) => {
                let count = elements.len();
                Self::NoSuchElement { whose, step, count }
            }
            _ => Self::NoFields { whose, step },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, value: NodeValue) -> Node {
        Node {
            name: name.to_owned(),
            type_id: String::new(),
            value,
        }
    }

    fn structure(name: &str, fields: Vec<Node>) -> Node {
        node(name, NodeValue::Structure(fields))
    }

    fn integer(name: &str, number: i32) -> Node {
        node(name, NodeValue::Number(ElementType::Int32, number.into()))
    }

    fn number(name: &str, number: f64) -> Node {
        node(name, NodeValue::Number(ElementType::Float64, number))
    }

    fn alarm(severity: i32, message: &str) -> Node {
        let message = node("message", NodeValue::Text(message.to_owned()));
        let fields = vec![integer("severity", severity), integer("status", 1), message];
        structure("alarm", fields)
    }

    fn stamp(seconds: i64) -> Node {
        let seconds = node("secondsPastEpoch", NodeValue::Int64(seconds));
        structure("timeStamp", vec![seconds, integer("nanoseconds", 7)])
    }

    /// A structure that contains a structure of the same type.
    fn site() -> Node {
        let units = node("units", NodeValue::Text("mm".to_owned()));
        let gap = vec![
            number("value", 2.5),
            number("offset", 0.5),
            alarm(2, "HIHI"),
            structure("display", vec![units]),
        ];
        let mode = vec![
            integer("index", 1),
            node(
                "choices",
                NodeValue::TextArray(vec!["off".into(), "on".into()]),
            ),
        ];
        let selected = Some(Box::new(integer("count", 4)));
        structure(
            "",
            vec![
                structure("gap", gap),
                structure("mode", mode),
                node("either", NodeValue::Union(selected)),
                node("list", NodeValue::StructureArray(vec![None])),
                alarm(1, "LOW"),
                stamp(1_700_000_000),
            ],
        )
    }

    #[test]
    fn field_has_its_own_type_and_the_nearest_alarm_and_time() {
        let root = site();
        let gap = Field::find(&root, "gap/value").unwrap();
        assert_eq!(gap.value(), RowValue::Number(2.5));
        assert_eq!(gap.alarm(), (Some(2), 1, "HIHI"));
        assert_eq!(gap.stamp(), (1_700_000_000_000_000_007, 0));
        let metadata = gap.metadata();
        assert_eq!(metadata.value_type, ValueType::Float64);
        assert_eq!((metadata.units.as_str(), metadata.precision), ("mm", None));
        let offset = Field::find(&root, "gap/offset").unwrap();
        assert_eq!(offset.alarm(), (Some(2), 1, "HIHI"));
        assert_eq!(offset.metadata().units, "", "the display is of the value");
        let mode = Field::find(&root, "mode").unwrap();
        assert_eq!(mode.value(), RowValue::Number(1.0));
        assert_eq!(mode.alarm(), (Some(1), 1, "LOW"));
        assert_eq!(mode.metadata().value_type, ValueType::Enum);
        assert_eq!(mode.metadata().choices, ["off", "on"]);
        let severity = Field::find(&root, "gap/alarm/severity").unwrap();
        assert_eq!(severity.metadata().value_type, ValueType::Int32);
        assert_eq!(severity.alarm().2, "HIHI");

        let bare = structure("", vec![number("x", 1.0)]);
        let bare = Field::find(&bare, "x").unwrap();
        assert_eq!((bare.alarm().0, bare.stamp()), (None, (0, 0)));
    }

    #[test]
    fn only_what_lies_in_structures_alone_can_be_written() {
        let root = site();
        let writable = |path| Field::find(&root, path).map(|field| field.is_writable());
        assert_eq!(writable("gap/offset"), Ok(true));
        assert_eq!(writable("mode"), Ok(true));
        assert_eq!(writable("gap"), Ok(false));
        assert_eq!(writable("list"), Ok(false));
        assert_eq!(writable("either/count"), Ok(false));
    }

    #[test]
    fn unknown_field_says_which_there_are() {
        let root = site();
        let why = |path| Field::find(&root, path).err().unwrap().to_string();
        assert_eq!(
            why("gpa"),
            "the structure has no field \"gpa\"; it has: gap, mode, either, list, alarm, timeStamp"
        );
        assert_eq!(
            why("gap/x/y"),
            "\"gap\" has no field \"x\"; it has: value, offset, alarm, display"
        );
        assert_eq!(
            why("gap/value/x"),
            "\"gap/value\" has no fields, so no \"x\""
        );
        assert_eq!(
            why("either/other"),
            "\"either\" is a union that holds \"count\", not \"other\""
        );
        assert_eq!(
            why("list/3/x"),
            "\"list\" is an array of 1 elements, counted from 0, without \"3\""
        );
    }
}
