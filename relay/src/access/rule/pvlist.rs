//! A gateway's list of PVs (`.pvlist`): the PVs that are served, each with its access security
//! group.

use regex::{Regex, RegexBuilder, RegexSet, RegexSetBuilder};
use thiserror::Error;

use super::MAX_REGEX_BYTES;
use super::name::Names;
use super::pattern::{self, PatternError, regex_reason};

/// Memory limit of all compiled patterns of a list together.
const MAX_SET_BYTES: usize = 16 << 20;

/// Group of a PV whose line names no group.
pub(super) const DEFAULT_GROUP: &str = "DEFAULT";

/// Level of a PV whose line names no level: only rules of level 1 apply to it.
pub(super) const DEFAULT_LEVEL: u8 = 1;

/// A list of PVs, in the syntax of the gateways of Channel Access and pvAccess.
#[derive(Clone, Debug)]
pub struct PvList {
    path: String,
    patterns: RegexSet,
    lines: Vec<Line>,
}

#[derive(Clone, Debug)]
struct Line {
    number: usize,
    text: String,
    /// Group and level of the PVs that it allows; `None` for DENY.
    place: Option<Place>,
}

/// Access security group and level of a PV.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) group: String,
    pub(super) level: u8,
}

/// A list can't be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PvListError {
    /// A line can't be used.
    #[error("{path}:{line}: {cause}")]
    Line {
        /// The file.
        path: String,
        /// The line, from 1.
        line: usize,
        /// Why.
        cause: LineError,
    },
    /// The patterns take too much memory together.
    #[error("{path}: all its patterns: {reason}")]
    Patterns {
        /// The file.
        path: String,
        /// Why.
        reason: String,
    },
}

/// Why a line can't be used, and what the operator writes instead.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LineError {
    /// A character that ends a line or separates words for some gateways.
    #[error(
        "gateways read {0:?} differently; outside comments use printable ASCII, blanks and tabs"
    )]
    Character(char),
    /// `A ALLOW G#comment`
    #[error("to some gateways a # within a word is part of it; put a blank before the comment")]
    Comment,
    /// `EVALUATION ORDER DENY, ALLOW`
    #[error(
        "gateways of pvAccess ignore EVALUATION ORDER DENY, ALLOW; those of Channel Access let ALLOW win; \
         write ALLOW, DENY, and make the DENY patterns narrower"
    )]
    DenyFirst,
    /// Another order.
    #[error("expected EVALUATION ORDER ALLOW, DENY")]
    Order,
    /// `A DENY FROM host`
    #[error(
        "DENY FROM names hosts, and the relay doesn't know its users' hosts; remove the line from the relay's \
         list, or deny the PVs to everybody"
    )]
    DenyFrom,
    /// `A ALIAS B`
    #[error(
        "ALIAS: the relay can't rename PVs; remove the line and let clients use the real name, or run a \
         gateway between the relay and the IOC"
    )]
    Alias,
    /// Words behind ALLOW.
    #[error("expected at most a group and a level of 0 or 1 after ALLOW")]
    Group,
    /// Another command.
    #[error("expected ALLOW or DENY after the pattern, or EVALUATION ORDER ALLOW, DENY")]
    Command,
    /// A pattern that gateways read differently.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// A pattern that can't be compiled.
    #[error("pattern: {0}")]
    Regex(String),
}

/// Why the list doesn't serve a PV.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(super) enum NotServed {
    /// Gateways treat such names differently.
    #[error(
        "{0}: gateways treat names with characters other than printable ASCII differently, so the list serves \
         none of them"
    )]
    Characters(String),
    /// By this line.
    #[error("{0}")]
    Denied(String),
    /// In this file.
    #[error("{0}: no line allows it")]
    NotListed(String),
}

