//! Option `--sampler`: a program that answers sampling requests.
//!
//! The program gets the request as JSON on its standard input. Its standard output is the message
//! of the model: text, or a result of the protocol as JSON. Its time and its output are bounded.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
#[cfg(unix)]
use std::sync::Mutex;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

#[cfg(unix)]
use rustix::process::{Pid, Signal, kill_process_group};
use tinymcp::json::Json;
use tinymcp::{Refusal, SampleResponse, Sampling};

use super::forms::refusal;
#[cfg(unix)]
use crate::mutex::lock;

/// Maximum time for the answer.
const TIMEOUT: Duration = Duration::from_secs(120);
/// Longest answer, in bytes.
const MAX_BYTES: u64 = 4 << 20;
/// Name of the model of an answer that is text.
const MODEL: &str = "sampler";

/// Runs the program.
pub(super) fn answer(command: &[String], request: &Sampling) -> Result<SampleResponse, Refusal> {
    let text = output(command, request.to_json().as_str().into())
        .map_err(|why| refusal(format!("--sampler {}: {why}", command.first().map_or("", String::as_str))))?;
    let text = text.trim_end();
    match Json::parse(text.to_owned()).ok().and_then(|result| SampleResponse::from_json(&result)) {
        Some(response) => Ok(response),
        None => Ok(SampleResponse::new(MODEL).text(text).stop_reason("endTurn")),
    }
}

/// Returns the standard output of the program.
fn output(words: &[String], input: Vec<u8>) -> Result<String, String> {
    let (program, rest) = words.split_first().ok_or("expected a command")?;
    let mut command = Command::new(program);
    command.args(rest).stdin(Stdio::piped()).stdout(Stdio::piped());
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    #[cfg(unix)]
    let (mut child, _running) = start(&mut command)?;
    #[cfg(not(unix))]
    let mut child = command.spawn().map_err(unstartable)?;
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    // The threads end when the program and the processes that it started have closed the pipes.
    thread::spawn(move || {
        // OK to drop: a program need not read its input.
        stdin.map(|mut stdin| stdin.write_all(&input))
    });
    let (sender, answer) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = stdout.map(|stdout| stdout.take(MAX_BYTES + 1).read_to_end(&mut bytes));
        // OK to drop: the receiver has stopped waiting.
        let _ = sender.send(read.transpose().map(|_| bytes));
    });
    let answer = answer.recv_timeout(TIMEOUT);
    let bytes = match answer {
        Ok(Ok(bytes)) if bytes.len() as u64 <= MAX_BYTES => bytes,
        Ok(Ok(_)) => return Err(ended(child, &format!("its output is longer than {MAX_BYTES} bytes"))),
        Ok(Err(error)) => return Err(ended(child, &error.to_string())),
        Err(_) => return Err(ended(child, &format!("no answer within {TIMEOUT:?}"))),
    };
    let status = child.wait().map_err(|e| e.to_string())?;
    match String::from_utf8(bytes) {
        _ if !status.success() => Err(format!("the program ended with {status}")),
        Ok(text) if text.trim().is_empty() => Err("the program printed nothing".to_owned()),
        Ok(text) => Ok(text),
        Err(_) => Err("its output is not UTF-8".to_owned()),
    }
}

/// Kills the program and its group. Returns the reason.
fn ended(mut child: Child, why: &str) -> String {
    #[cfg(unix)]
    kill(&child.id());
    // OK to drop: it may have ended.
    let _ = child.kill();
    let _ = child.wait();
    why.to_owned()
}

fn unstartable(error: std::io::Error) -> String {
    format!("cannot start the program: {error}")
}

/// Process groups of programs that run; `None` when no further program may start.
///
/// The lock is held while a program starts: it is either in the list that [`end`] sees, or it does
/// not start.
#[cfg(unix)]
static GROUPS: Mutex<Option<Vec<u32>>> = Mutex::new(Some(Vec::new()));

#[cfg(unix)]
fn start(command: &mut Command) -> Result<(Child, Running), String> {
    let mut groups = lock(&GROUPS);
    let groups = groups.as_mut().ok_or("the call was interrupted")?;
    let child = command.spawn().map_err(unstartable)?;
    groups.push(child.id());
    let running = Running(child.id());
    Ok((child, running))
}

/// A program that runs.
#[cfg(unix)]
struct Running(u32);

#[cfg(unix)]
impl Drop for Running {
    fn drop(&mut self) {
        lock(&GROUPS).iter_mut().for_each(|groups| groups.retain(|group| *group != self.0));
    }
}

/// Kills the running programs when this process ends, because each has its own process group.
#[cfg(unix)]
pub(crate) fn end() {
    lock(&GROUPS).take().iter().flatten().for_each(kill);
}

#[cfg(unix)]
fn kill(group: &u32) {
    if let Some(group) = i32::try_from(*group).ok().and_then(Pid::from_raw) {
        // OK to drop: it may have ended.
        let _ = kill_process_group(group, Signal::KILL);
    }
}
