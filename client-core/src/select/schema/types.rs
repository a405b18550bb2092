//! The types, fields, arguments and directives of the schema.

use super::{DirectiveType, Field, Kind, Parameter, TYPENAME, Ty, Type, id};
use crate::store::part;

pub(super) const fn ty(name: u8) -> Ty {
    Ty { name, wraps: 0 }
}

/// A type that is never null.
pub(super) const fn some(name: u8) -> Ty {
    ty(name).required()
}

pub(super) const STRINGS: Ty = some(id::STRING).list();

pub(super) const fn leaf(name: &'static str, ty: Ty, mask: u32) -> Field {
    with(name, ty, &[], mask)
}

pub(super) const fn with(
    name: &'static str,
    ty: Ty,
    arguments: &'static [Parameter],
    mask: u32,
) -> Field {
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

pub(super) const fn object(name: &'static str, fields: &'static [Field]) -> Type {
    Type {
        name,
        kind: Kind::Object,
        fields,
        values: &[],
    }
}

pub(super) const fn scalar(name: &'static str) -> Type {
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

pub(super) const TIMEOUT: Parameter = parameter("timeout", some(id::FLOAT), "5");
pub(super) const VALUES: Parameter = parameter("values", STRINGS.required(), "");
pub(super) const UNITS: &[Parameter] = &[parameter("units", some(id::BOOLEAN), "false")];
pub(super) const LENGTH: &[Parameter] = &[parameter("length", some(id::INT), "0")];
pub(super) const IDS: Parameter = parameter("ids", some(id::ID).list().required(), "");
pub(super) const ONE: Parameter = parameter("id", some(id::ID), "");
const DEPRECATED: &[Parameter] = &[parameter("includeDeprecated", ty(id::BOOLEAN), "false")];

/// A value depends on the metadata too: precision, labels, and whether a number is the index of an
/// enum.
pub(crate) const VALUE: u32 = part::VALUE | part::METADATA;
pub(crate) const ACCESS: u32 = part::ACCESS | part::CONNECTION;
pub(crate) const ALARM: u32 = part::ALARM | part::CONNECTION;

pub(super) static META_FIELDS: &[Field] = &[
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
    // These three apply to schema definitions: documents can't use them anywhere.
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
            with(
                "history",
                ty(id::HISTORY),
                &[
                    ONE,
                    parameter("from", ty(id::STRING), ""),
                    parameter("to", ty(id::STRING), ""),
                    parameter("points", ty(id::INT), ""),
                ],
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
                VALUES,
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
            with("string", ty(id::STRING), UNITS, VALUE),
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
            leaf("seconds", ty(id::FLOAT), part::TIME),
            leaf("nanoseconds", ty(id::INT), part::TIME),
            leaf("userTag", ty(id::INT), part::TIME),
            leaf("datetime", ty(id::DATE_TIME), part::TIME),
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
            leaf("description", ty(id::STRING), part::METADATA),
            leaf("role", ty(id::ROLE), ACCESS),
            leaf("widget", ty(id::WIDGET), ACCESS),
            leaf("controlRange", ty(id::RANGE), part::METADATA),
            leaf("displayRange", ty(id::RANGE), part::METADATA),
            leaf("alarmRange", ty(id::RANGE), part::METADATA),
            leaf("warningRange", ty(id::RANGE), part::METADATA),
            leaf("units", ty(id::STRING), part::METADATA),
            leaf("precision", ty(id::INT), part::METADATA),
            leaf("form", ty(id::FORM), part::METADATA),
            leaf("choices", STRINGS, part::METADATA),
            leaf("type", ty(id::STRING), part::METADATA),
            leaf("elementCount", ty(id::INT), part::METADATA),
            leaf("typeId", ty(id::STRING), part::METADATA),
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
            leaf("bus", some(id::FLOAT), part::SKIPPED),
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
    scalar("History"),
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
