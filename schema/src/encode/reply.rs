//! Encodes the reply that a frame carries.

use flatbuffers::{FlatBufferBuilder, WIPOffset};

use super::node::{node, words};
use super::{FrameEncoder, text_if_any};
use crate::field;
use crate::generated::frame as fb;
use crate::types::{Hello, NameError, Node, Outcome, Page, PvId, Reply};

/// Where the number of the request is in an encoded answer: 4 bytes, little-endian. Answers to equal requests of one tick
/// differ there alone. `None` if the frame is no answer.
#[must_use]
pub fn position_of_reply_to(frame: &[u8]) -> Option<usize> {
    field::position(frame, fb::Frame::VT_REPLY_TO)
}

impl FrameEncoder {
    /// Sets the reply that the frame carries.
    pub fn reply(&mut self, reply_to: u32, reply: &Reply) {
        let builder = &mut self.builder;
        let (kind, body) = match reply {
            Reply::Hello(hello) => {
                let args = hello_args(builder, hello);
                (
                    fb::ReplyBody::Hello,
                    fb::Hello::create(builder, &args).as_union_value(),
                )
            }
            Reply::Subscribed { ids, errors } => {
                let args = fb::SubscribedArgs {
                    ids: Some(id_vector(builder, ids)),
                    errors: name_errors(builder, errors),
                };
                (
                    fb::ReplyBody::Subscribed,
                    fb::Subscribed::create(builder, &args).as_union_value(),
                )
            }
            Reply::Unsubscribed { ids } => {
                let args = fb::UnsubscribedArgs {
                    ids: Some(id_vector(builder, ids)),
                };
                (
                    fb::ReplyBody::Unsubscribed,
                    fb::Unsubscribed::create(builder, &args).as_union_value(),
                )
            }
            Reply::Got { ids, errors } => {
                let args = fb::GotArgs {
                    ids: Some(id_vector(builder, ids)),
                    errors: name_errors(builder, errors),
                };
                (
                    fb::ReplyBody::Got,
                    fb::Got::create(builder, &args).as_union_value(),
                )
            }
            Reply::Pong {
                client_time_ns,
                relay_time_ns,
            } => {
                let args = fb::PongArgs {
                    client_time_ns: *client_time_ns,
                    relay_time_ns: *relay_time_ns,
                };
                (
                    fb::ReplyBody::Pong,
                    fb::Pong::create(builder, &args).as_union_value(),
                )
            }
            Reply::PutDone { outcome, message } => {
                return self.put_done(reply_to, *outcome, message, None);
            }
            Reply::RpcDone { outcome, message } => {
                return self.rpc_done(reply_to, *outcome, message, None);
            }
            Reply::Page(page) => return self.page(reply_to, page, &[]),
            Reply::Relays { relays } => {
                let args = fb::RelaysArgs {
                    relays: text_list(builder, relays),
                };
                (
                    fb::ReplyBody::Relays,
                    fb::Relays::create(builder, &args).as_union_value(),
                )
            }
            Reply::Error { problem, message } => {
                let args = fb::RequestErrorArgs {
                    problem: fb::RequestProblem(problem.number()),
                    message: Some(builder.create_string(message)),
                };
                (
                    fb::ReplyBody::RequestError,
                    fb::RequestError::create(builder, &args).as_union_value(),
                )
            }
        };
        self.reply = Some((reply_to, kind, body));
    }

    /// Sets the reply to a Put, with the value read back if it differs from what was put.
    pub fn put_done(
        &mut self,
        reply_to: u32,
        outcome: Outcome,
        message: &str,
        readback: Option<&Node>,
    ) {
        let builder = &mut self.builder;
        let args = fb::PutDoneArgs {
            outcome: fb::Outcome(outcome.number()),
            message: text_if_any(builder, message),
            readback: readback.map(|held| node(builder, held, &mut self.apart)),
        };
        let done = fb::PutDone::create(builder, &args).as_union_value();
        self.reply = Some((reply_to, fb::ReplyBody::PutDone, done));
    }

    /// Sets the reply to an Ask: a page with its content.
    pub fn page(&mut self, reply_to: u32, page: &Page, content: &[u8]) {
        let builder = &mut self.builder;
        let args = fb::AnswerPageArgs {
            outcome: fb::Outcome(page.outcome.number()),
            message: text_if_any(builder, &page.message),
            page: page.page,
            last: page.last,
            bytes: content.len() as u32,
            data: (!content.is_empty()).then(|| words(builder, content)),
        };
        let page = fb::AnswerPage::create(builder, &args).as_union_value();
        self.reply = Some((reply_to, fb::ReplyBody::AnswerPage, page));
    }

    /// Sets the reply to an Rpc, with the server's result.
    pub fn rpc_done(
        &mut self,
        reply_to: u32,
        outcome: Outcome,
        message: &str,
        result: Option<&Node>,
    ) {
        let builder = &mut self.builder;
        let args = fb::RpcDoneArgs {
            outcome: fb::Outcome(outcome.number()),
            message: text_if_any(builder, message),
            result: result.map(|result| node(builder, result, &mut self.apart)),
        };
        let done = fb::RpcDone::create(builder, &args).as_union_value();
        self.reply = Some((reply_to, fb::ReplyBody::RpcDone, done));
    }
}

fn hello_args<'b>(builder: &mut FlatBufferBuilder<'b>, hello: &Hello) -> fb::HelloArgs<'b> {
    let relays = text_list(builder, &hello.relays);
    fb::HelloArgs {
        relay_version: Some(builder.create_string(&hello.relay_version)),
        relay_instance: hello.relay_instance,
        max_request_bytes: hello.max_request_bytes,
        max_subscriptions: hello.max_subscriptions,
        ack_interval_ms: hello.ack_interval_ms,
        not_found_after_ms: hello.not_found_after_ms,
        authenticate: hello.authenticate,
        user: (!hello.user.is_empty()).then(|| builder.create_string(&hello.user)),
        expires_in_ms: hello.expires_in_ms,
        relays,
        crowded: hello.crowded,
    }
}

type Texts<'b> = flatbuffers::Vector<'b, flatbuffers::ForwardsUOffset<&'b str>>;

fn text_list<'b>(
    builder: &mut FlatBufferBuilder<'b>,
    texts: &[String],
) -> Option<WIPOffset<Texts<'b>>> {
    if texts.is_empty() {
        return None;
    }
    let texts: Vec<_> = (texts.iter())
        .map(|text| builder.create_string(text))
        .collect();
    Some(builder.create_vector(&texts))
}

fn id_vector<'b>(
    builder: &mut FlatBufferBuilder<'b>,
    ids: &[PvId],
) -> WIPOffset<flatbuffers::Vector<'b, u32>> {
    let numbers: Vec<u32> = ids.iter().map(|id| id.0).collect();
    builder.create_vector(&numbers)
}

type NameErrors<'b> = flatbuffers::Vector<'b, flatbuffers::ForwardsUOffset<fb::NameError<'b>>>;

fn name_errors<'b>(
    builder: &mut FlatBufferBuilder<'b>,
    errors: &[NameError],
) -> Option<WIPOffset<NameErrors<'b>>> {
    if errors.is_empty() {
        return None;
    }
    let mut offsets = Vec::with_capacity(errors.len());
    for error in errors {
        let message = Some(builder.create_string(&error.message));
        let problem = fb::NameProblem(error.problem.number());
        let args = fb::NameErrorArgs {
            index: error.index,
            problem,
            message,
        };
        offsets.push(fb::NameError::create(builder, &args));
    }
    Some(builder.create_vector(&offsets))
}
