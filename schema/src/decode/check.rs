//! Checks that the columns of a frame fit each other, which no table layout can express.

use super::{DecodeError, FrameView};
use crate::generated::frame as fb;
use crate::limits::{MAX_PAGE_BYTES, MAX_ROWS};
use crate::types::FrameKind;
use crate::varint::holds;

impl<'a> FrameView<'a> {
    /// Checks that columns fit each other.
    pub(super) fn check(&self) -> Result<(), DecodeError> {
        let numbers = self.numbers_len();
        let rows = numbers + self.blobs_len();
        if rows > MAX_ROWS {
            return Err(DecodeError::TooMany {
                what: "rows",
                count: rows,
                limit: MAX_ROWS,
            });
        }
        let fits = |fits: bool, column: &'static str, rows: usize| {
            if fits {
                Ok(())
            } else {
                Err(DecodeError::ColumnMismatch { column, rows })
            }
        };
        let columns = self.numbers();
        fits(holds(columns.ids.column(), numbers), "ids", numbers)?;
        fits(holds(columns.times.column(), numbers), "times", numbers)?;
        fits(columns.values.len() == numbers, "values", numbers)?;
        for blob in self.blobs() {
            fits(blob.fits(), "blob", blob.count as usize)?;
        }
        fits(
            ascend(self.alarms().map(|row| row.row), rows),
            "alarms",
            rows,
        )?;
        fits(
            ascend(self.details().map(|row| row.row), rows),
            "details",
            rows,
        )?;
        // A row may have skips of several causes.
        let mut least = 0;
        let skips_fit = self.skips().all(|skip| {
            let ok = (skip.row as usize) < rows && least <= skip.row;
            least = skip.row;
            ok
        });
        fits(skips_fit, "skips", rows)?;
        let answer = self.rpc_result().or_else(|| self.put_readback());
        let answer_fits = answer.is_none_or(|node| node.fits());
        fits(answer_fits, "result", rows)?;
        let page_fits = self.page_words().is_none_or(|(length, words)| {
            length <= MAX_PAGE_BYTES && length.next_multiple_of(8) == words.len()
        });
        fits(page_fits, "page", rows)?;
        let sequences = self.frame.count(fb::Frame::VT_SEQUENCES);
        let wanted = if self.kind() == FrameKind::Update {
            0
        } else {
            rows
        };
        fits(sequences == wanted, "sequences", rows)
    }
}

/// Whether the row numbers ascend and exist.
fn ascend(mut marked: impl Iterator<Item = u32>, rows: usize) -> bool {
    let mut least = 0;
    marked.all(|row| {
        let ok = row >= least && (row as usize) < rows;
        least = row.saturating_add(1);
        ok
    })
}
