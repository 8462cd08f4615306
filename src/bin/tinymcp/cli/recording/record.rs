//! Command `record`: a program between a client and a server, which writes each frame to a file.
//!
//! The lines pass unchanged.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;

use super::super::args::Args;
use super::super::failure::{Failure, Result, UNREACHABLE};
use super::super::{MAX_BYTES, connect};
use super::{Direction, Recorder};
use crate::mask::{Mask, parts};

/// What a shell adds to the number of the signal that ended a program.
const SIGNALLED: i32 = 128;

/// Runs the command. Returns the exit status of the server.
pub(crate) fn run(args: &Args, words: &[&str]) -> Result<u8> {
    let [file] = words else {
        return Err("expected one file; see `tinymcp help record`".into());
    };
    let mut command = command(args)?;
    let secrets = args.server.headers.iter().chain(&args.server.env).flat_map(|(_, value)| parts(value));
    let recorder = Arc::new(Recorder::create(Path::new(file), Mask::new(secrets.collect()))?);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| {
        Failure::new(UNREACHABLE, format!("{}: cannot start the program: {error}", connect::name(args)))
    })?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let recording = Arc::clone(&recorder);
    // This thread may wait for a client that never closes; it ends with the process.
    thread::spawn(move || {
        if let Some(to) = stdin {
            pass(&mut io::stdin().lock(), to, &recording, Direction::ClientToServer);
        }
    });
    let recording = Arc::clone(&recorder);
    let diagnostics = thread::spawn(move || {
        if let Some(from) = stderr {
            pass(&mut BufReader::new(from), io::stderr(), &recording, Direction::Diagnostics);
        }
    });
    if let Some(from) = stdout {
        pass(&mut BufReader::new(from), io::stdout(), &recorder, Direction::ServerToClient);
    }
    let status = child.wait().map_err(|e| e.to_string())?;
    // OK to drop: the thread does not panic.
    let _ = diagnostics.join();
    Ok(status.code().or_else(|| Some(SIGNALLED + signal(status)?)).map_or(1, |code| code.to_le_bytes()[0]))
}

fn signal(status: std::process::ExitStatus) -> Option<i32> {
    std::os::unix::process::ExitStatusExt::signal(&status)
}

/// Returns the server's command: the program, or a proxy to its URL.
pub(crate) fn command(args: &Args) -> Result<Command> {
    let server = &args.server;
    match (&server.command, &server.url) {
        (Some(words), None) => connect::command(args, words),
        (None, Some(url)) => {
            let program = std::env::current_exe().map_err(|e| format!("the own program: {e}"))?;
            let mut command = Command::new(program);
            command.args(["proxy", "--url", url]);
            for (name, value) in &server.headers {
                command.arg("--header").arg(OsString::from(format!("{name}:{value}")));
            }
            Ok(command)
        }
        _ => Err("expected a server: either --url URL or -- COMMAND [ARG…]".into()),
    }
}

/// Passes lines on until the end of one side.
fn pass(from: &mut dyn BufRead, mut to: impl Write, recorder: &Recorder, direction: Direction) {
    let mut line = Vec::new();
    loop {
        line.clear();
        match from.take(MAX_BYTES).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        // First, so that no response is recorded before its request.
        recorder.write(direction, &line);
        if to.write_all(&line).and_then(|()| to.flush()).is_err() {
            return;
        }
    }
}
