//! Tests of documents: the cases of `vectors/documents.json`, and plans with variables. A damaged
//! document never stops the engine.

use proptest::prelude::*;
use pvwire_core::graphql::{Dialect, Document, Limits};
use pvwire_core::select::{Documents, MAX_DEPTH, MAX_FIELDS, MAX_FRAGMENTS};
use serde_json::Value as Json;

const VECTORS: &str = include_str!("vectors/documents.json");

const SCREEN: &str = "
query Screen($pv: ID! = \"X\", $units: Boolean = true, $skip: Boolean! = false) {
  a: getChannel(id: $pv) { ...channel @skip(if: $skip) }
  b: getChannel(id: \"\"\"Y\"\"\", timeout: 0.5) { id value { s: string(units: $units) } }
}
fragment channel on Channel { id status { ...status } ... @include(if: true) { time { seconds } } }
fragment status on ChannelStatus { quality __typename }
mutation Put($values: [String!]!) { putChannels(ids: [\"A\", 5], values: $values) { id } }
subscription { subscribeChannel(id: \"ca://TEMP\") { value { float } } }
";

fn plan(text: &str, operation: Option<&str>, variables: &str) -> String {
    Documents::default().plan(text, operation, variables)
}

fn parsed(text: &str) -> Json {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// What is wrong with a case.
fn difference(case: &Json) -> Option<String> {
    let text = case["document"].as_str().expect("a document");
    let expected = &case["errors"];
    let is_same = |errors: &str| (parsed(errors) != *expected).then(|| errors.to_owned());
    let document = match Document::compile(text, Dialect::Pvwire, Limits::default()) {
        Ok(document) => document,
        Err(refusal) => return is_same(refusal.errors()),
    };
    let Some(variables) = case.get("variables") else {
        return is_same("[]");
    };
    if let Err(refusal) = document.operation(None, &variables.to_string()) {
        return is_same(refusal.errors());
    }
    // The argument stands behind the place of its field.
    let plan = plan(text, None, &variables.to_string());
    let arguments = plan.lines().find_map(|line| line.split_once(" {\""));
    let Some((_, arguments)) = arguments else {
        return Some(plan);
    };
    let arguments = parsed(&format!("{{\"{arguments}"));
    let mut values = arguments.as_object().expect("an object").values();
    if values.any(|value| *value == case["argument"]) {
        is_same("[]")
    } else {
        Some(plan)
    }
}

#[test]
fn documents_give_what_their_vectors_say() {
    let vectors = parsed(VECTORS);
    let cases = vectors["cases"].as_array().expect("cases");
    assert!(cases.len() >= 300);
    let found: Vec<String> = (cases.iter())
        .filter_map(|case| Some(format!("{case}\n  gives {}", difference(case)?)))
        .collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn an_operation_becomes_its_root_fields_with_their_arguments() {
    let screen = SCREEN.replace("\nsubscription {", "\nsubscription S {");
    assert_eq!(
        plan(&screen, Some("Screen"), "{\"pv\":\"Z\",\"units\":false}"),
        "query
{ a getChannel 3:3 {\"id\":\"Z\",\"timeout\":5}
= id id 0
{ status status 0
= quality quality 20
= __typename __typename:ChannelStatus 0
}
{ time time 3
= seconds seconds 2
}
}
{ b getChannel 4:3 {\"id\":\"Y\",\"timeout\":0.5}
= id id 0
{ value value 1
= s string 9 {\"units\":false}
}
}
"
    );
    assert_eq!(
        plan(&screen, Some("Put"), "{\"values\": \"1\"}"),
        "mutation
{ putChannels putChannels 8:37 {\"ids\":[\"A\",\"5\"],\"values\":[\"1\"],\"timeout\":5,\"wait\":false}
= id id 0
}
"
    );
    assert!(plan(&screen, Some("S"), "").starts_with("subscription\n{ subscribeChannel "));
}

#[test]
fn what_is_wrong_is_told_as_graphql_does() {
    let cases = [
        (
            SCREEN,
            None,
            "",
            "This anonymous operation must be the only",
        ),
        (
            "{ __typename }",
            Some("X"),
            "",
            "Unknown operation named \\\"X\\\".",
        ),
        (
            "query($a: ID!) { getChannel(id: $a) { id } }",
            None,
            "",
            "?Variable \\\"$a\\\" of required type \\\"ID!\\\" was not provided.",
        ),
        (
            "query($a: [ID!]!) { getChannels(ids: $a) { id } }",
            None,
            "{\"a\":[\"x\",null]}",
            "?Variable \\\"$a\\\" got invalid value null at \\\"a[1]\\\"; Expected non-nullable type \\\"ID!\\\" not to be null.",
        ),
        (
            "query($a: ID!) { getChannel(id: $a) { id } }",
            None,
            "[1]",
            "?Variables must be provided as an Object.",
        ),
        (
            "type X { a: Int }",
            None,
            "",
            "The \\\"X\\\" definition is not executable.",
        ),
    ];
    for (text, operation, variables, expected) in cases {
        let answer = plan(text, operation, variables);
        let (sign, message) = match expected.strip_prefix('?') {
            Some(message) => ("?", message),
            None => ("", expected),
        };
        let start = format!("{sign}[{{\"message\":\"{message}");
        assert!(answer.starts_with(&start), "{text}: {answer}");
    }
}

#[test]
fn documents_are_kept_and_forgotten_without_a_difference() {
    let mut documents = Documents::default();
    for _ in 0..2 {
        for nth in 0..100 {
            let text = format!("{{ x{nth}: __typename }}");
            let expected = format!("query\n= x{nth} __typename:Query 1:3 {{}}\n");
            assert_eq!(documents.plan(&text, None, ""), expected);
        }
    }
}

#[test]
fn what_would_show_too_much_of_the_schema_is_refused() {
    let types = |inner: &str| format!("{{ __schema {{ types {{ {inner} }} }} }}");
    let deep = "ofType { ".repeat(MAX_DEPTH as usize);
    let chain = |length: usize| {
        let mut text = types("...f0");
        for nth in 0..length {
            text.push_str(&format!(
                " fragment f{nth} on __Type {{ ofType {{ ...f{} }} }}",
                nth + 1
            ));
        }
        text + &format!(" fragment f{length} on __Type {{ name }}")
    };
    // Each fragment shows the next one twice.
    let mut double = types("...f0");
    for nth in 0..40 {
        let next = nth + 1;
        double.push_str(&format!(
            " fragment f{nth} on __Type {{ a{nth}: ofType {{ ...f{next} }} b{nth}: ofType {{ ...f{next} }} }}"
        ));
    }
    double.push_str(" fragment f40 on __Type { name }");
    let wide = "ofType { name } ".repeat(MAX_FIELDS as usize / 2);
    for (text, expected) in [
        (types(&deep), "nested too deep"),
        (
            types("fields { type { fields { type { fields { name } } } } }"),
            "depth exceeded",
        ),
        (chain(MAX_FRAGMENTS as usize), "too many fragments"),
        (double, "too many fields"),
        (types(&wide), "too complex"),
    ] {
        let answer = plan(&text, None, "");
        assert!(answer.contains(expected), "{expected}: {:.200}", answer);
    }
    assert!(plan(&chain(MAX_FRAGMENTS as usize - 1), None, "").starts_with("query\n"));
}

const PIECES: &[&str] = &[
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    ":",
    "=",
    "",
    "$",
    "@",
    "...",
    "query",
    "subscription",
    "fragment",
    "on",
    "Channel",
    "Query",
    "getChannel",
    "getChannels",
    "id",
    "ids",
    "value",
    "string",
    "units",
    "true",
    "null",
    "1",
    "-2.5e3",
    "\"x\"",
    "\"\"\"\n  y\n\"\"\"",
    "$a",
    "$b",
    "a",
    "b",
    "F",
    "G",
    "skip",
    "include",
    "if",
    "__schema",
    "types",
    "fields",
    "name",
    "ID",
    "Int",
    "type",
    "\"\\u00fc\"",
    "#\n",
    "&",
    "|",
    "{a: 1}",
];

proptest! {
    #[test]
    fn no_sequence_of_tokens_stops_the_engine(
        tokens in prop::collection::vec(prop::sample::select(PIECES), 0..60),
        variables in "\\PC{0,20}",
    ) {
        let text = tokens.join(" ");
        let _ = plan(&text, None, &variables);
        let _ = plan(&text, Some("F"), "{\"a\":[1,{\"b\":null}]}");
    }

    #[test]
    fn no_damage_to_a_document_stops_the_engine(
        cuts in prop::collection::vec((any::<prop::sample::Index>(), prop::sample::select(PIECES)), 1..4),
        variables in prop::sample::select(vec!["", "{}", "{\"pv\":1e999}", "{\"pv\":\"\\", "[", "nul"]),
    ) {
        let mut text: Vec<char> = SCREEN.chars().collect();
        for (index, piece) in cuts {
            let at = index.index(text.len());
            text.splice(at..=at, piece.chars());
        }
        let text: String = text.into_iter().collect();
        for operation in [None, Some("Screen"), Some("Put")] {
            let answer = plan(&text, operation, variables);
            prop_assert!(!answer.is_empty());
        }
    }
}
