//! Values of each type, byte for byte as PVWS sends them.

use pvwire_schema::types::{Array, Node, NodeValue};

use super::*;

/// The keys between the name and `readonly` of the first and of the second message.
fn first(dialect: Dialect, metadata: &Metadata, value: Value<'_>) -> [String; 2] {
    let texts = newcomer(dialect, &state(metadata, value));
    let inner = |text: &String| {
        let text = text.strip_prefix(r#"{"type":"update","pv":"X","#).unwrap();
        let end = format!(r#","readonly":false,{TIME}"#);
        text.strip_suffix(&end)
            .unwrap_or_else(|| panic!("{text}"))
            .to_owned()
    };
    [inner(&texts[0]), inner(&texts[1])]
}

const DISPLAY: &str = r#""min":0.0,"max":10.0,"warn_low":0.0,"warn_high":0.0,"alarm_low":"NaN","alarm_high":"NaN","severity":"NONE""#;

#[test]
fn first_message_of_a_double_is_byte_for_byte_that_of_pvws() {
    let metadata = metadata(ValueType::Float64);
    let texts = newcomer(Dialect::Ca, &state(&metadata, Value::Number(5.0)));
    let expected = [
        format!(
            r#"{{"type":"update","pv":"X","vtype":"VDouble","units":"mm","description":null,"precision":3,{DISPLAY},"value":5.0,"readonly":false,{TIME}"#
        ),
        format!(r#"{{"type":"update","pv":"X","value":5.0,"readonly":false,{TIME}"#),
    ];
    assert_eq!(texts, expected);
}

#[test]
fn scalars_have_the_class_and_text_of_their_type() {
    use Dialect::{Ca, Pva};
    for (dialect, value_type, number, vtype, value) in [
        (Ca, ValueType::Float64, 0.0, "VDouble", "0.0"),
        (
            Ca,
            ValueType::Float64,
            9_007_199_254_740_992.0,
            "VDouble",
            "9.007199254740992E15",
        ),
        (Ca, ValueType::Float64, f64::NAN, "VDouble", "\"NaN\""),
        (Ca, ValueType::Float64, f64::INFINITY, "VDouble", "\"NaN\""),
        (
            Ca,
            ValueType::Float64,
            f64::NEG_INFINITY,
            "VDouble",
            "\"NaN\"",
        ),
        (Ca, ValueType::Float32, 2.5, "VFloat", "2.5"),
        (Ca, ValueType::Int32, 7.0, "VInt", "7"),
        (Ca, ValueType::Int16, -7.0, "VShort", "-7"),
        (Ca, ValueType::UInt8, 255.0, "VByte", "-1"),
        (Pva, ValueType::UInt8, 255.0, "VUByte", "255"),
        (Pva, ValueType::Int8, -1.0, "VByte", "-1"),
        (Pva, ValueType::UInt16, 65_535.0, "VUShort", "65535"),
        (
            Pva,
            ValueType::UInt32,
            4_294_967_295.0,
            "VUInt",
            "4294967295",
        ),
        (Pva, ValueType::Int64, -3.0, "VLong", "-3"),
        (Pva, ValueType::UInt64, 3.0, "VULong", "3"),
        // An enum without labels is a number.
        (Ca, ValueType::Enum, 3.0, "VShort", "3"),
    ] {
        let found = first(dialect, &metadata(value_type), Value::Number(number));
        let class = format!(r#""vtype":"{vtype}","units":"mm","#);
        assert!(found[0].starts_with(&class), "{}", found[0]);
        let value = format!(r#""value":{value}"#);
        assert!(found[0].ends_with(&value), "{}", found[0]);
        assert_eq!(found[1], value);
    }
}

#[test]
fn integers_of_64_bits_are_exact() {
    let (long, ulong) = (BlobValue::Int64(i64::MIN), BlobValue::UInt64(u64::MAX));
    for (value_type, blob, vtype, value) in [
        (ValueType::Int64, &long, "VLong", "-9223372036854775808"),
        (ValueType::UInt64, &ulong, "VULong", "18446744073709551615"),
    ] {
        let found = first(Dialect::Pva, &metadata(value_type), Value::Blob(blob));
        assert!(found[0].contains(vtype), "{}", found[0]);
        assert_eq!(found[1], format!(r#""value":{value}"#));
    }
}

#[test]
fn arrays_are_little_endian_base64_under_the_key_of_their_type() {
    use Dialect::{Ca, Pva};
    use ValueType::*;
    let double = 1.5_f64.to_le_bytes();
    let large = 3_000_000_000_u32.to_le_bytes();
    for (dialect, value_type, data, vtype, value) in [
        (
            Ca,
            Float64,
            &double[..],
            "VDoubleArray",
            r#""b64dbl":"AAAAAAAA+D8=""#,
        ),
        (Ca, Float64, &[], "VDoubleArray", r#""b64dbl":"""#),
        (
            Ca,
            Float32,
            &1.5_f32.to_le_bytes(),
            "VFloatArray",
            r#""b64flt":"AADAPw==""#,
        ),
        (
            Ca,
            Int16,
            &[1, 0, 255, 255],
            "VShortArray",
            r#""b64srt":"AQD//w==""#,
        ),
        (
            Ca,
            Int32,
            &[1, 0, 0, 0],
            "VIntArray",
            r#""b64int":"AQAAAA==""#,
        ),
        (Ca, UInt8, b"hi\0", "VByteArray", r#""b64byt":"aGkA""#),
        (Pva, Int8, &[1, 2, 3], "VByteArray", r#""b64byt":"AQID""#),
        (Pva, UInt8, &[255], "VUByteArray", r#""b64int":"/wAAAA==""#),
        (
            Pva,
            UInt16,
            &[255, 255],
            "VUShortArray",
            r#""b64int":"//8AAA==""#,
        ),
        (
            Pva,
            UInt32,
            &[1, 0, 0, 0],
            "VUIntArray",
            r#""b64int":"AQAAAA==""#,
        ),
        (
            Pva,
            Int64,
            &[1, 0, 0, 0, 0, 0, 0, 0],
            "VLongArray",
            r#""b64int":"AQAAAA==""#,
        ),
        (
            Pva,
            UInt64,
            &[1, 0, 0, 0, 0, 0, 0, 0],
            "VULongArray",
            r#""b64int":"AQAAAA==""#,
        ),
        // Integers beyond 32 bits are not truncated.
        (
            Pva,
            UInt32,
            &large,
            "VDoubleArray",
            r#""b64dbl":"AAAAwAta5kE=""#,
        ),
    ] {
        let blob = array(value_type, data);
        let found = first(dialect, &metadata(value_type), Value::Blob(&blob));
        assert!(
            found[0].contains(&format!(r#""vtype":"{vtype}","#)),
            "{}",
            found[0]
        );
        assert!(found[0].ends_with(value), "{}", found[0]);
        assert_eq!(found[1], value);
    }
}

#[test]
fn enum_has_labels_index_and_text() {
    let metadata = Metadata {
        value_type: ValueType::Enum,
        choices: ["off", "on \"x\""].map(str::to_owned).to_vec(),
        ..Metadata::default()
    };
    assert_eq!(
        first(Dialect::Ca, &metadata, Value::Number(1.0)),
        [
            r#""vtype":"VEnum","labels":["off","on \"x\""],"severity":"NONE","value":1,"text":"on \"x\"""#,
            r#""value":1,"text":"on \"x\"""#
        ]
    );
    let [beyond, _] = first(Dialect::Ca, &metadata, Value::Number(2.0));
    let expected =
        r#""value":2,"text":"Invalid index : 2 must be within the label range [off, on \"x\"]"#;
    assert!(
        beyond.starts_with(r#""vtype":"VEnum","#) && beyond.contains(expected),
        "{beyond}"
    );
}

#[test]
fn string_has_its_class_and_text() {
    let text = BlobValue::Text("Hello \"you\"".to_owned());
    let metadata = metadata(ValueType::String);
    assert_eq!(
        first(Dialect::Ca, &metadata, Value::Blob(&text)),
        [
            r#""vtype":"VString","severity":"NONE","text":"Hello \"you\"""#,
            r#""text":"Hello \"you\"""#
        ]
    );
}

#[test]
fn other_values_are_sent_by_their_java_text_alone() {
    let time = "2024-02-29T23:59:59.500Z";
    let texts = BlobValue::TextArray(["a", "b"].map(str::to_owned).to_vec());
    let labels = array(ValueType::Enum, &[1, 0, 9, 0]);
    let of_labels = Metadata {
        choices: ["off", "on"].map(str::to_owned).to_vec(),
        ..metadata(ValueType::Enum)
    };
    for (dialect, metadata, value, alarm, expected) in [
        (
            Dialect::Ca,
            metadata(ValueType::String),
            Value::Blob(&texts),
            HIGH,
            "VStringArray[[a, b], size [2], MINOR(NONE) - HIGH_ALARM",
        ),
        (
            Dialect::Pva,
            metadata(ValueType::Boolean),
            Value::Number(1.0),
            CALM,
            "VBoolean[true, NONE(NONE) - NO_ALARM",
        ),
        (
            Dialect::Ca,
            of_labels,
            Value::Blob(&labels),
            CALM,
            "VEnumArray[[on, 9], size [2], NONE(NONE) - NO_ALARM",
        ),
    ] {
        let mut state = state(&metadata, value);
        state.latest = state.latest.map(|latest| Sample { alarm, ..latest });
        let found = newcomer(dialect, &state);
        let message = format!(
            r#"{{"type":"update","pv":"X","text":"{expected}, {time}]","readonly":false,{TIME}"#
        );
        assert_eq!(found, [message.clone(), message]);
    }
}

#[test]
fn other_structure_is_a_string_of_undefined_severity() {
    let field = Node {
        name: "a".to_owned(),
        type_id: String::new(),
        value: NodeValue::Number(ValueType::Float64, 5.0),
    };
    let exact = Node {
        name: "b".to_owned(),
        value: NodeValue::Array(Array {
            value_type: ValueType::Int64,
            count: 1,
            data: 9_007_199_254_740_993_i64.to_le_bytes().to_vec().into(),
        }),
        ..Node::default()
    };
    let structure = BlobValue::Structure(Node {
        value: NodeValue::Structure(vec![field, exact]),
        ..Node::default()
    });
    let [found, _] = first(
        Dialect::Pva,
        &metadata(ValueType::Structure),
        Value::Blob(&structure),
    );
    let begin = r#""vtype":"VString","severity":"UNDEFINED","text":"structure "#;
    assert!(
        found.starts_with(begin) && found.contains("double a 5"),
        "{found}"
    );
    assert!(
        found.contains("long[] b [9007199254740993]"),
        "every digit: {found}"
    );
}

#[test]
fn limits_and_digits_follow_the_rules_of_pvws() {
    let limits = |low, high| Limits { low, high };
    let nan = f64::NAN;
    let base = metadata(ValueType::Float64);
    let with = |display, form: &str, precision| Metadata {
        display,
        precision,
        form: form.to_owned(),
        ..base.clone()
    };
    for (metadata, expected) in [
        (
            with(limits(nan, nan), "", None),
            r#""description":"","precision":3,"min":"NaN","max":"NaN","#,
        ),
        (
            with(limits(nan, 1.0), "", Some(0)),
            r#""precision":0,"min":"-Infinity","max":1.0,"#,
        ),
        (
            with(limits(1.0, nan), "", Some(-1)),
            r#""description":"","min":1.0,"max":"Infinity","#,
        ),
        (
            with(limits(9.0, 1.0), "", Some(2)),
            r#""precision":2,"min":1.0,"max":9.0,"#,
        ),
        (
            with(limits(0.0, 0.0), "Hex", Some(2)),
            r#""description":"","min":0.0,"max":0.0,"#,
        ),
        (
            with(limits(0.0, 1e7), "Exponential", Some(2)),
            r#""description":"","min":0.0,"max":1.0E7,"#,
        ),
        (
            with(limits(0.0, 0.0), "Engineering", Some(2)),
            r#""precision":2,"min":0.0,"max":0.0,"#,
        ),
    ] {
        let [found, _] = first(Dialect::Pva, &metadata, Value::Number(0.0));
        assert!(found.contains(expected), "{found}");
    }
    let [integer, _] = first(Dialect::Ca, &metadata(ValueType::Int32), Value::Number(0.0));
    assert!(integer.contains(r#""precision":0,"#), "{integer}");
}
