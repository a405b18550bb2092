//! Compares results.

use serde_json::Value as Json;

/// Whether two results are the same; 1 and 1.0 are the same number.
pub(crate) fn same(a: &Json, b: &Json) -> bool {
    match (a, b) {
        (Json::Number(a), Json::Number(b)) => a.as_f64() == b.as_f64(),
        (Json::Array(a), Json::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Json::Object(a), Json::Object(b)) => {
            let is_in = |(key, a): (&String, &Json)| b.get(key).is_some_and(|b| same(a, b));
            a.len() == b.len() && a.iter().all(is_in)
        }
        (a, b) => a == b,
    }
}
