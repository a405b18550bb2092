//! The functions of `sim://`: sines, ramps, noise, counters, arrays, images, enums and texts; and the random numbers of all
//! simulated PVs, which depend on a seed and a number alone.

use std::f64::consts::TAU;
use std::sync::Arc;
use std::time::Duration;

use pvwire_schema::types::{BlobValue, Limits, Metadata, ValueType};

use super::generator::{Function, Generator, GeneratorError, HUGE, MAX_ELEMENTS, Moment};
use super::name::{self, Arguments, Parameter};
use crate::ingest::{OpenError, RowValue};

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

/// Makes what a name of `sim://` asks for.
pub(super) fn read(name: &str) -> Result<Generator, OpenError> {
    name::read("sim", FUNCTIONS, name).map_err(OpenError::name)
}

/// The functions of `sim://`; `docs/reference/sim.md` describes them.
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

fn sine(arguments: &Arguments) -> Result<Generator, GeneratorError> {
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

fn ramp(arguments: &Arguments) -> Result<Generator, GeneratorError> {
    let period_s = arguments.number("period_s");
    let (low, high) = (arguments.number("low"), arguments.number("high"));
    if low >= high {
        return Err(GeneratorError::EmptyRange {
            low_name: "low",
            low,
            high_name: "high",
            high,
        });
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

fn noise(arguments: &Arguments) -> Result<Generator, GeneratorError> {
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

fn counter(arguments: &Arguments) -> Result<Generator, GeneratorError> {
    let (start, step) = (arguments.number("start"), arguments.number("step"));
    let metadata = described("Count of its own updates", "", 0, Limits::NONE);
    let value = move |at: Moment| start + step * at.update as f64;
    Ok(Generator::number(interval(arguments), metadata, value))
}

fn waveform(arguments: &Arguments) -> Result<Generator, GeneratorError> {
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

fn image(arguments: &Arguments) -> Result<Generator, GeneratorError> {
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

fn pixels_of(width: u32, height: u32) -> Result<u32, GeneratorError> {
    let size = width.checked_mul(height);
    size.filter(|size| *size <= MAX_ELEMENTS)
        .ok_or(GeneratorError::TooLarge { width, height })
}

/// A beam spot on a screen: it moves and changes its size a little, over noise.
fn camera(arguments: &Arguments) -> Result<Generator, GeneratorError> {
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

fn choice(arguments: &Arguments) -> Result<Generator, GeneratorError> {
    let choices = arguments.words("labels");
    let count = choices.len();
    let metadata = Metadata {
        value_type: ValueType::Enum,
        element_count: 1,
        choices,
        description: "Each label in turn".into(),
        ..Metadata::default()
    };
    let value = move |at: Moment| RowValue::Number(at.turn(count) as f64);
    Ok(Generator::new(interval(arguments), metadata, value))
}

fn string(arguments: &Arguments) -> Result<Generator, GeneratorError> {
    let texts = arguments.words("texts").into_iter();
    let texts: Vec<_> = texts.map(|text| Arc::new(BlobValue::Text(text))).collect();
    let metadata = Metadata {
        value_type: ValueType::String,
        element_count: 1,
        description: "Each text in turn".into(),
        ..Metadata::default()
    };
    let value = move |at: Moment| RowValue::Blob(Arc::clone(&texts[at.turn(texts.len())]));
    Ok(Generator::new(interval(arguments), metadata, value))
}

/// A number of the standard normal distribution.
pub(super) fn normal(seed: u64, number: u64) -> f64 {
    // Box–Muller transform of two uniform numbers; the first is never 0, which has no logarithm.
    let first = scramble(scramble(seed).wrapping_add(number));
    let uniform = |bits: u64| ((bits >> 11) + 1) as f64 / (1_u64 << 53) as f64;
    (-2.0 * uniform(first).ln()).sqrt() * (TAU * uniform(scramble(first))).cos()
}

/// A number from 0 to below 1, all equally likely.
pub(super) fn uniform(seed: u64, number: u64) -> f64 {
    let bits = scramble(scramble(seed).wrapping_add(number));
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

/// One step of the SplitMix64 generator: consecutive numbers give unrelated ones.
pub(super) fn scramble(number: u64) -> u64 {
    let mut bits = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::sim::generator::testing::{after, doubles, number};
    use crate::ingest::sim::name;
    use pvwire_schema::types::Severity;

    const HIHI: u16 = 3;
    const HIGH: u16 = 4;
    const LOLO: u16 = 5;
    const LOW: u16 = 6;

    fn made(name: &str) -> Generator {
        name::read("sim", FUNCTIONS, name).unwrap()
    }

    fn refused(name: &str) -> String {
        let refused = name::read("sim", FUNCTIONS, name).map(|_| ());
        refused.unwrap_err().to_string()
    }

    fn at(name: &str, time_s: f64, update: u64) -> RowValue {
        made(name).sample(after(time_s, update)).0
    }

    fn assert_close(value: f64, expected: f64) {
        assert!((value - expected).abs() < 1e-6, "{value} is not {expected}");
    }

    #[test]
    fn sine_runs_through_all_alarm_severities() {
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
    fn noise_is_normal_and_repeats_for_the_same_seed_and_time() {
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
    fn camera_has_a_spot_in_the_middle_that_depends_on_time_alone() {
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
    fn enum_and_string_go_through_their_values() {
        assert_eq!(made("enum(A|B|C)").metadata.choices, ["A", "B", "C"]);
        let indices: Vec<_> = (0..4).map(|n| number(&at("enum(A|B|C)", 0.0, n))).collect();
        assert_eq!(indices, [0.0, 1.0, 2.0, 0.0]);
        let text = |text: &str| RowValue::Blob(Arc::new(BlobValue::Text(text.into())));
        assert_eq!(at("string(x|y)", 0.0, 3), text("y"));
    }

    #[test]
    fn load_is_the_rate_of_elements_and_at_least_one_value_per_s() {
        for (name, load) in [
            ("waveform(1000,rate_hz=10)", 10_640),
            ("waveform(1000,rate_hz=0.001)", 1_064),
            ("counter(rate_hz=1000)", 65_000),
        ] {
            assert_eq!(made(name).load(), load, "{name}");
        }
    }

    #[test]
    fn more_elements_than_one_thread_can_make_are_refused() {
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
