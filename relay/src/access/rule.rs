//! Who may read and write which PVs, and which rule says so?
//!
//! A list of PVs, if there is one, says first which are served at all. Then the operator's rules are
//! asked, and then an access security file.

mod file;
mod identity;
mod name;
mod own;
mod pattern;
mod pvlist;
mod security;

use std::borrow::Cow;

use self::file::parsed;
pub use self::identity::Identity;
use self::name::Names;
use self::own::Rule;
pub use self::pvlist::PvList;
pub use self::security::AccessSecurity;
use crate::config::{Access, Config, RuleText};

/// Most memory that a rule's regular expression may take when it is compiled.
const MAX_REGEX_BYTES: usize = 1 << 20;

/// Whether something is allowed, and who says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict<'a> {
    /// Whether it is.
    pub allowed: bool,
    /// The rule, or what holds without one.
    pub because: Cow<'a, str>,
}

impl<'a> Verdict<'a> {
    fn new(allowed: bool, because: impl Into<Cow<'a, str>>) -> Self {
        let because = because.into();
        Self { allowed, because }
    }
}

const READS_DEFAULT: &str = "no rule fits; reading is allowed then";
const PUTS_DEFAULT: &str = "no rule of this relay allows it (allow_put or [[rule]])";
const PUTS_OFF: &str = "this relay takes no puts (enable_put is off)";
const PUTS_PLAIN: &str =
    "puts take no channel filter or array range: write the name of the record and field alone";

/// What an operator has to know about puts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PutsAllowed {
    /// `enable_put`: without it no rule counts.
    pub enabled: bool,
    /// Rules that allow some PVs to be written, `allow_put` included.
    pub rules: usize,
    /// Whether an access security file is asked where no rule fits.
    pub by_access_security: bool,
}

/// What the operator allows: what the list of PVs serves, and of that what the first rule that fits
/// says, or else the access security file. Where there is none of them everybody may read and nobody
/// may write.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// Whether anything may be written at all.
    puts: bool,
    pvlist: Option<PvList>,
    rules: Vec<Rule>,
    security: Option<AccessSecurity>,
}

impl Rules {
    /// These rules; no puts at all unless `puts`.
    ///
    /// # Errors
    /// When a rule's expression is none.
    pub fn new(puts: bool, rules: &[RuleText]) -> Result<Self, String> {
        let rules = rules.iter().map(Rule::new).collect::<Result<_, _>>()?;
        Ok(Self {
            puts,
            rules,
            ..Self::default()
        })
    }

    /// The rules of a configuration, with the files that it names.
    ///
    /// # Errors
    /// What the operator has to change, and where.
    pub fn read(config: &Config) -> Result<Self, String> {
        let rules = Self::new(config.enable_put, &config.all_rules())?;
        let pvlist = parsed(&config.pvlist, PvList::parse)?;
        let security = parsed(&config.access_security, AccessSecurity::parse)?;
        let rules = rules.with_gateway(pvlist, security)?;
        let trap = rules.security.as_ref().and_then(AccessSecurity::trap);
        if let Some(place) = trap
            && config.audit_file.is_empty()
        {
            log::warn!("{place}: TRAPWRITE puts nothing on record without an audit_file");
        }
        Ok(rules)
    }

    /// Whether puts are taken, and by how many rules, for the status page.
    #[must_use]
    pub fn puts(&self) -> PutsAllowed {
        let allows = |rule: &&Rule| rule.verdicts.contains(&(Access::Put, true));
        PutsAllowed {
            enabled: self.puts,
            rules: self.rules.iter().filter(allows).count(),
            by_access_security: self.security.is_some(),
        }
    }

    /// The same with what a site has for its gateways.
    ///
    /// # Errors
    /// What the operator has to change, and where.
    pub fn with_gateway(
        self,
        pvlist: Option<PvList>,
        security: Option<AccessSecurity>,
    ) -> Result<Self, String> {
        if let Some(security) = &security {
            let groups = match &pvlist {
                Some(list) => list.groups(),
                None => vec![(pvlist::DEFAULT_GROUP, "the lack of a pvlist".to_owned())],
            };
            for (group, by) in groups {
                security.check(group, &by)?;
            }
        }
        Ok(Self {
            pvlist,
            security,
            ..self
        })
    }

