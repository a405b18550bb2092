//! Runs the cases of `vectors/formula.json`: every operator and function, precedence, alarms,
//! disconnected inputs and errors. The same file is run through WebAssembly.

use std::collections::BTreeSet;

use pvwire_core::formula::value::{Severity, Stamp, Value};
use pvwire_core::formula::{Alarm, Context, Formula, Input, MAX_WORK, Operand};
use serde_json::Value as Json;

const VECTORS: &str = include_str!("vectors/formula.json");

fn number(json: &Json) -> Option<f64> {
    let named = json.get("number").and_then(Json::as_str);
    json.as_f64().or_else(|| named?.parse().ok())
}

fn texts(json: &[Json]) -> Vec<String> {
    json.iter()
        .map(|text| text.as_str().expect("a text").to_owned())
        .collect()
}

fn value(json: &Json) -> Value {
    if let Some(number) = number(json) {
        return Value::Number(number);
    }
    match json {
        Json::String(text) => Value::text(text),
        Json::Array(list) if list.first().is_some_and(Json::is_string) => {
            Value::Texts(texts(list).into())
        }
        Json::Array(list) => Value::Numbers(
            list.iter()
                .map(|one| number(one).expect("a number"))
                .collect(),
        ),
        _ => {
            if let Some(integer) = json["integer"].as_i64() {
                return Value::Integer(integer);
            }
            if let Some(is) = json["boolean"].as_bool() {
                return Value::Boolean(is);
            }
            let parts = json["enum"].as_array().expect("a value");
            Value::Enum {
                index: i32::try_from(parts[0].as_i64().expect("an index")).expect("an index"),
                labels: texts(&parts[1..]).into(),
            }
        }
    }
}

fn severity(json: &Json) -> Severity {
    let name = json["severity"].as_str().unwrap_or("NONE");
    let at = Severity::LABELS.iter().position(|label| *label == name);
    Severity::from_number(u8::try_from(at.expect("a severity")).expect("a small number"))
}

fn alarm(json: &Json) -> Alarm {
    let status = json["status"].as_u64().unwrap_or(0);
    let status = u16::try_from(status).expect("a small number");
    let message = json["message"].as_str().unwrap_or_default();
    Alarm::new(severity(json), status, message)
}

fn stamp(json: &Json) -> Stamp {
    Stamp {
        seconds: json[0].as_i64().expect("seconds"),
        nanoseconds: u32::try_from(json[1].as_u64().expect("nanoseconds")).expect("nanoseconds"),
    }
}

fn input(json: Option<&Json>) -> Input {
    let Some(json) = json.filter(|json| json.is_object()) else {
        return Input::Disconnected;
    };
    let mut operand = Operand::new(value(&json["value"]));
    operand.alarm = alarm(json);
    if let Some(time) = json.get("time") {
        operand.time = stamp(time);
    }
    if let Some(limits) = json.get("display").and_then(Json::as_array) {
        operand.display = (
            limits[0].as_f64().expect("low"),
            limits[1].as_f64().expect("high"),
        );
    }
    Input::Connected(operand)
}

fn context() -> Context {
    Context {
        now: Stamp {
            seconds: 1000,
            nanoseconds: 0,
        },
        utc_offset_seconds: 2 * 3600,
        ..Context::default()
    }
}

fn is_close(a: f64, b: f64) -> bool {
    // Math libraries differ in the last digits.
    a.to_bits() == b.to_bits()
        || a.is_nan() && b.is_nan()
        || (a - b).abs() <= 1e-12 * a.abs().max(b.abs()).max(1e-3)
}

fn are_close(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => is_close(*a, *b),
        (Value::Numbers(a), Value::Numbers(b)) => {
            a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| is_close(*a, *b))
        }
        _ => a == b,
    }
}

/// What is wrong with one case.
fn check(case: &Json, inputs: &Json) -> Result<(), String> {
    let text = case["formula"].as_str().expect("a formula");
    let wrong = |what: String| Err(format!("{text}: {what}"));
    let formula = match (Formula::parse(text), case["error"].as_str()) {
        (Err(error), Some(expected)) if error.to_string() == expected => return Ok(()),
        (Err(error), _) => return wrong(error.to_string()),
        (Ok(_), Some(_)) => return wrong("no error".to_owned()),
        (Ok(formula), None) => formula,
    };
    let given: Vec<_> = formula
        .inputs()
        .iter()
        .map(|name| input(inputs.get(name)))
        .collect();
    let result = formula.evaluate(&given, &mut context());
    let expected = &case["gives"];
    let Some(result) = result else {
        return if expected.is_null() {
            Ok(())
        } else {
            wrong("disconnected".to_owned())
        };
    };
    if expected.is_null() || !are_close(&result.value, &value(expected)) {
        return wrong(format!("{:?}", result.value));
    }
    if result.alarm != alarm(case) {
        return wrong(format!("{:?}", result.alarm));
    }
    match case.get("time") {
        Some(time) if stamp(time) != result.time => wrong(format!("{:?}", result.time)),
        _ => Ok(()),
    }
}

