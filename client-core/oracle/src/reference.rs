//! A plain executor of selections: it reads each field from the state every time.

use serde_json::{Map, Value as Json, json};

use crate::document::Field;
use crate::elements::{self, first, is_fields, plain};
use crate::state::{CAUSES, Pv, number};
use crate::text;

/// Whether GraphQL's forms of fields are given.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Form {
    /// Those of a selection of the package.
    Selection,
    /// Those of documents.
    Graphql,
}

/// The fields of a PV.
pub(crate) fn channel(pv: &Pv, fields: &[Field], form: Form) -> Json {
    object(pv, "", fields, form)
}

/// The fields of the object at a path; `Null` if there is no such object now.
fn object(pv: &Pv, path: &str, fields: &[Field], form: Form) -> Json {
    if !is_present(pv, path) {
        return Json::Null;
    }
    let mut object = Map::new();
    for field in fields {
        let inner = match path {
            "" => field.name.clone(),
            path => format!("{path}.{}", field.name),
        };
        let value = match inner.as_str() {
            _ if field.name == "__typename" => type_name(path).into(),
            "value" | "time" | "status" | "display" | "connection" | "skips" => {
                self::object(pv, &inner, &field.fields, form)
            }
            "value.base64Array" | "value.table" | "value.ndArray" => elements::object(pv, field),
            path if path.ends_with("Range") => self::object(pv, path, &field.fields, form),
            path => leaf(pv, path, field, form),
        };
        object.insert(field.key.clone(), value);
    }
    object.into()
}

fn type_name(path: &str) -> &str {
    match path {
        "" => "Channel",
        "value" => "ChannelValue",
        "time" => "ChannelTime",
        "status" => "ChannelStatus",
        "display" => "ChannelDisplay",
        "connection" => "ChannelConnection",
        "skips" => "ChannelSkips",
        _ => "Range",
    }
}

fn is_present(pv: &Pv, path: &str) -> bool {
    match path {
        "value" => pv.value.is_some(),
        "time" => pv.value.is_some() && (pv.seconds, pv.nanoseconds) != (0, 0),
        "display" => pv.metadata.is_some(),
        path if path.ends_with("Range") => {
            !limit(pv, path, 0).is_null() || !limit(pv, path, 1).is_null()
        }
        _ => true,
    }
}

/// The low (0) or high (1) end of a range.
fn limit(pv: &Pv, path: &str, end: usize) -> Json {
    let part = match path {
        "display.controlRange" => "control",
        "display.displayRange" => "display",
        "display.alarmRange" => "alarm",
        _ => "warning",
    };
    match &pv.about(part)[end] {
        Json::Null => Json::Null,
        of if number(of).is_nan() => Json::Null,
        of => plain(number(of)),
    }
}

pub(crate) fn is_connected(pv: &Pv) -> bool {
    pv.state == "connected"
}

/// When the server or the relay was last heard from, while it doesn't respond.
fn heard_ms(pv: &Pv) -> Option<i64> {
    pv.heard_ms.or(pv.relay_heard_ms)
}

fn is_unresponsive(pv: &Pv) -> bool {
    is_connected(pv) && heard_ms(pv).is_some()
}

/// Whether the IOC permits puts; `None` if only a put can show it.
fn is_mutable(pv: &Pv) -> Option<bool> {
    match (is_connected(pv), pv.put) {
        (false, _) | (true, Some(false)) => Some(false),
        (true, Some(true)) => Some(true),
        (true, None) if pv.write_unknown => None,
        (true, None) => Some(pv.write),
    }
}

fn is_readable(pv: &Pv) -> bool {
    is_connected(pv) && pv.read
}

/// Whether a subscription has enough data for its first result.
pub(crate) fn is_settled(pv: &Pv) -> bool {
    pv.value.is_some() || pv.state != "connecting" && !(is_connected(pv) && pv.read)
}

