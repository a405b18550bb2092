//! The past of PVs that other relays hold: what a relay asks the owner of a PV for its clients, page by page, and what
//! the owner answers. The owner holds nothing between two pages; a separate thread makes them, so that live updates
//! don't wait.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bytes::Bytes;
use pvwire_fleet::{AskError, MemberId, Refusal, Refusals, Reply};
use pvwire_schema::types::Expected;
use serde::{Deserialize, Serialize};

use crate::limits::rate::Bucket;
use crate::ops::shutdown::Indispensable;
use crate::state::history::rows::{self, RowsText};
use crate::state::history::{
    GapCause, History, PastGap, PastPart, PastPlace, PastWanted, PlaceLost, Position,
};

/// Name of the thread.
const THREAD: &str = "fleet past";

/// How long an owner may take for a page.
pub(super) const PAGE_TIMEOUT: Duration = Duration::from_secs(2);

/// Pages for one other relay: a second, and at once. Its clients have separate limits.
const PAGES_PER_S: usize = 500;
const PAGES_AT_ONCE: usize = 1_000;

/// No relay asks a longer question.
const MAX_QUESTION_BYTES: usize = 16 << 10;

/// A page of the past of a PV, which its owner is asked for.
#[derive(Clone, Debug)]
pub struct PastQuestion {
    /// The PV's name with its source, as the registry's `shared_key` returns it.
    pub key: String,
    /// In nanoseconds past the POSIX epoch; `None` from the oldest update that is kept.
    pub from_ns: Option<i64>,
    /// The same; `None` up to the newest one.
    pub to_ns: Option<i64>,
    /// The last update that clients of this relay may have of it, as they number it; `None` if they have none.
    pub until: Option<Position>,
    /// The relay that answered with the page before, and where this one begins.
    pub next: Option<(MemberId, PastPlace)>,
}

/// An owner's page.
#[derive(Debug, PartialEq)]
pub struct PastPage {
    /// The owner.
    pub of: MemberId,
    /// Whether it ends with the update that the question names.
    pub ends_at_update: bool,
    /// `None` if the owner keeps nothing of the PV.
    pub part: Option<PastPart>,
}

/// Why there is no page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoPage {
    /// No other relay holds the PV.
    Here,
    /// In words for a client.
    Because(String),
}

/// Called once, by a thread of the fleet or of the bus.
pub type PastDone = Box<dyn FnOnce(Result<PastPage, NoPage>) + Send>;

/// A question on the bus.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct QuestionText {
    pub(super) name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) from_ns: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) to_ns: Option<i64>,
    /// Epoch and sequence number, as the owner counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) until: Option<(u32, u32)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) at: Option<PastPlace>,
}

impl PastQuestion {
    /// The question on the bus. `until`: the last update, as the owner counts.
    pub(super) fn to_bytes(&self, until: Option<Expected>) -> Vec<u8> {
        let question = QuestionText {
            name: self.key.clone(),
            from_ns: self.from_ns,
            to_ns: self.to_ns,
            until: until.map(|there| (there.epoch, there.sequence)),
            at: self.next.map(|(_, place)| place),
        };
        serde_json::to_vec(&question).expect("texts and numbers can be written as JSON")
    }
}

impl PastPage {
    /// The owner's answer. `ends_at_update`: the question named one.
    pub(super) fn read(
        of: MemberId,
        ends_at_update: bool,
        answer: Result<Bytes, AskError>,
    ) -> Result<Self, NoPage> {
        let content = answer.map_err(|error| error.to_string());
        let part = content.and_then(|content| read_page(&content));
        let because = |why| {
            NoPage::Because(format!(
                "the relay that holds the PV was asked for it: {why}"
            ))
        };
        Ok(Self {
            of,
            ends_at_update,
            part: part.map_err(because)?,
        })
    }
}

/// What a page says besides its rows.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct PastHead {
    kept_since_ns: Option<i64>,
    newest_ns: Option<i64>,
    held: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    gaps: Vec<(String, i64, Option<i64>)>,
    /// Where the next page begins; absent in the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<PastPlace>,
    /// Why there is no page, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
}

#[derive(Serialize)]
struct PastText<'a> {
    #[serde(flatten)]
    head: PastHead,
    #[serde(flatten)]
    rows: RowsText<'a>,
}

/// The bytes of a page.
pub(super) fn page(part: Result<Option<PastPart>, String>) -> Vec<u8> {
    let (part, refused) = match part {
        Ok(part) => (part.unwrap_or_default(), None),
        Err(why) => (PastPart::default(), Some(why)),
    };
    let gap = |gap: &PastGap| (gap.cause.token().to_owned(), gap.from_ns, gap.to_ns);
    let text = PastText {
        head: PastHead {
            kept_since_ns: part.kept_since_ns,
            newest_ns: part.newest_ns,
            held: part.has_held,
            gaps: part.gaps.iter().map(gap).collect(),
            next: part.rest,
            refused,
        },
        rows: RowsText::of(&part.samples),
    };
    rows::with_columns(&text, &part.samples)
}

