//! Decodes monitor events of Channel Access.

use std::mem::offset_of;

use ca_sys::{
    MAX_ENUM_STATES, MAX_ENUM_STRING_SIZE, MAX_UNITS_SIZE, dbr_ctrl_char, dbr_ctrl_double,
    dbr_ctrl_enum, dbr_time_char, dbr_time_double, dbr_time_enum, dbr_time_float, dbr_time_long,
    dbr_time_short, dbr_time_string, epicsTimeStamp,
};

use super::event::{Array, Limits, Metadata, NativeType, Update, Value, text};

/// Difference between the POSIX epoch (1970) and the EPICS epoch (1990).
const EPICS_EPOCH_SECONDS: i64 = 631_152_000;
const NANOSECONDS: i64 = 1_000_000_000;

/// Bytes of a `DBR_TIME_…` event with `count` elements.
pub(super) fn update_bytes(native: NativeType, count: u32) -> usize {
    value_offset(native) + native.element_bytes() * count as usize
}

/// Decodes a `DBR_TIME_…` event of `count` elements; `None` if its size doesn't match or it is a
/// scalar without an element.
pub(super) fn update(
    native: NativeType,
    scalar: bool,
    count: u32,
    bytes: &[u8],
) -> Option<Update<'_>> {
    let values = bytes.get(value_offset(native)..update_bytes(native, count))?;
    let value = if scalar {
        match native {
            NativeType::String => Value::Text(up_to_nul(values.get(..native.element_bytes())?)),
            NativeType::Short => Value::Number(i16::from_ne_bytes(take(values, 0)?).into()),
            NativeType::Float => Value::Number(f32::from_ne_bytes(take(values, 0)?).into()),
            NativeType::Enum => Value::Number(u16::from_ne_bytes(take(values, 0)?).into()),
            NativeType::Char => Value::Number(u8::from_ne_bytes(take(values, 0)?).into()),
            NativeType::Long => Value::Number(i32::from_ne_bytes(take(values, 0)?).into()),
            NativeType::Double => Value::Number(f64::from_ne_bytes(take(values, 0)?)),
        }
    } else {
        Value::Array(Array {
            element: native,
            count,
            bytes: values,
        })
    };
    // Status, severity and time stamp have the same offset in all DBR_TIME types.
    let stamp = offset_of!(dbr_time_double, stamp);
    let seconds = u32::from_ne_bytes(take(
        bytes,
        stamp + offset_of!(epicsTimeStamp, secPastEpoch),
    )?);
    let nanoseconds = u32::from_ne_bytes(take(bytes, stamp + offset_of!(epicsTimeStamp, nsec))?);
    Some(Update {
        value,
        time_ns: posix_nanoseconds(seconds, nanoseconds),
        severity: u16::from_ne_bytes(take(bytes, offset_of!(dbr_time_double, severity))?),
        status: u16::from_ne_bytes(take(bytes, offset_of!(dbr_time_double, status))?),
    })
}

/// The type in which a channel's metadata is requested, or `None` for strings, which have no
/// metadata.
///
/// Numbers of every type are requested as doubles: a missing limit is NaN as a double, but looks
/// like a valid limit as an integer.
pub(super) fn metadata_type(native: NativeType) -> Option<NativeType> {
    match native {
        NativeType::String => None,
        NativeType::Enum => Some(NativeType::Enum),
        NativeType::Short
        | NativeType::Float
        | NativeType::Char
        | NativeType::Long
        | NativeType::Double => Some(NativeType::Double),
    }
}

/// Bytes of a `DBR_CTRL_…` event up to its value, if its type is one in which metadata is requested.
pub(super) fn metadata_bytes(requested: NativeType) -> usize {
    match requested {
        NativeType::Enum => offset_of!(dbr_ctrl_enum, value),
        NativeType::Char => offset_of!(dbr_ctrl_char, value),
        _ => offset_of!(dbr_ctrl_double, value),
    }
}

