//! The fields that programs read, by their paths in the schema, and texts that many of them show.

use super::needs;

/// A field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// An object with fields.
    Object,
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
}

impl Read {
    pub(super) fn needs(self) -> u8 {
        match self {
            Self::String | Self::StringWithUnits => needs::TEXT,
            Self::Text => needs::CHARACTERS,
            Self::StringArray(_) => needs::ELEMENTS,
            _ => 0,
        }
    }
}

fn range(path: &str) -> Option<Range> {
    Some(match path.rsplit('.').next()? {
        "controlRange" => Range::Control,
        "displayRange" => Range::Display,
        "alarmRange" => Range::Alarm,
        "warningRange" => Range::Warning,
        _ => return None,
    })
}

pub(super) fn presence(path: &str) -> Presence {
    match path {
        "value" => Presence::Value,
        "time" => Presence::Time,
        "display" => Presence::Display,
        _ => range(path).map_or(Presence::Always, Presence::Range),
    }
}

/// How the field `name` of the object at `path` is read; `None` if there is no such field.
pub(super) fn read_of(path: &str, name: &str, arguments: &str, graphql: bool) -> Option<Read> {
    Some(match path {
        "" => match name {
            "id" => Read::Id,
            "skipped" => Read::Skipped,
            "value" | "time" | "status" | "display" | "connection" | "skips" => Read::Object,
            _ => return None,
        },
        "value" => return value(name, arguments, graphql),
        "time" => match name {
            "datetime" => Read::Datetime,
            "seconds" => Read::Seconds,
            "nanoseconds" => Read::Nanoseconds,
            "userTag" => Read::UserTag,
            _ => return None,
        },
        "status" => match name {
            "quality" => Read::Quality,
            "severity" => Read::Severity,
            "alarmStatus" => Read::AlarmStatus,
            "message" => Read::Message,
            "mutable" => Read::Mutable,
            "writable" => Read::Writable,
            _ => return None,
        },
        "display" => return display(name, graphql),
        "connection" => match name {
            "state" => Read::State,
            "connected" => Read::Connected,
            "since" => Read::Since,
            "lastHeard" => Read::LastHeard,
            "unresponsive" => Read::Unresponsive,
            "readable" => Read::Readable,
            "reason" => Read::Reason,
            _ => return None,
        },
        "skips" => Read::Skips(match name {
            "relay" => 1,
            "source" => 2,
            "filter" => 3,
            "behind" => 4,
            "paced" => 5,
            _ => return None,
        }),
        _ => match name {
            "min" => Read::Low(range(path)?),
            "max" => Read::High(range(path)?),
            _ => return None,
        },
    })
}

fn value(name: &str, arguments: &str, graphql: bool) -> Option<Read> {
    Some(match name {
        "float" => Read::Float,
        "number" => Read::Number,
        "string" if arguments.contains("true") => Read::StringWithUnits,
        "string" => Read::String,
        "text" => Read::Text,
        "array" => Read::Array,
        "exact" => Read::Exact,
        "bigint" => Read::Bigint,
        "structure" => Read::Structure,
        "structures" => Read::Structures,
        _ if !graphql => return None,
        "stringArray" => Read::StringArray(length(arguments)),
        "float64Array" => Read::Float64Array(length(arguments)),
        "base64Array" => Read::Base64(length(arguments)),
        "table" => Read::Table,
        "ndArray" => Read::NdArray,
        _ => return None,
    })
}

fn display(name: &str, graphql: bool) -> Option<Read> {
    Some(match name {
        "type" => Read::Type,
        "elementCount" => Read::ElementCount,
        "description" => Read::Description,
        "typeId" => Read::TypeId,
        "form" if graphql => Read::GraphqlForm,
        "form" => Read::Form,
        "units" if graphql => Read::GraphqlUnits,
        "units" => Read::Units,
        "precision" => Read::Precision,
        "choices" => Read::Choices,
        "controlRange" | "displayRange" | "alarmRange" | "warningRange" => Read::Object,
        "role" if graphql => Read::Role,
        "widget" if graphql => Read::Widget,
        _ => return None,
    })
}

/// The number in `{"length":10}`; 0 without one, and for a negative one.
pub(super) fn length(arguments: &str) -> u32 {
    let number = arguments.rsplit(':').next().unwrap_or_default();
    number.trim_end_matches('}').parse().unwrap_or(0)
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
    // Severities; then the alarm conditions of EPICS's alarm.h, of which the first reads the same.
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
    /// Of the severities above 0.
    pub(crate) const SEVERITIES: u32 = 23;
    pub(crate) const ALARM_STATUSES: u32 = 27;
    pub(crate) const ALARM_STATUS_COUNT: u32 = 22;
    pub(crate) const ALARM_CLASSES: u32 = 49;
    pub(crate) const ALARM_CLASS_COUNT: u32 = 8;
    pub(crate) const TYPES: u32 = 57;
}
