//! Target `tokens`: no changed token or key set may log a user in.

use std::cell::OnceCell;

use pvwire_relay::access::auth::{Keys, TokenRules, Tokens, is_name};

/// Public keys for RS256, ES256 and EdDSA, whose private keys were thrown away.
const KEYS: &str = r#"{"keys":[{"kty":"RSA","kid":"r","e":"AQAB","n":"vge5ewVgVzSQyZV2ujByf05Pe0uu7M8mkt2giImKsFZ3w5yyKNISaTzQlMBiwiNsBatpgaP9XqE1TvDtSZ5zK0csuTdzZONksxbPjfQxn3iBQlBwL-BuTwl_H2C0wgcOerSRmU7LBO34IZTFnWHUZXxh55aSKxzfZDecv32BRpAm_ONbElhwYYzReuWO-m18bv1IQA4g6pBqW4cznwiAzB6ckgBXHo0UDq6CuDL_o4j22zVzXKiQXIA7yE982GufJUhKvG7zE5n67RXY79U_9siDG8ZyLrBLWmfjGd_L4ZFGDfeRaykWkBhLjcjrnrmT48JxgGYXcsFBq8rVT1f07Q"},{"kty":"EC","crv":"P-256","alg":"ES256","kid":"e","x":"LjWh6KLwmDdFd8SO-eMcrptqkJ6d0ODYoGe5ybKhVyc","y":"bC_H8dvhpPn1Es7mw-EOHUJsCB-XOSFjgC_jDHUXFP4"},{"kty":"OKP","crv":"Ed25519","use":"sig","kid":"d","x":"eGIZ7GXH9vYDQCN9aJBBFUezqkqQ4qLSLZerpCF_R0M"}]}"#;

/// A token signed by each of them, valid for a thousand years.
const TOKENS: [&str; 3] = [
    "eyJhbGciOiJSUzI1NiIsImtpZCI6InIifQ.eyJzdWIiOiJqYW5lIiwiZ3JvdXBzIjpbInN0YWZmIiwiYSBiIl0sImF1ZCI6InB2d2lyZSIsImV4cCI6OTAwMDAwMDAwMDB9.aXQVw-CMuX3ZbjsjHo2F3ivCfDbtXfi92RUzLYYVJUkyNsOEa45HT2enFi_902cZkt75BPp5ODb8ygPkrt5GgRKLTuWM2ul1zpxw_FFtSh8oQgZbKEPGCZYSPMfpJKuRVsqcubUHT_OnuQKHuclh2kQXvm8vBl3-V2F_atft9oSpPYjPDSfzDnts8iBzx709AFBy9uNsWdyN-00ESBjiQxNM8ww5WWZ7XKJbmqwYic98cAJyipUF8BgI8mFcb9Xtn5tCuxVKuvsJxq-AtbCF_OYFfQ9i1ox3FAxAuNrkBf8KDmLW0Gd-dfp6bQz6U2iXQUJ5kJKoMBPp3LSk8IeHHA",
    "eyJhbGciOiJFUzI1NiIsImtpZCI6ImUifQ.eyJzdWIiOiJqYW5lIiwiZ3JvdXBzIjoic3RhZmYgb3BlcmF0b3JzIiwiYXVkIjpbIm90aGVyIiwicHZ3aXJlIl0sImV4cCI6OTAwMDAwMDAwMDAuMCwibmJmIjoxLCJpYXQiOjF9.LvtyyeIOND91Ob66cD5KlQ7fSuSRgrEfimxSjwxqjoLuGuQBylgS3NcUFmJoOZ2zhKH6nktqyr0lFKQTCbuccw",
    "eyJhbGciOiJFZERTQSIsImtpZCI6ImQifQ.eyJzdWIiOiJqYW5lIiwiZ3JvdXBzIjpbInN0YWZmIiwiYSBiIl0sImF1ZCI6InB2d2lyZSIsImV4cCI6OTAwMDAwMDAwMDB9.VVLnZVEWiU4DAUhqcavjTG2j1sWdHiIOaaFUz7H9b3Gd3OQ9KlCtLgRKXy7_hq5XvyBs-eIQ-fjtI5oG4YwhAw",
];

pub(crate) const WORDS: &[&str] = &[
    "\0",
    ".",
    "..",
    "=",
    "-",
    "_",
    "A",
    "e30",
    "eyJ",
    "eyJhbGciOiJub25lIn0.",
    "\"",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"kid\":",
    "\"alg\":",
    "\"crit\":[]",
    "\"kty\":\"oct\"",
    "\"k\":\"AA\"",
    "\"use\":\"enc\"",
    "\"n\":\"\"",
    "\"e\":\"AAAA\"",
    "null",
    "1e999",
    "\\u0000",
    "é",
];

/// Sets of keys, each with a token behind a zero byte.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let with = |token: &&str| format!("{KEYS}\0{token}").into_bytes();
    TOKENS.iter().map(with).collect()
}

/// What was signed, without the signature.
fn message(token: &str) -> &str {
    token.rsplit_once('.').map_or(token, |(message, _)| message)
}

fn rules() -> TokenRules {
    TokenRules {
        audience: "pvwire".into(),
        issuer: String::new(),
        user_claim: "sub".into(),
        groups_claim: "groups".into(),
    }
}

thread_local! {
    /// The keys as they were published.
    static PUBLISHED: OnceCell<Option<Tokens>> = const { OnceCell::new() };
}

/// Checks the token by the keys before it, and by those that were published.
pub(crate) fn run(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (keys, token) = text.split_once('\0').unwrap_or((&text, ""));
    match Keys::read(keys) {
        Ok(keys) => check(&Tokens::new(rules(), keys), token),
        Err(why) => assert!(!why.to_string().is_empty()),
    }
    PUBLISHED.with(|published| {
        let published =
            published.get_or_init(|| Some(Tokens::new(rules(), Keys::read(KEYS).ok()?)));
        if let Some(tokens) = published {
            check(tokens, token);
        }
    });
}

/// A token is accepted only if its message was signed.
fn check(tokens: &Tokens, token: &str) {
    let Ok(login) = tokens.check(token) else {
        return;
    };
    let is_signed = TOKENS.iter().any(|good| message(good) == message(token));
    assert!(is_signed, "a token that was never signed is accepted");
    assert_eq!(login.identity.user.as_deref(), Some("jane"));
    assert!(login.identity.groups.iter().all(|group| is_name(group)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_let_their_user_in() {
        let tokens = Tokens::new(rules(), Keys::read(KEYS).unwrap());
        for token in TOKENS {
            assert_eq!(tokens.check(token).unwrap().identity.user.unwrap(), "jane");
        }
    }
}
