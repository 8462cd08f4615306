//! `tinymcp proxy`: every pair of transports and revisions, names and filters, errors.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tinymcp::json::Doc;
use tinymcp::{Client, Endpoint, Protocol, Server, Tool, json};

use super::serve_session::{ERAS, Process, Session, folder};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tinymcp");
const FIRST: &str = r#"{"server": {"name": "first"}, "tools": {
    "echo": {"description": "d", "input": {"text": "string"}, "run": ["echo", "{text}"]},
    "hide": {"description": "d", "run": ["echo", "hidden"]}}}"#;
const SECOND: &str = r#"{"server": {"name": "second"}, "tools": {
    "echo": {"description": "d", "run": ["echo", "second"]},
    "more": {"description": "d", "run": ["echo", "more"]}}}"#;

fn example(name: &str) -> PathBuf {
    let folder = folder(&format!("proxy-{name}"));
    fs::write(folder.join("first.json"), FIRST).unwrap();
    fs::write(folder.join("second.json"), SECOND).unwrap();
    let server = |file: &str| json!({"command": (PROGRAM), "args": ["serve", (file)]});
    let (first, second) = (server("first.json"), server("second.json"));
    let config = json!({"mcpServers": {"first": (first), "second": (second)}});
    fs::write(folder.join("mcp.json"), config.as_str()).unwrap();
    folder
}

fn proxy(args: &[&str], folder: &Path) -> Command {
    let mut command = Command::new(PROGRAM);
    command.arg("proxy").args(args).current_dir(folder).env("HOME", folder.join("home"));
    command.env_remove("XDG_CONFIG_HOME").env_remove("TINYMCP_CONFIG");
    command
}

/// A proxy over stdio, and its client.
fn session(protocol: Protocol, args: &[&str], folder: &Path) -> Session {
    Session::over(|client| client, protocol, Process::spawn(proxy(args, folder)))
}