/// Decodes a `DBR_CTRL_CHAR` event of a text in an array of characters; `None` if it is too short. Alarm limits are left
/// out: a missing one looks like 0.
pub(super) fn text_metadata(bytes: &[u8]) -> Option<Metadata> {
    let limits = |low, high| -> Option<Limits> {
        Some(Limits {
            low: u8::from_ne_bytes(take(bytes, low)?).into(),
            high: u8::from_ne_bytes(take(bytes, high)?).into(),
        })
    };
    let units = offset_of!(dbr_ctrl_char, units);
    Some(Metadata {
        units: text(up_to_nul(bytes.get(units..units + MAX_UNITS_SIZE)?)),
        display: limits(
            offset_of!(dbr_ctrl_char, lower_disp_limit),
            offset_of!(dbr_ctrl_char, upper_disp_limit),
        )?,
        control: limits(
            offset_of!(dbr_ctrl_char, lower_ctrl_limit),
            offset_of!(dbr_ctrl_char, upper_ctrl_limit),
        )?,
        ..Metadata::default()
    })
}

/// Decodes a `DBR_CTRL_…` event of `metadata_type`; `None` if it is too short.
pub(super) fn metadata(native: NativeType, bytes: &[u8]) -> Option<Metadata> {
    match native {
        NativeType::String => Some(Metadata::default()),
        NativeType::Enum => enum_metadata(bytes),
        NativeType::Short | NativeType::Char | NativeType::Long => number_metadata(bytes),
        NativeType::Float | NativeType::Double => {
            let precision = take(bytes, offset_of!(dbr_ctrl_double, precision))?;
            Some(Metadata {
                precision: Some(i16::from_ne_bytes(precision)),
                ..number_metadata(bytes)?
            })
        }
    }
}

fn number_metadata(bytes: &[u8]) -> Option<Metadata> {
    let limits = |low, high| -> Option<Limits> {
        Some(Limits {
            low: f64::from_ne_bytes(take(bytes, low)?),
            high: f64::from_ne_bytes(take(bytes, high)?),
        })
    };
    let units = offset_of!(dbr_ctrl_double, units);
    Some(Metadata {
        units: text(up_to_nul(bytes.get(units..units + MAX_UNITS_SIZE)?)),
        display: limits(
            offset_of!(dbr_ctrl_double, lower_disp_limit),
            offset_of!(dbr_ctrl_double, upper_disp_limit),
        )?,
        control: limits(
            offset_of!(dbr_ctrl_double, lower_ctrl_limit),
            offset_of!(dbr_ctrl_double, upper_ctrl_limit),
        )?,
        warning: limits(
            offset_of!(dbr_ctrl_double, lower_warning_limit),
            offset_of!(dbr_ctrl_double, upper_warning_limit),
        )?,
        alarm: limits(
            offset_of!(dbr_ctrl_double, lower_alarm_limit),
            offset_of!(dbr_ctrl_double, upper_alarm_limit),
        )?,
        ..Metadata::default()
    })
}

fn enum_metadata(bytes: &[u8]) -> Option<Metadata> {
    let used = i16::from_ne_bytes(take(bytes, offset_of!(dbr_ctrl_enum, no_str))?);
    let used = usize::try_from(used).unwrap_or(0).min(MAX_ENUM_STATES);
    let labels = bytes
        .get(offset_of!(dbr_ctrl_enum, strs)..)?
        .chunks_exact(MAX_ENUM_STRING_SIZE)
        .take(used)
        .map(|label| text(up_to_nul(label)));
    Some(Metadata {
        choices: labels.collect(),
        ..Metadata::default()
    })
}

fn value_offset(native: NativeType) -> usize {
    match native {
        NativeType::String => offset_of!(dbr_time_string, value),
        NativeType::Short => offset_of!(dbr_time_short, value),
        NativeType::Float => offset_of!(dbr_time_float, value),
        NativeType::Enum => offset_of!(dbr_time_enum, value),
        NativeType::Char => offset_of!(dbr_time_char, value),
        NativeType::Long => offset_of!(dbr_time_long, value),
        NativeType::Double => offset_of!(dbr_time_double, value),
    }
}

/// Cannot overflow: 2³² seconds plus the difference of the epochs is half of the maximum. The start of the EPICS
/// epoch is no time: a record that was never processed has it.
fn posix_nanoseconds(seconds: u32, nanoseconds: u32) -> i64 {
    if seconds | nanoseconds == 0 {
        return 0;
    }
    (i64::from(seconds) + EPICS_EPOCH_SECONDS) * NANOSECONDS + i64::from(nanoseconds)
}

