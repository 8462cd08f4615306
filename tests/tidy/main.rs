//! Conventions of the source tree: layers, file length, module documentation, and words of one era.
//! CONTRIBUTING.md gives the reasons.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod api;
mod examples;
mod measures;
mod promises;
mod requirements;

use std::fs;
use std::path::{Path, PathBuf};

/// Modules that each module may use. A module that is not listed fails the test.
const LAYERS: &[(&str, &[&str])] = &[
    ("json", &[]),
    ("rpc", &["json"]),
    ("record", &["json"]),
    ("model", &["json", "rpc", "lint"]),
    ("serde", &["error", "json", "model", "record"]),
    ("era", &["json", "rpc", "model"]),
    ("error", &["json"]),
    ("limits", &["error", "json"]),
    ("transport", &["error", "limits", "era", "pool", "stderr", "sync", "terminal"]),
    ("sync", &[]),
    ("terminal", &[]),
    ("stderr", &["sync"]),
    ("pool", &["sync"]),
    ("tool_name", &[]),
    ("schema", &["json", "limits", "record"]),
    ("lint", &["json", "schema", "tool_name"]),
    // The program includes the file of this module.
    ("bin", &["terminal"]),
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
            "observe",
            "pool",
            "schema",
            "serde",
            "lint",
            "stderr",
            "sync",
            "tool_name",
        ],
    ),
    ("observe", &["error", "json", "limits", "model", "pool", "stderr", "sync", "terminal", "transport"]),
    ("oauth", &["error", "json", "sync", "transport"]),
    (
        "client",
        // With the feature `schema`, structured results are checked against schemas.
        &["error", "limits", "json", "rpc", "model", "era", "transport", "observe", "pool", "schema", "sync"],
    ),
    (
        "hub",
        &[
            "error",
            "limits",
            "json",
            "rpc",
            "model",
            "pool",
            "client",
            "server",
            "sync",
            "terminal",
            "transport",
        ],
    ),
    ("skills", &["error", "json", "record", "model", "era", "server", "client", "stderr", "sync"]),
    ("lib", &["error", "limits", "json", "record", "model", "server", "client", "hub", "transport"]),
];

/// Words of one era; outside `src/era/` they may occur only in comments.
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

/// Maximum number of lines of a source file. Split a file that is longer.
const LONGEST: usize = 600;

struct Source {
    path: PathBuf,
    /// Top-level module of the file.
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
    assert!(found.len() > 30, "no sources found");
    found
}

/// Code lines of a file, without comments and without the unit tests at its end.
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
            faults.push(format!("{}: module {} is not in LAYERS", source.path.display(), source.module));
            continue;
        };
        for (n, line) in code(&source.text) {
            for part in line.split("crate::").skip(1) {
                let used: String = part.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                // `$crate::` in a macro refers to the façade; a type of the façade is not a module.
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
fn words_of_one_era_occur_only_in_its_folder() {
    let mut faults = Vec::new();
    for source in sources().iter().filter(|s| s.module != "era" && !is_test(s)) {
        for (n, line) in code(&source.text) {
            for word in ERA_WORDS.iter().filter(|w| line.contains(**w)) {
                faults.push(format!("{}:{n}: {word} belongs to src/era", source.path.display()));
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
        // Formatting into a buffer uses `io::Write`, which does no I/O there.
        for (n, line) in code(&source.text).filter(|(_, l)| *l != "use std::io::Write as _;") {
            for word in forbidden.iter().filter(|w| line.contains(**w)) {
                faults.push(format!(
                    "{}:{n}: {} must not do I/O: {word}",
                    source.path.display(),
                    source.module
                ));
            }
        }
    }
    report(faults);
}

#[test]
fn files_are_short_and_have_module_documentation() {
    let mut faults = Vec::new();
    for source in sources() {
        let lines = source.text.lines().count();
        if lines > LONGEST {
            faults.push(format!("{}: {lines} lines", source.path.display()));
        }
        if !source.text.starts_with("//!") {
            faults.push(format!("{}: starts without module documentation", source.path.display()));
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
fn the_changelog_has_this_version() {
    let changelog = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("CHANGELOG.md")).unwrap();
    let version = env!("CARGO_PKG_VERSION");
    assert!(changelog.contains(&format!("[{version}]")) || changelog.contains("[Unreleased]"));
}
