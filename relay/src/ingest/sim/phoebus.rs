//! The functions of `psim://`: the simulated PVs of Phoebus, under the same names.
//!
//! Names, arguments, defaults and values are those of Phoebus 5.0.2. A name of which Phoebus has no function is one of
//! `sim://`.

use std::f64::consts::TAU;
use std::sync::Arc;
use std::time::Duration;

use pvwire_pvws::local::LocalPv;
use pvwire_schema::types::{BlobValue, Limits, Metadata, ValueType};

use super::functions::{self, normal, uniform};
use super::generator::{Generator, GeneratorError, HUGE, MAX_ELEMENTS, Moment, Pace};
use crate::ingest::local::row;
use crate::ingest::{OpenError, RowValue};

/// Shortest interval between two updates.
const LEAST_INTERVAL_MS: f64 = 10.0;

/// Longest interval between two updates, in seconds.
const MOST_SECONDS: f64 = 1e6;

/// What a constant counts for in the limits of the load.
const ONE_SECOND: Duration = Duration::from_secs(1);

/// Longest text of `strings`, in characters.
const MOST_TEXT: f64 = 1000.0;

/// Why a name has no generator.
#[derive(Debug, thiserror::Error)]
enum PhoebusError {
    #[error("{0:?} doesn't end with a closing bracket")]
    Unclosed(String),
    #[error("{0:?} is not a number from -{HUGE:e} to {HUGE:e}")]
    Number(String),
    #[error("{function} takes no arguments or {expected}")]
    Count {
        function: &'static str,
        expected: &'static str,
    },
    #[error("{what} is {given}, and at most {most} is allowed")]
    TooMuch {
        what: &'static str,
        given: f64,
        most: f64,
    },
    #[error(transparent)]
    Generator(#[from] GeneratorError),
}

/// A function of Phoebus.
#[derive(Clone, Copy)]
enum Function {
    Sine,
    Ramp,
    Noise,
    GaussianNoise,
    Strings,
    Intermittent,
    Sawtooth,
    SineWave,
    GaussianWave,
    NoiseWave,
    FlipFlop,
}

impl Function {
    /// The function of a name. Some have longer names too, which older screens use, such as `sineWaveform`.
    fn named(name: &str) -> Option<Self> {
        let lower = name.to_ascii_lowercase();
        Some(match name {
            "sine" => Self::Sine,
            "ramp" => Self::Ramp,
            "noise" => Self::Noise,
            "strings" => Self::Strings,
            "flipflop" => Self::FlipFlop,
            _ if lower == "gaussiannoise" => Self::GaussianNoise,
            _ if name.starts_with("intermittent") => Self::Intermittent,
            _ if name.starts_with("sawtooth") => Self::Sawtooth,
            _ if lower.starts_with("sinewave") => Self::SineWave,
            _ if lower.starts_with("gaussianwave") => Self::GaussianWave,
            _ if lower.starts_with("noisewave") => Self::NoiseWave,
            _ => return None,
        })
    }

