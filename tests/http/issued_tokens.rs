//! Tokens of an authorization server, checked by introspection and by their signature.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use base64ct::{Base64UrlUnpadded, Encoding};
use rsa::pkcs1v15;
use rsa::signature::{SignatureEncoding, Signer};
use rsa::{BigUint, RsaPrivateKey, sha2::Sha256};
use serde_json::{Value, json};
use tinymcp::{ErrorKind, Introspection, JwtVerifier};

use crate::client::{Served, TIMEOUT, serve_with, server, stage};

const ISSUER: &str = "https://login.example";
const RESOURCE: &str = "https://board.example/mcp";

/// Modulus, private exponent and primes of a key that nothing else uses.
const RSA: [&str; 4] = [
    "ycKaErygj_uUbFUzVxW__EPvWeV33zeLCeI-OD15w-9CcVXouWYAA0G0V4zY9eHvKChVQrYosxhKB7Hpl0YChteuUi9Z9GbD7ihB\
    t9zPBtIWgpK32dTF9C8Pp7AorH72GN633PaaitzsuzN4430ogBxpaC3m7BOBeyOjDhpkl5gX6nWoc_8NNlsjAYKbU8xAOlWL9nsx\
    JRjTAmHTB-11En9sIsf04ccD6VYxtSnafbM1REk_IkJYnTFCtx4l0wtGKUYrj_aOhv00urd9aLOgPwXpJxQ0MT0V_lx7PmzQobf9\
    KNXxBrBWM7oaZuqH9Oan6vjGl1w8OP_Lq89m_1BshQ",
    "Datr5W-WwFKXAoT-Qrz0Qjr3FUPlDIBWoP-NYCGYJaSI_6VGrIMC5rWVqqXeEECzw6iB6FBvrvyrDVzqOufRJYIo6yQOp-6rgTAE\
    jdi9xRRIVqXqo21VUR88JAwdIVzDvzkdw3CI1XY06tUIsH8LFqz2HksX3XBP4kAunLbAkH2sbyLgqW5Gn7nHSJu0Wc5mCqGyAVTO\
    2JwZNFp-0gNccFYNZOX5zoGwC60Ov4E5WM4-YiyOAeY6xysQHKOgZmOo1ihfzVsv69QwfzrDdalY-jqWfbe3FDt3gAW3X6RTxv9p\
    MKZ9NZndE8tidMheN2jG6dqwdIUPTDpeBEK2kcVN2Q",
    "8EZFUnc5YnYrNn8gdFJQtmyYZ5z2NxiC0Yq-Fj64crdOsSSD7Pfp1PFOz1ms1fhgnj45kw1JxUgr9AU5InRju0JYc1cuKxVNDcKQ\
    R9W_dlgX_3K9cCDIvbdJBCjilThZLgVxRwMSvlSOd9EKU9aEJkicJxvrheXsBaB-TgdZGf0",
    "1vcI3mFEciX_AOk9U_YRKQdsPrXr4TDAvQUY-2meuKmZ0jdk9ETQbKcMGhHOwFe92FYh4Wo2uy1dGVL3nm4sqwL-f9ZAgoTWX2rt\
    llKM7OnowSuSHk-VWl5E-12u0YZjdDMFitxzGyf5yvZ1AnoG3_pk6Emj8twGmZIkjg0ePyk",
];

/// An authorization server on this machine.
#[derive(Default)]
struct Issuer {
    /// Status of each response if it is not 200.
    status: Option<u16>,
    keys: Vec<Value>,
    /// Responses to introspections by token.
    tokens: HashMap<String, Value>,
    /// Heads and bodies of the requests.
    requests: Vec<String>,
}

struct Running {
    address: String,
    issuer: Arc<Mutex<Issuer>>,
}

impl Running {
    fn start() -> Running {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let issuer = Arc::<Mutex<Issuer>>::default();
        let known = Arc::clone(&issuer);
        thread::spawn(move || listener.incoming().for_each(|socket| respond(socket.unwrap(), &known)));
        Running { address, issuer }
    }

