//! Events of a channel: what a [`ChannelEvents`] sink is told about its PV.

use std::fmt;

use super::field::FieldQuestion;

/// Receives what happens to one channel.
///
/// Called from libca's threads and from the ca-cmd thread. While a call runs, no other channel of
/// any IOC is served: an implementation only copies and hands over. It neither drops a
/// [`Client`](super::Client) nor takes a lock that is held while one is dropped. A panic costs that
/// one event, is logged, and counted by [`panics_caught`](crate::panics_caught).
///
/// At connect the order is `access_rights`, `connected`, then metadata and values in any order. At
/// disconnect it is `disconnected`, then `access_rights` with no right. A server that knows the name
/// but refuses the channel (a wrong filter, say) shows as `access_rights` with no right alone.
pub trait ChannelEvents: Send + Sync + 'static {
    /// The channel is connected. Comes before any metadata and value of this connection.
    fn connected(&self, info: ChannelInfo);
    /// The channel is not connected any more; libca searches it again by itself.
    fn disconnected(&self);
    /// The channel's server was last heard from then, in nanoseconds past the POSIX epoch; comes just
    /// before `disconnected`.
    fn heard(&self, _at_ns: i64) {}
    /// The channel is connected, but its server has stopped answering; it was last heard from at
    /// `heard_ns`. Ends with `responsive` or `disconnected`.
    fn unresponsive(&self, _heard_ns: i64) {}
    /// The server answers again.
    fn responsive(&self) {}
    /// What may be done with the channel has changed.
    fn access_rights(&self, rights: AccessRights);
    /// The metadata, once after each connect and at each change.
    fn metadata(&self, metadata: Metadata);
    /// A new value, alarm or time stamp; also the first of each connection.
    fn update(&self, update: Update<'_>);
    /// A put waits to know what the field can hold, because its number fits the channel's type and may
    /// not fit the field. Once for each connection at most. A question that is dropped is answered by
    /// [`FieldKind::Unknown`](super::FieldKind::Unknown).
    fn field_wanted(&self, _question: FieldQuestion) {}
}

/// What a server says of a channel when it is connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelInfo {
    /// Type of an element at the server.
    pub native_type: NativeType,
    /// Most elements that a value can have. 1 means a scalar.
    pub element_count: u32,
    /// Whether type or count differ from those of the channel's previous connection.
    pub type_changed: bool,
}

/// Type of an element at the server. The numbers are Channel Access's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum NativeType {
    /// Text of up to 39 bytes, in 40.
    String = 0,
    /// 16-bit signed integer.
    Short = 1,
    /// 32-bit floating point.
    Float = 2,
    /// Index of a choice, 16-bit unsigned.
    Enum = 3,
    /// 8-bit unsigned integer.
    Char = 4,
    /// 32-bit signed integer.
    Long = 5,
    /// 64-bit floating point.
    Double = 6,
}

impl NativeType {
    /// Bytes of one element in [`Array::bytes`].
    pub const fn element_bytes(self) -> usize {
        match self {
            Self::Char => 1,
            Self::Short | Self::Enum => 2,
            Self::Float | Self::Long => 4,
            Self::Double => 8,
            Self::String => ca_sys::MAX_STRING_SIZE,
        }
    }

    pub(super) fn from_code(code: i64) -> Option<Self> {
        Some(match code {
            0 => Self::String,
            1 => Self::Short,
            2 => Self::Float,
            3 => Self::Enum,
            4 => Self::Char,
            5 => Self::Long,
            6 => Self::Double,
            _ => return None,
        })
    }
}

/// What may be done with a channel now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessRights {
    /// Values may be read. Without it no update comes.
    pub read: bool,
    /// Values may be written.
    pub write: bool,
}

/// One monitor event, valid during the call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Update<'a> {
    /// The value.
    pub value: Value<'a>,
    /// When the IOC says the value was sampled: nanoseconds since the POSIX epoch, exact. A record
    /// that was never processed says the EPICS epoch, 1990-01-01 UTC.
    pub time_ns: i64,
    /// Alarm severity, 0 (no alarm) to 3 (invalid).
    pub severity: u16,
    /// Alarm status, one of the 22 conditions of Channel Access.
    pub status: u16,
}

/// The value of a channel in the form that follows from its element count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// Scalar of a numeric type or the index of a choice. Exact: every such type fits a double.
    Number(f64),
    /// Scalar string, up to its NUL, in the IOC's encoding (see [`text`]).
    Text(&'a [u8]),
    /// Of a channel whose element count is not 1, also when it holds one element now, or none.
    Array(Array<'a>),
}

/// The elements of an array, valid during the call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Array<'a> {
    /// Type of an element.
    pub element: NativeType,
    /// Elements there are now.
    pub count: u32,
    /// The elements in this machine's byte order, without a promise of alignment. A string has 40
    /// bytes and a NUL in them.
    pub bytes: &'a [u8],
}

impl fmt::Debug for Array<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{:?}; {}]", self.element, self.count)
    }
}

/// What a server says about the meaning of a channel's values.
///
/// What the type does not have is empty, `None` or NaN: a string has none of it, an enumeration has
/// only `choices`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metadata {
    /// Engineering units, at most 8 bytes at the IOC.
    pub units: String,
    /// Decimal places to show; of floating point only.
    pub precision: Option<i16>,
    /// Labels of the choices, by index; of enumerations only.
    pub choices: Vec<String>,
    /// The scale of a display.
    pub display: Limits,
    /// What may be written.
    pub control: Limits,
    /// Outside them the alarm is LOW or HIGH.
    pub warning: Limits,
    /// Outside them the alarm is LOLO or HIHI.
    pub alarm: Limits,
}

/// A range. NaN at an end means that there is no limit, or none is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            low: f64::NAN,
            high: f64::NAN,
        }
    }
}

/// Reads text of an IOC, which is in no known encoding: as UTF-8 if it is valid, else as Latin-1.
pub fn text(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().copied().map(char::from).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_utf8_or_else_latin_1() {
        assert_eq!(text("µm".as_bytes()), "µm");
        assert_eq!(text(b"\xb0C"), "°C");
        assert_eq!(text(b""), "");
    }

    #[test]
    fn native_types_have_the_codes_of_channel_access() {
        for code in 0..7 {
            let native = NativeType::from_code(code).unwrap();
            assert_eq!(native as i64, code);
        }
        assert_eq!(NativeType::from_code(-1), None);
        assert_eq!(NativeType::from_code(7), None);
    }
}
