//! Conversations with clients of doors: their messages, and the subscriptions that follow from them.
//!
//! A client of a door may send one message per PV. All subscriptions that the messages of one turn begin and end
//! go to the fan-out stage together. Later ones wait until these are answered, so that a client's messages can't
//! fill a queue, however many it sends.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use pvwire_schema::types::{NameError, NameProblem, Outcome, PutValue, PvId};

use super::{Run, ShardHandle};
use crate::compute::Size;
use crate::config::Access;
use crate::fanout::control::{ClientId, ControlRequest};
use crate::fanout::dialogue::{Ask, Dialogue, ReadMessage};
use crate::fanout::frame::Frame;
use crate::ingest::{Form, OpEnd, Put};
use crate::session::operation::Action;
use crate::session::socket::Broken;

/// Refusals of one request that a client is told in words; further ones are counted.
const MOST_TOLD_BYTES: usize = 64 << 10;

/// Maximum length of the reason in a close frame.
const MOST_REASON_BYTES: usize = 123;

/// One client's conversation.
pub(super) struct Conversation {
    pub(super) dialogue: Box<dyn Dialogue>,
    /// Number of requests to the fan-out stage that are not answered yet.
    open: usize,
    /// The forms of the request to subscribe that is not answered yet.
    asked: Vec<Arc<Form>>,
    /// When the client's last message came, or when it connected.
    pub(super) heard: Instant,
    /// When the client was last sent something, or when it connected.
    pub(super) sent: Instant,
    /// A message is being read on another thread; no further message is taken meanwhile.
    pub(super) is_being_read: bool,
    /// Code and reason with which the connection is closed.
    farewell: Option<(u16, String)>,
}

impl Conversation {
    pub(super) fn new(dialogue: Box<dyn Dialogue>, now: Instant) -> Self {
        Self {
            heard: now,
            sent: now,
            dialogue,
            open: 0,
            asked: Vec::new(),
            is_being_read: false,
            farewell: None,
        }
    }

    /// Code and reason of the close frame, if the door's protocol has chosen them.
    pub(super) fn take_farewell(&mut self) -> Option<(u16, String)> {
        self.farewell.take()
    }
}

/// The texts that tell a client which names are refused.
#[derive(Default)]
struct Refusals {
    told: Vec<u8>,
    /// Number of refused names without a text.
    untold: usize,
}

impl Refusals {
    fn add(&mut self, to: &mut dyn Dialogue, form: &Form, (problem, message): (NameProblem, &str)) {
        let before = self.told.len();
        to.refused(form, problem, message, &mut self.told);
        if before >= MOST_TOLD_BYTES && self.told.len() > before {
            self.told.truncate(before);
            self.untold += 1;
        }
    }

    /// All texts in one frame; `None` if there are none.
    fn frame(mut self, to: &mut dyn Dialogue) -> Option<Arc<Frame>> {
        if self.untold > 0 {
            to.more_refused(self.untold, &mut self.told);
        }
        (!self.told.is_empty()).then(|| Arc::new(Frame::raw(self.told)))
    }
}

impl Run {
    /// Takes a message of a client of a door: a short one at once, others when another thread has read them.
    pub(super) fn converse(&mut self, place: usize, message: Bytes) -> Result<(), Broken> {
        let client = &mut self.clients[place];
        if client.known()?.is_none() {
            return Err(Broken::NotLoggedIn);
        }
        let (share, pool) = (client.owner.cpu(), &self.context.pool);
        let Some(with) = &mut client.conversation else {
            return Ok(());
        };
        with.heard = Instant::now();
        let reader = with.dialogue.reader();
        if !pool.is_for_now(share, Size::of(message.len())) {
            with.is_being_read = true;
            let handle = ShardHandle::new(Arc::clone(&self.mailbox));
            handle.read(pool, share, client.id, reader, message);
            return Ok(());
        }
        let asked = pool.now(share, || {
            let message = reader.read(&message);
            with.dialogue.take(message)
        });
        self.comply(place, asked)
    }

