//! Hosts, origins, tokens and principals.

use serde_json::json;
use tinymcp::{ErrorKind, ResourceMetadata, Server, StatusPage, TokenRefusal};

use crate::client::{META, initialize, serve, serve_with, server, stage};

// shows: H11-02 H26-02 H26-03 SEC-01
#[test]
fn foreign_hosts_and_origins_are_rejected() {
    let served = serve(server(stage()));
    let status = |fields: &[(&str, &str)]| served.post(fields, &initialize("2025-11-25", json!({}))).status;
    for host in ["localhost", "localhost:1234", "127.0.0.1", "[::1]:8080"] {
        assert_eq!(status(&[("Host", host)]), 200, "{host}");
    }
    assert_eq!((status(&[("Host", "localhost.")]), status(&[("Host", "localhost:+80")])), (200, 403));
    assert_eq!(status(&[("Host", "evil.example")]), 403);
    assert_eq!(status(&[("Origin", "http://evil.example")]), 403);
    assert_eq!(status(&[("Origin", "://localhost")]), 403);
    assert_eq!(status(&[("Origin", "javascript://localhost")]), 403);
    assert_eq!(status(&[("Origin", "null")]), 403);
    assert_eq!(status(&[("Host", "evil.example"), ("Origin", "http://evil.example")]), 403);
    assert_eq!(status(&[("Origin", "http://localhost:5173")]), 200);
    assert_eq!(status(&[("Origin", "http://localhost"), ("Origin", "http://localhost")]), 403);
    // For every kind of request.
    for method in ["GET", "DELETE", "OPTIONS"] {
        assert_eq!(served.send(method, "/mcp", &[("Host", "evil.example")], "").status, 403);
    }
    let open = serve_with(server(stage()), |http| {
        http.allow_host("board.example").allow_origin("https://app.example").path("/tools")
    });
    let fields = |host, origin| [("Content-Type", "application/json"), ("Host", host), ("Origin", origin)];
    let body = initialize("2025-11-25", json!({})).to_string();
    let status = |host, origin| open.send("POST", "/tools", &fields(host, origin), &body).status;
    assert_eq!(status("board.example:1", "https://app.example"), 200);
    assert_eq!(status("board.example", "https://board.example"), 200);
    assert_eq!(status("other.example", "https://app.example"), 403);
}

fn guarded() -> crate::client::Served {
    serve_with(server(stage()), |http| {
        http.bearer(|token| match token {
            "a1" | "a2" => Ok("alice".to_owned()),
            "b1" => Ok("bob".to_owned()),
            "weak" => Err(TokenRefusal::Scope("tools:call".to_owned())),
            _ => Err(TokenRefusal::Invalid),
        })
        .resource_metadata(
            ResourceMetadata::new("http://localhost/mcp", "https://login.example").scope("tools:call"),
        )
    })
}

// shows: AUTHS-01 AUTHS-02 AUTHS-03 AUTHS-04 AUTHS-05 AUTHS-10
#[test]
fn tokens_determine_the_principal() {
    let served = guarded();
    let who = |token: &str| {
        let authorization = format!("Bearer {token}");
        let answer =
            served.modern(&[("Authorization", &authorization)], "tools/call", json!({"name": "who"}));
        (answer.status, answer.field("www-authenticate").map(str::to_owned))
    };
    assert_eq!(who("a1").0, 200);
    let (status, challenge) = who("c1");
    let challenge = challenge.unwrap();
    assert_eq!(status, 401);
    assert!(
        challenge.contains("invalid_token")
            && challenge.contains("/.well-known/oauth-protected-resource/mcp")
    );
    assert!(!challenge.contains("c1"));
    assert_eq!(who("weak").0, 403);
    assert!(who("weak").1.unwrap().contains("insufficient_scope"));
    assert_eq!(served.call("who", json!({})).status, 401);
    assert_eq!(who("a b").0, 400);
    let answer = served.modern(&[("Authorization", "Bearer b1")], "tools/call", json!({"name": "who"}));
    assert_eq!(answer.json()["result"]["content"][0]["text"], "bob");
    // A token in the query does not count, and every method requires one.
    assert_eq!(
        served.send("POST", "/mcp?access_token=a1", &[("Content-Type", "application/json")], "{}").status,
        401
    );
    assert_eq!(served.send("GET", "/mcp", &[], "").status, 401);
    for path in ["/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"] {
        let document = served.send("GET", path, &[], "").json();
        assert_eq!(document["resource"], "http://localhost/mcp");
        assert_eq!(document["authorization_servers"], json!(["https://login.example"]));
    }
    assert_eq!(served.send("GET", "/.well-known/oauth-protected-resource/other", &[], "").status, 404);
}