/// Runs a proxy that does not serve: its exit status and standard error.
fn refused(args: &[&str], folder: &Path) -> (i32, String) {
    let output = proxy(args, folder).stdin(Stdio::null()).output().unwrap();
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

fn text(client: &Client, tool: &str, arguments: tinymcp::json::Json) -> String {
    client.call_tool(tool, arguments).unwrap().texts().trim_end().to_owned()
}

#[test]
fn one_server_keeps_its_names_over_stdio_and_http() {
    let folder = example("one");
    for protocol in ERAS {
        let args = ["--deny", "h*", "--rename", "echo=say", "--", PROGRAM, "serve", "first.json"];
        let session = session(protocol, &args, &folder);
        assert_eq!(session.tools(), ["say"]);
        assert_eq!(text(&session.client, "say", json!({"text": "a b"})), "a b");
        assert!(session.client.call_tool("hide", json!({})).is_err());
        assert!(session.client.call_tool("echo", json!({"text": "x"})).is_err());
    }
    let server =
        Process::spawn(proxy(&["--http", "127.0.0.1:0", "--", PROGRAM, "serve", "first.json"], &folder));
    let url = server.reported("serving http").split("serving ").nth(1).unwrap().to_owned();
    for protocol in ERAS {
        let client = Client::builder("test", "0").protocol(protocol).connect(Endpoint::new(&url)).unwrap();
        assert_eq!(text(&client, "echo", json!({"text": "over HTTP"})), "over HTTP");
        // And from HTTP to stdio.
        let back = session(protocol, &["--prefix", "far_", "--url", &url], &folder);
        assert_eq!(back.tools(), ["far_echo", "far_hide"]);
        assert_eq!(text(&back.client, "far_echo", json!({"text": "back"})), "back");
    }
}

/// GET of a page: its status and body.
fn page(url: &str, path: &str, fields: &str) -> (u16, String) {
    let address = url.strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nConnection: close\r\n{fields}\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

#[test]
fn a_line_of_a_server_does_not_control_the_terminal() {
    let folder = example("line");
    let script = format!(r"printf '\033[2Jx\rtinymcp: y\n' >&2; exec {PROGRAM} serve first.json");
    let session = session(Protocol::Session, &["--", "sh", "-c", &script], &folder);
    assert!(session.process.reported("tinymcp: y").ends_with("sh: ?[2Jx?tinymcp: y"));
}

#[test]
fn pages_have_a_separate_address_with_the_option() {
    let folder = example("monitor");
    let pages = ["--monitor", "127.0.0.1:0", "--health", "/healthz", "--status", "/status"];
    let serve = ["--", PROGRAM, "serve", "first.json"];
    let monitored = |process: &Process| {
        let address = process.reported("monitoring at ").split(" at ").nth(1).unwrap().to_owned();
        let url = format!("http://{address}/mcp");
        assert_eq!(page(&url, "/healthz", "Host: 10.0.0.1\r\n"), (200, "ok\n".to_owned()));
        assert_eq!(page(&url, "/status", "Host: 10.0.0.1\r\n").0, 403);
        let (code, status) = page(&url, "/status", "Host: localhost\r\n");
        assert!(code == 200 && status.contains("\"servers\":[{"), "{status}");
    };
    for protocol in ERAS {
        let session = session(protocol, &[&pages[..], &serve].concat(), &folder);
        monitored(&session.process);
        assert_eq!(text(&session.client, "echo", json!({"text": "x"})), "x");
    }
    let server = Process::spawn(proxy(&[&["--http", "127.0.0.1:0"], &pages[..], &serve].concat(), &folder));
    monitored(&server);
    let url = server.reported("serving http").split("serving ").nth(1).unwrap().to_owned();
    assert_eq!(page(&url, "/healthz", "Host: localhost\r\n").0, 404);
    for (args, message) in [
        (&["--monitor", "127.0.0.1:0"][..], "--monitor requires --health, --status or --metrics"),
        (&["--status", "/status"], "--status requires --http"),
        (&["--monitor", "300.0.0.1:1", "--health", "/h"], "--monitor: "),
    ] {
        let (code, error) = refused(&[args, &serve].concat(), &folder);
        assert!(code == 2 && error.contains(message), "{error}");
    }
}

#[test]
fn pages_show_health_states_and_metrics() {
    let folder = example("pages");
    let config = r#"{"mcpServers": {"good": {"command": "tinymcp", "args": ["serve", "first.json"]},
                                    "bad": {"command": "/bin/false"}}}"#;
    fs::write(folder.join("mcp.json"), config.replace("\"tinymcp\"", &format!("{PROGRAM:?}"))).unwrap();
    fs::write(folder.join("tokens"), "0123456789abcdef0 desk\n").unwrap();
    fs::set_permissions(folder.join("tokens"), fs::Permissions::from_mode(0o600)).unwrap();
    let pages = ["--health", "/healthz", "--status", "/status", "--metrics", "/metrics"];
    let mut args = vec!["--http", "127.0.0.1:0", "--token-file", "tokens", "--config", "mcp.json"];
    args.extend(pages);
    let server = Process::spawn(proxy(&args, &folder));
    let url = server.reported("serving http").split("serving ").nth(1).unwrap().to_owned();
    let token = "Authorization: Bearer 0123456789abcdef0\r\n";
    let endpoint = Endpoint::new(&url).header("Authorization", "Bearer 0123456789abcdef0");
    let client = Client::builder("test", "0").connect(endpoint).unwrap();
    assert_eq!(text(&client, "good__echo", json!({"text": "x"})), "x");
    assert_eq!(page(&url, "/healthz", "Host: 10.0.0.1\r\n"), (200, "ok\n".to_owned()));
    for path in ["/status", "/metrics"] {
        assert_eq!(page(&url, path, "Host: localhost\r\n").0, 401, "{path}");
    }
    let host = format!("Host: localhost\r\n{token}");
    let (code, status) = page(&url, "/status", &host);
    let status = Doc::parse(&status).unwrap();
    let of =
        |at: &str| status.root().pointer(&format!("/servers/{at}")).unwrap().to_json().as_str().to_owned();
    assert_eq!(
        (code, of("0/name"), of("0/state"), of("0/calls")),
        (200, "\"good\"".into(), "\"running\"".into(), "1".into())
    );
    assert_eq!(
        (of("0/restarts"), of("0/lastError"), of("1/state")),
        ("0".into(), "null".into(), "\"down\"".into())
    );
    assert!(of("1/lastError").contains("exited with status 1"), "{}", of("1/lastError"));
    let (_, metrics) = page(&url, "/metrics", &host);
    for line in [
        "# TYPE tinymcp_server_up gauge",
        "tinymcp_server_up{server=\"good\"} 1",
        "tinymcp_server_up{server=\"bad\"} 0",
        "tinymcp_server_restarts_total{server=\"good\"} 0",
        "tinymcp_server_calls_total{server=\"good\"} 1",
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line}: {metrics}");
    }
}

