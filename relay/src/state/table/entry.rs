//! The entry of one PV: its latest parts, each with the tick of its last change.

use std::sync::Arc;
use std::time::Instant;

use pvwire_schema::types::{
    Alarm, BlobValue, Connection, ConnectionState, Detail, Metadata, PvId, Skips, ValueType,
};

use super::filtered::Filtered;
use super::handover::Handing;
use super::large::{self, LargeRow, is_large};
use super::returning::{Return, WITHOUT_VALUE, is_of_connection};
use super::{ChangedRow, Changes};
use crate::ingest::{Row, RowValue};
use crate::limits::memory::PvCharge;

/// Of the small values of a PV whose values may have any size, one in this many is weighed.
const WEIGHED_EVERY: u32 = 64;

/// Bytes of a number.
const NUMBER_BYTES: i64 = 8;

/// The latest value of a PV.
#[derive(Clone, Debug)]
pub struct Latest {
    /// The value itself.
    pub value: RowValue,
    /// Nanoseconds past the POSIX epoch.
    pub time_ns: i64,
    /// Counts the PV's updates within its epoch.
    pub sequence: u32,
    /// Alarm severity and condition.
    pub alarm: Alarm,
    /// User tag and alarm message.
    pub detail: Option<Arc<Detail>>,
}

impl Latest {
    /// This value and a newer one, if both are numbers whose difference has a meaning.
    pub(super) fn numbers(&self, newest: &Self, metadata: Option<&Metadata>) -> Option<(f64, f64)> {
        let value_type = metadata.map(|metadata| metadata.value_type);
        match (&self.value, &newest.value) {
            (RowValue::Number(before), RowValue::Number(now))
                if !matches!(value_type, Some(ValueType::Enum | ValueType::Boolean)) =>
            {
                Some((*before, *now))
            }
            _ => None,
        }
    }

    /// Whether it is a list of numbers or texts.
    pub(super) fn is_array(&self) -> bool {
        let RowValue::Blob(blob) = &self.value else {
            return false;
        };
        matches!(**blob, BlobValue::Array(_) | BlobValue::TextArray(_))
    }

    /// Whether it differs in what a filter never withholds: alarm and alarm message. A user tag doesn't
    /// count, because some servers number their updates with it.
    pub(super) fn is_news_after(&self, before: &Self) -> bool {
        fn message(latest: &Latest) -> &str {
            let detail = latest.detail.as_deref();
            detail.map_or("", |detail| &detail.message)
        }
        self.alarm != before.alarm || message(self) != message(before)
    }
}

/// All parts of one PV, each with the tick of its last change.
#[derive(Clone, Debug, Default)]
pub struct Entry {
    /// The filtered PVs of this PV.
    pub(super) filtered_pvs: Vec<PvId>,
    /// Present in the entry of a filtered PV.
    pub(super) filtered: Option<Box<Filtered>>,
    pub(super) opening: u32,
    /// Number of the line that feeds it: its opening, or that of a successor.
    pub(super) line: u32,
    /// Epoch of the rows of its line; 0, which no row has, while `handing` shifts them.
    pub(super) epoch: u32,
    /// Present while another line takes the PV over, and afterwards.
    pub(super) handing: Option<Box<Handing>>,
    /// When the first search began; `None` while the name is queued.
    pub(super) searched_since: Option<Instant>,
    /// Access rights (read, write) as the source last sent them, which it does before `Connected`.
    pub(super) rights: (bool, bool),
    /// The source can't tell whether it may be written: a put shows it.
    pub(super) write_unknown: bool,
    /// Present while the PV was connected and hasn't sent value and metadata. Those in this entry, if any, may still
    /// be those of the connection before.
    pub(super) returning: Option<Box<Return>>,
    /// Whether the source has sent the description, which it sends apart, in this connection.
    pub(super) is_described: bool,
    /// Updates that the bus between relays has lost and that no gap in the sequence has shown yet.
    pub(super) lost_on_bus: u32,
    /// When its server was last heard from, in nanoseconds past the POSIX epoch.
    pub(super) heard_ns: i64,
    /// Whether its source has said that the server doesn't answer.
    pub(super) is_unresponsive: bool,
    /// Host and port of the server that it was last connected to, if its source knows.
    pub server: Option<Arc<str>>,
    /// Bytes of the values of its earlier epochs, and of the values of this one beyond those of a number each.
    pub(super) extra_bytes: i64,
    /// Connection and access rights.
    pub connection: Connection,
    /// How to draw it; `None` until the first connection.
    pub metadata: Option<Arc<Metadata>>,
    /// Value, time and alarm; `None` until the first update.
    pub latest: Option<Latest>,
    /// Tick of the last change of `connection`; 0 is before all ticks.
    pub connection_tick: u64,
    /// Tick of the last change of `metadata`.
    pub metadata_tick: u64,
    /// Tick of the last update.
    pub value_tick: u64,
    /// Tick of the last change of the alarm.
    pub alarm_tick: u64,
    /// Tick of the last change of the detail.
    pub detail_tick: u64,
    /// Tick of the last update that travels in a separate frame.
    pub(super) separate_tick: u64,
    /// Its server can't send the value; the metadata have the reason.
    pub(super) is_refused: bool,
    /// Connection and access rights are those that another relay shows.
    pub(super) is_mirrored: bool,
    /// It is not found because its search has taken too long; the search goes on.
    pub(super) is_search_overdue: bool,
    /// Its value is left out, because it exceeds a frame or a memory budget.
    pub(super) is_left_out: bool,
    /// Charged with the memory that its value takes.
    pub(super) charge: Option<Arc<PvCharge>>,
}

