//! Who may read and write which PVs, and which rule says so?

use std::fmt;

use regex::Regex;
use wildmatch::WildMatch;

use crate::config::{Access, RuleText};

/// Most memory that a rule's regular expression may take when it is compiled.
const MAX_REGEX_BYTES: usize = 1 << 20;

/// Who asks, as far as the relay knows. Without a user: anybody.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Person {
    /// Name, as the relay's operator knows it.
    pub user: Option<String>,
    /// Groups.
    pub groups: Vec<String>,
}

impl fmt::Display for Person {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.user {
            Some(user) => write!(formatter, "user {user:?}"),
            None => formatter.write_str("somebody without a name"),
        }
    }
}

/// One rule, ready for use.
#[derive(Clone, Debug)]
struct Rule {
    /// Where it stands and what it says, for people.
    text: String,
    users: Vec<String>,
    groups: Vec<String>,
    patterns: Vec<Pattern>,
    /// What it says of each access that it speaks of.
    verdicts: Vec<(Access, bool)>,
}

#[derive(Clone, Debug)]
enum Pattern {
    Glob(WildMatch),
    Regex(Regex),
}

impl Pattern {
    fn fits(&self, name: &str) -> bool {
        match self {
            Self::Glob(glob) => glob.matches(name),
            Self::Regex(regex) => regex.is_match(name),
        }
    }
}

impl Rule {
    fn new(text: &RuleText) -> Result<Self, String> {
        let globs = text
            .pvs
            .iter()
            .map(|glob| Pattern::Glob(WildMatch::new(glob)));
        let mut patterns: Vec<_> = globs.collect();
        for expression in &text.regexes {
            // Anchored: `SR:.*` must not fit `XSR:A`.
            let regex = regex::RegexBuilder::new(&format!("^(?:{expression})$"))
                .size_limit(MAX_REGEX_BYTES)
                .build()
                .map_err(|error| {
                    let reason = error.to_string();
                    let reason = reason.lines().last().unwrap_or_default().trim().to_owned();
                    format!("{}: pv_regex {expression:?}: {reason}", text.origin)
                })?;
            patterns.push(Pattern::Regex(regex));
        }
        let allows = text.allow.iter().map(|access| (*access, true));
        let denies = text.deny.iter().map(|access| (*access, false));
        Ok(Self {
            text: format!("{} ({text})", text.origin),
            users: text.users.clone(),
            groups: text.groups.clone(),
            patterns,
            verdicts: allows.chain(denies).collect(),
        })
    }

    /// Whether it is for everybody.
    fn is_for_all(&self) -> bool {
        self.users.is_empty() && self.groups.is_empty()
    }

    fn is_for(&self, person: &Person) -> bool {
        let named = |user: &String| self.users.iter().any(|known| known == "*" || known == user);
        let in_group = |group: &String| self.groups.contains(group);
        self.is_for_all()
            || person.user.as_ref().is_some_and(named)
            || person.groups.iter().any(in_group)
    }

    /// What it says of an access to a PV, whoever asks.
    fn says(&self, pv: &Names<'_>, access: Access) -> Option<bool> {
        let (_, allowed) = *self.verdicts.iter().find(|(of, _)| *of == access)?;
        let fits = |name: &str| self.patterns.iter().any(|pattern| pattern.fits(name));
        let exact = fits(pv.name) || fits(&pv.whole);
        // What is denied of a record is denied of its fields.
        let record = || !allowed && (fits(pv.record) || fits(&pv.whole_record));
        (exact || record()).then_some(allowed)
    }
}

/// What a PV may be called by a rule.
struct Names<'a> {
    name: &'a str,
    whole: String,
    record: &'a str,
    whole_record: String,
}

impl<'a> Names<'a> {
    fn new(scheme: &str, name: &'a str) -> Self {
        let record = name.split('.').next().unwrap_or(name);
        Self {
            name,
            whole: format!("{scheme}://{name}"),
            record,
            whole_record: format!("{scheme}://{record}"),
        }
    }
}

