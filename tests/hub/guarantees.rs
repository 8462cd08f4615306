//! Guarantees of a hub for its host: deadlines of lists, closing, panics in the host's code, and the
//! configuration file.

use std::time::{Duration, Instant};

use tinymcp::{
    ClientBuilder, Config, ErrorKind, Hub, Limits, Server, ServerState, Tool, Upstream, memory_links,
};

tinymcp::record! {
    struct Nothing {}
}

const TIMEOUT: Duration = Duration::from_secs(20);

fn hub(set: impl FnOnce(&mut Limits)) -> Hub {
    let mut limits = Limits::default();
    limits.hub.list_timeout = Duration::from_secs(1);
    set(&mut limits);
    Hub::builder("test", "1.0.0").limits(limits).build().unwrap()
}

fn good() -> Upstream {
    Upstream::from_fn(|client: ClientBuilder| {
        let (theirs, ours) = memory_links();
        let mut server = Server::new("good", "1.0.0");
        server.tool(Tool::new("good"), |_, _: Nothing| Ok("good"))?;
        std::thread::spawn(move || server.serve(theirs));
        client.over(ours)
    })
}

#[cfg(unix)]
fn script(text: &'static str) -> Upstream {
    Upstream::from_fn(move |client: ClientBuilder| {
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", text]);
        client.protocol(tinymcp::Protocol::Session).spawn(shell)
    })
}

/// Requests thirty lists, which take a second each if a server delays every list.
#[cfg(unix)]
fn lists_quickly(hub: &Hub, missing: &str) {
    let began = Instant::now();
    for _ in 0..30 {
        let tools = hub.tools();
        assert_eq!(tools.entries.len(), 1);
        let named: Vec<_> = tools.missing.iter().map(|m| (&*m.server, m.error.kind())).collect();
        assert_eq!(named, [(missing, ErrorKind::Timeout)]);
    }
    assert!(began.elapsed() < TIMEOUT, "{:?}", began.elapsed());
}

#[cfg(unix)]
#[test]
fn a_server_that_never_connects_delays_one_list_and_no_other() {
    let hub = hub(|limits| limits.client.call_timeout = Duration::from_secs(600));
    hub.add("good", good()).unwrap();
    hub.add("silent", script("exec sleep 600")).unwrap();
    lists_quickly(&hub, "silent");
    hub.close();
}

#[cfg(unix)]
#[test]
fn a_server_that_gives_no_list_does_not_delay_every_list() {
    let hub = hub(|_| {});
    hub.add("good", good()).unwrap();
    let opens = r#"read -r line; echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"mute","version":"1"}}}'; exec sleep 600"#;
    hub.add("mute", script(opens)).unwrap();
    let states = hub.wait_settled(Instant::now() + TIMEOUT);
    assert!(states.iter().all(|s| matches!(s.state, ServerState::Running(_))), "{states:?}");
    lists_quickly(&hub, "mute");
    hub.close();
}

#[test]
fn code_of_the_host_that_panics_is_a_server_that_is_down() {
    let hub = hub(|_| {});
    hub.add("bad", Upstream::from_fn(|_| panic!("the host's own code"))).unwrap();
    let states = hub.wait_settled(Instant::now() + TIMEOUT);
    assert!(
        matches!(states[0].state, ServerState::Down { kind: ErrorKind::Misuse, again: false, .. }),
        "{states:?}"
    );
}

