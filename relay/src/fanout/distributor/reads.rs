//! Reads of single PVs for HTTP requests: each waits for the first value, and the description
//! if it is wanted, and is answered between two ticks.

use super::Distributor;
use super::gets::{DESCRIPTION_WAIT, is_denied};
use crate::fanout::control::Read;
use crate::fanout::dialogue::Seen;
use crate::state::table::{Entry, Now, Table};

impl Distributor {
    /// Answers the reads whose values have come or are known not to come. Reads that no one waits for any more
    /// are dropped: only a reader that waits holds its PV.
    pub(super) fn answer_reads(&mut self, table: &Table, now: Now) {
        let is_over = |read: &mut Read| {
            let entry = table.get(read.pv);
            let mut waits = |entry: &Entry| {
                read.describe && !entry.is_described() && {
                    let until = read.describe_until;
                    let until = until.unwrap_or(now.instant + DESCRIPTION_WAIT);
                    read.describe_until = Some(until);
                    now.instant < until
                }
            };
            let is_settled = entry.is_some_and(|entry| {
                let is_told = entry.is_complete() && !waits(entry);
                is_told || is_denied(entry) || entry.missing().or_else(|| entry.refusal()).is_some()
            });
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
