//! YAML frontmatter of `SKILL.md` as JSON.
//!
//! The frontmatter is the YAML between the first line `---` and the next one. Plain scalars have
//! the types of the YAML 1.2 core schema. JSON has no form for aliases, tags, infinite numbers and
//! keys that are collections, so they are errors, as are duplicate keys.
//!
//! # Invariants
//! - Nothing recurses, and at most [`MAX_BYTES`] and [`MAX_DEPTH`] are read, so frontmatter of a
//!   hostile peer costs bounded time and memory.

use std::collections::BTreeSet;

use saphyr_parser::{Event, Parser, ScalarStyle};

use crate::json::{Json, Writer, float};

/// Largest frontmatter in bytes, its first line included.
pub(super) const MAX_BYTES: usize = 64 << 10;
/// Largest depth of nested collections.
const MAX_DEPTH: usize = 32;

/// Reads the frontmatter at the start of a `SKILL.md`, of which the first [`MAX_BYTES`] suffice.
///
/// # Errors
/// Describes the first fault.
pub(super) fn parse(skill_md: &[u8]) -> Result<Json, String> {
    let yaml = std::str::from_utf8(between_lines(skill_md)?).map_err(|_| "the frontmatter is not UTF-8")?;
    let mut json = Builder { w: Writer::new(), open: Vec::new(), done: false };
    for event in Parser::new_from_str(yaml) {
        let (event, span) = event.map_err(|error| at_line(error.marker().line(), error.info()))?;
        json.event(event).map_err(|why| at_line(span.start.line(), &why))?;
    }
    match json.done {
        true => Ok(json.w.into_json()),
        false => Err("the frontmatter is empty".to_owned()),
    }
}

/// Returns the name and the description of a frontmatter.
///
/// # Errors
/// One of them is missing or not a string.
pub(super) fn name_and_description(frontmatter: &Json) -> Result<(String, String), String> {
    let doc = frontmatter.to_doc();
    let text = |name: &str| match doc.root().get(name).map(|value| value.as_str()) {
        Some(Some(text)) if !text.is_empty() => Ok(text.to_owned()),
        Some(_) => Err(format!("the frontmatter's `{name}` must be a string that is not empty")),
        None => Err(format!("the frontmatter has no `{name}`")),
    };
    Ok((text("name")?, text("description")?))
}

/// The text between the lines `---`.
fn between_lines(skill_md: &[u8]) -> Result<&[u8], String> {
    let text = skill_md.strip_prefix("\u{feff}".as_bytes()).unwrap_or(skill_md);
    let limited = text.get(..MAX_BYTES).unwrap_or(text);
    let is_mark = |line: &[u8]| line.trim_ascii_end() == b"---";
    let mut lines = limited.split_inclusive(|b| *b == b'\n');
    let first = lines.next().unwrap_or_default();
    if !is_mark(first) {
        return Err("its first line must be `---`, the start of the frontmatter".to_owned());
    }
    let mut end = first.len();
    for line in lines {
        if is_mark(line) {
            // OK to default: `end` is the sum of the lengths of the lines so far.
            return Ok(limited.get(first.len()..end).unwrap_or_default());
        }
        end += line.len();
    }
    Err(match limited.len() < text.len() {
        true => format!("the frontmatter has more than {MAX_BYTES} bytes"),
        false => "the frontmatter does not end with a line `---`".to_owned(),
    })
}

/// Lines count from 1, and the frontmatter begins in line 2.
fn at_line(line: usize, why: &str) -> String {
    format!("line {}: {why}", line + 1)
}

/// Writes events of the parser as JSON.
struct Builder {
    w: Writer,
    open: Vec<Collection>,
    done: bool,
}

enum Collection {
    Sequence,
    /// Its keys so far, and whether the next event is a key.
    Mapping {
        keys: BTreeSet<String>,
        key_next: bool,
    },
}

