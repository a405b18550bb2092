//! What travels on the wire, as plain Rust types that know nothing of flatbuffers.

use bytes::Bytes;

/// Relay-wide number of one PV, sent in every update in place of its name.
///
/// The same PV has the same `PvId` for every client of one relay process. That is what lets one
/// encoded frame be handed to all of them. Ids are not stable across relay restarts, and one may
/// name another PV after nobody subscribed the first any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PvId(pub u32);

impl PvId {
    /// Stands where a name was not taken.
    pub const NONE: Self = Self(u32::MAX);

    /// The id as an index into tables by PV.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Declares an enum that travels as one byte; numbers that this version doesn't know become the
/// variant named first.
macro_rules! wire_enum {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $number:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum $name { $($(#[$doc])* $variant = $number,)+ }

        impl $name {
            /// Every variant, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The number on the wire.
            #[must_use]
            pub const fn number(self) -> u8 {
                self as u8
            }

            /// The variant of a number from the wire; the default for one that is not known.
            #[must_use]
            pub fn from_number(number: u8) -> Self {
                match number {
                    $($number => Self::$variant,)+
                    _ => Self::default(),
                }
            }
        }
    };
}

wire_enum! {
    /// What a frame does to the client's picture of its PVs; `frame.fbs` has the rules.
    FrameKind {
        /// All updates after `prev_tick`, in order.
        Update = 0,
        /// The latest of all that changed after `prev_tick`.
        CatchUp = 1,
        /// All that is known of newly subscribed PVs.
        Snapshot = 2,
        /// An answer that changes no subscribed PV.
        #[default]
        Answer = 3,
    }
}

wire_enum! {
    /// Element type of a value at its source.
    ValueType {
        /// Not known yet, or newer than this program.
        #[default]
        Unknown = 0,
        /// IEEE double.
        Float64 = 1,
        /// IEEE single.
        Float32 = 2,
        /// Signed, 8 bits.
        Int8 = 3,
        /// Unsigned, 8 bits.
        UInt8 = 4,
        /// Signed, 16 bits.
        Int16 = 5,
        /// Unsigned, 16 bits.
        UInt16 = 6,
        /// Signed, 32 bits.
        Int32 = 7,
        /// Unsigned, 32 bits.
        UInt32 = 8,
        /// Signed, 64 bits.
        Int64 = 9,
        /// Unsigned, 64 bits.
        UInt64 = 10,
        /// Index into the choices.
        Enum = 11,
        /// Text.
        String = 12,
        /// True or false.
        Boolean = 13,
        /// Named fields.
        Structure = 14,
        /// One of several named fields, or none.
        Union = 15,
        /// A field of any type, or none.
        Any = 16,
    }
}

impl ValueType {
    /// Bytes of one element in a blob; `None` for what doesn't travel as packed elements.
    #[must_use]
    pub const fn element_bytes(self) -> Option<usize> {
        match self {
            Self::Unknown | Self::String | Self::Structure | Self::Union | Self::Any => None,
            Self::Int8 | Self::UInt8 | Self::Boolean => Some(1),
            Self::Int16 | Self::UInt16 | Self::Enum => Some(2),
            Self::Float32 | Self::Int32 | Self::UInt32 => Some(4),
            Self::Float64 | Self::Int64 | Self::UInt64 => Some(8),
        }
    }
}

wire_enum! {
    /// Whether the PV is there. It stands beside alarm severity and is none.
    ConnectionState {
        /// Searched for, not found yet.
        #[default]
        Connecting = 0,
        /// Searched for longer than the not-found time, or the structure has no such field.
        NotFound = 1,
        /// Values come.
        Connected = 2,
        /// Was connected; the last value is old.
        Disconnected = 3,
    }
}

wire_enum! {
    /// Why the relay didn't take a name.
    NameProblem {
        /// Newer than this program.
        #[default]
        Unknown = 0,
        /// Empty, too long, or with characters that no PV name has.
        BadName = 1,
        /// The scheme before `://` names no source of the relay.
        NoSuchSource = 2,
        /// The client holds as many subscriptions as it may.
        TooManySubscriptions = 3,
        /// No value within the request's time-out.
        TimedOut = 4,
        /// The PV has its maximum number of different filters.
        TooManyFilters = 5,
        /// The relay's rules don't let this client read the PV.
        NotAllowed = 6,
        /// The client or the relay has as many PVs as it may, or new ones were asked for too fast.
        TooManyPvs = 7,
        /// The server's structure has no such field.
        NoSuchField = 8,
    }
}

wire_enum! {
    /// Why values of a PV were left out.
    SkipCause {
        /// Newer than this program.
        #[default]
        Unknown = 0,
        /// The relay couldn't take them in fast enough.
        Relay = 1,
        /// The server, or the library that the relay reads it with, put several into one.
        Source = 2,
        /// The client asked for fewer.
        Filter = 3,
        /// The client didn't keep up.
        Behind = 4,
        /// The client asked to be brought up to date at intervals only.
        Paced = 5,
    }
}

/// Values that were left out before a row of an Update, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skips {
    /// See [`SkipCause::Relay`].
    pub relay: u32,
    /// See [`SkipCause::Source`].
    pub source: u32,
    /// See [`SkipCause::Filter`].
    pub filter: u32,
}

impl Skips {
    /// Nothing was left out.
    pub const NONE: Self = Self {
        relay: 0,
        source: 0,
        filter: 0,
    };

    /// How many in all.
    #[must_use]
    pub const fn total(self) -> u32 {
        self.relay
            .wrapping_add(self.source)
            .wrapping_add(self.filter)
    }

    /// How many for each cause, without those that left out none.
    pub fn by_cause(self) -> impl Iterator<Item = (SkipCause, u32)> {
        let causes = [
            (SkipCause::Relay, self.relay),
            (SkipCause::Source, self.source),
            (SkipCause::Filter, self.filter),
        ];
        causes.into_iter().filter(|(_, count)| *count > 0)
    }
}

/// Which updates of a PV a client wants.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Filter {
    /// At most one in so many milliseconds; 0: any number.
    pub min_interval_ms: u32,
    /// Only numbers that differ by more than this from the last one that passed; 0: all.
    pub deadband: f64,
    /// Only one in so many; 0 and 1: all.
    pub every: u32,
    /// Of arrays of numbers only one in so many elements; 0 and 1: all.
    pub stride: u32,
    /// Of what is left so many elements at most; 0: all.
    pub max_length: u32,
    /// Of what is left the smallest and the largest of half as many stretches; 0: all.
    pub points: u32,
    /// Of doubles those of 32 bits that are nearest.
    pub float32: bool,
}

impl Filter {
    /// Every update, and all of it.
    pub const ALL: Self = Self {
        min_interval_ms: 0,
        deadband: 0.0,
        every: 0,
        stride: 0,
        max_length: 0,
        points: 0,
        float32: false,
    };
}

wire_enum! {
    /// Why a request failed as a whole.
    RequestProblem {
        /// Newer than this program.
        #[default]
        Unknown = 0,
        /// Well formed, but it may not or makes no sense.
        Refused = 1,
        /// The relay doesn't know this request.
        NotSupported = 2,
    }
}

wire_enum! {
    /// What became of a put.
    Outcome {
        /// Nobody can say whether it was done, or the number is newer than this program.
        #[default]
        Unknown = 0,
        /// The server took it.
        Done = 1,
        /// Nothing was written: this relay doesn't take puts to this PV.
        NotAllowed = 2,
        /// Nothing was written: the server gives no write access.
        NoAccess = 3,
        /// Nothing was written: the value doesn't fit the PV.
        BadValue = 4,
        /// Nothing was written: the PV is not connected.
        NotConnected = 5,
        /// Nothing was written: the PV is not at the expected update any more.
        Changed = 6,
        /// The server took the value but refused or failed to write it.
        Failed = 7,
        /// No answer within the time-out: may or may not have been done.
        TimedOut = 8,
        /// The connection broke before the answer: may or may not have been done.
        Interrupted = 9,
        /// Nothing was written: no PV has such a name.
        BadName = 10,
        /// The PV's source has no such operation.
        NotSupported = 11,
        /// Nothing was written: another put of the same request was refused.
        Withheld = 12,
    }
}

wire_enum! {
    /// Alarm severity, as EPICS numbers it.
    Severity {
        /// All is well.
        NoAlarm = 0,
        /// A warning.
        Minor = 1,
        /// An alarm.
        Major = 2,
        /// The value can't be trusted. Numbers that EPICS doesn't have are read as this.
        #[default]
        Invalid = 3,
    }
}

/// Alarm severity and the condition behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Alarm {
    /// How bad.
    pub severity: Severity,
    /// Channel Access: alarm condition 0–21 as in `alarm.h`.
    pub status: u16,
}

