//! Public keys of an issuer (JWK set, RFC 7517), fetched when a token needs them.
//!
//! # Invariants
//! - One thread fetches at a time; others wait for it, then use its result.
//! - Keys that are too old are not used: if new ones cannot be fetched, no token is accepted.
//! - Tokens with unknown keys cause at most one request per [`INTERVAL`], or per key age if
//!   that is shorter.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use base64ct::{Base64UrlUnpadded, Encoding};
use p256::EncodedPoint;
use rsa::signature::Verifier;
use rsa::traits::PublicKeyParts;
use rsa::{BigUint, RsaPublicKey, pkcs1v15, sha2::Sha256};

use crate::error::Error;
use crate::json::{Doc, Kind, Value};
use crate::sync::lock;
use crate::transport::http_client::{DocumentClient, Endpoint};

use super::TokenRefusal;

/// Timeout of one request.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Shortest time between two requests for keys.
const INTERVAL: Duration = Duration::from_secs(10);
/// Shortest time between two requests if the last one failed.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Lower bound of the key age. Without it, each token would cause a request.
const MIN_AGE: Duration = Duration::from_secs(1);
/// Keys of one issuer; further ones are ignored.
const MAX_KEYS: usize = 64;

/// Algorithm of a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    EdDsa,
    Es256,
    Rs256,
}

impl Algorithm {
    pub(super) fn parse(name: &str) -> Option<Algorithm> {
        match name {
            // RFC 9864 defines the second name.
            "EdDSA" | "Ed25519" => Some(Algorithm::EdDsa),
            "ES256" => Some(Algorithm::Es256),
            "RS256" => Some(Algorithm::Rs256),
            _ => None,
        }
    }
}

/// The keys of one issuer.
pub(super) struct KeySet {
    client: DocumentClient,
    /// Time after which keys are fetched again.
    age: Duration,
    state: Mutex<State>,
    /// Held while keys are fetched. `state` may be locked below it.
    fetching: Mutex<()>,
}

#[derive(Default)]
struct State {
    keys: Arc<Vec<Key>>,
    /// Time of the last successful request.
    fetched: Option<Instant>,
    /// Time of the last request.
    tried: Option<Instant>,
}

struct Key {
    id: Option<String>,
    public: PublicKey,
}

enum PublicKey {
    EdDsa(ed25519_compact::PublicKey),
    Es256(p256::ecdsa::VerifyingKey),
    Rs256(pkcs1v15::VerifyingKey<Sha256>),
}

impl KeySet {
    pub(super) fn new(endpoint: Endpoint) -> Result<KeySet, Error> {
        Ok(KeySet {
            client: DocumentClient::new(endpoint)?,
            age: Duration::from_secs(600),
            state: Mutex::default(),
            fetching: Mutex::default(),
        })
    }

    /// Sets the time after which keys are fetched again, at least [`MIN_AGE`].
    pub(super) fn set_age(&mut self, age: Duration) {
        self.age = age.max(MIN_AGE);
    }

    /// Returns whether a key with this id, or any key if the token has no id, made the signature.
    ///
    /// # Errors
    /// The keys cannot be fetched.
    pub(super) fn verify(
        &self,
        algorithm: Algorithm,
        id: Option<&str>,
        signed: &[u8],
        signature: &[u8],
    ) -> Result<bool, TokenRefusal> {
        let fits =
            |key: &&Key| key.public.algorithm() == algorithm && (id.is_none() || key.id.as_deref() == id);
        let mut keys = self.keys(None)?;
        if !keys.iter().any(|key| fits(&key)) {
            keys = self.keys(Some(&keys))?;
        }
        Ok(keys.iter().filter(fits).any(|key| key.public.verify(signed, signature)))
    }

    /// Returns the keys. Fetches them if they are too old, or if they are still `lacking`: the set
    /// without the key of a token.
    fn keys(&self, lacking: Option<&Arc<Vec<Key>>>) -> Result<Arc<Vec<Key>>, TokenRefusal> {
        if let Some(result) = self.known(lacking) {
            return result;
        }
        let _fetching = lock(&self.fetching);
        // Another thread may have fetched the keys meanwhile.
        if let Some(result) = self.known(lacking) {
            return result;
        }
        let fetched = self.client.fetch(None, None, TIMEOUT);
        let keys = match fetched {
            Ok(document) if document.status == 200 => parse(&document.body),
            _ => None,
        };
        let now = Instant::now();
        let mut state = lock(&self.state);
        state.tried = Some(now);
        let Some(keys) = keys else { return Err(TokenRefusal::Unavailable) };
        state.keys = Arc::new(keys);
        state.fetched = Some(now);
        Ok(Arc::clone(&state.keys))
    }