    fn set(&self, change: impl FnOnce(&mut Issuer)) {
        change(&mut self.issuer.lock().unwrap());
    }

    fn requests(&self) -> usize {
        self.issuer.lock().unwrap().requests.len()
    }

    fn verifier(&self) -> JwtVerifier {
        JwtVerifier::new(ISSUER, format!("{}/jwks", self.address), RESOURCE).unwrap()
    }
}

fn respond(socket: TcpStream, issuer: &Mutex<Issuer>) {
    let mut reader = BufReader::new(socket.try_clone().unwrap());
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or_default() == 0 {
            return;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        head.push_str(&line);
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let body = String::from_utf8(body).unwrap();
    let mut issuer = issuer.lock().unwrap();
    issuer.requests.push(format!("{head}{body}"));
    let response = match body.rsplit_once("token=") {
        Some((_, token)) => issuer.tokens.get(token).cloned().unwrap_or(json!({"active": false})),
        None => json!({"keys": issuer.keys}),
    };
    let (status, response) = (issuer.status.unwrap_or(200), response.to_string());
    let length = response.len();
    write!(&socket, "HTTP/1.1 {status} x\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{response}")
        .unwrap();
}

fn encoded(bytes: impl AsRef<[u8]>) -> String {
    Base64UrlUnpadded::encode_string(bytes.as_ref())
}

fn number(text: &str) -> BigUint {
    BigUint::from_bytes_be(&Base64UrlUnpadded::decode_vec(text).unwrap())
}

fn rsa_key() -> pkcs1v15::SigningKey<Sha256> {
    let [n, d, p, q] = RSA.map(number);
    pkcs1v15::SigningKey::new(RsaPrivateKey::from_components(n, 65_537_u32.into(), d, vec![p, q]).unwrap())
}

fn rsa_jwk(id: &str) -> Value {
    json!({"kty": "RSA", "kid": id, "use": "sig", "alg": "RS256", "n": RSA[0], "e": "AQAB"})
}

/// A key whose scalar has this value.
fn ec_key(seed: u8) -> p256::ecdsa::SigningKey {
    p256::ecdsa::SigningKey::from_slice(&[seed; 32]).unwrap()
}

fn ec_jwk(id: &str, seed: u8) -> Value {
    let point = ec_key(seed).verifying_key().to_encoded_point(false);
    json!({"kty": "EC", "crv": "P-256", "kid": id, "x": encoded(point.x().unwrap()), "y": encoded(point.y().unwrap())})
}

fn seconds() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()
}

fn header(algorithm: &str, key: &str) -> Value {
    json!({"alg": algorithm, "kid": key, "typ": "at+jwt"})
}

/// Claims of a valid token, with those of `change` in their place; null removes one.
fn claims(change: Value) -> Value {
    let mut claims = json!({
        "iss": ISSUER, "aud": RESOURCE, "sub": "alice", "exp": seconds() + 600, "iat": seconds(), "scope": "read",
    });
    let members = claims.as_object_mut().unwrap();
    for (name, value) in change.as_object().unwrap() {
        members.insert(name.clone(), value.clone());
    }
    members.retain(|_, value| !value.is_null());
    claims
}

fn signed(header: &Value, claims: &Value, sign: impl FnOnce(&[u8]) -> Vec<u8>) -> String {
    let text = format!("{}.{}", encoded(header.to_string()), encoded(claims.to_string()));
    let signature = sign(text.as_bytes());
    format!("{text}.{}", encoded(signature))
}

fn ec(key: &str, seed: u8, change: Value) -> String {
    signed(&header("ES256", key), &claims(change), |text| ec_signature(seed, text))
}

fn ec_signature(seed: u8, text: &[u8]) -> Vec<u8> {
    let signature: p256::ecdsa::Signature = ec_key(seed).sign(text);
    signature.to_bytes().to_vec()
}

