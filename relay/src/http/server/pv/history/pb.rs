//! Past updates as an Archiver Appliance sends them (PB over HTTP), for the programs that read that.
//!
//! A header begins each chunk, which has the samples of one year and of one type: a number is a double, as an appliance
//! has integers of 64 bits too. A gap is told with the first sample after it; one that lasts, in a header at the end.

use pvwire_schema::types::Alarm;

use crate::queries::moment;
use crate::state::history::{PastGap, PastSample, PastValue};

/// Types of payloads.
const STRING: u64 = 0;
const DOUBLE: u64 = 6;

/// Kinds of fields on the wire.
const VARINT: u64 = 0;
const WORD: u64 = 1;
const BYTES: u64 = 2;

/// The byte that escapes others, and those that are escaped, with what follows it.
const ESCAPE: u8 = 0x1b;
const ESCAPED: [(u8, u8); 3] = [(ESCAPE, 1), (b'\n', 2), (b'\r', 3)];

const SECOND_NS: i64 = 1_000_000_000;

/// Writes the samples of one PV.
#[derive(Default)]
pub(super) struct Pb {
    name: String,
    /// Year and type of the chunk.
    chunk: Option<(i64, u64)>,
    /// The gap before the next sample, in seconds past the POSIX epoch; it may last.
    gap: Option<(i64, Option<i64>)>,
}

/// A message.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    fn number(mut self, field: u64, number: u64) -> Self {
        self.varint(field << 3 | VARINT);
        self.varint(number);
        self
    }

    fn double(mut self, field: u64, number: f64) -> Self {
        self.varint(field << 3 | WORD);
        self.0.extend(number.to_le_bytes());
        self
    }

    fn bytes(mut self, field: u64, bytes: &[u8]) -> Self {
        self.varint(field << 3 | BYTES);
        self.varint(bytes.len() as u64);
        self.0.extend(bytes);
        self
    }

    /// A name and a text, as headers and samples have them.
    fn pair(self, field: u64, name: &str, text: &str) -> Self {
        let pair = Self::default().bytes(1, name.as_bytes());
        let pair = pair.bytes(2, text.as_bytes());
        self.bytes(field, &pair.0)
    }

    fn line(self, out: &mut Vec<u8>) {
        for byte in self.0 {
            match ESCAPED.iter().find(|(escaped, _)| *escaped == byte) {
                Some((_, code)) => out.extend([ESCAPE, *code]),
                None => out.push(byte),
            }
        }
        out.push(b'\n');
    }
}

impl Pb {
    pub(super) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            ..Self::default()
        }
    }

    fn header(&mut self, year: i64, kind: u64) -> Message {
        self.chunk = Some((year, kind));
        let message = Message::default().number(1, kind);
        let message = message.bytes(2, self.name.as_bytes());
        message.number(3, year as u64)
    }

    pub(super) fn sample(&mut self, sample: &PastSample, out: &mut Vec<u8>) {
        let kind = match sample.value {
            PastValue::Text(_) => STRING,
            _ => DOUBLE,
        };
        let (year, second) = moment::second_of_year(sample.time_ns);
        if self.chunk != Some((year, kind)) {
            if self.chunk.is_some() {
                out.push(b'\n');
            }
            self.header(year, kind).line(out);
        }
        let nanos = sample.time_ns.rem_euclid(SECOND_NS);
        let message = Message::default().number(1, second as u64);
        let message = message.number(2, nanos as u64);
        let mut message = match &sample.value {
            PastValue::Number(number) => message.double(3, *number),
            PastValue::Int64(number) => message.double(3, *number as f64),
            PastValue::UInt64(number) => message.double(3, *number as f64),
            PastValue::Text(text) => message.bytes(3, text.as_bytes()),
        };
        let (severity, status) = (sample.alarm.severity.number(), sample.alarm.status);
        if severity > 0 {
            message = message.number(4, severity.into());
        }
        // A server without alarms has no status.
        if status > 0 && status != Alarm::NONE.status {
            message = message.number(5, status.into());
        }
        if let Some((from, to)) = self.gap.take() {
            let to = to.unwrap_or(from);
            message = message.pair(7, "cnxlostepsecs", &from.to_string());
            message = message.pair(7, "cnxregainedepsecs", &to.to_string());
        }
        message.line(out);
    }

    /// A gap before the next sample. Several become one.
    pub(super) fn gap(&mut self, gap: &PastGap) {
        let [from, to] =
            [Some(gap.from_ns), gap.to_ns].map(|ns| ns.map(|ns| ns.div_euclid(SECOND_NS)));
        let from = from.unwrap_or_default();
        self.gap = Some(match self.gap {
            Some((first, last)) => (first.min(from), last.zip(to).map(|(last, to)| last.max(to))),
            None => (from, to),
        });
    }

    /// After the last sample.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        if let Some((from, None)) = self.gap
            && let Some((year, kind)) = self.chunk
        {
            out.push(b'\n');
            let header = self.header(year, kind);
            header
                .pair(15, "cnxlostepsecs", &from.to_string())
                .line(out);
        }
    }
}

