//! Tests of the autofix: its changes, its reports, and the rest of the text.

use std::fs;
use std::path::Path;

use tinymcp::json::Doc;
use tinymcp::lint::{self, OptionalProperties, Snapshot};
use tinymcp::schema::Schema;

use super::tool;

/// Returns the fixed schema and the reports.
fn fixed(schema: &str, optional: OptionalProperties) -> (String, Vec<String>) {
    let fixed = lint::fix(&tool(schema), optional);
    let again = lint::fix(&Snapshot::parse(&fixed.text).unwrap(), optional);
    assert_eq!(
        (again.text.as_str(), again.changes),
        (fixed.text.as_str(), 0),
        "a second run changed {schema}"
    );
    let doc = Doc::parse(&fixed.text).unwrap();
    let text = doc.root().pointer("/0/inputSchema").unwrap().raw().to_owned();
    (text, fixed.unfixed.into_iter().map(|f| format!("{} {}", f.pointer, f.message)).collect())
}

#[track_caller]
fn becomes(schema: &str, expected: &str) {
    assert_eq!(fixed(schema, OptionalProperties::Require).0, expected);
}

/// Nothing changes, and the report contains `reason`.
#[track_caller]
fn left(schema: &str, reason: &str) {
    let (text, left) = fixed(schema, OptionalProperties::Require);
    assert_eq!(text, schema);
    assert!(left.iter().any(|l| l.contains(reason)), "{left:?}");
}

#[test]
fn the_example_is_fixed_byte_for_byte() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/tool-schema-lint");
    let loose = fs::read_to_string(folder.join("before.json")).unwrap();
    let expected = fs::read_to_string(folder.join("fixed.json")).unwrap();
    let fixed = lint::fix(&Snapshot::parse(&loose).unwrap(), OptionalProperties::Require);
    assert_eq!(fixed.text, expected);
    let again = lint::fix(&Snapshot::parse(&expected).unwrap(), OptionalProperties::Require);
    assert_eq!((again.text, again.changes), (expected, 0));
}

#[test]
fn objects_are_closed_and_their_members_required_at_every_depth() {
    let a = r#"{"type":"object","properties":{"a":{"type":"null"}}}"#;
    let closed = r#"{"type":"object","properties":{"a":{"type":"null"}},"required":["a"],"additionalProperties":false}"#;
    becomes(a, closed);
    for frame in [
        r#"{"type":"array","items":@}"#,
        r#"{"type":"array","prefixItems":[@]}"#,
        r#"{"anyOf":[@,{"type":"null"}]}"#,
        r#"{"type":"object","additionalProperties":@}"#,
        r#"{"$defs":{"d":@}}"#,
        r#"{"allOf":[@],"description":"wrapped"}"#,
    ] {
        becomes(&frame.replace('@', a), &frame.replace('@', closed));
    }
    becomes(
        r#"{"properties":{},"type":"object"}"#,
        r#"{"properties":{},"type":"object","additionalProperties":false}"#,
    );
    becomes(
        r#"{"type":"object","additionalProperties":true,"required":["b"],"properties":{"a":{"const":1},"b":{"type":"null"}}}"#,
        r#"{"type":"object","additionalProperties":false,"required":["b", "a"],"properties":{"a":{"const":1},"b":{"type":"null"}}}"#,
    );
}

#[test]
fn layout_numbers_and_escapes_stay_as_they_are() {
    becomes(
        "{ \"type\" : \"object\",\n\t\"properties\" : { \"\\u0061\" : {\"type\":\"number\",\"maximum\":1.50e2} }\n}",
        "{ \"type\" : \"object\",\n\t\"properties\" : { \"\\u0061\" : {\"type\":\"number\",\"maximum\":1.50e2} },\n\t\"required\" : [\"\\u0061\"],\n\t\"additionalProperties\" : false\n}",
    );
}

#[test]
fn optional_members_stay_optional_on_request() {
    let (text, _) = fixed(
        r#"{"type":"object","properties":{"a":{"const":1},"b":{"const":1}},"required":["a"]}"#,
        OptionalProperties::Keep,
    );
    assert_eq!(
        text,
        r#"{"type":"object","properties":{"a":{"const":1},"b":{"const":1}},"required":["a"],"additionalProperties":false}"#
    );
}