fn rsa_signature(text: &[u8]) -> Vec<u8> {
    rsa_key().sign(text).to_vec()
}

/// Status of a call with this token, and the principal.
fn who(served: &Served, token: &str) -> (u16, Value) {
    let authorization = format!("Bearer {token}");
    let answer = served.modern(&[("Authorization", &authorization)], "tools/call", json!({"name": "who"}));
    (answer.status, answer.json()["result"]["content"][0]["text"].clone())
}

#[test]
fn signed_tokens_are_accepted_for_this_server_only() {
    let running = Running::start();
    running.set(|issuer| issuer.keys = vec![json!({"kty": "oct", "k": "AA"}), ec_jwk("e", 1), rsa_jwk("r")]);
    let verifier = running.verifier();
    let served = serve_with(server(stage()), |http| http.token_verifier(verifier));
    let alice = (200, json!("alice"));
    assert_eq!(who(&served, &ec("e", 1, json!({}))), alice);
    assert_eq!(who(&served, &ec("e", 1, json!({"aud": ["https://other.example", RESOURCE]}))), alice);
    let rs256 = signed(&header("RS256", "r"), &claims(json!({})), rsa_signature);
    assert_eq!(who(&served, &rs256), alice);
    let without_id = json!({"alg": "ES256", "typ": "application/at+jwt"});
    assert_eq!(who(&served, &signed(&without_id, &claims(json!({})), |text| ec_signature(1, text))), alice);
    for (name, change) in [
        ("issuer", json!({"iss": "https://evil.example"})),
        ("no issuer", json!({"iss": null})),
        ("audience", json!({"aud": "https://other.example/mcp"})),
        ("no audience", json!({"aud": null})),
        ("expired", json!({"exp": seconds() - 60})),
        ("no expiry", json!({"exp": null})),
        ("early", json!({"nbf": seconds() + 600})),
        ("no owner", json!({"sub": null})),
        ("bound to a key", json!({"cnf": {"jkt": "x"}})),
    ] {
        assert_eq!(who(&served, &ec("e", 1, change)).0, 401, "{name}");
    }
    assert_eq!(running.requests(), 1, "the keys were fetched more than once");
}

#[test]
fn forged_tokens_are_rejected() {
    let running = Running::start();
    running.set(|issuer| issuer.keys = vec![ec_jwk("e", 1), rsa_jwk("r"), json!({"kid": "x", "kty": "EC"})]);
    let verifier = running.verifier();
    let served = serve_with(server(stage()), |http| http.token_verifier(verifier));
    let valid = claims(json!({}));
    let by = |header: Value, sign: &dyn Fn(&[u8]) -> Vec<u8>| signed(&header, &valid, sign);
    let right = |text: &[u8]| ec_signature(1, text);
    let public = Base64UrlUnpadded::decode_vec(RSA[0]).unwrap();
    let mut changed = ec("e", 1, json!({}));
    let text = changed.split('.').nth(1).unwrap().to_owned();
    changed = changed.replace(&text, &encoded(claims(json!({"sub": "root"})).to_string()));
    let unsigned = format!("{}.{}.", encoded(json!({"alg": "none", "typ": "at+jwt"}).to_string()), text);
    for (name, token) in [
        ("none", by(header("none", "e"), &|_| vec![0])),
        ("None", by(header("None", "e"), &right)),
        ("no signature", unsigned),
        (
            "HS256 with the public key",
            by(header("HS256", "r"), &|text| hmac_sha256::HMAC::mac(text, &public).to_vec()),
        ),
        ("another key", ec("e", 2, json!({}))),
        ("the algorithm of another key", by(header("RS256", "e"), &right)),
        ("an RSA key for ES256", by(header("ES256", "r"), &right)),
        ("an unknown algorithm", by(header("ES384", "e"), &right)),
        (
            "an embedded key",
            by(json!({"alg": "ES256", "typ": "at+jwt", "kid": "y", "jwk": ec_jwk("y", 2)}), &|t| {
                ec_signature(2, t)
            }),
        ),
        ("a malformed key", ec("x", 1, json!({}))),
        (
            "a critical extension",
            by(json!({"alg": "ES256", "kid": "e", "typ": "at+jwt", "crit": ["b64"]}), &right),
        ),
        ("another type", by(json!({"alg": "ES256", "kid": "e", "typ": "JWT"}), &right)),
        ("no type", by(json!({"alg": "ES256", "kid": "e"}), &right)),
        ("a changed payload", changed),
        ("a short signature", by(header("ES256", "e"), &|text| ec_signature(1, text)[..63].to_vec())),
        ("a signature of zeros", by(header("ES256", "e"), &|_| vec![0; 64])),
        ("a payload that is not an object", signed(&header("ES256", "e"), &json!([1]), right)),
        ("more parts", format!("{}.AA", ec("e", 1, json!({})))),
        ("fewer parts", "AA.AA".to_owned()),
        ("no base64", "a=.a=.a=".to_owned()),
    ] {
        assert_eq!(who(&served, &token).0, 401, "{name}: {token}");
    }
    assert_eq!(who(&served, &ec("e", 1, json!({}))).0, 200);
}

