//! Figures that do not depend on the clock: instructions, allocations and system calls of one call.
//!
//! Runs the server under callgrind, memcheck and strace with N and with 2N calls and reports the
//! difference. If a tool is missing, its figure is absent.
//!
//! # Invariants
//! - Both runs differ only in the number of calls, so the costs of start and end cancel out.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::Result;

const WARM_UP: u64 = 200;
/// Number of calls for counts that are measured together with other figures.
pub const CALLS: u64 = 500;
/// Calls of a precise count of instructions. Two starts of one program differ by up to 10,000
/// instructions, because the C library reads the table of mappings: two instructions per call.
pub const PRECISE: u64 = 5000;

/// Starts a command, makes this many sequential calls and waits until it has ended.
pub type Drive<'d> = dyn Fn(&[String], u64) -> Result<()> + 'd;

/// Figures per sequential call.
#[derive(Default, Debug)]
pub struct Counts {
    /// Instructions in user space.
    pub instructions: Option<f64>,
    /// Instructions when no call is like the one before it.
    pub in_turns: Option<f64>,
    /// Allocations.
    pub allocations: Option<f64>,
    /// System calls of all threads.
    pub syscalls: Option<f64>,
    /// System calls by name, without those that do not occur.
    pub by_name: Vec<(String, f64)>,
}

/// Counts `server`; `scratch` is a folder for the output of the tools.
pub fn counts(server: &[String], scratch: &Path, drive: &Drive<'_>) -> Counts {
    let file = scratch.join("count.out").to_string_lossy().into_owned();
    let run = |tool: &[&str]| twice(tool, server, CALLS, &file, drive);
    let mut counts =
        Counts { instructions: instructions(server, CALLS, scratch, drive), ..Counts::default() };
    let log = format!("--log-file={file}");
    match run(&["valgrind", "--tool=memcheck", "--leak-check=no", &log]) {
        Ok((once, twice)) => {
            counts.allocations = number_after(&once, "total heap usage:")
                .zip(number_after(&twice, "total heap usage:"))
                .map(|(once, twice)| per_call(once, twice, CALLS));
        }
        Err(error) => eprintln!("memcheck: {error}"),
    }
    match run(&["strace", "-f", "-c", "-o", &file]) {
        Ok((once, twice)) => {
            let once = strace_table(&once);
            let mut by_name: Vec<(String, f64)> = strace_table(&twice)
                .into_iter()
                .map(|(name, calls)| {
                    let before = once.get(&name).copied().unwrap_or(0.0);
                    // Rounded to hundredths: sometimes one of the first lines is read together with
                    // the next one.
                    (name, (per_call(before, calls, CALLS) * 100.0).round() / 100.0)
                })
                .filter(|(_, calls)| *calls > 0.0)
                .collect();
            by_name.sort_by(|(_, a), (_, b)| b.total_cmp(a));
            counts.syscalls = Some(by_name.iter().map(|(_, calls)| calls).sum());
            counts.by_name = by_name;
        }
        Err(error) => eprintln!("strace: {error}"),
    }
    counts
}

/// Instructions in user space per call, from the difference of `calls` and twice as many.
pub fn instructions(server: &[String], calls: u64, scratch: &Path, drive: &Drive<'_>) -> Option<f64> {
    let file = scratch.join("count.out").to_string_lossy().into_owned();
    let callgrind = format!("--callgrind-out-file={file}");
    match twice(&["valgrind", "--tool=callgrind", "-q", &callgrind], server, calls, &file, drive) {
        Ok((once, twice)) => {
            let totals = number_after(&once, "totals:").zip(number_after(&twice, "totals:"));
            totals.map(|(once, twice)| per_call(once, twice, calls))
        }
        Err(error) => {
            eprintln!("callgrind: {error}");
            None
        }
    }
}

fn per_call(once: f64, twice: f64, calls: u64) -> f64 {
    (twice - once) / calls as f64
}

/// Content that `tool` writes to `file` for `calls` and for twice as many calls of `server`.
fn twice(
    tool: &[&str],
    server: &[String],
    calls: u64,
    file: &str,
    drive: &Drive<'_>,
) -> Result<(String, String)> {
    let mut command: Vec<String> = tool.iter().map(|word| (*word).to_owned()).collect();
    command.extend_from_slice(server);
    let once = after(&command, calls, file, drive)?;
    let twice = after(&command, 2 * calls, file, drive)?;
    Ok((once, twice))
}

/// Writes a callgrind profile of `calls` sequential calls to `file`. The start of the server costs
/// as much as ten calls.
///
/// # Errors
/// Returns an error if the server or callgrind fails.
pub fn profile(server: &[String], calls: u64, file: &Path, drive: &Drive<'_>) -> Result<()> {
    let out = format!("--callgrind-out-file={}", file.display());
    let tool = ["valgrind", "--tool=callgrind", "-q", &out];
    let mut command: Vec<String> = tool.iter().map(|word| (*word).to_owned()).collect();
    command.extend_from_slice(server);
    drive(&command, calls)
}

/// Runs `command` for `calls` calls and returns the content of `file`.
fn after(command: &[String], calls: u64, file: &str, drive: &Drive<'_>) -> Result<String> {
    drive(command, WARM_UP + calls)?;
    let text = fs::read(file).map_err(|error| format!("{file}: {error}"))?;
    fs::remove_file(file)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Returns the number after `label`, with or without commas between thousands.
fn number_after(text: &str, label: &str) -> Option<f64> {
    let at = text.find(label)? + label.len();
    let word = text[at..].split_whitespace().next()?;
    word.replace(',', "").parse().ok()
}

/// Parses the summary of `strace -c`: the fourth column is the number of calls, the last one the
/// name.
fn strace_table(text: &str) -> BTreeMap<String, f64> {
    text.lines()
        .filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let calls = words.get(3)?.parse().ok()?;
            let name = *words.last()?;
            (words.len() >= 5 && name != "total").then(|| (name.to_owned(), calls))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tools_summaries_are_understood() {
        assert_eq!(number_after("x\ntotals: 12345\n", "totals:"), Some(12345.0));
        let heap = "==1==   total heap usage: 1,234 allocs, 1,200 frees";
        assert_eq!(number_after(heap, "total heap usage:"), Some(1234.0));
        let table = strace_table(
            "% time     seconds  usecs/call     calls    errors syscall\n\
             ------ ----------- ----------- --------- --------- ----------------\n\
             \x2060.00    0.000123           1       123           read\n\
             \x2040.00    0.000080           1        80         4 futex\n\
             ------ ----------- ----------- --------- --------- ----------------\n\
             100.00    0.000203           1       203         4 total\n",
        );
        let expected = [("futex".to_owned(), 80.0), ("read".to_owned(), 123.0)];
        assert_eq!(table, BTreeMap::from(expected));
    }
}