impl PvList {
    /// Reads the text of the file at `path`; errors name the path.
    ///
    /// # Errors
    /// When a line can't be read, or asks for something that the relay can't do.
    pub fn parse(path: &str, text: &str) -> Result<Self, PvListError> {
        let mut list = Self {
            path: path.to_owned(),
            patterns: RegexSet::empty(),
            lines: Vec::new(),
        };
        let mut patterns = Vec::new();
        // Not `lines`: for some gateways a carriage return ends a line.
        for (number, line) in (1..).zip(text.split('\n')) {
            let wrong = |cause: LineError| PvListError::Line {
                path: path.to_owned(),
                line: number,
                cause,
            };
            let line = without_comment(line).map_err(wrong)?;
            let mut words = line.split_whitespace();
            let Some(pattern) = words.next() else {
                continue;
            };
            let command = words.next().unwrap_or_default().to_ascii_uppercase();
            let rest: Vec<_> = words.collect();
            if pattern.eq_ignore_ascii_case("EVALUATION") && command == "ORDER" {
                check_order(&rest).map_err(wrong)?;
                continue;
            }
            let place = place(&command, &rest).map_err(wrong)?;
            pattern::check(pattern).map_err(|error| wrong(error.into()))?;
            patterns.push(anchored(pattern));
            list.lines.push(Line {
                number,
                text: line.split_whitespace().collect::<Vec<_>>().join(" "),
                place,
            });
        }
        list.patterns = list.compile(&patterns)?;
        Ok(list)
    }

    /// All patterns as one set, so that a name is matched in one pass.
    fn compile(&self, patterns: &[String]) -> Result<RegexSet, PvListError> {
        let whole = RegexSetBuilder::new(patterns)
            .size_limit(MAX_SET_BYTES)
            .build();
        whole.map_err(|error| {
            let path = self.path.clone();
            for (line, pattern) in self.lines.iter().zip(patterns) {
                if let Err(error) = one(pattern) {
                    return PvListError::Line {
                        path,
                        line: line.number,
                        cause: LineError::Regex(regex_reason(&error)),
                    };
                }
            }
            PvListError::Patterns {
                path,
                reason: regex_reason(&error),
            }
        })
    }

    /// Group and level of a PV, and the line that assigns them.
    ///
    /// # Errors
    /// When the PV isn't served.
    pub(super) fn find(&self, pv: &Names<'_>) -> Result<(&Place, String), NotServed> {
        let is_plain = |byte: u8| byte == b' ' || byte.is_ascii_graphic();
        if !pv.plain.bytes().all(is_plain) {
            return Err(NotServed::Characters(self.path.clone()));
        }
        let fits = |name: &str| self.patterns.matches(name).into_iter();
        // A denied record is denied with its fields.
        let denied = pv.with_owners().flat_map(|name| fits(&name));
        let denied = denied.filter(|&at| self.lines[at].place.is_none()).min();
        if let Some(at) = denied {
            return Err(NotServed::Denied(self.says(at)));
        }
        // General lines come first in such a file and special ones later.
        let mut places =
            fits(&pv.plain).filter_map(|at| Some((self.lines[at].place.as_ref()?, at)));
        let Some((place, at)) = places.next_back() else {
            return Err(NotServed::NotListed(self.path.clone()));
        };
        Ok((place, self.says(at)))
    }

    fn says(&self, at: usize) -> String {
        let line = &self.lines[at];
        format!("{}:{} ({})", self.path, line.number, line.text)
    }

    /// The groups of the listed PVs, each with the first line that names it.
    pub(super) fn groups(&self) -> Vec<(&str, String)> {
        let mut groups = Vec::<(&str, String)>::new();
        for (at, line) in self.lines.iter().enumerate() {
            if let Some(place) = &line.place
                && groups.iter().all(|(group, _)| *group != place.group)
            {
                groups.push((&place.group, self.says(at)));
            }
        }
        groups
    }
}

/// A line up to its comment. Outside comments only printable ASCII, blanks and tabs are accepted:
/// gateways disagree about which other characters separate words or lines.
fn without_comment(line: &str) -> Result<&str, LineError> {
    let line = line.strip_suffix('\r').unwrap_or(line);
    let ends_line = |c: char| (c.is_control() && c != '\t') || "\u{2028}\u{2029}".contains(c);
    let (rule, has_comment) = match line.find('#') {
        Some(at) => (&line[..at], true),
        None => (line, false),
    };
    let strange = line.chars().find(|&c| ends_line(c));
    if let Some(c) = strange.or_else(|| rule.chars().find(|c| !c.is_ascii())) {
        return Err(LineError::Character(c));
    }
    if has_comment && rule.ends_with(|c: char| !c.is_ascii_whitespace()) {
        return Err(LineError::Comment);
    }
    Ok(rule.trim_ascii())
}

