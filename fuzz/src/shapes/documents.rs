//! The worst shapes of each language that clients, operators and other relays write.

use super::{Shape, nested, numbered, repeated};

/// The shapes of a target by its name, of about `room` bytes.
pub(super) fn of(target: &str, room: usize) -> Vec<Shape> {
    let shapes = match target {
        "graphql" | "execution" => graphql(room),
        "coniql" => messages(room),
        "formulas" => formulas(room),
        "pvws" => pvws(room),
        "http" => http(room),
        "config" => config(room),
        "pvlist" => pvlist(room),
        "security" => security(room),
        "locals" => locals(room),
        "simulated" => simulated(room),
        "tokens" => tokens(room),
        "names" => names(room),
        _ => Vec::new(),
    };
    let shape = |(name, bytes): (&str, Vec<u8>)| Shape {
        name: name.to_owned(),
        bytes,
    };
    shapes.into_iter().map(shape).collect()
}

type Shapes = Vec<(&'static str, Vec<u8>)>;

fn graphql(room: usize) -> Shapes {
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
fn messages(room: usize) -> Shapes {
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

fn formulas(room: usize) -> Shapes {
    vec![
        ("a sum", repeated(room, b"1", b"+1", b"")),
        ("a sum of PVs", numbered(room, "`A`", "+`A#`", "")),
        ("a sum of one PV", repeated(room, b"`A`", b"+`A`", b"")),
        ("powers", repeated(room, b"2", b"^2", b"")),
        ("signs", repeated(room, b"", b"-", b"1")),
        ("denials", repeated(room, b"", b"!", b"1")),
        ("parentheses", nested(room, "", "(", ")", "")),
        (
            "valid parentheses",
            nested(room, "", "(", ")", "")
                .iter()
                .fold(Vec::new(), |mut all, byte| {
                    if *byte == b')' && all.last() == Some(&b'(') {
                        all.push(b'1');
                    }
                    all.push(*byte);
                    all
                }),
        ),
        ("calls", nested(room, "", "sin(", ")", "")),
        ("arguments", repeated(room, b"max(1", b",1", b")")),
        ("conditions", repeated(room, b"1", b"?1:1", b"")),
        ("nested conditions", nested(room, "", "1?", ":1", "")),
        ("comparisons", repeated(room, b"1", b"<1", b"")),
        ("a long name", repeated(room, b"`", b"a", b"`")),
        ("a long number", repeated(room, b"0.", b"1", b"")),
        ("a long string", repeated(room, b"\"", b"a", b"\"")),
        ("strings", repeated(room, b"concat(\"a\"", b",\"a\"", b")")),
        ("array functions", nested(room, "", "arrayOf(1,", ")", "")),
    ]
}

fn pvws(room: usize) -> Shapes {
    let of = |begin: &str, piece: &str| numbered(room, begin, piece, "\"X\"]}");
    vec![
        (
            "empty lists",
            repeated(room, b"{\"type\":\"subscribe\",\"pvs\":[", b"[],", b"[]]}"),
        ),
        (
            "nested lists",
            nested(room, "{\"type\":\"subscribe\",\"pvs\":", "[", "]", "}"),
        ),
        ("names", of("{\"type\":\"subscribe\",\"pvs\":[", "\"a#\",")),
        (
            "equal names",
            repeated(
                room,
                b"{\"type\":\"subscribe\",\"pvs\":[",
                b"\"a\",",
                b"\"a\"]}",
            ),
        ),
        (
            "names to clear",
            of("{\"type\":\"clear\",\"pvs\":[", "\"a#\","),
        ),
        (
            "local PVs",
            of("{\"type\":\"subscribe\",\"pvs\":[", "\"loc://a#(1,2)\","),
        ),
        (
            "formulas",
            of("{\"type\":\"subscribe\",\"pvs\":[", "\"=1+#\","),
        ),
        (
            "requests",
            of(
                "{\"type\":\"subscribe\",\"pvs\":[",
                "\"pva://X?request=field(a#)\",",
            ),
        ),
        (
            "numbers to write",
            repeated(
                room,
                b"{\"type\":\"write\",\"pv\":\"X\",\"value\":[",
                b"1.5e3,",
                b"1]}",
            ),
        ),
        (
            "fields",
            numbered(room, "{", "\"a#\":1,", "\"type\":\"ping\"}"),
        ),
        (
            "a long number",
            repeated(
                room,
                b"{\"type\":\"write\",\"pv\":\"X\",\"value\":",
                b"9",
                b"}",
            ),
        ),
        (
            "escapes",
            repeated(room, b"{\"type\":\"", b"\\u0041", b"\"}"),
        ),
        (
            "messages",
            repeated(room, b"", b"{\"type\":\"list\"}\n", b""),
        ),
    ]
}

fn http(room: usize) -> Shapes {
    let body = "/pv/X\0{\"value\":";
    vec![
        ("a long name", repeated(room, b"/pv/", b"a", b"")),
        ("escapes", repeated(room, b"/pv/", b"%41", b"")),
        ("slashes", repeated(room, b"/pv/", b"/", b"")),
        (
            "numbers",
            repeated(room, b"/pv/X\0{\"value\":[", b"1,", b"1]}"),
        ),
        (
            "texts",
            repeated(room, b"/pv/X\0{\"value\":[", b"\"a\",", b"\"b\"]}"),
        ),
        (
            "mixed",
            repeated(room, b"/pv/X\0{\"value\":[", b"\"a\",1,", b"1]}"),
        ),
        ("nested lists", nested(room, body, "[", "]", "}")),
        ("nested objects", nested(room, body, "{\"a\":", "}", "}")),
        (
            "a long number",
            repeated(room, b"/pv/X\0{\"value\":", b"9", b"}"),
        ),
        (
            "a long fraction",
            repeated(room, b"/pv/X\0{\"value\":0.", b"1", b"}"),
        ),
        (
            "fields",
            numbered(room, "/pv/X\0{", "\"a#\":1,", "\"value\":1}"),
        ),
    ]
}

fn config(room: usize) -> Shapes {
    let rule = "[[rule]]\npv = [\"SR:*\"]\nallow = [\"read\"]\n";
    vec![
        ("rules", repeated(room, b"", rule.as_bytes(), b"")),
        (
            "patterns",
            numbered(
                room,
                "[[rule]]\npv = [",
                "\"SR:A#:*\",",
                "]\nallow = [\"read\"]\n",
            ),
        ),
        (
            "stars",
            repeated(
                room,
                b"[[rule]]\npv = [\"",
                b"*a",
                b"\"]\nallow = [\"read\"]\n",
            ),
        ),
        ("unknown keys", numbered(room, "", "listn# = 1\n", "")),
        ("tables", numbered(room, "", "[a#]\n", "")),
        ("dotted keys", repeated(room, b"a", b".a", b" = 1\n")),
        ("nested lists", nested(room, "a = ", "[", "]", "\n")),
        ("nested tables", nested(room, "a = ", "{a=", "}", "\n")),
        (
            "origins",
            numbered(room, "allow_origin = [", "\"https://a#.example\",", "]\n"),
        ),
        (
            "groups of an expression",
            nested(
                room,
                "[[rule]]\npv_regex = \"",
                "(",
                ")",
                "\"\nallow = [\"read\"]\n",
            ),
        ),
        (
            "branches",
            repeated(
                room,
                b"[[rule]]\npv_regex = \"",
                b"a|",
                b"\"\nallow = [\"read\"]\n",
            ),
        ),
        (
            "repetitions",
            b"[[rule]]\npv_regex = \"((a{99}){99}){99}\"\nallow = [\"read\"]\n".to_vec(),
        ),
        (
            "classes",
            repeated(
                room,
                b"[[rule]]\npv_regex = \"",
                b"\\\\w",
                b"\"\nallow = [\"read\"]\n",
            ),
        ),
        ("flags", numbered(room, "\0", "--x# ", "")),
        ("a long number", repeated(room, b"shards = ", b"9", b"\n")),
        (
            "a long string",
            repeated(room, b"listen = \"", b"a", b"\"\n"),
        ),
    ]
}

fn pvlist(room: usize) -> Shapes {
    vec![
        ("lines", numbered(room, "", "SR:A#:.* ALLOW\n", "")),
        ("a long pattern", repeated(room, b"", b"a", b" ALLOW\n")),
        ("groups", nested(room, "", "(", ")", " ALLOW\n")),
        ("branches", repeated(room, b"a", b"|a", b" ALLOW\n")),
        ("classes", repeated(room, b"", b"\\w", b" ALLOW\n")),
        ("repetitions", b"((a{99}){99}){99} ALLOW\n".to_vec()),
        ("stars", repeated(room, b"", b".*a", b" ALLOW\n")),
        ("errors", repeated(room, b"", b"( ALLOW\n", b"")),
    ]
}

fn security(room: usize) -> Shapes {
    vec![
        (
            "users",
            numbered(
                room,
                "UAG(ops) { a",
                ", u#",
                " }\nASG(DEFAULT) { RULE(1, READ) }",
            ),
        ),
        (
            "groups",
            numbered(
                room,
                "",
                "UAG(g#) { a }\n",
                "ASG(DEFAULT) { RULE(1, READ) }",
            ),
        ),
        (
            "levels",
            numbered(room, "", "ASG(A#) { RULE(1, READ) }\n", ""),
        ),
        (
            "rules",
            repeated(room, b"ASG(DEFAULT) { ", b"RULE(1, READ) ", b"}"),
        ),
        (
            "comments",
            repeated(room, b"", b"#\n", b"ASG(DEFAULT) { RULE(1, READ) }"),
        ),
        (
            "nested",
            nested(room, "ASG(DEFAULT) ", "{ RULE(1, READ) ", "} ", ""),
        ),
    ]
}

fn locals(room: usize) -> Shapes {
    vec![
        ("numbers", repeated(room, b"loc://x(1", b",1", b")")),
        ("texts", repeated(room, b"loc://x(\"a\"", b",\"a\"", b")")),
        ("a long name", repeated(room, b"loc://", b"x", b"(1)")),
        ("writes", repeated(room, b"loc://x(1)", b"\x002", b"")),
        (
            "labels",
            numbered(room, "loc://x<VEnum>(2,\"A\"", ",\"A#\"", ")"),
        ),
    ]
}

fn simulated(room: usize) -> Shapes {
    vec![
        ("arguments", repeated(room, b"sim://sine(1", b",1", b")")),
        ("a long number", repeated(room, b"sim://sine(", b"9", b")")),
        (
            "a long fraction",
            repeated(room, b"sim://sine(0.", b"1", b")"),
        ),
        ("texts", numbered(room, "sim://string(texts=a", "|a#", ")")),
        (
            "labels",
            numbered(room, "sim://enum(A", "|a#", ",rate_hz=1)"),
        ),
    ]
}

fn tokens(room: usize) -> Shapes {
    let key = "{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"kid\":\"k#\",\"x\":\"eGIZ7GXH9vYDQCN9aJBBFUezqkqQ4qLSLZerpCF_R0M\"},";
    vec![
        ("keys", numbered(room, "{\"keys\":[", key, "{}]}\0a.b.c")),
        (
            "a long token",
            repeated(room, b"{\"keys\":[]}\0", b"a", b".a.a"),
        ),
        (
            "parts of a token",
            repeated(room, b"{\"keys\":[]}\0", b"a.", b"a"),
        ),
        (
            "a long header",
            repeated(
                room,
                b"{\"keys\":[]}\0eyJhbGciOiJFZERTQSIs",
                b"ICAg",
                b"fQ.e30.AA",
            ),
        ),
    ]
}

fn names(room: usize) -> Shapes {
    vec![
        ("a long name", repeated(room, b"", b"a", b"")),
        ("dots", repeated(room, b"SR:A", b".", b"")),
        ("fields", repeated(room, b"SR:A", b".VAL", b"")),
        ("filters", nested(room, "SR:A.VAL", "{", "}", "")),
        ("stars", repeated(room, b"", b"SR:", b"SET")),
    ]
}
