//! The text by which a client looks for names: a part of a name, or a pattern with `*` and `?`.

use std::ops::Range;

use crate::ingest::directory::NameList;

/// Names whose text is searched at a time.
const BLOCK: usize = 1_000;

/// What it takes to compare a name, beside its pattern's steps.
const EFFORT_OF_NAME: usize = 24;

/// Bytes of text that are searched with the effort of one step of a pattern.
const BYTES_OF_EFFORT: usize = 8;

/// What comparing may still take, in steps of patterns, each of which is a few nanoseconds.
#[derive(Debug)]
pub(super) struct Effort(usize);

impl Effort {
    fn unlimited() -> Self {
        Self(usize::MAX)
    }

    pub(super) fn new(steps: usize) -> Self {
        Self(steps)
    }

    fn spend(&mut self, steps: usize) {
        self.0 = self.0.saturating_sub(steps);
    }

    pub(super) fn is_used_up(&self) -> bool {
        self.0 == 0
    }

    /// The rest.
    #[cfg(test)]
    pub(super) fn steps(&self) -> usize {
        self.0
    }
}

/// A text without regard to the case of ASCII letters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    /// In lower case.
    text: String,
    /// The text is a pattern of the whole name.
    is_glob: bool,
    /// The longest part of the text without `*` and `?`: a name that matches contains it.
    needle: String,
}

impl Pattern {
    /// Blanks around the text have no meaning, because no name has any.
    pub(super) fn new(text: &str) -> Self {
        let text = text.trim().to_ascii_lowercase();
        let is_glob = text.contains(['*', '?']);
        let needle = text.split(['*', '?']).max_by_key(|part| part.len());
        Self {
            needle: needle.unwrap_or_default().to_owned(),
            is_glob,
            text,
        }
    }

    /// Whether a name begins with the text, if it matches. `lower` is the name in lower case.
    pub(super) fn matches(&self, lower: &str) -> Option<bool> {
        self.compare(lower, &mut Effort::unlimited())
    }

    fn compare(&self, lower: &str, effort: &mut Effort) -> Option<bool> {
        if self.is_glob {
            return globs(&self.text, lower, effort).then_some(true);
        }
        let begins = lower.starts_with(&self.text);
        (begins || lower.contains(&self.text)).then_some(begins)
    }

    /// Compares the names of a list from this index on, until the effort is used up; at least one. `found` is given the
    /// indices of those that match, with whether they begin with the text. Returns the index of the first name that was
    /// not compared.
    pub(super) fn find(
        &self,
        list: &NameList,
        from: usize,
        effort: &mut Effort,
        mut found: impl FnMut(usize, bool),
    ) -> usize {
        let mut next = from;
        while next < list.len() {
            let block = next..list.len().min(next + BLOCK);
            next = self.find_in_block(list, block, effort, &mut found);
            if effort.is_used_up() {
                break;
            }
        }
        next
    }

    fn find_in_block(
        &self,
        list: &NameList,
        block: Range<usize>,
        effort: &mut Effort,
        found: &mut impl FnMut(usize, bool),
    ) -> usize {
        let mut compare = |index: usize| {
            effort.spend(EFFORT_OF_NAME);
            if let Some(begins) = self.compare(list.lower(index), effort) {
                found(index, begins);
            }
            effort.is_used_up()
        };
        if self.needle.is_empty() {
            let last = block.clone().find(|index| compare(*index));
            return last.map_or(block.end, |last| last + 1);
        }
        let (begin, end) = (list.begin(block.start), list.end(block.end - 1));
        let text = &list.lower_text()[begin..end];
        // Where the names begin that were not compared.
        let mut rest = begin;
        for (at, _) in text.match_indices(&self.needle) {
            if begin + at < rest {
                continue;
            }
            let index = list.at(begin + at);
            rest = list.end(index);
            if compare(index) {
                return index + 1;
            }
        }
        effort.spend(text.len() / BYTES_OF_EFFORT);
        block.end
    }
}

