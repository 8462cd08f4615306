//! Command `lock`: a file with the approved catalog of a server, and its comparison with the
//! server.
//!
//! The file has one JSON object for each entry: `kind`, `name`, `sha256`, and `definition` with
//! sorted members and without white space. The digest is that of the definition. The lines are
//! sorted, so that a version control system shows a change as a changed line.
//!
//! Invariant: a file whose digests do not match its definitions is rejected.

use std::fs;
use std::path::Path;

use hmac_sha256::Hash;
use tinymcp::Client;
use tinymcp::json::{Doc, Json, Value, Writer};
use tinymcp::stderr;

use super::super::args::Args;
use super::super::failure::Result;
use super::super::output::Output;
use super::super::{connect, json_error, lists, read};
use super::{LISTS, canonical, entries, report};
use crate::escape::one_line;

/// Runs the command. Returns the exit status.
pub(crate) fn run(args: &Args, output: &Output, words: &[&str]) -> Result<u8> {
    let [path] = words else {
        return Err("expected one file; see `tinymcp help lock`".into());
    };
    let path = Path::new(path);
    let approved = if args.has("check") { Some(load(path)?) } else { None };
    let client = connect::connect(connect::builder(args)?, args)?;
    let catalog = catalog(&client);
    let catalog = catalog.map_err(|error| lists::request_failure(args, &error, String::new))?.to_doc();
    match approved {
        Some(approved) => report(output, approved.to_doc().root(), catalog.root()),
        None => write(args, path, catalog.root()).map(|()| 0),
    }
}

/// Requests the catalog with the instructions of the server.
fn catalog(client: &Client) -> Result<Json, tinymcp::Error> {
    let server = client.server();
    let lists = lists::list(client, &[])?.to_doc();
    let mut w = Writer::new();
    w.begin_object().key("server").begin_array().begin_object();
    w.key("name").string(&server.name);
    if let Some(instructions) = &server.instructions {
        w.key("instructions").string(instructions);
    }
    w.end_object().end_array();
    for (name, list) in lists.root().members() {
        w.key(name).value(list);
    }
    w.end_object();
    Ok(w.into_json())
}

/// Writes the file.
fn write(args: &Args, path: &Path, catalog: Value<'_>) -> Result<()> {
    let (mut text, mut count) = (String::new(), 0);
    for (list, kind, key) in LISTS {
        let name = |entry: Value<'_>| entry.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let entries = entries(catalog, list).into_iter().flat_map(Value::items);
        // Entries with the same name keep their order.
        let mut entries: Vec<(String, Value<'_>)> = entries.map(|entry| (name(entry), entry)).collect();
        entries.sort_by(|(one, _), (other, _)| one.cmp(other));
        for (name, entry) in entries {
            text.push_str(&line(kind, &name, entry));
            count += 1;
        }
    }
    fs::write(path, &text).map_err(|e| format!("{}: {e}", path.display()))?;
    if !args.has("quiet") {
        let entries = if count == 1 { "entry" } else { "entries" };
        let path = one_line(&path.display().to_string());
        stderr::write(format!("tinymcp: {path}: {count} {entries} locked, sha256 {}\n", digest(&text)));
    }
    Ok(())
}

fn line(kind: &str, name: &str, entry: Value<'_>) -> String {
    let mut definition = Writer::new();
    canonical(&mut definition, entry, &[]);
    let mut w = Writer::new();
    w.begin_object().key("kind").string(kind).key("name").string(name);
    w.key("sha256").string(&digest(definition.as_str()));
    w.key("definition").raw(definition.as_str()).end_object().newline();
    w.as_str().to_owned()
}

/// Returns the SHA-256 digest in hexadecimal.
fn digest(text: &str) -> String {
    Hash::hash(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads the file and returns the catalog.
fn load(path: &Path) -> Result<Json> {
    let text = read(path)?;
    let mut lines = Vec::new();
    for (number, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let wrong = |what: &str| format!("{}:{}: {what}", path.display(), number + 1);
        if line.trim_ascii().is_empty() {
            continue;
        }
        let doc = Doc::parse(line).map_err(|error| json_error(path, line, error))?;
        let (kind, saved) = (doc.root().get("kind"), doc.root().get("sha256"));
        let list = LISTS.iter().find(|(_, noun, _)| kind.and_then(Value::as_str) == Some(noun));
        let (Some((list, ..)), Some(definition)) = (list, doc.root().get("definition")) else {
            return Err(wrong("not a line that `tinymcp lock` has written").into());
        };
        let mut w = Writer::new();
        canonical(&mut w, definition, &[]);
        if saved.and_then(Value::as_str) != Some(&digest(w.as_str())) {
            let cure = "the digest does not match the definition; review the server and lock it again";
            return Err(wrong(cure).into());
        }
        lines.push((*list, w.into_json()));
    }
    if lines.is_empty() {
        return Err(
            format!("{}: the file has no entries; write it with `tinymcp lock`", path.display()).into()
        );
    }
    // Lists without entries count, too: a new entry is a change.
    let mut w = Writer::new();
    w.begin_object();
    for (list, ..) in LISTS {
        w.key(list).begin_array();
        for (_, definition) in lines.iter().filter(|(of, _)| *of == list) {
            w.json(definition);
        }
        w.end_array();
    }
    w.end_object();
    Ok(w.into_json())
}
