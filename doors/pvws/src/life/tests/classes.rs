//! A PV that changes its class while clients watch it: each client ends with what a new one shows.
//!
//! The models do with the messages what cs-web-lib and ORNL's pvws.js with DBWR do, and a script that keeps each key.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use pvwire_core::format::fixed;
use serde_json::{Map, Value as Json, json};

use super::*;

/// A client that merges updates.
trait Client: Default {
    fn take(&mut self, message: &Map<String, Json>);

    /// What its user sees.
    fn shown(&self) -> String;
}

const ARRAYS: [&str; 5] = ["b64int", "b64dbl", "b64flt", "b64srt", "b64byt"];

fn decoded(message: &Map<String, Json>) -> Option<Vec<f64>> {
    let key = ARRAYS.into_iter().find(|key| message.contains_key(*key))?;
    let bytes = STANDARD.decode(message[key].as_str().unwrap()).unwrap();
    Some(match key {
        "b64int" => (bytes.as_chunks().0.iter())
            .map(|e| i32::from_le_bytes(*e).into())
            .collect(),
        "b64dbl" => (bytes.as_chunks().0.iter())
            .map(|e| f64::from_le_bytes(*e))
            .collect(),
        "b64srt" => (bytes.as_chunks().0.iter())
            .map(|e| i16::from_le_bytes(*e).into())
            .collect(),
        other => panic!("{other}"),
    })
}

fn list(elements: &[f64], digits: usize) -> String {
    let elements: Vec<_> = elements.iter().map(|e| fixed(*e, digits)).collect();
    elements.join(", ")
}

/// cs-web-lib: a text, a number, an array and metadata, of which it keeps each that a message doesn't have. Its
/// `Readback` shows one of them.
#[derive(Default)]
struct CsWebLib {
    text: Option<String>,
    number: Option<Json>,
    array: Option<Vec<f64>>,
    has_labels: bool,
    precision: Option<usize>,
    units: String,
}

impl CsWebLib {
    fn number(&self) -> f64 {
        match (&self.number, &self.text) {
            (Some(Json::Number(number)), _) => number.as_f64().unwrap(),
            (_, Some(text)) if text.trim().is_empty() => 0.0,
            (_, Some(text)) => text.parse().unwrap_or(f64::NAN),
            _ => f64::NAN,
        }
    }
}

impl Client for CsWebLib {
    fn take(&mut self, message: &Map<String, Json>) {
        let plain = |value: &Json| match value {
            Json::String(text) => text.clone(),
            other => other.to_string(),
        };
        let text = message.get("text").or_else(|| message.get("value"));
        self.text = text.map(plain).or_else(|| self.text.take());
        self.number = message.get("value").cloned().or_else(|| self.number.take());
        self.array = decoded(message).or_else(|| self.array.take());
        self.has_labels |= message.contains_key("labels");
        let precision = message.get("precision").and_then(Json::as_u64);
        self.precision = precision.map(|digits| digits as usize).or(self.precision);
        if let Some(units) = message.get("units").and_then(Json::as_str) {
            units.clone_into(&mut self.units);
        }
    }

    fn shown(&self) -> String {
        let text = self.text.clone().unwrap_or_default();
        let number = self.number();
        let shown = match (self.precision, &self.array) {
            _ if self.has_labels => text,
            (Some(digits), _) if !number.is_nan() => fixed(number, digits),
            (Some(digits), Some(array)) => list(array, digits),
            (None, Some(array)) if self.text.is_none() => list(array, 0),
            _ => text,
        };
        format!("{shown} {}", self.units)
    }
}

/// pvws.js: arrays become the value of their message, and DBWR shows the text if there is one.
#[derive(Default)]
struct Ornl(Map<String, Json>);

impl Client for Ornl {
    fn take(&mut self, message: &Map<String, Json>) {
        let mut message = message.clone();
        if let Some(array) = decoded(&message) {
            message.insert("value".to_owned(), json!(array));
            message.retain(|key, _| !ARRAYS.contains(&&**key));
        }
        self.0.extend(message);
    }

