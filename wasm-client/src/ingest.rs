//! What does one frame from the relay change, and what does the client ask for?
//!
//! A session is one connection's view: which request is open, which tick the store is at. It does no
//! I/O; requests come out as bytes and frames go in as bytes.

use std::iter::Peekable;

use pvwire_schema::decode::{self, AlarmRow, BlobView, DecodeError, DetailRow, FrameView, SkipRow};
use pvwire_schema::encode;
use pvwire_schema::limits::{MAX_NAMES, MAX_REQUEST_BYTES};
use pvwire_schema::types::{
    Alarm, ConnectionState, FrameKind, Hello, NameError, NameProblem, Outcome, PutValue, PvId,
    Reply, Request, RequestBody, SkipCause, ValueType, Wish,
};

use crate::store::{CAUSES, NO_SLOT, Seconds, Slot, Store, Text, kind};

/// Bytes that a name takes in a request beside its own: offset, length, terminating zero, padding.
const NAME_OVERHEAD_BYTES: usize = 12;

/// Bytes of a request that are no names.
const REQUEST_OVERHEAD_BYTES: usize = 96;

/// An array or structure that came: where it lies in the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrayRow {
    /// Whose it is.
    pub slot: Slot,
    /// Where the elements, or the structure's table, start: bytes from the message's start.
    pub offset: u32,
    /// Number of elements; of a structure 1, or 0 when it holds the changed fields alone.
    pub count: u32,
    /// Type of an element, the wire's number.
    pub value_type: u32,
}

/// What a frame was an answer to.
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
    /// A Put; the session's `outcome` and `error` say what became of it.
    Put = 7,
    /// An Rpc, likewise; the session's `arrays` say where the result lies.
    Rpc = 8,
}

/// What one frame did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Updates in it, those of PVs without a slot included.
    pub rows: u32,
    /// It doesn't follow on the frame before: the store is not to be trusted, nothing was applied.
    pub gap: bool,
    /// It brought the client to another tick, which is to be acknowledged.
    pub moves_tick: bool,
    /// What it answers.
    pub answered: Answered,
    /// Which request.
    pub reply_to: u32,
}

/// There is no update that a put could be bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoUpdate;

/// One connection and what came over it.
#[derive(Debug, Default)]
pub struct Session {
    /// PVs of `pv()`.
    pub live: Store,
    /// PVs of the last answered Get, one slot per name of it.
    pub answer: Store,
    /// What the relay said of itself, once it did.
    pub hello: Option<Hello>,
    /// Names of the last answered Get that have no answer.
    pub name_errors: Vec<NameError>,
    /// The sentence of the last request that failed, as a whole or as a put or call.
    pub error: String,
    /// What became of the last answered put or call.
    pub outcome: Outcome,
    /// Arrays and structures of the last frame: of the answer when it answered a Get, of the live PVs otherwise.
    pub arrays: Vec<ArrayRow>,
    /// When the last answered Ping was sent, by our clock, and answered, by the relay's; 0 before the first.
    pub pong: (i64, i64),
    without_room: Vec<Slot>,
    last_tick: u64,
    last_request: u32,
    /// Open Subscribes by number, with the slots that they are for.
    subscribes: Vec<(u32, Vec<Slot>)>,
}

impl Session {
    /// A session that has not heard from a relay.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The tick of the last frame that changed the store.
    #[must_use]
    pub fn last_tick(&self) -> u64 {
        self.last_tick
    }

    /// The connection is gone, `now_ms` milliseconds past the POSIX epoch.
    pub fn relay_lost(&mut self, now_ms: f64) {
        self.live.relay_lost(now_ms);
        self.hello = None;
        self.pong = (0, 0);
        self.subscribes.clear();
        self.without_room.clear();
        self.last_tick = 0;
    }

    fn request(&mut self, body: RequestBody) -> (u32, Vec<u8>) {
        self.last_request = self.last_request.wrapping_add(1).max(1);
        let id = self.last_request;
        (id, encode::request(&Request { id, body }))
    }

    /// Closes a Subscribe and gives its slots.
    fn subscribed(&mut self, request: u32) -> Vec<Slot> {
        let open = self.subscribes.iter().position(|(id, _)| *id == request);
        open.map_or_else(Vec::new, |at| self.subscribes.swap_remove(at).1)
    }

