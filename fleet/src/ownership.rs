//! Which member owns a PV: rendezvous hashing, so that a member that joins or leaves moves only its own share.

use std::sync::Arc;

use crate::member::MemberId;

/// The members that own PVs, as one member sees them. A clone costs a counter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owners {
    members: Arc<[MemberId]>,
    term: u64,
}

impl Owners {
    /// The owners of a term, in any order.
    pub fn new(members: impl IntoIterator<Item = MemberId>, term: u64) -> Self {
        let mut members: Vec<MemberId> = members.into_iter().collect();
        members.sort_unstable();
        members.dedup();
        Self {
            members: members.into(),
            term,
        }
    }

    /// The owner of the PV with this key. Equal members give equal owners, whatever their term. None when there
    /// is no member that could own it.
    pub fn owner(&self, key: &str) -> Option<MemberId> {
        let key = hash(key);
        let members = self.members.iter().copied();
        members.max_by_key(|member| (mix(key ^ mix(member.0)), *member))
    }

    /// All members that own PVs, in the order of their ids.
    pub fn members(&self) -> &[MemberId] {
        &self.members
    }

    /// Grows whenever the members change. Of two members that claim a PV, the one with the larger term is right.
    pub fn term(&self) -> u64 {
        self.term
    }
}

/// FNV-1a of 64 bits. All relays of a site must agree on it, so it is a part of the protocol between them.
fn hash(key: &str) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325;
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    key.bytes().fold(start, step)
}

/// The finalizer of SplitMix64: each bit of the result depends on all bits of the number.
fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: usize = 10_000;

    fn keys() -> impl Iterator<Item = String> {
        (0..KEYS).map(|number| format!("ca://SR-DI:BPM-{number:04}:X"))
    }

    fn members(count: u64) -> impl Iterator<Item = MemberId> {
        (0..count).map(|number| MemberId(mix(number)))
    }

    #[test]
    fn equal_members_give_equal_owners_in_any_order_and_term() {
        let forward = Owners::new(members(5), 1);
        let backward = Owners::new(members(5).collect::<Vec<_>>().into_iter().rev(), 9);
        for key in keys() {
            assert_eq!(forward.owner(&key), backward.owner(&key));
        }
    }

    #[test]
    fn owners_stay_the_same_from_release_to_release() {
        let owners = Owners::new([MemberId(1), MemberId(2), MemberId(3)], 1);
        let of = |key| owners.owner(key).unwrap().0;
        let found = ["ca://A", "ca://B", "pva://A", "loc://x", "ca://C"].map(of);
        assert_eq!(found, [1, 1, 1, 2, 1]);
    }

    #[test]
    fn each_member_owns_about_an_equal_share() {
        let owners = Owners::new(members(8), 1);
        for member in members(8) {
            let owned = keys().filter(|key| owners.owner(key) == Some(member));
            let owned = owned.count();
            assert!((KEYS / 10..KEYS / 6).contains(&owned), "{owned}");
        }
    }

    #[test]
    fn member_that_joins_or_leaves_moves_its_own_share_alone() {
        let joined = MemberId(mix(5));
        let five = Owners::new(members(5), 1);
        let six = Owners::new(members(6), 2);
        let moved = keys().filter(|key| five.owner(key) != six.owner(key));
        let moved: Vec<String> = moved.collect();
        assert!(moved.iter().all(|key| six.owner(key) == Some(joined)));
        assert!(
            (KEYS / 8..KEYS / 5).contains(&moved.len()),
            "{}",
            moved.len()
        );
    }

    #[test]
    fn without_members_no_pv_has_an_owner() {
        assert_eq!(Owners::default().owner("ca://A"), None);
    }
}
