//! What JavaScript sees of the browser's Rust: one `Core` that takes messages in and lets its columns
//! be read in place. All else here knows nothing of browsers and is tested natively.

#![deny(unsafe_code)]

pub mod format;
pub mod ingest;
pub mod store;

use std::cell::Cell;
use std::mem::ManuallyDrop;

use pvwire_graphql as graphql;
use pvwire_schema::types::{Array, Filter, PutValue, ValueType};
use wasm_bindgen::prelude::wasm_bindgen;

use crate::ingest::Session;
use crate::store::{Slot, Store, Text};

/// The standard library's weighs three times as much.
#[cfg(target_arch = "wasm32")]
#[global_allocator]
static MEMORY: talc::wasm::WasmDynamicTalc = talc::wasm::new_wasm_dynamic_allocator();

/// Numbers of the summary that `Core::apply` leaves; `ts/store/core.ts` names their places.
const SUMMARY_LEN: usize = 10;

/// One client's state, as JavaScript holds it.
#[wasm_bindgen]
#[derive(Debug, Default)]
pub struct Core {
    session: Session,
    /// Room for the longest message so far: the module's memory never shrinks in any case.
    input: Vec<u8>,
    summary: [f64; SUMMARY_LEN],
    arrays: Vec<u32>,
    error: String,
    taken: usize,
    value: Option<PutValue>,
    arguments: Vec<(String, PutValue)>,
}

/// Which PVs a question is about: those of the last answered Get, or the live ones.
fn of(session: &Session, answer: bool) -> &Store {
    if answer {
        &session.answer
    } else {
        &session.live
    }
}

#[wasm_bindgen]
impl Core {
    /// A core that has not heard from a relay.
    #[wasm_bindgen(constructor)]
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes room for a message and says where it goes. The place is good for one `apply`.
    pub fn reserve(&mut self, bytes: usize) -> usize {
        if self.input.len() < bytes {
            self.input.resize(bytes, 0);
        }
        self.input.as_ptr() as usize
    }

