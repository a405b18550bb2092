//! Reads the names of local PVs: `loc://name<type>(initial value)`.

use super::{LocalError, SCHEME};
use crate::formula::value::{Value, number_in};

/// Type of a local PV.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Type {
    /// `VDouble`.
    Double,
    /// `VInt`.
    Int,
    /// `VLong`.
    Long,
    /// `VBoolean`.
    Boolean,
    /// `VString`.
    Text,
    /// `VEnum`.
    Enum,
    /// `VDoubleArray`.
    Numbers,
    /// `VStringArray`.
    Texts,
    /// `VTable`.
    Table,
}

/// Parts of type names, as lenient as Phoebus: in any case, the longer ones first.
const TYPES: [(&str, Type); 10] = [
    ("doublearray", Type::Numbers),
    ("stringarray", Type::Texts),
    ("double", Type::Double),
    ("string", Type::Text),
    ("enum", Type::Enum),
    ("long", Type::Long),
    ("int", Type::Int),
    ("bool", Type::Boolean),
    ("table", Type::Table),
    ("float", Type::Double),
];

/// The parts of a name.
#[derive(Debug)]
pub(super) struct Declaration<'a> {
    /// The name without scheme, type and initial value.
    pub(super) key: &'a str,
    pub(super) kind: Type,
    pub(super) value: Value,
    pub(super) has_initial: bool,
}

impl<'a> Declaration<'a> {
    pub(super) fn parse(name: &'a str) -> Result<Self, LocalError> {
        let rest = name.trim().strip_prefix(SCHEME).ok_or(LocalError::Name)?;
        let end = rest.find(['<', '(']).unwrap_or(rest.len());
        let (key, mut rest) = rest.split_at_checked(end).ok_or(LocalError::Name)?;
        let key = key.trim_end();
        if key.is_empty() || key.contains([')', '>']) || key.contains(char::is_whitespace) {
            return Err(LocalError::Name);
        }
        let mut kind = None;
        if let Some(after) = rest.strip_prefix('<') {
            let (text, after) = after.split_once('>').ok_or(LocalError::Name)?;
            kind = Some(type_named(text)?);
            rest = after.trim_start();
        }
        let initial = match rest.strip_prefix('(') {
            Some(inner) => Some(inner.strip_suffix(')').ok_or(LocalError::Name)?),
            None if rest.is_empty() => None,
            None => return Err(LocalError::Name),
        };
        let initial = initial.map(str::trim).filter(|text| !text.is_empty());
        let (kind, value) = match initial {
            None => without_initial(kind.unwrap_or(Type::Double))?,
            Some(text) => {
                let (items, is_list) = items(text)?;
                let kind = kind.unwrap_or_else(|| guessed(&items, is_list));
                (kind, initial_value(kind, &items, text)?)
            }
        };
        Ok(Self {
            key,
            kind,
            value,
            has_initial: initial.is_some() || kind == Type::Text,
        })
    }
}

fn type_named(text: &str) -> Result<Type, LocalError> {
    let contains = |part: &[u8]| {
        let mut windows = text.as_bytes().windows(part.len());
        windows.any(|window| window.eq_ignore_ascii_case(part))
    };
    let found = TYPES.iter().find(|(part, _)| contains(part.as_bytes()));
    found
        .map(|(_, kind)| *kind)
        .ok_or_else(|| LocalError::Type(text.to_owned()))
}

/// One item of an initial value.
#[derive(Debug)]
enum Item {
    Quoted(String),
    /// Any other text.
    Bare(String),
}

impl Item {
    fn text(&self) -> &str {
        match self {
            Self::Quoted(text) | Self::Bare(text) => text,
        }
    }

    fn number(&self) -> Option<f64> {
        match self.text() {
            "true" => Some(1.0),
            "false" => Some(0.0),
            text => number_in(text),
        }
    }

    fn is_boolean(&self) -> bool {
        matches!(self, Self::Bare(text) if text == "true" || text == "false")
    }
}

/// The items of an initial value, and whether it is a list in brackets.
fn items(text: &str) -> Result<(Vec<Item>, bool), LocalError> {
    let invalid = || LocalError::Initial(text.to_owned());
    let list = text
        .strip_prefix('[')
        .and_then(|inner| inner.strip_suffix(']'));
    let mut rest = list.unwrap_or(text).trim();
    let mut items = Vec::new();
    if rest.is_empty() {
        return Ok((items, list.is_some()));
    }
    loop {
        rest = rest.trim_start();
        if let Some(quoted) = rest.strip_prefix('"') {
            let (item, after) = unquoted(quoted).ok_or_else(invalid)?;
            items.push(Item::Quoted(item));
            rest = after.trim_start();
            match rest.strip_prefix(',') {
                Some(after) => rest = after,
                None if rest.is_empty() => break,
                None => return Err(invalid()),
            }
        } else if let Some((item, after)) = rest.split_once(',') {
            items.push(Item::Bare(item.trim().to_owned()));
            rest = after;
        } else {
            items.push(Item::Bare(rest.trim().to_owned()));
            break;
        }
    }
    Ok((items, list.is_some()))
}

