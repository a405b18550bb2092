//! What value has a generator at a moment, and how is it to be drawn?

use std::f64::consts::TAU;
use std::sync::Arc;
use std::time::Duration;

use pvwire_schema::types::{Alarm, BlobValue, Limits, Metadata, Severity, ValueType};

use super::name::{Arguments, Function, Parameter};
use crate::ingest::RowValue;

/// Most elements of an array: 80 MB of doubles.
pub(super) const MAX_ELEMENTS: u32 = 10_000_000;

/// Most elements that one PV makes in a second. All generators share a thread, and more than about
/// this many sines take all of its time.
pub(super) const MAX_ELEMENTS_PER_S: f64 = 50e6;

/// Elements that an update counts for beside its own: what it costs however small it is.
const ELEMENTS_PER_UPDATE: f64 = 64.0;

/// Large enough for whatever is measured, small enough for sums and products of a few.
pub(super) const HUGE: f64 = 1e15;

/// Numbers of alarm conditions, as in `alarm.h`.
const HIHI: u16 = 3;
const HIGH: u16 = 4;
const LOLO: u16 = 5;
const LOW: u16 = 6;

/// When a value is asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    /// Nanoseconds past the POSIX epoch.
    pub(super) time_ns: i64,
    /// Number of the update since the PV was opened, from 0.
    pub(super) update: u64,
}

impl Moment {
    /// How much of its present period has gone by, from 0 to 1.
    pub(super) fn phase(self, period_s: f64) -> f64 {
        let period_ns = ((period_s * 1e9) as i64).max(1);
        self.time_ns.rem_euclid(period_ns) as f64 / period_ns as f64
    }

    /// One of `count` in turn.
    pub(super) fn turn(self, count: usize) -> usize {
        (self.update % count as u64) as usize
    }
}

/// Values that depend on the moment alone.
pub(super) struct Generator {
    pub(super) metadata: Metadata,
    pub(super) interval: Duration,
    value: Box<dyn Fn(Moment) -> RowValue + Send>,
}

impl Generator {
    /// The value at a moment, with the alarm that the limits ask for if it is a number.
    pub(super) fn sample(&self, at: Moment) -> (RowValue, Alarm) {
        let value = (self.value)(at);
        let (severity, status) = match value {
            RowValue::Number(number) => self.alarm(number),
            RowValue::Blob(_) | RowValue::Structure { .. } => (Severity::NoAlarm, 0),
        };
        (value, Alarm { severity, status })
    }

    /// Elements that it makes in a second, as they count against the relay's limits. A slow one
    /// counts as if it made one value a second, because its last value stays in memory.
    pub(super) fn load(&self) -> u64 {
        let elements = f64::from(self.metadata.element_count) + ELEMENTS_PER_UPDATE;
        (elements / self.interval.as_secs_f64().min(1.0)) as u64
    }

    fn alarm(&self, number: f64) -> (Severity, u16) {
        // Nothing is beyond a limit that isn't there, which is NaN.
        let Metadata { alarm, warning, .. } = &self.metadata;
        match number {
            _ if number > alarm.high => (Severity::Major, HIHI),
            _ if number < alarm.low => (Severity::Major, LOLO),
            _ if number > warning.high => (Severity::Minor, HIGH),
            _ if number < warning.low => (Severity::Minor, LOW),
            _ => (Severity::NoAlarm, 0),
        }
    }

    /// A double; `at` says which.
    pub(super) fn number(
        interval: Duration,
        metadata: Metadata,
        at: impl Fn(Moment) -> f64 + Send + 'static,
    ) -> Self {
        Self {
            metadata: Metadata {
                value_type: ValueType::Float64,
                element_count: 1,
                ..metadata
            },
            interval,
            value: Box::new(move |moment| RowValue::Number(at(moment))),
        }
    }

