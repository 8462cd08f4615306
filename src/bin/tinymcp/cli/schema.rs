//! Summaries of input schemas of tools: types of arguments, signatures, and values from text.
//!
//! A schema comes from a server and may be anything. Keywords that are not read here are left to
//! the server, which checks the arguments.

use std::collections::HashSet;

use tinymcp::json::{Doc, Json, Kind, Value, Writer};
use tinymcp::schema::Schema;

/// Largest number of schemas that are read for one argument, which bounds the time.
const MAX_SCHEMAS: usize = 128;
/// Largest depth of nested lists whose types are read.
const MAX_DEPTH: usize = 4;
/// Largest number of values of an `enum`, or of types, in a signature.
const MAX_VALUES: usize = 6;
/// Largest number of characters of a type.
const MAX_TYPE: usize = 60;

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
        let names = self.0.get("required").into_iter().flat_map(Value::items);
        let required: HashSet<&str> = names.filter_map(Value::as_str).collect();
        let properties = self.0.get("properties").into_iter().flat_map(Value::members);
        properties.map(move |(name, schema)| Argument {
            name,
            is_required: required.contains(name),
            root: self.0,
            schema,
        })
    }

    /// Returns the argument with this name.
    pub(crate) fn argument(self, name: &str) -> Option<Argument<'d>> {
        self.arguments().find(|argument| argument.name == name)
    }

    /// Returns whether other arguments than the declared ones are invalid.
    pub(crate) fn is_closed(self) -> bool {
        self.0.get("additionalProperties").and_then(Value::as_bool) == Some(false)
            && self.0.get("patternProperties").is_none()
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
        type_name(&self.alternatives(), MAX_DEPTH, self.root)
    }

    /// Returns the type with its bounds and its default, such as `integer 1..8 = 3`.
    pub(crate) fn details(self) -> String {
        let mut text = self.type_name();
        let word = |name: &str| self.keyword(name).map(Value::raw);
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

    /// Describes the accepted values for the user, such as `integer 1..8` or `yes or no`.
    pub(crate) fn expected(self) -> String {
        let details = self.details();
        let format = self.keyword("format").and_then(Value::as_str);
        match format {
            Some(format) => format!("{} ({format})", expected(details)),
            None => expected(details),
        }
    }

    /// Returns a text as a valid value; a list may be written as items with commas. The error
    /// describes the expected value.
    pub(crate) fn value(self, text: &str) -> Result<Json, String> {
        let mut w = Writer::new();
        let written = if self.is_list() && !text.trim_start().starts_with('[') {
            let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
            self.write_list(&mut w, &items.collect::<Vec<_>>())
        } else {
            self.write(&mut w, text)
        };
        let value = w.into_json();
        let is_valid = || match Schema::compile(self.schema) {
            Ok(schema) => schema.is_valid(value.to_doc().root()),
            // The server checks a schema with references to the rest of its document.
            Err(_) => true,
        };
        if written.is_ok() && is_valid() { Ok(value) } else { Err(self.expected()) }
    }

    pub(crate) fn description(self) -> &'d str {
        self.keyword("description").and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns a value for an example: a value of the schema if it has one, otherwise the type in
    /// capital letters.
    pub(crate) fn example(self) -> String {
        let first = |name: &str| self.keyword(name).and_then(|values| values.index(0));
        let own = first("examples")
            .or_else(|| first("enum"))
            .or_else(|| ["const", "default", "minimum"].into_iter().find_map(|name| self.keyword(name)));
        match own {
            Some(value) => value.as_str().map_or_else(|| value.raw().to_owned(), str::to_owned),
            None if accepts(&self.alternatives(), "boolean") => "true".to_owned(),
            None => self.type_name().to_ascii_uppercase(),
        }
    }

    /// Returns the values that the schema names, as texts.
    pub(crate) fn choices(self) -> Vec<String> {
        let alternatives = self.alternatives();
        let named = alternatives.iter().filter_map(|schema| values(*schema)).flatten();
        let mut texts: Vec<String> =
            named.map(|value| value.as_str().unwrap_or(value.raw()).to_owned()).collect();
        if accepts(&alternatives, "boolean") {
            texts.extend(["true".to_owned(), "false".to_owned()]);
        }
        texts
    }

    /// Returns whether the argument is a list, so that its name may be repeated.
    pub(crate) fn is_list(self) -> bool {
        accepts(&self.alternatives(), "array")
    }

    /// Writes a text as the value that the schema expects: a number for an integer, one item for a
    /// list. The error is the expected type.
    pub(crate) fn write(self, w: &mut Writer, text: &str) -> Result<(), String> {
        write(self.root, &self.alternatives(), w, text)
    }

    /// Writes the items of a list.
    pub(crate) fn write_list(self, w: &mut Writer, texts: &[&str]) -> Result<(), String> {
        let items = items(self.root, &self.alternatives());
        w.begin_array();
        for text in texts {
            write(self.root, &items, w, text)?;
        }
        w.end_array();
        Ok(())
    }

    /// Returns a keyword of the schema, which may be next to a reference or in its target.
    pub(crate) fn keyword(self, name: &str) -> Option<Value<'d>> {
        let alternatives = self.alternatives();
        self.schema.get(name).or_else(|| alternatives.iter().find_map(|schema| schema.get(name)))
    }

    fn alternatives(self) -> Vec<Value<'d>> {
        alternatives(self.root, self.schema)
    }
}

