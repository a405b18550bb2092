//! Who is it that connects: what does a token say, and which proxy is believed?

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jsonwebtoken::crypto::{CryptoProvider, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{Error, ErrorKind, Result as JwtResult};
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind, Validation};
use ring::signature as ring_signature;
use serde_json::{Map, Value};
use tokio::sync::Notify;

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

/// A key as this relay has known it since it first read it, whatever set it stands in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyNumber(u64);

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

/// Keys that tokens may be signed by.
#[derive(Default)]
pub struct Keys {
    generation: u64,
    list: Vec<Key>,
    /// Keys so far, of all generations.
    numbered: u64,
    /// They are too old to let anybody in.
    retired: bool,
}

#[derive(Clone)]
struct Key {
    number: KeyNumber,
    id: Option<String>,
    algorithm: Algorithm,
    key: DecodingKey,
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
    fn follow(&mut self, before: &Self) {
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
        let list = place.list.iter().map(Key::clone).collect();
        let mut keys = Keys {
            list,
            ..Keys::default()
        };
        keys.follow(&place);
        keys.retired = true;
        *place = Arc::new(keys);
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

/// Signatures by the library that TLS uses too. It makes none.
static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: |_, _| Err(ErrorKind::InvalidAlgorithm.into()),
    verifier_factory: |algorithm, key| verifier(*algorithm, key),
    key_utils: KeyUtils::new_unimplemented(),
};

struct Verifier {
    algorithm: Algorithm,
    key: DecodingKey,
}

fn verifier(algorithm: Algorithm, key: &DecodingKey) -> JwtResult<Box<dyn JwtVerifier>> {
    let key = key.clone();
    Ok(Box::new(Verifier { algorithm, key }))
}

impl signature::Verifier<Vec<u8>> for Verifier {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), signature::Error> {
        let verified = match (self.algorithm, self.key.kind()) {
            (Algorithm::RS256, DecodingKeyKind::RsaModulusExponent { n, e }) => {
                let parameters = &ring_signature::RSA_PKCS1_2048_8192_SHA256;
                let key = ring_signature::RsaPublicKeyComponents { n, e };
                key.verify(parameters, message, signature)
            }
            (Algorithm::ES256, DecodingKeyKind::SecretOrDer(key)) => {
                let parameters = &ring_signature::ECDSA_P256_SHA256_FIXED;
                ring_signature::UnparsedPublicKey::new(parameters, key).verify(message, signature)
            }
            (Algorithm::EdDSA, DecodingKeyKind::SecretOrDer(key)) => {
                let parameters = &ring_signature::ED25519;
                ring_signature::UnparsedPublicKey::new(parameters, key).verify(message, signature)
            }
            _ => Err(ring::error::Unspecified),
        };
        verified.map_err(|_| signature::Error::new())
    }
}

impl JwtVerifier for Verifier {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

/// Addresses that begin with the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

impl Network {
    /// Reads `10.1.0.0/16`, `fd00::/8` or a single address.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Some(most), |bits| bits.parse().ok())?;
        (bits <= most).then_some(Self { address, bits })
    }

    /// Whether an address is in it. An IPv4 address counts as itself also when it comes as IPv6.
    #[must_use]
    pub fn holds(&self, address: IpAddr) -> bool {
        let differing = match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                u128::from(own.to_bits() ^ other.to_bits()) << 96
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => own.to_bits() ^ other.to_bits(),
            _ => return false,
        };
        differing.leading_zeros() >= u32::from(self.bits)
    }
}

/// The address of the client of a proxy that these `networks` trust, by its `X-Forwarded-For`. Each proxy
/// adds at the end whom it was called by, so it is the last entry that isn't a trusted proxy itself: what
/// stands before it the client may have written. `None` when no entry says it.
#[must_use]
pub fn forwarded<'a>(
    entries: impl DoubleEndedIterator<Item = &'a str>,
    networks: &[Network],
) -> Option<IpAddr> {
    let mut first = None;
    for entry in entries.rev() {
        let address = forwarded_address(entry.trim())?;
        if !networks.iter().any(|network| network.holds(address)) {
            return Some(address);
        }
        first = Some(address);
    }
    first
}

/// An entry of `X-Forwarded-For`: an address, with or without a port.
fn forwarded_address(entry: &str) -> Option<IpAddr> {
    let address = entry.parse().ok();
    let address = address.or_else(|| Some(entry.parse::<SocketAddr>().ok()?.ip()));
    let bare = || entry.strip_prefix('[')?.strip_suffix(']');
    address.or_else(|| bare()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_of_a_proxy_is_the_last_that_is_no_trusted_proxy_itself() {
        let networks = ["10.0.0.0/8", "fd00::/8"].map(|text| Network::read(text).unwrap());
        for (entries, client) in [
            ("192.0.2.7", Some("192.0.2.7")),
            ("192.0.2.7:4711", Some("192.0.2.7")),
            ("2001:db8::7", Some("2001:db8::7")),
            ("[2001:db8::7]:4711", Some("2001:db8::7")),
            ("[2001:db8::7]", Some("2001:db8::7")),
            ("203.0.113.1, 192.0.2.7", Some("192.0.2.7")),
            (
                "203.0.113.1, 192.0.2.7, 10.1.2.3, fd00::1",
                Some("192.0.2.7"),
            ),
            ("10.9.9.9, 10.1.2.3", Some("10.9.9.9")),
            // What isn't an address may hide one: nothing before it is believed.
            ("192.0.2.7, unknown", None),
            ("192.0.2.7, _hidden, 10.1.2.3", None),
            ("", None),
        ] {
            let found = forwarded(entries.split(','), &networks);
            assert_eq!(
                found,
                client.map(|client| client.parse().unwrap()),
                "{entries}"
            );
        }
        assert_eq!(forwarded([].into_iter(), &networks), None);
    }

    #[test]
    fn network_holds_the_addresses_that_begin_as_it_does() {
        for (network, address, holds) in [
            ("10.1.0.0/16", "10.1.255.3", true),
            ("10.1.0.0/16", "10.2.0.0", false),
            ("10.1.0.0/16", "::ffff:10.1.2.3", true),
            ("0.0.0.0/0", "192.0.2.1", true),
            ("0.0.0.0/0", "2001:db8::1", false),
            ("127.0.0.1", "127.0.0.1", true),
            ("127.0.0.1", "127.0.0.2", false),
            ("fd00::/8", "fd12::1", true),
            ("fd00::/8", "fe80::1", false),
        ] {
            let network = Network::read(network).unwrap();
            assert_eq!(
                network.holds(address.parse().unwrap()),
                holds,
                "{network:?} {address}"
            );
        }
        for bad in [
            "",
            "10.1.0.0/33",
            "10.1.0.0/",
            "10.1/16",
            "proxy",
            "::/129",
            "10.0.0.1/-1",
        ] {
            assert_eq!(Network::read(bad), None, "{bad}");
        }
    }

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
