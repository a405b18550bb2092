//! Computes the results of selections and documents, step by step, with the plain executor or the
//! engine, and compares results.

use pvwire_core::select::execute::{Program, UnknownField};
use pvwire_core::select::{Documents, EVERYTHING, selection};
use serde_json::{Map, Value as Json, json};

use crate::document::{self, Field, Operation};
use crate::native::Native;
use crate::reference::{self, Form};
use crate::state::{Pv, changes};

/// The states of some PVs that events change.
pub struct Plain {
    pvs: Vec<Pv>,
}

impl Plain {
    /// PVs that the user reads, before anything is known of them.
    pub fn new(user: &str, names: &[&str]) -> Self {
        let pvs = names.iter().map(|name| Pv::new(name, user)).collect();
        Self { pvs }
    }

    /// Applies an event.
    pub fn change(&mut self, event: &Json, is_first: bool) {
        for (name, parts) in changes(event) {
            for pv in self.pvs.iter_mut().filter(|pv| pv.name == *name) {
                pv.change(parts, is_first);
            }
        }
        for pv in &mut self.pvs {
            // Any message shows that the relay responds.
            pv.relay_heard_ms = None;
            if event["$relay"].is_object() {
                pv.relay(&event["$relay"]);
            }
        }
    }

    pub(crate) fn pv(&self, name: &str) -> &Pv {
        self.pvs.iter().find(|pv| pv.name == name).expect("a PV")
    }
}

/// Reads one PV.
pub trait Reader {
    /// The PV as a result shows it.
    fn read(&self, name: &str) -> Json;
    /// Whether it has enough data for a first result.
    fn is_settled(&self, name: &str) -> bool;
}

/// The plain executor with the fields of a selection.
pub struct ByPlain<'a>(pub &'a Plain, pub &'a [Field], pub Form);

impl Reader for ByPlain<'_> {
    fn read(&self, name: &str) -> Json {
        reference::channel(self.0.pv(name), self.1, self.2)
    }

    fn is_settled(&self, name: &str) -> bool {
        reference::is_settled(self.0.pv(name))
    }
}

/// The engine with a program.
pub struct ByEngine<'a>(pub &'a Native, pub &'a Program);

impl Reader for ByEngine<'_> {
    fn read(&self, name: &str) -> Json {
        self.0.read(self.1, name)
    }

    fn is_settled(&self, name: &str) -> bool {
        self.0.is_settled(name)
    }
}

/// A subscription to PVs: a complete result first, then only what changed.
pub struct Subscription<'a> {
    /// Those of its PVs.
    pub names: Vec<String>,
    /// The field that subscribes.
    pub root: &'a Field,
    told: Vec<Option<Json>>,
}

impl<'a> Subscription<'a> {
    /// Subscribes to the PVs that the field names.
    pub fn new(root: &'a Field) -> Self {
        let names = ids(root);
        let told = vec![None; names.len()];
        Self { names, root, told }
    }

    /// The result of a step, if there is one.
    pub fn next(&mut self, by: &dyn Reader) -> Option<Json> {
        let mut news = Vec::new();
        for (at, name) in self.names.iter().enumerate() {
            if self.told[at].is_none() && !by.is_settled(name) {
                continue;
            }
            let now = by.read(name);
            let before = self.told[at].replace(now.clone());
            match before {
                None => news.push(now),
                Some(before) if before == now => {}
                Some(before) => news.push(self.changed(&before, now)),
            }
        }
        let value = match self.root.name.as_str() {
            "subscribeChannel" => news.pop()?,
            _ if news.is_empty() => return None,
            _ => news.into(),
        };
        Some(json!({ "data": { self.root.key.as_str(): value } }))
    }

    /// Objects that did not change are null, and the fields of one that is gone.
    fn changed(&self, before: &Json, mut now: Json) -> Json {
        for field in self
            .root
            .fields
            .iter()
            .filter(|field| !matches!(field.name.as_str(), "id" | "skipped" | "__typename"))
        {
            let (is, was) = (&now[&field.key], &before[&field.key]);
            if is == was {
                now[&field.key] = Json::Null;
            } else if is.is_null() && !field.fields.is_empty() {
                now[&field.key] = gone(field, was);
            }
        }
        now
    }
}

/// An object that is gone: null in its fields, but for the name of its type.
fn gone(object: &Field, was: &Json) -> Json {
    let fields = object.fields.iter().map(|field| {
        let value = match field.name.as_str() {
            "__typename" => was[&field.key].clone(),
            _ => Json::Null,
        };
        (field.key.clone(), value)
    });
    Json::Object(fields.collect())
}

/// The names of the PVs of a root field.
pub fn ids(root: &Field) -> Vec<String> {
    let text = |id: &Json| id.as_str().map_or_else(|| id.to_string(), str::to_owned);
    match (root.arguments.get("id"), root.arguments.get("ids")) {
        (Some(id), _) => vec![text(id)],
        (None, Some(Json::Array(ids))) => ids.iter().map(text).collect(),
        (None, Some(id)) => vec![text(id)],
        (None, None) => Vec::new(),
    }
}

/// The program of a selection, or the message for an invalid one.
pub fn program(text: &str) -> Result<Program, String> {
    let plan = selection(if text == "*" { EVERYTHING } else { text });
    if plan.starts_with('[') {
        let errors: Json = serde_json::from_str(&plan).expect("errors");
        let place = &errors[0]["locations"][0];
        let message = errors[0]["message"].as_str().expect("a message");
        return Err(format!(
            "line {}, column {}: {message}",
            place["line"], place["column"]
        ));
    }
    Program::new(&plan, false).map_err(|UnknownField(path)| path)
}

