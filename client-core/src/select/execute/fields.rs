//! The fields that programs read, by their paths in the schema, and texts that many of them show.

use pvwire_schema::types::ValueType;

use super::lines::Line;
use super::needs;
use crate::select::schema::{self, TYPENAME};
use crate::store::part;

/// The form of the fields that have several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// That of a selection of one PV.
    Selection,
    /// That of GraphQL documents.
    Graphql,
    /// That of Coniql.
    #[cfg(feature = "graphql")]
    Coniql,
}

impl Form {
    /// When an object exists.
    pub(super) fn presence(self, of: Parent) -> Presence {
        #[cfg(feature = "graphql")]
        if self == Self::Coniql {
            return of.presence().coniql();
        }
        of.presence()
    }
}

/// A field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::select) enum Read {
    /// An object with fields.
    Object(Parent),
    Id,
    Skipped,
    /// Values skipped for the cause of this number.
    Skips(u8),
    Float,
    Number,
    String,
    StringWithUnits,
    Text,
    Array,
    Exact,
    Bigint,
    Structure,
    Structures,
    /// The first elements as text; 0 for all.
    StringArray(u32),
    Float64Array(u32),
    Base64(u32),
    Table,
    NdArray,
    Datetime,
    Seconds,
    Nanoseconds,
    UserTag,
    Quality,
    Severity,
    AlarmStatus,
    Message,
    Mutable,
    Writable,
    Type,
    ElementCount,
    Description,
    TypeId,
    Form,
    Units,
    Precision,
    Choices,
    Role,
    Widget,
    GraphqlUnits,
    GraphqlForm,
    Low(Range),
    High(Range),
    State,
    Connected,
    Since,
    LastHeard,
    Unresponsive,
    Readable,
    Reason,
    /// A field in Coniql's form.
    #[cfg(feature = "graphql")]
    Coniql(Letter),
}

/// Limits of a PV.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::select) enum Range {
    Control,
    Display,
    Alarm,
    Warning,
}

/// When an object exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    Always,
    Value,
    Time,
    Display,
    Range(Range),
    /// In Coniql: a value or time that is current.
    #[cfg(feature = "graphql")]
    Current,
    /// In Coniql: both limits of a number.
    #[cfg(feature = "graphql")]
    Limits(Range),
}

#[cfg(feature = "graphql")]
impl Presence {
    /// When an object exists in Coniql.
    fn coniql(self) -> Self {
        match self {
            Self::Value | Self::Time => Self::Current,
            Self::Range(range) => Self::Limits(range),
            presence => presence,
        }
    }
}

/// A field in Coniql's form.
#[cfg(feature = "graphql")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::select) enum Letter {
    Float,
    String,
    StringWithUnits,
    /// The first elements as text; 0 for all.
    StringArray(u32),
    Low(Range),
    High(Range),
    Datetime,
    Quality,
    Message,
    Description,
    Role,
    Widget,
    Form,
}

impl Read {
    /// Coniql's form of a field.
    #[cfg(feature = "graphql")]
    fn coniql(self) -> Self {
        Self::Coniql(match self {
            Self::Float => Letter::Float,
            Self::String => Letter::String,
            Self::StringWithUnits => Letter::StringWithUnits,
            Self::StringArray(length) => Letter::StringArray(length),
            Self::Low(range) => Letter::Low(range),
            Self::High(range) => Letter::High(range),
            Self::Datetime => Letter::Datetime,
            Self::Quality => Letter::Quality,
            Self::Message => Letter::Message,
            Self::Description => Letter::Description,
            Self::Role => Letter::Role,
            Self::Widget => Letter::Widget,
            Self::GraphqlForm => Letter::Form,
            read => return read,
        })
    }

    pub(super) fn needs(self) -> u8 {
        match self {
            Self::String | Self::StringWithUnits => needs::TEXT,
            Self::Text => needs::CHARACTERS,
            Self::StringArray(_) | Self::Base64(_) => needs::ELEMENTS,
            Self::Table | Self::NdArray => needs::STRUCTURE,
            _ => 0,
        }
    }
}

/// An object that has fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::select) enum Parent {
    Channel,
    Value,
    Time,
    Status,
    Display,
    Connection,
    Skips,
    Range(Range),
}