fn leaf(pv: &Pv, path: &str, field: &Field, form: Form) -> Json {
    let has = |name: &str| pv.about(name).as_str().unwrap_or("").to_owned();
    match path {
        "id" if pv.name.contains("://") => pv.name.clone().into(),
        "id" => format!("ca://{}", pv.name).into(),
        "skipped" => pv.skips.iter().sum::<f64>().into(),
        "time.seconds" => (pv.seconds as f64 + pv.nanoseconds as f64 / 1e9).into(),
        "time.nanoseconds" => pv.nanoseconds.into(),
        "time.userTag" => pv.user_tag.into(),
        "time.datetime" => text::datetime(pv.seconds, pv.nanoseconds).into(),
        "display.description" => has("description").into(),
        "display.typeId" => has("typeId").into(),
        "display.type" => pv.value_type().into(),
        "display.elementCount" => pv.about("elementCount").as_u64().unwrap_or(1).into(),
        "display.precision" => pv.precision().into(),
        "display.form" if has("form").is_empty() => Json::Null,
        "display.form" if form == Form::Graphql => has("form").to_uppercase().into(),
        "display.form" => has("form").into(),
        "display.units" => match (form, pv.value_type()) {
            (Form::Graphql, "Enum" | "String") => Json::Null,
            _ => has("units").into(),
        },
        "display.choices" if pv.value_type() != "Enum" => Json::Null,
        "display.choices" => pv
            .about("choices")
            .as_array()
            .cloned()
            .unwrap_or_default()
            .into(),
        "display.role" => match (is_mutable(pv), pv.read) {
            (Some(false), _) => "RO".into(),
            (_, false) => "WO".into(),
            _ => "RW".into(),
        },
        "display.widget" if is_mutable(pv) == Some(false) => "TEXTUPDATE".into(),
        "display.widget" => "TEXTINPUT".into(),
        _ => match path.split_once('.').expect("a field of an object") {
            ("value", name) => value(pv, name, field),
            ("status", name) => status(pv, name),
            ("connection", name) => connection(pv, name),
            ("skips", name) => {
                let at = CAUSES.iter().position(|cause| *cause == name);
                pv.skips[at.expect("a cause")].into()
            }
            (_, name) => {
                let range = path.rsplit_once('.').expect("a range").0;
                limit(pv, range, usize::from(name.ends_with("max")))
            }
        },
    }
}

fn status(pv: &Pv, name: &str) -> Json {
    const QUALITIES: [(&str, &str); 4] = [
        ("NO_ALARM", "VALID"),
        ("MINOR", "WARNING"),
        ("MAJOR", "ALARM"),
        ("INVALID", "INVALID"),
    ];
    let severity = pv.alarm.as_ref().map(|(severity, _)| severity.as_str());
    match name {
        "severity" => severity.into(),
        "alarmStatus" => pv
            .alarm
            .as_ref()
            .map(|(_, status)| condition(*status))
            .into(),
        "quality" => {
            let is_known = is_connected(pv) && !is_unresponsive(pv);
            let found = QUALITIES.iter().find(|(known, _)| Some(*known) == severity);
            found
                .filter(|_| is_known)
                .map_or("UNDEFINED", |(_, quality)| quality)
                .into()
        }
        "message" => message(pv).into(),
        "mutable" => (is_mutable(pv) != Some(false)).into(),
        _ if !pv.puts => false.into(),
        _ => is_mutable(pv).into(),
    }
}

fn condition(status: i64) -> String {
    const CONDITIONS: [&str; 22] = [
        "NO_ALARM",
        "READ",
        "WRITE",
        "HIHI",
        "HIGH",
        "LOLO",
        "LOW",
        "STATE",
        "COS",
        "COMM",
        "TIMEOUT",
        "HWLIMIT",
        "CALC",
        "SCAN",
        "LINK",
        "SOFT",
        "BAD_SUB",
        "UDF",
        "DISABLE",
        "SIMM",
        "READ_ACCESS",
        "WRITE_ACCESS",
    ];
    const CLASSES: [&str; 8] = [
        "NONE",
        "DEVICE",
        "DRIVER",
        "RECORD",
        "DB",
        "CONF",
        "UNDEFINED",
        "CLIENT",
    ];
    let named = match status {
        0..=21 => CONDITIONS.get(status as usize),
        100..=107 => CLASSES.get(status as usize - 100),
        _ => None,
    };
    named.map_or_else(|| status.to_string(), |name| (*name).to_owned())
}

/// Why a PV has no value although its server is known.
fn missing_field(pv: &Pv) -> Option<String> {
    let words = pv
        .about("missingField")
        .as_str()
        .filter(|words| !words.is_empty());
    let is_told = !["refused", "relayLost"].contains(&pv.state.as_str());
    words.filter(|_| is_told).map(str::to_owned)
}

