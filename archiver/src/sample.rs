//! Reads one sample into columns.

use crate::columns::{Columns, FieldValue, Gap, GapCause, Lists, Values};
use crate::fields::{Content, Damaged, Fields, zigzag};
use crate::header::{PayloadType, name_and_text, text};

/// Severities of an old Channel Archiver: the PV was disconnected, or archiving was off; the sample has no value.
const DISCONNECTED: i32 = 3904;
const ARCHIVE_OFF: i32 = 3872;

/// Its severities of repeated samples, whose status is a count.
const REPEATS: [i32; 2] = [3848, 3856];

/// Severity "invalid".
const INVALID: u8 = 3;

/// The parts of a sample beside its value.
#[derive(Default)]
struct Parts {
    second: Option<u32>,
    nano: Option<u32>,
    has_value: bool,
    severity: i32,
    status: i32,
    user_tag: Option<u32>,
    is_change: bool,
    connection: ConnectionTexts,
}

/// What a sample's field values say about the connection before it, in seconds past the POSIX epoch.
#[derive(Default)]
struct ConnectionTexts {
    lost: Option<i64>,
    regained: Option<i64>,
    is_startup: bool,
    is_within_bin: bool,
}

/// Reads a sample. `year_ns`: start of its year. If it is damaged, the columns are as before.
pub(crate) fn read(
    line: &[u8],
    payload: PayloadType,
    year_ns: i64,
    columns: &mut Columns,
) -> Result<(), Damaged> {
    let before = (columns.len(), columns.field_values.len());
    let read = try_read(line, payload, year_ns, columns);
    if read.is_err() {
        let (rows, field_values) = before;
        columns.values.truncate(rows);
        for dropped in columns.field_values.drain(field_values..) {
            columns.text_bytes -= dropped.name.len() + dropped.text.len();
        }
    }
    read
}

fn try_read(
    line: &[u8],
    payload: PayloadType,
    year_ns: i64,
    columns: &mut Columns,
) -> Result<(), Damaged> {
    let row = columns.len();
    let first_field_value = columns.field_values.len();
    let mut parts = Parts::default();
    let mut fields = Fields::new(line);
    while let Some((number, content)) = fields.next()? {
        match number {
            1 => parts.second = content.number().or(parts.second),
            2 => parts.nano = content.number().or(parts.nano),
            3 => add_value(payload, content, columns, &mut parts)?,
            4 => parts.severity = content.number().map_or(parts.severity, |n| n as i32),
            5 => parts.status = content.number().map_or(parts.status, |n| n as i32),
            7 => {
                if let Content::Bytes(pair) = content {
                    let (name, text) = name_and_text(pair)?;
                    if !parts.connection.take(&name, &text) {
                        columns.text_bytes += name.len() + text.len();
                        columns.field_values.push(FieldValue {
                            row: row as u32,
                            is_change: false,
                            name,
                            text,
                        });
                    }
                }
            }
            8 => parts.is_change = content.number().map_or(parts.is_change, |n| n != 0),
            9 => parts.user_tag = content.number().or(parts.user_tag),
            _ => {}
        }
    }
    end_value(&mut columns.values, parts.has_value)?;
    let (Some(second), Some(nano)) = (parts.second, parts.nano) else {
        return Err(Damaged);
    };
    let within_year = i64::from(second) * 1_000_000_000 + i64::from(nano);
    let time_ns = year_ns.checked_add(within_year).ok_or(Damaged)?;
    for field_value in &mut columns.field_values[first_field_value..] {
        field_value.is_change = parts.is_change;
    }
    columns.time_ns.push(time_ns);
    let (severity, status) = alarm(parts.severity, parts.status);
    columns.severities.push(severity);
    columns.statuses.push(status);
    columns.gaps.extend(parts.gap(row as u32, time_ns));
    // Zero is the default, which other servers send for "none".
    let user_tag = parts.user_tag.filter(|tag| *tag != 0);
    (columns.user_tags).extend(user_tag.map(|tag| (row as u32, tag)));
    Ok(())
}

/// Adds a value, or elements of an array. Of several values of a scalar the last one counts.
fn add_value(
    payload: PayloadType,
    content: Content<'_>,
    columns: &mut Columns,
    parts: &mut Parts,
) -> Result<(), Damaged> {
    let row = columns.time_ns.len();
    match &mut columns.values {
        Values::Numbers(values) => {
            let value = match (payload, content) {
                (PayloadType::ScalarFloat, Content::Fixed32(bytes)) => {
                    f64::from(f32::from_le_bytes(bytes))
                }
                (PayloadType::ScalarDouble, Content::Fixed64(bytes)) => f64::from_le_bytes(bytes),
                _ => return Ok(()),
            };
            values.truncate(row);
            values.push(value);
        }
        Values::Integers(values) => {
            let value = match (payload, content) {
                (PayloadType::ScalarInt, Content::Fixed32(bytes)) => i32::from_le_bytes(bytes),
                (PayloadType::ScalarByte, Content::Bytes(&[byte, ..])) => byte.into(),
                (PayloadType::ScalarShort | PayloadType::ScalarEnum, Content::Varint(number)) => {
                    zigzag(number)
                }
                _ => return Ok(()),
            };
            values.truncate(row);
            values.push(value);
        }
        Values::Texts(lists) => {
            let Content::Bytes(bytes) = content else {
                return Ok(());
            };
            lists.elements.truncate(end_before(&lists.ends));
            add_text(lists, bytes);
        }
        Values::Bytes(lists) => {
            let Content::Bytes(bytes) = content else {
                return Ok(());
            };
            lists.elements.truncate(end_before(&lists.ends));
            lists.elements.extend_from_slice(bytes);
        }
        Values::NumberArrays(lists) => return add_numbers(payload, content, &mut lists.elements),
        Values::IntegerArrays(lists) => return add_integers(payload, content, &mut lists.elements),
        Values::TextArrays { texts, .. } => {
            if let Content::Bytes(bytes) = content {
                add_text(texts, bytes);
                texts.end();
            }
        }
    }
    parts.has_value = true;
    Ok(())
}

