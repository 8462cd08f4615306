//! `tinymcp proxy --per-client`: a process of each server for each session.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use tinymcp::{Client, Endpoint, Protocol, json};

use super::serve_session::{Process, Session, TIMEOUT, folder, write};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tinymcp");
/// `id` prints the process of the server.
const SERVER: &str = r#"{"server": {"name": "s", "instructions": "Read first."}, "tools": {
    "id": {"description": "d", "run": ["sh", "-c", "echo $PPID"]}}}"#;
const OTHER: &str = r#"{"tools": {"other": {"description": "d", "run": ["sh", "-c", "echo $PPID"]}}}"#;

fn example(name: &str) -> PathBuf {
    let folder = folder(&format!("proxy-per-client-{name}"));
    fs::write(folder.join("server.json"), SERVER).unwrap();
    fs::write(folder.join("other.json"), OTHER).unwrap();
    folder
}

fn servers(servers: &[(&str, &str)]) -> String {
    let entry = |(key, file): &(&str, &str)| {
        format!(r#""{key}": {{"command": "{PROGRAM}", "args": ["serve", "{file}"]}}"#)
    };
    format!(r#"{{"mcpServers": {{{}}}}}"#, servers.iter().map(entry).collect::<Vec<_>>().join(", "))
}

/// A proxy over HTTP, and its address.
fn proxy(args: &[&str], folder: &Path) -> (Process, String) {
    let mut command = Command::new(PROGRAM);
    command.arg("proxy").args(args).current_dir(folder);
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

fn id(client: &Client, tool: &str) -> i32 {
    client.call_tool(tool, json!({})).unwrap().texts().trim_end().parse().unwrap()
}

fn runs(id: i32) -> bool {
    test_kill_process(Pid::from_raw(id).unwrap()).is_ok()
}

fn await_end(id: i32) {
    let until = Instant::now() + TIMEOUT;
    while runs(id) {
        assert!(Instant::now() < until, "the process {id} still runs");
        std::thread::yield_now();
    }
}

#[test]
fn each_session_has_its_process_until_it_ends() {
    let folder = example("one");
    let args = ["--per-client", "--http", "127.0.0.1:0", "--", PROGRAM, "serve", "server.json"];
    let (mut process, address) = proxy(&args, &folder);
    let url = format!("{address}/mcp");
    let sessions = [0, 1].map(|_| connect(&url, Protocol::Session));
    let stateless = [0, 1].map(|_| connect(&url, Protocol::Stateless));
    // The first list is complete.
    for client in sessions.iter().chain(&stateless) {
        assert_eq!(tools(client), ["id"]);
        assert_eq!(client.server().instructions.as_deref(), Some("Read first."));
    }
    let [first, second] = [0, 1].map(|at| id(&sessions[at], "id"));
    let shared = id(&stateless[0], "id");
    assert_eq!(id(&stateless[1], "id"), shared);
    assert!(first != second && first != shared && second != shared);
    assert_eq!((id(&sessions[0], "id"), id(&sessions[1], "id")), (first, second));
    let [one, other] = sessions;
    one.close();
    await_end(first);
    assert_eq!(id(&other, "id"), second);
    // The proxy ends all processes before it ends.
    kill_process(Pid::from_raw(process.id() as i32).unwrap(), Signal::TERM).unwrap();
    assert_eq!(process.end(), 0);
    assert!(!runs(second) && !runs(shared));
}

#[test]
fn sessions_have_their_processes_at_each_endpoint_and_follow_the_file() {
    let folder = example("config");
    let config = folder.join("mcp.json");
    fs::write(&config, servers(&[("one", "server.json"), ("two", "other.json")])).unwrap();
    let (process, address) =
        proxy(&["--per-client", "--http", "127.0.0.1:0", "--config", "mcp.json"], &folder);
    let all = connect(&format!("{address}/mcp"), Protocol::Session);
    let one = connect(&format!("{address}/servers/one/mcp"), Protocol::Session);
    let shared = connect(&format!("{address}/servers/one/mcp"), Protocol::Stateless);
    assert_eq!(tools(&all), ["one__id", "two__other"]);
    assert_eq!((tools(&one), tools(&shared)), (vec!["id".to_owned()], vec!["id".to_owned()]));
    let (in_all, alone) = (id(&all, "one__id"), id(&one, "id"));
    assert!(in_all != alone && alone != id(&shared, "id") && in_all != id(&shared, "id"));
    write(&config, &servers(&[("one", "server.json"), ("new", "other.json")]));
    process.hang_up();
    process.reported("new: serving /servers/new/mcp");
    let later = connect(&format!("{address}/mcp"), Protocol::Session);
    assert_eq!(tools(&later), ["one__id", "new__other"]);
    // An open session keeps its servers.
    assert_eq!(tools(&all), ["one__id", "two__other"]);
    assert_eq!((id(&all, "one__id"), id(&one, "id")), (in_all, alone));
    one.close();
    await_end(alone);
    // The endpoint of a server that was removed ends its sessions.
    let new = connect(&format!("{address}/servers/new/mcp"), Protocol::Session);
    let removed = id(&new, "other");
    write(&config, &servers(&[("one", "server.json")]));
    process.hang_up();
    await_end(removed);
    assert_eq!(id(&all, "one__id"), in_all);
}

#[test]
fn the_client_over_stdio_has_the_only_process() {
    let folder = example("stdio");
    for protocol in super::serve_session::ERAS {
        let mut command = Command::new(PROGRAM);
        command.args(["proxy", "--per-client", "--", PROGRAM, "serve", "server.json"]).current_dir(&folder);
        let session = Session::over(|client| client, protocol, Process::spawn(command));
        assert_eq!(id(&session.client, "id"), id(&session.client, "id"));
    }
}

#[test]
fn stateful_of_supergateway_gives_each_session_its_process() {
    let folder = example("stateful");
    let command = format!("{PROGRAM} serve server.json");
    let args = [
        "--stdio",
        &command,
        "--outputTransport",
        "streamableHttp",
        "--port",
        "0",
        "--host",
        "127.0.0.1",
        "--stateful",
        "--sessionTimeout",
        "60000",
    ];
    let (_process, address) = proxy(&args, &folder);
    let url = format!("{address}/mcp");
    let sessions = [0, 1].map(|_| connect(&url, Protocol::Session));
    assert_ne!(id(&sessions[0], "id"), id(&sessions[1], "id"));
}
