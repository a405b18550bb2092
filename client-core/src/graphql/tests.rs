//! Tests of the native executor with PVs that are not in a store.

use std::sync::Arc;

use pvwire_schema::types::{
    Alarm, BlobValue, Connection, ConnectionState, Limits as Range, Metadata, Severity, ValueType,
};

use super::*;
use crate::select::Documents;
use crate::select::execute::ALL_PARTS;
use crate::store::part;

/// 2025-07-20T08:26:40.123456789Z.
const TIME_NS: i64 = 1_753_000_000_123_456_789;

const CONNECTED: Connection = Connection {
    state: ConnectionState::Connected,
    since_ns: 0,
    read: true,
    write: true,
    puts: true,
    heard_ns: 0,
    write_unknown: false,
};

const GONE: Connection = Connection {
    state: ConnectionState::Disconnected,
    read: false,
    write: false,
    ..CONNECTED
};

const MAJOR: Alarm = Alarm {
    severity: Severity::Major,
    status: 3,
};

fn number() -> Metadata {
    Metadata {
        value_type: ValueType::Float64,
        element_count: 1,
        units: "mm".into(),
        precision: Some(2),
        control: Range {
            low: 10.0,
            high: 90.0,
        },
        display: Range {
            low: 0.0,
            high: f64::NAN,
        },
        description: "A motor".into(),
        ..Metadata::default()
    }
}

fn pv<'a>(metadata: &'a Metadata, sample: Sample<'a>, connection: &Connection) -> Snapshot<'a> {
    Snapshot::new("ca://M", connection, Some(metadata)).with_value(sample, TIME_NS, MAJOR, None)
}

fn operation(text: &str, dialect: Dialect) -> Operation {
    let document = Document::compile(text, dialect, Limits::default());
    let document = document.unwrap_or_else(|refusal| panic!("{refusal}"));
    document.operation(None, "").expect("an operation")
}

/// The selection of a document's first field.
fn selection(fields: &str, dialect: Dialect) -> Arc<Selection> {
    let operation = operation(&format!("{{ getChannel(id: \"M\") {fields} }}"), dialect);
    Arc::clone(operation.roots()[0].selection().expect("a selection"))
}

/// In a time zone of six hours and a half.
fn writer() -> Writer {
    Writer::new(|_| 23_400)
}

fn shown(fields: &str, dialect: Dialect, pv: &Snapshot<'_>) -> String {
    let mut out = Vec::new();
    writer().write(&selection(fields, dialect), pv, &mut out);
    String::from_utf8(out).expect("UTF-8")
}

fn coniql(fields: &str, pv: &Snapshot<'_>) -> String {
    shown(fields, Dialect::Coniql, pv)
}

fn response(operation: &Operation, failing: &str) -> String {
    let metadata = number();
    let pv = pv(&metadata, Sample::Number(1.5), &CONNECTED);
    let mut writer = writer();
    let mut out = Vec::new();
    operation.respond(
        |channel, out| {
            if channel.name == failing {
                return Err(Failure::new("no value within 5 s", "TIMED_OUT"));
            }
            writer.write(channel.selection, &pv, out);
            Ok(())
        },
        &mut out,
    );
    String::from_utf8(out).expect("UTF-8")
}

#[test]
fn documents_and_operations_are_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Document>();
    shared::<Operation>();
    shared::<Selection>();
    shared::<Watch>();
}

#[test]
fn equal_selections_of_different_documents_are_equal() {
    let one = selection("{ id value { float } }", Dialect::Pvwire);
    let other = operation(
        "subscription { x: subscribeChannel(id: \"N\") { ...f value { float } } } \
         fragment f on Channel { id }",
        Dialect::Pvwire,
    );
    assert_eq!(Some(&one), other.roots()[0].selection());
    assert_ne!(one, selection("{ id value { string } }", Dialect::Pvwire));
    assert_ne!(one, selection("{ id value { float } }", Dialect::Coniql));
}

