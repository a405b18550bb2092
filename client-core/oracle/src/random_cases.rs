//! Generates random selections and cases.

use std::fmt::Write as _;

use serde_json::{Value as Json, json};

use crate::random_states::{Words, parts};
use crate::state::fields_of;

const OBJECTS: [(&str, &[&str]); 8] = [
    ("Channel", &["id", "skipped"]),
    (
        "value",
        &[
            "float",
            "string",
            "number",
            "text",
            "exact",
            "bigint",
            "array",
            "structure",
            "structures",
        ],
    ),
    ("time", &["seconds", "nanoseconds", "userTag", "datetime"]),
    (
        "status",
        &[
            "quality",
            "message",
            "mutable",
            "severity",
            "alarmStatus",
            "writable",
        ],
    ),
    (
        "display",
        &[
            "description",
            "units",
            "precision",
            "form",
            "choices",
            "type",
            "elementCount",
            "typeId",
        ],
    ),
    (
        "connection",
        &[
            "state",
            "connected",
            "since",
            "lastHeard",
            "unresponsive",
            "readable",
            "reason",
        ],
    ),
    ("skips", &["behind", "paced", "filter", "relay", "source"]),
    ("Range", &["min", "max"]),
];

/// Writes a selection set. A key belongs to one field with its arguments, so that no two conflict.
struct Selector<'a> {
    words: &'a mut Words,
    is_graphql: bool,
    fragments: String,
    fragment_count: usize,
}

impl Selector<'_> {
    fn set(&mut self, object: &str, type_name: &str, depth: usize) -> String {
        let leaves = OBJECTS
            .iter()
            .find(|(name, _)| *name == object)
            .expect("an object")
            .1;
        let mut text = "{ ".to_owned();
        for _ in 0..1 + self.words.below(4) {
            let condition = match self.words.below(12) {
                0 => " @skip(if: false)",
                1 => " @include(if: true)",
                2 => " @include(if: false)",
                _ => "",
            };
            let field = match (object, self.words.below(5)) {
                ("Channel", 1..) => {
                    let name = self.words.one(&[
                        "value",
                        "value",
                        "time",
                        "status",
                        "display",
                        "connection",
                        "skips",
                    ]);
                    self.object(name, name)
                }
                ("display", 0) => {
                    let name = self.words.one(&[
                        "controlRange",
                        "displayRange",
                        "alarmRange",
                        "warningRange",
                    ]);
                    self.object(name, "Range")
                }
                (_, 1) if depth > 0 => {
                    let inner = self.set(object, type_name, depth - 1);
                    if self.is_graphql && self.words.is(2) {
                        let name = format!("f{}", self.fragment_count);
                        self.fragment_count += 1;
                        let _ = write!(self.fragments, " fragment {name} on {type_name} {inner}");
                        format!("...{name}")
                    } else {
                        let _ = write!(text, "... on {type_name}{condition} {inner} ");
                        continue;
                    }
                }
                (_, 2) if self.words.is(4) => self.keyed("__typename", "", ""),
                ("value", 2) => {
                    let arguments = self.words.one(&["(units: true)", "(units: false)"]);
                    self.keyed("string", arguments, "")
                }
                ("value", 3) if self.is_graphql => self.apart(),
                ("display", 3) if self.is_graphql => {
                    let name = self.words.one(&["role", "widget"]);
                    self.keyed(name, "", "")
                }
                _ => {
                    let name = leaves[self.words.below(leaves.len())];
                    self.keyed(name, "", "")
                }
            };
            // A directive stands before the selection of an object.
            let _ = match field.split_once(" {") {
                Some((head, inner)) => write!(text, "{head}{condition} {{{inner} "),
                None => write!(text, "{field}{condition} "),
            };
        }
        text + "}"
    }

    fn object(&mut self, name: &str, object: &str) -> String {
        let type_name = match object {
            "value" => "ChannelValue",
            "time" => "ChannelTime",
            "status" => "ChannelStatus",
            "display" => "ChannelDisplay",
            "connection" => "ChannelConnection",
            "skips" => "ChannelSkips",
            other => other,
        };
        let inner = self.set(object, type_name, 1);
        self.keyed(name, "", &format!(" {inner}"))
    }

    /// A field with an alias that its name and arguments determine, or none.
    fn keyed(&mut self, name: &str, arguments: &str, inner: &str) -> String {
        let alias: String = arguments
            .chars()
            .filter(char::is_ascii_alphanumeric)
            .collect();
        match self.words.below(3) {
            0 if arguments.is_empty() => format!("{name}{inner}"),
            1 => format!("b_{name}_{alias}: {name}{arguments}{inner}"),
            _ => format!("a_{name}_{alias}: {name}{arguments}{inner}"),
        }
    }

    /// A field that only GraphQL has.
    fn apart(&mut self) -> String {
        let length = self
            .words
            .one(&["", "(length: 0)", "(length: 2)", "(length: 99)"]);
        match self.words.below(5) {
            0 => self.keyed("stringArray", length, ""),
            1 => self.keyed("float64Array", length, ""),
            2 => self.keyed("base64Array", length, " { numberType base64 }"),
            3 => {
                let inner = " { labels columns { name label array __typename stringArray(length: 1) base64Array { base64 } } }";
                self.keyed("table", "", inner)
            }
            _ => {
                let inner = " { uniqueId dimensions codec numberType array base64Array(length: 3) { numberType base64 } attributes { name value description } }";
                self.keyed("ndArray", "", inner)
            }
        }
    }
}

