//! Socket activation: a server process on an inherited socket, and its diagnostics.

#![cfg(unix)]

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;

use serde_json::json;

use crate::client::{Served, TIMEOUT, server, stage};

/// Set for the server process.
const ROLE: &str = "TEST_ACTIVATED_ROLE";

/// Runs the server if [`ROLE`] is set.
#[test]
fn a_server_uses_the_socket_of_the_service_manager() {
    if std::env::var_os(ROLE).is_some() {
        server(stage()).http().tokens([("s3cret", "alice")]).serve("systemd").unwrap();
    }
}

struct Activated {
    child: Child,
    lines: mpsc::Receiver<String>,
}

impl Activated {
    /// Starts the server as a service manager would: its socket is descriptor 3.
    fn start(socket: OwnedFd) -> Activated {
        let program = std::env::current_exe().unwrap();
        let script = "exec 3<&0 </dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec \"$@\"";
        let mut child = Command::new("sh")
            .args(["-c", script, "sh"])
            .arg(program)
            .args([
                "socket_activation::a_server_uses_the_socket_of_the_service_manager",
                "--exact",
                "--nocapture",
            ])
            .env(ROLE, "1")
            .env("TINYMCP_WORKRES", "1")
            .stdin(socket)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (received, lines) = mpsc::channel();
        let errors = BufReader::new(child.stderr.take().unwrap());
        thread::spawn(move || errors.lines().map_while(Result::ok).try_for_each(|line| received.send(line)));
        Activated { child, lines }
    }

    /// Waits for a line with this text.
    fn says(&self, what: &str) -> String {
        loop {
            let line = self.lines.recv_timeout(TIMEOUT).unwrap_or_else(|_| panic!("no line with {what}"));
            if line.contains(what) {
                return line;
            }
        }
    }
}

impl Drop for Activated {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

// shows: SEC-01
#[test]
fn an_activated_server_reports_rejections_to_its_operator() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let served = Served::elsewhere(listener.local_addr().unwrap().to_string());
    let mut server = Activated::start(listener.into());
    // Connections wait in the socket until the server runs.
    let token = ("Authorization", "Bearer s3cret");
    let call = json!({"name": "echo", "arguments": {"text": "a"}});
    let answer = served.modern(&[token], "tools/call", call).json();
    assert_eq!(answer["result"]["content"][0]["text"], "a", "{answer}");
    server.says("TINYMCP_WORKRES");
    server.says(&format!("tinymcp: serving http://{}/mcp", served.address));
    let evil = "evil.example".repeat(50);
    let mut lines = Vec::new();
    for (what, fields) in [
        ("allow_host", [("Host", evil.as_str())]),
        ("allow_origin", [("Origin", "http://evil.example")]),
        ("token", [("Authorization", "Bearer gu3ss")]),
    ] {
        // While one line is being written, another one is dropped.
        let line = loop {
            assert_ne!(served.send("GET", "/mcp", &fields, "").status, 200);
            match server.lines.try_recv() {
                Ok(line) if line.contains(what) => break line,
                Ok(line) => lines.push(line),
                Err(_) => assert!(server.child.try_wait().unwrap().is_none(), "the server ended"),
            }
        };
        assert!(line.len() < 250 && !line.contains("gu3ss"), "{line}");
    }
    // Each kind is reported once, for any number of requests.
    assert!(!lines.iter().any(|line| line.contains("refused")), "{lines:?}");
    let pid = rustix::process::Pid::from_child(&server.child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(server.child.wait().unwrap().success());
}
