//! Endpoints of `tinymcp proxy --http`: all servers together, and each alone.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tinymcp::{Client, Endpoint, Protocol, json};

use super::serve_session::{ERAS, Process, folder, write};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tinymcp");
/// `id` prints the process of the server.
const SERVER: &str = r#"{"server": {"name": "s", "instructions": "Read first."}, "tools": {
    "id": {"description": "d", "run": ["sh", "-c", "echo $PPID"]},
    "hidden": {"description": "d", "run": ["echo", "hidden"]}}}"#;
const OTHER: &str = r#"{"tools": {"other": {"description": "d", "run": ["echo", "other"]}}}"#;

fn example(name: &str) -> PathBuf {
    let folder = folder(&format!("proxy-endpoints-{name}"));
    fs::write(folder.join("server.json"), SERVER).unwrap();
    fs::write(folder.join("other.json"), OTHER).unwrap();
    folder
}

/// An entry of a configuration: a key, the file that the server serves, and further members.
fn entry(key: &str, file: &str, more: &str) -> String {
    format!(r#""{key}": {{"command": "{PROGRAM}", "args": ["serve", "{file}"]{more}}}"#)
}

fn servers(entries: &[String]) -> String {
    format!(r#"{{"mcpServers": {{{}}}}}"#, entries.join(", "))
}

/// A proxy over HTTP, and its address.
fn proxy(args: &[&str], folder: &Path) -> (Process, String) {
    let mut command = Command::new(PROGRAM);
    command.args(["proxy", "--http", "127.0.0.1:0"]).args(args).current_dir(folder);
    let process = Process::spawn(command);
    let line = process.reported("serving http");
    let address = line.split("serving ").nth(1).unwrap().strip_suffix("/mcp").unwrap().to_owned();
    (process, address)
}

fn connect(url: &str, protocol: Protocol) -> Client {
    Client::builder("test", "0").protocol(protocol).connect(Endpoint::new(url)).unwrap()
}

fn tools(client: &Client) -> Vec<String> {
    client.tools().unwrap().into_iter().map(|tool| tool.name).collect()
}

fn text(client: &Client, tool: &str) -> String {
    client.call_tool(tool, json!({})).unwrap().texts().trim_end().to_owned()
}

/// A GET without a session: 405 at an endpoint, 404 elsewhere.
fn has_endpoint(url: &str) -> bool {
    let (address, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET /{path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    match response.split(' ').nth(1) {
        Some("405") => true,
        Some("404") => false,
        _ => panic!("{response}"),
    }
}

#[test]
fn each_server_is_served_alone_by_the_same_process() {
    let folder = example("alone");
    let more = r#", "tools": {"deny": ["hidden"], "rename": {"id": "process"}}"#;
    let entries = [entry("one", "server.json", more), entry("two", "other.json", "")];
    fs::write(folder.join("mcp.json"), servers(&entries)).unwrap();
    let args = ["--config", "mcp.json", "--access-log", "access"];
    let (process, address) = proxy(&args, &folder);
    for protocol in ERAS {
        let all = connect(&format!("{address}/mcp"), protocol);
        let one = connect(&format!("{address}/servers/one/mcp"), protocol);
        let two = connect(&format!("{address}/servers/two/mcp"), protocol);
        assert_eq!(tools(&all), ["one__process", "two__other"]);
        assert_eq!((tools(&one), tools(&two)), (vec!["process".to_owned()], vec!["other".to_owned()]));
        assert_eq!(text(&all, "one__process"), text(&one, "process"));
        assert_eq!(text(&two, "other"), "other");
        for (client, name) in [(&one, "id"), (&one, "hidden"), (&one, "one__process"), (&one, "other")] {
            assert!(client.call_tool(name, json!({})).is_err(), "{name}");
        }
        assert_eq!(
            (&*one.server().name, one.server().instructions.as_deref()),
            ("tinymcp", Some("Read first."))
        );
        assert_eq!(two.server().instructions, None);
    }
    assert!(!has_endpoint(&format!("{address}/servers/three/mcp")));
    // The log is written after the response.
    let until = std::time::Instant::now() + super::serve_session::TIMEOUT;
    while !fs::read_to_string(folder.join("access")).unwrap().contains(r#""name":"process","server":"one""#) {
        assert!(std::time::Instant::now() < until, "no line in the log");
        std::thread::yield_now();
    }
    drop(process);
}

#[test]
fn endpoints_follow_the_configuration_file() {
    let folder = example("reload");
    let config = folder.join("mcp.json");
    let entries = [entry("keep", "server.json", ""), entry("gone", "other.json", "")];
    fs::write(&config, servers(&entries)).unwrap();
    let (process, address) = proxy(&["--config", "mcp.json"], &folder);
    let url = |key: &str| format!("{address}/servers/{key}/mcp");
    let clients: Vec<Client> = ERAS.map(|protocol| connect(&url("keep"), protocol)).into();
    let id = text(&clients[0], "id");
    assert!(has_endpoint(&url("gone")) && !has_endpoint(&url("new")));
    write(&config, &servers(&[entry("keep", "server.json", ""), entry("new", "other.json", "")]));
    process.hang_up();
    process.reported("new: serving /servers/new/mcp");
    assert!(has_endpoint(&url("new")) && !has_endpoint(&url("gone")));
    assert_eq!(text(&connect(&url("new"), Protocol::Session), "other"), "other");
    // A server that is replaced keeps its endpoint and the sessions there.
    write(
        &config,
        &servers(&[entry("keep", "server.json", r#", "timeout": 7"#), entry("new", "other.json", "")]),
    );
    process.hang_up();
    process.reported("reloaded: replaced \"keep\"");
    for client in &clients {
        assert_ne!(text(client, "id"), id);
    }
}

#[test]
fn the_endpoints_share_tokens_and_pages() {
    let folder = example("tokens");
    fs::write(folder.join("mcp.json"), servers(&[entry("one", "server.json", "")])).unwrap();
    fs::write(folder.join("tokens"), "0123456789abcdef0 desk\n").unwrap();
    fs::set_permissions(folder.join("tokens"), fs::Permissions::from_mode(0o600)).unwrap();
    let (_process, address) = proxy(&["--config", "mcp.json", "--token-file", "tokens"], &folder);
    let endpoint = || Endpoint::new(format!("{address}/servers/one/mcp"));
    let connect = |endpoint| Client::builder("test", "0").connect(endpoint);
    assert!(connect(endpoint()).is_err());
    let client = connect(endpoint().bearer_token("0123456789abcdef0")).unwrap();
    assert_eq!(tools(&client), ["id", "hidden"]);
}

#[test]
fn named_servers_have_the_paths_of_mcp_proxy() {
    let folder = example("named");
    let command = format!("{PROGRAM} serve other.json");
    let mut program = Command::new(PROGRAM);
    program.args(["proxy", "--port", "0", "--named-server", "a", &command]).current_dir(&folder);
    let process = Process::spawn(program);
    let line = process.reported("serving http");
    let address = line.split("serving ").nth(1).unwrap().strip_suffix("/mcp").unwrap().to_owned();
    let client = connect(&format!("{address}/servers/a/mcp"), Protocol::Session);
    assert_eq!(tools(&client), ["other"]);
}
