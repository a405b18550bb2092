//! Converts a put's value to the type of its channel, and compares it with the value read back.

use ca_sys::{DBR_PUT_ACKS, DBR_PUT_ACKT, DBR_STRING, MAX_ENUM_STATES, MAX_STRING_SIZE, chtype};

use super::event::FieldKind;
use super::event::NativeType;
use super::put::{Held, PutError, PutValue};

/// The properties of a channel that determine what can be written.
#[derive(Clone, Debug)]
pub(super) struct Target<'a> {
    pub(super) native: NativeType,
    pub(super) count: u32,
    pub(super) choices: &'a [String],
    /// A field read as a long string (`NAME.VAL$`), which must keep room for its NUL.
    pub(super) long_string: bool,
    /// The type of its field, where that matters.
    pub(super) field: FieldKind,
}

impl Target<'_> {
    /// Elements of the channel's own type.
    fn encoded(&self, count: usize, bytes: Vec<u8>) -> Encoded {
        Encoded {
            dbr_type: self.native as chtype,
            count: count as u32,
            bytes,
            is_text: false,
        }
    }
}

/// A value in the form that libca takes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Encoded {
    pub(super) dbr_type: chtype,
    pub(super) count: u32,
    pub(super) bytes: Vec<u8>,
    /// It is a text in an array of characters, which ends at its NUL.
    pub(super) is_text: bool,
}

impl Encoded {
    /// A request that changes the alarms of the channel's record and not its value.
    fn for_alarms(dbr_type: chtype, number: u16) -> Self {
        Self {
            dbr_type,
            count: 1,
            bytes: number.to_ne_bytes().to_vec(),
            is_text: false,
        }
    }

    /// Whether it changes the alarms of the channel's record: servers accept it without completion only.
    pub(super) fn is_for_alarms(&self) -> bool {
        matches!(self.dbr_type, DBR_PUT_ACKS | DBR_PUT_ACKT)
    }

    /// The type in which the channel is read afterwards.
    pub(super) fn read_type(&self) -> chtype {
        if self.is_for_alarms() {
            DBR_STRING
        } else {
            self.dbr_type
        }
    }

    /// The channel's value if it differs from this one, which was put to it. The elements were read
    /// in the type of this value, in this machine's byte order.
    pub(super) fn unlike(&self, scalar: bool, count: u32, elements: &[u8]) -> Option<Held> {
        let element = NativeType::from_code(self.dbr_type)?;
        // A server may return the text without its NUL, or with what follows it.
        if self.is_text && up_to_nul(&self.bytes) == up_to_nul(elements) {
            return None;
        }
        let size = element.element_bytes();
        let pairs = (self.bytes.chunks_exact(size)).zip(elements.chunks_exact(size));
        let mut pairs = pairs.take(self.count as usize);
        // A scalar takes no empty array, and its server doesn't say so.
        let is_left = scalar && self.count == 0 && count > 0;
        // A server without variable-length arrays sends as many elements as it has room for.
        if !is_left && count >= self.count && pairs.all(|(sent, read)| same(element, sent, read)) {
            return None;
        }
        Some(Held {
            element,
            scalar,
            count,
            bytes: elements.to_vec(),
        })
    }
}

/// Whether two elements are the same value.
fn same(element: NativeType, sent: &[u8], read: &[u8]) -> bool {
    let equal = |a: f64, b: f64| a == b || (a.is_nan() && b.is_nan());
    match element {
        NativeType::Double => match (sent.try_into(), read.try_into()) {
            (Ok(sent), Ok(read)) => equal(f64::from_ne_bytes(sent), f64::from_ne_bytes(read)),
            _ => false,
        },
        NativeType::Float => match (sent.try_into(), read.try_into()) {
            (Ok(sent), Ok(read)) => equal(
                f32::from_ne_bytes(sent).into(),
                f32::from_ne_bytes(read).into(),
            ),
            _ => false,
        },
        NativeType::String => up_to_nul(sent) == up_to_nul(read),
        _ => sent == read,
    }
}

fn up_to_nul(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|&byte| byte == 0);
    &bytes[..end.unwrap_or(bytes.len())]
}