#[test]
fn each_limit_ends_in_an_error_that_names_it() {
    let small = Limits {
        bytes: 200,
        tokens: 40,
        depth: 3,
        fields: 5,
        names: 3,
        cost: 6,
        whole_values: 2,
        response: 300,
        introspection: 300,
    };
    let refused = |text: &str| {
        let refusal = match Document::compile(text, Dialect::Pvwire, small) {
            Err(refusal) => refusal,
            Ok(document) => document.operation(None, "").expect_err("a refusal"),
        };
        refusal.errors().to_owned()
    };
    let get = |ids: &str, fields: &str| format!("{{ getChannels(ids: {ids}) {{ {fields} }} }}");
    for (text, expected) in [
        (get("[]", &" ".repeat(200)), "too long"),
        (get("[]", &"id ".repeat(40)), "too many tokens"),
        (
            get("[]", "display { controlRange { min } }"),
            "nested too deep",
        ),
        (get("[]", "id a: id b: id c: id d: id"), "too many fields"),
        (get("[1, 2, 3, 4]", "id"), "too many PVs; the maximum is 3"),
        (
            get("[1, 2, 3]", "id a: id b: id"),
            "of all its PVs; the maximum is 6",
        ),
        (
            get("[1]", "value { a: string b: string c: string }"),
            "whole value of a PV too often; the maximum is 2",
        ),
        (
            "{ __schema { types { name } } }".to_owned(),
            "introspection has more than 300 bytes",
        ),
    ] {
        let errors = refused(&text);
        assert!(errors.contains(expected), "{expected}: {errors}");
    }
}

#[test]
fn a_response_that_is_too_long_ends_with_errors() {
    let limits = Limits {
        response: 50,
        ..Limits::default()
    };
    let cases = [
        ("{ getChannels(ids: [1, 2, 3, 4, 5]) { id } }", ""),
        (
            "mutation { putChannels(ids: [1, 2, 3, 4, 5], values: [\"\", \"\", \"\", \"\", \"\"]) { id } }",
            ",\"extensions\":{\"mayBeWritten\":true}",
        ),
    ];
    for (text, extensions) in cases {
        let document = Document::compile(text, Dialect::Pvwire, limits).expect("a document");
        let response = response(&document.operation(None, "").expect("an operation"), "");
        let name = &text[text.find("Ch").expect("a field") - 3..][..11];
        let message = "the response is longer than 50 bytes; request fewer PVs";
        let column = text.find(name).expect("a field") + 1;
        let error = |index| {
            format!(
                "{{\"message\":\"{message}\",\"locations\":[{{\"line\":1,\"column\":{column}}}],\
                 \"path\":[\"{name}\",{index}]{extensions}}}"
            )
        };
        let channel = "{\"id\":\"ca://M\"}";
        assert_eq!(
            response,
            format!(
                "{{\"errors\":[{},{}],\"data\":{{\"{name}\":[{channel},{channel},{channel},null,null]}}}}",
                error(3),
                error(4)
            )
        );
    }
}

#[test]
fn a_channel_without_a_value_is_null_with_an_error() {
    let text =
        "{ a: getChannel(id: \"A\") { value { float } }\n  b: getChannel(id: \"B\") { id } }";
    assert_eq!(
        response(&operation(text, Dialect::Pvwire), "B"),
        "{\"errors\":[{\"message\":\"no value within 5 s\",\"locations\":[{\"line\":2,\"column\":3}],\
         \"path\":[\"b\"],\"extensions\":{\"code\":\"TIMED_OUT\"}}],\
         \"data\":{\"a\":{\"value\":{\"float\":1.5}},\"b\":null}}"
    );
}

#[test]
fn in_coniql_one_failing_name_makes_data_null() {
    let text = "mutation {\n    putChannels(ids: [\"A\", \"B\"], values: [\"1\", \"2\"]) { id }\n}";
    let failed = "{\"errors\":[{\"message\":\"no value within 5 s\",\
                  \"locations\":[{\"line\":2,\"column\":5}],\"path\":[\"putChannels\"]}],\
                  \"data\":null}";
    assert_eq!(response(&operation(text, Dialect::Coniql), "B"), failed);
    let text = "{\n    getChannel(id: \"B\") { id } }";
    assert_eq!(
        response(&operation(text, Dialect::Coniql), "B"),
        failed.replace("putChannels", "getChannel")
    );
}

#[test]
fn coniql_refuses_fields_that_it_does_not_have() {
    let refusal = |text: &str| {
        let refusal = Document::compile(text, Dialect::Coniql, Limits::default());
        let mut response = Vec::new();
        refusal.expect_err("a refusal").push_response(&mut response);
        String::from_utf8(response).expect("UTF-8")
    };
    assert_eq!(
        refusal("{ getChannel(id: \"A\") { connection { state } } }"),
        "{\"data\":null,\"errors\":[{\"message\":\"Cannot query field \\\"connection\\\" on type \
         \\\"Channel\\\".\",\"locations\":[{\"line\":1,\"column\":25}]}]}"
    );
    for text in [
        "{ getChannels(ids: [\"A\"]) { id } }",
        "{ getChannel(id: \"A\") { value { number } } }",
        "query($x: Double) { getChannel(id: \"A\") { id } }",
        "mutation { putChannels(ids: [], values: [], wait: true) { id } }",
    ] {
        assert!(refusal(text).contains("errors"), "{text}");
    }
}

