//! Checks that a pattern of a `.pvlist` means the same to every gateway and to the relay.
//!
//! The gateways read patterns by different libraries: Python's `re` (pvAccess), PCRE or GNU regex
//! (Channel Access). Only what these and the relay's library match alike is accepted. Names are
//! printable ASCII, so character classes mean the same to all of them.

use std::iter::Peekable;
use std::str::Chars;

/// Largest count in `{m,n}`.
const MAX_COUNT: u32 = 1000;

/// Deepest nesting of groups.
const MAX_DEPTH: usize = 50;

/// Characters that stand for themselves behind a backslash, in every library.
const ESCAPED: &str = ".*+?[]^$-:/,;#&~!%@=\"{}\\";

/// Refuses a pattern that gateways read in different ways, or not at all.
///
/// # Errors
/// What the operator should write instead, in one line.
pub(super) fn check(pattern: &str) -> Result<(), String> {
    if pattern.starts_with('!') {
        return Err(
            "to some gateways a pattern that begins with ! means its opposite; \
             write what is meant without it"
                .into(),
        );
    }
    let mut reader = Reader {
        chars: pattern.chars().peekable(),
        depth: 0,
        repeatable: false,
    };
    if reader.chars.next_if_eq(&'^').is_some() && reader.chars.peek().is_none() {
        return Err("expected a pattern, not ^ alone".into());
    }
    while let Some(c) = reader.chars.next() {
        reader.item(c)?;
    }
    if reader.depth > 0 {
        return Err("pattern: a group is not closed".into());
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
    fn item(&mut self, c: char) -> Result<(), String> {
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
                self.depth = self
                    .depth
                    .checked_sub(1)
                    .ok_or("pattern: a ) without its (")?;
            }
            '|' => self.repeatable = false,
            '[' => self.class()?,
            '\\' => self.escaped()?,
            '^' => return Err("pattern: ^ is accepted at the beginning only".into()),
            '$' if self.chars.peek().is_some() => {
                return Err("pattern: $ is accepted at the end only".into());
            }
            c if !c.is_ascii() => {
                return Err(format!(
                    "pattern: some gateways read {c:?} as several characters; use ASCII"
                ));
            }
            _ => {}
        }
        Ok(())
    }

    fn quantifier(&mut self, repeatable: bool) -> Result<(), String> {
        if !repeatable {
            return Err(
                "pattern: a quantifier (*, +, ?, {}) with nothing before it, or behind another one, \
                 which gateways read differently"
                    .into(),
            );
        }
        self.repeatable = false;
        Ok(())
    }

    /// `{m}`, `{m,}` or `{m,n}`, behind its `{`.
    fn count(&mut self) -> Result<(), String> {
        let wrong = || "pattern: expected {m}, {m,} or {m,n}, or \\{ for the character".to_owned();
        let mut text = String::new();
        loop {
            match self.chars.next() {
                Some('}') => break,
                Some(c) if c.is_ascii_digit() || c == ',' => text.push(c),
                _ => return Err(wrong()),
            }
        }
        let number = |text: &str| text.parse::<u32>().ok().filter(|count| *count <= MAX_COUNT);
        let (low, high) = text.split_once(',').unwrap_or((&text, &text));
        let low = number(low).ok_or_else(wrong)?;
        match high {
            "" => Ok(()),
            high if number(high).is_some_and(|high| low <= high) => Ok(()),
            _ => Err(wrong()),
        }
    }

    /// `(` or `(?:`, behind its `(`.
    fn open(&mut self) -> Result<(), String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(format!(
                "pattern: groups are nested deeper than {MAX_DEPTH}"
            ));
        }
        if self.chars.next_if_eq(&'?').is_some() && self.chars.next() != Some(':') {
            return Err("pattern: of the groups that begin with (? only (?: is accepted".into());
        }
        Ok(())
    }

    fn escaped(&mut self) -> Result<(), String> {
        match self.chars.next() {
            Some('w' | 'W' | 'd' | 'D' | 's' | 'S') => Ok(()),
            Some('b') => {
                self.repeatable = false;
                Ok(())
            }
            Some(c) if ESCAPED.contains(c) => Ok(()),
            Some(c @ ('(' | ')' | '|')) => Err(format!(
                "\\{c} means a group to some gateways and the character to others; \
                 write groups as (A|B)"
            )),
            Some(c) => Err(format!(
                "pattern: \\{c} is read differently by gateways; write the character itself, \
                 or [A-Z] for a class"
            )),
            None => Err("pattern: it ends with \\".into()),
        }
    }

    /// A class, behind its `[`.
    fn class(&mut self) -> Result<(), String> {
        let different = |what: &str| {
            Err(format!(
                "pattern: {what} in [] is read differently by gateways; list the characters or \
                 ranges (A-Z)"
            ))
        };
        self.chars.next_if_eq(&'^');
        let mut is_first = true;
        loop {
            let Some(c) = self.chars.next() else {
                return Err("pattern: a [ without its ]".into());
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
                    None => return Err("pattern: it ends with \\".into()),
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
    fn range(&mut self, low: Option<char>) -> Result<(), String> {
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
            _ => Err("pattern: expected a range of two characters in their order, as A-Z".into()),
        }
    }
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
            let why = check(pattern).expect_err(pattern);
            assert_eq!(why.lines().count(), 1, "{pattern}: {why}");
        }
    }
}
