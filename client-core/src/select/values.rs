//! Validates the values of variables and arguments against their types and writes them as JSON.
//! Numbers keep all their digits.

use crate::select::error::{DocumentError, MAX_ERRORS, fill, push_number, push_quoted};
use crate::select::parser::{Bounds, Form, parse};
use crate::select::schema::{Kind, Parameter, Ty, id};
use crate::select::suggest::Names;
use crate::select::tree::{Document, Span, kind, unquoted};

/// A variable that has a value.
pub(crate) struct Given {
    name: Span,
    /// In JSON, as its type requires it.
    json: String,
}

impl Given {
    /// Length of its value.
    pub(crate) fn length(&self) -> usize {
        self.json.len()
    }
}

/// Why a value is not valid as a scalar or enum value; empty if it is valid. `json` is true for the
/// value of a variable, false for a literal in a document.
pub(crate) fn problem(document: &Document, at: u32, ty: Ty, json: bool) -> String {
    let value = document.node(at);
    let text = document.name(value);
    let found = || {
        let mut found = String::new();
        document.push_value(at, json, &mut found);
        found
    };
    let named = ty.named();
    let number = matches!(value.kind, kind::INT | kind::FLOAT);
    // JavaScript treats a number with a large exponent as an integer.
    let integer =
        value.kind == kind::INT || (json && number && text.bytes().any(|byte| byte == b'+'));
    let (fits, template) = match ty.name {
        id::INT if integer => (
            text.parse::<i32>().is_ok(),
            "Int cannot represent non 32-bit signed integer value: %",
        ),
        id::INT => (false, "Int cannot represent non-integer value: %"),
        id::FLOAT => (number, "Float cannot represent non numeric value: %"),
        id::STRING => (
            value.is_string(),
            "String cannot represent a non string value: %",
        ),
        id::BOOLEAN => (
            value.kind == kind::BOOLEAN,
            "Boolean cannot represent a non boolean value: %",
        ),
        id::ID if json => (value.is_string() || integer, "ID cannot represent value: %"),
        id::ID => (
            value.is_string() || integer,
            "ID cannot represent a non-string and non-integer value: %",
        ),
        _ if named.kind == Kind::Enum => {
            let named_so = if json { kind::STRING } else { kind::ENUM };
            let word = unquoted(text);
            let is_word = value.kind == named_so;
            if is_word && named.values.contains(&word) {
                return String::new();
            }
            let other = found();
            let shown = if is_word { word } else { &other };
            let hint = document.suggest("the enum value ", shown, &Names::Values(named.values));
            let template = match (is_word, json) {
                (true, _) => "Value \"%\" does not exist in \"%\" enum.%",
                (_, true) => "Enum \"%\" cannot represent non-string value: %.%",
                _ => "Enum \"%\" cannot represent non-enum value: %.%",
            };
            let (first, second) = if is_word {
                (word, named.name)
            } else {
                (named.name, shown)
            };
            return fill(template, &[first, second, &hint]);
        }
        // Custom scalars accept any value.
        _ => (true, ""),
    };
    if fits {
        String::new()
    } else {
        fill(template, &[&found()])
    }
}

struct Coercion<'a> {
    json: Document,
    name: &'a str,
    at: u32,
    errors: Vec<DocumentError>,
}

/// The values of an operation's variables, and their errors. `json` is an object or empty.
pub(crate) fn coerce(
    document: &Document,
    operation: u32,
    json: &str,
) -> (Vec<Given>, Vec<DocumentError>) {
    if json.is_empty() && document.count(operation, kind::VARIABLE) == 0 {
        return (Vec::new(), Vec::new());
    }
    let json = if json.is_empty() { "{}" } else { json };
    let mut coercion = Coercion {
        json: parse(json, Form::Json, Bounds::default()),
        name: "",
        at: 0,
        errors: Vec::new(),
    };
    let object = coercion.json.node(0).child;
    let fits = coercion.json.errors.is_empty();
    if !fits || coercion.json.node(object).kind != kind::OBJECT {
        coercion.say("Variables must be provided as an Object.", &[]);
    }
    let mut given: Vec<Given> = Vec::new();
    for (_, variable) in document.children(operation) {
        if variable.kind != kind::VARIABLE {
            continue;
        }
        let Some(ty) = document.ty(variable) else {
            continue;
        };
        coercion.name = document.name(variable);
        coercion.at = variable.at;
        let mut out = String::new();
        let value = coercion.json.argument(object, &quoted(coercion.name));
        let default = document.node(variable.child);
        let mut problem = "";
        if value != 0 {
            if coercion.json.node(value).kind == kind::NULL && ty.is_required() {
                problem = "Variable \"$%\" of non-null type \"%\" must not be null.";
            } else {
                coercion.value(value, ty, "", &mut out);
            }
        } else if variable.child != 0 && default.kind != kind::DIRECTIVE {
            // A default is constant and was validated.
            push_literal(document, variable.child, ty, &[], &mut out);
        } else if ty.is_required() {
            problem = "Variable \"$%\" of required type \"%\" was not provided.";
        } else {
            continue;
        }
        if !problem.is_empty() {
            coercion.say(problem, &[coercion.name, &ty.to_text()]);
        }
        given.push(Given {
            name: variable.name,
            json: out,
        });
    }
    (given, coercion.errors)
}

/// Quoted as a key in JSON; names of variables need no escapes.
fn quoted(name: &str) -> String {
    let mut key = String::with_capacity(name.len() + 2);
    for part in ["\"", name, "\""] {
        key.push_str(part);
    }
    key
}