    /// A message of a client of a door was read: takes it, and then those that came meanwhile.
    pub(super) fn was_read(&mut self, id: ClientId, message: Option<ReadMessage>) {
        if !self.serves(id) {
            return;
        }
        let place = id.index;
        let client = &mut self.clients[place];
        let known = client.known().map(|known| known.is_some());
        let Some(with) = &mut client.conversation else {
            return;
        };
        with.is_being_read = false;
        let done = match (known, message) {
            (Ok(true), Some(message)) => {
                let asked = with.dialogue.take(message);
                self.comply(place, asked)
            }
            (Ok(true), None) => Err(Broken::BadMessage),
            (Ok(false), _) => Err(Broken::NotLoggedIn),
            (Err(broken), _) => Err(broken),
        };
        let done = done.and_then(|()| self.ask_for_changes(place));
        self.settle(place, done.map(|()| false));
        // The poll reports the messages that came meanwhile only once.
        self.again.insert(place);
    }

    /// Does what a client's protocol asks for at once.
    fn comply(&mut self, place: usize, asked: Option<Ask>) -> Result<(), Broken> {
        let client = &mut self.clients[place];
        match asked {
            None => Ok(()),
            Some(Ask::Send(frame)) => {
                if let Some(with) = &mut client.conversation {
                    with.sent = Instant::now();
                }
                client.socket.answer(&Arc::new(frame))
            }
            Some(Ask::Put {
                number,
                name,
                value,
            }) => self.put_named(place, number, name, value),
            Some(Ask::Run(errand, respond)) => self.send_out(place, errand, respond),
            Some(Ask::LogIn {
                token,
                refused,
                greeting,
            }) => self.log_in_by_door(place, &token, refused, greeting),
            Some(Ask::Close(code, reason)) => Err(self.dismiss(place, code, reason)),
        }
    }

    /// Lets a client of a door be closed with this code and reason.
    pub(super) fn dismiss(&mut self, place: usize, code: u16, mut reason: String) -> Broken {
        reason.truncate(reason.floor_char_boundary(MOST_REASON_BYTES));
        if let Some(with) = &mut self.clients[place].conversation {
            with.farewell = Some((code, reason));
        }
        Broken::Dismissed
    }

    /// Lets the protocol of a client notice how much time has passed.
    pub(super) fn pass_time(&mut self, place: usize) {
        let client = &mut self.clients[place];
        let connected = client.age();
        let with = client.conversation.as_mut();
        let asked = with.and_then(|with| with.dialogue.passing(connected));
        if asked.is_some() {
            let done = self.comply(place, asked);
            self.settle(place, done.map(|()| false));
        }
    }

    fn put_named(
        &mut self,
        place: usize,
        number: u32,
        name: String,
        value: PutValue,
    ) -> Result<(), Broken> {
        let timeout = self.context.limits.put_timeout;
        let client = &mut self.clients[place];
        if !client.budget.has_room() {
            let end = OpEnd::failed(
                Outcome::NotAllowed,
                "too many writes wait for their answers",
            );
            return self.tell_put(place, number, &end);
        }
        let put = Put {
            value,
            wait: false,
            expected: None,
            user: client.identity.user.clone(),
            timeout,
            by: None,
        };
        self.operate(
            place,
            number,
            vec![(name, Action::Put(put))],
            (false, false),
        )
    }

    /// Tells a client of a door how its put ended.
    pub(super) fn tell_put(
        &mut self,
        place: usize,
        number: u32,
        end: &OpEnd,
    ) -> Result<(), Broken> {
        let client = &mut self.clients[place];
        let with = client.conversation.as_mut();
        match with.and_then(|with| with.dialogue.put_ended(number, end)) {
            Some(frame) => client.socket.answer(&Arc::new(frame)),
            None => Ok(()),
        }
    }

    /// A client's request was answered: requests the changes to its subscriptions that came up meanwhile.
    pub(super) fn go_on(&mut self, place: usize) {
        let with = self.clients[place].conversation.as_mut();
        if let Some(with) = with {
            with.open = with.open.saturating_sub(1);
            if with.open == 0 {
                with.asked = Vec::new();
            }
            let asked = self.ask_for_changes(place);
            self.settle(place, asked.map(|()| false));
        }
    }

