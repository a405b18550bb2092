//! A sink that remembers what a client of pvAccess tells.

use pvwire_epics::pva::{
    ElementType, Metadata, Node, PvaEvents, SharedArray, TypeInfo, Update, Value,
};

/// An event as the sink saw it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Event {
    Connected(TypeInfo),
    Disconnected,
    Metadata(Box<Metadata>),
    Update(OwnUpdate),
    Failed(String),
    Unreadable(String),
}

/// An update that owns its value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OwnUpdate {
    pub value: OwnValue,
    pub time_ns: i64,
    pub user_tag: i32,
    pub severity: u16,
    pub status: u16,
    pub message: String,
    pub changed: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum OwnValue {
    Number(f64),
    Int64(i64),
    UInt64(u64),
    Boolean(bool),
    Text(String),
    Array(ElementType, usize, SharedArray),
    TextArray(Vec<String>),
    Structure(Box<Node>),
}

/// The severity of a structure without an alarm.
pub(crate) const NO_ALARM_FIELD: u16 = u16::MAX;

/// A sink that remembers all events, in order.
pub(crate) type Recorder = super::Recorder<Event>;

impl Recorder {
    pub(crate) fn wait_connected(&self, from: usize) -> (usize, TypeInfo) {
        self.wait(from, "connect", |event| match event {
            Event::Connected(info) => Some(info.clone()),
            _ => None,
        })
    }

    pub(crate) fn wait_disconnected(&self, from: usize) -> usize {
        self.wait(from, "disconnect", |event| {
            matches!(event, Event::Disconnected).then_some(())
        })
        .0
    }

    pub(crate) fn wait_metadata(
        &self,
        from: usize,
        wanted: impl Fn(&Metadata) -> bool,
    ) -> (usize, Metadata) {
        self.wait(from, "such metadata", |event| match event {
            Event::Metadata(metadata) if wanted(metadata) => Some((**metadata).clone()),
            _ => None,
        })
    }

    pub(crate) fn wait_update(
        &self,
        from: usize,
        wanted: impl Fn(&OwnUpdate) -> bool,
    ) -> (usize, OwnUpdate) {
        self.wait(from, "such update", |event| match event {
            Event::Update(update) if wanted(update) => Some(update.clone()),
            _ => None,
        })
    }

    pub(crate) fn wait_value(&self, from: usize, value: &OwnValue) -> (usize, OwnUpdate) {
        self.wait_update(from, |update| update.value == *value)
    }
}

impl PvaEvents for Recorder {
    fn connected(&self, info: TypeInfo) {
        self.push(Event::Connected(info));
    }

    fn disconnected(&self) {
        self.push(Event::Disconnected);
    }

    fn metadata(&self, metadata: Metadata) {
        self.push(Event::Metadata(Box::new(metadata)));
    }

    fn update(&self, update: Update<'_>) {
        let value = match update.value {
            Value::Number(number) => OwnValue::Number(number),
            Value::Int64(number) => OwnValue::Int64(number),
            Value::UInt64(number) => OwnValue::UInt64(number),
            Value::Boolean(flag) => OwnValue::Boolean(flag),
            Value::Text(text) => OwnValue::Text(String::from_utf8_lossy(text).into_owned()),
            Value::Array {
                element,
                count,
                data,
            } => OwnValue::Array(element, count, data),
            Value::TextArray(strings) => OwnValue::TextArray(strings),
            Value::Structure(node) => OwnValue::Structure(node),
        };
        self.push(Event::Update(OwnUpdate {
            value,
            time_ns: update.time_ns,
            user_tag: update.user_tag,
            severity: update.severity.unwrap_or(NO_ALARM_FIELD),
            status: update.status,
            message: update.message.to_owned(),
            changed: update.changed,
        }));
    }

    fn unreadable(&self, reason: &str) {
        self.push(Event::Unreadable(reason.to_owned()));
    }

    fn failed(&self, reason: &str) {
        self.push(Event::Failed(reason.to_owned()));
    }
}
