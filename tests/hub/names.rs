//! Prefixes, filters and new names of tools, as clients of a served hub and its host see them.

use std::path::MAIN_SEPARATOR;
use std::time::{Duration, Instant};

use tinymcp::{
    Client, ClientBuilder, Config, ErrorKind, Hub, Limits, Prompt, PromptOutput, Protocol, Server, Tool,
    Upstream, json, memory_links,
};

use super::proxy::in_all_eras;

tinymcp::record! {
    struct Nothing {}
}

const TIMEOUT: Duration = Duration::from_secs(20);

/// A server whose tools and prompt return its name.
fn upstream(name: &'static str, protocol: Protocol, tools: &'static [&'static str]) -> Upstream {
    Upstream::from_fn(move |client: ClientBuilder| {
        let (theirs, ours) = memory_links();
        let mut server = match protocol {
            Protocol::Session => Server::session_only(name, "1.0.0"),
            Protocol::Stateless => Server::stateless_only(name, "1.0.0"),
        };
        for &tool in tools {
            server.tool(Tool::new(tool), move |_, _: Nothing| Ok(format!("{name}:{tool}"))).unwrap();
        }
        server.prompt(Prompt::new("greet"), move |_, _| Ok(PromptOutput::new().user(name))).unwrap();
        std::thread::spawn(move || server.serve(theirs));
        client.over(ours)
    })
}

fn hub() -> Hub {
    let mut limits = Limits::default();
    (limits.hub.list_timeout, limits.client.probe_timeout, limits.client.call_timeout) =
        (TIMEOUT, TIMEOUT, TIMEOUT);
    Hub::builder("names", "1.0.0").limits(limits).build().unwrap()
}

/// A client of the hub, after its servers were added.
fn served(hub: &Hub, protocol: Protocol, add: impl FnOnce(&Hub)) -> Client {
    let mut server = Server::new("names", "1.0.0");
    hub.export(&mut server).unwrap();
    add(hub);
    hub.wait_settled(Instant::now() + TIMEOUT);
    let (theirs, ours) = memory_links();
    std::thread::spawn(move || server.serve(theirs));
    Client::builder("test", "1.0.0").protocol(protocol).over(ours).unwrap()
}

fn names(client: &Client) -> Vec<String> {
    let mut names: Vec<String> = client.tools().unwrap().into_iter().map(|tool| tool.name).collect();
    names.sort();
    names
}

#[test]
fn tools_have_the_names_that_their_upstream_gives_them() {
    in_all_eras(|below, above| {
        let hub = hub();
        let client = served(&hub, below, |hub| {
            hub.add("one", upstream("one", above, &["read", "write", "list"]).prefix("")).unwrap();
            let two = upstream("two", above, &["read", "delete_all", "delete_one"]).prefix("t.");
            hub.add("two", two.deny_tools("delete_*").rename_tool("read", "look")).unwrap();
            hub.add("three", upstream("three", above, &["a1", "a2", "b1"]).allow_tools("a?")).unwrap();
        });
        assert_eq!(names(&client), ["list", "read", "t.look", "three__a1", "three__a2", "write"]);
        for (name, text) in [("read", "one:read"), ("t.look", "two:read"), ("three__a2", "three:a2")] {
            assert_eq!(client.call_tool(name, json!({})).unwrap().texts(), text);
            assert_eq!(hub.call_tool(name, json!({})).unwrap().texts(), text);
        }
        // A tool that is not offered cannot be called by any name.
        for name in ["t.read", "t.delete_all", "three__b1", "delete_all", "one__read"] {
            assert_eq!(client.call_tool(name, json!({})).unwrap_err().kind(), ErrorKind::Remote, "{name}");
            assert!(hub.call_tool(name, json!({})).is_err(), "{name}");
        }
        for (name, text) in [("greet", "one"), ("t.greet", "two"), ("three__greet", "three")] {
            assert_eq!(client.prompt(name, &[]).unwrap().messages[0].1.as_text(), Some(text));
            assert_eq!(hub.prompt(name, &[]).unwrap().messages[0].1.as_text(), Some(text));
        }
    });
}

#[test]
fn a_host_may_name_a_server_by_its_key() {
    for protocol in [Protocol::Session, Protocol::Stateless] {
        let hub = hub();
        hub.add(
            "one",
            upstream("one", protocol, &["read", "secret"]).rename_tool("read", "see").deny_tools("sec*"),
        )
        .unwrap();
        hub.add("two", upstream("two", protocol, &["read"]).prefix("")).unwrap();
        hub.wait_settled(Instant::now() + TIMEOUT);
        let call = |name: &str| hub.call_tool(name, json!({}));
        assert_eq!(call("one:see").unwrap().texts(), "one:read");
        assert_eq!(call("one__see").unwrap().texts(), "one:read");
        assert_eq!(call("two:read").unwrap().texts(), "two:read");
        assert!(hub.prompt("two:greet", &[]).is_ok());
        for name in ["one:secret", "one:", ":read", "three:read"] {
            assert!(call(name).is_err(), "{name}");
        }
    }
}

#[test]
fn the_first_of_several_servers_with_one_prefix_has_a_name() {
    in_all_eras(|below, above| {
        let hub = hub();
        let client = served(&hub, below, |hub| {
            hub.add("one", upstream("one", above, &["read", "same"]).prefix("")).unwrap();
            hub.add("two", upstream("two", above, &["write", "same"]).prefix("")).unwrap();
        });
        assert_eq!(names(&client), ["read", "same", "write"]);
        for (name, text) in [("read", "one:read"), ("write", "two:write"), ("same", "one:same")] {
            assert_eq!(client.call_tool(name, json!({})).unwrap().texts(), text);
            assert_eq!(hub.call_tool(name, json!({})).unwrap().texts(), text);
        }
        let error = hub.call_tool("missing", json!({})).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        let skipped: Vec<String> =
            hub.skipped().iter().map(|s| format!("{}: {}", s.server, s.error)).collect();
        let clash = "two: the server \"one\" has this name; give one of them a prefix";
        assert_eq!(skipped, [clash, clash]);
    });
}

#[test]
fn invalid_names_are_refused_when_the_server_is_added() {
    let hub = hub();
    let start = || upstream("one", Protocol::Session, &[]);
    for (upstream, part) in [
        (start().prefix("a/b"), "invalid prefix"),
        (start().allow_tools(""), "invalid pattern"),
        (start().rename_tool("a", ""), "invalid renaming"),
    ] {
        let error = hub.add("one", upstream).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains("\"one\"") && error.to_string().contains(part), "{error}");
    }
    assert!(hub.servers().is_empty());
}

