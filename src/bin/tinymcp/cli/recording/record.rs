//! Command `record`: a program between a client and a server, which writes each frame to a file.
//!
//! Over standard input and output, the lines pass unchanged. Over HTTP, the proxy serves the
//! clients, and the frames are those between the clients and the proxy.

use std::io::{self, BufRead, BufReader, IsTerminal, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;

use super::super::args::Args;
use super::super::failure::{Failure, Result, UNREACHABLE};
use super::super::frames::Frames;
use super::super::{MAX_BYTES, connect};
use super::{Direction, Recorder};
use crate::escape::plain;
use crate::mask::{Mask, parts};
use crate::proxy::recorded;

/// Offset that a shell adds to the signal that ended a program, for the exit status.
const SIGNALLED: i32 = 128;
const ONE_SERVER: &str = "expected a server: either --url URL or -- COMMAND [ARG...]";
/// Text in place of a frame that is longer than the limit.
const TOO_LONG: &[u8] = b"a frame beyond the limit";

/// Runs the command. Returns the exit status of the server.
pub(crate) fn run(args: &Args, words: &[&str]) -> Result<u8> {
    let [file] = words else {
        return Err("expected one file; see `tinymcp help record`".into());
    };
    if let Some(address) = &args.recording.http {
        return over_http(args, Path::new(file), address);
    }
    if let Some(option) = args.recording.settings.set_option() {
        return Err(format!("{option} requires --http").into());
    }
    let mut command = command(args)?;
    let mask = Mask::new(args.server.secrets().flat_map(parts).collect());
    let recorder = Arc::new(Recorder::create(Path::new(file), mask, Frames::new(args, &[]))?);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| {
        Failure::new(UNREACHABLE, format!("{}: cannot start the program: {error}", connect::name(args)))
    })?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let recording = Arc::clone(&recorder);
    // This thread may block on the client's input; it ends with the process.
    thread::spawn(move || {
        if let Some(to) = stdin {
            forward_lines(&mut io::stdin().lock(), to, &recording, Direction::ClientToServer);
        }
    });
    let recording = Arc::clone(&recorder);
    let diagnostics = thread::spawn(move || {
        if let Some(from) = stderr {
            forward_lines(&mut BufReader::new(from), Diagnostics, &recording, Direction::Diagnostics);
        }
    });
    if let Some(from) = stdout {
        forward_lines(&mut BufReader::new(from), io::stdout(), &recorder, Direction::ServerToClient);
    }
    let status = child.wait().map_err(|e| e.to_string())?;
    // OK to drop: the thread does not panic.
    let _ = diagnostics.join();
    Ok(status.code().or_else(|| Some(SIGNALLED + signal(status)?)).map_or(1, |code| code.to_le_bytes()[0]))
}

/// Serves clients over HTTP until a signal arrives.
fn over_http(args: &Args, file: &Path, address: &str) -> Result<u8> {
    let server = &args.server;
    if server.command.is_some() == server.url.is_some() {
        return Err(ONE_SERVER.into());
    }
    let env = server.env.iter().map(|(name, value)| (name.into(), value.into()));
    let options = recorded::Options {
        command: server.command.clone().unwrap_or_default(),
        url: server.url.clone(),
        http: Some(address.to_owned()),
        settings: args.recording.settings.clone(),
        to_url: recorded::ToUrl {
            headers: server.headers.clone(),
            network: server.network.clone().with_variables()?,
        },
        timeout: args.timeout,
        from_aliases: recorded::AliasSettings {
            env: env.collect(),
            cwd: server.cwd.clone(),
            ..recorded::AliasSettings::default()
        },
        ..recorded::Options::default()
    };
    let secrets = recorded::secrets(&options);
    let given = args.server.secrets().chain(secrets.iter().map(String::as_str));
    let mask = Mask::new(given.flat_map(parts).collect());
    let recorder = Recorder::create(file, mask, Frames::new(args, &secrets))?;
    recorded::serve(options, move |frame| {
        let direction = match frame.direction {
            tinymcp::Direction::Received => Direction::ClientToServer,
            tinymcp::Direction::Sent => Direction::ServerToClient,
        };
        // The beginning of a frame is not JSON, and may contain credentials.
        let bytes = if frame.is_whole { frame.bytes } else { TOO_LONG };
        let number = frame.connection.rsplit('-').next().and_then(|number| number.parse().ok());
        recorder.write(direction, number, bytes);
    })?;
    Ok(0)
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
            let program = std::env::current_exe().map_err(|e| format!("cannot find this program: {e}"))?;
            let mut command = Command::new(program);
            // Other users can read the arguments of a process, but not its environment.
            command.args(["proxy", "--url", "${TINYMCP_INPUT_URL}"]).env("TINYMCP_INPUT_URL", url);
            command.args(&server.network.arguments);
            for (number, (name, value)) in server.headers.iter().enumerate() {
                let variable = format!("TINYMCP_INPUT_HEADER_{number}");
                command.arg("--header").arg(format!("{name}:${{{variable}}}")).env(variable, value);
            }
            Ok(command)
        }
        _ => Err(ONE_SERVER.into()),
    }
}

/// Standard error; a terminal gets no control characters.
pub(super) struct Diagnostics;

impl Write for Diagnostics {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if io::stderr().is_terminal() {
            io::stderr().write_all(plain(&String::from_utf8_lossy(bytes)).as_bytes())?;
            return Ok(bytes.len());
        }
        io::stderr().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// Passes lines on until the end of one side.
fn forward_lines(from: &mut dyn BufRead, mut to: impl Write, recorder: &Recorder, direction: Direction) {
    let mut line = Vec::new();
    loop {
        line.clear();
        match from.take(MAX_BYTES).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        // Recorded first, so that no response is recorded before its request.
        recorder.write(direction, None, &line);
        if to.write_all(&line).and_then(|()| to.flush()).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::ffi::OsString;

    use super::*;

    #[test]
    fn the_arguments_of_the_proxy_to_a_url_have_no_credentials() {
        let words = ["--url", "http://h/mcp?key=secret", "--bearer", "secret", "file"];
        let flags = ["url", "bearer"];
        let args = Args::parse("record", words.iter().map(OsString::from).collect(), &flags).unwrap();
        let command = command(&args).ok().unwrap();
        let words: Vec<_> = command.get_args().collect();
        assert_eq!(
            words,
            ["proxy", "--url", "${TINYMCP_INPUT_URL}", "--header", "Authorization:${TINYMCP_INPUT_HEADER_0}"]
        );
        let values: Vec<_> = command.get_envs().map(|(_, value)| value.unwrap()).collect();
        assert_eq!(values, ["Bearer secret", "http://h/mcp?key=secret"]);
    }
}
