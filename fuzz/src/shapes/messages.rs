//! The worst names, formulas, tokens and messages of clients.

use super::{Shapes, nested, numbered, repeated};

pub(super) fn formulas(room: usize) -> Shapes {
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

pub(super) fn pvws(room: usize) -> Shapes {
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

pub(super) fn http(room: usize) -> Shapes {
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

pub(super) fn locals(room: usize) -> Shapes {
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

pub(super) fn simulated(room: usize) -> Shapes {
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

pub(super) fn tokens(room: usize) -> Shapes {
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

pub(super) fn names(room: usize) -> Shapes {
    vec![
        ("a long name", repeated(room, b"", b"a", b"")),
        ("dots", repeated(room, b"SR:A", b".", b"")),
        ("fields", repeated(room, b"SR:A", b".VAL", b"")),
        ("filters", nested(room, "SR:A.VAL", "{", "}", "")),
        ("stars", repeated(room, b"", b"SR:", b"SET")),
    ]
}
