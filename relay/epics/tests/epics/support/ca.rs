//! A sink that remembers what a client of Channel Access tells.

use std::sync::Arc;

use pvwire_epics::ca::{
    AccessRights, Channel, ChannelEvents, ChannelInfo, Client, Metadata, NativeType, Update, Value,
};

/// An event as the sink saw it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Event {
    Connected(ChannelInfo),
    Disconnected,
    Access(AccessRights),
    Metadata(Metadata),
    Update(OwnUpdate),
}

/// An update that owns its value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OwnUpdate {
    pub value: OwnValue,
    pub time_ns: i64,
    pub severity: u16,
    pub status: u16,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum OwnValue {
    Number(f64),
    Text(Vec<u8>),
    Array(NativeType, u32, Vec<u8>),
}

/// A sink that remembers all events, in order.
pub(crate) type Recorder = super::Recorder<Event>;

/// Opens a channel with such a sink.
pub(crate) fn open(client: &Client, name: &str) -> (Arc<Recorder>, Channel) {
    let recorder = Recorder::new();
    let channel = client.open(name, recorder.clone()).unwrap();
    (recorder, channel)
}

/// An array of elements in this machine's byte order.
pub(crate) fn array<const N: usize>(native: NativeType, elements: &[[u8; N]]) -> OwnValue {
    OwnValue::Array(native, elements.len() as u32, elements.concat())
}

impl Recorder {
    pub(crate) fn wait_connected(&self, from: usize) -> (usize, ChannelInfo) {
        self.wait(from, "connect", |event| match event {
            Event::Connected(info) => Some(*info),
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
            Event::Metadata(metadata) if wanted(metadata) => Some(metadata.clone()),
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

impl ChannelEvents for Recorder {
    fn connected(&self, info: ChannelInfo) {
        self.push(Event::Connected(info));
    }

    fn disconnected(&self) {
        self.push(Event::Disconnected);
    }

    fn access_rights(&self, rights: AccessRights) {
        self.push(Event::Access(rights));
    }

    fn metadata(&self, metadata: Metadata) {
        self.push(Event::Metadata(metadata));
    }

    fn update(&self, update: Update<'_>) {
        let value = match update.value {
            Value::Number(number) => OwnValue::Number(number),
            Value::Text(text) => OwnValue::Text(text.to_vec()),
            Value::Array(array) => {
                OwnValue::Array(array.element, array.count, array.bytes.to_vec())
            }
        };
        self.push(Event::Update(OwnUpdate {
            value,
            time_ns: update.time_ns,
            severity: update.severity,
            status: update.status,
        }));
    }
}
