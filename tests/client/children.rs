//! Child processes: start, output, end, and no remains.

use std::io::Write;
use std::process::Command;
use std::time::{Duration, Instant};

use tinymcp::{Client, ClientBuilder, ErrorKind, Limits, Protocol, Stderr, json};

use super::scripted::{TIMEOUT, plain};

/// A server in a few lines of shell.
pub(crate) fn shell(script: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(script);
    command
}

/// Responds to the opening of a session, then continues with `then`.
pub(crate) fn session(then: &str) -> Command {
    shell(&format!(
        r#"read -r open
id=${{open#*'"id":'}}; id=${{id%%,*}}
printf '%s\n' '{{"jsonrpc":"2.0","id":'"$id"',"result":{{"protocolVersion":"2025-11-25","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"sh","version":"1"}}}}}}'
read -r ready
{then}"#
    ))
}

pub(crate) fn legacy() -> ClientBuilder {
    plain().protocol(Protocol::Session)
}

/// Limits with short times.
fn impatient() -> Limits {
    let mut limits = Limits::default();
    limits.client.child_exit = Duration::from_millis(100);
    limits
}

pub(crate) fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Threads of clients in this process.
pub(crate) fn threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|t| std::fs::read_to_string(t.ok()?.path().join("comm")).ok());
    names.filter(|name| name.starts_with("mcp-")).count()
}

/// Returns whether a process with this id exists, zombies included.
fn is_there(pid: u32) -> bool {
    std::path::Path::new(&format!("/proc/{pid}")).exists()
}

fn pid_reported_by(client: &Client) -> u32 {
    client.server().name.parse().expect("the server is called by its number")
}

/// A server that reports its process id as its name.
pub(crate) fn numbered(then: &str) -> Command {
    shell(&format!(
        r#"read -r open
id=${{open#*'"id":'}}; id=${{id%%,*}}
printf '%s\n' '{{"jsonrpc":"2.0","id":'"$id"',"result":{{"protocolVersion":"2025-11-25","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"'"$$"'","version":"1"}}}}}}'
read -r ready
{then}"#
    ))
}

#[test]
fn a_missing_program_is_an_error_at_once() {
    let error = plain().spawn(Command::new("/no/such/program")).unwrap_err();
    // The emulator copies the memory that posix_spawn shares with the child, so the parent does not see the
    // failure: there, the program starts and ends.
    let emulated = std::env::var_os("TEST_EMULATED").is_some();
    assert_eq!(error.kind(), if emulated { ErrorKind::Closed } else { ErrorKind::Io });
}

/// Starts a server that ends with `end`. Returns the error and the number of starts.
fn starts(name: &str, end: &str) -> (String, usize) {
    let log = std::env::temp_dir().join(format!("tinymcp-starts-{}-{name}", std::process::id()));
    let script = format!("echo started >>'{}'; {end}", log.display());
    let error = plain().stderr(Stderr::Piped).spawn(shell(&script)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
    let started = std::fs::read_to_string(&log).unwrap().lines().count();
    std::fs::remove_file(&log).unwrap();
    (error.to_string(), started)
}

#[test]
fn a_server_that_exits_early_is_reported_with_its_stderr_and_started_once() {
    let (text, started) = starts("unasked", "echo 'cannot find the board' >&2; exit 3");
    assert!(text.contains("status 3") && text.contains("cannot find the board"), "{text}");
    assert_eq!(started, 1, "{text}");
}

#[test]
fn a_server_that_exits_at_every_request_is_started_twice_and_reported() {
    let (text, started) = starts("asked", "read -r question; echo 'no such board' >&2; exit 4");
    assert!(text.contains("started again") && text.contains("status 4"), "{text}");
    assert!(text.contains("no such board"), "{text}");
    assert_eq!(started, 2, "{text}");
}

#[test]
fn a_server_that_exits_at_the_probe_gets_initialize() {
    // Ends at any request but the opening of a session.
    let client = plain()
        .spawn(shell(
            r#"read -r open
case "$open" in *'"initialize"'*) ;; *) exit 1;; esac
case "$open" in *io.modelcontextprotocol*) exit 1;; esac
id=${open#*'"id":'}; id=${id%%,*}
printf '%s\n' '{"jsonrpc":"2.0","id":'"$id"',"result":{"protocolVersion":"2024-11-05","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}}'
cat >/dev/null"#,
        ))
        .unwrap();
    assert_eq!((client.protocol(), client.server().revision), (Protocol::Session, "2024-11-05"));
}

#[test]
fn the_end_of_a_server_wakes_all_callers_with_the_reason() {
    let client = legacy().spawn(session("read -r one; read -r two; kill -9 $$")).unwrap();
    let (first, second) = (client.clone(), client.clone());
    let calls = [first, second]
        .map(|client| std::thread::spawn(move || client.call_tool("x", json!({})).unwrap_err()));
    for call in calls {
        let error = call.join().unwrap();
        assert_eq!(error.kind(), ErrorKind::Closed);
        assert!(error.to_string().contains("signal 9"), "{error}");
    }
    assert_eq!(client.call_tool("x", json!({})).unwrap_err().kind(), ErrorKind::Closed, "and for ever");
    assert_eq!(client.in_flight(), 0);
}

/// Ends the process that wrote its id to this file.
fn end_holder(log: &std::path::Path) {
    let number = std::fs::read_to_string(log).unwrap();
    std::fs::remove_file(log).unwrap();
    // The process may have ended by itself, like the noisy server whose output is not read.
    let _ = Command::new("kill").args(["-9", number.trim()]).stderr(std::process::Stdio::null()).status();
}

#[test]
fn processes_that_outlive_a_server_do_not_block_callers() {
    // Its child has its own process group and holds the output open, silent or not.
    for (n, then, answers) in [
        (0, "sleep 600", false),
        (1, "sh -c 'while echo noise; do :; done'", false),
        // A response that was written before the process ended still counts.
        (2, "sleep 600", true),
    ] {
        let log = std::env::temp_dir().join(format!("tinymcp-holder-{}-{n}", std::process::id()));
        let answer = r#"printf '%s\n' '{"jsonrpc":"2.0","id":2,"result":{"content":[]}}'"#;
        let script = format!(
            r#"read -r one; exec 3>&1
{{ setsid sh -c 'echo $$ >"$1"; echo ready; exec {} >&3' - '{}' & }} | read -r ready
{}; echo 'out of memory' >&2; exit 7"#,
            then.replace('\'', "\"").replace('$', "\\$"),
            log.display(),
            if answers { answer } else { ":" },
        );
        let client = legacy().stderr(Stderr::Piped).spawn(session(&script)).unwrap();
        let began = Instant::now();
        let answer = client.request_tool("x", json!({})).timeout(TIMEOUT * 3).wait();
        let last = client.call_tool("x", json!({})).unwrap_err();
        end_holder(&log);
        assert!(began.elapsed() < TIMEOUT, "{then}: {:?}", began.elapsed());
        assert_eq!(answer.is_ok(), answers, "{then}: {answer:?}");
        for error in [Some(last), answer.err()].into_iter().flatten() {
            assert_eq!(error.kind(), ErrorKind::Closed, "{then}: {error}");
            let text = error.to_string();
            assert!(text.contains("status 7") && text.contains("out of memory"), "{then}: {text}");
        }
    }
}

#[test]
fn a_server_exits_by_itself_when_its_input_ends() {
    let client = legacy().spawn(numbered("cat >/dev/null; exit 0")).unwrap();
    let pid = pid_reported_by(&client);
    assert!(is_there(pid));
    client.close();
    assert!(!is_there(pid), "it was reaped");
}

/// Set for the process that runs only [`strays`].
const STRAYS: &str = "TEST_STRAYS";

#[test]
fn a_server_in_another_process_group_is_ended_as_well() {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "children::strays", "--nocapture"]).env(STRAYS, "1");
    let client = legacy().limits(impatient()).spawn(command).unwrap();
    let pid = pid_reported_by(&client);
    assert!(is_there(pid));
    drop(client);
    assert!(!is_there(pid));
}

