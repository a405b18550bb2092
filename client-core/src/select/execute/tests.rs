//! Tests of selections over real frames and over states made by hand.

use std::f64::consts::PI;

use pvwire_schema::encode::FrameEncoder;
use pvwire_schema::types::{
    Alarm, Array, BlobValue, Connection, ConnectionState, Filter, FrameKind, Limits, Metadata,
    Node, NodeValue, PvId, Reply, Severity, ValueType,
};

use super::*;
use crate::ingest::Session;
use crate::select::{EVERYTHING, selection};
use crate::store::{Slot, Store, part};

fn program(text: &str) -> Program {
    let plan = selection(text);
    assert!(!plan.starts_with('['), "{plan}");
    Program::new(&plan, false).unwrap()
}

/// The plan of a GraphQL document's selection for one PV.
fn plan_of(fields: &str) -> String {
    let document = ["{ getChannel(id: \"X\") ", fields, " }"].concat();
    let plan = crate::select::Documents::new().plan(&document, None, "");
    let lines: Vec<&str> = plan.lines().skip(2).collect();
    lines.join("\n")
}

/// Its program.
fn graphql(fields: &str) -> Program {
    let plan = plan_of(fields);
    Program::new(&plan, true).unwrap_or_else(|error| panic!("{error:?}: {plan}"))
}

fn number_metadata() -> Metadata {
    Metadata {
        value_type: ValueType::Float64,
        element_count: 1,
        units: "°C".to_owned(),
        precision: Some(3),
        alarm: Limits {
            low: f64::NAN,
            high: 40.0,
        },
        ..Metadata::default()
    }
}

/// A connected PV with a number, a time and an alarm.
fn store() -> (Store, Slot) {
    let mut store = Store::new();
    let slot = store.add("TEMP");
    store.set_connection(
        slot,
        Connection {
            state: ConnectionState::Connected,
            since_ns: 5_000_000,
            read: true,
            write: true,
            puts: true,
            heard_ns: 0,
            write_unknown: false,
        },
    );
    store.set_metadata(slot, &number_metadata());
    store.set_number(slot, PI);
    store.set_time(slot, 1_753_000_000.0, 123_456_789);
    store.set_alarm(
        slot,
        Some(Alarm {
            severity: Severity::Minor,
            status: 4,
        }),
    );
    (store, slot)
}

fn json(program: &Program, store: &Store, slot: Slot) -> String {
    value(program, &SlotPv::new(store, slot, Surroundings::default())).to_json()
}

#[test]
fn a_selection_is_answered_in_its_order() {
    let (store, slot) = store();
    let program = program(
        "{ id here: value { string(units: true) float } time { datetime seconds } \
         status { quality severity message writable } connection { since lastHeard } \
         display { alarmRange { min max } controlRange { min } choices __typename } }",
    );
    assert_eq!(
        json(&program, &store, slot),
        "{\"id\":\"ca://TEMP\",\
         \"here\":{\"string\":\"3.142 °C\",\"float\":3.141592653589793},\
         \"time\":{\"datetime\":\"2025-07-20T08:26:40.123456Z\",\"seconds\":1753000000.1234567},\
         \"status\":{\"quality\":\"WARNING\",\"severity\":\"MINOR\",\"message\":\"HIGH\",\"writable\":true},\
         \"connection\":{\"since\":\"1970-01-01T00:00:00.005Z\",\"lastHeard\":null},\
         \"display\":{\"alarmRange\":{\"min\":null,\"max\":40},\"controlRange\":null,\"choices\":null,\
         \"__typename\":\"ChannelDisplay\"}}"
    );
}

#[test]
fn what_is_not_known_is_null() {
    let mut store = Store::new();
    let slot = store.add("pva://NEW");
    let program = program(EVERYTHING);
    let shown = value(
        &program,
        &SlotPv::new(&store, slot, Surroundings::default()),
    );
    assert_eq!(shown.get("id"), Some(&Value::Text("pva://NEW".into())));
    for missing in ["value", "time", "display"] {
        assert_eq!(shown.get(missing), Some(&Value::Null), "{missing}");
    }
    let status = shown.get("status").unwrap();
    assert_eq!(
        status.get("quality"),
        Some(&Value::Text("UNDEFINED".into()))
    );
    assert_eq!(status.get("severity"), Some(&Value::Null));
    let message = Value::Text("not connected yet".into());
    assert_eq!(status.get("message"), Some(&message));
}

