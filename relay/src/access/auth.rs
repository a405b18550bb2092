//! Identities of clients: by token, or as a trusted proxy states them.

mod key_set;
mod proxy;
mod verifier;

use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::{Algorithm, Validation};
use serde_json::{Map, Value};
use thiserror::Error as ThisError;
use tokio::sync::Notify;

use self::key_set::Key;
pub use self::key_set::{KeyNumber, KeySetError, Keys};
pub use self::proxy::{Network, forwarded};
use self::verifier::PROVIDER;
use crate::access::rule::Identity;

/// Longest accepted token, in bytes.
const MAX_TOKEN_BYTES: usize = 16 << 10;

/// Longest name of a user or group, in bytes.
const MAX_IDENTITY_BYTES: usize = 256;

/// Most groups of one user.
const MAX_GROUPS: usize = 1000;

/// Tolerated difference between the clocks of the relay and of the tokens' issuer.
const LEEWAY: Duration = Duration::from_secs(5);

/// What is known of a client from its handshake.
#[derive(Clone, Debug, Default)]
pub struct Peer {
    /// Its address and port, or the address that a trusted proxy states.
    pub address: String,
    /// Origin of its page; empty for programs.
    pub origin: String,
    /// Its identity by the handshake.
    pub identity: Identity,
}

/// An identity that a token proved, and its expiry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    /// The token's user and groups.
    pub identity: Identity,
    /// Expiry of the token.
    pub until: SystemTime,
    /// The key that verified the token.
    pub key: KeyNumber,
}

/// Why a token is refused.
#[derive(Clone, Debug, PartialEq, Eq, ThisError)]
pub enum TokenError {
    /// The relay doesn't know the key that signed it. It may be a new one, which is being fetched.
    #[error("the token is signed by a key that the relay doesn't know")]
    UnknownKey,
    /// For good.
    #[error(transparent)]
    Refused(#[from] TokenRefusal),
}

/// Why a token is refused for good; clients read it.
#[derive(Clone, Debug, PartialEq, Eq, ThisError)]
#[non_exhaustive]
pub enum TokenRefusal {
    /// The relay authenticates its clients in another way.
    #[error("this relay takes no tokens")]
    NotTaken,
    /// The client sent none.
    #[error("a token is needed to log in")]
    Missing,
    /// It is longer than `MAX_TOKEN_BYTES`.
    #[error("the token is longer than {MAX_TOKEN_BYTES} bytes")]
    TooLong,
    /// It isn't a JWT, or has another algorithm.
    #[error("the token is not a JSON Web Token signed by RS256, ES256 or EdDSA")]
    NotAToken,
    /// Its header has `crit`.
    #[error("the token requires an extension that this relay doesn't support (crit)")]
    Extension,
    /// It has expired.
    #[error("the token has expired")]
    Expired,
    /// `nbf` is in the future.
    #[error("the token is not valid yet")]
    NotYet,
    /// `aud` isn't the relay's.
    #[error("the token is for another audience (aud)")]
    Audience,
    /// `iss` isn't the issuer that the relay trusts.
    #[error("the token is from another issuer (iss)")]
    Issuer,
    /// The signature doesn't fit.
    #[error("the token's signature is wrong")]
    Signature,
    /// A required claim is missing.
    #[error("the token has no {0:?}")]
    Claim(String),
    /// The claim with the user's name is missing or isn't a name.
    #[error("the token names no user in {0:?}")]
    User(String),
    /// `exp` isn't a time.
    #[error("the token doesn't say when it expires")]
    Expiry,
    /// It is damaged.
    #[error("the token can't be read")]
    Unreadable,
}

/// Claims that a token must have.
#[derive(Clone, Debug, Default)]
pub struct TokenRules {
    /// The required audience.
    pub audience: String,
    /// The required issuer; empty for every issuer whose key is known.
    pub issuer: String,
    /// The claim with the user's name.
    pub user_claim: String,
    /// The claim with the groups.
    pub groups_claim: String,
}

/// Checks tokens by keys that may be replaced at any time.
pub struct Tokens {
    rules: TokenRules,
    keys: RwLock<Arc<Keys>>,
    wanted: Notify,
}

impl Tokens {
    /// Checks tokens by these keys until they are replaced.
    #[must_use]
    pub fn new(rules: TokenRules, mut keys: Keys) -> Self {
        keys.follow(&Keys::default());
        // An error means that the process has a provider, which serves as well.
        let _ = PROVIDER.install_default();
        Self {
            rules,
            keys: RwLock::new(Arc::new(keys)),
            wanted: Notify::new(),
        }
    }