impl Builder {
    fn event(&mut self, event: Event<'_>) -> Result<(), String> {
        match event {
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Ok(()),
            Event::DocumentStart(_) if self.done => Err("one document is allowed".to_owned()),
            Event::DocumentStart(_) => Ok(()),
            Event::Alias(_) => Err("aliases are not supported".to_owned()),
            Event::Scalar(.., Some(tag))
            | Event::SequenceStart(_, Some(tag))
            | Event::MappingStart(_, Some(tag)) => Err(format!("tags are not supported: {tag}")),
            Event::Scalar(text, style, _, None) => self.scalar(&text, style == ScalarStyle::Plain),
            Event::SequenceStart(_, None) => {
                self.begin(Collection::Sequence)?;
                self.w.begin_array();
                Ok(())
            }
            Event::MappingStart(_, None) => {
                self.begin(Collection::Mapping { keys: BTreeSet::new(), key_next: true })?;
                self.w.begin_object();
                Ok(())
            }
            Event::SequenceEnd => {
                self.open.pop();
                self.w.end_array();
                Ok(())
            }
            Event::MappingEnd => {
                self.open.pop();
                self.w.end_object();
                self.done |= self.open.is_empty();
                Ok(())
            }
        }
    }

    fn begin(&mut self, collection: Collection) -> Result<(), String> {
        if self.open.is_empty() && matches!(collection, Collection::Sequence) {
            return Err("the frontmatter must be a mapping".to_owned());
        }
        if let Some(Collection::Mapping { key_next, .. }) = self.open.last_mut() {
            if *key_next {
                return Err("keys must be scalars".to_owned());
            }
            *key_next = true;
        }
        if self.open.len() == MAX_DEPTH {
            return Err(format!("collections are nested deeper than {MAX_DEPTH} levels"));
        }
        self.open.push(collection);
        Ok(())
    }

    fn scalar(&mut self, text: &str, plain: bool) -> Result<(), String> {
        match self.open.last_mut() {
            None => return Err("the frontmatter must be a mapping".to_owned()),
            Some(Collection::Mapping { keys, key_next }) if *key_next => {
                *key_next = false;
                if !keys.insert(text.to_owned()) {
                    return Err(format!("duplicate key {text:?}"));
                }
                self.w.key(text);
                return Ok(());
            }
            Some(Collection::Mapping { key_next, .. }) => *key_next = true,
            Some(Collection::Sequence) => {}
        }
        if plain { plain_scalar(&mut self.w, text) } else { string(&mut self.w, text) }
    }
}

fn string(w: &mut Writer, text: &str) -> Result<(), String> {
    w.string(text);
    Ok(())
}

/// Writes a scalar without quotes (YAML 1.2.2 §10.3.2).
fn plain_scalar(w: &mut Writer, text: &str) -> Result<(), String> {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => _ = w.null(),
        "true" | "True" | "TRUE" => _ = w.bool(true),
        "false" | "False" | "FALSE" => _ = w.bool(false),
        text => {
            if let Some(n) = integer(text) {
                w.i64(n);
            } else if is_float(text) {
                let Some(n) = float::read(text) else {
                    return Err(format!("{text} is too large for a number"));
                };
                w.f64(n);
            } else if is_not_finite(text) {
                return Err(format!("JSON has no number {text}; quote it"));
            } else {
                w.string(text);
            }
        }
    }
    Ok(())
}

fn integer(text: &str) -> Option<i64> {
    let based = |digits: &str, base| {
        let valid = digits.bytes().all(|b| b.is_ascii_alphanumeric());
        if valid { i64::from_str_radix(digits, base).ok() } else { None }
    };
    if let Some(digits) = text.strip_prefix("0o") {
        return based(digits, 8);
    }
    if let Some(digits) = text.strip_prefix("0x") {
        return based(digits, 16);
    }
    text.parse().ok()
}

/// `[-+]? ( \. [0-9]+ | [0-9]+ ( \. [0-9]* )? ) ( [eE] [-+]? [0-9]+ )?`
fn is_float(text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let unsigned = |text: &str| text.strip_prefix(['-', '+']).unwrap_or(text).to_owned();
    let text = unsigned(text);
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(unsigned(exponent))),
        None => (text.as_str(), None),
    };
    let mantissa = match mantissa.split_once('.') {
        Some((whole, part)) => {
            (digits(whole) && (part.is_empty() || digits(part))) || (whole.is_empty() && digits(part))
        }
        None => digits(mantissa),
    };
    mantissa && exponent.is_none_or(|exponent| digits(&exponent))
}