#[test]
fn every_case_gives_what_its_vector_says() {
    let groups: Vec<Json> = serde_json::from_str(VECTORS).expect("valid JSON");
    let mut wrong = Vec::new();
    for group in &groups {
        let cases = group["cases"].as_array().expect("cases");
        let checked = cases.iter().map(|case| check(case, &group["inputs"]));
        let problems = checked.filter_map(Result::err);
        wrong.extend(problems.map(|problem| format!("{}: {problem}", group["name"])));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn vectors_call_every_function() {
    let called: BTreeSet<&str> = VECTORS.split(|c: char| !c.is_alphanumeric()).collect();
    for name in pvwire_core::formula::function_names() {
        assert!(called.contains(name), "no case calls {name}");
    }
}

#[test]
fn inputs_are_named_once_in_their_order() {
    let formula = Formula::parse("`b` + a * 'b' + sin(`c.EGU`)").expect("a formula");
    assert_eq!(formula.inputs(), ["b", "a", "c.EGU"]);
}

#[test]
fn deep_nesting_is_an_error() {
    for (open, close) in [
        ("(", ")"),
        ("abs(", ")"),
        ("-", ""),
        ("!", ""),
        ("1 ? 1 : ", ""),
    ] {
        let text = format!("{}1{}", open.repeat(1000), close.repeat(1000));
        let error = Formula::parse(&text)
            .map(|_| ())
            .expect_err(open)
            .to_string();
        assert!(error.contains("more than 100 levels of nesting"), "{error}");
    }
    let text = format!("{}1{}", "(".repeat(100), ")".repeat(100));
    assert!(Formula::parse(&text).is_ok());
}

#[test]
fn long_formulas_and_many_inputs_are_errors() {
    let sum = vec!["1"; 5000].join("+");
    assert!(Formula::parse(&sum).is_ok());
    let error = Formula::parse(&format!("{sum}+1"))
        .map(|_| ())
        .expect_err("too long");
    assert_eq!(
        error.to_string(),
        "character 10001: the formula has more than 10000 characters"
    );
    let names: Vec<String> = (0..257).map(|number| format!("p{number}")).collect();
    let error = Formula::parse(&names.join("+"))
        .map(|_| ())
        .expect_err("too many");
    assert!(
        error
            .to_string()
            .ends_with("the formula has more than 256 PVs"),
        "{error}"
    );
    assert!(Formula::parse(&names[..256].join("+")).is_ok());
}

#[test]
fn work_on_huge_arrays_is_bounded() {
    let array = Input::Connected(Operand::new(Value::Numbers(vec![1.0; 1 << 22].into())));
    let evaluated = |text: &str| {
        let formula = Formula::parse(text).expect("a formula");
        let result = formula.evaluate(std::slice::from_ref(&array), &mut Context::default());
        result.expect("a connected input")
    };
    let sum = evaluated("arrayTotal(`w` + `w`)");
    assert_eq!(sum.value, Value::Number(f64::from(1 << 23)));
    let too_much = evaluated("arrayTotal(`w` + `w` + `w` + `w` + `w` + `w`)");
    assert_eq!(
        too_much.value,
        Value::text(&format!(
            "the formula works on more than {MAX_WORK} elements of arrays"
        ))
    );
    assert_eq!(too_much.alarm.severity, Severity::Invalid);
    for text in ["concat(`w`)", "\"a\" + `w`", "timestamp(`w`, \"\" + `w`)"] {
        assert_eq!(
            evaluated(text).value,
            Value::text("the text is longer than 65536 bytes")
        );
    }
}

#[test]
fn texts_cannot_grow_without_bound() {
    let long = Input::Connected(Operand::new(Value::text(&"x".repeat(60_000))));
    let text = vec!["`t`"; 2000].join(",");
    let formula = Formula::parse(&format!("concat({text})")).expect("a formula");
    let result = formula.evaluate(std::slice::from_ref(&long), &mut Context::default());
    let result = result.expect("a connected input");
    assert_eq!(
        result.value,
        Value::text("the text is longer than 65536 bytes")
    );
}

#[test]
fn random_numbers_differ_and_stay_in_range() {
    let formula = Formula::parse("rnd(10)").expect("a formula");
    let mut context = context();
    let mut seen = BTreeSet::new();
    for _ in 0..100 {
        let result = formula.evaluate(&[], &mut context).expect("no inputs");
        let number = result.value.to_number();
        assert!((0.0..10.0).contains(&number));
        seen.insert(number.to_bits());
    }
    assert_eq!(seen.len(), 100);
}

#[test]
fn name_of_a_formula_begins_with_its_sign_or_scheme() {
    use pvwire_core::formula::expression;
    assert_eq!(expression("=A + 1"), Some("A + 1"));
    assert_eq!(expression("eq://A + 1"), Some("A + 1"));
    assert_eq!(expression("ca://A"), None);
}
