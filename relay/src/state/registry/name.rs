//! Names of PVs as clients write them, and why a name is refused.

use pvwire_schema::limits::MAX_NAME_BYTES;
use pvwire_schema::types::{NameProblem, Outcome};

use super::Registry;
use crate::ingest::{OpEnd, OpenError};
use crate::limits::memory::TooMuch;

/// Longest name of a source that an error repeats.
const MAX_SCHEME_CHARS: usize = 32;

/// Sources whose names may contain blanks between their arguments.
const WITH_BLANKS: [&str; 6] = ["sim", "ssim", "psim", "loc", "sys", "eq"];

/// Why a name is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// For programs.
    pub problem: NameProblem,
    /// For users.
    pub message: String,
}

impl From<TooMuch> for Refusal {
    fn from(too_much: TooMuch) -> Self {
        Self {
            problem: NameProblem::TooManyPvs,
            message: too_much.to_string(),
        }
    }
}

impl From<OpenError> for Refusal {
    fn from(error: OpenError) -> Self {
        Self {
            problem: NameProblem::BadName,
            message: error.to_string(),
        }
    }
}

impl From<NameError> for Refusal {
    fn from(error: NameError) -> Self {
        Self {
            problem: match error {
                NameError::NoSuchSource { .. } => NameProblem::NoSuchSource,
                _ => NameProblem::BadName,
            },
            message: error.to_string(),
        }
    }
}

impl Refusal {
    /// The same for programs that ask for one thing.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match self.problem {
            NameProblem::NotAllowed => Outcome::NotAllowed,
            _ => Outcome::BadName,
        }
    }
}

impl From<Refusal> for OpEnd {
    fn from(refusal: Refusal) -> Self {
        Self::failed(refusal.outcome(), refusal.message)
    }
}

impl Registry {
    /// One name for all spellings of a PV: without a source if it is the default one. `None` if the name is invalid.
    pub fn plain_name(&self, name: &str) -> Option<String> {
        let named = self.named(name).ok()?;
        let is_plain = named.scheme == self.default_scheme && !named.key.contains("://");
        Some(if is_plain {
            named.key.to_owned()
        } else {
            named.whole()
        })
    }
}

/// What is wrong with a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NameError {
    #[error("a PV name can't be empty")]
    Empty,
    #[error("a PV name has at most {MAX_NAME_BYTES} bytes, not {0}")]
    TooLong(usize),
    #[error("a PV name can't hold {0:?}")]
    Character(char),
    #[error("no source {scheme:?}; this relay has: {known}")]
    NoSuchSource { scheme: String, known: String },
}

impl NameError {
    /// `scheme` is unknown. Only its beginning is repeated, because a client wrote it.
    pub(super) fn no_such_source(scheme: &str, known: &[&str]) -> Self {
        Self::NoSuchSource {
            scheme: scheme.chars().take(MAX_SCHEME_CHARS).collect(),
            known: known.join(", "),
        }
    }
}

/// Scheme and name without it. A request may have ten thousand names.
pub(super) fn split<'a>(
    name: &'a str,
    default_scheme: &'a str,
) -> Result<(&'a str, &'a str), NameError> {
    let mut colons = name.match_indices(':');
    let (scheme, bare) = match colons.find(|(at, _)| name[*at..].starts_with("://")) {
        Some((at, separator)) => (&name[..at], &name[at + separator.len() + 2..]),
        None => (default_scheme, name),
    };
    if bare.is_empty() {
        return Err(NameError::Empty);
    }
    if bare.len() > MAX_NAME_BYTES {
        return Err(NameError::TooLong(bare.len()));
    }
    if bare.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok((scheme, bare));
    }
    let is_bad = |c: &char| {
        let blank = *c == ' ' && WITH_BLANKS.contains(&scheme);
        !blank && (c.is_whitespace() || c.is_control())
    };
    match bare.chars().find(is_bad) {
        Some(bad) => Err(NameError::Character(bad)),
        None => Ok((scheme, bare)),
    }
}
