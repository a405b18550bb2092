//! The text by which a client looks for names: a part of a name, or a pattern with `*` and `?`.

use crate::ingest::directory::NameList;

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
        if self.is_glob {
            return globs(&self.text, lower).then_some(true);
        }
        let begins = lower.starts_with(&self.text);
        (begins || lower.contains(&self.text)).then_some(begins)
    }

    /// The indices of the names in a list that match, with whether they begin with the text.
    pub(super) fn find<'a>(
        &'a self,
        list: &'a NameList,
    ) -> impl Iterator<Item = (usize, bool)> + use<'a> {
        let all = self.needle.is_empty().then(|| 0..list.len());
        let found = (!self.needle.is_empty()).then(|| self.containing(list));
        let candidates = all.into_iter().flatten().chain(found.into_iter().flatten());
        candidates.filter_map(|index| Some((index, self.matches(list.lower(index))?)))
    }

    /// The names that contain the needle, each once.
    fn containing<'a>(&'a self, list: &'a NameList) -> impl Iterator<Item = usize> + use<'a> {
        let places = list.lower_text().match_indices(&self.needle);
        let mut end = 0;
        places.filter_map(move |(place, _)| {
            if place < end {
                return None;
            }
            let index = list.at(place);
            end = list.end(index);
            Some(index)
        })
    }
}

/// Whether a pattern with `*` for any characters and `?` for one fits the whole text.
fn globs(pattern: &str, text: &str) -> bool {
    let (mut pattern, mut text) = (pattern.chars(), text.chars());
    // After the last `*`, and the text from where it was tried last.
    let mut retry: Option<(std::str::Chars<'_>, std::str::Chars<'_>)> = None;
    loop {
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
            let found: Vec<_> = pattern
                .find(&list)
                .map(|(index, _)| list.name(index))
                .collect();
            assert_eq!(found, expected, "{text:?}");
        }
        let begins = |text| Pattern::new(text).matches("isr:1");
        assert_eq!(begins("isr"), Some(true));
        assert_eq!(begins("sr"), Some(false));
        assert_eq!(begins("sr*"), None);
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
            prop_assert_eq!(globs(&pattern, &text), by_definition);
        }
    }
}
