//! Sign-in at servers and authorization servers that do not behave: each case ends with a typed
//! error or works, no token or code leaves its origin, and no error shows one.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use tinymcp::oauth::{MemoryStore, OAuth, SignIn, TokenStore};
use tinymcp::{Client, Endpoint, Error, ErrorKind, Protocol, json};

use crate::auth_server::{
    AuthServer, Reply, State, honest, parameter, resource_metadata, server_metadata, target,
};
use crate::stage::{Next, Seen, Stage, answer};
use crate::{client, limits};

pub(super) const RESOURCE: &str = "/.well-known/oauth-protected-resource/mcp";
pub(super) const ISSUER: &str = "/.well-known/oauth-authorization-server";

/// Visits an address as a browser; returns where it is redirected.
pub(super) fn visit(address: &str) -> Result<String, Error> {
    let (host, path) = address.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut stream = TcpStream::connect(host)?;
    write!(stream, "GET /{path} HTTP/1.1\r\nHost: {host}\r\n\r\n")?;
    stream.shutdown(std::net::Shutdown::Write)?;
    let mut response = String::new();
    stream.read_to_string(&mut response)?;
    let location = response.lines().find_map(|line| line.strip_prefix("Location: "));
    location.map(str::to_owned).ok_or_else(|| Error::new(ErrorKind::PeerMisbehaved, "no redirect"))
}

pub(super) fn oauth(store: &MemoryStore) -> OAuth {
    OAuth::new(store.clone()).on_sign_in(SignIn::redirect("http://127.0.0.1:9/callback", visit))
}

pub(super) fn connect(url: &str, oauth: OAuth) -> Result<Client, Error> {
    client().protocol(Protocol::Stateless).connect(Endpoint::new(url).oauth(oauth))
}

pub(super) fn call(client: &Client) -> Result<(), Error> {
    client.call_tool("whoami", json!({})).map(drop)
}

/// Signs in and makes a call.
fn attempt(server: &AuthServer) -> Result<(), Error> {
    call(&connect(&server.url(), oauth(&MemoryStore::new()))?)
}

/// The text of an error with its sources. It shows no credential.
pub(super) fn shown(error: &Error) -> String {
    let mut text = format!("{error} {error:?}");
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        text.push_str(&format!(" {inner}"));
        source = inner.source();
    }
    for secret in ["access-", "refresh-", "code-1", "device-1"] {
        assert!(!text.contains(secret), "{text}");
    }
    text
}

