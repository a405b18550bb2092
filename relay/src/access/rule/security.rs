//! Access granted by an access security file (`.acf`).

mod parser;

use std::collections::{HashMap, HashSet};

use thiserror::Error;

pub use self::parser::SyntaxError;
use self::parser::{Parser, Token, tokens};
use super::identity::Identity;
use super::pvlist::{DEFAULT_GROUP, Place};
use crate::config::Access;

/// In a UAG, the prefix of a group of users.
const ROLE: &str = "role/";

/// What an access security file grants, in the syntax of IOCs and gateways.
#[derive(Clone, Debug, Default)]
pub struct AccessSecurity {
    path: String,
    /// UAG: users by group.
    users: HashMap<String, HashSet<String>>,
    /// HAG: only the names, so that a mistyped one is noticed.
    hosts: HashSet<String>,
    /// ASG.
    groups: HashMap<String, Group>,
}

#[derive(Clone, Debug, Default)]
struct Group {
    line: usize,
    rules: Vec<Rule>,
}

#[derive(Clone, Debug)]
struct Rule {
    line: usize,
    level: u8,
    grants: Grants,
    /// Groups of users; empty for everybody.
    users: Vec<String>,
    /// A condition or an access that the relay doesn't support. The rule then grants nothing.
    unsupported: Option<Unsupported>,
    /// TRAPWRITE: puts are recorded.
    trap: bool,
}

/// Something in a RULE that the relay doesn't support.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Unsupported {
    line: usize,
    what: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Grants {
    Nothing,
    Read,
    Write,
}

impl Grants {
    fn to(access: Access) -> Self {
        match access {
            Access::Read => Self::Read,
            Access::Put => Self::Write,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Nothing => "NONE",
            Self::Read => "READ",
            Self::Write => "WRITE",
        }
    }
}

/// An access security file can't be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SecurityError {
    /// A line can't be read.
    #[error("{path}:{line}: {cause}")]
    Syntax {
        /// The file.
        path: String,
        /// The line, from 1.
        line: usize,
        /// Why.
        cause: SyntaxError,
    },
    /// PVs are in a group that the file doesn't define.
    #[error("{path}: there is no ASG({group}), but {by} puts PVs in it; add it")]
    NoGroup {
        /// The file.
        path: String,
        /// The group.
        group: String,
        /// The line of the pvlist.
        by: String,
    },
    /// PVs are in a group with a RULE that the relay doesn't support.
    #[error(
        "{path}:{line}: {what}; {by} puts PVs in ASG({group}): give the relay a separate file in which that \
         RULE is removed or has no such condition"
    )]
    Unsupported {
        /// The file.
        path: String,
        /// The line, from 1.
        line: usize,
        /// The condition or access.
        what: String,
        /// The group.
        group: String,
        /// The line of the pvlist.
        by: String,
    },
}

impl AccessSecurity {
    /// Reads the text of the file at `path`; errors name the path.
    ///
    /// # Errors
    /// When a line can't be read.
    pub fn parse(path: &str, text: &str) -> Result<Self, SecurityError> {
        let wrong = |line, cause| SecurityError::Syntax {
            path: path.to_owned(),
            line,
            cause,
        };
        let tokens = tokens(text).map_err(|(line, cause)| wrong(line, cause))?;
        let last_line = text.lines().count().max(1);
        let mut parser = Parser {
            line: 1,
            last_line,
            tokens: tokens.into_iter().peekable(),
        };
        let mut security = Self {
            path: path.to_owned(),
            ..Self::default()
        };
        let read = security.read(&mut parser);
        read.map_err(|cause| wrong(parser.line, cause))?;
        security
            .check_names()
            .map_err(|(line, cause)| wrong(line, cause))?;
        Ok(security)
    }

