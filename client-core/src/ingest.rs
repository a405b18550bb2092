//! The session: applies frames from the relay to the store.
//!
//! A session is one connection's state: the open requests and the tick of the store. It does no
//! I/O; requests leave as bytes and frames arrive as bytes.

mod blob;
#[cfg(test)]
pub(crate) mod fixtures;
mod requests;
mod rows;

pub use self::blob::ArrayRow;
pub use self::requests::NoUpdate;

use pvwire_schema::decode::{self, DecodeError, FrameView, NodeView};
use pvwire_schema::limits::TOO_FAST;
use pvwire_schema::types::{
    ConnectionState, FrameKind, Hello, NameError, NameProblem, Outcome, Reply, ValueType,
};

use self::requests::Requests;
use self::rows::fill;
use crate::store::{NO_SLOT, Slot, Store};

/// The kind of request that a frame answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Answered {
    /// No request.
    #[default]
    Nothing = 0,
    /// The handshake.
    Hello = 1,
    /// A Subscribe.
    Subscribe = 2,
    /// An Unsubscribe.
    Unsubscribe = 3,
    /// A Get; its PVs are in the session's `answer`.
    Get = 4,
    /// A Ping.
    Ping = 5,
    /// A request that failed as a whole.
    Error = 6,
    /// A Put; the session's `outcome` and `error` hold its result.
    Put = 7,
    /// An Rpc; the session's `outcome` and `error` hold its result, `arrays` the location of the
    /// returned value.
    Rpc = 8,
    /// An Ask; the session's `outcome` and `error` hold the page's result, `is_last` whether it was the last
    /// page, `arrays` the location of its content.
    Page = 9,
}

/// What one frame did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Number of updates in it, including those of PVs without a slot.
    pub rows: u32,
    /// The frame does not follow the previous one: the store can't be trusted, and nothing was
    /// applied.
    pub gap: bool,
    /// It moved the client to another tick, which must be acknowledged.
    pub moves_tick: bool,
    /// The request that it answers.
    pub answered: Answered,
    /// The number of that request.
    pub reply_to: u32,
}

/// How long a refused put shows that its PV can't be written, counted from the next pong, unless the relay reports
/// access rights before.
const REFUSAL_KEPT_NS: i64 = 5_000_000_000;

/// The state of one connection and of what was received over it.
#[derive(Debug, Default)]
pub struct Session {
    /// PVs of `pv()`.
    pub live: Store,
    /// PVs of the last answered Get, one slot per requested name.
    pub answer: Store,
    /// The relay's description of itself, once received. Its list of relays is the newest that the relay has sent.
    pub hello: Option<Hello>,
    /// Names of the last answered Get that have no answer.
    pub name_errors: Vec<NameError>,
    /// The error message of the last failed request, put or call.
    pub error: String,
    /// Outcome of the last answered put or call.
    pub outcome: Outcome,
    /// Whether the last page of an answer was its last one.
    pub is_last: bool,
    /// Arrays and structures of the last frame: those of the answer if it answered a Get, otherwise
    /// those of the live PVs.
    pub arrays: Vec<ArrayRow>,
    /// When the last answered Ping was sent, by this client's clock, and answered, by the relay's
    /// clock; 0 before the first answer.
    pub pong: (i64, i64),
    requests: Requests,
    /// PVs to which puts were refused, and the time of the first pong after that.
    refusals: Vec<(String, Option<i64>)>,
    last_tick: u64,
}

impl Session {
    /// A session that has not yet received anything from a relay.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The tick of the last frame that changed the store.
    #[must_use]
    pub fn last_tick(&self) -> u64 {
        self.last_tick
    }

    /// Records that the connection was lost, `now_ms` milliseconds past the POSIX epoch.
    pub fn relay_lost(&mut self, now_ms: f64, heard_ms: f64) {
        self.live.relay_lost(now_ms, heard_ms);
        self.hello = None;
        self.pong = (0, 0);
        self.requests.clear();
        self.last_tick = 0;
    }