    /// An array of doubles; `at` makes what gives each element.
    pub(super) fn doubles<E: Fn(usize) -> f64>(
        interval: Duration,
        size: u32,
        metadata: Metadata,
        at: impl Fn(Moment) -> E + Send + 'static,
    ) -> Result<Self, String> {
        let bytes = move |moment| {
            let element = at(moment);
            let mut bytes = Vec::with_capacity(size as usize * 8);
            for index in 0..size as usize {
                bytes.extend_from_slice(&element(index).to_le_bytes());
            }
            bytes
        };
        Self::array(interval, ValueType::Float64, size, metadata, bytes)
    }

    fn array(
        interval: Duration,
        value_type: ValueType,
        size: u32,
        metadata: Metadata,
        bytes: impl Fn(Moment) -> Vec<u8> + Send + 'static,
    ) -> Result<Self, String> {
        let per_s = f64::from(size) / interval.as_secs_f64();
        if per_s > MAX_ELEMENTS_PER_S {
            return Err(format!(
                "{size} elements every {interval:?} are {per_s:.0} a second, and at most \
                 {MAX_ELEMENTS_PER_S} may be"
            ));
        }
        Ok(Self {
            metadata: Metadata {
                value_type,
                element_count: size,
                ..metadata
            },
            interval,
            value: Box::new(move |moment| {
                let array = BlobValue::array(value_type, size, bytes(moment));
                RowValue::Blob(Arc::new(array))
            }),
        })
    }
}

const PERIOD_RANGE_S: (f64, f64) = (0.001, 1e6);
const RATE_RANGE_HZ: (f64, f64) = (0.001, 1000.0);

const fn period(default_s: f64) -> Parameter {
    Parameter::number("period_s", default_s, PERIOD_RANGE_S.0, PERIOD_RANGE_S.1)
}

const fn rate(default_hz: f64) -> Parameter {
    Parameter::number("rate_hz", default_hz, RATE_RANGE_HZ.0, RATE_RANGE_HZ.1)
}

const fn any(name: &'static str, default: f64) -> Parameter {
    Parameter::number(name, default, -HUGE, HUGE)
}

/// The generators of `sim://`; `docs/reference/sim.md` says what they are for.
pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "sine",
        parameters: &[
            period(10.0),
            any("amplitude", 1.0),
            any("offset", 0.0),
            rate(10.0),
        ],
        make: sine,
    },
    Function {
        name: "ramp",
        parameters: &[
            period(10.0),
            any("low", 0.0),
            any("high", 100.0),
            rate(10.0),
        ],
        make: ramp,
    },
    Function {
        name: "noise",
        parameters: &[
            any("mean", 0.0),
            Parameter::number("deviation", 1.0, 0.0, HUGE),
            rate(10.0),
            Parameter::whole("seed", 0, 0, u32::MAX),
        ],
        make: noise,
    },
    Function {
        name: "counter",
        parameters: &[rate(1.0), any("start", 0.0), any("step", 1.0)],
        make: counter,
    },
    Function {
        name: "waveform",
        parameters: &[
            Parameter::whole("size", 1000, 1, MAX_ELEMENTS),
            period(10.0),
            any("amplitude", 1.0),
            Parameter::number("waves", 2.0, 0.0, 1e6),
            rate(1.0),
        ],
        make: waveform,
    },
    Function {
        name: "image",
        parameters: &[
            Parameter::whole("width", 64, 1, MAX_ELEMENTS),
            Parameter::whole("height", 48, 1, MAX_ELEMENTS),
            rate(1.0),
        ],
        make: image,
    },
    Function {
        name: "camera",
        parameters: &[
            Parameter::whole("width", 320, 1, MAX_ELEMENTS),
            Parameter::whole("height", 240, 1, MAX_ELEMENTS),
            rate(10.0),
        ],
        make: camera,
    },
    Function {
        name: "enum",
        parameters: &[
            Parameter::words("labels", "Off|Starting|On|Fault"),
            rate(1.0),
        ],
        make: choice,
    },
    Function {
        name: "string",
        parameters: &[Parameter::words("texts", "red|green|blue"), rate(1.0)],
        make: string,
    },
];

