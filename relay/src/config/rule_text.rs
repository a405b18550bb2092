//! What may a `[[rule]]` of the file say?

use std::fmt::{self};

use toml::Spanned;
use toml::de::DeValue;

use super::ConfigError;
use super::file::{File, in_order};
use super::key::KEYS;
use super::similar::hint;

/// Keys of a rule.
const RULE_KEYS: [&str; 6] = ["user", "group", "pv", "pv_regex", "allow", "deny"];

/// What a rule allows or denies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Get and subscribe.
    Read,
    /// Put and call.
    Put,
}

impl fmt::Display for Access {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Read => "read",
            Self::Put => "put",
        })
    }
}

/// A rule as it stands in the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleText {
    /// Where it stands.
    pub origin: String,
    /// Users that it is for; `*` for all that have a name. Without users and groups it is for
    /// everybody.
    pub users: Vec<String>,
    /// Groups that it is for.
    pub groups: Vec<String>,
    /// Patterns of PV names, with `*` for any characters and `?` for one.
    pub pvs: Vec<String>,
    /// Regular expressions of whole PV names.
    pub regexes: Vec<String>,
    /// What it allows.
    pub allow: Vec<Access>,
    /// What it denies.
    pub deny: Vec<Access>,
}

impl fmt::Display for RuleText {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let access = |list: &[Access]| list.iter().map(Access::to_string).collect::<Vec<_>>();
        let mut between = "";
        for (what, list) in [
            ("user", &self.users),
            ("group", &self.groups),
            ("pv", &self.pvs),
            ("pv_regex", &self.regexes),
            ("allow", &access(&self.allow)),
            ("deny", &access(&self.deny)),
        ] {
            if !list.is_empty() {
                write!(formatter, "{between}{what} {}", list.join(" "))?;
                between = ", ";
            }
        }
        Ok(())
    }
}

impl RuleText {
    /// Reads one `[[rule]]` of a file: the one with this number.
    pub(super) fn read(
        file: File<'_>,
        number: usize,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<Self, ConfigError> {
        let wrong = |line: String, key: &str, value: String, expected: &str| ConfigError::Value {
            origin: format!("{line}: rule {number}"),
            key: key.to_owned(),
            value,
            expected: expected.to_owned(),
        };
        let first = file.line(value.span());
        let table = value.get_ref().as_table().ok_or_else(|| {
            wrong(
                first.clone(),
                "rule",
                file.plain(value),
                "a table, as [[rule]]",
            )
        })?;
        let mut rule = Self::default();
        for (key, place, value) in in_order(table) {
            let line = file.line(place);
            if !RULE_KEYS.contains(&key) {
                let hint = if KEYS.iter().any(|known| known.name == key) {
                    "; it is a key of the relay: move it above the first [[rule]]".to_owned()
                } else {
                    hint(key, RULE_KEYS)
                };
                return Err(ConfigError::Key {
                    origin: format!("{line}: rule {number}"),
                    key: key.to_owned(),
                    hint,
                });
            }
            let list = match value.get_ref() {
                DeValue::String(text) => vec![text.to_string()],
                DeValue::Array(list) => (list.iter())
                    .map(|text| text.get_ref().as_str().map(str::to_owned))
                    .collect::<Option<Vec<_>>>()
                    .unwrap_or_default(),
                _ => Vec::new(),
            };
            if list.is_empty() || list.iter().any(String::is_empty) {
                return Err(wrong(
                    line,
                    key,
                    file.plain(value),
                    "a text, or a list of texts",
                ));
            }
            let access = || {
                let one = |text: &String| match text.as_str() {
                    "read" => Some(Access::Read),
                    "put" => Some(Access::Put),
                    _ => None,
                };
                list.iter()
                    .map(one)
                    .collect::<Option<Vec<_>>>()
                    .ok_or_else(|| wrong(line.clone(), key, list.join(" "), "read, put or both"))
            };
            match key {
                "user" => rule.users = list,
                "group" => rule.groups = list,
                "pv" => rule.pvs = list,
                "pv_regex" => rule.regexes = list,
                "allow" => rule.allow = access()?,
                _ => rule.deny = access()?,
            }
        }
        let wrong = |expected: &str| wrong(first.clone(), "rule", rule.to_string(), expected);
        if rule.pvs.is_empty() && rule.regexes.is_empty() {
            return Err(wrong("pv or pv_regex in it; pv = \"*\" is every PV"));
        }
        if rule.allow.is_empty() && rule.deny.is_empty() {
            return Err(wrong("allow or deny in it"));
        }
        if rule.allow.iter().any(|access| rule.deny.contains(access)) {
            return Err(wrong("no access both in allow and in deny"));
        }
        rule.origin = format!("{}: rule {number}", file.path);
        Ok(rule)
    }
}
