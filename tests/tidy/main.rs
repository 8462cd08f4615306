//! The rules of the house, checked: layers, file length, module documentation, and where the words
//! of one era may stand. CONTRIBUTING.md gives the reasons.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod api;
mod measures;
mod promises;
mod requirements;

use std::fs;
use std::path::{Path, PathBuf};

/// Which modules a module may use. A module that is not here fails the test.
const LAYERS: &[(&str, &[&str])] = &[
    ("json", &[]),
    ("rpc", &["json"]),
    ("record", &["json"]),
    ("model", &["json", "rpc", "lint"]),
    ("era", &["json", "rpc", "model"]),
    ("error", &["json"]),
    ("limits", &["error", "json"]),
    ("transport", &["error", "limits", "era", "pool", "sync"]),
    ("sync", &[]),
    ("pool", &["sync"]),
    ("tool_name", &[]),
    ("schema", &["json", "limits", "record"]),
    ("lint", &["json", "schema", "tool_name"]),
    ("bin", &[]),
    // Of the fuzz targets.
    ("fuzzing", &["json", "era", "server", "transport"]),
    ("manual", &[]),
    (
        "server",
        &[
            "error",
            "limits",
            "json",
            "rpc",
            "record",
            "model",
            "era",
            "transport",
            "pool",
            "schema",
            "lint",
            "sync",
            "tool_name",
        ],
    ),
    (
        "client",
        // Structured results are checked against schemas, where that is built in.
        &["error", "limits", "json", "rpc", "model", "era", "transport", "pool", "schema", "sync"],
    ),
    ("hub", &["error", "limits", "json", "rpc", "model", "pool", "client", "server", "sync", "transport"]),
    ("lib", &["error", "limits", "json", "record", "model", "server", "client", "hub", "transport"]),
];

/// Words that only one era has; outside `src/era/` they stand in comments at most.
const ERA_WORDS: &[&str] = &[
    "2024-11-05",
    "2025-03-26",
    "2025-06-18",
    "2025-11-25",
    "2026-07-28",
    "\"initialize",
    "Mcp-Session-Id",
    "Last-Event-ID",
    "resultType",
    "inputResponses",
    "requestState",
    "server/discover",
    "subscriptions/listen",
    "io.modelcontextprotocol/",
];

/// Lines a source file may have; where one grows beyond, a smaller theme waits to be split off.
const LONGEST: usize = 600;

struct Source {
    path: PathBuf,
    /// The top-level module the file belongs to.
    module: String,
    text: String,
}

fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let first = path.strip_prefix(&root).unwrap().components().next().unwrap();
                let module = Path::new(first.as_os_str()).file_stem().unwrap().to_str().unwrap().to_owned();
                let text = fs::read_to_string(&path).unwrap();
                found.push(Source { path, module, text });
            }
        }
    }
    assert!(found.len() > 30, "the sources were not found");
    found
}

/// The code of a file: no comments, and nothing of its unit tests, which stand at its end.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .take_while(|(_, line)| !line.starts_with("#[cfg(test)]"))
        .map(|(n, line)| (n + 1, line))
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
}

fn is_test(source: &Source) -> bool {
    source.path.components().any(|c| c.as_os_str() == "tests" || c.as_os_str() == "tests.rs")
}

fn report(faults: Vec<String>) {
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn modules_use_only_the_layers_below() {
    let mut faults = Vec::new();
    for source in sources().iter().filter(|s| !is_test(s)) {
        let Some((_, allowed)) = LAYERS.iter().find(|(name, _)| *name == source.module) else {
            faults.push(format!("{}: module {} has no layer", source.path.display(), source.module));
            continue;
        };
        for (n, line) in code(&source.text) {
            for part in line.split("crate::").skip(1) {
                let used: String = part.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                // `$crate::` in a macro names the façade; a type of the façade is no module.
                let module = LAYERS.iter().any(|(name, _)| *name == used);
                if module
                    && used != source.module
                    && !allowed.contains(&used.as_str())
                    && !line.contains("$crate")
                {
                    faults.push(format!(
                        "{}:{n}: {} must not use {used}",
                        source.path.display(),
                        source.module
                    ));
                }
            }
        }
    }
    report(faults);
}

#[test]
fn words_of_one_era_stay_in_its_folder() {
    let mut faults = Vec::new();
    for source in sources().iter().filter(|s| s.module != "era" && !is_test(s)) {
        for (n, line) in code(&source.text) {
            for word in ERA_WORDS.iter().filter(|w| line.contains(**w)) {
                faults.push(format!("{}:{n}: {word} belongs into src/era", source.path.display()));
            }
        }
    }
    report(faults);
}

#[test]
fn lower_layers_do_no_io() {
    let forbidden =
        ["std::io", "std::net", "std::fs", "std::thread", "Mutex", "Instant", "SystemTime", "crossbeam"];
    let mut faults = Vec::new();
    for source in
        sources().iter().filter(|s| ["json", "rpc", "model", "era", "record"].contains(&s.module.as_str()))
    {
        if is_test(source) {
            continue;
        }
        // Formatting into a buffer goes by way of io::Write, which reads and writes nothing here.
        for (n, line) in code(&source.text).filter(|(_, l)| *l != "use std::io::Write as _;") {
            for word in forbidden.iter().filter(|w| line.contains(**w)) {
                faults.push(format!("{}:{n}: {} does no IO: {word}", source.path.display(), source.module));
            }
        }
    }
    report(faults);
}

#[test]
fn files_are_short_and_say_what_they_are() {
    let mut faults = Vec::new();
    for source in sources() {
        let lines = source.text.lines().count();
        if lines > LONGEST {
            faults.push(format!("{}: {lines} lines", source.path.display()));
        }
        if !source.text.starts_with("//!") {
            faults.push(format!("{}: starts without a module documentation", source.path.display()));
        }
    }
    report(faults);
}

#[test]
fn panics_are_caught_in_one_place() {
    let mut faults = Vec::new();
    for source in sources().iter().filter(|s| s.module != "pool" && !is_test(s)) {
        for (n, line) in code(&source.text).filter(|(_, line)| line.contains("catch_unwind")) {
            faults.push(format!("{}:{n}: {}", source.path.display(), line.trim()));
        }
    }
    report(faults);
}

#[test]
fn the_changelog_knows_this_version() {
    let changelog = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("CHANGELOG.md")).unwrap();
    let version = env!("CARGO_PKG_VERSION");
    assert!(changelog.contains(&format!("[{version}]")) || changelog.contains("[Unreleased]"));
}
