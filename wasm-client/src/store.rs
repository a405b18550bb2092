//! What is known of each PV now, laid out by column so that JavaScript can read it in place.
//!
//! A PV that the application asked for has a *slot*. The relay's id of a PV leads to its first slot
//! and each slot to the next one of the same PV: `X` and `ca://X` are two slots of one id.

use pvwire_schema::decode::DetailRow;
use pvwire_schema::types::{
    Alarm, Connection, ConnectionState, Detail, Expected, Metadata, PutValue, PvId, Severity,
    SkipCause, ValueType,
};

pub use pvwire_graphql::part;

mod plain;

pub use self::plain::Seconds;

/// A place in every column.
pub type Slot = u32;

/// What a slot's value is.
pub mod kind {
    /// No value yet.
    pub const NONE: u8 = 0;
    /// One number, in the value column.
    pub const NUMBER: u8 = 1;
    /// One string.
    pub const TEXT: u8 = 2;
    /// An array of numbers; its bytes stay in the message.
    pub const ARRAY: u8 = 3;
    /// An array of strings.
    pub const TEXT_ARRAY: u8 = 4;
    /// One integer that a double can't hold: the value column has the nearest, the text its digits.
    pub const LARGE_INTEGER: u8 = 5;
    /// There is one, of a type that this program doesn't know.
    pub const UNKNOWN: u8 = 6;
    /// A structure; its fields stay in the message.
    pub const STRUCTURE: u8 = 7;
}

/// Connection states that only a client knows of; the others have the wire's numbers.
pub mod state {
    /// The relay is out of reach.
    pub const RELAY_LOST: u8 = 4;
    /// The relay didn't take the name.
    pub const REFUSED: u8 = 5;
}

/// Severity column before the first value.
pub const SEVERITY_UNKNOWN: u8 = 255;

/// Access column: may be read.
pub const ACCESS_READ: u8 = 1;

/// Access column: may be written.
pub const ACCESS_WRITE: u8 = 2;

/// Access column: the relay takes puts.
pub const ACCESS_PUTS: u8 = 4;

/// Access column: whether the PV may be written shows only when a put is tried.
pub const ACCESS_UNKNOWN: u8 = 8;

/// Access column: a put of this client was refused since the rights were last told.
pub const ACCESS_REFUSED: u8 = 16;

/// Access column: a put of this client was taken since the rights were last told.
pub const ACCESS_TAKEN: u8 = 32;

/// PVs that the relay makes itself: there is no IOC that could know a user.
const SIMULATED: [&str; 2] = ["sim://", "ssim://"];

/// Ids below this lead to their slot through a table, the others through a search. Relays number PVs
/// from zero, and a table of this length is 4 MB; a relay with odd numbers must not cost more.
const DIRECT_IDS: u32 = 1 << 20;

/// Names that begin so are of PVs that live in the page.
const LOCAL_SCHEME: &str = "loc://";

/// Causes why values are left out, the unknown one included.
pub const CAUSES: usize = SkipCause::ALL.len();

/// Stands where no slot is.
pub const NO_SLOT: Slot = u32::MAX;

/// Value of a PV that is no single number.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Text {
    /// There is none.
    #[default]
    None,
    /// A string, or the digits of a large integer.
    One(String),
    /// An array of strings.
    Many(Vec<String>),
}

