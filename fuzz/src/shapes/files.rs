//! The worst files of operators.

use super::{Shapes, nested, numbered, repeated};

pub(super) fn config(room: usize) -> Shapes {
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

pub(super) fn pvlist(room: usize) -> Shapes {
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

pub(super) fn security(room: usize) -> Shapes {
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