/// Whether a number in a value fits the channel's type but possibly not the field behind it.
pub(super) fn is_doubtful(native: NativeType, value: &PutValue) -> bool {
    // Every type of field that Channel Access represents by this type can hold this value.
    let most = match native {
        NativeType::Double => f64::from(u32::MAX),
        NativeType::Long => f64::from(u16::MAX),
        NativeType::Char => f64::from(i8::MAX),
        _ => return false,
    };
    let safe = |number: f64| number.fract() == 0.0 && (0.0..=most).contains(&number);
    let doubtful = |text: &String| parse_number(text).is_ok_and(|number| !safe(number));
    match value {
        PutValue::Number(number) => !safe(*number),
        PutValue::Numbers(numbers) => !numbers.iter().copied().all(safe),
        PutValue::Text(text) => doubtful(text),
        PutValue::Texts(texts) => texts.iter().any(doubtful),
        PutValue::Acknowledged(_) | PutValue::AcknowledgeGone(_) => false,
    }
}

/// Converts a value to the channel's own type without loss, or returns an error.
pub(super) fn encode(target: &Target<'_>, value: &PutValue) -> Result<Encoded, PutError> {
    let mut bytes = Vec::new();
    let count = match value {
        PutValue::Text(text) => return encode_text(target, text),
        PutValue::Acknowledged(severity) => {
            return Ok(Encoded::for_alarms(DBR_PUT_ACKS, *severity));
        }
        PutValue::AcknowledgeGone(needed) => {
            return Ok(Encoded::for_alarms(DBR_PUT_ACKT, u16::from(*needed)));
        }
        PutValue::Number(number) => {
            push_element(&mut bytes, target, *number)?;
            1
        }
        PutValue::Numbers(numbers) => {
            check_count(target, numbers.len())?;
            for number in numbers {
                push_element(&mut bytes, target, *number)?;
            }
            numbers.len()
        }
        PutValue::Texts(texts) => {
            check_count(target, texts.len())?;
            for text in texts {
                push_text_element(&mut bytes, target, text)?;
            }
            texts.len()
        }
    };
    Ok(target.encoded(count, bytes))
}

/// A single text: a string, the label of a choice, a number, or the characters of an array.
fn encode_text(target: &Target<'_>, text: &str) -> Result<Encoded, PutError> {
    let mut bytes = Vec::new();
    match target.native {
        NativeType::Char if target.count != 1 => return encode_characters(target, text),
        NativeType::Enum => return encode_choice(target, text),
        NativeType::String => {
            if text.len() >= MAX_STRING_SIZE {
                let length = text.len();
                return Err(PutError::LongText { length });
            }
            push_string(&mut bytes, text)?;
        }
        _ => push_number(&mut bytes, target, exact_number(target, text)?)?,
    }
    Ok(target.encoded(1, bytes))
}

/// Text for an array of characters, followed by a NUL if there is room.
fn encode_characters(target: &Target<'_>, text: &str) -> Result<Encoded, PutError> {
    let room = target.count as usize - usize::from(target.long_string);
    if text.len() > room {
        let length = text.len();
        return bad(format!("too long: {length} bytes, at most {room}"));
    }
    let mut bytes = text.as_bytes().to_vec();
    if text.len() < target.count as usize {
        bytes.push(0);
    }
    Ok(Encoded {
        is_text: true,
        ..target.encoded(bytes.len(), bytes)
    })
}

/// A choice by its label or its index.
fn encode_choice(target: &Target<'_>, text: &str) -> Result<Encoded, PutError> {
    let mut bytes = Vec::new();
    let label = target.choices.iter().position(|choice| choice == text);
    let number = text.trim().parse::<u16>();
    let index = match (label, number) {
        (Some(index), _) => index as f64,
        (None, Ok(number)) => number.into(),
        // Channel Access sends the first sixteen labels; the IOC may have more.
        (None, Err(_)) if target.choices.len() == MAX_ENUM_STATES => {
            push_string(&mut bytes, text)?;
            return Ok(Encoded {
                dbr_type: DBR_STRING,
                count: 1,
                bytes,
                is_text: false,
            });
        }
        (None, Err(_)) => {
            let choices = listed(target.choices);
            return bad(format!("{text:?} is not a choice; {choices}"));
        }
    };
    push_number(&mut bytes, target, index)?;
    Ok(target.encoded(1, bytes))
}

