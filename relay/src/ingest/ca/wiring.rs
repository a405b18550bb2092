//! Callbacks of a Channel Access channel, which become rows and events of its PV.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use pvwire_epics::ca::{self, AccessRights, ChannelEvents, ChannelInfo, NativeType};
use pvwire_schema::types::{Metadata, ValueType};

use super::extras::Extras;
use super::field_query::FieldQueries;
use super::label::Labels;
use super::value::{alarm_of, array_value, limits, value_type};
use super::{TEXT_ELEMENTS, field};
use crate::ingest::{Event, Forms, LastPut, Line, RowValue};

/// The callbacks of one channel, with its line. Aligned, so that an update reads one cache line of
/// it: with thousands of channels, each line is a cache miss.
#[repr(C, align(64))]
pub(super) struct Wiring {
    pub(super) line: Line,
    /// Type and element count of this connection; a lock that only connection and metadata events
    /// of this channel take.
    pub(super) shape: Mutex<(ValueType, u32)>,
    pub(super) last_put: LastPut,
    pub(super) by_name: bool,
    /// It was connected and has been lost.
    pub(super) lost: AtomicBool,
    pub(super) is_connected: AtomicBool,
    /// Whether the IOC lets the relay read it.
    pub(super) is_readable: AtomicBool,
    pub(super) name: Box<str>,
    pub(super) queries: Arc<FieldQueries>,
    /// For answers that arrive later.
    pub(super) me: Weak<Self>,
    /// The channel that this belongs to.
    pub(super) channel: OnceLock<Weak<ca::Channel>>,
    /// Long strings, descriptions and forms. No update of a number takes this lock.
    pub(super) extras: Mutex<Extras>,
    /// Labels beyond the listed choices. Only values of enumerations take this lock, and only for such a label.
    pub(super) labels: Mutex<Labels>,
    /// A value waits for its label.
    pub(super) awaits_label: AtomicBool,
    pub(super) forms: Arc<dyn Forms>,
}

impl ChannelEvents for Wiring {
    fn connected(&self, info: ChannelInfo) {
        self.lost.store(false, Ordering::Release);
        self.is_connected.store(true, Ordering::Release);
        *self.shape.lock().unwrap_or_else(PoisonError::into_inner) =
            (value_type(info.native_type), info.element_count);
        let is_readable = self.is_readable.load(Ordering::Acquire);
        // A value read in the connection before may be unreadable now.
        self.line.connected(info.type_changed || !is_readable);
        if is_readable {
            self.line.event(Event::Shape(Box::new(self.shape())));
        } else {
            self.tell_shape();
        }
        self.forget_labels();
        self.begin_connection();
        if info.native_type == NativeType::Char && TEXT_ELEMENTS.contains(&info.element_count) {
            self.ask_for_form();
        }
    }

    fn server(&self, server: &str) {
        self.line.event(Event::Server(server.into()));
        self.found_at(server);
    }

    fn disconnected(&self) {
        self.lost.store(true, Ordering::Release);
        self.is_connected.store(false, Ordering::Release);
        self.forget_labels();
        self.end_connection();
        self.line.event(Event::Disconnected);
    }

    fn heard(&self, at_ns: i64) {
        self.line.event(Event::Heard(at_ns));
    }

    fn unresponsive(&self, heard_ns: i64) {
        self.line.event(Event::Unresponsive { heard_ns });
    }

    fn responsive(&self) {
        self.line.event(Event::Responsive);
        self.look_again_for_description();
    }

    fn unreadable(&self, reason: &str) {
        self.forget_labels();
        self.distrust();
        self.line.missing(reason.to_owned());
    }

    fn reason(&self, reason: &str) {
        self.line.event(Event::Reason(reason.to_owned()));
    }

    fn access_rights(&self, rights: AccessRights) {
        let was_readable = self.is_readable.swap(rights.read, Ordering::AcqRel);
        if was_readable != rights.read {
            self.may_read(rights.read);
        }
        if was_readable && !rights.read && self.is_connected.load(Ordering::Acquire) {
            // Before the withdrawal, so that a value that waits for its label isn't sent after it.
            self.forget_labels();
            self.line.withdraw();
            self.tell_shape();
        }
        self.line.event(Event::Access {
            read: rights.read,
            write: rights.write || self.by_name,
        });
    }

    fn metadata(&self, metadata: ca::Metadata) {
        if self.shape().value_type == ValueType::Enum {
            self.send_choices(metadata);
        } else {
            self.send_metadata(metadata);
        }
    }

    fn update(&self, update: ca::Update<'_>) {
        let alarm = alarm_of(&update);
        let value = match update.value {
            ca::Value::Number(number) => RowValue::Number(number),
            ca::Value::Text(bytes) => return self.text(bytes, update.time_ns, alarm),
            ca::Value::Array(array) => {
                self.line.copied(array.bytes.len());
                RowValue::Blob(Arc::new(array_value(array)))
            }
        };
        self.line.update(update.time_ns, value, alarm);
    }

    fn choice(&self, update: ca::Update<'_>) {
        if let ca::Value::Number(index) = update.value {
            self.choice_arrived(index as u16, update.time_ns, alarm_of(&update));
        }
    }

    fn refused(&self, why: &str) {
        if self.is_readable.load(Ordering::Acquire) {
            self.forget_value_without_label();
            self.value_refused(why);
        }
    }

    fn field_wanted(&self, question: ca::FieldQuestion) {
        field::find(&self.queries, &self.name, question);
    }
}

impl Wiring {
    /// Metadata with type and element count alone.
    fn shape(&self) -> Metadata {
        let (value_type, element_count) =
            *self.shape.lock().unwrap_or_else(PoisonError::into_inner);
        Metadata {
            value_type,
            element_count,
            epoch: self.line.epoch(),
            ..Metadata::default()
        }
    }

    pub(super) fn send_metadata(&self, metadata: ca::Metadata) {
        self.tell_metadata(Metadata {
            units: metadata.units,
            precision: metadata.precision,
            choices: metadata.choices,
            display: limits(metadata.display),
            control: limits(metadata.control),
            warning: limits(metadata.warning),
            alarm: limits(metadata.alarm),
            ..self.shape()
        });
    }

    /// Sends type and element count, which need no right to read.
    fn tell_shape(&self) {
        self.send_metadata(ca::Metadata::default());
    }
}