    fn fitting<'a>(&self, names: impl Iterator<Item = &'a str>) -> Vec<String> {
        let limit = self
            .hello
            .as_ref()
            .map_or(MAX_REQUEST_BYTES, |hello| hello.max_request_bytes as usize);
        let mut room = limit.saturating_sub(REQUEST_OVERHEAD_BYTES);
        let mut taken = Vec::new();
        for name in names.take(MAX_NAMES) {
            let bytes = name.len() + NAME_OVERHEAD_BYTES;
            // One name is always taken: a relay that can't read it says so.
            if bytes > room && !taken.is_empty() {
                break;
            }
            room = room.saturating_sub(bytes);
            taken.push(name.to_owned());
        }
        taken
    }

    /// Asks for as many of `slots` as fit in one request, all with one wish; says for how many.
    pub fn subscribe(&mut self, slots: &[Slot], wish: Wish) -> (usize, Vec<u8>) {
        let names = self.fitting(slots.iter().map(|slot| self.live.name(*slot)));
        let taken = names.len();
        let (id, bytes) = self.request(RequestBody::Subscribe { names, wish });
        self.subscribes.push((id, slots[..taken].to_vec()));
        (taken, bytes)
    }

    /// Gives slots back, 10,000 at most, and the PVs that no other slot wants; `None` when there are
    /// none of these. Not to be called while a Subscribe is open: its answer might hold one of these
    /// PVs again.
    pub fn remove(&mut self, slots: &[Slot]) -> Option<Vec<u8>> {
        debug_assert!(self.subscribes.is_empty(), "a Subscribe is open");
        let mut ids = Vec::new();
        for slot in slots {
            let id = self.live.id(*slot);
            self.without_room.retain(|waiting| waiting != slot);
            self.live.remove(*slot);
            if id != PvId::NONE && self.live.first(id) == NO_SLOT {
                ids.push(id);
            }
        }
        debug_assert!(ids.len() <= MAX_NAMES, "more than the relay reads");
        (!ids.is_empty()).then(|| self.request(RequestBody::Unsubscribe { ids }).1)
    }

    /// Slots that the relay had no room for: worth asking for again after others were given back.
    pub fn take_without_room(&mut self) -> Vec<Slot> {
        std::mem::take(&mut self.without_room)
    }

    /// Asks for the present state of as many of `names` as fit in one request; says for how many.
    pub fn get(&mut self, names: &[String], timeout_ms: u32) -> (usize, Vec<u8>) {
        let names = self.fitting(names.iter().map(String::as_str));
        let taken = names.len();
        (
            taken,
            self.request(RequestBody::Get { names, timeout_ms }).1,
        )
    }

    /// The number of the last request.
    #[must_use]
    pub fn last_request(&self) -> u32 {
        self.last_request
    }

    /// Says up to which tick everything was processed.
    #[must_use]
    pub fn ack(&self) -> Vec<u8> {
        encode::request(&Request {
            id: 0,
            body: RequestBody::Ack {
                tick: self.last_tick,
            },
        })
    }

    /// Asks to be brought up to date at intervals only; 0 for every update again.
    #[must_use]
    pub fn pace(&self, interval_ms: u32) -> Vec<u8> {
        encode::request(&Request {
            id: 0,
            body: RequestBody::Pace { interval_ms },
        })
    }

    /// Shows who this is.
    pub fn authenticate(&mut self, token: String) -> Vec<u8> {
        self.request(RequestBody::Authenticate { token }).1
    }

    /// Measures the way to the relay.
    pub fn ping(&mut self, client_time_ns: i64) -> Vec<u8> {
        self.request(RequestBody::Ping { client_time_ns }).1
    }

    /// Writes a PV. `slot`: only if the PV is still at the update that this slot shows.
    ///
    /// # Errors
    /// When the slot shows no update that could be expected.
    pub fn put(
        &mut self,
        name: &str,
        value: PutValue,
        wait: bool,
        timeout_ms: u32,
        slot: Option<Slot>,
    ) -> Result<Vec<u8>, NoUpdate> {
        let expected = slot.map(|slot| self.live.expected(slot).ok_or(NoUpdate));
        let body = RequestBody::Put {
            name: name.to_owned(),
            value,
            wait,
            timeout_ms,
            expected: expected.transpose()?,
        };
        Ok(self.request(body).1)
    }

    /// Calls a service.
    pub fn rpc(
        &mut self,
        name: &str,
        arguments: Vec<(String, PutValue)>,
        timeout_ms: u32,
    ) -> Vec<u8> {
        let name = name.to_owned();
        self.request(RequestBody::Rpc {
            name,
            arguments,
            timeout_ms,
        })
        .1
    }

    /// Applies one message of the relay.
    ///
    /// # Errors
    /// When the bytes are no frame. The store is as before.
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

    /// Takes the frame's answer in, before its rows. Gives the slots that a Subscribed filled.
    fn answered(&mut self, frame: &FrameView<'_>, applied: &mut Applied) -> Vec<Slot> {
        match frame.reply() {
            Some(Reply::Hello(hello)) => {
                applied.answered = Answered::Hello;
                if !hello.authenticate {
                    self.live.relay_found();
                }
                self.hello = Some(hello);
            }
            Some(Reply::Subscribed { ids, errors }) => {
                applied.answered = Answered::Subscribe;
                let slots = self.subscribed(frame.reply_to());
                for (slot, id) in slots.iter().zip(ids) {
                    self.live.bind(*slot, id);
                }
                for error in &errors {
                    if let Some(slot) = slots.get(error.index as usize) {
                        self.live.refuse(*slot, &error.message);
                        if error.problem == NameProblem::TooManySubscriptions {
                            self.without_room.push(*slot);
                        }
                    }
                }
                return slots;
            }
            Some(Reply::Unsubscribed { .. }) => applied.answered = Answered::Unsubscribe,
            Some(Reply::Got { ids, errors }) => {
                applied.answered = Answered::Get;
                self.answer = Store::new();
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
            }
            Some(Reply::PutDone { outcome, message }) => {
                applied.answered = Answered::Put;
                (self.outcome, self.error) = (outcome, message);
            }
            Some(Reply::RpcDone { outcome, message }) => {
                applied.answered = Answered::Rpc;
                (self.outcome, self.error) = (outcome, message);
                self.arrays.extend(frame.rpc_result().map(|node| ArrayRow {
                    slot: NO_SLOT,
                    offset: node.position() as u32,
                    count: 1,
                    value_type: u32::from(ValueType::Structure.number()),
                }));
            }
            Some(Reply::Error { message, .. }) => {
                applied.answered = Answered::Error;
                for slot in self.subscribed(frame.reply_to()) {
                    self.live.refuse(slot, &message);
                }
                self.error = message;
            }
            None => {}
        }
        Vec::new()
    }
}