impl Parent {
    pub(super) fn presence(self) -> Presence {
        match self {
            Self::Value => Presence::Value,
            Self::Time => Presence::Time,
            Self::Display => Presence::Display,
            Self::Range(range) => Presence::Range(range),
            Self::Channel | Self::Status | Self::Connection | Self::Skips => Presence::Always,
        }
    }

    /// Its path up to the names of its fields.
    pub(in crate::select) fn path(self) -> &'static str {
        match self {
            Self::Channel => "",
            Self::Value => "value.",
            Self::Time => "time.",
            Self::Status => "status.",
            Self::Display | Self::Range(_) => "display.",
            Self::Connection => "connection.",
            Self::Skips => "skips.",
        }
    }

    /// The name of its type in the schema.
    pub(in crate::select) fn type_name(self) -> &'static str {
        match self {
            Self::Channel => "Channel",
            Self::Value => "ChannelValue",
            Self::Time => "ChannelTime",
            Self::Status => "ChannelStatus",
            Self::Display => "ChannelDisplay",
            Self::Connection => "ChannelConnection",
            Self::Skips => "ChannelSkips",
            Self::Range(_) => "Range",
        }
    }
}

/// A field of an object.
#[derive(Clone, Copy, Debug)]
pub(in crate::select) struct Field {
    pub(in crate::select) name: &'static str,
    /// How it is read; `None` for the name of the object's type.
    pub(in crate::select) read: Option<Read>,
    /// Parts of the PV that it reads.
    pub(in crate::select) mask: u8,
}

const fn named(name: &'static str, read: Read, mask: u32) -> Field {
    Field {
        name,
        read: Some(read),
        mask: mask as u8,
    }
}

const fn object(name: &'static str, parent: Parent, mask: u32) -> Field {
    named(name, Read::Object(parent), mask)
}

const fn range(name: &'static str, range: Range) -> Field {
    object(name, Parent::Range(range), part::METADATA)
}

static TYPE_NAME: Field = Field {
    name: TYPENAME,
    read: None,
    mask: 0,
};

static CHANNEL: &[Field] = &[
    named("id", Read::Id, 0),
    object("value", Parent::Value, part::VALUE),
    object("time", Parent::Time, part::TIME | part::VALUE),
    object("status", Parent::Status, 0),
    object("display", Parent::Display, part::METADATA),
    object("connection", Parent::Connection, 0),
    named("skipped", Read::Skipped, part::SKIPPED),
    object("skips", Parent::Skips, part::SKIPPED),
];

static VALUE: &[Field] = &[
    named("float", Read::Float, schema::VALUE),
    named("string", Read::String, schema::VALUE),
    named("number", Read::Number, schema::VALUE),
    named("text", Read::Text, schema::VALUE),
    named("array", Read::Array, schema::VALUE),
    named("exact", Read::Exact, schema::VALUE),
    named("bigint", Read::Bigint, schema::VALUE),
    named("structure", Read::Structure, schema::VALUE),
    named("structures", Read::Structures, schema::VALUE),
];

/// Values in the form of GraphQL.
static GRAPHQL_VALUE: &[Field] = &[
    named("stringArray", Read::StringArray(0), schema::VALUE),
    named("float64Array", Read::Float64Array(0), schema::VALUE),
    named("base64Array", Read::Base64(0), schema::VALUE),
    named("table", Read::Table, schema::VALUE),
    named("ndArray", Read::NdArray, schema::VALUE),
];

static TIME: &[Field] = &[
    named("datetime", Read::Datetime, part::TIME),
    named("seconds", Read::Seconds, part::TIME),
    named("nanoseconds", Read::Nanoseconds, part::TIME),
    named("userTag", Read::UserTag, part::TIME),
];

static STATUS: &[Field] = &[
    named("quality", Read::Quality, schema::ALARM),
    named("severity", Read::Severity, part::ALARM),
    named("alarmStatus", Read::AlarmStatus, part::ALARM),
    named("message", Read::Message, schema::ALARM | part::METADATA),
    named("mutable", Read::Mutable, schema::ACCESS),
    named("writable", Read::Writable, schema::ACCESS),
];