impl Alarm {
    /// The server gives no alarm, which is not the same as "no alarm".
    pub const NONE: Self = Self {
        severity: Severity::NoAlarm,
        status: u16::MAX,
    };
}

/// Low and high end of something; NaN means that the source gives none.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Low end.
    pub low: f64,
    /// High end.
    pub high: f64,
}

impl Limits {
    /// Neither end is given.
    pub const NONE: Self = Self {
        low: f64::NAN,
        high: f64::NAN,
    };
}

impl Default for Limits {
    fn default() -> Self {
        Self::NONE
    }
}

/// Absent limits are equal to each other, so that a change can be told from none.
impl PartialEq for Limits {
    fn eq(&self, other: &Self) -> bool {
        let same = |a: f64, b: f64| a == b || (a.is_nan() && b.is_nan());
        same(self.low, other.low) && same(self.high, other.high)
    }
}

/// How to draw a PV and what may be written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metadata {
    /// Element type at the source.
    pub value_type: ValueType,
    /// Most elements the PV can hold; 1 for a scalar.
    pub element_count: u32,
    /// Engineering units.
    pub units: String,
    /// Digits after the decimal point; `None` where the type has none.
    pub precision: Option<i16>,
    /// Labels of an enum.
    pub choices: Vec<String>,
    /// Range to draw.
    pub display: Limits,
    /// Range that may be written.
    pub control: Limits,
    /// LOW and HIGH.
    pub warning: Limits,
    /// LOLO and HIHI.
    pub alarm: Limits,
    /// The record's description.
    pub description: String,
    /// Differs from the one before when the PV came back with another type or element count.
    pub epoch: u32,
    /// Identifier of a pvAccess structure; empty for other sources.
    pub type_id: String,
    /// How pvAccess wants the number shown; empty when not known.
    pub form: String,
    /// Why the PV isn't found although its server is there; empty otherwise.
    pub missing_field: String,
}

