//! Names, initial values and writes of local PVs.

use super::*;

fn opened(name: &str) -> Value {
    let mut locals = Locals::default();
    locals.open(name).expect(name).value.clone()
}

fn texts(texts: &[&str]) -> Arc<[String]> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn refused(name: &str) -> String {
    Locals::default().open(name).expect_err(name).to_string()
}

#[test]
fn initial_values_have_the_types_of_phoebus() {
    let choice = |index, labels: &[&str]| Value::Enum {
        index,
        labels: texts(labels),
    };
    for (name, value) in [
        ("loc://x", Value::Number(0.0)),
        ("loc://x()", Value::Number(0.0)),
        ("loc://x(2.5)", Value::Number(2.5)),
        ("loc://x( -1e3 )", Value::Number(-1000.0)),
        ("loc://x(0x1F)", Value::Number(31.0)),
        ("loc://x(\"a\")", Value::text("a")),
        ("loc://x(\"a (b), c\")", Value::text("a (b), c")),
        ("loc://x(\"say \\\"hi\\\"\")", Value::text("say \"hi\"")),
        ("loc://x(1,2, 3)", Value::Numbers([1.0, 2.0, 3.0].into())),
        ("loc://x(\"a\",\"b\")", Value::Texts(texts(&["a", "b"]))),
        ("loc://x(\"a\", 2)", Value::Texts(texts(&["a", "2"]))),
        ("loc://x<VDouble>(2)", Value::Number(2.0)),
        ("loc://x<VInt>(2.7)", Value::Integer(2)),
        (
            "loc://x<VLong>(9007199254740993)",
            Value::Integer(9_007_199_254_740_993),
        ),
        ("loc://x<VLong>(1e10)", Value::Integer(10_000_000_000)),
        ("loc://x<long>", Value::Integer(0)),
        ("loc://x<VBoolean>(true)", Value::Boolean(true)),
        ("loc://x<VBoolean>(0)", Value::Boolean(false)),
        ("loc://x<vstring>(42)", Value::text("42")),
        ("loc://x<VString>", Value::text("")),
        ("loc://x<VDoubleArray>(1)", Value::Numbers([1.0].into())),
        ("loc://x<VDoubleArray>", Value::Numbers([].into())),
        (
            "loc://x<VSTRINGARRAY>(a, \"b\")",
            Value::Texts(texts(&["a", "b"])),
        ),
        (
            "loc://x<VEnum>(2,\"A\",\"B\",\"C\")",
            choice(2, &["A", "B", "C"]),
        ),
        ("loc://x<VEnum>(0, A)", choice(0, &["A"])),
        ("loc://x<VTable>", Value::Table([].into())),
        (
            "loc://x<VTable>(\"X\", \"Y\")",
            Value::Table(texts(&["X", "Y"])),
        ),
    ] {
        assert_eq!(opened(name), value, "{name}");
    }
}

#[test]
fn initial_values_in_json_are_also_understood() {
    assert_eq!(
        opened("loc://x([1, 2.5])"),
        Value::Numbers([1.0, 2.5].into())
    );
    assert_eq!(opened("loc://x([7])"), Value::Numbers([7.0].into()));
    assert_eq!(opened("loc://x([])"), Value::Numbers([].into()));
    assert_eq!(
        opened("loc://x([\"a\", \"\"])"),
        Value::Texts(texts(&["a", ""]))
    );
    assert_eq!(opened("loc://x(true)"), Value::Boolean(true));
    assert_eq!(
        opened("loc://x(\"a\\n\\u00e9\\\\\")"),
        Value::text("a\né\\")
    );
}

