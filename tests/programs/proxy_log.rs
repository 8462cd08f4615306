//! `tinymcp proxy --log` and `--access-log`: frames of both sides, requests and their outcomes.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use tinymcp::json::{Doc, Value};
use tinymcp::{Client, Endpoint, json};

use super::serve_session::{ERAS, Process, Session, TIMEOUT, folder};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tinymcp");
const SERVER: &str = r#"{"tools": {
    "echo": {"description": "d", "input": {"text": "string", "password": "string"},
             "run": ["printf", "%s %.0s", "{text}", "{password}"]},
    "fail": {"description": "d", "run": ["false"]}}}"#;
const SECRET: &str = "sk-very-secret-value";

fn example(name: &str) -> PathBuf {
    let folder = folder(&format!("proxy-log-{name}"));
    fs::write(folder.join("server.json"), SERVER).unwrap();
    let config = r#"{"mcpServers": {"one": {"command": "PROGRAM", "args": ["serve", "server.json"],
                                            "env": {"API": "SECRET"}}}}"#;
    fs::write(folder.join("mcp.json"), config.replace("PROGRAM", PROGRAM).replace("SECRET", SECRET)).unwrap();
    folder
}

fn proxy(args: &[&str], folder: &Path) -> Process {
    let mut command = Command::new(PROGRAM);
    command.arg("proxy").args(args).args(["--config", "mcp.json"]).current_dir(folder);
    Process::spawn(command)
}

fn url(process: &Process) -> String {
    process.reported("serving http").split("serving ").nth(1).unwrap().to_owned()
}

/// Reads the lines of a log until they suffice.
fn lines(file: &Path, suffices: impl Fn(&[Doc]) -> bool) -> Vec<Doc> {
    let until = Instant::now() + TIMEOUT;
    loop {
        let text = fs::read_to_string(file).unwrap_or_default();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let lines: Vec<Doc> = whole.lines().map(|line| Doc::parse(line).unwrap()).collect();
        if suffices(&lines) {
            return lines;
        }
        assert!(Instant::now() < until, "{text}");
        std::thread::yield_now();
    }
}

fn member(line: &Doc, name: &str) -> String {
    line.root().get(name).map(|value| value.as_str().unwrap_or(value.raw()).to_owned()).unwrap_or_default()
}

fn has(line: &Doc, text: &str) -> bool {
    line.root().get("frame").is_some_and(|frame| frame.raw().contains(text))
}

/// Calls `echo`, and checks the lines of the call: one for each direction and side, with masks.
fn logged(client: &Client, file: &Path, word: &str, connection: &str) {
    let text = format!("{word} {SECRET}");
    let called = client.call_tool("one__echo", json!({"text": (&*text), "password": "pass-word"})).unwrap();
    assert_eq!(called.texts().trim_end(), text);
    let found = lines(file, |lines| lines.iter().filter(|line| has(line, word)).count() == 4);
    let places = found.iter().filter(|line| has(line, word)).map(|line| {
        (member(line, "side"), member(line, "direction"), member(line, "connection"), member(line, "server"))
    });
    let places: Vec<_> = places.collect();
    let place = |side: &str, direction: &str| {
        let (connection, server) = if side == "client" { (&*places[0].2, "") } else { ("", "one") };
        (side.to_owned(), direction.to_owned(), connection.to_owned(), server.to_owned())
    };
    assert!(places[0].2.starts_with(connection), "{places:?}");
    assert_eq!(
        places,
        [
            place("client", "received"),
            place("server", "sent"),
            place("server", "received"),
            place("client", "sent")
        ]
    );
    let call = found.iter().find(|line| has(line, word)).unwrap().root();
    let argument =
        |name: &str| call.pointer(&format!("/frame/params/arguments/{name}")).and_then(Value::as_str);
    assert_eq!(argument("text"), Some(&*format!("{word} [masked]")));
    assert_eq!(argument("password"), Some("[masked]"));
    let all = fs::read_to_string(file).unwrap();
    assert!(!all.contains("very-secret") && !all.contains("pass-word"), "{all}");
    for line in &found {
        let time = member(line, "time");
        assert!(time.len() == 24 && time.starts_with("20") && time.ends_with('Z'), "{time}");
    }
}

#[test]
fn frames_of_both_sides_are_logged_with_masks() {
    for era in ERAS {
        let folder = example("frames");
        let file = folder.join("frames.jsonl");
        let session = Session::over(|client| client, era, proxy(&["--log", "frames.jsonl"], &folder));
        logged(&session.client, &file, "needle", "stdio");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        // As logrotate does it.
        fs::rename(&file, folder.join("old")).unwrap();
        session.process.hang_up();
        lines(&file, |_| file.exists());
        logged(&session.client, &file, "second", "stdio");

        fs::remove_file(&file).unwrap();
        let process = proxy(&["--log", "frames.jsonl", "--http", "127.0.0.1:0"], &folder);
        let endpoint = Endpoint::new(url(&process));
        let client = Client::builder("test", "0").protocol(era).connect(endpoint).unwrap();
        let name = if era == ERAS[0] { "session-" } else { "request-" };
        logged(&client, &file, "third", name);
    }
}

