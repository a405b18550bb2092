//! Equal subscriptions of one socket: the same name with the same selection, distinguished by ordinals.

use std::collections::BTreeSet;

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
    use super::*;

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
