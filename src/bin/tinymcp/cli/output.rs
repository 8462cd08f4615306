//! Output of results: text or JSON, the whole or a part, on standard output or to a file.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, IsTerminal, Write};

use tinymcp::json::Value;

use super::args::Args;
use super::failure::{FAILED, Failure, Result};
use super::print;
use crate::escape::plain;
use crate::out;

/// Spaces of each level of indented JSON.
const INDENT: usize = 2;

/// Form and place of results.
pub(crate) struct Output {
    form: Form,
    field: Option<String>,
    file: Option<RefCell<File>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Text,
    /// One line.
    Json,
    /// Indented.
    Pretty,
}

impl Output {
    /// Reads the options, and creates the file.
    pub(crate) fn new(args: &Args) -> Result<Output> {
        let (text, json) = (args.has("text"), args.has("json") || args.has("pretty"));
        if text && json {
            return Err("--text excludes --json and --pretty".into());
        }
        let field = match (&args.field, args.has("structured")) {
            (Some(_), true) => return Err("--field and --structured exclude each other".into()),
            (None, true) => Some("/structuredContent".to_owned()),
            (field, _) => field.clone(),
        };
        let is_terminal = args.output.is_none() && io::stdout().is_terminal();
        let form = match () {
            () if args.has("pretty") => Form::Pretty,
            () if text || !json && (is_terminal || args.field.is_some()) => Form::Text,
            () => Form::Json,
        };
        let file = args
            .output
            .as_ref()
            .map(|path| File::create(path).map(RefCell::new).map_err(|e| format!("{}: {e}", path.display())));
        Ok(Output { form, field, file: file.transpose()? })
    }

    /// Returns whether results are printed as text.
    pub(crate) fn is_text(&self) -> bool {
        self.form == Form::Text
    }

    /// Prints a result.
    pub(crate) fn print(&self, result: Value<'_>) -> Result<()> {
        let Some(pointer) = &self.field else {
            return match self.form {
                Form::Text => self.write(&print::result(result)),
                _ => self.json(result),
            };
        };
        let Some(value) = result.pointer(pointer) else {
            let names: Vec<&str> = result.members().map(|(name, _)| name).collect();
            let message = format!("the result has no {pointer}; it has {}", plain(&names.join(", ")));
            return Err(Failure { status: FAILED, message });
        };
        match (self.form, value.as_str()) {
            (Form::Text, Some(text)) => self.write(&format!("{}\n", plain(text))),
            _ => self.json(value),
        }
    }

    fn json(&self, value: Value<'_>) -> Result<()> {
        let mut text = String::new();
        match self.form {
            Form::Pretty => pretty(&mut text, value),
            _ => text.push_str(value.raw()),
        }
        text.push('\n');
        self.write(&text)
    }

    /// Writes text as it is.
    pub(crate) fn write(&self, text: &str) -> Result<()> {
        match &self.file {
            None => Ok(out(text.as_bytes())?),
            Some(file) => Ok(file.borrow_mut().write_all(text.as_bytes()).map_err(|e| e.to_string())?),
        }
    }
}

/// Appends indented JSON. Does not recurse: a server may nest deeply.
fn pretty(text: &mut String, value: Value<'_>) {
    let raw = value.raw();
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    let mut characters = raw.chars().filter(|c| !c.is_ascii_control()).peekable();
    while let Some(c) = characters.next() {
        if in_string {
            text.push(c);
            in_string = escaped || c != '"';
            escaped = !escaped && c == '\\';
            continue;
        }
        match c {
            '"' => {
                in_string = true;
                text.push(c);
            }
            '{' | '[' => {
                text.push(c);
                while characters.peek() == Some(&' ') {
                    characters.next();
                }
                match characters.next_if(|c| matches!(c, '}' | ']')) {
                    Some(end) => text.push(end),
                    None => {
                        depth += 1;
                        line(text, depth);
                    }
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                line(text, depth);
                text.push(c);
            }
            ',' => {
                text.push(c);
                line(text, depth);
            }
            ':' => text.push_str(": "),
            ' ' => {}
            c => text.push(c),
        }
    }
}

fn line(text: &mut String, depth: usize) {
    text.push('\n');
    text.extend(std::iter::repeat_n(' ', depth * INDENT));
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tinymcp::json::{Doc, Kind};

    use super::pretty;

    #[test]
    fn json_is_indented() {
        let doc = Doc::parse("{\"a\" :[1,\t{ } , [ ]],\n\"b{\":\"x\\\" ,:[\"}").unwrap();
        let mut text = String::new();
        pretty(&mut text, doc.root());
        assert_eq!(text, "{\n  \"a\": [\n    1,\n    {},\n    []\n  ],\n  \"b{\": \"x\\\" ,:[\"\n}");
        assert_eq!(Doc::parse(&text).unwrap().root().kind(), Kind::Object);
    }
}
