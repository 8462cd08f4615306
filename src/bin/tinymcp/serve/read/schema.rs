//! Input and output schemas of tools, and the arguments that templates may name.

use tinymcp::json::{Json, Kind, Value, Writer};
use tinymcp::schema::{Formats, Schema};

use super::super::template::Properties;
use super::super::words::{self, nearest};
use super::document::Node;
use super::input::{self, Argument};
use super::members::Problems;

/// Schema of a tool without arguments.
const NO_ARGUMENTS: &str = r#"{"type":"object","properties":{},"additionalProperties":false}"#;

/// Maximum number of arguments of a tool or prompt, because each name is compared with the others.
pub(super) const MAX_ARGUMENTS: usize = 1000;

/// Input of a tool.
pub(super) struct Input {
    pub(super) schema: Json,
    pub(super) properties: Properties,
    /// Arguments with a default.
    pub(super) defaults: Vec<(String, Json)>,
}

impl Input {
    /// Input of a tool whose schema has a problem: accepts every placeholder in templates.
    fn unknown() -> Input {
        let properties = Properties { is_unknown: true, open: true, ..Properties::default() };
        Input { schema: Json::constant(NO_ARGUMENTS), properties, defaults: Vec::new() }
    }
}

/// Reads member `input`, a JSON Schema or the short form.
///
/// It is a JSON Schema if its `type` is `object`, otherwise the short form, whose values are texts
/// and JSON Schemas of single arguments.
pub(super) fn input(node: Option<Node<'_>>, problems: &mut Problems) -> Input {
    let Some(node) = node else { return of_schema(Json::constant(NO_ARGUMENTS)) };
    if !problems.any_object(&node) {
        return Input::unknown();
    }
    let before = problems.list.len();
    let is_schema = node.value.get("type").and_then(Value::as_str) == Some("object");
    let schema = if is_schema {
        compiles(&node, problems);
        misspelled_keywords(&node, problems);
        node.value.to_json()
    } else {
        short_form(&node, problems)
    };
    if problems.list.len() > before {
        return Input::unknown();
    }
    let input = of_schema(schema);
    check_defaults(&node, &input, problems);
    input
}

/// Reads member `outputSchema`.
pub(super) fn output(node: &Node<'_>, problems: &mut Problems) -> Option<Json> {
    if !problems.any_object(node) {
        return None;
    }
    compiles(node, problems);
    if node.value.get("type").is_none() && node.value.get("$ref").is_none() {
        problems.add(node, "missing `type`: a JSON Schema is expected, such as {\"type\": \"object\"}");
    }
    Some(node.value.to_json())
}

fn options() -> tinymcp::schema::Options {
    Schema::options().formats(Formats::Assert)
}

fn compiles(node: &Node<'_>, problems: &mut Problems) {
    if let Err(error) = options().compile(node.value) {
        problems.add(&node.below(&error.pointer), format!("invalid JSON Schema: {}", error.message));
    }
}

/// Reports a misspelled `required` or `properties`. JSON Schema ignores unknown keywords, and the
/// templates would then have the wrong names.
fn misspelled_keywords(node: &Node<'_>, problems: &mut Problems) {
    const NAMES: &str = "required properties";
    const SIMILAR: &str = "required properties dependentRequired maxProperties minProperties \
                           patternProperties propertyNames unevaluatedProperties";
    for (name, member) in node.members().filter(|(name, _)| !words::has(SIMILAR, name)) {
        let near = nearest(name, &mut NAMES.split(' ')).filter(|near| node.value.get(near).is_none());
        if let Some(near) = near {
            problems.add(&member, format!("unknown keyword {name:?}; did you mean {near:?}?"));
        }
    }
}