/// The columns. Each is as long as there are slots.
#[derive(Debug, Default)]
pub struct Columns {
    /// The number; meaningless unless `kind` says that there is one.
    pub value: Vec<f64>,
    /// Time stamp: whole seconds past the POSIX epoch.
    pub seconds: Vec<f64>,
    /// When the connection state began: milliseconds past the POSIX epoch, NaN when not known.
    pub since_ms: Vec<f64>,
    /// When the server of a PV was last heard from, if it is disconnected or its server doesn't answer;
    /// NaN for any other. Of a PV whose relay is lost: when anything last came.
    pub heard_ms: Vec<f64>,
    /// Values left out so far: for each slot one count by the number of each cause.
    pub skips: Vec<f64>,
    /// Updates that came.
    pub received: Vec<f64>,
    /// Time stamp: 0 to 999,999,999.
    pub nanoseconds: Vec<u32>,
    /// Number of the last update in the PV's stream.
    pub sequence: Vec<u32>,
    /// Grows with each change of the value.
    pub value_version: Vec<u32>,
    /// Grows with each change of the metadata; 0 when there are none.
    pub metadata_version: Vec<u32>,
    /// Parts that changed since the last flush.
    pub parts: Vec<u32>,
    /// Alarm condition.
    pub alarm_status: Vec<u16>,
    /// See [`kind`].
    pub kind: Vec<u8>,
    /// 0 to 3, or [`SEVERITY_UNKNOWN`].
    pub severity: Vec<u8>,
    /// The wire's `ConnectionState`, or one of [`state`].
    pub state: Vec<u8>,
    /// [`ACCESS_READ`] and those after it.
    pub access: Vec<u8>,
}

/// All slots of one client.
#[derive(Debug)]
pub struct Store {
    /// What JavaScript reads.
    pub columns: Columns,
    names: Vec<String>,
    ids: Vec<PvId>,
    next: Vec<Slot>,
    texts: Vec<Text>,
    details: Vec<Option<Box<Detail>>>,
    metadata: Vec<Metadata>,
    reasons: Vec<(Slot, String)>,
    free: Vec<Slot>,
    direct: Vec<Slot>,
    /// Sorted by id.
    others: Vec<(PvId, Slot)>,
    /// Number of the frame that last brought a value.
    filled_by: Vec<u32>,
    frame: u32,
    /// Slots with changed parts, the first `dirty_len` of it; there is room for all.
    dirty: Vec<Slot>,
    dirty_len: usize,
    state_of_new: u8,
    /// The client has a name, which IOCs may allow what they don't allow the relay, and the other
    /// way round.
    pub is_user: bool,
    updates_total: u64,
    skipped_total: u64,
}

/// Where an id stands, or would stand, in a sorted list.
fn place(sorted: &[(PvId, Slot)], id: PvId) -> Result<usize, usize> {
    sorted.binary_search_by_key(&id, |entry| entry.0)
}

impl Default for Store {
    fn default() -> Self {
        Self::new()
    }
}

impl Store {
    /// A store without slots.
    // Fifty numbers that need not be written out wherever there is one.
    #[inline(never)]
    #[must_use]
    pub fn new() -> Self {
        Self {
            columns: Columns::default(),
            names: Vec::new(),
            ids: Vec::new(),
            next: Vec::new(),
            texts: Vec::new(),
            details: Vec::new(),
            metadata: Vec::new(),
            reasons: Vec::new(),
            free: Vec::new(),
            direct: Vec::new(),
            others: Vec::new(),
            filled_by: Vec::new(),
            frame: 0,
            dirty: Vec::new(),
            dirty_len: 0,
            state_of_new: ConnectionState::Connecting.number(),
            is_user: false,
            updates_total: 0,
            skipped_total: 0,
        }
    }

    /// A slot for `name`, in which nothing is known yet.
    pub fn add(&mut self, name: &str) -> Slot {
        let slot = self.free.pop().unwrap_or_else(|| {
            let columns = &mut self.columns;
            columns.value.push(0.0);
            columns.seconds.push(0.0);
            columns.since_ms.push(0.0);
            columns.heard_ms.push(f64::NAN);
            columns.skips.extend([0.0; CAUSES]);
            columns.received.push(0.0);
            columns.nanoseconds.push(0);
            columns.sequence.push(0);
            columns.value_version.push(0);
            columns.metadata_version.push(0);
            columns.parts.push(0);
            columns.alarm_status.push(0);
            columns.kind.push(0);
            columns.severity.push(0);
            columns.state.push(0);
            columns.access.push(0);
            self.names.push(String::new());
            self.ids.push(PvId::NONE);
            self.next.push(NO_SLOT);
            self.texts.push(Text::None);
            self.details.push(None);
            self.metadata.push(Metadata::default());
            self.filled_by.push(0);
            self.dirty.push(NO_SLOT);
            self.names.len() as Slot - 1
        });
        name.clone_into(&mut self.names[slot as usize]);
        self.forget(slot);
        slot
    }