impl Coercion<'_> {
    fn say(&mut self, template: &str, words: &[&str]) {
        let places = [self.at];
        // An error without a name is not about a variable.
        let places = &places[usize::from(self.name.is_empty())..];
        match self.errors.len() {
            MAX_ERRORS => {
                let message =
                    "Too many errors processing variables, error limit reached. Execution aborted.";
                self.errors.push(DocumentError::new(&[], message, &[]));
            }
            0..MAX_ERRORS => {
                let error = DocumentError::new(places, template, words);
                self.errors.push(error);
            }
            _ => {}
        }
    }

    fn value(&mut self, at: u32, ty: Ty, path: &str, out: &mut String) {
        let value = *self.json.node(at);
        let mut problem = String::new();
        if ty.is_required() {
            if value.kind != kind::NULL {
                self.value(at, ty.inner(), path, out);
                return;
            }
            let template = "Expected non-nullable type \"%\" not to be null.";
            problem = fill(template, &[&ty.to_text()]);
        } else if value.kind == kind::NULL {
            out.push_str("null");
        } else if ty.is_list() {
            out.push('[');
            if value.kind == kind::LIST {
                let mut item = value.child;
                let mut index = 0;
                while item != 0 && self.errors.len() <= MAX_ERRORS {
                    let mut number = String::new();
                    push_number(index, &mut number);
                    if index > 0 {
                        out.push(',');
                    }
                    self.value(item, ty.inner(), &fill("%[%]", &[path, &number]), out);
                    item = self.json.node(item).next;
                    index += 1;
                }
            } else {
                self.value(at, ty.inner(), path, out);
            }
            out.push(']');
        } else {
            problem = crate::select::values::problem(&self.json, at, ty, true);
            push_leaf(&self.json, at, ty, out);
        }
        if !problem.is_empty() {
            let mut found = String::new();
            self.json.push_value(at, true, &mut found);
            let mut place = String::new();
            if !path.is_empty() {
                place = fill(" at \"%%\"", &[self.name, path]);
            }
            let words = [self.name, &found, &place, &problem];
            self.say("Variable \"$%\" got invalid value %%; %", &words);
        }
    }
}

/// Writes a value that is not a list as JSON.
fn push_leaf(document: &Document, at: u32, ty: Ty, out: &mut String) {
    let value = document.node(at);
    let text = document.name(value);
    match value.kind {
        // Such a string is the same in JSON.
        kind::STRING if text.bytes().all(|byte| byte >= b' ' && byte != b'\\') => {
            out.push_str(text)
        }
        kind::STRING | kind::BLOCK => push_quoted(&document.string(value), out),
        kind::ENUM => push_quoted(text, out),
        kind::INT | kind::FLOAT if ty.name == id::ID => push_quoted(text, out),
        // No argument of the schema takes an object, and lists are accepted only where one is
        // expected.
        kind::LIST | kind::OBJECT => out.push_str("null"),
        _ => out.push_str(text),
    }
}

/// Writes a literal as JSON; returns `false` if a variable in it has no valid value.
fn push_literal(document: &Document, at: u32, ty: Ty, given: &[Given], out: &mut String) -> bool {
    let value = document.node(at);
    if value.kind == kind::USE {
        let json = lookup(document, at, given).unwrap_or("null");
        out.push_str(json);
        return !ty.is_required() || json != "null";
    }
    let ty = ty.nullable();
    if !ty.is_list() || value.kind == kind::NULL {
        push_leaf(document, at, ty, out);
        return true;
    }
    out.push('[');
    let mut fits = true;
    if value.kind == kind::LIST {
        for (item, _) in document.children(at) {
            if item != value.child {
                out.push(',');
            }
            fits &= push_literal(document, item, ty.inner(), given, out);
        }
    } else {
        fits = push_literal(document, at, ty.inner(), given, out);
    }
    out.push(']');
    fits
}

/// A variable's value in JSON, if it has one.
fn lookup<'g>(document: &Document, at: u32, given: &'g [Given]) -> Option<&'g str> {
    let name = document.name(document.node(at));
    for one in given {
        if document.str(one.name) == name {
            return Some(&one.json);
        }
    }
    None
}

/// Writes the arguments of a field or directive that have a value as a JSON object. Reports errors
/// in an argument.
pub(crate) fn push_arguments(
    document: &Document,
    parameters: &[Parameter],
    of: u32,
    given: &[Given],
    out: &mut String,
) -> Option<DocumentError> {
    out.push('{');
    let mut between = "";
    for parameter in parameters {
        let argument = document.argument(of, parameter.name);
        let value = document.node(argument);
        let before = out.len();
        out.push_str(between);
        out.push('"');
        out.push_str(parameter.name);
        out.push_str("\":");
        let start = out.len();
        let missing = argument == 0
            || (value.kind == kind::USE && lookup(document, argument, given).is_none());
        let mut problem = "";
        let mut is_literal = false;
        if missing {
            out.push_str(parameter.default);
            if parameter.default.is_empty() {
                if !parameter.ty.is_required() {
                    out.truncate(before);
                    continue;
                }
                // A field without a required argument is found before it comes to this.
                problem = "Argument \"%\" of required type \"%\" was provided the variable \"$%\" which was not provided a runtime value.";
            }
        } else {
            let fits = push_literal(document, argument, parameter.ty, given, out);
            if parameter.ty.is_required() && out.get(start..) == Some("null") {
                problem = "Argument \"%\" of non-null type \"%\" must not be null.";
            } else if !fits {
                problem = "Argument \"%\" has invalid value %.";
                is_literal = true;
            }
        }
        if !problem.is_empty() {
            let mut shown = parameter.ty.to_text();
            if is_literal {
                shown.clear();
                document.push_value(argument, false, &mut shown);
            }
            let words = [parameter.name, &shown, document.name(value)];
            return Some(DocumentError::new(&[value.at], problem, &words));
        }
        between = ",";
    }
    out.push('}');
    None
}