/// Reads a page; `None` if the owner keeps nothing.
pub(super) fn read_page(content: &[u8]) -> Result<Option<PastPart>, String> {
    let read = rows::read::<PastHead>(content);
    let (head, samples) = read.ok_or("it gave an answer that can't be read")?;
    if let Some(why) = head.refused {
        return Err(why);
    }
    let gaps = head.gaps.into_iter();
    let gaps = gaps.filter_map(|(cause, from_ns, to_ns)| {
        // A later version may have other causes.
        let cause = GapCause::of_token(&cause)?;
        Some(PastGap {
            cause,
            from_ns,
            to_ns,
        })
    });
    let part = PastPart {
        kept_since_ns: head.kept_since_ns,
        newest_ns: head.newest_ns,
        has_held: head.held && !samples.is_empty(),
        gaps: gaps.collect(),
        samples,
        rest: head.next,
    };
    Ok(head.kept_since_ns.map(|_| part))
}

/// A question that waits for the thread.
struct PastTask {
    body: Bytes,
    reply: Reply,
    came: Instant,
}

/// Answers other relays.
pub(super) struct PastServer {
    tasks: Sender<PastTask>,
    budgets: HashMap<MemberId, Bucket>,
    refusals: Arc<Refusals>,
}

impl PastServer {
    /// Starts the thread, which ends when the server is dropped.
    pub(super) fn start(
        history: Option<History>,
        refusals: Arc<Refusals>,
    ) -> io::Result<(Self, JoinHandle<()>)> {
        let (tasks, waiting) = mpsc::channel();
        let thread = thread::Builder::new().name(THREAD.into()).spawn(move || {
            let _alive = Indispensable(THREAD);
            serve(history.as_ref(), &waiting);
        })?;
        let server = Self {
            tasks,
            budgets: HashMap::new(),
            refusals,
        };
        Ok((server, thread))
    }

    /// A relay is lost.
    pub(super) fn lost(&mut self, member: MemberId) {
        self.budgets.remove(&member);
    }

    /// Another relay asks for a page.
    pub(super) fn requested(&mut self, from: MemberId, body: Bytes, reply: Reply, came: Instant) {
        let full = || Bucket::new(PAGES_PER_S, PAGES_AT_ONCE, came);
        let budget = self.budgets.entry(from).or_insert_with(full);
        if body.len() > MAX_QUESTION_BYTES || !budget.take_one(came) {
            let what = format_args!("a question of relay {from} about the past");
            self.refusals.note(Refusal::Budget, what);
            let why = "it is asked for the past of PVs too often";
            return reply.send(page(Err(why.to_owned())).into());
        }
        // The thread lives as long as this server.
        let _ = self.tasks.send(PastTask { body, reply, came });
    }
}

fn serve(history: Option<&History>, waiting: &Receiver<PastTask>) {
    for PastTask { body, reply, came } in waiting {
        // The client's relay has given up the others.
        if came.elapsed() < PAGE_TIMEOUT {
            reply.send(page(part(history, &body)).into());
        }
    }
}

fn part(history: Option<&History>, body: &[u8]) -> Result<Option<PastPart>, String> {
    let question = serde_json::from_slice::<QuestionText>(body);
    let question = question.map_err(|error| format!("it can't read the question: {error}"))?;
    let Some(history) = history else {
        return Ok(None);
    };
    let until = (question.until).map(|(epoch, sequence)| Position { epoch, sequence });
    let wanted = PastWanted {
        from_ns: question.from_ns.unwrap_or(i64::MIN),
        to_ns: question.to_ns.unwrap_or(i64::MAX),
        until,
        at: question.at,
    };
    let part = history.part(&question.name, wanted);
    part.map_err(|PlaceLost| "it keeps no longer what follows; ask again".to_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn relay_that_asks_without_end_is_told_so_and_counted() {
        let refusals = Arc::new(Refusals::default());
        let (mut server, thread) = PastServer::start(None, Arc::clone(&refusals)).unwrap();
        let (answered, refused) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let now = Instant::now();
        let mut ask = |from: u64, body: &'static [u8]| {
            let (answered, refused) = (Arc::clone(&answered), Arc::clone(&refused));
            let reply = Reply::new(move |page| {
                let counter = match read_page(&page) {
                    Ok(_) => &answered,
                    Err(_) => &refused,
                };
                counter.fetch_add(1, Ordering::Relaxed);
            });
            server.requested(MemberId(from), Bytes::from_static(body), reply, now);
        };
        let question = br#"{"name":"ca://X","later":1}"#;
        for _ in 0..PAGES_AT_ONCE + 5 {
            ask(1, question);
        }
        ask(2, question);
        ask(2, &[b' '; MAX_QUESTION_BYTES + 1]);
        ask(2, b"no question");
        drop(server);
        thread.join().unwrap();
        let counts = [&answered, &refused].map(|counter| counter.load(Ordering::Relaxed));
        assert_eq!(counts, [PAGES_AT_ONCE + 1, 5 + 1 + 1]);
        assert_eq!(refusals.count(Refusal::Budget), 6);
    }
}