    /// Gives a slot back. Its id must be unbound.
    pub fn remove(&mut self, slot: Slot) {
        self.unbind(slot);
        self.forget(slot);
        self.names[slot as usize] = String::new();
        self.free.push(slot);
    }

    fn forget(&mut self, slot: Slot) {
        let at = slot as usize;
        let columns = &mut self.columns;
        columns.value[at] = 0.0;
        columns.seconds[at] = 0.0;
        columns.nanoseconds[at] = 0;
        columns.since_ms[at] = f64::NAN;
        columns.heard_ms[at] = f64::NAN;
        columns.skips[at * CAUSES..][..CAUSES].fill(0.0);
        columns.received[at] = 0.0;
        columns.sequence[at] = 0;
        columns.alarm_status[at] = 0;
        columns.kind[at] = kind::NONE;
        columns.severity[at] = SEVERITY_UNKNOWN;
        columns.state[at] = self.state_of_new;
        columns.access[at] = 0;
        // Versions go on: what JavaScript keeps by version must not match the slot's next PV.
        columns.value_version[at] = columns.value_version[at].wrapping_add(1);
        columns.metadata_version[at] = 0;
        self.texts[at] = Text::None;
        self.details[at] = None;
        self.metadata[at] = Metadata::default();
        self.filled_by[at] = 0;
        self.accept(slot);
    }

    /// How many slots there are, given back ones included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether no slot was ever taken.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The name that the application asked for.
    #[must_use]
    pub fn name(&self, slot: Slot) -> &str {
        &self.names[slot as usize]
    }

    /// The relay's number of the slot's PV, or `PvId::NONE`.
    #[must_use]
    pub fn id(&self, slot: Slot) -> PvId {
        self.ids[slot as usize]
    }

    /// Lets `id` lead to `slot`, among others.
    pub fn bind(&mut self, slot: Slot, id: PvId) {
        if self.ids[slot as usize] == id {
            return;
        }
        self.unbind(slot);
        if id == PvId::NONE {
            return;
        }
        self.ids[slot as usize] = id;
        self.next[slot as usize] = self.first(id);
        self.set_first(id, slot);
    }

    /// Lets the slot's id no longer lead to it.
    pub fn unbind(&mut self, slot: Slot) {
        let id = std::mem::replace(&mut self.ids[slot as usize], PvId::NONE);
        if id == PvId::NONE {
            return;
        }
        let after = std::mem::replace(&mut self.next[slot as usize], NO_SLOT);
        let mut at = self.first(id);
        if at == slot {
            self.set_first(id, after);
            return;
        }
        while at != NO_SLOT {
            let next = self.next[at as usize];
            if next == slot {
                self.next[at as usize] = after;
                return;
            }
            at = next;
        }
    }

    /// The first slot of a PV, [`NO_SLOT`] when it has none; [`Store::after`] leads to the others.
    #[inline]
    #[must_use]
    pub fn first(&self, id: PvId) -> Slot {
        if id.0 < DIRECT_IDS {
            self.direct.get(id.index()).copied().unwrap_or(NO_SLOT)
        } else {
            place(&self.others, id).map_or(NO_SLOT, |at| self.others[at].1)
        }
    }

    /// The next slot of the same PV; [`NO_SLOT`] ends the list.
    #[inline]
    #[must_use]
    pub fn after(&self, slot: Slot) -> Slot {
        self.next[slot as usize]
    }

    fn set_first(&mut self, id: PvId, slot: Slot) {
        if id.0 >= DIRECT_IDS {
            match place(&self.others, id) {
                Ok(at) if slot == NO_SLOT => drop(self.others.remove(at)),
                Ok(at) => self.others[at].1 = slot,
                Err(_) if slot == NO_SLOT => {}
                Err(at) => self.others.insert(at, (id, slot)),
            }
            return;
        }
        if id.index() >= self.direct.len() {
            self.direct.resize(id.index() + 1, NO_SLOT);
        }
        self.direct[id.index()] = slot;
    }

