//! Reads the `[[rule]]` tables of the configuration file.

use std::fmt;

use toml::Spanned;
use toml::de::DeValue;

use super::ConfigError;
use super::error::hint;
use super::file::{File, in_order};
use super::key::KEYS;

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

/// A rule as it is written in the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleText {
    /// The file and the rule's number.
    pub origin: String,
    /// Users that it applies to; `*` for every user who is not anonymous. Without users and groups it
    /// applies to everyone.
    pub users: Vec<String>,
    /// Groups that it applies to.
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

/// Where a rule was read from, for its errors.
struct Origin<'a> {
    file: File<'a>,
    /// Number of the rule in the file, from 1.
    number: usize,
    /// The rule's first line.
    first: String,
}

impl Origin<'_> {
    fn wrong(&self, line: &str, key: &str, value: String, expected: &str) -> ConfigError {
        ConfigError::Value {
            origin: format!("{line}: rule {}", self.number),
            key: key.to_owned(),
            value,
            expected: expected.to_owned(),
        }
    }

    fn unknown(&self, line: &str, key: &str) -> ConfigError {
        let hint = if KEYS.iter().any(|known| known.name == key) {
            "; it is a key of the relay: move it above the first [[rule]]".to_owned()
        } else {
            hint(key, RULE_KEYS)
        };
        ConfigError::Key {
            origin: format!("{line}: rule {}", self.number),
            key: key.to_owned(),
            hint,
        }
    }

    /// One text or several.
    fn texts(
        &self,
        line: &str,
        key: &str,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<Vec<String>, ConfigError> {
        let list = match value.get_ref() {
            DeValue::String(text) => vec![text.to_string()],
            DeValue::Array(list) => (list.iter())
                .map(|text| text.get_ref().as_str().map(str::to_owned))
                .collect::<Option<Vec<_>>>()
                .unwrap_or_default(),
            _ => Vec::new(),
        };
        if list.is_empty() || list.iter().any(String::is_empty) {
            let value = self.file.plain(value);
            return Err(self.wrong(line, key, value, "a text, or a list of texts"));
        }
        Ok(list)
    }

    fn access(&self, line: &str, key: &str, list: &[String]) -> Result<Vec<Access>, ConfigError> {
        let one = |text: &String| match text.as_str() {
            "read" => Some(Access::Read),
            "put" => Some(Access::Put),
            _ => None,
        };
        let access: Option<Vec<_>> = list.iter().map(one).collect();
        access.ok_or_else(|| self.wrong(line, key, list.join(" "), "read, put or both"))
    }
}

impl RuleText {
    /// Reads one `[[rule]]` of a file.
    pub(super) fn read(
        file: File<'_>,
        number: usize,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<Self, ConfigError> {
        let origin = Origin {
            file,
            number,
            first: file.line(value.span()),
        };
        let table = value.get_ref().as_table().ok_or_else(|| {
            let value = file.plain(value);
            origin.wrong(&origin.first, "rule", value, "a table, as [[rule]]")
        })?;
        let mut rule = Self::default();
        for (key, span, value) in in_order(table) {
            let line = file.line(span);
            if !RULE_KEYS.contains(&key) {
                return Err(origin.unknown(&line, key));
            }
            let list = origin.texts(&line, key, value)?;
            match key {
                "user" => rule.users = list,
                "group" => rule.groups = list,
                "pv" => rule.pvs = list,
                "pv_regex" => rule.regexes = list,
                "allow" => rule.allow = origin.access(&line, key, &list)?,
                _ => rule.deny = origin.access(&line, key, &list)?,
            }
        }
        if let Some(expected) = rule.missing() {
            return Err(origin.wrong(&origin.first, "rule", rule.to_string(), expected));
        }
        rule.origin = format!("{}: rule {number}", file.path);
        Ok(rule)
    }

    /// What the rule lacks.
    fn missing(&self) -> Option<&'static str> {
        if self.pvs.is_empty() && self.regexes.is_empty() {
            Some("pv or pv_regex in it; pv = \"*\" is every PV")
        } else if self.allow.is_empty() && self.deny.is_empty() {
            Some("allow or deny in it")
        } else if self.allow.iter().any(|access| self.deny.contains(access)) {
            Some("no access both in allow and in deny")
        } else {
            None
        }
    }
}
