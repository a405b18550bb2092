//! The current state of each PV.
//!
//! Each PV that the application requests has a *slot*. The relay's id of a PV leads to its first
//! slot, and each slot leads to the next one of the same PV: `X` and `ca://X` are two slots of one
//! id.

use pvwire_schema::types::{ConnectionState, Detail, Metadata, PvId, SkipCause};

mod connection;
mod ids;
mod plain;
mod shown;
mod value;

pub use self::plain::Seconds;
pub use self::shown::Shown;

/// Index of a PV's state.
pub type Slot = u32;

/// Parts of a PV's state. A plan has a mask of the parts that it reads; an update that touches none
/// of them does not notify its listeners.
pub mod part {
    /// The value changed.
    pub const VALUE: u32 = 1;
    /// The time stamp changed.
    pub const TIME: u32 = 1 << 1;
    /// Alarm severity or status changed.
    pub const ALARM: u32 = 1 << 2;
    /// Units, precision, limits, labels or other metadata changed.
    pub const METADATA: u32 = 1 << 3;
    /// The connection state, its start time, or whether the server answers changed.
    pub const CONNECTION: u32 = 1 << 4;
    /// Access rights changed.
    pub const ACCESS: u32 = 1 << 5;
    /// More updates were skipped.
    pub const SKIPPED: u32 = 1 << 6;
}

/// Kinds of values.
pub mod kind {
    /// No value yet.
    pub const NONE: u8 = 0;
    /// One number, in `value`.
    pub const NUMBER: u8 = 1;
    /// One string.
    pub const TEXT: u8 = 2;
    /// An array of numbers; its bytes stay in the message.
    pub const ARRAY: u8 = 3;
    /// An array of strings.
    pub const TEXT_ARRAY: u8 = 4;
    /// One integer that a double can't hold: `value` has the nearest double, the text has
    /// all digits.
    pub const LARGE_INTEGER: u8 = 5;
    /// A value of a type that this program doesn't know.
    pub const UNKNOWN: u8 = 6;
    /// A structure; its fields stay in the message.
    pub const STRUCTURE: u8 = 7;
}

/// Connection states that only a client knows; the others have the wire's numbers.
pub mod state {
    /// The relay can't be reached.
    pub const RELAY_LOST: u8 = 4;
    /// The relay refused the name.
    pub const REFUSED: u8 = 5;
}

/// Severity before the first value.
pub const SEVERITY_UNKNOWN: u8 = 255;

/// Access: may be read.
pub const ACCESS_READ: u8 = 1;

/// Access: may be written.
pub const ACCESS_WRITE: u8 = 2;

/// Access: the relay permits puts.
pub const ACCESS_PUTS: u8 = 4;

/// Access: only a put shows whether the PV may be written.
pub const ACCESS_UNKNOWN: u8 = 8;

/// Access: a put of this client was refused since the access rights were last received.
pub const ACCESS_REFUSED: u8 = 16;

/// Access: a put of this client was accepted since the access rights were last received.
pub const ACCESS_TAKEN: u8 = 32;

/// PVs that the relay simulates: they have no IOC that could know a user.
const SIMULATED: [&str; 2] = ["sim://", "ssim://"];

/// Ids below this lead to their slot through a table, larger ids through a search. Relays number
/// PVs from zero. A full table takes 4 MB; a relay with unusual ids must not cost more.
const DIRECT_IDS: u32 = 1 << 20;

/// Prefix of the names of PVs that are local to the page.
pub(crate) const LOCAL_SCHEME: &str = "loc://";

/// Number of causes for skipped values, including the unknown cause.
pub const CAUSES: usize = SkipCause::ALL.len();

/// No fixed number of digits.
pub const NO_DIGITS: u8 = 255;

/// Means that there is no slot.
pub const NO_SLOT: Slot = u32::MAX;

/// Value of a PV that is not a single number.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Text {
    /// No such value.
    #[default]
    None,
    /// A string, or the digits of a large integer.
    One(String),
    /// An array of strings.
    Many(Vec<String>),
}

