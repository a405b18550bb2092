//! Converts arrays and structures to results, and to the objects that GraphQL makes from them.

use serde_json::{Map, Value as Json, json};

use crate::document::Field;
use crate::state::{Pv, number};
use crate::text;

/// A number in the notation of results.
pub(crate) fn plain(value: f64) -> Json {
    match element(value) {
        Json::String(special) => json!({ "$number": special }),
        number => number,
    }
}

/// A number as an element of a typed array.
fn element(value: f64) -> Json {
    if value == 0.0 && value.is_sign_negative() {
        return "-0".into();
    }
    if value.is_finite() {
        return value.into();
    }
    text::javascript(value).into()
}

/// Elements of an array, with the type that JavaScript has for them.
pub(crate) fn typed(value_type: &str, elements: &[Json]) -> Json {
    let shown = match value_type {
        "Enum" => "UInt16",
        "Boolean" => "UInt8",
        other => other,
    };
    let of: Vec<Json> = elements
        .iter()
        .map(|one| match one.as_str() {
            Some(digits) if value_type.ends_with("64") && !value_type.starts_with('F') => {
                digits.into()
            }
            _ if shown.ends_with("t64") && shown != "Float64" => one.to_string().into(),
            _ => element(number(one)),
        })
        .collect();
    json!({ "$array": shown, "of": of })
}

/// A value or a field of a structure as a result.
pub(crate) fn shown(node: &Json) -> Json {
    let value_type = node["type"].as_str().unwrap_or("Unknown");
    let array = node["array"].as_array();
    match value_type {
        "Unknown" => Json::Null,
        "String" => node
            .get("array")
            .or_else(|| node.get("value"))
            .cloned()
            .unwrap_or_else(|| "".into()),
        "Structure" | "Union" | "Any" => {
            if let Some(array) = array {
                return array.iter().map(shown).collect();
            }
            if value_type == "Structure" {
                let fields = node["fields"].as_array().into_iter().flatten();
                let named = fields.map(|field| (name_of(field), shown(field)));
                return Json::Object(named.collect());
            }
            match &node["holds"] {
                Json::Null => Json::Null,
                held if value_type == "Any" => shown(held),
                held => json!({ "selected": name_of(held), "value": shown(held) }),
            }
        }
        _ => match (array, &node["value"]) {
            (Some(elements), _) => typed(value_type, elements),
            (None, value) if value_type == "Boolean" => (number(value) != 0.0).into(),
            (None, value) if value_type == "Int64" || value_type == "UInt64" => {
                let digits = value
                    .as_str()
                    .map_or_else(|| value.to_string(), str::to_owned);
                json!({ "$bigint": digits })
            }
            (None, value) => plain(number(value)),
        },
    }
}

fn name_of(node: &Json) -> String {
    node["name"].as_str().unwrap_or("").to_owned()
}

/// The first elements, or all of them if the length is not positive.
pub(crate) fn first(elements: &[Json], length: i64) -> &[Json] {
    match usize::try_from(length) {
        Ok(length) if length > 0 && length < elements.len() => &elements[..length],
        _ => elements,
    }
}

/// A typed array of a result as `{ numberType base64 }`; `Null` for other results.
fn packed(array: &Json, length: i64) -> Json {
    let (Some(value_type), Some(of)) = (array["$array"].as_str(), array["of"].as_array()) else {
        return Json::Null;
    };
    let mut bytes: Vec<u8> = Vec::new();
    for one in first(of, length) {
        let digits = one.as_str().map_or_else(|| one.to_string(), str::to_owned);
        let integer = || digits.parse::<i128>().expect("an integer");
        match value_type {
            "Float64" => bytes.extend(number(one).to_le_bytes()),
            "Float32" => bytes.extend((number(one) as f32).to_le_bytes()),
            "Int8" | "UInt8" => bytes.push(number(one) as i64 as u8),
            "Int16" | "UInt16" => bytes.extend((number(one) as i64 as u16).to_le_bytes()),
            "Int32" | "UInt32" => bytes.extend((number(one) as i64 as u32).to_le_bytes()),
            _ => bytes.extend((integer() as u64).to_le_bytes()),
        }
    }
    json!({ "numberType": value_type.to_uppercase(), "base64": text::base64(&bytes) })
}

/// Elements as JavaScript writes them.
fn texts(array: &Json, length: i64) -> Json {
    if let Some(strings) = array.as_array() {
        return first(strings, length).to_vec().into();
    }
    let Some(of) = array["of"].as_array() else {
        return Json::Null;
    };
    let one = |one: &Json| match one {
        Json::String(text) if text == "-0" => Json::from("0"),
        Json::String(text) => text.clone().into(),
        one => text::javascript(number(one)).into(),
    };
    first(of, length).iter().map(one).collect()
}

/// The fields of a structure of this normative type.
fn normative(pv: &Pv, name: &str) -> Option<Json> {
    let is_it = pv
        .about("typeId")
        .as_str()?
        .starts_with(&format!("epics:nt/{name}:"));
    let value = content(pv.value.as_ref()?);
    let of = shown(value);
    (is_it && value["type"] == "Structure" && of.is_object()).then_some(of)
}

