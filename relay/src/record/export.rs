//! The command `export`: writes a recording as MCAP, one JSON message for each update and each change of the
//! connection.

mod mcap;

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use pvwire_http::{Program, Sample, SelectionError, Snapshot, push_json, select, selection};
use pvwire_schema::decode;
use pvwire_schema::types::{Connection, ConnectionState, Metadata, PvId};
use thiserror::Error;

use self::mcap::{MAX_CHANNELS, Writer};
use crate::config::ExportOptions;
use crate::ingest::feed::{self, Feed, Feeds};
use crate::ingest::intake::Taken;
use crate::ingest::recording::{Item, Reader, RecordingError, Timed};
use crate::ingest::replay::Recorded;
use crate::ingest::{Event, Intake, Line, Row, RowValue};

/// Fields of a message, in the language of `GET /pv/NAME`.
const MESSAGE: &str = "{ value { float string text array bigint structure } time { datetime seconds nanoseconds } \
    status { severity alarmStatus message } connection { state reason } }";

const SCHEMA_NAME: &str = "pvwire.Update";

/// Describes a message, so that programs offer its fields before they have read one.
const SCHEMA: &str = r#"{"type":"object","properties":{
"value":{"type":"object","properties":{"float":{"type":"number"},"string":{"type":"string"},"text":{"type":"string"},
"array":{"type":"array","items":{"type":"number"}},"bigint":{"type":"integer"},"structure":{"type":"object"}}},
"time":{"type":"object","properties":{"datetime":{"type":"string"},"seconds":{"type":"number"},"nanoseconds":{"type":"number"}}},
"status":{"type":"object","properties":{"severity":{"type":"string"},"alarmStatus":{"type":"number"},"message":{"type":"string"}}},
"connection":{"type":"object","properties":{"state":{"type":"string"},"reason":{"type":"string"}}}}}"#;

/// Rows of a frame that are passed on together; an intake holds as many.
const TOGETHER_ROWS: usize = 1 << 15;

/// How often a long export says how far it is.
const SAY_EVERY: Duration = Duration::from_secs(2);

/// Why nothing is exported.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The recording can't be read.
    #[error("{path}: {source}")]
    Recording {
        /// The recording.
        path: String,
        /// Why.
        source: RecordingError,
    },
    /// The new file can't be written.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// A name that was not recorded.
    #[error("{0} is not in the recording; `--pv` names recorded PVs as they were recorded")]
    NotRecorded(String),
    /// More PVs than MCAP has room for.
    #[error(
        "{0} PVs are more than the {MAX_CHANNELS} that an MCAP file has room for; choose some with --pv"
    )]
    TooMany(usize),
    /// The selection of a message doesn't compile.
    #[error(transparent)]
    Selection(#[from] SelectionError),
}

/// Writes the MCAP file. Returns a line about it.
///
/// # Errors
/// When the recording can't be read, or the file exists or can't be written. There is no file then.
pub fn export(options: &ExportOptions) -> Result<String, ExportError> {
    let of_recording = |source| ExportError::Recording {
        path: options.recording.clone(),
        source,
    };
    let of_file = |source| ExportError::File {
        path: options.file.clone(),
        source,
    };
    let reader = Reader::open(Path::new(&options.recording)).map_err(of_recording)?;
    if reader.torn_bytes > 0 {
        log::warn!(
            "{}: the last {} bytes are not whole and are not exported",
            options.recording,
            reader.torn_bytes
        );
    }
    let recorded: HashSet<&String> = reader.about.names.iter().collect();
    if let Some(other) = options.pvs.iter().find(|name| !recorded.contains(name)) {
        return Err(ExportError::NotRecorded(other.clone()));
    }
    let chosen: HashSet<&String> = match options.pvs.is_empty() {
        true => recorded,
        false => options.pvs.iter().collect(),
    };
    if chosen.len() > MAX_CHANNELS {
        return Err(ExportError::TooMany(chosen.len()));
    }
    let program = selection(MESSAGE)?;
    let mut export = Export::new(&reader.about.names, |name| chosen.contains(name), program);
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        // As the recording, which may have values that few users get.
        .mode(0o640)
        .open(&options.file)
        .map_err(of_file)?;
    let written = Writer::new(BufWriter::new(file), SCHEMA_NAME, SCHEMA)
        .map_err(Stopped::Written)
        .and_then(|writer| export.run(reader, writer));
    written
        .map_err(|stopped| {
            // Half a file would be taken for a whole one.
            let _ = fs::remove_file(&options.file);
            match stopped {
                Stopped::Written(source) => of_file(source),
                Stopped::Read(source) => of_recording(source),
            }
        })
        .map(|text| format!("{}: {text}\n", options.file))
}

