//! The service `missed`: for a client that was cut off, the updates of many PVs, each after the last one that it has.
//!
//! A PV is looked up when its turn comes, and an answer is made piece by piece, so that a long one delays no other work.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::iter::Enumerate;
use std::sync::Arc;
use std::vec;

use pvwire_schema::types::Alarm;
use serde::{Deserialize, Serialize};

use super::{Histories, Permission, bad};
use crate::access::rule::Identity;
use crate::queries::service::Service;
use crate::session::question::{Page, Pages, Problem, Question, Reply};
use crate::state::history::rows::{PAGE_BYTES, RowsText, weight, with_columns};
use crate::state::history::{AbsentCause, PastSample, Position, Sequel, SequelPart};

/// Most PVs of a question.
const MAX_PVS: usize = 10_000;

/// PVs that are looked up for one piece: with their newest samples about a millisecond of work.
const PIECE_PVS: usize = 128;

/// Most bytes of an entry that says what rows are, what is absent, where a PV ends, or that it is refused without its
/// reason.
const ENTRY_BYTES: usize = 64;

/// The cause if the updates of this relay are not those that the client has counted.
const RESTARTED: &str = "restarted";

/// A question on the wire.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    /// The relay that has counted the updates, as decimal digits: `Hello.relay_instance`.
    relay: String,
    /// The PVs, each with epoch and sequence number of the last update that the client has.
    pvs: Vec<(String, u32, u32)>,
}

/// The JSON text of a page. PVs are numbered as in the question.
#[derive(Debug, Serialize)]
struct Head<'a> {
    /// PV, number of rows, and epoch and sequence number of the first of them.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    runs: &'a [(usize, usize, u32, u32)],
    /// PV, cause, and number of updates.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    absent: &'a [(usize, &'static str, Option<u32>)],
    /// PV, and epoch and sequence number of the update at which its answer ends.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    ends: &'a [(usize, u32, u32)],
    /// PV, and why.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    refused: &'a [(usize, String)],
    #[serde(flatten)]
    rows: RowsText<'a>,
    last: bool,
}

/// What a page tells, as its text has it.
#[derive(Debug)]
struct PageDraft {
    runs: Vec<(usize, usize, u32, u32)>,
    absent: Vec<(usize, &'static str, Option<u32>)>,
    ends: Vec<(usize, u32, u32)>,
    refused: Vec<(usize, String)>,
    samples: Vec<PastSample>,
    /// Bytes that it may still have.
    room: usize,
    /// The alarm of the last sample.
    alarm: Option<Alarm>,
}

impl PageDraft {
    fn new() -> Self {
        Self {
            runs: Vec::new(),
            absent: Vec::new(),
            ends: Vec::new(),
            refused: Vec::new(),
            samples: Vec::new(),
            room: PAGE_BYTES,
            alarm: None,
        }
    }

    /// Whether there is room for two entries.
    fn has_room(&self) -> bool {
        self.room >= 2 * ENTRY_BYTES
    }

    fn take(&mut self, bytes: usize) -> bool {
        let fits = bytes <= self.room;
        self.room -= if fits { bytes } else { 0 };
        fits
    }

    fn absent(&mut self, pv: usize, cause: &'static str, count: Option<u32>) {
        self.room = self.room.saturating_sub(ENTRY_BYTES);
        self.absent.push((pv, cause, count));
    }

    fn end(&mut self, pv: usize, at: Position) {
        self.room = self.room.saturating_sub(ENTRY_BYTES);
        self.ends.push((pv, at.epoch, at.sequence));
    }

    fn refuse(&mut self, pv: usize, reason: String) {
        // Reasons are short, and pages have some bytes left for them.
        self.room = self.room.saturating_sub(ENTRY_BYTES + 2 * reason.len());
        self.refused.push((pv, reason));
    }

    /// Takes as many updates as there is room for.
    fn run(&mut self, pv: usize, run: &mut Run) {
        let (first, before) = (run.first, self.samples.len());
        self.room = self.room.saturating_sub(ENTRY_BYTES);
        while let Some(sample) = run.samples.front() {
            let mut alarm = self.alarm;
            if !self.take(weight(sample, &mut alarm)) {
                break;
            }
            self.alarm = alarm;
            self.samples.extend(run.samples.pop_front());
            if let Some(next) = run.samples.front() {
                run.first = run.first.following(next.skips.total());
            }
        }
        let rows = self.samples.len() - before;
        if rows > 0 {
            self.runs.push((pv, rows, first.epoch, first.sequence));
        } else {
            // It waits for the next page.
            self.room = 0;
        }
    }