    fn make(self, numbers: &[f64]) -> Result<Generator, PhoebusError> {
        match self {
            Self::Sine => sine(numbers),
            Self::Ramp => ramp(numbers),
            Self::Noise => noise(numbers),
            Self::GaussianNoise => gaussian_noise(numbers),
            Self::Strings => strings(numbers),
            Self::Intermittent => intermittent(numbers),
            Self::Sawtooth => sawtooth(numbers),
            Self::SineWave => sine_wave(numbers),
            Self::GaussianWave => gaussian_wave(numbers),
            Self::NoiseWave => noise_wave(numbers),
            Self::FlipFlop => flip_flop(numbers),
        }
    }
}

/// Makes what a name asks for.
pub(super) fn read(name: &str) -> Result<Generator, OpenError> {
    if name.starts_with("const") {
        return constant(name);
    }
    let (called, arguments) = name.split_once('(').unwrap_or((name, ""));
    let function = Function::named(called).filter(|_| !arguments.contains('='));
    let Some(function) = function else {
        return functions::read(name);
    };
    numbers(name, arguments)
        .and_then(|numbers| function.make(&numbers))
        .map(|mut generator| {
            generator.pace = Pace::AfterInterval;
            generator.alarms_at_limits = true;
            generator
        })
        .map_err(OpenError::name)
}

/// A value that is declared as that of a local PV: `const(3)` or `const<VLong>(3)`.
fn constant(name: &str) -> Result<Generator, OpenError> {
    let mut local = LocalPv::open(name).map_err(OpenError::name)?;
    let (metadata, value, _) = local.take();
    let value = row(value);
    let mut generator = Generator::new(ONE_SECOND, metadata, move |_| value.clone());
    generator.pace = Pace::Once;
    Ok(generator)
}

/// The numbers between the brackets, with blanks or commas between them. Phoebus ignores what follows the last
/// bracket.
fn numbers(name: &str, arguments: &str) -> Result<Vec<f64>, PhoebusError> {
    if !name.contains('(') {
        return Ok(Vec::new());
    }
    let unclosed = || PhoebusError::Unclosed(name.to_owned());
    let (inside, _) = arguments.rsplit_once(')').ok_or_else(unclosed)?;
    let items = inside.split([' ', '\t', ',']);
    let items = items.filter(|item| !item.is_empty());
    let number = |item: &str| {
        let number = item.parse().ok();
        let number = number.filter(|number: &f64| number.abs() <= HUGE);
        number.ok_or_else(|| PhoebusError::Number(item.to_owned()))
    };
    items.map(number).collect()
}

fn interval(seconds: f64) -> Result<Duration, PhoebusError> {
    if seconds > MOST_SECONDS {
        return Err(PhoebusError::TooMuch {
            what: "the number of seconds between updates",
            given: seconds,
            most: MOST_SECONDS,
        });
    }
    let millis = (seconds * 1e3).round().max(LEAST_INTERVAL_MS);
    Ok(Duration::from_millis(millis as u64))
}

/// Elements of an array, rounded down. Phoebus replaces sizes below 1.
fn size(number: f64, below_one: u32) -> Result<u32, PhoebusError> {
    if number > f64::from(MAX_ELEMENTS) {
        return Err(PhoebusError::TooMuch {
            what: "the number of elements",
            given: number,
            most: f64::from(MAX_ELEMENTS),
        });
    }
    Ok(if number < 1.0 {
        below_one
    } else {
        number as u32
    })
}

/// Units, precision and limits by the range of the values. Warnings begin at 20 % and 80 % of it, alarms at 10 % and
/// 90 %.
fn metadata(description: &str, low: f64, high: f64) -> Metadata {
    let range = high - low;
    let part = |from: f64, to: f64| Limits {
        low: low + range * from,
        high: low + range * to,
    };
    let (display, warning, alarm) = if range > 0.0 {
        (Limits { low, high }, part(0.2, 0.8), part(0.1, 0.9))
    } else {
        let display = Limits {
            low: 0.0,
            high: 10.0,
        };
        (display, Limits::NONE, Limits::NONE)
    };
    Metadata {
        description: format!("{description}, as in Phoebus"),
        units: "a.u.".into(),
        precision: Some(2),
        display,
        control: display,
        warning,
        alarm,
        ..Metadata::default()
    }
}

/// Low, high, another number and the interval in seconds, if the other number may be left out.
fn range_and(
    numbers: &[f64],
    defaults: [f64; 4],
    function: &'static str,
    expected: &'static str,
) -> Result<[f64; 4], PhoebusError> {
    match *numbers {
        [] => Ok(defaults),
        [low, high, seconds] => Ok([low, high, defaults[2], seconds]),
        [low, high, other, seconds] => Ok([low, high, other, seconds]),
        _ => Err(PhoebusError::Count { function, expected }),
    }
}

fn sine(numbers: &[f64]) -> Result<Generator, PhoebusError> {
    let expected = "(min, max, update_seconds) or (min, max, steps, update_seconds)";
    let [low, high, steps, seconds] = range_and(numbers, [-5.0, 5.0, 10.0, 1.0], "sine", expected)?;
    let step = TAU / steps.max(1.0);
    let value =
        move |at: Moment| low + ((at.update as f64 * step).sin() + 1.0) / 2.0 * (high - low);
    let metadata = metadata("Sine", low, high);
    Ok(Generator::number(interval(seconds)?, metadata, value))
}

fn ramp(numbers: &[f64]) -> Result<Generator, PhoebusError> {
    let expected = "(min, max, update_seconds) or (min, max, step, update_seconds)";
    let [low, high, step, seconds] = range_and(numbers, [-5.0, 5.0, 1.0, 1.0], "ramp", expected)?;
    let step = if step == 0.0 { 1.0 } else { step };
    // The number of values from one limit to the other, at least one.
    let count = ((high - low) / step.abs()).floor().clamp(0.0, 1e18) as u64 + 1;
    let value = move |at: Moment| {
        if low > high || (step < 0.0 && at.update == 0) {
            low
        } else if step < 0.0 {
            high + ((at.update - 1) % count) as f64 * step
        } else {
            low + (at.update % count) as f64 * step
        }
    };
    let metadata = metadata("Ramp", low, high);
    Ok(Generator::number(interval(seconds)?, metadata, value))
}

fn noise(numbers: &[f64]) -> Result<Generator, PhoebusError> {
    let [low, high, seconds] = match *numbers {
        [] => [-5.0, 5.0, 1.0],
        [low, high, seconds] => [low, high, seconds],
        _ => {
            return Err(PhoebusError::Count {
                function: "noise",
                expected: "(min, max, update_seconds)",
            });
        }
    };
    let seed = seed(&[low, high, seconds]);
    let value = move |at: Moment| low + uniform(seed, at.update) * (high - low);
    let metadata = metadata("Even noise", low, high);
    Ok(Generator::number(interval(seconds)?, metadata, value))
}

fn gaussian_noise(numbers: &[f64]) -> Result<Generator, PhoebusError> {
    let [center, deviation, seconds] = match *numbers {
        [] => [0.0, 1.0, 0.1],
        [center, deviation, seconds] => [center, deviation, seconds],
        _ => {
            return Err(PhoebusError::Count {
                function: "gaussianNoise",
                expected: "(center, std_dev, update_seconds)",
            });
        }
    };
    let seed = seed(&[center, deviation, seconds]);
    let value = move |at: Moment| center + deviation * normal(seed, at.update);
    let (low, high) = (center - 2.0 * deviation, center + 2.0 * deviation);
    let metadata = metadata("Normal noise", low, high);
    Ok(Generator::number(interval(seconds)?, metadata, value))
}

/// Different arguments give different noise.
fn seed(numbers: &[f64]) -> u64 {
    let bits = numbers.iter().map(|number| number.to_bits());
    bits.fold(0, |seed, bits| seed.rotate_left(17) ^ bits)
}

fn intermittent(numbers: &[f64]) -> Result<Generator, PhoebusError> {
    let (seconds, low, high) = match *numbers {
        [] => (1.0, -5.0, 5.0),
        [seconds] => (seconds, -5.0, 5.0),
        [seconds, value] => (seconds, value, value),
        [seconds, low, high] => (seconds, low, high),
        _ => {
            return Err(PhoebusError::Count {
                function: "intermittent",
                expected: "(update_seconds), (update_seconds, value) or (update_seconds, min, max)",
            });
        }
    };
    let seed = seed(&[seconds, low, high]);
    let value = move |at: Moment| low + uniform(seed, at.update) * (high - low);
    let metadata = metadata("Noise that is disconnected every second time", low, high);
    let mut generator = Generator::number(interval(seconds)?, metadata, value);
    generator.is_intermittent = true;
    Ok(generator)
}

fn strings(numbers: &[f64]) -> Result<Generator, PhoebusError> {
    let (most, seconds) = match *numbers {
        [] => (10.0, 0.1),
        [seconds] => (10.0, seconds),
        [most, seconds] => (most, seconds),
        _ => {
            return Err(PhoebusError::Count {
                function: "strings",
                expected: "(update_seconds) or (max_length, update_seconds)",
            });
        }
    };
    if most > MOST_TEXT {
        return Err(PhoebusError::TooMuch {
            what: "the maximum length",
            given: most,
            most: MOST_TEXT,
        });
    }
    let most = most.max(1.0) as usize;
    let value = move |at: Moment| {
        let text = "A".repeat(at.turn(most) + 1);
        RowValue::Blob(Arc::new(BlobValue::Text(text)))
    };
    let metadata = Metadata {
        value_type: ValueType::String,
        element_count: 1,
        description: "Texts of increasing length, as in Phoebus".into(),
        ..Metadata::default()
    };
    Ok(Generator::new(interval(seconds)?, metadata, value))
}

fn flip_flop(numbers: &[f64]) -> Result<Generator, PhoebusError> {
    let seconds = match *numbers {
        [] => 1.0,
        [seconds] => seconds,
        _ => {
            return Err(PhoebusError::Count {
                function: "flipflop",
                expected: "(update_seconds)",
            });
        }
    };
    let metadata = Metadata {
        value_type: ValueType::Enum,
        element_count: 1,
        choices: ["false", "true"].map(String::from).to_vec(),
        description: "Two states in turn, as in Phoebus".into(),
        ..Metadata::default()
    };
    let value = |at: Moment| RowValue::Number(1.0 - at.turn(2) as f64);
    Ok(Generator::new(interval(seconds)?, metadata, value))
}

/// A wave over the elements of an array that moves with time.
struct Wave {
    period_s: f64,
    wavelength: f64,
    size: u32,
    interval: Duration,
    low: f64,
    high: f64,
}

impl Wave {
    fn read(numbers: &[f64], function: &'static str) -> Result<Self, PhoebusError> {
        let [period_s, wavelength, count, seconds, low, high] = match *numbers {
            [] => [1.0, 10.0, 50.0, 0.1, -1.0, 1.0],
            [period, wavelength, count, seconds] => [period, wavelength, count, seconds, -1.0, 1.0],
            [period, wavelength, count, seconds, low, high] => {
                [period, wavelength, count, seconds, low, high]
            }
            _ => {
                return Err(PhoebusError::Count {
                    function,
                    expected: "(period_seconds, wavelength, size, update_seconds), followed by min and max or not",
                });
            }
        };
        let size = size(count, 10)?;
        Ok(Self {
            period_s,
            wavelength: if wavelength > 0.0 {
                wavelength
            } else {
                f64::from(size)
            },
            size,
            interval: interval(seconds)?,
            low,
            high,
        })
    }
}

/// Periods since the PV was opened. The first update comes after one interval.
fn periods(at: Moment, interval: Duration, period_s: f64) -> f64 {
    if period_s > 0.0 {
        (at.update as f64 + 1.0) * interval.as_secs_f64() / period_s
    } else {
        0.0
    }
}

fn sine_wave(numbers: &[f64]) -> Result<Generator, PhoebusError> {
    let wave = Wave::read(numbers, "sinewave")?;
    let metadata = metadata("Sine over the elements", wave.low, wave.high);
    let (interval, size) = (wave.interval, wave.size);
    let made = Generator::doubles(interval, size, metadata, move |at| {
        let first = periods(at, wave.interval, wave.period_s);
        let (low, range, wavelength) = (wave.low, wave.high - wave.low, wave.wavelength);
        move |index| low + ((TAU * (first + index as f64 / wavelength)).sin() + 1.0) / 2.0 * range
    });
    Ok(made?)
}

fn sawtooth(numbers: &[f64]) -> Result<Generator, PhoebusError> {
    let wave = Wave::read(numbers, "sawtooth")?;
    let metadata = metadata("Sawtooth over the elements", wave.low, wave.high);
    let (interval, size) = (wave.interval, wave.size);
    // The last element of a wave almost reaches the maximum.
    let range = (wave.high - wave.low) * (1.0 + 1.0 / wave.wavelength);
    let made = Generator::doubles(interval, size, metadata, move |at| {
        let first = periods(at, wave.interval, wave.period_s);
        let (low, wavelength) = (wave.low, wave.wavelength);
        move |index| low + (first + index as f64 / wavelength).fract() * range
    });
    Ok(made?)
}

fn gaussian_wave(numbers: &[f64]) -> Result<Generator, PhoebusError> {
    let [period_s, deviation, count, seconds] = match *numbers {
        [] => [1.0, 100.0, 100.0, 0.1],
        [period, deviation, count, seconds] => [period, deviation, count, seconds],
        _ => {
            return Err(PhoebusError::Count {
                function: "gaussianWave",
                expected: "(period_seconds, std_dev, size, update_seconds)",
            });
        }
    };
    let (size, interval) = (size(count, 1)?, interval(seconds)?);
    let metadata = metadata("Normal distribution over the elements", 0.0, 1.0);
    let made = Generator::doubles(interval, size, metadata, move |at| {
        let first = (periods(at, interval, period_s).fract() * f64::from(size)) as usize;
        let center = f64::from(size) / 2.0;
        move |index| {
            let from_center = ((index + first) % size as usize) as f64 - center;
            (-from_center * from_center / deviation).exp()
        }
    });
    Ok(made?)
}

fn noise_wave(numbers: &[f64]) -> Result<Generator, PhoebusError> {
    let expected = "(min, max, update_seconds) or (min, max, size, update_seconds)";
    let [low, high, count, seconds] =
        range_and(numbers, [-5.0, 5.0, 100.0, 1.0], "noisewave", expected)?;
    let (size, interval) = (size(count, 0)?, interval(seconds)?);
    let seed = seed(&[low, high, count, seconds]);
    let metadata = metadata("Even noise over the elements", low, high);
    let made = Generator::doubles(interval, size, metadata, move |at| {
        let seed = seed ^ at.update.rotate_left(32);
        move |index| low + uniform(seed, index as u64) * (high - low)
    });
    Ok(made?)
}

#[cfg(test)]
mod tests;