static DISPLAY: &[Field] = &[
    named("units", Read::Units, part::METADATA),
    named("precision", Read::Precision, part::METADATA),
    named("choices", Read::Choices, part::METADATA),
    named("type", Read::Type, part::METADATA),
    named("elementCount", Read::ElementCount, part::METADATA),
    named("description", Read::Description, part::METADATA),
    named("typeId", Read::TypeId, part::METADATA),
    named("form", Read::Form, part::METADATA),
    range("controlRange", Range::Control),
    range("displayRange", Range::Display),
    range("alarmRange", Range::Alarm),
    range("warningRange", Range::Warning),
];

/// Metadata in the form of GraphQL.
static GRAPHQL_DISPLAY: &[Field] = &[
    named("units", Read::GraphqlUnits, part::METADATA),
    named("form", Read::GraphqlForm, part::METADATA),
    named("role", Read::Role, schema::ACCESS),
    named("widget", Read::Widget, schema::ACCESS),
];

static CONNECTION: &[Field] = &[
    named("state", Read::State, part::CONNECTION),
    named("connected", Read::Connected, part::CONNECTION),
    named("since", Read::Since, part::CONNECTION),
    named("lastHeard", Read::LastHeard, part::CONNECTION),
    named("unresponsive", Read::Unresponsive, part::CONNECTION),
    named("readable", Read::Readable, schema::ACCESS),
    named("reason", Read::Reason, schema::ACCESS | part::METADATA),
];

static SKIPS: &[Field] = &[
    named("relay", Read::Skips(1), part::SKIPPED),
    named("source", Read::Skips(2), part::SKIPPED),
    named("filter", Read::Skips(3), part::SKIPPED),
    named("behind", Read::Skips(4), part::SKIPPED),
    named("paced", Read::Skips(5), part::SKIPPED),
    named("bus", Read::Skips(6), part::SKIPPED),
];

/// Of one of a PV's ranges; which one is known from its object.
static RANGE: &[Field] = &[
    named("min", Read::Low(Range::Control), part::METADATA),
    named("max", Read::High(Range::Control), part::METADATA),
];

impl Parent {
    /// The fields that selections may select, but for the type's name.
    pub(in crate::select) fn fields(self) -> &'static [Field] {
        match self {
            Self::Channel => CHANNEL,
            Self::Value => VALUE,
            Self::Time => TIME,
            Self::Status => STATUS,
            Self::Display => DISPLAY,
            Self::Connection => CONNECTION,
            Self::Skips => SKIPS,
            Self::Range(_) => RANGE,
        }
    }

    /// The fields that only GraphQL documents may select.
    fn graphql_fields(self) -> &'static [Field] {
        match self {
            Self::Value => GRAPHQL_VALUE,
            Self::Display => GRAPHQL_DISPLAY,
            _ => &[],
        }
    }
}

/// How the field `name` of an object is read; `None` if there is no such field.
pub(super) fn read_of(parent: Parent, name: &[u8], arguments: &[u8], form: Form) -> Option<Read> {
    if let Parent::Range(range) = parent {
        let read = if name == b"min" {
            Read::Low(range)
        } else {
            Read::High(range)
        };
        #[cfg(feature = "graphql")]
        if form == Form::Coniql {
            return Some(read.coniql());
        }
        return Some(read);
    }
    let length = Line::length(arguments);
    let is_selection = form == Form::Selection;
    let read = (!is_selection)
        .then(|| find(parent.graphql_fields(), name))
        .flatten();
    let read = match read.or_else(|| find(parent.fields(), name))?.read? {
        Read::String if arguments.ends_with(b"true}") => Read::StringWithUnits,
        Read::StringArray(_) => Read::StringArray(length),
        Read::Float64Array(_) => Read::Float64Array(length),
        Read::Base64(_) => Read::Base64(length),
        read => read,
    };
    #[cfg(feature = "graphql")]
    if form == Form::Coniql {
        return Some(read.coniql());
    }
    Some(read)
}

