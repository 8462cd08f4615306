//! Principals with scopes, tools that require them, and the document that lists them.

use serde_json::{Value, json};
use tinymcp::{HttpServer, Principal, ResourceMetadata, Server, TokenRefusal, Tool};

use crate::client::{Answer, Nothing, Served, serve, serve_with};

const DATES: [&str; 3] = ["2025-03-26", "2025-11-25", "2026-07-28"];

fn files() -> Server {
    let mut server = Server::new("files", "1");
    server
        .tool(Tool::new("open"), |ctx, _: Nothing| Ok(ctx.scopes().join("+")))
        .unwrap()
        .tool(Tool::new("write").requires_scope("files:write files:read"), |ctx, _: Nothing| {
            Ok(ctx.scopes().join("+"))
        })
        .unwrap()
        .inline_tool(Tool::new("erase").requires_scope("files:erase"), |_, _: Nothing| Ok("erased"))
        .unwrap();
    server
}

fn guarded(http: HttpServer) -> HttpServer {
    http.bearer(|token| match token {
        "all" => Ok(Principal::new("alice").scopes("files:read files:write  files:erase")),
        "reader" => Ok(Principal::new("alice").scopes("files:read")),
        "plain" => Ok("bob".into()),
        "unavailable" => Err(TokenRefusal::Unavailable),
        _ => Err(TokenRefusal::Invalid),
    })
    .resource_metadata(
        ResourceMetadata::new("http://localhost/mcp", "https://login.example").scope("files:read"),
    )
}

/// Calls a tool in a revision, with a session of its own if the revision has sessions.
fn call(served: &Served, date: &str, token: &str, tool: &str) -> Answer {
    let authorization = format!("Bearer {token}");
    let field = ("Authorization", authorization.as_str());
    let params = json!({"name": tool, "arguments": {}});
    if date == "2026-07-28" {
        return served.modern(&[field], "tools/call", params);
    }
    let session = session(served, date, field);
    let message = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params});
    served.post(&[field, ("Mcp-Session-Id", &session)], &message)
}

fn session(served: &Served, date: &str, field: (&str, &str)) -> String {
    let answer = served.post(&[field], &crate::client::initialize(date, json!({})));
    answer.field("mcp-session-id").unwrap().to_owned()
}

fn text(answer: Answer) -> Value {
    answer.json()["result"]["content"][0]["text"].clone()
}

// shows: AUTHS-05 AUTHS-08
#[test]
fn a_call_without_the_scopes_of_its_tool_gets_403_and_the_challenge() {
    let served = serve_with(files(), guarded);
    for date in DATES {
        assert_eq!(text(call(&served, date, "all", "write")), "files:read+files:write+files:erase", "{date}");
        assert_eq!(text(call(&served, date, "all", "erase")), "erased", "{date}");
        assert_eq!(text(call(&served, date, "reader", "open")), "files:read", "{date}");
        assert_eq!(text(call(&served, date, "plain", "open")), "", "{date}");
        for (token, tool, scope) in [
            ("reader", "write", "files:write files:read"),
            ("plain", "write", "files:write files:read"),
            ("reader", "erase", "files:erase"),
        ] {
            let answer = call(&served, date, token, tool);
            assert_eq!(answer.status, 403, "{date} {token} {tool}");
            assert_eq!(
                answer.field("www-authenticate").unwrap(),
                format!(
                    "Bearer error=\"insufficient_scope\", scope=\"{scope}\", resource_metadata=\
                     \"http://localhost/.well-known/oauth-protected-resource/mcp\""
                )
            );
            let body = answer.json();
            assert_eq!(body["id"], if date == "2026-07-28" { 1 } else { 7 }, "{date}");
            assert!(body["error"]["message"].as_str().unwrap().contains("insufficient scope"), "{body}");
        }
    }
}

#[test]
fn a_token_with_more_scopes_continues_the_session_of_its_principal() {
    let served = serve_with(files(), guarded);
    let session = session(&served, "2025-11-25", ("Authorization", "Bearer reader"));
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "write"}});
    let with =
        |token| served.post(&[("Authorization", token), ("Mcp-Session-Id", &session)], &message).status;
    assert_eq!((with("Bearer reader"), with("Bearer all"), with("Bearer plain")), (403, 200, 404));
}

#[test]
fn only_the_calls_of_a_batch_that_lack_scopes_fail() {
    let served = serve_with(files(), guarded);
    let field = ("Authorization", "Bearer reader");
    let session = session(&served, "2025-03-26", field);
    let call = |id: u64, name: &str| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": name}});
    let batch = json!([call(1, "open"), call(2, "write"), call(3, "erase")]);
    let mut answers = match served.post(&[field, ("Mcp-Session-Id", &session)], &batch).json() {
        Value::Array(answers) => answers,
        other => panic!("{other}"),
    };
    answers.sort_by_key(|answer| answer["id"].as_u64());
    assert_eq!(answers[0]["result"]["content"][0]["text"], "files:read");
    for answer in &answers[1..] {
        assert!(answer["error"]["message"].as_str().unwrap().contains("insufficient scope"), "{answer}");
    }
}

#[test]
fn without_a_token_check_no_call_over_http_has_a_scope() {
    let served = serve(files());
    let answer = served.call("write", json!({}));
    assert_eq!(answer.status, 403);
    assert_eq!(
        answer.field("www-authenticate"),
        Some("Bearer error=\"insufficient_scope\", scope=\"files:write files:read\"")
    );
    assert_eq!(text(served.call("open", json!({}))), "");
}

// shows: AUTHS-01
#[test]
fn the_metadata_lists_the_scopes_of_the_tools() {
    let mut server = files();
    server.tools_may_change();
    let handle = server.handle();
    let served = serve_with(server, guarded);
    let scopes = || {
        let document = served.send("GET", "/.well-known/oauth-protected-resource/mcp", &[], "").json();
        document["scopes_supported"].clone()
    };
    assert_eq!(scopes(), json!(["files:read", "files:write", "files:erase"]));
    // The challenge for a missing token asks for the first scopes only.
    let challenge = served.call("open", json!({}));
    assert!(challenge.field("www-authenticate").unwrap().contains("scope=\"files:read\","));
    handle.remove_tool("erase").unwrap();
    assert_eq!(scopes(), json!(["files:read", "files:write"]));
}

#[test]
fn a_token_that_cannot_be_checked_now_gets_503() {
    let served = serve_with(files(), guarded);
    let answer = call(&served, "2026-07-28", "unavailable", "open");
    assert_eq!((answer.status, answer.field("retry-after")), (503, Some("1")));
    assert_eq!(answer.field("www-authenticate"), None);
}
