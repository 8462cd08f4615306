//! Detection of the era: the meaning of each response to the probe (MCP 2026-07-28 basic/versioning,
//! streamable-http backward compatibility).

use std::net::TcpStream;

use tinymcp::{ErrorKind, Protocol};

use crate::stage::{JSON, Next, Seen, Stage, answer};
use crate::{client, member};

pub(crate) const META: &str = "/params/_meta/io.modelcontextprotocol~1protocolVersion";

pub(crate) fn discovered(id: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"result":{{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{{"tools":{{}},"resources":{{}},"prompts":{{}}}},"ttlMs":0,"cacheScope":"private","_meta":{{"io.modelcontextprotocol/serverInfo":{{"name":"s","version":"1"}}}}}}}}"#
    )
}

pub(crate) fn initialized(id: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"result":{{"protocolVersion":"2025-11-25","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"s","version":"1"}}}}}}"#
    )
}

pub(crate) fn error(id: &str, code: i32, data: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"no","data":{data}}}}}"#)
}

/// Responds as a server with sessions does, except to the probe.
pub(crate) fn session_server(seen: &Seen, to: &mut TcpStream) -> Next {
    if !seen.line.starts_with("POST") {
        return answer(to, "405 Method Not Allowed", "", "");
    }
    let id = member(&seen.body, "/id");
    match member(&seen.body, "/method").as_str() {
        "initialize" => answer(to, "200 OK", JSON, &initialized(&id)),
        _ if id.is_empty() => answer(to, "202 Accepted", "", ""),
        _ => answer(to, "200 OK", JSON, &error(&id, -32601, "null")),
    }
}

/// Returns the era or the kind of error, with a server that responds to the probe like this.
fn verdict(
    first: impl Fn(&str) -> (&'static str, &'static str, String) + Send + Sync + 'static,
) -> Result<Protocol, ErrorKind> {
    let stage = Stage::new(move |seen, to| {
        if seen.line.starts_with("POST") && member(&seen.body, "/method") == "server/discover" {
            let (status, headers, body) = first(&member(&seen.body, "/id"));
            return answer(to, status, headers, &body);
        }
        session_server(seen, to)
    });
    let found = client().connect(stage.url()).map(|client| {
        let era = client.protocol();
        client.close();
        era
    });
    let seen = stage.rest();
    let probe = &seen[0];
    assert_eq!(probe.header("mcp-method"), Some("server/discover"));
    assert_eq!(probe.header("mcp-protocol-version"), Some("2026-07-28"));
    assert_eq!(member(&probe.body, META), "2026-07-28");
    for legacy in seen.iter().skip(1).filter(|s| s.line.starts_with("POST")) {
        // The messages of the session contain nothing of the probe (requirement NEG-19).
        assert!(legacy.header("mcp-method").is_none() && legacy.header("mcp-name").is_none());
        assert!(!legacy.body.contains("io.modelcontextprotocol/"), "{}", legacy.body);
        let opens = member(&legacy.body, "/method") == "initialize";
        assert_eq!(legacy.header("mcp-protocol-version"), (!opens).then_some("2025-11-25"));
    }
    found.map_err(|e| e.kind())
}

#[test]
fn the_first_answer_decides_the_era() {
    let plain = "Content-Type: text/plain\r\n";
    type Row = (&'static str, &'static str, fn(&str) -> String, Result<Protocol, ErrorKind>);
    let table: &[Row] = &[
        ("200 OK", JSON, discovered, Ok(Protocol::Stateless)),
        (
            "400 Bad Request",
            JSON,
            |id| error(id, -32022, r#"{"supported":["2026-07-28"]}"#),
            Ok(Protocol::Stateless),
        ),
        ("400 Bad Request", JSON, |id| error(id, -32020, "null"), Ok(Protocol::Stateless)),
        ("400 Bad Request", JSON, |id| error(id, -32021, "{}"), Ok(Protocol::Stateless)),
        ("200 OK", JSON, |id| error(id, -32601, "null"), Ok(Protocol::Session)),
        ("404 Not Found", JSON, |id| error(id, -32601, "null"), Ok(Protocol::Session)),
        ("200 OK", JSON, |id| error(id, -32602, "null"), Ok(Protocol::Session)),
        ("400 Bad Request", JSON, |id| error(id, -32000, "null"), Ok(Protocol::Session)),
        ("400 Bad Request", JSON, |_| error("null", -32000, "null"), Ok(Protocol::Session)),
        ("400 Bad Request", plain, |_| "Bad Request: no session".into(), Ok(Protocol::Session)),
        ("400 Bad Request", "", |_| String::new(), Ok(Protocol::Session)),
        ("404 Not Found", "", |_| String::new(), Ok(Protocol::Session)),
        ("405 Method Not Allowed", "", |_| String::new(), Ok(Protocol::Session)),
        ("406 Not Acceptable", "", |_| String::new(), Ok(Protocol::Session)),
        (
            "400 Bad Request",
            JSON,
            |id| error(id, -32022, r#"{"supported":["2025-11-25"]}"#),
            Ok(Protocol::Session),
        ),
        (
            "400 Bad Request",
            JSON,
            |id| error(id, -32022, r#"{"supported":["2030-01-01"]}"#),
            Err(ErrorKind::PeerIncompatible),
        ),
        ("401 Unauthorized", "WWW-Authenticate: Bearer\r\n", |_| String::new(), Err(ErrorKind::Refused)),
        ("403 Forbidden", "", |_| String::new(), Err(ErrorKind::Refused)),
        ("429 Too Many Requests", "", |_| String::new(), Err(ErrorKind::Refused)),
        ("500 Internal Server Error", "", |_| String::new(), Err(ErrorKind::Refused)),
        ("503 Service Unavailable", plain, |_| "busy".into(), Err(ErrorKind::Refused)),
        ("302 Found", "Location: http://127.0.0.1:1/\r\n", |_| String::new(), Err(ErrorKind::Refused)),
        ("200 OK", "Content-Type: text/html\r\n", |_| "<html>".into(), Err(ErrorKind::PeerMisbehaved)),
        ("200 OK", JSON, |_| "nonsense".into(), Err(ErrorKind::PeerMisbehaved)),
    ];
    for &(status, headers, body, want) in table {
        let found = verdict(move |id| (status, headers, body(id)));
        assert_eq!(found, want, "{status} {headers:?} {}", body("1"));
    }
}

#[test]
fn a_chosen_era_needs_no_probe() {
    let stage = Stage::new(session_server);
    let client = client().protocol(Protocol::Session).connect(stage.url()).unwrap();
    assert_eq!(member(&stage.next().body, "/method"), "initialize");
    assert_eq!(client.server().revision, "2025-11-25");
    client.close();
}

#[test]
fn a_client_of_the_newer_era_does_not_fall_back() {
    let stage = Stage::new(session_server);
    let error = client().protocol(Protocol::Stateless).connect(stage.url()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PeerIncompatible);
    assert_eq!(stage.rest().len(), 1);
}

#[test]
fn an_unreachable_server_is_an_error_and_selects_no_era() {
    // The system gives no privileged port to another test.
    assert_eq!(client().connect("http://127.0.0.1:1/").unwrap_err().kind(), ErrorKind::Io);
}