fn find(fields: &'static [Field], name: &[u8]) -> Option<&'static Field> {
    fields.iter().find(|field| field.name.as_bytes() == name)
}

/// The field `name` of an object, as selections may select it.
pub(in crate::select) fn field_of(parent: Parent, name: &str) -> Option<Field> {
    let field = if name == TYPENAME {
        Some(&TYPE_NAME)
    } else {
        find(parent.fields(), name.as_bytes())
    };
    field.copied()
}

/// Whether only GraphQL documents may select this field.
pub(in crate::select) fn is_of_graphql(parent: Parent, name: &str) -> bool {
    find(parent.graphql_fields(), name.as_bytes()).is_some()
}

/// Texts that don't depend on the PV; a cell has the index of one of them.
pub const CONSTANTS: &[&str] = &[
    // Qualities, by severity.
    "VALID",
    "WARNING",
    "ALARM",
    "INVALID",
    "UNDEFINED",
    // Connection states.
    "connecting",
    "notFound",
    "connected",
    "disconnected",
    "relayLost",
    "refused",
    // Why there is no present value, by connection state.
    "not connected yet",
    "not found",
    "",
    "disconnected",
    "relay lost",
    "no news",
    "the IOC gives no read access",
    "(a value of a type that this page doesn't know)",
    "RO",
    "WO",
    "RW",
    "TEXTUPDATE",
    "TEXTINPUT",
    // Severities, then the alarm conditions of EPICS's alarm.h. NO_ALARM belongs to both lists.
    "MINOR",
    "MAJOR",
    "INVALID",
    "NO_ALARM",
    "READ",
    "WRITE",
    "HIHI",
    "HIGH",
    "LOLO",
    "LOW",
    "STATE",
    "COS",
    "COMM",
    "TIMEOUT",
    "HWLIMIT",
    "CALC",
    "SCAN",
    "LINK",
    "SOFT",
    "BAD_SUB",
    "UDF",
    "DISABLE",
    "SIMM",
    "READ_ACCESS",
    "WRITE_ACCESS",
    // Classes of pvAccess's alarms.
    "NONE",
    "DEVICE",
    "DRIVER",
    "RECORD",
    "DB",
    "CONF",
    "UNDEFINED",
    "CLIENT",
    // Types, by the wire's number.
    "Unknown",
    "Float64",
    "Float32",
    "Int8",
    "UInt8",
    "Int16",
    "UInt16",
    "Int32",
    "UInt32",
    "Int64",
    "UInt64",
    "Enum",
    "String",
    "Boolean",
    "Structure",
    "Union",
    "Any",
];

/// The connection state of a constant's index, one of the store's numbers.
pub(crate) fn state_of(index: u32) -> u8 {
    index.wrapping_sub(constant::STATES) as u8
}

/// The severity of a constant's index: 0 to 3.
pub(crate) fn severity_of(index: u32) -> u8 {
    match index {
        constant::ALARM_STATUSES => 0,
        _ => index.wrapping_sub(constant::SEVERITIES) as u8,
    }
}

/// The alarm status of a constant's index.
pub(crate) fn status_of(index: u32) -> u16 {
    match index.checked_sub(constant::ALARM_CLASSES) {
        Some(class) => 100 + class as u16,
        None => index.wrapping_sub(constant::ALARM_STATUSES) as u16,
    }
}

/// The type of a constant's index.
pub(crate) fn value_type_of(index: u32) -> ValueType {
    ValueType::from_number(index.wrapping_sub(constant::TYPES) as u8)
}

/// Indexes in [`CONSTANTS`]: where each list starts.
pub(super) mod constant {
    pub(crate) const QUALITIES: u32 = 0;
    pub(crate) const STATES: u32 = 5;
    pub(crate) const NOT_CONNECTED: u32 = 11;
    pub(crate) const EMPTY: u32 = 13;
    pub(crate) const NO_NEWS: u32 = 16;
    pub(crate) const NO_READ_ACCESS: u32 = 17;
    pub(crate) const UNKNOWN_VALUE: u32 = 18;
    pub(crate) const READ_ONLY: u32 = 19;
    pub(crate) const WRITE_ONLY: u32 = 20;
    pub(crate) const READ_WRITE: u32 = 21;
    pub(crate) const TEXT_UPDATE: u32 = 22;
    pub(crate) const TEXT_INPUT: u32 = 23;
    /// Add the number of the severity, which is at least 1.
    pub(crate) const SEVERITIES: u32 = 23;
    pub(crate) const ALARM_STATUSES: u32 = 27;
    pub(crate) const ALARM_STATUS_COUNT: u32 = 22;
    pub(crate) const ALARM_CLASSES: u32 = 49;
    pub(crate) const ALARM_CLASS_COUNT: u32 = 8;
    pub(crate) const TYPES: u32 = 57;
}
