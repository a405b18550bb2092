//! Which PVs does this relay take puts to?

use wildmatch::WildMatch;

/// What the operator allows. Nothing, unless puts are enabled and a pattern fits.
#[derive(Clone, Debug, Default)]
pub struct PutRules {
    enabled: bool,
    patterns: Vec<WildMatch>,
}

impl PutRules {
    /// Puts to PVs whose name fits one of `patterns`, if `enabled`. `*` stands for any characters,
    /// `?` for one; a pattern without `://` is for names of every source.
    #[must_use]
    pub fn new(enabled: bool, patterns: &[String]) -> Self {
        Self {
            enabled,
            patterns: patterns.iter().map(|text| WildMatch::new(text)).collect(),
        }
    }

    /// Whether puts to `scheme://name` are taken.
    #[must_use]
    pub fn allow(&self, scheme: &str, name: &str) -> bool {
        let whole = format!("{scheme}://{name}");
        self.enabled
            && self
                .patterns
                .iter()
                .any(|pattern| pattern.matches(name) || pattern.matches(&whole))
    }

    /// Why a put is not taken, for whoever asked and for the operator.
    #[must_use]
    pub fn why_not(&self) -> &'static str {
        if self.enabled {
            "no rule of this relay allows puts to this PV (allow_put)"
        } else {
            "this relay takes no puts (enable_put is off)"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(enabled: bool, patterns: &[&str]) -> PutRules {
        let patterns: Vec<_> = patterns.iter().map(|text| (*text).to_owned()).collect();
        PutRules::new(enabled, &patterns)
    }

    #[test]
    fn nothing_is_allowed_without_both_the_switch_and_a_rule() {
        assert!(!rules(false, &["*"]).allow("ca", "SR:I"));
        assert!(!rules(true, &[]).allow("ca", "SR:I"));
        assert!(rules(true, &["*"]).allow("ca", "SR:I"));
    }

    #[test]
    fn patterns_are_of_the_name_or_of_source_and_name() {
        let rules = rules(true, &["SR:?:SET", "pva://BL*"]);
        assert!(rules.allow("ca", "SR:1:SET"));
        assert!(rules.allow("pva", "SR:1:SET"));
        assert!(!rules.allow("ca", "SR:12:SET"));
        assert!(!rules.allow("ca", "SR:1:SETX"));
        assert!(rules.allow("pva", "BL7:MODE"));
        assert!(!rules.allow("ca", "BL7:MODE"));
    }
}