fn short_form(node: &Node<'_>, problems: &mut Problems) -> Json {
    let mut properties = Writer::new();
    let mut required = Writer::new();
    properties.begin_object();
    required.begin_array();
    let mut names: Vec<&str> = Vec::new();
    let mut has_schemas = false;
    if node.value.len() > MAX_ARGUMENTS {
        problems.add(node, format!("more than {MAX_ARGUMENTS} arguments"));
        return Json::constant(NO_ARGUMENTS);
    }
    for (key, member) in node.members() {
        let Some(((name, is_optional), argument)) = argument(key, &member, problems) else { continue };
        if names.contains(&name) {
            problems.add(&member, format!("the argument {name:?} is defined with and without `?`"));
        }
        names.push(name);
        properties.key(name);
        let has_default = match &argument {
            Some(argument) => {
                argument.write(&mut properties);
                argument.default.is_some()
            }
            None => {
                has_schemas = true;
                properties.value(member.value);
                member.value.get("default").is_some()
            }
        };
        if !is_optional && !has_default {
            required.string(name);
        }
    }
    properties.end_object();
    required.end_array();
    let mut w = Writer::new();
    w.begin_object().key("type").string("object");
    w.key("properties").json(&properties.into_json());
    w.key("required").json(&required.into_json());
    w.key("additionalProperties").bool(false).end_object();
    let schema = w.into_json();
    if has_schemas {
        check_arguments(node, &schema, problems);
    }
    schema
}

/// Reads an argument of the short form: its name, whether it is optional, and its text unless it
/// is a JSON Schema.
fn argument<'d>(
    key: &'d str,
    member: &Node<'d>,
    problems: &mut Problems,
) -> Option<((&'d str, bool), Option<Argument<'d>>)> {
    let text = member.value.as_str();
    // `properties` is a part of a JSON Schema without its type.
    if text.is_none() && (member.value.kind() != Kind::Object || key == "properties") {
        problems.expected(
            member,
            "a text such as \"integer 1..8\" or a JSON Schema (if `input` is one itself, add \"type\": \
             \"object\")",
        );
        return None;
    }
    let argument = input::name(key).and_then(|name| Ok((name, text.map(Argument::parse).transpose()?)));
    argument.map_err(|message| problems.add(member, message)).ok()
}

/// Compiles the JSON Schemas of arguments as a whole, where references start.
fn check_arguments(node: &Node<'_>, schema: &Json, problems: &mut Problems) {
    if let Err(error) = options().compile(schema.to_doc().root()) {
        let path = error.pointer.strip_prefix("/properties/").unwrap_or_default();
        let name = path.split('/').next().unwrap_or_default();
        let member = named(node, name).below(path.get(name.len()..).unwrap_or_default());
        problems.add(&member, format!("invalid JSON Schema: {}", error.message));
    }
}

/// Returns the argument of the short form with this name, or the whole form.
fn named<'d>(node: &Node<'d>, name: &str) -> Node<'d> {
    node.get(name).or_else(|| node.get(&format!("{name}?"))).unwrap_or_else(|| node.clone())
}

fn of_schema(schema: Json) -> Input {
    /// Keywords that may allow further names.
    const OPEN: &str = "$dynamicRef $ref allOf anyOf dependentSchemas if oneOf patternProperties then \
                        unevaluatedProperties";
    let doc = schema.to_doc();
    let root = doc.root();
    let mut input = Input { schema, properties: Properties::default(), defaults: Vec::new() };
    let required = root.get("required");
    let is_required =
        |name: &str| required.is_some_and(|names| names.items().any(|item| item.as_str() == Some(name)));
    if let Some(properties) = root.get("properties") {
        for (name, property) in properties.members() {
            let default = property.get("default");
            input.properties.names.push((name.to_owned(), default.is_some() || is_required(name)));
            input.defaults.extend(default.map(|value| (name.to_owned(), value.to_json())));
        }
    }
    // A template that names an argument which the schema does not mention is an error, even if the
    // schema does not forbid that argument.
    let additional = root.get("additionalProperties");
    let is_open = |value: Value<'_>| value.as_bool() == Some(true) || value.kind() == Kind::Object;
    input.properties.open = additional.is_some_and(is_open) || OPEN.split(' ').any(|k| root.get(k).is_some());
    input
}

/// Reports defaults that the schema of their argument rejects.
fn check_defaults(node: &Node<'_>, input: &Input, problems: &mut Problems) {
    let doc = input.schema.to_doc();
    for (name, default) in &input.defaults {
        let property = doc.root().get("properties").and_then(|properties| properties.get(name));
        // A reference to another part of the schema is not resolved here.
        let Some(schema) = property.and_then(|property| options().compile(property).ok()) else { continue };
        if let Err(violation) = schema.check(default.to_doc().root()) {
            let member = match node.get("properties").and_then(|properties| properties.get(name)) {
                Some(property) if node.value.get("type").and_then(Value::as_str) == Some("object") => {
                    property
                }
                _ => named(node, name),
            };
            problems.add(&member, format!("invalid default: {}", violation.message));
        }
    }
}
