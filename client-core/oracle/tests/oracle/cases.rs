//! Runs the vectors of `tests/vectors` with the plain executor and with the engine.

use std::fs;

use pvwire_core::select::EVERYTHING;
use pvwire_oracle::native::Native;
use pvwire_oracle::reference::Form;
use pvwire_oracle::results::{
    ByEngine, ByPlain, Plain, Reader, Subscription, ids, operation, program, query, refused,
    root_programs, same,
};
use pvwire_oracle::{document, executed};
use serde_json::{Value as Json, json};

const FILES: [&str; 14] = [
    "numbers",
    "texts",
    "arrays",
    "structures",
    "metadata",
    "times",
    "states",
    "access",
    "selections",
    "subscriptions",
    "queries",
    "language",
    "requests",
    "puts",
];

/// Files whose cases the plain executor does not know: introspection, errors in documents, and
/// values that are put.
const NOT_PLAIN: [&str; 3] = ["language", "requests", "puts"];

/// Results that differ from the expected ones.
type Differences = Vec<String>;

fn check(what: &str, case: &Json, at: usize, given: &Json, found: &mut Differences) {
    let expected = &case["steps"][at]["expected"];
    if !same(given, expected) {
        let name = &case["name"];
        found.push(format!(
            "{what}: {name}, step {at}\n  is  {given}\n  not {expected}"
        ));
    }
}

fn select(case: &Json, text: &str, found: &mut Differences) {
    let name = case["pv"].as_str().unwrap_or("PV");
    let steps = case["steps"].as_array().expect("steps");
    let program = match program(text) {
        Ok(program) => program,
        Err(message) => {
            let expected = steps[0]["expected"]["$error"].as_str().expect("an error");
            assert!(expected.contains(&message), "{message}\n{expected}");
            return;
        }
    };
    let user = case["user"].as_str().unwrap_or("");
    let fields = document::selection(if text == "*" { EVERYTHING } else { text });
    let mut plain = Plain::new(user, &[name]);
    let mut native = Native::new(user, &[name], &steps[0]["event"]);
    for (at, step) in steps.iter().enumerate() {
        plain.change(&step["event"], at == 0);
        if at > 0 {
            native.change(&step["event"]);
        }
        let reader = ByPlain(&plain, &fields, Form::Selection);
        check("reference", case, at, &reader.read(name), found);
        check("engine", case, at, &native.read(&program, name), found);
    }
}

/// Compares the JSON of the native executor.
fn execute_natively(case: &Json, found: &mut Differences) {
    let executed = executed::execute(case);
    let puts = Json::from(executed.puts);
    let expected = case.get("puts").cloned().unwrap_or_else(|| json!([]));
    if !same(&puts, &expected) {
        let name = &case["name"];
        found.push(format!("puts: {name}\n  is  {puts}\n  not {expected}"));
    }
    for (at, given) in executed.results.iter().enumerate() {
        let expected = executed::in_json(&case["steps"][at]["expected"]);
        if !same(given, &expected) {
            let name = &case["name"];
            found.push(format!(
                "executor: {name}, step {at}\n  is  {given}\n  not {expected}"
            ));
        }
    }
}

fn execute(case: &Json, found: &mut Differences) {
    let text = case["document"].as_str().expect("a document");
    let steps = case["steps"].as_array().expect("steps");
    let name = case["operation"].as_str();
    let variables = match &case["variables"] {
        Json::Null => String::new(),
        variables => variables.to_string(),
    };
    if let Some(refusal) = refused(text, name, &variables) {
        check("document", case, 0, &json!([refusal]), found);
        return;
    }
    let (operation, variables) = operation(case);
    let names: Vec<String> = operation.fields.iter().flat_map(ids).collect();
    let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
    names.dedup();
    let mut plain = Plain::new("", &names);
    if operation.kind != "subscription" {
        plain.change(&steps[0]["event"], true);
        let problem = steps[0]["expected"][0]["errors"][0]["message"].as_str();
        // The plan of the document says this.
        if problem.is_some_and(|problem| problem.starts_with("Argument")) {
            return;
        }
        let given = query(&plain, &operation);
        check("reference", case, 0, &json!([given]), found);
        return;
    }
    let Some(root) = operation.fields.first() else {
        check("reference", case, 0, &json!([{ "data": {} }]), found);
        return;
    };
    let programs = root_programs(text, name, &variables);
    let mut native = Native::new("", &names, &steps[0]["event"]);
    let mut by_plain = Subscription::new(root);
    let mut by_engine = Subscription::new(root);
    for (at, step) in steps.iter().enumerate() {
        plain.change(&step["event"], at == 0);
        if at > 0 {
            native.change(&step["event"]);
        }
        let reader = ByPlain(&plain, &root.fields, Form::Graphql);
        let given: Vec<Json> = by_plain.next(&reader).into_iter().collect();
        check("reference", case, at, &given.into(), found);
        let given: Vec<Json> = by_engine
            .next(&ByEngine(&native, &programs[0]))
            .into_iter()
            .collect();
        check("engine", case, at, &given.into(), found);
    }
}

#[test]
fn vectors_are_what_the_reference_and_the_engine_give() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/vectors");
    let mut found = Differences::new();
    let mut cases = 0;
    for file in FILES {
        let text = fs::read_to_string(format!("{folder}/{file}.json")).expect("a file");
        let vectors: Json = serde_json::from_str(&text).expect("JSON");
        for case in vectors["cases"].as_array().expect("cases") {
            cases += 1;
            let mut case = case.clone();
            if case["steps"][0].get("event").is_none() {
                case["steps"][0]["event"] = vectors["event"].clone();
            }
            let case = &case;
            match (&case["selection"], &case["document"]) {
                (_, Json::String(_)) => {
                    execute_natively(case, &mut found);
                    if !NOT_PLAIN.contains(&file) {
                        execute(case, &mut found);
                    }
                }
                (Json::String(own), _) => select(case, own, &mut found),
                _ => select(
                    case,
                    vectors["selection"].as_str().unwrap_or("*"),
                    &mut found,
                ),
            }
        }
    }
    assert!(cases > 500);
    assert!(
        found.is_empty(),
        "{} differ\n{}",
        found.len(),
        found.join("\n")
    );
}
