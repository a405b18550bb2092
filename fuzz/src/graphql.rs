//! GraphQL documents and selections, read and compiled.

use pvwire_core::select::{self, Documents};

pub(crate) const SEEDS: &[&str] = &[
    "{ value { float string(units: true) } status { severity } time { datetime } }",
    "query Screen($pv: ID! = \"X\", $units: Boolean = true, $skip: Boolean! = false) {\n  a: \
     getChannel(id: $pv) { ...channel @skip(if: $skip) }\n  b: getChannel(id: \"\"\"Y\"\"\", \
     timeout: 0.5) { id value { s: string(units: $units) } }\n}\nfragment channel on Channel { id \
     status { ...status } ... @include(if: true) { time { seconds } } }\nfragment status on \
     ChannelStatus { quality __typename }\0Screen\0{\"pv\":\"Z\",\"units\":false}",
    "mutation Put($values: [String!]!) { putChannels(ids: [\"A\", 5], values: $values) { id } \
     }\0Put\0{\"values\":[\"1\",\"\\u0041\"]}",
    "subscription { subscribeChannel(id: \"ca://TEMP\") { value { float } display { controlRange { \
     min max } choices } } }",
    "query { __schema { types { name fields { name type { kind ofType { name } } } } } }",
];

pub(crate) const WORDS: &[&str] = &[
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    ":",
    "!",
    "$",
    "@",
    "...",
    "=",
    "|",
    "&",
    "#",
    "\"",
    "\"\"\"",
    "\\",
    "\\u",
    "\\u{",
    "\\uD800",
    "-",
    "0",
    "1e",
    "1e309",
    ".5",
    "null",
    "true",
    "query",
    "mutation",
    "subscription",
    "fragment",
    "on",
    "a",
    "a:",
    "__typename",
    "@skip(if: ",
    "...a",
    "\0",
    "{\"a\":",
    "é",
    "\u{feff}",
    "\r\n",
    "\u{10ffff}",
];

/// A selection, or a document with the name of an operation and variables behind zero bytes.
pub(crate) fn run(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let mut parts = text.splitn(3, '\0');
    let (document, operation) = (parts.next().unwrap_or_default(), parts.next());
    let variables = parts.next().unwrap_or_default();
    let first = Documents::new().plan(document, operation, variables);
    let mut documents = Documents::new();
    let kept = [(); 2].map(|()| documents.plan(document, operation, variables));
    assert_eq!(kept, [first.clone(), first], "a kept document is another");
    let _ = select::selection(document);
}