/// What rows say beside their values, read in step with them.
struct Marks<A: Iterator, K: Iterator, D: Iterator, S> {
    kind: FrameKind,
    row: u32,
    alarms: Peekable<A>,
    skips: Peekable<K>,
    details: Peekable<D>,
    sequences: Option<S>,
    /// Of what a catch-up leaves out.
    cause: SkipCause,
}

/// What a row says beside its value.
struct Mark<'a> {
    kind: FrameKind,
    alarm: Option<Alarm>,
    detail: Option<DetailRow<'a>>,
    sequence: Option<u32>,
    /// Values left out before it, in all and by the numbers of the causes.
    skip: u32,
    by_cause: [u32; CAUSES],
    /// Of what a catch-up leaves out.
    cause: SkipCause,
}

impl<'a, A, K, D, S> Marks<A, K, D, S>
where
    A: Iterator<Item = AlarmRow>,
    K: Iterator<Item = SkipRow>,
    D: Iterator<Item = DetailRow<'a>>,
    S: Iterator<Item = u32>,
{
    /// Passes over rows that say nothing, up to `rows` of them, and says how many that were.
    fn pass_plain(&mut self, rows: usize) -> usize {
        // In the other frames each row says its number.
        if self.kind != FrameKind::Update {
            return 0;
        }
        let alarm = self.alarms.peek().map_or(u32::MAX, |mark| mark.row);
        let skip = self.skips.peek().map_or(u32::MAX, |mark| mark.row);
        let detail = self.details.peek().map_or(u32::MAX, |mark| mark.row);
        let plain = (alarm.min(skip).min(detail) - self.row).min(rows as u32);
        self.row += plain;
        plain as usize
    }

    fn advance(&mut self) -> Mark<'a> {
        let row = self.row;
        self.row += 1;
        let mut mark = Mark {
            kind: self.kind,
            alarm: (self.alarms.next_if(|mark| mark.row == row)).map(|mark| mark.alarm),
            detail: self.details.next_if(|mark| mark.row == row),
            sequence: self.sequences.as_mut().and_then(Iterator::next),
            skip: 0,
            by_cause: [0; CAUSES],
            cause: self.cause,
        };
        while let Some(skip) = self.skips.next_if(|skip| skip.row == row) {
            let of_cause = &mut mark.by_cause[usize::from(skip.cause.number())];
            *of_cause = of_cause.wrapping_add(skip.count);
            mark.skip = mark.skip.wrapping_add(skip.count);
        }
        mark
    }
}