#[test]
fn entries_of_two_configurations_can_be_compared() {
    let config = |entries: &str| Config::parse(&format!(r#"{{"mcpServers": {{{entries}}}}}"#)).unwrap();
    let first = config(r#""a": {"command": "x", "args": ["1"]}, "b": {"url": "http://h/"}, "c": {}"#);
    for (entries, key, same) in [
        (r#""a": {"args": ["1"], /* moved */ "command": "x", "title": "A"}"#, "a", true),
        (r#""a": {"command": "x", "args": ["2"]}"#, "a", false),
        (r#""a": {"command": "x", "args": ["1"], "tools": {"deny": ["y"]}}"#, "a", false),
        (r#""a": {"command": "x", "args": ["1"], "timeout": 1}"#, "a", false),
        (r#""b": {"command": "x", "args": ["1"]}"#, "a", false),
        (r#""b": {"url": "http://h/", "headers": {}}"#, "b", true),
        (r#""b": {"url": "http://h/", "headers": {"A": "b"}}"#, "b", false),
        // Invalid entries are not the same.
        (r#""c": {}"#, "c", false),
    ] {
        assert_eq!(first.has_same_server(key, &config(entries)), same, "{entries}");
    }
}

#[test]
fn a_configuration_has_names_filters_and_timeouts() {
    let text = r#"{"mcpServers": {
        "a": {"command": "x", "prefix": "", "tools": {"allow": ["r*"], "deny": ["rm"], "rename": {"read": "r"}}},
        "b": {"command": "x", "toolFilter": {"mode": "block", "list": ["rm"]}, "timeout": 2.5},
        "c": {"command": "x", "options": {"toolFilter": {"mode": "allow", "list": ["ls"]}}},
        "d": {"command": "x", "disabledTools": ["rm"], "description": "said", "colour": "red"}
    }}"#;
    let config = Config::parse(text).unwrap();
    assert_eq!(config.warnings(), ["server \"d\": the member \"colour\" is unknown and ignored"]);
    for (key, upstream) in config.into_upstreams() {
        assert!(upstream.is_ok(), "{key}: {:?}", upstream.err());
    }
    for (entry, part) in [
        (r#""prefix": 1"#, "`prefix` must be a string"),
        (r#""prefix": "a b""#, "invalid prefix"),
        (r#""timeout": 0"#, "`timeout` must be a positive number of seconds"),
        (r#""timeout": "5""#, "`timeout` must be a positive number of seconds, or a text such as \"2s\""),
        (r#""timeout": "-2s""#, "`timeout` must be a positive number of seconds"),
        (r#""tools": {"allow": "r*"}"#, "`tools.allow` must be an array of strings"),
        (r#""tools": {"rename": {"a": 1}}"#, "`tools.rename.a` must be a string"),
        (r#""toolFilter": {"mode": "some", "list": []}"#, "`toolFilter.mode`"),
        (r#""disabledTools": [1]"#, "`disabledTools` must be an array of strings"),
        (r#""envFile": "/nonexistent/env""#, "`envFile` /nonexistent/env: "),
        #[cfg(unix)]
        (r#""envFile": "/dev/null""#, "`envFile` /dev/null: not a regular file"),
        (r#""args": ["${input:api-key}"]"#, "environment variable TINYMCP_INPUT_API_KEY is not set"),
    ] {
        let text = format!(r#"{{"mcpServers": {{"a": {{"command": "x", {entry}}}}}}}"#);
        let (_, upstream) = Config::parse(&text).unwrap().into_upstreams().remove(0);
        let error = upstream.map(drop).unwrap_err().to_string();
        assert!(error.contains(part), "{entry}: {error}");
    }
}

#[test]
fn variables_of_editors_have_values_outside_of_them() {
    let folder = std::env::current_dir().unwrap();
    let (folder, name) = (folder.to_str().unwrap(), folder.file_name().unwrap().to_str().unwrap());
    let home = std::env::var(if cfg!(unix) { "HOME" } else { "USERPROFILE" }).unwrap();
    let entry = |text: &str| {
        let config = json!({"mcpServers": {"a": {"command": "x", "args": [text]}}});
        Config::parse(config.as_str()).unwrap()
    };
    for (text, value) in [
        ("${workspaceFolder}/a", format!("{folder}/a")),
        ("${workspaceRoot}${pathSeparator}a", format!("{folder}{MAIN_SEPARATOR}a")),
        ("${cwd}${/}a", format!("{folder}{MAIN_SEPARATOR}a")),
        ("${workspaceFolderBasename}", name.to_owned()),
        ("${workspaceFolder:-/else}", folder.to_owned()),
        ("${userHome}", home),
        ("${env:userHome:-none}", "none".to_owned()),
    ] {
        assert!(entry(text).has_same_server("a", &entry(&value)), "{text}");
    }
    for (text, error) in [
        ("${env:workspaceFolder}", "environment variable workspaceFolder is not set"),
        ("${command:pick}", "only an editor has a value for ${command:pick}: write the value in its place"),
        ("${workspaceFolder:b}", "only an editor has a value for ${workspaceFolder:b}"),
        ("${relativeFile}", "environment variable relativeFile is not set"),
    ] {
        let (_, upstream) = entry(text).into_upstreams().remove(0);
        let received = upstream.map(drop).expect_err(text).to_string();
        assert!(received.contains(error), "{text}: {received}");
    }
}

#[test]
fn an_invalid_filter_is_an_error_of_its_server() {
    let object = "`tools` must be an array of names, or an object with `allow`, `deny` and `rename`";
    for (entry, part) in [
        (r#""tools": "read""#, object),
        (r#""tools": ["read_*", 1]"#, "`tools` must be an array of strings"),
        (r#""tools": []"#, "`tools` must not be empty: use [\"*\"] for all tools, or `disabled`"),
        (
            r#""tools": {"denied": ["rm"]}"#,
            "unknown member `tools.denied`: expected `allow`, `deny` or `rename`",
        ),
        (r#""tools": {"Deny": ["rm"]}"#, "unknown member `tools.Deny`"),
        (r#""tools": {"allow": []}"#, "`tools.allow` must not be empty"),
        (r#""tools": {"deny": {"rm": true}}"#, "`tools.deny` must be an array of strings"),
        (r#""tools": {"rename": ["x"]}"#, "`tools.rename` must be an object with strings"),
        (r#""toolFilter": ["rm"]"#, "`toolFilter` must be an object with `mode` and `list`"),
        (r#""toolFilter": {"mode": "block"}"#, "`toolFilter.list` must be an array of strings"),
        (r#""toolFilter": {"mode": "allow", "list": []}"#, "`toolFilter.list` must not be empty"),
        (
            r#""toolFilter": {"mode": "block", "list": ["a"], "lists": ["b"]}"#,
            "unknown member `toolFilter.lists`",
        ),
        (r#""options": ["x"]"#, "`options` must be an object"),
        (
            r#""options": {"disabledTools": ["rm"]}"#,
            "`options.disabledTools`: move `disabledTools` out of `options`",
        ),
        (r#""options": {"toolFilter": {"mode": "block", "list": "rm"}}"#, "`toolFilter.list` must be"),
        (
            r#""toolFilter": {"mode": "block", "list": []}, "options": {"toolFilter": {"mode": "block", "list": []}}"#,
            "`toolFilter` and `options.toolFilter` exclude each other",
        ),
        (r#""includeTools": "ls""#, "`includeTools` must be an array of strings"),
        (r#""excludeTools": "ls""#, "`excludeTools` must be an array of strings"),
        (r#""tools": ["ls"], "includeTools": ["rm"]"#, "`includeTools`: the tools are selected already"),
        (r#""disabled": "true""#, "`disabled` must be true or false"),
        (r#""enabled": 0"#, "`enabled` must be true or false"),
    ] {
        let text =
            format!(r#"{{"mcpServers": {{"a": {{"command": "x", {entry}}}, "b": {{"command": "x"}}}}}}"#);
        let mut servers = Config::parse(&text).unwrap().into_upstreams();
        assert!(servers.remove(1).1.is_ok(), "{entry}");
        let error = servers.remove(0).1.map(drop).expect_err(entry).to_string();
        assert!(error.contains("\"a\"") && error.contains(part), "{entry}: {error}");
    }
}

#[test]
fn filters_of_other_hosts_select_tools() {
    let config = |entry: &str| {
        Config::parse(&format!(r#"{{"mcpServers": {{"a": {{"command": "x", {entry}}}}}}}"#)).unwrap()
    };
    for (entry, own) in [
        (r#""tools": ["r*", "ls"]"#, r#""tools": {"allow": ["r*", "ls"]}"#),
        (r#""tools": ["*"]"#, r#""tools": {"allow": ["*"]}"#),
        (
            r#""includeTools": ["ls", "rm"], "excludeTools": ["rm"]"#,
            r#""tools": {"allow": ["ls", "rm"], "deny": ["rm"]}"#,
        ),
        (r#""options": {"toolFilter": {"mode": "block", "list": ["rm"]}}"#, r#""tools": {"deny": ["rm"]}"#),
    ] {
        assert!(config(entry).has_same_server("a", &config(own)), "{entry}");
        assert_eq!(config(entry).warnings(), [""; 0], "{entry}");
    }
    let proxied = config(r#""options": {"authTokens": ["x"], "toolFilter": {"mode": "block", "list": []}}"#);
    let warning = "server \"a\": the member \"options.authTokens\" is unknown and ignored";
    assert_eq!(proxied.warnings(), [warning]);
    let others: String = (0..9).map(|n| format!(r#", "other{n}": 1"#)).collect();
    for (beside, warning) in [
        (r#", "inputs": [], "$schema": """#, None),
        (r#", "mcpProxy": {}, "servers": {}"#, Some(r#""mcpProxy", "servers""#)),
        (&others, Some(r#""other6", "other7", and others"#)),
    ] {
        let config = Config::parse(&format!(r#"{{"mcpServers": {{}}{beside}}}"#)).unwrap();
        let said = config.warnings();
        assert_eq!(said.len(), usize::from(warning.is_some()), "{said:?}");
        assert!(warning.is_none_or(|end| said[0].ends_with(end)), "{said:?}");
    }
}

#[test]
fn filters_without_effect_and_tools_that_lost_their_name_are_reported() {
    let hub = hub();
    let _client = served(&hub, Protocol::Stateless, |hub| {
        let upstream = upstream("x", Protocol::Session, &["read", "write"]);
        let upstream = upstream.allow_tools("read").allow_tools("wrote").allow_tools("w*");
        let upstream = upstream.deny_tools("rm*").rename_tool("look", "see").rename_tool("read", "write");
        hub.add("x", upstream).unwrap();
        hub.add("gone", Upstream::from_fn(|_| panic!("no server")).deny_tools("a")).unwrap();
    });
    let unused: Vec<_> = hub.unused_patterns().into_iter().map(|u| (u.server, u.pattern)).collect();
    assert_eq!(unused, ["wrote", "rm*", "look"].map(|pattern| ("x".to_owned(), pattern.to_owned())));
    let skipped = hub.skipped();
    let [left] = &*skipped else { panic!("{skipped:?}") };
    assert_eq!((&*left.server, left.name.as_deref()), ("x", Some("write")));
    assert_eq!(left.error.to_string(), "\"read\" was renamed to it");
}

#[test]
fn keys_that_a_path_cannot_have_are_invalid() {
    let hub = hub();
    for key in [".", ".."] {
        let error = hub.add(key, upstream("x", Protocol::Session, &[])).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
    hub.add("...", upstream("x", Protocol::Session, &[])).unwrap();
}

#[cfg(unix)] // Runs a script of the shell.
#[test]
fn variables_come_from_a_file() {
    let file = std::env::temp_dir().join(format!("tinymcp-env-{}", std::process::id()));
    std::fs::write(&file, "# a comment\n\nA=1\nexport B=\"two words\"\nC='3'\nD=\nE=x=y\nF=old\n").unwrap();
    let received = file.with_extension("received");
    let script = r#"printf '%s|%s|%s|%s|%s|%s' "$A" "$B" "$C" "$D" "$E" "$F" > "$0""#;
    let config = json!({"mcpServers": {"a": {
        "command": "sh",
        "args": ["-c", script, (received.to_str().unwrap())],
        "envFile": (file.to_str().unwrap()),
        "env": {"F": "new"}
    }}});
    let (_, upstream) = Config::parse(config.as_str()).unwrap().into_upstreams().remove(0);
    let hub = hub();
    hub.add("a", upstream.unwrap()).unwrap();
    hub.wait_settled(Instant::now() + TIMEOUT);
    std::fs::remove_file(&file).unwrap();
    assert_eq!(std::fs::read_to_string(&received).unwrap(), "1|two words|3||x=y|new");
    std::fs::remove_file(&received).unwrap();

    std::fs::write(&file, "A=1\nnonsense\n").unwrap();
    let text = json!({"mcpServers": {"a": {"command": "sh", "envFile": (file.to_str().unwrap())}}});
    let (_, upstream) = Config::parse(text.as_str()).unwrap().into_upstreams().remove(0);
    std::fs::remove_file(&file).unwrap();
    let error = upstream.map(drop).unwrap_err().to_string();
    assert!(error.ends_with("line 2: expected NAME=VALUE"), "{error}");
}

#[test]
fn a_server_may_have_a_timeout_of_its_own() {
    let slow = || {
        Upstream::from_fn(|client: ClientBuilder| {
            let (theirs, ours) = memory_links();
            let mut server = Server::new("slow", "1.0.0");
            let wait = Tool::new("wait");
            server.tool(wait, |ctx, _: Nothing| ctx.wait(TIMEOUT * 3).map(|()| "waited")).unwrap();
            std::thread::spawn(move || server.serve(theirs));
            client.over(ours)
        })
    };
    let hub = hub();
    let client = served(&hub, Protocol::Stateless, |hub| {
        hub.add("slow", slow().call_timeout(Duration::from_millis(50))).unwrap();
    });
    let error = hub.call_tool("slow__wait", json!({})).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    let output = client.call_tool("slow__wait", json!({}));
    let received = output.map_or_else(|error| error.to_string(), |output| output.texts());
    assert!(received.contains("in time") || received.contains("deadline"), "{received}");
}
