//! The public keys that tokens are verified by, read from a JSON Web Key Set.

use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind};
use serde_json::Value;
use thiserror::Error;

/// Identifies a key across the sets that contain it, from the first on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyNumber(u64);

/// Why a key set can't be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum KeySetError {
    /// It isn't JSON.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// It has no list of keys.
    #[error("not a JSON Web Key Set: it has no \"keys\"")]
    NoList,
    /// None of its keys can verify tokens.
    #[error("it has no key for RS256, ES256 or EdDSA")]
    NoKey,
}

/// The keys that verify tokens.
#[derive(Default)]
pub struct Keys {
    generation: u64,
    pub(super) list: Vec<Key>,
    /// Keys numbered so far, in all generations.
    numbered: u64,
    /// The keys are too old: all log-ins are refused.
    pub(super) retired: bool,
}

#[derive(Clone)]
pub(super) struct Key {
    pub(super) number: KeyNumber,
    pub(super) id: Option<String>,
    pub(super) algorithm: Algorithm,
    pub(super) key: DecodingKey,
}

impl Keys {
    /// Reads a JSON Web Key Set. Keys of other kinds or for other purposes are ignored.
    ///
    /// # Errors
    /// When it isn't a key set, or has no usable key.
    pub fn read(text: &str) -> Result<Self, KeySetError> {
        let set: Value = serde_json::from_str(text)?;
        let list = set.get("keys").and_then(Value::as_array);
        let list = list.ok_or(KeySetError::NoList)?;
        let list: Vec<_> = list.iter().filter_map(Key::read).collect();
        if list.is_empty() {
            return Err(KeySetError::NoKey);
        }
        Ok(Self {
            list,
            ..Self::default()
        })
    }

    /// Gives each key the number that it had in the set before, or a new one.
    pub(super) fn follow(&mut self, before: &Self) {
        self.generation = before.generation + 1;
        self.numbered = before.numbered;
        for key in &mut self.list {
            let same = before.list.iter().find(|known| known.is_same(key));
            key.number = same.map_or_else(
                || {
                    self.numbered += 1;
                    KeyNumber(self.numbered)
                },
                |known| known.number,
            );
        }
    }

    /// The same keys, marked as too old.
    pub(super) fn retired(&self) -> Self {
        let mut keys = Self {
            list: self.list.clone(),
            retired: true,
            ..Self::default()
        };
        keys.follow(self);
        keys
    }

    /// Whether it has no keys.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Whether it contains a key.
    #[must_use]
    pub fn has(&self, key: KeyNumber) -> bool {
        self.list.iter().any(|known| known.number == key)
    }

    /// Counts the changes of the keys.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }
}

impl Key {
    /// Whether it verifies the same signatures; the ids may differ.
    fn is_same(&self, other: &Self) -> bool {
        let material = match (self.key.kind(), other.key.kind()) {
            (
                DecodingKeyKind::RsaModulusExponent { n, e },
                DecodingKeyKind::RsaModulusExponent {
                    n: other_n,
                    e: other_e,
                },
            ) => (n, e) == (other_n, other_e),
            (DecodingKeyKind::SecretOrDer(key), DecodingKeyKind::SecretOrDer(other)) => {
                key == other
            }
            _ => false,
        };
        material && self.algorithm == other.algorithm
    }

    fn read(value: &Value) -> Option<Self> {
        let text = |name: &str| value.get(name).and_then(Value::as_str);
        // The key's kind decides its algorithm, never the token.
        let algorithm = match (text("kty")?, text("crv")) {
            ("RSA", _) => Algorithm::RS256,
            ("EC", Some("P-256")) => Algorithm::ES256,
            ("OKP", Some("Ed25519")) => Algorithm::EdDSA,
            _ => return None,
        };
        let named = text("alg").is_none_or(|name| name == format!("{algorithm:?}"));
        if !named || text("use").is_some_and(|purpose| purpose != "sig") {
            return None;
        }
        let jwk: Jwk = serde_json::from_value(value.clone()).ok()?;
        Some(Self {
            number: KeyNumber::default(),
            id: text("kid").map(str::to_owned),
            algorithm,
            key: DecodingKey::from_jwk(&jwk).ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_without_a_public_key_for_signatures_is_refused() {
        for bad in [
            "",
            "[]",
            r#"{"keys": []}"#,
            r#"{"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}"#,
            r#"{"keys": [{"kty": "RSA", "alg": "RSA-OAEP", "n": "AQAB", "e": "AQAB"}]}"#,
            r#"{"keys": [{"kty": "RSA", "use": "enc", "n": "AQAB", "e": "AQAB"}]}"#,
            r#"{"keys": [{"kty": "RSA", "alg": "HS256", "n": "AQAB", "e": "AQAB"}]}"#,
            r#"{"keys": [{"kty": "EC", "crv": "P-384", "x": "AQAB", "y": "AQAB"}]}"#,
        ] {
            assert!(Keys::read(bad).is_err(), "{bad}");
        }
    }
}
