//! The service `history`: past updates of a PV, whole or thinned for a plot, for clients that may read it now.
//!
//! An answer is made piece by piece, so that a long one delays no other work.

mod missed;
mod page;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

use pvwire_schema::types::Outcome;
use serde::Deserialize;

use crate::access::rule::Identity;
use crate::compute::{PoolHandle, Size};
use crate::config::Access;
use crate::fleet::{FleetPast, NoPage, PastPage, PastQuestion};
use crate::limits::cpu::CpuShare;
use crate::ops::latency::wall_ns;
use crate::queries::archiver::Archivers;
use crate::queries::moment;
use crate::queries::service::Service;
use crate::session::question::{Page, Pages, Problem, Question, Reply};
use crate::state::history::rows::{GAP_BYTES, PAGE_BYTES, SAMPLE_BYTES, weight};
use crate::state::history::{History, PastBin, PastGap, PastRange, PastSample, Position, Thinner};
use crate::state::registry::Registry;

pub use self::missed::MissedService;

/// Most points of a thinned answer.
pub const MAX_POINTS: usize = 20_000;

/// Fewest points: a bin has the first, smallest, largest and last sample.
pub const MIN_POINTS: usize = 4;

/// Samples that are decompressed for one piece of an answer: about a millisecond of work.
const PIECE_SAMPLES: usize = 8_192;

const BIN_BYTES: usize = 64;

/// Which part of the past is wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// The PV.
    pub name: String,
    /// Text of a [moment]; without it the past begins with the oldest update that is kept.
    pub from: Option<String>,
    /// The same; without it the past ends with the newest update.
    pub to: Option<String>,
    /// About the most samples that are wanted; without it, all.
    pub points: Option<usize>,
}

/// A question on the wire.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    pv: String,
    from: Option<String>,
    to: Option<String>,
    points: Option<usize>,
}

impl From<Wanted> for Query {
    fn from(wanted: Wanted) -> Self {
        let Wanted {
            pv: name,
            from,
            to,
            points,
        } = wanted;
        Self {
            name,
            from,
            to,
            points,
        }
    }
}

/// What an answer is about, before its samples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preface {
    /// The limits of the range, in nanoseconds past the POSIX epoch; `None` if it is open.
    pub from_ns: Option<i64>,
    /// The same.
    pub to_ns: Option<i64>,
    /// The first sample is the value that held at the begin.
    pub has_held: bool,
    /// Time of the oldest sample that is kept, also outside the range; `None` if nothing is kept of the PV.
    pub kept_since_ns: Option<i64>,
    /// Number of the last tick whose updates are included; live updates go on after it.
    pub tick: u64,
    /// The last update that is included or was left out by the range; `None` if the PV is closed or not kept.
    pub position: Option<Position>,
    /// From when to when an archiver may have further samples, which the service `archiver` passes on; `None` without
    /// an archiver or without a begin.
    pub archived_ns: Option<(i64, i64)>,
    /// Why updates are missing that the relay which holds the PV may have.
    pub incomplete: Option<String>,
}

/// A part of an answer.
#[derive(Debug, Default)]
pub struct Piece {
    /// With the first piece.
    pub preface: Option<Preface>,
    /// In order.
    pub gaps: Vec<PastGap>,
    /// In the order in which they arrived.
    pub samples: Vec<PastSample>,
    /// The bins of these samples, if the answer is thinned.
    pub bins: Vec<PastBin>,
    /// The rest of the answer; `None` if this is its last piece.
    pub rest: Option<Box<Reading>>,
}

/// The past of PVs, and the rules that decide who may read it.
pub struct Histories {
    registry: Arc<Registry>,
    /// `None`: the operator keeps no past.
    history: Option<History>,
    /// `None`: the operator names no archiver.
    archivers: Option<Arc<Archivers>>,
    /// Asks the relays that hold PVs; `None` if this one is in no fleet.
    owners: Option<FleetPast>,
}

/// An answer, or the rest of one.
#[derive(Debug)]
pub struct Reading {
    access: Permission,
    preface: Option<Preface>,
    points: Option<usize>,
    now_ns: i64,
    /// What this relay has.
    range: Option<PastRange>,
    asking: Option<Asking>,
    thinner: Option<Thinner>,
    gaps: VecDeque<PastGap>,
    samples: VecDeque<PastSample>,
    bins: VecDeque<PastBin>,
}

/// The relay that holds the PV is asked for the past that it has.
#[derive(Debug)]
struct Asking {
    owners: FleetPast,
    /// The next one.
    question: PastQuestion,
    /// What this relay would answer without it, once the answer has begun with what the owner has.
    own: Option<Preface>,
    answer: Option<Result<PastPage, NoPage>>,
}