#[test]
fn only_what_changed_is_read_again() {
    let (mut store, slot) = store();
    let program = program("{ id value { float } time { seconds } status { quality } }");
    let mut results = Results::default();
    let mut cells = |store: &Store, parts| {
        results.clear();
        execute(
            &program,
            &SlotPv::new(store, slot, Surroundings::default()),
            parts,
            &mut results,
        );
        results.cells().len()
    };
    assert_eq!(cells(&store, ALL_PARTS), 6, "with two that objects exist");
    assert_eq!(cells(&store, part::ALARM), 1);
    assert_eq!(cells(&store, part::METADATA), 2, "the value");
    assert_eq!(cells(&store, part::TIME), 2);
    assert_eq!(cells(&store, part::SKIPPED), 0);
    store.clear_value(slot);
    assert_eq!(cells(&store, part::VALUE | part::TIME), 2, "null and null");
}

#[test]
fn offsets_count_as_javascript_does() {
    let mut store = Store::new();
    let slot = store.add("X");
    store.set_metadata(
        slot,
        &Metadata {
            units: "°C".into(),
            description: "𝛼-b".into(),
            type_id: "x".repeat(20_000),
            ..Metadata::default()
        },
    );
    let program = program("{ display { units description typeId } }");
    let mut results = Results::new(Units::Utf16);
    execute(
        &program,
        &SlotPv::new(&store, slot, Surroundings::default()),
        ALL_PARTS,
        &mut results,
    );
    let cells = results.cells();
    let text = |cell: u64| ((cell >> 32) & 0x3fff, cell & 0xffff_ffff);
    assert_eq!(text(cells[1]), (2, 0));
    assert_eq!(text(cells[2]), (4, 2), "two for a character beyond 16 bits");
    assert_eq!(text(cells[3]), (0x3fff, 6));
    assert_eq!(
        f64::from_bits(cells[4]),
        20_000.0,
        "a long one says so apart"
    );
}

#[test]
fn a_relay_that_is_silent_makes_its_pvs_unresponsive() {
    let (store, slot) = store();
    let program = program("{ status { quality message } connection { lastHeard unresponsive } }");
    let surroundings = Surroundings {
        heard_ms: 1000.0,
        ..Surroundings::default()
    };
    assert_eq!(
        value(&program, &SlotPv::new(&store, slot, surroundings)).to_json(),
        "{\"status\":{\"quality\":\"UNDEFINED\",\"message\":\"no news\"},\
         \"connection\":{\"lastHeard\":\"1970-01-01T00:00:01.000Z\",\"unresponsive\":true}}"
    );
}

/// A session with one PV that shows these values, and the copies of its arrays.
fn received(metadata: &Metadata, values: &[BlobValue]) -> (Session, Held, Slot) {
    let mut session = Session::new();
    let mut held = Held::new();
    let slot = session.live.add("pva://X");
    session.subscribe(&[slot], Filter::ALL);
    let mut encoder = FrameEncoder::new();
    encoder.begin(FrameKind::Snapshot, 1, 0);
    let reply = Reply::Subscribed {
        ids: vec![PvId(7)],
        errors: Vec::new(),
    };
    encoder.reply(session.last_request(), &reply);
    encoder.metadata(PvId(7), metadata);
    let first = encoder.finish().to_vec();
    session.apply(&first).unwrap();
    for (tick, value) in (2..).zip(values) {
        let mut encoder = FrameEncoder::new();
        encoder.begin(FrameKind::Update, tick, tick - 1);
        encoder.blob(
            PvId(7),
            0,
            value,
            pvwire_schema::encode::RowMarks::default(),
        );
        let bytes = encoder.finish().to_vec();
        session.apply(&bytes).unwrap();
        held.keep(&bytes, &session.arrays);
    }
    (session, held, slot)
}

fn shown(program: &Program, metadata: &Metadata, values: &[BlobValue]) -> String {
    let (session, held, slot) = received(metadata, values);
    let surroundings = Surroundings {
        elements: held.elements(slot),
        ..Surroundings::default()
    };
    value(program, &SlotPv::new(&session.live, slot, surroundings)).to_json()
}

