//! Public structs, enums and traits have an example, or a link to an item with one.

use std::collections::BTreeSet;
use std::path::Path;

/// An item with its documentation.
struct Item<'s> {
    /// File and line.
    place: String,
    /// `Type`, `Type::method`, `function`, or the name of a module.
    name: String,
    /// A type that must have an example or a link to one.
    is_type: bool,
    docs: Vec<&'s str>,
}

impl Item<'_> {
    fn has_example(&self) -> bool {
        self.docs.iter().any(|line| line.trim_start().starts_with("```"))
    }

    /// Names of linked items, without the path of their module.
    fn links(&self, module: &str, parent: &str) -> Vec<String> {
        let text = self.docs.join("\n");
        let quoted = text.split("[`").skip(1).filter_map(|rest| rest.split("`]").next());
        let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        let mut found = Vec::new();
        for target in quoted.chain(targets) {
            let target = target.trim_end_matches(['(', ')', '!']);
            let target = match target {
                "self" => module,
                "super" => parent,
                other => other,
            };
            let parts: Vec<&str> = target.split("::").collect();
            found.extend(parts.last().map(|last| (*last).to_owned()));
            found.extend(parts.last_chunk::<2>().map(|[owner, name]| format!("{owner}::{name}")));
        }
        found
    }
}

fn word(text: &str) -> String {
    text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

/// The type of an `impl` line, without parameters.
fn implemented(line: &str) -> Option<String> {
    let rest = line.strip_prefix("impl")?;
    let rest = if rest.starts_with('<') { rest.split_once("> ")?.1 } else { rest.trim_start() };
    Some(word(rest))
}

/// Documented items of a file: types, functions, macros, and the module itself.
fn items<'s>(path: &str, module: &str, text: &'s str) -> Vec<Item<'s>> {
    let of_module: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("//!")).collect();
    let module = Item { place: path.to_owned(), name: module.to_owned(), is_type: false, docs: of_module };
    let mut found = vec![module];
    let (mut docs, mut hidden, mut attribute) = (Vec::new(), false, false);
    let mut owner = String::new();
    for (at, line) in text.lines().enumerate().take_while(|(_, line)| *line != "mod tests {") {
        let code = line.trim_start();
        if let Some(doc) = code.strip_prefix("///") {
            docs.push(doc);
            continue;
        }
        if attribute || code.starts_with("#[") {
            attribute = !code.ends_with(']');
            // A long example may be in a file of its own.
            if code.starts_with("#[doc = include_str!(") {
                docs.push("```");
            }
            hidden |= code == "#[doc(hidden)]" || code == "#[cfg(test)]";
            continue;
        }
        if let Some(name) = implemented(line) {
            owner = name;
        } else if line == "}" {
            owner.clear();
        }
        let declared = |key: &str| code.strip_prefix(key).map(word);
        let ty = ["pub struct ", "pub enum ", "pub trait "].into_iter().find_map(declared);
        let function = ["pub fn ", "pub const fn ", "macro_rules! "].into_iter().find_map(declared);
        let is_type = ty.is_some();
        if let Some(name) = ty.or(function).filter(|_| !hidden) {
            let name = if is_type || owner.is_empty() { name } else { format!("{owner}::{name}") };
            let place = format!("{path}:{}", at + 1);
            found.push(Item { place, name, is_type, docs: std::mem::take(&mut docs) });
        }
        docs.clear();
        hidden = false;
    }
    found
}

#[test]
fn public_types_have_an_example_or_a_link_to_one() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let sources = super::sources();
    let library = sources.iter().filter(|s| s.module != "bin" && s.module != "manual" && !super::is_test(s));
    let mut all = Vec::new();
    for source in library {
        let path = source.path.strip_prefix(root).unwrap().to_str().unwrap();
        let mut names: Vec<&str> = path.trim_end_matches(".rs").split('/').collect();
        names.retain(|name| *name != "mod");
        let parent = names.len().checked_sub(2).map_or("", |parent| names[parent]);
        let module = names.last().copied().unwrap_or_default();
        all.extend(items(path, module, &source.text).into_iter().map(|item| (item, module, parent)));
    }
    let examples: BTreeSet<&str> =
        all.iter().filter(|(item, ..)| item.has_example()).map(|(item, ..)| item.name.as_str()).collect();
    let types = || all.iter().filter(|(item, ..)| item.is_type);
    assert!(types().count() > 100, "no types found");
    let without: Vec<String> = types()
        .filter(|(item, ..)| !item.has_example())
        .filter(|(item, module, parent)| {
            !item.links(module, parent).iter().any(|link| examples.contains(link.as_str()))
        })
        .map(|(item, ..)| {
            format!("{}: {} has no example and no link to an item with one", item.place, item.name)
        })
        .collect();
    super::report(without);
}