#[test]
fn strays() {
    use rustix::process::{getpgid, getppid, setpgid};

    if std::env::var_os(STRAYS).is_none() {
        return;
    }
    setpgid(None, Some(getpgid(getppid()).unwrap())).unwrap();
    let mut open = String::new();
    std::io::stdin().read_line(&mut open).unwrap();
    let open: serde_json::Value = serde_json::from_str(&open).unwrap();
    let (id, name) = (&open["id"], std::process::id().to_string());
    let result = serde_json::json!({
        "protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": name, "version": "1"},
    });
    // A new line: the current one has the test's name.
    let answer = serde_json::json!({"jsonrpc": "2.0", "id": id, "result": result});
    writeln!(std::io::stdout(), "\n{answer}").unwrap();
    loop {
        std::thread::park();
    }
}

#[test]
fn a_server_that_does_not_exit_is_ended_with_its_children() {
    for stubborn in [
        // Ends at SIGTERM only; ignores all signals; leaves a child that ignores all signals.
        "while :; do sleep 10 & wait; done",
        "trap '' TERM; while :; do sleep 10; done",
        "sh -c 'trap \"\" TERM; while :; do sleep 10; done' & exec cat >/dev/null",
    ] {
        let client = legacy().limits(impatient()).spawn(numbered(stubborn)).unwrap();
        let pid = pid_reported_by(&client);
        let before = std::time::Instant::now();
        drop(client);
        assert!(before.elapsed() < TIMEOUT, "{stubborn}");
        assert!(!is_there(pid), "{stubborn}");
        assert!(group_is_empty(pid), "{stubborn}");
    }
}