fn check_count(target: &Target<'_>, count: usize) -> Result<(), PutError> {
    if count > target.count as usize {
        let (holds, what) = (target.count, plural(target.count, "element"));
        return bad(format!("{count} elements, but the PV holds {holds} {what}"));
    }
    Ok(())
}

/// A number, as text if the channel holds strings.
fn push_element(bytes: &mut Vec<u8>, target: &Target<'_>, number: f64) -> Result<(), PutError> {
    if target.native == NativeType::String {
        push_string(bytes, &spelled(number))
    } else {
        push_number(bytes, target, number)
    }
}

/// A number as text: an integer with its digits, and the shortest text that reads as the same number otherwise.
fn spelled(number: f64) -> String {
    let is_long = number.abs() >= 1e21 || (number != 0.0 && number.abs() < 1e-5);
    if is_long && number.is_finite() {
        return format!("{number:e}");
    }
    if number.fract() == 0.0 && number.abs() > EXACT {
        return (number as i128).to_string();
    }
    number.to_string()
}

/// One element of an array of texts.
fn push_text_element(bytes: &mut Vec<u8>, target: &Target<'_>, text: &str) -> Result<(), PutError> {
    match target.native {
        NativeType::String => push_string(bytes, text),
        NativeType::Enum => {
            let one = encode_choice(target, text)?;
            if one.dbr_type != target.native as chtype {
                return bad(format!("{text:?} is not a choice"));
            }
            bytes.extend(one.bytes);
            Ok(())
        }
        _ => push_number(bytes, target, exact_number(target, text)?),
    }
}

fn bad<T>(why: String) -> Result<T, PutError> {
    Err(PutError::BadValue(why))
}

fn plural(count: u32, what: &str) -> String {
    format!("{what}{}", if count == 1 { "" } else { "s" })
}

fn listed(choices: &[String]) -> String {
    if choices.is_empty() {
        return "the PV has none".to_owned();
    }
    format!("the PV has: {}", choices.join(", "))
}

fn parse_number(text: &str) -> Result<f64, PutError> {
    let trimmed = text.trim();
    let hex = trimmed
        .strip_prefix("0x")
        .or_else(|| trimmed.strip_prefix("0X"))
        .and_then(|digits| u32::from_str_radix(digits, 16).ok());
    if let Some(number) = hex {
        return Ok(number.into());
    }
    let number: f64 =
        (trimmed.parse()).map_err(|_| PutError::BadValue(format!("{text:?} is not a number")))?;
    let significand = trimmed.split(['e', 'E']).next().unwrap_or_default();
    if number.is_infinite() && significand.contains(|c: char| c.is_ascii_digit()) {
        return bad(format!("{trimmed} is too large for a 64-bit float"));
    }
    if number == 0.0 && significand.contains(|c: char| ('1'..='9').contains(&c)) {
        return bad(format!("{trimmed} is too small for a 64-bit float"));
    }
    Ok(number)
}

/// The number in a text for an integer field. A number that no double represents exactly is refused
/// and not rounded, unless the field is floating point itself.
fn exact_number(target: &Target<'_>, text: &str) -> Result<f64, PutError> {
    let number = parse_number(text)?;
    let integer = text.trim().parse::<i128>();
    let is_exact = match integer {
        Ok(integer) => number as i128 == integer,
        // Digits after the point that exceed the precision of a double.
        Err(_) => !matches!(target.field, FieldKind::Integers { .. }) || number.abs() <= EXACT,
    };
    if is_exact || target.field == FieldKind::Float {
        return Ok(number);
    }
    let text = text.trim();
    match (integer, target.field) {
        (Ok(integer), FieldKind::Integers { least, most })
            if !(least..=most).contains(&integer) =>
        {
            return bad(format!(
                "{text} is outside the PV's type, {least} to {most}"
            ));
        }
        (Ok(_), _) => {}
        (Err(_), field) => within(field, number)?,
    }
    bad(format!(
        "{text} is more than Channel Access can carry exactly; write it by pva://"
    ))
}

/// Every integer up to this one is exactly a double.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// Checks that the field can hold a number.
fn within(field: FieldKind, number: f64) -> Result<(), PutError> {
    let FieldKind::Integers { least, most } = field else {
        return Ok(());
    };
    if number.fract() != 0.0 || !number.is_finite() {
        return bad(format!(
            "{number} is not an integer, and the PV takes only integers"
        ));
    }
    if !(least..=most).contains(&(number as i128)) {
        return bad(format!(
            "{} is outside the PV's type, {least} to {most}",
            spelled(number)
        ));
    }
    Ok(())
}

