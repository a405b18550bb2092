//! Checks that a pattern of a `.pvlist` means the same to every gateway and to the relay.
//!
//! Gateways match patterns with different libraries: Python's `re` (pvAccess), PCRE or GNU regex
//! (Channel Access). A pattern is accepted only if these and the relay's library match the same
//! names. Names are printable ASCII, so that character classes agree.

use std::iter::Peekable;
use std::str::Chars;

use thiserror::Error;

/// Largest count in `{m,n}`.
const MAX_COUNT: u32 = 1000;

/// Deepest nesting of groups.
const MAX_DEPTH: usize = 50;

/// Characters that every library reads literally after a backslash.
const ESCAPED: &str = ".*+?[]^$-:/,;#&~!%@=\"{}\\";

/// Why a pattern is refused, and what the operator writes instead.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PatternError {
    /// `!A`
    #[error("some gateways negate a pattern that begins with !; write the pattern without it")]
    Negated,
    /// `^`
    #[error("expected a pattern, not ^ alone")]
    OnlyCaret,
    /// `(A`
    #[error("pattern: a group is not closed")]
    OpenGroup,
    /// `A)`
    #[error("pattern: a ) without its (")]
    CloseGroup,
    /// `A^B`
    #[error("pattern: ^ is accepted at the beginning only")]
    CaretInside,
    /// `A$B`
    #[error("pattern: $ is accepted at the end only")]
    DollarInside,
    /// A character that isn't ASCII.
    #[error("pattern: some gateways read {0:?} as several characters; use ASCII")]
    NotAscii(char),
    /// `*A`, `A**`
    #[error(
        "pattern: a quantifier (*, +, ?, {{}}) with nothing before it, or behind another one, which gateways \
         read differently"
    )]
    Quantifier,
    /// `A{x}`
    #[error("pattern: expected {{m}}, {{m,}} or {{m,n}}, or \\{{ for the character")]
    Count,
    /// Too many groups within groups.
    #[error("pattern: groups are nested deeper than {MAX_DEPTH}")]
    Depth,
    /// `(?=A)`
    #[error("pattern: of the groups that begin with (? only (?: is accepted")]
    GroupKind,
    /// `\(`
    #[error(
        "\\{0} means a group to some gateways and the character to others; write groups as (A|B)"
    )]
    EscapedGroup(char),
    /// `\x`
    #[error(
        "pattern: \\{0} is read differently by gateways; write the character itself, or [A-Z] for a class"
    )]
    Escape(char),
    /// `A\`
    #[error("pattern: it ends with \\")]
    OpenEscape,
    /// `[A`
    #[error("pattern: a [ without its ]")]
    OpenClass,
    /// `[[:alpha:]]`
    #[error(
        "pattern: {0} in [] is read differently by gateways; list the characters or ranges (A-Z)"
    )]
    Class(String),
    /// `[Z-A]`
    #[error("pattern: expected a range of two characters in their order, as A-Z")]
    Range,
}

/// Refuses a pattern that gateways read in different ways, or not at all.
///
/// # Errors
/// What the operator should write instead, in one line.
pub(super) fn check(pattern: &str) -> Result<(), PatternError> {
    if pattern.starts_with('!') {
        return Err(PatternError::Negated);
    }
    let mut reader = Reader {
        chars: pattern.chars().peekable(),
        depth: 0,
        repeatable: false,
    };
    if reader.chars.next_if_eq(&'^').is_some() && reader.chars.peek().is_none() {
        return Err(PatternError::OnlyCaret);
    }
    while let Some(c) = reader.chars.next() {
        reader.item(c)?;
    }
    if reader.depth > 0 {
        return Err(PatternError::OpenGroup);
    }
    Ok(())
}

struct Reader<'a> {
    chars: Peekable<Chars<'a>>,
    depth: usize,
    /// Whether a quantifier may follow.
    repeatable: bool,
}

