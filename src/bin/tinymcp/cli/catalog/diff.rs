//! Command `diff`: changes of what a server offers, since a saved list or between two of them.

use std::path::Path;

use tinymcp::json::{Doc, Kind, Writer};

use super::super::args::Args;
use super::super::failure::Result;
use super::super::output::Output;
use super::super::{connect, json_error, lists, read};
use super::{LISTS, entries, report};

/// Runs the command. Returns the exit status.
pub(crate) fn run(args: &Args, output: &Output, words: &[&str]) -> Result<u8> {
    let (before, after) = match (words, args.server.is_given()) {
        ([before, after], false) => (file(before)?, file(after)?),
        ([before], true) => {
            let before = file(before)?;
            let client = connect::connect(connect::builder(args)?, args)?;
            let now = lists::list(&client, &[]);
            let now = now.map_err(|error| lists::request_failure(args, &error, String::new))?;
            (before, now.to_doc())
        }
        _ => return Err("expected a file and a server, or two files; see `tinymcp help diff`".into()),
    };
    report(output, before.root(), after.root())
}

/// Reads a catalog: a result of `tinymcp list`, a JSON-RPC response, or an array of tools.
fn file(path: &str) -> Result<Doc> {
    let path = Path::new(path);
    let text = read(path)?;
    let doc = Doc::parse(&text).map_err(|error| json_error(path, &text, error))?;
    let root = doc.root().get("result").unwrap_or(doc.root());
    if root.kind() == Kind::Array {
        let mut w = Writer::new();
        w.begin_object().key("tools").value(root).end_object();
        return Ok(w.into_json().to_doc());
    }
    if LISTS.iter().all(|(list, ..)| entries(root, list).is_none()) {
        return Err(format!("{}: no list of tools, resources or prompts", path.display()).into());
    }
    Ok(root.to_json().to_doc())
}