    #[inline]
    fn touch(&mut self, slot: Slot, parts: u32) {
        let before = self.columns.parts[slot as usize];
        if before == 0 && parts != 0 {
            self.dirty[self.dirty_len] = slot;
            self.dirty_len += 1;
        }
        self.columns.parts[slot as usize] = before | parts;
    }

    /// Slots with changed parts.
    #[must_use]
    pub fn dirty(&self) -> &[Slot] {
        &self.dirty[..self.dirty_len]
    }

    /// Starts a new flush.
    pub fn clear_dirty(&mut self) {
        if self.dirty_len > 0 {
            // Quicker than one by one, and nothing in a flush's time even with 20,000 slots.
            self.columns.parts.fill(0);
            self.dirty_len = 0;
        }
    }

    /// An update whose value is a number.
    #[inline]
    pub fn set_number(&mut self, slot: Slot, value: f64) {
        let at = slot as usize;
        let columns = &mut self.columns;
        if columns.kind[at] == kind::NUMBER && columns.value[at].to_bits() == value.to_bits() {
            return;
        }
        columns.value[at] = value;
        self.value_changed(slot, kind::NUMBER);
    }

    /// An update whose value is text of any kind. `number` is what a double can say of it.
    pub fn set_text(&mut self, slot: Slot, kind: u8, text: Text, number: f64) {
        let at = slot as usize;
        if self.columns.kind[at] == kind && self.texts[at] == text {
            return;
        }
        self.texts[at] = text;
        self.columns.value[at] = number;
        self.value_changed(slot, kind);
    }

    /// An update whose value stays in the message, or can't be read.
    pub fn set_opaque(&mut self, slot: Slot, kind: u8) {
        self.value_changed(slot, kind);
    }

    fn value_changed(&mut self, slot: Slot, kind: u8) {
        let at = slot as usize;
        if !matches!(kind, kind::TEXT | kind::TEXT_ARRAY | kind::LARGE_INTEGER)
            && self.texts[at] != Text::None
        {
            self.texts[at] = Text::None;
        }
        self.columns.kind[at] = kind;
        self.columns.value_version[at] = self.columns.value_version[at].wrapping_add(1);
        self.touch(slot, part::VALUE);
    }

    /// The value is no longer known.
    pub fn clear_value(&mut self, slot: Slot) {
        let at = slot as usize;
        self.columns.sequence[at] = 0;
        if self.columns.kind[at] == kind::NONE {
            return;
        }
        self.columns.severity[at] = SEVERITY_UNKNOWN;
        self.columns.alarm_status[at] = 0;
        self.details[at] = None;
        self.value_changed(slot, kind::NONE);
        self.touch(slot, part::TIME | part::ALARM);
    }

    /// What an update says beside value, time and alarm, if it does.
    pub fn set_detail(&mut self, slot: Slot, detail: Option<DetailRow<'_>>) {
        let before = &mut self.details[slot as usize];
        if detail.is_none() && before.is_none() {
            return;
        }
        *before = detail.map(|detail| {
            Box::new(Detail {
                user_tag: detail.user_tag,
                message: detail.message.to_owned(),
            })
        });
        self.touch(slot, part::TIME | part::ALARM);
    }

    /// What the last update said beside value, time and alarm.
    #[must_use]
    pub fn detail(&self, slot: Slot) -> Option<&Detail> {
        self.details[slot as usize].as_deref()
    }

    /// The update that the slot shows, if it is the PV's present one as far as anybody knows.
    #[must_use]
    pub fn expected(&self, slot: Slot) -> Option<Expected> {
        let at = slot as usize;
        let connected = self.columns.state[at] == ConnectionState::Connected.number();
        (connected && self.columns.kind[at] != kind::NONE).then(|| Expected {
            sequence: self.columns.sequence[at],
            epoch: self.metadata[at].epoch,
        })
    }