/// What a document gives without being executed: its errors, or those of its variables.
pub fn refused(text: &str, operation: Option<&str>, variables: &str) -> Option<Json> {
    let plan = Documents::new().plan(text, operation, variables);
    let errors = |json: &str| -> Json { serde_json::from_str(json).expect("errors") };
    if plan.starts_with('[') {
        return Some(json!({ "$errors": errors(&plan) }));
    }
    plan.strip_prefix('?')
        .map(|json| json!({ "errors": errors(json) }))
}

/// The programs of an operation's root fields, in order.
pub fn root_programs(text: &str, operation: Option<&str>, variables: &str) -> Vec<Program> {
    let plan = Documents::new().plan(text, operation, variables);
    let mut programs = Vec::new();
    let mut lines: Vec<&str> = Vec::new();
    let mut depth = 0;
    for line in plan.lines().skip(1) {
        match line.chars().next() {
            Some('{') if depth == 0 => depth = 1,
            Some('}') if depth == 1 => {
                depth = 0;
                programs.push(Program::new(&lines.join("\n"), true).expect("a program"));
                lines.clear();
            }
            first if depth > 0 => {
                match first {
                    Some('{') => depth += 1,
                    Some('}') => depth -= 1,
                    _ => {}
                }
                lines.push(line);
            }
            _ => {}
        }
    }
    programs
}

/// The result of a query or a mutation.
pub fn query(plain: &Plain, operation: &Operation) -> Json {
    let mut errors: Vec<Json> = Vec::new();
    let mut data = Map::new();
    let mut is_null = false;
    for root in &operation.fields {
        let value = match root.name.as_str() {
            "__typename" => type_of(&operation.kind).into(),
            _ => root_value(plain, root, &mut errors),
        };
        is_null |= value.is_null() && root.name.ends_with('s');
        data.insert(root.key.clone(), value);
    }
    let data = if is_null { Json::Null } else { data.into() };
    if errors.is_empty() {
        json!({ "data": data })
    } else {
        json!({ "errors": errors, "data": data })
    }
}

fn type_of(kind: &str) -> &str {
    match kind {
        "mutation" => "Mutation",
        "subscription" => "Subscription",
        _ => "Query",
    }
}

fn root_value(plain: &Plain, root: &Field, errors: &mut Vec<Json>) -> Json {
    let names = ids(root);
    let locations: Vec<Json> = (root.locations.iter())
        .map(|(line, column)| json!({ "line": line, "column": column }))
        .collect();
    let mut fail = |message: &str, path: Json, extensions: Json| {
        errors.push(json!({
            "message": message, "locations": locations, "path": path, "extensions": extensions,
        }));
        Json::Null
    };
    let empty = Vec::new();
    let values = root.arguments.get("values");
    let values = values.map(|values| values.as_array().unwrap_or(&empty));
    if let Some(values) = values.filter(|values| values.len() != names.len()) {
        let message = format!(
            "{} values can't be put to {} PVs",
            values.len(),
            names.len()
        );
        return fail(&message, json!([root.key]), json!({ "code": "BAD_VALUE" }));
    }
    let mut results = Vec::new();
    for (at, name) in names.iter().enumerate() {
        let pv = plain.pv(name);
        let path = match root.name.as_str() {
            "getChannel" => json!([root.key]),
            _ => json!([root.key, at]),
        };
        let unwritten = |code: &str| json!({ "code": code, "mayBeWritten": false });
        let value = values.map(|values| values[at].as_str().unwrap_or(""));
        results.push(if let Some(message) = &pv.missing {
            fail(message, path, json!({ "code": "TIMED_OUT" }))
        } else if pv.state == "refused" {
            fail(&pv.reason, path, json!({ "code": "BAD_NAME" }))
        } else if value.is_some_and(|value| value.starts_with('[')) {
            let message = "a list to write holds numbers or strings only";
            fail(message, path, unwritten("BAD_VALUE"))
        } else if value.is_some() && pv.put == Some(false) {
            let message = "the server gives no write access";
            fail(message, path, unwritten("NO_ACCESS"))
        } else {
            // A Get is another request than the put whose outcome was seen.
            let mut pv = pv.clone();
            pv.put = None;
            reference::channel(&pv, &root.fields, Form::Graphql)
        });
    }
    match root.name.as_str() {
        "getChannel" => results.pop().unwrap_or_default(),
        _ => results.into(),
    }
}

/// The operation of a document, and its variables as the engine takes them.
pub fn operation(case: &Json) -> (Operation, String) {
    let variables = &case["variables"];
    let text = case["document"].as_str().expect("a document");
    let operation = document::operation(text, case["operation"].as_str(), variables);
    let variables = if variables.is_null() {
        String::new()
    } else {
        variables.to_string()
    };
    (operation, variables)
}

/// Whether two results are the same; 1 and 1.0 are the same number.
pub fn same(a: &Json, b: &Json) -> bool {
    match (a, b) {
        (Json::Number(a), Json::Number(b)) => a.as_f64() == b.as_f64(),
        (Json::Array(a), Json::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Json::Object(a), Json::Object(b)) => {
            let is_in = |(key, a): (&String, &Json)| b.get(key).is_some_and(|b| same(a, b));
            a.len() == b.len() && a.iter().all(is_in)
        }
        (a, b) => a == b,
    }
}
