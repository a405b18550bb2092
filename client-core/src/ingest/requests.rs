//! Encodes requests to the relay and keeps track of those that are still open.

use pvwire_schema::encode;
use pvwire_schema::limits::{MAX_NAMES, MAX_REQUEST_BYTES};
use pvwire_schema::types::{Filter, PutRequest, PutValue, PvId, Request, RequestBody};

use super::Session;
use crate::store::{NO_SLOT, Slot};

/// Bytes per name in a request in addition to the name: offset, length, terminating zero, padding.
const NAME_OVERHEAD_BYTES: usize = 12;

/// Bytes of a request that do not belong to names.
const REQUEST_OVERHEAD_BYTES: usize = 96;

/// The put can't be bound to an update, because the slot shows none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoUpdate;

/// The requests of one connection.
#[derive(Debug, Default)]
pub(super) struct Requests {
    /// Number of the last request.
    last: u32,
    /// Open Subscribes by request number, with their slots.
    subscribes: Vec<(u32, Vec<Slot>)>,
    /// Slots that the relay refused because it was full.
    without_room: Vec<Slot>,
    /// Open Puts by request number, with their PV names.
    puts: Vec<(u32, String)>,
    /// Puts to be sent in the next message.
    staged: Vec<PutRequest>,
}

/// Maximum number of open puts that are remembered; the TypeScript keeps fewer open at a time.
const MAX_OPEN_PUTS: usize = 64;

impl Requests {
    /// Forgets all open requests, because the connection was lost.
    pub(super) fn clear(&mut self) {
        self.subscribes.clear();
        self.without_room.clear();
        self.puts.clear();
    }

    /// Assigns the next request number to a Put and remembers its PV name.
    fn opened(&mut self, name: String) {
        self.last = self.last.wrapping_add(1).max(1);
        if self.puts.len() >= MAX_OPEN_PUTS {
            self.puts.remove(0);
        }
        self.puts.push((self.last, name));
    }

    /// Closes a Put and returns its PV name.
    pub(super) fn put_ended(&mut self, request: u32) -> Option<String> {
        let open = self.puts.iter().position(|(id, _)| *id == request);
        open.map(|at| self.puts.swap_remove(at).1)
    }

    /// Closes a Subscribe and returns its slots.
    pub(super) fn subscribed(&mut self, request: u32) -> Vec<Slot> {
        let open = self.subscribes.iter().position(|(id, _)| *id == request);
        open.map_or_else(Vec::new, |at| self.subscribes.swap_remove(at).1)
    }

    /// Records that the relay had no room for a slot.
    pub(super) fn found_no_room(&mut self, slot: Slot) {
        self.without_room.push(slot);
    }

    /// Encodes the next request; returns its number and its bytes.
    fn encode(&mut self, body: RequestBody) -> (u32, Vec<u8>) {
        self.last = self.last.wrapping_add(1).max(1);
        let id = self.last;
        (id, encode::request(&Request { id, body }))
    }
}

impl Session {
    /// Subscribes to as many of `slots` as fit in one request, all with the same filter; returns
    /// that number and the request.
    pub fn subscribe(&mut self, slots: &[Slot], filter: Filter) -> (usize, Vec<u8>) {
        let names = self.fitting(slots.iter().map(|slot| self.live.name(*slot)));
        let taken = names.len();
        let (id, bytes) = self
            .requests
            .encode(RequestBody::Subscribe { names, filter });
        self.requests.subscribes.push((id, slots[..taken].to_vec()));
        (taken, bytes)
    }

    /// Releases at most 10,000 slots and encodes an Unsubscribe for the PVs that no other slot
    /// uses, or returns `None` if there are none. Must not be called while a Subscribe is open,
    /// because its answer could contain one of these PVs again.
    pub fn remove(&mut self, slots: &[Slot]) -> Option<Vec<u8>> {
        debug_assert!(self.requests.subscribes.is_empty(), "a Subscribe is open");
        let mut ids = Vec::new();
        for slot in slots {
            let id = self.live.id(*slot);
            self.requests.without_room.retain(|waiting| waiting != slot);
            self.live.remove(*slot);
            if id != PvId::NONE && self.live.first(id) == NO_SLOT {
                ids.push(id);
            }
        }
        debug_assert!(ids.len() <= MAX_NAMES, "more than the relay reads");
        (!ids.is_empty()).then(|| self.requests.encode(RequestBody::Unsubscribe { ids }).1)
    }

