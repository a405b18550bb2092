//! One rule of the configuration: `allow_put` or a `[[rule]]`.

use regex::Regex;
use wildmatch::WildMatch;

use super::MAX_REGEX_BYTES;
use super::file::RulesError;
use super::identity::Identity;
use super::name::Names;
use super::pattern::regex_reason;
use crate::config::{Access, RuleText};

/// One rule with compiled patterns.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    /// Where it stands and what it says, for messages.
    pub(super) text: String,
    users: Vec<String>,
    groups: Vec<String>,
    patterns: Vec<Pattern>,
    /// Accesses that it allows or denies.
    pub(super) verdicts: Vec<(Access, bool)>,
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
    pub(super) fn new(text: &RuleText) -> Result<Self, RulesError> {
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
                .map_err(|error| RulesError::Regex {
                    rule: text.origin.clone(),
                    expression: expression.clone(),
                    reason: regex_reason(&error),
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

    /// Whether it applies to everybody.
    pub(super) fn is_for_all(&self) -> bool {
        self.users.is_empty() && self.groups.is_empty()
    }

    pub(super) fn is_for(&self, identity: &Identity) -> bool {
        let named = |user: &String| self.users.iter().any(|known| known == "*" || known == user);
        let in_group = |group: &String| self.groups.contains(group);
        self.is_for_all()
            || identity.user.as_ref().is_some_and(named)
            || identity.groups.iter().any(in_group)
    }

    /// Whether it allows or denies an access to a PV, for the users to whom it applies.
    pub(super) fn says(&self, pv: &Names<'_>, access: Access) -> Option<bool> {
        let (_, allowed) = *self.verdicts.iter().find(|(of, _)| *of == access)?;
        let any = |name: &str| self.patterns.iter().any(|pattern| pattern.fits(name));
        let fits = |name: &str| any(name) || any(&format!("{}://{name}", pv.scheme));
        // A denied record is denied with its fields.
        let says = if allowed {
            fits(&pv.name) || any(&pv.plain)
        } else {
            pv.with_owners().any(|name| fits(&name))
        };
        says.then_some(allowed)
    }
}
