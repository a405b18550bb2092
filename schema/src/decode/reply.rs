//! The reply that a frame carries.

use super::table::Table;
use super::{FrameView, NodeView, offset_in};
use crate::generated::frame as fb;
use crate::types::{Hello, NameError, NameProblem, Outcome, Page, PvId, Reply, RequestProblem};

impl<'a> FrameView<'a> {
    fn reply_table(&self) -> Option<(fb::ReplyBody, Table<'a>)> {
        let kind = fb::ReplyBody(self.frame.u8(fb::Frame::VT_REPLY_TYPE));
        Some((kind, self.frame.table(fb::Frame::VT_REPLY)?))
    }

    /// The reply, if the frame carries one of a known type.
    #[must_use]
    pub fn reply(&self) -> Option<Reply> {
        let (kind, body) = self.reply_table()?;
        Some(match kind {
            fb::ReplyBody::Hello => Reply::Hello(Hello {
                relay_version: body.text(fb::Hello::VT_RELAY_VERSION).to_owned(),
                relay_instance: body.u64(fb::Hello::VT_RELAY_INSTANCE),
                max_request_bytes: body.u32(fb::Hello::VT_MAX_REQUEST_BYTES),
                max_subscriptions: body.u32(fb::Hello::VT_MAX_SUBSCRIPTIONS),
                ack_interval_ms: body.u32(fb::Hello::VT_ACK_INTERVAL_MS),
                not_found_after_ms: body.u32(fb::Hello::VT_NOT_FOUND_AFTER_MS),
                authenticate: body.u8(fb::Hello::VT_AUTHENTICATE) != 0,
                user: body.text(fb::Hello::VT_USER).to_owned(),
                expires_in_ms: body.u64(fb::Hello::VT_EXPIRES_IN_MS),
                relays: (body.texts(fb::Hello::VT_RELAYS).map(str::to_owned)).collect(),
                crowded: body.bool(fb::Hello::VT_CROWDED),
            }),
            fb::ReplyBody::Subscribed => Reply::Subscribed {
                ids: ids(body.vector(fb::Subscribed::VT_IDS, 4)),
                errors: name_errors(body, fb::Subscribed::VT_ERRORS),
            },
            fb::ReplyBody::Unsubscribed => Reply::Unsubscribed {
                ids: ids(body.vector(fb::Unsubscribed::VT_IDS, 4)),
            },
            fb::ReplyBody::Got => Reply::Got {
                ids: ids(body.vector(fb::Got::VT_IDS, 4)),
                errors: name_errors(body, fb::Got::VT_ERRORS),
            },
            fb::ReplyBody::Pong => Reply::Pong {
                client_time_ns: body.u64(fb::Pong::VT_CLIENT_TIME_NS) as i64,
                relay_time_ns: body.u64(fb::Pong::VT_RELAY_TIME_NS) as i64,
            },
            fb::ReplyBody::PutDone => Reply::PutDone {
                outcome: Outcome::from_number(body.u8(fb::PutDone::VT_OUTCOME)),
                message: body.text(fb::PutDone::VT_MESSAGE).to_owned(),
            },
            fb::ReplyBody::RpcDone => Reply::RpcDone {
                outcome: Outcome::from_number(body.u8(fb::RpcDone::VT_OUTCOME)),
                message: body.text(fb::RpcDone::VT_MESSAGE).to_owned(),
            },
            fb::ReplyBody::AnswerPage => Reply::Page(Page {
                outcome: Outcome::from_number(body.u8(fb::AnswerPage::VT_OUTCOME)),
                message: body.text(fb::AnswerPage::VT_MESSAGE).to_owned(),
                page: body.u32(fb::AnswerPage::VT_PAGE),
                last: body.bool(fb::AnswerPage::VT_LAST),
            }),
            fb::ReplyBody::Relays => Reply::Relays {
                relays: (body.texts(fb::Relays::VT_RELAYS).map(str::to_owned)).collect(),
            },
            fb::ReplyBody::RequestError => Reply::Error {
                problem: RequestProblem::from_number(body.u8(fb::RequestError::VT_PROBLEM)),
                message: body.text(fb::RequestError::VT_MESSAGE).to_owned(),
            },
            _ => return None,
        })
    }

    /// Content of an AnswerPage: where it starts in the message, a multiple of eight, and its bytes.
    #[must_use]
    pub fn page_content(&self) -> Option<(usize, &'a [u8])> {
        let (length, words) = self.page_words()?;
        let content = words.get(..length)?;
        Some((offset_in(self.bytes, content), content))
    }

    /// Length of an AnswerPage's content and the words that have it.
    pub(super) fn page_words(&self) -> Option<(usize, &'a [u8])> {
        let (kind, page) = self.reply_table()?;
        let length = page.u32(fb::AnswerPage::VT_BYTES) as usize;
        (kind == fb::ReplyBody::AnswerPage)
            .then(|| (length, page.vector(fb::AnswerPage::VT_DATA, 8)))
    }

    /// Result of an Rpc.
    #[must_use]
    pub fn rpc_result(&self) -> Option<NodeView<'a>> {
        let (kind, done) = self.reply_table()?;
        let result = done.table(fb::RpcDone::VT_RESULT);
        let node = result.filter(|_| kind == fb::ReplyBody::RpcDone)?;
        let bytes = self.bytes;
        Some(NodeView { node, bytes })
    }

    /// The value read back after a Put, if it differs from what was put.
    #[must_use]
    pub fn put_readback(&self) -> Option<NodeView<'a>> {
        let (kind, done) = self.reply_table()?;
        let readback = done.table(fb::PutDone::VT_READBACK);
        let node = readback.filter(|_| kind == fb::ReplyBody::PutDone)?;
        let bytes = self.bytes;
        Some(NodeView { node, bytes })
    }
}

fn ids(list: &[u8]) -> Vec<PvId> {
    let ids = list.as_chunks().0.iter();
    ids.map(|id| PvId(u32::from_le_bytes(*id))).collect()
}

fn name_errors(answer: Table<'_>, field: u16) -> Vec<NameError> {
    let errors = answer.tables(field);
    errors
        .map(|error| NameError {
            index: error.u32(fb::NameError::VT_INDEX),
            problem: NameProblem::from_number(error.u8(fb::NameError::VT_PROBLEM)),
            message: error.text(fb::NameError::VT_MESSAGE).to_owned(),
        })
        .collect()
}
