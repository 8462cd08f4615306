//! Bare loop: the maximum that a pipe and one thread reach with almost no work.
//!
//! Reads the available bytes, finds id and text of a line by fixed positions and a plain scan, and
//! writes prepared responses: one write per batch or, with `--each`, one per line. Does not parse
//! JSON. It supports only the requests of the driver.
//!
//! # Invariants
//! - One read per batch.
//! - A line has at most 8 MiB.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;

use stdio_bench::ready::{answer, scan};

const FIRST_BUFFER: usize = 64 * 1024;
const LONGEST_LINE: usize = 8 * 1024 * 1024;

fn main() -> io::Result<()> {
    let each = std::env::args().any(|argument| argument == "--each");
    let list = ready_list()?;
    // The descriptors themselves: no lock and no buffer of the standard library.
    let mut input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut output = File::from(io::stdout().as_fd().try_clone_to_owned()?);

    let mut buffer = vec![0; FIRST_BUFFER];
    let mut out = Vec::new();
    let mut filled = 0;
    // The bytes before this offset contain no line end.
    let mut searched = 0;
    loop {
        if filled == buffer.len() {
            if buffer.len() >= LONGEST_LINE {
                return Err(io::Error::other("line too long"));
            }
            buffer.resize(buffer.len() * 2, 0);
        }
        let got = input.read(&mut buffer[filled..])?;
        if got == 0 {
            return Ok(());
        }
        filled += got;

        let mut start = 0;
        while let Some(length) = scan(&buffer[searched..filled], b'\n') {
            let end = searched + length;
            answer(&buffer[start..end], &list, &mut out);
            if each {
                output.write_all(&out)?;
                out.clear();
            }
            start = end + 1;
            searched = start;
        }
        searched = filled - start;
        buffer.copy_within(start..filled, 0);
        filled -= start;

        if !out.is_empty() {
            output.write_all(&out)?;
            out.clear();
        }
    }
}

/// Text after the id in the response to `tools/list`. `--list FILE` reads the result of another
/// server, `--many N` generates one with N tools.
fn ready_list() -> io::Result<Vec<u8>> {
    let mut args = std::env::args().skip(1).filter(|argument| argument != "--each");
    let mut list = b",\"result\":".to_vec();
    match (args.next().as_deref(), args.next()) {
        (Some("--list"), Some(path)) => list.extend_from_slice(&std::fs::read(path)?),
        (Some("--many"), Some(number)) => {
            let number: usize = number.parse().map_err(io::Error::other)?;
            list.extend_from_slice(b"{\"tools\":[");
            for tool in 0..number {
                let comma = if tool == 0 { "" } else { "," };
                write!(
                    list,
                    "{comma}{{\"name\":\"tool_{tool:04}\",\"description\":\"Generated tool number {tool}\",\
\"inputSchema\":{{\"type\":\"object\",\"properties\":{{\"text\":{{\"type\":\"string\",\"maxLength\":1000}},\
\"count\":{{\"type\":\"integer\",\"minimum\":0}}}},\"required\":[\"text\"],\"additionalProperties\":false}}}}"
                )?;
            }
            list.extend_from_slice(b"]}");
        }
        _ => list.extend_from_slice(b"{\"tools\":[]}"),
    }
    list.extend_from_slice(b"}\n");
    Ok(list)
}
