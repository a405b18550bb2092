//! What `--version` prints: the relay's version, and those of the libraries that it was built with.

use std::sync::OnceLock;

static COMMIT: OnceLock<&str> = OnceLock::new();

/// Sets the commit that the program was built from. The program knows it, not this crate: a crate that contains the
/// commit is compiled again after each.
pub fn set_commit(commit: &'static str) {
    // Of two calls the first counts.
    let _ = COMMIT.set(commit);
}

/// Version of the relay, its commit if the program names it, and the versions of EPICS base and pvxs.
#[must_use]
pub fn version() -> String {
    let commit = COMMIT.get().map(|commit| format!("commit {commit}, "));
    format!(
        "{} ({}EPICS base {}, pvxs {})",
        env!("CARGO_PKG_VERSION"),
        commit.unwrap_or_default(),
        pvwire_epics::BASE_VERSION,
        pvwire_epics::PVXS_VERSION
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_those_of_the_relay_and_of_what_it_is_built_with() {
        let text = version();
        assert!(
            text.starts_with(concat!(env!("CARGO_PKG_VERSION"), " (")),
            "{text}"
        );
        assert!(!text.contains("unknown"), "{text}");
        let (_, libraries) = text
            .split_once("EPICS base ")
            .expect("the libraries follow");
        let (base, pvxs) = libraries.split_once(", pvxs ").expect("pvxs is last");
        assert!(base.starts_with(|c: char| c.is_ascii_digit()), "{text}");
        assert!(pvxs.starts_with(|c: char| c.is_ascii_digit()), "{text}");
    }
}
