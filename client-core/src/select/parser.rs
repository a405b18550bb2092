//! Parses GraphQL documents into a [`Document`], up to the first syntax error.

use crate::select::error::fill;
use crate::select::lexer::{Lexer, Token, token};
use crate::select::schema::{LIST, NON_NULL, Schema, id};
use crate::select::string_value::decode;
use crate::select::tree::{Document, Node, Span, kind};

/// Maximum length of a document, in bytes.
pub const MAX_BYTES: u32 = 512 * 1024;

/// Maximum length of variables, in bytes; they may contain whole arrays.
const MAX_JSON_BYTES: u32 = 256 * 1024 * 1024;

/// Maximum number of tokens in a document: ten times a screen with a thousand aliased PVs.
pub const MAX_TOKENS: u32 = 200_000;

/// Maximum number of fragments in a document, because each may lead to the next.
pub const MAX_FRAGMENTS: u32 = 1000;

/// Maximum nesting depth of selections and values. GraphiQL's introspection needs 13.
pub const MAX_DEPTH: u32 = 50;

/// Maximum number of fields in a result: each takes time in every displayed update.
pub const MAX_FIELDS: u32 = 50_000;

/// After an error the lexer returns no more tokens, so that every parsing function ends.
struct Parser<'a> {
    lexer: Lexer<'a>,
    token: Token,
    /// Hash of the last consumed name.
    hash: u32,
    tokens: u32,
    fragments: u32,
    depth: u32,
    /// The definition that is being parsed.
    definition: u32,
    document: Document,
    bounds: Bounds,
}

/// Keywords that can start a definition.
static KEYWORDS: &[(&str, u8)] = &[
    ("query", kind::QUERY),
    ("mutation", kind::MUTATION),
    ("subscription", kind::SUBSCRIPTION),
    ("fragment", kind::FRAGMENT),
    ("schema", kind::TYPE_SYSTEM),
    ("scalar", kind::TYPE_SYSTEM),
    ("type", kind::TYPE_SYSTEM),
    ("interface", kind::TYPE_SYSTEM),
    ("union", kind::TYPE_SYSTEM),
    ("enum", kind::TYPE_SYSTEM),
    ("input", kind::TYPE_SYSTEM),
    ("directive", kind::TYPE_SYSTEM),
    ("extend", kind::TYPE_SYSTEM),
];

/// Limits of a document, and the schema that it is read for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Maximum length in bytes.
    pub(crate) bytes: u32,
    /// Maximum number of tokens.
    pub(crate) tokens: u32,
    /// Maximum nesting depth.
    pub(crate) depth: u32,
    /// Maximum number of fields of a result.
    pub(crate) fields: u32,
    pub(crate) schema: Schema,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            bytes: MAX_BYTES,
            tokens: MAX_TOKENS,
            depth: MAX_DEPTH,
            fields: MAX_FIELDS,
            schema: Schema::default(),
        }
    }
}

/// The expected content of a text.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Operations and fragments.
    Document,
    /// A value in JSON, which is GraphQL's notation except for the keys of objects.
    Json,
}

/// Parses a text, up to the first error.
pub(crate) fn parse(text: &str, form: Form, bounds: Bounds) -> Document {
    let mut parser = Parser {
        lexer: Lexer::new(text),
        token: Token::default(),
        hash: 0,
        tokens: 0,
        fragments: 0,
        depth: 0,
        definition: 0,
        document: Document {
            schema: bounds.schema,
            max_fields: bounds.fields,
            ..Document::default()
        },
        bounds,
    };
    // Enough for most documents.
    parser.document.nodes.reserve((text.len() / 6).min(1000));
    parser.document.nodes.push(Node {
        ty: id::UNKNOWN,
        ..Node::default()
    });
    let limit = if form == Form::Json {
        MAX_JSON_BYTES
    } else {
        bounds.bytes
    };
    parser.limit(text.len() as u32, limit, "is too long");
    parser.advance();
    match form {
        Form::Document => loop {
            parser.definition();
            if parser.token.kind == token::END {
                break;
            }
        },
        Form::Json => parser.value(0, true, true),
    }
    let mut document = parser.document;
    document.errors.extend(parser.lexer.error);
    text.clone_into(&mut document.text);
    document.list_fragments();
    document
}

