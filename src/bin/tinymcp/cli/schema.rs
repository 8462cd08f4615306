//! Input schemas of tools in short: types of arguments, signatures, and values from text.
//!
//! A schema comes from a server and may be anything. Keywords that are not read here are left to
//! the server, which checks the arguments.

use tinymcp::json::{Doc, Kind, Value, Writer};

/// References that are followed.
const MAX_REFERENCES: usize = 8;
/// Schemas of `anyOf` and `oneOf` inside each other that are read.
const MAX_DEPTH: usize = 4;
/// Values of an `enum` that a type shows.
const SHOWN_VALUES: usize = 6;
/// Characters of the longest type.
const LONGEST_TYPE: usize = 60;

/// Input schema of a tool.
#[derive(Clone, Copy)]
pub(crate) struct Input<'d>(pub(crate) Value<'d>);

/// One argument of a tool.
#[derive(Clone, Copy)]
pub(crate) struct Argument<'d> {
    pub(crate) name: &'d str,
    pub(crate) is_required: bool,
    root: Value<'d>,
    schema: Value<'d>,
}

impl<'d> Input<'d> {
    /// Returns the arguments, in the order of the schema.
    pub(crate) fn arguments(self) -> impl Iterator<Item = Argument<'d>> {
        let properties = self.0.get("properties").into_iter().flat_map(Value::members);
        properties.map(move |(name, schema)| Argument {
            name,
            is_required: self.requires(name),
            root: self.0,
            schema: resolve(self.0, schema),
        })
    }

    /// Returns the argument with this name.
    pub(crate) fn argument(self, name: &str) -> Option<Argument<'d>> {
        self.arguments().find(|argument| argument.name == name)
    }

    /// Returns whether arguments beside the declared ones are invalid.
    pub(crate) fn is_closed(self) -> bool {
        self.0.get("additionalProperties").and_then(Value::as_bool) == Some(false)
            && self.0.get("patternProperties").is_none()
    }

    fn requires(self, name: &str) -> bool {
        self.0.get("required").is_some_and(|names| names.items().any(|n| n.as_str() == Some(name)))
    }

    /// Returns the arguments as in `(path: string, [limit: integer])`; required ones come first.
    pub(crate) fn signature(self) -> String {
        let (mut parts, mut optional) = (Vec::new(), Vec::new());
        for argument in self.arguments() {
            let part = format!("{}: {}", argument.name, argument.type_name());
            if argument.is_required { parts.push(part) } else { optional.push(format!("[{part}]")) }
        }
        parts.append(&mut optional);
        format!("({})", parts.join(", "))
    }
}

impl<'d> Argument<'d> {
    /// Returns the type, such as `integer`, `string[]` or `"on"|"off"`.
    pub(crate) fn type_name(self) -> String {
        type_name(self.root, self.schema, MAX_DEPTH)
    }

    /// Returns the type with its bounds and its default, such as `integer 1..8 = 3`.
    pub(crate) fn details(self) -> String {
        let mut text = self.type_name();
        let word = |name: &str| self.schema.get(name).map(Value::raw);
        let bounds = [("minimum", "maximum"), ("minLength", "maxLength"), ("minItems", "maxItems")];
        for (low, high) in bounds {
            match (word(low), word(high)) {
                (None, None) => {}
                (low, high) => {
                    text.push_str(&format!(" {}..{}", low.unwrap_or_default(), high.unwrap_or_default()));
                }
            }
        }
        if let Some(default) = word("default") {
            text.push_str(&format!(" = {default}"));
        }
        text
    }

    pub(crate) fn description(self) -> &'d str {
        self.schema.get("description").and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns a value for an example: the schema's own where it has one, else its type in capital
    /// letters.
    pub(crate) fn example(self) -> String {
        let first = |name: &str| self.schema.get(name).and_then(|values| values.index(0));
        let own = first("examples")
            .or_else(|| first("enum"))
            .or_else(|| ["const", "default", "minimum"].into_iter().find_map(|name| self.schema.get(name)));
        match own {
            Some(value) => value.as_str().map_or_else(|| value.raw().to_owned(), str::to_owned),
            None if self.accepts("boolean") => "true".to_owned(),
            None => self.type_name().to_ascii_uppercase(),
        }
    }

    /// Returns whether the argument is a list, so that its name may be repeated.
    pub(crate) fn is_list(self) -> bool {
        self.accepts("array")
    }

    fn accepts(self, name: &str) -> bool {
        types(self.root, self.schema, MAX_DEPTH).contains(&name)
    }

    /// Writes a text as the value that the schema expects: a number for an integer, one item for a
    /// list. The error is the expected type.
    pub(crate) fn write(self, w: &mut Writer, text: &str) -> Result<(), String> {
        write(self.root, self.schema, w, text)?;
        Ok(())
    }