impl Entry {
    pub(super) fn set_metadata(&mut self, changes: &mut Changes, pv: PvId, metadata: Metadata) {
        if self.metadata.as_deref() != Some(&metadata) {
            self.share_metadata(changes, pv, Arc::new(metadata));
        }
    }

    /// Discards value and metadata and tells clients so, before the first value of the new epoch.
    pub(super) fn begin_epoch(&mut self, changes: &mut Changes, pv: PvId, epoch: u32) {
        self.extra_bytes = self.bytes_received() as i64;
        self.set_epoch(epoch);
        self.latest = None;
        if self.value_tick == changes.tick {
            // Metadata comes before rows: clients would take these for values of the new epoch.
            changes.rows.retain(|row| row.pv != pv);
            changes.large.retain(|row| row.pv != pv);
        }
        if let Some(charge) = &self.charge {
            // A charge of nothing can't fail.
            let _ = charge.set(0);
        }
        let nothing = Metadata {
            epoch,
            ..Metadata::default()
        };
        self.set_metadata(changes, pv, nothing);
    }

    pub(super) fn share_metadata(
        &mut self,
        changes: &mut Changes,
        pv: PvId,
        metadata: Arc<Metadata>,
    ) {
        self.metadata = Some(Arc::clone(&metadata));
        if self.metadata_tick == changes.tick {
            changes.metadata.retain(|(changed, _)| *changed != pv);
        }
        self.metadata_tick = changes.tick;
        changes.metadata.push((pv, metadata));
    }

    /// The metadata of the connection are not awaited any more. Returns the rows that waited for them.
    pub(super) fn stop_waiting(&mut self, changes: &mut Changes, pv: PvId) -> Vec<Row> {
        self.show_shape(changes, pv);
        let returning = self.returning.take();
        returning.map_or_else(Vec::new, |mut returning| returning.take_rows())
    }

    /// Shows type and element count alone, if the metadata isn't known.
    fn show_shape(&mut self, changes: &mut Changes, pv: PvId) {
        let is_known = (self.metadata.as_ref())
            .is_some_and(|metadata| metadata.value_type != ValueType::Unknown);
        let shape = (self.returning.as_mut()).and_then(|returning| returning.shape.take());
        if let Some(shape) = shape.filter(|_| !is_known) {
            let epoch = self.shown_epoch(shape.epoch);
            self.set_metadata(changes, pv, Metadata { epoch, ..*shape });
        }
    }

    /// Whether its value is that of the connection before, and the new connection has sent none.
    pub(super) fn has_old_value(&self) -> bool {
        // While it stays connected, as when a monitor is opened again, nothing is sent again.
        self.latest.is_some()
            && self.connection.state != ConnectionState::Connected
            && !(self.returning.as_ref()).is_some_and(|returning| returning.has_rows())
    }