    fn shown(&self) -> String {
        let digits = self.0.get("precision").and_then(Json::as_u64).unwrap_or(0) as usize;
        let number = |number: &Json| fixed(number.as_f64().unwrap(), digits);
        match (self.0.get("text"), self.0.get("value")) {
            (Some(text), _) => text.as_str().unwrap().to_owned(),
            (None, Some(Json::Array(elements))) => {
                let elements: Vec<_> = elements.iter().map(number).collect();
                elements.join(", ")
            }
            (None, Some(Json::String(text))) => text.clone(),
            (None, value) => value.map(number).unwrap_or_default(),
        }
    }
}

/// A script that keeps each key: it takes a text, then elements, then a value.
#[derive(Default)]
struct Keys(Map<String, Json>);

impl Client for Keys {
    fn take(&mut self, message: &Map<String, Json>) {
        self.0.extend(message.clone());
    }

    fn shown(&self) -> String {
        let digits = self.0.get("precision").and_then(Json::as_u64).unwrap_or(0) as usize;
        let array = |key: &&str| self.0.get(*key).is_some_and(|elements| *elements != "");
        let arrays: Vec<_> = ARRAYS.into_iter().filter(array).collect();
        assert!(arrays.len() < 2, "{arrays:?}");
        if let Some(text) = self.0.get("text") {
            return text.as_str().unwrap().to_owned();
        }
        if let Some(key) = arrays.first() {
            let only = [((*key).to_owned(), self.0[*key].clone())];
            return list(&decoded(&Map::from_iter(only)).unwrap(), digits);
        }
        match self.0.get("value") {
            Some(Json::Number(number)) => fixed(number.as_f64().unwrap(), digits),
            value => value.map_or("", |value| value.as_str().unwrap()).to_owned(),
        }
    }
}

/// What a client has that isn't its text: compared as far as a new client has it.
#[derive(Debug, PartialEq)]
struct Facts {
    vtype: Option<Json>,
    severity: Option<Json>,
    number: Option<f64>,
    elements: Vec<f64>,
    labels: Vec<Json>,
    units: String,
}

/// All models, and what they have in common.
#[derive(Default)]
struct Clients {
    cs_web_lib: CsWebLib,
    ornl: Ornl,
    keys: Keys,
    elements: Vec<f64>,
}

impl Clients {
    fn take(&mut self, bytes: &[u8]) {
        for text in texts(bytes) {
            let Json::Object(message) = serde_json::from_str(&text).unwrap() else {
                panic!("{text}");
            };
            let arrays = ARRAYS.iter().filter(|key| message.contains_key(**key));
            let has_value = message.get("value").is_some_and(Json::is_number);
            assert!(arrays.count() == 0 || !has_value, "both in one: {text}");
            self.cs_web_lib.take(&message);
            self.ornl.take(&message);
            self.keys.take(&message);
            self.elements = decoded(&message).unwrap_or_else(|| std::mem::take(&mut self.elements));
        }
    }

    fn shown(&self) -> [String; 3] {
        [
            self.cs_web_lib.shown(),
            self.ornl.shown(),
            self.keys.shown(),
        ]
    }

    fn facts(&self) -> Facts {
        let of = |key: &str| self.keys.0.get(key).cloned();
        Facts {
            vtype: of("vtype"),
            severity: of("severity"),
            number: of("value").and_then(|value| value.as_f64()),
            elements: self.elements.clone(),
            labels: of("labels")
                .and_then(|labels| labels.as_array().cloned())
                .unwrap_or_default(),
            units: self.cs_web_lib.units.clone(),
        }
    }

    /// Fails unless these clients show what new ones do.
    fn are_like(&self, fresh: &Self, is_large: bool, what: &str) {
        let (mut mine, theirs) = (self.facts(), fresh.facts());
        if theirs.vtype.is_none() {
            (mine.vtype, mine.severity) = (None, None);
        }
        assert_eq!(mine, theirs, "{what}: {:?}", self.keys.0);
        let [shown, expected] = [self.shown(), fresh.shown()];
        for (shown, expected) in shown.iter().zip(expected) {
            // A large array has no text: its message is the same for all clients.
            let fits = *shown == expected || is_large && ["", " mm"].contains(&&**shown);
            assert!(fits, "{what}: {shown:.200} instead of {expected:.200}");
        }
    }
}

