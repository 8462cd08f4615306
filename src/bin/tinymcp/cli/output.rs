//! Output of results: text or JSON, the whole or a part, on standard output or to a file.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;

use tinymcp::json::Value;

use super::args::Args;
use super::failure::{FAILED, Failure, Result};
use super::print;
use crate::escape::{plain, push_json};
use crate::out;

/// Spaces of each level of indented JSON.
const INDENT: usize = 2;

/// Form and place of results.
pub(crate) struct Output {
    form: Form,
    field: Option<String>,
    file: Option<(PathBuf, RefCell<Option<File>>)>,
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
    /// Reads the options. The file is replaced by the first output.
    pub(crate) fn new(args: &Args) -> Result<Output> {
        let (text, json) = (args.has("text"), args.has("json") || args.has("raw") || args.has("pretty"));
        if text && json {
            return Err("--text excludes --json, --raw and --pretty".into());
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
        let file = args.output.clone().map(|path| (path, RefCell::default()));
        Ok(Output { form, field, file })
    }

    /// Returns whether whole results are printed as text.
    pub(crate) fn is_text(&self) -> bool {
        self.form == Form::Text && self.field.is_none()
    }

    /// Returns whether only a part of results is printed.
    pub(crate) fn is_part(&self) -> bool {
        self.field.is_some()
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
            return Err(Failure::new(FAILED, message));
        };
        match (self.form, value.as_str()) {
            (Form::Text, Some(text)) => self.write(&format!("{}\n", plain(text))),
            _ => self.json(value),
        }
    }

    fn json(&self, value: Value<'_>) -> Result<()> {
        let mut text = json(value, self.form == Form::Pretty);
        text.push('\n');
        self.write(&text)
    }

    /// Writes text as it is.
    pub(crate) fn write(&self, text: &str) -> Result<()> {
        let Some((path, file)) = &self.file else { return Ok(out(text.as_bytes())?) };
        let mut file = file.borrow_mut();
        let written = match &mut *file {
            Some(file) => file.write_all(text.as_bytes()),
            none => File::create(path).and_then(|file| none.insert(file).write_all(text.as_bytes())),
        };
        Ok(written.map_err(|e| format!("{}: {e}", path.display()))?)
    }
}

/// Returns JSON on one line or indented. Characters that would control a terminal are escaped in
/// strings. Does not recurse: a server may nest deeply.
fn json(value: Value<'_>, is_indented: bool) -> String {
    let mut text = String::new();
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    let mut characters = value.raw().chars().peekable();
    let is_blank = |c: &char| matches!(c, ' ' | '\t' | '\r' | '\n');
    while let Some(c) = characters.next() {
        if in_string {
            push_json(&mut text, c);
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
                while characters.next_if(is_blank).is_some() {}
                match characters.next_if(|c| matches!(c, '}' | ']')) {
                    Some(end) => text.push(end),
                    None => {
                        depth += 1;
                        line(&mut text, depth, is_indented);
                    }
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                line(&mut text, depth, is_indented);
                text.push(c);
            }
            ',' => {
                text.push(c);
                line(&mut text, depth, is_indented);
            }
            ':' if is_indented => text.push_str(": "),
            c if is_blank(&c) => {}
            c => text.push(c),
        }
    }
    text
}

fn line(text: &mut String, depth: usize, is_indented: bool) {
    if is_indented {
        text.push('\n');
        text.extend(std::iter::repeat_n(' ', depth * INDENT));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tinymcp::json::{Doc, Kind};

    use super::json;

    #[test]
    fn json_is_indented_or_on_one_line() {
        let doc = Doc::parse("{\"a\" :[1,\t{ } , [ ]],\r\n\"b{\":\"x\\\" ,:[\"}").unwrap();
        assert_eq!(
            json(doc.root(), true),
            "{\n  \"a\": [\n    1,\n    {},\n    []\n  ],\n  \"b{\": \"x\\\" ,:[\"\n}"
        );
        assert_eq!(json(doc.root(), false), "{\"a\":[1,{},[]],\"b{\":\"x\\\" ,:[\"}");
        assert_eq!(Doc::parse(json(doc.root(), true)).unwrap().root().kind(), Kind::Object);
    }

    #[test]
    fn no_string_controls_a_terminal() {
        let doc = Doc::parse("\"\u{9b}\u{202e}\u{e0041}é\"").unwrap();
        let text = json(doc.root(), false);
        assert_eq!(text, "\"\\u009b\\u202e\\udb40\\udc41é\"");
        assert_eq!(Doc::parse(&text).unwrap().root().as_str(), doc.root().as_str());
    }
}
