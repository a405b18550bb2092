//! What may a `[[rule]]` of the file say?

use std::fmt::{self};

use super::ConfigError;

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
    /// Reads one `[[rule]]` of a file.
    pub(super) fn read(origin: String, value: &toml::Value) -> Result<Self, ConfigError> {
        let wrong = |key: &str, value: String, expected: &str| ConfigError::Value {
            origin: origin.clone(),
            key: key.to_owned(),
            value,
            expected: expected.to_owned(),
        };
        let table = value
            .as_table()
            .ok_or_else(|| wrong("rule", value.to_string(), "a table, as [[rule]]"))?;
        let mut rule = Self::default();
        for (key, value) in table {
            let list = match value {
                toml::Value::String(text) => vec![text.clone()],
                toml::Value::Array(list) => (list.iter())
                    .map(|text| text.as_str().map(str::to_owned))
                    .collect::<Option<Vec<_>>>()
                    .unwrap_or_default(),
                _ => Vec::new(),
            };
            if list.is_empty() || list.iter().any(String::is_empty) {
                return Err(wrong(key, value.to_string(), "a text, or a list of texts"));
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
                    .ok_or_else(|| wrong(key, list.join(" "), "read, put or both"))
            };
            match key.as_str() {
                "user" => rule.users = list,
                "group" => rule.groups = list,
                "pv" => rule.pvs = list,
                "pv_regex" => rule.regexes = list,
                "allow" => rule.allow = access()?,
                "deny" => rule.deny = access()?,
                _ => {
                    return Err(ConfigError::Key {
                        origin,
                        key: key.clone(),
                        known: "user, group, pv, pv_regex, allow, deny".into(),
                    });
                }
            }
        }
        let text = rule.to_string();
        if rule.pvs.is_empty() && rule.regexes.is_empty() {
            return Err(wrong(
                "rule",
                text,
                "pv or pv_regex in it; pv = \"*\" is every PV",
            ));
        }
        if rule.allow.is_empty() && rule.deny.is_empty() {
            return Err(wrong("rule", text, "allow or deny in it"));
        }
        if rule.allow.iter().any(|access| rule.deny.contains(access)) {
            return Err(wrong("rule", text, "no access both in allow and in deny"));
        }
        rule.origin = origin;
        Ok(rule)
    }
}
