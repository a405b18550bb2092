//! A handover: another line takes a PV over from the line that feeds it, without a gap.

use std::sync::OnceLock;

use pvwire_schema::types::Expected;

/// How the numbers of a line differ from those that clients see, which continue those of the line before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shift {
    /// Epoch of the line.
    pub from: u32,
    /// Epoch that clients see.
    pub epoch: u32,
    /// What is added to the line's sequence.
    pub offset: u32,
}

impl Shift {
    /// A line's update as clients see it.
    #[must_use]
    pub fn shown(&self, update: Expected) -> Expected {
        if update.epoch != self.from {
            return update;
        }
        Expected {
            sequence: update.sequence.wrapping_add(self.offset),
            epoch: self.epoch,
        }
    }

    /// An update that clients see, in the numbers of the line.
    #[must_use]
    pub fn of_line(&self, update: Expected) -> Expected {
        if update.epoch != self.epoch {
            return update;
        }
        Expected {
            sequence: update.sequence.wrapping_sub(self.offset),
            epoch: self.from,
        }
    }
}

/// Tells who began it when the new line feeds the PV.
#[derive(Debug, Default)]
pub struct Handover(OnceLock<Shift>);

impl Handover {
    /// The new line feeds the PV from now on.
    pub fn finish(&self, shift: Shift) {
        // It finishes once.
        let _ = self.0.set(shift);
    }

    /// Set when the new line feeds the PV.
    #[must_use]
    pub fn shift(&self) -> Option<Shift> {
        self.0.get().copied()
    }
}
