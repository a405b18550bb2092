//! Reads the configuration file; errors name the line, also that of a text without quotes.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::hint;
use super::key::KEYS;
use super::{Config, ConfigError, RuleText};

/// The file's name and text.
#[derive(Clone, Copy)]
pub(super) struct File<'a> {
    pub(super) path: &'a str,
    pub(super) text: &'a str,
}

impl File<'_> {
    /// `FILE:LINE` of a range of the text.
    pub(super) fn line(&self, span: Range<usize>) -> String {
        let before = self.text.get(..span.start).unwrap_or(self.text);
        format!("{}:{}", self.path, 1 + before.matches('\n').count())
    }

    /// A value as a flag would have it: text without quotes, numbers as decimals.
    pub(super) fn plain(&self, value: &Spanned<DeValue<'_>>) -> String {
        if let DeValue::String(text) = value.get_ref() {
            return text.to_string();
        }
        let raw = self.text.get(value.span()).unwrap_or_default();
        let parsed = raw.parse::<toml::Value>();
        parsed.map_or_else(|_| raw.to_owned(), |value| value.to_string())
    }
}

/// The entries of a table in the order of the file.
pub(super) fn in_order<'a, 'i>(
    table: &'a DeTable<'i>,
) -> Vec<(&'a str, Range<usize>, &'a Spanned<DeValue<'i>>)> {
    let entries = table.iter();
    let mut entries: Vec<_> = entries
        .map(|(key, value)| (key.get_ref().as_ref(), key.span(), value))
        .collect();
    entries.sort_by_key(|(_, place, _)| place.start);
    entries
}

impl Config {
    /// Sets the values of the file.
    pub(super) fn apply_file(&mut self, file: File<'_>) -> Result<(), ConfigError> {
        let table = DeTable::parse(file.text).map_err(|error| {
            let lacks_quotes = error
                .span()
                .and_then(|place| unquoted(file.path, file.text, place));
            lacks_quotes.unwrap_or_else(|| ConfigError::File {
                path: error
                    .span()
                    .map_or_else(|| file.path.to_owned(), |place| file.line(place)),
                reason: error.message().lines().collect::<Vec<_>>().join(" "),
            })
        })?;
        for (name, place, value) in in_order(table.get_ref()) {
            let origin = file.line(place);
            if name == "rule" {
                let rules = value
                    .get_ref()
                    .as_array()
                    .ok_or_else(|| ConfigError::Value {
                        origin,
                        key: name.to_owned(),
                        value: file.plain(value),
                        expected: "tables, as [[rule]]".into(),
                    })?;
                self.rules = (1..)
                    .zip(rules.iter())
                    .map(|(number, rule)| RuleText::read(file, number, rule))
                    .collect::<Result<_, _>>()?;
                continue;
            }
            let Some(key) = KEYS.iter().find(|key| key.name == name) else {
                let known = KEYS.iter().map(|key| key.name).chain(["rule"]);
                return Err(ConfigError::Key {
                    origin,
                    key: name.to_owned(),
                    hint: hint(name, known),
                });
            };
            let values: Vec<String> = match value.get_ref() {
                DeValue::Array(list) if key.is_list() => {
                    list.iter().map(|one| file.plain(one)).collect()
                }
                DeValue::Table(table) if key.is_list() => {
                    let entries = in_order(table).into_iter();
                    let text = |(name, _, value)| format!("{name}={}", file.plain(value));
                    entries.map(text).collect()
                }
                _ => vec![file.plain(value)],
            };
            let values: Vec<_> = values.iter().map(String::as_str).collect();
            self.apply(&origin, key, &values)?;
        }
        Ok(())
    }
}

/// The error of a line `key = value` that would be valid with quotes around its value, or around the elements of a
/// list. `place`: where the parser failed.
pub(super) fn unquoted(path: &str, text: &str, place: Range<usize>) -> Option<ConfigError> {
    let before = text.get(..place.start)?;
    let begin = before.rfind('\n').map_or(0, |end| end + 1);
    let line = text[begin..].lines().next()?;
    let (name, value) = line.split_once('=')?;
    let (name, value) = (name.trim(), without_comment(value));
    let (quoted, values) = quoted(value)?;
    let line = format!("{name} = {quoted}");
    if DeTable::parse(&line).is_err() {
        return None;
    }
    let origin = format!("{path}:{}", 1 + before.matches('\n').count());
    if let Some(key) = KEYS.iter().find(|key| key.name == name) {
        let set = |value: &&str| (key.set)(&mut Config::default(), value).err();
        if let Some((value, expected)) = values.iter().find_map(|value| Some((*value, set(value)?)))
        {
            return Some(ConfigError::Value {
                origin,
                key: name.to_owned(),
                value: value.to_owned(),
                expected: expected.into_text(),
            });
        }
    }
    Some(ConfigError::File {
        path: origin,
        reason: format!("a text needs quotes: {line}"),
    })
}

fn without_comment(value: &str) -> &str {
    value.split(" #").next().unwrap_or(value).trim()
}

/// A value with the quotes that it lacks, and its texts; `None` if it lacks none.
fn quoted(value: &str) -> Option<(String, Vec<&str>)> {
    let has_quotes = |text: &str| text.contains(['"', '\'']);
    if value.is_empty() || value.starts_with('{') || has_quotes(value) {
        return None;
    }
    let quote = |text: &str| {
        if text.contains('\\') {
            format!("'{text}'")
        } else {
            format!("\"{text}\"")
        }
    };
    let list = value
        .strip_prefix('[')
        .and_then(|list| list.strip_suffix(']'));
    Some(match list {
        Some(list) => {
            let texts = list.split(',').map(str::trim);
            let texts: Vec<_> = texts.filter(|text| !text.is_empty()).collect();
            let quoted: Vec<_> = texts.iter().copied().map(quote).collect();
            (format!("[{}]", quoted.join(", ")), texts)
        }
        None => (quote(value), vec![value]),
    })
}