/// What a row says beside value, time and alarm: of sources that have it, such as pvAccess.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Detail {
    /// User tag of the time stamp.
    pub user_tag: i32,
    /// The alarm's message, in the server's words.
    pub message: String,
}

/// Connection and access rights of one PV.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Whether the PV is there.
    pub state: ConnectionState,
    /// When `state` began: nanoseconds past the POSIX epoch, relay's clock.
    pub since_ns: i64,
    /// May be read.
    pub read: bool,
    /// May be written, as far as the IOC is concerned.
    pub write: bool,
    /// Whether the relay takes puts to it at all.
    pub puts: bool,
    /// When the relay last heard from the PV's server, on its clock. Disconnected, or Connected while
    /// the server doesn't answer; 0 otherwise.
    pub heard_ns: i64,
    /// Whether it may be written shows only when a put is tried; `write` is true meanwhile.
    pub write_unknown: bool,
}

/// A value that is no double.
#[derive(Clone, Debug, PartialEq)]
pub enum BlobValue {
    /// A scalar string.
    Text(String),
    /// An array of strings.
    TextArray(Vec<String>),
    /// A scalar integer that a double may not hold.
    Int64(i64),
    /// See `Int64`.
    UInt64(u64),
    /// An array of numbers or enum indices.
    Array(Array),
    /// A structure.
    Structure(Node),
    /// The fields at the top of a structure that changed; the others are as they were.
    StructurePart(Node),
}

impl BlobValue {
    /// An array.
    #[must_use]
    pub fn array(value_type: ValueType, count: u32, data: impl Into<Bytes>) -> Self {
        let data = data.into();
        Self::Array(Array {
            value_type,
            count,
            data,
        })
    }

    /// Element type on the wire.
    #[must_use]
    pub fn value_type(&self) -> ValueType {
        match self {
            Self::Text(_) | Self::TextArray(_) => ValueType::String,
            Self::Int64(_) => ValueType::Int64,
            Self::UInt64(_) => ValueType::UInt64,
            Self::Array(array) => array.value_type,
            Self::Structure(_) | Self::StructurePart(_) => ValueType::Structure,
        }
    }
}

