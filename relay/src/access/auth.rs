//! Identities of clients: by token, or as a trusted proxy states them.

mod key_set;
mod proxy;
mod verifier;

use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::{Algorithm, Validation};
use serde_json::{Map, Value};
use tokio::sync::Notify;

use self::key_set::Key;
pub use self::key_set::{KeyNumber, Keys};
pub use self::proxy::{Network, forwarded};
use self::verifier::PROVIDER;
use crate::access::rule::Identity;

/// Longest token that is looked at, in bytes.
const MAX_TOKEN_BYTES: usize = 16 << 10;

/// Longest name of a user or group, in bytes.
const MAX_IDENTITY_BYTES: usize = 256;

/// Most groups of one user.
const MAX_GROUPS: usize = 1000;

/// How far the clocks of the relay and of who issues the tokens may be apart.
const LEEWAY: Duration = Duration::from_secs(5);

/// What is known of a client from its handshake.
#[derive(Clone, Debug, Default)]
pub struct Peer {
    /// Where it connects from: address and port, or the address alone that a trusted proxy says.
    pub address: String,
    /// Origin of its page; empty for programs.
    pub origin: String,
    /// Who it is, as far as the handshake says.
    pub identity: Identity,
}

/// Somebody who has shown who he is, and until when that holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    /// Who.
    pub identity: Identity,
    /// Until when.
    pub until: SystemTime,
    /// The key that its token is signed by.
    pub key: KeyNumber,
}

/// Why a token isn't taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenError {
    /// It is signed by a key that isn't known. It may be a new one, which is being fetched.
    UnknownKey,
    /// For good.
    Refused(String),
}

/// What a token must say.
#[derive(Clone, Debug, Default)]
pub struct TokenRules {
    /// Whom it must be for.
    pub audience: String,
    /// Who must have issued it; empty for anybody whose key is known.
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
    /// Checks by these keys, until there are others.
    #[must_use]
    pub fn new(rules: TokenRules, mut keys: Keys) -> Self {
        keys.follow(&Keys::default());
        // Another provider of the process would do as well.
        let _ = PROVIDER.install_default();
        Self {
            rules,
            keys: RwLock::new(Arc::new(keys)),
            wanted: Notify::new(),
        }
    }

    /// From now on these keys are good.
    pub fn replace(&self, mut keys: Keys) {
        let mut place = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        keys.follow(&place);
        *place = Arc::new(keys);
    }

    /// The keys have expired: all log-ins are refused until there are others. Who has logged in by them stays
    /// until its token ends.
    pub fn retire(&self) {
        let mut place = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        *place = Arc::new(place.retired());
    }

