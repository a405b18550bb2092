//! The worst GraphQL documents, alone and in messages of Coniql's clients.

use super::{Shapes, nested, numbered, repeated};

pub(super) fn graphql(room: usize) -> Shapes {
    let get = "{ getChannel(id: \"X\") { ";
    let text = |text: String| text.into_bytes();
    vec![
        ("fields", repeated(room, get.as_bytes(), b"id ", b"} }")),
        ("aliases", numbered(room, get, "a#: id ", "} }")),
        (
            "roots",
            numbered(room, "{ ", "a#: getChannel(id: \"X\") { id } ", "}"),
        ),
        (
            "names",
            repeated(room, b"{ getChannels(ids: [", b"\"X\",", b"]) { id } }"),
        ),
        (
            "different names",
            numbered(room, "{ getChannels(ids: [", "\"X#\",", "]) { id } }"),
        ),
        ("unknown fields", numbered(room, get, "nosuch# ", "} }")),
        (
            "unknown arguments",
            numbered(room, "{ getChannel(id: \"X\", ", "b#: 1, ", ") { id } }"),
        ),
        (
            "equal arguments",
            repeated(room, b"{ getChannel(", b"id: \"X\" ", b") { id } }"),
        ),
        ("nested selections", nested(room, "", "{ a ", "} ", "")),
        (
            "nested lists",
            nested(room, "{ getChannel(id: ", "[", "]", ") { id } }"),
        ),
        (
            "nested objects",
            nested(room, "{ getChannel(id: ", "{a:", "}", ") { id } }"),
        ),
        (
            "variables",
            numbered(room, "query(", "$v#: Int, ", ") { __typename }"),
        ),
        (
            "nested types",
            nested(room, "query($a: ", "[", "]", ") { __typename }"),
        ),
        (
            "operations",
            numbered(room, "", "query q# { __typename } ", ""),
        ),
        (
            "fragments",
            numbered(
                room,
                &format!("{get}...F0 }} }} "),
                "fragment F# on Channel { id } ",
                "",
            ),
        ),
        ("chain of fragments", chain(1)),
        ("chain of fragments, two spreads each", chain(2)),
        (
            "one fragment spread often",
            repeated(
                room,
                b"fragment F on Channel { id } { getChannel(id: \"X\") { ",
                b"...F ",
                b"} }",
            ),
        ),
        (
            "inline fragments",
            nested(room, get, "... { ", "id } ", "} }"),
        ),
        (
            "inline fragments in a row",
            repeated(room, get.as_bytes(), b"... on Channel { id } ", b"} }"),
        ),
        (
            "directives",
            repeated(
                room,
                get.as_bytes(),
                b"id @skip(if: false) @include(if: true) ",
                b"} }",
            ),
        ),
        (
            "directives of one field",
            repeated(
                room,
                b"{ getChannel(id: \"X\") { id ",
                b"@skip(if: false) ",
                b"} }",
            ),
        ),
        (
            "unknown directives",
            numbered(room, "{ __typename ", "@d# ", "}"),
        ),
        (
            "conflicts",
            numbered(
                room,
                get,
                "a: id b: value { float } a: value { float } x#: id ",
                "} }",
            ),
        ),
        (
            "conflicts in pairs",
            numbered(
                room,
                get,
                "v: value { a: float } v: value { a#: string } ",
                "} }",
            ),
        ),
        ("a long name", repeated(room, b"{ ", b"a", b" }")),
        (
            "a long number",
            repeated(room, b"{ getChannel(id: ", b"9", b") { id } }"),
        ),
        (
            "a long fraction",
            repeated(
                room,
                b"{ getChannel(id: \"X\", timeout: 0.",
                b"1",
                b") { id } }",
            ),
        ),
        (
            "a long string",
            repeated(room, b"{ getChannel(id: \"", b"a", b"\") { id } }"),
        ),
        (
            "escapes",
            repeated(room, b"{ getChannel(id: \"", b"\\u0041", b"\") { id } }"),
        ),
        (
            "lines of a block string",
            repeated(
                room,
                b"{ getChannel(id: \"\"\"",
                b"\n  a",
                b"\"\"\") { id } }",
            ),
        ),
        ("comments", repeated(room, b"{ __typename } ", b"#\n", b"")),
        ("commas", repeated(room, b"{ __typename ", b",", b"}")),
        (
            "introspection",
            nested(
                room,
                "{ __schema { types { fields { type { ",
                "ofType { ",
                "name } ",
                "} } } } }",
            ),
        ),
        (
            "all types, often",
            numbered(
                room,
                "{ ",
                "s#: __schema { types { name fields { name } } } ",
                "}",
            ),
        ),
        (
            "variables of a request",
            text(format!(
                "query($a: String) {{ getChannel(id: $a) {{ id }} }}\0\0{{{}\"a\":\"X\"}}",
                "\"b\":[],".repeat(8_000)
            )),
        ),
        (
            "nested variables",
            [
                &b"query($a: String) { getChannel(id: $a) { id } }\0\0{\"a\":"[..],
                &b"[".repeat(30_000),
                &b"]".repeat(30_000),
                b"}",
            ]
            .concat(),
        ),
    ]
}

/// Fragments of which each spreads the next one this many times.
fn chain(spreads: usize) -> Vec<u8> {
    let mut text = "{ getChannel(id: \"X\") { ...F0 } } ".to_owned();
    for number in 0_usize.. {
        let spread = format!("...F{} ", number + 1).repeat(spreads);
        let fragment = format!("fragment F{number} on Channel {{ {spread}}} ");
        let last = format!("fragment F{} on Channel {{ id }} ", number + 1);
        if text.len() + fragment.len() + last.len() > 60_000 {
            text.push_str(&format!("fragment F{number} on Channel {{ id }} "));
            break;
        }
        text.push_str(&fragment);
    }
    text.into_bytes()
}

/// The documents as messages, and messages that are none.
pub(super) fn messages(room: usize) -> Shapes {
    let init = "{\"type\":\"connection_init\"}\n";
    let mut shapes: Shapes = graphql(room)
        .into_iter()
        .map(|(name, document)| {
            let document =
                String::from_utf8_lossy(&document[..document.len().min(60_000)]).into_owned();
            let quoted = serde_json::Value::String(document).to_string();
            let message = format!(
                "{init}{{\"type\":\"subscribe\",\"id\":\"1\",\"payload\":{{\"query\":{quoted}}}}}"
            );
            (name, message.into_bytes())
        })
        .collect();
    let subscribe = "{\"type\":\"subscribe\",\"id\":\"#\",\"payload\":{\"query\":\"subscription{subscribeChannel(id:\\\"X\\\"){id}}\"}}\n";
    shapes.extend([
        ("subscriptions", numbered(room, init, subscribe, "")),
        (
            "a ping with a large payload",
            repeated(room, b"{\"type\":\"ping\",\"payload\":[", b"[],", b"0]}"),
        ),
        (
            "a nested ping",
            nested(room, "{\"type\":\"ping\",\"payload\":", "[", "]", "}"),
        ),
        (
            "fields",
            numbered(room, "{", "\"a#\":1,", "\"type\":\"ping\"}"),
        ),
        (
            "headers",
            numbered(
                room,
                "{\"type\":\"connection_init\",\"payload\":{",
                "\"to-ken_#\":\"a\",",
                "\"x\":1}}",
            ),
        ),
        ("an array to put", repeated(room, b"[", b"1,", b"2]")),
        ("texts to put", repeated(room, b"[", b"\"a\",", b"\"b\"]")),
    ]);
    shapes
}