fn message(pv: &Pv) -> String {
    let state = match pv.state.as_str() {
        "refused" => return pv.reason.clone(),
        "connecting" => "not connected yet",
        "notFound" => "not found",
        "disconnected" => "disconnected",
        "relayLost" => "relay lost",
        _ => "",
    };
    if let Some(reason) = missing_field(pv) {
        return reason;
    }
    if !is_connected(pv) {
        return state.to_owned();
    }
    if is_unresponsive(pv) {
        return "no news".to_owned();
    }
    match &pv.alarm {
        None => String::new(),
        Some((severity, _)) if severity == "NO_ALARM" => String::new(),
        Some((_, status)) if pv.message.is_empty() => condition(*status),
        Some(_) => pv.message.clone(),
    }
}

fn connection(pv: &Pv, name: &str) -> Json {
    match name {
        "state" => pv.state.clone().into(),
        "connected" => is_connected(pv).into(),
        "since" => pv.since_ms.map(text::iso).into(),
        "lastHeard" => heard_ms(pv).map(text::iso).into(),
        "unresponsive" => is_unresponsive(pv).into(),
        "readable" => is_readable(pv).into(),
        _ if pv.state == "refused" => pv.reason.clone().into(),
        _ if missing_field(pv).is_some() => missing_field(pv).into(),
        _ if !is_connected(pv) || is_readable(pv) => Json::Null,
        _ => "the IOC gives no read access".into(),
    }
}

