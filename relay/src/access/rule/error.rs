//! Why rules can't take effect: what operators read at the start, after a reload and from `check`.

use thiserror::Error;

use super::pvlist::PvListError;
use super::security::SecurityError;

/// The operator's rules, pvlist or access security file can't be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RulesError {
    /// A `pv_regex` isn't a regular expression, or takes too much memory.
    #[error("{rule}: pv_regex {expression:?}: {reason}")]
    Regex {
        /// Where the rule stands.
        rule: String,
        /// The expression.
        expression: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A rule allows puts, and the relay takes none.
    #[error(
        "{rule}: it allows puts, which has no effect without enable_put: set enable_put = true above the first \
         [[rule]], or remove put from the rule"
    )]
    PutsOff {
        /// Where the rule stands.
        rule: String,
    },
    /// A file can't be read.
    #[error("{path}: {cause}")]
    Read {
        /// The file.
        path: String,
        /// Why.
        cause: String,
    },
    /// The pvlist can't be used.
    #[error(transparent)]
    PvList(#[from] PvListError),
    /// The access security file can't be used.
    #[error(transparent)]
    Security(#[from] SecurityError),
}