    /// The time stamp of an update: whole seconds past the POSIX epoch and the rest.
    #[inline]
    pub fn set_time(&mut self, slot: Slot, seconds: f64, nanoseconds: u32) {
        let at = slot as usize;
        let columns = &mut self.columns;
        if columns.seconds[at] != seconds || columns.nanoseconds[at] != nanoseconds {
            columns.seconds[at] = seconds;
            columns.nanoseconds[at] = nanoseconds;
            self.touch(slot, part::TIME);
        }
    }

    /// The alarm of an update; `None` when it is not known.
    pub fn set_alarm(&mut self, slot: Slot, alarm: Option<Alarm>) {
        let at = slot as usize;
        let alarm = alarm.filter(|alarm| *alarm != Alarm::NONE);
        let severity = alarm.map_or(SEVERITY_UNKNOWN, |alarm| alarm.severity.number());
        let status = alarm.map_or(0, |alarm| alarm.status);
        let columns = &mut self.columns;
        if columns.severity[at] != severity || columns.alarm_status[at] != status {
            columns.severity[at] = severity;
            columns.alarm_status[at] = status;
            self.touch(slot, part::ALARM);
        }
    }

    /// Starts a frame: what it fills can be told afterwards.
    pub fn begin_frame(&mut self) {
        self.frame = self.frame.wrapping_add(1).max(1);
    }

    /// Whether this frame has brought the slot a value.
    #[must_use]
    pub fn filled(&self, slot: Slot) -> bool {
        self.filled_by[slot as usize] == self.frame
    }

    /// This frame has brought the slot a value.
    #[inline]
    pub fn mark_filled(&mut self, slot: Slot) {
        self.filled_by[slot as usize] = self.frame;
    }

    /// An update came, the `sequence`th of its PV.
    #[inline]
    pub fn count(&mut self, slot: Slot, sequence: u32) {
        let at = slot as usize;
        self.columns.sequence[at] = sequence;
        self.columns.received[at] += 1.0;
    }

    /// Updates that did not come.
    pub fn skip(&mut self, slot: Slot, cause: SkipCause, count: u32) {
        if count > 0 {
            let at = slot as usize * CAUSES + usize::from(cause.number());
            self.columns.skips[at] += f64::from(count);
            self.touch(slot, part::SKIPPED);
        }
    }

    /// Counts a row of any PV.
    #[inline]
    pub fn count_total(&mut self, skipped: u32) {
        self.updates_total += 1;
        self.skipped_total += u64::from(skipped);
    }

    /// Updates of all PVs so far.
    #[must_use]
    pub fn updates_total(&self) -> u64 {
        self.updates_total
    }

    /// Values of all PVs left out so far.
    #[must_use]
    pub fn skipped_total(&self) -> u64 {
        self.skipped_total
    }

    /// Connection and access rights as the relay knows them.
    pub fn set_connection(&mut self, slot: Slot, connection: Connection) {
        let name = &self.names[slot as usize];
        let is_simulated = SIMULATED.iter().any(|scheme| name.starts_with(scheme));
        let is_connected = connection.state == ConnectionState::Connected;
        let unknown = connection.write_unknown || self.is_user && is_connected && !is_simulated;
        let access = u8::from(connection.read) * ACCESS_READ
            + u8::from(connection.write) * ACCESS_WRITE
            + u8::from(connection.puts) * ACCESS_PUTS
            + u8::from(unknown) * ACCESS_UNKNOWN;
        let since_ms = connection.since_ns.div_euclid(1_000_000) as f64;
        let at = slot as usize;
        // What this client's puts have shown holds until something else is told.
        let before = self.columns.access[at];
        let is_news = before & !(ACCESS_REFUSED | ACCESS_TAKEN) != access
            || self.columns.state[at] != connection.state.number()
            || self.columns.since_ms[at].to_bits() != since_ms.to_bits();
        let access = if is_news { access } else { before };
        let heard_ms = match connection.heard_ns {
            0 => f64::NAN,
            heard_ns => heard_ns.div_euclid(1_000_000) as f64,
        };
        self.set_heard(slot, heard_ms);
        self.set_state(slot, connection.state.number(), since_ms);
        if self.columns.access[slot as usize] != access {
            self.columns.access[slot as usize] = access;
            self.touch(slot, part::ACCESS);
        }
    }

