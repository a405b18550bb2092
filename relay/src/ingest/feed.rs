//! The line of one PV that frames of another relay feed, live or recorded: their metadata, updates and connection go into
//! it.
//!
//! The other relay numbers epochs and updates for itself. The line has epochs of this relay, and numbers its updates
//! from the first one that came; the difference is kept, so that a put's condition can be translated.

use std::sync::Arc;

use bytes::Bytes;
use pvwire_schema::decode::{BlobView, FrameView, NumberRow};
use pvwire_schema::types::{
    Alarm, BlobValue, Connection, ConnectionState, Detail, Expected, FrameKind, Metadata, Node,
    NodeValue, PvId, SkipCause, ValueType,
};

use super::{Event, Line, RowValue};

/// Elements of fewer bytes are copied out of a message, so that they don't keep all of it.
const SHARED_FROM_BYTES: usize = 16 << 10;

/// A PV that frames of another relay feed.
#[derive(Debug)]
pub struct Feed {
    line: Line,
    /// Its epoch at the other relay; `None` before its metadata has come.
    epoch: Option<u32>,
    /// Whether the line has begun an epoch for this feed.
    has_begun: bool,
    has_value: bool,
    /// Updates came after the last one that was shown.
    is_behind: bool,
    /// The last of them, with its time.
    newest: Option<(i64, RowValue)>,
    /// The line's number of the last one that was shown; 0 before the first.
    shown: u32,
    /// Number of the newest update at the other relay.
    sequence: u32,
    /// That number minus the line's.
    offset: u32,
    alarm: Alarm,
    detail: Option<Arc<Detail>>,
    /// As the newest metadata has it.
    description: String,
    /// As the other relay shows it.
    connection: Option<Connection>,
    /// The structure of which the next update may bring a part.
    whole: Option<Arc<BlobValue>>,
}

/// An update as a frame has it.
#[derive(Default)]
struct Update {
    /// Its number, except in a frame of the kind `Update`.
    sequence: Option<u32>,
    /// Updates that were left out before it at the other relay.
    skipped: u32,
    /// Those of them that the source squashed; the relay lost the others.
    squashed: u32,
    /// Whether the source squashed those before an update of a frame of the kind `CatchUp`.
    is_gap_squashed: bool,
    time_ns: i64,
    alarm: Option<Alarm>,
    detail: Option<Arc<Detail>>,
}

impl Feed {
    /// A feed that has received nothing yet.
    #[must_use]
    pub fn new(line: Line) -> Self {
        // It is not searched here, so it isn't "not found" after a while.
        line.event(Event::Queued);
        Self {
            line,
            epoch: None,
            has_begun: false,
            has_value: false,
            is_behind: false,
            newest: None,
            shown: 0,
            sequence: 0,
            offset: 0,
            alarm: Alarm::NONE,
            detail: None,
            description: String::new(),
            connection: None,
            whole: None,
        }
    }

    /// The other relay doesn't open the PV.
    pub fn refused(&self, reason: String) {
        self.line.missing(reason);
    }

    /// When the last message of the other relay arrived. Comes before the line is succeeded.
    pub fn heard(&self, at_ns: i64) {
        self.line.event(Event::Heard(at_ns));
    }

    /// What a put on the condition `expected` must expect at the other relay; `None` if this relay has never shown
    /// that update.
    #[must_use]
    pub fn expected_there(&self, expected: Expected) -> Option<Expected> {
        let expected = self.line.of_line(expected);
        let epoch = self.epoch.filter(|_| expected.epoch == self.line.epoch())?;
        Some(Expected {
            sequence: expected.sequence.wrapping_add(self.offset),
            epoch,
        })
    }

    /// The number at the other relay of an update that clients see here, or saw since this feed began; `None` if the
    /// other relay has not sent it.
    #[must_use]
    pub fn number_there(&self, update: Expected) -> Option<Expected> {
        let of_line = self.line.of_line(update);
        // Numbers wrap around.
        let ahead = self.shown.wrapping_sub(of_line.sequence).cast_signed();
        let is_sent = self.has_value && ahead >= 0;
        is_sent.then(|| self.expected_there(update)).flatten()
    }

    /// Frames of another time follow: nothing of the ones before is valid.
    pub fn restart(&mut self) {
        self.begin_epoch();
        self.epoch = None;
        (self.alarm, self.detail) = (Alarm::NONE, None);
    }

    /// The other relay is lost since `at_ns`. It may number updates otherwise when it is back.
    pub fn lost(&mut self, at_ns: i64) {
        (self.epoch, self.has_begun) = (None, false);
        self.connection(Connection {
            state: ConnectionState::Disconnected,
            since_ns: at_ns,
            heard_ns: at_ns,
            ..Connection::default()
        });
    }

    fn begin_epoch(&mut self) {
        self.line.withdraw();
        self.has_begun = true;
        (self.has_value, self.is_behind, self.newest) = (false, false, None);
        (self.sequence, self.offset, self.shown) = (0, 0, 0);
        self.whole = None;
    }