#[test]
fn escapes_in_texts_are_those_of_json() {
    let text = |escaped: &str| opened(&format!("loc://x(\"{escaped}\")"));
    assert_eq!(text(r"\b\f\/"), Value::text("\u{8}\u{c}/"));
    assert_eq!(text(r"a\ud83d\ude00b"), Value::text("a😀b"));
    assert_eq!(text(r"\uD83D"), Value::text("\u{fffd}"));
    assert_eq!(
        text(r"\ude00\ud83d\u0041"),
        Value::text("\u{fffd}\u{fffd}A")
    );
    assert!(refused(r#"loc://x("\u+041")"#).contains("invalid initial value"));
    assert!(refused(r#"loc://x("\u00é")"#).contains("invalid initial value"));
}

#[test]
fn wrong_names_say_what_is_expected() {
    for name in [
        "loc://",
        "loc://(1)",
        "loc://a b",
        "loc://x(1",
        "loc://x<VInt(1)",
        "x",
        "loc://x(1)2",
    ] {
        assert!(
            refused(name).contains("loc://name<type>(initial value)"),
            "{name}"
        );
    }
    assert!(refused("loc://x(abc)").contains("invalid initial value abc"));
    assert!(refused("loc://x(\"a)").contains("invalid initial value \"a"));
    assert!(refused("loc://x(1,b)").contains("invalid initial value 1,b"));
    assert!(refused("loc://x<VImage>(1)").contains("unknown type VImage"));
    assert!(refused("loc://x<VDouble>(1,2)").contains("one number"));
    for name in [
        "loc://x<VEnum>",
        "loc://x<VEnum>(0)",
        "loc://x<VEnum>(2,\"A\",\"B\")",
    ] {
        assert!(refused(name).contains("at least one label"), "{name}");
    }
}

#[test]
fn first_initial_value_is_kept() {
    let mut locals = Locals::default();
    locals.open("loc://x(1)").expect("a name");
    assert_eq!(
        locals.open("loc://x(99)").expect("a name").value,
        Value::Number(1.0)
    );
    assert_eq!(
        locals.open("loc://x<VString>(\"a\")").expect("a name").kind,
        Type::Double
    );
    locals.close("loc://x");
    assert_eq!(
        locals.open("loc://x(99)").expect("a name").value,
        Value::Number(99.0)
    );
    assert_eq!(key("loc://a.b:c-d_e<VInt>(1)"), Ok("a.b:c-d_e"));
}

#[test]
fn value_without_an_initial_one_is_undefined_until_written() {
    let mut locals = Locals::default();
    assert_eq!(
        locals.open("loc://x").expect("a name").severity,
        Severity::Undefined
    );
    let local = locals
        .write("loc://x", &Value::Number(2.0))
        .expect("a number");
    assert_eq!(
        (&local.value, local.severity),
        (&Value::Number(2.0), Severity::None)
    );
    assert_eq!(
        locals.open("loc://y(0)").expect("a name").severity,
        Severity::None
    );
}

#[test]
fn first_write_decides_the_type_that_no_name_declares() {
    for (written, kind) in [
        (Value::text("hello"), Type::Text),
        (Value::text("2.5"), Type::Double),
        (Value::Numbers([1.0, 2.0].into()), Type::Numbers),
        (Value::Texts(texts(&["a"])), Type::Texts),
    ] {
        let mut locals = Locals::default();
        assert_eq!(
            locals
                .write("loc://x", &written)
                .expect("a first value")
                .kind,
            kind
        );
    }
    let mut locals = Locals::default();
    locals
        .write("loc://x", &Value::Number(1.0))
        .expect("a number");
    let late = locals.write("loc://x", &Value::text("hello"));
    assert_eq!(
        late.map(|_| ())
            .expect_err("its type is decided")
            .to_string(),
        "\"hello\" is not a number, but the PV holds one"
    );
}

#[test]
fn writes_keep_the_declared_type() {
    for (name, written, value) in [
        ("loc://x(1)", Value::text(" 2.5 "), Value::Number(2.5)),
        ("loc://x(1)", Value::Boolean(true), Value::Number(1.0)),
        ("loc://x<VInt>", Value::Number(-2.9), Value::Integer(-2)),
        (
            "loc://x<VLong>",
            Value::Integer(i64::MAX),
            Value::Integer(i64::MAX),
        ),
        ("loc://x<VLong>", Value::text("12"), Value::Integer(12)),
        (
            "loc://x<VBoolean>",
            Value::text("TRUE"),
            Value::Boolean(true),
        ),
        (
            "loc://x<VBoolean>",
            Value::Number(2.0),
            Value::Boolean(true),
        ),
        ("loc://x(\"a\")", Value::Integer(3), Value::text("3")),
        (
            "loc://x(\"a\")",
            Value::Numbers([1.0, 2.0].into()),
            Value::text("[1.0, 2.0]"),
        ),
        (
            "loc://x(1,2)",
            Value::text("3, 4"),
            Value::Numbers([3.0, 4.0].into()),
        ),
        (
            "loc://x(1,2)",
            Value::Number(5.0),
            Value::Numbers([5.0].into()),
        ),
        (
            "loc://x(\"a\",\"b\")",
            Value::text("c"),
            Value::Texts(texts(&["c"])),
        ),
        (
            "loc://x(\"a\",\"b\")",
            Value::Numbers([1.5].into()),
            Value::Texts(texts(&["1.5"])),
        ),
    ] {
        let mut locals = Locals::default();
        locals.open(name).expect(name);
        assert_eq!(
            locals.write(name, &written).expect(name).value,
            value,
            "{name} {written:?}"
        );
    }
}

#[test]
fn enum_takes_labels_and_indexes() {
    let mut locals = Locals::default();
    let name = "loc://x<VEnum>(0,\"Off\",\"On\",\"5\")";
    let mut index = |value: &Value| match locals.write(name, value) {
        Ok(local) => Ok(local.value.to_number()),
        Err(error) => Err(error.to_string()),
    };
    assert_eq!(index(&Value::text("On")), Ok(1.0));
    assert_eq!(index(&Value::Number(0.0)), Ok(0.0));
    assert_eq!(index(&Value::text("1")), Ok(1.0));
    // A label goes before an index.
    assert_eq!(index(&Value::text("5")), Ok(2.0));
    assert!(index(&Value::Number(3.0)).is_err_and(|error| error.contains("Off, On, 5")));
    assert!(index(&Value::text("Half")).is_err_and(|error| error.contains("\"Half\" is not one")));
}

#[test]
fn refused_write_changes_nothing() {
    let mut locals = Locals::default();
    locals.open("loc://x(1)").expect("a name");
    for value in [
        Value::text("many"),
        Value::Numbers([1.0, 2.0].into()),
        Value::text(""),
    ] {
        locals
            .write("loc://x", &value)
            .map(|_| ())
            .expect_err("no number");
    }
    assert_eq!(
        locals.open("loc://x").expect("a name").value,
        Value::Number(1.0)
    );
    locals
        .write("loc://t<VTable>(\"X\")", &Value::Number(1.0))
        .map(|_| ())
        .expect_err("a table");
    // Nor does it decide a type.
    locals.open("loc://new").expect("a name");
    assert_eq!(locals.open("loc://new").expect("a name").kind, Type::Double);
}

#[test]
fn integer_beyond_the_type_is_refused_and_the_value_stays() {
    for (name, values) in [
        (
            "loc://x<VInt>(7)",
            [
                Value::Number(2_147_483_648.0),
                Value::Number(-2_147_483_649.0),
                Value::Integer(1 << 40),
                Value::text("1e10"),
                Value::Number(f64::NAN),
                Value::Number(f64::INFINITY),
            ],
        ),
        (
            "loc://x<VLong>(7)",
            [
                Value::Number(9_223_372_036_854_775_808.0),
                Value::Number(-1e19),
                Value::text("9223372036854775808"),
                Value::text("1e30"),
                Value::Number(f64::NAN),
                Value::Number(f64::NEG_INFINITY),
            ],
        ),
    ] {
        let mut locals = Locals::default();
        for value in values {
            let refused = locals.write(name, &value).expect_err(name).to_string();
            assert!(refused.contains("is not an integer of"), "{refused}");
        }
        assert_eq!(locals.open(name).unwrap().value, Value::Integer(7));
    }
    let mut locals = Locals::default();
    for (name, text, value) in [
        ("loc://i<VInt>", "-2147483648", i64::from(i32::MIN)),
        ("loc://i<VInt>", "2147483647.9", i64::from(i32::MAX)),
        ("loc://l<VLong>", "9007199254740993", 9_007_199_254_740_993),
        ("loc://l<VLong>", "-9223372036854775808", i64::MIN),
    ] {
        let written = locals.write(name, &Value::text(text)).expect(text);
        assert_eq!(written.value, Value::Integer(value), "{text}");
    }
}