    fn set_heard(&mut self, slot: Slot, heard_ms: f64) {
        let before = std::mem::replace(&mut self.columns.heard_ms[slot as usize], heard_ms);
        if before.to_bits() != heard_ms.to_bits() {
            self.touch(slot, part::CONNECTION);
        }
    }

    /// A put of this client to the PV was taken or refused, whatever its rights seemed to be.
    pub fn tried(&mut self, name: &str, taken: bool) {
        let Some(found) = self.names.iter().position(|known| known == name) else {
            return;
        };
        let mut slot = match self.ids[found] {
            PvId::NONE => return,
            id => self.first(id),
        };
        while slot != NO_SLOT {
            let access = &mut self.columns.access[slot as usize];
            let known = *access & !(ACCESS_TAKEN | ACCESS_REFUSED);
            let now = known | if taken { ACCESS_TAKEN } else { ACCESS_REFUSED };
            if *access != now {
                *access = now;
                self.touch(slot, part::ACCESS);
            }
            slot = self.after(slot);
        }
    }

    fn set_state(&mut self, slot: Slot, state: u8, since_ms: f64) {
        let at = slot as usize;
        let columns = &mut self.columns;
        if columns.state[at] != state || columns.since_ms[at].to_bits() != since_ms.to_bits() {
            columns.state[at] = state;
            columns.since_ms[at] = since_ms;
            self.touch(slot, part::CONNECTION);
        }
        if state != state::REFUSED && !self.reasons.is_empty() {
            self.accept(slot);
        }
    }

    fn accept(&mut self, slot: Slot) {
        self.reasons.retain(|(refused, _)| *refused != slot);
    }

    /// The relay didn't take the slot's name.
    pub fn refuse(&mut self, slot: Slot, reason: &str) {
        self.accept(slot);
        self.reasons.push((slot, reason.to_owned()));
        self.columns.state[slot as usize] = state::REFUSED;
        self.columns.since_ms[slot as usize] = f64::NAN;
        self.touch(slot, part::CONNECTION);
    }

    /// Why the relay didn't take the slot's name; empty when it did.
    #[must_use]
    pub fn reason(&self, slot: Slot) -> &str {
        let refused = self.reasons.iter().find(|(refused, _)| *refused == slot);
        refused.map_or("", |(_, reason)| reason)
    }

    /// Metadata that came. One of another epoch or type says that the value kept so far is no value
    /// of this PV any more.
    pub fn set_metadata(&mut self, slot: Slot, metadata: &Metadata) {
        let at = slot as usize;
        let version = self.columns.metadata_version[at];
        let before = &self.metadata[at];
        if version != 0 && before == metadata {
            return;
        }
        let retyped =
            before.value_type != metadata.value_type && before.value_type != ValueType::Unknown;
        if version != 0 && (retyped || before.epoch != metadata.epoch) {
            self.clear_value(slot);
        }
        metadata.clone_into(&mut self.metadata[at]);
        self.columns.metadata_version[at] = version.wrapping_add(1).max(1);
        self.touch(slot, part::METADATA);
    }

