//! Parses valid selections and documents, and collects the fields that they select.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

/// A selected field, merged with the others of its key.
#[derive(Clone, Debug)]
pub struct Field {
    pub(crate) key: String,
    pub(crate) name: String,
    pub(crate) arguments: BTreeMap<String, Json>,
    /// Line and column of each field that was merged.
    pub(crate) locations: Vec<(usize, usize)>,
    /// Those of an object.
    pub fields: Vec<Self>,
}

impl Field {
    pub(crate) fn length(&self) -> i64 {
        self.arguments
            .get("length")
            .and_then(Json::as_i64)
            .unwrap_or(0)
    }
}

#[derive(Clone, Debug)]
enum Selection {
    Field {
        key: String,
        name: String,
        at: (usize, usize),
        arguments: Vec<(String, Value)>,
        directives: Vec<Directive>,
        inner: Vec<Self>,
    },
    Spread(String, Vec<Directive>),
    Inline(Vec<Directive>, Vec<Self>),
}

/// The name of a directive and its condition.
type Directive = (String, Value);

#[derive(Clone, Debug)]
enum Value {
    Known(Json),
    Variable(String),
    List(Vec<Self>),
}

/// An operation with its fields.
#[derive(Debug)]
pub struct Operation {
    /// `query`, `mutation` or `subscription`.
    pub kind: String,
    /// Those of the root.
    pub fields: Vec<Field>,
}

/// The fields of a selection of one PV.
pub fn selection(text: &str) -> Vec<Field> {
    let mut parser = Parser::new(text);
    let selections = parser.selections();
    let document = Document {
        fragments: BTreeMap::new(),
        variables: BTreeMap::new(),
    };
    document.collect(&selections)
}

/// The operation of a document that is named, or the only one.
pub(crate) fn operation(text: &str, name: Option<&str>, given: &Json) -> Operation {
    let mut parser = Parser::new(text);
    let mut fragments = BTreeMap::new();
    let mut found = None;
    while let Some(word) = parser.peek() {
        if word == "{" {
            found = Some(("query".to_owned(), BTreeMap::new(), parser.selections()));
            continue;
        }
        let kind = parser.next();
        if kind == "fragment" {
            let name = parser.next();
            parser.expect("on");
            parser.next();
            fragments.insert(name, parser.selections());
            continue;
        }
        let own = match parser.peek().as_deref() {
            Some("{" | "(") => String::new(),
            _ => parser.next(),
        };
        let mut variables = BTreeMap::new();
        if parser.takes("(") {
            while !parser.takes(")") {
                parser.expect("$");
                let variable = parser.next();
                parser.expect(":");
                let is_list = parser.type_is_list();
                let default = if parser.takes("=") {
                    Some(parser.value())
                } else {
                    None
                };
                let held = match (given.get(&variable), default) {
                    (Some(given), _) if is_list && !given.is_array() => Some(json!([given])),
                    (Some(given), _) => Some(given.clone()),
                    (None, Some(Value::Known(default))) => Some(default),
                    (None, Some(value)) => Some(known(&value)),
                    (None, None) => None,
                };
                variables.extend(held.map(|held| (variable, held)));
            }
        }
        let selections = parser.selections();
        if name.is_none_or(|name| name == own) {
            found = Some((kind, variables, selections));
        }
    }
    let (kind, variables, selections) = found.expect("an operation");
    let document = Document {
        fragments,
        variables,
    };
    Operation {
        kind,
        fields: document.collect(&selections),
    }
}

fn known(value: &Value) -> Json {
    match value {
        Value::Known(value) => value.clone(),
        Value::Variable(name) => panic!("${name} in a default"),
        Value::List(values) => values.iter().map(known).collect(),
    }
}

struct Document {
    fragments: BTreeMap<String, Vec<Selection>>,
    variables: BTreeMap<String, Json>,
}

impl Document {
    fn of(&self, value: &Value) -> Option<Json> {
        match value {
            Value::Known(value) => Some(value.clone()),
            Value::Variable(name) => self.variables.get(name).cloned(),
            Value::List(values) => values.iter().map(|value| self.of(value)).collect(),
        }
    }

    fn is_included(&self, directives: &[Directive]) -> bool {
        directives.iter().all(|(name, condition)| {
            let holds = self.of(condition) == Some(Json::Bool(true));
            if name == "skip" { !holds } else { holds }
        })
    }

    fn collect(&self, selections: &[Selection]) -> Vec<Field> {
        let mut found: Vec<(Field, Vec<Selection>)> = Vec::new();
        self.gather(selections, &mut found);
        let merged = found.into_iter().map(|(field, inner)| Field {
            fields: self.collect(&inner),
            ..field
        });
        merged.collect()
    }

