//! Sessions of doors' clients: their messages, and the subscriptions that follow from them.
//!
//! A client of a door may send one message per PV. All subscriptions that the messages of one turn begin and end
//! go to the fan-out stage together. Later ones wait until these are answered, so that a client's messages can't
//! fill a queue, however many it sends.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use pvwire_schema::types::{NameError, NameProblem, Outcome, PutValue, PvId};

use super::{Run, ShardHandle};
use crate::config::Access;
use crate::fanout::control::{ClientId, ControlRequest};
use crate::fanout::door_session::{DoorAction, DoorSession, ReadMessage};
use crate::fanout::frame::Frame;
use crate::ingest::{Form, OpEnd, Put};
use crate::session::operation::Action;
use crate::session::socket::Disconnect;

/// Maximum number of refusals of one request with a text; further ones are counted.
const MOST_TOLD_BYTES: usize = 64 << 10;

/// Maximum length of the reason in a close frame.
const MOST_REASON_BYTES: usize = 123;

/// The session of one client of a door.
pub(super) struct Door {
    pub(super) session: Box<dyn DoorSession>,
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
    close_frame: Option<(u16, String)>,
}

impl Door {
    pub(super) fn new(session: Box<dyn DoorSession>, now: Instant) -> Self {
        Self {
            heard: now,
            sent: now,
            session,
            open: 0,
            asked: Vec::new(),
            is_being_read: false,
            close_frame: None,
        }
    }

    /// Code and reason of the close frame, if the door's protocol has chosen them.
    pub(super) fn take_close_frame(&mut self) -> Option<(u16, String)> {
        self.close_frame.take()
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
    fn add(
        &mut self,
        to: &mut dyn DoorSession,
        form: &Form,
        (problem, message): (NameProblem, &str),
    ) {
        let before = self.told.len();
        to.refused(form, problem, message, &mut self.told);
        if before >= MOST_TOLD_BYTES && self.told.len() > before {
            self.told.truncate(before);
            self.untold += 1;
        }
    }

    /// All texts in one frame; `None` if there are none.
    fn frame(mut self, to: &mut dyn DoorSession) -> Option<Frame> {
        if self.untold > 0 {
            to.more_refused(self.untold, &mut self.told);
        }
        (!self.told.is_empty()).then(|| Frame::raw(self.told))
    }
}

impl Run {
    /// Takes a message of a client of a door: a short one at once, others when another thread has read them.
    pub(super) fn take_door_message(
        &mut self,
        slot: usize,
        message: Bytes,
    ) -> Result<(), Disconnect> {
        let client = &mut self.clients[slot];
        if client.known()?.is_none() {
            return Err(Disconnect::NotLoggedIn);
        }
        let (share, pool) = (client.caller.cpu(), &self.context.pool);
        let Some(with) = &mut client.door else {
            return Ok(());
        };
        with.heard = Instant::now();
        let reader = with.session.reader();
        if !pool.is_for_now(share, reader.size(&message)) {
            with.is_being_read = true;
            let handle = ShardHandle::new(Arc::clone(&self.mailbox));
            handle.read(pool, share, client.id, reader, message);
            return Ok(());
        }
        let asked = pool.now(share, || {
            let message = reader.read(&message);
            with.session.take(message)
        });
        self.act_for_door(slot, asked)
    }

    /// A message of a client of a door was read: takes it, and then the ones that came meanwhile.
    pub(super) fn was_read(&mut self, id: ClientId, message: Option<ReadMessage>) {
        if !self.serves(id) {
            return;
        }
        let slot = id.index;
        let client = &mut self.clients[slot];
        let known = client.known().map(|known| known.is_some());
        let Some(with) = &mut client.door else {
            return;
        };
        with.is_being_read = false;
        let done = match (known, message) {
            (Ok(true), Some(message)) => {
                let (share, pool) = (client.caller.cpu(), &self.context.pool);
                let asked = pool.now(share, || with.session.take(message));
                self.act_for_door(slot, asked)
            }
            (Ok(true), None) => Err(Disconnect::BadMessage),
            (Ok(false), _) => Err(Disconnect::NotLoggedIn),
            (Err(broken), _) => Err(broken),
        };
        let done = done.and_then(|()| self.ask_for_changes(slot));
        self.finish_turn(slot, done.map(|()| false));
        // The poll reports the messages that came meanwhile only once.
        self.read_later(slot);
    }

