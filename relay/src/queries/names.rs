//! The service `names`: names of PVs that contain a text, for clients that look for one.
//!
//! Names come from the relay's directories. A client is offered only names that it may read.

mod pattern;
mod search;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use pvwire_schema::limits::MAX_NAME_BYTES;
use pvwire_schema::types::Outcome;
use serde::{Deserialize, Serialize};

use self::pattern::Pattern;
use self::search::{Room, search};
use crate::access::rule::Identity;
use crate::config::Access;
use crate::ingest::directory::{Directory, Origin};
use crate::queries::service::Service;
use crate::session::question::{Page, Pages, Problem, Question, Reply};
use crate::state::registry::Registry;

/// Maximum number of names in one answer.
pub const MAX_LIMIT: usize = 1_000;

/// Number of names in an answer whose question doesn't say.
const DEFAULT_LIMIT: usize = 20;

/// Bytes of names in a page: as JSON they take less than a page may have.
const PAGE_NAME_BYTES: usize = 16 << 10;

/// Names in a page.
const PAGE_NAMES: usize = 256;

/// Names whose rules are looked up for one page, so that a page takes milliseconds however few a client may read.
const PAGE_JUDGED: usize = 2_000;

/// What a client looks for.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    #[serde(default)]
    text: String,
    limit: Option<usize>,
    after: Option<String>,
}

/// A page as JSON.
#[derive(Serialize)]
struct Answer<'a> {
    names: &'a [Name],
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<&'a str>,
}

/// One name of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Name {
    /// As clients open it: without its protocol if that is the relay's default.
    pub name: String,
    /// Protocol, such as `ca`.
    pub protocol: String,
    /// Where it is known from.
    pub from: Vec<&'static str>,
}

/// The directories of a relay, and the rules that decide who is offered which name.
pub struct Names {
    registry: Arc<Registry>,
    directories: Vec<Arc<dyn Directory>>,
}

/// A search for names, or the rest of one.
#[derive(Clone)]
pub struct Search {
    names: Arc<Names>,
    identity: Arc<Identity>,
    pattern: Pattern,
    /// The last name that was visited, with its protocol.
    after: Option<String>,
    /// The last name that was given, with its protocol.
    given: Option<String>,
    /// Number of names that may follow.
    left: usize,
}

/// Some names of a search.
pub struct Part {
    /// The names; there may be none although more follow.
    pub names: Vec<Name>,
    /// What follows.
    pub then: Then,
}

/// What follows some names of a search.
pub enum Then {
    /// More names of the same answer.
    Search(Search),
    /// The end of the answer. There are more names, after this one.
    More(String),
    /// Nothing.
    End,
}

impl Names {
    /// Offers the names of these directories.
    #[must_use]
    pub fn new(registry: Arc<Registry>, directories: Vec<Arc<dyn Directory>>) -> Arc<Self> {
        Arc::new(Self {
            registry,
            directories,
        })
    }

    /// A search for names with this text, after the `next` of an earlier answer.
    ///
    /// # Errors
    /// What is wrong with the question.
    pub fn search(
        self: &Arc<Self>,
        identity: &Arc<Identity>,
        text: &str,
        limit: Option<usize>,
        after: Option<String>,
    ) -> Result<Search, Problem> {
        let bad = |message: String| Err(Problem::new(Outcome::BadValue, message));
        if text.len() > MAX_NAME_BYTES {
            let bytes = text.len();
            return bad(format!(
                "text has {bytes} bytes: expected at most {MAX_NAME_BYTES}"
            ));
        }
        let limit = limit.unwrap_or(DEFAULT_LIMIT);
        if !(1..=MAX_LIMIT).contains(&limit) {
            return bad(format!("limit is {limit}: expected 1 to {MAX_LIMIT}"));
        }
        if after.as_ref().is_some_and(|after| !after.contains("://")) {
            return bad("after is not the \"next\" of an earlier answer".to_owned());
        }
        Ok(Search {
            names: Arc::clone(self),
            identity: Arc::clone(identity),
            pattern: Pattern::new(text),
            given: after.clone(),
            after,
            left: limit,
        })
    }

    fn shown(&self, found: search::Found) -> Name {
        let search::Found { name, from } = found;
        let protocol = name.split_once("://").map_or("", |(scheme, _)| scheme);
        Name {
            protocol: protocol.to_owned(),
            from: from.into_iter().map(Origin::token).collect(),
            name: self.registry.plain_name(&name).unwrap_or(name),
        }
    }
}

impl Search {
    /// The next names, and what follows them. Takes some milliseconds.
    #[must_use]
    pub fn step(mut self) -> Part {
        let names = Arc::clone(&self.names);
        let lists = names.directories.iter().flat_map(|directory| {
            let origin = directory.origin();
            let lists = directory.lists().into_iter();
            lists.map(move |list| (origin, list))
        });
        let lists: Vec<_> = lists.collect();
        let room = Room {
            // One more shows whether there are more.
            names: (self.left + 1).min(PAGE_NAMES),
            bytes: PAGE_NAME_BYTES,
            judged: PAGE_JUDGED,
        };
        let identity = Arc::clone(&self.identity);
        let may_read = |name: &str| {
            let permitted = names.registry.permit(name, &identity, Access::Read);
            permitted.is_ok()
        };
        let mut step = search(&lists, &self.pattern, self.after.as_deref(), room, may_read);
        let has_more = step.names.len() > self.left;
        step.names.truncate(self.left);
        self.left -= step.names.len();
        if let Some(last) = step.names.last() {
            self.given = Some(last.name.clone());
        }
        let then = match (self.given.clone(), step.last) {
            (Some(given), _) if has_more => Then::More(given),
            (_, Some(last)) => {
                self.after = Some(last);
                Then::Search(self)
            }
            (_, None) => Then::End,
        };
        let shown = step.names.into_iter().map(|found| names.shown(found));
        Part {
            names: shown.collect(),
            then,
        }
    }
}

/// Names as JSON, with the `next` of the answer.
///
/// # Panics
/// Never: texts and lists of them can be written as JSON.
#[must_use]
pub fn json(names: &[Name], next: Option<&str>) -> Vec<u8> {
    let answer = Answer { names, next };
    serde_json::to_vec(&answer).expect("texts can be written as JSON")
}

impl Pages for Search {
    fn next(self: Box<Self>, reply: Reply) {
        let Part { names, then } = self.step();
        let (next, rest) = match then {
            Then::Search(rest) => (None, Some(Box::new(rest) as Box<dyn Pages>)),
            Then::More(next) => (Some(next), None),
            Then::End => (None, None),
        };
        let content = json(&names, next.as_deref());
        reply.give(Ok(Page { content, rest }));
    }
}

/// The service of these names.
pub struct NameService(pub Arc<Names>);

impl Service for NameService {
    fn name(&self) -> &'static str {
        "names"
    }

    fn answer(&self, question: &Question, reply: Reply) {
        let wanted = serde_json::from_slice(&question.body).map_err(|error| {
            let why =
                format!("the question is not a JSON object with text, limit and after: {error}");
            Problem::new(Outcome::BadValue, why)
        });
        let search = wanted.and_then(|Wanted { text, limit, after }| {
            self.0
                .search(&question.caller.identity, &text, limit, after)
        });
        match search {
            Ok(search) => Box::new(search).next(reply),
            Err(problem) => reply.give(Err(problem)),
        }
    }
}
