//! Command `new`: a server project that compiles as it is.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use tinymcp::stderr;

use super::args::Args;
use super::failure::Result;
use crate::escape::plain;

/// Files of a project, with their contents.
const FILES: [(&str, &str); 4] = [
    ("Cargo.toml", include_str!("template/Cargo.toml.txt")),
    ("src/main.rs", include_str!("template/main.rs.txt")),
    ("tests/server.rs", include_str!("template/server.rs.txt")),
    (".gitignore", "/target\n"),
];
/// Names that cargo does not accept, or that the library needs.
const RESERVED: [&str; 7] = ["tinymcp", "test", "build", "deps", "examples", "incremental", "core"];

/// Runs the command. Returns the exit status.
pub(crate) fn run(args: &Args) -> Result<u8> {
    let words = args.words()?;
    let [folder] = words.as_slice() else {
        return Err("expected the name of the project; see `tinymcp help new`".into());
    };
    let folder = Path::new(folder);
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    check(name)?;
    let library = args.path.as_deref().map(library).transpose()?;
    fs::create_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    for (file, template) in FILES {
        let path = folder.join(file);
        let text = template
            .replace("{TEST_LIBRARY}", &dependency(library.as_deref(), &["client"]))
            .replace("{LIBRARY}", &dependency(library.as_deref(), &[]))
            .replace("{NAME}", name);
        write(&path, &text).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    if !args.has("quiet") {
        let shown = plain(&folder.display().to_string());
        stderr::write(format!(
            "tinymcp: created {shown}; next: cd {shown} && cargo test, then\n\
             tinymcp call greet name=Ada -- cargo run --quiet\n"
        ));
    }
    Ok(0)
}

fn write(path: &Path, text: &str) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    File::create_new(path)?.write_all(text.as_bytes())
}

/// Checks the name of a package.
fn check(name: &str) -> Result<()> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic());
    if !starts || !name.chars().all(is_plain) {
        return Err(format!(
            "invalid name {name:?}: allowed are A-Z a-z 0-9 _ -, and the first must be a letter"
        )
        .into());
    }
    if RESERVED.contains(&name) {
        return Err(format!("the name {name:?} is reserved; choose another one").into());
    }
    Ok(())
}

/// Returns the absolute path of the library.
fn library(path: &Path) -> Result<PathBuf> {
    let found = path.canonicalize().map_err(|e| format!("--path: {}: {e}", path.display()))?;
    let manifest = fs::read_to_string(found.join("Cargo.toml")).unwrap_or_default();
    if !manifest.contains("name = \"tinymcp\"") {
        return Err(format!("--path: {} is not a checkout of tinymcp", path.display()).into());
    }
    Ok(found)
}

/// Returns the value of a dependency in `Cargo.toml`.
fn dependency(library: Option<&Path>, features: &[&str]) -> String {
    let mut parts = vec![match library {
        // A Rust string literal of these characters is also a TOML string.
        Some(path) => format!("path = {:?}", path.to_string_lossy()),
        None => format!("version = {:?}", env!("CARGO_PKG_VERSION")),
    }];
    if !features.is_empty() {
        parts.push(format!("features = {features:?}"));
    }
    format!("{{ {} }}", parts.join(", "))
}
