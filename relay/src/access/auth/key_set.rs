//! The public keys that tokens are verified by, read from a JSON Web Key Set.

use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind};
use serde_json::Value;

/// A key as this relay has known it since it first read it, whatever set it stands in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyNumber(u64);

/// Keys that tokens may be signed by.
#[derive(Default)]
pub struct Keys {
    generation: u64,
    pub(super) list: Vec<Key>,
    /// Keys so far, of all generations.
    numbered: u64,
    /// They are too old to let anybody in.
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
    /// Reads a JSON Web Key Set. Keys of other kinds, and those that are no public keys for
    /// signatures, are passed over.
    ///
    /// # Errors
    /// When it is no such set, or has no key that can be used.
    pub fn read(text: &str) -> Result<Self, String> {
        let set: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let list = set.get("keys").and_then(Value::as_array);
        let list = list.ok_or("not a JSON Web Key Set: it has no \"keys\"")?;
        let list: Vec<_> = list.iter().filter_map(Key::read).collect();
        if list.is_empty() {
            return Err("no key for RS256, ES256 or EdDSA is in it".into());
        }
        Ok(Self {
            list,
            ..Self::default()
        })
    }

    /// Gives each key the number that it had among those before, or else a new one.
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

    /// The same keys, with which nobody logs in any more.
    pub(super) fn retired(&self) -> Self {
        let mut keys = Self {
            list: self.list.clone(),
            retired: true,
            ..Self::default()
        };
        keys.follow(self);
        keys
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Whether a key is among them.
    #[must_use]
    pub fn has(&self, key: KeyNumber) -> bool {
        self.list.iter().any(|known| known.number == key)
    }

    /// Changes when the keys do.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }
}

impl Key {
    /// Whether it verifies the same signatures, by whatever id.
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
        // What a key is good for follows from its kind, never from what a token says.
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
