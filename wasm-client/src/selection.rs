//! Which fields of a PV did the application ask for?
//!
//! A selection is a GraphQL selection set: `{ value { float } t: time { datetime } }`. It is checked
//! against the table of fields while it is read, and becomes a plan: the tree of what to show, and a
//! mask of the parts that it reads.

use std::fmt::Write as _;

use thiserror::Error;

use crate::store::part;

/// The selection that `pv(name)` has without one: every field, under its own name.
pub const EVERYTHING: &str = "{ id \
    value { float string number text array exact bigint structure } \
    time { datetime seconds nanoseconds userTag } \
    status { quality severity alarmStatus message mutable writable } \
    display { type elementCount description typeId form units precision choices \
    controlRange { min max } displayRange { min max } alarmRange { min max } warningRange { min max } } \
    connection { state connected since lastHeard readable reason } \
    skipped skips { behind paced wish relay source } }";

/// Longest selection that is read, in bytes. All fields with all their aliases are a tenth of it.
pub const MAX_BYTES: usize = 16 * 1024;

/// Most fields in one selection: each costs time with every update that is shown.
pub const MAX_FIELDS: usize = 256;

/// What is wrong with a selection, and where.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("line {line}, column {column}: {message}")]
pub struct SelectionError {
    /// From 1.
    pub line: u32,
    /// From 1, in characters.
    pub column: u32,
    /// What could stand there.
    pub expected: String,
    /// The whole story, for a person.
    pub message: String,
}

/// A selection that was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Parts that the selection reads, see [`part`].
    pub mask: u32,
    root: Vec<Node>,
}

impl Plan {
    /// The tree in words, one node a line: `= KEY FIELD MASK` for a value, `{ KEY FIELD MASK` and `}`
    /// around an object. `FIELD` is the path in the table of fields.
    #[must_use]
    pub fn to_lines(&self) -> String {
        let mut lines = String::new();
        write_nodes(&self.root, &mut lines);
        lines
    }
}