    /// Slots that the relay had no room for. Requesting them again can succeed after others were
    /// released.
    pub fn take_without_room(&mut self) -> Vec<Slot> {
        std::mem::take(&mut self.requests.without_room)
    }

    /// Requests the current state of as many of `names` as fit in one request; returns that number
    /// and the request. With `description`, includes the descriptions of Channel Access PVs.
    pub fn get(
        &mut self,
        names: &[String],
        timeout_ms: u32,
        description: bool,
    ) -> (usize, Vec<u8>) {
        let names = self.fitting(names.iter().map(String::as_str));
        let taken = names.len();
        let body = RequestBody::Get {
            names,
            timeout_ms,
            description,
        };
        (taken, self.requests.encode(body).1)
    }

    /// The number of the last request.
    #[must_use]
    pub fn last_request(&self) -> u32 {
        self.requests.last
    }

    /// Acknowledges that everything up to this tick was processed.
    #[must_use]
    pub fn ack(&self) -> Vec<u8> {
        encode::request(&Request {
            id: 0,
            body: RequestBody::Ack {
                tick: self.last_tick,
            },
        })
    }

    /// Requests updates at intervals only; 0 requests every update again.
    #[must_use]
    pub fn pace(&self, interval_ms: u32) -> Vec<u8> {
        encode::request(&Request {
            id: 0,
            body: RequestBody::Pace { interval_ms },
        })
    }

    /// Requests the descriptions of those of `slots` that are subscribed; `None` if none is.
    #[must_use]
    pub fn describe(&self, slots: &[Slot]) -> Option<Vec<u8>> {
        let ids = slots.iter().map(|slot| self.live.id(*slot));
        let ids: Vec<_> = ids.filter(|id| *id != PvId::NONE).collect();
        let request = |ids| {
            let body = RequestBody::Describe { ids };
            encode::request(&Request { id: 0, body })
        };
        (!ids.is_empty()).then(|| request(ids))
    }

    /// Sends the token that identifies the user.
    pub fn authenticate(&mut self, token: String) -> Vec<u8> {
        self.requests.encode(RequestBody::Authenticate { token }).1
    }

    /// Measures the round trip to the relay.
    pub fn ping(&mut self, client_time_ns: i64) -> Vec<u8> {
        self.requests.encode(RequestBody::Ping { client_time_ns }).1
    }

    /// Adds a put to the next message. With `slot`, the put applies only if the PV is still at the
    /// update that this slot shows.
    ///
    /// # Errors
    /// When the slot shows no update that the put could be bound to.
    pub fn stage_put(
        &mut self,
        name: String,
        value: PutValue,
        wait: bool,
        timeout_ms: u32,
        slot: Option<Slot>,
    ) -> Result<(), NoUpdate> {
        let expected = slot.map(|slot| self.live.expected(slot).ok_or(NoUpdate));
        self.requests.staged.push(PutRequest {
            name,
            value,
            wait,
            timeout_ms,
            expected: expected.transpose()?,
        });
        Ok(())
    }

    /// A message with as many of the staged puts as fit in it, and their number; the other puts are
    /// dropped. The number is 0 if the first put is larger than the longest request. The last put has the number of the last request, the one before it the previous
    /// number, and so on. With `within_limits` the relay refuses values outside the control limits of their PVs.
    pub fn put(&mut self, all_permitted: bool, within_limits: bool) -> (usize, Vec<u8>) {
        let mut puts = std::mem::take(&mut self.requests.staged);
        let limit = self.max_request_bytes();
        let id = self.requests.last.wrapping_add(1).max(1);
        while !puts.is_empty() {
            let taken = puts.len();
            let body = if within_limits {
                RequestBody::PutWithin {
                    puts,
                    all_permitted,
                }
            } else if taken == 1 {
                RequestBody::Put(puts.remove(0))
            } else {
                RequestBody::PutMany {
                    puts,
                    all_permitted,
                }
            };
            let request = Request { id, body };
            let bytes = encode::request(&request);
            puts = match request.body {
                RequestBody::Put(put) => vec![put],
                RequestBody::PutMany { puts, .. } | RequestBody::PutWithin { puts, .. } => puts,
                _ => Vec::new(),
            };
            if bytes.len() > limit {
                puts.truncate(taken / 2);
                continue;
            }
            for put in puts {
                self.requests.opened(put.name);
            }
            return (taken, bytes);
        }
        (0, Vec::new())
    }

