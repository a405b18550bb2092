//! What attackers send to use up the relay's CPU: documents, formulas, and JSON.

use pvwire_schema::limits::MAX_REQUEST_BYTES;
use serde_json::json;

use crate::door;
use crate::wire::masked_text;

/// Documents that one connection sends again and again: more than the relay keeps.
const DOCUMENTS: usize = 300;

/// Fragments of one document, which has about 49 kB.
const FRAGMENTS: usize = 990;

/// Errors of one document.
const ERRORS: usize = 3_400;

/// Cheap formulas of one connection.
const FORMULAS: usize = 4_500;

/// Formulas with a large result of one connection.
const LARGE_FORMULAS: usize = 8;

/// The first messages to the door for clients of Coniql.
pub(super) fn greeting() -> Vec<u8> {
    masked_text(br#"{"type":"connection_init"}"#)
}

/// Valid documents of fragments that spread each other, all different.
pub(super) fn documents(number: usize) -> Vec<u8> {
    let fragment = |at: usize| match at + 1 {
        FRAGMENTS => format!("fragment A{at} on Channel{{id}} "),
        next => format!(
            "fragment A{at} on Channel{{...A{next} ...A{next} ...A{}}} ",
            (next + 1).min(FRAGMENTS - 1)
        ),
    };
    let fragments: String = (0..FRAGMENTS).map(fragment).collect();
    sent_again(number, |at| {
        format!("query{{getChannel(id:\"V{number}\"){{...A0}}}} {fragments}#{at}")
    })
}

/// Documents with an error in each of their fields, whose names nearly exist, all different.
pub(super) fn wrong_documents(number: usize) -> Vec<u8> {
    let fields: String = (0..ERRORS).map(|at| format!("valu{at} ")).collect();
    sent_again(number, |at| {
        format!("query{{getChannel(id:\"V{number}\"){{{fields}}}}}#{at}")
    })
}

/// Subscriptions by documents, each of which ends before the next begins.
fn sent_again(number: usize, query: impl Fn(usize) -> String) -> Vec<u8> {
    let document = |at: usize| {
        let query = query(at);
        let id = format!("{number}-{at}");
        let message = json!({"type": "subscribe", "id": id, "payload": {"query": query}});
        let complete = json!({"type": "complete", "id": id});
        [message, complete]
            .map(|text| masked_text(text.to_string().as_bytes()))
            .concat()
    };
    (0..DOCUMENTS).flat_map(document).collect()
}

/// Subscriptions of many formulas over a fast PV, or of some with large results.
pub(super) fn formulas(number: usize) -> Vec<u8> {
    let cheap = |at: usize| format!("=`sim://ramp(0,10,-1,0.01)` + {}", number * FORMULAS + at);
    let large = |at: usize| {
        format!(
            "=arrayPow(`sim://noisewave(0,5,500000,0.05)`, {}.5)",
            number * LARGE_FORMULAS + at
        )
    };
    let names: Vec<String> = if number.is_multiple_of(2) {
        (0..FORMULAS).map(cheap).collect()
    } else {
        (0..LARGE_FORMULAS).map(large).collect()
    };
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    names.chunks(500).flat_map(door::subscribe).collect()
}

/// A message of PVWS that is as long as one may be, and a list of empty lists.
pub(super) fn empty_lists() -> Vec<u8> {
    let begin = br#"{"type":"subscribe","pvs":["#;
    let lists = b"[],".repeat((MAX_REQUEST_BYTES * 9 / 10 - begin.len()) / 3);
    masked_text(&[&begin[..], &lists, b"[]]}"].concat())
}
