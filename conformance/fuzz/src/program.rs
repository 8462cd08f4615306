//! Modules of the program `tinymcp` that read definition files, for the target `definition`. They
//! are a crate of their own, so that `instrument.sh` counts what they cover.
#![allow(dead_code, unexpected_cfgs, unreachable_pub)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

#[path = "../../../src/bin/tinymcp/escape.rs"]
mod escape;
#[path = "../../../src/bin/tinymcp/mutex.rs"]
mod mutex;
#[path = "../../../src/bin/tinymcp/options.rs"]
mod options;
#[path = "../../../src/bin/tinymcp/serve/mod.rs"]
mod serve;

type Result<T, E = String> = std::result::Result<T, E>;

/// Standard output of the program.
fn out(_: &[u8]) -> Result<()> {
    Ok(())
}

/// A problem of a file.
pub struct Problem {
    pub file: PathBuf,
    pub line: usize,
    pub pointer: String,
    pub message: String,
}

fn problems(list: Vec<serve::read::Problem>) -> Vec<Problem> {
    list.into_iter()
        .map(|serve::read::Problem { place, message }| {
            let serve::place::Place { file, line, pointer } = place;
            Problem { file: file.to_path_buf(), line, pointer, message }
        })
        .collect()
}

/// A file without problems.
pub struct Definition(serve::definition::Definition);

/// Reads one file.
pub fn read(path: &Path) -> Result<Definition, Vec<Problem>> {
    serve::read::definition(&[path.to_path_buf()]).map(Definition).map_err(problems)
}

impl Definition {
    /// Returns whether folders are listed; their contents depend on this machine.
    pub fn has_folders(&self) -> bool {
        self.0.resources.iter().any(|resource| resource.is_folder)
    }

    /// Returns whether a program has a sandbox. Its check would start this fuzzer again.
    pub fn has_sandbox(&self) -> bool {
        self.0.tools.iter().any(|tool| tool.program.sandbox.is_some())
    }

    /// What `--check` reports besides problems.
    pub fn warnings(&self) -> Vec<Problem> {
        problems(serve::check::check(&self.0))
    }

    /// Registers everything, as the server does when it starts.
    pub fn register(self) -> Result<()> {
        let mut server = tinymcp::Server::new("fuzz", "0");
        server.tools_may_change().resources_may_change().prompts_may_change();
        server.resource_updates();
        let shared = Arc::new(serve::tool::Shared::new(1)?);
        serve::catalog::Catalog::new(server.handle(), self.0, shared).map(drop)
    }
}
