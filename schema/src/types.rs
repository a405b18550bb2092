//! What travels on the wire, as plain Rust types that know nothing of flatbuffers.

use std::sync::Arc;

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
    }
}

impl ValueType {
    /// Bytes of one element in a blob; `None` for what doesn't travel as packed elements.
    #[must_use]
    pub const fn element_bytes(self) -> Option<usize> {
        match self {
            Self::Unknown | Self::String => None,
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
        /// Searched for longer than the not-found time; the search goes on.
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
    }
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
}

/// Connection and access rights of one PV.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Channel {
    /// Whether the PV is there.
    pub state: ConnectionState,
    /// When `state` began: nanoseconds past the POSIX epoch, relay's clock.
    pub since_ns: i64,
    /// May be read.
    pub read: bool,
    /// May be written, as far as the IOC is concerned.
    pub write: bool,
}

/// A value that is no single number.
#[derive(Clone, Debug, PartialEq)]
pub enum BlobValue {
    /// A scalar string.
    Text(String),
    /// An array of strings.
    TextArray(Vec<String>),
    /// An array of numbers or enum indices.
    Array {
        /// Element type; one that has `element_bytes`.
        value_type: ValueType,
        /// Number of elements.
        count: u32,
        /// Little-endian elements packed into words, the last padded with zeros.
        words: Arc<[u64]>,
    },
}

impl BlobValue {
    /// Packs the native-endian bytes of an array into words: the one copy of its life in the relay.
    ///
    /// Only builds where the native order is little-endian.
    #[must_use]
    pub fn array(value_type: ValueType, count: u32, bytes: &[u8]) -> Self {
        const { assert!(cfg!(target_endian = "little"), "elements are little-endian") };
        let whole = bytes.chunks_exact(8);
        let rest = whole.remainder();
        let mut last = [0_u8; 8];
        last[..rest.len()].copy_from_slice(rest);
        let words = whole
            .map(|word| u64::from_le_bytes(word.try_into().expect("chunks of eight")))
            .chain((!rest.is_empty()).then(|| u64::from_le_bytes(last)))
            .collect();
        Self::Array {
            value_type,
            count,
            words,
        }
    }

    /// Element type on the wire.
    #[must_use]
    pub fn value_type(&self) -> ValueType {
        match self {
            Self::Text(_) | Self::TextArray(_) => ValueType::String,
            Self::Array { value_type, .. } => *value_type,
        }
    }
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
}

/// The answer in a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// The request failed as a whole.
    Error {
        /// Why.
        problem: RequestProblem,
        /// A sentence for a person.
        message: String,
    },
}

/// What a client asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestBody {
    /// Wants these PVs.
    Subscribe {
        /// With or without a source.
        names: Vec<String>,
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
}

/// One message of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Comes back as `reply_to`.
    pub id: u32,
    /// What is asked.
    pub body: RequestBody,
}