#[test]
fn arrays_are_shortened_in_text() {
    let of = |value_type, count, data: Vec<u8>| {
        let metadata = Metadata {
            value_type,
            precision: Some(1),
            ..Metadata::default()
        };
        let program = program("{ value { string text array } }");
        shown(
            &program,
            &metadata,
            &[BlobValue::array(value_type, count, data)],
        )
    };
    let doubles = [1.0, 2.25, f64::NAN];
    let bytes = doubles
        .iter()
        .flat_map(|number: &f64| number.to_le_bytes())
        .collect();
    assert_eq!(
        of(ValueType::Float64, 3, bytes),
        "{\"value\":{\"string\":\"[1.0, 2.2, nan]\",\"text\":null,\"array\":[1,2.25,null]}}"
    );
    assert_eq!(
        of(ValueType::UInt8, 3, vec![0xe9, 0, 7]),
        "{\"value\":{\"string\":\"[233.0, 0.0, 7.0]\",\"text\":\"é\",\"array\":[233,0,7]}}"
    );
    let eleven = of(ValueType::Int8, 11, vec![255; 11]);
    assert!(eleven.contains(", -1.0, … 11 elements]"), "{eleven}");
}

fn node(name: &str, value: NodeValue) -> Node {
    Node {
        name: name.to_owned(),
        value,
        ..Node::default()
    }
}

fn doubles(numbers: &[f64]) -> NodeValue {
    let data: Vec<u8> = numbers
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .collect();
    NodeValue::Array(Array {
        value_type: ValueType::Float64,
        count: numbers.len() as u32,
        data: data.into(),
    })
}

#[test]
fn changed_fields_apply_to_the_structure_before() {
    let metadata = Metadata {
        value_type: ValueType::Structure,
        type_id: "my:type".into(),
        ..Metadata::default()
    };
    let whole = node(
        "",
        NodeValue::Structure(vec![
            node("a", NodeValue::Number(ValueType::Int32, 1.0)),
            node("b", NodeValue::Text("two".into())),
        ]),
    );
    let part = NodeValue::Structure(vec![node("a", NodeValue::Int64(9))]);
    let values = [
        BlobValue::Structure(whole),
        BlobValue::StructurePart(node("", part)),
    ];
    let program = program("{ value { string structure structures } }");
    assert_eq!(
        shown(&program, &metadata, &values),
        "{\"value\":{\"string\":\"(my:type)\",\"structure\":{\"a\":9,\"b\":\"two\"},\"structures\":null}}"
    );
}

#[test]
fn graphql_makes_tables_and_base64_of_structures() {
    let metadata = Metadata {
        value_type: ValueType::Structure,
        type_id: "epics:nt/NTTable:1.0".into(),
        ..Metadata::default()
    };
    let columns = NodeValue::Structure(vec![
        node("x", doubles(&[0.5, 2.0])),
        node("y", NodeValue::TextArray(vec!["p".into(), "q".into()])),
    ]);
    let table = node(
        "",
        NodeValue::Structure(vec![
            node("labels", NodeValue::TextArray(vec!["First".into()])),
            node("value", columns),
        ]),
    );
    let program = graphql(
        "{ value { table { labels columns { name label stringArray(length: 1) \
         base64Array { numberType base64 } } } ndArray { codec } } display { role form } }",
    );
    assert_eq!(
        shown(&program, &metadata, &[BlobValue::Structure(table)]),
        "{\"value\":{\"table\":{\"labels\":[\"First\"],\"columns\":[\
         {\"name\":\"x\",\"label\":\"First\",\"stringArray\":[\"0.5\"],\
         \"base64Array\":{\"numberType\":\"FLOAT64\",\"base64\":\"AAAAAAAA4D8AAAAAAAAAQA==\"}},\
         {\"name\":\"y\",\"label\":\"y\",\"stringArray\":[\"p\"],\"base64Array\":null}]},\
         \"ndArray\":null},\"display\":{\"role\":\"RO\",\"form\":null}}"
    );
}

#[test]
fn graphql_shows_elements_as_text_and_as_doubles() {
    let metadata = Metadata {
        value_type: ValueType::Int16,
        ..Metadata::default()
    };
    let data = [1_i16, -2, 3]
        .iter()
        .flat_map(|number| number.to_le_bytes());
    let array = BlobValue::array(ValueType::Int16, 3, data.collect::<Vec<u8>>());
    let program = graphql(
        "{ value { stringArray(length: 2) float64Array(length: 1) \
         base64Array(length: 2) { numberType base64 } } }",
    );
    assert_eq!(
        shown(&program, &metadata, &[array]),
        "{\"value\":{\"stringArray\":[\"1\",\"-2\"],\"float64Array\":[1],\
         \"base64Array\":{\"numberType\":\"INT16\",\"base64\":\"AQD+/w==\"}}}"
    );
}

