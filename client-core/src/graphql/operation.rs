//! Operations: what one request asks of the host, field by field.

use std::time::Duration;

use super::Dialect;
use crate::select::error::push_number;
use crate::select::execute::lines::{number, take};
use crate::select::parser::{Bounds, Form, parse};
use crate::select::tree;

/// What kind of operation it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationKind {
    /// One response.
    Query,
    /// One response. Its fields must be carried out one after another.
    Mutation,
    /// A response for each change.
    Subscription,
}

/// An operation with its variables. `S` has the fields that are selected of a PV.
#[derive(Debug)]
pub struct OperationOf<S> {
    kind: OperationKind,
    roots: Vec<RootOf<S>>,
    dialect: Dialect,
    /// Length of a response beyond which no further channel is written.
    longest: usize,
}

/// What a field asks of the host.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// Nothing: it is answered without PVs, or by an error.
    Nothing,
    /// The current states of these PVs, each when it has a value.
    Get {
        /// The PVs, as the client named them.
        names: Vec<String>,
        /// Maximum time to wait for a value.
        timeout: Duration,
    },
    /// To write these PVs, then to get them. There are as many values as names.
    Put {
        /// The PVs, as the client named them.
        names: Vec<String>,
        /// Texts that [`put_value`](fn@super::put_value) reads.
        values: Vec<String>,
        /// Maximum time for the puts, and for the reads.
        timeout: Duration,
        /// Wait until the records have finished processing.
        wait: bool,
    },
    /// To describe the schema, if the operation was not planned with
    /// [`Document`](super::Document).
    Introspect {
        /// The name of a type.
        names: Vec<String>,
        /// The whole schema, not one type.
        is_whole: bool,
    },
    /// The past of a PV.
    History {
        /// The PV, as the client named it.
        names: Vec<String>,
        /// A JSON object with `from`, `to` and `points`, as the client gave them.
        arguments: String,
    },
    /// The states of these PVs and their changes.
    Subscribe {
        /// The PVs, as the client named them.
        names: Vec<String>,
    },
}

impl Request {
    /// The PVs, as the client named them; without duplicates removed.
    #[must_use]
    pub fn names(&self) -> &[String] {
        match self {
            Self::Nothing => &[],
            Self::Get { names, .. }
            | Self::Put { names, .. }
            | Self::Introspect { names, .. }
            | Self::History { names, .. }
            | Self::Subscribe { names } => names,
        }
    }
}

/// A field of the query, mutation or subscription itself.
#[derive(Debug)]
pub struct RootOf<S> {
    pub(super) key: String,
    pub(super) locations: Vec<(u32, u32)>,
    pub(super) answer: Answer<S>,
}

#[derive(Debug)]
pub(super) enum Answer<S> {
    /// A value in JSON; whether it may be null.
    Known(Vec<u8>),
    /// It can't be answered.
    Problem {
        message: String,
        code: Option<&'static str>,
        is_never_null: bool,
    },
    /// A channel for each name; as a list, or the only one.
    Channels {
        request: Request,
        selection: S,
        is_list: bool,
    },
}

impl<S> RootOf<S> {
    /// The key of the field in the response.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// What it asks of the host.
    #[must_use]
    pub fn request(&self) -> &Request {
        match &self.answer {
            Answer::Channels { request, .. } => request,
            _ => &Request::Nothing,
        }
    }

    /// The fields to read of each PV.
    #[must_use]
    pub fn selection(&self) -> Option<&S> {
        match &self.answer {
            Answer::Channels { selection, .. } => Some(selection),
            _ => None,
        }
    }

    /// Whether its value is a list of channels, not one channel.
    #[must_use]
    pub fn is_list(&self) -> bool {
        matches!(self.answer, Answer::Channels { is_list: true, .. })
    }

    /// Appends a response of a subscription: the JSON of its channel, or for a list of those that
    /// changed.
    pub fn push_result(&self, channels: &[&[u8]], out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"data\":{\"");
        out.extend_from_slice(self.key.as_bytes());
        out.extend_from_slice(b"\":");
        if self.is_list() {
            out.push(b'[');
            for (nth, channel) in channels.iter().enumerate() {
                if nth > 0 {
                    out.push(b',');
                }
                out.extend_from_slice(channel);
            }
            out.push(b']');
        } else {
            out.extend_from_slice(channels.first().copied().unwrap_or(b"null"));
        }
        out.extend_from_slice(b"}}");
    }
}

/// A field of the query, mutation or subscription itself, as a plan has it.
pub(super) struct Asked<'a> {
    pub(super) name: &'a str,
    pub(super) arguments: Arguments,
    /// The lines of its selection.
    pub(super) inner: &'a str,
}