    /// Replaces the keys.
    pub fn replace(&self, mut keys: Keys) {
        let mut place = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        keys.follow(&place);
        *place = Arc::new(keys);
    }

    /// Marks the keys as expired: all log-ins are refused until there are new keys. Clients that
    /// are logged in stay until their token expires.
    pub fn retire(&self) {
        let mut place = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        *place = Arc::new(place.retired());
    }

    /// The current keys.
    #[must_use]
    pub fn keys(&self) -> Arc<Keys> {
        Arc::clone(&self.keys.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits for a token that an unknown key signed.
    pub async fn wanted(&self) {
        self.wanted.notified().await;
    }

    /// The identity that a token proves.
    ///
    /// # Errors
    /// When the token isn't valid.
    pub fn check(&self, token: &str) -> Result<Login, TokenError> {
        if token.is_empty() {
            return Err(TokenRefusal::Missing.into());
        }
        if token.len() > MAX_TOKEN_BYTES {
            return Err(TokenRefusal::TooLong.into());
        }
        let known = [Algorithm::RS256, Algorithm::ES256, Algorithm::EdDSA];
        let header = jsonwebtoken::decode_header(token).ok();
        let header = header.filter(|header| known.contains(&header.alg));
        let header = header.ok_or(TokenRefusal::NotAToken)?;
        if header.crit.is_some() {
            return Err(TokenRefusal::Extension.into());
        }
        let keys = self.keys();
        let fits = |key: &&Key| {
            key.algorithm == header.alg && (header.kid.is_none() || key.id == header.kid)
        };
        let mut why = None;
        for key in keys.list.iter().filter(fits).filter(|_| !keys.retired) {
            match self.check_by(token, key) {
                Ok(login) => return Ok(login),
                Err(error) => why = Some(error),
            }
        }
        Err(why.map_or_else(
            || {
                self.wanted.notify_one();
                TokenError::UnknownKey
            },
            TokenError::from,
        ))
    }

    fn check_by(&self, token: &str, key: &Key) -> Result<Login, TokenRefusal> {
        let mut validation = Validation::new(key.algorithm);
        validation.leeway = LEEWAY.as_secs();
        validation.validate_nbf = true;
        validation.set_audience(&[&self.rules.audience]);
        let mut needed = vec!["exp", "aud"];
        if !self.rules.issuer.is_empty() {
            validation.set_issuer(&[&self.rules.issuer]);
            needed.push("iss");
        }
        validation.set_required_spec_claims(&needed);
        let token = jsonwebtoken::decode::<Map<String, Value>>(token, &key.key, &validation)
            .map_err(|error| refusal(&error))?;
        let claim = &self.rules.user_claim;
        let user = token.claims.get(claim).and_then(Value::as_str);
        let user = user.filter(|user| is_name(user));
        let user = user.ok_or_else(|| TokenRefusal::User(claim.clone()))?;
        let until = (token.claims.get("exp").and_then(Value::as_f64))
            .filter(|seconds| (0.0..1e11).contains(seconds))
            .ok_or(TokenRefusal::Expiry)?;
        Ok(Login {
            identity: Identity {
                user: Some(user.to_owned()),
                groups: groups(token.claims.get(&self.rules.groups_claim)),
            },
            until: UNIX_EPOCH + Duration::from_secs_f64(until) + LEEWAY,
            key: key.number,
        })
    }
}

/// Whether a text can be the name of a user or group.
#[must_use]
pub fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= MAX_IDENTITY_BYTES && !name.contains(char::is_control)
}

/// Groups as a list, or separated by spaces as in a scope.
fn groups(claim: Option<&Value>) -> Vec<String> {
    let names: Vec<&str> = match claim {
        Some(Value::String(text)) => text.split(' ').collect(),
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let names = names.into_iter().filter(|name| is_name(name));
    names.take(MAX_GROUPS).map(str::to_owned).collect()
}

fn refusal(error: &Error) -> TokenRefusal {
    match error.kind() {
        ErrorKind::ExpiredSignature => TokenRefusal::Expired,
        ErrorKind::ImmatureSignature => TokenRefusal::NotYet,
        ErrorKind::InvalidAudience => TokenRefusal::Audience,
        ErrorKind::InvalidIssuer => TokenRefusal::Issuer,
        ErrorKind::InvalidSignature => TokenRefusal::Signature,
        ErrorKind::MissingRequiredClaim(claim) => TokenRefusal::Claim(claim.clone()),
        _ => TokenRefusal::Unreadable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Signed by a key that was thrown away; expired long ago.
    #[test]
    fn rsa_signature_is_verified_and_a_changed_one_refused() {
        let keys = r#"{"keys": [{"kty": "RSA", "e": "AQAB", "n": "izrpblHL7X5eRuxBHkI1dq9sIABWLGTbTKfpwAcXb8bEwa2vAA__QOa-Bqmk31V0vliYMEuq_AZYmmTc0CYPPW6wE2f-t7JoM0OEasp1KjFAq7GzOnEAJi1qmHmMIjRv6_ChC5ir7VRoKGko-lW3lCy8yc_Y0s3ODKLK31mZBzWy9BQ0SIuWMKODlkjFxO-QUirAxpVL2YwNiINf-UPRUlQ4bvu3n093nEVaYQmWOL7fI4MJ6-cs8Yz6TB_j7xppMAVjG2mW7OazUKOqJ_A7C6-xr8tnbPaYh-07ca2UWB7w-ByWPfFigR1guMfrHguGes7S8jxRj0PqKEaC5U2Udw"}]}"#;
        let token = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJqYW5lIiwiYXVkIjoicHZ3aXJlIiwiZXhwIjoxMzAwODE5MzgwfQ.DXdKTHb0vImdavR6LjatHA2io8upamt1xZG7gY-E1fQUBwAExn2udVmzRy5HzVNZF2_mcW-SLtmTZvaXL9ciEx4ZTLvgPxhqEqIwcccL004yPl0Hbr2F86FNXm_PP-qmK0uCxQvufE1b0p8s9hErbes9SFlDKzWLZ-3pPTKktvO4MoALqRy9synBhb84N8p4kMvotBS8CIU-8dT0XMIhgj56ETqNvVjsz-Sx7Z5DvadCtKLhSEvvYfMlZad37g9A30OO0fREuy22uvB0w4gAo5GovMqKAvVES9IwsR5y5_rjhJwjL3EqkQbHszN4Dwii2YDnIcMA5NiSnntm7UtLKQ";
        let rules = TokenRules {
            audience: "pvwire".into(),
            user_claim: "sub".into(),
            ..TokenRules::default()
        };
        let tokens = Tokens::new(rules, Keys::read(keys).unwrap());
        let why = |token: &str| tokens.check(token).unwrap_err().to_string();
        assert_eq!(why(token), "the token has expired");
        let (message, signature) = token.rsplit_once('.').unwrap();
        let first = if signature.starts_with('A') { "B" } else { "A" };
        let changed = format!("{message}.{first}{}", &signature[1..]);
        assert_eq!(why(&changed), "the token's signature is wrong");
    }

    #[test]
    fn key_keeps_its_number_under_another_id() {
        let key = |id: &str, x: &str| {
            format!(r#"{{"kty": "OKP", "crv": "Ed25519", "kid": "{id}", "x": "{x}"}}"#)
        };
        let [x, y] = [
            "eGIZ7GXH9vYDQCN9aJBBFUezqkqQ4qLSLZerpCF_R0M",
            "xGIZ7GXH9vYDQCN9aJBBFUezqkqQ4qLSLZerpCF_R0M",
        ];
        let set =
            |keys: &[String]| Keys::read(&format!(r#"{{"keys": [{}]}}"#, keys.join(","))).unwrap();
        let numbers = |tokens: &Tokens| {
            let keys = tokens.keys();
            keys.list.iter().map(|key| key.number).collect::<Vec<_>>()
        };
        let tokens = Tokens::new(TokenRules::default(), set(&[key("a", x)]));
        let first = numbers(&tokens)[0];
        tokens.replace(set(&[key("b", y), key("c", x)]));
        let both = numbers(&tokens);
        assert_eq!(both[1], first);
        assert_ne!(both[0], first);
        tokens.retire();
        assert_eq!(numbers(&tokens), both);
        tokens.replace(set(&[key("b", y)]));
        assert!(!tokens.keys().has(first) && tokens.keys().has(both[0]));
        // A key that was removed comes back as a new one.
        tokens.replace(set(&[key("c", x)]));
        assert!(!tokens.keys().has(first));
    }
}