#[test]
fn fields_of_graphql_alone_are_refused_elsewhere() {
    let plan = plan_of("{ value { float table { labels } } }");
    let error = Program::new(&plan, false).unwrap_err();
    assert_eq!(error, UnknownField("table".into()));
}

#[test]
fn seconds_have_the_same_fraction_as_by_division() {
    let mut state = 88_172_645_463_325_252_u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for _ in 0..200_000 {
        let seconds = (1_u64 << (20 + random() % 22)) + random() % (1 << 20);
        let nanoseconds = (random() % 1_000_000_000) as u32;
        let divided = seconds as f64 + f64::from(nanoseconds) / 1e9;
        assert_eq!(
            super::readers::with_fraction(seconds as f64, nanoseconds),
            divided,
            "{seconds} s {nanoseconds} ns"
        );
    }
}

#[test]
fn length_of_whole_values_is_known_before_they_are_written() {
    let array = |value_type: ValueType, data: Vec<u8>| {
        let count = (data.len() / value_type.element_bytes().unwrap()) as u32;
        Array {
            value_type,
            count,
            data: data.into(),
        }
    };
    let doubles: Vec<u8> = (0..1_000)
        .flat_map(|n| (-f64::from(n) / 7e-200).to_le_bytes())
        .collect();
    let integers = vec![u64::MAX.to_le_bytes(); 1_000].concat();
    let field = |name: &str, value: NodeValue| Node {
        name: name.to_owned(),
        value,
        ..Node::default()
    };
    let fields = vec![
        field(
            "value",
            NodeValue::Array(array(ValueType::Float64, doubles.clone())),
        ),
        field(
            "image",
            NodeValue::Array(array(ValueType::UInt8, vec![200; 5_000])),
        ),
        field(
            "labels",
            NodeValue::TextArray(vec!["a \"b\"".to_owned(); 300]),
        ),
        field(
            "any",
            NodeValue::Any(Some(Box::new(field(
                "held",
                NodeValue::Number(ValueType::Int32, 5.0),
            )))),
        ),
    ];
    let connection = Connection {
        state: ConnectionState::Connected,
        since_ns: 0,
        read: true,
        write: true,
        puts: true,
        heard_ns: 0,
        write_unknown: false,
    };
    for blob in [
        BlobValue::Array(array(ValueType::Float64, doubles)),
        BlobValue::Array(array(ValueType::UInt64, integers)),
        BlobValue::Array(array(ValueType::UInt8, vec![b'"'; 5_000])),
        BlobValue::Array(array(ValueType::Int16, vec![0x80; 5_000])),
        BlobValue::Text("a \"long\" text ".repeat(300)),
        BlobValue::TextArray(vec!["on".to_owned(); 500]),
        BlobValue::Structure(field("", NodeValue::Structure(fields.clone()))),
        BlobValue::Structure(field("", NodeValue::StructureArray(fields))),
    ] {
        let metadata = number_metadata();
        let pv = Snapshot::new("X", &connection, Some(&metadata));
        let pv = pv.with_value(Sample::Blob(&blob), 0, Alarm::NONE, None);
        let of = |times: usize| {
            let fields = (0..times).map(|n| {
                format!("a{n}: array t{n}: text s{n}: structure l{n}: structures g{n}: string ")
            });
            program(&format!("{{ value {{ {} }} }}", fields.collect::<String>()))
        };
        let (one, many) = (of(1).length(&pv), of(40).length(&pv));
        assert_eq!(many, 40 * one, "{blob:?}");
        let json = value(&of(40), &pv).to_json().len();
        // A short text, such as that of an array, isn't counted.
        assert!(json < many + 40 * 400, "{json} of {many}: {blob:?}");
        assert!(many < 20 * json, "{many} for {json}: {blob:?}");
    }
    let (store, slot) = store();
    let pv = SlotPv::new(&store, slot, Surroundings::default());
    assert_eq!(program(EVERYTHING).length(&pv), 0, "a number");
}
