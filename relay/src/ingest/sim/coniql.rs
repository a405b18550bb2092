//! The functions of `ssim://`: the simulated PVs of Coniql, under the same names.
//!
//! Names, arguments, defaults and values are those of Coniql 0.4.2, whose limits were wider.

use std::f64::consts::TAU;
use std::time::Duration;

use pvwire_schema::types::{Limits, Metadata};

use super::generator::{Function, Generator, GeneratorError, HUGE, MAX_ELEMENTS, Moment, Pace};
use super::name::{self, Arguments, Parameter};
use crate::ingest::OpenError;

const fn any(name: &'static str, default: f64) -> Parameter {
    Parameter::number(name, default, -HUGE, HUGE)
}

const fn update_seconds() -> Parameter {
    Parameter::number("update_seconds", 1.0, 0.001, 1000.0)
}

/// Coniql takes any number and rounds it down.
const fn size(default: f64) -> Parameter {
    Parameter::number("size", default, 1.0, MAX_ELEMENTS as f64)
}

const fn percent(name: &'static str, default: f64) -> Parameter {
    Parameter::number(name, default, 0.0, 100.0)
}

/// Makes what a name of `ssim://` asks for.
pub(super) fn read(name: &str) -> Result<Generator, OpenError> {
    let made: Result<Generator, _> = name::read("ssim", FUNCTIONS, name);
    let mut generator = made.map_err(OpenError::name)?;
    generator.pace = Pace::FromStart;
    Ok(generator)
}

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "sine",
        parameters: &[
            any("min_value", -5.0),
            any("max_value", 5.0),
            Parameter::number("steps", 10.0, 1.0, HUGE),
            update_seconds(),
            percent("warning_percent", 80.0),
            percent("alarm_percent", 90.0),
        ],
        make: sine,
    },
    Function {
        name: "sinewave",
        parameters: &[
            Parameter::number("period_seconds", 1.0, 0.001, 1e6),
            Parameter::number("sample_wavelength", 10.0, 0.001, HUGE),
            size(50.0),
            update_seconds(),
            any("min_value", -5.0),
            any("max_value", 5.0),
        ],
        make: sinewave,
    },
    Function {
        name: "rampwave",
        parameters: &[
            size(10.0),
            update_seconds(),
            any("min_value", 0.0),
            any("max_value", 100.0),
            Parameter::number("step", 1.0, 1e-9, HUGE),
        ],
        make: rampwave,
    },
];

fn interval(arguments: &Arguments) -> Duration {
    Duration::from_secs_f64(arguments.number("update_seconds"))
}

fn range(arguments: &Arguments) -> Result<Limits, GeneratorError> {
    let (low, high) = (arguments.number("min_value"), arguments.number("max_value"));
    if low >= high {
        return Err(GeneratorError::EmptyRange {
            low_name: "min_value",
            low,
            high_name: "max_value",
            high,
        });
    }
    Ok(Limits { low, high })
}

/// The middle part of a range.
fn middle(range: Limits, percent: f64) -> Limits {
    let margin = (range.high - range.low) * (1.0 - percent / 100.0) / 2.0;
    Limits {
        low: range.low + margin,
        high: range.high - margin,
    }
}

fn metadata(description: &str, range: Limits) -> Metadata {
    Metadata {
        description: description.into(),
        units: "au".into(),
        precision: Some(5),
        display: range,
        control: range,
        warning: range,
        alarm: range,
        ..Metadata::default()
    }
}

/// From low to high as `turns` goes on, one full wave for each whole number.
fn wave(range: Limits, turns: f64) -> f64 {
    range.low + ((TAU * turns).sin() + 1.0) / 2.0 * (range.high - range.low)
}

fn sine(arguments: &Arguments) -> Result<Generator, GeneratorError> {
    let (range, steps) = (range(arguments)?, arguments.number("steps"));
    let metadata = Metadata {
        warning: middle(range, arguments.number("warning_percent")),
        alarm: middle(range, arguments.number("alarm_percent")),
        ..metadata("Sine that takes a step with each update", range)
    };
    let value = move |at: Moment| wave(range, at.update as f64 / steps);
    Ok(Generator::number(interval(arguments), metadata, value))
}

fn sinewave(arguments: &Arguments) -> Result<Generator, GeneratorError> {
    let range = range(arguments)?;
    let period_s = arguments.number("period_seconds");
    let wavelength = arguments.number("sample_wavelength");
    let size = arguments.number("size") as u32;
    let metadata = metadata("Sine over the elements that moves with time", range);
    Generator::doubles(interval(arguments), size, metadata, move |at| {
        let phase = at.phase(period_s);
        // As in Coniql, the wave begins with the first update after the value at the start.
        let begins = at.update > 0;
        move |index| {
            if begins {
                wave(range, phase + index as f64 / wavelength)
            } else {
                0.0
            }
        }
    })
}

