use proptest::prelude::*;
use pvwire_schema::types::ValueType;

use super::*;

fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut to = Vec::new();
    write(&mut to);
    String::from_utf8(to).unwrap()
}

#[test]
fn numbers_read_as_c_prints_them() {
    for (value, digits, expected) in [
        (0.0, 0, "0"),
        (0.5, 0, "0"),
        (1.5, 0, "2"),
        (2.5, 0, "2"),
        (-0.5, 0, "-0"),
        (0.9, 0, "1"),
        (9.99, 1, "10.0"),
        (0.125, 2, "0.12"),
        (0.375, 2, "0.38"),
        (2.675, 2, "2.67"),
        (1e22, 0, "10000000000000000000000"),
        (1e21, 1, "1000000000000000000000.0"),
        (562_949_953_421_312.2, 1, "562949953421312.2"),
        (-0.0, 2, "-0.00"),
        (-0.001, 2, "-0.00"),
        (21.5, 3, "21.500"),
        (0.1, 30, "0.100000000000000005551115123126"),
        (5e-324, 3, "0.000"),
        (f64::NAN, 2, "nan"),
        (f64::INFINITY, 2, "inf"),
        (f64::NEG_INFINITY, 2, "-inf"),
    ] {
        assert_eq!(
            fixed(value, digits),
            expected,
            "{value} with {digits} digits"
        );
    }
}

#[test]
fn no_precision_gives_the_shortest_text() {
    for (value, value_type, expected) in [
        (0.1, ValueType::Float64, "0.1"),
        (2.5, ValueType::Float64, "2.5"),
        (-0.0, ValueType::Float64, "-0"),
        (1e-7, ValueType::Float64, "1e-7"),
        (0.000_001, ValueType::Float64, "0.000001"),
        (1e21, ValueType::Float64, "1e+21"),
        (
            123_456_789_012_345_680_000.0,
            ValueType::Float64,
            "123456789012345680000",
        ),
        (5e-324, ValueType::Float64, "5e-324"),
        // Two texts of 17 digits are equally near.
        (2_f64.powi(-25), ValueType::Float64, "2.9802322387695312e-8"),
        (0.1 + 0.2, ValueType::Float64, "0.30000000000000004"),
        (f64::MAX, ValueType::Float64, "1.7976931348623157e+308"),
        (f64::from(0.1_f32), ValueType::Float32, "0.1"),
        (f64::from(16_777_217.5_f32), ValueType::Float32, "16777218"),
        (f64::from(f32::MAX), ValueType::Float32, "3.4028235e+38"),
        (f64::from(f32::from_bits(1)), ValueType::Float32, "1e-45"),
        (-7.0, ValueType::Int32, "-7"),
        (
            9_007_199_254_740_992.0,
            ValueType::Int64,
            "9007199254740992",
        ),
        (f64::NAN, ValueType::Float64, "nan"),
        (1.0, ValueType::Boolean, "true"),
        (0.0, ValueType::Boolean, "false"),
    ] {
        let shown = text(|to| push_number(value, None, value_type, to));
        assert_eq!(shown, expected);
    }
}

#[test]
fn times_are_iso_8601_in_utc() {
    let mut format = TimeFormat::new();
    for (seconds, nanoseconds, expected) in [
        (0.0, 999_999_999, "1970-01-01T00:00:00.999999Z"),
        (-1.0, 1_000, "1969-12-31T23:59:59.000001Z"),
        (951_782_400.0, 0, "2000-02-29T00:00:00.000000Z"),
        (1_753_000_000.0, 123_456_789, "2025-07-20T08:26:40.123456Z"),
        (253_402_300_800.0, 0, "+010000-01-01T00:00:00.000000Z"),
        (-62_198_755_200.0, 0, "-000001-01-01T00:00:00.000000Z"),
    ] {
        let shown = text(|to| format.push(seconds, nanoseconds, to));
        assert_eq!(shown, expected);
    }
    assert_eq!(text(|to| push_iso(1.0, to)), "1970-01-01T00:00:00.001Z");
    assert_eq!(text(|to| push_iso(-1.0, to)), "1969-12-31T23:59:59.999Z");
}

#[test]
fn strings_are_quoted_as_in_json() {
    let shown = text(|to| push_quoted("a\"b\\\n\u{1f}\u{7f}é", to));
    assert_eq!(shown, "\"a\\\"b\\\\\\n\\u001f\u{7f}é\"");
}

/// The digits that the standard library finds, without point and exponent.
fn significant(text: &str) -> String {
    let mantissa = text.split('e').next().unwrap_or_default();
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    digits.trim_matches('0').to_owned()
}

fn any_number() -> impl Strategy<Value = f64> {
    prop_oneof![
        any::<f64>(),
        -1e6..1e6_f64,
        (-100_000..100_000_i32).prop_map(|eighths| f64::from(eighths) / 8.0),
        any::<u64>().prop_map(f64::from_bits),
        (-1074..1024_i32).prop_map(|exponent| 2_f64.powi(exponent)),
        (-300..300_i32).prop_map(|exponent| 10_f64.powi(exponent)),
    ]
}

proptest! {
    #[test]
    fn any_number_reads_as_the_standard_library_prints_it(value in any_number(), digits in 0_usize..40) {
        prop_assume!(value.is_finite());
        prop_assert_eq!(fixed(value, digits), format!("{value:.digits$}"));
    }

    #[test]
    fn the_shortest_text_is_the_nearest_of_its_length(value in any_number()) {
        prop_assume!(value.is_finite() && value != 0.0);
        let shown = text(|to| push_shortest(value, false, to));
        prop_assert_eq!(shown.parse::<f64>().unwrap().to_bits(), value.to_bits());
        // The standard library writes the larger of two equally near texts.
        let shortest = significant(&format!("{value:e}"));
        let nearest = format!("{value:.*e}", shortest.len().saturating_sub(1));
        let expected = if nearest.parse() == Ok(value) { significant(&nearest) } else { shortest };
        prop_assert_eq!(significant(&shown), expected);
    }

    #[test]
    fn the_shortest_text_of_a_single_reads_back(bits in any::<u32>()) {
        let single = f32::from_bits(bits);
        prop_assume!(single.is_finite() && single != 0.0);
        let shown = text(|to| push_shortest(single.into(), true, to));
        prop_assert_eq!(shown.parse::<f32>().unwrap().to_bits(), bits);
        let expected = significant(&format!("{single:e}"));
        if expected.len() < 9 {
            prop_assert_eq!(significant(&shown), expected);
        }
    }
}
