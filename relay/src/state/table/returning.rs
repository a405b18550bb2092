//! Rows of a PV that was just connected, which wait for its metadata.
//!
//! Some servers send the first value before the metadata. A value without choices, units and precision would be
//! wrong, so it waits, at most for [`RETURN_WAIT`].

use std::time::Duration;

use pvwire_schema::types::Metadata;

use crate::ingest::Row;

/// A PV that hasn't sent value and metadata within this time after it was connected is shown without them: some
/// PVs never send more.
pub(super) const RETURN_WAIT: Duration = Duration::from_secs(1);

/// Maximum number of rows that wait; the newest ones replace each other.
const MAX_ROWS: usize = 64;

/// A PV that was connected and hasn't sent its metadata and then a value.
#[derive(Clone, Debug, Default)]
pub(super) struct Return {
    /// Whether the metadata has come.
    pub(super) has_metadata: bool,
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

    /// Returns the rows that waited.
    pub(super) fn take_rows(&mut self) -> Vec<Row> {
        std::mem::take(&mut self.rows)
    }
}
