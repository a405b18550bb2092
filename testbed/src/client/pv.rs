//! What a client holds of its PVs, and how a frame changes it.

use std::collections::{HashMap, HashSet};
use std::fmt;

use pvwire_schema::decode;
use pvwire_schema::types::{
    Alarm, Connection, ConnectionState, FrameKind, Metadata, Node, NodeValue, PvId, SkipCause,
    ValueType,
};

/// A value as a client keeps it.
#[derive(Clone, Debug, PartialEq)]
pub enum Kept {
    Number(f64),
    Text(String),
    Texts(Vec<String>),
    /// Type, and the elements' little-endian bytes; also of a scalar 64-bit integer.
    Array(ValueType, Vec<u8>),
    Structure(Node),
    /// The changed fields of a structure; never kept.
    Part(Node),
}

impl Kept {
    pub fn text(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// One update as it was received.
#[derive(Clone, Debug, PartialEq)]
pub struct RowSeen {
    /// Kind of its frame.
    pub kind: FrameKind,
    pub value: Kept,
    pub time_ns: i64,
    pub alarm: Alarm,
    pub sequence: u32,
}

/// What a client knows of one PV.
#[derive(Clone, Debug, Default)]
pub struct Pv {
    pub connection: Option<Connection>,
    pub metadata: Option<Metadata>,
    /// Present value with its time and alarm.
    pub now: Option<RowSeen>,
    /// Alarm of the last row, which the next one inherits.
    alarm: Option<Alarm>,
    pub sequence: u32,
    /// Number of values that the client knows to have missed.
    pub skipped: u64,
    /// The same number by cause.
    pub skips: HashMap<SkipCause, u64>,
    /// Every row, those of earlier epochs too.
    pub rows: Vec<RowSeen>,
    /// Every connection state it has had.
    pub states: Vec<Connection>,
}

impl Pv {
    pub fn state(&self) -> ConnectionState {
        self.connection
            .expect("the snapshot tells of the channel")
            .state
    }

    pub fn is(&self, value: &Kept) -> bool {
        self.now.as_ref().is_some_and(|now| now.value == *value)
    }

    pub fn is_number(&self, number: f64) -> bool {
        self.is(&Kept::Number(number))
    }

    /// The numbers that came, in order.
    pub fn numbers(&self) -> Vec<f64> {
        let rows = self.rows.iter();
        rows.filter_map(|row| match row.value {
            Kept::Number(number) => Some(number),
            _ => None,
        })
        .collect()
    }

    pub(super) fn apply_metadata(&mut self, metadata: Metadata) {
        let before = self.metadata.as_ref().map(|metadata| metadata.epoch);
        if before.is_some_and(|before| before != metadata.epoch) {
            self.now = None;
            self.alarm = None;
            self.sequence = 0;
        }
        self.metadata = Some(metadata);
    }

    pub(super) fn apply_connection(&mut self, connection: Connection) {
        if connection.state == ConnectionState::Disconnected {
            assert!(
                !connection.read && !connection.write,
                "a disconnected PV has access rights"
            );
        }
        self.connection = Some(connection);
        self.states.push(connection);
    }

    /// The whole value: a part is completed by the known fields.
    fn whole(&self, value: Kept, kind: FrameKind) -> Kept {
        let Kept::Part(part) = value else {
            return value;
        };
        assert_eq!(kind, FrameKind::Update, "only there a part makes sense");
        let Some(Kept::Structure(mut whole)) = self.now.as_ref().map(|now| now.value.clone())
        else {
            panic!("a part of what?")
        };
        let (NodeValue::Structure(fields), NodeValue::Structure(changed)) =
            (&mut whole.value, part.value)
        else {
            panic!("structures have fields")
        };
        for field in changed {
            let place = fields.iter_mut().find(|known| known.name == field.name);
            *place.expect("a part has fields of the whole") = field;
        }
        Kept::Structure(whole)
    }

    fn skip(&mut self, cause: SkipCause, count: u32) {
        self.skipped += u64::from(count);
        *self.skips.entry(cause).or_default() += u64::from(count);
    }

    pub fn skipped_by(&self, cause: SkipCause) -> u64 {
        self.skips.get(&cause).copied().unwrap_or_default()
    }

    pub(super) fn apply_row(&mut self, mut row: Row, kind: FrameKind) {
        row.value = self.whole(row.value, kind);
        let alarm = row
            .alarm
            .or(self.alarm)
            .expect("a PV's first row has its alarm");
        self.alarm = Some(alarm);
        let sequence = match row.sequence {
            None => {
                let mut sequence = self.sequence.wrapping_add(1);
                for (cause, count) in row.skips {
                    self.skip(cause, count);
                    sequence = sequence.wrapping_add(count);
                }
                sequence
            }
            Some(sequence) => {
                let ahead = sequence.wrapping_sub(self.sequence);
                assert!(ahead < u32::MAX / 2, "the sequence went back");
                // What was before the first snapshot was never missed.
                if kind == FrameKind::CatchUp || self.now.is_some() {
                    // A snapshot or a catch-up may repeat the row that the client has.
                    self.skip(row.skip_cause, ahead.saturating_sub(1));
                }
                sequence
            }
        };
        let now = RowSeen {
            kind,
            value: row.value,
            time_ns: row.time_ns,
            alarm,
            sequence,
        };
        match &self.now {
            Some(held) if sequence == self.sequence => assert_eq!(
                (&now.value, now.time_ns, now.alarm),
                (&held.value, held.time_ns, held.alarm),
                "one update, told twice and differently"
            ),
            _ => self.rows.push(now.clone()),
        }
        self.sequence = sequence;
        self.now = Some(now);
    }
}

/// One row of a frame.
pub(super) struct Row {
    pub(super) id: PvId,
    value: Kept,
    time_ns: i64,
    alarm: Option<Alarm>,
    skips: Vec<(SkipCause, u32)>,
    /// Cause of the values that are missing by the sequence.
    skip_cause: SkipCause,
    sequence: Option<u32>,
}

/// The PV of a row, which the frame must be allowed to contain.
pub(super) fn place<'a>(
    known: &'a mut HashMap<PvId, Pv>,
    named: Option<&HashSet<PvId>>,
    id: PvId,
) -> &'a mut Pv {
    assert!(
        named.is_none_or(|named| named.contains(&id)),
        "{id:?} is not what the answer names"
    );
    known
        .get_mut(&id)
        .unwrap_or_else(|| panic!("{id:?} is not held"))
}