#[test]
fn a_closed_hub_returns_errors() {
    let hub = hub(|_| {});
    hub.add("good", good()).unwrap();
    hub.close();
    assert_eq!(hub.client("good").unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(hub.remove("good").unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(hub.add("good", good()).unwrap_err().kind(), ErrorKind::Closed);
    assert!(hub.tools().entries.is_empty());
    hub.close();
}

#[test]
fn a_configuration_determines_the_servers() {
    let why = |text: &str| match Config::parse(text) {
        Ok(config) => panic!("{text}: {config:?}"),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Invalid, "{text}");
            error.to_string()
        }
    };
    for nothing in ["{}", "[]", "null", r#"{"mcpServers":[]}"#] {
        assert!(why(nothing).contains("mcpServers"), "{nothing}");
    }
    assert!(why("// a comment\n{}").contains("mcpServers"));
    for invalid in ["# a comment\n{}", "{\"mcpServers\":{},,}", "{,}", "/* no end\n{}", "{} // \n {}"] {
        assert!(why(invalid).contains("not JSON"), "{invalid}");
    }
    assert!(why(r#"{"theme":"dark"}"#).contains("mcpServers"));
    let none = Config::parse("\u{feff}{\"mcpServers\":{}}").unwrap();
    assert_eq!(none.keys().count(), 0);
    let default = r#"{"mcpServers":{"a":{"command":"${TINYMCP_NO_SUCH_VARIABLE:-./relative}"}}}"#;
    assert_eq!(Config::parse(default).unwrap().keys().collect::<Vec<_>>(), ["a"]);
}

#[test]
fn a_configuration_may_have_comments_trailing_commas_and_the_spellings_of_other_hosts() {
    let text = r#"{
        // The servers of this project, see "https://example.org".
        "servers": {
            "a": {"command": "/opt/a//b", "args": ["/* not a comment */",], /* {"url":"x"} */},
            "b": {"command": "x", "disabled": true,},
            "c": {"command": "x", "enabled": false},
            "d": {"command": "x", "enabled": true, "disabled": false},
            "e": {"url": "http://localhost/mcp", "type": "streamable_http"},
            "f": {"url": "http://localhost/mcp", "transportType": "streamable-http"},
            "g": {"url": "http://localhost/mcp", "transportType": "stdio"},
            "h": {"command": "${env:TINYMCP_NO_SUCH_VARIABLE:-x}", "transportType": "stdio"},
            "i": {"command": "${env:TINYMCP_NO_SUCH_VARIABLE}"},
            "j": {"command": "${env:CARGO_MANIFEST_DIR}"},
        },
    }"#;
    let servers = Config::parse(text).unwrap().into_upstreams();
    let good: String =
        servers.iter().filter(|(_, upstream)| upstream.is_ok()).map(|(key, _)| &**key).collect();
    assert_eq!(servers.iter().map(|(key, _)| &**key).collect::<String>(), "adefghij");
    assert_eq!(good, if cfg!(feature = "http-client") { "adefhj" } else { "adhj" });
    let error = |key: &str| {
        let found = servers.iter().find(|(name, _)| name == key).unwrap();
        found.1.as_ref().map(drop).unwrap_err().to_string()
    };
    assert!(error("g").contains("stdio"), "{}", error("g"));
    assert!(error("i").contains("environment variable TINYMCP_NO_SUCH_VARIABLE"), "{}", error("i"));
}

#[test]
fn a_bad_entry_of_a_configuration_fails_that_server_only() {
    for (entry, words) in [
        (r#""a":{"command":"x","command":"y"}"#, "`command` appears twice"),
        (r#""a":{"command":"x","env":{"A":"1","A":"2"}}"#, "`env.A` appears twice"),
        (r#""a":{"command":"${TINYMCP_NO_SUCH_VARIABLE}"}"#, "TINYMCP_NO_SUCH_VARIABLE"),
        (r#""a":{"command":"x","env":{"K":"${TINYMCP_NO_SUCH_VARIABLE}"}}"#, "TINYMCP_NO_SUCH_VARIABLE"),
        (r#""a":{"command":["x"]}"#, "`command` must be a string: put its arguments into `args`"),
        (r#""a":{"command":"npx -y x"}"#, "no program \"npx -y x\": put the arguments into `args`"),
        (r#""a":{"command":"npx -y","args":["x"]}"#, "put the arguments into `args`"),
        (r#""a":{"command":"x","type":"local"}"#, "requires the type stdio, got \"local\""),
        (r#""a":{"command":"x","inheritEnv":"yes"}"#, "`inheritEnv`"),
        (r#""a":{"serverUrl":"http://localhost:1/mcp"}"#, "unknown member `serverUrl`: use `url`"),
        (r#""a":{"httpUrl":"http://localhost:1/mcp"}"#, "unknown member `httpUrl`: use `url`"),
        (r#""a":{"command":"x","type":"http"}"#, "requires the type stdio"),
        (r#""a":{}"#, "needs `command` or `url`"),
        (r#""a":7"#, "an object"),
    ] {
        let text =
            format!(r#"{{"mcpServers":{{"good":{{"command":"x"}},{entry},"last":{{"command":"z"}}}}}}"#);
        let servers = Config::parse(&text).unwrap().into_upstreams();
        let fates: Vec<bool> = servers.iter().map(|(_, upstream)| upstream.is_ok()).collect();
        assert_eq!(fates, [true, false, true], "{entry}");
        let (key, error) = servers.into_iter().find_map(|(key, made)| Some((key, made.err()?))).unwrap();
        let received = error.to_string();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{entry}");
        assert!(received.contains(words) && received.contains(&format!("{key:?}")), "{entry}: {received}");
    }
}

#[test]
fn the_number_of_servers_of_a_hub_is_limited() {
    let servers: Vec<String> = (0..10_000).map(|n| format!(r#""s{n}":{{"command":"x"}}"#)).collect();
    let config = Config::parse(&format!(r#"{{"mcpServers":{{{}}}}}"#, servers.join(","))).unwrap();
    assert_eq!(config.keys().count(), 10_000);
    let hub = hub(|limits| limits.hub.servers = 2);
    let mut added = config.into_upstreams().into_iter().map(|(key, _)| hub.add(key, good()));
    assert!(added.next().unwrap().is_ok() && added.next().unwrap().is_ok());
    assert_eq!(added.next().unwrap().unwrap_err().kind(), ErrorKind::Limit);
}