/// Whether something is allowed, and who says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict<'a> {
    /// Whether it is.
    pub allowed: bool,
    /// The rule, or what holds without one.
    pub because: &'a str,
}

const READS_DEFAULT: &str = "no rule fits; reading is allowed then";
const PUTS_DEFAULT: &str = "no rule of this relay allows it (allow_put or [[rule]])";
const PUTS_OFF: &str = "this relay takes no puts (enable_put is off)";

/// What the operator allows: the first rule that fits says it. Where none fits everybody may read
/// and nobody may write.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    puts: bool,
    rules: Vec<Rule>,
}

impl Rules {
    /// These rules; no puts at all unless `puts`.
    ///
    /// # Errors
    /// When a rule's expression is none.
    pub fn new(puts: bool, rules: &[RuleText]) -> Result<Self, String> {
        let rules = rules.iter().map(Rule::new).collect::<Result<_, _>>()?;
        Ok(Self { puts, rules })
    }

    /// Whether somebody may read or write `scheme://name`.
    #[must_use]
    pub fn judge(&self, person: &Person, scheme: &str, name: &str, access: Access) -> Verdict<'_> {
        if access == Access::Put && !self.puts {
            let (allowed, because) = (false, PUTS_OFF);
            return Verdict { allowed, because };
        }
        if !self.rules.is_empty() {
            let names = Names::new(scheme, name);
            for rule in self.rules.iter().filter(|rule| rule.is_for(person)) {
                if let Some(allowed) = rule.says(&names, access) {
                    let because = &rule.text;
                    return Verdict { allowed, because };
                }
            }
        }
        match access {
            Access::Read => Verdict {
                allowed: true,
                because: READS_DEFAULT,
            },
            Access::Put => Verdict {
                allowed: false,
                because: PUTS_DEFAULT,
            },
        }
    }

    /// Whether there is anybody who may write `scheme://name`.
    #[must_use]
    pub fn takes_puts(&self, scheme: &str, name: &str) -> bool {
        if !self.puts || self.rules.is_empty() {
            return false;
        }
        let names = Names::new(scheme, name);
        for rule in &self.rules {
            match rule.says(&names, Access::Put) {
                Some(true) => return true,
                Some(false) if rule.is_for_all() => return false,
                Some(false) | None => {}
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(users: &[&str], groups: &[&str], pv: &str) -> RuleText {
        let owned = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
        RuleText {
            origin: "a rule".into(),
            users: owned(users),
            groups: owned(groups),
            pvs: vec![pv.to_owned()],
            ..RuleText::default()
        }
    }

    fn allow(access: Access, rule: RuleText) -> RuleText {
        let allow = vec![access];
        RuleText { allow, ..rule }
    }

    fn deny(access: Access, rule: RuleText) -> RuleText {
        let deny = vec![access];
        RuleText { deny, ..rule }
    }

    fn person(user: &str, groups: &[&str]) -> Person {
        Person {
            user: (!user.is_empty()).then(|| user.to_owned()),
            groups: groups.iter().map(|group| (*group).to_owned()).collect(),
        }
    }

    fn may(rules: &Rules, who: &Person, name: &str, access: Access) -> bool {
        let (scheme, name) = name.split_once("://").unwrap_or(("ca", name));
        rules.judge(who, scheme, name, access).allowed
    }

    #[test]
    fn nothing_is_written_without_both_the_switch_and_a_rule() {
        use Access::{Put, Read};
        let all = [allow(Put, rule(&[], &[], "*"))];
        for (switch, list, expected) in [
            (false, &all[..], false),
            (true, &[], false),
            (true, &all[..], true),
        ] {
            let rules = Rules::new(switch, list).unwrap();
            assert_eq!(may(&rules, &Person::default(), "SR:I", Put), expected);
            assert_eq!(rules.takes_puts("ca", "SR:I"), expected);
            assert!(may(&rules, &Person::default(), "SR:I", Read));
        }
    }

    #[test]
    fn first_rule_that_fits_person_pv_and_access_decides() {
        use Access::{Put, Read};
        let list = [
            deny(Put, rule(&["mallory"], &[], "*")),
            allow(Put, rule(&["jane"], &["operators"], "SR:?:SET")),
            deny(Read, rule(&[], &[], "SR:SECRET*")),
            deny(Put, rule(&[], &[], "SR:1:*")),
            allow(Put, rule(&["*"], &[], "*")),
        ];
        let rules = Rules::new(true, &list).unwrap();
        for (who, name, access, expected) in [
            (person("jane", &[]), "SR:1:SET", Put, true),
            (person("joe", &["operators"]), "SR:1:SET", Put, true),
            (person("mallory", &["operators"]), "SR:1:SET", Put, false),
            (person("joe", &[]), "SR:1:SET", Put, false),
            (person("joe", &[]), "SR:2:SET", Put, true),
            (person("", &[]), "SR:2:SET", Put, false),
            (person("", &["operators"]), "SR:1:SET", Put, true),
            (person("JANE", &[]), "SR:1:SET", Put, false),
            (person("jane", &[]), "SR:SECRET", Read, false),
            (person("jane", &[]), "SR:SECRE", Read, true),
            (person("jane", &[]), "SR:SECRET1", Put, true),
        ] {
            assert_eq!(may(&rules, &who, name, access), expected, "{who} {name}");
        }
    }

    #[test]
    fn denied_record_is_denied_with_its_fields_and_by_every_protocol() {
        use Access::{Put, Read};
        let list = [
            deny(Read, rule(&[], &[], "SECRET")),
            deny(Put, rule(&[], &[], "ca://SET")),
            allow(Put, rule(&[], &[], "SET")),
        ];
        let rules = Rules::new(true, &list).unwrap();
        let anybody = Person::default();
        for name in [
            "SECRET",
            "SECRET.VAL",
            "SECRET.DESC$",
            "pva://SECRET",
            "SECRET.{}",
        ] {
            assert!(!may(&rules, &anybody, name, Read), "{name}");
        }
        assert!(!may(&rules, &anybody, "SET", Put));
        assert!(!may(&rules, &anybody, "SET.VAL", Put));
        assert!(may(&rules, &anybody, "pva://SET", Put));
        assert!(
            !may(&rules, &anybody, "pva://SET.DISP", Put),
            "only what is named is allowed"
        );
    }

    #[test]
    fn expression_is_of_the_whole_name_and_one_that_is_none_is_refused() {
        let mut text = allow(Access::Put, rule(&[], &[], "-"));
        text.regexes = vec!["SR:[0-9]+:SET|X".into()];
        let rules = Rules::new(true, &[text.clone()]).unwrap();
        for (name, expected) in [
            ("SR:12:SET", true),
            ("pva://SR:12:SET", true),
            ("X", true),
            ("SR:12:SETX", false),
            ("ASR:12:SET", false),
            ("XX", false),
        ] {
            assert_eq!(
                may(&rules, &Person::default(), name, Access::Put),
                expected,
                "{name}"
            );
        }
        for bad in ["(", "(?=x)", "(a{1000}){1000}"] {
            text.regexes = vec![bad.into()];
            let error = Rules::new(true, &[text.clone()]).unwrap_err();
            assert!(error.starts_with("a rule: pv_regex"), "{error}");
        }
    }

    #[test]
    fn somebody_may_write_unless_everybody_is_denied_first() {
        use Access::Put;
        for (list, expected) in [
            (vec![allow(Put, rule(&["jane"], &[], "A"))], true),
            (
                vec![
                    deny(Put, rule(&["joe"], &[], "*")),
                    allow(Put, rule(&["jane"], &[], "A")),
                ],
                true,
            ),
            (
                vec![
                    deny(Put, rule(&[], &[], "A")),
                    allow(Put, rule(&["jane"], &[], "A")),
                ],
                false,
            ),
        ] {
            let rules = Rules::new(true, &list).unwrap();
            assert_eq!(rules.takes_puts("ca", "A"), expected, "{list:?}");
        }
    }
}