/// What a value of any type holds.
pub(crate) fn content(value: &Json) -> &Json {
    match &value["holds"] {
        held if value["type"] == "Any" && !held.is_null() => content(held),
        _ => value,
    }
}

/// Whether a result is a structure.
pub(crate) fn is_fields(of: &Json) -> bool {
    of.as_object()
        .is_some_and(|fields| !fields.keys().any(|key| key.starts_with('$')))
}

/// An object that GraphQL makes from an array or a structure; `Null` for other values.
pub(crate) fn object(pv: &Pv, field: &Field) -> Json {
    let array = pv.value.as_ref().map_or(Json::Null, |value| {
        let is_structure = ["Structure", "Union", "Any"]
            .iter()
            .any(|kind| value["type"] == **kind);
        match value.get("array") {
            Some(_) if !is_structure => shown(value),
            _ => Json::Null,
        }
    });
    match field.name.as_str() {
        "base64Array" => project("Base64Array", &packed(&array, field.length()), field),
        "table" => normative(pv, "NTTable").map_or(Json::Null, |of| table(pv, &of, field)),
        _ => normative(pv, "NTNDArray").map_or(Json::Null, |of| image(&of, field)),
    }
}

/// The fields of an object that has all of them.
fn project(type_name: &str, source: &Json, field: &Field) -> Json {
    if source.is_null() {
        return Json::Null;
    }
    if let Some(list) = source.as_array() {
        return list
            .iter()
            .map(|one| project(type_name, one, field))
            .collect();
    }
    let mut object = Map::new();
    for one in &field.fields {
        let array = &source["array"];
        let value = match one.name.as_str() {
            "__typename" => type_name.into(),
            "stringArray" => texts(array, one.length()),
            "base64Array" => project("Base64Array", &packed(array, one.length()), one),
            "columns" => project("TableColumn", &source["columns"], one),
            "attributes" => project("NDAttribute", &source["attributes"], one),
            name => source[name].clone(),
        };
        object.insert(one.key.clone(), value);
    }
    object.into()
}

fn is_array(of: &Json) -> bool {
    of.get("$array").is_some()
        || of
            .as_array()
            .is_some_and(|list| list.iter().all(Json::is_string))
}

/// An NTTable. The order of its columns is that of the structure's fields.
fn table(pv: &Pv, of: &Json, field: &Field) -> Json {
    let labels = match &of["labels"] {
        Json::Array(labels) if labels.iter().all(Json::is_string) => labels.clone(),
        _ => Vec::new(),
    };
    let nodes = pv
        .value
        .as_ref()
        .and_then(|value| content(value)["fields"].as_array());
    let value = nodes
        .into_iter()
        .flatten()
        .find(|node| node["name"] == "value");
    let columns = value.and_then(|value| content(value)["fields"].as_array());
    let columns: Vec<Json> = columns
        .into_iter()
        .flatten()
        .enumerate()
        .map(|(at, column)| {
            let array = Some(shown(column)).filter(is_array);
            let array = array.unwrap_or(Json::Null);
            let label = labels.get(at).cloned();
            let name = name_of(column);
            json!({ "name": name, "label": label.unwrap_or_else(|| name.clone().into()), "array": array })
        })
        .collect();
    project(
        "Table",
        &json!({ "labels": labels, "columns": columns }),
        field,
    )
}

fn image(of: &Json, field: &Field) -> Json {
    let samples = &of["value"]["value"];
    let is_numeric = samples.get("$array").is_some();
    let array = if is_numeric {
        samples.clone()
    } else {
        Json::Null
    };
    let structures = |of: &Json| -> Vec<Json> {
        let list = of.as_array().into_iter().flatten();
        list.filter(|one| is_fields(one)).cloned().collect()
    };
    let text_of = |of: &Json| of.as_str().unwrap_or("").to_owned();
    let attributes: Vec<Json> = structures(&of["attribute"])
        .iter()
        .map(|one| {
            json!({
                "name": text_of(&one["name"]),
                "value": scalar_text(&one["value"]),
                "description": text_of(&one["descriptor"]),
            })
        })
        .collect();
    let number_type = array["$array"].as_str().map(str::to_uppercase);
    let size_of = |one: &Json| match &one["size"] {
        Json::Null => plain(f64::NAN),
        size => size.clone(),
    };
    let dimensions: Vec<Json> = structures(&of["dimension"]).iter().map(size_of).collect();
    let source = json!({
        "uniqueId": of["uniqueId"].as_f64(),
        "dimensions": dimensions,
        "codec": text_of(&of["codec"]["name"]),
        "numberType": number_type,
        "array": array,
        "attributes": attributes,
    });
    project("NDArray", &source, field)
}

/// The shortest text of a scalar; `Null` for others.
fn scalar_text(of: &Json) -> Json {
    match of {
        Json::String(text) => text.clone().into(),
        Json::Bool(flag) => flag.to_string().into(),
        Json::Number(_) => text::javascript(number(of)).into(),
        of => {
            let digits = of
                .get("$bigint")
                .or_else(|| of.get("$number"))
                .and_then(Json::as_str);
            digits.map_or(Json::Null, |text| {
                if text == "-0" { "0" } else { text }.into()
            })
        }
    }
}