    /// Calls a service. `None` if the arguments are larger than the longest request.
    pub fn rpc(
        &mut self,
        name: &str,
        arguments: Vec<(String, PutValue)>,
        timeout_ms: u32,
    ) -> Option<Vec<u8>> {
        let name = name.to_owned();
        let limit = self.max_request_bytes();
        let last = self.requests.last;
        let (_, bytes) = self.requests.encode(RequestBody::Rpc {
            name,
            arguments,
            timeout_ms,
        });
        if bytes.len() > limit {
            self.requests.last = last;
            return None;
        }
        Some(bytes)
    }

    /// Asks a service of the relay.
    pub fn ask(&mut self, service: &str, body: Vec<u8>) -> Vec<u8> {
        let service = service.to_owned();
        self.requests.encode(RequestBody::Ask { service, body }).1
    }

    /// Ends an Ask before its last page.
    #[must_use]
    pub fn cancel(&self, request: u32) -> Vec<u8> {
        let body = RequestBody::Cancel { request };
        encode::request(&Request { id: 0, body })
    }

    /// Size of the longest request that the relay accepts, in bytes.
    #[must_use]
    pub fn max_request_bytes(&self) -> usize {
        (self.hello.as_ref()).map_or(MAX_REQUEST_BYTES, |hello| hello.max_request_bytes as usize)
    }