fn up_to_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|&byte| byte == 0).next().unwrap_or_default()
}

fn take<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    bytes.get(offset..)?.first_chunk().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A DBR_TIME event: MINOR, HIGH, at 2 s 3 ns of the EPICS epoch.
    fn event(native: NativeType, elements: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(4_i16.to_ne_bytes());
        bytes.extend(1_i16.to_ne_bytes());
        bytes.extend(2_u32.to_ne_bytes());
        bytes.extend(3_u32.to_ne_bytes());
        bytes.resize(value_offset(native), 0xaa);
        bytes.extend(elements);
        bytes
    }

    #[test]
    fn header_is_read_from_every_type() {
        for native in (0..7).filter_map(NativeType::from_code) {
            let bytes = event(native, &vec![0; native.element_bytes()]);

            let update = update(native, true, 1, &bytes).unwrap();

            assert_eq!(update.time_ns, 631_152_002_000_000_003, "{native:?}");
            assert_eq!((update.severity, update.status), (1, 4), "{native:?}");
        }
    }

    #[test]
    fn scalars_are_exact() {
        let cases: [(NativeType, Vec<u8>, f64); 6] = [
            (NativeType::Short, (-2_i16).to_ne_bytes().into(), -2.0),
            (
                NativeType::Float,
                0.1_f32.to_ne_bytes().into(),
                0.1_f32.into(),
            ),
            (NativeType::Enum, 65535_u16.to_ne_bytes().into(), 65535.0),
            (NativeType::Char, vec![200], 200.0),
            (
                NativeType::Long,
                i32::MIN.to_ne_bytes().into(),
                -2_147_483_648.0,
            ),
            (NativeType::Double, 0.1_f64.to_ne_bytes().into(), 0.1),
        ];
        for (native, element, expected) in cases {
            let bytes = event(native, &element);

            let value = update(native, true, 1, &bytes).unwrap().value;

            assert_eq!(value, Value::Number(expected), "{native:?}");
        }
    }

    #[test]
    fn string_without_nul_is_read_to_its_end() {
        let bytes = event(NativeType::String, &[b'x'; 40]);

        let value = update(NativeType::String, true, 1, &bytes).unwrap().value;

        assert_eq!(value, Value::Text(&[b'x'; 40]));
    }

    #[test]
    fn array_may_be_empty_or_hold_one() {
        for count in [0, 1] {
            let bytes = event(NativeType::Short, &vec![7; 2 * count as usize]);

            let value = update(NativeType::Short, false, count, &bytes)
                .unwrap()
                .value;

            let Value::Array(array) = value else {
                panic!("{value:?} is not an array")
            };
            assert_eq!(array.count, count);
            assert_eq!(array.bytes.len(), 2 * count as usize);
        }
    }

    #[test]
    fn short_bytes_are_refused() {
        let bytes = event(NativeType::Double, &1.0_f64.to_ne_bytes());

        assert_eq!(update(NativeType::Double, true, 0, &bytes), None);
        assert_eq!(update(NativeType::Double, false, 2, &bytes), None);
        assert_eq!(update(NativeType::Double, true, 1, &bytes[..20]), None);
        assert_eq!(metadata(NativeType::Double, &bytes), None);
        assert_eq!(metadata(NativeType::Enum, &[]), None);
    }

    #[test]
    fn count_of_choices_is_kept_in_bounds() {
        let mut bytes = vec![0; metadata_bytes(NativeType::Enum)];
        for (claimed, expected) in [(-1_i16, 0), (2, 2), (16, 16), (99, 16)] {
            bytes[4..6].copy_from_slice(&claimed.to_ne_bytes());

            let choices = metadata(NativeType::Enum, &bytes).unwrap().choices;

            assert_eq!(choices.len(), expected);
        }
    }

    #[test]
    fn last_second_of_the_epics_epoch_fits() {
        assert_eq!(
            posix_nanoseconds(u32::MAX, 999_999_999),
            4_926_119_295_999_999_999
        );
        assert_eq!(posix_nanoseconds(0, 1), 631_152_000_000_000_001);
    }

    #[test]
    fn record_that_was_never_processed_has_no_time() {
        assert_eq!(posix_nanoseconds(0, 0), 0);
    }
}
