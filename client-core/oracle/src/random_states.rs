//! Generates random states of PVs.

use serde_json::{Map, Value as Json, json};

use crate::elements::plain;

/// Random words from which a case is made. Zeros make the simplest case.
pub struct Words {
    words: std::vec::IntoIter<u32>,
}

impl Words {
    /// Zeros follow them.
    pub fn new(words: Vec<u32>) -> Self {
        let words = words.into_iter();
        Self { words }
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.words.next().unwrap_or(0) as usize % end
    }

    /// True once in `one_in` times.
    pub fn is(&mut self, one_in: usize) -> bool {
        self.below(one_in) == one_in - 1
    }

    pub(crate) fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }

    fn word(&mut self) -> u64 {
        u64::from(self.words.next().unwrap_or(0)) << 32 | u64::from(self.words.next().unwrap_or(0))
    }
}

const NUMERIC: [&str; 12] = [
    "Float64", "Float32", "Int8", "UInt8", "Int16", "UInt16", "Int32", "UInt32", "Int64", "UInt64",
    "Enum", "Boolean",
];

const TEXTS: [&str; 8] = [
    "",
    "a",
    "Träger",
    "\"q\\\n\u{1}",
    "日本語 😀",
    "0",
    "  x ",
    "label",
];

/// A number of a type, in the notation of events.
fn scalar(words: &mut Words, value_type: &str) -> Json {
    let float = |words: &mut Words| match words.below(6) {
        0 => words.below(1000) as f64 / 8.0,
        1 => -(words.below(1_000_000) as f64) / 1000.0,
        2 => [
            0.0,
            -0.0,
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            5e-324,
            1e21,
            1e-7,
            0.5,
            2.5,
            0.125,
            1e300,
            9_007_199_254_740_992.0,
        ][words.below(13)],
        3 => f64::from_bits(words.word()),
        4 => (words.below(2_000_001) as f64 - 1_000_000.0) / 10_f64.powi(words.below(8) as i32),
        _ => words.below(1 << 24) as f64,
    };
    let number = |value: f64| match plain(value) {
        Json::Object(special) => special["$number"].clone(),
        plain => plain,
    };
    let bits = match value_type {
        "Float64" => return number(float(words)),
        "Float32" => return number(f64::from(float(words) as f32)),
        "Enum" => return words.below(5).into(),
        "Boolean" => return words.below(2).into(),
        "Int64" => {
            return ((words.word() as i64) >> words.below(60))
                .to_string()
                .into();
        }
        "UInt64" => return (words.word() >> words.below(60)).to_string().into(),
        other => other
            .trim_start_matches(['U', 'I', 'n', 't'])
            .parse::<u32>()
            .expect("bits"),
    };
    let raw = words.word() as u32 >> (32 - bits);
    if value_type.starts_with('U') {
        raw.into()
    } else {
        ((i64::from(raw) << (64 - bits)) >> (64 - bits)).into()
    }
}

fn array(words: &mut Words, value_type: &str) -> Json {
    let count = [0, 1, 2, 3, 10, 11, 13][words.below(7)];
    let is_text = matches!(value_type, "Int8" | "UInt8") && words.is(2);
    let elements: Vec<Json> = (0..count)
        .map(|_| match (is_text, value_type) {
            (true, "Int8") => (words.below(128)).into(),
            (true, _) => (words.below(100) + if words.is(8) { 156 } else { 32 }).into(),
            _ => scalar(words, value_type),
        })
        .collect();
    json!({ "type": value_type, "array": elements })
}

