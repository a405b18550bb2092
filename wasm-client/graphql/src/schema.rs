//! Which types, fields and arguments are there? The tables behind the schema that
//! `ts/graphql/sdl.ts` describes; a test holds the two together.

use crate::part;

/// Outermost wrapper of a type: `!`.
pub(crate) const NON_NULL: u16 = 1;

/// The same: `[…]`.
pub(crate) const LIST: u16 = 2;

/// A type with what is around its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ty {
    /// Place in [`TYPES`].
    pub(crate) name: u8,
    /// Two bits a wrapper, the outermost lowest.
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

    /// Without the `!` around it, if there is one.
    pub(crate) const fn nullable(self) -> Self {
        if self.is_required() {
            self.inner()
        } else {
            self
        }
    }

    /// What the name stands for.
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

    /// As a document writes it.
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

#[derive(Debug)]
pub(crate) struct Type {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// Of an object.
    pub(crate) fields: &'static [Field],
    /// Of an enum.
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
    /// In JSON; empty when there is none.
    pub(crate) default: &'static str,
}

#[derive(Debug)]
pub(crate) struct DirectiveType {
    pub(crate) name: &'static str,
    pub(crate) arguments: &'static [Parameter],
    /// Places where documents may use it.
    pub(crate) locations: &'static [&'static str],
}

/// The type in this place of [`TYPES`].
pub(crate) fn named(at: u8) -> &'static Type {
    TYPES.get(usize::from(at)).unwrap_or(&NOTHING)
}

static NOTHING: Type = scalar("");

/// Place of a type among [`TYPES`].
pub(crate) fn find(name: &str) -> Option<u8> {
    for (at, ty) in TYPES.iter().enumerate() {
        if same(ty.name, name) {
            return Some(at as u8);
        }
    }
    None
}

/// Equal, told by the lengths most times.
fn same(one: &str, other: &str) -> bool {
    one.len() == other.len() && one == other
}

/// A field of an object, those that every object or the query has included.
pub(crate) fn field(of: u8, name: &str) -> Option<&'static Field> {
    let ty = named(of);
    for field in ty.fields {
        if same(field.name, name) {
            return Some(field);
        }
    }
    if ty.kind != Kind::Object || !name.starts_with("__") {
        return None;
    }
    let mut fields = META_FIELDS.iter();
    fields.find(|field| field.name == name && (of == id::QUERY || name == TYPENAME))
}

pub(crate) fn directive(name: &str) -> Option<&'static DirectiveType> {
    DIRECTIVES.iter().find(|directive| directive.name == name)
}

pub(crate) const TYPENAME: &str = "__typename";

/// Places of types that the code knows by name, then of the others: the order of [`TYPES`].
pub(crate) mod id {
    macro_rules! ids {
        ($($name:ident)*) => { ids!(@ 0; $($name)*); };
        (@ $at:expr; $name:ident $($rest:ident)*) => {
            pub(crate) const $name: u8 = $at;
            ids!(@ $at + 1; $($rest)*);
        };
        (@ $at:expr;) => {};
    }
    /// No type of the schema.
    pub(crate) const UNKNOWN: u8 = 255;
    ids! {
        QUERY MUTATION SUBSCRIPTION CHANNEL INT FLOAT STRING BOOLEAN ID DATE_TIME DOUBLE BIG_INT
        TYPED_ARRAY FLOAT64_ARRAY STRUCTURE VALUE TIME STATUS DISPLAY RANGE CONNECTION SKIPS BASE64_ARRAY
        TABLE TABLE_COLUMN ND_ARRAY ND_ATTRIBUTE NUMBER_TYPE ROLE WIDGET FORM SEVERITY STATE
        SCHEMA TYPE FIELD INPUT_VALUE ENUM_VALUE DIRECTIVE TYPE_KIND DIRECTIVE_LOCATION
    }
}

const fn ty(name: u8) -> Ty {
    Ty { name, wraps: 0 }
}

/// A type that is never null.
const fn some(name: u8) -> Ty {
    ty(name).required()
}

const STRINGS: Ty = some(id::STRING).list();

const fn leaf(name: &'static str, ty: Ty, mask: u32) -> Field {
    with(name, ty, &[], mask)
}

const fn with(name: &'static str, ty: Ty, arguments: &'static [Parameter], mask: u32) -> Field {
    Field {
        name,
        ty,
        arguments,
        mask: mask as u8,
    }
}

const fn parameter(name: &'static str, ty: Ty, default: &'static str) -> Parameter {
    Parameter { name, ty, default }
}

