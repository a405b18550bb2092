//! Events of a channel, which are reported to a [`ChannelEvents`] sink.

use std::fmt;

/// Receives the events of one channel.
///
/// Called from libca's threads and from the ca-cmd thread. While a call runs, other channels are
/// not served: an implementation only copies data and passes it on. It must neither drop a
/// [`Client`](super::Client) nor take a lock that is held while one is dropped. A panic loses that
/// one event, is logged, and counted by [`panics_caught`](crate::panics_caught).
///
/// On connect the order is `access_rights`, `connected`, then metadata and values in any order. On
/// disconnect it is `disconnected`, then `access_rights` with no rights. If a server knows the name
/// but refuses the channel (because of a wrong filter, for example), only `access_rights` with no
/// rights is called.
pub trait ChannelEvents: Send + Sync + 'static {
    /// The channel is connected. Called before any metadata and value of this connection.
    fn connected(&self, info: ChannelInfo);
    /// Host and port of the server, just before `connected`.
    fn server(&self, _server: &str) {}
    /// The channel is disconnected; libca searches for it again.
    fn disconnected(&self);
    /// The time when the channel's server was last heard from, in nanoseconds past the POSIX epoch;
    /// called just before `disconnected`.
    fn heard(&self, _at_ns: i64) {}
    /// The channel is connected, but its server has stopped answering. The server was last heard
    /// from at `heard_ns`. Ends with `responsive` or `disconnected`.
    fn unresponsive(&self, _heard_ns: i64) {}
    /// The server answers again.
    fn responsive(&self) {}
    /// An update of the channel can't be trusted, for this reason: its value is unknown. Followed by
    /// `access_rights` and `connected` when updates are valid again, or by `disconnected`.
    fn unreadable(&self, _reason: &str) {}
    /// Why a channel has no value or no metadata although its server is known: a sentence, which is
    /// no longer true once the channel is connected or metadata arrive.
    fn reason(&self, _reason: &str) {}
    /// The access rights of the channel have changed.
    fn access_rights(&self, rights: AccessRights);
    /// The metadata, once after each connect and at each change.
    fn metadata(&self, metadata: Metadata);
    /// A new value, alarm or time stamp; also called for the first value of each connection.
    fn update(&self, update: Update<'_>);
    /// Like `update`, for the index of a choice.
    fn choice(&self, update: Update<'_>) {
        self.update(update);
    }
    /// The server can't send the value, for this reason. The last value, if there is one, is out of date. Called for
    /// each attempt of the server; an `update` ends it.
    fn refused(&self, _why: &str) {}
    /// A put needs to know which numbers the field can hold, because its number fits the channel's
    /// type but may not fit the field. Called at most once per connection. Dropping the question
    /// answers it with [`FieldKind::Unknown`].
    fn field_wanted(&self, _question: FieldQuestion) {}
}

/// The properties of a channel that its server reports on connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelInfo {
    /// Type of an element at the server.
    pub native_type: NativeType,
    /// Maximum number of elements in a value. 1 means a scalar.
    pub element_count: u32,
    /// Whether type or count differ from those of the previous connection.
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

/// The current access rights of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessRights {
    /// Values may be read. Without this right no update arrives.
    pub read: bool,
    /// Values may be written.
    pub write: bool,
}

/// One monitor event, valid during the call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Update<'a> {
    /// The value.
    pub value: Value<'a>,
    /// The IOC's time stamp of the value: nanoseconds since the POSIX epoch, exact. 0 for a record
    /// that was never processed, whose stamp is the start of the EPICS epoch.
    pub time_ns: i64,
    /// Alarm severity, 0 (no alarm) to 3 (invalid).
    pub severity: u16,
    /// Alarm status, one of the 22 conditions of Channel Access.
    pub status: u16,
}

