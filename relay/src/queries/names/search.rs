//! Finds the best names in all lists: those that begin with the text first, then short ones before long ones, then by
//! the alphabet.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use super::pattern::Pattern;
use crate::ingest::directory::{NameList, Origin};

/// A name that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// With its protocol, such as `ca://SR:I`.
    pub(super) name: String,
    /// Where it is known from, each once.
    pub(super) from: Vec<Origin>,
    /// What is known of it, as an object of JSON; empty for nothing.
    pub(super) about: String,
}

/// What one step of a search may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// Number of names.
    pub(super) names: usize,
    /// Bytes of the names and of what is known of them in all; one more name may go beyond.
    pub(super) bytes: usize,
    /// Names whose rules are looked up.
    pub(super) judged: usize,
}

/// One step of a search.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Step {
    /// The best names that may be shown.
    pub(super) names: Vec<Found>,
    /// The last name that was visited, if there may be more; with its protocol.
    pub(super) last: Option<String>,
}

/// Order of a name among those that match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank<'a> {
    is_inside: bool,
    length: usize,
    lower: &'a str,
    name: &'a str,
    scheme: &'a str,
}

/// The names of one list that match: a number for each, in the order of the ranks.
struct Matches<'a> {
    list: &'a NameList,
    origin: Origin,
    keys: BinaryHeap<Reverse<u64>>,
}

const INSIDE: u64 = 1 << 63;

impl<'a> Matches<'a> {
    /// Those after a name.
    fn new(
        (origin, list): &'a (Origin, Arc<NameList>),
        pattern: &Pattern,
        after: Option<Rank<'_>>,
    ) -> Self {
        let mut matches = Self {
            list,
            origin: *origin,
            keys: BinaryHeap::new(),
        };
        let found = pattern.find(list).map(|(index, begins)| {
            // Names have less than 2^31 bytes, and lists less than 2^32 names.
            let length = (list.lower(index).len() as u64) << 32;
            (if begins { 0 } else { INSIDE }) | length | index as u64
        });
        let keys: Vec<_> = found
            .filter(|key| after.is_none_or(|after| matches.rank(*key) > after))
            .map(Reverse)
            .collect();
        matches.keys = keys.into();
        matches
    }

    fn rank(&self, key: u64) -> Rank<'a> {
        let index = key as u32 as usize;
        let lower = self.list.lower(index);
        Rank {
            is_inside: key & INSIDE != 0,
            length: lower.len(),
            lower,
            name: self.list.name(index),
            scheme: self.list.scheme(),
        }
    }

    /// The next name and its index in the list.
    fn next(&mut self) -> Option<(Rank<'a>, usize)> {
        let Reverse(key) = self.keys.pop()?;
        Some((self.rank(key), key as u32 as usize))
    }
}