/// The part of a slot's state that updates change and that most selections read: one line of a
/// processor's cache.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct PvState {
    /// The number; valid only if `kind` says that the value is a number.
    pub value: f64,
    /// Time stamp: whole seconds past the POSIX epoch.
    pub seconds: f64,
    /// Number of received updates.
    pub received: f64,
    /// When the PV's server was last heard from, if the PV is disconnected or its server doesn't
    /// answer; otherwise NaN. If the connection to the relay is lost: when the last message
    /// arrived.
    pub heard_ms: f64,
    /// Time stamp: 0 to 999,999,999.
    pub nanoseconds: u32,
    /// Number of the last update in the PV's stream.
    pub sequence: u32,
    /// Parts that changed since the last flush, of those in `interest`.
    pub parts: u32,
    /// Parts whose changes matter to the host; all until the host says which.
    pub interest: u32,
    /// The next slot of the same PV.
    next: Slot,
    /// Number of the frame that last brought a value.
    filled_by: u32,
    /// Alarm condition.
    pub alarm_status: u16,
    /// See [`kind`].
    pub kind: u8,
    /// Digits after the point of a number's text; [`NO_DIGITS`] if the metadata don't say how many, or
    /// if the text isn't digits.
    pub digits: u8,
    /// 0 to 3, or [`SEVERITY_UNKNOWN`].
    pub severity: u8,
    /// The wire's `ConnectionState`, or one of [`state`].
    pub state: u8,
    /// A combination of [`ACCESS_READ`] and the constants after it.
    pub access: u8,
}

/// A slot in which everything is unknown.
const UNKNOWN: PvState = PvState {
    value: 0.0,
    seconds: 0.0,
    received: 0.0,
    heard_ms: f64::NAN,
    nanoseconds: 0,
    sequence: 0,
    parts: 0,
    interest: u32::MAX,
    next: NO_SLOT,
    filled_by: 0,
    alarm_status: 0,
    kind: kind::NONE,
    digits: NO_DIGITS,
    severity: SEVERITY_UNKNOWN,
    state: 0,
    access: 0,
};

/// All slots of one client.
#[derive(Debug)]
pub struct Store {
    /// What changes often.
    pub pvs: Vec<PvState>,
    /// When the connection state began: milliseconds past the POSIX epoch, NaN if unknown.
    pub since_ms: Vec<f64>,
    /// Increases with each change of the metadata; 0 if there are no metadata.
    pub metadata_version: Vec<u32>,
    /// Values skipped so far: for each slot one count per cause, in the order of the causes'
    /// numbers.
    pub skips: Vec<f64>,
    names: Vec<String>,
    ids: Vec<PvId>,
    texts: Vec<Text>,
    details: Vec<Option<Box<Detail>>>,
    metadata: Vec<Metadata>,
    reasons: Vec<(Slot, String)>,
    free: Vec<Slot>,
    direct: Vec<Slot>,
    /// Sorted by id.
    others: Vec<(PvId, Slot)>,
    frame: u32,
    /// Slots with changed parts, in the first `dirty_len` elements; the length is that of all
    /// slots.
    dirty: Vec<Slot>,
    dirty_len: usize,
    state_of_new: u8,
    /// The client has logged in as a user. IOCs may grant the user other rights than the relay.
    pub is_user: bool,
    updates_total: u64,
    skipped_total: u64,
}

impl Default for Store {
    fn default() -> Self {
        Self::new()
    }
}

impl Store {
    /// A store without slots.
    // Not inlined, so that the initialization of fifty numbers is compiled only once.
    #[inline(never)]
    #[must_use]
    pub fn new() -> Self {
        Self {
            pvs: Vec::new(),
            since_ms: Vec::new(),
            metadata_version: Vec::new(),
            skips: Vec::new(),
            names: Vec::new(),
            ids: Vec::new(),
            texts: Vec::new(),
            details: Vec::new(),
            metadata: Vec::new(),
            reasons: Vec::new(),
            free: Vec::new(),
            direct: Vec::new(),
            others: Vec::new(),
            frame: 0,
            dirty: Vec::new(),
            dirty_len: 0,
            state_of_new: ConnectionState::Connecting.number(),
            is_user: false,
            updates_total: 0,
            skipped_total: 0,
        }
    }

