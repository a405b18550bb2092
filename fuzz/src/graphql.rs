//! GraphQL documents and selections: read and compiled, and executed on PVs of any state.

use pvwire_core::graphql::{
    Dialect, Document, Failure, Limits, Operation, Request, Watch, Writer, put_value, takes_text,
};
use pvwire_core::select::{self, Documents};
use serde_json::Value as Json;

use crate::states::{Bytes, State};

pub(crate) const SEEDS: &[&str] = &[
    "{ value { float string(units: true) } status { severity } time { datetime } }",
    "query Screen($pv: ID! = \"X\", $units: Boolean = true, $skip: Boolean! = false) {\n  a: \
     getChannel(id: $pv) { ...channel @skip(if: $skip) }\n  b: getChannel(id: \"\"\"Y\"\"\", \
     timeout: 0.5) { id value { s: string(units: $units) } }\n}\nfragment channel on Channel { id \
     status { ...status } ... @include(if: true) { time { seconds } } }\nfragment status on \
     ChannelStatus { quality __typename }\0Screen\0{\"pv\":\"Z\",\"units\":false}",
    "mutation Put($values: [String!]!) { putChannels(ids: [\"A\", 5], values: $values) { id } \
     }\0Put\0{\"values\":[\"1\",\"\\u0041\"]}",
    "subscription { subscribeChannel(id: \"ca://TEMP\") { value { float } display { controlRange { \
     min max } choices } } }",
    "query { __schema { types { name fields { name type { kind ofType { name } } } } } }",
];

pub(crate) const WORDS: &[&str] = &[
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    ":",
    "!",
    "$",
    "@",
    "...",
    "=",
    "|",
    "&",
    "#",
    "\"",
    "\"\"\"",
    "\\",
    "\\u",
    "\\u{",
    "\\uD800",
    "-",
    "0",
    "1e",
    "1e309",
    ".5",
    "null",
    "true",
    "query",
    "mutation",
    "subscription",
    "fragment",
    "on",
    "a",
    "a:",
    "__typename",
    "@skip(if: ",
    "...a",
    "\0",
    "{\"a\":",
    "é",
    "\u{feff}",
    "\r\n",
    "\u{10ffff}",
];

/// A selection, or a document with the name of an operation and variables behind zero bytes.
pub(crate) fn run(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let mut parts = text.splitn(3, '\0');
    let (document, operation) = (parts.next().unwrap_or_default(), parts.next());
    let variables = parts.next().unwrap_or_default();
    let first = Documents::new().plan(document, operation, variables);
    let mut documents = Documents::new();
    let kept = [(); 2].map(|()| documents.plan(document, operation, variables));
    assert_eq!(kept, [first.clone(), first], "a kept document is another");
    let _ = select::selection(document);
}

pub(crate) const DOCUMENTS: &[&str] = &[
    "{ getChannel(id: \"X\") { id value { float string(units: true) text exact number bigint array structure structures } time { seconds nanoseconds userTag datetime } status { quality message mutable severity alarmStatus writable } } }\0\0\0\0\0\0\0\x06\x01\x02",
    "{ getChannels(ids: [\"X\", \"Y\"]) { display { description role widget units precision form choices type elementCount typeId controlRange { min max } } connection { state connected since lastHeard unresponsive readable reason } skipped skips { behind paced } } }\0\0\0\0\0\0\0\x01\x04",
    "subscription S($u: Boolean = true) { subscribeChannels(ids: [\"X\"]) { value { stringArray(length: 2) base64Array { numberType base64 } float64Array table { labels columns { name label array stringArray base64Array { base64 } } } ndArray { uniqueId dimensions codec numberType array attributes { name value description } } s: string(units: $u) } time { datetime } } }\0S\0{\"u\":false}\0\0\0\0\x07\x07\x03",
    "subscription { subscribeChannel(id: \"X\") { id value { float string base64Array { numberType base64 } stringArray } time { seconds datetime userTag } status { quality message mutable } display { units precision form choices alarmRange { min max } } } }\0\0\0\0\0\0\0\x06\x01\x07\x02\x01\x07",
    "mutation P($v: [String!]!) { putChannels(ids: [\"X\", \"Y\", \"Z\"], values: $v, timeout: 0.5) { id value { string } } }\0P\0{\"v\":[\"1\",\"[1,2]\",\"{\\\"numberType\\\":\\\"INT8\\\",\\\"base64\\\":\\\"AQ==\\\"}\"]}",
    "{ __schema { types { name kind fields { name args { name defaultValue } type { name ofType { name } } } enumValues { name } } directives { name } } __type(name: \"Channel\") { name } }",
];

