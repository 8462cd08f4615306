//! Programs of tools: found in PATH, executable, with an interpreter.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use super::super::read::{reason, script};
use super::super::tool::find_program;

/// Maximum number of bytes of a script that are read.
const MAX_SCRIPT: u64 = 1 << 20;

/// Finds a program as the system does: a name without `/` is searched in PATH.
///
/// # Errors
/// The program does not exist or cannot be executed; the message has a correction.
pub(crate) fn find(program: &str) -> Result<PathBuf, String> {
    if program.contains('/') {
        let path = PathBuf::from(program);
        return executable(&path).map(|()| path);
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let mut found = None;
    // An empty entry of PATH means the current folder, which is not searched.
    for folder in std::env::split_paths(&folders).filter(|folder| folder.is_absolute()) {
        let path = folder.join(program);
        match executable(&path) {
            Ok(()) => return Ok(path),
            // Report a file that is not executable rather than one that is missing elsewhere.
            Err(message) if path.exists() => found = Some(message),
            Err(_) => {}
        }
    }
    Err(found.unwrap_or_else(|| {
        format!("program {program:?} is not in PATH: install it, or write its path, such as \"./{program}\"")
    }))
}

fn executable(path: &Path) -> Result<(), String> {
    let shown = path.display();
    let metadata = path.metadata().map_err(|error| {
        let has_space = path.as_os_str().as_encoded_bytes().contains(&b' ');
        let cure = if has_space { "; write one text for each argument" } else { "" };
        format!("program {shown}: {}{cure}", reason(&error))
    })?;
    if !metadata.is_file() {
        return Err(format!("program {shown}: not a regular file"));
    }
    access(path, Access::EXEC_OK)
        .map_err(|_| format!("program {shown}: not executable: run chmod +x {shown}"))?;
    // A program that may be executed but not read has no visible first line.
    first_line(path).map_or(Ok(()), |line| interpreter(path, &line))
}

fn first_line(path: &Path) -> Option<Vec<u8>> {
    let mut start = Vec::new();
    std::fs::File::open(path).ok()?.take(256).read_to_end(&mut start).ok()?;
    let end = start.iter().position(|b| *b == b'\n').unwrap_or(start.len());
    start.truncate(end);
    Some(start)
}

/// Returns whether a file is a shell script that gets `--` as an ordinary argument: no code in it
/// skips `--`. A file is a shell script by its first line, or because a shell runs it.
pub(super) fn reads_dashes(path: &Path, has_shell: bool) -> bool {
    let line = first_line(path).unwrap_or_default();
    let line = String::from_utf8_lossy(&line);
    let mut words = line.strip_prefix("#!").unwrap_or_default().split_whitespace();
    if !has_shell && !words.any(script::is_shell) {
        return false;
    }
    let mut text = String::new();
    let file = std::fs::File::open(path).ok();
    file.and_then(|file| file.take(MAX_SCRIPT).read_to_string(&mut text).ok()).is_some()
        && !["getopt", "shift", "--"].iter().any(|word| text.contains(word))
}

/// Checks the line `#!INTERPRETER` of a script.
fn interpreter(path: &Path, line: &[u8]) -> Result<(), String> {
    let shown = path.display();
    let Some(rest) = line.strip_prefix(b"#!") else {
        let is_text =
            !line.is_empty() && line.iter().all(|b| matches!(b, b'\t' | b'\r' | b' '..=b'~' | 128..));
        return if is_text {
            Err(format!("program {shown}: a text without an interpreter: add a first line such as #!/bin/sh"))
        } else {
            Ok(())
        };
    };
    if line.ends_with(b"\r") {
        return Err(format!("program {shown}: the line ends are those of Windows (CR LF): save it with LF"));
    }
    let rest = String::from_utf8_lossy(rest);
    let mut words = rest.split_whitespace();
    let mut program = words.next().unwrap_or_default();
    let mut exists = Path::new(program).is_file();
    // `env` searches the interpreter in PATH.
    let searched = words.find(|word| !word.starts_with('-') && !word.contains('='));
    if let Some(searched) = searched.filter(|_| exists && program.ends_with("/env")) {
        program = searched;
        exists = find_program(program, Path::new("/")).is_some();
    }
    if exists { Ok(()) } else { Err(format!("program {shown}: its interpreter {program:?} does not exist")) }
}