#[test]
fn pages_require_the_same_host_and_token_as_the_endpoint_unless_public() {
    let served = serve_with(server(stage()), |http| {
        http.tokens([("a1", "alice")])
            .page(StatusPage::new("/healthz", "text/plain", || "ok\n".to_owned()).public())
            .page(StatusPage::new("/status", "application/json", || "{}".to_owned()))
            .page(StatusPage::new("/broken", "text/plain", || panic!("broken")).public())
    });
    let status = |method, path, fields: &[_]| served.send(method, path, fields, "").status;
    let health = served.send("GET", "/healthz", &[("Host", "10.0.0.7:80")], "");
    assert_eq!((health.status, health.field("content-type")), (200, Some("text/plain")));
    assert_eq!(health.field("cache-control"), Some("no-store"));
    assert_eq!(health.body(), "ok\n");
    assert_eq!(served.send("HEAD", "/healthz", &[], "").raw_rest(), b"");
    assert_eq!(status("POST", "/healthz", &[("Content-Type", "application/json")]), 405);
    assert_eq!(status("GET", "/broken", &[]), 500);
    let token = ("Authorization", "Bearer a1");
    assert_eq!(status("GET", "/status", &[]), 401);
    assert_eq!(status("GET", "/status", &[token, ("Host", "10.0.0.7")]), 403);
    assert_eq!(served.send("GET", "/status?x=1", &[token], "").body(), "{}");
    assert_eq!(status("GET", "/statu", &[token]), 404);
    assert_eq!(
        status("POST", "/mcp", &[("Content-Type", "application/json")]),
        401,
        "the token is still needed"
    );
}

#[test]
fn two_pages_cannot_have_one_path() {
    for path in ["/mcp", "/a", "a", "/a b"] {
        let page = |path: &str| StatusPage::new(path, "text/plain", String::new);
        let http = Server::new("x", "1").http().page(page("/a")).page(page(path));
        assert_eq!(http.bind("127.0.0.1:0").map(drop).unwrap_err().kind(), ErrorKind::Invalid, "{path}");
    }
}

// shows: SEC-06
#[test]
fn a_session_belongs_to_its_principal() {
    let served = guarded();
    let alice = ("Authorization", "Bearer a1");
    let answer = served.post(&[alice], &initialize("2025-11-25", json!({})));
    let id = answer.field("mcp-session-id").unwrap().to_owned();
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "who"}});
    let as_whom = |token| served.post(&[("Authorization", token), ("Mcp-Session-Id", &id)], &call);
    assert_eq!(as_whom("Bearer a1").json()["result"]["content"][0]["text"], "alice");
    // Another token of the same owner is accepted; another owner gets 404.
    assert_eq!(as_whom("Bearer a2").status, 200);
    assert_eq!(as_whom("Bearer b1").status, 404);
    // Another owner cannot read its events either.
    let listen = |token, last| {
        let accept = ("Accept", "text/event-stream");
        let fields =
            [("Authorization", token), ("Mcp-Session-Id", id.as_str()), accept, ("Last-Event-ID", last)];
        served.send("GET", "/mcp", &fields, "").status
    };
    assert_eq!((listen("Bearer b1", "0-0"), listen("Bearer a1", "0-0")), (404, 200));
    let bob = [("Authorization", "Bearer b1"), ("Mcp-Session-Id", id.as_str())];
    assert_eq!(served.send("DELETE", "/mcp", &bob, "").status, 404);
    assert_eq!(as_whom("Bearer a1").status, 200);
}

#[test]
fn a_request_state_is_bound_to_its_principal() {
    let served = guarded();
    let capabilities = json!({format!("{META}clientCapabilities"): {"elicitation": {}}});
    let ask = |token, params| served.modern(&[("Authorization", token)], "tools/call", params);
    let first = ask("Bearer a1", json!({"name": "ask", "_meta": capabilities})).json();
    let state = first["result"]["requestState"].clone();
    assert!(state.is_string(), "{first}");
    let answers = json!({"name": {"action": "decline"}});
    let retry =
        json!({"name": "ask", "_meta": capabilities, "inputResponses": answers, "requestState": state});
    assert_eq!(ask("Bearer b1", retry.clone()).refusal(), (400, -32602));
    assert_eq!(ask("Bearer a2", retry).json()["result"]["content"][0]["text"], "Decline");
}

#[test]
fn listed_tokens_are_accepted() {
    let served = serve_with(server(stage()), |http| http.tokens([("s3cret", "alice")]));
    let status = |token: &str| served.modern(&[("Authorization", token)], "tools/list", json!({})).status;
    assert_eq!((status("Bearer s3cret"), status("Bearer s3cre"), status("Bearer s3crets")), (200, 401, 401));
}

/// An unset variable must not create a server that rejects everyone, or accepts everyone.
#[test]
fn a_token_that_no_client_can_send_is_an_error_before_serving_starts() {
    for token in ["", "two words", "line\n", "\u{e9}t\u{e9}"] {
        let http = server(stage()).http().tokens([("good", "alice"), (token, "bob")]);
        let error = http.bind("127.0.0.1:0").err().expect("the token was accepted");
        assert_eq!(error.kind(), ErrorKind::Invalid, "{token:?}");
        let text = error.to_string();
        assert!(text.contains("bob") && !text.contains("alice"), "{text}");
        assert!(token.is_empty() || !text.contains(token), "{text}");
    }
    let http = server(stage()).http().tokens([("A-Z._~+/=", "alice")]);
    assert!(http.bind("127.0.0.1:0").is_ok());
}
