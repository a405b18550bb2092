//! Numbers of selections: equal ones have one number, by which threads name them. Equal subscriptions of one socket, the
//! same name with the same selection, are distinguished by ordinals.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use pvwire_core::graphql::Selection;

/// A selection and its number.
#[derive(Debug)]
pub struct Known {
    /// Its number; no other selection ever has it.
    pub number: u32,
    /// The fields to read of a PV.
    pub selection: Arc<Selection>,
}

/// The selections in use.
#[derive(Debug, Default)]
pub struct Selections(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    by_selection: HashMap<Arc<Selection>, Weak<Known>>,
    by_number: HashMap<u32, Weak<Known>>,
    last: u32,
    /// Number of selections at which unused ones are removed.
    sweep_at: usize,
}

/// Unused selections may accumulate up to this number.
const FEW: usize = 64;

impl Selections {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of a selection. It is known while the result is held.
    #[must_use]
    pub fn number(&self, selection: &Arc<Selection>) -> Arc<Known> {
        let mut table = self.table();
        let known = table.by_selection.get(selection).and_then(Weak::upgrade);
        if let Some(known) = known {
            return known;
        }
        if table.by_number.len() >= table.sweep_at {
            table
                .by_selection
                .retain(|_, known| known.strong_count() > 0);
            table.by_number.retain(|_, known| known.strong_count() > 0);
            table.sweep_at = (2 * table.by_number.len()).max(FEW);
        }
        table.last += 1;
        let known = Arc::new(Known {
            number: table.last,
            selection: Arc::clone(selection),
        });
        let weak = Arc::downgrade(&known);
        (table.by_selection).insert(Arc::clone(selection), Weak::clone(&weak));
        table.by_number.insert(known.number, weak);
        known
    }

    /// The selection with a number, if it is still known.
    #[must_use]
    pub fn find(&self, number: u32) -> Option<Arc<Known>> {
        self.table().by_number.get(&number).and_then(Weak::upgrade)
    }
}

/// The member of an operation: the operation's number, and the member's index in it.
pub(crate) type MemberAt = (u32, usize);

/// The members that subscribe the same, by ordinal.
#[derive(Debug, Default)]
pub(crate) struct Equals {
    members: Vec<Option<MemberAt>>,
    /// The ordinals below the length that have no member.
    free: BTreeSet<usize>,
}

impl Equals {
    /// Adds a member and returns its ordinal, the lowest one that is free.
    pub(crate) fn add(&mut self, member: MemberAt) -> u32 {
        let ordinal = self.free.pop_first().unwrap_or_else(|| {
            self.members.push(None);
            self.members.len() - 1
        });
        self.members[ordinal] = Some(member);
        ordinal as u32
    }

    pub(crate) fn remove(&mut self, ordinal: u32) {
        let ordinal = ordinal as usize;
        if self.members[ordinal].take().is_some() {
            self.free.insert(ordinal);
        }
        while self.members.pop_if(|member| member.is_none()).is_some() {
            self.free.remove(&self.members.len());
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    pub(crate) fn find(&self, ordinal: u32) -> Option<MemberAt> {
        *self.members.get(ordinal as usize)?
    }
}

#[cfg(test)]
mod tests {
    use pvwire_core::graphql::{Dialect, Document, Limits};

    use super::*;

    fn selection(fields: &str) -> Arc<Selection> {
        let text = format!("{{ getChannel(id: \"X\") {{ {fields} }} }}");
        let document = Document::compile(&text, Dialect::Coniql, Limits::default()).unwrap();
        let operation = document.operation(None, "").unwrap();
        Arc::clone(operation.roots()[0].selection().unwrap())
    }

    #[test]
    fn equal_selections_have_one_number_as_long_as_one_is_in_use() {
        let selections = Selections::default();
        let id = selections.number(&selection("id"));
        assert_eq!(selections.number(&selection("id")).number, id.number);
        let value = selections.number(&selection("value { float }"));
        assert_ne!(value.number, id.number);
        let found = selections.find(id.number).unwrap();
        assert_eq!(found.selection, id.selection);
        let number = id.number;
        drop((id, found));
        assert!(selections.find(number).is_none());
        assert_ne!(selections.number(&selection("id")).number, number);
    }

    #[test]
    fn unused_selections_do_not_accumulate() {
        let selections = Selections::default();
        for n in 0..1_000 {
            let _ = selections.number(&selection(&format!("a{n}: id")));
        }
        assert!(selections.table().by_number.len() <= FEW);
        assert!(selections.table().by_selection.len() <= FEW);
    }

    #[test]
    fn lowest_free_ordinal_is_used_again() {
        let mut equals = Equals::default();
        for n in 0..4 {
            assert_eq!(equals.add((n, 0)), n);
        }
        equals.remove(2);
        equals.remove(1);
        assert_eq!(equals.find(1), None);
        assert_eq!(
            (equals.add((7, 3)), equals.add((8, 0)), equals.add((9, 0))),
            (1, 2, 4)
        );
        assert_eq!(equals.find(1), Some((7, 3)));
        for ordinal in 0..5 {
            assert!(!equals.is_empty());
            equals.remove(ordinal);
        }
        assert!(equals.is_empty());
    }
}
