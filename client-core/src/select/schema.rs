//! The types, fields and arguments of the schema that `graphql/sdl/pvwire.graphql` describes. A test checks
//! that both agree.

#[cfg(feature = "graphql")]
mod coniql;
#[cfg(test)]
mod tests;
mod types;

pub(crate) use self::types::{ACCESS, ALARM, DIRECTIVES, TYPES, VALUE};
use self::types::{META_FIELDS, scalar};

/// Outermost wrapper of a type: `!`.
pub(crate) const NON_NULL: u16 = 1;

/// Outermost wrapper of a type: `[…]`.
pub(crate) const LIST: u16 = 2;

/// A named type with its wrappers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ty {
    /// Index in [`TYPES`].
    pub(crate) name: u8,
    /// Two bits per wrapper, the outermost lowest.
    pub(crate) wraps: u16,
}

impl Ty {
    const fn required(self) -> Self {
        Self {
            wraps: self.wraps << 2 | NON_NULL,
            ..self
        }
    }

    const fn list(self) -> Self {
        Self {
            wraps: self.wraps << 2 | LIST,
            ..self
        }
    }

    pub(crate) const fn is_required(self) -> bool {
        self.wraps & 3 == NON_NULL
    }

    pub(crate) const fn is_list(self) -> bool {
        self.wraps & 3 == LIST
    }

    /// Without its outermost wrapper.
    pub(crate) const fn inner(self) -> Self {
        Self {
            wraps: self.wraps >> 2,
            ..self
        }
    }

    /// Without an outermost `!`.
    pub(crate) const fn nullable(self) -> Self {
        if self.is_required() {
            self.inner()
        } else {
            self
        }
    }

    /// The named type.
    pub(crate) fn named(self) -> &'static Type {
        named(self.name)
    }

    fn push(self, to: &mut String) {
        let inner = self.inner();
        let (open, close) = match self.wraps & 3 {
            NON_NULL => ("", "!"),
            LIST => ("[", "]"),
            _ => {
                to.push_str(self.named().name);
                return;
            }
        };
        to.push_str(open);
        inner.push(to);
        to.push_str(close);
    }

    /// In the notation of a document.
    pub(crate) fn to_text(self) -> String {
        let mut text = String::new();
        self.push(&mut text);
        text
    }

    pub(crate) fn is_object(self) -> bool {
        self.named().kind == Kind::Object
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Scalar,
    Enum,
    Object,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Type {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// Fields of an object.
    pub(crate) fields: &'static [Field],
    /// Values of an enum.
    pub(crate) values: &'static [&'static str],
}

#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) ty: Ty,
    pub(crate) arguments: &'static [Parameter],
    /// Parts of a PV that it reads.
    pub(crate) mask: u8,
}

/// An argument that a field or a directive takes.
#[derive(Debug)]
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    pub(crate) ty: Ty,
    /// Default value in JSON; empty if there is no default.
    pub(crate) default: &'static str,
}

#[derive(Debug)]
pub(crate) struct DirectiveType {
    pub(crate) name: &'static str,
    pub(crate) arguments: &'static [Parameter],
    /// Locations where documents may use it.
    pub(crate) locations: &'static [&'static str],
}

/// The type at this index of [`TYPES`].
pub(crate) fn named(at: u8) -> &'static Type {
    TYPES.get(usize::from(at)).unwrap_or(&NOTHING)
}

static NOTHING: Type = scalar("");

/// The schema that a document is read for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Schema {
    /// That of `graphql/sdl/pvwire.graphql`.
    #[default]
    Pvwire,
    /// Coniql's. Its types have the same indexes; those that it lacks have no name.
    #[cfg(feature = "graphql")]
    Coniql,
}

impl Schema {
    pub(crate) fn types(self) -> &'static [Type] {
        match self {
            Self::Pvwire => TYPES,
            #[cfg(feature = "graphql")]
            Self::Coniql => coniql::TYPES,
        }
    }

    /// Index of a type in [`TYPES`].
    pub(crate) fn find(self, name: &str) -> Option<u8> {
        for (at, ty) in self.types().iter().enumerate() {
            if same(ty.name, name) {
                return Some(at as u8);
            }
        }
        None
    }

    /// The fields of an object, without those that every object has.
    pub(crate) fn fields(self, of: u8) -> &'static [Field] {
        let ty = self.types().get(usize::from(of));
        ty.map_or(&[], |ty| ty.fields)
    }

    /// A field of an object, including those that every object or the query has.
    pub(crate) fn field(self, of: u8, name: &str) -> Option<&'static Field> {
        for field in self.fields(of) {
            if same(field.name, name) {
                return Some(field);
            }
        }
        if named(of).kind != Kind::Object || !name.starts_with("__") {
            return None;
        }
        let mut fields = META_FIELDS.iter();
        fields.find(|field| field.name == name && (of == id::QUERY || name == TYPENAME))
    }
}

/// Compares two names; their lengths usually suffice.
fn same(one: &str, other: &str) -> bool {
    one.len() == other.len() && one == other
}

pub(crate) fn directive(name: &str) -> Option<&'static DirectiveType> {
    DIRECTIVES.iter().find(|directive| directive.name == name)
}

pub(crate) const TYPENAME: &str = "__typename";

/// Indexes of the types that the code knows by name, then of the others, in the order of [`TYPES`].
pub(crate) mod id {
    macro_rules! ids {
        ($($name:ident)*) => { ids!(@ 0; $($name)*); };
        (@ $at:expr; $name:ident $($rest:ident)*) => {
            pub(crate) const $name: u8 = $at;
            ids!(@ $at + 1; $($rest)*);
        };
        (@ $at:expr;) => {};
    }
    /// Not a type of the schema.
    pub(crate) const UNKNOWN: u8 = 255;
    ids! {
        QUERY MUTATION SUBSCRIPTION CHANNEL INT FLOAT STRING BOOLEAN ID DATE_TIME DOUBLE BIG_INT
        TYPED_ARRAY FLOAT64_ARRAY STRUCTURE VALUE TIME STATUS DISPLAY RANGE CONNECTION SKIPS BASE64_ARRAY
        TABLE TABLE_COLUMN ND_ARRAY ND_ATTRIBUTE NUMBER_TYPE ROLE WIDGET FORM SEVERITY STATE
        HISTORY SCHEMA TYPE FIELD INPUT_VALUE ENUM_VALUE DIRECTIVE TYPE_KIND DIRECTIVE_LOCATION
    }
}