    /// The PV remains disconnected until a value comes, and its reason says so.
    pub(super) fn await_value(&mut self, changes: &mut Changes, pv: PvId) {
        self.show_shape(changes, pv);
        let Some(returning) = &mut self.returning else {
            return;
        };
        returning.is_value_overdue = true;
        if returning.has_metadata && self.reason().is_empty() {
            self.set_reason(changes, pv, WITHOUT_VALUE.to_owned());
        }
    }

    /// The PV is connected, and the parts in this entry are current.
    pub(super) fn connect(&mut self) {
        self.returning = None;
        let (read, write) = self.rights;
        self.connection = Connection {
            state: ConnectionState::Connected,
            read,
            write,
            write_unknown: self.write_unknown,
            heard_ns: if self.is_unresponsive {
                self.heard_ns
            } else {
                0
            },
            ..self.connection
        };
    }

    /// Takes access rights from the source. `write_unknown`: it can't tell the right to write.
    pub(super) fn set_rights(&mut self, read: bool, write: bool, write_unknown: bool) {
        self.rights = (read, write);
        self.write_unknown = write_unknown;
        // A PV that isn't connected has no rights.
        let connected = self.connection.state == ConnectionState::Connected;
        self.connection = Connection {
            read: connected && read,
            write: connected && write,
            write_unknown: connected && write_unknown,
            ..self.connection
        };
    }

    /// Whether its PV is open.
    pub(super) fn is_open(&self) -> bool {
        self.opening != 0
    }

    /// Whether a part has changed in this tick.
    #[must_use]
    pub fn changed_in(&self, tick: u64) -> bool {
        let ticks = [
            self.connection_tick,
            self.metadata_tick,
            self.value_tick,
            self.alarm_tick,
            self.detail_tick,
        ];
        ticks.contains(&tick)
    }

    /// Why the PV isn't found although its server is connected.
    #[must_use]
    pub fn missing(&self) -> Option<&str> {
        let missing = self.reason_in(ConnectionState::NotFound);
        missing.filter(|_| !self.is_search_overdue)
    }

    /// Why the PV isn't connected although a server has answered its search; the search goes on.
    #[must_use]
    pub fn unconnected(&self) -> Option<&str> {
        let searched = self.reason_in(ConnectionState::Connecting);
        let overdue = self.reason_in(ConnectionState::NotFound);
        searched.or_else(|| overdue.filter(|_| self.is_search_overdue))
    }

    /// Why the PV is connected without a value, if its server can't send it.
    #[must_use]
    pub fn refusal(&self) -> Option<&str> {
        // Another relay doesn't say whether its reason is a refusal, and sends none with a value.
        let is_refused = |why: &str| {
            self.is_refused || (self.is_mirrored && self.latest.is_none() && !is_of_connection(why))
        };
        self.awaited().filter(|why| is_refused(why))
    }

    /// Why the PV is connected without a value, as far as that is known: it may still come.
    #[must_use]
    pub fn awaited(&self) -> Option<&str> {
        self.reason_in(ConnectionState::Connected)
    }

    /// What the metadata say about why the PV has no value; empty without a reason.
    pub fn reason(&self) -> &str {
        let metadata = self.metadata.as_deref();
        metadata.map_or("", |metadata| &metadata.missing_field)
    }

    fn reason_in(&self, state: ConnectionState) -> Option<&str> {
        let reason = &self.metadata.as_deref()?.missing_field;
        (self.connection.state == state && !reason.is_empty()).then_some(reason)
    }

    /// Identifies its type and element count; see [`crate::ingest::Row::epoch`].
    #[must_use]
    pub fn epoch(&self) -> u32 {
        self.shift().map_or(self.epoch, |shift| shift.epoch)
    }

    /// The latest value, if it is so large that it travels in a separate frame.
    #[must_use]
    pub fn large(&self) -> Option<&Latest> {
        self.latest
            .as_ref()
            .filter(|latest| is_large(&latest.value))
    }