    /// Returns the keys if they may be used, the error if they may not be fetched now, and `None`
    /// if they must be fetched.
    fn known(&self, lacking: Option<&Arc<Vec<Key>>>) -> Option<Result<Arc<Vec<Key>>, TokenRefusal>> {
        let state = lock(&self.state);
        let since = |time: Option<Instant>| time.map_or(Duration::MAX, |time| time.elapsed());
        let is_fresh = since(state.fetched) < self.age;
        let has_failed = state.tried > state.fetched;
        match lacking {
            None if is_fresh => Some(Ok(Arc::clone(&state.keys))),
            Some(old) if is_fresh && (!Arc::ptr_eq(old, &state.keys) || since(state.tried) < INTERVAL) => {
                Some(Ok(Arc::clone(&state.keys)))
            }
            _ if has_failed && since(state.tried) < RETRY_INTERVAL => Some(Err(TokenRefusal::Unavailable)),
            _ => None,
        }
    }
}

impl PublicKey {
    fn algorithm(&self) -> Algorithm {
        match self {
            PublicKey::EdDsa(_) => Algorithm::EdDsa,
            PublicKey::Es256(_) => Algorithm::Es256,
            PublicKey::Rs256(_) => Algorithm::Rs256,
        }
    }

    fn verify(&self, signed: &[u8], signature: &[u8]) -> bool {
        match self {
            PublicKey::EdDsa(key) => ed25519_compact::Signature::from_slice(signature)
                .is_ok_and(|signature| key.verify(signed, &signature).is_ok()),
            PublicKey::Es256(key) => p256::ecdsa::Signature::from_slice(signature)
                .is_ok_and(|signature| key.verify(signed, &signature).is_ok()),
            PublicKey::Rs256(key) => pkcs1v15::Signature::try_from(signature)
                .is_ok_and(|signature| key.verify(signed, &signature).is_ok()),
        }
    }
}

/// Reads a JWK set. Keys of other kinds are ignored (RFC 7517, section 5).
fn parse(body: &[u8]) -> Option<Vec<Key>> {
    let doc = Doc::parse(body).ok()?;
    let keys = doc.root().get("keys").filter(|keys| keys.kind() == Kind::Array)?;
    Some(keys.items().filter_map(key).take(MAX_KEYS).collect())
}

fn key(jwk: Value<'_>) -> Option<Key> {
    let text = |name: &str| jwk.get(name).and_then(Value::as_str);
    let bytes = |name: &str| Base64UrlUnpadded::decode_vec(text(name)?).ok();
    if text("use").is_some_and(|purpose| purpose != "sig") {
        return None;
    }
    let public = match text("kty")? {
        "EC" if text("crv") == Some("P-256") => {
            let (x, y) = (<[u8; 32]>::try_from(bytes("x")?).ok()?, <[u8; 32]>::try_from(bytes("y")?).ok()?);
            let point = EncodedPoint::from_affine_coordinates(&x.into(), &y.into(), false);
            PublicKey::Es256(p256::ecdsa::VerifyingKey::from_encoded_point(&point).ok()?)
        }
        // RFC 8037, section 2.
        "OKP" if text("crv") == Some("Ed25519") => {
            let key = ed25519_compact::PublicKey::from_slice(&bytes("x")?).ok()?;
            PublicKey::EdDsa(key.validate().ok().map(|()| key)?)
        }
        "RSA" => {
            let (n, e) = (BigUint::from_bytes_be(&bytes("n")?), BigUint::from_bytes_be(&bytes("e")?));
            // The crate rejects keys of more than 4096 bits.
            let key = RsaPublicKey::new(n, e).ok().filter(|key| key.n().bits() >= 2048)?;
            PublicKey::Rs256(pkcs1v15::VerifyingKey::new(key))
        }
        _ => return None,
    };
    let is_other = |name: &str| Algorithm::parse(name) != Some(public.algorithm());
    if text("alg").is_some_and(is_other) {
        return None;
    }
    Some(Key { id: text("kid").map(str::to_owned), public })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn signatures_of_ed25519_are_checked_as_in_the_example_of_rfc_8037() {
        let jwk = r#"{"keys":[{"kty":"OKP","crv":"Ed25519","alg":"EdDSA",
            "x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;
        let keys = parse(jwk.as_bytes()).unwrap();
        let signed = b"eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc";
        let mut signature = Base64UrlUnpadded::decode_vec(
            "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg",
        )
        .unwrap();
        assert!(keys[0].public.verify(signed, &signature));
        assert!(!keys[0].public.verify(&signed[1..], &signature));
        assert!(!keys[0].public.verify(signed, &signature[1..]));
        signature[0] ^= 1;
        assert!(!keys[0].public.verify(signed, &signature));
        // A point of small order, and a key of X25519.
        let weak = format!("AQ{}", "A".repeat(41));
        for (curve, x) in
            [("Ed25519", weak.as_str()), ("X25519", "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo")]
        {
            let jwk = format!(r#"{{"keys":[{{"kty":"OKP","crv":"{curve}","x":"{x}"}}]}}"#);
            assert_eq!(parse(jwk.as_bytes()).unwrap().len(), 0, "{curve}");
        }
    }
}
