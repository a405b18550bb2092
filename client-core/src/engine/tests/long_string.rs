//! Arrays as inputs of formulas: characters of a long string are a text, other arrays are numbers.

use pvwire_schema::types::Metadata;

use super::*;

/// The value of `` =`NAME` `` when the PV has this array.
fn of_formula(name: &str, form: &str, array: Array) -> (bool, String) {
    let mut engine = Engine::new();
    let pvs = engine.open([format!("=`{name}`")], Filter::ALL, at(0.0));
    connect(&mut engine, 0.0);
    sent(&mut engine, 0.0);
    let reply = Reply::Subscribed {
        ids: vec![PvId(1)],
        errors: Vec::new(),
    };
    let metadata = Metadata {
        value_type: array.value_type,
        form: form.to_owned(),
        ..Metadata::default()
    };
    let value = BlobValue::Array(array);
    let bytes = frame(FrameKind::Snapshot, 10, 0, |e| {
        e.reply(1, &reply);
        e.metadata(PvId(1), &metadata);
        e.connection(PvId(1), connected());
        e.blob(PvId(1), 1, &value, RowMarks::default());
    });
    engine.receive(bytes, at(0.0)).unwrap();
    engine.changes();
    match engine.read(pvs[0]).unwrap().value().unwrap() {
        Value::Text(text) => (true, text.to_owned()),
        Value::Array(array) => (false, format!("{:?}", array.numbers())),
        other => panic!("{other:?}"),
    }
}

fn characters(value_type: ValueType, bytes: &[u8]) -> Array {
    Array {
        value_type,
        count: bytes.len() as u32,
        data: bytes.to_vec().into(),
    }
}

#[test]
fn only_characters_of_long_strings_are_a_text() {
    let text = |text: &str| (true, text.to_owned());
    let hi = || characters(ValueType::Int8, b"hi\0x");
    assert_eq!(of_formula("A.NAME$", "", hi()), text("hi"));
    let latin_1 = characters(ValueType::UInt8, b"\xb0C");
    assert_eq!(of_formula("A", "String", latin_1), text("°C"));
    let numbers = (false, "[104.0, 105.0, 0.0, 120.0]".to_owned());
    assert_eq!(of_formula("A", "", hi()), numbers);

    let data: Vec<u8> = [104.0_f64, 0.5].map(f64::to_le_bytes).concat();
    let doubles = || Array {
        value_type: ValueType::Float64,
        count: 2,
        data: data.clone().into(),
    };
    let numbers = (false, "[104.0, 0.5]".to_owned());
    assert_eq!(of_formula("A.VAL$", "", doubles()), numbers);
    assert_eq!(of_formula("A", "String", doubles()), numbers);
}
