//! Tests of the plans of selections of one PV, and of the errors reported for invalid selections.

use proptest::prelude::*;
use pvwire_core::select::{
    Documents, EVERYTHING, MAX_SELECTION_BYTES, MAX_SELECTION_DEPTH, selection,
};
use pvwire_core::store::part;

fn lines(text: &str) -> String {
    let plan = selection(text);
    let without_mask = |line: &str| {
        let mut words = line.split(' ');
        let head: Vec<_> = words.by_ref().take(3).collect();
        let rest: Vec<_> = words.skip(1).collect();
        [head, rest].concat().join(" ")
    };
    plan.lines()
        .map(without_mask)
        .collect::<Vec<_>>()
        .join("; ")
}

/// Line, column and message of the first error.
fn error(text: &str) -> String {
    let answer = selection(text);
    let (message, rest) = answer
        .strip_prefix("[{\"message\":\"")
        .and_then(|json| json.split_once("\",\"locations\":[{\"line\":"))
        .expect("a message and a place");
    let (line, rest) = rest.split_once(",\"column\":").expect("a column");
    let column = &rest[..rest.find('}').expect("an end")];
    format!("{line}:{column} {}", message.replace("\\\"", "\""))
}

#[test]
fn a_selection_becomes_the_tree_that_it_names() {
    for (text, tree) in [
        ("{id}", "= id id"),
        (
            "{ value { float s: string(units: true) } }",
            "{ value value; = float float; = s string {\"units\":true}; }",
        ),
        (
            "\u{feff}{\n  # the range\r\n  display, { lim: controlRange { min } }\n}",
            "{ display display; { lim controlRange; = min min; }; }",
        ),
        (
            "{ value { float } id value { string(units: false) float } }",
            "{ value value; = float float; = string string {\"units\":false}; }; = id id",
        ),
        (
            "{ __typename t: time { __typename } }",
            "= __typename __typename:Channel; { t time; = __typename __typename:ChannelTime; }",
        ),
        (
            "{ ... on Channel { id ... @include(if: false) { skipped } } a: skipped @skip(if: false) }",
            "= id id; = a skipped",
        ),
    ] {
        assert_eq!(lines(text), tree, "{text}");
    }
}

#[test]
fn error_names_its_line_its_column_and_what_was_meant() {
    for (text, message) in [
        ("", "1:1 Syntax Error: Expected \"{\", found <EOF>."),
        ("{", "1:2 Syntax Error: Expected Name, found <EOF>."),
        ("{}", "1:2 Syntax Error: Expected Name, found \"}\"."),
        (
            "{ id } x",
            "1:8 Syntax Error: Expected <EOF>, found Name \"x\".",
        ),
        (
            "{\n  value { flot }\n}",
            "2:11 Cannot query field \"flot\" on type \"ChannelValue\". Did you mean \"float\"?",
        ),
        (
            "{ value }",
            "1:3 Field \"value\" of type \"ChannelValue\" must have a selection of subfields. Did you mean \"value { ... }\"?",
        ),
        (
            "{ id { x } }",
            "1:6 Field \"id\" must not have a selection since it has no subfields.",
        ),
        (
            "{ value { string(unit: true) } }",
            "1:18 Unknown argument \"unit\" on field \"ChannelValue.string\". Did you mean \"units\"?",
        ),
        (
            "{ value { string(units: 1) } }",
            "1:25 Boolean cannot represent a non boolean value: 1",
        ),
        ("{ ...f }", "1:6 Unknown fragment \"f\"."),
        (
            "{ value { string(units: $u) } }",
            "1:25 Variable \"$u\" is not defined.",
        ),
        ("{ ü }", "1:3 Syntax Error: Expected Name, found \"ü\"."),
        (
            "{ value { table { labels } } }",
            "1:11 value.table.labels is answered by pvwire/graphql only",
        ),
        (
            "{ x: value { float } x: time { seconds } }",
            "1:22 Fields \"x\" conflict because \"value\" and \"time\" are different fields. Use different \
             aliases on the fields to fetch both if this was intentional.",
        ),
        (
            "{ value { string } value { string(units: true) } }",
            "1:28 Fields \"string\" conflict because they have differing arguments. Use different aliases on \
             the fields to fetch both if this was intentional.",
        ),
        (
            "{ ... on ChannelTime { seconds } }",
            "1:10 The fields of a \"ChannelTime\" can't be selected from a \"Channel\".",
        ),
        ("{ id @defer }", "1:6 Unknown directive \"@defer\"."),
        (
            "{ id @skip }",
            "1:6 Directive \"@skip\" argument \"if\" of type \"Boolean!\" is required, but it was not provided.",
        ),
        (
            "{ id @skip(if: true) @skip(if: true) }",
            "1:22 The directive \"@skip\" can only be used once at this location.",
        ),
    ] {
        assert_eq!(error(text), message, "{text}");
    }
}

