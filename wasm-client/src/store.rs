//! What is known of each PV now, laid out by column so that JavaScript can read it in place.
//!
//! A PV that the application asked for has a *slot*. The relay's id of a PV leads to its first slot
//! and each slot to the next one of the same PV: `X` and `ca://X` are two slots of one id.

use pvwire_schema::types::{ConnectionState, Detail, Metadata, PvId, SkipCause};

pub use pvwire_graphql::part;

mod connection;
mod ids;
mod plain;
#[cfg(test)]
mod tests;
mod value;

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
}
