//! Checks the engine's results against the plain executor's: on the vectors of
//! `client-core/tests/vectors`, and on random states and selections.

mod cases;

use std::env;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use pvwire_core::graphql::Writer;
use pvwire_oracle::native::Native;
use pvwire_oracle::random_cases::case;
use pvwire_oracle::reference::Form;
use pvwire_oracle::results::{
    ByEngine, ByPlain, Plain, Reader, Subscription, operation, program, root_programs, same,
};
use pvwire_oracle::{document, executed};
use serde_json::{Value as Json, json};

/// The results of the plain executor and of the engine in each step.
fn results(case: &Json) -> (Vec<Json>, Vec<Json>) {
    let steps = case["steps"].as_array().expect("steps");
    let user = case["user"].as_str().unwrap_or("");
    let mut plain = Plain::new(user, &["PV"]);
    let mut native = Native::new(user, &["PV"], &steps[0]["event"]);
    let (mut by_plain, mut by_engine) = (Vec::new(), Vec::new());
    let mut each = |look: &mut dyn FnMut(&Plain, &Native) -> (Json, Json)| {
        for (at, step) in steps.iter().enumerate() {
            plain.change(&step["event"], at == 0);
            if at > 0 {
                native.change(&step["event"]);
            }
            let (one, other) = look(&plain, &native);
            by_plain.push(one);
            by_engine.push(other);
        }
    };
    if let Some(text) = case["selection"].as_str() {
        let program = program(text).expect("a selection");
        let fields = document::selection(text);
        each(&mut |plain, native| {
            let reader = ByPlain(plain, &fields, Form::Selection);
            (reader.read("PV"), native.read(&program, "PV"))
        });
    } else {
        let text = case["document"].as_str().expect("a document");
        let (operation, _) = operation(case);
        let root = &operation.fields[0];
        let programs = root_programs(text, None, "");
        let (mut first, mut second) = (Subscription::new(root), Subscription::new(root));
        each(&mut |plain, native| {
            let reader = ByPlain(plain, &root.fields, Form::Graphql);
            let one: Vec<Json> = first.next(&reader).into_iter().collect();
            let other = second.next(&ByEngine(native, &programs[0]));
            (one.into(), other.into_iter().collect::<Vec<Json>>().into())
        });
    }
    (by_plain, by_engine)
}

fn words() -> impl Strategy<Value = Vec<u32>> {
    prop::collection::vec(any::<u32>(), 0..600)
}

/// What the native executor shows of a PV with the fields of a random selection, in each step, and
/// what the plain executor shows.
fn executed(case: &Json) -> (Vec<Json>, Vec<Json>) {
    let steps = case["steps"].as_array().expect("steps");
    let Some(selection) = case["selection"].as_str() else {
        let (by_plain, _) = results(case);
        let by_plain = by_plain.iter().map(executed::in_json);
        return (by_plain.collect(), executed::execute(case).results);
    };
    let user = case["user"].as_str().unwrap_or("");
    let text = format!("{{ getChannel(id: \"PV\") {selection} }}");
    let operation = executed::operation(&json!({ "document": text })).expect("a document");
    let selected = operation.roots()[0].selection().expect("a selection");
    let fields = document::selection(selection);
    let mut plain = Plain::new(user, &["PV"]);
    let mut native = Native::new(user, &["PV"], &steps[0]["event"]);
    let mut writer = Writer::new(|_| 0);
    let (mut by_plain, mut by_engine) = (Vec::new(), Vec::new());
    for (at, step) in steps.iter().enumerate() {
        plain.change(&step["event"], at == 0);
        if at > 0 {
            native.change(&step["event"]);
        }
        let reader = ByPlain(&plain, &fields, Form::Graphql);
        by_plain.push(executed::in_json(&reader.read("PV")));
        let mut json = Vec::new();
        writer.write(selected, &native.pv("PV"), &mut json);
        by_engine.push(serde_json::from_slice(&json).expect("JSON"));
    }
    (by_plain, by_engine)
}

/// `PVWIRE_ORACLE_CASES=100000` runs that many.
#[test]
fn random_states_and_selections_give_what_the_reference_gives() {
    let cases =
        env::var("PVWIRE_ORACLE_CASES").map_or(2000, |cases| cases.parse().expect("a number"));
    let config = Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    };
    // Each run has the same cases unless more are requested.
    let mut runner = if env::var("PVWIRE_ORACLE_CASES").is_ok() {
        TestRunner::new(config)
    } else {
        TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha))
    };
    let outcome = runner.run(&words(), |words| {
        let case = case(words);
        let (by_plain, by_engine) = results(&case);
        for (at, (one, other)) in by_plain.iter().zip(&by_engine).enumerate() {
            prop_assert!(
                same(one, other),
                "step {at} of {case}\nengine    {other}\nreference {one}"
            );
        }
        let (by_plain, by_executor) = executed(&case);
        for (at, (one, other)) in by_plain.iter().zip(&by_executor).enumerate() {
            prop_assert!(
                same(one, other),
                "step {at} of {case}\nexecutor  {other}\nreference {one}"
            );
        }
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
}