/// Makes some structures partial that follow a whole one.
fn make_partial(words: &mut Words, events: &mut [Json]) {
    let mut is_structure = false;
    for event in events {
        // New metadata may remove the value.
        is_structure &= event.get("metadata").is_none();
        let Some(value) = event.get_mut("value") else {
            continue;
        };
        let has_fields = fields_of(value).is_some();
        if is_structure && has_fields && words.is(2) {
            value["partial"] = true.into();
        }
        is_structure = has_fields;
    }
}

/// The events of a PV: its state before a client subscribes, and changes.
pub fn history(words: &mut Words) -> Vec<Json> {
    let mut events = vec![parts(words, true)];
    for _ in 0..words.below(4) {
        events.push(parts(words, false));
    }
    make_partial(words, &mut events);
    if words.is(10) {
        return vec![json!({ "refused": "no" })];
    }
    events
}

/// What happens to the connection to the relay, mostly nothing.
pub fn relay(words: &mut Words) -> Option<Json> {
    let heard_ms = 1_753_000_000_500_u64;
    match words.below(8) {
        6 => Some(json!({ "heardMs": heard_ms, "lostMs": heard_ms + 1250 })),
        7 => Some(json!({ "silentSinceMs": heard_ms })),
        _ => None,
    }
}

/// A `selection`, or a `document` that subscribes to the PV `PV`.
pub fn selected(words: &mut Words, is_graphql: bool) -> Json {
    let mut selector = Selector {
        words,
        is_graphql,
        fragments: String::new(),
        fragment_count: 0,
    };
    let set = selector.set("Channel", "Channel", 2);
    if !is_graphql {
        return json!({ "selection": set });
    }
    let fragments = selector.fragments;
    json!({ "document": format!("subscription {{ subscribeChannel(id: \"PV\") {set} }}{fragments}") })
}

/// A case in the notation of the vectors, without results.
pub fn case(words: Vec<u32>) -> Json {
    let mut words = Words::new(words);
    let is_graphql = words.is(2);
    let user = words.is(4) && !is_graphql;
    let mut events: Vec<Json> = (history(&mut words).into_iter())
        .map(|parts| json!({ "PV": parts }))
        .collect();
    events.extend(relay(&mut words).map(|event| json!({ "$relay": event })));
    let mut case = selected(&mut words, is_graphql);
    case["name"] = "random".into();
    if user {
        case["user"] = "jane".into();
    }
    case["steps"] = (events.into_iter())
        .map(|event| json!({ "event": event }))
        .collect();
    case
}