/// A case: the path with another response, that response for this origin, and a part of the error.
/// Without an error the sign-in succeeds.
type Case = (&'static str, &'static str, fn(&str) -> Reply, &'static str);

fn run(cases: &[Case]) {
    for (name, path, reply, why) in cases {
        let (path, reply) = (*path, *reply);
        let server = AuthServer::with(move |seen, origin, _| (target(seen).1 == path).then(|| reply(origin)));
        match (attempt(&server), *why) {
            (Ok(()), "") => {}
            (Err(error), why) if !why.is_empty() => {
                let text = shown(&error);
                assert!(text.contains(why), "{name}: {text}");
                assert!(
                    matches!(
                        error.kind(),
                        ErrorKind::PeerMisbehaved | ErrorKind::Refused | ErrorKind::Invalid
                    ),
                    "{name}: {text}"
                );
            }
            (found, _) => panic!("{name}: {found:?}"),
        }
    }
}

pub(super) fn status(status: &'static str) -> Reply {
    Reply(status, String::new(), String::new())
}

/// A redirect to another origin, to which nothing may be sent.
pub(super) fn moved(to: &str) -> Reply {
    Reply("307 Temporary Redirect", format!("Location: {to}\r\n"), String::new())
}

/// Resource metadata with this list of authorization servers.
fn servers(origin: &str, servers: &str) -> Reply {
    Reply::json(format!(r#"{{"resource":"{origin}/mcp","authorization_servers":{servers}}}"#))
}

#[test]
fn resource_metadata_is_checked() {
    run(&[
        ("as it is", RESOURCE, |o| Reply::json(resource_metadata(o)), ""),
        (
            "a resource above the server",
            RESOURCE,
            |o| Reply::json(resource_metadata(o).replace("/mcp", "")),
            "",
        ),
        ("missing", RESOURCE, |_| status("404 Not Found"), "names resource metadata that does not exist"),
        ("a failure", RESOURCE, |_| status("500 Internal Server Error"), "status 500"),
        ("elsewhere", RESOURCE, |_| moved("http://127.0.0.1:9/x"), "does not exist"),
        ("no JSON", RESOURCE, |_| Reply::json("<html>"), "does not exist"),
        ("an array", RESOURCE, |_| Reply::json("[]"), "does not exist"),
        ("deep", RESOURCE, |_| Reply::json("[".repeat(5000)), "does not exist"),
        (
            "twice the same name",
            RESOURCE,
            |o| {
                Reply::json(resource_metadata(o).replace("{\"resource\"", "{\"resource\":\"x\",\"resource\""))
            },
            "does not exist",
        ),
        ("no resource", RESOURCE, |_| Reply::json(r#"{"authorization_servers":["x"]}"#), "no `resource`"),
        (
            "another server",
            RESOURCE,
            |o| Reply::json(resource_metadata(o).replace("/mcp", "/mcp2")),
            "that of another server",
        ),
        (
            "another origin",
            RESOURCE,
            |o| Reply::json(resource_metadata(o).replacen("http://127.0.0.1", "http://localhost", 1)),
            "that of another server",
        ),
        (
            "a fragment",
            RESOURCE,
            |o| Reply::json(resource_metadata(o).replace("/mcp", "/mcp#a")),
            "that of another server",
        ),
        ("no servers", RESOURCE, |o| servers(o, "[]"), "names no authorization server"),
        ("servers of another kind", RESOURCE, |o| servers(o, "7"), "names no authorization server"),
        ("a script", RESOURCE, |o| servers(o, r#"["javascript:alert(1)"]"#), "invalid issuer"),
        ("a file", RESOURCE, |o| servers(o, r#"["file:///etc/passwd"]"#), "invalid issuer"),
        ("http elsewhere", RESOURCE, |o| servers(o, r#"["http://as.example"]"#), "https is required"),
        ("a private address", RESOURCE, |o| servers(o, r#"["http://10.0.0.1"]"#), "https is required"),
        ("credentials", RESOURCE, |o| servers(o, r#"["http://a:b@127.0.0.1"]"#), "credentials"),
        ("a query", RESOURCE, |o| servers(o, &format!(r#"["{o}?x=1"]"#)), "it has a query"),
        ("huge", RESOURCE, |_| Reply::json(format!("{{\"x\":\"{}\"}}", "a".repeat(200_000))), "longer than"),
    ]);
}

#[test]
fn metadata_of_the_authorization_server_is_checked() {
    fn with(origin: &str, old: &str, new: &str) -> Reply {
        let metadata = server_metadata(origin, "");
        assert!(metadata.contains(old));
        Reply::json(metadata.replace(old, new))
    }
    run(&[
        ("missing", ISSUER, |_| status("404 Not Found"), "has no metadata"),
        (
            "another issuer",
            ISSUER,
            |o| Reply::json(server_metadata(o, "").replacen(o, "https://evil", 1)),
            "another issuer",
        ),
        (
            "a slash",
            ISSUER,
            |o| with(o, &format!("\"issuer\":\"{o}\""), &format!("\"issuer\":\"{o}/\"")),
            "another issuer",
        ),
        ("no issuer", ISSUER, |o| with(o, "\"issuer\"", "\"issue\""), "another issuer"),
        ("no token endpoint", ISSUER, |o| with(o, "token_endpoint\"", "x\""), "no `token_endpoint`"),
        ("token to a script", ISSUER, |o| with(o, &format!("{o}/token"), "javascript:x"), "token_endpoint"),
        (
            "token over http",
            ISSUER,
            |o| with(o, &format!("{o}/token"), "http://as.example/t"),
            "https is required",
        ),
        (
            "page of a script",
            ISSUER,
            |o| with(o, &format!("{o}/authorize"), "javascript:x"),
            "authorization_endpoint",
        ),
        (
            "page of a file",
            ISSUER,
            |o| with(o, &format!("{o}/authorize"), "file:///x"),
            "authorization_endpoint",
        ),
        (
            "page of data",
            ISSUER,
            |o| with(o, &format!("{o}/authorize"), "data:text/html,x"),
            "authorization_endpoint",
        ),
        ("no page", ISSUER, |o| with(o, "authorization_endpoint", "x"), "no `authorization_endpoint`"),
        ("no PKCE", ISSUER, |o| with(o, "code_challenge_methods_supported", "x"), "PKCE"),
        ("plain PKCE", ISSUER, |o| with(o, "S256", "plain"), "PKCE"),
        ("no registration", ISSUER, |o| with(o, "registration_endpoint", "x"), "does not register clients"),
        (
            "no usable authentication",
            ISSUER,
            |o| with(o, "[\"none\"]", "[\"tls_client_auth\"]"),
            "no client authentication",
        ),
        (
            "a million scopes",
            ISSUER,
            |o| {
                Reply::json(server_metadata(
                    o,
                    &format!(",\"scopes_supported\":[{}\"z\"]", "\"s\",".repeat(15_000)),
                ))
            },
            "",
        ),
        (
            "huge",
            ISSUER,
            |o| Reply::json(server_metadata(o, &format!(",\"x\":\"{}\"", "a".repeat(200_000)))),
            "longer than",
        ),
        ("registration fails", "/register", |_| status("500 Internal Server Error"), "status 500"),
        (
            "registration is rejected",
            "/register",
            |_| Reply("400 Bad Request", String::new(), r#"{"error":"invalid_redirect_uri"}"#.to_owned()),
            "invalid_redirect_uri",
        ),
        ("registration without an id", "/register", |_| Reply::json("{}"), "client_id"),
        ("registration elsewhere", "/register", |_| moved("http://127.0.0.1:9/x"), "not followed"),
    ]);
}

#[test]
fn a_server_without_metadata_signs_in_at_its_origin_and_learns_the_revision() {
    let server = AuthServer::with(|seen, origin, state| match target(seen).1 {
        path if path.starts_with("/.well-known/") => Some(status("404 Not Found")),
        "/mcp" if honest(seen, origin, state).0 == "401 Unauthorized" => Some(status("401 Unauthorized")),
        _ => None,
    });
    attempt(&server).unwrap();
    let seen = server.seen();
    for path in ["/register", "/authorize", "/token"] {
        assert!(seen.iter().any(|seen| target(seen).1 == path), "no request to {path}");
    }
    let discovery = seen.iter().filter(|seen| target(seen).1.starts_with("/.well-known/"));
    let revisions: Vec<_> = discovery.map(|seen| seen.header("mcp-protocol-version")).collect();
    assert_eq!(revisions, [Some("2026-07-28"); 4]);
}

#[test]
fn a_client_id_document_has_an_https_url_with_a_path() {
    for (document, valid) in [
        ("https://client.example/client.json", true),
        ("https://client.example", false),
        ("http://127.0.0.1/client.json", false),
        ("https://client.example/client.json#x", false),
        ("client.json", false),
    ] {
        let server = AuthServer::with(|seen, origin, _| {
            let supports = ",\"client_id_metadata_document_supported\":true";
            (target(seen).1 == ISSUER).then(|| Reply::json(server_metadata(origin, supports)))
        });
        let done = connect(&server.url(), oauth(&MemoryStore::new()).client_id_document(document));
        assert_eq!(done.is_ok(), valid, "{document}");
        let seen = server.seen();
        assert_eq!(seen.iter().any(|seen| target(seen).1 == "/authorize"), valid, "{document}");
        assert!(!seen.iter().any(|seen| target(seen).1 == "/register"), "{document}");
    }
}

/// A redirect of the browser to the client with this query.
fn redirected(seen: &Seen, query: &str) -> Reply {
    let (_, _, asked) = target(seen);
    let own = parameter(asked, "state").unwrap();
    let query = query.replace("STATE", &own);
    Reply("302 Found", format!("Location: http://127.0.0.1:9/callback?{query}\r\n"), String::new())
}

#[test]
fn authorization_responses_are_checked() {
    const SENDS: &str = r#","authorization_response_iss_parameter_supported":true"#;
    for (query, further, why) in [
        ("code=code-1&state=STATE", "", ""),
        ("code=code-1&state=STATE&iss=ORIGIN", SENDS, ""),
        ("code=code-1&state=STATE&iss=ORIGIN", "", ""),
        ("code=code-1&state=STATE", SENDS, "`iss` is missing"),
        ("code=code-1&state=STATE&iss=https%3A%2F%2Fevil", SENDS, "another authorization server"),
        ("code=code-1&state=STATE&iss=https%3A%2F%2Fevil", "", "another authorization server"),
        ("code=code-1&state=STATE&iss=ORIGIN%2F", "", "another authorization server"),
        ("error=access_denied&state=STATE&iss=https%3A%2F%2Fevil", "", "another authorization server"),
        ("code=code-1", "", "`state`"),
        ("code=code-1&state=guess", "", "`state`"),
        ("error=access_denied&state=guess", "", "`state`"),
        ("code=code-1&code=code-2&state=STATE", "", "occurs twice"),
        ("code=code-1&state=STATE&state=STATE", "", "occurs twice"),
        ("code=%zz&state=STATE", "", "malformed"),
        ("state=STATE", "", "`code` is missing"),
        ("code=&state=STATE", "", "`code` is missing"),
        ("error=access_denied&error_description=a%1b%5b31mb&state=STATE", "", "access_denied: a[31mb"),
        ("access_token=x&token_type=bearer&state=STATE", "", "`code` is missing"),
    ] {
        let server = AuthServer::with(move |seen, origin, _| match target(seen).1 {
            ISSUER => Some(Reply::json(server_metadata(origin, further))),
            "/authorize" => {
                let encoded = origin.replace(':', "%3A").replace('/', "%2F");
                Some(redirected(seen, &query.replace("ORIGIN", &encoded)))
            }
            _ => None,
        });
        match attempt(&server) {
            Ok(()) => assert_eq!(why, "", "{query}"),
            Err(error) => assert!(!why.is_empty() && shown(&error).contains(why), "{query}: {error:?}"),
        }
        if !why.is_empty() {
            assert!(!server.seen().iter().any(|seen| target(seen).1 == "/token"), "{query}");
        }
    }
    let server = AuthServer::with(|seen, _, _| {
        (target(seen).1 == "/authorize").then(|| moved("http://127.0.0.1:10/callback?code=code-1"))
    });
    assert!(shown(&attempt(&server).unwrap_err()).contains("redirect URI"));
}

#[test]
fn token_responses_are_checked() {
    fn token(members: &str) -> Reply {
        Reply::json(format!("{{\"token_type\":\"Bearer\",{members}}}"))
    }
    fn error(body: &str) -> Reply {
        Reply("400 Bad Request", String::new(), body.to_owned())
    }
    const AT: &str = "/token";
    run(&[
        ("no token", AT, |_| token(r#""x":1"#), "missing `access_token`"),
        ("an empty token", AT, |_| token(r#""access_token":"""#), "characters"),
        ("a header in the token", AT, |_| token(r#""access_token":"a\r\nX-Y: z""#), "characters"),
        ("a token that is a number", AT, |_| token(r#""access_token":7"#), "missing `access_token`"),
        (
            "twice a token",
            AT,
            |_| token(r#""access_token":"access-x","access_token":"access-y""#),
            "is not JSON",
        ),
        ("no type", AT, |_| Reply::json(r#"{"access_token":"access-x"}"#), "missing `token_type`"),
        (
            "another type",
            AT,
            |_| Reply::json(r#"{"access_token":"access-x","token_type":"mac"}"#),
            "not supported",
        ),
        (
            "a bound token",
            AT,
            |_| Reply::json(r#"{"access_token":"access-x","token_type":"DPoP"}"#),
            "not supported",
        ),
        (
            "an error with success",
            AT,
            |_| Reply::json(r#"{"error":"nope","access_token":"access-x"}"#),
            "nope",
        ),
        ("rejected", AT, |_| error(r#"{"error":"invalid_grant"}"#), "invalid_grant"),
        (
            "an error that repeats the code",
            AT,
            |_| error(r#"{"error":"invalid_grant","error_description":"bad code-1"}"#),
            "invalid_grant",
        ),
        ("a page", AT, |_| Reply::json("<html>"), "is not JSON"),
        ("a failure", AT, |_| status("503 Service Unavailable"), "status 503"),
        ("elsewhere", AT, |_| moved("http://127.0.0.1:9/x"), "not followed"),
        ("huge", AT, |_| Reply::json("a".repeat(200_000)), "longer than"),
    ]);
}

#[test]
fn expiries_of_any_form_cause_no_error() {
    for expiry in ["0", "-1", "1e300", "99999999999999999999", "\"60\"", "\"x\"", "null", "{}"] {
        let server = AuthServer::with(move |seen, _, state| {
            (target(seen).1 == "/token").then(|| {
                state.issued += 1;
                state.access = Some(format!("access-{}", state.issued));
                state.refresh = Some("refresh-1".to_owned());
                Reply::json(format!(
                    r#"{{"access_token":"access-{}","token_type":"bearer","refresh_token":"refresh-1","expires_in":{expiry}}}"#,
                    state.issued
                ))
            })
        });
        attempt(&server).unwrap_or_else(|error| panic!("{expiry}: {error:?}"));
        assert!(server.state.lock().unwrap().issued <= 8, "{expiry}");
    }
}

#[test]
fn challenges_are_only_data() {
    for (challenge, why) in [
        ("Bearer", ""),
        ("Bearer realm=\"unterminated", ""),
        ("Basic realm=x, Bearer", ""),
        ("===,,,", ""),
        ("Bearer resource_metadata=\"javascript:x\"", "invalid URL of the resource metadata"),
        ("Bearer resource_metadata=\"file:///etc/passwd\"", "invalid URL of the resource metadata"),
        ("Bearer resource_metadata=\"http://169.254.169.254/latest\"", "https is required"),
        ("Bearer resource_metadata=\"/relative\"", "not an absolute URL"),
        ("Bearer scope=\"read \\\"write\"", ""),
    ] {
        let challenge = challenge.to_owned();
        let server = AuthServer::with(move |seen, _, state| {
            let refused = target(seen).1 == "/mcp" && state.access.is_none();
            refused.then(|| {
                Reply("401 Unauthorized", format!("WWW-Authenticate: {challenge}\r\n"), String::new())
            })
        });
        match attempt(&server) {
            Ok(()) => assert_eq!(why, "", "{why}"),
            Err(error) => assert!(!why.is_empty() && shown(&error).contains(why), "{why}: {error:?}"),
        }
    }
}

#[test]
fn a_token_that_is_never_accepted_costs_one_sign_in() {
    let server = AuthServer::with(|seen, origin, state| {
        state.access = (target(seen).1 != "/mcp").then(String::new);
        Some(honest(seen, origin, state))
    });
    let error = attempt(&server).unwrap_err();
    assert_eq!((error.kind(), error.code()), (ErrorKind::Refused, Some(401)), "{}", shown(&error));
    assert!(error.challenge().unwrap().resource_metadata().unwrap().ends_with(RESOURCE));
    assert_eq!(server.state.lock().unwrap().issued, 1);
}

/// Returns a server that asks for further scopes: those that the function returns for each refusal.
fn greedy(scope: impl Fn(usize) -> String + Send + Sync + 'static) -> AuthServer {
    let refusals = AtomicUsize::new(0);
    AuthServer::with(move |seen, _, state: &mut State| {
        if !seen.body.contains("tools/call") || state.access.is_none() {
            return None;
        }
        let scope = scope(refusals.fetch_add(1, Ordering::Relaxed));
        let challenge =
            format!("WWW-Authenticate: Bearer error=\"insufficient_scope\", scope=\"{scope}\"\r\n");
        Some(Reply("403 Forbidden", challenge, String::new()))
    })
}

#[test]
fn a_server_that_wants_ever_more_scopes_is_given_up() {
    let server = greedy(|number| format!("s{number}"));
    let error = attempt(&server).unwrap_err();
    assert_eq!((error.kind(), error.code()), (ErrorKind::Refused, Some(403)), "{}", shown(&error));
    // One for the connection, and at most three for the call.
    let asked: Vec<String> = server
        .seen()
        .iter()
        .filter(|seen| target(seen).1 == "/authorize")
        .map(|seen| parameter(target(seen).2, "scope").unwrap())
        .collect();
    assert_eq!(asked, ["read", "read s0", "read s0 s1", "read s0 s1 s2"]);
    // A scope that was granted already is not asked for again.
    let server = greedy(|_| "read".to_owned());
    assert_eq!(attempt(&server).unwrap_err().code(), Some(403));
    assert_eq!(server.state.lock().unwrap().issued, 1);
}

/// A server that only records what it gets.
pub(super) fn recorder() -> Stage {
    Stage::new(|_, to| -> Next { answer(to, "200 OK", "Content-Type: application/json\r\n", "{}") })
}

pub(super) fn origin(stage: &Stage) -> String {
    stage.url().split("/mcp").next().unwrap().to_owned()
}

#[test]
fn no_credential_leaves_its_origin() {
    for path in ["/mcp", RESOURCE, ISSUER, "/register", "/token"] {
        let evil = recorder();
        let to = format!("{}/stolen", origin(&evil));
        let server = AuthServer::with(move |seen, _, state| {
            let authorized = path != "/mcp" || state.access.is_some();
            (target(seen).1 == path && authorized).then(|| moved(&to))
        });
        shown(&attempt(&server).unwrap_err());
        assert!(evil.rest().is_empty(), "{path} was followed");
    }
    // After a change of the authorization server, the old refresh token is not sent to the new one.
    let evil = AuthServer::new();
    let other = evil.url().trim_end_matches("/mcp").to_owned();
    let server = AuthServer::with(move |seen, origin, state| {
        let moved = state.issued == 1 && target(seen).1 == RESOURCE;
        moved.then(|| servers(origin, &format!("[\"{other}\"]")))
    });
    let store = MemoryStore::new();
    let client = connect(&server.url(), oauth(&store)).unwrap();
    server.state.lock().unwrap().access = None;
    shown(&call(&client).unwrap_err());
    for seen in evil.seen() {
        let all = format!("{} {:?} {}", seen.line, seen.headers, seen.body);
        assert!(!all.contains("access-1") && !all.contains("refresh-1"), "{all}");
        assert!(!all.contains("client-1") || target(&seen).1 != "/register", "{all}");
    }
    // The body of an error is the server's, and may repeat the token.
    let server = AuthServer::with(|seen, _, state| {
        let token = state.access.clone().filter(|_| seen.body.contains("tools/call"))?;
        Some(Reply("418 Teapot", String::new(), format!("your token is {token}")))
    });
    assert!(shown(&attempt(&server).unwrap_err()).contains("[token]"));
}

#[test]
fn many_threads_renew_a_token_once() {
    let server = AuthServer::new();
    let store = MemoryStore::new();
    let client = Arc::new(connect(&server.url(), oauth(&store)).unwrap());
    let refreshes = |server: &AuthServer| {
        let seen = server.seen();
        seen.iter().filter(|seen| seen.body.contains("grant_type=refresh_token")).count()
    };
    for _ in 0..5 {
        refreshes(&server);
        server.state.lock().unwrap().access = None;
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
        assert_eq!(refreshes(&server), 1);
    }
    assert!(store.load(&server.url()).unwrap().unwrap().contains("access-6"));
}

#[test]
fn a_refresh_that_fails_for_a_while_keeps_the_refresh_token() {
    let server = AuthServer::with(|seen, _, state| {
        let overloaded = seen.body.contains("grant_type=refresh_token") && state.issued == 1;
        overloaded.then(|| status("503 Service Unavailable"))
    });
    let store = MemoryStore::new();
    let client = connect(&server.url(), oauth(&store)).unwrap();
    server.state.lock().unwrap().access = None;
    let error = call(&client).unwrap_err();
    assert!(shown(&error).contains("503"));
    assert!(store.load(&server.url()).unwrap().unwrap().contains("refresh-1"));
    // A refresh token that is used up needs the user.
    server.state.lock().unwrap().issued = 2;
    server.state.lock().unwrap().refresh = None;
    call(&client).unwrap();
    assert!(store.load(&server.url()).unwrap().unwrap().contains("refresh-3"));
}

#[test]
fn a_slow_authorization_server_ends_with_the_call() {
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let ended = Mutex::new(ended);
    let server = AuthServer::with(move |seen, _, _| {
        if target(seen).1 == ISSUER {
            // Until the end of the test.
            let _ = ended.lock().unwrap().recv();
        }
        None
    });
    let mut limits = limits();
    limits.client.call_timeout = Duration::from_millis(300);
    limits.client.probe_timeout = limits.client.call_timeout;
    let oauth = oauth(&MemoryStore::new());
    let builder = Client::builder("tester", "1.0.0").limits(limits).protocol(Protocol::Stateless);
    let error = builder.connect(Endpoint::new(server.url()).oauth(oauth)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{}", shown(&error));
    drop(end);
}
