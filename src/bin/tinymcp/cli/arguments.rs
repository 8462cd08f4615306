//! Arguments of a tool from words of the command line.
//!
//! | word | arguments |
//! |---|---|
//! | `NAME=TEXT` | one; the tool's schema decides whether it is a number, a list, … |
//! | `NAME:=JSON` | one, as JSON |
//! | `NAME@FILE` | one: the text of a file |
//! | `{…}` | the members of a JSON object |
//! | `@FILE` | the members of a JSON object in a file |
//!
//! A list may be given as `NAME=TEXT` for each item.

use std::path::Path;

use tinymcp::json::{Doc, Kind, Writer};

use super::failure::Result;
use super::lists;
use super::schema::{Argument, Input, any};
use crate::escape::one_line;
use crate::serve::nearest;

/// Parsed words.
#[derive(Default)]
pub(crate) struct Arguments {
    /// Arguments as text, in the order of the command line; names may repeat.
    texts: Vec<(String, String)>,
    /// Arguments as JSON objects.
    objects: Vec<Doc>,
}

impl Arguments {
    /// Parses words. Reads the files that they name.
    pub(crate) fn parse(words: &[&str]) -> Result<Arguments> {
        let mut arguments = Arguments::default();
        for word in words {
            if let Some(file) = word.strip_prefix('@') {
                arguments
                    .objects
                    .push(object(&read(file)?).map_err(|why| format!("{file}: {}", why.message))?);
                continue;
            }
            match word.split_once('=') {
                _ if word.starts_with(['{', '[', '"']) => arguments.objects.push(object(word)?),
                None if word.split_once('@').is_some_and(|(name, _)| !name.is_empty()) => {
                    let (name, file) = word.split_once('@').unwrap_or_default();
                    arguments.texts.push((name.to_owned(), read(file)?));
                }
                None | Some(("" | ":", _)) => arguments.objects.push(object(word)?),
                Some((name, text)) => match name.strip_suffix(':') {
                    None => arguments.texts.push((name.to_owned(), text.to_owned())),
                    Some(name) => {
                        let doc = Doc::parse(text).map_err(|e| format!("{name}: not JSON: {e}"))?;
                        let mut w = Writer::new();
                        w.begin_object().key(name).value(doc.root()).end_object();
                        arguments.objects.push(w.into_json().to_doc());
                    }
                },
            }
        }
        Ok(arguments)
    }

    /// Splits words again if the schema has argument names with `=`: the longest name that matches
    /// is used.
    pub(crate) fn resolve(&mut self, input: Input<'_>) {
        for (name, text) in &mut self.texts {
            let word = format!("{name}={text}");
            let fits = |known: &&str| word.strip_prefix(known).is_some_and(|rest| rest.starts_with('='));
            let known = input.arguments().map(|argument| argument.name);
            if let Some(known) = known.filter(fits).max_by_key(|known| known.len()) {
                *text = word.get(known.len() + 1..).unwrap_or_default().to_owned();
                *name = known.to_owned();
            }
        }
    }

    /// Returns whether the schema decides about a value.
    pub(crate) fn need_schema(&self) -> bool {
        !self.texts.is_empty()
    }

    /// Returns whether an argument has this name.
    fn has(&self, name: &str) -> bool {
        self.texts.iter().any(|(given, _)| given == name)
            || self.objects.iter().any(|doc| doc.root().get(name).is_some())
    }

    /// Returns the required arguments that are missing.
    pub(crate) fn missing<'d>(&self, input: Input<'d>) -> Vec<Argument<'d>> {
        input.arguments().filter(|argument| argument.is_required && !self.has(argument.name)).collect()
    }

    /// Adds an argument.
    pub(crate) fn add(&mut self, name: &str, text: String) {
        self.texts.push((name.to_owned(), text));
    }

    /// Writes the object of all arguments. Without a schema, a text that is JSON is taken as JSON.
    pub(crate) fn write(&self, w: &mut Writer, input: Option<Input<'_>>) -> Result<()> {
        w.begin_object();
        let mut seen: Vec<&str> = Vec::new();
        for (name, value) in self.objects.iter().flat_map(|doc| doc.root().members()) {
            if seen.contains(&name) {
                return Err(duplicate_argument(name));
            }
            seen.push(name);
            w.key(name).value(value);
        }
        for (at, (name, text)) in self.texts.iter().enumerate() {
            if self.texts[..at].iter().any(|(earlier, _)| earlier == name) {
                continue;
            }
            if seen.contains(&name.as_str()) {
                return Err(duplicate_argument(name));
            }
            let repeated = self.texts[at..].iter().filter(|(given, _)| given == name);
            let texts: Vec<&str> = repeated.map(|(_, text)| text.as_str()).collect();
            w.key(name);
            match (input.and_then(|input| input.argument(name)), texts.len()) {
                (Some(argument), 1) => argument.write(w, text).map_err(|t| expected(name, &t, text))?,
                (Some(argument), _) if argument.is_list() => {
                    argument.write_list(w, &texts).map_err(|t| expected(name, &t, &texts.join(" ")))?;
                }
                (None, 1) => any(w, text),
                _ => return Err(duplicate_argument(name)),
            }
        }
        w.end_object();
        Ok(())
    }

    /// Checks the names against the schema: an error for a name that the tool does not accept, a
    /// note for one that the schema does not describe.
    pub(crate) fn check_names(&self, input: Input<'_>) -> Result<Vec<String>> {
        let mut notes = Vec::new();
        let known: Vec<&str> = input.arguments().map(|argument| argument.name).collect();
        for (name, _) in self.texts.iter().filter(|(name, _)| !known.contains(&name.as_str())) {
            let cure = match nearest(name, &mut known.iter().copied()) {
                Some(near) => format!("; did you mean {:?}?", one_line(near)),
                None if known.is_empty() => "; it takes no arguments".to_owned(),
                None => format!("; it takes {}", one_line(&lists::shown(&known))),
            };
            let message = format!("the tool has no argument {name:?}{cure}");
            if input.is_closed() {
                return Err(message.into());
            }
            // Without a list of arguments there is nothing to compare with.
            if !known.is_empty() {
                notes.push(message);
            }
        }
        Ok(notes)
    }
}

