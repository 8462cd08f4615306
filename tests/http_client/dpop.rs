//! Tokens that are bound to a key (RFC 9449), and clients that authenticate with one (RFC 7523): each
//! request has a proof of its own, nonces of both servers are used, and a bound token is never sent as a
//! bearer token.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use base64ct::{Base64UrlUnpadded, Encoding};
use p256::ecdsa::signature::Verifier;
use p256::ecdsa::{Signature, VerifyingKey};
use tinymcp::ErrorKind;
use tinymcp::json::{Doc, Value};
use tinymcp::oauth::{MemoryStore, OAuth, OAuthClient, SignIn, SigningKey, TokenStore};

use crate::auth_server::{AuthServer, Reply, State, honest, parameter, server_metadata, target};
use crate::sign_in::{ISSUER, call, connect, oauth, shown};
use crate::stage::Seen;

const SUPPORTS: &str = r#","dpop_signing_alg_values_supported":["RS256","ES256"]"#;

/// Header and claims of a token whose signature is that of this key.
fn verified(token: &str, key: &str) -> (Doc, Doc) {
    let bytes = |text: &str| Base64UrlUnpadded::decode_vec(text).unwrap();
    let (signed, signature) = token.rsplit_once('.').unwrap();
    let (header, claims) = signed.split_once('.').unwrap();
    let key = Doc::parse(key).unwrap();
    let of = |name: &str| bytes(key.root().get(name).and_then(Value::as_str).unwrap());
    let point = [&[4], &of("x")[..], &of("y")[..]].concat();
    let key = VerifyingKey::from_sec1_bytes(&point).unwrap();
    key.verify(signed.as_bytes(), &Signature::from_slice(&bytes(signature)).unwrap()).unwrap();
    (Doc::parse(bytes(header)).unwrap(), Doc::parse(bytes(claims)).unwrap())
}

fn text(doc: &Doc, name: &str) -> Option<String> {
    doc.root().get(name).and_then(Value::as_str).map(str::to_owned)
}

/// The nonce of a proof, which must be right for its request and this key.
fn proven(seen: &Seen, key: &SigningKey, ids: &Mutex<HashSet<String>>) -> Option<String> {
    let (header, claims) = verified(seen.header("dpop").expect("a proof"), &key.public_jwk());
    assert_eq!((text(&header, "typ"), text(&header, "alg")), (Some("dpop+jwt".into()), Some("ES256".into())));
    let jwk = header.root().get("jwk").unwrap();
    assert_eq!(jwk.to_json().as_str(), key.public_jwk(), "no private part");
    let (method, path, _) = target(seen);
    assert_eq!(text(&claims, "htm").as_deref(), Some(method));
    assert_eq!(text(&claims, "htu").unwrap(), format!("http://{}{path}", seen.header("host").unwrap()));
    assert!(claims.root().get("iat").and_then(Value::as_u64).unwrap() > 1_700_000_000);
    assert!(ids.lock().unwrap().insert(text(&claims, "jti").unwrap()), "a proof is used once");
    let token = seen.header("authorization").map(|value| value.strip_prefix("DPoP ").unwrap());
    let hash =
        token.map(|token| Base64UrlUnpadded::encode_string(&hmac_sha256::Hash::hash(token.as_bytes())));
    assert_eq!(text(&claims, "ath"), hash);
    text(&claims, "nonce")
}

/// Like the honest server, with tokens that are bound.
fn bound(seen: &Seen, origin: &str, state: &mut State) -> Reply {
    match target(seen).1 {
        ISSUER => return Reply::json(server_metadata(origin, SUPPORTS)),
        "/token" => {
            let Reply(status, headers, body) = honest(seen, origin, state);
            return Reply(status, headers, body.replace("\"Bearer\"", "\"DPoP\""));
        }
        "/mcp" => {}
        _ => return honest(seen, origin, state),
    }
    let sent = seen.header("authorization").and_then(|value| value.strip_prefix("DPoP "));
    match sent.is_some() && sent == state.access.as_deref() {
        true => Reply::json(crate::auth_server::result(&seen.body)),
        false => unauthorized(origin, ""),
    }
}

fn unauthorized(origin: &str, more: &str) -> Reply {
    let metadata = format!("resource_metadata=\"{origin}{}\"", crate::sign_in::RESOURCE);
    let headers = format!("WWW-Authenticate: DPoP {metadata}{more}\r\n");
    Reply("401 Unauthorized", headers, String::new())
}

