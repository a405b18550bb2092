//! Writes random states of a PV, random selections of it and the results, for
//! `wasm-client/tests/random_cases.node.test.ts`: `random_cases COUNT` prints one JSON object a line.
//!
//! The modules are those of the test program `oracle`. A case whose results differ between the
//! engine and the plain executor ends the program with status 1.

// The test program uses all of its modules, this program a part of them.
#![allow(dead_code)]

#[path = "../tests/oracle/document.rs"]
mod document;
#[path = "../tests/oracle/elements.rs"]
mod elements;
#[path = "../tests/oracle/frames.rs"]
mod frames;
#[path = "../tests/oracle/native.rs"]
mod native;
#[path = "../tests/oracle/random_cases.rs"]
mod random_cases;
#[path = "../tests/oracle/random_states.rs"]
mod random_states;
#[path = "../tests/oracle/reference.rs"]
mod reference;
#[path = "../tests/oracle/results.rs"]
mod results;
#[path = "../tests/oracle/same.rs"]
mod same;
#[path = "../tests/oracle/state.rs"]
mod state;
#[path = "../tests/oracle/text.rs"]
mod text;

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use serde_json::{Value as Json, json};

use crate::document::Field;
use crate::native::{Input, Native};
use crate::reference::Form;
use crate::results::{ByPlain, Plain, Reader, operation, program, root_programs};

/// Maximum number of words from which a case is made; the words after the last one are zero.
const MAX_WORDS: u64 = 600;

fn main() -> ExitCode {
    let count = std::env::args().nth(1).and_then(|count| count.parse().ok());
    let Some(count) = count else {
        eprintln!("usage: random_cases COUNT");
        return ExitCode::from(64);
    };
    let mut out = BufWriter::new(io::stdout().lock());
    for number in 0..count {
        let case = with_results(&random_cases::case(words(number)));
        let Some(case) = case else {
            return ExitCode::FAILURE;
        };
        // The reader has seen enough.
        if writeln!(out, "{case}").is_err() {
            break;
        }
    }
    ExitCode::SUCCESS
}

/// The random words of a case.
fn words(case: u64) -> Vec<u32> {
    // The states of consecutive cases must not overlap.
    let mut state = random(&mut case.clone());
    let count = random(&mut state) % MAX_WORDS;
    (0..count).map(|_| random(&mut state) as u32).collect()
}

/// The next random number, by Steele, Lea and Flood's SplitMix64.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut word = *state;
    word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

/// A case with what its host receives, and the result, in each step.
fn with_results(case: &Json) -> Option<Json> {
    let steps = case["steps"].as_array().expect("steps");
    let user = case["user"].as_str().unwrap_or("");
    let (program, fields, form) = selected(case);
    let mut plain = Plain::new(user, &["PV"]);
    let mut native = Native::new(user, &["PV"], &steps[0]["event"]);
    let mut told = Vec::new();
    for (at, step) in steps.iter().enumerate() {
        plain.change(&step["event"], at == 0);
        if at > 0 {
            native.change(&step["event"]);
        }
        let expected = ByPlain(&plain, &fields, form).read("PV");
        let given = native.read(&program, "PV");
        if !same::same(&expected, &given) {
            eprintln!("step {at} of {case}\nengine    {given}\nreference {expected}");
            return None;
        }
        let inputs: Vec<Json> = native.inputs.drain(..).map(input).collect();
        told.push(json!({ "inputs": inputs, "expected": expected }));
    }
    let mut written = json!({ "steps": told });
    for text in ["selection", "document"] {
        if let Some(given) = case.get(text) {
            written[text] = given.clone();
        }
    }
    Some(written)
}

type Selected = (pvwire_core::select::execute::Program, Vec<Field>, Form);

fn selected(case: &Json) -> Selected {
    if let Some(text) = case["selection"].as_str() {
        let program = program(text).expect("a selection");
        return (program, document::selection(text), Form::Selection);
    }
    let text = case["document"].as_str().expect("a document");
    let (mut operation, _) = operation(case);
    let program = root_programs(text, None, "").swap_remove(0);
    (
        program,
        operation.fields.swap_remove(0).fields,
        Form::Graphql,
    )
}

fn input(input: Input) -> Json {
    match input {
        Input::Frame(bytes) => json!({ "frame": text::base64(&bytes) }),
        Input::Put => json!({ "put": true }),
        Input::Silent(heard_ms) => json!({ "silentSinceMs": heard_ms }),
        Input::Lost(lost_ms, heard_ms) => json!({ "lostMs": lost_ms, "heardMs": heard_ms }),
    }
}
