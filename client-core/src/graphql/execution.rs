//! Carries out queries and mutations step by step, without I/O: it names what a host has to get and
//! to put, in which order, and makes the response from what failed.

use std::convert::Infallible;

use pvwire_schema::types::PutValue;

use super::Dialect;
use super::operation::{Answer, Asked, OperationKind, OperationOf, Request, channels};
use super::put_value::{is_literal, read_put_value};
use super::respond::{ChannelRequestOf, Failure};

/// A query or a mutation that is being carried out. Each result that a host is asked for has a
/// number.
#[derive(Debug)]
pub struct Execution<S> {
    operation: OperationOf<S>,
    number: fn(&str) -> f64,
    /// By the numbers of the results: why one is missing.
    failures: Vec<Option<Failure>>,
    /// By the numbers of the results: whether one says that a PV holds a single string.
    texts: Vec<bool>,
    /// The number of the result, or of its failure, by field and PV.
    channels: Vec<Vec<usize>>,
    /// The field that comes next.
    at: usize,
    phase: Phase,
}

/// What a put waits for: results from a number on, for these PVs of the field.
#[derive(Debug)]
enum Phase {
    Start,
    Asked(usize, Vec<usize>),
    Put(usize, Vec<usize>),
}

/// Something to do for an execution.
#[derive(Debug, PartialEq)]
pub struct Step {
    /// The field of the operation that it is for, as an index into
    /// [`OperationOf::roots`]. It has selection, timeout and the other arguments.
    pub root: usize,
    /// The number of its first result. The others follow, one for each name.
    pub first: usize,
    /// The PVs, as the client named them.
    pub names: Vec<String>,
    /// What to do with them.
    pub work: Work,
}

/// What a step does.
#[derive(Debug, PartialEq)]
pub enum Work {
    /// To get the selected fields.
    Get,
    /// To find out whether each holds a single string, see [`Execution::holds_text`].
    Ask,
    /// To put these values.
    Put(Vec<PutValue>),
    /// To describe the type of this name, or the whole schema.
    Introspect(Option<String>),
    /// To read the past.
    History,
}

impl Execution<String> {
    /// Reads a plan, see [`Documents::plan`](crate::select::Documents::plan), for a host that reads PVs
    /// and describes the schema itself. `number` reads a number in decimal digits.
    #[must_use]
    pub fn planned(plan: &str, number: fn(&str) -> f64) -> Self {
        let answer = |asked: Asked<'_>| {
            let Asked {
                name,
                arguments,
                inner,
            } = asked;
            let type_name = match name {
                "__schema" => None,
                "__type" => Some(arguments.text("name")),
                _ => {
                    let selection = inner.to_owned();
                    return Ok(channels(
                        name,
                        &arguments,
                        selection,
                        Dialect::Pvwire,
                        number,
                    ));
                }
            };
            Ok::<_, Infallible>(Answer::Channels {
                request: Request::Introspect {
                    is_whole: type_name.is_none(),
                    names: vec![type_name.unwrap_or_default()],
                },
                selection: inner.to_owned(),
                is_list: false,
            })
        };
        let Ok(operation) = OperationOf::read(plan, Dialect::Pvwire, usize::MAX, answer);
        Self::new(operation, number)
    }
}

impl<S: PartialEq> Execution<S> {
    /// Starts an operation. `number` reads a number in decimal digits.
    #[must_use]
    pub fn new(operation: OperationOf<S>, number: fn(&str) -> f64) -> Self {
        Self {
            channels: operation.roots().iter().map(|_| Vec::new()).collect(),
            operation,
            number,
            failures: Vec::new(),
            texts: Vec::new(),
            at: 0,
            phase: Phase::Start,
        }
    }

    /// The operation.
    #[must_use]
    pub fn operation(&self) -> &OperationOf<S> {
        &self.operation
    }

    /// What to do next, all at once; called again when all of it is done. Nothing when the response can
    /// be written.
    pub fn steps(&mut self) -> Vec<Step> {
        let mut steps = Vec::new();
        while self.at < self.operation.roots().len() {
            if self.operation.kind() == OperationKind::Mutation && !steps.is_empty() {
                // One after another: the second may depend on what the first wrote.
                break;
            }
            self.root(&mut steps);
        }
        steps
    }

    /// The next step of the field at hand; goes on to the next field if it has no further one.
    fn root(&mut self, steps: &mut Vec<Step>) {
        let at = self.at;
        let Some(root) = self.operation.roots().get(at) else {
            return;
        };
        let names = root.request().names().to_vec();
        let work = match root.request() {
            Request::Put { values, .. } => {
                let values = values.clone();
                return self.put(&names, &values, steps);
            }
            // It was in the step of an earlier field.
            Request::Get { .. } if self.channels.get(at).is_some_and(|all| !all.is_empty()) => {
                self.at += 1;
                return;
            }
            Request::Get { .. } => Work::Get,
            Request::Introspect { is_whole, .. } => {
                Work::Introspect(names.first().filter(|_| !is_whole).cloned())
            }
            Request::History { .. } => Work::History,
            Request::Nothing | Request::Subscribe { .. } => {
                self.at += 1;
                return;
            }
        };
        self.at += 1;
        if work == Work::Get && !root.is_list() {
            self.get_together(at, steps);
            return;
        }
        let first = self.step(at, names, work, steps);
        if let Some(channels) = self.channels.get_mut(at) {
            channels.extend(first..self.failures.len());
        }
    }

