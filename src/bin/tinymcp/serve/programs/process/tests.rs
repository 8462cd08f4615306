//! Tests of processes with programs for `/bin/sh`.

#![allow(clippy::unwrap_used)]
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use super::super::output::Rules;
use super::*;
use crate::serve::definition::Output;

/// A caller that records progress and is cancelled by a test.
#[derive(Default)]
pub(in crate::serve) struct Recorder {
    pub(in crate::serve) cancelled: Arc<AtomicBool>,
    /// Cancelled when this file exists.
    pub(in crate::serve) cancel_file: Option<std::path::PathBuf>,
    pub(in crate::serve) messages: Vec<(f64, String)>,
}

impl Caller for Recorder {
    fn cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed) || self.cancel_file.as_ref().is_some_and(|file| file.exists())
    }

    fn progress(&mut self, done: f64, _: Option<f64>, message: Option<&str>) {
        self.messages.push((done, message.unwrap_or_default().to_owned()));
    }
}

/// A folder that is removed at the end.
pub(in crate::serve) struct Folder(pub(in crate::serve) std::path::PathBuf);

impl Folder {
    pub(in crate::serve) fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("tinymcp-serve-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(in crate::serve) fn shell(script: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script]);
    command
}

fn invocation(script: &str) -> Invocation {
    let capture = Capture::new(&Output::Text, 1 << 20);
    Invocation { command: shell(script), stdin: None, capture, timeout: Duration::from_secs(60) }
}

fn run_with(caller: &mut Recorder, invocation: Invocation) -> Result<Finished, ToolError> {
    let processes = Arc::default();
    let finished = run(caller, &processes, invocation);
    assert_eq!(processes.count(), 0);
    finished
}

fn text(finished: Result<Finished, ToolError>) -> String {
    let rules = Rules { tool: "t", output: &Output::Text, limit: 1 << 16, rests: None };
    rules.result(finished.unwrap()).texts()
}

fn run_text(script: &str) -> String {
    text(run_with(&mut Recorder::default(), invocation(script)))
}

/// Returns whether the process exists and is not a zombie.
pub(in crate::serve) fn alive(pid: &str) -> bool {
    let pid = pid.trim();
    assert!(!pid.is_empty());
    if Path::new("/proc/self/stat").exists() {
        // A zombie has ended; its new parent reaps it soon.
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
        return !matches!(state, None | Some('Z' | 'X'));
    }
    let state =
        Command::new("/bin/sh").args(["-c", "kill -0 \"$1\"", "sh", pid]).stderr(Stdio::null()).status();
    state.unwrap().success()
}

/// Waits for the end of a process that was killed.
pub(in crate::serve) fn ended(pid: &str) -> bool {
    let deadline = Instant::now() + Duration::from_secs(20);
    while alive(pid) {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}

#[test]
fn output_status_and_input() {
    assert_eq!(run_text("printf 'a  b'; echo note >&2"), "a  b");
    let both = "the program exited with status 3:\nstandard output:\nout\nstandard error:\nbad";
    assert_eq!(run_text("echo out; echo bad >&2; exit 3"), both);
    assert_eq!(run_text("echo out; exit 1"), "the program exited with status 1:\nout");
    assert_eq!(run_text("kill -9 $$"), "the program was killed by signal 9");
    assert_eq!(run_text("cat"), "");
    let echo = Invocation { stdin: Some(b"in".to_vec()), ..invocation("cat; echo .") };
    assert_eq!(text(run_with(&mut Recorder::default(), echo)), "in.\n");
    // An exit while output is in the pipe.
    assert_eq!(run_text("head -c 60000 /dev/zero | tr '\\0' x").len(), 60_000);
}

#[test]
fn large_input_and_output_do_not_block() {
    let input = vec![b'x'; 10 << 20];
    let unread = Invocation { stdin: Some(input.clone()), ..invocation("echo done") };
    assert_eq!(text(run_with(&mut Recorder::default(), unread)), "done\n");
    let closed = Invocation { stdin: Some(input.clone()), ..invocation("exec <&-; echo done") };
    assert_eq!(text(run_with(&mut Recorder::default(), closed)), "done\n");
    let both = Invocation { stdin: Some(input), ..invocation("cat; cat /dev/zero | head -c 1000000 >&2") };
    let finished = run_with(&mut Recorder::default(), both).unwrap();
    assert!(finished.status.unwrap().success());
    let result = Rules { tool: "t", output: &Output::Text, limit: 10, rests: None }.result(finished);
    assert_eq!(result.texts(), format!("xxxxxxxxxx\n[cut: {} more bytes]", (10 << 20) - 10));
}

#[test]
fn timeouts_kill_the_group() {
    let folder = Folder::new("timeout");
    let pids = folder.0.join("pids");
    let script = format!("sleep 1000 & echo $! $$ > {}; echo before; wait", pids.display());
    let slow = Invocation { timeout: Duration::from_secs(1), ..invocation(&script) };
    let answer = text(run_with(&mut Recorder::default(), slow));
    assert_eq!(answer, "the program did not end within 1 s and was killed:\nbefore");
    for pid in fs::read_to_string(pids).unwrap().split_whitespace() {
        assert!(ended(pid));
    }
}

#[test]
fn ignored_sigterm_is_followed_by_sigkill() {
    let script = "trap '' TERM; echo ready; while :; do sleep 1000; done";
    let slow = Invocation { timeout: Duration::from_millis(100), ..invocation(script) };
    let started = Instant::now();
    let answer = text(run_with(&mut Recorder::default(), slow));
    assert!(answer.starts_with("the program did not end within 0.1 s"), "{answer}");
    assert!(started.elapsed() >= TERM);
}

#[test]
fn cancellation_ends_endless_output() {
    let folder = Folder::new("cancel");
    let file = folder.0.join("started");
    let script = format!("exec 2>&-; echo > {}; while :; do echo xxxxxxxxxxxxxxxx; done", file.display());
    let mut caller = Recorder { cancel_file: Some(file), ..Recorder::default() };
    let error = run_with(&mut caller, invocation(&script)).err().unwrap();
    assert!(format!("{error:?}").contains("cancelled"));
}

#[test]
fn children_that_hold_the_output_do_not_prolong_a_call() {
    let started = Instant::now();
    let answer = run_text("(trap '' HUP TERM; sleep 1000) & echo $!");
    assert!(started.elapsed() < Duration::from_secs(30));
    assert!(ended(&answer));
    // The program closes its output and runs on.
    assert_eq!(run_text("echo a; exec >&- 2>&-; sleep 0.1; exit 4"), "the program exited with status 4:\na");
}

#[cfg(target_os = "linux")]
#[test]
fn processes_of_other_sessions_are_killed() {
    if fs::read_to_string("/proc/thread-self/children").is_err() {
        return;
    }
    let folder = Folder::new("session");
    let file = folder.0.join("pid");
    let script =
        format!("setsid sh -c 'echo $$ > {0}.new; mv {0}.new {0}; exec sleep 1000' &", file.display());
    let script = format!("{script}\nwhile [ ! -e {} ]; do :; done", file.display());
    run_text(&script);
    assert!(ended(&fs::read_to_string(&file).unwrap()));
    // The same with a double fork, and without the variable of the call.
    let daemon = format!("(env -i /bin/sh -c 'echo $$ > {0}.b; exec sleep 1000' &)", file.display());
    run_text(&format!("{daemon}\nwhile [ ! -s {}.b ]; do :; done", file.display()));
    let pid = fs::read_to_string(format!("{}.b", file.display())).unwrap();
    // Tests that run meanwhile may own it; the end of the last of them kills it.
    while alive(&pid) {
        run_text(":");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_stopped_server_leaves_no_process_of_another_session() {
    if fs::read_to_string("/proc/thread-self/children").is_err() {
        return;
    }
    let folder = Folder::new("stop-session");
    let file = folder.0.join("pid");
    let script =
        format!("setsid sh -c 'echo $$ > {0}.new; mv {0}.new {0}; exec sleep 1000' & wait", file.display());
    let processes = Arc::<Processes>::default();
    let stopper = Arc::clone(&processes);
    let thread = std::thread::spawn(move || {
        while !file.exists() {
            std::thread::yield_now();
        }
        stopper.stop();
        assert!(ended(&fs::read_to_string(&file).unwrap()));
    });
    assert!(text(run(&mut Recorder::default(), &processes, invocation(&script))).contains("signal 9"));
    thread.join().unwrap();
}

#[test]
fn start_errors_are_clear() {
    // The emulator copies the memory that posix_spawn shares with the child, so the parent does not
    // see the errors of the start.
    if std::env::var_os("TEST_EMULATED").is_some() {
        return;
    }
    let error = |command: Command| {
        let call = Invocation { command, ..invocation("") };
        format!("{:?}", run_with(&mut Recorder::default(), call).err().unwrap())
    };
    assert!(error(Command::new("/nonexistent/p")).contains(r#"\"/nonexistent/p\": not found"#));
    assert!(error(Command::new("/etc/passwd")).contains("not executable"));
    let mut command = shell(":");
    command.current_dir("/nonexistent");
    assert!(error(command).contains("`cwd` does not exist"));
    let reason = start_error(&shell(":"), &Errno::NOEXEC.into());
    assert!(
        reason.contains("\"/bin/sh\": not a program for this system, and it has no `#!` line"),
        "{reason}"
    );
    let mut command = shell(":");
    command.arg("a\0b");
    assert!(error(command).contains("NUL"));
    let mut command = shell(":");
    command.arg("sh").arg("x".repeat(4 << 20));
    let message = error(command);
    assert!(message.contains("4194304"), "{message}");
    let mut command = shell(":");
    command.args(vec!["x".repeat(100_000); 100]);
    let message = error(command);
    assert!(message.contains("the arguments have 10000"), "{message}");
}

#[test]
fn a_stopped_server_starts_no_program() {
    let processes = Arc::<Processes>::default();
    processes.stop();
    let error = run(&mut Recorder::default(), &processes, invocation("sleep 1000")).err().unwrap();
    assert!(format!("{error:?}").contains("shuts down"));
    // A running program is killed.
    let processes = Arc::<Processes>::default();
    let stopper = Arc::clone(&processes);
    let thread = std::thread::spawn(move || {
        while stopper.count() == 0 {
            std::thread::yield_now();
        }
        stopper.stop();
        assert_eq!(stopper.count(), 0);
    });
    let answer = text(run(&mut Recorder::default(), &processes, invocation("sleep 1000")));
    assert_eq!(answer, "the program was killed by signal 9");
    thread.join().unwrap();
}

/// Runs alone in a process of its own, since other tests open descriptors.
#[cfg(target_os = "linux")]
#[test]
fn calls_leak_nothing() {
    const ALONE: &str = "TINYMCP_TEST_ALONE";
    if std::env::var_os(ALONE).is_none() {
        let name = "serve::programs::process::tests::calls_leak_nothing";
        let mut command = Command::new(std::env::current_exe().unwrap());
        let status =
            command.args(["--exact", name, "--test-threads=1"]).env(ALONE, "1").stdout(Stdio::null());
        assert!(status.status().unwrap().success());
        return;
    }
    let count = |path: &str| fs::read_dir(path).unwrap().count();
    run_text(":");
    let before = (count("/proc/self/fd"), count("/proc/self/task"));
    for call in 0..1000 {
        let script = ["echo", "cat <&- &", "exit 1", "sleep 1000 &", "setsid sleep 1000 &"][call % 5];
        let call = Invocation { stdin: (call % 2 == 0).then(|| b"x".to_vec()), ..invocation(script) };
        run_with(&mut Recorder::default(), call).unwrap();
    }
    run_text(":");
    assert_eq!((count("/proc/self/fd"), count("/proc/self/task")), before);
    let children = fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
    assert_eq!(children, "");
    let children = fs::read_to_string(format!("/proc/self/task/{}/children", std::process::id()));
    assert_eq!(children.unwrap_or_default(), "");
}
