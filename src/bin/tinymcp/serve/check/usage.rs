//! Checks of the arguments of a tool against their uses, and of texts that only a shell replaces.

use std::cell::RefCell;

use tinymcp::json::{Doc, Json, Value};

use super::super::definition::{Mode, Stdin, ToolDefinition};
use super::super::read::script;
use super::super::template::Text;
use super::super::words;
use super::arguments::{EXPRESSIONS, command};

/// Texts that have a meaning only for a shell.
const OPERATORS: &str = "| || && & > >> < 2>&1 2>/dev/null ;";

/// Variables that people expect to be replaced.
const VARIABLES: &str = "HOME USER PWD PATH TMPDIR HOSTNAME";

/// Programs that do not read patterns of file names themselves.
const FILES: &str = "cat chmod chown cp du file head ls md5sum mv rm sha256sum sort stat tail touch uniq wc";

/// Warns of arguments that are not used, of lists, and of texts for a shell.
pub(super) fn check(tool: &ToolDefinition, warn: &mut dyn FnMut(String)) {
    for (name, value) in &tool.program.env {
        if let Some(variable) = VARIABLES.split(' ').find(|v| has_variable(value, v)) {
            warn(format!("variable {name}: `${variable}` is not replaced: write `${{{variable}}}`"));
        }
    }
    shell_texts(tool, warn);
    let Mode::PerCall { stdin, .. } = &tool.mode else { return };
    let schema = tool.tool.input_schema.as_ref().map_or_else(Doc::default, Json::to_doc);
    let Some(properties) = schema.root().get("properties") else { return };
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
        let is_operator = element.literal().is_some_and(|text| words::has(OPERATORS, text));
        let is_pattern = text.contains('*') && !text.starts_with('-') && words::has(FILES, program);
        let cure = if is_operator && !words::has(EXPRESSIONS, program) || is_pattern {
            "start a shell, see `Shell scripts` in the manual"
        } else if text == "~" || text.starts_with("~/") || VARIABLES.split(' ').any(|v| has_variable(text, v))
        {
            "write the path itself, or start a shell"
        } else {
            continue;
        };
        warn(format!(
            "argument {at} of the command line, {text:?}, is passed as it is, because no shell runs: {cure}"
        ));
    }
}

/// Returns whether a text contains `$NAME` or `${NAME}`.
fn has_variable(text: &str, name: &str) -> bool {
    text.split('$').skip(1).any(|rest| {
        let rest = rest.strip_prefix('{').unwrap_or(rest);
        rest.strip_prefix(name)
            .is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_'))
    })
}
