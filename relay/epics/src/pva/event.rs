//! Events of a monitor, which are reported to a [`PvaEvents`] sink.

use std::ptr;

use super::array::ElementType;
use super::array::SharedArray;
use super::node::Node;
pub use crate::ca::Limits;

/// Receives the events of one PV.
///
/// Called from the only thread of the client's context. While a call runs, no other PV of any
/// server is served: an implementation only copies data and passes it on. It must neither drop a
/// [`Client`](super::Client) nor take a lock that is held while one is dropped. A panic loses that
/// one event, is logged, and counted by [`panics_caught`](crate::panics_caught).
///
/// On connect the order is `connected`, `metadata`, `update`. pvAccess has no access rights: only a
/// put shows whether it is allowed.
pub trait PvaEvents: Send + Sync + 'static {
    /// The PV is being searched for from now on; with very many PVs it has waited for its turn.
    /// Also called before it is tried again.
    fn searched(&self) {}
    /// Address and port of the server, just before `connected`.
    fn server(&self, _server: &str) {}
    /// The PV is connected and has a value, which follows.
    fn connected(&self, info: TypeInfo);
    /// The PV is disconnected; pvxs searches for it again.
    fn disconnected(&self);
    /// The time when the PV's server was last heard from, in nanoseconds past the POSIX epoch;
    /// called just before `disconnected`.
    fn heard(&self, _at_ns: i64) {}
    /// The PV is connected, but its server has stopped answering. The server was last heard from at
    /// `heard_ns`. Ends with `responsive` or `disconnected`.
    fn unresponsive(&self, _heard_ns: i64) {}
    /// The server answers again.
    fn responsive(&self) {}
    /// The metadata, once after each connect and at each change, always before the update that it
    /// arrived with.
    fn metadata(&self, metadata: Metadata);
    /// An update from the server, in order; also called for the first one of each connection.
    fn update(&self, update: Update<'_>);
    /// The memory of this object, and of the objects it points to, that `update` reads. It is
    /// prefetched while pvxs prepares the call, because it leaves the processor's caches between
    /// two updates of a PV. Called once; nothing is read through these pointers. See [`memory`].
    fn reads(&self) -> Vec<*const [u8]> {
        Vec::new()
    }
    /// Whether updates of scalars, arrays and enumerations must also contain the whole structure.
    /// Called once.
    fn wants_structure(&self) -> bool {
        false
    }
    /// For this PV the server sends data that pvxs can't decode, which breaks the connection, or
    /// that has more parts than any valid value. The PV is therefore suspended, for this reason. It
    /// is tried again at growing intervals, and connected when it can be read.
    fn unreadable(&self, _reason: &str) {}
    /// The PV is not connected, for this reason: a server has answered its search.
    fn reason(&self, _reason: &str) {}
    /// The server refused the monitor, or ended it, for this reason. It is tried again, after 1 s at
    /// first and after at most 30 s later. If the PV had a value, `disconnected` follows at once. If
    /// not, its server is known to have the PV; `disconnected` follows when the server doesn't
    /// answer a later attempt.
    fn failed(&self, reason: &str);
}

/// The memory of an object, for [`PvaEvents::reads`].
pub fn memory<T: ?Sized>(of: &T) -> *const [u8] {
    ptr::slice_from_raw_parts(ptr::from_ref(of).cast(), size_of_val(of))
}

/// The type of a PV that its server reports on connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeInfo {
    /// Type id of the structure, such as `epics:nt/NTScalar:1.0`.
    pub type_id: String,
    /// The form of its values.
    pub kind: ValueKind,
    /// Whether the definition of the structure differs from that of the previous connection: other
    /// fields, types or type ids.
    pub changed: bool,
}

/// The form of a PV's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ValueKind {
    /// NTScalar: one element.
    Scalar(ElementType),
    /// NTScalarArray: any number of elements.
    Array(ElementType),
    /// NTEnum: the index of a choice.
    Enum,
    /// Anything else: the whole structure.
    Structure,
}

