//! The names by which rules know a PV: its record and field, without channel filters and array
//! ranges.

use std::borrow::Cow;

use crate::ingest::pva::name::{escaped, split};

/// A PV's name as rules see it.
pub(super) struct Names<'a> {
    pub(super) scheme: &'a str,
    /// The name as the relay writes it: a slash in the name of a pvAccess PV is escaped.
    pub(super) name: Cow<'a, str>,
    /// The same without escapes.
    pub(super) plain: Cow<'a, str>,
    /// Length of the PV's own name, without the path of a field, in `name` and in `plain`.
    own: (usize, usize),
    /// The name had channel filters or an array range.
    pub(super) has_modifiers: bool,
}

impl<'a> Names<'a> {
    pub(super) fn new(scheme: &'a str, name: &'a str) -> Self {
        if scheme != "pva" {
            let plain = without_modifiers(name);
            return Self {
                scheme,
                name: Cow::Borrowed(plain),
                plain: Cow::Borrowed(plain),
                own: (plain.len(), plain.len()),
                has_modifiers: plain.len() < name.len(),
            };
        }
        let (channel, path) = split(name);
        let plain = without_modifiers(&channel);
        let escaped = escaped(plain);
        let with_path = |own: &str| match path {
            "" => own.to_owned(),
            path => format!("{own}/{path}"),
        };
        Self {
            scheme,
            name: Cow::Owned(with_path(&escaped)),
            plain: Cow::Owned(with_path(plain)),
            own: (escaped.len(), plain.len()),
            has_modifiers: plain.len() < channel.len(),
        }
    }

    /// The name, and those of the structure, the field and the record that it belongs to; each also without
    /// escapes.
    pub(super) fn with_owners(&self) -> impl Iterator<Item = Cow<'_, str>> {
        let escaped = owners(&self.name, self.own.0);
        let is_same = self.name == self.plain;
        escaped.chain(
            (!is_same)
                .then(|| owners(&self.plain, self.own.1))
                .into_iter()
                .flatten(),
        )
    }
}

/// A name, and those of the structure, the field and the record that it belongs to. `own` is the length of the
/// structure's name.
fn owners(name: &str, own: usize) -> impl Iterator<Item = Cow<'_, str>> {
    let structure = name.get(..own).unwrap_or(name);
    let field = structure.strip_suffix('$').unwrap_or(structure);
    let record = field.split('.').next().unwrap_or(field);
    // A record by itself means its field VAL.
    let value = (field.trim_end_matches('.') == record).then(|| format!("{record}.VAL"));
    let mut last = None;
    let names = [name, structure, field, record];
    names
        .into_iter()
        .filter(move |name| last.replace(*name) != Some(name))
        .map(Cow::Borrowed)
        .chain(value.map(Cow::Owned))
}

/// The record and field of a channel's name. After the field an IOC accepts an array range,
/// `[0:9]`, and channel filters, `{"ts":{}}`. A record's name may contain brackets, but no dot.
fn without_modifiers(channel: &str) -> &str {
    let Some(dot) = channel.find('.') else {
        return channel;
    };
    let is_field = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let field = channel[dot + 1..].trim_start_matches(is_field);
    let rest = field.strip_prefix('$').unwrap_or(field);
    if !rest.starts_with(['[', '{']) {
        return channel;
    }
    let plain = &channel[..channel.len() - rest.len()];
    plain.strip_suffix('.').unwrap_or(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_see_a_slash_of_a_name_with_and_without_its_escape() {
        for asked in ["SR%2FX.VAL/value", "SR%2fX.VAL/value"] {
            let names = Names::new("pva", asked);
            assert_eq!(names.name, "SR%2FX.VAL/value");
            assert_eq!(names.plain, "SR/X.VAL/value");
            let owners: Vec<_> = names.with_owners().collect();
            let expected = [
                "SR%2FX.VAL/value",
                "SR%2FX.VAL",
                "SR%2FX",
                "SR/X.VAL/value",
                "SR/X.VAL",
                "SR/X",
            ];
            assert_eq!(owners, expected);
        }
        let names = Names::new("pva", "SR/X");
        assert!(names.with_owners().any(|owner| owner == "SR"), "a field");
    }

    #[test]
    fn rules_see_names_without_modifiers() {
        for (scheme, name, plain) in [
            ("ca", "R.VAL{\"ts\":{}/*:SET*/}", "R.VAL"),
            ("ca", "R.VAL[0:1]{\"ts\":{}}", "R.VAL"),
            ("ca", "R.DESC${\"ts\":{}}", "R.DESC$"),
            ("ca", "R.{\"ts\":{}}", "R"),
            ("ca", "R.[1]", "R"),
            ("pva", "R.VAL{\"ts\":{}/*:SET*/}", "R.VAL/*:SET*/}"),
            ("pva", "R.VAL{}/value", "R.VAL/value"),
            // Brackets in the record's name, and names that no record has.
            ("ca", "SR{PS:1}I.VAL", "SR{PS:1}I.VAL"),
            ("ca", "SR{PS:1}I", "SR{PS:1}I"),
            ("ca", "SR{PS:1}I.VAL{}", "SR{PS:1}I.VAL"),
            ("pva", "X.Y:Z{1}", "X.Y:Z{1}"),
            ("pva", "X[1]/a.b{c}", "X[1]/a.b{c}"),
            ("ca", "R.VAL$", "R.VAL$"),
            ("ca", "R.", "R."),
        ] {
            let names = Names::new(scheme, name);
            assert_eq!(names.name, plain, "{name}");
            assert_eq!(names.has_modifiers, plain != name, "{name}");
        }
    }
}
