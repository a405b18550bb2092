//! Operations: what one request asks of the host, field by field.

use std::sync::Arc;
use std::time::Duration;

use super::Dialect;
use super::introspection;
use super::limits::Limits;
use super::writer::Selection;
use crate::select::error::{DocumentError, fill, push_number};
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

/// An operation with its variables.
#[derive(Debug)]
pub struct Operation {
    kind: OperationKind,
    roots: Vec<Root>,
    dialect: Dialect,
    limits: Limits,
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
            Self::Get { names, .. } | Self::Put { names, .. } | Self::Subscribe { names } => names,
        }
    }
}

/// A field of the query, mutation or subscription itself.
#[derive(Debug)]
pub struct Root {
    pub(super) key: String,
    pub(super) locations: Vec<(u32, u32)>,
    pub(super) answer: Answer,
}

#[derive(Debug)]
pub(super) enum Answer {
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
        selection: Arc<Selection>,
        is_list: bool,
    },
}

impl Root {
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
    pub fn selection(&self) -> Option<&Arc<Selection>> {
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

impl Operation {
    /// Reads a plan, see [`Documents::plan`](crate::select::Documents::plan).
    pub(super) fn new(plan: &str, dialect: Dialect, limits: Limits) -> Result<Self, DocumentError> {
        let mut lines = plan.lines();
        let kind = match lines.next() {
            Some("mutation") => OperationKind::Mutation,
            Some("subscription") => OperationKind::Subscription,
            _ => OperationKind::Query,
        };
        let mut roots = Vec::new();
        // Bytes for the answers to introspection.
        let mut room = limits.response;
        while let Some(line) = lines.next() {
            let mut words = line.splitn(5, ' ');
            let mut word = || words.next().unwrap_or_default();
            let (sign, key, name, places, last) = (word(), word(), word(), word(), word());
            let inner = if sign == "{" {
                inner_lines(&mut lines)
            } else {
                String::new()
            };
            let answer = if sign == "!" {
                let json = parse(last, Form::Json, Bounds::default());
                Answer::Problem {
                    message: json.string(json.node(json.node(0).child)),
                    code: None,
                    is_never_null: is_never_null(name, dialect),
                }
            } else {
                answer(name, last, &inner, dialect, &mut room).ok_or_else(|| {
                    let template = "The result of introspection has more than % bytes.";
                    too_much(template, limits.response)
                })?
            };
            roots.push(Root {
                key: key.to_owned(),
                locations: places.split(',').map(location).collect(),
                answer,
            });
        }
        let operation = Self {
            kind,
            roots,
            dialect,
            limits,
        };
        operation.check()?;
        Ok(operation)
    }

    fn check(&self) -> Result<(), DocumentError> {
        let limits = self.limits;
        let (mut names, mut cost) = (0_usize, 0_usize);
        for root in &self.roots {
            let count = root.request().names().len();
            let fields = root.selection().map_or(0, |selection| selection.fields());
            names += count;
            cost = cost.saturating_add(count.saturating_mul(fields));
        }
        let mut selections = self.roots.iter().filter_map(Root::selection);
        if selections.any(|selection| selection.whole_values() > limits.whole_values) {
            let template =
                "The operation reads the whole value of a PV too often; the maximum is %.";
            return Err(too_much(template, limits.whole_values));
        }
        if names > limits.names {
            let template = "The operation names too many PVs; the maximum is %.";
            return Err(too_much(template, limits.names));
        }
        if cost > limits.cost {
            let template = "The operation reads too many fields of all its PVs; the maximum is %.";
            return Err(too_much(template, limits.cost));
        }
        Ok(())
    }

    /// Query, mutation or subscription.
    #[must_use]
    pub fn kind(&self) -> OperationKind {
        self.kind
    }

    /// Its fields, in the order of the response. A valid subscription has at most one.
    #[must_use]
    pub fn roots(&self) -> &[Root] {
        &self.roots
    }

    pub(super) fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Length of a response beyond which no further channel is written.
    pub(super) fn longest(&self) -> usize {
        self.limits.response
    }
}

/// The error for exceeding a limit.
fn too_much(template: &str, limit: usize) -> DocumentError {
    let mut number = String::new();
    push_number(u32::try_from(limit).unwrap_or(u32::MAX), &mut number);
    DocumentError::new(&[], template, &[&number])
}

/// The lines of an object, up to its end.
fn inner_lines<'a>(lines: &mut impl Iterator<Item = &'a str>) -> String {
    let mut inner = String::new();
    let mut depth = 1;
    for line in lines {
        depth += match line.as_bytes().first() {
            Some(b'{') => 1,
            Some(b'}') => -1,
            _ => 0,
        };
        if depth == 0 {
            break;
        }
        inner.push_str(line);
        inner.push('\n');
    }
    inner
}

/// Line and column in `line:column`.
fn location(place: &str) -> (u32, u32) {
    let (line, column) = place.split_once(':').unwrap_or_default();
    (line.parse().unwrap_or(0), column.parse().unwrap_or(0))
}

/// Whether a field has a type with `!`: an error there makes the whole `data` null.
fn is_never_null(name: &str, dialect: Dialect) -> bool {
    match name {
        "getChannels" | "putChannels" | "__schema" => true,
        "getChannel" | "subscribeChannel" => dialect == Dialect::Coniql,
        _ => false,
    }
}

/// The answer to a field. `room` is the number of bytes for introspection; `None` if it
/// needs more.
fn answer(
    name: &str,
    arguments: &str,
    inner: &str,
    dialect: Dialect,
    room: &mut usize,
) -> Option<Answer> {
    if let Some(type_name) = name.strip_prefix("__typename:") {
        return Some(Answer::Known([b"\"", type_name.as_bytes(), b"\""].concat()));
    }
    let arguments = Arguments(parse(arguments, Form::Json, Bounds::default()));
    let known = match name {
        "__schema" => introspection::schema(dialect, inner, *room),
        "__type" => introspection::named(dialect, &arguments.text("name"), inner, *room),
        _ => return Some(channels(name, &arguments, inner, dialect)),
    }?;
    *room -= known.len();
    Some(Answer::Known(known))
}

fn channels(name: &str, arguments: &Arguments, inner: &str, dialect: Dialect) -> Answer {
    let Some(selection) = Selection::new(inner, dialect) else {
        return Answer::Problem {
            message: fill("\"%\" can't be answered.", &[name]),
            code: None,
            is_never_null: false,
        };
    };
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
                timeout: arguments.timeout(),
                wait: arguments.is_true("wait"),
            }
        }
        "subscribeChannel" | "subscribeChannels" => Request::Subscribe { names },
        _ => Request::Get {
            names,
            timeout: arguments.timeout(),
        },
    };
    Answer::Channels {
        request,
        selection: Arc::new(selection),
        is_list,
    }
}

fn mismatch(values: usize, names: usize, dialect: Dialect) -> Answer {
    Answer::Problem {
        message: match dialect {
            Dialect::Pvwire => format!("{values} values can't be put to {names} PVs"),
            Dialect::Coniql => "Mismatch in ids and values length".to_owned(),
        },
        code: Some("BAD_VALUE"),
        is_never_null: true,
    }
}

/// The arguments of a field, after validation.
struct Arguments(tree::Document);

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

    fn text(&self, name: &str) -> String {
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
    fn timeout(&self) -> Duration {
        let seconds: f64 = self.text("timeout").parse().unwrap_or(5.0);
        Duration::from_secs_f64(seconds.clamp(0.001, 2_147_473.648))
    }
}