fn end_before(ends: &[u32]) -> usize {
    ends.last().copied().unwrap_or_default() as usize
}

fn add_text(lists: &mut Lists<u8>, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(_) => lists.elements.extend_from_slice(bytes),
        Err(_) => lists.elements.extend_from_slice(text(bytes).as_bytes()),
    }
}

/// Adds elements, packed or one by one: readers must accept both.
fn add_numbers(
    payload: PayloadType,
    content: Content<'_>,
    elements: &mut Vec<f64>,
) -> Result<(), Damaged> {
    let float = |bytes| f64::from(f32::from_le_bytes(bytes));
    match (payload, content) {
        (PayloadType::WaveformDouble, Content::Fixed64(bytes)) => {
            elements.push(f64::from_le_bytes(bytes));
        }
        (PayloadType::WaveformFloat, Content::Fixed32(bytes)) => elements.push(float(bytes)),
        (PayloadType::WaveformDouble, Content::Bytes(packed)) => {
            let (chunks, rest) = packed.as_chunks();
            elements.extend(chunks.iter().copied().map(f64::from_le_bytes));
            return whole(rest);
        }
        (PayloadType::WaveformFloat, Content::Bytes(packed)) => {
            let (chunks, rest) = packed.as_chunks();
            elements.extend(chunks.iter().copied().map(float));
            return whole(rest);
        }
        _ => {}
    }
    Ok(())
}

/// The same for integers.
fn add_integers(
    payload: PayloadType,
    content: Content<'_>,
    elements: &mut Vec<i32>,
) -> Result<(), Damaged> {
    match (payload, content) {
        (PayloadType::WaveformInt, Content::Fixed32(bytes)) => {
            elements.push(i32::from_le_bytes(bytes));
        }
        (PayloadType::WaveformInt, Content::Bytes(packed)) => {
            let (chunks, rest) = packed.as_chunks();
            elements.extend(chunks.iter().copied().map(i32::from_le_bytes));
            return whole(rest);
        }
        (_, Content::Varint(number)) => elements.push(zigzag(number)),
        (_, Content::Bytes(packed)) => {
            let mut numbers = Fields::new(packed);
            while let Some(number) = numbers.next_varint()? {
                elements.push(zigzag(number));
            }
        }
        _ => {}
    }
    Ok(())
}

/// A packed list has whole elements.
fn whole(rest: &[u8]) -> Result<(), Damaged> {
    if rest.is_empty() {
        Ok(())
    } else {
        Err(Damaged)
    }
}

/// Ends the row of the values. Arrays may be empty; scalars may not be absent.
fn end_value(values: &mut Values, has_value: bool) -> Result<(), Damaged> {
    match values {
        Values::NumberArrays(lists) => lists.end(),
        Values::IntegerArrays(lists) => lists.end(),
        Values::TextArrays { texts, ends } => ends.push(texts.ends.len() as u32),
        _ if !has_value => return Err(Damaged),
        Values::Texts(lists) | Values::Bytes(lists) => lists.end(),
        Values::Numbers(_) | Values::Integers(_) => {}
    }
    Ok(())
}

/// Severity and status as live updates have them.
fn alarm(severity: i32, status: i32) -> (u8, u16) {
    if REPEATS.contains(&severity) {
        return (0, 0);
    }
    let status = u16::try_from(status).unwrap_or(u16::MAX);
    match u8::try_from(severity) {
        Ok(severity @ 0..=INVALID) => (severity, status),
        _ => (INVALID, status),
    }
}

impl ConnectionTexts {
    /// Takes a field value that describes the connection; returns whether it does.
    fn take(&mut self, name: &str, text: &str) -> bool {
        match name {
            "cnxlostepsecs" => self.lost = text.trim().parse().ok(),
            "cnxregainedepsecs" => self.regained = text.trim().parse().ok(),
            "startup" => self.is_startup = text.eq_ignore_ascii_case("true"),
            "connectionChange" => self.is_within_bin = text.eq_ignore_ascii_case("true"),
            _ => return false,
        }
        true
    }
}

impl Parts {
    /// The gap that a row with this time shows.
    fn gap(&self, row: u32, time_ns: i64) -> Option<Gap> {
        let connection = &self.connection;
        let old_cause = match self.severity {
            DISCONNECTED => Some(GapCause::Disconnected),
            ARCHIVE_OFF => Some(GapCause::ArchiveOff),
            _ => None,
        };
        let (cause, from_ns, to_ns) = if let Some(cause) = old_cause {
            (cause, Some(time_ns), None)
        } else if connection.lost.is_some() || connection.regained.is_some() {
            let cause = if connection.is_startup {
                GapCause::ArchiverStarted
            } else {
                GapCause::Disconnected
            };
            // Zero: the archiver had not yet seen the PV.
            let nanos = |seconds: i64| seconds.checked_mul(1_000_000_000);
            let known = connection.lost.filter(|seconds| *seconds > 0);
            let regained = connection.regained.filter(|seconds| *seconds > 0);
            (cause, known.and_then(nanos), regained.and_then(nanos))
        } else if connection.is_startup {
            (GapCause::ArchiverStarted, None, None)
        } else if connection.is_within_bin {
            (GapCause::WithinBin, None, None)
        } else {
            return None;
        };
        Some(Gap {
            row,
            cause,
            from_ns,
            to_ns,
        })
    }
}
