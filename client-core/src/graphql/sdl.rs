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
pub(super) struct Schema {
    pub(super) description: Option<String>,
    pub(super) types: Vec<Type>,
    pub(super) directives: Vec<Directive>,
}

/// A named type.
#[derive(Debug)]
pub(super) struct Type {
    /// As in `__TypeKind`.
    pub(super) kind: &'static str,
    pub(super) name: &'static str,
    pub(super) description: Option<String>,
    /// Fields of an object, values of an enum.
    pub(super) fields: Vec<Field>,
}

/// A field, an argument or a value of an enum.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) description: Option<String>,
    pub(super) arguments: Vec<Self>,
    pub(super) ty: Reference,
    pub(super) default: Option<&'static str>,
}

/// A type with its wrappers.
#[derive(Debug)]
pub(super) enum Reference {
    Named(&'static str),
    List(Box<Self>),
    NonNull(Box<Self>),
}

#[derive(Debug)]
pub(super) struct Directive {
    pub(super) name: &'static str,
    pub(super) description: Option<String>,
    pub(super) arguments: Vec<Field>,
    pub(super) locations: Vec<&'static str>,
}

impl Schema {
    /// The dialect's schema with the built-in types.
    pub(super) fn of(dialect: Dialect) -> Self {
        let mut schema = Self::default();
        for sdl in [text(dialect), BUILT_IN] {
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

    pub(super) fn find(&self, name: &str) -> Option<&Type> {
        self.types.iter().find(|ty| ty.name == name)
    }
}

/// Words, strings and punctuation marks.
fn tokens(sdl: &'static str) -> Vec<&'static str> {
    let mut tokens = Vec::new();
    let mut rest = sdl;
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == ',');
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let end = if let Some(block) = rest.strip_prefix("\"\"\"") {
            block.find("\"\"\"").map_or(rest.len(), |at| at + 6)
        } else if let Some(string) = rest.strip_prefix('"') {
            string.find('"').map_or(rest.len(), |at| at + 2)
        } else {
            match rest.find(|c: char| !is_word(c)) {
                Some(0) => 1,
                Some(at) => at,
                None => rest.len(),
            }
        };
        let Some((token, after)) = rest.split_at_checked(end).filter(|_| end > 0) else {
            return tokens;
        };
        tokens.push(token);
        rest = after;
    }
}

struct Reader {
    tokens: Vec<&'static str>,
    at: usize,
}

impl Reader {
    /// The next token; empty at the end.
    fn peek(&self) -> &'static str {
        self.tokens.get(self.at).copied().unwrap_or_default()
    }

    fn take(&mut self) -> &'static str {
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
        let lines = text.trim_end_matches('"').trim().lines();
        Some(lines.map(str::trim).collect::<Vec<_>>().join("\n"))
    }

    /// The entries up to a closing bracket.
    fn list<T>(&mut self, close: &str, entry: impl Fn(&mut Self) -> T) -> Vec<T> {
        let mut list = Vec::new();
        while !self.skip(close) && !self.peek().is_empty() {
            list.push(entry(self));
        }
        list
    }

    fn definition(&mut self, to: &mut Schema) {
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
    fn field(&mut self, has_type: bool) -> Field {
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

    fn arguments(&mut self) -> Vec<Field> {
        if self.skip("(") {
            self.list(")", |reader| reader.field(true))
        } else {
            Vec::new()
        }
    }

    fn reference(&mut self) -> Reference {
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

    fn directive(&mut self, description: Option<String>) -> Directive {
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