    /// One step for the field and all later ones that read a PV with the same selection and timeout.
    fn get_together(&mut self, first: usize, steps: &mut Vec<Step>) {
        let (mut members, mut names) = (Vec::new(), Vec::new());
        for (at, root) in self.operation.roots().iter().enumerate().skip(first) {
            let is_asked = self.channels.get(at).is_none_or(|all| !all.is_empty());
            if !is_asked && self.is_same(first, at) {
                members.push(at);
                names.extend(root.request().names().first().cloned());
            }
        }
        let mut number = self.step(first, names, Work::Get, steps);
        for at in members {
            if let Some(channels) = self.channels.get_mut(at) {
                channels.push(number);
                number += 1;
            }
        }
    }

    /// Whether two fields read one PV each in the same way.
    fn is_same(&self, one: usize, other: usize) -> bool {
        let roots = self.operation.roots();
        let (Some(one), Some(other)) = (roots.get(one), roots.get(other)) else {
            return false;
        };
        let timeout = |request: &Request| match request {
            Request::Get { timeout, .. } => Some(*timeout),
            _ => None,
        };
        !other.is_list()
            && timeout(other.request()).is_some()
            && timeout(one.request()) == timeout(other.request())
            && one.selection() == other.selection()
    }

    /// Adds a step, and numbers for its results. Returns the first.
    fn step(
        &mut self,
        root: usize,
        names: Vec<String>,
        work: Work,
        steps: &mut Vec<Step>,
    ) -> usize {
        let first = self.failures.len();
        self.failures.resize(first + names.len(), None);
        if !names.is_empty() {
            steps.push(Step {
                root,
                first,
                names,
                work,
            });
        }
        first
    }

    /// Results from a number on are those of these PVs of a field.
    fn place(&mut self, root: usize, places: &[usize], mut number: usize) {
        if let Some(channels) = self.channels.get_mut(root) {
            for place in places {
                if let Some(channel) = channels.get_mut(*place) {
                    *channel = number;
                }
                number += 1;
            }
        }
    }

    fn put(&mut self, names: &[String], values: &[String], steps: &mut Vec<Step>) {
        let root = self.at;
        let of = |places: &[usize]| {
            let mut chosen = Vec::new();
            for place in places {
                chosen.push(names.get(*place).cloned().unwrap_or_default());
            }
            chosen
        };
        let mut places = Vec::new();
        match std::mem::replace(&mut self.phase, Phase::Start) {
            Phase::Start => {
                for (place, text) in values.iter().enumerate() {
                    // What another text stands for depends on the PV.
                    if !is_literal(text) {
                        places.push(place);
                    }
                }
                let first = self.step(root, of(&places), Work::Ask, steps);
                self.phase = Phase::Asked(first, places);
            }
            Phase::Asked(first, asked) => {
                let mut nth = 0;
                let (mut written, mut channels) = (Vec::new(), Vec::new());
                for (place, text) in values.iter().enumerate() {
                    let is_asked = asked.get(nth) == Some(&place);
                    let is_text = !is_asked || self.texts.get(first + nth) == Some(&true);
                    nth += usize::from(is_asked);
                    channels.push(self.failures.len());
                    match read_put_value(text, is_text, self.number) {
                        Ok(value) => {
                            places.push(place);
                            written.push(value);
                        }
                        Err(why) => self.failures.push(Some(Failure {
                            may_be_written: Some(false),
                            ..Failure::new(why.text(), "BAD_VALUE")
                        })),
                    }
                }
                if let Some(all) = self.channels.get_mut(root) {
                    *all = channels;
                }
                let first = self.step(root, of(&places), Work::Put(written), steps);
                self.place(root, &places, first);
                self.phase = Phase::Put(first, places);
            }
            Phase::Put(mut result, put) => {
                for place in put {
                    if matches!(self.failures.get(result), Some(None)) {
                        places.push(place);
                    }
                    result += 1;
                }
                let first = self.step(root, of(&places), Work::Get, steps);
                self.place(root, &places, first);
                self.at += 1;
            }
        }
    }

    /// Records why there is no result of this number.
    pub fn fail(&mut self, result: usize, failure: Failure) {
        if let Some(place) = self.failures.get_mut(result) {
            *place = Some(failure);
        }
    }

    /// Records that the PV of this result holds a single string, to which every text is written as it
    /// is.
    pub fn holds_text(&mut self, result: usize) {
        if self.texts.len() <= result {
            self.texts.resize(result + 1, false);
        }
        self.texts[result] = true;
    }

    /// Appends the response; `write` appends the result of a number.
    pub fn respond(
        &self,
        mut write: impl FnMut(usize, ChannelRequestOf<'_, S>, &mut Vec<u8>),
        out: &mut Vec<u8>,
    ) {
        let answer = |channel: ChannelRequestOf<'_, S>, out: &mut Vec<u8>| {
            let channels = self.channels.get(channel.root);
            let number = channels.and_then(|all| all.get(channel.index));
            match number.map(|number| (number, self.failures.get(*number))) {
                Some((number, Some(None))) => write(*number, channel, out),
                Some((_, Some(Some(failure)))) => return Err(failure.clone()),
                _ => return Err(Failure::default()),
            }
            Ok(())
        };
        self.operation.respond(answer, out);
    }
}
