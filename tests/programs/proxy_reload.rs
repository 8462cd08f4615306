//! Reload of `tinymcp proxy` by SIGHUP and `--watch`.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::thread;

use tinymcp::{Change, Client, Endpoint, Protocol, json};

use super::serve_session::{ERAS, Process, Session, TIMEOUT, folder, write};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tinymcp");
/// `id` prints the process of the server, `wait` ends when the file `go` exists.
const SERVER: &str = r#"{"tools": {
    "id": {"description": "d", "run": ["sh", "-c", "echo $PPID"]},
    "wait": {"description": "d", "run": ["sh", "-c", "touch begun; until [ -e go ]; do sleep 0.02; done; echo ok"]}}}"#;
const OTHER: &str = r#"{"tools": {"other": {"description": "d", "run": ["echo", "other"]}}}"#;

fn example(name: &str) -> (PathBuf, PathBuf) {
    let folder = folder(&format!("proxy-reload-{name}"));
    fs::write(folder.join("server.json"), SERVER).unwrap();
    fs::write(folder.join("other.json"), OTHER).unwrap();
    let config = folder.join("mcp.json");
    fs::write(&config, servers(&[("keep", "server.json"), ("gone", "other.json")])).unwrap();
    (folder, config)
}

/// A configuration with these servers: each a key and the file that it serves.
fn servers(servers: &[(&str, &str)]) -> String {
    let entry = |(key, file): &(&str, &str)| {
        format!(r#""{key}": {{"command": "{PROGRAM}", "args": ["serve", "{file}"]}}"#)
    };
    format!(r#"{{"mcpServers": {{{}}}}}"#, servers.iter().map(entry).collect::<Vec<_>>().join(", "))
}

fn proxy(args: &[&str], folder: &Path) -> Process {
    let mut command = Command::new(PROGRAM);
    command.arg("proxy").args(args).current_dir(folder);
    Process::spawn(command)
}

fn session(protocol: Protocol, args: &[&str], folder: &Path) -> Session {
    Session::over(|client| client, protocol, proxy(args, folder))
}

fn text(client: &Client, tool: &str) -> String {
    client.call_tool(tool, json!({})).unwrap().texts().trim_end().to_owned()
}

#[test]
fn servers_are_added_removed_and_replaced_and_others_keep_their_calls() {
    for protocol in ERAS {
        let (folder, config) = example("changes");
        let session = session(protocol, &["--config", "mcp.json"], &folder);
        assert_eq!(session.tools(), ["keep__id", "keep__wait", "gone__other"]);
        let id = text(&session.client, "keep__id");
        thread::scope(|scope| {
            let waiting = scope.spawn(|| text(&session.client, "keep__wait"));
            while !folder.join("begun").exists() {
                thread::yield_now();
            }
            write(&config, &servers(&[("keep", "server.json"), ("new", "other.json")]));
            session.process.hang_up();
            session.process.reported("reloaded: removed \"gone\", added \"new\"");
            session.process.reported("new: connected");
            fs::write(folder.join("go"), "").unwrap();
            assert_eq!(waiting.join().unwrap(), "ok");
        });
        assert_eq!(text(&session.client, "new__other"), "other");
        assert!(session.client.call_tool("gone__other", json!({})).is_err());
        assert_eq!(text(&session.client, "keep__id"), id);
        // The entry of `new` changes.
        write(&config, &servers(&[("keep", "server.json"), ("new", "server.json")]));
        session.process.hang_up();
        session.process.reported("reloaded: replaced \"new\"");
        assert_ne!(text(&session.client, "new__id"), id);
        assert_eq!(text(&session.client, "keep__id"), id);
        session.process.hang_up();
        session.process.reported("reloaded: no server changed");
    }
}

#[test]
fn a_signal_without_a_file_to_reload_does_not_end_the_proxy() {
    let (folder, _) = example("without-file");
    let session = session(Protocol::Stateless, &["--", PROGRAM, "serve", "server.json"], &folder);
    let id = text(&session.client, "id");
    session.process.hang_up();
    session.process.reported("SIGHUP: there is no file to reload");
    assert_eq!(text(&session.client, "id"), id);
}

#[test]
fn a_broken_file_or_entry_changes_nothing() {
    let (folder, config) = example("broken");
    let session = session(Protocol::Stateless, &["--config", "mcp.json"], &folder);
    let id = text(&session.client, "keep__id");
    for broken in ["{", r#"{"theme": "dark"}"#, ""] {
        write(&config, broken);
        session.process.hang_up();
        let line = session.process.reported("the previous servers stay in use");
        assert!(line.contains("mcp.json: "), "{line}");
        assert_eq!(text(&session.client, "keep__id"), id);
    }
    fs::remove_file(&config).unwrap();
    session.process.hang_up();
    session.process.reported("the previous servers stay in use");
    write(&config, r#"{"mcpServers": {"keep": {"command": 1}, "gone": {"command": "x", "type": "http"}}}"#);
    session.process.hang_up();
    session.process.reported("server \"keep\": `command` must be a string");
    session.process.reported("server \"gone\": ");
    session.process.reported("reloaded: no server changed");
    assert_eq!(text(&session.client, "gone__other"), "other");
    // The entry that is repaired is the one in use.
    write(&config, &servers(&[("keep", "server.json")]));
    session.process.hang_up();
    session.process.reported("reloaded: removed \"gone\"");
    assert_eq!(text(&session.client, "keep__id"), id);
}

#[test]
fn a_changed_file_is_reloaded_with_watch() {
    let (folder, config) = example("watch");
    let session = session(Protocol::Session, &["--watch", "--config", "mcp.json"], &folder);
    assert_eq!(session.tools().len(), 3);
    write(&config, &servers(&[("keep", "server.json")]));
    session.process.reported("reloaded: removed \"gone\"");
    session.changed(&Change::Tools);
    assert_eq!(session.tools(), ["keep__id", "keep__wait"]);
}

/// POST of a message: the status and the head.
fn post(url: &str, token: &str, fields: &str, message: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(url.split('/').nth(2).unwrap()).unwrap();
    write!(
        stream,
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n{fields}\
         Content-Length: {}\r\n\r\n{message}",
        message.len()
    )
    .unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    (response.split(' ').nth(1).unwrap().parse().unwrap(), response.to_ascii_lowercase())
}

/// Opens a session, and returns its header field.
fn initialize(url: &str, token: &str) -> String {
    let message = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#;
    let (status, head) = post(url, token, "", message);
    assert_eq!(status, 200, "{head}");
    let field = head.lines().find(|line| line.starts_with("mcp-session-id")).unwrap();
    format!("{field}\r\n")
}

/// Sends a ping in a session; returns the status.
fn ping(url: &str, token: &str, session: &str) -> u16 {
    post(url, token, session, r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#).0
}

#[test]
fn a_token_without_a_name_keeps_its_session_when_lines_move() {
    const TOKENS: [&str; 3] = ["first-0123456789", "second-0123456789", "third-0123456789"];
    let (folder, _) = example("moved-tokens");
    let tokens = |text: &str| {
        let file = folder.join("new");
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        fs::rename(file, folder.join("tokens")).unwrap();
    };
    tokens(&TOKENS.join("\n"));
    let args = ["--http", "127.0.0.1:0", "--token-file", "tokens", "--", PROGRAM, "serve", "other.json"];
    let server = proxy(&args, &folder);
    let url = server.reported("serving http").split("serving ").nth(1).unwrap().to_owned();
    let sessions = TOKENS.map(|token| initialize(&url, token));
    tokens(&TOKENS[1..].join("\n"));
    server.hang_up();
    server.reported("reloaded");
    let [first, second, third] = TOKENS;
    assert_eq!(ping(&url, first, &sessions[0]), 401);
    assert_eq!((ping(&url, second, &sessions[1]), ping(&url, third, &sessions[2])), (200, 200));
    // The session of the removed token has ended, and belonged to no other one.
    assert_eq!(ping(&url, second, &sessions[0]), 404);
    tokens(&TOKENS.join("\n"));
    server.hang_up();
    server.reported("reloaded");
    assert_eq!(ping(&url, first, &sessions[0]), 404);
}

#[test]
fn tokens_are_reloaded() {
    const FIRST: &str = "first-0123456789";
    const SECOND: &str = "second-0123456789";
    let (folder, _) = example("tokens");
    let tokens = |text: &str| {
        let file = folder.join("new");
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        fs::rename(file, folder.join("tokens")).unwrap();
    };
    tokens(FIRST);
    let args = ["--http", "127.0.0.1:0", "--token-file", "tokens", "--", PROGRAM, "serve", "other.json"];
    let server = proxy(&args, &folder);
    let url = server.reported("serving http").split("serving ").nth(1).unwrap().to_owned();
    let connect = |token: &str| {
        Client::builder("test", "0").connect(Endpoint::new(&url).bearer_token(token)).map(|_| ())
    };
    connect(FIRST).unwrap();
    assert!(connect(SECOND).is_err());
    let mut stream = TcpStream::connect(url.split('/').nth(2).unwrap()).unwrap();
    let meta = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
    let listen = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{{"notifications":{{"toolsListChanged":true}},"_meta":{meta}}}}}"#
    );
    write!(
        stream,
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {FIRST}\r\n\
         Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
         MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: subscriptions/listen\r\n\
         Content-Length: {}\r\n\r\n{listen}",
        listen.len()
    )
    .unwrap();
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    while !line.contains("acknowledged") {
        line.clear();
        assert!(stream.read_line(&mut line).unwrap() > 0, "the stream ended");
    }
    // The second token gets the name that the first one had.
    let session = initialize(&url, FIRST);
    assert_eq!(ping(&url, FIRST, &session), 200);
    tokens(SECOND);
    server.hang_up();
    server.reported("reloaded");
    assert_eq!(ping(&url, SECOND, &session), 404);
    let (sender, ended) = mpsc::channel();
    thread::spawn(move || sender.send(stream.read_to_string(&mut String::new()).is_ok()));
    assert_eq!(ended.recv_timeout(TIMEOUT), Ok(true), "the stream ends");
    connect(SECOND).unwrap();
    assert!(connect(FIRST).is_err());
}