/// A value of one class.
struct Class {
    name: &'static str,
    metadata: Metadata,
    blob: Option<BlobValue>,
    number: f64,
    is_large: bool,
}

impl Class {
    fn value(&self) -> Value<'_> {
        (self.blob.as_ref()).map_or(Value::Number(self.number), Value::Blob)
    }

    fn state(&self) -> State<'_> {
        let mut state = state(&self.metadata, self.value());
        state.latest = state.latest.map(|latest| Sample {
            alarm: HIGH,
            ..latest
        });
        state
    }

    /// Like `state`, without a connection.
    fn lost(&self, is_taken: bool) -> State<'_> {
        State {
            is_connected: false,
            is_absent: true,
            latest: self.state().latest.filter(|_| !is_taken),
            ..self.state()
        }
    }

    /// What clients receive that have had nothing before.
    fn fresh(&self, dialect: Dialect) -> Clients {
        let mut clients = Clients::default();
        clients.take(&self.first(&mut Life::new("X", dialect, &self.state()), dialect));
        clients
    }

    fn is_shown_as_number(&self) -> bool {
        ["Float64", "Int"].iter().any(|kind| {
            let value_type = format!("{:?}", self.metadata.value_type);
            value_type.contains(kind)
        })
    }

    fn first(&self, life: &mut Life, dialect: Dialect) -> Vec<u8> {
        let mut out = Vec::new();
        life.newcomer(&mut out, &self.state(), self.is_large);
        self.large(&mut out, dialect);
        out
    }

    fn large(&self, out: &mut Vec<u8>, dialect: Dialect) {
        if self.is_large {
            out.extend(Life::large("X", dialect, &self.state()).unwrap());
        }
    }
}

fn classes() -> Vec<Class> {
    let class = |name, value_type, blob, number| Class {
        name,
        metadata: metadata(value_type),
        blob,
        number,
        is_large: false,
    };
    let doubles = |count: usize| {
        let elements = [1.5, -2.0, 0.125].into_iter().cycle().take(count);
        let bytes: Vec<_> = elements.flat_map(f64::to_le_bytes).collect();
        Some(array(ValueType::Float64, &bytes))
    };
    let text = |text: &str| Some(BlobValue::Text(text.to_owned()));
    let texts = Some(BlobValue::TextArray(["a", "b"].map(str::to_owned).to_vec()));
    vec![
        class("number", ValueType::Float64, None, 2.5),
        class("integer", ValueType::Int32, None, -7.0),
        class("no number", ValueType::Float64, None, f64::INFINITY),
        Class {
            metadata: labelled(),
            ..class("enum", ValueType::Enum, None, 0.0)
        },
        class("text", ValueType::String, text("hello"), 0.0),
        class("text like a number", ValueType::String, text("5"), 0.0),
        class("empty text", ValueType::String, text(""), 0.0),
        class("texts", ValueType::String, texts, 0.0),
        class("array", ValueType::Float64, doubles(3), 0.0),
        class("one element", ValueType::Float64, doubles(1), 0.0),
        class(
            "shorts",
            ValueType::Int16,
            Some(array(ValueType::Int16, &[1, 0, 255, 255])),
            0.0,
        ),
        Class {
            is_large: true,
            ..class("large array", ValueType::Float64, doubles(200), 0.0)
        },
        Class {
            is_large: true,
            ..class("large text", ValueType::String, text(&"a".repeat(500)), 0.0)
        },
    ]
}

/// Each class after each other one, twice: with what a client may keep of the first time.
fn each_pair(test: impl Fn(&Class, &Class, &str, Dialect)) {
    for dialect in [Dialect::Ca, Dialect::Pva] {
        for before in classes() {
            for after in classes() {
                let what = format!("{}, then {}", before.name, after.name);
                test(&before, &after, &what, dialect);
            }
        }
    }
}

