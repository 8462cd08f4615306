//! Configuration files as other hosts write them.

use tinymcp::{Config, json};

fn config(servers: &str) -> Config {
    Config::parse(&format!(r#"{{"mcpServers": {{{servers}}}}}"#)).unwrap()
}

/// Returns the servers, each with its error.
fn errors(config: Config) -> Vec<(String, Option<String>)> {
    let servers = config.into_upstreams().into_iter();
    servers.map(|(key, upstream)| (key, upstream.err().map(|error| error.to_string()))).collect()
}

#[test]
fn a_key_may_have_any_characters() {
    let long = "io.github.upstash/context7-documentation";
    let text = format!(
        r#""microsoft/playwright-mcp": {{"command": "x"}}, "EDT MCP Server": {{"command": "x"}},
           "{long}": {{"command": "x"}}, "\u00e9": {{"command": "x"}}, "..": {{"command": "x"}}, "a": {{"command": "x"}}"#
    );
    let config = config(&text);
    let keys = [
        "microsoft_playwright-mcp",
        "EDT_MCP_Server",
        "io.github.upstash_context7-docum",
        "_",
        "server",
        "a",
    ];
    assert_eq!(config.keys().collect::<Vec<_>>(), keys);
    for (written, key) in [("EDT MCP Server", "EDT_MCP_Server"), (long, keys[2]), ("a", "a")] {
        assert_eq!(config.key_of(written), Some(key));
        assert_eq!(config.key_of(key), Some(key));
    }
    assert_eq!(config.key_of("b"), None);
    assert_eq!(config.warnings().len(), 5, "{:?}", config.warnings());
    let warning = "server \"EDT MCP Server\": is used as \"EDT_MCP_Server\"";
    assert!(config.warnings()[1].starts_with(warning), "{}", config.warnings()[1]);
    let hub = tinymcp::Hub::builder("test", "1").build().unwrap();
    for (key, upstream) in config.into_upstreams() {
        hub.add(key, upstream.unwrap()).unwrap();
    }
    hub.close();
}

#[test]
fn no_key_replaces_another_one() {
    for (servers, expected) in [
        (r#""a/b": {"command": "x"}, "a:b": {"command": "x"}"#, [("a_b", false), ("a:b", true)]),
        // A key that a hub accepts keeps its name wherever it is.
        (r#""a/b": {"command": "x"}, "a_b": {"command": "x"}"#, [("a/b", true), ("a_b", false)]),
    ] {
        let received = errors(config(servers));
        let found: Vec<_> = received.iter().map(|(key, error)| (key.as_str(), error.is_some())).collect();
        assert_eq!(found, expected);
        let error = received.into_iter().find_map(|(_, error)| error).unwrap();
        assert!(error.contains("another server has the key \"a_b\""), "{error}");
    }
    let disabled = r#""a/b": {"command": "x"}, "a_b": {"command": "x", "disabled": true}"#;
    assert_eq!(errors(config(disabled)), [("a_b".to_owned(), None)]);
}

#[test]
fn a_key_that_appears_twice_is_an_error() {
    for other in [r#"{"command": "y"}"#, r#"{"command": "y", "disabled": true}"#, "{}"] {
        let text = format!(r#""a": {{"command": "x"}}, "b": {{"command": "x"}}, "a": {other}, "a": {other}"#);
        let twice = "server \"a\": the key appears twice".to_owned();
        assert_eq!(errors(config(&text)), [("a".to_owned(), Some(twice)), ("b".to_owned(), None)]);
    }
    let error = Config::parse(r#"{"servers": {}, "servers": {}}"#).unwrap_err().to_string();
    assert!(error.contains("has `servers` twice"), "{error}");
}

#[test]
fn null_is_as_if_the_member_were_absent() {
    let members = "args env cwd envFile inheritEnv url headers type transport transportType disabled enabled \
                   timeout prefix tools includeTools excludeTools toolFilter disabledTools serverUrl httpUrl";
    let bare = config(r#""a": {"command": "x"}"#);
    for member in members.split_whitespace() {
        let with_null = config(&format!(r#""a": {{"command": "x", "{member}": null}}"#));
        assert!(with_null.has_same_server("a", &bare), "{member}: {with_null:?}");
        assert_eq!(with_null.warnings(), [""; 0]);
    }
    for entry in [
        r#""tools": {"allow": null, "deny": null, "rename": null}"#,
        r#""options": {"toolFilter": null}"#,
        r#""env": {"A": null}"#,
    ] {
        let with_null = config(&format!(r#""a": {{"command": "x", {entry}}}"#));
        assert!(with_null.has_same_server("a", &bare), "{entry}: {with_null:?}");
    }
}

#[test]
fn variables_may_be_numbers_and_booleans() {
    let texts = config(r#""a": {"command": "x", "env": {"A": "8080", "B": "1.50", "C": "true"}}"#);
    let values = config(r#""a": {"command": "x", "env": {"A": 8080, "B": 1.50, "C": true}}"#);
    assert!(values.has_same_server("a", &texts), "{values:?}");
    let (_, error) = errors(config(r#""a": {"command": "x", "env": {"A": []}}"#)).remove(0);
    assert!(error.unwrap().contains("`env.A` must be a string"));
}

#[test]
fn a_timeout_of_1000_or_more_is_in_milliseconds() {
    let with = |timeout: &str| config(&format!(r#""a": {{"command": "x", "timeout": {timeout}}}"#));
    for (timeout, other) in [
        ("30000", "30"),
        ("1000", "1"),
        (r#""2s""#, "2"),
        (r#""500ms""#, "0.5"),
        (r#""1.5 s""#, "1.5"),
        (r#""3600s""#, "3.6e6"),
    ] {
        assert!(with(timeout).has_same_server("a", &with(other)), "{timeout}");
    }
    let warning = "server \"a\": `timeout` is taken as 30000 milliseconds: write \"30000s\" for seconds";
    assert_eq!(with("30000").warnings(), [warning]);
    for timeout in ["999", r#""3600s""#, r#""2000ms""#] {
        assert_eq!(with(timeout).warnings(), [""; 0], "{timeout}");
    }
}

#[test]
fn servers_in_another_place_are_found() {
    let instead = "did you mean `mcpServers` instead of ";
    for (text, part) in [
        (r#"{"mcpServer": {"a": {"command": "x"}}}"#, format!("{instead}`mcpServer`?")),
        (r#"{"mcpservers": {}}"#, format!("{instead}`mcpservers`?")),
        (
            r#"{"theme": "x", "context_servers": {"a": {"command": {}}}}"#,
            format!("{instead}`context_servers`?"),
        ),
        (r#"{"mcp": {"a": {"type": "local", "command": ["x"]}}}"#, format!("{instead}`mcp`?")),
        (r#"{"mcp": {"servers": {"a": {"url": "x"}}}}"#, format!("{instead}`mcp`?")),
        (
            r#"{"server": {"name": "x"}, "tools": {"a": {"description": "x", "run": ["x"]}}}"#,
            "this is a file of `tinymcp serve`".to_owned(),
        ),
    ] {
        let error = Config::parse(text).unwrap_err().to_string();
        assert!(error.contains(&part), "{text}: {error}");
    }
    // Servers at the top level, with any keys.
    let server = json!({"command": "x", "env": {"command": "x"}});
    for key in ["tools", "mcp", "mcpServer"] {
        let config = Config::parse(&format!("{{{key:?}: {}}}", server.as_str())).unwrap();
        assert_eq!(config.keys().collect::<Vec<_>>(), [key]);
    }
}
