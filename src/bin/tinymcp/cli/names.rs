//! Names that a server offers, and completion with them, of command lines and lines of `shell`.

use tinymcp::json::{Doc, Json};
use tinymcp::{Client, Prompt};

use super::schema::Input;
use super::shell::COMMANDS;
use crate::escape::one_line;

/// Maximum number of candidates that are shown.
const MAX_CANDIDATES: usize = 1000;

/// Names of tools, prompts and resources.
#[derive(Default)]
pub(crate) struct Names {
    tools: Vec<(String, Option<Doc>)>,
    prompts: Vec<(String, Vec<String>)>,
    resources: Vec<String>,
}

impl Names {
    /// Reads the lists that the server declares. A list that cannot be read is empty.
    pub(crate) fn load(client: &Client) -> Names {
        let mut names = Names::default();
        names.load_tools(client);
        names.load_prompts(client);
        names.load_resources(client);
        names
    }

    /// Reads the list that a command needs.
    pub(crate) fn of_command(client: &Client, command: &str) -> Names {
        let mut names = Names::default();
        match command {
            "get" => names.load_prompts(client),
            "read" => names.load_resources(client),
            _ => names.load_tools(client),
        }
        names
    }

    fn load_tools(&mut self, client: &Client) {
        if client.server().capabilities.tools {
            let tools = client.tools().unwrap_or_default().into_iter();
            self.tools =
                tools.map(|tool| (tool.name, tool.input_schema.as_ref().map(Json::to_doc))).collect();
        }
    }

    fn load_prompts(&mut self, client: &Client) {
        if client.server().capabilities.prompts {
            let prompts = client.prompts().unwrap_or_default().into_iter();
            let arguments = |prompt: &Prompt| prompt.arguments.iter().map(|a| a.name.clone()).collect();
            self.prompts = prompts.map(|prompt| (prompt.name.clone(), arguments(&prompt))).collect();
        }
    }

    fn load_resources(&mut self, client: &Client) {
        if client.server().capabilities.resources {
            self.resources = client.resources().unwrap_or_default().into_iter().map(|r| r.uri).collect();
        }
    }

    /// Returns the schema of a tool.
    pub(crate) fn schema(&self, tool: &str) -> Option<Input<'_>> {
        let (_, schema) = self.tools.iter().find(|(name, _)| name == tool)?;
        schema.as_ref().map(|doc| Input(doc.root()))
    }

    /// Returns the start of the last word of a line, and the words that may replace it.
    pub(crate) fn complete(&self, line: &str) -> (usize, Vec<String>) {
        let start = line.rfind(char::is_whitespace).map_or(0, |at| at + 1);
        let (before, last) = line.split_at(start);
        let before: Vec<&str> = before.split_whitespace().collect();
        let mut found = self.candidates(&before, last);
        let is_word = |name: &str| !name.contains(char::is_whitespace) && one_line(name) == name;
        found.retain(|name| name.starts_with(last) && is_word(name.trim_end()));
        found.truncate(MAX_CANDIDATES);
        (start, found)
    }

    /// Returns words that may follow the words of a line.
    pub(crate) fn candidates(&self, before: &[&str], last: &str) -> Vec<String> {
        let tools = || self.tools.iter().map(|(name, _)| format!("{name} "));
        if last.starts_with('-') {
            let options = ["--json", "--raw", "--text", "--pretty", "--field", "--structured", "--output"];
            return options.map(|name| format!("{name} ")).into();
        }
        match before {
            [] => COMMANDS.iter().map(|name| format!("{name} ")).chain(tools()).collect(),
            ["help"] => COMMANDS.iter().map(|name| format!("{name} ")).collect(),
            ["list", ..] => {
                ["tools", "resources", "templates", "prompts"].map(|name| format!("{name} ")).into()
            }
            ["call" | "info"] => tools().collect(),
            ["read"] => self.resources.iter().map(|uri| format!("{uri} ")).collect(),
            ["get"] => self.prompts.iter().map(|(name, _)| format!("{name} ")).collect(),
            ["get", prompt, ..] => {
                let found = self.prompts.iter().find(|(name, _)| name == prompt);
                let names = found.iter().flat_map(|(_, names)| names);
                names.map(|name| format!("{name}=")).collect()
            }
            ["call", tool, ..] | [tool, ..] => self.arguments(tool, last),
        }
    }

    /// Returns the arguments of a tool, or the values of the one that is typed.
    fn arguments(&self, tool: &str, last: &str) -> Vec<String> {
        let Some(input) = self.schema(tool) else { return Vec::new() };
        match last.split_once('=').and_then(|(name, _)| input.argument(name)) {
            Some(argument) => {
                argument.choices().into_iter().map(|value| format!("{}={value} ", argument.name)).collect()
            }
            None => input.arguments().map(|argument| format!("{}=", argument.name)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn lines_are_completed() {
        let schema = r#"{"properties":{"pin":{"type":"integer"},"mode":{"enum":["in","out"]},"on":{"type":"boolean"}}}"#;
        let names = Names {
            tools: vec![
                ("gpio_read".to_owned(), Some(Doc::parse(schema).unwrap())),
                ("gpio_write".to_owned(), None),
                ("evil\u{1b}[2J".to_owned(), None),
                ("evil\u{202e}".to_owned(), None),
                ("evil name".to_owned(), None),
            ],
            prompts: vec![("diagnose".to_owned(), vec!["symptom".to_owned()])],
            resources: vec!["gpio://pin/4".to_owned()],
        };
        for (line, start, expected) in [
            ("gpio_r", 0, &["gpio_read "][..]),
            ("li", 0, &["list "]),
            ("call gpio_", 5, &["gpio_read ", "gpio_write "]),
            ("call  gpio_read p", 16, &["pin="]),
            ("gpio_read pin=4 m", 16, &["mode="]),
            ("gpio_read mode=", 10, &["mode=in ", "mode=out "]),
            ("gpio_read on=t", 10, &["on=true "]),
            ("gpio_read pin=", 10, &[]),
            ("get d", 4, &["diagnose "]),
            ("get diagnose s", 13, &["symptom="]),
            ("read g", 5, &["gpio://pin/4 "]),
            ("list pr", 5, &["prompts "]),
            ("help pi", 5, &["ping "]),
            ("gpio_read --p", 10, &["--pretty "]),
            ("evil", 0, &[]),
            ("gpio_write x", 11, &[]),
        ] {
            let (at, found) = names.complete(line);
            assert_eq!(
                (at, found.iter().map(String::as_str).collect::<Vec<_>>()),
                (start, expected.to_vec()),
                "{line}"
            );
        }
    }
}