fn write_nodes(nodes: &[Node], lines: &mut String) {
    for node in nodes {
        let sign = if node.children.is_some() { '{' } else { '=' };
        let units = if node.units { "(units)" } else { "" };
        let (key, path) = (&node.key, &node.path);
        // Writing to a String can't fail.
        let _ = writeln!(lines, "{sign} {key} {path}{units} {}", node.mask());
        if let Some(children) = &node.children {
            write_nodes(children, lines);
            lines.push_str("}\n");
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Node {
    key: String,
    path: String,
    units: bool,
    /// Parts that the field itself reads.
    own_mask: u32,
    children: Option<Vec<Self>>,
}

impl Node {
    const fn leaf(path: String, units: bool, own_mask: u32) -> Self {
        Self {
            key: String::new(),
            path,
            units,
            own_mask,
            children: None,
        }
    }

    /// Parts that the field or one in it reads.
    fn mask(&self) -> u32 {
        let children = self.children.as_deref().unwrap_or_default();
        children
            .iter()
            .fold(self.own_mask, |mask, child| mask | child.mask())
    }
}

struct Object {
    name: &'static str,
    fields: &'static [Field],
}

struct Field {
    name: &'static str,
    mask: u32,
    object: Option<&'static Object>,
    takes_units: bool,
}

const fn leaf(name: &'static str, mask: u32) -> Field {
    Field {
        name,
        mask,
        object: None,
        takes_units: false,
    }
}

const fn object(name: &'static str, mask: u32, object: &'static Object) -> Field {
    Field {
        name,
        mask,
        object: Some(object),
        takes_units: false,
    }
}

const TYPENAME: &str = "__typename";

static CHANNEL: Object = Object {
    name: "Channel",
    fields: &[
        leaf("id", 0),
        object("value", part::VALUE, &VALUE),
        object("time", part::TIME | part::VALUE, &TIME),
        object("status", 0, &STATUS),
        object("display", part::METADATA, &DISPLAY),
        object("connection", 0, &CONNECTION),
        leaf("skipped", part::SKIPPED),
        object("skips", part::SKIPPED, &SKIPS),
    ],
};

/// A value reads the metadata too: precision, labels, whether a number is an enum's index.
const VALUE_PARTS: u32 = part::VALUE | part::METADATA;

static VALUE: Object = Object {
    name: "ChannelValue",
    fields: &[
        leaf("float", VALUE_PARTS),
        Field {
            takes_units: true,
            ..leaf("string", VALUE_PARTS)
        },
        leaf("number", VALUE_PARTS),
        leaf("text", VALUE_PARTS),
        leaf("array", VALUE_PARTS),
        leaf("exact", VALUE_PARTS),
        leaf("bigint", VALUE_PARTS),
        leaf("structure", VALUE_PARTS),
    ],
};

static TIME: Object = Object {
    name: "ChannelTime",
    fields: &[
        leaf("datetime", part::TIME),
        leaf("seconds", part::TIME),
        leaf("nanoseconds", part::TIME),
        leaf("userTag", part::TIME),
    ],
};

static STATUS: Object = Object {
    name: "ChannelStatus",
    fields: &[
        leaf("quality", part::ALARM | part::CONNECTION),
        leaf("severity", part::ALARM),
        leaf("alarmStatus", part::ALARM),
        leaf("message", part::ALARM | part::CONNECTION),
        leaf("mutable", part::ACCESS | part::CONNECTION),
        leaf("writable", part::ACCESS | part::CONNECTION),
    ],
};

static DISPLAY: Object = Object {
    name: "ChannelDisplay",
    fields: &[
        leaf("type", part::METADATA),
        leaf("elementCount", part::METADATA),
        leaf("description", part::METADATA),
        leaf("typeId", part::METADATA),
        leaf("form", part::METADATA),
        leaf("units", part::METADATA),
        leaf("precision", part::METADATA),
        leaf("choices", part::METADATA),
        object("controlRange", part::METADATA, &RANGE),
        object("displayRange", part::METADATA, &RANGE),
        object("alarmRange", part::METADATA, &RANGE),
        object("warningRange", part::METADATA, &RANGE),
    ],
};

static RANGE: Object = Object {
    name: "Range",
    fields: &[leaf("min", part::METADATA), leaf("max", part::METADATA)],
};

static CONNECTION: Object = Object {
    name: "ChannelConnection",
    fields: &[
        leaf("state", part::CONNECTION),
        leaf("connected", part::CONNECTION),
        leaf("since", part::CONNECTION),
        leaf("lastHeard", part::CONNECTION),
        leaf("readable", part::ACCESS | part::CONNECTION),
        leaf("reason", part::CONNECTION),
    ],
};

static SKIPS: Object = Object {
    name: "ChannelSkips",
    fields: &[
        leaf("behind", part::SKIPPED),
        leaf("paced", part::SKIPPED),
        leaf("wish", part::SKIPPED),
        leaf("relay", part::SKIPPED),
        leaf("source", part::SKIPPED),
    ],
};

/// Reads and checks a selection.
///
/// # Errors
/// When it is no selection set, or asks for a field that there is none of.
pub fn compile(text: &str) -> Result<Plan, SelectionError> {
    if text.len() > MAX_BYTES {
        return Err(SelectionError {
            line: 1,
            column: 1,
            expected: format!("at most {MAX_BYTES} bytes"),
            message: format!(
                "the selection has {} bytes, more than the limit of {MAX_BYTES}",
                text.len()
            ),
        });
    }
    let mut reader = Reader::new(text)?;
    reader.take(Kind::Punctuator('{'), "`{`")?;
    let mut compiler = Compiler { reader, fields: 0 };
    let mut root = Vec::new();
    compiler.fields_of(&CHANNEL, "", &mut root)?;
    let end = compiler.reader.here.clone();
    if end.kind != Kind::End {
        return Err(end.unexpected("the end of the selection"));
    }
    Ok(Plan {
        mask: root.iter().fold(0, |mask, node| mask | node.mask()),
        root,
    })
}

struct Compiler<'a> {
    reader: Reader<'a>,
    fields: usize,
}

impl Compiler<'_> {
    /// Reads fields up to the closing brace. The opening one was read. The table of fields bounds
    /// how deep this goes.
    fn fields_of(
        &mut self,
        object: &'static Object,
        path: &str,
        nodes: &mut Vec<Node>,
    ) -> Result<(), SelectionError> {
        if self.reader.here.kind == Kind::Punctuator('}') {
            return Err(self.reader.here.unexpected("a field"));
        }
        while self.reader.here.kind != Kind::Punctuator('}') {
            self.field_of(object, path, nodes)?;
        }
        self.reader.advance()
    }

    fn field_of(
        &mut self,
        object: &'static Object,
        path: &str,
        nodes: &mut Vec<Node>,
    ) -> Result<(), SelectionError> {
        let first = self.reader.take(Kind::Name, "a field or `}`")?;
        self.fields += 1;
        if self.fields > MAX_FIELDS {
            return Err(first.wrong(
                format!("at most {MAX_FIELDS} fields"),
                format!("the selection has more than {MAX_FIELDS} fields"),
            ));
        }
        let name = if self.reader.here.kind == Kind::Punctuator(':') {
            self.reader.advance()?;
            self.reader.take(Kind::Name, "the name of a field")?
        } else {
            first.clone()
        };
        if name.text == TYPENAME {
            let path = format!("{TYPENAME}:{}", object.name);
            return merge(nodes, &first, Node::leaf(path, false, 0)).map(|_| ());
        }
        let Some(field) = object.fields.iter().find(|field| field.name == name.text) else {
            let names = object.fields.iter().map(|field| field.name);
            return Err(name.unknown("field", object.name, names));
        };
        let units = self.arguments(field, object)?;
        let path = if path.is_empty() {
            field.name.to_owned()
        } else if object.name == RANGE.name {
            // All ranges have the same fields: the one around says which it is.
            format!("range.{}", field.name)
        } else {
            format!("{path}.{}", field.name)
        };
        let open = self.reader.here.kind == Kind::Punctuator('{');
        let Some(inner) = field.object else {
            if open {
                return Err(self.reader.here.wrong(
                    "another field or `}`".into(),
                    format!("`{}` has no fields of its own", field.name),
                ));
            }
            return merge(nodes, &first, Node::leaf(path, units, field.mask)).map(|_| ());
        };
        if !open {
            return Err(self.reader.here.wrong(
                "`{`".into(),
                format!(
                    "`{0}` needs a selection of its fields: `{0} {{ … }}`",
                    field.name
                ),
            ));
        }
        self.reader.advance()?;
        let node = merge(nodes, &first, Node::leaf(path.clone(), false, field.mask))?;
        let children = node.children.get_or_insert_default();
        self.fields_of(inner, &path, children)
    }

    /// Reads `(units: true)` where there is one.
    fn arguments(
        &mut self,
        field: &'static Field,
        object: &'static Object,
    ) -> Result<bool, SelectionError> {
        if self.reader.here.kind != Kind::Punctuator('(') {
            return Ok(false);
        }
        let mut units = None;
        self.reader.advance()?;
        loop {
            let argument = self.reader.take(Kind::Name, "the name of an argument")?;
            if !field.takes_units || argument.text != "units" {
                let known = field.takes_units.then_some("units");
                let owner = format!("{}.{}", object.name, field.name);
                return Err(argument.unknown("argument", &owner, known.into_iter()));
            }
            if units.is_some() {
                return Err(argument.wrong("`)`".into(), "`units` is given twice".into()));
            }
            self.reader.take(Kind::Punctuator(':'), "`:`")?;
            let value = self.reader.take(Kind::Name, "`true` or `false`")?;
            units = Some(match value.text {
                "true" => true,
                "false" | "null" => false,
                _ => return Err(value.unexpected("`true` or `false`")),
            });
            if self.reader.here.kind == Kind::Punctuator(')') {
                self.reader.advance()?;
                return Ok(units == Some(true));
            }
        }
    }
}

/// Adds a field, or finds the same one under the same key: GraphQL lets a field stand twice.
fn merge<'n>(
    nodes: &'n mut Vec<Node>,
    key: &Token<'_>,
    mut node: Node,
) -> Result<&'n mut Node, SelectionError> {
    key.text.clone_into(&mut node.key);
    let at = match nodes.iter().position(|before| before.key == node.key) {
        None => {
            nodes.push(node);
            nodes.len() - 1
        }
        Some(at) if nodes[at].path == node.path && nodes[at].units == node.units => at,
        Some(_) => {
            return Err(key.wrong(
                "another alias".into(),
                format!("`{}` stands for two different fields", key.text),
            ));
        }
    };
    Ok(&mut nodes[at])
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Name,
    Punctuator(char),
    /// `...`, a number or a string: valid GraphQL that no selection needs.
    Other,
    End,
}