#[test]
fn the_query_of_a_url_is_masked() {
    let folder = example("query");
    let behind = proxy(&["--http", "127.0.0.1:0"], &folder);
    let at = format!("{}?key=qs-0123456789", url(&behind));
    let config = json!({"mcpServers": {"far": {"url": (&*at)}}});
    fs::write(folder.join("far.json"), config.as_str()).unwrap();
    for (log, args, tool) in
        [("url", ["--url", &*at], "one__echo"), ("file", ["--config", "far.json"], "far__one__echo")]
    {
        let mut command = Command::new(PROGRAM);
        command.args(["proxy", "--log", log]).args(args).current_dir(&folder);
        let session = Session::over(|client| client, ERAS[0], Process::spawn(command));
        let text = "needle qs-0123456789";
        let called = session.client.call_tool(tool, json!({"text": text, "password": ""})).unwrap();
        assert_eq!(called.texts().trim_end(), text);
        let suffices = |lines: &[Doc]| lines.iter().filter(|line| has(line, "needle [masked]")).count() == 4;
        lines(&folder.join(log), suffices);
        assert!(!fs::read_to_string(folder.join(log)).unwrap().contains("qs-0123456789"));
    }
}

#[test]
fn each_request_is_a_line_of_the_access_log() {
    for era in ERAS {
        let folder = example("access");
        let tokens = folder.join("tokens");
        fs::write(&tokens, "0123456789abcdef desk\n").unwrap();
        fs::set_permissions(&tokens, fs::Permissions::from_mode(0o600)).unwrap();
        let args = ["--http", "127.0.0.1:0", "--token-file", "tokens", "--access-log", "access"];
        let process = proxy(&args, &folder);
        let url = url(&process);
        assert!(Client::connect(&*url).is_err());
        let endpoint = Endpoint::new(&url).bearer_token("0123456789abcdef");
        let client = Client::builder("test", "0").protocol(era).connect(endpoint).unwrap();
        client.call_tool("one__echo", json!({"text": "x", "password": ""})).unwrap();
        assert!(client.call_tool("one__fail", json!({})).unwrap().is_error);
        assert!(client.call_tool("other", json!({})).is_err());
        let of = |line: &Doc| ["principal", "name", "server", "outcome"].map(|name| member(line, name));
        let is_call = |line: &&Doc| member(line, "method") == "tools/call";
        let lines = lines(&folder.join("access"), |lines| lines.iter().filter(is_call).count() == 3);
        let calls: Vec<_> = lines.iter().filter(is_call).map(of).collect();
        assert_eq!(
            calls,
            [
                ["desk", "one__echo", "one", "ok"],
                ["desk", "one__fail", "one", "tool error"],
                ["desk", "other", "", "error -32602"]
            ]
        );
        for line in lines.iter().filter(is_call) {
            assert!(line.root().get("ms").and_then(Value::as_f64).is_some(), "{}", line.text());
            assert!(line.root().get("bytes").and_then(Value::as_u64) > Some(20), "{}", line.text());
        }
        let rejected = lines.iter().find(|line| member(line, "outcome") == "rejected 401").unwrap();
        assert_eq!(member(rejected, "http"), "POST /mcp");
        assert_eq!(member(rejected, "why"), "missing bearer token in Authorization");
        let greeting = if era == ERAS[0] { "initialize" } else { "server/discover" };
        assert!(lines.iter().any(|line| member(line, "method") == greeting), "{}", lines.len());
    }
}

/// Sends these bytes; returns the head of the response and the connection.
fn exchange(url: &str, request: &str) -> (Vec<String>, TcpStream) {
    let mut stream = TcpStream::connect(url.split('/').nth(2).unwrap()).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let lines = BufReader::new(stream.try_clone().unwrap()).lines().map(Result::unwrap);
    (lines.take_while(|line| !line.is_empty()).collect(), stream)
}

fn status(head: &[String]) -> &str {
    head[0].split(' ').nth(1).unwrap()
}