    /// Adds a slot for `name`, in which everything is unknown.
    pub fn add(&mut self, name: &str) -> Slot {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.pvs.push(UNKNOWN);
            self.since_ms.push(f64::NAN);
            self.metadata_version.push(0);
            self.skips.extend([0.0; CAUSES]);
            self.names.push(String::new());
            self.ids.push(PvId::NONE);
            self.texts.push(Text::None);
            self.details.push(None);
            self.metadata.push(Metadata::default());
            self.dirty.push(NO_SLOT);
            self.names.len() as Slot - 1
        });
        name.clone_into(&mut self.names[slot as usize]);
        self.forget(slot);
        slot
    }

    /// Releases a slot. Its id must be unbound.
    pub fn remove(&mut self, slot: Slot) {
        self.unbind(slot);
        self.forget(slot);
        self.names[slot as usize] = String::new();
        self.free.push(slot);
    }

    fn forget(&mut self, slot: Slot) {
        let at = slot as usize;
        let (parts, next) = (self.pvs[at].parts, self.pvs[at].next);
        self.pvs[at] = PvState {
            parts,
            next,
            state: self.state_of_new,
            ..UNKNOWN
        };
        self.since_ms[at] = f64::NAN;
        self.metadata_version[at] = 0;
        self.skips[at * CAUSES..][..CAUSES].fill(0.0);
        self.texts[at] = Text::None;
        self.details[at] = None;
        self.metadata[at] = Metadata::default();
        self.accept(slot);
    }

    /// Number of slots, including released ones.
    #[must_use]
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether no slot was ever added.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The name that the application requested.
    #[must_use]
    pub fn name(&self, slot: Slot) -> &str {
        &self.names[slot as usize]
    }

    /// Records that parts of a slot changed.
    #[inline]
    pub fn touch(&mut self, slot: Slot, parts: u32) {
        let pv = &mut self.pvs[slot as usize];
        let parts = parts & pv.interest;
        if pv.parts == 0 && parts != 0 {
            self.dirty[self.dirty_len] = slot;
            self.dirty_len += 1;
        }
        pv.parts |= parts;
    }

    /// Says which parts of a slot matter to the host: only their changes are recorded from now on.
    pub fn set_interest(&mut self, slot: Slot, parts: u32) {
        if let Some(pv) = self.pvs.get_mut(slot as usize) {
            pv.interest = parts;
        }
    }

    /// Slots with changed parts.
    #[must_use]
    pub fn dirty(&self) -> &[Slot] {
        &self.dirty[..self.dirty_len]
    }

    /// Starts a new flush.
    pub fn clear_dirty(&mut self) {
        let dirty = self.dirty.get(..self.dirty_len).unwrap_or_default();
        for slot in dirty {
            if let Some(pv) = self.pvs.get_mut(*slot as usize) {
                pv.parts = 0;
            }
        }
        self.dirty_len = 0;
    }

    /// Starts a frame, to distinguish later what it filled.
    pub fn begin_frame(&mut self) {
        self.frame = self.frame.wrapping_add(1).max(1);
    }

    /// Whether this frame has brought the slot a value.
    #[must_use]
    pub fn filled(&self, slot: Slot) -> bool {
        self.pvs[slot as usize].filled_by == self.frame
    }

    /// Records that this frame has brought the slot a value.
    #[inline]
    pub fn mark_filled(&mut self, slot: Slot) {
        self.pvs[slot as usize].filled_by = self.frame;
    }

    /// Counts a row of any PV.
    #[inline]
    pub fn count_total(&mut self, skipped: u32) {
        self.updates_total += 1;
        self.skipped_total += u64::from(skipped);
    }

    /// Records updates that turn out to be skipped, after those that came later.
    pub fn skip_late(&mut self, slot: Slot, cause: SkipCause, count: u32) {
        self.skip(slot, cause, count);
        self.skipped_total += u64::from(count);
    }

    /// Number of updates received for all PVs.
    #[must_use]
    pub fn updates_total(&self) -> u64 {
        self.updates_total
    }

    /// Number of values skipped for all PVs.
    #[must_use]
    pub fn skipped_total(&self) -> u64 {
        self.skipped_total
    }
}

