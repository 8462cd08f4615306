//! CORS: only pages of allowed origins can read responses.

use serde_json::json;

use crate::client::{Answer, Served, initialize, serve_with, server, stage};

const PAGE: (&str, &str) = ("Origin", "http://localhost:6274");

fn open_to_a_page() -> Served {
    serve_with(server(stage()), |http| http.allow_origin(PAGE.1).tokens([("s3cret", "alice")]))
}

/// Returns whether a browser would give this response to the page.
fn readable(answer: &Answer) -> bool {
    let open = answer.field("access-control-allow-origin") == Some(PAGE.1);
    if open {
        assert_eq!(answer.field("vary"), Some("Origin"));
        let exposed = answer.field("access-control-expose-headers").unwrap();
        assert!(exposed.contains("Mcp-Session-Id") && exposed.contains("WWW-Authenticate"), "{exposed}");
    }
    assert_eq!(answer.field("access-control-allow-credentials"), None);
    open
}

#[test]
fn a_preflight_of_an_allowed_page_permits_all_header_fields_of_a_client() {
    if crate::client::is_mounted() {
        return;
    }
    let served = open_to_a_page();
    let asked = "authorization,content-type,last-event-id,mcp-method,mcp-name,mcp-param-region,\
                 mcp-protocol-version,mcp-session-id";
    let fields = [PAGE, ("Access-Control-Request-Method", "POST"), ("Access-Control-Request-Headers", asked)];
    let answer = served.send("OPTIONS", "/mcp", &fields, "");
    assert_eq!(answer.status, 204);
    assert!(readable(&answer));
    assert_eq!(answer.field("access-control-allow-headers"), Some(asked));
    assert_eq!(answer.field("access-control-allow-methods"), Some("GET, POST, DELETE"));
    assert!(answer.field("access-control-max-age").is_some());
    assert_eq!(answer.field("content-length"), None);
    assert_eq!(answer.raw_rest(), b"");
    // Only valid field names are repeated in the response.
    let odd = [fields[0], fields[1], ("Access-Control-Request-Headers", "a: b")];
    assert_eq!(served.send("OPTIONS", "/mcp", &odd, "").field("access-control-allow-headers"), None);
    // OPTIONS without the fields of a preflight is an ordinary request, which needs a token.
    assert_eq!(served.send("OPTIONS", "/mcp", &[PAGE], "").status, 401);
    // Without a token, no response shows which paths exist.
    assert_eq!(served.send("OPTIONS", "/other", &fields, "").status, 204);
}

#[test]
fn a_page_reads_responses_events_and_rejections() {
    let served = open_to_a_page();
    let token = ("Authorization", "Bearer s3cret");
    let opening = served.post(&[PAGE, token], &initialize("2025-11-25", json!({})));
    assert_eq!(opening.status, 200);
    assert!(readable(&opening));
    let session = ("Mcp-Session-Id", opening.field("mcp-session-id").unwrap().to_owned());
    let session = (session.0, session.1.as_str());
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert!(readable(&served.post(&[PAGE, token, session], &ready)));
    let report = json!({"name": "report"});
    let modern = served.modern(&[PAGE, token], "tools/call", report.clone());
    assert!(modern.is_events() && readable(&modern));
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": report});
    let events = served.post(&[PAGE, token, session], &call);
    assert!(events.is_events() && readable(&events));
    let accept = ("Accept", "text/event-stream");
    assert!(readable(&served.send("GET", "/mcp", &[PAGE, token, session, accept], "")));
    for (answer, status) in [
        (served.modern(&[PAGE], "tools/list", json!({})), 401),
        (served.modern(&[PAGE, token], "no/such", json!({})), 404),
        (served.send("POST", "/mcp", &[PAGE, token], ""), 415),
        (served.send("POST", "/other", &[PAGE], ""), 401),
        (served.send("POST", "/other", &[PAGE, token], ""), 404),
        (served.send("DELETE", "/mcp", &[PAGE, token, session], ""), 204),
    ] {
        assert_eq!(answer.status, status);
        assert!(readable(&answer), "{status}");
    }
}

// shows: H26-03 SEC-01
#[test]
fn other_pages_get_no_cors_fields() {
    let served = open_to_a_page();
    let none = |answer: Answer, status| {
        assert_eq!(answer.status, status);
        for name in ["origin", "headers", "methods", "credentials"] {
            assert_eq!(answer.field(&format!("access-control-allow-{name}")), None);
        }
        assert_eq!(answer.field("access-control-expose-headers"), None);
    };
    // A page of this machine may send requests without a preflight, but these are not messages.
    let local = ("Origin", "http://localhost:3000");
    for (origin, asking) in
        [(("Origin", "https://evil.example"), 403), (("Origin", "null"), 403), (local, 401)]
    {
        let fields = [
            origin,
            ("Access-Control-Request-Method", "POST"),
            ("Access-Control-Request-Headers", "content-type"),
        ];
        none(served.send("OPTIONS", "/mcp", &fields, ""), asking);
        none(
            served.post(&[origin, ("Authorization", "Bearer s3cret")], &initialize("2025-11-25", json!({}))),
            if asking == 403 { 403 } else { 200 },
        );
    }
    // Two origins are rejected, also if one of them is allowed.
    none(served.post(&[PAGE, local], &json!({})), 403);
    // Requests that are not from a page need no origin.
    none(served.post(&[("Authorization", "Bearer s3cret")], &initialize("2025-11-25", json!({}))), 200);
}
