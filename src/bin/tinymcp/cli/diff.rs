//! Command `diff`: changes of what a server offers, since a saved list or between two of them.
//!
//! A server that changes the description of a tool after its user has approved it can mislead a
//! model. `tinymcp list` saves what was approved, `diff` reports what differs now.

use std::collections::HashMap;
use std::path::Path;

use tinymcp::json::{Doc, Kind, Value, Writer};

use super::args::Args;
use super::failure::{FAILED, Result};
use super::output::Output;
use super::schema::Input;
use super::{connect, json_error, lists, read};
use crate::escape::one_line;

/// Lists of a catalog, the noun for an entry, and the member that identifies it.
const LISTS: [(&str, &str, &str); 4] = [
    ("tools", "tool", "name"),
    ("resources", "resource", "uri"),
    ("resourceTemplates", "template", "uriTemplate"),
    ("prompts", "prompt", "name"),
];
/// Characters of a value that a line shows.
const SHOWN: usize = 200;

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
    let mut changes = Vec::new();
    for (list, noun, key) in LISTS {
        // What was not saved is not compared.
        if let Some(saved) = entries(before.root(), list) {
            compare(&mut changes, (noun, key), saved, entries(after.root(), list));
        }
    }
    // Without a difference the file is empty, too.
    output.write("")?;
    for change in &changes {
        output.write(&if output.is_text() { change.text() } else { change.json() })?;
    }
    Ok(if changes.is_empty() { 0 } else { FAILED })
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

fn entries<'d>(catalog: Value<'d>, list: &str) -> Option<Value<'d>> {
    catalog.get(list).filter(|entries| entries.kind() == Kind::Array)
}

/// A difference between two catalogs.
struct Change<'d> {
    noun: &'static str,
    name: &'d str,
    /// Place inside the entry; empty for the whole entry.
    pointer: String,
    before: Option<Value<'d>>,
    after: Option<Value<'d>>,
}

fn compare<'d>(
    changes: &mut Vec<Change<'d>>,
    (noun, key): (&'static str, &str),
    before: Value<'d>,
    after: Option<Value<'d>>,
) {
    let name = |entry: Value<'d>| entry.get(key).and_then(Value::as_str).unwrap_or_default();
    let named = |entries: Value<'d>| -> HashMap<&str, Value<'d>> {
        entries.items().map(|entry| (name(entry), entry)).collect()
    };
    let (saved, offered) = (named(before), after.map(named).unwrap_or_default());
    for entry in before.items() {
        let name = name(entry);
        match offered.get(name) {
            None => {
                changes.push(Change { noun, name, pointer: String::new(), before: Some(entry), after: None });
            }
            Some(now) => differences(entry, *now, String::new(), &mut |pointer, before, after| {
                changes.push(Change { noun, name, pointer, before, after });
            }),
        }
    }
    for entry in after.into_iter().flat_map(Value::items) {
        let name = name(entry);
        if !saved.contains_key(name) {
            changes.push(Change { noun, name, pointer: String::new(), before: None, after: Some(entry) });
        }
    }
}

/// Reports each difference of two values. The order of members does not count. Recurses as deep as
/// the parser permits.
pub(crate) fn differences<'d>(
    before: Value<'d>,
    after: Value<'d>,
    pointer: String,
    report: &mut dyn FnMut(String, Option<Value<'d>>, Option<Value<'d>>),
) {
    if before.kind() != after.kind() {
        return report(pointer, Some(before), Some(after));
    }
    let inner = |token: &str| format!("{pointer}/{}", token.replace('~', "~0").replace('/', "~1"));
    match before.kind() {
        Kind::Object => {
            for (name, value) in before.members() {
                match after.get(name) {
                    Some(now) => differences(value, now, inner(name), report),
                    None => report(inner(name), Some(value), None),
                }
            }
            for (name, value) in after.members().filter(|(name, _)| before.get(name).is_none()) {
                report(inner(name), None, Some(value));
            }
        }
        Kind::Array if before.len() == after.len() => {
            for (at, (value, now)) in before.items().zip(after.items()).enumerate() {
                differences(value, now, inner(&at.to_string()), report);
            }
        }
        Kind::String if before.as_str() == after.as_str() => {}
        _ if before.raw() == after.raw() => {}
        _ => report(pointer, Some(before), Some(after)),
    }
}

/// Formats a value, shortened.
pub(crate) fn shown(value: Option<Value<'_>>) -> String {
    match value {
        None => "nothing".to_owned(),
        Some(value) if value.raw().chars().count() > SHOWN => {
            value.raw().chars().take(SHOWN).chain(['…']).collect()
        }
        Some(value) => value.raw().to_owned(),
    }
}

impl Change<'_> {
    fn text(&self) -> String {
        let Change { noun, name, pointer, .. } = self;
        let signature = |entry: Value<'_>| match *noun {
            "tool" => entry.get("inputSchema").map(|schema| Input(schema).signature()).unwrap_or_default(),
            _ => String::new(),
        };
        let line = match (self.before, self.after) {
            (Some(entry), None) if pointer.is_empty() => format!("- {noun} {name}{}", signature(entry)),
            (None, Some(entry)) if pointer.is_empty() => format!("+ {noun} {name}{}", signature(entry)),
            (before, after) => {
                format!("~ {noun} {name} {pointer}: {} is now {}", shown(before), shown(after))
            }
        };
        format!("{}\n", one_line(&line))
    }

    fn json(&self) -> String {
        let mut w = Writer::new();
        w.begin_object().key("kind").string(self.noun).key("name").string(self.name);
        w.key("pointer").string(&self.pointer);
        for (name, value) in [("before", self.before), ("after", self.after)] {
            if let Some(value) = value {
                w.key(name).value(value);
            }
        }
        w.end_object().newline();
        w.as_str().to_owned()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn changed(before: &str, after: &str) -> Vec<String> {
        let (before, after) = (Doc::parse(before).unwrap(), Doc::parse(after).unwrap());
        let mut changes = Vec::new();
        compare(&mut changes, ("tool", "name"), before.root(), Some(after.root()));
        changes.iter().map(Change::text).collect()
    }

    #[test]
    fn entries_are_compared_by_name_and_members_without_order() {
        let before = r#"[{"name":"a","description":"x"},{"name":"b","inputSchema":{"properties":{"p":{"type":"integer"}}}}]"#;
        let after = r#"[{"name":"c"},{"description":"\u0078","name":"a"}]"#;
        assert_eq!(changed(before, before), [""; 0]);
        assert_eq!(changed(before, after), ["- tool b([p: integer])\n", "+ tool c\n"]);
    }

    #[test]
    fn each_difference_has_its_place() {
        let before = r#"[{"name":"a","d":"x","e":[1,2],"f":{"~/":1},"g":1}]"#;
        let after = r#"[{"name":"a","d":"\u001b","e":[1,3],"f":{"~/":true},"h":null}]"#;
        assert_eq!(
            changed(before, after),
            [
                "~ tool a /d: \"x\" is now \"\\u001b\"\n",
                "~ tool a /e/1: 2 is now 3\n",
                "~ tool a /f/~0~1: 1 is now true\n",
                "~ tool a /g: 1 is now nothing\n",
                "~ tool a /h: nothing is now null\n",
            ]
        );
    }
}