#[cfg(test)]
mod tests {
    use pvwire_schema::types::{Alarm, ConnectionState, Metadata, PvId, Severity, ValueType};

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
        assert_eq!(slots(&store, 8), [0_u32; 0]);
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
        assert_eq!(store.dirty(), [0_u32; 0]);
        assert_eq!(
            (store.pvs[0].seconds, store.pvs[0].nanoseconds),
            (-1.0, 999_999_999)
        );

        store.set_number(slot, -0.0);
        store.set_number(slot, 0.0);
        assert_eq!(store.pvs[0].parts, part::VALUE);
        assert_eq!(store.dirty(), [slot], "listed once, however often touched");
    }

    #[test]
    fn not_a_number_is_a_value_that_can_stay_the_same() {
        let mut store = Store::new();
        let slot = store.add("X");
        store.set_number(slot, f64::NAN);
        store.clear_dirty();
        store.set_number(slot, f64::NAN);
        assert_eq!(store.dirty(), [0_u32; 0]);
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
        assert_eq!(store.pvs[0].kind, kind::NUMBER, "new units keep the value");

        metadata.value_type = ValueType::Enum;
        store.set_metadata(slot, &metadata);
        assert_eq!(store.pvs[0].kind, kind::NONE);
        assert_eq!(store.pvs[0].severity, SEVERITY_UNKNOWN);
        assert_eq!(store.pvs[0].sequence, 0);

        store.set_number(slot, 1.0);
        metadata.epoch = 1;
        store.set_metadata(slot, &metadata);
        assert_eq!(store.pvs[0].kind, kind::NONE, "another epoch is enough");
    }

    #[test]
    fn losing_the_relay_marks_every_pv_and_keeps_its_value() {
        let mut store = Store::new();
        let slot = store.add("X");
        store.bind(slot, PvId(1));
        store.set_number(slot, 5.0);
        store.clear_dirty();

        store.pvs[0].state = ConnectionState::Connected.number();
        let gone = store.add("GONE");
        store.pvs[gone as usize].heard_ms = 500.0;
        store.relay_lost(1000.0, 900.0);
        assert_eq!(store.pvs[0].state, state::RELAY_LOST);
        assert_eq!(store.pvs[0].heard_ms, 900.0);
        assert_eq!(store.pvs[gone as usize].heard_ms, 500.0);
        assert_eq!(store.pvs[0].value, 5.0);
        assert_eq!(store.pvs[0].parts, part::CONNECTION);
        assert_eq!(
            slots(&store, 1),
            [0_u32; 0],
            "ids of the lost relay lead nowhere"
        );
        let late = store.add("Y");
        assert_eq!(store.pvs[late as usize].state, state::RELAY_LOST);
    }

    #[test]
    fn a_slot_that_is_used_again_knows_nothing_of_the_pv_before() {
        let mut store = Store::new();
        let slot = store.add("X");
        store.set_text(slot, kind::TEXT, Text::One("old".into()), 0.0);
        store.set_metadata(slot, &Metadata::default());
        store.refuse(slot, "no");
        store.remove(slot);

        assert_eq!(store.add("Y"), slot);
        assert_eq!(store.pvs[0].kind, kind::NONE);
        assert_eq!(store.metadata_version[0], 0);
        assert_eq!((store.reason(slot), store.text(slot)), ("", &Text::None));
    }
}