    fn read(&mut self, parser: &mut Parser) -> Result<(), SyntaxError> {
        while let Some(token) = parser.next() {
            match token {
                Token::Word(word) if word == "UAG" => {
                    let (name, members) = parser.members()?;
                    if self.users.insert(name.clone(), members).is_some() {
                        return Err(SyntaxError::Duplicate(format!("UAG({name})")));
                    }
                }
                Token::Word(word) if word == "HAG" => {
                    let (name, _) = parser.members()?;
                    self.hosts.insert(name);
                }
                Token::Word(word) if word == "ASG" => {
                    let line = parser.line;
                    let name = parser.name()?;
                    let rules = parser.rules()?;
                    let group = Group { line, rules };
                    if self.groups.insert(name.clone(), group).is_some() {
                        return Err(SyntaxError::Duplicate(format!("ASG({name})")));
                    }
                }
                other => return Err(SyntaxError::expected("UAG, HAG or ASG", other)),
            }
        }
        Ok(())
    }

    /// Refuses rules for user groups that the file doesn't define.
    fn check_names(&self) -> Result<(), (usize, SyntaxError)> {
        for rule in self.groups.values().flat_map(|group| &group.rules) {
            let is_unknown = |name: &&String| !self.users.contains_key(*name);
            if let Some(name) = rule.users.iter().find(is_unknown) {
                return Err((rule.line, SyntaxError::NoUsers(name.clone())));
            }
        }
        Ok(())
    }

    /// Refuses a group of PVs that is missing, or that has a RULE which the relay doesn't support.
    /// `by` is the line that puts PVs in the group.
    pub(super) fn check(&self, group: &str, by: &str) -> Result<(), SecurityError> {
        let (path, group, by) = (self.path.clone(), group.to_owned(), by.to_owned());
        let Some(found) = self.groups.get(&group) else {
            return Err(SecurityError::NoGroup { path, group, by });
        };
        let mut rules = found.rules.iter();
        match rules.find_map(|rule| rule.unsupported.clone()) {
            None => Ok(()),
            Some(Unsupported { line, what }) => Err(SecurityError::Unsupported {
                path,
                line,
                what,
                group,
                by,
            }),
        }
    }

    /// The first rule with TRAPWRITE, as `file:line`.
    pub(super) fn trap(&self) -> Option<String> {
        let rules = self.groups.values().flat_map(|group| &group.rules);
        let line = rules.filter(|rule| rule.trap).map(|rule| rule.line).min()?;
        Some(format!("{}:{line}", self.path))
    }

    /// Whether `identity` has access to the PVs of a group and level, and the rule that decides.
    pub(super) fn decide(
        &self,
        identity: &Identity,
        place: &Place,
        access: Access,
    ) -> (bool, String) {
        let wanted = Grants::to(access);
        let Some(group) = self.groups.get(&place.group) else {
            let (path, group) = (&self.path, &place.group);
            return (false, format!("{path}: there is no ASG({group})"));
        };
        let fits = |rule: &&Rule| rule.gives(place, wanted) && self.is_for(rule, identity);
        match group.rules.iter().find(fits) {
            Some(rule) => (true, self.says(rule, &place.group)),
            None => {
                let (path, line, name) = (&self.path, group.line, &place.group);
                let (wanted, level) = (wanted.name(), place.level);
                let why = format!(
                    "{path}:{line}: no RULE of ASG({name}) gives {wanted} to {identity} at level {level}"
                );
                (false, why)
            }
        }
    }

    /// The rules that apply to an identity, in a stable order.
    pub(super) fn standing(&self, identity: &Identity) -> impl Iterator<Item = bool> {
        let rules = self.groups.values().flat_map(|group| &group.rules);
        rules.map(|rule| self.is_for(rule, identity))
    }

    /// Whether some user may be able to write the PVs of a group and level.
    pub(super) fn takes_puts(&self, place: &Place) -> bool {
        let group = self.groups.get(&place.group);
        let named = |rule: &Rule| {
            let mut users = rule.users.iter().filter_map(|name| self.users.get(name));
            rule.users.is_empty() || users.any(|members| !members.is_empty())
        };
        group.is_some_and(|group| {
            let mut rules = group.rules.iter();
            rules.any(|rule| rule.gives(place, Grants::Write) && named(rule))
        })
    }

    fn is_for(&self, rule: &Rule, identity: &Identity) -> bool {
        let is_in = |name: &String| {
            self.users.get(name).is_some_and(|members| {
                let role = |group: &String| members.contains(&format!("{ROLE}{group}"));
                // A user whose name looks like a role doesn't get the role.
                let named = |user: &String| !user.starts_with(ROLE) && members.contains(user);
                identity.user.as_ref().is_some_and(named) || identity.groups.iter().any(role)
            })
        };
        rule.users.is_empty() || rule.users.iter().any(is_in)
    }