    /// Does what a client's protocol asks for at once.
    fn act_for_door(&mut self, slot: usize, asked: Option<DoorAction>) -> Result<(), Disconnect> {
        let client = &mut self.clients[slot];
        match asked {
            None => Ok(()),
            Some(DoorAction::Send(frame)) => {
                if let Some(with) = &mut client.door {
                    with.sent = Instant::now();
                }
                client.answer_charged(frame)
            }
            Some(DoorAction::Put {
                number,
                name,
                value,
            }) => self.put_named(slot, number, name, value),
            Some(DoorAction::Run(batch, respond)) => self.send_batch(slot, batch, respond),
            Some(DoorAction::LogIn {
                token,
                refused,
                greeting,
            }) => {
                client.budget.take_token(Instant::now())?;
                self.log_in_by_door(slot, &token, refused, greeting)
            }
            Some(DoorAction::Close(code, reason)) => Err(self.dismiss(slot, code, reason)),
        }
    }

    /// Lets a client of a door be closed with this code and reason.
    pub(super) fn dismiss(&mut self, slot: usize, code: u16, mut reason: String) -> Disconnect {
        reason.truncate(reason.floor_char_boundary(MOST_REASON_BYTES));
        if let Some(with) = &mut self.clients[slot].door {
            with.close_frame = Some((code, reason));
        }
        Disconnect::ClosedByDoor
    }

    /// Lets the protocol of a client notice how much time has passed.
    pub(super) fn pass_time(&mut self, slot: usize) {
        let client = &mut self.clients[slot];
        let connected = client.age();
        let with = client.door.as_mut();
        let asked = with.and_then(|with| with.session.passing(connected));
        if asked.is_some() {
            let done = self.act_for_door(slot, asked);
            self.finish_turn(slot, done.map(|()| false));
        }
    }

    fn put_named(
        &mut self,
        slot: usize,
        number: u32,
        name: String,
        value: PutValue,
    ) -> Result<(), Disconnect> {
        let timeout = self.context.limits.put_timeout;
        let client = &mut self.clients[slot];
        if !client.budget.has_room() {
            let end = OpEnd::failed(
                Outcome::NotAllowed,
                "too many writes wait for their answers",
            );
            return self.tell_put(slot, number, &end);
        }
        let put = Put {
            value,
            wait: false,
            expected: None,
            user: client.caller.identity.user.clone(),
            timeout,
            by: None,
        };
        self.operate(slot, number, vec![(name, Action::Put(put))], (false, false))
    }

    /// Tells a client of a door how its put ended.
    pub(super) fn tell_put(
        &mut self,
        slot: usize,
        number: u32,
        end: &OpEnd,
    ) -> Result<(), Disconnect> {
        let client = &mut self.clients[slot];
        let with = client.door.as_mut();
        match with.and_then(|with| with.session.put_ended(number, end)) {
            Some(frame) => client.answer_charged(frame),
            None => Ok(()),
        }
    }

    /// A client's request was answered: requests the changes to its subscriptions that came up meanwhile.
    pub(super) fn resume(&mut self, slot: usize) {
        let with = self.clients[slot].door.as_mut();
        if let Some(with) = with {
            with.open = with.open.saturating_sub(1);
            if with.open == 0 {
                with.asked = Vec::new();
            }
            let asked = self.ask_for_changes(slot);
            self.finish_turn(slot, asked.map(|()| false));
        }
    }