/// Whether a pattern with `*` for any characters and `?` for one fits the whole text.
fn globs(pattern: &str, text: &str, effort: &mut Effort) -> bool {
    let (mut pattern, mut text) = (pattern.chars(), text.chars());
    // After the last `*`, and the text from where it was tried last.
    let mut retry: Option<(std::str::Chars<'_>, std::str::Chars<'_>)> = None;
    loop {
        effort.spend(1);
        let before = text.clone();
        match (pattern.next(), text.next()) {
            (Some('*'), _) => {
                text = before;
                retry = Some((pattern.clone(), text.clone()));
            }
            (Some('?'), Some(_)) => {}
            (Some(wanted), Some(found)) if wanted == found => {}
            (None, None) => return true,
            _ => {
                let Some((after, tried)) = &mut retry else {
                    return false;
                };
                if tried.next().is_none() {
                    return false;
                }
                (pattern, text) = (after.clone(), tried.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn part_of_a_name_and_pattern_of_a_whole_name_are_found() {
        let names = ["SR:I", "SR:BEAM:I", "ISR:1", "BR:I", "µ:I"];
        let list = NameList::new("ca", names);
        for (text, expected) in [
            ("sr:", &["ISR:1", "SR:BEAM:I", "SR:I"][..]),
            (" Sr:i ", &["SR:I"]),
            ("sr:*", &["SR:BEAM:I", "SR:I"]),
            ("*:i", &["BR:I", "SR:BEAM:I", "SR:I", "µ:I"]),
            ("?r:i", &["BR:I", "SR:I"]),
            ("?:i", &["µ:I"]),
            ("*b*m*", &["SR:BEAM:I"]),
            ("*", &["BR:I", "ISR:1", "SR:BEAM:I", "SR:I", "µ:I"]),
            ("", &["BR:I", "ISR:1", "SR:BEAM:I", "SR:I", "µ:I"]),
            ("i\nsr", &[]),
            ("x", &[]),
            ("sr", &["ISR:1", "SR:BEAM:I", "SR:I"]),
        ] {
            let pattern = Pattern::new(text);
            for steps in [1, usize::MAX] {
                let (mut found, mut next) = (Vec::new(), 0);
                while next < list.len() {
                    let compared = |index, _| found.push(list.name(index));
                    next = pattern.find(&list, next, &mut Effort::new(steps), compared);
                }
                assert_eq!(found, expected, "{text:?}");
            }
        }
        let begins = |text| Pattern::new(text).matches("isr:1");
        assert_eq!(begins("isr"), Some(true));
        assert_eq!(begins("sr"), Some(false));
        assert_eq!(begins("sr*"), None);
    }

    #[test]
    fn pattern_that_takes_many_steps_for_each_name_compares_few_names_at_a_time() {
        let names = (0..2_000).map(|number| format!("{number:04}{}x", "a".repeat(60)));
        let list = NameList::new("ca", names);
        let find = |text: &str| {
            let pattern = Pattern::new(text);
            pattern.find(&list, 0, &mut Effort::new(100_000), |_, _| {})
        };
        assert_eq!(find("a"), 2_000);
        let many = find(&format!("*{}y?x", "?".repeat(30)));
        assert!((1..400).contains(&many), "{many}");
        let long = find(&format!("*{}", "?".repeat(64)));
        assert!((1..800).contains(&long), "{long}");
    }

    /// The same by the definition.
    fn fits(pattern: &[char], text: &[char]) -> bool {
        match (pattern, text) {
            ([], _) => text.is_empty(),
            (['*', rest @ ..], _) => (0..=text.len()).any(|at| fits(rest, &text[at..])),
            (['?', rest @ ..], [_, text @ ..]) => fits(rest, text),
            ([wanted, rest @ ..], [found, text @ ..]) => wanted == found && fits(rest, text),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn pattern_fits_what_its_definition_says(pattern in "[ab*?]{0,8}", text in "[ab]{0,8}") {
            let by_definition = fits(
                &pattern.chars().collect::<Vec<_>>(),
                &text.chars().collect::<Vec<_>>(),
            );
            prop_assert_eq!(globs(&pattern, &text, &mut Effort::unlimited()), by_definition);
        }
    }
}
