//! Reads the schemas in GraphQL's notation, for introspection.

use super::Dialect;

/// The dialect's schema in GraphQL's notation, for editors and code generators.
pub(super) const fn text(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Pvwire => include_str!("sdl/pvwire.graphql"),
        Dialect::Coniql => include_str!("sdl/coniql.graphql"),
    }
}

/// The types that every schema has in addition to its own.
pub(super) const BUILT_IN: &str = include_str!("sdl/built_in.graphql");

/// A schema.
#[derive(Debug, Default)]
pub(super) struct Schema<'a> {
    pub(super) description: Option<String>,
    pub(super) types: Vec<Type<'a>>,
    pub(super) directives: Vec<Directive<'a>>,
}

/// A named type.
#[derive(Debug)]
pub(super) struct Type<'a> {
    /// As in `__TypeKind`.
    pub(super) kind: &'a str,
    pub(super) name: &'a str,
    pub(super) description: Option<String>,
    /// Fields of an object, values of an enum.
    pub(super) fields: Vec<Field<'a>>,
}

/// A field, an argument or a value of an enum.
#[derive(Debug)]
pub(super) struct Field<'a> {
    pub(super) name: &'a str,
    pub(super) description: Option<String>,
    pub(super) arguments: Vec<Self>,
    pub(super) ty: Reference<'a>,
    pub(super) default: Option<&'a str>,
}

/// A type with its wrappers.
#[derive(Debug)]
pub(super) enum Reference<'a> {
    Named(&'a str),
    List(Box<Self>),
    NonNull(Box<Self>),
}

#[derive(Debug)]
pub(super) struct Directive<'a> {
    pub(super) name: &'a str,
    pub(super) description: Option<String>,
    pub(super) arguments: Vec<Field<'a>>,
    pub(super) locations: Vec<&'a str>,
}

impl<'a> Schema<'a> {
    /// A schema in GraphQL's notation, with the built-in types.
    pub(super) fn of(sdl: &'a str) -> Self {
        let mut schema = Self::default();
        for sdl in [sdl, BUILT_IN] {
            let mut reader = Reader {
                tokens: tokens(sdl),
                at: 0,
            };
            while !reader.peek().is_empty() {
                reader.definition(&mut schema);
            }
        }
        schema
    }

    pub(super) fn find(&self, name: &str) -> Option<&Type<'a>> {
        self.types.iter().find(|ty| ty.name == name)
    }
}

/// Words, strings and punctuation marks.
fn tokens(sdl: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = sdl;
    loop {
        // Byte by byte: the standard library's searches in text would take kilobytes.
        let is_blank = |byte: &u8| byte.is_ascii_whitespace() || *byte == b',';
        let blanks = rest.bytes().take_while(is_blank).count();
        rest = rest.get(blanks..).unwrap_or_default();
        let bytes = rest.as_bytes();
        let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        let end = if let Some(block) = bytes.strip_prefix(b"\"\"\"") {
            let end = block.windows(3).position(|three| three == b"\"\"\"");
            end.map_or(rest.len(), |at| at + 6)
        } else if let Some(string) = bytes.strip_prefix(b"\"") {
            let end = string.iter().position(|byte| *byte == b'"');
            end.map_or(rest.len(), |at| at + 2)
        } else {
            let word = bytes.iter().take_while(|byte| is_word(byte)).count();
            word.max(1).min(rest.len())
        };
        let Some((token, after)) = rest.split_at_checked(end).filter(|_| end > 0) else {
            return tokens;
        };
        tokens.push(token);
        rest = after;
    }
}

struct Reader<'a> {
    tokens: Vec<&'a str>,
    at: usize,
}

impl<'a> Reader<'a> {
    /// The next token; empty at the end.
    fn peek(&self) -> &'a str {
        self.tokens.get(self.at).copied().unwrap_or_default()
    }

    fn take(&mut self) -> &'a str {
        let token = self.peek();
        self.at += 1;
        token
    }

    fn skip(&mut self, token: &str) -> bool {
        let fits = self.peek() == token;
        self.at += usize::from(fits);
        fits
    }

    fn description(&mut self) -> Option<String> {
        let text = self.peek().strip_prefix("\"\"\"")?;
        self.at += 1;
        let lines = text.trim_end_matches('"').trim_ascii().lines();
        Some(lines.map(str::trim_ascii).collect::<Vec<_>>().join("\n"))
    }

    /// The entries up to a closing bracket.
    fn list<T>(&mut self, close: &str, entry: impl Fn(&mut Self) -> T) -> Vec<T> {
        let mut list = Vec::new();
        while !self.skip(close) && !self.peek().is_empty() {
            list.push(entry(self));
        }
        list
    }

    fn definition(&mut self, to: &mut Schema<'a>) {
        let description = self.description();
        let kind = match self.take() {
            "schema" => {
                to.description = description;
                self.list("}", Self::take);
                return;
            }
            "directive" => return to.directives.push(self.directive(description)),
            "type" => "OBJECT",
            "enum" => "ENUM",
            _ => "SCALAR",
        };
        let name = self.take();
        let fields = if self.skip("{") {
            self.list("}", |reader| reader.field(kind == "OBJECT"))
        } else {
            Vec::new()
        };
        to.types.push(Type {
            kind,
            name,
            description,
            fields,
        });
    }

    /// A field with its type, or the value of an enum.
    fn field(&mut self, has_type: bool) -> Field<'a> {
        let description = self.description();
        let name = self.take();
        let arguments = self.arguments();
        let ty = if has_type {
            self.skip(":");
            self.reference()
        } else {
            Reference::Named("")
        };
        let default = self.skip("=").then(|| self.take());
        Field {
            name,
            description,
            arguments,
            ty,
            default,
        }
    }

    fn arguments(&mut self) -> Vec<Field<'a>> {
        if self.skip("(") {
            self.list(")", |reader| reader.field(true))
        } else {
            Vec::new()
        }
    }

    fn reference(&mut self) -> Reference<'a> {
        let ty = if self.skip("[") {
            let inner = self.reference();
            self.skip("]");
            Reference::List(Box::new(inner))
        } else {
            Reference::Named(self.take())
        };
        if self.skip("!") {
            Reference::NonNull(Box::new(ty))
        } else {
            ty
        }
    }

    fn directive(&mut self, description: Option<String>) -> Directive<'a> {
        self.skip("@");
        let name = self.take();
        let arguments = self.arguments();
        self.skip("on");
        let mut locations = Vec::new();
        let is_location = |token: &str| {
            !token.is_empty()
                && token
                    .bytes()
                    .all(|byte| byte == b'_' || byte.is_ascii_uppercase())
        };
        while is_location(self.peek()) {
            locations.push(self.take());
        }
        Directive {
            name,
            description,
            arguments,
            locations,
        }
    }
}