    /// Those that are good now.
    #[must_use]
    pub fn keys(&self) -> Arc<Keys> {
        Arc::clone(&self.keys.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits until a token was signed by a key that isn't known.
    pub async fn wanted(&self) {
        self.wanted.notified().await;
    }

    /// Who a token is of.
    ///
    /// # Errors
    /// When it is not good, with the reason.
    pub fn check(&self, token: &str) -> Result<Login, TokenError> {
        let refused = |why: &str| Err(TokenError::Refused(why.to_owned()));
        if token.is_empty() {
            return refused("a token is needed to log in");
        }
        if token.len() > MAX_TOKEN_BYTES {
            return refused("the token is too long");
        }
        let known = [Algorithm::RS256, Algorithm::ES256, Algorithm::EdDSA];
        let header = jsonwebtoken::decode_header(token).ok();
        let Some(header) = header.filter(|header| known.contains(&header.alg)) else {
            return refused("the token is no JSON Web Token signed by RS256, ES256 or EdDSA");
        };
        if header.crit.is_some() {
            return refused("the token asks for an extension that this relay doesn't know");
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
        match why {
            Some(why) => Err(TokenError::Refused(why)),
            None => {
                self.wanted.notify_one();
                Err(TokenError::UnknownKey)
            }
        }
    }

    fn check_by(&self, token: &str, key: &Key) -> Result<Login, String> {
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
            .map_err(|error| describe(&error))?;
        let user = token.claims.get(&self.rules.user_claim);
        let user = user.and_then(Value::as_str).filter(|user| is_name(user));
        let claim = &self.rules.user_claim;
        let user = user.ok_or_else(|| format!("the token names no user in {claim:?}"))?;
        let until = (token.claims.get("exp").and_then(Value::as_f64))
            .filter(|seconds| (0.0..1e11).contains(seconds))
            .ok_or("the token doesn't say when it expires")?;
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

/// Whether something can be the name of a user or group.
#[must_use]
pub fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= MAX_IDENTITY_BYTES && !name.contains(char::is_control)
}

/// Groups as a list or, as in a scope, with blanks between them.
fn groups(claim: Option<&Value>) -> Vec<String> {
    let names: Vec<&str> = match claim {
        Some(Value::String(text)) => text.split(' ').collect(),
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let names = names.into_iter().filter(|name| is_name(name));
    names.take(MAX_GROUPS).map(str::to_owned).collect()
}

fn describe(error: &Error) -> String {
    match error.kind() {
        ErrorKind::ExpiredSignature => "the token has expired".into(),
        ErrorKind::ImmatureSignature => "the token is not valid yet".into(),
        ErrorKind::InvalidAudience => "the token is for somebody else (aud)".into(),
        ErrorKind::InvalidIssuer => "the token was issued by somebody else (iss)".into(),
        ErrorKind::InvalidSignature => "the token's signature is wrong".into(),
        ErrorKind::MissingRequiredClaim(claim) => format!("the token has no {claim:?}"),
        _ => "the token can't be read".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Signed once by a key that nobody has any more; long expired.
    #[test]
    fn signature_by_rsa_is_read_and_a_changed_one_refused() {
        let keys = r#"{"keys": [{"kty": "RSA", "e": "AQAB", "n": "izrpblHL7X5eRuxBHkI1dq9sIABWLGTbTKfpwAcXb8bEwa2vAA__QOa-Bqmk31V0vliYMEuq_AZYmmTc0CYPPW6wE2f-t7JoM0OEasp1KjFAq7GzOnEAJi1qmHmMIjRv6_ChC5ir7VRoKGko-lW3lCy8yc_Y0s3ODKLK31mZBzWy9BQ0SIuWMKODlkjFxO-QUirAxpVL2YwNiINf-UPRUlQ4bvu3n093nEVaYQmWOL7fI4MJ6-cs8Yz6TB_j7xppMAVjG2mW7OazUKOqJ_A7C6-xr8tnbPaYh-07ca2UWB7w-ByWPfFigR1guMfrHguGes7S8jxRj0PqKEaC5U2Udw"}]}"#;
        let token = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJqYW5lIiwiYXVkIjoicHZ3aXJlIiwiZXhwIjoxMzAwODE5MzgwfQ.DXdKTHb0vImdavR6LjatHA2io8upamt1xZG7gY-E1fQUBwAExn2udVmzRy5HzVNZF2_mcW-SLtmTZvaXL9ciEx4ZTLvgPxhqEqIwcccL004yPl0Hbr2F86FNXm_PP-qmK0uCxQvufE1b0p8s9hErbes9SFlDKzWLZ-3pPTKktvO4MoALqRy9synBhb84N8p4kMvotBS8CIU-8dT0XMIhgj56ETqNvVjsz-Sx7Z5DvadCtKLhSEvvYfMlZad37g9A30OO0fREuy22uvB0w4gAo5GovMqKAvVES9IwsR5y5_rjhJwjL3EqkQbHszN4Dwii2YDnIcMA5NiSnntm7UtLKQ";
        let rules = TokenRules {
            audience: "pvwire".into(),
            user_claim: "sub".into(),
            ..TokenRules::default()
        };
        let tokens = Tokens::new(rules, Keys::read(keys).unwrap());
        let why = |token: &str| match tokens.check(token).unwrap_err() {
            TokenError::Refused(why) => why,
            TokenError::UnknownKey => panic!("the key is known"),
        };
        assert_eq!(why(token), "the token has expired");
        let (message, signature) = token.rsplit_once('.').unwrap();
        let first = if signature.starts_with('A') { "B" } else { "A" };
        let changed = format!("{message}.{first}{}", &signature[1..]);
        assert_eq!(why(&changed), "the token's signature is wrong");
    }

    #[test]
    fn key_keeps_its_number_while_it_stands_in_a_set_by_whatever_id() {
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
        // It was away: whoever removed it meant it.
        tokens.replace(set(&[key("c", x)]));
        assert!(!tokens.keys().has(first));
    }
}
