//! The JavaScript interface of `pvwire-core`: one `Core` that takes messages and executes selections,
//! and whose cells JavaScript reads in place.

#![deny(unsafe_code)]

mod programs;

use pvwire_core::ingest::{ArrayRow, Session};
use pvwire_core::select::execute::{self, Held};
use pvwire_core::store::{CAUSES, Shown, Slot, Store, kind, part};
use pvwire_schema::types::{Array, Filter, PutValue, Severity, SkipCause, ValueType};
use wasm_bindgen::prelude::wasm_bindgen;

pub use self::programs::{compile, constants, program, release};

use pvwire_executor::{Execution, Watchers};

/// The standard library's allocator is three times as large.
#[cfg(target_arch = "wasm32")]
#[global_allocator]
static MEMORY: talc::wasm::WasmDynamicTalc = talc::wasm::new_wasm_dynamic_allocator();

/// Length of the summary that `Core::apply` writes; `ts/store/core.ts` names its elements.
const SUMMARY_LEN: usize = 17;

/// One client's state, as JavaScript holds it.
#[wasm_bindgen]
#[derive(Debug, Default)]
pub struct Core {
    session: Session,
    /// Buffer for messages. It never shrinks, because the module's memory can't shrink either.
    input: Vec<u8>,
    summary: [f64; SUMMARY_LEN],
    arrays: Vec<u32>,
    error: String,
    taken: usize,
    value: Option<PutValue>,
    arguments: Vec<(String, PutValue)>,
    execution: Execution,
    watchers: Watchers,
    /// The structures that programs read: of the live PVs, and of the last answered Get.
    held: [Held; 2],
}

/// The store of the last answered Get, or that of the live PVs.
fn of(session: &Session, answer: bool) -> &Store {
    if answer {
        &session.answer
    } else {
        &session.live
    }
}

#[wasm_bindgen]
impl Core {
    /// A core that has not yet received anything from a relay.
    #[wasm_bindgen(constructor)]
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes room for a message and returns its address, which is valid for one `apply`.
    pub fn reserve(&mut self, bytes: usize) -> usize {
        if self.input.len() < bytes {
            self.input.resize(bytes, 0);
        }
        self.input.as_ptr() as usize
    }

    /// Applies the message of `bytes` bytes in the reserved memory and fills the summary. Returns
    /// `false` if it is not a valid frame; `error` then says why. The elements of arrays may be
    /// missing from the memory, because they are not read here.
    pub fn apply(&mut self, bytes: usize) -> bool {
        let applied = match self
            .session
            .apply(self.input.get(..bytes).unwrap_or_default())
        {
            Ok(applied) => applied,
            Err(error) => {
                self.error = error.text();
                return false;
            }
        };
        self.arrays.clear();
        self.held[1] = Held::new();
        for row in &self.session.arrays {
            self.arrays
                .extend([row.slot, row.offset, row.count, row.value_type]);
        }
        self.summary = [
            f64::from(applied.answered as u8),
            f64::from(applied.reply_to),
            f64::from(u8::from(applied.gap)),
            f64::from(u8::from(applied.moves_tick)),
            self.session.live.dirty().len() as f64,
            self.session.arrays.len() as f64,
            self.session.live.updates_total() as f64,
            self.session.live.skipped_total() as f64,
            // When the last answered Ping was sent and answered, for `ts/latency`: milliseconds
            // past the epoch.
            self.session.pong.0 as f64 / 1e6,
            self.session.pong.1 as f64 / 1e6,
            0.0,
            0.0,
            0.0,
            0.0,
            0.0,
            0.0,
            0.0,
        ];
        true
    }

    /// The address of the last `apply`'s summary.
    #[must_use]
    pub fn summary(&self) -> usize {
        self.summary.as_ptr() as usize
    }

    /// The address of the last frame's arrays: slot, offset, count and type of each.
    #[must_use]
    pub fn arrays(&self) -> usize {
        self.arrays.as_ptr() as usize
    }

    /// The address of the slots with changed parts.
    #[must_use]
    pub fn dirty(&self) -> usize {
        self.session.live.dirty().as_ptr() as usize
    }

    /// The number of slots with changed parts.
    #[must_use]
    pub fn dirty_len(&self) -> usize {
        self.session.live.dirty().len()
    }

    /// Replaces the watchers of a slot: their numbers, their programs as [`compile`] returns them,
    /// and the parts that they read.
    pub fn watch(&mut self, slot: Slot, watchers: &[u32]) {
        self.watchers.set(&mut self.session.live, slot, watchers);
    }

    /// The address of a flag for each watcher: 1 if a result was read since the last flush.
    #[must_use]
    pub fn reads(&self) -> usize {
        self.watchers.reads()
    }