/// What follows in an answer.
pub enum Step {
    /// A piece of it.
    Piece(Piece),
    /// Another relay is asked first.
    Wait(Waiting),
}

/// An answer for which another relay is asked.
#[derive(Debug)]
pub struct Waiting(Box<Reading>);

impl Waiting {
    /// Asks; `done` gets the answer to go on with. It is called by a thread that must not compute for clients, or
    /// dropped when the relay stops.
    pub fn ask(self, done: impl FnOnce(Box<Reading>) + Send + 'static) {
        let mut reading = self.0;
        let Some(asking) = &reading.asking else {
            return done(reading);
        };
        let (owners, question) = (asking.owners.clone(), asking.question.clone());
        let answered = move |answer| {
            if let Some(asking) = &mut reading.asking {
                asking.answer = Some(answer);
            }
            done(reading);
        };
        owners.ask(question, Box::new(answered));
    }
}

/// A client and the PV that it reads.
struct Permission {
    registry: Arc<Registry>,
    identity: Arc<Identity>,
    name: String,
}

impl std::fmt::Debug for Permission {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Permission").field(&self.name).finish()
    }
}

impl Permission {
    /// Checked for each piece, because rules may change meanwhile.
    fn check(&self) -> Result<(), Problem> {
        let permitted = (self.registry).permit(&self.name, &self.identity, Access::Read);
        permitted.map_err(|refusal| {
            let outcome = match refusal.problem {
                pvwire_schema::types::NameProblem::NotAllowed => Outcome::NotAllowed,
                _ => Outcome::BadValue,
            };
            Problem::new(outcome, refusal.to_string())
        })
    }
}

fn bad(message: String) -> Problem {
    Problem::new(Outcome::BadValue, message)
}

impl Histories {
    /// Answers from this past.
    #[must_use]
    pub fn new(
        registry: Arc<Registry>,
        history: Option<History>,
        archivers: Option<Arc<Archivers>>,
        owners: Option<FleetPast>,
    ) -> Arc<Self> {
        Arc::new(Self {
            registry,
            history,
            archivers,
            owners,
        })
    }

    /// Begins an answer. A PV of which nothing is kept has an empty one.
    ///
    /// # Errors
    /// What is wrong with the query, or why the client may not read the PV.
    pub fn read(&self, identity: &Arc<Identity>, query: Query) -> Result<Reading, Problem> {
        let Query {
            name,
            from,
            to,
            points,
        } = query;
        let now_ns = wall_ns();
        let moment = |key: &str, text: Option<String>| {
            let read = |text: String| {
                moment::read(&text, now_ns).map_err(|why| bad(format!("{key} is {text:?}: {why}")))
            };
            text.map(read).transpose()
        };
        let (from_ns, to_ns) = (moment("from", from)?, moment("to", to)?);
        if let (Some(from_ns), Some(to_ns)) = (from_ns, to_ns)
            && from_ns > to_ns
        {
            return Err(bad("from is later than to".to_owned()));
        }
        if let Some(points) = points
            && !(MIN_POINTS..=MAX_POINTS).contains(&points)
        {
            let why = format!("points is {points}: expected {MIN_POINTS} to {MAX_POINTS}");
            return Err(bad(why));
        }
        let access = Permission {
            registry: Arc::clone(&self.registry),
            identity: Arc::clone(identity),
            name,
        };
        access.check()?;
        let shared = (self.registry).shared_key(&access.name);
        let shared = shared.map_err(|refusal| bad(refusal.to_string()))?;
        let (from, to) = (from_ns.unwrap_or(i64::MIN), to_ns.unwrap_or(i64::MAX));
        let history = self.history.as_ref();
        let range = history.and_then(|history| history.range(&shared, from, to));
        let is_archived = self.archivers.as_ref().is_some_and(|all| all.have(&shared));
        let preface = Preface {
            from_ns,
            to_ns,
            has_held: range.as_ref().is_some_and(PastRange::has_held),
            kept_since_ns: range.as_ref().and_then(PastRange::kept_since_ns),
            tick: range.as_ref().map_or(0, |range| range.tick),
            position: range.as_ref().and_then(|range| range.position),
            archived_ns: from_ns
                .filter(|_| is_archived)
                .map(|from_ns| (from_ns, to_ns.unwrap_or(now_ns))),
            incomplete: None,
        };
        let mut reading = Reading {
            access,
            preface: Some(preface),
            points,
            now_ns,
            range,
            asking: None,
            thinner: None,
            gaps: VecDeque::new(),
            samples: VecDeque::new(),
            bins: VecDeque::new(),
        };
        match self.owners.clone().filter(|_| !reading.has_all()) {
            None => reading.begin(),
            Some(owners) => {
                let range = reading.range.as_ref();
                let question = PastQuestion {
                    key: shared,
                    from_ns,
                    to_ns,
                    until: range.and_then(|range| range.position),
                    next: None,
                };
                reading.asking = Some(Asking {
                    owners,
                    question,
                    own: None,
                    answer: None,
                });
            }
        }
        Ok(reading)
    }
}