    fn content(&self, is_last: bool) -> Vec<u8> {
        let head = Head {
            runs: &self.runs,
            absent: &self.absent,
            ends: &self.ends,
            refused: &self.refused,
            rows: RowsText::of(&self.samples),
            last: is_last,
        };
        with_columns(&head, &self.samples)
    }
}

/// Updates that follow each other and are not written yet.
#[derive(Debug)]
struct Run {
    first: Position,
    samples: VecDeque<PastSample>,
}

/// The PV whose turn it is.
#[derive(Debug)]
struct Current {
    pv: usize,
    access: Permission,
    /// The last update that the client has.
    after: Position,
    /// Or why it has no sequel.
    sequel: Result<Sequel, &'static str>,
    run: Run,
}

impl Current {
    /// Writes as much as there is room for; returns whether that is all.
    fn write(&mut self, page: &mut PageDraft) -> bool {
        let sequel = match &mut self.sequel {
            Ok(sequel) => sequel,
            Err(cause) => {
                page.absent(self.pv, cause, None);
                page.end(self.pv, self.after);
                return true;
            }
        };
        while page.has_room() {
            if !self.run.samples.is_empty() {
                page.run(self.pv, &mut self.run);
                continue;
            }
            match sequel.next_part() {
                Some(SequelPart::Updates { first, samples }) => {
                    let samples = samples.into();
                    self.run = Run { first, samples };
                }
                Some(SequelPart::Absent { cause, count }) => {
                    page.absent(self.pv, cause.token(), count);
                }
                None => {
                    page.end(self.pv, sequel.end());
                    return true;
                }
            }
        }
        false
    }
}

/// An answer, or the rest of one.
struct Reading {
    histories: Arc<Histories>,
    identity: Arc<Identity>,
    /// Another relay, or this one before it was restarted, has counted the updates.
    is_restarted: bool,
    /// Those whose turn comes.
    pvs: Enumerate<vec::IntoIter<(String, u32, u32)>>,
    current: Option<Current>,
}

impl Reading {
    /// Writes what the next page has room for; returns whether that is all.
    fn write(&mut self, page: &mut PageDraft) -> bool {
        let mut looked_up = 0;
        while page.has_room() {
            let mut current = match self.current.take() {
                Some(current) => current,
                None if looked_up == PIECE_PVS => return false,
                None => match self.pvs.next() {
                    Some((pv, (name, epoch, sequence))) => {
                        looked_up += 1;
                        let after = Position { epoch, sequence };
                        match self.look_up(pv, name, after) {
                            Ok(current) => current,
                            Err(reason) => {
                                page.refuse(pv, reason);
                                continue;
                            }
                        }
                    }
                    None => return true,
                },
            };
            if let Err(problem) = current.access.check() {
                page.refuse(current.pv, problem.message);
            } else if !current.write(page) {
                self.current = Some(current);
            }
        }
        false
    }

    fn look_up(&self, pv: usize, name: String, after: Position) -> Result<Current, String> {
        let shared = self.histories.registry.shared_key(&name);
        let shared = shared.map_err(|refusal| refusal.to_string())?;
        let history = self.histories.history.as_ref();
        let sequel = match self.is_restarted {
            true => Err(RESTARTED),
            false => history
                .and_then(|history| history.sequel(&shared, after))
                .ok_or_else(|| AbsentCause::NotKept.token()),
        };
        Ok(Current {
            pv,
            access: Permission {
                registry: Arc::clone(&self.histories.registry),
                identity: Arc::clone(&self.identity),
                name,
            },
            after,
            sequel,
            run: Run {
                first: after,
                samples: VecDeque::new(),
            },
        })
    }
}

impl Pages for Reading {
    fn next(mut self: Box<Self>, reply: Reply) {
        let mut page = PageDraft::new();
        let is_last = self.write(&mut page);
        reply.give(Ok(Page {
            content: page.content(is_last),
            rest: (!is_last).then_some(self as Box<dyn Pages>),
        }));
    }
}

/// The service of this past.
pub struct MissedService {
    histories: Arc<Histories>,
    /// The relay's own, as decimal digits.
    instance: String,
}

impl MissedService {
    /// The service of the relay whose `Hello` has this `relay_instance`.
    #[must_use]
    pub fn new(histories: Arc<Histories>, relay_instance: u64) -> Self {
        let instance = relay_instance.to_string();
        Self {
            histories,
            instance,
        }
    }

    fn read(&self, identity: &Arc<Identity>, body: &[u8]) -> Result<Reading, Problem> {
        let wanted = serde_json::from_slice::<Wanted>(body).map_err(|error| {
            bad(format!(
                "the question is not a JSON object with relay, and pvs, a list of name, epoch and sequence number: \
                 {error}"
            ))
        })?;
        let Wanted { relay, pvs } = wanted;
        if pvs.len() > MAX_PVS {
            let count = pvs.len();
            return Err(bad(format!("pvs has {count} PVs: at most {MAX_PVS}")));
        }
        Ok(Reading {
            histories: Arc::clone(&self.histories),
            identity: Arc::clone(identity),
            is_restarted: relay != self.instance,
            pvs: pvs.into_iter().enumerate(),
            current: None,
        })
    }
}

impl Service for MissedService {
    fn name(&self) -> &'static str {
        "missed"
    }

    fn answer(&self, question: &Question, reply: Reply) {
        match self.read(&question.caller.identity, &question.body) {
            Ok(reading) => Box::new(reading).next(reply),
            Err(problem) => reply.give(Err(problem)),
        }
    }
}