/// One monitor event. Borrowed data is valid during the call.
#[derive(Clone, Debug, PartialEq)]
pub struct Update<'a> {
    /// The value.
    pub value: Value<'a>,
    /// The server's time stamp of the value: nanoseconds since the POSIX epoch. 0 if the structure
    /// has no time stamp.
    pub time_ns: i64,
    /// Updates that were squashed into this one or an earlier one: exact for the client's queue, a
    /// lower bound for the server's.
    pub squashed: u64,
    /// The user tag of the time stamp, `timeStamp.userTag`.
    pub user_tag: i32,
    /// Alarm severity as sent by the server: 0 (no alarm) to 3 (invalid), 4 for undefined; `None`
    /// if the structure has no alarm.
    pub severity: Option<u16>,
    /// Alarm status, one of pvAccess's 8 classes, which are not the conditions of Channel Access.
    pub status: u16,
    /// Alarm message: for a record of an IOC the name of the alarm condition.
    pub message: &'a str,
    /// For a structure, the names of the top-level fields that changed completely or in part; all
    /// fields in the first update of a connection. Empty for every other kind.
    pub changed: Vec<String>,
}

/// A value in the form of its [`ValueKind`], or the whole structure if that is requested.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// Integer of up to 32 bits, floating point, or the index of a choice. Exact.
    Number(f64),
    /// Signed integer of 64 bits.
    Int64(i64),
    /// Unsigned integer of 64 bits.
    UInt64(u64),
    /// Boolean.
    Boolean(bool),
    /// String, in the server's encoding, which should be UTF-8.
    Text(&'a [u8]),
    /// Array of numbers or booleans.
    Array {
        /// Type of an element.
        element: ElementType,
        /// Number of elements.
        count: usize,
        /// The elements, as received by pvxs.
        data: SharedArray,
    },
    /// Array of strings.
    TextArray(Vec<String>),
    /// The whole structure, including the fields that did not change.
    Structure(Box<Node>),
}

/// The metadata of a PV's values.
///
/// Fields that the structure does not have are empty, `None` or NaN.
#[derive(Clone, Debug, PartialEq)]
pub struct Metadata {
    /// Type id of the structure.
    pub type_id: String,
    /// The form of its values.
    pub kind: ValueKind,
    /// 1 for a value, 0 for an array of any length.
    pub element_count: u32,
    /// Engineering units.
    pub units: String,
    /// Decimal places to show; only for floating point.
    pub precision: Option<i16>,
    /// How to show a number: `Default`, `String`, `Binary`, `Decimal`, `Hex`, `Exponential` or
    /// `Engineering`.
    pub form: Option<String>,
    /// The description of the PV.
    pub description: String,
    /// Labels of the choices, by index; only for enumerations.
    pub choices: Vec<String>,
    /// Display limits.
    pub display: Limits,
    /// Control limits: the range of values that may be written.
    pub control: Limits,
    /// The smallest step between values that may be written.
    pub min_step: f64,
    /// Warning limits: outside them the severity is MINOR.
    pub warning: Limits,
    /// Alarm limits: outside them the severity is MAJOR.
    pub alarm: Limits,
}

impl Metadata {
    /// Whether all fields are equal, where two missing limits are equal.
    pub(super) fn same(&self, other: &Self) -> bool {
        let numbers = |metadata: &Self| {
            let Self {
                display,
                control,
                warning,
                alarm,
                ..
            } = metadata;
            [display, control, warning, alarm]
                .map(|limits| [limits.low.to_bits(), limits.high.to_bits()])
        };
        let words = |metadata: &'_ Self| {
            (
                metadata.kind,
                metadata.element_count,
                metadata.precision,
                metadata.min_step.to_bits(),
            )
        };
        numbers(self) == numbers(other)
            && words(self) == words(other)
            && self.type_id == other.type_id
            && self.units == other.units
            && self.form == other.form
            && self.description == other.description
            && self.choices == other.choices
    }
}
