//! Suggests known names that are similar to an unknown one.

use crate::select::schema::{Field, Parameter, Type};

/// Things that have names.
pub(crate) enum Names {
    Fields(&'static [Field]),
    Parameters(&'static [Parameter]),
    Types(&'static [Type]),
    Values(&'static [&'static str]),
}

impl Names {
    fn get(&self, at: usize) -> Option<&'static str> {
        match self {
            Self::Fields(fields) => fields.get(at).map(|field| field.name),
            Self::Parameters(parameters) => parameters.get(at).map(|parameter| parameter.name),
            Self::Types(types) => types.get(at).map(|ty| ty.name),
            Self::Values(values) => values.get(at).copied(),
        }
    }
}

/// Maximum number of suggested names.
const MOST: usize = 5;

/// ` Did you mean "…"?`, or an empty string if no name is similar.
pub(crate) fn did_you_mean(what: &str, word: &str, names: &Names) -> String {
    let limit = word.len() * 2 / 5 + 1;
    let mut near: Vec<&str> = Vec::new();
    // Finds the next nearest name until there are no more.
    let mut last = (0, "");
    while near.len() < MOST {
        let mut best = (limit + 1, "");
        let mut at = 0;
        while let Some(name) = names.get(at) {
            let this = (distance(word, name), name);
            if this > last && this < best && !name.is_empty() {
                best = this;
            }
            at += 1;
        }
        if best.0 > limit {
            break;
        }
        near.push(best.1);
        last = best;
    }
    let mut text = String::new();
    for (at, name) in near.iter().enumerate() {
        text.push_str(match near.len() - at {
            _ if at == 0 => " Did you mean ",
            1 if at == 1 => " or ",
            1 => ", or ",
            _ => ", ",
        });
        if at == 0 {
            text.push_str(what);
        }
        text.push('"');
        text.push_str(name);
        text.push('"');
    }
    if !near.is_empty() {
        text.push('?');
    }
    text
}

/// Number of letters that must be changed, added, removed or swapped to turn one word into the
/// other. A difference in case only counts once, however many letters differ.
fn distance(word: &str, name: &str) -> usize {
    if word.eq_ignore_ascii_case(name) {
        return usize::from(word != name);
    }
    // Names of the schema are short: a longer word is not similar to any of them.
    const ROW: usize = 32;
    if word.len() >= ROW || name.len() >= ROW {
        return usize::MAX;
    }
    let letter = |of: &str, at: usize| of.as_bytes().get(at - 1).map(u8::to_ascii_lowercase);
    let mut cells = [0_u8; ROW * ROW];
    let mut cell = 0;
    for i in 0..=word.len() {
        for j in 0..=name.len() {
            let place = i * ROW + j;
            let before = |back: usize| cells[place.wrapping_sub(back) % (ROW * ROW)];
            cell = (i + j) as u8;
            if i > 0 && j > 0 {
                let (a, b) = (letter(word, i), letter(name, j));
                cell = before(ROW + 1) + u8::from(a != b);
                cell = cell.min(before(ROW) + 1).min(before(1) + 1);
                if i > 1 && j > 1 && a == letter(name, j - 1) && letter(word, i - 1) == b {
                    cell = cell.min(before(2 * ROW + 2) + 1);
                }
            }
            cells[place % (ROW * ROW)] = cell;
        }
    }
    usize::from(cell)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_name_is_answered_with_those_that_come_near() {
        let ask = |word: &str, names: &'static [&'static str]| {
            did_you_mean("", word, &Names::Values(names))
        };
        assert_eq!(
            ask("flot", &["float", "string"]),
            " Did you mean \"float\"?"
        );
        assert_eq!(ask("Value", &["value"]), " Did you mean \"value\"?");
        assert_eq!(ask("tmie", &["time"]), " Did you mean \"time\"?");
        assert_eq!(ask("ab", &["ay", "ax"]), " Did you mean \"ax\" or \"ay\"?");
        assert_eq!(
            ask("aa", &["ag", "ab", "af", "ac", "ae", "ad"]),
            " Did you mean \"ab\", \"ac\", \"ad\", \"ae\", or \"af\"?"
        );
        assert_eq!(ask("temperature", &["time"]), "");
        assert_eq!(
            ask(
                "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
                &["time"]
            ),
            ""
        );
    }
}