/// Returns the schemas that name a type or values, through references, `anyOf`, `oneOf` and
/// `allOf`.
fn alternatives<'d>(root: Value<'d>, schema: Value<'d>) -> Vec<Value<'d>> {
    let (mut open, mut found) = (vec![schema], Vec::new());
    for _ in 0..MAX_SCHEMAS {
        let Some(schema) = open.pop() else { break };
        let target = schema.get("$ref").and_then(Value::as_str).and_then(|r| r.strip_prefix('#'));
        if let Some(target) = target.and_then(|pointer| root.pointer(pointer)) {
            open.push(target);
        } else if let (None, named @ [_, ..]) = (values(schema), &*choices(schema)) {
            found.extend(named);
        } else if ["type", "enum", "const"].iter().any(|name| schema.get(name).is_some()) {
            found.push(schema);
        } else {
            let lists = ["anyOf", "oneOf", "allOf"].into_iter().filter_map(|name| schema.get(name));
            let start = open.len();
            open.extend(lists.flat_map(Value::items).take(MAX_SCHEMAS));
            // Read the first one first: `open` is a stack.
            open.get_mut(start..).unwrap_or_default().reverse();
        }
    }
    found
}

/// Returns the schemas inside `anyOf` and `oneOf` that name values.
fn choices(schema: Value<'_>) -> Vec<Value<'_>> {
    let lists = ["anyOf", "oneOf"].into_iter().filter_map(|name| schema.get(name));
    lists.flat_map(Value::items).take(MAX_SCHEMAS).filter(|schema| values(*schema).is_some()).collect()
}

/// Returns the types that a schema with a type, values or a constant accepts.
fn types(schema: Value<'_>) -> Vec<&str> {
    match schema.get("type") {
        Some(one) if one.kind() == Kind::String => one.as_str().into_iter().collect(),
        Some(several) => several.items().filter_map(Value::as_str).take(MAX_VALUES + 1).collect(),
        None => Vec::new(),
    }
}

/// Returns the values of `enum` or `const`.
fn values<'d>(schema: Value<'d>) -> Option<Vec<Value<'d>>> {
    match (schema.get("enum"), schema.get("const")) {
        (Some(values), _) if values.kind() == Kind::Array => Some(values.items().collect()),
        (_, Some(value)) => Some(vec![value]),
        _ => None,
    }
}

fn accepts(alternatives: &[Value<'_>], name: &str) -> bool {
    alternatives.iter().any(|schema| values(*schema).is_none() && types(*schema).contains(&name))
}

/// Returns the alternatives for an item of a list.
fn items<'d>(root: Value<'d>, of: &[Value<'d>]) -> Vec<Value<'d>> {
    let items = of.iter().filter_map(|schema| schema.get("items")).take(MAX_DEPTH);
    items.flat_map(|items| alternatives(root, items)).collect()
}

fn write(root: Value<'_>, of: &[Value<'_>], w: &mut Writer, text: &str) -> Result<(), String> {
    let is_equal = |value: &Value<'_>| value.as_str().unwrap_or(value.raw()) == text;
    let known = of.iter().filter_map(|schema| values(*schema)).flatten().find(is_equal);
    if let Some(value) = known {
        w.value(value);
        return Ok(());
    }
    if of.is_empty() {
        any(w, text);
        return Ok(());
    }
    let has = |name: &str| accepts(of, name);
    if let (true, Some(value)) = (has("boolean") && !has("string"), parse_bool(text)) {
        w.bool(value);
        return Ok(());
    }
    let parsed = Doc::parse(text).ok();
    let fits = |value: &Value<'_>| match value.kind() {
        Kind::Number => has("number") || has("integer") && value.as_f64().is_some_and(|n| n.fract() == 0.0),
        Kind::Bool => has("boolean"),
        Kind::Null => has("null") && !has("string"),
        Kind::Array => has("array"),
        Kind::Object => has("object"),
        Kind::String => false,
    };
    if let Some(value) = parsed.as_ref().map(Doc::root).filter(fits) {
        w.value(value);
    } else if has("string") {
        w.string(text);
    } else if has("array") {
        let items = items(root, of);
        if accepts(&items, "array") {
            return Err(type_name(of, MAX_DEPTH, root));
        }
        w.begin_array();
        write(root, &items, w, text)?;
        w.end_array();
    } else {
        return Err(expected(type_name(of, MAX_DEPTH, root)));
    }
    Ok(())
}