/// What ended an export.
enum Stopped {
    Read(RecordingError),
    Written(io::Error),
}

/// A PV as its last message has it.
struct Pv {
    name: String,
    metadata: Option<Metadata>,
    connection: Option<Connection>,
    latest: Option<Row>,
    reason: Option<String>,
    channel: Option<u16>,
    /// It has no message yet about what has changed.
    is_changed: bool,
}

/// An export that is under way.
struct Export {
    recorded: Recorded,
    pvs: Pvs,
}

/// The PVs, and what has come for them.
struct Pvs {
    intake: Arc<Intake>,
    pvs: Vec<Pv>,
    program: Program,
    text: Vec<u8>,
}

impl Export {
    fn new(names: &[String], is_chosen: impl Fn(&String) -> bool, program: Program) -> Self {
        let intake = Intake::new();
        let mut recorded = Recorded::new(names);
        for (name, number) in names.iter().zip(0..).filter(|(name, _)| is_chosen(name)) {
            let line = Line::open(&intake, PvId(number), false);
            // A name that was recorded twice has one feed, that of its last number.
            let _ = recorded.open(name, Feed::new(line));
        }
        let pvs = names.iter().map(|name| Pv {
            name: name.clone(),
            metadata: None,
            connection: None,
            latest: None,
            reason: None,
            channel: None,
            is_changed: false,
        });
        let pvs = Pvs {
            intake,
            pvs: pvs.collect(),
            program,
            text: Vec::new(),
        };
        Self { recorded, pvs }
    }

    fn run(
        &mut self,
        mut reader: Reader,
        mut to: Writer<BufWriter<File>>,
    ) -> Result<String, Stopped> {
        let (first_ns, last_ns) = reader.span_ns();
        let mut said = Instant::now();
        while let Some(items) = reader.next_items().map_err(Stopped::Read)? {
            for timed in items {
                if said.elapsed() >= SAY_EVERY {
                    said = Instant::now();
                    let part = (timed.0 - first_ns) as f64 / (last_ns - first_ns).max(1) as f64;
                    log::info!("{:.0} % exported", part * 100.0);
                }
                self.take(timed, &mut to).map_err(Stopped::Written)?;
            }
        }
        let (messages, channels) = (to.messages(), to.channels());
        let bytes = to.finish().map_err(Stopped::Written)?;
        Ok(format!(
            "{messages} messages of {channels} PVs in {bytes} bytes"
        ))
    }

    fn take(&mut self, (time_ns, item): Timed, to: &mut Writer<BufWriter<File>>) -> io::Result<()> {
        if let Item::Frame(message) = item {
            self.take_frame(time_ns, &message, to)?;
        } else {
            self.recorded.take((time_ns, item));
        }
        self.pvs.pass_on(time_ns, to)
    }

    fn take_frame(
        &mut self,
        time_ns: i64,
        message: &Bytes,
        to: &mut Writer<BufWriter<File>>,
    ) -> io::Result<()> {
        // A damaged chunk has no items.
        let Ok(frame) = decode::frame(message) else {
            return Ok(());
        };
        if let Some(reply) = frame.reply() {
            self.recorded.number(frame.reply_to(), reply);
        }
        let mut feeds = InParts {
            export: self,
            to,
            time_ns,
            rows: 0,
            result: Ok(()),
        };
        feed::apply(&frame, message, &mut feeds);
        feeds.result
    }
}

/// Feeds that pass on what has come before an intake is full.
struct InParts<'a> {
    export: &'a mut Export,
    to: &'a mut Writer<BufWriter<File>>,
    time_ns: i64,
    rows: usize,
    result: io::Result<()>,
}

impl Feeds for InParts<'_> {
    fn feed(&mut self, pv: PvId) -> Option<&mut Feed> {
        self.rows += 1;
        if self.rows >= TOGETHER_ROWS && self.result.is_ok() {
            self.rows = 0;
            self.result = self.export.pvs.pass_on(self.time_ns, self.to);
        }
        self.export.recorded.feed(pv)
    }
}

