//! Applies the relay's messages and makes the requests that keep the PVs subscribed.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use pvwire_schema::decode::{DecodeError, NodeView};
use pvwire_schema::limits::MAX_NAMES;
use pvwire_schema::types::{Node, PvId};

use super::{Description, Engine, Event, Link, Opened, Origin, millis};
use crate::ingest::{Answered, ArrayRow};
use crate::select::execute::Held;
use crate::store::{NO_SLOT, Slot};

/// A message of the relay can't be applied. Close the connection, report this with
/// [`Engine::disconnected`] and connect again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReceiveError {
    /// The bytes are not a frame.
    #[error("the relay's message can't be decoded: {0}")]
    Damaged(#[from] DecodeError),
    /// A frame is missing before this one.
    #[error("a message of the relay is missing")]
    Gap,
}

impl Engine {
    /// Applies one binary message of the relay. Afterwards [`Engine::changes`] and
    /// [`Engine::events`] return what is new, and [`Engine::requests`] what to send.
    ///
    /// Elements of arrays are not copied: an array keeps its message in memory.
    ///
    /// # Errors
    /// The message is damaged, or a message before it is missing. In both cases nothing is applied.
    pub fn receive(
        &mut self,
        message: impl Into<Bytes>,
        now: SystemTime,
    ) -> Result<(), ReceiveError> {
        let message = message.into();
        let applied = self.session.apply(&message)?;
        if applied.gap {
            return Err(ReceiveError::Gap);
        }
        self.pulse.heard_at(now, applied.moves_tick);
        self.set_silent_since(None);
        let request = applied.reply_to;
        match applied.answered {
            Answered::Hello => self.greeted(),
            Answered::Subscribe => self.subscribed(request),
            Answered::Unsubscribe => self.wanted.extend(self.session.take_without_room()),
            Answered::Ping => self.pulse.answered(),
            Answered::Get => {
                let mut held = Held::new();
                held.share(&message, &self.session.arrays);
                self.operations
                    .got(request, &mut self.session, held, &mut self.events);
                return Ok(());
            }
            Answered::Put => {
                let readback = answer(&message, &self.session.arrays);
                self.operations
                    .put_done(request, &mut self.session, readback, &mut self.events);
            }
            Answered::Rpc => {
                let value = answer(&message, &self.session.arrays);
                self.operations
                    .called(request, &mut self.session, value, &mut self.events);
            }
            Answered::Page => {
                let content = content(&message, &self.session.arrays);
                self.operations
                    .answered(request, &mut self.session, content, &mut self.events);
                return Ok(());
            }
            Answered::Error => {
                let message = &self.session.error;
                if !(self.operations).refused(request, message, &mut self.events) {
                    self.subscribed(request);
                }
            }
            Answered::Nothing => {}
        }
        self.held.share(&message, &self.session.arrays);
        Ok(())
    }

    /// The relay sent its Hello.
    fn greeted(&mut self) {
        let Some(hello) = self.session.hello.clone() else {
            return;
        };
        if hello.authenticate {
            self.link = Link::Opening;
            self.events.push(Event::TokenWanted);
            return;
        }
        let interval = Duration::from_millis(hello.ack_interval_ms.into());
        self.pulse.acknowledge_every(interval);
        // A renewed token is answered by another Hello on the same connection.
        if self.link != Link::Open {
            self.link = Link::Open;
            self.subscribe_all();
            if !self.interval.is_zero() {
                self.outgoing.push(self.session.pace(millis(self.interval)));
            }
        }
        self.events.push(Event::Opened(hello));
    }

    /// A new connection has no subscriptions: all open PVs are requested.
    fn subscribe_all(&mut self) {
        self.wanted.clear();
        for (slot, opened) in self.pvs.iter_mut().enumerate() {
            if opened.is_open && opened.origin == Origin::Relay {
                self.wanted.push(slot as Slot);
            }
            if opened.description == Description::Requested {
                opened.description = Description::Wanted;
            }
        }
    }

    /// A Subscribe was answered or refused.
    fn subscribed(&mut self, request: u32) {
        if self.subscribing == Some(request) {
            self.subscribing = None;
        }
    }

    /// Subscribes the next PVs. Only one Subscribe is open at a time.
    pub(super) fn subscribe(&mut self, requests: &mut Vec<Vec<u8>>) {
        let Some(first) = self.wanted.first() else {
            return;
        };
        if self.subscribing.is_some() {
            return;
        }
        // A request has one filter.
        let filter = self.pvs[*first as usize].filter;
        let fits = |slot: &&Slot| self.pvs[**slot as usize].filter == filter;
        let slots: Vec<_> = self.wanted.iter().filter(fits).copied().collect();
        let (taken, bytes) = self.session.subscribe(&slots, filter);
        let mut left = taken;
        let pvs = &self.pvs;
        self.wanted.retain(|slot| {
            let sent = left > 0 && pvs[*slot as usize].filter == filter;
            left -= usize::from(sent);
            !sent
        });
        self.subscribing = Some(self.session.last_request());
        requests.push(bytes);
    }

    /// Releases the slots of closed PVs, but not while a Subscribe is open: its answer could
    /// contain one of them.
    pub(super) fn release(&mut self, requests: &mut Vec<Vec<u8>>) {
        if self.subscribing.is_some() {
            return;
        }
        let closed = std::mem::take(&mut self.closed);
        for slots in closed.chunks(MAX_NAMES) {
            requests.extend(self.session.remove(slots));
        }
    }

    /// Requests descriptions of PVs whose ids are known.
    pub(super) fn describe_wanted(&mut self, requests: &mut Vec<Vec<u8>>) {
        if self.subscribing.is_some() {
            return;
        }
        let wanted = |opened: &Opened| opened.is_open && opened.description == Description::Wanted;
        let slots = self.pvs.iter().enumerate();
        let slots = slots
            .filter(|(_, opened)| wanted(opened))
            .map(|(slot, _)| slot as Slot);
        let has_id = |slot: &Slot| self.session.live.id(*slot) != PvId::NONE;
        let slots: Vec<_> = slots.filter(has_id).collect();
        for slots in slots.chunks(MAX_NAMES) {
            requests.extend(self.session.describe(slots));
            for slot in slots {
                self.pvs[*slot as usize].description = Description::Requested;
            }
        }
    }
}

/// The content of a page.
fn content(message: &Bytes, rows: &[ArrayRow]) -> Bytes {
    let row = rows.iter().find(|row| row.slot == NO_SLOT);
    row.map_or_else(Bytes::new, |row| {
        let start = row.offset as usize;
        message.slice(start..start + row.count as usize)
    })
}

/// The value in an answer to a put or a call.
fn answer(message: &[u8], rows: &[ArrayRow]) -> Option<Node> {
    let row = rows.iter().find(|row| row.slot == NO_SLOT)?;
    Some(NodeView::at(message, row.offset as usize).to_node())
}
