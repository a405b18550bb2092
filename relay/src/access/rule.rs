//! Decides who may read and write a PV, and names the rule that decides.
//!
//! The pvlist comes first: PVs that it doesn't allow are not served. Then the first of the
//! operator's rules that fits decides, and where none fits the access security file.

mod config_rule;
mod file;
mod identity;
mod name;
mod pattern;
mod pvlist;
mod rate_cap;
mod security;

use std::borrow::Cow;

use self::config_rule::Rule;
pub use self::file::RuleFiles;
pub use self::file::RulesError;
use self::file::parsed;
pub use self::identity::Identity;
use self::name::Names;
pub use self::pattern::PatternError;
pub use self::pvlist::{LineError, PvList, PvListError};
pub use self::rate_cap::RateCaps;
pub use self::security::{AccessSecurity, SecurityError, SyntaxError};
use crate::config::{Access, Config, RuleText};

/// Memory limit of one compiled regular expression.
const MAX_REGEX_BYTES: usize = 1 << 20;

/// Refuses a `[[rule]]` that allows puts while the relay takes none.
fn refuse_without_effect(config: &Config) -> Result<(), RulesError> {
    let mut rules = config.rules.iter();
    match rules.find(|rule| rule.allow.contains(&Access::Put)) {
        Some(rule) if !config.enable_put => Err(RulesError::PutsOff {
            rule: rule.origin.clone(),
        }),
        _ => Ok(()),
    }
}

/// Whether an access is allowed, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision<'a> {
    /// Whether it is allowed.
    pub allowed: bool,
    /// The rule that decided, or the default.
    pub because: Cow<'a, str>,
}

impl<'a> Decision<'a> {
    fn new(allowed: bool, because: impl Into<Cow<'a, str>>) -> Self {
        let because = because.into();
        Self { allowed, because }
    }
}

const READS_DEFAULT: &str = "no rule fits, so reading is allowed";
const PUTS_DEFAULT: &str = "no rule of this relay allows it (allow_put or [[rule]])";
const PUTS_OFF: &str = "this relay takes no puts (enable_put is off)";
const PUTS_PLAIN: &str =
    "puts take no channel filter or array range: write the name of the record and field alone";

/// The settings for puts, for the status page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PutsAllowed {
    /// `enable_put`: without it all puts are refused.
    pub enabled: bool,
    /// Rules that allow some PVs to be written, `allow_put` included.
    pub rules: usize,
    /// Whether an access security file decides where no rule fits.
    pub by_access_security: bool,
}

/// The access rules of a relay: pvlist, operator's rules and access security file. Without any of
/// them all PVs can be read and none written.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// `enable_put`.
    puts: bool,
    pvlist: Option<PvList>,
    rules: Vec<Rule>,
    security: Option<AccessSecurity>,
}