    fn metadata(&mut self, metadata: Metadata) {
        // A value may come before the first metadata of its epoch.
        let before = self.epoch.replace(metadata.epoch);
        let is_other = before.is_some_and(|before| before != metadata.epoch);
        if !self.has_begun || (is_other && (self.has_value || self.is_behind)) {
            self.begin_epoch();
        }
        self.description.clone_from(&metadata.description);
        self.line.event(Event::Metadata(Box::new(Metadata {
            epoch: self.line.epoch(),
            ..metadata
        })));
        if !self.description.is_empty() {
            self.described();
        }
    }

    /// The description is known, or known to be empty.
    pub fn described(&self) {
        let description = self.description.clone();
        self.line.event(Event::Description(description));
    }

    fn connection(&mut self, connection: Connection) {
        self.connection = Some(connection);
        self.line.event(Event::Mirrored(connection));
    }

    /// Nothing comes from the other relay since `heard_ns`: what it sent may be out of date.
    pub fn silent(&self, heard_ns: i64) {
        self.line.event(Event::Unresponsive { heard_ns });
    }

    /// Messages of the other relay arrive again.
    pub fn heard_again(&self) {
        if let Some(connection) = self.connection {
            self.line.event(Event::Mirrored(connection));
        }
    }

    /// Passes an update on, unless it is known already or not to be shown. Returns false if it is a part of a structure
    /// whose other parts are not known.
    fn update(&mut self, kind: FrameKind, update: Update, value: RowValue, is_shown: bool) -> bool {
        if !self.has_begun {
            self.begin_epoch();
        }
        let next = self.sequence.wrapping_add(1);
        let mut squashed = update.squashed;
        let sequence = match update.sequence {
            None => next.wrapping_add(update.skipped),
            Some(sequence) => sequence,
        };
        if update.sequence.is_some() && self.has_value {
            let ahead = sequence.wrapping_sub(next);
            let is_known = ahead > u32::MAX / 2;
            if is_known && !(is_shown && self.is_behind) {
                return true;
            }
            match kind {
                // The frames between were lost.
                _ if is_known => {}
                FrameKind::Snapshot if ahead > 0 => self.line.event(Event::LostOnBus(ahead)),
                FrameKind::CatchUp if update.is_gap_squashed => squashed = ahead,
                _ => {}
            }
        } else if update.sequence.is_some() {
            self.offset = sequence.wrapping_sub(1);
        }
        let Some(value) = self.whole_of(value) else {
            return false;
        };
        self.alarm = update.alarm.unwrap_or(self.alarm);
        if let Some(detail) = update.detail {
            self.detail = (*detail != Detail::default()).then_some(detail);
        }
        self.sequence = sequence;
        if !is_shown {
            self.is_behind = true;
            self.newest = Some((update.time_ns, value));
            return true;
        }
        self.show_as_newest(update.time_ns, value, squashed);
        true
    }

    /// Numbers came that are not shown, the last of them with this time.
    pub fn passed(&mut self, updates: u32, (time_ns, number): (i64, f64)) {
        if !self.has_begun {
            self.begin_epoch();
        }
        self.sequence = self.sequence.wrapping_add(updates);
        self.is_behind = true;
        self.newest = Some((time_ns, RowValue::Number(number)));
        self.whole = None;
    }

    /// Shows the newest update, if it isn't shown.
    pub fn show(&mut self) {
        if let Some((time_ns, value)) = self.newest.take() {
            self.show_as_newest(time_ns, value, 0);
        }
    }

    fn show_as_newest(&mut self, time_ns: i64, mut value: RowValue, mut squashed: u32) {
        let sequence = self.sequence;
        if std::mem::take(&mut self.is_behind) {
            // The line counts it as the next one: nothing was lost.
            self.offset = sequence.wrapping_sub(self.shown.wrapping_add(1));
            squashed = 0;
            if let RowValue::Structure { whole, .. } = value {
                value = RowValue::Blob(whole);
            }
        }
        self.has_value = true;
        self.newest = None;
        self.shown = sequence.wrapping_sub(self.offset);
        let number = (self.shown, squashed);
        let detail = self.detail.clone();
        (self.line).update_at(number, time_ns, value, self.alarm, detail);
    }

    /// The value with the fields of a structure that did not change.
    fn whole_of(&mut self, value: RowValue) -> Option<RowValue> {
        let RowValue::Blob(blob) = value else {
            self.whole = None;
            return Some(value);
        };
        if let BlobValue::StructurePart(part) = &*blob {
            let Some(BlobValue::Structure(whole)) = self.whole.as_deref() else {
                return None;
            };
            let whole = Arc::new(BlobValue::Structure(joined(whole, part)));
            self.whole = Some(Arc::clone(&whole));
            return Some(RowValue::Structure { whole, part: blob });
        }
        let is_structure = matches!(*blob, BlobValue::Structure(_));
        self.whole = is_structure.then(|| Arc::clone(&blob));
        Some(RowValue::Blob(blob))
    }
}

