//! State of a PV beside its value: connection, access rights, alarm, metadata.

use super::ValueType;

wire_enum! {
    /// Connection state of a PV. Independent of alarm severity.
    ConnectionState {
        /// The search has not found the PV yet.
        #[default]
        Connecting = 0,
        /// Not found within the not-found time, or the structure has no such field.
        NotFound = 1,
        /// Connected to the server.
        Connected = 2,
        /// The connection was lost; the last value is out of date.
        Disconnected = 3,
    }
}

/// Connection state and access rights of one PV.
///
/// The default is that of a PV that is searched and from which nothing was heard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Connection {
    /// Connection state.
    pub state: ConnectionState,
    /// Start of `state`: nanoseconds past the POSIX epoch by the relay's clock.
    pub since_ns: i64,
    /// Read access.
    pub read: bool,
    /// Write access, as granted by the IOC.
    pub write: bool,
    /// The relay's rules permit puts to it for at least one client.
    pub puts: bool,
    /// When the relay last received data from the PV's server. Set while Disconnected, while Connected
    /// to a server that does not respond, and while NotFound if a server answers searches for the PV and
    /// does not connect it; 0 otherwise.
    pub heard_ns: i64,
    /// The source does not report write access; `write` is true, and a refused put concerns its client alone.
    pub write_unknown: bool,
}

wire_enum! {
    /// Alarm severity, as EPICS numbers it.
    Severity {
        /// No alarm.
        NoAlarm = 0,
        /// Minor alarm.
        Minor = 1,
        /// Major alarm.
        Major = 2,
        /// The value is invalid. Unknown numbers are decoded as this.
        #[default]
        Invalid = 3,
    }
}

/// Alarm severity and status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Alarm {
    /// Severity.
    pub severity: Severity,
    /// Alarm condition 0–21 as in `alarm.h`; 100 plus the status class of a pvAccess alarm.
    pub status: u16,
}

impl Alarm {
    /// The server sends no alarm, which differs from the severity "no alarm".
    pub const NONE: Self = Self {
        severity: Severity::NoAlarm,
        status: u16::MAX,
    };
}

/// User tag and alarm message, from sources that have them, such as pvAccess.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Detail {
    /// User tag of the time stamp.
    pub user_tag: i32,
    /// Alarm message as sent by the server.
    pub message: String,
}

/// Lower and upper limit; NaN if the source provides none.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Lower limit.
    pub low: f64,
    /// Upper limit.
    pub high: f64,
}

impl Limits {
    /// No limits.
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

/// Absent limits are equal to each other.
impl PartialEq for Limits {
    fn eq(&self, other: &Self) -> bool {
        let same = |a: f64, b: f64| a == b || (a.is_nan() && b.is_nan());
        same(self.low, other.low) && same(self.high, other.high)
    }
}

/// Type, display and limits of a PV.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metadata {
    /// Element type at the source.
    pub value_type: ValueType,
    /// Maximum number of elements; 1 for a scalar.
    pub element_count: u32,
    /// Engineering units.
    pub units: String,
    /// Digits after the decimal point; `None` if the type or the server has none.
    pub precision: Option<i16>,
    /// Choices of an enum.
    pub choices: Vec<String>,
    /// Display limits.
    pub display: Limits,
    /// Control limits.
    pub control: Limits,
    /// Warning limits (LOW, HIGH).
    pub warning: Limits,
    /// Alarm limits (LOLO, HIHI).
    pub alarm: Limits,
    /// The record's description.
    pub description: String,
    /// Changes when the PV reconnects with a different type or element count.
    pub epoch: u32,
    /// Type ID of a pvAccess structure; empty for other sources.
    pub type_id: String,
    /// Display form of pvAccess; empty if not known.
    pub form: String,
    /// Why the PV has no value although its server is known; empty otherwise.
    pub missing_field: String,
}
