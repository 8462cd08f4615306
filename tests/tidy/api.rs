//! Snapshot of the public API. A change of the API is a change of `tests/tidy/api.txt`, which
//! reviewers see.
//!
//! `UPDATE_API=1 cargo test --test tidy api` writes the file. The lint `unreachable_pub` rejects a
//! `pub` that users cannot reach, so every `pub` item is part of the API, with any features.

use std::fs;
use std::path::{Path, PathBuf};

/// Keywords that start an item; anything else after `pub` is a field.
const ITEMS: [&str; 9] = ["fn", "struct", "enum", "trait", "type", "const", "static", "mod", "use"];

/// Joins the lines of a declaration into one, without its body and comments.
fn declaration(lines: &[&str]) -> String {
    let mut text = String::new();
    let mut depth = 0_i32;
    for line in lines.iter().map(|line| line.trim()).filter(|line| !line.starts_with("//")) {
        if !text.is_empty() && !text.ends_with(['(', '<']) && !line.starts_with([')', '>']) {
            text.push(' ');
        }
        text.push_str(line);
        depth += line.matches(['(', '[']).count() as i32 - line.matches([')', ']']).count() as i32;
        if depth <= 0 && line.ends_with(['{', ';', '}', ',']) {
            break;
        }
    }
    let text = text.trim_end_matches(['{', ';', ',', ' ']);
    text.replace(",)", ")").replace(", )", ")").replace(",>", ">").to_owned()
}

/// Public items of one file, each with its module and type.
fn items(module: &str, text: &str, found: &mut Vec<String>) {
    let lines: Vec<&str> =
        text.lines().take_while(|line| *line != "#[cfg(test)]" || !text.contains("mod tests {")).collect();
    // Enclosing items of the line: indentation, name, and true if their members are public without
    // `pub`.
    let mut open: Vec<(usize, String, bool)> = Vec::new();
    let mut hidden = false;
    for (at, line) in lines.iter().enumerate() {
        let indent = line.len() - line.trim_start().len();
        let word = line.trim_start();
        if word.is_empty() || word.starts_with("//") {
            continue;
        }
        if word.starts_with("#[") {
            hidden |= word == "#[cfg(test)]" || word == "#[doc(hidden)]";
            continue;
        }
        open.retain(|(level, _, _)| *level < indent);
        let place = |open: &[(usize, String, bool)]| {
            let types: Vec<&str> = open.iter().map(|(_, name, _)| &**name).collect();
            [&[module], &types[..]].concat().join("::")
        };
        let within = open.last().is_some_and(|(level, _, all)| *all && *level + 4 == indent);
        let ended = word.starts_with(['}', ')', ']']);
        let item = word.split([' ', '<', '(']).nth(1).is_some_and(|second| ITEMS.contains(&second));
        // A field is public if its struct is.
        let public = word.starts_with("pub ") && (item || !open.is_empty()) || within && !ended;
        if public && !hidden {
            let text = declaration(&lines[at..]);
            found.push(format!("{} {text}", place(&open)));
        }
        if word.ends_with('{') {
            let name =
                |of: &str| of.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
            let after = |key: &str| word.strip_prefix(key).map(name);
            if let Some(name) = after("pub enum ").or_else(|| after("pub trait ")) {
                open.push((indent, name, !hidden));
            } else if let Some(name) = after("pub struct ").or_else(|| after("pub mod ")) {
                open.push((indent, name, false));
            } else if word.starts_with("impl") && !word.contains(" for ") {
                let of = word.trim_start_matches("impl").trim_end_matches('{').trim();
                open.push((indent, of.to_owned(), false));
            }
        }
        hidden = false;
    }
}

fn api() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut folders: Vec<PathBuf> = vec![root.clone()];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if path.is_dir() {
                if !["tests", "bin", "manual"].contains(&name) {
                    folders.push(path);
                }
            } else if name.ends_with(".rs") && !["tests.rs", "fuzzing.rs"].contains(&name) {
                // Users name public modules; private files may move.
                let module = path.strip_prefix(&root).unwrap().with_extension("");
                let module = module.iter().next().unwrap().to_str().unwrap();
                let module = if ["json", "lint", "record", "schema", "stderr"].contains(&module) {
                    module
                } else {
                    "tinymcp"
                };
                items(module, &fs::read_to_string(&path).unwrap(), &mut found);
            }
        }
    }
    found.sort();
    found.dedup();
    found.join("\n") + "\n"
}

#[test]
fn the_public_api_equals_the_snapshot() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tidy/api.txt");
    let now = api();
    assert!(now.lines().count() > 300, "no API found");
    if std::env::var_os("UPDATE_API").is_some() {
        fs::write(&path, &now).unwrap();
    }
    let snapshot = fs::read_to_string(&path).unwrap_or_default();
    let missing = |from: &str, of: &str, sign: char| -> Vec<String> {
        let known: std::collections::BTreeSet<&str> = of.lines().collect();
        from.lines().filter(|line| !known.contains(line)).map(|line| format!("{sign} {line}")).collect()
    };
    let difference = [missing(&snapshot, &now, '-'), missing(&now, &snapshot, '+')].concat();
    assert!(
        difference.is_empty() && snapshot == now,
        "the public API changed; if this is intended, run UPDATE_API=1 cargo test --features full --test tidy api\n{}",
        difference.join("\n")
    );
}