fn is_not_finite(text: &str) -> bool {
    let name = text.strip_prefix(['-', '+']).unwrap_or(text);
    matches!(name, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use super::*;

    fn read(yaml: &str) -> Result<String, String> {
        parse(format!("---\n{yaml}\n---\nbody\n").as_bytes()).map(|json| json.as_str().to_owned())
    }

    #[test]
    fn scalars_have_the_types_of_the_core_schema() {
        for (yaml, json) in [
            ("a: text", r#"{"a":"text"}"#),
            ("a: 'it''s'", r#"{"a":"it's"}"#),
            ("a: \"x\\ty\"", r#"{"a":"x\ty"}"#),
            ("a:", r#"{"a":null}"#),
            ("a: ~\nb: NULL", r#"{"a":null,"b":null}"#),
            ("a: true\nb: FALSE\nc: yes\nd: on", r#"{"a":true,"b":false,"c":"yes","d":"on"}"#),
            ("a: 12\nb: -7\nc: +3\nd: 007", r#"{"a":12,"b":-7,"c":3,"d":7}"#),
            ("a: 0x1F\nb: 0o17\nc: 0x-1\nd: 0xZZ", r#"{"a":31,"b":15,"c":"0x-1","d":"0xZZ"}"#),
            ("a: 1.5\nb: .5\nc: 1e3\nd: 1.", r#"{"a":1.5,"b":0.5,"c":1000.0,"d":1.0}"#),
            ("a: 2024-01-31\nb: 1.2.3\nc: 1_000", r#"{"a":"2024-01-31","b":"1.2.3","c":"1_000"}"#),
            ("a: 'true'\nb: \"12\"\nc: 'null'", r#"{"a":"true","b":"12","c":"null"}"#),
            ("a: inf\nb: nan\nc: infinity", r#"{"a":"inf","b":"nan","c":"infinity"}"#),
            ("12: a\ntrue: b", r#"{"12":"a","true":"b"}"#),
        ] {
            assert_eq!(read(yaml).as_deref(), Ok(json), "{yaml}");
        }
    }

    #[test]
    fn collections_and_long_texts_are_read() {
        for (yaml, json) in [
            ("a: [1, x, {b: c}]", r#"{"a":[1,"x",{"b":"c"}]}"#),
            ("a:\n  - x\n  - - y\n    - z", r#"{"a":["x",["y","z"]]}"#),
            ("metadata:\n  author: me\n  tags: []", r#"{"metadata":{"author":"me","tags":[]}}"#),
            ("a: >-\n  one\n  two\nb: |\n  one\n  two", r#"{"a":"one two","b":"one\ntwo\n"}"#),
            ("a: one\n  two # not this\nb: 'x # y'", r#"{"a":"one two","b":"x # y"}"#),
            ("a: &anchor x", r#"{"a":"x"}"#),
        ] {
            assert_eq!(read(yaml).as_deref(), Ok(json), "{yaml}");
        }
    }

    #[test]
    fn texts_that_json_cannot_hold_are_errors() {
        let deep = format!("a: {}x{}", "[".repeat(40), "]".repeat(40));
        for (yaml, why) in [
            ("a: &x 1\nb: *x", "line 3: aliases"),
            ("a: 1\na: 2", "line 3: duplicate key \"a\""),
            ("a: !!str 1", "tags"),
            ("a: .inf", "JSON has no number"),
            ("a: 1e999", "too large"),
            ("? [x]\n: y", "keys must be scalars"),
            ("- a", "must be a mapping"),
            ("text", "must be a mapping"),
            ("", "empty"),
            ("a: [", "line"),
            ("a: b: c", "line 2"),
            (&deep, "deeper than 32"),
            ("a: 1\n...\nb: 2", "line"),
        ] {
            let error = read(yaml).expect_err(yaml);
            assert!(error.contains(why), "{yaml}: {error}");
        }
    }

    #[test]
    fn the_frontmatter_is_between_the_first_lines_of_dashes() {
        let parse = |text: &str| parse(text.as_bytes()).map(|json| json.as_str().to_owned());
        assert_eq!(parse("---\r\na: 1\r\n---\r\n---\nb: 2\n").as_deref(), Ok(r#"{"a":1}"#));
        assert_eq!(parse("\u{feff}--- \na: 1\n---").as_deref(), Ok(r#"{"a":1}"#));
        assert!(parse("\n---\na: 1\n---\n").unwrap_err().contains("first line"));
        assert!(parse("# Title\n").unwrap_err().contains("first line"));
        assert!(parse("---\na: 1\n").unwrap_err().contains("does not end"));
        assert!(parse("----\na: 1\n----\n").unwrap_err().contains("first line"));
        let long = format!("---\na: {}\n---\n", "x".repeat(MAX_BYTES));
        assert!(parse(&long).unwrap_err().contains("more than 65536 bytes"));
        assert!(super::parse(b"---\na: \xff\n---\n").unwrap_err().contains("UTF-8"));
    }
}
