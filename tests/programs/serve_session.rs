//! A running `tinymcp serve` and a client of it, for the tests of `serve`.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tinymcp::{Body, Change, Client, ClientBuilder, Limits, Link, Protocol, ReadOutput};

/// Nothing takes longer unless something is broken.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) const ERAS: [Protocol; 2] = [Protocol::Session, Protocol::Stateless];

/// A new folder of one test.
pub(crate) fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("serve").join(name);
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    path
}

/// Writes a file as editors do: readers see the old or the new text.
pub(crate) fn write(path: &Path, text: &str) {
    let new = path.with_extension("new");
    fs::write(&new, text).unwrap();
    fs::rename(new, path).unwrap();
}

/// Runs `tinymcp serve` to its end: exit status, standard output, standard error.
pub(crate) fn run(args: &[&str], folder: &Path) -> (i32, String, String) {
    let output = program(args, folder).stdin(Stdio::null()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn program(args: &[&str], folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tinymcp"));
    command.arg("serve").args(args).current_dir(folder);
    command
}

/// A server, which is killed at the end of the test.
pub(crate) struct Process {
    child: Child,
    stderr: Receiver<String>,
}

impl Process {
    /// Starts a server that serves over HTTP, or over pipes that are returned.
    pub(crate) fn start(args: &[&str], folder: &Path) -> Process {
        Process::spawn(program(args, folder))
    }

    /// Starts a program that serves.
    pub(crate) fn spawn(mut command: Command) -> Process {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (sender, stderr) = mpsc::channel();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Process { child, stderr }
    }

    /// Waits for a line on standard error that contains this text.
    pub(crate) fn reported(&self, text: &str) -> String {
        let [line] = self.reported_all([text]);
        line
    }

    /// Waits for a line with each of these texts, in any order.
    pub(crate) fn reported_all<const N: usize>(&self, texts: [&str; N]) -> [String; N] {
        let (mut lines, mut found) = (Vec::new(), [const { String::new() }; N]);
        let until = Instant::now() + TIMEOUT;
        while let Some(missing) = found.iter().position(String::is_empty) {
            match self.stderr.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) => match texts.iter().position(|text| line.contains(text)) {
                    Some(at) => found[at] = line,
                    None => lines.push(line),
                },
                Err(_) => panic!("{:?} was not reported, but {lines:#?}", texts[missing]),
            }
        }
        found
    }

    /// Lines on standard error that have arrived and were not read.
    #[cfg(all(feature = "http-server", feature = "http-client"))]
    pub(crate) fn rest(&self) -> String {
        self.stderr.try_iter().collect()
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn hang_up(&self) {
        self.signal(Signal::HUP);
    }

    #[cfg(all(target_os = "linux", feature = "proxy"))]
    pub(crate) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    fn signal(&self, signal: Signal) {
        let id = rustix::process::Pid::from_raw(self.id() as i32).unwrap();
        rustix::process::kill_process(id, signal).unwrap();
    }

    /// Waits for the end; the exit status.
    pub(crate) fn end(&mut self) -> i32 {
        let until = Instant::now() + TIMEOUT;
        loop {
            match self.stderr.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(_) => {}
                Err(RecvTimeoutError::Disconnected) => return self.child.wait().unwrap().code().unwrap(),
                Err(RecvTimeoutError::Timeout) => panic!("the server does not end"),
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server over pipes, and its client.
pub(crate) struct Session {
    pub(crate) client: Client,
    pub(crate) process: Process,
    changes: Receiver<Change>,
}

impl Session {
    pub(crate) fn start(era: Protocol, args: &[&str], folder: &Path) -> Session {
        Session::with(|client| client, era, args, folder)
    }

    /// Starts a server, and a client with these handlers.
    pub(crate) fn with(
        handlers: impl FnOnce(ClientBuilder) -> ClientBuilder,
        era: Protocol,
        args: &[&str],
        folder: &Path,
    ) -> Session {
        Session::over(handlers, era, Process::start(args, folder))
    }

    /// A client of a program that serves over its pipes.
    pub(crate) fn over(
        handlers: impl FnOnce(ClientBuilder) -> ClientBuilder,
        protocol: Protocol,
        mut process: Process,
    ) -> Session {
        let (sender, changes) = mpsc::channel();
        let (read, write) = (process.child.stdout.take().unwrap(), process.child.stdin.take().unwrap());
        let client = handlers(Client::builder("test", "0").protocol(protocol))
            .on_change(move |change| drop(sender.send(change.clone())))
            .over(Link::lines(read, write, &Limits::default()))
            .unwrap_or_else(|error| panic!("{error}"));
        Session { client, process, changes }
    }

    /// Waits for this notification; others are dropped.
    pub(crate) fn changed(&self, change: &Change) {
        let until = Instant::now() + TIMEOUT;
        loop {
            match self.changes.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(other) if other == *change => return,
                Ok(_) => {}
                Err(_) => panic!("{change:?} does not arrive"),
            }
        }
    }

    /// Text of a resource.
    pub(crate) fn text(&self, uri: &str) -> String {
        text(&self.client.request_read(uri).bypass_cache().wait().unwrap())
    }

    /// URIs of all resources.
    pub(crate) fn uris(&self) -> Vec<String> {
        self.client
            .request_resources(None)
            .bypass_cache()
            .wait()
            .unwrap()
            .entries
            .into_iter()
            .map(|r| r.uri)
            .collect()
    }

    /// Names of all tools.
    pub(crate) fn tools(&self) -> Vec<String> {
        self.client
            .request_tools(None)
            .bypass_cache()
            .wait()
            .unwrap()
            .entries
            .into_iter()
            .map(|t| t.name)
            .collect()
    }
}

/// Text of the only contents.
pub(crate) fn text(output: &ReadOutput) -> String {
    match &output.contents[0].body {
        Body::Text(text) => text.clone(),
        other => panic!("{other:?}"),
    }
}