/// A structure in which the fields of `part` replace those of the same name.
fn joined(whole: &Node, part: &Node) -> Node {
    let mut joined = whole.clone();
    if let (NodeValue::Structure(fields), NodeValue::Structure(changed)) =
        (&mut joined.value, &part.value)
    {
        for new in changed {
            match fields.iter_mut().find(|field| field.name == new.name) {
                Some(field) => *field = new.clone(),
                None => fields.push(new.clone()),
            }
        }
    }
    joined
}

/// Finds the feeds of the PVs in a frame.
pub trait Feeds {
    /// The feed of a PV that takes the frame.
    fn feed(&mut self, pv: PvId) -> Option<&mut Feed>;

    /// Whether updates are shown. One that isn't only brings the feed up to date.
    fn are_shown(&self) -> bool {
        true
    }

    /// Notes a number that has nothing besides; returns whether its feed need not take it.
    fn passes(&mut self, _number: NumberRow) -> bool {
        false
    }
}

/// Passes a frame on to the feeds of its PVs: first metadata, then updates, then connections, so that a PV is connected
/// only when its value is there. Returns false if an update couldn't be used.
pub fn apply(frame: &FrameView<'_>, message: &Bytes, feeds: &mut impl Feeds) -> bool {
    for (pv, metadata) in frame.metadata() {
        if let Some(feed) = feeds.feed(pv) {
            feed.metadata(metadata);
        }
    }
    let kind = frame.kind();
    let (mut alarms, mut details) = (frame.alarms().peekable(), frame.details().peekable());
    let mut skips = frame.skips().peekable();
    let mut sequences = frame.sequences();
    let is_gap_squashed = frame.skip_cause() == SkipCause::Source;
    // What a row has besides time and value: most have nothing.
    let mut marks = |row: u32| {
        let is_plain = sequences.is_none()
            && alarms.peek().is_none_or(|alarm| alarm.row != row)
            && details.peek().is_none_or(|detail| detail.row != row)
            && skips.peek().is_none_or(|skip| skip.row != row);
        if is_plain {
            return None;
        }
        let detail = details.next_if(|detail| detail.row == row);
        let (mut skipped, mut squashed) = (0_u32, 0_u32);
        while let Some(skip) = skips.next_if(|skip| skip.row == row) {
            skipped = skipped.wrapping_add(skip.count);
            if skip.cause == SkipCause::Source {
                squashed = squashed.wrapping_add(skip.count);
            }
        }
        Some(Update {
            sequence: sequences.as_mut().and_then(Iterator::next),
            skipped,
            squashed,
            is_gap_squashed,
            time_ns: 0,
            alarm: (alarms.next_if(|alarm| alarm.row == row)).map(|alarm| alarm.alarm),
            detail: detail.map(|detail| {
                Arc::new(Detail {
                    user_tag: detail.user_tag,
                    message: detail.message.to_owned(),
                })
            }),
        })
    };
    let at = |marks: Option<Update>, time_ns: i64| Update {
        time_ns,
        ..marks.unwrap_or_default()
    };
    let (mut row, mut is_whole, is_shown) = (0, true, feeds.are_shown());
    for number in frame.numbers() {
        let marks = marks(row);
        row += 1;
        if marks.is_none() && feeds.passes(number) {
            continue;
        }
        if let Some(feed) = feeds.feed(number.id) {
            let update = at(marks, number.time_ns);
            is_whole &= feed.update(kind, update, RowValue::Number(number.value), is_shown);
        }
    }
    for blob in frame.blobs() {
        let marks = marks(row);
        row += 1;
        if let Some(feed) = feeds.feed(blob.id) {
            let update = at(marks, blob.time_ns);
            let value = RowValue::Blob(Arc::new(value_of(&blob, message)));
            is_whole &= feed.update(kind, update, value, is_shown);
        }
    }
    for (pv, connection) in frame.connections() {
        if let Some(feed) = feeds.feed(pv) {
            feed.connection(connection);
        }
    }
    is_whole
}

/// A value; large arrays share the message's memory.
fn value_of(blob: &BlobView<'_>, message: &Bytes) -> BlobValue {
    match (blob.value_type, blob.structure) {
        (_, Some(structure)) if blob.partial => BlobValue::StructurePart(structure.to_node()),
        (_, Some(structure)) => BlobValue::Structure(structure.to_node()),
        (ValueType::String, _) if blob.array => {
            BlobValue::TextArray(blob.text().map(str::to_owned).collect())
        }
        (ValueType::String, _) => {
            BlobValue::Text(blob.text().next().unwrap_or_default().to_owned())
        }
        (ValueType::Int64, _) if !blob.array => {
            BlobValue::Int64(blob.word().unwrap_or_default() as i64)
        }
        (ValueType::UInt64, _) if !blob.array => BlobValue::UInt64(blob.word().unwrap_or_default()),
        (value_type, _) => {
            let data = if blob.data.len() < SHARED_FROM_BYTES {
                Bytes::copy_from_slice(blob.data)
            } else {
                message.slice(blob.data_offset..blob.data_offset + blob.data.len())
            };
            BlobValue::array(value_type, blob.count, data)
        }
    }
}
