//! Stores the value, time stamp, alarm and metadata of slots.

use pvwire_schema::decode::DetailRow;
use pvwire_schema::types::{
    Alarm, ConnectionState, Detail, Expected, Metadata, SkipCause, ValueType,
};

use super::{CAUSES, NO_DIGITS, SEVERITY_UNKNOWN, Slot, Store, Text, kind, part};

/// Severity and status as a slot shows them; `None` if the alarm is not known.
pub(super) fn shown_alarm(alarm: Option<Alarm>) -> (u8, u16) {
    match alarm {
        Some(alarm) if alarm != Alarm::NONE => (alarm.severity.number(), alarm.status),
        _ => (SEVERITY_UNKNOWN, 0),
    }
}

impl Store {
    /// Sets a numeric value from an update.
    #[inline]
    pub fn set_number(&mut self, slot: Slot, value: f64) {
        let at = slot as usize;
        let pv = &mut self.pvs[at];
        if pv.kind == kind::NUMBER && pv.value.to_bits() == value.to_bits() {
            return;
        }
        pv.value = value;
        self.value_changed(slot, kind::NUMBER);
    }

    /// Sets a value of any kind of text from an update. `number` is the nearest double.
    pub fn set_text(&mut self, slot: Slot, kind: u8, text: Text, number: f64) {
        let at = slot as usize;
        if self.pvs[at].kind == kind && self.texts[at] == text {
            return;
        }
        self.texts[at] = text;
        self.pvs[at].value = number;
        self.value_changed(slot, kind);
    }

    /// Sets a value that stays in the message, or that can't be read.
    pub fn set_opaque(&mut self, slot: Slot, kind: u8) {
        self.value_changed(slot, kind);
    }

    fn value_changed(&mut self, slot: Slot, kind: u8) {
        let at = slot as usize;
        if !matches!(kind, kind::TEXT | kind::TEXT_ARRAY | kind::LARGE_INTEGER)
            && self.texts[at] != Text::None
        {
            self.texts[at] = Text::None;
        }
        self.pvs[at].kind = kind;
        self.touch(slot, part::VALUE);
    }

    /// Removes a value that is no longer known.
    pub fn clear_value(&mut self, slot: Slot) {
        let at = slot as usize;
        self.pvs[at].sequence = 0;
        if self.pvs[at].kind == kind::NONE {
            return;
        }
        self.pvs[at].severity = SEVERITY_UNKNOWN;
        self.pvs[at].alarm_status = 0;
        self.details[at] = None;
        self.value_changed(slot, kind::NONE);
        self.touch(slot, part::TIME | part::ALARM);
    }

    /// Sets the fields of an update other than value, time and alarm, if it has any.
    pub fn set_detail(&mut self, slot: Slot, detail: Option<DetailRow<'_>>) {
        let before = &mut self.details[slot as usize];
        if detail.is_none() && before.is_none() {
            return;
        }
        *before = detail.map(|detail| {
            Box::new(Detail {
                user_tag: detail.user_tag,
                message: detail.message.to_owned(),
            })
        });
        self.touch(slot, part::TIME | part::ALARM);
    }

    /// The fields of the last update other than value, time and alarm.
    #[must_use]
    pub fn detail(&self, slot: Slot) -> Option<&Detail> {
        self.details[slot as usize].as_deref()
    }

    /// The sequence number of the update that the slot shows, if it is the PV's current one as far
    /// as is known.
    #[must_use]
    pub fn expected(&self, slot: Slot) -> Option<Expected> {
        let at = slot as usize;
        let connected = self.pvs[at].state == ConnectionState::Connected.number();
        (connected && self.pvs[at].kind != kind::NONE).then(|| Expected {
            sequence: self.pvs[at].sequence,
            epoch: self.metadata[at].epoch,
        })
    }

    /// Sets the time stamp of an update: whole seconds past the POSIX epoch and the remaining
    /// nanoseconds.
    #[inline]
    pub fn set_time(&mut self, slot: Slot, seconds: f64, nanoseconds: u32) {
        let at = slot as usize;
        let pv = &mut self.pvs[at];
        if pv.seconds != seconds || pv.nanoseconds != nanoseconds {
            pv.seconds = seconds;
            pv.nanoseconds = nanoseconds;
            self.touch(slot, part::TIME);
        }
    }

    /// Sets the alarm of an update; `None` if it is not known.
    pub fn set_alarm(&mut self, slot: Slot, alarm: Option<Alarm>) {
        let (severity, status) = shown_alarm(alarm);
        self.set_severity(slot, severity, status);
    }

    /// Sets severity, or [`SEVERITY_UNKNOWN`], and status.
    pub(super) fn set_severity(&mut self, slot: Slot, severity: u8, status: u16) {
        let pv = &mut self.pvs[slot as usize];
        if pv.severity != severity || pv.alarm_status != status {
            pv.severity = severity;
            pv.alarm_status = status;
            self.touch(slot, part::ALARM);
        }
    }

    /// Records an update, the `sequence`th of its PV.
    #[inline]
    pub fn count(&mut self, slot: Slot, sequence: u32) {
        let at = slot as usize;
        self.pvs[at].sequence = sequence;
        self.pvs[at].received += 1.0;
    }

    /// Records skipped updates.
    pub fn skip(&mut self, slot: Slot, cause: SkipCause, count: u32) {
        if count > 0 {
            let at = slot as usize * CAUSES + usize::from(cause.number());
            self.skips[at] += f64::from(count);
            self.touch(slot, part::SKIPPED);
        }
    }

    /// Sets the metadata. If their epoch or type differs, the previous value no longer belongs to
    /// this PV and is removed.
    pub fn set_metadata(&mut self, slot: Slot, metadata: &Metadata) {
        let at = slot as usize;
        let version = self.metadata_version[at];
        let before = &self.metadata[at];
        if version != 0 && before == metadata {
            return;
        }
        let retyped =
            before.value_type != metadata.value_type && before.value_type != ValueType::Unknown;
        if version != 0 && (retyped || before.epoch != metadata.epoch) {
            self.clear_value(slot);
        }
        metadata.clone_into(&mut self.metadata[at]);
        self.pvs[at].digits = match (metadata.value_type, metadata.precision) {
            (ValueType::Enum | ValueType::Boolean, _) | (_, None) => NO_DIGITS,
            (_, Some(digits)) => digits.unsigned_abs().try_into().unwrap_or(NO_DIGITS),
        };
        self.metadata_version[at] = version.wrapping_add(1).max(1);
        self.touch(slot, part::METADATA);
    }

    /// The PV's metadata.
    #[must_use]
    pub fn metadata(&self, slot: Slot) -> &Metadata {
        &self.metadata[slot as usize]
    }

    /// The value of a string PV, an array of strings, or a large integer.
    #[must_use]
    pub fn text(&self, slot: Slot) -> &Text {
        &self.texts[slot as usize]
    }
}
