//! Servers in processes that check what they get with another JSON parser, behind one hub, and the
//! program `hub_proxy` with such a server.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tinymcp::json::Json;
use tinymcp::{Client, Hub, Limits, Server, Upstream, memory_links};

use super::many::program;

const TIMEOUT: Duration = Duration::from_secs(60);

fn strict() -> Upstream {
    Upstream::command(|| Command::new(program("strict_server")))
}

/// A client of a served hub with one strict server, `strict`.
fn proxied(upstream: Upstream) -> (Hub, Client) {
    proxied_within(Limits::default(), upstream)
}

fn proxied_within(mut limits: Limits, upstream: Upstream) -> (Hub, Client) {
    (limits.client.probe_timeout, limits.client.call_timeout) = (TIMEOUT, TIMEOUT);
    let hub = Hub::builder("proxy", "1.0.0").limits(limits.clone()).build().unwrap();
    let mut server = Server::new("proxy", "1.0.0");
    server.limits(limits);
    hub.export(&mut server).unwrap();
    hub.add("strict", upstream).unwrap();
    hub.wait_settled(Instant::now() + TIMEOUT);
    let (theirs, ours) = memory_links();
    std::thread::spawn(move || server.serve(theirs));
    let client = Client::builder("test", "1.0.0").over(ours).unwrap();
    (hub, client)
}

/// A pseudo-random number below `most` (xorshift).
fn below(state: &mut u64, most: u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state % most
}

#[test]
fn growing_and_changing_lists_reach_the_child_unchanged() {
    let (hub, client) = proxied(strict());
    let mut state = 0x5eed_5eed_5eed_5eed;
    let mut list: Vec<Value> = vec![json!(77777), json!(123_456), json!(12)];
    for _ in 0..3000 {
        let value = match below(&mut state, 6) {
            0 => json!(below(&mut state, 10_000_000)),
            1 => json!(4.0),
            2 => json!(below(&mut state, 100_000) as f64 / 1000.0),
            3 => json!("a \"quoted\" text"),
            4 => json!(null),
            _ => json!({"n": below(&mut state, 1000)}),
        };
        let at = below(&mut state, list.len() as u64 + 1) as usize;
        match below(&mut state, 3) {
            0 if list.len() < 8 => list.insert(at, value),
            1 if at < list.len() && list.len() > 1 => drop(list.remove(at)),
            _ if at < list.len() => list[at] = value,
            _ => {}
        }
        let arguments = json!({ "l": list });
        let text = Json::parse(arguments.to_string()).unwrap();
        let output = client.call_tool("strict__echo", text).unwrap();
        let echoed: Value = serde_json::from_str(output.structured.unwrap().as_str()).unwrap();
        assert_eq!(echoed, arguments);
    }
    hub.close();
}

#[test]
fn an_answer_beyond_the_limit_of_a_message_ends_its_call_at_once_and_no_other() {
    let mut limits = Limits::default();
    limits.frame_bytes = 64 << 10;
    let (hub, client) = proxied_within(limits, strict());
    let big = |bytes: usize| client.call_tool("strict__big", tinymcp::json!({ "bytes": bytes })).unwrap();
    for _ in 0..3 {
        let began = Instant::now();
        let output = big(200_000);
        // Far below the deadline of the call.
        assert!(began.elapsed() < TIMEOUT / 3, "{:?}", began.elapsed());
        let words = output.texts();
        assert!(output.is_error && words.contains("65536 bytes"), "{words}");
        let output = big(1000);
        assert_eq!((output.is_error, output.texts().len()), (false, 1000));
    }
    hub.close();
}

/// The environment variables that a child of a hub gets.
fn environment(upstream: Upstream) -> Vec<String> {
    let (hub, client) = proxied(upstream);
    let output = client.call_tool("strict__environment", tinymcp::json!({})).unwrap();
    let found: Value = serde_json::from_str(output.structured.unwrap().as_str()).unwrap();
    hub.close();
    found["names"].as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()).collect()
}

/// The variables of the user and of the system that programs need on Windows.
const ALLOWED_ON_WINDOWS: [&str; 19] = [
    "PATH",
    "PATHEXT",
    "COMSPEC",
    "SYSTEMROOT",
    "SYSTEMDRIVE",
    "WINDIR",
    "TEMP",
    "TMP",
    "USERNAME",
    "USERPROFILE",
    "HOMEDRIVE",
    "HOMEPATH",
    "APPDATA",
    "LOCALAPPDATA",
    "PROGRAMDATA",
    "PROGRAMFILES",
    "PROCESSOR_ARCHITECTURE",
    "NUMBER_OF_PROCESSORS",
    "LANG",
];