    /// Writes the items of a list.
    pub(crate) fn write_list(self, w: &mut Writer, texts: &[&str]) -> Result<(), String> {
        let items = self.schema.get("items").map(|items| resolve(self.root, items));
        w.begin_array();
        for text in texts {
            match items {
                Some(items) => write(self.root, items, w, text)?,
                None => any(w, text),
            }
        }
        w.end_array();
        Ok(())
    }
}

fn write(root: Value<'_>, schema: Value<'_>, w: &mut Writer, text: &str) -> Result<(), String> {
    if let Some(values) = schema.get("enum").filter(|values| values.kind() == Kind::Array) {
        let is_equal = |value: &Value<'_>| value.as_str().unwrap_or(value.raw()) == text;
        return match values.items().find(is_equal) {
            Some(value) => {
                w.value(value);
                Ok(())
            }
            None => Err(format!("one of {}", shown_values(values.items()))),
        };
    }
    let types = types(root, schema, MAX_DEPTH);
    if types.is_empty() {
        any(w, text);
        return Ok(());
    }
    let has = |name: &str| types.contains(&name);
    let parsed = Doc::parse(text).ok();
    let parsed = parsed.as_ref().map(Doc::root);
    let fits = |value: &Value<'_>| match value.kind() {
        Kind::Number => has("number") || has("integer") && !text.contains(['.', 'e', 'E']),
        Kind::Bool => has("boolean"),
        Kind::Null => has("null") && !has("string"),
        Kind::Array => has("array"),
        Kind::Object => has("object"),
        Kind::String => false,
    };
    match parsed.filter(fits) {
        Some(value) => {
            w.value(value);
        }
        None if has("string") => {
            w.string(text);
        }
        None if has("array") => {
            w.begin_array();
            match schema.get("items").map(|items| resolve(root, items)) {
                Some(items) if !is_list(root, items) => write(root, items, w, text)?,
                Some(_) => return Err(type_name(root, schema, MAX_DEPTH)),
                None => any(w, text),
            }
            w.end_array();
        }
        None => return Err(type_name(root, schema, MAX_DEPTH)),
    }
    Ok(())
}

fn is_list(root: Value<'_>, schema: Value<'_>) -> bool {
    types(root, schema, MAX_DEPTH).contains(&"array")
}

/// Writes JSON as it is, and other text as a string.
pub(crate) fn any(w: &mut Writer, text: &str) {
    match Doc::parse(text) {
        Ok(doc) => w.value(doc.root()),
        Err(_) => w.string(text),
    };
}

/// Follows `$ref` inside the schema of a tool.
fn resolve<'d>(root: Value<'d>, mut schema: Value<'d>) -> Value<'d> {
    for _ in 0..MAX_REFERENCES {
        let target = schema.get("$ref").and_then(Value::as_str).and_then(|r| r.strip_prefix('#'));
        match target.and_then(|pointer| root.pointer(pointer)) {
            Some(found) => schema = found,
            None => break,
        }
    }
    schema
}

/// Returns the branches of `anyOf` and `oneOf`.
fn branches<'d>(root: Value<'d>, schema: Value<'d>) -> impl Iterator<Item = Value<'d>> {
    let lists = ["anyOf", "oneOf"].into_iter().filter_map(move |name| schema.get(name));
    lists.flat_map(Value::items).map(move |branch| resolve(root, branch))
}

/// Returns the types that a schema accepts; none if it does not say.
fn types<'d>(root: Value<'d>, schema: Value<'d>, depth: usize) -> Vec<&'d str> {
    let mut found: Vec<&str> = match schema.get("type") {
        Some(one) if one.kind() == Kind::String => one.as_str().into_iter().collect(),
        Some(several) => several.items().filter_map(Value::as_str).collect(),
        None => Vec::new(),
    };
    if let (true, Some(value)) = (found.is_empty(), schema.get("const")) {
        found.push(match value.kind() {
            Kind::String => "string",
            Kind::Number => "number",
            Kind::Bool => "boolean",
            Kind::Null => "null",
            Kind::Array => "array",
            Kind::Object => "object",
        });
    }
    if found.is_empty() && depth > 0 {
        for branch in branches(root, schema) {
            let mut more = types(root, branch, depth - 1);
            if more.is_empty() && branch.get("enum").is_some() {
                more.push("string");
            }
            found.append(&mut more);
        }
    }
    found
}

