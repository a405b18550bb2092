//! Labels of choices beyond the sixteenth, which Channel Access doesn't list.
//!
//! A server sends the label of the current choice, whatever its index, to a client that reads the PV as a string. So
//! a value beyond the listed choices waits until the label is read, and the label is added to the choices.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use pvwire_epics::ca;
use pvwire_schema::types::Alarm;

use super::Wiring;
use super::field_query::{FieldQuery, What};
use crate::ingest::RowValue;

/// Number of choices that Channel Access lists. A PV that lists as many may have more.
pub(super) const LISTED: u16 = 16;

/// Largest index whose label is read. Menus of EPICS have at most some tens of choices.
const MOST: u16 = 255;

/// Time limit of the read of a label. After it the value is shown without.
const LABEL_WITHIN: Duration = Duration::from_secs(2);

/// Labels of a PV's choices beyond those that Channel Access lists.
#[derive(Debug, Default)]
pub(super) struct Labels {
    /// Counts connections, so that a label of an earlier one is ignored.
    connection: u32,
    /// Labels that were read in this connection, by index.
    read: BTreeMap<u16, String>,
    /// The metadata as the server sent them, if they may have more choices.
    metadata: Option<ca::Metadata>,
    /// The metadata have come, and have fewer choices.
    is_listed: bool,
    /// The value whose label is being read.
    waiting: Option<Waiting>,
    /// The index whose label is being read.
    reading: Option<Reading>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    /// The PV has had this index alone since the read began.
    Of(u16),
    /// It had others meanwhile, and the label may be of any of them.
    OfSeveral,
}

impl Labels {
    /// The PV has another value now.
    fn passed(&mut self, index: u16) {
        if let Some(reading) = &mut self.reading
            && *reading != Reading::Of(index)
        {
            *reading = Reading::OfSeveral;
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    index: u16,
    time_ns: i64,
    alarm: Alarm,
}

impl Wiring {
    fn labels(&self) -> MutexGuard<'_, Labels> {
        // Every change under the lock is complete.
        self.labels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection begins or ends, or nothing may be read or trusted any more.
    pub(super) fn forget_labels(&self) {
        let mut labels = self.labels();
        *labels = Labels {
            connection: labels.connection.wrapping_add(1),
            ..Labels::default()
        };
        self.awaits_label.store(false, Ordering::Release);
    }

    /// The value that waits for its label is out of date.
    pub(super) fn forget_value_without_label(&self) {
        let mut labels = self.labels();
        labels.waiting = None;
        self.awaits_label.store(false, Ordering::Release);
    }

    /// Sends the metadata of an enumeration, with the labels that were read.
    pub(super) fn send_choices(&self, mut metadata: ca::Metadata) {
        let mut labels = self.labels();
        labels.is_listed = metadata.choices.len() != usize::from(LISTED);
        labels.metadata = (!labels.is_listed).then(|| metadata.clone());
        if labels.is_listed {
            labels.read.clear();
        }
        extend(&mut metadata.choices, &labels.read);
        // Under the lock, so that a label which is read now is sent after it.
        self.send_metadata(metadata);
    }

    /// The index of a choice has arrived.
    pub(super) fn choice_arrived(&self, index: u16, time_ns: i64, alarm: Alarm) {
        if index < LISTED && !self.awaits_label.load(Ordering::Acquire) {
            return self.tell_choice(index, time_ns, alarm);
        }
        let mut labels = self.labels();
        if labels.waiting.take().is_some() {
            self.line.squashed(1);
        }
        labels.passed(index);
        if !(LISTED..=MOST).contains(&index) || labels.is_listed {
            self.awaits_label.store(false, Ordering::Release);
            return self.tell_choice(index, time_ns, alarm);
        }
        self.awaits_label.store(true, Ordering::Release);
        labels.waiting = Some(Waiting {
            index,
            time_ns,
            alarm,
        });
        self.read_label(labels);
    }

    fn tell_choice(&self, index: u16, time_ns: i64, alarm: Alarm) {
        let value = RowValue::Number(index.into());
        self.line.update(time_ns, value, alarm);
    }

    /// Reads the label of the value that waits, unless a read is under way.
    fn read_label(&self, mut labels: MutexGuard<'_, Labels>) {
        let Some(waiting) = labels.waiting.filter(|_| labels.reading.is_none()) else {
            return;
        };
        labels.reading = Some(Reading::Of(waiting.index));
        let (connection, me) = (labels.connection, self.me.clone());
        drop(labels);
        self.queries.ask(FieldQuery {
            name: self.name.to_string(),
            what: What::Text,
            within: LABEL_WITHIN,
            late: None,
            is_urgent: true,
            answer: Box::new(move |found| {
                if let Some(me) = me.upgrade() {
                    me.label_found(connection, found.map(|found| found.text));
                }
            }),
        });
    }

    fn label_found(&self, connection: u32, text: Option<String>) {
        let mut labels = self.labels();
        if labels.connection != connection {
            return;
        }
        let read = labels.reading.take();
        let Some(waiting) = labels.waiting else {
            return;
        };
        if read != Some(Reading::Of(waiting.index)) {
            return self.read_label(labels);
        }
        labels.waiting = None;
        if let Some(text) = text.filter(|text| !text.is_empty())
            && labels.read.get(&waiting.index) != Some(&text)
        {
            labels.read.insert(waiting.index, text);
            if let Some(mut metadata) = labels.metadata.clone() {
                extend(&mut metadata.choices, &labels.read);
                self.send_metadata(metadata);
            }
        }
        // Under the lock, so that a newer value comes after it.
        self.tell_choice(waiting.index, waiting.time_ns, waiting.alarm);
        self.awaits_label.store(false, Ordering::Release);
    }
}

/// Adds labels by index. Indexes between them whose labels are unknown are shown as numbers.
fn extend(choices: &mut Vec<String>, labels: &BTreeMap<u16, String>) {
    for (index, label) in labels {
        for unknown in choices.len()..usize::from(*index) {
            choices.push(unknown.to_string());
        }
        choices.push(label.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_have_their_index_among_the_choices() {
        let mut choices = vec!["a".to_owned(), "b".to_owned()];
        let labels = BTreeMap::from([(3, "d".to_owned()), (4, "e".to_owned())]);
        extend(&mut choices, &labels);
        assert_eq!(choices, ["a", "b", "2", "d", "e"]);
    }
}
