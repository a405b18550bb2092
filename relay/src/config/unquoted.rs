//! Texts without quotes in the configuration file, which isn't TOML then: says which line lacks them.

use std::ops::Range;

use toml::de::DeTable;

use super::key::KEYS;
use super::{Config, ConfigError};

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