#[derive(Clone, Debug)]
struct Token<'a> {
    kind: Kind,
    text: &'a str,
    line: u32,
    column: u32,
}

impl Token<'_> {
    fn wrong(&self, expected: String, message: String) -> SelectionError {
        SelectionError {
            line: self.line,
            column: self.column,
            expected,
            message,
        }
    }

    fn unexpected(&self, expected: &str) -> SelectionError {
        let found = match self.kind {
            Kind::End => "the end of the selection".to_owned(),
            _ => format!("`{}`", self.text),
        };
        let why = match self.text {
            "..." => " (fragments can't be used here)",
            "$" => " (variables can't be used here)",
            "@" => " (directives can't be used here)",
            _ => "",
        };
        self.wrong(
            expected.to_owned(),
            format!("expected {expected}, found {found}{why}"),
        )
    }

    fn unknown(
        &self,
        what: &str,
        owner: &str,
        names: impl Iterator<Item = &'static str>,
    ) -> SelectionError {
        let names: Vec<_> = names.collect();
        let mut message = format!("`{}` is no {what} of {owner}", self.text);
        if let Some(close) = closest(self.text, &names) {
            message.push_str(&format!("; did you mean `{close}`?"));
        }
        let expected = if names.is_empty() {
            format!("no {what}")
        } else {
            format!("one of {}", names.join(", "))
        };
        self.wrong(expected, message)
    }
}

