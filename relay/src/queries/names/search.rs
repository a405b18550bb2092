//! Finds the best names in all lists: those that begin with the text first, then records before their fields, short
//! names before long ones, then by the alphabet.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::{Arc, Weak};

use super::pattern::{Effort, Pattern};
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
    /// The last name that was visited, with its protocol; `None` while names are compared.
    pub(super) last: Option<String>,
    /// There may be more.
    pub(super) has_more: bool,
}

/// Order of a name among those that match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank<'a> {
    is_inside: bool,
    is_field: bool,
    length: usize,
    lower: &'a str,
    name: &'a str,
    scheme: &'a str,
}

/// The names that match, as far as they were compared and not visited. They are found once for all steps of a search;
/// lists that are new or were replaced meanwhile are compared again.
#[derive(Debug, Default)]
pub(super) struct Matches(Vec<ListMatches>);

/// Those of one list.
#[derive(Debug)]
struct ListMatches {
    /// A search, whose client may be slow, holds no list that was replaced.
    list: Weak<NameList>,
    /// Number of names that were compared.
    compared: usize,
    /// A number for each that matches, in the order of the ranks.
    keys: BinaryHeap<Reverse<u64>>,
}

const INSIDE: u64 = 1 << 63;
const FIELD: u64 = 1 << 62;

fn key(list: &NameList, index: usize, begins: bool) -> u64 {
    // Names have less than 2^30 bytes, and lists less than 2^32 names.
    let length = (list.lower(index).len() as u64) << 32;
    let inside = if begins { 0 } else { INSIDE };
    let field = if is_field(list.name(index)) { FIELD } else { 0 };
    inside | field | length | index as u64
}

/// Whether a name ends like that of a record's field, such as `.EGU` or `.DESC$`.
fn is_field(name: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(_, field)| {
        let field = field.strip_suffix('$').unwrap_or(field);
        field.starts_with(|c: char| c.is_ascii_uppercase())
            && field
                .bytes()
                .all(|c| c.is_ascii_uppercase() || c.is_ascii_digit())
    })
}

fn index(key: u64) -> usize {
    key as u32 as usize
}

fn rank(list: &NameList, key: u64) -> Rank<'_> {
    let lower = list.lower(index(key));
    Rank {
        is_inside: key & INSIDE != 0,
        is_field: key & FIELD != 0,
        length: lower.len(),
        lower,
        name: list.name(index(key)),
        scheme: list.scheme(),
    }
}

impl ListMatches {
    fn new(list: &Arc<NameList>) -> Self {
        Self {
            list: Arc::downgrade(list),
            compared: 0,
            keys: BinaryHeap::new(),
        }
    }

    fn is_of(&self, list: &Arc<NameList>) -> bool {
        self.list.as_ptr() == Arc::as_ptr(list)
    }

    /// Compares further names; those up to `after` were visited.
    fn compare(
        &mut self,
        list: &NameList,
        pattern: &Pattern,
        after: Option<Rank<'_>>,
        effort: &mut Effort,
    ) {
        let (from, keys) = (self.compared, &mut self.keys);
        self.compared = pattern.find(list, from, effort, |index, begins| {
            let key = key(list, index, begins);
            if after.is_none_or(|after| rank(list, key) > after) {
                keys.push(Reverse(key));
            }
        });
        if self.compared == list.len() {
            self.keys.shrink_to_fit();
        }
    }

    /// The best name.
    fn head<'a>(&self, list: &'a NameList) -> Option<Rank<'a>> {
        let Reverse(key) = self.keys.peek()?;
        Some(rank(list, *key))
    }
}

