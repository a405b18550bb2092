//! How the samples of a ring are numbered among the updates of their PV, and which updates are missing between them.

use super::Position;

/// Why an update is not in a sequel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AbsentCause {
    /// It was kept, but not for long enough.
    Evicted,
    /// Values of its kind are not kept, or nothing is kept of the PV.
    NotKept,
    /// It is the one before it, which its server sent again when it was connected.
    Repeated,
    /// The relay was too slow to keep it.
    Lost,
    /// No client had the PV, so it was not monitored.
    NotMonitored,
}

impl AbsentCause {
    /// Its name on the wire.
    #[must_use]
    pub fn token(self) -> &'static str {
        match self {
            Self::Evicted => "evicted",
            Self::NotKept => "not kept",
            Self::Repeated => "repeated",
            Self::Lost => "lost",
            Self::NotMonitored => "not monitored",
        }
    }
}

/// Updates that a ring doesn't have between two that follow each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LeftOut {
    pub(super) lost: u32,
    not_kept: u32,
    repeated: u32,
    opening: Opening,
}

/// Whether a PV was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Opening {
    #[default]
    No,
    /// It has no epoch yet.
    Unnumbered,
    /// By its first epoch.
    In(u32),
}

impl LeftOut {
    /// The PV is opened.
    pub(super) fn opened(self) -> Self {
        Self {
            opening: Opening::Unnumbered,
            ..self
        }
    }

    /// An epoch begins.
    pub(super) fn begin_epoch(&mut self, epoch: u32) {
        if self.opening == Opening::Unnumbered {
            self.opening = Opening::In(epoch);
        }
    }

    /// Whether the PV was opened after an update of this epoch.
    pub(super) fn is_opened_after(self, epoch: u32) -> bool {
        match self.opening {
            Opening::No => false,
            Opening::Unnumbered => true,
            Opening::In(first) => first.wrapping_sub(epoch).cast_signed() > 0,
        }
    }

    /// Adds updates whose values are not kept.
    pub(super) fn add_unkept(&mut self, updates: u32) {
        self.not_kept = self.not_kept.saturating_add(updates);
    }

    /// Adds an update that repeats the one before it, and those that were skipped before it.
    pub(super) fn add_repeated(&mut self, skipped: u32) {
        self.repeated = self.repeated.saturating_add(1);
        self.lost = self.lost.saturating_add(skipped);
    }

    pub(super) fn counts(self) -> [(AbsentCause, u32); 3] {
        [
            (AbsentCause::NotKept, self.not_kept),
            (AbsentCause::Repeated, self.repeated),
            (AbsentCause::Lost, self.lost),
        ]
    }
}

/// The number of a row of a chunk that doesn't follow from the row before and its skips, or before which updates are
/// absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) row: u32,
    pub(super) position: Position,
    /// What the ring doesn't have before the row and its skips.
    pub(super) left_out: LeftOut,
    /// The row only says that values are not kept from here on.
    pub(super) is_stand_in: bool,
}