    /// Applies the message of so many bytes in the reserved place and fills the summary; `false` when it is no frame,
    /// and `error` says why. The elements of arrays need not be in their place: nobody reads them here.
    pub fn apply(&mut self, bytes: usize) -> bool {
        let applied = match self
            .session
            .apply(self.input.get(..bytes).unwrap_or_default())
        {
            Ok(applied) => applied,
            Err(error) => {
                self.error = error.to_string();
                return false;
            }
        };
        self.arrays.clear();
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
            // When the last answered Ping was sent and answered, for `ts/latency`: milliseconds past the epoch.
            self.session.pong.0 as f64 / 1e6,
            self.session.pong.1 as f64 / 1e6,
        ];
        true
    }

    /// Where the summary of the last `apply` lies.
    #[must_use]
    pub fn summary(&self) -> usize {
        self.summary.as_ptr() as usize
    }

    /// Where the last frame's arrays lie: slot, offset, count and type of each.
    #[must_use]
    pub fn arrays(&self) -> usize {
        self.arrays.as_ptr() as usize
    }

    /// Where the slots with changed parts lie.
    #[must_use]
    pub fn dirty(&self) -> usize {
        self.session.live.dirty().as_ptr() as usize
    }

    /// How many slots have changed parts.
    #[must_use]
    pub fn dirty_len(&self) -> usize {
        self.session.live.dirty().len()
    }

    /// Starts a new flush.
    pub fn clear_dirty(&mut self) {
        self.session.live.clear_dirty();
    }

    /// The number of slots and then where each column starts, in the order of [`store::Columns`].
    /// They move when memory grows and when a slot is added.
    #[must_use]
    pub fn columns(&self, answer: bool) -> Vec<usize> {
        let store = of(&self.session, answer);
        let columns = &store.columns;
        vec![
            store.len(),
            columns.value.as_ptr() as usize,
            columns.seconds.as_ptr() as usize,
            columns.since_ms.as_ptr() as usize,
            columns.heard_ms.as_ptr() as usize,
            columns.skips.as_ptr() as usize,
            columns.received.as_ptr() as usize,
            columns.nanoseconds.as_ptr() as usize,
            columns.sequence.as_ptr() as usize,
            columns.value_version.as_ptr() as usize,
            columns.metadata_version.as_ptr() as usize,
            columns.parts.as_ptr() as usize,
            columns.alarm_status.as_ptr() as usize,
            columns.kind.as_ptr() as usize,
            columns.severity.as_ptr() as usize,
            columns.state.as_ptr() as usize,
            columns.access.as_ptr() as usize,
        ]
    }

    /// The text of a string PV, or the digits of a large integer.
    #[must_use]
    pub fn text(&self, answer: bool, slot: Slot) -> String {
        match of(&self.session, answer).text(slot) {
            Text::One(text) => text.clone(),
            Text::None | Text::Many(_) => String::new(),
        }
    }

    /// The strings of an array of strings.
    #[must_use]
    pub fn texts(&self, answer: bool, slot: Slot) -> Vec<String> {
        match of(&self.session, answer).text(slot) {
            Text::Many(texts) => texts.clone(),
            Text::None | Text::One(_) => Vec::new(),
        }
    }

    /// Type, element count, precision (NaN for none), then low and high of display, control, warning
    /// and alarm limits.
    #[must_use]
    pub fn metadata_numbers(&self, answer: bool, slot: Slot) -> Vec<f64> {
        let metadata = of(&self.session, answer).metadata(slot);
        let mut numbers = vec![
            f64::from(metadata.value_type.number()),
            f64::from(metadata.element_count),
            metadata.precision.map_or(f64::NAN, f64::from),
        ];
        for limits in [
            metadata.display,
            metadata.control,
            metadata.warning,
            metadata.alarm,
        ] {
            numbers.extend([limits.low, limits.high]);
        }
        numbers
    }

    /// Units, description, structure identifier, form, why there is no such field, then the labels.
    #[must_use]
    pub fn metadata_texts(&self, answer: bool, slot: Slot) -> Vec<String> {
        let metadata = of(&self.session, answer).metadata(slot);
        let mut texts = vec![
            metadata.units.clone(),
            metadata.description.clone(),
            metadata.type_id.clone(),
            metadata.form.clone(),
            metadata.missing_field.clone(),
        ];
        texts.extend(metadata.choices.iter().cloned());
        texts
    }

    /// Why the relay didn't take the slot's name; empty when it did.
    #[must_use]
    pub fn reason(&self, slot: Slot) -> String {
        self.session.live.reason(slot).to_owned()
    }

    /// A slot for a PV name.
    pub fn add(&mut self, name: &str) -> Slot {
        self.session.live.add(name)
    }

    /// Gives slots back, 10,000 at most; the request that says so to the relay is empty when there
    /// is nothing to say.
    pub fn remove(&mut self, slots: &[Slot]) -> Vec<u8> {
        self.session.remove(slots).unwrap_or_default()
    }

    /// A request for as many of the slots as fit in one, all with the same filter; `taken` says how
    /// many.
    // Each is a number in JavaScript: an object would have to be taken apart.
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
    ) -> Vec<u8> {
        let filter = Filter {
            min_interval_ms,
            deadband,
            every,
            stride,
            max_length,
            points,
            float32,
        };
        let (taken, bytes) = self.session.subscribe(slots, filter);
        self.taken = taken;
        bytes
    }

    /// A request for the present state of as many of `names` as fit in one; `taken` says how many,
    /// `last_request` its number.
    // A list of owned strings is what crosses the boundary.
    #[allow(clippy::needless_pass_by_value)]
    pub fn get(&mut self, names: Vec<String>, timeout_ms: u32, description: bool) -> Vec<u8> {
        let (taken, bytes) = self.session.get(&names, timeout_ms, description);
        self.taken = taken;
        bytes
    }

    /// How much of the last `subscribe`, `get` or `put` is in its request.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.taken
    }

    /// The number of the last request.
    #[must_use]
    pub fn last_request(&self) -> u32 {
        self.session.last_request()
    }

    /// The next put's or argument's value: a number.
    pub fn value_number(&mut self, value: f64) {
        self.value = Some(PutValue::Number(value));
    }

    /// The same: an integer.
    pub fn value_int64(&mut self, value: i64) {
        self.value = Some(PutValue::Int64(value));
    }

    /// The same: an integer above those of `value_int64`.
    pub fn value_uint64(&mut self, value: u64) {
        self.value = Some(PutValue::UInt64(value));
    }

    /// The same: a string.
    pub fn value_text(&mut self, value: String) {
        self.value = Some(PutValue::Text(value));
    }

    /// The same: an array of strings.
    pub fn value_texts(&mut self, value: Vec<String>) {
        self.value = Some(PutValue::TextArray(value));
    }

    /// The same: an array of numbers of a type, little-endian.
    pub fn value_array(&mut self, value_type: u8, count: u32, bytes: Vec<u8>) {
        self.value = Some(PutValue::Array(Array {
            value_type: ValueType::from_number(value_type),
            count,
            data: bytes.into(),
        }));
    }

    /// Shows the value as that of a PV of the page's own, with so many digits; `now_ms` is
    /// milliseconds past the POSIX epoch.
    pub fn set_local(&mut self, slot: Slot, digits: i16, now_ms: f64) {
        if let Some(value) = &self.value {
            self.session.live.set_local(slot, value, digits, now_ms);
        }
    }

    /// The elements of the value, when it is an array of numbers.
    #[must_use]
    pub fn staged_array(&self) -> Vec<u8> {
        match &self.value {
            Some(PutValue::Array(array)) => array.data.to_vec(),
            _ => Vec::new(),
        }
    }

    /// Type of the value's elements, the wire's number.
    #[must_use]
    pub fn staged_type(&self) -> u8 {
        match &self.value {
            Some(PutValue::Array(array)) => array.value_type.number(),
            _ => ValueType::Unknown.number(),
        }
    }

    /// The name of a PV of the page's own can't be one.
    pub fn refuse(&mut self, slot: Slot, reason: &str) {
        self.session.live.refuse(slot, reason);
    }

    /// Adds a put of the value to the next message; `false` when `slot` is given and shows no update to bind
    /// it to.
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

    /// A message with as many of the staged puts as fit in it; `taken` says how many, `last_request` the last
    /// one's number. The others are dropped.
    pub fn put(&mut self, all_permitted: bool) -> Vec<u8> {
        let (taken, bytes) = self.session.put(all_permitted);
        self.taken = taken;
        bytes
    }

    /// Forgets the arguments that were given.
    pub fn no_arguments(&mut self) {
        self.arguments.clear();
    }

    /// Makes the value an argument of the next call.
    pub fn argument(&mut self, name: String) {
        self.arguments
            .extend(self.value.take().map(|value| (name, value)));
    }

    /// A request that calls a service with the arguments.
    // An owned string is what crosses the boundary.
    #[allow(clippy::needless_pass_by_value)]
    pub fn rpc(&mut self, name: String, timeout_ms: u32) -> Vec<u8> {
        let arguments = std::mem::take(&mut self.arguments);
        self.session.rpc(&name, arguments, timeout_ms)
    }

    /// What became of the last answered put or call, the wire's number; `request_error` says why.
    #[must_use]
    pub fn outcome(&self) -> u8 {
        self.session.outcome.number()
    }

    /// User tag of the last update's time stamp.
    #[must_use]
    pub fn user_tag(&self, answer: bool, slot: Slot) -> i32 {
        of(&self.session, answer)
            .detail(slot)
            .map_or(0, |detail| detail.user_tag)
    }

    /// The last update's alarm message; empty when there is none.
    #[must_use]
    pub fn alarm_message(&self, answer: bool, slot: Slot) -> String {
        of(&self.session, answer)
            .detail(slot)
            .map_or_else(String::new, |detail| detail.message.clone())
    }

    /// A request that says what was processed.
    #[must_use]
    pub fn ack(&self) -> Vec<u8> {
        self.session.ack()
    }

    /// A request that shows who this is.
    pub fn authenticate(&mut self, token: String) -> Vec<u8> {
        self.session.authenticate(token)
    }

    /// A request to be brought up to date at intervals only; 0 for every update again.
    #[must_use]
    pub fn pace(&self, interval_ms: u32) -> Vec<u8> {
        self.session.pace(interval_ms)
    }

    /// A request for the descriptions of PVs; empty when none of the slots is subscribed.
    #[must_use]
    pub fn describe(&self, slots: &[Slot]) -> Vec<u8> {
        self.session.describe(slots).unwrap_or_default()
    }

    /// A request to answer at once; `now_ms` is milliseconds past the POSIX epoch.
    pub fn ping(&mut self, now_ms: f64) -> Vec<u8> {
        self.session.ping((now_ms * 1e6) as i64)
    }

    /// Slots that the relay had no room for, once.
    pub fn take_without_room(&mut self) -> Vec<Slot> {
        self.session.take_without_room()
    }

    /// The connection is gone; when something last came by it, NaN when nothing has.
    pub fn relay_lost(&mut self, now_ms: f64, heard_ms: f64) {
        self.session.relay_lost(now_ms, heard_ms);
    }

    /// What the relay said of itself: version, instance, acknowledgement interval in milliseconds.
    #[must_use]
    pub fn hello(&self) -> Vec<String> {
        self.session.hello.as_ref().map_or_else(Vec::new, |hello| {
            vec![
                hello.relay_version.clone(),
                format!("{:016x}", hello.relay_instance),
                hello.ack_interval_ms.to_string(),
                if hello.authenticate { "1" } else { "" }.to_owned(),
            ]
        })
    }

    /// Names of the last answered Get that have no answer: index, problem and sentence of each.
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

    /// The sentence of the last request that failed as a whole.
    #[must_use]
    pub fn request_error(&self) -> String {
        self.session.error.clone()
    }

    /// What was wrong with the last message.
    #[must_use]
    pub fn error(&self) -> String {
        self.error.clone()
    }
}

/// See [`graphql::selection`]; `*` selects every field.
#[wasm_bindgen]
#[must_use]
pub fn compile(text: &str) -> String {
    graphql::selection(if text == "*" {
        graphql::EVERYTHING
    } else {
        text
    })
}

thread_local! {
    // Never dropped: the page ends with it.
    static DOCUMENTS: Cell<ManuallyDrop<graphql::Documents>> =
        const { Cell::new(ManuallyDrop::new(graphql::Documents::new())) };
}

/// See [`graphql::Documents::plan`]. Documents are kept for the whole page.
// An owned string is what crosses the boundary.
#[allow(clippy::needless_pass_by_value)]
#[wasm_bindgen]
#[must_use]
pub fn plan(text: &str, operation: Option<String>, variables: &str) -> String {
    let mut documents = DOCUMENTS.take();
    let plan = documents.plan(text, operation.as_deref(), variables);
    DOCUMENTS.set(documents);
    plan
}

/// A number as C's `"%.*f"` prints it.
#[wasm_bindgen]
#[must_use]
pub fn fixed(value: f64, digits: usize) -> String {
    format::fixed(value, digits)
}
