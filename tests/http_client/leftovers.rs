//! Closed clients leave no thread or descriptor; both are counted in a separate process.

use std::fs;
use std::io::Read;
use std::process::Command;
use std::sync::mpsc;
use std::time::Instant;

use tinymcp::{ErrorKind, Protocol, json};

use crate::detection::{discovered, initialized};
use crate::stage::{JSON, Next, Stage, answer, stream, write_text};
use crate::{TIMEOUT, client};

/// Threads of the library and descriptors of this process.
fn census() -> (usize, usize) {
    let ours = |path: &fs::DirEntry| {
        let name = fs::read_to_string(path.path().join("comm")).unwrap_or_default();
        name.starts_with("tinymcp") || name.starts_with("mcp")
    };
    let threads = fs::read_dir("/proc/self/task").unwrap().flatten().filter(ours).count();
    (threads, fs::read_dir("/proc/self/fd").unwrap().count())
}

/// Runs in a process without other tests; see below.
#[test]
fn counted() {
    if std::env::var_os("TEST_ALONE").is_none() {
        return;
    }
    // The standard library opens some descriptors once, here.
    round();
    let before = (0, census().1);
    for _ in 0..10 {
        round();
    }
    // The system needs a moment to remove a thread that has ended.
    let end = Instant::now() + TIMEOUT;
    while census() != before && Instant::now() < end {
        std::thread::yield_now();
    }
    assert_eq!(census(), before);
}

/// One client for each kind of server, closed while calls are in flight.
fn round() {
    for era in [Protocol::Session, Protocol::Stateless] {
        let (sender, under_way) = mpsc::channel();
        let stage = Stage::new(move |seen, to| {
            if seen.line.starts_with("GET") {
                stream(to);
                write_text(to, "id: 1\ndata: {}\n\n");
                let _ = to.read(&mut [0]);
                return Next::Close;
            }
            if seen.line.starts_with("DELETE") {
                return answer(to, "200 OK", "", "");
            }
            let id = crate::member(&seen.body, "/id");
            match crate::member(&seen.body, "/method").as_str() {
                "server/discover" => answer(to, "200 OK", JSON, &discovered(&id)),
                "initialize" => {
                    answer(to, "200 OK", &format!("{JSON}Mcp-Session-Id: s\r\n"), &initialized(&id))
                }
                "tools/call" => {
                    stream(to);
                    sender.send(()).unwrap();
                    let _ = to.read(&mut [0]);
                    Next::Close
                }
                _ => answer(to, "202 Accepted", "", ""),
            }
        });
        let client = client().protocol(era).connect(stage.url()).unwrap();
        let calls: Vec<_> = (0..3).map(|_| client.request_tool("slow", json!({})).start().unwrap()).collect();
        for _ in 0..3 {
            under_way.recv_timeout(TIMEOUT).unwrap();
        }
        client.close();
        for call in calls {
            assert_eq!(call.wait().unwrap_err().kind(), ErrorKind::Closed);
        }
    }
}

#[test]
fn no_thread_and_no_descriptor_is_left() {
    if !cfg!(target_os = "linux") {
        return;
    }
    let alone = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "leftovers::counted", "--test-threads=1"])
        .env("TEST_ALONE", "1")
        .output()
        .unwrap();
    assert!(alone.status.success(), "{}", String::from_utf8_lossy(&alone.stdout));
}