#[test]
fn any_type_is_accepted_on_request() {
    let running = Running::start();
    running.set(|issuer| issuer.keys = vec![ec_jwk("e", 1)]);
    let verifier = running.verifier().any_type();
    let served = serve_with(server(stage()), |http| http.token_verifier(verifier));
    let token =
        signed(&json!({"alg": "ES256", "typ": "JWT"}), &claims(json!({})), |text| ec_signature(1, text));
    assert_eq!(who(&served, &token).0, 200);
}

#[test]
fn an_unknown_key_causes_one_request_and_not_one_for_each_token() {
    let running = Running::start();
    running.set(|issuer| issuer.keys = vec![ec_jwk("old", 1)]);
    let verifier = running.verifier();
    let served = serve_with(server(stage()), |http| http.token_verifier(verifier));
    thread::scope(|scope| {
        for n in 0..8 {
            let served = &served;
            scope.spawn(move || assert_eq!(who(served, &ec("old", 1, json!({"jti": n}))).0, 200));
        }
    });
    assert_eq!(running.requests(), 1);
    for n in 0..5 {
        assert_eq!(who(&served, &ec("new", 2, json!({"jti": n}))).0, 401);
    }
    assert_eq!(running.requests(), 1, "each unknown key caused a request");
}

#[test]
fn new_keys_are_found_and_removed_keys_end() {
    let running = Running::start();
    running.set(|issuer| issuer.keys = vec![ec_jwk("old", 1)]);
    let verifier = running.verifier().key_age(Duration::ZERO);
    let served = serve_with(server(stage()), |http| http.token_verifier(verifier));
    assert_eq!(who(&served, &ec("old", 1, json!({}))).0, 200);
    running.set(|issuer| issuer.keys = vec![ec_jwk("new", 2)]);
    let end = Instant::now() + TIMEOUT;
    let mut tokens = (0..).map(|n| ec("new", 2, json!({"jti": n})));
    while tokens.next().is_none_or(|token| who(&served, &token).0 != 200) {
        assert!(Instant::now() < end, "the new key is not fetched");
        thread::yield_now();
    }
    assert_eq!(who(&served, &ec("old", 1, json!({"jti": 2}))).0, 401);
}

