//! Requests of one client do not affect those of another.

use serde_json::json;

use crate::client::{Answer, Served, request, serve, server, stage};

/// Posts a modern call of `echo` with this text in the place of its id.
fn call_with_id(served: &Served, id: &str) -> Answer {
    let call = request(1, "tools/call", json!({"name": "echo", "arguments": {"text": "hello"}}));
    let body = call.to_string().replace("\"id\":1,", &format!("\"id\":{id},"));
    assert!(body.contains(&format!("\"id\":{id},")), "the id was not replaced: {body}");
    let fields = [
        ("Content-Type", "application/json"),
        ("Accept", crate::client::BOTH),
        ("MCP-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", "tools/call"),
        ("Mcp-Name", "echo"),
    ];
    served.send("POST", "/mcp", &fields, &body)
}

#[test]
fn a_malformed_id_does_not_spoil_other_calls() {
    let served = serve(server(stage()));
    for bad in ["4.099002.000", "1.5.2", "1-2", "12e3e4", "01"] {
        for good in ["4.0", "7", "123456"] {
            let before = call_with_id(&served, good);
            let (status, before) = (before.status, before.body());
            assert_eq!(call_with_id(&served, bad).refusal(), (400, -32700), "{bad}");
            let after = call_with_id(&served, good);
            assert_eq!((after.status, after.body()), (status, before), "{good} after {bad}");
        }
    }
}