    fn gather(&self, selections: &[Selection], found: &mut Vec<(Field, Vec<Selection>)>) {
        for selection in selections {
            match selection {
                Selection::Spread(name, directives) if self.is_included(directives) => {
                    self.gather(&self.fragments[name], found);
                }
                Selection::Inline(directives, inner) if self.is_included(directives) => {
                    self.gather(inner, found);
                }
                Selection::Field {
                    key,
                    name,
                    at,
                    arguments,
                    directives,
                    inner,
                } if self.is_included(directives) => {
                    if let Some((known, all)) =
                        found.iter_mut().find(|(field, _)| field.key == *key)
                    {
                        known.locations.push(*at);
                        all.extend(inner.iter().cloned());
                        continue;
                    }
                    let arguments = arguments
                        .iter()
                        .filter_map(|(name, value)| Some((name.clone(), self.of(value)?)))
                        .collect();
                    let field = Field {
                        key: key.clone(),
                        name: name.clone(),
                        arguments,
                        locations: vec![*at],
                        fields: Vec::new(),
                    };
                    found.push((field, inner.clone()));
                }
                _ => {}
            }
        }
    }
}

/// A token and its place in the text, both from 1.
type Token = (String, (usize, usize));

struct Parser {
    tokens: std::iter::Peekable<std::vec::IntoIter<Token>>,
    place: (usize, usize),
}

impl Parser {
    fn new(text: &str) -> Self {
        Self {
            tokens: tokens(text).into_iter().peekable(),
            place: (1, 1),
        }
    }

    fn peek(&mut self) -> Option<String> {
        self.tokens.peek().map(|(word, _)| word.clone())
    }

    fn next(&mut self) -> String {
        let (word, place) = self.tokens.next().expect("another token");
        self.place = place;
        word
    }

    fn takes(&mut self, word: &str) -> bool {
        self.tokens.next_if(|(next, _)| next == word).is_some()
    }

    fn expect(&mut self, word: &str) {
        assert_eq!(self.next(), word);
    }

    fn type_is_list(&mut self) -> bool {
        let is_list = self.takes("[");
        while matches!(self.peek().as_deref(), Some(word) if word == "!" || word == "]"
            || word.starts_with(char::is_alphabetic))
        {
            self.next();
        }
        is_list
    }

    fn value(&mut self) -> Value {
        let word = self.next();
        match word.as_str() {
            "$" => Value::Variable(self.next()),
            "[" => {
                let mut list = Vec::new();
                while !self.takes("]") {
                    list.push(self.value());
                }
                Value::List(list)
            }
            word => Value::Known(serde_json::from_str(word).expect("a value")),
        }
    }

    fn directives(&mut self) -> Vec<Directive> {
        let mut directives = Vec::new();
        while self.takes("@") {
            let name = self.next();
            for word in ["(", "if", ":"] {
                self.expect(word);
            }
            directives.push((name, self.value()));
            self.expect(")");
        }
        directives
    }

    fn selections(&mut self) -> Vec<Selection> {
        let mut selections = Vec::new();
        if !self.takes("{") {
            return selections;
        }
        while !self.takes("}") {
            let word = self.next();
            let at = self.place;
            if word == "..." {
                let is_inline = match self.peek().as_deref() {
                    Some("on") => {
                        self.next();
                        self.next();
                        true
                    }
                    Some("@" | "{") => true,
                    _ => false,
                };
                let name = if is_inline {
                    String::new()
                } else {
                    self.next()
                };
                let directives = self.directives();
                selections.push(if is_inline {
                    Selection::Inline(directives, self.selections())
                } else {
                    Selection::Spread(name, directives)
                });
                continue;
            }
            let name = if self.takes(":") {
                self.next()
            } else {
                word.clone()
            };
            let mut arguments = Vec::new();
            if self.takes("(") {
                while !self.takes(")") {
                    let argument = self.next();
                    self.expect(":");
                    arguments.push((argument, self.value()));
                }
            }
            selections.push(Selection::Field {
                key: word,
                name,
                at,
                arguments,
                directives: self.directives(),
                inner: self.selections(),
            });
        }
        selections
    }
}

fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let (mut line, mut column) = (1, 1);
    let mut characters = text.trim_start_matches('\u{feff}').chars().peekable();
    while let Some(first) = characters.next() {
        let place = (line, column);
        column += 1;
        let mut word = String::from(first);
        match first {
            '\n' => (line, column) = (line + 1, 1),
            '#' => while characters.next_if(|next| *next != '\n').is_some() {},
            '"' => {
                let mut is_escaped = false;
                for next in characters.by_ref() {
                    column += 1;
                    word.push(next);
                    if next == '"' && !is_escaped {
                        break;
                    }
                    is_escaped = next == '\\' && !is_escaped;
                }
                tokens.push((word, place));
            }
            '.' => {
                characters.next();
                characters.next();
                column += 2;
                tokens.push(("...".to_owned(), place));
            }
            first if first.is_alphanumeric() || first == '_' || first == '-' => {
                let belongs = |next: &char| next.is_alphanumeric() || *next == '_' || *next == '.';
                while let Some(next) = characters.next_if(belongs) {
                    column += 1;
                    word.push(next);
                }
                tokens.push((word, place));
            }
            first if first.is_whitespace() || first == ',' => {}
            _ => tokens.push((word, place)),
        }
    }
    tokens
}
