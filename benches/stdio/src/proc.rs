//! Figures of the kernel about a process: time, context switches, threads, memory.
//!
//! Reads `/proc`. A value that cannot be read is 0, and the report shows a dash.
//!
//! # Invariants
//! - Values are read while the process waits for input, so its counters are up to date.

use std::fs;

/// Processor time of all live threads in nanoseconds, from the scheduler: `stat` has ticks of 10 ms
/// only.
pub fn cpu_ns(pid: u32) -> u64 {
    tasks(pid).map(|task| first_number(&read(&format!("{task}/schedstat")))).sum()
}

/// Processor time of the calling thread in nanoseconds.
pub fn own_cpu_ns() -> u64 {
    first_number(&read("/proc/thread-self/schedstat"))
}

/// Voluntary and involuntary context switches of all live threads.
pub fn switches(pid: u32) -> u64 {
    tasks(pid)
        .map(|task| {
            let status = read(&format!("{task}/status"));
            field(&status, "voluntary_ctxt_switches:") + field(&status, "nonvoluntary_ctxt_switches:")
        })
        .sum()
}

/// Number of live threads.
pub fn threads(pid: u32) -> u64 {
    tasks(pid).count() as u64
}

/// Resident and anonymous memory in kB.
pub fn memory(pid: u32) -> (u64, u64) {
    let rollup = read(&format!("/proc/{pid}/smaps_rollup"));
    (field(&rollup, "Rss:"), field(&rollup, "Anonymous:"))
}

/// Peak resident memory in kB.
pub fn peak(pid: u32) -> u64 {
    field(&read(&format!("/proc/{pid}/status")), "VmHWM:")
}

/// Ids of all live threads.
pub fn task_ids(pid: u32) -> impl Iterator<Item = u32> {
    fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn tasks(pid: u32) -> impl Iterator<Item = String> {
    task_ids(pid).map(move |task| format!("/proc/{pid}/task/{task}"))
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn first_number(text: &str) -> u64 {
    let word = text.split_whitespace().next();
    word.and_then(|word| word.parse().ok()).unwrap_or(0)
}

fn field(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.map_or(0, first_number)
}
