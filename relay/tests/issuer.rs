//! An issuer of tokens, with keys that a test makes and replaces.

use std::time::{SystemTime, UNIX_EPOCH};

use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};

pub(crate) const AUDIENCE: &str = "pvwire";

pub(crate) const ISSUER: &str = "https://login.example.org";

pub(crate) fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let mut word = [0; 4];
        word[1..=three.len()].copy_from_slice(three);
        let word = u32::from_be_bytes(word);
        for digit in 0..=three.len() {
            let sextet = word >> (18 - 6 * digit) & 63;
            text.push(char::from(DIGITS[sextet as usize]));
        }
    }
    text
}

enum Pair {
    Es256(EcdsaKeyPair),
    EdDsa(Ed25519KeyPair),
}

/// A key that signs tokens.
pub(crate) struct Issuer {
    id: String,
    pair: Pair,
}

impl Issuer {
    pub(crate) fn es256(id: &str) -> Self {
        let (random, algorithm) = (SystemRandom::new(), &ECDSA_P256_SHA256_FIXED_SIGNING);
        let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random).unwrap();
        let (id, pair) = (id.to_owned(), Pair::Es256(pair));
        Self { id, pair }
    }

    pub(crate) fn eddsa(id: &str) -> Self {
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        let pair = Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap();
        let (id, pair) = (id.to_owned(), Pair::EdDsa(pair));
        Self { id, pair }
    }

    /// The same key with another id.
    pub(crate) fn renamed(self, id: &str) -> Self {
        Self {
            id: id.to_owned(),
            ..self
        }
    }

    fn jwk(&self) -> Value {
        match &self.pair {
            Pair::Es256(pair) => {
                let point = pair.public_key().as_ref();
                let (x, y) = (base64(&point[1..33]), base64(&point[33..]));
                json!({"kty": "EC", "crv": "P-256", "alg": "ES256", "kid": self.id, "x": x, "y": y})
            }
            Pair::EdDsa(pair) => {
                let x = base64(pair.public_key().as_ref());
                json!({"kty": "OKP", "crv": "Ed25519", "use": "sig", "kid": self.id, "x": x})
            }
        }
    }

    pub(crate) fn header(&self) -> Value {
        let algorithm = match self.pair {
            Pair::Es256(_) => "ES256",
            Pair::EdDsa(_) => "EdDSA",
        };
        json!({"alg": algorithm, "typ": "JWT", "kid": self.id})
    }

    pub(crate) fn sign(&self, header: &Value, claims: &Value) -> String {
        let [header, claims] = [header, claims].map(|part| base64(part.to_string().as_bytes()));
        let message = format!("{header}.{claims}");
        let signature = match &self.pair {
            Pair::Es256(pair) => {
                let signed = pair.sign(&SystemRandom::new(), message.as_bytes());
                base64(signed.unwrap().as_ref())
            }
            Pair::EdDsa(pair) => base64(pair.sign(message.as_bytes()).as_ref()),
        };
        format!("{message}.{signature}")
    }

    pub(crate) fn token(&self, claims: &Value) -> String {
        self.sign(&self.header(), claims)
    }
}

pub(crate) fn key_set(issuers: &[&Issuer]) -> String {
    let keys: Vec<_> = issuers.iter().map(|issuer| issuer.jwk()).collect();
    json!({ "keys": keys }).to_string()
}

pub(crate) fn seconds() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    since.as_secs().try_into().unwrap()
}

/// What a good token of `user` says.
pub(crate) fn claims(user: &str) -> Value {
    json!({
        "sub": user, "groups": ["staff"], "aud": AUDIENCE, "iss": ISSUER, "exp": seconds() + 600,
    })
}

pub(crate) fn with(mut claims: Value, key: &str, value: Value) -> Value {
    match value {
        Value::Null => claims.as_object_mut().unwrap().remove(key),
        value => claims.as_object_mut().unwrap().insert(key.into(), value),
    };
    claims
}

pub(crate) fn flags(keys: &str) -> Vec<String> {
    let audience = format!("--jwt-audience={AUDIENCE}");
    let issuer = format!("--jwt-issuer={ISSUER}");
    vec![
        "--auth=jwt".into(),
        format!("--jwt-keys={keys}"),
        audience,
        issuer,
    ]
}
