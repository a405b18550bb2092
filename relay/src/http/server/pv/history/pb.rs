//! Past updates as an Archiver Appliance sends them (PB over HTTP), for the programs that read that.
//!
//! A header begins each chunk, which has the samples of one year and of one type: a number is a double, as an appliance
//! has integers of 64 bits too. A gap is told with the first sample after it; one that lasts, in a header at the end.

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
        if status > 0 {
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
    use pvwire_archiver::{Decoder, Limits, Rows};
    use pvwire_schema::types::{Alarm, Severity, Skips};

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

    #[test]
    fn reader_of_an_archivers_answers_gets_all_samples_over_the_turn_of_a_year() {
        let new_year_ns = 1_798_761_600 * SECOND_NS;
        assert_eq!(moment::text(new_year_ns), "2027-01-01T00:00:00.000000000Z");
        let numbers = [
            (new_year_ns - 1, 1.5),
            (new_year_ns, f64::from_bits(0x0a0d_1b0a_0d1b_0a0d)),
            (new_year_ns + 13 * SECOND_NS + 10, -0.0),
        ];
        let mut samples: Vec<_> = numbers
            .iter()
            .map(|(ns, number)| sample(*ns, PastValue::Number(*number)))
            .collect();
        samples[2].alarm = Alarm {
            severity: Severity::Major,
            status: 13,
        };
        let text = PastValue::Text("a\n\r\u{1b}ä".into());
        samples.push(sample(new_year_ns + 20 * SECOND_NS, text.clone()));
        let gap = PastGap {
            cause: GapCause::Disconnected,
            from_ns: new_year_ns + 2 * SECOND_NS,
            to_ns: Some(new_year_ns + 5 * SECOND_NS),
        };
        let (mut pb, mut out) = (Pb::new("SR:A"), Vec::new());
        for (at, sample) in samples.iter().enumerate() {
            if at == 2 {
                pb.gap(&gap);
            }
            pb.sample(sample, &mut out);
        }
        pb.gap(&PastGap { to_ns: None, ..gap });
        pb.finish(&mut out);

        let mut decoder = Decoder::new(Limits::default());
        let mut rows = Rows::new((0, i64::MAX), false);
        let mut rest = &out[..];
        while !rest.is_empty() {
            rest = &rest[decoder.push(rest)..];
            while let Some(piece) = decoder.take() {
                assert_eq!(piece.pv, "SR:A");
                rows.add(&piece);
            }
        }
        assert_eq!(decoder.finish().damaged_lines, 0);
        while let Some(piece) = decoder.take() {
            rows.add(&piece);
        }
        rows.finish();
        let times: Vec<_> = samples.iter().map(|sample| sample.time_ns).collect();
        assert_eq!(rows.time_ns, times);
        for (number, (_, expected)) in rows.numbers.iter().zip(&numbers) {
            assert_eq!(number.to_bits(), expected.to_bits());
        }
        assert_eq!(rows.texts, [(3, "a\n\r\u{1b}ä".to_owned())]);
        assert_eq!(
            (&rows.severities[..], rows.statuses[2]),
            (&[0, 0, 2, 0][..], 13)
        );
        let gaps = rows.gaps.iter().map(|gap| (gap.from_ns, gap.to_ns));
        // It lasts until the value that came after it.
        let expected = (gap.from_ns, Some(samples[2].time_ns));
        assert_eq!(gaps.collect::<Vec<_>>(), [expected]);
        let last = out.split(|byte| *byte == b'\n').nth_back(1).unwrap();
        assert!(last.windows(13).any(|word| word == b"cnxlostepsecs"));
    }
}
