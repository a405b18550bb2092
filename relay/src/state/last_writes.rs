//! The last write to each PV that clients of this relay have made.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use serde_json::Value;

/// PVs whose last writes are kept; of more, the half that was written longest ago is forgotten.
const MAX_PVS: usize = 10_000;

/// Characters of a text that are kept.
const MAX_TEXT: usize = 80;

/// A write to a PV.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastWrite {
    /// When its outcome was known.
    pub at: SystemTime,
    /// The user, if the client has one.
    pub user: Option<String>,
    /// The client's address.
    pub address: String,
    /// A number, or the beginning of a text; null for an array.
    pub value: Value,
    /// Whether the server has confirmed it; without an answer in time it may have been done.
    pub is_confirmed: bool,
}

/// The last writes by the names of their PVs.
#[derive(Debug, Default)]
pub struct LastWrites(Mutex<HashMap<String, LastWrite>>);

impl LastWrites {
    /// Notes a write.
    pub fn note(&self, name: &str, mut write: LastWrite) {
        write.value = match write.value {
            Value::String(text) => text.chars().take(MAX_TEXT).collect::<String>().into(),
            Value::Number(number) => Value::Number(number),
            _ => Value::Null,
        };
        let mut writes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if writes.len() >= MAX_PVS && !writes.contains_key(name) {
            let mut times: Vec<_> = writes.values().map(|write| write.at).collect();
            let (_, middle, _) = times.select_nth_unstable(MAX_PVS / 2);
            let middle = *middle;
            writes.retain(|_, write| write.at > middle);
        }
        writes.insert(name.to_owned(), write);
    }

    /// The last write to a PV.
    #[must_use]
    pub fn of(&self, name: &str) -> Option<LastWrite> {
        let writes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        writes.get(name).cloned()
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    fn write(seconds: u64, value: impl Into<Value>) -> LastWrite {
        LastWrite {
            at: UNIX_EPOCH + Duration::from_secs(seconds),
            user: None,
            address: "127.0.0.1".to_owned(),
            value: value.into(),
            is_confirmed: true,
        }
    }

    #[test]
    fn oldest_half_is_forgotten_and_long_values_are_cut() {
        let writes = LastWrites::default();
        let count = MAX_PVS as u64;
        for number in 0..count {
            writes.note(&number.to_string(), write(number, 1.5));
        }
        assert_eq!(writes.of("0"), Some(write(0, 1.5)));
        writes.note("0", write(count, "x".repeat(1000)));
        assert_eq!(writes.of("0"), Some(write(count, "x".repeat(MAX_TEXT))));
        writes.note("new", write(count, vec![1, 2]));
        assert_eq!(writes.of("new"), Some(write(count, Value::Null)));
        assert_eq!(writes.of("1"), None);
        assert!(writes.of("0").is_some() && writes.of(&(count - 1).to_string()).is_some());
        let kept = writes.0.lock().unwrap().len();
        assert!(
            (MAX_PVS / 2 - 1..=MAX_PVS / 2 + 1).contains(&kept),
            "{kept}"
        );
    }
}