/// The name that was probably meant.
fn closest(word: &str, names: &[&'static str]) -> Option<&'static str> {
    let word = word.to_ascii_lowercase();
    names
        .iter()
        .map(|name| (distance(&word, &name.to_ascii_lowercase()), *name))
        .filter(|(distance, name)| *distance <= 1 + name.len() / 3)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// How many letters must be changed, added or left out to make one word of the other.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.bytes().enumerate().take(64) {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.bytes().enumerate() {
            let change = diagonal + usize::from(from != to);
            diagonal = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

/// What stands before `at` and what from there on. The standard slices would bring all that it takes
/// to print why they panic.
fn cut(text: &str, at: usize) -> (&str, &str) {
    text.split_at_checked(at).unwrap_or((text, ""))
}

/// Cuts the text into tokens; `here` is the one that comes next.
struct Reader<'a> {
    rest: &'a str,
    line: u32,
    column: u32,
    here: Token<'a>,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str) -> Result<Self, SelectionError> {
        let mut reader = Self {
            rest: text,
            line: 1,
            column: 1,
            here: Token {
                kind: Kind::End,
                text: "",
                line: 1,
                column: 1,
            },
        };
        reader.advance()?;
        Ok(reader)
    }

    /// The next token if it is of this kind.
    fn take(&mut self, kind: Kind, expected: &str) -> Result<Token<'a>, SelectionError> {
        if self.here.kind != kind {
            return Err(self.here.unexpected(expected));
        }
        let token = self.here.clone();
        self.advance()?;
        Ok(token)
    }

    fn advance(&mut self) -> Result<(), SelectionError> {
        self.skip_blanks();
        let (line, column) = (self.line, self.column);
        let token = |kind, text| Token {
            kind,
            text,
            line,
            column,
        };
        let Some(first) = self.rest.chars().next() else {
            self.here = token(Kind::End, "");
            return Ok(());
        };
        let (kind, length) = match first {
            'A'..='Z' | 'a'..='z' | '_' => {
                let word = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
                (Kind::Name, self.rest.find(word).unwrap_or(self.rest.len()))
            }
            '.' if self.rest.starts_with("...") => (Kind::Other, 3),
            '{' | '}' | '(' | ')' | ':' | '!' | '$' | '&' | '=' | '@' | '[' | ']' | '|' => {
                (Kind::Punctuator(first), 1)
            }
            '"' | '-' | '0'..='9' => {
                let more = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '+' | '-'));
                let mut places = self.rest.char_indices().skip(1);
                let end = places.find(|(_, c)| more(*c));
                (Kind::Other, end.map_or(self.rest.len(), |(at, _)| at))
            }
            _ => {
                let wrong = token(Kind::Other, cut(self.rest, first.len_utf8()).0);
                return Err(wrong.unexpected("a field"));
            }
        };
        let (text, rest) = cut(self.rest, length);
        self.here = token(kind, text);
        self.rest = rest;
        // Tokens are ASCII: a byte is a column.
        self.column += length as u32;
        Ok(())
    }

    /// Blanks, commas, comments and a byte order mark mean nothing.
    fn skip_blanks(&mut self) {
        let mut comment = false;
        let mut chars = self.rest.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            match c {
                '\r' if matches!(chars.peek(), Some((_, '\n'))) => {}
                '\n' | '\r' => {
                    comment = false;
                    self.line += 1;
                    self.column = 1;
                }
                '#' => {
                    comment = true;
                    self.column += 1;
                }
                ' ' | '\t' | ',' | '\u{feff}' => self.column += 1,
                _ if comment => self.column += 1,
                _ => {
                    self.rest = cut(self.rest, at).1;
                    return;
                }
            }
        }
        self.rest = "";
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lines(text: &str) -> String {
        let lines = compile(text).unwrap().to_lines();
        let without_mask = |line: &str| line.rsplit_once(' ').map_or("}", |cut| cut.0).to_owned();
        lines
            .lines()
            .map(without_mask)
            .collect::<Vec<_>>()
            .join("; ")
    }

    fn mistake(text: &str) -> String {
        compile(text).unwrap_err().to_string()
    }

    #[test]
    fn a_selection_becomes_the_tree_that_it_names() {
        for (text, tree) in [
            ("{id}", "= id id"),
            (
                "{ value { float s: string(units: true) } }",
                "{ value value; = float value.float; = s value.string(units); }",
            ),
            (
                "\u{feff}{\n  # the range\r\n  display, { lim: controlRange { min } }\n}",
                "{ display display; { lim display.controlRange; = min range.min; }; }",
            ),
            (
                "{ value { float } id value { string(units: false) float } }",
                "{ value value; = float value.float; = string value.string; }; = id id",
            ),
            (
                "{ __typename t: time { __typename } }",
                "= __typename __typename:Channel; { t time; = __typename __typename:ChannelTime; }",
            ),
        ] {
            assert_eq!(lines(text), tree, "{text}");
        }
    }

    #[test]
    fn a_mistake_is_told_with_its_place_and_what_was_meant() {
        for (text, message) in [
            (
                "",
                "line 1, column 1: expected `{`, found the end of the selection",
            ),
            (
                "{",
                "line 1, column 2: expected a field or `}`, found the end of the selection",
            ),
            ("{}", "line 1, column 2: expected a field, found `}`"),
            (
                "{ id } x",
                "line 1, column 8: expected the end of the selection, found `x`",
            ),
            (
                "{\n  value { flot }\n}",
                "line 2, column 11: `flot` is no field of ChannelValue; did you mean `float`?",
            ),
            (
                "{ Value { float } }",
                "line 1, column 3: `Value` is no field of Channel; did you mean `value`?",
            ),
            (
                "{ temperature }",
                "line 1, column 3: `temperature` is no field of Channel",
            ),
            (
                "{ value }",
                "line 1, column 9: `value` needs a selection of its fields: `value { … }`",
            ),
            (
                "{ id { x } }",
                "line 1, column 6: `id` has no fields of its own",
            ),
            (
                "{ value { string(unit: true) } }",
                "line 1, column 18: `unit` is no argument of ChannelValue.string; did you mean `units`?",
            ),
            (
                "{ id(x: 1) }",
                "line 1, column 6: `x` is no argument of Channel.id",
            ),
            (
                "{ value { string(units: 1) } }",
                "line 1, column 25: expected `true` or `false`, found `1`",
            ),
            (
                "{ value { string(units: true units: true) } }",
                "line 1, column 30: `units` is given twice",
            ),
            (
                "{ ...f }",
                "line 1, column 3: expected a field or `}`, found `...` (fragments can't be used here)",
            ),
            (
                "{ id @skip(if: true) }",
                "line 1, column 6: expected a field or `}`, found `@` (directives can't be used here)",
            ),
            (
                "{ a: value { float } a: time { seconds } }",
                "line 1, column 22: `a` stands for two different fields",
            ),
            (
                "{ value { string string(units: true) } }",
                "line 1, column 18: `string` stands for two different fields",
            ),
            ("{ ü }", "line 1, column 3: expected a field, found `ü`"),
        ] {
            assert_eq!(mistake(text), message, "{text}");
        }
        assert_eq!(
            compile("{ time { x } }").unwrap_err().expected,
            "one of datetime, seconds, nanoseconds, userTag"
        );
    }

    #[test]
    fn a_selection_reads_only_the_parts_of_its_fields() {
        let mask = |text| compile(text).unwrap().mask;
        assert_eq!(mask("{ id __typename }"), 0);
        assert_eq!(mask("{ value { float } }"), part::VALUE | part::METADATA);
        assert_eq!(mask("{ status { severity } }"), part::ALARM);
        assert_eq!(
            mask("{ status { mutable } }"),
            part::ACCESS | part::CONNECTION
        );
        assert_eq!(mask("{ display { units } }"), part::METADATA);
        assert_eq!(mask("{ connection { state } }"), part::CONNECTION);
        assert_eq!(mask(EVERYTHING), 0b111_1111);
        assert_eq!(
            compile("{ id status { severity mutable } }")
                .unwrap()
                .to_lines(),
            "= id id 0\n{ status status 52\n= severity status.severity 4\n= mutable status.mutable 48\n}\n"
        );
    }

    #[test]
    fn a_selection_that_is_too_long_is_refused() {
        let long = format!("{{ id {} }}", " ".repeat(MAX_BYTES));
        assert!(mistake(&long).contains("more than the limit"));
        let many = format!("{{ {} }}", "id ".repeat(MAX_FIELDS + 1));
        assert!(mistake(&many).contains("more than 256 fields"));
    }

    proptest! {
        #[test]
        fn no_text_panics_the_compiler(text in "\\PC{0,60}") {
            let _ = compile(&text);
        }

        #[test]
        fn no_sequence_of_tokens_panics_the_compiler(
            tokens in prop::collection::vec(prop::sample::select(vec![
                "{", "}", "(", ")", ":", "value", "float", "string", "units", "true", "display",
                "controlRange", "min", "id", "time", "...", "#", "\n", "\"x\"", "-1.5e3", ",", "a",
            ]), 0..24),
        ) {
            if let Ok(plan) = compile(&tokens.join(" ")) {
                let lines = plan.to_lines();
                let opened = lines.lines().filter(|line| line.starts_with('{')).count();
                prop_assert_eq!(opened, lines.lines().filter(|line| *line == "}").count());
            }
        }
    }
}