impl Reader<'_> {
    fn item(&mut self, c: char) -> Result<(), PatternError> {
        let repeatable = std::mem::replace(&mut self.repeatable, true);
        match c {
            '*' | '+' | '?' => return self.quantifier(repeatable),
            '{' => {
                self.count()?;
                return self.quantifier(repeatable);
            }
            '(' => {
                self.open()?;
                self.repeatable = false;
            }
            ')' => {
                let outside = self.depth.checked_sub(1);
                self.depth = outside.ok_or(PatternError::CloseGroup)?;
            }
            '|' => self.repeatable = false,
            '[' => self.class()?,
            '\\' => self.escaped()?,
            '^' => return Err(PatternError::CaretInside),
            '$' if self.chars.peek().is_some() => return Err(PatternError::DollarInside),
            c if !c.is_ascii() => return Err(PatternError::NotAscii(c)),
            _ => {}
        }
        Ok(())
    }

    fn quantifier(&mut self, repeatable: bool) -> Result<(), PatternError> {
        if !repeatable {
            return Err(PatternError::Quantifier);
        }
        self.repeatable = false;
        Ok(())
    }

    /// `{m}`, `{m,}` or `{m,n}`, behind its `{`.
    fn count(&mut self) -> Result<(), PatternError> {
        let mut text = String::new();
        loop {
            match self.chars.next() {
                Some('}') => break,
                Some(c) if c.is_ascii_digit() || c == ',' => text.push(c),
                _ => return Err(PatternError::Count),
            }
        }
        let number = |text: &str| text.parse::<u32>().ok().filter(|count| *count <= MAX_COUNT);
        let (low, high) = text.split_once(',').unwrap_or((&text, &text));
        let low = number(low).ok_or(PatternError::Count)?;
        match high {
            "" => Ok(()),
            high if number(high).is_some_and(|high| low <= high) => Ok(()),
            _ => Err(PatternError::Count),
        }
    }

    /// `(` or `(?:`, behind its `(`.
    fn open(&mut self) -> Result<(), PatternError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(PatternError::Depth);
        }
        if self.chars.next_if_eq(&'?').is_some() && self.chars.next() != Some(':') {
            return Err(PatternError::GroupKind);
        }
        Ok(())
    }

    fn escaped(&mut self) -> Result<(), PatternError> {
        match self.chars.next() {
            Some('w' | 'W' | 'd' | 'D' | 's' | 'S') => Ok(()),
            Some('b') => {
                self.repeatable = false;
                Ok(())
            }
            Some(c) if ESCAPED.contains(c) => Ok(()),
            Some(c @ ('(' | ')' | '|')) => Err(PatternError::EscapedGroup(c)),
            Some(c) => Err(PatternError::Escape(c)),
            None => Err(PatternError::OpenEscape),
        }
    }

    /// A class, behind its `[`.
    fn class(&mut self) -> Result<(), PatternError> {
        let different = |what: &str| Err(PatternError::Class(what.to_owned()));
        self.chars.next_if_eq(&'^');
        let mut is_first = true;
        loop {
            let Some(c) = self.chars.next() else {
                return Err(PatternError::OpenClass);
            };
            let is_literal = match c {
                ']' if !is_first => return Ok(()),
                '[' => return different("a second ["),
                '-' if !is_first && self.chars.peek() != Some(&']') => {
                    return different("a - that is neither first nor last nor in a range");
                }
                '\\' => match self.chars.next() {
                    Some('w' | 'W' | 'd' | 'D' | 's' | 'S') => false,
                    Some(c) if ESCAPED.contains(c) && c != ']' => false,
                    Some(c) => return different(&format!("\\{c}")),
                    None => return Err(PatternError::OpenEscape),
                },
                c if !c.is_ascii() => return different(&format!("{c:?}")),
                _ => true,
            };
            is_first = false;
            match (c, self.chars.peek()) {
                ('&' | '-' | '~' | '|', Some(next)) if *next == c => {
                    return different(&format!("{c}{c}"));
                }
                ('-', _) => {}
                (_, Some('-')) => self.range(is_literal.then_some(c))?,
                _ => {}
            }
        }
    }

    /// What follows a character of a class that has a `-` behind it.
    fn range(&mut self, low: Option<char>) -> Result<(), PatternError> {
        self.chars.next();
        let is_range = |high: &char| *high != ']';
        if !self.chars.peek().is_some_and(is_range) {
            // The `-` is the last one.
            return Ok(());
        }
        match (low, self.chars.next()) {
            (Some(low), Some(high))
                if high.is_ascii() && low <= high && !['[', '\\', '-'].contains(&high) =>
            {
                Ok(())
            }
            _ => Err(PatternError::Range),
        }
    }
}

/// The reason that the crate `regex` gives, in one line.
pub(super) fn regex_reason(error: &regex::Error) -> String {
    let reason = error.to_string();
    reason.lines().last().unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_that_every_gateway_reads_alike_are_accepted() {
        for pattern in [
            ".*",
            "SR:[A-Z]+:SET",
            "^SR.*$",
            r"SR:(A|B)\.DRV[HL]",
            "(?:A|BC)D?",
            r"\w+:\d{1,8}",
            "A{2}B{2,}",
            r"[^\w:.-]*",
            "[]x]",
            "[a-]",
            "[-a]",
            "[A-Za-z0-9_]",
            r"A\bB",
            "(|A)",
            "A]B}",
        ] {
            assert_eq!(check(pattern), Ok(()), "{pattern}");
        }
    }

    #[test]
    fn patterns_that_gateways_read_differently_are_refused() {
        for pattern in [
            "!A",
            r"\<A",
            r"A\>",
            "[a&&b]",
            "[a--b]",
            "[--b]",
            "[a~~b]",
            "[a||b]",
            "[[:alpha:]]",
            "[a[b]]",
            r"[a\]b]",
            r"[\<]",
            "[a-z-9]",
            r"[\w-z]",
            "[z-a]",
            "[a",
            "[é]",
            "é",
            ".*+",
            "A**",
            "A+?",
            "A{2}{3}",
            "*A",
            "(*A)",
            "A|*",
            "A{,3}",
            "A{",
            "A{x}",
            "A{3,2}",
            "A{9999}",
            "(?i)A",
            "(?=A)",
            "(?P<a>A)",
            "(A",
            "A)",
            "A^B",
            "A$B",
            "^*",
            "^",
            "A$|B",
            r"A\",
            r"\x41",
            r"(A)\1",
            r"\QA\E",
            r"\A",
            r"\B",
            r"\z",
            r"\'",
            r"\b*",
        ] {
            let why = check(pattern).expect_err(pattern).to_string();
            assert_eq!(why.lines().count(), 1, "{pattern}: {why}");
        }
    }
}