    /// Replaces the value of an update that can't be kept: one larger than a frame, or beyond the memory
    /// budget of every client that has the PV. Also returns the bytes of the value, unless it is large.
    #[inline(never)]
    fn weigh(
        &mut self,
        mut latest: Latest,
        mut value: RowValue,
    ) -> (Latest, RowValue, Option<usize>) {
        let mut small_bytes = large::small_bytes(&value);
        let was_left_out = self.is_left_out;
        // Small values are weighed now and then, because that goes through the whole structure.
        let is_due = self.latest.is_none() || latest.sequence.is_multiple_of(WEIGHED_EVERY);
        if small_bytes.is_none() || was_left_out || is_due {
            let surplus = large::surplus(&latest.value, self.charge.as_deref());
            self.is_left_out = surplus.is_some();
            if let Some(why) = surplus {
                latest = large::left_out(&latest, why);
            }
            if self.is_left_out || was_left_out {
                // The changed fields are useless to clients that don't have the others.
                value = latest.value.clone();
                small_bytes = large::small_bytes(&value);
            }
        }
        (latest, value, small_bytes)
    }

    /// Stores an update and adds it to the changes.
    pub(super) fn record(
        &mut self,
        changes: &mut Changes,
        pv: PvId,
        mut latest: Latest,
        mut value: RowValue,
        skips: Skips,
    ) {
        let mut is_large = false;
        if self.is_left_out || !matches!(value, RowValue::Number(_)) {
            let small_bytes;
            (latest, value, small_bytes) = self.weigh(latest, value);
            // A frame is bounded, also for many small values that aren't numbers.
            is_large = small_bytes.is_none_or(|bytes| !changes.together.takes_bytes(bytes));
            let bytes = small_bytes.unwrap_or_else(|| large::bytes_of(&latest.value));
            self.extra_bytes += bytes as i64 - NUMBER_BYTES;
        }
        let mut has_value_now = false;
        let before = self.latest.as_ref();
        // In a frame, numbers come before other values: a number would get before a value that it follows.
        let is_overtaking = matches!(value, RowValue::Number(_))
            && self.value_tick == changes.tick
            && before.is_some_and(|before| !matches!(before.value, RowValue::Number(_)));
        let alarm = before
            .is_none_or(|before| before.alarm != latest.alarm)
            .then_some(latest.alarm);
        let detail = (before.and_then(|before| before.detail.as_ref()) != latest.detail.as_ref())
            .then(|| latest.detail.clone().unwrap_or_default());
        if alarm.is_some() {
            self.alarm_tick = changes.tick;
            // In this branch, because a PV's first value always brings its alarm.
            if before.is_none() {
                changes.first_values.push(pv);
                has_value_now = true;
            }
        }
        if detail.is_some() {
            self.detail_tick = changes.tick;
        }
        self.value_tick = changes.tick;
        if self.separate_tick == changes.tick || is_large || is_overtaking {
            self.separate_tick = changes.tick;
            changes.large.push(LargeRow {
                pv,
                epoch: self.epoch(),
                latest: latest.clone(),
                skips,
            });
        } else {
            changes.rows.push(ChangedRow {
                pv,
                time_ns: latest.time_ns,
                value,
                alarm,
                detail,
                skips,
            });
        }
        self.latest = Some(latest);
        if has_value_now {
            self.end_refusal(changes, pv);
        }
    }

    /// The server sends values again: the reason why it couldn't is over.
    #[cold]
    fn end_refusal(&mut self, changes: &mut Changes, pv: PvId) {
        if std::mem::take(&mut self.is_refused)
            && let Some(metadata) = self.metadata.as_deref()
        {
            let metadata = Metadata {
                missing_field: String::new(),
                epoch: self.epoch(),
                ..metadata.clone()
            };
            self.set_metadata(changes, pv, metadata);
        }
    }

    /// Bytes of the values received since the PV was opened: eight for a number, the contents of arrays, texts and
    /// structures.
    #[must_use]
    pub fn bytes_received(&self) -> u64 {
        // Numbers, whose path is the shortest, are counted by their sequence alone.
        let updates = self.latest.as_ref().map_or(0, |latest| latest.sequence);
        let bytes = i64::from(updates) * NUMBER_BYTES + self.extra_bytes;
        u64::try_from(bytes).unwrap_or(0)
    }

    /// Whether there is something to show: connected, with value and type.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.connection.state == ConnectionState::Connected
            && self.latest.is_some()
            && (self.metadata.as_ref())
                .is_some_and(|metadata| metadata.value_type != ValueType::Unknown)
    }

    /// Whether its source, which sends the description separately, has sent it or has reported that
    /// there is no description.
    #[must_use]
    pub fn is_described(&self) -> bool {
        self.is_described
    }
}
