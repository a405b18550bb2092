//! PV names as clients of PVWS write them, translated to the relay's names for the same PVs.

/// The source of a PV, on which some of its texts depend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// Channel Access.
    Ca,
    /// pvAccess.
    Pva,
}

impl Dialect {
    /// The dialect of a name prefix; `None` for prefixes that this door doesn't serve.
    #[must_use]
    pub fn of(scheme: &str) -> Option<Self> {
        match scheme {
            "ca" => Some(Self::Ca),
            "pva" => Some(Self::Pva),
            _ => None,
        }
    }

    /// The prefix of the relay's names for it.
    #[must_use]
    pub fn scheme(self) -> &'static str {
        match self {
            Self::Ca => "ca",
            Self::Pva => "pva",
        }
    }
}

/// A PV by the relay's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The name with its prefix.
    pub name: String,
    /// The source that it comes from.
    pub dialect: Dialect,
}

/// The PV that a client means; `None` when this door can't serve the name. PVWS doesn't answer such names.
#[must_use]
pub fn target(asked: &str, default: Dialect) -> Option<Target> {
    let asked = asked.trim();
    if asked.starts_with('=') {
        return None;
    }
    let (dialect, rest) = match asked.split_once("://") {
        Some((scheme, rest)) => (Dialect::of(scheme)?, rest),
        None => (default, asked),
    };
    let rest = match dialect {
        Dialect::Ca => rest.to_owned(),
        Dialect::Pva => pva_path(rest)?,
    };
    if rest.is_empty() {
        return None;
    }
    let name = format!("{}://{rest}", dialect.scheme());
    Some(Target { name, dialect })
}

/// The relay's name and field for `N`, `/N`, `N/field/sub` or `N?request=field(a.b)`; `None` for other requests.
fn pva_path(rest: &str) -> Option<String> {
    let rest = rest.strip_prefix('/').unwrap_or(rest);
    let Some((name, request)) = rest.split_once("?request=") else {
        return Some(rest.to_owned());
    };
    let fields = request.strip_prefix("field(")?.strip_suffix(')')?;
    if fields.contains([',', '(', '[']) {
        return None;
    }
    let fields = fields.trim();
    if fields.is_empty() {
        return Some(name.to_owned());
    }
    Some(format!("{name}/{}", fields.replace('.', "/")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_mean_what_they_mean_to_pvws() {
        for (asked, expected) in [
            ("X", Some("ca://X")),
            ("  X ", Some("ca://X")),
            ("ca://X", Some("ca://X")),
            ("X.EGU", Some("ca://X.EGU")),
            ("X.VAL$", Some("ca://X.VAL$")),
            (
                r#"X.{"dbnd":{"abs":1}}"#,
                Some(r#"ca://X.{"dbnd":{"abs":1}}"#),
            ),
            ("pva://X", Some("pva://X")),
            ("pva:///X", Some("pva://X")),
            ("pva://X/field/sub", Some("pva://X/field/sub")),
            ("pva://X?request=field(a.b)", Some("pva://X/a/b")),
            ("pva://X?request=field()", Some("pva://X")),
            ("", None),
            ("ca://", None),
            ("pva:///", None),
            ("nosuch://X", None),
            ("ssim://sine", None),
            ("dev://X", None),
        ] {
            let found = target(asked, Dialect::Ca).map(|target| target.name);
            assert_eq!(found.as_deref(), expected, "{asked:?}");
        }
    }

    #[test]
    fn default_type_is_an_option() {
        let target = target("X", Dialect::Pva).unwrap();
        assert_eq!((&*target.name, target.dialect), ("pva://X", Dialect::Pva));
    }
}