fn push_string(bytes: &mut Vec<u8>, text: &str) -> Result<(), PutError> {
    let most = MAX_STRING_SIZE - 1;
    if text.len() > most {
        let length = text.len();
        return bad(format!(
            "too long: {length} bytes, but a string of Channel Access has at most {most}"
        ));
    }
    if text.contains('\0') {
        return bad(format!("{text:?} holds a NUL, which would end the string"));
    }
    bytes.extend(text.as_bytes());
    bytes.resize(bytes.len() + MAX_STRING_SIZE - text.len(), 0);
    Ok(())
}

fn push_number(bytes: &mut Vec<u8>, target: &Target<'_>, number: f64) -> Result<(), PutError> {
    within(target.field, number)?;
    let integer = |low: i64, high: i64| -> Result<i64, PutError> {
        if number.fract() != 0.0 || !number.is_finite() {
            return bad(format!(
                "{number} is not an integer, and the PV takes only integers"
            ));
        }
        if number < low as f64 || number > high as f64 {
            return bad(format!(
                "{number} is outside the PV's type, {low} to {high}"
            ));
        }
        Ok(number as i64)
    };
    match target.native {
        NativeType::Double => bytes.extend(number.to_ne_bytes()),
        NativeType::Float => {
            let narrow = number as f32;
            if narrow.is_infinite() && number.is_finite() {
                return bad(format!("{number} is too large for the PV's 32-bit float"));
            }
            if narrow == 0.0 && number != 0.0 {
                return bad(format!("{number:e} is too small for the PV's 32-bit float"));
            }
            bytes.extend(narrow.to_ne_bytes());
        }
        NativeType::Long => {
            let number = integer(i32::MIN.into(), i32::MAX.into())? as i32;
            bytes.extend(number.to_ne_bytes());
        }
        NativeType::Short => {
            let number = integer(i16::MIN.into(), i16::MAX.into())? as i16;
            bytes.extend(number.to_ne_bytes());
        }
        // A signed char field of the IOC also has this type.
        NativeType::Char => bytes.push(integer(i8::MIN.into(), u8::MAX.into())? as u8),
        NativeType::Enum => {
            let known = match target.choices.len() {
                0 => MAX_ENUM_STATES,
                known => known,
            };
            let index = integer(0, u16::MAX.into())? as u16;
            if usize::from(index) >= known {
                return bad(format!(
                    "{index} is not an index; {}",
                    listed(target.choices)
                ));
            }
            bytes.extend(index.to_ne_bytes());
        }
        NativeType::String => unreachable!("a number for a string is written as text"),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_CHOICES: &[String] = &[];

    fn scalar(native: NativeType) -> Target<'static> {
        Target {
            native,
            count: 1,
            choices: NO_CHOICES,
            long_string: false,
            field: FieldKind::Unknown,
        }
    }

    fn why(target: &Target<'_>, value: PutValue) -> String {
        encode(target, &value).unwrap_err().to_string()
    }

    fn text(text: &str) -> PutValue {
        PutValue::Text(text.to_owned())
    }

    #[test]
    fn numbers_take_the_channels_own_type() {
        let cases: [(NativeType, f64, Vec<u8>); 6] = [
            (NativeType::Double, 0.1, 0.1_f64.to_ne_bytes().into()),
            (NativeType::Float, 0.5, 0.5_f32.to_ne_bytes().into()),
            (NativeType::Long, -7.0, (-7_i32).to_ne_bytes().into()),
            (NativeType::Short, 300.0, 300_i16.to_ne_bytes().into()),
            (NativeType::Char, 200.0, vec![200]),
            (NativeType::Enum, 2.0, 2_u16.to_ne_bytes().into()),
        ];
        for (native, number, bytes) in cases {
            let encoded = encode(&scalar(native), &PutValue::Number(number)).unwrap();
            assert_eq!(encoded.bytes, bytes, "{native:?}");
            assert_eq!(encoded.dbr_type, native as chtype);
        }
    }

    #[test]
    fn text_of_a_number_is_read_and_other_text_refused() {
        let double = scalar(NativeType::Double);
        for (given, number) in [
            (" 1.5e3 ", 1500.0),
            ("0x10", 16.0),
            ("-inf", -f64::INFINITY),
        ] {
            let encoded = encode(&double, &text(given)).unwrap();
            assert_eq!(encoded.bytes, f64::to_ne_bytes(number));
        }
        assert_eq!(why(&double, text("abc")), "\"abc\" is not a number");
        assert_eq!(why(&double, text("")), "\"\" is not a number");
        for huge in ["1e400", "-1e400"] {
            let too_large = format!("{huge} is too large for a 64-bit float");
            assert_eq!(why(&double, text(huge)), too_large);
        }
        assert!(why(&double, text("1e-400")).contains("too small"));
        assert!(why(&scalar(NativeType::Float), PutValue::Number(1e-60)).contains("too small"));
        for zero in ["0", "-0.0", "0e5"] {
            assert!(encode(&double, &text(zero)).is_ok(), "{zero}");
        }
    }

    #[test]
    fn nothing_is_rounded_or_cut_to_fit() {
        let long = scalar(NativeType::Long);
        assert_eq!(
            why(&long, PutValue::Number(2.9)),
            "2.9 is not an integer, and the PV takes only integers"
        );
        assert_eq!(
            why(&long, PutValue::Number(3e9)),
            "3000000000 is outside the PV's type, -2147483648 to 2147483647"
        );
        assert_eq!(
            why(&scalar(NativeType::Short), PutValue::Number(f64::NAN)),
            "NaN is not an integer, and the PV takes only integers"
        );
        assert!(why(&scalar(NativeType::Float), PutValue::Number(1e300)).contains("too large"));
        assert!(why(&scalar(NativeType::String), text(&"x".repeat(40))).contains("40 bytes"));
    }

    #[test]
    fn choices_are_taken_by_label_and_by_index() {
        let choices = ["Off", "On", "7"].map(str::to_owned);
        let target = Target {
            choices: &choices,
            ..scalar(NativeType::Enum)
        };
        for (value, index) in [
            (text("On"), 1_u16),
            (text("1"), 1),
            (text("7"), 2),
            (PutValue::Number(0.0), 0),
        ] {
            assert_eq!(encode(&target, &value).unwrap().bytes, index.to_ne_bytes());
        }
        assert_eq!(
            why(&target, text("Nope")),
            "\"Nope\" is not a choice; the PV has: Off, On, 7"
        );
        assert_eq!(
            why(&target, PutValue::Number(9.0)),
            "9 is not an index; the PV has: Off, On, 7"
        );
    }

    #[test]
    fn label_beyond_the_sixteen_that_are_told_is_left_to_the_ioc() {
        let choices: Vec<String> = (0..16).map(|n| format!("State {n}")).collect();
        let target = Target {
            choices: &choices,
            ..scalar(NativeType::Enum)
        };
        assert_eq!(
            encode(&target, &text("State 17")).unwrap().dbr_type,
            DBR_STRING
        );
    }

    #[test]
    fn text_for_a_char_array_ends_with_a_nul_where_there_is_room() {
        let chars = Target {
            count: 4,
            ..scalar(NativeType::Char)
        };
        assert_eq!(encode(&chars, &text("abc")).unwrap().bytes, b"abc\0");
        assert_eq!(encode(&chars, &text("abcd")).unwrap().bytes, b"abcd");
        assert_eq!(encode(&chars, &text("")).unwrap().bytes, b"\0");
        let field = Target {
            long_string: true,
            ..chars
        };
        assert_eq!(why(&field, text("abcd")), "too long: 4 bytes, at most 3");
    }

    #[test]
    fn number_for_a_string_keeps_its_digits() {
        for (number, text) in [
            (9_223_372_036_854_775_808.0, "9223372036854775808"),
            (1e300, "1e300"),
            (-2.5e-7, "-2.5e-7"),
            (0.1, "0.1"),
            (-0.0, "-0"),
            (300.0, "300"),
            (f64::INFINITY, "inf"),
        ] {
            let sent = encode(&scalar(NativeType::String), &PutValue::Number(number)).unwrap();
            assert_eq!(up_to_nul(&sent.bytes), text.as_bytes());
        }
    }

    #[test]
    fn integer_that_a_double_rounds_is_refused_for_the_right_reason() {
        let field = Target {
            field: FieldKind::Integers {
                least: i64::MIN.into(),
                most: i64::MAX.into(),
            },
            ..scalar(NativeType::Double)
        };
        let carried = why(&field, text("9223372036854775807"));
        assert!(carried.contains("write it by pva://"), "{carried}");
        let outside = why(&field, text("9223372036854775808"));
        assert!(
            outside.starts_with("9223372036854775808 is outside the PV's type"),
            "{outside}"
        );
    }

    #[test]
    fn empty_array_that_a_scalar_does_not_take_is_found() {
        let sent = encode(&scalar(NativeType::Double), &PutValue::Numbers(Vec::new())).unwrap();
        let held = sent.unlike(true, 1, &1.5_f64.to_ne_bytes()).unwrap();
        assert_eq!((held.scalar, held.count), (true, 1));
        // An array with room for one element takes it.
        assert_eq!(sent.unlike(true, 0, b""), None);
        assert_eq!(sent.unlike(false, 4, &[0; 32]), None);
    }

    #[test]
    fn text_that_is_read_back_without_its_nul_is_the_same() {
        let chars = Target {
            count: 8,
            ..scalar(NativeType::Char)
        };
        let sent = encode(&chars, &text("abc")).unwrap();
        for read in [&b"abc"[..], b"abc\0", b"abc\0\0\0\0\0", b"abc\0old"] {
            assert_eq!(
                sent.unlike(false, read.len() as u32, read),
                None,
                "{read:?}"
            );
        }
        for read in [&b"ab"[..], b"abcd", b""] {
            let held = sent.unlike(false, read.len() as u32, read);
            assert_eq!(held.unwrap().bytes, read);
        }
        let empty = encode(&chars, &text("")).unwrap();
        assert_eq!(empty.unlike(false, 0, b""), None);
    }

    #[test]
    fn arrays_keep_to_what_the_pv_holds() {
        let three = Target {
            count: 3,
            ..scalar(NativeType::Short)
        };
        let encoded = encode(&three, &PutValue::Numbers(vec![1.0, -2.0])).unwrap();
        assert_eq!(encoded.count, 2);
        assert_eq!(
            why(&three, PutValue::Numbers(vec![0.0; 4])),
            "4 elements, but the PV holds 3 elements"
        );
        let empty = encode(&three, &PutValue::Numbers(Vec::new())).unwrap();
        assert_eq!(empty.count, 0);
    }

    #[test]
    fn number_beyond_the_field_behind_its_channel_is_refused() {
        let int64 = Target {
            field: FieldKind::Integers {
                least: i64::MIN.into(),
                most: i64::MAX.into(),
            },
            ..scalar(NativeType::Double)
        };
        assert_eq!(
            why(&int64, text("9007199254740993")),
            "9007199254740993 is more than Channel Access can carry exactly; write it by pva://"
        );
        for value in [PutValue::Number(1.5), text("nan"), text("1.5")] {
            assert!(why(&int64, value).contains("not an integer"));
        }
        for value in [PutValue::Number(1e19), text("9223372036854775808")] {
            assert!(why(&int64, value).contains("-9223372036854775808 to 9223372036854775807"));
        }
        assert!(encode(&int64, &text("-9007199254740992")).is_ok());
        let float = Target {
            field: FieldKind::Float,
            ..scalar(NativeType::Double)
        };
        assert!(encode(&float, &text("9007199254740993")).is_ok());
    }

    #[test]
    fn only_numbers_that_some_field_may_not_hold_need_to_know_it() {
        let doubtful = |native, number| is_doubtful(native, &PutValue::Number(number));
        for number in [0.5, -1.0, 5e9, f64::NAN, f64::INFINITY] {
            assert!(doubtful(NativeType::Double, number), "{number}");
        }
        assert!(!doubtful(NativeType::Double, 4_294_967_295.0));
        assert!(doubtful(NativeType::Long, 70_000.0) && !doubtful(NativeType::Long, 7.0));
        assert!(doubtful(NativeType::Char, 200.0) && !doubtful(NativeType::Char, 127.0));
        assert!(!doubtful(NativeType::Short, -5.0) && !doubtful(NativeType::Float, 0.5));
        assert!(!is_doubtful(NativeType::Double, &text("abc")));
    }
}