/// Checks the words behind `EVALUATION ORDER`.
fn check_order(words: &[&str]) -> Result<(), LineError> {
    let words = words.join(" ").to_ascii_uppercase();
    let words: Vec<_> = words
        .split([',', ' '])
        .filter(|word| !word.is_empty())
        .collect();
    match words[..] {
        ["ALLOW", "DENY"] => Ok(()),
        ["DENY", "ALLOW"] => Err(LineError::DenyFirst),
        _ => Err(LineError::Order),
    }
}

/// Group and level of a line, by its command and the words behind it; `None` for DENY.
fn place(command: &str, words: &[&str]) -> Result<Option<Place>, LineError> {
    let (group, level) = match (command, words) {
        ("DENY", []) => return Ok(None),
        ("DENY", _) => return Err(LineError::DenyFrom),
        ("ALIAS", _) => return Err(LineError::Alias),
        ("ALLOW" | "PATTERN" | "PV", []) => (DEFAULT_GROUP, DEFAULT_LEVEL),
        ("ALLOW" | "PATTERN" | "PV", [group]) => (*group, DEFAULT_LEVEL),
        ("ALLOW" | "PATTERN" | "PV", [group, "0"]) => (*group, 0),
        ("ALLOW" | "PATTERN" | "PV", [group, "1"]) => (*group, 1),
        ("ALLOW" | "PATTERN" | "PV", _) => return Err(LineError::Group),
        _ => return Err(LineError::Command),
    };
    let group = group.to_owned();
    Ok(Some(Place { group, level }))
}

fn anchored(pattern: &str) -> String {
    format!("^(?:{pattern})$")
}