    /// A PV that lives in the page takes this value, to be shown with so many digits.
    pub fn set_local(&mut self, slot: Slot, value: &PutValue, digits: i16, now_ms: f64) {
        let at = slot as usize;
        if self.columns.kind[at] == kind::NONE {
            self.set_state(slot, ConnectionState::Connected.number(), now_ms);
            self.columns.access[at] = ACCESS_READ | ACCESS_WRITE | ACCESS_PUTS;
            self.touch(slot, part::ACCESS);
        }
        let (value_type, element_count) = match value {
            PutValue::Number(_) => (ValueType::Float64, 1),
            PutValue::Int64(_) => (ValueType::Int64, 1),
            PutValue::UInt64(_) => (ValueType::UInt64, 1),
            PutValue::Text(_) => (ValueType::String, 1),
            PutValue::TextArray(texts) => (ValueType::String, texts.len() as u32),
            PutValue::Array(array) => (array.value_type, array.count),
        };
        self.set_metadata(
            slot,
            &Metadata {
                value_type,
                element_count,
                precision: (value_type == ValueType::Float64).then_some(digits),
                ..Metadata::default()
            },
        );
        match value {
            PutValue::Number(number) => self.set_number(slot, *number),
            PutValue::Int64(integer) => self.set_text(
                slot,
                kind::LARGE_INTEGER,
                Text::One(integer.to_string()),
                *integer as f64,
            ),
            PutValue::UInt64(integer) => self.set_text(
                slot,
                kind::LARGE_INTEGER,
                Text::One(integer.to_string()),
                *integer as f64,
            ),
            PutValue::Text(text) => {
                self.set_text(slot, kind::TEXT, Text::One(text.clone()), f64::NAN);
            }
            PutValue::TextArray(texts) => {
                let texts = Text::Many(texts.clone());
                self.set_text(slot, kind::TEXT_ARRAY, texts, f64::NAN);
            }
            PutValue::Array(_) => self.set_opaque(slot, kind::ARRAY),
        }
        let seconds = (now_ms / 1000.0).floor();
        let nanoseconds = ((now_ms - seconds * 1000.0) * 1e6) as u32;
        self.set_time(slot, seconds, nanoseconds);
        let severity = Severity::NoAlarm;
        self.set_alarm(
            slot,
            Some(Alarm {
                severity,
                status: 0,
            }),
        );
        let sequence = self.columns.sequence[at].wrapping_add(1);
        self.count(slot, sequence);
    }

    /// How to draw the PV.
    #[must_use]
    pub fn metadata(&self, slot: Slot) -> &Metadata {
        &self.metadata[slot as usize]
    }

    /// The value of a string PV, an array of strings, or a large integer.
    #[must_use]
    pub fn text(&self, slot: Slot) -> &Text {
        &self.texts[slot as usize]
    }

    /// The relay can be asked: new slots are being searched for.
    pub fn relay_found(&mut self) {
        self.state_of_new = ConnectionState::Connecting.number();
    }

