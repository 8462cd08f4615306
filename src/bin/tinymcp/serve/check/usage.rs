//! Checks of the arguments of a tool against their uses, and of texts that only a shell replaces.

use std::cell::RefCell;

use tinymcp::json::{Doc, Json, Value};

use super::super::definition::{Mode, Stdin, ToolDefinition};
use super::super::read::script;
use super::super::template::Text;
use super::super::words;
use super::arguments::{EXPRESSIONS, command};

/// Texts that have a meaning only for a shell.
const OPERATORS: &str = "| || && & > >> < ;";

/// Variables that people expect to be replaced.
const VARIABLES: &str = "HOME USER PWD PATH TMPDIR HOSTNAME";

/// Programs that do not read patterns of file names themselves.
const FILES: &str = "cat chmod chown cp du file head ls md5sum mv rm sha256sum sort stat tail touch uniq wc";

/// Warns of arguments that are not used, of lists, and of texts for a shell.
pub(super) fn check(tool: &ToolDefinition, warn: &mut dyn FnMut(String)) {
    for (name, value) in &tool.program.env {
        if let Some(variable) = variables(value).find(|name| words::has(VARIABLES, name)) {
            warn(format!("variable {name}: `${variable}` is not replaced: write `${{{variable}}}`"));
        }
    }
    shell_texts(tool, warn);
    let schema = tool.tool.input_schema.as_ref().map_or_else(Doc::default, Json::to_doc);
    let Some(properties) = schema.root().get("properties") else { return };
    for (name, property) in properties.members().filter(|(_, property)| property.get("default").is_none()) {
        let description = property.get("description").and_then(Value::as_str).unwrap_or_default();
        if let Some((_, value)) = description.rsplit_once(" = ").filter(|(_, value)| !value.contains(' ')) {
            warn(format!(
                "the description of `{name}` ends with \"= {value}\", which is not a default: write TYPE RANGE = \
                 DEFAULT - DESCRIPTION"
            ));
        }
    }
    let Mode::PerCall { stdin, .. } = &tool.mode else { return };
    let elements = tool.program.argv.elements();
    for element in elements {
        kinds(element, properties, warn);
    }
    let stdin = match stdin {
        Stdin::Json => return,
        Stdin::Text(text) => Some(text),
        Stdin::None => None,
    };
    let uses = |text: &Text, name: &str| text.names().any(|used| used == name);
    let is_used = |name: &str| {
        elements.iter().any(|text| uses(text, name))
            || stdin.is_some_and(|text| uses(text, name))
            || tool.confirm.as_ref().is_some_and(|text| uses(text, name))
    };
    for (name, _) in properties.members().filter(|(name, _)| !is_used(name)) {
        warn(format!(
            "the argument `{name}` is not used: write {{{name}}} in `run` or `stdin`, or remove it"
        ));
    }
}

/// Compares the placeholders of an element with the types of their arguments.
fn kinds(element: &Text, properties: Value<'_>, warn: &mut dyn FnMut(String)) {
    let kind = |name: &str| properties.get(name)?.get("type")?.as_str();
    for name in element.names() {
        let is_flag = element.flags().any(|flag| flag == name);
        match kind(name) {
            Some("boolean") | None if is_flag => {}
            Some(_) if is_flag => {
                warn(format!("`{{?{name}:TEXT}}` requires a boolean, and `{name}` is not one"));
            }
            Some("array") if element.spread().is_none() => {
                warn(format!("`{name}` is a list: write `{{{name}...}}`, one argument for each item"));
            }
            Some(other) if other != "array" && element.spread().is_some() => {
                warn(format!("`{name}` is not a list: write `{{{name}}}` without `...`"));
            }
            _ => {}
        }
    }
}

/// Warns of texts outside scripts that a shell would replace.
fn shell_texts(tool: &ToolDefinition, warn: &mut dyn FnMut(String)) {
    let elements = tool.program.argv.elements();
    let words: Vec<&str> = elements.iter().map(|element| element.literal().unwrap_or_default()).collect();
    let scripts = RefCell::new(Vec::new());
    script::find(&words, &|at| {
        scripts.borrow_mut().push(at);
        false
    });
    let program = words.get(command(&words)).map_or("", |word| script::name(word));
    for (at, element) in elements.iter().enumerate().skip(1) {
        if scripts.borrow().contains(&at) {
            continue;
        }
        let text = element.leading_literal();
        let is_literal = element.literal().is_some();
        let is_operator = is_literal && (words::has(OPERATORS, text) || text.starts_with(">>"))
            || at + 1 == elements.len() && text.trim_start_matches(['1', '2', '&']).starts_with(['<', '>']);
        let is_pattern = text.contains('*') && !text.starts_with('-') && words::has(FILES, program);
        let is_go =
            is_literal && !text.contains("{{") && ["{.", "{json ."].iter().any(|start| text.contains(start));
        let cure = if is_operator && !words::has(EXPRESSIONS, program) || is_pattern {
            "start a shell, see `Shell scripts` in the manual"
        } else if is_expanded(text) {
            "write its value, or start a shell"
        } else if !is_literal && text.ends_with('$') {
            "write the argument without `$`"
        } else if is_go {
            "write each brace of a Go template twice, such as {{{{.Names}}}}"
        } else {
            continue;
        };
        let why = if is_go { "" } else { ", because no shell runs" };
        let name = element.names().next().map(|name| format!("{{{name}}}")).unwrap_or_default();
        warn(format!("argument {at} of the command line, \"{text}{name}\", is passed as it is{why}: {cure}"));
    }
}

/// Returns whether a shell would replace a part of this text.
fn is_expanded(text: &str) -> bool {
    let is_home = text.strip_prefix('~').is_some_and(|rest| {
        rest.split('/').next().is_some_and(|user| user.bytes().all(|b| b.is_ascii_lowercase()))
    });
    let is_command = text.contains("$(") || text.len() > 1 && text.starts_with('`') && text.ends_with('`');
    // `$ENV` belongs to jq.
    is_home || is_command || variables(text).any(|name| name != "ENV")
}

/// Returns the names in capital letters after `$` or `${`.
fn variables(text: &str) -> impl Iterator<Item = &str> {
    text.split('$').skip(1).filter_map(|rest| {
        let rest = rest.strip_prefix('{').unwrap_or(rest);
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        let is_variable = |name: &&str| {
            name.starts_with(|c: char| c.is_ascii_uppercase())
                && !name.contains(|c: char| c.is_ascii_lowercase())
        };
        rest.get(..end).filter(is_variable)
    })
}
