//! Child processes under one hub: fifty at once, one that dies, one that floods.

use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use tinymcp::{ErrorKind, Hub, Limits, ServerState, Upstream, json};

const SOON: Duration = Duration::from_secs(60);

/// An example that `cargo test` has built.
pub(super) fn program(name: &str) -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let program = tests.parent().unwrap().with_file_name("examples").join(name);
    assert!(program.exists(), "run `cargo build --examples` first");
    program
}

/// Server whose `echo` returns its text, and that exits at the first line that is not JSON-RPC.
pub(super) fn strict_echo() -> Upstream {
    Upstream::command(|| {
        let mut command = Command::new(program("strict_server"));
        command.arg("--text");
        command
    })
}

/// A program that sends list changes without end, and no response.
fn flooding() -> Upstream {
    Upstream::command(|| {
        let mut flood = Command::new("sh");
        flood.args([
            "-c",
            r#"while echo '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'; do :; done"#,
        ]);
        flood
    })
}

fn hub(limits: Limits) -> Hub {
    Hub::builder("test", "1.0.0").limits(limits).build().unwrap()
}

#[test]
fn fifty_children_of_which_one_is_dead_one_silent_and_one_floods() {
    // On a busy machine fifty processes may start late: then the lists get more time.
    assert!(
        [30, 300].into_iter().map(Duration::from_secs).any(fifty),
        "the lists are late, however much time there is"
    );
}

/// Returns true if all but the silent and the flooding server gave their lists or failed in this time.
fn fifty(time: Duration) -> bool {
    let mut limits = Limits::default();
    limits.list_timeout = time;
    limits.probe_timeout = time + Duration::from_secs(10);
    let hub = hub(limits);
    for n in 0..47 {
        hub.add(format!("echo{n}"), strict_echo()).unwrap();
    }
    hub.add("dead", Upstream::command(|| Command::new("false"))).unwrap();
    hub.add(
        "silent",
        Upstream::command(|| {
            let mut silent = Command::new("sleep");
            silent.arg("600");
            silent
        }),
    )
    .unwrap();
    hub.add("flood", flooding()).unwrap();
    assert_eq!(hub.call_tool("echo0__echo", json!({"text": "first"})).unwrap().texts(), "first");
    let tools = hub.tools();
    let late = tools.missing.iter().filter(|m| m.error.kind() == ErrorKind::Timeout).count();
    if late > 2 {
        return false;
    }
    assert_eq!(tools.entries.len(), 47 * 4, "{:?}", tools.missing);
    let missing: Vec<&str> = tools.missing.iter().map(|m| &*m.server).collect();
    assert_eq!(missing, ["dead", "silent", "flood"]);
    for n in 0..47 {
        let name = format!("echo{n}__echo");
        assert_eq!(hub.call_tool(&name, json!({"text": name})).unwrap().texts(), name);
    }
    hub.close();
    true
}

#[test]
fn a_child_that_is_killed_is_started_again() {
    let (told, news) = mpsc::channel();
    let hub = Hub::builder("test", "1.0.0")
        .limits(Limits::default())
        .on_status(move |status| {
            // The test may be over.
            let _ = told.send(status.clone());
        })
        .build()
        .unwrap();
    let (started, children) = mpsc::channel();
    let folder = std::env::temp_dir().join(format!("tinymcp-hub-{}", std::process::id()));
    hub.add(
        "one",
        Upstream::command(move || {
            // The shell writes its process id, which is also that of the server it becomes.
            let file = folder.clone();
            let mut shell = Command::new("sh");
            let script = "echo $$ > \"$0\"; exec \"$1\" --text";
            shell.arg("-c").arg(script).arg(&file).arg(program("strict_server"));
            let _ = started.send(file);
            shell
        }),
    )
    .unwrap();
    assert_eq!(hub.call_tool("one__echo", json!({"text": "a"})).unwrap().texts(), "a");
    assert!(matches!(news.recv_timeout(SOON).unwrap().state, ServerState::Running(_)));
    let file = children.recv_timeout(SOON).unwrap();
    let id = std::fs::read_to_string(&file).unwrap();
    assert!(Command::new("kill").args(["-9", id.trim()]).status().unwrap().success());
    let down = news.recv_timeout(SOON).unwrap();
    assert!(matches!(down.state, ServerState::Down { again: true, .. }), "{down:?}");
    assert!(matches!(news.recv_timeout(SOON).unwrap().state, ServerState::Running(_)));
    assert_eq!(hub.call_tool("one__echo", json!({"text": "b"})).unwrap().texts(), "b");
    let settled = hub.wait_settled(Instant::now() + SOON);
    assert!(matches!(settled[0].state, ServerState::Running(_)));
    assert_eq!((settled[0].restarts, &settled[0].last_error), (1, &down.last_error));
    assert!(down.last_error.is_some());
    hub.close();
    let _ = std::fs::remove_file(file);
}

#[cfg(unix)]
#[test]
fn a_server_that_is_still_connecting_is_ended_too() {
    let file = std::env::temp_dir().join(format!("tinymcp-hub-connecting-{}", std::process::id()));
    // Close the hub, remove the server, drop the hub, restart the server.
    for end in [
        Hub::close,
        |hub: &Hub| drop(hub.remove("deaf")),
        |hub: &Hub| drop(hub.clone()),
        |hub: &Hub| hub.restart("deaf").unwrap(),
    ] {
        let _ = std::fs::remove_file(&file);
        let mut limits = Limits::default();
        limits.probe_timeout = Duration::from_secs(600);
        limits.child_exit = Duration::from_millis(100);
        let hub = hub(limits);
        let script = format!("echo $$ > {0}.new; mv {0}.new {0}; exec sleep 600", file.display());
        let deaf = move || {
            let mut deaf = Command::new("sh");
            deaf.args(["-c", &script]);
            deaf
        };
        hub.add("deaf", Upstream::command(deaf)).unwrap();
        let began = Instant::now();
        let pid = loop {
            match std::fs::read_to_string(&file) {
                Ok(pid) => break pid.trim().to_owned(),
                Err(_) => assert!(began.elapsed() < SOON, "it never started"),
            }
            std::thread::yield_now();
        };
        end(&hub);
        drop(hub);
        let alive = Command::new("kill").args(["-0", &pid]).stderr(std::process::Stdio::null()).status();
        assert!(!alive.unwrap().success(), "it still runs");
    }
    let _ = std::fs::remove_file(&file);
}