/// The rows of a frame, each with its alarm, skips and sequence.
pub(super) fn rows_of(frame: &decode::FrameView<'_>) -> Vec<Row> {
    let skip_cause = frame.skip_cause();
    let is_catch_up = frame.kind() == FrameKind::CatchUp;
    assert_eq!(is_catch_up, skip_cause != SkipCause::Unknown);
    let number = |row: decode::NumberRow| Row {
        id: row.id,
        value: Kept::Number(row.value),
        time_ns: row.time_ns,
        alarm: None,
        skips: Vec::new(),
        skip_cause,
        sequence: None,
    };
    let blob = |blob: decode::BlobView<'_>| {
        let mut texts: Vec<String> = blob.text().map(str::to_owned).collect();
        let value = match (blob.value_type, blob.array) {
            (ValueType::String, true) => Kept::Texts(texts),
            (ValueType::String, false) => {
                assert_eq!(texts.len(), 1);
                Kept::Text(texts.remove(0))
            }
            (ValueType::Structure, _) => {
                let node = blob.structure.unwrap().to_node();
                if blob.partial {
                    Kept::Part(node)
                } else {
                    Kept::Structure(node)
                }
            }
            (value_type, _) => {
                assert_eq!(blob.data_offset % 8, 0, "elements can be viewed in place");
                Kept::Array(value_type, blob.data.to_vec())
            }
        };
        Row {
            id: blob.id,
            value,
            time_ns: blob.time_ns,
            alarm: None,
            skips: Vec::new(),
            skip_cause,
            sequence: None,
        }
    };
    let mut rows: Vec<Row> = frame.numbers().map(number).collect();
    rows.extend(frame.blobs().map(blob));
    for alarm in frame.alarms() {
        rows[alarm.row as usize].alarm = Some(alarm.alarm);
    }
    for skip in frame.skips() {
        assert_ne!(skip.count, 0);
        rows[skip.row as usize].skips.push((skip.cause, skip.count));
    }
    for (row, sequence) in rows.iter_mut().zip(frame.sequences().into_iter().flatten()) {
        row.sequence = Some(sequence);
    }
    rows
}

/// A frame that moved the client's tick, as it came.
#[derive(Clone, PartialEq, Eq)]
pub struct Message {
    pub kind: FrameKind,
    pub tick: u64,
    pub rows: usize,
    /// It contains one large value, which other frames leave out.
    pub is_large: bool,
    pub bytes: Vec<u8>,
}

/// Shows only the number of its bytes, so that failures stay readable.
impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            kind,
            tick,
            rows,
            is_large,
            bytes,
        } = self;
        let large = if *is_large { " large" } else { "" };
        write!(
            f,
            "{kind:?}{large} of tick {tick}, {rows} rows in {} bytes",
            bytes.len()
        )
    }
}

impl Message {
    /// Whether it came because the client was behind.
    pub fn is_catch_up(&self) -> bool {
        self.kind == FrameKind::CatchUp && !self.is_large
    }
}