/// Returns whether this process group has no process, except those that are being reaped.
fn group_is_empty(group: u32) -> bool {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let left = std::fs::read_dir("/proc").unwrap().filter_map(|p| {
            let stat = std::fs::read_to_string(p.ok()?.path().join("stat")).ok()?;
            let rest: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
            // State, parent, group.
            (rest[2] == group.to_string() && rest[0] != "Z").then_some(())
        });
        if left.count() == 0 {
            return true;
        }
        if Instant::now() > deadline {
            return false;
        }
        std::thread::yield_now();
    }
}

#[test]
fn stray_output_is_reported_and_skipped_without_a_response() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let client = legacy()
        .on_stray_output(move |line| sender.send(line.to_owned()).unwrap())
        .spawn(session(
            r#"read -r call
id=${call#*'"id":'}; id=${id%%,*}
echo 'Listening on port 80'
echo '{"level":"info"}'
echo
printf '%s\n' '{"jsonrpc":"2.0","id":'"$id"',"result":{"content":[{"type":"text","text":"ok"}]}}'
read -r more && printf '%s' "$more" >&2
cat >/dev/null"#,
        ))
        .unwrap();
    assert_eq!(client.call_tool("x", json!({})).unwrap().texts(), "ok");
    assert_eq!(receiver.recv_timeout(TIMEOUT).unwrap(), "Listening on port 80");
    assert_eq!(receiver.recv_timeout(TIMEOUT).unwrap(), "{\"level\":\"info\"}");
    assert_eq!(client.stats().stray_output, 2);
}

#[test]
fn a_server_that_does_not_read_blocks_no_caller_past_its_deadline() {
    let client = legacy().limits(impatient()).spawn(session("sleep 1000")).unwrap();
    let large = "x".repeat(1 << 20);
    for _ in 0..3 {
        let error = client
            .request_tool("x", json!({"text": large.as_str()}))
            .timeout(Duration::from_millis(50))
            .wait()
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    }
    assert_eq!(client.in_flight(), 0);
}

#[test]
fn a_request_blocked_by_a_full_pipe_arrives_whole_when_the_server_reads() {
    // Reads nothing until the caller has given up, then everything, and responds with the length of each line.
    let fifo = std::env::temp_dir().join(format!("tinymcp-client-{}", std::process::id()));
    let path = fifo.to_str().unwrap();
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    let (sender, receiver) = std::sync::mpsc::channel();
    let client = legacy()
        .on_stray_output(move |line| sender.send(line.to_owned()).unwrap())
        .spawn(session(&format!(
            r#"read -r go <{path}
while read -r line; do echo "${{#line}}"; done"#
        )))
        .unwrap();
    let large = "x".repeat(300_000);
    let call = client.request_tool("x", json!({"text": large.as_str()})).timeout(Duration::from_millis(30));
    assert_eq!(call.wait().unwrap_err().kind(), ErrorKind::Timeout);
    std::fs::write(path, "go\n").unwrap();
    let request: usize = receiver.recv_timeout(TIMEOUT).unwrap().parse().unwrap();
    assert!(request > 300_000, "the whole request, then its cancellation");
    let cancelled: usize = receiver.recv_timeout(TIMEOUT).unwrap().parse().unwrap();
    assert!(cancelled < 200, "{cancelled}");
    client.close();
    std::fs::remove_file(path).unwrap();
}

#[test]
fn only_the_end_of_a_long_stderr_is_kept() {
    let mut limits = impatient();
    limits.client.stderr_bytes = 1000;
    let client = legacy()
        .limits(limits)
        .stderr(Stderr::Piped)
        .spawn(session(
            r#"i=0; while [ $i -lt 3000 ]; do echo "line $i" >&2; i=$((i+1)); done
read -r call; exit 1"#,
        ))
        .unwrap();
    let error = client.call_tool("x", json!({})).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed);
    let kept = client.stderr().unwrap();
    assert!(
        kept.ends_with("line 2999") && kept.len() <= 2000,
        "{} bytes: …{}",
        kept.len(),
        &kept[kept.len() - 20..]
    );
}

#[test]
fn a_server_that_exits_within_a_response_ends_the_call() {
    let client = legacy()
        .spawn(session(
            r#"read -r call
id=${call#*'"id":'}; id=${id%%,*}
printf '%s' '{"jsonrpc":"2.0","id":'"$id"',"result":{"content":[{"type":"te'
exit 4"#,
        ))
        .unwrap();
    let error = client.call_tool("x", json!({})).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed);
    assert!(error.to_string().contains("status 4"), "{error}");
    assert_eq!(client.stats().stray_output, 1, "half a line is not a message");
}

#[test]
fn an_endless_line_ends_the_call_at_its_deadline() {
    let mut limits = impatient();
    limits.frame_bytes = 100_000;
    let client = legacy()
        .limits(limits)
        .spawn(session("read -r call; while :; do printf '%s' xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done"))
        .unwrap();
    let request = client.request_tool("x", json!({})).timeout(Duration::from_millis(300));
    let error = request.wait().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert_eq!(error.to_string(), "no response to tools/call of \"x\" within 300ms");
}