/// The best names after `after`, which has its protocol. `may_read` decides by the rules.
pub(super) fn search(
    lists: &[(Origin, Arc<NameList>)],
    pattern: &Pattern,
    after: Option<&str>,
    room: Room,
    may_read: impl Fn(&str) -> bool,
) -> Step {
    let (scheme, name) = after.and_then(|after| after.split_once("://")).unzip();
    let lower = name.map(str::to_ascii_lowercase).unwrap_or_default();
    let after = name.zip(scheme).map(|(name, scheme)| Rank {
        // A name that doesn't match comes before all that do.
        is_inside: pattern.matches(&lower).is_some_and(|begins| !begins),
        length: pattern.matches(&lower).map_or(0, |_| lower.len()),
        lower: &lower,
        name,
        scheme,
    });
    let lists = lists.iter();
    let mut matches: Vec<_> = lists
        .map(|list| Matches::new(list, pattern, after))
        .collect();
    let mut heads: BinaryHeap<_> = (matches.iter_mut().enumerate())
        .filter_map(|(list, matches)| {
            let (rank, index) = matches.next()?;
            Some(Reverse((rank, list, index)))
        })
        .collect();
    let mut step = Step::default();
    let (mut bytes, mut judged) = (0, 0);
    while let Some(Reverse((rank, list, index))) = heads.pop() {
        let (mut from, mut about) = (Vec::new(), "");
        let mut same = Some((list, index));
        while let Some((list, index)) = same {
            let of_list = &mut matches[list];
            from.push(of_list.origin);
            if about.is_empty() {
                about = of_list.list.about(index);
            }
            heads.extend(
                of_list
                    .next()
                    .map(|(next, index)| Reverse((next, list, index))),
            );
            let head = heads.peek().filter(|Reverse((next, ..))| *next == rank);
            same = head.map(|Reverse((_, list, index))| (*list, *index));
            if same.is_some() {
                heads.pop();
            }
        }
        let name = format!("{}://{}", rank.scheme, rank.name);
        judged += 1;
        if may_read(&name) {
            from.sort_unstable();
            from.dedup();
            bytes += name.len() + about.len();
            let (name, about) = (name.clone(), about.to_owned());
            step.names.push(Found { name, from, about });
        }
        if step.names.len() >= room.names || bytes >= room.bytes || judged >= room.judged {
            step.last = (!heads.is_empty()).then_some(name);
            break;
        }
    }
    step
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ALL: Room = Room {
        names: 10_000,
        bytes: usize::MAX,
        judged: usize::MAX,
    };

    fn lists() -> Vec<(Origin, Arc<NameList>)> {
        let list =
            |origin, scheme, names: &[&str]| (origin, Arc::new(NameList::new(scheme, names)));
        vec![
            list(Origin::Server, "pva", &["SR:TEMP:1", "SR:TEMP:10", "TEMP"]),
            list(Origin::Relay, "ca", &["SR:TEMP:1", "BR:TEMP"]),
            list(Origin::Relay, "pva", &["TEMP", "temp"]),
            list(Origin::Server, "pva", &["TEMP", "TEMPERATURE"]),
        ]
    }

    fn names(step: &Step) -> Vec<&str> {
        step.names.iter().map(|found| &*found.name).collect()
    }

    #[test]
    fn names_that_begin_with_the_text_come_first_then_short_ones_then_by_the_alphabet() {
        let step = search(&lists(), &Pattern::new("Temp"), None, ALL, |_| true);
        let expected = [
            "pva://TEMP",
            "pva://temp",
            "pva://TEMPERATURE",
            "ca://BR:TEMP",
            "ca://SR:TEMP:1",
            "pva://SR:TEMP:1",
            "pva://SR:TEMP:10",
        ];
        assert_eq!(names(&step), expected);
        assert_eq!(step.names[0].from, [Origin::Relay, Origin::Server]);
        assert_eq!(step.last, None);
    }

    #[test]
    fn name_in_several_lists_has_what_one_of_them_knows_of_it() {
        let described = NameList::described("ca", [("A", "{}"), ("B", "")]);
        let lists = [
            (Origin::Relay, Arc::new(NameList::new("ca", ["A", "B"]))),
            (Origin::ChannelFinder, Arc::new(described)),
        ];
        let step = search(&lists, &Pattern::new(""), None, ALL, |_| true);
        let abouts: Vec<_> = step.names.iter().map(|found| &*found.about).collect();
        assert_eq!(
            (names(&step), abouts),
            (vec!["ca://A", "ca://B"], vec!["{}", ""])
        );
        assert_eq!(step.names[0].from, [Origin::Relay, Origin::ChannelFinder]);
    }

    #[test]
    fn steps_of_any_size_give_together_what_one_gives() {
        let lists = lists();
        let may_read = |name: &str| !name.starts_with("ca://");
        for text in ["temp", "", "sr*", "x"] {
            let pattern = Pattern::new(text);
            let whole = search(&lists, &pattern, None, ALL, may_read);
            for (names, bytes, judged) in [(1, 1_000, 9), (9, 1, 9), (9, 1_000, 1), (2, 30, 2)] {
                let room = Room {
                    names,
                    bytes,
                    judged,
                };
                let (mut after, mut all) = (None, Vec::new());
                loop {
                    let step = search(&lists, &pattern, after.as_deref(), room, may_read);
                    all.extend(step.names);
                    after = step.last;
                    if after.is_none() {
                        break;
                    }
                }
                assert_eq!(all, whole.names, "{text:?} in {room:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn search_in_many_lists_finds_what_a_plain_one_finds(
            parts in prop::collection::vec(prop::collection::vec("[aAb:]{1,4}", 0..8), 1..5),
            text in "[aAb:*?]{0,3}",
            after in prop::option::of("[aAb:]{1,4}"),
        ) {
            let lists: Vec<_> = parts
                .iter()
                .map(|names| (Origin::Server, Arc::new(NameList::new("pva", names))))
                .collect();
            let pattern = Pattern::new(&text);
            let rank = |name: &String| {
                let begins = pattern.matches(&name.to_ascii_lowercase());
                begins.map(|begins| (!begins, name.len(), name.to_ascii_lowercase(), name.clone()))
            };
            let mut plain: Vec<_> = parts.iter().flatten().filter_map(rank).collect();
            plain.sort();
            plain.dedup();
            if let Some(after) = after.as_ref().and_then(rank) {
                plain.retain(|rank| *rank > after);
            }
            let after = after.map(|after| format!("pva://{after}"));
            let step = search(&lists, &pattern, after.as_deref(), ALL, |_| true);
            let plain: Vec<_> = plain.into_iter().map(|(.., name)| format!("pva://{name}")).collect();
            prop_assert_eq!(names(&step), plain);
        }
    }
}
