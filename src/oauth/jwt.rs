//! Signing key of a client: assertions that authenticate it, and DPoP proofs.
//!
//! Source: RFC 7515 (compact form), RFC 7518, section 3.4 (ES256), RFC 8037 (EdDSA), RFC 8410 (keys
//! of Ed25519), RFC 7523, section 3 (assertions), RFC 7638 (thumbprint), RFC 9449, section 4.2
//! (proofs).
//!
//! # Invariants
//! - `Debug` output and errors never contain a key or an assertion.
//! - Every assertion and every proof has a unique id.

use std::fmt;

use base64ct::{Base64UrlUnpadded, Encoding};
use ed25519_compact::{KeyPair, Seed};
use hmac_sha256::Hash;
use p256::ecdsa::{Signature, signature::Signer as _};
use p256::pkcs8::{
    DecodePrivateKey, EncodePrivateKey, LineEnding, ObjectIdentifier, PrivateKeyInfo, SecretDocument,
};

use super::token::Signer;
use super::{OAuth, OAuthClient, Prover, now, random};
use crate::error::{Error, ErrorKind};
use crate::json::Writer;

/// Lifetime of an assertion in seconds. Allows for a difference between clocks.
const LIFETIME: u64 = 300;
/// Maximum number of attempts to generate a key: about one in 2^32 random numbers is not a valid
/// key.
const ATTEMPTS: usize = 8;

/// Algorithm of Ed25519 in PKCS #8 (RFC 8410, section 3).
const ED25519: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");
/// DER encoding of an Ed25519 key, up to its 32-byte seed.
const ED25519_DER: [u8; 16] = [48, 46, 2, 1, 0, 48, 5, 6, 3, 43, 101, 112, 4, 34, 4, 32];

/// Private key of a client: P-256 for `ES256`, the algorithm that MCP clients have in common, or
/// Ed25519 for `EdDSA`.
///
/// ```
/// use tinymcp::oauth::SigningKey;
///
/// let key = SigningKey::generate()?;
/// let stored = key.to_pem()?;
/// let again = SigningKey::from_pem(&stored)?;
/// assert_eq!(again.thumbprint(), key.thumbprint());
/// # Ok::<(), tinymcp::Error>(())
/// ```
#[derive(Clone)]
pub struct SigningKey {
    key: Key,
    id: Option<String>,
}

#[derive(Clone)]
enum Key {
    Es256(p256::ecdsa::SigningKey),
    EdDsa(KeyPair),
}

