//! Answers `__schema` and `__type` from the schema's text.

use super::Dialect;
use super::sdl::{Directive, Field, Reference, Schema, Type, text};
use crate::format;

/// The value of `__schema`, or of `__type` with this name, as JSON. `sdl` is the schema in GraphQL's
/// notation; `plan` has the lines of the value's fields, as
/// [`Documents::plan`](crate::select::Documents::plan) writes them.
#[must_use]
pub fn introspect(sdl: &str, type_name: Option<&str>, plan: &str) -> String {
    let json = written(&Schema::of(sdl), type_name, plan, usize::MAX);
    String::from_utf8(json.unwrap_or_default()).unwrap_or_default()
}

/// The value of `__schema` as JSON; `plan` has the lines of its fields. `None` if it is longer than
/// `longest` bytes.
pub(super) fn schema(dialect: Dialect, plan: &str, longest: usize) -> Option<Vec<u8>> {
    written(&Schema::of(text(dialect)), None, plan, longest)
}

/// The value of `__type` as JSON, null if there is no such type.
pub(super) fn named(dialect: Dialect, name: &str, plan: &str, longest: usize) -> Option<Vec<u8>> {
    written(&Schema::of(text(dialect)), Some(name), plan, longest)
}

fn written<'a>(
    schema: &'a Schema<'a>,
    type_name: Option<&str>,
    plan: &str,
    longest: usize,
) -> Option<Vec<u8>> {
    let source = match type_name {
        Some(name) => schema.find(name).map(Source::Type),
        None => Some(Source::Schema),
    };
    write(schema, source, plan, longest)
}

fn write<'a>(
    schema: &'a Schema<'a>,
    source: Option<Source<'a>>,
    plan: &str,
    longest: usize,
) -> Option<Vec<u8>> {
    let mut lines = plan.lines();
    let fields = asked(&mut lines);
    let mut out = Vec::new();
    Writer { schema, longest }.object(source, &fields, &mut out);
    (out.len() <= longest).then_some(out)
}

/// A selected field.
struct Asked<'a> {
    key: &'a str,
    name: &'a str,
    inner: Vec<Self>,
}

/// The fields up to the end of their object.
fn asked<'a>(lines: &mut std::str::Lines<'a>) -> Vec<Asked<'a>> {
    let mut fields = Vec::new();
    while let Some(line) = lines.next().filter(|line| !line.starts_with('}')) {
        let mut words = line.split(' ');
        let sign = words.next();
        fields.push(Asked {
            key: words.next().unwrap_or_default(),
            name: words.next().unwrap_or_default(),
            inner: if sign == Some("{") {
                asked(lines)
            } else {
                Vec::new()
            },
        });
    }
    fields
}

/// What an object of introspection describes.
#[derive(Clone, Copy)]
enum Source<'a> {
    Schema,
    Type(&'a Type<'a>),
    /// A list or a type that is never null.
    Wrapped(&'a Reference<'a>),
    Field(&'a Field<'a>),
    Argument(&'a Field<'a>),
    EnumValue(&'a Field<'a>),
    Directive(&'a Directive<'a>),
}

/// The content of a field.
enum Content<'a> {
    Null,
    Boolean(bool),
    Text(&'a str),
    Texts(&'a [&'a str]),
    Object(Option<Source<'a>>),
    Objects(Vec<Source<'a>>),
}

impl<'a> Content<'a> {
    fn text(text: Option<&'a str>) -> Self {
        text.map_or(Self::Null, Self::Text)
    }

    fn objects<T>(list: &'a [T], source: impl Fn(&'a T) -> Source<'a>) -> Self {
        Self::Objects(list.iter().map(source).collect())
    }
}

struct Writer<'a> {
    schema: &'a Schema<'a>,
    /// Nothing more is written after this number of bytes.
    longest: usize,
}

