//! Which PVs does a gateway's list of PVs (`.pvlist`) serve, and in which access security group?

use regex::{Regex, RegexBuilder, RegexSet, RegexSetBuilder};

use super::name::Names;
use super::own::regex_reason;
use super::{MAX_REGEX_BYTES, pattern};

/// Most memory that all patterns of a list together may take when they are compiled.
const MAX_SET_BYTES: usize = 16 << 20;

/// Group of a PV for which the list names none.
pub(super) const DEFAULT_GROUP: &str = "DEFAULT";

/// Level of a PV for which the list names none: only rules of level 1 are for it.
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
    /// Where the PVs are that it allows; none when it denies them.
    place: Option<Place>,
}

/// Where access security finds a PV.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) group: String,
    pub(super) level: u8,
}

impl PvList {
    /// Reads the text of the file at `path`, which is named in what is said.
    ///
    /// # Errors
    /// File, line and what the operator is to do, when a line makes no sense or says what a relay
    /// can't do.
    pub fn parse(path: &str, text: &str) -> Result<Self, String> {
        let mut list = Self {
            path: path.to_owned(),
            patterns: RegexSet::empty(),
            lines: Vec::new(),
        };
        let mut patterns = Vec::new();
        // Not `lines`: a carriage return within a line ends it for some gateways.
        for (number, line) in (1..).zip(text.split('\n')) {
            let wrong = |why: String| format!("{path}:{number}: {why}");
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
            pattern::check(pattern).map_err(wrong)?;
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

    /// All patterns as one, so that a name is looked at once, however many there are.
    fn compile(&self, patterns: &[String]) -> Result<RegexSet, String> {
        let whole = RegexSetBuilder::new(patterns)
            .size_limit(MAX_SET_BYTES)
            .build();
        whole.map_err(|error| {
            for (line, pattern) in self.lines.iter().zip(patterns) {
                if let Err(error) = one(pattern) {
                    let reason = regex_reason(&error);
                    return format!("{}:{}: pattern: {reason}", self.path, line.number);
                }
            }
            format!("{}: all its patterns: {}", self.path, regex_reason(&error))
        })
    }

    /// Where a PV is, and the line that puts it there; or why it isn't served.
    pub(super) fn find(&self, pv: &Names<'_>) -> Result<(&Place, String), String> {
        let is_plain = |byte: u8| byte == b' ' || byte.is_ascii_graphic();
        if !pv.name.bytes().all(is_plain) {
            let path = &self.path;
            return Err(format!(
                "{path}: of other characters than printable ASCII gateways make different things, so \
                 the list serves no name that has them"
            ));
        }
        let fits = |name: &str| self.patterns.matches(name).into_iter();
        // What is denied of a record is denied of its fields.
        let denied = pv.with_owners().flat_map(|name| fits(&name));
        let denied = denied.filter(|&at| self.lines[at].place.is_none()).min();
        if let Some(at) = denied {
            return Err(self.says(at));
        }
        // General lines come first in such a file and special ones later.
        let mut places = fits(&pv.name).filter_map(|at| Some((self.lines[at].place.as_ref()?, at)));
        let Some((place, at)) = places.next_back() else {
            return Err(format!("{}: no line allows it", self.path));
        };
        Ok((place, self.says(at)))
    }

    fn says(&self, at: usize) -> String {
        let line = &self.lines[at];
        format!("{}:{} ({})", self.path, line.number, line.text)
    }

    /// The groups that PVs are in, each with the first line that puts some there.
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

/// A line up to its comment. Outside comments it holds printable ASCII, blanks and tabs only: what
/// else separates words or lines differs between gateways.
fn without_comment(line: &str) -> Result<&str, String> {
    let line = line.strip_suffix('\r').unwrap_or(line);
    let ends_line = |c: char| (c.is_control() && c != '\t') || "\u{2028}\u{2029}".contains(c);
    let (rule, has_comment) = match line.find('#') {
        Some(at) => (&line[..at], true),
        None => (line, false),
    };
    let strange = line.chars().find(|&c| ends_line(c));
    if let Some(c) = strange.or_else(|| rule.chars().find(|c| !c.is_ascii())) {
        return Err(format!(
            "gateways read {c:?} differently; outside comments use printable ASCII, blanks and tabs"
        ));
    }
    if has_comment && rule.ends_with(|c: char| !c.is_ascii_whitespace()) {
        return Err(
            "to some gateways a # within a word is part of it; put a blank before the comment"
                .into(),
        );
    }
    Ok(rule.trim_ascii())
}

/// Checks the words behind `EVALUATION ORDER`.
fn check_order(words: &[&str]) -> Result<(), String> {
    let words = words.join(" ").to_ascii_uppercase();
    let words: Vec<_> = words
        .split([',', ' '])
        .filter(|word| !word.is_empty())
        .collect();
    match words[..] {
        ["ALLOW", "DENY"] => Ok(()),
        ["DENY", "ALLOW"] => Err(
            "gateways of pvAccess pass over EVALUATION ORDER DENY, ALLOW, those of Channel Access let \
             ALLOW win; write ALLOW, DENY, and make the DENY patterns narrower"
                .into(),
        ),
        _ => Err("expected EVALUATION ORDER ALLOW, DENY".into()),
    }
}

/// Where the PVs of a line are, by its command and the words behind it.
fn place(command: &str, words: &[&str]) -> Result<Option<Place>, String> {
    let (group, level) = match (command, words) {
        ("DENY", []) => return Ok(None),
        ("DENY", _) => {
            return Err(
                "DENY FROM names hosts, and a relay doesn't know on which host its user sits; \
                 leave the line out of the relay's list, or deny the PVs to all"
                    .into(),
            );
        }
        ("ALIAS", _) => {
            return Err(
                "ALIAS: a relay can't give PVs other names; leave the line out and let clients \
                 use the real name, or run a gateway between the relay and the IOC"
                    .into(),
            );
        }
        ("ALLOW" | "PATTERN" | "PV", []) => (DEFAULT_GROUP, DEFAULT_LEVEL),
        ("ALLOW" | "PATTERN" | "PV", [group]) => (*group, DEFAULT_LEVEL),
        ("ALLOW" | "PATTERN" | "PV", [group, "0"]) => (*group, 0),
        ("ALLOW" | "PATTERN" | "PV", [group, "1"]) => (*group, 1),
        ("ALLOW" | "PATTERN" | "PV", _) => {
            return Err("expected a group and a level of 0 or 1 behind ALLOW, and no more".into());
        }
        _ => {
            return Err(
                "expected ALLOW or DENY behind the pattern, or EVALUATION ORDER ALLOW, DENY".into(),
            );
        }
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

    fn find(list: &PvList, scheme: &str, name: &str) -> Result<(String, u8, String), String> {
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
    fn last_line_that_allows_a_pv_says_where_it_is_and_any_that_denies_it_wins() {
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
                Err("site.pvlist:7 (SR:SECRET:.* DENY)".into()),
            ),
        ] {
            assert_eq!(find(&list, "ca", name), expected, "{name}");
            assert_eq!(find(&list, "pva", name), expected, "{name}");
        }
    }

    #[test]
    fn pv_that_no_line_names_is_not_served() {
        let list = list("SR:.* ALLOW\n");
        let no = Err("site.pvlist: no line allows it".to_owned());
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
            let denied = find(&list, scheme, name).unwrap_err();
            assert_eq!(denied, "site.pvlist:2 (SECRET DENY)", "{name}");
        }
        assert!(find(&list, "ca", "SECRETS").is_ok());
    }

    #[test]
    fn denying_wins_whatever_the_order_of_the_lines() {
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
    fn name_with_other_characters_than_printable_ascii_is_not_served() {
        let list = list(".* ALLOW");
        assert!(find(&list, "ca", "A B").is_ok());
        for name in ["A\n", "A\u{7f}", "\u{e9}", "A\u{301}", "\u{660}"] {
            assert!(find(&list, "pva", name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn comments_may_hold_anything_but_what_ends_a_line() {
        for text in ["# Gr\u{fc}\u{df}e\r\n.* ALLOW\r\n", ".* ALLOW # \u{fc}\n"] {
            assert!(PvList::parse("site.pvlist", text).is_ok(), "{text:?}");
        }
    }

    #[test]
    fn what_a_relay_cannot_do_or_nobody_understands_is_refused_with_its_line() {
        for (line, part) in [
            ("A DENY FROM host1 host2", "DENY FROM names hosts"),
            ("A DENY host1", "DENY FROM names hosts"),
            (r"A\(.*\) ALIAS B\1", "can't give PVs other names"),
            (r"A\(B\|C\) DENY", "write groups as (A|B)"),
            ("!A.* DENY", "means its opposite"),
            ("A", "expected ALLOW or DENY"),
            ("A PERMIT", "expected ALLOW or DENY"),
            ("A ALLOW G 2", "a level of 0 or 1"),
            ("A ALLOW G 1 1", "and no more"),
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
            let error = PvList::parse("site.pvlist", &format!(".* ALLOW\n{line}\n")).unwrap_err();
            assert!(error.starts_with("site.pvlist:2: "), "{error}");
            assert!(error.contains(part), "{error}");
            assert_eq!(error.lines().count(), 1, "{error}");
        }
    }
}