impl Reading {
    /// Whether this relay has kept all of the range.
    fn has_all(&self) -> bool {
        let kept = self.range.as_ref().filter(|range| range.gaps().is_empty());
        let since = kept.and_then(PastRange::kept_since_ns);
        let from_ns = self.preface.as_ref().and_then(|preface| preface.from_ns);
        since
            .zip(from_ns)
            .is_some_and(|(since, from)| since <= from)
    }

    /// Begins to answer with what this relay has.
    fn begin(&mut self) {
        if let Some(range) = &self.range {
            let newest = range.newest_ns();
            self.gaps = range.gaps().into();
            self.thin(newest);
        }
    }

    /// Begins to thin, if that is wanted, what is kept until this time.
    fn thin(&mut self, newest_ns: Option<i64>) {
        let limits = self.preface.as_ref();
        let (from, to) = limits.map_or((None, None), |all| (all.from_ns, all.to_ns));
        // A range up to now ends now, unless a time stamp is later.
        let is_now = newest_ns.is_some_and(|newest_ns| newest_ns <= self.now_ns);
        let limits = from.zip(to.or_else(|| is_now.then_some(self.now_ns)));
        self.thinner = self.points.map(|points| Thinner::new(limits, points));
    }

    /// What follows. Takes about a millisecond.
    ///
    /// # Errors
    /// When the client may not read the PV any more, or another relay doesn't give the rest of its answer.
    pub fn step(mut self: Box<Self>) -> Result<Step, Problem> {
        self.access.check()?;
        if let Some(mut asking) = self.asking.take() {
            match asking.answer.take() {
                Some(answer) => self.take_answer(asking, answer)?,
                None => self.asking = Some(asking),
            }
        }
        let has_some = !(self.gaps.is_empty() && self.samples.is_empty());
        if self.asking.is_some() {
            if self.thinner.is_some() || !has_some {
                return Ok(Step::Wait(Waiting(self)));
            }
            // From now on the client has what the owner has kept.
            self.range = None;
        }
        self.decompress();
        Ok(Step::Piece(self.piece()))
    }

    /// Takes what the owner has answered.
    fn take_answer(
        &mut self,
        mut asking: Asking,
        answer: Result<PastPage, NoPage>,
    ) -> Result<(), Problem> {
        let page = match answer {
            Ok(page) => page,
            Err(why) => return self.go_on_without(asking, why),
        };
        let part = page.part.unwrap_or_default();
        if asking.own.is_none() {
            if !self.is_less_than(part.kept_since_ns) {
                self.begin();
                return Ok(());
            }
            self.thin(part.newest_ns);
            self.gaps = part.gaps.into();
            asking.own = self.preface.clone();
            if let Some(preface) = &mut self.preface {
                preface.kept_since_ns = part.kept_since_ns;
                preface.has_held = part.has_held;
                preface.position = preface.position.filter(|_| page.ends_at_update);
            }
        }
        match &mut self.thinner {
            Some(thinner) => part.samples.into_iter().for_each(|one| thinner.push(one)),
            None => self.samples.extend(part.samples),
        }
        match part.rest {
            Some(place) => {
                asking.question.next = Some((page.of, place));
                self.asking = Some(asking);
            }
            None => {
                self.range = None;
                self.finish_thinning();
            }
        }
        Ok(())
    }

    /// Whether the owner has kept the PV for longer, or all of the range.
    fn is_less_than(&self, owner_since_ns: Option<i64>) -> bool {
        let own = self.range.as_ref().and_then(PastRange::kept_since_ns);
        let from_ns = self.preface.as_ref().and_then(|preface| preface.from_ns);
        owner_since_ns.is_some_and(|since| {
            own.is_none_or(|own| since <= own) || from_ns.is_some_and(|from| since <= from)
        })
    }

    /// The owner doesn't answer: this relay answers with what it has, unless a piece was given.
    fn go_on_without(&mut self, asking: Asking, why: NoPage) -> Result<(), Problem> {
        let why = match why {
            NoPage::Here if asking.own.is_none() => None,
            NoPage::Here => Some("the PV has moved to another relay".to_owned()),
            NoPage::Because(why) => Some(why),
        };
        let Some(preface) = &mut self.preface else {
            let why = why.unwrap_or_default();
            let why = format!("the answer is not whole: {why}; ask again");
            return Err(Problem::new(Outcome::Interrupted, why));
        };
        if let Some(own) = asking.own {
            *preface = own;
        }
        preface.incomplete = why;
        (self.thinner, self.gaps) = (None, VecDeque::new());
        self.begin();
        Ok(())
    }