    /// The relay is out of reach: ids mean nothing any more and every value is old since `heard_ms`,
    /// when something last came, NaN when nothing has. It is noticed at `now_ms`; both are milliseconds
    /// past the POSIX epoch.
    pub fn relay_lost(&mut self, now_ms: f64, heard_ms: f64) {
        self.state_of_new = state::RELAY_LOST;
        self.direct.clear();
        self.others.clear();
        for slot in 0..self.names.len() as Slot {
            self.ids[slot as usize] = PvId::NONE;
            self.next[slot as usize] = NO_SLOT;
            let local = self.names[slot as usize].starts_with(LOCAL_SCHEME);
            let at = slot as usize;
            if !local && self.columns.state[at] != state::RELAY_LOST {
                // A value that was old before is older than that.
                let was_present = self.columns.state[at] == ConnectionState::Connected.number()
                    && self.columns.heard_ms[at].is_nan();
                if was_present {
                    self.set_heard(slot, heard_ms);
                }
                self.set_state(slot, state::RELAY_LOST, now_ms);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(store: &Store, id: u32) -> Vec<Slot> {
        let known = |slot: Slot| (slot != NO_SLOT).then_some(slot);
        let after = |slot: &Slot| known(store.after(*slot));
        let mut slots: Vec<_> =
            std::iter::successors(known(store.first(PvId(id))), after).collect();
        slots.sort_unstable();
        slots
    }

    #[test]
    fn one_id_leads_to_every_slot_of_its_pv() {
        let mut store = Store::new();
        let (a, b, c) = (store.add("X"), store.add("ca://X"), store.add("Y"));
        for slot in [a, b] {
            store.bind(slot, PvId(7));
        }
        store.bind(c, PvId(u32::MAX - 1));

        assert_eq!(slots(&store, 7), [a, b]);
        store.unbind(a);
        assert_eq!(slots(&store, 7), [b]);
        store.bind(a, PvId(u32::MAX - 1));
        assert_eq!(slots(&store, u32::MAX - 1), [a, c]);
        store.remove(c);
        assert_eq!(slots(&store, u32::MAX - 1), [a]);
        assert_eq!(slots(&store, 8), []);
    }

    #[test]
    fn an_equal_value_touches_nothing() {
        let mut store = Store::new();
        let slot = store.add("X");
        store.set_number(slot, 1.0);
        store.set_time(slot, -1.0, 999_999_999);
        store.clear_dirty();

        store.set_number(slot, 1.0);
        store.set_time(slot, -1.0, 999_999_999);
        assert_eq!(store.dirty(), []);
        assert_eq!(
            (store.columns.seconds[0], store.columns.nanoseconds[0]),
            (-1.0, 999_999_999)
        );

        store.set_number(slot, -0.0);
        store.set_number(slot, 0.0);
        assert_eq!(store.columns.parts[0], part::VALUE);
        assert_eq!(store.dirty(), [slot], "listed once, however often touched");
    }

    #[test]
    fn not_a_number_is_a_value_that_can_stay_the_same() {
        let mut store = Store::new();
        let slot = store.add("X");
        store.set_number(slot, f64::NAN);
        store.clear_dirty();
        store.set_number(slot, f64::NAN);
        assert_eq!(store.dirty(), []);
    }

    #[test]
    fn a_pv_that_comes_back_with_another_type_shows_no_value_of_the_old_one() {
        let mut store = Store::new();
        let slot = store.add("X");
        let mut metadata = Metadata {
            value_type: ValueType::Float64,
            ..Default::default()
        };
        store.set_metadata(slot, &metadata);
        store.set_number(slot, 2.0);
        store.set_alarm(
            slot,
            Some(Alarm {
                severity: Severity::NoAlarm,
                status: 0,
            }),
        );
        store.count(slot, 9);

        metadata.units = "mm".into();
        store.set_metadata(slot, &metadata);
        assert_eq!(
            store.columns.kind[0],
            kind::NUMBER,
            "new units keep the value"
        );

        metadata.value_type = ValueType::Enum;
        store.set_metadata(slot, &metadata);
        assert_eq!(store.columns.kind[0], kind::NONE);
        assert_eq!(store.columns.severity[0], SEVERITY_UNKNOWN);
        assert_eq!(store.columns.sequence[0], 0);

        store.set_number(slot, 1.0);
        metadata.epoch = 1;
        store.set_metadata(slot, &metadata);
        assert_eq!(store.columns.kind[0], kind::NONE, "another epoch is enough");
    }

    #[test]
    fn losing_the_relay_marks_every_pv_and_keeps_its_value() {
        let mut store = Store::new();
        let slot = store.add("X");
        store.bind(slot, PvId(1));
        store.set_number(slot, 5.0);
        store.clear_dirty();

        store.columns.state[0] = ConnectionState::Connected.number();
        let gone = store.add("GONE");
        store.columns.heard_ms[gone as usize] = 500.0;
        store.relay_lost(1000.0, 900.0);
        assert_eq!(store.columns.state[0], state::RELAY_LOST);
        assert_eq!(store.columns.heard_ms[0], 900.0);
        assert_eq!(store.columns.heard_ms[gone as usize], 500.0);
        assert_eq!(store.columns.value[0], 5.0);
        assert_eq!(store.columns.parts[0], part::CONNECTION);
        assert_eq!(slots(&store, 1), [], "ids of the lost relay lead nowhere");
        let late = store.add("Y");
        assert_eq!(store.columns.state[late as usize], state::RELAY_LOST);
    }

    #[test]
    fn a_slot_that_is_used_again_knows_nothing_of_the_pv_before() {
        let mut store = Store::new();
        let slot = store.add("X");
        store.set_text(slot, kind::TEXT, Text::One("old".into()), 0.0);
        store.set_metadata(slot, &Metadata::default());
        store.refuse(slot, "no");
        let version = store.columns.value_version[0];
        store.remove(slot);

        assert_eq!(store.add("Y"), slot);
        assert_eq!(store.columns.kind[0], kind::NONE);
        assert_eq!(store.columns.metadata_version[0], 0);
        assert_ne!(store.columns.value_version[0], version);
        assert_eq!((store.reason(slot), store.text(slot)), ("", &Text::None));
    }
}
