//! Server in a separate process, and its parent's end of the connection.
//!
//! The process is this program with [`ROLE`] set. Its tools misbehave in ways that need a process:
//! they print, start children, never return, or stop the server.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{ChildStdin, ChildStdout, Command, ExitCode, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tinymcp::json::Json;
use tinymcp::{
    Argument, Completion, Context, Field, Form, Prompt, PromptOutput, Resource, ResourceContents, Server,
    Tool, ToolError,
};

use super::wire::{Peer, TIMEOUT};

/// Variable with the name of the server to run.
pub const ROLE: &str = "TEST_HOSTILE_ROLE";

/// Role of a process that starts a server with its own streams and waits for it, and variable with
/// the role of that server.
pub const MIDDLE: &str = "TEST_HOSTILE_MIDDLE";

/// Tool that accepts any arguments.
pub fn any(name: &str) -> Tool {
    Tool::new(name).input_schema(Json::constant(r#"{"type":"object"}"#))
}

/// Returns its arguments as text.
pub fn echo(_: &mut Context<'_>, arguments: Json) -> Result<String, ToolError> {
    Ok(arguments.as_str().to_owned())
}

/// Server with the tool `echo` only.
pub fn plain() -> Server {
    let mut server = Server::new("hostile", "1");
    server.tool(any("echo"), echo).unwrap();
    server
}

/// Blocks for ever. Reports progress first if the request has a token.
pub fn never(ctx: &mut Context<'_>, _: Json) -> Result<String, ToolError> {
    ctx.progress(1.0, None, None);
    loop {
        thread::park();
    }
}

/// Requests an elicitation and returns its action.
pub fn ask(ctx: &mut Context<'_>, _: Json) -> Result<String, ToolError> {
    let response = ctx.elicit("go", Form::new("Go on?").field(Field::boolean("yes")))?;
    Ok(format!("{:?}", response.action()))
}

/// Prints by every means that a handler has, including a child process.
fn print(_: &mut Context<'_>, _: Json) -> Result<String, ToolError> {
    println!("a stray line");
    print!("and a partial one");
    std::io::stdout().flush()?;
    let status = Command::new("sh").args(["-c", "echo a line of a child; cat"]).status()?;
    Ok(format!("printed, the child returned {status}"))
}

/// Starts a child process, does not wait for it, and returns its process id.
fn orphan(_: &mut Context<'_>, _: Json) -> Result<String, ToolError> {
    Ok(Command::new("sleep").arg("60").spawn()?.id().to_string())
}

/// Returns a text of this many bytes.
fn fill(_: &mut Context<'_>, arguments: Json) -> Result<String, ToolError> {
    let bytes = arguments.to_doc().root().get("bytes").and_then(|v| v.as_u64()).unwrap_or(0);
    Ok("x".repeat(bytes as usize))
}

/// Counts the bytes of its arguments.
fn count(_: &mut Context<'_>, arguments: Json) -> Result<String, ToolError> {
    Ok(arguments.as_str().len().to_string())
}

/// Sends SIGTERM to its own process as soon as the server is stopping.
fn term(ctx: &mut Context<'_>, _: Json) -> Result<&'static str, ToolError> {
    while !ctx.stopping() {
        ctx.wait(Duration::from_millis(1))?;
    }
    rustix::process::kill_process(rustix::process::getpid(), Signal::TERM)?;
    Ok("")
}

/// Like `count`, with a delay of 500 ms.
fn pause(ctx: &mut Context<'_>, arguments: Json) -> Result<String, ToolError> {
    ctx.wait(Duration::from_millis(500))?;
    count(ctx, arguments)
}

/// Returns the first line of a file of /proc/self that starts with a given word.
fn status(_: &mut Context<'_>, arguments: Json) -> Result<String, ToolError> {
    let doc = arguments.to_doc();
    let text = |name: &str| doc.root().get(name).and_then(|v| v.as_str()).unwrap_or_default().to_owned();
    let file = std::fs::read_to_string(format!("/proc/self/{}", text("file")))?;
    let line = file.lines().find(|line| line.starts_with(&text("line")));
    line.map(str::to_owned).ok_or_else(|| ToolError::new("no such line"))
}

/// Runs the server that `role` names.
pub fn serve(role: &str) -> ExitCode {
    if role == MIDDLE {
        let role = std::env::var_os(MIDDLE).unwrap();
        let mut server = Command::new(std::env::current_exe().unwrap());
        let status = server.env(ROLE, role).env_remove(MIDDLE).status().unwrap();
        return if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let mut server = plain();
    let handle = server.handle();
    let stop = handle.clone();
    server
        .tool(any("never"), never)
        .and_then(|s| s.tool(any("ask"), ask))
        .and_then(|s| s.tool(any("print"), print))
        .and_then(|s| s.tool(any("fill"), fill))
        .and_then(|s| s.tool(any("orphan"), orphan))
        .and_then(|s| s.tool(any("status"), status))
        .and_then(|s| s.tool(any("count"), count))
        .and_then(|s| s.tool(any("pause"), pause))
        .and_then(|s| s.tool(any("term"), term))
        .and_then(|s| {
            s.tool(any("stop"), move |_, _: Json| {
                stop.stop();
                Ok("stopping")
            })
        })
        .and_then(|s| {
            s.inline_tool(any("stop_inline"), move |_, _: Json| {
                handle.stop();
                // Long enough that a server that does not wait for this handler ends before it
                // returns.
                thread::park_timeout(Duration::from_millis(50));
                Ok("stopping")
            })
        })
        .and_then(|s| s.inline_tool(any("echo_inline"), echo))
        .and_then(|s| s.inline_tool(any("never_inline"), never))
        .unwrap();
    server
        .resource(Resource::new("res:text", "text"), |_, uri| Ok(ResourceContents::text(uri, "text")))
        .and_then(|s| {
            s.prompt(Prompt::new("p").argument(Argument::optional("a")), |_, _| {
                Ok(PromptOutput::new().user("p"))
            })
        })
        .and_then(|s| s.complete_prompt("p", "a", |_| Completion::new(["value"])))
        .unwrap();
    server.resource_updates().logging();
    if role != "quiet" {
        server.on_shutdown(|| eprintln!("hook"));
    }
    let result = match role {
        "local" => server.into_local().serve_stdio(),
        _ => server.serve_stdio(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("server: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the command that starts a server of this role. Only these `TINYMCP_` variables are set.
pub fn command(role: &str, variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("TINYMCP_") {
            command.env_remove(name);
        }
    }
    command.env(ROLE, role).envs(variables.iter().copied());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A running server process. Dropping it kills the process.
pub struct Process {
    pub input: Option<ChildStdin>,
    /// The output of the server, until [`Process::read`] takes it.
    pub output: Option<ChildStdout>,
    lines: Option<Receiver<String>>,
    ended: Receiver<ExitStatus>,
    errors: Receiver<String>,
    /// Used instead of `input` and `output`.
    socket: Option<UnixStream>,
    pid: u32,
    alive: bool,
}

impl Process {
    /// Starts a server of this role and reads its output.
    pub fn start(role: &str, variables: &[(&str, &str)]) -> Process {
        let mut process = Process::spawn(&mut command(role, variables));
        process.read();
        process
    }

    /// Starts a server and opens a session.
    pub fn open(role: &str, variables: &[(&str, &str)]) -> Process {
        let process = Process::start(role, variables);
        process.open_session("2025-11-25");
        process
    }

    /// Starts a server without reading its output.
    pub fn spawn(command: &mut Command) -> Process {
        let mut child = command.spawn().expect("cannot start the server");
        let (input, output, mut stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (tell_end, ended) = mpsc::channel();
        let (tell_errors, errors) = mpsc::channel();
        let pid = child.id();
        thread::spawn(move || {
            let mut text = String::new();
            if let Some(stderr) = &mut stderr {
                // Children of the server may hold the write end, so an error keeps the bytes read
                // so far.
                let _ = stderr.read_to_string(&mut text);
            }
            tell_errors.send(text)
        });
        thread::spawn(move || tell_end.send(child.wait().expect("cannot wait for the child")));
        Process { input, output, lines: None, ended, errors, socket: None, pid, alive: true }
    }

    /// Starts to read the output of the server.
    pub fn read(&mut self) {
        let output = self.output.take().expect("the output is already being read");
        self.listen(output);
    }

    fn listen(&mut self, output: impl Read + Send + 'static) {
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines() {
                let Ok(line) = line else { break };
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        self.lines = Some(lines);
    }

    /// Uses this socket for input and output.
    pub fn adopt(&mut self, socket: UnixStream) {
        self.input = None;
        self.socket = Some(socket.try_clone().unwrap());
        self.listen(socket);
    }

    /// True until the process has ended.
    pub fn is_running(&self) -> bool {
        std::fs::read_to_string(format!("/proc/{}/stat", self.pid))
            .is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or_default().starts_with(" Z"))
    }

    /// Sends a signal to the process.
    pub fn signal(&self, signal: Signal) {
        send_signal(self.pid, signal);
    }

    /// Waits until the process has ended.
    pub fn wait(&mut self) -> ExitStatus {
        let status = self.ended.recv_timeout(TIMEOUT).expect("the process does not end");
        self.alive = false;
        status
    }

    /// Closes the input, waits until the process has ended successfully, and returns the unread
    /// messages.
    pub fn end(mut self) -> Vec<Value> {
        self.input = None;
        let status = self.wait();
        assert!(status.success(), "{status}: {}", self.errors());
        self.rest()
    }

    /// Returns the unread messages of the ended process.
    pub fn rest(&self) -> Vec<Value> {
        let lines = self.lines.as_ref().unwrap();
        lines.iter().map(|l| serde_json::from_str(&l).unwrap_or_else(|e| panic!("{e}: {l}"))).collect()
    }

    /// Returns the standard error of the ended process.
    pub fn errors(&self) -> String {
        self.errors.recv_timeout(TIMEOUT).expect("standard error is still open")
    }

    /// Peak resident memory of the process, in KiB.
    pub fn peak(&self) -> u64 {
        self.memory("VmHWM:")
    }

    /// Current resident memory of the process, in KiB.
    pub fn resident(&self) -> u64 {
        self.memory("VmRSS:")
    }

    /// Voluntary context switches of the threads of the process.
    pub fn switches(&self) -> u64 {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.pid)).expect("it lives");
        let threads = threads.map(|thread| thread.unwrap().path().join("status"));
        // A worker may end meanwhile.
        let status = threads.filter_map(|status| std::fs::read_to_string(status).ok());
        status.map(|status| number(&status, "voluntary_ctxt_switches:")).sum()
    }

    fn memory(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid)).expect("it lives");
        number(&status, name)
    }
}

/// The number in a line of a status file.
fn number(status: &str, name: &str) -> u64 {
    let line = status.lines().find(|l| l.starts_with(name)).expect("a line of Linux");
    line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("no number")
}

/// Sends a signal to any process.
pub fn send_signal(pid: u32, signal: Signal) {
    // The process may have ended already; the test checks the result.
    let _ = kill_process(Pid::from_raw(pid as i32).unwrap(), signal);
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.alive {
            self.signal(Signal::KILL);
        }
    }
}

impl Peer for Process {
    fn send(&self, bytes: impl AsRef<[u8]>) {
        // The server may have ended already; the test checks the result.
        let bytes = bytes.as_ref();
        let _ = match &self.socket {
            Some(socket) => (&mut &*socket).write_all(bytes),
            None => self.input.as_ref().unwrap().write_all(bytes),
        };
    }

    fn line(&self, timeout: Duration) -> Option<String> {
        self.lines.as_ref().unwrap().recv_timeout(timeout).ok()
    }
}