    fn says(&self, rule: &Rule, group: &str) -> String {
        let (path, line, level, grants) = (&self.path, rule.line, rule.level, rule.grants.name());
        let users = match rule.users.join(", ") {
            users if users.is_empty() => users,
            users => format!(" for UAG({users})"),
        };
        format!("{path}:{line} (RULE({level}, {grants}){users} of ASG({group}))")
    }
}

impl Rule {
    /// Whether it grants at least `wanted` to the PVs of a group and level.
    fn gives(&self, place: &Place, wanted: Grants) -> bool {
        self.unsupported.is_none() && self.grants >= wanted && place.level <= self.level
    }
}

/// Group and level of all PVs without a pvlist.
pub(super) fn default_place() -> Place {
    Place {
        group: DEFAULT_GROUP.to_owned(),
        level: super::pvlist::DEFAULT_LEVEL,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
        # who may do what at the ring
        UAG(operators) { anna, ben }
        UAG(experts) { "jane doe", role/experts }
        UAG(nobody)
        HAG(control) { cr1, cr2 }
        ASG(DEFAULT) {
            RULE(1, READ)
            RULE(1, WRITE, TRAPWRITE) { UAG(operators, experts) }
        }
        ASG(Setpoints) { RULE(0, READ) RULE(0, WRITE) { UAG(experts) } }
        ASG(Hidden) { RULE(1, NONE) RULE(1, WRITE) { UAG(nobody) } }
        ASG(Locked)
        ASG(Hosts) {
            INPA(SR:CURRENT)
            RULE(1, READ)
            RULE(1, WRITE) { HAG(control) UAG(operators) }
            RULE(1, WRITE) { CALC("A<1") }
        }
    "#;

    fn security(text: &str) -> AccessSecurity {
        AccessSecurity::parse("site.acf", text).unwrap()
    }

    fn identity(user: &str, groups: &[&str]) -> Identity {
        Identity {
            user: (!user.is_empty()).then(|| user.to_owned()),
            groups: groups.iter().map(|group| (*group).to_owned()).collect(),
        }
    }

    fn place(group: &str, level: u8) -> Place {
        let group = group.to_owned();
        Place { group, level }
    }

    #[test]
    fn first_rule_that_grants_enough_at_the_level_decides() {
        use Access::{Put, Read};
        let security = security(FILE);
        for (who, group, level, access, expected) in [
            (identity("", &[]), "DEFAULT", 1, Read, true),
            (identity("", &[]), "DEFAULT", 1, Put, false),
            (identity("anna", &[]), "DEFAULT", 1, Put, true),
            (identity("Anna", &[]), "DEFAULT", 1, Put, false),
            (identity("jane doe", &[]), "DEFAULT", 0, Put, true),
            (identity("joe", &["experts"]), "DEFAULT", 0, Put, true),
            (identity("joe", &["operators"]), "DEFAULT", 0, Put, false),
            (identity("role/experts", &[]), "DEFAULT", 0, Put, false),
            (
                identity("anna", &["role/experts"]),
                "Setpoints",
                0,
                Put,
                false,
            ),
            (identity("joe", &["experts"]), "Setpoints", 0, Put, true),
            (identity("joe", &["experts"]), "Setpoints", 1, Put, false),
            (identity("", &[]), "Setpoints", 0, Read, true),
            (identity("", &[]), "Setpoints", 1, Read, false),
            (identity("anna", &[]), "Hidden", 0, Read, false),
            (identity("anna", &[]), "Locked", 0, Read, false),
            (identity("anna", &[]), "Hosts", 0, Put, false),
            (identity("anna", &[]), "Unknown", 0, Read, false),
        ] {
            let (allowed, why) = security.decide(&who, &place(group, level), access);
            assert_eq!(allowed, expected, "{who} {group} {level} {access}: {why}");
        }
        for (group, expected) in [
            ("DEFAULT", true),
            ("Hidden", false),
            ("Locked", false),
            ("Unknown", false),
        ] {
            assert_eq!(security.takes_puts(&place(group, 1)), expected, "{group}");
        }
        let (_, why) = security.decide(&identity("ben", &[]), &place("DEFAULT", 1), Put);
        let rule = "RULE(1, WRITE) for UAG(operators, experts) of ASG(DEFAULT)";
        assert_eq!(why, format!("site.acf:9 ({rule})"));
        let (_, why) = security.decide(&identity("joe", &[]), &place("DEFAULT", 1), Put);
        let no = "no RULE of ASG(DEFAULT) gives WRITE to user \"joe\" at level 1";
        assert_eq!(why, format!("site.acf:7: {no}"));
        assert_eq!(security.trap().unwrap(), "site.acf:9");
    }

    #[test]
    fn unsupported_condition_is_refused_where_pvs_depend_on_it() {
        let security = security(FILE);
        assert_eq!(security.check("DEFAULT", "a list"), Ok(()));
        let error = |group, by| security.check(group, by).unwrap_err().to_string();
        let begin = "site.acf:17: HAG(control): the relay doesn't know its users' hosts";
        let from_hosts = error("Hosts", "site.pvlist:3");
        assert!(from_hosts.starts_with(begin), "{from_hosts}");
        assert!(from_hosts.contains("site.pvlist:3"), "{from_hosts}");
        let unknown = error("Nonsense", "site.pvlist:4");
        let begin = "site.acf: there is no ASG(Nonsense)";
        assert!(unknown.starts_with(begin), "{unknown}");
        for (rule, part) in [
            ("RULE(1, WRITE) { CALC(\"A=1\") }", "CALC(A=1)"),
            ("RULE(1, PUT)", "PUT: the relay knows READ and WRITE only"),
            (
                "RULE(1, WRITE) { METHOD(x509) }",
                "doesn't support this condition",
            ),
        ] {
            let one = self::security(&format!("ASG(DEFAULT) {{\n{rule} }}"));
            let error = one.check("DEFAULT", "a list").unwrap_err().to_string();
            assert!(error.starts_with("site.acf:2: "), "{error}");
            assert!(error.contains(part), "{error}");
            assert!(
                !one.decide(&identity("a", &[]), &place("DEFAULT", 0), Access::Put)
                    .0
            );
        }
    }

    #[test]
    fn invalid_file_is_refused_with_its_line() {
        for (text, line, part) in [
            ("\nASG(DEFAULT) { RULE(2, READ) }", 2, "a level of 0 or 1"),
            ("ASG(A) { RULE(1, ALL) }", 1, "expected NONE, READ or WRITE"),
            (
                "ASG(A) {\nRULE(1, WRITE) { UAG(x) }\n}",
                2,
                "there is no UAG(x)",
            ),
            ("ASG(A)\nASG(A)", 2, "ASG(A) is defined twice"),
            ("UAG(A)\nUAG(A)", 2, "UAG(A) is defined twice"),
            ("UAG(A) { a b }", 1, "expected ','"),
            ("UAG(A) { a,\nb", 2, "but the file ends"),
            ("UAG(A) { \"a }", 1, "without its second"),
            (r#"UAG(A) { "a\", "b" }"#, 1, "leave it out"),
            ("ASG A", 1, "expected '('"),
            ("RULE(1, READ)", 1, "expected UAG, HAG or ASG"),
            (
                "ASG(A) { RULE(1, READ, LOG) }",
                1,
                "TRAPWRITE or NOTRAPWRITE",
            ),
            (
                "UAG(u) { a }\nASG(A) { RULE(1, WRITE) { UAG(u) UAG(u) } }",
                2,
                "a second UAG",
            ),
            (
                "UAG(u)\nASG(A) { RULE(1, WRITE) { UAG() } }",
                2,
                "a name in UAG()",
            ),
        ] {
            let error = AccessSecurity::parse("site.acf", text);
            let error = error.unwrap_err().to_string();
            assert!(error.starts_with(&format!("site.acf:{line}: ")), "{error}");
            assert!(error.contains(part), "{error}");
            assert_eq!(error.lines().count(), 1, "{error}");
        }
    }
}
