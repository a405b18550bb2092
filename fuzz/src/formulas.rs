//! Targets `formulas` and `locals`: whatever a name or a formula says, reading and evaluating it ends
//! with a value or an error of one line.

use pvwire_core::formula::value::{Stamp, Value};
use pvwire_core::formula::{Context, Formula, Input, MAX_TEXT_BYTES, MAX_WORK, Operand};
use pvwire_core::local::{Locals, key};

pub(crate) const FORMULAS: &[&str] = &[
    "`A` + `B` * 2 - c ^ 2 / 3 % 4",
    "a > 1 && b <= 2 || !(c == 3) ? \"high\" : d != 4 ? PI : -E",
    "scale(subArray(a, 1, arrayMax(b)), 2, 1) + arrayOf(1, 2.5e3, 0x1F)",
    "majorAlarm(a > 10, concat(\"too \\\"hot\\\": \", b)) + timestamp(c, \"yyyy-MM-dd HH:mm\")",
    "elementAt(histogramOf(a, 10), 3) + arraySampleWithStride(b, 2, 1) ^ arrayCumSum(c)",
    "enumOf(a, arrayOf(1, 2), arrayOf(\"x\", \"y\", \"z\")) == \"y\" ? indexOf(b) : bitAND(c, 7)",
];

pub(crate) const FORMULA_WORDS: &[&str] = &[
    "(",
    ")",
    ",",
    "+",
    "-",
    "*",
    "/",
    "^",
    "%",
    "!",
    "?",
    ":",
    "&&",
    "|",
    "==",
    "!=",
    "<=",
    ">",
    "`",
    "'",
    "\"",
    "\\",
    "a",
    "b:",
    "1",
    "-1",
    "0.5",
    "1e9",
    "1e-300",
    "1e308",
    "0x",
    "0/0",
    "PI",
    "arrayOf(",
    "subArray(",
    "elementAt(",
    "histogramOf(",
    "arraySampleWithStride(",
    "concat(",
    "timestamp(",
    "enumOf(",
    "bitLeftShift(",
    "fac(",
    "rnd(",
    "scale(",
    "adData(",
    "strEqual(",
    "imageDataVerticalProfile(",
    "highestSeverity(",
    "majorAlarm(",
    "é",
    "\u{10ffff}",
];

/// Inputs of all types, so that each formula is evaluated with other ones.
fn inputs() -> [Input; 9] {
    let labels = ["Off", "On"].map(str::to_owned);
    let numbers = [1.0, -2.5, f64::NAN, f64::INFINITY, 1e300, 0.0];
    let values = [
        Value::Number(3.5),
        Value::Numbers(numbers.into()),
        Value::text("12"),
        Value::Integer(i64::MIN),
        Value::Enum {
            index: -1,
            labels: labels.clone().into(),
        },
        Value::Texts(labels.into()),
        Value::Numbers([].into()),
        Value::Boolean(true),
        Value::Number(f64::NAN),
    ];
    let mut seconds = 1_000_000_000;
    values.map(|value| {
        let mut operand = Operand::new(value);
        seconds = -seconds * 3;
        operand.time = Stamp {
            seconds,
            nanoseconds: 999_999_999,
        };
        Input::Connected(operand)
    })
}

pub(crate) fn formula(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let formula = match Formula::parse(&text) {
        Ok(formula) => formula,
        Err(error) => {
            let characters = text.chars().count();
            assert!(
                (1..=characters + 1).contains(&error.at),
                "{error} in {text:?}"
            );
            return;
        }
    };
    let mut context = Context::default();
    let all = inputs();
    for first in 0..all.len() {
        let shifted = all.iter().cycle().skip(first);
        let given: Vec<Input> = shifted.take(formula.inputs().len()).cloned().collect();
        let result = formula
            .evaluate(&given, &mut context)
            .expect("every input is connected");
        match &result.value {
            Value::Text(text) => assert!(text.len() <= MAX_TEXT_BYTES),
            Value::Numbers(numbers) => assert!(numbers.len() <= MAX_WORK),
            _ => {}
        }
    }
    let gone = formula.evaluate(&[], &mut context);
    assert_eq!(gone.is_none(), !formula.inputs().is_empty());
}

pub(crate) const LOCALS: &[&str] = &[
    "loc://x(3.14)\0x\x002.5",
    "loc://x(\"a\\\"\\u00e9\", \"b\")",
    "loc://x<VEnum>(2,\"A\",\"B\",\"C\")\0B\0-1",
    "loc://x<VDoubleArray>(1, 0x1F, NaN)\x001, 2, 3",
    "loc://x([1, 2.5])",
    "loc://x\0hello\x001",
    "loc://a.b:c-d<VTable>(\"X\")",
    "loc://x<VLong>(9007199254740993)\x001e300",
];

pub(crate) const LOCAL_WORDS: &[&str] = &[
    "loc://",
    "x",
    "(",
    ")",
    "<",
    ">",
    "[",
    "]",
    ",",
    "\"",
    "\\",
    "\\u",
    "\0",
    " ",
    "1",
    "-1",
    "0x",
    "1e999",
    "nan",
    "true",
    "VEnum",
    "VDoubleArray",
    "VStringArray",
    "VTable",
    "VLong",
    "VInt",
    "VBoolean",
    "VString",
    "é",
];

/// Most texts of an input that are written: each reads the name twice.
pub(crate) const MOST_WRITTEN: usize = 8;

/// A name, and behind zero bytes texts that are written.
pub(crate) fn local(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let mut parts = text.split('\0');
    let name = parts.next().unwrap_or_default();
    let mut locals = Locals::default();
    let (kind, value) = match locals.open(name) {
        Ok(local) => (local.kind, local.value.clone()),
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    assert!(key(name).is_ok_and(|key| !key.is_empty() && name.contains(key)));
    let mut before = (kind, value);
    for written in parts.take(MOST_WRITTEN) {
        let outcome = locals.write(name, &Value::text(written)).map(|_| ());
        let local = locals.open(name).expect("it was opened before");
        match outcome {
            Ok(()) => before = (local.kind, local.value.clone()),
            // NaN differs from itself.
            Err(_) => assert_eq!(
                format!("{:?}", (local.kind, &local.value)),
                format!("{:?}", (before.0, &before.1)),
                "a refused write changed the PV"
            ),
        }
    }
}