fn rampwave(arguments: &Arguments) -> Result<Generator, GeneratorError> {
    let (range, step) = (range(arguments)?, arguments.number("step"));
    let size = arguments.number("size") as u32;
    // The number of values below `high`, at least one: the quotient may be too small for a double.
    let length = ((range.high - range.low) / step).ceil().clamp(1.0, 1e18) as u64;
    let metadata = metadata("Ramp over the elements that moves with each update", range);
    Generator::doubles(interval(arguments), size, metadata, move |at| {
        let first = at.update % length;
        move |index| range.low + step * ((first + index as u64) % length) as f64
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::sim::generator::testing::{after, doubles, number};
    use crate::ingest::sim::name;
    use pvwire_schema::types::Severity;

    fn made(name: &str) -> Generator {
        name::read("ssim", FUNCTIONS, name).unwrap()
    }

    fn assert_close(values: &[f64], expected: &[f64]) {
        assert_eq!(values.len(), expected.len());
        for (value, expected) in values.iter().zip(expected) {
            assert!((value - expected).abs() < 1e-9, "{values:?}");
        }
    }

    #[test]
    fn sine_has_limits_by_percentage_and_steps_by_count() {
        let sine = made("sine");
        let samples = (0..6).map(|update| sine.sample(after(0.0, update)));
        let (values, alarms): (Vec<_>, Vec<_>) = samples
            .map(|(value, alarm)| (number(&value), alarm.severity))
            .unzip();
        let quarter = [0.0, 2.938_926_261_46, 4.755_282_581_48];
        assert_close(
            &values,
            &[
                quarter[0], quarter[1], quarter[2], quarter[2], quarter[1], 0.0,
            ],
        );
        let (calm, major) = (Severity::NoAlarm, Severity::Major);
        assert_eq!(alarms, [calm, calm, major, major, calm, calm]);
        let Metadata { warning, alarm, .. } = sine.metadata;
        assert_close(&[warning.low, warning.high], &[-4.0, 4.0]);
        assert_close(&[alarm.low, alarm.high], &[-4.5, 4.5]);
        assert_eq!(sine.interval, Duration::from_secs(1));
    }

    #[test]
    fn peak_of_a_sine_without_margins_is_not_an_alarm() {
        let sine = made("sine(0,1,4,0.1,100,100)");
        let (value, alarm) = sine.sample(after(0.0, 1));
        assert_eq!((number(&value), alarm.severity), (1.0, Severity::NoAlarm));
        assert_eq!(sine.interval, Duration::from_millis(100));
    }

    #[test]
    fn sinewave_has_a_wavelength_in_elements_and_a_period_in_time() {
        let wave = made("sinewave(2,4,6.9,0.5,0,2)");
        let start = doubles(&wave.sample(after(0.0, 0)).0);
        assert_close(&start, &[0.0; 6]);
        let early = doubles(&wave.sample(after(0.0, 1)).0);
        assert_close(&early, &[1.0, 2.0, 1.0, 0.0, 1.0, 2.0]);
        let later = doubles(&wave.sample(after(0.5, 2)).0);
        assert_close(&later, &[2.0, 1.0, 0.0, 1.0, 2.0, 1.0]);
    }

    #[test]
    fn rampwave_moves_by_one_value_and_stays_below_its_maximum() {
        let ramp = made("rampwave(size=5,min_value=1,max_value=4)");
        let at = |update| doubles(&ramp.sample(after(0.0, update)).0);
        assert_close(&at(0), &[1.0, 2.0, 3.0, 1.0, 2.0]);
        assert_close(&at(2), &[3.0, 1.0, 2.0, 3.0, 1.0]);
        assert_close(&at(3), &at(0));
        let broken = doubles(&made("rampwave(4,1,0,1,0.4)").sample(after(0.0, 0)).0);
        assert_close(&broken, &[0.0, 0.4, 0.8, 0.0]);
    }

    #[test]
    fn empty_range_is_refused() {
        let refused = name::read("ssim", FUNCTIONS, "sine(5,5)").map(|_| ());
        let why = refused.unwrap_err().to_string();
        assert!(
            why.contains("min_value is 5, which is not below max_value, 5"),
            "{why}"
        );
    }
}
