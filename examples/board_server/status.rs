//! Board status: tool `system_status` and resource `board://status`.
//!
//! Values are read for each request. Free space is read from `df`, because the standard library has
//! no call for it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tinymcp::json::ToJson;
use tinymcp::{Error, ErrorContext, Resource, ResourceContents, Server, Structured, Tool, ToolError};

tinymcp::record! {
    /// No arguments.
    struct Nothing {}
}

tinymcp::record! {
    /// Temperature, memory, disk space and uptime.
    #[derive(Debug)]
    pub(crate) struct Status {
        /// Degrees Celsius; absent where the board has no sensor
        cpu_temperature as "cpuTemperatureCelsius": Option<f64>,
        /// Memory in kibibytes
        memory_total as "memoryTotalKb": u64,
        /// Memory available to programs, in kibibytes
        memory_available as "memoryAvailableKb": u64,
        /// Free space of the file system with the files, in kibibytes
        disk_free as "diskFreeKb": u64,
        /// Seconds since the board started
        uptime as "uptimeSeconds": f64 [0.0..],
    }
}

impl Status {
    fn read(root: &Path) -> Result<Status, ToolError> {
        let memory = fs::read_to_string("/proc/meminfo")?;
        let uptime = fs::read_to_string("/proc/uptime")?;
        Ok(Status {
            cpu_temperature: temperature(),
            memory_total: kilobytes(&memory, "MemTotal:").ok_or_else(|| missing("MemTotal"))?,
            memory_available: kilobytes(&memory, "MemAvailable:").ok_or_else(|| missing("MemAvailable"))?,
            disk_free: disk_free(root)?,
            uptime: first_number(&uptime).ok_or_else(|| missing("uptime"))?,
        })
    }
}

pub(crate) fn register(server: &mut Server, root: &Path) -> Result<(), Error> {
    let (for_tool, for_resource): (PathBuf, PathBuf) = (root.into(), root.into());
    server.tool(
        Tool::new("system_status")
            .description("Temperature, memory, disk space and uptime of the board")
            .read_only(),
        move |_, _: Nothing| Status::read(&for_tool).map(Structured),
    )?;
    server.resource(
        Resource::new("board://status", "status")
            .description("Temperature, memory, disk space and uptime of the board")
            .mime_type("application/json"),
        move |_, uri| {
            let status = Status::read(&for_resource)?.to_json();
            Ok(ResourceContents::text(uri, status.as_str()).mime_type("application/json"))
        },
    )?;
    Ok(())
}

fn missing(what: &str) -> ToolError {
    ToolError::new(format!("/proc has no {what}"))
}

/// The first sensor, which on common boards is the processor's, in thousandths of a degree.
fn temperature() -> Option<f64> {
    let text = fs::read_to_string("/sys/class/thermal/thermal_zone0/temp").ok()?;
    first_number(&text).map(|thousandths| thousandths / 1000.0)
}

/// The number in a line such as `MemTotal:  512000 kB`.
fn kilobytes(meminfo: &str, name: &str) -> Option<u64> {
    let rest = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

fn first_number(text: &str) -> Option<f64> {
    text.split_whitespace().next()?.parse().ok()
}

fn disk_free(folder: &Path) -> Result<u64, ToolError> {
    let run = Command::new("df").arg("-kP").arg(folder).stdin(Stdio::null()).stderr(Stdio::null()).output();
    let output = run.context("cannot run df")?;
    available(&String::from_utf8_lossy(&output.stdout))
        .ok_or_else(|| ToolError::new("df printed no free space"))
}

/// The column before the percentage. Counting from the left would fail on names with spaces.
fn available(df: &str) -> Option<u64> {
    let columns: Vec<&str> = df.lines().nth(1)?.split_whitespace().collect();
    let percentage = columns.iter().position(|c| c.ends_with('%'))?;
    columns.get(percentage.checked_sub(1)?)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_in_what_the_system_prints() {
        let meminfo = "MemTotal:         512000 kB\nMemFree:  7 kB\nMemAvailable:     300000 kB\n";
        assert_eq!(kilobytes(meminfo, "MemTotal:"), Some(512_000));
        assert_eq!(kilobytes(meminfo, "MemAvailable:"), Some(300_000));
        assert_eq!(kilobytes(meminfo, "SwapTotal:"), None);
        assert_eq!(kilobytes("MemTotal: lots kB", "MemTotal:"), None);
        assert_eq!(first_number("350735.47 234388.90\n"), Some(350_735.47));
        assert_eq!(first_number(""), None);
        let heading = "Filesystem 1024-blocks Used Available Capacity Mounted on\n";
        for (line, free) in [
            ("/dev/root 100 40 60 40% /\n", Some(60)),
            ("//host/a b 100 40 60 40% /mnt/a b\n", Some(60)),
            ("/dev/root 100 40 60 - /\n", None),
            ("50% /\n", None),
            ("", None),
        ] {
            assert_eq!(available(&format!("{heading}{line}")), free, "{line}");
        }
    }
}