/// Writes JSON as it is, and other text as a string.
pub(crate) fn any(w: &mut Writer, text: &str) {
    match Doc::parse(text) {
        Ok(doc) => w.value(doc.root()),
        Err(_) => w.string(text),
    };
}

/// Describes a type for the user.
fn expected(name: String) -> String {
    match name.strip_prefix("boolean") {
        Some(rest) if !rest.starts_with(['|', '[']) => format!("yes or no{rest}"),
        _ if name.starts_with('"') => format!("one of {name}"),
        _ => name,
    }
}

/// Returns the truth value of a word.
pub(crate) fn parse_bool(text: &str) -> Option<bool> {
    match &*text.trim().to_ascii_lowercase() {
        "y" | "yes" | "true" => Some(true),
        "n" | "no" | "false" => Some(false),
        _ => None,
    }
}

fn type_name(of: &[Value<'_>], depth: usize, root: Value<'_>) -> String {
    let mut names: Vec<String> = Vec::new();
    for schema in of.iter().take(MAX_VALUES + 2) {
        let more = match values(*schema) {
            Some(values) => values.into_iter().take(MAX_VALUES + 1).map(|v| v.raw().to_owned()).collect(),
            None => {
                types(*schema).into_iter().map(|name| named(root, *schema, name, depth)).collect::<Vec<_>>()
            }
        };
        for name in more {
            if !names.contains(&name) && names.len() <= MAX_VALUES {
                names.push(name);
            }
        }
    }
    let is_null = names.iter().any(|name| name == "null");
    names.retain(|name| name != "null");
    if names.len() > MAX_VALUES {
        names.truncate(MAX_VALUES);
        names.push("...".to_owned());
    }
    match names.join("|") {
        text if text.is_empty() => if is_null { "null" } else { "any" }.to_owned(),
        text => shortened(text),
    }
}

/// Returns the name of a type. The name of a list includes the type of its items.
fn named(root: Value<'_>, schema: Value<'_>, name: &str, depth: usize) -> String {
    if name != "array" || depth == 0 {
        return name.to_owned();
    }
    match type_name(&items(root, &[schema]), depth - 1, root) {
        item if item.contains('|') => format!("({item})[]"),
        item => format!("{item}[]"),
    }
}

fn shortened(text: String) -> String {
    if text.chars().count() <= MAX_TYPE {
        return text;
    }
    text.chars().take(MAX_TYPE).chain("...".chars()).collect()
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
        "names":{"anyOf":[{"type":"array","items":{"type":"string"}},{"type":"null"}]},
        "level":{"anyOf":[{"enum":[1,2]},{"type":"null"}]},
        "all":{"allOf":[{"type":"string"}]},
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
            ("on", "yes", Ok("true")),
            ("on", "maybe", Err("yes or no")),
            ("pin", "4.0", Ok("4.0")),
            ("names", "42", Ok(r#"["42"]"#)),
            ("level", "1", Ok("1")),
            ("level", "7", Err("1|2")),
            ("all", "42", Ok(r#""42""#)),
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
             [note: string], [either: integer|string], [point: object], [loop: any], [names: string[]], [level: 1|2], \
             [all: string], [free: any])"
        );
        assert_eq!(Input(doc.root()).argument("pin").unwrap().details(), "integer 0..27");
    }

    #[test]
    fn a_schema_of_a_server_takes_no_long_time() {
        let branches = r##"{"$ref":"#/$defs/a"},"##.repeat(1000);
        let branches = branches.trim_end_matches(',');
        let names: Vec<String> = (0..20_000).map(|n| format!("\"p{n}\"")).collect();
        let properties: Vec<String> = names.iter().map(|name| format!("{name}:{{}}")).collect();
        let text = format!(
            r##"{{"properties":{{"x":{{"$ref":"#/$defs/a"}},{}}},"required":[{}],"$defs":{{"a":{{"anyOf":[{branches}]}}}}}}"##,
            properties.join(","),
            names.join(",")
        );
        let doc = Doc::parse(&text).unwrap();
        // Exponential work would not end.
        assert!(Input(doc.root()).signature().starts_with("(p0: any, "));
        let mut w = Writer::new();
        Input(doc.root()).argument("x").unwrap().write(&mut w, "1").unwrap();
        let list = r##"{"type":"array","items":{"$ref":"#/$defs/a"}},"##.repeat(1000);
        let list = list.trim_end_matches(',');
        let doc = Doc::parse(text.replace(branches, list)).unwrap();
        assert!(Input(doc.root()).argument("x").unwrap().details().starts_with("array[][][]["));
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