fn expected(name: &str, expected: &str, text: &str) -> super::failure::Failure {
    format!("{name}: expected {}, got {text:?}", one_line(expected)).into()
}

fn duplicate_argument(name: &str) -> super::failure::Failure {
    format!("the argument {name:?} is given twice").into()
}

fn read(file: &str) -> Result<String> {
    Ok(String::from_utf8(super::read(Path::new(file))?).map_err(|e| format!("{file}: {e}"))?)
}

/// Parses a JSON object.
pub(crate) fn object(text: &str) -> Result<Doc> {
    const EXAMPLE: &str = r#"expected NAME=VALUE or a JSON object such as {"text": "hi"}"#;
    let doc = Doc::parse(text).map_err(|e| format!("the arguments are not JSON: {e}; {EXAMPLE}"))?;
    if doc.root().kind() != Kind::Object {
        return Err(format!("the arguments are not a JSON object; {EXAMPLE}").into());
    }
    Ok(doc)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const SCHEMA: &str = r#"{"properties":{"pin":{"type":"integer"},"tags":{"type":"array","items":{"type":"string"}}},
        "required":["pin"],"additionalProperties":false}"#;

    fn written(words: &[&str], schema: Option<&str>) -> std::result::Result<String, String> {
        let doc = schema.map(|schema| Doc::parse(schema).unwrap());
        let input = doc.as_ref().map(|doc| Input(doc.root()));
        let write = || {
            let mut arguments = Arguments::parse(words)?;
            if let Some(input) = input {
                arguments.resolve(input);
                arguments.check_names(input)?;
            }
            let mut w = Writer::new();
            arguments.write(&mut w, input)?;
            Ok(w.as_str().to_owned())
        };
        write().map_err(|failure: super::super::failure::Failure| failure.message)
    }

    #[test]
    fn words_are_arguments() {
        for (words, expected) in [
            (&["pin=4"][..], r#"{"pin":4}"#),
            (&["pin:=5", "tags=a=b"], r#"{"pin":5,"tags":["a=b"]}"#),
            (&["tags=a", "tags=", "pin=1"], r#"{"tags":["a",""],"pin":1}"#),
            (&[r#"{"pin": 1}"#, "tags:=[]"], r#"{"pin":1,"tags":[]}"#),
            (&[], "{}"),
        ] {
            assert_eq!(written(words, Some(SCHEMA)).unwrap(), expected);
        }
        assert_eq!(written(&["a=1", "b=x"], None).unwrap(), r#"{"a":1,"b":"x"}"#);
    }

    #[test]
    fn names_may_contain_the_characters_of_the_syntax() {
        let schema = r#"{"properties":{"a=b":{"type":"integer"},"a":{},"a=b=c":{},"xml:lang":{},"d:":{}},
            "additionalProperties":false}"#;
        for (words, expected) in [
            (&["a=b=1"][..], r#"{"a=b":1}"#),
            (&["a=1"], r#"{"a":1}"#),
            (&["a=b=c=1=2"], r#"{"a=b=c":"1=2"}"#),
            (&["xml:lang=de"], r#"{"xml:lang":"de"}"#),
            (&[r#"{"d:":1}"#], r#"{"d:":1}"#),
        ] {
            assert_eq!(written(words, Some(schema)).unwrap(), expected, "{words:?}");
        }
    }

    #[test]
    fn wrong_words_are_errors() {
        for (words, expected) in [
            (&["pin=x"][..], "pin: expected integer, got \"x\""),
            (&["pim=1"], "the tool has no argument \"pim\"; did you mean \"pin\"?"),
            (&["zzzzzz=1"], "it takes pin, tags"),
            (&["pin=1", "pin=2"], "the argument \"pin\" is given twice"),
            (&["{\"pin\":1}", "pin=2"], "the argument \"pin\" is given twice"),
            (&["pin:=x"], "pin: not JSON"),
            (&["pin"], "NAME=VALUE"),
            (&["=1"], "NAME=VALUE"),
            (&["[1]"], "not a JSON object"),
            (&["@/no/such/file"], "/no/such/file"),
        ] {
            let error = written(words, Some(SCHEMA)).unwrap_err();
            assert!(error.contains(expected), "{words:?}: {error}");
        }
    }
}
