//! PV names as clients of PVWS write them, translated to the relay's names for the same PVs.

/// The source of a PV, on which some of its texts depend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// Channel Access.
    Ca,
    /// pvAccess.
    Pva,
    /// The relay itself: simulated and local PVs, and formulas.
    Relay,
}

impl Dialect {
    /// The dialect of a prefix of the relay's names; `None` for prefixes that this door doesn't serve.
    #[must_use]
    pub fn of(scheme: &str) -> Option<Self> {
        match scheme {
            "ca" => Some(Self::Ca),
            "pva" => Some(Self::Pva),
            "psim" | "loc" | "sys" | "eq" => Some(Self::Relay),
            _ => None,
        }
    }
}

/// A PV by the relay's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The name with its prefix.
    pub name: String,
    /// Its prefix.
    pub scheme: &'static str,
    /// The source that it comes from.
    pub dialect: Dialect,
}

/// The PV that a client means; `None` when this door can't serve the name. PVWS doesn't answer such names.
#[must_use]
pub fn target(asked: &str, default: Dialect) -> Option<Target> {
    let asked = asked.trim();
    let formula = asked
        .strip_prefix('=')
        .or_else(|| asked.strip_prefix("eq://"));
    let (scheme, rest) = match asked.split_once("://") {
        // A formula may contain names with prefixes.
        _ if let Some(formula) = formula => ("eq", formula.trim()),
        Some(("ca", rest)) => ("ca", rest),
        Some(("pva", rest)) => ("pva", rest),
        // The relay's own `sim://` has other arguments than that of Phoebus.
        Some(("sim", rest)) => ("psim", rest),
        Some(("loc", rest)) => ("loc", rest),
        Some(("sys", rest)) => ("sys", rest),
        Some(_) => return None,
        None if default == Dialect::Pva => ("pva", asked),
        None => ("ca", asked),
    };
    let rest = match scheme {
        "pva" => pva_path(rest)?,
        _ => rest.to_owned(),
    };
    if rest.is_empty() {
        return None;
    }
    Some(Target {
        name: format!("{scheme}://{rest}"),
        scheme,
        dialect: Dialect::of(scheme)?,
    })
}

/// The relay's name and field for `N`, `/N`, `N/field/sub` or `N?request=field(a.b)`; `None` for other requests.
fn pva_path(rest: &str) -> Option<String> {
    let rest = rest.strip_prefix('/').unwrap_or(rest);
    let Some((name, request)) = rest.split_once("?request=") else {
        return Some(rest.to_owned());
    };
    let name = escaped(name);
    let fields = request.strip_prefix("field(")?.strip_suffix(')')?;
    if fields.contains([',', '(', '[']) {
        return None;
    }
    let fields = fields.trim();
    if fields.is_empty() {
        return Some(name);
    }
    Some(format!("{name}/{}", fields.replace('.', "/")))
}

/// The relay's form of a name with slashes, which would otherwise precede the names of fields. Before a request, a
/// name has no fields. One that is escaped already stays as it is.
fn escaped(name: &str) -> String {
    name.replace('/', "%2F")
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
            ("pva://SR/X?request=field()", Some("pva://SR%2FX")),
            ("pva://SR/X?request=field(a.b)", Some("pva://SR%2FX/a/b")),
            ("pva://SR%2FX", Some("pva://SR%2FX")),
            ("", None),
            ("ca://", None),
            ("pva:///", None),
            ("sim://sine(0, 1, 2)", Some("psim://sine(0, 1, 2)")),
            ("loc://x<VInt>(3)", Some("loc://x<VInt>(3)")),
            ("loc://", None),
            ("sys://time", Some("sys://time")),
            ("=`X` + 1", Some("eq://`X` + 1")),
            ("= `pva://X` ", Some("eq://`pva://X`")),
            ("eq://1+1", Some("eq://1+1")),
            ("=", None),
            ("psim://sine", None),
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