#[test]
fn every_request_has_a_fresh_proof() {
    let key = SigningKey::generate().unwrap();
    let (own, ids) = (key.clone(), Arc::new(Mutex::new(HashSet::new())));
    let server = AuthServer::with(move |seen, origin, state| {
        if target(seen).1 == "/token" || seen.header("authorization").is_some() {
            assert_eq!(proven(seen, &own, &ids), None);
        }
        Some(bound(seen, origin, state))
    });
    let store = MemoryStore::new();
    let client = connect(&server.url(), oauth(&store).dpop(key.clone())).unwrap();
    for _ in 0..3 {
        call(&client).unwrap();
    }
    // The refresh is proven as well.
    server.state.lock().unwrap().access = None;
    call(&client).unwrap();
    let seen = server.seen();
    let authorize = seen.iter().find(|seen| target(seen).1 == "/authorize").unwrap();
    assert_eq!(parameter(target(authorize).2, "dpop_jkt"), Some(key.thumbprint()));
    assert_eq!(seen.iter().filter(|seen| target(seen).1 == "/token").count(), 2);
    drop(client);
    // Another process with the same key and store continues.
    let again = SigningKey::from_pem(&key.to_pem().unwrap()).unwrap();
    let client = connect(&server.url(), OAuth::new(store).dpop(again)).unwrap();
    call(&client).unwrap();
}

#[test]
fn nonces_of_both_servers_are_used() {
    let key = SigningKey::generate().unwrap();
    let (own, ids) = (key.clone(), Arc::new(Mutex::new(HashSet::new())));
    let server = AuthServer::with(move |seen, origin, state| {
        let proves = target(seen).1 == "/token" || seen.header("authorization").is_some();
        if !proves {
            return Some(bound(seen, origin, state));
        }
        let nonce = proven(seen, &own, &ids);
        match target(seen).1 {
            "/token" if nonce.as_deref() != Some("at-server") => Some(Reply(
                "400 Bad Request",
                "DPoP-Nonce: at-server\r\n".into(),
                r#"{"error":"use_dpop_nonce"}"#.into(),
            )),
            "/token" => Some(bound(seen, origin, state)),
            // A nonce serves for one request, and each response has the next one.
            _ => {
                let next = format!("next-{}", state.counted);
                let valid = nonce == Some(next);
                state.counted += 1;
                let next = format!("DPoP-Nonce: next-{}\r\n", state.counted);
                let Reply(status, headers, body) = match valid {
                    true => bound(seen, origin, state),
                    false => unauthorized(origin, ", error=\"use_dpop_nonce\""),
                };
                Some(Reply(status, headers + &next, body))
            }
        }
    });
    let client = connect(&server.url(), oauth(&MemoryStore::new()).dpop(key)).unwrap();
    for _ in 0..3 {
        call(&client).unwrap();
    }
    let seen = server.seen();
    let of = |path: &str| seen.iter().filter(|seen| target(seen).1 == path).count();
    assert_eq!((of("/token"), of("/authorize")), (2, 1), "a nonce needs no further sign-in");
    // The requests: one without a token, one without a nonce, one to connect, and three calls.
    assert_eq!(of("/mcp"), 6);
}

/// A server that misbehaves, and a part of the error that the client returns.
type Case = (&'static str, fn(&Seen, &str, &mut State) -> Option<Reply>, &'static str);