/// A value, or a field of a structure.
fn node(words: &mut Words, depth: usize) -> Json {
    let kinds = if depth == 0 { 4 } else { 9 };
    match words.below(kinds) {
        0 => {
            let value_type = words.one(&NUMERIC);
            json!({ "type": value_type, "value": scalar(words, value_type) })
        }
        1 => json!({ "type": "String", "value": words.one(&TEXTS) }),
        2 => {
            let value_type = words.one(&NUMERIC);
            array(words, value_type)
        }
        3 => {
            let texts: Vec<&str> = (0..words.below(13)).map(|_| words.one(&TEXTS)).collect();
            json!({ "type": "String", "array": texts })
        }
        4 => json!({ "type": "Structure", "fields": fields(words, depth - 1) }),
        5 => {
            let list: Vec<Json> = (0..words.below(3))
                .map(|_| json!({ "type": "Structure", "fields": fields(words, depth - 1) }))
                .collect();
            json!({ "type": "Structure", "array": list })
        }
        6 => json!({ "type": "Union", "holds": held(words, depth) }),
        7 => json!({ "type": "Any", "holds": held(words, depth) }),
        _ => json!({ "type": "Unknown" }),
    }
}

fn held(words: &mut Words, depth: usize) -> Json {
    if words.is(3) {
        return Json::Null;
    }
    let mut held = node(words, depth - 1);
    held["name"] = words.one(&["a", "value"]).into();
    held
}

fn fields(words: &mut Words, depth: usize) -> Vec<Json> {
    (0..words.below(4))
        .map(|at| {
            let mut field = node(words, depth);
            field["name"] = format!("f{at}").into();
            field
        })
        .collect()
}

/// A PV's value. Servers have no PV without a type once it has a value.
fn root(words: &mut Words, depth: usize) -> Json {
    let value = node(words, depth);
    match value["type"].as_str() {
        Some("Unknown") => json!({ "type": "Structure", "fields": [] }),
        _ => value,
    }
}

/// Tables and images of pvAccess, some of whose fields are missing or of another type.
fn normative(words: &mut Words, type_id: &str) -> Json {
    let mut list = Vec::new();
    let names: &[&str] = if type_id.contains("Table") {
        &["labels", "value", "descriptor"]
    } else {
        &["value", "codec", "uniqueId", "dimension", "attribute"]
    };
    for name in names {
        let mut field = match *name {
            _ if words.is(8) => node(words, 2),
            "labels" => json!({ "type": "String", "array": ["x", ""] }),
            "value" if type_id.contains("Table") => {
                let columns: Vec<Json> = (0..words.below(4))
                    .map(|at| {
                        let value_type = words.one(&NUMERIC);
                        let mut column = if words.is(3) {
                            node(words, 0)
                        } else {
                            array(words, value_type)
                        };
                        column["name"] = format!("c{at}").into();
                        column
                    })
                    .collect();
                json!({ "type": "Structure", "fields": columns })
            }
            "value" => json!({ "type": "Union", "holds": held(words, 1) }),
            "codec" => {
                json!({ "type": "Structure", "fields": [{ "name": "name", "type": "String", "value": "lz4" }] })
            }
            "uniqueId" => json!({ "type": "Int32", "value": words.below(100) }),
            "dimension" => {
                let size = json!({ "name": "size", "type": "Int32", "value": words.below(9) });
                json!({ "type": "Structure", "array": [{ "type": "Structure", "fields": [size] }] })
            }
            "attribute" => {
                let mut value = json!({ "type": "Any", "holds": held(words, 1) });
                value["name"] = "value".into();
                let name = json!({ "name": "name", "type": "String", "value": words.one(&TEXTS) });
                json!({ "type": "Structure", "array": [{ "type": "Structure", "fields": [name, value] }] })
            }
            _ => json!({ "type": "String", "value": "d" }),
        };
        field["name"] = (*name).into();
        list.push(field);
    }
    json!({ "type": "Structure", "fields": list })
}