impl SigningKey {
    /// Generates a key for `ES256` from random numbers of the system.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn generate() -> Result<SigningKey, Error> {
        for _ in 0..ATTEMPTS {
            let mut bytes = [0; 32];
            getrandom::fill(&mut bytes)
                .map_err(|error| Error::new(ErrorKind::Io, format!("no random numbers: {error}")))?;
            if let Ok(key) = p256::ecdsa::SigningKey::from_slice(&bytes) {
                return Ok(SigningKey { key: Key::Es256(key), id: None });
            }
        }
        Err(Error::new(ErrorKind::Io, "the random numbers of the system give no valid key"))
    }

    /// Reads a key in PEM: PKCS #8, `-----BEGIN PRIVATE KEY-----`.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the text is not such a key, or its algorithm is not supported.
    pub fn from_pem(pem: &str) -> Result<SigningKey, Error> {
        let pem = pem.trim();
        let es256 = p256::ecdsa::SigningKey::from_pkcs8_pem(pem).ok().map(Key::Es256);
        match es256.or_else(|| ed25519(pem).map(Key::EdDsa)) {
            Some(key) => Ok(SigningKey { key, id: None }),
            None => {
                let why = "invalid signing key: expected a key of P-256 or Ed25519 in PEM (PKCS #8, \
                           `BEGIN PRIVATE KEY`)";
                Err(Error::new(ErrorKind::Invalid, why))
            }
        }
    }

    /// Returns the key in PEM. Store it as a secret.
    ///
    /// # Errors
    /// The key cannot be encoded.
    pub fn to_pem(&self) -> Result<String, Error> {
        let pem = match &self.key {
            Key::Es256(key) => key.to_pkcs8_pem(LineEnding::LF).ok(),
            Key::EdDsa(pair) => {
                let der = [&ED25519_DER[..], &*pair.sk.seed()].concat();
                let document = SecretDocument::try_from(der.as_slice()).ok();
                document.and_then(|document| document.to_pem("PRIVATE KEY", LineEnding::LF).ok())
            }
        };
        let pem = pem.ok_or_else(|| Error::new(ErrorKind::Invalid, "the signing key cannot be written"))?;
        Ok(pem.as_str().to_owned())
    }

    /// Sets the id of the key (`kid`), by which an authorization server finds its public key.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> SigningKey {
        self.id = Some(id.into());
        self
    }

    /// Returns the public key as a JSON Web Key, for the registration of a client.
    pub fn public_jwk(&self) -> String {
        let mut w = Writer::new();
        self.write_jwk(&mut w);
        w.into_json().as_str().to_owned()
    }

    /// Returns the SHA-256 thumbprint of the public key (RFC 7638), as in the claim `cnf.jkt` of a
    /// token.
    pub fn thumbprint(&self) -> String {
        Base64UrlUnpadded::encode_string(&Hash::hash(self.public_jwk().as_bytes()))
    }

    /// Writes the public key with the members and in the order that its thumbprint requires.
    fn write_jwk(&self, w: &mut Writer) {
        let text = |part: &[u8]| Base64UrlUnpadded::encode_string(part);
        w.begin_object();
        match &self.key {
            Key::Es256(key) => {
                let point = key.verifying_key().to_encoded_point(false);
                let (x, y) = (point.x().map(|x| &x[..]), point.y().map(|y| &y[..]));
                w.key("crv").string("P-256").key("kty").string("EC");
                w.key("x").string(&text(x.unwrap_or_default()));
                w.key("y").string(&text(y.unwrap_or_default()));
            }
            Key::EdDsa(pair) => {
                w.key("crv").string("Ed25519").key("kty").string("OKP").key("x").string(&text(&*pair.pk));
            }
        }
        w.end_object();
    }

    /// Returns the name of the algorithm in headers and metadata.
    fn algorithm(&self) -> &'static str {
        match self.key {
            Key::Es256(_) => "ES256",
            Key::EdDsa(_) => "EdDSA",
        }
    }

    /// Returns a JSON Web Token: header, claims and signature.
    fn sign(&self, header: Writer, claims: Writer) -> String {
        let part = |part: Writer| Base64UrlUnpadded::encode_string(&part.into_bytes());
        let mut token = format!("{}.{}", part(header), part(claims));
        let signature = self.signature(token.as_bytes());
        token.push('.');
        token.push_str(&Base64UrlUnpadded::encode_string(&signature));
        token
    }

    fn signature(&self, text: &[u8]) -> [u8; 64] {
        match &self.key {
            Key::Es256(key) => {
                let signature: Signature = key.sign(text);
                signature.to_bytes().into()
            }
            Key::EdDsa(pair) => *pair.sk.sign(text, None),
        }
    }
}

/// Reads a key of Ed25519.
fn ed25519(pem: &str) -> Option<KeyPair> {
    let (label, document) = SecretDocument::from_pem(pem).ok()?;
    let key = PrivateKeyInfo::try_from(document.as_bytes()).ok()?;
    // An OCTET STRING of 32 bytes (RFC 8410, section 7).
    let seed = key.private_key.strip_prefix(&[4, 32])?;
    let is_ed25519 = label == "PRIVATE KEY" && key.algorithm.oid == ED25519;
    KeyPair::try_from_seed(Seed::from_slice(seed).ok()?).ok().filter(|_| is_ed25519)
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningKey").field("thumbprint", &self.thumbprint()).finish_non_exhaustive()
    }
}