/// The text up to the closing quote, and what follows it. Escapes are those of JSON; a backslash
/// before another character is part of the text.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let mut item = String::new();
    let mut rest = text.chars();
    loop {
        match rest.next()? {
            '"' => return Some((item, rest.as_str())),
            '\\' => match rest.next()? {
                'n' => item.push('\n'),
                'r' => item.push('\r'),
                't' => item.push('\t'),
                'b' => item.push('\u{8}'),
                'f' => item.push('\u{c}'),
                'u' => {
                    let (character, after) = escaped_character(rest.as_str())?;
                    item.push(character);
                    rest = after.chars();
                }
                escaped @ ('"' | '\\' | '/') => item.push(escaped),
                other => item.extend(['\\', other]),
            },
            other => item.push(other),
        }
    }
}

/// The character that follows `\u`, and what comes after it. Two surrogates are one character; one
/// without the other is the replacement character.
fn escaped_character(text: &str) -> Option<(char, &str)> {
    let (first, rest) = code_unit(text)?;
    let second = || code_unit(rest.strip_prefix("\\u")?);
    if let Some((second, after)) = second()
        && let Some(Ok(character)) = char::decode_utf16([first, second]).next()
        && character.len_utf16() == 2
    {
        return Some((character, after));
    }
    let character = char::from_u32(first.into());
    Some((character.unwrap_or(char::REPLACEMENT_CHARACTER), rest))
}

/// Four hexadecimal digits, and what follows them.
fn code_unit(text: &str) -> Option<(u16, &str)> {
    let (digits, rest) = text.split_at_checked(4)?;
    let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let unit = u16::from_str_radix(digits, 16).ok()?;
    is_hex.then_some((unit, rest))
}

/// The type of an initial value, if the name has no type.
fn guessed(items: &[Item], is_list: bool) -> Type {
    let is_text = items.iter().any(|item| matches!(item, Item::Quoted(_)));
    let is_array = is_list || items.len() != 1;
    match (is_text, is_array) {
        (true, true) => Type::Texts,
        (true, false) => Type::Text,
        (false, true) => Type::Numbers,
        (false, false) if items[0].is_boolean() => Type::Boolean,
        (false, false) => Type::Double,
    }
}

fn initial_value(kind: Type, items: &[Item], text: &str) -> Result<Value, LocalError> {
    let invalid = || LocalError::Initial(text.to_owned());
    let unfit = |expected| LocalError::Fit {
        text: text.to_owned(),
        expected,
    };
    let one = |expected| match items {
        [item] => Ok(item),
        _ => Err(unfit(expected)),
    };
    let number = |expected| one(expected)?.number().ok_or_else(invalid);
    let texts = |items: &[Item]| items.iter().map(|item| item.text().to_owned()).collect();
    Ok(match kind {
        Type::Double => Value::Number(number("one number")?),
        Type::Int => Value::Integer(i64::from(number("one number")? as i32)),
        Type::Long => {
            // A double can't hold all digits of a large integer.
            let exact = one("one number")?.text().parse();
            Value::Integer(exact.map_or_else(|_| number("one number").map(|n| n as i64), Ok)?)
        }
        Type::Boolean => Value::Boolean(number("true or false")? != 0.0),
        Type::Text => Value::text(one("one text")?.text()),
        Type::Numbers => {
            let numbers: Option<_> = items.iter().map(Item::number).collect();
            Value::Numbers(numbers.ok_or_else(invalid)?)
        }
        Type::Texts => Value::Texts(texts(items)),
        Type::Table => Value::Table(texts(items)),
        Type::Enum => {
            let expected = "an index and at least one label, such as (0, \"A\", \"B\")";
            let [index, labels @ ..] = items else {
                return Err(unfit(expected));
            };
            let number = index.number().filter(|index| {
                // It must be the index of a label.
                index.fract() == 0.0 && (0.0..labels.len() as f64).contains(index)
            });
            Value::Enum {
                index: number.ok_or_else(|| unfit(expected))? as i32,
                labels: texts(labels),
            }
        }
    })
}

fn without_initial(kind: Type) -> Result<(Type, Value), LocalError> {
    let value = match kind {
        Type::Double => Value::Number(0.0),
        Type::Int | Type::Long => Value::Integer(0),
        Type::Boolean => Value::Boolean(false),
        Type::Text => Value::text(""),
        Type::Numbers => Value::Numbers([].into()),
        Type::Texts => Value::Texts([].into()),
        Type::Table => Value::Table([].into()),
        Type::Enum => initial_value(kind, &[], "()")?,
    };
    Ok((kind, value))
}
