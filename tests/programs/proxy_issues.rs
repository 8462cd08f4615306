//! Reproductions of issues of supergateway and of sparfenyuk/mcp-proxy, run by `tinymcp proxy`.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Instant;

use tinymcp::{Client, Endpoint, Protocol, json};

use super::serve_session::{ERAS, Process, Session, TIMEOUT, folder};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tinymcp");
/// `id` prints the process of the server, `wait` ends when the file `go` exists.
const SERVER: &str = r#"{"tools": {
    "id": {"description": "d", "run": ["sh", "-c", "echo $PPID"]},
    "echo": {"description": "d", "input": {"text": "string"}, "run": ["echo", "{text}"]},
    "wait": {"description": "d", "run": ["sh", "-c", "touch begun; until [ -e go ]; do sleep 0.02; done; echo ok"]}}}"#;
const OPENING: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"0"}}}"#;

fn example(name: &str) -> PathBuf {
    let folder = folder(&format!("proxy-issues-{name}"));
    fs::write(folder.join("server.json"), SERVER).unwrap();
    folder
}

fn proxy(args: &[&str], folder: &Path) -> Process {
    let mut command = Command::new(PROGRAM);
    command.arg("proxy").args(args).current_dir(folder);
    Process::spawn(command)
}

/// A proxy over HTTP before a program, and its URL.
fn bridge(program: &[&str], folder: &Path) -> (Process, String) {
    let proxy = proxy(&[&["--http", "127.0.0.1:0", "--"], program].concat(), folder);
    let url = url(&proxy);
    (proxy, url)
}

fn url(server: &Process) -> String {
    server.reported("serving http").split("serving ").nth(1).unwrap().to_owned()
}

fn connect(url: &str, protocol: Protocol) -> Client {
    Client::builder("test", "0").protocol(protocol).connect(Endpoint::new(url)).unwrap()
}

fn text(client: &Client, tool: &str, arguments: tinymcp::json::Json) -> String {
    client.call_tool(tool, arguments).unwrap().texts().trim_end().to_owned()
}

/// A request as curl sends it; returns the connection after the head of the response, and the head.
fn curl(url: &str, method: &str, fields: &str, body: &str) -> (BufReader<TcpStream>, String) {
    let address = url.strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let length = body.len();
    let request = format!(
        "{method} /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\n{fields}Content-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let (mut reader, mut head) = (BufReader::new(stream), String::new());
    while !head.ends_with("\r\n\r\n") {
        assert_ne!(reader.read_line(&mut head).unwrap(), 0, "{head}");
    }
    (reader, head)
}

/// Opens a session; returns the field with its id.
fn session(url: &str) -> String {
    let (_, head) = curl(url, "POST", "", OPENING);
    let id = head.lines().find(|line| line.to_ascii_lowercase().starts_with("mcp-session-id:"));
    format!("{}\r\nMCP-Protocol-Version: 2025-11-25\r\n", id.unwrap_or_else(|| panic!("{head}")))
}

/// Processes whose parent is this one.
fn children(parent: u32) -> Vec<u32> {
    let of_parent = |pid: &u32| {
        let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
        let mut fields = stat[stat.rfind(')').unwrap() + 2..].split(' ');
        let (state, ppid) = (fields.next().unwrap(), fields.next().unwrap());
        state != "Z" && ppid == parent.to_string()
    };
    let names = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().file_name());
    names.filter_map(|name| name.to_str()?.parse().ok()).filter(of_parent).collect()
}

/// Waits until a process has ended.
fn ended(pid: &str) {
    let until = Instant::now() + TIMEOUT;
    while Path::new("/proc").join(pid).exists() {
        assert!(Instant::now() < until, "process {pid} is left");
        thread::yield_now();
    }
}