#[test]
fn an_object_is_closed_beside_combinators_that_only_require_members() {
    for tail in [
        r#""anyOf":[{"required":["a"]},{"required":["b"]}]"#,
        r#""oneOf":[{"required":["a"]},{"type":"object","required":["b"],"title":"t"}]"#,
        r#""not":{"required":["a","b"]}"#,
        r#""allOf":[{"anyOf":[{"required":["a"]},{}]}]"#,
    ] {
        let schema =
            format!(r#"{{"type":"object","properties":{{"a":{{"const":1}},"b":{{"const":1}}}},{tail}}}"#);
        becomes(&schema, &format!("{},\"unevaluatedProperties\":false}}", schema.strip_suffix('}').unwrap()));
    }
    becomes(
        r#"{"type":"object","additionalProperties":true,"properties":{"a":{}},"anyOf":[{"required":["a"]}]}"#,
        r#"{"type":"object","unevaluatedProperties":false,"properties":{"a":{}},"anyOf":[{"required":["a"]}]}"#,
    );
    for tail in [
        r#""allOf":[{"properties":{"b":{"const":1}},"required":["b"]}]"#,
        r#""anyOf":[{"required":["a"]},{"properties":{"b":{"const":1}},"required":["b"]}]"#,
        r##""$ref":"#/$defs/d","$defs":{"d":{"required":["a"]}}"##,
        r#""if":{"properties":{"a":{"const":1}}},"then":{"properties":{"b":{"const":1}}}"#,
        r#""dependentSchemas":{"a":{"properties":{"b":{"const":1}}}}"#,
    ] {
        let schema = format!(r#"{{"type":"object","properties":{{"a":{{"const":1}}}},{tail}}}"#);
        left(&schema, "declare more members");
    }
}

#[test]
fn objects_that_closing_would_break_are_left_and_reported() {
    left(r#"{"type":"object"}"#, "declares no properties");
    left(r#"{"type":"object","additionalProperties":{"type":"null"}}"#, "is a schema");
    left(r#"{"type":"object","properties":{},"required":["b"]}"#, "\"b\"");
    left(r#"{"type":"object","properties":{},"minProperties":1}"#, "minProperties");
    left(r#"{"type":"object","properties":{},"anyOf":[{"required":["b"]},{"required":["c"]}]}"#, "\"b\"");
    left(
        r#"{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{},"anyOf":[{}]}"#,
        "draft-07",
    );
    left(
        r##"{"type":"object","properties":{},"allOf":[{"$ref":"https://example.com/x"}]}"##,
        "declare more members",
    );
    left(
        r#"{"type":"object","properties":{},"if":{"properties":{"k":{"const":1}}}}"#,
        "declare more members",
    );
}

#[test]
fn an_object_is_left_open_beside_an_alternative_for_any_object() {
    // Random catalogs found the first two: `false` makes the other alternative fail, so no schema
    // declares the members of a value that the empty one accepts.
    let never = r#""a":{"type":"null"},"c":false"#;
    for schema in [
        format!(
            r#"{{"oneOf":[{{}},{{"type":"object","properties":{{{never}}},"if":{{"properties":{{"a":{{"const":1}}}}}},"then":{{"required":["a"]}}}}]}}"#
        ),
        format!(
            r#"{{"anyOf":[{{"type":"object","properties":{{{never}}},"patternProperties":{{"^a":{{"type":"null"}}}}}},{{}}]}}"#
        ),
        format!(r#"{{"anyOf":[{{"maxLength":5}},{{"type":"object","properties":{{{never}}}}}]}}"#),
        format!(
            r#"{{"type":"object","properties":{{"a":{{"const":null}}}},"anyOf":[true,{{"properties":{{{never}}}}}]}}"#
        ),
        format!(
            r##"{{"type":"object","properties":{{"a":{{"const":null}}}},"oneOf":[{{"properties":{{{never}}}}},{{"$ref":"#/$defs/any"}}],"$defs":{{"any":{{"allOf":[{{"anyOf":[{{"type":"string"}},{{"title":"any"}}]}}]}}}}}}"##
        ),
    ] {
        let valid = |schema: &str| {
            let (schema, value) =
                (Doc::parse(schema).unwrap(), Doc::parse(r#"{"a":null,"c":null}"#).unwrap());
            Schema::compile(schema.root()).unwrap().is_valid(value.root())
        };
        assert!(valid(&schema), "{schema}");
        let (text, _) = fixed(&schema, OptionalProperties::Keep);
        assert!(valid(&text), "{text}");
    }
}

#[test]
fn alternatives_with_members_are_each_closed_against_the_other() {
    // `{"a":1,"b":1}` was valid, by the second alternative, which does not declare `b`.
    becomes(
        r#"{"oneOf":[{"type":"object","properties":{"a":{"const":1},"b":{"const":2}},"required":["a","b"]},{"type":"object","properties":{"a":{"const":1}}}]}"#,
        r#"{"oneOf":[{"type":"object","properties":{"a":{"const":1},"b":{"const":2}},"required":["a","b"],"additionalProperties":false},{"type":"object","properties":{"a":{"const":1}},"required":["a"],"additionalProperties":false}]}"#,
    );
}

#[test]
fn members_stay_optional_if_requiring_them_could_make_the_schema_impossible() {
    let closed = |properties: &str, rest: &str| {
        format!(r#"{{"type":"object","properties":{{{properties}}},"additionalProperties":false{rest}}}"#)
    };
    for (property, reason) in [
        ("false", "certain"),
        (r##"{"$ref":"#"}"##, "recursive"),
        (r##"{"type":"array","items":{"$ref":"#"},"minItems":1}"##, "recursive"),
        (r##"{"anyOf":[{"$ref":"#"},{"$ref":"#/properties/x"}]}"##, "recursive"),
        (r##"{"$ref":"https://example.com/x"}"##, "certain"),
        (r#"{"enum":[]}"#, "certain"),
        (r#"{"type":"string","const":1}"#, "certain"),
        (r#"{"type":"integer","minimum":1.2,"maximum":1.8}"#, "certain"),
        (r#"{"type":"string","minLength":3,"maxLength":2}"#, "certain"),
        (r#"{"allOf":[{"type":"string"},{"type":"null"}]}"#, "certain"),
        (r#"{"oneOf":[{"type":"integer"},{"type":"integer"}]}"#, "certain"),
        (r#"{"not":{}}"#, "certain"),
    ] {
        left(&closed(&format!("\"x\":{property}"), ""), reason);
    }
    left(&closed(r#""a":{"const":1},"b":{"const":1}"#, r#","maxProperties":1"#), "maxProperties");
    left(&closed(r#""a":{"const":1}"#, r#","propertyNames":{"const":"b"}"#), "names");
    left(&closed(r#""a":{"const":1},"b":false"#, r#","dependentRequired":{"a":["b"]}"#), "depend");
    becomes(
        &closed(r##""n":{"type":"null"},"next":{"anyOf":[{"$ref":"#"},{"type":"null"}]}"##, ""),
        &closed(
            r##""n":{"type":"null"},"next":{"anyOf":[{"$ref":"#"},{"type":"null"}]}"##,
            r#","required":["n"]"#,
        ),
    );
    becomes(
        &closed(
            r#""a":{"anyOf":[{"type":"string"},{"type":"null"}],"title":"t"},"b":{"allOf":[{"const":1}]}"#,
            "",
        ),
        &closed(
            r#""a":{"anyOf":[{"type":"string"},{"type":"null"}],"title":"t"},"b":{"allOf":[{"const":1}]}"#,
            r#","required":["a"]"#,
        ),
    );
    // Neither of two definitions that contain each other becomes required; a member that refers to
    // them does.
    let cycle = |root: &str, a: &str, b: &str| {
        format!(
            r##"{{"type":"object","properties":{{"x":{{"$ref":"#/$defs/a"}}}},"$defs":{{"a":{{"type":"object","properties":{{"b":{{"$ref":"#/$defs/b"}}}}{a}}},"b":{{"type":"object","properties":{{"a":{{"$ref":"#/$defs/a"}}}}{b}}}}}{root}}}"##
        )
    };
    let shut = r#","additionalProperties":false"#;
    becomes(&cycle("", "", ""), &cycle(&format!(r#","required":["x"]{shut}"#), shut, shut));
}

#[test]
fn schemas_that_share_their_object_are_not_touched() {
    let inner = r#"{"type":"object","properties":{"x":{"const":1}}}"#;
    for schema in [
        format!(r#"{{"not":{inner}}}"#),
        format!(r#"{{"type":"array","contains":{inner}}}"#),
        format!(
            r##"{{"allOf":[{{"$ref":"#/$defs/a"}},{{"$ref":"#/$defs/b"}}],"unevaluatedProperties":false,"$defs":{{"a":{inner},"b":{inner}}}}}"##
        ),
        format!(
            r#"{{"properties":{{"c":{inner}}},"allOf":[{{"properties":{{"c":{inner}}}}}],"unevaluatedProperties":false}}"#
        ),
        format!(r#"{{"patternProperties":{{"^a":{inner},"b$":{inner}}},"additionalProperties":false}}"#),
        format!(
            r##"{{"$id":"https://example.com/","$defs":{{"a":{{"$id":"x","$defs":{{"b":{inner}}}}}}}}}"##
        ),
    ] {
        becomes(&schema, &schema);
    }
}

#[test]
fn unevaluated_properties_that_are_there_are_changed_and_not_added_again() {
    becomes(
        r#"{"type":"object","unevaluatedProperties":true,"properties":{"a":{}},"required":["a"],"anyOf":[{"required":["a"]}]}"#,
        r#"{"type":"object","unevaluatedProperties":false,"properties":{"a":{}},"required":["a"],"anyOf":[{"required":["a"]}]}"#,
    );
    left(
        r#"{"type":"object","unevaluatedProperties":true,"additionalProperties":true,"properties":{"a":{}},"required":["a"],"anyOf":[{"required":["a"]}]}"#,
        "both additionalProperties and unevaluatedProperties are true",
    );
}
