//! Events of a monitor: what a [`PvaEvents`] sink is told about its PV.

use std::ptr;

use super::array::SharedArray;
use super::element::ElementType;
use super::node::Node;
pub use crate::ca::Limits;

/// Receives what happens to one PV.
///
/// Called from the one thread of the client's context. While a call runs, no other PV of any
/// server is served: an implementation only copies and hands over. It neither drops a
/// [`Client`](super::Client) nor takes a lock that is held while one is dropped. A panic costs that
/// one event, is logged, and counted by [`panics_caught`](crate::panics_caught).
///
/// At connect the order is `connected`, `metadata`, `update`. pvAccess has no access rights: whether
/// a put is allowed shows when it is tried.
pub trait PvaEvents: Send + Sync + 'static {
    /// Its turn has come among very many: from now on the PV is searched. Also before it is tried
    /// again.
    fn searched(&self) {}
    /// The PV is connected and has a value, which follows.
    fn connected(&self, info: TypeInfo);
    /// The PV is not connected any more; it is searched again by itself.
    fn disconnected(&self);
    /// The PV's server was last heard from then, in nanoseconds past the POSIX epoch; comes just before
    /// `disconnected`.
    fn heard(&self, _at_ns: i64) {}
    /// The PV is connected, but its server has stopped answering; it was last heard from at `heard_ns`.
    /// Ends with `responsive` or `disconnected`.
    fn unresponsive(&self, _heard_ns: i64) {}
    /// The server answers again.
    fn responsive(&self) {}
    /// The metadata, once after each connect and at each change, always before the update that it
    /// came with.
    fn metadata(&self, metadata: Metadata);
    /// What the server sent, in order; also the first of each connection.
    fn update(&self, update: Update<'_>);
    /// The memory that `update` reads of this and of what it points to, which is fetched while pvxs
    /// prepares the call: between two updates of a PV it leaves the processor's caches. Asked for
    /// once; nothing is read through these pointers. See [`memory`].
    fn reads(&self) -> Vec<*const [u8]> {
        Vec::new()
    }
    /// Whether updates of scalars, arrays and enumerations are to hold the whole structure too. Asked
    /// for once.
    fn wants_structure(&self) -> bool {
        false
    }
    /// The server sends for this PV what pvxs can't decode, which breaks the connection, or more parts than
    /// any value has, so it isn't watched for now; the reason. It is tried again, ever more seldom, and
    /// connected when it can be read.
    fn unreadable(&self, _reason: &str) {}
    /// The server refused or ended the monitor, and why. It is tried again, after 1 s at first and
    /// never later than after 30 s.
    fn failed(&self, reason: &str);
}

/// Where something is, for [`PvaEvents::reads`].
pub fn memory<T: ?Sized>(of: &T) -> *const [u8] {
    ptr::slice_from_raw_parts(ptr::from_ref(of).cast(), size_of_val(of))
}

/// What a server says of a PV when it is connected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeInfo {
    /// Type id of the structure, such as `epics:nt/NTScalar:1.0`.
    pub type_id: String,
    /// The form in which values come.
    pub kind: ValueKind,
    /// Whether the structure is defined otherwise than in the PV's previous connection: other
    /// fields, types or type ids.
    pub changed: bool,
}

/// The form in which the values of a PV come.
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

/// One monitor event. What it borrows is valid during the call.
#[derive(Clone, Debug, PartialEq)]
pub struct Update<'a> {
    /// The value.
    pub value: Value<'a>,
    /// When the server says the value was sampled: nanoseconds since the POSIX epoch. 0 when the
    /// structure has no time stamp.
    pub time_ns: i64,
    /// Updates that were squashed into this one or an earlier one: exact for the client's queue, a
    /// lower bound for the server's.
    pub squashed: u64,
    /// What the server says besides about the time, `timeStamp.userTag`.
    pub user_tag: i32,
    /// Alarm severity as the server gives it: 0 (no alarm) to 3 (invalid), 4 for undefined; `None`
    /// when the structure has no alarm.
    pub severity: Option<u16>,
    /// Alarm status, one of pvAccess's 8 classes, which are not the conditions of Channel Access.
    pub status: u16,
    /// Alarm message: for a record of an IOC the name of the condition.
    pub message: &'a str,
    /// Of a structure the names of the fields at its top that changed, or of which a part did; all
    /// of them in the first update of a connection. Empty for every other kind.
    pub changed: Vec<String>,
}

/// A value in the form of its [`ValueKind`], or the whole structure where that is wanted.
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
        /// Elements.
        count: usize,
        /// The elements, as pvxs received them.
        data: SharedArray,
    },
    /// Array of strings.
    TextArray(Vec<String>),
    /// The whole structure, with the fields that did not change.
    Structure(Box<Node>),
}

/// What a server says about the meaning of a PV's values.
///
/// What the structure does not have is empty, `None` or NaN.
#[derive(Clone, Debug, PartialEq)]
pub struct Metadata {
    /// Type id of the structure.
    pub type_id: String,
    /// The form in which values come.
    pub kind: ValueKind,
    /// 1 for a value, 0 for an array of any length.
    pub element_count: u32,
    /// Engineering units.
    pub units: String,
    /// Decimal places to show; of floating point only.
    pub precision: Option<i16>,
    /// How to show a number: `Default`, `String`, `Binary`, `Decimal`, `Hex`, `Exponential` or
    /// `Engineering`.
    pub form: Option<String>,
    /// What the PV is, in words.
    pub description: String,
    /// Labels of the choices, by index; of enumerations only.
    pub choices: Vec<String>,
    /// The scale of a display.
    pub display: Limits,
    /// What may be written.
    pub control: Limits,
    /// The smallest step in which it may be written.
    pub min_step: f64,
    /// Outside them the alarm is a warning.
    pub warning: Limits,
    /// Outside them the alarm is an alarm.
    pub alarm: Limits,
}

impl Metadata {
    /// Whether nothing differs, where no limit is the same as no limit.
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
