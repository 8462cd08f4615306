//! Server card and catalog: documents for clients that have not connected.

use tinymcp::{ErrorKind, Server, ServerCard};

use crate::client::{Answer, Served, serve_with, server, stage};

const URL: &str = "https://board.example.com/mcp";

fn described() -> Server {
    let mut server = server(stage());
    server.title("Board").description("Reads the sensors");
    server
}

fn served() -> Served {
    serve_with(described(), |http| {
        let card = ServerCard::new("com.example/board", URL);
        http.tokens([("s3cret", "alice")]).allow_origin("http://localhost:6274").server_card(card)
    })
}

fn json(answer: Answer) -> serde_json::Value {
    serde_json::from_str(&answer.body()).unwrap()
}

fn get(served: &Served, path: &str, fields: &[(&str, &str)]) -> Answer {
    served.send("GET", path, fields, "")
}

// CARD-01, CARD-02, CARD-03, CARD-04
#[test]
fn a_card_describes_the_server_to_everybody() {
    let served = served();
    for fields in [&[][..], &[("Host", "board.example.com")], &[("Origin", "https://other.example")]] {
        let answer = get(&served, "/mcp/server-card", fields);
        assert_eq!(answer.status, 200, "{fields:?}");
        assert_eq!(answer.field("content-type"), Some("application/mcp-server-card+json"));
        assert_eq!(answer.field("access-control-allow-origin"), Some("*"));
        assert_eq!(answer.field("access-control-expose-headers"), Some("ETag"));
        assert_eq!(answer.field("cache-control"), Some("public, max-age=3600"));
        let card = json(answer);
        assert_eq!(
            card["$schema"],
            "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json"
        );
        assert_eq!(
            (card["name"].as_str(), card["title"].as_str()),
            (Some("com.example/board"), Some("Board"))
        );
        assert_eq!(card["description"], "Reads the sensors");
        assert_eq!(card["remotes"][0]["type"], "streamable-http");
        assert_eq!(card["remotes"][0]["url"], URL);
        let versions = card["remotes"][0]["supportedProtocolVersions"].as_array().unwrap();
        assert_eq!(versions[0], "2026-07-28");
        assert!(versions.iter().any(|version| version == "2025-11-25"), "{versions:?}");
    }
    let answer = get(&served, "/.well-known/ai-catalog.json", &[]);
    assert_eq!(answer.field("content-type"), Some("application/ai-catalog+json"));
    let entry = &json(answer)["entries"][0];
    assert_eq!(entry["identifier"], "urn:air:example.com:mcp:board");
    assert_eq!(entry["type"], "application/mcp-server-card+json");
    assert_eq!(entry["url"], "https://board.example.com/mcp/server-card");
}

// CARD-05
#[test]
fn an_unchanged_card_is_not_sent_again() {
    let served = served();
    let first = get(&served, "/mcp/server-card", &[]);
    let tag = first.field("etag").unwrap().to_owned();
    let weak = format!("\"x\", W/{tag}");
    for known in [tag.as_str(), weak.as_str(), "*"] {
        let answer = get(&served, "/mcp/server-card", &[("If-None-Match", known)]);
        assert_eq!(answer.status, 304, "{known}");
        assert_eq!(answer.field("etag"), Some(tag.as_str()));
        assert_eq!(answer.field("access-control-allow-origin"), Some("*"));
    }
    for other in ["\"x\"", "x", ""] {
        assert_eq!(get(&served, "/mcp/server-card", &[("If-None-Match", other)]).status, 200, "{other}");
    }
    let catalog = get(&served, "/.well-known/ai-catalog.json", &[]);
    assert_ne!(catalog.field("etag"), Some(tag.as_str()));
}

// CARD-04
#[test]
fn pages_of_every_origin_may_ask_for_a_card() {
    let served = served();
    let asked = [
        ("Origin", "http://localhost:6274"),
        ("Access-Control-Request-Method", "GET"),
        ("Access-Control-Request-Headers", "if-none-match"),
    ];
    let answer = served.send("OPTIONS", "/mcp/server-card", &asked, "");
    assert_eq!(answer.status, 204);
    assert_eq!(answer.field("access-control-allow-methods"), Some("GET"));
    assert_eq!(answer.field("access-control-allow-headers"), Some("Content-Type, If-None-Match"));
    assert_eq!(answer.count("access-control-allow-origin"), 1);
    assert_eq!(served.send("POST", "/mcp/server-card", &[], "{}").status, 405);
    // The endpoint itself still needs a token.
    assert_eq!(get(&served, "/mcp", &[]).status, 401);
}

// CARD-01
#[test]
fn a_server_publishes_no_card_by_itself() {
    let served = serve_with(described(), |http| http);
    assert_eq!(get(&served, "/mcp/server-card", &[]).status, 404);
    assert_eq!(get(&served, "/.well-known/ai-catalog.json", &[]).status, 404);
}

#[test]
fn invalid_cards_are_rejected_before_serving() {
    let bind = |server: Server, name: &str, url: &str| {
        let bound = server.http().server_card(ServerCard::new(name, url)).bind("127.0.0.1:0");
        bound.map(|_| ()).map_err(|error| (error.kind(), error.to_string()))
    };
    for name in ["", "board", "/board", "com.example/", "com.example/a/b", "com example/x", "com/x y"] {
        let (kind, text) = bind(described(), name, URL).unwrap_err();
        assert_eq!(kind, ErrorKind::Invalid, "{name}");
        assert!(text.contains("name"), "{text}");
    }
    for url in
        ["", "board.example", "ftp://x/mcp", "https://", "https://x/mcp?a", "https://x/{y}", "https://x/ y"]
    {
        let (kind, text) = bind(described(), "com.example/board", url).unwrap_err();
        assert_eq!(kind, ErrorKind::Invalid, "{url}");
        assert!(text.contains("URL"), "{text}");
    }
    let mut long = described();
    long.description("x".repeat(101));
    for server in [Server::new("s", "1"), long] {
        let (kind, text) = bind(server, "com.example/board", URL).unwrap_err();
        assert_eq!(kind, ErrorKind::Invalid);
        assert!(text.contains("description"), "{text}");
    }
}