#[test]
fn coniql_introspection_shows_its_own_schema() {
    let text = "{ __schema { types { name fields { name type { kind ofType { name } } } } } \
                __type(name: \"DateTime\") { description } }";
    let shown = response(&operation(text, Dialect::Coniql), "");
    for expected in [
        "{\"name\":\"Range\",\"fields\":[{\"name\":\"min\",\"type\":{\"kind\":\"NON_NULL\",\
         \"ofType\":{\"name\":\"Float\"}}}",
        "\"__type\":{\"description\":\"Date with time (isoformat)\"}",
    ] {
        assert!(shown.contains(expected), "{expected}: {shown}");
    }
    for missing in ["ChannelConnection", "getChannels", "Double", "ndArray"] {
        assert!(!shown.contains(missing), "{missing}");
    }
}

#[test]
fn a_number_has_the_form_of_its_dialect() {
    let metadata = number();
    let pv = pv(&metadata, Sample::Number(1.0 / 3.0), &CONNECTED);
    let fields = "{ id value { float string(units: true) } time { datetime seconds userTag } \
                  status { quality message mutable } display { description role widget form \
                  units precision controlRange { min max } displayRange { min max } choices } }";
    assert_eq!(
        coniql(fields, &pv),
        "{\"id\":\"ca://M\",\"value\":{\"float\":0.3333333333333333,\"string\":\"0.33 mm\"},\
         \"time\":{\"datetime\":\"2025-07-20T14:56:40.123457\",\"seconds\":1753000000.1234567,\
         \"userTag\":0},\"status\":{\"quality\":\"ALARM\",\"message\":\"\",\"mutable\":true},\
         \"display\":{\"description\":\"M\",\"role\":\"RW\",\"widget\":\"TEXTINPUT\",\"form\":null,\
         \"units\":\"mm\",\"precision\":2,\"controlRange\":{\"min\":10,\"max\":90},\
         \"displayRange\":{\"min\":0,\"max\":1.7976931348623157e+308},\"choices\":null}}"
    );
    let own = "{ time { datetime } status { quality message } display { description \
               displayRange { min max } } }";
    assert_eq!(
        shown(own, Dialect::Pvwire, &pv),
        "{\"time\":{\"datetime\":\"2025-07-20T08:26:40.123456Z\"},\
         \"status\":{\"quality\":\"ALARM\",\"message\":\"HIHI\"},\
         \"display\":{\"description\":\"A motor\",\"displayRange\":{\"min\":0,\"max\":null}}}"
    );
}

#[test]
fn coniql_shows_no_microseconds_at_a_whole_second() {
    let metadata = number();
    let pv = Snapshot::new("M", &CONNECTED, Some(&metadata));
    let pv = pv.with_value(
        Sample::Number(1.0),
        TIME_NS / 1_000_000_000 * 1_000_000_000,
        MAJOR,
        None,
    );
    assert_eq!(
        coniql("{ id time { datetime } }", &pv),
        "{\"id\":\"ca://M\",\"time\":{\"datetime\":\"2025-07-20T14:56:40\"}}"
    );
}

#[test]
fn an_enum_and_a_string_have_the_forms_of_coniql() {
    let metadata = Metadata {
        value_type: ValueType::Enum,
        choices: vec!["m".into(), "mm".into()],
        ..Metadata::default()
    };
    let fields = "{ value { float string named: string(units: true) stringArray } \
                  display { choices units controlRange { min } } }";
    assert_eq!(
        coniql(fields, &pv(&metadata, Sample::Number(1.0), &CONNECTED)),
        "{\"value\":{\"float\":1.0,\"string\":\"mm\",\"named\":\"1\",\"stringArray\":null},\
         \"display\":{\"choices\":[\"m\",\"mm\"],\"units\":null,\"controlRange\":null}}"
    );
    let metadata = Metadata {
        value_type: ValueType::String,
        ..Metadata::default()
    };
    let text = BlobValue::Text("longout".into());
    assert_eq!(
        coniql(
            "{ value { string float } }",
            &pv(&metadata, Sample::Blob(&text), &CONNECTED)
        ),
        "{\"value\":{\"string\":\"longout\",\"float\":null}}"
    );
}