fn type_name(root: Value<'_>, schema: Value<'_>, depth: usize) -> String {
    if let Some(values) = schema.get("enum").filter(|values| !values.is_empty()) {
        return shown_values(values.items());
    }
    if let Some(value) = schema.get("const") {
        return shown_values(std::iter::once(value));
    }
    let mut names: Vec<String> = Vec::new();
    let own = types(root, schema, 0);
    for name in own.into_iter().filter(|name| *name != "null") {
        names.push(match (name, schema.get("items")) {
            ("array", Some(items)) if depth > 0 => {
                let item = type_name(root, resolve(root, items), depth - 1);
                if item.contains('|') { format!("({item})[]") } else { format!("{item}[]") }
            }
            ("array", _) => "any[]".to_owned(),
            (name, _) => name.to_owned(),
        });
    }
    if names.is_empty() && depth > 0 {
        for branch in branches(root, schema) {
            let name = type_name(root, branch, depth - 1);
            if name != "null" && !names.contains(&name) {
                names.push(name);
            }
        }
    }
    match names.join("|") {
        text if text.is_empty() && schema.get("type").is_some() => "null".to_owned(),
        text if text.is_empty() => "any".to_owned(),
        text => shortened(text),
    }
}

fn shown_values<'d>(values: impl Iterator<Item = Value<'d>>) -> String {
    let mut shown: Vec<&str> = values.map(Value::raw).take(SHOWN_VALUES + 1).collect();
    if shown.len() > SHOWN_VALUES {
        shown.pop();
        shown.push("…");
    }
    shortened(shown.join("|"))
}

fn shortened(text: String) -> String {
    if text.chars().count() <= LONGEST_TYPE {
        return text;
    }
    text.chars().take(LONGEST_TYPE).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const SCHEMA: &str = r##"{"type":"object","properties":{
        "pin":{"type":"integer","minimum":0,"maximum":27},
        "ratio":{"type":"number"},
        "on":{"type":"boolean"},
        "mode":{"enum":["in","out",3]},
        "tags":{"type":"array","items":{"type":"integer"}},
        "note":{"anyOf":[{"type":"string"},{"type":"null"}]},
        "either":{"type":["integer","string"]},
        "point":{"$ref":"#/$defs/point"},
        "loop":{"$ref":"#/properties/loop"},
        "free":{}
    },"required":["pin","mode"],"$defs":{"point":{"type":"object"}}}"##;

    fn value(name: &str, text: &str) -> Result<String, String> {
        let doc = Doc::parse(SCHEMA).unwrap();
        let mut w = Writer::new();
        Input(doc.root()).argument(name).unwrap().write(&mut w, text).map(|()| w.as_str().to_owned())
    }

    #[test]
    fn the_schema_decides_the_type_of_a_text() {
        for (name, text, expected) in [
            ("pin", "4", Ok("4")),
            ("pin", "4.5", Err("integer")),
            ("pin", "four", Err("integer")),
            ("ratio", "4.5e1", Ok("4.5e1")),
            ("on", "true", Ok("true")),
            ("on", "yes", Err("boolean")),
            ("mode", "in", Ok("\"in\"")),
            ("mode", "3", Ok("3")),
            ("mode", "off", Err("one of \"in\"|\"out\"|3")),
            ("tags", "[1,2]", Ok("[1,2]")),
            ("tags", "7", Ok("[7]")),
            ("tags", "x", Err("integer")),
            ("note", "null", Ok("\"null\"")),
            ("note", "42", Ok("\"42\"")),
            ("either", "42", Ok("42")),
            ("either", "x", Ok("\"x\"")),
            ("point", r#"{"x":1}"#, Ok(r#"{"x":1}"#)),
            ("point", "1", Err("object")),
            ("loop", "1", Ok("1")),
            ("free", "[1", Ok("\"[1\"")),
        ] {
            let expected = expected.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(value(name, text), expected, "{name}={text}");
        }
    }

    #[test]
    fn signatures_name_required_arguments_first() {
        let doc = Doc::parse(SCHEMA).unwrap();
        assert_eq!(
            Input(doc.root()).signature(),
            "(pin: integer, mode: \"in\"|\"out\"|3, [ratio: number], [on: boolean], [tags: integer[]], \
             [note: string], [either: integer|string], [point: object], [loop: any], [free: any])"
        );
        assert_eq!(Input(doc.root()).argument("pin").unwrap().details(), "integer 0..27");
    }

    #[test]
    fn any_json_is_a_schema() {
        for text in ["null", "true", "[]", r#"{"properties":[1]}"#, r#"{"properties":{"a":7},"required":7}"#]
        {
            let doc = Doc::parse(text).unwrap();
            let input = Input(doc.root());
            for argument in input.arguments() {
                let _ = (argument.details(), argument.example());
            }
            let _ = input.signature();
        }
    }
}
