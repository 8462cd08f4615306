//! Catalogs of servers, and the changes between two of them.
//!
//! A server that changes the description of a tool after its user has approved it can mislead a
//! model. `tinymcp list` or `tinymcp lock` saves the approved catalog; `diff` and `lock --check`
//! report the differences.

pub(crate) mod diff;
pub(crate) mod lock;

use std::collections::HashMap;

use tinymcp::json::{Kind, Value, Writer};

use super::failure::{FAILED, Result};
use super::output::Output;
use super::schema::Input;
use crate::escape::{self, one_line};
use crate::walk::{Step, Walk};

/// Lists of a catalog, the noun for an entry, and the member that identifies it. Only a lock has
/// the list `server`, with the instructions of the server.
const LISTS: [(&str, &str, &str); 5] = [
    ("server", "server", "name"),
    ("tools", "tool", "name"),
    ("resources", "resource", "uri"),
    ("resourceTemplates", "template", "uriTemplate"),
    ("prompts", "prompt", "name"),
];
/// Largest number of characters of a value in a line.
const SHOWN: usize = 200;

/// Prints the differences between two catalogs. Returns the exit status: a failure if there are
/// any.
fn report(output: &Output, before: Value<'_>, after: Value<'_>) -> Result<u8> {
    let mut changes = Vec::new();
    for (list, noun, key) in LISTS {
        // A list that was not saved is not compared.
        if let Some(saved) = entries(before, list) {
            compare(&mut changes, (noun, key), saved, entries(after, list));
        }
    }
    // Creates the output file, which is empty without a difference.
    output.write("")?;
    for change in &changes {
        output.write(&if output.is_text() { change.text() } else { change.json() })?;
    }
    Ok(if changes.is_empty() { 0 } else { FAILED })
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
    // Of entries with the same name, the second is compared with the second: clients may use
    // either.
    let numbered = |entries: Value<'d>| -> Vec<((&'d str, usize), Value<'d>)> {
        let mut seen: HashMap<&str, usize> = HashMap::new();
        let numbered = entries.items().map(|entry| {
            let name = entry.get(key).and_then(Value::as_str).unwrap_or_default();
            let number = seen.entry(name).or_default();
            *number += 1;
            ((name, *number), entry)
        });
        numbered.collect()
    };
    let (before, after) = (numbered(before), after.map(numbered).unwrap_or_default());
    let saved: HashMap<_, _> = before.iter().copied().collect();
    let offered: HashMap<_, _> = after.iter().copied().collect();
    for ((name, number), entry) in before {
        match offered.get(&(name, number)) {
            None => {
                changes.push(Change { noun, name, pointer: String::new(), before: Some(entry), after: None });
            }
            Some(now) => differences(entry, *now, &mut |pointer, before, after| {
                changes.push(Change { noun, name, pointer, before, after });
            }),
        }
    }
    for ((name, number), entry) in after {
        if !saved.contains_key(&(name, number)) {
            changes.push(Change { noun, name, pointer: String::new(), before: None, after: Some(entry) });
        }
    }
}

/// Reports each difference of two values. The order of members does not count.
pub(crate) fn differences<'d>(
    before: Value<'d>,
    after: Value<'d>,
    report: &mut dyn FnMut(String, Option<Value<'d>>, Option<Value<'d>>),
) {
    // A list of pairs instead of recursion: servers choose the nesting.
    let mut open = vec![(String::new(), Some(before), Some(after))];
    while let Some((pointer, before, after)) = open.pop() {
        let (Some(one), Some(other)) = (before, after) else {
            report(pointer, before, after);
            continue;
        };
        let start = open.len();
        let inner = |token: &str| format!("{pointer}/{}", token.replace('~', "~0").replace('/', "~1"));
        match one.kind() {
            kind if kind != other.kind() => report(pointer, before, after),
            Kind::Object => {
                open.extend(one.members().map(|(name, value)| (inner(name), Some(value), other.get(name))));
                let added = other.members().filter(|(name, _)| one.get(name).is_none());
                open.extend(added.map(|(name, value)| (inner(name), None, Some(value))));
            }
            Kind::Array if one.len() == other.len() => {
                let pairs = one.items().zip(other.items()).enumerate();
                open.extend(pairs.map(|(at, (one, other))| (inner(&at.to_string()), Some(one), Some(other))));
            }
            Kind::String if one.as_str() == other.as_str() => {}
            _ if one.raw() == other.raw() => {}
            _ => report(pointer, before, after),
        }
        // In the order of the document: `open` is a stack.
        open.get_mut(start..).unwrap_or_default().reverse();
    }
}

/// Writes a value with sorted members, so that equal values have equal texts, without these members
/// of the value itself.
pub(crate) fn canonical(w: &mut Writer, value: Value<'_>, ignored: &[&str]) {
    let mut walk = Walk::new(value).sorted();
    while let Some(step) = walk.next() {
        match step {
            Step::Key(name) if walk.depth() == 1 && ignored.contains(&name) => walk.skip_value(),
            step => step.write(w),
        }
    }
}

/// Formats a value, shortened.
pub(crate) fn shown(value: Option<Value<'_>>) -> String {
    match value {
        None => "nothing".to_owned(),
        Some(value) if value.raw().chars().count() > SHOWN => {
            value.raw().chars().take(SHOWN).chain("...".chars()).collect()
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
        escape::json(w.as_str())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tinymcp::json::Doc;

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
    fn no_entry_hides_behind_another_of_its_name() {
        let (before, after) = (r#"[{"name":"a"}]"#, r#"[{"name":"a","d":1},{"name":"a"}]"#);
        assert_eq!(changed(before, after), ["~ tool a /d: nothing is now 1\n", "+ tool a\n"]);
        assert_eq!(changed(after, before), ["~ tool a /d: 1 is now nothing\n", "- tool a\n"]);
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