fn doubles(numbers: &[f64]) -> BlobValue {
    let bytes: Vec<u8> = numbers
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .collect();
    BlobValue::array(ValueType::Float64, numbers.len() as u32, bytes)
}

#[test]
fn an_array_has_the_forms_of_coniql() {
    let metadata = Metadata {
        precision: Some(1),
        ..number()
    };
    let array = doubles(&[0.0, 1.688, 2.0]);
    let fields =
        "{ value { float string stringArray(length: 2) base64Array { numberType base64 } } }";
    assert_eq!(
        coniql(fields, &pv(&metadata, Sample::Blob(&array), &CONNECTED)),
        "{\"value\":{\"float\":null,\"string\":\"[0.    1.688 2.   ]\",\
         \"stringArray\":[\"0.0\",\"1.7\"],\"base64Array\":{\"numberType\":\"FLOAT64\",\
         \"base64\":\"AAAAAAAAAAA1XrpJDAL7PwAAAAAAAABA\"}}}"
    );
}

#[test]
fn arrays_are_printed_as_numpy_does() {
    let metadata = number();
    let printed = |array: &BlobValue| {
        let json = coniql(
            "{ value { string } }",
            &pv(&metadata, Sample::Blob(array), &CONNECTED),
        );
        let inner = json
            .strip_prefix("{\"value\":{\"string\":\"")
            .expect("a string");
        inner
            .strip_suffix("\"}}")
            .expect("its end")
            .replace("\\n", "\n")
    };
    assert_eq!(printed(&doubles(&[])), "[]");
    let zeros = printed(&doubles(&[0.0; 50]));
    let line = "0. ".repeat(24);
    assert_eq!(
        zeros,
        format!("[{}\n {}\n 0. 0.]", line.trim_end(), line.trim_end())
    );
    for (numbers, expected) in [
        (
            &[1.5, -2.0, 1.0 / 3.0][..],
            "[ 1.5        -2.          0.33333333]",
        ),
        (&[1e-5, 1.0], "[1.e-05 1.e+00]"),
        (&[1e8, 12.5], "[1.00e+08 1.25e+01]"),
        (&[f64::NAN, 1.0, f64::NEG_INFINITY], "[ nan   1. -inf]"),
    ] {
        assert_eq!(printed(&doubles(numbers)), expected);
    }
    let integers: Vec<u8> = [1_i16, -20].iter().flat_map(|n| n.to_le_bytes()).collect();
    assert_eq!(
        printed(&BlobValue::array(ValueType::Int16, 2, integers)),
        "[  1 -20]"
    );
    let many: Vec<f64> = (0..1001).map(f64::from).collect();
    assert_eq!(
        printed(&doubles(&many)),
        "[   0.    1.    2. ...  998.  999. 1000.]"
    );
}

#[test]
fn a_watch_tells_only_what_changed() {
    let fields = "{ id value { float } time { seconds } status { quality } display { units } }";
    let mut watch = Watch::new(selection(fields, Dialect::Pvwire));
    let mut writer = writer();
    let metadata = number();
    let unknown = Connection {
        state: ConnectionState::Connecting,
        ..GONE
    };
    assert!(!watch.update(&Snapshot::new("M", &unknown, None), ALL_PARTS, &mut writer));
    assert_eq!(watch.full(), b"");
    let first = pv(&metadata, Sample::Number(1.0), &CONNECTED);
    assert!(watch.update(&first, part::VALUE, &mut writer));
    assert_eq!(watch.full(), watch.changes());
    let full = String::from_utf8(watch.full().to_vec()).expect("UTF-8");
    assert!(full.contains("\"units\":\"mm\""), "{full}");

    assert!(
        !watch.update(&first, ALL_PARTS, &mut writer),
        "nothing changed"
    );
    let second = pv(&metadata, Sample::Number(2.0), &CONNECTED);
    assert!(!watch.update(&second, part::SKIPPED, &mut writer));
    assert!(watch.update(&second, part::VALUE | part::TIME, &mut writer));
    assert_eq!(
        String::from_utf8_lossy(watch.changes()),
        "{\"id\":\"ca://M\",\"value\":{\"float\":2},\"time\":null,\"status\":null,\"display\":null}"
    );
    assert_eq!(
        String::from_utf8_lossy(watch.full()),
        full.replace("\"float\":1", "\"float\":2")
    );
}

