//! Rows of a PV that was just connected, which wait for its metadata.
//!
//! Some servers send the first value before the metadata. A value without choices, units and precision would be
//! wrong, so it waits, at most for [`METADATA_WAIT`], and the PV's reason says so. A PV that still has the value of the
//! connection before isn't shown as connected until the server has sent one.

use std::time::Duration;

use pvwire_schema::types::Metadata;

use crate::ingest::Row;

/// A PV that has sent metadata and no value within this time after it was connected is shown without a value: some
/// PVs never send more. One that has an old value remains disconnected, with the reason. Without metadata its reason
/// says so.
pub(super) const RETURN_WAIT: Duration = Duration::from_secs(1);

/// A PV that hasn't sent metadata within this time is shown without, and with the reason.
pub(super) const METADATA_WAIT: Duration = Duration::from_secs(5);

/// Why a PV has no value, or one without labels and units.
pub(super) const WITHOUT_METADATA: &str =
    "the PV's server is connected and has not sent labels, units and limits yet";

/// Why a PV whose server is connected remains disconnected: the value that clients have is that of the connection
/// before.
pub(super) const WITHOUT_VALUE: &str =
    "the PV's server is connected and has not sent the value yet";

/// Whether a reason ends with the connection: it says what a connected server has not sent.
pub(super) fn is_of_connection(reason: &str) -> bool {
    [WITHOUT_METADATA, WITHOUT_VALUE].contains(&reason)
}

/// Maximum number of rows that wait; the newest ones replace each other.
const MAX_ROWS: usize = 64;

/// A PV that was connected and hasn't sent its metadata and then a value.
#[derive(Clone, Debug, Default)]
pub(super) struct Return {
    /// Whether the metadata has come.
    pub(super) has_metadata: bool,
    /// Whether the PV's reason says that it hasn't.
    pub(super) is_overdue: bool,
    /// Whether only a value is still awaited, which is shown as soon as it comes, also without metadata.
    pub(super) is_value_overdue: bool,
    /// Type and element count, if the metadata doesn't come.
    pub(super) shape: Option<Box<Metadata>>,
    rows: Vec<Row>,
}

impl Return {
    /// Keeps a row until the metadata has come. A row that is replaced is counted by the gap in the sequence.
    pub(super) fn keep(&mut self, mut row: Row) {
        if self.rows.len() == MAX_ROWS
            && let Some(replaced) = self.rows.pop()
        {
            row.squashed = row.squashed.saturating_add(replaced.squashed);
        }
        row.value = row.value.into_whole();
        self.rows.push(row);
    }

    /// Whether a row is stored when it comes.
    pub(super) fn takes_rows(&self) -> bool {
        self.has_metadata || self.is_value_overdue
    }

    /// Whether rows wait.
    pub(super) fn has_rows(&self) -> bool {
        !self.rows.is_empty()
    }

    /// Returns the rows that waited.
    pub(super) fn take_rows(&mut self) -> Vec<Row> {
        std::mem::take(&mut self.rows)
    }
}
