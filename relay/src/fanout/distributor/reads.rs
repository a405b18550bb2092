//! Reads of single PVs for HTTP requests: each waits for the first value and is answered between two ticks.

use super::Distributor;
use super::gets::is_denied;
use crate::fanout::control::Read;
use crate::fanout::dialogue::Seen;
use crate::state::table::Table;

impl Distributor {
    /// Answers the reads whose values have come or are known not to come. Reads that no one waits for any more
    /// are dropped: only a reader that waits holds its PV.
    pub(super) fn answer_reads(&mut self, table: &Table) {
        let is_over = |read: &mut Read| {
            let entry = table.get(read.pv);
            let is_settled =
                entry.is_some_and(|e| e.is_complete() || is_denied(e) || e.missing().is_some());
            is_settled || read.answer.is_closed()
        };
        for read in self.reads.extract_if(.., is_over) {
            let entry = table.get(read.pv).filter(|entry| entry.is_complete());
            let seen = entry.and_then(|entry| {
                Some(Seen {
                    metadata: entry.metadata.clone()?,
                    latest: entry.latest.clone()?,
                    connection: entry.connection,
                })
            });
            // The receiver may be gone meanwhile.
            let _ = read.answer.send(seen);
        }
    }
}
