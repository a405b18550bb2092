//! The types and fields of Coniql 0.4.2. Each type has the index of its namesake in the other
//! tables; types that Coniql lacks have no name.

use super::types::{
    ACCESS, ALARM, IDS, LENGTH, ONE, STRINGS, TIMEOUT, UNITS, VALUE, VALUES, leaf, object, scalar,
    some, ty, with,
};
use super::{Type, id};
use crate::store::part;

const NONE: Type = scalar("");

const QUERY: Type = object(
    "Query",
    &[with("getChannel", some(id::CHANNEL), &[ONE, TIMEOUT], 0)],
);

const MUTATION: Type = object(
    "Mutation",
    &[with(
        "putChannels",
        some(id::CHANNEL).list().required(),
        &[IDS, VALUES, TIMEOUT],
        0,
    )],
);

const SUBSCRIPTION: Type = object(
    "Subscription",
    &[with("subscribeChannel", ty(id::CHANNEL), &[ONE], 0)],
);

const CHANNEL: Type = object(
    "Channel",
    &[
        leaf("id", ty(id::STRING), 0),
        leaf("value", ty(id::VALUE), part::VALUE),
        leaf("time", ty(id::TIME), part::TIME | part::VALUE),
        leaf("status", ty(id::STATUS), 0),
        leaf("display", ty(id::DISPLAY), part::METADATA),
    ],
);

const CHANNEL_VALUE: Type = object(
    "ChannelValue",
    &[
        leaf("float", ty(id::FLOAT), VALUE),
        with("string", ty(id::STRING), UNITS, VALUE),
        with("base64Array", ty(id::BASE64_ARRAY), LENGTH, VALUE),
        with("stringArray", STRINGS, LENGTH, VALUE),
    ],
);

const TIME: Type = object(
    "ChannelTime",
    &[
        leaf("seconds", some(id::FLOAT), part::TIME),
        leaf("nanoseconds", some(id::INT), part::TIME),
        leaf("userTag", some(id::INT), part::TIME),
        leaf("datetime", some(id::DATE_TIME), part::TIME),
    ],
);

const STATUS: Type = object(
    "ChannelStatus",
    &[
        leaf("quality", some(id::STRING), ALARM),
        leaf("message", some(id::STRING), ALARM),
        leaf("mutable", some(id::BOOLEAN), ACCESS),
    ],
);

const DISPLAY: Type = object(
    "ChannelDisplay",
    &[
        leaf("description", some(id::STRING), part::METADATA),
        leaf("role", some(id::ROLE), 0),
        leaf("widget", ty(id::WIDGET), part::VALUE),
        leaf("controlRange", ty(id::RANGE), part::METADATA),
        leaf("displayRange", ty(id::RANGE), part::METADATA),
        leaf("alarmRange", ty(id::RANGE), part::METADATA),
        leaf("warningRange", ty(id::RANGE), part::METADATA),
        leaf("units", ty(id::STRING), part::METADATA),
        leaf("precision", ty(id::INT), part::METADATA),
        leaf("form", ty(id::FORM), part::METADATA),
        leaf("choices", STRINGS, part::METADATA),
    ],
);

const RANGE: Type = object(
    "Range",
    &[
        leaf("min", some(id::FLOAT), part::METADATA),
        leaf("max", some(id::FLOAT), part::METADATA),
    ],
);

/// The types of Coniql, by the indexes of [`super::TYPES`].
pub(crate) static TYPES: &[Type] = &{
    let mut types = [const { NONE }; id::DIRECTIVE_LOCATION as usize + 1];
    let mut at = 0;
    // The other types are the same.
    while at < types.len() {
        types[at] = match at as u8 {
            id::QUERY => QUERY,
            id::MUTATION => MUTATION,
            id::SUBSCRIPTION => SUBSCRIPTION,
            id::CHANNEL => CHANNEL,
            id::VALUE => CHANNEL_VALUE,
            id::TIME => TIME,
            id::STATUS => STATUS,
            id::DISPLAY => DISPLAY,
            id::RANGE => RANGE,
            id::DOUBLE
            | id::BIG_INT
            | id::TYPED_ARRAY
            | id::FLOAT64_ARRAY
            | id::STRUCTURE
            | id::CONNECTION
            | id::SKIPS
            | id::TABLE
            | id::TABLE_COLUMN
            | id::ND_ARRAY
            | id::ND_ATTRIBUTE
            | id::SEVERITY
            | id::STATE
            | id::HISTORY => NONE,
            _ => super::TYPES[at],
        };
        at += 1;
    }
    types
};