#[test]
fn servers_that_misuse_proofs_end_with_an_error() {
    fn at_token(seen: &Seen, reply: impl FnOnce() -> Reply) -> Option<Reply> {
        (target(seen).1 == "/token").then(reply)
    }
    fn token(kind: &str) -> Reply {
        Reply::json(format!(r#"{{"access_token":"access-1","token_type":"{kind}"}}"#))
    }
    fn nonce(headers: &str) -> Reply {
        Reply("400 Bad Request", headers.to_owned(), r#"{"error":"use_dpop_nonce"}"#.to_owned())
    }
    fn at_server(seen: &Seen, origin: &str, more: &str, headers: &str) -> Option<Reply> {
        let proves = target(seen).1 == "/mcp" && seen.header("authorization").is_some();
        let Reply(status, challenge, body) = unauthorized(origin, more);
        proves.then(|| Reply(status, challenge + headers, body))
    }
    let cases: [Case; 11] = [
        ("a token that is not bound", |s, _, _| at_token(s, || token("Bearer")), "not bound to the key"),
        ("another kind", |s, _, _| at_token(s, || token("mac")), "not supported"),
        ("a nonce that is not there", |s, _, _| at_token(s, || nonce("")), "use_dpop_nonce"),
        (
            "ever new nonces",
            |s, _, state| {
                state.counted += 1;
                let next = format!("DPoP-Nonce: {}\r\n", state.counted);
                at_token(s, || nonce(&next))
            },
            "use_dpop_nonce",
        ),
        (
            "a nonce that no header can have",
            |s, _, _| at_token(s, || nonce("DPoP-Nonce: a\u{e4}\r\n")),
            "use_dpop_nonce",
        ),
        (
            "a proof that is not accepted",
            |s, _, _| {
                at_token(s, || {
                    Reply("400 Bad Request", String::new(), r#"{"error":"invalid_dpop_proof"}"#.into())
                })
            },
            "invalid_dpop_proof",
        ),
        (
            "a nonce that is not there, at the server",
            |s, o, _| at_server(s, o, ", error=\"use_dpop_nonce\"", ""),
            "401",
        ),
        (
            "ever new nonces at the server",
            |s, o, state| {
                state.counted += 1;
                let next = format!("DPoP-Nonce: {}\r\n", state.counted);
                at_server(s, o, ", error=\"use_dpop_nonce\"", &next)
            },
            "401",
        ),
        (
            "a proof that the server does not accept",
            |s, o, _| at_server(s, o, ", error=\"invalid_dpop_proof\"", ""),
            "401",
        ),
        (
            "a token that the server does not accept",
            |s, o, _| at_server(s, o, ", error=\"invalid_token\"", ""),
            "401",
        ),
        (
            "a redirect of the token request",
            |s, _, _| at_token(s, || crate::sign_in::moved("http://127.0.0.1:9/x")),
            "not followed",
        ),
    ];
    for (name, twist, why) in cases {
        let server = AuthServer::with(move |seen, origin, state| {
            Some(twist(seen, origin, state).unwrap_or_else(|| bound(seen, origin, state)))
        });
        let key = SigningKey::generate().unwrap();
        let done =
            connect(&server.url(), oauth(&MemoryStore::new()).dpop(key)).and_then(|client| call(&client));
        let error = done.expect_err(name);
        assert!(shown(&error).contains(why), "{name}: {error:?}");
        assert!(matches!(error.kind(), ErrorKind::Refused | ErrorKind::PeerMisbehaved), "{name}: {error:?}");
        let seen = server.seen();
        let of = |path: &str| seen.iter().filter(|seen| target(seen).1 == path).count();
        assert!(of("/token") <= 2 && of("/authorize") <= 1 && of("/mcp") <= 5, "{name}: {seen:?}");
    }
}

#[test]
fn the_challenge_for_a_nonce_may_be_the_second_one() {
    let server = AuthServer::with(|seen, origin, state| {
        if target(seen).1 != "/mcp" || seen.header("authorization").is_none() || state.counted > 0 {
            return Some(bound(seen, origin, state));
        }
        state.counted += 1;
        let headers = "WWW-Authenticate: Bearer\r\nWWW-Authenticate: DPoP error=\"use_dpop_nonce\"\r\nDPoP-Nonce: n\r\n";
        Some(Reply("401 Unauthorized", headers.into(), String::new()))
    });
    let key = SigningKey::generate().unwrap();
    call(&connect(&server.url(), oauth(&MemoryStore::new()).dpop(key)).unwrap()).unwrap();
    assert_eq!(server.state.lock().unwrap().issued, 1);
}

#[test]
fn a_bound_token_is_not_sent_without_its_key() {
    let server = AuthServer::with(|seen, origin, state| Some(bound(seen, origin, state)));
    let store = MemoryStore::new();
    let key = SigningKey::generate().unwrap();
    call(&connect(&server.url(), oauth(&store).dpop(key.clone())).unwrap()).unwrap();
    server.seen();
    let other = SigningKey::generate().unwrap();
    for oauth in [OAuth::new(store.clone()), OAuth::new(store.clone()).dpop(other.clone())] {
        let error = connect(&server.url(), oauth).unwrap_err();
        assert_eq!((error.kind(), error.code()), (ErrorKind::Refused, Some(401)), "{}", shown(&error));
        assert!(server.seen().iter().all(|seen| seen.header("authorization").is_none()));
    }
    // With another key the user signs in again, as the client that is registered.
    call(&connect(&server.url(), oauth(&store).dpop(other)).unwrap()).unwrap();
    let seen = server.seen();
    assert!(!seen.iter().any(|seen| seen.body.contains("refresh-1") || target(seen).1 == "/register"));
    assert!(store.load(&server.url()).unwrap().unwrap().contains("access-2"));
    // A sign-out needs no key.
    assert!(OAuth::new(store.clone()).sign_out(server.url()).unwrap());
    assert!(server.seen().iter().any(|seen| target(seen).1 == "/revoke"));
}

#[test]
fn a_server_without_proofs_gets_bearer_tokens() {
    for further in [
        "",
        r#","dpop_signing_alg_values_supported":["RS256"]"#,
        r#","dpop_signing_alg_values_supported":[]"#,
    ] {
        let server = AuthServer::with(move |seen, origin, _| {
            (target(seen).1 == ISSUER).then(|| Reply::json(server_metadata(origin, further)))
        });
        let key = SigningKey::generate().unwrap();
        call(&connect(&server.url(), oauth(&MemoryStore::new()).dpop(key)).unwrap()).unwrap();
        assert!(server.seen().iter().all(|seen| seen.header("dpop").is_none()));
    }
}

#[test]
fn a_key_authenticates_a_client() {
    let key = SigningKey::generate().unwrap().id("key-1");
    let (own, ids) = (key.clone(), Arc::new(Mutex::new(HashSet::new())));
    let server = AuthServer::with(move |seen, origin, state| {
        let (_, path, _) = target(seen);
        if path == ISSUER {
            return Some(Reply::json(
                server_metadata(origin, SUPPORTS).replace("[\"none\"]", "[\"private_key_jwt\"]"),
            ));
        }
        if path != "/token" {
            return Some(bound(seen, origin, state));
        }
        let of = |name: &str| parameter(&seen.body, name).unwrap();
        assert_eq!(of("client_assertion_type"), "urn:ietf:params:oauth:client-assertion-type:jwt-bearer");
        let (header, claims) = verified(&of("client_assertion"), &own.public_jwk());
        assert_eq!(
            (text(&header, "alg"), text(&header, "kid")),
            (Some("ES256".into()), Some("key-1".into()))
        );
        assert_eq!(
            (text(&claims, "iss"), text(&claims, "sub")),
            (Some("sensor".into()), Some("sensor".into()))
        );
        assert_eq!(text(&claims, "aud").as_deref(), Some(origin));
        let time = |name: &str| claims.root().get(name).and_then(Value::as_u64).unwrap();
        assert!(time("exp") > time("iat") && time("exp") - time("iat") <= 300);
        let fresh = ids.lock().unwrap().insert(text(&claims, "jti").unwrap());
        assert!(fresh, "an assertion is used once");
        // The first attempt is refused for its nonce, and the second one has another assertion.
        match state.counted {
            0 => {
                state.counted = 1;
                let headers = "DPoP-Nonce: n\r\n".to_owned();
                Some(Reply("400 Bad Request", headers, r#"{"error":"use_dpop_nonce"}"#.to_owned()))
            }
            _ => Some(bound(seen, origin, state)),
        }
    });
    let client = OAuthClient::new("sensor").key(key);
    let oauth = OAuth::new(MemoryStore::new()).client(client).on_sign_in(SignIn::client_credentials());
    let proofs = SigningKey::generate().unwrap();
    call(&connect(&server.url(), oauth.dpop(proofs)).unwrap()).unwrap();
}

#[test]
fn keys_are_read_strictly_and_shown_without_their_secret() {
    let key = SigningKey::generate().unwrap();
    let pem = key.to_pem().unwrap();
    assert!(pem.starts_with("-----BEGIN PRIVATE KEY-----\n"));
    let secret = pem.lines().nth(1).unwrap();
    let client = OAuthClient::new("c").key(key.clone());
    for shown in
        [format!("{key:?}"), format!("{client:?}"), format!("{:?}", OAuth::new(MemoryStore::new()).dpop(key))]
    {
        assert!(!shown.contains(secret), "{shown}");
    }
    assert!(SigningKey::from_pem(&format!("\n{pem}\n")).is_ok());
    let half = &pem[..pem.len() / 2];
    let public = "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n";
    for bad in ["", "secret", half, public, &pem.replace("PRIVATE", "EC PRIVATE"), &pem.replacen('M', "N", 1)]
    {
        let error = SigningKey::from_pem(bad).unwrap_err();
        assert!(error.kind() == ErrorKind::Invalid && !format!("{error:?}").contains(secret), "{error:?}");
    }
}