impl Pvs {
    /// Writes messages for what came at this time. A PV is connected only when its value is there, and its last value
    /// came before it was disconnected.
    fn pass_on(&mut self, time_ns: i64, to: &mut Writer<BufWriter<File>>) -> io::Result<()> {
        let intake = Arc::clone(&self.intake);
        let (mut rows, mut changed, mut lost) = (Vec::new(), Vec::new(), Vec::new());
        intake.drain(|taken| match taken {
            Taken::Row(row) => rows.push(row),
            Taken::Notice(notice) => {
                let number = notice.pv.0 as usize;
                match (notice.event, self.pvs.get_mut(number)) {
                    (Event::Mirrored(connection), _) if !is_live(&connection) => {
                        lost.push((number, connection));
                    }
                    (event, Some(pv)) => {
                        pv.learn(event);
                        changed.push(number);
                    }
                    (_, None) => {}
                }
            }
        });
        for row in rows {
            let number = row.pv.0 as usize;
            if let Some(pv) = self.pvs.get_mut(number) {
                pv.latest = Some(row);
                self.write(number, time_ns, to)?;
            }
        }
        for (number, connection) in lost {
            if let Some(pv) = self.pvs.get_mut(number) {
                pv.learn(Event::Mirrored(connection));
                changed.push(number);
            }
        }
        for number in changed {
            if self.pvs[number].is_changed {
                self.write(number, time_ns, to)?;
            }
        }
        Ok(())
    }

    fn write(
        &mut self,
        number: usize,
        time_ns: i64,
        to: &mut Writer<BufWriter<File>>,
    ) -> io::Result<()> {
        let pv = &mut self.pvs[number];
        pv.is_changed = false;
        let channel = *pv.channel.get_or_insert_with(|| {
            let (units, description) = pv.metadata.as_ref().map_or(("", ""), |metadata| {
                (&metadata.units, &metadata.description)
            });
            to.channel(&pv.name, &[("units", units), ("description", description)])
        });
        self.text.clear();
        push_json(&select(&self.program, &pv.snapshot()), &mut self.text);
        let published_ns = pv.latest.as_ref().map_or(time_ns, |row| row.time_ns);
        let times = (positive(time_ns), positive(published_ns));
        to.message(channel, times, &self.text)
    }
}

/// MCAP has no time before 1970.
fn positive(time_ns: i64) -> u64 {
    u64::try_from(time_ns).unwrap_or(0)
}

fn is_live(connection: &Connection) -> bool {
    connection.state == ConnectionState::Connected && connection.read && connection.heard_ns == 0
}

/// What messages have of a connection.
fn shown(connection: &Connection) -> (ConnectionState, i64, bool, bool) {
    let is_unresponsive = connection.heard_ns != 0;
    (
        connection.state,
        connection.since_ns,
        connection.read,
        is_unresponsive,
    )
}

impl Pv {
    /// Takes anything but an update over, and notes whether it is worth a message.
    fn learn(&mut self, event: Event) {
        match event {
            Event::Metadata(metadata) => self.metadata = Some(*metadata),
            Event::Description(description) => {
                if let Some(metadata) = &mut self.metadata {
                    metadata.description = description;
                }
            }
            Event::Withdrawn { .. } => self.latest = None,
            Event::Missing { reason, .. } => {
                self.latest = None;
                self.reason = Some(reason);
                self.is_changed = true;
            }
            Event::Mirrored(connection) => {
                if connection.state == ConnectionState::Connected {
                    self.reason = None;
                }
                let before = self.connection.replace(connection);
                self.is_changed |= before.as_ref().map(shown) != Some(shown(&connection));
            }
            _ => {}
        }
    }

    fn snapshot(&self) -> Snapshot<'_> {
        if let Some(reason) = &self.reason {
            return Snapshot::refused(&self.name, reason);
        }
        let unknown = Connection {
            state: ConnectionState::Connecting,
            since_ns: 0,
            read: false,
            write: false,
            puts: false,
            heard_ns: 0,
            write_unknown: false,
        };
        let connection = self.connection.as_ref().unwrap_or(&unknown);
        let pv = Snapshot::new(&self.name, connection, self.metadata.as_ref());
        let Some(row) = &self.latest else {
            return pv;
        };
        let sample = match &row.value {
            RowValue::Number(number) => Sample::Number(*number),
            RowValue::Blob(blob) | RowValue::Structure { whole: blob, .. } => Sample::Blob(blob),
        };
        pv.with_value(sample, row.time_ns, row.alarm, row.detail.as_deref())
    }
}