impl Rules {
    /// These rules; without `puts` all puts are refused.
    ///
    /// # Errors
    /// When a `pv_regex` isn't a regular expression.
    pub fn new(puts: bool, rules: &[RuleText]) -> Result<Self, RulesError> {
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
    /// When a rule or a file can't be used; the message names the file and line.
    pub fn read(config: &Config) -> Result<Self, RulesError> {
        Self::parse(config, &RuleFiles::read(config))
    }

    /// The rules of a configuration, whose files have been read already.
    ///
    /// # Errors
    /// As `read`.
    pub fn parse(config: &Config, files: &RuleFiles) -> Result<Self, RulesError> {
        let rules = Self::new(config.enable_put, &config.all_rules())?;
        refuse_without_effect(config)?;
        let pvlist = parsed(&config.pvlist, &files.pvlist, PvList::parse)?;
        let security = parsed(
            &config.access_security,
            &files.security,
            AccessSecurity::parse,
        )?;
        let rules = rules.with_gateway(pvlist, security)?;
        let trap = rules.security.as_ref().and_then(AccessSecurity::trap);
        if let Some(place) = trap
            && config.audit_file.is_empty()
        {
            log::warn!("{place}: TRAPWRITE records nothing without an audit_file");
        }
        Ok(rules)
    }

    /// The settings for puts, for the status page.
    #[must_use]
    pub fn puts(&self) -> PutsAllowed {
        let allows = |rule: &&Rule| rule.verdicts.contains(&(Access::Put, true));
        PutsAllowed {
            enabled: self.puts,
            rules: self.rules.iter().filter(allows).count(),
            by_access_security: self.security.is_some(),
        }
    }

    /// These rules with a site's pvlist and access security file.
    ///
    /// # Errors
    /// When the pvlist names a group that the file doesn't define, or whose rules the relay doesn't
    /// support.
    pub fn with_gateway(
        self,
        pvlist: Option<PvList>,
        security: Option<AccessSecurity>,
    ) -> Result<Self, RulesError> {
        if let Some(security) = &security {
            let groups = match &pvlist {
                Some(list) => list.groups(),
                None => vec![(
                    pvlist::DEFAULT_GROUP,
                    "the default without a pvlist".to_owned(),
                )],
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

    /// Whether `identity` may read or write `scheme://name`.
    #[must_use]
    pub fn decide(
        &self,
        identity: &Identity,
        scheme: &str,
        name: &str,
        access: Access,
    ) -> Decision<'_> {
        if access == Access::Put && !self.puts {
            return Decision::new(false, PUTS_OFF);
        }
        let names = Names::new(scheme, name);
        if access == Access::Put && names.has_modifiers {
            return Decision::new(false, PUTS_PLAIN);
        }
        let listed = self.pvlist.as_ref().map(|list| list.find(&names));
        if let Some(Err(why)) = listed {
            return Decision::new(false, why.to_string());
        }
        for rule in self.rules.iter().filter(|rule| rule.is_for(identity)) {
            if let Some(allowed) = rule.says(&names, access) {
                return Decision::new(allowed, &rule.text);
            }
        }
        let listed = listed.and_then(Result::ok);
        if let Some(security) = &self.security {
            let Some((place, by)) = listed else {
                let place = security::default_place();
                let (allowed, why) = security.decide(identity, &place, access);
                return Decision::new(allowed, why);
            };
            let (allowed, why) = security.decide(identity, place, access);
            return Decision::new(allowed, format!("{why}, in which {by} puts it"));
        }
        match (access, listed) {
            (Access::Read, Some((_, by))) => Decision::new(true, by),
            (Access::Read, None) => Decision::new(true, READS_DEFAULT),
            (Access::Put, _) => Decision::new(false, PUTS_DEFAULT),
        }
    }

    /// Which rules apply to an identity. Identities to which the same rules apply get the same
    /// decisions.
    #[must_use]
    pub fn standing(&self, identity: &Identity) -> Vec<bool> {
        let own = self.rules.iter().map(|rule| rule.is_for(identity));
        let by_file = self
            .security
            .iter()
            .flat_map(|security| security.standing(identity));
        own.chain(by_file).collect()
    }

    /// Whether some user may be able to write `scheme://name`.
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
        rules.decide(who, scheme, name, access).allowed
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
    fn denied_record_is_denied_with_its_fields_in_each_protocol() {
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
    fn comment_in_a_channel_filter_fits_no_pattern() {
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
                let decision = rules.decide(&anybody, scheme, name, Put);
                assert_eq!(decision.allowed, expected, "{name}");
                assert_eq!(rules.takes_puts(scheme, name), expected, "{name}");
            }
        }
        let why = rules.decide(&anybody, "ca", "L:A:SET.VAL{}", Put).because;
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

    fn gateway(pvlist: &str, security: &str, rules: &[RuleText]) -> Result<Rules, RulesError> {
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
    fn pvlist_comes_before_the_rules_and_security_after_them() {
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
                "in which pvlist:2 (SR:.*:SET ALLOW Set) puts it",
            ),
            ("anna", "SR:B:SET", Put, false, "a rule (pv SR:B:SET"),
            (
                "",
                "SR:A:SET",
                Put,
                false,
                "acf:3: no RULE of ASG(Set) gives WRITE to an anonymous client",
            ),
            ("", "SR:A:SET", Read, true, "acf:3 (RULE(1, READ)"),
            ("anna", "X", Put, false, "acf:2: no RULE of ASG(DEFAULT)"),
        ] {
            let who = identity(user, &[]);
            let decision = rules.decide(&who, "ca", name, access);
            assert_eq!(
                decision.allowed, expected,
                "{user} {name} {access} {decision:?}"
            );
            assert!(decision.because.contains(part), "{decision:?}");
        }
        assert!(rules.takes_puts("ca", "X"), "jane");
        assert!(!rules.takes_puts("ca", "SECRET"));
        let without = gateway(list, ACF, &[]).unwrap();
        assert!(without.takes_puts("ca", "SR:A:SET"));
        assert!(!without.takes_puts("ca", "X"));
        assert!(!without.takes_puts("ca", "LOCKED"));
    }

    #[test]
    fn pvlist_and_security_file_work_without_each_other() {
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
    fn group_that_only_the_list_names_is_refused() {
        let error = gateway("A ALLOW\nSR:.* ALLOW Sett", ACF, &[]).unwrap_err();
        let error = error.to_string();
        assert!(
            error.contains("ASG(Sett)") && error.contains("pvlist:2"),
            "{error}"
        );
        let host = "HAG(h) { x }\nASG(DEFAULT) { RULE(1, WRITE) { HAG(h) } }\nASG(Set)";
        assert!(
            gateway("A ALLOW Set", host, &[]).is_ok(),
            "no PV is in DEFAULT"
        );
        let error = gateway("", host, &[]).unwrap_err().to_string();
        assert!(error.starts_with("acf:2: HAG(h)"), "{error}");
    }

    #[test]
    fn expression_matches_the_whole_name_or_is_refused() {
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
            let error = Rules::new(true, &[text.clone()]).unwrap_err().to_string();
            assert!(error.starts_with("a rule: pv_regex"), "{error}");
        }
    }

    #[test]
    fn pv_takes_puts_unless_everybody_is_denied_first() {
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
