//! The results of subscriptions: a complete one first, then only what changed.

use std::ops::Range;
use std::sync::Arc;

use pvwire_schema::types::ConnectionState;

use super::writer::{Selection, Writer};
use super::{Dialect, Pv};
use crate::select::execute::{self, Group};
use crate::store::{ACCESS_READ, kind};

/// The fields of one PV that any number of subscribers selected. The host updates it once per tick
/// and sends the same bytes to all of them.
///
/// Subscribers merge results: null means that an object did not change. An object that the PV has no longer is
/// therefore sent once with null fields.
#[derive(Debug)]
pub struct Watch {
    selection: Arc<Selection>,
    /// The complete result; empty before the first one.
    full: Vec<u8>,
    /// Where each field's value is in `full`.
    values: Vec<Range<usize>>,
    /// The result of the last update.
    changes: Vec<u8>,
    /// The next `full` and its values, while they are written.
    next: Vec<u8>,
    next_values: Vec<Range<usize>>,
    /// What subscribers have of each field.
    merged: Vec<Merged>,
    /// Parts of which the last update had no value although the PV may have one.
    unwritten: u32,
    /// Whether subscribers have had a result.
    is_begun: bool,
    /// Whether that is `full`.
    is_known: bool,
}

/// What subscribers that merge results have of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Merged {
    /// Null.
    Nothing,
    /// Perhaps an object.
    Object,
    /// An object that the PV has no longer, as the result that is being written says.
    Gone,
}

impl Watch {
    /// Without results.
    #[must_use]
    pub fn new(selection: Arc<Selection>) -> Self {
        Self {
            full: Vec::new(),
            values: Vec::new(),
            changes: Vec::new(),
            next: Vec::new(),
            next_values: Vec::new(),
            merged: vec![Merged::Nothing; selection.groups.len()],
            unwritten: 0,
            is_begun: false,
            is_known: false,
            selection,
        }
    }

    /// The fields that it reads.
    #[must_use]
    pub fn selection(&self) -> &Arc<Selection> {
        &self.selection
    }

    /// Subscribers have had results that were not written here: the next one is complete.
    pub fn begin_again(&mut self) {
        self.merged.fill(Merged::Object);
        (self.is_begun, self.is_known) = (true, false);
    }

    /// Reads the PV again after a change of `parts` (see [`part`](crate::store::part);
    /// [`ALL_PARTS`](execute::ALL_PARTS) if they are not known). Returns whether there is a result:
    /// the first one as soon as the PV [is settled](is_settled), and one for each change of a
    /// selected field.
    pub fn update(&mut self, pv: &impl Pv, parts: u32, writer: &mut Writer) -> bool {
        self.update_without(pv, parts, 0, writer)
    }

    /// Likewise, where `pv` lacks the `unwritten` parts although the PV may have them.
    pub fn update_without(
        &mut self,
        pv: &impl Pv,
        parts: u32,
        unwritten: u32,
        writer: &mut Writer,
    ) -> bool {
        let dialect = self.selection.dialect();
        if !self.is_begun {
            if !is_settled(pv, dialect) {
                return false;
            }
        } else if self.is_known && parts != execute::ALL_PARTS && self.selection.mask() & parts == 0
        {
            return false;
        }
        let is_complete = !self.is_known;
        self.read(
            pv,
            if is_complete {
                execute::ALL_PARTS
            } else {
                parts
            },
            writer,
        );
        // In Coniql a lost connection leaves what its clients have.
        let is_away =
            dialect == Dialect::Coniql && pv.state() != ConnectionState::Connected.number();
        self.unwritten = if is_away {
            execute::ALL_PARTS
        } else {
            unwritten
        };
        let is_gone = self.note_gone();
        if !is_complete && !is_gone && self.next == self.full {
            return false;
        }
        let (full, values, merged) = (&self.full, &self.values, &self.merged);
        self.changes.clear();
        let how = |nth, group: Group, value: &[u8]| match merged.get(nth) {
            Some(Merged::Gone) => Written::Gone,
            _ if is_complete || !group.is_object => Written::Value,
            _ if nth_value(full, values, nth) == value => Written::Null,
            _ => Written::Value,
        };
        let next = (&self.next[..], &self.next_values[..]);
        write(&self.selection, next, how, &mut self.changes);
        let gone = self.merged.iter_mut();
        gone.filter(|merged| **merged == Merged::Gone)
            .for_each(|merged| *merged = Merged::Nothing);
        std::mem::swap(&mut self.full, &mut self.next);
        std::mem::swap(&mut self.values, &mut self.next_values);
        (self.is_begun, self.is_known) = (true, true);
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

    /// Notes which objects subscribers have and the PV doesn't; returns whether there are any.
    fn note_gone(&mut self) -> bool {
        let mut is_gone = false;
        for (nth, group) in self.selection.groups.iter().enumerate() {
            let is_null = nth_value(&self.next, &self.next_values, nth) == b"null";
            let is_unwritten = group.mask & self.unwritten != 0;
            if let Some(merged) = self.merged.get_mut(nth).filter(|_| group.is_object) {
                *merged = match *merged {
                    _ if !is_null => Merged::Object,
                    Merged::Object if !is_unwritten => Merged::Gone,
                    before => before,
                };
                is_gone |= *merged == Merged::Gone;
            }
        }
        is_gone
    }

    /// The complete result, for a new subscriber; empty before the first result.
    #[must_use]
    pub fn full(&self) -> &[u8] {
        &self.full
    }

    /// Appends the complete result for a subscriber that has missed results: objects that the PV doesn't have have
    /// null fields.
    pub fn catch_up(&mut self, out: &mut Vec<u8>) {
        let unwritten = self.unwritten;
        let is_gone = |group: Group, value: &[u8]| group.is_object && value == b"null";
        for (nth, group) in self.selection.groups.iter().enumerate() {
            let value = nth_value(&self.full, &self.values, nth);
            if is_gone(*group, value)
                && group.mask & unwritten != 0
                && let Some(merged) = self.merged.get_mut(nth)
            {
                // What this subscriber has stays.
                *merged = Merged::Object;
            }
        }
        let how = |_, group: Group, value: &[u8]| {
            if is_gone(group, value) && group.mask & unwritten == 0 {
                Written::Gone
            } else {
                Written::Value
            }
        };
        write(&self.selection, (&self.full, &self.values), how, out);
    }

    /// The result of the last update: the objects that did not change are null.
    #[must_use]
    pub fn changes(&self) -> &[u8] {
        &self.changes
    }
}

/// How a field is written.
enum Written {
    /// As null: it did not change.
    Null,
    /// As an object whose fields are null.
    Gone,
    Value,
}

/// Appends a result made of these values.
fn write(
    selection: &Selection,
    (all, values): (&[u8], &[Range<usize>]),
    how: impl Fn(usize, Group, &[u8]) -> Written,
    out: &mut Vec<u8>,
) {
    out.push(b'{');
    for (nth, group) in selection.groups.iter().enumerate() {
        if nth > 0 {
            out.push(b',');
        }
        selection.program.push_key(*group, out);
        let value = nth_value(all, values, nth);
        match how(nth, *group, value) {
            Written::Null => out.extend_from_slice(b"null"),
            Written::Gone => selection.program.push_gone(*group, out),
            Written::Value => out.extend_from_slice(value),
        }
    }
    out.push(b'}');
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