#[test]
fn client_in_step_shows_the_new_class_and_nothing_of_the_old_one() {
    each_pair(|before, after, what, dialect| {
        for is_lost in [false, true] {
            let mut life = Life::new("X", dialect, &before.state());
            let mut clients = Clients::default();
            clients.take(&before.first(&mut life, dialect));
            for (class, other) in [(after, before), (before, after), (after, before)] {
                let mut out = Vec::new();
                if is_lost {
                    life.refresh(&mut out, &other.lost(false), false, false, false);
                }
                life.refresh(&mut out, &class.state(), is_lost, true, class.is_large);
                class.large(&mut out, dialect);
                clients.take(&out);
                let what = format!("{what}: {} ({dialect:?}, lost: {is_lost})", class.name);
                clients.are_like(&class.fresh(dialect), class.is_large, &what);
            }
        }
    });
}

#[test]
fn class_that_changes_with_an_update_alone_is_shown_too() {
    each_pair(|before, after, what, dialect| {
        if before.is_large || after.is_large {
            return;
        }
        let mut life = Life::new("X", dialect, &before.state());
        let mut clients = Clients::default();
        clients.take(&before.first(&mut life, dialect));
        for class in [after, before, after] {
            let mut out = Vec::new();
            let sample = class.state().latest.unwrap();
            life.row(&mut out, &class.metadata, &sample);
            life.row(&mut out, &class.metadata, &sample);
            clients.take(&out);
            clients.are_like(&class.fresh(dialect), false, what);
        }
    });
}

#[test]
fn late_client_shows_the_same_after_the_class_has_changed() {
    each_pair(|before, after, what, dialect| {
        let mut life = Life::new("X", dialect, &before.state());
        life.refresh(&mut Vec::new(), &after.state(), false, true, after.is_large);
        let mut late = Clients::default();
        late.take(&after.first(&mut life, dialect));
        late.are_like(&after.fresh(dialect), after.is_large, what);
        let mut out = Vec::new();
        if !after.is_large {
            let sample = after.state().latest.unwrap();
            life.row(&mut out, &after.metadata, &sample);
        }
        late.take(&out);
        late.are_like(&after.fresh(dialect), after.is_large, what);
    });
}

#[test]
fn client_that_was_behind_shows_the_class_that_it_comes_to() {
    each_pair(|before, after, what, dialect| {
        let between = ["number", "enum", "text", "array", "large array"];
        for between in classes()
            .iter()
            .filter(|class| between.contains(&class.name))
        {
            let mut life = Life::new("X", dialect, &before.state());
            let mut behind = Clients::default();
            behind.take(&before.first(&mut life, dialect));
            for class in [between, after] {
                let mut out = Vec::new();
                life.refresh(&mut out, &class.state(), false, true, class.is_large);
            }
            let mut out = Vec::new();
            life.catch_up(&mut out, &after.state(), true, after.is_large);
            after.large(&mut out, dialect);
            behind.take(&out);
            let what = format!("{what}, after {}", between.name);
            behind.are_like(&after.fresh(dialect), after.is_large, &what);
        }
    });
}