const fn object(name: &'static str, fields: &'static [Field]) -> Type {
    Type {
        name,
        kind: Kind::Object,
        fields,
        values: &[],
    }
}

const fn scalar(name: &'static str) -> Type {
    Type {
        name,
        kind: Kind::Scalar,
        fields: &[],
        values: &[],
    }
}

const fn enumeration(name: &'static str, values: &'static [&'static str]) -> Type {
    Type {
        name,
        kind: Kind::Enum,
        fields: &[],
        values,
    }
}

const TIMEOUT: Parameter = parameter("timeout", some(id::FLOAT), "5");
const LENGTH: &[Parameter] = &[parameter("length", some(id::INT), "0")];
const IDS: Parameter = parameter("ids", some(id::ID).list().required(), "");
const ONE: Parameter = parameter("id", some(id::ID), "");
const DEPRECATED: &[Parameter] = &[parameter("includeDeprecated", ty(id::BOOLEAN), "false")];

/// A value reads the metadata too: precision, labels, whether a number is an enum's index.
const VALUE: u32 = part::VALUE | part::METADATA;
const ACCESS: u32 = part::ACCESS | part::CONNECTION;
const ALARM: u32 = part::ALARM | part::CONNECTION;

static META_FIELDS: &[Field] = &[
    leaf(TYPENAME, some(id::STRING), 0),
    leaf("__schema", some(id::SCHEMA), 0),
    with(
        "__type",
        ty(id::TYPE),
        &[parameter("name", some(id::STRING), "")],
        0,
    ),
];

pub(crate) static DIRECTIVES: &[DirectiveType] = &[
    DirectiveType {
        name: "include",
        arguments: &[parameter("if", some(id::BOOLEAN), "")],
        locations: &["FIELD", "FRAGMENT_SPREAD", "INLINE_FRAGMENT"],
    },
    DirectiveType {
        name: "skip",
        arguments: &[parameter("if", some(id::BOOLEAN), "")],
        locations: &["FIELD", "FRAGMENT_SPREAD", "INLINE_FRAGMENT"],
    },
    // These three describe schemas: documents can use them nowhere.
    DirectiveType {
        name: "deprecated",
        arguments: &[parameter(
            "reason",
            ty(id::STRING),
            "\"No longer supported\"",
        )],
        locations: &[],
    },
    DirectiveType {
        name: "specifiedBy",
        arguments: &[parameter("url", some(id::STRING), "")],
        locations: &[],
    },
    DirectiveType {
        name: "oneOf",
        arguments: &[],
        locations: &[],
    },
];

pub(crate) static TYPES: &[Type] = &[
    object(
        "Query",
        &[
            with("getChannel", ty(id::CHANNEL), &[ONE, TIMEOUT], 0),
            with(
                "getChannels",
                ty(id::CHANNEL).list().required(),
                &[IDS, TIMEOUT],
                0,
            ),
        ],
    ),
    object(
        "Mutation",
        &[with(
            "putChannels",
            ty(id::CHANNEL).list().required(),
            &[
                IDS,
                parameter("values", STRINGS.required(), ""),
                TIMEOUT,
                parameter("wait", some(id::BOOLEAN), "false"),
            ],
            0,
        )],
    ),
    object(
        "Subscription",
        &[
            with("subscribeChannel", ty(id::CHANNEL), &[ONE], 0),
            with(
                "subscribeChannels",
                some(id::CHANNEL).list().required(),
                &[IDS],
                0,
            ),
        ],
    ),
    object(
        "Channel",
        &[
            leaf("id", ty(id::STRING), 0),
            leaf("value", ty(id::VALUE), part::VALUE),
            leaf("time", ty(id::TIME), part::TIME | part::VALUE),
            leaf("status", ty(id::STATUS), 0),
            leaf("display", ty(id::DISPLAY), part::METADATA),
            leaf("connection", ty(id::CONNECTION), 0),
            leaf("skipped", ty(id::FLOAT), part::SKIPPED),
            leaf("skips", ty(id::SKIPS), part::SKIPPED),
        ],
    ),
    scalar("Int"),
    scalar("Float"),
    scalar("String"),
    scalar("Boolean"),
    scalar("ID"),
    scalar("DateTime"),
    scalar("Double"),
    scalar("BigInt"),
    scalar("TypedArray"),
    scalar("Float64Array"),
    scalar("Structure"),
    object(
        "ChannelValue",
        &[
            leaf("float", ty(id::FLOAT), VALUE),
            with(
                "string",
                ty(id::STRING),
                &[parameter("units", some(id::BOOLEAN), "false")],
                VALUE,
            ),
            with("base64Array", ty(id::BASE64_ARRAY), LENGTH, VALUE),
            with("stringArray", STRINGS, LENGTH, VALUE),
            leaf("number", ty(id::DOUBLE), VALUE),
            leaf("text", ty(id::STRING), VALUE),
            leaf("exact", ty(id::STRING), VALUE),
            leaf("bigint", ty(id::BIG_INT), VALUE),
            leaf("array", ty(id::TYPED_ARRAY), VALUE),
            with("float64Array", ty(id::FLOAT64_ARRAY), LENGTH, VALUE),
            leaf("structure", ty(id::STRUCTURE), VALUE),
            leaf("structures", ty(id::STRUCTURE).list(), VALUE),
            leaf("table", ty(id::TABLE), VALUE),
            leaf("ndArray", ty(id::ND_ARRAY), VALUE),
        ],
    ),
    object(
        "ChannelTime",
        &[
            leaf("seconds", some(id::FLOAT), part::TIME),
            leaf("nanoseconds", some(id::INT), part::TIME),
            leaf("userTag", some(id::INT), part::TIME),
            leaf("datetime", some(id::DATE_TIME), part::TIME),
        ],
    ),
    object(
        "ChannelStatus",
        &[
            leaf("quality", some(id::STRING), ALARM),
            leaf("message", some(id::STRING), ALARM | part::METADATA),
            leaf("mutable", some(id::BOOLEAN), ACCESS),
            leaf("severity", ty(id::SEVERITY), part::ALARM),
            leaf("alarmStatus", ty(id::STRING), part::ALARM),
            leaf("writable", ty(id::BOOLEAN), ACCESS),
        ],
    ),
    object(
        "ChannelDisplay",
        &[
            leaf("description", some(id::STRING), part::METADATA),
            leaf("role", some(id::ROLE), ACCESS),
            leaf("widget", ty(id::WIDGET), ACCESS),
            leaf("controlRange", ty(id::RANGE), part::METADATA),
            leaf("displayRange", ty(id::RANGE), part::METADATA),
            leaf("alarmRange", ty(id::RANGE), part::METADATA),
            leaf("warningRange", ty(id::RANGE), part::METADATA),
            leaf("units", ty(id::STRING), part::METADATA),
            leaf("precision", ty(id::INT), part::METADATA),
            leaf("form", ty(id::FORM), part::METADATA),
            leaf("choices", STRINGS, part::METADATA),
            leaf("type", some(id::STRING), part::METADATA),
            leaf("elementCount", some(id::INT), part::METADATA),
            leaf("typeId", some(id::STRING), part::METADATA),
        ],
    ),
    object(
        "Range",
        &[
            leaf("min", ty(id::FLOAT), part::METADATA),
            leaf("max", ty(id::FLOAT), part::METADATA),
        ],
    ),
    object(
        "ChannelConnection",
        &[
            leaf("state", some(id::STATE), part::CONNECTION),
            leaf("connected", some(id::BOOLEAN), part::CONNECTION),
            leaf("since", ty(id::DATE_TIME), part::CONNECTION),
            leaf("lastHeard", ty(id::DATE_TIME), part::CONNECTION),
            leaf("unresponsive", some(id::BOOLEAN), part::CONNECTION),
            leaf("readable", some(id::BOOLEAN), ACCESS),
            leaf("reason", ty(id::STRING), ACCESS | part::METADATA),
        ],
    ),
    object(
        "ChannelSkips",
        &[
            leaf("behind", some(id::FLOAT), part::SKIPPED),
            leaf("paced", some(id::FLOAT), part::SKIPPED),
            leaf("filter", some(id::FLOAT), part::SKIPPED),
            leaf("relay", some(id::FLOAT), part::SKIPPED),
            leaf("source", some(id::FLOAT), part::SKIPPED),
        ],
    ),
    object(
        "Base64Array",
        &[
            leaf("numberType", some(id::NUMBER_TYPE), 0),
            leaf("base64", some(id::STRING), 0),
        ],
    ),
    object(
        "Table",
        &[
            leaf("labels", STRINGS.required(), 0),
            leaf("columns", some(id::TABLE_COLUMN).list().required(), 0),
        ],
    ),
    object(
        "TableColumn",
        &[
            leaf("name", some(id::STRING), 0),
            leaf("label", some(id::STRING), 0),
            leaf("array", ty(id::TYPED_ARRAY), 0),
            with("stringArray", STRINGS, LENGTH, 0),
            with("base64Array", ty(id::BASE64_ARRAY), LENGTH, 0),
        ],
    ),
    object(
        "NDArray",
        &[
            leaf("uniqueId", ty(id::INT), 0),
            leaf("dimensions", some(id::INT).list().required(), 0),
            leaf("codec", some(id::STRING), 0),
            leaf("numberType", ty(id::NUMBER_TYPE), 0),
            leaf("array", ty(id::TYPED_ARRAY), 0),
            with("base64Array", ty(id::BASE64_ARRAY), LENGTH, 0),
            leaf("attributes", some(id::ND_ATTRIBUTE).list().required(), 0),
        ],
    ),
    object(
        "NDAttribute",
        &[
            leaf("name", some(id::STRING), 0),
            leaf("value", ty(id::STRING), 0),
            leaf("description", some(id::STRING), 0),
        ],
    ),
    enumeration(
        "NumberType",
        &[
            "INT8", "UINT8", "INT16", "UINT16", "INT32", "UINT32", "INT64", "UINT64", "FLOAT32",
            "FLOAT64",
        ],
    ),
    enumeration("ChannelRole", &["RO", "WO", "RW"]),
    enumeration(
        "Widget",
        &[
            "TEXTINPUT",
            "TEXTUPDATE",
            "MULTILINETEXTUPDATE",
            "LED",
            "COMBO",
            "CHECKBOX",
            "BAR",
            "BUTTON",
            "PLOTX",
            "PLOTY",
        ],
    ),
    enumeration(
        "DisplayForm",
        &[
            "DEFAULT",
            "STRING",
            "BINARY",
            "DECIMAL",
            "HEX",
            "EXPONENTIAL",
            "ENGINEERING",
        ],
    ),
    enumeration("AlarmSeverity", &["NO_ALARM", "MINOR", "MAJOR", "INVALID"]),
    enumeration(
        "ConnectionState",
        &[
            "connecting",
            "notFound",
            "connected",
            "disconnected",
            "relayLost",
            "refused",
        ],
    ),
    object(
        "__Schema",
        &[
            leaf("description", ty(id::STRING), 0),
            leaf("types", some(id::TYPE).list().required(), 0),
            leaf("queryType", some(id::TYPE), 0),
            leaf("mutationType", ty(id::TYPE), 0),
            leaf("subscriptionType", ty(id::TYPE), 0),
            with(
                "directives",
                some(id::DIRECTIVE).list().required(),
                &[parameter("includeDeprecated", some(id::BOOLEAN), "false")],
                0,
            ),
        ],
    ),
    object(
        "__Type",
        &[
            leaf("kind", some(id::TYPE_KIND), 0),
            leaf("name", ty(id::STRING), 0),
            leaf("description", ty(id::STRING), 0),
            leaf("specifiedByURL", ty(id::STRING), 0),
            with("fields", some(id::FIELD).list(), DEPRECATED, 0),
            leaf("interfaces", some(id::TYPE).list(), 0),
            leaf("possibleTypes", some(id::TYPE).list(), 0),
            with("enumValues", some(id::ENUM_VALUE).list(), DEPRECATED, 0),
            with("inputFields", some(id::INPUT_VALUE).list(), DEPRECATED, 0),
            leaf("ofType", ty(id::TYPE), 0),
            leaf("isOneOf", ty(id::BOOLEAN), 0),
        ],
    ),
    object(
        "__Field",
        &[
            leaf("name", some(id::STRING), 0),
            leaf("description", ty(id::STRING), 0),
            with(
                "args",
                some(id::INPUT_VALUE).list().required(),
                DEPRECATED,
                0,
            ),
            leaf("type", some(id::TYPE), 0),
            leaf("isDeprecated", some(id::BOOLEAN), 0),
            leaf("deprecationReason", ty(id::STRING), 0),
        ],
    ),
    object(
        "__InputValue",
        &[
            leaf("name", some(id::STRING), 0),
            leaf("description", ty(id::STRING), 0),
            leaf("type", some(id::TYPE), 0),
            leaf("defaultValue", ty(id::STRING), 0),
            leaf("isDeprecated", some(id::BOOLEAN), 0),
            leaf("deprecationReason", ty(id::STRING), 0),
        ],
    ),
    object(
        "__EnumValue",
        &[
            leaf("name", some(id::STRING), 0),
            leaf("description", ty(id::STRING), 0),
            leaf("isDeprecated", some(id::BOOLEAN), 0),
            leaf("deprecationReason", ty(id::STRING), 0),
        ],
    ),
    object(
        "__Directive",
        &[
            leaf("name", some(id::STRING), 0),
            leaf("description", ty(id::STRING), 0),
            leaf("isRepeatable", some(id::BOOLEAN), 0),
            leaf(
                "locations",
                some(id::DIRECTIVE_LOCATION).list().required(),
                0,
            ),
            with(
                "args",
                some(id::INPUT_VALUE).list().required(),
                DEPRECATED,
                0,
            ),
            leaf("isDeprecated", some(id::BOOLEAN), 0),
            leaf("deprecationReason", ty(id::STRING), 0),
        ],
    ),
    enumeration(
        "__TypeKind",
        &[
            "SCALAR",
            "OBJECT",
            "INTERFACE",
            "UNION",
            "ENUM",
            "INPUT_OBJECT",
            "LIST",
            "NON_NULL",
        ],
    ),
    enumeration(
        "__DirectiveLocation",
        &[
            "QUERY",
            "MUTATION",
            "SUBSCRIPTION",
            "FIELD",
            "FRAGMENT_DEFINITION",
            "FRAGMENT_SPREAD",
            "INLINE_FRAGMENT",
            "VARIABLE_DEFINITION",
            "SCHEMA",
            "SCALAR",
            "OBJECT",
            "FIELD_DEFINITION",
            "ARGUMENT_DEFINITION",
            "INTERFACE",
            "UNION",
            "ENUM",
            "ENUM_VALUE",
            "INPUT_OBJECT",
            "INPUT_FIELD_DEFINITION",
            "DIRECTIVE_DEFINITION",
        ],
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// The tables in the schema's own notation, without descriptions, one definition after the other.
    fn printed() -> String {
        let mut text =
            String::from("schema{query:Query mutation:Mutation subscription:Subscription}");
        let built_in = ["Int", "Float", "String", "Boolean", "ID"];
        let ours = |ty: &&Type| !ty.name.starts_with("__") && !built_in.contains(&ty.name);
        for ty in TYPES.iter().filter(ours) {
            match ty.kind {
                Kind::Scalar => text += &format!("scalar {} ", ty.name),
                Kind::Enum => text += &format!("enum {}{{{}}}", ty.name, ty.values.join(" ")),
                Kind::Object => {
                    let fields: Vec<_> = ty.fields.iter().map(print_field).collect();
                    text += &format!("type {}{{{}}}", ty.name, fields.join(" "));
                }
            }
        }
        text
    }

    fn print_field(field: &Field) -> String {
        let arguments: Vec<_> = field
            .arguments
            .iter()
            .map(|argument| {
                let default = match argument.default {
                    "" => String::new(),
                    default => format!("={default}"),
                };
                format!("{}:{}{default}", argument.name, argument.ty.to_text())
            })
            .collect();
        let arguments = match arguments.len() {
            0 => String::new(),
            _ => format!("({})", arguments.join(" ")),
        };
        format!("{}{arguments}:{}", field.name, field.ty.to_text())
    }

    /// Names and punctuation marks, without descriptions.
    fn tokens(sdl: &str) -> Vec<String> {
        let without: String = sdl.split("\"\"\"").step_by(2).collect();
        let mut tokens: Vec<String> = Vec::new();
        let mut in_word = false;
        for c in without.chars() {
            let word = c.is_alphanumeric() || c == '_';
            match tokens.last_mut() {
                Some(last) if word && in_word => last.push(c),
                _ if c.is_whitespace() || c == ',' => {}
                _ => tokens.push(c.to_string()),
            }
            in_word = word;
        }
        tokens
    }

    #[test]
    fn tables_say_the_same_as_the_schema_that_applications_see() {
        let file = include_str!("../../ts/graphql/sdl.ts");
        let escaped = file.replace("\\`", "'");
        let sdl = escaped
            .split('`')
            .nth(1)
            .expect("the schema between backticks");
        let (ours, theirs) = (tokens(&printed()), tokens(sdl));
        for (at, (our, their)) in ours.iter().zip(&theirs).enumerate() {
            assert_eq!(our, their, "after {:?}", &theirs[at.saturating_sub(6)..at]);
        }
        assert_eq!(ours.len(), theirs.len());
    }

    #[test]
    fn types_that_the_code_knows_stand_in_their_places() {
        for (at, name) in [
            (id::QUERY, "Query"),
            (id::CHANNEL, "Channel"),
            (id::ID, "ID"),
            (id::STRUCTURE, "Structure"),
            (id::ND_ATTRIBUTE, "NDAttribute"),
            (id::STATE, "ConnectionState"),
            (id::SCHEMA, "__Schema"),
            (id::DIRECTIVE_LOCATION, "__DirectiveLocation"),
        ] {
            assert_eq!(named(at).name, name);
            assert_eq!(find(name), Some(at));
        }
        assert_eq!(TYPES.len(), usize::from(id::DIRECTIVE_LOCATION) + 1);
    }
}
