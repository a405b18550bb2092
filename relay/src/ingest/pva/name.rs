//! Names of pvAccess PVs: `NAME`, or `NAME/a/b` for the field `a.b` of the structure `NAME`.
//!
//! A slash that belongs to the PV's own name is written `%2F`, and `%25` is a percent sign before `2F` or `25`.

use std::borrow::Cow;

/// The PV's own name, and the path of a field, empty for the whole structure.
#[must_use]
pub fn split(name: &str) -> (Cow<'_, str>, &str) {
    let (structure, path) = name.split_once('/').unwrap_or((name, ""));
    (unescaped(structure), path)
}

/// A PV's own name, without escapes.
#[must_use]
pub fn unescaped(name: &str) -> Cow<'_, str> {
    if !name.contains("%2") {
        return Cow::Borrowed(name);
    }
    let mut plain = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(at) = rest.find('%') {
        let (before, escape) = rest.split_at(at);
        plain.push_str(before);
        let (read, length) = match escape.get(..3) {
            Some("%2F" | "%2f") => ('/', 3),
            Some("%25") => ('%', 3),
            _ => ('%', 1),
        };
        plain.push(read);
        rest = &escape[length..];
    }
    plain.push_str(rest);
    Cow::Owned(plain)
}

/// A PV's own name as the relay's names have it: the inverse of [`unescaped`].
#[must_use]
pub fn escaped(plain: &str) -> Cow<'_, str> {
    if !plain.contains(['/', '%']) {
        return Cow::Borrowed(plain);
    }
    let mut name = String::with_capacity(plain.len() + 2);
    for (at, character) in plain.char_indices() {
        let is_escape = || matches!(plain.get(at..at + 3), Some("%2F" | "%2f" | "%25"));
        match character {
            '/' => name.push_str("%2F"),
            '%' if is_escape() => name.push_str("%25"),
            other => name.push(other),
        }
    }
    Cow::Owned(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slash_of_a_name_is_escaped_and_one_before_a_field_is_not() {
        for (name, plain, path) in [
            ("X", "X", ""),
            ("X/a/b", "X", "a/b"),
            ("SR%2FBPM:1", "SR/BPM:1", ""),
            ("SR%2fBPM:1/value", "SR/BPM:1", "value"),
            ("%2FX%2F", "/X/", ""),
            ("X%252F", "X%2F", ""),
            ("50%", "50%", ""),
            ("50%20", "50%20", ""),
            ("µ%2", "µ%2", ""),
            ("X/a%2Fb", "X", "a%2Fb"),
        ] {
            let (structure, found) = split(name);
            assert_eq!((&*structure, found), (plain, path), "{name}");
            assert_eq!(unescaped(&escaped(plain)), plain, "{name}");
            assert!(!escaped(plain).contains('/'), "{name}");
        }
        assert_eq!(escaped("SR/BPM:1"), "SR%2FBPM:1");
        assert_eq!(escaped("50%"), "50%");
    }
}
