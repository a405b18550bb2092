//! Responses to queries and mutations.

use std::borrow::Cow;

use super::Dialect;
#[cfg(doc)]
use super::Limits;
use super::operation::{Answer, OperationOf, Request, RootOf};
use crate::format;

/// A channel of a response that the host writes.
#[derive(Clone, Copy, Debug)]
pub struct ChannelRequestOf<'a, S> {
    /// The field of the operation, as an index into [`Operation::roots`](OperationOf::roots).
    pub root: usize,
    /// The PV, as an index into [`Request::names`](super::Request::names).
    pub index: usize,
    /// The PV's name, as the client named it.
    pub name: &'a str,
    /// The fields to write.
    pub selection: &'a S,
}

/// Why a PV was not read or written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failure {
    /// The message.
    pub message: String,
    /// A code of `PvError` or `PutError` of the package `pvwire`, such as `TIMED_OUT`.
    pub code: Option<Cow<'static, str>>,
    /// Of a put: whether the value may have been written nevertheless.
    pub may_be_written: Option<bool>,
}

impl Failure {
    /// A failure to read a PV.
    #[must_use]
    pub fn new(message: impl Into<String>, code: &'static str) -> Self {
        Self {
            message: message.into(),
            code: Some(code.into()),
            may_be_written: None,
        }
    }
}

/// The errors of a response.
struct Errors {
    json: Vec<u8>,
    dialect: Dialect,
}

impl<S> OperationOf<S> {
    /// Appends the response to a query or a mutation. `write` is called for each channel in the order
    /// of the response: it appends the channel's JSON, or returns why it can't. In the dialect of Coniql
    /// it is not called again after a failure, nor in any dialect after [`Limits::response`] bytes.
    ///
    /// For a subscription this is the response if it has no channels, because of an error or because
    /// `@skip` left nothing.
    pub fn respond(
        &self,
        mut write: impl FnMut(ChannelRequestOf<'_, S>, &mut Vec<u8>) -> Result<(), Failure>,
        out: &mut Vec<u8>,
    ) {
        let mut data = Vec::new();
        let mut errors = Errors {
            json: Vec::new(),
            dialect: self.dialect(),
        };
        let mut has_data = true;
        for (at, root) in self.roots().iter().enumerate() {
            data.push(if at == 0 { b'{' } else { b',' });
            push_text(&root.key, &mut data);
            data.push(b':');
            let longest = self.longest();
            has_data &= root.push(at, &mut write, longest, &mut errors, &mut data);
            // Coniql stops at the first error.
            if !has_data && self.dialect() == Dialect::Coniql {
                break;
            }
        }
        data.extend_from_slice(if self.roots().is_empty() { b"{}" } else { b"}" });
        out.push(b'{');
        if !errors.json.is_empty() {
            out.extend_from_slice(b"\"errors\":[");
            out.append(&mut errors.json);
            out.push(b']');
            let is_subscription = self.kind() == super::OperationKind::Subscription;
            if is_subscription && self.dialect() == Dialect::Pvwire {
                out.push(b'}');
                return;
            }
            out.push(b',');
        }
        out.extend_from_slice(b"\"data\":");
        out.extend_from_slice(if has_data { &data } else { b"null" });
        out.push(b'}');
    }
}

impl<S> RootOf<S> {
    /// Appends the field's value. Returns whether there are data: a null that the schema forbids
    /// leaves none. After `longest` bytes no further channel is written.
    fn push(
        &self,
        root: usize,
        write: &mut impl FnMut(ChannelRequestOf<'_, S>, &mut Vec<u8>) -> Result<(), Failure>,
        longest: usize,
        errors: &mut Errors,
        data: &mut Vec<u8>,
    ) -> bool {
        let (request, selection, is_list) = match &self.answer {
            Answer::Known(json) => {
                data.extend_from_slice(json);
                return true;
            }
            Answer::Problem {
                message,
                code,
                is_never_null,
            } => {
                let failure = Failure {
                    message: message.clone(),
                    code: code.map(Cow::Borrowed),
                    may_be_written: None,
                };
                errors.push(self, None, &failure);
                data.extend_from_slice(b"null");
                return !is_never_null;
            }
            Answer::Channels {
                request,
                selection,
                is_list,
            } => (request, selection, *is_list),
        };
        if is_list {
            data.push(b'[');
        }
        for (index, name) in request.names().iter().enumerate() {
            if index > 0 {
                data.push(b',');
            }
            let start = data.len();
            let channel = ChannelRequestOf {
                root,
                index,
                name,
                selection,
            };
            let written = if data.len() > longest {
                Err(too_long(request, longest))
            } else {
                write(channel, data)
            };
            if let Err(failure) = written {
                data.truncate(start);
                data.extend_from_slice(b"null");
                errors.push(self, is_list.then_some(index), &failure);
                if errors.dialect == Dialect::Coniql {
                    return false;
                }
            }
        }
        if is_list {
            data.push(b']');
        }
        true
    }
}

/// The failure of a channel that doesn't fit. It was put before.
fn too_long(request: &Request, longest: usize) -> Failure {
    Failure {
        message: [
            "the response is longer than ",
            &longest.to_string(),
            " bytes; request fewer PVs",
        ]
        .concat(),
        code: None,
        may_be_written: matches!(request, Request::Put { .. }).then_some(true),
    }
}

impl Errors {
    /// Adds the error of a field; `index` is the entry of its list.
    fn push<S>(&mut self, root: &RootOf<S>, index: Option<usize>, failure: &Failure) {
        let json = &mut self.json;
        json.extend_from_slice(if json.is_empty() {
            b"{\"message\":"
        } else {
            b",{\"message\":"
        });
        format::push_quoted(&failure.message, json);
        json.extend_from_slice(b",\"locations\":[");
        for (nth, (line, column)) in root.locations.iter().enumerate() {
            json.extend_from_slice(if nth == 0 {
                b"{\"line\":"
            } else {
                b",{\"line\":"
            });
            format::push_unsigned((*line).into(), json);
            json.extend_from_slice(b",\"column\":");
            format::push_unsigned((*column).into(), json);
            json.push(b'}');
        }
        json.extend_from_slice(b"],\"path\":[");
        push_text(&root.key, json);
        // In Coniql the whole field fails, not one entry.
        if let Some(index) = index.filter(|_| self.dialect == Dialect::Pvwire) {
            json.push(b',');
            format::push_unsigned(index as u64, json);
        }
        json.push(b']');
        if self.dialect == Dialect::Pvwire {
            push_extensions(failure, json);
        }
        json.push(b'}');
    }
}

fn push_extensions(failure: &Failure, json: &mut Vec<u8>) {
    let mut head = ",\"extensions\":{";
    if let Some(code) = &failure.code {
        json.extend_from_slice(head.as_bytes());
        json.extend_from_slice(b"\"code\":");
        push_text(code, json);
        head = ",";
    }
    if let Some(may_be) = failure.may_be_written {
        json.extend_from_slice(head.as_bytes());
        json.extend_from_slice(b"\"mayBeWritten\":");
        json.extend_from_slice(if may_be { b"true" } else { b"false" });
        head = ",";
    }
    if head == "," {
        json.push(b'}');
    }
}

fn push_text(text: &str, json: &mut Vec<u8>) {
    format::push_quoted(text, json);
}