#[test]
fn without_a_server_the_first_configuration_that_exists_is_used() {
    let folder = example("discovery");
    fs::create_dir_all(folder.join(".vscode")).unwrap();
    fs::create_dir_all(folder.join("home/.config/tinymcp")).unwrap();
    // Each file has one server, whose key is the name of the case.
    let config = |key: &str| {
        let server = json!({"command": (PROGRAM), "args": ["serve", "second.json"]});
        format!(r#"{{"servers": {{"{key}": {}}}}}"#, server.as_str())
    };
    let start = |chosen: Option<&str>| {
        let mut command = proxy(&[], &folder);
        command.envs(chosen.map(|file| ("TINYMCP_CONFIG", file)));
        command
    };
    let output = start(None).stdin(Stdio::null()).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && error.contains("no configuration file was found"), "{error}");
    for (file, key) in
        [("home/.config/tinymcp/mcp.json", "own"), (".vscode/mcp.json", "code"), (".mcp.json", "local")]
    {
        fs::write(folder.join(file), config(key)).unwrap();
        let session = Session::over(|client| client, Protocol::Session, Process::spawn(start(None)));
        let line = session.process.reported("using the servers of ");
        assert!(line.ends_with(file), "{line}");
        assert_eq!(session.tools(), [format!("{key}__echo"), format!("{key}__more")]);
    }
    let session =
        Session::over(|client| client, Protocol::Stateless, Process::spawn(start(Some("mcp.json"))));
    assert_eq!(session.tools().len(), 4);
    let output = start(Some("missing.json")).stdin(Stdio::null()).output().unwrap();
    assert!(String::from_utf8(output.stderr).unwrap().contains("missing.json: "));
}

#[test]
fn servers_of_a_configuration_are_one_server() {
    let folder = example("config");
    for protocol in ERAS {
        let session = session(protocol, &["--config", "mcp.json"], &folder);
        assert_eq!(session.tools(), ["first__echo", "first__hide", "second__echo", "second__more"]);
        assert_eq!(text(&session.client, "second__more", json!({})), "more");
    }
}

#[test]
fn names_that_clash_without_prefix_end_the_start() {
    let folder = example("clash");
    let (code, error) =
        refused(&["--config", "mcp.json", "--prefix", "none", "--http", "127.0.0.1:0"], &folder);
    assert_eq!(code, 2, "{error}");
    let expected = "\"echo\" is offered by \"first\" and by \"second\"; omit --prefix none, or rename or deny \
                    it in the file";
    assert!(error.contains(expected), "{error}");
    // With the clash resolved in the file.
    let config = fs::read_to_string(folder.join("mcp.json")).unwrap();
    let config = config.replacen("{\"command\"", "{\"tools\":{\"deny\":[\"echo\"]},\"command\"", 1);
    fs::write(folder.join("mcp.json"), config).unwrap();
    let session = session(Protocol::Stateless, &["--config", "mcp.json", "--prefix", "none"], &folder);
    assert_eq!(session.tools(), ["hide", "echo", "more"]);
    assert_eq!(text(&session.client, "echo", json!({})), "second");
}

