//! Verifies the signatures of tokens by ring, the library that TLS uses too.

use jsonwebtoken::crypto::{CryptoProvider, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{ErrorKind, Result as JwtResult};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind};
use ring::signature as ring_signature;

/// Verifies signatures by ring; it can't sign.
pub(super) static PROVIDER: CryptoProvider = CryptoProvider {
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
