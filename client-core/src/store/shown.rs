//! Shows the values of local PVs and formulas, which the client computes without the relay.

use pvwire_schema::decode::DetailRow;
use pvwire_schema::types::{ConnectionState, Metadata, PutValue, Severity, ValueType};

use super::{
    ACCESS_PUTS, ACCESS_READ, ACCESS_WRITE, LOCAL_SCHEME, SEVERITY_UNKNOWN, Slot, Store, Text,
    kind, part,
};

/// Prefixes of the names of such PVs: `loc://x`, `=A + B` and `eq://A + B`.
const OF_PAGE: [&str; 3] = [LOCAL_SCHEME, "=", "eq://"];

/// Whether a PV of this name is a local PV or a formula.
pub(super) fn is_of_page(name: &str) -> bool {
    OF_PAGE.iter().any(|start| name.starts_with(start))
}

/// Type, severity, time stamp and access of a value that [`Store::show`] shows.
#[derive(Clone, Debug)]
pub struct Shown {
    /// Type of the value.
    pub value_type: ValueType,
    /// Digits after the point, if they are fixed.
    pub precision: Option<i16>,
    /// Alarm severity; `None` if it is undefined or not sent.
    pub severity: Option<Severity>,
    /// Alarm status; UDF if the severity is undefined.
    pub status: u16,
    /// Time stamp: whole seconds past the POSIX epoch.
    pub seconds: f64,
    /// Time stamp: the remaining nanoseconds.
    pub nanoseconds: u32,
    /// Whether the application may write the PV.
    pub writable: bool,
}

impl Store {
    /// Shows a value of a local PV or a formula, with its alarm message and the labels of an enum.
    /// If the PV was not connected, it is connected since the value's time stamp.
    pub fn show(
        &mut self,
        slot: Slot,
        value: &PutValue,
        shown: &Shown,
        message: &str,
        choices: &[String],
    ) {
        let at = slot as usize;
        if self.pvs[at].state != ConnectionState::Connected.number() {
            let now_ms = shown.seconds * 1000.0 + f64::from(shown.nanoseconds) / 1e6;
            self.set_state(slot, ConnectionState::Connected.number(), now_ms);
        }
        let access = if shown.writable {
            ACCESS_READ | ACCESS_WRITE | ACCESS_PUTS
        } else {
            ACCESS_READ
        };
        if self.pvs[at].access != access {
            self.pvs[at].access = access;
            self.touch(slot, part::ACCESS);
        }
        let is_table = shown.value_type == ValueType::Structure;
        self.set_metadata(
            slot,
            &Metadata {
                value_type: shown.value_type,
                element_count: match value {
                    PutValue::TextArray(texts) if !is_table => texts.len() as u32,
                    PutValue::Array(array) => array.count,
                    _ => 1,
                },
                precision: shown.precision,
                choices: choices.to_vec(),
                type_id: if is_table { "epics:nt/NTTable:1.0" } else { "" }.to_owned(),
                ..Metadata::default()
            },
        );
        self.show_value(slot, value, is_table);
        self.set_time(slot, shown.seconds, shown.nanoseconds);
        let severity = shown.severity.map(Severity::number);
        self.set_severity(slot, severity.unwrap_or(SEVERITY_UNKNOWN), shown.status);
        let detail = DetailRow {
            row: 0,
            user_tag: 0,
            message,
        };
        self.set_detail(slot, (!message.is_empty()).then_some(detail));
        let sequence = self.pvs[at].sequence.wrapping_add(1);
        self.count(slot, sequence);
    }

    fn show_value(&mut self, slot: Slot, value: &PutValue, is_table: bool) {
        match value {
            _ if is_table => self.set_opaque(slot, kind::STRUCTURE),
            PutValue::Number(number) => self.set_number(slot, *number),
            PutValue::Int64(integer) => {
                let text = Text::One(integer.to_string());
                self.set_text(slot, kind::LARGE_INTEGER, text, *integer as f64);
            }
            PutValue::UInt64(integer) => {
                let text = Text::One(integer.to_string());
                self.set_text(slot, kind::LARGE_INTEGER, text, *integer as f64);
            }
            PutValue::Text(text) => {
                self.set_text(slot, kind::TEXT, Text::One(text.clone()), f64::NAN);
            }
            PutValue::TextArray(texts) => {
                let texts = Text::Many(texts.clone());
                self.set_text(slot, kind::TEXT_ARRAY, texts, f64::NAN);
            }
            PutValue::Array(_) => self.set_opaque(slot, kind::ARRAY),
        }
    }

    /// Sets the connection state of a formula to that of an input, which must not be refused. A formula that is
    /// connected and has no result, because an input has no value, loses its value.
    pub fn follow(&mut self, slot: Slot, input: Slot, has_result: bool) {
        let from = input as usize;
        let (now, heard_ms) = (self.pvs[from].state, self.pvs[from].heard_ms);
        let since_ms = self.since_ms[from];
        self.set_heard(slot, heard_ms);
        self.set_state(slot, now, since_ms);
        if now == ConnectionState::Connected.number() && !has_result {
            self.clear_value(slot);
        }
    }
}