#[test]
fn invalid_servers_and_options_are_errors_with_the_reason() {
    let folder = example("errors");
    fs::write(
        folder.join("bad.json"),
        r#"{"mcpServers": {"a": {"command": "x", "type": "http", "colour": 1}}}"#,
    )
    .unwrap();
    fs::write(folder.join("other.json"), r#"{"theme": "dark"}"#).unwrap();
    for (args, parts) in [
        (&["--config", "missing.json"][..], &["missing.json: "][..]),
        (&["--config", "other.json"], &["other.json: the configuration has no object `mcpServers`"]),
        (
            &["--config", "bad.json"],
            &["the member \"colour\" is unknown", "got \"http\"", "no server can be used"],
        ),
        (&["--prefix", "a b", "--", "x"], &["invalid prefix \"a b\"", "no server can be used"]),
        (&["--http", "nowhere", "--", PROGRAM, "serve", "first.json"], &["nowhere"]),
        (&[], &["expected a server: --url URL, --config FILE or -- COMMAND"]),
    ] {
        let (code, error) = refused(args, &folder);
        assert_eq!(code, 2, "{args:?}: {error}");
        for part in parts {
            assert!(error.contains(part), "{args:?}: {error}");
        }
    }
}

#[test]
fn a_program_that_does_not_start_is_reported_and_the_call_fails_at_once() {
    let folder = example("gone");
    let session = session(Protocol::Session, &["--", "/nonexistent/program"], &folder);
    session.process.reported("program: down, will retry every 60 s: ");
    assert_eq!(session.tools(), Vec::<String>::new());
    let error = session.client.call_tool("echo", json!({})).map(|output| output.texts());
    let message = error.unwrap_or_else(|error| error.to_string());
    assert!(message.contains("is down") || message.contains("echo"), "{message}");
}

#[test]
fn clients_get_the_instructions_of_the_servers() {
    let folder = example("instructions");
    let described = |file: &str, text: &str| {
        let name = file.trim_end_matches(".json");
        let server = json!({"name": (name), "title": "T", "description": "D", "instructions": (text)});
        fs::write(folder.join(file), json!({"server": (server)}).as_str()).unwrap();
    };
    described("first.json", "Look first.");
    described("second.json", "Ask second.");
    let info = |args: &[&str], protocol: Protocol| {
        let server = Process::spawn(proxy(&[&["--http", "127.0.0.1:0"], args].concat(), &folder));
        let url = server.reported("serving http").split("serving ").nth(1).unwrap().to_owned();
        Client::builder("test", "0").protocol(protocol).connect(Endpoint::new(&url)).unwrap().server()
    };
    for protocol in ERAS {
        let one = info(&["--", PROGRAM, "serve", "first.json"], protocol);
        assert_eq!(one.name, "tinymcp");
        assert_eq!(one.title.as_deref(), Some("T"));
        assert_eq!(one.instructions.as_deref(), Some("Look first."));
        if protocol == Protocol::Stateless {
            assert_eq!(one.description.as_deref(), Some("D"));
        }
        let several = info(&["--config", "mcp.json"], protocol);
        assert_eq!(several.title, None);
        let expected = "# first\n\nLook first.\n\n# second\n\nAsk second.\n";
        assert_eq!(several.instructions.as_deref(), Some(expected));
        // Over standard input and output, the servers start after the client.
        let over_stdio = |args| session(protocol, args, &folder).client.server().instructions;
        assert_eq!(over_stdio(&["--", PROGRAM, "serve", "first.json"]).as_deref(), Some("Look first."));
        assert_eq!(over_stdio(&["--config", "mcp.json"]).as_deref(), Some(expected));
    }
}

tinymcp::record! {
    struct Number { n: i64 }
}

/// A server of many tools with long descriptions, over HTTP: its URL.
fn many_tools(names: &[String]) -> String {
    let mut server = Server::new("many", "1.0.0");
    for name in names {
        let said = name.clone();
        let tool =
            Tool::new(name).description(format!("Returns its name and a number. {}", "Details. ".repeat(50)));
        server.tool(tool, move |_, arguments: Number| Ok(format!("{said} {}", arguments.n))).unwrap();
    }
    let bound = server.http().no_signal_handlers().diagnostics(|_| ()).bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", bound.address());
    std::thread::spawn(move || bound.serve());
    url
}

/// The response of a proxy to `tools/list`, as it was written.
fn tool_list(protocol: Protocol, args: &[&str], folder: &Path) -> String {
    let mut proxy = proxy(args, folder).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let lines = match protocol {
        Protocol::Session => {
            r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/list"}
"#
        }
        Protocol::Stateless => {
            r#"{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}
"#
        }
    };
    proxy.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let output = proxy.wait_with_output().unwrap();
    let output = String::from_utf8(output.stdout).unwrap();
    output.lines().find(|line| line.contains(r#""id":2"#)).expect(&output).to_owned()
}

#[test]
fn lazy_mode_lists_three_tools_and_calls_five_hundred() {
    let folder = folder("proxy-lazy");
    let names: Vec<String> = (0..500).map(|n| format!("department_{}__task_{n:03}", n % 7)).collect();
    let url = many_tools(&names);
    for protocol in ERAS {
        let list = tool_list(protocol, &["--lazy", "--url", &url], &folder);
        assert!(list.len() < 2000 && list.contains(r#""name":"tool_invoke""#), "{}: {list}", list.len());
        assert!(tool_list(protocol, &["--url", &url], &folder).len() > 100_000);

        let session = session(protocol, &["--lazy", "--url", &url], &folder);
        let client = &session.client;
        assert_eq!(session.tools(), ["tool_list", "tool_schema", "tool_invoke"]);
        let pages = (1..=10).map(|page| text(client, "tool_list", json!({"page": page})));
        let pages = pages.collect::<Vec<_>>().join("\n");
        let listed = pages.lines().filter_map(|line| line.split_once(": ")).map(|(name, _)| name);
        assert_eq!(listed.collect::<Vec<_>>(), names);
        for (n, name) in names.iter().enumerate() {
            let arguments = json!({"name": name, "arguments": {"n": n}});
            assert_eq!(text(client, "tool_invoke", arguments), format!("{name} {n}"));
        }
        let schema = text(client, "tool_schema", json!({"names": [(&names[7])]}));
        assert!(schema.contains(r#""inputSchema":{"type":"object","properties":{"n":"#), "{schema}");
        for wrong in ["task_123", "department_4__tsak_123", "Department-4.Task-123"] {
            let output = client.call_tool("tool_invoke", json!({"name": wrong})).unwrap();
            assert!(output.is_error);
            let expected = format!("unknown tool {wrong:?}; nearest names: department_4__task_123");
            assert!(output.texts().starts_with(&expected), "{}", output.texts());
        }
    }
}

#[cfg(feature = "cli")]
#[test]
fn other_commands_find_a_server_by_its_key() {
    let folder = example("key");
    let run = |args: &[&str]| {
        let mut command = Command::new(PROGRAM);
        command.args(args).current_dir(&folder).env("HOME", &folder).stdin(Stdio::null());
        let output = command.env_remove("XDG_CONFIG_HOME").env_remove("TINYMCP_CONFIG").output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    };
    let call = ["call", "more", "--text", "--server", "second"];
    let (code, out, error) = run(&[&call[..], &["--config", "mcp.json"]].concat());
    assert_eq!((code, out.trim_end()), (0, "more"), "{error}");
    let (code, _, error) = run(&call);
    assert_eq!(code, 2);
    assert!(
        error.contains("no configuration file has the server \"second\": write --config FILE"),
        "{error}"
    );
    fs::copy(folder.join("mcp.json"), folder.join(".mcp.json")).unwrap();
    let (code, out, error) = run(&call);
    assert_eq!((code, out.trim_end()), (0, "more"), "{error}");
    assert!(error.contains("using the server of .mcp.json"), "{error}");
    for (args, part) in [
        (
            &["list", "--server", "third"][..],
            ".mcp.json: no server \"third\"; expected one of: first, second",
        ),
        (&["list", "tools", "--config", "mcp.json"], "--config requires --server KEY"),
        (
            &["list", "--server", "first", "--url", "http://h/"],
            "--url URL, --server KEY and -- COMMAND exclude each other",
        ),
    ] {
        let (code, _, error) = run(args);
        assert!(code == 2 && error.contains(part), "{args:?}: {error}");
    }
}

#[test]
fn an_error_in_the_options_starts_no_server() {
    let folder = example("order");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    fs::write(folder.join("tokens"), "short\n").unwrap();
    fs::set_permissions(folder.join("tokens"), fs::Permissions::from_mode(0o600)).unwrap();
    let script = format!("touch started; exec {PROGRAM} serve first.json");
    let config = json!({"mcpServers": {"one": {"command": "sh", "args": ["-c", (&*script)]}}});
    fs::write(folder.join("mcp.json"), config.as_str()).unwrap();
    for (args, message) in [
        (&["--http", &*taken][..], "in use"),
        (&["--http", "localhost"], "localhost"),
        (&["--http", "127.0.0.1:0", "--token-file", "tokens"], "line 1: the token has 5 characters"),
        (&["--http", "127.0.0.1:0", "--allow-host", "http://x"], "invalid host \"http://x\""),
        (&["--http", "127.0.0.1:0", "--status", "status"], "invalid path \"status\""),
        (&["--http", "127.0.0.1:0", "--status", "/mcp"], "duplicate path \"/mcp\""),
        (&["--monitor", &*taken, "--health", "/h"], "--monitor: "),
    ] {
        for serve in [&["--", "sh", "-c", &*script][..], &["--config", "mcp.json"]] {
            let (code, error) = refused(&[args, serve].concat(), &folder);
            assert!(code == 2 && error.contains(message), "{args:?}: {error}");
            assert!(!folder.join("started").exists(), "{args:?}: a server was started");
        }
    }
}

#[test]
fn filters_without_effect_are_reported() {
    let folder = example("filters");
    for protocol in ERAS {
        let args = ["--deny", "hidden", "--rename", "ecko=say", "--", PROGRAM, "serve", "first.json"];
        let session = session(protocol, &args, &folder);
        session.process.reported_all(["no tool fits \"hidden\"", "no tool fits \"ecko\""]);
    }
}

/// An HTTP server that rejects every request with 401.
fn guarded() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let mut line = String::new();
            while stream.read_line(&mut line).is_ok_and(|n| n > 2) {
                line.clear();
            }
            let response = "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer\r\nContent-Length: 0\r\n\
                            Connection: close\r\n\r\n";
            // The client may be gone.
            let _ = stream.get_mut().write_all(response.as_bytes());
        }
    });
    url
}

#[test]
fn a_server_that_requires_a_sign_in_ends_the_proxy_with_the_command_to_type() {
    let folder = example("sign-in");
    let url = guarded();
    for args in [&["--url", &*url][..], &["--http", "127.0.0.1:0", "--url", &*url]] {
        let mut process = Process::spawn(proxy(args, &folder));
        process.reported(&format!("status 401: Bearer; sign in by `tinymcp login {url}`"));
        assert_eq!(process.end(), 3, "{args:?}");
    }
    // A query may contain secrets.
    let secret = format!("{url}?key=s3cret");
    let mut process = Process::spawn(proxy(&["--url", &secret], &folder));
    process.reported(&format!("status 401: Bearer; sign in by `tinymcp login {url}?[masked]`"));
    assert_eq!(process.end(), 3);
    // One of several servers does not end the others.
    let config = json!({"mcpServers": {"far": {"url": (&*url)},
                                       "near": {"command": (PROGRAM), "args": ["serve", "first.json"]}}});
    fs::write(folder.join("my mcp.json"), config.as_str()).unwrap();
    for protocol in ERAS {
        let session = session(protocol, &["--config", "my mcp.json"], &folder);
        session.process.reported(
            "far: the server returned status 401: Bearer; sign in by `tinymcp login --server far --config \
             'my mcp.json'`; will retry every 60 s",
        );
        assert_eq!(text(&session.client, "near__echo", json!({"text": "x"})), "x");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_signal_while_servers_start_ends_them() {
    let folder = example("signal");
    // Ends neither at the end of its input nor at SIGTERM.
    let script = "trap '' TERM; echo $$ > id; while :; do sleep 1; done";
    let mut process = Process::spawn(proxy(&["--http", "127.0.0.1:0", "--", "sh", "-c", script], &folder));
    let id = loop {
        let id = fs::read_to_string(folder.join("id")).unwrap_or_default();
        if id.ends_with('\n') {
            break id;
        }
        std::thread::yield_now();
    };
    process.terminate();
    assert_eq!(process.end(), 0);
    assert!(!Path::new("/proc").join(id.trim()).exists(), "the server is left");
}
