//! Tests of the plans of selections of one PV, and of the errors reported for invalid selections.

use proptest::prelude::*;
use pvwire_core::select::{EVERYTHING, MAX_BYTES, MAX_DEPTH, selection};
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
            "1:6 Field \"id\" must not have a selection since type \"String\" has no subfields.",
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
        ("{ ü }", "1:3 Syntax Error: Unexpected character: U+00FC."),
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
    let long = format!("{{ id {} }}", " ".repeat(MAX_BYTES as usize));
    assert!(error(&long).contains("too long"));
    let many = format!("{{ {} }}", "x:id ".repeat(70_000));
    assert!(error(&many).contains("too many tokens"));
    let deep = "{ a ".repeat(MAX_DEPTH as usize + 1);
    assert!(error(&deep).contains("nested too deep"));
}

proptest! {
    #[test]
    fn no_text_panics_the_compiler(text in "\\PC{0,60}") {
        let _ = selection(&text);
    }

    #[test]
    fn no_sequence_of_tokens_panics_the_compiler(
        tokens in prop::collection::vec(prop::sample::select(vec![
            "{", "}", "(", ")", ":", "value", "float", "string", "units", "true", "display",
            "controlRange", "min", "id", "time", "...", "#", "\n", "\"x\"", "-1.5e3", ",", "a",
            "@skip", "if", "on", "Channel",
        ]), 0..24),
    ) {
        let plan = selection(&tokens.join(" "));
        if !plan.starts_with('[') {
            let opened = plan.lines().filter(|line| line.starts_with('{')).count();
            prop_assert_eq!(opened, plan.lines().filter(|line| *line == "}").count());
        }
    }
}
