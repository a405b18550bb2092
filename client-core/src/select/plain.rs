//! The language of a selection of one PV: fields with aliases and arguments, inline fragments, and
//! `@skip` and `@include` with constant conditions. It is the part of GraphQL that needs no
//! document around it, with the meaning that documents give it. The language of documents is several
//! times as large, and pages load it with their first document.

use super::error::{DocumentError, push_number};
use super::execute::fields::{Field, Parent, Read, field_of, is_of_graphql};

/// Maximum length of a selection, in bytes.
pub const MAX_SELECTION_BYTES: usize = 32 * 1024;

/// Maximum number of objects and inline fragments around a field.
pub const MAX_SELECTION_DEPTH: usize = 50;

/// A field of the result: all fields of the text with its key in its object.
struct Node<'a> {
    /// Index of its object.
    parent: usize,
    key: &'a str,
    field: Field,
    /// Its argument if it is given; only one field takes one.
    units: Option<bool>,
    /// Whether it is in the result: directives may exclude it.
    is_shown: bool,
    /// Shown fields of the object: the first one, the last one, and the next one of the same object.
    first: usize,
    last: usize,
    next: usize,
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    /// The first one is the PV.
    nodes: Vec<Node<'a>>,
}

/// The plan of a selection: a line per field, as [`plan`](super::plan) writes it.
pub(super) fn planned(text: &str) -> Result<String, DocumentError> {
    let mut parser = Parser {
        text,
        at: 0,
        depth: 0,
        nodes: Vec::with_capacity(64),
    };
    parser.add(0, "", CHANNEL, None);
    if text.len() > MAX_SELECTION_BYTES {
        return parser.fail(0, "The selection is too long.", &[]);
    }
    parser.set(0, Parent::Channel, true)?;
    if parser.peek() != 0 {
        return parser.unexpected("<EOF>");
    }
    let mut plan = String::with_capacity(text.len() * 3);
    parser.push(0, Parent::Channel, &mut plan);
    Ok(plan)
}

const CHANNEL: Field = Field {
    name: "",
    read: Some(Read::Object(Parent::Channel)),
    mask: 0,
};

type Parsed<T> = Result<T, DocumentError>;

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Length of the name at the start of a text.
fn named(text: &str) -> usize {
    let end = text.bytes().position(|byte| !is_name(byte));
    end.unwrap_or(text.len())
}

impl<'a> Parser<'a> {
    #[cold]
    #[inline(never)]
    fn fail<T>(&self, at: usize, template: &str, words: &[&str]) -> Parsed<T> {
        Err(DocumentError::new(&[at as u32], template, words))
    }

    #[cold]
    #[inline(never)]
    fn unexpected<T>(&mut self, expected: &str) -> Parsed<T> {
        self.peek();
        let rest = self.text.get(self.at..).unwrap_or_default();
        let shown = match rest.chars().next() {
            None => "<EOF>".to_owned(),
            Some('a'..='z' | 'A'..='Z' | '_') => {
                ["Name \"", rest.get(..named(rest)).unwrap_or_default(), "\""].concat()
            }
            Some(character) => String::from_iter(['"', character, '"']),
        };
        let template = "Syntax Error: Expected %, found %.";
        self.fail(self.at, template, &[expected, &shown])
    }

    /// Skips what has no meaning; returns the next byte, 0 at the end.
    fn peek(&mut self) -> u8 {
        let mut is_comment = false;
        let bytes = self.text.as_bytes();
        while let Some(byte) = bytes.get(self.at) {
            match byte {
                b'\n' | b'\r' => is_comment = false,
                b' ' | b'\t' | b',' => {}
                b'#' => is_comment = true,
                // A byte order mark.
                0xef if bytes[self.at..].starts_with(b"\xef\xbb\xbf") => self.at += 2,
                0 if !is_comment => return 1,
                _ if !is_comment => return *byte,
                _ => {}
            }
            self.at += 1;
        }
        0
    }

    fn skip(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == byte;
        self.at += usize::from(is_next);
        is_next
    }

    fn expect(&mut self, byte: u8, shown: &str) -> Parsed<()> {
        if self.skip(byte) {
            return Ok(());
        }
        self.unexpected(shown)
    }