    /// Requests the changes to a client's subscriptions, unless earlier requests are still open, or the client
    /// has named too many PVs: then it waits until it may name some more.
    pub(super) fn ask_for_changes(&mut self, place: usize) -> Result<(), Broken> {
        // Names that are refused leave no request open whose answer would bring the next ones.
        while self.has_changes(place) && self.clients[place].budget.may_name(Instant::now()) {
            self.ask_for_some_changes(place)?;
        }
        Ok(())
    }

    /// Whether changes to a client's subscriptions can be requested.
    fn has_changes(&self, place: usize) -> bool {
        let with = self.clients[place].conversation.as_ref();
        with.is_some_and(|with| with.open == 0 && with.dialogue.has_changes())
    }

    /// Requests the changes of a client that has named too many PVs and may name more meanwhile.
    pub(super) fn ask_for_late_changes(&mut self, place: usize) {
        if self.clients.contains(place) && self.has_changes(place) {
            let asked = self.ask_for_changes(place);
            self.settle(place, asked.map(|()| false));
        }
    }

    fn ask_for_some_changes(&mut self, place: usize) -> Result<(), Broken> {
        let client = &mut self.clients[place];
        let Some(with) = &mut client.conversation else {
            return Ok(());
        };
        let (id, request, control) = (client.id, 0, &self.context.control);
        let ids = with.dialogue.cleared();
        if !ids.is_empty() {
            client.budget.open()?;
            with.open += 1;
            let answerer = &self.answerer;
            control.push(answerer.unsubscription((id, request), &client.caller, ids));
        }
        let wanted = with.dialogue.wanted();
        client.budget.spend_names(wanted.len());
        let asker = (id, &client.caller, &client.identity, &client.owner);
        let mut refusals = Refusals::default();
        let (mut ids, mut asked) = (Vec::<PvId>::new(), Vec::new());
        for (form, acquired) in self.answerer.acquire_forms(asker, wanted) {
            match acquired {
                Ok(pv) => {
                    with.dialogue.accepted(&form, pv);
                    ids.push(pv);
                    asked.push(form);
                }
                Err(refusal) => {
                    let why = (refusal.problem, &*refusal.message);
                    refusals.add(&mut *with.dialogue, &form, why);
                }
            }
        }
        if !ids.is_empty() {
            let subscribe = ControlRequest::Subscribe {
                client: id,
                request,
                ids,
                errors: Vec::new(),
                owner: Arc::clone(&client.owner),
            };
            if let Err(too_many) = client.budget.open() {
                self.answerer.withdraw(subscribe);
                return Err(too_many.into());
            }
            with.open += 1;
            with.asked = asked;
            control.push(subscribe);
        }
        match refusals.frame(&mut *with.dialogue) {
            Some(frame) => client.socket.answer(&frame),
            None => Ok(()),
        }
    }

    /// Tells a client which names of its open request the fan-out stage refused.
    pub(super) fn tell_refused(
        &mut self,
        place: usize,
        errors: &[NameError],
    ) -> Result<(), Broken> {
        let client = &mut self.clients[place];
        let Some(with) = &mut client.conversation else {
            return Ok(());
        };
        let mut refusals = Refusals::default();
        for error in errors {
            if let Some(form) = with.asked.get(error.index as usize) {
                refusals.add(&mut *with.dialogue, form, (error.problem, &*error.message));
            }
        }
        match refusals.frame(&mut *with.dialogue) {
            Some(frame) => client.socket.answer(&frame),
            None => Ok(()),
        }
    }

    /// The rules have changed: subscribes the PVs of clients of doors again whose permission to write has changed.
    pub(super) fn judge_conversations(&mut self) {
        let registry = Arc::clone(&self.context.registry);
        let mut changed = Vec::new();
        for (place, client) in &mut self.clients {
            if client.is_closing() {
                continue;
            }
            if let Some(with) = &mut client.conversation {
                let identity = Arc::clone(&client.identity);
                let may_write = |name: &str| registry.permit(name, &identity, Access::Put).is_ok();
                with.dialogue.judge_again(&may_write);
                changed.push(place);
            }
        }
        for place in changed {
            let asked = self.ask_for_changes(place);
            self.settle(place, asked.map(|()| false));
        }
    }
}