pub(crate) const DOCUMENT_WORDS: &[&str] = &[
    "{",
    "}",
    "(",
    ")",
    ":",
    "$",
    "...",
    "\0",
    "a:",
    "\"X\"",
    "getChannel(id: \"X\") {",
    "getChannels(ids: [\"X\", \"Y\"]) {",
    "subscription {",
    "subscribeChannel(id: \"X\") {",
    "subscribeChannels(ids: [\"X\", \"Y\"]) {",
    "mutation { putChannels(ids: [\"X\"], values: [\"1\"]) {",
    "value {",
    "time {",
    "status {",
    "display {",
    "connection {",
    "skips {",
    "table { columns {",
    "ndArray {",
    "base64Array {",
    "base64",
    "array",
    "stringArray",
    "a: stringArray ",
    "float64Array",
    "structure",
    "structures",
    "float",
    "string(units: true)",
    "(length: 2)",
    "datetime",
    "quality",
    "severity",
    "role",
    "choices",
    "id",
    "__typename",
    "@skip(if: true)",
    "fragment a on Channel {",
    "...a",
    "__schema {",
    "types {",
    "fields {",
];

/// Those of a relay, with a response that is soon too long.
const LIMITS: Limits = Limits {
    bytes: 64 << 10,
    tokens: 20_000,
    depth: 30,
    fields: 5_000,
    names: 1_000,
    cost: 50_000,
    whole_values: 16,
    response: 1 << 20,
    introspection: 512 << 10,
};

/// The last channel of a response: it has 16 times the longest array as text, or structures.
const LAST_CHANNEL: usize = 16 << 20;

/// States after the first one.
const MAX_CHANGES: usize = 8;

/// A document, the name of an operation, variables, and bytes that describe states, between zero bytes.
pub(crate) fn execution(bytes: &[u8]) {
    let mut parts = bytes.splitn(4, |byte| *byte == 0);
    let mut next = || parts.next().unwrap_or_default();
    let [document, name, variables, states] = [next(), next(), next(), next()];
    let text = String::from_utf8_lossy(document);
    let name = String::from_utf8_lossy(name);
    let name = (!name.is_empty()).then_some(&*name);
    let variables = String::from_utf8_lossy(variables);
    for dialect in [Dialect::Pvwire, Dialect::Coniql] {
        let compiled = Document::compile(&text, dialect, LIMITS);
        let operation = compiled.and_then(|document| document.operation(name, &variables));
        match operation {
            Ok(operation) => answer(&operation, Bytes(states)),
            Err(refusal) => {
                let mut response = Vec::new();
                refusal.push_response(&mut response);
                let response = json(&response);
                assert!(response["errors"][0]["message"].is_string(), "{response}");
            }
        }
    }
}

fn json(bytes: &[u8]) -> Json {
    assert!(bytes.len() <= LIMITS.response + LAST_CHANNEL);
    serde_json::from_slice(bytes).expect("a response in JSON")
}

fn writer() -> Writer {
    Writer::new(|_| 3600)
}

/// Answers an operation with the first state, and every third channel with a failure.
fn answer(operation: &Operation, mut bytes: Bytes<'_>) {
    let mut state = State::new(&mut bytes);
    let mut writer = writer();
    let mut response = Vec::new();
    operation.respond(
        |channel, out| {
            if channel.index % 3 == 2 {
                return Err(Failure::new("no value", "TIMED_OUT"));
            }
            writer.write(channel.selection, &state.pv(channel.name), out);
            Ok(())
        },
        &mut response,
    );
    assert!(json(&response).is_object());
    let is_text = takes_text(&state.pv("X"));
    for root in operation.roots() {
        if let Request::Put { values, .. } = root.request() {
            for value in values {
                let _ = put_value(value, is_text);
            }
        }
    }
    let roots = operation.roots().iter();
    let mut watches: Vec<_> = (roots.take(2))
        .filter_map(|root| Some((root, Watch::new(root.selection()?.clone()))))
        .collect();
    let mut parts = u32::MAX;
    for _ in 0..MAX_CHANGES {
        for (root, watch) in &mut watches {
            let before = watch.full().to_vec();
            let is_news = watch.update(&state.pv("X"), parts, &mut writer);
            let mut now = Vec::new();
            writer.write(watch.selection(), &state.pv("X"), &mut now);
            if !watch.full().is_empty() {
                assert!(watch.full() == now, "a stale result");
            }
            assert_eq!(is_news, before != watch.full());
            if is_news {
                let mut result = Vec::new();
                root.push_result(&[watch.full(), watch.changes()], &mut result);
                assert!(json(&result).is_object());
            }
        }
        if bytes.is_empty() {
            break;
        }
        parts = state.change(&mut bytes);
    }
}
