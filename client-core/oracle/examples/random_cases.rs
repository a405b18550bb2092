//! Writes random states of PVs, random selections of them and the results, for
//! `wasm-client/tests/random_cases.node.test.ts`: `random_cases COUNT` prints one JSON object a line.
//!
//! A case is one PV's states, read with one selection. A line is a group of cases: PVs of one
//! client, each of which is read with each selection.
//!
//! A case whose results differ between the engine and the plain executor ends the program with
//! status 1.

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;
use std::sync::Arc;

use pvwire_core::graphql::{Selection, Writer};
use pvwire_core::select::execute::Program;
use pvwire_oracle::document::{self, Field};
use pvwire_oracle::native::{Input, Native};
use pvwire_oracle::random_cases::{history, relay, selected};
use pvwire_oracle::random_states::Words;
use pvwire_oracle::reference::Form;
use pvwire_oracle::results::{self, ByPlain, Plain, Reader, operation, program, root_programs};
use pvwire_oracle::{executed, text};
use serde_json::{Value as Json, json};

/// PVs of a group, and selections for each of them.
const PVS: usize = 4;
const SELECTIONS: usize = 4;

/// Maximum number of words from which the states of a PV or a selection are made; the words after
/// the last one are zero.
const MAX_WORDS: u64 = 600;

fn main() -> ExitCode {
    let count = std::env::args().nth(1).and_then(|count| count.parse().ok());
    let Some(count): Option<usize> = count else {
        eprintln!("usage: random_cases COUNT");
        return ExitCode::from(64);
    };
    let mut out = BufWriter::new(io::stdout().lock());
    for number in 0..count.div_ceil(PVS * SELECTIONS) {
        let Some(told) = with_results(number, &group(number as u64)) else {
            return ExitCode::FAILURE;
        };
        // The reader has seen enough.
        if writeln!(out, "{told}").is_err() {
            break;
        }
    }
    ExitCode::SUCCESS
}

/// PVs of one client, whose changes arrive in the same frames, and selections for each of them.
#[derive(Debug)]
struct Group {
    user: &'static str,
    names: Vec<String>,
    events: Vec<Json>,
    /// Each with a `selection` or a `document`.
    selections: Vec<Json>,
}

fn group(number: u64) -> Group {
    // The states of consecutive groups must not overlap.
    let mut state = random(&mut number.clone());
    let mut own = words(&mut state);
    let user = if own.is(8) { "jane" } else { "" };
    let mut names = Vec::new();
    let mut events: Vec<Json> = Vec::new();
    for at in 0..PVS {
        let name = format!("PV{at}");
        for (at, parts) in history(&mut words(&mut state)).into_iter().enumerate() {
            if at == events.len() {
                events.push(json!({}));
            }
            events[at][&name] = parts;
        }
        names.push(name);
    }
    events.iter_mut().for_each(skip_for_one_cause);
    events.extend(relay(&mut own).map(|event| json!({ "$relay": event })));
    let mut selection = || {
        let mut words = words(&mut state);
        let is_graphql = words.is(2);
        selected(&mut words, is_graphql)
    };
    let selections = (0..SELECTIONS).map(|_| selection()).collect();
    Group {
        user,
        names,
        events,
        selections,
    }
}

/// A frame for a client that is behind, or that paces its updates, has one cause for all its PVs.
fn skip_for_one_cause(event: &mut Json) {
    let pvs = event.as_object_mut().expect("an object");
    let skips = |parts: &Json, cause: &str| parts["skips"].get(cause).is_some();
    let causes = ["behind", "paced"];
    let found = causes
        .into_iter()
        .find(|cause| pvs.values().any(|parts| skips(parts, cause)));
    let Some(cause) = found else { return };
    for parts in pvs.values_mut() {
        if let Some(Json::Object(skips)) = parts.get_mut("skips") {
            let count: u64 = skips.values().filter_map(Json::as_u64).sum();
            parts["skips"] = json!({ cause: count });
        }
    }
}

