//! Grants without a user, and users who do not finish: client credentials, assertions of a platform, an identity
//! provider. Secrets and assertions are sent only to their authorization server.

use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::time::Instant;

use base64ct::{Base64, Base64UrlUnpadded, Encoding};
use tinymcp::oauth::{IdentityProvider, MemoryStore, OAuth, OAuthClient, SignIn};
use tinymcp::{Error, ErrorKind, json};

use crate::TIMEOUT;
use crate::auth_server::{AuthServer, Reply, parameter, resource_metadata, server_metadata, target};
use crate::sign_in::{ISSUER, RESOURCE, call, connect, moved, origin, recorder, shown, status};
use crate::stage::Seen;

fn credentials() -> OAuth {
    let client = OAuthClient::new("sensor").secret("s3:cret");
    OAuth::new(MemoryStore::new()).client(client).on_sign_in(SignIn::client_credentials())
}

/// A JSON Web Token without a signature; only the authorization server checks it.
fn assertion(audience: &str) -> String {
    let part = |text: String| Base64UrlUnpadded::encode_string(text.as_bytes());
    let claims = format!(r#"{{"iss":"https://idp","aud":{audience}}}"#);
    format!("{}.{}.c2ln", part(r#"{"alg":"ES256"}"#.into()), part(claims))
}

/// Metadata of an authorization server for programs with secrets.
fn confidential(origin: &str) -> Reply {
    let metadata = server_metadata(origin, "");
    Reply::json(metadata.replace("[\"none\"]", "[\"client_secret_basic\",\"client_secret_post\"]"))
}

/// The bodies of the requests to the token endpoint.
fn token_requests(server: &AuthServer) -> Vec<Seen> {
    server.seen().into_iter().filter(|seen| target(seen).1 == "/token").collect()
}

fn refused(server: &AuthServer, oauth: OAuth) -> Error {
    let error = connect(&server.url(), oauth).and_then(|client| call(&client)).unwrap_err();
    let text = shown(&error);
    for secret in ["s3:cret", "eyJ", "jag-1"] {
        assert!(!text.contains(secret), "{text}");
    }
    error
}

#[test]
fn client_credentials_are_sent_as_the_server_supports_it() {
    for (methods, basic) in
        [(r#"["client_secret_basic","client_secret_post"]"#, true), (r#"["client_secret_post"]"#, false)]
    {
        let server = AuthServer::with(move |seen, origin, _| {
            let metadata = server_metadata(origin, "").replace("[\"none\"]", methods);
            (target(seen).1 == ISSUER).then(|| Reply::json(metadata))
        });
        call(&connect(&server.url(), credentials()).unwrap()).unwrap();
        let requests = token_requests(&server);
        let [request] = &requests[..] else { panic!("{requests:?}") };
        let of = |name: &str| parameter(&request.body, name);
        assert_eq!(of("grant_type").unwrap(), "client_credentials");
        assert_eq!((of("resource"), of("scope")), (Some(server.url()), Some("read".into())));
        let pair = Base64::encode_string(b"sensor:s3%3Acret");
        match basic {
            true => assert_eq!(request.header("authorization").unwrap(), format!("Basic {pair}")),
            false => assert_eq!(
                (of("client_id").unwrap(), of("client_secret").unwrap()),
                ("sensor".into(), "s3:cret".into())
            ),
        }
        assert_eq!(basic, of("client_secret").is_none());
        assert_eq!(basic, request.header("authorization").is_some());
    }
}

#[test]
fn a_grant_that_is_replaced_keeps_its_scopes() {
    let server = AuthServer::with(|seen, origin, state| match target(seen).1 {
        ISSUER => Some(confidential(origin)),
        RESOURCE if state.issued > 0 => {
            let all = resource_metadata(origin).replace(r#"["read"]"#, r#"["read","write"]"#);
            Some(Reply::json(all))
        }
        _ => None,
    });
    let client = connect(&server.url(), credentials()).unwrap();
    call(&client).unwrap();
    {
        let mut state = server.state.lock().unwrap();
        (state.access, state.refresh) = (None, None);
    }
    call(&client).unwrap();
    let requests = token_requests(&server);
    let of_client = |seen: &&Seen| parameter(&seen.body, "grant_type").unwrap() == "client_credentials";
    let scopes = requests.iter().filter(of_client).map(|seen| parameter(&seen.body, "scope").unwrap());
    assert_eq!(scopes.collect::<Vec<_>>(), ["read", "read"]);
}

#[test]
fn client_credentials_need_a_client_that_can_authenticate() {
    let way = SignIn::client_credentials;
    for oauth in [
        OAuth::new(MemoryStore::new()).on_sign_in(way()),
        OAuth::new(MemoryStore::new()).client(OAuthClient::new("sensor")).on_sign_in(way()),
        OAuth::new(MemoryStore::new()).client_id_document("https://h/client.json").on_sign_in(way()),
    ] {
        let server = AuthServer::new();
        let error = refused(&server, oauth);
        assert!(
            error.kind() == ErrorKind::Invalid && error.to_string().contains("a secret or a key"),
            "{error}"
        );
        assert!(token_requests(&server).is_empty());
    }
}

#[test]
fn a_program_renews_its_own_token_before_it_expires() {
    let server = AuthServer::with(|seen, origin, state| match target(seen).1 {
        ISSUER => Some(confidential(origin)),
        "/token" => {
            state.issued += 1;
            state.access = Some(format!("access-{}", state.issued));
            // The first token has expired when it arrives, by the clock of the client.
            let lifetime = if state.issued == 1 { 0 } else { 3600 };
            Some(Reply::json(format!(
                r#"{{"access_token":"access-{}","token_type":"Bearer","expires_in":{lifetime}}}"#,
                state.issued
            )))
        }
        _ => None,
    });
    let client = connect(&server.url(), credentials()).unwrap();
    call(&client).unwrap();
    let seen = server.seen();
    assert!(!seen.iter().any(|seen| seen.header("authorization") == Some("Bearer access-1")));
    assert_eq!(seen.iter().filter(|seen| target(seen).1 == "/token").count(), 2);
    assert_eq!(server.state.lock().unwrap().issued, 2);
}

#[test]
fn a_storm_of_threads_obtains_one_token() {
    let server = AuthServer::with(|seen, origin, _| (target(seen).1 == ISSUER).then(|| confidential(origin)));
    let client = Arc::new(connect(&server.url(), credentials()).unwrap());
    token_requests(&server);
    server.state.lock().unwrap().access = None;
    server.state.lock().unwrap().refresh = None;
    let start = Arc::new(Barrier::new(16));
    let threads: Vec<_> = (0..16)
        .map(|_| {
            let (client, start) = (Arc::clone(&client), Arc::clone(&start));
            std::thread::spawn(move || {
                start.wait();
                call(&client)
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap().unwrap();
    }
    let requests = token_requests(&server);
    let of = |kind: &str| requests.iter().filter(|seen| seen.body.contains(kind)).count();
    assert!(of("client_credentials") == 1 && of("refresh_token") <= 1, "{requests:?}");
}

#[test]
fn a_secret_is_sent_only_to_the_authorization_server_of_its_client() {
    let evil = recorder();
    let other = origin(&evil);
    let server = AuthServer::with(move |seen, origin, _| {
        let metadata =
            resource_metadata(origin).replace(&format!("[\"{origin}\"]"), &format!("[\"{other}\"]"));
        (target(seen).1 == RESOURCE).then(|| Reply::json(metadata))
    });
    let issuer = server.url().trim_end_matches("/mcp").to_owned();
    let client = OAuthClient::new("sensor").secret("s3:cret").issuer(issuer);
    let oauth = OAuth::new(MemoryStore::new()).client(client).on_sign_in(SignIn::client_credentials());
    let error = refused(&server, oauth);
    assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains("another authorization server"));
    assert!(evil.rest().is_empty());
    // A redirect of the token endpoint is not followed.
    let evil = recorder();
    let to = format!("{}/stolen", origin(&evil));
    let server = AuthServer::with(move |seen, origin, _| match target(seen).1 {
        ISSUER => Some(confidential(origin)),
        "/token" => Some(moved(&to)),
        _ => None,
    });
    assert!(refused(&server, credentials()).to_string().contains("not followed"));
    assert!(evil.rest().is_empty());
}

#[test]
fn an_error_of_a_grant_is_final() {
    for (code, body) in [
        ("400 Bad Request", r#"{"error":"invalid_grant"}"#),
        ("400 Bad Request", r#"{"error":"invalid_scope"}"#),
        ("400 Bad Request", r#"{"error":"unauthorized_client"}"#),
        ("401 Unauthorized", r#"{"error":"invalid_client"}"#),
        ("400 Bad Request", r#"{"error":"invalid_grant","error_description":"s3:cret is wrong"}"#),
        ("503 Service Unavailable", ""),
        ("200 OK", "<html>"),
    ] {
        let server = AuthServer::with(move |seen, origin, _| match target(seen).1 {
            ISSUER => Some(confidential(origin)),
            "/token" => Some(Reply(code, String::new(), body.to_owned())),
            _ => None,
        });
        let error = refused(&server, credentials());
        assert!(matches!(error.kind(), ErrorKind::Refused | ErrorKind::PeerMisbehaved), "{error:?}");
        assert_eq!(token_requests(&server).len(), 1, "{body}: a rejected grant is not tried again");
    }
}

#[test]
fn an_assertion_is_sent_to_its_audience_only() {
    for (audience, sent) in [
        (r#""ORIGIN""#, true),
        (r#""ORIGIN/""#, true),
        (r#""ORIGIN/token""#, true),
        (r#"["https://other.example","ORIGIN"]"#, true),
        (r#""https://other.example""#, false),
        (r#""ORIGIN.other.example""#, false),
        (r#""ORIGIN/other""#, false),
        (r#"["https://other.example"]"#, false),
        ("[]", false),
        ("7", false),
        ("null", false),
        (r#"{"ORIGIN":"ORIGIN"}"#, false),
        (r#""x","aud":"ORIGIN""#, false),
    ] {
        let server = AuthServer::new();
        let home = server.url().trim_end_matches("/mcp").to_owned();
        let audience = audience.replace("ORIGIN", &home);
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let (known, text) = (home.clone(), audience.clone());
        let way = SignIn::jwt_bearer(move |issuer| {
            assert_eq!(issuer, known);
            count.fetch_add(1, Ordering::Relaxed);
            Ok(format!("{}\n", assertion(&text)))
        });
        let oauth = OAuth::new(MemoryStore::new()).client(OAuthClient::new("workload")).on_sign_in(way);
        if sent {
            call(&connect(&server.url(), oauth).unwrap()).unwrap();
            let requests = token_requests(&server);
            let of = |name: &str| parameter(&requests[0].body, name).unwrap();
            assert_eq!(of("grant_type"), "urn:ietf:params:oauth:grant-type:jwt-bearer");
            assert_eq!((of("assertion"), of("client_id")), (assertion(&audience), "workload".into()));
            assert_eq!((of("resource"), of("scope")), (server.url(), "read".into()));
        } else {
            let error = refused(&server, oauth);
            assert_eq!(error.kind(), ErrorKind::Invalid, "{audience}: {error}");
            assert!(token_requests(&server).is_empty(), "{audience}");
        }
        assert_eq!(asked.load(Ordering::Relaxed), 1);
    }
}

#[test]
fn invalid_assertions_are_not_sent() {
    for text in ["", "abc", "a.b.c", "a.e30", "a.e30.c.d", "a.W10.c", "a.=.c"] {
        let server = AuthServer::new();
        let way = SignIn::jwt_bearer(move |_| Ok(text.to_owned()));
        let error = refused(&server, OAuth::new(MemoryStore::new()).on_sign_in(way));
        assert!(error.to_string().contains("invalid assertion"), "{text}: {error}");
        assert!(token_requests(&server).is_empty());
    }
    let server = AuthServer::new();
    let way = SignIn::jwt_bearer(|_| Err(Error::new(ErrorKind::Io, "the platform gives no assertion")));
    let error = refused(&server, OAuth::new(MemoryStore::new()).on_sign_in(way));
    assert!(error.kind() == ErrorKind::Io && error.to_string().contains("no assertion"), "{error}");
}

#[test]
fn a_client_that_names_its_issuer_may_use_any_assertion() {
    let server = AuthServer::new();
    let issuer = server.url().trim_end_matches("/mcp").to_owned();
    let client = OAuthClient::new("workload").issuer(issuer);
    let way = SignIn::jwt_bearer(|_| Ok(assertion(r#""api://exchange""#)));
    let oauth = OAuth::new(MemoryStore::new()).client(client).on_sign_in(way);
    call(&connect(&server.url(), oauth).unwrap()).unwrap();
}

/// An identity provider, with its answer to a token exchange.
fn provider(exchange: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> AuthServer {
    AuthServer::with(move |seen, origin, _| match target(seen).1 {
        ISSUER => Some(status("404 Not Found")),
        "/.well-known/openid-configuration" => Some(confidential(origin)),
        "/token" => Some(exchange(seen)),
        _ => None,
    })
}

fn jag(members: &str) -> Reply {
    Reply::json(format!("{{{members},\"token_type\":\"N_A\",\"expires_in\":300}}"))
}

const JAG: &str = r#""access_token":"jag-1","issued_token_type":"urn:ietf:params:oauth:token-type:id-jag""#;

fn enterprise(provider: &AuthServer) -> OAuth {
    let issuer = provider.url().trim_end_matches("/mcp").to_owned();
    let client = OAuthClient::new("host").secret("idp-s3:cret");
    let provider = IdentityProvider::new(issuer, client, || Ok("id-token-1".into()));
    let client = OAuthClient::new("at-server").secret("s3:cret");
    OAuth::new(MemoryStore::new()).client(client).on_sign_in(SignIn::identity_provider(provider))
}

#[test]
fn an_identity_provider_signs_the_user_in() {
    let idp = provider(|_| jag(JAG));
    let server = AuthServer::with(|seen, origin, _| (target(seen).1 == ISSUER).then(|| confidential(origin)));
    call(&connect(&server.url(), enterprise(&idp)).unwrap()).unwrap();
    let exchanges = token_requests(&idp);
    let [exchange] = &exchanges[..] else { panic!("{exchanges:?}") };
    let of = |name: &str| parameter(&exchange.body, name).unwrap();
    assert_eq!(of("grant_type"), "urn:ietf:params:oauth:grant-type:token-exchange");
    assert_eq!(of("requested_token_type"), "urn:ietf:params:oauth:token-type:id-jag");
    assert_eq!(of("subject_token_type"), "urn:ietf:params:oauth:token-type:id_token");
    assert_eq!((of("subject_token"), of("resource")), ("id-token-1".into(), server.url()));
    assert_eq!((of("audience"), of("scope")), (server.url().trim_end_matches("/mcp").into(), "read".into()));
    let basic = |id: &str| format!("Basic {}", Base64::encode_string(id.as_bytes()));
    assert_eq!(exchange.header("authorization").unwrap(), basic("host:idp-s3%3Acret"));
    let requests = server.seen();
    // Each server sees its own secrets only.
    for seen in &requests {
        let all = format!("{} {:?} {}", seen.line, seen.headers, seen.body);
        assert!(!all.contains("id-token-1") && !all.contains("idp-s3"), "{all}");
    }
    let grants: Vec<&Seen> = requests.iter().filter(|seen| target(seen).1 == "/token").collect();
    assert_eq!(parameter(&grants[0].body, "assertion").unwrap(), "jag-1");
    assert_eq!(grants[0].header("authorization").unwrap(), basic("at-server:s3%3Acret"));
}

#[test]
fn an_identity_provider_that_misbehaves_ends_the_sign_in() {
    type Case = (&'static str, fn(&Seen) -> Reply, &'static str);
    let cases: [Case; 9] = [
        (
            "another type",
            |_| {
                jag(
                    r#""access_token":"jag-1","issued_token_type":"urn:ietf:params:oauth:token-type:access_token""#,
                )
            },
            "another type",
        ),
        ("no type", |_| jag(r#""access_token":"jag-1""#), "another type"),
        (
            "no token",
            |_| jag(r#""issued_token_type":"urn:ietf:params:oauth:token-type:id-jag""#),
            "no `access_token`",
        ),
        (
            "an empty token",
            |_| jag(r#""access_token":"","issued_token_type":"urn:ietf:params:oauth:token-type:id-jag""#),
            "no `access_token`",
        ),
        ("twice a token", |_| jag(&format!("{JAG},{JAG}")), "is not JSON"),
        (
            "a rejection",
            |_| Reply("403 Forbidden", String::new(), r#"{"error":"access_denied"}"#.into()),
            "access_denied",
        ),
        (
            "an error with the token",
            |_| {
                Reply(
                    "400 Bad Request",
                    String::new(),
                    r#"{"error":"invalid_grant","error_description":"id-token-1"}"#.into(),
                )
            },
            "invalid_grant",
        ),
        ("a redirect", |_| moved("http://127.0.0.1:9/x"), "not followed"),
        ("a huge response", |_| Reply::json("a".repeat(200_000)), "longer than"),
    ];
    for (name, exchange, why) in cases {
        let idp = provider(exchange);
        let server = AuthServer::new();
        let text = shown(&refused(&server, enterprise(&idp)));
        assert!(text.contains(why) && !text.contains("id-token-1"), "{name}: {text}");
        assert!(token_requests(&server).is_empty(), "{name}");
        assert_eq!(token_requests(&idp).len(), 1, "{name}");
    }
    // A provider whose metadata names another issuer gets no identity token.
    let idp = AuthServer::with(|seen, origin, _| match target(seen).1 {
        ISSUER => Some(Reply::json(server_metadata(origin, "").replacen(origin, "https://evil", 1))),
        _ => None,
    });
    let text = shown(&refused(&AuthServer::new(), enterprise(&idp)));
    assert!(text.contains("another issuer") && token_requests(&idp).is_empty(), "{text}");
}

#[test]
fn a_cancelled_call_ends_its_sign_in() {
    let server = AuthServer::new();
    let store = MemoryStore::new();
    let client = connect(&server.url(), crate::sign_in::oauth(&store)).unwrap();
    drop(client);
    let (shown, addresses) = mpsc::channel();
    let shown = Mutex::new(shown);
    let way = SignIn::loopback(move |url| {
        // OK to drop: the test has the first address.
        let _ = shown.lock().unwrap().send(url.to_owned());
        Ok(())
    });
    let client = connect(&server.url(), OAuth::new(store).on_sign_in(way)).unwrap();
    server.state.lock().unwrap().access = None;
    server.state.lock().unwrap().refresh = None;
    let call = client.request_tool("whoami", json!({})).start().unwrap();
    let address = addresses.recv_timeout(TIMEOUT).unwrap();
    let redirect = parameter(address.split_once('?').unwrap().1, "redirect_uri").unwrap();
    let host = redirect.strip_prefix("http://").unwrap().split('/').next().unwrap().to_owned();
    assert!(TcpStream::connect(&host).is_ok(), "it listens");
    call.cancel();
    let end = Instant::now() + TIMEOUT;
    while TcpStream::connect(&host).is_ok() {
        assert!(Instant::now() < end, "the listener outlives the call");
        std::thread::yield_now();
    }
    // The next call may sign in.
    let _next = client.request_tool("whoami", json!({})).start().unwrap();
    assert_ne!(addresses.recv_timeout(TIMEOUT).unwrap(), address);
}