/// One field of a structure, with all that it holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Node {
    /// The field's name; empty in the root and in elements of arrays.
    pub name: String,
    /// Identifier of a structure; empty where there is none.
    pub type_id: String,
    /// What it holds.
    pub value: NodeValue,
}

/// What a field of a structure holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum NodeValue {
    /// Nothing: an element of an array that isn't there.
    #[default]
    Empty,
    /// A number of a type of at most 32 bits, a double, or true (1) or false (0).
    Number(ValueType, f64),
    /// A signed integer of 64 bits.
    Int64(i64),
    /// An unsigned integer of 64 bits.
    UInt64(u64),
    /// A string.
    Text(String),
    /// An array of strings.
    TextArray(Vec<String>),
    /// An array of numbers.
    Array(Array),
    /// Named fields.
    Structure(Vec<Node>),
    /// Structures, or `Empty`.
    StructureArray(Vec<Node>),
    /// The field that is selected, if one is.
    Union(Option<Box<Node>>),
    /// Unions, or `Empty`.
    UnionArray(Vec<Node>),
    /// A field of any type, if there is one.
    Any(Option<Box<Node>>),
    /// `Any`s, or `Empty`.
    AnyArray(Vec<Node>),
}

/// Numbers or enum indices, packed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Array {
    /// Element type; one that has `element_bytes`.
    pub value_type: ValueType,
    /// Number of elements.
    pub count: u32,
    /// Little-endian elements without gaps; shared, never copied until they are encoded.
    pub data: Bytes,
}

impl Array {
    /// The elements as doubles; a 64-bit integer is rounded where a double doesn't hold it.
    #[must_use]
    pub fn numbers(&self) -> Vec<f64> {
        fn read<const N: usize>(data: &[u8], one: fn([u8; N]) -> f64) -> Vec<f64> {
            let elements = data.as_chunks::<N>().0;
            elements.iter().map(|element| one(*element)).collect()
        }
        let data = &self.data;
        match self.value_type {
            ValueType::Float64 => read(data, f64::from_le_bytes),
            ValueType::Float32 => read(data, |e| f32::from_le_bytes(e).into()),
            ValueType::Int8 => read(data, |e| i8::from_le_bytes(e).into()),
            ValueType::UInt8 | ValueType::Boolean => read(data, |e| u8::from_le_bytes(e).into()),
            ValueType::Int16 => read(data, |e| i16::from_le_bytes(e).into()),
            ValueType::UInt16 | ValueType::Enum => read(data, |e| u16::from_le_bytes(e).into()),
            ValueType::Int32 => read(data, |e| i32::from_le_bytes(e).into()),
            ValueType::UInt32 => read(data, |e| u32::from_le_bytes(e).into()),
            ValueType::Int64 => read(data, |e| i64::from_le_bytes(e) as f64),
            ValueType::UInt64 => read(data, |e| u64::from_le_bytes(e) as f64),
            ValueType::Unknown
            | ValueType::String
            | ValueType::Structure
            | ValueType::Union
            | ValueType::Any => Vec::new(),
        }
    }
}

/// A value to write.
#[derive(Clone, Debug, PartialEq)]
pub enum PutValue {
    /// A number.
    Number(f64),
    /// A 64-bit integer.
    Int64(i64),
    /// A 64-bit integer.
    UInt64(u64),
    /// A string, an enum's label, or the text of a number.
    Text(String),
    /// An array of strings.
    TextArray(Vec<String>),
    /// An array of numbers.
    Array(Array),
}

/// A name that was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameError {
    /// Place in the request's names.
    pub index: u32,
    /// Why.
    pub problem: NameProblem,
    /// A sentence for a person.
    pub message: String,
}

