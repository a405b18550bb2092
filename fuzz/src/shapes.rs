//! Inputs of up to 64 KiB that cost a careless reader most: repetition, nesting, long tokens, many errors.

mod graphql;
mod messages;

use crate::targets::Target;

/// A generated input and what it is made of.
pub struct Shape {
    /// For reports.
    pub name: String,
    /// The input.
    pub bytes: Vec<u8>,
}

/// Names and inputs.
type Shapes = Vec<(&'static str, Vec<u8>)>;

/// Repeats `piece` between `begin` and `end` as often as fits.
fn repeated(room: usize, begin: &[u8], piece: &[u8], end: &[u8]) -> Vec<u8> {
    let room = room.saturating_sub(begin.len() + end.len());
    let times = room / piece.len().max(1);
    [begin, &piece.repeat(times), end].concat()
}

/// Like `repeated`, with a different number in each piece in place of `#`.
fn numbered(room: usize, begin: &str, piece: &str, end: &str) -> Vec<u8> {
    let mut text = begin.to_owned();
    for number in 0.. {
        let next = piece.replace('#', &number.to_string());
        if text.len() + next.len() + end.len() > room {
            break;
        }
        text.push_str(&next);
    }
    (text + end).into_bytes()
}

/// Pieces that open and close as deep as fits.
fn nested(room: usize, begin: &str, open: &str, close: &str, end: &str) -> Vec<u8> {
    let room = room.saturating_sub(begin.len() + end.len());
    let depth = room / (open.len() + close.len());
    [begin, &open.repeat(depth), &close.repeat(depth), end]
        .concat()
        .into_bytes()
}

/// The generated inputs of a target: those of its words and seeds, and its own.
#[must_use]
pub fn of(target: &Target) -> Vec<Shape> {
    let room = target.author.room();
    let mut shapes = Vec::new();
    let mut add = |name: String, bytes: Vec<u8>| shapes.push(Shape { name, bytes });
    for word in target.words {
        add(
            format!("repeated {word:?}"),
            repeated(room, b"", word.as_bytes(), b""),
        );
        let [open, close] = match *word {
            "(" => ["(", ")"],
            "[" => ["[", "]"],
            "{" => ["{", "}"],
            _ => continue,
        };
        add(
            format!("nested {word:?}"),
            nested(room, "", open, close, ""),
        );
    }
    for (number, seed) in (target.seeds)().iter().enumerate() {
        add(
            format!("seed {number}, repeated"),
            repeated(room, b"", seed, b""),
        );
        let lines = [seed, &b"\n"[..]].concat();
        add(
            format!("seed {number}, as lines"),
            repeated(room, b"", &lines, b""),
        );
        for (what, at) in [
            ("first", token(seed.iter())),
            ("last", token(seed.iter().rev())),
        ] {
            let Some(at) = at else { continue };
            let at = if what == "last" {
                seed.len() - 1 - at
            } else {
                at
            };
            let long = repeated(room, &seed[..at], &seed[at..=at], &seed[at..]);
            add(format!("seed {number}, {what} token long"), long);
        }
    }
    for byte in [0, b' ', b'a', b'9', b'"', b'\\', b'.', b'-', 0x80, 0xff] {
        add(format!("bytes {byte:#x}"), vec![byte; room]);
    }
    let own = own(target.name, room).into_iter();
    shapes.extend(own.map(|(name, bytes)| Shape {
        name: name.to_owned(),
        bytes,
    }));
    shapes
}

/// The shapes of one target alone, by its name, of about `room` bytes.
fn own(target: &str, room: usize) -> Shapes {
    match target {
        "graphql" | "execution" => graphql::graphql(room),
        "coniql" => graphql::messages(room),
        "formulas" => messages::formulas(room),
        "pvws" => messages::pvws(room),
        "http" => messages::http(room),
        "config" => config(room),
        "pvlist" => pvlist(room),
        "security" => security(room),
        "locals" => messages::locals(room),
        "simulated" => messages::simulated(room),
        "tokens" => messages::tokens(room),
        "names" => messages::names(room),
        _ => Shapes::new(),
    }
}

/// Position of the first letter or digit.
fn token<'a>(mut bytes: impl Iterator<Item = &'a u8>) -> Option<usize> {
    bytes.position(u8::is_ascii_alphanumeric)
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