    /// Applies one message of the relay.
    ///
    /// # Errors
    /// When the bytes are not a valid frame. The store is then unchanged.
    pub fn apply(&mut self, bytes: &[u8]) -> Result<Applied, DecodeError> {
        let frame = decode::frame(bytes)?;
        self.arrays.clear();
        let kind = frame.kind();
        let mut applied = Applied {
            rows: (frame.numbers_len() + frame.blobs_len()) as u32,
            reply_to: frame.reply_to(),
            ..Default::default()
        };
        if matches!(kind, FrameKind::Update | FrameKind::CatchUp)
            && frame.prev_tick() > self.last_tick
        {
            applied.gap = true;
            return Ok(applied);
        }
        let fresh = self.answered(&frame, &mut applied);
        if applied.answered == Answered::Get {
            fill(&mut self.answer, &mut self.arrays, &frame);
        } else if kind != FrameKind::Answer {
            fill(&mut self.live, &mut self.arrays, &frame);
            forget_unconfirmed(&mut self.live, &fresh);
            self.last_tick = self.last_tick.max(frame.tick());
            applied.moves_tick = true;
        }
        Ok(applied)
    }

    /// Records what the outcome of a put shows of the right to write its PV.
    fn put_ended(&mut self, request: u32, outcome: Outcome, message: &str) {
        let Some(name) = self.requests.put_ended(request) else {
            return;
        };
        match outcome {
            Outcome::Done => self.live.tried(&name, true),
            Outcome::NotAllowed if message.starts_with(TOO_FAST) => {}
            Outcome::NoAccess | Outcome::NotAllowed => {
                self.live.tried(&name, false);
                self.refusals.retain(|(known, _)| *known != name);
                self.refusals.push((name, None));
            }
            _ => {}
        }
    }

    /// Forgets refused puts after a while. Pongs, which have the time of their pings, come every few seconds.
    fn forget_refusals(&mut self, now_ns: i64) {
        let live = &mut self.live;
        self.refusals.retain_mut(|(name, since)| {
            let age_ns = now_ns.saturating_sub(*since.get_or_insert(now_ns));
            // The clock may have been set back.
            let is_kept = (0..REFUSAL_KEPT_NS).contains(&age_ns);
            if !is_kept {
                live.forget_refusal(name);
            }
            is_kept
        });
    }

    /// Processes the frame's answer, before its rows. Returns the slots that a Subscribed filled.
    fn answered(&mut self, frame: &FrameView<'_>, applied: &mut Applied) -> Vec<Slot> {
        match frame.reply() {
            Some(Reply::Hello(hello)) => {
                applied.answered = Answered::Hello;
                if !hello.authenticate {
                    self.live.relay_found();
                }
                self.live.is_user = !hello.user.is_empty();
                self.hello = Some(hello);
            }
            Some(Reply::Subscribed { ids, errors }) => {
                applied.answered = Answered::Subscribe;
                let slots = self.requests.subscribed(frame.reply_to());
                for (slot, id) in slots.iter().zip(ids) {
                    self.live.bind(*slot, id);
                }
                for error in &errors {
                    if let Some(slot) = slots.get(error.index as usize) {
                        self.live.refuse(*slot, &error.message);
                        if error.problem == NameProblem::TooManySubscriptions {
                            self.requests.found_no_room(*slot);
                        }
                    }
                }
                return slots;
            }
            Some(Reply::Unsubscribed { .. }) => applied.answered = Answered::Unsubscribe,
            Some(Reply::Got { ids, errors }) => {
                applied.answered = Answered::Get;
                self.answer = Store::new();
                self.answer.is_user = self.live.is_user;
                for id in ids {
                    let slot = self.answer.add("");
                    self.answer.bind(slot, id);
                }
                self.name_errors = errors;
            }
            Some(Reply::Pong {
                client_time_ns,
                relay_time_ns,
            }) => {
                applied.answered = Answered::Ping;
                self.pong = (client_time_ns, relay_time_ns);
                self.forget_refusals(client_time_ns);
            }
            Some(Reply::PutDone { outcome, message }) => {
                applied.answered = Answered::Put;
                self.put_ended(frame.reply_to(), outcome, &message);
                (self.outcome, self.error) = (outcome, message);
                self.arrays.extend(frame.put_readback().map(structure_row));
            }
            Some(Reply::RpcDone { outcome, message }) => {
                applied.answered = Answered::Rpc;
                (self.outcome, self.error) = (outcome, message);
                self.arrays.extend(frame.rpc_result().map(structure_row));
            }
            Some(Reply::Page(page)) => {
                applied.answered = Answered::Page;
                (self.outcome, self.error) = (page.outcome, page.message);
                self.is_last = page.last || page.outcome != Outcome::Done;
                self.arrays.extend(frame.page_content().map(page_row));
            }
            Some(Reply::Relays { relays }) => {
                if let Some(hello) = &mut self.hello {
                    hello.relays = relays;
                }
            }
            Some(Reply::Error { message, .. }) => {
                applied.answered = Answered::Error;
                for slot in self.requests.subscribed(frame.reply_to()) {
                    self.live.refuse(slot, &message);
                }
                self.error = message;
            }
            None => {}
        }
        Vec::new()
    }
}