impl<S> OperationOf<S> {
    /// Reads a plan, see [`Documents::plan`](crate::select::Documents::plan). `answer` says how a field
    /// is answered that can be.
    ///
    /// # Errors
    /// The first error of `answer`.
    pub(super) fn read<E>(
        plan: &str,
        dialect: Dialect,
        longest: usize,
        mut answer: impl FnMut(Asked<'_>) -> Result<Answer<S>, E>,
    ) -> Result<Self, E> {
        let mut lines = plan.as_bytes();
        let kind = match take(&mut lines, b'\n') {
            b"mutation" => OperationKind::Mutation,
            b"subscription" => OperationKind::Subscription,
            _ => OperationKind::Query,
        };
        let mut roots = Vec::new();
        while !lines.is_empty() {
            let mut last = take(&mut lines, b'\n');
            let mut word = || take(&mut last, b' ');
            let (sign, key, name, places) = (word(), text(word()), text(word()), word());
            let last = text(last);
            let json = parse(last, Form::Json, Bounds::default());
            let inner = if sign == b"{" {
                inner_lines(&mut lines)
            } else {
                ""
            };
            let answer = if sign == b"!" {
                Answer::Problem {
                    message: json.string(json.node(json.node(0).child)),
                    code: None,
                    is_never_null: is_never_null(name, dialect),
                }
            } else if let (b"__typename", type_name @ [_, ..]) = typed(name) {
                let mut known = vec![b'"'];
                known.extend_from_slice(type_name);
                known.push(b'"');
                Answer::Known(known)
            } else {
                let arguments = Arguments(json);
                answer(Asked {
                    name,
                    arguments,
                    inner,
                })?
            };
            roots.push(RootOf {
                key: key.to_owned(),
                locations: locations(places),
                answer,
            });
        }
        Ok(Self {
            kind,
            roots,
            dialect,
            longest,
        })
    }

    /// Query, mutation or subscription.
    #[must_use]
    pub fn kind(&self) -> OperationKind {
        self.kind
    }

    /// Its fields, in the order of the response. A valid subscription has at most one.
    #[must_use]
    pub fn roots(&self) -> &[RootOf<S>] {
        &self.roots
    }

    pub(super) fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Length of a response beyond which no further channel is written.
    pub(super) fn longest(&self) -> usize {
        self.longest
    }
}

fn text(bytes: &[u8]) -> &str {
    str::from_utf8(bytes).unwrap_or_default()
}

/// A field's name, and behind a colon that of a type.
fn typed(name: &str) -> (&[u8], &[u8]) {
    let mut rest = name.as_bytes();
    (take(&mut rest, b':'), rest)
}

/// The lines of an object, up to its end.
fn inner_lines<'a>(lines: &mut &'a [u8]) -> &'a str {
    let all = *lines;
    let mut depth = 1;
    while !lines.is_empty() {
        let before = *lines;
        depth += match take(lines, b'\n').first() {
            Some(b'{') => 1,
            Some(b'}') => -1,
            _ => 0,
        };
        if depth == 0 {
            return text(all.get(..all.len() - before.len()).unwrap_or_default());
        }
    }
    text(all)
}

/// Lines and columns in `line:column`, separated by commas.
fn locations(mut places: &[u8]) -> Vec<(u32, u32)> {
    let mut locations = Vec::new();
    while !places.is_empty() {
        let mut place = take(&mut places, b',');
        let line = number(take(&mut place, b':'));
        locations.push((line, number(place)));
    }
    locations
}

/// Whether a field has a type with `!`: an error there makes the whole `data` null.
fn is_never_null(name: &str, dialect: Dialect) -> bool {
    match name {
        "getChannels" | "putChannels" | "__schema" => true,
        "getChannel" | "subscribeChannel" => dialect == Dialect::Coniql,
        _ => false,
    }
}

/// What a field of this name asks of the host.
pub(super) fn channels<S>(
    name: &str,
    arguments: &Arguments,
    selection: S,
    dialect: Dialect,
    number: fn(&str) -> f64,
) -> Answer<S> {
    let is_list = name.ends_with('s');
    let names = if is_list {
        arguments.texts("ids")
    } else {
        vec![arguments.text("id")]
    };
    let request = match name {
        "putChannels" => {
            let values = arguments.texts("values");
            if values.len() != names.len() {
                return mismatch(values.len(), names.len(), dialect);
            }
            Request::Put {
                names,
                values,
                timeout: arguments.timeout(number),
                wait: arguments.is_true("wait"),
            }
        }
        "subscribeChannel" | "subscribeChannels" => Request::Subscribe { names },
        "history" => Request::History {
            names,
            arguments: arguments.0.text.clone(),
        },
        _ => Request::Get {
            names,
            timeout: arguments.timeout(number),
        },
    };
    Answer::Channels {
        request,
        selection,
        is_list,
    }
}

fn mismatch<S>(values: usize, names: usize, dialect: Dialect) -> Answer<S> {
    Answer::Problem {
        message: match dialect {
            Dialect::Pvwire => {
                let mut message = String::new();
                push_number(values as u32, &mut message);
                message.push_str(" values can't be put to ");
                push_number(names as u32, &mut message);
                message.push_str(" PVs");
                message
            }
            Dialect::Coniql => "Mismatch in ids and values length".to_owned(),
        },
        code: Some("BAD_VALUE"),
        is_never_null: true,
    }
}

/// The arguments of a field, after validation.
pub(super) struct Arguments(tree::Document);

impl Arguments {
    fn value(&self, name: &str) -> u32 {
        let json = &self.0;
        json.argument(json.node(0).child, &["\"", name, "\""].concat())
    }

    fn string(&self, at: u32) -> String {
        let node = self.0.node(at);
        if node.is_string() {
            self.0.string(node)
        } else {
            self.0.name(node).to_owned()
        }
    }

    pub(super) fn text(&self, name: &str) -> String {
        self.string(self.value(name))
    }

    fn texts(&self, name: &str) -> Vec<String> {
        let items = self.0.children(self.value(name));
        items.map(|(at, _)| self.string(at)).collect()
    }

    fn is_true(&self, name: &str) -> bool {
        self.text(name) == "true"
    }

    /// At least a millisecond, at most 24 days, as the browser's client has it.
    fn timeout(&self, to_number: fn(&str) -> f64) -> Duration {
        let seconds = match to_number(&self.text("timeout")) {
            seconds if seconds.is_nan() => 5.0,
            seconds => seconds,
        };
        // To the microsecond.
        Duration::from_micros((seconds.clamp(0.001, 2_147_473.648) * 1e6 + 0.5) as u64)
    }
}