    /// Whether the relay's silence affects a slot; it does by default.
    pub fn needs_relay(&mut self, slot: Slot, needs: bool) {
        self.watchers.set_needs_relay(slot, needs);
    }

    /// Marks the connection of a slot as changed: the relay has stopped answering, or answers again.
    pub fn touch(&mut self, slot: Slot) {
        self.session.live.touch(slot, part::CONNECTION);
    }

    /// Starts a new flush: lists whom to tell of changes, and makes the results that will be read.
    /// Returns the address of nine numbers: addresses and numbers of the cells, the bytes of text,
    /// the starts of its pieces, and the list; then the parts that changed of any slot.
    pub fn flush(&mut self, heard_ms: f64) -> usize {
        let store = &mut self.session.live;
        self.execution.flush(store, &mut self.watchers, heard_ms)
    }

    /// The number of PVs in the last answered Get.
    #[must_use]
    pub fn answer_len(&self) -> usize {
        self.session.answer.len()
    }

    /// The parts of a slot that changed since the last flush.
    #[must_use]
    pub fn changed(&self, slot: Slot) -> u32 {
        let pv = self.session.live.pvs.get(slot as usize);
        pv.map_or(0, |pv| pv.parts)
    }

    /// Whether a slot's value is an array of numbers.
    #[must_use]
    pub fn has_array(&self, slot: Slot) -> bool {
        let pv = self.session.live.pvs.get(slot as usize);
        pv.is_some_and(|pv| pv.kind == kind::ARRAY)
    }

    /// Fills the last numbers of the summary: sequence number of a slot's last update, how many updates
    /// were received and skipped, the PV's epoch, its state and its time stamp.
    pub fn inspect(&mut self, slot: Slot) {
        let store = &self.session.live;
        let at = slot as usize;
        let skips = store.skips.get(at * CAUSES..).unwrap_or_default();
        if let (
            Some(pv),
            [
                ..,
                to_sequence,
                to_received,
                to_skipped,
                to_epoch,
                to_state,
                to_seconds,
                to_nanoseconds,
            ],
        ) = (store.pvs.get(at), &mut self.summary)
        {
            *to_sequence = f64::from(pv.sequence);
            *to_received = pv.received;
            *to_skipped = skips.iter().take(CAUSES).sum();
            *to_epoch = f64::from(store.metadata(slot).epoch);
            *to_state = f64::from(pv.state);
            *to_seconds = pv.seconds;
            *to_nanoseconds = f64::from(pv.nanoseconds);
        }
    }

    /// Counts updates of a slot that this client will not get.
    pub fn skip(&mut self, slot: Slot, cause: u8, count: u32) {
        let store = &mut self.session.live;
        store.skip_late(slot, SkipCause::from_number(cause), count);
    }

    /// Makes room for executions, as many numbers, and returns their address.
    pub fn entries(&mut self, numbers: usize) -> usize {
        self.execution.reserve_entries(numbers)
    }

    /// Makes room for the bytes of arrays that executions read, and returns their address.
    pub fn elements(&mut self, bytes: usize) -> usize {
        self.execution.reserve_elements(bytes)
    }

    /// Carries out as many executions over the last answered Get's PVs or the live ones. `heard_ms` is
    /// when the relay was last heard from if it doesn't answer, otherwise NaN. Returns the address of
    /// the numbers that `flush` describes.
    pub fn execute(&mut self, answer: bool, count: usize, heard_ms: f64) -> usize {
        let store = of(&self.session, answer);
        let held = &self.held[usize::from(answer)];
        self.execution
            .run(store, held, &self.watchers, count, heard_ms)
    }

    /// Keeps a structure, or with `is_part` its changed fields, at an offset in the message of `bytes`
    /// bytes in the reserved memory, which was applied before.
    pub fn hold(&mut self, answer: bool, slot: Slot, bytes: usize, offset: u32, is_part: bool) {
        let row = ArrayRow {
            slot,
            offset,
            count: u32::from(!is_part),
            value_type: ValueType::Structure.number().into(),
        };
        let message = self.input.get(..bytes).unwrap_or_default();
        self.held[usize::from(answer)].keep(message, &[row]);
    }

    /// Whether the characters in the slot's array are one text.
    #[must_use]
    pub fn is_text(&self, answer: bool, slot: Slot) -> bool {
        of(&self.session, answer).metadata(slot).form == "String"
    }

    /// Whether a newly requested PV has enough data to show.
    #[must_use]
    pub fn settled(&self, slot: Slot) -> bool {
        execute::settled(&self.session.live, slot)
    }

    /// Adds a slot for a PV name.
    pub fn add(&mut self, name: &str) -> Slot {
        let slot = self.session.live.add(name);
        self.watchers.set_needs_relay(slot, true);
        slot
    }