    /// Whether somebody may read or write `scheme://name`.
    #[must_use]
    pub fn judge(
        &self,
        identity: &Identity,
        scheme: &str,
        name: &str,
        access: Access,
    ) -> Verdict<'_> {
        if access == Access::Put && !self.puts {
            return Verdict::new(false, PUTS_OFF);
        }
        let names = Names::new(scheme, name);
        if access == Access::Put && names.has_modifiers {
            return Verdict::new(false, PUTS_PLAIN);
        }
        let listed = self.pvlist.as_ref().map(|list| list.find(&names));
        if let Some(Err(why)) = listed {
            return Verdict::new(false, why);
        }
        for rule in self.rules.iter().filter(|rule| rule.is_for(identity)) {
            if let Some(allowed) = rule.says(&names, access) {
                return Verdict::new(allowed, &rule.text);
            }
        }
        let listed = listed.and_then(Result::ok);
        if let Some(security) = &self.security {
            let Some((place, by)) = listed else {
                let place = security::default_place();
                let (allowed, why) = security.judge(identity, &place, access);
                return Verdict::new(allowed, why);
            };
            let (allowed, why) = security.judge(identity, place, access);
            return Verdict::new(allowed, format!("{why}, where it is by {by}"));
        }
        match (access, listed) {
            (Access::Read, Some((_, by))) => Verdict::new(true, by),
            (Access::Read, None) => Verdict::new(true, READS_DEFAULT),
            (Access::Put, _) => Verdict::new(false, PUTS_DEFAULT),
        }
    }

    /// The rules that apply to an identity; identities with the same rules get the same decisions.
    #[must_use]
    pub fn standing(&self, identity: &Identity) -> Vec<bool> {
        let own = self.rules.iter().map(|rule| rule.is_for(identity));
        let by_file = self
            .security
            .iter()
            .flat_map(|security| security.standing(identity));
        own.chain(by_file).collect()
    }

    /// Whether there is anybody who may write `scheme://name`.
    #[must_use]
    pub fn takes_puts(&self, scheme: &str, name: &str) -> bool {
        if !self.puts {
            return false;
        }
        let names = Names::new(scheme, name);
        if names.has_modifiers {
            return false;
        }
        let listed = match self.pvlist.as_ref().map(|list| list.find(&names)) {
            Some(Err(_)) => return false,
            Some(Ok((place, _))) => Some(place),
            None => None,
        };
        for rule in &self.rules {
            match rule.says(&names, Access::Put) {
                Some(true) => return true,
                Some(false) if rule.is_for_all() => return false,
                Some(false) | None => {}
            }
        }
        self.security.as_ref().is_some_and(|security| match listed {
            Some(place) => security.takes_puts(place),
            None => security.takes_puts(&security::default_place()),
        })
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

    fn identity(user: &str, groups: &[&str]) -> Identity {
        Identity {
            user: (!user.is_empty()).then(|| user.to_owned()),
            groups: groups.iter().map(|group| (*group).to_owned()).collect(),
        }
    }

    fn may(rules: &Rules, who: &Identity, name: &str, access: Access) -> bool {
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
            assert_eq!(may(&rules, &Identity::default(), "SR:I", Put), expected);
            assert_eq!(rules.takes_puts("ca", "SR:I"), expected);
            assert!(may(&rules, &Identity::default(), "SR:I", Read));
        }
    }

    #[test]
    fn first_rule_that_fits_identity_pv_and_access_decides() {
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
            (identity("jane", &[]), "SR:1:SET", Put, true),
            (identity("joe", &["operators"]), "SR:1:SET", Put, true),
            (identity("mallory", &["operators"]), "SR:1:SET", Put, false),
            (identity("joe", &[]), "SR:1:SET", Put, false),
            (identity("joe", &[]), "SR:2:SET", Put, true),
            (identity("", &[]), "SR:2:SET", Put, false),
            (identity("", &["operators"]), "SR:1:SET", Put, true),
            (identity("JANE", &[]), "SR:1:SET", Put, false),
            (identity("jane", &[]), "SR:SECRET", Read, false),
            (identity("jane", &[]), "SR:SECRE", Read, true),
            (identity("jane", &[]), "SR:SECRET1", Put, true),
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
        let anybody = Identity::default();
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
    fn comment_in_a_channel_filter_meets_no_pattern_and_puts_take_no_modifiers() {
        use Access::{Put, Read};
        let list = [
            deny(Read, rule(&[], &[], "SECRET.VAL")),
            allow(Put, rule(&[], &[], "L:*:SET*")),
            allow(Put, rule(&[], &[], "*.DESC$")),
        ];
        let rules = Rules::new(true, &list).unwrap();
        let anybody = Identity::default();
        for scheme in ["ca", "pva"] {
            for (name, expected) in [
                ("L:A:SET", true),
                ("L:A:SET.DESC$", true),
                ("L:LOCKED.VAL{\"ts\":{}/*:SET*/}", false),
                ("L:LOCKED.{\"ts\":{}/*:SET*/}", false),
                ("L:LOCKED.VAL[0]{\"ts\":{}/*:SET*/}", false),
                ("L:A:SET.VAL{\"ts\":{}}", false),
                ("L:A:SET.[0]", false),
            ] {
                let verdict = rules.judge(&anybody, scheme, name, Put);
                assert_eq!(verdict.allowed, expected, "{name}");
                assert_eq!(rules.takes_puts(scheme, name), expected, "{name}");
            }
        }
        let why = rules.judge(&anybody, "ca", "L:A:SET.VAL{}", Put).because;
        assert!(why.contains("no channel filter"), "{why}");
        // The same field by its other names.
        for name in [
            "SECRET",
            "SECRET.",
            "SECRET.VAL$",
            "SECRET.{\"ts\":{}}",
            "SECRET.VAL{}",
        ] {
            assert!(!may(&rules, &anybody, name, Read), "{name}");
        }
        assert!(may(&rules, &anybody, "SECRET.DESC", Read));
    }

    #[test]
    fn denied_structure_is_denied_with_its_fields() {
        let list = [deny(Access::Read, rule(&[], &[], "SECRET"))];
        let rules = Rules::new(false, &list).unwrap();
        for (name, expected) in [
            ("pva://SECRET/value", false),
            ("pva://SECRET.DESC/alarm/status", false),
            ("pva://SECRETS/value", true),
            // Channel Access knows no fields behind a slash: it is another PV.
            ("ca://SECRET/value", true),
        ] {
            let may = may(&rules, &Identity::default(), name, Access::Read);
            assert_eq!(may, expected, "{name}");
        }
    }

    fn gateway(pvlist: &str, security: &str, rules: &[RuleText]) -> Result<Rules, String> {
        let pvlist = (!pvlist.is_empty()).then(|| PvList::parse("pvlist", pvlist).unwrap());
        let parsed = || AccessSecurity::parse("acf", security).unwrap();
        let security = (!security.is_empty()).then(parsed);
        Rules::new(true, rules)
            .unwrap()
            .with_gateway(pvlist, security)
    }

    const ACF: &str = "UAG(ops) { anna }\nASG(DEFAULT) { RULE(1, READ) }\n\
        ASG(Set) { RULE(1, READ) RULE(1, WRITE) { UAG(ops) } }\nASG(Locked)";

    #[test]
    fn list_is_asked_before_the_rules_and_access_security_after_them() {
        use Access::{Put, Read};
        let list = ".* ALLOW\nSR:.*:SET ALLOW Set\nLOCKED ALLOW Locked\nSECRET DENY";
        let own = [
            allow(Put, rule(&["jane"], &[], "*")),
            deny(Put, rule(&[], &[], "SR:B:SET")),
        ];
        let own: Vec<_> = own
            .into_iter()
            .chain([allow(Read, rule(&["jane"], &[], "LOCKED"))])
            .collect();
        let rules = gateway(list, ACF, &own).unwrap();
        for (user, name, access, expected, part) in [
            ("jane", "SECRET", Put, false, "pvlist:4 (SECRET DENY)"),
            ("jane", "SECRET.VAL", Read, false, "pvlist:4 (SECRET DENY)"),
            ("jane", "LOCKED", Put, true, "a rule (user jane"),
            ("jane", "LOCKED", Read, true, "a rule (user jane"),
            (
                "anna",
                "LOCKED",
                Read,
                false,
                "acf:4: no RULE of ASG(Locked)",
            ),
            (
                "anna",
                "SR:A:SET",
                Put,
                true,
                "acf:3 (RULE(1, WRITE) for UAG(ops)",
            ),
            (
                "anna",
                "SR:A:SET",
                Put,
                true,
                "where it is by pvlist:2 (SR:.*:SET ALLOW Set)",
            ),
            ("anna", "SR:B:SET", Put, false, "a rule (pv SR:B:SET"),
            (
                "",
                "SR:A:SET",
                Put,
                false,
                "acf:3: no RULE of ASG(Set) gives WRITE to somebody",
            ),
            ("", "SR:A:SET", Read, true, "acf:3 (RULE(1, READ)"),
            ("anna", "X", Put, false, "acf:2: no RULE of ASG(DEFAULT)"),
        ] {
            let who = identity(user, &[]);
            let verdict = rules.judge(&who, "ca", name, access);
            assert_eq!(
                verdict.allowed, expected,
                "{user} {name} {access} {verdict:?}"
            );
            assert!(verdict.because.contains(part), "{verdict:?}");
        }
        assert!(rules.takes_puts("ca", "X"), "jane");
        assert!(!rules.takes_puts("ca", "SECRET"));
        let without = gateway(list, ACF, &[]).unwrap();
        assert!(without.takes_puts("ca", "SR:A:SET"));
        assert!(!without.takes_puts("ca", "X"));
        assert!(!without.takes_puts("ca", "LOCKED"));
    }

    #[test]
    fn each_of_the_two_files_does_without_the_other() {
        let rules = gateway("SR:.* ALLOW Set", "", &[]).unwrap();
        let anna = identity("anna", &[]);
        assert!(may(&rules, &anna, "SR:A", Access::Read));
        assert!(!may(&rules, &anna, "LI:A", Access::Read));
        assert!(!may(&rules, &anna, "SR:A", Access::Put));
        assert!(!rules.takes_puts("ca", "SR:A"));
        let acf = "UAG(ops) { anna }\nASG(DEFAULT) { RULE(1, WRITE) { UAG(ops) } }";
        let rules = gateway("", acf, &[]).unwrap();
        assert!(may(&rules, &anna, "SR:A", Access::Put));
        assert!(!may(&rules, &identity("joe", &[]), "SR:A", Access::Read));
        assert!(rules.takes_puts("ca", "SR:A"));
    }

    #[test]
    fn group_that_the_list_names_and_the_file_has_not_is_refused() {
        let error = gateway("A ALLOW\nSR:.* ALLOW Sett", ACF, &[]).unwrap_err();
        assert!(
            error.contains("ASG(Sett)") && error.contains("pvlist:2"),
            "{error}"
        );
        let host = "HAG(h) { x }\nASG(DEFAULT) { RULE(1, WRITE) { HAG(h) } }\nASG(Set)";
        assert!(
            gateway("A ALLOW Set", host, &[]).is_ok(),
            "nobody is in DEFAULT"
        );
        let error = gateway("", host, &[]).unwrap_err();
        assert!(error.starts_with("acf:2: HAG(h)"), "{error}");
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
                may(&rules, &Identity::default(), name, Access::Put),
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