fn interval(arguments: &Arguments) -> Duration {
    Duration::from_secs_f64(1.0 / arguments.number("rate_hz"))
}

fn around(middle: f64, distance: f64) -> Limits {
    Limits {
        low: middle - distance,
        high: middle + distance,
    }
}

fn described(description: &str, units: &str, precision: i16, display: Limits) -> Metadata {
    Metadata {
        description: description.into(),
        units: units.into(),
        precision: Some(precision),
        display,
        ..Metadata::default()
    }
}

fn sine(arguments: &Arguments) -> Result<Generator, String> {
    let period_s = arguments.number("period_s");
    let (amplitude, offset) = (arguments.number("amplitude"), arguments.number("offset"));
    let reach = amplitude.abs();
    let metadata = Metadata {
        warning: around(offset, 0.7 * reach),
        alarm: around(offset, 0.9 * reach),
        ..described(
            "Sine that runs through its alarm limits",
            "V",
            3,
            around(offset, reach),
        )
    };
    let value = move |at: Moment| offset + amplitude * (TAU * at.phase(period_s)).sin();
    Ok(Generator::number(interval(arguments), metadata, value))
}

fn ramp(arguments: &Arguments) -> Result<Generator, String> {
    let period_s = arguments.number("period_s");
    let (low, high) = (arguments.number("low"), arguments.number("high"));
    if low >= high {
        return Err(format!("low is {low}, which is not below high, {high}"));
    }
    let metadata = described(
        "Ramp from low to high, again and again",
        "mm",
        2,
        Limits { low, high },
    );
    let value = move |at: Moment| low + (high - low) * at.phase(period_s);
    Ok(Generator::number(interval(arguments), metadata, value))
}

fn noise(arguments: &Arguments) -> Result<Generator, String> {
    let (mean, deviation) = (arguments.number("mean"), arguments.number("deviation"));
    let seed = arguments.whole("seed").into();
    let metadata = Metadata {
        warning: around(mean, 2.0 * deviation),
        alarm: around(mean, 3.0 * deviation),
        ..described("Normal noise", "V", 3, around(mean, 4.0 * deviation))
    };
    let value = move |at: Moment| mean + deviation * normal(seed, at.time_ns as u64);
    Ok(Generator::number(interval(arguments), metadata, value))
}

/// A number of the standard normal distribution that depends on these two alone.
fn normal(seed: u64, number: u64) -> f64 {
    // From two even ones, by Box and Muller; the first is never 0, which has no logarithm.
    let first = scramble(scramble(seed).wrapping_add(number));
    let even = |bits: u64| ((bits >> 11) + 1) as f64 / (1_u64 << 53) as f64;
    (-2.0 * even(first).ln()).sqrt() * (TAU * even(scramble(first))).cos()
}