#[test]
fn keys_without_an_age_are_fetched_once_in_a_second_and_not_for_each_token() {
    let running = Running::start();
    running.set(|issuer| issuer.keys = vec![ec_jwk("known", 1)]);
    let verifier = running.verifier().key_age(Duration::ZERO);
    let served = serve_with(server(stage()), |http| http.token_verifier(verifier));
    let start = Instant::now();
    for n in 0..40 {
        assert_eq!(who(&served, &ec("unknown", 2, json!({"jti": n}))).0, 401);
        assert_eq!(who(&served, &ec("known", 1, json!({"jti": n}))).0, 200);
    }
    let seconds = start.elapsed().as_secs() as usize;
    assert!(running.requests() <= 2 + seconds, "{} requests in {seconds} s", running.requests());
}

#[test]
fn without_keys_no_token_is_accepted_and_the_client_may_try_again() {
    let running = Running::start();
    running.set(|issuer| {
        issuer.keys = vec![ec_jwk("e", 1)];
        issuer.status = Some(500);
    });
    let verifier = running.verifier();
    let served = serve_with(server(stage()), |http| http.token_verifier(verifier));
    for n in 0..3 {
        assert_eq!(who(&served, &ec("e", 1, json!({"jti": n}))).0, 503);
    }
    running.set(|issuer| issuer.status = None);
    let (token, end) = (ec("e", 1, json!({})), Instant::now() + TIMEOUT);
    while who(&served, &token).0 == 503 {
        assert!(Instant::now() < end, "the keys are not fetched again");
        thread::yield_now();
    }
    assert_eq!(who(&served, &token).0, 200);
}

#[test]
fn tokens_are_introspected_once_with_the_credentials_of_the_server() {
    let running = Running::start();
    let active = |change: Value| {
        let mut claims = claims(change);
        claims.as_object_mut().unwrap().insert("active".to_owned(), json!(true));
        claims
    };
    running.set(|issuer| {
        for (token, response) in [
            ("good", active(json!({}))),
            ("machine", active(json!({"sub": null, "client_id": "robot", "exp": null}))),
            ("other", active(json!({"aud": "https://other.example"}))),
            ("nowhere", active(json!({"aud": null}))),
            ("expired", active(json!({"exp": seconds() - 60}))),
            ("bound", active(json!({"cnf": {"jkt": "x"}}))),
            ("foreign", active(json!({"iss": "https://evil.example"}))),
            ("ended", json!({"active": false, "sub": "alice"})),
            ("text", json!({"active": "true", "sub": "alice"})),
            ("list", json!([1])),
        ] {
            issuer.tokens.insert(token.to_owned(), response);
        }
    });
    let introspection = Introspection::new(format!("{}/introspect", running.address), RESOURCE).unwrap();
    let introspection = introspection.client("my board", "s:3").issuer(ISSUER);
    let served = serve_with(server(stage()), |http| http.token_verifier(introspection));
    for _ in 0..2 {
        assert_eq!(who(&served, "good"), (200, json!("alice")));
    }
    assert_eq!(running.requests(), 1);
    let request = running.issuer.lock().unwrap().requests.remove(0);
    let request = request.to_ascii_lowercase();
    assert!(request.starts_with("post /introspect http/1.1\r\n"), "{request}");
    // `my%20board:s%3A3`
    assert!(request.contains("authorization: basic bxklmjbib2fyzdpzjtnbmw==\r\n"), "{request}");
    assert!(request.ends_with("\r\n\r\ntoken_type_hint=access_token&token=good"), "{request}");
    assert_eq!(who(&served, "machine"), (200, json!("client robot")));
    for token in ["other", "nowhere", "expired", "bound", "foreign", "ended", "unknown"] {
        assert_eq!(who(&served, token).0, 401, "{token}");
    }
    for token in ["text", "list"] {
        assert_eq!(who(&served, token).0, 503, "{token}");
    }
    running.set(|issuer| issuer.status = Some(401));
    assert_eq!(who(&served, "more").0, 503);
}

#[test]
fn a_token_is_not_sent_without_tls() {
    let error = Introspection::new("http://login.example/introspect", RESOURCE).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let error = JwtVerifier::new(ISSUER, "http://login.example/jwks", RESOURCE).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
}