#[test]
fn requests_that_are_rejected_for_their_size_or_for_lack_of_room_have_lines() {
    let folder = example("rejected");
    let mut command = Command::new(PROGRAM);
    command.args(["proxy", "--http", "127.0.0.1:0", "--access-log", "access", "--config", "mcp.json"]);
    command.current_dir(&folder).env("TINYMCP_FRAME_BYTES", "65536").env("TINYMCP_SESSIONS", "1");
    let process = Process::spawn(command);
    let url = url(&process);
    let post = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                Accept: application/json, text/event-stream\r\nConnection: close\r\n";
    let (large, _) = exchange(&url, &format!("{post}Content-Length: 65537\r\n\r\n"));
    let (long, _) = exchange(&url, &format!("{post}X: {}\r\n\r\n", "x".repeat(40_000)));
    assert_eq!((status(&large), status(&long)), ("413", "431"));
    let initialize = r#"{"jsonrpc":"2.0","id":"a","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#;
    let open = || exchange(&url, &format!("{post}Content-Length: {}\r\n\r\n{initialize}", initialize.len()));
    let (first, _) = open();
    let session = first.iter().find(|line| line.to_ascii_lowercase().starts_with("mcp-session-id")).unwrap();
    // Its event stream keeps the session from being evicted.
    let get =
        format!("GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n{session}\r\n\r\n");
    let (events, _stream) = exchange(&url, &get);
    assert_eq!((status(&first), status(&events), status(&open().0)), ("200", "200", "503"));
    let outcome = |line: &Doc| (member(line, "outcome"), member(line, "method"));
    let is_full = |line: &&Doc| outcome(line) == ("rejected 503".to_owned(), "initialize".to_owned());
    let found = lines(&folder.join("access"), |lines| lines.iter().any(|line| is_full(&line)));
    for (status, why) in [
        ("rejected 413", "message too large: the limit is 65536 bytes"),
        ("rejected 431", "request head too large, or too many header fields"),
    ] {
        let is_rejected = |line: &&Doc| member(line, "outcome") == status && member(line, "why") == why;
        assert!(found.iter().any(|line| is_rejected(&line)), "{status}");
    }
}

#[test]
fn a_log_can_be_standard_error_and_is_written_before_the_end() {
    let folder = example("stderr");
    let session = Session::over(|client| client, ERAS[1], proxy(&["--access-log", "-"], &folder));
    session.client.call_tool("one__echo", json!({"text": "x", "password": ""})).unwrap();
    let line = session.process.reported("one__echo");
    assert!(line.contains(r#""connection":"stdio","method":"tools/call","#), "{line}");
    let file = folder.join("frames");
    let Session { client, mut process, .. } =
        Session::over(|client| client, ERAS[1], proxy(&["--log", "frames"], &folder));
    client.call_tool("one__echo", json!({"text": "last", "password": ""})).unwrap();
    client.close();
    drop(client);
    assert_eq!(process.end(), 0);
    let text = fs::read_to_string(&file).unwrap();
    assert_eq!(text.lines().filter(|line| line.contains(r#""text":"last"#)).count(), 4, "{text}");
}

#[test]
fn a_log_that_cannot_be_opened_is_an_error() {
    let folder = example("refused");
    let mut process = proxy(&["--log", "/dev/null"], &folder);
    process.reported("tinymcp: /dev/null: not a regular file");
    assert_eq!(process.end(), 2);
}

#[test]
fn a_trace_passes_through_proxies_over_stdio_and_http() {
    const TRACE: &str = r#""traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","tracestate":"a=1","baggage":"k=v""#;
    const MODERN: &str = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}"#;
    const OPENING: &str = concat!(
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","#,
        r#""capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#,
        "\n",
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        "\n"
    );
    for (opening, meta) in [(OPENING, r#""x":1"#), ("", MODERN)] {
        let folder = example("trace");
        let behind = proxy(&["--http", "127.0.0.1:0", "--log", "behind"], &folder);
        let mut front = Command::new(PROGRAM);
        front.args(["proxy", "--url", &url(&behind), "--log", "front"]).current_dir(&folder);
        let mut front = front.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let call = format!(
            r#"{opening}{{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{{"name":"one__echo","arguments":{{"text":"needle","password":""}},"_meta":{{{meta},{TRACE}}}}}}}"#
        );
        writeln!(front.stdin.take().unwrap(), "{call}").unwrap();
        let output = String::from_utf8(front.wait_with_output().unwrap().stdout).unwrap();
        assert!(output.contains("needle"), "{output}");
        for log in ["front", "behind"] {
            let sent = |line: &&Doc| {
                [member(line, "side"), member(line, "direction")] == ["server", "sent"] && has(line, "needle")
            };
            let found = lines(&folder.join(log), |lines| lines.iter().any(|line| sent(&line)));
            let frame = found.iter().find(sent).unwrap();
            assert!(has(frame, TRACE), "{log}: {}", frame.text());
            assert!(!has(frame, r#""x":1"#), "{log}: {}", frame.text());
        }
    }
}
