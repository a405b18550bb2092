//! Suggests a known name for an unknown one.

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