#[test]
fn a_child_gets_a_small_environment_unless_it_is_to_inherit_all() {
    // Set by cargo for each test: it stands for the secrets of a host.
    const SECRET: &str = "CARGO_MANIFEST_DIR";
    assert!(std::env::var_os(SECRET).is_some() && std::env::var_os("PATH").is_some());
    let own = || {
        Upstream::command(|| {
            let mut command = Command::new(program("strict_server"));
            command.env("TEST_OWN", "1").env("TEST_EMULATED", "2");
            command
        })
    };
    let names = environment(own());
    for name in &names {
        let allowed: &[&str] = match cfg!(windows) {
            true => &ALLOWED_ON_WINDOWS,
            false => &["PATH", "HOME", "USER", "LANG", "TERM", "TMPDIR", "SHELL"],
        };
        let is_allowed = |name: &str| allowed.iter().any(|known| known.eq_ignore_ascii_case(name));
        // Wine gives these to each process.
        let own =
            ["TEST_OWN", "TEST_EMULATED"].contains(&&**name) || (cfg!(windows) && name.starts_with("WINE"));
        assert!(own || is_allowed(name) || name.starts_with("LC_"), "{name} in {names:?}");
    }
    for name in ["PATH", "TEST_OWN"] {
        assert!(names.iter().any(|other| other == name), "{name} not in {names:?}");
    }
    let names = environment(own().inherit_env(true));
    assert!(names.iter().any(|name| name == SECRET), "{names:?}");
}

/// The program `hub_proxy`, over stdio.
pub(super) struct Proxy {
    pub child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    file: PathBuf,
}

impl Proxy {
    /// Starts it with this configuration, and further arguments.
    pub(super) fn start(name: &str, servers: &Value, arguments: &[&str]) -> Proxy {
        Proxy::start_with(name, servers, arguments, Stdio::piped())
    }

    fn start_with(name: &str, servers: &Value, arguments: &[&str], stderr: Stdio) -> Proxy {
        let file = std::env::temp_dir().join(format!("tinymcp-{name}-{}.json", std::process::id()));
        std::fs::write(&file, json!({ "mcpServers": servers }).to_string()).unwrap();
        let mut command = Command::new(program("hub_proxy"));
        command.arg(&file).args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr);
        let mut child = command.spawn().unwrap();
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap());
        Proxy { child, input, output, file }
    }

    /// Waits until it reports its address; returns the port. [`Proxy::end`] does not return these lines.
    pub(super) fn port(&mut self) -> u16 {
        let mut lines = BufReader::new(self.child.stderr.as_mut().unwrap()).lines();
        lines.find_map(|line| line.unwrap().split(['/', ':']).find_map(|word| word.parse().ok())).unwrap()
    }

    /// Sends a request and waits for its response, which must be JSON.
    pub(super) fn call(&mut self, request: &Value) -> Value {
        writeln!(self.input.as_mut().unwrap(), "{request}").unwrap();
        loop {
            let mut line = String::new();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "hub_proxy ended");
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == request["id"] {
                return message;
            }
        }
    }

    /// Ends it; what it wrote to stderr.
    pub(super) fn end(mut self) -> String {
        drop(self.input.take());
        let mut errors = String::new();
        std::io::Read::read_to_string(&mut self.child.stderr.take().unwrap(), &mut errors).unwrap();
        self.child.wait().unwrap();
        std::fs::remove_file(&self.file).unwrap();
        errors
    }
}

/// A stateless request.
pub(super) fn request(id: usize, method: &str, params: Value) -> Value {
    let mut params = params;
    params["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}});
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

#[test]
fn hub_proxy_reports_invalid_servers_on_stderr_and_tags_lines_of_children() {
    let servers = json!({
        "good": {"command": program("strict_server")},
        "two words": {"command": "strict_server --text"},
        "needs": {"command": "${TINYMCP_NO_SUCH_VARIABLE}"},
        "gone": {"command": "/nonexistent/server"},
    });
    let mut proxy = Proxy::start("names", &servers, &[]);
    let says = json!({"name": "good__says", "arguments": {"text": "first\nsecond"}});
    let answer = proxy.call(&request(1, "tools/call", says));
    assert_eq!(answer["result"]["content"][0]["text"], "said", "{answer}");
    let errors = proxy.end();
    let has = |line: &str| errors.lines().any(|other| other == line);
    assert!(has("good: first") && has("good: second"), "{errors}");
    assert!(has("good: connected to strict_server 1.0.0"), "{errors}");
    for words in [
        r#"server "needs""#,
        "TINYMCP_NO_SUCH_VARIABLE",
        r#"server "two words": no program "strict_server --text""#,
        "gone: down: ",
    ] {
        assert!(errors.contains(words), "{words}: {errors}");
    }
}

#[cfg(unix)]
#[test]
fn a_full_standard_error_that_is_never_read_blocks_neither_calls_nor_the_end() {
    use std::os::{fd::OwnedFd, unix::net::UnixStream};

    let (unread, full) = UnixStream::pair().unwrap();
    full.set_nonblocking(true).unwrap();
    while (&full).write(&[b'.'; 4096]).is_ok() {}
    full.set_nonblocking(false).unwrap();
    let servers = json!({"good": {"command": program("strict_server")}, "gone": {"command": "/nonexistent"}});
    let mut proxy = Proxy::start_with("unread", &servers, &[], Stdio::from(OwnedFd::from(full)));
    let (finished, end) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for id in 0..3 {
            // More than the queue holds, so that lines are dropped.
            let says = json!({"name": "good__says", "arguments": {"text": "a line\n".repeat(10_000)}});
            let answer = proxy.call(&request(id, "tools/call", says));
            assert_eq!(answer["result"]["content"][0]["text"], "said", "{answer}");
        }
        drop(proxy.input.take());
        assert!(proxy.child.wait().unwrap().success());
        finished.send(()).unwrap();
    });
    end.recv_timeout(TIMEOUT).expect("calls are answered, and the program ends");
    drop(unread);
}