impl<'a> Writer<'a> {
    fn object(&self, source: Option<Source<'a>>, fields: &[Asked<'_>], out: &mut Vec<u8>) {
        let Some(source) = source else {
            out.extend_from_slice(b"null");
            return;
        };
        out.push(b'{');
        for (nth, field) in fields.iter().enumerate() {
            if out.len() > self.longest {
                return;
            }
            if nth > 0 {
                out.push(b',');
            }
            format::push_quoted(field.key, out);
            out.push(b':');
            match field.name.strip_prefix("__typename:") {
                Some(name) => format::push_quoted(name, out),
                None => self.content(self.of(source, field.name), &field.inner, out),
            }
        }
        out.push(b'}');
    }

    fn content(&self, content: Content<'a>, fields: &[Asked<'_>], out: &mut Vec<u8>) {
        match content {
            Content::Null => out.extend_from_slice(b"null"),
            Content::Boolean(true) => out.extend_from_slice(b"true"),
            Content::Boolean(false) => out.extend_from_slice(b"false"),
            Content::Text(text) => format::push_quoted(text, out),
            Content::Object(source) => self.object(source, fields, out),
            Content::Texts(texts) => {
                list(texts, out, |text, out| format::push_quoted(text, out));
            }
            Content::Objects(sources) => {
                list(&sources, out, |source, out| {
                    self.object(Some(*source), fields, out)
                });
            }
        }
    }

    fn of(&self, source: Source<'a>, name: &str) -> Content<'a> {
        match source {
            Source::Schema => self.of_schema(name),
            Source::Type(ty) => of_type(ty, name),
            Source::Wrapped(wrapped) => self.of_wrapped(wrapped, name),
            Source::Field(field) => match name {
                "args" => Content::objects(&field.arguments, Source::Argument),
                _ => self.of_field(field, name),
            },
            Source::Argument(field) => match name {
                "defaultValue" => Content::text(field.default),
                _ => self.of_field(field, name),
            },
            Source::EnumValue(value) => match name {
                "type" => Content::Null,
                _ => self.of_field(value, name),
            },
            Source::Directive(directive) => match name {
                "name" => Content::Text(directive.name),
                "description" => Content::text(directive.description.as_deref()),
                "args" => Content::objects(&directive.arguments, Source::Argument),
                "locations" => Content::Texts(&directive.locations),
                "isRepeatable" | "isDeprecated" => Content::Boolean(false),
                _ => Content::Null,
            },
        }
    }

    fn of_schema(&self, name: &str) -> Content<'a> {
        let root = |name| Content::Object(self.schema.find(name).map(Source::Type));
        match name {
            "description" => Content::text(self.schema.description.as_deref()),
            "types" => Content::objects(&self.schema.types, Source::Type),
            "queryType" => root("Query"),
            "mutationType" => root("Mutation"),
            "subscriptionType" => root("Subscription"),
            _ => Content::objects(&self.schema.directives, Source::Directive),
        }
    }

    fn of_wrapped(&self, wrapped: &'a Reference<'a>, name: &str) -> Content<'a> {
        let (kind, inner) = match wrapped {
            Reference::List(inner) => ("LIST", inner),
            Reference::NonNull(inner) => ("NON_NULL", inner),
            Reference::Named(_) => return Content::Null,
        };
        match name {
            "kind" => Content::Text(kind),
            "ofType" => Content::Object(self.reference(inner)),
            _ => Content::Null,
        }
    }

    fn of_field(&self, field: &'a Field<'a>, name: &str) -> Content<'a> {
        match name {
            "name" => Content::Text(field.name),
            "description" => Content::text(field.description.as_deref()),
            "type" => Content::Object(self.reference(&field.ty)),
            "isDeprecated" => Content::Boolean(false),
            _ => Content::Null,
        }
    }

    fn reference(&self, reference: &'a Reference<'a>) -> Option<Source<'a>> {
        match reference {
            Reference::Named(name) => self.schema.find(name).map(Source::Type),
            wrapped => Some(Source::Wrapped(wrapped)),
        }
    }
}

fn of_type<'a>(ty: &'a Type<'a>, name: &str) -> Content<'a> {
    match (name, ty.kind) {
        ("kind", kind) => Content::Text(kind),
        ("name", _) => Content::Text(ty.name),
        ("description", _) => Content::text(ty.description.as_deref()),
        ("fields", "OBJECT") => Content::objects(&ty.fields, Source::Field),
        ("interfaces", "OBJECT") => Content::Objects(Vec::new()),
        ("enumValues", "ENUM") => Content::objects(&ty.fields, Source::EnumValue),
        _ => Content::Null,
    }
}

fn list<T>(items: &[T], out: &mut Vec<u8>, mut push: impl FnMut(&T, &mut Vec<u8>)) {
    out.push(b'[');
    for (nth, item) in items.iter().enumerate() {
        if nth > 0 {
            out.push(b',');
        }
        push(item, out);
    }
    out.push(b']');
}