impl<'a> Parser<'a> {
    fn limit(&mut self, found: u32, limit: u32, what: &str) {
        if found > limit {
            self.wrong(self.token, "Document %. Parsing aborted.", what);
        }
    }

    /// Reports an error at a token and stops parsing.
    fn wrong(&mut self, at: Token, template: &str, word: &str) {
        self.lexer.wrong(at.span.start as usize, template, word);
        self.token.kind = token::END;
    }

    /// Consumes the next token and returns its position.
    fn advance(&mut self) -> Span {
        let before = self.token.span;
        self.hash = self.token.hash;
        if self.lexer.error.is_none() {
            self.token = self.lexer.next();
            self.tokens += 1;
            if self.tokens > self.bounds.tokens {
                self.limit(self.tokens, self.bounds.tokens, "has too many tokens");
            }
            if self.lexer.error.is_some() {
                self.token.kind = token::END;
            }
        }
        before
    }

    #[inline(always)]
    fn text(&self, span: Span) -> &'a str {
        let text = self.lexer.text.get(span.start as usize..span.end as usize);
        text.unwrap_or_default()
    }

    /// Consumes the next token if it is of this kind.
    #[inline(always)]
    fn skip(&mut self, kind: u8) -> bool {
        let fits = self.token.kind == kind;
        if fits {
            self.advance();
        }
        fits
    }

    fn expect(&mut self, kind: u8) -> Span {
        if self.token.kind == kind {
            return self.advance();
        }
        let mut expected = String::new();
        push_kind(kind, &mut expected);
        self.unexpected(&fill("Expected %, found %.", &[&expected, "%"]));
        Span::default()
    }

    fn unexpected(&mut self, template: &str) {
        self.unexpected_token(self.token, template);
    }

    fn unexpected_token(&mut self, at: Token, template: &str) {
        let mut found = String::new();
        push_kind(at.kind, &mut found);
        let text = self.text(at.span);
        let quoted = matches!(at.kind, token::STRING | token::BLOCK);
        if quoted || at.kind.is_ascii_alphanumeric() {
            let value = if quoted {
                decode(text, at.kind == token::BLOCK)
            } else {
                text.to_owned()
            };
            found = fill("% \"%\"", &[&found, &value]);
        }
        self.wrong(at, template, &found);
    }

    fn word(&self) -> &'a str {
        if self.token.kind == token::NAME {
            self.text(self.token.span)
        } else {
            ""
        }
    }

    fn name(&mut self) -> Span {
        self.expect(token::NAME)
    }

    fn is_string(&self) -> bool {
        matches!(self.token.kind, token::STRING | token::BLOCK)
    }

    /// Adds a node that begins at the next token.
    fn begin(&mut self, kind: u8, parent: u32) -> u32 {
        let at = self.document.nodes.len() as u32;
        self.document.nodes.push(Node {
            kind,
            at: self.token.span.start,
            ..Node::default()
        });
        self.document.adopt(parent, at);
        at
    }

    #[inline(always)]
    fn node(&mut self, at: u32) -> &mut Node {
        let at = (at as usize).min(self.document.nodes.len() - 1);
        &mut self.document.nodes[at]
    }

    fn definition(&mut self) {
        let first = self.token;
        let node = self.begin(kind::QUERY, 0);
        self.definition = node;
        if first.kind == b'{' {
            self.set(node, id::QUERY);
            return;
        }
        let described = self.is_string();
        if described {
            self.advance();
        }
        let word = self.word();
        let mut keyword = 0;
        for (known, kind) in KEYWORDS {
            if *known == word {
                keyword = *kind;
            }
        }
        if keyword == 0 || (described && word == "extend") {
            if described && self.token.kind == b'{' {
                let message =
                    "Unexpected description, descriptions are not supported on shorthand queries.";
                self.wrong(first, message, "");
            } else if described && !word.is_empty() {
                let message =
                    "Unexpected description, only GraphQL definitions support descriptions.";
                self.wrong(first, message, "");
            } else {
                self.unexpected("Unexpected %.");
            }
            return;
        }
        self.node(node).kind = keyword;
        if keyword == kind::TYPE_SYSTEM {
            self.type_system(node);
            return;
        }
        self.advance();
        let mut ty = match keyword {
            kind::MUTATION => id::MUTATION,
            kind::SUBSCRIPTION => id::SUBSCRIPTION,
            _ => id::QUERY,
        };
        if keyword == kind::FRAGMENT {
            self.fragments += 1;
            self.limit(self.fragments, MAX_FRAGMENTS, "has too many fragments");
            let name = self.fragment_name();
            let hash = self.hash;
            (self.node(node).name, self.node(node).hash) = (name, hash);
            if self.word() != "on" {
                self.unexpected("Expected \"on\", found %.");
            }
            self.advance();
            let on = self.name();
            self.node(node).key = on;
            ty = self.find(on);
        } else {
            if self.token.kind == token::NAME {
                self.node(node).name = self.advance();
            }
            if self.skip(b'(') {
                loop {
                    self.variable(node);
                    if self.ends(b')') {
                        break;
                    }
                }
            }
        }
        self.directives(node, false);
        self.set(node, ty);
    }

    /// The index of the type with this name.
    fn find(&self, name: Span) -> u8 {
        self.bounds
            .schema
            .find(self.text(name))
            .unwrap_or(id::UNKNOWN)
    }

    /// Whether the list between brackets ends here.
    fn ends(&mut self, close: u8) -> bool {
        self.skip(close) || self.lexer.error.is_some()
    }

    /// Skips the definition of a type. An executable document has none, so only its name is kept,
    /// and parsing ends there.
    fn type_system(&mut self, node: u32) {
        let mut word = self.advance();
        if self.text(word) == "extend" {
            word = self.name();
        }
        if self.text(word) != "schema" {
            self.skip(b'@');
            self.node(node).name = self.name();
        }
        while self.token.kind != token::END {
            self.advance();
        }
    }

    fn fragment_name(&mut self) -> Span {
        if self.word() == "on" {
            self.unexpected("Unexpected %.");
        }
        self.name()
    }

    fn variable(&mut self, parent: u32) {
        let node = self.begin(kind::VARIABLE, parent);
        if self.is_string() {
            self.advance();
        }
        self.expect(b'$');
        self.node(node).name = self.name();
        self.expect(b':');
        self.node(node).inner_at = self.token.span.start;
        self.ty(node);
        if self.skip(b'=') {
            self.value(node, true, false);
        }
        self.directives(node, true);
    }

    fn ty(&mut self, node: u32) {
        if self.skip(b'[') {
            self.down();
            self.ty(node);
            self.depth -= 1;
            self.expect(b']');
            self.wrap(node, LIST);
        } else {
            let name = self.name();
            self.node(node).key = name;
            self.node(node).ty = self.find(name);
        }
        if self.skip(b'!') {
            self.wrap(node, NON_NULL);
        }
    }

    fn wrap(&mut self, node: u32, wrap: u16) {
        let wraps = self.node(node).wraps;
        if wraps >= 1 << 14 {
            self.wrong(
                self.token,
                "Document has a type that is nested too deep.",
                "",
            );
        }
        self.node(node).wraps = wraps << 2 | wrap;
    }

    fn down(&mut self) {
        self.depth += 1;
        self.limit(self.depth, self.bounds.depth, "is nested too deep");
    }

    /// Parses the selection set of an object of this type.
    fn set(&mut self, parent: u32, ty: u8) {
        let node = self.node(parent);
        if node.kind != kind::FIELD {
            node.ty = ty;
        }
        self.node(parent).inner_at = self.token.span.start;
        self.expect(b'{');
        self.down();
        loop {
            self.selection(parent, ty);
            if self.ends(b'}') {
                break;
            }
        }
        self.depth -= 1;
    }

    fn selection(&mut self, parent: u32, mut ty: u8) {
        let node = self.begin(kind::FIELD, parent);
        if self.skip(token::SPREAD) {
            let mut kind = kind::INLINE;
            if self.word() == "on" {
                self.advance();
                let name = self.name();
                self.node(node).name = name;
                ty = self.find(name);
            } else if self.token.kind == token::NAME {
                kind = kind::SPREAD;
                self.document.spreads.push((self.definition, node));
                let name = self.advance();
                let hash = self.hash;
                (self.node(node).name, self.node(node).hash) = (name, hash);
            }
            self.node(node).kind = kind;
            self.directives(node, false);
            if kind == kind::INLINE {
                self.set(node, ty);
            }
            return;
        }
        let key = self.name();
        let hash = self.hash;
        let name = if self.skip(b':') { self.name() } else { key };
        let found = self.bounds.schema.field(ty, self.text(name));
        let field = self.node(node);
        (field.key, field.name, field.hash) = (key, name, hash);
        (field.ty, field.field) = (ty, found);
        self.arguments(node, false);
        self.directives(node, false);
        if self.token.kind == b'{' {
            let inner = found.map(|field| field.ty).filter(|ty| ty.is_object());
            self.set(node, inner.map_or(id::UNKNOWN, |ty| ty.name));
        }
    }

    fn arguments(&mut self, parent: u32, constant: bool) {
        if self.skip(b'(') {
            loop {
                self.argument(parent, constant, false);
                if self.ends(b')') {
                    break;
                }
            }
        }
    }

    fn argument(&mut self, parent: u32, constant: bool, json: bool) {
        let node = self.begin(kind::ARGUMENT, parent);
        let quoted = json && self.token.kind == token::STRING;
        let name = if quoted { self.advance() } else { self.name() };
        self.node(node).name = name;
        self.expect(b':');
        self.value(node, constant, json);
    }

    fn directives(&mut self, parent: u32, constant: bool) {
        while self.token.kind == b'@' {
            let node = self.begin(kind::DIRECTIVE, parent);
            self.advance();
            self.node(node).name = self.name();
            self.arguments(node, constant);
        }
    }

    fn value(&mut self, parent: u32, constant: bool, json: bool) {
        let first = self.token;
        let kind = match first.kind {
            token::NAME => match self.word() {
                "true" | "false" => kind::BOOLEAN,
                "null" => kind::NULL,
                _ => kind::ENUM,
            },
            kind::LIST
            | kind::OBJECT
            | kind::USE
            | kind::INT
            | kind::FLOAT
            | kind::STRING
            | kind::BLOCK => first.kind,
            _ => {
                self.unexpected("Unexpected %.");
                return;
            }
        };
        let node = self.begin(kind, parent);
        let mut name = self.advance();
        match kind {
            kind::USE => {
                if constant {
                    if self.token.kind == token::NAME {
                        let message = "Unexpected variable \"$%\" in constant value.";
                        self.wrong(first, message, self.word());
                    } else {
                        self.unexpected_token(first, "Unexpected %.");
                    }
                }
                name = self.name();
            }
            kind::LIST | kind::OBJECT => {
                self.down();
                let close = if kind == kind::LIST { b']' } else { b'}' };
                while !self.ends(close) {
                    if kind == kind::LIST {
                        self.value(node, constant, json);
                    } else {
                        self.argument(node, constant, json);
                    }
                }
                self.depth -= 1;
            }
            _ => {}
        }
        self.node(node).name = name;
    }
}

/// The kind of a token, in the words of the reference implementation.
fn push_kind(kind: u8, to: &mut String) {
    let word = match kind {
        token::END => "<EOF>",
        token::NAME => "Name",
        token::INT => "Int",
        token::FLOAT => "Float",
        token::STRING => "String",
        token::BLOCK => "BlockString",
        token::SPREAD => "\"...\"",
        mark => {
            to.push('"');
            to.push(char::from(mark));
            "\""
        }
    };
    to.push_str(word);
}