impl Signer for SigningKey {
    fn assertion(&self, client: &str, audience: &str) -> Result<String, Error> {
        let mut header = Writer::new();
        header.begin_object().key("alg").string(self.algorithm()).key("typ").string("JWT");
        if let Some(id) = &self.id {
            header.key("kid").string(id);
        }
        header.end_object();
        let (id, now) = (random()?, now());
        let mut claims = Writer::new();
        claims.begin_object().key("iss").string(client).key("sub").string(client);
        claims.key("aud").string(audience).key("jti").string(&id);
        claims.key("iat").u64(now).key("exp").u64(now.saturating_add(LIFETIME)).end_object();
        Ok(self.sign(header, claims))
    }
}

impl Prover for SigningKey {
    fn algorithm(&self) -> &'static str {
        SigningKey::algorithm(self)
    }

    fn thumbprint(&self) -> String {
        SigningKey::thumbprint(self)
    }

    fn proof(
        &self,
        method: &str,
        url: &str,
        token: Option<&str>,
        nonce: Option<&str>,
    ) -> Result<String, Error> {
        let mut header = Writer::new();
        header.begin_object().key("typ").string("dpop+jwt").key("alg").string(self.algorithm()).key("jwk");
        self.write_jwk(&mut header);
        header.end_object();
        let id = random()?;
        let mut claims = Writer::new();
        claims.begin_object().key("jti").string(&id).key("htm").string(method).key("htu").string(url);
        claims.key("iat").u64(now());
        if let Some(token) = token {
            claims.key("ath").string(&Base64UrlUnpadded::encode_string(&Hash::hash(token.as_bytes())));
        }
        if let Some(nonce) = nonce {
            claims.key("nonce").string(nonce);
        }
        claims.end_object();
        Ok(self.sign(header, claims))
    }
}

impl OAuth {
    /// Binds tokens to this key (DPoP, RFC 9449) at authorization servers that support it: a stolen
    /// token is useless without the key. Stored tokens require the same key, so store it as well.
    pub fn dpop(mut self, key: SigningKey) -> OAuth {
        self.0.prover = Some(std::sync::Arc::new(key));
        self
    }
}

impl OAuthClient {
    /// Sets the key that authenticates the client (`private_key_jwt`) instead of a secret. Register
    /// the public key at the authorization server.
    pub fn key(mut self, key: SigningKey) -> OAuthClient {
        self.signer = Some(std::sync::Arc::new(key));
        self
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn keys_of_ed25519_sign_as_in_the_example_of_rfc_8037() {
        let decoded = |text: &str| Base64UrlUnpadded::decode_vec(text).unwrap();
        let seed = decoded("nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A");
        let document = |der: &[u8]| SecretDocument::try_from(der).unwrap();
        let pem =
            document(&[&ED25519_DER[..], &seed].concat()).to_pem("PRIVATE KEY", LineEnding::LF).unwrap();
        let key = SigningKey::from_pem(&pem).unwrap();
        assert_eq!(key.to_pem().unwrap(), pem.as_str());
        assert_eq!(
            key.public_jwk(),
            r#"{"crv":"Ed25519","kty":"OKP","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}"#
        );
        assert_eq!(key.thumbprint(), "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k");
        let signature = key.signature(b"eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc");
        let expected =
            "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg";
        assert_eq!(Base64UrlUnpadded::encode_string(&signature), expected);
        // A weak key, and one of another algorithm.
        let mut der = [&ED25519_DER[..], &[0; 32]].concat();
        for _ in 0..2 {
            let pem = document(&der).to_pem("PRIVATE KEY", LineEnding::LF).unwrap();
            assert!(SigningKey::from_pem(&pem).is_err());
            (der[11], der[20]) = (113, 1);
        }
    }
}
