//! Schemas: every text is compiled or rejected. All validation functions agree, and so does the
//! crate jsonschema where it has the same rules.

use tinymcp::json::Doc;
use tinymcp::schema::Schema;

use crate::input::Input;

pub fn run(bytes: &[u8]) {
    let mut input = Input(bytes);
    if input.byte() % 2 == 0 {
        let (Some(schema), Some(value)) = (input.line(), input.rest()) else { return };
        let (Ok(schema), Ok(value)) = (Schema::parse(schema), Doc::parse(value)) else { return };
        agree(&schema, &value);
        return;
    }
    let text = generate(&mut input, 3, true);
    let ours = match Schema::parse(&text) {
        Ok(schema) => schema,
        // We reject this by definition; jsonschema follows such a reference during validation.
        Err(error) if error.to_string().contains("cycle of references") => return,
        Err(error) => panic!("{error}\n{text}"),
    };
    let oracle: serde_json::Value = serde_json::from_str(&text).expect("the generator writes JSON");
    let theirs = jsonschema::draft202012::new(&oracle).unwrap_or_else(|e| panic!("{e}\n{text}"));
    for _ in 0..4 {
        let value = value(&mut input, 3);
        let doc = Doc::parse(&value).expect("the generator writes JSON");
        let verdict = agree(&ours, &doc);
        let other = serde_json::from_str(&value).expect("the generator writes JSON");
        assert_eq!(verdict, theirs.is_valid(&other), "schema {text}\nvalue {value}");
    }
}

/// Returns the verdict, which must be the same for all validation functions.
fn agree(schema: &Schema, value: &Doc) -> bool {
    let valid = schema.is_valid(value.root());
    assert_eq!(schema.check(value.root()).is_ok(), valid);
    assert_eq!(schema.check_all(value.root(), 10).is_empty(), valid);
    valid
}

const NAMES: &[&str] = &["a", "b", "c", "é"];
const NUMBERS: &[&str] = &["0", "1", "-1", "2", "3", "0.5", "2.5", "1.0", "1e1", "7", "10"];
const COUNTS: &[&str] = &["0", "1", "2", "3"];
const TYPES: &[&str] = &["null", "boolean", "integer", "number", "string", "array", "object"];

/// Generates a schema of keywords with the same meaning for both: no formats, no patterns, no
/// external references.
pub fn generate(input: &mut Input<'_>, depth: usize, root: bool) -> String {
    if depth == 0 || input.is_empty() {
        return input.pick(&["true", "{}", "false", r#"{"type":"string"}"#, r#"{"type":"integer"}"#]).to_owned();
    }
    let mut members: Vec<(&str, String)> = Vec::new();
    for _ in 0..1 + input.below(4) {
        let (name, text) = keyword(input, depth);
        if members.iter().all(|(known, _)| *known != name) {
            members.push((name, text));
        }
    }
    if root {
        let definitions = format!("{{\"d\":{},\"e\":{}}}", generate(input, 1, false), generate(input, 2, false));
        members.push(("$defs", definitions));
    }
    let members: Vec<String> = members.iter().map(|(name, text)| format!("\"{name}\":{text}")).collect();
    format!("{{{}}}", members.join(","))
}

fn keyword(input: &mut Input<'_>, depth: usize) -> (&'static str, String) {
    let keyword = input.pick(&[
        "type", "properties", "required", "items", "prefixItems", "additionalProperties", "minimum", "maximum",
        "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength", "minItems", "maxItems", "uniqueItems",
        "minProperties", "maxProperties", "enum", "const", "anyOf", "oneOf", "allOf", "not", "if", "then", "else",
        "contains", "minContains", "maxContains", "propertyNames", "dependentRequired", "dependentSchemas",
        "unevaluatedProperties", "unevaluatedItems", "$ref",
    ]);
    let text = match keyword {
        "type" if input.below(2) == 0 => format!("\"{}\"", input.pick(TYPES)),
        "type" => {
            let (first, second) = (input.below(TYPES.len()), input.below(TYPES.len() - 1));
            let second = if second >= first { second + 1 } else { second };
            format!("[\"{}\",\"{}\"]", TYPES[first], TYPES[second])
        }
        "properties" | "dependentSchemas" => {
            let count = 1 + input.below(3);
            let members: Vec<String> =
                NAMES[..count].iter().map(|n| format!("\"{n}\":{}", generate(input, depth - 1, false))).collect();
            format!("{{{}}}", members.join(","))
        }
        "required" => names(input),
        "dependentRequired" => format!("{{\"{}\":{}}}", input.pick(NAMES), names(input)),
        "prefixItems" | "anyOf" | "oneOf" | "allOf" => {
            let (first, second) = (generate(input, depth - 1, false), generate(input, depth - 1, false));
            format!("[{first},{second}]")
        }
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => input.pick(NUMBERS).to_owned(),
        "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties" | "minContains"
        | "maxContains" => input.pick(COUNTS).to_owned(),
        "uniqueItems" => "true".to_owned(),
        "enum" => format!("[{},{}]", value(input, 1), value(input, 0)),
        "const" => value(input, 2),
        "$ref" => input.pick(&["\"#/$defs/d\"", "\"#/$defs/e\""]).to_owned(),
        _ => generate(input, depth - 1, false),
    };
    (keyword, text)
}

fn names(input: &mut Input<'_>) -> String {
    let count = input.below(NAMES.len());
    format!("{:?}", &NAMES[..count])
}

/// Generates a value similar to the schemas above.
pub fn value(input: &mut Input<'_>, depth: usize) -> String {
    match input.below(if depth == 0 { 5 } else { 8 }) {
        0 => "null".to_owned(),
        1 => input.pick(&["true", "false"]).to_owned(),
        2 => input.pick(NUMBERS).to_owned(),
        3 | 4 => format!("\"{}\"", input.pick(&["", "a", "ab", "é", "😀b"])),
        5 => {
            let items: Vec<String> = (0..input.below(4)).map(|_| value(input, depth - 1)).collect();
            format!("[{}]", items.join(","))
        }
        _ => {
            let count = input.below(NAMES.len() + 1);
            let members: Vec<String> =
                NAMES[..count].iter().map(|name| format!("\"{name}\":{}", value(input, depth - 1))).collect();
            format!("{{{}}}", members.join(","))
        }
    }
}
