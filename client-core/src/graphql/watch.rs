//! The results of subscriptions: a complete one first, then only what changed.

use std::ops::Range;
use std::sync::Arc;

use pvwire_schema::types::ConnectionState;

use super::writer::{Selection, Writer};
use super::{Dialect, Pv};
use crate::select::execute;
use crate::store::{ACCESS_READ, kind};

/// The fields of one PV that any number of subscribers selected. The host updates it once per tick
/// and sends the same bytes to all of them.
#[derive(Debug)]
pub struct Watch {
    selection: Arc<Selection>,
    /// The complete result; empty before the first one.
    full: Vec<u8>,
    /// Where each field's value is in `full`.
    values: Vec<Range<usize>>,
    /// The result of the last update, in which the objects that did not change are null.
    changes: Vec<u8>,
    /// The next `full` and its values, while they are written.
    next: Vec<u8>,
    next_values: Vec<Range<usize>>,
}

impl Watch {
    /// Without results.
    #[must_use]
    pub fn new(selection: Arc<Selection>) -> Self {
        Self {
            selection,
            full: Vec::new(),
            values: Vec::new(),
            changes: Vec::new(),
            next: Vec::new(),
            next_values: Vec::new(),
        }
    }

    /// The fields that it reads.
    #[must_use]
    pub fn selection(&self) -> &Arc<Selection> {
        &self.selection
    }

    /// Reads the PV again after a change of `parts` (see [`part`](crate::store::part);
    /// [`ALL_PARTS`](execute::ALL_PARTS) if they are not known). Returns whether there is a result:
    /// the first one as soon as the PV [is settled](is_settled), and one for each change of a
    /// selected field.
    pub fn update(&mut self, pv: &impl Pv, parts: u32, writer: &mut Writer) -> bool {
        let is_first = self.full.is_empty();
        if is_first {
            if !is_settled(pv, self.selection.dialect()) {
                return false;
            }
        } else if parts != execute::ALL_PARTS && self.selection.mask() & parts == 0 {
            return false;
        }
        self.read(
            pv,
            if is_first { execute::ALL_PARTS } else { parts },
            writer,
        );
        if !is_first && self.next == self.full {
            return false;
        }
        self.write_changes(is_first);
        std::mem::swap(&mut self.full, &mut self.next);
        std::mem::swap(&mut self.values, &mut self.next_values);
        true
    }

    /// Writes the next complete result.
    fn read(&mut self, pv: &impl Pv, parts: u32, writer: &mut Writer) {
        let selection = &self.selection;
        self.next.clear();
        self.next.push(b'{');
        self.next_values.clear();
        for (nth, group) in selection.groups.iter().enumerate() {
            if nth > 0 {
                self.next.push(b',');
            }
            let start = self.next.len();
            selection.program.push_key(*group, &mut self.next);
            let value = self.next.len();
            let is_affected = parts == execute::ALL_PARTS || group.mask & parts != 0;
            match self.values.get(nth).cloned().filter(|_| !is_affected) {
                Some(before) => {
                    let before = self.full.get(before).unwrap_or_default();
                    self.next.extend_from_slice(before);
                }
                None => {
                    self.next.truncate(start);
                    (selection.program).push_group(*group, pv, &mut writer.results, &mut self.next);
                }
            }
            self.next_values.push(value..self.next.len());
        }
        self.next.push(b'}');
    }

    fn write_changes(&mut self, is_first: bool) {
        self.changes.clear();
        if is_first {
            self.changes.extend_from_slice(&self.next);
            return;
        }
        self.changes.push(b'{');
        for (nth, group) in self.selection.groups.iter().enumerate() {
            if nth > 0 {
                self.changes.push(b',');
            }
            self.selection.program.push_key(*group, &mut self.changes);
            let before = nth_value(&self.full, &self.values, nth);
            let now = nth_value(&self.next, &self.next_values, nth);
            let is_same = group.is_object && before == now;
            self.changes
                .extend_from_slice(if is_same { b"null" } else { now });
        }
        self.changes.push(b'}');
    }

    /// The complete result, for a new subscriber; empty before the first result.
    #[must_use]
    pub fn full(&self) -> &[u8] {
        &self.full
    }

    /// The result of the last update: the objects that did not change are null.
    #[must_use]
    pub fn changes(&self) -> &[u8] {
        &self.changes
    }
}

fn nth_value<'a>(all: &'a [u8], values: &[Range<usize>], nth: usize) -> &'a [u8] {
    let range = values.get(nth).cloned().unwrap_or_default();
    all.get(range).unwrap_or_default()
}

/// Whether a PV has enough data for a first result: it has a value, or it is known that none is
/// available at present. In Coniql: it is connected, with value and metadata.
#[must_use]
pub fn is_settled(pv: &impl Pv, dialect: Dialect) -> bool {
    match dialect {
        Dialect::Pvwire => execute::is_settled(pv),
        Dialect::Coniql => {
            pv.state() == ConnectionState::Connected.number()
                && pv.access() & ACCESS_READ != 0
                && pv.kind() != kind::NONE
                && pv.has_metadata()
        }
    }
}