#[test]
fn a_selection_reads_only_the_parts_of_its_fields() {
    let mask = |text: &str| {
        let plan = selection(text);
        let fields = plan.lines().filter(|line| *line != "}");
        let masks = fields.filter_map(|line| line.split(' ').nth(3)?.parse::<u32>().ok());
        masks.fold(0, |all, one| all | one)
    };
    assert_eq!(mask("{ id __typename }"), 0);
    assert_eq!(mask("{ value { float } }"), part::VALUE | part::METADATA);
    assert_eq!(mask("{ status { severity } }"), part::ALARM);
    assert_eq!(
        mask("{ status { mutable } }"),
        part::ACCESS | part::CONNECTION
    );
    assert_eq!(mask("{ display { units } }"), part::METADATA);
    assert_eq!(mask("{ connection { state } }"), part::CONNECTION);
    assert_eq!(mask(EVERYTHING), 0b111_1111);
    assert_eq!(
        selection("{ id status { severity mutable } }"),
        "= id id 0\n{ status status 0\n= severity severity 4\n= mutable mutable 48\n}\n"
    );
}

#[test]
fn a_selection_that_is_too_much_is_refused() {
    let long = format!("{{ id {} }}", " ".repeat(MAX_SELECTION_BYTES));
    assert!(error(&long).contains("too long"));
    let deep = ["{", &"...{".repeat(MAX_SELECTION_DEPTH)].concat();
    assert!(error(&deep).contains("nested too deep"));
}

/// The same selection in a document: its plan, empty if it is invalid or selects a field that selections
/// don't have.
fn in_a_document(text: &str) -> String {
    let document = ["{ getChannel(id: \"PV\") ", text, "\n}"].concat();
    let plan = Documents::new().plan(&document, None, "");
    let inner = plan
        .strip_prefix("query\n{ getChannel getChannel 1:3 {\"id\":\"PV\",\"timeout\":5}\n")
        .and_then(|rest| rest.strip_suffix("}\n"));
    let ours = inner.filter(|plan| pvwire_core::select::execute::Program::new(plan, false).is_ok());
    ours.unwrap_or_default().to_owned()
}

const TOKENS: &[&str] = &[
    "{",
    "}",
    "(",
    ")",
    ":",
    "value",
    "float",
    "string",
    "units",
    "true",
    "false",
    "display",
    "controlRange",
    "min",
    "id",
    "time",
    "...",
    "#",
    "\n",
    "\"x\"",
    "-1.5e3",
    ",",
    "a",
    "@skip",
    "@include",
    "if",
    "on",
    "Channel",
    "ChannelTime",
    "$u",
    "__typename",
    "table",
    "\u{feff}",
];

/// A field, and the index of the object that it is.
type Field = (&'static str, Option<usize>);

/// Objects with their fields.
const OBJECTS: &[(&str, &[Field])] = &[
    (
        "Channel",
        &[
            ("id", None),
            ("skipped", None),
            ("value", Some(1)),
            ("time", Some(2)),
            ("display", Some(3)),
        ],
    ),
    (
        "ChannelValue",
        &[("float", None), ("string", None), ("text", None)],
    ),
    ("ChannelTime", &[("datetime", None), ("seconds", None)]),
    (
        "ChannelDisplay",
        &[
            ("units", None),
            ("controlRange", Some(4)),
            ("displayRange", Some(4)),
        ],
    ),
    ("Range", &[("min", None), ("max", None)]),
];

/// A selection that is mostly valid, from random numbers.
fn grown(numbers: &mut impl Iterator<Item = usize>, object: usize, depth: usize) -> String {
    let (name, fields) = OBJECTS[object];
    let mut text = String::from("{");
    for _ in 0..=numbers.next().unwrap_or(0) % 4 {
        let directive = match numbers.next().unwrap_or(0) % 12 {
            0 => " @skip(if: true)",
            1 => " @skip(if: false)",
            2 => " @include(if: false)",
            3 => " @include(if: true) @skip(if: false)",
            _ => "",
        };
        match numbers.next().unwrap_or(0) % 10 {
            0 if depth < 6 => {
                let inner = grown(numbers, object, depth + 1);
                text.push_str(&format!(" ... on {name}{directive} {inner}"));
            }
            1 if depth < 6 => {
                let inner = grown(numbers, object, depth + 1);
                text.push_str(&format!(" ...{directive} {inner}"));
            }
            2 => text.push_str(&format!(" __typename{directive}")),
            way => {
                let (field, inner) = fields[numbers.next().unwrap_or(0) % fields.len()];
                text.push_str(if way == 3 { " a: " } else { ", " });
                text.push_str(field);
                if field == "string" {
                    let arguments = ["", "(units: true)", "(units: false)", ""];
                    text.push_str(arguments[numbers.next().unwrap_or(0) % 4]);
                }
                text.push_str(directive);
                if let Some(inner) = inner {
                    text.push_str(&grown(numbers, inner, depth + 1));
                }
            }
        }
    }
    text + " }"
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn no_text_panics_the_compiler(text in "\\PC{0,60}") {
        let _ = selection(&text);
    }

    #[test]
    fn selections_mean_what_they_mean_in_documents(
        tokens in prop::collection::vec(prop::sample::select(TOKENS), 0..24),
        numbers in prop::collection::vec(0..1000_usize, 0..60),
    ) {
        let tokens = tokens.join(" ");
        let grown = grown(&mut numbers.into_iter(), 0, 0);
        for text in [format!("{{ {tokens} }}"), tokens, grown] {
            let plan = selection(&text);
            let plan = if plan.starts_with('[') { String::new() } else { plan };
            prop_assert_eq!(plan, in_a_document(&text), "{}", text);
        }
    }
}

#[test]
fn everything_means_what_it_means_in_a_document() {
    assert_eq!(selection(EVERYTHING), in_a_document(EVERYTHING));
}