fn fill(store: &mut Store, arrays: &mut Vec<ArrayRow>, frame: &FrameView<'_>) {
    store.begin_frame();
    for (id, metadata) in frame.metadata() {
        each_slot(store, id, |store, slot| store.set_metadata(slot, &metadata));
    }
    for (id, channel) in frame.channels() {
        each_slot(store, id, |store, slot| store.set_channel(slot, channel));
    }
    let mut marks = Marks {
        kind: frame.kind(),
        row: 0,
        alarms: frame.alarms().peekable(),
        skips: frame.skips().peekable(),
        details: frame.details().peekable(),
        sequences: frame.sequences(),
        cause: frame.skip_cause(),
    };
    let mut clock = Seconds::default();
    let mut numbers = frame.numbers();
    loop {
        let plain = marks.pass_plain(numbers.len());
        store.update(&mut numbers, plain, &mut clock);
        let Some(row) = numbers.next() else {
            break;
        };
        let time = clock.split(row.time_ns);
        set_row(store, row.id, time, &marks.advance(), &mut |store, slot| {
            store.set_number(slot, row.value);
        });
    }
    for row in frame.blobs() {
        let time = clock.split(row.time_ns);
        set_row(store, row.id, time, &marks.advance(), &mut |store, slot| {
            set_blob(store, arrays, slot, &row);
        });
    }
}

/// Takes in one row with all that it says; `set` does so with its value.
fn set_row(
    store: &mut Store,
    id: PvId,
    (seconds, nanoseconds): (f64, u32),
    mark: &Mark<'_>,
    set: &mut dyn FnMut(&mut Store, Slot),
) {
    // What isn't said is as in the row before, but in a snapshot there is none before.
    let first = matches!(mark.kind, FrameKind::Snapshot | FrameKind::Answer);
    let mut skipped = mark.skip;
    each_slot(store, id, |store, slot| {
        skipped = count(store, slot, mark);
        set(store, slot);
        store.set_time(slot, seconds, nanoseconds);
        if mark.alarm.is_some() || first {
            store.set_alarm(slot, mark.alarm);
        }
        if mark.detail.is_some() || first {
            store.set_detail(slot, mark.detail);
        }
    });
    store.count_total(skipped);
}

#[inline]
fn each_slot(store: &mut Store, id: PvId, mut apply: impl FnMut(&mut Store, Slot)) {
    let mut slot = store.first(id);
    while slot != NO_SLOT {
        apply(store, slot);
        slot = store.after(slot);
    }
}

/// Numbers the update, and counts and says how many before it didn't come.
fn count(store: &mut Store, slot: Slot, mark: &Mark<'_>) -> u32 {
    store.mark_filled(slot);
    let last = store.columns.sequence[slot as usize];
    let known = store.columns.kind[slot as usize] != kind::NONE;
    let Some(sequence) = mark.sequence else {
        store.count(slot, last.wrapping_add(1).wrapping_add(mark.skip));
        if mark.skip > 0 {
            for (cause, count) in SkipCause::ALL.iter().zip(mark.by_cause) {
                store.skip(slot, *cause, count);
            }
        }
        return mark.skip;
    };
    // The row that is there already, said again.
    if known && sequence == last {
        return 0;
    }
    store.count(slot, sequence);
    let ahead = sequence.wrapping_sub(last);
    // A stream that seems to go backwards was numbered anew: nothing is known of a loss.
    if mark.kind != FrameKind::CatchUp || ahead >= 1 << 31 {
        return 0;
    }
    let skipped = ahead.saturating_sub(1);
    store.skip(slot, mark.cause, skipped);
    skipped
}

fn set_blob(store: &mut Store, arrays: &mut Vec<ArrayRow>, slot: Slot, row: &BlobView<'_>) {
    let value_type = row.value_type;
    if value_type == ValueType::String {
        let mut texts = row.text().map(str::to_owned);
        if row.array {
            store.set_text(
                slot,
                kind::TEXT_ARRAY,
                Text::Many(texts.collect()),
                f64::NAN,
            );
        } else {
            let text = Text::One(texts.next().unwrap_or_default());
            store.set_text(slot, kind::TEXT, text, f64::NAN);
        }
        return;
    }
    if let Some(structure) = row.structure {
        store.set_opaque(slot, kind::STRUCTURE);
        arrays.push(ArrayRow {
            slot,
            offset: structure.position() as u32,
            count: u32::from(!row.partial),
            value_type: u32::from(ValueType::Structure.number()),
        });
        return;
    }
    let Some(element_bytes) = value_type.element_bytes() else {
        return store.set_opaque(slot, kind::UNKNOWN);
    };
    if row.array {
        store.set_opaque(slot, kind::ARRAY);
        arrays.push(ArrayRow {
            slot,
            offset: row.data_offset as u32,
            count: (row.data.len() / element_bytes) as u32,
            value_type: u32::from(value_type.number()),
        });
        return;
    }
    match scalar(value_type, row.data) {
        Some(Scalar::Number(number)) => store.set_number(slot, number),
        Some(Scalar::Integer(digits, nearest)) => {
            store.set_text(slot, kind::LARGE_INTEGER, Text::One(digits), nearest);
        }
        None => store.set_opaque(slot, kind::UNKNOWN),
    }
}