#[cfg(unix)] // Needs a pipe with a name.
#[test]
fn hub_proxy_waits_for_a_late_server_and_reports_it() {
    // The server starts when the test has written to the pipe.
    let pipe = std::env::temp_dir().join(format!("tinymcp-late-pipe-{}", std::process::id()));
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let late = json!(["-c", r#"read line < "$1"; exec "$0""#, program("strict_server"), pipe]);
    let servers = json!({"late": {"command": "/bin/sh", "args": late}});
    let mut proxy = Proxy::start("late", &servers, &[]);
    let echo = json!({"name": "late__echo", "arguments": {"text": "a"}});
    writeln!(proxy.input.as_mut().unwrap(), "{}", request(1, "tools/call", echo)).unwrap();
    let mut errors = BufReader::new(proxy.child.stderr.take().unwrap()).lines();
    let reported = "late: still connecting after 5 s; calls to it wait";
    assert!(errors.any(|line| line.unwrap() == reported));
    std::fs::write(&pipe, "\n").unwrap();
    let mut line = String::new();
    proxy.output.read_line(&mut line).unwrap();
    let answer: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(answer["result"]["structuredContent"]["text"], "a", "{answer}");
    drop(proxy.input.take());
    proxy.child.wait().unwrap();
    std::fs::remove_file(&proxy.file).unwrap();
    std::fs::remove_file(&pipe).unwrap();
}

#[test]
fn a_configuration_sets_the_environment_of_its_servers() {
    // Set by cargo for each test.
    const SECRET: &str = "CARGO_MANIFEST_DIR";
    let strict = program("strict_server");
    let servers = json!({
        "own": {"command": &strict, "env": {"TEST_OWN": "1"}},
        "all": {"command": &strict, "inheritEnv": true},
    });
    let mut proxy = Proxy::start("environment", &servers, &[]);
    let mut names = |server: &str| {
        let call = json!({"name": format!("{server}__environment"), "arguments": {}});
        let answer = proxy.call(&request(1, "tools/call", call));
        let names = answer["result"]["structuredContent"]["names"].as_array().unwrap().clone();
        move |name: &str| names.iter().any(|other| other == name)
    };
    let (own, all) = (names("own"), names("all"));
    assert!(own("TEST_OWN") && own("PATH") && !own(SECRET));
    assert!(!all("TEST_OWN") && all("PATH") && all(SECRET));
    proxy.end();
}

#[test]
fn a_message_that_is_not_json_reaches_no_child() {
    let mut proxy = Proxy::start("malformed", &json!({"good": {"command": program("strict_server")}}), &[]);
    let call = |id: &str| {
        let text =
            request(1, "tools/call", json!({"name": "good__echo", "arguments": {"text": "a"}})).to_string();
        text.replace(r#""id":1"#, &format!(r#""id":{id}"#))
    };
    for (id, valid) in [("4", true), ("4.099002.000", false), ("5", true), ("05", false), ("6", true)] {
        writeln!(proxy.input.as_mut().unwrap(), "{}", call(id)).unwrap();
        let mut line = String::new();
        proxy.output.read_line(&mut line).unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(answer["error"]["code"] == -32700, !valid, "{id}: {answer}");
        assert_eq!(answer["result"].is_object(), valid, "{id}: {answer}");
    }
    // The child exits at a line that is not JSON; the hub would then have reported its end.
    let errors = proxy.end();
    assert!(!errors.contains("down"), "{errors}");
}