    /// Requests the changes to a client's subscriptions, unless earlier requests are still open, or the client
    /// has named too many PVs: then it waits until it may name some more.
    pub(super) fn ask_for_changes(&mut self, slot: usize) -> Result<(), Disconnect> {
        // Names that are refused leave no request open whose answer would bring the next ones.
        while self.has_changes(slot) && self.clients[slot].budget.may_name(Instant::now()) {
            self.ask_for_some_changes(slot)?;
        }
        Ok(())
    }

    /// Whether changes to a client's subscriptions can be requested.
    fn has_changes(&self, slot: usize) -> bool {
        let with = self.clients[slot].door.as_ref();
        with.is_some_and(|with| with.open == 0 && with.session.has_changes())
    }

    /// Requests the changes of a client that has named too many PVs and may name more meanwhile.
    pub(super) fn ask_for_late_changes(&mut self, slot: usize) {
        if self.clients.contains(slot) && self.has_changes(slot) {
            let asked = self.ask_for_changes(slot);
            self.finish_turn(slot, asked.map(|()| false));
        }
    }

    fn ask_for_some_changes(&mut self, slot: usize) -> Result<(), Disconnect> {
        let client = &mut self.clients[slot];
        let Some(with) = &mut client.door else {
            return Ok(());
        };
        let (id, request, control) = (client.id, 0, &self.context.control);
        let ids = with.session.cleared();
        if !ids.is_empty() {
            client.budget.open()?;
            with.open += 1;
            let router = &self.router;
            control.push(router.unsubscription((id, request), &client.caller.rates, ids));
        }
        let wanted = with.session.wanted();
        client.budget.spend_names(wanted.len());
        let mut refusals = Refusals::default();
        let (mut ids, mut asked) = (Vec::<PvId>::new(), Vec::new());
        for (form, acquired) in self.router.acquire_forms(id, &client.caller, wanted) {
            match acquired {
                Ok(pv) => {
                    with.session.accepted(&form, pv);
                    ids.push(pv);
                    asked.push(form);
                }
                Err(refusal) => {
                    let why = (refusal.problem, &*refusal.message);
                    refusals.add(&mut *with.session, &form, why);
                }
            }
        }
        if !ids.is_empty() {
            let subscribe = ControlRequest::Subscribe {
                client: id,
                request,
                ids,
                errors: Vec::new(),
                owner: Arc::clone(&client.caller.owner),
            };
            if let Err(too_many) = client.budget.open() {
                self.router.withdraw(subscribe);
                return Err(too_many.into());
            }
            with.open += 1;
            with.asked = asked;
            control.push(subscribe);
        }
        match refusals.frame(&mut *with.session) {
            Some(frame) => client.answer_charged(frame),
            None => Ok(()),
        }
    }

    /// Tells a client which names of its open request the fan-out stage refused.
    pub(super) fn tell_refused(
        &mut self,
        slot: usize,
        errors: &[NameError],
    ) -> Result<(), Disconnect> {
        let client = &mut self.clients[slot];
        let Some(with) = &mut client.door else {
            return Ok(());
        };
        let mut refusals = Refusals::default();
        for error in errors {
            if let Some(form) = with.asked.get(error.index as usize) {
                refusals.add(&mut *with.session, form, (error.problem, &*error.message));
            }
        }
        match refusals.frame(&mut *with.session) {
            Some(frame) => client.answer_charged(frame),
            None => Ok(()),
        }
    }

    /// The rules have changed: subscribes the PVs of clients of doors again whose permission to write has changed.
    pub(super) fn tell_changed_rights(&mut self) {
        let registry = Arc::clone(&self.context.registry);
        let mut changed = Vec::new();
        for (slot, client) in &mut self.clients {
            if client.is_closing() {
                continue;
            }
            if let Some(with) = &mut client.door {
                let identity = Arc::clone(&client.caller.identity);
                let may_write = |name: &str| registry.permit(name, &identity, Access::Put).is_ok();
                with.session.rights_changed(&may_write);
                changed.push(slot);
            }
        }
        for slot in changed {
            let asked = self.ask_for_changes(slot);
            self.finish_turn(slot, asked.map(|()| false));
        }
    }
}