enum Scalar {
    Number(f64),
    /// Its digits, and the nearest double.
    Integer(String, f64),
}

/// The first element, little-endian; `None` when there is none.
fn scalar(value_type: ValueType, data: &[u8]) -> Option<Scalar> {
    let mut bytes = [0_u8; 8];
    let length = value_type.element_bytes()?;
    bytes[..length].copy_from_slice(data.get(..length)?);
    let raw = u64::from_le_bytes(bytes);
    Some(match value_type {
        ValueType::Float64 => Scalar::Number(f64::from_bits(raw)),
        ValueType::Float32 => Scalar::Number(f64::from(f32::from_bits(raw as u32))),
        ValueType::Int8 => Scalar::Number(f64::from(raw as i8)),
        ValueType::Int16 => Scalar::Number(f64::from(raw as i16)),
        ValueType::Int32 => Scalar::Number(f64::from(raw as i32)),
        ValueType::Int64 => Scalar::Integer((raw as i64).to_string(), raw as i64 as f64),
        ValueType::UInt64 => Scalar::Integer(raw.to_string(), raw as f64),
        _ => Scalar::Number(raw as f64),
    })
}

/// A snapshot is all that is known. A connected PV without a value in it has none: the one that this
/// client kept from before would look like the present one.
fn forget_unconfirmed(store: &mut Store, fresh: &[Slot]) {
    for slot in fresh {
        if store.filled(*slot) {
            continue;
        }
        if store.columns.state[*slot as usize] == ConnectionState::Connected.number() {
            store.clear_value(*slot);
        }
        // Without a value the PV is at the start of its sequence, whatever another relay counted.
        store.columns.sequence[*slot as usize] = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{ACCESS_PUTS, ACCESS_READ, ACCESS_WRITE, SEVERITY_UNKNOWN, part, state};
    use pvwire_schema::encode::{FrameEncoder, RowMarks};
    use pvwire_schema::types::{BlobValue, Channel, Metadata, Severity};

    const ALL: Wish = Wish {
        min_interval_ms: 0,
        deadband: 0.0,
        every: 0,
        ..Wish::ALL
    };

    /// What a slot has skipped, by the numbers of the causes.
    fn skips(session: &Session, slot: Slot) -> [f64; CAUSES] {
        session.live.columns.skips.as_chunks().0[slot as usize]
    }

    fn golden(name: &str) -> Vec<u8> {
        let path = format!(
            "{}/../schema/tests/golden/{name}.bin",
            env!("CARGO_MANIFEST_DIR")
        );
        std::fs::read(path).unwrap()
    }

    /// A session that asked for the PVs of the golden snapshot and has their snapshot.
    fn at_the_snapshot() -> (Session, Vec<Slot>) {
        let mut session = Session::new();
        session.apply(&golden("hello")).unwrap();
        let slots: Vec<Slot> = ["TEMP", "MODE", "TEXT", "NONE", ""]
            .iter()
            .map(|name| session.live.add(name))
            .collect();
        assert_eq!(session.subscribe(&slots, ALL).0, 5);
        session.apply(&golden("snapshot")).unwrap();
        (session, slots)
    }

    fn frame(kind: FrameKind, tick: u64, prev: u64, fill: impl Fn(&mut FrameEncoder)) -> Vec<u8> {
        let mut encoder = FrameEncoder::new();
        encoder.begin(kind, tick, prev);
        fill(&mut encoder);
        encoder.finish().to_vec()
    }

    fn connected() -> Channel {
        Channel {
            puts: false,
            heard_ns: 0,
            state: ConnectionState::Connected,
            since_ns: 5_000_000,
            read: true,
            write: true,
        }
    }

    #[test]
    fn packed_columns_fill_the_store_as_plain_ones_do() {
        let of = |packing: bool| {
            let (mut session, slots) = at_the_snapshot();
            let mut encoder = FrameEncoder::new();
            encoder.packing(packing);
            encoder.begin(FrameKind::Update, 11, 10);
            for row in 0..40_u32 {
                let time = 1_800_000_000_000_000_000 + i64::from(row * row) * 317_000_000;
                let value = f64::from(row) / 8.0;
                encoder.number(PvId(3 + row % 2), time, value, RowMarks::default());
            }
            let bytes = encoder.finish().to_vec();
            assert_eq!(session.apply(&bytes).unwrap().rows, 40);
            let columns = &session.live.columns;
            let slots = slots[..2].iter().map(|slot| *slot as usize);
            let seen = slots.map(|at| {
                let time = (columns.seconds[at], columns.nanoseconds[at]);
                (columns.value[at], time, columns.sequence[at])
            });
            (bytes.len(), seen.collect::<Vec<_>>())
        };
        let (plain, packed) = (of(false), of(true));
        assert_eq!(plain.1, packed.1);
        assert!(packed.0 < plain.0);
        assert_eq!(plain.1[1], (4.875, (1_800_000_482.0, 157_000_000), 21));
    }

    #[test]
    fn a_snapshot_fills_the_slots_that_asked_for_it() {
        let (session, slots) = at_the_snapshot();
        let columns = &session.live.columns;
        let at = |index: usize| slots[index] as usize;

        assert_eq!(columns.value[at(0)], 21.5);
        assert_eq!(columns.seconds[at(0)], 1_753_000_000.0);
        assert_eq!(columns.nanoseconds[at(0)], 123_456_789);
        assert_eq!(columns.severity[at(0)], 0);
        assert_eq!(
            columns.access[at(0)],
            ACCESS_READ | ACCESS_WRITE | ACCESS_PUTS
        );
        assert_eq!(columns.sequence[at(0)], 100);
        assert_eq!(session.live.metadata(slots[0]).units, "°C");

        assert_eq!(columns.value[at(1)], 2.0);
        assert_eq!(
            (columns.severity[at(1)], columns.alarm_status[at(1)]),
            (1, 7)
        );
        assert_eq!(session.live.metadata(slots[1]).choices.len(), 16);

        assert_eq!(
            session.live.text(slots[2]),
            &Text::One("Träger läuft".into())
        );
        assert_eq!(columns.state[at(3)], ConnectionState::Connecting.number());
        assert_eq!(columns.severity[at(3)], SEVERITY_UNKNOWN);
        assert_eq!(columns.state[at(4)], state::REFUSED);
        assert_eq!(session.live.reason(slots[4]), "a PV name can't be empty");
        assert_eq!(session.live.skipped_total(), 0, "a first value is no skip");
    }

    #[test]
    fn updates_are_numbered_on_and_their_skips_are_counted() {
        let (mut session, slots) = at_the_snapshot();
        let applied = session.apply(&golden("update")).unwrap();
        let columns = &session.live.columns;

        assert_eq!((applied.rows, applied.gap), (4, false));
        assert_eq!(columns.value[slots[0] as usize], 81.0);
        assert_eq!(columns.severity[slots[0] as usize], 2);
        assert_eq!(columns.sequence[slots[0] as usize], 104);
        assert_eq!(skips(&session, slots[0]), [0.0, 2.0, 0.0, 0.0, 0.0, 0.0]);
        assert_eq!(columns.sequence[slots[1] as usize], 2);
        assert_eq!(
            columns.severity[slots[1] as usize], 1,
            "an alarm that isn't said stays"
        );
        assert_eq!(session.live.text(slots[2]), &Text::One(String::new()));
        assert_eq!(session.live.skipped_total(), 2);
        assert_eq!(session.last_tick(), 11);
    }

    #[test]
    fn each_cause_is_counted_for_each_name_of_the_pv() {
        let (mut session, slots) = at_the_snapshot();
        session.apply(&golden("update")).unwrap();
        session.apply(&golden("skips")).unwrap();
        let sequence = |slot: Slot| session.live.columns.sequence[slot as usize];
        assert_eq!(
            skips(&session, slots[0]),
            [0.0, 2.0 + 1.0, 20.0, 300.0, 0.0, 0.0]
        );
        assert_eq!(sequence(slots[0]), 104 + 322);
        assert_eq!(skips(&session, slots[1]), [0.0; CAUSES]);
        assert_eq!(skips(&session, slots[2]), [0.0, 0.0, 20.0, 300.0, 0.0, 0.0]);
        assert_eq!(session.live.skipped_total(), 2 + 321 + 320);
        session.apply(&golden("paced")).unwrap();
        // 150 is before where the update brought it: nothing is known of a loss.
        assert_eq!(session.live.skipped_total(), 2 + 321 + 320);
    }

    #[test]
    fn a_paced_catch_up_says_so() {
        let (mut session, slots) = at_the_snapshot();
        session.apply(&golden("update")).unwrap();
        session.apply(&golden("paced")).unwrap();
        assert_eq!(skips(&session, slots[0]), [0.0, 2.0, 0.0, 0.0, 0.0, 45.0]);
    }

    #[test]
    fn wish_and_pace_are_asked_for_as_they_are() {
        let mut session = Session::new();
        let slot = session.live.add("X");
        let wish = Wish {
            min_interval_ms: 100,
            deadband: 0.5,
            every: 3,
            ..Wish::ALL
        };
        let (_, bytes) = session.subscribe(&[slot], wish);
        let body = decode::request(&bytes).unwrap().body;
        let names = vec!["X".to_owned()];
        assert_eq!(body, RequestBody::Subscribe { names, wish });
        let interval_ms = 1000;
        let body = decode::request(&session.pace(interval_ms)).unwrap().body;
        assert_eq!(body, RequestBody::Pace { interval_ms });
    }

    #[test]
    fn a_catch_up_counts_what_it_left_out() {
        let (mut session, slots) = at_the_snapshot();
        session.apply(&golden("update")).unwrap();
        session.apply(&golden("catch_up")).unwrap();
        let columns = &session.live.columns;

        assert_eq!(columns.sequence[slots[0] as usize], 150);
        assert_eq!(skips(&session, slots[0]), [0.0, 2.0, 0.0, 0.0, 45.0, 0.0]);
        assert_eq!(
            skips(&session, slots[1]),
            [0.0; CAUSES],
            "the same update again is no skip"
        );
        assert_eq!(session.live.skipped_total(), 47);
    }

    #[test]
    fn values_that_came_before_the_first_one_seen_are_counted_as_skipped() {
        let (mut session, slots) = at_the_snapshot();
        let mut reply = FrameEncoder::new();
        reply.begin(FrameKind::Snapshot, 11, 0);
        let subscribed = Reply::Subscribed {
            ids: vec![PvId(40)],
            errors: Vec::new(),
        };
        reply.reply(2, &subscribed);
        session.subscribe(&slots[3..4], ALL);
        session.apply(reply.finish()).unwrap();
        let bytes = frame(FrameKind::CatchUp, 12, 11, |e| {
            let marks = RowMarks {
                sequence: 5,
                ..Default::default()
            };
            e.number(PvId(40), 0, 1.0, marks);
        });
        session.apply(&bytes).unwrap();
        assert_eq!(skips(&session, slots[3]).iter().sum::<f64>(), 4.0);
    }

    /// What the relay sends of a large value.
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
            e.channel(id, connected());
        })
    }

    #[test]
    fn a_large_value_comes_behind_the_frame_that_leaves_it_out() {
        let mut session = Session::new();
        session.apply(&golden("hello")).unwrap();
        let slot = session.live.add("WAVE");
        session.subscribe(&[slot], Wish::default());
        let reply = Reply::Subscribed {
            ids: vec![PvId(9)],
            errors: Vec::new(),
        };
        let bytes = frame(FrameKind::Snapshot, 40, 0, |e| {
            e.reply(1, &reply);
            e.channel(PvId(9), connected());
        });
        session.apply(&bytes).unwrap();
        let state = |session: &Session| {
            let columns = &session.live.columns;
            let at = slot as usize;
            let skips = &columns.skips[at * CAUSES..][..CAUSES];
            let skipped: f64 = skips.iter().sum();
            (columns.kind[at], columns.sequence[at], skipped)
        };
        assert_eq!(state(&session), (kind::NONE, 0, 0.0));

        // It is older than the snapshot.
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
        assert_eq!(session.live.columns.severity[slot as usize], 2);

        session
            .apply(&frame(FrameKind::CatchUp, 60, 41, |_| {}))
            .unwrap();
        let newest = large(FrameKind::CatchUp, 55, PvId(9), 510);
        assert!(!session.apply(&newest).unwrap().gap);
        assert_eq!(state(&session), (kind::ARRAY, 510, 8.0));
        assert_eq!(session.last_tick(), 60);
    }

    #[test]
    fn a_frame_that_does_not_follow_changes_nothing() {
        let (mut session, slots) = at_the_snapshot();
        let applied = session.apply(&golden("special_numbers")).unwrap();
        assert!(applied.gap, "prev_tick 11 after tick 10");
        assert_eq!(session.live.columns.value[slots[0] as usize], 21.5);
        assert_eq!(session.last_tick(), 10);
    }

    #[test]
    fn connection_and_metadata_changes_touch_only_their_parts() {
        let (mut session, slots) = at_the_snapshot();
        for name in ["update", "special_numbers"] {
            session.apply(&golden(name)).unwrap();
        }
        session.live.clear_dirty();
        session.apply(&golden("disconnected")).unwrap();
        assert_eq!(
            session.live.columns.parts[slots[0] as usize],
            part::CONNECTION | part::ACCESS
        );
        assert_eq!(
            session.live.columns.state[slots[3] as usize],
            ConnectionState::NotFound.number()
        );
        session.live.clear_dirty();
        session.apply(&golden("metadata_change")).unwrap();
        assert_eq!(session.live.metadata(slots[0]).units, "K");
    }

    #[test]
    fn times_are_split_as_division_does_it() {
        let mut seconds = Seconds::default();
        for time_ns in [
            0,
            1,
            -1,
            999_999_999,
            1_000_000_000,
            i64::MAX,
            i64::MIN,
            -5,
            1_753_000_000_123_456_789,
        ] {
            let (second, nanoseconds) = seconds.split(time_ns);
            assert_eq!(second, time_ns.div_euclid(1_000_000_000) as f64);
            assert_eq!(i64::from(nanoseconds), time_ns.rem_euclid(1_000_000_000));
        }
    }

    #[test]
    fn a_get_is_answered_beside_the_live_pvs() {
        let (mut session, slots) = at_the_snapshot();
        let before = session.last_tick();
        let applied = session.apply(&golden("got")).unwrap();

        assert_eq!((applied.answered, applied.reply_to), (Answered::Get, 8));
        assert_eq!(session.answer.len(), 2);
        assert_eq!(session.answer.columns.value[0], 21.5);
        assert_eq!(session.answer.columns.severity[0], SEVERITY_UNKNOWN);
        assert_eq!(session.name_errors.len(), 1);
        assert_eq!(session.live.columns.sequence[slots[0] as usize], 100);
        assert_eq!(session.last_tick(), before);
    }

    #[test]
    fn arrays_stay_in_the_message() {
        let mut session = Session::new();
        let names: Vec<Slot> = (0..5).map(|n| session.live.add(&n.to_string())).collect();
        session.subscribe(&names, ALL);
        let ids = (20..25).map(PvId).collect();
        let reply = Reply::Subscribed {
            ids,
            errors: Vec::new(),
        };
        session
            .apply(&frame(FrameKind::Snapshot, 14, 0, |e| e.reply(1, &reply)))
            .unwrap();
        let bytes = golden("arrays");
        session.apply(&bytes).unwrap();

        let counts: Vec<_> = session.arrays.iter().map(|row| row.count).collect();
        assert_eq!(counts, [3, 5, 1, 0]);
        let first = session.arrays[0].offset as usize;
        assert_eq!(bytes[first..first + 8], 1.5_f64.to_le_bytes());
        assert_eq!(
            session.live.text(names[4]),
            &Text::Many(vec!["one".into(), String::new(), "drei".into()])
        );
    }

    #[test]
    fn an_integer_that_no_double_holds_keeps_its_digits() {
        let Some(Scalar::Integer(digits, nearest)) =
            scalar(ValueType::Int64, &9_007_199_254_740_993_i64.to_le_bytes())
        else {
            panic!("not an integer");
        };
        assert_eq!(
            (digits.as_str(), nearest),
            ("9007199254740993", 9_007_199_254_740_992.0)
        );
    }

    #[test]
    fn a_value_from_before_the_relay_was_lost_does_not_pass_for_the_present_one() {
        let (mut session, slots) = at_the_snapshot();
        session.relay_lost(77.0);
        assert_eq!(
            session.live.columns.state[slots[0] as usize],
            state::RELAY_LOST
        );
        session.apply(&golden("hello")).unwrap();
        session.subscribe(&slots[..2], ALL);
        let reply = Reply::Subscribed {
            ids: vec![PvId(90), PvId(91)],
            errors: Vec::new(),
        };
        let bytes = frame(FrameKind::Snapshot, 3, 0, |e| {
            e.reply(2, &reply);
            e.channel(PvId(90), connected());
            let gone = Channel {
                state: ConnectionState::Connecting,
                ..connected()
            };
            e.channel(PvId(91), gone);
        });
        session.apply(&bytes).unwrap();

        let columns = &session.live.columns;
        assert_eq!(
            columns.kind[slots[0] as usize],
            kind::NONE,
            "connected, no value known"
        );
        assert_eq!(
            columns.kind[slots[1] as usize],
            kind::NUMBER,
            "old, and marked so"
        );
        assert_eq!(
            columns.state[slots[1] as usize],
            ConnectionState::Connecting.number()
        );
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
            e.channel(PvId(5), connected());
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
        assert_eq!(session.live.columns.value, [3.0, 3.0]);
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
        assert_eq!(session.live.columns.state, [state::REFUSED; 2]);
        session.remove(&slots[..1]);
        assert_eq!(session.take_without_room(), [slots[1]]);
        assert_eq!(session.take_without_room(), []);
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
}
