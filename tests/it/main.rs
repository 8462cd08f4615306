//! Wire transcripts of servers: messages in and out, over every transport and in every revision.
//!
//! The files are in `tests/transcripts`; its `README.md` describes their format. Each folder there
//! is one module below. A transcript is played in each revision that it names, over each transport,
//! with one worker and with two unless it sets the number.
//!
//! `TRANSCRIPT=part-of-a-path` plays only the transcripts whose path contains this text.
//! `TEST_SHARE=n` plays each transcript over stdio in every n-th of its configurations, but in one
//! at least. Neighbouring transcripts get different ones. An emulator starts processes slowly, and
//! stdio starts one for each run.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod compare;
mod faults;
mod fixture;
mod play;
mod rows;
mod script;
mod wire;
#[cfg(feature = "http-server")]
mod wire_http;
#[cfg(unix)]
mod wire_lines;
mod wire_memory;
mod wire_stdio;

use std::path::{Path, PathBuf};

use script::{REVISIONS, Script};

/// Folder of the transcripts.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts")
}

/// Sorted paths of the transcripts of a folder, relative to the root.
fn transcripts(folder: &str) -> Vec<String> {
    let mut paths: Vec<String> = std::fs::read_dir(root().join(folder))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".txt"))
        .map(|name| format!("{folder}/{name}"))
        .collect();
    paths.sort();
    paths
}

/// Plays every transcript of a folder over one transport.
fn play_folder(folder: &str, transport: &str) {
    let (_, connect) = wire::TRANSPORTS.iter().find(|(name, _)| *name == transport).unwrap();
    let only = std::env::var("TRANSCRIPT").unwrap_or_default();
    let share = if transport == "stdio" { share() } else { 1 };
    // A failure that is the same in several configurations is reported once.
    let mut failures: Vec<(String, Vec<String>)> = Vec::new();
    for (nth, path) in transcripts(folder).iter().enumerate().filter(|(_, path)| path.contains(&only)) {
        // What handlers print is redirected on Unix only.
        if cfg!(windows) && path == "framing/stdout.txt" {
            continue;
        }
        let script = script::load(&root(), path).unwrap();
        let needed = [("tasks", cfg!(feature = "tasks")), ("extended", cfg!(feature = "extensions"))];
        if needed.contains(&(script.server.as_str(), false)) {
            continue;
        }
        if !script.transports.is_empty() && !script.transports.iter().any(|t| t == transport) {
            continue;
        }
        for (revision, workers) in configurations(&script, share, nth) {
            if let Err(why) = play::play(&script, revision, workers, *connect) {
                let where_ = format!("{} with workers={workers}", REVISIONS[revision].1);
                match failures.iter_mut().find(|(known, _)| *known == why) {
                    Some((_, configurations)) => configurations.push(where_),
                    None => failures.push((why, vec![where_])),
                }
            }
        }
    }
    let failures_once: Vec<String> = failures
        .iter()
        .map(|(why, configurations)| format!("{why}\n  over {transport}: {}", configurations.join(", ")))
        .collect();
    assert!(failures_once.is_empty(), "{} failed:\n\n{}\n", failures_once.len(), failures_once.join("\n\n"));
}

/// The configurations of a transcript: its revisions, each with one worker and with two unless it
/// sets the number. Of these, returns a share that depends on the index of the transcript.
fn configurations(script: &Script, share: usize, nth: usize) -> Vec<(usize, u64)> {
    let workers = match script.limits.iter().find(|(name, _)| name == "workers") {
        Some((_, workers)) => vec![*workers],
        None => vec![1, 2],
    };
    let each = |revision: &usize| workers.iter().map(|workers| (*revision, *workers)).collect::<Vec<_>>();
    let all: Vec<(usize, u64)> = script.revisions.iter().flat_map(each).collect();
    let first = nth % share.min(all.len()).max(1);
    all.into_iter().skip(first).step_by(share).collect()
}

/// Divisor of the number of configurations, from `TEST_SHARE`.
fn share() -> usize {
    std::env::var("TEST_SHARE")
        .map_or(1, |text| text.parse::<usize>().expect("TEST_SHARE must be a number").max(1))
}

macro_rules! folders {
    ($($folder:ident)*) => {
        /// Every folder that is played.
        const FOLDERS: &[&str] = &[$(stringify!($folder)),*];

        $(mod $folder {
            #[test]
            fn memory() {
                super::play_folder(stringify!($folder), "memory");
            }

            #[test]
            fn local() {
                super::play_folder(stringify!($folder), "local");
            }

            #[test]
            fn stdio() {
                super::play_folder(stringify!($folder), "stdio");
            }

            #[cfg(unix)]
            #[test]
            fn lines() {
                super::play_folder(stringify!($folder), "lines");
            }

            #[cfg(feature = "http-server")]
            #[test]
            fn http() {
                super::play_folder(stringify!($folder), "http");
            }

            #[cfg(feature = "http-server")]
            #[test]
            fn events() {
                super::play_folder(stringify!($folder), "events");
            }
        })*
    };
}

folders! { ask cancel changes describe extensions framing messages open paging prompts report resources tasks tools }

#[test]
fn every_folder_is_played() {
    let mut folders: Vec<String> = std::fs::read_dir(root())
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.file_type().unwrap().is_dir())
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    folders.sort();
    assert_eq!(folders, FOLDERS);
}
