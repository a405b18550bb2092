//! Reading, validating and planning a document takes time in proportion to its length, or it is refused after a bounded
//! number of steps. Whatever a client sends, it costs a server little.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::fmt::Write as _;

use pvwire_core::graphql::{Dialect, Document, Limits};

/// Nanoseconds of CPU that this thread has used.
fn cpu_ns() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    stat.split(' ').next().unwrap().parse().unwrap()
}

/// The parts 0 to `count`, one after the other.
fn each(count: usize, part: impl Fn(usize) -> String) -> String {
    (0..count).map(part).collect()
}

fn query(inner: &str) -> String {
    format!("{{ getChannel(id: \"V\") {{ {inner} }} }}")
}

/// The name of a shape of documents, and its document with a number of parts.
type Shape = (&'static str, fn(usize) -> String);

/// Shapes of documents, by a number of parts.
fn shapes() -> Vec<Shape> {
    let fields: Vec<Shape> = vec![
        ("a field many times", |n| query(&"id ".repeat(n))),
        ("aliases of a field", |n| {
            query(&each(n, |i| format!("a{i}: id ")))
        }),
        ("aliases of an object", |n| {
            query(&each(n, |i| format!("a{i}: value {{ float }} ")))
        }),
        ("an object many times", |n| {
            query(&"value { float } ".repeat(n))
        }),
        ("an object many times, each with many fields", |n| {
            query(&format!("value {{ {} }} ", "float string ".repeat(20)).repeat(n / 20 + 1))
        }),
        ("conflicting aliases", |n| {
            query(&each(n, |i| format!("a: {} ", ["id", "__typename"][i % 2])))
        }),
        ("conflicting objects", |n| {
            query(&each(n, |i| {
                format!("a: {} {{ x: __typename }} ", ["value", "time"][i % 2])
            }))
        }),
        ("unknown fields", |n| query(&each(n, |i| format!("x{i} ")))),
        ("misspelt fields", |n| query(&"valeu ".repeat(n))),
        ("misspelt arguments", |n| {
            query(&format!("value {{ string({}) }}", "unist: true ".repeat(n)))
        }),
        ("arguments with one name", |n| {
            query(&format!("value {{ string({}) }}", "units: true ".repeat(n)))
        }),
        ("unknown arguments", |n| {
            query(&format!(
                "value {{ string({}) }}",
                each(n, |i| format!("u{i}: 1 "))
            ))
        }),
        ("one directive many times", |n| {
            query(&format!("id {}", "@skip(if: false) ".repeat(n)))
        }),
        ("unknown directives", |n| {
            query(&format!("id {}", each(n, |i| format!("@d{i} "))))
        }),
        ("long lists as arguments", |n| {
            let list = each(n / 8, |i| format!("{i} "));
            query(&format!("a(x: [{list}]) ").repeat(4))
        }),
        ("objects with one key many times", |n| {
            query(&format!("a(x: {{ {} }})", "k: 1 ".repeat(n)))
        }),
        ("inline fragments", |n| {
            query(&"... on Channel { id } ".repeat(n))
        }),
        ("inline fragments on wrong types", |n| {
            query(&"... on Time { id } ".repeat(n))
        }),
    ];
    let operations: Vec<Shape> = vec![
        ("channels", |n| {
            format!(
                "{{ {} }}",
                each(n, |i| format!("c{i}: getChannel(id: \"V\") {{ id }} "))
            )
        }),
        ("operations", |n| {
            each(n, |i| format!("query q{i} {{ __typename }} "))
        }),
        ("operations with one name", |n| {
            "query q { __typename } ".repeat(n)
        }),
        ("operations with a fragment each", |n| {
            each(n, |i| format!("query q{i} {{ ...F }} ")) + "fragment F on Query { __typename }"
        }),
        ("a subscription's fields", |n| {
            format!("subscription {{ {} }}", "__typename ".repeat(n))
        }),
        ("variables", |n| {
            let variables = each(n, |i| format!("$v{i}: String "));
            format!("query({variables}) {{ __typename }}")
        }),
        ("variables that are used", |n| {
            let variables = each(n, |i| format!("$v{i}: Boolean "));
            let uses = each(n, |i| format!("a{i}: value {{ string(units: $v{i}) }} "));
            format!("query({variables}) {}", query(&uses))
        }),
        ("undefined variables", |n| {
            query(&each(n, |i| {
                format!("a{i}: value {{ string(units: $v{i}) }} ")
            }))
        }),
        ("one variable that is used many times", |n| {
            let uses = each(n, |i| format!("a{i}: value {{ string(units: $v) }} "));
            format!("query($v: Boolean) {}", query(&uses))
        }),
        ("schema definitions", |n| {
            each(n, |i| format!("type T{i} {{ a: Int }} "))
        }),
        ("introspection", |n| {
            format!(
                "{{ __schema {{ {} }} }}",
                "types { fields { type { name } } } ".repeat(n)
            )
        }),
    ];
    let fragments: Vec<Shape> = vec![
        ("fragments, each spreading the next one twice", |n| {
            let mut text = query("...A0");
            for i in 0..n {
                let next = i + 1;
                write!(
                    text,
                    " fragment A{i} on Channel {{ ...A{next} ...A{next} ...A{} }}",
                    i + 2
                )
                .unwrap();
            }
            text + &format!(
                " fragment A{n} on Channel {{ id }} fragment A{} on Channel {{ id }}",
                n + 1
            )
        }),
        ("fragments, each spreading all", |n| {
            let n = 1 + (n as f64).sqrt() as usize;
            let all = each(n, |i| format!("...A{i} "));
            query(&all) + &each(n, |i| format!("fragment A{i} on Channel {{ {all} id }} "))
        }),
        ("fragments, each spreading all later ones", |n| {
            let n = 1 + (n as f64).sqrt() as usize;
            query("...A0")
                + &each(n, |i| {
                    let later = each(n - i, |j| format!("...A{} ", i + j + 1));
                    format!("fragment A{i} on Channel {{ {later} }} ")
                })
                + &format!("fragment A{n} on Channel {{ id }}")
        }),
        ("a fragment that is spread many times", |n| {
            query(&"...A ".repeat(n)) + " fragment A on Channel { id value { float } }"
        }),
        ("unused fragments", |n| {
            query("id") + &each(n, |i| format!(" fragment A{i} on Channel {{ id }}"))
        }),
        ("objects that each spread a chain of fragments", |n| {
            let n = n / 2 + 1;
            let links = each(n, |i| {
                format!("fragment A{i} on Value {{ ...A{} }} ", i + 1)
            });
            query(&each(n, |i| format!("a{i}: value {{ ...A0 }} ")))
                + &links
                + &format!("fragment A{n} on Value {{ float }}")
        }),
        ("fragments whose fields conflict", |n| {
            query(&each(n, |i| format!("...A{i} ")))
                + &each(n, |i| {
                    let field = ["id", "__typename"][i % 2];
                    format!(" fragment A{i} on Channel {{ a: {field} }}")
                })
        }),
        ("a cycle of fragments", |n| {
            query("...A0")
                + &each(n, |i| {
                    format!(" fragment A{i} on Channel {{ ...A{} }}", (i + 1) % n)
                })
        }),
    ];
    [fields, operations, fragments].concat()
}

/// The longest document of a shape that has at most this number of bytes.
fn of_length(shape: fn(usize) -> String, bytes: usize) -> String {
    let (mut fits, mut too_many) = (1, bytes);
    while too_many - fits > 1 {
        let middle = (fits + too_many) / 2;
        if shape(middle).len() <= bytes {
            fits = middle;
        } else {
            too_many = middle;
        }
    }
    shape(fits)
}

/// The CPU time of one document, and the response if it is refused.
fn measure(text: &str) -> (u64, String) {
    let mut response = Vec::new();
    let begin = cpu_ns();
    match Document::compile(text, Dialect::Coniql, Limits::default()) {
        Ok(document) => {
            if let Err(refusal) = document.operation(None, "") {
                refusal.push_response(&mut response);
            }
        }
        Err(refusal) => refusal.push_response(&mut response),
    }
    (cpu_ns() - begin, String::from_utf8(response).unwrap())
}

/// Why a shape takes too long, if it does: each try measures a short and a long document.
fn problem(shape: fn(usize) -> String) -> Option<String> {
    let (short, long) = (of_length(shape, 16_000), of_length(shape, 64_000));
    for _ in 0..TRIES - 1 {
        too_slow(&short, &long)?;
    }
    too_slow(&short, &long)
}

fn too_slow(short: &str, long: &str) -> Option<String> {
    let before = measure(short).0;
    let (after, response) = measure(long);
    // Four times the length; the square would take sixteen times as long.
    let is_bounded = response.contains("too complex") || after < 8 * before + CLOCK_NS;
    let is_short = response.len() < 64_000;
    let is_fine = is_bounded && is_short && after < LIMIT_NS;
    (!is_fine).then(|| {
        format!(
            "{before} and {after} ns, {} bytes of errors",
            response.len()
        )
    })
}

#[test]
fn time_of_a_document_is_in_proportion_to_its_length_or_bounded() {
    let shapes = shapes().into_iter();
    let slow = shapes.filter_map(|(name, shape)| Some((name, problem(shape)?)));
    let slow: Vec<_> = slow.collect();
    assert!(slow.is_empty(), "{slow:#?}");
}

/// Other programs slow some tries down.
const TRIES: usize = 4;

/// How coarse the clock of CPU time is.
const CLOCK_NS: u64 = 20_000_000;

/// 20 ms in an optimised build.
const LIMIT_NS: u64 = if cfg!(debug_assertions) {
    400_000_000
} else {
    20_000_000
};

#[test]
fn variable_that_is_used_many_times_does_not_multiply_its_value() {
    let uses = each(4_000, |i| format!("a{i}: getChannels(ids: $v) {{ id }} "));
    let text = format!("query($v: [ID!]!) {{ {uses} }}");
    let variables = format!("{{\"v\":[{}\"x\"]}}", "\"a name of a PV\",".repeat(20_000));
    let document = Document::compile(&text, Dialect::Pvwire, Limits::default());
    let begin = cpu_ns();
    let refusal = document.unwrap().operation(None, &variables).unwrap_err();
    assert!(
        refusal.errors().contains("too complex"),
        "{}",
        refusal.errors()
    );
    assert!(cpu_ns() - begin < 10 * LIMIT_NS);
}

#[test]
fn introspection_in_introspection_does_not_multiply_the_schema() {
    let inner = |open: &str, times: usize, leaf: &str| {
        open.repeat(times) + leaf + &"}".repeat(open.matches('{').count() * times)
    };
    let standard = "kind name description fields { name description args { name type { kind name ofType { kind name \
                    ofType { kind name ofType { kind name } } } } defaultValue } type { kind name ofType { kind name \
                    ofType { kind name } } } } enumValues { name description }";
    for dialect in [Dialect::Pvwire, Dialect::Coniql] {
        let of = |inner: &str| {
            let text = format!("{{ __schema {{ types {{ {inner} }} }} }}");
            let document = Document::compile(&text, dialect, Limits::default())?;
            let begin = cpu_ns();
            let operation = document.operation(None, "");
            assert!(cpu_ns() - begin < LIMIT_NS, "{text}");
            operation.map(|operation| {
                let mut response = Vec::new();
                operation.respond(|_, _| Ok(()), &mut response);
                response.len()
            })
        };
        let length = of(standard).unwrap();
        assert!(length < Limits::default().introspection / 4, "{length}");
        for (open, times) in [
            ("fields { type { ", 12),
            ("fields { args { type { ofType { ", 6),
            ("a: fields { type { b: fields { type { ", 6),
        ] {
            let refusal = of(&inner(open, times, "name ")).err();
            let errors = refusal.map(|refusal| refusal.errors().to_owned());
            let is_bounded = errors
                .as_ref()
                .is_none_or(|errors| errors.contains("introspection"));
            assert!(is_bounded, "{errors:?}");
        }
        let many = (0..1_000).map(|n| format!("a{n}: fields {{ name type {{ name }} }} "));
        let refusal = of(&many.collect::<String>()).unwrap_err();
        assert!(refusal.errors().contains("introspection has more than"));
    }
}

#[test]
fn errors_of_variables_are_bounded() {
    let text = "query($v: [Int!]) { __typename @skip(if: false) }";
    let variables = format!("{{\"v\":[{}\"x\"]}}", "\"x\",".repeat(20_000));
    let document = Document::compile(text, Dialect::Pvwire, Limits::default());
    let refusal = match document {
        Ok(document) => document.operation(None, &variables).unwrap_err(),
        Err(refusal) => refusal,
    };
    assert!(refusal.errors().len() < 64_000);
}