/// What the relay tells of itself first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Version of the relay's software.
    pub relay_version: String,
    /// Random number of the relay process.
    pub relay_instance: u64,
    /// Longest request that the relay reads.
    pub max_request_bytes: u32,
    /// Most subscriptions of one client.
    pub max_subscriptions: u32,
    /// How often to acknowledge.
    pub ack_interval_ms: u32,
    /// After how long a PV counts as not found.
    pub not_found_after_ms: u32,
    /// An Authenticate must come first.
    pub authenticate: bool,
    /// Who the client is; empty without a name.
    pub user: String,
    /// When the connection ends; 0: not by itself.
    pub expires_in_ms: u64,
}

/// The answer in a frame.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// First message after the handshake.
    Hello(Hello),
    /// To Subscribe.
    Subscribed {
        /// One per name; `PvId::NONE` where it wasn't taken.
        ids: Vec<PvId>,
        /// Names that weren't taken.
        errors: Vec<NameError>,
    },
    /// To Unsubscribe.
    Unsubscribed {
        /// No later frame holds these.
        ids: Vec<PvId>,
    },
    /// To Get.
    Got {
        /// One per name, valid in this frame alone; `PvId::NONE` where there is an error.
        ids: Vec<PvId>,
        /// Names without an answer.
        errors: Vec<NameError>,
    },
    /// To Ping.
    Pong {
        /// As in the Ping.
        client_time_ns: i64,
        /// The relay's clock.
        relay_time_ns: i64,
    },
    /// To Put.
    PutDone {
        /// What became of it.
        outcome: Outcome,
        /// Why it isn't done; empty when it is.
        message: String,
    },
    /// To Rpc; what the server answered stands beside it.
    RpcDone {
        /// What became of it.
        outcome: Outcome,
        /// Why it isn't done; empty when it is.
        message: String,
    },
    /// The request failed as a whole.
    Error {
        /// Why.
        problem: RequestProblem,
        /// A sentence for a person.
        message: String,
    },
}

/// The update that a PV must still be at for a put to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// Its number within its epoch.
    pub sequence: u32,
    /// Its epoch.
    pub epoch: u32,
}

/// One PV to write.
#[derive(Clone, Debug, PartialEq)]
pub struct PutRequest {
    /// With or without a source.
    pub name: String,
    /// What to write.
    pub value: PutValue,
    /// Answer only when the record has finished processing.
    pub wait: bool,
    /// How long to wait for an answer; 0 takes the relay's default.
    pub timeout_ms: u32,
    /// Write only if the PV is still at this update.
    pub expected: Option<Expected>,
}

/// What a client asks.
#[derive(Clone, Debug, PartialEq)]
pub enum RequestBody {
    /// Wants these PVs.
    Subscribe {
        /// With or without a source.
        names: Vec<String>,
        /// Which of their updates.
        filter: Filter,
    },
    /// Wants these no longer.
    Unsubscribe {
        /// From a Subscribed.
        ids: Vec<PvId>,
    },
    /// Wants the present state once.
    Get {
        /// With or without a source.
        names: Vec<String>,
        /// How long to wait for a first value; 0 takes the relay's default.
        timeout_ms: u32,
        /// With the descriptions that a source gives only when asked.
        description: bool,
    },
    /// Has processed all frames up to this tick.
    Ack {
        /// The last frame's tick.
        tick: u64,
    },
    /// Measures the way to the relay.
    Ping {
        /// Comes back as it is.
        client_time_ns: i64,
    },
    /// Writes one PV.
    Put(PutRequest),
    /// Writes several PVs, in this order; their answers have this request's number and those after it.
    PutMany {
        /// What to write where.
        puts: Vec<PutRequest>,
        /// Send none of them unless the relay permits all.
        all_permitted: bool,
    },
    /// Calls a service.
    Rpc {
        /// With or without a source.
        name: String,
        /// By name.
        arguments: Vec<(String, PutValue)>,
        /// How long to wait for an answer; 0 takes the relay's default.
        timeout_ms: u32,
    },
    /// Shows who the client is.
    Authenticate {
        /// A JSON Web Token.
        token: String,
    },
    /// Wants the descriptions of PVs, also of sources that give them only when asked.
    Describe {
        /// From a Subscribed.
        ids: Vec<PvId>,
    },
    /// Wants to be brought up to date at intervals only.
    Pace {
        /// How long they are at least; 0: every update again.
        interval_ms: u32,
    },
}

/// One message of a client.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Comes back as `reply_to`.
    pub id: u32,
    /// What is asked.
    pub body: RequestBody,
}