#[test]
fn a_watch_tells_once_of_an_object_that_is_gone() {
    let fields = "{ value { __typename kind: float } time { seconds } display { units displayRange { min } } }";
    let mut watch = Watch::new(selection(fields, Dialect::Pvwire));
    let mut writer = writer();
    let metadata = number();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let gone = "{\"value\":{\"__typename\":\"ChannelValue\",\"kind\":null},\"time\":{\"seconds\":null},\
                \"display\":null}";
    let first = pv(&metadata, Sample::Number(1.0), &CONNECTED);
    assert!(watch.update(&first, ALL_PARTS, &mut writer));
    let empty = Snapshot::new("ca://M", &CONNECTED, Some(&metadata));
    assert!(watch.update(&empty, ALL_PARTS, &mut writer));
    assert_eq!(text(watch.changes()), gone);
    assert!(text(watch.full()).starts_with("{\"value\":null,\"time\":null,"));
    assert!(!watch.update(&empty, ALL_PARTS, &mut writer), "once");
    let mut behind = Vec::new();
    watch.catch_up(&mut behind);
    assert!(text(&behind).starts_with(&gone[..gone.len() - 5]));
    assert!(text(&behind).contains("\"units\":\"mm\""));

    // What is only not written here stays.
    assert!(watch.update(&first, ALL_PARTS, &mut writer));
    assert!(watch.update_without(&empty, ALL_PARTS, part::VALUE, &mut writer));
    assert_eq!(
        text(watch.changes()),
        "{\"value\":null,\"time\":null,\"display\":null}"
    );
    assert!(
        watch.update(&empty, ALL_PARTS, &mut writer),
        "but not for ever"
    );
    assert_eq!(text(watch.changes()), gone);

    // Subscribers have had results that were written elsewhere.
    watch.begin_again();
    assert!(watch.update(&empty, part::VALUE, &mut writer));
    assert!(text(watch.changes()).starts_with(&gone[..gone.len() - 5]));
}

#[test]
fn coniql_tells_a_disconnection_once() {
    let mut watch = Watch::new(selection(
        "{ value { float } status { quality } display { units } }",
        Dialect::Coniql,
    ));
    let mut writer = writer();
    let metadata = number();
    let connected = pv(&metadata, Sample::Number(42.0), &CONNECTED);
    assert!(watch.update(&connected, ALL_PARTS, &mut writer));
    let gone = pv(&metadata, Sample::Number(42.0), &GONE);
    assert!(watch.update(&gone, part::CONNECTION | part::ACCESS, &mut writer));
    assert_eq!(
        String::from_utf8_lossy(watch.changes()),
        "{\"value\":null,\"status\":{\"quality\":\"INVALID\"},\"display\":null}"
    );
    assert!(!watch.update(&gone, ALL_PARTS, &mut writer));
    let waiting = Watch::new(Arc::clone(watch.selection())).update(&gone, ALL_PARTS, &mut writer);
    assert!(!waiting, "a disconnected PV has no first result");
}

#[test]
fn a_result_of_a_subscription_contains_the_channels_that_changed() {
    let result = |text: &str, channels: &[&[u8]]| {
        let mut out = Vec::new();
        operation(text, Dialect::Pvwire).roots()[0].push_result(channels, &mut out);
        String::from_utf8(out).expect("UTF-8")
    };
    let one = "subscription { a: subscribeChannel(id: \"A\") { id } }";
    assert_eq!(result(one, &[b"{}"]), "{\"data\":{\"a\":{}}}");
    let many = "subscription { subscribeChannels(ids: [\"A\", \"B\"]) { id } }";
    assert_eq!(
        result(many, &[b"{}", b"null"]),
        "{\"data\":{\"subscribeChannels\":[{},null]}}"
    );
}

#[test]
fn a_past_is_a_step_for_a_page_and_an_error_elsewhere() {
    let text = "{ history(id: \"A\", from: \"-10m\", to: null, points: 100) }";
    let plan = Documents::new().plan(text, None, "");
    let mut host = HostOperation::new(&plan, |digits| digits.parse().unwrap_or(f64::NAN));
    assert_eq!(
        host.steps(),
        "[{\"work\":\"history\",\"first\":0,\"names\":[\"A\"],\"range\":{\"id\":\"A\",\"from\":\"-10m\",\"to\":null,\"points\":100},\"selection\":\"\"}]"
    );
    assert_eq!(host.steps(), "[]");
    assert_eq!(host.respond(), "{\"data\":{\"history\":0}}");
    let response = response(&operation(text, Dialect::Pvwire), "");
    assert!(response.contains("NOT_SUPPORTED"), "{response}");
    assert!(
        response.ends_with("\"data\":{\"history\":null}}"),
        "{response}"
    );
}