/// <https://github.com/supercorp-ai/supergateway/issues/108>: each request without a session starts
/// a process, which stays.
#[test]
fn requests_without_a_session_start_no_process() {
    let folder = example("108");
    let (mut proxy, url) = bridge(&[PROGRAM, "serve", "server.json"], &folder);
    let client = connect(&url, Protocol::Stateless);
    let server = text(&client, "id", json!({}));
    for n in 0..100 {
        let list = format!(r#"{{"jsonrpc":"2.0","id":"{n}","method":"tools/list","params":{{}}}}"#);
        let (_, head) = curl(&url, "POST", "", &list);
        assert!(head.starts_with("HTTP/1.1 400"), "{head}");
        assert_eq!(text(&connect(&url, Protocol::Stateless), "id", json!({})), server);
    }
    assert_eq!(children(proxy.id()).len(), 1);
    proxy.terminate();
    assert_eq!(proxy.end(), 0);
    ended(&server);
}

/// <https://github.com/supercorp-ai/supergateway/issues/141>: processes outlive the sessions that
/// they were started for. The signal that ends them reaches a shell only, not its children.
///
/// Here all sessions have one process, so only its end with the proxy can leave something.
#[test]
fn sessions_that_end_leave_no_process_and_a_shell_ends_with_its_children() {
    let folder = example("141");
    let script = format!("trap '' TERM; sleep 1000 & echo $! >other; {PROGRAM} serve server.json; wait");
    let (mut proxy, url) = bridge(&["sh", "-c", &script], &folder);
    let client = connect(&url, Protocol::Session);
    let server = text(&client, "id", json!({}));
    let shell = children(proxy.id());
    for _ in 0..20 {
        let session = session(&url);
        let (_, head) = curl(&url, "DELETE", &session, "");
        assert!(head.starts_with("HTTP/1.1 20"), "{head}");
    }
    assert_eq!(children(proxy.id()), shell);
    assert_eq!(text(&client, "id", json!({})), server);
    proxy.terminate();
    assert_eq!(proxy.end(), 0);
    ended(&shell[0].to_string());
    ended(&server);
    ended(fs::read_to_string(folder.join("other")).unwrap().trim());
}

/// <https://github.com/supercorp-ai/supergateway/issues/160>: the process of a client that vanishes
/// while its event stream is open stays for ever.
///
/// Here a client that vanishes holds a session, which is bounded, and no process.
#[test]
fn clients_that_vanish_with_an_open_stream_hold_no_process() {
    let folder = example("160");
    let (mut proxy, url) = bridge(&[PROGRAM, "serve", "server.json"], &folder);
    let server = text(&connect(&url, Protocol::Session), "id", json!({}));
    // The sockets stay open, as those of a client that lost its network.
    let vanished: Vec<BufReader<TcpStream>> = (0..40)
        .map(|_| {
            let (stream, head) = curl(&url, "GET", &session(&url), "");
            assert!(head.starts_with("HTTP/1.1 200"), "{head}");
            stream
        })
        .collect();
    for protocol in ERAS {
        assert_eq!(text(&connect(&url, protocol), "id", json!({})), server);
    }
    assert_eq!(children(proxy.id()).len(), 1);
    proxy.terminate();
    assert_eq!(proxy.end(), 0);
    for mut stream in vanished {
        stream.read_to_end(&mut Vec::new()).unwrap();
    }
    ended(&server);
}

/// <https://github.com/supercorp-ai/supergateway/issues/139>: the client of a server that ends
/// before it responds to `initialize` waits until its own timeout and gets no reason.
#[test]
fn a_server_that_ends_at_its_start_is_an_error_with_the_reason() {
    let folder = example("139");
    for (script, reason) in [
        ("echo cannot find module >&2; exit 3", "exited with status 3"),
        ("read line; exit 4", "exited with status 4"),
        ("read line; kill -9 $$", "signal 9"),
    ] {
        for protocol in ERAS {
            let (_proxy, url) = bridge(&["sh", "-c", script], &folder);
            // The first call may arrive before the end of the server, the second one arrives after it.
            let client = connect(&url, protocol);
            for _ in 0..2 {
                let result = client.call_tool("echo", json!({"text": "x"}));
                let error = result.map_or_else(|error| error.to_string(), |output| output.texts());
                assert!(error.contains("is down: ") && error.contains(reason), "{script}: {error}");
            }
        }
    }
}

/// <https://github.com/supercorp-ai/supergateway/issues/13>: several servers at one port, each with
/// a path.
#[test]
fn several_servers_share_a_port() {
    let folder = example("13");
    let command = format!("'{PROGRAM}' serve server.json");
    let args = ["--port", "0", "--named-server", "one", &command, "--named-server", "two", &command];
    let proxy = proxy(&args, &folder);
    let url = url(&proxy);
    for protocol in ERAS {
        let client = connect(&url, protocol);
        let (one, two) = (text(&client, "one__id", json!({})), text(&client, "two__id", json!({})));
        assert_ne!(one, two);
        assert_eq!(text(&client, "two__echo", json!({"text": "a b"})), "a b");
        for (key, id) in [("one", one), ("two", two)] {
            let alone = connect(&url.replace("/mcp", &format!("/servers/{key}/mcp")), protocol);
            assert_eq!(text(&alone, "id", json!({})), id);
        }
    }
    assert_eq!(children(proxy.id()).len(), 2);
}

/// <https://github.com/supercorp-ai/supergateway/issues/105>: many clients at one server on stdio,
/// which hung, and whose ids collide.
#[test]
fn clients_at_the_same_time_share_one_process() {
    let folder = example("105");
    let (proxy, url) = bridge(&[PROGRAM, "serve", "server.json"], &folder);
    let slow = connect(&url, Protocol::Session);
    thread::scope(|scope| {
        let slow = scope.spawn(|| text(&slow, "wait", json!({})));
        let until = Instant::now() + TIMEOUT;
        while !folder.join("begun").exists() {
            assert!(Instant::now() < until, "the call does not start");
            thread::yield_now();
        }
        let clients: Vec<_> = (0..16)
            .map(|n| {
                let url = &url;
                scope.spawn(move || {
                    // Each client counts its requests from the same number.
                    let client = connect(url, ERAS[n % 2]);
                    for call in 0..10 {
                        let mine = format!("{n} {call}");
                        assert_eq!(text(&client, "echo", json!({"text": (&*mine)})), mine);
                    }
                })
            })
            .collect();
        clients.into_iter().for_each(|client| client.join().unwrap());
        assert_eq!(children(proxy.id()).len(), 1);
        fs::write(folder.join("go"), "").unwrap();
        assert_eq!(slow.join().unwrap(), "ok");
    });
}

/// <https://github.com/sparfenyuk/mcp-proxy/issues/75>: a server over HTTP that was restarted is
/// never reached again, and calls return empty errors.
#[test]
fn a_server_over_http_that_restarts_is_used_again() {
    let folder = example("75");
    for protocol in ERAS {
        let start = |address: &str| {
            let server = Process::start(&["server.json", "--http", address], &folder);
            let url = url(&server);
            (server, url)
        };
        let (server, url) = start("127.0.0.1:0");
        let address = url.strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap();
        let session = Session::over(|client| client, protocol, proxy(&["--url", &url], &folder));
        let first = text(&session.client, "id", json!({}));
        drop(server);
        for _ in 0..2 {
            let error = session.client.call_tool("id", json!({}));
            let error = error.map_or_else(|error| error.to_string(), |output| output.texts());
            assert!(error.contains("refused") || error.contains("is down"), "{error}");
        }
        // The first server's connections keep the port from other programs, in TIME-WAIT.
        let (_server, _) = start(address);
        let until = Instant::now() + TIMEOUT;
        let second = loop {
            match session.client.call_tool("id", json!({})) {
                Ok(output) if !output.is_error => break output.texts(),
                other => assert!(Instant::now() < until, "{other:?}"),
            }
            thread::yield_now();
        };
        assert_ne!(first, second.trim_end());
    }
}