impl Matches {
    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        let keys = self.0.iter().map(|of_list| of_list.keys.capacity());
        self.0.capacity() * size_of::<ListMatches>() + keys.sum::<usize>() * size_of::<u64>()
    }

    /// Takes over the lists that there are now.
    fn follow(&mut self, lists: &[(Origin, Arc<NameList>)]) {
        let is_same =
            |(of_list, (_, list)): (&ListMatches, &(Origin, Arc<NameList>))| of_list.is_of(list);
        if self.0.len() == lists.len() && self.0.iter().zip(lists).all(is_same) {
            return;
        }
        let before = self.0.drain(..);
        let mut before: HashMap<_, _> = before
            .map(|of_list| (of_list.list.as_ptr(), of_list))
            .collect();
        let known = |(_, list): &(Origin, Arc<NameList>)| {
            let known = before.remove(&Arc::as_ptr(list));
            known.unwrap_or_else(|| ListMatches::new(list))
        };
        self.0 = lists.iter().map(known).collect();
    }

    /// The best names after `after`, which has its protocol and is the last that was visited. `may_read` decides by the
    /// rules.
    pub(super) fn step(
        &mut self,
        lists: &[(Origin, Arc<NameList>)],
        (pattern, after): (&Pattern, Option<&str>),
        (room, effort): (Room, &mut Effort),
        may_read: impl Fn(&str) -> bool,
    ) -> Step {
        self.follow(lists);
        let (scheme, name) = after.and_then(|after| after.split_once("://")).unzip();
        let lower = name.map(str::to_ascii_lowercase).unwrap_or_default();
        let after = name.zip(scheme).map(|(name, scheme)| Rank {
            // A name that doesn't match comes before all that do.
            is_inside: pattern.matches(&lower).is_some_and(|begins| !begins),
            is_field: pattern.matches(&lower).is_some() && is_field(name),
            length: pattern.matches(&lower).map_or(0, |_| lower.len()),
            lower: &lower,
            name,
            scheme,
        });
        for (of_list, (_, list)) in self.0.iter_mut().zip(lists) {
            if of_list.compared < list.len() && !effort.is_used_up() {
                of_list.compare(list, pattern, after, effort);
            }
        }
        let mut compared = self.0.iter().zip(lists);
        if compared.any(|(of_list, (_, list))| of_list.compared < list.len()) {
            return Step {
                has_more: true,
                ..Step::default()
            };
        }
        self.visit(lists, room, may_read)
    }

    /// The best names, when all were compared.
    fn visit(
        &mut self,
        lists: &[(Origin, Arc<NameList>)],
        room: Room,
        may_read: impl Fn(&str) -> bool,
    ) -> Step {
        let mut heads = BinaryHeap::with_capacity(lists.len());
        for (at, (of_list, (_, list))) in self.0.iter().zip(lists).enumerate() {
            heads.extend(of_list.head(list).map(|head| Reverse((head, at))));
        }
        let mut step = Step::default();
        let (mut bytes, mut judged) = (0, 0);
        while let Some(Reverse((rank, at))) = heads.pop() {
            let (mut from, mut about) = (Vec::new(), "");
            let mut same = Some(at);
            while let Some(at) = same {
                let (origin, list) = &lists[at];
                let of_list = &mut self.0[at];
                from.push(*origin);
                if let Some(Reverse(key)) = of_list.keys.pop()
                    && about.is_empty()
                {
                    about = list.about(index(key));
                }
                heads.extend(of_list.head(list).map(|next| Reverse((next, at))));
                let head = heads.peek().filter(|Reverse((next, _))| *next == rank);
                same = head.map(|Reverse((_, at))| *at);
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
                step.has_more = !heads.is_empty();
                step.last = Some(name);
                break;
            }
        }
        step
    }
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

    /// The first step of a search after this name, however long it takes.
    fn search(lists: &[(Origin, Arc<NameList>)], pattern: &Pattern, after: Option<&str>) -> Step {
        let mut effort = Effort::new(usize::MAX);
        Matches::default().step(lists, (pattern, after), (ALL, &mut effort), |_| true)
    }

    fn names(step: &Step) -> Vec<&str> {
        step.names.iter().map(|found| &*found.name).collect()
    }

    #[test]
    fn names_that_begin_with_the_text_come_first_then_short_ones_then_by_the_alphabet() {
        let step = search(&lists(), &Pattern::new("Temp"), None);
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
        assert!(!step.has_more);
    }

    #[test]
    fn records_come_before_fields() {
        let known = ["SR:I", "SR:I.EGU", "SR:LIFETIME", "SR:I.DESC$", "SR.lower"];
        let lists = [(Origin::Relay, Arc::new(NameList::new("ca", known)))];
        let step = search(&lists, &Pattern::new(""), None);
        let expected = ["SR:I", "SR.lower", "SR:LIFETIME", "SR:I.EGU", "SR:I.DESC$"];
        assert_eq!(names(&step), expected.map(|name| format!("ca://{name}")));
        let rest = search(&lists, &Pattern::new(""), Some("ca://SR:LIFETIME"));
        assert_eq!(
            names(&rest),
            expected[3..]
                .iter()
                .map(|name| format!("ca://{name}"))
                .collect::<Vec<_>>()
        );
    }

    #[test]
    fn name_in_several_lists_has_what_one_of_them_knows_of_it() {
        let described = NameList::described("ca", [("A", "{}"), ("B", "")]);
        let lists = [
            (Origin::Relay, Arc::new(NameList::new("ca", ["A", "B"]))),
            (Origin::ChannelFinder, Arc::new(described)),
        ];
        let step = search(&lists, &Pattern::new(""), None);
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
            let whole = search(&lists, &pattern, None).names.into_iter();
            let whole: Vec<_> = whole.filter(|found| may_read(&found.name)).collect();
            for (names, bytes, judged, effort) in [
                (1, 1_000, 9, usize::MAX),
                (9, 1, 9, 1),
                (9, 1_000, 1, 30),
                (2, 30, 2, 60),
            ] {
                let room = Room {
                    names,
                    bytes,
                    judged,
                };
                // Further steps of a search, or new searches after the last name.
                for is_one in [true, false] {
                    let (mut matches, mut after, mut all) = (Matches::default(), None, Vec::new());
                    loop {
                        let question = (&pattern, after.as_deref());
                        let room = (room, &mut Effort::new(effort));
                        let step = matches.step(&lists, question, room, may_read);
                        all.extend(step.names);
                        if let Some(last) = step.last {
                            after = Some(last);
                            if !is_one {
                                matches = Matches::default();
                            }
                        }
                        if !step.has_more {
                            break;
                        }
                    }
                    assert_eq!(all, whole, "{text:?} in {room:?}");
                }
            }
        }
    }

    #[test]
    fn search_of_many_pages_compares_each_name_once() {
        let names = (0..5_000).map(|number| format!("SR:{number:06}"));
        let lists = [(Origin::File, Arc::new(NameList::new("ca", names)))];
        let room = Room { judged: 10, ..ALL };
        let (mut matches, mut after) = (Matches::default(), None);
        let (mut pages, mut efforts) = (0, Vec::new());
        loop {
            let mut effort = Effort::new(1_000_000);
            let question = (&Pattern::new("sr"), after.as_deref());
            let step = matches.step(&lists, question, (room, &mut effort), |_| false);
            efforts.push(1_000_000 - effort.steps());
            pages += 1;
            after = step.last;
            if !step.has_more {
                break;
            }
        }
        assert!(pages >= 500, "{pages}");
        let (first, rest) = efforts.split_first().unwrap();
        assert!(
            *first > 5_000 && rest.iter().sum::<usize>() == 0,
            "{efforts:?}"
        );
        assert!(matches.bytes() >= 5_000 * 8, "it is told what it takes");
    }

    #[test]
    fn list_that_is_replaced_between_two_steps_is_compared_again_and_not_held() {
        let list = |names: &[&str]| (Origin::Server, Arc::new(NameList::new("pva", names)));
        let (kept, old) = (list(&["B", "D"]), list(&["A", "C", "E"]));
        let (pattern, room) = (Pattern::new(""), Room { names: 2, ..ALL });
        let mut matches = Matches::default();
        let mut step = |lists: &[_], after: Option<&str>| {
            let room = (room, &mut Effort::new(usize::MAX));
            matches.step(lists, (&pattern, after), room, |_| true)
        };
        let first = step(&[kept.clone(), old.clone()], None);
        assert_eq!(names(&first), ["pva://A", "pva://B"]);
        let held = Arc::downgrade(&old.1);
        drop(old);
        assert!(held.upgrade().is_none());
        let new = list(&["A", "C", "F"]);
        let second = step(&[new.clone(), kept.clone()], first.last.as_deref());
        assert_eq!(names(&second), ["pva://C", "pva://D"]);
        let last = step(&[new], second.last.as_deref());
        assert_eq!((names(&last), last.has_more), (vec!["pva://F"], false));
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
            let step = search(&lists, &pattern, after.as_deref());
            let plain: Vec<_> = plain.into_iter().map(|(.., name)| format!("pva://{name}")).collect();
            prop_assert_eq!(names(&step), plain);
        }
    }
}