    fn name(&mut self) -> Parsed<&'a str> {
        let first = self.peek();
        let rest = self.text.get(self.at..).unwrap_or_default();
        match rest.get(..named(rest)) {
            Some(name) if !name.is_empty() && !first.is_ascii_digit() => {
                self.at += name.len();
                Ok(name)
            }
            _ => self.unexpected("Name"),
        }
    }

    fn add(&mut self, parent: usize, key: &'a str, field: Field, units: Option<bool>) -> usize {
        self.nodes.push(Node {
            parent,
            key,
            field,
            units,
            is_shown: false,
            first: 0,
            last: 0,
            next: 0,
        });
        self.nodes.len() - 1
    }

    /// Parses the fields of an object, or of an inline fragment in it.
    fn set(&mut self, of: usize, parent: Parent, is_shown: bool) -> Parsed<()> {
        self.expect(b'{', "\"{\"")?;
        self.depth += 1;
        if self.depth > MAX_SELECTION_DEPTH {
            return self.fail(self.at, "The selection is nested too deep.", &[]);
        }
        loop {
            if self.peek() == b'.' {
                self.fragment(of, parent, is_shown)?;
            } else {
                self.field(of, parent, is_shown)?;
            }
            if self.skip(b'}') {
                break;
            }
        }
        self.depth -= 1;
        Ok(())
    }

    fn fragment(&mut self, of: usize, parent: Parent, is_shown: bool) -> Parsed<()> {
        let rest = self.text.get(self.at..).unwrap_or_default();
        if !rest.starts_with("...") {
            return self.unexpected("Name");
        }
        self.at += 3;
        if is_name(self.peek()) {
            let at = self.at;
            let name = self.name()?;
            if name != "on" {
                return self.fail(at, "Unknown fragment \"%\".", &[name]);
            }
            self.peek();
            let at = self.at;
            let name = self.name()?;
            let own = parent.type_name();
            if name != own {
                let message = "The fields of a \"%\" can't be selected from a \"%\".";
                return self.fail(at, message, &[name, own]);
            }
        }
        let is_included = self.directives()?;
        self.set(of, parent, is_shown && is_included)
    }

    fn field(&mut self, of: usize, parent: Parent, is_shown: bool) -> Parsed<()> {
        self.peek();
        let start = self.at;
        let key = self.name()?;
        let name = if self.skip(b':') { self.name()? } else { key };
        let Some(field) = field_of(parent, name) else {
            return self.unknown(start, parent, name);
        };
        let argument = if field.read == Some(Read::String) {
            "units"
        } else {
            ""
        };
        let units = self.flag(argument, "field", &[parent.type_name(), ".", name])?;
        let is_shown = self.directives()? && is_shown;
        let node = match self.node(of, key) {
            Some(node) => {
                self.same(node, start, field, units)?;
                node
            }
            None => self.add(of, key, field, units),
        };
        if is_shown {
            self.show(node);
        }
        let has_fields = self.peek() == b'{';
        match field.read {
            Some(Read::Object(inner)) if has_fields => self.set(node, inner, is_shown),
            Some(Read::Object(inner)) => {
                let message = "Field \"%\" of type \"%\" must have a selection of subfields. \
                    Did you mean \"% { ... }\"?";
                self.fail(start, message, &[name, inner.type_name(), name])
            }
            _ if has_fields => {
                let message = "Field \"%\" must not have a selection since it has no subfields.";
                self.fail(self.at, message, &[name])
            }
            _ => Ok(()),
        }
    }

    /// The field of an object with this key, if there was one.
    fn node(&self, of: usize, key: &str) -> Option<usize> {
        // The first node is the PV.
        let mut nodes = self.nodes.iter().enumerate().skip(1);
        let found = nodes
            .find(|(_, node)| node.parent == of && node.key.len() == key.len() && node.key == key);
        found.map(|(at, _)| at)
    }

    /// Fails unless another field of the same key is the same field.
    fn same(&self, node: usize, at: usize, field: Field, units: Option<bool>) -> Parsed<()> {
        let Some(node) = self.nodes.get(node) else {
            return Ok(());
        };
        let why = if node.field.name != field.name {
            [
                "\"",
                node.field.name,
                "\" and \"",
                field.name,
                "\" are different fields",
            ]
            .concat()
        } else if node.units != units {
            "they have differing arguments".to_owned()
        } else {
            return Ok(());
        };
        let message = "Fields \"%\" conflict because %. Use different aliases on the fields to fetch \
            both if this was intentional.";
        self.fail(at, message, &[node.key, &why])
    }

    /// Appends a field to those that its object shows.
    fn show(&mut self, at: usize) {
        let Some(node) = self.nodes.get_mut(at).filter(|node| !node.is_shown) else {
            return;
        };
        node.is_shown = true;
        let parent = node.parent;
        let last = self.nodes.get_mut(parent).map_or(0, |object| {
            if object.last == 0 {
                object.first = at;
            }
            std::mem::replace(&mut object.last, at)
        });
        if let Some(last) = self.nodes.get_mut(last).filter(|_| last != 0) {
            last.next = at;
        }
    }

    #[cold]
    fn unknown<T>(&mut self, at: usize, parent: Parent, name: &str) -> Parsed<T> {
        if is_of_graphql(parent, name) {
            // Down to a leaf.
            let mut path = [parent.path(), name].concat();
            while self.skip(b'{') {
                path.push('.');
                path.push_str(self.name()?);
            }
            return self.fail(at, "% is answered by pvwire/graphql only", &[&path]);
        }
        let mut suggested = parent.fields().iter().map(|field| field.name);
        let meant = match suggested.find(|field| is_similar(field, name)) {
            Some(field) => [" Did you mean \"", field, "\"?"].concat(),
            None => String::new(),
        };
        let message = "Cannot query field \"%\" on type \"%\".%";
        self.fail(at, message, &[name, parent.type_name(), &meant])
    }

    /// Parses the only argument that a field or a directive takes, if it is given. `known` is its name,
    /// empty without one.
    fn flag(&mut self, known: &str, kind: &str, of: &[&str]) -> Parsed<Option<bool>> {
        if !self.skip(b'(') {
            return Ok(None);
        }
        let mut value = None;
        loop {
            self.peek();
            let at = self.at;
            let name = self.name()?;
            if name != known {
                let meant = match known {
                    "" => String::new(),
                    known => [" Did you mean \"", known, "\"?"].concat(),
                };
                let message = "Unknown argument \"%\" on % \"%\".%";
                return self.fail(at, message, &[name, kind, &of.concat(), &meant]);
            }
            if value.is_some() {
                let message = "There can be only one argument named \"%\".";
                return self.fail(at, message, &[name]);
            }
            self.expect(b':', "\":\"")?;
            value = Some(self.boolean()?);
            if self.skip(b')') {
                return Ok(value);
            }
        }
    }

    fn boolean(&mut self) -> Parsed<bool> {
        let first = self.peek();
        let from = self.at;
        if is_name(first) && !first.is_ascii_digit() {
            match self.name()? {
                "true" => return Ok(true),
                "false" => return Ok(false),
                _ => {}
            }
        }
        let bytes = self.text.as_bytes();
        let mut end = from;
        while bytes
            .get(end)
            .is_some_and(|byte| *byte > b' ' && !b",){}@".contains(byte))
        {
            end += 1;
        }
        let value = self.text.get(from..end).unwrap_or_default();
        let message = if first == b'$' {
            "Variable \"%\" is not defined."
        } else {
            "Boolean cannot represent a non boolean value: %"
        };
        self.fail(from, message, &[value])
    }

    /// Parses directives; returns whether what they are attached to is in the result.
    fn directives(&mut self) -> Parsed<bool> {
        let mut given = [None; 2];
        while self.skip(b'@') {
            let at = self.at - 1;
            let name = self.name()?;
            let which = usize::from(name == "include");
            if which == 0 && name != "skip" {
                return self.fail(at, "Unknown directive \"@%\".", &[name]);
            }
            if given[which].is_some() {
                let message = "The directive \"@%\" can only be used once at this location.";
                return self.fail(at, message, &[name]);
            }
            given[which] = self.flag("if", "directive", &["@", name])?;
            if given[which].is_none() {
                let message = "Directive \"@%\" argument \"if\" of type \"Boolean!\" is required, but it \
                    was not provided.";
                return self.fail(at, message, &[name]);
            }
        }
        Ok(given[0] != Some(true) && given[1] != Some(false))
    }

    /// Writes the lines of an object's fields.
    fn push(&self, of: usize, parent: Parent, plan: &mut String) {
        let mut at = self.nodes.get(of).map_or(0, |object| object.first);
        while let Some(node) = self.nodes.get(at).filter(|_| at != 0) {
            let inner = match node.field.read {
                Some(Read::Object(inner)) => Some(inner),
                _ => None,
            };
            plan.push_str(if inner.is_some() { "{ " } else { "= " });
            plan.push_str(node.key);
            plan.push(' ');
            plan.push_str(node.field.name);
            if node.field.read.is_none() {
                plan.push(':');
                plan.push_str(parent.type_name());
            }
            plan.push(' ');
            push_number(u32::from(node.field.mask), plan);
            if node.field.read == Some(Read::String) {
                plan.push_str(if node.units == Some(true) {
                    " {\"units\":true}"
                } else {
                    " {\"units\":false}"
                });
            }
            plan.push('\n');
            if let Some(inner) = inner {
                self.push(at, inner, plan);
                plan.push_str("}\n");
            }
            at = node.next;
        }
    }
}

/// Whether at most two neighbouring characters of the names differ.
fn is_similar(one: &str, other: &str) -> bool {
    let same =
        |pairs: &mut dyn Iterator<Item = (u8, u8)>| pairs.take_while(|(a, b)| a == b).count();
    let start = same(&mut one.bytes().zip(other.bytes()));
    let end = same(&mut one.bytes().rev().zip(other.bytes().rev()));
    let longest = one.len().max(other.len());
    longest > 2 && start + end + 2 >= longest
}