/// The value of a channel, in a form that depends on its element count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// Scalar of a numeric type or the index of a choice. Exact: every such type fits a double.
    Number(f64),
    /// Scalar string, up to its NUL, in the IOC's encoding (see [`text`]).
    Text(&'a [u8]),
    /// The value of a channel whose element count is not 1, even if it has one element or none now.
    Array(Array<'a>),
}

/// The elements of an array, valid during the call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Array<'a> {
    /// Type of an element.
    pub element: NativeType,
    /// Current number of elements.
    pub count: u32,
    /// The elements in this machine's byte order, possibly unaligned. A string has 40 bytes
    /// including a NUL.
    pub bytes: &'a [u8],
}

impl fmt::Debug for Array<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{:?}; {}]", self.element, self.count)
    }
}

/// The metadata of a channel's values.
///
/// Fields that the type does not have are empty, `None` or NaN: a string has no metadata, an
/// enumeration only `choices`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metadata {
    /// Engineering units, at most 8 bytes at the IOC.
    pub units: String,
    /// Decimal places to show; only for floating point.
    pub precision: Option<i16>,
    /// Labels of the choices, by index; only for enumerations.
    pub choices: Vec<String>,
    /// Display limits.
    pub display: Limits,
    /// Control limits: the range of values that may be written.
    pub control: Limits,
    /// Warning limits: outside them the alarm is LOW or HIGH.
    pub warning: Limits,
    /// Alarm limits: outside them the alarm is LOLO or HIHI.
    pub alarm: Limits,
}

/// A range. NaN means that a limit is absent or unknown.
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

/// Decodes text of an IOC, whose encoding is unknown: as UTF-8 if it is valid, otherwise as
/// Latin-1.
///
/// IOCs cut texts at the number of bytes that a field has, also within a character. Such an incomplete last character
/// is left out if the text before it has other characters of UTF-8 than those of ASCII.
pub fn text(bytes: &[u8]) -> String {
    let latin_1 = || bytes.iter().copied().map(char::from).collect();
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(error) if error.error_len().is_none() => {
            let whole = str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default();
            if whole.is_ascii() {
                latin_1()
            } else {
                whole.to_owned()
            }
        }
        Err(_) => latin_1(),
    }
}

/// The numbers that the field behind a channel can hold. Channel Access represents some types by
/// wider ones: 64-bit and unsigned 32-bit integers as doubles, unsigned 16-bit integers as 32-bit
/// ones, and bytes without their sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// Unknown: any value of the channel's type is sent.
    Unknown,
    /// Floating point.
    Float,
    /// Integers in a range.
    Integers {
        /// Smallest.
        least: i128,
        /// Largest.
        most: i128,
    },
}

/// Asks for the type of the field behind a channel; see
/// [`field_wanted`](super::ChannelEvents::field_wanted).
///
/// If it is dropped without an answer, the type is unknown.
pub struct FieldQuestion {
    kind: FieldKind,
    answer: Box<dyn Fn(FieldKind) + Send>,
}

impl FieldQuestion {
    pub(super) fn new(answer: impl Fn(FieldKind) + Send + 'static) -> Self {
        Self {
            kind: FieldKind::Unknown,
            answer: Box::new(answer),
        }
    }

    /// Answers it. Does not block.
    pub fn answer(mut self, kind: FieldKind) {
        self.kind = kind;
    }
}

impl Drop for FieldQuestion {
    fn drop(&mut self) {
        (self.answer)(self.kind);
    }
}

impl fmt::Debug for FieldQuestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FieldQuestion").finish_non_exhaustive()
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
    fn text_that_was_cut_within_a_character_of_utf8_is_not_shown_as_latin_1() {
        assert_eq!(text(&"µmol/m²".as_bytes()[..7]), "µmol/m");
        assert_eq!(text(&"ößöß€".as_bytes()[..10]), "ößöß");
        // Nothing before the last byte shows that it is UTF-8.
        assert_eq!(text(b"S\xc3"), "SÃ");
        // The last character is complete, and one before it is not UTF-8.
        assert_eq!(text(b"\xb0C \xc2\xb5"), "°C Âµ");
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
