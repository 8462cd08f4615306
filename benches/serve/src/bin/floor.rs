//! Bare loops: the least work that a server with the same processes can do.
//!
//! | argument | work for each line |
//! |---|---|
//! | `worker` | co-process of both servers: returns the text of the call as its result |
//! | `relay` | server: writes the call to a `worker`, reads its result, responds |
//! | `spawn` | server: starts `/bin/true`, waits for its end, responds |
//!
//! They find id and text by a plain scan, do not parse JSON, and support only the requests of the
//! driver. A line has at most [`LINE`] bytes.

use std::io::{self, Read, Write};
use std::process::{Child, Command, Stdio};

use stdio_bench::ready::{answer, scan};

const LINE: usize = 64 * 1024;
/// Start of the text in the arguments of a call.
const TEXT: &[u8] = b"\"text\":\"";

fn main() -> io::Result<()> {
    match std::env::args().nth(1).as_deref() {
        Some("worker") => lines(&mut |line, out| {
            out.extend_from_slice(b"{\"id\":");
            out.extend_from_slice(id(line));
            out.extend_from_slice(b",\"result\":\"");
            out.extend_from_slice(text(line));
            out.extend_from_slice(b"\"}\n");
            Ok(())
        }),
        Some("relay") => relay(),
        Some("spawn") => lines(&mut |line, out| {
            if is_call(line) && !Command::new("/bin/true").stdin(Stdio::null()).status()?.success() {
                return Err(io::Error::other("/bin/true failed"));
            }
            answer(line, b"", out);
            Ok(())
        }),
        _ => Err(io::Error::other("expected worker, relay or spawn")),
    }
}

fn relay() -> io::Result<()> {
    // Started by the first call, as that of the server: it inherits the processors of that time.
    let mut worker: Option<Child> = None;
    let mut buffer = vec![0; LINE];
    lines(&mut |line, out| {
        if is_call(line) {
            let worker = match &mut worker {
                Some(worker) => worker,
                none => none.insert(start_worker()?),
            };
            let mut request = b"{\"id\":1,\"tool\":\"echo\",\"arguments\":{\"text\":\"".to_vec();
            request.extend_from_slice(text(line));
            request.extend_from_slice(b"\"}}\n");
            let (Some(stdin), Some(stdout)) = (&mut worker.stdin, &mut worker.stdout) else {
                return Err(io::Error::other("no pipes"));
            };
            stdin.write_all(&request)?;
            let got = stdout.read(&mut buffer)?;
            if buffer.get(got.wrapping_sub(1)) != Some(&b'\n') {
                return Err(io::Error::other("the worker wrote half a line"));
            }
        }
        answer(line, b"", out);
        Ok(())
    })?;
    // Waiting closes its input, at whose end it ends.
    worker.map_or(Ok(()), |mut worker| worker.wait().map(drop))
}

fn start_worker() -> io::Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("worker").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()
}

/// Passes each line of standard input to `each` and writes its response.
fn lines(each: &mut dyn FnMut(&[u8], &mut Vec<u8>) -> io::Result<()>) -> io::Result<()> {
    let (mut input, mut output) = (io::stdin().lock(), io::stdout());
    let (mut buffer, mut out) = (vec![0; LINE], Vec::new());
    let mut filled = 0;
    loop {
        let got = input.read(&mut buffer[filled..])?;
        if got == 0 {
            return if filled < LINE { Ok(()) } else { Err(io::Error::other("line too long")) };
        }
        filled += got;
        let mut start = 0;
        while let Some(length) = scan(&buffer[start..filled], b'\n') {
            each(&buffer[start..start + length], &mut out)?;
            start += length + 1;
            if !out.is_empty() {
                output.write_all(&out)?;
                output.flush()?;
                out.clear();
            }
        }
        buffer.copy_within(start..filled, 0);
        filled -= start;
    }
}

fn is_call(line: &[u8]) -> bool {
    line.windows(TEXT.len()).any(|part| part == TEXT)
}

/// Returns the number of a call.
fn id(line: &[u8]) -> &[u8] {
    let rest = line.strip_prefix(b"{\"id\":").unwrap_or_default();
    &rest[..scan(rest, b',').unwrap_or(rest.len())]
}

/// Returns the text of a call, whose characters need no escapes.
fn text(line: &[u8]) -> &[u8] {
    let start = line.windows(TEXT.len()).position(|part| part == TEXT).unwrap_or(line.len());
    let rest = line.get(start + TEXT.len()..).unwrap_or_default();
    &rest[..scan(rest, b'"').unwrap_or(rest.len())]
}
