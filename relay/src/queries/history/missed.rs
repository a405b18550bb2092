//! The service `missed`: for a client that was cut off, the updates of many PVs, each after the last one that it has.
//!
//! A PV is looked up when its turn comes, and an answer is made piece by piece, so that a long one delays no other work.

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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use pvwire_schema::types::{Alarm, BlobValue, PvId, Severity, Skips};
    use serde_json::{Value, json};

    use super::super::tests::{PageSeen, histories, pages_of, rows};
    use super::*;
    use crate::ingest::RowValue;
    use crate::state::table::ChangedRow;

    const INSTANCE: u64 = 0x8000_0000_0000_0001;

    fn answer(histories: &Arc<Histories>, question: &Value) -> Vec<PageSeen> {
        let service = MissedService::new(Arc::clone(histories), INSTANCE);
        let reading = service.read(&Arc::default(), question.to_string().as_bytes());
        pages_of(reading.unwrap())
    }

    fn question(pvs: &Value) -> Value {
        json!({ "relay": INSTANCE.to_string(), "pvs": pvs })
    }

    /// The lists of a field in all pages.
    fn listed<'a>(pages: &'a [PageSeen], field: &str) -> Vec<&'a Value> {
        let lists = pages.iter().filter_map(|(head, ..)| head[field].as_array());
        lists.flatten().collect()
    }

    /// The updates of a PV: sequence number, time, number and severity.
    fn updates(pages: &[PageSeen], pv: usize) -> Vec<(u64, i64, f64, u64)> {
        let mut updates = Vec::new();
        for (head, times, numbers) in pages {
            let lists = |field: &str| head[field].as_array().cloned().unwrap_or_default();
            let (alarms, skips) = (lists("alarms"), lists("skips"));
            let severity = |row: usize| {
                let alarm = alarms
                    .iter()
                    .rev()
                    .find(|alarm| alarm[0].as_u64() <= Some(row as u64));
                alarm.unwrap()[1].as_u64().unwrap()
            };
            let skipped = |row: usize| {
                let skips = skips.iter().find(|skips| skips[0] == row);
                let counts = skips
                    .into_iter()
                    .flat_map(|skips| (1..5).map(|at| &skips[at]));
                counts.map(|count| count.as_u64().unwrap()).sum::<u64>()
            };
            let mut row = 0;
            for run in lists("runs") {
                let mut sequence = run[3].as_u64().unwrap();
                for at in 0..run[1].as_u64().unwrap() {
                    sequence += if at > 0 { 1 + skipped(row) } else { 0 };
                    if run[0] == pv {
                        updates.push((sequence, times[row], numbers[row], severity(row)));
                    }
                    row += 1;
                }
            }
            assert_eq!(row, times.len(), "each row is in a run");
        }
        updates
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

        #[test]
        fn every_update_after_the_last_one_is_told_once_with_its_alarm(
            steps in prop::collection::vec(
                (-9..9_i32, prop::option::weighted(0.1, 0..4_u8), prop::option::weighted(0.1, 1..4_u32)),
                1..6_000,
            ),
            from in any::<prop::sample::Index>(),
        ) {
            let (mut time_ns, mut sequence, mut severity) = (1_795_000_000_000_000_000, 0, 0);
            let mut expected = Vec::new();
            let values: Vec<_> = steps.iter().map(|(number, changed, skipped)| {
                time_ns += 1_000;
                sequence += 1 + u64::from(skipped.unwrap_or(0));
                severity = changed.unwrap_or(severity);
                expected.push((sequence, time_ns, f64::from(*number), u64::from(severity)));
                let alarm = changed.map(|number| Alarm {
                    severity: Severity::from_number(number),
                    status: 0,
                });
                let skips = Skips { source: skipped.unwrap_or(0), ..Skips::NONE };
                (time_ns, RowValue::Number(f64::from(*number)), alarm, skips)
            }).collect();
            let (histories, _running) = histories(&["A"], rows(&values));
            let from = from.index(steps.len());
            let pages = answer(&histories, &question(&json!([["A", 0, expected[from].0]])));
            prop_assert_eq!(updates(&pages, 0), &expected[from + 1..]);
            prop_assert_eq!(listed(&pages, "absent"), Vec::<&Value>::new());
            let end = json!([0, 0, sequence]);
            prop_assert_eq!(listed(&pages, "ends"), [&end]);
            let (last, others) = pages.split_last().unwrap();
            prop_assert_eq!(&last.0["last"], true);
            prop_assert!(others.iter().all(|(head, ..)| head["last"] == false));
        }
    }

    #[test]
    fn many_pvs_are_answered_in_pages_and_those_without_a_past_say_why() {
        let names: Vec<_> = (0..1_000).map(|pv| format!("P{pv}")).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        let update = |pv: u32, n: i64| ChangedRow {
            pv: PvId(pv),
            ..rows(&[(n, RowValue::Number(n as f64), None, Skips::NONE)]).remove(0)
        };
        let changed = (1..=20).flat_map(|n| (0..1_000).map(move |pv| update(pv, n)));
        let (histories, _running) = histories(&names, changed.collect());
        let mut pvs: Vec<_> = names.iter().map(|name| json!([name, 0, 5])).collect();
        pvs.extend([json!(["unknown", 0, 1]), json!(["no:scheme://X", 0, 1])]);
        let pages = answer(&histories, &question(&json!(pvs)));
        assert!((6..=40).contains(&pages.len()), "{} pages", pages.len());
        for pv in [0, 1, 500, 999] {
            let sequences = updates(&pages, pv).into_iter().map(|update| update.0);
            assert_eq!(sequences.collect::<Vec<_>>(), (6..=20).collect::<Vec<_>>());
        }
        let ends = listed(&pages, "ends");
        assert!(
            ends.iter()
                .take(1_000)
                .enumerate()
                .all(|(pv, end)| **end == json!([pv, 0, 20]))
        );
        assert_eq!(ends[1_000..], [&json!([1_000, 0, 1])]);
        assert_eq!(
            listed(&pages, "absent"),
            [&json!([1_000, "not kept", null])]
        );
        let refused = listed(&pages, "refused");
        assert_eq!((refused.len(), &refused[0][0]), (1, &json!(1_001)));
        assert!(
            refused[0][1].as_str().unwrap().contains("no:scheme"),
            "{refused:?}"
        );
    }

    #[test]
    fn updates_that_another_relay_has_counted_are_not_continued() {
        let values = [(1, RowValue::Number(1.0), None, Skips::NONE)];
        let (histories, _running) = histories(&["A"], rows(&values));
        let pages = answer(&histories, &json!({ "relay": "7", "pvs": [["A", 0, 0]] }));
        assert_eq!(updates(&pages, 0), []);
        assert_eq!(listed(&pages, "absent"), [&json!([0, "restarted", null])]);
        assert_eq!(listed(&pages, "ends"), [&json!([0, 0, 0])]);
    }

    #[test]
    fn no_page_exceeds_its_limit_whatever_the_values_are() {
        let skips = Skips {
            relay: 150_000,
            source: 150_000,
            filter: 150_000,
            bus: 150_000,
        };
        let values: Vec<_> = (0..3_000_u32)
            .map(|n| {
                let alarm = Alarm {
                    severity: Severity::from_number((n % 4) as u8),
                    status: u16::MAX,
                };
                let text = BlobValue::Text("\u{1}".repeat(256));
                (
                    i64::from(n),
                    RowValue::Blob(Arc::new(text)),
                    Some(alarm),
                    skips,
                )
            })
            .collect();
        let (histories, _running) = histories(&["A"], rows(&values));
        let pages = answer(&histories, &question(&json!([["A", 0, 0]])));
        assert!(pages.len() > 50, "{}", pages.len());
    }

    #[test]
    fn wrong_questions_say_what_was_expected() {
        let (histories, _running) = histories(&["A"], Vec::new());
        let service = MissedService::new(histories, INSTANCE);
        let why = |question: &Value| {
            let read = service.read(&Arc::default(), question.to_string().as_bytes());
            read.err().unwrap().message
        };
        let message = why(&json!({ "pvs": ["A"] }));
        assert!(
            message.contains("a list of name, epoch and sequence number"),
            "{message}"
        );
        let many = vec![json!(["A", 0, 0]); 10_001];
        let message = why(&question(&json!(many)));
        assert_eq!(message, "pvs has 10001 PVs: at most 10000");
    }
}
