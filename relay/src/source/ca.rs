//! How do Channel Access channels become rows and events of the relay?

use std::sync::{Arc, Mutex, PoisonError};

use pvwire_epics::ca::{self, AccessRights, ChannelEvents, ChannelInfo, NativeType};
use pvwire_schema::types::{Alarm, BlobValue, Limits, Metadata, Severity, ValueType};

use super::{Event, Line, Monitor, RowValue, Source};

/// The one Channel Access client context of the relay.
pub struct CaSource {
    client: ca::Client,
}

impl CaSource {
    /// Starts libca.
    ///
    /// # Errors
    /// When libca can't create its context.
    pub fn start() -> Result<Self, ca::StartError> {
        Ok(Self {
            client: ca::Client::start()?,
        })
    }
}

impl Source for CaSource {
    fn scheme(&self) -> &'static str {
        "ca"
    }

    fn open(&self, name: &str, line: Line) -> Result<Box<dyn Monitor>, String> {
        let wiring = Wiring {
            line,
            shape: Mutex::new((ValueType::Unknown, 0)),
        };
        match self.client.open(name, Arc::new(wiring)) {
            Ok(channel) => Ok(Box::new(CaMonitor { _channel: channel })),
            Err(error) => Err(error.to_string()),
        }
    }
}

struct CaMonitor {
    _channel: ca::Channel,
}

impl Monitor for CaMonitor {}

/// One channel's callbacks, wired to its line.
struct Wiring {
    line: Line,
    /// Type and element count of this connection; a lock that only connection and metadata events
    /// of this channel take.
    shape: Mutex<(ValueType, u32)>,
}

impl ChannelEvents for Wiring {
    fn connected(&self, info: ChannelInfo) {
        *self.shape.lock().unwrap_or_else(PoisonError::into_inner) =
            (value_type(info.native_type), info.element_count);
        self.line.connected(info.type_changed);
    }

    fn disconnected(&self) {
        self.line.event(Event::Disconnected);
    }

    fn access_rights(&self, rights: AccessRights) {
        self.line.event(Event::Access {
            read: rights.read,
            write: rights.write,
        });
    }

    fn metadata(&self, metadata: ca::Metadata) {
        let (value_type, element_count) =
            *self.shape.lock().unwrap_or_else(PoisonError::into_inner);
        self.line.event(Event::Metadata(Box::new(Metadata {
            value_type,
            element_count,
            units: metadata.units,
            precision: metadata.precision,
            choices: metadata.choices,
            display: limits(metadata.display),
            control: limits(metadata.control),
            warning: limits(metadata.warning),
            alarm: limits(metadata.alarm),
            description: String::new(),
            epoch: self.line.epoch(),
        })));
    }

    fn update(&self, update: ca::Update<'_>) {
        let alarm = Alarm {
            severity: u8::try_from(update.severity)
                .map_or(Severity::Invalid, Severity::from_number),
            status: update.status,
        };
        let value = match update.value {
            ca::Value::Number(number) => RowValue::Number(number),
            ca::Value::Text(bytes) => RowValue::Blob(Arc::new(BlobValue::Text(ca::text(bytes)))),
            ca::Value::Array(array) => RowValue::Blob(Arc::new(array_value(array))),
        };
        self.line.update(update.time_ns, value, alarm);
    }
}

fn array_value(array: ca::Array<'_>) -> BlobValue {
    if array.element == NativeType::String {
        // Each of 40 bytes, ended by a NUL unless it fills them.
        let texts = array
            .bytes
            .chunks(40)
            .take(array.count as usize)
            .map(|bytes| {
                let end = bytes
                    .iter()
                    .position(|byte| *byte == 0)
                    .unwrap_or(bytes.len());
                ca::text(&bytes[..end])
            });
        return BlobValue::TextArray(texts.collect());
    }
    BlobValue::array(value_type(array.element), array.count, array.bytes)
}

fn value_type(native: NativeType) -> ValueType {
    match native {
        NativeType::String => ValueType::String,
        NativeType::Short => ValueType::Int16,
        NativeType::Float => ValueType::Float32,
        NativeType::Enum => ValueType::Enum,
        NativeType::Char => ValueType::UInt8,
        NativeType::Long => ValueType::Int32,
        NativeType::Double => ValueType::Float64,
    }
}

fn limits(limits: ca::Limits) -> Limits {
    Limits {
        low: limits.low,
        high: limits.high,
    }
}
