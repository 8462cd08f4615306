//! Child processes under one hub: fifty at once, one that dies, one that floods.

use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, mpsc};
use std::time::{Duration, Instant};

use tinymcp::{ErrorKind, Hub, Server, ServerState, Tool, Upstream, memory_links};

const TIMEOUT: Duration = Duration::from_secs(60);

/// An example that `cargo test` has built.
pub(super) fn program(name: &str) -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let program = tests
        .parent()
        .unwrap()
        .with_file_name("examples")
        .join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
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

#[cfg(unix)]
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

#[cfg(unix)]
fn hub(limits: tinymcp::Limits) -> Hub {
    Hub::builder("test", "1.0.0").limits(limits).build().unwrap()
}

#[cfg(unix)] // Runs programs of Unix, here and in the next test.
#[test]
fn fifty_children_of_which_one_is_dead_one_silent_and_one_floods() {
    // On a busy machine fifty processes may start late: then the lists get more time.
    assert!(
        [4, 40, 400].into_iter().map(Duration::from_secs).any(fifty),
        "the lists are late, however much time there is"
    );
}

#[cfg(unix)]
/// Returns true if all but the silent and the flooding server gave their lists or failed in this time.
fn fifty(time: Duration) -> bool {
    let mut limits = tinymcp::Limits::default();
    limits.hub.list_timeout = time;
    limits.client.probe_timeout = time + Duration::from_secs(10);
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
    assert_eq!(hub.call_tool("echo0__echo", tinymcp::json!({"text": "first"})).unwrap().texts(), "first");
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
        assert_eq!(hub.call_tool(&name, tinymcp::json!({"text": name})).unwrap().texts(), name);
    }
    hub.close();
    true
}

#[cfg(unix)]
#[test]
fn a_child_that_is_killed_is_started_again() {
    let (received, news) = mpsc::channel();
    let hub = Hub::builder("test", "1.0.0")
        .limits(tinymcp::Limits::default())
        .on_status(move |status| {
            // The test may be over.
            let _ = received.send(status.clone());
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
    assert_eq!(hub.call_tool("one__echo", tinymcp::json!({"text": "a"})).unwrap().texts(), "a");
    assert!(matches!(news.recv_timeout(TIMEOUT).unwrap().state, ServerState::Running(_)));
    let file = children.recv_timeout(TIMEOUT).unwrap();
    let id = std::fs::read_to_string(&file).unwrap();
    assert!(Command::new("kill").args(["-9", id.trim()]).status().unwrap().success());
    let down = news.recv_timeout(TIMEOUT).unwrap();
    assert!(matches!(down.state, ServerState::Down { again: true, .. }), "{down:?}");
    assert!(matches!(news.recv_timeout(TIMEOUT).unwrap().state, ServerState::Running(_)));
    assert_eq!(hub.call_tool("one__echo", tinymcp::json!({"text": "b"})).unwrap().texts(), "b");
    let settled = hub.wait_settled(Instant::now() + TIMEOUT);
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
        let mut limits = tinymcp::Limits::default();
        limits.client.probe_timeout = Duration::from_secs(600);
        limits.client.child_exit = Duration::from_millis(100);
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
                Err(_) => assert!(began.elapsed() < TIMEOUT, "it never started"),
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

/// The hub detects the end of a connection after its calls have failed. In this test it never does.
#[test]
fn a_server_whose_connection_has_ended_is_not_running() {
    let hub = Hub::builder("host", "1.0.0").build().unwrap();
    let (send, handles) = mpsc::channel();
    let send = Mutex::new(send);
    let upstream = Upstream::from_fn(move |client| {
        let (theirs, ours) = memory_links();
        let mut server = Server::new("one", "1.0.0");
        server.tool(Tool::new("t"), |_, ()| Ok("")).unwrap();
        send.lock().unwrap().send(server.handle()).unwrap();
        std::thread::spawn(move || server.serve(theirs));
        client.on_end(|_| ()).over(ours)
    });
    hub.add("one", upstream).unwrap();
    let client = hub.client("one").unwrap();
    assert!(matches!(hub.servers()[0].state, ServerState::Running(_)));
    handles.recv().unwrap().stop();
    let until = Instant::now() + TIMEOUT;
    while client.call_tool("t", ()).is_ok() {
        assert!(Instant::now() < until);
    }
    let status = hub.servers().remove(0);
    let ServerState::Down { kind, why, again, .. } = status.state else { panic!("{status:?}") };
    assert!(kind == ErrorKind::Closed && again && status.last_error == Some(why), "{kind:?}");
}
