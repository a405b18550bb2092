//! The fields that programs read, by their paths in the schema, and texts that many of them show.

use super::lines::Line;
use super::needs;

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
pub(super) enum Read {
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
pub(super) enum Range {
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
pub(super) enum Letter {
    Float,
    String,
    StringWithUnits,
    /// The first elements as text; 0 for all.
    StringArray(u32),
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
pub(super) enum Parent {
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
    pub(super) fn path(self) -> &'static str {
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
}

/// The name of a field, and how it is read.
type Named = (&'static str, Read);

static CHANNEL: &[Named] = &[
    ("id", Read::Id),
    ("value", Read::Object(Parent::Value)),
    ("time", Read::Object(Parent::Time)),
    ("status", Read::Object(Parent::Status)),
    ("display", Read::Object(Parent::Display)),
    ("connection", Read::Object(Parent::Connection)),
    ("skipped", Read::Skipped),
    ("skips", Read::Object(Parent::Skips)),
];

static VALUE: &[Named] = &[
    ("float", Read::Float),
    ("string", Read::String),
    ("number", Read::Number),
    ("text", Read::Text),
    ("array", Read::Array),
    ("exact", Read::Exact),
    ("bigint", Read::Bigint),
    ("structure", Read::Structure),
    ("structures", Read::Structures),
];

/// Values in the form of GraphQL.
static GRAPHQL_VALUE: &[Named] = &[
    ("stringArray", Read::StringArray(0)),
    ("float64Array", Read::Float64Array(0)),
    ("base64Array", Read::Base64(0)),
    ("table", Read::Table),
    ("ndArray", Read::NdArray),
];

static TIME: &[Named] = &[
    ("datetime", Read::Datetime),
    ("seconds", Read::Seconds),
    ("nanoseconds", Read::Nanoseconds),
    ("userTag", Read::UserTag),
];

static STATUS: &[Named] = &[
    ("quality", Read::Quality),
    ("severity", Read::Severity),
    ("alarmStatus", Read::AlarmStatus),
    ("message", Read::Message),
    ("mutable", Read::Mutable),
    ("writable", Read::Writable),
];

static DISPLAY: &[Named] = &[
    ("units", Read::Units),
    ("precision", Read::Precision),
    ("choices", Read::Choices),
    ("type", Read::Type),
    ("elementCount", Read::ElementCount),
    ("description", Read::Description),
    ("typeId", Read::TypeId),
    ("form", Read::Form),
    ("controlRange", Read::Object(Parent::Range(Range::Control))),
    ("displayRange", Read::Object(Parent::Range(Range::Display))),
    ("alarmRange", Read::Object(Parent::Range(Range::Alarm))),
    ("warningRange", Read::Object(Parent::Range(Range::Warning))),
];

/// Metadata in the form of GraphQL.
static GRAPHQL_DISPLAY: &[Named] = &[
    ("units", Read::GraphqlUnits),
    ("form", Read::GraphqlForm),
    ("role", Read::Role),
    ("widget", Read::Widget),
];

static CONNECTION: &[Named] = &[
    ("state", Read::State),
    ("connected", Read::Connected),
    ("since", Read::Since),
    ("lastHeard", Read::LastHeard),
    ("unresponsive", Read::Unresponsive),
    ("readable", Read::Readable),
    ("reason", Read::Reason),
];

static SKIPS: &[Named] = &[
    ("relay", Read::Skips(1)),
    ("source", Read::Skips(2)),
    ("filter", Read::Skips(3)),
    ("behind", Read::Skips(4)),
    ("paced", Read::Skips(5)),
    ("bus", Read::Skips(6)),
];

impl Parent {
    fn fields(self) -> &'static [Named] {
        match self {
            Self::Channel => CHANNEL,
            Self::Value => VALUE,
            Self::Time => TIME,
            Self::Status => STATUS,
            Self::Display => DISPLAY,
            Self::Connection => CONNECTION,
            Self::Skips => SKIPS,
            Self::Range(_) => &[],
        }
    }

    /// The fields that only GraphQL documents may select.
    fn graphql_fields(self) -> &'static [Named] {
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
        let is_low = name == b"min";
        return Some(if is_low {
            Read::Low(range)
        } else {
            Read::High(range)
        });
    }
    let length = Line::length(arguments);
    let is_selection = form == Form::Selection;
    let read = (!is_selection)
        .then(|| find(parent.graphql_fields(), name))
        .flatten();
    let read = match read.or_else(|| find(parent.fields(), name))? {
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

fn find(fields: &[Named], name: &[u8]) -> Option<Read> {
    let mut fields = fields.iter();
    fields
        .find(|(known, _)| known.as_bytes() == name)
        .map(|(_, read)| *read)
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