/// What a value is.
enum Kind<'a> {
    Number(f64),
    /// An integer outside ±2^53: its digits.
    Large(&'a str),
    Text(&'a str),
    Texts(&'a [Json]),
    Array(&'a str, &'a [Json]),
    Structure,
    Unknown,
}

fn kind(value: &Json) -> Kind<'_> {
    let value_type = value["type"].as_str().unwrap_or("Unknown");
    let array = value["array"].as_array().map(Vec::as_slice);
    match (value_type, array) {
        ("Unknown", _) => Kind::Unknown,
        ("Structure" | "Union" | "Any", _) => Kind::Structure,
        ("String", Some(texts)) => Kind::Texts(texts),
        ("String", None) => Kind::Text(value["value"].as_str().unwrap_or("")),
        (value_type, Some(elements)) => Kind::Array(value_type, elements),
        ("Int64" | "UInt64", None) => {
            let digits = value["value"].as_str().expect("digits");
            let is_safe = digits
                .parse::<i128>()
                .is_ok_and(|integer| integer.abs() < 1 << 53);
            if is_safe {
                Kind::Number(digits.parse().expect("a number"))
            } else {
                Kind::Large(digits)
            }
        }
        _ => Kind::Number(number(&value["value"])),
    }
}

fn value(pv: &Pv, name: &str, field: &Field) -> Json {
    let value = pv.value.as_ref().expect("a value");
    let kind = kind(value);
    let argument = |name: &str| field.arguments.get(name).cloned().unwrap_or_default();
    match (name, &kind) {
        ("float", Kind::Number(number)) if !number.is_finite() => Json::Null,
        ("float" | "number", Kind::Number(number)) => plain(*number),
        ("float" | "number", Kind::Large(digits)) => plain(digits.parse().expect("a number")),
        ("exact", _) => integer(pv, &kind).into(),
        ("bigint", _) => {
            integer(pv, &kind).map_or(Json::Null, |digits| json!({ "$bigint": digits }))
        }
        ("text", Kind::Text(text)) => (*text).into(),
        ("text", Kind::Array(value_type, elements)) => characters(value_type, elements).into(),
        ("array", Kind::Array(..) | Kind::Texts(_)) => elements::shown(value),
        ("structure" | "structures", Kind::Structure) => {
            let shown = elements::shown(value);
            let fits = if name == "structures" {
                shown.is_array()
            } else {
                is_fields(&shown)
            };
            if fits { shown } else { Json::Null }
        }
        ("string", _) => {
            let text = string(pv, value, &kind);
            let units = pv.about("units").as_str().unwrap_or("");
            let has_none = units.is_empty() || matches!(pv.value_type(), "Enum" | "String");
            if argument("units") != true || has_none {
                text.into()
            } else {
                format!("{text} {units}").into()
            }
        }
        ("stringArray", Kind::Texts(texts)) => first(texts, field.length()).to_vec().into(),
        ("stringArray", Kind::Array(value_type, all)) => first(all, field.length())
            .iter()
            .map(|one| match one.as_str() {
                Some(digits) if is_64(value_type) => digits.to_owned(),
                _ => choice(pv, number(one)).unwrap_or_else(|| shown_number(pv, number(one))),
            })
            .map(Json::from)
            .collect(),
        ("float64Array", Kind::Array(_, all)) => {
            let doubles: Vec<Json> = (first(all, field.length()).iter())
                .map(|one| number_text(number(one)))
                .collect();
            elements::typed("Float64", &doubles)
        }
        _ => Json::Null,
    }
}

/// A number that `typed` reads without loss.
fn number_text(value: f64) -> Json {
    if value.is_finite() && !(value == 0.0 && value.is_sign_negative()) {
        return value.into();
    }
    if value == 0.0 {
        "-0".into()
    } else {
        text::javascript(value).into()
    }
}

fn is_64(value_type: &str) -> bool {
    matches!(value_type, "Int64" | "UInt64")
}

/// All digits of an integer.
fn integer(pv: &Pv, kind: &Kind<'_>) -> Option<String> {
    match kind {
        Kind::Large(digits) => Some((*digits).to_owned()),
        Kind::Number(number) if number.fract() == 0.0 && number.abs() < 2_f64.powi(64) => {
            let is_integer =
                pv.value_type().starts_with("Int") || pv.value_type().starts_with("UInt");
            is_integer.then(|| format!("{:.0}", number + 0.0))
        }
        _ => None,
    }
}

/// The label of a choice.
fn choice(pv: &Pv, value: f64) -> Option<String> {
    let choices = pv
        .about("choices")
        .as_array()
        .filter(|_| pv.value_type() == "Enum")?;
    let is_index = value.fract() == 0.0 && value >= 0.0;
    let label = choices.get(value as usize).filter(|_| is_index)?;
    label.as_str().map(str::to_owned)
}

fn shown_number(pv: &Pv, value: f64) -> String {
    text::number(value, pv.precision(), pv.value_type())
}

/// The text in an array of characters, up to the first NUL.
fn characters(value_type: &str, elements: &[Json]) -> Option<String> {
    if !matches!(value_type, "Int8" | "UInt8") {
        return None;
    }
    let bytes = elements.iter().map(|one| number(one) as i64 as u8);
    let bytes: Vec<u8> = bytes.take_while(|byte| *byte != 0).collect();
    Some(match String::from_utf8(bytes) {
        Ok(text) => text
            .strip_prefix('\u{feff}')
            .map_or_else(|| text.clone(), str::to_owned),
        Err(error) => error
            .as_bytes()
            .iter()
            .map(|byte| char::from(*byte))
            .collect(),
    })
}

fn string(pv: &Pv, value: &Json, kind: &Kind<'_>) -> String {
    match kind {
        Kind::Number(number) => choice(pv, *number).unwrap_or_else(|| shown_number(pv, *number)),
        Kind::Large(text) | Kind::Text(text) => (*text).to_owned(),
        Kind::Texts(texts) => {
            let quoted = |one: &Json| text::quoted(one.as_str().unwrap_or(""));
            listed(texts.len(), texts.iter().map(quoted))
        }
        Kind::Array(value_type, all) => {
            let is_text = pv.name.ends_with('$') || pv.about("form") == "String";
            let one = |one: &Json| match one.as_str() {
                Some(digits) if is_64(value_type) => digits.to_owned(),
                _ => shown_number(pv, number(one)),
            };
            characters(value_type, all)
                .filter(|_| is_text)
                .unwrap_or_else(|| listed(all.len(), all.iter().map(one)))
        }
        Kind::Structure => match elements::shown(value) {
            Json::Array(list) => format!("({} structures)", list.len()),
            _ => match pv.about("typeId").as_str() {
                None | Some("") => "(structure)".to_owned(),
                Some(type_id) => format!("({type_id})"),
            },
        },
        Kind::Unknown => "(a value of a type that this page doesn't know)".to_owned(),
    }
}

/// The first ten elements.
fn listed(count: usize, elements: impl Iterator<Item = String>) -> String {
    let shown: Vec<String> = elements.take(10).collect();
    let more = if count > 10 {
        format!(", … {count} elements")
    } else {
        String::new()
    };
    format!("[{}{more}]", shown.join(", "))
}
