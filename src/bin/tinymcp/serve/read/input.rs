//! Short form of input schemas: one text for each argument.
//!
//! ```text
//! "NAME" or "NAME?" : "TYPE [RANGE] [= DEFAULT] [- DESCRIPTION]"
//!
//! TYPE     string | integer | number | boolean | object, or words to choose from: auto|manual|off;
//!          followed by [] for a list
//! RANGE    1..8, 1.. or ..8: bounds of a number, length of a string, items of a list
//! DEFAULT  a JSON value; a string may do without quotes
//! ```
//!
//! `?` makes an argument optional, and so does a default. The result is a closed object schema.

use tinymcp::json::{Doc, Json, Writer};

use super::super::words::{self, nearest};

/// The types of the short form.
const TYPES: &str = "string integer number boolean object";

/// Names that other languages use for a type.
const FOREIGN: [(&str, &str); 10] = [
    ("int", "integer"),
    ("str", "string"),
    ("text", "string"),
    ("path", "string"),
    ("bool", "boolean"),
    ("float", "number"),
    ("double", "number"),
    ("list", "string[]"),
    ("array", "string[]"),
    ("enum", "auto|manual|off"),
];

const GRAMMAR: &str = "TYPE RANGE = DEFAULT - DESCRIPTION with spaces around = and -, for example \"integer 1..8 = 4 - number of the bed\"";

/// One argument.
#[derive(Debug, Default)]
pub(super) struct Argument<'t> {
    /// Empty if there are choices.
    kind: &'static str,
    choices: Vec<&'t str>,
    is_list: bool,
    /// Bounds as written; empty if absent.
    low: &'t str,
    high: &'t str,
    pub(super) default: Option<Json>,
    description: &'t str,
}