fn metadata(words: &mut Words, value_type: &str, type_id: &str) -> Json {
    let mut of = Map::new();
    let value_type = if words.is(9) {
        words.one(&["Float64", "Float32", "Enum", "Boolean", "String"])
    } else {
        value_type
    };
    of.insert("type".into(), value_type.into());
    of.insert("elementCount".into(), (words.below(20)).into());
    of.insert("typeId".into(), type_id.into());
    if words.is(2) {
        of.insert(
            "precision".into(),
            [0, 1, 2, 3, 4, 9, 22, 25, 120][words.below(9)].into(),
        );
    }
    if words.is(2) {
        of.insert("units".into(), words.one(&["", "mA", "°C"]).into());
    }
    if value_type == "Enum" && !words.is(4) {
        of.insert("choices".into(), json!(["Off", "", "On"]));
    }
    for range in ["display", "control", "warning", "alarm"] {
        if words.is(3) {
            let ends: Vec<Json> = (0..2)
                .map(|_| {
                    if words.is(3) {
                        Json::Null
                    } else {
                        scalar(words, "Float64")
                    }
                })
                .collect();
            of.insert(range.into(), ends.into());
        }
    }
    if words.is(3) {
        of.insert("description".into(), words.one(&TEXTS).into());
        of.insert(
            "form".into(),
            words.one(&["", "String", "Hex", "Engineering"]).into(),
        );
    }
    if words.is(6) {
        of.insert("missingField".into(), "there is no such field".into());
    }
    if words.is(6) {
        of.insert("epoch".into(), words.below(3).into());
    }
    of.into()
}

fn connection(words: &mut Words) -> Json {
    const NOW_MS: usize = 1_000_000;
    let state = match words.below(8) {
        0..=4 => "connected",
        5 => "disconnected",
        6 => "notFound",
        _ => "connecting",
    };
    let mut of =
        json!({ "state": state, "sinceMs": 1_752_999_000_000_u64 + words.below(NOW_MS) as u64 });
    if words.is(4) {
        of["heardMs"] = (1_752_999_000_000_u64 + words.below(NOW_MS) as u64).into();
    }
    for right in ["read", "write", "puts"] {
        of[right] = (!words.is(4)).into();
    }
    of["writeUnknown"] = words.is(4).into();
    of
}

pub(crate) fn parts(words: &mut Words, is_first: bool) -> Json {
    let mut of = Map::new();
    let type_id = words.one(&[
        "",
        "",
        "x:y:1.0",
        "epics:nt/NTTable:1.0",
        "epics:nt/NTNDArray:1.0",
    ]);
    let value = match type_id {
        "" => root(words, 0),
        "x:y:1.0" => root(words, 3),
        _ if words.is(5) => root(words, 2),
        _ => normative(words, type_id),
    };
    let value_type = value["type"].as_str().unwrap_or("Unknown").to_owned();
    if if is_first { !words.is(8) } else { words.is(3) } {
        of.insert("metadata".into(), metadata(words, &value_type, type_id));
    }
    if if is_first { !words.is(8) } else { words.is(3) } {
        of.insert("connection".into(), connection(words));
    }
    if if is_first { !words.is(5) } else { words.is(2) } {
        of.insert("value".into(), value);
    }
    if words.is(2) {
        let seconds = [1_753_000_000_i64, 0, -1, 951_782_400, 4_102_444_800][words.below(5)];
        let tag = words.below(5) as i64 - 2;
        let nanoseconds = words.below(1_000_000_000);
        let time = json!({ "seconds": seconds, "nanoseconds": nanoseconds, "userTag": tag });
        of.insert("time".into(), if words.is(6) { Json::Null } else { time });
    }
    if words.is(2) {
        let severity = words.one(&["NO_ALARM", "MINOR", "MAJOR", "INVALID"]);
        let status = [0, 3, 7, 17, 21, 22, 100, 103, 108][words.below(9)];
        let message = words.one(&TEXTS);
        let alarm = json!({ "severity": severity, "status": status, "message": message });
        of.insert("alarm".into(), if words.is(6) { Json::Null } else { alarm });
    }
    if !is_first && words.is(3) {
        let count = 1 + words.below(100);
        let cause = words.one(&["relay", "source", "filter", "behind", "paced"]);
        of.insert("skips".into(), json!({ cause: count }));
    }
    if !is_first && words.is(6) {
        of.insert("put".into(), words.one(&["done", "noAccess"]).into());
    }
    of.into()
}
