//! The program `hub_proxy` frees the memory of calls and sessions, and starts no thread for each
//! subscription.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

use super::many::program;
use super::strict::{Proxy, request};

const TIMEOUT: Duration = Duration::from_secs(60);
/// Growth in kB that is noise: an allocator returns memory in pages, and threads start late.
const NOISE: i64 = 256;

/// Anonymous memory of a process, in kB.
fn anonymous(process: u32) -> i64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn servers() -> Value {
    json!({"strict": {"command": program("strict_server")}})
}

/// Runs the operation for a warm-up, then as often again and twice, and measures the growth.
fn stays_flat(process: u32, times: usize, mut operation: impl FnMut(usize)) {
    (0..times).for_each(&mut operation);
    let before = anonymous(process);
    (times..3 * times).for_each(&mut operation);
    let grown = anonymous(process) - before;
    // An emulator's own memory is part of the figure, and it grows with the code that it has translated.
    let emulated = std::env::var_os("TEST_EMULATED").is_some();
    assert!(emulated || grown <= NOISE, "{grown} kB more after {} operations", 2 * times);
}

#[test]
fn calls_over_stdio_are_freed() {
    let mut proxy = Proxy::start("slope-stdio", &servers(), &[]);
    let process = proxy.child.id();
    stays_flat(process, 1500, |n| {
        let params = json!({"name": "strict__echo", "arguments": {"n": n}});
        let answer = proxy.call(&request(n, "tools/call", params));
        assert_eq!(answer["result"]["structuredContent"]["n"], n, "{answer}");
    });
    proxy.end();
}

/// Ids of the threads of a process with this name.
fn threads(process: u32, name: &str) -> Vec<String> {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    // A thread may end meanwhile.
    let named = threads.filter_map(Result::ok).filter(|thread| {
        std::fs::read_to_string(thread.path().join("comm")).is_ok_and(|comm| comm.trim() == name)
    });
    named.map(|thread| thread.file_name().into_string().unwrap()).collect()
}

#[test]
fn subscriptions_share_one_thread() {
    let folder = std::env::temp_dir().join(format!("tinymcp-hub-subscriptions-{}", std::process::id()));
    let servers = json!({"board": {"command": program("board_server"), "args": ["--root", folder]}});
    let mut proxy = Proxy::start("slope-subscriptions", &servers, &[]);
    let process = proxy.child.id();
    let mut seen = BTreeSet::new();
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "c", "version": "1"}});
    proxy.call(&json!({"jsonrpc": "2.0", "id": "open", "method": "initialize", "params": params}));
    for n in 0..200 {
        let params = json!({"uri": format!("gpio://pin/{}", n / 2 % 28)});
        let method = ["resources/subscribe", "resources/unsubscribe"][n % 2];
        let answer = proxy.call(&json!({"jsonrpc": "2.0", "id": n, "method": method, "params": params}));
        assert!(answer["result"].is_object(), "{answer}");
        seen.extend(threads(process, "mcp-hub-updates"));
    }
    // More than one only if nothing happened for 10 s.
    assert!((1..=3).contains(&seen.len()), "{} threads for 200 requests", seen.len());
    proxy.end();
    std::fs::remove_dir_all(folder).unwrap();
}

/// One request on a new connection: the head of the response and its body.
fn exchange(port: u16, method: &str, head: &str, body: &str) -> (String, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let length = body.len();
    write!(
        stream,
        "{method} /mcp HTTP/1.1\r\nHost: localhost:{port}\r\nConnection: close\r\nContent-Length: {length}\r\n\
         Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n{head}\r\n{body}"
    )
    .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

#[test]
fn sessions_over_http_are_freed_when_they_are_deleted() {
    let mut proxy = Proxy::start("slope-http", &servers(), &["--http", "127.0.0.1:0"]);
    let port = proxy.port();
    let process = proxy.child.id();
    stays_flat(process, 400, |n| {
        let open = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#;
        let (head, body) = exchange(port, "POST", "", open);
        let session = head.lines().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("mcp-session-id").then_some(value)
        });
        let session = session.unwrap_or_else(|| panic!("{head}\n{body}"));
        let session = format!("Mcp-Session-Id: {session}\r\nMCP-Protocol-Version: 2025-11-25\r\n");
        let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call",
            "params": {"name": "strict__echo", "arguments": {"n": n}}});
        let (head, body) = exchange(port, "POST", &session, &call.to_string());
        assert!(head.starts_with("HTTP/1.1 200") && body.contains("structuredContent"), "{head}\n{body}");
        let (head, body) = exchange(port, "DELETE", &session, "");
        assert!(head.starts_with("HTTP/1.1 20"), "{head}\n{body}");
    });
    // Over HTTP the end of the input does not end the server.
    proxy.child.kill().unwrap();
    proxy.end();
}