#[test]
fn value_that_is_gone_leaves_nothing_of_any_class() {
    each_pair(|before, after, what, dialect| {
        for (is_taken, is_behind) in [(false, false), (true, false), (false, true), (true, true)] {
            let mut life = Life::new("X", dialect, &before.state());
            let mut clients = Clients::default();
            clients.take(&before.first(&mut life, dialect));
            let mut out = Vec::new();
            life.refresh(&mut out, &after.state(), false, true, after.is_large);
            after.large(&mut out, dialect);
            life.refresh(&mut out, &after.lost(is_taken), false, false, false);
            if is_behind {
                out.clear();
                life.catch_up(&mut out, &after.lost(is_taken), true, false);
            }
            clients.take(&out);
            let facts = clients.facts();
            let what = format!("{what} (taken: {is_taken}, behind: {is_behind}): {facts:?}");
            assert_eq!(
                (facts.number, &facts.elements[..]),
                (None, &[][..]),
                "{what}"
            );
            assert!(facts.severity.is_none_or(|severity| severity == "INVALID"));
            for shown in clients.shown() {
                // A label or text stays if all values were of its class.
                let last = [before, after].map(|class| class.fresh(dialect).shown());
                let is_one = before.metadata.value_type == after.metadata.value_type;
                let is_last = !is_taken
                    && !after.is_shown_as_number()
                    && (last[1].contains(&shown) || is_one && last[0].contains(&shown));
                let shown = shown.replace("mm", "");
                let fits = ["NaN", "", "[]"].contains(&shown.trim());
                assert!(fits || is_last, "{what}: {shown:.200}");
            }
        }
    });
}

#[test]
fn text_of_a_small_array_does_not_stay_beside_a_large_one() {
    let classes = classes();
    let find = |name: &str| classes.iter().find(|class| class.name == name).unwrap();
    let (text, small, large) = (find("text"), find("array"), find("large array"));
    let mut life = Life::new("X", Dialect::Ca, &text.state());
    let mut clients = Clients::default();
    clients.take(&text.first(&mut life, Dialect::Ca));
    for class in [small, large, large, small, large] {
        let mut out = Vec::new();
        life.refresh(&mut out, &class.state(), false, true, class.is_large);
        class.large(&mut out, Dialect::Ca);
        clients.take(&out);
        clients.are_like(&class.fresh(Dialect::Ca), class.is_large, class.name);
    }
}

#[test]
fn messages_of_a_pv_that_keeps_its_class_have_no_more_keys() {
    for class in classes().iter().filter(|class| !class.is_large) {
        let mut life = Life::new("X", Dialect::Ca, &class.state());
        let mut out = Vec::new();
        let sample = class.state().latest.unwrap();
        life.row(&mut out, &class.metadata, &sample);
        life.refresh(&mut out, &class.state(), true, true, false);
        life.catch_up(&mut out, &class.state(), true, false);
        let texts = texts(&out);
        assert_eq!(texts.len(), 4, "{texts:?}");
        for text in texts {
            let keys = ARRAYS.iter().chain(&["value", "text"]);
            let count = keys.filter(|key| text.contains(&format!("\"{key}\":")));
            assert_eq!(
                count.count(),
                if class.name == "enum" { 2 } else { 1 },
                "{text}"
            );
        }
    }
}

#[test]
fn client_that_comes_to_another_form_shows_each_class_and_nothing_of_earlier_ones() {
    each_pair(|before, after, what, dialect| {
        let betweens = ["number", "integer", "enum", "text", "array", "shorts"];
        for between in classes()
            .iter()
            .filter(|class| betweens.contains(&class.name))
        {
            let what = format!("{what}, with {} between", between.name);
            let mut old = Life::new("X", dialect, &before.state());
            let mut clients = Clients::default();
            clients.take(&before.first(&mut old, dialect));
            // The form with the other right to write begins with another class, or without a value.
            for is_lost in [false, true] {
                let state = if is_lost {
                    before.lost(false)
                } else {
                    between.state()
                };
                let mut new = Life::new("X", dialect, &state);
                new.inherit(old.received());
                let mut out = Vec::new();
                new.newcomer(&mut out, &state, false);
                clients.take(&out);
                if !is_lost {
                    clients.are_like(&between.fresh(dialect), false, &what);
                }
                let mut out = Vec::new();
                new.refresh(&mut out, &after.state(), is_lost, true, after.is_large);
                after.large(&mut out, dialect);
                clients.take(&out);
                clients.are_like(&after.fresh(dialect), after.is_large, &what);
                let mut received = old.received();
                received.add(new.received());
                old.inherit(received);
                // And back.
                clients.take(&before.first(&mut old, dialect));
                if !before.is_large {
                    clients.are_like(&before.fresh(dialect), false, &what);
                }
            }
        }
    });
}