    /// Releases at most 10,000 slots. Returns the request that tells the relay, empty if there is
    /// nothing to tell.
    pub fn remove(&mut self, slots: &[Slot]) -> Vec<u8> {
        for slot in slots {
            self.held[0].clear(*slot);
        }
        self.session.remove(slots).unwrap_or_default()
    }

    /// A request to subscribe to as many of the slots as fit, all with the same filter; `taken` is
    /// that number.
    // Each parameter is a number in JavaScript: an object would have to be taken apart.
    #[allow(clippy::too_many_arguments)]
    pub fn subscribe(
        &mut self,
        slots: &[Slot],
        min_interval_ms: u32,
        deadband: f64,
        every: u32,
        stride: u32,
        max_length: u32,
        points: u32,
        float32: bool,
        average: bool,
    ) -> Vec<u8> {
        let filter = Filter {
            min_interval_ms,
            deadband,
            every,
            stride,
            max_length,
            points,
            float32,
            average,
        };
        let (taken, bytes) = self.session.subscribe(slots, filter);
        self.taken = taken;
        bytes
    }

    /// A request to read as many of these PVs as fit; `taken` is that number, `last_request` the
    /// request's.
    // An owned list of strings is required at the boundary to JavaScript.
    #[allow(clippy::needless_pass_by_value)]
    pub fn get(&mut self, names: Vec<String>, timeout_ms: u32, description: bool) -> Vec<u8> {
        let (taken, bytes) = self.session.get(&names, timeout_ms, description);
        self.taken = taken;
        bytes
    }