/// The location of an answer's structure value.
fn structure_row(node: NodeView<'_>) -> ArrayRow {
    ArrayRow {
        slot: NO_SLOT,
        offset: node.position() as u32,
        count: 1,
        value_type: u32::from(ValueType::Structure.number()),
    }
}

/// The location of a page's content.
fn page_row((offset, content): (usize, &[u8])) -> ArrayRow {
    ArrayRow {
        slot: NO_SLOT,
        offset: offset as u32,
        count: content.len() as u32,
        value_type: u32::from(ValueType::UInt8.number()),
    }
}

/// A snapshot holds everything that is known. If a connected PV has no value in it, the value that
/// this client kept from before is removed, because it would look current.
fn forget_unconfirmed(store: &mut Store, fresh: &[Slot]) {
    for slot in fresh {
        if store.filled(*slot) {
            continue;
        }
        if store.pvs[*slot as usize].state == ConnectionState::Connected.number() {
            store.clear_value(*slot);
        }
        // Without a value, the PV's sequence starts again, whatever another relay had counted.
        store.pvs[*slot as usize].sequence = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::fixtures::{ALL, at_the_snapshot, connected, frame, golden};
    use super::*;
    use crate::store::{
        ACCESS_PUTS, ACCESS_READ, ACCESS_REFUSED, ACCESS_TAKEN, ACCESS_UNKNOWN, ACCESS_WRITE,
        CAUSES, SEVERITY_UNKNOWN, Text, kind, state,
    };
    use pvwire_schema::encode::RowMarks;
    use pvwire_schema::types::{Alarm, BlobValue, Connection, Filter, PutValue, PvId, Severity};

    #[test]
    fn a_snapshot_fills_the_slots_that_asked_for_it() {
        let (session, slots) = at_the_snapshot();
        let pvs = &session.live.pvs;
        let at = |index: usize| slots[index] as usize;

        assert_eq!(pvs[at(0)].value, 21.5);
        assert_eq!(pvs[at(0)].seconds, 1_753_000_000.0);
        assert_eq!(pvs[at(0)].nanoseconds, 123_456_789);
        assert_eq!(pvs[at(0)].severity, 0);
        assert_eq!(
            pvs[at(0)].access,
            ACCESS_READ | ACCESS_WRITE | ACCESS_PUTS | ACCESS_UNKNOWN,
            "the relay greets jane, and tells its own rights"
        );
        assert_eq!(pvs[at(0)].sequence, 100);
        assert_eq!(session.live.metadata(slots[0]).units, "°C");

        assert_eq!(pvs[at(1)].value, 2.0);
        assert_eq!((pvs[at(1)].severity, pvs[at(1)].alarm_status), (1, 7));
        assert_eq!(session.live.metadata(slots[1]).choices.len(), 16);

        assert_eq!(
            session.live.text(slots[2]),
            &Text::One("Träger läuft".into())
        );
        assert_eq!(pvs[at(3)].state, ConnectionState::Connecting.number());
        assert_eq!(pvs[at(3)].severity, SEVERITY_UNKNOWN);
        assert_eq!(pvs[at(4)].state, state::REFUSED);
        assert_eq!(session.live.reason(slots[4]), "a PV name can't be empty");
        assert_eq!(session.live.skipped_total(), 0, "a first value is no skip");
    }

    #[test]
    fn what_a_put_shows_of_the_right_to_write_holds_until_something_else_is_told() {
        let (mut session, slots) = at_the_snapshot();
        let access = |session: &Session| {
            session.live.pvs[slots[0] as usize].access & (ACCESS_REFUSED | ACCESS_TAKEN)
        };
        let put = |session: &mut Session, outcome, message: &str| {
            let value = PutValue::Number(1.0);
            session
                .stage_put("TEMP".into(), value, false, 0, None)
                .unwrap();
            session.put(false, false);
            let reply = Reply::PutDone {
                outcome,
                message: message.to_owned(),
            };
            let bytes = frame(FrameKind::Answer, 10, 0, |e| {
                e.reply(session.last_request(), &reply);
            });
            session.apply(&bytes).unwrap();
            access(session)
        };
        assert_eq!(put(&mut session, Outcome::BadValue, "not a number"), 0);
        let too_fast = format!("{TOO_FAST}: ask more slowly");
        assert_eq!(put(&mut session, Outcome::NotAllowed, &too_fast), 0);
        let refused = put(&mut session, Outcome::NoAccess, "not permitted");
        assert_eq!(refused, ACCESS_REFUSED);
        assert_eq!(put(&mut session, Outcome::Done, ""), ACCESS_TAKEN);
        let refused = put(&mut session, Outcome::NotAllowed, "rule 1 forbids it");
        assert_eq!(refused, ACCESS_REFUSED);
        session.apply(&golden("update")).unwrap();
        session.apply(&golden("special_numbers")).unwrap();
        assert_eq!(access(&session), ACCESS_REFUSED);
        session.apply(&golden("disconnected")).unwrap();
        assert_eq!(access(&session), 0);
    }

    #[test]
    fn refused_put_is_forgotten_after_a_while() {
        let (mut session, slots) = at_the_snapshot();
        let refuse = |session: &mut Session| {
            let value = PutValue::Number(1.0);
            (session.stage_put("TEMP".into(), value, false, 0, None)).unwrap();
            session.put(false, false);
            let reply = Reply::PutDone {
                outcome: Outcome::NoAccess,
                message: String::new(),
            };
            let request = session.last_request();
            let bytes = frame(FrameKind::Answer, 10, 0, |e| e.reply(request, &reply));
            session.apply(&bytes).unwrap();
        };
        // Whether the refusal is known after a pong, and the number of slots that changed.
        let pong = |session: &mut Session, seconds: i64| {
            session.ping(seconds * 1_000_000_000);
            let reply = Reply::Pong {
                client_time_ns: seconds * 1_000_000_000,
                relay_time_ns: 0,
            };
            let request = session.last_request();
            let bytes = frame(FrameKind::Answer, 10, 0, |e| e.reply(request, &reply));
            session.apply(&bytes).unwrap();
            session.live.pvs[slots[0] as usize].access & ACCESS_REFUSED != 0
        };
        refuse(&mut session);
        assert!(pong(&mut session, 100));
        assert!(pong(&mut session, 104));
        assert!(!pong(&mut session, 105));
        refuse(&mut session);
        assert!(pong(&mut session, 106));
        refuse(&mut session);
        assert!(pong(&mut session, 110), "the last refusal counts");
        assert!(pong(&mut session, 114));
        assert!(!pong(&mut session, 115));
        refuse(&mut session);
        assert!(pong(&mut session, 116));
        assert!(!pong(&mut session, 50), "the clock was set back");
    }

    #[test]
    fn a_frame_that_does_not_follow_changes_nothing() {
        let (mut session, slots) = at_the_snapshot();
        let applied = session.apply(&golden("special_numbers")).unwrap();
        assert!(applied.gap, "prev_tick 11 after tick 10");
        assert_eq!(session.live.pvs[slots[0] as usize].value, 21.5);
        assert_eq!(session.last_tick(), 10);
    }

    /// The frame that the relay sends for a large value.
    fn large(kind: FrameKind, tick: u64, id: PvId, sequence: u32) -> Vec<u8> {
        let prev_tick = if kind == FrameKind::Snapshot { 0 } else { tick };
        frame(kind, tick, prev_tick, |e| {
            let alarm = Some(Alarm {
                severity: Severity::Major,
                status: 3,
            });
            let marks = RowMarks {
                alarm,
                sequence,
                ..Default::default()
            };
            let array = BlobValue::array(ValueType::UInt8, 3, vec![1, 2, 3]);
            e.blob_apart(id, 7, &array, marks);
            e.connection(id, connected());
        })
    }

    #[test]
    fn newest_list_of_relays_replaces_that_of_the_hello() {
        let mut session = Session::new();
        session.apply(&golden("relays")).unwrap();
        assert_eq!(session.hello, None);
        session.apply(&golden("hello_fleet")).unwrap();
        let applied = session.apply(&golden("relays")).unwrap();
        assert_eq!(
            (applied.answered, applied.moves_tick),
            (Answered::Nothing, false)
        );
        let hello = session.hello.unwrap();
        assert_eq!(hello.relays, ["wss://two/ws", "wss://three/ws"]);
    }

    #[test]
    fn a_large_value_comes_behind_the_frame_that_leaves_it_out() {
        let mut session = Session::new();
        session.apply(&golden("hello")).unwrap();
        let slot = session.live.add("WAVE");
        session.subscribe(&[slot], Filter::default());
        let reply = Reply::Subscribed {
            ids: vec![PvId(9)],
            errors: Vec::new(),
        };
        let bytes = frame(FrameKind::Snapshot, 40, 0, |e| {
            e.reply(1, &reply);
            e.connection(PvId(9), connected());
        });
        session.apply(&bytes).unwrap();
        let state = |session: &Session| {
            let pvs = &session.live.pvs;
            let at = slot as usize;
            let skips = &session.live.skips[at * CAUSES..][..CAUSES];
            let skipped: f64 = skips.iter().sum();
            (pvs[at].kind, pvs[at].sequence, skipped)
        };
        assert_eq!(state(&session), (kind::NONE, 0, 0.0));

        // This update is older than the snapshot.
        let applied = session
            .apply(&large(FrameKind::Snapshot, 30, PvId(9), 500))
            .unwrap();
        assert!(!applied.gap && applied.moves_tick);
        assert_eq!(state(&session), (kind::ARRAY, 500, 0.0), "none was missed");
        assert_eq!(session.arrays.len(), 1);
        assert_eq!(session.last_tick(), 40);

        session
            .apply(&frame(FrameKind::Update, 41, 40, |_| {}))
            .unwrap();
        let next = large(FrameKind::CatchUp, 41, PvId(9), 501);
        assert!(!session.apply(&next).unwrap().gap);
        assert_eq!(state(&session), (kind::ARRAY, 501, 0.0));
        assert_eq!(session.live.pvs[slot as usize].severity, 2);

        session
            .apply(&frame(FrameKind::CatchUp, 60, 41, |_| {}))
            .unwrap();
        let newest = large(FrameKind::CatchUp, 55, PvId(9), 510);
        assert!(!session.apply(&newest).unwrap().gap);
        assert_eq!(state(&session), (kind::ARRAY, 510, 8.0));
        assert_eq!(session.last_tick(), 60);
    }

    #[test]
    fn a_get_is_answered_beside_the_live_pvs() {
        let (mut session, slots) = at_the_snapshot();
        let before = session.last_tick();
        let applied = session.apply(&golden("got")).unwrap();

        assert_eq!((applied.answered, applied.reply_to), (Answered::Get, 8));
        assert_eq!(session.answer.len(), 2);
        assert_eq!(session.answer.pvs[0].value, 21.5);
        assert_eq!(session.answer.pvs[0].severity, SEVERITY_UNKNOWN);
        assert_eq!(session.name_errors.len(), 1);
        assert_eq!(session.live.pvs[slots[0] as usize].sequence, 100);
        assert_eq!(session.last_tick(), before);
    }

    #[test]
    fn a_value_from_before_the_relay_was_lost_does_not_pass_for_the_present_one() {
        let (mut session, slots) = at_the_snapshot();
        session.relay_lost(77.0, 70.0);
        assert_eq!(session.live.pvs[slots[0] as usize].state, state::RELAY_LOST);
        session.apply(&golden("hello")).unwrap();
        session.subscribe(&slots[..2], ALL);
        let reply = Reply::Subscribed {
            ids: vec![PvId(90), PvId(91)],
            errors: Vec::new(),
        };
        let bytes = frame(FrameKind::Snapshot, 3, 0, |e| {
            e.reply(2, &reply);
            e.connection(PvId(90), connected());
            let gone = Connection {
                state: ConnectionState::Connecting,
                ..connected()
            };
            e.connection(PvId(91), gone);
        });
        session.apply(&bytes).unwrap();

        let pvs = &session.live.pvs;
        assert_eq!(
            pvs[slots[0] as usize].kind,
            kind::NONE,
            "connected, no value known"
        );
        assert_eq!(
            pvs[slots[1] as usize].kind,
            kind::NUMBER,
            "old, and marked so"
        );
        assert_eq!(
            pvs[slots[1] as usize].state,
            ConnectionState::Connecting.number()
        );
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_panic_the_session(
            name in proptest::sample::select(vec!["snapshot", "update", "arrays", "got", "catch_up"]),
            damage in proptest::collection::vec((0_usize..1200, 0_u8..=255), 1..8),
        ) {
            let (mut session, _) = at_the_snapshot();
            let mut bytes = golden(name);
            for (at, byte) in damage {
                let length = bytes.len();
                bytes[at % length] = byte;
            }
            let _ = session.apply(&bytes);
            session.live.clear_dirty();
            for array in &session.arrays {
                proptest::prop_assert!((array.offset as usize) < bytes.len() || array.count == 0);
            }
        }
    }
}
