//! Executes documents with the native executor and compares its JSON with results of the vectors.

use pvwire_core::graphql::{
    Dialect, Document, Execution, Failure, Limits, Operation, OperationKind, Step, Watch, Work,
    Writer, takes_text,
};
use pvwire_core::select::execute::ALL_PARTS;
use pvwire_schema::types::PutValue;
use serde_json::{Map, Value as Json, json};

use crate::native::{Native, array};

/// A result in the notation of the vectors as JSON has it: numbers that JSON lacks are null.
pub fn in_json(tagged: &Json) -> Json {
    match tagged {
        Json::Array(list) => list.iter().map(in_json).collect(),
        Json::Object(fields) => {
            if let Some(number) = fields.get("$number") {
                return special(number);
            }
            if let Some(digits) = fields.get("$bigint").and_then(Json::as_str) {
                return serde_json::from_str(digits).expect("digits");
            }
            if let Some(Json::Array(elements)) = fields.get("of") {
                return elements.iter().map(special).collect();
            }
            let fields = fields
                .iter()
                .map(|(key, value)| (key.clone(), in_json(value)));
            Json::Object(fields.collect::<Map<_, _>>())
        }
        other => other.clone(),
    }
}

/// A number, the digits of an integer, or the name of a number that JSON lacks.
fn special(number: &Json) -> Json {
    match number.as_str() {
        Some("-0") => json!(0),
        Some(text) => serde_json::from_str(text).unwrap_or(Json::Null),
        None => number.clone(),
    }
}

fn parsed(bytes: &[u8]) -> Json {
    let text = String::from_utf8_lossy(bytes);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The operation of a case, or the result that refuses it.
pub fn operation(case: &Json) -> Result<Operation, Json> {
    let text = case["document"].as_str().expect("a document");
    let variables = match &case["variables"] {
        Json::Null => String::new(),
        variables => variables.to_string(),
    };
    let refused = |refusal: pvwire_core::graphql::Refusal| {
        let errors = parsed(refusal.errors().as_bytes());
        if refusal.is_of_document() {
            json!({ "$errors": errors })
        } else {
            json!({ "errors": errors })
        }
    };
    let document = Document::compile(text, Dialect::Pvwire, Limits::default()).map_err(refused)?;
    document
        .operation(case["operation"].as_str(), &variables)
        .map_err(refused)
}

/// The names of an operation's PVs, each once.
fn names(operation: &Operation) -> Vec<&str> {
    let all = operation
        .roots()
        .iter()
        .flat_map(|root| root.request().names());
    let mut names: Vec<&str> = all.map(String::as_str).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// The results of a case in each step, and what a mutation puts.
#[derive(Debug, Default)]
pub struct Executed {
    /// One a step.
    pub results: Vec<Json>,
    /// Names and values.
    pub puts: Vec<Json>,
}

/// Executes a case.
pub fn execute(case: &Json) -> Executed {
    let mut puts = Vec::new();
    let results = results(case, &mut puts);
    Executed { results, puts }
}

fn results(case: &Json, puts: &mut Vec<Json>) -> Vec<Json> {
    let steps = case["steps"].as_array().expect("steps");
    let operation = match operation(case) {
        Ok(operation) => operation,
        Err(refused) => return vec![json!([refused])],
    };
    let first = &steps[0]["event"];
    let user = case["user"].as_str().unwrap_or("");
    let mut native = Native::new(user, &names(&operation), first);
    let subscribes = operation.kind() == OperationKind::Subscription;
    if !subscribes || operation.roots().is_empty() {
        return vec![json!([respond(operation, &native, first, puts)])];
    }
    let root = operation.roots().first();
    let Some((root, selection)) = root.and_then(|root| Some((root, root.selection()?))) else {
        return vec![json!([respond(operation, &native, first, puts)])];
    };
    let mut writer = Writer::new(|_| 0);
    let each = root.request().names().iter();
    let mut watches: Vec<(&String, Watch)> = each
        .map(|name| (name, Watch::new(selection.clone())))
        .collect();
    let mut results = Vec::new();
    for (at, step) in steps.iter().enumerate() {
        if at > 0 {
            native.change(&step["event"]);
        }
        let mut news: Vec<&[u8]> = Vec::new();
        for (name, watch) in &mut watches {
            if watch.update(&native.pv(name), ALL_PARTS, &mut writer) {
                news.push(watch.changes());
            }
        }
        let mut told = Vec::new();
        if !news.is_empty() {
            let mut result = Vec::new();
            root.push_result(&news, &mut result);
            told.push(parsed(&result));
        }
        results.push(told.into());
    }
    results
}

/// Carries out a query or a mutation with the relay of the vectors, as a page's host does.
fn respond(operation: Operation, native: &Native, event: &Json, puts: &mut Vec<Json>) -> Json {
    let mut execution = Execution::new(operation, |digits| digits.parse().expect("a number"));
    loop {
        let steps = execution.steps();
        if steps.is_empty() {
            break;
        }
        for Step {
            first, names, work, ..
        } in steps
        {
            if let Work::Put(values) = &work {
                let each = names.iter().zip(values);
                puts.extend(each.map(|(name, value)| json!([name, put(value)])));
            }
            for (result, name) in (first..).zip(&names) {
                match &work {
                    Work::Ask if takes_text(&native.pv(name)) => execution.holds_text(result),
                    Work::Ask => {}
                    work => {
                        if let Some(failure) = failure(&event[name.as_str()], work) {
                            execution.fail(result, failure);
                        }
                    }
                }
            }
        }
    }
    let mut writer = Writer::new(|_| 0);
    let mut response = Vec::new();
    execution.respond(
        |_, channel, out| writer.write(channel.selection, &native.pv(channel.name), out),
        &mut response,
    );
    parsed(&response)
}

/// A value that is put, in the notation of results.
fn put(value: &PutValue) -> Json {
    match value {
        PutValue::Text(text) => text.clone().into(),
        PutValue::TextArray(texts) => texts.clone().into(),
        PutValue::Array(of) => array(of),
        other => panic!("mutations don't put {other:?}"),
    }
}

/// Why the relay of the vectors doesn't get or put a PV in this state.
fn failure(parts: &Json, work: &Work) -> Option<Failure> {
    if let Work::Put(_) = work {
        return (parts["put"] == "noAccess").then(|| Failure {
            may_be_written: Some(false),
            ..Failure::new("the server gives no write access", "NO_ACCESS")
        });
    }
    let reason = |name: &str| parts[name].as_str();
    let missing = reason("missing").map(|message| Failure::new(message, "TIMED_OUT"));
    missing.or_else(|| reason("refused").map(|message| Failure::new(message, "BAD_NAME")))
}