    /// The next piece of what is decompressed.
    fn piece(mut self: Box<Self>) -> Piece {
        let mut piece = Piece {
            preface: self.preface.take(),
            ..Piece::default()
        };
        let mut room = PAGE_BYTES;
        let mut take = |bytes: usize| {
            let fits = bytes <= room;
            room -= if fits { bytes } else { 0 };
            fits
        };
        while let Some(gap) = self.gaps.pop_front_if(|_| take(GAP_BYTES)) {
            piece.gaps.push(gap);
        }
        let mut before = None;
        if self.bins.is_empty() {
            while let Some(sample) = self.samples.front()
                && take(weight(sample, &mut before))
            {
                piece.samples.extend(self.samples.pop_front());
            }
        }
        while let Some(bin) = self.bins.front() {
            let samples = self.samples.iter().take(bin.samples as usize);
            let bytes: usize = samples.map(|sample| weight(sample, &mut before)).sum();
            if !take(BIN_BYTES + bytes) {
                break;
            }
            let samples = self.samples.drain(..bin.samples as usize);
            piece.samples.extend(samples);
            piece.bins.extend(self.bins.pop_front());
        }
        let is_empty = self.gaps.is_empty() && self.samples.is_empty();
        let is_last = is_empty && self.range.is_none() && self.asking.is_none();
        piece.rest = (!is_last).then_some(self);
        piece
    }

    /// Decompresses samples for the next piece, unless there are enough.
    fn decompress(&mut self) {
        let mut room = PIECE_SAMPLES;
        while let Some(range) = &mut self.range {
            let enough = if self.thinner.is_some() {
                0
            } else {
                self.samples.len()
            };
            if room == 0 || enough >= PAGE_BYTES / SAMPLE_BYTES {
                return;
            }
            match (range.next_samples(), &mut self.thinner) {
                (Some(samples), thinner) => {
                    room = room.saturating_sub(samples.len().max(1));
                    match thinner {
                        Some(thinner) => samples.into_iter().for_each(|one| thinner.push(one)),
                        None => self.samples.extend(samples),
                    }
                }
                (None, _) => {
                    self.range = None;
                    self.finish_thinning();
                }
            }
        }
    }

    fn finish_thinning(&mut self) {
        if let Some(thinner) = self.thinner.take() {
            let (samples, bins) = thinner.finish();
            (self.samples, self.bins) = (samples.into(), bins.into());
        }
    }
}

/// An answer in pages, for which the pool computes.
struct Answering {
    reading: Box<Reading>,
    pool: PoolHandle,
    cpu: CpuShare,
}

impl Pages for Answering {
    fn next(self: Box<Self>, reply: Reply) {
        let Self { reading, pool, cpu } = *self;
        let piece = match reading.step() {
            Ok(Step::Piece(piece)) => Ok(piece),
            Ok(Step::Wait(waiting)) => {
                return waiting.ask(move |reading| {
                    let share = cpu.clone();
                    let answering = Box::new(Self {
                        reading,
                        pool: pool.clone(),
                        cpu,
                    });
                    pool.run(&share, Size::Short, move || answering.next(reply));
                });
            }
            Err(problem) => Err(problem),
        };
        reply.give(piece.map(|mut piece| {
            let rest = piece.rest.take();
            let content = page::content(&piece, rest.is_none());
            let rest = rest.map(|reading| Box::new(Self { reading, pool, cpu }) as Box<dyn Pages>);
            Page { content, rest }
        }));
    }
}

/// The service of this past.
pub struct HistoryService {
    histories: Arc<Histories>,
    /// Computes when another relay has answered.
    pool: PoolHandle,
}

impl HistoryService {
    /// The service of this past.
    #[must_use]
    pub fn new(histories: Arc<Histories>, pool: PoolHandle) -> Self {
        Self { histories, pool }
    }
}

impl Service for HistoryService {
    fn name(&self) -> &'static str {
        "history"
    }

    fn answer(&self, question: &Question, reply: Reply) {
        let wanted = serde_json::from_slice::<Wanted>(&question.body).map_err(|error| {
            bad(format!(
                "the question is not a JSON object with pv, from, to and points: {error}"
            ))
        });
        let identity = &question.caller.identity;
        let reading = wanted.and_then(|wanted| self.histories.read(identity, wanted.into()));
        match reading {
            Ok(reading) => Box::new(Answering {
                reading: Box::new(reading),
                pool: self.pool.clone(),
                cpu: question.caller.cpu().clone(),
            })
            .next(reply),
            Err(problem) => reply.give(Err(problem)),
        }
    }
}