#[cfg(test)]
mod tests {
    use pvwire_schema::types::{Severity, Skips};

    use super::*;
    use crate::state::history::GapCause;

    fn sample(time_ns: i64, value: PastValue) -> PastSample {
        PastSample {
            time_ns,
            value,
            alarm: Alarm::NONE,
            skips: Skips::NONE,
        }
    }

    /// Lines of messages; an empty one before each header but the first.
    fn stream(chunks: &[&[&[&[u8]]]]) -> Vec<u8> {
        let mut out = Vec::new();
        for (at, lines) in chunks.iter().enumerate() {
            if at > 0 {
                out.push(b'\n');
            }
            for line in *lines {
                for byte in line.concat() {
                    match byte {
                        0x1b => out.extend([0x1b, 1]),
                        0x0a => out.extend([0x1b, 2]),
                        0x0d => out.extend([0x1b, 3]),
                        other => out.push(other),
                    }
                }
                out.push(b'\n');
            }
        }
        out
    }

    #[test]
    fn bytes_are_those_of_an_archiver_over_the_turn_of_a_year() {
        let new_year_ns = 1_798_761_600 * SECOND_NS;
        assert_eq!(moment::text(new_year_ns), "2027-01-01T00:00:00.000000000Z");
        let escaped = [0x0d, 0x0a, 0x1b, 0x0d, 0x0a, 0x1b, 0x0d, 0x0a];
        let after_gap = PastSample {
            alarm: Alarm {
                severity: Severity::Major,
                status: 13,
            },
            ..sample(new_year_ns + 13 * SECOND_NS + 10, PastValue::Number(-0.0))
        };
        let text = PastValue::Text("a\n\r\u{1b}ä".into());
        let gap = PastGap {
            cause: GapCause::Disconnected,
            from_ns: new_year_ns + 2 * SECOND_NS,
            to_ns: Some(new_year_ns + 5 * SECOND_NS),
        };
        let (mut pb, mut out) = (Pb::new("SR:A"), Vec::new());
        pb.sample(&sample(new_year_ns - 1, PastValue::Number(1.5)), &mut out);
        let number = PastValue::Number(f64::from_le_bytes(escaped));
        pb.sample(&sample(new_year_ns, number), &mut out);
        pb.gap(&gap);
        pb.sample(&after_gap, &mut out);
        pb.sample(&sample(new_year_ns + 20 * SECOND_NS, text), &mut out);
        pb.gap(&PastGap { to_ns: None, ..gap });
        pb.finish(&mut out);

        let name: &[u8] = b"\x12\x04SR:A";
        let lost: &[u8] = b"\x1b\x0a\x0dcnxlostepsecs\x12\x0a1798761602";
        let regained: &[u8] = b"\x1f\x0a\x11cnxregainedepsecs\x12\x0a1798761605";
        let expected = stream(&[
            &[
                &[b"\x08\x06", name, b"\x18\xea\x0f"],
                &[
                    b"\x08\xff\xe6\x84\x0f\x10\xff\x93\xeb\xdc\x03",
                    b"\x19\0\0\0\0\0\0\xf8\x3f",
                ],
            ],
            &[
                &[b"\x08\x06", name, b"\x18\xeb\x0f"],
                &[b"\x08\0\x10\0\x19", &escaped],
                &[
                    b"\x08\x0d\x10\x0a\x19\0\0\0\0\0\0\0\x80",
                    b"\x20\x02\x28\x0d\x3a",
                    lost,
                    b"\x3a",
                    regained,
                ],
            ],
            &[
                &[b"\x08\0", name, b"\x18\xeb\x0f"],
                &[b"\x08\x14\x10\0\x1a\x06a\n\r\x1b\xc3\xa4"],
            ],
            &[&[b"\x08\0", name, b"\x18\xeb\x0f\x7a", lost]],
        ]);
        assert_eq!(out, expected);
    }
}
