//! Nothing is left: threads and descriptors are counted in a process of their own.

use std::fs;
use std::io::Read;
use std::process::Command;
use std::sync::mpsc;
use std::time::Instant;

use tinymcp::{ErrorKind, Protocol, json};

use crate::detection::{discovered, initialized};
use crate::stage::{JSON, Next, Stage, answer, say, stream};
use crate::{LONG, client};

/// Threads of ours and descriptors of this process.
fn census() -> (usize, usize) {
    let ours = |path: &fs::DirEntry| {
        let name = fs::read_to_string(path.path().join("comm")).unwrap_or_default();
        name.starts_with("tinymcp") || name.starts_with("mcp")
    };
    let threads = fs::read_dir("/proc/self/task").unwrap().flatten().filter(ours).count();
    (threads, fs::read_dir("/proc/self/fd").unwrap().count())
}

/// Runs in a process where nothing else does; see below.
#[test]
fn counted() {
    if std::env::var_os("TEST_ALONE").is_none() {
        return;
    }
    // What the standard library opens once is opened now.
    round();
    let before = (0, census().1);
    for _ in 0..10 {
        round();
    }
    // The system takes a moment to forget a thread that has ended.
    let end = Instant::now() + LONG;
    while census() != before && Instant::now() < end {
        std::thread::yield_now();
    }
    assert_eq!(census(), before);
}

/// One client each with servers of every sort, closed while things are under way.
fn round() {
    for era in [Protocol::Session, Protocol::Stateless] {
        let (tell, under_way) = mpsc::channel();
        let stage = Stage::new(move |seen, to| {
            if seen.line.starts_with("GET") {
                stream(to);
                say(to, "id: 1\ndata: {}\n\n");
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
                    tell.send(()).unwrap();
                    let _ = to.read(&mut [0]);
                    Next::Close
                }
                _ => answer(to, "202 Accepted", "", ""),
            }
        });
        let client = client().protocol(era).connect(stage.url()).unwrap();
        let calls: Vec<_> = (0..3).map(|_| client.request_tool("slow", json!({})).start().unwrap()).collect();
        for _ in 0..3 {
            under_way.recv_timeout(LONG).unwrap();
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
