//! The past of PVs: a ring of compressed samples for each PV that is monitored.
//!
//! A sink of the ticker passes each tick's changes to one thread, which appends them to the rings, compresses full
//! chunks and evicts the oldest ones. So the tick thread pays for one queue entry per tick. Values that are numbers or
//! short texts are kept; arrays, structures and images are not.

mod bits;
mod chunk;
mod column;
/// The past on a disk: segment files that are only appended to, and what is read from them at the start.
mod disk {
    pub(super) mod batch;
    pub(super) mod folder;
    pub(super) mod restore;
}
mod follower;
mod journal;
mod numbering;
mod part;
mod range;
mod ring;
pub mod rows;
mod sequel;
mod store;
#[cfg(test)]
mod tests;
mod thin;

use std::sync::Arc;
use std::time::Duration;

use pvwire_schema::types::{Alarm, Skips};
use wildmatch::WildMatch;

use crate::config::HistoryRule;

pub use self::disk::folder::FolderError;
pub use self::follower::{History, HistorySink, RunningHistory};
pub use self::numbering::AbsentCause;
pub use self::part::{PastPart, PastPlace, PastWanted, PlaceLost};
pub use self::range::PastRange;
pub use self::sequel::{Sequel, SequelPart};
pub use self::thin::Thinner;

/// Longest text that is kept, in bytes; a PV with longer ones has gaps in its past.
pub const MAX_TEXT_BYTES: usize = 256;

/// A value of the past.
#[derive(Clone, Debug, PartialEq)]
pub enum PastValue {
    /// A number, or an enum's index.
    Number(f64),
    /// An integer outside ±2^53.
    Int64(i64),
    /// See `Int64`.
    UInt64(u64),
    /// A text of at most [`MAX_TEXT_BYTES`].
    Text(Arc<str>),
}

impl PastValue {
    /// Whether all bits are equal: not a number is the same as itself, and 0 is not the same as -0.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Number(one), Self::Number(other)) => one.to_bits() == other.to_bits(),
            (one, other) => one == other,
        }
    }

    fn text_bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            _ => 0,
        }
    }
}

/// An update of the past.
#[derive(Clone, Debug, PartialEq)]
pub struct PastSample {
    /// Nanoseconds past the POSIX epoch, as the IOC stamped it.
    pub time_ns: i64,
    /// The value.
    pub value: PastValue,
    /// Alarm severity and condition.
    pub alarm: Alarm,
    /// Updates that were left out just before this one, by cause.
    pub skips: Skips,
}

/// Why the relay received no updates for a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GapCause {
    /// The PV was disconnected, its server did not respond, or it sent no value, as without read access.
    Disconnected,
    /// No client had the PV, so it was not monitored.
    NotMonitored,
    /// The relay was too slow to keep the updates.
    Lost,
}

impl GapCause {
    /// All causes.
    const ALL: [Self; 3] = [Self::Disconnected, Self::NotMonitored, Self::Lost];

    /// The cause with this name.
    #[must_use]
    pub fn of_token(token: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|cause| cause.token() == token)
    }

    /// Its name on the wire and in texts.
    #[must_use]
    pub fn token(self) -> &'static str {
        match self {
            Self::Disconnected => "disconnected",
            Self::NotMonitored => "not monitored",
            Self::Lost => "lost",
        }
    }
}

/// A time without updates because the relay received or kept none: by its clock, but later where the IOC's clock is ahead, so
/// that it follows the last update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PastGap {
    /// Its cause.
    pub cause: GapCause,
    /// Its begin, in nanoseconds past the POSIX epoch.
    pub from_ns: i64,
    /// The same; `None`: it has not ended.
    pub to_ns: Option<i64>,
}

/// The samples of a thinned range that stand for all updates of an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PastBin {
    /// Its samples follow those of the bin before: first, smallest, largest and last, and the first that isn't
    /// a finite number, each once.
    pub samples: u32,
    /// Updates that they stand for.
    pub updates: u32,
    /// The most severe alarm of these updates.
    pub worst: Alarm,
    /// Updates left out within it, by cause.
    pub skips: Skips,
}

/// An update among those of its PV, as clients number them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Changes when the PV begins again.
    pub epoch: u32,
    /// Counts the PV's updates within its epoch.
    pub sequence: u32,
}

impl Position {
    /// The update after this one and after `skipped` further ones.
    #[must_use]
    pub fn following(self, skipped: u32) -> Self {
        let sequence = self.sequence.wrapping_add(1).wrapping_add(skipped);
        Self { sequence, ..self }
    }

    /// Whether it comes after another one of its PV. Epochs are numbered in their order; numbers wrap around.
    #[must_use]
    pub fn is_after(self, other: Self) -> bool {
        let (one, other) = match self.epoch == other.epoch {
            true => (self.sequence, other.sequence),
            false => (self.epoch, other.epoch),
        };
        one.wrapping_sub(other).cast_signed() > 0
    }

    /// How many updates it is ahead of another one of its epoch; 0 if it is not after it.
    fn ahead_of(self, other: Self) -> u32 {
        match self.is_after(other) {
            true => self.sequence.wrapping_sub(other.sequence),
            false => 0,
        }
    }
}

/// What is kept.
#[derive(Clone, Debug)]
pub struct HistoryOptions {
    rules: Vec<(WildMatch, HistoryRule)>,
    max_bytes: usize,
}

/// For how long every PV is kept that is monitored and fits no pattern.
pub const DEFAULT_KEEP: Duration = Duration::from_secs(600);

impl HistoryOptions {
    /// The first rule whose pattern fits a PV decides; without one, [`DEFAULT_KEEP`]. `max_bytes` bounds all rings.
    #[must_use]
    pub fn new(rules: &[HistoryRule], max_bytes: usize) -> Self {
        let compiled = |rule: &HistoryRule| (WildMatch::new(&rule.pattern), rule.clone());
        Self {
            rules: rules.iter().map(compiled).collect(),
            max_bytes,
        }
    }

    /// Whether anything is kept.
    #[must_use]
    pub fn is_on(&self) -> bool {
        // Rules behind one that fits every PV decide nothing.
        let all = self.rules.iter().position(|(_, rule)| rule.pattern == "*");
        let rules = &self.rules[..all.map_or(self.rules.len(), |all| all + 1)];
        let keeps = rules.iter().any(|(_, rule)| !rule.keep.is_zero());
        self.max_bytes > 0 && (keeps || all.is_none())
    }

    /// For how long a PV is kept, and whether it stays monitored for that.
    fn of(&self, name: &str) -> (Duration, bool) {
        let plain = name.split_once("://").map_or(name, |(_, plain)| plain);
        let fits = |(pattern, _): &&(WildMatch, HistoryRule)| {
            pattern.matches(name) || pattern.matches(plain)
        };
        let rule = self.rules.iter().find(fits);
        rule.map_or((DEFAULT_KEEP, false), |(_, rule)| {
            (rule.keep, !rule.keep.is_zero())
        })
    }

    /// For how long any PV is kept at most.
    fn longest(&self) -> Duration {
        let rules = self.rules.iter().map(|(_, rule)| rule.keep);
        rules.fold(DEFAULT_KEEP, Duration::max)
    }

    /// The names among the patterns, which are monitored from the start.
    fn names(&self) -> impl Iterator<Item = &str> {
        let names = self.rules.iter().map(|(_, rule)| rule);
        let names = names.filter(|rule| !rule.keep.is_zero() && !rule.pattern.contains(['*', '?']));
        names.map(|rule| rule.pattern.as_str())
    }
}
