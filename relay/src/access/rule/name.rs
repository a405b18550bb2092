//! The names by which rules know a PV: its record and field, without channel filters and array
//! ranges.

use std::borrow::Cow;

/// A PV's name as rules see it.
pub(super) struct Names<'a> {
    pub(super) scheme: &'a str,
    pub(super) name: Cow<'a, str>,
    /// The name had channel filters or an array range.
    pub(super) has_modifiers: bool,
}

impl<'a> Names<'a> {
    pub(super) fn new(scheme: &'a str, name: &'a str) -> Self {
        let (channel, path) = match name.find('/') {
            Some(at) if scheme == "pva" => name.split_at(at),
            _ => (name, ""),
        };
        let plain = without_modifiers(channel);
        let has_modifiers = plain.len() < channel.len();
        let name = if has_modifiers && !path.is_empty() {
            Cow::Owned(format!("{plain}{path}"))
        } else {
            Cow::Borrowed(if has_modifiers { plain } else { name })
        };
        Self {
            scheme,
            name,
            has_modifiers,
        }
    }

    /// The name, and those of the structure, the field and the record that it belongs to.
    pub(super) fn with_owners(&self) -> impl Iterator<Item = Cow<'_, str>> {
        let until = |name, mark| str::split(name, mark).next().unwrap_or(name);
        let name = &*self.name;
        let structure = match self.scheme {
            "pva" => until(name, '/'),
            _ => name,
        };
        let field = structure.strip_suffix('$').unwrap_or(structure);
        let record = until(field, '.');
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