/// Neighbours come out far from each other: one step of the SplitMix64 generator.
fn scramble(number: u64) -> u64 {
    let mut bits = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

fn counter(arguments: &Arguments) -> Result<Generator, String> {
    let (start, step) = (arguments.number("start"), arguments.number("step"));
    let metadata = described("Count of its own updates", "", 0, Limits::NONE);
    let value = move |at: Moment| start + step * at.update as f64;
    Ok(Generator::number(interval(arguments), metadata, value))
}

fn waveform(arguments: &Arguments) -> Result<Generator, String> {
    let (size, period_s) = (arguments.whole("size"), arguments.number("period_s"));
    let (amplitude, waves) = (arguments.number("amplitude"), arguments.number("waves"));
    let metadata = described(
        "Sine over the elements that moves with time",
        "V",
        3,
        around(0.0, amplitude.abs()),
    );
    let per_element = waves / f64::from(size);
    Generator::doubles(interval(arguments), size, metadata, move |at| {
        let phase = at.phase(period_s);
        move |index| amplitude * (TAU * (phase + per_element * index as f64)).sin()
    })
}

fn image(arguments: &Arguments) -> Result<Generator, String> {
    let (width, height) = (arguments.whole("width"), arguments.whole("height"));
    let size = pixels_of(width, height)?;
    let display = Limits {
        low: 0.0,
        high: 255.0,
    };
    let description = format!("Stripes that move over {width} columns and {height} rows");
    let metadata = described(&description, "counts", 0, display);
    let pixels = move |at: Moment| {
        let mut pixels = Vec::with_capacity(size as usize);
        for row in 0..u64::from(height) {
            let first = row.wrapping_add(at.update);
            let columns = 0..u64::from(width);
            // The low byte alone: the stripes repeat after 256.
            pixels.extend(columns.map(|column| first.wrapping_add(column) as u8));
        }
        pixels
    };
    Generator::array(
        interval(arguments),
        ValueType::UInt8,
        size,
        metadata,
        pixels,
    )
}

fn pixels_of(width: u32, height: u32) -> Result<u32, String> {
    (width.checked_mul(height))
        .filter(|size| *size <= MAX_ELEMENTS)
        .ok_or_else(|| {
            format!("{width} × {height} are more than {MAX_ELEMENTS} elements, the most")
        })
}

/// What a screen in a beam shows: a spot that wanders and breathes a little, on noise.
fn camera(arguments: &Arguments) -> Result<Generator, String> {
    let (width, height) = (arguments.whole("width"), arguments.whole("height"));
    let size = pixels_of(width, height)?;
    let display = Limits {
        low: 0.0,
        high: 255.0,
    };
    let description = format!("Beam spot on {width} columns and {height} rows");
    let metadata = described(&description, "counts", 0, display);
    let pixels = move |at: Moment| {
        let wave = |period_s: f64| (TAU * at.phase(period_s)).sin();
        let profile = |count: u32, middle: f64, width: f64| -> Vec<f64> {
            let count = f64::from(count);
            let distance = |at: f64| (at / count - middle) / width;
            (0..count as u32)
                .map(|at| (-0.5 * distance(f64::from(at)).powi(2)).exp())
                .collect()
        };
        let columns = profile(width, 0.5 + 0.06 * wave(11.0), 0.085 + 0.006 * wave(3.7));
        let rows = profile(height, 0.48 + 0.05 * wave(7.3), 0.065);
        let peak = 205.0 + 12.0 * wave(1.9);
        let mut pixels = Vec::with_capacity(size as usize);
        let mut noise = scramble(at.time_ns as u64);
        for row in rows {
            let row = peak * row;
            for column in &columns {
                noise = noise.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                pixels.push((row * column) as u8 + 8 + (noise >> 60) as u8);
            }
        }
        pixels
    };
    Generator::array(
        interval(arguments),
        ValueType::UInt8,
        size,
        metadata,
        pixels,
    )
}

fn choice(arguments: &Arguments) -> Result<Generator, String> {
    let choices = arguments.words("labels");
    let count = choices.len();
    Ok(Generator {
        metadata: Metadata {
            value_type: ValueType::Enum,
            element_count: 1,
            choices,
            description: "Each label in turn".into(),
            ..Metadata::default()
        },
        interval: interval(arguments),
        value: Box::new(move |at| RowValue::Number(at.turn(count) as f64)),
    })
}

fn string(arguments: &Arguments) -> Result<Generator, String> {
    let texts = arguments.words("texts").into_iter();
    let texts: Vec<_> = texts.map(|text| Arc::new(BlobValue::Text(text))).collect();
    Ok(Generator {
        metadata: Metadata {
            value_type: ValueType::String,
            element_count: 1,
            description: "Each text in turn".into(),
            ..Metadata::default()
        },
        interval: interval(arguments),
        value: Box::new(move |at| RowValue::Blob(Arc::clone(&texts[at.turn(texts.len())]))),
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::ingest::sim::name::Takes;
    use crate::ingest::sim::{coniql, name};

    pub(in crate::ingest::sim) fn after(time_s: f64, update: u64) -> Moment {
        let time_ns = (time_s * 1e9) as i64;
        Moment { time_ns, update }
    }

    pub(in crate::ingest::sim) fn number(value: &RowValue) -> f64 {
        match value {
            RowValue::Number(number) => *number,
            RowValue::Blob(_) | RowValue::Structure { .. } => panic!("{value:?} is no number"),
        }
    }

    pub(in crate::ingest::sim) fn doubles(value: &RowValue) -> Vec<f64> {
        match value {
            RowValue::Blob(blob) => match &**blob {
                BlobValue::Array(array) => array.numbers(),
                _ => panic!("{value:?} is no array"),
            },
            RowValue::Number(_) | RowValue::Structure { .. } => panic!("{value:?} is no array"),
        }
    }

    fn made(name: &str) -> Generator {
        name::read("sim", FUNCTIONS, name).unwrap()
    }

    fn refused(name: &str) -> String {
        name::read("sim", FUNCTIONS, name).map(|_| ()).unwrap_err()
    }

    fn at(name: &str, time_s: f64, update: u64) -> RowValue {
        made(name).sample(after(time_s, update)).0
    }

    fn assert_close(value: f64, expected: f64) {
        assert!((value - expected).abs() < 1e-6, "{value} is not {expected}");
    }

    #[test]
    fn every_generator_can_be_made_as_its_reference_says() {
        // Tables hide the bar from Markdown.
        let reference = include_str!("../../../../docs/reference/sim.md").replace("\\|", "|");
        for (scheme, functions) in [("sim", FUNCTIONS), ("ssim", coniql::FUNCTIONS)] {
            for function in functions {
                let name = function.to_string();
                let generator = name::read(scheme, functions, &name).unwrap();
                let default = name::read(scheme, functions, function.name).unwrap();
                let metadata = &generator.metadata;
                assert_eq!(*metadata, default.metadata, "{name}");
                assert!(!metadata.description.is_empty(), "{name}");
                assert!(
                    reference.contains(&format!("`{scheme}://{name}`")),
                    "{name}"
                );
                for parameter in function.parameters {
                    let row = format!("| `{}` |", parameter.name);
                    assert!(reference.contains(&row), "{row}");
                }
            }
        }
    }

    #[test]
    fn sine_goes_up_and_down_with_time_and_runs_through_its_severities() {
        let sine = made("sine(8,amplitude=2,offset=10)");
        let at_s = |time_s| {
            let (value, alarm) = sine.sample(after(time_s, 0));
            (number(&value), alarm.severity, alarm.status)
        };
        let calm = Severity::NoAlarm;
        for (time_s, value, severity, status) in [
            (0.0, 10.0, calm, 0),
            (1.0, 11.414_213_56, Severity::Minor, HIGH),
            (2.0, 12.0, Severity::Major, HIHI),
            (4.0, 10.0, calm, 0),
            (5.0, 8.585_786_44, Severity::Minor, LOW),
            (1_700_000_000.0 + 6.0, 8.0, Severity::Major, LOLO),
        ] {
            let seen = at_s(time_s);
            assert_close(seen.0, value);
            assert_eq!((seen.1, seen.2), (severity, status), "at {time_s} s");
        }
        let metadata = &sine.metadata;
        assert_eq!(metadata.display, around(10.0, 2.0));
        assert_eq!(
            (metadata.units.as_str(), metadata.precision),
            ("V", Some(3))
        );
        assert_eq!(sine.interval, Duration::from_millis(100));
    }

    #[test]
    fn ramp_rises_and_falls_back() {
        for (time_s, value) in [(0.0, -5.0), (1.0, -2.5), (3.0, 2.5), (4.0, -5.0)] {
            assert_close(number(&at("ramp(4,-5,5)", time_s, 0)), value);
        }
        assert!(refused("ramp(low=1,high=1)").contains("low is 1, which is not below high, 1"));
    }

    #[test]
    fn noise_is_normal_and_the_same_again_for_the_same_seed_and_time() {
        let noise = made("noise(5,2)");
        let values: Vec<f64> = (0..10_000)
            .map(|n| number(&noise.sample(after(f64::from(n) * 0.1, 0)).0))
            .collect();
        let mean = values.iter().sum::<f64>() / 1e4;
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 1e4;
        assert!((mean - 5.0).abs() < 0.1, "{mean}");
        assert!((variance.sqrt() - 2.0).abs() < 0.1, "{variance}");
        assert_eq!(at("noise", 7.0, 1), at("noise(seed=0)", 7.0, 2));
        assert_ne!(at("noise", 7.0, 1), at("noise(seed=1)", 7.0, 1));
        assert_ne!(at("noise", 7.0, 1), at("noise", 7.1, 1));
    }

    #[test]
    fn counter_counts_updates_and_not_time() {
        assert_eq!(number(&at("counter", 9e8, 3)), 3.0);
        assert_eq!(number(&at("counter(start=10,step=-2)", 0.0, 3)), 4.0);
    }

    #[test]
    fn waveform_is_a_sine_over_its_elements_that_moves() {
        let early = doubles(&at("waveform(8,period_s=4,amplitude=3,waves=1)", 0.0, 0));
        assert_eq!(early.len(), 8);
        assert_close(early[2], 3.0);
        assert_close(early[6], -3.0);
        let later = doubles(&at("waveform(8,period_s=4,amplitude=3,waves=1)", 1.0, 1));
        for index in 0..8 {
            assert_close(later[index], early[(index + 2) % 8]);
        }
        assert_eq!(made("waveform(8)").metadata.element_count, 8);
    }

    #[test]
    fn image_has_rows_of_bytes_that_move() {
        let RowValue::Blob(blob) = at("image(4,3)", 0.0, 254) else {
            panic!("it is an array");
        };
        let rows = [[254, 255, 0, 1], [255, 0, 1, 2], [0, 1, 2, 3]].concat();
        assert_eq!(*blob, BlobValue::array(ValueType::UInt8, 12, rows));
    }

    #[test]
    fn camera_has_a_spot_near_its_middle_that_depends_on_the_time_alone() {
        let RowValue::Blob(blob) = at("camera(64,48)", 5.0, 0) else {
            panic!("it is an array");
        };
        let BlobValue::Array(pvwire_schema::types::Array { data: elements, .. }) = &*blob else {
            panic!("it is an array");
        };
        assert_eq!(elements.len(), 64 * 48);
        let brightest = (0..elements.len()).max_by_key(|at| elements[*at]).unwrap();
        assert!((24..40).contains(&(brightest % 64)), "{brightest}");
        assert!((16..32).contains(&(brightest / 64)), "{brightest}");
        assert!(elements[0] < 32);
        assert!(matches!(at("camera(64,48)", 5.0, 9), RowValue::Blob(again) if again == blob));
        assert!(matches!(at("camera(64,48)", 5.1, 1), RowValue::Blob(later) if later != blob));
    }

    #[test]
    fn enum_and_string_take_turns() {
        assert_eq!(made("enum(A|B|C)").metadata.choices, ["A", "B", "C"]);
        let indices: Vec<_> = (0..4).map(|n| number(&at("enum(A|B|C)", 0.0, n))).collect();
        assert_eq!(indices, [0.0, 1.0, 2.0, 0.0]);
        let text = |text: &str| RowValue::Blob(Arc::new(BlobValue::Text(text.into())));
        assert_eq!(at("string(x|y)", 0.0, 3), text("y"));
    }

    /// Texts at and beside the ends of what an argument may be.
    fn extremes(parameter: &Parameter) -> Vec<String> {
        // What takes an hour to make shows nothing that a few elements don't.
        let few = |high: f64| high == f64::from(MAX_ELEMENTS);
        match parameter.takes {
            Takes::Number { high, .. } if few(high) => ["1", "1.9", "7"].map(String::from).to_vec(),
            Takes::Whole { high, .. } if few(high.into()) => ["1", "7"].map(String::from).to_vec(),
            Takes::Number { default, low, high } => [low, default, high, 1e-320, -1e-320]
                .into_iter()
                .filter(|number| (low..=high).contains(number))
                .map(|number| format!("{number:e}"))
                .collect(),
            Takes::Whole { default, low, high } => [low, default, high]
                .map(|number| number.to_string())
                .to_vec(),
            Takes::Words { default } => [default, "a", "a|a"].map(String::from).to_vec(),
        }
    }

    #[test]
    fn every_generator_makes_a_value_whatever_its_arguments_are() {
        let times = [0, -1, 1_700_000_000_123_456_789, i64::MIN, i64::MAX];
        let updates = [0, 1, 1 << 53, u64::MAX];
        let mut made = 0;
        for (scheme, functions) in [("sim", FUNCTIONS), ("ssim", coniql::FUNCTIONS)] {
            for function in functions {
                let mut names = vec![String::new()];
                for parameter in function.parameters {
                    let extremes = extremes(parameter);
                    let longer = |name: &String| {
                        let comma = if name.is_empty() { "" } else { "," };
                        let longer = extremes.iter().map(|text| format!("{name}{comma}{text}"));
                        longer.collect::<Vec<_>>()
                    };
                    names = names.iter().flat_map(longer).collect();
                }
                for name in names {
                    let name = format!("{}({name})", function.name);
                    // Some arguments don't go together, which is said and no fault.
                    let Ok(generator) = name::read(scheme, functions, &name) else {
                        continue;
                    };
                    for (time_ns, update) in times
                        .into_iter()
                        .flat_map(|time_ns| updates.map(|update| (time_ns, update)))
                    {
                        let (value, _) = generator.sample(Moment { time_ns, update });
                        let numbers = match &value {
                            RowValue::Number(number) => vec![*number],
                            RowValue::Blob(blob) => match &**blob {
                                BlobValue::Array(array) => array.numbers(),
                                _ => vec![0.0],
                            },
                            RowValue::Structure { .. } => panic!("{name} makes a structure"),
                        };
                        assert_eq!(
                            numbers.len() as u32,
                            generator.metadata.element_count,
                            "{name}"
                        );
                        assert!(numbers.iter().all(|number| number.is_finite()), "{name}");
                        made += 1;
                    }
                }
            }
        }
        assert!(made > 10_000, "{made}");
    }

    #[test]
    fn load_counts_elements_by_rate_and_a_slow_one_by_its_memory() {
        for (name, load) in [
            ("waveform(1000,rate_hz=10)", 10_640),
            ("waveform(1000,rate_hz=0.001)", 1_064),
            ("counter(rate_hz=1000)", 65_000),
        ] {
            assert_eq!(made(name).load(), load, "{name}");
        }
    }

    #[test]
    fn more_than_one_thread_can_make_is_refused() {
        made("waveform(10000000,rate_hz=5)");
        let why = refused("waveform(10000000,rate_hz=6)");
        assert!(
            why.contains("60000000 a second, and at most 50000000"),
            "{why}"
        );
        assert!(refused("waveform(10000001)").contains("a whole number from 1 to 10000000"));
        assert!(refused("image(4000,2501)").contains("more than 10000000 elements"));
        assert!(refused("image(10000000,10000000)").contains("more than 10000000 elements"));
        assert!(refused("camera(4000,2501)").contains("more than 10000000 elements"));
        for bad in [
            "sine(rate_hz=1001)",
            "sine(rate_hz=0)",
            "sine(0)",
            "sine(-1)",
        ] {
            assert!(refused(bad).contains("which is not a number from"), "{bad}");
        }
    }
}