    /// As many of the names as fit in one request.
    fn fitting<'a>(&self, names: impl Iterator<Item = &'a str>) -> Vec<String> {
        let mut room = (self.max_request_bytes()).saturating_sub(REQUEST_OVERHEAD_BYTES);
        let mut taken = Vec::new();
        for name in names.take(MAX_NAMES) {
            let bytes = name.len() + NAME_OVERHEAD_BYTES;
            if bytes > room {
                if taken.is_empty() {
                    // The relay refuses the beginning of so long a name, too. It would close the connection for the
                    // whole of it.
                    taken.push(name.chars().take(room / 4).collect());
                }
                break;
            }
            room = room.saturating_sub(bytes);
            taken.push(name.to_owned());
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{ALL, connected, frame, golden};
    use super::*;
    use crate::store::state;
    use pvwire_schema::decode;
    use pvwire_schema::encode::RowMarks;
    use pvwire_schema::limits::MAX_NAME_BYTES;
    use pvwire_schema::types::{
        Alarm, FrameKind, Metadata, NameError, NameProblem, Reply, Severity,
    };

    #[test]
    fn filter_and_pace_are_asked_for_as_they_are() {
        let mut session = Session::new();
        let slot = session.live.add("X");
        let filter = Filter {
            min_interval_ms: 100,
            deadband: 0.5,
            every: 3,
            ..Filter::ALL
        };
        let (_, bytes) = session.subscribe(&[slot], filter);
        let body = decode::request(&bytes).unwrap().body;
        let names = vec!["X".to_owned()];
        assert_eq!(body, RequestBody::Subscribe { names, filter });
        let interval_ms = 1000;
        let body = decode::request(&session.pace(interval_ms)).unwrap().body;
        assert_eq!(body, RequestBody::Pace { interval_ms });
    }

    #[test]
    fn a_request_is_no_longer_than_the_relay_reads() {
        let mut session = Session::new();
        session.apply(&golden("hello")).unwrap();
        session.hello.as_mut().unwrap().max_request_bytes = 2_000;
        let slots: Vec<Slot> = (0..300)
            .map(|n| session.live.add(&format!("SOME:LONG:NAME:{n}")))
            .collect();
        let (mut at, mut requests) = (0, 0);
        while at < slots.len() {
            let (taken, bytes) = session.subscribe(&slots[at..], ALL);
            assert!(bytes.len() <= 2_000 && taken > 0);
            at += taken;
            requests += 1;
        }
        assert!(requests > 3);

        session.hello.as_mut().unwrap().max_request_bytes = u32::MAX;
        let slots: Vec<Slot> = (0..MAX_NAMES + 1).map(|_| session.live.add("X")).collect();
        assert_eq!(session.subscribe(&slots, ALL).0, MAX_NAMES);
    }

    #[test]
    fn puts_of_one_message_have_numbers_one_after_the_other_and_no_more_go_than_fit() {
        let mut session = Session::new();
        session.apply(&golden("hello")).unwrap();
        let stage = |session: &mut Session, bytes: usize| {
            let text = PutValue::Text("x".repeat(bytes));
            session.stage_put("X".into(), text, true, 0, None).unwrap();
        };
        let sent = |session: &mut Session| {
            let (taken, bytes) = session.put(true, false);
            (taken, decode::request(&bytes).unwrap())
        };
        for _ in 0..3 {
            stage(&mut session, 1);
        }
        let (taken, request) = sent(&mut session);
        assert_eq!((taken, request.id, session.last_request()), (3, 1, 3));
        let RequestBody::PutMany {
            puts,
            all_permitted,
        } = request.body
        else {
            panic!("{:?}", request.body)
        };
        assert!(puts.len() == 3 && all_permitted);
        assert_eq!(session.requests.put_ended(2).as_deref(), Some("X"));
        assert_eq!(session.put(false, false), (0, Vec::new()), "each goes once");

        stage(&mut session, 1);
        let (taken, request) = sent(&mut session);
        assert_eq!((taken, request.id, session.last_request()), (1, 4, 4));
        assert!(matches!(request.body, RequestBody::Put(_)));

        session.hello.as_mut().unwrap().max_request_bytes = 2_000;
        for _ in 0..8 {
            stage(&mut session, 700);
        }
        let (taken, request) = sent(&mut session);
        assert_eq!((taken, request.id, session.last_request()), (2, 5, 6));
    }

    #[test]
    fn request_beyond_the_longest_is_not_made_and_has_no_number() {
        let mut session = Session::new();
        session.apply(&golden("hello")).unwrap();
        session.hello.as_mut().unwrap().max_request_bytes = 2_000;
        for within_limits in [false, true] {
            for bytes in [5_000, 1] {
                let text = PutValue::Text("x".repeat(bytes));
                session.stage_put("X".into(), text, true, 0, None).unwrap();
            }
            assert_eq!(session.put(false, within_limits), (0, Vec::new()));
        }
        let large = vec![("x".to_owned(), PutValue::Text("x".repeat(5_000)))];
        assert_eq!(session.rpc("X", large, 0), None);
        assert_eq!(session.last_request(), 0);
        let name = "ü".repeat(5_000);
        let (taken, bytes) = session.get(&[name.clone(), "B".to_owned()], 0, false);
        assert!(taken == 1 && bytes.len() <= 2_000);
        let RequestBody::Get { names, .. } = decode::request(&bytes).unwrap().body else {
            panic!("another request");
        };
        assert!(names.len() == 1 && name.starts_with(&names[0]) && names[0].len() > MAX_NAME_BYTES);
    }

    #[test]
    fn a_pv_of_two_names_is_given_back_with_its_last_slot() {
        let mut session = Session::new();
        let (a, b) = (session.live.add("X"), session.live.add("ca://X"));
        session.subscribe(&[a, b], ALL);
        let reply = Reply::Subscribed {
            ids: vec![PvId(5), PvId(5)],
            errors: Vec::new(),
        };
        let bytes = frame(FrameKind::Snapshot, 1, 0, |e| {
            e.reply(1, &reply);
            e.metadata(PvId(5), &Metadata::default());
            e.connection(PvId(5), connected());
            let alarm = Some(Alarm {
                severity: Severity::NoAlarm,
                status: 0,
            });
            let marks = RowMarks {
                alarm,
                sequence: 1,
                ..Default::default()
            };
            e.number(PvId(5), 0, 3.0, marks);
        });
        session.apply(&bytes).unwrap();
        assert!(session.live.pvs.iter().all(|pv| pv.value == 3.0));
        assert_eq!(session.live.updates_total(), 1);

        assert_eq!(session.remove(&[a]), None);
        let request = decode::request(&session.remove(&[b]).unwrap()).unwrap();
        assert_eq!(
            request.body,
            RequestBody::Unsubscribe { ids: vec![PvId(5)] }
        );
    }

    #[test]
    fn a_name_without_room_is_remembered_until_it_is_given_back() {
        let mut session = Session::new();
        let slots = [session.live.add("A"), session.live.add("B")];
        session.subscribe(&slots, ALL);
        let no_room = |index| NameError {
            index,
            problem: NameProblem::TooManySubscriptions,
            message: "full".into(),
        };
        let reply = Reply::Subscribed {
            ids: vec![PvId::NONE, PvId::NONE],
            errors: vec![no_room(0), no_room(1)],
        };
        session
            .apply(&frame(FrameKind::Snapshot, 1, 0, |e| e.reply(1, &reply)))
            .unwrap();
        let mut states = session.live.pvs.iter().map(|pv| pv.state);
        assert!(states.all(|state| state == state::REFUSED));
        session.remove(&slots[..1]);
        assert_eq!(session.take_without_room(), [slots[1]]);
        assert_eq!(session.take_without_room(), [0_u32; 0]);
    }
}
