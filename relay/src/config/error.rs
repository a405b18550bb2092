//! Why a configuration is refused, and the known name that an unknown one is most similar to.

use thiserror::Error;

/// Why the relay can't start with this configuration; one line that names the place, the value and what
/// was expected.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigError {
    /// A value doesn't fit its key.
    #[error("{origin}: {key} is {value:?}, expected {expected}")]
    Value {
        /// Where the value was set.
        origin: String,
        /// The key.
        key: String,
        /// The value.
        value: String,
        /// What would fit.
        expected: String,
    },
    /// An unknown key.
    #[error("{origin}: unknown key {key:?}{hint}")]
    Key {
        /// Where it was set.
        origin: String,
        /// The key.
        key: String,
        /// A similar key, or the list of all.
        hint: String,
    },
    /// An unknown environment variable.
    #[error("environment variable {name}: no such setting{hint}")]
    Variable {
        /// The variable.
        name: String,
        /// A similar variable, or where all are listed.
        hint: String,
    },
    /// The file can't be read.
    #[error("{path}: {reason}")]
    File {
        /// The file.
        path: String,
        /// Why.
        reason: String,
    },
    /// The command line can't be parsed.
    #[error("{0}")]
    Flags(String),
}

/// Names below this similarity (Jaro-Winkler, 1 is the same) are not suggested.
const LEAST_SIMILARITY: f64 = 0.85;

/// The most similar known name, if any is similar enough.
pub(super) fn similar<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_ascii_lowercase();
    let similarity = |known: &str| strsim::jaro_winkler(&name, &known.to_ascii_lowercase());
    let all = known.into_iter().map(|known| (similarity(known), known));
    let near = all.filter(|(similarity, _)| *similarity >= LEAST_SIMILARITY);
    let nearest = near.max_by(|(a, _), (b, _)| a.total_cmp(b));
    nearest.map(|(_, known)| known)
}

/// The end of an error about an unknown name: a similar name, or all known names.
pub(super) fn hint<'a>(name: &str, known: impl IntoIterator<Item = &'a str> + Clone) -> String {
    match similar(name, known.clone()) {
        Some(known) => format!("; did you mean {known:?}?"),
        None => {
            let known: Vec<_> = known.into_iter().collect();
            format!(", expected one of: {}", known.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_name_finds_a_similar_one_and_a_foreign_one_does_not() {
        let known = ["listen", "linger_ms", "allow_put", "allow_host"];
        for (name, meant) in [
            ("listn", Some("listen")),
            ("linger", Some("linger_ms")),
            ("LISTEN", Some("listen")),
            ("allow_hosts", Some("allow_host")),
            ("colour", None),
        ] {
            assert_eq!(similar(name, known), meant, "{name}");
        }
        assert_eq!(hint("listn", known), "; did you mean \"listen\"?");
        assert!(hint("colour", known).ends_with("linger_ms, allow_put, allow_host"));
    }
}