fn one(pattern: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(pattern)
        .size_limit(MAX_REGEX_BYTES)
        .build()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> PvList {
        PvList::parse("site.pvlist", text).unwrap()
    }

    fn find(list: &PvList, scheme: &str, name: &str) -> Result<(String, u8, String), NotServed> {
        let found = list.find(&Names::new(scheme, name));
        found.map(|(place, why)| (place.group.clone(), place.level, why))
    }

    const LIST: &str = "\
        # what the beamlines may see\n\
        EVALUATION ORDER ALLOW, DENY\n\
        .*            ALLOW\n\
        \n\
        SR:[A-Z]+:SET ALLOW  Setpoints 1   # written by few\n\
        SR:B1:SET     allow  Setpoints 0\n\
        SR:SECRET:.*  DENY\n";

    #[test]
    fn last_allowing_line_gives_the_group_and_any_denial_wins() {
        let list = list(LIST);
        let found = |group: &str, level, why: &str| Ok((group.into(), level, why.into()));
        for (name, expected) in [
            ("X", found("DEFAULT", 1, "site.pvlist:3 (.* ALLOW)")),
            (
                "SR:A:SET",
                found(
                    "Setpoints",
                    1,
                    "site.pvlist:5 (SR:[A-Z]+:SET ALLOW Setpoints 1)",
                ),
            ),
            (
                "SR:B1:SET",
                found(
                    "Setpoints",
                    0,
                    "site.pvlist:6 (SR:B1:SET allow Setpoints 0)",
                ),
            ),
            // Anchored at both ends.
            ("XSR:A:SET", found("DEFAULT", 1, "site.pvlist:3 (.* ALLOW)")),
            ("SR:A:SETX", found("DEFAULT", 1, "site.pvlist:3 (.* ALLOW)")),
            (
                "SR:SECRET:1",
                Err(NotServed::Denied(
                    "site.pvlist:7 (SR:SECRET:.* DENY)".into(),
                )),
            ),
        ] {
            assert_eq!(find(&list, "ca", name), expected, "{name}");
            assert_eq!(find(&list, "pva", name), expected, "{name}");
        }
    }

    #[test]
    fn pv_that_no_line_names_is_not_served() {
        let list = list("SR:.* ALLOW\n");
        let no = Err(NotServed::NotListed("site.pvlist".into()));
        assert_eq!(find(&list, "ca", "LI:X"), no);
        assert_eq!(find(&self::list("# nothing\n"), "ca", "X"), no);
    }

    #[test]
    fn denied_record_is_denied_with_its_fields() {
        let list = list(".* ALLOW\nSECRET DENY");
        for (scheme, name) in [
            ("ca", "SECRET"),
            ("ca", "SECRET.DESC"),
            ("pva", "SECRET/value"),
            ("pva", "SECRET.DESC/alarm/status"),
        ] {
            let denied = find(&list, scheme, name).unwrap_err().to_string();
            assert_eq!(denied, "site.pvlist:2 (SECRET DENY)", "{name}");
        }
        assert!(find(&list, "ca", "SECRETS").is_ok());
    }

    #[test]
    fn denial_wins_in_any_order_of_lines() {
        for order in [
            "EVALUATION ORDER ALLOW,DENY",
            "evaluation order allow, deny",
            "",
        ] {
            for lines in ["A.* DENY\nAB ALLOW", "AB ALLOW\nA.* DENY"] {
                let list = list(&format!("{order}\n{lines}"));
                assert!(find(&list, "ca", "AB").is_err(), "{order} {lines}");
            }
        }
    }

    #[test]
    fn name_that_is_not_printable_ascii_is_not_served() {
        let list = list(".* ALLOW");
        assert!(find(&list, "ca", "A B").is_ok());
        for name in ["A\n", "A\u{7f}", "\u{e9}", "A\u{301}", "\u{660}"] {
            assert!(find(&list, "pva", name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn comments_may_hold_anything_but_line_ends() {
        for text in ["# Gr\u{fc}\u{df}e\r\n.* ALLOW\r\n", ".* ALLOW # \u{fc}\n"] {
            assert!(PvList::parse("site.pvlist", text).is_ok(), "{text:?}");
        }
    }

    #[test]
    fn unsupported_or_invalid_line_is_refused_by_number() {
        for (line, part) in [
            ("A DENY FROM host1 host2", "DENY FROM names hosts"),
            ("A DENY host1", "DENY FROM names hosts"),
            (r"A\(.*\) ALIAS B\1", "can't rename PVs"),
            (r"A\(B\|C\) DENY", "write groups as (A|B)"),
            ("!A.* DENY", "negate a pattern"),
            ("A", "expected ALLOW or DENY"),
            ("A PERMIT", "expected ALLOW or DENY"),
            ("A ALLOW G 2", "a level of 0 or 1"),
            ("A ALLOW G 1 1", "at most a group"),
            ("EVALUATION ORDER ALLOW", "expected EVALUATION ORDER"),
            ("EVALUATION ORDER DENY, ALLOW", "write ALLOW, DENY"),
            ("evaluation order deny,allow", "write ALLOW, DENY"),
            (".*+ DENY", "behind another one"),
            ("A ALLOW G#x", "put a blank before the comment"),
            ("A ALLOW\rB DENY", "gateways read '\\r' differently"),
            ("# x\u{2028}B DENY", "gateways read"),
            ("A\u{a0}ALLOW", "gateways read"),
            ("\u{feff}A ALLOW", "gateways read"),
            ("\u{e9} ALLOW", "gateways read"),
            ("A( ALLOW", "pattern: "),
            ("(?=A) ALLOW", "pattern: "),
            (r"(A)\1 DENY", "pattern: "),
            ("(a{1000}){1000} ALLOW", "pattern: "),
        ] {
            let error = PvList::parse("site.pvlist", &format!(".* ALLOW\n{line}\n"));
            let error = error.unwrap_err().to_string();
            assert!(error.starts_with("site.pvlist:2: "), "{error}");
            assert!(error.contains(part), "{error}");
            assert_eq!(error.lines().count(), 1, "{error}");
        }
    }
}