fn words(state: &mut u64) -> Words {
    let count = random(state) % MAX_WORDS;
    Words::new((0..count).map(|_| random(state) as u32).collect())
}

/// The next random number, by Steele, Lea and Flood's SplitMix64.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut word = *state;
    word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

/// A group with what its host receives, and the results, in each step.
fn with_results(number: usize, group: &Group) -> Option<Json> {
    let names: Vec<&str> = group.names.iter().map(String::as_str).collect();
    let selections: Vec<Selected> = group.selections.iter().map(Selected::new).collect();
    let mut plain = Plain::new(group.user, &names);
    let mut native = Native::new(group.user, &names, &group.events[0]);
    let mut writer = Writer::new(|_| 0);
    let mut last = vec![Json::Null; PVS * SELECTIONS];
    let mut told = Vec::new();
    for (at, event) in group.events.iter().enumerate() {
        plain.change(event, at == 0);
        if at > 0 {
            native.change(event);
        }
        let mut expected = Vec::with_capacity(last.len());
        for (nth, last) in last.iter_mut().enumerate() {
            let (selection, name) = (&selections[nth % SELECTIONS], names[nth / SELECTIONS]);
            let Some(now) = selection.read(&plain, &native, &mut writer, name) else {
                eprintln!("{name} in step {at} of group {number}: {group:#?}");
                return None;
            };
            let is_as_before = now == *last;
            expected.push(if is_as_before {
                Json::Null
            } else {
                now.clone()
            });
            *last = now;
        }
        let inputs: Vec<Json> = native.inputs.drain(..).map(input).collect();
        told.push(json!({ "inputs": inputs, "expected": expected }));
    }
    Some(json!({ "number": number, "names": names, "selections": group.selections, "steps": told }))
}

/// A selection for the plain executor and for the engine.
struct Selected {
    text: String,
    fields: Vec<Field>,
    form: Form,
    program: Program,
    /// For the executor that writes JSON.
    written: Option<Arc<Selection>>,
}

impl Selected {
    fn new(of: &Json) -> Self {
        if let Some(text) = of["selection"].as_str() {
            return Self {
                text: text.to_owned(),
                fields: document::selection(text),
                form: Form::Selection,
                program: program(text).expect("a selection"),
                written: None,
            };
        }
        let text = of["document"].as_str().expect("a document");
        let (mut operation, _) = operation(of);
        let executed = executed::operation(of).expect("a document");
        Self {
            text: text.to_owned(),
            fields: operation.fields.swap_remove(0).fields,
            form: Form::Graphql,
            program: root_programs(text, None, "").swap_remove(0),
            written: executed.roots()[0].selection().cloned(),
        }
    }

    /// What it shows of a PV, unless the results differ.
    fn read(
        &self,
        plain: &Plain,
        native: &Native,
        writer: &mut Writer,
        name: &str,
    ) -> Option<Json> {
        let expected = ByPlain(plain, &self.fields, self.form).read(name);
        let same = |who: &str, given: &Json, expected: &Json| {
            let same = results::same(expected, given);
            if !same {
                let text = &self.text;
                eprintln!("{text}\n{who} {given}\nreference {expected}");
            }
            same
        };
        let mut is_same = same("engine", &native.read(&self.program, name), &expected);
        if let Some(selection) = &self.written {
            let mut json = Vec::new();
            writer.write(selection, &native.pv(name), &mut json);
            let given = serde_json::from_slice(&json).expect("JSON");
            is_same &= same("executor", &given, &executed::in_json(&expected));
        }
        is_same.then_some(expected)
    }
}

fn input(input: Input) -> Json {
    match input {
        Input::Frame(bytes) => json!({ "frame": text::base64(&bytes) }),
        Input::Put(name) => json!({ "put": name }),
        Input::Silent(heard_ms) => json!({ "silentSinceMs": heard_ms }),
        Input::Lost(lost_ms, heard_ms) => json!({ "lostMs": lost_ms, "heardMs": heard_ms }),
    }
}