    /// How many items of the last `subscribe`, `get` or `put` its request contains.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.taken
    }

    /// The number of the last request.
    #[must_use]
    pub fn last_request(&self) -> u32 {
        self.session.last_request()
    }

    /// Sets the value of the next put or argument to a number.
    pub fn value_number(&mut self, value: f64) {
        self.value = Some(PutValue::Number(value));
    }

    /// Sets the value to an integer.
    pub fn value_int64(&mut self, value: i64) {
        self.value = Some(PutValue::Int64(value));
    }

    /// Sets the value to an integer beyond the range of `value_int64`.
    pub fn value_uint64(&mut self, value: u64) {
        self.value = Some(PutValue::UInt64(value));
    }

    /// Sets the value to a string.
    pub fn value_text(&mut self, value: String) {
        self.value = Some(PutValue::Text(value));
    }

    /// Sets the value to an array of strings.
    pub fn value_texts(&mut self, value: Vec<String>) {
        self.value = Some(PutValue::TextArray(value));
    }

    /// Sets the value to an array of numbers of a type, little-endian.
    pub fn value_array(&mut self, value_type: u8, count: u32, bytes: Vec<u8>) {
        self.value = Some(PutValue::Array(Array {
            value_type: ValueType::from_number(value_type),
            count,
            data: bytes.into(),
        }));
    }

    /// Shows the value in the slot of a local PV or a formula. `precision` is -1 if it is not fixed;
    /// a severity beyond the known ones is undefined, with the status UDF, or not sent. `texts` are the alarm message and the labels
    /// of an enum.
    // Each parameter is a number in JavaScript: an object would have to be taken apart.
    #[allow(clippy::too_many_arguments)]
    // A list of owned strings is what crosses the boundary.
    #[allow(clippy::needless_pass_by_value)]
    pub fn show(
        &mut self,
        slot: Slot,
        value_type: u8,
        precision: i16,
        severity: u8,
        status: u16,
        seconds: f64,
        nanoseconds: u32,
        writable: bool,
        texts: Vec<String>,
    ) {
        let shown = Shown {
            value_type: ValueType::from_number(value_type),
            precision: (precision >= 0).then_some(precision),
            severity: (severity <= Severity::Invalid.number())
                .then(|| Severity::from_number(severity)),
            status,
            seconds,
            nanoseconds,
            writable,
        };
        if let (Some(value), [message, choices @ ..]) = (&self.value, &texts[..]) {
            let store = &mut self.session.live;
            store.show(slot, value, &shown, message, choices);
        }
    }

    /// Gives a formula the connection state of one of its inputs, which is not refused. If that is connected, a
    /// formula without a result loses its value.
    pub fn follow(&mut self, slot: Slot, input: Slot, has_result: bool) {
        self.session.live.follow(slot, input, has_result);
    }

    /// Records that the name of a local PV or a formula is invalid.
    pub fn refuse(&mut self, slot: Slot, reason: &str) {
        self.session.live.refuse(slot, reason);
    }

    /// Adds a put of the value to the next message. Returns `false` if `slot` is given and shows no
    /// update that the put could be bound to.
    pub fn stage_put(
        &mut self,
        name: String,
        wait: bool,
        timeout_ms: u32,
        slot: Option<Slot>,
    ) -> bool {
        let value = self.value.take().unwrap_or(PutValue::Number(f64::NAN));
        self.session
            .stage_put(name, value, wait, timeout_ms, slot)
            .is_ok()
    }

    /// A message with as many of the staged puts as fit in it; `taken` is that number,
    /// `last_request` the number of the last one. The other puts are dropped. `taken` is 0 if the first put is larger
    /// than `max_request_bytes`.
    pub fn put(&mut self, all_permitted: bool, within_limits: bool) -> Vec<u8> {
        let (taken, bytes) = self.session.put(all_permitted, within_limits);
        self.taken = taken;
        bytes
    }

    /// Clears the arguments of the next call.
    pub fn no_arguments(&mut self) {
        self.arguments.clear();
    }

    /// Adds the value as an argument of the next call.
    pub fn argument(&mut self, name: String) {
        self.arguments
            .extend(self.value.take().map(|value| (name, value)));
    }

    /// Size of the longest request that the relay accepts, in bytes.
    #[must_use]
    pub fn max_request_bytes(&self) -> usize {
        self.session.max_request_bytes()
    }

    /// A request that calls a service with these arguments; empty if it is larger than `max_request_bytes`.
    // An owned string is required at the boundary to JavaScript.
    #[allow(clippy::needless_pass_by_value)]
    pub fn rpc(&mut self, name: String, timeout_ms: u32) -> Vec<u8> {
        let arguments = std::mem::take(&mut self.arguments);
        let request = self.session.rpc(&name, arguments, timeout_ms);
        request.unwrap_or_default()
    }

    /// Outcome of the last answered put or call, as the wire's number; `request_error` gives the
    /// reason.
    #[must_use]
    pub fn outcome(&self) -> u8 {
        self.session.outcome.number()
    }

    /// A request that acknowledges what was processed.
    #[must_use]
    pub fn ack(&self) -> Vec<u8> {
        self.session.ack()
    }

    /// A request that identifies the user.
    pub fn authenticate(&mut self, token: String) -> Vec<u8> {
        self.session.authenticate(token)
    }

    /// A request for updates at intervals only; 0 for every update again.
    #[must_use]
    pub fn pace(&self, interval_ms: u32) -> Vec<u8> {
        self.session.pace(interval_ms)
    }

    /// A request for the descriptions of PVs; empty if none of the slots is subscribed.
    #[must_use]
    pub fn describe(&self, slots: &[Slot]) -> Vec<u8> {
        self.session.describe(slots).unwrap_or_default()
    }

    /// A request that the relay answers at once; `now_ms` is milliseconds past the POSIX epoch.
    pub fn ping(&mut self, now_ms: f64) -> Vec<u8> {
        self.session.ping((now_ms * 1e6) as i64)
    }

    /// Slots that the relay had no room for, each returned once.
    pub fn take_without_room(&mut self) -> Vec<Slot> {
        self.session.take_without_room()
    }

    /// Records that the connection was lost. `heard_ms` is the time of the last message, NaN if
    /// there was none.
    pub fn relay_lost(&mut self, now_ms: f64, heard_ms: f64) {
        self.session.relay_lost(now_ms, heard_ms);
    }

    /// The relay's description of itself: version, instance, acknowledgement interval in
    /// milliseconds, whether the client must log in, whether it should go to another relay, and the
    /// addresses of the relays that serve the same PVs.
    #[must_use]
    pub fn hello(&self) -> Vec<String> {
        self.session.hello.as_ref().map_or_else(Vec::new, |hello| {
            let flag = |is_set| if is_set { "1" } else { "" }.to_owned();
            let own = [
                hello.relay_version.clone(),
                hexadecimal(hello.relay_instance),
                hello.ack_interval_ms.to_string(),
                flag(hello.authenticate),
                flag(hello.crowded),
            ];
            own.into_iter()
                .chain(hello.relays.iter().cloned())
                .collect()
        })
    }

    /// Names of the last answered Get that have no answer: index, problem and error message of
    /// each.
    #[must_use]
    pub fn name_errors(&self) -> Vec<String> {
        let mut list = Vec::new();
        for error in &self.session.name_errors {
            list.push(error.index.to_string());
            list.push(error.problem.number().to_string());
            list.push(error.message.clone());
        }
        list
    }

    /// The error message of the last request that failed as a whole.
    #[must_use]
    pub fn request_error(&self) -> String {
        self.session.error.clone()
    }

    /// The error in the last message.
    #[must_use]
    pub fn error(&self) -> String {
        self.error.clone()
    }
}

/// Sixteen digits; `format!` would take 2 kB of the compressed module.
fn hexadecimal(number: u64) -> String {
    let digits = (0..16).rev().map(|at| (number >> (4 * at)) as u32 & 15);
    digits
        .filter_map(|digit| char::from_digit(digit, 16))
        .collect()
}
