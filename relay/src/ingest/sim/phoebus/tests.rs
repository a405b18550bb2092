//! Values, metadata and arguments of Phoebus's simulated PVs.

use super::*;
use crate::ingest::sim::generator::testing::{after, doubles, number};
use pvwire_schema::types::Severity;

fn made(name: &str) -> Generator {
    read(name).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn refused(name: &str) -> String {
    let refused = read(name).map(|_| ()).expect_err(name);
    refused.to_string()
}

/// The first values of a number.
fn first(name: &str, count: u64) -> Vec<f64> {
    let generator = made(name);
    let values = (0..count).map(|update| generator.sample(after(0.0, update)).0);
    values.map(|value| number(&value)).collect()
}

fn array(name: &str, update: u64) -> Vec<f64> {
    doubles(&made(name).sample(after(0.0, update)).0)
}

fn assert_close(values: &[f64], expected: &[f64]) {
    assert_eq!(values.len(), expected.len(), "{values:?}");
    for (value, expected) in values.iter().zip(expected) {
        assert!((value - expected).abs() < 1e-9, "{values:?}");
    }
}

#[test]
fn sine_goes_through_its_steps() {
    let quarter = [0.0, 2.938_926_261_462_366, 4.755_282_581_475_768];
    assert_close(&first("sine", 3), &quarter);
    assert_close(&first("sine(-5, 5, 0.1)", 3), &quarter);
    assert_close(&first("sine(0,1,4,2)", 5), &[0.5, 1.0, 0.5, 0.0, 0.5]);
    assert_eq!(made("sine(0,1,4,2)").interval, Duration::from_secs(2));
}

#[test]
fn ramp_begins_at_its_minimum_and_starts_over() {
    assert_eq!(first("ramp(0,2,1)", 5), [0.0, 1.0, 2.0, 0.0, 1.0]);
    assert_eq!(first("ramp(0,1,0.5,1)", 4), [0.0, 0.5, 1.0, 0.0]);
    assert_eq!(first("ramp(0,2,-1,1)", 5), [0.0, 2.0, 1.0, 0.0, 2.0]);
    assert_eq!(first("ramp(3,1,1,1)", 2), [3.0, 3.0]);
    assert_eq!(first("ramp", 12)[9..], [4.0, 5.0, -5.0]);
}

#[test]
fn metadata_follows_from_the_range() {
    let ramp = made("ramp(0,10,1)");
    let Metadata {
        units,
        precision,
        display,
        warning,
        alarm,
        ..
    } = &ramp.metadata;
    assert_eq!((units.as_str(), *precision), ("a.u.", Some(2)));
    let limits = [display, alarm, warning].map(|limits| (limits.low, limits.high));
    assert_eq!(limits, [(0.0, 10.0), (1.0, 9.0), (2.0, 8.0)]);
    let empty = made("ramp(1,1,1)").metadata;
    assert_eq!((empty.display.low, empty.display.high), (0.0, 10.0));
    assert_eq!((empty.warning, empty.alarm), (Limits::NONE, Limits::NONE));
}

#[test]
fn severity_begins_at_the_limits() {
    let ramp = made("ramp(0,10,1)");
    let severities = (0..11).map(|update| ramp.sample(after(0.0, update)).1.severity);
    let (calm, minor, major) = (Severity::NoAlarm, Severity::Minor, Severity::Major);
    let expected = [
        major, major, minor, calm, calm, calm, calm, calm, minor, major, major,
    ];
    assert_eq!(severities.collect::<Vec<_>>(), expected);
}

#[test]
fn noise_stays_in_its_range_and_changes() {
    for name in ["noise", "noise(-5,5,0.1)", "intermittent(0.1,-5,5)"] {
        let values = first(name, 1000);
        let mean = values.iter().sum::<f64>() / 1000.0;
        assert!(mean.abs() < 1.0, "{name}: {mean}");
        let (low, high) = values.iter().fold((0.0, 0.0), |(low, high), value| {
            (f64::min(low, *value), f64::max(high, *value))
        });
        assert!((-5.0..-4.5).contains(&low), "{name}: {low}");
        assert!((4.5..5.0).contains(&high), "{name}: {high}");
    }
    let normal = first("gaussianNoise(10,2,0.1)", 1000);
    let mean = normal.iter().sum::<f64>() / 1000.0;
    assert!((mean - 10.0).abs() < 0.5, "{mean}");
    let wave = array("noisewave(0,1,500,1)", 3);
    assert!(wave.len() == 500 && wave.iter().all(|value| (0.0..1.0).contains(value)));
    assert_ne!(wave, array("noisewave(0,1,500,1)", 4));
    assert!(array("noisewave(0,1,0,1)", 0).is_empty());
}

#[test]
fn waves_move_by_one_wave_in_a_period() {
    // An interval is half a period: the first update comes after one.
    let sine = "sinewave(2,4,6.9,1,0,2)";
    assert_close(&array(sine, 0), &[1.0, 0.0, 1.0, 2.0, 1.0, 0.0]);
    assert_close(&array(sine, 1), &[1.0, 2.0, 1.0, 0.0, 1.0, 2.0]);
    let sawtooth = "sawtoothWaveform(2,4,5,1,0,4)";
    assert_close(&array(sawtooth, 1), &[0.0, 1.25, 2.5, 3.75, 0.0]);
    assert_close(&array(sawtooth, 0), &[2.5, 3.75, 0.0, 1.25, 2.5]);
    let bell = "gaussianWave(2,4,4,1)";
    let high = (-0.25_f64).exp();
    let low = (-1.0_f64).exp();
    assert_close(&array(bell, 1), &[low, high, 1.0, high]);
    assert_close(&array(bell, 0), &[1.0, high, low, high]);
    assert_eq!(array("sinewave", 0).len(), 50);
    assert_eq!(array("sinewave(0,0,0,1)", 0).len(), 10);
}

#[test]
fn texts_and_states_take_turns() {
    let strings = made("strings(3,1)");
    let texts = (0..5).map(|update| match strings.sample(after(0.0, update)).0 {
        RowValue::Blob(blob) => match &*blob {
            BlobValue::Text(text) => text.clone(),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    });
    assert_eq!(texts.collect::<Vec<_>>(), ["A", "AA", "AAA", "A", "AA"]);
    assert_eq!(first("flipflop(29.929)", 3), [1.0, 0.0, 1.0]);
    let flip_flop = made("flipflop(29.929)");
    assert_eq!(flip_flop.metadata.choices, ["false", "true"]);
    assert_eq!(flip_flop.interval, Duration::from_millis(29_929));
}

#[test]
fn constant_is_declared_like_a_local_pv() {
    assert_eq!(first("const(42)", 1), [42.0]);
    assert_eq!(
        made("const<VLong>(1e10)").metadata.value_type,
        ValueType::Int64
    );
    assert_eq!(array("const(1, 2, 3)", 0), [1.0, 2.0, 3.0]);
    assert_eq!(made("const(\"Fred\")").pace, Pace::Once);
    assert!(refused("const(42").contains("initial value"));
}

#[test]
fn other_names_are_those_of_sim() {
    assert_eq!(made("counter(rate_hz=5)").pace, Pace::AtOnce);
    let own = made("sine(period_s=2,amplitude=3)");
    assert_eq!((own.pace, own.metadata.units.as_str()), (Pace::AtOnce, "V"));
    let sine = made("sine(2, 3, 0.001)");
    assert_eq!(sine.pace, Pace::AfterInterval);
    // The shortest interval.
    assert_eq!(sine.interval, Duration::from_millis(10));
    assert!(made("intermittent(1)").is_intermittent);
}

#[test]
fn wrong_arguments_are_refused_with_what_is_expected() {
    for (name, why) in [
        ("sine(1)", "(min, max, update_seconds)"),
        ("sine(1,2,3,4,5)", "(min, max, steps, update_seconds)"),
        ("sine(1,2", "closing bracket"),
        ("sine(1,x,3)", "\"x\" is not a number"),
        ("sine(1,NaN,3)", "\"NaN\" is not a number"),
        ("noise(1,2,1e7)", "at most 1000000"),
        ("noisewave(0,1,1e8,1)", "at most 10000000"),
        ("noisewave(0,1,1e7,0.01)", "at most 50000000"),
        ("strings(1e9,1)", "at most 1000"),
        ("flipflop(1,2)", "(update_seconds)"),
        ("nosuch", "no generator \"nosuch\""),
    ] {
        let message = refused(name);
        assert!(message.contains(why), "{name}: {message}");
    }
}

#[test]
fn extremes_of_all_arguments_make_values() {
    let extremes = ["0", "1", "-1", "1e15", "-1e15", "1e-320"];
    let updates = [0, 1, 1 << 53, u64::MAX];
    let functions = [
        "sine",
        "ramp",
        "noise",
        "gaussianNoise",
        "intermittent",
        "noisewave",
        "sinewave",
        "sawtooth",
        "gaussianwave",
    ];
    let mut made = 0;
    for function in functions {
        for index in 0..extremes.len().pow(4) {
            let of = |place: u32| extremes[index / extremes.len().pow(place) % extremes.len()];
            for count in [3, 4] {
                let arguments: Vec<_> = (0..count).map(of).collect();
                let Ok(generator) = read(&format!("{function}({})", arguments.join(","))) else {
                    continue;
                };
                for update in updates {
                    generator.sample(after(0.0, update));
                    made += 1;
                }
            }
        }
    }
    assert!(made > 10_000, "{made}");
}