impl<'t> Argument<'t> {
    /// Parses the text of an argument.
    pub(super) fn parse(text: &'t str) -> Result<Argument<'t>, String> {
        let mut argument = Argument::default();
        let (front, default) = argument.split(text)?;
        let front = front.trim();
        let rest = if let Some(inner) = front.strip_prefix('(') {
            let (choices, rest) = inner
                .split_once(")[]")
                .ok_or_else(|| format!("{front:?}: expected a list of choices such as \"(a|b)[]\""))?;
            argument.is_list = true;
            argument.choices(choices)?;
            rest.trim()
        } else if front.contains('|') {
            argument.choices(front)?;
            ""
        } else {
            let (kind, rest) = front.split_once(char::is_whitespace).unwrap_or((front, ""));
            argument.kind(kind)?;
            rest.trim()
        };
        argument.range(rest)?;
        if let Some(default) = default {
            argument.default = Some(argument.value(default)?);
        }
        Ok(argument)
    }

    /// Splits the text into type with range and the default, and stores the description. The first
    /// ` - ` begins the description, except inside a default in quotes.
    fn split(&mut self, text: &'t str) -> Result<(&'t str, Option<&'t str>), String> {
        let padded = |text: &'t str| text.split_once(" - ").unwrap_or((text, ""));
        let description = text.find(" - ").unwrap_or(text.len());
        let Some(at) = text.find(" =").filter(|at| *at < description) else {
            let (front, description) = padded(text);
            self.description = description.trim();
            return Ok((front, None));
        };
        let (front, rest) =
            (text.get(..at).unwrap_or_default(), text.get(at + 2..).unwrap_or_default().trim());
        // A default in quotes may contain the separator.
        let quoted = rest.strip_prefix('"').and_then(closing_quote).map(|end| end + 2);
        let (value, behind) = match quoted {
            Some(end) => (rest.get(..end).unwrap_or_default(), rest.get(end..).unwrap_or_default()),
            None => {
                let (value, description) = padded(rest);
                self.description = description.trim();
                return Ok((front, Some(value.trim())));
            }
        };
        match behind.trim().strip_prefix("- ") {
            Some(description) => self.description = description.trim(),
            None if behind.trim().is_empty() => {}
            None => {
                return Err(format!(
                    "unexpected text {:?} after the default; expected {GRAMMAR}",
                    behind.trim()
                ));
            }
        }
        Ok((front, Some(value)))
    }

    fn choices(&mut self, text: &'t str) -> Result<(), String> {
        if let Some(choices) = text.strip_suffix("[]") {
            return Err(format!("a list of choices has parentheses: \"({choices})[]\""));
        }
        for choice in text.split('|').map(str::trim) {
            if choice.is_empty() {
                return Err(format!("empty choice in {text:?}; write words such as \"auto|manual|off\""));
            }
            if self.choices.contains(&choice) {
                return Err(format!("{choice:?} is twice among the choices"));
            }
            self.choices.push(choice);
        }
        if self.choices.iter().all(|choice| words::has(TYPES, choice) || *choice == "null") {
            return Err(format!(
                "{text:?} are types, but `|` separates words to choose from; write a JSON Schema for an \
                 argument of several types"
            ));
        }
        Ok(())
    }

    fn kind(&mut self, word: &'t str) -> Result<(), String> {
        let (word, is_list) = word.strip_suffix("[]").map_or((word, false), |word| (word, true));
        self.is_list = is_list;
        if let Some(kind) = TYPES.split(' ').find(|kind| *kind == word) {
            self.kind = kind;
            return Ok(());
        }
        if word.is_empty() {
            return Err(format!("missing type; expected {GRAMMAR}"));
        }
        if word.ends_with('?') {
            return Err("write `?` after the name of an optional argument, not after its type".to_owned());
        }
        let foreign = FOREIGN.iter().find(|(other, _)| *other == word).map(|(_, ours)| *ours);
        Err(match foreign.or_else(|| nearest(word, &mut TYPES.split(' '))) {
            Some(near) => format!("unknown type {word:?}; did you mean {near:?}?"),
            None => format!(
                "unknown type {word:?}; accepted are {}, and words to choose from such as \"auto|manual|off\"",
                TYPES.replace(' ', ", ")
            ),
        })
    }

    fn range(&mut self, text: &'t str) -> Result<(), String> {
        if text.is_empty() {
            return Ok(());
        }
        let error = || format!("unexpected text {text:?} after the type; expected {GRAMMAR}");
        let (low, high) = text.split_once("..").ok_or_else(error)?;
        (self.low, self.high) = (low.trim(), high.trim());
        if self.low.is_empty() && self.high.is_empty() {
            return Err(error());
        }
        let is_number = !self.is_list && matches!(self.kind, "integer" | "number");
        if !is_number && !self.is_list && self.kind != "string" {
            return Err(format!("a range has no meaning for {}", self.kind));
        }
        let mut bounds = Vec::new();
        for bound in [self.low, self.high].into_iter().filter(|bound| !bound.is_empty()) {
            let doc = Doc::parse(bound).unwrap_or_default();
            let value = doc.root();
            let valid = match self.kind {
                _ if !is_number => value.as_u64().is_some_and(|length| length <= u32::MAX.into()),
                "integer" => value.as_i64().is_some(),
                _ => true,
            };
            match value.as_f64().filter(|_| valid) {
                Some(number) => bounds.push(number),
                None => {
                    let what = if is_number { "bound" } else { "length" };
                    return Err(format!("{bound:?} is not a valid {what}; expected {GRAMMAR}"));
                }
            }
        }
        match bounds.as_slice() {
            [low, high] if low > high => Err(format!("the range {text} is empty")),
            _ => Ok(()),
        }
    }

    /// Returns the default as JSON. A string needs no quotes.
    fn value(&self, text: &str) -> Result<Json, String> {
        let is_text = !self.is_list && (self.kind == "string" || !self.choices.is_empty());
        if is_text && !text.starts_with('"') {
            let mut w = Writer::new();
            w.string(text);
            return Ok(w.into_json());
        }
        let expected = match self.kind {
            _ if self.is_list => "a JSON array",
            "boolean" => "true or false",
            "object" => "a JSON object",
            _ => "a number",
        };
        Json::parse(text.to_owned()).map_err(|_| format!("default {text:?}: expected {expected}"))
    }

    /// Writes the JSON Schema.
    pub(super) fn write(&self, w: &mut Writer) {
        w.begin_object();
        let bounds = if self.is_list {
            w.key("type").string("array").key("items").begin_object();
            self.write_type(w);
            w.end_object();
            ["minItems", "maxItems"]
        } else {
            self.write_type(w);
            if self.kind == "string" { ["minLength", "maxLength"] } else { ["minimum", "maximum"] }
        };
        for (name, bound) in bounds.into_iter().zip([self.low, self.high]) {
            if !bound.is_empty() {
                w.key(name).raw(bound);
            }
        }
        if let Some(default) = &self.default {
            w.key("default").json(default);
        }
        if !self.description.is_empty() {
            w.key("description").string(self.description);
        }
        w.end_object();
    }

    fn write_type(&self, w: &mut Writer) {
        w.key("type").string(if self.choices.is_empty() { self.kind } else { "string" });
        if !self.choices.is_empty() {
            w.key("enum").begin_array();
            for choice in &self.choices {
                w.string(choice);
            }
            w.end_array();
        }
    }
}

/// Returns the offset of the quote that closes a JSON string.
fn closing_quote(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.char_indices()
        .find(|(_, c)| {
            let closes = *c == '"' && !escaped;
            escaped = *c == '\\' && !escaped;
            closes
        })
        .map(|(at, _)| at)
}

/// Splits the name of an argument into the name and whether it is optional.
pub(super) fn name(text: &str) -> Result<(&str, bool), String> {
    let (name, is_optional) = text.strip_suffix('?').map_or((text, false), |name| (name, true));
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if name.is_empty() || name.len() > 64 || !name.chars().all(allowed) {
        return Err(format!(
            "invalid argument name {name:?}: allowed are 1 to 64 characters of A-Z a-z 0-9 _ -, and `?` at the \
             end of an optional one"
        ));
    }
    Ok((name, is_optional))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tinymcp::json::Kind;

    use super::*;

    fn schema(text: &str) -> String {
        match Argument::parse(text) {
            Ok(argument) => {
                let mut w = Writer::new();
                argument.write(&mut w);
                assert_eq!(w.as_str().parse_kind(), Kind::Object);
                w.as_str().to_owned()
            }
            Err(message) => message,
        }
    }

    trait ParseKind {
        fn parse_kind(&self) -> Kind;
    }

    impl ParseKind for str {
        fn parse_kind(&self) -> Kind {
            tinymcp::schema::Schema::parse(self).unwrap();
            tinymcp::json::Doc::parse(self).unwrap().root().kind()
        }
    }

    #[test]
    fn arguments_become_schemas() {
        for (text, expected) in [
            ("string", r#"{"type":"string"}"#),
            ("integer 1..8", r#"{"type":"integer","minimum":1,"maximum":8}"#),
            (
                "integer -5..5 = -1 - offset",
                r#"{"type":"integer","minimum":-5,"maximum":5,"default":-1,"description":"offset"}"#,
            ),
            ("number 0..", r#"{"type":"number","minimum":0}"#),
            ("number ..1.5", r#"{"type":"number","maximum":1.5}"#),
            ("string 1..64", r#"{"type":"string","minLength":1,"maxLength":64}"#),
            ("string[] 1..5", r#"{"type":"array","items":{"type":"string"},"minItems":1,"maxItems":5}"#),
            (
                "auto|manual | off = auto - the mode",
                r#"{"type":"string","enum":["auto","manual","off"],"default":"auto","description":"the mode"}"#,
            ),
            ("(a|b)[] 1..", r#"{"type":"array","items":{"type":"string","enum":["a","b"]},"minItems":1}"#),
            ("text|number", r#"{"type":"string","enum":["text","number"]}"#),
            ("a=b|c", r#"{"type":"string","enum":["a=b","c"]}"#),
            ("(a|b)[]", r#"{"type":"array","items":{"type":"string","enum":["a","b"]}}"#),
            ("boolean = true", r#"{"type":"boolean","default":true}"#),
            ("string = HEAD", r#"{"type":"string","default":"HEAD"}"#),
            ("string =", r#"{"type":"string","default":""}"#),
            (
                r#"string = "a - \"b" - words"#,
                r#"{"type":"string","default":"a - \"b","description":"words"}"#,
            ),
            ("string - a = b", r#"{"type":"string","description":"a = b"}"#),
            ("string[] = [\"a\"]", r#"{"type":"array","items":{"type":"string"},"default":["a"]}"#),
            ("object", r#"{"type":"object"}"#),
        ] {
            assert_eq!(schema(text), expected, "{text}");
        }
    }

    #[test]
    fn invalid_arguments_are_explained() {
        for (text, expected) in [
            ("", "missing type"),
            ("int", "did you mean \"integer\"?"),
            ("strng", "did you mean \"string\"?"),
            ("uuid4", "unknown type \"uuid4\"; accepted are string, integer"),
            ("integer 8..1", "the range 8..1 is empty"),
            (
                "integer 1.5..2",
                "\"1.5\" is not a valid bound; expected TYPE RANGE = DEFAULT - DESCRIPTION with spaces",
            ),
            ("number +1..2", "\"+1\" is not a valid bound"),
            ("string -1..2", "\"-1\" is not a valid length"),
            ("integer 1..8=5", "\"8=5\" is not a valid bound; expected TYPE"),
            ("integer? 1..8", "write `?` after the name"),
            ("integer ..", "unexpected text \"..\""),
            ("integer 5", "unexpected text \"5\" after the type"),
            ("boolean 0..1", "a range has no meaning for boolean"),
            ("integer|string", "\"integer|string\" are types"),
            ("string|null", "are types"),
            ("a||b", "empty choice"),
            ("a|a", "\"a\" is twice"),
            ("a|b[]", "parentheses"),
            ("integer = four", "default \"four\": expected a number"),
            ("boolean = yes", "default \"yes\": expected true or false"),
            ("string = \"a\" b", "unexpected text \"b\" after the default"),
        ] {
            assert!(schema(text).contains(expected), "{text}: {}", schema(text));
        }
    }
}
